//! Parquet files: row groups, or rows of them, taken apart on any thread.
//!
//! A claim takes only numbers: which rows of which row group. The decoder reads
//! the bytes itself, unpacks the pages and makes a batch. Rows before its own
//! in a row group are skipped page by page, without unpacking them.
//!
//! Strings are asked for as views, which point into the pages: a dictionary's
//! strings are not repeated in memory for each row that has them.
//!
//! Must never: let a damaged file end the process.

use std::io::{self, BufReader, Read};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arrow_array::{RecordBatch, RecordBatchReader as _};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use arrow_select::concat::concat_batches;
use bytes::Bytes;
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::{
    ArrowReaderMetadata, ArrowReaderOptions, ParquetRecordBatchReaderBuilder,
};
use parquet::errors::{ParquetError, Result as ParquetResult};
use parquet::file::metadata::RowGroupMetaData;
use parquet::file::reader::{ChunkReader, Length};

use super::batch::ArrowBatch;
use super::guard::guarded;
use super::pieces::rows_of_piece;
use super::wide::SecondReading;
use crate::input::stored::Stored;
use crate::{ErrorKind, Result};

/// The last bytes of a file whose table of contents is encrypted.
const ENCRYPTED_MAGIC: &[u8] = b"PARE";

/// Bytes that are read at once where a page's header is expected.
const HEADER_BUFFER_BYTES: usize = 4 << 10;

/// A Parquet file, its table of contents read.
#[derive(Debug)]
pub(super) struct ParquetFile {
    file: Arc<Stored>,
    metadata: ArrowReaderMetadata,
    second: Option<SecondReading>,
}

/// Rows of a row group.
#[derive(Debug, Clone)]
pub(super) struct ParquetPiece {
    row_group: usize,
    rows: Range<usize>,
    /// The first row's number in the file, from 1.
    first_line: u64,
}

impl ParquetFile {
    /// Reads the table of contents.
    ///
    /// # Errors
    /// Fails if the file is damaged, cut short or encrypted.
    pub fn new(file: Stored) -> Result<Self> {
        let file = Arc::new(file);
        let end = file.bytes().saturating_sub(4);
        let magic = file.read_at(end, 4).map_err(|error| file.describe(error, "the footer"))?;
        if magic == ENCRYPTED_MAGIC {
            return Err(encrypted(&file));
        }
        let chunks = Chunks(Arc::clone(&file));
        let loaded = guarded(|| {
            let metadata = ArrowReaderMetadata::load(&chunks, ArrowReaderOptions::new())?;
            let metadata = with_views(&metadata).unwrap_or(metadata);
            let second = SecondReading::of(&metadata)?;
            Ok::<_, ParquetError>((metadata, second))
        });
        let (metadata, second) = loaded.map_err(|reason| {
            if reason.contains("encrypt") {
                encrypted(&file)
            } else {
                file.damaged("the footer", reason)
            }
        })?;
        let mut columns =
            metadata.metadata().row_groups().iter().flat_map(RowGroupMetaData::columns);
        if columns.any(|column| column.file_path().is_some_and(|path| !path.is_empty())) {
            let reason = "holds no rows itself, they lie in other files".to_owned();
            let error = ErrorKind::Input { file: file.name().to_owned(), reason };
            return Err(crate::Error::from(error).to_do("load those files"));
        }
        let contents = metadata.metadata();
        let rows = contents.row_groups().iter().map(RowGroupMetaData::num_rows);
        if rows.fold(0, i64::saturating_add) != contents.file_metadata().num_rows() {
            let reason = "its row groups do not have as many rows as the file says";
            return Err(file.damaged("the footer", reason));
        }
        Ok(Self { file, metadata, second })
    }

    /// The columns.
    pub fn schema(&self) -> &SchemaRef {
        self.metadata.schema()
    }

    /// The file itself.
    pub fn file(&self) -> &Stored {
        &self.file
    }

    fn row_group(&self, index: usize) -> Option<&RowGroupMetaData> {
        self.metadata.metadata().row_groups().get(index)
    }

    /// Takes the rows apart.
    ///
    /// # Errors
    /// Fails if the row group is damaged.
    pub fn decode(&self, piece: &ParquetPiece, names: &Arc<[String]>) -> Result<ArrowBatch> {
        guarded(|| {
            let batch = self.read(piece)?;
            let rows = batch.num_rows();
            if rows != piece.rows.len() {
                return Err(format!("{rows} rows were found, not {}", piece.rows.len()));
            }
            ArrowBatch::new(names, &batch, 0..rows, piece.first_line)
        })
        .map_err(|reason| {
            let part = format!("row group {}", piece.row_group + 1);
            self.file.damaged(&part, reason)
        })
    }

    fn read(&self, piece: &ParquetPiece) -> Result<RecordBatch, String> {
        let first = self.read_by(&self.metadata, ProjectionMask::all(), piece)?;
        let Some(second) = &self.second else { return Ok(first) };
        let again = self.read_by(&second.metadata, second.columns.clone(), piece)?;
        second.join(&first, &again)
    }

