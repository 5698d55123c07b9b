//! The loader: all rows become a table, or none. The database is new or exists.
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
//! 1. Whatever happens, the destination is as it was or holds all of the load. After an error it is as
//!    it was, unless the error says that the outcome is unknown.
//! 2. The loaded values equal, in value and type, those that SQLite would hold after
//!    INSERTs of the same rows.
//! 3. The content of the file does not depend on the number of threads; where
//!    nothing is sorted, neither do its bytes.
//!
//! Rows that do not go in have these names, here and below:
//!
//! | row | is |
//! |---|---|
//! | bad | refused by the loader itself, for its form or for a value |
//! | refused | refused by SQLite, for a rule that only SQLite can check |
//! | repeated | with a key that another row has |
//! | ignored | repeated, and left out as the caller wants it: no fault |
//! | rejected | of one of the first three kinds, and left out by [`OnError::Skip`] |
//!
#![doc = include_str!("guide.md")]

mod arranged;
mod at_rest;
#[cfg(feature = "arrow")]
mod batches;
mod bound;
mod csv;
#[doc(hidden)]
pub mod endings;
mod existing;
mod file;
mod flow;
mod inputs;
mod long_statements;
mod memory;
mod mixed;
mod monitor;
mod options;
mod passes;
mod preset;
mod refused;
mod report;
mod row_savepoint;
mod rows;
mod setters;
mod target;
mod tree;
mod values;

use std::fmt;
use std::io::Read;
use std::path::{Path, PathBuf};

#[cfg(feature = "arrow")]
#[doc(hidden)]
pub use self::batches::values_of_batch;
#[doc(hidden)]
pub use self::bound::Bound;
#[doc(hidden)]
pub use self::existing::notes_of_triggers;
pub use self::existing::{IndexReport, Indexer};
#[doc(hidden)]
pub use self::memory::default_bytes as memory_default_bytes;
pub use self::options::{
    CancelToken, CsvOptions, InputFormat, IntoTable, OnConflict, OnError, Progress, Ragged,
    TimestampForm, Uuid7Form,
};
#[doc(hidden)]
pub use self::passes::rejects::log_of as log_of_rejects;
pub use self::preset::{Layout, Preset};
pub use self::report::{ChangedForm, ColumnReport, DecidedBy, DryRun, RejectReason, Report, Stage};
pub use self::rows::row::{Field, Row, TypedRecord};
#[cfg(feature = "arrow")]
pub use crate::input::arrow::Batched;
#[cfg(feature = "arrow")]
#[doc(hidden)]
pub use crate::input::arrow::{ArrowColumn, may_be_wide};
#[doc(hidden)]
pub use crate::input::pipe::Pipe;
#[cfg(unix)]
#[doc(hidden)]
pub use crate::input::pipe::wait_to_read;
pub use crate::input::values::{ValueBatch, ValueRows};
#[doc(hidden)]
pub use crate::new_file::{disk, make_new, make_new_with};
#[doc(hidden)]
pub use crate::schema::names::column_there as column_named;
pub use crate::schema::{Column, ColumnType};
pub use leafpress_format::Value;

use self::inputs::{Inputs, table_name, typed};
use self::monitor::Monitor;
use self::options::LoadOptions;
use self::passes::feed::{Input, MakeFeed};
use self::passes::rejects::{log_of, look_at};
use self::rows::fallible::{Fallible, Fault};
use self::rows::parts::PartsFeed;
use self::rows::sqlite_source::{SqliteSource, split_table, tables_of_inputs};
use crate::cancel::Stoppable;
use crate::error::{Error, ErrorKind, Mark, Result};
use crate::input::detect_encoding::is_auto;
use crate::input::small::{KEPT_BYTES_MAX, SmallFile};
use crate::input::source::Source;
use crate::input::values::ValuesSource;
use crate::new_file::refuse_unless_folder;
use crate::words::{counted, path_text};

