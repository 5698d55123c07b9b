//! Arrow IPC files and streams, read in order.
//!
//! This module reads the bytes of messages, and dictionaries; the decoders take the record
//! batches apart.
//!
//! Must never: take a stream that ends within a message for a whole one. The format allows a
//! stream to end *between* messages without its end mark; a note says so, as it may have been cut.

use std::io::Read;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use arrow_ipc::convert::try_fb_to_schema;
use arrow_ipc::{Block, Endianness, Footer, MessageHeader, root_as_footer};
use arrow_schema::SchemaRef;

use super::guard::guarded;
use super::message::{Dictionaries, InStream, MARK, Pending, RawMessage};
use crate::Result;
use crate::input::source::{Opened, Source};
use crate::input::stored::{Stored, damaged};

/// The mark at both ends of a file; at the end it follows the footer's length.
const MAGIC: &[u8; 6] = b"ARROW1";
const TRAILER_BYTES: usize = 4 + MAGIC.len();
/// Place of the first message in a file: behind the mark, which is padded to 8 bytes.
const SCHEMA_AT: u64 = 8;

/// A stream that is open, its schema read.
pub(super) struct Stream<'a> {
    input: Opened<'a>,
    schema: SchemaRef,
    dictionaries: Arc<Dictionaries>,
    /// The counter of bytes that `input` has read.
    taken_bytes: Arc<AtomicU64>,
    /// The caller's counter of the bytes read.
    bytes_read: Arc<AtomicU64>,
    /// Set if the stream ends without its end mark.
    has_no_end: Arc<AtomicBool>,
    /// True once the end was read. Callers may ask again.
    is_over: bool,
    batches: u64,
}

impl<'a> Stream<'a> {
    /// Opens a source and reads the schema.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn open(source: &mut Source<'a>) -> Result<Box<Self>> {
        let taken_bytes = Arc::new(AtomicU64::new(0));
        Ok(Box::new(Self::new(source.open(&taken_bytes)?, &taken_bytes)?))
    }

    /// Reads the schema. `taken_bytes` is what the input counts in.
    ///
    /// # Errors
    /// Fails if the input cannot be read or is no Arrow stream.
    pub fn new(mut input: Opened<'a>, taken_bytes: &Arc<AtomicU64>) -> Result<Self> {
        let message = RawMessage::read(&mut input).map_err(|error| describe(&input, error, 0))?;
        let wrong = |reason: String| damaged(input.name(), "the schema", reason);
        let InStream::Message(message) = message else {
            return Err(wrong("there is none".to_owned()));
        };
        let header = message.header().map_err(wrong)?;
        let schema = header.header_as_schema();
        let schema = schema.ok_or_else(|| wrong("something else comes first".to_owned()))?;
        let schema = Arc::new(read_schema(schema).map_err(wrong)?);
        let (taken_bytes, bytes_read) = (Arc::clone(taken_bytes), Arc::default());
        Ok(Self {
            input,
            schema,
            dictionaries: Arc::default(),
            taken_bytes,
            bytes_read,
            has_no_end: Arc::default(),
            is_over: false,
            batches: 0,
        })
    }

    /// The columns.
    pub fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// The size of the input, if known.
    pub fn bytes_total(&self) -> Option<u64> {
        self.input.bytes_total()
    }

    /// From now on `bytes_read` counts.
    pub fn count_in(&mut self, bytes_read: &Arc<AtomicU64>) {
        self.bytes_read = Arc::clone(bytes_read);
    }

    /// From now on `has_no_end` is told if the stream ends without its end mark.
    pub fn note_missing_end(&mut self, has_no_end: &Arc<AtomicBool>) {
        self.has_no_end = Arc::clone(has_no_end);
    }

    /// The next record batch; `None` at the end.
    ///
    /// # Errors
    /// Fails if the input cannot be read or is damaged.
    pub fn next(&mut self) -> Result<Option<Pending>> {
        while !self.is_over {
            let number = self.batches + 1;
            let read = RawMessage::read(&mut self.input);
            self.bytes_read.store(self.taken_bytes.load(Ordering::Relaxed), Ordering::Relaxed);
            let message = match read.map_err(|error| describe(&self.input, error, number))? {
                InStream::Message(message) => message,
                end => {
                    self.end(&end, number)?;
                    break;
                }
            };
            let wrong = |reason| damaged(self.input.name(), &batch_name(number), reason);
            if message.header().map_err(wrong)?.header_type() == MessageHeader::DictionaryBatch {
                let dictionaries = Arc::make_mut(&mut self.dictionaries);
                message.add_dictionary(&self.schema, dictionaries).map_err(wrong)?;
                continue;
            }
            self.batches = number;
            let pending = Pending::new(message, &self.schema, &self.dictionaries, number);
            return pending.map(Some).map_err(wrong);
        }
        Ok(None)
    }

    /// Ends the stream. Reads on to the input's end, so that its checksum is looked at.
    fn end(&mut self, end: &InStream, number: u64) -> Result<()> {
        self.is_over = true;
        if matches!(end, InStream::Nothing) {
            self.has_no_end.store(true, Ordering::Relaxed);
        }
        match self.input.read(&mut [0; 1]) {
            Ok(0) => Ok(()),
            Ok(_) => Err(damaged(self.input.name(), "the end", "something follows it")),
            Err(error) => Err(describe(&self.input, error, number)),
        }
    }
}

/// Name of a record batch in messages.
pub(super) fn batch_name(number: u64) -> String {
    format!("record batch {number}")
}

