//! Arrow IPC messages: record batches and the dictionaries that they need.
//!
//! ```text
//! ff ff ff ff | length of the metadata, 4 bytes | metadata | body
//! ```
//!
//! Streams are such messages one after the other, files have a table that says
//! where they lie. Old writers leave the mark in front out.
//!
//! Must never: believe a length before the bytes are there.

use std::collections::HashMap;
use std::io::{self, Read};
use std::sync::{Arc, OnceLock};

use arrow_array::{ArrayRef, RecordBatch};
use arrow_buffer::Buffer;
use arrow_ipc::reader::{read_dictionary, read_record_batch};
use arrow_ipc::{BodyCompression, CompressionType, Message, MessageHeader, root_as_message};
use arrow_schema::SchemaRef;

use super::guard::guarded;
use crate::input::stored::Stored;

/// The mark before a message.
pub(super) const MARK: [u8; 4] = [0xff; 4];

/// Bytes reserved at once for a body; a longer one grows as it comes.
const RESERVED_BYTES_MAX: usize = 64 << 20;

/// No compression makes data smaller than by this factor: Zstandard's longest
/// repeats take four bytes for 128 KB.
const COMPRESSION_FACTOR_MAX: u64 = 40_000;

/// The values of dictionaries, by their numbers.
pub(super) type Dictionaries = HashMap<i64, ArrayRef>;

/// A message as it was read.
#[derive(Debug)]
pub(super) struct RawMessage {
    metadata: Vec<u8>,
    body: Body,
}

/// The part of a message that holds the values.
#[derive(Debug)]
enum Body {
    Held(Buffer),
    /// Still in the file; it is read when the message is taken apart.
    Stored {
        file: Arc<Stored>,
        offset: u64,
        length: usize,
    },
}

/// The next thing in a stream.
#[derive(Debug)]
pub(super) enum InStream {
    Message(RawMessage),
    /// The mark at the end of a stream: a message of length 0.
    EndMark,
    /// The end of the input.
    Nothing,
}

impl RawMessage {
    /// Reads the next message of a stream.
    ///
    /// # Errors
    /// Fails if the stream cannot be read, ends within the message, or holds none.
    pub fn read(reader: &mut impl Read) -> io::Result<InStream> {
        let mut length = Vec::new();
        reader.by_ref().take(4).read_to_end(&mut length)?;
        if length.is_empty() {
            return Ok(InStream::Nothing);
        }
        if length == MARK {
            length.clear();
            reader.by_ref().take(4).read_to_end(&mut length)?;
        }
        let length: [u8; 4] =
            length.try_into().map_err(|_| io::Error::from(io::ErrorKind::UnexpectedEof))?;
        let length = i32::from_le_bytes(length);
        if length == 0 {
            return Ok(InStream::EndMark);
        }
        let length = usize::try_from(length).map_err(|_| invalid("a length is negative"))?;
        let metadata = read_exactly(reader, length)?;
        let body_length = parse(&metadata).map_err(invalid)?.bodyLength();
        let body_length =
            usize::try_from(body_length).map_err(|_| invalid("a length is negative"))?;
        let body = Buffer::from_vec(read_exactly(reader, body_length)?);
        Ok(InStream::Message(Self { metadata, body: Body::Held(body) }))
    }

    /// The message at a place in a file; the body stays there.
    ///
    /// # Errors
    /// Fails if the metadata cannot be read.
    pub fn stored(
        file: &Arc<Stored>,
        offset: u64,
        metadata_length: usize,
        body_length: usize,
    ) -> io::Result<Self> {
        let mut metadata = file.read_at(offset, metadata_length)?;
        let prefix = if metadata.starts_with(&MARK) { 8 } else { 4 };
        metadata.drain(..prefix.min(metadata.len()));
        let offset = offset.saturating_add(metadata_length as u64);
        let file = Arc::clone(file);
        Ok(Self { metadata, body: Body::Stored { file, offset, length: body_length } })
    }

    /// The message's header, which is known without its body.
    pub fn header(&self) -> Result<Message<'_>, String> {
        parse(&self.metadata)
    }

    /// Length of the body, in bytes.
    pub fn body_length(&self) -> usize {
        match &self.body {
            Body::Held(body) => body.len(),
            Body::Stored { length, .. } => *length,
        }
    }

    fn body(&self) -> Result<Buffer, String> {
        match &self.body {
            Body::Held(body) => Ok(body.clone()),
            Body::Stored { file, offset, length } => {
                file.read_at(*offset, *length).map(Buffer::from_vec).map_err(|e| e.to_string())
            }
        }
    }

    /// Adds the dictionary that this message holds to those known.
    ///
    /// # Errors
    /// Fails if it is damaged or belongs to no column.
    pub fn add_dictionary(
        &self,
        schema: &SchemaRef,
        dictionaries: &mut Dictionaries,
    ) -> Result<(), String> {
        let body = self.body()?;
        let header = self.header()?;
        let dictionary = header.header_as_dictionary_batch().ok_or("it is no dictionary")?;
        let values = dictionary.data().ok_or("a dictionary has no values")?;
        check_sizes(&body, values)?;
        guarded(|| read_dictionary(&body, dictionary, schema, dictionaries, &header.version()))
    }
}

