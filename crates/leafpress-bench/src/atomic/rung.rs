//! Rungs of one-row transactions: who opens the database, how, what a transaction changes, on which
//! disk.

use leafpress::profile::Locking;
use serde::{Deserialize, Serialize};

use crate::pragmas::Pragmas;
use crate::rung::described::Place;

/// Change that each transaction makes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Change {
    /// Adds a row at the end of a table without indexes; now and then a page.
    Insert,
    /// Changes a row where it stands.
    Update,
}

impl Change {
    /// Name in rungs and reports.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Insert => "insert",
            Self::Update => "update",
        }
    }
}

/// Wish about pages, beside the promise of our profile.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Pages {
    /// A journal for every transaction.
    Journal,
    /// Whole pages without a journal where the disk has them; the default.
    WhereProven,
    /// Whole pages on the user's word alone.
    Assumed,
}

/// Rival that opens the database, and its settings.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Opener {
    /// SQLite, with these pragmas.
    Sql(Pragmas),
    /// Leafpress, under the profile `rollback`.
    Leafpress(Pages),
    /// Leafpress, under the profile `rollback` with its option `small`.
    LeafpressSmall(Pages),
}

impl Opener {
    /// Wish of ours about pages; `None` for SQLite.
    pub(super) fn pages(self) -> Option<Pages> {
        match self {
            Self::Sql(_) => None,
            Self::Leafpress(pages) | Self::LeafpressSmall(pages) => Some(pages),
        }
    }

    /// Settings that hold.
    pub(super) fn pragmas(self) -> Pragmas {
        if let Self::Sql(pragmas) = self { pragmas } else { Pragmas::DELETE_EXTRA }
    }

    /// "SQL, delete extra", or "leafpress, atomic, small".
    pub(super) fn name(self) -> String {
        let ours = |pages| match pages {
            Pages::Journal => "journal",
            Pages::WhereProven => "atomic",
            Pages::Assumed => "assumed",
        };
        match self {
            Self::Sql(Pragmas { journal, synchronous }) => {
                format!("SQL, {} {}", journal.name(), synchronous.name())
            }
            Self::Leafpress(pages) => format!("leafpress, {}", ours(pages)),
            Self::LeafpressSmall(pages) => format!("leafpress, {}, small", ours(pages)),
        }
    }

    /// "DELETE + EXTRA", or "leafpress rollback, small".
    pub(super) fn label(self) -> String {
        let ours = |pages| match pages {
            Pages::Journal => "rollback, journal",
            Pages::WhereProven => "rollback",
            Pages::Assumed => "rollback, assumed",
        };
        match self {
            Self::Sql(pragmas) => pragmas.in_capitals(),
            Self::Leafpress(pages) => format!("leafpress {}", ours(pages)),
            Self::LeafpressSmall(pages) => format!("leafpress {}, small", ours(pages)),
        }
    }
}

/// One rung of one-row transactions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct AtomicRung {
    /// Rival that opens the database, and its settings.
    pub(crate) by: Opener,
    /// Change that each transaction makes.
    pub(crate) change: Change,
    /// Other users of the database.
    pub(crate) locking: Locking,
    /// Disk of the database.
    pub(crate) place: Place,
    /// Transactions.
    pub(crate) transactions: u64,
    /// Time limit in milliseconds: no further transaction begins after it.
    pub(crate) milliseconds_max: u64,
}
