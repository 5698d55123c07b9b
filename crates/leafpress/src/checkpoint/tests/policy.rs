//! The policy against a small model of a WAL, its writer, its readers and a disk.
//!
//! The model keeps SQLite's rules (what a checkpoint may copy, when a WAL rewinds) and
//! the gate's; time is a number in it. Checked in random lives of a database, by the
//! names that the [module](crate::checkpoint) gives them:
//!
//! - P2: the gate closes only near the bound, or when the writer pauses
//! - P3: not for a catch-up while a snapshot is known to stand in the way
//! - P4: no spin, and a writer held in vain goes free for 20 times as long
//! - P5: the WAL stays within its bound as long as nothing stands in the way
//! - P6: at the end, without writer and reader, it comes down to nothing

use std::time::Duration;

use proptest::prelude::*;

use crate::checkpoint::gate::Look;
use crate::checkpoint::policy::{Outcome, Policy, Step, Thresholds};

const THRESHOLDS: Thresholds = Thresholds {
    slice_frames: 100,
    bound_frames: 2_000,
    catch_up_frames: 1_500,
    pause_frames: 500,
    pause: Duration::from_millis(20),
    idle: Duration::from_millis(500),
    stays_after: WAIT_MAX,
    stuck_after: Duration::from_secs(2),
};
const WAIT_MAX: Duration = Duration::from_millis(15);

/// A stretch of a database's life.
#[derive(Debug, Clone)]
struct Phase {
    lasts: Duration,
    /// From one commit to the next; `None`: there is none.
    commit_gap: Option<Duration>,
    frames_per_commit: u32,
    sync: Duration,
    /// A reader begins at the phase's start and ends with it.
    long_reader: bool,
    failing: Failing,
}

/// Failure in a phase.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Failing {
    Nothing,
    /// Another process has the checkpoint lock.
    Busy,
    /// The disk answers with errors.
    Errors,
}

/// The model.
struct World {
    now: Duration,
    frames: u32,
    copied: u32,
    commits: u64,
    rewinds: u32,
    shut_at: u32,
    shut: bool,
    last_commit: Duration,
    next_commit: Duration,
    reader_at: Option<u32>,
    phase: Phase,
    frames_max: u32,
    steps: u32,
    held_in_vain: Duration,
}

impl World {
    fn new(phase: Phase) -> Self {
        Self {
            now: Duration::ZERO,
            frames: 0,
            copied: 0,
            commits: 0,
            rewinds: 0,
            shut_at: THRESHOLDS.bound_frames,
            shut: false,
            last_commit: Duration::ZERO,
            next_commit: Duration::ZERO,
            reader_at: None,
            phase,
            frames_max: 0,
            steps: 0,
            held_in_vain: Duration::ZERO,
        }
    }

    fn look(&self) -> Look {
        let Self { frames, commits, rewinds, shut, .. } = *self;
        let quiet_for = self.now.saturating_sub(self.last_commit);
        Look { frames, commits, quiet_for, rewinds, shut, stopping: false }
    }

    /// The writer's next commit, if it may.
    fn commit(&mut self) {
        let reader_in_the_way = self.reader_at.is_some_and(|at| at > 0);
        if self.frames > 0 && self.copied == self.frames && !reader_in_the_way {
            (self.frames, self.copied) = (0, 0);
            self.rewinds += 1;
        }
        self.frames += self.phase.frames_per_commit;
        self.frames_max = self.frames_max.max(self.frames);
        self.commits += 1;
        self.last_commit = self.now;
        self.shut |= self.frames >= self.shut_at;
    }

    /// Time goes on to `until`, and the writer with it; ends early at a commit that
    /// reaches `wake_at_frames` or rewinds.
    fn run(&mut self, until: Duration, wake_at_frames: u32) {
        while let Some(gap) = self.phase.commit_gap {
            if self.shut || self.next_commit > until {
                break;
            }
            self.now = self.now.max(self.next_commit);
            let rewinds = self.rewinds;
            self.commit();
            self.next_commit = self.now + gap;
            if self.frames >= wake_at_frames || self.rewinds != rewinds {
                return;
            }
        }
        self.now = self.now.max(until);
    }

    fn let_go(&mut self, shut_at: u32) {
        (self.shut_at, self.shut) = (shut_at, false);
        self.next_commit = self.next_commit.max(self.now);
    }

