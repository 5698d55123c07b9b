//! Calls of operators on a queue on a cluster: retry, remove, purge.
//!
//! A call that may touch many jobs reads their ids and then sends them in batches, each as one call: others get in
//! between, and a call that fails in the middle leaves a queue that is sound, with a part done.
//!
//! 1. Each statement looks again at its jobs: one that has changed since its id was read stays as it is.
//! 2. Every call ends, however fast others push: it deals with the jobs that were there at its beginning. Those that it
//!    frees itself, as the next ones of their groups, are not among them.

use leafpress::queue::elsewhere::{self, after_a_part};
use leafpress::queue::{JobState, ListOptions, Purge, Token};
use leafpress::times::in_milliseconds;
use leafpress::{ErrorKind, Result};
use serde_json::{Value, json};

use super::group::Settle;
use super::{RqliteQueue, settle};

/// Jobs of one call.
const BATCH: u64 = 500;

impl RqliteQueue {
    /// Pushes a dead letter anew, under its old id, as [`Queue::retry`](leafpress::queue::Queue::retry) does.
    /// Returns false if it is not there or not dead.
    ///
    /// # Errors
    /// Nothing is changed, but after [`OutcomeUnknown`](ErrorKind::OutcomeUnknown), when it is not known.
    pub fn retry(&self, id: i64) -> Result<bool> {
        Ok(self.change(vec![self.of_job("retry", id, Value::Null)])? == 1)
    }

    /// Retries dead letters, all or a number of them, the oldest pushes first, and returns their number.
    /// Each is tried once, even if it dies again meanwhile.
    ///
    /// # Errors
    /// Those of [`retry`](Self::retry), but that the jobs before have been retried.
    pub fn retry_dead(&self, limit: Option<u64>) -> Result<u64> {
        let mut retried = 0;
        self.retry_dead_by(limit, &mut retried)?;
        Ok(retried)
    }

    /// Retries all dead letters; adds them to `retried`, also those before an error.
    ///
    /// # Errors
    /// As [`retry_dead`](Self::retry_dead).
    #[doc(hidden)]
    pub fn retry_dead_counted(&self, retried: &mut u64) -> Result<()> {
        self.retry_dead_by(None, retried)
    }

    fn retry_dead_by(&self, limit: Option<u64>, retried: &mut u64) -> Result<()> {
        self.in_batches(JobState::Dead, limit, retried, |id| self.of_job("retry", id, Value::Null))
    }

    /// Removes a job, in any state, with its history. Its holder is refused its ack. Returns false if there is
    /// no such job.
    ///
    /// # Errors
    /// As [`retry`](Self::retry).
    pub fn remove(&self, id: i64) -> Result<bool> {
        Ok(self.change(vec![self.of_job("remove", id, Value::Null)])? == 1)
    }

    /// Removes many jobs, and returns their number.
    ///
    /// # Errors
    /// As [`remove`](Self::remove), but that those before are removed.
    pub fn purge(&self, purge: &Purge) -> Result<u64> {
        let mut removed = 0;
        self.purge_counted(purge, &mut removed)?;
        Ok(removed)
    }

    /// As [`purge`](Self::purge); adds the jobs to `removed`, also those before an error.
    ///
    /// # Errors
    /// As [`purge`](Self::purge).
    #[doc(hidden)]
    pub fn purge_counted(&self, purge: &Purge, removed: &mut u64) -> Result<()> {
        let (states, age, limit) = elsewhere::purged(purge);
        let before_ms = match age {
            Some(age) => Some(self.stats()?.now.as_ms().saturating_sub(in_milliseconds(age))),
            None => None,
        };
        for state in states {
            let terms = json!([state.number(), before_ms]).to_string();
            let of_job = |id| self.of_job("remove", id, json!(terms));
            self.in_batches(state, limit, removed, of_job)?;
        }
        Ok(())
    }

    /// A change of a job of this queue.
    fn of_job(&self, what: &str, id: i64, words: Value) -> Settle {
        settle(what, Token { job: id, claim: 0 }, words, Some(self.id))
    }

    /// Changes the jobs of a state that are there now, in the order of their ids, until `changed` has come to
    /// `limit`.
    fn in_batches(
        &self,
        state: JobState,
        limit: Option<u64>,
        changed: &mut u64,
        of_job: impl Fn(i64) -> Settle,
    ) -> Result<()> {
        let limit = limit.unwrap_or(u64::MAX);
        let all = self.ids(&ListOptions::new().states([state]).limit(usize::MAX));
        let mut ids = all.map_err(|error| after_a_part(error, *changed))?.into_iter().peekable();
        while *changed < limit && ids.peek().is_some() {
            let room = (limit - *changed).min(BATCH) as usize;
            let batch = self.change(ids.by_ref().take(room).map(&of_job).collect());
            *changed += batch.map_err(|error| after_a_part(error, *changed))?;
        }
        Ok(())
    }

    /// Sends changes as one call; returns the number of jobs that were as they had to be.
    fn change(&self, changes: Vec<Settle>) -> Result<u64> {
        let mut jobs = 0;
        for answer in self.settle(changes)? {
            match answer {
                Ok(_) => jobs += 1,
                Err(error) if matches!(error.kind(), ErrorKind::LeaseLost { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(jobs)
    }
}