/// Way to deal with an input: load it, or only inspect it.
type Goal<R> = fn(&LoadOptions, Input<'_>, &Monitor) -> Result<R>;

type ProgressCallback = Box<dyn Fn(&Progress) + Send + Sync>;

/// Loads inputs into one table of a database, new or existing.
#[must_use]
pub struct Loader {
    options: LoadOptions,
    progress: Option<ProgressCallback>,
}

impl fmt::Debug for Loader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Loader").field("options", &self.options).finish_non_exhaustive()
    }
}

impl Loader {
    /// A loader into the database at this path, which is made if it does not exist.
    pub fn new(database: impl Into<PathBuf>) -> Self {
        crate::vfs::memory::one_heap_where_limited();
        Self { options: LoadOptions::new(database.into()), progress: None }
    }

    /// Name of the table that a load of the input with this name fills, unless a
    /// [declaration](Self::declaration) or a table of another database names it.
    ///
    /// # Errors
    /// No name was given, and the input's name gives none.
    pub fn table_name_for(&self, input: &str) -> Result<String> {
        table_name(&self.options, input)
    }

    /// Loads a file: CSV, JSON, Parquet or Arrow, plain or compressed by gzip or
    /// zstd; or a table of another SQLite database, as `other.db::table`.
    ///
    /// # Errors
    ///
    /// A bad row (unless they are skipped), a table that exists (unless
    /// [`into_table`](Self::into_table) is set), an input that cannot be read, a full disk, a
    /// cancelled token. After any error the database is unchanged.
    pub fn load_file(self, path: impl AsRef<Path>) -> Result<Report> {
        self.load_files(&[path])
    }

    /// Loads several files, one after the other, into the same table.
    /// Columns are matched by name.
    ///
    /// # Errors
    ///
    /// As [`load_file`](Self::load_file); also files with other columns than the first.
    pub fn load_files<P: AsRef<Path>>(self, paths: &[P]) -> Result<Report> {
        self.run_paths(paths, flow::load)
    }

    /// Loads the bytes of a reader. `name` is its name in messages and, without its endings, that
    /// of the table.
    ///
    /// The bytes are kept in an anonymous temporary file beside the database until no second pass
    /// over them can be needed.
    ///
    /// # Errors
    ///
    /// As [`load_file`](Self::load_file).
    pub fn load_reader(self, name: &str, reader: impl Read + Send) -> Result<Report> {
        self.run_reader(name, reader, self.may_read_again(), flow::load)
    }

    /// Returns true if there may be a second pass over the input.
    fn may_read_again(&self) -> bool {
        let LoadOptions { all_text, csv, .. } = &self.options;
        !all_text || is_auto(csv.encoding.as_deref()) || self.has_rules()
    }

    /// Returns true if the table has keys or other rules that a row may break, which is found only
    /// when all rows are known.
    fn has_rules(&self) -> bool {
        let LoadOptions { primary_key, declaration, into, indexes, .. } = &self.options;
        !primary_key.is_empty()
            || declaration.is_some()
            || into.is_some()
            || indexes.iter().any(|(_, unique)| *unique)
    }

