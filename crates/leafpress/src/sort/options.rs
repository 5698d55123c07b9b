//! Orders to a sorter: by what it sorts, and what it may use.

use std::path::PathBuf;

use leafpress_format::KeyColumn;

/// With less memory than this it does not work well: it is what is used then.
pub const MEMORY_BYTES_MIN: usize = 8 << 20;

/// What a sorter may use.
#[derive(Debug, Clone)]
pub struct SortOptions {
    /// Memory, at least [`MEMORY_BYTES_MIN`].
    pub memory_bytes: usize,
    /// How many threads will push, and load partitions.
    pub threads: usize,
    /// Where a temporary file may be made for what exceeds the memory.
    pub folder: PathBuf,
}

/// What items are sorted by.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SortKey {
    /// The rowid.
    Rowid,
    /// The record's first columns, as many as there are here.
    Columns(Vec<KeyColumn>),
}
