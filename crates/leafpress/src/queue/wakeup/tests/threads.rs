//! Waiting in one process: wake-ups, due times, deadlines, the end.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex};
use std::task::{Wake, Waker};
use std::time::{Duration, Instant};

use rusqlite::Connection;

use super::super::{LOOK_EVERY, LOOK_EVERY_DEAF};
use super::{Ground, Waiter, WakeUps, Woken, has_thread, patience, until, wait_beside, wakes};
use crate::sync::lock;

#[test]
fn a_wake_up_between_look_and_wait_is_heard() {
    let ground = Ground::new();
    let wake_ups = ground.wake_ups();
    let mut waiter = wake_ups.waiter("a").unwrap();
    wake_ups.wake("a", 1);
    assert_eq!(waiter.wait(None, patience()), Woken::Look);
}

#[test]
fn only_as_many_wake_as_there_are_jobs() {
    let ground = Ground::new();
    let wake_ups = ground.wake_ups();
    let waiting: Vec<_> =
        (0..8).map(|_| wait_beside(wake_ups.waiter("a").unwrap(), None)).collect();
    wake_ups.wake("a", 3);
    wake_ups.wake("b", 3);
    until("three have looked", || waiting.iter().filter(|it| it.is_finished()).count() == 3);
    wake_ups.close();
    let woken: Vec<Woken> = waiting.into_iter().map(|it| it.join().unwrap()).collect();
    assert_eq!(woken.iter().filter(|woken| **woken == Woken::Look).count(), 3);
    assert_eq!(woken.iter().filter(|woken| **woken == Woken::Closed).count(), 5);
}

#[test]
fn a_deadline_ends_a_wait_but_not_before_a_permit() {
    let ground = Ground::new();
    let wake_ups = ground.wake_ups();
    let mut waiter = wake_ups.waiter("a").unwrap();
    assert_eq!(waiter.wait(None, Some(Instant::now())), Woken::TimedOut);
    let soon = Instant::now() + Duration::from_millis(5);
    assert_eq!(waiter.wait(Some(i64::MAX), Some(soon)), Woken::TimedOut);
    assert!(Instant::now() >= soon);
    wake_ups.wake("a", 1);
    assert_eq!(waiter.wait(None, Some(Instant::now())), Woken::Look);
}

#[test]
fn who_is_woken_and_goes_sends_the_next() {
    let ground = Ground::new();
    let wake_ups = ground.wake_ups();
    let mut first = wake_ups.waiter("a").unwrap();
    wake_ups.wake("a", 1);
    assert_eq!(first.wait(None, patience()), Woken::Look);
    let second = wait_beside(wake_ups.waiter("a").unwrap(), None);
    // Its look failed, say: the database was locked.
    drop(first);
    assert_eq!(second.join().unwrap(), Woken::Look);
}

#[test]
fn a_thread_that_found_a_job_wakes_no_other() {
    let ground = Ground::new();
    let wake_ups = ground.wake_ups();
    let mut first = wake_ups.waiter("a").unwrap();
    wake_ups.wake("a", 1);
    assert_eq!(first.wait(None, patience()), Woken::Look);
    let mut second = wake_ups.waiter("a").unwrap();
    first.found();
    drop(first);
    assert_eq!(second.wait(None, Some(Instant::now())), Woken::TimedOut);
}

#[test]
fn what_is_due_wakes_one_and_what_it_finds_the_next() {
    let ground = Ground::new();
    let wake_ups = ground.wake_ups();
    let mut waiting: Vec<_> =
        (0..4).map(|_| wait_beside(wake_ups.waiter("a").unwrap(), Some(1500))).collect();
    until("one has told", || format!("{wake_ups:?}").contains("due_ms: Some(1500)"));
    ground.clock.store(1500, Ordering::SeqCst);
    // Each says that it found a job, so that all look, one after the other.
    until("all have looked", || waiting.iter().all(std::thread::JoinHandle::is_finished));
    assert!(waiting.drain(..).all(|it| it.join().unwrap() == Woken::Look));
}

