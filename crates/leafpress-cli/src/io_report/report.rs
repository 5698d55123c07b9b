//! The results of a run, as plain values: they are printed and made JSON of, and do no I/O.
//!
//! The JSON is stable: fields may come to it, none goes or changes its meaning.

use std::path::PathBuf;
use std::time::Duration;

use leafpress::memory::MemoryStats;
use leafpress::profile::InForce;
use leafpress::vfs::atomic::AtomicState;
use leafpress::vfs::count::{FileIo, IoStats};
use serde::Serialize;

use super::causes::Finding;

/// The cost of the script's transactions, and the reasons for it.
#[derive(Debug, Clone, Serialize)]
pub struct IoReport {
    /// The database, as it was named.
    #[serde(serialize_with = "leafpress::path_as_text")]
    pub database: PathBuf,
    /// The file that the script ran on.
    pub ran_on: RanOn,
    /// The settings of the connection.
    pub in_force: InForce,
    /// The state as the script began: how a transaction of one page could be committed.
    pub one_page_commits: AtomicState,
    /// Number of runs of the script, one after the other.
    pub rounds: u32,
    /// Statements in the script.
    pub statements: u64,
    /// Transactions in all rounds.
    pub transactions_total: u64,
    /// Number of transactions that ended in each way.
    pub commits: Commits,
    /// The transactions of one round, up to the number that was asked for. With
    /// several rounds each has the figures that most rounds agree on.
    pub transactions: Vec<Transaction>,
    /// Transactions of a round that are not listed.
    pub transactions_left_out: u64,
    /// The transactions with like ones grouped, the most frequent first.
    pub shapes: Vec<Shape>,
    /// The reasons why commits are not one write and one sync, the most frequent first.
    pub findings: Vec<Finding>,
    /// The results in sentences.
    pub summary: Vec<String>,
    /// All of the transactions' calls.
    pub io: IoStats,
    /// The checkpoint that was made after the script, in WAL mode: what was
    /// not paid for by its commits.
    pub checkpoint: Option<IoStats>,
    /// The memory of SQLite after the script, where it was asked for.
    pub memory: Option<MemoryStats>,
    /// Duration with the making of the copy.
    #[serde(rename = "elapsed_s", serialize_with = "leafpress::times::seconds")]
    pub elapsed: Duration,
}

/// The file that a script ran on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum RanOn {
    /// A copy, which is gone.
    Copy,
    /// The database itself.
    Database,
}

/// The way in which a transaction ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum HowCommitted {
    /// One page, written in place as a whole.
    InPlace,
    /// By a rollback journal.
    Journal,
    /// By the journals of several databases and one that binds them.
    SuperJournal,
    /// Into the write-ahead log.
    Log,
    /// By a journal in memory only, or by none.
    Unprotected,
    /// A checkpoint: pages of the log were copied into the database.
    Checkpoint,
    /// Nothing was written to a database.
    ReadOnly,
    /// Without any call to the disk.
    NoCalls,
    /// Undone.
    RolledBack,
}

impl HowCommitted {
    /// Short name, for a table.
    pub fn short(self) -> &'static str {
        match self {
            Self::InPlace => "in place",
            Self::Journal => "journal",
            Self::SuperJournal => "super-journal",
            Self::Log => "log",
            Self::Unprotected => "no journal",
            Self::Checkpoint => "checkpoint",
            Self::ReadOnly => "read only",
            Self::NoCalls => "no calls",
            Self::RolledBack => "rolled back",
        }
    }

    /// Returns true if the transaction changed a database for good.
    pub fn is_write(self) -> bool {
        !matches!(self, Self::Checkpoint | Self::ReadOnly | Self::NoCalls | Self::RolledBack)
    }
}

/// Number of transactions that ended in each way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct Commits {
    /// One page, in place.
    pub in_place: u64,
    /// By a rollback journal.
    pub journal: u64,
    /// By a super-journal.
    pub super_journal: u64,
    /// Into the write-ahead log.
    pub log: u64,
    /// By a journal in memory only, or by none.
    pub unprotected: u64,
    /// Checkpoints: pages of the log were copied into the database.
    pub checkpoint: u64,
    /// Nothing was written to a database.
    pub read_only: u64,
    /// Without any call to the disk.
    pub no_calls: u64,
    /// Undone.
    pub rolled_back: u64,
    /// Of the writing transactions, those that changed a single page of a single database,
    /// which can be written in place if the disk writes pages whole.
    pub of_one_page: u64,
}

