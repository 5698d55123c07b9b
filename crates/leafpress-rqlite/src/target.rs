//! The target: a writer's group becomes one transaction on the cluster, applied once.
//!
//! Invariants:
//! 1. Every request of a group inserts the same key `(session, number)` into `_leafpress_applied`
//!    first, so at most one request of all that were sent under a number is ever applied.
//! 2. What is answered with an error, other than an unknown outcome, is not and will not be
//!    applied: if an earlier request under that number may still arrive, another one, without the
//!    call, has taken the number.
//! 3. Counts of rows are those of the request that was applied: each statement leaves them in the
//!    row of the group.
//!
//! Must never: send a call under a second number while a request with the first may be applied.

use std::thread::sleep;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use leafpress::rusqlite;
use leafpress::writer::{
    Answer, Call, CommitTarget, Executed, Group, InsertMany, Parameters, Statement,
};
use leafpress::{Error, Result, quote_identifier};
use serde_json::{Value, json};

use crate::address::Address;
use crate::answer::{Counts, Fate};
use crate::client::Client;
use crate::statement::{Prepared, prepare};

/// A request of 256 MB stopped a cluster of three nodes.
const GROUP_BYTES_MAX: usize = 4 << 20;
const CALL_BYTES_MAX: usize = 16 << 20;
/// SQLite takes 32,766 parameters in a statement.
const PARAMETERS_MAX: usize = 30_000;
const ROWS_MAX: usize = 500;
/// Rows of old groups stay so long: no request can arrive later than that.
const KEPT: Duration = Duration::from_secs(15 * 60);
/// Each such group deletes old rows, at most [`DELETED_MAX`]: more than are made meanwhile.
const DELETE_EVERY: u64 = 64;
const DELETED_MAX: u32 = 1_000;

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
    session: String,
    number: u64,
    has_table: bool,
    time_limit: Duration,
    has_dedupe: bool,
}

/// A call on its way: its place in the group and its statements.
struct Member {
    index: usize,
    kind: Kind,
    statements: Vec<Prepared>,
    bytes: usize,
}

#[derive(Clone, Copy)]
enum Kind {
    Execute,
    Batch,
    InsertMany,
}

