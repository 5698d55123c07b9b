//! Options of a load, as plain data. They are [`LoadOptions`] and the types in it.
//!
//! Must never: know a stage of a load. Every stage may read the options.

use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use super::memory;
use super::preset::{Layout, Preset};
pub use crate::cancel::CancelToken;
use crate::new_file::disk::Listener;
use crate::paths::folder_of;
use crate::rights::Rights;
use crate::schema::ColumnType;
use crate::words::path_text;

/// Default wait for other programs that write the database.
pub const BUSY_TIMEOUT_DEFAULT: Duration = Duration::from_secs(5);

/// Page size of SQLite's default.
const PAGE_BYTES_LOCAL: u32 = 4096;

/// Page size for readers at a distance. A new connection sends about 14 KB before it waits for the
/// other side, so a larger page may cost a round trip. A smaller one makes more interior pages.
const PAGE_BYTES_REMOTE: u32 = 8192;

/// The text that PostgreSQL and `MySQL` write for NULL.
const DATABASE_NULL: &[u8] = b"\\N";

/// The options of a load, as plain data: what [`Loader`](super::Loader) collects, and every
/// stage reads.
#[derive(Debug, Clone)]
#[expect(clippy::struct_excessive_bools, reason = "each is a wish of its own")]
pub struct LoadOptions {
    pub database: PathBuf,
    pub table: Option<String>,
    pub given_page_bytes: Option<u32>,
    pub given_layout: Option<Layout>,
    pub preset: Option<Preset>,
    pub threads: usize,
    pub memory_bytes: usize,
    pub tmpdir: Option<PathBuf>,
    pub strict: bool,
    pub primary_key: Vec<String>,
    /// Columns of a key that the table gets later: no row may lack one.
    pub later_key: Vec<String>,
    /// True if that table is WITHOUT ROWID.
    pub later_without_rowid: bool,
    pub without_rowid: bool,
    pub not_null: Vec<String>,
    pub uuid7: Option<(String, Uuid7Form)>,
    pub indexes: Vec<(String, bool)>,
    pub declaration: Option<String>,
    pub types: Vec<(String, GivenType)>,
    pub all_text: bool,
    pub exact: bool,
    pub exact_columns: Vec<String>,
    pub selects: Vec<String>,
    pub renames: Vec<(String, String)>,
    pub drops: Vec<String>,
    pub null_markers: Vec<Vec<u8>>,
    pub empty_null: bool,
    pub trim: bool,
    pub format: Option<InputFormat>,
    pub csv: CsvOptions,
    pub into: Option<IntoTable>,
    pub creates_missing: bool,
    pub busy_timeout: Duration,
    pub on_conflict: OnConflict,
    pub analyze: bool,
    pub on_error: OnError,
    pub cancel: CancelToken,
    /// Name of the place that the rows are for, if the database is only a file on the way there.
    pub bound_for: Option<String>,
    /// Rights of a new database.
    pub rights: Rights,
    /// True if the rows will be upserted into the final table.
    pub later_upsert: bool,
    /// Page size and names of the final database of the table.
    pub later_database: Option<(u32, Vec<String>)>,
    /// Listener to the writes of a new database.
    pub listener: Option<Arc<dyn Listener>>,
}

impl LoadOptions {
    /// The defaults, for the database at this path.
    pub fn new(database: PathBuf) -> Self {
        Self {
            database,
            table: None,
            given_page_bytes: None,
            given_layout: None,
            preset: None,
            threads: std::thread::available_parallelism().map_or(1, Into::into),
            memory_bytes: memory::default_bytes(),
            tmpdir: None,
            strict: false,
            primary_key: Vec::new(),
            later_key: Vec::new(),
            later_without_rowid: false,
            without_rowid: false,
            not_null: Vec::new(),
            uuid7: None,
            indexes: Vec::new(),
            declaration: None,
            types: Vec::new(),
            all_text: false,
            exact: false,
            exact_columns: Vec::new(),
            selects: Vec::new(),
            renames: Vec::new(),
            drops: Vec::new(),
            null_markers: Vec::new(),
            empty_null: false,
            trim: false,
            format: None,
            csv: CsvOptions::default(),
            into: None,
            creates_missing: false,
            busy_timeout: BUSY_TIMEOUT_DEFAULT,
            on_conflict: OnConflict::Abort,
            analyze: false,
            on_error: OnError::Stop,
            cancel: CancelToken::new(),
            bound_for: None,
            rights: Rights::new_database(),
            later_upsert: false,
            later_database: None,
            listener: None,
        }
    }

