//! Clients of a queue: threads that begin at the same moment and push, claim and
//! acknowledge, one call after the other, until their jobs or their time are over.
//!
//! A [`Client`] knows how its keeper does it. In a cycle each client pushes
//! before it claims, so for each claim there are as many jobs as it asks for, though they
//! may be another client's.
//!
//! Must never: begin a cycle after the time is up, leave a job of a cycle unacknowledged,
//! or take a job that was lost or claimed twice for work done.

use std::sync::{Barrier, OnceLock};
use std::thread;
use std::time::{Duration, Instant};

use super::jobs::{JobNumber, Tally};
use super::rung::{CycleRung, Part};
use crate::error::{Error, Result};
use crate::recording::Recording;

/// One client of a queue.
pub(crate) trait Client {
    /// Pushes these jobs in one call.
    fn push(&mut self, jobs: &[JobNumber]) -> Result<()>;

    /// Claims up to `jobs_max` jobs in one call, and adds them to those `claimed`.
    fn claim(&mut self, jobs_max: usize, claimed: &mut Vec<JobNumber>) -> Result<()>;

    /// Acknowledges in one call all that were claimed last.
    fn acknowledge(&mut self) -> Result<()>;
}

/// Work of the clients.
#[derive(Debug, Default)]
pub(super) struct Worked {
    /// Jobs that went through what is measured.
    pub(super) jobs: u64,
    /// Time of each push, or claim with its acknowledgement, or whole cycle.
    pub(super) recording: Recording,
    /// From the first call to the last answer.
    pub(super) wall: Duration,
}

/// Work of one client, and the moment of its last answer.
struct Outcome {
    recording: Recording,
    pushed: Tally,
    claimed: Tally,
    ended: Instant,
}

/// Runs all clients from the same moment on. `waiting` are the jobs that wait already.
pub(super) fn run<C: Client + Send>(
    rung: &CycleRung,
    clients: Vec<C>,
    waiting: Tally,
) -> Result<Worked> {
    let all_ready = Barrier::new(clients.len().max(1));
    let epoch = OnceLock::new();
    let outcomes: Vec<Result<Outcome>> = thread::scope(|scope| {
        let (all_ready, epoch) = (&all_ready, &epoch);
        let start = |(index, mut client): (usize, C)| {
            scope.spawn(move || {
                let mut work = Work::new(rung, index as u32);
                all_ready.wait();
                work.run(&mut client, *epoch.get_or_init(Instant::now))
            })
        };
        let threads: Vec<_> = clients.into_iter().enumerate().map(start).collect();
        let panicked = || Error::rung(rung.name(), "a client panicked");
        threads
            .into_iter()
            .map(|thread| thread.join().unwrap_or_else(|_| Err(panicked())))
            .collect()
    });
    let epoch = epoch.get().copied().unwrap_or_else(Instant::now);
    sum_up(rung, outcomes, epoch, waiting)
}

fn sum_up(
    rung: &CycleRung,
    outcomes: Vec<Result<Outcome>>,
    epoch: Instant,
    waiting: Tally,
) -> Result<Worked> {
    let (mut pushed, mut claimed) = (waiting, Tally::default());
    let mut worked = Worked::default();
    let mut ended = epoch;
    for outcome in outcomes {
        let outcome = outcome?;
        pushed.merge(outcome.pushed);
        claimed.merge(outcome.claimed);
        worked.recording.append(outcome.recording);
        ended = ended.max(outcome.ended);
    }
    worked.wall = ended.saturating_duration_since(epoch);
    worked.jobs = if rung.part == Part::Push { pushed.jobs } else { claimed.jobs };
    // Claims may leave jobs where the time was up; what is left is looked at afterwards.
    if rung.part == Part::Cycle && pushed != claimed {
        return Err(Error::Unequal {
            name: rung.name(),
            found: format!("{claimed} claimed"),
            expected: format!("{pushed} as pushed"),
        });
    }
    Ok(worked)
}

/// The work of one client.
struct Work<'r> {
    rung: &'r CycleRung,
    client: u32,
    /// Jobs that it has still to do.
    jobs_left: u64,
    next: u64,
    jobs: Vec<JobNumber>,
    pushed: Tally,
    claimed: Tally,
}

impl<'r> Work<'r> {
    fn new(rung: &'r CycleRung, client: u32) -> Self {
        let clients = u64::from(rung.clients.max(1));
        let share = rung.jobs / clients + u64::from(u64::from(client) < rung.jobs % clients);
        let jobs = Vec::with_capacity(rung.batch as usize);
        let (pushed, claimed) = (Tally::default(), Tally::default());
        Self { rung, client, jobs_left: share, next: 0, jobs, pushed, claimed }
    }

    fn run<C: Client>(&mut self, client: &mut C, epoch: Instant) -> Result<Outcome> {
        /// More room is made when it is needed; these many make none of it slow.
        const CALLS_FORESEEN_MAX: u64 = 1 << 20;
        let calls = self.jobs_left.div_ceil(u64::from(self.rung.batch.max(1)));
        let mut recording = Recording::with_capacity(calls.min(CALLS_FORESEEN_MAX));
        let time_is_up = epoch + Duration::from_millis(self.rung.milliseconds_max);
        while self.jobs_left > 0 {
            let start = Instant::now();
            if start > time_is_up || !self.step(client)? {
                break;
            }
            recording.acknowledged(epoch, start);
        }
        let (pushed, claimed) = (self.pushed, self.claimed);
        Ok(Outcome { recording, pushed, claimed, ended: Instant::now() })
    }

    /// One cycle, or the part of it that is measured; `false` if there was no job.
    fn step<C: Client>(&mut self, client: &mut C) -> Result<bool> {
        let jobs_count = self.jobs_left.min(u64::from(self.rung.batch.max(1)));
        if self.rung.part != Part::ClaimAck {
            self.push(client, jobs_count)?;
        }
        if self.rung.part == Part::Push {
            self.jobs_left -= jobs_count;
            return Ok(true);
        }
        self.jobs.clear();
        client.claim(jobs_count as usize, &mut self.jobs)?;
        if self.jobs.is_empty() && self.rung.part == Part::ClaimAck {
            return Ok(false);
        }
        if self.rung.part == Part::Cycle && self.jobs.len() as u64 != jobs_count {
            return Err(Error::Unequal {
                name: self.rung.name(),
                found: format!("{} jobs to claim", self.jobs.len()),
                expected: format!("{jobs_count}, as many as were pushed before"),
            });
        }
        client.acknowledge()?;
        self.jobs.iter().for_each(|job| self.claimed.add(*job));
        self.jobs_left -= self.jobs.len() as u64;
        Ok(true)
    }

    fn push<C: Client>(&mut self, client: &mut C, jobs_count: u64) -> Result<()> {
        self.jobs.clear();
        let numbers = self.next..self.next + jobs_count;
        self.jobs.extend(numbers.map(|n| JobNumber::of(self.client, n)));
        client.push(&self.jobs)?;
        self.next += jobs_count;
        self.jobs.iter().for_each(|job| self.pushed.add(*job));
        Ok(())
    }
}
