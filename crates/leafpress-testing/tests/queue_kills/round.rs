//! A round: processes that push, that work, and that do both, on one database,
//! killed again and again until all is done.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use leafpress::Profile;
use leafpress::queue::Queue;
use leafpress::writer::Writer;
use leafpress_testing::crash::Random;
use rusqlite::{Connection, OpenFlags};

use super::CHILD_FLAG;
use super::child::Task;
use super::journal::{self, Line};
use super::judge::{self, Counts};
use super::plan::{self, QUEUES};

/// Producers and consumers of each process.
const PROCESSES: [[usize; 2]; 6] = [[3, 0], [2, 0], [0, 4], [0, 3], [2, 2], [1, 3]];

/// Numbers of one process are from its own share of them.
const NUMBERS_EACH: u64 = 10_000_000;

/// Nothing here takes a second: a round without any change for so long is stuck.
const STUCK_AFTER: Duration = Duration::from_secs(180);

/// Plan of a round.
#[derive(Clone, Copy, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each is a trait of a round of its own")]
pub struct Plan {
    pub profile: Profile,
    pub jobs: u64,
    pub kills: u64,
    pub keeps_done: bool,
    pub clocks_jump: bool,
    /// True if the processes share the database.
    pub shares: bool,
    /// True if forgeries try the judge afterwards.
    pub forges: bool,
    pub seed: u64,
}

/// A process and those that took its place.
struct Slot {
    place: u64,
    task: Task,
    child: Option<Child>,
    journals: Vec<PathBuf>,
}

/// Nothing is left running if a check fails.
impl Drop for Slot {
    fn drop(&mut self) {
        self.kill();
    }
}

impl Slot {
    fn new(folder: &Path, plan: &Plan, place: u64) -> Self {
        let [producers, consumers] = PROCESSES[place as usize];
        let all: usize = PROCESSES.iter().map(|[producers, _]| producers).sum();
        let first = (place + 1) * NUMBERS_EACH;
        let task = Task {
            database: folder.join("a.db"),
            journal: folder.join("journal"),
            profile: plan.profile,
            first,
            end: first + plan.jobs * producers as u64 / all as u64,
            producers,
            consumers,
            seed: 0,
            clock_jumps: plan.clocks_jump,
            shares: plan.shares,
        };
        Self { place, task, child: None, journals: Vec::new() }
    }

    /// Starts it, or what takes its place: it goes on after the last number that
    /// the one before asked for, and has a journal of its own.
    fn start(&mut self, seed: u64) {
        let asked = self.journals.last().into_iter().flat_map(|journal| journal::read(journal));
        let numbers = asked.filter_map(|line| match line {
            Line::AsksToPush(number) => Some(number + 1),
            _ => None,
        });
        self.task.first = numbers.fold(self.task.first, u64::max);
        let number = self.journals.len() as u64;
        let name = format!("journal-{}-{number}", self.place);
        self.task.journal = self.task.database.with_file_name(name);
        self.task.seed = Random::of(&[seed, self.place, number]).number();
        self.journals.push(self.task.journal.clone());
        let child = Command::new(std::env::current_exe().unwrap())
            .arg(CHILD_FLAG)
            .args(self.task.arguments())
            .stdin(Stdio::piped())
            .spawn();
        self.child = Some(child.unwrap());
    }

    /// Returns true if the process runs until it is told that all is done.
    fn consumes(&self) -> bool {
        self.task.consumers > 0
    }

    /// Kills it, in whatever it does.
    fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            // It may have ended by itself just now.
            let _ = child.kill();
            let _ = child.wait();
        }
    }

    /// Returns true if it has ended by itself, as a process without consumers does.
    fn has_ended(&mut self) -> bool {
        let Some(child) = &mut self.child else { return true };
        let Some(status) = child.try_wait().unwrap() else { return false };
        self.assert_ended_well(status);
        self.child = None;
        true
    }

    /// Lets it end: its standard input is closed.
    fn end(&mut self) {
        if let Some(mut child) = self.child.take() {
            drop(child.stdin.take());
            let status = child.wait().unwrap();
            self.assert_ended_well(status);
        }
    }

    fn assert_ended_well(&self, status: ExitStatus) {
        assert!(status.success(), "process {} ended by itself: {status}", self.place);
    }
}

