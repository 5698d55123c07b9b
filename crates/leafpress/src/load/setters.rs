//! Settings of a [`Loader`], one by one.
//!
//! Must never: look at a file. What only a load can tell it says itself.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use super::disk::Listener;
use super::memory;
use super::options::GivenType;
use super::{
    CancelToken, ColumnType, CsvOptions, InputFormat, IntoTable, Layout, Loader, OnConflict,
    OnError, Preset, Progress, TimestampForm, Uuid7Form,
};
use crate::connect::BUSY_TIMEOUT_MAX;
use crate::rights::Rights;

impl Loader {
    /// Name of the table; by default the input's name without its folder and endings.
    pub fn table(mut self, name: impl Into<String>) -> Self {
        self.options.table = Some(name.into());
        self
    }

    /// Page size in bytes of a new database, a power of two from 512 to 65536; by default that of the
    /// [`layout`](Self::layout), 4096. It is an error if the database exists and has another one.
    pub fn page_size(mut self, bytes: u32) -> Self {
        self.options.given_page_bytes = Some(bytes);
        self
    }

    /// Order of the pages of a new database.
    pub fn layout(mut self, layout: Layout) -> Self {
        self.options.given_layout = Some(layout);
        self
    }

    /// Settings of a new database for the place where it will live. A setting that is given besides must
    /// not contradict it.
    pub fn preset(mut self, preset: Preset) -> Self {
        self.options.preset = Some(preset);
        self
    }

    /// Number of threads; by default the number of cores. The rows come out the same.
    pub fn threads(mut self, threads: usize) -> Self {
        self.options.threads = threads.max(1);
        self
    }

    /// Makes the table STRICT, if true.
    pub fn strict(mut self, strict: bool) -> Self {
        self.options.strict = strict;
        self
    }

    /// Memory for sorting, in bytes; by default a quarter of the machine's, or of the
    /// container's if that is limited, at most 1 GiB. Rows
    /// that do not fit are sorted in runs, in temporary files. More than the machine has is taken as
    /// all that it has.
    pub fn memory(mut self, bytes: usize) -> Self {
        self.options.memory_bytes = memory::at_most_all(bytes);
        self
    }

    /// Folder for temporary files; by default the database's. SQLite sorts the indexes that it makes in
    /// the folder that the variable `SQLITE_TMPDIR` names.
    pub fn tmpdir(mut self, folder: impl Into<PathBuf>) -> Self {
        self.options.tmpdir = Some(folder.into());
        self
    }

    /// Adds a column to the primary key. A single INTEGER column becomes the rowid.
    pub fn primary_key(mut self, column: impl Into<String>) -> Self {
        self.options.primary_key.push(column.into());
        self
    }

    /// Makes the table one B-tree in the order of its primary key, without rowids, if true.
    pub fn without_rowid(mut self, without_rowid: bool) -> Self {
        self.options.without_rowid = without_rowid;
        self
    }

    /// Adds a column of made keys, which ascend with time (UUID version 7). It is the primary key
    /// unless another one is named.
    pub fn uuid7(mut self, column: impl Into<String>, form: Uuid7Form) -> Self {
        self.options.uuid7 = Some((column.into(), form));
        self
    }

    /// Adds a column that refuses NULL: a row with NULL there is a bad row.
    pub fn not_null(mut self, column: impl Into<String>) -> Self {
        self.options.not_null.push(column.into());
        self
    }

    /// Adds an index over columns, separated by commas, each of which may be followed by NOCASE or
    /// RTRIM and by DESC: `"name NOCASE, year DESC"`.
    pub fn index(mut self, columns: impl Into<String>) -> Self {
        self.options.indexes.push((columns.into(), false));
        self
    }

    /// Adds an index as [`index`](Self::index) does, over columns in which no two rows are the
    /// same.
    pub fn unique(mut self, columns: impl Into<String>) -> Self {
        self.options.indexes.push((columns.into(), true));
        self
    }

    /// Declares the table, in SQL: a `CREATE TABLE` and, if wanted, its
    /// `CREATE INDEX` and others. Columns are found in the input by their names.
    pub fn declaration(mut self, sql: impl Into<String>) -> Self {
        self.options.declaration = Some(sql.into());
        self
    }

    /// Selects a column of the input. The columns that are not selected are left out, and the
    /// table's columns are in the order of the calls.
    pub fn select(mut self, column: impl Into<String>) -> Self {
        self.options.selects.push(column.into());
        self
    }

    /// Gives a column of the input another name.
    pub fn rename(mut self, column: impl Into<String>, name: impl Into<String>) -> Self {
        self.options.renames.push((column.into(), name.into()));
        self
    }

    /// Leaves out a column of the input.
    pub fn drop_column(mut self, column: impl Into<String>) -> Self {
        self.options.drops.push(column.into());
        self
    }

    /// Removes spaces and tabs around fields, if true.
    pub fn trim(mut self, trim: bool) -> Self {
        self.options.trim = trim;
        self
    }

    /// Way in which rows get into an existing table; without this, such a table is an error. With
    /// it, a missing table is an error ([`NotFound`](crate::ErrorKind::NotFound)), unless [`create_missing`](Self::create_missing) allows it.
    pub fn into_table(mut self, into: IntoTable) -> Self {
        self.options.into = Some(into);
        self
    }

    /// If true, a load that [appends to a table](IntoTable::Append) or
    /// [replaces its rows](IntoTable::Replace) makes the table and the database if they
    /// are missing; by default it does not. So do the other ways, an
    /// [upsert](IntoTable::Upsert) if the [primary key](Self::primary_key) is its only key.
    pub fn create_missing(mut self, create_missing: bool) -> Self {
        self.options.creates_missing = create_missing;
        self
    }

