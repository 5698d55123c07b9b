//! Requests to the experiments, and the events they report. All others here share these types
//! with the caller.
//!
//! Stands below groups, plans and runs. Must never: know any of them.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use crate::report::Ratio;

/// Experiments that can be run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Experiment {
    /// Equal rows under one setting after the other.
    Ladder,
    /// Rows that come in no order of their keys: in batches by kind of key, sorted, spilled,
    /// appended, indexed.
    Presort,
    /// Cycles of inserts and deletes: what each takes, and who pays for checkpoints.
    Cycles,
    /// Rows into a queue's table, in one transaction and in as many transactions.
    QueueInserts,
    /// Rows that come in order, CSV files, new tables.
    Load,
    /// Many callers' one-row transactions: how many a second, under each profile.
    Writer,
    /// One-row transactions while checkpoints run: how long the slowest takes.
    Checkpoint,
    /// One-row transactions by journal mode, with and without pages written whole:
    /// calls, bytes, time and memory of each.
    Atomic,
    /// Jobs of a queue: whole cycles of many clients, claims among many jobs, wake-ups.
    Queue,
    /// One-row transactions and jobs of many processes on one database: how many a second, how long
    /// each takes.
    Shared,
}

impl Experiment {
    /// All of them.
    pub const ALL: [Self; 10] = [
        Self::Ladder,
        Self::Presort,
        Self::Cycles,
        Self::QueueInserts,
        Self::Load,
        Self::Writer,
        Self::Checkpoint,
        Self::Atomic,
        Self::Queue,
        Self::Shared,
    ];

    /// Its name on the command line and in the report.
    pub fn name(self) -> &'static str {
        match self {
            Self::Ladder => "ladder",
            Self::Cycles => "cycles",
            Self::Load => "load",
            Self::Presort => "presort",
            Self::Writer => "writer",
            Self::Checkpoint => "checkpoint",
            Self::Atomic => "atomic",
            Self::Queue => "queue",
            Self::QueueInserts => "queue-inserts",
            Self::Shared => "shared",
        }
    }
}

/// Options of a run.
#[derive(Debug, Clone)]
pub struct BenchOptions {
    /// Experiments; several make one report. None is the overview: all of them, and of each the
    /// rungs that matter most.
    pub experiments: Vec<Experiment>,
    /// Size of the CSV file.
    pub bytes: u64,
    /// Rows made in memory, one group of rungs for each number; the smallest is
    /// also what the new table of an existing database gets.
    pub rows: Vec<u64>,
    /// Rows with random keys. The rows that spill are five times as many, the rows
    /// of the indexed table a tenth more, the appended rows a tenth.
    pub keys: u64,
    /// Commits of the experiment "checkpoint". With slow syncs a tenth of them, with
    /// readers and without checkpoints a part too.
    pub commits: u64,
    /// Options of the experiment "atomic".
    pub atomic: AtomicOptions,
    /// The most jobs that wait in the experiment "queue", for a claim among them.
    pub waiting: u64,
    /// Rounds of each group; without it 3, in a quick run 2, in a large run of named experiments 5 for
    /// loads and for the accounting of "atomic".
    pub repeats: Option<usize>,
    /// Folder in which the temporary folder is made: the disk to be measured.
    pub dir: PathBuf,
    /// Only the groups that give these ratios ("`csv_vs_sql`", "`keys_vs_sql`", …);
    /// all if empty. "billion" runs only when it is named here.
    pub only: Vec<String>,
    /// Size of all that has no option of its own.
    pub size: Size,
    /// Bytes of the disk that the experiments may take at most.
    pub disk_bytes_max: u64,
    /// Simulated disk, by its name; without it the real one is measured.
    pub simulate: Option<String>,
    /// Leave the page cache as it is, also where this process may drop it.
    pub keeps_cache: bool,
    /// The command that repeats the run, for the report.
    pub command: Option<String>,
    /// Set it from a signal handler to stop: the rung's process is killed, and all temporary files are
    /// removed.
    pub cancel: Arc<AtomicBool>,
}

/// Options of the experiment "atomic".
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AtomicOptions {
    /// Transactions of each rung; on a slow disk they are fewer.
    pub transactions: u64,
    /// Every journal mode under every `synchronous`, instead of those that answer a
    /// question.
    pub full: bool,
    /// All of it also on an XFS file system that is made in a file of the folder,
    /// mounted, and unmounted at the end. Needs root.
    pub xfs_loop: bool,
    /// Write pages without a journal even where nothing proves that the disk writes
    /// them whole; the rungs then say "assumed", and promise nothing.
    pub assume: bool,
}

impl Default for AtomicOptions {
    fn default() -> Self {
        Self { transactions: 1_000, full: false, xfs_loop: false, assume: false }
    }
}