    /// A checkpoint as SQLite makes one, without the time that it takes.
    fn copy(&mut self, waits_for_all: bool) -> Outcome {
        match self.phase.failing {
            Failing::Errors => return Outcome::Failed,
            Failing::Busy => return Outcome::Done { busy: true, frames: None },
            Failing::Nothing => {}
        }
        self.copied = self.copied.max(self.frames.min(self.reader_at.unwrap_or(self.frames)));
        let reads_the_wal = self.reader_at.is_some_and(|at| at > 0);
        let busy = waits_for_all && (self.copied < self.frames || reads_the_wal);
        Outcome::Done { busy, frames: Some((self.frames, self.copied)) }
    }

    /// A pass beside the writer.
    fn pass(&mut self) -> Outcome {
        let rest = self.frames - self.copied;
        let takes = self.phase.sync * 2 + Duration::from_micros(u64::from(rest));
        let (copied_before, rewinds) = (self.copied, self.rewinds);
        let outcome = self.copy(false);
        let copied = std::mem::replace(&mut self.copied, copied_before);
        self.run_to(self.now + takes);
        // The frames count as copied only at the pass's end.
        if self.rewinds == rewinds {
            self.copied = copied;
        }
        outcome
    }

    fn run_to(&mut self, until: Duration) {
        while self.now < until {
            self.run(until, u32::MAX);
        }
    }

    /// A checkpoint with the writer held, which waits for others so long at most.
    fn hold(&mut self, cut: bool, wait_max: Duration) -> (Outcome, Duration) {
        let copied_before = self.copied;
        let outcome = self.copy(true);
        let rest = self.copied - copied_before;
        let whole = matches!(outcome, Outcome::Done { busy: false, .. });
        let syncs = if rest > 0 { self.phase.sync * 2 } else { Duration::ZERO };
        let copying = Duration::from_micros(u64::from(rest));
        let mut held = syncs + copying;
        if !whole {
            // SQLite waits for readers and writers, but not for another checkpoint.
            let waits = self.phase.failing == Failing::Nothing;
            held = if waits { held + wait_max } else { Duration::from_micros(100) };
            self.held_in_vain += held.saturating_sub(copying);
        } else if cut {
            (self.frames, self.copied) = (0, 0);
        }
        self.now += held;
        self.next_commit = self.next_commit.max(self.now);
        if whole {
            self.shut_at = THRESHOLDS.bound_frames;
        }
        self.shut = false;
        (
            if whole && cut {
                Outcome::Done { busy: false, frames: Some((0, 0)) }
            } else {
                outcome
            },
            held,
        )
    }
}

/// Lives through one phase with the policy.
fn live(world: &mut World, policy: &mut Policy) -> Result<(), TestCaseError> {
    let end = world.now + world.phase.lasts;
    world.reader_at = world.phase.long_reader.then_some(world.frames);
    let mut stays = (0, 0);
    while world.now < end {
        let look = world.look();
        let step = policy.decide(&look, world.now);
        world.steps += 1;
        let mut held = Duration::ZERO;
        let outcome = match step {
            Step::Sleep { until, wake_at_frames } => {
                world.let_go(policy.shut_at_frames(step, world.now));
                prop_assert!(until.is_none_or(|until| until > world.now), "a sleep in the past");
                world.run(until.unwrap_or(end).min(end), wake_at_frames);
                continue;
            }
            Step::Pass => {
                world.let_go(policy.shut_at_frames(step, world.now));
                world.pass()
            }
            Step::CatchUp { cut } => {
                prop_assert!(look.frames >= THRESHOLDS.catch_up_frames, "P2: {look:?}");
                let known_in_vain = stays.0 >= 5 && look.frames - stays.1 > 64;
                prop_assert!(!known_in_vain, "P3: {stays:?} {look:?}");
                let (outcome, for_how_long) = world.hold(cut, WAIT_MAX);
                held = for_how_long;
                outcome
            }
            Step::Truncate => {
                let quiet = world.now.saturating_sub(world.last_commit);
                prop_assert!(quiet >= THRESHOLDS.idle, "P2: quiet for {quiet:?}");
                let mut outcome = world.copy(false);
                if matches!(outcome, Outcome::Done { busy: false, frames: Some((all, copied)) } if all == copied)
                {
                    (outcome, held) = world.hold(true, Duration::ZERO);
                }
                world.now += world.phase.sync;
                outcome
            }
        };
        if let Outcome::Done { busy: false, frames: Some((frames, copied)) } = outcome {
            let same = copied < frames && stays.1 == copied;
            stays = if same { (stays.0 + 1, copied) } else { (0, copied) };
        }
        policy.after(step, outcome, held, world.now);
    }
    Ok(())
}

