//! Threads that keep a writer, its readers and its queues busy while the process forks.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use leafpress::Profile;
use leafpress::queue::{ClaimOptions, Outcome, Queue, Stop, Worker};
use leafpress::writer::Writer;

use crate::system::{self, End, Side};

pub const INSERT: &str = "INSERT INTO t VALUES (?1, ?2)";
const CALLERS: usize = 8;
/// Ids of the parent's rows; those of children are smaller.
const FIRST_ID: i64 = 1 << 40;
/// No lease ends within a test, so that each job comes once.
const LEASE: Duration = Duration::from_secs(3_600);

/// A writer with long patience, for a machine that has much to do. Under one profile it is shared.
pub fn open(path: &Path, profile: Profile) -> Writer {
    let builder = Writer::builder(path).profile(profile).busy_limit(Duration::from_secs(50));
    let builder = if profile == Profile::Durable { builder.shared() } else { builder };
    builder.open().unwrap()
}

pub fn open_queue(writer: &Writer, name: &str) -> Queue {
    Queue::builder(writer, name).settings(|it| it.lease = LEASE).open().unwrap()
}

/// State that all threads of the load share.
struct Shared {
    writer: Writer,
    mail: Queue,
    work: Queue,
    next_id: AtomicI64,
    ends: AtomicBool,
    acknowledged: Mutex<Vec<i64>>,
    pushed: Mutex<BTreeSet<String>>,
    handled: Mutex<Vec<String>>,
    forks: AtomicI64,
}

pub struct Load {
    shared: Arc<Shared>,
    stop: Stop,
    threads: Vec<JoinHandle<()>>,
    consumers: Vec<JoinHandle<()>>,
}

/// Work that was done.
pub struct Done {
    /// Ids of rows.
    pub acknowledged: Vec<i64>,
    pub pushed: BTreeSet<String>,
    pub handled: Vec<String>,
    /// Forks beside those of the test itself.
    pub forks: i64,
}

impl Load {
    pub fn start(writer: &Writer) -> Self {
        let shared = Arc::new(Shared {
            writer: writer.clone(),
            mail: open_queue(writer, "mail"),
            work: open_queue(writer, "work"),
            next_id: AtomicI64::new(FIRST_ID),
            ends: AtomicBool::new(false),
            acknowledged: Mutex::default(),
            pushed: Mutex::default(),
            handled: Mutex::default(),
            forks: AtomicI64::new(0),
        });
        let stop = Stop::new();
        let thread = |run: fn(&Shared)| {
            let shared = Arc::clone(&shared);
            std::thread::spawn(move || run(&shared))
        };
        let mut threads: Vec<_> = (0..CALLERS).map(|_| thread(Shared::write)).collect();
        threads.push(thread(Shared::fork));
        let consumer = |run: fn(&Shared, &Stop)| {
            let (shared, stop) = (Arc::clone(&shared), stop.clone());
            std::thread::spawn(move || run(&shared, &stop))
        };
        let consumers = vec![consumer(Shared::consume), consumer(Shared::work)];
        Self { shared, stop, threads, consumers }
    }

    pub fn stop(&self) -> &Stop {
        &self.stop
    }

    pub fn writer(&self) -> &Writer {
        &self.shared.writer
    }

    /// In a child: its threads are not there, so nothing may wait for them.
    pub fn abandon(self) {
        std::mem::forget(self.threads);
        std::mem::forget(self.consumers);
    }

    /// Ends the callers, lets the consumers work off the rest, and tells what was done.
    pub fn end(self) -> Done {
        let Self { shared, stop, threads, consumers } = self;
        shared.ends.store(true, Ordering::SeqCst);
        for thread in threads {
            thread.join().unwrap();
        }
        // Only now is each job counted that the callers push.
        let until = Instant::now() + Duration::from_secs(crate::HANG_S.into());
        while shared.handled.lock().unwrap().len() < shared.pushed.lock().unwrap().len() {
            assert!(Instant::now() < until, "a job does not come");
            std::thread::sleep(Duration::from_millis(10));
        }
        stop.now();
        for consumer in consumers {
            consumer.join().unwrap();
        }
        let take = |list: &Mutex<Vec<String>>| std::mem::take(&mut *list.lock().unwrap());
        Done {
            acknowledged: std::mem::take(&mut *shared.acknowledged.lock().unwrap()),
            pushed: std::mem::take(&mut *shared.pushed.lock().unwrap()),
            handled: take(&shared.handled),
            forks: shared.forks.load(Ordering::SeqCst),
        }
    }
}

