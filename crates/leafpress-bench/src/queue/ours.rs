//! The Queue, as a user of the library would write it. Nothing is tuned for the
//! benchmark: the defaults of the Writer and of the Queue hold.

use std::path::Path;

use leafpress::queue::{ClaimOptions, Job, Payload, Queue, Token};
use leafpress::writer::Writer;

use super::clients::Client;
use super::jobs::{FILLER, JobNumber, Tally};
use crate::connect;
use crate::error::{Error, Result};
use crate::report::Safety;

/// Name of our queues.
pub(crate) const QUEUE_NAME: &str = "bench";

/// Jobs of a call that fills a queue.
const FILL_JOBS: usize = 1_000;

/// A database that is open, with its queue.
pub(super) struct Opened {
    pub(super) writer: Writer,
    pub(super) queue: Queue,
}

/// Opens the database, new or not, and the queue in it.
pub(super) fn open(safety: Safety, database: &Path, vfs: Option<&str>) -> Result<Opened> {
    let writer = connect::open_writer(safety, database, vfs)?;
    let queue = Queue::open(&writer, QUEUE_NAME)?;
    Ok(Opened { writer, queue })
}

impl Opened {
    /// Puts this many jobs in.
    pub(super) fn fill(&self, jobs: u64) -> Result<Tally> {
        let mut tally = Tally::default();
        let mut batch = Vec::with_capacity(FILL_JOBS);
        for n in 0..jobs {
            let job = JobNumber::of(FILLER, n);
            tally.add(job);
            batch.push(Job::bytes(job.payload()));
            if batch.len() == FILL_JOBS || n + 1 == jobs {
                self.queue.push_many(std::mem::take(&mut batch))?;
            }
        }
        Ok(tally)
    }

    /// Answers what is left and closes the database.
    pub(super) fn close(self) -> Result<()> {
        drop(self.queue);
        Ok(self.writer.close()?)
    }
}

/// A client of the queue.
pub(crate) struct QueueClient {
    queue: Queue,
    tokens: Vec<Token>,
}

impl QueueClient {
    /// A client with its own handle.
    pub(crate) fn new(queue: Queue) -> Self {
        Self { queue, tokens: Vec::new() }
    }

    fn take(&mut self, token: Token, payload: &Payload, claimed: &mut Vec<JobNumber>) {
        self.tokens.push(token);
        claimed.extend(number_of(payload));
    }
}

/// The job of a claim; `None` if the payload is none of ours.
pub(super) fn number_of(payload: &Payload) -> Option<JobNumber> {
    let Payload::Bytes(bytes) = payload else { return None };
    JobNumber::from_payload(bytes)
}

impl Client for QueueClient {
    fn push(&mut self, jobs: &[JobNumber]) -> Result<()> {
        if let [job] = jobs {
            self.queue.push(Job::bytes(job.payload()))?;
        } else {
            self.queue.push_many(jobs.iter().map(|job| Job::bytes(job.payload())))?;
        }
        Ok(())
    }

    fn claim(&mut self, jobs_max: usize, claimed: &mut Vec<JobNumber>) -> Result<()> {
        self.tokens.clear();
        if jobs_max == 1 {
            if let Some(claim) = self.queue.claim()? {
                self.take(claim.token, &claim.payload, claimed);
            }
        } else {
            for claim in self.queue.claim_with(&ClaimOptions::new().jobs_max(jobs_max))? {
                self.take(claim.token, &claim.payload, claimed);
            }
        }
        Ok(())
    }

    fn acknowledge(&mut self) -> Result<()> {
        if let [token] = self.tokens[..] {
            return Ok(self.queue.ack(token)?);
        }
        for acknowledged in self.queue.ack_many(&self.tokens)? {
            acknowledged.map_err(Error::from)?;
        }
        Ok(())
    }
}
