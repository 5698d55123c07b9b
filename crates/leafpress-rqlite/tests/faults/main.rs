//! Groups over a connection that loses requests and answers: each call that is answered with success is applied
//! once, each that is answered with an error not at all.

mod floor;
mod load;
mod model;
mod queue;
mod server;

use std::io::{BufRead as _, BufReader};
use std::sync::atomic::Ordering;
use std::time::Duration;

use leafpress::writer::{Batch, Parameters};
use leafpress::{Error, ErrorKind, Writer};
use leafpress_rqlite::RqliteTarget;

use self::server::{Fault, Server};

const CALLERS: u64 = 16;
const CALLS: u64 = 40;

fn target(server: &Server) -> RqliteTarget {
    RqliteTarget::new(server.url.parse().unwrap()).time_limit(Duration::from_secs(20))
}

fn writer_of(target: RqliteTarget) -> Writer {
    let writer = Writer::with_target(target, 64).unwrap();
    writer
        .execute_batch("CREATE TABLE IF NOT EXISTS t(key, caller INTEGER CHECK (caller < 999))")
        .unwrap();
    writer
}

/// Calls of many callers, some of them wrong; the keys of those that succeeded and that failed.
fn hammer(writer: &Writer) -> (Vec<String>, Vec<String>) {
    let of_caller = |caller: u64| {
        let (mut good, mut bad) = (Vec::new(), Vec::new());
        for call in 0..CALLS {
            let key = format!("{caller}.{call}");
            // Every 11th breaks the CHECK.
            let value = if (caller + call).is_multiple_of(11) { 999 } else { caller as i64 };
            let sql = "INSERT INTO t VALUES (?1, ?2)";
            let done: Result<(), Error> = if call.is_multiple_of(5) {
                let batch = Batch::new().statement(sql, (&key, value)).unwrap();
                writer.execute_batch(batch)
            } else {
                writer.execute(sql, (&key, value)).map(|done| assert_eq!(done.rows_changed, 1))
            };
            match done {
                Ok(()) => good.push(key),
                Err(error) => {
                    assert!(matches!(error.kind(), ErrorKind::Constraint { .. }), "{error}");
                    assert_eq!(value, 999, "a right call was refused: {error}");
                    bad.push(key);
                }
            }
        }
        (good, bad)
    };
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..CALLERS).map(|it| scope.spawn(move || of_caller(it))).collect();
        let mut all = (Vec::new(), Vec::new());
        for (good, bad) in threads.into_iter().map(|it| it.join().unwrap()) {
            all.0.extend(good);
            all.1.extend(bad);
        }
        all
    })
}

/// Number of keys that stand in the table otherwise than once (good) or never (bad).
fn wrong(server: &Server, good: &[String], bad: &[String]) -> usize {
    // Late requests arrive within this time.
    std::thread::sleep(Duration::from_millis(100));
    let database = server.database.lock().unwrap();
    let count = |key: &String| {
        database
            .query_row("SELECT count(*) FROM t WHERE key = ?1", [key], |row| row.get::<_, i64>(0))
            .unwrap()
    };
    good.iter().filter(|it| count(it) != 1).count() + bad.iter().filter(|it| count(it) != 0).count()
}

#[test]
fn each_call_is_applied_once_whatever_is_lost() {
    for seed in 0..6 {
        let server = Server::start(35, seed);
        let writer = writer_of(target(&server));
        let (good, bad) = hammer(&writer);
        assert_eq!(good.len() + bad.len(), (CALLERS * CALLS) as usize);
        assert!(!bad.is_empty());
        assert_eq!(wrong(&server, &good, &bad), 0, "seed {seed}");
        writer.close().unwrap();
    }
}

#[test]
fn without_the_rows_of_groups_calls_are_applied_twice() {
    let found = (0..6).any(|seed| {
        let server = Server::start(35, seed);
        let writer = writer_of(target(&server).without_dedupe());
        let (good, bad) = hammer(&writer);
        wrong(&server, &good, &bad) > 0
    });
    assert!(found, "the faults of the server test nothing");
}

