//! Jobs, claims and settings of the queue from objects of Python, and back.
//!
//! `leafpress._queue` has checked and plain objects made of what a caller gave: JSON is text,
//! other payloads are bytes, durations are seconds, and times milliseconds since 1970.
//!
//! Must never: accept a duration that is none.

use std::time::{Duration, SystemTime};

use leafpress::queue::{Claim, Job, Payload, Rate, Settings, UniqueFor, UnixTime};
use pyo3::IntoPyObjectExt as _;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyString};
use serde::Serialize;

use crate::errors::{Raise, misuse, named, of_option};
use crate::json::as_json;
use crate::values::text_of;

/// A job to be pushed: its payload, and its options if it has any.
#[derive(FromPyObject)]
pub struct NewJob<'py>(Bound<'py, PyAny>, Option<Bound<'py, PyAny>>);

/// The options of a job, by the names of `leafpress._queue.JobOptions`.
#[derive(FromPyObject)]
struct JobOptions<'py> {
    priority: i32,
    delay: Option<f64>,
    due_ms: Option<i64>,
    group: Option<String>,
    unique: Option<String>,
    unique_for: Bound<'py, PyAny>,
    attempts_max: Option<u32>,
    expires_in: Option<f64>,
    expires_ms: Option<i64>,
    correlation_id: Option<String>,
    metadata: Option<String>,
}

impl NewJob<'_> {
    /// The job of the library.
    ///
    /// # Errors
    /// If an option is of a wrong type, a duration or the scope of the key is none, or the metadata
    /// are no JSON.
    pub fn job(self, py: Python<'_>) -> PyResult<Job> {
        let job = Job::new(payload_of(&self.0)?);
        match self.1 {
            None => Ok(job),
            Some(options) => {
                let options: JobOptions<'_> =
                    options.extract().map_err(|error| of_option(py, error))?;
                options.apply(py, job)
            }
        }
    }
}

impl JobOptions<'_> {
    fn apply(self, py: Python<'_>, job: Job) -> PyResult<Job> {
        let mut job = job.priority(self.priority);
        if let Some(delay) = self.delay {
            job = job.delay(duration(py, "delay", delay)?);
        }
        if let Some(at_ms) = self.due_ms {
            job = job.due(time_of(at_ms));
        }
        if let Some(group) = self.group {
            job = job.group(group);
        }
        if let Some(key) = self.unique {
            job = job.unique(key, scope(&self.unique_for)?);
        }
        if let Some(attempts) = self.attempts_max {
            job = job.attempts_max(attempts);
        }
        if let Some(time) = self.expires_in {
            job = job.expires_in(duration(py, "expires_in", time)?);
        }
        if let Some(at_ms) = self.expires_ms {
            job = job.expires(time_of(at_ms));
        }
        if let Some(id) = self.correlation_id {
            job = job.correlation_id(id);
        }
        if let Some(json) = self.metadata {
            job = job.metadata_json(json).map_err(|error| crate::errors::exception(py, &error))?;
        }
        Ok(job)
    }
}

fn time_of(at_ms: i64) -> SystemTime {
    UnixTime::from_ms(at_ms).into()
}

/// The words of the command, or a time in seconds.
fn scope(unique_for: &Bound<'_, PyAny>) -> PyResult<UniqueFor> {
    let py = unique_for.py();
    if let Ok(word) = unique_for.cast::<PyString>() {
        return match word.to_str()? {
            "waiting" => Ok(UniqueFor::Waiting),
            "running" => Ok(UniqueFor::WaitingOrRunning),
            other => Err(misuse(
                py,
                format!("unique_for is \"waiting\", \"running\" or a time, not {other:?}"),
            )),
        };
    }
    Ok(UniqueFor::Time(duration(py, "unique_for", unique_for.extract()?)?))
}

/// A duration of so many seconds; infinity is the longest.
///
/// # Errors
/// If it is negative or no number.
pub fn duration(py: Python<'_>, name: &str, seconds: f64) -> PyResult<Duration> {
    if seconds.is_nan() || seconds < 0.0 {
        return Err(misuse(py, format!("{name} is a number of seconds from 0 on, not {seconds}")));
    }
    Ok(Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX))
}

