//! A group: calls that go to the cluster in one request, and their answers.
//!
//! 1. At most one call of a group settles or extends a job.
//! 2. Of the pushes of a group with the same key one is sent; the others have its answer.
//! 3. A group asks the same of the database whenever it is sent, but for the time.
//!
//! Must never: hold more than a cluster takes in one request.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::mpsc::Sender;

use leafpress::queue::elsewhere::{self, When, check_each, dropped};
use leafpress::queue::{Claim, JobState, LeaseLost, Payload, Pushed, Token, UnixTime};
use leafpress::{Error, Result, hex_digits};
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::{Value, json};

use super::sql;
use crate::limits::GROUP_BYTES_MAX;

/// The most calls of a group.
const CALLS_MAX: usize = 1_024;

/// A call on its way, and the place of its answer.
#[derive(Debug)]
pub struct Submitted {
    pub call: Call,
    pub answer: Sender<Result<Answer>>,
}

/// A call.
#[derive(Debug)]
pub enum Call {
    Push(Vec<Push>),
    /// Of different jobs.
    Settle(Vec<Settle>),
    Claim(ClaimCall),
    Change(Change),
    /// A read at the leader, which is no part of a transaction.
    Read(Vec<Value>),
    /// Statements that may be carried out twice, and late, without harm.
    Repeatable(Vec<Value>),
}

impl Call {
    /// Returns true if it pushes a job that expires.
    pub fn has_expiry(&self) -> bool {
        matches!(self, Self::Push(pushes) if pushes.iter().any(|it| it.expires.is_some()))
    }

    /// Refuses the push of a job that could never be claimed.
    pub fn check_expiry(&self, now_ms: i64) -> Result<()> {
        let Self::Push(pushes) = self else { return Ok(()) };
        check_each(pushes, |it| it.when.check_expiry(it.expires, now_ms))
    }
}

/// A job to be pushed.
#[derive(Debug)]
pub struct Push {
    pub queue: i64,
    /// Its queue, group and key, as [`sql::PUSHED`] takes them.
    pub place: String,
    /// The rest of it, as [`sql::PUSH`] takes it.
    pub content: String,
    pub has_group: bool,
    pub when: When,
    pub expires: Option<When>,
    pub key: Option<String>,
    /// Bytes of a request that has it.
    pub bytes: usize,
}

/// A token, and what is to become of its job.
#[derive(Debug)]
pub struct Settle {
    pub token: Token,
    /// As [`sql::SETTLE`] takes it.
    pub json: Value,
    pub bytes: usize,
}

/// A claim.
#[derive(Debug)]
pub struct ClaimCall {
    pub queue: i64,
    pub jobs_max: usize,
    pub lease_ms: Option<i64>,
    pub worker: Option<String>,
}

/// A change of a queue's settings.
#[derive(Debug, Clone)]
pub struct Change {
    pub statement: Value,
    pub queue: i64,
    /// Statements on its jobs that follow, as [`sql::FILL_ALL`].
    pub then: Vec<&'static str>,
}

/// The answer to a call.
#[derive(Debug)]
pub enum Answer {
    Pushed(Vec<Pushed>),
    Settled(Vec<Result<Settled>>),
    Claimed(Vec<Claim>),
    /// True if the change was made; it was not if the settings were others.
    Changed(bool),
    Rows(Vec<Vec<Value>>),
}

/// Outcome of the job of a good token.
#[derive(Debug, Clone, Copy)]
pub struct Settled {
    pub is_dead: bool,
    /// When it may run again, when its lease ends, or until when it is kept.
    pub at: UnixTime,
}

