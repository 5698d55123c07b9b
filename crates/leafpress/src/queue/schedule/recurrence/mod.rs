//! When a schedule's next occurrence is: a cron expression in a time zone.
//!
//! Stands between the crate `croner`, which knows cron, and the rest of the
//! schedules, which know milliseconds since the Unix epoch and nothing else.
//! It reads no clock and no database.
//!
//! | form | meaning |
//! |---|---|
//! | `30 2 * * MON-FRI` | minute, hour, day of the month, month, day of the week, as in crontab |
//! | `*/10 * * * * *` | the same with seconds in front |
//! | `0 0 12 1 JAN * 2030` | with seconds in front and the year at the end |
//! | `@hourly`, `@daily` (`@midnight`), `@weekly`, `@monthly`, `@yearly` (`@annually`) | as in crontab |
//! | `L`, `15W`, `FRI#2`, `5#L` | last day of the month, weekday nearest the 15th, second Friday, last Friday |
//! | `0 0 1 * +MON` | the 1st if it is a Monday; without `+`, the 1st and every Monday |
//!
//! On the two odd days of a year, with 02:30 as the time that is missing in
//! spring and comes twice in autumn:
//!
//! | | spring: 02:00 to 03:00 does not exist | autumn: 02:00 to 03:00 comes twice |
//! |---|---|---|
//! | one time of day (`30 2 * * *`) | once, at the first moment after the gap (03:00) | once, the first time round |
//! | several (`*/15 * * * *`, `30 * * * *`, `30 2,14 * * *`) | those in the gap are left out | both times round |
//!
//! A day that is missing as a whole has no occurrence.
//!
//! Invariants:
//! 1. `next_after_ms(t)` is later than `t`, and a whole second.
//! 2. No occurrence lies between `t` and `next_after_ms(t)`: so going from one
//!    to the next misses none, and a later `t` never has an earlier answer.
//!
//! Must never: panic, whatever the text, or answer with a time that has passed.

use crate::fork::Turn;
use crate::words::counted;

use croner::Cron;
use croner::errors::CronError;
use croner::parser::{CronParser, Seconds, Year};
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};

/// Longer ones are a mistake, and cost the writer's time when they are read.
const EXPRESSION_BYTES_MAX: usize = 512;
/// The fields, the first of which may be missing, as may the last.
const FIELD_NAMES: [&str; 7] =
    ["second", "minute", "hour", "day of the month", "month", "day of the week", "year"];
/// Gaps up to this length are searched by `croner`; it gives up at the longer ones of islands that
/// went to the other side of the date line.
const GAP_SEARCHED_S: i32 = 2 * 60 * 60;
/// Changes of a zone's offset that are looked at for such a gap: some decades.
const TRANSITIONS_MAX: usize = 100;
/// Characters of an expression that an error shows.
const SHOWN_CHARS_MAX: usize = 80;
const EXAMPLE: &str = "minute, hour, day of the month, month, day of the week, as in \
                       \"30 2 * * MON-FRI\" (half past two on working days); seconds may stand \
                       before them; or @hourly, @daily, @weekly, @monthly, @yearly";

/// The mistake in a schedule's text, and an example of a right one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct BadSchedule {
    pub(super) reason: String,
    pub(super) to_do: String,
}

/// A cron expression in a time zone.
#[derive(Debug, Clone)]
pub(super) struct Recurrence {
    cron: Cron,
    zone: TimeZone,
}

impl Recurrence {
    /// Reads both texts.
    pub(super) fn parse(expression: &str, timezone: &str) -> Result<Self, BadSchedule> {
        Ok(Self { cron: parse_cron(expression)?, zone: parse_zone(timezone)? })
    }

    /// The first occurrence after a moment; none if there is no further one
    /// (a year that is over, the 31st of February).
    pub(super) fn next_after_ms(&self, after_ms: i64) -> Option<i64> {
        // Occurrences are whole seconds: the first after 12:00:00.9 is that after 12:00:00.
        let after = Timestamp::from_second(after_ms.div_euclid(1000)).ok()?;
        let next = self.find(after, false).or_else(|| self.find_behind_a_gap(after))?;
        let next_ms = next.as_second().checked_mul(1000)?;
        (next_ms > after_ms).then_some(next_ms)
    }

    fn find(&self, from: Timestamp, is_inclusive: bool) -> Option<Timestamp> {
        let from = from.to_zoned(self.zone.clone());
        Some(self.cron.find_next_occurrence(&from, is_inclusive).ok()?.timestamp())
    }

    /// The first occurrence behind a day that is missing as a whole, where the search ends.
    fn find_behind_a_gap(&self, after: Timestamp) -> Option<Timestamp> {
        self.zone.following(after).take(TRANSITIONS_MAX).find_map(|transition| {
            let at = transition.timestamp();
            let before = self.zone.to_offset(at.checked_sub(SignedDuration::from_secs(1)).ok()?);
            let gap_s = transition.offset().seconds() - before.seconds();
            (gap_s > GAP_SEARCHED_S).then(|| self.find(at, true))?
        })
    }

