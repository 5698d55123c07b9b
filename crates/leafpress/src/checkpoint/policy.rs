//! Policy of the checkpointer: numbers in, one step out.
//!
//! Knows neither SQLite nor threads nor the clock, so that every rule can be tested by giving it
//! numbers. [`Policy::decide`] is asked before each step, and [`Policy::after`] gets its outcome.
//! The invariants P1 to P6 that both keep stand at the top of the [module](super).

use std::time::Duration;

use super::gate::{Look, NEVER};

/// A rest that is copied with the writer held: two syncs cost more than this many pages.
const SMALL_REST_FRAMES: u32 = 64;
/// Passes beside the writer before it is held; each one halves the rest or is the last.
const APPROACH_PASSES_MAX: u32 = 8;
/// Slices that the writer may be ahead of a pass near the bound. With fewer it waits for passes on
/// a disk with slow syncs; with more a catch-up has more left to copy.
const AHEAD_SLICES: u32 = 4;
/// A pass of this length tells a disk with slow syncs, of which a catch-up needs two more and the next
/// commit a third.
const SLOW_PASS: Duration = Duration::from_millis(10);
/// After a catch-up that failed the writer is let go for this many times as long as it was held.
const FREE_PER_HELD: u32 = 20;
/// An empty WAL is looked at this often: another process may have left something in it.
const LOOK_AGAIN_AFTER: Duration = Duration::from_secs(10);
/// First and longest pause after readers or another checkpointer stood in the way.
const OBSTRUCTED_PAUSE: (Duration, Duration) =
    (Duration::from_millis(2), Duration::from_millis(250));
/// First and longest pause after a catch-up or a truncation that readers stopped. Longer,
/// and a fast writer adds hundreds of megabytes after the reader has ended.
const GIVEN_UP_PAUSE: (Duration, Duration) = (Duration::from_millis(20), Duration::from_secs(1));
/// First and longest pause after an error.
const FAILED_PAUSE: (Duration, Duration) = (Duration::from_millis(10), Duration::from_secs(10));

/// The limits, in frames and times.
#[derive(Debug, Clone, Copy)]
pub(super) struct Thresholds {
    pub(super) slice_frames: u32,
    pub(super) bound_frames: u32,
    pub(super) catch_up_frames: u32,
    pub(super) pause_frames: u32,
    pub(super) pause: Duration,
    pub(super) idle: Duration,
    /// Time after which a snapshot that stops the copying is not waited for any more.
    pub(super) stays_after: Duration,
    pub(super) stuck_after: Duration,
}

/// The next step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    /// Nothing, until that moment (`None`: without an end) or until the WAL has that length.
    Sleep {
        /// Time of the next decision.
        until: Option<Duration>,
        /// Length of the WAL from which on to ask again.
        wake_at_frames: u32,
    },
    /// Copy the frames that can be copied, beside the writer.
    Pass,
    /// Copy the rest with the gate closed and wait until no reader uses the WAL, so that the next
    /// commit rewinds it.
    CatchUp {
        /// The WAL has outgrown its bound: cut the file too.
        cut: bool,
    },
    /// The writer pauses: copy the rest and cut the WAL to nothing, without waiting for a reader.
    Truncate,
}

/// Outcome of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Outcome {
    /// The three results of a checkpoint.
    Done {
        /// Another connection stood in the way.
        busy: bool,
        /// Frames in the WAL, and how many of them are copied; `None` if it was not to be known.
        frames: Option<(u32, u32)>,
    },
    /// The step was left out, as there was a commit in the last moment.
    Left,
    /// An error; nothing is lost, the frames stay in the WAL.
    Failed,
}

/// The place at which a checkpoint ended before the WAL's end.
///
/// Once is nothing: the writer's own transaction is a reader of the snapshot before it.
/// If it still ends at this frame after `stays_after`, the reader stays.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Obstruction {
    since: Duration,
    /// The frame that the oldest snapshot ends with.
    pinned_at: u32,
    stays: bool,
}

