//! Rows of values without declared types, which a program gives in batches.
//!
//! ```text
//! ValueRows::fill ─► packed rows ─┬► decode (any thread) ─► values by row and column
//!                                 └► temporary file ─► packed rows, for the next pass
//! ```
//!
//! The caller's rows are read once, in order, by one thread at a time. The packed rows are also
//! written to a temporary file without a name, as types and keys may need another pass.
//!
//! A packed row is a list of values and the mark of its end, or a bad row:
//!
//! ```text
//! NULL                      null
//! INTEGER, REAL   8 bytes   the number, or the bits of the double
//! TEXT, BLOB      length    8 bytes, then the content
//! END                       end of a good row; columns that have no value are NULL
//! BAD             2 texts   the reason, and the row as a person would look it up
//! ```
//!
//! Must never: read a row of the caller twice.

use std::error::Error as StdError;
use std::fs::File;
use std::io::{self, BufReader, Read, Seek, SeekFrom, Write};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use leafpress_format::Value;

use super::as_json::{excerpt, separated, write_text, write_value};
use super::csv::header::Header;
use super::rows::{
    BadInputRow, DecodeHalt, RowBatch, RowDecoder, RowReader, RowSource, SourceColumn,
};
use super::source::no_copy;
use crate::error::{BadRow, Error, Result};
use crate::rights;
use crate::sync::lock;

const NULL: u8 = 0;
const INTEGER: u8 = 1;
const REAL: u8 = 2;
const TEXT: u8 = 3;
const BLOB: u8 = 4;
const END: u8 = 5;
const BAD: u8 = 6;

/// Bytes before the packed rows of a batch in the temporary file: the length, the first row's
/// number, and the number of columns.
const BATCH_HEAD_BYTES: usize = 24;

/// Rows of values that a program makes, for
/// [`Loader::load_values`](crate::load::Loader::load_values).
pub trait ValueRows: Send {
    /// Names of the columns that are known so far. Later calls may return more of them, behind
    /// these. A row with more values than the columns that are known after its
    /// [`fill`](Self::fill) is a bad row, as is one with a text that is not UTF-8.
    fn columns(&self) -> Vec<String>;

    /// Adds some rows to an empty batch, about a thousand or a megabyte; adds none at the end.
    /// Each row must be ended by [`ValueBatch::end_row`] or [`ValueBatch::bad_row`].
    ///
    /// # Errors
    ///
    /// The caller's own error, which ends the load.
    fn fill(&mut self, batch: &mut ValueBatch) -> Result<(), Box<dyn StdError + Send + Sync>>;
}

/// Rows for [`ValueRows::fill`]: the values of a row are put in the order of the columns, then the
/// row is ended.
#[derive(Debug, Default)]
pub struct ValueBatch {
    bytes: Vec<u8>,
    /// Length of the rows that are whole.
    whole_bytes: usize,
    rows: usize,
}

impl ValueBatch {
    /// Adds the value of the row's next column.
    pub fn put(&mut self, value: Value<'_>) {
        match value {
            Value::Null => self.bytes.push(NULL),
            Value::Integer(integer) => self.put_number(INTEGER, integer.to_le_bytes()),
            Value::Real(real) => self.put_number(REAL, real.to_bits().to_le_bytes()),
            Value::Text(text) => self.put_bytes(TEXT, text),
            Value::Blob(blob) => self.put_bytes(BLOB, blob),
        }
    }

    /// Ends the row. Columns for which no value was put are NULL.
    pub fn end_row(&mut self) {
        self.bytes.push(END);
        self.row_is_whole();
    }

    /// Makes the row a bad one, in place of the values that were put. `original` is the row as a
    /// person would look it up.
    pub fn bad_row(&mut self, reason: &str, original: &str) {
        self.bytes.truncate(self.whole_bytes);
        self.put_bytes(BAD, reason.as_bytes());
        self.put_bytes(TEXT, original.as_bytes());
        self.row_is_whole();
    }

    /// Number of rows that were ended.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Approximate size of the rows in bytes.
    pub fn bytes(&self) -> usize {
        self.bytes.len()
    }

    fn clear(&mut self) {
        *self = Self { bytes: std::mem::take(&mut self.bytes), ..Self::default() };
        self.bytes.clear();
    }

    fn put_number(&mut self, tag: u8, number: [u8; 8]) {
        self.bytes.push(tag);
        self.bytes.extend_from_slice(&number);
    }