#[test]
fn counts_are_told_also_after_a_lost_answer() {
    let server = Server::start(50, 7);
    let writer = writer_of(target(&server));
    for round in 0..20_u64 {
        let rows = (0..=round).map(|it| (format!("{round}.{it}"), round as i64));
        assert_eq!(writer.insert_many("t", &["key", "caller"], rows).unwrap(), round + 1);
        let done =
            writer.execute("UPDATE t SET key = key WHERE caller = ?1", [round as i64]).unwrap();
        assert_eq!(done.rows_changed, round + 1);
        let none = writer.execute("DELETE FROM t WHERE caller = -1", ()).unwrap();
        assert_eq!(none.rows_changed, 0);
    }
}

/// Calls of one INSERT are one statement, and each is told its own row.
#[test]
fn rowids_are_told_also_after_a_lost_answer() {
    let tables = [
        ("t(key, caller)", "t(key, caller)", false),
        ("t(id INTEGER PRIMARY KEY, key, caller)", "t(key, caller)", false),
        ("t(id INTEGER PRIMARY KEY AUTOINCREMENT, key, caller)", "t(key, caller)", false),
        ("t(key, id INTEGER PRIMARY KEY, caller)", "t(key, id)", true),
        ("t(key, id INTEGER PRIMARY KEY)", "t", true),
        ("t(key TEXT PRIMARY KEY, caller) WITHOUT ROWID", "t(key, caller)", false),
    ];
    for (seed, (table, into, gives_id)) in tables.into_iter().enumerate() {
        let server = Server::start(0, seed as u64);
        let writer = Writer::with_target(target(&server), 512).unwrap();
        writer.execute_batch(&*format!("CREATE TABLE {table}")).unwrap();
        let sql = format!("INSERT INTO {into} VALUES (?, ?)");
        // The first call is a statement by itself: the writer does not know the table yet.
        let other = |number: i64| if gives_id { Some(-number) } else { Some(number) };
        writer.execute(&*sql, ("first", other(1_000_000))).unwrap();
        server.faults_in_100.store(60, Ordering::Relaxed);
        let mut told = Vec::new();
        for round in 0..15_i64 {
            let submit = |number: i64| {
                let number = round * 20 + number;
                // Some ids are left to SQLite, which ends a run.
                let id = if number % 7 < 2 && gives_id { None } else { other(number + 1) };
                let ticket = writer.submit(&*sql, (number.to_string(), id)).unwrap();
                (number, ticket)
            };
            let tickets: Vec<_> = (0..20).map(submit).collect();
            told.extend(tickets.into_iter().map(|(number, it)| (number, it.wait().unwrap())));
        }
        server.faults_in_100.store(0, Ordering::Relaxed);
        let has_rowid = !table.contains("WITHOUT ROWID");
        let database = server.database.lock().unwrap();
        for (number, executed) in told {
            assert_eq!(executed.rows_changed, 1, "{table}");
            let rowid = "SELECT rowid FROM t WHERE key = ?1";
            if has_rowid {
                let rowid: i64 =
                    database.query_row(rowid, [number.to_string()], |row| row.get(0)).unwrap();
                assert_eq!(executed.last_insert_rowid, rowid, "{table} {number}");
            }
        }
    }
}

/// A trigger of another program makes the rows of a run depend on one another: the group is sent without runs.
#[test]
fn counts_are_true_after_another_program_changed_the_table() {
    let server = Server::start(0, 5);
    let writer = writer_of(target(&server));
    let sql = "INSERT INTO t VALUES (?, ?)";
    for round in 0..20 {
        if round == 1 {
            let trigger = "CREATE TRIGGER skip BEFORE INSERT ON t WHEN new.caller = 3 BEGIN SELECT RAISE(IGNORE); END";
            server.database.lock().unwrap().execute_batch(trigger).unwrap();
            server.faults_in_100.store(60, Ordering::Relaxed);
        }
        let tickets: Vec<_> =
            (0..8).map(|it| writer.submit(sql, (format!("{round}.{it}"), it)).unwrap()).collect();
        for (caller, ticket) in tickets.into_iter().enumerate() {
            let is_there = round == 0 || caller != 3;
            assert_eq!(
                ticket.wait().unwrap().rows_changed,
                u64::from(is_there),
                "{round}.{caller}"
            );
        }
    }
}

