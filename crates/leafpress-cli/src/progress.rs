//! Progress bars and spinners on the terminal.
//!
//! Drawn on stderr, only where that is a terminal, only after half a second
//! (a short load should not flicker), and cleared at the end.
//!
//! Must never: write a byte where stderr is no terminal.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressState, ProgressStyle};
use leafpress::load::Progress;
use leafpress_bench::options::ProgressEvent;

use crate::human;
use crate::output;

const QUIET_FOR: Duration = Duration::from_millis(500);
const BETWEEN_TICKS: Duration = Duration::from_millis(100);
const BETWEEN_UPDATES_MS: u64 = 50;
/// The longest time left that is shown: a hundred days.
const TIME_MAX_S: f64 = 100.0 * 86_400.0;

const WITH_END: &str = "{prefix} {wide_bar} {done_of}{all}{rate}{msg}{left}";
const WITHOUT_END: &str = "{spinner} {prefix} {done}{rate}{msg}, {time}";
const RUNS: &str = "{wide_bar} {pos}/{len}{msg}\n{spinner} {prefix} {time}";
const WAITING: &str = "{spinner} {prefix} {time}";

/// The bar of a load, fed by the loader's callback from any thread.
pub struct LoadBar {
    started: Instant,
    last_update_ms: AtomicU64,
    is_reading: AtomicBool,
    /// A message has told that a cluster does not answer.
    #[cfg(feature = "rqlite")]
    waits: AtomicBool,
    bar: OnceLock<ProgressBar>,
}

impl LoadBar {
    /// A bar that is yet to be seen.
    pub fn new() -> Self {
        Self {
            started: Instant::now(),
            last_update_ms: AtomicU64::new(0),
            is_reading: AtomicBool::new(true),
            #[cfg(feature = "rqlite")]
            waits: AtomicBool::new(false),
            bar: OnceLock::new(),
        }
    }

    /// Takes in how far the load is.
    pub fn update(&self, progress: &Progress) {
        let now = self.started.elapsed();
        let now_ms = now.as_millis() as u64;
        let last_ms = self.last_update_ms.load(Ordering::Relaxed);
        if now < QUIET_FOR || now_ms < last_ms + BETWEEN_UPDATES_MS {
            return;
        }
        self.last_update_ms.store(now_ms, Ordering::Relaxed);
        let new = || new_bar(progress.bytes_total, now).with_prefix(progress.stage);
        let bar = self.bar.get_or_init(new);
        let is_reading = is_reading(progress);
        // Each setter may draw, and the position is what is looked at.
        if is_reading {
            if progress.bytes_read < bar.position() {
                // The next pass, or the next input, begins.
                bar.reset_elapsed();
            }
            bar.set_position(progress.bytes_read);
            if let Some(bytes_total) = progress.bytes_total.filter(|it| bar.length() != Some(*it)) {
                bar.set_length(bytes_total);
            }
            if progress.rows > 0 {
                bar.set_message(format!(", {}", human::counted(progress.rows, "row", "rows")));
            }
        }
        bar.set_prefix(progress.stage);
        if self.is_reading.swap(is_reading, Ordering::Relaxed) != is_reading {
            bar.set_style(style(template(progress.bytes_total, is_reading)));
        }
        bar.tick();
    }

    /// Takes in how many rows of a pressed file were sent.
    #[cfg(feature = "rqlite")]
    pub fn send(&self, rows: u64, all: u64, is_silent: bool) {
        self.waits.store(false, Ordering::Relaxed);
        self.say(format!("sending: {rows} of {}", human::counted(all, "row", "rows")), is_silent);
    }

    /// Takes in that a cluster does not answer. Where there is no bar, one message tells of it, unless the load
    /// `is_quiet`.
    #[cfg(feature = "rqlite")]
    pub fn wait(&self, wait: &leafpress_rqlite::load::Wait<'_>, is_silent: bool, is_quiet: bool) {
        // 2 s of 30 s. An index, or the last transaction, has 30 minutes, and may take some of them.
        if wait.elapsed < (wait.elapsed + wait.left) / 15 {
            return;
        }
        let (elapsed, left) = (human::duration(wait.elapsed), human::duration(wait.left));
        let reason = human::printable(wait.reason);
        let told = format!(
            "the cluster has not answered for {elapsed} ({reason}): trying again for {left}"
        );
        if is_wanted(is_silent) {
            self.say(told, is_silent);
            if let Some(bar) = self.bar.get() {
                bar.enable_steady_tick(BETWEEN_TICKS);
            }
        } else if !is_quiet && !self.waits.swap(true, Ordering::Relaxed) {
            output::print_warning(&told);
        }
    }