    fn put_bytes(&mut self, tag: u8, bytes: &[u8]) {
        self.put_number(tag, (bytes.len() as u64).to_le_bytes());
        self.bytes.extend_from_slice(bytes);
    }

    fn row_is_whole(&mut self) {
        self.whole_bytes = self.bytes.len();
        self.rows += 1;
    }
}

/// An input of rows of values.
pub struct ValuesSource<'a> {
    name: String,
    columns: Vec<SourceColumn>,
    notes: Vec<String>,
    /// The caller's rows, with the batch that was read to see its columns, until they are read.
    rows: Option<(Box<dyn ValueRows + 'a>, ValuesPiece)>,
    shared: Arc<Shared>,
    folder: PathBuf,
}

/// State that the source has in common with the reader of the caller's rows.
#[derive(Default)]
struct Shared {
    /// Names of the columns that are known.
    names: Mutex<Vec<String>>,
    /// True if all rows are in the copy.
    is_whole: AtomicBool,
    copy: Mutex<Option<File>>,
}

impl<'a> ValuesSource<'a> {
    /// Reads the first rows. `folder` is for the temporary file.
    ///
    /// # Errors
    /// The caller's error about its rows.
    pub fn new(name: &str, mut rows: Box<dyn ValueRows + 'a>, folder: PathBuf) -> Result<Self> {
        let mut first = ValuesPiece { first_line: 1, ..ValuesPiece::default() };
        fill(&mut *rows, &mut first.batch)?;
        let shared = Arc::<Shared>::default();
        let names = rows.columns();
        first.columns = names.len();
        *lock(&shared.names) = names;
        let mut source = Self {
            name: name.to_owned(),
            columns: Vec::new(),
            notes: Vec::new(),
            rows: Some((rows, first)),
            shared,
            folder,
        };
        source.take_columns();
        Ok(source)
    }

    fn take_columns(&mut self) {
        let header = Header::from_names(lock(&self.shared.names).clone());
        let column = |name| SourceColumn { name, declared: None, declared_sql: None };
        self.columns = header.names.into_iter().map(column).collect();
        self.notes = header.notes;
    }

    fn open_copy(&self) -> Result<ValuesReader<'a>> {
        let again = || Error::changed("the rows cannot be read a second time");
        if !self.shared.is_whole.load(Ordering::Acquire) {
            return Err(again());
        }
        let failed = |error| Error::io("read a temporary file in", &self.folder, error);
        let copy = lock(&self.shared.copy).as_ref().ok_or_else(again)?.try_clone();
        let mut copy = copy.map_err(failed)?;
        let bytes = copy.seek(SeekFrom::End(0)).map_err(failed)?;
        copy.seek(SeekFrom::Start(0)).map_err(failed)?;
        let rows = Rows::Copied { copy: BufReader::new(copy), bytes };
        Ok(ValuesReader { rows, bytes_read: Arc::default(), folder: self.folder.clone() })
    }
}

/// Fills an empty batch with the next rows.
fn fill(rows: &mut dyn ValueRows, batch: &mut ValueBatch) -> Result<()> {
    rows.fill(batch).map_err(fault)?;
    if batch.bytes.len() > batch.whole_bytes {
        return Err(Error::misuse("ValueRows::fill left a row without end_row")
            .to_do("call ValueBatch::end_row after the last value of each row"));
    }
    Ok(())
}

/// The error of rows that their program cannot give.
fn fault(error: Box<dyn StdError + Send + Sync>) -> Error {
    Error::aborted(error).to_do("correct the source of the rows")
}

impl<'a> RowSource for ValuesSource<'a> {
    type Reader = ValuesReader<'a>;
    type Decoder = ValuesDecoder;

    fn name(&self) -> &str {
        &self.name
    }

    fn columns(&self) -> &[SourceColumn] {
        &self.columns
    }

    fn notes(&self) -> Vec<String> {
        self.notes.clone()
    }

    fn is_stream(&self) -> bool {
        true
    }

