//! Rungs of one-row transactions, one after the other, on embedded SQLite: what
//! each costs in calls, bytes, time and memory, by journal mode, `synchronous`,
//! locking, and with or without pages that are written whole.
//!
//! | module | does |
//! |---|---|
//! | here | what a rung is: who opens the database, how, what a transaction changes, on which disk |
//! | `promise` | what each setting promises |
//! | `plan` | which rungs are compared with which |
//! | `run` | sets up, opens, makes the transactions, counts, closes |
//! | `open` | ours as a user opens it, SQLite's with its pragmas |
//! | `figures` | counters to figures for each transaction |
//! | `changes` | the one-row changes, and that each of them was left |
//! | `accounting` | what the counting itself costs |
//! | `xfs_loop` | a file system that writes pages whole, in a file |
//!
//! Must never: open ours in a way that users cannot, count anything but what was
//! timed or repeats it exactly, or call a setting safe that can corrupt.

pub(crate) mod accounting;
pub(crate) mod changes;
mod figures;
mod open;
pub(crate) mod plan;
pub(crate) mod promise;
mod run;
#[cfg(test)]
mod tests;
pub(crate) mod xfs_loop;

use serde::{Deserialize, Serialize};

use crate::report::{OneRow, Safety};

pub use self::accounting::{AccountingRung, Layers};
pub(crate) use self::run::run;

/// Where the database of a rung is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Place {
    /// In the folder that was named.
    Disk,
    /// On an XFS file system in a file of that folder.
    XfsLoop,
}

impl Place {
    /// What a ratio's name ends in where there are several places.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Disk => "disk",
            Self::XfsLoop => "xfs_loop",
        }
    }
}

/// What each transaction does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Change {
    /// Adds a row at the end of a table without indexes; now and then a page.
    Insert,
    /// Changes a row where it stands.
    Update,
}

impl Change {
    /// Its name in rungs and reports.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Insert => "insert",
            Self::Update => "update",
        }
    }
}

/// Who may use the database besides.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Locking {
    /// Others, between two transactions: `locking_mode = NORMAL`.
    Shared,
    /// Nobody: `locking_mode = EXCLUSIVE`.
    Exclusive,
}

impl Locking {
    /// Its name in rungs and reports.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Shared => "shared",
            Self::Exclusive => "exclusive",
        }
    }
}

/// SQLite's `journal_mode`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Journal {
    /// The journal is deleted at the commit.
    Delete,
    /// It is cut to no bytes.
    Truncate,
    /// Its header is overwritten.
    Persist,
    /// A write-ahead log.
    Wal,
    /// The journal is in memory: a crash can corrupt.
    Memory,
    /// There is none: a crash can corrupt.
    Off,
}

impl Journal {
    /// All that SQLite knows, the safe ones first.
    pub(crate) const ALL: [Self; 6] =
        [Self::Delete, Self::Truncate, Self::Persist, Self::Wal, Self::Memory, Self::Off];

    /// The word of the pragma.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Delete => "delete",
            Self::Truncate => "truncate",
            Self::Persist => "persist",
            Self::Wal => "wal",
            Self::Memory => "memory",
            Self::Off => "off",
        }
    }
}

/// SQLite's `synchronous`, as far as it is measured: OFF syncs nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Synchronous {
    /// What keeps the file sound.
    Normal,
    /// Every commit.
    Full,
    /// And the folder when a journal was deleted.
    Extra,
}

impl Synchronous {
    /// From the weakest to the strongest.
    pub(crate) const ALL: [Self; 3] = [Self::Normal, Self::Full, Self::Extra];

    /// The word of the pragma.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Normal => "normal",
            Self::Full => "full",
            Self::Extra => "extra",
        }
    }
}

/// What our profile is asked for besides its promise.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Pages {
    /// A journal for every transaction.
    Journal,
    /// Whole pages without a journal where the disk has them; the default.
    WhereProven,
    /// Whole pages on the user's word alone.
    Assumed,
}

