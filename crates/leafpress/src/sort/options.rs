//! Orders to a sorter: by what it sorts, and what it may use.

use std::path::PathBuf;

use leafpress_format::KeyColumn;

/// With less memory than this it does not work well: it is what is used then.
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
