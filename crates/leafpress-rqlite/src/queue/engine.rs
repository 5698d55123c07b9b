//! The engine: one thread that sends the calls of all callers of a session, group by group.
//!
//! 1. Each request of a group inserts the same key `(session, number)` first, and fails if the row of another
//!    one may have been deleted (`once`). So at most one of them is applied.
//! 2. A call is answered by what stands in the row of its group, so a lost answer is found there.
//! 3. What is answered with an error, other than an unknown outcome, is not and will not be applied.
//!
//! Must never: send a call under a second number while a request with the first may be applied.

use std::collections::VecDeque;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use leafpress::{Error, Result};
use serde_json::{Value, json};

use super::group::{Answer, Call, Group, Step, Submitted, steps};
use super::request::{Reply, transact};
use super::sql;
use crate::answer::{Fate, not_taken};
use crate::client::{Client, Level, Unread};
use crate::clock::{CLOCK, LeaderClock};
use crate::once::{OF_QUEUES, RowRefused, Session, TOO_LATE, time_limit};
use crate::patience::{ANSWER_MIN, Patience};

/// The time for which a group waits for as many calls as the one before had: their callers have just
/// been answered.
const GATHER_MAX: Duration = Duration::from_millis(1);

/// The state of a session.
pub struct Engine {
    client: Client,
    session: Session,
    clock: LeaderClock,
    time_limit: Duration,
    has_dedupe: bool,
}

/// The steps of a group that was applied, and the rows of claimed jobs.
type Applied = (Vec<Step>, Vec<Value>);

/// The end of a group's requests.
enum End {
    /// Applied: the steps, and the rows of claimed jobs.
    Applied(Vec<Step>, Vec<Value>),
    /// Not applied, and it never will be.
    Rejected(String),
    Unknown(String),
    NotTaken(String),
}

impl Engine {
    pub fn new(client: Client, time_limit: Duration, has_dedupe: bool) -> Self {
        let (session, clock) = (Session::default(), LeaderClock::default());
        Self { client, session, clock, time_limit, has_dedupe }
    }

    /// Sends calls until all callers are gone.
    pub fn run(mut self, calls: &Receiver<Submitted>) {
        let mut waiting = VecDeque::new();
        let mut answered = 0;
        loop {
            if waiting.is_empty() {
                match calls.recv() {
                    Ok(call) => waiting.push_back(call),
                    Err(_) => return,
                }
            }
            gather(&mut waiting, calls, answered);
            self.refuse_expired(&mut waiting);
            let mut group = Group::default();
            let (mut reads, mut rest) = (Vec::new(), VecDeque::new());
            for submitted in waiting.drain(..) {
                match submitted.call {
                    Call::Read(_) => reads.push(submitted),
                    Call::Repeatable(_) if group.is_empty() => self.repeat(&submitted),
                    _ => rest.extend(group.take(submitted).err()),
                }
            }
            waiting = rest;
            answered = group.len() + reads.len();
            self.read_all(reads);
            if !group.is_empty() {
                self.commit(group);
            }
        }
    }

    /// Answers pushes of jobs that could never be claimed, by the leader's clock. If that is not told, the group that
    /// follows asks again.
    fn refuse_expired(&mut self, waiting: &mut VecDeque<Submitted>) {
        if !waiting.iter().any(|submitted| submitted.call.has_expiry()) {
            return;
        }
        let Ok(now_ms) = self.clock.now(&mut self.client, ANSWER_MIN) else { return };
        waiting.retain(|submitted| {
            let checked = submitted.call.check_expiry(now_ms);
            checked.map_err(|error| submitted.answer.send(Err(error))).is_ok()
        });
    }

    /// Sends a group until its fate is known or the time is over, and answers its calls.
    fn commit(&mut self, group: Group) {
        match self.end_of(&group) {
            End::Applied(steps, claimed) => group.answer(&steps, &claimed),
            End::Rejected(_) if group.len() > 1 => {
                // One of them is the reason; alone it fails alone.
                for submitted in group.apart() {
                    let mut alone = Group::default();
                    if alone.take(submitted).is_ok() {
                        self.commit(alone);
                    }
                }
            }
            End::Rejected(reason) => group.fail(|| rejected(&reason)),
            End::Unknown(reason) => group.fail(|| Error::unknown_outcome(&*reason)),
            End::NotTaken(reason) => group.fail(|| not_taken(&reason)),
        }
    }

