//! Many callers at a cluster of rqlite: through the Writer, and with one request a call.
//!
//! `cargo run --release -p leafpress-rqlite --example rqlite_callers -- URL CALLERS SECONDS` prints the calls
//! a second of three ways, in turns: the Writer; a bare INSERT a request, as programs send it, over
//! connections that stay open; and a request a call with the promises of the Writer. It checks that each
//! acknowledged call is there once.
//!
//! A fourth word measures the Writer alone, for tests that kill and cut off nodes meanwhile: `audit`, or
//! `control`, which leaves out the rows by which a group is applied once.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use leafpress::{Error, Result, Writer};
use leafpress_rqlite::{Address, RqliteTarget};

const ROUNDS: u64 = 3;
const SQL: &str = "INSERT INTO called(key, rest) VALUES (?1, ?2)";
const REST: &str = "some text of a usual length for an event";

/// One caller: a call with this key.
type Call<'a> = Box<dyn FnMut(i64) -> bool + Send + 'a>;

/// The sums of one way.
#[derive(Default)]
struct Sums {
    acknowledged: u64,
    not_known: u64,
    worst: Duration,
    /// Calls a second, of each round.
    rates: Vec<f64>,
}

fn main() -> Result<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let usage = || Error::misuse("give URL CALLERS SECONDS");
    let [url, callers, seconds, ..] = words.as_slice() else { return Err(usage()) };
    let address: Address = url.parse()?;
    let callers: usize = callers.parse().map_err(|_| usage())?;
    let time = Duration::from_secs_f64(seconds.parse().map_err(|_| usage())?);
    let test = words.get(3).map(String::as_str);
    let open = |waiting| {
        let target = RqliteTarget::new(address.clone());
        let target = if test == Some("control") { target.without_dedupe() } else { target };
        Writer::with_target(target, waiting)
    };
    let grouped = open(1_024)?;
    grouped.execute_batch("DROP TABLE IF EXISTS called")?;
    grouped.execute_batch("CREATE TABLE called(key INTEGER, rest TEXT)")?;
    let next = AtomicU64::new(0);
    let ways: &[&str] =
        if test.is_some() { &["writer"] } else { &["writer", "bare request", "single writer"] };
    let mut sums: Vec<Sums> = ways.iter().map(|_| Sums::default()).collect();
    // A writer for each caller: its groups have one call, and so does a request.
    let singles: Vec<Writer> = match test {
        Some(_) => Vec::new(),
        None => (0..callers).map(|_| open(1)).collect::<Result<_>>()?,
    };
    let agents: Vec<ureq::Agent> = (0..callers).map(|_| agent()).collect();
    for _ in 0..if test.is_some() { 1 } else { ROUNDS } {
        for (way, sums) in ways.iter().zip(&mut sums) {
            let calls: Vec<Call<'_>> = match *way {
                "writer" => (0..callers).map(|_| by_writer(&grouped)).collect(),
                "bare request" => agents.iter().map(|it| by_request(it, url)).collect(),
                _ => singles.iter().map(by_writer).collect(),
            };
            hammer(calls, time, &next, sums);
        }
    }
    print(ways, &sums, callers);
    check(&grouped, &sums)?;
    grouped.close()
}

fn print(ways: &[&str], sums: &[Sums], callers: usize) {
    for (way, sums) in ways.iter().zip(sums) {
        println!(
            "{callers} callers, {way}: {:.0} calls/s, worst call {:.2} s",
            median(&sums.rates),
            sums.worst.as_secs_f64()
        );
    }
    for (way, other) in ways.iter().zip(sums).skip(1) {
        let ratios: Vec<f64> =
            sums[0].rates.iter().zip(&other.rates).map(|(ours, theirs)| ours / theirs).collect();
        println!("ratio to {way}: {:.1}", median(&ratios));
    }
}

fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted.get(sorted.len() / 2).copied().unwrap_or_default()
}

/// Counts the keys of the table, and those that are there twice.
fn check(writer: &Writer, sums: &[Sums]) -> Result<()> {
    let acknowledged: u64 = sums.iter().map(|it| it.acknowledged).sum();
    let unknown: u64 = sums.iter().map(|it| it.not_known).sum();
    // An UPDATE tells by its count how many keys there are, and how many twice.
    let rows = writer.execute("UPDATE called SET rest = ''", ())?.rows_changed;
    let twice =
        "DELETE FROM called WHERE rowid NOT IN (SELECT min(rowid) FROM called GROUP BY key)";
    let twice = writer.execute(twice, ())?.rows_changed;
    println!("acknowledged {acknowledged}, not known {unknown}, rows {rows}, twice {twice}");
    if twice > 0 || rows < acknowledged || rows > acknowledged + unknown {
        return Err(Error::aborted("calls were lost, or applied twice"));
    }
    Ok(())
}

fn by_writer(writer: &Writer) -> Call<'_> {
    Box::new(move |key| writer.execute(SQL, (key, REST)).is_ok())
}

/// A bare INSERT, to the first node of the URL.
fn by_request<'a>(agent: &'a ureq::Agent, url: &str) -> Call<'a> {
    let node = url.trim_start_matches("rqlite://").split(',').next().unwrap_or_default();
    let url = format!("http://{node}/db/execute");
    Box::new(move |key| {
        let body = format!("[[\"{SQL}\",{key},\"{REST}\"]]");
        let request = agent.post(&url).header("Content-Type", "application/json");
        let answer = request.send(&body).and_then(|mut it| it.body_mut().read_to_string());
        answer.is_ok_and(|it| !it.contains("error"))
    })
}

fn agent() -> ureq::Agent {
    ureq::Agent::config_builder().timeout_global(Some(Duration::from_secs(10))).build().into()
}

/// Calls of all callers for this time.
fn hammer(calls: Vec<Call<'_>>, time: Duration, next: &AtomicU64, sums: &mut Sums) {
    let began = Instant::now();
    let before = sums.acknowledged;
    let all = Mutex::new(sums);
    std::thread::scope(|scope| {
        for mut call in calls {
            let all = &all;
            scope.spawn(move || {
                let (mut done, mut lost, mut worst) = (0, 0, Duration::ZERO);
                while began.elapsed() < time {
                    let began = Instant::now();
                    let is_done = call(next.fetch_add(1, Ordering::Relaxed) as i64);
                    if is_done {
                        done += 1;
                    } else {
                        lost += 1;
                    }
                    worst = worst.max(began.elapsed());
                }
                if let Ok(mut sums) = all.lock() {
                    sums.acknowledged += done;
                    sums.not_known += lost;
                    sums.worst = sums.worst.max(worst);
                }
            });
        }
    });
    if let Ok(sums) = all.into_inner() {
        let done = sums.acknowledged - before;
        sums.rates.push(done as f64 / began.elapsed().as_secs_f64());
    }
}