    fn read_by(
        &self,
        metadata: &ArrowReaderMetadata,
        columns: ProjectionMask,
        piece: &ParquetPiece,
    ) -> Result<RecordBatch, String> {
        let chunks = Chunks(Arc::clone(&self.file));
        let reader = ParquetRecordBatchReaderBuilder::new_with_metadata(chunks, metadata.clone())
            .with_projection(columns)
            .with_row_groups(vec![piece.row_group])
            .with_offset(piece.rows.start)
            .with_limit(piece.rows.len())
            .with_batch_size(piece.rows.len())
            .build();
        let reader = reader.map_err(|error| error.to_string())?;
        let schema = reader.schema();
        let batches = reader.collect::<Result<Vec<_>, _>>().map_err(|error| error.to_string())?;
        match batches.as_slice() {
            [batch] => Ok(batch.clone()),
            _ => concat_batches(&schema, &batches).map_err(|error| error.to_string()),
        }
    }
}

fn encrypted(file: &Stored) -> crate::Error {
    let reason = "is encrypted, and encrypted Parquet files cannot be read".to_owned();
    let error = ErrorKind::Input { file: file.name().to_owned(), reason };
    crate::Error::from(error).to_do("decrypt it first with what encrypted it")
}

/// The metadata for reading the file with views for strings; `None` if that is not possible.
fn with_views(metadata: &ArrowReaderMetadata) -> Option<ArrowReaderMetadata> {
    let contents = metadata.metadata();
    let fields = metadata.schema().fields().iter();
    let fields: Vec<Field> = fields.map(|field| reading_of(field)).collect();
    let schema = Schema::new_with_metadata(fields, metadata.schema().metadata().clone());
    let options = ArrowReaderOptions::new().with_schema(Arc::new(schema));
    ArrowReaderMetadata::try_new(Arc::clone(contents), options).ok()
}

/// The type to read a column as.
fn reading_of(field: &Field) -> Field {
    let data_type = match field.data_type() {
        DataType::Utf8 | DataType::LargeUtf8 => DataType::Utf8View,
        DataType::Binary | DataType::LargeBinary => DataType::BinaryView,
        // Its dictionaries of decimals are read as the decimals themselves: the crate that reads
        // Parquet makes no such dictionary.
        DataType::Dictionary(_, value) if is_decimal(value) => (**value).clone(),
        other => other.clone(),
    };
    field.clone().with_data_type(data_type)
}

fn is_decimal(data_type: &DataType) -> bool {
    matches!(
        data_type,
        DataType::Decimal32(..)
            | DataType::Decimal64(..)
            | DataType::Decimal128(..)
            | DataType::Decimal256(..)
    )
}

/// Claims rows of a file in order.
pub(super) struct ParquetReader {
    file: Arc<ParquetFile>,
    bytes_read: Arc<AtomicU64>,
    row_group: usize,
    row: usize,
    next_line: u64,
}

impl ParquetReader {
    /// Reads from the start.
    pub fn new(file: &Arc<ParquetFile>, bytes_read: &Arc<AtomicU64>) -> Self {
        let (file, bytes_read) = (Arc::clone(file), Arc::clone(bytes_read));
        Self { file, bytes_read, row_group: 0, row: 0, next_line: 1 }
    }

    /// The next rows; `None` at the end.
    ///
    /// # Errors
    /// Fails if a row group names an impossible number of rows.
    pub fn claim(&mut self) -> Result<Option<ParquetPiece>> {
        while let Some(contents) = self.file.row_group(self.row_group) {
            let rows = usize::try_from(contents.num_rows()).ok();
            let next_line = rows.and_then(|rows| self.next_line.checked_add(rows as u64));
            let (Some(rows), Some(_)) = (rows, next_line) else {
                let part = format!("row group {}", self.row_group + 1);
                return Err(self.file.file.damaged(&part, "its number of rows cannot be"));
            };
            if self.row == rows {
                self.row_group += 1;
                self.row = 0;
                continue;
            }
            let unpacked_bytes = u64::try_from(contents.total_byte_size()).unwrap_or(0);
            let piece_rows = rows_of_piece(rows, unpacked_bytes).min(rows - self.row);
            let packed_bytes = contents.columns().iter().map(|it| it.compressed_size().max(0));
            let packed_bytes = packed_bytes.fold(0, i64::saturating_add);
            let share = packed_bytes as f64 * (piece_rows as f64 / rows as f64);
            self.bytes_read.fetch_add(share as u64, Ordering::Relaxed);
            let piece = ParquetPiece {
                row_group: self.row_group,
                rows: self.row..self.row + piece_rows,
                first_line: self.next_line,
            };
            self.row += piece_rows;
            self.next_line += piece_rows as u64;
            return Ok(Some(piece));
        }
        Ok(None)
    }
}

/// The file as the parquet crate wants it.
#[derive(Clone)]
struct Chunks(Arc<Stored>);

impl Length for Chunks {
    fn len(&self) -> u64 {
        self.0.bytes()
    }
}

impl ChunkReader for Chunks {
    type T = BufReader<From>;

    fn get_read(&self, start: u64) -> ParquetResult<Self::T> {
        let from = From { file: Arc::clone(&self.0), position: start };
        Ok(BufReader::with_capacity(HEADER_BUFFER_BYTES, from))
    }

    fn get_bytes(&self, start: u64, length: usize) -> ParquetResult<Bytes> {
        Ok(self.0.read_at(start, length)?.into())
    }
}

/// Reads a file from a place on, with a position of its own.
struct From {
    file: Arc<Stored>,
    position: u64,
}

impl Read for From {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let left = self.file.bytes().saturating_sub(self.position);
        let length = usize::try_from(left).unwrap_or(usize::MAX).min(buffer.len());
        self.file.fill_at(self.position, &mut buffer[..length])?;
        self.position += length as u64;
        Ok(length)
    }
}