/// The clock of the server is years behind that of this machine.
#[test]
fn rows_of_groups_are_deleted_by_the_clock_of_the_leader() {
    let server = Server::start(0, 6);
    let writer = writer_of(target(&server));
    let now_s = server.clock_ms.load(Ordering::Relaxed) / 1_000;
    let put = "INSERT INTO _leafpress_applied VALUES (?1, 1, 0, ?2, '')";
    for (session, ago_s) in [("of another writer", 60), ("of a writer that is gone", 16 * 60)] {
        let database = server.database.lock().unwrap();
        database.execute(put, (session, now_s - ago_s)).unwrap();
    }
    writer.execute("INSERT INTO t VALUES (1, 1)", ()).unwrap();
    // The first group of a writer deletes.
    let short_lived = Writer::with_target(target(&server), 64).unwrap();
    short_lived.execute("INSERT INTO t VALUES (2, 1)", ()).unwrap();
    let database = server.database.lock().unwrap();
    let others = "SELECT group_concat(session) FROM _leafpress_applied WHERE session LIKE 'of%'";
    let others: Option<String> = database.query_row(others, [], |row| row.get(0)).unwrap();
    assert_eq!(others.as_deref(), Some("of another writer"));
    let own = "SELECT min(at), max(at) FROM _leafpress_applied WHERE session NOT LIKE 'of%'";
    let own: (i64, i64) =
        database.query_row(own, [], |row| Ok((row.get(0)?, row.get(1)?))).unwrap();
    assert!(own.0 >= now_s && own.1 < now_s + 100, "{own:?}");
}

#[test]
fn a_deferred_foreign_key_fails_one_call_alone() {
    let server = Server::start(0, 1);
    server.database.lock().unwrap().execute_batch("PRAGMA foreign_keys = ON").unwrap();
    let writer = writer_of(target(&server));
    writer
        .execute_batch(
            "CREATE TABLE p(a PRIMARY KEY);
             CREATE TABLE c(a REFERENCES p(a) DEFERRABLE INITIALLY DEFERRED)",
        )
        .unwrap();
    let tickets: Vec<_> = (0..20)
        .map(|call| match call {
            7 => writer.submit("INSERT INTO c VALUES (1)", ()).unwrap(),
            _ => writer.submit("INSERT INTO t VALUES (?1, 1)", [call]).unwrap(),
        })
        .collect();
    let failed: Vec<usize> = tickets
        .into_iter()
        .enumerate()
        .filter(|it| it.0 < 20)
        .filter_map(|(at, it)| it.wait().is_err().then_some(at))
        .collect();
    assert_eq!(failed, [7]);
}

/// The time for calls that are refused grows with their number, and not with its square.
#[test]
fn refused_calls_cost_the_same_each_at_any_number() {
    // Of so many calls one is good: all are refused, half of them, few.
    for (one_in, calls) in [(usize::MAX, 500), (2, 500), (7, 500)] {
        let server = Server::start(0, 1);
        let writer = Writer::with_target(target(&server), 512).unwrap();
        writer.execute_batch("CREATE TABLE t(key, caller INTEGER CHECK (caller < 999))").unwrap();
        let sent = server.bytes.load(Ordering::Relaxed);
        let submit = |at: usize| {
            let is_good = at % one_in == 1;
            let value = if is_good { 1 } else { 999 };
            (is_good, writer.submit("INSERT INTO t VALUES (?1, ?2)", (at as i64, value)).unwrap())
        };
        let tickets: Vec<_> = (0..calls).map(submit).collect();
        for (is_good, ticket) in tickets {
            assert_eq!(ticket.wait().is_ok(), is_good);
        }
        let bytes = (server.bytes.load(Ordering::Relaxed) - sent) / calls;
        assert!(bytes < 6_000, "{bytes} bytes a call, one of {one_in} good");
        let good = (0..calls).filter(|at| at % one_in == 1).count() as i64;
        assert_eq!(floor::count(&server, "SELECT count(*) FROM t"), good);
    }
}

