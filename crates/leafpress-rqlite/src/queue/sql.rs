//! The statements of a group of calls.
//!
//! Each statement carries out all calls of one kind, which it gets as one text of JSON. The table
//! `_leafpress_queue_step` has a row for each change of a job in this transaction: what was asked for,
//! and what becomes of it. It is empty between transactions.
//!
//! ```text
//! BEGUN ─► HAS_TABLES ─► SETTLE, LEASE_ENDS, DUE, EXPIRIES, OF_KEYS, OF_RETRIED (steps) ─► APPLY (attempts, jobs, keys)
//!       ─► PUSHED (steps) ─► PUSH (jobs) ─► HOLD_KEYS ─► FILL (groups) ─► CLAIM (steps, keys, jobs) ─► ANSWER
//! ```
//!
//! So a group is as if its settling calls had come first, then the changes that are due, the pushes,
//! and the claims. ?1 and ?2 are the queue and the time in most of them.
//!
//! | number | as the state of a job | as the kind of a step | as what becomes of a job (`next`) |
//! |---|---|---|---|
//! | -1 | | | it is removed |
//! | 0 | ready | | its new state, and so on |
//! | 1 | leased | a caller settles it | |
//! | 2 | delayed | its lease ends | |
//! | 3 | blocked | it expires | |
//! | 4 | done | it is pushed | |
//! | 5 | dead | it is claimed | |
//! | 6 | | a change of settings | |
//!
//! Must never: ask for the time or a random number. Each node carries out the statements by itself, and
//! rqlite 8.26 does not rewrite the functions of time: the nodes would have different tables.

use std::sync::LazyLock;

use leafpress::queue::elsewhere;
use serde_json::{Value, json};

use crate::once::{FLOOR_TABLE, OF_QUEUES};

/// Number of the statements that have the keys of pushes.
pub const STATEMENTS_OF_KEYS: usize = 3;

/// Kinds of steps, as numbers in the table and in answers; 2 and 3 are [`LEASE_ENDS`] and [`EXPIRIES`], also
/// by [`OF_KEYS`].
pub const SETTLE_STEP: i64 = 1;
pub const PUSH_STEP: i64 = 4;
pub const CLAIM_STEP: i64 = 5;
pub const CHANGE_STEP: i64 = 6;

/// Statements that make the tables of queues, if they are missing.
pub fn make_tables() -> Vec<Value> {
    let of_every_queue = elsewhere::tables();
    of_every_queue.iter().map(String::as_str).chain(TABLES).map(|sql| json!([sql])).collect()
}

/// Tables that only a queue on rqlite has.
const TABLES: [&str; 4] = [
    FLOOR_TABLE,
    "CREATE TABLE IF NOT EXISTS _leafpress_queue_group(session TEXT, number INTEGER, at_ms INTEGER \
     NOT NULL, answer TEXT NOT NULL, PRIMARY KEY (session, number)) WITHOUT ROWID",
    "CREATE INDEX IF NOT EXISTS _leafpress_queue_group_at ON _leafpress_queue_group(at_ms)",
    "CREATE TABLE IF NOT EXISTS _leafpress_queue_step(kind INTEGER, op INTEGER, queue INTEGER, \
     job INTEGER, claim INTEGER, verdict TEXT, next INTEGER, due_at_ms INTEGER, released INTEGER, \
     error TEXT, outcome TEXT, attempt_error TEXT, result, lease_ms INTEGER, worker TEXT, \
     ordering_group TEXT, unique_key TEXT, unique_scope INTEGER, PRIMARY KEY (kind, op)) \
     WITHOUT ROWID",
];

/// ?1 session, ?2 number, ?3 time. Fails if a request of this number was applied, or if its row may have been deleted.
pub static BEGUN: LazyLock<String> = LazyLock::new(|| {
    let at = OF_QUEUES.checked("?3");
    format!("INSERT INTO _leafpress_queue_group VALUES(?1, ?2, {at}, '')")
});

/// After [`BEGUN`]. Fails if a table is missing: rqlite passes over a statement that it cannot prepare, and commits the
/// others of the transaction.
pub const HAS_TABLES: &str = "UPDATE leafpress_schema SET version = json('no table ' || version)
     WHERE 3 > (SELECT count(*) FROM sqlite_schema
         WHERE name IN ('_leafpress_queue_group', '_leafpress_queue_step', '_leafpress_floor'))";
