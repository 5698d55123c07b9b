//! Text in other encodings to UTF-8, byte order marks, and the guess that a
//! file is UTF-16.
//!
//! Stands between [`source`](super::source) and [`block`](super::block); does
//! nothing to UTF-8 but take its byte order mark away.
//!
//! Must never: replace bytes that it cannot decode. Such bytes are an error: a load that silently
//! changes values would be worse than a load that fails.

use std::borrow::Cow;
use std::io::{self, Cursor, Read};

use encoding_rs::{Decoder, DecoderResult, Encoding, UTF_8, UTF_16BE, UTF_16LE};

use super::foreign::refuse_unknown;
use super::source::Opened;
use super::unreadable::Unreadable;
use crate::{Error, ErrorKind, Result};

/// Number of first bytes from which the input's encoding is told.
pub(super) const FIRST_BYTES: usize = 1024;
/// Bytes that are decoded at once.
const CHUNK_BYTES: usize = 64 << 10;

/// Makes `source` give UTF-8 without a byte order mark.
pub(super) fn prepare(source: &mut Opened<'_>, label: Option<&str>) -> Result<()> {
    let wanted = label.map(by_label).transpose()?;
    let mut first = Vec::with_capacity(FIRST_BYTES);
    let read = source.by_ref().take(FIRST_BYTES as u64).read_to_end(&mut first);
    read.map_err(|error| source.describe(error))?;
    let marked = Encoding::for_bom(&first);
    if let Some(name) = utf32(&first) {
        return Err(refuse_utf32(source.name(), name));
    }
    // A mark says more than a label: `utf-16` alone tells no byte order.
    let mark_bytes = marked.map_or(0, |(_, mark_bytes)| mark_bytes);
    let encoding = match (marked, wanted) {
        (Some((marked, _)), Some(_)) => marked,
        (Some((encoding, _)), None) if encoding == UTF_8 => UTF_8,
        (Some((encoding, _)), None) => return Err(needs_encoding(source, encoding)),
        (None, Some(wanted)) => wanted,
        (None, None) => match guess_utf16(&first) {
            Some(encoding) => return Err(needs_encoding(source, encoding)),
            None => refuse_unknown(source.name(), &first).map_or(Ok(UTF_8), Err)?,
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

/// The beginning of a text in the encoding that the caller names, as far as it tells a format: UTF-16
/// becomes UTF-8, and other encodings have the same bytes for ASCII.
pub fn beginning_in_utf8<'f>(first: &'f [u8], label: Option<&str>) -> Cow<'f, [u8]> {
    let Some(label) = label else { return Cow::Borrowed(first) };
    let marked = Encoding::for_bom(first).map(|(encoding, _)| encoding);
    match marked.or_else(|| find_label(label)).or_else(|| guess_utf16(first)) {
        Some(encoding) if encoding == UTF_16LE || encoding == UTF_16BE => {
            let (text, _) = encoding.decode_with_bom_removal(first);
            Cow::Owned(text.into_owned().into_bytes())
        }
        _ => Cow::Borrowed(first),
    }
}

/// Spellings of other programs, such as Python, that the WHATWG's list lacks in any form.
const OTHER_SPELLINGS: [(&str, &str); 9] = [
    ("u8", "utf-8"),
    ("utf8sig", "utf-8"),
    ("utf16", "utf-16"),
    ("utf16le", "utf-16le"),
    ("utf16be", "utf-16be"),
    ("macroman", "macintosh"),
    ("cp932", "shift_jis"),
    ("cp949", "euc-kr"),
    ("cp950", "big5"),
];

fn by_label(label: &str) -> Result<&'static Encoding> {
    find_label(label).ok_or_else(|| {
        if squeezed(label).starts_with("utf32") {
            return Error::misuse("UTF-32 is not read").to_do(advise_iconv("UTF-32"));
        }
        let reason = format!("there is no encoding '{}'", label.escape_debug());
        Error::not_found("encoding", label, reason)
            .to_do("name one as the web does, such as windows-1252, utf-16le, shift_jis; or auto")
    })
}

/// The encoding with this label: in the WHATWG's list, or as other programs spell it, with other
/// hyphens.
fn find_label(label: &str) -> Option<&'static Encoding> {
    let known = |label: &str| Encoding::for_label_no_replacement(label.as_bytes());
    let bare = squeezed(label);
    let other = || OTHER_SPELLINGS.iter().find(|(spelling, _)| *spelling == bare);
    known(label)
        .or_else(|| known(&label.replace('_', "-")))
        .or_else(|| known(&bare))
        .or_else(|| known(other()?.1))
}

/// A label in lower case, without what divides its parts.
fn squeezed(label: &str) -> String {
    label.to_ascii_lowercase().replace(['-', '_', ' '], "")
}

/// Tells whether a label is one of UTF-8.
pub(super) fn is_utf8(label: &str) -> bool {
    find_label(label) == Some(UTF_8)
}

/// The name of UTF-32, if the first bytes are that, with or without a byte order mark. The mark
/// alone does not tell it: that of UTF-16 and a NUL begin alike.
pub(super) fn utf32(first: &[u8]) -> Option<&'static str> {
    let (units, _) = first.as_chunks::<4>();
    // Later planes have next to no letters, and are where lines of one character in UTF-16 fall.
    let is_text = |number: u32| (1..0x4_0000).contains(&number) && char::from_u32(number).is_some();
    match units {
        [] | [_] => None,
        _ if units.iter().all(|it| is_text(u32::from_le_bytes(*it))) => Some("UTF-32LE"),
        _ if units.iter().all(|it| is_text(u32::from_be_bytes(*it))) => Some("UTF-32BE"),
        _ => None,
    }
}

pub(super) fn refuse_utf32(file: &str, name: &str) -> Error {
    let reason = format!("this is {name}, which is not read");
    Error::input(file, reason).to_do(advise_iconv(name))
}

fn advise_iconv(name: &str) -> String {
    format!("convert it first, such as by iconv -f {name} -t UTF-8 OLD > NEW")
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