impl Default for BenchOptions {
    fn default() -> Self {
        Self {
            experiments: vec![Experiment::Load],
            bytes: 1_000_000_000,
            rows: vec![10_000_000, 100_000_000],
            keys: 10_000_000,
            commits: 1_000_000,
            atomic: AtomicOptions::default(),
            waiting: 10_000_000,
            repeats: None,
            dir: PathBuf::from("."),
            only: Vec::new(),
            size: Size::Large,
            disk_bytes_max: u64::MAX,
            simulate: None,
            keeps_cache: false,
            command: None,
            cancel: Arc::default(),
        }
    }
}

/// Size of the experiments.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Size {
    /// All of them together in less than a minute: orders of magnitude.
    Quick,
    /// All of them together in less than ten minutes.
    Usual,
    /// As large as the originals. All of them together in twenty minutes.
    Large,
}

impl Size {
    /// Longest time of a rung before it ends, to be scaled from what it has done, in
    /// seconds.
    pub fn patience_s(self) -> f64 {
        match self {
            Self::Quick => 0.3,
            Self::Usual => 3.0,
            Self::Large => 5.0,
        }
    }

    /// One of three.
    pub fn of<T>(self, quick: T, usual: T, large: T) -> T {
        match self {
            Self::Quick => quick,
            Self::Usual => usual,
            Self::Large => large,
        }
    }
}

/// Time that a run may take, and what is left out to keep to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Budget {
    pub(crate) time: Duration,
    /// Rounds of each group that are not left out, however late it is.
    pub(crate) rounds_min: usize,
    /// True if the run ends when the time is up, whatever is missing.
    pub(crate) is_the_end: bool,
}

impl BenchOptions {
    /// Options of a size, if nothing else is asked for.
    pub fn sized(size: Size) -> Self {
        let large = Self { size, ..Self::default() };
        match size {
            Size::Large => large,
            Size::Quick => Self {
                bytes: 2_000_000,
                rows: vec![100_000],
                keys: 20_000,
                commits: 3_000,
                atomic: AtomicOptions { transactions: 150, ..AtomicOptions::default() },
                waiting: 5_000,
                ..large
            },
            Size::Usual => Self {
                bytes: 100_000_000,
                rows: vec![5_000_000],
                keys: 1_000_000,
                commits: 200_000,
                waiting: 300_000,
                ..large
            },
        }
    }

    /// Time that a run may take: an overview, and a large run for which no number of rounds was asked.
    pub(crate) fn budget(&self) -> Option<Budget> {
        // Below the promise of a minute, of ten or twenty, as the rung that runs when the time is up
        // comes to its end.
        let time = Duration::from_secs(self.size.of(50, 560, 1_150));
        if self.is_overview() {
            return Some(Budget { time, rounds_min: 1, is_the_end: true });
        }
        let is_named = self.size == Size::Large && self.repeats.is_none();
        is_named.then_some(Budget { time, rounds_min: 3, is_the_end: false })
    }

    /// Returns true if nothing was named, so that the overview runs.
    pub(crate) fn is_overview(&self) -> bool {
        self.experiments.is_empty() && self.only.is_empty()
    }

    pub(crate) fn is_quick(&self) -> bool {
        self.size == Size::Quick
    }

    /// The experiments, each once, in the order of their figures' meaning.
    pub(crate) fn distinct_experiments(&self) -> Vec<Experiment> {
        if self.experiments.is_empty() {
            return Experiment::ALL.to_vec();
        }
        let mut experiments = self.experiments.clone();
        experiments.sort();
        experiments.dedup();
        experiments
    }

    /// "load", or "load presort".
    pub(crate) fn experiment_names(&self) -> String {
        let experiments = self.distinct_experiments();
        experiments.iter().map(|it| it.name()).collect::<Vec<_>>().join(" ")
    }
}

/// Events of a run, for the caller to show.
#[derive(Debug, Clone, PartialEq)]
pub enum ProgressEvent<'a> {
    /// The CSV file grows.
    Generating {
        /// Bytes written so far.
        bytes: u64,
        /// Bytes that it will have.
        bytes_total: u64,
    },
    /// The database that the next rungs begin with is being made.
    Preparing {
        /// The first of these rungs.
        name: &'a str,
    },
    /// A rung is about to start.
    Running {
        /// Its name.
        name: &'a str,
        /// Number of the round, from 1.
        round: usize,
        /// Number of rounds.
        rounds_count: usize,
        /// Runs of all rungs, and how many of them are done.
        runs: (usize, usize),
        /// Time that the rest will take, as far as that is known.
        left: Option<Duration>,
    },
    /// A rung has ended and its rows are being checked.
    Checking {
        /// Its name.
        name: &'a str,
        /// Seconds of its work.
        wall_s: f64,
    },
    /// A ratio is known.
    Compared {
        /// Its name.
        name: &'a str,
        /// The ratio.
        ratio: Ratio,
    },
}