impl Shared {
    fn ends(&self) -> bool {
        self.ends.load(Ordering::SeqCst)
    }

    /// One caller: calls of all kinds, reads and pushes among them.
    fn write(&self) {
        let mut round = 0_u64;
        while !self.ends() {
            round += 1;
            let id = self.next_id.fetch_add(3, Ordering::SeqCst);
            let ids = self.write_once(round, id);
            self.acknowledged.lock().unwrap().extend(ids);
            if round.is_multiple_of(16) {
                let reader = self.writer.reader().unwrap();
                let rows =
                    reader.query_row("SELECT count(*) FROM t", [], |row| row.get::<_, i64>(0));
                assert!(rows.unwrap() > 0);
            }
            if round.is_multiple_of(32) {
                let queue = if round.is_multiple_of(64) { &self.mail } else { &self.work };
                self.pushed.lock().unwrap().insert(id.to_string());
                queue.push(id.to_string().as_str()).unwrap();
            }
        }
    }

    /// Writes up to three rows; those that were acknowledged.
    fn write_once(&self, round: u64, id: i64) -> Vec<i64> {
        let writer = &self.writer;
        match round % 4 {
            0 => {
                writer.execute(INSERT, (id, "parent")).unwrap();
                vec![id]
            }
            1 => {
                let ticket = writer.submit(INSERT, (id, "parent")).unwrap();
                writer.submit(INSERT, (id + 1, "parent")).unwrap().wait().unwrap();
                ticket.wait().unwrap();
                vec![id, id + 1]
            }
            2 => {
                let inserted = writer.transaction(move |tx| {
                    tx.execute(INSERT, (id, "parent"))?;
                    tx.execute(INSERT, (id + 1, "parent"))
                });
                inserted.unwrap();
                vec![id, id + 1]
            }
            _ => {
                let rows = (id..id + 3).map(|id| (id, "parent"));
                assert_eq!(writer.insert_many("t", &["id", "who"], rows).unwrap(), 3);
                (id..id + 3).collect()
            }
        }
    }

    /// Forks beside the thread that the test forks from.
    fn fork(&self) {
        while !self.ends() {
            let child = match system::fork() {
                Side::Parent(child) => child,
                Side::Child => {
                    system::kill_me_in(crate::HANG_S);
                    let done = self.writer.execute(INSERT, (-2, "child")).is_ok();
                    system::leave(i32::from(done || self.mail.push("x").is_ok()));
                }
            };
            assert_eq!(system::wait(child), End::Exited(0), "a child beside the others");
            self.forks.fetch_add(1, Ordering::SeqCst);
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Waits for mail, one job at a time.
    fn consume(&self, stop: &Stop) {
        let waiting = ClaimOptions::new().wait(Duration::from_millis(300));
        while !stop.is_asked() {
            for claim in self.mail.claim_with(&waiting).unwrap() {
                self.mail.ack(claim.token).unwrap();
                self.handle(claim.payload.as_bytes());
            }
        }
    }

    fn handle(&self, payload: &[u8]) {
        self.handled.lock().unwrap().push(String::from_utf8(payload.to_vec()).unwrap());
    }

    fn work(&self, stop: &Stop) {
        let worker = Worker::new(&self.work).concurrency(2);
        let report = worker.run(stop, |job| {
            self.handle(job.payload.as_bytes());
            Outcome::Done
        });
        assert_eq!(report.unwrap().lease_lost, 0);
    }
}
