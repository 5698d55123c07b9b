//! A workload for atomic pages: our process, and others that are plain SQLite.
//!
//! ```text
//! our process:     1 or 2 connections through AtomicPages, one-row updates above all
//! other processes: plain SQLite mostly; they commit, roll back, switch to WAL and back, or
//!                  die, with their journals left behind and no name synced
//! ```
//!
//! All take turns in one thread, so that the order of commits is known. A
//! shadow (`script.rs`) says what the content must be; a connection that reads
//! another one, while everything still runs, is a failure at once.
//!
//! Invariants:
//! 1. A transaction of ours that succeeded is acknowledged; one of another process
//!    only if its settings are durable.
//! 2. A transaction that failed or whose process died is there or not, whole. Which,
//!    is found out before the next one, and it is never acknowledged.
//!
//! Must never: go on after a content that the shadow does not know.

use std::fmt::Write as _;
use std::sync::Arc;

use leafpress::vfs::FileKind;
use leafpress::vfs::atomic::Safeguard;
use rusqlite::Connection;

use super::check::Promise;
use super::history::{Digest, History};
use super::log::{Log, Mark, Recording};
use super::machine::{Machine, OurDisk, Process};
use super::random::Random;
pub use super::script::Kind;
use super::script::{self, End, Script, Tables};
use super::simulate::{Effort, Outcome, ReadContent, Run, Simulator};
use super::simulated_disk::{DiskCounts, DiskMode};

/// Turns of the shortest run, and of the longest.
const TURNS: [u64; 2] = [8, 40];

/// The settings of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// `PRAGMA journal_mode`.
    pub journal_mode: &'static str,
    /// `PRAGMA synchronous`.
    pub synchronous: &'static str,
}

/// Plan of a run.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// Settings of our process.
    pub ours: Settings,
    /// `PRAGMA locking_mode = EXCLUSIVE`, with the flip of the journal mode that lets
    /// single pages be written in place again.
    pub is_exclusive: bool,
    /// Disk below our processes.
    pub disk: OurDisk,
    /// Settings, one of which each other process takes; without any there are no others.
    pub others: &'static [Settings],
    /// 1, or 2 of which one is attached.
    pub databases: usize,
    /// True if our process shrinks the database at times.
    pub shrinks: bool,
    /// True if a sync fails in some of our transactions: of the database, or of a
    /// journal. No other process is told of it, and the process lives to take the
    /// transaction back: a page that the disk forgot and that no process writes again
    /// is lost, while all processes still read it.
    pub fails_sync: bool,
    /// Number of our transactions, of 100, that our process may not live to end.
    pub deaths_percent: u32,
    /// Number of turns, of 100, that other processes take.
    pub others_percent: u32,
    /// The kinds of transactions, each as often as it is there.
    pub kinds: &'static [Kind],
    /// Sizes of pages, one of which each run takes.
    pub page_bytes: &'static [u32],
    /// Bytes of the rows that transactions of one page change.
    pub row_bytes: usize,
}

/// Other processes whose settings lose nothing that lasts: at most their own last
/// transaction, which is not acknowledged then.
pub const OTHERS: &[Settings] = &[
    Settings { journal_mode: "DELETE", synchronous: "FULL" },
    Settings { journal_mode: "DELETE", synchronous: "EXTRA" },
    Settings { journal_mode: "TRUNCATE", synchronous: "FULL" },
    Settings { journal_mode: "PERSIST", synchronous: "FULL" },
];

/// Kinds of transactions: above all those of one page.
pub const KINDS: &[Kind] = &[
    Kind::OnePage,
    Kind::OnePage,
    Kind::OnePage,
    Kind::FirstPage,
    Kind::OnePageSpilled,
    Kind::OnePageSpilled,
    Kind::Many,
    Kind::Many,
    Kind::ManySpilled,
    Kind::Savepoints,
];

impl Plan {
    /// One database, others beside us, all safeguards, pages of many sizes.
    pub const fn new(ours: Settings, mode: DiskMode) -> Self {
        Self {
            ours,
            is_exclusive: false,
            disk: OurDisk { mode, is_stamped: true, without: &[] },
            others: OTHERS,
            databases: 1,
            shrinks: false,
            fails_sync: false,
            deaths_percent: 5,
            others_percent: 20,
            kinds: KINDS,
            page_bytes: &[512, 512, 1024, 1024, 2048, 4096],
            row_bytes: 150,
        }
    }

