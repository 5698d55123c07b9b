//! Whole lines of the input, a megabyte or two at a time: the unit of work of
//! the loader's threads.
//!
//! [`BlockReader`] stands between [`Source`](super::source::Source) and the
//! scanners. The loader's threads take turns with it under a lock, so it does
//! no more than it must: read, cut after the last newline, count lines.
//!
//! ```text
//! 0            64 = start                        end of bytes()
//! | headroom   | line \n | line \n | … | line \n |
//! ```
//!
//! # Invariants
//! 1. The data of a block that was read are not empty, begin at
//!    [`BLOCK_HEADROOM`] and end where its [`Cut`] says, for lines with `\n`;
//!    a last `\n` is added where the input lacks it.
//! 2. The blocks' data in their order are the input, as UTF-8 and without its
//!    byte order mark.
//!
//! Must never: know of fields or quotes.

use std::io::{self, Cursor, Read};

use memchr::memrchr;

use super::csv::lines::{LineFilter, LineRules};
use super::csv::locate::{LineEnds, Position};
use super::csv::sniff::Sample;
use super::encoding;
use super::source::Opened;
use crate::{Error, ErrorKind, Result};

/// Bytes before a block's data, so that up to as many may be read before any
/// field without a check.
pub const BLOCK_HEADROOM: usize = 64;

/// Default size of a block: small enough for a core's cache, and large enough that threads seldom
/// wait for the lock.
pub const BLOCK_BYTES_DEFAULT: usize = 1 << 20;

/// Bytes that the first read into a block asks for. Memory that is never filled is never touched:
/// the system takes longer to give 1 MB than a small input takes to load.
const FIRST_READ_BYTES: usize = 64 << 10;

/// Offsets in a block have 32 bits: a record and the block that it ends in must
/// stay below 4 GiB.
const RECORD_BYTES_MAX: u64 = 2 << 30;

/// Size of a block's data above which the block holds a long row.
const LONG_BLOCK_BYTES: usize = 8 << 20;
/// Copies of a long row in memory besides the block: its value, and its record.
const LONG_ROW_COPIES: usize = 2;

/// The limit for a record that the caller set, but at most the highest possible one.
pub fn record_bytes_limit(wanted: u64) -> u64 {
    wanted.min(RECORD_BYTES_MAX)
}

/// Advice about a record that is beyond the limit.
pub const TOO_LONG_ADVICE: &str = "see whether a quote is never closed or line ends are missing \
     there; if it is one row, allow it with ⟦max_row_bytes⟧";

/// A run of whole lines, in a buffer that is used again.
#[derive(Debug)]
pub struct Block {
    /// Stays initialised beyond `end`, so that it need not be zeroed each time.
    buffer: Vec<u8>,
    end: usize,
    first_line: u64,
    line_ends: LineEnds,
}

impl Default for Block {
    fn default() -> Self {
        Self {
            buffer: vec![0; BLOCK_HEADROOM],
            end: BLOCK_HEADROOM,
            first_line: 1,
            line_ends: LineEnds::default(),
        }
    }
}

impl Block {
    /// A block with no data.
    pub fn new() -> Self {
        Self::default()
    }

    /// The headroom and the data: offsets in the block are offsets in this.
    pub fn bytes(&self) -> &[u8] {
        &self.buffer[..self.end]
    }

    /// Offset in [`bytes`](Self::bytes) where the data begin.
    #[expect(clippy::unused_self, reason = "callers should not know that all blocks are alike")]
    pub fn start(&self) -> usize {
        BLOCK_HEADROOM
    }

    /// The data alone.
    pub fn data(&self) -> &[u8] {
        &self.buffer[BLOCK_HEADROOM..self.end]
    }

    /// The line of the input that the data begin with, counted from 1.
    pub fn first_line(&self) -> u64 {
        self.first_line
    }

    /// The place in the input of the byte at `offset` of [`bytes`](Self::bytes).
    pub fn position(&self, offset: usize) -> Position {
        self.position_from((self.start(), self.first_line), offset)
    }

