//! The values that the flags of `leafpress queue` take, from their words.
//!
//! Must never: look at anything but the words, or the clock: what is due in
//! five minutes is measured when the job is pushed.

use std::str::FromStr;
use std::time::{Duration, SystemTime};

use jiff::{SpanRelativeTo, Timestamp};
use leafpress::queue::{Rate, Token, UniqueFor, Worker};

use super::super::values::parse_number;

/// A value, or none at all. (A bare `Option` means "not given" to clap.)
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct OrNone<T>(pub Option<T>);

/// A moment, or a time from now on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum When {
    /// At that time.
    At(SystemTime),
    /// After that time.
    After(Duration),
}

/// The parts of a backoff that were given, from the first on.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct BackoffWords {
    /// Delay before the second attempt.
    pub first: Duration,
    /// Factor by which the delay grows before each further attempt.
    pub factor: Option<f64>,
    /// Longest delay.
    pub max: Option<Duration>,
    /// Share by which the delay is shortened or lengthened at random, from 0 to 1.
    pub jitter: Option<f64>,
}

/// `90s`, `1h30m`, `7d`. A day has 24 hours.
pub fn parse_duration(text: &str) -> Result<Duration, String> {
    let wrong = || "name a time such as 90s, 5m, 1h30m or 7d".to_owned();
    let span = jiff::Span::from_str(text).map_err(|_| wrong())?;
    let signed = span.to_duration(SpanRelativeTo::days_are_24_hours()).map_err(|_| wrong())?;
    Duration::try_from(signed).map_err(|_| wrong())
}

/// A duration that is more than nothing.
pub fn parse_lease(text: &str) -> Result<Duration, String> {
    let lease = parse_duration(text)?;
    if lease < Duration::from_millis(1) {
        return Err("a lease of no time is none; name one such as 30s or 5m".to_owned());
    }
    Ok(lease)
}

/// A time after which a program is ended.
pub fn parse_timeout(text: &str) -> Result<Duration, String> {
    let timeout = parse_duration(text)?;
    if timeout < Duration::from_millis(1) {
        return Err("it would end each program at once; name a time such as 30s or 5m".to_owned());
    }
    Ok(timeout)
}

/// `2026-01-01T00:00:00Z`, or with an offset.
pub fn parse_time(text: &str) -> Result<SystemTime, String> {
    let wrong = "name a time such as 2026-01-01T00:00:00Z or 2026-01-01T09:00:00+02:00";
    let time: Timestamp = text.parse().map_err(|_| wrong.to_owned())?;
    let since_1970 = Duration::from_millis(time.as_millisecond().unsigned_abs());
    let epoch = SystemTime::UNIX_EPOCH;
    let time = if time.as_millisecond() < 0 {
        epoch.checked_sub(since_1970)
    } else {
        epoch.checked_add(since_1970)
    };
    time.ok_or_else(|| wrong.to_owned())
}

/// A time, or a duration from now on.
pub fn parse_when(text: &str) -> Result<When, String> {
    let wrong = |_| "name a time such as 2026-01-01T00:00:00Z, or from now on, such as 12h";
    let after = parse_duration(text).map(When::After);
    Ok(after.or_else(|_| parse_time(text).map(When::At)).map_err(wrong)?)
}

/// `waiting`, `running`, or a time.
pub fn parse_unique_for(text: &str) -> Result<UniqueFor, String> {
    match text {
        "waiting" => Ok(UniqueFor::Waiting),
        "running" => Ok(UniqueFor::WaitingOrRunning),
        time => parse_duration(time)
            .map(UniqueFor::Time)
            .map_err(|_| "it is waiting, running, or a time such as 1h".to_owned()),
    }
}

/// `none`, or a number from 1 up.
pub fn parse_number_or_none(text: &str) -> Result<OrNone<u32>, String> {
    if is_none(text) {
        return Ok(OrNone(None));
    }
    let number = parse_number(text).map_err(|wrong| format!("{wrong}, or none"))?;
    Ok(OrNone(Some(number)))
}

