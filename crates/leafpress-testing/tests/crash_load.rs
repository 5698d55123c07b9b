//! Loads under power cuts: the old state or the new one, whole, and the new one
//! for sure as soon as the load has answered.
//!
//! 1. A load to a new file leaves no file or the whole database under its name.
//! 2. A new table, appended, replaced and changed rows in a database that is
//!    there come all or not at all, whatever its journal mode.
//! 3. So do those of the loads after a sync has failed, which was one of a load
//!    or of its checkpoint: the system forgets what it could not write.
//!
//! New files are written without SQLite: the loader tells the recorder of its
//! own steps. All else goes through the recorder as the default VFS.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use leafpress::load::{IntoTable, Layout, Loader, OnConflict, disk};
use leafpress::vfs::{FileKind, PlatformVfs, Registration, register_default};
use leafpress_testing::crash::{
    Budget, Digest, Effort, Event, History, Log, Mark, Outcome, Promise, Random, Recorder, Run,
    Simulator,
};
use rusqlite::{Connection, OpenFlags};
use tempfile::TempDir;

const LOADS: u64 = 4;
/// Loads into a database of which one sync fails.
const LOADS_THAT_FAIL: u64 = 7;
/// Of 1,000 images that `make crash` asks for: so many for each test.
const SHARE: u64 = 30;
const IMAGES: u64 = 3_000;

fn recorder() -> &'static Arc<Recorder<PlatformVfs>> {
    static RECORDER: OnceLock<(Arc<Recorder<PlatformVfs>>, Registration)> = OnceLock::new();
    let (recorder, _) = RECORDER.get_or_init(|| {
        let recorder = Arc::new(Recorder::new(PlatformVfs::new()));
        let registration = register_default("crash-recorder", Arc::clone(&recorder)).unwrap();
        disk::watch(Arc::clone(&recorder) as _).unwrap();
        (recorder, registration)
    });
    recorder
}

fn csv(random: &mut Random) -> String {
    let mut text = String::from("id,name,size\n");
    let mut id = 0;
    for _ in 0..random.choose(&[1, 5, 30]) {
        id += 1 + random.below(3);
        let name = "x".repeat(random.choose(&[1, 3, 20, 200]));
        let (end, size) = (random.below(100), random.below(1_000_000));
        writeln!(text, "{id},{name}{end},{size}").unwrap();
    }
    text
}

/// One load of some kind, the first of which makes the table `t`.
fn load(path: &Path, first: bool, random: &mut Random) -> leafpress::Result<()> {
    let loader = Loader::new(path).analyze(false);
    let (into, on_conflict) = random.choose(&[
        (IntoTable::Append, OnConflict::Ignore),
        (IntoTable::Append, OnConflict::Replace),
        (IntoTable::Replace, OnConflict::Abort),
    ]);
    let loader = match random.below(4) {
        // Two tables of a name there cannot be; rowids tell those names apart.
        0 if !first => loader.table(format!("t{}", random.number())).index("name"),
        _ if first => loader.table("t").primary_key("id").index("size"),
        _ => loader.table("t").into_table(into).on_conflict(on_conflict),
    };
    let text = csv(random);
    loader.load_reader("rows.csv", text.as_bytes()).map(drop)
}

/// A copy of the database, which no connection has open.
fn copied(path: &Path) -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    for name in ["a.db", "a.db-wal", "a.db-journal"] {
        let from = path.with_file_name(name);
        if from.exists() {
            fs::copy(from, folder.path().join(name)).unwrap();
        }
    }
    let copy = folder.path().join("a.db");
    (folder, copy)
}

/// Numbers the state, as a load may change nothing.
fn number_state(path: &Path, number: u64) {
    let connection = Connection::open(path).unwrap();
    connection.pragma_update(None, "synchronous", "EXTRA").unwrap();
    connection.execute("UPDATE states SET number = ?", [number as i64]).unwrap();
}

/// Looks at the database beside the recorder, which would see this as an opening.
fn content(path: &Path) -> Digest {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY;
    Digest::whole(&Connection::open_with_flags(path, flags).unwrap()).unwrap()
}

