//! Many producers, many consumers, and not one wake-up too few.
//!
//! Jobs are numbers in memory; each consumer does with its waiter the same as claims do, and is
//! interrupted as they can be. If a wake-up is lost, a consumer waits for ever while a job is there,
//! and the test ends with that.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use super::super::{WakeUps, Woken};
use super::{Ground, PATIENCE};

const QUEUES: [&str; 3] = ["", "a", "b\0\u{1f514} / %s ' \"\n"];
const PRODUCERS: usize = 4;
const CONSUMERS_EACH: usize = 3;
const JOBS_EACH: u32 = 3000;

#[derive(Default)]
struct Store {
    jobs: [AtomicU32; 3],
    consumed: AtomicU64,
    is_over: AtomicBool,
}

impl Store {
    fn claim(&self, queue: usize) -> bool {
        let less = |jobs: u32| jobs.checked_sub(1);
        self.jobs[queue].fetch_update(Ordering::SeqCst, Ordering::SeqCst, less).is_ok()
    }
}

/// Waits like a claim, with one of its ways to end; returns true if there was a job.
fn consume_one(wake_ups: &Arc<WakeUps>, store: &Store, queue: usize, turn: usize) -> bool {
    let mut waiter = wake_ups.waiter(QUEUES[queue]).unwrap();
    let patience = Instant::now() + PATIENCE;
    let deadline =
        if turn.is_multiple_of(3) { Instant::now() + Duration::from_micros(300) } else { patience };
    loop {
        if store.claim(queue) {
            // A waiter that does not say that it found a job only sends the next one to look.
            if !turn.is_multiple_of(4) {
                waiter.found();
            }
            return true;
        }
        match waiter.wait(None, Some(deadline)) {
            // It fails before it looks.
            Woken::Look if turn.is_multiple_of(5) => return false,
            Woken::Look => {}
            Woken::Closed => return false,
            Woken::TimedOut => {
                assert!(deadline < patience || store.is_over.load(Ordering::SeqCst), "forgotten");
                return false;
            }
        }
    }
}

/// Producers send through `sending`, consumers wait at one of `waiting`.
fn hammer(sending: &Arc<WakeUps>, waiting: &[Arc<WakeUps>]) {
    let store = Store::default();
    let total = PRODUCERS as u64 * u64::from(JOBS_EACH);
    std::thread::scope(|scope| {
        for producer in 0..PRODUCERS {
            let store = &store;
            scope.spawn(move || {
                let mut left = JOBS_EACH;
                while left > 0 {
                    let jobs = (left % 4 + 1).min(left);
                    let queue = (producer + left as usize) % QUEUES.len();
                    store.jobs[queue].fetch_add(jobs, Ordering::SeqCst);
                    sending.wake(QUEUES[queue], jobs);
                    left -= jobs;
                    if left % 64 < 4 {
                        // So that consumers fall asleep now and then.
                        std::thread::sleep(Duration::from_micros(200));
                    }
                }
            });
        }
        for consumer in 0..CONSUMERS_EACH * QUEUES.len() {
            let (store, wake_ups) = (&store, &waiting[consumer % waiting.len()]);
            scope.spawn(move || {
                let mut turn = consumer;
                while !store.is_over.load(Ordering::SeqCst) {
                    turn += 1;
                    let found = consume_one(wake_ups, store, consumer % QUEUES.len(), turn);
                    let consumed = store.consumed.fetch_add(u64::from(found), Ordering::SeqCst);
                    if found && consumed + 1 == total {
                        store.is_over.store(true, Ordering::SeqCst);
                        for wake_ups in waiting {
                            wake_ups.close();
                        }
                    }
                }
            });
        }
    });
    assert_eq!(store.consumed.load(Ordering::SeqCst), total);
    assert!(store.jobs.iter().all(|jobs| jobs.load(Ordering::SeqCst) == 0));
}

#[test]
fn no_wake_up_is_lost_in_one_process() {
    let ground = Ground::new();
    let wake_ups = ground.wake_ups();
    hammer(&wake_ups, &[Arc::clone(&wake_ups)]);
}

/// Through sockets, which are full most of the time.
#[cfg(unix)]
#[test]
fn no_wake_up_is_lost_on_the_way_to_others() {
    let ground = Ground::new();
    hammer(&ground.wake_ups(), &[ground.wake_ups(), ground.wake_ups()]);
}
