//! Two copies of SQLite in one process put a load on one database, with a third beside them
//! in another process: nothing may be lost, double or damaged.
//!
//! This executable starts itself again as the process under load, so it has no test
//! harness. Two controls belong to it:
//! - The same without calling `leafpress` must lose: a load that finds no fault in two
//!   plain copies proves nothing.
//! - The same with each copy in a process of its own must lose nothing: else the load
//!   itself would be at fault.
//!
//! `LEAFPRESS_NEIGHBOUR_TRANSACTIONS` says how many transactions each profile gets, and
//! `LEAFPRESS_NEIGHBOUR_SEED` what they follow from.
#![cfg(unix)]

use std::path::Path;
use std::process::ExitCode;
use std::time::Instant;

use leafpress::Profile;
use leafpress_neighbour::load::{
    Beside, Child, Copies, Load, Told, Verdict, judge, make_database, number_from_environment,
    run_if_child,
};

const TRANSACTIONS: i64 = 1_500;
const TRANSACTIONS_OF_CONTROL: i64 = 600;
/// So often the control may be lucky. Nearly each round of it finds a loss.
const CONTROL_ROUNDS_MAX: u64 = 20;

fn main() -> ExitCode {
    run_if_child();
    if std::env::args().any(|argument| argument == "--list") {
        return ExitCode::SUCCESS;
    }
    let transactions = number_from_environment("LEAFPRESS_NEIGHBOUR_TRANSACTIONS", TRANSACTIONS);
    let seed = number_from_environment("LEAFPRESS_NEIGHBOUR_SEED", 1) as u64;
    let mut is_kept = true;
    for profile in [Profile::Durable, Profile::Rollback] {
        let load = Load {
            profile,
            first_id: 1,
            transactions,
            seed,
            with_leafpress: true,
            copies: Copies::Both,
        };
        plain_copies_lose(load);
        is_kept &= copies_apart_lose_nothing(load);
        is_kept &= two_copies_lose_nothing(load);
    }
    if is_kept { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Runs children on a new database, beside this process, and judges.
fn round(profile: Profile, loads: &[Load]) -> (Told, Verdict) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.db");
    make_database(&path, profile);
    let beside = Beside::start(&path, 1);
    let mut told = hear_all(&path, loads);
    beside.stop(&mut told);
    let verdict = judge(&path, &told.acknowledged);
    (told, verdict)
}

fn hear_all(path: &Path, loads: &[Load]) -> Told {
    let mut whole = Told::default();
    std::thread::scope(|scope| {
        let children: Vec<_> = loads
            .iter()
            .map(|load| scope.spawn(|| Child::start(path, *load).hear_to_the_end()))
            .collect();
        for child in children {
            let told = child.join().unwrap();
            whole.acknowledged.extend(told.acknowledged);
            whole.broken.extend(told.broken);
        }
    });
    whole
}

/// Runs a round that must lose nothing, and says what it found.
fn is_whole(what: &str, profile: Profile, loads: &[Load]) -> bool {
    let began = Instant::now();
    let (told, verdict) = round(profile, loads);
    let (acknowledged, elapsed) = (told.acknowledged.len(), began.elapsed());
    println!("{profile}, {what}: {acknowledged} acknowledged in {elapsed:.1?}; {verdict}");
    for broken in told.broken.iter().take(10) {
        println!("  answered: {broken:.300}");
    }
    let asked: i64 = loads.iter().map(|load| load.transactions).sum();
    verdict.is_kept() && told.broken.is_empty() && acknowledged as i64 >= asked
}

fn two_copies_lose_nothing(load: Load) -> bool {
    is_whole("two copies in one process", load.profile, &[load])
}

fn copies_apart_lose_nothing(load: Load) -> bool {
    let half = TRANSACTIONS_OF_CONTROL / 2;
    let [ours, theirs] = [(1, Copies::Ours), (1 + half, Copies::Neighbours)]
        .map(|(first_id, copies)| Load { first_id, transactions: half, copies, ..load });
    is_whole("control, a process for each", load.profile, &[ours, theirs])
}

/// Two plain copies must lose or double a transaction, or damage the database.
fn plain_copies_lose(load: Load) {
    let profile = load.profile;
    for seed in 1..=CONTROL_ROUNDS_MAX {
        let transactions = TRANSACTIONS_OF_CONTROL;
        let plain = Load { transactions, seed, with_leafpress: false, ..load };
        let (told, verdict) = round(profile, &[plain]);
        let (acknowledged, broken) = (told.acknowledged.len(), told.broken.len());
        println!(
            "{profile}, control, two plain copies, round {seed}: {acknowledged} acknowledged; \
             {verdict}; {broken} answers that must not be"
        );
        if !verdict.is_kept() {
            return;
        }
    }
    panic!("{profile}: two plain copies lost nothing in {CONTROL_ROUNDS_MAX} rounds");
}
