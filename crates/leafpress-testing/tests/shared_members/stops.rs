//! A member is stopped, by a debugger say, in whatever state it is: asleep, in the line, as it holds
//! the baton. The others go on, unless it holds SQLite's own lock.
//!
//! Must never: leave a process stopped.

use std::time::Duration;

use leafpress_testing::crash::Random;
use rusqlite::{Connection, TransactionBehavior};
use rustix::process::{Pid, Signal, kill_process};

use crate::judge::{Judge, Verdict};
use crate::members::{HANG, Members};

const PROCESSES: usize = 4;
const STOPS: u32 = 100;
/// Time after which SQLite's lock is asked if it is held.
const PATIENCE: Duration = Duration::from_secs(3);

pub fn members_are_stopped() {
    let folder = tempfile::tempdir().unwrap();
    let judge = Judge::new(folder.path());
    let mut members = Members::new(&judge.path);
    let mut random = Random::new(19);
    members.start_up_to(PROCESSES);
    let mut in_transactions = 0;
    for stop in 0..STOPS {
        members.listen(Duration::from_micros(random.below(20_000) as u64));
        let number = random.below(PROCESSES) as i64;
        signal(&members, number, Signal::STOP);
        if !members.answered_all_but(Some(number), PATIENCE) {
            in_transactions += 1;
            // This connection waits for the lock as the members do.
            let is_held = is_locked(&judge);
            let others_went_on = members.answered_all_but(Some(number), Duration::ZERO)
                || is_held
                || members.answered_all_but(Some(number), HANG);
            assert!(others_went_on, "stop {stop}: process {number} holds no lock, others wait");
        }
        signal(&members, number, Signal::CONT);
        assert!(members.answered_all_but(None, HANG), "stop {stop}: a process has no answer");
    }
    members.end();
    assert_eq!(judge.look_again(&members.acknowledged), Verdict::default());
    assert!(in_transactions < STOPS, "each stop met an open transaction");
    println!("{STOPS} stops, {in_transactions} of them in a transaction: no error");
    members.say_numbers();
}

fn signal(members: &Members, number: i64, signal: Signal) {
    kill_process(Pid::from_child(&members.running[&number].child), signal).unwrap();
}

/// Returns true if a transaction is open, and stays so for a while.
fn is_locked(judge: &Judge) -> bool {
    let mut connection = Connection::open(&judge.path).unwrap();
    connection.busy_timeout(PATIENCE).unwrap();
    connection.transaction_with_behavior(TransactionBehavior::Immediate).is_err()
}
