//! The rows of a table or view of another SQLite database, as an input.
//!
//! ```text
//! a thread of its own: connection, one read transaction ──batches──► claim ──► decode (nothing left to do)
//! ```
//!
//! SQLite gives one row after the other, and its statements cannot move between threads while they
//! run. So a thread keeps connection and statement and sends batches, at most two ahead. All passes
//! are within one read transaction, so that they see the same rows, whatever other programs write.
//! It ends when the source is released or dropped. With a rollback journal no other program can
//! commit before.
//!
//! Values come as they are stored, whatever the column's type says: text that is not UTF-8, text
//! among integers. Generated columns are values like others. Hidden columns of virtual tables are
//! left out, and so is a rowid that is no column.
//!
//! Must never: write to the other database. Of a database in WAL mode the log, which is empty, and its
//! `-shm` go with the last reader.

mod held;

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use leafpress_format::Value;
use rusqlite::types::ValueRef;
use rusqlite::{Connection, ErrorCode, OpenFlags, Row};

use self::held::{Held, SharedHeld};
use crate::candidate::{needs_recovery, uri};
use crate::connect;
use crate::error::{Error, ErrorKind, Result};
use crate::input::as_json::{separated, write_text, write_value};
use crate::input::kind::{Kind, kind_of};
use crate::input::rows::{
    DecodeHalt, RowBatch, RowDecoder, RowReader, RowSource, SourceColumn, SourceType,
};
use crate::input::small::SmallFile;
use crate::input::source::not_opened;
use crate::load::at_rest::AtRest;
use crate::load::long_statements::end_if;
use crate::paths::companion_of;
use crate::profile::refuse_second_name;
use crate::refusal::{Refusal, refuse_odd_companions, refuse_unless_file};
use crate::schema::{is_plain_type, quote_identifier};
use crate::sqlite_error::{sqlite_says, wants_to_write};
use crate::sync::lock;
use crate::vfs::locks::FileHandle;
use crate::words::{counted, path_text};

/// Largest number of rows in a batch.
const BATCH_ROWS_MAX: usize = 16 << 10;
/// Bytes of text and blobs that end a batch; the row that exceeds them is in it.
const BATCH_BYTES: usize = 4 << 20;
/// Largest number of batches that wait to be claimed.
const BATCHES_AHEAD: usize = 2;

/// Splits `other.db::table`; without a table if a file has the whole name.
///
/// Path and table may contain `::`: the path is the shortest one that leads to a file, or the
/// longest if
/// none does. The table behind it is UTF-8, as all names of tables are.
pub fn split_table(input: &Path) -> Option<(PathBuf, String)> {
    if input.exists() {
        return None;
    }
    let bytes = input.as_os_str().as_encoded_bytes();
    let splits = bytes.windows(2).enumerate().filter(|(_, pair)| *pair == b"::");
    let mut last = None;
    for (at, _) in splits {
        let Some((path, table)) = split_at(input, at) else { continue };
        if path.is_file() {
            return Some((path, table));
        }
        last = Some((path, table));
    }
    last
}

/// Parts before and behind a `::`, if neither is empty.
fn split_at(input: &Path, at: usize) -> Option<(PathBuf, String)> {
    #[cfg(unix)]
    let (path, table) = {
        use std::os::unix::ffi::OsStrExt as _;
        let bytes = input.as_os_str().as_bytes();
        let path = PathBuf::from(std::ffi::OsStr::from_bytes(&bytes[..at]));
        (path, std::str::from_utf8(&bytes[at + 2..]).ok()?)
    };
    #[cfg(not(unix))]
    let (path, table) = {
        let text = input.to_str()?;
        (PathBuf::from(&text[..at]), &text[at + 2..])
    };
    (at > 0 && !table.is_empty()).then(|| (path, table.to_owned()))
}

/// Path of a database, and the name of a table in it if one is given.
pub type InputTable = (PathBuf, Option<String>);

