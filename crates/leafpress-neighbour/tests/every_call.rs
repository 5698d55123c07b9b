//! While a Writer holds a database, everything that the same process may do to it: each
//! public function of `leafpress`, files read and copied, a neighbour's connections. After
//! each of them another process still meets the Writer's locks, and no row is lost.
//!
//! ```text
//! parent (one SQLite: another program)      child (the Writer, and the calls)
//!   locks held? ◄──────────────────── "held"  a Writer, in a transaction or with its log open
//!   "go" ──────────────────────────────────►  the call
//!   locks still held? may I write? ◄─ "called"
//!   "go" ──────────────────────────────────►  the transaction ends, one row more, close
//!   all rows there? ◄──────────────── "closed"
//! ```
//!
//! The child is this executable, started again; so there is no test harness. All failures
//! are listed at the end. In a third scene a neighbour has the transaction, and our copy's
//! functions must not take its locks. Must never: let the parent call `leafpress` or a neighbour.
#![cfg(unix)]

#[path = "every_call/calls.rs"]
mod calls;

use std::fmt::Debug;
use std::io::{BufRead as _, BufReader, Lines, Write as _};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, ExitCode, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use leafpress::Profile;
use leafpress::writer::{Ticket, Writer};
use leafpress_neighbour::{
    Connection as NeighboursConnection, ForeignLock, Neighbour, lock_by_others,
};
use rusqlite::Connection;

use calls::{By, Given, Meets, calls};

const CHILD_FLAG: &str = "--call";
/// A child that is there for so long hangs. All of its calls take some seconds.
const CHILD_LIFE_MAX: Duration = Duration::from_secs(600);
const PROFILES: [Profile; 4] =
    [Profile::Durable, Profile::Relaxed, Profile::Rollback, Profile::Rebuildable];

/// State of the Writer at the time of the call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Scene {
    /// A transaction is open and has written.
    InTransaction,
    /// Nothing but its connections are open.
    Idle,
    /// As before, and a neighbour is in a transaction: our copy must not take its locks.
    NeighbourInTransaction,
}

impl Scene {
    const ALL: [Self; 3] = [Self::InTransaction, Self::Idle, Self::NeighbourInTransaction];

    /// Returns true if it has a call of this kind.
    fn has(self, by: By, meets: Meets) -> bool {
        match self {
            Self::InTransaction => meets != Meets::Waits,
            Self::Idle => true,
            Self::NeighbourInTransaction => by == By::Ours && meets != Meets::Waits,
        }
    }
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        [_, CHILD_FLAG, folder, profile, scene] => {
            let scene = Scene::ALL.into_iter().find(|it| format!("{it:?}") == *scene);
            be_the_child(folder.as_ref(), profile.parse().unwrap(), scene.unwrap());
            ExitCode::SUCCESS
        }
        [_, flags @ ..] if flags.contains(&"--list") => ExitCode::SUCCESS,
        _ => be_the_parent(),
    }
}

// --- the child ---

fn writer_of(path: &Path, profile: Profile) -> leafpress::Result<Writer> {
    let builder = Writer::builder(path).profile(profile).busy_limit(Duration::from_millis(200));
    if profile == Profile::Rebuildable { builder.rebuildable_ok() } else { builder }.open()
}

fn say(text: &str) {
    let line = format!("{}\n", text.replace('\n', " "));
    std::io::stdout().lock().write_all(line.as_bytes()).unwrap();
}

fn wait_for_go() {
    let mut line = String::new();
    std::io::stdin().read_line(&mut line).unwrap();
    assert_eq!(line, "go\n", "the parent is gone");
}

/// Each call with a database and a Writer of its own, so that none meets what another left.
fn be_the_child(folder: &Path, profile: Profile, scene: Scene) {
    std::thread::spawn(|| {
        std::thread::sleep(CHILD_LIFE_MAX);
        eprintln!("a call hangs");
        std::process::exit(1);
    });
    for (number, (by, (_, meets, call))) in calls().into_iter().enumerate() {
        if !scene.has(by, meets) {
            continue;
        }
        let folder = folder.join(number.to_string());
        std::fs::create_dir(&folder).unwrap();
        let path = folder.join("a.db");
        let writer = writer_of(&path, profile).unwrap();
        writer.execute_batch("CREATE TABLE t (x); INSERT INTO t VALUES ('first')").unwrap();
        let held = match scene {
            Scene::InTransaction => Held::by_writer(&writer),
            Scene::Idle => Held::Nothing,
            Scene::NeighbourInTransaction => Held::by_neighbour(&path),
        };
        say(&format!("held {number}"));
        wait_for_go();
        match call(&Given { path: &path, profile, writer: &writer }) {
            Ok(()) => say("called"),
            Err(error) => say(&format!("refused {error}")),
        }
        wait_for_go();
        held.end();
        answer("a row more", writer.execute("INSERT INTO t VALUES ('last')", ()));
        answer("close", writer.close());
        say("closed");
        wait_for_go();
    }
}

