//! One pass over one input, on all cores: the frame of every pass, whatever the input.
//!
//! ```text
//! worker: claim ──► scan ──► settle ──► rows ──► join ──► finish
//!         (lock)             (turn)              (turn)
//! ```
//!
//! Workers claim the pieces of an input in order and work on them side by side. Two steps of
//! a piece depend on the pieces before it and are *turns* ([`Turns`]):
//!
//! - **settle**: how many rows came before; which of its rows are bad.
//! - **join**: what was made of its rows follows what was made of the rows before: page
//!   numbers, evidence, the first error.
//!
//! As every outcome is decided in a turn, it does not depend on the number of threads:
//! neither the file, byte for byte, nor which error is reported.
//!
//! [`Pieces`] is the input, [`Work`] is what the pass is for. The frame is compiled for each
//! pair of them, so that nothing stands between it and the hot loop of CSV.
//!
//! Must never: know the format of an input, or the results of its rows.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::rejects::Rejects;
use crate::error::{Error, Result};
use crate::load::options::CancelToken;
use crate::load::tree::turns::{HaltOnPanic, Turns};
use crate::load::tree::{JoinHalt, Refused};
use crate::sync::lock;
use crate::threads;

/// An input that is read piece by piece.
pub trait Pieces: Sync {
    /// Reads the input; one worker at a time has it.
    type Reader: Send;
    /// A worker's memory: a piece, and what is found in it before the work.
    type Piece;
    /// The part of a piece that the work sees.
    type Shown;
    /// State that each settle turn passes to the next one.
    type Carried: Send;

    /// Name of the input.
    fn file(&self) -> &str;

    /// Memory of one worker.
    fn piece(&self) -> Self::Piece;

    /// State for the first settle turn.
    fn carried(&self) -> Self::Carried;

    /// Reads the next piece; false at the end of the input.
    fn claim(&self, reader: &mut Self::Reader, piece: &mut Self::Piece) -> Result<bool>;

    /// Returns true if the reader is known to have one piece left, or none.
    fn is_last(&self, reader: &Self::Reader) -> bool {
        let _ = reader;
        false
    }

    /// Finds the rows in the piece; on any thread, in any order.
    fn scan(&self, piece: &mut Self::Piece) -> Result<(), Halt>;

    /// Lists the bad rows of the piece, and hands them over; in the pieces' order.
    fn settle(
        &self,
        piece: &mut Self::Piece,
        carried: &mut Self::Carried,
        bad: &mut Vec<usize>,
        rejects: &Mutex<Rejects>,
    ) -> Result<Counted>;

    /// The part of a piece that the work sees.
    fn shown<'p>(&self, piece: &'p Self::Piece) -> &'p Self::Shown;

    /// Ends the settling, after the last piece; returns the number of bad rows that this shows.
    fn end(&self, carried: &mut Self::Carried, rejects: &Mutex<Rejects>) -> Result<u64> {
        let _ = (carried, rejects);
        Ok(0)
    }
}

/// A pass's work on the rows of a piece.
pub trait Work<S>: Sync {
    /// Outcome of a piece, reused from piece to piece by a worker.
    type Made: Send;
    /// The state of the join turns.
    type Joined: Send;
    /// Rest of the work on a piece after its join turn.
    type Ticket;

    /// Memory of one worker.
    fn start(&self) -> Self::Made;

    /// Works on the good rows of a piece; on any thread, in any order.
    fn rows(&self, rows: &Rows<'_, S>, made: &mut Self::Made) -> Result<(), Halt>;

    /// Joins the outcome of a piece to those before it; in the pieces' order.
    fn join(&self, made: &mut Self::Made, joined: &mut Self::Joined) -> Result<Self::Ticket, Halt>;

    /// Finishes the piece; on any thread, in any order.
    fn finish(&self, ticket: Self::Ticket, made: &mut Self::Made) -> Result<(), Halt> {
        let _ = (ticket, made);
        Ok(())
    }

    /// Ends a worker, after its last piece.
    fn end(&self, made: Self::Made) -> Result<(), Halt> {
        drop(made);
        Ok(())
    }
}

/// Rows of one piece that go on.
pub struct Rows<'r, S> {
    pub piece: &'r S,
    /// Name of the input.
    pub file: &'r str,
    /// Indexes of the rows in the piece that are left out.
    pub bad: &'r [usize],
    /// Number of rows that went on before this piece.
    pub before: u64,
}

