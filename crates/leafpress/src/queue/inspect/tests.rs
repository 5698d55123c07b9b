//! Lists against a plain query, and what is told of jobs.

use std::time::Duration;

use proptest::prelude::*;
use rusqlite::Connection;

use super::super::tests::{bench, bench_with};
use super::*;
use crate::Profile;
use crate::queue::{ClaimOptions, Job, Nack, UniqueFor};

#[test]
fn a_job_tells_all_that_is_known_of_it() {
    let bench = bench_with(|settings| settings.keep_done = Duration::from_secs(9));
    let job = Job::json(&[1, 2])
        .and_then(|job| job.metadata_json("{}"))
        .expect("a job")
        .priority(-3)
        .group("g")
        .unique("k", UniqueFor::Time(Duration::from_secs(7)))
        .attempts_max(2)
        .expires_in(Duration::from_secs(8))
        .correlation_id("c");
    let id = bench.push(job);
    let info = || bench.queue.job(id).expect("no error").expect("a job");
    let pushed = info();
    assert_eq!(
        (
            pushed.state,
            pushed.due_at.map(UnixTime::as_ms),
            pushed.priority,
            pushed.claims,
            pushed.attempts_max
        ),
        (JobState::Ready, Some(1_000_000), -3, 0, 2)
    );
    assert_eq!(
        (pushed.unique_for, pushed.unique_until.map(UnixTime::as_ms)),
        (Some("time"), Some(1_007_000))
    );
    assert_eq!(pushed.expires_at.map(UnixTime::as_ms), Some(1_008_000));
    assert_eq!(pushed.payload, Some(Payload::Json("[1,2]".to_owned())));
    let texts = [&pushed.group, &pushed.unique_key, &pushed.correlation_id, &pushed.metadata];
    assert_eq!(texts.map(|text| text.as_deref().unwrap_or("")), ["g", "k", "c", "{}"]);

    bench.clock.advance_ms(10);
    let claims = bench.queue.claim_with(&ClaimOptions::new().worker("w")).expect("a claim");
    let leased = info();
    assert_eq!((leased.state, leased.token), (JobState::Leased, Some(claims[0].token)));
    assert_eq!(
        (leased.lease_until.map(UnixTime::as_ms), leased.due_at.map(UnixTime::as_ms)),
        (Some(1_030_010), None)
    );
    assert_eq!((leased.attempts, leased.worker.as_deref()), (1, Some("w")));
    bench.queue.ack_with(claims[0].token, "out").expect("it is ours");
    let done = info();
    assert_eq!(
        (done.state, done.kept_until.map(UnixTime::as_ms)),
        (JobState::Done, Some(1_009_010))
    );
    assert_eq!((done.token, done.result), (None, Some(Payload::bytes("out"))));
    assert_eq!(bench.queue.job(id + 1).expect("no error"), None);
    let json = serde_json::to_value(info()).expect("JSON");
    assert_eq!((&json["state"], &json["group"]), (&"done".into(), &"g".into()));
}

#[test]
fn the_history_tells_how_each_attempt_ended() {
    let bench = bench_with(|settings| settings.keep_done = Duration::from_secs(9));
    let id = bench.push(Job::bytes("x"));
    let outcomes = || -> Vec<(u32, AttemptOutcome)> {
        let history = bench.queue.history(id).expect("attempts");
        history.iter().map(|attempt| (attempt.claim, attempt.outcome)).collect()
    };
    assert_eq!(outcomes(), []);
    bench.queue.release(bench.claim().token).expect("it is ours");
    let nack = Nack::new().error("no").delay(Duration::from_millis(1));
    bench.queue.nack(bench.claim().token, nack).expect("it is ours");
    bench.clock.advance_ms(1);
    bench.claim();
    bench.clock.advance_ms(30_000);
    let token = bench.claim().token;
    let ended =
        [(1, AttemptOutcome::Released), (2, AttemptOutcome::Retried), (3, AttemptOutcome::Expired)];
    assert_eq!(outcomes(), [ended.as_slice(), &[(4, AttemptOutcome::Running)]].concat());
    bench.queue.ack(token).expect("it is ours");
    assert_eq!(outcomes(), [ended.as_slice(), &[(4, AttemptOutcome::Acked)]].concat());
    let second = &bench.queue.history(id).expect("attempts")[1];
    assert_eq!(
        (second.claimed_at.map(UnixTime::as_ms), second.error.as_deref()),
        (Some(1_000_000), Some("no"))
    );
    bench.clock.advance_ms(9_000);
    bench.nothing();
    assert_eq!(outcomes(), [], "it is gone");
}