    #[cfg(feature = "rqlite")]
    fn say(&self, doing: String, is_silent: bool) {
        let now = self.started.elapsed();
        if now < QUIET_FOR || !is_wanted(is_silent) {
            return;
        }
        let bar = self.bar.get_or_init(|| new_bar(None, now));
        bar.set_style(style(WAITING));
        bar.set_prefix(doing);
        bar.tick();
    }

    /// Takes the bar off the terminal.
    pub fn clear(&self) {
        if let Some(bar) = self.bar.get() {
            bar.finish_and_clear();
        }
    }
}

/// Returns true while the input is being read. The stages after it do not know how far
/// they are.
fn is_reading(progress: &Progress) -> bool {
    !matches!(progress.stage, "sorting" | "moving in" | "syncing")
        && progress.bytes_total.is_none_or(|total| progress.bytes_read < total)
}

fn template(bytes_total: Option<u64>, is_reading: bool) -> &'static str {
    match (is_reading, bytes_total) {
        (false, _) => WAITING,
        (true, Some(_)) => WITH_END,
        (true, None) => WITHOUT_END,
    }
}

fn new_bar(bytes_total: Option<u64>, elapsed: Duration) -> ProgressBar {
    let bar = match bytes_total {
        Some(bytes_total) => ProgressBar::new(bytes_total),
        None => ProgressBar::new_spinner(),
    };
    let bar = bar.with_elapsed(elapsed);
    bar.set_style(style(template(bytes_total, true)));
    bar
}

/// A sign of life for work that does not know how far it is.
pub struct Spinner(ProgressBar);

impl Spinner {
    /// Starts a spinner; a hidden one unless `is_shown`.
    pub fn start(is_shown: bool, doing: &str) -> Self {
        let doing = human::printable(doing);
        let bar = if is_shown { ProgressBar::new_spinner() } else { ProgressBar::hidden() };
        bar.set_style(style(WAITING));
        bar.set_prefix(doing);
        if is_shown {
            // The first tick is drawn at once, so wait in the background.
            let later = bar.downgrade();
            // Without the thread nothing is drawn.
            let _ = std::thread::Builder::new().spawn(move || {
                std::thread::sleep(QUIET_FOR);
                while let Some(bar) = later.upgrade().filter(|bar| !bar.is_finished()) {
                    bar.tick();
                    drop(bar);
                    std::thread::sleep(BETWEEN_TICKS);
                }
            });
        }
        Self(bar)
    }
}

impl Drop for Spinner {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}

/// Progress of an experiment: a bar while its input is made, then a line for
/// each rung that is done and one for the rung that runs.
pub struct BenchProgress {
    bar: ProgressBar,
}

/// A rung is measured meanwhile, so little is drawn.
const BETWEEN_BENCH_TICKS: Duration = Duration::from_secs(1);

impl BenchProgress {
    /// Draws nothing unless `is_shown`.
    pub fn new(is_shown: bool) -> Self {
        let bar = if is_shown { ProgressBar::new_spinner() } else { ProgressBar::hidden() };
        bar.set_style(style(WAITING));
        Self { bar }
    }

    /// Takes in what is going on.
    pub fn update(&mut self, event: &ProgressEvent<'_>) {
        match event {
            ProgressEvent::Generating { bytes, bytes_total } => {
                if self.bar.length().is_none() {
                    self.bar.set_length(*bytes_total);
                    self.bar.set_style(style(WITH_END));
                    self.bar.set_prefix("making the CSV file");
                }
                self.bar.set_position(*bytes);
            }
            ProgressEvent::Preparing { name } => {
                self.bar.set_style(style(WAITING));
                self.bar.set_prefix(format!("preparing: {name}"));
            }
            ProgressEvent::Running { name, round, rounds_count, runs: (runs, done), left } => {
                self.bar.set_style(style(RUNS));
                self.bar.set_length(*runs as u64);
                self.bar.set_position(*done as u64);
                self.bar.reset_elapsed();
                self.bar.enable_steady_tick(BETWEEN_BENCH_TICKS);
                let left = left.map(|left| format!(", about {} left", clock(left)));
                self.bar.set_message(left.unwrap_or_default());
                self.bar.set_prefix(format!("{name} ({round} of {rounds_count})"));
            }
            ProgressEvent::Checking { name, wall_s } => {
                let time = human::time(*wall_s);
                self.bar.println(format!("{}  {name}", human::right(&time, 11)));
                self.bar.set_prefix(format!("checking: {name}"));
            }
            ProgressEvent::Compared { name, ratio } => {
                let value = format!("{:.1} times", ratio.value);
                self.bar.println(format!("{}  {name}", human::right(&value, 11)));
            }
        }
    }
}

