//! The tables of a queue read by hand, as `sqlite3` would, beside the model's.
//!
//! Both become lines of text, so that a difference reads as one. Besides, the
//! tables keep these invariants, whatever the model says:
//!
//! 1. Ids ascend, and none is given twice.
//! 2. A leased job has an end of its lease, a waiting one a moment to run at.
//! 3. Of a group no more jobs are open than its queue allows, and none is
//!    blocked while there is room.
//! 4. A key that is held names a job that is there and has not ended, unless it
//!    is held for a time.
//! 5. Attempts that are noted belong to a job that is there.

use rusqlite::Connection;

use super::model::{Job, Millis, Model, Scope, State};
use super::operations::QUEUES;

const STATES: [State; 6] =
    [State::Ready, State::Leased, State::Delayed, State::Blocked, State::Done, State::Dead];
const SCOPES: [Scope; 3] = [Scope::Waiting, Scope::WaitingOrRunning, Scope::Time];

/// Jobs, keys that are held, how claims ended and the application's rows, a line
/// for each.
pub fn lines_of_tables(connection: &Connection, start_ms: Millis, now_ms: Millis) -> Vec<String> {
    let mut lines = strings(
        connection,
        "SELECT 'next to ' || seq FROM sqlite_sequence WHERE name = 'leafpress_job' AND seq > 0",
    );
    let mut statement = connection
        .prepare(
            "SELECT job.id, name, state, priority, due_at_ms, claims, releases,
                job.attempts_max, expires_at_ms, ordering_group, unique_key, error, result, CAST(payload AS TEXT)
             FROM leafpress_job AS job JOIN leafpress_queue AS queue ON queue.id = job.queue
             ORDER BY job.id",
        )
        .expect("the schema is documented");
    let jobs = statement.query_map([], |row| {
        let state = STATES[row.get::<_, u8>(2)? as usize];
        Ok(JobLine {
            id: row.get(0)?,
            queue: row.get(1)?,
            state,
            priority: row.get(3)?,
            due_at_ms: row.get(4)?,
            claims: row.get(5)?,
            releases: row.get(6)?,
            attempts_max: row.get(7)?,
            expires_at_ms: row.get(8)?,
            group: row.get(9)?,
            key: row.get(10)?,
            error: row.get(11)?,
            result: row.get(12)?,
            payload: row.get(13)?,
        })
    });
    let jobs = jobs.expect("jobs");
    lines.extend(jobs.map(|job| job.expect("a job").to_line(start_ms, now_ms)));
    let keys = format!(
        "SELECT 'key ' || name || ' ' || key || ' of #' || job || ' scope ' || scope
             || coalesce(' until ' || (until_ms - {start_ms}), '')
         FROM leafpress_key AS held JOIN leafpress_queue AS queue ON queue.id = held.queue
         WHERE until_ms IS NULL OR until_ms > {now_ms} ORDER BY queue.id, key",
    );
    lines.extend(strings(connection, &keys));
    let history = "SELECT '#' || job || ' claim ' || claim || ' ' || outcome
        FROM leafpress_attempt ORDER BY job, claim";
    lines.extend(strings(connection, history));
    lines.extend(strings(connection, "SELECT 'note of #' || job FROM note ORDER BY job"));
    lines
}

/// The same of the model.
pub fn lines_of_model(model: &Model, start_ms: Millis) -> Vec<String> {
    let mut lines = vec![format!("next to {}", model.last_id)];
    lines.retain(|_| model.last_id > 0);
    let job = |job: &Job| JobLine {
        id: job.id,
        queue: QUEUES[job.queue].to_owned(),
        state: job.state,
        priority: job.new.priority,
        due_at_ms: job.due_at_ms,
        claims: job.claims,
        releases: job.releases,
        attempts_max: job.new.attempts_max,
        expires_at_ms: job.new.expires_at_ms,
        group: job.new.group.clone(),
        key: job.new.unique.as_ref().map(|unique| unique.key.clone()),
        error: job.error.clone(),
        result: job.result.clone(),
        payload: job.new.payload.split(' ').nth(1).expect("a kind and a number").to_owned(),
    };
    lines.extend(model.jobs.iter().map(|held| job(held).to_line(start_ms, model.now_ms)));
    let mut keys: Vec<_> = model.keys.iter().collect();
    keys.retain(|held| held.until_ms.is_none_or(|until| until > model.now_ms));
    keys.sort_by_key(|held| (held.queue, held.text.clone()));
    lines.extend(keys.into_iter().map(|held| {
        let scope = SCOPES.iter().position(|scope| *scope == held.scope).expect("it is one");
        let until =
            held.until_ms.map_or_else(String::new, |until| format!(" until {}", until - start_ms));
        let queue = QUEUES[held.queue];
        format!("key {queue} {} of #{} scope {scope}{until}", held.text, held.job)
    }));
    let mut history = model.history.clone();
    history.sort_by_key(|(token, _)| *token);
    lines.extend(history.iter().map(|(token, outcome)| {
        let outcome = format!("{outcome:?}").to_lowercase();
        format!("#{} claim {} {outcome}", token.job, token.claim)
    }));
    let mut notes = model.notes.clone();
    notes.sort_unstable();
    lines.extend(notes.iter().map(|job| format!("note of #{job}")));
    lines
}

