//! Pieces to rows: where each row begins, what to do where one is bad.
//!
//! | form | a row is | after a bad row |
//! |---|---|---|
//! | [`Form::Lines`] | an object; a line may hold several | the next line |
//! | [`Form::Objects`] | an object, over any lines | behind its last bracket |
//! | [`Form::Array`] | an element of the one array | the next element, or the end: where the array's own syntax is broken nothing is certain any more |
//!
//! Runs on any thread. Must never: take a key of a bad row for a column.

use std::sync::Arc;

use memchr::{memchr, memchr_iter, memrchr};

use super::batch::{JsonBatch, JsonPiece, Row};
use super::fault::{Fault, What};
use super::keys::Keys;
use super::nesting::Nesting;
use super::parse::{Mark, Parsed, Parser};
use super::repeats::{self, OfPass};
use super::text::{nested, skip_blank, skip_scalar};
use crate::input::csv::locate::{EXCERPT_BYTES_MAX, excerpt};
use crate::input::rows::{BadInputRow, DecodeHalt, RowDecoder};
use crate::{BadRow, Error, ErrorKind};

/// The layout of rows in an input.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// Objects, each on one line.
    Lines,
    /// Objects one after the other, on any lines.
    Objects,
    /// One array of objects.
    Array,
}

/// Makes rows of pieces.
#[derive(Debug, Clone)]
pub struct JsonDecoder {
    pub(super) file: Arc<str>,
    pub(super) form: Form,
    pub(super) keys: Arc<Keys>,
    pub(super) repeats: OfPass,
}

impl RowDecoder for JsonDecoder {
    type Raw = JsonPiece;
    type Batch = JsonBatch;

    fn decode(&self, raw: &mut JsonPiece, batch: &mut JsonBatch) -> Result<(), DecodeHalt> {
        decode(&self.file, self.form, &self.keys, NewKeys::Halt, raw, batch)?;
        if let Some(found) = batch.repeats() {
            repeats::add(&self.repeats, found);
        }
        Ok(())
    }
}

/// The treatment of keys that are no column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NewKeys {
    /// Stop.
    Halt,
    /// Go on, and keep them in the batch.
    Collect,
}

/// Takes a piece apart.
pub(super) fn decode(
    file: &str,
    form: Form,
    keys: &Keys,
    new_keys: NewKeys,
    raw: &mut JsonPiece,
    batch: &mut JsonBatch,
) -> Result<(), DecodeHalt> {
    batch.begin(raw, keys.len());
    let JsonBatch { piece, rows, parsed, bad_rows, found } = batch;
    let bytes = piece.block.bytes();
    let mut decoding = Decoding {
        file,
        bytes,
        keys,
        new_keys,
        is_utf8: simdutf8::basic::from_utf8(piece.block.data()).is_ok(),
        place: Place {
            at: piece.block.start(),
            line: piece.block.first_line(),
            line_start: piece.block.start() as i64 - piece.bytes_before as i64,
        },
        first_line: piece.block.first_line(),
        rows,
        parsed,
        bad_rows,
        found,
    };
    let start = piece.block.start();
    match form {
        Form::Lines => decoding.lines(start),
        Form::Objects => decoding.objects(start),
        Form::Array => decoding.array(start, piece),
    }
}

/// An offset, and the line that it is on.
#[derive(Debug, Clone, Copy)]
struct Place {
    at: usize,
    line: u64,
    /// Offset where that line starts, also if that is before the piece; then it may be negative.
    line_start: i64,
}

impl Place {
    /// Counts on to `at`, which must not lie before.
    #[inline]
    fn advance(&mut self, bytes: &[u8], at: usize) {
        let between = &bytes[self.at..at];
        if let Some(last) = memrchr(b'\n', between) {
            self.line += 1 + memchr_iter(b'\n', &between[..last]).count() as u64;
            self.line_start = (self.at + last + 1) as i64;
        }
        self.at = at;
    }

    fn column(self) -> u64 {
        (self.at as i64 - self.line_start) as u64 + 1
    }
}

/// A piece that is being taken apart.
struct Decoding<'d> {
    file: &'d str,
    bytes: &'d [u8],
    keys: &'d Keys,
    new_keys: NewKeys,
    is_utf8: bool,
    /// The place up to which lines are counted.
    place: Place,
    first_line: u64,
    rows: &'d mut Vec<Row>,
    parsed: &'d mut Parsed,
    bad_rows: &'d mut Vec<BadInputRow>,
    found: &'d mut Keys,
}

/// The numbers of rows and cells before a row, to go back to if the row is bad.
#[derive(Clone, Copy)]
struct GoodSoFar {
    rows: usize,
    mark: Mark,
}

/// A row as the parser left it.
enum Outcome {
    /// A good row, which ends here.
    Good(usize),
    /// A bad one whose end is known.
    Bad(usize, Fault),
    /// No JSON from here on.
    Broken(Fault),
}

