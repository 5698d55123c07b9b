//! The encoding of an input's bytes, where nothing says it.
//!
//! Stands beside [`encoding`](super::encoding), which decodes by the answer: for `--encoding
//! auto`, and for the advice in messages about bytes that are not UTF-8.
//!
//! Must never: decode, or call a guess certain.

use std::io::Read;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use chardetng::{EncodingDetector, Iso2022JpDetection, Utf8Detection};
use encoding_rs::{
    Encoding, ISO_8859_2, ISO_8859_4, WINDOWS_1250, WINDOWS_1252, WINDOWS_1254, WINDOWS_1257,
    WINDOWS_1258,
};

use super::encoding::{FIRST_BYTES, guess_utf16, is_utf8, refuse_utf32, utf32};
use super::source::Source;
use crate::{Error, Result};

/// The label that asks for the detection.
pub const AUTO: &str = "auto";

/// Bytes that are read at once.
const CHUNK_BYTES: usize = 1 << 20;
/// Bytes that are shown to the detector from the first one on that is not UTF-8, and the chunk
/// before it.
const EVIDENCE_BYTES_MAX: usize = 8 << 20;
/// Number of bytes beyond ASCII below which encodings are easily mistaken for one another.
const NON_ASCII_FEW: u64 = 20;

/// Bytes that are no character in windows-1252, and letters or lines in the encodings of DOS.
const UNUSED_IN_1252: [u8; 5] = [0x81, 0x8D, 0x8F, 0x90, 0x9D];
/// Encodings of Latin letters, one byte each, that are easily mistaken for windows-1252.
const LATIN: [&Encoding; 6] =
    [WINDOWS_1250, WINDOWS_1254, WINDOWS_1257, WINDOWS_1258, ISO_8859_2, ISO_8859_4];

/// Returns true if a label always means another encoding than UTF-8, whatever the bytes are.
pub fn is_other(label: Option<&str>) -> bool {
    !is_auto(label) && label.is_some_and(|label| !is_utf8(label))
}

/// Tells whether a label asks for the detection.
pub fn is_auto(label: Option<&str>) -> bool {
    label.is_some_and(|label| label.eq_ignore_ascii_case(AUTO))
}

/// An encoding that fits bytes which are not UTF-8.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Guess {
    encoding: &'static Encoding,
    /// The bytes beyond ASCII that it rests on.
    non_ascii: u64,
    /// True if some of them are control characters in it.
    makes_controls: bool,
}

impl Guess {
    /// The encoding's name, as `--encoding` takes it.
    pub fn label(self) -> String {
        label_of(self.encoding)
    }

    /// The certainty of the guess, in words.
    pub fn how_sure(self) -> String {
        match self.non_ascii {
            _ if self.makes_controls => {
                "not sure: some bytes are control characters in it; a file of DOS, in \
                 cp437 or cp850, is converted with iconv first"
                    .to_owned()
            }
            1 => "not sure: it rests on 1 byte that is not ASCII".to_owned(),
            count if count < NON_ASCII_FEW => {
                format!("not sure: it rests on {count} bytes that are not ASCII")
            }
            count => format!("likely, by {count} bytes that are not ASCII"),
        }
    }

    /// The advice that names the flag.
    pub fn advice(self) -> String {
        format!(
            "load it with ⟦encoding {}⟧ if that is its encoding ({}); or correct the row, or leave \
             bad rows out with ⟦skip_bad_rows⟧",
            self.label(),
            self.how_sure()
        )
    }
}

/// The encoding that fits `bytes`, which are not UTF-8; `None` if they mostly are, so that
/// another encoding would damage more than it explains.
pub fn guess(bytes: &[u8]) -> Option<Guess> {
    let mut evidence = Evidence::default();
    evidence.add(bytes);
    evidence.guess()
}

/// The outcome of a detection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Detected {
    /// The label to decode by.
    pub label: String,
    /// A note that says which encoding it is, and how sure that is.
    pub note: String,
}

