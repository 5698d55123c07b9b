//! Jobs as they are pushed and as they are claimed: plain data.
//!
//! Stands between callers and the operations, which store and read it.
//!
//! Must never: know a database.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;
use std::time::{Duration, SystemTime};

use serde::de::{self, DeserializeOwned};
use serde::{Deserialize, Deserializer, Serialize};

use crate::error::{Error, Result};
pub use crate::lease::{LeaseLost, Token};
use crate::times::{UnixTime, in_milliseconds as to_ms};

/// The content of a job. A database shows its kind by the type of the value.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Payload {
    /// Any bytes, stored as a BLOB.
    Bytes(Vec<u8>),
    /// JSON, stored as TEXT. A text that is put here is stored unchecked:
    /// [`json_text`](Self::json_text) checks it.
    Json(String),
}

impl Payload {
    /// Any bytes.
    pub fn bytes(bytes: impl Into<Vec<u8>>) -> Self {
        Self::Bytes(bytes.into())
    }

    /// A value as JSON.
    ///
    /// # Errors
    /// If it cannot be JSON, as a map whose keys are no text.
    pub fn json(value: &(impl Serialize + ?Sized)) -> Result<Self> {
        let text = serde_json::to_string(value)
            .map_err(|source| Error::misuse(format!("a payload cannot be JSON: {source}")))?;
        Ok(Self::Json(text))
    }

    /// A text that is JSON already. It is stored as it is.
    ///
    /// # Errors
    /// If it is not JSON; the message says where.
    pub fn json_text(text: impl Into<String>) -> Result<Self> {
        let text = text.into();
        check_json("the payload", &text)?;
        Ok(Self::Json(text))
    }

    /// The value that [`json`](Self::json) made it of. Bytes are read as JSON too.
    ///
    /// # Errors
    /// If it is not JSON, or the JSON of another type; the message says where. The job is as it
    /// was: to be given back with [`nack`](super::Queue::nack), or dropped by an ack.
    pub fn parse<T: DeserializeOwned>(&self) -> Result<T> {
        serde_json::from_slice(self.as_bytes()).map_err(|source| {
            Error::misuse(format!("the payload is not what was asked for: {source}"))
                .on_disk("the job is as it was")
        })
    }

    /// Its bytes, JSON as text.
    pub fn as_bytes(&self) -> &[u8] {
        match self {
            Self::Bytes(bytes) => bytes,
            Self::Json(text) => text.as_bytes(),
        }
    }
}

impl From<&[u8]> for Payload {
    fn from(bytes: &[u8]) -> Self {
        Self::bytes(bytes)
    }
}

impl From<Vec<u8>> for Payload {
    fn from(bytes: Vec<u8>) -> Self {
        Self::Bytes(bytes)
    }
}

impl From<&str> for Payload {
    fn from(text: &str) -> Self {
        Self::bytes(text)
    }
}

impl From<String> for Payload {
    fn from(text: String) -> Self {
        Self::bytes(text)
    }
}

fn check_json(what: &str, text: &str) -> Result<()> {
    serde_json::from_str::<de::IgnoredAny>(text).map(drop).map_err(|error| {
        let (line, column, reason) = (error.line(), error.column(), json_fault(&error));
        Error::misuse(format!("{what} is not JSON: line {line}, column {column}: {reason}"))
    })
}

/// The fault of a text that is no JSON, without its place.
#[doc(hidden)]
pub fn json_fault(error: &serde_json::Error) -> String {
    let text = error.to_string();
    match text.rsplit_once(" at line ").map_or(&text[..], |(reason, _)| reason) {
        "expected ident" => "a word other than null, true and false needs double quotes",
        "expected value" => "a value is missing, or needs double quotes",
        "key must be a string" => "a key needs double quotes",
        "trailing characters" => "more follows behind the end of the value",
        "trailing comma" => "nothing follows behind a comma",
        reason => reason,
    }
    .to_owned()
}

/// Time for which a unique key is held.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum UniqueFor {
    /// The key is held until the job is claimed for the first time. If it comes back unfinished,
    /// it holds the key again, unless another job does by then.
    Waiting,
    /// The key is held until the job is done, dead or removed.
    WaitingOrRunning,
    /// For this time from the push on, whatever becomes of the job.
    Time(Duration),
}

