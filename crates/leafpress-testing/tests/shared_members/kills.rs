//! Members are killed at random moments: one, two at once, all at once.
//!
//! Must never: take a time for a fault; a machine may have much else to do.

use std::time::{Duration, Instant};

use leafpress_testing::crash::Random;

use crate::judge::{Judge, Verdict};
use crate::member::TOO_EARLY;
use crate::members::{HANG, Members};

const PROCESSES: usize = 8;
/// Kills of two at once, and of all: one for so many kills of one.
const SINGLES_TO_DOUBLE: u64 = 3;
const SINGLES_TO_ALL: u64 = 6;
/// Kills of all within which a row is lost that was answered too early.
const KILLS_OF_CONTROL: u64 = 50;

/// The test of the tests: a member that answers too early loses rows.
pub fn rows_answered_too_early_are_found_to_be_lost() {
    let folder = tempfile::tempdir().unwrap();
    let mut judge = Judge::new(folder.path());
    let mut members = Members::new(&judge.path);
    for kill in 1..=KILLS_OF_CONTROL {
        let started = [members.start(TOO_EARLY), members.start(TOO_EARLY)];
        members.listen_until("each process writes", |it| {
            started.iter().all(|number| it.answers.iter().any(|(_, member)| member == number))
        });
        members.kill(&started);
        let lost = judge.look(&members.acknowledged).lost.len();
        if lost > 0 {
            println!(
                "control: {lost} rows that were answered too early are lost after {kill} kills"
            );
            return;
        }
    }
    panic!("rows were answered too early, and {KILLS_OF_CONTROL} kills lost none of them");
}

pub fn members_are_killed(singles: u64) {
    let folder = tempfile::tempdir().unwrap();
    let mut killing = Killing::new(Judge::new(folder.path()));
    for single in 1..=singles {
        killing.kill(1);
        if single % SINGLES_TO_DOUBLE == 0 {
            killing.kill(2);
        }
        if single % SINGLES_TO_ALL == 0 {
            killing.kill(PROCESSES);
        }
    }
    killing.end();
}

struct Killing {
    judge: Judge,
    members: Members,
    random: Random,
    /// Rows that were acknowledged, and that the judge has seen.
    judged: Vec<i64>,
    kills: usize,
    /// The longest time without an answer after each kill.
    gaps: Vec<Duration>,
}

impl Killing {
    fn new(judge: Judge) -> Self {
        let members = Members::new(&judge.path);
        let random = Random::new(18);
        Self { judge, members, random, judged: Vec::new(), kills: 0, gaps: Vec::new() }
    }

    /// Kills so many, after a random time.
    fn kill(&mut self, count: usize) {
        self.members.start_up_to(PROCESSES);
        self.members.listen(Duration::from_micros(self.random.below(100_000) as u64));
        let mut numbers: Vec<i64> = self.members.running.keys().copied().collect();
        while numbers.len() > count {
            numbers.swap_remove(self.random.below(numbers.len()));
        }
        let killed_at = Instant::now();
        self.members.kill(&numbers);
        self.kills += count;
        if count < PROCESSES {
            let all_answered = self.members.answered_all_but(None, HANG);
            assert!(all_answered, "after the kill of {numbers:?} a process has no answer");
            self.gaps.push(longest_gap(killed_at, &self.members.answers));
        }
        let acknowledged = std::mem::take(&mut self.members.acknowledged);
        let verdict = self.judge.look(&acknowledged);
        assert_eq!(verdict, Verdict::default(), "after the kill of {numbers:?}");
        assert_eq!(self.members.errors, [""; 0], "after the kill of {numbers:?}");
        self.judged.extend(acknowledged);
    }

    fn end(mut self) {
        self.members.end();
        self.judged.append(&mut self.members.acknowledged);
        assert_eq!(self.judge.look_again(&self.judged), Verdict::default());
        self.gaps.sort_unstable();
        let of_hundred = |percent| self.gaps[(self.gaps.len() - 1) * percent / 100];
        println!(
            "{} processes were killed, {} rows acknowledged, all there, once; longest time without \
             an answer after a kill: median {:?}, p99 {:?}",
            self.kills,
            self.judged.len(),
            of_hundred(50),
            of_hundred(99)
        );
    }
}

/// The longest time without an answer, from this moment on.
fn longest_gap(from: Instant, answers: &[(Instant, i64)]) -> Duration {
    let mut times: Vec<Instant> = answers.iter().map(|(at, _)| *at).collect();
    times.push(from);
    times.retain(|at| *at >= from);
    times.sort_unstable();
    times.windows(2).map(|pair| pair[1] - pair[0]).max().unwrap_or_default()
}
