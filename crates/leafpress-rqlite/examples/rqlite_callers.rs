//! Many callers at a cluster of rqlite: through the Writer, and with one request a call.
//!
//! `cargo run --release -p leafpress-rqlite --example rqlite_callers -- URL CALLERS SECONDS` prints
//! the calls a second of both, in turns, their ratio, and whether each acknowledged call is there once.
//! `audit` as a fourth word measures the Writer alone: for tests that kill nodes meanwhile.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use leafpress::{Result, Writer};
use leafpress_rqlite::{Address, RqliteTarget};

const ROUNDS: u64 = 3;

fn main() -> Result<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let usage = || leafpress::Error::misuse("give URL CALLERS SECONDS");
    let [url, callers, seconds, ..] = words.as_slice() else { return Err(usage()) };
    let address: Address = url.parse()?;
    let callers: u64 = callers.parse().map_err(|_| usage())?;
    let time = Duration::from_secs_f64(seconds.parse().map_err(|_| usage())?);
    let open = |waiting| Writer::with_target(RqliteTarget::new(address.clone()), waiting);

    let grouped = open(1_024)?;
    grouped.execute_batch("DROP TABLE IF EXISTS called")?;
    grouped.execute_batch("CREATE TABLE called(key INTEGER, rest TEXT)")?;
    let is_audit = words.get(3).is_some_and(|word| word == "audit");
    // A writer for each caller: its groups have one call, and so does a request.
    let single =
        if is_audit { Vec::new() } else { (0..callers).map(|_| open(1)).collect::<Result<_>>()? };
    let next = AtomicU64::new(0);
    let (mut of_groups, mut of_singles, mut unknown) = (0, 0, 0);
    for _ in 0..if is_audit { 1 } else { ROUNDS } {
        let (done, lost) = hammer(&vec![grouped.clone(); callers as usize], time, &next);
        of_groups += done;
        unknown += lost;
        if !is_audit {
            let (done, lost) = hammer(&single, time, &next);
            of_singles += done;
            unknown += lost;
        }
    }
    let rounds = if is_audit { 1.0 } else { ROUNDS as f64 };
    let per_second = |calls: u64| calls as f64 / rounds / time.as_secs_f64();
    println!("{callers} callers, by the writer: {:.0} calls/s", per_second(of_groups));
    if !is_audit {
        println!("{callers} callers, one request a call: {:.0} calls/s", per_second(of_singles));
        println!("ratio: {:.1}", per_second(of_groups) / per_second(of_singles));
    }
    let acknowledged = of_groups + of_singles;
    // An UPDATE tells by its count how many keys there are, and how many twice.
    let rows = grouped.execute("UPDATE called SET rest = ''", ())?.rows_changed;
    let twice =
        "DELETE FROM called WHERE rowid NOT IN (SELECT min(rowid) FROM called GROUP BY key)";
    let twice = grouped.execute(twice, ())?.rows_changed;
    println!("acknowledged {acknowledged}, not known {unknown}, rows {rows}, twice {twice}");
    if twice > 0 || rows < acknowledged || rows > acknowledged + unknown {
        return Err(leafpress::Error::aborted("calls were lost, or applied twice"));
    }
    grouped.close()
}

/// Calls by one caller for each writer: how many were acknowledged, and how many failed.
fn hammer(writers: &[Writer], time: Duration, next: &AtomicU64) -> (u64, u64) {
    let end = Instant::now() + time;
    let call_until_end = |writer: &Writer| {
        let (mut done, mut lost) = (0, 0);
        while Instant::now() < end {
            let key = next.fetch_add(1, Ordering::Relaxed) as i64;
            let sql = "INSERT INTO called(key, rest) VALUES (?1, ?2)";
            match writer.execute(sql, (key, "some text of a usual length for an event")) {
                Ok(_) => done += 1,
                Err(_) => lost += 1,
            }
        }
        (done, lost)
    };
    std::thread::scope(|scope| {
        let threads: Vec<_> =
            writers.iter().map(|it| scope.spawn(move || call_until_end(it))).collect();
        let ends = threads.into_iter().filter_map(|thread| thread.join().ok());
        ends.fold((0, 0), |sum, end| (sum.0 + end.0, sum.1 + end.1))
    })
}