/// Files and tables of the inputs, if these are tables of databases; `None` if none is. What is kept
/// of the inputs is not read again.
pub fn tables_of_inputs<P: AsRef<Path>>(
    inputs: &[P],
    kept: &[Option<SmallFile>],
) -> Option<Result<Vec<InputTable>>> {
    let tables = inputs.iter().zip(kept).map(|(input, kept)| {
        let input = input.as_ref();
        match kept {
            Some(kept) => kept.is_database().then(|| (input.to_owned(), None)),
            None => match split_table(input) {
                Some((path, table)) => Some((path, Some(table))),
                None => is_database(input).then(|| (input.to_owned(), None)),
            },
        }
    });
    let tables: Vec<_> = tables.collect();
    let count = tables.iter().flatten().count();
    match count {
        0 => None,
        _ if count == tables.len() => Some(Ok(tables.into_iter().flatten().collect())),
        _ => Some(Err(Error::misuse("some inputs are databases and others are not")
            .to_do("load those of each kind by themselves, the later ones with ⟦append⟧"))),
    }
}

/// Returns true if a regular file begins as databases do.
fn is_database(path: &Path) -> bool {
    use std::io::Read as _;
    let mut first = [0; 16];
    path.is_file()
        && FileHandle::open(path).and_then(|mut file| file.read_exact(&mut first)).is_ok()
        && kind_of(&first) == Some(Kind::Sqlite)
}

/// A table or view of an SQLite database.
pub struct SqliteSource {
    path: PathBuf,
    name: String,
    /// Name of its table, as the caller wrote it.
    table: String,
    columns: Vec<SourceColumn>,
    asks: Option<Sender<Ask>>,
    running: Running,
    thread: Option<JoinHandle<()>>,
    spent: Spent,
    /// Set if the database is read as a file that does not change.
    at_rest: Option<AtRest>,
    /// Set while other programs may not write to the file.
    held: SharedHeld,
    busy_timeout: Duration,
    _log: OwnLog,
}

/// A running pass, as seen by its reader.
#[derive(Clone, Default)]
struct Running {
    /// Receiver of the batches, until the source takes it.
    batches: Arc<Mutex<Option<Receiver<rusqlite::Result<SqliteBatch>>>>>,
    is_over: Arc<AtomicBool>,
}

/// Request to the thread.
enum Ask {
    Rows(Pass),
    /// Ends the transaction, and confirms it.
    End(Sender<()>),
}

/// Sends all rows, from the first.
struct Pass {
    batches: SyncSender<rusqlite::Result<SqliteBatch>>,
    /// True if the reader is gone.
    is_over: Arc<AtomicBool>,
}

/// Batches whose memory is to be reused.
type Spent = Arc<Mutex<Vec<SqliteBatch>>>;

impl SqliteSource {
    /// A table or view of the database at `path`; without a name, its only table. Waits up to
    /// `busy_timeout` for a program that holds the database.
    ///
    /// # Errors
    /// If there is no such database or table, or more than one table and none is named, or SQLite
    /// cannot read it.
    pub fn new(
        path: impl Into<PathBuf>,
        table: Option<&str>,
        busy_timeout: Duration,
    ) -> Result<Self> {
        let path = path.into();
        let metadata = std::fs::metadata(&path).map_err(|error| not_opened(&path, error))?;
        let file = path_text(&path);
        refuse_unless_file(&path, &metadata)?;
        refuse_second_name(&path)?;
        refuse_odd_companions(&path)?;
        let absolute = std::path::absolute(&path).map_err(|e| Error::io("open", &path, e))?;
        let log = OwnLog::of_reading(&absolute);
        let failed = |name: &str, error| unreadable(&path, name, busy_timeout, error);
        let opened = open(&absolute, busy_timeout).map_err(|error| failed(&file, error))?;
        let (mut connection, at_rest) = opened;
        let held = SharedHeld::default();
        *lock(&held) = Held::now(&connection, &absolute);
        let tables = tables_of(&connection).map_err(|error| failed(&file, error))?;
        let wanted = table;
        let table = chosen(&file, &tables, wanted)?;
        let name = format!("{file}::{}", table.name);
        let found = columns_of(&connection, table).map_err(|error| failed(&name, error))?;
        if found.is_empty() {
            let reason = "has no columns that can be read".to_owned();
            return Err(ErrorKind::Input { file: name, reason }.into());
        }
        let sql = select(table, &found);
        let table = wanted.unwrap_or(&table.name).to_owned();
        let names: Arc<[String]> = found.iter().map(|column| column.name.name.clone()).collect();
        let spent = Spent::default();
        let (asks, asked) = channel();
        let worker = Worker {
            path: absolute,
            names: Arc::clone(&names),
            sql,
            spent: Arc::clone(&spent),
            held: Arc::clone(&held),
        };
        let thread = std::thread::Builder::new()
            .name("leafpress-source".to_owned())
            .spawn(move || worker.serve(&mut connection, &asked))
            .map_err(|error| Error::no_thread("to read a database", error))?;
        let (asks, thread, running) = (Some(asks), Some(thread), Running::default());
        let made = Self {
            path,
            name,
            table,
            columns: found,
            asks,
            running,
            thread,
            spent,
            at_rest,
            held,
            busy_timeout,
            _log: log,
        };
        Ok(made)
    }