/// The place of [`HAS_TABLES`] among the statements of a group.
pub const HAS_TABLES_AT: usize = 1;

/// Right after a change of settings. ?1 its place in the group: a step, with a verdict if no row was changed.
pub const CHANGED: &str = "INSERT INTO _leafpress_queue_step(kind, op, verdict)
     VALUES (6, ?1, CASE changes() WHEN 0 THEN 'other' END)";

/// ?1 the time.
pub const LEASES_FROM_NOW: &str = "UPDATE leafpress_job
     SET due_at_ms = ?1 + lease_ms, changed_at_ms = min(changed_at_ms, ?1)
     WHERE due_at_ms > ?1 + lease_ms AND state = 1";
pub const RETRIES_FROM_NOW: &str = "UPDATE leafpress_job
     SET due_at_ms = ?1 + (due_at_ms - changed_at_ms), changed_at_ms = ?1
     WHERE claims > 0 AND changed_at_ms > ?1 AND state = 2";

/// The longest duration, so that a time never becomes too large for an integer.
pub const LONGEST_MS: i64 = 1 << 60;
macro_rules! longest_ms {
    () => {
        "1152921504606846976"
    };
}

/// A payload in JSON: `x` and the digits of bytes, or `t` and a text.
macro_rules! payload {
    ($value:literal) => {
        concat!(
            "CASE substr(",
            $value,
            ", 1, 1) WHEN 'x' THEN unhex(substr(",
            $value,
            ", 2)) WHEN 't' THEN substr(",
            $value,
            ", 2) END"
        )
    };
}

/// A column as such a text; `none` stands for NULL.
macro_rules! as_text {
    ($column:literal, $none:literal) => {
        concat!(
            "CASE typeof(",
            $column,
            ") WHEN 'blob' THEN 'x' || hex(",
            $column,
            ") WHEN 'null' THEN ",
            $none,
            " ELSE 't' || ",
            $column,
            " END"
        )
    };
}

/// The result and the payload of a job, as texts.
pub const VALUES: &str =
    concat!(as_text!("job.result", "NULL"), ", ", as_text!("job.payload", "NULL"));

