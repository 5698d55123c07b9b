//! Rungs of the Queue in this process, each very small. The wake-up, which is two
//! processes, is in `tests/child_process.rs`.

use std::path::Path;

use rusqlite::Connection;

use super::inserts::{EACH_CHART, Inserter, InsertsRung, ONCE_CHART, SqlSettings};
use super::rung::{ClaimRung, CycleRung, Filling, Keeper, Part, WakeupProcess, WakeupRung, Waking};
use crate::report::Safety;
use crate::rung::described::{Described, Found, Given, Left};
use crate::rung::result::RungResult;

fn cycle(by: Keeper, part: Part, safety: Safety, clients: u32, batch: u32) -> CycleRung {
    let milliseconds_max = u64::from(u32::MAX);
    CycleRung { by, part, safety, clients, batch, jobs: 50, milliseconds_max, sync_delay_us: 0 }
}

/// Jobs of a database, beside those that the rung should have left.
fn left(rung: &dyn Described, result: &RungResult, database: &Path) -> Left {
    let found = Found { database, input_rows: 0, is_first: true, is_alone: false };
    rung.check(result, &found).expect("it can be read")
}

/// Runs the rung on this database, and checks what it left, and that it left no more.
fn run(rung: &dyn Described, database: &Path) -> RungResult {
    let given = Given { database, input: database };
    let result = rung.run(&given).unwrap_or_else(|error| panic!("{}: {error}", rung.name()));
    let folder = database.parent().expect("a folder");
    let files: Vec<_> = std::fs::read_dir(folder).expect("a folder").flatten().collect();
    assert_eq!(files.len(), 1, "{}: {files:?}", rung.name());
    let left = left(rung, &result, database);
    assert_eq!(left.found, left.expected, "{}", rung.name());
    result
}

/// Runs the rung on a new database.
fn run_new(rung: &dyn Described) -> RungResult {
    let folder = tempfile::tempdir().expect("a temporary folder");
    run(rung, &folder.path().join("queue.db"))
}

#[test]
fn every_keeper_does_every_job_once() {
    for safety in Safety::ALL {
        for by in [Keeper::Leafpress, Keeper::SqlMutex, Keeper::SqlConnections] {
            for part in [Part::Push, Part::ClaimAck, Part::Cycle] {
                // Single jobs and clients differ in no profile.
                let is_all = safety == Safety::Durable;
                let sizes = if is_all { &[(1, 1), (3, 1), (3, 7)][..] } else { &[(3, 7)] };
                for (clients, batch) in sizes {
                    let rung = cycle(by, part, safety, *clients, *batch);
                    let result = run_new(&rung);
                    assert_eq!(result.rows, 50, "{rung:?}");
                    assert!(result.latency_us.is_some() && result.wall_s > 0.0, "{result:?}");
                }
            }
        }
    }
}

#[test]
fn what_the_time_cuts_is_counted_as_it_was_done() {
    for part in [Part::Push, Part::ClaimAck, Part::Cycle] {
        let rung = cycle(Keeper::Leafpress, part, Safety::Relaxed, 2, 3);
        let rung = CycleRung { jobs: 20_000, milliseconds_max: 1, ..rung };
        let result = run_new(&rung);
        assert!((1..20_000).contains(&result.rows), "{part:?}: {result:?}");
    }
}

#[test]
fn a_claim_finds_as_many_jobs_as_were_filled_in() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let database = folder.path().join("queue.db");
    for (waiting, leased, delayed) in [(150, 0, 0), (150, 40, 0), (150, 0, 30), (1, 1, 1)] {
        let among = Filling { waiting, leased, delayed };
        among.make(&database).expect("it is filled");
        let batch = if waiting > 100 { 100 } else { 1 };
        let rung = ClaimRung { safety: Safety::Relaxed, among, batch, claims: 3 };
        let result = run(&rung, &database);
        assert_eq!(result.rows, u64::from(3 * batch), "{among:?}");
        std::fs::remove_file(&database).expect("it can be removed");
    }
}

