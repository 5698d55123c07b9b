//! The queue's tables, their version, and the way from one version to the next.
//!
//! Times are milliseconds since the Unix epoch. States and scopes are numbers,
//! and the view `leafpress_jobs` has words for them. `docs/queue.md` describes
//! each column.
//!
//! 1. A database has all steps up to its version, and nothing of a later one.
//! 2. A database of a version that this code does not know is left alone.
//!
//! Must never: change a step that was released; a new version is a new step.

use rusqlite::{Connection, OptionalExtension};

use crate::error::{Error, ErrorKind, Result};
use crate::vfs::database_file;

/// Steps from each version of the tables to the next; version 0 has no tables.
pub(super) const STEPS: [&str; 1] = [VERSION_1];

/// The answer for a table of versions that is not ours.
const OF_OTHERS: usize = usize::MAX;

/// Name of the queue's tables among those of other parts.
const PART: &str = "queue";

/// Name of the row that has the latest time that was stored, and no version.
pub(super) const LATEST_TIME: &str = "queue: latest time in milliseconds";

const VERSION_1: &str = "
CREATE TABLE leafpress_queue(
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    name TEXT NOT NULL UNIQUE,
    is_paused INTEGER NOT NULL DEFAULT 0,
    lease_ms INTEGER NOT NULL DEFAULT 30000,
    attempts_max INTEGER NOT NULL DEFAULT 5,
    backoff_first_ms INTEGER NOT NULL DEFAULT 1000,
    backoff_factor REAL NOT NULL DEFAULT 2,
    backoff_max_ms INTEGER NOT NULL DEFAULT 3600000,
    backoff_jitter REAL NOT NULL DEFAULT 0.2,
    keep_done_ms INTEGER NOT NULL DEFAULT 0,
    keep_dead_ms INTEGER,
    concurrency INTEGER,
    group_concurrency INTEGER NOT NULL DEFAULT 1,
    rate_jobs INTEGER,
    rate_per_ms INTEGER,
    group_rate_jobs INTEGER,
    group_rate_per_ms INTEGER
);
CREATE TABLE leafpress_job(
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    queue INTEGER NOT NULL,
    state INTEGER NOT NULL,
    priority INTEGER NOT NULL,
    due_at_ms INTEGER,
    lease_ms INTEGER,
    changed_at_ms INTEGER NOT NULL,
    pushed_at_ms INTEGER NOT NULL,
    claims INTEGER NOT NULL,
    releases INTEGER NOT NULL,
    attempts_max INTEGER,
    expires_at_ms INTEGER,
    ordering_group TEXT,
    unique_key TEXT,
    unique_scope INTEGER,
    unique_until_ms INTEGER,
    correlation_id TEXT,
    metadata TEXT,
    worker TEXT,
    error TEXT,
    result,
    payload
);
CREATE INDEX leafpress_job_ready ON leafpress_job(queue, priority DESC, id) WHERE state = 0;
CREATE INDEX leafpress_job_leased ON leafpress_job(queue, due_at_ms) WHERE state = 1;
CREATE INDEX leafpress_job_delayed ON leafpress_job(queue, due_at_ms) WHERE state = 2;
CREATE INDEX leafpress_job_blocked ON leafpress_job(queue, ordering_group, id) WHERE state = 3;
CREATE INDEX leafpress_job_open ON leafpress_job(queue, ordering_group)
    WHERE ordering_group IS NOT NULL AND state IN (0, 1, 2);
CREATE INDEX leafpress_job_expiry ON leafpress_job(queue, expires_at_ms)
    WHERE expires_at_ms IS NOT NULL AND state IN (0, 2, 3);
