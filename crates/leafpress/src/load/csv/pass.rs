//! CSV inputs as blocks of records, in the frame of passes.
//!
//! A settle turn knows the end of the block before. If that is inside quotes, this block begins
//! there.
//!
//! Must never: let a bad row go on when bad rows are left out.

use std::fmt::Write as _;
use std::sync::Mutex;

use super::signs::{Signs, Strays, escaped_letter_line};
use crate::error::{BadRow, Error, ErrorKind, Result};
use crate::input::block::{Block, BlockReader, TOO_LONG_ADVICE};
use crate::input::csv::locate::{EXCERPT_BYTES_MAX, Position, excerpt, unclosed_quote};
use crate::input::csv::scan::{RecordStripe, Records};
use crate::input::csv::{Carry, Dialect, FieldIndex, RecordSpan, Scanner};
use crate::load::passes::frame::{Counted, Halt, Pieces, Rows};
use crate::load::passes::rejects::{Rejects, Words, with_encoding};
use crate::load::values::fields::{Misfit, RowRules, Scratch, is_ragged};
use crate::sync::lock;

/// One CSV input, to be read block by block.
pub struct CsvBlocks<'p> {
    pub file: &'p str,
    pub rules: &'p RowRules,
    /// True if bad rows are searched before the work on the rows, to be left out or only counted.
    /// Otherwise the first one ends the pass.
    pub screen: bool,
    /// True if the first record is the header.
    pub header: bool,
    pub record_bytes_max: u64,
}

/// Blocks of the input; the first one has been read for a sample.
pub struct Reader<'s> {
    pub first: Option<Block>,
    pub blocks: BlockReader<'s>,
}

/// A block with the ends of its fields and records.
pub struct Scanned {
    block: Block,
    index: FieldIndex,
    dialect: Dialect,
    skip_header: bool,
}

/// Memory of a worker.
pub struct BlockPiece {
    scanned: Scanned,
    scanner: Scanner,
    misfits: Vec<(usize, Misfit)>,
    scratch: Scratch,
    /// A line with what looks like an escaped letter.
    letter_line: Option<u64>,
}

/// State of the settle turns.
pub struct Carried {
    carry: Carry,
    header_seen: bool,
    pub strays: Strays,
    pub signs: Signs,
}

/// Rows of one block that go on.
pub struct BlockRows<'b> {
    pub bytes: &'b [u8],
    pub block: &'b Block,
    file: &'b str,
    index: &'b FieldIndex,
    dialect: Dialect,
    skip_header: bool,
    bad: &'b [usize],
    /// Number of rows that went on before this block.
    pub before: u64,
}

impl<'b> BlockRows<'b> {
    /// The rows of a pass that go on.
    pub fn of(rows: &Rows<'b, Scanned>) -> Self {
        let Scanned { block, index, dialect, skip_header } = rows.piece;
        let Rows { file, bad, before, .. } = *rows;
        Self { file, bad, before, ..Self::of_sample((block, index), *dialect, *skip_header) }
    }

    /// All rows of a block, as a sample.
    pub fn of_sample(
        (block, index): (&'b Block, &'b FieldIndex),
        dialect: Dialect,
        skip_header: bool,
    ) -> Self {
        let (bytes, bad) = (block.bytes(), &[][..]);
        Self { bytes, block, file: "", index, dialect, skip_header, bad, before: 0 }
    }

    /// Iterator over the records.
    pub fn records(&self) -> GoodRecords<'b> {
        let mut records = self.index.records(self.bytes, self.block.start());
        if self.skip_header {
            records.next();
        }
        let next = usize::from(self.skip_header);
        GoodRecords { records, next, bad: self.bad }
    }

    /// Line number of an offset.
    pub fn line(&self, at: usize) -> u64 {
        self.block.position(at).line
    }

    /// Offset of the block's start, and its line.
    pub fn start(&self) -> (usize, u64) {
        (self.block.start(), self.block.first_line())
    }

    /// A bad row, with its fault, place and text. Lines are counted from an offset in an earlier row (or
    /// the block's start) whose line is known.
    pub fn bad_row(
        &self,
        misfit: Misfit,
        span: &RecordSpan<'_>,
        counted_from: (usize, u64),
    ) -> BadRow {
        bad_row(self.file, (self.block, self.dialect), misfit, span, counted_from)
    }
}

/// Records of a block without the bad ones.
pub struct GoodRecords<'b> {
    records: Records<'b>,
    next: usize,
    bad: &'b [usize],
}

