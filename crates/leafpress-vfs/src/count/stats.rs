//! The figures as a caller gets them: a copy that changes no more.
//!
//! Plain values: they are compared, subtracted, added up, printed and made JSON of, and
//! do no I/O. The JSON, which is stable (fields may come to it, none goes or changes):
//!
//! ```json
//! {"database": {"write": {"calls": 2, "bytes": 8192, "latency":
//!     {"p50_ns": 3071, "p99_ns": 3500, "max_ns": 3500, "total_ns": 6400}}},
//!  "journal": {}, "super_journal": {}, "wal": {}, "temp": {}}
//! ```
//!
//! All five kinds are always there. Operations that did not happen are left out;
//! `latency` is `null` where no call was timed.

use std::fmt;
use std::time::Duration;

use serde::Serialize;

use super::latency::Latency;
use crate::text::scaled;

/// Kind of a file, as it is counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Database,
    Journal,
    SuperJournal,
    Wal,
    Temp,
}

impl Kind {
    pub(super) const ALL: [Self; 5] =
        [Self::Database, Self::Journal, Self::SuperJournal, Self::Wal, Self::Temp];

    const fn name(self) -> &'static str {
        match self {
            Self::Database => "database",
            Self::Journal => "journal",
            Self::SuperJournal => "super_journal",
            Self::Wal => "wal",
            Self::Temp => "temp",
        }
    }
}

/// Operation on a file, as it is counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Operation {
    Open,
    Read,
    Write,
    WriteAtomic,
    Truncate,
    Sync,
    FolderSync,
    Delete,
    Lock,
    Stat,
    Map,
}

impl Operation {
    pub(super) const ALL: [Self; 11] = [
        Self::Open,
        Self::Read,
        Self::Write,
        Self::WriteAtomic,
        Self::Truncate,
        Self::Sync,
        Self::FolderSync,
        Self::Delete,
        Self::Lock,
        Self::Stat,
        Self::Map,
    ];

    const fn name(self) -> &'static str {
        match self {
            Self::Open => "open",
            Self::Read => "read",
            Self::Write => "write",
            Self::WriteAtomic => "write_atomic",
            Self::Truncate => "truncate",
            Self::Sync => "sync",
            Self::FolderSync => "folder_sync",
            Self::Delete => "delete",
            Self::Lock => "lock",
            Self::Stat => "stat",
            Self::Map => "map",
        }
    }
}

/// Operations on files, by the kind of file.
///
/// Calls are those that SQLite makes of its VFS; nearly all are one system call each,
/// and some are none (a lock that this process holds already), one more (a read beyond
/// the end, after which the size is looked up) or several (an open). Failed calls count
/// like others.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct IoStats {
    /// Databases, attached ones too.
    pub database: FileIo,
    /// Rollback journals.
    pub journal: FileIo,
    /// Journals that bind those of several attached databases into one transaction.
    pub super_journal: FileIo,
    /// Write-ahead logs, and the memory (`-shm`) that their connections share.
    pub wal: FileIo,
    /// Temporary tables and their journals, the journals of statements, what sorting
    /// and temporary indexes spill.
    pub temp: FileIo,
}