/// Calls of one request.
#[derive(Debug, Default)]
pub struct Group {
    members: Vec<Member>,
    /// The places and the contents of pushes, in one order.
    places: Vec<String>,
    contents: Vec<String>,
    /// A push has an ordering group.
    has_ordering_groups: bool,
    /// The pushes with keys, by queue and key.
    keys: HashMap<(i64, String), usize>,
    settles: Vec<Value>,
    settled_jobs: HashSet<i64>,
    changes: Vec<Change>,
    /// Numbers of jobs that are claimed, by queue.
    lanes: BTreeMap<i64, BTreeMap<Lane, usize>>,
    bytes: usize,
}

/// Terms that claims have in common if they get their jobs together.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct Lane {
    lease_ms: Option<i64>,
    worker: Option<String>,
}

impl From<&ClaimCall> for Lane {
    fn from(call: &ClaimCall) -> Self {
        Self { lease_ms: call.lease_ms, worker: call.worker.clone() }
    }
}

/// A call with the places of its parts.
#[derive(Debug)]
struct Member {
    submitted: Submitted,
    /// One for each of its jobs, tokens or changes.
    steps: Vec<MemberStep>,
}

/// The part of the group's statements that is for one job, token or change.
#[derive(Debug, Clone, Copy)]
struct MemberStep {
    /// Its number among the jobs, tokens or changes of the group.
    at: usize,
    /// False for a job that is not sent, as an earlier job of the group has the same key: `at` is that one's.
    is_first_of_key: bool,
}

impl MemberStep {
    /// The step of what is sent itself.
    fn own(at: usize) -> Self {
        Self { at, is_first_of_key: true }
    }
}

impl Group {
    pub fn len(&self) -> usize {
        self.members.len()
    }

    pub fn is_empty(&self) -> bool {
        self.members.is_empty()
    }

    /// Takes a call in, or gives it back if it does not fit.
    pub fn take(&mut self, submitted: Submitted) -> Result<(), Submitted> {
        let bytes = match &submitted.call {
            Call::Push(pushes) => pushes.iter().map(|it| it.bytes).sum(),
            Call::Settle(settles) => settles.iter().map(|it| it.bytes).sum(),
            Call::Claim(_) | Call::Change(_) => 0,
            Call::Read(_) | Call::Repeatable(_) => return Err(submitted),
        };
        let is_full = self.bytes + bytes > GROUP_BYTES_MAX || self.len() >= CALLS_MAX;
        if is_full && !self.is_empty() {
            return Err(submitted);
        }
        let mut steps = Vec::new();
        match &submitted.call {
            Call::Push(pushes) => steps = pushes.iter().map(|it| self.push(it)).collect(),
            Call::Settle(settles) => {
                if settles.iter().any(|it| self.settled_jobs.contains(&it.token.job)) {
                    return Err(submitted);
                }
                for settle in settles {
                    self.settled_jobs.insert(settle.token.job);
                    steps.push(MemberStep::own(self.settles.len()));
                    self.settles.push(settle.json.clone());
                }
            }
            Call::Claim(claim) => {
                let lanes = self.lanes.entry(claim.queue).or_default();
                *lanes.entry(claim.into()).or_default() += claim.jobs_max;
            }
            Call::Change(change) => {
                steps.push(MemberStep::own(self.changes.len()));
                self.changes.push(change.clone());
            }
            Call::Read(_) | Call::Repeatable(_) => {}
        }
        self.bytes += bytes;
        self.members.push(Member { submitted, steps });
        Ok(())
    }

    /// Takes a job in; if one of the same key is there already, that one stands for it.
    fn push(&mut self, push: &Push) -> MemberStep {
        let at = self.places.len();
        if let Some(key) = &push.key {
            let first = *self.keys.entry((push.queue, key.clone())).or_insert(at);
            if first != at {
                return MemberStep { at: first, is_first_of_key: false };
            }
        }
        self.places.push(push.place.clone());
        self.contents.push(push.content.clone());
        self.has_ordering_groups |= push.has_group;
        MemberStep::own(at)
    }

