//! Processes that push and work on the same queues are killed in the middle of
//! it, again and again, on the real file system; then their answers are compared
//! with what is there.
//!
//! This executable starts itself again as each of the processes, so it has no
//! test harness. Six processes have a [`Writer`](leafpress::writer::Writer) and
//! queues each, with several threads: some push, some claim and settle, some do
//! both. Each writes its calls and their answers to a file of its own. The rules that
//! must hold then are on top of `queue_kills/judge.rs`.
//!
//! Jobs have groups, unique keys, priorities, delays, ends of their time, rows of
//! the application's that are written with them; some are poison. Rounds take
//! turns with the profiles `durable` and `relaxed` (a killed process loses nothing
//! under either), with done jobs kept or deleted, and every fifth one with clocks
//! that are wrong, each in another way, and jump. In two rounds of three the processes share the
//! database ([`shared`](leafpress::writer::WriterBuilder::shared)).
//!
//! | | rounds | jobs each |
//! |---|---|---|
//! | `cargo test` | 3 | 1,500 |
//! | `LEAFPRESS_QUEUE_KILLS=50 cargo test --release -p leafpress-testing --test queue_kills` | 50 | 10,000 |
//!
//! After the first round the judge is given forgeries, and must see through each.
//!
//! `LEAFPRESS_QUEUE_KILLS_SEED` begins with another seed; processes meet in another
//! way each time all the same. The files of a round that failed are kept.

#[path = "queue_kills/child.rs"]
mod child;
#[path = "queue_kills/journal.rs"]
mod journal;
#[path = "queue_kills/judge.rs"]
mod judge;
#[path = "queue_kills/plan.rs"]
mod plan;
#[path = "queue_kills/round.rs"]
mod round;

use std::time::Instant;

use leafpress::Profile;

use judge::Counts;
use round::Plan;

const CHILD_FLAG: &str = "--work-until-killed";

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        [_, CHILD_FLAG, task @ ..] => child::work(&child::Task::of(task)),
        [_, flags @ ..] if flags.contains(&"--list") => {}
        _ => rounds(),
    }
}

fn number(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{name}={text} is no number")))
}

fn rounds() {
    let asked = number("LEAFPRESS_QUEUE_KILLS");
    let [rounds, jobs, kills] = asked.map_or([3, 1_500, 14], |rounds| [rounds, 10_000, 40]);
    let first = number("LEAFPRESS_QUEUE_KILLS_SEED").unwrap_or(0);
    let began = Instant::now();
    let (mut whole, mut killed) = (Counts::default(), 0);
    for round in first..first + rounds {
        let plan = Plan {
            profile: if round % 2 == 0 { Profile::Durable } else { Profile::Relaxed },
            jobs,
            kills,
            keeps_done: round % 4 < 2,
            clocks_jump: round % 5 == 2,
            shares: round % 3 < 2,
            forges: round == first,
            seed: round,
        };
        let (began, folder) = (Instant::now(), tempfile::tempdir().unwrap());
        // Kept until the judge has agreed.
        let path = folder.keep();
        println!("{plan:?} in {}", path.display());
        let (kills, counts) = round::run(&path, &plan);
        println!("  {kills} kills, {counts:?}, {:.1} s", began.elapsed().as_secs_f64());
        std::fs::remove_dir_all(&path).unwrap();
        assert!(kills > 0 && counts.acked > 0 && counts.dead > 0 && counts.redeliveries > 0);
        whole.add(&counts);
        killed += kills;
    }
    table(rounds, killed, &whole, began.elapsed().as_secs_f64());
}

fn table(rounds: u64, kills: u64, counts: &Counts, seconds: f64) {
    let Counts { pushes, jobs, claims, redeliveries, after_lost_leases, acked, dead, refused } =
        counts;
    println!(
        "| rounds | kills | pushes answered | jobs | claims | redelivered | after a lost lease | \
         acked | dead | late answers refused | lost | s |\n\
         |---|---|---|---|---|---|---|---|---|---|---|---|\n\
         | {rounds} | {kills} | {pushes} | {jobs} | {claims} | {redeliveries} | \
         {after_lost_leases} | {acked} | {dead} | {refused} | 0 | {seconds:.0} |"
    );
}