    /// Name of the place that gets the rows, for messages.
    pub fn destination(&self) -> String {
        self.bound_for.clone().unwrap_or_else(|| path_text(&self.database))
    }

    /// Order of the pages of a new database.
    pub fn layout(&self) -> Layout {
        self.given_layout.or(self.preset.map(Preset::layout)).unwrap_or_default()
    }

    /// Returns true if the values may show that another page size is better.
    pub fn page_bytes_are_open(&self) -> bool {
        self.given_page_bytes.is_none() && self.preset.and_then(Preset::page_bytes).is_none()
    }

    /// Page size in bytes of a new database, until its values show that another one is better.
    pub fn page_bytes(&self) -> u32 {
        let of_preset = self.preset.and_then(Preset::page_bytes);
        self.given_page_bytes.or(of_preset).unwrap_or(match self.layout() {
            Layout::Local => PAGE_BYTES_LOCAL,
            Layout::Remote => PAGE_BYTES_REMOTE,
        })
    }

    /// Returns true if rows change those of the table that have their keys.
    pub fn upserts(&self) -> bool {
        match self.into {
            Some(IntoTable::Upsert) => true,
            Some(IntoTable::Append) => self.on_conflict == OnConflict::Replace,
            _ => self.later_upsert,
        }
    }

    /// Returns true if a table that is missing is made.
    pub fn makes_missing(&self) -> bool {
        match self.into {
            None => true,
            Some(IntoTable::Append | IntoTable::Replace | IntoTable::Ignore) => {
                self.creates_missing
            }
            // With another key beside the primary key, the rows of a new table could not be
            // changed as those of an existing one.
            Some(IntoTable::Upsert) => {
                let has_other_key = self.indexes.iter().any(|(_, unique)| *unique);
                let has_key = !self.primary_key.is_empty() && self.declaration.is_none();
                self.creates_missing && has_key && !has_other_key
            }
        }
    }

    /// Treatment of rows with the same key in a new table: as an existing one would take them.
    pub fn on_conflict_in_new_table(&self) -> OnConflict {
        match self.into {
            Some(IntoTable::Ignore) => OnConflict::Ignore,
            Some(IntoTable::Upsert) => OnConflict::Replace,
            Some(IntoTable::Append | IntoTable::Replace) | None => self.on_conflict,
        }
    }

    /// Returns true if inputs are in the text format of a database.
    pub fn is_database_text(&self) -> bool {
        matches!(self.format, Some(InputFormat::PostgresText | InputFormat::MysqlText))
    }

    /// Returns true if the first record of CSV inputs names the columns.
    pub fn has_header(&self) -> bool {
        self.csv.header && !self.is_database_text()
    }

    /// Returns true if the columns of inputs have meaningful names.
    pub fn names_columns(&self) -> bool {
        self.has_header() || self.csv.columns.is_some()
    }

    /// The texts that mean NULL.
    pub fn null_texts(&self) -> Vec<Vec<u8>> {
        let of_format = self.is_database_text().then(|| DATABASE_NULL.to_vec());
        self.null_markers.iter().cloned().chain(of_format).collect()
    }

    /// Returns true if bad rows are left out, so that a pass looks for them first.
    pub fn screens(&self) -> bool {
        self.on_error != OnError::Stop
    }

    /// The folder for temporary files that belong to this database.
    pub fn folder_beside(&self, database: &Path) -> PathBuf {
        self.tmpdir.clone().unwrap_or_else(|| folder_of(database).to_owned())
    }
}