fn phases() -> impl Strategy<Value = Phase> {
    (
        1_u64..3_000,
        prop_oneof![Just(None), (2_u64..20).prop_map(Some), (20_u64..500).prop_map(Some), (500_u64..20_000).prop_map(Some)],
        prop_oneof![4 => 1_u32..4, 1 => 1_u32..400],
        1_u64..25_000,
        prop::bool::weighted(0.2),
        prop_oneof![6 => Just(Failing::Nothing), 1 => Just(Failing::Busy), 1 => Just(Failing::Errors)],
    )
        .prop_map(|(lasts_ms, gap_us, frames_per_commit, sync_us, long_reader, failing)| Phase {
            lasts: Duration::from_millis(lasts_ms),
            // A commit takes some time however small it is.
            commit_gap: gap_us.map(|gap| Duration::from_micros(gap.max(u64::from(frames_per_commit)))),
            frames_per_commit,
            sync: Duration::from_micros(sync_us),
            long_reader,
            failing,
        })
}

fn quiet(lasts: Duration) -> Phase {
    Phase {
        lasts,
        commit_gap: None,
        frames_per_commit: 1,
        sync: Duration::from_millis(1),
        long_reader: false,
        failing: Failing::Nothing,
    }
}

proptest! {
    #![proptest_config(ProptestConfig::default())]

    #[test]
    fn any_life_keeps_the_invariants(phases in prop::collection::vec(phases(), 1..6)) {
        let mut policy = Policy::new(THRESHOLDS);
        let mut world = World::new(phases[0].clone());
        let mut clean_until_now = true;
        for phase in phases {
            world.phase = phase;
                        let (steps, began) = (world.steps, world.now);
            let (frames_before, commits_before) = (world.frames, world.commits);
            let held_in_vain = world.held_in_vain;
            live(&mut world, &mut policy)?;
            let Phase { long_reader, failing, frames_per_commit, .. } = world.phase;
            let lasted = world.now.saturating_sub(began);

            // P4. A step belongs to a slice of frames, to a commit or to a pause.
            let commits = world.commits - commits_before;
            let paces = lasted.as_millis() / 2 + u128::from(commits) * 4 + 40;
            prop_assert!(u128::from(world.steps - steps) <= paces, "P4: {} steps in {lasted:?}, {commits} commits", world.steps - steps);
            let in_vain = world.held_in_vain.saturating_sub(held_in_vain);
            prop_assert!(in_vain <= lasted / 15 + Duration::from_millis(80), "P4: held for {in_vain:?} of {lasted:?}");

            clean_until_now &= !long_reader && failing == Failing::Nothing;
            if clean_until_now {
                let most = THRESHOLDS.bound_frames + frames_per_commit.max(400);
                prop_assert!(world.frames_max <= most, "P5: {} frames, before {frames_before}", world.frames_max);
            }
        }
        world.phase = quiet(Duration::from_secs(40));
        live(&mut world, &mut policy)?;
        prop_assert_eq!(world.frames, 0, "P6");
        prop_assert!(policy.alarm(world.now).is_none(), "no alarm for a WAL that is empty");
    }
}

/// A life of one phase, from an empty WAL.
fn life_of(phase: Phase) -> (World, Policy) {
    let mut policy = Policy::new(THRESHOLDS);
    let mut world = World::new(phase);
    live(&mut world, &mut policy).unwrap();
    (world, policy)
}

#[test]
fn a_log_that_was_rewound_is_not_held_by_a_reader() {
    let mut policy = Policy::new(THRESHOLDS);
    let at = Duration::from_secs;
    let look = |commits, frames, rewinds| Look {
        frames,
        commits,
        quiet_for: Duration::ZERO,
        rewinds,
        shut: false,
        stopping: false,
    };
    let whole = |frames, busy| Outcome::Done { busy, frames: Some((frames, frames)) };
    policy.decide(&look(1, 300, 0), at(1));
    policy.after(Step::Truncate, whole(300, true), Duration::ZERO, at(2));
    policy.decide(&look(2, 1, 1), at(3));
    policy.decide(&look(3, 300, 1), at(60));
    policy.after(Step::Pass, whole(300, false), Duration::ZERO, at(60));
    assert_eq!(policy.alarm(at(60)), None);
    // Without the rewind it is one.
    let mut policy = Policy::new(THRESHOLDS);
    policy.decide(&look(1, 300, 0), at(1));
    policy.after(Step::Truncate, whole(300, true), Duration::ZERO, at(2));
    assert_eq!(policy.alarm(at(60)), Some(at(58)));
}