    /// Ends the read transaction, which the next pass begins anew.
    fn end_transaction(&mut self) {
        self.end_pass();
        let (ended, is_ended) = channel();
        let asked = self.asks.as_ref().is_some_and(|it| it.send(Ask::End(ended)).is_ok());
        if asked {
            // Without an answer the thread has ended; in both cases it holds no transaction.
            let _ = is_ended.recv();
        }
    }

    /// Ends a running pass: its reader gets no more rows.
    fn end_pass(&mut self) {
        let running = std::mem::take(&mut self.running);
        // The thread stops now, in a computation as well as in a wait.
        running.is_over.store(true, Ordering::Relaxed);
        *lock(&running.batches) = None;
    }
}

impl Drop for SqliteSource {
    /// Ends the thread, and with it the transaction.
    fn drop(&mut self) {
        self.asks = None;
        self.end_pass();
        if let Some(thread) = self.thread.take() {
            // A panic of the thread was reported as an error of the pass.
            let _ = thread.join();
        }
    }
}

/// The log that a reading makes, which goes when this is dropped; `None` if there was one before.
struct OwnLog(Option<PathBuf>);

impl OwnLog {
    /// To be made before the database is opened.
    fn of_reading(database: &Path) -> Self {
        let is_there = companion_of(database, "-wal").exists();
        Self((!is_there).then(|| database.to_owned()))
    }
}

impl Drop for OwnLog {
    fn drop(&mut self) {
        if let Some(database) = &self.0 {
            remove_empty_log(database);
        }
    }
}

/// Lets SQLite remove the empty log and its `-shm`, which a connection that may only read leaves
/// behind: the last connection that may write takes them away, without a write. What cannot be
/// opened so keeps them, as do databases that others have open.
fn remove_empty_log(path: &Path) {
    let is_empty = companion_of(path, "-wal").metadata().is_ok_and(|log| log.len() == 0);
    let flags = connect::READ_WRITE | OpenFlags::SQLITE_OPEN_URI;
    if is_empty && let Ok(connection) = connect::open(uri(path, "mode=rw"), flags) {
        let _ = connect::begin_read(&connection);
    }
}

/// Opens the database and begins the transaction of all reading. SQLite cannot open a database in WAL
/// mode whose folder it may not write to, and leaves files in the way of others if this user may write to
/// the folder only. If it has no log, it is read as a file that does not change, and returned with what
/// tells whether that was so.
fn open(path: &Path, busy_timeout: Duration) -> rusqlite::Result<(Connection, Option<AtRest>)> {
    if let Some(at_rest) = AtRest::for_reader(path) {
        return Ok((open_as(path, "mode=ro&immutable=1", busy_timeout)?, Some(at_rest)));
    }
    match open_as(path, "mode=ro", busy_timeout) {
        Err(error) if error.sqlite_error_code() == Some(ErrorCode::CannotOpen) => {
            let at_rest = AtRest::of(path).ok_or(error)?;
            Ok((open_as(path, "mode=ro&immutable=1", busy_timeout)?, Some(at_rest)))
        }
        opened => Ok((opened?, None)),
    }
}

