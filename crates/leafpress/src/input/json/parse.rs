//! One object to cells: the hot loop.
//!
//! A parser of our own, though good ones exist, as none of them gives what a
//! loader wants without a detour: numbers with both their value and their text,
//! nested values as text, strings as offsets into the block, the place of an
//! error, and all of it without an allocation or a second look at the bytes.
//! (`serde_json` parses a raw value twice; jiter and sonic-rs come near, and
//! bring much `unsafe`; simd-json writes into its input.) What such a parser
//! must know is little: it is tested against `serde_json` with random input.
//!
//! Stands between the decoder, which finds rows, and [`text`](super::text) and
//! [`number`](super::number), which read values.
//!
//! Must never: allocate once its buffers have reached their size, or take what
//! is no JSON.

use super::fault::Fault;
use super::keys::Keys;
use super::number::{self, number};
use super::text::{nested, skip_blank, string_end, unescape};

/// Stands for the column of a key that is not known yet.
const UNKNOWN: u32 = u32::MAX;

/// The kind of a cell's value, and where its text lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Null,
    False,
    True,
    /// The payload, and its text in the block.
    Integer,
    /// The bits of the payload, and its text in the block.
    Real,
    /// Text in the block.
    Text,
    /// Text in the side buffer.
    SideText,
}

/// One value of a row.
#[derive(Debug, Clone, Copy)]
pub struct Cell {
    pub payload: u64,
    pub start: u32,
    pub len: u32,
    pub column: u32,
    pub kind: Kind,
}

impl Cell {
    #[inline(always)]
    fn new(kind: Kind, payload: u64, start: usize, end: usize) -> Self {
        let len = end.wrapping_sub(start) as u32;
        Self { payload, start: start as u32, len, column: 0, kind }
    }
}

/// The parser's output, used again from batch to batch.
#[derive(Debug, Default)]
pub struct Parsed {
    pub cells: Vec<Cell>,
    /// Text that does not stand in the block as it is.
    pub side: Vec<u8>,
    /// Keys that are not known yet.
    pub unknown: Vec<Vec<u8>>,
    /// For each column, and before the first: the column that came next in the row before.
    followers: Vec<u32>,
    /// A key's text, where it has escapes.
    key: Vec<u8>,
    /// Objects that repeat a key, by the index of the first cell.
    pub repeats: Vec<Repeat>,
}

/// An object that has a key more than once.
#[derive(Debug, Clone, Copy)]
pub struct Repeat {
    /// Index of the object's first cell.
    pub first_cell: usize,
    /// Column of the first such key.
    pub column: u32,
}

/// Sizes of the parser's output at some time, to go back to.
#[derive(Debug, Clone, Copy)]
pub struct Mark {
    pub cells: usize,
    side: usize,
    unknown: usize,
    repeats: usize,
}

impl Parsed {
    /// Forgets all cells, and gets ready for rows of `columns` columns.
    pub fn clear(&mut self, columns: usize) {
        self.go_back(Mark { cells: 0, side: 0, unknown: 0, repeats: 0 });
        if self.followers.len() != columns + 1 {
            self.followers.clear();
            self.followers.extend(0..=columns as u32);
        }
    }

    pub fn mark(&self) -> Mark {
        let Self { cells, side, unknown, repeats, .. } = self;
        Mark {
            cells: cells.len(),
            side: side.len(),
            unknown: unknown.len(),
            repeats: repeats.len(),
        }
    }

    /// Forgets what came after the mark.
    pub fn go_back(&mut self, mark: Mark) {
        self.cells.truncate(mark.cells);
        self.side.truncate(mark.side);
        self.unknown.truncate(mark.unknown);
        self.repeats.truncate(mark.repeats);
    }

    /// Puts the cells from `first` on in the order of their columns; of several
    /// for one column, which only repeated keys can make, the last is kept.
    #[inline(never)]
    fn sort(&mut self, first: usize) {
        self.cells[first..].sort_by_key(|cell| cell.column);
        let (mut kept, mut repeated) = (first, None);
        for at in first..self.cells.len() {
            let cell = self.cells[at];
            if kept > first && self.cells[kept - 1].column == cell.column {
                kept -= 1;
                repeated.get_or_insert(cell.column);
            }
            self.cells[kept] = cell;
            kept += 1;
        }
        self.cells.truncate(kept);
        self.repeats.extend(repeated.map(|column| Repeat { first_cell: first, column }));
    }
}

/// Reads objects.
pub struct Parser<'p> {
    /// The input, up to the last byte that may belong to the row.
    pub bytes: &'p [u8],
    pub keys: &'p Keys,
    pub parsed: &'p mut Parsed,
    /// A fault in a row's content. Parsing can go on behind that row.
    pub content_fault: Option<Fault>,
}

