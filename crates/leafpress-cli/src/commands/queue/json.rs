//! Jobs as JSON objects: one form for every action.
//!
//! Bytes that are text stand there as `text`, others as `hex`; JSON stands there
//! as it is.
//!
//! Must never: change a number or the order of keys of a job's JSON.

use leafpress::hex_digits;
use leafpress::queue::{Claim, JobInfo, JobState, Payload, Settings, Token, UnixTime};
use serde::Serialize;
use serde_json::value::RawValue;

/// A payload or a result.
#[derive(Serialize)]
pub struct Content<'a> {
    /// The value, if it is JSON.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub payload: Option<&'a RawValue>,
    /// The value, if it is other UTF-8 text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub text: Option<&'a str>,
    /// The value in hexadecimal digits, if it is neither.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hex: Option<String>,
}

impl<'a> From<&'a Payload> for Content<'a> {
    fn from(payload: &'a Payload) -> Self {
        let mut content = Self { payload: None, text: None, hex: None };
        let bytes = match payload {
            Payload::Json(text) => {
                content.payload = raw(text);
                // Another program may have written a text there that is no JSON.
                if content.payload.is_some() {
                    return content;
                }
                text.as_bytes()
            }
            Payload::Bytes(bytes) => bytes,
        };
        match std::str::from_utf8(bytes) {
            Ok(text) => content.text = Some(text),
            Err(_) => content.hex = Some(hex_digits(bytes).collect()),
        }
        content
    }
}

/// A text that is JSON, as it is.
pub fn raw(text: &str) -> Option<&RawValue> {
    serde_json::from_str(text).ok()
}

/// Jobs as one object. (A `Value` of them would rewrite their payloads.)
#[derive(Serialize)]
pub struct Jobs<T> {
    pub jobs: Vec<T>,
}

/// A claimed job.
#[derive(Serialize)]
pub struct ClaimObject<'a> {
    token: String,
    id: i64,
    queue: &'a str,
    #[serde(flatten)]
    content: Content<'a>,
    attempt: u32,
    attempts_max: u32,
    priority: i32,
    group: Option<&'a str>,
    correlation_id: Option<&'a str>,
    metadata: Option<&'a RawValue>,
    pushed_at_ms: i64,
    lease_until_ms: i64,
}

impl<'a> From<&'a Claim> for ClaimObject<'a> {
    fn from(claim: &'a Claim) -> Self {
        Self {
            token: claim.token.to_string(),
            id: claim.id,
            queue: &claim.queue,
            content: (&claim.payload).into(),
            attempt: claim.attempt,
            attempts_max: claim.attempts_max,
            priority: claim.priority,
            group: claim.group.as_deref(),
            correlation_id: claim.correlation_id.as_deref(),
            metadata: claim.metadata.as_deref().and_then(raw),
            pushed_at_ms: claim.pushed_at.as_ms(),
            lease_until_ms: claim.lease_until.as_ms(),
        }
    }
}

/// A job as it stands in the database.
#[derive(Serialize)]
pub struct JobObject<'a> {
    id: i64,
    queue: &'a str,
    state: JobState,
    #[serde(flatten)]
    content: Option<Content<'a>>,
    priority: i32,
    attempts: u32,
    attempts_max: u32,
    claims: u32,
    due_at_ms: Option<i64>,
    lease_until_ms: Option<i64>,
    token: Option<Token>,
    kept_until_ms: Option<i64>,
    changed_at_ms: i64,
    pushed_at_ms: i64,
    expires_at_ms: Option<i64>,
    group: Option<&'a str>,
    unique: Option<&'a str>,
    unique_for: Option<&'a str>,
    unique_until_ms: Option<i64>,
    correlation_id: Option<&'a str>,
    metadata: Option<&'a RawValue>,
    worker: Option<&'a str>,
    error: Option<&'a str>,
    result: Option<Content<'a>>,
}

impl<'a> From<&'a JobInfo> for JobObject<'a> {
    fn from(job: &'a JobInfo) -> Self {
        Self {
            id: job.id,
            queue: &job.queue,
            state: job.state,
            content: job.payload.as_ref().map(Content::from),
            priority: job.priority,
            attempts: job.attempts,
            attempts_max: job.attempts_max,
            claims: job.claims,
            due_at_ms: job.due_at.map(UnixTime::as_ms),
            lease_until_ms: job.lease_until.map(UnixTime::as_ms),
            token: job.token,
            kept_until_ms: job.kept_until.map(UnixTime::as_ms),
            changed_at_ms: job.changed_at.as_ms(),
            pushed_at_ms: job.pushed_at.as_ms(),
            expires_at_ms: job.expires_at.map(UnixTime::as_ms),
            group: job.group.as_deref(),
            unique: job.unique_key.as_deref(),
            unique_for: job.unique_for,
            unique_until_ms: job.unique_until.map(UnixTime::as_ms),
            correlation_id: job.correlation_id.as_deref(),
            metadata: job.metadata.as_deref().and_then(raw),
            worker: job.worker.as_deref(),
            error: job.error.as_deref(),
            result: job.result.as_ref().map(Content::from),
        }
    }
}

/// The settings of a queue.
#[derive(Serialize)]
pub struct SettingsObject<'a> {
    pub queue: &'a str,
    #[serde(flatten)]
    pub settings: Settings,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contents_stay_what_they_are() {
        let shown =
            |payload: &Payload| serde_json::to_string(&Content::from(payload)).expect("it is JSON");
        let json = Payload::Json(r#"{"b": 1e400, "a":[ 12345678901234567890 ]}"#.to_owned());
        assert_eq!(shown(&json), r#"{"payload":{"b": 1e400, "a":[ 12345678901234567890 ]}}"#);
        assert_eq!(shown(&Payload::bytes("a\n\u{0}é")), r#"{"text":"a\n\u0000é"}"#);
        assert_eq!(shown(&Payload::bytes([0xff, 0])), r#"{"hex":"ff00"}"#);
        assert_eq!(shown(&Payload::Json("no json".to_owned())), r#"{"text":"no json"}"#);
    }
}
