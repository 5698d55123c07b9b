//! Operations given to the queue itself, on a database of its own, with a clock
//! that only the test moves.

use std::time::{Duration, SystemTime};

use leafpress::queue::{
    Backoff, Claim, ClaimOptions, Clock, Job, JobState, LeaseLost, ManualClock, Nack, Payload,
    Purge, Pushed, Queue, Settings, UniqueFor, UnixTime,
};
use leafpress::writer::Writer;
use leafpress::{Error, ErrorKind, Profile, queue};
use rusqlite::Connection;
use tempfile::TempDir;

use super::carry_out::{ERROR, REASON, RESULT, change_rules, payload};
use super::claiming::Claimed;
use super::model::{Lost, Millis, Rate, Retry, Rules, Scope, State, Token};
use super::operations::{Answer, Door, End, Operation, QUEUES, Seen, Transaction, When, Wish};

/// Later than any clock that this will ever run under, so that what another
/// connection stamps with the system's clock is in the past.
pub const START_MS: Millis = 4_102_444_800_000;

pub struct System {
    clock: Clock,
    manual: ManualClock,
    opened: Option<(Writer, Vec<Queue>)>,
    /// The application's own.
    pub own: Connection,
    folder: TempDir,
}

impl System {
    pub fn new(rules: &[Rules]) -> Self {
        let folder = folder();
        let (clock, manual) = Clock::manual(START_MS);
        let writer = open_writer(&folder);
        writer.execute_batch("CREATE TABLE note(job INTEGER)").expect("a table");
        drop(writer);
        let own = Connection::open(folder.path().join("a.db")).expect("a connection");
        own.busy_timeout(Duration::from_secs(60)).expect("a setting");
        let mut system = Self { clock, manual, opened: None, own, folder };
        system.open(Some(rules));
        system
    }

    fn open(&mut self, rules: Option<&[Rules]>) {
        let writer = open_writer(&self.folder);
        let open = |(at, name): (usize, &&str)| {
            let mut builder = Queue::builder(&writer, name);
            if at == 0 {
                // Of all queues of the writer.
                builder = builder.clock(self.clock.clone());
            }
            if let Some(rules) = rules {
                let rules = rules[at].clone();
                builder = builder.settings(move |settings| set(settings, &rules));
            }
            builder.open().expect("a queue")
        };
        let queues = QUEUES.iter().enumerate().map(open).collect();
        self.opened = Some((writer, queues));
    }

    pub fn writer(&self) -> &Writer {
        &self.opened.as_ref().expect("it is open").0
    }

    pub fn queue(&self, at: usize) -> &Queue {
        &self.opened.as_ref().expect("it is open").1[at]
    }