/// Makes the database with both queues.
fn make(path: &Path, plan: &Plan) {
    let writer = Writer::builder(path).profile(plan.profile).open().unwrap();
    for (name, queue) in QUEUES.iter().zip(0..) {
        let settings = plan::settings(queue, plan.keeps_done);
        Queue::builder(&writer, name).settings(settings).open().unwrap();
    }
    writer.close().unwrap();
    judge::prepare(path);
}

/// Number of changes so far, and of jobs that are not done, read by another connection.
fn progress(reader: &Connection) -> (i64, i64) {
    let sql = "SELECT (SELECT coalesce(max(number), 0) FROM trail),
         (SELECT count(*) FROM leafpress_job WHERE state < 4)";
    reader.query_row(sql, (), |row| Ok((row.get(0)?, row.get(1)?))).unwrap()
}

/// Runs it and judges it; how many processes were killed, and what was counted.
///
/// # Panics
/// If a promise is broken, or a process ends by itself.
pub fn run(folder: &Path, plan: &Plan) -> (u64, Counts) {
    let path = folder.join("a.db");
    make(&path, plan);
    let mut random = Random::of(&[plan.seed, 9]);
    let mut slots: Vec<_> =
        (0..PROCESSES.len() as u64).map(|place| Slot::new(folder, plan, place)).collect();
    for slot in &mut slots {
        slot.start(plan.seed);
    }
    let reader = Connection::open_with_flags(&path, OpenFlags::SQLITE_OPEN_READ_ONLY).unwrap();
    reader.busy_timeout(Duration::from_secs(60)).unwrap();
    let mut kills = 0;
    let (mut seen, mut changed) = ((0, 0), Instant::now());
    loop {
        std::thread::sleep(Duration::from_micros(2_000 + random.number() % 80_000));
        if kills < plan.kills {
            kills += kill_some(&mut slots, &mut random, plan.seed);
        }
        let now = progress(&reader);
        if now != seen {
            (seen, changed) = (now, Instant::now());
        }
        assert!(changed.elapsed() < STUCK_AFTER, "nothing goes on, {} jobs are left", now.1);
        let has_pushed = slots.iter_mut().all(|slot| slot.consumes() || slot.has_ended());
        if has_pushed && now.1 == 0 && slots.iter().all(has_asked_for_all) {
            break;
        }
    }
    slots.iter_mut().for_each(Slot::end);
    drop(reader);
    let journals: Vec<_> = slots.iter().flat_map(|slot| slot.journals.clone()).collect();
    let counts = judge::judge(&path, &journals);
    if plan.forges {
        judge::judge_the_judge(&path, &journals);
    }
    (kills, counts)
}

/// Returns true if the process has answers, or a successor, for all its numbers.
fn has_asked_for_all(slot: &Slot) -> bool {
    if slot.task.producers == 0 {
        return true;
    }
    let lines = journal::read(slot.journals.last().unwrap());
    let count = |is: fn(&Line) -> bool| lines.iter().filter(|line| is(line)).count() as u64;
    let asked = count(|line| matches!(line, Line::AsksToPush(_)));
    let answered = count(|line| matches!(line, Line::Pushed { .. } | Line::Undone(_)));
    slot.task.first + asked == slot.task.end && answered == asked
}

/// Kills one that runs, or all at once, and starts them again.
fn kill_some(slots: &mut [Slot], random: &mut Random, seed: u64) -> u64 {
    let all = random.percent(8);
    let chosen = random.below(slots.len());
    let mut kills = 0;
    for (place, slot) in slots.iter_mut().enumerate() {
        if (all || place == chosen) && !slot.has_ended() {
            slot.kill();
            kills += 1;
        }
    }
    if kills > 0 && random.percent(30) {
        std::thread::sleep(Duration::from_micros(random.number() % 20_000));
    }
    for (place, slot) in slots.iter_mut().enumerate() {
        if (all || place == chosen) && slot.child.is_none() && !has_asked_for_all(slot)
            || slot.consumes() && slot.child.is_none()
        {
            slot.start(seed);
        }
    }
    kills
}