    fn open(&mut self, bytes_read: &Arc<AtomicU64>) -> Result<(ValuesReader<'a>, ValuesDecoder)> {
        bytes_read.store(0, Ordering::Relaxed);
        let names = self.columns.iter().map(|column| column.name.name.clone()).collect();
        let decoder = ValuesDecoder { file: self.name.clone(), names };
        let mut reader = match self.rows.take() {
            Some((rows, first)) => {
                let failed = |error| no_copy(&self.folder, error);
                let copy = rights::unnamed_file(&self.folder).map_err(failed)?;
                *lock(&self.shared.copy) = Some(copy.try_clone().map_err(failed)?);
                let next_line = first.first_line + first.batch.rows as u64;
                let (first, shared) = (Some(first), Arc::clone(&self.shared));
                let caller = Caller { rows, copy, next_line, first, is_over: false, shared };
                let (rows, folder) = (Rows::Caller(Box::new(caller)), self.folder.clone());
                ValuesReader { rows, bytes_read: Arc::default(), folder }
            }
            None => self.open_copy()?,
        };
        reader.bytes_read = Arc::clone(bytes_read);
        Ok((reader, decoder))
    }

    /// Once all rows have been read, all columns are known.
    fn discover_columns(&mut self, bytes_read: &Arc<AtomicU64>) -> Result<()> {
        if self.rows.is_some() {
            let (mut reader, _) = self.open(bytes_read)?;
            let mut piece = ValuesPiece::default();
            while reader.claim(&mut piece)? {}
        }
        self.take_columns();
        Ok(())
    }
}

/// Claims batches of the caller's rows, or of their copy.
pub struct ValuesReader<'a> {
    rows: Rows<'a>,
    bytes_read: Arc<AtomicU64>,
    /// The folder of the copy.
    folder: PathBuf,
}

enum Rows<'a> {
    Caller(Box<Caller<'a>>),
    Copied { copy: BufReader<File>, bytes: u64 },
}

/// The caller's rows, and where they are copied to.
struct Caller<'a> {
    rows: Box<dyn ValueRows + 'a>,
    copy: File,
    next_line: u64,
    /// The first batch, until it is claimed.
    first: Option<ValuesPiece>,
    /// True if the rows have ended.
    is_over: bool,
    shared: Arc<Shared>,
}

/// Packed rows, and the number of the first one.
#[derive(Debug, Default)]
pub struct ValuesPiece {
    batch: ValueBatch,
    first_line: u64,
    /// Number of columns that were known when the batch was filled.
    columns: usize,
}

impl Caller<'_> {
    fn claim(&mut self, piece: &mut ValuesPiece) -> Result<()> {
        if let Some(first) = self.first.take() {
            *piece = first;
            self.is_over = piece.batch.rows == 0;
        }
        if piece.batch.rows > 0 || self.is_over {
            return Ok(());
        }
        fill(&mut *self.rows, &mut piece.batch)?;
        self.is_over = piece.batch.rows == 0;
        piece.first_line = self.next_line;
        self.next_line += piece.batch.rows as u64;
        let mut names = lock(&self.shared.names);
        let now = self.rows.columns();
        if now.len() > names.len() {
            *names = now;
        }
        piece.columns = names.len();
        Ok(())
    }

    fn copy(&mut self, piece: &ValuesPiece) -> io::Result<()> {
        let bytes = &piece.batch.bytes[..piece.batch.whole_bytes];
        self.copy.write_all(&(bytes.len() as u64).to_le_bytes())?;
        self.copy.write_all(&piece.first_line.to_le_bytes())?;
        self.copy.write_all(&(piece.columns as u64).to_le_bytes())?;
        self.copy.write_all(bytes)
    }
}

/// Reads the next batch of a copy; false at its end.
fn read_copy(copy: &mut impl Read, piece: &mut ValuesPiece) -> io::Result<bool> {
    let mut head = [0; BATCH_HEAD_BYTES];
    match copy.read_exact(&mut head) {
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(false),
        read => read?,
    }
    let [bytes, first_line, columns] = [0, 8, 16].map(|at| number_at(&head, at));
    (piece.first_line, piece.columns) = (first_line, columns as usize);
    piece.batch.bytes.resize(bytes as usize, 0);
    copy.read_exact(&mut piece.batch.bytes)?;
    piece.batch.whole_bytes = piece.batch.bytes.len();
    Ok(true)
}

