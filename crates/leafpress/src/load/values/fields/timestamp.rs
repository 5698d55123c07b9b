//! Dates and times in ISO 8601 or RFC 3339, turned into SQLite's forms.
//!
//! The stored value is the one that SQLite's functions of the same names make of the text, with
//! these differences: an impossible date (30 February) is refused, not moved; a bare number is no
//! date (SQLite takes it for a Julian day); fractions of a second are cut, while SQLite rounds them
//! to milliseconds first; offsets may be written as `+0100` and `+01`, too, and UTC as a word.
//!
//! Must never: guess. Without an offset a time is UTC, as it is for SQLite, and
//! a zone's name without an offset is refused.

use jiff::SignedDuration;
use jiff::civil::DateTime;
use jiff::fmt::temporal::Pieces;
use leafpress_format::Number;

use super::convert::Converted;
use crate::load::options::{TIMESTAMP_TEXT_BYTES_MAX, TimestampForm};

/// Longest text that can be a date and time.
const INPUT_BYTES_MAX: usize = 64;

/// A date and time in UTC.
pub struct Timestamp(DateTime);

impl Timestamp {
    /// Reads a date, with or without a time, with or without an offset.
    pub fn parse(text: &[u8]) -> Option<Self> {
        if !is_extended_form(text) || text.len() > INPUT_BYTES_MAX {
            return None;
        }
        let mut joined = [0; INPUT_BYTES_MAX + 1];
        let pieces = Pieces::parse(without_blank_before_zone(text, &mut joined)).ok()?;
        let offset = pieces.to_numeric_offset();
        if pieces.time_zone_annotation().is_some() && offset.is_none() {
            return None;
        }
        let local = pieces.date().to_datetime(pieces.time().unwrap_or_default());
        let ahead = SignedDuration::from_secs(offset.map_or(0, |o| i64::from(o.seconds())));
        local.checked_sub(ahead).ok().map(Self)
    }

    pub fn stored(&self, form: TimestampForm) -> Converted {
        match form {
            TimestampForm::Seconds => Converted::Number(Number::Integer(self.seconds())),
            TimestampForm::Milliseconds => {
                let milliseconds = self.seconds() * 1000 + i64::from(self.0.millisecond());
                Converted::Number(Number::Integer(milliseconds))
            }
            TimestampForm::Date => Converted::Text(DateText::of(self.0, false)),
            TimestampForm::DateTime => Converted::Text(DateText::of(self.0, true)),
        }
    }

    /// Whole seconds since 1970, cut towards the past.
    fn seconds(&self) -> i64 {
        let epoch = DateTime::constant(1970, 1, 1, 0, 0, 0, 0);
        let subsecond = i64::from(self.0.subsec_nanosecond());
        let nanoseconds = SignedDuration::from_nanos(subsecond);
        (self.0.duration_since(epoch) - nanoseconds).as_secs()
    }
}

/// Returns true if the text begins as `2026-01-31` or `2026-01-31T23:59`, with seconds (if any)
/// below 60: like SQLite, this module has no number for a leap second.
fn is_extended_form(text: &[u8]) -> bool {
    let is_at = |at: usize, byte: u8| text.get(at) == Some(&byte);
    is_at(4, b'-')
        && is_at(7, b'-')
        && text[..4].iter().all(u8::is_ascii_digit)
        && (text.len() == 10 || is_at(13, b':'))
        && !(is_at(16, b':') && is_at(17, b'6'))
}

/// The text with its zone in the form that the parser needs: `10:00 +01:00`, `10:00 UTC`.
fn without_blank_before_zone<'t>(
    text: &'t [u8],
    joined: &'t mut [u8; INPUT_BYTES_MAX + 1],
) -> &'t [u8] {
    let Some(blank) = memchr::memrchr(b' ', text).filter(|&at| at > 13) else { return text };
    let zone = match &text[blank + 1..] {
        b"UTC" | b"GMT" | b"Z" | b"z" => b"Z",
        zone @ [b'+' | b'-', ..] => zone,
        _ => return text,
    };
    joined[..blank].copy_from_slice(&text[..blank]);
    joined[blank..blank + zone.len()].copy_from_slice(zone);
    &joined[..blank + zone.len()]
}

/// A date, with or without the time, as SQLite writes it.
pub struct DateText {
    bytes: [u8; TIMESTAMP_TEXT_BYTES_MAX],
    len: usize,
}

impl DateText {
    fn of(at: DateTime, with_time: bool) -> Self {
        let mut text = Self { bytes: [0; TIMESTAMP_TEXT_BYTES_MAX], len: 0 };
        if at.year() < 0 {
            text.push(b'-');
        }
        let year = at.year().unsigned_abs();
        text.push_pair((year / 100) as u8);
        text.push_pair((year % 100) as u8);
        for (mark, part) in [(b'-', at.month()), (b'-', at.day())] {
            text.push(mark);
            text.push_pair(part.unsigned_abs());
        }
        if with_time {
            for (mark, part) in [(b' ', at.hour()), (b':', at.minute()), (b':', at.second())] {
                text.push(mark);
                text.push_pair(part.unsigned_abs());
            }
        }
        text
    }

    fn push(&mut self, byte: u8) {
        self.bytes[self.len] = byte;
        self.len += 1;
    }

    fn push_pair(&mut self, number: u8) {
        self.push(b'0' + number / 10);
        self.push(b'0' + number % 10);
    }

    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}