    /// The place of the byte at `offset`, counted from an earlier offset `from`, where a field
    /// begins, and the line of that field.
    pub fn position_from(&self, (from, line): (usize, u64), offset: usize) -> Position {
        let before = self.bytes().get(from..offset.min(self.end)).unwrap_or_default();
        self.line_ends.position_behind(before, line)
    }

    /// Forgets the data and keeps the memory.
    pub fn clear(&mut self) {
        self.end = BLOCK_HEADROOM;
    }

    /// Makes room for the data to grow to `end`. The vector doubles what it
    /// reserves, but no more than this is touched and takes real memory; a large
    /// one is grown by the system without a copy, where it can do that.
    fn grow(&mut self, end: usize) -> Result<(), OutOfMemory> {
        if self.buffer.len() < end {
            let missing = end - self.buffer.len();
            let enlarged = self.buffer.try_reserve(missing);
            // Where twice as much is too much, what is needed may still be there.
            enlarged.or_else(|_| self.buffer.try_reserve_exact(missing)).map_err(|_| {
                OutOfMemory { line: self.first_line, bytes: self.data().len() as u64 }
            })?;
            self.buffer.resize(end, 0);
        }
        Ok(())
    }

    pub(super) fn push(&mut self, bytes: &[u8]) -> Result<(), OutOfMemory> {
        let end = self.end + bytes.len();
        self.grow(end)?;
        self.buffer[self.end..end].copy_from_slice(bytes);
        self.end = end;
        Ok(())
    }

    /// Adds the data of the block that follows.
    ///
    /// # Errors
    /// Fails if there is no memory for it. The block is then unchanged.
    pub fn append(&mut self, next: &Self) -> Result<(), OutOfMemory> {
        self.push(next.data())
    }

    /// Moves the data from `at` on to `tail`, in place of what it held.
    pub(super) fn split_off(&mut self, at: usize, tail: &mut Self) -> Result<(), OutOfMemory> {
        tail.clear();
        tail.first_line = self.first_line + self.line_ends.count(&self.buffer[BLOCK_HEADROOM..at]);
        tail.line_ends = self.line_ends;
        tail.push(&self.buffer[at..self.end])?;
        self.end = at;
        Ok(())
    }

    /// Checks that there is memory to work on the block's longest row, where
    /// the block is a long one: its value and its record are copies of it.
    ///
    /// # Errors
    /// Fails if there is not enough memory.
    pub fn check_memory(&self) -> Result<(), OutOfMemory> {
        if self.data().len() <= LONG_BLOCK_BYTES {
            return Ok(());
        }
        let mut copies: Vec<u8> = Vec::new();
        copies
            .try_reserve_exact(self.data().len() * LONG_ROW_COPIES)
            .map_err(|_| OutOfMemory { line: self.first_line, bytes: self.data().len() as u64 })
    }
}

/// There is no memory for a row: how much of it there was, and where it begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OutOfMemory {
    line: u64,
    bytes: u64,
}

impl OutOfMemory {
    /// The error for people, of the input named `file`.
    pub fn describe(self, file: &str) -> Error {
        let reason = format!(
            "there is no memory for the row at line {}, of which {} bytes were read",
            self.line, self.bytes
        );
        Error::from(ErrorKind::Input { file: file.to_owned(), reason }).to_do(
            "see whether a quote is never closed or line ends are missing there; bound the \
             longest row with ⟦max_row_bytes⟧, or give the process more memory",
        )
    }
}

/// Options for cutting an input into blocks.
#[derive(Debug, Clone)]
pub struct BlockOptions {
    /// The size to aim at.
    pub block_bytes: usize,
    /// No record may be longer: it bounds the memory that a quote which is
    /// never closed can take.
    pub record_bytes_max: u64,
    /// The label of the input's encoding; UTF-8 where there is none.
    pub encoding: Option<String>,
}

impl Default for BlockOptions {
    fn default() -> Self {
        Self { block_bytes: BLOCK_BYTES_DEFAULT, record_bytes_max: 1_000_000_000, encoding: None }
    }
}