    /// Records a run and crashes it. In some of them the disk has no stamps, in some
    /// there are no other processes.
    pub fn crash(
        &self,
        simulator: &mut Simulator,
        seed: u64,
        effort: Effort,
        [power_cut, killed]: [Promise; 2],
    ) -> Outcome {
        let [turns_min, turns_max] = TURNS;
        let turns = turns_min + Random::of(&[seed, 23]).number() % (turns_max - turns_min);
        // What breaks hangs on the run more than on the image: rather more of those.
        let images_per_point = match effort.images_per_point {
            few @ ..100 => few.div_ceil(3),
            all => all,
        };
        let effort = Effort { images_per_point, ..effort };
        let mut plan = *self;
        plan.disk.is_stamped = !seed.is_multiple_of(4);
        if seed.is_multiple_of(3) {
            plan.others = &[];
        }
        let Recorded { recording, history, .. } = record(&plan, seed, turns);
        let run = Run {
            name: &plan.name(),
            seed,
            recording: &recording,
            history: &history,
            database: "a.db",
            begins_absent: false,
            content: plan.content(),
            power_cut,
            killed,
        };
        simulator.simulate(&run, effort)
    }

    /// Of which files a sync may fail. Where a journal stays and is cut or zeroed
    /// instead, SQLite itself does not survive that the disk forgets it.
    fn kinds_that_may_fail(&self) -> &'static [FileKind] {
        if self.ours.journal_mode == "DELETE" && !self.is_exclusive {
            &[FileKind::MainDb, FileKind::MainJournal]
        } else {
            &[FileKind::MainDb]
        }
    }

    /// Name in one line.
    pub fn name(&self) -> String {
        let Settings { journal_mode, synchronous } = self.ours;
        let mode = self.disk.mode.name();
        let locking = if self.is_exclusive { "exclusive" } else { "shared" };
        let mut name = format!("atomic pages {mode}: {journal_mode} + {synchronous}, {locking}");
        for (is_so, what) in [
            (self.databases == 2, ", two databases"),
            (self.shrinks, ", shrinking"),
            (self.fails_sync, ", a sync fails"),
        ] {
            name += if is_so { what } else { "" };
        }
        match self.disk.without {
            all if all == Safeguard::ALL => name += ", as SQLite ships it",
            safeguards => safeguards.iter().for_each(|safeguard| {
                let _ = write!(name, ", without {safeguard:?}");
            }),
        }
        name
    }

    /// Function that reads the content after a crash.
    pub fn content(&self) -> ReadContent {
        if self.databases == 2 { script::content_of_two } else { script::content }
    }
}

/// A run that is over.
pub struct Recorded {
    /// The recorded events.
    pub recording: Recording,
    /// The states that there were.
    pub history: History,
    /// Numbers of whole writes that the disk wrote and refused.
    pub counts: DiskCounts,
}

/// Runs the workload for this many turns.
///
/// # Panics
/// If a connection sees a content that was never committed, or an error has no reason.
pub fn record(plan: &Plan, seed: u64, turns: u64) -> Recorded {
    let mut world = World::new(plan, seed);
    for turn in 1..=turns {
        world.turn = turn;
        world.take_turn();
    }
    world.end()
}

/// A process beside the one that the workload is about.
struct Other {
    // Closed before its process, whose VFS it uses, ends.
    connection: Connection,
    process: Process,
    settings: Settings,
    /// True if it goes through atomic pages as well.
    is_ours: bool,
}

struct World<'a> {
    plan: &'a Plan,
    random: Random,
    machine: Machine,
    log: Arc<Log>,
    shadow: Connection,
    history: History,
    turn: u64,
    process: Process,
    connections: Vec<Connection>,
    other: Option<Other>,
    counts: DiskCounts,
}

