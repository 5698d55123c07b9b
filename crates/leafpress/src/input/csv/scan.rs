//! Finds where fields and records end, 64 bytes at a time.
//!
//! # The rules
//! Those of Python's `csv` module, non-strict, over bytes:
//! * A quote opens only at a field's first byte. Elsewhere outside quotes it is
//!   text. Between quotes, two quotes are one.
//! * What follows a closing quote, up to the next delimiter or line end, is
//!   text that is added to the field. Such a quote, and a quote that is text,
//!   is *stray*: counted, as it is a sign of the wrong dialect.
//! * A record ends at `\n` outside quotes; a `\r` right before it belongs to the
//!   line end. Any other `\r` is text.
//! * A line that is empty but for its line end is no record, but in the text formats of
//!   databases: there it is a record of one empty field.
//! * An escape byte makes the next byte text, be it in quotes or not; right
//!   after a closing quote it is text itself.
//!
//! # How
//! Compares of 64 bytes make a mask of field ends and one of quotes, by the widest instructions that
//! the processor has.
//! The exclusive-or prefix of the quotes says which bytes are inside, provided
//! that each quote that opens (by that parity) stands at a field's first byte
//! or right after a quote that closes (a doubled quote). Where that does not
//! hold, and in a chunk with an escape byte, [`exact`](super::exact) walks the
//! chunk instead.
//!
//! # Invariants
//! 1. `record_ends` is the part of `field_ends` where the byte is a `\n`.
//! 2. Both rise strictly. A field starts one past the end before it, but for a
//!    record's first field, which starts after the blank lines before it.
//! 3. A scan that is cut in two at any byte gives the same index as one in one
//!    go, if the bytes that end the first part are a line.
//!
//! Must never: copy or change the bytes, or allocate once its buffers have
//! reached their size.

use fearless_simd::{Level, Simd, dispatch, prelude::*, u8x64};

use super::dialect::Dialect;
use super::exact::{self, State, is_line_end};

/// Bytes looked at together: one bit of a mask each.
const CHUNK_BYTES: usize = 64;
/// Chunks between two checks of the room in the index.
const STRIPE_CHUNKS: usize = 64;
/// Offsets written at once, without asking how many of them are wanted.
const GROUP: usize = 8;

/// Rising offsets, in a buffer that stays initialised beyond those in use, so
/// that a group can be written at a time.
#[derive(Debug, Default, Clone)]
struct Offsets {
    slots: Vec<u32>,
    count: usize,
}

impl Offsets {
    fn as_slice(&self) -> &[u32] {
        &self.slots[..self.count]
    }

    fn last(&self) -> Option<usize> {
        self.as_slice().last().map(|&offset| offset as usize)
    }

    fn reserve(&mut self, additional: usize) {
        let wanted = self.count + additional + CHUNK_BYTES;
        if self.slots.len() < wanted {
            self.slots.resize(wanted.max(self.slots.len() * 2), 0);
        }
    }

    fn push(&mut self, offset: usize) {
        self.reserve(1);
        self.slots[self.count] = offset as u32;
        self.count += 1;
    }

    /// Adds `base` plus the position of each set bit. The room must be there.
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "twice as slow as a call")]
    fn push_bits(&mut self, base: usize, mut bits: u64) {
        let count = bits.count_ones() as usize;
        let room = &mut self.slots[self.count..self.count + CHUNK_BYTES];
        for group in room.chunks_exact_mut(GROUP) {
            for slot in group {
                *slot = base as u32 + bits.trailing_zeros();
                bits &= bits.wrapping_sub(1);
            }
            if bits == 0 {
                break;
            }
        }
        self.count += count;
    }

    /// Moves the offsets from the `keep`-th on to `other`, less `shift`.
    fn split_off(&mut self, keep: usize, shift: usize, other: &mut Self) {
        for &offset in &self.slots[keep..self.count] {
            other.push(offset as usize - shift);
        }
        self.count = keep;
    }
}