/// Every column but the id and the payload is what the Queue itself writes.
#[test]
fn jobs_that_are_filled_in_are_jobs_as_the_queue_makes_them() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let database = folder.path().join("queue.db");
    Filling { waiting: 5, leased: 4, delayed: 3 }.make(&database).expect("it is filled");
    let connection = Connection::open(&database).expect("it opens");
    let columns: String = connection
        .query_row(
            "SELECT group_concat(name) FROM pragma_table_info('leafpress_job') \
             WHERE name NOT IN ('id', 'payload')",
            [],
            |row| row.get(0),
        )
        .expect("columns");
    let one = |sql: &str| connection.query_row(sql, [], |row| row.get::<_, i64>(0)).expect(sql);
    let kinds = format!("SELECT count(*) FROM (SELECT DISTINCT {columns} FROM leafpress_job)");
    assert_eq!(one(&kinds), 3, "as many as were made by the Queue");
    assert_eq!(one("SELECT count(DISTINCT payload) FROM leafpress_job"), 12);
    assert_eq!(one("SELECT count(*) FROM leafpress_job WHERE typeof(payload) = 'blob'"), 12);
    assert_eq!(one("SELECT count(DISTINCT length(payload)) FROM leafpress_job"), 1);
}

#[test]
fn every_way_of_inserting_leaves_every_row() {
    let all = SqlSettings::ALL.into_iter();
    let sql = all.flat_map(|it| [Inserter::SqlOnce(it), Inserter::SqlEach(it)]);
    let ours = [
        Inserter::Writer(Safety::Durable, 1),
        Inserter::Writer(Safety::Relaxed, 3),
        Inserter::Push(Safety::Durable, 3),
        Inserter::Push(Safety::Relaxed, 1),
        Inserter::PushMany(Safety::Durable),
        Inserter::WriterMany(Safety::Durable),
    ];
    for by in sql.chain(ours) {
        let rung = InsertsRung { by, rows: 20, milliseconds_max: 60_000 };
        let result = run_new(&rung);
        assert_eq!((result.rows, result.rows_in_full), (20, None), "{by:?}");
    }
}

#[test]
fn the_check_finds_a_job_that_is_missing_and_one_that_is_there_twice() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let database = folder.path().join("queue.db");
    let rung = cycle(Keeper::SqlMutex, Part::Push, Safety::Durable, 1, 1);
    let found_after = |sql: &str| {
        let _ = std::fs::remove_file(&database);
        let result = run(&rung, &database);
        let connection = Connection::open(&database).expect("it opens");
        connection.execute_batch(sql).expect("it is done");
        drop(connection);
        let left = left(&rung, &result, &database);
        assert_ne!(left.found, left.expected, "{sql}");
        left.found
    };
    assert!(found_after("DELETE FROM job WHERE id = 7").starts_with("49 ready"));
    assert!(found_after("UPDATE job SET state = 1 WHERE id = 7").starts_with("49 ready, 1 leased"));
    assert!(found_after("UPDATE job SET state = 9 WHERE id = 7").starts_with("1 jobs in another"));
    let twice = "UPDATE job SET payload = (SELECT payload FROM job WHERE id = 8) WHERE id = 7";
    assert!(found_after(twice).starts_with("49 payloads of 50"));
    let more =
        "INSERT INTO job(due_at_ms, payload) VALUES (0, x'00'); DELETE FROM job WHERE id = 51";
    assert!(found_after(more).contains("of 51 pushed"));
    assert!(found_after("PRAGMA journal_mode = DELETE").contains("delete"));
}

/// A keeper that gives a job twice and loses another, which no table would show.
struct Forgetful {
    jobs: Vec<super::jobs::JobNumber>,
}

impl super::clients::Client for Forgetful {
    fn push(&mut self, jobs: &[super::jobs::JobNumber]) -> crate::Result<()> {
        self.jobs.extend(jobs);
        Ok(())
    }

    fn claim(
        &mut self,
        jobs_max: usize,
        claimed: &mut Vec<super::jobs::JobNumber>,
    ) -> crate::Result<()> {
        // The first job again and again.
        claimed.extend(self.jobs.iter().take(jobs_max));
        Ok(())
    }

    fn acknowledge(&mut self) -> crate::Result<()> {
        Ok(())
    }
}

#[test]
fn a_job_that_is_claimed_twice_is_found_out() {
    let rung = cycle(Keeper::Leafpress, Part::Cycle, Safety::Durable, 1, 1);
    let client = Forgetful { jobs: Vec::new() };
    let worked = super::clients::run(&rung, vec![client], super::jobs::Tally::default());
    let error = worked.expect_err("49 jobs are lost");
    assert!(error.to_string().contains("50 jobs"), "{error}");
}