impl Drop for BenchProgress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

/// A load's bar is shown to people who watch and did not ask for silence.
pub fn is_wanted(is_silent: bool) -> bool {
    !is_silent && output::stderr_is_terminal()
}

fn style(template: &str) -> ProgressStyle {
    ProgressStyle::with_template(template)
        .unwrap_or_else(|_| ProgressStyle::default_spinner())
        .progress_chars("━╸─")
        .with_key("done", |state: &ProgressState, out: &mut dyn std::fmt::Write| {
            let _ = out.write_str(&human::bytes(state.pos()));
        })
        .with_key("done_of", |state: &ProgressState, out: &mut dyn std::fmt::Write| {
            if state.pos() > 0 {
                let _ = write!(out, "{} of ", human::bytes(state.pos()));
            }
        })
        .with_key("all", |state: &ProgressState, out: &mut dyn std::fmt::Write| {
            let _ = out.write_str(&human::bytes(state.len().unwrap_or(0)));
        })
        .with_key("rate", |state: &ProgressState, out: &mut dyn std::fmt::Write| {
            if let Some(rate) = bytes_per_s(state) {
                let _ = write!(out, ", {}/s", human::bytes(rate as u64));
            }
        })
        .with_key("left", |state: &ProgressState, out: &mut dyn std::fmt::Write| {
            if let Some(rate) = bytes_per_s(state) {
                let left_bytes = state.len().unwrap_or(0).saturating_sub(state.pos());
                let left = Duration::from_secs_f64((left_bytes as f64 / rate).min(TIME_MAX_S));
                let _ = write!(out, ", {} left", clock(left));
            }
        })
        .with_key("time", |state: &ProgressState, out: &mut dyn std::fmt::Write| {
            let _ = out.write_str(&clock(state.elapsed()));
        })
}

/// The mean rate since the beginning; `None` where nothing tells it yet. The bar's own estimate
/// takes all that was done before it is first drawn for the work of a moment.
fn bytes_per_s(state: &ProgressState) -> Option<f64> {
    rate(state.pos(), state.elapsed())
}

fn rate(bytes: u64, elapsed: Duration) -> Option<f64> {
    (bytes > 0 && elapsed >= QUIET_FOR).then(|| bytes as f64 / elapsed.as_secs_f64())
}

/// A running time, in one width: `0:07`, `1:02:03`.
fn clock(time: Duration) -> String {
    let seconds = time.as_secs();
    let (hours, minutes, seconds) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    if hours > 0 {
        format!("{hours}:{minutes:02}:{seconds:02}")
    } else {
        format!("{minutes}:{seconds:02}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_template_is_valid() {
        for template in [WITH_END, WITHOUT_END, RUNS, WAITING] {
            assert!(ProgressStyle::with_template(template).is_ok(), "{template}");
        }
    }

    #[test]
    fn the_bar_ends_with_the_input() {
        let progress = |stage, bytes_read, bytes_total| {
            let mut progress = Progress::default();
            (progress.stage, progress.bytes_read) = (stage, bytes_read);
            progress.bytes_total = bytes_total;
            is_reading(&progress)
        };
        assert!(progress("pressing", 3, Some(4)) && progress("inserting", 3, None));
        assert!(!progress("inserting", 4, Some(4)) && !progress("sorting", 3, Some(4)));
        assert_eq!(template(None, true), WITHOUT_END);
        assert_eq!([template(Some(4), true), template(Some(4), false)], [WITH_END, WAITING]);
    }

    #[test]
    fn a_rate_is_shown_once_there_is_one() {
        assert_eq!(rate(0, Duration::from_secs(1)), None);
        assert_eq!(rate(1_000_000, Duration::from_micros(7)), None);
        assert_eq!(rate(1_000_000, Duration::from_secs(2)), Some(500_000.0));
    }

    #[test]
    fn the_clock_counts_hours_only_where_there_are_some() {
        let times = [7, 125, 3723].map(|seconds| clock(Duration::from_secs(seconds)));
        assert_eq!(times, ["0:07", "2:05", "1:02:03"]);
    }
}
