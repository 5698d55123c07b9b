//! Requests that come after the row of their group has been deleted, as of a machine that slept.
//!
//! 1. Such a group is not applied twice; its calls are answered that the outcome is unknown.
//! 2. Without the floor of the rows, the same requests apply it twice.
//! 3. A group that was never sent is not held back by the floor, whatever the clocks do.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use leafpress::queue::Job;
use leafpress::{ErrorKind, Result, Writer};
use leafpress_rqlite::{RqliteQueue, RqliteTarget};

use super::server::{Fault, Server};
use super::{queue, target, writer_of};

pub const MINUTE_MS: i64 = 60_000;
/// Groups after which one of them has deleted old rows.
const GROUPS: i64 = 70;

pub fn count(server: &Server, sql: &str) -> i64 {
    server.database.lock().unwrap().query_row(sql, [], |row| row.get(0)).unwrap()
}

/// Carries out `call`, whose first answer is lost; before it is sent again, others delete the row of its group.
fn with_a_deleted_row<T: Send>(
    server: &Server,
    applied: &str,
    call: impl FnOnce() -> Result<T> + Send,
    others: impl FnOnce(),
) -> Result<T> {
    server.silent.store(1, Ordering::Relaxed);
    std::thread::scope(|scope| {
        let call = scope.spawn(call);
        let begun = Instant::now();
        while count(server, applied) == 0 {
            assert!(begun.elapsed() < Duration::from_secs(2), "the call was not applied");
            std::thread::sleep(Duration::from_millis(5));
        }
        server.clock_ms.fetch_add(16 * MINUTE_MS, Ordering::Relaxed);
        others();
        call.join().unwrap()
    })
}

pub fn write_groups(server: &Server) {
    let other = writer_of(target(server));
    for key in 0..GROUPS {
        other.execute("INSERT INTO t VALUES (?1, 2)", [key]).unwrap();
    }
}

fn push_groups(server: &Server) {
    let other = queue::builder(server).connect().unwrap().open("other").unwrap();
    for _ in 0..GROUPS {
        other.push("other").unwrap();
    }
}

const ROWS: &str = "SELECT count(*) FROM t WHERE key = 'once'";
const JOBS: &str = "SELECT count(*) FROM leafpress_job WHERE queue = 1";
/// Takes away what deleting rows leaves behind.
const NO_FLOOR: &str = "DELETE FROM _leafpress_floor";

fn insert(writer: &Writer) -> Result<()> {
    writer.execute("INSERT INTO t VALUES ('once', 1)", ()).map(drop)
}

fn opened(server: &Server) -> RqliteQueue {
    let queue = queue::builder(server).connect().unwrap().open("mail").unwrap();
    // The queue has the time of the cluster then.
    queue.claim().unwrap();
    queue
}

#[test]
fn a_group_whose_row_was_deleted_is_not_applied_again() {
    let server = Server::start(0, 1);
    let writer = writer_of(target(&server));
    let done = with_a_deleted_row(&server, ROWS, || insert(&writer), || write_groups(&server));
    assert_eq!(count(&server, ROWS), 1);
    let error = done.unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::OutcomeUnknown { .. }), "{error}");
    // And the writer goes on.
    insert(&writer).unwrap();
    assert_eq!(count(&server, ROWS), 2);
}

#[test]
fn without_the_floor_it_is_applied_again() {
    let server = Server::start(0, 1);
    let writer = writer_of(target(&server));
    let others = || {
        write_groups(&server);
        server.database.lock().unwrap().execute_batch(NO_FLOOR).unwrap();
    };
    with_a_deleted_row(&server, ROWS, || insert(&writer), others).unwrap();
    assert_eq!(count(&server, ROWS), 2);
}

#[test]
fn a_group_of_a_queue_whose_row_was_deleted_is_not_applied_again() {
    let server = Server::start(0, 1);
    let mail = opened(&server);
    let done = with_a_deleted_row(&server, JOBS, || mail.push("x"), || push_groups(&server));
    assert_eq!(count(&server, JOBS), 1);
    let error = done.unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::OutcomeUnknown { .. }), "{error}");
    mail.push(Job::bytes("y")).unwrap();
    assert_eq!(count(&server, JOBS), 2);
}

#[test]
fn without_the_floor_it_is_applied_again_by_a_queue() {
    let server = Server::start(0, 1);
    let mail = opened(&server);
    let others = || {
        push_groups(&server);
        server.database.lock().unwrap().execute_batch(NO_FLOOR).unwrap();
    };
    with_a_deleted_row(&server, JOBS, || mail.push("x"), others).unwrap();
    assert_eq!(count(&server, JOBS), 2);
}

