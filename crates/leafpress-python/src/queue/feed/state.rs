//! State of a feed: the jobs that it holds, and what is to be done with them.
//!
//! 1. A job is in `held` from its claim until it is settled, lost or given up: leases of exactly
//!    these are extended.
//! 2. A job is in `ready` or with one consumer, never both.
//! 3. A job that comes out of `to_settle` is settled by the thread that took it out.
//!
//! Must never: be locked while the database or Python is at work.

use std::collections::{HashMap, VecDeque};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::task::Waker;
use std::thread::Thread;
use std::time::{Duration, Instant};

use leafpress::queue::{Claim, Nack, Payload, Queue, Token};
use leafpress::vfs::fork::Process;
use leafpress::vfs::sync::lock;
use leafpress::{Error, ErrorKind, Result};
use serde::Serialize;

use crate::writer::EndsBefore;

/// Tokens that are held, for the driver.
pub type Tokens = Vec<Token>;

/// The answer of a consumer about its job.
#[derive(Debug, Clone)]
pub enum Outcome {
    /// The job is done, perhaps with a result.
    Done(Option<Payload>),
    /// The attempt failed.
    Retry(Nack),
    /// The job is given back and counted as released: its consumer did nothing, or the feed stops.
    Release,
    /// The job waited too long for a consumer and is given back. It does not count as claimed, so it
    /// uses up none of `jobs_max`.
    ReturnUncounted,
}

/// Numbers of jobs, by what became of them.
#[derive(Debug, Clone, Copy, Default, Serialize)]
pub struct Counts {
    pub claimed: u64,
    pub done: u64,
    pub retried: u64,
    pub dead: u64,
    pub released: u64,
    pub lease_lost: u64,
}

/// The options of a feed.
pub struct Options {
    /// Jobs that it holds ready in any case, beside those that consumers wait for.
    pub ahead: usize,
    /// Length of the leases; `None`: as the queue's settings say.
    pub lease: Option<Duration>,
    /// Name of the worker in lists and histories.
    pub worker: Option<String>,
    /// Largest number of jobs to claim.
    pub jobs_max: Option<u64>,
    /// Ends when no job can be claimed and it holds none.
    pub until_empty: bool,
}

/// Parts that a feed, its thread and its consumers share.
pub struct Shared {
    pub queue: Queue,
    pub options: Options,
    /// The process that made it: in a child its thread is not there.
    pub process: Process,
    pub state: Mutex<State>,
    /// The thread has ended.
    pub over: Condvar,
}

/// Phase of a feed. It only moves on.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Phase {
    /// Jobs are claimed and given out.
    #[default]
    Open,
    /// No job is claimed any more; those that are ready are still given out.
    Drained,
    /// No job is given out any more.
    Stopped,
    /// The thread ends as soon as all is settled.
    Closing,
    /// The thread has ended.
    Over,
}

#[derive(Default)]
pub struct State {
    /// Claimed jobs that no consumer has yet.
    pub ready: VecDeque<Claim>,
    /// Last time at which a job came to `ready` or to a consumer.
    pub moved_at: Option<Instant>,
    /// Time at which the lease of each job began.
    pub held: HashMap<Token, Instant>,
    pub to_settle: Vec<(Token, Outcome)>,
    /// Consumers that wait for a job.
    pub takers: Vec<(u64, Waker)>,
    /// Callers that wait for the end.
    pub enders: Vec<Waker>,
    pub last_taker: u64,
    /// The thread claims more when fewer jobs than this are ready.
    pub refill_below: usize,
    /// Jobs that consumers have finished since the last claim began.
    pub finished: usize,
    pub phase: Phase,
    pub failure: Option<Error>,
    pub counts: Counts,
    pub thread: Option<Thread>,
}

impl Shared {
    pub fn lock(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }

    /// Refuses a child of the process that made the feed.
    ///
    /// # Errors
    /// [`Forked`](ErrorKind::Forked), as each call of its queue gives there.
    pub fn check_process(&self) -> Result<()> {
        self.process.check("queue").map_err(Error::from)
    }

