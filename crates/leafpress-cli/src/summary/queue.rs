//! Queues, jobs and their attempts, as tables.
//!
//! Must never: show a payload with its control characters.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use leafpress::queue::{
    Attempt, JobInfo, JobState, Payload, QueueStats, Rate, ScheduleInfo, Settings, UnixTime,
    WorkReport,
};

use super::{INDENT, WIDTH, facts};
use crate::human;
use crate::output::{FAINT, STRONG, note, styled};

/// Looks that a curve shows.
const CURVE_WIDTH: usize = 40;

/// Result of a worker: so many runs, and the report with each job counted once.
pub fn of_work(runs: u64, report: &WorkReport) -> String {
    let time = human::duration(report.elapsed);
    if runs == 0 {
        return format!("no jobs in {time}\n");
    }
    let others = [
        (report.retried, "to be tried again"),
        (report.dead, "dead"),
        (report.released, "given back"),
        (report.lease_lost, "lost their lease"),
    ];
    let runs = if runs == report.claimed {
        String::new()
    } else {
        format!("{} of ", human::counted(runs, "run", "runs"))
    };
    let jobs = human::counted(report.claimed, "job", "jobs");
    let mut text = format!("{runs}{jobs} in {time}: {} done", human::count(report.done));
    for (jobs, what) in others.into_iter().filter(|(jobs, _)| *jobs > 0) {
        text += &format!(", {} {what}", human::count(jobs));
    }
    text + "\n"
}

/// A page of jobs.
pub fn of_jobs(jobs: &[JobInfo], limit: usize) -> String {
    if jobs.is_empty() {
        return "no jobs\n".to_owned();
    }
    let head = ["id", "state", "priority", "tries", "when", "group", "payload"];
    let mut lines = vec![head.map(str::to_owned)];
    lines.extend(jobs.iter().map(|job| {
        [
            job.id.to_string(),
            job.state.to_string(),
            job.priority.to_string(),
            format!("{}/{}", job.attempts, job.attempts_max),
            when(job),
            human::cut(job.group.as_deref().unwrap_or("-"), 16),
            payload(job.payload.as_ref()),
        ]
    }));
    let mut text = table(&lines);
    if jobs.len() == limit
        && let Some(last) = jobs.last()
    {
        text += &note(&format!("there may be more: add --after {}", last.id));
    }
    text
}

/// The time that matters in the job's state: its age, when its lease ends, or when it is due.
fn when(job: &JobInfo) -> String {
    match job.state {
        JobState::Ready | JobState::Blocked => format!("{} old", since(job.pushed_at)),
        JobState::Leased => job.lease_until.map_or_else(String::new, in_time),
        JobState::Delayed => job.due_at.map_or_else(String::new, in_time),
        _ => format!("{} ago", since(job.changed_at)),
    }
}

fn in_time(at: UnixTime) -> String {
    let left_ms = at.as_ms().saturating_sub(now_ms());
    if left_ms <= 0 { "now".to_owned() } else { format!("in {}", short(left_ms)) }
}

fn since(at: UnixTime) -> String {
    short(now_ms().saturating_sub(at.as_ms()).max(0))
}

fn now_ms() -> i64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.map_or(0, |now| i64::try_from(now.as_millis()).unwrap_or(i64::MAX))
}

/// A time as its two largest units: `4s`, `3m20s`, `2d5h`.
fn short(time_ms: i64) -> String {
    let seconds = time_ms / 1000;
    match seconds {
        seconds if seconds < 60 => format!("{seconds}s"),
        seconds if seconds < 3600 => format!("{}m{:02}s", seconds / 60, seconds % 60),
        seconds if seconds < 86_400 => format!("{}h{:02}m", seconds / 3600, seconds / 60 % 60),
        seconds => format!("{}d{}h", seconds / 86_400, seconds / 3600 % 24),
    }
}

/// Payload of a job in one line; for bytes that are no text, their number.
fn payload(payload: Option<&Payload>) -> String {
    match payload.map(|payload| std::str::from_utf8(payload.as_bytes())) {
        None => String::new(),
        Some(Ok(text)) => human::cut(text, WIDTH),
        Some(Err(_)) => {
            let bytes = payload.map_or(0, |payload| payload.as_bytes().len());
            format!("({} that are no text)", human::bytes(bytes as u64))
        }
    }
}

