//! Arrow and Parquet: typed columns instead of lines.
//!
//! ```text
//! parquet.rs, wide.rs   row groups ─┐                      types.rs   what Arrow's types become
//! ipc.rs, message.rs    messages ──┐│                      column.rs  one column, read by row
//! a RecordBatchReader   batches ──►├┴► pieces ─► batch.rs  times.rs, text.rs  dates and the like
//!   copy.rs             pieces.rs ─┘                       nested.rs  lists and the like, as JSON
//!                                                          guard.rs   panics of others
//! ```
//!
//! Claims take numbers or packed bytes; whatever costs time is done by the
//! decoder on any thread. Nothing is converted that need not be.
//!
//! Must never: lose a digit, or panic whatever the bytes.

mod batch;
mod column;
mod copy;
mod guard;
mod ipc;
mod message;
mod nested;
#[cfg(feature = "parquet")]
mod parquet;
mod pieces;
mod text;
mod times;
mod types;
#[cfg(feature = "parquet")]
mod wide;

#[cfg(test)]
mod tests;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use arrow_schema::SchemaRef;

pub use self::batch::ArrowBatch;
pub use self::column::Column as ArrowColumn;
pub use self::pieces::Batched;
pub use self::types::may_be_wide;

use self::copy::Copy;
use self::ipc::{IpcFile, Stream};
#[cfg(feature = "parquet")]
use self::parquet::{ParquetFile, ParquetPiece, ParquetReader};
use self::pieces::{Batches, Piece, PieceReader, Reading};
use super::csv::header::Header;
use super::fingerprint::Fingerprint;
use super::kind::Kind;
use super::rows::{DecodeHalt, RowDecoder, RowReader, RowSource, SourceColumn};
use super::source::Source;
use super::unreadable::read_once;
use crate::Result;

/// A Parquet file, an Arrow file or stream, or any reader of record batches.
pub struct ArrowSource<'a> {
    name: String,
    columns: Vec<SourceColumn>,
    names: Arc<[String]>,
    /// Notes on names that had to be changed.
    notes: Vec<String>,
    /// Set if a stream ended without its end mark.
    has_no_end: Arc<AtomicBool>,
    /// NaN values by column, for each opening.
    nans: Vec<Arc<[AtomicU64]>>,
    schema: SchemaRef,
    origin: Origin<'a>,
}

enum Origin<'a> {
    #[cfg(feature = "parquet")]
    Parquet(Arc<ParquetFile>),
    File(Arc<IpcFile>),
    /// With the stream as it was opened to see its columns, until it is read.
    Stream {
        source: Box<Source<'a>>,
        opened: Option<Box<Stream<'a>>>,
    },
    /// Record batches that can be read only once, and their copy where a second pass may follow.
    Once {
        reader: Option<Batched<'a>>,
        copy: Option<Copy>,
    },
    /// Record batches that can be had anew, with the reader that showed the columns.
    Again {
        open: OpenBatches<'a>,
        opened: Option<Batched<'a>>,
    },
}

/// Opens record batches at their start.
pub type OpenBatches<'a> = Box<dyn FnMut() -> Result<Batched<'a>> + 'a>;

impl<'a> ArrowSource<'a> {
    /// An input that is of this kind, as [`kind_of`](super::kind::kind_of) says. What is not a
    /// plain file but must be read from its end is copied to `folder` first.
    ///
    /// # Errors
    /// Fails if the input cannot be read, or is not what it should be.
    pub fn new(mut source: Source<'a>, kind: Kind, folder: &Path) -> Result<Self> {
        match kind {
            #[cfg(feature = "parquet")]
            Kind::Parquet => {
                let file = Arc::new(ParquetFile::new(source.stored(folder)?)?);
                Ok(Self::of(source.name(), file.schema(), Origin::Parquet(Arc::clone(&file))))
            }
            Kind::ArrowFile => {
                let file = Arc::new(IpcFile::new(source.stored(folder)?)?);
                Ok(Self::of(source.name(), file.schema(), Origin::File(Arc::clone(&file))))
            }
            Kind::ArrowStream => {
                let stream = Stream::open(&mut source)?;
                let (name, schema) = (source.name().to_owned(), Arc::clone(stream.schema()));
                let (source, opened) = (Box::new(source), Some(stream));
                Ok(Self::of(&name, &schema, Origin::Stream { source, opened }))
            }
            other => Err(other.refuse(source.name())),
        }
    }