    /// The last occurrence until a moment, of those from `first_ms` on, which
    /// is one itself and not later.
    ///
    /// Looks forwards only, so that it agrees with [`next_after_ms`](Self::next_after_ms)
    /// on odd days too, in as many steps as the time between has bits.
    pub(super) fn last_until_ms(&self, first_ms: i64, until_ms: i64) -> i64 {
        if self.next_after_ms(first_ms).is_none_or(|next_ms| next_ms > until_ms) {
            return first_ms;
        }
        // An occurrence follows `followed_ms` until then; none follows `alone_ms`.
        let (mut last_ms, mut followed_ms, mut alone_ms) = (first_ms, first_ms, until_ms);
        while alone_ms - followed_ms > 1 {
            let middle_ms = followed_ms + (alone_ms - followed_ms) / 2;
            match self.next_after_ms(middle_ms) {
                // Nothing between the middle and the next one needs a look.
                Some(next_ms) if next_ms <= until_ms => {
                    (last_ms, followed_ms) = (next_ms, next_ms - 1);
                }
                _ => alone_ms = middle_ms,
            }
        }
        last_ms
    }
}

/// Reads a cron expression.
pub(super) fn parse_cron(expression: &str) -> Result<Cron, BadSchedule> {
    read_cron(expression.trim()).map_err(|reason| {
        let shown: String = expression.chars().take(SHOWN_CHARS_MAX).collect();
        let cut = if shown.len() < expression.len() { "…" } else { "" };
        BadSchedule {
            reason: format!("\"{shown}{cut}\" is not a cron expression: {reason}"),
            to_do: format!("write {EXAMPLE}"),
        }
    })
}

fn read_cron(expression: &str) -> Result<Cron, String> {
    if expression.len() > EXPRESSION_BYTES_MAX {
        let length = expression.len();
        return Err(format!("it is {length} bytes long, and {EXPRESSION_BYTES_MAX} are allowed"));
    }
    if expression.eq_ignore_ascii_case("@reboot") {
        return Err("a queue does not know when its machine starts".to_owned());
    }
    // crontab's second name for it.
    let is_midnight = expression.eq_ignore_ascii_case("@midnight");
    let known = if is_midnight { "@daily" } else { expression };
    if known.starts_with('@') {
        return parser().parse(known).map_err(|_| "there is no such name".to_owned());
    }
    let fields: Vec<&str> = known.split_whitespace().collect();
    if !(5..=7).contains(&fields.len()) {
        return Err(format!(
            "it has {}, not five, six or seven",
            counted(fields.len() as u64, "field", "fields")
        ));
    }
    // The crate takes "1,,3" for "1,3".
    if let Some(index) = fields.iter().position(|it| it.split(',').any(str::is_empty)) {
        return Err(of_field(&fields, index, "an item of its list is empty"));
    }
    let cron = parser().parse(known).map_err(|error| blame(&fields, &error))?;
    let recurrence = Recurrence { cron, zone: TimeZone::UTC };
    // Here rather than in the writer's time: only a search of three thousand years tells.
    if recurrence.next_after_ms(0).is_none() {
        return Err("it never happens".to_owned());
    }
    Ok(recurrence.cron)
}

fn parser() -> CronParser {
    CronParser::builder().seconds(Seconds::Optional).year(Year::Optional).build()
}

/// Finds the field at fault, which the crate does not tell: the one that is
/// refused among stars.
fn blame(fields: &[&str], error: &CronError) -> String {
    let reason = match error {
        CronError::IllegalCharacters(_) => "it has a character that means nothing there".to_owned(),
        CronError::ComponentError(reason) | CronError::InvalidPattern(reason) => {
            reason.trim_end_matches('.').to_lowercase()
        }
        other => other.to_string(),
    };
    let is_refused = |index: usize| {
        let mut alone = vec!["*"; fields.len()];
        alone[index] = fields[index];
        parser().parse(&alone.join(" ")).is_err()
    };
    match (0..fields.len()).find(|&index| is_refused(index)) {
        Some(index) => of_field(fields, index, &reason),
        None => reason,
    }
}

/// The fault of one field.
fn of_field(fields: &[&str], index: usize, reason: &str) -> String {
    let first_name = usize::from(fields.len() == 5);
    let (name, text) = (FIELD_NAMES[first_name + index], fields[index]);
    format!("field {} ({name}), \"{text}\": {reason}", index + 1)
}

/// Finds a time zone by its name.
pub(super) fn parse_zone(name: &str) -> Result<TimeZone, BadSchedule> {
    if name.eq_ignore_ascii_case("UTC") {
        return Ok(TimeZone::UTC);
    }
    let _turn = Turn::TimeZones.take();
    TimeZone::get(name).map_err(|_| BadSchedule {
        reason: format!("\"{name}\" is not the name of a time zone that is known here"),
        to_do: "name one as the IANA database does: Europe/Berlin, America/New_York, UTC"
            .to_owned(),
    })
}

#[cfg(test)]
mod tests;