/// ?1 the calls, each `[what, job, claim, text, milliseconds, chance]`, ?2 the time.
///
/// `retry` and `remove` have no claim: the number in the place of the milliseconds is the queue, and the text
/// of `remove` may be `[state, time]` in JSON: then the job must be in that state, since before that time.
///
/// The delays of a backoff are multiplied one after the other: rqlite has no `pow`, and it might
/// differ between machines.
pub const SETTLE: &str = concat!(
    "INSERT INTO _leafpress_queue_step(kind, op, queue, job, claim, verdict, next, due_at_ms,
         released, error, outcome, attempt_error, result, lease_ms, ordering_group, unique_key,
         unique_scope)
     WITH call AS (
         SELECT key AS op, value->>0 AS what, value->>1 AS job, value->>2 AS claim,
             value->>3 AS words, value->>4 AS ms, value->>5 AS chance
         FROM json_each(?1)),
     judged AS (
         SELECT call.*, job.queue, job.ordering_group, job.unique_key, job.unique_scope,
             job.claims - job.releases AS attempts, min(queue.keep_done_ms, ",
    longest_ms!(),
    ") AS keep_done_ms, min(queue.keep_dead_ms, ",
    longest_ms!(),
    ") AS keep_dead_ms,
             what = 'nack' AND job.claims - job.releases
                 >= coalesce(job.attempts_max, queue.attempts_max) AS is_last,
             what IN ('nack', 'release') AND coalesce(job.expires_at_ms <= ?2, 0) AS is_expired,
             CASE WHEN what = 'nack' THEN coalesce(ms, CAST(round((
                 WITH RECURSIVE delay(attempt, ms) AS (
                     SELECT 1, queue.backoff_first_ms * 1.0
                     UNION ALL
                     SELECT attempt + 1, ms * queue.backoff_factor FROM delay
                     WHERE attempt < job.claims - job.releases AND ms > 0 AND ms < queue.backoff_max_ms)
                 SELECT min(max(ms), queue.backoff_max_ms, ",
    longest_ms!(),
    " / 4) FROM delay) * (1 + queue.backoff_jitter * (2 * chance - 1))) AS INTEGER)) END AS delay_ms,
             CASE
                 WHEN what = 'retry'
                     THEN CASE WHEN job.queue = ms AND job.state = 5 THEN NULL ELSE 'settled' END
                 WHEN what = 'remove'
                     THEN CASE WHEN job.queue = ms AND (words IS NULL OR job.state = words->>0
                         AND coalesce(job.changed_at_ms < words->>1, 1)) THEN NULL ELSE 'settled' END
                 WHEN call.claim < 1 OR call.claim > job.claims OR job.id IS NULL
                     AND call.job NOT BETWEEN 1 AND coalesce((SELECT seq FROM sqlite_sequence
                         WHERE name = 'leafpress_job'), 0) THEN 'never'
                 WHEN job.id IS NULL THEN 'settled'
                 WHEN job.claims = call.claim AND job.state = 1
                     THEN CASE WHEN job.due_at_ms > ?2 THEN NULL ELSE 'expired' END
                 ELSE CASE (SELECT outcome FROM leafpress_attempt AS attempt
                         WHERE attempt.job = call.job AND attempt.claim = call.claim)
                     WHEN 'retried' THEN 'given_back'
                     WHEN 'released' THEN 'given_back'
                     WHEN 'expired' THEN CASE WHEN job.claims > call.claim THEN 'claimed_again'
                         WHEN job.state NOT IN (4, 5) THEN 'expired' ELSE 'settled' END
                     ELSE 'settled' END
             END AS verdict
         FROM call LEFT JOIN leafpress_job AS job ON job.id = call.job
         LEFT JOIN leafpress_queue AS queue ON queue.id = job.queue)
     SELECT 1, op, queue, job, claim, verdict,
         CASE WHEN verdict IS NOT NULL OR what = 'extend' THEN NULL
             WHEN what = 'ack' THEN CASE WHEN keep_done_ms > 0 THEN 4 ELSE -1 END
             WHEN what = 'remove' THEN -1
             WHEN what = 'fail' OR is_last OR is_expired THEN 5
             WHEN ordering_group IS NOT NULL THEN 3
             WHEN what = 'nack' AND delay_ms > 0 THEN 2 ELSE 0 END,
         CASE WHEN what = 'ack' THEN ?2 + keep_done_ms
             WHEN what = 'fail' OR is_last OR is_expired THEN ?2 + keep_dead_ms
             WHEN what = 'nack' THEN ?2 + delay_ms
             WHEN what = 'extend' THEN ?2 + ms ELSE ?2 END,
         CASE what WHEN 'retry' THEN attempts ELSE what = 'release' END,
         CASE WHEN what IN ('ack', 'retry', 'remove') THEN NULL
             WHEN is_last THEN coalesce(words, 'given back after the last attempt')
             WHEN is_expired THEN 'expired' ELSE words END,
         CASE WHEN what IN ('ack', 'extend', 'retry', 'remove') THEN NULL
             WHEN what = 'release' THEN 'released'
             WHEN what = 'fail' OR is_last THEN 'failed' ELSE 'retried' END,
         words,
         CASE WHEN what = 'ack' THEN ",
    payload!("words"),
    " END,
         CASE WHEN what = 'extend' AND verdict IS NULL THEN ms END,
         ordering_group, unique_key, unique_scope
     FROM judged"
);

/// After [`SETTLE`], if there is a `retry`. ?1 the time: an expiry that is over holds no more.
pub const FORGET_EXPIRY: &str = "UPDATE leafpress_job SET expires_at_ms = NULL
     WHERE expires_at_ms <= ?1 AND state = 5 AND id IN (
         SELECT job FROM _leafpress_queue_step WHERE kind = 1 AND next IN (0, 3))";

/// Changes that are due, as many as this of each kind in one group.
macro_rules! due_max {
    () => {
        "256"
    };
}

/// The end of the leases of some jobs, each with its queue. ?2 the time.
macro_rules! lease_ends {
    ($jobs:expr) => {
        concat!(
            "INSERT INTO _leafpress_queue_step(kind, op, queue, job, next, due_at_ms, released,
                 error, outcome, ordering_group, unique_key, unique_scope)
             SELECT 2, (SELECT coalesce(max(op), 0) FROM _leafpress_queue_step WHERE kind = 2)
                     + row_number() OVER (ORDER BY due_at_ms, id), queue, id,
                 CASE WHEN is_last OR is_expired THEN 5 WHEN ordering_group IS NULL THEN 0
                     ELSE 3 END,
                 CASE WHEN is_last OR is_expired THEN ?2 + keep_dead_ms ELSE ?2 END, 0,
                 CASE WHEN is_last THEN 'the lease of the last attempt ended without an answer'
                     WHEN is_expired THEN 'expired' END,
                 'expired', ordering_group, unique_key, unique_scope
             FROM (
                 SELECT job.*, min(queue.keep_dead_ms, ",
            longest_ms!(),
            ") AS keep_dead_ms,
                     job.claims - job.releases >= coalesce(job.attempts_max, queue.attempts_max)
                         AS is_last,
                     coalesce(job.expires_at_ms <= ?2, 0) AS is_expired
                 FROM ",
            $jobs
        )
    };
}
/// The end of some jobs that wait, each with its queue, as they expire. ?2 the time.
macro_rules! expiries {
    ($jobs:expr) => {
        concat!(
            "INSERT INTO _leafpress_queue_step(kind, op, queue, job, next, due_at_ms, released,
                 error, ordering_group, unique_key, unique_scope)
             SELECT 3, job.id, job.queue, job.id, 5, ?2 + min(queue.keep_dead_ms, ",
            longest_ms!(),
            "), 0, 'expired', job.ordering_group, job.unique_key, job.unique_scope
             FROM ",
            $jobs
        )
    };
}

pub const LEASE_ENDS: &str = lease_ends!(concat!(
    "leafpress_job AS job INDEXED BY leafpress_job_leased
     CROSS JOIN leafpress_queue AS queue ON queue.id = job.queue
     WHERE job.queue = ?1 AND job.state = 1 AND job.due_at_ms <= ?2
     ORDER BY job.due_at_ms LIMIT ",
    due_max!(),
    ")"
));
pub const DUE: &str = concat!(
    "UPDATE leafpress_job SET state = 0, changed_at_ms = ?2 WHERE id IN (
         SELECT id FROM leafpress_job INDEXED BY leafpress_job_delayed
         WHERE queue = ?1 AND state = 2 AND due_at_ms <= ?2 ORDER BY due_at_ms LIMIT ",
    due_max!(),
    ")"
);
pub const EXPIRIES: &str = expiries!(concat!(
    "leafpress_job AS job INDEXED BY leafpress_job_expiry
     CROSS JOIN leafpress_queue AS queue ON queue.id = job.queue
     WHERE job.queue = ?1 AND job.expires_at_ms <= ?2 AND job.expires_at_ms IS NOT NULL
         AND job.state IN (0, 2, 3)
     ORDER BY job.expires_at_ms LIMIT ",
    due_max!()
));
/// The jobs that hold some keys, each `[queue, key]`, and have no step that changes them.
macro_rules! holders {
    ($keys:expr) => {
        concat!(
            "json_each(",
            $keys,
            ") AS wanted
             CROSS JOIN leafpress_key AS held ON held.queue = wanted.value->>0
                 AND held.key = wanted.value->>1 AND held.until_ms IS NULL
             CROSS JOIN leafpress_job AS job ON job.id = held.job
             CROSS JOIN leafpress_queue AS queue ON queue.id = job.queue
             WHERE NOT EXISTS (SELECT 1 FROM _leafpress_queue_step AS step
                 WHERE step.job = job.id AND step.next IS NOT NULL)"
        )
    };
}
/// The time of these keys begins anew if its beginning lies in the future, because the clock was set back; their
/// holders end that the next claim would bury. ?2 the time.
macro_rules! ends_of_holders {
    ($keys:expr) => {
        [
            concat!(
                "UPDATE leafpress_key SET until_ms = ?2 + held_ms
                 WHERE until_ms > ?2 + held_ms
                     AND (queue, key) IN (SELECT value->>0, value->>1 FROM json_each(",
                $keys,
                "))"
            ),
            lease_ends!(concat!(
                holders!($keys),
                " AND job.state = 1 AND job.due_at_ms <= ?2) WHERE is_last OR is_expired"
            )),
            expiries!(concat!(
                holders!($keys),
                " AND job.expires_at_ms <= ?2 AND job.state IN (0, 2, 3)"
            )),
        ]
    };
}
/// Before a push with a key. ?1 the keys, each `[queue, key]`, ?2 the time.
pub const OF_KEYS: [&str; STATEMENTS_OF_KEYS] = ends_of_holders!("?1");
/// After [`SETTLE`], if there is a `retry`: as [`OF_KEYS`], of the keys of the dead jobs that are tried again.
/// ?2 the time.
pub const OF_RETRIED: [&str; 3] = ends_of_holders!(
    "(SELECT json_group_array(DISTINCT json_array(dead.queue, dead.unique_key))
         FROM _leafpress_queue_step AS retried
         CROSS JOIN leafpress_job AS dead ON dead.id = retried.job
         WHERE retried.kind = 1 AND retried.next IN (0, 3) AND dead.state = 5
             AND dead.unique_key IS NOT NULL)"
);
macro_rules! kept_long_enough {
    () => {
        concat!(
            "(SELECT id FROM leafpress_job INDEXED BY leafpress_job_purge
             WHERE queue = ?1 AND due_at_ms <= ?2 AND state IN (4, 5)
             ORDER BY due_at_ms LIMIT max(?3, ",
            due_max!(),
            "))"
        )
    };
}
/// After [`APPLY`]. ?3 the jobs that are asked for: else old rows would become more and more, as each claimed job may
/// leave one.
pub const PURGE: [&str; 3] = [
    concat!("DELETE FROM leafpress_attempt WHERE job IN ", kept_long_enough!()),
    concat!("DELETE FROM leafpress_job WHERE id IN ", kept_long_enough!()),
    concat!(
        "DELETE FROM leafpress_key WHERE queue = ?1 AND until_ms <= ?2 AND key IN (
             SELECT key FROM leafpress_key INDEXED BY leafpress_key_until
             WHERE queue = ?1 AND until_ms IS NOT NULL AND until_ms <= ?2 LIMIT max(?3, ",
        due_max!(),
        "))"
    ),
];

/// Keys that the jobs of some steps hold. A job holds its own key alone, so the job decides; queue and key
/// lead to the row.
macro_rules! released {
    ($steps:literal) => {
        concat!(
            "DELETE FROM leafpress_key WHERE ?1 IS NOT NULL
             AND queue IN (SELECT queue FROM _leafpress_queue_step WHERE ",
            $steps,
            ") AND key IN (SELECT unique_key FROM _leafpress_queue_step WHERE ",
            $steps,
            ") AND job IN (SELECT job FROM _leafpress_queue_step WHERE ",
            $steps,
            ")"
        )
    };
}
/// Statements with a parameter: the time. A job may have two steps: its lease ends in the group that removes
/// it. So the last one asks if there is a job that can hold a key.
pub const APPLY: [&str; 7] = [
    "INSERT OR REPLACE INTO leafpress_attempt(job, claim, worker, claimed_at_ms, ended_at_ms,
         outcome, error)
     SELECT job.id, job.claims, job.worker, job.changed_at_ms, ?1, step.outcome, step.attempt_error
     FROM _leafpress_queue_step AS step CROSS JOIN leafpress_job AS job ON job.id = step.job
     WHERE step.outcome IS NOT NULL AND step.next IS NOT NULL",
    "UPDATE leafpress_job SET state = step.next, due_at_ms = step.due_at_ms, changed_at_ms = ?1,
         releases = leafpress_job.releases + step.released,
         error = coalesce(step.error, leafpress_job.error),
         result = CASE step.next WHEN 4 THEN step.result ELSE leafpress_job.result END
     FROM _leafpress_queue_step AS step WHERE leafpress_job.id = step.job AND step.next >= 0",
    "UPDATE leafpress_job SET due_at_ms = step.due_at_ms, lease_ms = step.lease_ms
     FROM _leafpress_queue_step AS step
     WHERE ?1 IS NOT NULL AND leafpress_job.id = step.job AND step.kind = 1
         AND step.lease_ms IS NOT NULL",
    "DELETE FROM leafpress_attempt WHERE ?1 IS NOT NULL AND job IN (
         SELECT job FROM _leafpress_queue_step WHERE next = -1)",
    "DELETE FROM leafpress_job WHERE ?1 IS NOT NULL AND id IN (
         SELECT job FROM _leafpress_queue_step WHERE next = -1)",
    released!("next IN (-1, 4, 5) AND unique_scope IN (0, 1)"),
    "INSERT INTO leafpress_key(queue, key, job, scope)
     SELECT queue, unique_key, job, unique_scope FROM _leafpress_queue_step
     WHERE next IN (0, 2, 3) AND unique_key IS NOT NULL AND unique_scope IN (0, 1)
         AND EXISTS (SELECT 1 FROM leafpress_job WHERE leafpress_job.id = _leafpress_queue_step.job)
     ON CONFLICT(queue, key) DO UPDATE
     SET job = excluded.job, scope = excluded.scope, held_ms = NULL, until_ms = NULL
     WHERE until_ms <= ?1",
];

/// ?1 the places of jobs, each `[queue, group, key, scope, held for]`, ?2 the time. Keys differ. A step has the time
/// for which the key is held in the place of the lease.
pub const PUSHED: &str =
    "INSERT INTO _leafpress_queue_step(kind, op, queue, job, verdict, ordering_group, unique_key,
         unique_scope, lease_ms)
     SELECT 4, op, queue, CASE WHEN holder IS NULL THEN
             (SELECT coalesce(max(seq), 0) FROM sqlite_sequence WHERE name = 'leafpress_job')
             + row_number() OVER (PARTITION BY holder IS NULL ORDER BY op)
             ELSE holder END,
         CASE WHEN holder IS NOT NULL THEN 'held' END, place->>1, place->>2, place->>3, place->>4
     FROM (
         SELECT push.key AS op, queue.id AS queue, held.job AS holder, push.value AS place
         FROM json_each(?1) AS push
         CROSS JOIN leafpress_queue AS queue ON queue.id = push.value->>0
         LEFT JOIN leafpress_key AS held ON held.queue = queue.id AND held.key = push.value->>2
             AND (held.until_ms IS NULL OR held.until_ms > ?2))";
/// After [`PUSHED`]. ?1 the contents of the jobs in their order, each `[payload, priority, due at, due in, attempts,
/// expires at, expires in, correlation id, metadata]`, ?2 the time.
///
/// A job of a group is blocked first; [`FILL`] gives it the place of its turn.
pub const PUSH: &str = concat!(
    "INSERT INTO leafpress_job(id, queue, state, priority, due_at_ms, changed_at_ms,
         pushed_at_ms, claims, releases, attempts_max, expires_at_ms, ordering_group,
         unique_key, unique_scope, unique_until_ms, correlation_id, metadata, payload, lease_ms)
     SELECT step.job, step.queue, CASE WHEN step.ordering_group IS NOT NULL THEN 3
             WHEN coalesce(push.value->>2, ?2 + push.value->>3) > ?2 THEN 2 ELSE 0 END,
         push.value->>1, coalesce(push.value->>2, ?2 + push.value->>3), ?2, ?2, 0, 0,
         push.value->>4, coalesce(push.value->>5, ?2 + push.value->>6), step.ordering_group,
         step.unique_key, step.unique_scope, ?2 + step.lease_ms, push.value->>7,
         push.value->>8, ",
    payload!("push.value->>0"),
    ", queue.lease_ms
     FROM json_each(?1) AS push
     CROSS JOIN _leafpress_queue_step AS step ON step.kind = 4 AND step.op = push.key
     CROSS JOIN leafpress_queue AS queue ON queue.id = step.queue
     WHERE step.verdict IS NULL ORDER BY step.op"
);
/// After [`PUSHED`]. ?1 the time: the new jobs hold their keys.
pub const HOLD_KEYS: &str =
    "INSERT OR REPLACE INTO leafpress_key(queue, key, job, scope, held_ms, until_ms)
     SELECT queue, unique_key, job, unique_scope, lease_ms, ?1 + lease_ms
     FROM _leafpress_queue_step
     WHERE kind = 4 AND verdict IS NULL AND unique_key IS NOT NULL";

/// The first blocked jobs of groups that have free places. The groups are in `touched`. A job that was due when it
/// became blocked still is, even if the clock was set back.
macro_rules! fill {
    ($touched:literal) => {
        concat!(
            "UPDATE leafpress_job
             SET state = CASE WHEN due_at_ms > max(?1, changed_at_ms) THEN 2 ELSE 0 END,
                 changed_at_ms = ?1
             WHERE id IN (
                 WITH RECURSIVE touched(queue, ordering_group) AS MATERIALIZED (",
            $touched,
            "), place(queue, ordering_group, places, id) AS (
                     SELECT touched.queue, touched.ordering_group,
                         queue.group_concurrency - (
                             SELECT count(*) FROM leafpress_job INDEXED BY leafpress_job_open
                             WHERE queue = touched.queue AND state IN (0, 1, 2)
                                 AND ordering_group = touched.ordering_group),
                         (SELECT min(id) FROM leafpress_job INDEXED BY leafpress_job_blocked
                          WHERE queue = touched.queue AND state = 3
                              AND ordering_group = touched.ordering_group)
                     FROM touched CROSS JOIN leafpress_queue AS queue ON queue.id = touched.queue
                     UNION ALL
                     SELECT place.queue, place.ordering_group, place.places - 1,
                         (SELECT min(id) FROM leafpress_job INDEXED BY leafpress_job_blocked
                          WHERE queue = place.queue AND state = 3 AND id > place.id
                              AND ordering_group = place.ordering_group)
                     FROM place WHERE place.places > 1 AND place.id IS NOT NULL)
                 SELECT id FROM place WHERE places > 0 AND id IS NOT NULL)"
        )
    };
}
/// ?1 the time: groups from which a job has gone, or that have one more.
pub const FILL: &str = fill!(
    "SELECT DISTINCT queue, ordering_group FROM _leafpress_queue_step
     WHERE ordering_group IS NOT NULL
         AND (next IN (-1, 3, 4, 5) OR kind = 4 AND verdict IS NULL)"
);
/// ?1 the time, ?2 the queue: all its groups.
pub const FILL_ALL: &str = fill!(
    "SELECT DISTINCT queue, ordering_group FROM leafpress_job INDEXED BY leafpress_job_blocked
     WHERE queue = ?2 AND state = 3"
);

/// ?1 the time, ?2 the queue: the last of those that wait are blocked, where a group has more open jobs than places.
pub const NARROW_ALL: &str = "UPDATE leafpress_job SET state = 3,
         due_at_ms = CASE state WHEN 0 THEN min(due_at_ms, ?1) ELSE due_at_ms END, changed_at_ms = ?1
     WHERE id IN (SELECT id FROM (
         SELECT id, state, row_number() OVER (
             PARTITION BY ordering_group ORDER BY state = 1 DESC, id) AS place
         FROM leafpress_job INDEXED BY leafpress_job_open
         WHERE queue = ?2 AND ordering_group IS NOT NULL AND state IN (0, 1, 2))
         WHERE state != 1
             AND place > (SELECT group_concurrency FROM leafpress_queue WHERE id = ?2))";
/// ?2 the queue: its jobs that are done or dead are kept as long as the settings say now.
pub const KEEP_ANEW: &str = concat!(
    "UPDATE leafpress_job SET due_at_ms = changed_at_ms + (
         SELECT min(CASE state WHEN 4 THEN keep_done_ms ELSE keep_dead_ms END, ",
    longest_ms!(),
    ") FROM leafpress_queue WHERE id = ?2)
     WHERE ?1 IS NOT NULL AND queue = ?2 AND state IN (4, 5)"
);

/// ?1 the queue, ?2 the time, ?3 jobs at most, ?4 the lanes, each `[after rank, to rank, lease,
/// worker]`, ?5 the steps before.
pub const CLAIM: &str = concat!(
    "INSERT INTO _leafpress_queue_step(kind, op, queue, job, claim, lease_ms, worker, unique_key,
         unique_scope)
     SELECT 5, ?5 + rank, ?1, next.id, next.claims + 1,
         min(coalesce(lane.value->>2, queue.lease_ms), ",
    longest_ms!(),
    "), lane.value->>3, next.unique_key, next.unique_scope
     FROM (
         SELECT id, claims, unique_key, unique_scope,
             row_number() OVER (ORDER BY priority DESC, id) AS rank
         FROM (
             SELECT id, claims, unique_key, unique_scope, priority
             FROM leafpress_job INDEXED BY leafpress_job_ready
             WHERE queue = ?1 AND state = 0 AND (expires_at_ms IS NULL OR expires_at_ms > ?2)
             ORDER BY priority DESC, id LIMIT coalesce((
                 SELECT CASE WHEN is_paused THEN 0 WHEN concurrency IS NULL THEN ?3
                     ELSE max(0, min(?3, concurrency - (
                         SELECT count(*) FROM (
                             SELECT 1 FROM leafpress_job INDEXED BY leafpress_job_leased
                             WHERE queue = ?1 AND state = 1
                             LIMIT (SELECT concurrency FROM leafpress_queue WHERE id = ?1))))) END
                 FROM leafpress_queue WHERE id = ?1), 0))) AS next
     CROSS JOIN json_each(?4) AS lane
         ON next.rank > lane.value->>0 AND next.rank <= lane.value->>1
     CROSS JOIN leafpress_queue AS queue ON queue.id = ?1"
);
/// ?1 the time.
pub const CLAIMED: [&str; 2] = [
    released!("kind = 5 AND unique_scope = 0"),
    "UPDATE leafpress_job SET state = 1, due_at_ms = ?1 + step.lease_ms, changed_at_ms = ?1,
         claims = step.claim, worker = step.worker, lease_ms = step.lease_ms
     FROM _leafpress_queue_step AS step
     WHERE step.kind = 5 AND leafpress_job.id = step.job",
];

/// ?1 session, ?2 number. The answer has `[kind, step, job, claim, verdict, next, due at]` of each
/// step that a caller asked for.
pub const ANSWER: [&str; 2] = [
    "UPDATE _leafpress_queue_group SET answer = (
         SELECT json_group_array(json_array(kind, op, job, claim, verdict, next, due_at_ms))
         FROM _leafpress_queue_step WHERE kind IN (1, 4, 5, 6))
     WHERE session = ?1 AND number = ?2",
    "DELETE FROM _leafpress_queue_step WHERE ?1 IS NOT NULL AND ?2 IS NOT NULL",
];

/// ?1 session, ?2 number.
pub const READ_ANSWER: &str =
    "SELECT answer FROM _leafpress_queue_group WHERE session = ?1 AND number = ?2";
/// ?1 session, ?2 number: the jobs that the group has claimed and that still are.
pub const READ_CLAIMED: &str = concat!(
    "SELECT job.id, job.claims, job.releases, coalesce(job.attempts_max, queue.attempts_max),
         job.ordering_group, job.correlation_id, job.metadata, job.priority, job.pushed_at_ms,
         job.due_at_ms, queue.name, ",
    as_text!("job.payload", "'x'"),
    "
     FROM json_each((SELECT answer FROM _leafpress_queue_group
         WHERE session = ?1 AND number = ?2)) AS step
     CROSS JOIN leafpress_job AS job ON job.id = step.value->>2 AND job.claims = step.value->>3
     CROSS JOIN leafpress_queue AS queue ON queue.id = job.queue
     WHERE step.value->>0 = 5 AND job.state = 1"
);

/// ?1 the queue: whether a claim may find a job, by the clock of the leader. A job that is ready is none while as
/// many are leased as may be.
pub const MAY_HAVE_JOBS: &str =
    "SELECT EXISTS (SELECT 1 FROM leafpress_queue WHERE id = ?1 AND NOT is_paused) AND (
         EXISTS (SELECT 1 FROM leafpress_job INDEXED BY leafpress_job_ready
             WHERE queue = ?1 AND state = 0 AND (SELECT concurrency IS NULL OR concurrency > (
                 SELECT count(*) FROM (
                     SELECT 1 FROM leafpress_job INDEXED BY leafpress_job_leased
                     WHERE queue = ?1 AND state = 1
                     LIMIT (SELECT concurrency FROM leafpress_queue WHERE id = ?1)))
                 FROM leafpress_queue WHERE id = ?1))
         OR EXISTS (SELECT 1 FROM leafpress_job INDEXED BY leafpress_job_leased
             WHERE queue = ?1 AND state = 1 AND due_at_ms <= unixepoch('subsec') * 1000)
         OR EXISTS (SELECT 1 FROM leafpress_job INDEXED BY leafpress_job_delayed
             WHERE queue = ?1 AND state = 2 AND due_at_ms <= unixepoch('subsec') * 1000)
         OR EXISTS (SELECT 1 FROM leafpress_job INDEXED BY leafpress_job_expiry
             WHERE queue = ?1 AND expires_at_ms <= unixepoch('subsec') * 1000
                 AND expires_at_ms IS NOT NULL AND state IN (0, 2, 3)))";

#[cfg(test)]
mod tests {
    use leafpress::queue::JobState;

    #[test]
    fn states_have_the_numbers_of_the_table() {
        let states = [
            JobState::Ready,
            JobState::Leased,
            JobState::Delayed,
            JobState::Blocked,
            JobState::Done,
            JobState::Dead,
        ];
        assert_eq!(states.map(JobState::number), [0, 1, 2, 3, 4, 5]);
    }
}