/// Columns below a heading; the last one is cut to fit.
fn table<const N: usize>(lines: &[[String; N]]) -> String {
    let widths: Vec<usize> =
        (0..N).map(|at| human::widest(lines.iter().map(|line| line[at].as_str()))).collect();
    let before: usize = widths[..N - 1].iter().map(|width| width + 2).sum();
    let mut text = String::new();
    for (number, line) in lines.iter().enumerate() {
        let mut row = String::new();
        for (cell, width) in line.iter().zip(&widths).take(N - 1) {
            let is_number = cell.starts_with(|it: char| it.is_ascii_digit() || it == '-')
                && cell.chars().all(|it| it.is_ascii_digit() || "-./,".contains(it));
            row += &if is_number { human::right(cell, *width) } else { human::left(cell, *width) };
            row += "  ";
        }
        let room = WIDTH.saturating_sub(INDENT.len() + before).max(8);
        row += &human::cut(&line[N - 1], room);
        let row = row.trim_end();
        let row = if number == 0 { styled(FAINT, row) } else { row.to_owned() };
        text += &format!("{INDENT}{row}\n");
    }
    text
}

/// All about one job.
pub fn of_job(job: &JobInfo, history: &[Attempt]) -> String {
    let mut text = format!(
        "{} of {}: {}\n\n",
        styled(STRONG, &format!("job {}", job.id)),
        styled(STRONG, &human::printable(&job.queue)),
        job.state
    );
    let line = |name: &str, says: String| [name.to_owned(), says, String::new()];
    let time = |at| format!("{} ({})", iso(at), either_way(at));
    let mut lines = vec![
        line("payload", payload(job.payload.as_ref())),
        line("pushed", time(job.pushed_at)),
        line("attempts", format!("{} of {}", job.attempts, job.attempts_max)),
        line("priority", job.priority.to_string()),
    ];
    let times = [
        ("due", job.due_at.filter(|_| job.state == JobState::Delayed)),
        ("lease ends", job.lease_until),
        ("expires", job.expires_at),
        ("kept until", job.kept_until),
    ];
    lines.extend(times.into_iter().filter_map(|(name, at)| Some(line(name, time(at?)))));
    let token = job.token.map(|token| token.to_string());
    let texts = [
        ("token", token.as_deref()),
        ("group", job.group.as_deref()),
        ("unique key", job.unique_key.as_deref()),
        ("correlation", job.correlation_id.as_deref()),
        ("metadata", job.metadata.as_deref()),
        ("worker", job.worker.as_deref()),
        ("error", job.error.as_deref()),
    ];
    let shown = |text: &str| human::cut(text, 10 * WIDTH);
    lines.extend(texts.into_iter().filter_map(|(name, text)| Some(line(name, shown(text?)))));
    if job.result.is_some() {
        lines.push(line("result", payload(job.result.as_ref())));
    }
    text += &facts(&lines);
    text + &attempts(history)
}

/// Number of attempts that are shown, the last ones.
const ATTEMPTS_SHOWN_MAX: usize = 20;

fn attempts(history: &[Attempt]) -> String {
    if history.is_empty() {
        return String::new();
    }
    let head = ["claim", "outcome", "ended", "took", "worker", "error"];
    let mut lines = vec![head.map(str::to_owned)];
    let left_out = history.len().saturating_sub(ATTEMPTS_SHOWN_MAX);
    lines.extend(history[left_out..].iter().map(|attempt| {
        let took = attempt.ended_at.zip(attempt.claimed_at);
        [
            attempt.claim.to_string(),
            attempt.outcome.to_string(),
            attempt.ended_at.map_or_else(|| "-".to_owned(), iso),
            took.map_or_else(
                || "-".to_owned(),
                |(end, start)| milliseconds(end.as_ms().saturating_sub(start.as_ms()).max(0)),
            ),
            human::cut(attempt.worker.as_deref().unwrap_or("-"), 20),
            attempt.error.clone().unwrap_or_default(),
        ]
    }));
    let left_out = match left_out {
        0 => String::new(),
        count => {
            format!("{} before: see --json\n", human::counted(count as u64, "attempt", "attempts"))
        }
    };
    format!("\n{left_out}{}", table(&lines))
}