/// The ends of a block's fields and records, as offsets in the block.
#[derive(Debug, Default, Clone)]
pub struct FieldIndex {
    field_ends: Offsets,
    record_ends: Offsets,
    stray_quotes: u64,
    first_stray: Option<u32>,
    /// True if a blank line is a record.
    keeps_blank_lines: bool,
}

impl FieldIndex {
    /// An index with nothing in it.
    pub fn new() -> Self {
        Self::default()
    }

    /// Forgets everything and keeps the memory.
    pub fn clear(&mut self) {
        self.field_ends.count = 0;
        self.record_ends.count = 0;
        self.stray_quotes = 0;
        self.first_stray = None;
    }

    /// The offset of the delimiter or `\n` that ends each field.
    pub fn field_ends(&self) -> &[u32] {
        self.field_ends.as_slice()
    }

    /// The offset of the `\n` that ends each record.
    pub fn record_ends(&self) -> &[u32] {
        self.record_ends.as_slice()
    }

    /// Quotes that are text, or close before the field's end.
    pub fn stray_quotes(&self) -> u64 {
        self.stray_quotes
    }

    /// Offset of the first stray quote.
    pub fn first_stray(&self) -> Option<usize> {
        self.first_stray.map(|offset| offset as usize)
    }

    /// Walks the records, in `bytes` as they were scanned from `start` on.
    pub fn records<'a>(&'a self, bytes: &'a [u8], start: usize) -> Records<'a> {
        Records {
            bytes,
            field_ends: self.field_ends(),
            record_ends: self.record_ends(),
            start,
            fields_expected: 1,
            keeps_blank_lines: self.keeps_blank_lines,
        }
    }

    pub(super) fn push_field_end(&mut self, at: usize) {
        self.field_ends.push(at);
    }

    pub(super) fn push_record_end(&mut self, at: usize) {
        self.record_ends.push(at);
    }

    pub(super) fn push_stray_quote(&mut self, at: usize) {
        self.stray_quotes += 1;
        self.first_stray.get_or_insert(at as u32);
    }

    /// Moves what belongs to the unfinished record at `start` to `other`, less
    /// `shift`. Stray quotes go along only if all are in that record: the sum
    /// stays right, and the first one stays where its bytes are.
    pub(super) fn split_off(&mut self, start: usize, shift: usize, other: &mut Self) {
        other.clear();
        let ends = self.field_ends.as_slice();
        let keep = ends.partition_point(|&end| (end as usize) < start);
        self.field_ends.split_off(keep, shift, &mut other.field_ends);
        if self.first_stray.is_some_and(|at| at as usize >= start) {
            other.first_stray = self.first_stray.take().map(|at| at - shift as u32);
            other.stray_quotes = std::mem::take(&mut self.stray_quotes);
        }
    }
}

/// One record in a block: where it starts and where its fields end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RecordSpan<'a> {
    /// Offset of the record's first byte.
    pub start: usize,
    /// The end of each field; the last is the record's `\n`. Never empty.
    pub field_ends: &'a [u32],
}

impl RecordSpan<'_> {
    /// Offset behind the record's last byte.
    pub fn end(&self) -> usize {
        self.field_ends.last().map_or(self.start, |&end| end as usize + 1)
    }
}

/// Some records, one after the other, with as many fields each.
#[derive(Debug, Clone, Copy)]
pub struct RecordStripe<'a, 's> {
    /// Offset of each record's first byte.
    pub starts: &'s [u32],
    /// The ends of the fields of all of them.
    pub field_ends: &'a [u32],
    /// Number of fields of each of them.
    pub fields: usize,
}

impl<'a> RecordStripe<'a, '_> {
    /// Number of records.
    pub fn rows(&self) -> usize {
        self.starts.len()
    }

    /// A record.
    #[inline(always)]
    pub fn record(&self, row: usize) -> RecordSpan<'a> {
        let field_ends = &self.field_ends[row * self.fields..][..self.fields];
        RecordSpan { start: self.starts[row] as usize, field_ends }
    }
}