#[test]
fn a_list_is_read_in_pages() {
    let bench = bench();
    let ids: Vec<i64> = (0..7).map(|_| bench.push(Job::bytes("x"))).collect();
    let page = |options: ListOptions| -> Vec<i64> {
        bench.queue.list(&options.limit(3)).expect("a page").iter().map(|job| job.id).collect()
    };
    assert_eq!(page(ListOptions::new()), ids[..3]);
    assert_eq!(page(ListOptions::new().after_id(ids[2])), ids[3..6]);
    assert_eq!(page(ListOptions::new().after_id(ids[5])), ids[6..]);
    assert_eq!(page(ListOptions::new().newest_first(true).after_id(ids[1])), ids[..1]);
    assert!(page(ListOptions::new().states([JobState::Dead])).is_empty());
    let shown = |with| {
        let jobs = bench.queue.list(&ListOptions::new().with_payload(with)).expect("a page");
        jobs.iter().filter(|job| job.payload.is_some()).count()
    };
    assert_eq!((shown(false), shown(true)), (0, 7));
}

#[test]
fn a_writer_that_is_alone_reads_by_itself() {
    let folder = tempfile::tempdir().expect("a folder");
    let builder = Writer::builder(folder.path().join("jobs.db")).profile(Profile::Rollback);
    let writer = builder.locking(Locking::Exclusive).open().expect("a writer");
    assert_eq!(names(&writer).expect("names"), Vec::<String>::new());
    let queue = Queue::open(&writer, "mail").expect("a queue");
    let id = queue.push("x").expect("pushed").id;
    assert_eq!(queue.list(&ListOptions::new()).expect("a page")[0].id, id);
    assert!(queue.job(id).expect("no error").is_some());
    assert_eq!(queue.stats().expect("stats").totals.pushed, 1);
    assert_eq!(names(&writer).expect("names"), ["mail"]);
}

/// No statement looks at all jobs, and only those that say so sort.
#[test]
fn each_statement_finds_its_jobs_by_an_index() {
    let connection = Connection::open_in_memory().expect("a database");
    schema::bring_up(&connection).expect("the tables");
    let mut all = statements();
    all.extend(super::super::admin::STATEMENTS);
    all.extend(super::super::stats::statements());
    for (name, sql) in all {
        let mut statement =
            connection.prepare(&format!("EXPLAIN QUERY PLAN {sql}")).expect("a statement");
        let unbound = vec![rusqlite::types::Null; statement.parameter_count()];
        let rows = statement.query_map(rusqlite::params_from_iter(unbound), |row| row.get(3));
        let plan: Vec<String> = rows.and_then(Iterator::collect).expect("a plan");
        for step in &plan {
            assert!(
                !step.contains("SCAN leafpress") && !step.contains("SCAN job"),
                "{name}: {plan:#?}"
            );
            let may_sort = name.starts_with("sort ") || name == "count blocked groups";
            assert!(may_sort || !step.contains("TEMP B-TREE"), "{name}: {plan:#?}");
        }
        if name.starts_with("sort ") || name.starts_with("count ") && name.ends_with("jobs") {
            assert!(!reads_rows(&connection, sql), "{name} reads rows");
        }
    }
    assert!(reads_rows(&connection, "SELECT error FROM leafpress_job"), "it would be seen");
}

