//! What can be asked of the experiments, and what is heard while they run: the words
//! that all others here share with whoever asks.
//!
//! Stands below groups, plans and runs. Must never: know any of them.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use crate::report::Ratio;

/// What can be measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Experiment {
    /// Rows that come in order, CSV files, new tables.
    Load,
    /// Rows that are sorted by key: tables, indexes, more rows for a table.
    Presort,
    /// Many callers' one-row transactions: how many a second, under each profile.
    Writer,
    /// One-row transactions while checkpoints run: how long the slowest takes.
    Checkpoint,
    /// One-row transactions by journal mode, with and without pages written whole:
    /// calls, bytes, time and memory of each.
    Atomic,
    /// Jobs of a queue: whole cycles of many clients, claims among many jobs, wake-ups.
    Queue,
    /// Rows into a queue's table, in one transaction and in as many transactions.
    QueueInserts,
}

impl Experiment {
    /// All of them.
    pub const ALL: [Self; 7] = [
        Self::Load,
        Self::Presort,
        Self::Writer,
        Self::Checkpoint,
        Self::Atomic,
        Self::Queue,
        Self::QueueInserts,
    ];

    /// Its name on the command line and in the report.
    pub fn name(self) -> &'static str {
        match self {
            Self::Load => "load",
            Self::Presort => "presort",
            Self::Writer => "writer",
            Self::Checkpoint => "checkpoint",
            Self::Atomic => "atomic",
            Self::Queue => "queue",
            Self::QueueInserts => "queue-inserts",
        }
    }
}

/// How to run the experiments.
#[derive(Debug, Clone)]
pub struct BenchOptions {
    /// Which; several make one report.
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
    /// What is asked of the experiment "atomic".
    pub atomic: AtomicOptions,
    /// The most jobs that wait in the experiment "queue", for a claim among them.
    pub waiting: u64,
    /// Rounds of each group; without it five of loads, three of commits.
    pub repeats: Option<usize>,
    /// Where the temporary folder is made: the disk to be measured.
    pub dir: PathBuf,
    /// Only the groups that give these ratios ("`csv_vs_sql`", "`keys_vs_sql`", …);
    /// all if empty. "billion" runs only when it is named here.
    pub only: Vec<String>,
    /// A few seconds with small inputs, to see that everything works. Its
    /// figures mean nothing.
    pub quick: bool,
    /// Where to write the report, besides returning it.
    pub json: Option<PathBuf>,
    /// Set it from a signal handler to stop before the next rung, all temporary
    /// files removed. The rung's process gets a terminal's Ctrl-C itself and must
    /// die of it, so it should have no handler.
    pub cancel: Arc<AtomicBool>,
}

/// How to run the experiment "atomic".
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AtomicOptions {
    /// Transactions of each rung; on a slow disk they are fewer.
    pub transactions: u64,
    /// Every journal mode under every `synchronous`, instead of those that answer a
    /// question.
    pub full: bool,
    /// The same also on an XFS file system that is made in a file of the folder,
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
            quick: false,
            json: None,
            cancel: Arc::default(),
        }
    }
}

impl BenchOptions {
    /// The options with what `quick` means applied.
    pub(crate) fn effective(&self) -> Self {
        let mut options = self.clone();
        if options.quick {
            options.bytes = options.bytes.min(2_000_000);
            options.rows = options.rows.iter().map(|rows| (*rows).min(100_000)).collect();
            options.rows.dedup();
            options.keys = options.keys.min(20_000);
            options.commits = options.commits.min(3_000);
            options.atomic.transactions = options.atomic.transactions.min(150);
            options.waiting = options.waiting.min(5_000);
            options.repeats = Some(options.repeats.unwrap_or(2).min(2));
        }
        options
    }

    /// The experiments, each once, in the order of their figures' meaning.
    pub(crate) fn distinct_experiments(&self) -> Vec<Experiment> {
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

/// What is going on, for whoever shows it.
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
        /// Which round, from 1.
        round: usize,
        /// How many rounds there are.
        rounds_count: usize,
    },
    /// A rung has ended and its rows are being checked.
    Checking {
        /// Its name.
        name: &'a str,
        /// How long its work took.
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