/// A payload: JSON if it is text.
///
/// # Errors
/// If it is neither text nor bytes.
pub fn payload_of(object: &Bound<'_, PyAny>) -> PyResult<Payload> {
    if let Ok(json) = object.cast::<PyString>() {
        Ok(Payload::Json(text_of(json)?.to_owned()))
    } else if let Ok(bytes) = object.cast::<PyBytes>() {
        Ok(Payload::bytes(bytes.as_bytes()))
    } else {
        Err(PyTypeError::new_err("a payload is text (JSON) or bytes here"))
    }
}

fn payload_object(py: Python<'_>, payload: Payload) -> Bound<'_, PyAny> {
    match payload {
        Payload::Json(text) => PyString::new(py, &text).into_any(),
        Payload::Bytes(bytes) => PyBytes::new(py, &bytes).into_any(),
    }
}

/// A claim as a tuple, in the order of the fields of `leafpress._jobs.ClaimFields`.
pub fn claim_object(py: Python<'_>, claim: Claim) -> PyResult<Py<PyAny>> {
    let fields = (
        claim.token.to_string(),
        claim.id,
        payload_object(py, claim.payload),
        claim.attempt,
        claim.attempts_max,
        claim.priority,
        claim.group,
        claim.correlation_id,
        claim.metadata,
        claim.pushed_at.as_ms(),
        claim.lease_until.as_ms(),
    );
    fields.into_py_any(py)
}

/// A report of the library as the JSON that the command prints.
///
/// # Errors
/// None in practice: all of these types are plain data.
pub fn json_object(py: Python<'_>, value: &impl Serialize) -> PyResult<Py<PyAny>> {
    as_json(value).raise(py)?.into_py_any(py)
}

/// Changes of a queue's settings.
pub type Change = Box<dyn Fn(&mut Settings) + Send>;

/// The changes that a dict of settings and values says.
///
/// # Errors
/// If there is no such setting, or the value is of another type.
pub fn changes_of(settings: &Bound<'_, PyDict>) -> PyResult<Vec<Change>> {
    let py = settings.py();
    let mut changes = Vec::new();
    for (name, value) in settings {
        let name: String = name.extract()?;
        let change = change_of(py, &name, &value).map_err(|error| named(py, &name, &error))?;
        changes.push(change);
    }
    if settings.contains("backoff_first")? && !settings.contains("backoff_max")? {
        // The first time alone is enough, even where it is more than the queue's longest.
        changes.push(Box::new(|settings| {
            let backoff = &mut settings.backoff;
            backoff.max = backoff.max.max(backoff.first);
        }));
    }
    Ok(changes)
}

const SETTINGS: &str = "lease, attempts_max, backoff_first, backoff_factor, backoff_max, \
    backoff_jitter, keep_done, keep_dead, concurrency, group_concurrency, rate, group_rate";

fn change_of(py: Python<'_>, name: &str, value: &Bound<'_, PyAny>) -> PyResult<Change> {
    let time = || duration(py, name, value.extract()?);
    let rate = || -> PyResult<Option<Rate>> {
        let Some((jobs, per)) = value.extract::<Option<(u32, f64)>>()? else { return Ok(None) };
        Ok(Some(Rate { jobs, per: duration(py, name, per)? }))
    };
    macro_rules! set {
        ($($field:ident).+, $to:expr) => {{
            let to = $to;
            Box::new(move |settings: &mut Settings| settings.$($field).+ = to)
        }};
    }
    Ok(match name {
        "lease" => set!(lease, time()?),
        "attempts_max" => set!(attempts_max, value.extract()?),
        "backoff_first" => set!(backoff.first, time()?),
        "backoff_factor" => set!(backoff.factor, value.extract()?),
        "backoff_max" => set!(backoff.max, time()?),
        "backoff_jitter" => set!(backoff.jitter, value.extract()?),
        "keep_done" => set!(keep_done, time()?),
        "keep_dead" => set!(keep_dead, if value.is_none() { None } else { Some(time()?) }),
        "concurrency" => set!(concurrency, value.extract()?),
        "group_concurrency" => set!(group_concurrency, value.extract()?),
        "rate" => set!(rate, rate()?),
        "group_rate" => set!(group_rate, rate()?),
        _ => {
            let message = format!("a queue has no setting {name:?}; it has {SETTINGS}");
            return Err(misuse(py, message));
        }
    })
}