/// Finds the places where blocks may end. It is shown each byte of the input once, in order.
pub trait Cut {
    /// Returns the last place in `fresh` where a block may end, as the number of bytes before it.
    /// `fresh` follows the bytes of the call before.
    fn last_cut(&mut self, fresh: &[u8]) -> Option<usize>;

    /// Name of the piece that must fit a block, for a message about one that does not.
    fn piece(&self) -> &'static str;
}

/// Cuts after newlines.
struct Lines;

impl Cut for Lines {
    fn last_cut(&mut self, fresh: &[u8]) -> Option<usize> {
        memrchr(b'\n', fresh).map(|at| at + 1)
    }

    fn piece(&self) -> &'static str {
        "line"
    }
}

/// Cuts an input into blocks.
pub struct BlockReader<'a> {
    source: Opened<'a>,
    /// Bytes read beyond the end of the last block; they may not be cut.
    rest: Vec<u8>,
    /// Number of bytes of `rest` that no [`Cut`] has seen yet: those read for the beginning.
    unseen_bytes: usize,
    block_bytes: usize,
    /// Offset in a block up to which the first read goes.
    first_end: usize,
    record_bytes_max: u64,
    next_line: u64,
    line_ends: LineEnds,
    /// True if `rest` is all of the input.
    has_all: bool,
    is_ended: bool,
}

impl<'a> BlockReader<'a> {
    /// Reads the first bytes to see how the input is encoded.
    ///
    /// # Errors
    /// [`ErrorKind::Misuse`](crate::ErrorKind::Misuse) for an unknown encoding; an input error where the input
    /// is not in the encoding that it should be in.
    pub fn new(mut source: Opened<'a>, options: &BlockOptions) -> Result<Self> {
        encoding::prepare(&mut source, options.encoding.as_deref())?;
        // Two bytes more than a file has: for a last line end, and for the read that finds the end.
        let file_bytes = source.plain_bytes().filter(|bytes| *bytes > 0).unwrap_or(u64::MAX);
        let first_bytes = file_bytes.saturating_add(2).min(FIRST_READ_BYTES as u64) as usize;
        Ok(Self {
            source,
            rest: Vec::new(),
            unseen_bytes: 0,
            block_bytes: options.block_bytes.max(1),
            first_end: FIRST_READ_BYTES.min(BLOCK_HEADROOM + first_bytes),
            record_bytes_max: record_bytes_limit(options.record_bytes_max),
            next_line: 1,
            line_ends: LineEnds::default(),
            has_all: false,
            is_ended: false,
        })
    }