#[test]
fn a_reader_that_stays_raises_the_alarm_and_the_writer_goes_on() {
    let writing = Phase {
        lasts: Duration::from_secs(5),
        commit_gap: Some(Duration::from_micros(100)),
        long_reader: true,
        ..quiet(Duration::ZERO)
    };
    let (mut world, mut policy) = life_of(writing.clone());
    assert!(world.commits > 40_000, "{} commits", world.commits);
    let lasted = policy.alarm(world.now).expect("an alarm");
    assert!(lasted >= THRESHOLDS.stuck_after, "{lasted:?}");

    // The reader ends, the writer does not: back within the bound.
    world.phase = Phase { long_reader: false, ..writing };
    live(&mut world, &mut policy).unwrap();
    assert!(world.frames <= THRESHOLDS.bound_frames + 1, "{} frames", world.frames);
    assert_eq!(policy.alarm(world.now), None);
}

#[test]
fn a_small_wal_is_left_alone_in_a_pause() {
    // Each rewind would cost the next commit a sync.
    let writing = Phase {
        lasts: Duration::from_millis(400),
        commit_gap: Some(Duration::from_millis(50)),
        ..quiet(Duration::ZERO)
    };
    let (world, _) = life_of(writing);
    assert_eq!((world.rewinds, world.copied), (0, 0));
}

#[test]
fn a_long_wal_rewinds_in_a_pause_without_holding_a_writer() {
    let writing = Phase {
        lasts: Duration::from_millis(80),
        commit_gap: Some(Duration::from_micros(100)),
        ..quiet(Duration::ZERO)
    };
    let (mut world, mut policy) = life_of(writing.clone());
    assert!(world.frames >= THRESHOLDS.pause_frames, "{} frames", world.frames);
    world.phase = quiet(Duration::from_millis(100));
    live(&mut world, &mut policy).unwrap();
    assert_eq!(policy.frames(), (world.frames, world.frames));
    world.phase = writing;
    live(&mut world, &mut policy).unwrap();
    assert_eq!(world.rewinds, 1);
}

/// Frames at the first catch-up of a writer that goes on, where each pass takes so long.
fn frames_at_first_catch_up(pass_takes: Duration) -> u32 {
    let mut policy = Policy::new(Thresholds { catch_up_frames: 500, ..THRESHOLDS });
    let mut look = Look::default();
    let mut now = Duration::ZERO;
    while look.frames < 10_000 {
        look.frames += 50;
        look.commits += 1;
        match policy.decide(&look, now) {
            step @ Step::Pass => {
                now += pass_takes;
                let frames = Some((look.frames, look.frames));
                policy.after(step, Outcome::Done { busy: false, frames }, Duration::ZERO, now);
            }
            Step::CatchUp { .. } => break,
            Step::Sleep { .. } | Step::Truncate => {}
        }
    }
    look.frames
}

#[test]
fn where_syncs_are_slow_catch_ups_are_few() {
    let (quick, slow) = (Duration::from_millis(2), Duration::from_millis(40));
    assert_eq!(frames_at_first_catch_up(quick), 550);
    let late = frames_at_first_catch_up(slow);
    assert!((1_500..THRESHOLDS.bound_frames).contains(&late), "{late} frames");
}

#[test]
fn an_idle_wal_is_cut_when_it_was_idle_for_as_long_as_is_set() {
    let idle = THRESHOLDS.idle;
    let mut policy = Policy::new(THRESHOLDS);
    let look = |commits, quiet_for| Look { frames: 10, commits, quiet_for, ..Look::default() };
    let sleeps_until = |step| match step {
        Step::Sleep { until, .. } => until,
        _ => None,
    };
    let first = policy.decide(&look(1, Duration::ZERO), Duration::ZERO);
    assert_eq!(sleeps_until(first), Some(idle));
    // There was a commit while it slept, which did not wake it.
    let second = policy.decide(&look(2, idle / 4), idle);
    let end = idle * 7 / 4;
    assert_eq!(sleeps_until(second), Some(end));
    assert_eq!(policy.decide(&look(2, idle), end), Step::Truncate);
}

#[test]
fn what_another_process_left_in_an_empty_wal_is_found() {
    let (mut world, mut policy) = life_of(quiet(Duration::from_secs(5)));
    assert_eq!(policy.frames(), (0, 0));
    // Written without passing our gate.
    world.frames = 70;
    world.phase = quiet(Duration::from_secs(30));
    world.steps = 0;
    live(&mut world, &mut policy).unwrap();
    assert_eq!(world.frames, 0);
    assert!(world.steps < 20, "{} steps", world.steps);
}
