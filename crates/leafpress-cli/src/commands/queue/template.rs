//! Properties that new jobs share: of `push`, of its lines, and of schedules.
//!
//! Stands between the flags and the library's jobs. Must never: change a payload, but for a byte order
//! mark in front of JSON.

use std::time::SystemTime;

use leafpress::queue::{Job, Payload, UniqueFor, UnixTime};
use leafpress::{Error, ErrorKind, Result};

use crate::flags::{QueueNewJobFlags, When};

/// Properties of new jobs, except for their payload.
#[derive(Debug, Clone)]
pub struct Template {
    pub as_json: bool,
    pub due: Option<When>,
    pub expires: Option<When>,
    pub unique: Option<String>,
    pub unique_for: UniqueFor,
    pub priority: Option<i32>,
    pub group: Option<String>,
    pub attempts: Option<u32>,
    pub correlation_id: Option<String>,
    pub metadata: Option<String>,
}

impl Template {
    /// Template from the flags of `push` and `schedule add`.
    pub fn new(flags: &QueueNewJobFlags) -> Self {
        Self {
            as_json: flags.as_json,
            due: None,
            expires: None,
            unique: None,
            unique_for: UniqueFor::WaitingOrRunning,
            priority: flags.priority,
            group: flags.group.clone(),
            attempts: flags.attempts,
            correlation_id: flags.correlation_id.clone(),
            metadata: flags.metadata.clone(),
        }
    }

    /// A job with this payload.
    pub fn job(&self, payload: Payload) -> Result<Job> {
        let mut job = Job::new(payload);
        match self.due {
            Some(When::After(delay)) => job = job.delay(delay),
            Some(When::At(time)) => job = job.due(time),
            None => {}
        }
        match self.expires {
            Some(When::After(time)) => job = job.expires_in(time),
            Some(When::At(time)) => job = job.expires(time),
            None => {}
        }
        if let Some(key) = &self.unique {
            job = job.unique(key, self.unique_for);
        }
        if let Some(priority) = self.priority {
            job = job.priority(priority);
        }
        if let Some(group) = &self.group {
            job = job.group(group);
        }
        if let Some(attempts) = self.attempts {
            job = job.attempts_max(attempts);
        }
        if let Some(id) = &self.correlation_id {
            job = job.correlation_id(id);
        }
        if let Some(metadata) = &self.metadata {
            job = job.metadata_json(metadata)?;
        }
        job.check(UnixTime::from(SystemTime::now()).as_ms())?;
        Ok(job)
    }

    /// These bytes, as JSON where that is asked for.
    pub fn payload(&self, mut bytes: Vec<u8>, name: &str) -> Result<Payload> {
        if !self.as_json {
            return Ok(Payload::Bytes(bytes));
        }
        let wrong = |reason: String| bad_value(&format!("{name}, with --as-json"), &reason);
        bytes.drain(..bytes.len() - without_bom(&bytes).len());
        let text = String::from_utf8(bytes).map_err(|error| wrong(error.to_string()))?;
        Payload::json_text(text).map_err(|error| {
            wrong(error.kind().to_string())
                .to_do("mend the JSON; or leave out --as-json, and the text is stored as it is")
        })
    }
}

/// The text without the byte order mark that programs of Windows write in front of it.
pub fn without_bom(text: &[u8]) -> &[u8] {
    text.strip_prefix(b"\xef\xbb\xbf").unwrap_or(text)
}

/// The error of something that cannot be pushed.
pub fn bad_value(name: &str, reason: &str) -> Error {
    Error::from(ErrorKind::Misuse(format!("{name}: {reason}"))).on_disk("nothing was pushed")
}