/// Returns true if the program of this statement reads a column of the table itself.
fn reads_rows(connection: &Connection, sql: &str) -> bool {
    let root = "SELECT rootpage FROM sqlite_schema WHERE name = 'leafpress_job'";
    let root: i64 = connection.query_row(root, [], |row| row.get(0)).expect("a page");
    let mut statement = connection.prepare(&format!("EXPLAIN {sql}")).expect("a statement");
    let unbound = vec![rusqlite::types::Null; statement.parameter_count()];
    let rows = statement.query_map(rusqlite::params_from_iter(unbound), |row| {
        Ok((row.get(1)?, row.get(2)?, row.get(3)?))
    });
    let program: Vec<(String, i64, i64)> = rows.and_then(Iterator::collect).expect("a program");
    let is_table = |cursor: i64| {
        program.iter().any(|(code, at, page)| code == "OpenRead" && *at == cursor && *page == root)
    };
    program.iter().any(|(code, cursor, _)| code == "Column" && is_table(*cursor))
}

#[derive(Debug, Clone)]
struct Made {
    queue: i64,
    state: i64,
    priority: i64,
    due_at_ms: i64,
    group: Option<u8>,
}

fn made() -> impl Strategy<Value = Made> {
    (1..3_i64, 0..6_i64, -60..60_i64, 0..9_i64, prop::option::of(0..3_u8)).prop_map(
        |(queue, state, priority, due_at_ms, group)| {
            // Blocked jobs are those of groups.
            let group = if state == 3 { group.or(Some(0)) } else { group };
            Made { queue, state, priority, due_at_ms, group }
        },
    )
}

fn insert(connection: &Connection, jobs: &[Made]) {
    let mut statement = connection
        .prepare(
            "INSERT INTO leafpress_job(queue, state, priority, due_at_ms, ordering_group,
                 changed_at_ms, pushed_at_ms, claims, releases) VALUES (?1, ?2, ?3, ?4, ?5, 0, 0, 0, 0)",
        )
        .expect("a statement");
    for job in jobs {
        let group = job.group.map(|group| group.to_string());
        let row = (job.queue, job.state, job.priority, job.due_at_ms, group);
        statement.execute(row).expect("a job");
    }
}

proptest! {
    /// However a page is put together, it is the one that a plain query gives.
    #[test]
    fn pages_are_those_of_a_plain_query(
        jobs in prop::collection::vec(made(), 0..150),
        states in prop::collection::btree_set(0..6_i64, 0..6),
        group in prop::option::of(0..3_u8),
        after_id in prop::option::of(0..160_i64),
        newest_first in any::<bool>(),
        limit in 0..40_usize,
        walk_max in prop::sample::select(vec![0_usize, 5, 30, 1_000]),
        priorities_max in prop::sample::select(vec![1_usize, 1_000]),
    ) {
        let connection = Connection::open_in_memory().expect("a database");
        schema::bring_up(&connection).expect("the tables");
        insert(&connection, &jobs);
        let wanted = |id: i64, job: &Made| {
            let is_after = after_id.is_none_or(|after| if newest_first { id < after } else { id > after });
            job.queue == 1
                && states.contains(&job.state)
                && group.is_none_or(|group| job.group == Some(group))
                && is_after
        };
        let numbered = jobs.iter().zip(1_i64..);
        let mut plain: Vec<i64> =
            numbered.filter(|(job, id)| wanted(*id, job)).map(|(_, id)| id).collect();
        if newest_first {
            plain.reverse();
        }
        plain.truncate(limit);
        let mut options = ListOptions::new()
            .states(states.iter().filter_map(|state| JobState::from_number(*state)))
            .newest_first(newest_first)
            .limit(limit);
        options.after_id = after_id;
        options.group = group.map(|group| group.to_string());
        let listed = page(&connection, 1, &options, Bounds { walk_max, priorities_max }).expect("a page");
        prop_assert_eq!(listed, plain);
    }
}
