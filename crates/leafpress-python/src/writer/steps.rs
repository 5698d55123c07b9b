//! The closure of a transaction whose statements come one by one, on the engine's thread.
//!
//! 1. The closure waits for requests, and all other calls of the writer wait for it.
//! 2. If the group is carried out again, the closure carries out the requests so far again. Their
//!    results must be the same, since the caller has seen them: else the transaction fails.
//!
//! Must never: commit unless it was asked to.

use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant};

use leafpress::queue::{Job, Queue};
use leafpress::rusqlite::ffi;
use leafpress::rusqlite::types::Value;
use leafpress::writer::{Parameters, Transaction};
use leafpress::{Error, ErrorKind, Result};

use super::reply::Sender;
use super::rows;
use super::wait::look_awake;

/// A step of the transaction.
pub enum Step {
    Statement { sql: String, parameters: Parameters },
    Many { sql: String, rows: Vec<Parameters> },
    Script(String),
    Rows { table: String, columns: Vec<String>, rows: Vec<Vec<Value>> },
    Push(Box<(Queue, Job)>),
}

/// Result of a step.
#[derive(Default)]
pub struct Outcome {
    pub columns: Vec<String>,
    pub rows: Vec<Vec<Value>>,
    pub done: (u64, i64),
}

/// A request to the closure.
pub enum Request {
    Step(Step, Sender<Result<Outcome>>),
    Commit,
}

/// The closure, on the side of the writer.
pub struct Steps {
    requests: mpsc::Receiver<Request>,
    /// Told once, when the closure runs for the first time.
    begun: Option<Sender<()>>,
    /// The steps so far, and what the caller has seen of each.
    past: Vec<(Step, u64)>,
    is_to_commit: bool,
    limit: Option<Duration>,
}

impl Steps {
    /// The closure that these requests reach, which tells `begun` once it runs.
    pub fn new(
        requests: mpsc::Receiver<Request>,
        begun: Sender<()>,
        limit: Option<Duration>,
    ) -> Self {
        let begun = Some(begun);
        Self { requests, begun, past: Vec::new(), is_to_commit: false, limit }
    }

    /// Carries out what is asked for, until the commit; an error rolls back.
    pub fn run(&mut self, transaction: &Transaction<'_>) -> Result<()> {
        let began = Instant::now();
        for (step, seen) in &self.past {
            if digest(&carry_out(transaction, step)) != *seen {
                return Err(seen_otherwise());
            }
        }
        if let Some(begun) = self.begun.take() {
            begun.send(());
        }
        while !self.is_to_commit {
            match self.next(began)? {
                Request::Commit => self.is_to_commit = true,
                Request::Step(step, reply) => {
                    let outcome = carry_out(transaction, &step);
                    if let Err(error) = &outcome
                        && error.sqlite_code() == Some(ffi::SQLITE_INTERRUPT)
                    {
                        // Without a reply the caller gets the call's own error, which says why.
                        return outcome.map(drop);
                    }
                    self.past.push((step, digest(&outcome)));
                    reply.send(outcome);
                }
            }
        }
        Ok(())
    }

    /// The next request; an error if there will be none.
    fn next(&self, began: Instant) -> Result<Request> {
        if let Some(request) = look_awake(|| self.requests.try_recv().ok()) {
            return Ok(request);
        }
        let Some(limit) = self.limit else {
            return self.requests.recv().map_err(|_| rolled_back());
        };
        let left = limit.saturating_sub(began.elapsed());
        self.requests.recv_timeout(left).map_err(|failed| match failed {
            RecvTimeoutError::Disconnected => rolled_back(),
            RecvTimeoutError::Timeout => Error::timed_out(limit)
                .on_disk("nothing of the transaction")
                .to_do("make the transaction shorter, or give it more time with call_limit"),
        })
    }
}

fn rolled_back() -> Error {
    Error::from(ErrorKind::Cancelled).on_disk("nothing of the transaction")
}

fn seen_otherwise() -> Error {
    Error::aborted(
        "the transaction had to be carried out again, as another call undid the group's \
         transaction, and a statement now gives another result than the one that was seen",
    )
    .on_disk("nothing of the transaction")
    .to_do("run the transaction again")
    .retryable()
}

fn carry_out(transaction: &Transaction<'_>, step: &Step) -> Result<Outcome> {
    match step {
        Step::Statement { sql, parameters } => {
            let returned = transaction.run(sql, parameters.clone(), rows::values_of)?;
            let executed = returned.executed;
            Ok(Outcome {
                columns: returned.columns,
                rows: returned.rows,
                done: (executed.rows_changed, executed.last_insert_rowid),
            })
        }
        Step::Many { sql, rows } => {
            let executed = transaction.execute_many(sql, rows)?;
            let done = (executed.rows_changed, executed.last_insert_rowid);
            Ok(Outcome { done, ..Outcome::default() })
        }
        Step::Script(sql) => transaction.execute_script(sql).map(|()| Outcome::default()),
        Step::Rows { table, columns, rows } => {
            let columns: Vec<&str> = columns.iter().map(String::as_str).collect();
            let rows = rows.iter().map(Vec::as_slice);
            let inserted = transaction.insert_many(table, &columns, rows)?;
            Ok(Outcome { done: (inserted, 0), ..Outcome::default() })
        }
        Step::Push(push) => {
            let (queue, job) = &**push;
            let pushed = queue.push_in(transaction, job.clone())?;
            Ok(Outcome { done: (pushed.is_new.into(), pushed.id), ..Outcome::default() })
        }
    }
}

/// A number that differs if the caller would see another outcome.
fn digest(outcome: &Result<Outcome>) -> u64 {
    let mut hasher = DefaultHasher::new();
    match outcome {
        Err(error) => error.to_string().hash(&mut hasher),
        Ok(outcome) => {
            outcome.columns.hash(&mut hasher);
            outcome.done.hash(&mut hasher);
            for value in outcome.rows.iter().flatten() {
                match value {
                    Value::Null => 0_u8.hash(&mut hasher),
                    Value::Integer(integer) => (1_u8, integer).hash(&mut hasher),
                    Value::Real(real) => (2_u8, real.to_bits()).hash(&mut hasher),
                    Value::Text(text) => (3_u8, text).hash(&mut hasher),
                    Value::Blob(bytes) => (4_u8, bytes).hash(&mut hasher),
                }
            }
        }
    }
    hasher.finish()
}