/// A load that changed nothing is no state, and cannot be lost.
fn commit(log: &Log, history: &mut History, number: u64, content: &Digest) {
    if history.is_changed_by(content) {
        log.acknowledged(0, number);
        history.committed(Mark { caller: 0, number }, content);
    }
}

fn create(journal_mode: &str, random: &mut Random) -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().canonicalize().unwrap().join("a.db");
    let vacuum = random.choose(&["NONE", "FULL", "INCREMENTAL"]);
    let page_bytes = random.choose(&[512, 1024, 4096]);
    let sql = format!(
        "PRAGMA page_size = {page_bytes}; PRAGMA auto_vacuum = {vacuum};
         PRAGMA journal_mode = {journal_mode}; CREATE TABLE states (number);
         INSERT INTO states VALUES (-1);",
    );
    Connection::open(&path).unwrap().execute_batch(&sql).unwrap();
    (folder, path)
}

/// Loads into a database of a journal mode, and crashes that.
fn crash_existing(
    simulator: &mut Simulator,
    journal_mode: &str,
    seed: u64,
    effort: Effort,
) -> Outcome {
    let random = &mut Random::of(&[seed, 1]);
    let (folder, path) = create(journal_mode, random);
    let log = recorder().watch(folder.path());
    let mut history = History::new(&content(&path));
    for number in 0..LOADS {
        load(&path, number == 0, random).unwrap();
        commit(&log, &mut history, 2 * number, &content(&path));
        number_state(&path, number);
        commit(&log, &mut history, 2 * number + 1, &content(&path));
    }
    let name = format!("load into {journal_mode}");
    finish(simulator, &name, seed, effort, &log, &history, (&path, |_| false))
}

/// Loads into a database of a journal mode while a sync of one of its files fails, and crashes that.
fn crash_failing(
    simulator: &mut Simulator,
    (journal_mode, file): (&str, FileKind),
    seed: u64,
    effort: Effort,
) -> Outcome {
    let random = &mut Random::of(&[seed, 3]);
    let (folder, path) = create(journal_mode, random);
    let log = recorder().watch(folder.path());
    log.fail_sync(file, 1 + random.below(8) as u64);
    let mut history = History::new(&content(&path));
    let mut loads_failed = 0;
    let mut has_table = false;
    for number in 0..LOADS_THAT_FAIL {
        if random.percent(30) {
            // It looks at the database, and closes it again.
            let loader = Loader::new(&path).table("states").into_table(IntoTable::Append);
            loader.load_reader("other.csv", &b"another\n1\n"[..]).unwrap_err();
        }
        let (_folder, copy) = copied(&path);
        let random_of_copy = &mut random.clone();
        let is_first = !has_table;
        let is_done = load(&path, is_first, random).is_ok();
        let now = content(&path);
        let is_changed = history.is_changed_by(&now);
        has_table |= is_changed;
        if is_done {
            commit(&log, &mut history, number, &now);
            continue;
        }
        loads_failed += 1;
        if is_changed {
            history.committed(Mark { caller: 0, number }, &now);
            continue;
        }
        load(&copy, is_first, random_of_copy).unwrap();
        let meant = content(&copy);
        if history.is_changed_by(&meant) {
            history.failed(&meant);
        }
    }
    assert!(loads_failed <= 1, "only one sync fails");
    let name = format!("load into {journal_mode}, a sync of {file:?} fails");
    finish(simulator, &name, seed, effort, &log, &history, (&path, |_| false))
}

