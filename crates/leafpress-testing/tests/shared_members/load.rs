//! Load without kills: members beside a program without Leafpress, and more writers than the page has
//! slots.
//!
//! Must never: take a time for a fault.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::judge::{Judge, Verdict};
use crate::member::{ALONE, IDS_EACH, MANY, PLAIN, WRITERS_OF_MANY};
use crate::members::{HANG, Members};

const PROCESSES: usize = 8;
/// Slots of the page.
const SLOTS: usize = 128;
const PROCESSES_OF_MANY: usize = 5;

pub fn nothing_fails_under_load(seconds: u64) {
    let folder = tempfile::tempdir().unwrap();
    let judge = Judge::new(folder.path());
    let mut members = Members::new(&judge.path);
    members.start_up_to(PROCESSES);
    let plain = members.start(PLAIN);
    assert!(members.answered_all_but(None, HANG), "a process has no answer");
    members.acknowledged.clear();
    members.listen(Duration::from_secs(seconds));
    let mut counts = BTreeMap::<i64, u64>::new();
    for id in &members.acknowledged {
        *counts.entry(id / IDS_EACH).or_default() += 1;
    }
    members.end();
    assert_eq!(judge.look_again(&members.acknowledged), Verdict::default());
    let of_plain = counts.remove(&plain).unwrap_or_default();
    let mean = counts.values().sum::<u64>() / PROCESSES as u64;
    let slowest = counts.values().min().copied().unwrap_or_default();
    println!(
        "{seconds} s of load: no error; {} rows a second, {mean} of each process, {slowest} of the \
         slowest; {of_plain} of a program without leafpress",
        mean * PROCESSES as u64 / seconds.max(1)
    );
    members.say_numbers();
}

pub fn more_writers_than_slots_write() {
    let folder = tempfile::tempdir().unwrap();
    let judge = Judge::new(folder.path());
    let mut members = Members::new(&judge.path);
    for _ in 0..PROCESSES_OF_MANY {
        members.start(MANY);
    }
    assert!(members.answered_all_but(None, HANG), "a process has no answer");
    members.end();
    assert_eq!(judge.look_again(&members.acknowledged), Verdict::default());
    let alone: Vec<&String> = members.lines.iter().filter(|it| it.starts_with(ALONE)).collect();
    assert_eq!(alone.len(), PROCESSES_OF_MANY * WRITERS_OF_MANY - SLOTS, "{alone:?}");
    assert!(alone[0].contains("128 writers share the database already"), "{alone:?}");
    println!("{SLOTS} writers share, {} work by themselves", alone.len());
}
