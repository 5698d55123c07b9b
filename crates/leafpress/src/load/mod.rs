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
//! 3. What the file holds does not depend on the number of threads; where
//!    nothing is sorted, neither do its bytes.

mod analyze;
mod build;
mod csv;
mod csv_input;
mod csv_reading;
mod demands;
mod describe;
#[doc(hidden)]
pub mod disk;
mod existing;
mod fields;
mod flow;
mod inputs;
mod locate;
mod memory;
mod monitor;
mod options;
mod output;
mod pages;
mod parts;
mod pass;
mod plan;
mod press;
mod publish;
mod refused;
mod rejects;
mod replay;
mod report;
mod rows;
mod signs;
mod sink;
mod sources;
mod sql_words;
mod sqlite;
mod sqlite_source;
mod survey;
mod target;
mod turns;
mod type_rules;
mod typed;
mod typed_feed;
mod typed_pass;
mod typed_work;
mod uuid7;

use std::ffi::OsStr;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::Duration;

pub use self::build::OnConflict;
pub(crate) use self::existing::{
    ColumnList, DeclaredColumn, DeclaredTable, OrderColumn, shown_value,
};
pub use self::existing::{IndexReport, Indexer};
pub use self::fields::{TimestampForm, Uuid7Form};
pub use self::options::{
    CancelToken, CsvOptions, InputFormat, IntoTable, OnError, Progress, Ragged,
};
#[doc(hidden)]
pub use self::publish::make_new;
pub use self::report::{ChangedForm, ColumnReport, DecidedBy, DryRun, RejectReason, Report, Stage};
pub use self::rows::{Field, Row, TypedRecord};
pub use crate::schema::{Column, ColumnType};
pub use leafpress_format::Value;

pub(crate) use self::describe::collation;

use self::fields::FieldRule;
use self::inputs::{Goal, Inputs, ToLoad, ToLook, run_typed};
use self::monitor::Monitor;
use self::parts::PartsFeed;
use self::sqlite_source::SqliteSource;
use crate::error::{Error, ErrorKind, Result};
use crate::input::detect_encoding::is_auto;
use crate::input::source::Source;
use crate::paths::folder_of;
use crate::words::{counted, path_text};

/// How long a load waits for others that write the database.
const BUSY_TIMEOUT_DEFAULT: Duration = Duration::from_secs(5);

type ProgressCallback = Box<dyn Fn(&Progress) + Send + Sync>;

/// Loads inputs into one table of a database, new or existing.
#[allow(clippy::struct_excessive_bools, reason = "each is a wish of its own")]
pub struct Loader {
    database: PathBuf,
    table: Option<String>,
    page_bytes: u32,
    threads: usize,
    memory_bytes: usize,
    tmpdir: Option<PathBuf>,
    strict: bool,
    primary_key: Vec<String>,
    without_rowid: bool,
    not_null: Vec<String>,
    uuid7: Option<(String, Uuid7Form)>,
    indexes: Vec<(String, bool)>,
    declaration: Option<String>,
    types: Vec<(String, FieldRule)>,
    all_text: bool,
    exact: bool,
    exact_columns: Vec<String>,
    selects: Vec<String>,
    renames: Vec<(String, String)>,
    drops: Vec<String>,
    null_markers: Vec<Vec<u8>>,
    empty_null: bool,
    trim: bool,
    format: Option<InputFormat>,
    csv: CsvOptions,
    into: Option<IntoTable>,
    creates_missing: bool,
    busy_timeout: Duration,
    on_conflict: OnConflict,
    analyze: bool,
    on_error: OnError,
    progress: Option<ProgressCallback>,
    cancel: CancelToken,
}