CREATE INDEX leafpress_job_ended ON leafpress_job(queue, state, id) WHERE state IN (4, 5);
CREATE INDEX leafpress_job_purge ON leafpress_job(queue, due_at_ms) WHERE state IN (4, 5);
CREATE TABLE leafpress_key(
    queue INTEGER NOT NULL,
    key TEXT NOT NULL,
    job INTEGER NOT NULL,
    scope INTEGER NOT NULL,
    held_ms INTEGER,
    until_ms INTEGER,
    PRIMARY KEY(queue, key)
) WITHOUT ROWID;
CREATE INDEX leafpress_key_until ON leafpress_key(queue, until_ms) WHERE until_ms IS NOT NULL;
CREATE TABLE leafpress_attempt(
    job INTEGER NOT NULL,
    claim INTEGER NOT NULL,
    worker TEXT,
    claimed_at_ms INTEGER NOT NULL,
    ended_at_ms INTEGER NOT NULL,
    outcome TEXT NOT NULL,
    error TEXT,
    PRIMARY KEY(job, claim)
) WITHOUT ROWID;
CREATE TABLE leafpress_rate(
    queue INTEGER NOT NULL,
    ordering_group TEXT NOT NULL,
    full_at_us INTEGER NOT NULL,
    PRIMARY KEY(queue, ordering_group)
) WITHOUT ROWID;
CREATE INDEX leafpress_rate_full ON leafpress_rate(queue, full_at_us);
CREATE TABLE leafpress_schedule(
    id INTEGER PRIMARY KEY,
    queue INTEGER NOT NULL,
    name TEXT NOT NULL,
    cron TEXT NOT NULL,
    timezone TEXT NOT NULL,
    missed TEXT NOT NULL,
    next_at_ms INTEGER,
    last_at_ms INTEGER,
    disabled_because TEXT,
    priority INTEGER NOT NULL,
    expires_after_ms INTEGER,
    attempts_max INTEGER,
    ordering_group TEXT,
    unique_key TEXT,
    unique_scope INTEGER,
    unique_for_ms INTEGER,
    correlation_id TEXT,
    metadata TEXT,
    payload,
    UNIQUE(queue, name)
);
CREATE INDEX leafpress_schedule_next ON leafpress_schedule(queue, next_at_ms)
    WHERE next_at_ms IS NOT NULL;
CREATE TABLE leafpress_minute(
    queue INTEGER NOT NULL,
    minute INTEGER NOT NULL,
    counts TEXT NOT NULL,
    PRIMARY KEY(queue, minute)
) WITHOUT ROWID;
CREATE VIEW leafpress_jobs AS
SELECT job.id, queue.name AS queue,
    CASE job.state WHEN 0 THEN 'ready' WHEN 1 THEN 'leased' WHEN 2 THEN 'delayed'
        WHEN 3 THEN 'blocked' WHEN 4 THEN 'done' WHEN 5 THEN 'dead' END AS state,
    job.priority,
    strftime('%Y-%m-%dT%H:%M:%fZ', job.pushed_at_ms / 1000.0, 'unixepoch') AS pushed_at,
    strftime('%Y-%m-%dT%H:%M:%fZ', job.due_at_ms / 1000.0, 'unixepoch') AS due_at,
    strftime('%Y-%m-%dT%H:%M:%fZ', job.changed_at_ms / 1000.0, 'unixepoch') AS changed_at,
    job.claims - job.releases AS attempts,
    coalesce(job.attempts_max, queue.attempts_max) AS attempts_max,
    strftime('%Y-%m-%dT%H:%M:%fZ', job.expires_at_ms / 1000.0, 'unixepoch') AS expires_at,
    job.ordering_group, job.unique_key, job.correlation_id, job.metadata, job.worker, job.error,
    job.result, job.payload
FROM leafpress_job AS job LEFT JOIN leafpress_queue AS queue ON queue.id = job.queue;
";

/// Makes the tables, or brings them to this version.
///
/// # Errors
/// If a later version of leafpress made them, or SQLite refuses.
pub(super) fn bring_up(connection: &Connection) -> Result<()> {
    bring_up_by(connection, &STEPS)
}

fn bring_up_by(connection: &Connection, steps: &[&str]) -> Result<()> {
    let version = version(connection)?;
    let known = steps.len();
    if version > known {
        return Err(too_new(version, known));
    }
    if version == known {
        return Ok(());
    }
    for step in &steps[version..] {
        refuse_others(connection, step)?;
    }
    let make = |sql: &str| {
        connection
            .execute_batch(sql)
            .map_err(|source| Error::sqlite("make the queue's tables", source))
    };
    make(
        "CREATE TABLE IF NOT EXISTS leafpress_schema(
             part TEXT NOT NULL PRIMARY KEY, version INTEGER NOT NULL) WITHOUT ROWID",
    )?;
    for step in &steps[version..] {
        make(step)?;
    }
    connection
        .execute("INSERT OR REPLACE INTO leafpress_schema VALUES (?1, ?2)", (PART, known as i64))
        .map_err(|source| Error::sqlite("note the version of the queue's tables", source))?;
    Ok(())
}