fn milliseconds(time_ms: i64) -> String {
    whole_ms(Duration::from_millis(time_ms.unsigned_abs()))
}

/// A time that is known to the millisecond.
fn whole_ms(time: Duration) -> String {
    if time.is_zero() { "0 ms".to_owned() } else { human::duration(time) }
}

/// Time in UTC, to the second.
fn iso(at: UnixTime) -> String {
    let at_ms = at.as_ms();
    let time = jiff::Timestamp::from_millisecond(at_ms.saturating_sub(at_ms.rem_euclid(1000)));
    time.map_or_else(|_| "out of range".to_owned(), |time| time.to_string())
}

fn either_way(at: UnixTime) -> String {
    if at.as_ms() > now_ms() { in_time(at) } else { format!("{} ago", since(at)) }
}

/// Statistics of queues. Those of a cluster have no rates.
pub fn of_queues(all: &[QueueStats], has_rates: bool) -> String {
    if all.is_empty() {
        return "no queues\n".to_owned();
    }
    let text = if has_rates { of_queue } else { of_contents };
    let texts: Vec<String> = all.iter().map(text).collect();
    texts.join("\n")
}

fn of_queue(stats: &QueueStats) -> String {
    let mut text = of_contents(stats);
    let rates = &stats.per_second_last_minute;
    text += &format!(
        "{INDENT}{}\n",
        styled(
            FAINT,
            &format!(
                "last minute, a second: {} pushed, {} acked, {} retried, {} dead",
                rate(rates.pushed),
                rate(rates.acked),
                rate(rates.retried),
                rate(rates.dead)
            )
        )
    );
    if stats.run.count > 0 {
        let (wait, run) = (&stats.wait, &stats.run);
        let times = format!(
            "last hour: waited {} (99 %: {}), ran {} (99 %: {})",
            whole_ms(wait.p50),
            whole_ms(wait.p99),
            whole_ms(run.p50),
            whole_ms(run.p99)
        );
        text += &format!("{INDENT}{}\n", styled(FAINT, &times));
    }
    text
}

/// The contents of a queue: jobs by state, and their ages.
fn of_contents(stats: &QueueStats) -> String {
    let paused = if stats.is_paused { ", paused" } else { "" };
    let name = styled(STRONG, &human::printable(&stats.queue));
    let mut text = format!("{name}{paused}\n");
    let jobs = &stats.jobs;
    let age = |age: Option<Duration>, what: &str| {
        let time = |age| format!("the oldest {what} {}", human::duration(age));
        age.map_or_else(String::new, time)
    };
    let line = |name: &str, jobs: u64, rest: String| [name.to_owned(), human::count(jobs), rest];
    text += &facts(&[
        line("ready", jobs.ready, age(stats.oldest_ready, "waits for")),
        line("leased", jobs.leased, age(stats.oldest_lease, "runs for")),
        line("delayed", jobs.delayed, stats.next_due.map_or_else(String::new, in_time)),
        line("blocked", jobs.blocked, String::new()),
        line("done", jobs.done, String::new()),
        line("dead", jobs.dead, String::new()),
    ]);
    text
}

/// A rate that may be below one.
fn rate(per_second: f64) -> String {
    if per_second > 0.0 && per_second < 9.95 {
        format!("{per_second:.1}")
    } else {
        human::rate(per_second)
    }
}

/// One queue, for a log.
pub fn of_queue_in_a_line(stats: &QueueStats, has_rates: bool) -> String {
    let jobs: Vec<String> =
        stats.jobs.named().iter().map(|(name, jobs)| format!("{name} {jobs}")).collect();
    let per_second = &stats.per_second_last_minute;
    let (pushed, acked) = (rate(per_second.pushed), rate(per_second.acked));
    let rates =
        if has_rates { format!("; {pushed} pushed/s, {acked} acked/s") } else { String::new() };
    let name = human::printable(&stats.queue);
    format!("{} {name}: {}{rates}\n", iso(stats.now), jobs.join(", "))
}