impl Loader {
    /// A loader into the database at this path, which is made if it does not exist.
    pub fn new(database: impl Into<PathBuf>) -> Self {
        Self {
            database: database.into(),
            table: None,
            page_bytes: 4096,
            threads: std::thread::available_parallelism().map_or(1, Into::into),
            memory_bytes: memory::default_bytes(),
            tmpdir: None,
            strict: false,
            primary_key: Vec::new(),
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

    /// How many threads work; by default as many as there are cores. The rows
    /// come out the same.
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

    /// How much memory sorting may take, in bytes; by default a quarter of what
    /// the machine has, at most 1 GiB. What does not fit is sorted in runs, in
    /// temporary files.
    #[must_use]
    pub fn memory(mut self, bytes: usize) -> Self {
        self.memory_bytes = bytes;
        self
    }

    /// The folder for temporary files; by default the database's own.
    #[must_use]
    pub fn tmpdir(mut self, folder: impl Into<PathBuf>) -> Self {
        self.tmpdir = Some(folder.into());
        self
    }

    /// A column of the primary key; may be called again for a compound one. A
    /// single INTEGER column becomes the rowid.
    #[must_use]
    pub fn primary_key(mut self, column: impl Into<String>) -> Self {
        self.primary_key.push(column.into());
        self
    }

    /// Whether the table is one B-tree in the order of its primary key, without rowids.
    #[must_use]
    pub fn without_rowid(mut self, without_rowid: bool) -> Self {
        self.without_rowid = without_rowid;
        self
    }

    /// Adds a column of made keys, which ascend with time (UUID version 7). It
    /// is the primary key unless another one is named.
    #[must_use]
    pub fn uuid7(mut self, column: impl Into<String>, form: Uuid7Form) -> Self {
        self.uuid7 = Some((column.into(), form));
        self
    }

    /// A column that refuses NULL: such a row is a bad row.
    #[must_use]
    pub fn not_null(mut self, column: impl Into<String>) -> Self {
        self.not_null.push(column.into());
        self
    }

    /// An index over columns, separated by commas, each of which may be
    /// followed by NOCASE or RTRIM and by DESC: `"name NOCASE, year DESC"`.
    #[must_use]
    pub fn index(mut self, columns: impl Into<String>) -> Self {
        self.indexes.push((columns.into(), false));
        self
    }

    /// As [`index`](Self::index), over columns in which no two rows are the same.
    #[must_use]
    pub fn unique(mut self, columns: impl Into<String>) -> Self {
        self.indexes.push((columns.into(), true));
        self
    }

    /// Declares the table, in SQL: a `CREATE TABLE` and, if wanted, its
    /// `CREATE INDEX` and others. Columns are found in the input by their names.
    #[must_use]
    pub fn declaration(mut self, sql: impl Into<String>) -> Self {
        self.declaration = Some(sql.into());
        self
    }

    /// A column of the input that is wanted; the others are left out, and the
    /// table's columns stand in the order of the calls.
    #[must_use]
    pub fn select(mut self, column: impl Into<String>) -> Self {
        self.selects.push(column.into());
        self
    }

    /// Gives a column of the input another name.
    #[must_use]
    pub fn rename(mut self, column: impl Into<String>, name: impl Into<String>) -> Self {
        self.renames.push((column.into(), name.into()));
        self
    }

    /// Leaves out a column of the input.
    #[must_use]
    pub fn drop_column(mut self, column: impl Into<String>) -> Self {
        self.drops.push(column.into());
        self
    }

    /// Whether spaces and tabs around a field are no part of it.
    #[must_use]
    pub fn trim(mut self, trim: bool) -> Self {
        self.trim = trim;
        self
    }

    /// How rows get into a table that is there already; without this, such a
    /// table is an error. With it, a table that is missing is one
    /// ([`ErrorKind::NoSuchTable`]), unless [`create_missing`](Self::create_missing) says
    /// otherwise.
    #[must_use]
    pub fn into_table(mut self, into: IntoTable) -> Self {
        self.into = Some(into);
        self
    }

    /// Whether a load that is to [append to a table](IntoTable::Append) or to
    /// [replace its rows](IntoTable::Replace) makes the table, and the database, where they
    /// are missing; by default it does not.
    #[must_use]
    pub fn create_missing(mut self, create_missing: bool) -> Self {
        self.creates_missing = create_missing;
        self
    }

    /// Whether a table that is missing is made.
    fn makes_missing(&self) -> bool {
        match self.into {
            None => true,
            Some(IntoTable::Append | IntoTable::Replace) => self.creates_missing,
            Some(IntoTable::Ignore | IntoTable::Upsert) => false,
        }
    }

    /// How long to wait for others that write an existing database; 5 seconds by default.
    #[must_use]
    pub fn busy_timeout(mut self, timeout: Duration) -> Self {
        self.busy_timeout = timeout;
        self
    }

    /// What becomes of rows with the same key.
    #[must_use]
    pub fn on_conflict(mut self, on_conflict: OnConflict) -> Self {
        self.on_conflict = on_conflict;
        self
    }

    /// Whether `sqlite_stat1` is filled, as ANALYZE would.
    #[must_use]
    pub fn analyze(mut self, analyze: bool) -> Self {
        self.analyze = analyze;
        self
    }

    /// Declares a column's type in place of detecting it. Its fields are
    /// converted by SQLite's affinity; one that does not fit makes a bad row.
    #[must_use]
    pub fn column_type(mut self, column: impl Into<String>, column_type: ColumnType) -> Self {
        self.types.push((column.into(), FieldRule::Given(column_type)));
        self
    }

    /// Declares a column to hold dates and times, which are stored as numbers.
    #[must_use]
    pub fn timestamp(mut self, column: impl Into<String>, form: TimestampForm) -> Self {
        self.types.push((column.into(), FieldRule::Timestamp(form)));
        self
    }

    /// Declares a column to hold the words of truth, which are stored as 1 and 0: true
    /// and false, t and f, yes and no, y and n, on and off, 1 and 0, in any case.
    #[must_use]
    pub fn boolean(mut self, column: impl Into<String>) -> Self {
        self.types.push((column.into(), FieldRule::Boolean));
        self
    }

    /// Whether columns of CSV become REAL only if all of their texts can be had back from
    /// the numbers: `1.5` and `2.50`, or `1e-05`, stay texts then. By default the value
    /// counts.
    #[must_use]
    pub fn exact(mut self, exact: bool) -> Self {
        self.exact = exact;
        self
    }

    /// The same as [`exact`](Self::exact) for one column.
    #[must_use]
    pub fn exact_column(mut self, column: impl Into<String>) -> Self {
        self.exact_columns.push(column.into());
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

    /// Which text the inputs are; by default their names' endings and first
    /// characters tell. Formats that are not text are always known by their
    /// first bytes.
    #[must_use]
    pub fn format(mut self, format: InputFormat) -> Self {
        self.format = Some(format);
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

    /// Loads a file: CSV, JSON, Parquet or Arrow, plain or compressed by gzip or
    /// zstd; or a table of another SQLite database, as `other.db::table`.
    ///
    /// # Errors
    ///
    /// A bad row (unless they are skipped), a table that exists (unless it is
    /// said what becomes of it), an input that cannot be read, a full disk, a
    /// cancelled token: whatever it is, the database is as it was then.
    pub fn load_file(self, path: impl AsRef<Path>) -> Result<Report> {
        self.load_files(&[path])
    }

    /// Loads several files, one after the other, into the same table.
    /// Columns are matched by name.
    ///
    /// # Errors
    ///
    /// As [`load_file`](Self::load_file); also files with other columns than
    /// the first.
    pub fn load_files<P: AsRef<Path>>(self, paths: &[P]) -> Result<Report> {
        self.run_paths::<ToLoad, _>(paths)
    }

    /// Loads what a reader gives. `name` stands for it in messages and, without
    /// its endings, names the table.
    ///
    /// What is read is kept in an anonymous temporary file beside the
    /// database until it is certain that it need not be read again.
    ///
    /// # Errors
    ///
    /// As [`load_file`](Self::load_file).
    pub fn load_reader(self, name: &str, reader: impl Read + Send) -> Result<Report> {
        let spool = self.spool();
        let keep = self.may_read_again().then_some(spool.as_path());
        let source = Source::reader(name, reader, keep);
        self.run::<ToLoad>(vec![source])
    }

    /// Whether there may be a second pass over the input.
    fn may_read_again(&self) -> bool {
        !self.all_text
            || is_auto(self.csv.encoding.as_deref())
            || !self.primary_key.is_empty()
            || self.declaration.is_some()
            || self.into.is_some()
            || self.indexes.iter().any(|(_, unique)| *unique)
    }

    /// Where a pipe is copied to.
    fn spool(&self) -> PathBuf {
        self.tmpdir.clone().unwrap_or_else(|| folder_of(&self.database))
    }

    fn sources<'s, P: AsRef<Path>>(&self, paths: &[P]) -> Result<Vec<Source<'s>>> {
        let spool = self.spool();
        let sources = paths.iter().map(|path| Source::file(path.as_ref(), Some(&spool)));
        sources.collect::<Result<Vec<_>>>().map_err(|error| self.unharmed(error))
    }

    /// Looks at a CSV file and says what a load would do; writes nothing.
    ///
    /// # Errors
    ///
    /// An input that cannot be read, a usage error, a cancelled token, more bad rows than a
    /// load would allow, a file of rejects that it could not make.
    pub fn dry_run_file(self, path: impl AsRef<Path>) -> Result<DryRun> {
        self.dry_run_files(&[path])
    }

    /// As [`dry_run_file`](Self::dry_run_file), for several files.
    ///
    /// # Errors
    ///
    /// As [`dry_run_file`](Self::dry_run_file).
    pub fn dry_run_files<P: AsRef<Path>>(self, paths: &[P]) -> Result<DryRun> {
        self.counting()?.run_paths::<ToLook, _>(paths)
    }

    /// As [`dry_run_file`](Self::dry_run_file), from a reader.
    ///
    /// # Errors
    ///
    /// As [`dry_run_file`](Self::dry_run_file).
    pub fn dry_run_reader(self, name: &str, reader: impl Read + Send) -> Result<DryRun> {
        let spool = self.spool();
        let source = Source::reader(name, reader, Some(&spool));
        self.counting()?.run::<ToLook>(vec![source])
    }

    /// Loads rows made in memory, in any order; fastest in that of the primary key.
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
    /// As [`load_file`](Self::load_file).
    pub fn load_rows<I>(self, columns: &[Column], rows: I) -> Result<Report>
    where
        I: IntoIterator<Item: Row + Send, IntoIter: Send>,
    {
        self.load_iterators(columns, vec![(rows.into_iter(), None)])
    }

    /// Loads rows made in memory on several threads at once. Without a
    /// primary key the parts follow one another in the table. Unlike other
    /// loads, where a page lies in the file may depend on the course of the
    /// threads.
    ///
    /// # Errors
    ///
    /// As [`load_rows`](Self::load_rows).
    pub fn load_parts<I>(self, columns: &[Column], parts: Vec<I>) -> Result<Report>
    where
        I: IntoIterator<Item: Row + Send, IntoIter: Send>,
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
        I: Iterator<Item: Row + Send> + Send,
    {
        let monitor = Monitor::default();
        monitor.set_total(None);
        let load = || {
            self.check_tmpdir()?;
            let table = self.table_name("rows")?;
            flow::load(&self, &table, &monitor, |declared, _| {
                PartsFeed::new(&self, columns, parts, declared, &table, &monitor)
            })
        };
        monitor.watch(self.progress.as_deref(), load).map_err(|error| self.unharmed(error))
    }

    /// The same loader for a dry run: it writes no rejects, and counts bad rows up to the limit
    /// that a load has. Without leave to skip them it counts all.
    fn counting(mut self) -> Result<Self> {
        let on_error = std::mem::take(&mut self.on_error);
        let max_rejects = match on_error {
            OnError::Stop => None,
            OnError::Skip { rejects, max_rejects } => {
                let looked_at = rejects.as_deref().map_or(Ok(()), rejects::look_at);
                looked_at.map_err(|error| self.unharmed(error))?;
                max_rejects
            }
        };
        self.on_error = OnError::Skip { rejects: None, max_rejects };
        Ok(self)
    }

    /// Refuses a folder for temporary files that is none, before it is needed.
    fn check_tmpdir(&self) -> Result<()> {
        self.tmpdir.as_deref().map_or(Ok(()), refuse_unless_folder)
    }

    fn run_paths<G: Goal, P: AsRef<Path>>(&self, paths: &[P]) -> Result<G::Outcome> {
        self.check_tmpdir().map_err(|error| self.unharmed(error))?;
        let monitor = Monitor::default();
        if let Some(tables) = sqlite_source::tables_of_inputs(paths) {
            let open = |(path, table): (PathBuf, Option<String>)| {
                SqliteSource::new(path, table.as_deref())
            };
            let run = || run_typed::<G, _, _>(self, &monitor, tables?, open);
            return monitor
                .watch(self.progress.as_deref(), run)
                .map_err(|error| self.unharmed(error));
        }
        self.run::<G>(self.sources(paths)?)
    }

    /// Loads record batches of Arrow. `name` stands for them in messages and
    /// names the table. They can be had only once: a column of a type whose
    /// values must be looked at first (unsigned 64-bit integers, decimals
    /// without decimals) may make that an error.
    ///
    /// # Errors
    ///
    /// As [`load_file`](Self::load_file).
    #[cfg(feature = "arrow")]
    pub fn load_record_batches(
        self,
        name: &str,
        reader: impl arrow_array::RecordBatchReader + Send,
    ) -> Result<Report> {
        let monitor = Monitor::default();
        let open = |reader| Ok(crate::input::arrow::ArrowSource::from_reader(name, reader));
        let run = || {
            self.check_tmpdir()?;
            run_typed::<ToLoad, _, _>(&self, &monitor, vec![reader], open)
        };
        monitor.watch(self.progress.as_deref(), run).map_err(|error| self.unharmed(error))
    }

    fn run<G: Goal>(&self, sources: Vec<Source<'_>>) -> Result<G::Outcome> {
        let monitor = Monitor::default();
        let run = || {
            self.check_tmpdir()?;
            Inputs::of(self, sources)?.run::<G>(self, &monitor)
        };
        monitor.watch(self.progress.as_deref(), run).map_err(|error| self.unharmed(error))
    }

    /// Adds to an error that nothing was written but rejects, which is so until the rename.
    fn unharmed(&self, error: Error) -> Error {
        let names_row = error.bad_row().is_some();
        let error = match error.kind() {
            // A reader that was interrupted by the same wish to stop.
            ErrorKind::Io { .. } if self.cancel.is_cancelled() => ErrorKind::Cancelled.into(),
            ErrorKind::BadRow(_) | ErrorKind::Constraint { .. } if names_row => error
                .to_do("mend the row, or leave bad rows out with --on-error skip --rejects FILE"),
            ErrorKind::TooManyRejects { .. } => error.to_do(
                "see all bad rows with --dry-run and no --max-rejects, or allow more of them",
            ),
            _ => error,
        };
        let mut on_disk = format!("nothing was written to {}", path_text(&self.database));
        if let ErrorKind::TooManyRejects { rejected, .. } = error.kind()
            && let OnError::Skip { rejects: Some(path), .. } = &self.on_error
        {
            let (rows, log) = (counted(*rejected, "row", "rows"), rejects::log_of(path));
            on_disk = format!(
                "{on_disk}; {rows} that {} rejected are in {}, their places and reasons in {}",
                if *rejected == 1 { "was" } else { "were" },
                path_text(path),
                path_text(log)
            );
        }
        error.on_disk(on_disk)
    }

    /// The table's name: given, or made of the input's. A byte of a file's name that is not
    /// UTF-8 is in it as [`path_text`] shows it, so that files with different names give
    /// different tables.
    fn table_name(&self, input: &str) -> Result<String> {
        if let Some(name) = &self.table {
            return Ok(name.clone());
        }
        let name = Path::new(input).file_name().and_then(OsStr::to_str).unwrap_or_default();
        let stem = without_endings(name.trim_matches(['<', '>']));
        stem.map(str::to_owned).ok_or_else(|| {
            Error::usage(format!("'{input}' gives no name for the table"))
                .to_do("name the table with --table")
        })
    }
}

/// Refuses a folder for temporary files that is none.
pub(crate) fn refuse_unless_folder(folder: &Path) -> Result<()> {
    if folder.is_dir() {
        return Ok(());
    }
    let what = if folder.exists() { "is not a folder" } else { "is not there" };
    Err(Error::usage(format!("the folder for temporary files {what}: {}", path_text(folder)))
        .to_do("name a folder that is there with --tmpdir, or make it"))
}

/// Endings that say what a file is, and are no part of what it is about.
const ENDINGS: [&str; 24] = [
    "csv", "tsv", "tab", "psv", "ssv", "txt", "text", "dat", "data", "json", "jsonl", "ndjson",
    "geojson", "geojsonl", "parquet", "arrow", "arrows", "feather", "ipc", "gz", "gzip", "zst",
    "zstd", "db",
];

/// A file's name without the endings that are known; `None` where nothing is left.
fn without_endings(name: &str) -> Option<&str> {
    let mut stem = name.trim_start_matches('.');
    while let Some((before, ending)) = stem.rsplit_once('.')
        && !before.is_empty()
        && ENDINGS.iter().any(|known| known.eq_ignore_ascii_case(ending))
    {
        stem = before;
    }
    Some(stem.trim_end_matches('.')).filter(|stem| !stem.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_known_endings_are_no_part_of_a_tables_name() {
        for (name, expected) in [
            ("cities.csv", Some("cities")),
            ("2024.01.sales.csv", Some("2024.01.sales")),
            ("v1.2-final.csv.gz", Some("v1.2-final")),
            ("a.csv.txt.GZ", Some("a")),
            ("log.2026", Some("log.2026")),
            (".hidden.tsv", Some("hidden")),
            (".csv", Some("csv")),
            ("stdin", Some("stdin")),
            ("a..csv", Some("a")),
            ("...", None),
            ("", None),
        ] {
            assert_eq!(without_endings(name), expected, "{name}");
        }
    }
}
