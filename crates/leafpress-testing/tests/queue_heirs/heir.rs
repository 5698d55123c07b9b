//! A process that opens the database that a crash left, with a clock of its own, and
//! does all the work that is there.
//!
//! 1. All that was acknowledged is there, as far as the profile promises.
//! 2. The rules of the tables hold, before and after.
//! 3. A new job has an id that no caller was ever told.
//! 4. Every job can be claimed and acknowledged; a dead process holds none for ever,
//!    whatever the clocks say.
//! 5. Jobs of one group come one after the other, in the order of their pushes.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use leafpress::Profile;
use leafpress::queue::{Claim, ClaimOptions, Clock, Job, ManualClock, Queue};
use leafpress::writer::Writer;
use leafpress_testing::crash::queue_history::{Fact, Seen};
use leafpress_testing::crash::workload_queue::{CLOCK_START_MS, LEASE_MAX, QUEUES};
use leafpress_testing::crash::{Random, Snapshot};
use leafpress_testing::queue_audit::broken_rules;
use rusqlite::Connection;

/// The files that a crash left, and the answers before it.
pub struct Heritage<'a> {
    pub profile: Profile,
    pub told: &'a [Fact],
    /// True if some of the last may be missing.
    pub may_lack_the_last: bool,
    pub files: &'a Snapshot,
}

/// Opens what was left, and does all jobs; how many there were. The files as they
/// were left, and as the heir has them, are in the folder.
///
/// # Panics
/// If anything is not as it must be.
pub fn inherit(heritage: &Heritage<'_>, folder: &Path, random: &mut Random) -> usize {
    heritage.files.save(&folder.join("left")).unwrap();
    heritage.files.save(&folder.join("inherited")).unwrap();
    let path = folder.join("inherited").join("a.db");
    let writer = Writer::builder(&path).profile(heritage.profile).open().unwrap();
    let wrong_ms = random.choose(&[0, 1, -5_000, 5_000, -10_800_000, 86_400_000]);
    let (clock, hand) = Clock::manual(CLOCK_START_MS + wrong_ms);
    let first = Queue::builder(&writer, QUEUES[0]).clock(clock).open().unwrap();
    let queues = [first, Queue::open(&writer, QUEUES[1]).unwrap()];
    let ids_told = heritage.told.iter().filter_map(|fact| match fact {
        Fact::Pushed(id) | Fact::PushedWithRow(id, _) => Some(*id),
        _ => None,
    });
    let id_told_max = ids_told.max().unwrap_or(0);
    let reader = Connection::open(&path).unwrap();
    reader.busy_timeout(Duration::from_secs(60)).unwrap();
    check(&reader, heritage);
    let pushed = queues[random.below(2)].push(Job::bytes("after the crash")).unwrap();
    let is_above = pushed.id > id_told_max;
    assert!(heritage.may_lack_the_last || is_above, "{} after {id_told_max}", pushed.id);
    let done = queues.iter().map(|queue| drain(queue, &hand, &reader)).sum();
    assert_eq!(broken_rules(&reader).unwrap(), Vec::<String>::new());
    let keys = "SELECT count(*) FROM leafpress_key WHERE scope <> 2";
    let keys: i64 = reader.query_row(keys, [], |row| row.get(0)).unwrap();
    assert_eq!(keys, 0, "keys of jobs that are done are held");
    reader.close().unwrap();
    drop(queues);
    writer.close().unwrap();
    let stock = Connection::open(&path).unwrap();
    let answer: String = stock.query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap();
    assert_eq!(answer, "ok");
    done
}

/// Rules 1 and 2, before anything is done.
fn check(reader: &Connection, heritage: &Heritage<'_>) {
    assert_eq!(broken_rules(reader).unwrap(), Vec::<String>::new());
    let seen = Seen::of(reader).unwrap();
    let lost = heritage.told.iter().filter(|fact| {
        // Of which only the last of a claim stays true.
        !matches!(fact, Fact::Extended(..)) && !seen.has(**fact)
    });
    let lost: Vec<_> = lost.collect();
    assert!(heritage.may_lack_the_last || lost.is_empty(), "told, and lost: {lost:?}");
}

/// Rules 4 and 5: does all jobs of a queue, if need be after ever longer waits.
fn drain(queue: &Queue, hand: &ManualClock, reader: &Connection) -> usize {
    let options = ClaimOptions::new().jobs_max(5).worker("the heir");
    let (mut done, mut last_of_group) = (0, BTreeMap::new());
    let mut wait_ms = LEASE_MAX.as_millis() as i64;
    for _ in 0..20 {
        loop {
            let claims = queue.claim_with(&options).unwrap();
            if claims.is_empty() {
                break;
            }
            in_order(&claims, slots(queue.name()), &mut last_of_group);
            let tokens: Vec<_> = claims.iter().map(|claim| claim.token).collect();
            for answer in queue.ack_many(&tokens).unwrap() {
                answer.unwrap();
            }
            done += claims.len();
        }
        let [leased, open] = unended(reader, queue.name());
        if open == 0 {
            return done;
        }
        let waited = wait_ms > LEASE_MAX.as_millis() as i64;
        assert!(leased == 0 || !waited, "{leased} jobs are held by a dead process");
        hand.advance_ms(wait_ms);
        wait_ms *= 2;
    }
    panic!("jobs are left that cannot be claimed: {:?}", unended(reader, queue.name()));
}

/// Number of jobs of a group that may be ahead of one another.
fn slots(queue: &str) -> usize {
    if queue == QUEUES[0] { 1 } else { 2 }
}

/// With one slot each job of a group comes after all before it have ended; with
/// two, jobs of a group that are given at once may be two.
fn in_order(claims: &[Claim], slots: usize, last_of_group: &mut BTreeMap<String, i64>) {
    let mut at_once: BTreeMap<&str, usize> = BTreeMap::new();
    for claim in claims {
        let Some(group) = &claim.group else { continue };
        let count = at_once.entry(group).or_default();
        *count += 1;
        assert!(*count <= slots, "{count} of {group} at once");
        let before = last_of_group.insert(group.clone(), claim.id);
        assert!(slots > 1 || before < Some(claim.id), "{before:?} came before {}", claim.id);
    }
}

fn unended(reader: &Connection, queue: &str) -> [i64; 2] {
    let sql = "SELECT total(state = 1), count(*) FROM leafpress_job JOIN leafpress_queue
             ON leafpress_queue.id = queue WHERE name = ?1 AND state < 4";
    let count = |column: f64| column as i64;
    reader.query_row(sql, [queue], |row| Ok([count(row.get(0)?), row.get(1)?])).unwrap()
}
