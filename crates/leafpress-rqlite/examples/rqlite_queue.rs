//! A queue on a cluster of rqlite, under load: for tests that kill nodes meanwhile, and beside one
//! request an operation.
//!
//! `cargo run --release -p leafpress-rqlite --example rqlite_queue -- audit URL SECONDS` lets 32
//! producers and 32 consumers work until the time is over, then lets the consumers empty the queue. It
//! writes the longest call, and fails if an acknowledged push was not worked, a job was worked after its
//! acknowledged ack, the order of a group was broken, or a key had two holders.
//!
//! `… bench URL CALLERS SECONDS` measures pushes, and claims with their acks, in turns with the rival.
//! `… boot URL FILE` makes a file the content of a new cluster.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use leafpress::queue::{ClaimOptions, Job, UniqueFor};
use leafpress::{Error, Result};
use leafpress_rqlite::{RqliteQueue, RqliteQueues, boot};
use serde_json::{Value, json};

const CALLERS: u64 = 32;
const GROUPS: u64 = 8;
const ROUNDS: u64 = 3;

fn main() -> Result<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let usage =
        || Error::misuse("give audit URL SECONDS, bench URL CALLERS SECONDS, or boot URL FILE");
    let number = |at: usize| -> Result<f64> {
        words.get(at).and_then(|it| it.parse().ok()).ok_or_else(usage)
    };
    match words.first().map(String::as_str) {
        Some("audit") => audit(&words[1], Duration::from_secs_f64(number(2)?)),
        Some("bench") => bench(&words[1], number(2)? as u64, Duration::from_secs_f64(number(3)?)),
        Some("boot") if words.len() == 3 => {
            boot(&words[1].parse()?, words[2].as_ref()).map(|booted| println!("{booted:?}"))
        }
        _ => Err(usage()),
    }
}

/// Observations of the jobs.
#[derive(Default)]
struct Seen {
    /// Pushes that were acknowledged: the id by the name.
    pushed: HashMap<String, i64>,
    /// Pushes that failed, and may be there.
    unknown: HashSet<String>,
    /// Jobs that were handed out, by their ids; the names in this order of each group.
    worked: HashMap<i64, String>,
    of_groups: BTreeMap<u64, Vec<u64>>,
    /// Acks that were acknowledged.
    acked: HashSet<i64>,
    wrong: Vec<String>,
    /// Calls that failed, with their errors.
    failed: BTreeMap<String, u64>,
    longest: Duration,
}

struct Audit {
    seen: Mutex<Seen>,
    is_over: AtomicBool,
    /// Each group's pushes go one after the other, so that their order is known.
    groups: Vec<Mutex<u64>>,
}

