//! The loader: files and rows to a table in a new database, all or nothing.
//!
//! The one stage that joins the others. Reading order: [`Loader`] here;
//! `csv.rs`, the way of a CSV input; `pass.rs`, the frame of workers and
//! turns; `press.rs` and `fields.rs`, the hot loop; `pages.rs`, `output.rs`
//! and `publish.rs`, the way to the disk.
//!
//! ```no_run
//! use leafpress::load::{ColumnType, Loader};
//!
//! let report = Loader::new("cities.db")
//!     .column_type("postcode", ColumnType::Text)
//!     .null_marker("NA")
//!     .load_file("cities.csv")?;
//! println!("{} rows in {:?}", report.rows_loaded, report.elapsed);
//! # Ok::<(), leafpress::Error>(())
//! ```
//!
//! Invariants:
//! 1. Whatever happens, the destination holds nothing or the whole database.
//! 2. What is loaded equals, in value and type, what SQLite would hold after
//!    INSERTs of the same rows.
//! 3. The file does not depend on the number of threads.

mod csv;
mod describe;
mod fields;
mod insert;
mod monitor;
mod options;
mod output;
mod pages;
mod parts;
mod pass;
mod press;
mod publish;
mod rejects;
mod report;
mod rows;
mod sink;
mod sql_words;
mod sqlite;
mod survey;
mod turns;
mod uuid7;

use std::io::Read;
use std::path::{Path, PathBuf};

use leafpress_format::PageLayout;

pub use self::options::{CancelToken, CsvOptions, OnError, Progress, Ragged};
pub use self::report::{ColumnReport, DecidedBy, DryRun, Report, Stage};
pub use self::rows::{Field, Row, TypedRecord};
pub use crate::schema::{Column, ColumnType};
pub use leafpress_format::Value;

use self::csv::CsvLoad;
use self::monitor::Monitor;
use crate::error::{Error, ErrorKind, Result};
use crate::input::source::Source;

type ProgressCallback = Box<dyn Fn(&Progress) + Send + Sync>;

/// Loads one input into one table of a new database.
pub struct Loader {
    database: PathBuf,
    table: Option<String>,
    page_bytes: u32,
    threads: usize,
    strict: bool,
    primary_key: Option<String>,
    types: Vec<(String, ColumnType)>,
    all_text: bool,
    null_markers: Vec<Vec<u8>>,
    empty_null: bool,
    csv: CsvOptions,
    on_error: OnError,
    progress: Option<ProgressCallback>,
    cancel: CancelToken,
}

impl Loader {
    /// A loader into the database at this path, which must not exist yet.
    pub fn new(database: impl Into<PathBuf>) -> Self {
        Self {
            database: database.into(),
            table: None,
            page_bytes: 4096,
            threads: std::thread::available_parallelism().map_or(1, Into::into),
            strict: false,
            primary_key: None,
            types: Vec::new(),
            all_text: false,
            null_markers: Vec::new(),
            empty_null: false,
            csv: CsvOptions::default(),
            on_error: OnError::Stop,
            progress: None,
            cancel: CancelToken::new(),
        }
    }

    /// The table's name; by default the input's name without its folder and endings.
    #[must_use]
    pub fn table(mut self, name: impl Into<String>) -> Self {
        self.table = Some(name.into());
        self
    }

    /// The page size in bytes, a power of two from 512 to 65536; 4096 by default.
    #[must_use]
    pub fn page_size(mut self, bytes: u32) -> Self {
        self.page_bytes = bytes;
        self
    }

    /// How many threads work; by default as many as there are cores. The file
    /// comes out the same.
    #[must_use]
    pub fn threads(mut self, threads: usize) -> Self {
        self.threads = threads.max(1);
        self
    }

    /// Whether the table is STRICT.
    #[must_use]
    pub fn strict(mut self, strict: bool) -> Self {
        self.strict = strict;
        self
    }

    /// The column that becomes the INTEGER PRIMARY KEY.
    #[must_use]
    pub fn primary_key(mut self, column: impl Into<String>) -> Self {
        self.primary_key = Some(column.into());
        self
    }

