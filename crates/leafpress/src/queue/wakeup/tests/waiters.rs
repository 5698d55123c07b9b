//! The numbers: the waiters that may look, and the next one.

use std::task::Waker;

use proptest::prelude::*;

use super::super::message;
use super::super::waiters::{Permit, Waiters};

const QUEUE: &str = "letters";

fn with_waiters(waiters: usize) -> Waiters {
    let mut by_queue = Waiters::default();
    for _ in 0..waiters {
        by_queue.enter(QUEUE);
    }
    by_queue
}

fn taken(by_queue: &mut Waiters) -> Vec<Permit> {
    std::iter::from_fn(|| by_queue.take(QUEUE)).collect()
}

#[test]
fn as_many_may_look_as_there_are_jobs_or_waiters() {
    let mut by_queue = with_waiters(3);
    by_queue.wake(QUEUE, 2);
    assert_eq!(taken(&mut by_queue), [Permit::Job; 2]);
    by_queue.wake(QUEUE, 2);
    by_queue.wake(QUEUE, u32::MAX);
    assert_eq!(taken(&mut by_queue), [Permit::Job; 3]);
    by_queue.wake("parcels", 1);
    assert_eq!(taken(&mut by_queue), []);
}

#[test]
fn another_process_wakes_by_the_hash() {
    let mut by_queue = with_waiters(2);
    by_queue.wake_by_hash(message::hash("parcels"), 1);
    by_queue.wake_by_hash(message::hash(QUEUE), 1);
    assert_eq!(taken(&mut by_queue), [Permit::Job]);
}

#[test]
fn a_permit_that_is_not_used_goes_to_the_next() {
    let mut by_queue = with_waiters(2);
    by_queue.wake(QUEUE, 1);
    let permit = by_queue.take(QUEUE);
    by_queue.leave(QUEUE, None, permit);
    assert_eq!(by_queue.take(QUEUE), Some(Permit::Job));
    by_queue.leave(QUEUE, None, None);
    assert!(by_queue.are_empty());
}

#[test]
fn who_leaves_takes_no_permit_along() {
    let mut by_queue = with_waiters(3);
    by_queue.wake(QUEUE, 1);
    by_queue.leave(QUEUE, None, None);
    by_queue.leave(QUEUE, None, None);
    assert_eq!(by_queue.take(QUEUE), Some(Permit::Job));
}

#[test]
fn a_task_that_leaves_is_not_woken_and_the_next_one_is() {
    let mut by_queue = with_waiters(2);
    let tasks = [by_queue.new_task(), by_queue.new_task()];
    for task in tasks {
        assert!(by_queue.sleep(QUEUE, task, Waker::noop().clone(), None).is_none());
    }
    assert!(by_queue.leave(QUEUE, Some(tasks[1]), None).is_some());
    assert_eq!(by_queue.take_awake().len(), 0);
    by_queue.wake(QUEUE, 1);
    assert_eq!(by_queue.take_awake().len(), 1);
}

#[test]
fn a_search_goes_on_until_nothing_is_found() {
    let mut by_queue = with_waiters(3);
    by_queue.search_all();
    assert_eq!(taken(&mut by_queue), [Permit::Search]);
    by_queue.search_beside(QUEUE);
    by_queue.leave(QUEUE, None, None);
    assert_eq!(taken(&mut by_queue), [Permit::Search]);
    by_queue.leave(QUEUE, None, Some(Permit::Search));
    assert_eq!(taken(&mut by_queue), [Permit::Search]);
    by_queue.search_beside(QUEUE);
    assert_eq!(taken(&mut by_queue), [], "there is no other waiter");
}

#[test]
fn a_search_is_not_lost_among_jobs() {
    let mut by_queue = with_waiters(2);
    by_queue.wake(QUEUE, 2);
    by_queue.search_all();
    assert_eq!(taken(&mut by_queue), [Permit::Search, Permit::Job]);
}

#[test]
fn what_is_due_sends_one() {
    let mut by_queue = with_waiters(3);
    by_queue.tell_due(QUEUE, 50);
    by_queue.tell_due(QUEUE, 40);
    by_queue.tell_due(QUEUE, 60);
    assert_eq!(by_queue.give_due(39), Some(40));
    assert_eq!(taken(&mut by_queue), []);
    assert_eq!(by_queue.give_due(40), None);
    assert_eq!(taken(&mut by_queue), [Permit::Search]);
    assert_eq!(by_queue.give_due(100), None, "the one who looks tells what is next");
    assert_eq!(taken(&mut by_queue), []);
}

#[derive(Debug, Clone)]
enum Step {
    Enter,
    Leave(Option<Permit>),
    Wake(u32),
    Search,
    SearchBeside,
    Take,
    TellDue(i64),
    GiveDue(i64),
}

fn any_step() -> impl Strategy<Value = Step> {
    let permit = prop_oneof![Just(None), Just(Some(Permit::Job)), Just(Some(Permit::Search))];
    prop_oneof![
        3 => Just(Step::Enter),
        2 => permit.prop_map(Step::Leave),
        2 => (0_u32..4).prop_map(Step::Wake),
        1 => Just(Step::Search),
        1 => Just(Step::SearchBeside),
        3 => Just(Step::Take),
        1 => (0_i64..20).prop_map(Step::TellDue),
        1 => (0_i64..20).prop_map(Step::GiveDue),
    ]
}

proptest! {
    /// Against a model: the number of permits is what was given and not taken,
    /// never more than there are waiters; the invariants are asserted inside.
    #[test]
    fn permits_are_counted(steps in prop::collection::vec(any_step(), 0..60)) {
        let mut by_queue = Waiters::default();
        let (mut waiters, mut permits, mut due_ms) = (0_u32, 0_u32, None::<i64>);
        for step in steps {
            match step {
                Step::Enter => {
                    by_queue.enter(QUEUE);
                    waiters += 1;
                }
                Step::Leave(unused) => {
                    by_queue.leave(QUEUE, None, unused);
                    waiters = waiters.saturating_sub(1);
                    permits = permits.min(waiters) + u32::from(unused.is_some());
                    due_ms = due_ms.filter(|_| waiters > 0);
                }
                Step::Wake(jobs) => {
                    by_queue.wake(QUEUE, jobs);
                    permits += jobs;
                }
                Step::Search => {
                    by_queue.search_all();
                    permits += 1;
                }
                Step::SearchBeside => {
                    by_queue.search_beside(QUEUE);
                    permits += u32::from(waiters > 1);
                }
                Step::Take => {
                    prop_assert_eq!(by_queue.take(QUEUE).is_some(), permits > 0);
                    permits = permits.saturating_sub(1);
                }
                Step::TellDue(at_ms) if waiters > 0 => {
                    by_queue.tell_due(QUEUE, at_ms);
                    due_ms = Some(due_ms.map_or(at_ms, |due_ms| due_ms.min(at_ms)));
                }
                Step::TellDue(at_ms) => by_queue.tell_due(QUEUE, at_ms),
                Step::GiveDue(now_ms) => {
                    permits += u32::from(due_ms.is_some_and(|due_ms| due_ms <= now_ms));
                    due_ms = due_ms.filter(|due_ms| *due_ms > now_ms);
                    prop_assert_eq!(by_queue.give_due(now_ms), due_ms);
                }
            }
            permits = permits.min(waiters);
            prop_assert_eq!(by_queue.are_empty(), waiters == 0);
        }
        prop_assert_eq!(taken(&mut by_queue).len(), permits as usize);
    }
}