    fn end_of(&mut self, group: &Group) -> End {
        let mut patience = Patience::new();
        let mut may_be_applied = false;
        // The time of all requests of this number.
        let mut at_ms = None;
        if let Err(reason) = self.session.advance() {
            return End::NotTaken(reason);
        }
        loop {
            let reason = match self.send(group, &mut at_ms, patience.answer_max()) {
                Reply::Done(rows) => match self.applied(rows) {
                    Some((steps, claimed)) => return End::Applied(steps, claimed),
                    None => return self.recover(group, &patience, "the answer cannot be read"),
                },
                Reply::Rejected(at, reason) => match OF_QUEUES.refused(at, &reason) {
                    Some(RowRefused::WasApplied) => return self.recover(group, &patience, &reason),
                    Some(RowRefused::BelowFloor) => {
                        // A node may have handed one request on twice, so the row may be there.
                        match self.by_row(group, &patience) {
                            Ok(None) if !may_be_applied => {}
                            found => return end_by_row(found, TOO_LATE),
                        }
                        at_ms = None;
                        let Self { session, client, clock, .. } = self;
                        // If it is not read, the group is refused once more.
                        let _ =
                            session.read_floor(&OF_QUEUES, client, clock, patience.answer_max());
                        reason
                    }
                    // The database was replaced by another one.
                    None if at == Some(sql::HAS_TABLES_AT) || reason.contains("no such table") => {
                        match self.make_tables() {
                            Ok(()) => reason,
                            Err(reason) => return refused(may_be_applied, reason),
                        }
                    }
                    None => return refused(may_be_applied, reason),
                },
                Reply::InPart(reason) => {
                    // For the groups that follow; what is missing stays missing if it fails.
                    let _ = self.make_tables();
                    return End::Unknown(reason);
                }
                Reply::NotTaken { reason, is_final: true } => {
                    return unanswered(may_be_applied, reason);
                }
                Reply::NotTaken { reason, .. } => reason,
                Reply::Unknown(reason) => {
                    may_be_applied = true;
                    reason
                }
            };
            if patience.elapsed() >= time_limit(may_be_applied, self.time_limit) {
                return unanswered(may_be_applied, reason);
            }
            if !self.has_dedupe {
                self.session.number += 1;
            }
            patience.pause();
        }
    }

    /// Sends the group once. `at_ms`: the time of the first request; `limit`: the longest time for the answer.
    fn send(&mut self, group: &Group, at_ms: &mut Option<i64>, limit: Duration) -> Reply {
        let now_ms = match self.clock.now(&mut self.client, ANSWER_MIN) {
            Ok(now_ms) => now_ms,
            Err(unread) => {
                let is_final = unread.is_final();
                return Reply::NotTaken { reason: unread.reason(), is_final };
            }
        };
        let Session { name, number, .. } = &self.session;
        let at_ms = *at_ms.get_or_insert(self.session.at(&OF_QUEUES, now_ms));
        let mut writes = vec![json!([*sql::BEGUN, name, number, at_ms]), json!([sql::HAS_TABLES])];
        if *number > 1 {
            writes.push(OF_QUEUES.forget_answer(&self.session));
        }
        if self.session.tidies_up() {
            writes.extend(OF_QUEUES.delete(at_ms));
        }
        let measures_anew = self.clock.went_back();
        if measures_anew {
            let anew = [sql::LEASES_FROM_NOW, sql::RETRIES_FROM_NOW];
            writes.extend(anew.map(|sql| json!([sql, now_ms])));
        }
        writes.extend(group.writes(now_ms));
        writes.extend(sql::ANSWER.map(|sql| json!([sql, name, number])));
        let queries = self.queries(group);
        let reply = transact(&mut self.client, &writes, &queries, limit);
        if measures_anew && matches!(reply, Reply::Done(_)) {
            self.clock.measured_anew();
        }
        reply
    }

    /// Rows that are read at the end of the group's transaction, or after it.
    fn queries(&self, group: &Group) -> Vec<Value> {
        let of_group = |sql| json!([sql, self.session.name, self.session.number]);
        let mut queries = vec![of_group(sql::READ_ANSWER), json!([CLOCK])];
        if group.has_claims() {
            queries.push(of_group(sql::READ_CLAIMED));
        }
        queries
    }

    /// The steps and the claimed jobs by the rows of [`queries`](Self::queries).
    fn applied(&mut self, rows: Vec<Vec<Value>>) -> Option<Applied> {
        let mut rows = rows.into_iter();
        let steps = steps(rows.next()?.first()?.get(0)?.as_str()?)?;
        self.clock.set(rows.next()?.first()?.get(0)?.as_i64()?);
        Some((steps, rows.next().unwrap_or_default()))
    }

    /// Reads the answer of a group that was applied.
    fn recover(&mut self, group: &Group, patience: &Patience, reason: &str) -> End {
        end_by_row(self.by_row(group, patience), reason)
    }