/// Time from which on a job may run.
#[doc(hidden)]
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum When {
    /// At once.
    Now,
    /// So long after the push.
    After(Duration),
    /// In milliseconds since the Unix epoch.
    At(i64),
}

impl When {
    /// The time in milliseconds, if it is now `now_ms`.
    pub(super) fn ms(self, now_ms: i64) -> i64 {
        match self {
            Self::Now => now_ms,
            Self::After(delay) => now_ms.saturating_add(to_ms(delay)),
            Self::At(at_ms) => at_ms,
        }
    }

    /// Refuses a job that may run from this time on and could never be claimed.
    ///
    /// # Errors
    /// If it expires before.
    pub fn check_expiry(self, expires: Option<Self>, now_ms: i64) -> Result<()> {
        let due_at_ms = self.ms(now_ms).max(now_ms);
        let Some(expires) = expires.filter(|expires| expires.ms(now_ms) <= due_at_ms) else {
            return Ok(());
        };
        let why = if expires.ms(now_ms) <= now_ms {
            "has expired by now, and would never be claimed"
        } else {
            "would expire before it is due, and never be claimed"
        };
        Err(Error::misuse(format!("the job {why}"))
            .on_disk("nothing of this call")
            .to_do("let ⟦expires⟧ be a time to come, and one after ⟦delay⟧ or ⟦due⟧"))
    }
}

/// Bytes of a job that SQLite surely stores: a row has 1,000,000,000 at most.
const JOB_BYTES_MAX: usize = 999_999_000;

/// Checks each of several jobs that are pushed together; the error names the job by its place.
///
/// # Errors
/// The first of `check`.
#[doc(hidden)]
pub fn check_each<T>(jobs: &[T], check: impl Fn(&T) -> Result<()>) -> Result<()> {
    let count = jobs.len();
    jobs.iter().zip(1..).try_for_each(|(job, place)| {
        check(job).map_err(|error| match count {
            1 => error,
            _ => error.of_one(&format!("job {place} of {count}")),
        })
    })
}

/// A job to be pushed.
///
/// ```
/// # use std::time::Duration;
/// use leafpress::queue::{Job, UniqueFor};
/// let job = Job::json(&("welcome", 17))?
///     .priority(5)
///     .delay(Duration::from_secs(60))
///     .group("customer-17")
///     .unique("welcome-17", UniqueFor::WaitingOrRunning);
/// # Ok::<(), leafpress::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
#[must_use = "a job exists only once it is pushed"]
#[non_exhaustive]
pub struct Job {
    #[doc(hidden)]
    pub payload: Payload,
    #[doc(hidden)]
    pub priority: i32,
    #[doc(hidden)]
    pub when: When,
    #[doc(hidden)]
    pub group: Option<String>,
    #[doc(hidden)]
    pub unique: Option<(String, UniqueFor)>,
    #[doc(hidden)]
    pub attempts_max: Option<u32>,
    #[doc(hidden)]
    pub expires: Option<When>,
    #[doc(hidden)]
    pub correlation_id: Option<String>,
    #[doc(hidden)]
    pub metadata: Option<String>,
}

impl Job {
    /// A job about `payload`.
    pub fn new(payload: impl Into<Payload>) -> Self {
        Self {
            payload: payload.into(),
            priority: 0,
            when: When::Now,
            group: None,
            unique: None,
            attempts_max: None,
            expires: None,
            correlation_id: None,
            metadata: None,
        }
    }

    /// A job about bytes.
    pub fn bytes(bytes: impl Into<Vec<u8>>) -> Self {
        Self::new(Payload::bytes(bytes))
    }

    /// A job about a value, as JSON.
    ///
    /// # Errors
    /// As [`Payload::json`].
    pub fn json(value: &(impl Serialize + ?Sized)) -> Result<Self> {
        Payload::json(value).map(Self::new)
    }