/// A number of jobs that a worker runs at once.
pub fn parse_concurrency(text: &str) -> Result<usize, String> {
    let most = Worker::CONCURRENCY_MAX;
    let number = text.parse().ok().filter(|number| (1..=most).contains(number));
    number.ok_or_else(|| format!("name a number from 1 to {most}, or leave the flag out"))
}

/// A priority.
pub fn parse_priority(text: &str) -> Result<i32, String> {
    text.parse().map_err(|_| format!("name a whole number from {} to {}", i32::MIN, i32::MAX))
}

/// `none`, or a duration.
pub fn parse_duration_or_none(text: &str) -> Result<OrNone<Duration>, String> {
    if is_none(text) {
        return Ok(OrNone(None));
    }
    let time = parse_duration(text).map_err(|wrong| format!("{wrong}, or none"))?;
    Ok(OrNone(Some(time)))
}

/// `none`, or jobs and the time that they are for: `100/1m`, `5/s`.
pub fn parse_rate(text: &str) -> Result<OrNone<Rate>, String> {
    if is_none(text) {
        return Ok(OrNone(None));
    }
    let wrong = || "name jobs and a time, such as 100/1m or 5/s, or none".to_owned();
    let (jobs, per) = text.split_once('/').ok_or_else(wrong)?;
    let jobs = parse_number(jobs).map_err(|_| wrong())?;
    // "a second" needs no 1.
    let per = if per.starts_with(|it: char| it.is_ascii_digit()) {
        per.to_owned()
    } else {
        format!("1{per}")
    };
    let per = parse_lease(&per).map_err(|_| wrong())?;
    Ok(OrNone(Some(Rate { jobs, per })))
}

/// `FIRST[,FACTOR[,MAX[,JITTER]]]`.
pub fn parse_backoff(text: &str) -> Result<BackoffWords, String> {
    let wrong =
        "write it as FIRST,FACTOR,MAX,JITTER, such as 1s,2,1h,0.2; those behind may be left out";
    let wrong = |_: String| wrong.to_owned();
    let mut words = text.split(',').map(str::trim);
    let first = words.next().unwrap_or_default();
    let mut next = || words.next();
    let factor = next().map(|it| parse_between(it, 1.0, 1e6)).transpose();
    let max = next().map(parse_duration).transpose();
    let jitter = next().map(|it| parse_between(it, 0.0, 1.0)).transpose();
    let backoff = BackoffWords {
        first: parse_duration(first).map_err(wrong)?,
        factor: factor.map_err(wrong)?,
        max: max.map_err(wrong)?,
        jitter: jitter.map_err(wrong)?,
    };
    if words.next().is_some() {
        return Err(wrong(String::new()));
    }
    Ok(backoff)
}

fn parse_between(text: &str, min: f64, max: f64) -> Result<f64, String> {
    let number = text.parse::<f64>().ok().filter(|number| (min..=max).contains(number));
    number.ok_or_else(|| format!("name a number from {min} to {max}"))
}

/// A claim's token.
pub fn parse_token(text: &str) -> Result<Token, String> {
    let wrong = |_| "a token is what `claim` printed before the payload, such as 17.1".to_owned();
    text.parse::<Token>().map_err(wrong)
}

/// A job's number.
pub fn parse_job_id(text: &str) -> Result<i64, String> {
    match text.parse() {
        Ok(id) if id > 0 => Ok(id),
        _ => Err("name a job's number, such as 17".to_owned()),
    }
}

/// Exit code of a program.
pub fn parse_exit_code(text: &str) -> Result<u8, String> {
    match text.parse() {
        Ok(0) => Err("0 means that the job is done".to_owned()),
        Ok(code) => Ok(code),
        Err(_) => Err("an exit code is a number from 1 to 255".to_owned()),
    }
}