fn answer<T, E: Debug>(what: &str, outcome: Result<T, E>) {
    if let Err(error) = outcome {
        say(&format!("failed {what}: {error:?}"));
    }
}

/// A transaction that is open during a call, and has written.
enum Held {
    Nothing,
    ByWriter(Ticket<()>, mpsc::Sender<()>),
    ByNeighbour(NeighboursConnection),
}

impl Held {
    fn by_writer(writer: &Writer) -> Self {
        let (entered, has_entered) = mpsc::channel();
        let (leave, may_leave) = mpsc::channel::<()>();
        let ticket = writer.submit_transaction(move |transaction| {
            transaction.execute("INSERT INTO t VALUES ('held')", ())?;
            entered.send(()).unwrap();
            may_leave.recv().unwrap();
            Ok(())
        });
        has_entered.recv().unwrap();
        Self::ByWriter(ticket.unwrap(), leave)
    }

    fn by_neighbour(path: &Path) -> Self {
        let connection = Neighbour::load().open(path, Duration::from_secs(5)).unwrap();
        connection.execute("BEGIN IMMEDIATE; INSERT INTO t VALUES ('held')").unwrap();
        Self::ByNeighbour(connection)
    }

    fn end(self) {
        match self {
            Self::Nothing => {}
            Self::ByWriter(ticket, leave) => {
                leave.send(()).unwrap();
                answer("the held transaction", ticket.wait());
            }
            Self::ByNeighbour(connection) => {
                answer("the neighbour's transaction", connection.execute("COMMIT"));
            }
        }
    }
}

// --- the parent ---