/// Reason why a pass ended early.
#[derive(Debug)]
pub enum Halt {
    /// A detected type is wrong: a pass over the whole input is needed.
    Refuted,
    /// The input has an unknown column.
    NewColumn,
    /// The primary key does not ascend: the rows must be sorted.
    Unsorted,
    /// SQLite refuses this row, and that is an error.
    Refused(Refused),
    /// The pass failed.
    Failed(Error),
}

impl From<Error> for Halt {
    fn from(error: Error) -> Self {
        Self::Failed(error)
    }
}

impl From<JoinHalt> for Halt {
    fn from(halt: JoinHalt) -> Self {
        match halt {
            JoinHalt::Unsorted => Self::Unsorted,
            JoinHalt::Refused(row) => Self::Refused(row),
            JoinHalt::Failed(error) => Self::Failed(error),
        }
    }
}

/// Number of rows that were read, and of those that go on.
#[derive(Debug, Clone, Copy, Default)]
pub struct Counted {
    pub read: u64,
    pub good: u64,
    /// Bytes of their text, not compressed; 0 for inputs that are no text.
    pub text_bytes: u64,
}

/// Time of the workers, by stage.
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

/// Outcome of a pass.
pub struct Summary<J, C> {
    pub joined: J,
    pub carried: C,
    /// Number of rows of this pass, and of those before it.
    pub rows: Counted,
    pub clock: Clock,
}

/// State that the workers of all passes share.
pub struct Frame<'f> {
    pub threads: usize,
    pub cancel: &'f CancelToken,
    /// Number of good rows settled so far, for the progress display.
    pub rows_done: &'f AtomicU64,
    /// Number of rows of the inputs before this one.
    pub rows_before: Counted,
    pub rejects: &'f Mutex<Rejects>,
}

/// State of one pass.
struct Run<'r, P: Pieces, W: Work<P::Shown>> {
    frame: &'r Frame<'r>,
    pieces: &'r P,
    work: &'r W,
    claims: Mutex<Claims<'r, P::Reader>>,
    settle: Turns<Settling<P::Carried>>,
    join: Turns<Joining<W::Joined>>,
}

/// Reader, and the number of claimed pieces.
struct Claims<'r, R> {
    reader: &'r mut R,
    claimed: u64,
}

/// State of the settle turns.
struct Settling<C> {
    carried: C,
    rows: Counted,
}

/// State of the join turns, and the reason why the pass ended.
struct Joining<J> {
    joined: J,
    halt: Option<Halt>,
}

/// Memory of a worker.
struct Worker<P, M> {
    piece: P,
    bad: Vec<usize>,
    made: M,
    clock: Clock,
}

impl Frame<'_> {
    /// Runs a pass over the rest of the input.
    pub fn run<P: Pieces, W: Work<P::Shown>>(
        &self,
        pieces: &P,
        reader: &mut P::Reader,
        work: &W,
        joined: W::Joined,
    ) -> Result<Summary<W::Joined, P::Carried>, Halt> {
        let is_last = pieces.is_last(reader);
        let run = Run {
            frame: self,
            pieces,
            work,
            claims: Mutex::new(Claims { reader, claimed: 0 }),
            settle: Turns::new(Settling { carried: pieces.carried(), rows: self.rows_before }),
            join: Turns::new(Joining { joined, halt: None }),
        };
        let ended = Mutex::new((Clock::default(), Ok(())));
        let work = || {
            let (clock, outcome) = run.work();
            let mut ended = lock(&ended);
            ended.0.add(clock);
            if outcome.is_err() {
                ended.1 = outcome;
            }
        };
        if is_last {
            // A thread costs more than a small piece.
            work();
        } else {
            std::thread::scope(|scope| {
                threads::start_workers(scope, self.threads.max(1), || work).map(threads::join_all)
            })?;
        }
        let Joining { joined, halt } = run.join.into_state();
        if let Some(halt) = halt {
            return Err(halt);
        }
        self.cancel.check()?;
        let (clock, outcome) = ended.into_inner().unwrap_or_else(PoisonError::into_inner);
        outcome?;
        let Settling { mut carried, mut rows } = run.settle.into_state();
        rows.read += pieces.end(&mut carried, self.rejects)?;
        Ok(Summary { joined, carried, rows, clock })
    }
}