    /// Longest wait for other programs that write an existing database; 5 seconds by default, and 24
    /// days at most.
    pub fn busy_timeout(mut self, timeout: Duration) -> Self {
        self.options.busy_timeout = timeout.min(BUSY_TIMEOUT_MAX);
        self
    }

    /// Treatment of rows with the same key.
    pub fn on_conflict(mut self, on_conflict: OnConflict) -> Self {
        self.options.on_conflict = on_conflict;
        self
    }

    /// Fills `sqlite_stat1` as ANALYZE does, if true.
    pub fn analyze(mut self, analyze: bool) -> Self {
        self.options.analyze = analyze;
        self
    }

    /// Declares a column's type in place of detecting it. Its fields are
    /// converted by SQLite's affinity; one that does not fit makes a bad row.
    pub fn column_type(mut self, column: impl Into<String>, column_type: ColumnType) -> Self {
        self.options.types.push((column.into(), GivenType::Type(column_type)));
        self
    }

    /// Declares a column to hold dates and times in ISO 8601; `form` says how they are stored: as
    /// numbers, or as texts in UTC.
    pub fn timestamp(mut self, column: impl Into<String>, form: TimestampForm) -> Self {
        self.options.types.push((column.into(), GivenType::Timestamp(form)));
        self
    }

    /// Declares a column to hold words for true and false, which are stored as 1 and 0: true and
    /// false, t and f, yes and no, y and n, on and off, 1 and 0, in any case.
    pub fn boolean(mut self, column: impl Into<String>) -> Self {
        self.options.types.push((column.into(), GivenType::Boolean));
        self
    }

    /// If true, a column of CSV becomes REAL only if all of its texts can be made again from the
    /// numbers: a column with `1.5` and `2.50`, or with `1e-05`, stays TEXT then. By default only
    /// the values have to be the same.
    pub fn exact(mut self, exact: bool) -> Self {
        self.options.exact = exact;
        self
    }

    /// Applies [`exact`](Self::exact) to one column.
    pub fn exact_column(mut self, column: impl Into<String>) -> Self {
        self.options.exact_columns.push(column.into());
        self
    }

    /// Makes columns without a declared type TEXT, without detection, if true.
    pub fn all_text(mut self, all_text: bool) -> Self {
        self.options.all_text = all_text;
        self
    }

    /// Adds a text that means NULL, in any column.
    pub fn null_marker(mut self, marker: impl AsRef<str>) -> Self {
        self.options.null_markers.push(marker.as_ref().as_bytes().to_vec());
        self
    }

    /// Stores an empty field as NULL in TEXT columns too, not as '', if true.
    pub fn empty_null(mut self, empty_null: bool) -> Self {
        self.options.empty_null = empty_null;
        self
    }

    /// Format of inputs that are text; by default found from their names' endings and first
    /// characters. Formats that are not text are always known by their first bytes.
    pub fn format(mut self, format: InputFormat) -> Self {
        self.options.format = Some(format);
        self
    }

    /// Dialect of the CSV input.
    pub fn csv(mut self, options: CsvOptions) -> Self {
        self.options.csv = options;
        self
    }

    /// Treatment of bad rows.
    pub fn on_error(mut self, on_error: OnError) -> Self {
        self.options.on_error = on_error;
        self
    }

    /// Sets a callback for the progress of the load. A thread of its own calls it about ten times a
    /// second, and the load's thread once at the end: only then, where the system gives no thread.
    /// A panic of the callback goes on to the caller of the load, which may have been committed.
    pub fn progress(mut self, callback: impl Fn(&Progress) + Send + Sync + 'static) -> Self {
        self.progress = Some(Box::new(callback));
        self
    }

    /// Token by which another thread can stop the load.
    pub fn cancel(mut self, token: CancelToken) -> Self {
        self.options.cancel = token;
        self
    }

    /// Names the columns of a key that the final table has, such as each part of shards: they are NOT
    /// NULL, a row without one lacks its key, and their types are found as those of a key.
    #[doc(hidden)]
    pub fn later_key(mut self, columns: &[String], without_rowid: bool) -> Self {
        self.options.later_key = columns.to_vec();
        self.options.later_without_rowid = without_rowid;
        columns.iter().fold(self, Self::not_null)
    }

    /// Names the place that the rows are for in errors, if the database is only a file on the way there.
    #[doc(hidden)]
    pub fn bound_for(mut self, place: impl Into<String>) -> Self {
        self.options.bound_for = Some(place.into());
        self
    }

    /// Rights of a new database; by default those that SQLite gives.
    #[doc(hidden)]
    pub fn rights_of_new(mut self, rights: Rights) -> Self {
        self.options.rights = rights;
        self
    }

    /// For rows that will be upserted into the final table, such as one of a cluster.
    #[doc(hidden)]
    pub fn later_upsert(mut self) -> Self {
        self.options.later_upsert = true;
        self
    }

    /// For a table whose final database, such as that of a cluster, has pages of this size and these names of
    /// tables, indexes and views.
    #[doc(hidden)]
    pub fn later_database(mut self, page_bytes: u32, names: Vec<String>) -> Self {
        self.options.later_database = Some((page_bytes, names));
        self
    }

    /// Tells a listener of the writes to the file of a new database, but not of those that SQLite makes.
    #[doc(hidden)]
    pub fn tell_of_writes(mut self, listener: Option<Arc<dyn Listener>>) -> Self {
        self.options.listener = listener;
        self
    }
}