/// The child's end of the talk.
struct Other {
    process: Child,
    commands: ChildStdin,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Drop for Other {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl Other {
    fn start(folder: &Path, profile: Profile, scene: Scene) -> Self {
        let mut process = Command::new(std::env::current_exe().unwrap())
            .args([CHILD_FLAG, folder.to_str().unwrap(), profile.name(), &format!("{scene:?}")])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let commands = process.stdin.take().unwrap();
        let lines = BufReader::new(process.stdout.take().unwrap()).lines();
        Self { process, commands, lines }
    }

    fn hear(&mut self) -> Option<String> {
        self.lines.next().map(Result::unwrap)
    }

    fn go(&mut self) {
        self.commands.write_all(b"go\n").unwrap();
    }
}

fn be_the_parent() -> ExitCode {
    let mut failures = Vec::new();
    for profile in PROFILES {
        for scene in Scene::ALL {
            let count = all_calls(profile, scene, &mut failures);
            println!("{profile}, {scene:?}: {count} calls");
        }
    }
    for failure in &failures {
        println!("  {failure}");
    }
    println!("{} calls took a lock or a row", failures.len());
    if failures.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn all_calls(profile: Profile, scene: Scene, failures: &mut Vec<String>) -> u32 {
    let folder = tempfile::tempdir().unwrap();
    let mut other = Other::start(folder.path(), profile, scene);
    let calls = calls();
    let mut count = 0;
    while let Some(line) = other.hear() {
        let number = line.strip_prefix("held ").unwrap_or_else(|| panic!("{line}"));
        let (_, (name, meets, _)) = calls[number.parse::<usize>().unwrap()];
        let path = folder.path().join(number).join("a.db");
        let mut wrong = Vec::new();
        let mut fail = |what: String| wrong.push(what);
        let before = locks_missing(&path, profile, scene);
        assert!(before.is_empty(), "{profile}, {scene:?}: before any call {before:?}");
        other.go();
        let answer = other.hear().unwrap_or_else(|| panic!("{name}: the child ended"));
        let may_be_refused = meets == Meets::MayBeRefused && scene != Scene::Idle;
        if answer != "called" && meets != Meets::IsHarmless && !may_be_refused {
            fail(answer);
        }
        for lock in locks_missing(&path, profile, scene) {
            fail(format!("{lock} is not held any more"));
        }
        let outside = write_from_outside(&path, scene, &mut fail);
        other.go();
        while let Some(line) = other.hear().filter(|line| line != "closed") {
            fail(line);
        }
        check_rows(&path, scene, outside, &mut fail);
        other.go();
        count += 1;
        if !wrong.is_empty() {
            failures.push(format!("{profile}, {scene:?}, {name}: {}", wrong.join("; ")));
        }
    }
    assert!(other.process.wait().unwrap().success());
    count
}

const RESERVED: (u64, u64) = (0x4000_0001, 1);
const SHARED: (u64, u64) = (0x4000_0002, 510);
const SHM_WRITE: (u64, u64) = (120, 1);
const SHM_IN_USE: (u64, u64) = (128, 1);

/// Names of locks that the Writer should hold and another process does not meet.
fn locks_missing(path: &Path, profile: Profile, scene: Scene) -> Vec<&'static str> {
    let shm = path.with_file_name("a.db-shm");
    let held = scene != Scene::Idle;
    let expected: &[(&'static str, &Path, (u64, u64), bool)] = &[
        ("SHARED on the database", path, SHARED, profile.is_wal() || held),
        ("RESERVED on the database", path, RESERVED, !profile.is_wal() && held),
        ("the sign of use on the -shm", &shm, SHM_IN_USE, profile.is_wal()),
        ("the write lock on the -shm", &shm, SHM_WRITE, profile.is_wal() && held),
    ];
    let needed = expected.iter().filter(|(.., is_needed)| *is_needed);
    let missing = needed.filter(|(_, file, (first, count), _)| {
        let found = lock_by_others(file, *first, *count);
        let must_be_alone = [RESERVED, SHM_WRITE].contains(&(*first, *count));
        match found {
            Ok(Some(ForeignLock::Exclusive)) => false,
            Ok(Some(ForeignLock::Shared)) => must_be_alone,
            Ok(None) | Err(_) => true,
        }
    });
    missing.map(|(name, ..)| *name).collect()
}

/// A row of another program: it must not get into the transaction, and else it must.
fn write_from_outside(path: &Path, scene: Scene, fail: &mut impl FnMut(String)) -> bool {
    let outcome = (|| {
        let connection = Connection::open(path)?;
        let wait = if scene == Scene::Idle { 10_000 } else { 0 };
        connection.busy_timeout(Duration::from_millis(wait))?;
        connection.execute("INSERT INTO t VALUES ('outside')", [])
    })();
    match (scene, outcome) {
        (Scene::Idle, Ok(_)) => true,
        (Scene::Idle, Err(error)) => {
            fail(format!("another process could not write: {error}"));
            false
        }
        (_, Ok(_)) => {
            fail("another process wrote in the middle of the transaction".to_owned());
            true
        }
        (_, Err(error)) => {
            if error.sqlite_error_code() != Some(rusqlite::ErrorCode::DatabaseBusy) {
                fail(format!("another process was told: {error}"));
            }
            false
        }
    }
}

/// All that was answered with success is there once.
fn check_rows(path: &Path, scene: Scene, outside: bool, fail: &mut impl FnMut(String)) {
    let mut expected = vec!["first", "last"];
    expected.extend((scene != Scene::Idle).then_some("held"));
    expected.extend(outside.then_some("outside"));
    expected.sort_unstable();
    let found = (|| {
        let connection = Connection::open(path)?;
        let integrity =
            connection.query_row("PRAGMA integrity_check", [], |row| row.get::<_, String>(0))?;
        let mut statement = connection.prepare("SELECT x FROM t NOT INDEXED ORDER BY x")?;
        let rows = statement.query_map([], |row| row.get::<_, String>(0))?;
        Ok::<_, rusqlite::Error>((integrity, rows.collect::<rusqlite::Result<Vec<_>>>()?))
    })();
    match found {
        Ok((integrity, rows)) => {
            if integrity != "ok" {
                fail(format!("integrity_check says {integrity}"));
            }
            if rows != expected {
                fail(format!("rows {rows:?} in the place of {expected:?}"));
            }
        }
        Err(error) => fail(format!("in the end: {error}")),
    }
}
