//! A process that works on the queues until it is killed, or has pushed its share and
//! is not needed any more.

use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use leafpress::queue::{Claim, ClaimOptions, Clock, ManualClock, Nack, Payload, Queue, Token};
use leafpress::writer::{Transaction, Writer};
use leafpress::{Error, ErrorKind, Profile, Result};
use leafpress_testing::crash::Random;

use super::journal::{How, Journal};
use super::plan::{self, LEASE, QUEUES};

/// Task of a process.
#[derive(Clone, Debug)]
pub struct Task {
    pub database: PathBuf,
    pub journal: PathBuf,
    pub profile: Profile,
    /// The numbers that are still to be pushed.
    pub first: u64,
    pub end: u64,
    pub producers: usize,
    pub consumers: usize,
    pub seed: u64,
    /// True if its clock is wrong, and jumps.
    pub clock_jumps: bool,
    /// True if the processes share the database.
    pub shares: bool,
}

impl Task {
    /// As arguments of a command.
    pub fn arguments(&self) -> Vec<String> {
        vec![
            self.database.to_str().unwrap().to_owned(),
            self.journal.to_str().unwrap().to_owned(),
            self.profile.name().to_owned(),
            self.first.to_string(),
            self.end.to_string(),
            self.producers.to_string(),
            self.consumers.to_string(),
            self.seed.to_string(),
            u8::from(self.clock_jumps).to_string(),
            u8::from(self.shares).to_string(),
        ]
    }

    /// Out of the arguments.
    pub fn of(arguments: &[&str]) -> Self {
        let number = |place: usize| arguments[place].parse::<u64>().unwrap();
        Self {
            database: Path::new(arguments[0]).to_owned(),
            journal: Path::new(arguments[1]).to_owned(),
            profile: arguments[2].parse().unwrap(),
            first: number(3),
            end: number(4),
            producers: number(5) as usize,
            consumers: number(6) as usize,
            seed: number(7),
            clock_jumps: number(8) == 1,
            shares: number(9) == 1,
        }
    }
}

/// State that the threads of the process share.
struct Work {
    writer: Writer,
    queues: [Queue; 2],
    journal: Journal,
    next: AtomicU64,
    end: u64,
    is_over: AtomicBool,
}

/// Works. Ends when all is pushed, if it has no consumers; else also not before
/// its standard input ends, which it also does if the parent dies.
pub fn work(task: &Task) {
    let (clock, hand) = Clock::manual(now_ms());
    let builder =
        Writer::builder(&task.database).profile(task.profile).busy_limit(Duration::from_secs(120));
    let builder = if task.shares { builder.shared() } else { builder };
    let writer = builder.open().unwrap();
    let shares = writer.stats().sharing.is_some_and(|sharing| sharing.why_not.is_none());
    assert_eq!(shares, task.shares && cfg!(unix));
    let orders = Queue::builder(&writer, QUEUES[0]);
    // The queues of a writer share the clock of the first.
    let orders = if task.clock_jumps { orders.clock(clock) } else { orders };
    let queues = [orders.open().unwrap(), Queue::open(&writer, QUEUES[1]).unwrap()];
    let work = Work {
        writer,
        queues,
        journal: Journal::open(&task.journal),
        next: AtomicU64::new(task.first),
        end: task.end,
        is_over: AtomicBool::new(false),
    };
    let work = &work;
    std::thread::scope(|scope| {
        if task.clock_jumps {
            scope.spawn(|| jump(&hand, &work.is_over, task.seed));
        }
        for thread in 0..task.consumers as u64 {
            scope.spawn(move || work.consume(Random::of(&[task.seed, 1, thread])));
        }
        let producers: Vec<_> = (0..task.producers as u64)
            .map(|thread| scope.spawn(move || work.produce(Random::of(&[task.seed, 2, thread]))))
            .collect();
        if task.consumers > 0 {
            let end = std::io::stdin().read(&mut [0]);
            assert_eq!(end.unwrap(), 0);
        }
        for producer in producers {
            producer.join().unwrap();
        }
        work.is_over.store(true, Ordering::SeqCst);
    });
}

fn now_ms() -> i64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    since.unwrap().as_millis() as i64
}