fn too_new(version: usize, known: usize) -> Error {
    Error::unsupported(format!(
        "the queue's tables are of version {version}, and this leafpress knows version {known}"
    ))
    .on_disk("nothing was changed")
    .to_do("use the leafpress that made them, or a later one")
}

/// Refuses tables that this code cannot read, without a change to them.
///
/// # Errors
/// If they are of an earlier or a later version; none at all are fine.
pub(super) fn refuse_unless_known(connection: &Connection) -> Result<()> {
    match version(connection)? {
        0 => Ok(()),
        version if version == STEPS.len() => Ok(()),
        version if version > STEPS.len() => Err(too_new(version, STEPS.len())),
        version => Err(Error::unsupported(format!(
            "the queue's tables are of version {version}, and are brought to version {} first",
            STEPS.len()
        ))
        .on_disk("nothing was changed")
        .to_do("open the queue once where the database can be written")),
    }
}

/// Refuses a database in which something that is none of the queue's has one of the names
/// that a step makes.
fn refuse_others(connection: &Connection, step: &str) -> Result<()> {
    let names = step.lines().filter_map(|line| {
        let rest = line.strip_prefix("CREATE ")?;
        let rest = rest.strip_prefix("UNIQUE ").unwrap_or(rest);
        let (_kind, rest) = rest.split_once(' ')?;
        rest.split([' ', '(']).next()
    });
    for name in names {
        let sql = "SELECT type FROM sqlite_schema WHERE name = ?1 COLLATE NOCASE";
        let found = connection.query_row(sql, [name], |row| row.get::<_, String>(0)).optional();
        let found = found.map_err(|source| Error::sqlite("look for the queue's tables", source))?;
        if let Some(kind) = found {
            return Err(taken(connection, &kind, name));
        }
    }
    Ok(())
}

fn taken(connection: &Connection, kind: &str, name: &str) -> Error {
    let path = database_file::path(connection).unwrap_or_default();
    let reason = format!("has a {kind} {name} that is not the queue's, which needs that name");
    Error::from(ErrorKind::Destination { path, reason })
        .on_disk("nothing was changed")
        .to_do(format!("rename that {kind}, or keep the queue in another database"))
}

/// The version of the tables; 0 if there are none.
pub(super) fn version(connection: &Connection) -> Result<usize> {
    let read = || {
        let there = connection.query_row(
            "SELECT EXISTS (SELECT 1 FROM sqlite_schema WHERE name = 'leafpress_schema')",
            [],
            |row| row.get::<_, bool>(0),
        )?;
        if !there {
            return Ok(0);
        }
        let columns = "SELECT count(*) FROM pragma_table_info('leafpress_schema')
                       WHERE name IN ('part', 'version')";
        if connection.query_row(columns, [], |row| row.get::<_, i64>(0))? != 2 {
            return Ok(OF_OTHERS);
        }
        connection
            .query_row("SELECT version FROM leafpress_schema WHERE part = ?1", [PART], |row| {
                row.get::<_, u32>(0)
            })
            .optional()
            .map(|version| version.unwrap_or_default() as usize)
    };
    match read() {
        Ok(OF_OTHERS) => Err(taken(connection, "table", "leafpress_schema")),
        Ok(version) => Ok(version),
        Err(source) => Err(Error::sqlite("read the version of the queue's tables", source)),
    }
}

#[cfg(test)]
mod tests {
    use super::super::job::JobState;
    use super::*;

