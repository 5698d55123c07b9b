//! One short sequence for each promise, by the same two as the random ones: a
//! reader finds here what a promise means, and the model is held to it.

use super::model::{Lost, Retry, Rules, Scope};
use super::operations::{Answer, Door, End, Operation, Transaction, Wish};
use super::oracle::Pair;

fn plain() -> Rules {
    Rules {
        lease_ms: 100,
        attempts_max: 3,
        backoff_first_ms: 10,
        backoff_factor: 2.0,
        backoff_max_ms: 25,
        jitter: 0.0,
        keep_done_ms: 0,
        keep_dead_ms: None,
        concurrency: None,
        group_concurrency: 1,
        rate: None,
        group_rate: None,
    }
}

/// The queue and the model, which must agree at each step.
struct Both(Pair);

impl Both {
    fn new(rules: Rules) -> Self {
        Self(Pair::new(&[rules, plain()]))
    }

    fn step(&mut self, operation: &Operation) -> Answer {
        let answer = self.0.step(operation).unwrap_or_else(|story| panic!("{story}"));
        self.0.look().unwrap_or_else(|story| panic!("{story}"));
        answer
    }

    fn push(&mut self, wish: Wish) -> (i64, bool) {
        match self.step(&Operation::Push(0, Door::Push, wish)) {
            Answer::Pushed(pushed) => pushed[0],
            other => panic!("{other:?}"),
        }
    }

    /// The ids of the jobs that were claimed, in their order.
    fn claim(&mut self, jobs_max: usize) -> Vec<i64> {
        match self.step(&Operation::Claim { queue: 0, jobs_max, lease_ms: None }) {
            Answer::Claimed(claimed) => claimed.iter().map(|claimed| claimed.token.job).collect(),
            other => panic!("{other:?}"),
        }
    }

    /// Settles the claim before so many others.
    fn ack(&mut self, pick: usize) -> Result<(), Lost> {
        match self.step(&Operation::Ack(pick)) {
            Answer::Settled(settled) => settled[0],
            other => panic!("{other:?}"),
        }
    }

    /// In how long the last claim's job comes again. None: never.
    fn nack(&mut self) -> Option<i64> {
        let now_ms = self.0.model.now_ms;
        match self.step(&Operation::Nack { pick: 0, delay_ms: None }) {
            Answer::Retried(Ok(Retry::Between(at_ms, _))) => Some(at_ms - now_ms),
            Answer::Retried(Ok(Retry::Dead)) => None,
            other => panic!("{other:?}"),
        }
    }

    fn pass(&mut self, time_ms: i64) {
        self.step(&Operation::Pass(time_ms));
    }
}

fn grouped() -> Wish {
    Wish { group: Some("g0"), ..Wish::default() }
}

fn unique(scope: Scope) -> Wish {
    Wish { unique: Some(("k0", scope, 50)), ..Wish::default() }
}

#[test]
fn jobs_go_by_priority_and_then_in_the_order_of_their_pushes() {
    let mut both = Both::new(plain());
    for priority in [0, 2, -1, 2, 0] {
        both.push(Wish { priority, ..Wish::default() });
    }
    assert_eq!(both.claim(3), [2, 4, 1]);
    assert_eq!(both.claim(3), [5, 3]);
    assert_eq!(both.claim(3), [0; 0]);
}

#[test]
fn a_group_keeps_its_order_while_its_first_job_is_tried_again() {
    let mut both = Both::new(plain());
    for _ in 0..3 {
        both.push(grouped());
    }
    both.push(Wish::default());
    assert_eq!(both.claim(4), [1, 4]);
    both.step(&Operation::Nack { pick: 1, delay_ms: Some(20) });
    assert_eq!(both.claim(4), [0; 0], "the second must not overtake the first");
    both.pass(20);
    assert_eq!(both.claim(4), [1]);
    both.ack(0).expect("a good token");
    assert_eq!(both.claim(4), [2]);
    both.step(&Operation::Fail(0));
    assert_eq!(both.claim(4), [3], "a dead letter holds no job up");
}

#[test]
fn a_late_token_is_told_what_happened() {
    let mut both = Both::new(plain());
    both.push(Wish::default());
    both.claim(1);
    both.pass(99);
    both.step(&Operation::Extend(0, 50));
    both.pass(50);
    assert_eq!(both.ack(0), Err(Lost::Expired), "a lease ends with its last millisecond");
    assert_eq!(both.claim(1), [1]);
    assert_eq!(both.ack(1), Err(Lost::ClaimedAgain));
    both.step(&Operation::Release(0));
    assert_eq!(both.ack(0), Err(Lost::GivenBack));
    assert_eq!(both.claim(1), [1]);
    both.ack(0).expect("a good token");
    assert_eq!(both.ack(0), Err(Lost::Settled));
    assert_eq!(both.ack(2), Err(Lost::Settled));
    assert_eq!(both.ack(40), Err(Lost::NeverGiven), "there never was such a claim");
    both.pass(1_000);
    assert_eq!(both.claim(1), [0; 0]);
}

