//! What a caller may ask of a load, as plain data.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// How a CSV input is written.
#[derive(Debug, Clone)]
pub struct CsvOptions {
    /// The byte between fields. `None`: a tab for `.tsv` and `.tab` files, else what the first
    /// records show, else a comma.
    pub delimiter: Option<u8>,
    /// The byte around fields that hold delimiters or newlines; `None` for no quoting.
    pub quote: Option<u8>,
    /// A byte that makes the next one literal, besides doubled quotes.
    pub escape: Option<u8>,
    /// Whether the first record names the columns.
    pub header: bool,
    /// The columns' names, in place of the header's or where there is none.
    pub columns: Option<Vec<String>>,
    /// What becomes of rows with too few or too many fields.
    pub ragged: Ragged,
    /// The input's encoding, by its WHATWG label (`latin1`, `utf-16le`); `None` for UTF-8, and
    /// `auto` for the one that fits.
    pub encoding: Option<String>,
    /// Lines in front of the header, or of the first row, that are left out.
    pub skip_lines: u64,
    /// The first byte of lines that are comments; they are left out.
    pub comment: Option<u8>,
    /// Longer records are an error; bounds the memory that an unclosed quote can take.
    pub max_record_bytes: u64,
}

impl Default for CsvOptions {
    fn default() -> Self {
        Self {
            delimiter: None,
            quote: Some(b'"'),
            escape: None,
            header: true,
            columns: None,
            ragged: Ragged::Reject,
            encoding: None,
            skip_lines: 0,
            comment: None,
            max_record_bytes: leafpress_format::RECORD_BYTES_MAX,
        }
    }
}

/// What becomes of rows with too few or too many fields.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Ragged {
    /// They are bad rows.
    #[default]
    Reject,
    /// Missing fields are taken as empty; rows that are too long stay bad.
    Pad,
    /// Surplus fields are dropped; rows that are too short stay bad.
    Truncate,
}

/// Which text an input is, where its name and its beginning do not tell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InputFormat {
    /// Comma-separated values, or separated by anything else.
    Csv,
    /// JSON: objects one after the other, or an array of them.
    Json,
    /// The text format of PostgreSQL's COPY: backslash escapes, `\N` for NULL, no
    /// quotes, no header.
    PostgresText,
    /// The text that `MySQL`'s SELECT INTO OUTFILE and `mysqldump --tab` write, likewise.
    MysqlText,
}

/// How rows get into a table that exists already.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IntoTable {
    /// They are added; a key that is there already ends the load.
    Append,
    /// They take the place of all rows that are there.
    Replace,
    /// They are added, but for those whose key is there already.
    Ignore,
    /// They are added, or change the row whose key is there already.
    Upsert,
}

/// What becomes of bad rows.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum OnError {
    /// The first one ends the load, with nothing written.
    #[default]
    Stop,
    /// They are left out.
    Skip {
        /// Where each goes as it was, behind the header if there is one, so that the mended
        /// file can be loaded; beside it, with `.log` added to the name, goes a line with its
        /// place and the reason. The files are there afterwards only if there was a bad row;
        /// one that is there already, and not empty, is refused.
        rejects: Option<PathBuf>,
        /// More than this many end the load after all, with nothing written
        /// but the rejects.
        max_rejects: Option<u64>,
    },
}

/// Asks a running load to stop. Clones share the wish.
#[derive(Debug, Clone, Default)]
pub struct CancelToken(Arc<AtomicBool>);

impl CancelToken {
    /// A token that nobody has cancelled.
    pub fn new() -> Self {
        Self::default()
    }

    /// Asks for the stop; the load ends within a block or so, with nothing written.
    pub fn cancel(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Whether it was asked for.
    pub fn is_cancelled(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// How far a load is.
#[derive(Debug, Clone, Copy)]
pub struct Progress {
    /// Bytes of the input read (compressed bytes, where it is).
    pub bytes_read: u64,
    /// The input's size, where it has one.
    pub bytes_total: Option<u64>,
    /// Rows done in this stage.
    pub rows: u64,
    /// What is being done: "detecting types", "pressing", "sorting", "inserting",
    /// "moving in", "syncing".
    pub stage: &'static str,
}