/// Operations on files of one kind.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct FileIo {
    /// Opening, and making; of a database also the look whether it can be written by
    /// whole pages. Closing is not counted.
    #[serde(skip_serializing_if = "OpIo::is_none")]
    pub open: OpIo,
    /// Reading; bytes are those that were there.
    #[serde(skip_serializing_if = "OpIo::is_none")]
    pub read: OpIo,
    /// Writing, but for `write_atomic`; bytes are those of calls that succeeded.
    #[serde(skip_serializing_if = "OpIo::is_none")]
    pub write: OpIo,
    /// Writing a page in place, as a whole or not at all.
    #[serde(skip_serializing_if = "OpIo::is_none")]
    pub write_atomic: OpIo,
    /// Setting a file's size.
    #[serde(skip_serializing_if = "OpIo::is_none")]
    pub truncate: OpIo,
    /// Syncing a file.
    #[serde(skip_serializing_if = "OpIo::is_none")]
    pub sync: OpIo,
    /// Syncing the folder of a file, for its name.
    ///
    /// The platform's VFS does some by itself: after a deletion that asks for it, and
    /// with the first sync of each opening of a journal or write-ahead log that could
    /// be made by that opening. Those are counted (on Unix, where they happen), but not
    /// timed: their time is in that `delete` or `sync`. So `latency` may know of fewer
    /// calls than `calls`.
    #[serde(skip_serializing_if = "OpIo::is_none")]
    pub folder_sync: OpIo,
    /// Deleting.
    #[serde(skip_serializing_if = "OpIo::is_none")]
    pub delete: OpIo,
    /// Locking, unlocking, and asking who has locked; under `wal` the locks in shared
    /// memory.
    #[serde(skip_serializing_if = "OpIo::is_none")]
    pub lock: OpIo,
    /// Asking whether a file is there, how large it is, or when it changed.
    #[serde(skip_serializing_if = "OpIo::is_none")]
    pub stat: OpIo,
    /// Mapping a page into memory, in the place of reading it; under `wal` regions of shared
    /// memory. Bytes are those that were mapped. Not timed: the thread that looks at a page first
    /// pays its cost.
    #[serde(skip_serializing_if = "OpIo::is_none")]
    pub map: OpIo,
}

/// One operation on files of one kind.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct OpIo {
    /// Number of calls.
    pub calls: u64,
    /// Bytes that were moved: by `read`, `write`, `write_atomic` and `map`.
    pub bytes: u64,
    /// Latencies of the calls.
    pub latency: Latency,
}

impl IoStats {
    /// The kinds with their names: those of the fields, in their order.
    pub fn kinds(&self) -> impl Iterator<Item = (&'static str, &FileIo)> {
        Kind::ALL.into_iter().map(|kind| (kind.name(), self.of(kind)))
    }

    /// The difference to an earlier copy of the same counters. A number that is larger in the
    /// earlier copy, as in one of other counters, becomes 0.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        Self::build(|kind| self.of(kind).since(earlier.of(kind)))
    }

    /// All kinds together.
    pub fn total(&self) -> FileIo {
        self.kinds().fold(FileIo::default(), |sum, (_, io)| sum.plus(io))
    }

    pub(super) fn build(of: impl Fn(Kind) -> FileIo) -> Self {
        Self {
            database: of(Kind::Database),
            journal: of(Kind::Journal),
            super_journal: of(Kind::SuperJournal),
            wal: of(Kind::Wal),
            temp: of(Kind::Temp),
        }
    }

    const fn of(&self, kind: Kind) -> &FileIo {
        match kind {
            Kind::Database => &self.database,
            Kind::Journal => &self.journal,
            Kind::SuperJournal => &self.super_journal,
            Kind::Wal => &self.wal,
            Kind::Temp => &self.temp,
        }
    }
}

impl FileIo {
    /// The operations with their names: those of the fields, in their order.
    pub fn operations(&self) -> impl Iterator<Item = (&'static str, &OpIo)> {
        Operation::ALL.into_iter().map(|operation| (operation.name(), self.of(operation)))
    }

    /// All operations together. Its `calls` hold the folder syncs that happen inside of
    /// other calls; its times hold each once.
    pub fn total(&self) -> OpIo {
        self.operations().fold(OpIo::default(), |sum, (_, io)| sum.plus(io))
    }

    pub(super) fn build(of: impl Fn(Operation) -> OpIo) -> Self {
        Self {
            open: of(Operation::Open),
            read: of(Operation::Read),
            write: of(Operation::Write),
            write_atomic: of(Operation::WriteAtomic),
            truncate: of(Operation::Truncate),
            sync: of(Operation::Sync),
            folder_sync: of(Operation::FolderSync),
            delete: of(Operation::Delete),
            lock: of(Operation::Lock),
            stat: of(Operation::Stat),
            map: of(Operation::Map),
        }
    }