    /// `number` is the first number for payloads that no job has had.
    pub fn carry_out(&mut self, operation: &Operation, seen: &Seen, number: u64) -> Answer {
        let token = |pick: &usize| ours(seen.token(*pick));
        match operation {
            Operation::Push(queue, door, wish) => self.push(*queue, *door, wish, number),
            Operation::PushMany(queue, wishes) => {
                let jobs = wishes.iter().zip(number..).map(|(wish, number)| self.job(wish, number));
                let pushed = self.queue(*queue).push_many(jobs.collect::<Vec<_>>());
                Answer::Pushed(pushed.expect("a push").iter().map(pushed_pair).collect())
            }
            Operation::Claim { queue, jobs_max, lease_ms } => {
                let mut options = ClaimOptions::new().jobs_max(*jobs_max).worker("w");
                if let Some(lease_ms) = lease_ms {
                    options = options.lease(ms(*lease_ms));
                }
                let claims = self.queue(*queue).claim_with(&options).expect("a claim");
                Answer::Claimed(claims.into_iter().map(|claim| claimed(claim, *queue)).collect())
            }
            Operation::Ack(pick) => settled([self.queue(0).ack(token(pick))]),
            Operation::AckWith(pick) => {
                let result = Payload::json_text(RESULT).expect("JSON");
                settled([self.queue(0).ack_with(token(pick), result)])
            }
            Operation::AckMany(picks) => {
                let tokens: Vec<_> = picks.iter().map(token).collect();
                settled(self.queue(0).ack_many(&tokens).expect("an answer for each"))
            }
            Operation::Nack { pick, delay_ms } => {
                let mut nack = Nack::new().error(ERROR);
                if let Some(delay_ms) = delay_ms {
                    nack = nack.delay(ms(*delay_ms));
                }
                Answer::Retried(lost(self.queue(0).nack(token(pick), nack)).map(retry))
            }
            Operation::Fail(pick) => settled([self.queue(0).fail(token(pick), REASON)]),
            Operation::Release(pick) => settled([self.queue(0).release(token(pick))]),
            Operation::Extend(pick, lease_ms) => Answer::Extended(vec![lost(
                self.queue(0).extend(token(pick), ms(*lease_ms)).map(UnixTime::as_ms),
            )]),
            Operation::ExtendMany(picks, lease_ms) => {
                let tokens: Vec<_> = picks.iter().map(token).collect();
                let extended = self.queue(0).extend_many(&tokens, ms(*lease_ms));
                let extended = extended.expect("an answer for each").into_iter();
                Answer::Extended(extended.map(|end| lost(end.map(UnixTime::as_ms))).collect())
            }
            Operation::Transaction(transaction) => self.transaction(transaction, number),
            other => self.carry_out_rare(other, seen),
        }
    }

    /// And lets the queue see it, as any operation does.
    fn move_clock(&self, step_ms: i64) {
        self.manual.advance_ms(step_ms);
        self.queue(0).settings().expect("a look");
    }

    fn carry_out_rare(&mut self, operation: &Operation, seen: &Seen) -> Answer {
        match operation {
            Operation::Pause(queue) => self.queue(*queue).pause().expect("a pause"),
            Operation::Resume(queue) => self.queue(*queue).resume().expect("its end"),
            Operation::Retry(pick) => {
                return Answer::Found(self.queue(0).retry(seen.job(*pick)).expect("a look").into());
            }
            Operation::Remove(pick) => {
                return Answer::Found(
                    self.queue(0).remove(seen.job(*pick)).expect("a look").into(),
                );
            }
            Operation::Purge(queue, state) => {
                let purge = Purge::new().states([job_state(*state)]);
                return Answer::Found(self.queue(*queue).purge(&purge).expect("a purge"));
            }
            Operation::Configure(queue, change) => {
                let change = change.clone();
                let configured = self.queue(*queue).configure(move |settings| {
                    let mut rules = get(settings);
                    change_rules(&mut rules, &change);
                    set(settings, &rules);
                });
                configured.expect("good settings");
            }
            Operation::Pass(step_ms) | Operation::SetClock(step_ms) => {
                self.move_clock(*step_ms);
            }
            Operation::Reopen => {
                self.opened = None;
                self.open(None);
            }
            _ => unreachable!("carried out above"),
        }
        Answer::Nothing
    }

    fn push(&self, at: usize, door: Door, wish: &Wish, number: u64) -> Answer {
        let job = self.job(wish, number);
        let queue = self.queue(at);
        let pushed = match door {
            Door::Push => queue.push(job).expect("a push"),
            Door::Submit => queue.submit_push(job).expect("a ticket").wait().expect("a push"),
            Door::Closure(end) => {
                let in_it = queue.clone();
                let pushed = self.writer().transaction(move |transaction| {
                    let pushed = in_it.push_in(transaction, job.clone())?;
                    transaction.execute("INSERT INTO note VALUES (?1)", [pushed.id])?;
                    match end {
                        End::Commits => Ok(pushed),
                        End::GivesUp => Err(Error::aborted("no")),
                    }
                });
                match (end, pushed) {
                    (End::Commits, pushed) => pushed.expect("a push"),
                    (End::GivesUp, pushed) => {
                        pushed.expect_err("it gave up");
                        return Answer::Nothing;
                    }
                }
            }
            Door::OwnConnection(end) => {
                self.own.execute_batch("BEGIN IMMEDIATE").expect("no connection writes");
                let pushed = Queue::push_on(&self.own, QUEUES[at], job).expect("a push");
                self.own.execute("INSERT INTO note VALUES (?1)", [pushed.id]).expect("a row");
                let last = if end == End::Commits { "COMMIT" } else { "ROLLBACK" };
                self.own.execute_batch(last).expect("the end");
                if end == End::GivesUp {
                    return Answer::Nothing;
                }
                pushed
            }
        };
        Answer::Pushed(vec![pushed_pair(&pushed)])
    }

