//! Forks from inside of what runs on the writer's or a worker's thread. The child may come
//! back from there: it must do nothing of what its parent goes on to do.

use std::io::{PipeWriter, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::ThreadId;

use leafpress::queue::{Outcome, Stop, Worker};
use leafpress::writer::{Ticket, Transaction, Writer};
use leafpress::{ErrorKind, Profile};
use rusqlite::Connection;

use crate::Ended;
use crate::load::{INSERT, open, open_queue};
use crate::system::{self, End, Side};

/// The work of a closure, in both processes.
#[derive(Clone)]
struct Forking {
    writer: Writer,
    path: PathBuf,
    profile: Profile,
    to_parent: Arc<Mutex<PipeWriter>>,
    child: Arc<AtomicI32>,
    thread: Arc<Mutex<Option<ThreadId>>>,
}

const IN_CHILD: i32 = -1;

impl Forking {
    fn say(&self, text: &str) {
        self.to_parent.lock().unwrap().write_all(text.as_bytes()).unwrap();
    }

    fn is_child(&self) -> bool {
        self.child.load(Ordering::SeqCst) == IN_CHILD
    }

    /// The body of a transaction: a row, a fork, a row.
    fn body(&self, tx: &Transaction<'_>) -> leafpress::Result<()> {
        tx.execute(INSERT, (1, "before the fork"))?;
        *self.thread.lock().unwrap() = Some(std::thread::current().id());
        match system::fork() {
            Side::Parent(child) => {
                self.child.store(child, Ordering::SeqCst);
                tx.execute(INSERT, (2, "after the fork"))?;
            }
            Side::Child => {
                system::kill_me_in(crate::HANG_S);
                self.child.store(IN_CHILD, Ordering::SeqCst);
                let refused = [
                    is_forked(&tx.execute(INSERT, (3, "child"))),
                    is_forked(&tx.insert_many("t", &["id", "who"], [(4, "child")])),
                    is_forked(&self.writer.execute(INSERT, (5, "child"))),
                    is_forked(&self.writer.submit(INSERT, (6, "child"))),
                ];
                if refused == [true; 4] {
                    self.say("refused ");
                }
                // The parent's transaction is in the way until it is committed.
                let own = open(&self.path, self.profile);
                own.execute(INSERT, (7, "the child's own")).unwrap();
                own.close().unwrap();
                self.say("wrote ");
            }
        }
        Ok(())
    }
}

fn is_forked<T>(outcome: &leafpress::Result<T>) -> bool {
    matches!(outcome, Err(error) if matches!(error.kind(), ErrorKind::Forked { .. }))
}

/// The rows of both processes, and no other.
fn judge(path: &Path) {
    let connection = Connection::open(path).unwrap();
    let mut statement = connection.prepare("SELECT id FROM t ORDER BY id").unwrap();
    let ids: Vec<i64> =
        statement.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect();
    assert_eq!(ids, [1, 2, 7]);
    let sound: String =
        connection.query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap();
    assert_eq!(sound, "ok");
}

/// A closure of a caller that waits, on its own thread if the writer's is asleep.
pub fn fork_inside(profile: Profile) -> Ended {
    forked(profile, |forking| {
        let body = forking.clone();
        forking.writer.transaction(move |tx| body.body(tx))
    })
}

/// A closure on the writer's thread: the child consists of that thread, and ends with it.
pub fn fork_inside_the_writers_thread(profile: Profile) -> Ended {
    forked(profile, |forking| {
        let body = forking.clone();
        forking.writer.submit_transaction(move |tx| body.body(tx)).and_then(Ticket::wait)
    })
}

fn forked(profile: Profile, run: impl Fn(&Forking) -> leafpress::Result<()>) -> Ended {
    let mut folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.db");
    let writer = open(&path, profile);
    writer.execute_batch("CREATE TABLE t(id INTEGER, who TEXT)").unwrap();
    let (mut from_child, to_parent) = std::io::pipe().unwrap();
    let forking = Forking {
        writer,
        path: path.clone(),
        profile,
        to_parent: Arc::new(Mutex::new(to_parent)),
        child: Arc::default(),
        thread: Arc::default(),
    };
    let outcome = run(&forking);
    if forking.is_child() {
        folder.disable_cleanup(true);
        forking.say(if is_forked(&outcome) { "came back" } else { "came back otherwise" });
        return Ended::Child(0);
    }
    outcome.unwrap();
    let on_own_thread = *forking.thread.lock().unwrap() == Some(std::thread::current().id());
    let end = system::wait(forking.child.load(Ordering::SeqCst));
    forking.writer.clone().close().unwrap();
    drop(forking);
    let mut said = String::new();
    from_child.read_to_string(&mut said).unwrap();
    let expected = if on_own_thread { "refused wrote came back" } else { "refused wrote " };
    assert_eq!((end, said.as_str()), (End::Exited(0), expected));
    judge(&path);
    println!("{profile}: a fork inside of a closure, on the caller's thread: {on_own_thread}");
    Ended::Parent
}

/// A worker's handler forks: a child that comes back from it ends, and the job is done once.
pub fn fork_inside_a_handler(profile: Profile) -> Ended {
    const JOBS: u64 = 6;
    let folder = tempfile::tempdir().unwrap();
    let writer = open(&folder.path().join("a.db"), profile);
    let queue = open_queue(&writer, "work");
    queue.push_many((0..JOBS).map(|number| number.to_string().as_str().into())).unwrap();
    let worker = Worker::new(&queue).concurrency(3).until_empty();
    let report = worker.run(&Stop::new(), |job| match system::fork() {
        Side::Parent(child) => {
            assert!(!job.lease_is_lost());
            assert_eq!(system::wait(child), End::Exited(1), "it came back from its handler");
            Outcome::Done
        }
        Side::Child => {
            system::kill_me_in(crate::HANG_S);
            if !job.lease_is_lost() || !is_forked(&queue.ack(job.token)) {
                system::leave(2);
            }
            Outcome::Dead { reason: "of the child".to_owned() }
        }
    });
    let report = report.unwrap();
    assert_eq!((report.done, report.claimed, report.panicked), (JOBS, JOBS, 0));
    writer.close().unwrap();
    println!("{profile}: {JOBS} handlers that forked, each job done once");
    Ended::Parent
}