    const fn of(&self, operation: Operation) -> &OpIo {
        match operation {
            Operation::Open => &self.open,
            Operation::Read => &self.read,
            Operation::Write => &self.write,
            Operation::WriteAtomic => &self.write_atomic,
            Operation::Truncate => &self.truncate,
            Operation::Sync => &self.sync,
            Operation::FolderSync => &self.folder_sync,
            Operation::Delete => &self.delete,
            Operation::Lock => &self.lock,
            Operation::Stat => &self.stat,
            Operation::Map => &self.map,
        }
    }

    fn since(&self, earlier: &Self) -> Self {
        Self::build(|operation| self.of(operation).since(earlier.of(operation)))
    }

    pub(super) fn plus(&self, other: &Self) -> Self {
        Self::build(|operation| self.of(operation).plus(other.of(operation)))
    }
}

impl OpIo {
    /// Returns true if there was no call.
    pub const fn is_none(&self) -> bool {
        self.calls == 0
    }

    fn since(&self, earlier: &Self) -> Self {
        Self {
            calls: self.calls.saturating_sub(earlier.calls),
            bytes: self.bytes.saturating_sub(earlier.bytes),
            latency: self.latency.since(&earlier.latency),
        }
    }

    fn plus(&self, other: &Self) -> Self {
        Self {
            calls: self.calls + other.calls,
            bytes: self.bytes + other.bytes,
            latency: self.latency.plus(&other.latency),
        }
    }
}

/// A table of the operations that happened, with a line for their names and none below
/// the last row; nothing but the names if nothing happened.
impl fmt::Display for IoStats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = ["file", "operation", "calls", "bytes", "p50", "p99", "max"];
        let mut rows = vec![names.map(str::to_owned)];
        for (kind, io) in self.kinds() {
            let happened = io.operations().filter(|(_, operation)| !operation.is_none());
            rows.extend(happened.map(|(operation, io)| row(kind, operation, io)));
        }
        let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max();
        let widths: [usize; 7] = std::array::from_fn(|column| width(column).unwrap_or(0));
        for (line, row) in rows.iter().enumerate() {
            if line > 0 {
                writeln!(f)?;
            }
            write!(f, "{:<w0$}  {:<w1$}", row[0], row[1], w0 = widths[0], w1 = widths[1])?;
            for column in 2..row.len() {
                write!(f, "  {:>width$}", row[column], width = widths[column])?;
            }
        }
        Ok(())
    }
}

fn row(kind: &str, operation: &str, io: &OpIo) -> [String; 7] {
    let latency = &io.latency;
    let time = |it| if latency.calls() == 0 { "-".to_owned() } else { time(it) };
    [
        kind.replace('_', "-"),
        operation.replace('_', " "),
        io.calls.to_string(),
        if io.bytes == 0 { "-".to_owned() } else { bytes(io.bytes) },
        time(latency.quantile(0.5)),
        time(latency.quantile(0.99)),
        time(latency.max),
    ]
}

/// `512 B`, `4.00 KiB`, `120 MiB`: pages are powers of two.
fn bytes(count: u64) -> String {
    scaled(count as f64, 1024.0, &["B", "KiB", "MiB", "GiB", "TiB"])
}

/// `740 ns`, `3.10 µs`, `54.0 ms`.
fn time(time: Duration) -> String {
    scaled(time.as_nanos() as f64, 1000.0, &["ns", "µs", "ms", "s"])
}

#[cfg(test)]
mod tests {
    use super::super::IoCounters;
    use super::*;

    /// Two writes of a database, and a folder sync of a journal that was not timed.
    fn some() -> IoStats {
        let counters = IoCounters::new();
        for _ in 0..2 {
            counters.shared(Kind::Database).timed(Operation::Write, || ());
            counters.shared(Kind::Database).moved(Operation::Write, 4096);
        }
        counters.shared(Kind::Journal).untimed(Operation::FolderSync);
        counters.snapshot()
    }

