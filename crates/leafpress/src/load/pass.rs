//! One pass over a CSV input, on all cores: the frame that survey and press share.
//!
//! ```text
//! worker: read ──► scan ──► settle ──► rows ──► join ──► write
//!         (lock)            (turn)              (turn)
//! ```
//!
//! Workers claim blocks in order and work on them side by side. Two steps of a
//! block depend on those before it and are *turns* ([`Turns`]):
//!
//! - **settle**: where the block before ended inside quotes, this one begins
//!   there; how many rows came before; which of its rows are bad.
//! - **join**: what was made of its rows follows what was made of the rows
//!   before: page numbers, evidence, the first error.
//!
//! As every outcome is decided in a turn, it does not depend on the number of
//! threads: neither the file, byte for byte, nor which error is reported.

use std::fmt::Write as _;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::fields::{Misfit, RowRules, Scratch, is_ragged};
use super::options::CancelToken;
use super::rejects::{Rejects, Words};
use super::signs::{Signs, escaped_letter_line, with_encoding};
use super::turns::{Turns, lock};
use crate::error::{BadRow, Error, ErrorKind, Result};
use crate::input::block::{Block, BlockReader, TOO_LONG_ADVICE};
use crate::input::csv::locate::{EXCERPT_BYTES_MAX, Position, excerpt, unclosed_quote};
use crate::input::csv::scan::Records;
use crate::input::csv::{Carry, Dialect, FieldIndex, RecordSpan, Scanner};

/// What a pass does with the rows of a block.
pub trait Work: Sync {
    /// What it makes of a block, reused from block to block by a worker.
    type Made: Send;
    /// The state of the join turns.
    type Joined: Send;
    /// What is left to do with a block after its join turn.
    type Ticket;

    /// Memory for one worker.
    fn start(&self) -> Self::Made;

    /// Works on the good rows of a block; on any thread, in any order.
    fn rows(&self, rows: &BlockRows<'_>, made: &mut Self::Made) -> Result<(), Halt>;

    /// Joins a block's outcome to those before it; in the blocks' order.
    fn join(&self, made: &mut Self::Made, joined: &mut Self::Joined) -> Result<Self::Ticket, Halt>;

    /// Ends with the block; on any thread, in any order.
    fn finish(&self, ticket: Self::Ticket, made: &mut Self::Made) -> Result<(), Halt>;

    /// Ends a worker, after its last block.
    fn end(&self, made: Self::Made) -> Result<(), Halt> {
        drop(made);
        Ok(())
    }
}

/// Why a pass ended early.
#[derive(Debug)]
pub enum Halt {
    /// A detected type is wrong: the whole input must be looked at.
    Refuted,
    /// The input has a column that nobody knew of.
    NewColumn,
    /// The primary key does not ascend: the rows must be sorted.
    Unsorted,
    /// It failed.
    Failed(Error),
}

impl From<Error> for Halt {
    fn from(error: Error) -> Self {
        Self::Failed(error)
    }
}

/// The rows of one block that go on.
pub struct BlockRows<'b> {
    pub bytes: &'b [u8],
    pub block: &'b Block,
    index: &'b FieldIndex,
    dialect: Dialect,
    skip_header: bool,
    bad: &'b [usize],
    /// Rows that went on before this block.
    pub before: u64,
}

impl<'b> BlockRows<'b> {
    /// The rows of a block by itself, as a sample.
    pub fn of_sample(
        (block, index): (&'b Block, &'b FieldIndex),
        dialect: Dialect,
        skip_header: bool,
    ) -> Self {
        let (bytes, bad) = (block.bytes(), &[][..]);
        Self { bytes, block, index, dialect, skip_header, bad, before: 0 }
    }

