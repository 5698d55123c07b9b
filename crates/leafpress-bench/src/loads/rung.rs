//! Rungs of loads: the work, the tool, and the number of rows.

use std::ops::Range;

use serde::{Deserialize, Serialize};

use crate::numbers::size_name;
use crate::pragmas::Pragmas;
use crate::report::Safety;
use crate::rung::described::InputFormat;

/// Reason why Parquet is left out of some builds.
pub(crate) const NO_PARQUET: &str = "this leafpress was built without Parquet";

/// Rows are appended to a table that has this many times as many.
pub(crate) const APPEND_FACTOR: u64 = 10;

/// Work of a load. It decides the content afterwards, and the rungs that can be compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Work {
    /// The CSV file to a new database.
    Csv,
    /// The CSV file to a new database, and an index on one of its columns.
    CsvIndex,
    /// The NDJSON file to a new database.
    Ndjson,
    /// The Parquet file to a new database.
    Parquet,
    /// A small CSV file to a new database, by a process of its own.
    Process,
    /// Users made in memory to a new database.
    Users,
    /// Users made in memory to a database that exists, in WAL mode.
    Attach,
    /// Rows with random keys to a new database.
    Keys,
    /// Rows with random keys to a table that has ten times as many, in WAL mode.
    Append,
    /// An index on the CSV file's table, which is there already.
    Index,
}

/// A work, and the way in which a rival does it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Load {
    /// The CSV file by tuned SQL, types known, one row a statement.
    CsvSql,
    /// The CSV file by tuned SQL, types known, 20 rows a statement.
    CsvBatchedSql,
    /// The CSV file by Leafpress, types detected.
    CsvLeafpress,
    /// The CSV file by Leafpress, types given.
    CsvTypedLeafpress,
    /// The CSV file read, and as many bytes written and synced as its database has.
    CsvDisk,
    /// The CSV file by tuned SQL, 20 rows a statement, then a tuned CREATE INDEX.
    CsvIndexSql,
    /// The CSV file and its index by Leafpress in one run, types detected.
    CsvIndexLeafpress,
    /// The NDJSON file by tuned SQL, types known, one row a statement.
    NdjsonSql,
    /// The NDJSON file by tuned SQL, types known, 20 rows a statement.
    NdjsonBatchedSql,
    /// The NDJSON file by Leafpress, types detected.
    NdjsonLeafpress,
    /// The Parquet file by tuned SQL, one row a statement.
    ParquetSql,
    /// The Parquet file by tuned SQL, 20 rows a statement.
    ParquetBatchedSql,
    /// The Parquet file by Leafpress.
    ParquetLeafpress,
    /// A small CSV file by the process `sqlite3`, in one transaction.
    ProcessShell,
    /// A small CSV file by the process `leafpress load`, types detected.
    ProcessLeafpress,
    /// Users by tuned SQL, 50 rows a statement.
    UsersSql,
    /// Users by Leafpress, in parts on all cores.
    UsersLeafpress,
    /// Users by Leafpress, from a single iterator.
    UsersIteratorLeafpress,
    /// As many bytes written and synced as the database of the users has.
    UsersDisk,
    /// Users to a new table of an existing database by SQL, one row a statement.
    AttachSql,
    /// Users to a new table of an existing database by SQL, 50 rows a statement.
    AttachBatchedSql,
    /// Users to a new table of an existing database by Leafpress.
    AttachLeafpress,
    /// Random keys by tuned SQL as they come, 50 rows a statement.
    KeysSql,
    /// Random keys by tuned SQL, sorted beforehand, 50 rows a statement.
    KeysPresortedSql,
    /// Random keys by tuned SQL, a million rows sorted at a time.
    KeysBatchedSql,
    /// Random keys by Leafpress, in parts on all cores.
    KeysLeafpress,
    /// As many bytes written and synced as the database of the keys has.
    KeysDisk,
    /// Random keys by Leafpress with so little memory that it has to spill.
    KeysSpilledLeafpress,
    /// Random keys to a table that has rows by SQL, one row a statement.
    AppendSql,
    /// Random keys to a table that has rows by Leafpress.
    AppendLeafpress,
    /// An index by SQLite's CREATE INDEX, tuned.
    IndexSql,
    /// An index by SQLite's CREATE INDEX with a journal and with syncs.
    IndexDurableSql,
    /// An index by Leafpress.
    IndexLeafpress,
}

/// A load.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct LoadRung {
    /// Work, and the way in which it is done.
    pub(crate) by: Load,
    /// Rows to add, or rows of the table that gets an index; 0 where the file decides.
    #[serde(default)]
    pub(crate) rows: u64,
    /// Memory for the sort, where it is limited.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) memory_bytes: Option<u64>,
}

/// Facts of a way to load.
pub(super) struct Facts {
    pub(super) work: Work,
    pub(super) is_ours: bool,
    /// True for the disk alone, without a database.
    pub(super) is_bound: bool,
    pub(super) safety: Safety,
    pub(super) label: &'static str,
}