/// Finds an input's encoding: by its byte order mark, by UTF-16's zeros, or by reading it to
/// its first byte that is not UTF-8 and some way beyond. A stream is read to its end, and must
/// be one that can be read again.
///
/// # Errors
/// If the input cannot be read, or is UTF-32.
pub fn detect(source: &mut Source<'_>) -> Result<Detected> {
    let is_stream = source.is_stream();
    let mut opened = source.open(&Arc::new(AtomicU64::new(0)))?;
    let name = opened.name().to_owned();
    let says = |label: String, how: &str| {
        let note = format!("{name} is read as {label}: {how}");
        Detected { label, note }
    };
    let (mut chunk, mut evidence, mut found) = (Vec::new(), Evidence::default(), None);
    let mut is_first = true;
    loop {
        // A character that the last chunk cut stays for this one.
        let wanted = CHUNK_BYTES as u64;
        let before = chunk.len();
        let read = opened.by_ref().take(wanted).read_to_end(&mut chunk);
        read.map_err(|error| opened.describe(error))?;
        let is_end = chunk.len() == before;
        if found.is_none() && is_first {
            is_first = false;
            if let Some(utf32) = utf32(&chunk[..chunk.len().min(FIRST_BYTES)]) {
                return Err(refuse_utf32(&name, utf32));
            }
            found = by_beginning(&chunk).map(|(encoding, how)| says(label_of(encoding), how));
        }
        if found.is_none() {
            evidence.add_chunk(&mut chunk, is_end);
        } else {
            chunk.clear();
        }
        let is_enough = found.is_some() || evidence.is_enough();
        if is_end || (is_enough && !is_stream) {
            break;
        }
    }
    Ok(found.unwrap_or_else(|| match (evidence.first_bad, evidence.guess()) {
        (None, _) if evidence.multi_byte == 0 => says("utf-8".to_owned(), "it is all ASCII"),
        (None, _) => says("utf-8".to_owned(), "all of it is valid"),
        (Some(at), None) => {
            says("utf-8".to_owned(), &format!("nearly all of it is valid, but not byte {}", at + 1))
        }
        (Some(_), Some(guess)) => says(guess.label(), &guess.how_sure()),
    }))
}

/// The encoding that the first bytes alone tell.
fn by_beginning(first: &[u8]) -> Option<(&'static Encoding, &'static str)> {
    if let Some((encoding, _)) = Encoding::for_bom(first) {
        return Some((encoding, "its byte order mark says so"));
    }
    let utf16 = guess_utf16(&first[..first.len().min(FIRST_BYTES)])?;
    Some((utf16, "likely, as every other byte is zero"))
}

fn label_of(encoding: &'static Encoding) -> String {
    encoding.name().to_ascii_lowercase()
}

/// Counts of the bytes of an input, and the detector that was shown them.
struct Evidence {
    detector: EncodingDetector,
    bytes_seen: u64,
    /// The place of the first byte that is not UTF-8.
    first_bad: Option<u64>,
    /// Bytes that were shown to the detector.
    shown_bytes: usize,
    non_ascii: u64,
    /// Sequences of more than one byte that are UTF-8, and bytes that are not.
    multi_byte: u64,
    bad: u64,
    /// Halves of surrogate pairs, written as if they were characters; of each, three bytes are bad.
    surrogates: u64,
    /// True if there is a byte that is no character in windows-1252.
    has_unused: bool,
}

impl Default for Evidence {
    fn default() -> Self {
        Self {
            detector: EncodingDetector::new(Iso2022JpDetection::Deny),
            bytes_seen: 0,
            first_bad: None,
            shown_bytes: 0,
            non_ascii: 0,
            multi_byte: 0,
            bad: 0,
            surrogates: 0,
            has_unused: false,
        }
    }
}

impl Evidence {
    /// Looks at a chunk and empties it, but for a character that its end cuts.
    fn add_chunk(&mut self, chunk: &mut Vec<u8>, is_end: bool) {
        let cut = if is_end { 0 } else { cut_character_bytes(chunk) };
        let whole = chunk.len() - cut;
        self.add(&chunk[..whole]);
        chunk.drain(..whole);
    }