    fn transaction(&self, transaction: &Transaction, number: u64) -> Answer {
        let Transaction { from, jobs_max, expiry_ms, pass_ms, to, wishes, end } = transaction;
        let mut open = self.queue(*from).begin(ms(*expiry_ms)).expect("a beginning");
        let claims = open.claim_many(*jobs_max).expect("a claim");
        let claimed = claims.into_iter().map(|claim| claimed(claim, *from)).collect();
        self.move_clock(*pass_ms);
        for (wish, number) in wishes.iter().zip(number..) {
            open.push_to(self.queue(*to), self.job(wish, number)).expect("the same writer");
        }
        let committed = match end {
            End::Commits => open.commit(),
            End::GivesUp => {
                drop(open);
                Err(Error::aborted("dropped"))
            }
        };
        // A drop gives back without waiting; calls take effect in their order.
        self.writer().transaction(|_| Ok(())).expect("nothing is done");
        let pushed = match committed {
            Ok(committed) => Some(committed.pushed.iter().map(pushed_pair).collect()),
            Err(error) => match error.kind() {
                ErrorKind::TransactionExpired { .. }
                | ErrorKind::LeaseLost { .. }
                | ErrorKind::NoSuchClaim { .. }
                | ErrorKind::Aborted(_) => None,
                other => panic!("{other}"),
            },
        };
        Answer::Transacted(claimed, pushed)
    }

    fn job(&self, wish: &Wish, number: u64) -> Job {
        let is_bytes = payload(number).starts_with("bytes");
        let job = if is_bytes { Ok(Job::bytes(number.to_string())) } else { Job::json(&number) };
        let mut job = job.expect("a number is JSON").priority(wish.priority);
        job = job.correlation_id(format!("c{number}")).metadata(&[number]).expect("JSON");
        job = match wish.when {
            When::Now => job,
            When::Delay(wait_ms) => job.delay(ms(wait_ms)),
            When::Due(wait_ms) => {
                let due_ms = self.manual.now_ms() + wait_ms;
                job.due(SystemTime::UNIX_EPOCH + ms(due_ms))
            }
        };
        if let Some(group) = wish.group {
            job = job.group(group);
        }
        if let Some((key, scope, time_ms)) = wish.unique {
            let scope = match scope {
                Scope::Waiting => UniqueFor::Waiting,
                Scope::WaitingOrRunning => UniqueFor::WaitingOrRunning,
                Scope::Time => UniqueFor::Time(ms(time_ms)),
            };
            job = job.unique(key, scope);
        }
        if let Some(attempts) = wish.attempts_max {
            job = job.attempts_max(attempts);
        }
        if let Some(wait_ms) = wish.expires_in_ms {
            job = job.expires_in(ms(wait_ms));
        }
        job
    }
}

/// In memory where there is such a folder: the power is not cut here.
pub fn folder() -> TempDir {
    tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).expect("a folder")
}

fn open_writer(folder: &TempDir) -> Writer {
    let path = folder.path().join("a.db");
    Writer::builder(path).profile(Profile::Relaxed).open().expect("a writer")
}

fn ms(time_ms: i64) -> Duration {
    Duration::from_millis(u64::try_from(time_ms).expect("no time is negative"))
}

fn ours(token: Token) -> queue::Token {
    queue::Token { job: token.job, claim: token.claim }
}

fn job_state(state: State) -> JobState {
    match state {
        State::Ready => JobState::Ready,
        State::Leased => JobState::Leased,
        State::Delayed => JobState::Delayed,
        State::Blocked => JobState::Blocked,
        State::Done => JobState::Done,
        State::Dead => JobState::Dead,
    }
}