/// Statistics as [`of_queues`] shows them, each with a curve of the jobs that were open.
pub fn of_queues_over_time(
    all: &[QueueStats],
    has_rates: bool,
    past: &mut BTreeMap<String, Vec<u64>>,
) -> String {
    let mut text = of_queues(all, has_rates);
    for stats in all {
        let Some(open) = past.get_mut(&stats.queue) else { continue };
        let too_many = open.len().saturating_sub(CURVE_WIDTH);
        open.drain(..too_many);
        let name = human::cut(&stats.queue, 20);
        text +=
            &format!("{INDENT}{} {name}: {} open\n", curve(open), human::count(stats.jobs.open()));
    }
    text
}

/// As [`of_queues_over_time`], in no more lines than a terminal of this many rows and columns
/// can draw anew: a line for each queue, and as many of them as fit, where all is too much.
pub fn of_queues_within(
    all: &[QueueStats],
    has_rates: bool,
    past: &mut BTreeMap<String, Vec<u64>>,
    size: Option<(u16, u16)>,
) -> String {
    let whole = of_queues_over_time(all, has_rates, past);
    let Some((rows, columns)) = size else { return whole };
    // The cursor stands in the line behind the last one.
    let lines_max = usize::from(rows).saturating_sub(1).max(1);
    let whole = within(&whole, columns);
    if whole.lines().count() <= lines_max {
        return whole;
    }
    let line = |stats: &QueueStats| {
        let open = past.get(&stats.queue).map_or(&[][..], |open| open);
        let newest = &open[open.len().saturating_sub(CURVE_WIDTH / 4)..];
        let (name, jobs) = (human::cut(&stats.queue, 20), &stats.jobs);
        let numbers = [(jobs.ready, "ready"), (jobs.leased, "leased"), (jobs.dead, "dead")];
        let numbers = numbers.map(|(jobs, what)| format!("{} {what}", human::count(jobs)));
        format!(
            "{INDENT}{} {}  {}\n",
            human::left(&curve(newest), CURVE_WIDTH / 4),
            human::left(&name, 20),
            numbers.join(", ")
        )
    };
    let shown = if all.len() <= lines_max { all.len() } else { lines_max.saturating_sub(1) };
    let mut text: String = all[..shown].iter().map(line).collect();
    if shown < all.len() {
        let more = human::counted((all.len() - shown) as u64, "queue", "queues");
        text += &format!("{INDENT}… and {more}; name one to see it alone\n");
    }
    within(&text, columns)
}

/// The lines cut where the terminal would break them.
fn within(text: &str, columns: u16) -> String {
    let cut = |line: &str| format!("{}\n", console::truncate_str(line, columns.into(), "…"));
    text.lines().map(cut).collect()
}

fn curve(numbers: &[u64]) -> String {
    const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    let most = numbers.iter().copied().max().unwrap_or(0).max(1);
    numbers.iter().map(|number| BARS[(number * 7 / most) as usize]).collect()
}

/// Settings of a queue.
pub fn of_queue_settings(name: &str, settings: &Settings) -> String {
    let backoff = &settings.backoff;
    let or_none = |text: Option<String>| text.unwrap_or_else(|| "none".to_owned());
    let rate =
        |rate: Option<Rate>| or_none(rate.map(|rate| format!("{}/{}", rate.jobs, time(rate.per))));
    let words = format!(
        "{},{},{},{}",
        time(backoff.first),
        backoff.factor,
        time(backoff.max),
        backoff.jitter
    );
    let lines = [
        ("--lease", time(settings.lease)),
        ("--attempts", settings.attempts_max.to_string()),
        ("--backoff", words),
        ("--keep-done", time(settings.keep_done)),
        ("--keep-dead", or_none(settings.keep_dead.map(time))),
        ("--concurrency", or_none(settings.concurrency.map(|jobs| jobs.to_string()))),
        ("--group-concurrency", settings.group_concurrency.to_string()),
        ("--rate", rate(settings.rate)),
        ("--group-rate", rate(settings.group_rate)),
    ];
    let width = human::widest(lines.iter().map(|(name, _)| *name));
    let mut text = format!("{}\n", styled(STRONG, &human::printable(name)));
    for (name, value) in lines {
        text += &format!("{INDENT}{}  {value}\n", styled(FAINT, &human::left(name, width)));
    }
    text
}