    /// Refuses a job that could not be stored, or could never be claimed.
    ///
    /// # Errors
    /// It is too large; it expires before it is due.
    #[doc(hidden)]
    pub fn check(&self, now_ms: i64) -> Result<()> {
        let texts = [&self.metadata, &self.group, &self.correlation_id];
        let texts = texts.into_iter().flatten().chain(self.unique.as_ref().map(|(key, _)| key));
        let bytes = self.payload.as_bytes().len() + texts.map(String::len).sum::<usize>();
        if bytes > JOB_BYTES_MAX {
            let reason =
                format!("the job has {bytes} bytes, and SQLite stores {JOB_BYTES_MAX} at most");
            return Err(Error::misuse(reason)
                .on_disk("nothing of this call")
                .to_do("keep the data in a file, and push its name"));
        }
        self.when.check_expiry(self.expires, now_ms)
    }

    /// Jobs of a higher priority (0 if not given) are claimed first.
    pub fn priority(mut self, priority: i32) -> Self {
        self.priority = priority;
        self
    }

    /// Delay from the push until the job may run.
    pub fn delay(mut self, delay: Duration) -> Self {
        self.when = When::After(delay);
        self
    }

    /// Time from which on the job may run, by the wall clock.
    pub fn due(mut self, at: SystemTime) -> Self {
        self.when = When::At(UnixTime::from(at).as_ms());
        self
    }

    /// Ordering group of the job. Jobs of one group run in the order in which they were pushed, one
    /// at a time (or as many as [`group_concurrency`](super::Settings::group_concurrency) says).
    pub fn group(mut self, group: impl Into<String>) -> Self {
        self.group = Some(group.into());
        self
    }

    /// Unique key of the job: while another job of the queue holds it, this one is not pushed.
    pub fn unique(mut self, key: impl Into<String>, scope: UniqueFor) -> Self {
        self.unique = Some((key.into(), scope));
        self
    }

    /// Largest number of attempts before the job is a dead letter, in place of its queue's own. At
    /// least 1.
    pub fn attempts_max(mut self, attempts: u32) -> Self {
        self.attempts_max = Some(attempts.max(1));
        self
    }

    /// Time from the push after which the job, if it still waits, becomes a dead letter. A push of a
    /// job that would expire before it is due is refused.
    pub fn expires_in(mut self, time: Duration) -> Self {
        self.expires = Some(When::After(time));
        self
    }

    /// Time at which the job, if it still waits, becomes a dead letter.
    pub fn expires(mut self, at: SystemTime) -> Self {
        self.expires = Some(When::At(UnixTime::from(at).as_ms()));
        self
    }

    /// Names the work that the job belongs to, in the application's own words.
    pub fn correlation_id(mut self, id: impl Into<String>) -> Self {
        self.correlation_id = Some(id.into());
        self
    }

    /// Metadata of the job, as JSON.
    ///
    /// # Errors
    /// As [`Payload::json`].
    pub fn metadata(mut self, value: &(impl Serialize + ?Sized)) -> Result<Self> {
        let Payload::Json(text) = Payload::json(value)? else { return Ok(self) };
        self.metadata = Some(text);
        Ok(self)
    }

    /// Metadata of the job, as a text that is JSON already.
    ///
    /// # Errors
    /// If it is not JSON; the message says where.
    pub fn metadata_json(mut self, text: impl Into<String>) -> Result<Self> {
        let text = text.into();
        check_json("the metadata", &text)?;
        self.metadata = Some(text);
        Ok(self)
    }
}

impl<P: Into<Payload>> From<P> for Job {
    fn from(payload: P) -> Self {
        Self::new(payload)
    }
}

/// Result of a push.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Pushed {
    /// The job: the new one, or the one that holds the unique key (which may be
    /// gone already, if the key is held for a time).
    pub id: i64,
    /// True if the push made a new job.
    pub is_new: bool,
}

impl FromStr for Token {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let parts = text.split_once('.');
        let token = parts.and_then(|(job, claim)| {
            Some(Self { job: job.parse().ok()?, claim: claim.parse().ok()? })
        });
        token.ok_or_else(|| {
            Error::misuse(format!("'{text}' is no token: a claim gives one, such as 17.1"))
        })
    }
}

