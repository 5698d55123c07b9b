//! A workload of queues: threads that push, claim and settle at once, through
//! one writer, whose every answer is a [`Fact`].
//!
//! Groups, unique keys of each scope, delays, ends of time, priorities, dead
//! letters, queue transactions, rows of the application's written with a job,
//! transactions that are undone, settings that change. The clock is set by hand: it goes on with each
//! call, by seconds, so that leases end and delays are over, and at times it
//! jumps.
//!
//! Must never: bring a content about twice. Claims count up, ids too; leases are
//! extended by a time that is another one for each call.

use std::path::Path;
use std::time::Duration;

use leafpress::checkpoint::CheckpointLimits;
use leafpress::queue::{Claim, ClaimOptions, Clock, Job, ManualClock, Nack, Queue, UniqueFor};
use leafpress::writer::Writer;
use leafpress::{Error, ErrorKind, Profile, Result};

use super::log::Log;
use super::queue_history::{Fact, Facts};
use super::random::Random;

/// Threads that call.
const CALLERS: u64 = 3;
/// Turns of each in a round; a turn is one call or a few.
const TURNS: u64 = 4;
/// Between them all callers rest.
const ROUNDS: u64 = 3;
/// The queues: in one jobs of a group follow each other and done ones are
/// deleted, in the other two of a group run at once and done ones are kept.
pub const QUEUES: [&str; 2] = ["ordered", "kept"];
/// The longest lease of all.
pub const LEASE_MAX: Duration = Duration::from_secs(60);
/// Time by which leases are extended, plus some milliseconds.
const LEASE_EXTENDED: Duration = Duration::from_secs(50);
/// Start of the clock.
pub const CLOCK_START_MS: i64 = 1_800_000_000_000;
/// The application's rows have numbers of their own per caller.
const ROWS_EACH: i64 = 1_000;

/// State that all callers share.
struct Callers<'a> {
    writer: &'a Writer,
    queues: &'a [Queue; 2],
    clock: &'a ManualClock,
    log: &'a Log,
    facts: &'a Facts,
}

/// Way in which the database is made and written.
#[derive(Clone, Debug)]
pub struct QueueWorkload<'a> {
    /// The profile of the writer.
    pub profile: Profile,
    /// The VFS through which it writes.
    pub vfs: &'a str,
    /// Seed of the calls; the order in which threads meet does not follow from it.
    pub seed: u64,
}

impl QueueWorkload<'_> {
    /// Makes the database and works on it; returns the answers to callers.
    ///
    /// # Errors
    /// Whatever a call says that must not fail.
    ///
    /// # Panics
    /// If a caller does.
    pub fn run(&self, path: &Path, log: &Log) -> Result<Facts> {
        let random = &mut Random::of(&[self.seed, 21]);
        let writer = Writer::builder(path)
            .profile(self.profile)
            .vfs(self.vfs)
            .page_size(random.choose(&[1024, 1024, 4096]))
            .max_group(random.choose(&[1, 3, 1000]))
            .checkpoint_limits(limits(random))
            .open()?;
        let facts = Facts::default();
        let told = |fact| facts.told(log, fact);
        writer.execute_batch(
            "CREATE TABLE application (number INTEGER PRIMARY KEY, job INTEGER NOT NULL)",
        )?;
        told(Fact::Application);
        let (clock, hand) = Clock::manual(CLOCK_START_MS);
        let ordered = Queue::builder(&writer, QUEUES[0]).clock(clock).open()?;
        told(Fact::Queue(0));
        let kept = Queue::builder(&writer, QUEUES[1]).settings(|settings| {
            settings.keep_done = Duration::from_secs(1_000_000);
            settings.group_concurrency = 2;
            settings.concurrency = Some(6);
        });
        let queues = [ordered, kept.open()?];
        told(Fact::Queue(1));
        let callers =
            Callers { writer: &writer, queues: &queues, clock: &hand, log, facts: &facts };
        for round in 0..ROUNDS {
            std::thread::scope(|scope| {
                let threads: Vec<_> = (0..CALLERS)
                    .map(|caller| {
                        let callers = &callers;
                        scope.spawn(move || callers.work(caller, round, self.seed))
                    })
                    .collect();
                threads.into_iter().try_for_each(|thread| thread.join().unwrap())
            })?;
            std::thread::sleep(Duration::from_millis(3));
        }
        drop(queues);
        writer.close()?;
        Ok(facts)
    }
}

