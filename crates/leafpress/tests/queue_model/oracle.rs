//! Random operations, one after the other, on the queue and on the model.
//!
//! After each operation the answers are compared, after every few and at the
//! end the tables, and their invariants. `LEAFPRESS_QUEUE_CASES` asks for more
//! sequences than the usual few hundred.

use std::fmt::Write as _;
use std::panic::{AssertUnwindSafe, catch_unwind};

use proptest::prelude::*;

use super::model::{Model, Retry, Rules};
use super::operations::{Answer, Change, Operation, QUEUES, Seen, operation, rules};
use super::system::{START_MS, System};
use super::tables::{audit, integrity, lines_of_model, lines_of_tables};

/// Operations between two looks at the tables.
const LOOK_EVERY: usize = 5;

fn cases() -> u32 {
    let asked = std::env::var("LEAFPRESS_QUEUE_CASES").ok();
    asked.map_or(300, |cases| cases.parse().expect("LEAFPRESS_QUEUE_CASES is a number"))
}

/// The queue and the model side by side.
pub struct Pair {
    pub system: System,
    pub model: Model,
    seen: Seen,
    /// Of the next job's payload.
    number: u64,
    /// The most that each queue has ever allowed of a group.
    group_max: Vec<u32>,
    /// What was done so far, and what came of it: a difference is read in it.
    story: String,
}

impl Pair {
    pub fn new(rules: &[Rules]) -> Self {
        Self {
            system: System::new(rules),
            model: Model::new(START_MS, rules.iter().cloned()),
            seen: Seen::default(),
            number: 0,
            group_max: rules.iter().map(|rules| rules.group_concurrency).collect(),
            story: String::new(),
        }
    }

    /// Carries it out twice. An error is the whole story, and how it ends.
    pub fn step(&mut self, operation: &Operation) -> Result<Answer, String> {
        let at_ms = self.model.now_ms - START_MS;
        let expected = self.model.carry_out(operation, &self.seen, self.number);
        let carried_out = catch_unwind(AssertUnwindSafe(|| {
            self.system.carry_out(operation, &self.seen, self.number)
        }));
        let Ok(answer) = carried_out else {
            return Err(self.told(&format!("{operation:?} failed, as printed above")));
        };
        let _ = writeln!(self.story, "{at_ms:>8} ms: {operation:?}\n             {answer:?}");
        if !answer.is_allowed_by(&expected) {
            return Err(self.told(&format!("the model answers {expected:?}")));
        }
        self.number += match operation {
            Operation::PushMany(_, wishes) => wishes.len() as u64,
            Operation::Transaction(transaction) => transaction.wishes.len() as u64,
            _ => 1,
        };
        self.take_over(operation, &answer);
        Ok(answer)
    }

    fn take_over(&mut self, operation: &Operation, answer: &Answer) {
        self.seen.last_job = self.model.last_id();
        match (operation, answer) {
            (Operation::Nack { pick, .. }, Answer::Retried(Ok(Retry::Between(at_ms, _)))) => {
                self.model.retries_at(self.seen.token(*pick).job, *at_ms);
            }
            (_, Answer::Claimed(claimed) | Answer::Transacted(claimed, _)) => {
                self.seen.tokens.extend(claimed.iter().map(|claimed| claimed.token));
            }
            (Operation::Configure(queue, Change::GroupConcurrency(places)), _) => {
                self.group_max[*queue] = self.group_max[*queue].max(*places);
            }
            _ => {}
        }
    }

    /// Compares the tables, and checks what must hold of them in any case.
    pub fn look(&self) -> Result<(), String> {
        let reader = self.system.writer().reader().expect("a reader");
        let tables = lines_of_tables(&reader, START_MS, self.model.now_ms);
        let model = lines_of_model(&self.model, START_MS);
        if tables != model {
            let mut differences = String::from("the tables differ from the model:\n");
            for line in tables.iter().filter(|line| !model.contains(line)) {
                let _ = writeln!(differences, "  table: {line}");
            }
            for line in model.iter().filter(|line| !tables.contains(line)) {
                let _ = writeln!(differences, "  model: {line}");
            }
            return Err(self.told(&differences));
        }
        let broken = audit(&reader, &self.group_max);
        if broken.is_empty() { Ok(()) } else { Err(self.told(&format!("broken: {broken:#?}"))) }
    }

    /// At the end of a sequence.
    pub fn finish(self) -> Result<(), String> {
        self.look()?;
        let reader = self.system.writer().reader().expect("a reader");
        match integrity(&reader).as_slice() {
            [ok] if ok == "ok" => Ok(()),
            problems => Err(self.told(&format!("{problems:#?}"))),
        }
    }

    fn told(&self, end: &str) -> String {
        format!("\n{}{end}\n", self.story)
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(), max_shrink_iters: 20_000, ..ProptestConfig::default() })]

    #[test]
    fn every_sequence_ends_as_the_model_says(
        rules in prop::collection::vec(rules(), QUEUES.len()),
        operations in prop::collection::vec(operation(), 1..120),
    ) {
        let mut pair = Pair::new(&rules);
        for (operation, at) in operations.iter().zip(1..) {
            pair.step(operation).map_err(TestCaseError::fail)?;
            if at % LOOK_EVERY == 0 {
                pair.look().map_err(TestCaseError::fail)?;
            }
        }
        pair.finish().map_err(TestCaseError::fail)?;
    }

    /// The model alone keeps what it is there to check.
    #[test]
    fn the_model_keeps_its_invariants(
        rules in prop::collection::vec(rules(), QUEUES.len()),
        operations in prop::collection::vec(operation(), 1..120),
    ) {
        let mut model = Model::new(START_MS, rules.iter().cloned());
        let mut seen = Seen::default();
        let mut open_max = vec![0; QUEUES.len()];
        for operation in &operations {
            let answer = model.carry_out(operation, &seen, 0);
            if let Answer::Claimed(claimed) | Answer::Transacted(claimed, _) = &answer {
                seen.tokens.extend(claimed.iter().map(|claimed| claimed.token));
            }
            seen.last_job = model.last_id();
            for (most, queue) in open_max.iter_mut().zip(&model.queues) {
                *most = queue.rules.group_concurrency.max(*most);
            }
            prop_assert_eq!(model.broken(&open_max), Vec::<String>::new(), "{:?}", operation);
        }
    }
}
