//! The JSON that every experiment writes, in one shape.
//!
//! ```text
//! {"experiment": "load", "version": 1, "machine": {…}, "settings": {…},
//!  "rungs":  [{"name": "…", "safety": "durable", "median_s": 0.0, "runs_s": […], …}],
//!  "ratios": {"csv_vs_sql": {"value": 0.0, "min": 0.0, "max": 0.0}}}
//! ```
//!
//! Fields that do not apply are left out. Fields may be added within a version,
//! never renamed and never given another meaning.

use std::collections::BTreeMap;
use std::fs;
use std::io::Read;
use std::path::Path;

use leafpress::Profile;
use leafpress::path_text;
use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};

/// Settings of a run by their names, as the experiments write them.
pub(crate) type Settings = BTreeMap<&'static str, serde_json::Value>;

/// A setting that is a text.
pub(crate) fn text(name: &'static str, text: &str) -> (&'static str, serde_json::Value) {
    (name, text.into())
}

/// The version of this shape.
pub const REPORT_VERSION: u32 = 1;

/// One experiment's result.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ExperimentReport {
    /// Name of the experiment: "load"; several are named one after the other.
    pub experiment: String,
    /// The version of this shape, [`REPORT_VERSION`].
    pub version: u32,
    /// Machine that it ran on.
    pub machine: Machine,
    /// Options of the run, and facts that a reader must know to judge the figures.
    pub settings: BTreeMap<String, serde_json::Value>,
    /// One entry for each kind of work.
    pub rungs: Vec<Rung>,
    /// Ratios to the rivals, by the ratio's name.
    pub ratios: BTreeMap<String, Ratio>,
    /// Reasons for ratios that could not be measured here, by the ratio's name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub unavailable: BTreeMap<String, String>,
    /// Documented limits that ours did not keep, by the rung's name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub broken: BTreeMap<String, String>,
    /// Subject of each experiment and figures of its original, in the order in which
    /// they ran.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub experiments: Vec<About>,
    /// Findings on the disk, as `leafpress storage --json` says them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub storage: Option<serde_json::Value>,
    /// The simulated disk, if it was not the real one that was measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub simulated: Option<Simulated>,
    /// Noise of the figures.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub noise: Option<Noise>,
    /// Conclusions from the figures, in plain words, the most important first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub advice: Vec<Advice>,
    /// Reason why the run ended early, and the missing results.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stopped: Option<String>,
    /// When it ended, in RFC 3339.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub measured_at: Option<String>,
    /// The command that repeats it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
}

/// Subject of an experiment.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct About {
    /// Its name on the command line: "ladder".
    pub name: String,
    /// Its heading: "A hundred thousand inserts".
    pub title: String,
    /// Question that it answers, in one sentence.
    pub question: String,
    /// The published experiment that it repeats.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub original: Option<Original>,
    /// Comparison of the rungs' order with the original's, in words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub order: Option<String>,
}

/// A published experiment.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Original {
    /// Title, and where it was published.
    pub title: String,
    /// Its address.
    pub url: String,
    /// When it was published: "2016-08-25", or as much of that as is known.
    pub date: String,
    /// Machine that it was measured on.
    pub machine: String,
    /// Figures, in its own order.
    pub figures: Vec<OriginalFigure>,
}

/// One figure of a published experiment.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct OriginalFigure {
    /// Measured work, in our words.
    pub label: String,
    /// Seconds for the whole work; of work in batches, for each batch in `batches_s`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seconds: Option<f64>,
    /// Seconds of each batch.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub batches_s: Vec<f64>,
    /// Note on it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

impl OriginalFigure {
    /// Of work that has one figure as a whole.
    pub(crate) fn whole(label: &str, seconds: f64, note: Option<&str>) -> Self {
        let (label, note) = (label.to_owned(), note.map(str::to_owned));
        Self { label, seconds: Some(seconds), batches_s: Vec::new(), note }
    }
}

/// A disk that is simulated on another one.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Simulated {
    /// Its name on the command line: "sdcard".
    pub name: String,
    /// Title: "an SD card of class A1".
    pub what: String,
    /// The model's figures, in words.
    pub figures: String,
    /// Source of the figures.
    pub source: String,
}

/// Noise of a run's figures.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Noise {
    /// Two figures that differ by less than this many times cannot be told apart.
    pub times: f64,
    /// The noise in words, with what was seen of other programs.
    pub in_words: String,
    /// The share of the processor that other programs took meanwhile, from 0 to 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub busy_elsewhere: Option<f64>,
}

