//! The target: a writer's group becomes one transaction on the cluster, applied once.
//!
//! Invariants:
//! 1. Every request of a group inserts the same key `(session, number)` into `_leafpress_applied`
//!    first, and fails if the row of another one may have been deleted (`once`). So at most one request
//!    of all that were sent under a number is ever applied.
//! 2. What is answered with an error, other than an unknown outcome, is not and will not be
//!    applied: if an earlier request under that number may still arrive, another one, without the
//!    call, has taken the number.
//! 3. Counts of rows are those of the request that was applied: each statement leaves them in the
//!    row of the group.
//!
//! Must never: send a call under a second number while a request with the first may be applied.

use std::time::{Duration, Instant};

use leafpress::rusqlite;
use leafpress::writer::{
    Answer, Call, CommitTarget, Executed, Group, InsertMany, Parameters, Statement,
};
use leafpress::{Error, Result, quote_identifier};
use serde_json::{Value, json};

use crate::address::Address;
use crate::answer::{Counts, Fate, not_taken, of_sqlite};
use crate::client::{Client, Unread};
use crate::clock::LeaderClock;
use crate::limits::{CALL_BYTES_MAX, GROUP_BYTES_MAX, PARAMETERS_MAX, ROWS_MAX, TIME_LIMIT_MAX};
use crate::once::{self, FLOOR_TABLE, OF_WRITERS, RowRefused, Session, TOO_LATE};
use crate::patience::{ANSWER_MIN, Patience};
use crate::records::{Owner, Records};
use crate::runs::{Plan, Tables};
use crate::statement::{Prepared, prepare};

/// Time for a query about the schema: one node may be frozen, and time passes until another one leads.
const READ_MAX: Duration = Duration::from_secs(20);
/// Time for the answer to a query that may read all of a table.
const SEARCH_MAX: Duration = Duration::from_secs(20);

/// The error of a group whose tables are declared in another way than they were known.
const GUARD_FAILED: &str = "NOT NULL constraint failed: _leafpress_applied.attempt";

const TABLE: &str = "CREATE TABLE IF NOT EXISTS _leafpress_applied(session TEXT, number INTEGER, \
     attempt INTEGER NOT NULL, at INTEGER NOT NULL, counts TEXT NOT NULL, \
     PRIMARY KEY (session, number)) WITHOUT ROWID";
const INDEX: &str = "CREATE INDEX IF NOT EXISTS _leafpress_applied_at ON _leafpress_applied(at)";

/// Commits the groups of a [`Writer`](leafpress::Writer) on a cluster of rqlite.
///
/// A call that is answered with success is in the Raft log of a majority of the nodes, and was applied once.
/// Closures are refused, as they read and write on a connection that is not here, and so is SQL that
/// gives another value on each node. If the outcome of a group is not known for the
/// [time limit](Self::time_limit), its calls are answered
/// [`OutcomeUnknown`](leafpress::ErrorKind::OutcomeUnknown).
pub struct RqliteTarget {
    client: Client,
    clock: LeaderClock,
    session: Session,
    has_table: bool,
    time_limit: Duration,
    has_dedupe: bool,
    tables: Tables,
}

/// A group that was not answered, and is sent again.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct Wait<'a> {
    /// Time since it was sent first.
    pub elapsed: Duration,
    /// Time for which it is sent again.
    pub left: Duration,
    /// The reason for the last attempt's failure.
    pub reason: &'a str,
}