/// Limits so small that the checkpointer works all the time.
fn limits(random: &mut Random) -> CheckpointLimits {
    let bytes = random.choose(&[30_000, 80_000]);
    let mut limits = CheckpointLimits::default();
    limits.slice_frames = random.choose(&[3, 10]);
    limits.wal_bytes_max = bytes * 2;
    limits.catch_up_bytes = bytes;
    limits.pause_bytes = bytes / 4;
    limits.pause_before_pass = Duration::from_micros(random.choose(&[500, 20_000]));
    limits.idle_before_truncate = Duration::from_millis(2);
    limits.catch_up_wait_max = Duration::from_millis(2);
    limits
}

impl Callers<'_> {
    fn work(&self, caller: u64, round: u64, seed: u64) -> Result<()> {
        let random = &mut Random::of(&[seed, 22, caller, round]);
        let mut held = Vec::new();
        for turn in 0..TURNS {
            // Below 10,000, and another one for each call of all: see `extend`.
            let number = ((round * CALLERS + caller) * TURNS + turn) as i64 * 20;
            self.pass_time(random);
            match random.below(10) {
                0..=3 => self.push(number, random)?,
                4 => self.push_with_row(caller as i64 * ROWS_EACH + number, random)?,
                5 if random.percent(20) => self.configure(number)?,
                6 => self.move_on(number, random)?,
                _ => held.extend(self.claim(random)?),
            }
            let settled = if turn + 1 == TURNS { held.len() } else { random.below(held.len() + 1) };
            for (place, claim) in held.drain(..settled).enumerate() {
                self.settle(&claim, number + place as i64, random)?;
            }
        }
        Ok(())
    }

    /// Whole steps of ten seconds, forwards, and sometimes a jump.
    fn pass_time(&self, random: &mut Random) {
        let by = match random.below(30) {
            0 => random.choose(&[-360, -2, 360]),
            1..=9 => 1,
            _ => 0,
        };
        self.clock.advance_ms(by * 10_000);
    }

    fn told(&self, fact: Fact) {
        self.facts.told(self.log, fact);
    }

    fn queue(&self, random: &mut Random) -> &Queue {
        &self.queues[random.below(self.queues.len())]
    }

    fn push(&self, number: i64, random: &mut Random) -> Result<()> {
        let queue = self.queue(random);
        let count = random.choose(&[1, 1, 3]);
        let jobs: Vec<_> = (0..count).map(|place| job(number + place, random)).collect();
        match random.below(3) {
            0 => {
                for pushed in queue.push_many(jobs)? {
                    self.told(Fact::Pushed(pushed.id));
                }
            }
            1 => {
                let tickets: Vec<_> =
                    jobs.into_iter().map(|job| queue.submit_push(job)).collect::<Result<_>>()?;
                for ticket in tickets {
                    self.told(Fact::Pushed(ticket.wait()?.id));
                }
            }
            _ => {
                for job in jobs {
                    self.told(Fact::Pushed(queue.push(job)?.id));
                }
            }
        }
        Ok(())
    }

    /// A row and its job, both or neither; sometimes the application changes its mind.
    fn push_with_row(&self, number: i64, random: &mut Random) -> Result<()> {
        let (queue, job) = (self.queue(random).clone(), job(number, random));
        let is_undone = random.percent(30);
        let answer = self.writer.transaction(move |transaction| {
            let pushed = queue.push_in(transaction, job.clone())?;
            let sql = "INSERT INTO application (number, job) VALUES (?1, ?2)";
            transaction.execute(sql, [number, pushed.id])?;
            if is_undone { Err(Error::aborted("changed my mind")) } else { Ok(pushed) }
        });
        match answer {
            Ok(pushed) => self.told(Fact::PushedWithRow(pushed.id, number)),
            Err(_) if is_undone => {}
            Err(error) => return Err(error),
        }
        Ok(())
    }

    /// Claims and pushes that are one commit, or nothing.
    fn move_on(&self, number: i64, random: &mut Random) -> Result<()> {
        let mut transaction = self.queue(random).begin(LEASE_MAX)?;
        let claims = match transaction.claim_many(2) {
            Err(error) if is_too_late(&error) => return Ok(()),
            claims => claims?,
        };
        for claim in &claims {
            self.told(Fact::Claimed(claim.token.job, claim.token.claim));
            transaction.push_to(self.queue(random), job(number, random))?;
        }
        self.pass_time(random);
        if random.percent(20) {
            transaction.rollback()?;
            return Ok(());
        }
        match transaction.commit() {
            Ok(committed) => {
                for claim in &claims {
                    self.told(Fact::Acked(claim.token.job));
                }
                for pushed in &committed.pushed {
                    self.told(Fact::Pushed(pushed.id));
                }
            }
            Err(error) if is_too_late(&error) => {}
            Err(error) => return Err(error),
        }
        Ok(())
    }

    fn configure(&self, number: i64) -> Result<()> {
        let attempts_max = u32::try_from(10 + number).unwrap_or(u32::MAX);
        let settings = self.queues[0].configure(move |settings| {
            settings.attempts_max = settings.attempts_max.max(attempts_max);
        })?;
        self.told(Fact::Configured(i64::from(settings.attempts_max)));
        Ok(())
    }

    fn claim(&self, random: &mut Random) -> Result<Vec<Claim>> {
        let mut options = ClaimOptions::new()
            .jobs_max(random.choose(&[1, 2, 4]))
            .worker(format!("worker-{}", random.below(3)));
        if random.percent(50) {
            options = options.lease(LEASE_MAX);
        }
        let claims = self.queue(random).claim_with(&options)?;
        for claim in &claims {
            self.told(Fact::Claimed(claim.token.job, claim.token.claim));
        }
        Ok(claims)
    }

    /// Settles a claim in a random way; a claim whose lease has ended is refused.
    fn settle(&self, claim: &Claim, number: i64, random: &mut Random) -> Result<()> {
        let queue = &self.queues[usize::from(claim.queue == QUEUES[1])];
        let token = claim.token;
        let given_back = Fact::GivenBack(token.job, token.claim);
        let answer = match random.below(20) {
            0..=8 => queue.ack(token).map(|()| Fact::Acked(token.job)),
            9 => queue.ack_with(token, "result").map(|()| Fact::Acked(token.job)),
            10 | 11 => {
                let mut answers = queue.ack_many(&[token])?;
                answers.remove(0).map(|()| Fact::Acked(token.job))
            }
            12 | 13 => {
                let nack = Nack::new().error("not now");
                let nack = if random.percent(50) { nack } else { nack.delay(LEASE_MAX) };
                queue.nack(token, nack).map(|_| given_back)
            }
            14 => queue.fail(token, "never").map(|()| given_back),
            15 => queue.release(token).map(|()| given_back),
            16..=18 => {
                let lease = LEASE_EXTENDED + Duration::from_millis(number as u64);
                let extended = Fact::Extended(token.job, token.claim, lease.as_millis() as i64);
                queue.extend(token, lease).map(|_| extended)
            }
            // Forgotten.
            _ => return Ok(()),
        };
        match answer {
            Ok(fact) => self.told(fact),
            Err(error) if is_too_late(&error) => {}
            Err(error) => return Err(error),
        }
        Ok(())
    }
}

fn is_too_late(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::LeaseLost { .. } | ErrorKind::TransactionExpired { .. })
}

fn job(number: i64, random: &mut Random) -> Job {
    let payload = vec![number as u8; random.choose(&[0, 8, 30, 30, 300, 1500])];
    let mut job = Job::bytes(payload).priority(random.below(3) as i32);
    if random.percent(60) {
        job = job.group(format!("group-{}", random.below(4)));
    }
    if random.percent(25) {
        let time = UniqueFor::Time(Duration::from_secs(30));
        let scope = random.choose(&[UniqueFor::Waiting, UniqueFor::WaitingOrRunning, time]);
        job = job.unique(format!("key-{}", random.below(6)), scope);
    }
    let delay = if random.percent(15) { Duration::from_secs(20) } else { Duration::ZERO };
    if !delay.is_zero() {
        job = job.delay(delay);
    }
    if random.percent(10) {
        job = job.expires_in(delay + Duration::from_secs(15));
    }
    if random.percent(20) {
        job = job.attempts_max(1);
    }
    job
}