/// Conclusion from the figures of an experiment.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Advice {
    /// The experiment that it follows from.
    pub experiment: String,
    /// Advice in a few words: "Load files with leafpress load".
    pub headline: String,
    /// Reason for the advice, in a sentence or two, with the figures and what may be lost.
    pub text: String,
    /// Ratio to what people begin with: how many times faster it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub times: Option<Ratio>,
    /// Slower way of that ratio: "SQLite's default".
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub beside: Option<String>,
}

/// The machine that an experiment ran on. What the system does not tell is left out.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Machine {
    /// The processor's model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu: Option<String>,
    /// Cores that this process may use.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cores: Option<usize>,
    /// Operating system and kernel.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kernel: Option<String>,
    /// Memory of the machine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_mb: Option<u64>,
    /// The file system that held the files, with its device.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub filesystem: Option<String>,
}

/// Promise about a crash in the middle of the work or right after it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Safety {
    /// Acknowledged changes survive a power cut.
    Durable,
    /// Never corrupt; a power cut may take the last moments.
    Relaxed,
    /// Durable through a rollback journal.
    Rollback,
    /// No promise: a crash can destroy the file.
    Rebuildable,
}

impl Safety {
    /// All of them, in the order of the profiles.
    pub const ALL: [Self; 4] = [Self::Durable, Self::Relaxed, Self::Rollback, Self::Rebuildable];

    /// The profile that promises it.
    pub fn profile(self) -> Profile {
        match self {
            Self::Durable => Profile::Durable,
            Self::Relaxed => Profile::Relaxed,
            Self::Rollback => Profile::Rollback,
            Self::Rebuildable => Profile::Rebuildable,
        }
    }

    /// Its name, which is also the profile's that promises it.
    pub fn name(self) -> &'static str {
        self.profile().name()
    }

    /// Loss that a crash may cause, in a few words.
    pub fn may_lose(self) -> &'static str {
        self.profile().may_lose()
    }

    /// Returns true if a crash can destroy the file.
    pub fn can_corrupt(self) -> bool {
        self == Self::Rebuildable
    }

    /// Returns true if acknowledged changes survive a power cut.
    pub fn keeps_all(self) -> bool {
        matches!(self, Self::Durable | Self::Rollback)
    }
}

/// One kind of work, over all its runs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Rung {
    /// Kind of work, and its tool.
    pub name: String,
    /// Promise of its settings.
    pub safety: Safety,
    /// The median of `runs_s`.
    pub median_s: f64,
    /// Wall seconds of each run, in the order that they were made.
    pub runs_s: Vec<f64>,
    /// Rows a second in the median run.
    pub per_second: f64,
    /// Rows of one run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rows: Option<u64>,
    /// Processor seconds (user and system, all threads), median of the runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_s: Option<f64>,
    /// Peak resident memory, the largest of the runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub peak_mb: Option<f64>,
    /// Latency of single operations: of each figure the median of the runs, of
    /// the slowest operation the slowest run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub latency_us: Option<Latency>,
    /// Latency of wake-ups from the call on that caused each; `latency_us` is from its
    /// answer on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from_call_us: Option<Latency>,
    /// The slowest operation of each run, in the order that they were made.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub worst_us: Vec<f64>,
    /// The largest size of the WAL file, over all runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wal_mb_max: Option<f64>,
    /// The course over time, of the last run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub series: Option<Course>,
    /// Calls of the process to the system, in the last run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub io: Option<Io>,
    /// Seconds per stage, summed over threads, in the last run.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub stages_s: BTreeMap<String, f64>,
    /// Under which settings, where one-row transactions are compared.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub one_row: Option<OneRow>,
    /// SQLite's use of memory, in the last run, where that is compared.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory: Option<Memory>,
    /// The experiment that it belongs to.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub experiment: String,
    /// Chart that it is drawn in: rungs of one experiment and one chart did one
    /// work.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub chart: String,
    /// Its name within its chart: "WAL + NORMAL".
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub label: String,
    /// True for Leafpress.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_ours: bool,
    /// True for what the disk alone takes, without a database.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_bound: bool,
    /// Loss that a crash may cause, in words, from the table of the profiles.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub may_lose: String,
    /// It was measured on this many rows, and `median_s` and `runs_s` are scaled to `rows`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sample_rows: Option<u64>,
    /// Figure of the original for these settings.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub original: Option<OriginalFigure>,
    /// Seconds of each batch, medians of the runs, where the work comes in batches.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub batches_s: Vec<f64>,
    /// Microseconds of each cycle of the last run, where the work comes in cycles.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cycles_us: Vec<f64>,
    /// Cycles of the last run, from 0, in which a checkpoint moved pages.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub checkpoints: Vec<usize>,
    /// Seconds outside of the cycles or batches, median of the runs: the last commit, a
    /// checkpoint at the end, closing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outside_s: Option<f64>,
    /// Figures of many processes on one database, where these are compared.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub processes: Option<Processes>,
}