    /// Inspects an input file and reports what a load would do; writes nothing.
    ///
    /// # Errors
    ///
    /// An input that cannot be read, a call that is wrong, a cancelled token, more bad rows than a
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
        self.counting()?.run_paths(paths, flow::dry_run)
    }

    /// As [`dry_run_file`](Self::dry_run_file), from a reader.
    ///
    /// # Errors
    ///
    /// As [`dry_run_file`](Self::dry_run_file).
    pub fn dry_run_reader(self, name: &str, reader: impl Read + Send) -> Result<DryRun> {
        self.counting()?.run_reader(name, reader, true, flow::dry_run)
    }

    /// Loads rows made in memory, in any order; the order of the primary key is the fastest.
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
    /// As [`load_file`](Self::load_file), and for settings that choose or change the columns or values
    /// of an input, such as [`select`](Self::select).
    pub fn load_rows<I>(self, columns: &[Column], rows: I) -> Result<Report>
    where
        I: IntoIterator<Item: Row + Send, IntoIter: Send>,
    {
        self.load_iterators(columns, vec![(rows.into_iter(), None)], &Fault::default())
    }

    /// Loads rows made in memory on several threads at once. Without a primary key the parts follow
    /// one another in the table. Unlike in other loads, the places of pages in the file may differ
    /// from run to run.
    ///
    /// If bad rows are [left out](OnError::Skip), parts without a primary key are pressed one after the other: only
    /// then are the rowids without gaps.
    ///
    /// # Errors
    ///
    /// As [`load_rows`](Self::load_rows).
    pub fn load_parts<I>(self, columns: &[Column], parts: Vec<I>) -> Result<Report>
    where
        I: IntoIterator<Item: Row + Send, IntoIter: Send>,
    {
        let parts = parts.into_iter().map(|part| with_length(part.into_iter()));
        self.load_iterators(columns, parts.collect(), &Fault::default())
    }

    /// As [`load_rows`](Self::load_rows), for rows that may fail: the first error ends the load,
    /// which is [`ErrorKind::Aborted`] then, with the caller's error as its source.
    ///
    /// ```
    /// use leafpress::load::{Column, ColumnType, Loader};
    ///
    /// # let folder = tempfile::tempdir().unwrap();
    /// # let database = folder.path().join("numbers.db");
    /// let columns = [Column::new("n", ColumnType::Integer)];
    /// let load = |texts: &[&'static str]| {
    ///     let rows = texts.iter().map(|text| Ok::<_, std::num::ParseIntError>((text.parse::<i64>()?,)));
    ///     Loader::new(&database).table("number").try_load_rows(&columns, rows.collect::<Vec<_>>())
    /// };
    /// let error = load(&["1", "2", "three"]).unwrap_err();
    /// assert!(error.to_string().contains("invalid digit"));
    /// assert!(!database.exists()); // all or nothing
    /// assert_eq!(load(&["1", "2", "3"])?.rows_loaded, 3);
    /// # Ok::<(), leafpress::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As [`load_rows`](Self::load_rows).
    pub fn try_load_rows<I, R, E>(self, columns: &[Column], rows: I) -> Result<Report>
    where
        I: IntoIterator<Item = std::result::Result<R, E>, IntoIter: Send>,
        R: Row + Send,
        E: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let fault = Fault::default();
        let rows = Fallible::new(rows.into_iter(), &fault);
        self.load_iterators(columns, vec![(rows, None)], &fault)
    }

    /// As [`load_parts`](Self::load_parts), for rows that may fail, as in
    /// [`try_load_rows`](Self::try_load_rows).
    ///
    /// # Errors
    ///
    /// As [`load_rows`](Self::load_rows).
    pub fn try_load_parts<I, R, E>(self, columns: &[Column], parts: Vec<I>) -> Result<Report>
    where
        I: IntoIterator<Item = std::result::Result<R, E>, IntoIter: Send>,
        R: Row + Send,
        E: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let fault = Fault::default();
        let part = |part: I| with_length(Fallible::new(part.into_iter(), &fault));
        let parts = parts.into_iter().map(part).collect();
        self.load_iterators(columns, parts, &fault)
    }

    fn load_iterators<I>(
        self,
        columns: &[Column],
        parts: Vec<(I, Option<u64>)>,
        fault: &Fault,
    ) -> Result<Report>
    where
        I: Iterator<Item: Row + Send> + Send,
    {
        let (options, monitor) = (&self.options, &Monitor::default());
        monitor.set_total(None);
        self.run(monitor, flow::load, || {
            let table = table_name(options, "rows")?;
            let make: MakeFeed<'_> = Box::new(move |table| {
                Ok(Box::new(PartsFeed::new(options, columns, (parts, fault), table, monitor)?))
            });
            Ok(Input { table, make, is_short: false })
        })
    }

    /// The loader for a dry run: it writes no rejects, and counts bad rows up to the limit of the
    /// load, or all of them if the load would not skip any.
    fn counting(mut self) -> Result<Self> {
        let on_error = std::mem::take(&mut self.options.on_error);
        let max_rejects = match on_error {
            OnError::Stop => None,
            OnError::Skip { rejects, max_rejects } => {
                let looked_at = rejects.as_deref().map_or(Ok(()), look_at);
                looked_at.map_err(|error| self.unharmed(error))?;
                max_rejects
            }
        };
        self.options.on_error = OnError::Skip { rejects: None, max_rejects };
        Ok(self)
    }

    fn run_paths<P: AsRef<Path>, R>(&self, paths: &[P], goal: Goal<R>) -> Result<R> {
        let may_begin_anew = || paths.iter().all(can_be_read_again);
        beginning_anew(may_begin_anew, || self.run_paths_once(paths, goal))
    }

    fn run_paths_once<P: AsRef<Path>, R>(&self, paths: &[P], goal: Goal<R>) -> Result<R> {
        let (options, monitor) = (&self.options, &Monitor::default());
        self.run(monitor, goal, || {
            let mut room = KEPT_BYTES_MAX;
            let kept = paths.iter().map(|path| SmallFile::read(path.as_ref(), &mut room));
            let kept: Vec<_> = kept.collect();
            if let Some(tables) = tables_of_inputs(paths, &kept) {
                let open = |(path, table): (PathBuf, Option<String>)| {
                    SqliteSource::new(path, table.as_deref(), options.busy_timeout)
                };
                return typed(options, monitor, tables?, open);
            }
            let spool = options.folder_beside(&options.database);
            let open = |(path, kept): (&P, Option<SmallFile>)| match kept {
                Some(kept) => Ok(Source::small_file(path.as_ref(), kept)),
                None => Source::file(path.as_ref(), Some(&spool), &options.cancel),
            };
            let sources = paths.iter().zip(kept).map(open);
            let sources = sources.collect::<Result<Vec<_>>>()?;
            Inputs::of(options, sources)?.into_input(options, monitor)
        })
    }

    fn run_reader<R>(
        &self,
        name: &str,
        reader: impl Read + Send,
        may_read_again: bool,
        goal: Goal<R>,
    ) -> Result<R> {
        let (options, monitor) = (&self.options, &Monitor::default());
        let spool = options.folder_beside(&options.database);
        let reader = Stoppable { reader, cancel: options.cancel.clone() };
        let source = Source::reader(name, reader, may_read_again.then_some(spool.as_path()));
        self.run(monitor, goal, || Inputs::of(options, vec![source])?.into_input(options, monitor))
    }

    /// Opens the input, runs `goal` with it, and reports progress to the caller.
    fn run<'l, R>(
        &'l self,
        monitor: &'l Monitor,
        goal: Goal<R>,
        open: impl FnOnce() -> Result<Input<'l>>,
    ) -> Result<R> {
        let run = || {
            self.options.tmpdir.as_deref().map_or(Ok(()), refuse_unless_folder)?;
            goal(&self.options, open()?, monitor)
        };
        monitor.watch(self.progress.as_deref(), run).map_err(|error| self.unharmed(error))
    }

    /// Loads rows of values whose types are not declared. Types are found from the values, as for
    /// JSON. `name` is the rows' name in messages and that of the table.
    ///
    /// The rows are read once and kept in an anonymous temporary file beside the database, for a
    /// second pass over them.
    ///
    /// ```
    /// use leafpress::load::{Loader, Value, ValueBatch, ValueRows};
    ///
    /// struct Words(std::vec::IntoIter<(&'static str, i64)>);
    ///
    /// impl ValueRows for Words {
    ///     fn columns(&self) -> Vec<String> {
    ///         vec!["word".to_owned(), "count".to_owned()]
    ///     }
    ///
    ///     fn fill(
    ///         &mut self,
    ///         batch: &mut ValueBatch,
    ///     ) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    ///         for (word, count) in self.0.by_ref().take(1000) {
    ///             batch.put(Value::Text(word.as_bytes()));
    ///             batch.put(Value::Integer(count));
    ///             batch.end_row();
    ///         }
    ///         Ok(())
    ///     }
    /// }
    ///
    /// # let folder = tempfile::tempdir().unwrap();
    /// # let database = folder.path().join("words.db");
    /// let words = Words(vec![("to", 2), ("be", 2), ("or", 1)].into_iter());
    /// let report = Loader::new(database).unique("word").load_values("words", words)?;
    /// assert_eq!(report.rows_loaded, 3);
    /// # Ok::<(), leafpress::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As [`load_file`](Self::load_file); [`ErrorKind::Aborted`] with the error of
    /// [`fill`](ValueRows::fill).
    pub fn load_values(self, name: &str, rows: impl ValueRows) -> Result<Report> {
        self.run_values(name, rows, flow::load)
    }

    /// As [`dry_run_file`](Self::dry_run_file), for rows of values.
    ///
    /// # Errors
    ///
    /// As [`load_values`](Self::load_values).
    pub fn dry_run_values(self, name: &str, rows: impl ValueRows) -> Result<DryRun> {
        self.counting()?.run_values(name, rows, flow::dry_run)
    }

    fn run_values<R>(&self, name: &str, rows: impl ValueRows, goal: Goal<R>) -> Result<R> {
        let (options, monitor) = (&self.options, &Monitor::default());
        self.run(monitor, goal, || {
            let folder = options.folder_beside(&options.database);
            let open = |rows| ValuesSource::new(name, rows, folder.clone());
            typed(options, monitor, vec![Box::new(rows) as Box<dyn ValueRows>], open)
        })
    }

    /// Adds to an error that nothing was written but rejects. True until the rename.
    fn unharmed(&self, error: Error) -> Error {
        let names_row = error.bad_row().is_some();
        let error = match error.kind() {
            // A reader that was interrupted by the same cancel token.
            ErrorKind::Io { .. } | ErrorKind::Input { .. }
                if self.options.cancel.is_cancelled() =>
            {
                ErrorKind::Cancelled.into()
            }
            ErrorKind::BadRow(_) | ErrorKind::Constraint { .. } if names_row => {
                error.to_do("correct the row, or leave bad rows out with ⟦skip_bad_rows⟧")
            }
            ErrorKind::TooManyRejects { .. } => error.to_do(
                "see all bad rows with ⟦dry_run⟧ and no ⟦max_rejects⟧, or allow more of them",
            ),
            _ => error,
        };
        let mut on_disk = format!("nothing was written to {}", self.options.destination());
        if let ErrorKind::TooManyRejects { rejected, .. } = error.kind()
            && let OnError::Skip { rejects: Some(path), .. } = &self.options.on_error
        {
            let (rows, log) = (counted(*rejected, "row", "rows"), log_of(path));
            on_disk = format!(
                "{on_disk}; {rows} that {} rejected are in {}, their places and reasons in {}",
                if *rejected == 1 { "was" } else { "were" },
                path_text(path),
                path_text(log)
            );
        }
        error.on_disk(on_disk)
    }
}

/// Runs a load, and runs it again where another program has made the database or the table meanwhile.
///
/// Of several loads that find no database, one makes it. The others begin anew and find it, as if they
/// had begun later.
fn beginning_anew<R>(
    may_begin_anew: impl Fn() -> bool,
    mut load: impl FnMut() -> Result<R>,
) -> Result<R> {
    loop {
        match load() {
            Err(error) if error.has_mark(Mark::MadeMeanwhile) && may_begin_anew() => {
                tracing::debug!(%error, "the load begins anew");
            }
            outcome => return outcome,
        }
    }
}

/// Returns true for a file and a table of a database; what a pipe gave is gone.
fn can_be_read_again(path: &impl AsRef<Path>) -> bool {
    let path = path.as_ref();
    path.is_file() || split_table(path).is_some()
}

/// Rows, and their number where they know it.
fn with_length<I: Iterator>(rows: I) -> (I, Option<u64>) {
    let (least, most) = rows.size_hint();
    (rows, most.filter(|&most| most == least).map(|len| len as u64))
}
