//! Times of calls. As exact percentiles, and as the course over time.
//!
//! Every call is kept, eight bytes each, so nothing is rounded into buckets.
//!
//! Must never: allocate while calls are timed, as long as the number of calls
//! was foreseen.

use std::time::{Duration, Instant};

use crate::report::{Course, Latency};

/// Points of a course over time.
const SLOTS: usize = 500;

/// One call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Sample {
    /// When it was acknowledged, from the first call on; saturates after 71 minutes.
    done_us: u32,
    /// Duration; saturates at 429 s.
    took_tenths_us: u32,
}

/// The calls of one caller, or of all.
#[derive(Debug, Default)]
pub(crate) struct Recording {
    samples: Vec<Sample>,
}

impl Recording {
    /// Room for this many calls.
    pub(crate) fn with_capacity(calls: u64) -> Self {
        Self { samples: Vec::with_capacity(usize::try_from(calls).unwrap_or(0)) }
    }

    /// Takes in a call that began at `start` and is acknowledged now.
    pub(crate) fn acknowledged(&mut self, epoch: Instant, start: Instant) {
        let now = Instant::now();
        self.push(now.saturating_duration_since(epoch), now.saturating_duration_since(start));
    }

    fn push(&mut self, done: Duration, took: Duration) {
        let clamped = |number: u128| u32::try_from(number).unwrap_or(u32::MAX);
        self.samples.push(Sample {
            done_us: clamped(done.as_micros()),
            took_tenths_us: clamped(took.as_nanos() / 100),
        });
    }

    /// Takes in what another caller recorded.
    pub(crate) fn append(&mut self, mut other: Self) {
        self.samples.append(&mut other.samples);
    }

    /// Calls that were acknowledged.
    pub(crate) fn calls(&self) -> u64 {
        self.samples.len() as u64
    }

    /// Time of each call, in tenths of a microsecond.
    pub(crate) fn took_tenths_us(&self) -> Vec<u32> {
        self.samples.iter().map(|sample| sample.took_tenths_us).collect()
    }

    /// Exact percentiles; `None` without a call.
    pub(crate) fn latency(&self) -> Option<Latency> {
        latency_of(&mut self.took_tenths_us())
    }

    /// The course over time, beside the WAL's sizes.
    pub(crate) fn course(&self, wal: &[WalSize]) -> Course {
        let end_us = self.samples.iter().map(|sample| sample.done_us).max().unwrap_or(0);
        let slot_us = f64::from(end_us.saturating_add(1)) / SLOTS as f64;
        let slot_of = |us: u32| ((f64::from(us) / slot_us) as usize).min(SLOTS - 1);
        let mut slots: Vec<Vec<u32>> = vec![Vec::new(); SLOTS];
        for sample in &self.samples {
            slots[slot_of(sample.done_us)].push(sample.took_tenths_us);
        }
        for took in &mut slots {
            took.sort_unstable();
        }
        let mut wal_mb = vec![0.0; SLOTS];
        let mut seen = wal.iter().peekable();
        let mut bytes = 0;
        for (slot, megabytes) in wal_mb.iter_mut().enumerate() {
            while let Some(size) = seen.next_if(|size| slot_of(size.at_us) <= slot) {
                bytes = size.bytes;
            }
            *megabytes = bytes as f64 / 1e6;
        }
        Course {
            slot_ms: slot_us / 1e3,
            p50_us: slots.iter().map(|took| at_share(took, 0.5)).collect(),
            max_us: slots.iter().map(|took| at_share(took, 1.0)).collect(),
            wal_mb,
        }
    }
}

/// The size of the WAL at a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct WalSize {
    /// From the first call on.
    pub(crate) at_us: u32,
    pub(crate) bytes: u64,
}

/// Exact percentiles of calls that took so many tenths of a microsecond; `None` without a call.
pub(crate) fn latency_of(took_tenths_us: &mut [u32]) -> Option<Latency> {
    took_tenths_us.sort_unstable();
    Some(Latency {
        p50: at_share(took_tenths_us, 0.5)?,
        p99: at_share(took_tenths_us, 0.99)?,
        p999: at_share(took_tenths_us, 0.999)?,
        max: at_share(took_tenths_us, 1.0)?,
    })
}

/// The smallest value that this share of the sorted values does not exceed, in
/// microseconds.
fn at_share(sorted_tenths_us: &[u32], share: f64) -> Option<f64> {
    let count = (share * sorted_tenths_us.len() as f64).ceil() as usize;
    let tenths_us = sorted_tenths_us.get(count.saturating_sub(1))?;
    Some(f64::from(*tenths_us) / 10.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn recording(calls: impl Iterator<Item = (u64, u64)>) -> Recording {
        let mut recording = Recording::default();
        for (done_us, took_us) in calls {
            recording.push(Duration::from_micros(done_us), Duration::from_micros(took_us));
        }
        recording
    }

    #[test]
    fn percentiles_are_exact() {
        let latency = recording((1..=1000).rev().map(|us| (us, us))).latency();
        assert_eq!(latency, Some(Latency { p50: 500.0, p99: 990.0, p999: 999.0, max: 1000.0 }));
        let one = recording([(5, 7)].into_iter()).latency();
        assert_eq!(one, Some(Latency { p50: 7.0, p99: 7.0, p999: 7.0, max: 7.0 }));
        assert_eq!(Recording::default().latency(), None);
    }

    #[test]
    fn the_course_shows_when_a_call_was_slow() {
        // One call a millisecond, for a second; the one at 0.6 s took long.
        let calls = (0..1000).map(|ms| (ms * 1000, if ms == 600 { 9000 } else { 20 }));
        let wal = [WalSize { at_us: 0, bytes: 1_000_000 }, WalSize { at_us: 500_000, bytes: 0 }];
        let course = recording(calls).course(&wal);
        assert_eq!(course.max_us.len(), SLOTS);
        assert!((course.slot_ms - 2.0).abs() < 0.01, "{}", course.slot_ms);
        let slow: Vec<usize> =
            (0..SLOTS).filter(|slot| course.max_us[*slot] > Some(20.0)).collect();
        assert_eq!(slow, [300]);
        assert_eq!(course.p50_us[10], Some(20.0));
        assert!((course.wal_mb[100] - 1.0).abs() < 1e-9 && course.wal_mb[300] == 0.0);
    }

    #[test]
    fn a_slot_without_a_call_is_empty() {
        let course = recording([(0, 1), (1_000_000, 2)].into_iter()).course(&[]);
        assert_eq!(course.max_us.iter().flatten().count(), 2);
        assert_eq!(course.max_us[250], None);
    }

    #[test]
    fn what_is_too_long_saturates() {
        let mut recording = Recording::default();
        recording.push(Duration::from_secs(10_000), Duration::from_secs(10_000));
        let latency = recording.latency().expect("a call");
        assert!(latency.max > 4.2e8, "{latency:?}");
    }
}
