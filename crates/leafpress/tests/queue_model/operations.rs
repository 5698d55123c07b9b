//! The calls of a queue, at random, and their answers.
//!
//! Names of jobs and tokens are not known when a sequence is made, so they are
//! *picks*: how far back among those that were seen. Collisions are wanted: two
//! queues, two groups, three keys, leases as short as the steps of the clock.
//!
//! Must never: depend on what the queue answers, or a shrunk sequence would not
//! be the same sequence any more.

use proptest::prelude::*;

use super::claiming::Claimed;
use super::model::{Lost, Millis, Rate, Retry, Rules, Scope, State, Token};

pub const QUEUES: [&str; 2] = ["mail", "bill"];
const GROUPS: [&str; 2] = ["g0", "g1"];
const STATES: [State; 6] =
    [State::Ready, State::Leased, State::Delayed, State::Blocked, State::Done, State::Dead];
const KEYS: [&str; 3] = ["k0", "k1", "k2"];

/// A token or a job, by how many came after it; past the first, one that never was.
pub type Pick = usize;

/// A job, with times from the moment at which it is pushed.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Wish {
    pub priority: i32,
    pub when: When,
    pub group: Option<&'static str>,
    /// Key, scope, and how long where the scope is a time.
    pub unique: Option<(&'static str, Scope, i64)>,
    pub attempts_max: Option<u32>,
    pub expires_in_ms: Option<i64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum When {
    #[default]
    Now,
    /// So long from now.
    Delay(i64),
    /// A moment on the calendar, so far from now; it may have gone by.
    Due(i64),
}

impl When {
    /// Time from now until the job is due.
    fn wait_ms(self) -> i64 {
        match self {
            Self::Now => 0,
            Self::Delay(wait_ms) | Self::Due(wait_ms) => wait_ms.max(0),
        }
    }
}

impl Wish {
    /// What can be pushed without the queue's clock: others may hold its key for
    /// a time.
    fn timeless(self) -> Self {
        Self { when: When::Now, expires_in_ms: None, unique: None, ..self }
    }
}

/// By which door a single job goes in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Door {
    Push,
    Submit,
    /// In a closure of the Writer, beside a row of the application.
    Closure(End),
    /// In a transaction of the application's own connection, which knows only
    /// the system's clock.
    OwnConnection(End),
}

/// How the application's transaction ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    Commits,
    GivesUp,
}

/// What of a queue's settings is changed.
#[derive(Debug, Clone, PartialEq)]
pub enum Change {
    Concurrency(Option<u32>),
    GroupConcurrency(u32),
    AttemptsMax(u32),
    KeepDone(i64),
    KeepDead(Option<i64>),
    Rate(Option<Rate>),
    GroupRate(Option<Rate>),
}

/// Claims and pushes as one, with an expiry, and what the claimer does meanwhile:
/// nothing, for so long.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Transaction {
    pub from: usize,
    pub jobs_max: usize,
    pub expiry_ms: i64,
    pub pass_ms: i64,
    pub to: usize,
    pub wishes: Vec<Wish>,
    pub end: End,
}

#[derive(Debug, Clone, PartialEq)]
pub enum Operation {
    Push(usize, Door, Wish),
    PushMany(usize, Vec<Wish>),
    Claim {
        queue: usize,
        jobs_max: usize,
        lease_ms: Option<i64>,
    },
    Ack(Pick),
    AckWith(Pick),
    AckMany(Vec<Pick>),
    Nack {
        pick: Pick,
        delay_ms: Option<i64>,
    },
    Fail(Pick),
    Release(Pick),
    Extend(Pick, i64),
    ExtendMany(Vec<Pick>, i64),
    Pause(usize),
    Resume(usize),
    Retry(Pick),
    Remove(Pick),
    /// All of the queue that are in this state.
    Purge(usize, State),
    Configure(usize, Change),
    Transaction(Transaction),
    /// Time goes by.
    Pass(i64),
    /// The clock is set.
    SetClock(i64),
    Reopen,
}

