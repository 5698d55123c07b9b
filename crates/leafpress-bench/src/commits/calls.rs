//! The callers: threads that begin at the same moment, each with this many calls
//! under way, and what each call took.
//!
//! Every rival is called in one way: a [`Caller`] begins a call and waits for the oldest
//! one. With several in flight, a call is acknowledged when its caller sees the
//! answer, after those before it.
//!
//! Must never: begin a call after the time is up, or end before every call that
//! was begun has its answer.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Barrier, OnceLock};
use std::thread;
use std::time::{Duration, Instant};

use super::call::Call;
use super::rung::CommitRung;
use crate::error::{Error, Result};
use crate::recording::Recording;

/// A thread that makes calls.
pub(super) trait Caller {
    /// Begins a call; may do all of it.
    fn begin(&mut self, call: &Call) -> Result<()>;

    /// Waits for the answer to the oldest call that has none yet.
    fn finish_oldest(&mut self) -> Result<()>;
}

/// Progress of the callers, for the threads that run beside them.
#[derive(Debug, Default)]
pub(super) struct Progress {
    /// When the first call began; not set before.
    epoch: OnceLock<Instant>,
    /// Calls acknowledged, by callers that say so.
    done: AtomicU64,
    is_over: AtomicBool,
}

impl Progress {
    /// When the first call began, if it has.
    pub(super) fn epoch(&self) -> Option<Instant> {
        self.epoch.get().copied()
    }

    /// Calls acknowledged so far.
    pub(super) fn done(&self) -> u64 {
        self.done.load(Ordering::Relaxed)
    }

    /// Returns true if all callers have ended, well or badly.
    pub(super) fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Acquire)
    }

    /// Says that nothing more comes: what runs beside the callers ends.
    pub(super) fn end(&self) {
        self.is_over.store(true, Ordering::Release);
    }
}

/// Work of the callers.
#[derive(Debug, Default)]
pub(super) struct Called {
    /// Calls that were acknowledged.
    pub(super) calls: u64,
    /// Time of each; empty where only the whole was acknowledged.
    pub(super) recording: Recording,
    /// From the first call to the last acknowledgement.
    pub(super) wall: Duration,
}

/// Runs the only caller in this thread.
pub(super) fn run_caller<C: Caller>(
    rung: &CommitRung,
    mut caller: C,
    progress: &Progress,
) -> Result<Called> {
    let recording = Recording::with_capacity(rung.rows);
    let outcome = call(rung, &mut caller, (0, rung.rows), recording, progress);
    sum_up(vec![outcome], progress)
}

/// Runs all callers, each in a thread, from the same moment on.
pub(super) fn run_callers<C: Caller + Send>(
    rung: &CommitRung,
    callers: Vec<C>,
    progress: &Progress,
) -> Result<Called> {
    let callers_count = callers.len().max(1);
    let all_ready = Barrier::new(callers_count);
    let share = |index: usize| {
        let (each, rest) = (rung.rows / callers_count as u64, rung.rows % callers_count as u64);
        each + u64::from((index as u64) < rest)
    };
    let outcomes: Vec<Outcome> = thread::scope(|scope| {
        let threads: Vec<_> = callers
            .into_iter()
            .enumerate()
            .map(|(index, mut caller)| {
                let (all_ready, rows) = (&all_ready, share(index));
                scope.spawn(move || {
                    let recording = Recording::with_capacity(rows);
                    all_ready.wait();
                    call(rung, &mut caller, (index as u32, rows), recording, progress)
                })
            })
            .collect();
        threads
            .into_iter()
            .map(|thread| thread.join().unwrap_or_else(|_| Err(panicked(rung))))
            .collect()
    });
    sum_up(outcomes, progress)
}

/// Work of one caller, and the moment of its last answer.
type Outcome = Result<(Recording, Instant)>;

fn sum_up(outcomes: Vec<Outcome>, progress: &Progress) -> Result<Called> {
    let mut called = Called::default();
    let mut end = progress.epoch();
    for outcome in outcomes {
        let (recording, ended) = outcome?;
        called.calls += recording.calls();
        called.recording.append(recording);
        end = end.max(Some(ended));
    }
    if let (Some(epoch), Some(end)) = (progress.epoch(), end) {
        called.wall = end.saturating_duration_since(epoch);
    }
    Ok(called)
}