/// Walks the records of a block; made by [`FieldIndex::records`].
#[derive(Debug, Clone)]
pub struct Records<'a> {
    bytes: &'a [u8],
    field_ends: &'a [u32],
    record_ends: &'a [u32],
    start: usize,
    fields_expected: usize,
    keeps_blank_lines: bool,
}

impl<'a> Records<'a> {
    /// Takes the next records, as long as they have `fields` fields each and there is room for their
    /// offsets in `starts`.
    #[inline(always)]
    pub fn take_stripe<'s>(
        &mut self,
        fields: usize,
        starts: &'s mut [u32],
    ) -> RecordStripe<'a, 's> {
        let (mut rows, mut start) = (0, self.start);
        let ends = self.record_ends.iter().zip(self.field_ends.chunks_exact(fields));
        for ((&end, field_ends), place) in ends.zip(starts.iter_mut()) {
            if field_ends[fields - 1] != end {
                break;
            }
            if !self.keeps_blank_lines {
                start = record_start(self.bytes, start);
            }
            *place = start as u32;
            start = end as usize + 1;
            rows += 1;
        }
        let (field_ends, rest) = self.field_ends.split_at(rows * fields);
        (self.record_ends, self.field_ends) = (&self.record_ends[rows..], rest);
        self.start = start;
        RecordStripe { starts: &starts[..rows], field_ends, fields }
    }
}

impl<'a> Iterator for Records<'a> {
    type Item = RecordSpan<'a>;

    #[inline(always)]
    fn next(&mut self) -> Option<Self::Item> {
        let (&end, others) = self.record_ends.split_first()?;
        // Nearly always a record has as many fields as the one before it.
        let expected = self.fields_expected;
        if self.field_ends.get(expected - 1) != Some(&end) {
            self.fields_expected = self.field_ends.partition_point(|&at| at < end) + 1;
        }
        let (field_ends, rest) = self.field_ends.split_at_checked(self.fields_expected)?;
        let start =
            if self.keeps_blank_lines { self.start } else { record_start(self.bytes, self.start) };
        (self.record_ends, self.field_ends, self.start) = (others, rest, end as usize + 1);
        Some(RecordSpan { start, field_ends })
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.record_ends.len(), Some(self.record_ends.len()))
    }
}

impl ExactSizeIterator for Records<'_> {}

/// Skips the blank lines from `at` on. A record starts neither with `\n` nor
/// with `\r\n`, so no list of its exceptions is needed.
#[inline]
pub fn record_start(bytes: &[u8], mut at: usize) -> usize {
    loop {
        match bytes.get(at) {
            Some(b'\n') => at += 1,
            Some(b'\r') if is_line_end(bytes, at) => at += 2,
            _ => return at,
        }
    }
}

/// Scans one run of bytes that may come in parts.
#[derive(Debug, Clone)]
pub struct Scanner {
    dialect: Dialect,
    state: State,
    position: usize,
    start: usize,
}

impl Scanner {
    /// A scanner that stands at offset 0, at a record's start.
    pub fn new(dialect: Dialect) -> Self {
        Self { dialect, state: State::default(), position: 0, start: 0 }
    }

    /// Begins anew at `start`, taken to be a record's start, and clears `index`.
    pub fn begin(&mut self, start: usize, index: &mut FieldIndex) {
        *self = Self { dialect: self.dialect, state: State::default(), position: start, start };
        index.clear();
    }

    /// Indexes `bytes` from where the scanner stands to their end, which must
    /// be a line's end, below 4 GiB.
    pub fn scan(&mut self, bytes: &[u8], index: &mut FieldIndex) {
        debug_assert!(u32::try_from(bytes.len()).is_ok(), "offsets are 32 bits wide");
        index.keeps_blank_lines = self.dialect.is_database_text();
        dispatch!(Level::new(), simd => self.scan_whole_chunks(simd, bytes, index));
        self.scan_exactly(bytes, bytes.len(), index);
    }