impl<P: Pieces, W: Work<P::Shown>> Run<'_, P, W> {
    /// Works on pieces until none is left, or the pass was ended.
    fn work(&self) -> (Clock, Result<(), Halt>) {
        let _guard = HaltOnPanic(&self.settle, &self.join);
        let mut worker = Worker {
            piece: self.pieces.piece(),
            bad: Vec::new(),
            made: self.work.start(),
            clock: Clock::default(),
        };
        while self.step(&mut worker) {}
        (worker.clock, self.work.end(worker.made))
    }

    /// Works on one piece. Returns false if none is left, or the pass was ended.
    fn step(&self, worker: &mut Worker<P::Piece, W::Made>) -> bool {
        if self.frame.cancel.is_cancelled() {
            return self.halt();
        }
        let started = Instant::now();
        let (turn, claimed) = self.claim(&mut worker.piece);
        let read = Instant::now();
        worker.clock.read += read - started;
        let scanned = match claimed {
            Ok(false) => return false,
            Ok(true) => self.pieces.scan(&mut worker.piece),
            Err(error) => Err(error.into()),
        };
        let scan = Instant::now();
        worker.clock.scan += scan - read;
        // A failure takes its turn, too, so that earlier pieces are settled.
        let settled = self.settle.take(turn, |state| {
            scanned?;
            self.settle(worker, state)
        });
        let settle = Instant::now();
        worker.clock.wait += settle - scan;
        let outcome = match settled {
            None => return false,
            Some(Ok(before)) => {
                let Worker { piece, bad, made, .. } = worker;
                let piece = self.pieces.shown(piece);
                let rows = Rows { piece, file: self.pieces.file(), bad, before };
                let outcome = self.work.rows(&rows, made);
                worker.clock.rows += settle.elapsed();
                outcome
            }
            Some(Err(halt)) => {
                // No later piece can be settled. Earlier pieces still can, and may have an earlier
                // error.
                self.settle.halt();
                Err(halt)
            }
        };
        self.join_and_finish(worker, turn, outcome)
    }

    /// Takes the next piece. Returns its number, and true if there was one.
    fn claim(&self, piece: &mut P::Piece) -> (u64, Result<bool>) {
        let mut claims = lock(&self.claims);
        let turn = claims.claimed;
        claims.claimed += 1;
        (turn, self.pieces.claim(claims.reader, piece))
    }

    /// Settles a piece in its turn; returns the number of good rows before it.
    fn settle(
        &self,
        worker: &mut Worker<P::Piece, W::Made>,
        state: &mut Settling<P::Carried>,
    ) -> Result<u64, Halt> {
        let Worker { piece, bad, .. } = worker;
        bad.clear();
        let counted = self.pieces.settle(piece, &mut state.carried, bad, self.frame.rejects)?;
        let before = state.rows.good;
        state.rows.read += counted.read;
        state.rows.good += counted.good;
        state.rows.text_bytes += counted.text_bytes;
        self.frame.rows_done.store(state.rows.good, Ordering::Relaxed);
        Ok(before)
    }

    fn join_and_finish(
        &self,
        worker: &mut Worker<P::Piece, W::Made>,
        turn: u64,
        outcome: Result<(), Halt>,
    ) -> bool {
        let started = Instant::now();
        let made = &mut worker.made;
        let ticket = self.join.take(turn, |state| {
            if state.halt.is_some() {
                return None;
            }
            let ticket = outcome.and_then(|()| self.work.join(made, &mut state.joined));
            ticket.map_err(|halt| state.halt = Some(halt)).ok()
        });
        worker.clock.wait += started.elapsed();
        let Some(Some(ticket)) = ticket else { return self.halt() };
        let started = Instant::now();
        let finished = self.work.finish(ticket, &mut worker.made);
        worker.clock.write += started.elapsed();
        if let Err(halt) = finished {
            self.join.interrupt(|state| {
                state.halt.get_or_insert(halt);
            });
            return self.halt();
        }
        true
    }

    /// Ends all turns of the workers. Returns false, as there is nothing left to do.
    fn halt(&self) -> bool {
        self.settle.halt();
        self.join.halt();
        false
    }
}
