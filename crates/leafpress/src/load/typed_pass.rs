//! One pass over an input of typed rows, on all cores.
//!
//! ```text
//! worker: claim ──► decode ──► settle ──► rows ──► join ──► write
//!         (lock)               (turn)              (turn)
//! ```
//!
//! The same frame as `pass.rs` has for CSV: settling counts the rows before
//! and hands over the bad ones, joining brings what was made into order.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use super::options::CancelToken;
use super::pass::{Clock, Halt};
use super::rejects::{Rejects, Words};
use super::signs::with_encoding;
use super::turns::{Turns, lock};
use super::typed::TypedRules;
use crate::error::{BadRow, Error, ErrorKind, Result};
use crate::input::rows::{DecodeHalt, RowBatch, RowDecoder, RowReader};

/// What a pass does with the rows of a batch.
pub trait BatchWork<B>: Sync {
    /// What it makes of a batch, reused from batch to batch by a worker.
    type Made: Send;
    /// The state of the join turns.
    type Joined: Send;
    /// What is left to do with a batch after its join turn.
    type Ticket;

    /// Memory for one worker.
    fn start(&self) -> Self::Made;

    /// Works on the good rows of a batch; on any thread, in any order.
    fn rows(&self, rows: &BatchRows<'_, B>, made: &mut Self::Made) -> Result<(), Halt>;

    /// Joins a batch's outcome to those before it; in the batches' order.
    fn join(&self, made: &mut Self::Made, joined: &mut Self::Joined) -> Result<Self::Ticket, Halt>;

    /// Ends with the batch; on any thread, in any order.
    fn finish(&self, ticket: Self::Ticket, made: &mut Self::Made) -> Result<(), Halt>;

    /// Ends a worker, after its last batch.
    fn end(&self, made: Self::Made) -> Result<(), Halt> {
        drop(made);
        Ok(())
    }
}

/// The rows of one batch that go on.
pub struct BatchRows<'b, B> {
    pub batch: &'b B,
    pub file: &'b str,
    bad: &'b [usize],
    /// Rows that went on before this batch.
    pub before: u64,
}

impl<B: RowBatch> BatchRows<'_, B> {
    /// The places of the good rows in the batch.
    pub fn places(&self) -> impl Iterator<Item = usize> {
        let mut bad = self.bad.iter().peekable();
        (0..self.batch.rows()).filter(move |row| bad.next_if_eq(&row).is_none())
    }

    /// What is wrong with a row, with its place and its text.
    pub fn bad_row(&self, row: usize, reason: String) -> BadRow {
        bad_row(self.batch, self.file, row, reason)
    }
}

fn bad_row<B: RowBatch>(batch: &B, file: &str, row: usize, reason: String) -> BadRow {
    BadRow {
        file: file.to_owned(),
        line: batch.line(row),
        column: 1,
        reason,
        row: batch.excerpt(row),
    }
}

/// Everything that the workers of a pass share.
pub struct TypedPass<'p, R: RowReader, D: RowDecoder> {
    pub file: &'p str,
    pub rules: &'p TypedRules,
    pub decoder: D,
    pub threads: usize,
    pub cancel: &'p CancelToken,
    /// Rows settled so far, for the progress display.
    pub rows_done: &'p AtomicU64,
    /// Whether rows that do not fit are looked for before the rows are worked on.
    pub screen: bool,
    /// Good rows of the inputs before this one.
    pub rows_before: u64,
    pub reader: Mutex<Claims<R, D::Batch>>,
}

/// The input, of which a first batch may have been taken for a sample.
pub struct Claims<R, B> {
    pub first: Option<B>,
    pub reader: R,
    pub claimed: u64,
}

/// What a pass counted.
#[derive(Debug)]
pub struct TypedSummary {
    pub rows_read: u64,
    pub rows_good: u64,
    pub clock: Clock,
}

struct Settled {
    rows_read: u64,
    rows_good: u64,
}

struct Joining<J> {
    joined: J,
    halt: Option<Halt>,
}

struct Worker<W, B, M> {
    raw: W,
    batch: B,
    misfits: Vec<(usize, String)>,
    bad: Vec<usize>,
    made: M,
    clock: Clock,
}