/// What came of an operation, in the words of both the queue and the model.
#[derive(Debug, Clone, PartialEq)]
pub enum Answer {
    Nothing,
    Pushed(Vec<(i64, bool)>),
    Claimed(Vec<Claimed>),
    /// One for each token.
    Settled(Vec<Result<(), Lost>>),
    Extended(Vec<Result<Millis, Lost>>),
    Retried(Result<Retry, Lost>),
    /// How many jobs there were.
    Found(u64),
    /// What was claimed, and what became of the pushes if it was committed.
    Transacted(Vec<Claimed>, Option<Vec<(i64, bool)>>),
}

impl Answer {
    /// Whether this, the queue's, is what the model allows.
    pub fn is_allowed_by(&self, allowed: &Self) -> bool {
        match (self, allowed) {
            (
                Self::Retried(Ok(Retry::Between(at, also_at))),
                Self::Retried(Ok(Retry::Between(low, high))),
            ) => at == also_at && low <= at && at <= high,
            _ => self == allowed,
        }
    }
}

/// What was seen so far, so that a pick can be resolved.
#[derive(Debug, Default)]
pub struct Seen {
    pub tokens: Vec<Token>,
    pub last_job: i64,
}

impl Seen {
    pub fn token(&self, pick: Pick) -> Token {
        let never_was = Token { job: 1_000_000, claim: 1 };
        let at = self.tokens.len().checked_sub(pick + 1);
        at.map_or(never_was, |at| self.tokens[at])
    }

    pub fn job(&self, pick: Pick) -> i64 {
        self.last_job - pick as i64
    }
}

fn queue() -> impl Strategy<Value = usize> {
    prop_oneof![4 => Just(0), 1 => Just(1)]
}

/// Mostly the last few.
fn pick() -> impl Strategy<Value = Pick> {
    prop_oneof![6 => 0..3_usize, 2 => 0..8_usize, 1 => 0..40_usize]
}

fn when() -> impl Strategy<Value = When> {
    prop_oneof![
        6 => Just(When::Now),
        2 => (0..30_i64).prop_map(When::Delay),
        2 => (-10..30_i64).prop_map(When::Due),
    ]
}

fn unique() -> impl Strategy<Value = (&'static str, Scope, i64)> {
    let scope = prop_oneof![Just(Scope::Waiting), Just(Scope::WaitingOrRunning), Just(Scope::Time)];
    (prop::sample::select(&KEYS[..]), scope, 1..40_i64)
}

fn wish() -> impl Strategy<Value = Wish> {
    (
        prop_oneof![3 => Just(0), 1 => -1..3_i32],
        when(),
        prop::option::weighted(0.6, prop::sample::select(&GROUPS[..])),
        prop::option::weighted(0.3, unique()),
        prop::option::weighted(0.2, 1..4_u32),
        prop::option::weighted(0.2, 1..40_i64),
    )
        .prop_map(|(priority, when, group, unique, attempts_max, expires_in_ms)| Wish {
            priority,
            when,
            group,
            unique,
            attempts_max,
            // After it is due: others are refused.
            expires_in_ms: expires_in_ms.map(|time_ms| time_ms + when.wait_ms()),
        })
}

fn door() -> impl Strategy<Value = Door> {
    let end = || prop_oneof![3 => Just(End::Commits), 1 => Just(End::GivesUp)];
    prop_oneof![
        6 => Just(Door::Push),
        1 => Just(Door::Submit),
        2 => end().prop_map(Door::Closure),
        1 => end().prop_map(Door::OwnConnection),
    ]
}

fn rate() -> impl Strategy<Value = Option<Rate>> {
    prop::option::of((1..4_u32, 5..60_i64).prop_map(|(jobs, per_ms)| Rate { jobs, per_ms }))
}

fn change() -> impl Strategy<Value = Change> {
    prop_oneof![
        prop::option::of(1..4_u32).prop_map(Change::Concurrency),
        (1..4_u32).prop_map(Change::GroupConcurrency),
        (1..4_u32).prop_map(Change::AttemptsMax),
        prop_oneof![Just(0), 1..50_i64].prop_map(Change::KeepDone),
        prop::option::of(1..50_i64).prop_map(Change::KeepDead),
        rate().prop_map(Change::Rate),
        rate().prop_map(Change::GroupRate),
    ]
}