impl Commits {
    pub(super) fn count(&mut self, how: HowCommitted, is_of_one_page: bool) {
        let number = match how {
            HowCommitted::InPlace => &mut self.in_place,
            HowCommitted::Journal => &mut self.journal,
            HowCommitted::SuperJournal => &mut self.super_journal,
            HowCommitted::Log => &mut self.log,
            HowCommitted::Unprotected => &mut self.unprotected,
            HowCommitted::Checkpoint => &mut self.checkpoint,
            HowCommitted::ReadOnly => &mut self.read_only,
            HowCommitted::NoCalls => &mut self.no_calls,
            HowCommitted::RolledBack => &mut self.rolled_back,
        };
        *number += 1;
        self.of_one_page += u64::from(is_of_one_page);
    }

    /// Number of transactions that changed a database for good.
    pub fn writes(&self) -> u64 {
        self.in_place + self.journal + self.super_journal + self.log + self.unprotected
    }
}

/// The calls of a transaction to its VFS, by what they are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize)]
pub struct Calls {
    /// Reads of any file.
    pub read: u64,
    /// Pages of a database written in place as a whole.
    pub write_in_place: u64,
    /// Other writes to a database.
    pub write_database: u64,
    /// Writes to a rollback journal or super-journal.
    pub write_journal: u64,
    /// Writes to a write-ahead log.
    pub write_log: u64,
    /// Writes to temporary files.
    pub write_temporary: u64,
    /// Syncs of files.
    pub sync: u64,
    /// Syncs of folders, for names.
    pub folder_sync: u64,
    /// All others: opening, deleting, cutting, locking, asking for sizes, mapping.
    pub other: u64,
}

impl Calls {
    pub(super) fn of(io: &IoStats) -> Self {
        let all = io.total();
        Self {
            read: all.read.calls,
            write_in_place: io.database.write_atomic.calls,
            write_database: io.database.write.calls,
            write_journal: io.journal.write.calls + io.super_journal.write.calls,
            write_log: io.wal.write.calls,
            write_temporary: io.temp.write.calls,
            sync: all.sync.calls,
            folder_sync: all.folder_sync.calls,
            other: others(&all),
        }
    }

    /// All of them.
    pub fn total(&self) -> u64 {
        self.read + self.writes() + self.sync + self.folder_sync + self.other
    }

    /// All writes.
    pub fn writes(&self) -> u64 {
        self.write_in_place
            + self.write_database
            + self.write_journal
            + self.write_log
            + self.write_temporary
    }
}

fn others(all: &FileIo) -> u64 {
    [&all.open, &all.truncate, &all.delete, &all.lock, &all.stat, &all.map]
        .into_iter()
        .map(|it| it.calls)
        .sum()
}

/// One transaction: all from one moment of autocommit to the next.
#[derive(Debug, Clone, Serialize)]
pub struct Transaction {
    /// Its number in a round, from 1.
    pub number: u64,
    /// The text that its first statement stands in.
    pub source: String,
    /// Line of its first statement.
    pub line: u64,
    /// Its first statement that is not just a BEGIN, in one line, cut where long.
    pub statement: String,
    /// Number of statements.
    pub statements: u64,
    /// Rows that its queries gave.
    pub rows: u64,
    /// The way in which it ended.
    pub how: HowCommitted,
    /// Pages that it changed, in all databases; page 1 only if more of it than its
    /// change counter was.
    pub pages_changed: u64,
    /// Its calls.
    pub calls: Calls,
    /// Bytes that it wrote, in all files.
    pub bytes_written: u64,
    /// Duration of its statements, with reading their SQL; the median if there are several
    /// rounds.
    #[serde(rename = "time_us", serialize_with = "leafpress::times::microseconds")]
    pub time: Duration,
    /// The reasons why it was not one page in place: numbers of [`IoReport::findings`], from 0.
    pub findings: Vec<usize>,
    /// Number of rounds in which it ended in another way, or with other calls.
    pub rounds_that_differ: u32,
    /// The findings of those rounds that are not its own otherwise.
    pub findings_that_differ: Vec<usize>,
}

/// Transactions that are alike: the same calls, ended in the same way, for the same reasons.
#[derive(Debug, Clone, Serialize)]
pub struct Shape {
    /// Number of such transactions, in all rounds.
    pub transactions: u64,
    /// The number of the first.
    pub first: u64,
    /// The statement of the first.
    pub statement: String,
    /// The way in which they ended.
    pub how: HowCommitted,
    /// The calls of each.
    pub calls: Calls,
    /// Bytes that each wrote: the median.
    pub bytes_written: u64,
    /// Pages that each changed: the median.
    pub pages_changed: u64,
    /// Duration of each: the median.
    #[serde(rename = "time_us", serialize_with = "leafpress::times::microseconds")]
    pub time: Duration,
    /// The reasons: numbers of [`IoReport::findings`], from 0.
    pub findings: Vec<usize>,
}