/// The calls of one number, and what was sent under it.
#[derive(Default)]
struct Slot {
    /// For each request, the calls in it by their places in `members`.
    attempts: Vec<Vec<usize>>,
    /// Answers to calls that were refused and taken out.
    refused: Vec<(usize, String)>,
    /// A request may be applied later, or has been.
    may_be_applied: bool,
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
        let session = format!("{:016x}{:016x}", fastrand::u64(..), fastrand::u64(..));
        let time_limit = Duration::from_secs(30);
        Self {
            client: Client::new(address),
            session,
            number: 0,
            has_table: false,
            time_limit,
            has_dedupe: true,
        }
    }

    /// The longest time for which a group whose outcome is unknown is sent again (30 s).
    #[must_use]
    pub fn time_limit(mut self, limit: Duration) -> Self {
        self.time_limit = limit;
        self
    }

    /// Leaves the rows out by which a group is applied once: for the test that shows their use.
    #[doc(hidden)]
    #[must_use]
    pub fn without_dedupe(mut self) -> Self {
        self.has_dedupe = false;
        self
    }

    /// Commits these calls under one number, or those of them that fit, and answers them. Returns
    /// the calls that remain.
    fn commit_slot(&mut self, group: &mut Group<'_>, mut members: Vec<Member>) -> Vec<Member> {
        self.number += 1;
        let mut slot = Slot::default();
        let end = self.run(&members, &mut slot);
        let mut is_done = vec![false; members.len()];
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

    /// Sends the calls until their fate is known or the time is over.
    fn run(&mut self, members: &[Member], slot: &mut Slot) -> End {
        let begun = Instant::now();
        let mut list: Vec<usize> = fitting(members);
        loop {
            slot.attempts.push(list.clone());
            let (statements, owners) = self.request(members, slot);
            match self.send(&statements, begun, slot) {
                Ok(Fate::Applied(counts)) => {
                    let own = counts.into_iter().zip(&owners).filter(|(_, it)| it.1);
                    return End::Applied(slot.attempts.len() - 1, own.map(|(it, _)| it).collect());
                }
                Ok(Fate::Rejected(at, reason)) => {
                    if at == Some(0) && reason.contains("_leafpress_applied.") {
                        match self.applied(begun) {
                            Some((attempt, counts)) => return End::Applied(attempt, counts),
                            None => return End::Unknown(reason),
                        }
                    }
                    if at == Some(0) && reason.contains("no such table: _leafpress_applied") {
                        // The database was replaced by another one.
                        self.has_table = false;
                        slot.attempts.pop();
                        continue;
                    }
                    let culprit = at.and_then(|at| owners.get(at)?.0);
                    match culprit.or((list.len() == 1).then(|| list[0])) {
                        Some(at) => {
                            slot.refused.push((at, reason));
                            list.retain(|it| *it != at);
                        }
                        None if list.is_empty() => return End::Unknown(reason),
                        None => list.truncate(list.len() / 2),
                    }
                    if list.is_empty() && !slot.may_be_applied {
                        return End::Empty;
                    }
                }
                Ok(Fate::Unknown(reason)) => return End::Unknown(reason),
                Ok(Fate::NotTaken(reason) | Fate::Denied(reason)) | Err(reason) => {
                    let is_unknown = slot.may_be_applied || !slot.refused.is_empty();
                    return if is_unknown { End::Unknown(reason) } else { End::NotTaken(reason) };
                }
            }
        }
    }

    /// Sends one request again and again, unchanged, until an answer is certain.
    ///
    /// # Errors
    /// The table of Leafpress could not be made.
    fn send(
        &mut self,
        statements: &[Value],
        begun: Instant,
        slot: &mut Slot,
    ) -> Result<Fate, String> {
        let mut pause = Duration::from_millis(5);
        loop {
            let fate = if self.has_table {
                self.client.execute(statements)
            } else {
                match self.client.execute(&[json!(TABLE), json!(INDEX)]) {
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
            let limit = match &fate {
                Fate::Applied(_) | Fate::Rejected(..) | Fate::Denied(_) => return Ok(fate),
                // An election takes less.
                Fate::NotTaken(_) if !slot.may_be_applied => {
                    self.time_limit.min(Duration::from_secs(10))
                }
                Fate::Unknown(_) | Fate::NotTaken(_) => self.time_limit,
            };
            if begun.elapsed() >= limit {
                return Ok(fate);
            }
            sleep(pause);
            pause = (pause * 2).min(Duration::from_millis(250));
        }
    }

    /// The statements of the last attempt; for each its call, and whether its counts are of use.
    fn request(&self, members: &[Member], slot: &Slot) -> (Vec<Value>, Vec<(Option<usize>, bool)>) {
        let (session, number) = (&self.session, self.number);
        let (mut statements, mut owners) = (Vec::new(), Vec::new());
        let attempt = slot.attempts.len() - 1;
        if self.has_dedupe {
            let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
            let insert = "INSERT INTO _leafpress_applied VALUES(?,?,?,?,'')";
            statements.push(json!([insert, session, number, attempt, now]));
            let clear = "UPDATE _leafpress_applied SET counts='' WHERE session=? AND number=?";
            statements.push(json!([clear, session, number - 1]));
            if number.is_multiple_of(DELETE_EVERY) {
                let delete = format!(
                    "DELETE FROM _leafpress_applied WHERE (session, number) IN (SELECT session, \
                     number FROM _leafpress_applied WHERE at < ? ORDER BY at LIMIT {DELETED_MAX})"
                );
                statements.push(json!([delete, now.saturating_sub(KEPT.as_secs())]));
            }
        }
        owners.resize(statements.len(), (None, false));
        let record = format!(
            "UPDATE _leafpress_applied SET counts=counts||changes()||' '||last_insert_rowid()||' ' \
             WHERE session='{session}' AND number={number}"
        );
        for &at in &slot.attempts[attempt] {
            for prepared in &members[at].statements {
                statements.push(prepared.json.clone());
                let is_recorded = prepared.is_counted && !matches!(members[at].kind, Kind::Batch);
                owners.push((Some(at), is_recorded));
                if is_recorded && self.has_dedupe {
                    statements.push(json!([record]));
                    owners.push((None, false));
                }
            }
        }
        (statements, owners)
    }

    /// The request that was applied under this number, and its counts.
    fn applied(&mut self, begun: Instant) -> Option<(usize, Vec<Counts>)> {
        let sql = "SELECT attempt, counts FROM _leafpress_applied WHERE session=? AND number=?+0";
        let (session, number) = (self.session.clone(), self.number.to_string());
        loop {
            if let Some(rows) = self.client.query(sql, &[&session, &number]) {
                let row = rows.first()?;
                let attempt = row.get(0)?.as_u64()? as usize;
                let counts = row.get(1)?.as_str()?.split_whitespace().collect::<Vec<_>>();
                let counts = counts.chunks_exact(2).map(|two| {
                    Some(Counts {
                        rows_affected: two[0].parse().ok()?,
                        last_insert_id: two[1].parse().ok()?,
                    })
                });
                return Some((attempt, counts.collect::<Option<_>>()?));
            }
            if begun.elapsed() > self.time_limit {
                return None;
            }
            sleep(Duration::from_millis(50));
        }
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
        while !members.is_empty() {
            members = self.commit_slot(group, members);
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
    let bytes = statements.iter().map(|it: &Prepared| it.bytes + 200).sum();
    if bytes > CALL_BYTES_MAX {
        let reason =
            format!("a call of {bytes} bytes would stop the cluster: {CALL_BYTES_MAX} are allowed");
        return Err(Error::unsupported(reason).to_do("divide it into several calls"));
    }
    Ok(Member { index, kind, statements, bytes })
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
        prepare(&Statement { sql, parameters: Parameters::Positional(rows.concat()) })
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

/// The error of a statement, in SQLite's words.
fn of_sqlite(reason: &str) -> Error {
    if reason.contains("constraint failed") {
        return Error::constraint(reason);
    }
    let code = rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_ERROR);
    let source = rusqlite::Error::SqliteFailure(code, Some(reason.to_owned()));
    Error::sqlite("carry out the statement", source).on_disk("nothing of this call")
}

fn not_taken(reason: &str) -> Error {
    let source = std::io::Error::other(reason.to_owned());
    Error::io("reach", std::path::Path::new("the cluster of rqlite"), source)
        .on_disk("nothing of this call")
        .to_do("see that the nodes run and that the URL names them and the credentials")
}