    /// Hands in what a consumer says about its job. Does not wait.
    pub fn settle(&self, token: Token, outcome: Outcome) {
        let mut state = self.lock();
        state.finished += 1;
        if state.phase == Phase::Over {
            if !matches!(outcome, Outcome::Release) {
                state.failure.get_or_insert_with(settled_too_late);
            }
            drop(state);
            self.settle_without_thread(vec![(token, outcome)]);
        } else {
            state.to_settle.push((token, outcome));
            state.unpark();
        }
    }

    /// Hands in the calls of the writer for these jobs, and does not wait for their answers.
    pub fn settle_without_thread(&self, outcomes: Vec<(Token, Outcome)>) {
        let mut acked = Vec::new();
        for (token, outcome) in outcomes {
            match outcome {
                Outcome::Done(None) => acked.push(token),
                Outcome::Done(Some(result)) => self.queue.ack_with_async(token, result).leave(),
                Outcome::Retry(nack) => self.queue.nack_async(token, nack).leave(),
                Outcome::Release | Outcome::ReturnUncounted => {
                    self.queue.release_async(token).leave();
                }
            }
        }
        if !acked.is_empty() {
            self.queue.ack_many_async(&acked).leave();
        }
    }

    /// Takes no more jobs, and gives those back that no consumer has.
    pub fn stop(&self) {
        let mut state = self.lock();
        state.move_on(Phase::Stopped);
        let ready = std::mem::take(&mut state.ready);
        state.to_settle.extend(ready.into_iter().map(|claim| (claim.token, Outcome::Release)));
        state.unpark();
        let takers = state.wake_takers();
        drop(state);
        takers.into_iter().for_each(Waker::wake);
    }

    /// Lets the thread end once all that consumers have said is in the database.
    pub fn close(&self) {
        self.stop();
        let mut state = self.lock();
        state.move_on(Phase::Closing);
        state.unpark();
    }

    /// As [`close`](Self::close), for an owner that does not wait: all is handed in to the writer
    /// when this returns, so that it comes before the writer's close.
    pub fn abandon(&self) {
        self.stop();
        let mut state = self.lock();
        state.move_on(Phase::Closing);
        let outcomes = std::mem::take(&mut state.to_settle);
        for (token, _) in &outcomes {
            state.held.remove(token);
        }
        state.unpark();
        drop(state);
        self.settle_without_thread(outcomes);
    }
}

fn settled_too_late() -> Error {
    Error::from(ErrorKind::Misuse(
        "the writer was closed before a job of this work was settled".to_owned(),
    ))
    .on_disk("the job is not settled: it comes again when its lease ends")
    .to_do("end the work before the writer is closed")
}

impl EndsBefore for Shared {
    fn end(&self, until: Option<Instant>) {
        if self.check_process().is_err() {
            return;
        }
        self.close();
        let mut state = self.lock();
        while state.phase != Phase::Over {
            let left = until.map(|until| until.saturating_duration_since(Instant::now()));
            match left {
                Some(Duration::ZERO) => return,
                Some(left) => {
                    let waited = self.over.wait_timeout(state, left);
                    state = waited.unwrap_or_else(PoisonError::into_inner).0;
                }
                None => state = self.over.wait(state).unwrap_or_else(PoisonError::into_inner),
            }
        }
    }
}

impl State {
    pub fn unpark(&self) {
        if let Some(thread) = &self.thread {
            thread.unpark();
        }
    }

    /// The wakers of all consumers that wait, to be woken without the lock.
    pub fn wake_takers(&mut self) -> Vec<Waker> {
        std::mem::take(&mut self.takers).into_iter().map(|(_, waker)| waker).collect()
    }

    /// Comes to this phase, unless it is further already.
    pub fn move_on(&mut self, to: Phase) {
        self.phase = self.phase.max(to);
    }
}
