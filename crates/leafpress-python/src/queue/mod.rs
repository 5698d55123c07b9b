//! The queue, behind `leafpress.Queue`.
//!
//! Each verb has one method, whose first argument says where the answer goes: the thread waits
//! for it, or a future of asyncio gets it.
//!
//! Must never: hold the interpreter while it waits for a commit or for a job.

mod answer;
mod convert;
mod feed;

use std::time::Duration;

use leafpress::queue::{
    Claim, ClaimOptions, JobState, ListOptions, Missed, Nack, Purge, Pushed, Queue, Retry,
    Schedule, Settings, Token,
};
use pyo3::IntoPyObjectExt as _;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};

pub use self::convert::NewJob;
pub use self::feed::NativeFeed;

use self::answer::{To, answer, answer_of};
use self::convert::{Change, changes_of, claim_object, duration, json_object, payload_of};
use crate::errors::{Raise, exception};
use crate::writer::{NativeWriter, cluster, wait};

/// A queue of a writer's database.
#[pyclass(frozen, module = "leafpress._leafpress")]
pub struct NativeQueue {
    writer: Py<NativeWriter>,
    pub queue: Queue,
}

impl NativeQueue {
    /// The queue, for a call whose answer goes there.
    ///
    /// # Errors
    /// If the writer is closed, or the calling thread has a transaction of it open and would wait
    /// for its own end.
    fn to(&self, py: Python<'_>, to: &To) -> PyResult<&Queue> {
        match to {
            None => self.writer.get().get(py)?,
            Some(_) => self.writer.get().get_to_submit(py)?,
        };
        Ok(&self.queue)
    }

    /// The queue, for a call that reads on this thread.
    fn here(&self, py: Python<'_>) -> PyResult<&Queue> {
        self.to(py, &None)
    }
}

#[pymethods]
impl NativeQueue {
    #[new]
    fn open(
        py: Python<'_>,
        writer: Py<NativeWriter>,
        name: &str,
        must_exist: bool,
        settings: &Bound<'_, PyDict>,
    ) -> PyResult<Self> {
        if writer.get().is_of_cluster {
            return Err(cluster::no_queue(py));
        }
        let changes = changes_of(settings)?;
        let mut builder = Queue::builder(writer.get().get(py)?, name);
        if !changes.is_empty() {
            builder = builder.settings(move |settings| {
                apply(&changes, settings);
            });
        }
        if must_exist {
            builder = builder.must_exist();
        }
        let queue = wait::apart(py, move || builder.open(), || false)?.raise(py)?;
        Ok(Self { writer, queue })
    }

    fn push(&self, py: Python<'_>, to: To, job: NewJob<'_>) -> PyResult<Py<PyAny>> {
        answer(py, self.to(py, &to)?.push_async(job.job(py)?), to, pushed)
    }

    fn push_many(&self, py: Python<'_>, to: To, jobs: Vec<NewJob<'_>>) -> PyResult<Py<PyAny>> {
        let jobs = jobs.into_iter().map(|job| job.job(py)).collect::<PyResult<Vec<_>>>()?;
        answer(py, self.to(py, &to)?.push_many_async(jobs), to, |py, all| {
            let all = all.into_iter().map(|one| (one.id, one.is_new));
            all.collect::<Vec<_>>().into_py_any(py)
        })
    }

    fn claim(
        &self,
        py: Python<'_>,
        to: To,
        count: usize,
        lease: Option<f64>,
        wait: Option<f64>,
        worker: Option<&str>,
    ) -> PyResult<Py<PyAny>> {
        let mut options = ClaimOptions::new().jobs_max(count);
        options = options.wait(match wait {
            None => Duration::MAX,
            Some(wait) => duration(py, "wait", wait)?,
        });
        if let Some(lease) = lease {
            options = options.lease(duration(py, "lease", lease)?);
        }
        if let Some(worker) = worker {
            options = options.worker(worker);
        }
        if to.is_none() && wait == Some(0.0) && count > 0 {
            let queue = self.here(py)?;
            loop {
                let look = queue.look_once_async(&options);
                let (found, is_cut_short) = wait::carried_out(py, look)?;
                if !is_cut_short {
                    return claims(py, found);
                }
            }
        }
        answer_of(py, self.to(py, &to)?.claim_with_async(&options), to, claims)
    }

