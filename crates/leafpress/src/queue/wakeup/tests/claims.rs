//! Claims that wait, of real queues: two writers on one database, which reach
//! each other as two processes do.

use std::thread::JoinHandle;
use std::time::Duration;

use rusqlite::{Connection, TransactionBehavior};

use super::{Ground, PATIENCE, until};
use crate::error::{ErrorKind, Result};
use crate::queue::{Claim, ClaimOptions, Job, Queue};
use crate::writer::Writer;

/// Ends while a test waits for it.
const SHORT_LEASE: Duration = Duration::from_secs(1);
/// Does not end before a job is acked, on a busy machine too.
const LEASE: Duration = Duration::from_secs(600);

fn queue(ground: &Ground) -> (Writer, Queue) {
    let writer = Writer::builder(ground.database()).open().unwrap();
    let queue = Queue::open(&writer, "letters").unwrap();
    (writer, queue)
}

/// A claim that waits in a thread of its own.
fn claim_beside(queue: &Queue, lease: Duration) -> JoinHandle<Result<Vec<Claim>>> {
    let queue = queue.clone();
    let options = ClaimOptions::new().wait(PATIENCE).lease(lease);
    std::thread::spawn(move || queue.claim_with(&options))
}

fn claimed(waiting: JoinHandle<Result<Vec<Claim>>>) -> Claim {
    waiting.join().unwrap().unwrap().pop().expect("it came in time")
}

fn waits(ground: &Ground) {
    until("there is a waiter", || !ground.sockets().is_empty());
}

#[test]
fn a_push_is_heard_by_another_writer() {
    let ground = Ground::new();
    let ((pushing, letters), (claiming, same_letters)) = (queue(&ground), queue(&ground));
    let waiting = claim_beside(&same_letters, LEASE);
    waits(&ground);
    let pushed = letters.push(Job::bytes(b"post".to_vec())).unwrap();
    assert_eq!(claimed(waiting).id, pushed.id);
    drop((letters, same_letters));
    pushing.close().unwrap();
    claiming.close().unwrap();
    assert!(!ground.sockets_folder().exists());
    assert!(!ground.folder.path().join("app.db-wal").exists(), "there is no reader any more");
}

#[test]
fn a_delay_a_lease_and_a_foreign_push_end_a_wait() {
    let ground = Ground::new();
    let ((_pushing, letters), (_claiming, same_letters)) = (queue(&ground), queue(&ground));
    let waiting = claim_beside(&same_letters, SHORT_LEASE);
    waits(&ground);
    let delayed = Job::bytes(b"later".to_vec()).delay(Duration::from_millis(200));
    let pushed = letters.push(delayed).unwrap();
    let first = claimed(waiting);
    assert_eq!((first.id, first.attempt), (pushed.id, 1));

    // No consumer acks it: its lease ends without a wake-up.
    let second = claimed(claim_beside(&letters, LEASE));
    assert_eq!((second.id, second.attempt), (pushed.id, 2));
    same_letters.ack(second.token).unwrap();

    // A program that sends no wake-ups.
    let waiting = claim_beside(&letters, LEASE);
    let mut foreign = Connection::open(ground.database()).unwrap();
    // It takes the lock first: a transaction that has read does not wait for it.
    let transaction = foreign.transaction_with_behavior(TransactionBehavior::Immediate).unwrap();
    let pushed = Queue::push_on(&transaction, "letters", Job::bytes(Vec::new())).unwrap();
    transaction.commit().unwrap();
    assert_eq!(claimed(waiting).id, pushed.id);
}

/// Else the looks of one would wake the other, for ever.
#[test]
fn waiting_changes_nothing_in_the_database() {
    let ground = Ground::new();
    let (writer, letters) = queue(&ground);
    let look = Connection::open(ground.database()).unwrap();
    let version =
        || -> i64 { look.pragma_query_value(None, "data_version", |row| row.get(0)).unwrap() };
    // The first look makes its own preparations.
    assert!(letters.claim().unwrap().is_none());
    let before = version();
    let waiting = claim_beside(&letters, LEASE);
    waits(&ground);
    // The first look of the wake-up thread sends it to look again.
    std::thread::sleep(Duration::from_millis(1500));
    assert_eq!(version(), before);
    writer.close().unwrap();
    let error = waiting.join().unwrap().unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::Stopped { .. }), "{error}");
}