/// Decides what the checkpointer does next, from numbers alone.
#[derive(Debug)]
pub(super) struct Policy {
    thresholds: Thresholds,
    /// Frames in the WAL, as far as known.
    frames: u32,
    /// Number of them that are copied, as far as known.
    copied: u32,
    /// The WAL's length was never looked at; an earlier run may have left one.
    unknown: bool,
    /// The WAL file holds nothing.
    empty: bool,
    commits: u64,
    rewinds: u32,
    /// Time at which a checkpoint last told the state of the WAL.
    looked_at: Duration,
    /// Time of the last commit that was noticed, as far as it is known.
    committed_at: Duration,
    /// A snapshot stopped the copying.
    held_back: Option<Obstruction>,
    /// Catch-ups fail since then, because of any reader.
    given_up_since: Option<Duration>,
    /// A catch-up ended well with this many frames: the next commit must rewind.
    rewind_due: Option<u32>,
    in_a_row: Option<InARow>,
    /// Time at which the step that is under way was chosen.
    chosen_at: Duration,
    /// The last pass that copied something was a [`SLOW_PASS`].
    is_slow: bool,
    pass_pause: Pause,
    catch_up_pause: Pause,
    truncate_pause: Pause,
    failed_pause: Pause,
}

/// Passes with nothing between them.
#[derive(Debug, Clone, Copy)]
struct InARow {
    passes: u32,
    /// The rest when the last of them began.
    rest_before: u32,
}

/// A pause that doubles with each failure in a row.
#[derive(Debug)]
struct Pause {
    range: (Duration, Duration),
    failures: u32,
    over_at: Duration,
}

impl Pause {
    fn new(range: (Duration, Duration)) -> Self {
        Self { range, failures: 0, over_at: Duration::ZERO }
    }

    fn begin(&mut self, now: Duration, at_least: Duration) {
        let doubled = self.range.0.saturating_mul(1 << self.failures.min(16));
        self.over_at = now + doubled.min(self.range.1).max(at_least);
        self.failures += 1;
    }

    fn end(&mut self) {
        self.failures = 0;
        self.over_at = Duration::ZERO;
    }

    fn is_over(&self, now: Duration) -> bool {
        now >= self.over_at
    }
}

impl Policy {
    pub(super) fn new(thresholds: Thresholds) -> Self {
        Self {
            thresholds,
            frames: 0,
            copied: 0,
            unknown: true,
            empty: false,
            commits: 0,
            rewinds: 0,
            looked_at: Duration::ZERO,
            committed_at: Duration::ZERO,
            held_back: None,
            given_up_since: None,
            rewind_due: None,
            in_a_row: None,
            chosen_at: Duration::ZERO,
            is_slow: false,
            pass_pause: Pause::new(OBSTRUCTED_PAUSE),
            catch_up_pause: Pause::new(GIVEN_UP_PAUSE),
            truncate_pause: Pause::new(GIVEN_UP_PAUSE),
            failed_pause: Pause::new(FAILED_PAUSE),
        }
    }

    /// Number of frames in the WAL, and of those that are copied, as far as known.
    pub(super) fn frames(&self) -> (u32, u32) {
        (self.frames, self.copied)
    }

    /// The bound in frames.
    pub(super) fn bound_frames(&self) -> u32 {
        self.thresholds.bound_frames
    }

    /// The length from which on a catch-up is made. Where syncs are slow, it is three quarters of the
    /// bound: each catch-up holds all callers for three of them, so there should be few.
    fn catch_up_frames(&self) -> u32 {
        let Thresholds { catch_up_frames, bound_frames, .. } = self.thresholds;
        let late = if self.is_slow { bound_frames / 4 * 3 } else { 0 };
        catch_up_frames.max(late)
    }

    /// The length at which a commit should close the gate behind itself while `step` runs.
    ///
    /// Mostly the bound. Near the bound, during a pass, already the length at which the writer is
    /// [`AHEAD_SLICES`] ahead of the pass: else a writer that is faster than the disk is held while
    /// a long rest is copied. [`NEVER`] while a catch-up could not succeed or a pause is on (P4),
    /// and beyond the bound, where a pass may take seconds.
    pub(super) fn shut_at_frames(&self, step: Step, now: Duration) -> u32 {
        let Thresholds { slice_frames, bound_frames, .. } = self.thresholds;
        let beyond = self.frames >= bound_frames && self.frames > self.copied;
        let in_vain = self.reader_stays().is_some()
            || !self.failed_pause.is_over(now)
            || !self.catch_up_pause.is_over(now)
            || beyond;
        match step {
            _ if in_vain => NEVER,
            Step::Pass => {
                let ahead = self.frames.saturating_add(slice_frames.saturating_mul(AHEAD_SLICES));
                ahead.max(self.catch_up_frames()).min(bound_frames)
            }
            _ => bound_frames,
        }
    }