    fn add(&mut self, bytes: &[u8]) {
        if self.is_enough() {
            return;
        }
        self.count(bytes);
        if self.first_bad.is_some() {
            self.shown_bytes += bytes.len();
            self.non_ascii += bytes.iter().filter(|byte| !byte.is_ascii()).count() as u64;
            self.has_unused |= bytes.iter().any(|byte| UNUSED_IN_1252.contains(byte));
            self.detector.feed(bytes, false);
        }
        self.bytes_seen += bytes.len() as u64;
    }

    /// Counts what is UTF-8 beyond ASCII, and what is not.
    fn count(&mut self, mut rest: &[u8]) {
        let mut at = self.bytes_seen;
        while let Err(error) = simdutf8::compat::from_utf8(rest) {
            let (valid, bad) = rest.split_at(error.valid_up_to());
            self.multi_byte += leads(valid);
            self.bad += 1;
            self.surrogates += u64::from(matches!(bad, [0xED, 0xA0..=0xBF, 0x80..=0xBF, ..]));
            at += valid.len() as u64;
            self.first_bad.get_or_insert(at);
            let skipped = error.error_len().unwrap_or(bad.len());
            at += skipped as u64;
            rest = &bad[skipped..];
        }
        self.multi_byte += leads(rest);
    }

    fn is_enough(&self) -> bool {
        self.shown_bytes >= EVIDENCE_BYTES_MAX
    }

    fn guess(&self) -> Option<Guess> {
        let is_other_utf8 = self.bad <= self.surrogates * 3;
        if self.first_bad.is_none() || self.multi_byte > self.bad || is_other_utf8 {
            return None;
        }
        let mut encoding = self.detector.guess(None, Utf8Detection::Deny);
        if self.non_ascii < NON_ASCII_FEW && LATIN.contains(&encoding) {
            // A few letters do not tell these apart, and this one is by far the most used.
            encoding = WINDOWS_1252;
        }
        let makes_controls = encoding == WINDOWS_1252 && self.has_unused;
        Some(Guess { encoding, non_ascii: self.non_ascii, makes_controls })
    }
}

/// Bytes that begin a character of more than one byte.
fn leads(bytes: &[u8]) -> u64 {
    if bytes.is_ascii() {
        return 0;
    }
    bytes.iter().filter(|byte| **byte >= 0xC0).count() as u64
}

/// The number of bytes at the end that are the beginning of a character.
fn cut_character_bytes(bytes: &[u8]) -> usize {
    let tail = &bytes[bytes.len() - bytes.len().min(3)..];
    let is_cut =
        |part: &[u8]| std::str::from_utf8(part).is_err_and(|error| error.error_len().is_none());
    let lead = tail.iter().rposition(|byte| *byte >= 0xC0);
    lead.filter(|at| is_cut(&tail[*at..])).map_or(0, |at| tail.len() - at)
}