/// Sets the clock a little wrong, now so, now so, and at times by hours.
fn jump(clock: &ManualClock, is_over: &AtomicBool, seed: u64) {
    let mut random = Random::of(&[seed, 3]);
    while !is_over.load(Ordering::SeqCst) {
        let wrong_ms = match random.below(20) {
            0 => random.choose(&[-7_200_000, -5_000, 5_000]),
            _ => random.below(600) as i64 - 300,
        };
        for _ in 0..20 {
            clock.set_ms(now_ms() + wrong_ms);
            std::thread::sleep(Duration::from_millis(2));
        }
    }
}

impl Work {
    fn produce(&self, mut random: Random) {
        loop {
            let count = random.choose(&[1, 1, 1, 1, 2, 12]);
            let first = self.next.fetch_add(count, Ordering::SeqCst);
            let numbers: Vec<_> = (first..(first + count).min(self.end)).collect();
            if numbers.is_empty() {
                return;
            }
            let (in_rows, plain): (Vec<_>, Vec<_>) =
                numbers.into_iter().partition(|number| plan::has_row(*number));
            for number in in_rows {
                self.push_with_row(number);
            }
            let (mail, orders): (Vec<_>, Vec<_>) =
                plain.into_iter().partition(|number| plan::queue_of(*number) == 1);
            for numbers in [orders, mail] {
                self.push_plain(&numbers, &mut random);
            }
        }
    }

    /// The row and its job in one transaction of the application's.
    fn push_with_row(&self, number: u64) {
        let queue = self.queues[plan::queue_of(number)].clone();
        self.journal.asks_to_push(&[number]);
        let answer = self.writer.transaction(move |transaction| {
            let pushed = queue.push_in(transaction, plan::job(number))?;
            if pushed.is_new {
                let sql = "INSERT INTO application (number, job) VALUES (?1, ?2)";
                transaction.execute(sql, [number as i64, pushed.id])?;
            }
            if plan::is_undone(number) {
                return Err(Error::aborted("changed my mind"));
            }
            Ok(pushed)
        });
        match answer {
            Ok(pushed) => self.journal.pushed(&[(number, pushed)]),
            Err(error) => {
                assert!(plan::is_undone(number), "{error}");
                self.journal.undone(number);
            }
        }
    }

    fn push_plain(&self, numbers: &[u64], random: &mut Random) {
        let Some(first) = numbers.first() else { return };
        let queue = &self.queues[plan::queue_of(*first)];
        self.journal.asks_to_push(numbers);
        let jobs = numbers.iter().map(|number| plan::job(*number));
        let answers: Vec<_> = match random.below(3) {
            0 => jobs.map(|job| queue.push(job).unwrap()).collect(),
            1 => {
                let tickets: Vec<_> = jobs.map(|job| queue.submit_push(job).unwrap()).collect();
                tickets.into_iter().map(|ticket| ticket.wait().unwrap()).collect()
            }
            _ => queue.push_many(jobs).unwrap(),
        };
        self.journal.pushed(&numbers.iter().copied().zip(answers).collect::<Vec<_>>());
    }

    fn consume(&self, mut random: Random) {
        while !self.is_over.load(Ordering::SeqCst) {
            let queue = &self.queues[random.below(2)];
            if random.percent(15) {
                self.move_on(queue, &mut random);
                continue;
            }
            let options = ClaimOptions::new()
                .jobs_max(random.choose(&[1, 1, 2, 8]))
                .wait(Duration::from_millis(20))
                .worker(format!("process {}", std::process::id()));
            let claims = queue.claim_with(&options).unwrap();
            if claims.is_empty() {
                continue;
            }
            self.journal.claimed(&claims);
            if claims.len() > 2 && random.percent(50) {
                self.ack_all(queue, &claims);
            } else {
                for claim in &claims {
                    self.settle(queue, claim, &mut random);
                }
            }
        }
    }