fn pushed_pair(pushed: &Pushed) -> (i64, bool) {
    (pushed.id, pushed.is_new)
}

fn claimed(claim: Claim, queue: usize) -> Claimed {
    let Claim { token, payload, .. } = claim;
    let (kind, number) = match &payload {
        Payload::Bytes(bytes) => ("bytes", String::from_utf8_lossy(bytes)),
        Payload::Json(text) => ("json", text.as_str().into()),
    };
    assert_eq!((claim.id, claim.queue.as_str()), (token.job, QUEUES[queue]));
    assert_eq!(claim.correlation_id, Some(format!("c{number}")));
    assert_eq!(claim.metadata, Some(format!("[{number}]")));
    Claimed {
        token: Token { job: token.job, claim: token.claim },
        payload: format!("{kind} {number}"),
        attempt: claim.attempt,
        attempts_max: claim.attempts_max,
        priority: claim.priority,
        group: claim.group,
        lease_until_ms: claim.lease_until.as_ms(),
    }
}

fn settled(results: impl IntoIterator<Item = leafpress::Result<()>>) -> Answer {
    Answer::Settled(results.into_iter().map(lost).collect())
}

/// Any other failure is none that a sequence may bring about.
fn lost<T>(result: leafpress::Result<T>) -> Result<T, Lost> {
    result.map_err(|error| match error.kind() {
        ErrorKind::LeaseLost { why, .. } => match why {
            LeaseLost::Expired => Lost::Expired,
            LeaseLost::ClaimedAgain => Lost::ClaimedAgain,
            LeaseLost::Settled => Lost::Settled,
            LeaseLost::GivenBack => Lost::GivenBack,
            other => panic!("a reason that the model does not know: {other}"),
        },
        ErrorKind::NoSuchClaim { .. } => Lost::NeverGiven,
        other => panic!("{other}"),
    })
}

fn retry(retry: queue::Retry) -> Retry {
    match retry {
        queue::Retry::At { due_at } => Retry::Between(due_at.as_ms(), due_at.as_ms()),
        queue::Retry::Dead => Retry::Dead,
    }
}

fn set(settings: &mut Settings, rules: &Rules) {
    let rate =
        |rate: Option<Rate>| rate.map(|rate| queue::Rate { jobs: rate.jobs, per: ms(rate.per_ms) });
    settings.lease = ms(rules.lease_ms);
    settings.attempts_max = rules.attempts_max;
    settings.backoff = Backoff {
        first: ms(rules.backoff_first_ms),
        factor: rules.backoff_factor,
        max: ms(rules.backoff_max_ms),
        jitter: rules.jitter,
    };
    settings.keep_done = ms(rules.keep_done_ms);
    settings.keep_dead = rules.keep_dead_ms.map(ms);
    settings.concurrency = rules.concurrency;
    settings.group_concurrency = rules.group_concurrency;
    settings.rate = rate(rules.rate);
    settings.group_rate = rate(rules.group_rate);
}

fn get(settings: &Settings) -> Rules {
    let time_ms = |time: Duration| i64::try_from(time.as_millis()).expect("it is short");
    let rate = |rate: Option<queue::Rate>| {
        rate.map(|rate| Rate { jobs: rate.jobs, per_ms: time_ms(rate.per) })
    };
    Rules {
        lease_ms: time_ms(settings.lease),
        attempts_max: settings.attempts_max,
        backoff_first_ms: time_ms(settings.backoff.first),
        backoff_factor: settings.backoff.factor,
        backoff_max_ms: time_ms(settings.backoff.max),
        jitter: settings.backoff.jitter,
        keep_done_ms: time_ms(settings.keep_done),
        keep_dead_ms: settings.keep_dead.map(time_ms),
        concurrency: settings.concurrency,
        group_concurrency: settings.group_concurrency,
        rate: rate(settings.rate),
        group_rate: rate(settings.group_rate),
    }
}
