//! Counters of jobs' events since they were last written to the table.
//!
//! ```text
//! note ─► log of the open transaction ─ COMMIT ─► counts
//!             └ undone with it                      │
//!             └──────────────┬──────────────────────┘
//!                            ▼ once a second, in the open transaction
//!                     leafpress_minute
//! ```
//!
//! Each Writer has one. Its operations come one transaction after the other, as the Writer's
//! transactions do.
//!
//! Invariants:
//! 1. An event is counted once if its transaction is committed, and otherwise never.
//! 2. What is in `counts` and `log` is not in the database, but for what the open
//!    transaction has `written`, which COMMIT takes away here.
//!
//! Must never: run SQL, or allocate to note an event (histograms grow at a commit; a log that has
//! grown once stays as large, up to [`LOG_KEPT`]).

use std::sync::{Mutex, MutexGuard};

use serde::{Deserialize, Serialize};

use super::events::Events;
use super::histogram::Histogram;
use crate::sync::lock;

/// Entries for which the log keeps its room between transactions: 0.6 MB. Equal
/// events in a row are one entry, so few transactions come near it.
const LOG_KEPT: usize = 1 << 14;

/// Something that happened to a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::queue) enum Event {
    /// The job was pushed.
    Pushed,
    /// The job was not pushed, since its unique key was held.
    Duplicate,
    /// The job was claimed, this long after it could have been.
    Claimed {
        /// Time from due (ready) to the claim.
        waited_ms: i64,
    },
    /// The job is done.
    Acked {
        /// Time from its claim to its ack.
        ran_ms: i64,
        /// Number of that attempt, from 1.
        attempts: u32,
    },
    /// The attempt failed, and the job is to be tried again.
    Retried,
    /// The lease ended without an answer.
    LeaseExpired,
    /// The job was given back untried.
    Released,
    /// The job became a dead letter, for any reason.
    Dead,
    /// The job became a dead letter because its time was over; counted as [`Dead`](Self::Dead),
    /// too.
    Expired,
}

/// Events of the jobs of one queue, in some period.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(in crate::queue) struct Counts {
    pub(super) events: Events<u64>,
    /// Sum of the attempts of all acked jobs.
    pub(super) acked_attempts: u64,
    /// Times from due to claim.
    #[serde(with = "super::histogram")]
    pub(super) wait: Histogram,
    /// Times from claim to ack.
    #[serde(with = "super::histogram")]
    pub(super) run: Histogram,
}

impl Counts {
    #[inline]
    pub(super) fn apply(&mut self, event: Event, times: u64) {
        let events = &mut self.events;
        let count = match event {
            Event::Pushed => &mut events.pushed,
            Event::Duplicate => &mut events.duplicates,
            Event::Claimed { waited_ms } => {
                // The time is negative if a clock was set back.
                self.wait.record(waited_ms.max(0) as u64, times);
                &mut events.claimed
            }
            Event::Acked { ran_ms, attempts } => {
                let attempts = u64::from(attempts).saturating_mul(times);
                self.acked_attempts = self.acked_attempts.saturating_add(attempts);
                self.run.record(ran_ms.max(0) as u64, times);
                &mut events.acked
            }
            Event::Retried => &mut events.retried,
            Event::LeaseExpired => &mut events.lease_expired,
            Event::Released => &mut events.released,
            Event::Dead => &mut events.dead,
            Event::Expired => &mut events.expired,
        };
        *count = count.saturating_add(times);
    }

    /// Adds what another one counted.
    pub(super) fn add(&mut self, more: &Self) {
        self.events = self.events.zip(&more.events, u64::saturating_add);
        self.acked_attempts = self.acked_attempts.saturating_add(more.acked_attempts);
        self.wait.add(&more.wait);
        self.run.add(&more.run);
    }
}

/// A queue, and the minute since the Unix epoch in which something happened.
pub(super) type When = (i64, i64);

/// Counters of the events of all queues of a writer, since they were last written.
#[derive(Debug, Default)]
pub(in crate::queue) struct Counters {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// Events in the open transaction.
    log: Vec<Entry>,
    /// Number of entries before the open call, which are kept if the call is undone.
    before_call: usize,
    /// Value of `written` before the open call.
    written_before_call: Option<usize>,
    /// Counts that are committed and not written. Few queues and minutes, so a list.
    counts: Vec<(When, Counts)>,
    /// Number of entries of the log that the open transaction has written; `None` if it has not.
    written: Option<usize>,
    written_at_ms: i64,
}