#[test]
fn a_key_is_held_while_its_job_waits() {
    let mut both = Both::new(plain());
    assert_eq!(both.push(unique(Scope::Waiting)), (1, true));
    assert_eq!(both.push(unique(Scope::Waiting)), (1, false));
    both.claim(1);
    assert_eq!(both.push(unique(Scope::Waiting)), (2, true));
    both.step(&Operation::Release(0));
    assert_eq!(both.push(unique(Scope::Waiting)), (2, false), "the first came back too late");
    assert_eq!(both.claim(2), [1, 2]);
    both.step(&Operation::Release(1));
    assert_eq!(both.push(unique(Scope::Waiting)), (1, false), "now it came back first");
}

#[test]
fn a_key_that_was_held_for_a_time_goes_back_to_the_job_that_had_it() {
    let mut both = Both::new(plain());
    both.push(unique(Scope::Waiting));
    both.claim(1);
    assert_eq!(both.push(unique(Scope::Time)), (2, true));
    both.pass(50);
    both.step(&Operation::Release(0));
    assert_eq!(both.push(unique(Scope::Waiting)), (1, false));
}

#[test]
fn a_lease_that_was_extended_after_the_clock_was_set_back_is_kept() {
    let mut both = Both::new(plain());
    both.push(Wish::default());
    both.claim(1);
    both.step(&Operation::SetClock(-3_600_000));
    both.step(&Operation::Extend(0, 60));
    both.pass(59);
    assert_eq!(both.claim(1), [0; 0]);
    both.ack(0).expect("the lease was extended");
}

#[test]
fn a_key_is_held_until_its_job_ends() {
    let mut both = Both::new(plain());
    both.push(unique(Scope::WaitingOrRunning));
    both.claim(1);
    assert_eq!(both.push(unique(Scope::WaitingOrRunning)), (1, false));
    both.step(&Operation::Nack { pick: 0, delay_ms: Some(5) });
    assert_eq!(both.push(unique(Scope::Waiting)), (1, false));
    both.pass(5);
    both.claim(1);
    both.ack(0).expect("a good token");
    assert_eq!(both.push(unique(Scope::WaitingOrRunning)), (2, true));
}

#[test]
fn a_key_is_held_for_a_time_whatever_becomes_of_its_job() {
    let mut both = Both::new(plain());
    both.push(unique(Scope::Time));
    both.claim(1);
    both.ack(0).expect("a good token");
    both.pass(49);
    assert_eq!(both.push(unique(Scope::Time)), (1, false));
    both.pass(1);
    assert_eq!(both.push(unique(Scope::Time)), (2, true));
}

#[test]
fn a_key_is_free_once_its_job_can_only_be_buried() {
    let mut both = Both::new(plain());
    let short = || Wish { expires_in_ms: Some(30), ..unique(Scope::Waiting) };
    both.push(short());
    both.pass(29);
    assert_eq!(both.push(short()), (1, false));
    both.pass(1);
    assert_eq!(both.push(short()), (2, true), "the first has expired");
    assert_eq!(both.claim(9), [2]);

    let last = || Wish { attempts_max: Some(1), ..unique(Scope::WaitingOrRunning) };
    both.push(last());
    assert_eq!(both.claim(9), [3]);
    both.pass(99);
    assert_eq!(both.push(last()), (3, false));
    both.pass(1);
    assert_eq!(both.push(last()), (4, true), "the last lease of the third has ended");

    let attempt = || Wish { expires_in_ms: Some(30), ..unique(Scope::WaitingOrRunning) };
    both.claim(9);
    both.ack(0).expect("a good token");
    both.push(attempt());
    both.claim(9);
    both.pass(99);
    assert_eq!(both.push(attempt()), (5, false), "it does not expire while it is leased");
    both.pass(1);
    assert_eq!(both.push(attempt()), (6, true), "it would come back, and expire");
}

#[test]
fn a_key_for_a_time_is_held_though_its_job_has_expired() {
    let mut both = Both::new(plain());
    let short = || Wish { expires_in_ms: Some(30), ..unique(Scope::Time) };
    both.push(short());
    both.pass(30);
    assert_eq!(both.push(short()), (1, false));
    assert_eq!(both.claim(9), [0; 0]);
    assert_eq!(both.push(short()), (1, false));
    both.pass(20);
    assert_eq!(both.push(short()), (2, true));
}

