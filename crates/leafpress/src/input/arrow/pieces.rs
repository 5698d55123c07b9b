//! Record batches of any size, in pieces of a handy size.
//!
//! Small batches are joined, as each piece costs the loader some work; large
//! ones are cut, so that several threads have something to do and none holds
//! too much. Batches of IPC are unpacked by the first thread that needs one.
//!
//! Must never: unpack anything while pieces are claimed.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arrow_array::{RecordBatch, RecordBatchReader};
use arrow_schema::{ArrowError, DataType, SchemaRef};
use arrow_select::concat::concat_batches;

use super::batch::ArrowBatch;
use super::copy::Copying;
use super::guard::guarded;
use super::ipc::{IpcFile, Stream, batch_name};
use super::message::Pending;
use super::types::has_any;
use crate::input::stored::damaged;
use crate::{Error, ErrorKind, Result};

/// Largest number of rows of a piece.
const PIECE_ROWS_MAX: usize = 128 << 10;
/// Least number of rows of a piece, however long the rows are.
const PIECE_ROWS_MIN: usize = 1 << 10;
/// Approximate size of a piece.
const PIECE_BYTES: u64 = 16 << 20;

/// Batches smaller than this in rows and in bytes are joined.
const JOINED_ROWS_MIN: usize = 16 << 10;
const JOINED_BYTES_MIN: usize = 1 << 20;

/// Number of rows of a piece, if `rows` rows of `bytes` bytes in all are cut into pieces of
/// about one size.
pub(super) fn rows_of_piece(rows: usize, bytes: u64) -> usize {
    let by_bytes = bytes / PIECE_BYTES + 1;
    let by_rows = (rows / PIECE_ROWS_MAX) as u64 + 1;
    let pieces = usize::try_from(by_bytes.max(by_rows)).unwrap_or(usize::MAX);
    rows.div_ceil(pieces).max(PIECE_ROWS_MIN)
}

/// A record batch, unpacked or not.
#[derive(Debug, Clone)]
pub(super) enum Part {
    Pending(Arc<Pending>),
    /// A record batch, and its number from 1.
    Ready(RecordBatch, u64),
}

impl Part {
    fn rows(&self) -> usize {
        match self {
            Self::Pending(pending) => pending.rows(),
            Self::Ready(batch, _) => batch.num_rows(),
        }
    }

    fn bytes(&self) -> usize {
        match self {
            Self::Pending(pending) => pending.bytes(),
            Self::Ready(batch, _) => batch.get_array_memory_size(),
        }
    }

    fn number(&self) -> u64 {
        match self {
            Self::Pending(pending) => pending.number(),
            Self::Ready(_, number) => *number,
        }
    }

    fn unpack(&self) -> Result<&RecordBatch, String> {
        match self {
            Self::Pending(pending) => pending.unpack(),
            Self::Ready(batch, _) => Ok(batch),
        }
    }
}

/// Some record batches, or rows of one.
#[derive(Debug)]
pub(super) struct Piece {
    /// One record batch, or several small ones.
    parts: Vec<Part>,
    /// The rows of the record batch that belong to the piece, if it is a single one.
    rows: Range<usize>,
    /// The first row's number in the input, from 1.
    first_line: u64,
}

impl Piece {
    /// Takes the rows apart.
    ///
    /// # Errors
    /// Fails if the input, which is called `name`, is damaged.
    pub fn decode(self, name: &str, names: &Arc<[String]>) -> Result<ArrowBatch> {
        self.decode_parts(names)
            .map_err(|(number, reason)| damaged(name, &batch_name(number), reason))
    }

    /// Takes the rows apart. An error has the number of the record batch.
    fn decode_parts(&self, names: &Arc<[String]>) -> Result<ArrowBatch, (u64, String)> {
        let unpack = |part: &Part| part.unpack().cloned().map_err(|reason| (part.number(), reason));
        let batches = self.parts.iter().map(unpack).collect::<Result<Vec<_>, _>>()?;
        let first = self.parts[0].number();
        let (batch, rows) = if let [batch] = batches.as_slice() {
            (batch.clone(), self.rows.clone())
        } else {
            let joined = guarded(|| concat_batches(&batches[0].schema(), &batches));
            let joined = joined.map_err(|reason| (first, reason))?;
            let rows = 0..joined.num_rows();
            (joined, rows)
        };
        guarded(|| ArrowBatch::new(names, &batch, rows, self.first_line))
            .map_err(|reason| (first, reason))
    }
}

/// The source of record batches.
pub(super) enum Batches<'a> {
    Stream(Box<Stream<'a>>),
    /// Needs the next block, and the counter.
    File(Arc<IpcFile>, usize, Arc<AtomicU64>),
    Reader(Box<Reading<'a>>),
}

/// A reader of record batches.
pub type Batched<'a> = Box<dyn RecordBatchReader + Send + 'a>;

/// A caller's record batches, as they are read.
pub(super) struct Reading<'a> {
    reader: Batched<'a>,
    copying: Option<Copying>,
    /// Number of record batches so far.
    batches: u64,
    bytes_read: Arc<AtomicU64>,
}