impl<'a> World<'a> {
    fn new(plan: &'a Plan, seed: u64) -> Self {
        let mut random = Random::of(&[seed, 21]);
        let machine = Machine::new();
        make_databases(&machine, plan, &mut random).unwrap();
        let log = machine.record();
        let shadow = make_shadow(plan).unwrap();
        let history = History::new(&script::content(&shadow).unwrap());
        let process = machine.our_process(plan.disk, Random::of(&[seed, 22]));
        let mut world = Self {
            plan,
            random,
            machine,
            log,
            shadow,
            history,
            turn: 0,
            process,
            connections: Vec::new(),
            other: None,
            counts: DiskCounts::default(),
        };
        world.connect();
        world
    }

    /// Opens our connections, which none are.
    fn connect(&mut self) {
        let count = if self.plan.is_exclusive { 1 } else { 1 + self.random.below(2) };
        for _ in 0..count {
            let connection = self.process.open(self.plan.databases).unwrap();
            set(&connection, self.plan.ours, self.plan).unwrap();
            self.connections.push(connection);
        }
    }

    /// Another process of ours takes the place of this one, which was killed or ended.
    fn begin_anew(&mut self) {
        self.connections.clear();
        let DiskCounts { written, refused } = self.process.counts();
        self.counts.written += written;
        self.counts.refused += refused;
        let random = Random::new(self.random.number());
        self.process = self.machine.our_process(self.plan.disk, random);
    }

    fn end(mut self) -> Recorded {
        self.other = None;
        self.begin_anew();
        Recorded { recording: self.log.finish(), history: self.history, counts: self.counts }
    }

    fn take_turn(&mut self) {
        let is_others =
            !self.plan.others.is_empty() && self.random.percent(self.plan.others_percent);
        if is_others {
            self.others_take_turn();
        } else {
            self.we_take_turn();
        }
        if self.plan.is_exclusive {
            self.other = None;
        }
        if self.connections.is_empty() {
            self.connect();
        }
        if self.random.percent(20) {
            self.look();
        }
    }

    /// All connections see what there is.
    fn look(&mut self) {
        let expected = script::content(&self.shadow).unwrap().so_far();
        for connection in &self.connections {
            let seen = script::content(connection).unwrap().so_far();
            assert_eq!(seen, expected, "turn {}: one of ours reads something else", self.turn);
        }
    }

    fn draw_script(&mut self) -> Script {
        let kind = self.random.choose(self.plan.kinds);
        let is_single = matches!(kind, Kind::OnePage | Kind::FirstPage | Kind::OnePageSpilled);
        let end = if self.random.percent(20) { End::Rollback } else { End::Commit };
        // One page is one of one database, mostly of the first.
        let databases = match self.plan.databases {
            2 if !is_single || self.random.percent(30) => 2,
            _ => 1,
        };
        let tables = Tables { databases, row_bytes: self.plan.row_bytes };
        Script::draw(kind, end, self.turn, tables, &mut self.random)
    }

    fn we_take_turn(&mut self) {
        match self.random.below(20) {
            0 => {
                self.begin_anew();
                return;
            }
            1 => {
                self.connections.clear();
                return;
            }
            3 if self.may_use_wal() => return self.use_wal(),
            2 if self.plan.shrinks => return self.maintain(),
            _ => {}
        }
        let fails_sync = self.plan.fails_sync && self.random.percent(20);
        if fails_sync {
            let kind = self.random.choose(self.plan.kinds_that_may_fail());
            self.log.fail_sync(kind, 1 + self.random.number() % 3);
        } else if self.random.percent(self.plan.deaths_percent) {
            self.process.life.ends_after(self.random.number() % 12);
        }
        let script = self.draw_script();
        let index = self.random.below(self.connections.len());
        let outcome = script.run(&self.connections[index]);
        if fails_sync {
            self.log.fail_sync(FileKind::MainDb, u64::MAX);
        }
        if self.process.life.is_over() {
            self.begin_anew();
            self.machine.write_finished_journals(&self.log);
            return self.settle(&script);
        }
        let may_fail = self.plan.disk.mode == DiskMode::Refused || fails_sync;
        match outcome {
            Ok(()) => self.happened(&script, true),
            Err(error) if may_fail && is_io_error(&error) => self.settle(&script),
            Err(error) => panic!("turn {}: {script:?}: {error}", self.turn),
        }
        // A process that was to die later lives on.
        self.process.life.ends_after(u64::MAX);
        if self.plan.is_exclusive && self.random.percent(40) {
            self.flip();
        }
    }