/// Duration in the form that the flags take: `1h30m`.
fn time(time: Duration) -> String {
    let units = [("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1_000), ("ms", 1)];
    let mut left = time.as_millis();
    let mut text = String::new();
    for (unit, size_ms) in units {
        if left >= size_ms {
            text += &format!("{}{unit}", left / size_ms);
            left %= size_ms;
        }
    }
    if text.is_empty() { "0s".to_owned() } else { text }
}

/// Schedules, as a table.
pub fn of_schedules(schedules: &[(&str, &ScheduleInfo)], with_queues: bool) -> String {
    if schedules.is_empty() {
        return "no schedules\n".to_owned();
    }
    let head = ["queue", "name", "cron", "zone", "next", "last"];
    let mut lines = vec![head.map(str::to_owned)];
    lines.extend(schedules.iter().map(|(queue, schedule)| {
        let next = schedule.next_at.map_or_else(|| "never".to_owned(), iso);
        [
            human::cut(queue, 20),
            human::cut(&schedule.name, 30),
            human::cut(&schedule.cron, 30),
            schedule.timezone.clone(),
            next,
            schedule.last_at.map_or_else(|| "-".to_owned(), iso),
        ]
    }));
    let mut text = if with_queues {
        table(&lines)
    } else {
        let without: Vec<[String; 5]> =
            lines.into_iter().map(|[_, a, b, c, d, e]| [a, b, c, d, e]).collect();
        table(&without)
    };
    for (_, schedule) in schedules {
        if let Some(reason) = &schedule.disabled_because {
            let (name, reason) = (human::printable(&schedule.name), human::printable(reason));
            text += &note(&format!("{name} is disabled: {reason}"));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_written_as_the_flags_take_them() {
        let texts = [0, 250, 30_000, 5_400_000, 604_800_000, 90_061_001].map(Duration::from_millis);
        assert_eq!(texts.map(time), ["0s", "250ms", "30s", "1h30m", "7d", "1d1h1m1s1ms"]);
        assert_eq!([0, 59_999, 200_000, 7_500_000, 190_000_000].map(short), {
            ["0s", "59s", "3m20s", "2h05m", "2d4h"]
        });
        assert_eq!(iso(UnixTime::from_ms(1_500)), "1970-01-01T00:00:01Z");
        assert_eq!(iso(UnixTime::from_ms(i64::MIN + 1000)), "out of range");
    }

    #[test]
    fn queues_are_drawn_within_the_terminal_however_many_there_are() {
        for queues in [1, 2, 4, 30] {
            let all: Vec<QueueStats> = (0..queues)
                .map(|number| {
                    let mut stats = QueueStats::default();
                    stats.queue = format!("a queue with quite a long name {number}");
                    stats
                })
                .collect();
            let mut past: BTreeMap<_, _> =
                all.iter().map(|it| (it.queue.clone(), vec![1; 50])).collect();
            for (rows, columns) in [(24, 80), (24, 30), (10, 80), (2, 80), (1, 10)] {
                let text = of_queues_within(&all, true, &mut past, Some((rows, columns)));
                let lines = text.lines().count();
                assert!(lines < usize::from(rows).max(2), "{queues}, {rows} rows: {text}");
                let widest = text.lines().map(console::measure_text_width).max().unwrap_or(0);
                assert!(widest <= columns.into(), "{queues}, {columns} columns: {text}");
            }
            let all_lines = of_queues_within(&all, true, &mut past, None);
            assert_eq!(all_lines, of_queues_over_time(&all, true, &mut past));
        }
    }

    #[test]
    fn a_curve_is_as_high_as_its_largest_number() {
        assert_eq!(curve(&[0, 1, 4, 8]), "▁▁▄█");
        assert_eq!(curve(&[0, 0]), "▁▁");
        assert_eq!(curve(&[u64::MAX / 8]), "█");
    }

    #[test]
    fn payloads_cannot_steer_the_terminal() {
        let shown = |bytes: &[u8]| payload(Some(&Payload::bytes(bytes)));
        assert_eq!(shown(b"a\x1b[2J\n\0"), "a\\u{1b}[2J\\n\\u{0}");
        assert_eq!(shown(&[0xff; 3]), "(3 B that are no text)");
    }
}
