//! The speed of long queues: the plans of the statements, and the work of SQLite for
//! one cycle of a job, counted and not timed.
//!
//! 1. Every statement searches an index, and none reads a table. None sorts, but
//!    for lists that people ask for.
//! 2. A claim takes as many steps of SQLite's virtual machine with 100,000 jobs
//!    waiting as with 100, with leased, delayed, blocked and dead ones beside.
//!
//! The statements are asked of the queue, so that one more is checked by itself.

use leafpress::Profile;
use leafpress::queue::{Queue, statements};
use leafpress::writer::Writer;
use rusqlite::{Connection, StatementStatus, ToSql, params};
use tempfile::TempDir;

/// A moment, in milliseconds; what the tables hold is around it.
const NOW_MS: i64 = 1_000_000;
const BESIDES: i64 = 10_000;
const QUEUE: i64 = 1;

struct Filled {
    connection: Connection,
    _folder: TempDir,
}

/// A queue with so many jobs ready, and 10,000 of each other kind, none of
/// which is due.
fn filled(ready: i64) -> Filled {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("a.db");
    let writer = Writer::builder(&path).profile(Profile::Relaxed).open().expect("a writer");
    Queue::open(&writer, "long").expect("a queue");
    writer.close().expect("it is empty");
    let connection = Connection::open(&path).expect("a connection");
    let begin = "PRAGMA synchronous = OFF; BEGIN";
    connection.execute_batch(begin).expect("no other connection is there");
    let kinds: [(i64, i64, Option<i64>, Option<&str>); 6] = [
        (0, ready, Some(NOW_MS - 10), None),
        (1, BESIDES, Some(NOW_MS + 30_000), None),
        (2, BESIDES, Some(NOW_MS + 60_000), None),
        (3, BESIDES, Some(NOW_MS - 10), Some("a group")),
        (4, BESIDES, Some(NOW_MS + 90_000), None),
        (5, BESIDES, None, None),
    ];
    for (state, jobs, due_at_ms, group) in kinds {
        connection
            .execute(
                "WITH RECURSIVE number(n) AS
                     (SELECT 1 UNION ALL SELECT n + 1 FROM number WHERE n < ?1)
                 INSERT INTO leafpress_job(queue, state, priority, due_at_ms, changed_at_ms,
                     pushed_at_ms, claims, releases, expires_at_ms, ordering_group, payload)
                 SELECT ?2, ?3, n % 7, ?4, ?5, ?5, ?3 = 1, 0,
                     iif(?3 IN (0, 2, 3), ?5 + 3600000, NULL), ?6, x'00' FROM number",
                params![jobs, QUEUE, state, due_at_ms, NOW_MS, group],
            )
            .expect("the schema is documented");
    }
    let keys = "INSERT INTO leafpress_key(queue, key, job, scope, until_ms)
        SELECT queue, id, id, 2, ?1 + 3600000 FROM leafpress_job LIMIT 10000";
    connection.execute(keys, [NOW_MS]).expect("keys");
    connection.execute_batch("COMMIT").expect("a commit");
    Filled { connection, _folder: folder }
}

fn statement(name: &str) -> &'static str {
    let all = statements();
    let found = all.iter().find(|(of, _)| *of == name);
    found.unwrap_or_else(|| panic!("the queue has no statement '{name}'")).1
}

fn plan(connection: &Connection, sql: &str) -> Vec<String> {
    let mut statement = connection
        .prepare(&format!("EXPLAIN QUERY PLAN {sql}"))
        .unwrap_or_else(|error| panic!("{error}: {sql}"));
    for parameter in 1..=statement.parameter_count() {
        statement.raw_bind_parameter(parameter, 1).expect("any value");
    }
    let mut rows = statement.raw_query();
    let mut plan = Vec::new();
    while let Some(row) = rows.next().expect("a plan") {
        plan.push(row.get(3).expect("what is done"));
    }
    plan
}

/// What is wrong with a step of a statement's plan. A scan of what a subquery or the
/// statement's own WITH has found is no scan of a table.
fn fault(sql: &str, step: &str) -> Option<&'static str> {
    let is_its_own = |from: &str| {
        from.starts_with('(')
            || from == "CONSTANT ROW"
            || sql.contains(&format!("WITH RECURSIVE {from}("))
    };
    if step.strip_prefix("SCAN ").is_some_and(|from| !is_its_own(from)) {
        return Some("reads a whole table or index");
    }
    if step.contains("TEMP B-TREE") {
        return Some("sorts");
    }
    step.contains("AUTOMATIC").then_some("makes an index for itself")
}