fn open_as(path: &Path, parameters: &str, busy_timeout: Duration) -> rusqlite::Result<Connection> {
    let flags = connect::READ_ONLY | OpenFlags::SQLITE_OPEN_URI;
    let connection = connect::open(uri(path, parameters), flags)?;
    connection.busy_timeout(busy_timeout)?;
    // The database may come from another author: its views and generated columns must call only
    // functions that do nothing but compute.
    connection.execute_batch("PRAGMA trusted_schema=OFF; PRAGMA query_only=ON")?;
    begin(&connection)?;
    Ok(connection)
}

fn begin(connection: &Connection) -> rusqlite::Result<()> {
    connection.execute_batch("BEGIN")?;
    connect::begin_read(connection)
}

/// A table in SQLite's list of tables.
struct Table {
    name: String,
    kind: String,
    is_strict: bool,
}

impl Table {
    fn is_view(&self) -> bool {
        self.kind == "view"
    }

    /// Returns true for tables that a user made to hold rows.
    fn holds_rows(&self) -> bool {
        let is_table = self.kind == "table" || self.kind == "virtual";
        is_table && !self.is_internal()
    }

    fn is_internal(&self) -> bool {
        self.name.get(..7).is_some_and(|start| start.eq_ignore_ascii_case("sqlite_"))
    }
}

fn tables_of(connection: &Connection) -> rusqlite::Result<Vec<Table>> {
    let sql =
        "SELECT name, type, strict FROM pragma_table_list WHERE schema = 'main' ORDER BY name";
    let mut statement = connection.prepare(sql)?;
    let table =
        |row: &Row<'_>| Ok(Table { name: row.get(0)?, kind: row.get(1)?, is_strict: row.get(2)? });
    statement.query_map([], table)?.collect()
}

fn chosen<'t>(file: &str, tables: &'t [Table], wanted: Option<&str>) -> Result<&'t Table> {
    let advised = |error: Error| {
        let shown = tables.iter().filter(|table| table.holds_rows() || table.is_view());
        let name = |table: &Table| {
            let view = if table.is_view() { " (a view)" } else { "" };
            format!("{}{view}", table.name)
        };
        let shown: Vec<String> = shown.map(name).collect();
        if shown.is_empty() {
            return error;
        }
        error.to_do(format!("name one as {file}::TABLE; there are: {}", shown.join(", ")))
    };
    let refusal = |reason| advised(Error::from(ErrorKind::Input { file: file.to_owned(), reason }));
    if let Some(wanted) = wanted {
        let found = tables.iter().find(|table| table.name.eq_ignore_ascii_case(wanted));
        return found.ok_or_else(|| {
            let reason = format!("{file}: has no table \"{wanted}\"");
            advised(Error::not_found("table", wanted, reason))
        });
    }
    let mut with_rows = tables.iter().filter(|table| table.holds_rows());
    match (with_rows.next(), with_rows.count()) {
        (Some(only), 0) => Ok(only),
        (Some(_), others) => {
            let tables = counted(others as u64 + 1, "table", "tables");
            Err(refusal(format!("has {tables}, and only one can be loaded")))
        }
        (None, _) => Err(refusal("has no tables".to_owned())),
    }
}

