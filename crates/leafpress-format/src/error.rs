//! The errors of the builders. They name the rows and files that are refused.

use std::fmt;

/// A row or a file that SQLite's format cannot hold, or rows out of order.
///
/// After an error from a builder nothing that it has given out may be used:
/// the file is not finished and cannot be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum FormatError {
    /// Rowids must ascend; equal ones are refused too.
    NotAscending {
        /// The rowid before.
        previous: i64,
        /// The one that does not follow.
        rowid: i64,
    },
    /// A record is longer than SQLite reads (`SQLITE_MAX_LENGTH`).
    RecordTooLong {
        /// The record's length.
        bytes: u64,
    },
    /// The file would have more pages than SQLite can number.
    TooManyPages,
    /// A page size that is not a power of two from 512 to 65536, or leaves
    /// less than 480 usable bytes.
    PageSize {
        /// The page size that was asked for.
        bytes: u32,
    },
    /// A page that was read is not one of a B-tree of that layout.
    MalformedPage,
}

impl fmt::Display for FormatError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotAscending { previous, rowid } => {
                write!(f, "rowid {rowid} does not come after rowid {previous}")
            }
            Self::RecordTooLong { bytes } => {
                write!(
                    f,
                    "a row of {bytes} bytes is longer than SQLite's limit of {RECORD_BYTES_MAX}"
                )
            }
            Self::TooManyPages => {
                write!(f, "the file would have more than {PAGE_NUMBER_MAX} pages, SQLite's limit")
            }
            Self::PageSize { bytes } => {
                write!(f, "{bytes} is not a page size: it takes a power of two from 512 to 65536")
            }
            Self::MalformedPage => write!(f, "a page is not what SQLite's format says"),
        }
    }
}

impl std::error::Error for FormatError {}

/// `SQLITE_MAX_LENGTH` of a default build: longer records read as "string or
/// blob too big".
pub const RECORD_BYTES_MAX: u64 = 1_000_000_000;

/// The highest page number (file format, section 1.2: 2^32 − 2).
pub const PAGE_NUMBER_MAX: u32 = u32::MAX - 1;