#[test]
fn what_is_due_wakes_only_one_that_finds_nothing() {
    let ground = Ground::new();
    let wake_ups = ground.wake_ups();
    let mut first = wake_ups.waiter("a").unwrap();
    let mut second = wake_ups.waiter("a").unwrap();
    let past = Some(Instant::now());
    assert_eq!(first.wait(Some(1001), past), Woken::TimedOut);
    assert_eq!(second.wait(Some(1002), past), Woken::TimedOut);
    ground.clock.store(1003, Ordering::SeqCst);
    assert_eq!(first.wait(None, patience()), Woken::Look);
    assert_eq!(first.wait(None, past), Woken::TimedOut);
    assert_eq!(second.wait(None, past), Woken::TimedOut);
}

#[test]
fn the_thread_is_told_of_what_is_due_before_it_wakes() {
    let ground = Ground::new();
    let wake_ups = ground.wake_ups();
    let mut waiter = wake_ups.waiter("a").unwrap();
    let wakes_within = |time: Duration| {
        let state = lock(&wake_ups.shared.state);
        state.listener.as_ref().unwrap().wakes_at <= Instant::now() + time
    };
    until("it sleeps for long", || !wakes_within(Duration::from_millis(500)));
    assert_eq!(waiter.wait(Some(1050), Some(Instant::now())), Woken::TimedOut);
    assert!(wakes_within(Duration::from_millis(50)));
}

#[test]
fn a_clock_that_is_set_back_sends_a_waiter_to_look() {
    let ground = Ground::new();
    let wake_ups = ground.wake_ups();
    // Only a look measures the times anew: until then nothing is due for more than an hour.
    let waiting = wait_beside(wake_ups.waiter("a").unwrap(), Some(1100));
    ground.clock.store(-5_000_000, Ordering::SeqCst);
    assert_eq!(waiting.join().unwrap(), Woken::Look);
}

#[test]
fn a_queue_that_is_always_due_is_not_looked_at_all_the_time() {
    let ground = Ground::new();
    let wake_ups = ground.wake_ups();
    let mut waiter = wake_ups.waiter("a").unwrap();
    let deadline = Some(Instant::now() + Duration::from_millis(100));
    assert_eq!(waiter.wait(Some(1), deadline), Woken::Look, "it may have become due just now");
    let mut looks = 1;
    while waiter.wait(Some(1), deadline) == Woken::Look {
        looks += 1;
    }
    // 0 + 1 + 2 + … + 64 ms is more than 100 ms.
    assert!(looks <= 8, "{looks}");
    assert_eq!(waiter.wait(Some(1001), deadline), Woken::TimedOut);
    assert_eq!(waiter.wait(Some(1), deadline), Woken::Look, "this is another time");
}

#[test]
fn one_waiter_can_be_called_away() {
    let ground = Ground::new();
    let wake_ups = ground.wake_ups();
    let (first, mut other) = (wake_ups.waiter("a").unwrap(), wake_ups.waiter("a").unwrap());
    let ender = first.wait_ender();
    let waiting = wait_beside(first, None);
    ender.clone().end_wait();
    assert_eq!(waiting.join().unwrap(), Woken::Look);
    assert_eq!(other.wait(None, Some(Instant::now())), Woken::TimedOut);
    other.wait_ender().end_wait();
    assert_eq!(other.wait(None, patience()), Woken::Look, "the next wait too");
    // Long gone.
    ender.end_wait();
}

#[test]
fn closing_ends_all_waits_and_leaves_nothing() {
    let ground = Ground::new();
    let wake_ups = ground.wake_ups();
    let waiting: Vec<_> = (0..4)
        .map(|number| wait_beside(wake_ups.waiter(["a", "b"][number % 2]).unwrap(), None))
        .collect();
    wake_ups.close();
    assert!(waiting.into_iter().all(|it| it.join().unwrap() == Woken::Closed));
    assert!(!has_thread(&wake_ups));
    assert!(!ground.sockets_folder().exists());
    let mut late = wake_ups.waiter("a").unwrap();
    wake_ups.wake("a", 1);
    assert_eq!(late.wait(Some(1), None), Woken::Closed);
    assert!(!has_thread(&wake_ups));
    wake_ups.close();
}

