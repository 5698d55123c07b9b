//! A process with two copies of SQLite under load is killed at random, again and again:
//! what was acknowledged is there, once and whole, and the database is sound.
//!
//! This executable starts itself again as the process that is killed, so it has no test
//! harness. `LEAFPRESS_NEIGHBOUR_KILLS` says how often each profile is killed.
#![cfg(unix)]

use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

use leafpress::Profile;
use leafpress_neighbour::load::{
    Beside, Child, Copies, Load, Told, judge, make_database, number_from_environment, run_if_child,
};
use leafpress_testing::crash::Random;

const KILLS: i64 = 5;
/// Far more than a child gets to before it is killed.
const IDS_EACH: i64 = 1_000_000;

fn main() {
    run_if_child();
    if std::env::args().any(|argument| argument == "--list") {
        return;
    }
    let kills = number_from_environment("LEAFPRESS_NEIGHBOUR_KILLS", KILLS);
    for profile in [Profile::Durable, Profile::Rollback] {
        kill_again_and_again(profile, kills);
    }
}

fn kill_again_and_again(profile: Profile, kills: i64) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.db");
    make_database(&path, profile);
    let mut acknowledged = BTreeSet::new();
    for kill in 0..kills {
        let mut random = Random::of(&[7, kill as u64]);
        let load = Load {
            profile,
            first_id: 1 + kill * IDS_EACH,
            transactions: IDS_EACH,
            seed: kill as u64,
            with_leafpress: true,
            copies: Copies::Both,
        };
        // After a number of answers, at once or a little later.
        let lines = 1 + random.below(80) as u64;
        let pause = Duration::from_micros(random.choose(&[0, 100, 1_000, 5_000, 20_000]));
        // Else the next child is the first that opens what was killed.
        let beside = (kill % 2 == 1).then(|| Beside::start(&path, load.first_id));
        let mut told = Child::start(&path, load).kill_after(lines, pause);
        if let Some(beside) = beside {
            beside.stop(&mut told);
        }
        let context = format!("{profile}, kill {kill} after {lines} answers and {pause:?}");
        check(&path, told, &mut acknowledged, &context);
    }
    println!(
        "{profile}: {kills} kills, {} transactions acknowledged, all there",
        acknowledged.len()
    );
}

/// Judges a copy, so that the next child meets what the kill left.
fn check(path: &Path, told: Told, acknowledged: &mut BTreeSet<i64>, context: &str) {
    assert_eq!(told.broken, [""; 0], "{context}");
    acknowledged.extend(told.acknowledged);
    let copy = tempfile::tempdir().unwrap();
    for end in ["", "-wal", "-journal"] {
        let from = path.with_file_name(format!("a.db{end}"));
        if from.exists() {
            std::fs::copy(from, copy.path().join(format!("a.db{end}"))).unwrap();
        }
    }
    let verdict = judge(&copy.path().join("a.db"), acknowledged);
    assert!(verdict.is_kept(), "{context}: {verdict}");
}