    /// The records, one after the other.
    pub fn records(&self) -> GoodRecords<'b> {
        let mut records = self.index.records(self.bytes, self.block.start());
        if self.skip_header {
            records.next();
        }
        let next = usize::from(self.skip_header);
        GoodRecords { records, next, bad: self.bad }
    }

    /// The line of an offset.
    pub fn line(&self, at: usize) -> u64 {
        self.block.position(at).line
    }

    /// What is wrong with a row, with its place and its text.
    pub fn bad_row(&self, file: &str, misfit: Misfit, span: &RecordSpan<'_>) -> BadRow {
        let from = (self.block.start(), self.block.first_line());
        bad_row(file, (self.block, self.dialect), misfit, span, from)
    }
}

/// The records of a block but for the bad ones.
pub struct GoodRecords<'b> {
    records: Records<'b>,
    next: usize,
    bad: &'b [usize],
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

/// Everything that the workers of a pass share.
pub struct Pass<'p, 's> {
    pub file: &'p str,
    pub rules: &'p RowRules,
    pub threads: usize,
    pub cancel: &'p CancelToken,
    /// Rows joined so far, for the progress display.
    pub rows_done: &'p AtomicU64,
    /// Whether bad rows are looked for before the rows are worked on, as they
    /// are left out or only counted. Otherwise the first one ends the pass.
    pub screen: bool,
    /// Whether the first record is the header.
    pub header: bool,
    pub record_bytes_max: u64,
    /// Good rows of the inputs before this one.
    pub rows_before: u64,
    pub reader: Mutex<Reader<'s>>,
}

/// The blocks, of which the first has been read for a sample.
pub struct Reader<'s> {
    pub first: Option<Block>,
    pub blocks: BlockReader<'s>,
    pub claimed: u64,
}

/// What a pass counted.
#[derive(Debug)]
pub struct PassSummary {
    pub rows_read: u64,
    pub rows_good: u64,
    pub stray_quotes: u64,
    pub first_stray_line: Option<u64>,
    /// The quote that is perhaps never closed, where the first stray quote follows one.
    pub unclosed: Option<Position>,
    pub signs: Signs,
    pub clock: Clock,
}

/// Where the workers' time went.
#[derive(Debug, Clone, Copy, Default)]
pub struct Clock {
    pub read: Duration,
    pub scan: Duration,
    pub rows: Duration,
    pub write: Duration,
    pub wait: Duration,
}

impl Clock {
    pub fn add(&mut self, other: Self) {
        self.read += other.read;
        self.scan += other.scan;
        self.rows += other.rows;
        self.write += other.write;
        self.wait += other.wait;
    }
}

/// The state of the settle turns.
struct Settled<'r> {
    carry: Carry,
    header_seen: bool,
    rows_read: u64,
    rows_good: u64,
    stray_quotes: u64,
    first_stray_line: Option<u64>,
    unclosed: Option<Position>,
    signs: Signs,
    rejects: &'r Mutex<Rejects>,
}

/// A worker's memory.
struct Worker<M> {
    block: Block,
    index: FieldIndex,
    scanner: Scanner,
    bad: Vec<usize>,
    misfits: Vec<(usize, Misfit)>,
    scratch: Scratch,
    made: M,
    clock: Clock,
}

/// The state of the join turns, and how the pass ended.
struct Joining<J> {
    joined: J,
    halt: Option<Halt>,
}