    /// Offset where the unfinished record starts, if the bytes so far end within a record: for
    /// instance inside quotes, or after an escape byte.
    pub fn incomplete_start(&self, bytes: &[u8], index: &FieldIndex) -> Option<usize> {
        let from = index.record_ends.last().map_or(self.start, |end| end + 1);
        let start = || {
            if self.dialect.is_database_text() { from } else { record_start(bytes, from) }
        };
        (self.state != State::RecordStart).then(start)
    }

    /// Offset where the unfinished field starts; if its quotes are open, the offset of the
    /// quote.
    pub(super) fn open_field_start(&self, bytes: &[u8], index: &FieldIndex) -> Option<usize> {
        let start = self.incomplete_start(bytes, index)?;
        Some(index.field_ends.last().map_or(start, |end| start.max(end + 1)))
    }

    /// Returns true if the bytes so far end inside quotes.
    pub fn is_in_quotes(&self) -> bool {
        matches!(self.state, State::Quoted | State::QuotedEscaped)
    }

    /// The scanner for the same bytes, moved down by `shift` after all bytes before `start`
    /// were removed.
    pub(super) fn moved(&self, start: usize, shift: usize) -> Self {
        Self { position: self.position - shift, start: start - shift, ..self.clone() }
    }

    fn scan_exactly(&mut self, bytes: &[u8], to: usize, index: &mut FieldIndex) {
        self.state = exact::scan(self.dialect, self.state, bytes, self.position, to, index);
        self.position = to.max(self.position);
    }

    /// Indexes all whole chunks.
    #[inline(always)]
    #[expect(
        clippy::inline_always,
        reason = "so that it is compiled for the caller's instructions"
    )]
    fn scan_whole_chunks<S: Simd>(&mut self, simd: S, bytes: &[u8], index: &mut FieldIndex) {
        match (self.dialect.quote().is_some(), self.dialect.escape().is_some()) {
            (false, false) => self.scan_chunks::<S, false, false>(simd, bytes, index),
            (false, true) => self.scan_chunks::<S, false, true>(simd, bytes, index),
            (true, false) => self.scan_chunks::<S, true, false>(simd, bytes, index),
            (true, true) => self.scan_chunks::<S, true, true>(simd, bytes, index),
        }
    }

    #[inline(always)]
    #[expect(
        clippy::inline_always,
        reason = "so that it is compiled for the caller's instructions"
    )]
    fn scan_chunks<S: Simd, const QUOTES: bool, const ESCAPES: bool>(
        &mut self,
        simd: S,
        bytes: &[u8],
        index: &mut FieldIndex,
    ) {
        let needles = Needles::new(simd, self.dialect);
        let mut edge = Edge::of(self.state);
        let mut is_escaped = is_after_escape(self.state);
        let keeps_blank_lines = self.dialect.is_database_text();
        for stripe in stripes(self.position, bytes) {
            index.field_ends.reserve(stripe.len() * CHUNK_BYTES);
            index.record_ends.reserve(stripe.len() * CHUNK_BYTES);
            for chunk in stripe {
                let mut masks = needles.find::<QUOTES>(chunk);
                let is_plain = (masks.quotes | edge.inside | edge.quote) == 0;
                let must_walk = ESCAPES && (is_escaped || needles.has_escape(chunk));
                if must_walk || !(is_plain || edge.resolve(&mut masks, self.position, bytes, index))
                {
                    if !is_escaped {
                        self.state = edge.state(bytes, self.position);
                    }
                    self.scan_exactly(bytes, self.position + CHUNK_BYTES, index);
                    edge = Edge::of(self.state);
                    is_escaped = is_after_escape(self.state);
                    continue;
                }
                let blank = if ESCAPES && keeps_blank_lines {
                    0
                } else {
                    edge.blank_lines(masks.newlines, self.position, bytes)
                };
                index.field_ends.push_bits(self.position, masks.ends & !blank);
                index.record_ends.push_bits(self.position, masks.newlines & !blank);
                edge.advance(&masks);
                self.position += CHUNK_BYTES;
            }
        }
        if !is_escaped {
            self.state = edge.state(bytes, self.position);
        }
    }
}