fn columns_of(connection: &Connection, table: &Table) -> rusqlite::Result<Vec<SourceColumn>> {
    // Hidden 1: hidden columns of virtual tables; 2 and 3: generated columns.
    let sql =
        "SELECT name, type, hidden FROM pragma_table_xinfo(?1) WHERE hidden <> 1 ORDER BY cid";
    let mut statement = connection.prepare(sql)?;
    let column = |row: &Row<'_>| {
        let mut declared: String = row.get(1)?;
        // ANY keeps all values in a STRICT table, but is NUMERIC in others.
        if (table.is_strict || table.is_view()) && declared.eq_ignore_ascii_case("ANY") {
            declared.clear();
        }
        // SQLite does not check the values of generated columns.
        let is_checked = table.is_strict && row.get::<_, i64>(2)? == 0;
        let promised = if is_checked { promised_type(&declared) } else { None };
        let is_kept = is_plain_type(&declared) && !(table.is_view() && declared.is_empty());
        let declared_sql = is_kept.then_some(declared);
        let name = row.get::<_, String>(0)?.into();
        Ok(SourceColumn { name, declared: promised, declared_sql })
    };
    statement.query_map([&table.name], column)?.collect()
}

/// The type that a STRICT table gives all values of a column; `None` for ANY.
fn promised_type(declared: &str) -> Option<SourceType> {
    match declared.to_ascii_uppercase().as_str() {
        "INT" | "INTEGER" => Some(SourceType::Integer),
        "REAL" => Some(SourceType::Real),
        "TEXT" => Some(SourceType::Text),
        "BLOB" => Some(SourceType::Blob),
        _ => None,
    }
}

/// Query for the rows in the table's own order. Without it SQLite could read an index with all
/// columns, which is shorter, in another order.
fn select(table: &Table, columns: &[SourceColumn]) -> String {
    let names: Vec<String> =
        columns.iter().map(|column| quote_identifier(&column.name.name)).collect();
    let by_table = if table.kind == "table" { " NOT INDEXED" } else { "" };
    format!("SELECT {} FROM main.{}{by_table}", names.join(", "), quote_identifier(&table.name))
}

fn unreadable(path: &Path, file: &str, waited: Duration, error: rusqlite::Error) -> Error {
    let input = |reason: String| Error::from(ErrorKind::Input { file: file.to_owned(), reason });
    if error.sqlite_error_code() == Some(ErrorCode::DatabaseCorrupt) {
        return Error::damaged(Some(path), &sqlite_says(&error)).caused_by(error);
    }
    if wants_to_write(&error) {
        return needs_recovery(path).caused_by(error);
    }
    let refusal = Refusal { named: path, file: Some(path), waited };
    match refusal.known(&error) {
        Some(known) => known.caused_by(error),
        None => input(format!("cannot be read by SQLite: {error}")),
    }
}

/// State of the thread.
struct Worker {
    path: PathBuf,
    names: Arc<[String]>,
    sql: String,
    spent: Spent,
    held: SharedHeld,
}

impl Worker {
    /// Runs one pass after the other until the source is dropped.
    fn serve(&self, connection: &mut Connection, asked: &Receiver<Ask>) {
        while let Ok(ask) = asked.recv() {
            match ask {
                Ask::Rows(pass) => {
                    if let Err(error) = self.read(connection, &pass) {
                        // The source may have been dropped.
                        let _ = pass.batches.send(Err(error));
                    }
                }
                Ask::End(ended) => {
                    if !connection.is_autocommit() {
                        let _ = connection.execute_batch("ROLLBACK");
                    }
                    let _ = ended.send(());
                }
            }
        }
    }

    /// Sends all rows, or stops when the reader is gone.
    fn read(&self, connection: &mut Connection, pass: &Pass) -> rusqlite::Result<()> {
        let is_over = Arc::clone(&pass.is_over);
        end_if(connection, move || is_over.load(Ordering::Relaxed))?;
        if connection.is_autocommit() {
            begin(connection)?;
            *lock(&self.held) = Held::now(connection, &self.path);
        }
        let mut statement = connection.prepare(&self.sql)?;
        let mut rows = statement.query([])?;
        let mut first_line = 1;
        loop {
            let mut batch = lock(&self.spent).pop().unwrap_or_default();
            batch.begin(&self.names, first_line);
            let mut is_end = false;
            while batch.rows() < BATCH_ROWS_MAX && batch.content.len() < BATCH_BYTES {
                let Some(row) = rows.next()? else {
                    is_end = true;
                    break;
                };
                batch.push(row)?;
            }
            first_line += batch.rows() as u64;
            if is_end {
                // The last batch, even if empty, shows that no row is missing.
                batch.is_last = true;
                let _ = pass.batches.send(Ok(batch));
                return Ok(());
            }
            if pass.batches.send(Ok(batch)).is_err() {
                return Ok(());
            }
        }
    }
}