impl Audit {
    fn seen<T>(&self, look: impl FnOnce(&mut Seen) -> T) -> T {
        look(&mut self.seen.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Makes a call, and notes its time and its failure.
    fn timed<T>(&self, what: &str, call: impl FnOnce() -> Result<T>) -> Option<T> {
        let begun = Instant::now();
        let done = call();
        self.seen(|seen| {
            seen.longest = seen.longest.max(begun.elapsed());
            if let Err(error) = &done {
                let kind = error.kind().to_string();
                let kind: String = kind.chars().take(80).collect();
                *seen.failed.entry(format!("{what}: {kind}")).or_default() += 1;
            }
        });
        done.ok()
    }

    fn produce(&self, queue: &RqliteQueue, caller: u64) {
        let mut number = 0;
        while !self.is_over.load(Ordering::Relaxed) {
            number += 1;
            let name = format!("{caller}.{number}");
            match number % 4 {
                0 => self.push_of_group(queue, caller % GROUPS),
                1 => self.push_with_key(queue, &name, &format!("key {}", caller % GROUPS)),
                _ => self.push(queue, name.clone(), Job::bytes(name)),
            }
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    fn push(&self, queue: &RqliteQueue, name: String, job: Job) {
        let pushed = self.timed("push", || queue.push(job));
        self.seen(|seen| {
            if let Some(pushed) = pushed {
                seen.pushed.insert(name, pushed.id);
            } else {
                seen.unknown.insert(name);
            }
        });
    }

    fn push_of_group(&self, queue: &RqliteQueue, group: u64) {
        let mut last = self.groups[group as usize].lock().unwrap_or_else(PoisonError::into_inner);
        *last += 1;
        let name = format!("g{group}.{last}");
        self.push(queue, name.clone(), Job::bytes(name).group(format!("group {group}")));
    }

    fn push_with_key(&self, queue: &RqliteQueue, name: &str, key: &str) {
        let job = Job::bytes(name).unique(key, UniqueFor::WaitingOrRunning);
        let Some(pushed) = self.timed("push with key", || queue.push(job)) else {
            self.seen(|seen| seen.unknown.insert(name.to_owned()));
            return;
        };
        self.seen(|seen| {
            if pushed.is_new {
                seen.pushed.insert(name.to_owned(), pushed.id);
            }
        });
    }

    fn consume(&self, queue: &RqliteQueue) {
        let options = ClaimOptions::new().lease(Duration::from_secs(20)).jobs_max(4);
        let mut empty_since: Option<Instant> = None;
        // Jobs that a lost claim has taken come again after their leases.
        while empty_since.is_none_or(|since| since.elapsed() < Duration::from_secs(25)) {
            let claims = self.timed("claim", || queue.claim_with(&options)).unwrap_or_default();
            if claims.is_empty() {
                std::thread::sleep(Duration::from_millis(100));
                if self.is_over.load(Ordering::Relaxed) {
                    empty_since.get_or_insert_with(Instant::now);
                }
                continue;
            }
            empty_since = None;
            for claim in claims {
                let name = String::from_utf8_lossy(claim.payload.as_bytes()).into_owned();
                self.seen(|seen| seen.work(claim.id, &name));
                if self.timed("ack", || queue.ack(claim.token)).is_some() {
                    self.seen(|seen| seen.acked.insert(claim.id));
                }
            }
        }
    }
}

impl Seen {
    fn work(&mut self, id: i64, name: &str) {
        if self.acked.contains(&id) {
            self.wrong.push(format!("job {id} ({name}) was handed out after its ack"));
        }
        let is_first = self.worked.insert(id, name.to_owned()).is_none();
        let of_group = name.strip_prefix('g').and_then(|rest| rest.split_once('.'));
        if let Some((group, at)) = of_group
            && is_first
            && let (Ok(group), Ok(at)) = (group.parse(), at.parse())
        {
            self.of_groups.entry(group).or_default().push(at);
        }
    }

    /// Faults at the end.
    fn judge(mut self) -> Vec<String> {
        for (name, id) in &self.pushed {
            if self.worked.get(id) != Some(name) {
                self.wrong.push(format!("the push of {name} was acknowledged and never worked"));
            }
        }
        let mut names = HashSet::new();
        for name in self.worked.values() {
            if !names.insert(name) {
                self.wrong.push(format!("{name} was pushed once and is two jobs"));
            }
        }
        for (group, order) in &self.of_groups {
            if !order.is_sorted() {
                self.wrong.push(format!("group {group} was not worked in order"));
            }
        }
        self.wrong
    }
}

fn audit(url: &str, time: Duration) -> Result<()> {
    let session = || RqliteQueues::builder(url.parse()?).connect()?.open("audit");
    // Two sessions, as of two machines.
    let (ours, theirs) = (session()?, session()?);
    // The jobs stay, so that the nodes can be compared.
    ours.configure(|settings| settings.keep_done = Duration::from_secs(3_600))?;
    let audit = Audit {
        seen: Mutex::default(),
        is_over: AtomicBool::new(false),
        groups: (0..GROUPS).map(|_| Mutex::new(0)).collect(),
    };
    let watch = AtomicBool::new(true);
    std::thread::scope(|scope| {
        let audit = &audit;
        let keys = scope.spawn(|| watch_keys(url, &watch));
        let mut consumers = Vec::new();
        for caller in 0..CALLERS {
            let queue = if caller.is_multiple_of(2) { &ours } else { &theirs };
            scope.spawn(move || audit.produce(queue, caller));
            consumers.push(scope.spawn(move || audit.consume(queue)));
        }
        std::thread::sleep(time);
        audit.is_over.store(true, Ordering::Relaxed);
        for consumer in consumers {
            let _ = consumer.join();
        }
        watch.store(false, Ordering::Relaxed);
        if let Ok(twice) = keys.join() {
            audit.seen(|seen| seen.wrong.extend(twice));
        }
    });
    let left = ours.stats()?.jobs;
    let seen = audit.seen.into_inner().unwrap_or_else(PoisonError::into_inner);
    println!(
        "{} pushes acknowledged, {} unknown; {} jobs worked, {} acks acknowledged; {left:?}",
        seen.pushed.len(),
        seen.unknown.len(),
        seen.worked.len(),
        seen.acked.len(),
    );
    println!("the longest call: {:.1} s; failed: {:?}", seen.longest.as_secs_f64(), seen.failed);
    let mut wrong = seen.judge();
    if left.open() > 0 {
        wrong.push(format!("{} jobs are left", left.open()));
    }
    match wrong.first() {
        None => Ok(()),
        Some(first) => {
            Err(Error::aborted(format!("{} things are wrong, such as: {first}", wrong.len())))
        }
    }
}

/// Looks again and again for keys with two jobs that hold them, by the jobs' own columns.
fn watch_keys(url: &str, goes_on: &AtomicBool) -> Vec<String> {
    let sql = "SELECT unique_key, count(*) FROM leafpress_job
               WHERE unique_key IS NOT NULL AND state IN (0, 1, 2, 3)
               GROUP BY unique_key HAVING count(*) > 1";
    let agent = agent();
    let nodes = nodes(url);
    let mut wrong = Vec::new();
    let mut turn = 0;
    while goes_on.load(Ordering::Relaxed) {
        turn += 1;
        let place = format!("{}/db/query?level=strong", nodes[turn % nodes.len()]);
        if let Some(body) = post(&agent, &place, &json!([[sql]]))
            && let Some(rows) = body["results"][0]["values"].as_array()
        {
            wrong.extend(rows.iter().map(|row| format!("a key has two holders: {row}")));
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    wrong
}

fn bench(url: &str, callers: u64, time: Duration) -> Result<()> {
    let queue = RqliteQueues::builder(url.parse()?).connect()?.open("bench")?;
    let rival = Rival::new(url);
    let mut counts = [[0_u64; 2]; 2];
    for round in 0..ROUNDS {
        counts[0][0] += hammer(callers, time, || queue.push(JOB).is_ok());
        counts[0][1] += hammer(callers, time, || {
            let claim = queue.claim().ok().flatten();
            claim.is_some_and(|claim| queue.ack(claim.token).is_ok())
        });
        counts[1][0] += hammer(callers, time, || rival.push());
        counts[1][1] += hammer(callers, time, || rival.claim_and_ack());
        eprintln!("round {round}: {counts:?}");
    }
    let per_second = |count: u64| count as f64 / ROUNDS as f64 / time.as_secs_f64();
    for (at, what) in ["push", "claim and ack"].iter().enumerate() {
        let [ours, theirs] = [counts[0][at], counts[1][at]].map(per_second);
        println!(
            "{callers} callers, {what}: {ours:.0}/s, by hand {theirs:.0}/s, ratio {:.1}",
            ours / theirs
        );
    }
    Ok(())
}

const JOB: &str = "some text of a usual length for a job of a queue";

/// Calls of so many threads that have succeeded.
fn hammer(callers: u64, time: Duration, call: impl Fn() -> bool + Sync) -> u64 {
    let end = Instant::now() + time;
    let done = AtomicU64::new(0);
    std::thread::scope(|scope| {
        for _ in 0..callers {
            scope.spawn(|| {
                while Instant::now() < end {
                    if call() {
                        done.fetch_add(1, Ordering::Relaxed);
                    } else {
                        std::thread::sleep(Duration::from_millis(1));
                    }
                }
            });
        }
    });
    done.into_inner()
}

fn agent() -> ureq::Agent {
    let time = Some(Duration::from_secs(10));
    ureq::Agent::config_builder().http_status_as_error(false).timeout_global(time).build().into()
}

fn nodes(url: &str) -> Vec<String> {
    let hosts = url.trim_start_matches("rqlite://").split(',');
    hosts.map(|host| format!("http://{host}")).collect()
}

fn post(agent: &ureq::Agent, place: &str, body: &Value) -> Option<Value> {
    let request = agent.post(place).header("Content-Type", "application/json");
    let text = request.send(body.to_string()).ok()?.body_mut().read_to_string().ok()?;
    serde_json::from_str(&text).ok()
}

/// The URL of the leader, which saves the rival the way through another node.
fn leader(agent: &ureq::Agent, nodes: &[String]) -> Option<String> {
    let text = |url: String| agent.get(url).call().ok()?.body_mut().read_to_string().ok();
    let answers = nodes.iter().filter_map(|node| text(format!("{node}/nodes?ver=2")));
    let known: Value = serde_json::from_str(&answers.into_iter().next()?).ok()?;
    let leads = |node: &&Value| node["leader"] == json!(true);
    let leader = known["nodes"].as_array()?.iter().find(leads)?;
    Some(leader["api_addr"].as_str()?.to_owned())
}

/// A queue as it is written by hand: one table, one request an operation, and no more promises than
/// that.
struct Rival {
    agent: ureq::Agent,
    place: String,
    begun: Instant,
}

impl Rival {
    fn new(url: &str) -> Self {
        let (agent, nodes) = (agent(), nodes(url));
        let place =
            format!("{}/db/request?transaction", leader(&agent, &nodes).unwrap_or_default());
        let rival = Self { place, agent, begun: Instant::now() };
        rival.send(&json!(["DROP TABLE IF EXISTS by_hand"]));
        rival.send(&json!(["CREATE TABLE by_hand(id INTEGER PRIMARY KEY AUTOINCREMENT, \
             state INTEGER, due_at INTEGER, claims INTEGER, mark TEXT, payload)"]));
        rival.send(&json!(["CREATE INDEX by_hand_ready ON by_hand(id) WHERE state = 0"]));
        rival.send(&json!(["CREATE INDEX by_hand_mark ON by_hand(mark) WHERE state = 1"]));
        rival
    }

    /// The result of the last statement.
    fn send(&self, statements: &Value) -> Option<Value> {
        let body = post(&self.agent, &self.place, statements)?;
        let result = body.get("results")?.as_array()?.last()?.clone();
        result.get("error").is_none().then_some(result)
    }

    fn push(&self) -> bool {
        let insert = "INSERT INTO by_hand(state, due_at, claims, payload) VALUES(0, 0, 0, ?)";
        self.send(&json!([[insert, JOB]])).is_some()
    }

    fn claim_and_ack(&self) -> bool {
        // rqlite 8.26 gives no rows for an UPDATE with a subquery and RETURNING.
        let claim = "UPDATE by_hand SET state = 1, due_at = ?, claims = claims + 1, mark = ?
             WHERE id = (SELECT id FROM by_hand WHERE state = 0 ORDER BY id LIMIT 1)";
        let found = "SELECT id, claims, payload FROM by_hand WHERE state = 1 AND mark = ?";
        let mark = format!("{:016x}", fastrand::u64(..));
        let ends = self.begun.elapsed().as_millis() as u64 + 30_000;
        let claimed = self.send(&json!([[claim, ends, mark], [found, mark]]));
        let Some(claimed) = claimed else { return false };
        let row = &claimed["values"][0];
        let ack = "DELETE FROM by_hand WHERE id = ? AND claims = ?";
        !row.is_null() && self.send(&json!([[ack, row[0], row[1]]])).is_some()
    }
}