/// The error of an input whose bytes are not UTF-8 where a whole load depends on them, such as
/// in a column's name.
pub fn advise(error: Error, bytes: &[u8]) -> Error {
    if bytes.contains(&0) {
        return error.to_do(
            "see whether it is a text file: it holds NUL bytes, as other files do; if it is one \
             in UTF-16, load it with ⟦encoding utf-16le⟧",
        );
    }
    match guess(bytes) {
        Some(guess) => error.to_do(format!(
            "load it with ⟦encoding {}⟧ if that is its encoding ({})",
            guess.label(),
            guess.how_sure()
        )),
        None => error.to_do("correct it, or name its encoding with ⟦encoding⟧"),
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    const FRENCH: &str = "nom;ville\nJosé;Besançon\nHélène;Nîmes\nÉmile;Orléans\n";

    fn encoded(text: &str, label: &str) -> Vec<u8> {
        let encoding = Encoding::for_label(label.as_bytes()).unwrap();
        let (bytes, _, is_lossy) = encoding.encode(text);
        assert!(!is_lossy, "{label}");
        bytes.into_owned()
    }

    fn detected(bytes: &[u8]) -> Detected {
        let mut source = Source::reader("a.csv", bytes, Some(Path::new(".")));
        detect(&mut source).unwrap()
    }

    #[test]
    fn encodings_are_guessed_from_their_text() {
        for (text, label) in [
            (FRENCH, "windows-1252"),
            ("имя;город\nИван;Москва и Санкт-Петербург\nМария;Новосибирск\n", "windows-1251"),
            ("名前,都市\n太郎,東京\n花子,大阪と京都のあいだ\n", "shift_jis"),
            ("名字,城市\n小明,北京市朝阳区\n小红,上海市浦东新区\n", "gbk"),
        ] {
            let guess = guess(&encoded(text, label)).expect(label);
            assert_eq!(guess.label(), label);
        }
        // A text of few letters.
        for (text, label) in [("José Hernández", "windows-1252"), ("Иван Иванов", "windows-1251")]
        {
            let guess = guess(&encoded(text, label)).expect(label);
            assert_eq!(guess.label(), label);
        }
        let czech = "Příliš žluťoučký kůň úpěl ďábelské ódy; ".repeat(3);
        assert_eq!(guess(&encoded(&czech, "windows-1250")).unwrap().label(), "windows-1250");
    }

    #[test]
    fn text_that_is_mostly_utf8_is_taken_for_no_other() {
        let mut bytes = FRENCH.as_bytes().to_vec();
        bytes.extend_from_slice(b"\xe9\n");
        assert_eq!(guess(&bytes), None);
        let found = detected(&bytes);
        assert_eq!(found.label, "utf-8");
        let place = format!("but not byte {}", FRENCH.len() + 1);
        assert!(found.note.ends_with(&place), "{}", found.note);
    }

    #[test]
    fn a_detection_says_how_sure_it_is() {
        for (bytes, expected) in [
            (&b"a,b\n"[..], "a.csv is read as utf-8: it is all ASCII"),
            ("é\n".as_bytes(), "a.csv is read as utf-8: all of it is valid"),
            (b"\xef\xbb\xbfa\n", "a.csv is read as utf-8: its byte order mark says so"),
            (b"\xff\xfea\0\n\0", "a.csv is read as utf-16le: its byte order mark says so"),
            (
                b"a\0,\0b\0\n\0c\0,\0d\0\n\0",
                "a.csv is read as utf-16le: likely, as every other byte is zero",
            ),
            (
                b"name\nJos\xe9\n",
                "a.csv is read as windows-1252: not sure: it rests on 1 byte that is not ASCII",
            ),
        ] {
            assert_eq!(detected(bytes).note, expected);
        }
        let long = encoded(&FRENCH.repeat(9), "windows-1252");
        assert!(detected(&long).note.contains("likely, by 63 bytes"), "{}", detected(&long).note);
    }

    #[test]
    fn the_first_bad_byte_is_found_wherever_it_stands() {
        // A character that two chunks share is no bad byte.
        let mut bytes = vec![b'a'; CHUNK_BYTES - 1];
        bytes.extend_from_slice("é€😀\n".as_bytes());
        assert_eq!(detected(&bytes).note, "a.csv is read as utf-8: all of it is valid");
        let mut bytes = vec![b'a'; 3 * CHUNK_BYTES];
        bytes.extend_from_slice(&encoded(FRENCH, "windows-1252"));
        assert_eq!(detected(&bytes).label, "windows-1252");
    }

    #[test]
    fn a_cut_character_is_told_from_a_whole_one() {
        for (bytes, expected) in [
            ("é".as_bytes(), 0),
            (b"a\xc3", 1),
            (b"\xf0\x9f\x98", 3),
            (b"\xe2\x82", 2),
            (b"\x80", 0),
        ] {
            assert_eq!(cut_character_bytes(bytes), expected, "{bytes:x?}");
        }
        assert_eq!(cut_character_bytes("aé€".as_bytes()), 0);
        assert_eq!(cut_character_bytes(b"a\x82\x82\xc3"), 1);
    }
}