#[test]
fn names_say_who_and_what() {
    let rung = cycle(Keeper::Leafpress, Part::Cycle, Safety::Durable, 64, 1);
    assert_eq!(rung.name(), "durable, leafpress, 64 × cycle");
    let rung = cycle(Keeper::SqlConnections, Part::ClaimAck, Safety::Rollback, 8, 100);
    assert_eq!(rung.name(), "rollback, SQL, locking, 8 × claim, ack of 100");
    let among = Filling { waiting: 1_000, leased: 100_000, delayed: 0 };
    let rung = ClaimRung { safety: Safety::Relaxed, among, batch: 100, claims: 3 };
    let name = rung.name();
    assert_eq!(name, "relaxed, leafpress, claim 100, 1k + 100k leased");
    let rung = WakeupRung { by: Waking::Waits, process: WakeupProcess::Pusher, jobs: 3 };
    assert_eq!(rung.name(), "wake-up, leafpress, waiting");
    let by = Inserter::SqlEach(SqlSettings::WalNormal);
    let name = InsertsRung { by, rows: 3, milliseconds_max: 9 }.name();
    assert_eq!(name, "inserts, SQL, wal normal, transactions");
}

#[test]
fn where_time_is_up_the_rows_that_are_in_are_counted_and_scaled() {
    let each = [
        Inserter::SqlEach(SqlSettings::Default),
        Inserter::Writer(Safety::Durable, 2),
        Inserter::Push(Safety::Durable, 1),
    ];
    for by in each {
        // No disk commits twenty million rows a second.
        let rung = InsertsRung { by, rows: 100_000, milliseconds_max: 5 };
        let result = run_new(&rung);
        assert!(result.rows < 100_000, "{by:?}: {}", result.rows);
        assert_eq!(result.rows_in_full, Some(100_000), "{by:?}");
        let (rows, wall_s) = (result.rows, result.wall_s);
        if rows > 0 {
            let scaled = result.scaled();
            assert_eq!((scaled.rows, scaled.sample_rows), (100_000, Some(rows)), "{by:?}");
            assert!(scaled.wall_s > wall_s, "{by:?}");
        }
    }
    let once =
        InsertsRung { by: Inserter::SqlOnce(SqlSettings::Wal), rows: 500, milliseconds_max: 0 };
    assert_eq!(run_new(&once).rows, 500, "one transaction is whole");
}

#[test]
fn inserts_are_in_two_charts_and_ours_is_the_last_of_each() {
    let options = crate::options::BenchOptions::default();
    let groups = super::plan::inserts_groups(&options);
    let kinds = &groups[0].kinds;
    for (chart, first, last, count) in [
        (EACH_CHART, "default, a transaction each", "Writer, 64 callers", 13),
        (ONCE_CHART, "default, one transaction", "Writer, insert_many", 7),
    ] {
        let labels: Vec<String> =
            kinds.iter().filter(|it| it.chart() == chart).map(|kind| kind.label()).collect();
        assert_eq!(labels.len(), count, "{labels:?}");
        assert_eq!(labels[0], first);
        assert_eq!(labels[count - 1], last);
        let distinct: std::collections::BTreeSet<&String> = labels.iter().collect();
        assert_eq!(distinct.len(), count, "{labels:?}");
    }
    let ratios: Vec<&str> = groups[0].ratios.iter().map(|it| it.name.as_str()).collect();
    for name in ["queue_inserts_vs_equal", "queue_inserts_vs_default"] {
        assert!(ratios.contains(&name), "{ratios:?}");
    }
    for ratio in groups[0].ratios.iter().filter(|it| it.name.ends_with("_vs_equal")) {
        assert!(ratio.rivals.iter().all(|rival| kinds[*rival].safety().keeps_all()), "{ratio:?}");
    }
}

#[test]
fn the_originals_figures_stand_beside_their_rungs() {
    let options = crate::options::BenchOptions::default();
    let groups = super::plan::inserts_groups(&options);
    let figures = groups[0].kinds.iter().filter_map(|kind| kind.original());
    let mut seconds: Vec<f64> = figures.filter_map(|figure| figure.seconds).collect();
    seconds.sort_by(f64::total_cmp);
    assert_eq!(seconds, [0.0875, 0.3, 0.622, 53.0, 63.0]);
    let about = super::inserts_about();
    assert_eq!(about.name, "queue-inserts");
    assert_eq!(about.original.map(|it| it.figures.len()), Some(5));
    assert!(super::inserts_order(&[]).starts_with("Too few"));
    assert_eq!(
        SqlSettings::ALL.map(|it| InsertsRung {
            by: Inserter::SqlEach(it),
            rows: 1,
            milliseconds_max: 1,
        }
        .safety()),
        [Safety::Relaxed, Safety::Relaxed, Safety::Rebuildable, Safety::Durable, Safety::Relaxed,]
    );
}