    #[test]
    fn steps_follow_one_another_and_unknown_ones_are_left_alone() {
        let connection = Connection::open_in_memory().expect("a database");
        assert_eq!(version(&connection).expect("a version"), 0);
        bring_up(&connection).expect("new tables");
        bring_up(&connection).expect("they are there");
        connection
            .execute_batch(
                "INSERT INTO leafpress_job(queue, state, priority, changed_at_ms, pushed_at_ms,
                     claims, releases, payload) VALUES (1, 0, 0, 0, 0, 0, 0, 'kept')",
            )
            .expect("a job of version 1");
        let later = [VERSION_1, "ALTER TABLE leafpress_job ADD COLUMN more TEXT DEFAULT 'new'"];
        bring_up_by(&connection, &later).expect("one step more");
        let read = |sql: &str| -> String {
            connection.query_row(sql, [], |row| row.get(0)).expect("a value")
        };
        assert_eq!(read("SELECT payload || ' ' || more FROM leafpress_job"), "kept new");
        assert_eq!(version(&connection).expect("a version"), 2);
        let error = bring_up(&connection).expect_err("it is too new").to_string();
        assert!(error.contains("version 2") && error.contains("to do"), "{error}");
    }

    #[test]
    fn tables_of_others_are_named_and_left_alone() {
        for (sql, kind, name) in [
            ("CREATE TABLE leafpress_job(a)", "table", "leafpress_job"),
            ("CREATE TABLE LeafPress_Minute(a)", "table", "leafpress_minute"),
            ("CREATE VIEW leafpress_jobs AS SELECT 1", "view", "leafpress_jobs"),
            ("CREATE TABLE t(a); CREATE INDEX leafpress_schedule_next ON t(a)", "index", {
                "leafpress_schedule_next"
            }),
            ("CREATE TABLE leafpress_schema(a)", "table", "leafpress_schema"),
        ] {
            let connection = Connection::open_in_memory().expect("a database");
            connection.execute_batch(sql).expect("something of others");
            let error = bring_up(&connection).expect_err("the name is taken").to_string();
            assert!(error.contains(&format!("has a {kind} {name} that is not")), "{error}");
            assert!(error.lines().count() == 3, "{error}");
            let count = "SELECT count(*) FROM sqlite_schema WHERE name LIKE 'leafpress%'";
            let names: i64 = connection.query_row(count, [], |row| row.get(0)).expect("a count");
            assert_eq!(names, 1, "nothing was made");
        }
    }

    #[test]
    fn the_view_has_words_for_the_numbers_of_states() {
        let connection = Connection::open_in_memory().expect("a database");
        bring_up(&connection).expect("new tables");
        connection
            .execute_batch("INSERT INTO leafpress_queue(name) VALUES ('mail')")
            .expect("a queue");
        let in_sql = [
            state!(Ready),
            state!(Leased),
            state!(Delayed),
            state!(Blocked),
            state!(Done),
            state!(Dead),
        ];
        for (state, number) in JobState::ALL.into_iter().zip(in_sql) {
            assert_eq!(state.number().to_string(), number);
            connection
                .execute(
                    "INSERT INTO leafpress_job(id, queue, state, priority, due_at_ms,
                         changed_at_ms, pushed_at_ms, claims, releases)
                     VALUES (?1, 1, ?1, 0, NULL, 0, 1500, 3, 1)",
                    [state.number()],
                )
                .expect("a job");
            let row: (String, String, String, i64, i64) = connection
                .query_row(
                    "SELECT queue, state, pushed_at, attempts, attempts_max FROM leafpress_jobs
                     WHERE id = ?1",
                    [state.number()],
                    |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?, row.get(4)?)),
                )
                .expect("a row");
            let time = "1970-01-01T00:00:01.500Z".to_owned();
            assert_eq!(row, ("mail".to_owned(), state.name().to_owned(), time, 2, 5));
        }
    }

    /// The text of a partial index is the condition of the queries that name it.
    #[test]
    fn the_conditions_of_indexes_are_those_of_queries() {
        for (index, condition) in
            [("open", state!(open)), ("expiry", state!(waiting)), ("ended", state!(ended))]
        {
            let start = VERSION_1.find(&format!("leafpress_job_{index} ON")).expect("an index");
            let text = VERSION_1[start..].split(';').next().unwrap_or_default();
            assert!(text.ends_with(condition), "{text}");
        }
    }
}