    /// The statements that change the tables, without those of the session.
    pub fn writes(&self, now_ms: i64) -> Vec<Value> {
        let mut writes = Vec::new();
        let has_retries = self.settles.iter().any(|settle| settle[0] == "retry");
        for (at, change) in self.changes.iter().enumerate() {
            writes.push(change.statement.clone());
            writes.push(json!([sql::CHANGED, at]));
            writes.extend(change.then.iter().map(|sql| json!([sql, now_ms, change.queue])));
        }
        if !self.settles.is_empty() {
            writes.push(json!([sql::SETTLE, json!(self.settles).to_string(), now_ms]));
            if has_retries {
                writes.push(json!([sql::FORGET_EXPIRY, now_ms]));
            }
        }
        for queue in self.lanes.keys() {
            let due = [sql::LEASE_ENDS, sql::DUE, sql::EXPIRIES];
            writes.extend(due.map(|sql| json!([sql, queue, now_ms])));
        }
        if !self.keys.is_empty() {
            let mut keys: Vec<_> = self.keys.keys().collect();
            keys.sort_unstable();
            let keys = json!(keys).to_string();
            writes.extend(sql::OF_KEYS.map(|sql| json!([sql, keys, now_ms])));
        }
        if has_retries {
            writes.extend(sql::OF_RETRIED.map(|sql| json!([sql, Value::Null, now_ms])));
        }
        let has_changes =
            !self.settles.is_empty() || !self.lanes.is_empty() || !self.keys.is_empty();
        if has_changes {
            writes.extend(sql::APPLY.map(|sql| json!([sql, now_ms])));
        }
        for (queue, lanes) in &self.lanes {
            let jobs: usize = lanes.values().sum();
            writes.extend(sql::PURGE.map(|sql| json!([sql, queue, now_ms, jobs])));
        }
        if !self.places.is_empty() {
            let array = |texts: &[String]| format!("[{}]", texts.join(","));
            writes.push(json!([sql::PUSHED, array(&self.places), now_ms]));
            writes.push(json!([sql::PUSH, array(&self.contents), now_ms]));
        }
        if !self.keys.is_empty() {
            writes.push(json!([sql::HOLD_KEYS, now_ms]));
        }
        if has_changes || self.has_ordering_groups {
            writes.push(json!([sql::FILL, now_ms]));
        }
        writes.extend(self.claims(now_ms));
        writes
    }

    fn claims(&self, now_ms: i64) -> Vec<Value> {
        let mut writes = Vec::new();
        let mut before = 0;
        for (queue, lanes) in &self.lanes {
            let mut to = 0;
            let lane = |(lane, jobs): (&Lane, &usize)| {
                let after = to;
                to += jobs;
                json!([after, to, lane.lease_ms, lane.worker])
            };
            let lanes: Vec<Value> = lanes.iter().map(lane).collect();
            let lanes = json!(lanes).to_string();
            writes.push(json!([sql::CLAIM, queue, now_ms, to, lanes, before]));
            before += to;
        }
        if before > 0 {
            writes.extend(sql::CLAIMED.map(|sql| json!([sql, now_ms])));
        }
        writes
    }

    /// Returns true if the answer has claimed jobs.
    pub fn has_claims(&self) -> bool {
        !self.lanes.is_empty()
    }

    /// Answers all calls, by the steps and the rows of the claimed jobs.
    pub fn answer(self, steps: &[Step], claimed: &[Value]) {
        let mut answers = Answers::new(&self, steps, claimed);
        for member in self.members {
            let answer = answers.of(&member);
            // A caller that has gone needs no answer.
            let _ = member.submitted.answer.send(answer);
        }
    }

    /// Answers all calls with an error.
    pub fn fail(self, error: impl Fn() -> Error) {
        for member in self.members {
            let _ = member.submitted.answer.send(Err(error()));
        }
    }

    /// The calls, each to be sent alone.
    pub fn apart(self) -> Vec<Submitted> {
        self.members.into_iter().map(|member| member.submitted).collect()
    }
}

