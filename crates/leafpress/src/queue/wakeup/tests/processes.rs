//! Other processes: this test program once more, as a consumer.

use std::io::{BufRead as _, BufReader, Lines};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::Arc;

use rusqlite::Connection;

use super::super::{WakeUps, Woken};
use super::{Ground, NO_LOOKS, settle, until};

const DATABASE: &str = "LEAFPRESS_WAKE_UP_TEST_DATABASE";
const QUEUE: &str = "Warteschlange \u{1f514}\0\n";

/// A consumer in a process of its own, killed when dropped.
struct Consumer {
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Consumer {
    fn start(ground: &Ground) -> Self {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "queue::wakeup::tests::processes::as_a_consumer", "--nocapture"])
            .env(DATABASE, ground.database())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut consumer = Self { child, lines };
        assert_eq!(consumer.says(), "waits");
        consumer
    }

    /// The next thing that it says; what the test program itself prints is not.
    fn says(&mut self) -> String {
        let said = self.lines.find_map(|line| {
            line.unwrap().split_once("consumer: ").map(|(_, said)| said.to_owned())
        });
        said.expect("the consumer has ended")
    }
}

impl Drop for Consumer {
    fn drop(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

/// Takes one job; its number.
fn claim(connection: &Connection) -> Option<i64> {
    let sql = "DELETE FROM job WHERE id = (SELECT min(id) FROM job) RETURNING id";
    let mut statement = connection.prepare_cached(sql).unwrap();
    let mut rows = statement.query([]).unwrap();
    let id = rows.next().unwrap().map(|row| row.get(0).unwrap());
    // To the end: only then it is committed.
    assert!(rows.next().unwrap().is_none());
    id
}

/// The part of the other process; does nothing as a test of its own.
#[test]
fn as_a_consumer() {
    let Some(database) = std::env::var_os(DATABASE) else { return };
    let database = std::path::PathBuf::from(database);
    let connection = Connection::open(&database).unwrap();
    let wake_ups = WakeUps::with_pace(&database, None, Arc::new(|| 0), NO_LOOKS);
    let mut is_first = true;
    loop {
        let mut waiter = wake_ups.waiter(QUEUE).unwrap();
        let id = loop {
            if let Some(id) = claim(&connection) {
                break id;
            }
            if std::mem::take(&mut is_first) {
                println!("consumer: waits");
            }
            assert_eq!(waiter.wait(None, super::patience()), Woken::Look, "forgotten");
        };
        waiter.found();
        println!("consumer: {id}");
    }
}

/// A job, which must be a number that was never used: else it would prove less.
fn push(connection: &Connection, id: i64) {
    connection.execute("INSERT INTO job VALUES (?1)", [id]).unwrap();
}

#[test]
fn another_process_is_woken_for_each_job() {
    let ground = Ground::new();
    let connection = Connection::open(ground.database()).unwrap();
    let wake_ups = ground.wake_ups();
    let mut consumer = Consumer::start(&ground);
    for id in 1..=200 {
        push(&connection, id);
        wake_ups.wake(QUEUE, 1);
        assert_eq!(consumer.says(), id.to_string());
    }
}

#[test]
fn a_killed_process_leaves_a_socket_that_the_next_wake_up_removes() {
    let ground = Ground::new();
    let connection = Connection::open(ground.database()).unwrap();
    let wake_ups = ground.wake_ups();
    let mut first = Consumer::start(&ground);
    push(&connection, 1);
    wake_ups.wake(QUEUE, 1);
    assert_eq!(first.says(), "1");
    // Both are known to the sender when the first one dies.
    let mut second = Consumer::start(&ground);
    wake_ups.wake(QUEUE, 1);
    assert_eq!(ground.sockets().len(), 2);
    settle(&wake_ups.sender);
    drop(first);
    assert_eq!(ground.sockets().len(), 2, "no process has noticed");
    push(&connection, 2);
    wake_ups.wake(QUEUE, 1);
    assert_eq!(second.says(), "2");
    until("its socket is gone", || {
        wake_ups.wake(QUEUE, 1);
        ground.sockets().len() == 1
    });
    settle(&wake_ups.sender);
    drop(second);
    until("the folder is gone", || {
        wake_ups.wake(QUEUE, 1);
        !ground.sockets_folder().exists()
    });
}