    /// Declares a column's type in place of detecting it. Its fields are
    /// converted by SQLite's affinity; one that does not fit makes a bad row.
    #[must_use]
    pub fn column_type(mut self, column: impl Into<String>, column_type: ColumnType) -> Self {
        self.types.push((column.into(), column_type));
        self
    }

    /// Whether columns without a declared type are TEXT, without a look.
    #[must_use]
    pub fn all_text(mut self, all_text: bool) -> Self {
        self.all_text = all_text;
        self
    }

    /// A text that means NULL, in any column; may be called again for others.
    #[must_use]
    pub fn null_marker(mut self, marker: impl AsRef<str>) -> Self {
        self.null_markers.push(marker.as_ref().as_bytes().to_vec());
        self
    }

    /// Whether an empty field is NULL in TEXT columns too, and not ''.
    #[must_use]
    pub fn empty_null(mut self, empty_null: bool) -> Self {
        self.empty_null = empty_null;
        self
    }

    /// How the CSV input is written.
    #[must_use]
    pub fn csv(mut self, options: CsvOptions) -> Self {
        self.csv = options;
        self
    }

    /// What becomes of bad rows.
    #[must_use]
    pub fn on_error(mut self, on_error: OnError) -> Self {
        self.on_error = on_error;
        self
    }

    /// Is told about ten times a second how far the load is, from a thread of its own.
    #[must_use]
    pub fn progress(mut self, callback: impl Fn(&Progress) + Send + Sync + 'static) -> Self {
        self.progress = Some(Box::new(callback));
        self
    }

    /// Lets somebody else stop the load.
    #[must_use]
    pub fn cancel(mut self, token: CancelToken) -> Self {
        self.cancel = token;
        self
    }

    /// Loads a CSV file, plain or compressed by gzip or zstd.
    ///
    /// # Errors
    ///
    /// A bad row (unless they are skipped), a destination that exists, an
    /// input that cannot be read, a full disk, a cancelled token: whatever it
    /// is, nothing stands at the destination then.
    pub fn load_file(self, path: impl AsRef<Path>) -> Result<Report> {
        publish::refuse_if_taken(&self.database)?;
        let spool = publish::folder_of(&self.database);
        let source = Source::file(path.as_ref(), Some(&spool)).map_err(|e| self.unharmed(e))?;
        self.load_source(source)
    }

    /// Loads CSV from a reader. `name` stands for it in messages and, without
    /// its endings, names the table.
    ///
    /// What is read is kept in an anonymous temporary file beside the
    /// database until the types are certain, as a reader reads only once.
    ///
    /// # Errors
    ///
    /// As [`load_file`](Self::load_file).
    pub fn load_reader(self, name: &str, reader: impl Read + Send) -> Result<Report> {
        publish::refuse_if_taken(&self.database)?;
        let spool = publish::folder_of(&self.database);
        let keep = (!self.all_text || self.primary_key.is_some()).then_some(spool.as_path());
        let source = Source::reader(name, reader, keep);
        self.load_source(source)
    }

    /// Looks at a CSV file and says what a load would do; writes nothing.
    ///
    /// # Errors
    ///
    /// An input that cannot be read, a usage error, a cancelled token.
    pub fn dry_run_file(self, path: impl AsRef<Path>) -> Result<DryRun> {
        let source = Source::file(path.as_ref(), None).map_err(|e| self.unharmed(e))?;
        self.dry_run_source(source)
    }

    /// As [`dry_run_file`](Self::dry_run_file), from a reader.
    ///
    /// # Errors
    ///
    /// As [`dry_run_file`](Self::dry_run_file).
    pub fn dry_run_reader(self, name: &str, reader: impl Read + Send) -> Result<DryRun> {
        let source = Source::reader(name, reader, None);
        self.dry_run_source(source)
    }