impl RowSource for SqliteSource {
    type Reader = SqliteReader;
    type Decoder = SqliteDecoder;

    const READS_DATABASE: bool = true;

    fn release(&mut self) {
        self.end_transaction();
    }

    fn name(&self) -> &str {
        &self.name
    }

    fn table(&self) -> Option<&str> {
        Some(&self.table)
    }

    fn columns(&self) -> &[SourceColumn] {
        &self.columns
    }

    fn check_unchanged(&self) -> Result<()> {
        let changed = || Error::changed(format!("{}: was written to while it was read", self.name));
        if lock(&self.held).as_ref().is_some_and(|held| !held.is_unchanged(&self.path)) {
            return Err(changed().to_do(
                "load it again once nothing writes to it any more; programs that write to a database \
                 other than through SQLite do not see its locks",
            ));
        }
        let Some(at_rest) = &self.at_rest else { return Ok(()) };
        if AtRest::of(&self.path).as_ref() == Some(at_rest) {
            return Ok(());
        }
        Err(changed().to_do(
            "load it again once nothing writes to it any more, or as a user who may write to its folder",
        ))
    }

    fn open(&mut self, bytes_read: &Arc<AtomicU64>) -> Result<(SqliteReader, SqliteDecoder)> {
        bytes_read.store(0, Ordering::Relaxed);
        self.end_pass();
        let (sender, batches) = sync_channel(BATCHES_AHEAD);
        *lock(&self.running.batches) = Some(batches);
        let pass = Pass { batches: sender, is_over: Arc::clone(&self.running.is_over) };
        let asked = self.asks.as_ref().is_some_and(|it| it.send(Ask::Rows(pass)).is_ok());
        if !asked {
            return Err(broken_off(&self.name));
        }
        let reader = SqliteReader {
            path: self.path.clone(),
            name: self.name.clone(),
            running: self.running.clone(),
            bytes_read: Arc::clone(bytes_read),
            spent: Arc::clone(&self.spent),
            is_done: false,
            busy_timeout: self.busy_timeout,
        };
        Ok((reader, SqliteDecoder))
    }

    /// Does nothing: all columns are known from the table.
    fn discover_columns(&mut self, _bytes_read: &Arc<AtomicU64>) -> Result<()> {
        Ok(())
    }
}

fn broken_off(name: &str) -> Error {
    Error::bug(format!("{name} is not read any more: another pass has begun, or its thread ended"))
}

/// Receiver of the batches that the thread sends.
pub struct SqliteReader {
    path: PathBuf,
    name: String,
    running: Running,
    bytes_read: Arc<AtomicU64>,
    spent: Spent,
    is_done: bool,
    busy_timeout: Duration,
}

impl RowReader for SqliteReader {
    type Raw = SqliteBatch;

    fn claim(&mut self, raw: &mut SqliteBatch) -> Result<bool> {
        if self.is_done {
            return Ok(false);
        }
        let received = lock(&self.running.batches).as_ref().and_then(|batches| batches.recv().ok());
        let received = received.ok_or_else(|| broken_off(&self.name))?;
        let batch = received
            .map_err(|error| unreadable(&self.path, &self.name, self.busy_timeout, error))?;
        self.is_done = batch.is_last;
        let bytes = batch.content.len() + size_of_val(batch.cells.as_slice());
        self.bytes_read.fetch_add(bytes as u64, Ordering::Relaxed);
        let is_there = batch.rows() > 0;
        let before = std::mem::replace(raw, batch);
        let mut spent = lock(&self.spent);
        if spent.len() < BATCHES_AHEAD {
            spent.push(before);
        }
        Ok(is_there)
    }

