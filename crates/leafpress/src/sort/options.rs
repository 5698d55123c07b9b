//! The options of a sorter: its key, its memory, its threads and its folder.

use std::path::PathBuf;

use leafpress_format::KeyColumn;

/// Least memory of a sorter: with less it would not work well, so it takes this much.
pub const MEMORY_BYTES_MIN: usize = 8 << 20;

/// The memory, the threads and the folder that a sorter may use.
#[derive(Debug, Clone)]
pub struct SortOptions {
    /// Memory, at least [`MEMORY_BYTES_MIN`].
    pub memory_bytes: usize,
    /// Number of threads that will push items and load partitions.
    pub threads: usize,
    /// Folder for a temporary file, which takes the items that exceed the memory.
    pub folder: PathBuf,
}

/// The key that items are sorted by.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SortKey {
    /// The rowid.
    Rowid,
    /// The record's first columns, as many as there are here.
    Columns(Vec<KeyColumn>),
}