/// Told of a wait before each further attempt; false ends it.
pub type OnWait<'a> = &'a mut dyn FnMut(Wait<'_>) -> bool;

/// A call on its way: its place in the group and its statements.
struct Member {
    index: usize,
    kind: Kind,
    statements: Vec<Prepared>,
    bytes: usize,
}

impl Member {
    fn new(index: usize, kind: Kind, statements: Vec<Prepared>) -> Self {
        let bytes = statements.iter().map(|it| it.text.len() + 200).sum();
        Self { index, kind, statements, bytes }
    }
}

#[derive(Clone, Copy)]
enum Kind {
    Execute,
    Batch,
    InsertMany,
}

/// The number of calls that go in one request after a call of the group was refused: as many as were not refused,
/// then twice as many with each number. So the bytes that are sent for a call are bounded, however many are refused.
/// `None` before: all that fit, and once more without the refused one, which is often the only one.
#[derive(Clone, Copy, Default)]
struct CallsPerRequest(Option<usize>);

/// The calls of one number, and what was sent under it.
#[derive(Default)]
struct Slot {
    /// The calls of the next request by their places in `members`, which ascend.
    list: Vec<usize>,
    calls_max: CallsPerRequest,
    /// A call was refused, or one of the calls that were left out after that.
    has_refusals: bool,
    /// For each request, the calls in it by their places in `members`.
    attempts: Vec<Vec<usize>>,
    /// For each request, the records of its counts.
    plans: Vec<Plan>,
    /// A run was refused, by one of its calls: each call is a statement now.
    is_split: bool,
    /// Answers to calls that were refused and taken out.
    refused: Vec<(usize, String)>,
    /// A request may be applied later, or has been.
    may_be_applied: bool,
}

impl Slot {
    /// A slot for the first calls, as many as one request takes.
    fn new(members: &[Member], calls_max: CallsPerRequest) -> Self {
        let mut list = fitting(members);
        list.truncate(calls_max.0.unwrap_or(usize::MAX));
        Self { list, calls_max, ..Self::default() }
    }

    /// Takes the calls out of the list that are not sent again after a refusal. `culprit`: the call that was
    /// refused, if it is known. Returns the end of the number if nothing is left to be sent.
    fn after_refusal(&mut self, culprit: Option<usize>, reason: String) -> Option<End> {
        let only = (self.list.len() == 1).then(|| self.list[0]);
        match culprit.or(only) {
            Some(at) => self.remove_culprit(at, reason),
            None if self.list.is_empty() => return Some(End::Unknown(reason)),
            None => self.halve(),
        }
        self.has_refusals = true;
        self.end_if_empty()
    }

    /// Takes the call at this place in `members` out of the list, and answers it with its refusal.
    ///
    /// After the first refusal of a group only the calls before the culprit are sent again: else each
    /// further refusal would send all of the rest once more.
    fn remove_culprit(&mut self, at: usize, reason: String) {
        let is_first = self.calls_max.0.is_none() && !self.has_refusals;
        self.list.retain(|it| *it < at || *it > at && is_first);
        self.refused.push((at, reason));
    }

    /// Leaves the second half of the calls out, as it is not known which one was refused.
    fn halve(&mut self) {
        self.list.truncate(self.list.len() / 2);
    }

    /// The end of the number, if nothing is left to be sent.
    fn end_if_empty(&self) -> Option<End> {
        // A request without calls takes the number, if an earlier one may still arrive, or has calls that go under
        // the next number: a node may have handed it on twice.
        let has_others =
            self.attempts.first().is_some_and(|calls| calls.len() > self.refused.len());
        (self.list.is_empty() && !self.may_be_applied && !has_others).then_some(End::Empty)
    }

    /// Calls of a request under the next number.
    fn next_calls_max(&self) -> CallsPerRequest {
        CallsPerRequest(if self.has_refusals {
            Some(self.list.len().max(1))
        } else {
            self.calls_max.0.map(|calls| calls.saturating_mul(2))
        })
    }

    /// Forgets the last request, of which nothing is or will be applied.
    fn was_not_sent(&mut self) {
        self.attempts.pop();
        self.plans.pop();
    }

    fn not_taken(&self, reason: String) -> End {
        let is_unknown = self.may_be_applied || !self.refused.is_empty();
        if is_unknown { End::Unknown(reason) } else { End::NotTaken(reason) }
    }
}

/// The meaning of a request's refusal.
enum Refusal {
    /// The row of the group was.
    Row(RowRefused),
    /// Tables are declared in another way than they were known.
    TablesChanged,
    /// A run was refused, by one of its calls.
    Run,
    /// The table of Leafpress is gone: the database was replaced by another one.
    NoTable,
    /// A call was, by its place in `members` if it is known.
    Call(Option<usize>),
}

impl Refusal {
    /// `at`: the statement that was refused, if it is known.
    fn of(at: Option<usize>, reason: &str, owners: &[Owner]) -> Self {
        let owner = at.and_then(|at| owners.get(at));
        if at == Some(0) && reason.contains(GUARD_FAILED) {
            Self::TablesChanged
        } else if let Some(refused) = OF_WRITERS.refused(at, reason) {
            Self::Row(refused)
        } else if matches!(owner, Some(Owner::Run)) {
            Self::Run
        } else if at == Some(0) && reason.contains("no such table: _leafpress_") {
            Self::NoTable
        } else {
            Self::Call(owner.and_then(Owner::call))
        }
    }
}

/// The end of a number.
enum End {
    /// The request with this index was applied, with these counts of its counted statements.
    Applied(usize, Vec<Counts>),
    /// No request was, and none will be.
    Empty,
    /// It is not known.
    Unknown(String),
    /// No request reached a node.
    NotTaken(String),
}

impl RqliteTarget {
    /// A target on the cluster at `address`. Nothing is sent before the first group.
    pub fn new(address: Address) -> Self {
        Self {
            client: Client::new(address),
            clock: LeaderClock::default(),
            session: Session::default(),
            has_table: false,
            time_limit: Duration::from_secs(30),
            has_dedupe: true,
            tables: Tables::default(),
        }
    }

    /// The longest time for which a group whose outcome is unknown is sent again (30 s; at most 10 minutes).
    #[must_use]
    pub fn time_limit(mut self, limit: Duration) -> Self {
        self.time_limit = limit.min(TIME_LIMIT_MAX);
        self
    }

    /// Leaves out the rows that keep a group from being applied twice: for the test that shows their use.
    #[doc(hidden)]
    #[must_use]
    pub fn without_dedupe(mut self) -> Self {
        self.has_dedupe = false;
        self
    }

    /// Sends statements of Leafpress itself as one transaction, applied once; returns the number of
    /// rows that each counted one changed.
    ///
    /// # Errors
    /// SQLite refuses a statement, or no node was reached: then nothing of it is or will be applied;
    /// [`OutcomeUnknown`](leafpress::ErrorKind::OutcomeUnknown).
    pub(crate) fn apply_once(
        &mut self,
        statements: Vec<Prepared>,
        on_wait: OnWait<'_>,
    ) -> Result<Vec<u64>> {
        let members = [Member::new(0, Kind::InsertMany, statements)];
        let mut slot = Slot::new(&members, CallsPerRequest::default());
        let end = self.run(&members, &mut slot, on_wait);
        match (end, slot.refused.pop()) {
            (End::Unknown(reason), _) => Err(Error::unknown_outcome(reason)),
            // Also if a request after it was refused.
            (End::Applied(attempt, counts), _) if !slot.attempts[attempt].is_empty() => {
                Ok(counts.into_iter().map(|it| it.rows_affected).collect())
            }
            (_, Some((_, reason))) => Err(of_sqlite(&reason)),
            (End::NotTaken(reason), None) => Err(not_taken(&reason)),
            (End::Empty | End::Applied(..), None) => {
                Err(Error::bug("a group ended without an answer"))
            }
        }
    }

    /// Sets the time limit of the groups that follow, whose rows stay for longer than that.
    pub(crate) fn set_time_limit(&mut self, limit: Duration) {
        self.time_limit = limit;
    }

    /// The name of this writer in the rows of its groups.
    ///
    /// # Errors
    /// The system gives no random numbers.
    pub(crate) fn session(&mut self) -> Result<&str> {
        self.session.name_here().map_err(|reason| not_taken(&reason))
    }

    /// Asks the cluster about its schema, and asks again for some seconds while no node answers.
    ///
    /// # Errors
    /// SQLite refuses the query, or no node answers.
    pub(crate) fn read(&mut self, sql: &str, parameters: &[&str]) -> Result<Vec<Value>> {
        let begun = Instant::now();
        let read = Patience::new().ask(READ_MAX, |limit| {
            let left = READ_MAX.saturating_sub(begun.elapsed()).max(ANSWER_MIN);
            self.client.rows(sql, parameters, limit.min(left))
        });
        read.map_err(|unread| match unread {
            Unread::Refused(reason) => of_sqlite(&reason),
            unread => not_taken(&unread.reason()).on_disk_instead("nothing was changed"),
        })
    }

    /// Asks once for the value of a query that may read all of a table; `None` if it has no row, or no answer.
    pub(crate) fn search(&mut self, sql: &str) -> Option<String> {
        let rows = self.client.rows(sql, &[], SEARCH_MAX).ok()?;
        Some(rows.first()?.get(0)?.as_str()?.to_owned())
    }

    /// Commits these calls under one number, or those of them that fit, and answers them. Returns
    /// the calls that remain.
    fn commit_slot(
        &mut self,
        group: &mut Group<'_>,
        mut members: Vec<Member>,
        calls_max: &mut CallsPerRequest,
    ) -> Vec<Member> {
        let mut slot = Slot::new(&members, *calls_max);
        let end = self.run(&members, &mut slot, &mut |_| true);
        *calls_max = slot.next_calls_max();
        if let End::Applied(..) = end {
            self.learn(&members);
        }
        let mut is_done = vec![false; members.len()];
        // A later answer replaces this one, if an earlier request with the call was applied or may be.
        for (at, reason) in &slot.refused {
            is_done[*at] = true;
            group.answer(members[*at].index, Err(of_sqlite(reason)));
        }
        match end {
            End::Empty => {}
            End::Applied(attempt, counts) => {
                let mut counts = counts.into_iter();
                for &at in &slot.attempts[attempt] {
                    is_done[at] = true;
                    group.answer(members[at].index, Ok(answer(&members[at], &mut counts)));
                }
            }
            End::Unknown(reason) => {
                for &at in slot.attempts.iter().flatten() {
                    is_done[at] = true;
                    group.answer(members[at].index, Err(Error::unknown_outcome(&*reason)));
                }
            }
            End::NotTaken(reason) => {
                is_done.fill(true);
                for member in &members {
                    group.answer(member.index, Err(not_taken(&reason)));
                }
            }
        }
        let mut is_done = is_done.into_iter();
        members.retain(|_| !is_done.next().unwrap_or(false));
        members
    }

    /// Sends the calls of the slot under the next number until their fate is known or the time is over. A call
    /// that is refused is taken out, and others are sent again under the same number.
    fn run(&mut self, members: &[Member], slot: &mut Slot, on_wait: OnWait<'_>) -> End {
        let begun = Instant::now();
        let mut now_s = match self.session.advance().and_then(|()| self.now_s()) {
            Ok(now_s) => now_s,
            Err(reason) => return End::NotTaken(reason),
        };
        loop {
            slot.attempts.push(slot.list.clone());
            let (statements, owners) = self.request(members, slot, now_s);
            let (refused, reason) = match self.send(&statements, begun, slot, on_wait) {
                Ok(Fate::Applied(counts)) => {
                    let own = counts.into_iter().zip(&owners).filter(|(_, it)| it.is_counted());
                    let own: Vec<Counts> = own.map(|(it, _)| it).collect();
                    return of_applied(slot, slot.attempts.len() - 1, &own);
                }
                Ok(Fate::Rejected(refused, reason)) => (refused, reason),
                Ok(Fate::Unknown(reason)) => return End::Unknown(reason),
                Ok(Fate::NotTaken(reason) | Fate::Denied(reason)) | Err(reason) => {
                    return slot.not_taken(reason);
                }
            };
            match Refusal::of(refused, &reason, &owners) {
                Refusal::Row(refused) => match self.after_row(refused, begun, slot, reason) {
                    Ok(later) => {
                        now_s = later;
                        slot.was_not_sent();
                    }
                    Err(end) => return end,
                },
                Refusal::TablesChanged => self.tables.forget(),
                Refusal::Run => slot.is_split = true,
                Refusal::NoTable => {
                    self.has_table = false;
                    slot.was_not_sent();
                }
                Refusal::Call(culprit) => {
                    if let Some(end) = slot.after_refusal(culprit, reason) {
                        return end;
                    }
                }
            }
        }
    }

    /// A later time for a group whose row was refused, if no request of it was or will be applied.
    ///
    /// # Errors
    /// The end of the number: by the row, if it is there. A node may have handed one request on twice, so the
    /// row is looked for also if all requests were answered.
    fn after_row(
        &mut self,
        refused: RowRefused,
        begun: Instant,
        slot: &Slot,
        reason: String,
    ) -> Result<i64, End> {
        if let Some(end) = self.end_by_row(begun, slot).map_err(End::Unknown)? {
            return Err(end);
        }
        match refused {
            RowRefused::WasApplied => Err(End::Unknown(reason)),
            RowRefused::BelowFloor if slot.may_be_applied => Err(End::Unknown(TOO_LATE.to_owned())),
            RowRefused::BelowFloor if begun.elapsed() > self.time_limit => {
                Err(slot.not_taken(reason))
            }
            RowRefused::BelowFloor => self.above_floor().map_err(|reason| slot.not_taken(reason)),
        }
    }

    /// A time that is not below the floor, for a group of which no request may be applied.
    ///
    /// # Errors
    /// No node answers.
    fn above_floor(&mut self) -> Result<i64, String> {
        let Self { session, client, clock, time_limit, .. } = self;
        let read = Patience::new().ask(once::time_limit(false, *time_limit), |answer_max| {
            session.read_floor(&OF_WRITERS, client, clock, answer_max)
        });
        read.map_err(Unread::reason)?;
        self.now_s()
    }

    /// The time of a group that begins now, in seconds since the Unix epoch.
    ///
    /// # Errors
    /// No node answers.
    fn now_s(&mut self) -> Result<i64, String> {
        let Self { session, client, clock, time_limit, .. } = self;
        let now = Patience::new()
            .ask(once::time_limit(false, *time_limit), |answer_max| clock.now(client, answer_max));
        now.map(|now_ms| session.at(&OF_WRITERS, now_ms)).map_err(Unread::reason)
    }

    /// Sends one request again and again, unchanged, until an answer is certain.
    ///
    /// # Errors
    /// The table of Leafpress could not be made.
    fn send(
        &mut self,
        statements: &[String],
        begun: Instant,
        slot: &mut Slot,
        on_wait: OnWait<'_>,
    ) -> Result<Fate, String> {
        let mut patience = Patience::new();
        loop {
            let answer_max = patience.answer_max_within(self.limit(slot));
            let fate = if self.has_table {
                self.client.execute_texts(statements, answer_max)
            } else {
                let make = [TABLE, INDEX, FLOOR_TABLE].map(|sql| json!(sql));
                match self.client.execute(&make, answer_max) {
                    Fate::Applied(_) => {
                        self.has_table = true;
                        continue;
                    }
                    // Making it again is harmless.
                    Fate::Unknown(reason) | Fate::NotTaken(reason) => Fate::NotTaken(reason),
                    Fate::Rejected(_, reason) | Fate::Denied(reason) => return Err(reason),
                }
            };
            slot.may_be_applied |= matches!(fate, Fate::Unknown(_));
            let (Fate::Unknown(reason) | Fate::NotTaken(reason)) = &fate else { return Ok(fate) };
            let (elapsed, limit) = (begun.elapsed(), self.limit(slot));
            let wait = Wait { elapsed, left: limit.saturating_sub(elapsed), reason };
            if elapsed >= limit || !on_wait(wait) {
                return Ok(fate);
            }
            patience.pause();
        }
    }

    /// The time for which the group is sent again.
    fn limit(&self, slot: &Slot) -> Duration {
        once::time_limit(slot.may_be_applied, self.time_limit)
    }

    /// The statements of the last attempt, and the owner of each.
    fn request(
        &self,
        members: &[Member],
        slot: &mut Slot,
        now_s: i64,
    ) -> (Vec<String>, Vec<Owner>) {
        let Session { name: session, number, .. } = &self.session;
        let record = format!(
            "UPDATE _leafpress_applied SET counts=counts||changes()||' '||last_insert_rowid()||' ' \
             WHERE session='{session}' AND number={number}"
        );
        let mut records = Records::new(self.has_dedupe.then_some(record), &self.tables);
        let list = &slot.attempts[slot.attempts.len() - 1];
        let parts =
            list.iter().flat_map(|&at| members[at].statements.iter().map(move |it| (at, it)));
        // Within the group a table may become another one.
        let has_runs =
            self.has_dedupe && !slot.is_split && !parts.clone().any(|(_, it)| it.is_schema);
        for (at, prepared) in parts {
            let is_recorded = prepared.is_counted && !matches!(members[at].kind, Kind::Batch);
            let plain = prepared.plain.as_ref();
            let plain = plain.filter(|it| has_runs && is_recorded && self.tables.knows(it));
            records.add(at, prepared, is_recorded, plain);
        }
        let mut records = records.ended();
        let (mut statements, mut owners) = (Vec::new(), Vec::new());
        if self.has_dedupe {
            statements = self.first_statements(slot.attempts.len() - 1, &records.plan, now_s);
            owners.resize(statements.len(), Owner::Leafpress);
        }
        statements.append(&mut records.statements);
        owners.append(&mut records.owners);
        slot.plans.push(records.plan);
        (statements, owners)
    }

    /// The statements that let a group be applied once, and tidy up.
    fn first_statements(&self, attempt: usize, plan: &Plan, now_s: i64) -> Vec<String> {
        let Session { name: session, number, .. } = &self.session;
        let (guard, parameters) = plan.guard().unwrap_or(("true".to_owned(), Vec::new()));
        // A row stays for as long as its group may be sent again.
        let at = now_s + self.time_limit.saturating_sub(TIME_LIMIT_MAX).as_secs().cast_signed();
        let checked = OF_WRITERS.checked(&format!("?{}", parameters.len() + 4));
        let insert = format!(
            "INSERT INTO _leafpress_applied SELECT ?,?,CASE WHEN {guard} THEN ? END,{checked},''"
        );
        let mut first = vec![json!(insert), json!(session), json!(number)];
        first.extend(parameters.into_iter().map(|it| json!(it)));
        first.extend([json!(attempt), json!(at)]);
        let mut statements = vec![json!(first), OF_WRITERS.forget_answer(&self.session)];
        if self.session.tidies_up() {
            statements.extend(OF_WRITERS.delete(now_s));
        }
        statements.iter().map(Value::to_string).collect()
    }

    /// The request that was applied under this number, and its counts; `None` if the number has no row.
    ///
    /// # Errors
    /// No node answers, or the row cannot be read.
    fn end_by_row(&mut self, begun: Instant, slot: &Slot) -> Result<Option<End>, String> {
        let sql = "SELECT attempt, counts FROM _leafpress_applied WHERE session=? AND number=?+0";
        let number = self.session.number.to_string();
        let keys = [self.session.name.as_str(), number.as_str()];
        let left = self.time_limit.saturating_sub(begun.elapsed());
        let rows = Patience::new().ask(left, |limit| self.client.rows(sql, &keys, limit));
        let rows = rows.map_err(Unread::reason)?;
        let Some(row) = rows.first() else { return Ok(None) };
        let attempt = row.get(0).and_then(Value::as_u64);
        let (Some(attempt), Some(text)) = (attempt, row.get(1).and_then(Value::as_str)) else {
            return Err("the row of the group cannot be read".to_owned());
        };
        let numbers: Vec<i64> = text.split_whitespace().filter_map(|it| it.parse().ok()).collect();
        let counts =
            |two: &[i64]| Counts { rows_affected: two[0].unsigned_abs(), last_insert_id: two[1] };
        let counts: Vec<Counts> = numbers.chunks_exact(2).map(counts).collect();
        Ok(Some(of_applied(slot, attempt as usize, &counts)))
    }

    /// Learns about the tables of the calls that were applied, and forgets those that they changed.
    fn learn(&mut self, members: &[Member]) {
        let statements = || members.iter().flat_map(|it| &it.statements);
        if statements().any(|it| it.is_schema) {
            self.tables.forget();
        } else {
            for plain in statements().filter_map(|it| it.plain.as_ref()) {
                self.tables.learn(plain, &mut self.client);
            }
        }
    }
}

/// The end of a number whose request with this index was applied, with the counts of its statements.
fn of_applied(slot: &Slot, attempt: usize, counts: &[Counts]) -> End {
    match slot.plans.get(attempt).and_then(|plan| plan.counts(counts)) {
        Some(counts) => End::Applied(attempt, counts),
        None => End::Unknown(
            "it was applied, once; its counts of rows are not those of its calls".to_owned(),
        ),
    }
}

impl CommitTarget for RqliteTarget {
    fn commit(&mut self, group: &mut Group<'_>) -> Result<(), String> {
        let mut members = Vec::new();
        for index in 0..group.len() {
            match member(index, group.call(index)) {
                Ok(member) => members.push(member),
                Err(error) => group.answer(index, Err(error)),
            }
        }
        let mut calls_max = CallsPerRequest::default();
        while !members.is_empty() {
            members = self.commit_slot(group, members, &mut calls_max);
        }
        Ok(())
    }
}

/// The first calls, as many as one request takes.
fn fitting(members: &[Member]) -> Vec<usize> {
    let mut bytes = 0;
    let fits = |(at, member): &(usize, &Member)| {
        bytes += member.bytes;
        *at == 0 || bytes <= GROUP_BYTES_MAX
    };
    members.iter().enumerate().take_while(fits).map(|(at, _)| at).collect()
}

fn member(index: usize, call: &Call<'_>) -> Result<Member> {
    let (kind, statements) = match call {
        Call::Execute(statement) => (Kind::Execute, vec![prepare(statement)?]),
        Call::Batch(batch) => {
            let statements = batch.statements()?;
            (Kind::Batch, statements.iter().map(prepare).collect::<Result<_>>()?)
        }
        Call::InsertMany(request) => (Kind::InsertMany, inserts(request)?),
        _ => {
            return Err(Error::unsupported(
                "a closure reads and writes on a connection of its own, and rqlite has none: another \
                 caller may write between its read and its write",
            )
            .on_disk("nothing of this call")
            .to_do("put the condition into the statement, as UPDATE … WHERE, and look at rows_changed"));
        }
    };
    let member = Member::new(index, kind, statements);
    if member.bytes > CALL_BYTES_MAX {
        let reason = format!(
            "a call of {} bytes would stop the cluster: {CALL_BYTES_MAX} are allowed",
            member.bytes
        );
        return Err(Error::unsupported(reason).to_do("divide it into several calls"));
    }
    Ok(member)
}

/// Statements of many rows each.
fn inserts(request: &InsertMany) -> Result<Vec<Prepared>> {
    let width = request.columns.len();
    if width == 0 || request.rows.iter().any(|row| row.len() != width) {
        return Err(Error::misuse("each row has one value for each column, and there is a column"));
    }
    let columns: Vec<String> = request.columns.iter().map(|it| quote_identifier(it)).collect();
    let into =
        format!("INSERT INTO {}({}) VALUES ", quote_identifier(&request.table), columns.join(","));
    let row = format!("({})", vec!["?"; width].join(","));
    let of_rows = |rows: &[Vec<rusqlite::types::Value>]| {
        let sql = into.clone() + &vec![&*row; rows.len()].join(",");
        prepare(&Statement { sql: sql.into(), parameters: Parameters::Positional(rows.concat()) })
    };
    let rows_max = (PARAMETERS_MAX / width).clamp(1, ROWS_MAX);
    request.rows.chunks(rows_max).map(of_rows).collect()
}

fn answer(member: &Member, counts: &mut impl Iterator<Item = Counts>) -> Answer {
    let mut own = member.statements.iter().filter(|it| it.is_counted).map_while(|_| counts.next());
    match member.kind {
        Kind::Batch => Answer::Done,
        Kind::Execute => {
            let Counts { rows_affected, last_insert_id } = own.next().unwrap_or_default();
            Answer::Executed(Executed::new(rows_affected, last_insert_id))
        }
        Kind::InsertMany => Answer::Inserted(own.map(|it| it.rows_affected).sum()),
    }
}
