//! Rungs of many processes, as far as one process can play them; `tests/child_process.rs` runs them.

use super::callers::{Caller, is_refusal, until_taken};
use super::members::{member_request, sum_up};
use super::rung::{Access, Role, SharedRung, Work};
use super::{ours, rivals, shared_groups};
use crate::commits::{TABLE, left_of_calls};
use crate::connect;
use crate::error::Error;
use crate::options::{BenchOptions, Size};
use crate::rung::process::RungRequest;
use crate::rung::result::{MemberWork, RungResult};

fn rung(access: Access, work: Work) -> SharedRung {
    SharedRung {
        access,
        work,
        processes: 2,
        callers: 3,
        milliseconds_max: 50,
        sync_delay_us: 0,
        patience_ms: 60_000,
        role: Role::Rung,
    }
}

#[test]
fn a_member_is_asked_for_as_the_enum_of_all_rungs_reads_it() {
    let rung = rung(Access::Retries, Work::Rows);
    let request = member_request(rung, 1, std::path::Path::new("x.db"));
    let text = serde_json::to_string(&request).expect("JSON");
    let read: RungRequest = serde_json::from_str(&text).expect("the shape");
    assert_eq!(read.kind.name(), "rows, SQL, retries, 2 × 3");
    assert!(text.contains(r#""role":{"member":1}"#), "{text}");
}

fn answer(rows: u64, took_tenths_us: Vec<u32>, refused: u64, jobs_sums: [u64; 2]) -> RungResult {
    let work = MemberWork { took_tenths_us, refused, syncs: Some(rows / 4), jobs_sums };
    RungResult { wall_s: rows as f64, rows, member: Some(work), ..RungResult::default() }
}

#[test]
fn the_members_figures_are_summed_up_exactly() {
    let one = answer(8, vec![10, 20, 30], 1, [7, 0]);
    let other = answer(4, vec![40], 2, [5, 12]);
    let rung = rung(Access::Shared, Work::Jobs);
    let sum = sum_up(rung, &[one.clone(), other]).expect("as many claimed as pushed");
    assert_eq!((sum.rows, sum.wall_s), (12, 8.0));
    let latency = sum.latency_us.expect("calls");
    assert_eq!((latency.p50, latency.p99, latency.max), (2.0, 4.0, 4.0));
    let processes = sum.processes.expect("processes");
    assert_eq!((processes.refused, processes.processes, processes.callers), (3, 2, 3));
    let is = |found: f64, expected: f64| (found - expected).abs() < 1e-9;
    assert!(is(processes.slowest_of_mean, 4.0 / 6.0), "{processes:?}");
    assert!(processes.syncs_per_row.is_some_and(|syncs| is(syncs, 3.0 / 12.0)), "{processes:?}");
    let lost = sum_up(rung, &[one]).expect_err("a job was pushed and not claimed");
    assert!(matches!(lost, Error::Unequal { .. }), "{lost}");
}

#[test]
fn every_way_adds_its_rows_and_waits_for_a_lock() {
    for access in Access::RIVALS {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let database = folder.path().join("x.db");
        let connection = connect::open(&database, None).expect("it opens");
        connection.execute_batch("PRAGMA journal_mode = WAL").expect("WAL");
        connection.execute_batch(TABLE).expect("a table");
        let rung = rung(access, Work::Rows);
        let mut refused = 0;
        if access == Access::Unshared {
            let writer = ours::open(&rung, &database, None).expect("it opens");
            let mut caller = ours::Inserting::new(&writer, 4);
            (0..5).for_each(|n| caller.call(n, &mut refused).expect("a row"));
            writer.close().expect("it closes");
        } else {
            let mut caller = rivals::Inserting::open(&rung, &database, None, 4).expect("it opens");
            connection.execute_batch("BEGIN IMMEDIATE").expect("the lock");
            std::thread::scope(|scope| {
                let calls = scope.spawn(|| {
                    (0..5).for_each(|n| caller.call(n, &mut refused).expect("a row"));
                });
                std::thread::sleep(std::time::Duration::from_millis(20));
                connection.execute_batch("COMMIT").expect("it is given back");
                calls.join().expect("all rows");
            });
            caller.close().expect("it closes");
        }
        assert_eq!(refused, 0, "{access:?}");
        connect::close(connection).expect("it closes");
        let left = left_of_calls(&database).expect("it can be read");
        assert_eq!(left, "5 rows, each call's own; wal; ok", "{access:?}");
    }
}

#[test]
fn a_refused_call_is_made_again_and_counted_and_any_other_error_ends_it() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let database = folder.path().join("x.db");
    let holder = connect::open(&database, None).expect("it opens");
    holder.execute_batch("CREATE TABLE t(x); BEGIN IMMEDIATE").expect("the lock");
    let other = connect::open(&database, None).expect("it opens");
    let (mut refused, mut attempts) = (0, 0);
    let insert = |sql: &str| other.execute_batch(sql).map_err(Error::sqlite("insert"));
    until_taken(&mut refused, || {
        attempts += 1;
        if attempts == 3 {
            holder.execute_batch("COMMIT").expect("it is given back");
        }
        insert("INSERT INTO t VALUES (1)")
    })
    .expect("taken in the end");
    assert_eq!((refused, attempts), (2, 3));
    let wrong = until_taken(&mut refused, || insert("INSERT INTO nothing VALUES (1)"));
    assert!(wrong.is_err_and(|error| !is_refusal(&error)));
    assert_eq!(refused, 2);
}

#[test]
fn every_number_of_processes_has_all_rivals_beside_it() {
    for (size, numbers) in [(Size::Quick, vec![1, 2, 4]), (Size::Usual, vec![1, 2, 4, 8, 16])] {
        let groups = shared_groups(&BenchOptions::sized(size));
        assert_eq!(groups.len(), 2 * (numbers.len() + 2));
        for number in numbers {
            let name = format!("shared{number}");
            let found = groups.iter().find(|group| group.ratio_names().contains(&name));
            let group = found.expect("its group");
            assert_eq!(group.kinds.len(), 1 + Access::RIVALS.len());
            assert_eq!(group.rivals_that_keep_all().len(), Access::RIVALS.len());
        }
    }
}
