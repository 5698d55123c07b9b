//! Transactions over two attached databases under power cuts and kills.
//!
//! 1. With rollback journals and EXTRA (the profile `rollback`) both databases
//!    have the transaction or none: SQLite's super-journal sees to it.
//! 2. With a WAL each database commits by itself, and a simulator that does not
//!    find them apart is broken.

use leafpress_testing::crash::{
    Budget, Digest, Effort, History, Mark, Outcome, Promise, Random, Run, Simulator,
    shared_recorder,
};
use rusqlite::{Connection, OpenFlags};

const TRANSACTIONS: u64 = 15;
/// Of 1,000 images that `make crash` asks for: so many for each journal mode.
const SHARE: u64 = 20;
const IMAGES: u64 = 1_500;

/// Content of both databases.
fn content(connection: &Connection) -> rusqlite::Result<Digest> {
    let attached = "SELECT count(*) FROM pragma_database_list WHERE name = 'other'";
    if connection.query_row(attached, [], |row| row.get::<_, i64>(0))? == 0 {
        connection.execute_batch("ATTACH 'b.db' AS other")?;
    }
    let mut digest = Digest::new();
    // A damaged second database is no state that there was.
    digest.query(connection, "PRAGMA other.integrity_check(1)")?;
    digest.query(connection, "SELECT a, b FROM main.t ORDER BY a")?;
    digest.query(connection, "SELECT a, b FROM other.t ORDER BY a")?;
    Ok(digest)
}

/// Rows into both databases, or at times into one of them.
fn transaction(connection: &Connection, number: u64, random: &mut Random) -> rusqlite::Result<()> {
    connection.execute_batch("BEGIN IMMEDIATE")?;
    let only = random.below(6);
    for (schema, index) in [("main", 0), ("other", 1)] {
        for _ in 0..=random.below(3) {
            let sql = format!("INSERT INTO {schema}.t (b) VALUES (zeroblob(?))");
            if only == index {
                continue;
            }
            connection.execute(&sql, [random.choose(&[1_i64, 100, 1500]) + number as i64])?;
        }
    }
    connection.execute_batch("COMMIT")
}

/// Records transactions over two databases, and crashes them.
fn crash(
    simulator: &mut Simulator,
    [journal_mode, synchronous]: [&str; 2],
    seed: u64,
    effort: Effort,
    promises: [Promise; 2],
) -> Outcome {
    let (recorder, registration) = shared_recorder();
    let random = &mut Random::of(&[seed, 1]);
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().canonicalize().unwrap();
    let [path, other] = ["a.db", "b.db"].map(|name| root.join(name));
    let page_bytes = random.choose(&[512, 1024, 4096]);
    for path in [&path, &other] {
        let sql = format!(
            "PRAGMA page_size = {page_bytes}; PRAGMA journal_mode = {journal_mode};
             CREATE TABLE t (a INTEGER PRIMARY KEY, b)"
        );
        Connection::open(path).unwrap().execute_batch(&sql).unwrap();
    }
    let log = recorder.watch(&root);
    let connection =
        Connection::open_with_flags_and_vfs(&path, OpenFlags::default(), registration.name())
            .unwrap();
    connection.execute("ATTACH ? AS other", [other.to_str().unwrap()]).unwrap();
    let setup = ["main", "other"].map(|schema| {
        format!(
            "PRAGMA {schema}.journal_mode = {journal_mode};
             PRAGMA {schema}.synchronous = {synchronous};"
        )
    });
    connection.execute_batch(&setup.concat()).unwrap();
    let mut history = History::new(&content(&connection).unwrap());
    for number in 0..TRANSACTIONS {
        transaction(&connection, number, random).unwrap();
        log.acknowledged(0, number);
        history.committed(Mark { caller: 0, number }, &content(&connection).unwrap());
    }
    drop(connection);
    recorder.unwatch(root.to_str().unwrap());
    let recording = log.finish();
    let [power_cut, killed] = promises;
    let run = Run {
        name: journal_mode,
        seed,
        recording: &recording,
        history: &history,
        database: "a.db",
        begins_absent: false,
        content,
        power_cut,
        killed,
    };
    simulator.simulate(&run, effort)
}

fn survey(settings: [&str; 2], budget: Budget, promises: [Promise; 2]) -> Outcome {
    let name = format!("{} + {}, two databases", settings[0], settings[1]);
    let outcome = budget.survey(&name, |simulator, seed, effort| {
        crash(simulator, settings, seed, effort, promises)
    });
    outcome.assert_kept();
    outcome
}

#[test]
fn rollback_journals_keep_two_databases_together() {
    for settings in [["DELETE", "EXTRA"], ["TRUNCATE", "EXTRA"]] {
        survey(settings, Budget::new(IMAGES, SHARE), [Promise::AllAcknowledged; 2]);
    }
}

#[test]
fn wals_do_not_keep_two_databases_together() {
    let budget = Budget::new(IMAGES, SHARE)
        .until(|outcome| outcome.power_cut.not_a_prefix > 0 && outcome.killed.not_a_prefix > 0);
    let outcome = survey(["WAL", "FULL"], budget, [Promise::Anything; 2]);
    let tallies = [outcome.power_cut, outcome.killed];
    for tally in tallies {
        assert!(tally.not_a_prefix > 0 && tally.corrupt == 0, "{tally:?}");
        assert_eq!(tally.images_with_losses, 0, "what was acknowledged is in both");
    }
}