    /// Loads rows made in memory, in ascending order of the primary key if
    /// there is one.
    ///
    /// ```
    /// use leafpress::load::{Column, ColumnType, Loader};
    ///
    /// # let folder = tempfile::tempdir().unwrap();
    /// # let database = folder.path().join("user.db");
    /// let columns = [
    ///     Column::new("id", ColumnType::Integer),
    ///     Column::new("area", ColumnType::Text),
    /// ];
    /// let rows = (1..=1000_i64).map(|id| (id, (id % 7 != 0).then(|| format!("{id:06}"))));
    /// let report =
    ///     Loader::new(database).table("user").primary_key("id").load_rows(&columns, rows)?;
    /// assert_eq!(report.rows_loaded, 1000);
    /// # Ok::<(), leafpress::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As [`load_file`](Self::load_file); also keys that do not ascend.
    pub fn load_rows<I>(self, columns: &[Column], rows: I) -> Result<Report>
    where
        I: IntoIterator<Item: Row, IntoIter: Send>,
    {
        self.load_iterators(columns, vec![(rows.into_iter(), None)])
    }

    /// Loads rows made in memory on several threads at once. The parts follow
    /// one another in the table; with a primary key, its values ascend over
    /// all of them. Unlike other loads, where a page lies in the file depends
    /// on the course of the threads.
    ///
    /// # Errors
    ///
    /// As [`load_rows`](Self::load_rows).
    pub fn load_parts<I>(self, columns: &[Column], parts: Vec<I>) -> Result<Report>
    where
        I: IntoIterator<Item: Row, IntoIter: Send>,
    {
        let parts = parts.into_iter().map(|part| {
            let rows = part.into_iter();
            let (least, most) = rows.size_hint();
            (rows, most.filter(|&most| most == least).map(|len| len as u64))
        });
        self.load_iterators(columns, parts.collect())
    }

    fn load_iterators<I>(self, columns: &[Column], parts: Vec<(I, Option<u64>)>) -> Result<Report>
    where
        I: Iterator<Item: Row> + Send,
    {
        let monitor = Monitor::default();
        monitor.set_total(None);
        let load = || parts::load(&self, columns, parts, &monitor);
        monitor.watch(self.progress.as_deref(), load).map_err(|error| self.unharmed(error))
    }

    fn load_source(&self, source: Source<'_>) -> Result<Report> {
        let monitor = Monitor::default();
        let load = || CsvLoad::new(self, source, &monitor)?.load();
        monitor.watch(self.progress.as_deref(), load).map_err(|error| self.unharmed(error))
    }

    fn dry_run_source(&self, source: Source<'_>) -> Result<DryRun> {
        let monitor = Monitor::default();
        let look = || CsvLoad::new(self, source, &monitor)?.dry_run();
        monitor.watch(self.progress.as_deref(), look).map_err(|error| self.unharmed(error))
    }

    /// Adds to an error that nothing was written, which is so until the rename.
    fn unharmed(&self, error: Error) -> Error {
        let error = match error.kind() {
            // A reader that was interrupted by the same wish to stop.
            ErrorKind::Io { .. } if self.cancel.is_cancelled() => ErrorKind::Cancelled.into(),
            ErrorKind::BadRow(_) => error
                .to_do("mend the row, or leave bad rows out with --on-error skip --rejects FILE"),
            _ => error,
        };
        error.on_disk(format!("nothing was written to {}", self.database.display()))
    }

    fn layout(&self) -> Result<PageLayout> {
        PageLayout::new(self.page_bytes).map_err(|error| Error::usage(error.to_string()))
    }

    /// The table's name: given, or made of the input's.
    fn table_name(&self, input: &str) -> Result<String> {
        if let Some(name) = &self.table {
            return Ok(name.clone());
        }
        let name = Path::new(input).file_name().unwrap_or_default().to_string_lossy();
        let stem = name.trim_matches(['<', '>']).split('.').find(|part| !part.is_empty());
        stem.map(str::to_owned).ok_or_else(|| {
            Error::usage(format!("'{input}' gives no name for the table"))
                .to_do("name the table with --table")
        })
    }
}