impl Rung {
    /// Microseconds of a row, or of a transaction if each row is one.
    pub(crate) fn row_us(&self) -> Option<f64> {
        let rows = self.rows.filter(|rows| *rows > 0)?;
        Some(self.median_s / rows as f64 * 1e6)
    }
}

/// Many processes that wrote into one database at the same time.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Processes {
    /// Number of processes.
    pub processes: u32,
    /// Threads of each process, each of which waited for its answers.
    pub callers: u32,
    /// Name of the curve: rungs that have it in common differ in the number of processes, or in how
    /// they write.
    pub curve: String,
    /// Rows of the process that had the fewest, divided by the mean of all; the smallest of the
    /// runs.
    pub slowest_of_mean: f64,
    /// Attempts that were refused ("database is locked", a timeout), in all runs.
    pub refused: u64,
    /// Syncs of the log for each row, where they are counted; the median of the runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub syncs_per_row: Option<f64>,
}

/// Latency of single operations, in microseconds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Latency {
    /// Half of the operations took no longer.
    pub p50: f64,
    /// 99 of 100 took no longer.
    pub p99: f64,
    /// 999 of 1000 took no longer.
    pub p999: f64,
    /// The slowest.
    pub max: f64,
}

/// Course of a run from its begin to its end, in slots of one length; each
/// list has one value for each slot.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Course {
    /// Length of a slot.
    pub slot_ms: f64,
    /// Of the operations that ended in the slot half took no longer; null where
    /// none ended.
    pub p50_us: Vec<Option<f64>>,
    /// The slowest operation that ended in the slot.
    pub max_us: Vec<Option<f64>>,
    /// Size of the WAL file at the end of the slot.
    pub wal_mb: Vec<f64>,
}

/// System calls for reading and writing, and the bytes that they moved.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Io {
    /// Calls that read.
    pub reads: u64,
    /// Calls that wrote.
    pub writes: u64,
    /// Bytes read, from the page cache or the disk.
    pub read_bytes: u64,
    /// Bytes written, to the page cache or the disk.
    pub written_bytes: u64,
    /// Calls of SQLite to its files, where they were counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub per_transaction: Option<FileIo>,
}

/// Calls of SQLite to its files, on average of the transactions.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct FileIo {
    /// Transactions over which it was counted.
    pub transactions: u64,
    /// Calls of all kinds to all files. A call of SQLite's can be several of the
    /// system's, or none.
    pub calls: f64,
    /// Bytes read.
    pub read_bytes: f64,
    /// Bytes written, to whichever file, once for each time.
    pub written_bytes: f64,
    /// By kind of file (`database`, `journal`, `super_journal`, `wal`, `temp`), and
    /// under it by kind of call (`open`, `read`, `write`, `write_atomic`, `truncate`,
    /// `sync`, `folder_sync`, `delete`, `lock`, `stat`, `map`). Those that were never
    /// made are left out.
    pub files: BTreeMap<String, BTreeMap<String, CallIo>>,
}

impl FileIo {
    /// Calls of this kind, over all files.
    pub fn calls_of(&self, kind: &str) -> f64 {
        let calls = self.files.values().filter_map(|calls| calls.get(kind));
        // The sum of no numbers would be -0.
        calls.fold(0.0, |sum, call| sum + call.calls)
    }
}

/// Calls of one kind to files of one kind, on average of the transactions.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct CallIo {
    /// Number of calls.
    pub calls: f64,
    /// Bytes that they moved.
    pub bytes: f64,
    /// Microseconds that they took.
    pub us: f64,
}

/// Under which settings one-row transactions were made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OneRow {
    /// "insert" or "update".
    pub change: String,
    /// `disk` or `xfs_loop`.
    pub place: String,
    /// "shared" or "exclusive".
    pub locking: String,
    /// SQLite's journal mode.
    pub journal_mode: String,
    /// SQLite's `synchronous`.
    pub synchronous: String,
    /// "SQL, delete extra"; "leafpress, atomic" or "assumed" where whole pages were
    /// asked for, "leafpress, journal" where they were not.
    pub opened_by: String,
    /// Leafpress's own words on how it writes pages.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub page_writes: Option<String>,
}