    /// Gets rid of the journal file that a larger transaction left open.
    fn flip(&self) {
        let mode = self.plan.ours.journal_mode;
        let schemas = &["main", "other"][..self.plan.databases];
        for connection in &self.connections {
            for schema in schemas {
                let sql = format!(
                    "PRAGMA {schema}.journal_mode = MEMORY; PRAGMA {schema}.journal_mode = {mode}"
                );
                connection.execute_batch(&sql).unwrap();
            }
        }
    }

    /// Returns true if no other connection is open, and no write is refused on the way.
    fn may_use_wal(&self) -> bool {
        // WALs do not keep two databases together.
        let is_alone = self.connections.len() == 1 && self.other.is_none();
        is_alone
            && self.plan.databases == 1
            && !self.plan.is_exclusive
            && self.plan.disk.mode != DiskMode::Refused
    }

    /// A transaction in WAL mode, into which a write of page 1 in place leads.
    fn use_wal(&mut self) {
        let connection = &self.connections[0];
        connection.execute_batch("PRAGMA journal_mode = WAL").unwrap();
        let script = self.draw_script();
        script.run(&self.connections[0]).unwrap();
        self.happened(&script, self.plan.ours.synchronous != "NORMAL");
        set_journal(&self.connections[0], self.plan.ours, self.plan.databases).unwrap();
    }

    /// Work that leaves the content as it is.
    fn maintain(&mut self) {
        let sql = self.random.choose(&[
            "PRAGMA incremental_vacuum(3)",
            "VACUUM",
            "PRAGMA page_size = 1024; VACUUM",
            "PRAGMA page_size = 2048; VACUUM",
        ]);
        if let Err(error) = self.connections[0].execute_batch(sql) {
            let may_fail = self.plan.disk.mode == DiskMode::Refused && is_io_error(&error);
            assert!(may_fail, "turn {}: {sql}: {error}", self.turn);
        }
    }

    /// The script's transaction is over, as it should be.
    fn happened(&mut self, script: &Script, is_durable: bool) {
        if script.end == End::Rollback {
            return;
        }
        script.run(&self.shadow).unwrap();
        if is_durable {
            self.log.acknowledged(0, self.turn);
        }
        self.committed();
    }

    fn committed(&mut self) {
        let mark = Mark { caller: 0, number: self.turn };
        self.history.committed(mark, &script::content(&self.shadow).unwrap());
    }

    /// Finds out whether the transaction, which failed, is there all the same. By
    /// reading, which recovers what a dead process left: by one of ours or by another.
    fn settle(&mut self, script: &Script) {
        let found = self.read().unwrap().so_far();
        let before = script::content(&self.shadow).unwrap().so_far();
        script.begin(&self.shadow).unwrap();
        let done = script::content(&self.shadow).unwrap();
        let after = done.so_far();
        assert!(
            [before, after].contains(&found),
            "turn {}: {script:?} failed, and left something between before and after",
            self.turn
        );
        let is_there = found == after && script.end == End::Commit;
        self.shadow.execute_batch(if is_there { "COMMIT" } else { "ROLLBACK" }).unwrap();
        let _ = self.shadow.execute_batch("PRAGMA cache_size = 200");
        if is_there && after != before {
            self.committed();
        } else if script.end == End::Commit && after != before {
            self.history.failed(&done);
        }
    }

    fn read(&mut self) -> rusqlite::Result<Digest> {
        let is_plain = !self.plan.others.is_empty() && self.random.percent(50);
        let may_be_others = !self.plan.is_exclusive || self.connections.is_empty();
        if is_plain && may_be_others {
            let process = self.machine.plain_process();
            return script::content(&process.open(self.plan.databases)?);
        }
        if self.connections.is_empty() {
            self.connect();
        }
        script::content(&self.connections[0])
    }