    fn ack(
        &self,
        py: Python<'_>,
        to: To,
        token: &str,
        result: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Py<PyAny>> {
        let token = token_of(py, token)?;
        let call = match result {
            None => self.to(py, &to)?.ack_async(token),
            Some(result) => self.to(py, &to)?.ack_with_async(token, payload_of(result)?),
        };
        answer(py, call, to, nothing)
    }

    fn ack_many(&self, py: Python<'_>, to: To, tokens: Vec<String>) -> PyResult<Py<PyAny>> {
        let tokens =
            tokens.into_iter().map(|token| token_of(py, &token)).collect::<PyResult<Vec<_>>>()?;
        answer(py, self.to(py, &to)?.ack_many_async(&tokens), to, |py, answers| {
            let each = answers.into_iter().map(|answer| match answer {
                Ok(()) => py.None(),
                Err(error) => exception(py, &error).into_value(py).into_any(),
            });
            Ok(PyList::new(py, each.collect::<Vec<_>>())?.into_any().unbind())
        })
    }

    fn nack(
        &self,
        py: Python<'_>,
        to: To,
        token: &str,
        error: Option<&str>,
        delay: Option<f64>,
    ) -> PyResult<Py<PyAny>> {
        let mut nack = Nack::new();
        if let Some(error) = error {
            nack = nack.error(error);
        }
        if let Some(delay) = delay {
            nack = nack.delay(duration(py, "delay", delay)?);
        }
        answer(py, self.to(py, &to)?.nack_async(token_of(py, token)?, nack), to, |py, retry| {
            match retry {
                Retry::At { due_at } => due_at.as_ms().into_py_any(py),
                Retry::Dead => Ok(py.None()),
            }
        })
    }

    fn fail(&self, py: Python<'_>, to: To, token: &str, reason: &str) -> PyResult<Py<PyAny>> {
        answer(py, self.to(py, &to)?.fail_async(token_of(py, token)?, reason), to, nothing)
    }

    fn release(&self, py: Python<'_>, to: To, token: &str) -> PyResult<Py<PyAny>> {
        answer(py, self.to(py, &to)?.release_async(token_of(py, token)?), to, nothing)
    }

    fn extend(&self, py: Python<'_>, to: To, token: &str, lease: f64) -> PyResult<Py<PyAny>> {
        let (token, lease) = (token_of(py, token)?, duration(py, "lease", lease)?);
        answer(py, self.to(py, &to)?.extend_async(token, lease), to, |py, until| {
            until.as_ms().into_py_any(py)
        })
    }

    fn pause(&self, py: Python<'_>, to: To) -> PyResult<Py<PyAny>> {
        answer(py, self.to(py, &to)?.pause_async(), to, nothing)
    }

    fn resume(&self, py: Python<'_>, to: To) -> PyResult<Py<PyAny>> {
        answer(py, self.to(py, &to)?.resume_async(), to, nothing)
    }

    fn retry(&self, py: Python<'_>, to: To, id: i64) -> PyResult<Py<PyAny>> {
        answer(py, self.to(py, &to)?.retry_async(id), to, |py, is_retried| {
            is_retried.into_py_any(py)
        })
    }

    fn retry_dead(&self, py: Python<'_>, to: To, limit: Option<u64>) -> PyResult<Py<PyAny>> {
        answer_of(py, self.to(py, &to)?.retry_dead_async(limit), to, |py, jobs| {
            jobs.into_py_any(py)
        })
    }

    fn remove(&self, py: Python<'_>, to: To, id: i64) -> PyResult<Py<PyAny>> {
        answer(py, self.to(py, &to)?.remove_async(id), to, |py, is_removed| {
            is_removed.into_py_any(py)
        })
    }

    fn purge(
        &self,
        py: Python<'_>,
        to: To,
        states: Option<Vec<String>>,
        older_than: Option<f64>,
        limit: Option<u64>,
    ) -> PyResult<Py<PyAny>> {
        let mut purge = Purge::new();
        if let Some(states) = states {
            purge = purge.states(states_of(py, &states)?);
        }
        if let Some(age) = older_than {
            purge = purge.older_than(duration(py, "older_than", age)?);
        }
        if let Some(limit) = limit {
            purge = purge.limit(limit);
        }
        answer_of(py, self.to(py, &to)?.purge_async(&purge), to, |py, jobs| jobs.into_py_any(py))
    }

    fn drop_queue(&self, py: Python<'_>, to: To) -> PyResult<Py<PyAny>> {
        answer_of(py, self.to(py, &to)?.clone().drop_queue_async(), to, |py, jobs| {
            jobs.into_py_any(py)
        })
    }

    fn settings(&self, py: Python<'_>, to: To) -> PyResult<Py<PyAny>> {
        answer(py, self.to(py, &to)?.settings_async(), to, |py, settings| {
            json_object(py, &settings)
        })
    }

    fn configure(
        &self,
        py: Python<'_>,
        to: To,
        settings: &Bound<'_, PyDict>,
    ) -> PyResult<Py<PyAny>> {
        let changes = changes_of(settings)?;
        let call = self.to(py, &to)?.configure_async(move |settings| {
            apply(&changes, settings);
        });
        answer(py, call, to, |py, settings| json_object(py, &settings))
    }

    fn schedule(
        &self,
        py: Python<'_>,
        to: To,
        when: (String, String, String, String),
        job: NewJob<'_>,
    ) -> PyResult<Py<PyAny>> {
        let (job, (name, cron, timezone, missed)) = (job.job(py)?, when);
        let made = Schedule::cron(name, cron).and_then(|made| {
            Ok(made.timezone(timezone)?.missed(missed.parse::<Missed>()?).job(job))
        });
        answer(py, self.to(py, &to)?.schedule_async(&made.raise(py)?), to, nothing)
    }

    fn unschedule(&self, py: Python<'_>, to: To, name: &str) -> PyResult<Py<PyAny>> {
        answer(py, self.to(py, &to)?.unschedule_async(name), to, |py, was_there| {
            was_there.into_py_any(py)
        })
    }

    fn schedules(&self, py: Python<'_>, to: To) -> PyResult<Py<PyAny>> {
        answer(py, self.to(py, &to)?.schedules_async(), to, |py, schedules| {
            json_object(py, &schedules)
        })
    }

    /// Gives a job back that no caller has got, and does not wait.
    fn give_back(&self, py: Python<'_>, token: &str) -> PyResult<()> {
        self.queue.release_async(token_of(py, token)?).leave();
        Ok(())
    }

    // These read beside the writer, on the calling thread.

    fn job(&self, py: Python<'_>, id: i64) -> PyResult<Py<PyAny>> {
        let queue = self.here(py)?;
        let job = py.detach(|| queue.job(id)).raise(py)?;
        json_object(py, &job)
    }

    fn history(&self, py: Python<'_>, id: i64) -> PyResult<Py<PyAny>> {
        let queue = self.here(py)?;
        let attempts = py.detach(|| queue.history(id)).raise(py)?;
        json_object(py, &attempts)
    }

    fn list(
        &self,
        py: Python<'_>,
        states: Option<Vec<String>>,
        group: Option<&str>,
        order: (Option<i64>, bool),
        limit: usize,
        with_payload: bool,
    ) -> PyResult<Py<PyAny>> {
        let (after, newest_first) = order;
        let mut options = ListOptions::new().newest_first(newest_first);
        options = options.limit(limit).with_payload(with_payload);
        if let Some(states) = states {
            options = options.states(states_of(py, &states)?);
        }
        if let Some(group) = group {
            options = options.group(group);
        }
        if let Some(id) = after {
            options = options.after_id(id);
        }
        let queue = self.here(py)?;
        let jobs = py.detach(|| queue.list(&options)).raise(py)?;
        json_object(py, &jobs)
    }

    fn stats(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        let queue = self.here(py)?;
        let stats = py.detach(|| queue.stats()).raise(py)?;
        json_object(py, &stats)
    }

    fn prometheus(&self, py: Python<'_>) -> PyResult<String> {
        let queue = self.here(py)?;
        py.detach(|| queue.prometheus()).raise(py)
    }
}

/// Makes the changes, in order.
fn apply(changes: &[Change], settings: &mut Settings) {
    for change in changes {
        change(settings);
    }
}

fn nothing(py: Python<'_>, (): ()) -> PyResult<Py<PyAny>> {
    py.None().into_py_any(py)
}

fn pushed(py: Python<'_>, pushed: Pushed) -> PyResult<Py<PyAny>> {
    (pushed.id, pushed.is_new).into_py_any(py)
}

fn claims(py: Python<'_>, claims: Vec<Claim>) -> PyResult<Py<PyAny>> {
    let claims = claims.into_iter().map(|claim| claim_object(py, claim));
    let claims = claims.collect::<PyResult<Vec<_>>>()?;
    Ok(PyList::new(py, claims)?.into_any().unbind())
}

fn token_of(py: Python<'_>, text: &str) -> PyResult<Token> {
    text.parse().raise(py)
}

fn states_of(py: Python<'_>, names: &[String]) -> PyResult<Vec<JobState>> {
    names.iter().map(|name| name.parse().raise(py)).collect()
}
