//! The options of a sorter: its key, its memory, its threads and its temporary file.
//!
//! Must never: open a file. The caller says how a temporary file is made.

use std::io;
use std::path::{Path, PathBuf};

use crate::vfs::watch::UnnamedFile;
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
    /// Makes that file.
    pub make_file: MakeFile,
    /// True if each record's last column is the rowid, as in the entries of an index. They take less
    /// memory then.
    pub ends_in_rowid: bool,
}

/// The key that items are sorted by.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SortKey {
    /// The rowid.
    Rowid,
    /// The record's first columns, as many as there are here.
    Columns(Vec<KeyColumn>),
}

/// Makes an empty file without a name in a folder.
pub type MakeFile = fn(&Path) -> io::Result<UnnamedFile>;