    /// Another process does something, and stays, ends or dies.
    fn others_take_turn(&mut self) {
        if self.plan.is_exclusive {
            self.connections.clear();
        }
        let other = self.other.take().unwrap_or_else(|| self.another());
        let uses_wal = self.plan.databases == 1 && self.random.percent(10);
        if uses_wal {
            other.connection.execute_batch("PRAGMA journal_mode = WAL").unwrap();
        }
        if self.random.percent(35) {
            other.process.life.ends_after(self.random.number() % 40);
        }
        let script = self.draw_script();
        let outcome = script.run(&other.connection);
        if other.process.life.is_over() {
            drop(other);
            self.machine.write_finished_journals(&self.log);
            self.settle(&script);
            if uses_wal {
                self.leave_wal();
            }
            return;
        }
        other.process.life.ends_after(u64::MAX);
        let may_fail = other.is_ours && self.plan.disk.mode == DiskMode::Refused;
        match outcome {
            Ok(()) => self.happened(&script, other.is_ours || is_durable(other.settings)),
            Err(error) if may_fail && is_io_error(&error) => {
                drop(other);
                return self.settle(&script);
            }
            Err(error) => panic!("turn {}: another process, {script:?}: {error}", self.turn),
        }
        set_journal(&other.connection, other.settings, self.plan.databases).unwrap();
        if self.random.percent(50) {
            self.other = Some(other);
        }
    }

    /// Another process: plain SQLite, or at times a second one of ours.
    fn another(&mut self) -> Other {
        let is_ours = self.random.percent(30);
        let random = Random::new(self.random.number());
        let (process, settings) = if is_ours {
            (self.machine.our_process(self.plan.disk, random), self.plan.ours)
        } else {
            (self.machine.plain_process(), self.random.choose(self.plan.others))
        };
        let connection = process.open(self.plan.databases).unwrap();
        set_journal(&connection, settings, self.plan.databases).unwrap();
        Other { connection, process, settings, is_ours }
    }

    /// A process that died in WAL mode leaves the database in it.
    fn leave_wal(&mut self) {
        self.connections.clear();
        let process = self.machine.plain_process();
        let connection = process.open(self.plan.databases).unwrap();
        set_journal(&connection, self.plan.ours, self.plan.databases).unwrap();
    }
}

/// Returns true if commits of such a connection survive a power cut.
fn is_durable(settings: Settings) -> bool {
    match settings.synchronous {
        "EXTRA" => true,
        "FULL" => settings.journal_mode != "DELETE",
        _ => false,
    }
}

fn is_io_error(error: &rusqlite::Error) -> bool {
    error.sqlite_error_code() == Some(rusqlite::ErrorCode::SystemIoFailure)
}

fn set_journal(
    connection: &Connection,
    settings: Settings,
    databases: usize,
) -> rusqlite::Result<()> {
    let Settings { journal_mode, synchronous } = settings;
    for schema in &["main", "other"][..databases] {
        let sql = format!("PRAGMA {schema}.journal_mode = {journal_mode}");
        let found: String = connection.query_row(&sql, [], |row| row.get(0))?;
        assert!(found.eq_ignore_ascii_case(journal_mode), "{found}");
        connection.execute_batch(&format!("PRAGMA {schema}.synchronous = {synchronous}"))?;
    }
    connection.execute_batch("PRAGMA cache_size = 200")
}

fn set(connection: &Connection, settings: Settings, plan: &Plan) -> rusqlite::Result<()> {
    if plan.is_exclusive {
        connection.execute_batch("PRAGMA locking_mode = EXCLUSIVE")?;
    }
    set_journal(connection, settings, plan.databases)
}

fn make_databases(machine: &Machine, plan: &Plan, random: &mut Random) -> rusqlite::Result<()> {
    let page_bytes = random.choose(plan.page_bytes);
    let vacuum =
        if plan.shrinks { random.choose(&["NONE", "FULL", "INCREMENTAL"]) } else { "NONE" };
    let process = machine.plain_process();
    let connection = process.open(plan.databases)?;
    for schema in &["main", "other"][..plan.databases] {
        connection.execute_batch(&format!(
            "PRAGMA {schema}.page_size = {page_bytes}; PRAGMA {schema}.auto_vacuum = {vacuum}"
        ))?;
        script::create(&connection, schema, plan.row_bytes)?;
    }
    Ok(())
}

fn make_shadow(plan: &Plan) -> rusqlite::Result<Connection> {
    let shadow = Connection::open_in_memory()?;
    if plan.databases == 2 {
        shadow.execute_batch("ATTACH ':memory:' AS other")?;
    }
    ["main", "other"][..plan.databases]
        .iter()
        .try_for_each(|schema| script::create(&shadow, schema, plan.row_bytes))?;
    Ok(shadow)
}