    /// Any reader of record batches, named `name` in messages, which can be read once. It is copied
    /// to `folder` as it is read if there may be a second pass: if the caller says so, or for
    /// columns whose types must be looked at ([`SourceColumn::declared`] is `None`).
    pub fn once(name: &str, reader: Batched<'a>, folder: &Path, may_read_again: bool) -> Self {
        let schema = reader.schema();
        let mut source = Self::of(name, &schema, Origin::Once { reader: None, copy: None });
        let copies = may_read_again || source.columns.iter().any(|it| it.declared.is_none());
        let copy = copies.then(|| Copy::new(folder));
        source.origin = Origin::Once { reader: Some(reader), copy };
        source
    }

    /// Record batches that can be had anew for each pass, named `name` in messages.
    ///
    /// # Errors
    /// Fails if they cannot be opened.
    pub fn again(name: &str, mut open: OpenBatches<'a>) -> Result<Self> {
        let opened = open()?;
        let schema = opened.schema();
        Ok(Self::of(name, &schema, Origin::Again { open, opened: Some(opened) }))
    }

    fn of(name: &str, schema: &SchemaRef, origin: Origin<'a>) -> Self {
        let mut columns = types::columns_of(schema.fields());
        let header = Header::from_names(schema.fields().iter().map(|field| field.name().as_str()));
        let names = header.names.iter().map(|it| it.name.clone()).collect();
        for (column, name) in columns.iter_mut().zip(header.names) {
            column.name = name;
        }
        let (name, notes) = (name.to_owned(), header.notes);
        let (has_no_end, schema) = (Arc::default(), Arc::clone(schema));
        Self { name, columns, names, notes, has_no_end, nans: Vec::new(), schema, origin }
    }
}

impl<'a> RowSource for ArrowSource<'a> {
    type Reader = ArrowReader<'a>;
    type Decoder = ArrowDecoder;

    fn name(&self) -> &str {
        &self.name
    }

    fn notes(&self) -> Vec<String> {
        self.notes.clone()
    }

    fn notes_at_end(&self) -> Vec<String> {
        let note = |name| format!("{name}: the stream has no end mark, so it may have been cut");
        self.has_no_end.load(Ordering::Relaxed).then(|| note(&self.name)).into_iter().collect()
    }

    /// The last passes may have read a part of the rows only.
    fn nan_counts(&self) -> Vec<u64> {
        let in_pass =
            |column: usize| move |nans: &Arc<[AtomicU64]>| nans[column].load(Ordering::Relaxed);
        let most = |column| self.nans.iter().map(in_pass(column)).max().unwrap_or_default();
        (0..self.columns.len()).map(most).collect()
    }

    fn columns(&self) -> &[SourceColumn] {
        &self.columns
    }

    fn opens_again(&self) -> bool {
        !matches!(self.origin, Origin::Once { copy: None, .. })
    }

    fn open(&mut self, bytes_read: &Arc<AtomicU64>) -> Result<(ArrowReader<'a>, ArrowDecoder)> {
        bytes_read.store(0, Ordering::Relaxed);
        let nans: Arc<[AtomicU64]> = self.columns.iter().map(|_| AtomicU64::new(0)).collect();
        self.nans.push(Arc::clone(&nans));
        let decoder = ArrowDecoder {
            name: self.name.clone(),
            names: Arc::clone(&self.names),
            nans,
            #[cfg(feature = "parquet")]
            parquet: match &self.origin {
                Origin::Parquet(file) => Some(Arc::clone(file)),
                _ => None,
            },
        };
        let pieces = |batches| Pieces::Batches(PieceReader::new(&self.name, &self.schema, batches));
        let (pieces, bytes_total) = match &mut self.origin {
            #[cfg(feature = "parquet")]
            Origin::Parquet(file) => {
                file.file().check_unchanged()?;
                let reader = ParquetReader::new(file, bytes_read);
                (Pieces::Parquet(reader), Some(file.file().bytes()))
            }
            Origin::File(file) => {
                file.file().check_unchanged()?;
                let batches = Batches::File(Arc::clone(file), 0, Arc::clone(bytes_read));
                (pieces(batches), Some(file.file().bytes()))
            }
            Origin::Stream { source, opened } => {
                let mut stream = opened.take().map_or_else(|| Stream::open(source), Ok)?;
                if stream.schema() != &self.schema {
                    return Err(Fingerprint::changed(&self.name));
                }
                stream.count_in(bytes_read);
                stream.note_missing_end(&self.has_no_end);
                let bytes_total = stream.bytes_total();
                (pieces(Batches::Stream(stream)), bytes_total)
            }
            Origin::Once { reader, copy } => {
                let batches = batches_once(reader, copy.as_mut(), &self.name, &self.schema);
                (pieces(batches?.counted(bytes_read)), None)
            }
            Origin::Again { open, opened } => {
                let reader = opened.take().map_or_else(open, Ok)?;
                if reader.schema() != self.schema {
                    return Err(Fingerprint::changed(&self.name));
                }
                let batches = Batches::Reader(Box::new(Reading::new(reader, None)));
                (pieces(batches.counted(bytes_read)), None)
            }
        };
        Ok((ArrowReader { pieces, bytes_total }, decoder))
    }

