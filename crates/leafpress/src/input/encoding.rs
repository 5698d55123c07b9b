//! Text in other encodings to UTF-8, byte order marks, and the guess that a
//! file is UTF-16.
//!
//! Stands between [`source`](super::source) and [`block`](super::block); does
//! nothing to UTF-8 but take its byte order mark away.
//!
//! Must never: replace bytes that it cannot decode. Such bytes are an error: a load that silently
//! changes values would be worse than a load that fails.

use std::io::{self, Cursor, Read};

use encoding_rs::{Decoder, DecoderResult, Encoding, UTF_8, UTF_16BE, UTF_16LE};

use super::source::{Opened, Unreadable};
use crate::{Error, ErrorKind, Result};

/// Number of first bytes from which the input's encoding is told.
pub(super) const FIRST_BYTES: usize = 1024;
/// Bytes that are decoded at once.
const CHUNK_BYTES: usize = 64 << 10;

/// Makes `source` give UTF-8 without a byte order mark.
pub(super) fn prepare(source: &mut Opened<'_>, label: Option<&str>) -> Result<()> {
    let wanted = label.map(by_label).transpose()?;
    let mut first = Vec::new();
    let read = source.by_ref().take(FIRST_BYTES as u64).read_to_end(&mut first);
    read.map_err(|error| source.describe(error))?;
    let marked = Encoding::for_bom(&first);
    // A mark says more than a label: `utf-16` alone tells no byte order.
    let mark_bytes = marked.map_or(0, |(_, mark_bytes)| mark_bytes);
    let encoding = match (marked, wanted) {
        (Some((marked, _)), Some(_)) => marked,
        (Some((encoding, _)), None) if encoding == UTF_8 => UTF_8,
        (Some((encoding, _)), None) => return Err(needs_encoding(source, encoding)),
        (None, Some(wanted)) => wanted,
        (None, None) => match guess_utf16(&first) {
            Some(encoding) => return Err(needs_encoding(source, encoding)),
            None => UTF_8,
        },
    };
    first.drain(..mark_bytes);
    if encoding == UTF_8 {
        source.wrap(|reader| Box::new(Cursor::new(first).chain(reader)));
    } else {
        let first_offset = mark_bytes as u64;
        source.wrap(|reader| Box::new(Transcoder::new(encoding, first, first_offset, reader)));
    }
    Ok(())
}

/// The encoding with this label, in the WHATWG's list.
fn by_label(label: &str) -> Result<&'static Encoding> {
    Encoding::for_label_no_replacement(label.as_bytes()).ok_or_else(|| {
        let reason = format!("there is no encoding '{}'", label.escape_debug());
        Error::not_found("encoding", label, reason)
            .to_do("name one as the web does, such as windows-1252, utf-16le, shift_jis; or auto")
    })
}

/// Tells whether a label is one of UTF-8.
pub(super) fn is_utf8(label: &str) -> bool {
    Encoding::for_label(label.as_bytes()) == Some(UTF_8)
}

fn needs_encoding(source: &Opened<'_>, encoding: &'static Encoding) -> Error {
    let label = encoding.name().to_ascii_lowercase();
    let reason = format!("this looks like {}, not UTF-8", encoding.name());
    Error::from(ErrorKind::Input { file: source.name().to_owned(), reason })
        .to_do(format!("load it with ⟦encoding {label}⟧ (or utf-8, if it is that after all)"))
}

/// Text of mostly ASCII in UTF-16 has a NUL in every other byte.
pub(super) fn guess_utf16(first: &[u8]) -> Option<&'static Encoding> {
    let (pairs, _) = first.as_chunks::<2>();
    let count = |side: usize| pairs.iter().filter(|pair| pair[side] == 0).count();
    let (high_first, low_first) = (count(0), count(1));
    let most = pairs.len() - pairs.len() / 4;
    match (high_first, low_first) {
        _ if pairs.len() < 2 => None,
        (0, nuls) if nuls >= most => Some(UTF_16LE),
        (nuls, 0) if nuls >= most => Some(UTF_16BE),
        _ => None,
    }
}

/// Reads one encoding and gives another: UTF-8.
struct Transcoder<R> {
    reader: R,
    encoding: &'static Encoding,
    decoder: Decoder,
    /// Bytes read; those not yet decoded begin at `position`.
    input: Vec<u8>,
    position: usize,
    /// Number of bytes of the input before `input`.
    input_offset: u64,
    is_ended: bool,
    /// Decoded UTF-8 for which the caller's buffer had no room; the part not yet given begins at
    /// `given`.
    output: String,
    given: usize,
}

impl<R: Read> Transcoder<R> {
    fn new(encoding: &'static Encoding, first: Vec<u8>, first_offset: u64, reader: R) -> Self {
        Self {
            reader,
            encoding,
            decoder: encoding.new_decoder_without_bom_handling(),
            input: first,
            position: 0,
            input_offset: first_offset,
            is_ended: false,
            output: String::with_capacity(4 * CHUNK_BYTES),
            given: 0,
        }
    }

    fn read_input(&mut self) -> io::Result<()> {
        self.input_offset += self.position as u64;
        self.position = 0;
        self.input.resize(CHUNK_BYTES, 0);
        let read = self.reader.read(&mut self.input);
        self.input.truncate(*read.as_ref().unwrap_or(&0));
        self.is_ended = matches!(read, Ok(0));
        read.map(|_| ())
    }

    /// Decodes the bytes read so far, and reads more if all of them are decoded.
    fn decode(&mut self) -> io::Result<()> {
        self.output.clear();
        self.given = 0;
        if self.position == self.input.len() {
            self.read_input()?;
        }
        let input = &self.input[self.position..];
        let (result, read) = self.decoder.decode_to_string_without_replacement(
            input,
            &mut self.output,
            self.is_ended,
        );
        self.position += read;
        match result {
            DecoderResult::InputEmpty | DecoderResult::OutputFull => Ok(()),
            DecoderResult::Malformed(length, after) => {
                let before = u64::from(length) + u64::from(after);
                let at = self.input_offset + self.position as u64 + 1 - before;
                Err(io::Error::other(Unreadable(format!(
                    "byte {at} and what follows are not {}",
                    self.encoding.name()
                ))))
            }
        }
    }
}

impl<R: Read> Read for Transcoder<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.given == self.output.len() {
            if self.is_ended && self.position == self.input.len() {
                return Ok(0);
            }
            self.decode()?;
        }
        let ready = &self.output.as_bytes()[self.given..];
        let count = ready.len().min(buffer.len());
        buffer[..count].copy_from_slice(&ready[..count]);
        self.given += count;
        Ok(count)
    }
}