    /// Time for which the WAL has not been able to shrink, if it is longer than the alarm allows.
    pub(super) fn alarm(&self, now: Duration) -> Option<Duration> {
        let worth_it =
            self.frames >= self.thresholds.slice_frames.min(self.thresholds.bound_frames);
        let reader = self.reader_stays().map(|held| held.since);
        let since = reader.into_iter().chain(self.given_up_since);
        let lasted = now.checked_sub(since.min()?)?;
        (worth_it && lasted >= self.thresholds.stuck_after).then_some(lasted)
    }

    /// The next step, by the state of the gate at the moment `now`.
    pub(super) fn decide(&mut self, look: &Look, now: Duration) -> Step {
        self.notice(look, now);
        let rest = self.frames - self.copied;
        let step = self.choose(look, rest, now);
        self.chosen_at = now;
        self.in_a_row = (step == Step::Pass).then_some(InARow {
            passes: self.in_a_row.map_or(1, |row| row.passes.saturating_add(1)),
            rest_before: rest,
        });
        step
    }

    fn choose(&self, look: &Look, rest: u32, now: Duration) -> Step {
        if !self.failed_pause.is_over(now) {
            return Step::Sleep { until: Some(self.failed_pause.over_at), wake_at_frames: NEVER };
        }
        let out_of_date = self.empty && now >= self.looked_at + LOOK_AGAIN_AFTER;
        if self.unknown && self.commits == 0 || out_of_date {
            return Step::Pass;
        }
        if let Some(step) = self.near_the_bound(rest, look.shut, now) {
            return step;
        }
        let quiet = now.saturating_sub(self.committed_at);
        let Thresholds { slice_frames, pause, pause_frames, idle, .. } = self.thresholds;
        let pause_worth_it = quiet >= pause && self.frames >= pause_frames && rest > 0;
        if (rest >= slice_frames || pause_worth_it) && self.pass_pause.is_over(now) {
            return Step::Pass;
        }
        if quiet >= idle && !self.empty && self.truncate_pause.is_over(now) {
            return Step::Truncate;
        }
        self.sleep(rest, now)
    }

    fn notice(&mut self, look: &Look, now: Duration) {
        if look.commits != self.commits {
            self.commits = look.commits;
            self.frames = look.frames;
            self.committed_at = now.saturating_sub(look.quiet_for);
            self.empty = false;
            self.truncate_pause.end();
            let rewound = look.rewinds != self.rewinds;
            if self.rewind_due.take().is_some_and(|due| !rewound && self.frames > due) {
                // The catch-up was in vain: another process wrote or read in between.
                self.catch_up_pause.begin(now, Duration::ZERO);
            }
        }
        if look.rewinds != self.rewinds {
            self.rewinds = look.rewinds;
            self.copied = 0;
            self.held_back = None;
            self.given_up_since = None;
        }
        self.copied = self.copied.min(self.frames);
    }

    /// The way to a catch-up: passes beside the writer while they help, then the gate.
    fn near_the_bound(&self, rest: u32, shut: bool, now: Duration) -> Option<Step> {
        let near = self.frames >= self.catch_up_frames() && rest > 0;
        if !near || !self.catch_up_pause.is_over(now) {
            return None;
        }
        let bound_frames = self.thresholds.bound_frames;
        let at_the_bound = shut && self.frames >= bound_frames;
        // P3: no catch-up while a snapshot is known to be in the way.
        let in_vain = self.reader_stays().is_some();
        let helps = in_vain || !at_the_bound && self.pass_helps(rest);
        if rest > SMALL_REST_FRAMES && helps {
            return self.pass_pause.is_over(now).then_some(Step::Pass);
        }
        let cut = self.frames > bound_frames.saturating_mul(2);
        Some(Step::CatchUp { cut })
    }