#[test]
fn a_job_waits_longer_after_each_attempt_and_dies_after_the_last() {
    let mut both = Both::new(Rules { attempts_max: 4, ..plain() });
    both.push(Wish::default());
    for wait_ms in [Some(10), Some(20), Some(25), None] {
        assert_eq!(both.claim(1), [1]);
        assert_eq!(both.nack(), wait_ms);
        both.pass(wait_ms.unwrap_or(1_000));
    }
    assert_eq!(both.claim(1), [0; 0]);
}

#[test]
fn a_job_whose_consumers_die_is_given_to_no_more_than_it_may_have() {
    let mut both = Both::new(plain());
    both.push(Wish { attempts_max: Some(2), ..grouped() });
    both.push(grouped());
    for _ in 0..2 {
        assert_eq!(both.claim(2), [1]);
        both.pass(100);
    }
    assert_eq!(both.claim(2), [2]);
}

#[test]
fn what_waits_too_long_is_a_dead_letter_and_what_runs_is_not() {
    let mut both = Both::new(plain());
    let short = Wish { expires_in_ms: Some(30), ..Wish::default() };
    both.push(Wish { group: Some("g0"), ..short.clone() });
    both.push(Wish { group: Some("g0"), ..short.clone() });
    both.push(grouped());
    both.push(Wish { when: super::operations::When::Delay(29), ..short });
    assert_eq!(both.claim(1), [1]);
    both.pass(30);
    assert_eq!(both.claim(4), [0; 0], "the second died behind the first, which runs");
    both.ack(0).expect("it does not expire while it is leased");
    assert_eq!(both.claim(4), [3], "no claim came while the fourth was due");
}

#[test]
fn a_rate_lets_so_many_through_at_once_and_then_one_by_one() {
    let rate = super::model::Rate { jobs: 2, per_ms: 100 };
    let mut both = Both::new(Rules { rate: Some(rate), lease_ms: 10_000, ..plain() });
    for _ in 0..6 {
        both.push(Wish::default());
    }
    assert_eq!(both.claim(9), [1, 2]);
    both.pass(49);
    assert_eq!(both.claim(9), [0; 0]);
    both.pass(1);
    assert_eq!(both.claim(9), [3]);
    both.pass(1_000);
    assert_eq!(both.claim(9), [4, 5], "no more than that, however long it was quiet");
}

#[test]
fn a_group_that_is_too_fast_waits_and_others_do_not() {
    let group_rate = Some(super::model::Rate { jobs: 1, per_ms: 20 });
    let mut both = Both::new(Rules { group_rate, group_concurrency: 3, ..plain() });
    both.push(grouped());
    both.push(grouped());
    both.push(Wish { group: Some("g1"), ..Wish::default() });
    both.push(Wish::default());
    assert_eq!(both.claim(9), [1, 3, 4]);
    both.pass(19);
    assert_eq!(both.claim(9), [0; 0]);
    both.pass(1);
    assert_eq!(both.claim(9), [2]);
}

#[test]
fn no_more_run_than_may_run_at_once() {
    let mut both = Both::new(Rules { concurrency: Some(2), ..plain() });
    for _ in 0..4 {
        both.push(Wish::default());
    }
    assert_eq!(both.claim(9), [1, 2]);
    assert_eq!(both.claim(9), [0; 0]);
    both.ack(0).expect("a good token");
    assert_eq!(both.claim(9), [3]);
    both.pass(100);
    assert_eq!(both.claim(9), [1, 3], "leases that have ended take up nothing");
}

#[test]
fn a_clock_set_back_does_not_hold_a_lease_for_hours() {
    let mut both = Both::new(plain());
    both.push(Wish::default());
    both.claim(1);
    both.step(&Operation::SetClock(-3_600_000));
    both.pass(99);
    assert_eq!(both.claim(1), [0; 0], "it is measured anew at the next claim");
    both.pass(99);
    assert_eq!(both.claim(1), [0; 0]);
    both.pass(1);
    assert_eq!(both.claim(1), [1]);
}

#[test]
fn a_clock_set_back_does_not_hold_a_key_for_hours() {
    let mut both = Both::new(plain());
    let wish = || Wish { unique: Some(("k0", Scope::Time, 100)), ..Wish::default() };
    both.push(wish());
    both.step(&Operation::SetClock(-3_600_000));
    assert_eq!(both.push(wish()), (1, false), "its time begins anew");
    both.pass(99);
    assert_eq!(both.push(wish()), (1, false));
    both.pass(1);
    assert_eq!(both.push(wish()), (2, true));
}