impl<'s> Pass<'_, 's> {
    /// Runs the pass; returns what was joined.
    pub fn run<W: Work>(
        &self,
        work: &W,
        joined: W::Joined,
        rejects: &Mutex<Rejects>,
    ) -> Result<(W::Joined, PassSummary), Halt> {
        let settle = Turns::new(Settled {
            carry: Carry::new(self.rules.dialect, self.file, self.record_bytes_max),
            header_seen: !self.header,
            rows_read: 0,
            rows_good: self.rows_before,
            stray_quotes: 0,
            first_stray_line: None,
            unclosed: None,
            signs: Signs::default(),
            rejects,
        });
        let join = Turns::new(Joining { joined, halt: None });
        let clock = Mutex::new(Clock::default());
        let ended: Mutex<Result<(), Halt>> = Mutex::new(Ok(()));
        std::thread::scope(|scope| {
            for _ in 0..self.threads.max(1) {
                scope.spawn(|| {
                    let _guard = HaltOnPanic { settle: &settle, join: &join };
                    let mut worker = self.worker(work);
                    while self.step(work, &mut worker, &settle, &join) {}
                    lock(&clock).add(worker.clock);
                    if let Err(halt) = work.end(worker.made) {
                        *lock(&ended) = Err(halt);
                    }
                });
            }
        });
        let Joining { joined, halt } = join.into_state();
        let mut settled = settle.into_state();
        if let Some(halt) = halt {
            return Err(halt);
        }
        if self.cancel.is_cancelled() {
            return Err(Error::from(ErrorKind::Cancelled).into());
        }
        ended.into_inner().unwrap_or_else(PoisonError::into_inner)?;
        settled.end(self)?;
        let clock = clock.into_inner().unwrap_or_else(PoisonError::into_inner);
        let summary = PassSummary {
            rows_read: settled.rows_read,
            rows_good: settled.rows_good - self.rows_before,
            stray_quotes: settled.stray_quotes,
            first_stray_line: settled.first_stray_line,
            unclosed: settled.unclosed,
            signs: settled.signs,
            clock,
        };
        Ok((joined, summary))
    }

    /// The rest of the input, after a pass that ended early.
    pub fn into_blocks(self) -> BlockReader<'s> {
        self.reader.into_inner().unwrap_or_else(PoisonError::into_inner).blocks
    }

    fn worker<W: Work>(&self, work: &W) -> Worker<W::Made> {
        Worker {
            block: Block::new(),
            index: FieldIndex::new(),
            scanner: Scanner::new(self.rules.dialect),
            bad: Vec::new(),
            misfits: Vec::new(),
            scratch: Scratch::new(),
            made: work.start(),
            clock: Clock::default(),
        }
    }

    /// Works on one block; false when there is none left, or nothing to do.
    fn step<W: Work>(
        &self,
        work: &W,
        worker: &mut Worker<W::Made>,
        settle: &Turns<Settled<'_>>,
        join: &Turns<Joining<W::Joined>>,
    ) -> bool {
        if self.cancel.is_cancelled() {
            settle.halt();
            join.halt();
            return false;
        }
        let started = Instant::now();
        let (turn, claimed) = self.claim(&mut worker.block);
        worker.clock.read += started.elapsed();
        let rows = match claimed {
            Ok(false) => return false,
            Ok(true) => self.scan_and_settle(worker, turn, settle),
            // In its turn like any other, so that earlier blocks are settled.
            Err(error) => settle.take(turn, |_| Err(error)),
        };
        let outcome = match rows {
            None => return false,
            Some(Ok(settled)) => worker.work_on(work, &settled),
            Some(Err(error)) => {
                // Nothing after this block can be settled; those before it
                // still may find an earlier error.
                settle.halt();
                Err(Halt::Failed(error))
            }
        };
        worker.join_and_finish(work, turn, outcome, settle, join)
    }

    /// Takes the next block: its number, and whether there was one.
    fn claim(&self, block: &mut Block) -> (u64, Result<bool>) {
        let mut reader = lock(&self.reader);
        let turn = reader.claimed;
        let result = match reader.first.take() {
            Some(first) => {
                *block = first;
                Ok(true)
            }
            None => reader.blocks.next(block),
        };
        let result = match (result, block.check_memory()) {
            (Ok(true), Err(error)) => Err(error.describe(self.file)),
            (result, _) => result,
        };
        reader.claimed += 1;
        (turn, result)
    }

    fn scan_and_settle<M>(
        &self,
        worker: &mut Worker<M>,
        turn: u64,
        settle: &Turns<Settled<'_>>,
    ) -> Option<Result<SettledBlock>> {
        let started = Instant::now();
        worker.scanner.begin(worker.block.start(), &mut worker.index);
        worker.scanner.scan(worker.block.bytes(), &mut worker.index);
        self.screen_rows(worker);
        let letter_line = escaped_letter_line(&worker.block, self.rules.dialect);
        let scanned = Instant::now();
        let settled = settle.take(turn, |state| {
            state.signs.add_letter(letter_line);
            state.settle(self, worker)
        });
        worker.clock.scan += scanned - started;
        worker.clock.wait += scanned.elapsed();
        settled
    }

    /// Finds the bad rows of a block, where they must be known beforehand.
    fn screen_rows<M>(&self, worker: &mut Worker<M>) {
        worker.misfits.clear();
        if !self.screen {
            return;
        }
        let bytes = worker.block.bytes();
        let is_utf8 = self.rules.is_text(worker.block.data());
        for (record, span) in worker.index.records(bytes, worker.block.start()).enumerate() {
            let checked = self.rules.check(bytes, &span, is_utf8, &mut worker.scratch);
            if let Err(misfit) = checked {
                worker.misfits.push((record, misfit));
            }
        }
    }
}