/// Form in which a made key is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Uuid7Form {
    /// 16 bytes.
    Blob,
    /// 36 characters.
    Text,
}

impl Uuid7Form {
    /// The type of its column.
    pub fn declared_type(self) -> &'static str {
        match self {
            Self::Blob => "BLOB",
            Self::Text => "TEXT",
        }
    }
}

/// Type of a column, given by the caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GivenType {
    /// A type of SQLite.
    Type(ColumnType),
    /// A date and time.
    Timestamp(TimestampForm),
    /// Words for true and false, stored as 1 and 0.
    Boolean,
}

/// Form in which a date and time is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum TimestampForm {
    /// Whole seconds since 1970, as `unixepoch(text)`.
    Seconds,
    /// Whole milliseconds since 1970.
    Milliseconds,
    /// The day in UTC, as `date(text)`: `2026-01-31`.
    Date,
    /// The second in UTC, as `datetime(text)`: `2026-01-31 22:59:59`.
    DateTime,
}

impl TimestampForm {
    /// Name of the form in options.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Seconds => "unixepoch",
            Self::Milliseconds => "unixepoch-ms",
            Self::Date => "date",
            Self::DateTime => "datetime",
        }
    }

    /// Type that such a column is declared as.
    pub const fn column_type(self) -> ColumnType {
        match self {
            Self::Seconds | Self::Milliseconds => ColumnType::Integer,
            Self::Date | Self::DateTime => ColumnType::Text,
        }
    }

    /// Upper bound for the bytes of the stored value.
    pub const fn content_bytes_max(self) -> usize {
        match self {
            Self::Seconds | Self::Milliseconds => 0,
            Self::Date | Self::DateTime => TIMESTAMP_TEXT_BYTES_MAX,
        }
    }
}

impl FromStr for TimestampForm {
    type Err = String;

    /// Accepts any case, and `_` as well as `-`.
    fn from_str(name: &str) -> Result<Self, String> {
        let name = name.replace('_', "-");
        [Self::Seconds, Self::Milliseconds, Self::Date, Self::DateTime]
            .into_iter()
            .find(|form| form.name().eq_ignore_ascii_case(&name))
            .ok_or_else(|| {
                format!(
                    "'{name}' is no form of date and time: choose unixepoch, unixepoch-ms, date \
                     or datetime"
                )
            })
    }
}

/// The longest text of a [`TimestampForm`], as `-0001-12-31 23:00:00`.
pub const TIMESTAMP_TEXT_BYTES_MAX: usize = 20;

/// Treatment of a row whose key is taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum OnConflict {
    /// The load ends with an error that names both rows.
    #[default]
    Abort,
    /// The row is left out: the first one wins. When rows are [appended](IntoTable::Append) to a
    /// table that is there, the same as [`IntoTable::Ignore`].
    Ignore,
    /// The rows with the same key are deleted: the last one wins. When rows are
    /// [appended](IntoTable::Append) to a table that is there, the same as [`IntoTable::Upsert`]: the
    /// row that is there stays, and takes the values of the new one.
    Replace,
}

/// Dialect of a CSV input.
#[derive(Debug, Clone)]
#[non_exhaustive]
#[must_use]
pub struct CsvOptions {
    /// The byte between fields. `None`: a tab for `.tsv` and `.tab` files, else what the first
    /// records show, else a comma.
    pub delimiter: Option<u8>,
    /// The byte around fields that hold delimiters or newlines; `None` for no quoting.
    pub quote: Option<u8>,
    /// A byte that makes the next one literal, besides doubled quotes.
    pub escape: Option<u8>,
    /// True if the first record names the columns.
    pub header: bool,
    /// Names of the columns, which replace those of a header.
    pub columns: Option<Vec<String>>,
    /// Treatment of rows with too few or too many fields.
    pub ragged: Ragged,
    /// Encoding of the input by its WHATWG label (`latin1`, `utf-16le`), or as Python spells it;
    /// `None` for UTF-8, and `auto` for the one that fits.
    pub encoding: Option<String>,
    /// Number of lines to leave out in front of the header, or of the first row.
    pub skip_lines: u64,
    /// The first byte of lines that are comments; they are left out.
    pub comment: Option<u8>,
    /// Longest record; a longer one is an error. Bounds the memory that an unclosed quote can take.
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

/// Each takes the value of the field of its name.
impl CsvOptions {
    /// Sets the byte between fields; `None` finds it.
    pub fn delimiter(mut self, delimiter: impl Into<Option<u8>>) -> Self {
        self.delimiter = delimiter.into();
        self
    }