impl Parser<'_> {
    /// Reads the object whose brace is at `at`: its cells are added, in the
    /// order of their columns. Returns the offset behind it.
    #[inline(always)]
    pub fn object(&mut self, at: usize) -> Result<usize, Fault> {
        let bytes = self.bytes;
        let first_cell = self.parsed.cells.len();
        let (mut previous, mut is_ascending) = (0, true);
        let mut at = skip_blank(bytes, at + 1);
        if bytes.get(at) == Some(&b'}') {
            return Ok(at + 1);
        }
        loop {
            let (column, key_end) = self.key(at, previous)?;
            at = skip_blank(bytes, key_end);
            if bytes.get(at) != Some(&b':') {
                return Err(Fault::expected("':'", bytes, at));
            }
            let (mut cell, value_end) = self.value(skip_blank(bytes, at + 1))?;
            if column != UNKNOWN {
                cell.column = column;
                self.parsed.cells.push(cell);
                is_ascending &= column >= previous;
                previous = column + 1;
            }
            at = skip_blank(bytes, value_end);
            match bytes.get(at) {
                Some(b',') => at = skip_blank(bytes, at + 1),
                Some(b'}') => break,
                _ => return Err(Fault::expected("',' or '}'", bytes, at)),
            }
        }
        if !is_ascending {
            self.parsed.sort(first_cell);
        }
        Ok(at + 1)
    }

    /// The column of the key at `at`, and the offset behind its quote.
    /// `previous` is one more than the column before.
    #[inline(always)]
    fn key(&mut self, at: usize, previous: u32) -> Result<(u32, usize), Fault> {
        if let Some(&likely) = self.parsed.followers.get(previous as usize)
            && let Some(quoted) = self.keys.quoted(likely)
            && let Some(rest) = self.bytes.get(at..)
            && rest.starts_with(quoted)
        {
            return Ok((likely, at + quoted.len()));
        }
        self.other_key(at, previous)
    }

    #[inline(never)]
    fn other_key(&mut self, at: usize, previous: u32) -> Result<(u32, usize), Fault> {
        let bytes = self.bytes;
        if bytes.get(at) != Some(&b'"') {
            return Err(Fault::expected("a key in double quotes", bytes, at));
        }
        let start = at + 1;
        let mut end = string_end(bytes, start)?;
        let mut key = &bytes[start..end];
        if bytes[end] == b'\\' {
            self.parsed.key.clear();
            end = unescape(bytes, start, &mut self.parsed.key, &mut self.content_fault)?;
            key = &self.parsed.key;
        }
        let Some(column) = self.keys.find(key) else {
            self.parsed.unknown.push(key.to_vec());
            return Ok((UNKNOWN, end + 1));
        };
        if let Some(follower) = self.parsed.followers.get_mut(previous as usize) {
            *follower = column;
        }
        Ok((column, end + 1))
    }

    /// The value at `at`, and the offset behind it.
    #[inline(always)]
    fn value(&mut self, at: usize) -> Result<(Cell, usize), Fault> {
        let bytes = self.bytes;
        match bytes.get(at) {
            Some(b'"') => self.string(at + 1),
            Some(b'-' | b'0'..=b'9') => {
                let (value, end) = number(bytes, at).map_err(|fault| fault.in_number(bytes, at))?;
                let cell = match value {
                    number::Number::Integer(integer) => {
                        Cell::new(Kind::Integer, integer as u64, at, end)
                    }
                    number::Number::Real(real) => Cell::new(Kind::Real, real.to_bits(), at, end),
                    number::Number::Text => Cell::new(Kind::Text, 0, at, end),
                };
                Ok((cell, end))
            }
            Some(b'{' | b'[') => self.nested(at),
            _ => self.literal(at),
        }
    }

    /// The string that begins at `start`, behind its quote.
    #[inline(always)]
    fn string(&mut self, start: usize) -> Result<(Cell, usize), Fault> {
        let end = string_end(self.bytes, start)?;
        if self.bytes[end] == b'"' {
            return Ok((Cell::new(Kind::Text, 0, start, end), end + 1));
        }
        let side = &mut self.parsed.side;
        let from = side.len();
        let end = unescape(self.bytes, start, side, &mut self.content_fault)?;
        Ok((Cell::new(Kind::SideText, 0, from, side.len()), end + 1))
    }

    #[inline(never)]
    fn nested(&mut self, at: usize) -> Result<(Cell, usize), Fault> {
        let side = &mut self.parsed.side;
        let from = side.len();
        let found = nested(self.bytes, at, side)?;
        let cell = if found.is_copied {
            Cell::new(Kind::SideText, 0, from, side.len())
        } else {
            Cell::new(Kind::Text, 0, at, found.end)
        };
        Ok((cell, found.end))
    }

    #[inline(always)]
    fn literal(&mut self, at: usize) -> Result<(Cell, usize), Fault> {
        let rest = self.bytes.get(at..).unwrap_or_default();
        let words = [(&b"null"[..], Kind::Null), (b"true", Kind::True), (b"false", Kind::False)];
        for (word, kind) in words {
            if rest.starts_with(word) {
                return Ok((Cell::new(kind, 0, at, at + word.len()), at + word.len()));
            }
        }
        Err(Fault::expected("a value", self.bytes, at))
    }
}