/// A step of the answer, in the order of [`sql::ANSWER`].
#[derive(Debug, Deserialize)]
pub struct Step {
    kind: i64,
    op: usize,
    job: Option<i64>,
    /// Read by [`sql::READ_CLAIMED`] alone.
    _claim: IgnoredAny,
    verdict: Option<String>,
    next: Option<i64>,
    due_at_ms: Option<i64>,
}

/// The steps of an answer; `None` if they cannot be read.
pub fn steps(answer: &str) -> Option<Vec<Step>> {
    serde_json::from_str(answer).ok()
}

/// The answers of a group.
struct Answers<'a> {
    pushes: HashMap<usize, &'a Step>,
    settles: HashMap<usize, &'a Step>,
    changes: HashMap<usize, &'a Step>,
    /// Claimed jobs that no caller has yet; the next one is the last.
    lanes: HashMap<(i64, Lane), Vec<Claim>>,
}

impl<'a> Answers<'a> {
    fn new(group: &Group, steps: &'a [Step], claimed: &[Value]) -> Self {
        let of_kind = |kind| steps.iter().filter(move |step| step.kind == kind);
        let mut claims: HashMap<i64, Claim> =
            claimed.iter().filter_map(claim).map(|claim| (claim.id, claim)).collect();
        let ranks: BTreeMap<usize, i64> =
            of_kind(sql::CLAIM_STEP).filter_map(|step| Some((step.op, step.job?))).collect();
        let mut lanes = HashMap::new();
        let mut before = 0;
        for (queue, of_queue) in &group.lanes {
            for (lane, jobs) in of_queue {
                let ranks = ranks.range(before + 1..=before + jobs).rev();
                let found = ranks.filter_map(|(_, job)| claims.remove(job)).collect();
                lanes.insert((*queue, lane.clone()), found);
                before += jobs;
            }
        }
        let by_op = |kind| of_kind(kind).map(|step| (step.op, step)).collect();
        Self {
            pushes: by_op(sql::PUSH_STEP),
            settles: by_op(sql::SETTLE_STEP),
            changes: by_op(sql::CHANGE_STEP),
            lanes,
        }
    }

    fn of(&mut self, member: &Member) -> Result<Answer> {
        match &member.submitted.call {
            Call::Push(_) => {
                let pushed = |sent: &MemberStep| {
                    let step = self.pushes.get(&sent.at).ok_or_else(dropped)?;
                    let id = step.job.ok_or_else(dropped)?;
                    Ok(elsewhere::pushed(id, sent.is_first_of_key && step.verdict.is_none()))
                };
                member.steps.iter().map(pushed).collect::<Result<_>>().map(Answer::Pushed)
            }
            Call::Settle(settles) => {
                let pairs = settles.iter().zip(&member.steps);
                let settled = pairs.map(|(settle, sent)| self.settled(settle.token, sent.at));
                Ok(Answer::Settled(settled.collect()))
            }
            Call::Claim(call) => {
                let left = self.lanes.entry((call.queue, call.into())).or_default();
                let rest = left.len().saturating_sub(call.jobs_max);
                let mut claims = left.split_off(rest);
                claims.reverse();
                Ok(Answer::Claimed(claims))
            }
            Call::Change(_) => {
                let mut steps = member.steps.iter().filter_map(|sent| self.changes.get(&sent.at));
                Ok(Answer::Changed(steps.any(|step| step.verdict.is_none())))
            }
            Call::Read(_) | Call::Repeatable(_) => Ok(Answer::Rows(Vec::new())),
        }
    }