impl Load {
    /// Facts of this way.
    pub(super) fn facts(self) -> Facts {
        let (is_ours, is_bound) = (false, false);
        let sql = |work, safety, label| Facts { work, is_ours, is_bound, safety, label };
        let ours = |work, label| Facts { is_ours: true, ..sql(work, Safety::Durable, label) };
        let disk = |work, label| Facts { is_bound: true, ..sql(work, Safety::Durable, label) };
        // Nothing would be left of a new database; one that exists must survive.
        let (no_promise, durable) = (Safety::Rebuildable, Safety::Durable);
        match self {
            Self::CsvSql => sql(Work::Csv, no_promise, "SQL, types known, one row a statement"),
            Self::CsvBatchedSql => {
                sql(Work::Csv, no_promise, "SQL, types known, 20 rows a statement")
            }
            Self::CsvLeafpress => ours(Work::Csv, "leafpress, types detected"),
            Self::CsvTypedLeafpress => ours(Work::Csv, "leafpress, types given"),
            Self::CsvDisk => disk(Work::Csv, "the disk alone: read, write, sync"),
            Self::CsvIndexSql => sql(Work::CsvIndex, no_promise, "SQL, 20 rows a statement"),
            Self::CsvIndexLeafpress => ours(Work::CsvIndex, "leafpress"),
            Self::NdjsonSql => {
                sql(Work::Ndjson, no_promise, "SQL, types known, one row a statement")
            }
            Self::NdjsonBatchedSql => {
                sql(Work::Ndjson, no_promise, "SQL, types known, 20 rows a statement")
            }
            Self::NdjsonLeafpress => ours(Work::Ndjson, "leafpress, types detected"),
            Self::ParquetSql => sql(Work::Parquet, no_promise, "SQL, one row a statement"),
            Self::ParquetBatchedSql => sql(Work::Parquet, no_promise, "SQL, 20 rows a statement"),
            Self::ParquetLeafpress => ours(Work::Parquet, "leafpress"),
            Self::ProcessShell => sql(Work::Process, Pragmas::DEFAULT.safety(), "sqlite3, .import"),
            Self::ProcessLeafpress => ours(Work::Process, "leafpress load"),
            Self::UsersSql => sql(Work::Users, no_promise, "SQL, 50 rows a statement"),
            Self::UsersLeafpress => ours(Work::Users, "leafpress, in parts"),
            Self::UsersIteratorLeafpress => ours(Work::Users, "leafpress, one iterator"),
            Self::UsersDisk => disk(Work::Users, "the disk alone: write, sync"),
            Self::AttachSql => sql(Work::Attach, durable, "SQL, one row a statement"),
            Self::AttachBatchedSql => sql(Work::Attach, durable, "SQL, 50 rows a statement"),
            Self::AttachLeafpress => ours(Work::Attach, "leafpress"),
            Self::KeysSql => sql(Work::Keys, no_promise, "SQL, unsorted"),
            Self::KeysPresortedSql => sql(Work::Keys, no_promise, "SQL, presorted"),
            Self::KeysBatchedSql => sql(Work::Keys, no_promise, "SQL, batches presorted"),
            Self::KeysLeafpress => ours(Work::Keys, "leafpress"),
            Self::KeysDisk => disk(Work::Keys, "the disk alone: write, sync"),
            Self::KeysSpilledLeafpress => ours(Work::Keys, "leafpress, spilled"),
            Self::AppendSql => sql(Work::Append, durable, "SQL, one row a statement"),
            Self::AppendLeafpress => ours(Work::Append, "leafpress"),
            Self::IndexSql => sql(Work::Index, no_promise, "SQL"),
            Self::IndexDurableSql => sql(Work::Index, Safety::Rollback, "SQL, durable"),
            Self::IndexLeafpress => ours(Work::Index, "leafpress"),
        }
    }
}

impl Work {
    /// First word of its rungs' names.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Csv => "csv",
            Self::CsvIndex => "csv and index",
            Self::Ndjson => "ndjson",
            Self::Parquet => "parquet",
            Self::Process => "whole process",
            Self::Users => "rows",
            Self::Attach => "attach",
            Self::Keys => "keys",
            Self::Append => "append",
            Self::Index => "index",
        }
    }

    /// Format of the experiment's file that is read, if one is.
    pub(super) fn reads(self) -> Option<InputFormat> {
        match self {
            Self::Csv | Self::CsvIndex => Some(InputFormat::Csv),
            Self::Ndjson => Some(InputFormat::Ndjson),
            Self::Parquet => Some(InputFormat::Parquet),
            Self::Process
            | Self::Users
            | Self::Attach
            | Self::Keys
            | Self::Append
            | Self::Index => None,
        }
    }

    /// Returns true if the table has an index in the end.
    pub(super) fn has_index(self) -> bool {
        matches!(self, Self::CsvIndex | Self::Index)
    }

    /// Journal mode that the database is left in: that of the database that existed.
    pub(super) fn journal_left(self) -> &'static str {
        if matches!(self, Self::Attach | Self::Append) { "wal" } else { "delete" }
    }
}

impl LoadRung {
    /// Work that is done.
    pub(super) fn work(self) -> Work {
        self.by.facts().work
    }

    /// Rows that stand in the table beforehand.
    pub(super) fn rows_before(self) -> u64 {
        if self.work() == Work::Append { self.rows.saturating_mul(APPEND_FACTOR) } else { 0 }
    }

    /// Numbers of the rows to make.
    pub(super) fn row_numbers(self) -> Range<u64> {
        let first = self.rows_before();
        first..first.saturating_add(self.rows)
    }

    /// Chart of the work. A work that several groups do at different sizes has a chart for each.
    pub(super) fn chart(self) -> String {
        let size = size_name(self.rows);
        match self.work() {
            Work::Csv => "a CSV file".to_owned(),
            Work::CsvIndex => "a CSV file, with an index".to_owned(),
            Work::Ndjson => "an NDJSON file".to_owned(),
            Work::Parquet => "a Parquet file".to_owned(),
            Work::Process => format!("a CSV file of {size} rows, the whole process"),
            Work::Users => format!("rows made in memory, {size}"),
            Work::Attach => "a new table in an existing database".to_owned(),
            Work::Keys => format!("random keys, {size}"),
            Work::Append => "more rows with random keys".to_owned(),
            Work::Index => "an index on a table".to_owned(),
        }
    }
}