    /// Claims and what follows them, as one queue transaction, which also writes to
    /// the application's own table if the jobs are of the first queue.
    fn move_on(&self, queue: &Queue, random: &mut Random) {
        let mut transaction = queue.begin(LEASE).unwrap();
        let claims = match transaction.claim_many(random.choose(&[1, 3])) {
            Err(error) => return assert_eq!(why_lost(&error), "TransactionExpired"),
            Ok(claims) if claims.is_empty() => return,
            Ok(claims) => claims,
        };
        self.journal.claimed(&claims);
        let tokens: Vec<_> = claims.iter().map(|claim| claim.token).collect();
        let numbers =
            claims.iter().map(|claim| super::journal::number_in(claim.payload.as_bytes()));
        let numbers: Vec<_> = numbers.collect();
        if numbers.iter().any(|number| plan::is_poison(*number) || plan::is_follow_up(*number)) {
            self.journal.asks_to_settle(How::Release, &tokens);
            return transaction.rollback().unwrap();
        }
        for &number in &numbers {
            let follow_up = plan::job(plan::follow_up(number));
            transaction.push_to(&self.queues[random.below(2)], follow_up).unwrap();
        }
        self.journal.asks_to_settle(How::Move, &tokens);
        let committed = if queue.name() == QUEUES[0] {
            let body = move |rows: &Transaction<'_>| {
                numbers.iter().try_for_each(|number| {
                    let sql = "INSERT INTO moved (number) VALUES (?1)";
                    rows.execute(sql, [*number as i64]).map(drop)
                })
            };
            transaction.commit_with(body).map(drop)
        } else {
            transaction.commit().map(drop)
        };
        match committed {
            Ok(()) => tokens.into_iter().for_each(|token| self.journal.settled(How::Move, token)),
            Err(error) => {
                let why = why_lost(&error);
                for token in tokens {
                    self.journal.refused(How::Move, token, &why);
                }
            }
        }
    }

    fn ack_all(&self, queue: &Queue, claims: &[Claim]) {
        let tokens: Vec<_> =
            claims.iter().filter(|claim| !is_poison(claim)).map(|claim| claim.token).collect();
        self.journal.asks_to_settle(How::Ack, &tokens);
        let answers = queue.ack_many(&tokens).unwrap();
        for (token, answer) in tokens.into_iter().zip(answers) {
            self.note(How::Ack, token, answer);
        }
    }

    fn settle(&self, queue: &Queue, claim: &Claim, random: &mut Random) {
        let token = claim.token;
        let how = match random.below(100) {
            _ if is_poison(claim) => How::Nack,
            // Forgotten: the lease ends.
            0..=2 => return,
            3 => {
                std::thread::sleep(LEASE + Duration::from_millis(30));
                How::Ack
            }
            4..=8 => {
                match queue.extend(token, LEASE * 2) {
                    Ok(until) => {
                        assert!(until.as_ms() > claim.lease_until.as_ms() - 7_300_000);
                    }
                    Err(error) => drop(why_lost(&error)),
                }
                How::Ack
            }
            9..=16 => How::Nack,
            17..=19 => How::Fail,
            20..=24 => How::Release,
            _ => How::Ack,
        };
        self.journal.asks_to_settle(how, &[token]);
        let answer = match how {
            How::Ack if random.percent(10) => queue.ack_with(token, Payload::bytes("done")),
            How::Ack => queue.ack(token),
            How::Nack => queue.nack(token, nack(random)).map(drop),
            How::Fail => queue.fail(token, "cannot be done"),
            How::Release => queue.release(token),
            How::Move => unreachable!("by a queue transaction only"),
        };
        self.note(how, token, answer);
    }

    fn note(&self, how: How, token: Token, answer: Result<()>) {
        match answer {
            Ok(()) => self.journal.settled(how, token),
            Err(error) => self.journal.refused(how, token, &why_lost(&error)),
        }
    }
}

fn is_poison(claim: &Claim) -> bool {
    plan::is_poison(super::journal::number_in(claim.payload.as_bytes()))
}

fn nack(random: &mut Random) -> Nack {
    let nack = Nack::new().error("not now");
    if random.percent(50) {
        nack.delay(Duration::from_millis(1 + random.number() % 20))
    } else {
        nack
    }
}

/// Why a token is not good any more, in a word.
fn why_lost(error: &Error) -> String {
    match error.kind() {
        ErrorKind::LeaseLost { why, .. } => format!("{why:?}"),
        ErrorKind::TransactionExpired { .. } => "TransactionExpired".to_owned(),
        _ => panic!("{error}"),
    }
}