impl Decoding<'_> {
    fn lines(&mut self, start: usize) -> Result<(), DecodeHalt> {
        let bytes = self.bytes;
        let mut at = start;
        while at < bytes.len() {
            let end = memchr(b'\n', &bytes[at..]).map_or(bytes.len(), |length| at + length);
            let good = self.good_so_far();
            if let Err(fault) = self.line(at, end) {
                self.go_back(good);
                self.reject(at, end, fault);
            }
            self.settle_keys()?;
            at = end + 1;
            self.place = Place { at, line: self.place.line + 1, line_start: at as i64 };
        }
        Ok(())
    }

    /// The rows of one line, which ends at `end`.
    #[inline(always)]
    fn line(&mut self, start: usize, end: usize) -> Result<(), Fault> {
        let bytes = &self.bytes[..end];
        let mut at = skip_blank(bytes, start);
        let mut is_first = true;
        while let Some(&byte) = bytes.get(at) {
            if byte != b'{' {
                let what = if is_first { not_an_object(byte) } else { What::Trailing(byte) };
                return Err(Fault::new(at, what));
            }
            match self.object(at, end) {
                Outcome::Good(row_end) => at = skip_blank(bytes, row_end),
                Outcome::Bad(_, fault) | Outcome::Broken(fault) => return Err(fault),
            }
            is_first = false;
        }
        Ok(())
    }

    fn objects(&mut self, start: usize) -> Result<(), DecodeHalt> {
        let bytes = self.bytes;
        let mut at = skip_blank(bytes, start);
        while let Some(&byte) = bytes.get(at) {
            self.place.advance(bytes, at);
            let good = self.good_so_far();
            let outcome = if byte == b'{' {
                self.object(at, bytes.len())
            } else {
                Outcome::Bad(stray_end(bytes, at), Fault::new(at, not_an_object(byte)))
            };
            let (end, fault) = match outcome {
                Outcome::Good(end) => (end, None),
                Outcome::Bad(end, fault) => (end, Some(fault)),
                Outcome::Broken(fault) => (bracket_end(bytes, at), Some(fault)),
            };
            if let Some(fault) = fault {
                self.go_back(good);
                self.reject(at, end, fault);
            }
            self.settle_keys()?;
            at = skip_blank(bytes, end);
        }
        Ok(())
    }

    fn array(&mut self, start: usize, piece: &JsonPiece) -> Result<(), DecodeHalt> {
        let bytes = self.bytes;
        let mut at = skip_blank(bytes, start);
        if piece.is_after_array {
            return self.nothing_but_blanks(at);
        }
        let mut is_first = piece.is_first;
        if is_first {
            if bytes.get(at) != Some(&b'[') {
                return Err(self.failed(Fault::expected("'['", bytes, at)));
            }
            at = skip_blank(bytes, at + 1);
        }
        while let Some(&byte) = bytes.get(at) {
            match byte {
                b']' => return self.nothing_but_blanks(skip_blank(bytes, at + 1)),
                _ if is_first => {}
                b',' => at = skip_blank(bytes, at + 1),
                _ => return Err(self.failed(Fault::expected("',' or ']'", bytes, at))),
            }
            is_first = false;
            at = skip_blank(bytes, self.element(at)?);
        }
        Ok(())
    }

    /// Reads the array's element at `at`; returns the offset behind it.
    fn element(&mut self, at: usize) -> Result<usize, DecodeHalt> {
        let bytes = self.bytes;
        self.place.advance(bytes, at);
        let good = self.good_so_far();
        let outcome = if bytes.get(at) == Some(&b'{') {
            self.object(at, bytes.len())
        } else {
            self.other_element(at)
        };
        let end = match outcome {
            Outcome::Good(end) => end,
            Outcome::Bad(end, fault) => {
                self.go_back(good);
                self.reject(at, end, fault);
                end
            }
            Outcome::Broken(fault) => return Err(self.failed(fault)),
        };
        self.settle_keys()?;
        Ok(end)
    }

    /// An element that is no object: a bad row, if it is JSON at all.
    #[cold]
    fn other_element(&mut self, at: usize) -> Outcome {
        let bytes = self.bytes;
        let skipped = match bytes.get(at) {
            Some(b'[') => nested(bytes, at, &mut self.parsed.side).map(|nested| nested.end),
            _ => skip_scalar(bytes, at),
        };
        match (skipped, bytes.get(at)) {
            (Ok(end), Some(&byte)) => Outcome::Bad(end, Fault::new(at, not_an_object(byte))),
            _ => Outcome::Broken(Fault::expected("an object", bytes, at)),
        }
    }

    fn nothing_but_blanks(&mut self, at: usize) -> Result<(), DecodeHalt> {
        if at == self.bytes.len() {
            return Ok(());
        }
        Err(self.failed(Fault::new(at, What::AfterArray)))
    }

    /// Reads the object at `start`, which ends before `limit`.
    #[inline(always)]
    fn object(&mut self, start: usize, limit: usize) -> Outcome {
        let first_cell = self.parsed.cells.len();
        let mut parser = Parser {
            bytes: &self.bytes[..limit],
            keys: self.keys,
            parsed: self.parsed,
            content_fault: None,
        };
        let end = match parser.object(start) {
            Ok(end) => end,
            Err(fault) => return Outcome::Broken(fault),
        };
        let mut content_fault = parser.content_fault;
        if !self.is_utf8 {
            content_fault = content_fault.or(not_utf8(self.bytes, start, end));
        }
        if let Some(fault) = content_fault {
            return Outcome::Bad(end, fault);
        }
        self.rows.push(Row {
            start: start as u32,
            end: end as u32,
            first_cell: first_cell as u32,
            cells_end: self.parsed.cells.len() as u32,
            lines_before: (self.place.line - self.first_line) as u32,
        });
        Outcome::Good(end)
    }

    fn good_so_far(&self) -> GoodSoFar {
        GoodSoFar { rows: self.rows.len(), mark: self.parsed.mark() }
    }

    #[cold]
    fn go_back(&mut self, good: GoodSoFar) {
        self.rows.truncate(good.rows);
        self.parsed.go_back(good.mark);
    }

    /// Handles the unknown keys of a row that is known to be good: collects them, or stops at
    /// the first.
    #[inline(always)]
    fn settle_keys(&mut self) -> Result<(), DecodeHalt> {
        if self.parsed.unknown.is_empty() {
            return Ok(());
        }
        if self.new_keys == NewKeys::Halt {
            return Err(DecodeHalt::NewColumn);
        }
        for key in self.parsed.unknown.drain(..) {
            self.found.add(&key);
        }
        Ok(())
    }

    /// The place of a fault, which must not lie before the counted place. If something is
    /// missing at the end of the piece, the place is behind the last byte that is no blank.
    fn place_of(&self, fault: Fault) -> Place {
        let mut place = self.place;
        let mut at = fault.at.min(self.bytes.len());
        if at == self.bytes.len() {
            at = self.bytes.trim_ascii_end().len();
        }
        place.advance(self.bytes, at.max(place.at));
        place
    }

    /// Notes that the row at `start..end` is bad.
    #[cold]
    fn reject(&mut self, start: usize, end: usize, fault: Fault) {
        let place = self.place_of(fault);
        let bad_row = BadRow {
            file: self.file.to_owned(),
            line: place.line,
            column: place.column(),
            reason: fault.what.to_string(),
            row: excerpt(self.bytes, start, end, EXCERPT_BYTES_MAX),
        };
        let original = self.bytes[start..end].to_vec();
        self.bad_rows.push(BadInputRow { good_rows_before: self.rows.len(), bad_row, original });
    }

    /// The error of an array that cannot be read further.
    #[cold]
    fn failed(&self, fault: Fault) -> DecodeHalt {
        let place = self.place_of(fault);
        let reason = format!("line {}, column {}: {}", place.line, place.column(), fault.what);
        Error::from(ErrorKind::Input { file: self.file.to_owned(), reason })
            .to_do("correct the array there: what follows cannot be told apart; of objects in lines, bad ones can be left out")
            .into()
    }
}

