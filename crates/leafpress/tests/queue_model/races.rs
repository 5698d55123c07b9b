//! Threads that race on one queue, and several Writers on one database. Who
//! comes first is chance; what must hold does not depend on it.
//!
//! A consumer notes a claim after it was answered and before it acks, so what
//! is noted as open at once never exceeds what is.
//!
//! Must never: wait for a time to go by, or depend on who is faster.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Barrier, Mutex};
use std::thread;
use std::time::Duration;

use leafpress::queue::{Claim, ClaimOptions, Job, LeaseLost, Queue, Settings, Token, UniqueFor};
use leafpress::writer::Writer;
use leafpress::{ErrorKind, Profile};
use tempfile::TempDir;

use super::system::folder;

const WORKERS: usize = 8;

/// How the workers come to the database.
#[derive(Debug, Clone, Copy)]
enum Through {
    OneQueue,
    /// Each pair of workers has a Writer of its own.
    FourWriters,
}

const WAYS: [Through; 2] = [Through::OneQueue, Through::FourWriters];

struct Racers {
    /// One for each worker.
    queues: Vec<Queue>,
    _folder: TempDir,
}

fn open(path: &Path) -> Queue {
    let writer = Writer::builder(path)
        .profile(Profile::Relaxed)
        // Others hold it for as long as the machine is busy.
        .busy_limit(Duration::from_secs(600))
        .open()
        .expect("a writer");
    Queue::open(&writer, "race").expect("a queue")
}

impl Racers {
    fn new(through: Through, change: impl FnMut(&mut Settings) + Send + 'static) -> Self {
        let folder = folder();
        let path = folder.path().join("a.db");
        let first = open(&path);
        first.configure(change).expect("good settings");
        let mut queues = vec![first];
        if matches!(through, Through::FourWriters) {
            queues.extend((1..4).map(|_| open(&path)));
        }
        let queues = queues.iter().cycle().take(WORKERS).cloned().collect();
        Self { queues, _folder: folder }
    }

    /// Runs a worker on each queue, all from one moment on.
    fn race<T: Send>(&self, work: impl Fn(usize, &Queue) -> T + Sync) -> Vec<T> {
        let start = Barrier::new(self.queues.len());
        thread::scope(|scope| {
            let threads: Vec<_> = self
                .queues
                .iter()
                .enumerate()
                .map(|(worker, queue)| {
                    let (start, work) = (&start, &work);
                    scope.spawn(move || {
                        start.wait();
                        work(worker, queue)
                    })
                })
                .collect();
            threads.into_iter().map(|thread| thread.join().expect("no panic")).collect()
        })
    }
}

/// A lease that no slow machine outlives.
fn long_lease(settings: &mut Settings) {
    settings.lease = Duration::from_secs(3_600);
}

/// Claims until `jobs` are acked by all workers together.
fn work_off(queue: &Queue, acked: &AtomicUsize, jobs: usize, mut see: impl FnMut(&Claim)) {
    let options = ClaimOptions::new().jobs_max(3);
    while acked.load(Ordering::SeqCst) < jobs {
        let claims = queue.claim_with(&options).expect("a claim");
        if claims.is_empty() {
            thread::yield_now();
        }
        for claim in claims {
            see(&claim);
            queue.ack(claim.token).expect("the lease is long");
            acked.fetch_add(1, Ordering::SeqCst);
        }
    }
}

fn number(claim: &Claim) -> usize {
    let text = String::from_utf8_lossy(claim.payload.as_bytes()).into_owned();
    text.parse().expect("a number")
}

#[test]
fn of_all_who_push_a_key_at_once_one_is_new() {
    for way in WAYS {
        let racers = Racers::new(way, long_lease);
        let scopes = [
            UniqueFor::Waiting,
            UniqueFor::WaitingOrRunning,
            UniqueFor::Time(Duration::from_secs(3_600)),
        ];
        let keys = 30;
        let pushed = racers.race(|worker, queue| {
            let push = |key: usize| {
                // Each worker comes to the keys in another order.
                let key = (key * 7 + worker * 11) % keys;
                let job = Job::bytes(key.to_string()).unique(key.to_string(), scopes[key % 3]);
                (key, queue.push(job).expect("a push"))
            };
            (0..keys).map(push).collect::<Vec<_>>()
        });
        let pushed: Vec<_> = pushed.into_iter().flatten().collect();
        for key in 0..keys {
            let of_key = pushed.iter().filter(|(of, _)| *of == key).map(|(_, pushed)| pushed);
            let ids: BTreeSet<i64> = of_key.clone().map(|pushed| pushed.id).collect();
            assert_eq!(ids.len(), 1, "{way:?}: all are told of the same job");
            assert_eq!(of_key.filter(|pushed| pushed.is_new).count(), 1, "{way:?}");
        }
    }
}