impl<'a> Reading<'a> {
    /// Reads from the start, and copies if asked to.
    pub fn new(reader: Batched<'a>, copying: Option<Copying>) -> Self {
        Self { reader, copying, batches: 0, bytes_read: Arc::default() }
    }

    fn next(&mut self, name: &str) -> Result<Option<Part>> {
        let Some(batch) = self.reader.next() else {
            self.copying.take().map_or(Ok(()), |mut copying| copying.finish())?;
            return Ok(None);
        };
        self.batches += 1;
        let batch = batch.map_err(|error| not_read(name, self.batches, error))?;
        let bytes = batch.get_array_memory_size() as u64;
        self.bytes_read.fetch_add(bytes, Ordering::Relaxed);
        if let Some(copying) = &mut self.copying {
            copying.add(&batch)?;
        }
        Ok(Some(Part::Ready(batch, self.batches)))
    }
}

/// The error of a record batch that its reader does not give. A cause that the caller's code gave
/// is kept.
fn not_read(name: &str, number: u64, error: ArrowError) -> Error {
    match error {
        ArrowError::ExternalError(cause) => Error::aborted(cause),
        error => {
            let reason = format!("{} cannot be read: {error}", batch_name(number));
            ErrorKind::Input { file: name.to_owned(), reason }.into()
        }
    }
}

impl Batches<'_> {
    /// From now on `bytes_read` counts what is read of a stream or a reader.
    pub fn counted(mut self, bytes_read: &Arc<AtomicU64>) -> Self {
        match &mut self {
            Self::Stream(stream) => stream.count_in(bytes_read),
            Self::Reader(reading) => reading.bytes_read = Arc::clone(bytes_read),
            Self::File(..) => {}
        }
        self
    }

    fn next(&mut self, name: &str) -> Result<Option<Part>> {
        let pending = |pending: Option<Pending>| pending.map(|it| Part::Pending(Arc::new(it)));
        match self {
            Self::Stream(stream) => stream.next().map(pending),
            Self::File(file, next, bytes_read) => {
                let batch = file.batch(*next)?;
                let bytes = batch.as_ref().map_or(0, Pending::bytes) as u64;
                bytes_read.fetch_add(bytes, Ordering::Relaxed);
                *next += 1;
                Ok(pending(batch))
            }
            Self::Reader(reading) => reading.next(name),
        }
    }
}

/// Reads record batches in pieces.
pub(super) struct PieceReader<'a> {
    batches: Batches<'a>,
    name: String,
    joins: bool,
    /// A batch of which rows are left, and the first of them.
    left: Option<(Part, usize)>,
    next_line: u64,
}

impl<'a> PieceReader<'a> {
    /// Reads from the start.
    pub fn new(name: &str, schema: &SchemaRef, batches: Batches<'a>) -> Self {
        // What would have to be rewritten if it were joined.
        let is_encoded = |data_type: &DataType| {
            matches!(data_type, DataType::Dictionary(..) | DataType::RunEndEncoded(..))
        };
        let joins = !schema.fields().iter().any(|field| has_any(field.data_type(), &is_encoded));
        Self { batches, name: name.to_owned(), joins, left: None, next_line: 1 }
    }

    /// The next piece; `None` at the end.
    ///
    /// # Errors
    /// Fails if the input cannot be read or is damaged.
    pub fn claim(&mut self) -> Result<Option<Piece>> {
        let Some((part, start)) = self.next_left()? else { return Ok(None) };
        let piece_rows = rows_of_piece(part.rows(), part.bytes() as u64);
        let end = part.rows().min(start.saturating_add(piece_rows));
        let first_line = self.next_line;
        let mut piece = Piece { parts: vec![part], rows: start..end, first_line };
        let mut rows = end - start;
        if end < piece.parts[0].rows() {
            self.left = Some((piece.parts[0].clone(), end));
        } else if start == 0 && self.joins {
            rows = self.join(&mut piece)?;
        }
        let next_line = self.next_line.checked_add(rows as u64);
        self.next_line =
            next_line.ok_or_else(|| damaged(&self.name, "the input", "it has too many rows"))?;
        Ok(Some(piece))
    }

    fn next_left(&mut self) -> Result<Option<(Part, usize)>> {
        if let Some(left) = self.left.take() {
            return Ok(Some(left));
        }
        while let Some(part) = self.batches.next(&self.name)? {
            if part.rows() > 0 {
                return Ok(Some((part, 0)));
            }
        }
        Ok(None)
    }

    /// Adds batches to a small one; how many rows they all have.
    fn join(&mut self, piece: &mut Piece) -> Result<usize> {
        let is_small = |rows, bytes| rows < JOINED_ROWS_MIN && bytes < JOINED_BYTES_MIN;
        let (mut rows, mut bytes) = (piece.rows.len(), piece.parts[0].bytes());
        while is_small(rows, bytes) {
            let Some((part, start)) = self.next_left()? else { break };
            if !is_small(part.rows(), part.bytes()) {
                self.left = Some((part, start));
                break;
            }
            rows += part.rows();
            bytes += part.bytes();
            piece.parts.push(part);
        }
        Ok(rows)
    }
}