impl<'de> Deserialize<'de> for Token {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let text = Cow::<str>::deserialize(from)?;
        text.parse().map_err(|_| de::Error::custom(format!("{text:?} is no token, such as 17.1")))
    }
}

/// A job that a consumer holds, until its lease ends.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Claim {
    /// The token with which it is acked, nacked or extended.
    pub token: Token,
    /// Number of the job.
    pub id: i64,
    /// Its queue.
    pub queue: String,
    /// Its payload.
    pub payload: Payload,
    /// Number of this attempt, from 1.
    pub attempt: u32,
    /// Largest number of attempts.
    pub attempts_max: u32,
    /// Its priority.
    pub priority: i32,
    /// Its ordering group.
    pub group: Option<String>,
    /// The application's own name for the work that the job belongs to.
    pub correlation_id: Option<String>,
    /// Its metadata, as JSON.
    pub metadata: Option<String>,
    /// Time of its push.
    pub pushed_at: UnixTime,
    /// End of the lease: a later ack is refused.
    pub lease_until: UnixTime,
}

/// Options of a claim.
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use]
#[non_exhaustive]
pub struct ClaimOptions {
    #[doc(hidden)]
    pub jobs_max: usize,
    #[doc(hidden)]
    pub lease: Option<Duration>,
    #[doc(hidden)]
    pub wait: Option<Duration>,
    #[doc(hidden)]
    pub worker: Option<String>,
}

impl Default for ClaimOptions {
    fn default() -> Self {
        Self { jobs_max: 1, lease: None, wait: None, worker: None }
    }
}

impl ClaimOptions {
    /// One job, without waiting, for the lease that the queue's settings say.
    pub fn new() -> Self {
        Self::default()
    }

    /// Maximum number of jobs to claim.
    pub fn jobs_max(mut self, jobs: usize) -> Self {
        self.jobs_max = jobs;
        self
    }

    /// Length of the lease, during which no other consumer gets the jobs.
    pub fn lease(mut self, lease: Duration) -> Self {
        self.lease = Some(lease);
        self
    }

    /// Longest wait for a job, if there is none. `Duration::MAX` waits for ever.
    pub fn wait(mut self, wait: Duration) -> Self {
        self.wait = Some(wait);
        self
    }

    /// Refuses a lease that no consumer could keep.
    #[doc(hidden)]
    pub fn check(&self) -> Result<()> {
        if self.lease.is_some_and(|lease| to_ms(lease) == 0) {
            return Err(Error::misuse("a lease of at least a millisecond is needed"));
        }
        Ok(())
    }

    /// Name of the consumer, as the job's history shows it.
    pub fn worker(mut self, name: impl Into<String>) -> Self {
        self.worker = Some(name.into());
        self
    }
}

/// Options of giving back a job that did not succeed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[must_use]
#[non_exhaustive]
pub struct Nack {
    #[doc(hidden)]
    pub error: Option<String>,
    #[doc(hidden)]
    pub delay: Option<Duration>,
}

impl Nack {
    /// The queue's backoff as the delay before the next attempt, and no reason.
    pub fn new() -> Self {
        Self::default()
    }

    /// Reason of the failure.
    pub fn error(mut self, error: impl Into<String>) -> Self {
        self.error = Some(error.into());
        self
    }

    /// Delay before the next attempt.
    pub fn delay(mut self, delay: Duration) -> Self {
        self.delay = Some(delay);
        self
    }
}

/// Fate of a job that was given back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Retry {
    /// The job may run again.
    At {
        /// From then on.
        #[serde(rename = "due_at_ms")]
        due_at: UnixTime,
    },
    /// The job is a dead letter: that was its last attempt, or it has expired meanwhile.
    Dead,
}

/// State of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum JobState {
    /// The job may be claimed.
    Ready,
    /// A consumer has it.
    Leased,
    /// The job waits for its time.
    Delayed,
    /// The job waits for its group.
    Blocked,
    /// The job was acked, and is kept for a while.
    Done,
    /// A dead letter.
    Dead,
}