impl<R, D> TypedPass<'_, R, D>
where
    R: RowReader,
    D: RowDecoder<Raw = R::Raw>,
{
    /// Runs the pass; returns what was joined.
    pub fn run<W: BatchWork<D::Batch>>(
        &self,
        work: &W,
        joined: W::Joined,
        rejects: &Mutex<Rejects>,
    ) -> Result<(W::Joined, TypedSummary), Halt> {
        let settle = Turns::new(Settled { rows_read: 0, rows_good: self.rows_before });
        let join = Turns::new(Joining { joined, halt: None });
        let clock = Mutex::new(Clock::default());
        let ended: Mutex<Result<(), Halt>> = Mutex::new(Ok(()));
        std::thread::scope(|scope| {
            for _ in 0..self.threads.max(1) {
                scope.spawn(|| {
                    let _guard = HaltOnPanic { settle: &settle, join: &join };
                    let mut worker = Worker {
                        raw: R::Raw::default(),
                        batch: D::Batch::default(),
                        misfits: Vec::new(),
                        bad: Vec::new(),
                        made: work.start(),
                        clock: Clock::default(),
                    };
                    while self.step(work, &mut worker, &settle, &join, rejects) {}
                    lock(&clock).add(worker.clock);
                    if let Err(halt) = work.end(worker.made) {
                        *lock(&ended) = Err(halt);
                    }
                });
            }
        });
        let Joining { joined, halt } = join.into_state();
        let Settled { rows_read, rows_good } = settle.into_state();
        if let Some(halt) = halt {
            return Err(halt);
        }
        if self.cancel.is_cancelled() {
            return Err(Error::from(ErrorKind::Cancelled).into());
        }
        ended.into_inner().unwrap_or_else(PoisonError::into_inner)?;
        let clock = clock.into_inner().unwrap_or_else(PoisonError::into_inner);
        Ok((joined, TypedSummary { rows_read, rows_good: rows_good - self.rows_before, clock }))
    }

    /// The rest of the input, after a pass that ended early.
    pub fn into_reader(self) -> R {
        self.reader.into_inner().unwrap_or_else(PoisonError::into_inner).reader
    }

    /// Works on the next batch; false if there is none, or nothing left to do.
    fn step<W: BatchWork<D::Batch>>(
        &self,
        work: &W,
        worker: &mut Worker<R::Raw, D::Batch, W::Made>,
        settle: &Turns<Settled>,
        join: &Turns<Joining<W::Joined>>,
        rejects: &Mutex<Rejects>,
    ) -> bool {
        if self.cancel.is_cancelled() {
            settle.halt();
            join.halt();
            return false;
        }
        let (turn, decoded) = self.decode(worker);
        let decoded = match decoded {
            Ok(true) => Ok(()),
            Ok(false) => return false,
            Err(halt) => Err(halt),
        };
        let outcome = match decoded {
            Ok(()) => {
                let settled = settle.take(turn, |state| self.settle(worker, state, rejects));
                let Some(settled) = settled else { return false };
                settled.map_err(Halt::Failed).and_then(|before| {
                    let started = Instant::now();
                    let rows = BatchRows {
                        batch: &worker.batch,
                        file: self.file,
                        bad: &worker.bad,
                        before,
                    };
                    let outcome = work.rows(&rows, &mut worker.made);
                    worker.clock.rows += started.elapsed();
                    outcome
                })
            }
            // In its turn like any other, so that earlier batches are settled.
            Err(halt) => match settle.take(turn, |_| ()) {
                Some(()) => Err(halt),
                None => return false,
            },
        };
        if matches!(outcome, Err(Halt::Failed(_))) {
            settle.halt();
        }
        Self::join(work, worker, turn, outcome, settle, join)
    }

    /// Claims a piece and takes it apart: its number, and whether there was one.
    fn decode<M>(&self, worker: &mut Worker<R::Raw, D::Batch, M>) -> (u64, Result<bool, Halt>) {
        let started = Instant::now();
        let (turn, claimed) = {
            let mut claims = lock(&self.reader);
            let turn = claims.claimed;
            claims.claimed += 1;
            if let Some(first) = claims.first.take() {
                worker.batch = first;
                drop(claims);
                self.find_misfits(worker);
                return (turn, Ok(true));
            }
            (turn, claims.reader.claim(&mut worker.raw))
        };
        worker.clock.read += started.elapsed();
        let started = Instant::now();
        let decoded = match claimed {
            Ok(true) => self.decoder.decode(&mut worker.raw, &mut worker.batch).map(|()| true),
            Ok(false) => Ok(false),
            Err(error) => Err(DecodeHalt::Failed(error)),
        };
        if matches!(decoded, Ok(true)) {
            self.find_misfits(worker);
        }
        worker.clock.scan += started.elapsed();
        let decoded = decoded.map_err(|halt| match halt {
            DecodeHalt::NewColumn => Halt::NewColumn,
            DecodeHalt::Failed(error) => Halt::Failed(error),
        });
        (turn, decoded)
    }

    /// Finds rows that do not fit, where they must be known beforehand: to be
    /// left out, or as the first fault of a batch that has others.
    fn find_misfits<M>(&self, worker: &mut Worker<R::Raw, D::Batch, M>) {
        let Worker { batch, misfits, .. } = worker;
        misfits.clear();
        if self.screen || !batch.bad_rows().is_empty() {
            let rows = 0..batch.rows();
            misfits.extend(rows.filter_map(|row| Some((row, self.rules.check(batch, row).err()?))));
        }
    }

    /// Hands the batch's bad rows over, in order; how many good rows came before.
    fn settle<M>(
        &self,
        worker: &mut Worker<R::Raw, D::Batch, M>,
        state: &mut Settled,
        rejects: &Mutex<Rejects>,
    ) -> Result<u64> {
        let Worker { batch, misfits, bad, .. } = worker;
        bad.clear();
        let mut undecoded = batch.bad_rows().iter().peekable();
        let mut add_undecoded_up_to = |row: usize| {
            while let Some(next) = undecoded.next_if(|next| next.good_rows_before <= row) {
                let added = lock(rejects).add(next.bad_row.clone(), &next.original, Words::Own);
                added.map_err(|error| with_encoding(error, &next.original))?;
            }
            Ok::<_, Error>(())
        };
        for (row, reason) in misfits.drain(..) {
            add_undecoded_up_to(row)?;
            bad.push(row);
            let bad_row = bad_row(batch, self.file, row, reason);
            lock(rejects).add(bad_row, &batch.original(row), Words::Own)?;
        }
        add_undecoded_up_to(usize::MAX)?;
        let before = state.rows_good;
        state.rows_read += (batch.rows() + batch.bad_rows().len()) as u64;
        state.rows_good += (batch.rows() - bad.len()) as u64;
        self.rows_done.store(state.rows_good, Ordering::Relaxed);
        Ok(before)
    }

    fn join<W: BatchWork<D::Batch>>(
        work: &W,
        worker: &mut Worker<R::Raw, D::Batch, W::Made>,
        turn: u64,
        outcome: Result<(), Halt>,
        settle: &Turns<Settled>,
        join: &Turns<Joining<W::Joined>>,
    ) -> bool {
        let started = Instant::now();
        let made = &mut worker.made;
        let ticket = join.take(turn, |state| {
            if state.halt.is_some() {
                return None;
            }
            let ticket = outcome.and_then(|()| work.join(made, &mut state.joined));
            ticket.map_err(|halt| state.halt = Some(halt)).ok()
        });
        worker.clock.wait += started.elapsed();
        let Some(Some(ticket)) = ticket else {
            settle.halt();
            join.halt();
            return false;
        };
        let started = Instant::now();
        let finished = work.finish(ticket, &mut worker.made);
        worker.clock.write += started.elapsed();
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

/// A worker that panics must not leave the others waiting for its turn.
struct HaltOnPanic<'t, J> {
    settle: &'t Turns<Settled>,
    join: &'t Turns<Joining<J>>,
}

impl<J> Drop for HaltOnPanic<'_, J> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.settle.halt();
            self.join.halt();
        }
    }
}