#[test]
fn every_statement_searches_an_index_and_none_reads_a_table() {
    let filled = filled(100);
    let statements = statements();
    assert!(statements.len() > 20, "{statements:?}");
    let mut faults = Vec::new();
    for (name, sql) in statements {
        let plan = plan(&filled.connection, sql);
        let found = plan.iter().filter_map(|step| Some((step, fault(sql, step)?)));
        // Lists that people ask for are sorted where no index has their order.
        let may_sort = name.starts_with("sort ");
        let found = found.filter(|(_, fault)| !(may_sort && *fault == "sorts"));
        faults.extend(found.map(|(step, fault)| format!("{name} {fault}: {step}\n{sql}")));
        let searches = plan.iter().any(|step| step.starts_with("SEARCH"));
        let is_plain_insert = sql.starts_with("INSERT") && sql.contains("VALUES");
        if !(searches || is_plain_insert) {
            faults.push(format!("{name} searches nothing: {plan:?}\n{sql}"));
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n\n"));
}

#[test]
fn the_faults_are_found_where_there_are_some() {
    let filled = filled(1);
    let with =
        |sql: &str| plan(&filled.connection, sql).iter().any(|step| fault(sql, step).is_some());
    assert!(with("SELECT id FROM leafpress_job WHERE worker = ?1"));
    assert!(with("SELECT count(*) FROM leafpress_job AS job"));
    assert!(with("SELECT id FROM leafpress_job WHERE queue = 1 AND state = 0 ORDER BY id"));
    assert!(!with("SELECT id FROM leafpress_job WHERE id = ?1"));
}

/// Steps of SQLite's virtual machine that one statement takes.
fn steps(connection: &Connection, name: &str, parameters: &[&dyn ToSql]) -> i32 {
    let mut statement = connection.prepare(statement(name)).expect("the queue's own SQL");
    let mut rows = statement.query(parameters).expect("it runs");
    while rows.next().expect("a row").is_some() {}
    drop(rows);
    statement.get_status(StatementStatus::VmStep)
}

/// Steps of a claim, with all that it looks at before, and of the ack.
fn steps_of_a_cycle(connection: &Connection) -> Vec<(&'static str, i32)> {
    let limit = 256;
    let next = connection
        .query_row(statement("the next jobs"), params![QUEUE, 1], |row| row.get::<_, i64>(0))
        .expect("a job");
    let due: [&dyn ToSql; 3] = [&QUEUE, &NOW_MS, &limit];
    let (until_ms, no_worker) = (NOW_MS + 30_000, None::<String>);
    let lease: [&dyn ToSql; 5] = [&next, &until_ms, &NOW_MS, &no_worker, &30_000];
    let parts: [(&'static str, &[&dyn ToSql]); 13] = [
        ("read the queue's settings", &[&QUEUE]),
        ("leases that ended", &due),
        ("delays that are over", &due),
        ("jobs that expired", &due),
        ("jobs that were kept long enough", &due),
        ("purge keys", &due),
        ("count leases", &[&QUEUE, &64]),
        ("the next jobs", &[&QUEUE, &1]),
        ("lease a job", &lease),
        ("the first lease to end", &[&QUEUE]),
        ("the first delay to be over", &[&QUEUE]),
        ("find a job", &[&next]),
        ("delete a job", &[&next]),
    ];
    parts.iter().map(|(name, parameters)| (*name, steps(connection, name, parameters))).collect()
}

#[test]
fn a_claim_takes_as_many_steps_with_a_thousand_times_the_jobs() {
    let few = steps_of_a_cycle(&filled(100).connection);
    let many = steps_of_a_cycle(&filled(100_000).connection);
    assert_eq!(few, many);
    for (name, steps) in few {
        // Counting leases goes up to the limit that it was given.
        let most = if name == "count leases" { 64 * 10 } else { 200 };
        assert!((1..most).contains(&steps), "{name}: {steps} steps");
    }
}