impl<M> Worker<M> {
    fn work_on<W: Work<Made = M>>(&mut self, work: &W, settled: &SettledBlock) -> Result<(), Halt> {
        let started = Instant::now();
        let rows = BlockRows {
            bytes: self.block.bytes(),
            block: &self.block,
            index: &self.index,
            dialect: self.scanner.dialect(),
            skip_header: settled.skip_header,
            bad: &self.bad,
            before: settled.before,
        };
        let outcome = work.rows(&rows, &mut self.made);
        self.clock.rows += started.elapsed();
        outcome
    }

    fn join_and_finish<W: Work<Made = M>>(
        &mut self,
        work: &W,
        turn: u64,
        outcome: Result<(), Halt>,
        settle: &Turns<Settled<'_>>,
        join: &Turns<Joining<W::Joined>>,
    ) -> bool {
        let started = Instant::now();
        let made = &mut self.made;
        let ticket = join.take(turn, |state| {
            if state.halt.is_some() {
                return None;
            }
            let ticket = outcome.and_then(|()| work.join(made, &mut state.joined));
            ticket.map_err(|halt| state.halt = Some(halt)).ok()
        });
        self.clock.wait += started.elapsed();
        let Some(Some(ticket)) = ticket else {
            settle.halt();
            join.halt();
            return false;
        };
        let started = Instant::now();
        let finished = work.finish(ticket, &mut self.made);
        self.clock.write += started.elapsed();
        if let Err(halt) = finished {
            join.interrupt(|state| {
                state.halt.get_or_insert(halt);
            });
            settle.halt();
            return false;
        }
        true
    }
}

/// What a settle turn found out about a block.
struct SettledBlock {
    skip_header: bool,
    before: u64,
}