/// The order of calls stays, though some between them are refused.
#[test]
fn calls_behind_a_refused_one_are_applied_in_their_order() {
    let server = Server::start(0, 1);
    let writer = writer_of(target(&server));
    let submit = |at: i64| {
        let value = if at % 3 == 0 { 999 } else { 1 };
        writer.submit("INSERT INTO t VALUES (?1, ?2)", (at, value)).unwrap()
    };
    let tickets: Vec<_> = (0..60).map(submit).collect();
    let failed = tickets.into_iter().map(|it| it.wait().is_err());
    assert!(failed.enumerate().all(|(at, is_err)| is_err == (at % 3 == 0)));
    let in_order =
        "SELECT count(*) FROM (SELECT key, lag(key) OVER (ORDER BY rowid) AS before FROM t)
         WHERE key > coalesce(before, -1)";
    assert_eq!(floor::count(&server, in_order), 40);
}

/// Each node applies an entry of the log for itself, and only the leader's answer is told.
#[test]
fn an_error_of_the_leader_s_machine_refuses_no_call() {
    let full = Fault::AnsweredWith(r#"{"results":[{"error":"database or disk is full"}]}"#);
    let server = Server::start(0, 1);
    let writer = writer_of(target(&server));
    server.plan("'once'", full);
    let done = writer.execute("INSERT INTO t VALUES ('once', 1)", ()).unwrap();
    assert_eq!(done.rows_changed, 1);
    let mail = queue::builder(&server).connect().unwrap().open("mail").unwrap();
    server.plan("correlation", full);
    assert!(mail.push("x").unwrap().is_new);
    assert!(server.is_past_plans());
    assert_eq!(floor::count(&server, "SELECT count(*) FROM t"), 1);
    assert_eq!(floor::count(&server, "SELECT count(*) FROM leafpress_job"), 1);
    // It stays so.
    let writer = writer_of(target(&server).time_limit(Duration::from_millis(300)));
    for _ in 0..100 {
        server.plan("'never'", full);
    }
    let error = writer.execute("INSERT INTO t VALUES ('never', 1)", ()).unwrap_err();
    assert!(error.is_outcome_unknown(), "{error}");
}

#[test]
fn a_query_changes_no_rows() {
    let server = Server::start(0, 1);
    let writer = writer_of(target(&server));
    writer.execute("INSERT INTO t VALUES (1, 1)", ()).unwrap();
    let query = writer.execute("WITH x AS (SELECT 1) SELECT * FROM x WHERE 0", ()).unwrap();
    assert_eq!(query.rows_changed, 0);
    let with = "WITH x(a) AS (SELECT 2) INSERT INTO t SELECT a, a FROM x";
    assert_eq!(writer.execute(with, ()).unwrap().rows_changed, 1);
}

#[test]
fn parameters_are_those_of_the_statement() {
    let server = Server::start(0, 1);
    let writer = writer_of(target(&server));
    let folder = tempfile::tempdir().unwrap();
    let local = Writer::builder(folder.path().join("local.db")).open().unwrap();
    local.execute_batch("CREATE TABLE t(key, caller INTEGER)").unwrap();
    let named = |name: &str| Parameters::Named(vec![(name.to_owned(), 7.into())]);
    for (sql, parameters) in [
        ("INSERT INTO t VALUES (:name, 1)", named(":nmae")),
        ("INSERT INTO t VALUES (:name, 1)", named("name")),
        ("INSERT INTO t VALUES (?, 1)", Parameters::Positional(vec![1.into(), 2.into()])),
        ("INSERT INTO t VALUES (?, ?)", Parameters::Positional(vec![1.into()])),
    ] {
        let [error, expected] = [&writer, &local].map(|writer| {
            let error = writer.execute(sql, parameters.clone()).unwrap_err().to_string();
            error.lines().next().map(str::to_owned)
        });
        assert_eq!(error, expected);
        let batch = Batch::new().statement(sql, parameters).unwrap();
        writer.execute_batch(batch).unwrap_err();
    }
    // Names that rqlite takes for one, and one without a value.
    let values = [(":a", 1), ("@a", 2), ("?4", 4)].map(|(name, it)| (name.to_owned(), it.into()));
    let parameters = Parameters::Named(values.to_vec());
    for writer in [&writer, &local] {
        writer
            .execute(
                "INSERT INTO t SELECT :a || @a || ifnull($a, '-') || ?4, 1",
                parameters.clone(),
            )
            .unwrap();
    }
    assert_eq!(floor::count(&server, "SELECT count(*) FROM t WHERE key = '12-4'"), 1);
    assert_eq!(floor::count(&server, "SELECT count(*) FROM t"), 1);
    let reader = rusqlite::Connection::open(folder.path().join("local.db")).unwrap();
    let there = "SELECT key FROM t";
    assert_eq!(reader.query_row(there, [], |row| row.get::<_, String>(0)).unwrap(), "12-4");
}

#[test]
fn what_cannot_be_promised_is_refused() {
    let server = Server::start(0, 1);
    let writer = writer_of(target(&server));
    let error = writer.transaction(|_| Ok(())).unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::Unsupported(_)), "{error}");
    let error = writer.execute("INSERT INTO t VALUES (random(), 1)", ()).unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::Refused { .. }), "{error}");
}