impl RowReader for ValuesReader<'_> {
    type Raw = ValuesPiece;

    fn claim(&mut self, piece: &mut ValuesPiece) -> Result<bool> {
        piece.batch.clear();
        match &mut self.rows {
            Rows::Caller(caller) => {
                caller.claim(piece)?;
                if piece.batch.rows == 0 {
                    caller.shared.is_whole.store(true, Ordering::Release);
                    return Ok(false);
                }
                caller.copy(piece).map_err(|error| no_copy(&self.folder, error))?;
            }
            Rows::Copied { copy, .. } => {
                let read = read_copy(copy, piece);
                let failed = |error| Error::io("read a temporary file in", &self.folder, error);
                if !read.map_err(failed)? {
                    return Ok(false);
                }
            }
        }
        let bytes = (BATCH_HEAD_BYTES + piece.batch.whole_bytes) as u64;
        self.bytes_read.fetch_add(bytes, Ordering::Relaxed);
        Ok(true)
    }

    fn bytes_total(&self) -> Option<u64> {
        match self.rows {
            Rows::Caller(_) => None,
            Rows::Copied { bytes, .. } => Some(bytes),
        }
    }
}

/// Takes packed rows apart.
pub struct ValuesDecoder {
    file: String,
    names: Arc<[String]>,
}

/// Rows of values.
#[derive(Debug, Default)]
pub struct ValuesBatch {
    names: Arc<[String]>,
    piece: ValuesPiece,
    cells: Vec<Cell>,
    rows: Vec<Row>,
    bad_rows: Vec<BadInputRow>,
}

/// A value; text and blobs by their places in the piece.
#[derive(Debug, Clone, Copy)]
enum Cell {
    Null,
    Integer(i64),
    Real(f64),
    Text(usize, usize),
    Blob(usize, usize),
}

#[derive(Debug, Clone, Copy)]
struct Row {
    first_cell: usize,
    cells_end: usize,
    content_bytes: usize,
    line: u64,
}

impl RowDecoder for ValuesDecoder {
    type Raw = ValuesPiece;
    type Batch = ValuesBatch;

    fn decode(&self, piece: &mut ValuesPiece, batch: &mut ValuesBatch) -> Result<(), DecodeHalt> {
        batch.begin(piece, &self.names);
        let mut line = batch.piece.first_line;
        let mut at = 0;
        while at < batch.piece.batch.whole_bytes {
            if !batch.take_row(&mut at, line, &self.file) {
                return Err(DecodeHalt::NewColumn);
            }
            line += 1;
        }
        Ok(())
    }
}

impl ValuesBatch {
    /// Takes a piece in place of the one before, and forgets its rows.
    fn begin(&mut self, piece: &mut ValuesPiece, names: &Arc<[String]>) {
        std::mem::swap(&mut self.piece, piece);
        self.names = Arc::clone(names);
        self.cells.clear();
        self.rows.clear();
        self.bad_rows.clear();
    }

    /// Takes the row at a place apart; false if it has a column that the decoder does not know.
    fn take_row(&mut self, at: &mut usize, line: u64, file: &str) -> bool {
        let first_cell = self.cells.len();
        let mut content_bytes = 0;
        let mut not_utf8 = None;
        loop {
            let bytes = &self.piece.batch.bytes;
            let tag = bytes[*at];
            *at += 1;
            let cell = match tag {
                END => break,
                BAD => {
                    let reason = text_at(bytes, at);
                    *at += 1;
                    let row = text_at(bytes, at);
                    let bad = BadRow { file: file.to_owned(), line, column: 1, reason, row };
                    self.add_bad_row(bad);
                    return true;
                }
                INTEGER => Cell::Integer(take_number(bytes, at) as i64),
                REAL => Cell::Real(f64::from_bits(take_number(bytes, at))),
                TEXT | BLOB => {
                    let (start, length) = take_content(bytes, at);
                    content_bytes += length;
                    if tag == BLOB {
                        Cell::Blob(start, length)
                    } else {
                        if !is_utf8(&bytes[start..start + length]) {
                            not_utf8.get_or_insert(self.cells.len() - first_cell);
                        }
                        Cell::Text(start, length)
                    }
                }
                _ => Cell::Null,
            };
            self.cells.push(cell);
        }
        let cells_end = self.cells.len();
        self.rows.push(Row { first_cell, cells_end, content_bytes, line });
        let (values, columns) = (cells_end - first_cell, self.piece.columns);
        if values > columns {
            let reason = format!("the row has {values} values, but there are {columns} columns");
            self.reject_last(file, reason);
            return true;
        }
        if values > self.names.len() {
            return false;
        }
        if let Some(column) = not_utf8 {
            let reason = self.not_utf8(column);
            self.reject_last(file, reason);
        }
        true
    }