#[test]
fn the_thread_ends_when_no_thread_waits_and_comes_again() {
    let ground = Ground::new();
    let wake_ups = ground.wake_ups();
    for _ in 0..2 {
        drop(wake_ups.waiter("a").unwrap());
        assert!(has_thread(&wake_ups), "it lingers");
        until("the thread ends", || !has_thread(&wake_ups));
        until("its folder is gone", || !ground.sockets_folder().exists());
    }
    drop(wake_ups);
}

/// Invariant 5: how often the thread wakes while many wait and nothing happens.
#[test]
fn an_idle_consumer_sleeps() {
    let ground = Ground::new();
    let wake_ups = ground.usual_wake_ups();
    let begun = Instant::now();
    let looks = AtomicU64::new(0);
    std::thread::scope(|scope| {
        for number in 0..16 {
            let (wake_ups, looks) = (&wake_ups, &looks);
            let mut waiter = wake_ups.waiter(["a", "b", "c"][number % 3]).unwrap();
            scope.spawn(move || {
                while waiter.wait(Some(9_000_000), patience()) == Woken::Look {
                    looks.fetch_add(1, Ordering::SeqCst);
                }
            });
        }
        std::thread::sleep(Duration::from_millis(2500));
        let woken = wakes(&wake_ups);
        wake_ups.close();
        let every = if cfg!(unix) { LOOK_EVERY } else { LOOK_EVERY_DEAF };
        // And once or twice to hear of what is due.
        let allowed = begun.elapsed().div_duration_f64(every) as u64 + 3;
        assert!(woken <= allowed, "{woken} wake-ups, allowed {allowed}");
    });
    // One of each queue, when the database was seen for the first time.
    assert!(looks.load(Ordering::SeqCst) <= 3, "{looks:?}");
}

#[test]
fn a_writer_that_sends_no_wake_up_is_noticed() {
    let ground = Ground::new();
    let wake_ups = ground.usual_wake_ups();
    let mut waiter = wake_ups.waiter("a").unwrap();
    // The first look of all knows nothing yet.
    assert_eq!(waiter.wait(None, patience()), Woken::Look);
    let still = Instant::now() + Duration::from_millis(1100);
    assert_eq!(waiter.wait(None, Some(still)), Woken::TimedOut, "there was no write");
    let foreign = Connection::open(ground.database()).unwrap();
    foreign.execute_batch("INSERT INTO job DEFAULT VALUES").unwrap();
    assert_eq!(waiter.wait(None, patience()), Woken::Look);
}

#[test]
fn a_database_that_cannot_be_read_is_looked_at_all_the_same() {
    let ground = Ground::new();
    let wake_ups = WakeUps::new(
        &ground.folder.path().join("nowhere").join("app.db"),
        Some("no such VFS"),
        ground.now_ms(),
    );
    let mut waiter = wake_ups.waiter("a").unwrap();
    assert_eq!(waiter.wait(None, patience()), Woken::Look);
    assert_eq!(waiter.wait(None, patience()), Woken::Look);
    wake_ups.wake("a", 1);
    assert_eq!(waiter.wait(None, patience()), Woken::Look);
}

/// A waker that polls its task at once, and ends it: with it goes the last handle.
struct Ends {
    task: Mutex<Option<(Waiter, Arc<WakeUps>)>>,
    ended: Mutex<Sender<()>>,
}

impl Wake for Ends {
    fn wake(self: Arc<Self>) {
        drop(lock(&self.task).take());
        lock(&self.ended).send(()).unwrap();
    }
}

#[test]
fn the_last_handle_may_be_dropped_on_the_wake_up_thread() {
    let ground = Ground::new();
    let wake_ups = ground.wake_ups();
    let mut waiter = wake_ups.waiter("a").unwrap();
    let (ended, has_ended) = channel();
    let ends = Arc::new(Ends { task: Mutex::default(), ended: Mutex::new(ended) });
    waiter.begin_polls(None);
    let mut task = lock(&ends.task);
    let deadline = Instant::now().checked_add(Duration::from_millis(20));
    let polled = waiter.poll(deadline, &Waker::from(Arc::clone(&ends)));
    assert!(polled.is_pending());
    *task = Some((waiter, wake_ups));
    drop(task);
    has_ended.recv_timeout(Duration::from_secs(60)).expect("it does not wait for itself");
}