#[test]
fn every_job_is_acked_once_and_claimed_once() {
    for way in WAYS {
        let racers = Racers::new(way, long_lease);
        let of_worker = 60;
        let jobs = of_worker * WORKERS;
        let acked = AtomicUsize::new(0);
        let claims = racers.race(|worker, queue| {
            for at in 0..of_worker {
                queue.push(Job::bytes((worker * of_worker + at).to_string())).expect("a push");
            }
            let mut claims = Vec::new();
            work_off(queue, &acked, jobs, |claim| claims.push((claim.token, number(claim))));
            claims
        });
        let claims: Vec<(Token, usize)> = claims.into_iter().flatten().collect();
        let numbers: BTreeSet<usize> = claims.iter().map(|(_, number)| *number).collect();
        assert_eq!((claims.len(), numbers.len()), (jobs, jobs), "{way:?}");
        assert!(claims.iter().all(|(token, _)| token.claim == 1), "{way:?}");
        assert_eq!(racers.queues[0].claim().expect("a claim"), None);
    }
}

#[test]
fn each_groups_jobs_are_acked_in_the_order_of_their_pushes() {
    for way in WAYS {
        let racers = Racers::new(way, long_lease);
        let (groups, of_group) = (5, 40);
        let jobs = groups * of_group;
        for at in 0..jobs {
            let job = Job::bytes(at.to_string()).group(format!("g{}", at % groups));
            racers.queues[at % WORKERS].push(job).expect("a push");
        }
        let acked = AtomicUsize::new(0);
        let order = Mutex::new(BTreeMap::<String, Vec<usize>>::new());
        racers.race(|_, queue| {
            work_off(queue, &acked, jobs, |claim| {
                let group = claim.group.clone().expect("each has one");
                order.lock().expect("no panic").entry(group).or_default().push(number(claim));
            });
        });
        for (group, numbers) in order.into_inner().expect("no panic") {
            assert!(numbers.is_sorted(), "{way:?}: {group}: {numbers:?}");
            assert_eq!(numbers.len(), of_group);
        }
    }
}

#[test]
fn no_more_are_in_flight_than_may_be() {
    for way in WAYS {
        let limit = 3;
        let racers = Racers::new(way, move |settings| {
            long_lease(settings);
            settings.concurrency = Some(limit);
        });
        let jobs = 150;
        let all = (0..jobs).map(|at| Job::bytes(at.to_string()));
        racers.queues[0].push_many(all).expect("a push");
        let (acked, open) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let open_max = AtomicUsize::new(0);
        racers.race(|_, queue| {
            while acked.load(Ordering::SeqCst) < jobs {
                let claims = queue.claim_with(&ClaimOptions::new().jobs_max(2)).expect("a claim");
                let now_open = open.fetch_add(claims.len(), Ordering::SeqCst) + claims.len();
                open_max.fetch_max(now_open, Ordering::SeqCst);
                for claim in claims {
                    open.fetch_sub(1, Ordering::SeqCst);
                    queue.ack(claim.token).expect("the lease is long");
                    acked.fetch_add(1, Ordering::SeqCst);
                }
            }
        });
        let open_max = open_max.into_inner();
        assert!((1..=limit as usize).contains(&open_max), "{way:?}: {open_max} at once");
    }
}

/// Leases end while others claim: of all who hold a token of one job, the one
/// with the last claim can ack it, once, and every other is told why not.
#[test]
fn a_late_ack_is_refused_while_others_claim() {
    for way in WAYS {
        let racers = Racers::new(way, |settings| {
            settings.lease = Duration::from_millis(1);
            settings.attempts_max = u32::MAX;
        });
        let jobs = 40;
        let all = (0..jobs).map(|at| Job::bytes(at.to_string()));
        racers.queues[0].push_many(all).expect("a push");
        let acked = Mutex::new(BTreeMap::<i64, u32>::new());
        let claimed = Mutex::new(BTreeMap::<i64, u32>::new());
        racers.race(|worker, queue| {
            let mut late = Vec::new();
            while acked.lock().expect("no panic").len() < jobs {
                // Some give it time enough, so that there is an end.
                let lease = if worker % 2 == 0 { 1 } else { 3_600_000 };
                let options = ClaimOptions::new().jobs_max(2).lease(Duration::from_millis(lease));
                for claim in queue.claim_with(&options).expect("a claim") {
                    let mut claimed = claimed.lock().expect("no panic");
                    let last = claimed.entry(claim.id).or_default();
                    *last = claim.token.claim.max(*last);
                    late.push(claim.token);
                }
                // Half of what a short lease is for waits for the next round.
                let keeps = if lease > 1 { 0 } else { late.len() / 2 };
                for token in late.drain(..late.len() - keeps).collect::<Vec<_>>() {
                    match queue.ack(token) {
                        Ok(()) => {
                            let before =
                                acked.lock().expect("no panic").insert(token.job, token.claim);
                            assert_eq!(before, None, "{way:?}: {token} was acked before");
                        }
                        Err(error) => assert!(is_late(error.kind()), "{way:?}: {error}"),
                    }
                }
            }
        });
        let (acked, claimed) = (acked.into_inner().unwrap(), claimed.into_inner().unwrap());
        assert_eq!(acked, claimed, "{way:?}: the last claim of each is the one that was acked");
        assert_eq!(racers.queues[0].claim().expect("a claim"), None);
    }
}

fn is_late(kind: &ErrorKind) -> bool {
    matches!(
        kind,
        ErrorKind::LeaseLost {
            why: LeaseLost::Expired | LeaseLost::ClaimedAgain | LeaseLost::Settled,
            ..
        }
    )
}