    /// The answer in the row of the group; `None` if there is no row.
    fn by_row(&mut self, group: &Group, patience: &Patience) -> Result<Option<Applied>, Unread> {
        let queries = self.queries(group);
        let read = |limit| self.client.read(Level::Strong, &queries, limit);
        let left = self.time_limit.saturating_sub(patience.elapsed());
        let rows = Patience::new().ask(left, read)?;
        if rows.first().is_some_and(Vec::is_empty) {
            return Ok(None);
        }
        let unreadable = || Unread::Unanswered("the answer cannot be read".to_owned());
        self.applied(rows).map(Some).ok_or_else(unreadable)
    }

    /// Makes the tables if they are missing.
    fn make_tables(&mut self) -> Result<(), String> {
        match self.client.execute(&sql::make_tables(), ANSWER_MIN) {
            Fate::Rejected(_, reason) => Err(reason),
            _ => Ok(()),
        }
    }

    /// Answers reads with one request.
    fn read_all(&mut self, reads: Vec<Submitted>) {
        let queries = |call: &Call| match call {
            Call::Read(queries) => queries.clone(),
            _ => Vec::new(),
        };
        let all: Vec<Value> = reads.iter().flat_map(|it| queries(&it.call)).collect();
        if all.is_empty() {
            return;
        }
        let mut found = self.read_until_done(&all);
        for submitted in reads {
            let count = queries(&submitted.call).len();
            let answer = match &mut found {
                Ok(rows) => Ok(Answer::Rows(rows.drain(..count.min(rows.len())).collect())),
                Err(error) => Err(not_read(error)),
            };
            let _ = submitted.answer.send(answer);
        }
    }

    fn read_until_done(&mut self, queries: &[Value]) -> Result<Vec<Vec<Value>>, String> {
        let read = |limit| self.client.read(Level::Weak, queries, limit);
        let limit = time_limit(false, self.time_limit);
        Patience::new().ask(limit, read).map_err(Unread::reason)
    }

    /// Carries out statements that may be carried out twice.
    fn repeat(&mut self, submitted: &Submitted) {
        let Call::Repeatable(statements) = &submitted.call else { return };
        let mut patience = Patience::new();
        let answer = loop {
            let fate = self.client.execute(statements, patience.answer_max());
            let (reason, is_final, is_known) = match fate {
                Fate::Applied(_) => break Ok(Answer::Rows(Vec::new())),
                Fate::Rejected(_, reason) => break Err(rejected(&reason)),
                Fate::NotTaken(reason) => (reason, false, true),
                Fate::Denied(reason) => (reason, true, true),
                Fate::Unknown(reason) => (reason, false, false),
            };
            if is_final || patience.elapsed() >= self.time_limit {
                let error =
                    if is_known { not_taken } else { |it: &str| Error::unknown_outcome(it) };
                break Err(error(&reason));
            }
            patience.pause();
        };
        let _ = submitted.answer.send(answer);
    }
}

/// Takes in the calls that are there, and waits a moment for those that are about to come.
fn gather(waiting: &mut VecDeque<Submitted>, calls: &Receiver<Submitted>, expected: usize) {
    let end = Instant::now() + GATHER_MAX;
    loop {
        if waiting.len() < expected {
            match calls.recv_timeout(end.saturating_duration_since(Instant::now())) {
                Ok(call) => waiting.push_back(call),
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => return,
            }
        } else {
            match calls.try_recv() {
                Ok(call) => waiting.push_back(call),
                Err(_) => return,
            }
        }
    }
}

/// The end of a group by its row; without one it is unknown, for this reason.
fn end_by_row(found: Result<Option<Applied>, Unread>, reason: &str) -> End {
    match found {
        Ok(Some((steps, claimed))) => End::Applied(steps, claimed),
        Ok(None) => End::Unknown(reason.to_owned()),
        Err(unread) => End::Unknown(unread.reason()),
    }
}

/// The end of a group that was refused, if an earlier request of it may still come, or not.
fn refused(may_be_applied: bool, reason: String) -> End {
    if may_be_applied { End::Unknown(reason) } else { End::Rejected(reason) }
}

fn rejected(reason: &str) -> Error {
    Error::refused(format!("rqlite does not carry it out: {reason}"))
        .on_disk("nothing of this call")
}

/// The end of a group whose last request was not answered.
fn unanswered(may_be_applied: bool, reason: String) -> End {
    if may_be_applied { End::Unknown(reason) } else { End::NotTaken(reason) }
}

fn not_read(reason: &str) -> Error {
    not_taken(reason).on_disk("nothing was changed")
}