impl JobState {
    /// All of them, in the order of their numbers in the table.
    pub const ALL: [Self; 6] =
        [Self::Ready, Self::Leased, Self::Delayed, Self::Blocked, Self::Done, Self::Dead];

    /// Its number in the table.
    pub fn number(self) -> i64 {
        self as i64
    }

    /// The state of that number, if there is one.
    pub fn from_number(number: i64) -> Option<Self> {
        Self::ALL.get(usize::try_from(number).ok()?).copied()
    }

    /// Returns true if it waits to be claimed, now or later.
    pub fn is_waiting(self) -> bool {
        matches!(self, Self::Ready | Self::Delayed | Self::Blocked)
    }

    /// Returns true if it is done or dead.
    pub fn has_ended(self) -> bool {
        matches!(self, Self::Done | Self::Dead)
    }

    /// Its name, as in the view and in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::Ready => "ready",
            Self::Leased => "leased",
            Self::Delayed => "delayed",
            Self::Blocked => "blocked",
            Self::Done => "done",
            Self::Dead => "dead",
        }
    }
}

impl fmt::Display for JobState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for JobState {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        Self::ALL.into_iter().find(|state| state.name() == text).ok_or_else(|| {
            Error::not_found(
                "state of a job",
                text,
                format!(
                    "'{text}' is no state of a job: ready, leased, delayed, blocked, done, dead"
                ),
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_read_as_they_are_written() {
        let token = Token { job: 17, claim: 2 };
        assert_eq!(token.to_string().parse::<Token>().expect("a token"), token);
        for text in ["", "17", "17.", ".1", "17.1.1", "17.-1", "x.1", "99999999999999999999.1"] {
            assert!(text.parse::<Token>().is_err(), "{text}");
        }
    }

    #[test]
    fn a_claim_can_be_sent_to_a_worker_elsewhere() {
        let claim = Claim {
            token: Token { job: 17, claim: 2 },
            id: 17,
            queue: "mail".to_owned(),
            payload: Payload::Bytes(vec![1, 2]),
            attempt: 1,
            attempts_max: 5,
            priority: 0,
            group: Some("g".to_owned()),
            correlation_id: None,
            metadata: None,
            pushed_at: UnixTime::from_ms(1),
            lease_until: UnixTime::from_ms(2),
        };
        let sent = serde_json::to_string(&claim).expect("JSON");
        assert_eq!(serde_json::from_str::<Claim>(&sent).expect("a claim"), claim);
        let error = serde_json::from_str::<Token>("\"17\"").expect_err("no token");
        assert!(error.to_string().contains("\"17\" is no token"), "{error}");
    }

    #[test]
    fn states_have_one_number_and_one_name_each() {
        for state in JobState::ALL {
            assert_eq!(JobState::from_number(state.number()), Some(state));
            assert_eq!(state.name().parse::<JobState>().expect("a state"), state);
        }
        assert_eq!(JobState::from_number(6), None);
        assert_eq!(JobState::from_number(-1), None);
    }

    #[test]
    fn json_is_checked_early_and_says_where() {
        assert_eq!(Payload::json(&[1, 2]).expect("JSON"), Payload::Json("[1,2]".to_owned()));
        let error = Payload::json_text("{\"a\": }").expect_err("no JSON").to_string();
        assert!(error.contains("line 1, column 7: a value is missing"), "{error}");
        assert!(Job::bytes("x").metadata_json("{").is_err());
    }

    #[test]
    fn a_payload_is_parsed_as_the_value_that_it_was_made_of() {
        let value = ("welcome".to_owned(), vec![1, 2]);
        let payload = Payload::json(&value).expect("JSON");
        assert_eq!(payload.parse::<(String, Vec<i32>)>().expect("the same type"), value);
        assert_eq!(Payload::bytes("[1, 2]").parse::<[u8; 2]>().expect("JSON bytes"), [1, 2]);
        let error = payload.parse::<Vec<String>>().expect_err("another type").to_string();
        assert!(error.contains("line 1 column") && error.contains("as it was"), "{error}");
        assert!(Payload::bytes([0xFF]).parse::<String>().is_err());
    }
}