impl<'b> GoodRecords<'b> {
    /// Takes the next records, as long as they have `fields` fields each and there is room for their
    /// offsets in `starts`; none where bad records follow.
    #[inline(always)]
    pub fn take_stripe<'s>(
        &mut self,
        fields: usize,
        starts: &'s mut [u32],
    ) -> RecordStripe<'b, 's> {
        let room = if self.bad.is_empty() { starts.len() } else { 0 };
        self.records.take_stripe(fields, &mut starts[..room])
    }
}

impl<'b> Iterator for GoodRecords<'b> {
    type Item = RecordSpan<'b>;

    #[inline(always)]
    fn next(&mut self) -> Option<RecordSpan<'b>> {
        while self.bad.first() == Some(&self.next) {
            self.bad = &self.bad[1..];
            self.next += 1;
            self.records.next();
        }
        self.next += 1;
        self.records.next()
    }
}

impl<'p> Pieces for CsvBlocks<'p> {
    type Reader = Reader<'p>;
    type Piece = BlockPiece;
    type Shown = Scanned;
    type Carried = Carried;

    fn file(&self) -> &str {
        self.file
    }

    fn piece(&self) -> BlockPiece {
        let (block, index, dialect) = (Block::new(), FieldIndex::new(), self.rules.dialect);
        BlockPiece {
            scanned: Scanned { block, index, dialect, skip_header: false },
            scanner: Scanner::new(dialect),
            misfits: Vec::new(),
            scratch: Scratch::new(),
            letter_line: None,
        }
    }

    fn carried(&self) -> Carried {
        Carried {
            carry: Carry::new(self.rules.dialect, self.file, self.record_bytes_max),
            header_seen: !self.header,
            strays: Strays::default(),
            signs: Signs::default(),
        }
    }

    fn claim(&self, reader: &mut Reader<'p>, piece: &mut BlockPiece) -> Result<bool> {
        let block = &mut piece.scanned.block;
        if let Some(first) = reader.first.take() {
            *block = first;
        } else if !reader.blocks.next(block)? {
            return Ok(false);
        }
        block.check_memory().map_err(|error| error.describe(self.file))?;
        Ok(true)
    }

    fn is_last(&self, reader: &Reader<'p>) -> bool {
        reader.blocks.is_at_end()
    }

    fn scan(&self, piece: &mut BlockPiece) -> Result<(), Halt> {
        let BlockPiece { scanned: Scanned { block, index, .. }, scanner, .. } = piece;
        scanner.begin(block.start(), index);
        scanner.scan(block.bytes(), index);
        piece.letter_line = escaped_letter_line(block, self.rules.dialect);
        self.screen_rows(piece);
        Ok(())
    }

    fn settle(
        &self,
        piece: &mut BlockPiece,
        carried: &mut Carried,
        bad: &mut Vec<usize>,
        rejects: &Mutex<Rejects>,
    ) -> Result<Counted> {
        carried.signs.add_letter(piece.letter_line);
        let begins_elsewhere = carried.carry.is_held();
        let BlockPiece { scanned: Scanned { block, index, .. }, scanner, .. } = piece;
        carried.carry.settle(block, index, scanner)?;
        if begins_elsewhere {
            self.screen_rows(piece);
        }
        let scanned = &mut piece.scanned;
        check_lengths((self.file, self.record_bytes_max), &scanned.block, &scanned.index)?;
        let records = scanned.index.record_ends().len();
        scanned.skip_header = !carried.header_seen && records > 0;
        carried.header_seen |= scanned.skip_header;
        carried.strays.add(&scanned.block, &scanned.index, scanned.dialect);
        if scanned.skip_header {
            let Scanned { block, index, .. } = scanned;
            let header = index.records(block.bytes(), block.start()).next();
            let header = header.map(|span| &block.bytes()[span.start..span.end()]);
            lock(rejects).set_header(header.unwrap_or_default());
        }
        let read = (records - usize::from(scanned.skip_header)) as u64;
        let text_bytes = scanned.block.bytes().len() as u64;
        self.reject(piece, &mut carried.signs, bad, rejects)?;
        self.note_reshaped(&piece.scanned, bad, &mut carried.signs);
        Ok(Counted { read, good: read - bad.len() as u64, text_bytes })
    }

    fn shown<'b>(&self, piece: &'b BlockPiece) -> &'b Scanned {
        &piece.scanned
    }

    /// Makes a record that is still open a bad row.
    fn end(&self, carried: &mut Carried, rejects: &Mutex<Rejects>) -> Result<u64> {
        carried.strays.add_open(&carried.carry);
        let Some(unfinished) = carried.carry.unfinished() else { return Ok(0) };
        if !self.screen {
            return Err(unfinished.into());
        }
        lock(rejects).add(unfinished, carried.carry.data(), Words::Own)?;
        Ok(1)
    }
}