    /// Unknown: the table is only a part of the file.
    fn bytes_total(&self) -> Option<u64> {
        None
    }
}

/// Decoder without work: batches are ready.
pub struct SqliteDecoder;

impl RowDecoder for SqliteDecoder {
    type Raw = SqliteBatch;
    type Batch = SqliteBatch;

    fn decode(&self, raw: &mut SqliteBatch, batch: &mut SqliteBatch) -> Result<(), DecodeHalt> {
        std::mem::swap(raw, batch);
        Ok(())
    }
}

/// Some rows of a table.
#[derive(Debug, Default)]
pub struct SqliteBatch {
    names: Arc<[String]>,
    /// Cells of all rows, row by row.
    cells: Vec<Cell>,
    /// The bytes of all text and blobs, in the order of the cells.
    content: Vec<u8>,
    /// End of each row's content.
    content_ends: Vec<usize>,
    first_line: u64,
    is_last: bool,
}

/// A value, with the place of its bytes if it has any.
#[derive(Debug, Clone, Copy)]
enum Cell {
    Null,
    Integer(i64),
    Real(f64),
    Text { start: usize, length: u32 },
    Blob { start: usize, length: u32 },
}

impl SqliteBatch {
    fn begin(&mut self, names: &Arc<[String]>, first_line: u64) {
        self.names = Arc::clone(names);
        self.cells.clear();
        self.content.clear();
        self.content_ends.clear();
        self.first_line = first_line;
        self.is_last = false;
    }

    fn push(&mut self, row: &Row<'_>) -> rusqlite::Result<()> {
        for column in 0..self.names.len() {
            let cell = match row.get_ref(column)? {
                ValueRef::Null => Cell::Null,
                ValueRef::Integer(integer) => Cell::Integer(integer),
                ValueRef::Real(real) => Cell::Real(real),
                ValueRef::Text(text) => {
                    let (start, length) = self.keep(text);
                    Cell::Text { start, length }
                }
                ValueRef::Blob(blob) => {
                    let (start, length) = self.keep(blob);
                    Cell::Blob { start, length }
                }
            };
            self.cells.push(cell);
        }
        self.content_ends.push(self.content.len());
        Ok(())
    }

    /// The length fits: SQLite's values are shorter than 2³¹ bytes.
    fn keep(&mut self, bytes: &[u8]) -> (usize, u32) {
        let start = self.content.len();
        self.content.extend_from_slice(bytes);
        (start, bytes.len() as u32)
    }
}

impl RowBatch for SqliteBatch {
    fn rows(&self) -> usize {
        self.content_ends.len()
    }

    #[inline]
    fn value(&self, row: usize, column: usize) -> Value<'_> {
        let bytes = |start: usize, length: u32| &self.content[start..start + length as usize];
        match self.cells[row * self.names.len() + column] {
            Cell::Null => Value::Null,
            Cell::Integer(integer) => Value::Integer(integer),
            Cell::Real(real) => Value::Real(real),
            Cell::Text { start, length } => Value::Text(bytes(start, length)),
            Cell::Blob { start, length } => Value::Blob(bytes(start, length)),
        }
    }

    fn content_bytes(&self, row: usize) -> usize {
        let start = if row == 0 { 0 } else { self.content_ends[row - 1] };
        self.content_ends[row] - start
    }

    fn line(&self, row: usize) -> u64 {
        self.first_line + row as u64
    }

    /// The row as a JSON object: a table has no lines that could be shown.
    fn original(&self, row: usize) -> Vec<u8> {
        let mut out = Vec::new();
        separated(b'{', b'}', self.names.iter().enumerate(), &mut out, |(column, name), out| {
            write_text(name.as_bytes(), out);
            out.push(b':');
            write_value(self.value(row, column), out);
        });
        out
    }
}

#[cfg(test)]
mod tests;