/// Who opens the database, and how.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Opener {
    /// SQLite, with these pragmas.
    Sql(Journal, Synchronous),
    /// Leafpress, under the profile `rollback`.
    Leafpress(Pages),
    /// The same with its option `small`.
    LeafpressSmall(Pages),
}

impl Opener {
    /// What ours is asked for; `None` for SQLite.
    pub(crate) fn pages(self) -> Option<Pages> {
        match self {
            Self::Sql(..) => None,
            Self::Leafpress(pages) | Self::LeafpressSmall(pages) => Some(pages),
        }
    }

    /// The journal mode that holds.
    pub(crate) fn journal(self) -> Journal {
        if let Self::Sql(journal, _) = self { journal } else { Journal::Delete }
    }

    fn synchronous(self) -> Synchronous {
        if let Self::Sql(_, synchronous) = self { synchronous } else { Synchronous::Extra }
    }

    fn is_small(self) -> bool {
        matches!(self, Self::LeafpressSmall(_))
    }

    /// "SQL, delete extra", or "leafpress, atomic, small".
    fn name(self) -> String {
        if let Self::Sql(journal, synchronous) = self {
            return format!("SQL, {} {}", journal.name(), synchronous.name());
        }
        let pages = match self.pages() {
            Some(Pages::Journal) | None => "journal",
            Some(Pages::WhereProven) => "atomic",
            Some(Pages::Assumed) => "assumed",
        };
        format!("leafpress, {pages}{}", if self.is_small() { ", small" } else { "" })
    }
}

/// One rung of one-row transactions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct AtomicRung {
    /// Who opens the database, and how.
    pub by: Opener,
    /// What each transaction does.
    pub change: Change,
    /// Who may use the database besides.
    pub locking: Locking,
    /// Where the database is.
    pub place: Place,
    /// Transactions.
    pub transactions: u64,
    /// None is begun after so long, and there are fewer then.
    pub milliseconds_max: u64,
}

impl AtomicRung {
    /// Its name in the report.
    pub(crate) fn name(self) -> String {
        let place = if self.place == Place::Disk { "" } else { ", on the XFS loop" };
        let warning = if self.safety() == Safety::Rebuildable { ", can corrupt" } else { "" };
        let (change, locking) = (self.change.name(), self.locking.name());
        format!("{change}, {locking}, {}{warning}{place}", self.by.name())
    }

    /// What its settings promise.
    pub(crate) fn safety(self) -> Safety {
        match self.by {
            Opener::Sql(journal, synchronous) => promise::of(journal, synchronous),
            // What nobody has proven is no promise.
            _ if self.by.pages() == Some(Pages::Assumed) => Safety::Rebuildable,
            _ => Safety::Rollback,
        }
    }

    /// The same in words that can be sorted and shown; `page_writes` is what ours
    /// says at its opening.
    pub(crate) fn one_row(self, page_writes: Option<String>) -> OneRow {
        OneRow {
            change: self.change.name().to_owned(),
            place: self.place.name().to_owned(),
            locking: self.locking.name().to_owned(),
            journal_mode: self.by.journal().name().to_owned(),
            synchronous: self.by.synchronous().name().to_owned(),
            opened_by: self.by.name(),
            page_writes,
        }
    }

    /// What its files take on the disk at most: a journal or a WAL of some thousand
    /// pages, and what the file system of a loop writes for itself.
    pub(crate) fn room_mb(self) -> u64 {
        const ROW_BYTES: u64 = 64;
        const FILES_MB: u64 = 20;
        let rows_mb = self.transactions.saturating_mul(ROW_BYTES) / 1_000_000;
        let place_mb = if self.place == Place::XfsLoop { xfs_loop::ROOM_MB } else { 0 };
        rows_mb.saturating_add(FILES_MB + place_mb)
    }
}