    fn settled(&self, token: Token, at: usize) -> Result<Settled> {
        let step = self.settles.get(&at).ok_or_else(dropped)?;
        let why = match step.verdict.as_deref() {
            None => {
                let at = UnixTime::from_ms(step.due_at_ms.unwrap_or_default());
                return Ok(Settled { is_dead: step.next == Some(JobState::Dead.number()), at });
            }
            Some("never") => None,
            Some("expired") => Some(LeaseLost::Expired),
            Some("claimed_again") => Some(LeaseLost::ClaimedAgain),
            Some("given_back") => Some(LeaseLost::GivenBack),
            Some(_) => Some(LeaseLost::Settled),
        };
        Err(elsewhere::not_good(token, why))
    }
}

/// A row of [`sql::READ_CLAIMED`] as a claim.
fn claim(row: &Value) -> Option<Claim> {
    let number = |at: usize| row.get(at)?.as_i64();
    let text = |at: usize| row.get(at)?.as_str().map(str::to_owned);
    let token = Token { job: number(0)?, claim: number(1)?.try_into().ok()? };
    let mut claim = elsewhere::claim(token, payload(row.get(11)?.as_str()?)?);
    claim.attempt = token.claim.saturating_sub(number(2)?.try_into().ok()?);
    claim.attempts_max = number(3)?.try_into().ok()?;
    claim.group = text(4);
    claim.correlation_id = text(5);
    claim.metadata = text(6);
    claim.priority = number(7)?.try_into().ok()?;
    claim.pushed_at = UnixTime::from_ms(number(8)?);
    claim.lease_until = UnixTime::from_ms(number(9)?);
    claim.queue = text(10)?;
    Some(claim)
}

/// A payload as the statements take it: `x` and the digits of its bytes, or `t` and JSON.
pub fn payload_text(payload: &Payload) -> String {
    match payload {
        Payload::Json(text) => format!("t{text}"),
        Payload::Bytes(bytes) => {
            let mut text = String::with_capacity(1 + 2 * bytes.len());
            text.push('x');
            text.extend(hex_digits(bytes));
            text
        }
    }
}