impl CsvBlocks<'_> {
    /// Finds the bad rows of a block, if the pass screens.
    fn screen_rows(&self, piece: &mut BlockPiece) {
        let BlockPiece { scanned: Scanned { block, index, .. }, misfits, scratch, .. } = piece;
        misfits.clear();
        if !self.screen {
            return;
        }
        let bytes = block.bytes();
        let is_utf8 = self.rules.is_text(block.data());
        for (record, span) in index.records(bytes, block.start()).enumerate() {
            if let Err(misfit) = self.rules.check(bytes, &span, is_utf8, scratch) {
                misfits.push((record, misfit));
            }
        }
    }

    /// Counts the rows that are filled or cut; the bad ones do not count.
    fn note_reshaped(&self, scanned: &Scanned, bad: &[usize], signs: &mut Signs) {
        if self.rules.ragged_is_bad() {
            return;
        }
        let Scanned { block, index, skip_header, .. } = scanned;
        let records = index.records(block.bytes(), block.start()).enumerate();
        for (record, span) in records.skip(usize::from(*skip_header)) {
            if self.rules.is_ragged(&span) && bad.binary_search(&record).is_err() {
                signs.add_reshaped(|| block.position(span.start).line);
            }
        }
    }

    /// Hands over the bad rows of the block, in order.
    fn reject(
        &self,
        piece: &mut BlockPiece,
        signs: &mut Signs,
        all_bad: &mut Vec<usize>,
        rejects: &Mutex<Rejects>,
    ) -> Result<()> {
        let BlockPiece { scanned: Scanned { block, index, skip_header, .. }, misfits, .. } = piece;
        if misfits.is_empty() {
            return Ok(());
        }
        let mut misfits = misfits.drain(..).peekable();
        // Lines are counted on from row to row: nearly all rows may be bad.
        let (mut line, mut counted_to) = (block.first_line(), block.start());
        for (record, span) in index.records(block.bytes(), block.start()).enumerate() {
            let Some((_, misfit)) = misfits.next_if(|(at, _)| *at == record) else {
                if misfits.peek().is_none() {
                    break;
                }
                continue;
            };
            if record == 0 && *skip_header {
                continue;
            }
            all_bad.push(record);
            let row = self.rules.as_rejected(block.bytes(), &span);
            let at = misfit.at;
            signs.add(&misfit, block);
            let of = (&*block, self.rules.dialect);
            let bad_row = bad_row(self.file, of, misfit, &span, (counted_to, line));
            (counted_to, line) = (at, bad_row.line);
            let added = lock(rejects).add(bad_row, &row, Words::Own);
            added.map_err(|error| with_encoding(error, block.data()))?;
        }
        Ok(())
    }
}

/// Refuses a row that is longer than allowed, or than memory allows. A block shorter than the limit
/// needs no check.
pub fn check_lengths(
    (file, record_bytes_max): (&str, u64),
    block: &Block,
    index: &FieldIndex,
) -> Result<()> {
    block.check_memory().map_err(|error| error.describe(file))?;
    if block.data().len() as u64 <= record_bytes_max {
        return Ok(());
    }
    let is_long = |span: &RecordSpan<'_>| {
        (span.end() - span.start) as u64 > record_bytes_max.saturating_add(1)
    };
    let long = index.records(block.bytes(), block.start()).find(is_long);
    long.map_or(Ok(()), |span| {
        Err(row_too_long(file, block.position(span.start).line, record_bytes_max))
    })
}

fn row_too_long(file: &str, line: u64, bytes_max: u64) -> Error {
    let reason = format!("the record that starts at line {line} is longer than {bytes_max} bytes");
    Error::from(ErrorKind::Input { file: file.to_owned(), reason }).to_do(TOO_LONG_ADVICE)
}

/// A bad row. Lines are counted from an offset in an earlier row (or the block's start) whose line
/// is known.
pub fn bad_row(
    file: &str,
    (block, dialect): (&Block, Dialect),
    mut misfit: Misfit,
    span: &RecordSpan<'_>,
    counted_from: (usize, u64),
) -> BadRow {
    let bytes = block.bytes();
    let place = block.position_from(counted_from, misfit.at);
    if is_ragged(&misfit.reason)
        && let Some(quote) = unclosed_quote(bytes, span, dialect)
    {
        let Position { line, column } = block.position_from(counted_from, quote);
        let _ = write!(
            misfit.reason,
            "; perhaps the quote that opens at line {line}, column {column} is never closed"
        );
    }
    BadRow {
        file: file.to_owned(),
        line: place.line,
        column: place.column,
        reason: misfit.reason,
        row: excerpt(bytes, span.start, span.end(), EXCERPT_BYTES_MAX),
    }
}
