//! Power cuts and kills while two copies of SQLite in one process write to one database:
//! what either of them acknowledged is there, and the database is sound.
//!
//! Both copies go through one recorded folder in memory: our copy by a registered VFS, and
//! the second copy by the same VFS, borrowed. Its locks are those of single openings, as
//! those of another process would be. So what is tested here is the order of writes and
//! syncs of two copies that exclude each other, and recovery after it; `exclusion.rs` and
//! `two_copies.rs` test that they do on a real disk.
//!
//! 1. Nothing acknowledged is lost, under WAL + FULL and DELETE + EXTRA.
//! 2. The copy that may not enter is told that the database is busy, and changes nothing.
//! 3. Settings that lose are caught, also if only the second copy has them: its writes
//!    are in the same log.
#![cfg(unix)]

use std::ffi::CStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use leafpress::vfs::{Registration, register};
use leafpress_neighbour::{Connection as NeighboursConnection, Neighbour};
use leafpress_testing::crash::workload;
use leafpress_testing::crash::{
    Budget, Digest, Effort, History, Log, MEMORY_FOLDER, Mark, MemoryVfs, Outcome, Promise, Random,
    Recorder, Run, Simulator,
};
use rusqlite::{Connection, OpenFlags};

const TRANSACTIONS: u64 = 30;
const DATABASE: &str = "a.db";
/// Of 1,000 images that `make neighbours` asks for: so many for each journal mode.
const SHARE: u64 = 500;
const SHARE_OF_CONTROL: u64 = 25;
const IMAGES: u64 = 3_000;
const IMAGES_OF_CONTROL: u64 = 500;

/// `synchronous` of our copy's connections and of the neighbour's.
#[derive(Clone, Copy)]
struct Settings {
    journal_mode: &'static str,
    ours: &'static str,
    theirs: &'static str,
}

impl Settings {
    fn name(self) -> String {
        let Self { journal_mode, ours, theirs } = self;
        format!("{journal_mode}: ours {ours}, the neighbour {theirs}")
    }
}

/// A connection of one of the copies.
enum Side {
    Ours(Connection),
    Theirs(NeighboursConnection),
}

impl Side {
    fn open(is_ours: bool, vfs: &CStr, settings: Settings, random: &mut Random) -> Self {
        let synchronous = if is_ours { settings.ours } else { settings.theirs };
        let cache_pages = random.choose(&[2000, 2000, 5]);
        let checkpoint_pages = random.choose(&[8, 30, 1000]);
        let side = if is_ours {
            let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
            let opened = Connection::open_with_flags_and_vfs(DATABASE, flags, vfs).unwrap();
            opened.busy_timeout(Duration::ZERO).unwrap();
            Self::Ours(opened)
        } else {
            let opened = Neighbour::load().open_by(DATABASE, Duration::ZERO, Some(vfs));
            Self::Theirs(opened.unwrap())
        };
        side.execute(&format!(
            "PRAGMA synchronous = {synchronous}; PRAGMA cache_size = {cache_pages};
             PRAGMA wal_autocheckpoint = {checkpoint_pages};"
        ));
        side
    }

    /// All of the statements, which must succeed.
    fn execute(&self, sql: &str) {
        match self {
            Self::Ours(connection) => connection.execute_batch(sql).unwrap(),
            Self::Theirs(connection) => connection.execute(sql).unwrap(),
        }
    }

    /// Rule 2: the other copy is in a transaction.
    fn is_kept_out(&self) {
        let sql = "BEGIN IMMEDIATE";
        let is_busy = match self {
            Self::Ours(connection) => connection
                .execute_batch(sql)
                .is_err_and(|it| it.sqlite_error_code() == Some(rusqlite::ErrorCode::DatabaseBusy)),
            Self::Theirs(connection) => {
                connection.execute(sql).is_err_and(leafpress_neighbour::Error::is_busy)
            }
        };
        assert!(is_busy, "both copies are in a transaction at once");
    }