/// The fault of a row that is not an object, told by the row's first byte.
fn not_an_object(first: u8) -> What {
    match first {
        b'[' => What::NotAnObject("an array"),
        b'"' => What::NotAnObject("a string"),
        b'-' | b'0'..=b'9' => What::NotAnObject("a number"),
        b'n' | b't' | b'f' => What::NotAnObject("a plain word"),
        b',' => What::Trailing(b','),
        byte => What::Expected("an object in braces", Some(byte)),
    }
}

/// The first byte of `start..end` that is not UTF-8.
#[cold]
fn not_utf8(bytes: &[u8], start: usize, end: usize) -> Option<Fault> {
    let error = simdutf8::compat::from_utf8(&bytes[start..end]).err()?;
    Some(Fault::new(start + error.valid_up_to(), What::NotUtf8))
}

/// Number of bytes that are searched together for the end of a bad row.
const STEP_BYTES: usize = 512;

/// Offset behind the closing bracket of the value that begins at `start`; only brackets are
/// looked at.
#[cold]
fn bracket_end(bytes: &[u8], start: usize) -> usize {
    let mut nesting = Nesting::default();
    let mut at = start;
    for step in bytes[start..].chunks(STEP_BYTES) {
        let mut found = None;
        nesting.scan(step, |depth, end| {
            if depth == 0 {
                found.get_or_insert(at + end);
            }
        });
        if let Some(end) = found {
            return end;
        }
        at += step.len();
    }
    bytes.len()
}

/// Offset where a stray value ends: behind its closing bracket if it is an array, else at the
/// end of its line or at the next object.
#[cold]
fn stray_end(bytes: &[u8], start: usize) -> usize {
    if bytes[start] == b'[' {
        return bracket_end(bytes, start);
    }
    let rest = &bytes[start + 1..];
    memchr::memchr2(b'\n', b'{', rest).map_or(bytes.len(), |length| start + 1 + length)
}