fn parse(metadata: &[u8]) -> Result<Message<'_>, String> {
    root_as_message(metadata).map_err(|error| format!("it is no Arrow message ({error})"))
}

fn invalid(reason: impl Into<String>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, reason.into())
}

fn read_exactly(reader: &mut impl Read, length: usize) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::with_capacity(length.min(RESERVED_BYTES_MAX));
    if reader.by_ref().take(length as u64).read_to_end(&mut bytes)? < length {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok(bytes)
}

/// The sizes that compressed buffers claim to have are reserved before they
/// are unpacked: absurd ones would end the process.
fn check_sizes(body: &[u8], batch: arrow_ipc::RecordBatch<'_>) -> Result<(), String> {
    let is_compressed = |kind: BodyCompression<'_>| {
        matches!(kind.codec(), CompressionType::LZ4_FRAME | CompressionType::ZSTD)
    };
    if !batch.compression().is_some_and(is_compressed) {
        return Ok(());
    }
    for buffer in batch.buffers().into_iter().flatten() {
        let packed_bytes = u64::try_from(buffer.length()).unwrap_or(0).min(body.len() as u64);
        let start = usize::try_from(buffer.offset()).unwrap_or(usize::MAX);
        let Some(size) = body.get(start..).and_then(<[u8]>::first_chunk) else { continue };
        // An empty buffer has no size in front.
        if packed_bytes < size.len() as u64 {
            continue;
        }
        let size = i64::from_le_bytes(*size);
        // No size, or the mark of a buffer that is not compressed.
        if size > 0 && size.unsigned_abs() / COMPRESSION_FACTOR_MAX > packed_bytes {
            return Err(format!("{packed_bytes} compressed bytes cannot hold {size}"));
        }
    }
    Ok(())
}

/// A record batch that the first thread to need one of its rows takes apart.
#[derive(Debug)]
pub(super) struct Pending {
    message: RawMessage,
    schema: SchemaRef,
    dictionaries: Arc<Dictionaries>,
    rows: usize,
    /// Number of the record batch in the input, from 1.
    number: u64,
    unpacked: OnceLock<Result<RecordBatch, String>>,
}

impl Pending {
    /// A message of a record batch, with all that it needs.
    ///
    /// # Errors
    /// Fails if it is something else.
    pub fn new(
        message: RawMessage,
        schema: &SchemaRef,
        dictionaries: &Arc<Dictionaries>,
        number: u64,
    ) -> Result<Self, String> {
        let header = message.header()?;
        let batch = header.header_as_record_batch().ok_or_else(|| {
            format!("a record batch was expected, not {}", name_of(header.header_type()))
        })?;
        let rows = usize::try_from(batch.length()).map_err(|_| "its length is negative")?;
        // A batch without rows is not taken apart, so a wrong length would lose its rows.
        let nodes = batch.nodes().filter(|nodes| nodes.len() >= schema.fields().len());
        let Some(nodes) = nodes else { return Err("it has too few columns".to_owned()) };
        if let Some(first) = (!nodes.is_empty()).then(|| nodes.get(0))
            && first.length() != batch.length()
        {
            let length = first.length();
            return Err(format!(
                "its first column has {length} rows, and it says that it has {rows}"
            ));
        }
        let (schema, dictionaries) = (Arc::clone(schema), Arc::clone(dictionaries));
        Ok(Self { message, schema, dictionaries, rows, number, unpacked: OnceLock::new() })
    }

    /// Number of rows that the batch claims to have.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Bytes of its values as they are in the input.
    pub fn bytes(&self) -> usize {
        self.message.body_length()
    }

    /// Number of the record batch in the input, from 1.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// The record batch.
    ///
    /// # Errors
    /// Fails if it is damaged.
    pub fn unpack(&self) -> Result<&RecordBatch, String> {
        self.unpacked.get_or_init(|| self.unpack_now()).as_ref().map_err(Clone::clone)
    }

    fn unpack_now(&self) -> Result<RecordBatch, String> {
        let body = self.message.body()?;
        let header = self.message.header()?;
        let batch = header.header_as_record_batch().ok_or("it is no record batch")?;
        check_sizes(&body, batch)?;
        let (schema, version) = (Arc::clone(&self.schema), header.version());
        let batch = guarded(|| {
            read_record_batch(&body, batch, schema, &self.dictionaries, None, &version)
        })?;
        if batch.num_rows() != self.rows {
            return Err(format!("it has {} rows, not {}", batch.num_rows(), self.rows));
        }
        Ok(batch)
    }
}

fn name_of(header: MessageHeader) -> &'static str {
    header.variant_name().unwrap_or("something unknown")
}
