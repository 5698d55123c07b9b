//! Rungs of batches: the keys, the tool, the numbers of batches and of their rows.

use serde::{Deserialize, Serialize};

/// Pages of the originals' cache, and the rows of their tables.
const ORIGINAL_CACHE_PAGES: u64 = 15_625;
const ORIGINAL_ROWS: u64 = 10_000_000;

/// Key that the rows are found by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Keys {
    /// Twenty random bytes, as of session tokens.
    Bytes,
    /// UUIDs of version 4: random.
    Uuid4,
    /// UUIDs of version 7: they rise with the time.
    Uuid7,
    /// The rowid, one after the other.
    Integer,
}

/// Rival that puts the rows in, and the order within a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Filler {
    /// SQL, in the order in which the rows come.
    SqlAsTheyCome,
    /// SQL, each batch sorted by the first eight bytes of its keys as an unsigned number.
    SqlSortedByPrefix,
    /// SQL, each batch sorted by the whole keys.
    SqlSorted,
    /// The Writer, a call of `insert_many` for each batch.
    InsertMany,
    /// The Loader, all rows in one load, in parts on all cores. There are no batches in it.
    Pressed,
}

/// Rows in batches.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct BatchesRung {
    /// Key that they are found by.
    pub(crate) keys: Keys,
    /// Rival that puts them in.
    pub(crate) by: Filler,
    /// Number of batches.
    pub(crate) batches: u32,
    /// Rows of each.
    pub(crate) batch_rows: u64,
}

impl Keys {
    /// Name in rungs and charts.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Bytes => "20 random bytes",
            Self::Uuid4 => "UUIDv4",
            Self::Uuid7 => "UUIDv7",
            Self::Integer => "integer key",
        }
    }

    /// The table that the rows go to: that of the originals, where the integer key was first
    /// an INT, by mistake, and then an INTEGER.
    pub(super) fn table(self) -> &'static str {
        match self {
            Self::Integer => "CREATE TABLE event(id INTEGER PRIMARY KEY, data BLOB)",
            Self::Bytes | Self::Uuid4 | Self::Uuid7 => {
                "CREATE TABLE event(id BLOB PRIMARY KEY, data BLOB) WITHOUT ROWID"
            }
        }
    }
}

impl Filler {
    /// Returns true for Leafpress.
    pub(super) fn is_ours(self) -> bool {
        matches!(self, Self::InsertMany | Self::Pressed)
    }

    /// Name in charts.
    pub(super) fn label(self) -> &'static str {
        match self {
            Self::SqlAsTheyCome => "as they come",
            Self::SqlSortedByPrefix => "presorted by 8 bytes",
            Self::SqlSorted => "presorted by the whole key",
            Self::InsertMany => "insert_many",
            Self::Pressed => "pressed in one load",
        }
    }
}

impl BatchesRung {
    /// Rows of all batches.
    pub(super) fn rows(&self) -> u64 {
        u64::from(self.batches).saturating_mul(self.batch_rows)
    }

    /// Pages of SQL's cache: as many for the rows as the originals had for theirs.
    pub(super) fn cache_pages(&self) -> u64 {
        (self.rows().saturating_mul(ORIGINAL_CACHE_PAGES) / ORIGINAL_ROWS).max(1)
    }
}
