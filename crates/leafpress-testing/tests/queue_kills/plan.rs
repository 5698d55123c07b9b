//! The jobs that are pushed. A job follows from its number alone, so that each process
//! that finds it knows what it must be.

use std::time::Duration;

use leafpress::queue::{Backoff, Job, Payload, Settings, UniqueFor};
use leafpress_testing::queue_audit::Limits;

use super::journal::DIGITS;

/// The queues, in one database: in one the order in a group holds, in the other
/// two of a group run at once, and no more than so many in all.
pub const QUEUES: [&str; 2] = ["orders", "mail"];

/// So short that what a killed process held comes again soon.
pub const LEASE: Duration = Duration::from_millis(400);

/// The queue of a job.
pub fn queue_of(number: u64) -> usize {
    usize::from(number % 4 == 3)
}

/// The settings of a queue.
pub fn settings(queue: usize, keeps_done: bool) -> impl FnMut(&mut Settings) + Send + 'static {
    move |settings| {
        settings.lease = LEASE;
        settings.attempts_max = 6;
        settings.backoff = Backoff {
            first: Duration::from_millis(5),
            factor: 2.0,
            max: Duration::from_millis(50),
            jitter: 0.5,
        };
        settings.keep_done = Duration::from_secs(if keeps_done { 3600 } else { 0 });
        if queue == 1 {
            settings.group_concurrency = 2;
            settings.concurrency = Some(12);
        }
    }
}

/// Limits of the queue, for the judge.
pub fn limits(queue: usize) -> Limits {
    let [group_concurrency, concurrency] = [[1, usize::MAX], [2, 12]][queue];
    Limits { attempts_max: 6, group_concurrency, concurrency: Some(concurrency) }
}

/// A row of the application's is written with it.
pub fn has_row(number: u64) -> bool {
    number.is_multiple_of(3) && !is_follow_up(number)
}

/// Returns true if the application rolls the transaction of this job back.
pub fn is_undone(number: u64) -> bool {
    number.is_multiple_of(33)
}

/// Returns true if the job always fails, and ends as a dead letter.
pub fn is_poison(number: u64) -> bool {
    number % 97 == 5 && !is_follow_up(number)
}

/// Numbers of what is pushed, and of what follows it, are half of a process's share.
const FOLLOW_UP: u64 = 5_000_000;

/// Returns true if a queue transaction that acknowledged another job pushed this one.
pub fn is_follow_up(number: u64) -> bool {
    number / FOLLOW_UP % 2 == 1
}

/// The number of what follows that one.
pub fn follow_up(number: u64) -> u64 {
    number + FOLLOW_UP
}

/// The number of what that one follows.
pub fn followed(number: u64) -> u64 {
    number - FOLLOW_UP
}

/// The job of that number.
pub fn job(number: u64) -> Job {
    if is_follow_up(number) {
        let digits = format!("{number:0DIGITS$}");
        let job = Job::bytes(digits.clone().into_bytes()).correlation_id(digits);
        return job.group(format!("follow-up-{}", number % 11));
    }
    let digits = format!("{number:0DIGITS$}");
    let filling = "x".repeat([0, 10, 60, 300, 2000][(number % 23 % 5) as usize]);
    let mut job = if number.is_multiple_of(2) {
        Job::new(Payload::json_text(format!("{{\"n\":\"{digits}\",\"x\":\"{filling}\"}}")).unwrap())
    } else {
        Job::bytes(format!("{digits}{filling}").into_bytes())
    };
    job = job.priority((number % 7 % 3) as i32).correlation_id(digits);
    if number % 5 < 3 {
        job = job.group(format!("group-{}", number / 4 % 37));
    }
    if let Some(key) = key(number) {
        let scope = if number % 4 < 2 { UniqueFor::Waiting } else { UniqueFor::WaitingOrRunning };
        job = job.unique(key, scope);
    }
    if number % 19 == 4 {
        job = job.delay(Duration::from_millis(number % 60));
    }
    if number % 53 == 6 {
        job = job.attempts_max(2);
    }
    if number % 71 == 8 {
        // Longer than any delay.
        job = job.expires_in(Duration::from_millis(60));
    }
    job
}

/// Its unique key.
pub fn key(number: u64) -> Option<String> {
    (number % 6 == 1 && !is_follow_up(number)).then(|| format!("key-{}", number / 6 % 25))
}