fn panicked(rung: &CommitRung) -> Error {
    Error::rung(rung.name(), "a caller panicked")
}

/// One caller's calls.
fn call<C: Caller>(
    rung: &CommitRung,
    caller: &mut C,
    (index, rows): (u32, u64),
    mut recording: Recording,
    progress: &Progress,
) -> Outcome {
    let in_flight_max = rung.calls.in_flight();
    let epoch = *progress.epoch.get_or_init(Instant::now);
    let time_is_up = epoch + Duration::from_millis(rung.milliseconds_max);
    // A counter that all callers share would slow down many of them.
    let is_watched = rung.has_course();
    let mut begun_at: VecDeque<Instant> = VecDeque::with_capacity(in_flight_max);
    let mut n = 0;
    let mut rows = rows;
    loop {
        while begun_at.len() < in_flight_max && n < rows {
            let start = Instant::now();
            if start > time_is_up {
                rows = n;
                break;
            }
            begun_at.push_back(start);
            caller.begin(&Call::new(index, n))?;
            n += 1;
        }
        let Some(start) = begun_at.pop_front() else { break };
        caller.finish_oldest()?;
        recording.acknowledged(epoch, start);
        if is_watched {
            progress.done.fetch_add(1, Ordering::Relaxed);
        }
    }
    Ok((recording, Instant::now()))
}

#[cfg(test)]
mod tests {
    use super::super::rung::{Calls, Committer, Scene};
    use super::super::table::Table;
    use super::*;
    use crate::report::Safety;

    /// Answers in order; remembers how many calls were ever under way.
    #[derive(Default)]
    struct Counting {
        begun: Vec<u64>,
        finished: usize,
        under_way_max: usize,
    }

    impl Caller for &mut Counting {
        fn begin(&mut self, call: &Call) -> Result<()> {
            self.begun.push(call.n);
            self.under_way_max = self.under_way_max.max(self.begun.len() - self.finished);
            Ok(())
        }

        fn finish_oldest(&mut self) -> Result<()> {
            self.finished += 1;
            Ok(())
        }
    }

    fn rung(calls: Calls, rows: u64, milliseconds_max: u64) -> CommitRung {
        let (by, safety, scene) = (Committer::PerCall, Safety::Durable, Scene::Course);
        let table = Table::Plain;
        CommitRung { by, safety, calls, scene, rows, milliseconds_max, table }
    }

    #[test]
    fn every_call_is_made_and_answered() {
        let mut counting: Vec<Counting> = (0..3).map(|_| Counting::default()).collect();
        let progress = Progress::default();
        let rung = rung(Calls::Blocking(3), 100, u64::from(u32::MAX));
        let called = run_callers(&rung, counting.iter_mut().collect(), &progress);
        assert_eq!(called.expect("no caller fails").calls, 100);
        assert_eq!(progress.done(), 100);
        assert_eq!(counting.iter().map(|it| it.begun.len()).collect::<Vec<_>>(), [34, 33, 33]);
        assert!(counting.iter().all(|it| it.under_way_max == 1 && it.finished == it.begun.len()));
    }

    #[test]
    fn so_many_calls_are_in_flight() {
        let mut counting = Counting::default();
        let rung = rung(Calls::InFlight(8), 50, u64::from(u32::MAX));
        run_callers(&rung, vec![&mut counting], &Progress::default()).expect("it does not fail");
        assert_eq!((counting.under_way_max, counting.finished), (8, 50));
        assert_eq!(counting.begun, (0..50).collect::<Vec<_>>());
    }

    /// A caller whose calls take longer than there is time.
    struct Slow;

    impl Caller for Slow {
        fn begin(&mut self, _: &Call) -> Result<()> {
            thread::sleep(Duration::from_millis(2));
            Ok(())
        }

        fn finish_oldest(&mut self) -> Result<()> {
            Ok(())
        }
    }

    #[test]
    fn the_time_is_up_and_what_was_begun_is_finished() {
        let rung = rung(Calls::InFlight(4), 1_000_000, 1);
        let called = run_callers(&rung, vec![Slow], &Progress::default()).expect("it works");
        let calls = called.calls;
        assert!((1..1_000_000).contains(&calls), "{calls}");
        assert!(called.wall >= Duration::from_millis(2));
    }
}