    /// Sets the byte around fields; `None` for no quoting.
    pub fn quote(mut self, quote: impl Into<Option<u8>>) -> Self {
        self.quote = quote.into();
        self
    }

    /// Sets the byte that makes the next one literal.
    pub fn escape(mut self, escape: impl Into<Option<u8>>) -> Self {
        self.escape = escape.into();
        self
    }

    /// Takes the first record as names of the columns, or as a row.
    pub fn header(mut self, header: bool) -> Self {
        self.header = header;
        self
    }

    /// Names the columns; `None` leaves their names to the header.
    pub fn columns(mut self, columns: impl Into<Option<Vec<String>>>) -> Self {
        self.columns = columns.into();
        self
    }

    /// Sets the treatment of rows with too few or too many fields.
    pub fn ragged(mut self, ragged: Ragged) -> Self {
        self.ragged = ragged;
        self
    }

    /// Names the encoding by its WHATWG label; `auto` finds it.
    pub fn encoding(mut self, label: impl Into<String>) -> Self {
        self.encoding = Some(label.into());
        self
    }

    /// Leaves out lines in front of the header, or of the first row.
    pub fn skip_lines(mut self, lines: u64) -> Self {
        self.skip_lines = lines;
        self
    }

    /// Leaves out lines that begin with this byte.
    pub fn comment(mut self, first: impl Into<Option<u8>>) -> Self {
        self.comment = first.into();
        self
    }

    /// Refuses longer records.
    pub fn max_record_bytes(mut self, bytes: u64) -> Self {
        self.max_record_bytes = bytes;
        self
    }
}

/// Treatment of rows with too few or too many fields.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Ragged {
    /// They are bad rows.
    #[default]
    Reject,
    /// Missing fields are taken as empty; rows that are too long stay bad.
    Pad,
    /// Surplus fields are dropped; rows that are too short stay bad.
    Truncate,
}

/// Format of an input, if its name and its beginning do not show it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
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

/// Way in which rows get into a table that exists.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum IntoTable {
    /// Rows are added; a key that is taken ends the load.
    Append,
    /// The rows replace all rows of the table.
    Replace,
    /// Rows are added, except those whose key is taken; an error if the table has no key.
    Ignore,
    /// Rows are added, or change the row that has their key; an error if the table has no key.
    Upsert,
}

/// Treatment of bad rows.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum OnError {
    /// The first one ends the load, with nothing written.
    #[default]
    Stop,
    /// Bad rows are left out.
    Skip {
        /// File for bad rows in their original form, behind the header if there is one, so that the
        /// corrected file can be loaded. A line with place and reason of each goes to a second
        /// file, with `.log` added to the name. The files are made only if there is a bad row. A
        /// file that is there already, and not empty, is refused.
        rejects: Option<PathBuf>,
        /// Largest number of bad rows: one more ends the load, with nothing written but the
        /// rejects.
        max_rejects: Option<u64>,
    },
}

/// Progress of a load.
#[derive(Debug, Clone, Copy, Default)]
#[non_exhaustive]
pub struct Progress {
    /// Bytes read of the input; of a compressed input, compressed bytes.
    pub bytes_read: u64,
    /// Size of the input, if known.
    pub bytes_total: Option<u64>,
    /// Number of rows done in this stage.
    pub rows: u64,
    /// Name of the stage: "detecting types", "pressing", "sorting", "inserting", "moving in",
    /// "syncing".
    pub stage: &'static str,
}