/// Returns true if an escape makes the next byte text: [`Edge`] has no such state.
fn is_after_escape(state: State) -> bool {
    matches!(state, State::Escaped | State::QuotedEscaped)
}

/// Cuts the whole chunks from `from` on into stripes.
fn stripes(from: usize, bytes: &[u8]) -> impl Iterator<Item = &[[u8; CHUNK_BYTES]]> {
    let (chunks, _) = bytes.get(from..).unwrap_or_default().as_chunks();
    chunks.chunks(STRIPE_CHUNKS)
}

/// The bytes to look for, 64 times each.
struct Needles<S: Simd> {
    simd: S,
    delimiter: u8x64<S>,
    newline: u8x64<S>,
    quote: u8x64<S>,
    escape: u8x64<S>,
}

/// The kinds of the bytes of a chunk: a mask for each kind, the lowest bit for the first byte.
#[derive(Debug, Clone, Copy, Default)]
struct Masks {
    /// Delimiters and newlines; after [`Edge::resolve`] those outside quotes.
    ends: u64,
    /// Newlines; after [`Edge::resolve`] those outside quotes.
    newlines: u64,
    quotes: u64,
}

impl<S: Simd> Needles<S> {
    /// A quote or escape that the dialect does not have is zero here, and is not looked for.
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "the heart of the hot loop")]
    fn new(simd: S, dialect: Dialect) -> Self {
        let splat = |byte| u8x64::splat(simd, byte);
        Self {
            simd,
            delimiter: splat(dialect.delimiter()),
            newline: splat(b'\n'),
            quote: splat(dialect.quote().unwrap_or_default()),
            escape: splat(dialect.escape().unwrap_or_default()),
        }
    }

    #[inline(always)]
    #[expect(clippy::inline_always, reason = "the heart of the hot loop")]
    fn has_escape(&self, chunk: &[u8; CHUNK_BYTES]) -> bool {
        u8x64::simd_from(self.simd, *chunk).simd_eq(self.escape).any_true()
    }

    #[inline(always)]
    #[expect(clippy::inline_always, reason = "the heart of the hot loop")]
    fn find<const QUOTES: bool>(&self, chunk: &[u8; CHUNK_BYTES]) -> Masks {
        let chunk = u8x64::simd_from(self.simd, *chunk);
        let newline = chunk.simd_eq(self.newline);
        let end = newline | chunk.simd_eq(self.delimiter);
        let mut masks = Masks { ends: end.to_bitmask(), newlines: newline.to_bitmask(), quotes: 0 };
        if QUOTES {
            let quote = chunk.simd_eq(self.quote);
            if quote.any_true() {
                masks.quotes = quote.to_bitmask();
            }
        }
        masks
    }
}

/// The state that the next chunk needs of the bytes before it: the [`State`] of the exact
/// machine, as bits that are cheap to keep.
#[derive(Debug, Clone, Copy)]
struct Edge {
    /// All ones where the last byte is inside quotes, else 0.
    inside: u64,
    /// 1 where the last byte is a quote that closes.
    quote: u64,
    /// 1 where the last byte ends a field.
    end: u64,
    /// 1 where the last byte ends a line.
    newline: u64,
    /// 1 where the last byte but one ends a line.
    newline_before: u64,
}