pub fn payload(text: &str) -> Option<Payload> {
    if let Some(json) = text.strip_prefix('t') {
        return Some(Payload::Json(json.to_owned()));
    }
    let digits = text.strip_prefix('x')?.as_bytes();
    let digit = |byte: u8| char::from(byte).to_digit(16).map(|it| it as u8);
    let byte = |two: &[u8]| Some(digit(two[0])? << 4 | digit(*two.get(1)?)?);
    digits.chunks(2).map(byte).collect::<Option<Vec<u8>>>().map(Payload::Bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use leafpress::rusqlite::{Connection, params_from_iter, types::Value as Sql};

    #[test]
    fn payloads_stay_what_they_are() {
        for known in [
            Payload::bytes(""),
            Payload::bytes([0, 255, b'x']),
            Payload::bytes("é"),
            Payload::Json("{\"a\": 1}".to_owned()),
        ] {
            assert_eq!(payload(&payload_text(&known)), Some(known));
        }
        assert_eq!((payload("x1"), payload("xg0"), payload("")), (None, None, None));
    }

    /// A database with the tables of a node, and no rows.
    fn database() -> Connection {
        let database = Connection::open_in_memory().expect("a database");
        for statement in sql::make_tables() {
            execute(&database, &statement).expect("a table");
        }
        database
    }

    fn execute(database: &Connection, statement: &Value) -> rusqlite::Result<()> {
        let parts = statement.as_array().expect("a statement");
        let values = parts[1..].iter().map(|value| match value {
            Value::Null => Sql::Null,
            Value::String(text) => Sql::Text(text.clone()),
            number => Sql::Integer(number.as_i64().expect("an integer")),
        });
        let mut sql = database.prepare(parts[0].as_str().expect("SQL"))?;
        sql.execute(params_from_iter(values)).map(drop)
    }

    /// The statements of a group that claims from two queues, each with leases that have ended.
    #[test]
    fn leases_of_two_queues_end_in_one_group() {
        let database = database();
        let run = |statement: &Value| execute(&database, statement);
        let jobs = "INSERT INTO leafpress_job(queue, state, priority, due_at_ms, changed_at_ms,
                pushed_at_ms, claims, releases, payload, lease_ms)
             SELECT queue.id, 1, 0, 5 - value, 0, 0, 1, 0, 'x', 1
             FROM leafpress_queue AS queue, json_each('[1,2,3]')";
        for name in ["a", "b"] {
            run(&json!(["INSERT INTO leafpress_queue(name) VALUES (?1)", name])).expect("a queue");
        }
        run(&json!([jobs])).expect("jobs");
        let mut group = Group::default();
        for queue in [1, 2] {
            let call = Call::Claim(ClaimCall { queue, jobs_max: 9, lease_ms: None, worker: None });
            let answer = std::sync::mpsc::channel().0;
            assert!(group.take(Submitted { call, answer }).is_ok());
        }
        for statement in group.writes(10) {
            run(&statement).expect("a statement of the group");
        }
        let ended = "SELECT group_concat(job, ' ') FROM (
             SELECT job FROM _leafpress_queue_step WHERE kind = 2 ORDER BY op)";
        let ended: String = database.query_row(ended, [], |row| row.get(0)).expect("jobs");
        assert_eq!(ended, "3 2 1 6 5 4", "those that ended first come first");
        let claimed = "SELECT count(*) FROM leafpress_job WHERE claims = 2";
        let claimed: i64 = database.query_row(claimed, [], |row| row.get(0)).expect("a count");
        assert_eq!(claimed, 6);
    }

    /// A group that removes a job whose lease has just ended, and claims from its queue.
    #[test]
    fn a_job_that_is_removed_as_its_lease_ends_holds_no_key() {
        let database = database();
        let run = |sql: &str| execute(&database, &json!([sql])).expect("a statement");
        run("INSERT INTO leafpress_queue(name) VALUES ('a')");
        run("INSERT INTO leafpress_job(id, queue, state, priority, due_at_ms, changed_at_ms,
                 pushed_at_ms, claims, releases, payload, lease_ms, unique_key, unique_scope)
             SELECT value, 1, 1, 0, 5, 0, 0, 1, 0, 'x', 1, 'k' || value, 1
             FROM json_each('[1,2]')");
        run("INSERT INTO leafpress_key(queue, key, job, scope)
             SELECT queue, unique_key, id, 1 FROM leafpress_job");
        let mut group = Group::default();
        let token = Token { job: 1, claim: 0 };
        let json = json!(["remove", 1, 0, null, 1, 0.5]);
        let calls = [
            Call::Settle(vec![Settle { token, json, bytes: 10 }]),
            Call::Claim(ClaimCall { queue: 1, jobs_max: 9, lease_ms: None, worker: None }),
        ];
        for call in calls {
            let answer = std::sync::mpsc::channel().0;
            assert!(group.take(Submitted { call, answer }).is_ok());
        }
        for statement in group.writes(10) {
            execute(&database, &statement).expect("a statement of the group");
        }
        let left = "SELECT (SELECT group_concat(id || ':' || state) FROM leafpress_job),
             (SELECT group_concat(key || ':' || job) FROM leafpress_key)";
        let left = database.query_row(left, [], |row| Ok((row.get(0)?, row.get(1)?)));
        let expected = ("2:1".to_owned(), "k2:2".to_owned());
        assert_eq!(left.expect("a row"), expected, "the other job is claimed, and keeps its key");
    }

    #[test]
    fn calls_on_one_job_go_into_different_groups() {
        let submitted = |job| {
            let token = Token { job, claim: 1 };
            let settle = Settle { token, json: json!([]), bytes: 10 };
            Submitted { call: Call::Settle(vec![settle]), answer: std::sync::mpsc::channel().0 }
        };
        let mut group = Group::default();
        assert!(group.take(submitted(1)).is_ok() && group.take(submitted(2)).is_ok());
        assert!(group.take(submitted(1)).is_err());
        assert_eq!(group.len(), 2);
    }
}
