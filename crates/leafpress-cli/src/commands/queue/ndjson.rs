//! Lines of JSON that describe jobs: `{"payload": …, "delay": "5m"}`.
//!
//! Stands between the bytes of an input and the library's jobs. Must never:
//! change a payload: JSON is stored character by character.

use std::borrow::Cow;

use leafpress::queue::{Job, Payload, json_fault};
use leafpress::{BadRow, Error};
use serde::Deserialize;
use serde_json::value::RawValue;

use super::template::{Template, without_bom};
use crate::flags::{When, parse_duration, parse_time, parse_unique_for, parse_when};

/// Characters of a row that an error shows at most.
const SHOWN_CHARACTERS_MAX: usize = 200;

/// One line.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Line<'a> {
    /// Any JSON, also null.
    #[serde(default, borrow, deserialize_with = "present")]
    payload: Option<&'a RawValue>,
    /// Text, stored as its bytes.
    #[serde(borrow)]
    text: Option<Cow<'a, str>>,
    priority: Option<i32>,
    delay: Option<String>,
    due: Option<String>,
    group: Option<String>,
    unique: Option<String>,
    unique_for: Option<String>,
    attempts: Option<u32>,
    expires: Option<String>,
    correlation_id: Option<String>,
    #[serde(borrow)]
    metadata: Option<&'a RawValue>,
}

/// Value of a key that is present; an explicit `null` counts as a value.
fn present<'de, D: serde::Deserializer<'de>>(from: D) -> Result<Option<&'de RawValue>, D::Error> {
    <&RawValue>::deserialize(from).map(Some)
}

/// The job of a line. Properties that the line does not give come from the template.
///
/// # Errors
/// The line is not a job: its position and the reason.
pub fn job(name: &str, line_number: u64, line: &[u8], template: &Template) -> Result<Job, Error> {
    let fail = |column: usize, reason: String| {
        let shown = String::from_utf8_lossy(line);
        let row = shown.chars().take(SHOWN_CHARACTERS_MAX).collect();
        let (file, column) = (name.to_owned(), column.max(1) as u64);
        Error::from(BadRow::new(file, line_number, column, reason).with_row(row))
    };
    let line = if line_number == 1 { without_bom(line) } else { line };
    if line.trim_ascii_start().starts_with(b"[") {
        let reason = "it is an array, expected an object such as {\"payload\": 1}; jq -c '.[]' makes \
                      lines of an array";
        return Err(fail(1, reason.to_owned()));
    }
    let parsed: Line<'_> = serde_json::from_slice(line).map_err(|error| {
        // serde counts lines, and there is only this one.
        let reason = in_our_words(&json_fault(&error));
        let what = if error.is_syntax() { "it is not JSON: " } else { "" };
        fail(error.column(), format!("{what}{reason}"))
    })?;
    let payload = match (parsed.payload, &parsed.text) {
        (Some(json), None) => Payload::Json(json.get().to_owned()),
        (None, Some(text)) => Payload::Bytes(text.as_bytes().to_vec()),
        (None, None) => return Err(fail(1, "payload or text is missing".to_owned())),
        (Some(_), Some(_)) => {
            return Err(fail(1, "it has payload and text; choose one".to_owned()));
        }
    };
    let template = parsed.over(template).map_err(|reason| fail(1, reason))?;
    template.job(payload).map_err(|error| fail(1, error.kind().to_string()))
}

/// The message of serde, without the names of Rust's types.
fn in_our_words(reason: &str) -> String {
    const TYPES: [(&str, &str); 11] = [
        ("expected i32", "expected a whole number from -2147483648 to 2147483647"),
        ("expected u32", "expected a whole number from 0 to 4294967295"),
        ("EOF while parsing", "the line ends inside"),
        ("expected a string", "expected a text"),
        ("expected struct Line", "expected an object such as {\"payload\": 1}"),
        ("invalid type: map", "it is an object"),
        ("invalid type: sequence", "it is an array"),
        ("invalid type: null", "it is null"),
        ("invalid type: ", "it is "),
        ("invalid value: ", "it is "),
        ("unknown field ", "there is no member "),
    ];
    let mut words = reason.to_owned();
    for (theirs, ours) in TYPES {
        words = words.replace(theirs, ours);
    }
    words
        .replace("it is integer", "it is the number")
        .replace("it is floating point", "it is the number")
        .replace("it is string", "it is the text")
        .replace("it is boolean", "it is")
        .replace("duplicate field", "there is twice the member")
}

impl Line<'_> {
    /// The template with what the line says.
    fn over(&self, template: &Template) -> Result<Template, String> {
        let named = |name: &'static str| move |reason: String| format!("{name}: {reason}");
        let mut result = template.clone();
        if self.delay.is_some() && self.due.is_some() {
            return Err("it has delay and due; choose one".to_owned());
        }
        if let Some(delay) = &self.delay {
            result.due = Some(When::After(parse_duration(delay).map_err(named("delay"))?));
        }
        if let Some(due) = &self.due {
            result.due = Some(When::At(parse_time(due).map_err(named("due"))?));
        }
        if let Some(expires) = &self.expires {
            result.expires = Some(parse_when(expires).map_err(named("expires"))?);
        }
        if self.unique_for.is_some() && self.unique.is_none() && template.unique.is_none() {
            return Err("unique_for says how long a key is taken, and unique is missing".to_owned());
        }
        if let Some(scope) = &self.unique_for {
            result.unique_for = parse_unique_for(scope).map_err(named("unique_for"))?;
        }
        if self.attempts == Some(0) {
            return Err("attempts: a number from 1 up".to_owned());
        }
        let metadata = self.metadata.map(|json| json.get().to_owned());
        let or = |mine: &Option<String>, other: Option<String>| mine.clone().or(other);
        result.unique = or(&self.unique, result.unique);
        result.group = or(&self.group, result.group);
        result.correlation_id = or(&self.correlation_id, result.correlation_id);
        result.metadata = metadata.or(result.metadata);
        result.priority = self.priority.or(result.priority);
        result.attempts = self.attempts.or(result.attempts);
        Ok(result)
    }
}
