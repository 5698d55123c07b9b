//! Operations carried out by the model.

use super::model::{Model, NewJob, Rules, Token, Unique};
use super::operations::{Answer, Change, Door, End, Operation, Seen, Transaction, When, Wish};

/// What the job with this number carries, in the words of `system.rs`.
pub fn payload(number: u64) -> String {
    let kind = if number.is_multiple_of(2) { "bytes" } else { "json" };
    format!("{kind} {number}")
}

pub const ERROR: &str = "no luck";
pub const REASON: &str = "never again";
pub const RESULT: &str = "{\"came\":\"well\"}";

impl Model {
    /// `number` is the first number for payloads that no job has had.
    pub fn carry_out(&mut self, operation: &Operation, seen: &Seen, number: u64) -> Answer {
        let tokens =
            |picks: &[usize]| picks.iter().map(|pick| seen.token(*pick)).collect::<Vec<_>>();
        match operation {
            Operation::Push(
                _,
                Door::Closure(End::GivesUp) | Door::OwnConnection(End::GivesUp),
                _,
            ) => Answer::Nothing,
            Operation::Push(queue, door, wish) => {
                let mut new = self.new_job(wish, number);
                if matches!(door, Door::OwnConnection(_)) {
                    // By the system's clock, which is far behind.
                    new.due_at_ms = Some(0);
                }
                let pushed = self.push(*queue, new);
                if matches!(door, Door::Closure(_) | Door::OwnConnection(_)) {
                    self.notes.push(pushed.0);
                }
                Answer::Pushed(vec![pushed])
            }
            Operation::PushMany(queue, wishes) => {
                let push = |(wish, number): (&Wish, u64)| {
                    let new = self.new_job(wish, number);
                    self.push(*queue, new)
                };
                Answer::Pushed(wishes.iter().zip(number..).map(push).collect())
            }
            Operation::Claim { queue, jobs_max, lease_ms } => {
                Answer::Claimed(self.claim(*queue, *jobs_max, *lease_ms))
            }
            Operation::Ack(pick) => Answer::Settled(vec![self.ack(seen.token(*pick), None)]),
            Operation::AckWith(pick) => {
                Answer::Settled(vec![self.ack(seen.token(*pick), Some(RESULT.to_owned()))])
            }
            Operation::AckMany(picks) => Answer::Settled(
                tokens(picks).into_iter().map(|token| self.ack(token, None)).collect(),
            ),
            Operation::Nack { pick, delay_ms } => {
                Answer::Retried(self.nack(seen.token(*pick), Some(ERROR), *delay_ms))
            }
            Operation::Fail(pick) => Answer::Settled(vec![self.fail(seen.token(*pick), REASON)]),
            Operation::Release(pick) => Answer::Settled(vec![self.release(seen.token(*pick))]),
            Operation::Extend(pick, lease_ms) => {
                Answer::Extended(vec![self.extend(seen.token(*pick), *lease_ms)])
            }
            Operation::ExtendMany(picks, lease_ms) => {
                let extend = |token: Token| self.extend(token, *lease_ms);
                Answer::Extended(tokens(picks).into_iter().map(extend).collect())
            }
            Operation::Transaction(transaction) => self.transaction(transaction, number),
            other => self.carry_out_rare(other, seen),
        }
    }

    fn carry_out_rare(&mut self, operation: &Operation, seen: &Seen) -> Answer {
        match operation {
            Operation::Pause(queue) => self.queues[*queue].is_paused = true,
            Operation::Resume(queue) => self.queues[*queue].is_paused = false,
            Operation::Retry(pick) => {
                return Answer::Found(self.retry(0, seen.job(*pick)).into());
            }
            Operation::Remove(pick) => {
                return Answer::Found(self.remove(0, seen.job(*pick)).into());
            }
            Operation::Purge(queue, state) => return Answer::Found(self.purge(*queue, *state)),
            Operation::Configure(queue, change) => {
                let before = self.queues[*queue].rules.clone();
                change_rules(&mut self.queues[*queue].rules, change);
                self.rules_changed(*queue);
                self.rates_changed(*queue, &before);
            }
            Operation::Pass(step_ms) | Operation::SetClock(step_ms) => self.move_clock(*step_ms),
            Operation::Reopen => self.reopen(),
            _ => unreachable!("carried out above"),
        }
        Answer::Nothing
    }

    fn transaction(&mut self, transaction: &Transaction, number: u64) -> Answer {
        let Transaction { from, jobs_max, expiry_ms, pass_ms, to, wishes, end } = transaction;
        let expires_at_ms = self.now_ms + expiry_ms;
        let claimed = match jobs_max {
            0 => Vec::new(),
            some => self.claim(*from, *some, Some(*expiry_ms)),
        };
        self.move_clock(*pass_ms);
        if *end == End::Commits && self.now_ms < expires_at_ms {
            for claim in &claimed {
                self.ack(claim.token, None).expect("its lease is the transaction's");
            }
            let push = |(wish, number): (&Wish, u64)| {
                let new = self.new_job(wish, number);
                self.push(*to, new)
            };
            let pushed = wishes.iter().zip(number..).map(push).collect();
            return Answer::Transacted(claimed, Some(pushed));
        }
        for claim in &claimed {
            // If it is held no more, it is left alone.
            let _ = self.release(claim.token);
        }
        Answer::Transacted(claimed, None)
    }

    fn new_job(&self, wish: &Wish, number: u64) -> NewJob {
        let now_ms = self.now_ms;
        let unique = wish.unique.map(|(key, scope, time_ms)| Unique {
            key: key.to_owned(),
            scope,
            held_ms: (scope == super::model::Scope::Time).then_some(time_ms),
        });
        NewJob {
            payload: payload(number),
            priority: wish.priority,
            due_at_ms: match wish.when {
                When::Now => None,
                When::Delay(wait_ms) | When::Due(wait_ms) => Some(now_ms + wait_ms),
            },
            group: wish.group.map(str::to_owned),
            unique,
            attempts_max: wish.attempts_max,
            expires_at_ms: wish.expires_in_ms.map(|wait_ms| now_ms + wait_ms),
        }
    }
}

pub fn change_rules(rules: &mut Rules, change: &Change) {
    match *change {
        Change::Concurrency(limit) => rules.concurrency = limit,
        Change::GroupConcurrency(limit) => rules.group_concurrency = limit,
        Change::AttemptsMax(attempts) => rules.attempts_max = attempts,
        Change::KeepDone(keep_ms) => rules.keep_done_ms = keep_ms,
        Change::KeepDead(keep_ms) => rules.keep_dead_ms = keep_ms,
        Change::Rate(rate) => rules.rate = rate,
        Change::GroupRate(rate) => rules.group_rate = rate,
    }
}