    /// The beginning of the input, as much as a block holds. To be called before the first block is
    /// read.
    ///
    /// # Errors
    /// If the input cannot be read.
    pub fn peek(&mut self) -> Result<Sample<'_>> {
        if self.rest.is_empty() && !self.is_ended {
            let limit = self.block_bytes as u64;
            let read = self.source.by_ref().take(limit).read_to_end(&mut self.rest);
            self.has_all = (read.map_err(|error| self.source.describe(error))? as u64) < limit;
            self.unseen_bytes = self.rest.len();
        }
        Ok(Sample { text: &self.rest, is_all: self.has_all || self.is_ended })
    }

    /// Puts a filter around the input, from its first byte on. To be called before the first
    /// block is read. The filter's output begins with the line `first_line`.
    pub fn filter(&mut self, rules: LineRules, first_line: u64) {
        let seen = std::mem::take(&mut self.rest);
        self.unseen_bytes = 0;
        self.has_all = false;
        self.next_line = first_line;
        self.line_ends = rules.line_ends();
        self.source
            .wrap(|reader| Box::new(LineFilter::new(rules, Cursor::new(seen).chain(reader))));
    }

    /// The input's name, for messages.
    pub fn name(&self) -> &str {
        self.source.name()
    }

    /// Tells whether the input has been read to its end.
    pub fn is_at_end(&self) -> bool {
        self.is_ended && self.rest.is_empty()
    }

    /// Reads the next block; returns false at the end of the input.
    ///
    /// # Errors
    /// Fails if the input cannot be read, is damaged, or has too long a line. No
    /// further block can be read then.
    pub fn next(&mut self, block: &mut Block) -> Result<bool> {
        self.next_cut(block, &mut Lines)
    }

    /// Reads the next block as [`next`](Self::next) does, but cut by `cut` instead of after
    /// lines. The same `cut` must be given for all blocks.
    ///
    /// # Errors
    /// As [`next`](Self::next).
    pub fn next_cut(&mut self, block: &mut Block, cut: &mut impl Cut) -> Result<bool> {
        block.clear();
        if self.is_ended {
            return Ok(false);
        }
        self.shrink(block);
        block.first_line = self.next_line;
        block.line_ends = self.line_ends;
        block.push(&self.rest).map_err(|error| self.out_of_memory(error))?;
        self.rest.clear();
        self.is_ended = self.has_all;
        if !self.fill_whole(block, cut)? {
            return Ok(false);
        }
        self.next_line += self.line_ends.count(block.data());
        Ok(true)
    }

    /// The line ends in the blocks so far.
    pub fn lines_read(&self) -> u64 {
        self.next_line - 1
    }

    /// The size of the input in its compressed form, if known.
    pub fn bytes_total(&self) -> Option<u64> {
        self.source.bytes_total()
    }

    /// Fills `block` up to its size, or further up to the first cut.
    fn fill_whole(&mut self, block: &mut Block, cut: &mut impl Cut) -> Result<bool> {
        let mut searched = block.end - std::mem::take(&mut self.unseen_bytes);
        let mut target = block.end + self.block_bytes.saturating_sub(block.data().len()).max(1);
        loop {
            self.fill(block, target)?;
            let found = cut.last_cut(&block.buffer[searched..block.end]);
            if self.is_ended {
                if block.data().last().is_some_and(|&last| last != b'\n') {
                    block.push(b"\n").map_err(|error| self.out_of_memory(error))?;
                }
                return Ok(!block.data().is_empty());
            }
            if let Some(at) = found {
                let cut = searched + at;
                self.rest.extend_from_slice(&block.buffer[cut..block.end]);
                block.end = cut;
                return Ok(true);
            }
            if block.data().len() as u64 > self.record_bytes_max {
                return Err(self.too_long(cut.piece()));
            }
            searched = block.end;
            target = block.end + self.block_bytes;
        }
    }

    /// Reads until the data reach `target` or the input ends.
    fn fill(&mut self, block: &mut Block, target: usize) -> Result<()> {
        while block.end < target && !self.is_ended {
            if block.end == block.buffer.len() {
                let end = (2 * block.end).max(self.first_end).min(target);
                block.grow(end).map_err(|error| self.out_of_memory(error))?;
            }
            let end = block.buffer.len().min(target);
            match self.source.read(&mut block.buffer[block.end..end]) {
                Ok(0) => self.is_ended = true,
                Ok(count) => block.end += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => {
                    self.is_ended = true;
                    return Err(self.source.describe(error));
                }
            }
        }
        Ok(())
    }

    /// Gives back the memory that one long record took.
    fn shrink(&self, block: &mut Block) {
        let usual_bytes = BLOCK_HEADROOM + self.block_bytes.max(self.rest.len());
        if block.buffer.len() > 4 * usual_bytes {
            block.buffer.truncate(usual_bytes);
            block.buffer.shrink_to_fit();
        }
    }

    fn too_long(&mut self, piece: &str) -> Error {
        self.is_ended = true;
        let reason =
            format!("{piece} {} is longer than {} bytes", self.next_line, self.record_bytes_max);
        Error::from(ErrorKind::Input { file: self.source.name().to_owned(), reason })
            .to_do(TOO_LONG_ADVICE)
    }

    fn out_of_memory(&mut self, error: OutOfMemory) -> Error {
        self.is_ended = true;
        error.describe(self.source.name())
    }
}
