//! `Described`: all that a rung says about itself, and all that it can do.
//!
//! Every family of experiments implements it in its own folder; the enum of `kind.rs` leads to
//! it. Whatever runs, checks, draws or reports rungs asks through it.
//!
//! Must never: know a family.

use std::path::Path;
use std::time::Duration;

use super::result::RungResult;
use crate::error::Result;
use crate::report::{OneRow, OriginalFigure, Safety};

/// A rung: one piece of work by one rival.
pub(crate) trait Described {
    /// Name in the report, which no other rung has.
    fn name(&self) -> String;

    /// Chart that the rung is drawn in: all rungs of a chart do the same work.
    fn chart(&self) -> String;

    /// Name within the chart: "WAL + NORMAL".
    fn label(&self) -> String;

    /// Returns true if the rung is Leafpress as it is meant to be used.
    fn is_ours(&self) -> bool;

    /// Returns true if the rung makes no database, and shows only what the disk takes.
    fn is_bound(&self) -> bool {
        false
    }

    /// Promise of the settings: what is left after a crash right after the work.
    fn safety(&self) -> Safety;

    /// Figure of the published experiment for the same settings.
    fn original(&self) -> Option<OriginalFigure> {
        None
    }

    /// Settings of a one-row transaction in words; `page_writes` is what the rung answered.
    fn one_row(&self, page_writes: Option<String>) -> Option<OneRow> {
        let _ = page_writes;
        None
    }

    /// Bytes that the WAL may not exceed, where that is promised.
    fn wal_bytes_max(&self) -> Option<u64> {
        None
    }

    /// Part of the report's settings that explains how such rungs are measured.
    fn topic(&self) -> Option<Topic> {
        None
    }

    /// Memory for a sort, where it is limited.
    fn memory_bytes(&self) -> Option<u64> {
        None
    }

    /// Disk that the database is on.
    fn place(&self) -> Place {
        Place::Disk
    }

    /// Format of the experiment's file that the rung reads, if it reads one.
    fn reads(&self) -> Option<InputFormat> {
        None
    }

    /// Reason why this machine cannot run the rung, on a simulated disk or not. Its group is then
    /// left out.
    fn missing(&self, is_simulated: bool) -> Option<String> {
        let _ = is_simulated;
        None
    }

    /// Rounds of a large run, where no number was asked for.
    fn rounds_of_large_run(&self) -> usize {
        3
    }

    /// Rest that the disk gets before the rung: longer where the rung before leaves much to
    /// write.
    fn rest(&self) -> Duration {
        Duration::from_millis(100)
    }

    /// Room that its files take on the disk at most, without its fixture.
    fn room_mb(&self, input_bytes: u64) -> u64;

    /// Database that must be there before the rung begins.
    fn fixture(&self) -> Option<Fixture> {
        None
    }

    /// Does the work and measures it.
    fn run(&self, given: &Given<'_>) -> Result<RungResult>;

    /// Reads back what the work left, and says what it should have left.
    fn check(&self, result: &RungResult, found: &Found<'_>) -> Result<Left>;
}

/// Input of a rung's process.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Given<'a> {
    /// Database to make; there already if the rung has a fixture.
    pub(crate) database: &'a Path,
    /// The experiment's file, for rungs that read it.
    pub(crate) input: &'a Path,
}

/// Input of a check.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Found<'a> {
    /// Database that the rung left.
    pub(crate) database: &'a Path,
    /// Rows of that file.
    pub(crate) input_rows: u64,
    /// True for the first run of a rung: then its database is read in full.
    pub(crate) is_first: bool,
    /// True if no other rung does the same work, so that there is nothing to compare values with.
    pub(crate) is_alone: bool,
}

/// Contents that a rung left.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Left {
    /// Contents as they should be, in words.
    pub(crate) expected: String,
    /// Contents as they are, in the same words.
    pub(crate) found: String,
    /// Sums and digests that must be equal for all rungs of a group. A check that reads less than
    /// the one before leaves out the last ones.
    pub(crate) alike: Vec<String>,
}

impl Left {
    /// Contents that can be judged without those of other rungs.
    pub(crate) fn new(expected: String, found: String) -> Self {
        Self { expected, found, alike: Vec::new() }
    }
}

/// Database that stands before a rung begins; each run gets a copy.
pub(crate) struct Fixture {
    /// Name: rungs of one group that give the same name share the database.
    pub(crate) name: String,
    /// Room that it takes beside its copy.
    pub(crate) room_mb: u64,
    /// Makes it at a path, outside of all time taken.
    pub(crate) make: MakeDatabase,
}

/// Makes a database at a path.
pub(crate) type MakeDatabase = Box<dyn Fn(&Path) -> Result<()>>;

/// Part of the report's settings, in the order in which a report with several of them counts
/// its rounds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Topic {
    /// Files and rows into tables.
    Loads,
    /// Many small transactions.
    Commits,
    /// One-row transactions, one after the other.
    OneRow,
    /// Jobs of a queue.
    Jobs,
    /// Many processes on one database.
    Processes,
}

/// Format of a file that rungs read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum InputFormat {
    /// With a header.
    Csv,
    /// A JSON object a line.
    Ndjson,
    /// Columns, compressed.
    Parquet,
}

impl InputFormat {
    /// Its name, which files of it end in.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Csv => "csv",
            Self::Ndjson => "ndjson",
            Self::Parquet => "parquet",
        }
    }
}

/// Disk of a rung's database.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, serde::Serialize, serde::Deserialize,
)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Place {
    /// The folder that was named.
    Disk,
    /// An XFS file system in a file of that folder.
    XfsLoop,
}

impl Place {
    /// Name in reports, and end of a ratio's name where there are several places.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Disk => "disk",
            Self::XfsLoop => "xfs_loop",
        }
    }
}
