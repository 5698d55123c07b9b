//! State of a write-ahead log on the disk, as far as this process knows.

/// State of a write-ahead log on the disk, as far as this process knows.
///
/// A process learns of another that uses a log when it begins to use the `-shm` file: SQLite asks for the
/// byte there that each process locks. What it is told later it keeps until its last connection is closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogOnDisk {
    /// The disk may lack bytes that SQLite reads, after a sync that failed.
    Unknown,
    /// The disk has all of it; or another process used it before this one did.
    Whole,
    /// It alone has pages that SQLite counts as copied into the database: a sync of a checkpoint failed.
    Uncopied,
}