fn is_none(text: &str) -> bool {
    text.eq_ignore_ascii_case("none")
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn seconds(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn durations_are_words_with_units() {
        let texts = ["90s", "5m", "1h30m", "7d", "250ms", "1h 30m", "2w", "0s"];
        let expected = [90_000, 300_000, 5_400_000, 604_800_000, 250, 5_400_000, 1_209_600_000, 0];
        assert_eq!(texts.map(parse_duration), expected.map(|it| Ok(Duration::from_millis(it))));
        for bad in ["", "5", "5x", "-5m", "1mo", "1y", "soon", "5m ago"] {
            assert!(parse_duration(bad).is_err(), "{bad:?}");
        }
        assert!(parse_lease("0s").is_err());
    }

    #[test]
    fn a_worker_runs_some_jobs_at_once_and_not_too_many() {
        assert_eq!(["1", "4096"].map(parse_concurrency), [Ok(1), Ok(4096)]);
        for bad in ["0", "4097", "-1", "many", ""] {
            assert!(parse_concurrency(bad).is_err_and(|it| it.contains("1 to 4096")), "{bad:?}");
        }
    }

    #[test]
    fn times_have_an_offset() {
        let new_year = SystemTime::UNIX_EPOCH + seconds(1_767_225_600);
        assert_eq!(parse_time("2026-01-01T00:00:00Z"), Ok(new_year));
        assert_eq!(parse_time("2026-01-01T02:00:00+02:00"), Ok(new_year));
        for bad in ["2026-01-01", "2026-01-01T00:00:00", "tomorrow", ""] {
            assert!(parse_time(bad).is_err(), "{bad:?}");
        }
        assert_eq!(parse_when("12h"), Ok(When::After(seconds(12 * 3600))));
        assert_eq!(parse_when("2026-01-01T00:00:00Z"), Ok(When::At(new_year)));
        assert!(parse_when("12").is_err_and(|it| it.contains("from now on")));
    }

    #[test]
    fn limits_can_be_taken_away() {
        let rate = |jobs, time| Ok(OrNone(Some(Rate { jobs, per: time })));
        assert_eq!(parse_rate("100/1m"), rate(100, seconds(60)));
        assert_eq!(parse_rate("5/s"), rate(5, seconds(1)));
        assert_eq!(parse_rate("None"), Ok(OrNone(None)));
        for bad in ["100", "/s", "0/s", "5/0s", "5/", "5/x", "many/s"] {
            assert!(parse_rate(bad).is_err(), "{bad:?}");
        }
        assert_eq!(parse_number_or_none("none"), Ok(OrNone(None)));
        assert_eq!(parse_number_or_none("3"), Ok(OrNone(Some(3))));
        assert!(parse_number_or_none("0").is_err_and(|it| it.contains("or none")));
        assert_eq!(parse_duration_or_none("7d"), Ok(OrNone(Some(seconds(7 * 86_400)))));
    }

    #[test]
    fn a_backoff_may_end_early() {
        let all = parse_backoff("1s,2,1h,0.2").unwrap();
        assert_eq!((all.first, all.factor), (seconds(1), Some(2.0)));
        assert_eq!((all.max, all.jitter), (Some(seconds(3600)), Some(0.2)));
        let first = parse_backoff("5s").unwrap();
        assert_eq!((first.factor, first.max, first.jitter), (None, None, None));
        for bad in ["", "1s,0.5", "1s,2,1h,2", "1s,2,1h,0.2,9", "1s,,1h", "2", "1s,nan"] {
            assert!(parse_backoff(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn keys_are_unique_for_a_state_or_a_time() {
        assert_eq!(parse_unique_for("waiting"), Ok(UniqueFor::Waiting));
        assert_eq!(parse_unique_for("running"), Ok(UniqueFor::WaitingOrRunning));
        assert_eq!(parse_unique_for("1h"), Ok(UniqueFor::Time(seconds(3600))));
        assert!(parse_unique_for("ever").is_err());
    }

    #[test]
    fn jobs_tokens_and_codes_are_numbers() {
        assert_eq!(parse_token("17.1"), Ok(Token { job: 17, claim: 1 }));
        assert!(parse_token("17").is_err_and(|it| it.contains("17.1")));
        assert_eq!(parse_job_id("17"), Ok(17));
        assert!(parse_job_id("0").is_err() && parse_job_id("17.1").is_err());
        assert_eq!(parse_exit_code("65"), Ok(65));
        assert!(parse_exit_code("0").is_err() && parse_exit_code("256").is_err());
    }
}
