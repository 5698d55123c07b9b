//! The work of a child of a fork: it is refused by all that it inherited, and then works
//! with a writer, readers and a queue of its own on the same database.

use std::io::{PipeReader, PipeWriter, Read as _, Write as _};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::time::Duration;

use leafpress::Profile;
use leafpress::load::Loader;
use leafpress::queue::{Outcome, Stop, Worker};
use leafpress::writer::Writer;

use crate::calls::{Inherited, refuse_all};
use crate::load::{INSERT, open, open_queue};
use crate::system::{self, End, Side};

/// Rows of one child have ids from its number times this on.
pub const IDS_EACH: i64 = 1_000;
/// Rows that a process has under way while it forks, from its first id on.
const TICKETS: i64 = 3;
/// Ids of a child's child, within those of the child.
const GRANDCHILD: i64 = 500;

/// Which child.
#[derive(Debug, Clone, Copy)]
pub struct Child<'a> {
    pub path: &'a Path,
    pub profile: Profile,
    pub first_id: i64,
    pub forks_again: bool,
}

/// Has this many things under way, to be inherited.
pub fn gather(writer: &Writer, stop: &Stop, first_id: i64) -> Inherited {
    let queue = open_queue(writer, "held");
    queue.push_many(["to be claimed".into(), "to be acked".into()]).unwrap();
    let mut transaction = queue.begin(Duration::from_secs(3_600)).unwrap();
    assert!(transaction.claim().unwrap().is_some());
    let token = queue.claim().unwrap().unwrap().token;
    let reader = writer.reader_named("in the middle of a transaction").unwrap();
    // In the other profiles a transaction that reads keeps the writer from committing.
    if writer.in_force().unwrap().profile.is_wal() {
        reader.execute_batch("BEGIN").unwrap();
    }
    reader.query_row("SELECT count(*) FROM t", [], |row| row.get::<_, i64>(0)).unwrap();
    let submit = |id| writer.submit(INSERT, (id, "under way")).unwrap();
    let tickets = (first_id..first_id + TICKETS).map(submit).collect();
    let (writer, stop) = (writer.clone(), stop.clone());
    Inherited { writer, queue, tickets, transaction, reader, stop, token }
}

/// The process that forked goes on with what it had; the ids of its rows.
pub fn settle(inherited: Inherited, first_id: i64) -> Vec<i64> {
    let Inherited { queue, tickets, transaction, reader, token, stop, .. } = inherited;
    assert!(!stop.is_asked(), "a child has asked its parent to stop");
    for ticket in tickets {
        ticket.wait().unwrap();
    }
    reader.query_row("SELECT count(*) FROM t", [], |row| row.get::<_, i64>(0)).unwrap();
    assert_eq!(transaction.commit().unwrap().acked, 1);
    queue.ack(token).unwrap();
    (first_id..first_id + TICKETS).collect()
}

impl Child<'_> {
    /// All of it; what it was answered and what was wrong goes to the parent, line by line.
    /// The status to exit with.
    pub fn run(self, inherited: Inherited, mut to_parent: PipeWriter) -> u8 {
        system::kill_me_in(crate::HANG_S);
        let outcome = catch_unwind(AssertUnwindSafe(|| {
            let complaints = refuse_all(inherited);
            assert!(complaints.is_empty(), "{complaints:#?}");
            self.work()
        }));
        let (ids, code) = match outcome {
            Ok(ids) => (ids, 0),
            Err(panic) => {
                let text = panic.downcast_ref::<String>().map_or("a panic", String::as_str);
                let _ = writeln!(to_parent, "{text}");
                (Vec::new(), 3)
            }
        };
        for id in ids {
            writeln!(to_parent, "{id}").unwrap();
        }
        code
    }

    /// The ids of the rows that were acknowledged.
    fn work(self) -> Vec<i64> {
        let id = self.first_id + TICKETS;
        let writer = open(self.path, self.profile);
        let mut ids: Vec<i64> = (id..id + 6).collect();
        writer.execute(INSERT, (id, "child")).unwrap();
        writer.submit(INSERT, (id + 1, "child")).unwrap().wait().unwrap();
        writer.transaction(move |tx| tx.execute(INSERT, (id + 2, "child"))).unwrap();
        let rows = (id + 3..id + 6).map(|id| (id, "child"));
        writer.insert_many("t", &["id", "who"], rows).unwrap();
        let found = writer.reader().unwrap().query_row(
            "SELECT count(*) FROM t WHERE id >= ?1 AND id < ?1 + 6",
            [id],
            |row| row.get(0),
        );
        assert_eq!(found, Ok(6), "rows of the child");
        let queue = open_queue(&writer, &format!("of child {id}"));
        queue.push("to itself").unwrap();
        let claim = queue.claim().unwrap().unwrap();
        queue.ack(claim.token).unwrap();
        queue.push("to its worker").unwrap();
        let worker = Worker::new(&queue).concurrency(2).until_empty();
        let report = worker.run(&Stop::new(), |_| Outcome::Done).unwrap();
        assert_eq!((report.done, queue.stats().unwrap().jobs.open()), (1, 0));
        if self.forks_again {
            ids.extend(self.fork_again(&writer));
            self.load();
        }
        if id % 2 == 0 {
            writer.close().unwrap();
        }
        ids
    }

    /// A child's child; the ids of both.
    fn fork_again(self, writer: &Writer) -> Vec<i64> {
        let first_id = self.first_id + GRANDCHILD;
        let grandchild = Child { first_id: first_id + TICKETS, forks_again: false, ..self };
        let inherited = gather(writer, &Stop::new(), first_id);
        let (from_child, to_parent) = std::io::pipe().unwrap();
        match system::fork() {
            Side::Child => {
                let code = grandchild.run(inherited, to_parent);
                system::leave(code.into());
            }
            Side::Parent(process) => {
                drop(to_parent);
                let mut ids = heard(from_child, process);
                ids.extend(settle(inherited, first_id));
                ids
            }
        }
    }

    /// A load works in a child too.
    fn load(self) {
        let made = self.path.with_file_name(format!("made-{}.db", self.first_id));
        let report = Loader::new(&made).load_reader("rows.csv", &b"a,b\n1,2\n3,4\n"[..]).unwrap();
        assert_eq!(report.rows_loaded, 2);
    }
}

/// The ids of a child's rows, which it printed before it ended as it should.
pub fn heard(mut from_child: PipeReader, process: i32) -> Vec<i64> {
    let mut said = String::new();
    from_child.read_to_string(&mut said).unwrap();
    let end = system::wait(process);
    assert_eq!(end, End::Exited(0), "a child (killed by 14: it hung) said:\n{said}");
    said.lines().map(|line| line.parse().expect("an id")).collect()
}