impl Settled<'_> {
    fn settle<M>(&mut self, pass: &Pass<'_, '_>, worker: &mut Worker<M>) -> Result<SettledBlock> {
        let begins_elsewhere = self.carry.is_held();
        self.carry.settle(&mut worker.block, &mut worker.index, &mut worker.scanner)?;
        if begins_elsewhere {
            pass.screen_rows(worker);
        }
        check_lengths(pass, worker)?;
        let records = worker.index.record_ends().len();
        let skip_header = !self.header_seen && records > 0;
        self.header_seen |= skip_header;
        self.note_strays(worker);
        if skip_header {
            let header = worker.index.records(worker.block.bytes(), worker.block.start()).next();
            let header = header.map(|span| &worker.block.bytes()[span.start..record_end(&span)]);
            lock(self.rejects).set_header(header.unwrap_or_default());
        }
        self.reject(pass, worker, skip_header)?;
        let read = (records - usize::from(skip_header)) as u64;
        let count = read - worker.bad.len() as u64;
        let before = self.rows_good;
        self.rows_read += read;
        self.rows_good += count;
        pass.rows_done.store(self.rows_good, Ordering::Relaxed);
        Ok(SettledBlock { skip_header, before })
    }

    fn note_strays<M>(&mut self, worker: &Worker<M>) {
        self.stray_quotes += worker.index.stray_quotes();
        if let (None, Some(at)) = (self.first_stray_line, worker.index.first_stray()) {
            let Worker { block, index, scanner, .. } = worker;
            self.first_stray_line = Some(block.position(at).line);
            let mut records = index.records(block.bytes(), block.start());
            let strayed = records.find(|span| record_end(span) > at);
            let quote =
                strayed.and_then(|span| unclosed_quote(block.bytes(), &span, scanner.dialect()));
            self.unclosed = quote.map(|at| block.position(at));
        }
    }

    /// Hands the block's bad rows over, in order.
    fn reject<M>(
        &mut self,
        pass: &Pass<'_, '_>,
        worker: &mut Worker<M>,
        skip_header: bool,
    ) -> Result<()> {
        worker.bad.clear();
        if worker.misfits.is_empty() {
            return Ok(());
        }
        let Worker { block, index, misfits, bad, .. } = worker;
        let mut misfits = misfits.drain(..).peekable();
        // Counted on from row to row: nearly all of them may be bad.
        let (mut line, mut counted_to) = (block.first_line(), block.start());
        for (record, span) in index.records(block.bytes(), block.start()).enumerate() {
            let Some((_, misfit)) = misfits.next_if(|(at, _)| *at == record) else {
                if misfits.peek().is_none() {
                    break;
                }
                continue;
            };
            if record == 0 && skip_header {
                continue;
            }
            bad.push(record);
            let row = pass.rules.as_rejected(block.bytes(), &span);
            let at = misfit.at;
            self.signs.add(&misfit, block);
            let of = (&*block, pass.rules.dialect);
            let bad_row = bad_row(pass.file, of, misfit, &span, (counted_to, line));
            (counted_to, line) = (at, bad_row.line);
            let added = lock(self.rejects).add(bad_row, &row, Words::Own);
            added.map_err(|error| with_encoding(error, block.data()))?;
        }
        Ok(())
    }

    /// The end of the input: a record that is still open is a bad row.
    fn end(&mut self, pass: &Pass<'_, '_>) -> Result<()> {
        self.stray_quotes += self.carry.stray_quotes();
        let Some(unfinished) = self.carry.unfinished() else { return Ok(()) };
        if !pass.screen {
            return Err(unfinished.into());
        }
        self.rows_read += 1;
        lock(self.rejects).add(unfinished, self.carry.data(), Words::Own)
    }
}

/// Refuses a row that is longer than allowed, or than there is memory for. A block that is
/// shorter than the limit needs no look.
fn check_lengths<M>(pass: &Pass<'_, '_>, worker: &Worker<M>) -> Result<()> {
    let Worker { block, index, .. } = worker;
    block.check_memory().map_err(|error| error.describe(pass.file))?;
    if block.data().len() as u64 <= pass.record_bytes_max {
        return Ok(());
    }
    let is_long = |span: &RecordSpan<'_>| {
        (record_end(span) - span.start) as u64 > pass.record_bytes_max.saturating_add(1)
    };
    let long = index.records(block.bytes(), block.start()).find(is_long);
    long.map_or(Ok(()), |span| {
        Err(row_too_long(pass.file, block.position(span.start).line, pass.record_bytes_max))
    })
}

fn row_too_long(file: &str, line: u64, bytes_max: u64) -> Error {
    let reason = format!("the record that starts at line {line} is longer than {bytes_max} bytes");
    Error::from(ErrorKind::Input { file: file.to_owned(), reason }).to_do(TOO_LONG_ADVICE)
}

fn record_end(span: &RecordSpan<'_>) -> usize {
    span.field_ends.last().map_or(span.start, |&end| end as usize + 1)
}

/// A bad row; lines are counted from an offset in an earlier row (or the
/// block's start) whose line is known.
fn bad_row(
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
        row: excerpt(bytes, span.start, record_end(span), EXCERPT_BYTES_MAX),
    }
}

/// A worker that panics must not leave the others waiting for its turn.
struct HaltOnPanic<'t, 'r, J> {
    settle: &'t Turns<Settled<'r>>,
    join: &'t Turns<Joining<J>>,
}

impl<J> Drop for HaltOnPanic<'_, '_, J> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.settle.halt();
            self.join.halt();
        }
    }
}