impl Edge {
    fn of(state: State) -> Self {
        let bit = u64::from;
        Self {
            inside: if state == State::Quoted { u64::MAX } else { 0 },
            quote: bit(state == State::QuoteInQuoted),
            end: bit(matches!(state, State::RecordStart | State::FieldStart)),
            newline: bit(state == State::RecordStart),
            newline_before: bit(state == State::LoneReturn),
        }
    }

    /// The exact machine's state for these bits, before the byte at `at`.
    fn state(self, bytes: &[u8], at: usize) -> State {
        let after_return = || at.checked_sub(1).and_then(|last| bytes.get(last)) == Some(&b'\r');
        match self {
            Self { inside: 1.., .. } => State::Quoted,
            Self { quote: 1, .. } => State::QuoteInQuoted,
            Self { newline: 1, .. } => State::RecordStart,
            Self { end: 1, .. } => State::FieldStart,
            Self { newline_before: 1, .. } if after_return() => State::LoneReturn,
            _ => State::Unquoted,
        }
    }

    #[inline]
    fn advance(&mut self, masks: &Masks) {
        self.end = masks.ends >> 63;
        self.newline = masks.newlines >> 63;
        self.newline_before = (masks.newlines >> 62) & 1;
    }

    /// Takes out of `masks` what is inside quotes and carries the quotes on.
    /// Says no, and changes nothing, where parity does not tell.
    #[inline]
    fn resolve(
        &mut self,
        masks: &mut Masks,
        position: usize,
        bytes: &[u8],
        index: &mut FieldIndex,
    ) -> bool {
        let Masks { ends, quotes, .. } = *masks;
        let inside = prefix_xor(quotes) ^ self.inside;
        let opening = quotes & inside;
        let closing = quotes & !inside;
        if opening & !((ends | quotes) << 1 | self.end | self.quote) != 0 {
            return false;
        }
        let after_closing = (closing << 1 | self.quote) & !(ends | quotes);
        if after_closing != 0 {
            push_stray_closings(after_closing, position, bytes, index);
        }
        masks.ends &= !inside;
        masks.newlines &= !inside;
        self.inside = 0u64.wrapping_sub(inside >> 63);
        self.quote = closing >> 63;
        true
    }

    /// The newlines that end a blank line.
    #[inline]
    fn blank_lines(&self, newlines: u64, position: usize, bytes: &[u8]) -> u64 {
        let empty = newlines & (newlines << 1 | self.newline);
        let of_one_byte = newlines & (newlines << 2 | self.newline << 1 | self.newline_before);
        if of_one_byte == 0 {
            return empty;
        }
        empty | blank_returns(of_one_byte, position, bytes)
    }
}

/// Returns those newlines of `candidates` that have a `\r` before them.
#[cold]
fn blank_returns(candidates: u64, position: usize, bytes: &[u8]) -> u64 {
    let is_blank = |bit: u32| is_line_end(bytes, position + bit as usize - 1);
    set_bits(candidates).filter(|&bit| is_blank(bit)).fold(0, |blank, bit| blank | 1 << bit)
}

/// Counts the closing quotes before the bytes in `after`, which end no field,
/// unless they are a `\r` that belongs to the line end.
#[cold]
fn push_stray_closings(after: u64, position: usize, bytes: &[u8], index: &mut FieldIndex) {
    for at in set_bits(after).map(|bit| position + bit as usize) {
        if !is_line_end(bytes, at) {
            index.push_stray_quote(at - 1);
        }
    }
}

/// The places of the set bits, the lowest first.
pub(in crate::input) fn set_bits(mut bits: u64) -> impl Iterator<Item = u32> {
    std::iter::from_fn(move || {
        let bit = bits.trailing_zeros();
        bits &= bits.wrapping_sub(1);
        (bit < u64::BITS).then_some(bit)
    })
}

/// Each bit becomes the exclusive or of itself and all lower ones.
#[inline]
pub(in crate::input) fn prefix_xor(mut bits: u64) -> u64 {
    for shift in [1, 2, 4, 8, 16, 32] {
        bits ^= bits << shift;
    }
    bits
}