/// SQLite's use of memory, in its own book-keeping.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Memory {
    /// In use after the last transaction.
    pub used_bytes: u64,
    /// The most that was in use.
    pub used_bytes_max: u64,
    /// The largest piece that was asked for at once.
    pub allocation_bytes_max: u64,
    /// Small pieces that came from the lookaside block, at most at once; 0 where the
    /// connection has none.
    pub lookaside_slots_max: u64,
    /// The connection's page cache.
    pub page_cache_bytes: u64,
    /// The schema as it is kept.
    pub schema_bytes: u64,
    /// Prepared statements.
    pub statement_bytes: u64,
}

impl Memory {
    /// Of each figure the larger.
    #[must_use]
    pub fn max(self, other: Self) -> Self {
        Self {
            used_bytes: self.used_bytes.max(other.used_bytes),
            used_bytes_max: self.used_bytes_max.max(other.used_bytes_max),
            allocation_bytes_max: self.allocation_bytes_max.max(other.allocation_bytes_max),
            lookaside_slots_max: self.lookaside_slots_max.max(other.lookaside_slots_max),
            page_cache_bytes: self.page_cache_bytes.max(other.page_cache_bytes),
            schema_bytes: self.schema_bytes.max(other.schema_bytes),
            statement_bytes: self.statement_bytes.max(other.statement_bytes),
        }
    }
}

/// Ratio to the rival, larger than 1 if ours is better: the median of the pairwise ratios.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Ratio {
    /// The median.
    pub value: f64,
    /// The worst pair for us.
    pub min: f64,
    /// The best pair for us.
    pub max: f64,
    /// Another run on this machine should come out between this and `high`: the pairs of
    /// this run, widened by the noise of all its figures.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub low: Option<f64>,
    /// See `low`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub high: Option<f64>,
    /// Resource that bounded ours, where that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bound_by: Option<BoundBy>,
}

/// Resource that bounded a rung: with more of it the rung would have been faster. The rule is in
/// docs/benchmarks.md.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BoundBy {
    /// All cores computed.
    Processor,
    /// The disk wrote bytes.
    Disk,
    /// The disk synced.
    Sync,
    /// One core computed, and the others had little to do.
    OneCore,
    /// None of these: it waited, as one thread for another.
    Waiting,
}

impl BoundBy {
    /// All of them.
    pub const ALL: [Self; 5] =
        [Self::Processor, Self::Disk, Self::Sync, Self::OneCore, Self::Waiting];

    /// In a word or two: "bound by the processor".
    pub fn in_words(self) -> &'static str {
        match self {
            Self::Processor => "the processor",
            Self::Disk => "the disk",
            Self::Sync => "syncs",
            Self::OneCore => "one core",
            Self::Waiting => "waiting",
        }
    }
}

impl Ratio {
    /// One value for every pair.
    pub fn exactly(value: f64) -> Self {
        Self { value, min: value, max: value, ..Self::default() }
    }
}

impl ExperimentReport {
    /// Returns true for a run with small inputs, which gives the order of magnitude only.
    pub fn is_quick(&self) -> bool {
        self.is_set("quick")
    }

    /// Returns true for a run of no named experiment, which has the rungs that matter most of each.
    pub(crate) fn is_overview(&self) -> bool {
        self.is_set("overview")
    }

    fn is_set(&self, setting: &str) -> bool {
        self.settings.get(setting).and_then(serde_json::Value::as_bool) == Some(true)
    }

    /// Reads a report that [`write`](Self::write) wrote, of this version or an earlier one.
    ///
    /// # Errors
    /// If the file cannot be read, or is no such report.
    pub fn read(path: &Path) -> Result<Self> {
        let file = fs::File::open(path).map_err(Error::io("read", path))?;
        Self::read_from(&path_text(path), file)
    }

    /// Reads such a report from a reader, which messages call `name`.
    ///
    /// # Errors
    /// As [`read`](Self::read).
    pub fn read_from(name: &str, mut reader: impl Read) -> Result<Self> {
        let mut text = String::new();
        reader.read_to_string(&mut text).map_err(Error::io("read", Path::new(name)))?;
        let report: Self = serde_json::from_str(&text).map_err(|error| {
            Error::Usage(format!("{name} is no report of leafpress bench: {error}"))
        })?;
        if report.version > REPORT_VERSION {
            let newer = format!("{name} is of a newer leafpress (version {})", report.version);
            return Err(Error::Usage(newer));
        }
        Ok(report)
    }