    #[test]
    fn json_has_all_kinds_and_the_operations_that_happened() {
        let stats = some();
        let latency = &stats.database.write.latency;
        let ns = |time: Duration| time.as_nanos() as u64;
        let expected = serde_json::json!({
            "database": {"write": {"calls": 2, "bytes": 8192, "latency": {
                "p50_ns": ns(latency.quantile(0.5)), "p99_ns": ns(latency.quantile(0.99)),
                "max_ns": ns(latency.max), "total_ns": ns(latency.total),
            }}},
            "journal": {"folder_sync": {"calls": 1, "bytes": 0, "latency": null}},
            "super_journal": {}, "wal": {}, "temp": {},
        });
        assert_eq!(serde_json::to_value(&stats).unwrap(), expected);
        assert!(latency.quantile(0.5) <= latency.max && latency.max <= latency.total);
        let nothing = serde_json::json!({
            "database": {}, "journal": {}, "super_journal": {}, "wal": {}, "temp": {},
        });
        assert_eq!(serde_json::to_value(stats.since(&stats)).unwrap(), nothing);
    }

    /// Every field has its own counters, and its name in JSON is that of `operations`.
    #[test]
    fn each_operation_has_a_field_of_its_name() {
        for kind in Kind::ALL {
            for operation in Operation::ALL {
                let counters = IoCounters::new();
                counters.shared(kind).timed(operation, || ());
                let stats = counters.snapshot();
                let json = serde_json::to_value(&stats).unwrap();
                assert_eq!(json[kind.name()][operation.name()]["calls"], 1);
                let found = stats.kinds().flat_map(|(kind, io)| {
                    io.operations().map(move |(operation, io)| (kind, operation, io.calls))
                });
                let found: Vec<_> = found.filter(|&(_, _, calls)| calls > 0).collect();
                assert_eq!(found, [(kind.name(), operation.name(), 1)]);
                assert_eq!(stats.total().total(), *stats.of(kind).of(operation));
            }
        }
    }

    #[test]
    fn a_difference_is_what_came_since() {
        let counters = IoCounters::new();
        counters.shared(Kind::Wal).timed(Operation::Sync, || ());
        let before = counters.snapshot();
        counters.shared(Kind::Wal).timed(Operation::Read, || ());
        counters.shared(Kind::Wal).moved(Operation::Read, 24);
        let between = counters.snapshot().since(&before);
        assert_eq!((between.wal.sync.calls, between.wal.read.calls), (0, 1));
        assert_eq!(between.total().total().bytes, 24);
        assert_eq!(before.since(&counters.snapshot()), IoStats::default());
    }

    #[test]
    fn the_table_is_aligned_and_has_units() {
        let mut stats = some();
        let write = &mut stats.database.write;
        *write = OpIo { calls: 1_234, bytes: 5_000_000, ..write.clone() };
        write.latency.max = Duration::from_micros(54_321);
        let table = stats.to_string();
        let lines: Vec<&str> = table.lines().collect();
        let [names, write, folder_sync] = lines[..] else { panic!("{table}") };
        for word in ["file", "operation", "calls", "bytes", "p50", "p99", "max"] {
            assert!(names.contains(word), "{table}");
        }
        assert!(write.starts_with("database  write         1234  4.77 MiB  "), "{table}");
        assert!(write.ends_with("  54.3 ms"), "{table}");
        assert!(folder_sync.starts_with("journal   folder sync      1         -  "), "{table}");
        let widths = lines.iter().map(|line| line.chars().count());
        assert!(widths.clone().all(|width| width == names.chars().count()), "{table}");
        assert_eq!(IoStats::default().to_string().lines().count(), 1);
    }

    #[test]
    fn numbers_have_three_digits() {
        let times = [0, 999, 1_000, 9_996, 99_960, 999_600, 61_000_000_000];
        let times = times.map(|ns| time(Duration::from_nanos(ns)));
        assert_eq!(times, ["0 ns", "999 ns", "1.00 µs", "10.0 µs", "100 µs", "1.00 ms", "61.0 s"]);
        let sizes = [512, 4096, 1 << 20, 3 << 39].map(bytes);
        assert_eq!(sizes, ["512 B", "4.00 KiB", "1.00 MiB", "1.50 TiB"]);
    }
}