#[test]
fn a_lease_that_was_extended_while_the_clock_was_ahead_is_no_longer_for_it() {
    let mut both = Both::new(plain());
    both.push(Wish::default());
    both.claim(1);
    both.step(&Operation::Extend(0, 7_200_000));
    both.step(&Operation::SetClock(3_600_000));
    both.step(&Operation::Extend(0, 50));
    both.step(&Operation::SetClock(-3_599_000));
    assert_eq!(both.claim(1), [0; 0]);
    both.pass(50);
    assert_eq!(both.claim(1), [1]);
}

#[test]
fn a_dead_letter_starts_again_behind_its_group() {
    let mut both = Both::new(Rules { attempts_max: 1, ..plain() });
    let wish = Wish { unique: Some(("k0", Scope::WaitingOrRunning, 0)), ..grouped() };
    both.push(wish);
    both.push(grouped());
    both.claim(1);
    assert_eq!(both.nack(), None);
    assert_eq!(both.claim(1), [2]);
    assert_eq!(both.step(&Operation::Retry(1)), Answer::Found(1));
    assert_eq!(both.step(&Operation::Retry(1)), Answer::Found(0), "it is no dead letter now");
    assert_eq!(both.push(unique(Scope::Waiting)), (1, false), "it has its key again");
    assert_eq!(both.claim(1), [0; 0]);
    both.ack(0).expect("a good token");
    assert_eq!(both.claim(1), [1], "with its attempt before it");
}

#[test]
fn a_job_that_is_removed_makes_room_and_its_consumer_is_told() {
    let mut both = Both::new(plain());
    both.push(grouped());
    both.push(grouped());
    both.claim(1);
    assert_eq!(both.step(&Operation::Remove(1)), Answer::Found(1));
    assert_eq!(both.ack(0), Err(Lost::Settled));
    assert_eq!(both.claim(1), [2]);
}

#[test]
fn a_queue_transaction_acks_and_pushes_all_or_nothing() {
    let mut both = Both::new(plain());
    both.push(Wish::default());
    let mut transaction = Transaction {
        from: 0,
        jobs_max: 2,
        expiry_ms: 20,
        pass_ms: 20,
        to: 1,
        wishes: vec![Wish::default(), grouped()],
        end: End::Commits,
    };
    let mut pushed =
        |transaction: &Transaction| match both.step(&Operation::Transaction(transaction.clone())) {
            Answer::Transacted(claimed, pushed) => (claimed.len(), pushed),
            other => panic!("{other:?}"),
        };
    assert_eq!(pushed(&transaction), (1, None), "it expired");
    transaction.pass_ms = 19;
    transaction.end = End::GivesUp;
    assert_eq!(pushed(&transaction), (1, None));
    transaction.end = End::Commits;
    assert_eq!(pushed(&transaction), (1, Some(vec![(2, true), (3, true)])));
    assert_eq!(both.claim(9), [0; 0]);
}

#[test]
fn a_clock_set_forwards_ends_leases_early_and_keeps_order() {
    let mut both = Both::new(plain());
    both.push(grouped());
    both.push(grouped());
    both.claim(1);
    both.step(&Operation::SetClock(3_600_000));
    assert_eq!(both.claim(2), [1]);
    assert_eq!(both.ack(1), Err(Lost::ClaimedAgain));
    both.ack(0).expect("a good token");
    assert_eq!(both.claim(2), [2]);
}

#[test]
fn all_is_there_after_the_writer_was_closed() {
    let mut both = Both::new(plain());
    both.push(grouped());
    both.push(grouped());
    both.push(unique(Scope::Waiting));
    both.claim(1);
    both.step(&Operation::Pause(0));
    both.step(&Operation::Reopen);
    assert_eq!(both.claim(9), [0; 0], "it is paused still");
    both.step(&Operation::Resume(0));
    both.ack(0).expect("the token is good still");
    assert_eq!(both.push(unique(Scope::Waiting)), (3, false));
    assert_eq!(both.claim(9), [2, 3]);
}

#[test]
fn a_job_is_there_exactly_if_the_applications_row_is() {
    let mut both = Both::new(plain());
    for door in [Door::Closure, Door::OwnConnection] {
        for end in [End::GivesUp, End::Commits] {
            both.step(&Operation::Push(0, door(end), grouped()));
        }
    }
    let keyed = Operation::Push(0, Door::OwnConnection(End::Commits), unique(Scope::Waiting));
    assert_eq!(both.step(&keyed), Answer::Pushed(vec![(3, true)]));
    assert_eq!(both.step(&keyed), Answer::Pushed(vec![(3, false)]));
    assert_eq!(both.claim(9), [1, 3]);
    assert_eq!(both.0.model.notes, [1, 2, 3, 3]);
}