#[derive(Debug, Clone, Copy)]
struct Entry {
    when: When,
    event: Event,
    times: u32,
}

impl Counters {
    /// Counts an event of the open transaction.
    #[inline]
    pub(in crate::queue) fn note(&self, queue: i64, now_ms: i64, event: Event) {
        let when = (queue, minute_of(now_ms));
        let mut state = self.state();
        let may_add_from = state.before_call.max(state.written.unwrap_or(0));
        if let Some(last) = state.log[may_add_from..].last_mut()
            && last.when == when
            && last.event == event
            && last.times < u32::MAX
        {
            last.times += 1;
            return;
        }
        state.log.push(Entry { when, event, times: 1 });
    }

    /// Begins a call, which may be undone by itself.
    pub(in crate::queue) fn call_began(&self) {
        let mut state = self.state();
        state.before_call = state.log.len();
        state.written_before_call = state.written;
    }

    /// Undoes the events of the call that began last; its transaction goes on.
    pub(in crate::queue) fn call_undone(&self) {
        let state = &mut *self.state();
        state.log.truncate(state.before_call);
        state.written = state.written_before_call;
    }

    /// Moves the events of the committed transaction to the counts.
    pub(in crate::queue) fn committed(&self) {
        let state = &mut *self.state();
        let written = state.written.take().inspect(|_| state.counts.clear());
        add_up(&mut state.counts, &state.log[written.unwrap_or(0)..]);
        state.log.clear();
        state.log.shrink_to(LOG_KEPT);
        (state.before_call, state.written_before_call) = (0, None);
    }

    /// Drops the events of the undone transaction.
    pub(in crate::queue) fn rolled_back(&self) {
        let state = &mut *self.state();
        if state.written.take().is_some() {
            // The counts are to be written at the next opportunity.
            state.written_at_ms = i64::MIN;
        }
        state.log.clear();
        (state.before_call, state.written_before_call) = (0, None);
    }

    /// Returns true if there are counts that should be written by now.
    #[inline]
    pub(super) fn is_due(&self, now_ms: i64, every_ms: i64) -> bool {
        let state = self.state();
        let since_ms = now_ms.saturating_sub(state.written_at_ms);
        // The difference is negative if the clock was set back.
        state.has_unwritten() && !(0..every_ms).contains(&since_ms)
    }

    /// Returns true if there are counts to be written.
    pub(in crate::queue) fn has_unwritten(&self) -> bool {
        self.state().has_unwritten()
    }

    /// The counts to be written in the open transaction, with its own events. They stay here until
    /// it is committed.
    pub(super) fn take_for_writing(&self, now_ms: i64) -> Vec<(When, Counts)> {
        let mut state = self.state();
        if state.written.is_some() {
            return Vec::new();
        }
        state.written = Some(state.log.len());
        state.written_at_ms = now_ms;
        let mut all = state.counts.clone();
        add_up(&mut all, &state.log);
        all
    }

    /// Counts of one queue that are committed and not in the database yet, by minute.
    #[cfg(test)]
    pub(super) fn unwritten(&self, queue: i64) -> Vec<(i64, Counts)> {
        let state = self.state();
        let ours = state.counts.iter().filter(|((other, _), _)| *other == queue);
        ours.map(|((_, minute), counts)| (*minute, counts.clone())).collect()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }
}

impl State {
    fn has_unwritten(&self) -> bool {
        self.written.is_none() && !(self.counts.is_empty() && self.log.is_empty())
    }
}

fn add_up(counts: &mut Vec<(When, Counts)>, log: &[Entry]) {
    for entry in log {
        let place = counts.iter().position(|(when, _)| *when == entry.when);
        let place = place.unwrap_or_else(|| {
            counts.push((entry.when, Counts::default()));
            counts.len() - 1
        });
        counts[place].1.apply(entry.event, u64::from(entry.times));
    }
}