/// Loads to a new file, and crashes that, with the syncs that are not `forged`.
fn crash_new(
    simulator: &mut Simulator,
    seed: u64,
    effort: Effort,
    forged: fn(&Event) -> bool,
) -> Outcome {
    let random = &mut Random::of(&[seed, 2]);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().canonicalize().unwrap().join("a.db");
    let log = recorder().watch(folder.path());
    let mut history = History::new(&Digest::new());
    let loader = Loader::new(&path).table("t").page_size(random.choose(&[512, 1024, 4096]));
    let loader = loader.layout(random.choose(&[Layout::Local, Layout::Remote]));
    let loader = match random.below(3) {
        // SQLite itself must see these rows, and fills the hidden file.
        0 => loader.declaration(
            "CREATE TABLE t (id INTEGER PRIMARY KEY, name, size CHECK (size >= 0));
             CREATE INDEX t_name ON t (name)",
        ),
        1 => loader.primary_key("id").index("name"),
        _ => loader,
    };
    loader.load_reader("rows.csv", csv(random).as_bytes()).unwrap();
    commit(&log, &mut history, 0, &content(&path));
    finish(simulator, "load to a new file", seed, effort, &log, &history, (&path, forged))
}

fn finish(
    simulator: &mut Simulator,
    name: &str,
    seed: u64,
    effort: Effort,
    log: &Log,
    history: &History,
    (path, forged): (&Path, fn(&Event) -> bool),
) -> Outcome {
    recorder().unwatch(path.parent().unwrap().to_str().unwrap());
    let mut recording = log.finish();
    recording.forge_syncs(forged);
    let run = Run {
        name,
        seed,
        recording: &recording,
        history,
        database: "a.db",
        begins_absent: recording.start.files.is_empty(),
        content: Digest::whole,
        power_cut: Promise::AllAcknowledged,
        killed: Promise::AllAcknowledged,
    };
    simulator.simulate(&run, effort)
}

fn survey(name: &str, run: impl Fn(&mut Simulator, u64, Effort) -> Outcome + Sync) {
    let outcome = Budget::new(IMAGES, SHARE).survey(name, run);
    outcome.assert_kept();
    assert!(outcome.power_cut.images > 0);
}

#[test]
fn a_new_file_is_there_whole_or_not_at_all() {
    survey("load to a new file", |simulator, seed, effort| {
        crash_new(simulator, seed, effort, |_| false)
    });
}

/// The simulator itself: a load that forgets to sync must not pass.
#[test]
fn a_load_that_forgets_a_sync_is_caught() {
    let forgotten: [fn(&Event) -> bool; 2] = [
        |event| matches!(event, Event::SyncFile { .. }),
        |event| matches!(event, Event::SyncFolder { .. }),
    ];
    let names = ["load that syncs no file", "load that syncs no folder"];
    for (forged, number) in forgotten.into_iter().zip(0..) {
        let budget = Budget::new(500, 1).until(if number == 0 {
            |outcome| outcome.power_cut.corrupt > 0
        } else {
            |outcome| outcome.power_cut.images_with_losses > 0
        });
        let outcome = budget.survey(names[number], |simulator, seed, effort| {
            crash_new(simulator, seed, effort, forged)
        });
        let tally = outcome.power_cut;
        let caught = if number == 0 { tally.corrupt } else { tally.images_with_losses };
        assert!(caught > 0, "{number}: {tally:?}");
    }
}

#[test]
fn loads_into_wal_databases_come_whole_or_not_at_all() {
    survey("load into WAL", |simulator, seed, effort| {
        crash_existing(simulator, "WAL", seed, effort)
    });
}

#[test]
fn loads_into_databases_with_rollback_journals_come_whole_or_not_at_all() {
    for journal_mode in ["DELETE", "TRUNCATE", "PERSIST"] {
        survey(&format!("load into {journal_mode}"), |simulator, seed, effort| {
            crash_existing(simulator, journal_mode, seed, effort)
        });
    }
}

#[test]
fn loads_after_a_failed_sync_come_whole_or_not_at_all() {
    for case in [
        ("WAL", FileKind::Wal),
        ("WAL", FileKind::MainDb),
        ("DELETE", FileKind::MainJournal),
        ("DELETE", FileKind::MainDb),
    ] {
        let name = format!("load into {}, a sync of {:?} fails", case.0, case.1);
        survey(&name, |simulator, seed, effort| crash_failing(simulator, case, seed, effort));
    }
}