#[test]
fn an_outcome_that_stays_unknown_is_said_to_be() {
    // No node is there, so nothing was sent.
    let nowhere = RqliteTarget::new("rqlite://127.0.0.1:1".parse().unwrap());
    let writer = Writer::with_target(nowhere.time_limit(Duration::from_millis(50)), 8).unwrap();
    let error = writer.execute("INSERT INTO t VALUES (1, 1)", ()).unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::Io { .. }), "{error}");
    let server = Server::start(0, 3);
    let writer = writer_of(target(&server).time_limit(Duration::from_millis(300)));
    server.faults_in_100.store(100, Ordering::Relaxed);
    let error = writer.execute("INSERT INTO t VALUES ('x', 1)", ()).unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::OutcomeUnknown { .. }), "{error}");
    // And the writer goes on.
    server.faults_in_100.store(0, Ordering::Relaxed);
    writer.execute("INSERT INTO t VALUES ('y', 1)", ()).unwrap();
}

/// The environment of a child process names a proxy, which must see neither SQL nor credentials.
#[test]
fn a_proxy_of_the_environment_is_not_asked() {
    const CHILD: &str = "LEAFPRESS_TEST_BEHIND_A_PROXY";
    if std::env::var_os(CHILD).is_some() {
        let server = Server::start(0, 1);
        let writer = writer_of(target(&server).time_limit(Duration::from_secs(2)));
        writer.execute("INSERT INTO t VALUES ('x', 1)", ()).unwrap();
        // A proxy that the URL names is asked.
        let proxy = std::env::var("HTTP_PROXY").unwrap();
        let through = format!("{}?proxy={proxy}", server.url).parse().unwrap();
        let through = RqliteTarget::new(through).time_limit(Duration::from_secs(1));
        let error = Writer::with_target(through, 8).unwrap().execute("SELECT 1", ()).unwrap_err();
        assert!(matches!(error.kind(), ErrorKind::Io { .. }), "{error}");
        return;
    }
    let proxy = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", proxy.local_addr().unwrap());
    let asked = std::thread::spawn(move || {
        let mut asked = String::new();
        for stream in proxy.incoming() {
            let stream = stream.unwrap();
            let mut line = String::new();
            BufReader::new(&stream).read_line(&mut line).unwrap();
            if line.is_empty() {
                break;
            }
            asked += &line;
        }
        asked
    });
    let this = std::env::current_exe().unwrap();
    let mut child = std::process::Command::new(this);
    child.args(["--exact", "a_proxy_of_the_environment_is_not_asked"]).env(CHILD, "1");
    for name in ["ALL_PROXY", "HTTPS_PROXY", "HTTP_PROXY"] {
        child.env(name, &url);
    }
    let done = child.env_remove("NO_PROXY").env_remove("no_proxy").output().unwrap();
    // An empty request ends the proxy.
    drop(std::net::TcpStream::connect(url.strip_prefix("http://").unwrap()).unwrap());
    let asked = asked.join().unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stdout));
    assert!(asked.starts_with("CONNECT 127.0.0.1:"), "{asked}");
}