/// Minute since the Unix epoch.
pub(super) fn minute_of(now_ms: i64) -> i64 {
    now_ms.div_euclid(60_000)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const CLAIMED: Event = Event::Claimed { waited_ms: 7 };
    const MINUTE_MS: i64 = 60_000;

    /// Counts of one queue that are not written yet.
    fn unwritten(counters: &Counters, queue: i64) -> Counts {
        let mut all = Counts::default();
        counters.unwritten(queue).iter().for_each(|(_, counts)| all.add(counts));
        all
    }

    #[test]
    fn only_what_is_committed_counts() {
        let counters = Counters::default();
        counters.note(1, 0, Event::Pushed);
        counters.rolled_back();
        counters.note(1, 0, Event::Pushed);
        counters.call_began();
        counters.note(1, 0, Event::Pushed);
        counters.note(2, 0, CLAIMED);
        counters.call_undone();
        counters.note(1, 0, Event::Acked { ran_ms: -5, attempts: 3 });
        assert_eq!(unwritten(&counters, 1), Counts::default(), "not yet");
        counters.committed();
        let counts = unwritten(&counters, 1);
        assert_eq!(counts.events, Events { pushed: 1, acked: 1, ..Events::default() });
        assert_eq!((counts.acked_attempts, counts.run.max), (3, 0));
        assert_eq!(unwritten(&counters, 2), Counts::default());
    }

    #[test]
    fn what_is_written_goes_only_with_the_commit() {
        let counters = Counters::default();
        assert!(!counters.is_due(i64::MAX, 1_000), "there is nothing");
        counters.note(1, MINUTE_MS - 1, CLAIMED);
        counters.committed();
        counters.note(1, MINUTE_MS, CLAIMED);
        assert!(counters.is_due(5_000, 1_000));
        let minutes: Vec<When> = counters.take_for_writing(5_000).iter().map(|it| it.0).collect();
        assert_eq!(minutes, [(1, 0), (1, 1)], "the open transaction's too");
        assert_eq!(counters.take_for_writing(5_000).len(), 0, "once a transaction");
        counters.rolled_back();
        assert!(counters.is_due(5_000, 1_000), "since it is not in the database");
        assert_eq!(counters.take_for_writing(5_000).len(), 1);
        counters.note(1, 0, CLAIMED);
        counters.committed();
        let left = Events { claimed: 1, ..Events::default() };
        assert_eq!(unwritten(&counters, 1).events, left, "it came too late");
        assert!(!counters.is_due(5_999, 1_000));
        assert!(counters.is_due(6_000, 1_000));
        assert!(counters.is_due(4_000, 1_000), "the clock was set back");
    }

    fn sum(events: Events<u64>) -> u64 {
        events.pushed + events.claimed + events.dead
    }

    proptest! {
        /// Invariant 1, against lists of events.
        #[test]
        fn counts_are_those_of_committed_transactions(
            steps in prop::collection::vec((0..6_u8, 0..3_i64, 0..3_u8), 0..200),
        ) {
            let counters = Counters::default();
            let (mut open, mut truth, mut stored) = (Vec::new(), [0_u64; 3], [0_u64; 3]);
            let (mut before_call, mut in_flight) = ((0, None), None);
            for (step, queue, event) in steps {
                match step {
                    0 => {
                        counters.call_began();
                        before_call = (open.len(), in_flight);
                    }
                    1 => {
                        counters.call_undone();
                        open.truncate(before_call.0);
                        in_flight = before_call.1;
                    }
                    2 => {
                        counters.committed();
                        open.drain(..).for_each(|queue: i64| truth[queue as usize] += 1);
                        stored = in_flight.take().unwrap_or(stored);
                        before_call = (0, None);
                    }
                    3 => {
                        counters.rolled_back();
                        open.clear();
                        (before_call, in_flight) = ((0, None), None);
                    }
                    4 if in_flight.is_none() => {
                        let mut with = stored;
                        for ((queue, _), counts) in counters.take_for_writing(0) {
                            with[queue as usize] += sum(counts.events);
                        }
                        in_flight = Some(with);
                    }
                    _ => {
                        let events = [Event::Pushed, CLAIMED, Event::Dead];
                        counters.note(queue, 0, events[usize::from(event)]);
                        open.push(queue);
                    }
                }
                for queue in 0..3 {
                    let unwritten = sum(unwritten(&counters, queue as i64).events);
                    prop_assert_eq!(stored[queue] + unwritten, truth[queue]);
                }
            }
        }
    }
}