    /// The number of transactions that this copy sees.
    fn turns(&self) -> i64 {
        let sql = "SELECT count FROM turns";
        match self {
            Self::Ours(connection) => connection.query_row(sql, [], |row| row.get(0)).unwrap(),
            Self::Theirs(connection) => connection.query_i64(sql).unwrap(),
        }
    }

    fn checkpoint(&self, random: &mut Random) {
        let mode = random.choose(&["PASSIVE", "RESTART", "TRUNCATE"]);
        // It answers with a row, and under a rollback journal does nothing.
        self.execute(&format!("PRAGMA wal_checkpoint({mode})"));
    }
}

/// The statements of a transaction, which counts itself.
fn transaction(random: &mut Random) -> Vec<String> {
    let mut statements = vec!["UPDATE turns SET count = count + 1".to_owned()];
    for _ in 0..random.choose(&[0, 1, 1, 1, 2, 4, 12]) {
        let key = random.below(1000);
        let value = hex(random);
        let row = format!(
            "(SELECT id FROM t LIMIT 1 OFFSET {} % (1 + (SELECT count(*) FROM t)))",
            random.below(40)
        );
        statements.push(match random.below(10) {
            0..=4 => format!("INSERT INTO t (k, v) VALUES ({key}, x'{value}')"),
            5..=7 => format!("UPDATE t SET k = {key}, v = x'{value}' WHERE id = {row}"),
            8 => format!("DELETE FROM t WHERE id = {row}"),
            // Images shall be small.
            _ => "DELETE FROM t WHERE id < (SELECT max(id) - 20 FROM t)".to_owned(),
        });
    }
    statements
}

fn hex(random: &mut Random) -> String {
    let bytes = random.choose(&[0, 10, 60, 60, 200, 700, 2500]);
    let byte = random.number() as u8;
    format!("{byte:02x}").repeat(bytes)
}

/// One folder in memory, and a VFS by which both copies reach it.
struct Shared {
    recorder: Arc<Recorder<MemoryVfs>>,
    registration: Registration,
}

impl Shared {
    /// The database is there, and nothing is recorded yet.
    fn new(settings: Settings, random: &mut Random) -> Self {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let name = format!("crash-neighbour-{}", NUMBER.fetch_add(1, Ordering::Relaxed));
        let recorder = Arc::new(Recorder::new(MemoryVfs::new()));
        let registration = register(&name, Arc::clone(&recorder)).unwrap();
        Neighbour::load().borrow_vfs(registration.name()).unwrap();
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE;
        let connection =
            Connection::open_with_flags_and_vfs(DATABASE, flags, registration.name()).unwrap();
        let page_bytes = random.choose(&[512, 1024, 1024, 2048, 4096]);
        connection
            .execute_batch(&format!(
                "PRAGMA page_size = {page_bytes}; PRAGMA journal_mode = {};
                 CREATE TABLE t (id INTEGER PRIMARY KEY, k INTEGER NOT NULL, v BLOB NOT NULL);
                 CREATE INDEX t_k ON t (k);
                 CREATE TABLE turns (count INTEGER NOT NULL);
                 INSERT INTO turns VALUES (0);",
                settings.journal_mode
            ))
            .unwrap();
        Self { recorder, registration }
    }

    /// The content, read by a connection of our copy that is closed at once.
    fn content(&self) -> Digest {
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let name = self.registration.name();
        let connection = Connection::open_with_flags_and_vfs(DATABASE, flags, name).unwrap();
        workload::content(&connection).unwrap()
    }
}