struct JobLine {
    id: i64,
    queue: String,
    state: State,
    priority: i32,
    due_at_ms: Option<Millis>,
    claims: u32,
    releases: u32,
    attempts_max: Option<u32>,
    expires_at_ms: Option<Millis>,
    group: Option<String>,
    key: Option<String>,
    error: Option<String>,
    result: Option<String>,
    payload: String,
}

impl JobLine {
    /// When a waiting job was due matters only as long as it is not.
    fn to_line(&self, start_ms: Millis, now_ms: Millis) -> String {
        let Self { id, queue, state, priority, claims, releases, payload, .. } = self;
        let is_told = match state {
            State::Ready => false,
            State::Blocked => self.due_at_ms.is_some_and(|due| due > now_ms),
            State::Leased | State::Delayed | State::Done | State::Dead => true,
        };
        let due = self.due_at_ms.filter(|_| is_told).map(|due| due - start_ms);
        let expires = self.expires_at_ms.map(|end| end - start_ms);
        let mut line = format!(
            "#{id} {queue} {state:?} priority {priority} claims {claims} releases {releases} payload {payload}"
        );
        let mut besides = |name: &str, value: Option<String>| {
            line.extend(value.map(|value| format!(" {name} {value}")));
        };
        besides("due", due.map(|due| due.to_string()));
        besides("expires", expires.map(|end| end.to_string()));
        besides("attempts_max", self.attempts_max.map(|most| most.to_string()));
        besides("group", self.group.clone());
        besides("key", self.key.clone());
        besides("error", self.error.clone());
        besides("result", self.result.clone());
        line
    }
}

/// Each invariant, by a query that finds what breaks it. `group_max` is the
/// most that any queue has ever allowed of a group.
pub fn audit(connection: &Connection, group_max: &[u32]) -> Vec<String> {
    let mut broken = Vec::new();
    let mut find = |what: &str, sql: &str| {
        let found = strings(connection, sql);
        broken.extend(found.into_iter().map(|found| format!("{what}: {found}")));
    };
    find(
        "2: no end of its lease, or no moment to run at",
        "SELECT id FROM leafpress_job WHERE state IN (0, 1, 2, 3) AND due_at_ms IS NULL",
    );
    let open = "SELECT queue, ordering_group, count(*) FILTER (WHERE state IN (0, 1, 2)) AS open,
            count(*) FILTER (WHERE state = 3) AS blocked
        FROM leafpress_job WHERE ordering_group IS NOT NULL GROUP BY queue, ordering_group";
    for (queue, most) in QUEUES.iter().zip(group_max) {
        let places = format!(
            "SELECT ordering_group || ': ' || open || ' of {most} open in {queue}'
             FROM ({open}) WHERE open > {most}
                AND queue = (SELECT id FROM leafpress_queue WHERE name = '{queue}')"
        );
        find("3: more than the group has places", &places);
    }
    find(
        "3: all of a group is blocked",
        &format!("SELECT ordering_group FROM ({open}) WHERE open = 0 AND blocked > 0"),
    );
    find(
        "3: blocked without a group",
        "SELECT id FROM leafpress_job WHERE state = 3 AND ordering_group IS NULL",
    );
    find(
        "4: a key that no job holds",
        "SELECT key || ' of #' || job FROM leafpress_key AS held WHERE scope < 2 AND NOT EXISTS (
            SELECT 1 FROM leafpress_job AS job WHERE job.id = held.job AND job.queue = held.queue
                AND job.unique_key = held.key AND job.state < 4 AND (held.scope = 1 OR job.state <> 1))",
    );
    find(
        "4: a key for a time without its end",
        "SELECT key FROM leafpress_key WHERE (scope = 2) <> (until_ms IS NOT NULL)",
    );
    find(
        "5: an attempt of no job",
        "SELECT job || '.' || claim FROM leafpress_attempt
         WHERE job NOT IN (SELECT id FROM leafpress_job)",
    );
    broken
}

/// What SQLite says of the file as a whole.
pub fn integrity(connection: &Connection) -> Vec<String> {
    strings(connection, "PRAGMA integrity_check")
}

fn strings(connection: &Connection, sql: &str) -> Vec<String> {
    let mut statement = connection.prepare(sql).expect("the schema is documented");
    let rows = statement.query_map([], |row| {
        row.get::<_, rusqlite::types::Value>(0).map(|value| match value {
            rusqlite::types::Value::Text(text) => text,
            other => format!("{other:?}"),
        })
    });
    rows.expect("a query").map(|row| row.expect("a row")).collect()
}