    /// Fault of the last row for the text of a column.
    #[cold]
    fn not_utf8(&self, column: usize) -> String {
        let Value::Text(text) = self.value(self.rows.len() - 1, column) else {
            return String::new();
        };
        let end = std::str::from_utf8(text).map_or_else(|error| error.valid_up_to(), str::len);
        let byte = text.get(end).copied().unwrap_or_default();
        format!("column {:?}: invalid UTF-8: byte 0x{byte:02x}", self.names[column])
    }

    /// Makes the last row a bad one.
    #[cold]
    fn reject_last(&mut self, file: &str, reason: String) {
        let original = self.original(self.rows.len() - 1);
        let Some(Row { first_cell, line, .. }) = self.rows.pop() else { return };
        self.cells.truncate(first_cell);
        let row = String::from_utf8_lossy(&original).into_owned();
        self.add_bad_row(BadRow { file: file.to_owned(), line, column: 1, reason, row });
    }

    fn add_bad_row(&mut self, mut bad_row: BadRow) {
        let original = bad_row.row.clone().into_bytes();
        bad_row.row = excerpt(&original);
        let good_rows_before = self.rows.len();
        self.bad_rows.push(BadInputRow { good_rows_before, bad_row, original });
    }
}

/// Texts of this many bytes are looked at in place: most are ASCII.
const SHORT_TEXT_BYTES: usize = 32;

fn is_utf8(text: &[u8]) -> bool {
    (text.len() <= SHORT_TEXT_BYTES && text.is_ascii()) || simdutf8::basic::from_utf8(text).is_ok()
}

fn number_at(bytes: &[u8], at: usize) -> u64 {
    let mut number = [0; 8];
    number.copy_from_slice(&bytes[at..at + 8]);
    u64::from_le_bytes(number)
}

fn take_number(bytes: &[u8], at: &mut usize) -> u64 {
    *at += 8;
    number_at(bytes, *at - 8)
}

/// Place and length of the content at a place.
fn take_content(bytes: &[u8], at: &mut usize) -> (usize, usize) {
    let length = take_number(bytes, at) as usize;
    *at += length;
    (*at - length, length)
}

fn text_at(bytes: &[u8], at: &mut usize) -> String {
    let (start, length) = take_content(bytes, at);
    String::from_utf8_lossy(&bytes[start..start + length]).into_owned()
}

impl RowBatch for ValuesBatch {
    fn rows(&self) -> usize {
        self.rows.len()
    }

    #[inline]
    fn value(&self, row: usize, column: usize) -> Value<'_> {
        let Row { first_cell, cells_end, .. } = self.rows[row];
        let content = |start: usize, length: usize| &self.piece.batch.bytes[start..start + length];
        match self.cells[first_cell..cells_end].get(column) {
            None | Some(Cell::Null) => Value::Null,
            Some(Cell::Integer(integer)) => Value::Integer(*integer),
            Some(Cell::Real(real)) => Value::Real(*real),
            Some(Cell::Text(start, length)) => Value::Text(content(*start, *length)),
            Some(Cell::Blob(start, length)) => Value::Blob(content(*start, *length)),
        }
    }

    fn content_bytes(&self, row: usize) -> usize {
        self.rows[row].content_bytes
    }

    fn line(&self, row: usize) -> u64 {
        self.rows[row].line
    }

    /// The row as a JSON object, as the input has no lines to show.
    fn original(&self, row: usize) -> Vec<u8> {
        let mut out = Vec::new();
        let Row { first_cell, cells_end, .. } = self.rows[row];
        let columns = 0..self.names.len().max(cells_end - first_cell);
        separated(b'{', b'}', columns, &mut out, |column, out| {
            match self.names.get(column) {
                Some(name) => write_text(name.as_bytes(), out),
                None => write_text(format!("column{}", column + 1).as_bytes(), out),
            }
            out.push(b':');
            match self.value(row, column) {
                // A bad row may have one that is not UTF-8, and JSON is.
                Value::Text(text) => write_text(String::from_utf8_lossy(text).as_bytes(), out),
                value => write_value(value, out),
            }
        });
        out
    }

    fn bad_rows(&self) -> &[BadInputRow] {
        &self.bad_rows
    }
}