/// Both copies commit in turns that the seed decides.
fn work(shared: &Shared, settings: Settings, random: &mut Random, log: &Log) -> History {
    let vfs = shared.registration.name();
    let mut history = History::new(&shared.content());
    let mut open: [Option<Side>; 2] = [None, None];
    for number in 0..TRANSACTIONS {
        for (side, is_ours) in open.iter_mut().zip([false, true]) {
            if random.percent(10) {
                *side = None;
            }
            side.get_or_insert_with(|| Side::open(is_ours, vfs, settings, random));
        }
        let [Some(theirs), Some(ours)] = &open else { unreachable!("both were opened") };
        let caller = random.below(2);
        let (side, other) = if caller == 0 { (theirs, ours) } else { (ours, theirs) };
        side.execute("BEGIN IMMEDIATE");
        for statement in transaction(random) {
            side.execute(&statement);
        }
        if random.percent(30) {
            other.is_kept_out();
        }
        side.execute("COMMIT");
        let mark = Mark { caller: caller as u64, number };
        log.acknowledged(mark.caller, mark.number);
        assert_eq!(other.turns(), number as i64 + 1, "the other copy does not see the commit");
        history.committed(mark, &shared.content());
        if random.percent(6) {
            random.choose(&[side, other]).checkpoint(random);
        }
        // At times both are closed at once, and the log goes with them.
        if random.percent(5) {
            open = [None, None];
        }
    }
    history
}

fn crash(
    simulator: &mut Simulator,
    settings: Settings,
    (seed, effort): (u64, Effort),
    [power_cut, killed]: [Promise; 2],
) -> Outcome {
    let random = &mut Random::of(&[seed, 31]);
    let shared = Shared::new(settings, random);
    let log = shared.recorder.watch_from(MEMORY_FOLDER, shared.recorder.inner().snapshot());
    let history = work(&shared, settings, random, &log);
    shared.recorder.unwatch(MEMORY_FOLDER);
    let recording = log.finish();
    let name = settings.name();
    let run = Run {
        name: &name,
        seed,
        recording: &recording,
        history: &history,
        database: DATABASE,
        begins_absent: false,
        content: workload::content,
        power_cut,
        killed,
    };
    simulator.simulate(&run, effort)
}

fn survey(settings: Settings, budget: Budget, promises: [Promise; 2]) -> Outcome {
    let outcome = budget.survey(&settings.name(), |simulator, seed, effort| {
        crash(simulator, settings, (seed, effort), promises)
    });
    outcome.assert_kept();
    outcome
}

fn nothing_is_lost(journal_mode: &'static str, synchronous: &'static str) {
    let settings = Settings { journal_mode, ours: synchronous, theirs: synchronous };
    let outcome = survey(settings, Budget::new(IMAGES, SHARE), [Promise::AllAcknowledged; 2]);
    assert!(outcome.power_cut.images > 0 && outcome.recovery.images > 0);
    assert!(outcome.killed.images > 0);
}

/// Rule 3. A killed process loses nothing even so.
fn is_caught(journal_mode: &'static str, ours: &'static str, theirs: &'static str) {
    let settings = Settings { journal_mode, ours, theirs };
    let budget = Budget::new(IMAGES_OF_CONTROL, SHARE_OF_CONTROL)
        .until(|outcome| outcome.power_cut.corrupt > 0 && outcome.power_cut.images_with_losses > 0);
    let outcome = survey(settings, budget, [Promise::Anything, Promise::AllAcknowledged]);
    let tally = outcome.power_cut;
    assert!(tally.corrupt > 0 && tally.images_with_losses > 0, "{}: {tally:?}", settings.name());
}

#[test]
fn wal_full_loses_nothing_of_both_copies() {
    nothing_is_lost("WAL", "FULL");
}

#[test]
fn delete_extra_loses_nothing_of_both_copies() {
    nothing_is_lost("DELETE", "EXTRA");
}

#[test]
fn no_syncs_are_caught() {
    is_caught("WAL", "OFF", "OFF");
    is_caught("DELETE", "OFF", "OFF");
}

#[test]
fn no_syncs_of_the_neighbour_alone_are_caught() {
    is_caught("WAL", "FULL", "OFF");
    is_caught("DELETE", "EXTRA", "OFF");
}