    /// Writes the report to `path` as one JSON object. On failure the file may
    /// be missing or cut short.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn write(&self, path: &Path) -> Result<()> {
        let mut text = serde_json::to_string_pretty(self)
            .map_err(|error| Error::io("write", path)(error.into()))?;
        text.push('\n');
        fs::write(path, text).map_err(Error::io("write", path))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The shape of the design, with every field of it that a reader may rely on.
    const FULL: &str = r#"{"experiment": "writer", "version": 1,
        "machine": {"cpu": "x", "cores": 2, "kernel": "k", "memory_mb": 1, "filesystem": "ext4"},
        "settings": {"repeats": 5},
        "rungs": [{"name": "a", "safety": "durable", "median_s": 1.5, "runs_s": [1.5],
            "per_second": 2.0, "cpu_s": 1.0, "peak_mb": 3.0,
            "latency_us": {"p50": 1.0, "p99": 2.0, "p999": 3.0, "max": 4.0},
            "from_call_us": {"p50": 2.0, "p99": 3.0, "p999": 4.0, "max": 5.0},
            "worst_us": [4.0], "wal_mb_max": 64.5,
            "series": {"slot_ms": 2.0, "p50_us": [1.0, null], "max_us": [4.0, null],
                "wal_mb": [4.0, 4.5]},
            "io": {"reads": 1, "writes": 2, "read_bytes": 3, "written_bytes": 4,
                "per_transaction": {"transactions": 7, "calls": 3.5, "read_bytes": 0.0,
                    "written_bytes": 4096.0,
                    "files": {"database": {"write": {"calls": 1.0, "bytes": 4096.0, "us": 9.5}}}}},
            "one_row": {"change": "update", "place": "disk", "locking": "shared",
                "journal_mode": "delete", "synchronous": "extra",
                "opened_by": "leafpress, atomic", "page_writes": "whole"},
            "memory": {"used_bytes": 1, "used_bytes_max": 2, "allocation_bytes_max": 3,
                "lookaside_slots_max": 4, "page_cache_bytes": 5, "schema_bytes": 6,
                "statement_bytes": 7}}],
        "ratios": {"blocking64": {"value": 2.0, "min": 1.0, "max": 3.0}}}"#;

    fn value_of(report: &ExperimentReport) -> serde_json::Value {
        serde_json::to_value(report).expect("a report is JSON")
    }

    #[test]
    fn the_designs_object_round_trips() {
        let report: ExperimentReport = serde_json::from_str(FULL).expect("the shape parses");
        let wanted: serde_json::Value = serde_json::from_str(FULL).expect("it is JSON");
        assert_eq!(value_of(&report), wanted);
    }

    #[test]
    fn what_does_not_apply_is_left_out() {
        let mut report: ExperimentReport = serde_json::from_str(FULL).expect("the shape parses");
        report.machine = Machine::default();
        report.rungs[0].cpu_s = None;
        report.rungs[0].peak_mb = None;
        report.rungs[0].latency_us = None;
        report.rungs[0].from_call_us = None;
        report.rungs[0].worst_us = Vec::new();
        report.rungs[0].wal_mb_max = None;
        report.rungs[0].series = None;
        report.rungs[0].io = None;
        report.rungs[0].one_row = None;
        report.rungs[0].memory = None;
        let value = value_of(&report);
        assert_eq!(value["machine"], serde_json::json!({}));
        let mut keys: Vec<&String> =
            value["rungs"][0].as_object().map(|rung| rung.keys().collect()).unwrap_or_default();
        keys.sort();
        assert_eq!(keys, ["median_s", "name", "per_second", "runs_s", "safety"]);
    }

    #[test]
    fn a_report_is_written_as_one_object() {
        let report: ExperimentReport = serde_json::from_str(FULL).expect("the shape parses");
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("report.json");
        report.write(&path).expect("it can be written");
        let text = fs::read_to_string(&path).expect("it can be read");
        let again: ExperimentReport = serde_json::from_str(&text).expect("it parses");
        assert_eq!(again, report);
        assert_eq!(ExperimentReport::read(&path).expect("it can be read again"), report);
        let newer = text.replace("\"version\": 1", "\"version\": 99");
        for wrong in ["", "{}", newer.as_str()] {
            fs::write(&path, wrong).expect("it can be written");
            let error = ExperimentReport::read(&path).expect_err("it is none");
            assert!(matches!(error, Error::Usage(_)), "{error}");
        }
    }
}