fn settle() -> impl Strategy<Value = Operation> {
    let lease = || 1..40_i64;
    let picks = || prop::collection::vec(pick(), 1..5);
    prop_oneof![
        4 => pick().prop_map(Operation::Ack),
        1 => pick().prop_map(Operation::AckWith),
        2 => picks().prop_map(Operation::AckMany),
        3 => (pick(), prop::option::of(0..30_i64))
            .prop_map(|(pick, delay_ms)| Operation::Nack { pick, delay_ms }),
        1 => pick().prop_map(Operation::Fail),
        2 => pick().prop_map(Operation::Release),
        1 => (pick(), lease()).prop_map(|(pick, lease)| Operation::Extend(pick, lease)),
        1 => (picks(), lease()).prop_map(|(picks, lease)| Operation::ExtendMany(picks, lease)),
    ]
}

fn transaction() -> impl Strategy<Value = Operation> {
    let end = prop_oneof![3 => Just(End::Commits), 1 => Just(End::GivesUp)];
    let wishes = prop::collection::vec(wish(), 0..3);
    let times = (1..30_i64, prop_oneof![2 => Just(0), 1 => 0..40_i64]);
    (queue(), 0..3_usize, times, queue(), wishes, end).prop_map(
        |(from, jobs_max, (expiry_ms, pass_ms), to, wishes, end)| {
            Operation::Transaction(Transaction {
                from,
                jobs_max,
                expiry_ms,
                pass_ms,
                to,
                wishes,
                end,
            })
        },
    )
}

fn rare() -> impl Strategy<Value = Operation> {
    let hour = 3_600_000_i64;
    prop_oneof![
        1 => queue().prop_map(Operation::Pause),
        2 => queue().prop_map(Operation::Resume),
        3 => pick().prop_map(Operation::Retry),
        2 => pick().prop_map(Operation::Remove),
        1 => (queue(), prop::sample::select(&STATES[..]))
            .prop_map(|(queue, state)| Operation::Purge(queue, state)),
        3 => (queue(), change()).prop_map(|(queue, change)| Operation::Configure(queue, change)),
        1 => (-hour..hour).prop_map(Operation::SetClock),
        2 => (-3_000..3_000_i64).prop_map(Operation::SetClock),
        1 => (-30..30_i64).prop_map(Operation::SetClock),
        1 => (40..hour).prop_map(Operation::Pass),
        1 => Just(Operation::Reopen),
    ]
}

pub fn operation() -> impl Strategy<Value = Operation> {
    prop_oneof![
        8 => (queue(), door(), wish()).prop_map(|(queue, door, wish)| match door {
            Door::OwnConnection(_) => Operation::Push(queue, door, wish.timeless()),
            _ => Operation::Push(queue, door, wish),
        }),
        2 => (queue(), prop::collection::vec(wish(), 0..6))
            .prop_map(|(queue, wishes)| Operation::PushMany(queue, wishes)),
        8 => (queue(), 1..4_usize, prop::option::of(1..40_i64))
            .prop_map(|(queue, jobs_max, lease_ms)| Operation::Claim { queue, jobs_max, lease_ms }),
        8 => settle(),
        2 => transaction(),
        5 => (0..12_i64).prop_map(Operation::Pass),
        2 => rare(),
    ]
}

/// What a queue is told at its beginning: one of the plain ones more often.
pub fn rules() -> impl Strategy<Value = Rules> {
    let limits = (
        prop::option::weighted(0.2, 1..4_u32),
        prop_oneof![4 => Just(1), 1 => 2..4_u32],
        prop_oneof![3 => Just(None), 1 => rate()],
        prop_oneof![3 => Just(None), 1 => rate()],
    );
    let backoff = (1..10_i64, 1.0..3.0_f64, 5..40_i64, prop_oneof![Just(0.0), 0.0..1.0_f64]);
    let kept = (
        prop_oneof![2 => Just(0), 1 => 1..60_i64],
        prop_oneof![1 => Just(None), 1 => (1..60_i64).prop_map(Some)],
    );
    (1..40_i64, 1..5_u32, backoff, kept, limits).prop_map(
        |(lease_ms, attempts_max, (first, factor, max, jitter), kept, limits)| Rules {
            lease_ms,
            attempts_max,
            backoff_first_ms: first,
            backoff_factor: factor,
            backoff_max_ms: max.max(first),
            jitter,
            keep_done_ms: kept.0,
            keep_dead_ms: kept.1,
            concurrency: limits.0,
            group_concurrency: limits.1,
            rate: limits.2,
            group_rate: limits.3,
        },
    )
}