/// The row of the group is there, though others that are as old have been deleted.
#[test]
fn a_row_that_is_still_there_answers_a_late_request() {
    let server = Server::start(0, 1);
    let writer = writer_of(target(&server));
    let others = || {
        let floor = server.clock_ms.load(Ordering::Relaxed) / 1_000 - 60;
        let raise = format!("INSERT OR REPLACE INTO _leafpress_floor VALUES ('applied', {floor})");
        server.database.lock().unwrap().execute_batch(&raise).unwrap();
    };
    with_a_deleted_row(&server, ROWS, || insert(&writer), others).unwrap();
    assert_eq!(count(&server, ROWS), 1);
}

/// A node hands a request on twice; the floor has risen above its time when it comes for the second time.
#[test]
fn a_request_that_was_applied_is_not_refused_by_the_floor() {
    const RAISED: &str = "INSERT OR REPLACE INTO _leafpress_floor
         VALUES ('applied', 1000003600), ('queue', 1000003600000)";
    let server = Server::start(0, 1);
    let (writer, mail) = (writer_of(target(&server)), opened(&server));
    server.plan("'once'", Fault::Twice(RAISED));
    insert(&writer).unwrap();
    assert_eq!(count(&server, ROWS), 1);
    server.plan("correlation", Fault::Twice(RAISED));
    assert!(mail.push("x").unwrap().is_new);
    assert_eq!(count(&server, JOBS), 1);
    assert!(server.is_past_plans());
}

#[test]
fn a_floor_that_is_above_the_clock_holds_nothing_back() {
    let server = Server::start(0, 1);
    let (writer, mail) = (writer_of(target(&server)), opened(&server));
    // Others raise the floor before these ask for the time again.
    server.clock_ms.fetch_add(16 * MINUTE_MS, Ordering::Relaxed);
    write_groups(&server);
    push_groups(&server);
    insert(&writer).unwrap();
    mail.push("x").unwrap();
    // A leader whose clock was a day ahead has raised it, and is gone.
    server.clock_ms.fetch_add(24 * 60 * MINUTE_MS, Ordering::Relaxed);
    write_groups(&server);
    push_groups(&server);
    server.clock_ms.fetch_sub(24 * 60 * MINUTE_MS, Ordering::Relaxed);
    let (new, new_mail) = (writer_of(target(&server)), opened(&server));
    for (writer, mail) in [(&writer, &mail), (&new, &new_mail)] {
        insert(writer).unwrap();
        mail.push("x").unwrap();
    }
    assert_eq!((count(&server, ROWS), count(&server, JOBS)), (3, 3));
}

/// At the floor itself rows would not grow old; ahead of a leader that is ahead, each change of the leader would raise
/// the floor further.
#[test]
fn groups_go_on_from_the_time_of_a_leader_whose_clock_was_ahead() {
    let server = Server::start(0, 1);
    let day_ms = 24 * 60 * MINUTE_MS;
    let begun_ms = server.clock_ms.load(Ordering::Relaxed);
    // The last groups of the newest sessions, which have sent the most.
    let newest_of = ["1000 * at FROM _leafpress_applied", "at_ms FROM _leafpress_queue_group"];
    for (by_ms, more) in [day_ms, -day_ms, day_ms, -day_ms, day_ms].into_iter().zip(0..) {
        server.clock_ms.fetch_add(by_ms, Ordering::Relaxed);
        let (writer, mail) = (writer_of(target(&server)), opened(&server));
        for _ in 0..GROUPS + more {
            insert(&writer).unwrap();
            mail.push("x").unwrap();
        }
        for newest in newest_of {
            let at_ms = count(&server, &format!("SELECT {newest} ORDER BY number DESC LIMIT 1"));
            // Less than the time for which rows stay, and far more than the test takes.
            let distance_ms = (at_ms - begun_ms - day_ms).abs();
            assert!(distance_ms < 10 * MINUTE_MS, "{distance_ms} ms, by {by_ms}: {newest}");
        }
    }
}

/// A writer waits no longer than rows stay.
#[test]
fn a_time_limit_ends_before_the_rows_of_its_groups_go() {
    let server = Server::start(0, 1);
    let writer = writer_of(
        RqliteTarget::new(server.url.parse().unwrap()).time_limit(Duration::from_secs(1 << 40)),
    );
    insert(&writer).unwrap();
    let newest = "SELECT max(at) FROM _leafpress_applied";
    assert!(count(&server, newest) <= server.clock_ms.load(Ordering::Relaxed) / 1_000 + 60);
}

/// The version before had the other tables, with the same columns.
#[test]
fn tables_of_the_version_before_are_taken_up() {
    let server = Server::start(0, 1);
    let (writer, mail) = (writer_of(target(&server)), opened(&server));
    let older = || server.database.lock().unwrap().execute_batch("DROP TABLE _leafpress_floor");
    for _ in 0..2 {
        older().unwrap();
        insert(&writer).unwrap();
        older().unwrap();
        mail.push("x").unwrap();
    }
    older().unwrap();
    insert(&writer_of(target(&server))).unwrap();
    older().unwrap();
    opened(&server).push("x").unwrap();
    assert_eq!((count(&server, ROWS), count(&server, JOBS)), (3, 3));
}