fn describe(input: &Opened<'_>, error: std::io::Error, number: u64) -> crate::Error {
    match error.kind() {
        std::io::ErrorKind::UnexpectedEof if !input.is_compressed() => {
            let part = if number == 0 { "the schema".to_owned() } else { batch_name(number) };
            damaged(input.name(), &part, "the stream ends within it")
        }
        std::io::ErrorKind::InvalidData if !input.is_compressed() => {
            damaged(input.name(), &batch_name(number), error)
        }
        _ => input.describe(error),
    }
}

fn read_schema(schema: arrow_ipc::Schema<'_>) -> Result<arrow_schema::Schema, String> {
    if schema.endianness() != Endianness::Little {
        return Err("its numbers are big-endian, which is not supported".to_owned());
    }
    guarded(|| try_fb_to_schema(schema))
}

/// A file's table of contents.
#[derive(Debug)]
pub(super) struct IpcFile {
    file: Arc<Stored>,
    schema: SchemaRef,
    dictionaries: Arc<Dictionaries>,
    blocks: Vec<Block>,
}

impl IpcFile {
    /// Reads the footer and all dictionaries.
    ///
    /// # Errors
    /// Fails if the file is damaged or cut short.
    pub fn new(file: Stored) -> Result<Self> {
        let file = Arc::new(file);
        let wrong = |reason: String| file.damaged("the footer", reason);
        let unread = |error| file.describe(error, "the footer");
        let start = file.bytes().saturating_sub(TRAILER_BYTES as u64);
        let trailer = file.read_at(start, TRAILER_BYTES).map_err(unread)?;
        let (length, magic) = trailer.split_at(4);
        if magic != MAGIC {
            return Err(wrong("the file has been cut short".to_owned()));
        }
        let length = u32::from_le_bytes([length[0], length[1], length[2], length[3]]);
        let start = start.checked_sub(u64::from(length));
        let start = start.ok_or_else(|| wrong("it is longer than the file".to_owned()))?;
        let footer = file.read_at(start, length as usize).map_err(unread)?;
        let footer = root_as_footer(&footer).map_err(|error| wrong(error.to_string()))?;
        refuse_unlisted(&file, &footer, start).map_err(wrong)?;
        let schema = footer.schema().ok_or_else(|| wrong("it has no schema".to_owned()))?;
        let schema = Arc::new(read_schema(schema).map_err(wrong)?);
        let mut dictionaries = Dictionaries::new();
        for block in footer.dictionaries().into_iter().flatten() {
            let added = message_at(&file, block)
                .and_then(|message| message.add_dictionary(&schema, &mut dictionaries));
            added.map_err(|reason| file.damaged("a dictionary", reason))?;
        }
        let blocks = footer.recordBatches().into_iter().flatten().copied().collect();
        let dictionaries = Arc::new(dictionaries);
        Ok(Self { file, schema, dictionaries, blocks })
    }

    /// The columns.
    pub fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// The file itself.
    pub fn file(&self) -> &Stored {
        &self.file
    }

    /// A record batch, counted from 0; `None` after the last.
    ///
    /// # Errors
    /// Fails if it cannot be read or is damaged.
    pub fn batch(&self, index: usize) -> Result<Option<Pending>> {
        let Some(block) = self.blocks.get(index) else { return Ok(None) };
        let number = index as u64 + 1;
        message_at(&self.file, block)
            .and_then(|message| Pending::new(message, &self.schema, &self.dictionaries, number))
            .map(Some)
            .map_err(|reason| self.file.damaged(&batch_name(number), reason))
    }
}

/// Refuses a footer that does not list the last messages of the file, whose rows would be missing
/// without an error. `footer_start` is its place in the file.
fn refuse_unlisted(file: &Stored, footer: &Footer<'_>, footer_start: u64) -> Result<(), String> {
    let listed = [footer.dictionaries(), footer.recordBatches()];
    let ends = listed.into_iter().flatten().flatten().map(|block| {
        let lengths = i64::from(block.metaDataLength()).saturating_add(block.bodyLength());
        block.offset().saturating_add(lengths)
    });
    let length_at = |place: u64| {
        let bytes = file.read_at(place, 2 * MARK.len()).ok()?;
        let (mark, length) = bytes.split_at(MARK.len());
        let length = u32::from_le_bytes([length[0], length[1], length[2], length[3]]);
        (mark == MARK).then_some(length)
    };
    let end = match ends.max() {
        Some(end) => u64::try_from(end).unwrap_or(u64::MAX),
        // The schema, of which the footer has a copy, is the first message.
        None => match length_at(SCHEMA_AT) {
            Some(length) => SCHEMA_AT + 2 * MARK.len() as u64 + u64::from(length),
            None => return Ok(()),
        },
    };
    let follows = if end < footer_start { length_at(end) } else { None };
    match follows {
        None | Some(0) => Ok(()),
        Some(_) => Err("it does not list all messages of the file".to_owned()),
    }
}

fn message_at(file: &Arc<Stored>, block: &Block) -> Result<RawMessage, String> {
    let size = |length: i64| usize::try_from(length).map_err(|_| "a length is negative");
    let offset = u64::try_from(block.offset()).map_err(|_| "an offset is negative")?;
    let metadata_length = size(i64::from(block.metaDataLength()))?;
    let body_length = size(block.bodyLength())?;
    RawMessage::stored(file, offset, metadata_length, body_length).map_err(|e| e.to_string())
}