    /// Returns true if one more pass would leave less to copy with the writer held.
    fn pass_helps(&self, rest: u32) -> bool {
        let Some(InARow { passes, rest_before }) = self.in_a_row else { return true };
        let long = self.thresholds.slice_frames.saturating_mul(AHEAD_SLICES);
        let beyond = self.frames >= self.thresholds.bound_frames;
        passes < APPROACH_PASSES_MAX && (rest <= rest_before / 2 || rest > long && !beyond)
    }

    fn sleep(&self, rest: u32, now: Duration) -> Step {
        let Thresholds { slice_frames, pause, pause_frames, idle, .. } = self.thresholds;
        let catch_up_frames = self.catch_up_frames();
        let mut wake_at_frames = self.copied.saturating_add(slice_frames);
        if self.catch_up_pause.is_over(now) {
            wake_at_frames = wake_at_frames.min(catch_up_frames.max(self.frames + 1));
        }
        if !self.pass_pause.is_over(now) {
            wake_at_frames = NEVER;
        }
        let mut moments = Vec::with_capacity(4);
        if rest >= slice_frames || self.held_back.is_some() {
            moments.push(self.pass_pause.over_at);
        }
        if self.frames >= catch_up_frames && rest > 0 {
            moments.push(self.catch_up_pause.over_at);
        }
        if self.frames >= pause_frames && rest > 0 {
            moments.push((self.committed_at + pause).max(self.pass_pause.over_at));
        }
        if self.empty {
            wake_at_frames = 1;
            moments.push(self.looked_at + LOOK_AGAIN_AFTER);
        } else {
            moments.push((self.committed_at + idle).max(self.truncate_pause.over_at));
        }
        let until = moments.into_iter().filter(|&moment| moment > now).min();
        Step::Sleep { until, wake_at_frames }
    }

    /// Takes in the outcome of a step that began with `look` and held the writer for `held`.
    pub(super) fn after(&mut self, step: Step, outcome: Outcome, held: Duration, now: Duration) {
        self.unknown = false;
        self.looked_at = now;
        let (busy, frames) = match outcome {
            Outcome::Failed => return self.failed_pause.begin(now, held * FREE_PER_HELD),
            Outcome::Left => return self.truncate_pause.begin(now, Duration::ZERO),
            Outcome::Done { busy, frames } => (busy, frames),
        };
        self.failed_pause.end();
        let mut whole = false;
        if let Some((frames, copied)) = frames {
            if step == Step::Pass && copied > self.copied {
                self.is_slow = now.saturating_sub(self.chosen_at) >= SLOW_PASS;
            }
            (self.frames, self.copied) = (frames.max(copied), copied);
            self.empty &= frames == 0;
            self.note_readers(frames, copied, now);
            whole = !busy && copied >= frames;
        } else {
            // Another checkpoint is under way: this one told nothing.
            self.in_a_row = None;
            self.pass_pause.begin(now, Duration::ZERO);
        }
        match step {
            Step::Pass | Step::Sleep { .. } => {}
            Step::CatchUp { cut } if whole => {
                self.catch_up_pause.end();
                self.given_up_since = None;
                self.empty = cut;
                self.rewind_due = (!cut).then_some(self.frames);
            }
            Step::CatchUp { .. } => {
                self.given_up_since.get_or_insert(now);
                self.catch_up_pause.begin(now, held * FREE_PER_HELD);
            }
            Step::Truncate if whole => {
                (self.frames, self.copied, self.empty) = (0, 0, true);
                self.rewind_due = None;
                self.given_up_since = None;
                self.truncate_pause.end();
                self.catch_up_pause.end();
            }
            Step::Truncate => {
                self.given_up_since.get_or_insert(now);
                self.truncate_pause.begin(now, Duration::ZERO);
            }
        }
    }

    fn note_readers(&mut self, frames: u32, copied: u32, now: Duration) {
        if copied >= frames {
            self.held_back = None;
            self.pass_pause.end();
            return;
        }
        match &mut self.held_back {
            Some(held) if held.pinned_at == copied => {
                held.stays = now.saturating_sub(held.since) >= self.thresholds.stays_after;
                self.pass_pause.begin(now, Duration::ZERO);
            }
            moved_on => {
                *moved_on = Some(Obstruction { since: now, pinned_at: copied, stays: false });
                self.pass_pause.end();
            }
        }
    }

    fn reader_stays(&self) -> Option<Obstruction> {
        self.held_back.filter(|held| held.stays)
    }
}