    fn is_stream(&self) -> bool {
        match &self.origin {
            Origin::Stream { source, .. } => source.is_stream(),
            Origin::Once { .. } => true,
            _ => false,
        }
    }

    fn check_unchanged(&self) -> Result<()> {
        match &self.origin {
            #[cfg(feature = "parquet")]
            Origin::Parquet(file) => file.file().check_unchanged(),
            Origin::File(file) => file.file().check_unchanged(),
            _ => Ok(()),
        }
    }

    /// All columns are known from the schema.
    fn discover_columns(&mut self, _bytes_read: &Arc<AtomicU64>) -> Result<()> {
        Ok(())
    }
}

/// The batches of a reader, which are copied if that is asked for, or those of the copy.
fn batches_once<'a>(
    reader: &mut Option<Batched<'a>>,
    mut copy: Option<&mut Copy>,
    name: &str,
    schema: &SchemaRef,
) -> Result<Batches<'a>> {
    if let Some(reader) = reader.take() {
        let copying = copy.as_mut().map(|copy| copy.begin(schema)).transpose()?;
        return Ok(Batches::Reader(Box::new(Reading::new(reader, copying))));
    }
    let opened = copy.map_or(Ok(None), |copy| copy.open(name))?;
    opened.map(Batches::Stream).ok_or_else(|| read_once(name))
}

/// Claims pieces of an Arrow or Parquet input.
pub struct ArrowReader<'a> {
    pieces: Pieces<'a>,
    bytes_total: Option<u64>,
}

enum Pieces<'a> {
    #[cfg(feature = "parquet")]
    Parquet(ParquetReader),
    Batches(PieceReader<'a>),
}

/// A piece of an Arrow or Parquet input, not yet taken apart.
#[derive(Debug, Default)]
pub struct ArrowPiece(PieceKind);

#[derive(Debug, Default)]
enum PieceKind {
    #[default]
    Empty,
    #[cfg(feature = "parquet")]
    Parquet(ParquetPiece),
    Batches(Piece),
}

impl RowReader for ArrowReader<'_> {
    type Raw = ArrowPiece;

    fn claim(&mut self, raw: &mut ArrowPiece) -> Result<bool> {
        let piece = match &mut self.pieces {
            #[cfg(feature = "parquet")]
            Pieces::Parquet(reader) => reader.claim()?.map(PieceKind::Parquet),
            Pieces::Batches(reader) => reader.claim()?.map(PieceKind::Batches),
        };
        let is_there = piece.is_some();
        raw.0 = piece.unwrap_or_default();
        Ok(is_there)
    }

    fn bytes_total(&self) -> Option<u64> {
        self.bytes_total
    }
}

/// Takes pieces of an Arrow or Parquet input apart.
pub struct ArrowDecoder {
    name: String,
    names: Arc<[String]>,
    /// NaN values by column.
    nans: Arc<[AtomicU64]>,
    #[cfg(feature = "parquet")]
    parquet: Option<Arc<ParquetFile>>,
}

impl RowDecoder for ArrowDecoder {
    type Raw = ArrowPiece;
    type Batch = ArrowBatch;

    fn decode(&self, raw: &mut ArrowPiece, batch: &mut ArrowBatch) -> Result<(), DecodeHalt> {
        // What the batch holds is let go first: it may be large.
        *batch = ArrowBatch::default();
        match std::mem::take(&mut raw.0) {
            PieceKind::Empty => {}
            #[cfg(feature = "parquet")]
            PieceKind::Parquet(piece) => {
                if let Some(file) = &self.parquet {
                    *batch = file.decode(&piece, &self.names)?;
                }
            }
            PieceKind::Batches(piece) => *batch = piece.decode(&self.name, &self.names)?,
        }
        batch.count_nans(&self.nans);
        Ok(())
    }
}
