//! Rows into tables that exist. The model: what SQLite does when it is given
//! the same rows one by one.

use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};

use rusqlite::types::Value;

use super::*;
use crate::error::ErrorKind;
use crate::load::existing::insert::Insert;
use crate::sqlite_error::sqlite_says;

/// Keys 1 to 300 are there; the staged rows have 201 to 500.
const KEYED: [&str; 4] = [
    "CREATE TABLE t(k INTEGER PRIMARY KEY, v, w); CREATE INDEX t_v ON t(v)",
    "CREATE TABLE t(k TEXT PRIMARY KEY, v, w)",
    "CREATE TABLE t(k TEXT PRIMARY KEY, v, w) WITHOUT ROWID; CREATE INDEX t_v ON t(v)",
    "CREATE TABLE t(k TEXT, v, w); CREATE UNIQUE INDEX t_k ON t(k COLLATE NOCASE)",
];
const STAGE: &str =
    "CREATE TABLE s(k, v); INSERT INTO s SELECT value, 'new' || value FROM series(500)
    WHERE value > 200";
const FILL: &str = "; INSERT INTO t SELECT value, 'old' || value, 'kept' FROM series(300);";

fn columns(names: &[&str]) -> Vec<String> {
    names.iter().map(|&it| it.to_owned()).collect()
}

impl Place {
    fn insert(&self, names: &[&str], mode: InsertMode) -> Result<Outcome> {
        let existing = inspect(&self.database, WAIT)?;
        let columns = columns(names);
        let into = InsertInto { table: "t", columns: &columns, mode };
        let staged = self.staged("s");
        match insert(&existing, &staged, &into, false, &settings()) {
            Ok(outcome) => return Ok(outcome),
            Err(InsertHalt::Failed(error)) => return Err(error),
            Err(InsertHalt::Refused(_)) => {}
        }
        let mut decide = |rows: &[RefusedRow]| {
            let Some(row) = rows.first() else { return Ok(()) };
            let error = crate::Error::from(ErrorKind::Constraint {
                table: "t".to_owned(),
                reason: row.reason.clone(),
                row: Some(row.number + 1),
                values: row.values.clone(),
            });
            Err(error.on_disk(UNCHANGED))
        };
        let mut refusals =
            Refusals { stops: true, with_values: true, reads_database: false, decide: &mut decide };
        insert_one_by_one(&existing, &staged, &into, &settings(), &mut refusals)
    }

    /// Inserts, and looks that nothing changed if it failed.
    fn expect_refused(&self, names: &[&str], mode: InsertMode) -> crate::Error {
        let before = (facts(&self.database), content(&open(&self.database), "t"));
        let error = self.insert(names, mode).unwrap_err();
        assert_eq!((facts(&self.database), content(&open(&self.database), "t")), before);
        assert_eq!(error.state_on_disk(), Some("the database is as it was"), "{error}");
        assert_sound(&self.database);
        error
    }
}

/// The rows inserted by SQLite's statements, row by row.
fn model(place: &Place, on_conflict: &str) -> Vec<Vec<Value>> {
    let model = place.database.with_extension("model");
    std::fs::copy(&place.database, &model).unwrap();
    let connection = open(&model);
    let staged = open(&place.staged);
    let mut rows = staged.prepare("SELECT k, v FROM s ORDER BY rowid").unwrap();
    let mut rows = rows.query([]).unwrap();
    connection.execute_batch("BEGIN").unwrap();
    while let Some(row) = rows.next().unwrap() {
        let (k, v): (Value, Value) = (row.get(0).unwrap(), row.get(1).unwrap());
        let sql = format!("INSERT INTO t(k, v) VALUES (?1, ?2) {on_conflict}");
        connection.execute(&sql, rusqlite::params![k, v]).unwrap();
    }
    connection.execute_batch("COMMIT").unwrap();
    content(&connection, "t")
}

/// Rowids of rows without a key of their own depend on the order.
fn sorted_by_key(mut rows: Vec<Vec<Value>>, table: &str) -> Vec<String> {
    if table.contains("TEXT") && !table.contains("WITHOUT") {
        for row in &mut rows {
            row.remove(0);
        }
    }
    let mut rows: Vec<String> = rows.iter().map(|row| format!("{row:?}")).collect();
    rows.sort();
    rows
}

#[test]
fn inserts_equal_those_of_a_person() {
    let cases = [
        (InsertMode::Ignore, "ON CONFLICT DO NOTHING", [200, 100]),
        (InsertMode::Upsert, "ON CONFLICT(k) DO UPDATE SET v = excluded.v", [300, 0]),
    ];
    for table in KEYED {
        for setup in
            ["PRAGMA journal_mode=WAL", "", "PRAGMA encoding='UTF-16'; PRAGMA auto_vacuum=FULL"]
        {
            for (mode, on_conflict, counts) in cases {
                let place = Place::new(&format!("{setup}; {OLD} {table} {FILL}")).stage(STAGE);
                let collated = table.contains("COLLATE");
                let on_conflict = if collated {
                    on_conflict.replace("(k)", "(k COLLATE NOCASE)")
                } else {
                    on_conflict.to_owned()
                };
                let expected = model(&place, &on_conflict);
                let before = facts(&place.database);
                let outcome = place.insert(&["K", "v"], mode).unwrap();
                let changed = [outcome.rows_changed, outcome.rows_ignored];
                assert_eq!(changed, counts, "{table} {setup} {mode:?}");
                assert_eq!(facts(&place.database), before);
                assert_sound(&place.database);
                let found = content(&open(&place.database), "t");
                assert_eq!(sorted_by_key(found, table), sorted_by_key(expected, table));
            }
        }
    }
}

#[test]
fn appended_rows_take_defaults_and_affinity() {
    let setup = "PRAGMA journal_mode=WAL; CREATE TABLE t(k INTEGER PRIMARY KEY, v TEXT, w DEFAULT 'd', x AS (v || w))";
    let place =
        Place::new(setup).stage("CREATE TABLE s(v); INSERT INTO s SELECT value FROM series(50)");
    let outcome = place.insert(&["v"], InsertMode::Append).unwrap();
    assert_eq!(outcome.rows_changed, 50);
    let sql = "SELECT count(*) FROM t WHERE k = CAST(v AS INTEGER) AND typeof(v) = 'text' AND x = v || 'd'";
    assert_eq!(ask::<i64>(&open(&place.database), sql), 50);
    assert!(outcome.path.starts_with("SQL: INSERT"), "{}", outcome.path);
}

#[test]
fn replaced_rows_are_gone_and_the_declaration_stays() {
    let setup = "CREATE TABLE log(x); CREATE TABLE t(k INTEGER PRIMARY KEY AUTOINCREMENT, v UNIQUE);
        CREATE INDEX t_v ON t(v); CREATE TRIGGER tr AFTER INSERT ON t BEGIN INSERT INTO log VALUES (new.v); END;
        INSERT INTO t(v) SELECT 'old' || value FROM series(1000); DELETE FROM log;";
    for journal in JOURNALS {
        let place = Place::new(&format!("PRAGMA journal_mode={journal}; {setup}")).stage(STAGE);
        let declared = declarations(&open(&place.database), "t");
        let outcome = place.insert(&["v"], InsertMode::Replace).unwrap();
        assert_eq!((outcome.rows_changed, outcome.rows_removed), (300, 1000));
        assert_eq!(outcome.notes, ["the triggers of t ran: tr"]);
        let connection = open(&place.database);
        assert_eq!(declarations(&connection, "t"), declared);
        assert_eq!(ask::<i64>(&connection, "SELECT count(*) FROM log JOIN t ON v = x"), 300);
        assert_sound(&place.database);
    }
}

#[test]
fn a_refused_row_is_named_and_nothing_changes() {
    let cases = [
        ("CREATE TABLE t(k INTEGER PRIMARY KEY, v, w)", "UNIQUE constraint failed: t.k", 1),
        (
            "CREATE TABLE t(k, v UNIQUE, w); INSERT INTO t(v) VALUES ('new444')",
            "UNIQUE constraint failed: t.v",
            244,
        ),
        (
            "CREATE TABLE t(k, v CHECK (v <> 'new333'), w)",
            "CHECK constraint failed: v <> 'new333'",
            133,
        ),
        ("CREATE TABLE t(k, v, w NOT NULL)", "NOT NULL constraint failed: t.w", 1),
        (
            "CREATE TABLE t(k ANY, v INTEGER, w ANY) STRICT",
            "cannot store TEXT value in INTEGER column t.v",
            1,
        ),
        (
            "CREATE TABLE t(k, v, w); CREATE TRIGGER tr BEFORE INSERT ON t WHEN new.k = 300
          BEGIN SELECT raise(ABORT, 'not 300'); END",
            "not 300",
            100,
        ),
        (
            "CREATE TABLE p(k INTEGER PRIMARY KEY); INSERT INTO p SELECT value FROM series(400);
          CREATE TABLE t(k REFERENCES p, v, w)",
            "FOREIGN KEY constraint failed",
            201,
        ),
    ];
    for (table, reason, number) in cases {
        let fill = if table.contains("STRICT") || table.contains("NOT NULL") { ";" } else { FILL };
        for encoding in ["UTF-8", "UTF-16"] {
            let fill = if table.contains("PRIMARY KEY, v") { fill } else { ";" };
            let setup =
                format!("PRAGMA encoding='{encoding}'; PRAGMA journal_mode=WAL; {table} {fill}");
            let place = Place::new(&setup).stage(STAGE);
            let error = place.expect_refused(&["k", "v"], InsertMode::Append);
            let ErrorKind::Constraint { table, reason: found, row, values } = error.kind() else {
                panic!("{error}");
            };
            assert_eq!(
                (table.as_str(), found.as_str(), *row),
                ("t", reason, Some(number)),
                "{error}"
            );
            assert_eq!(values.as_deref(), Some(format!("{0}, 'new{0}'", number + 200).as_str()));
            // The old rows survive a replacement that fails.
            if !reason.contains("UNIQUE") {
                place.expect_refused(&["k", "v"], InsertMode::Replace);
            }
        }
    }
}

#[test]
fn replacing_does_not_touch_other_tables() {
    let setup = |action: &str| {
        format!(
            "CREATE TABLE t(k INTEGER PRIMARY KEY, v);
             CREATE TABLE c(k REFERENCES t {action}); INSERT INTO t SELECT value, value FROM series(300);
             INSERT INTO c VALUES (250), (7);"
        )
    };
    let place = Place::new(&setup("ON DELETE CASCADE")).stage(STAGE);
    let error = place.expect_refused(&["k", "v"], InsertMode::Replace);
    assert!(error.to_string().contains("c refers to t with ON DELETE CASCADE"), "{error}");
    let place = Place::new(&setup("")).stage(STAGE);
    let error = place.expect_refused(&["k", "v"], InsertMode::Replace);
    assert!(
        error.to_string().contains("c: a row would refer to a row of t that is not there"),
        "{error}"
    );
    open(&place.database).execute_batch("DELETE FROM c WHERE k = 7").unwrap();
    let outcome = place.insert(&["k", "v"], InsertMode::Replace).unwrap();
    assert_eq!((outcome.rows_changed, outcome.rows_removed), (300, 300));
    assert_eq!(outcome.notes, ["the foreign keys of t were enforced"]);
}

#[test]
fn what_cannot_be_inserted_is_refused_before() {
    let cases: [(&str, &[&str], InsertMode, &str); 7] = [
        (
            "CREATE TABLE t(k, v)",
            &["k", "z"],
            InsertMode::Append,
            "the table t has no column z; its columns are k, v",
        ),
        (
            "CREATE TABLE t(k, v AS (k))",
            &["k", "v"],
            InsertMode::Append,
            "the column v of t is generated",
        ),
        (
            "CREATE TABLE t(k, v)",
            &["k", "v"],
            InsertMode::Upsert,
            "t has no primary key and no unique index",
        ),
        ("CREATE TABLE t(k UNIQUE, v UNIQUE)", &["k", "v"], InsertMode::Upsert, "2 unique indexes"),
        (
            "CREATE TABLE t(k, v, w PRIMARY KEY)",
            &["k", "v"],
            InsertMode::Upsert,
            "the input has no column w",
        ),
        (
            "CREATE VIRTUAL TABLE t USING fts5(k, v)",
            &["k", "v"],
            InsertMode::Ignore,
            "t is a virtual table",
        ),
        (
            "CREATE TABLE x(a); CREATE VIEW t AS SELECT a AS k, a AS v FROM x",
            &["k", "v"],
            InsertMode::Append,
            "t is a view",
        ),
    ];
    for (table, names, mode, reason) in cases {
        let place = Place::new(table).stage(STAGE);
        let error = place.insert(names, mode).unwrap_err();
        assert!(error.to_string().contains(reason), "{error}");
        assert_sound(&place.database);
    }
    let place = Place::new("").stage(STAGE);
    let error = place.insert(&["k"], InsertMode::Append).unwrap_err();
    assert!(error.to_string().contains("no such table: t"), "{error}");
}

/// Objects of JSON without keys. DEFAULT VALUES takes no ON CONFLICT.
#[test]
fn rows_without_values_are_ignored_if_their_key_is_there() {
    let no_columns = "CREATE TABLE s(k); INSERT INTO s VALUES (NULL), (NULL)";
    for more in ["", "; CREATE TRIGGER r AFTER INSERT ON t BEGIN DELETE FROM t WHERE k = 'y'; END"]
    {
        for (declared, there) in [("UNIQUE", 1), ("UNIQUE", 0), ("UNIQUE ON CONFLICT REPLACE", 1)] {
            let place = Place::new(&format!(
                "CREATE TABLE t(k TEXT {declared} DEFAULT 'x', rowid){more};
                 INSERT INTO t SELECT 'x', 'old' WHERE {there}"
            ));
            let outcome = place.stage(no_columns).insert(&[], InsertMode::Ignore).unwrap();
            assert_eq!((outcome.rows_changed, outcome.rows_ignored), (1 - there, 1 + there));
        }
    }
}

#[test]
fn virtual_tables_take_rows() {
    let place = Place::new("CREATE VIRTUAL TABLE t USING fts5(k, v)").stage(STAGE);
    assert_eq!(place.insert(&["k", "v"], InsertMode::Append).unwrap().rows_changed, 300);
    let found: i64 = ask(&open(&place.database), "SELECT count(*) FROM t WHERE t MATCH 'new300'");
    assert_eq!(found, 1);
}

/// The unique index gives no order to sort by, and in that of the other index the second row would
/// stay.
#[test]
fn of_rows_that_share_an_expression_the_first_of_the_input_stays() {
    for unique in ["lower(k)", "k) WHERE (k > ''"] {
        let place = Place::new(&format!(
            "CREATE TABLE t(k, v); CREATE INDEX i ON t(v); CREATE UNIQUE INDEX u ON t({unique})"
        ));
        let existing = inspect(&place.database, WAIT).unwrap();
        let (_, read) = describe_table(&existing, "t").unwrap();
        let order = |mode| order_of(&read, &columns(&["k", "v"]), mode);
        assert_eq!(order(InsertMode::Ignore), BestOrder::Any, "{unique}");
    }
}

#[test]
fn the_best_order_is_that_of_the_largest_search() {
    let cases = [
        (KEYED[0], "Rowid(\"k\")"),
        (KEYED[1], "Columns([k BINARY])"),
        (
            "CREATE TABLE t(k, v, w, PRIMARY KEY(w DESC, k COLLATE NOCASE)) WITHOUT ROWID",
            "Columns([w BINARY DESC, k NOCASE])",
        ),
        (KEYED[3], "Columns([k NOCASE])"),
        ("CREATE TABLE t(k INTEGER PRIMARY KEY, v, w); CREATE INDEX i ON t(v)", "Rowid(\"k\")"),
        ("CREATE TABLE t(id INTEGER PRIMARY KEY, k, v, w); CREATE UNIQUE INDEX i ON t(v)", "Any"),
        ("CREATE TABLE t(k, v, w); CREATE INDEX i ON t(v)", "Any"),
        ("CREATE TABLE t(k, v, w); CREATE UNIQUE INDEX i ON t(v)", "Columns([v BINARY])"),
        ("CREATE TABLE t(k PRIMARY KEY, v, w DEFAULT (last_insert_rowid()))", "Any"),
        ("CREATE TABLE t(k PRIMARY KEY, v, w DEFAULT (\"last_insert_rowid\"()))", "Any"),
        (
            "CREATE TABLE t(k PRIMARY KEY, v, w);
             CREATE TRIGGER r AFTER INSERT ON t BEGIN SELECT 1; END",
            "Any",
        ),
        ("CREATE TABLE t(k, v); CREATE INDEX i ON t(lower(v))", "Any"),
        ("CREATE TABLE t(k, z UNIQUE); CREATE INDEX i ON t(k) WHERE k > 1", "Any"),
    ];
    for (table, expected) in cases {
        let place = Place::new(table);
        let existing = inspect(&place.database, WAIT).unwrap();
        let (_, read) = describe_table(&existing, "T").unwrap();
        let order = order_of(&read, &columns(&["K", "v", "w"]), InsertMode::Append);
        let said = match order {
            BestOrder::Columns(columns) => {
                let columns = columns.iter().map(|it| {
                    format!(
                        "{} {}{}",
                        it.name,
                        it.collation,
                        if it.descending { " DESC" } else { "" }
                    )
                });
                format!("Columns([{}])", columns.collect::<Vec<_>>().join(", "))
            }
            other => format!("{other:?}"),
        };
        assert_eq!(said, expected, "{table}");
    }
}

#[test]
fn large_inserts_build_indexes_anew() {
    let setup = "PRAGMA journal_mode=WAL; CREATE TABLE t(k INTEGER PRIMARY KEY, v UNIQUE, w);
        CREATE INDEX \"t'v\" ON t(v COLLATE NOCASE DESC); CREATE INDEX t_x ON t(length(v)) WHERE k > 5;
        INSERT INTO t SELECT value, 'old' || value, 1 FROM series(5000); ANALYZE;";
    let stage = "CREATE TABLE s(k, v); INSERT INTO s SELECT value + 4000, 'new' || value FROM series(12000)";
    let cases = [
        (InsertMode::Replace, [12000, 0, 5000]),
        (InsertMode::Ignore, [11000, 1000, 0]),
        (InsertMode::Upsert, [12000, 0, 0]),
    ];
    for (mode, expected) in cases {
        let place = Place::new(setup).stage(stage);
        let declared = |path: &Path| {
            let mut declared = declarations(&open(path), "t");
            declared.sort();
            declared
        };
        let statistics = |path: &Path| {
            let sql =
                "SELECT group_concat(idx || stat) FROM (SELECT * FROM sqlite_stat1 ORDER BY idx)";
            ask::<String>(&open(path), sql)
        };
        let before = (declared(&place.database), statistics(&place.database));
        let outcome = place.insert(&["k", "v"], mode).unwrap();
        assert!(outcome.path.ends_with("2 indexes built anew"), "{}", outcome.path);
        let Outcome { rows_changed, rows_ignored, rows_removed, .. } = outcome;
        assert_eq!([rows_changed, rows_ignored, rows_removed], expected);
        assert_eq!((declared(&place.database), statistics(&place.database)), before);
        assert_sound(&place.database);
    }
    // A failure brings back what was dropped.
    let place = Place::new(setup).stage(stage);
    let error = place.expect_refused(&["k", "v"], InsertMode::Append);
    assert!(matches!(error.kind(), ErrorKind::Constraint { row: Some(1), .. }), "{error}");
    assert_eq!(declarations(&open(&place.database), "t").len(), 4);
}

/// Tables whose rows come in the order of the one B-tree that an insert searches, and the number of
/// staged rows whose key is there.
const ORDERED: [(&str, i64); 8] = [
    ("CREATE TABLE t(k INTEGER PRIMARY KEY, v, w)", 100),
    ("CREATE TABLE t(k TEXT PRIMARY KEY, v, w)", 100),
    ("CREATE TABLE t(k REAL PRIMARY KEY, v, w) WITHOUT ROWID", 100),
    ("CREATE TABLE t(k BLOB PRIMARY KEY, v, w) WITHOUT ROWID", 100),
    ("CREATE TABLE t(k TEXT, v, w); CREATE UNIQUE INDEX t_k ON t(k COLLATE NOCASE)", 100),
    (
        "CREATE TABLE t(k, v TEXT COLLATE NOCASE, w); CREATE UNIQUE INDEX u ON t(v COLLATE BINARY)",
        0,
    ),
    ("CREATE TABLE t(k TEXT, v, w, PRIMARY KEY(v DESC, k)) WITHOUT ROWID", 0),
    ("CREATE TABLE t(k INT, v, w, UNIQUE(v COLLATE NOCASE, k DESC))", 0),
];

#[test]
fn reading_ahead_searches_the_b_tree_of_the_insert() {
    for kinds in ["(k, v)", "(k INTEGER, v TEXT)", "(k TEXT, v INTEGER)", "(k REAL, v BLOB)"] {
        for (table, there) in ORDERED {
            let stage = STAGE.replace("(k, v)", kinds);
            let place = Place::new(&format!("{table} {FILL}")).stage(&stage);
            let target = inspect(&place.database, WAIT).unwrap().target;
            let (staged, settings) = (place.staged("s"), settings());
            let mut connection = target.open_to_insert(&settings, staged.file).unwrap();
            let attach = format!("ATTACH ?1 AS {}", staged::STAGED);
            connection.execute(&attach, [staged::attachable(&staged)]).unwrap();
            let transaction = target.begin(&mut connection).unwrap();
            let columns = columns(&["k", "v"]);
            let into = InsertInto { table: "t", columns: &columns, mode: InsertMode::Append };
            let insert = Insert::new(&transaction, &target, &staged, &into, true, &settings);
            let query = insert.unwrap().look_up().unwrap();

            let mut plan = transaction.prepare(&format!("EXPLAIN QUERY PLAN {query}")).unwrap();
            let steps = plan.query_map([], |row| row.get::<_, String>("detail")).unwrap();
            let steps: Vec<String> = steps.map(|step| step.unwrap()).collect();
            assert!(steps[0].starts_with("SCAN new"), "{table} {kinds}: {steps:?}");
            assert!(steps[1].starts_with("SEARCH there"), "{table} {kinds}: {steps:?}");
            // SQLite compares texts without affinity with numbers as they are.
            if kinds == "(k, v)" {
                assert_eq!(ask::<i64>(&transaction, &query), there, "{table} {kinds}");
            }
        }
    }
}

#[test]
fn many_rows_go_in_in_the_order_of_the_key() {
    const ROWS: &str = "SELECT value * 7 % 60013 AS k, 'new' AS v FROM series(20000) ORDER BY k";
    let numberings = [
        format!("CREATE TABLE s(k PRIMARY KEY, v) WITHOUT ROWID; INSERT INTO s {ROWS}"),
        format!("CREATE TABLE s(k, v); INSERT INTO s {ROWS}"),
        format!("CREATE TABLE s(k, v); INSERT INTO s(oid, k, v) SELECT 2 * k, k, v FROM ({ROWS})"),
    ];
    let modes = [InsertMode::Append, InsertMode::Ignore, InsertMode::Upsert];
    let tables = ["k PRIMARY KEY, v) WITHOUT ROWID", "k INTEGER PRIMARY KEY, v)", "k UNIQUE, v)"];
    let sum: i64 = (1..=20_000).map(|value| value * 7 % 60_013 + value + 70_000).sum();
    for setup in ["PRAGMA journal_mode=WAL", "PRAGMA journal_mode=DELETE"] {
        for (table, mode) in tables.iter().flat_map(|&it| modes.map(|mode| (it, mode))) {
            for stage in &numberings {
                let fill = "INSERT INTO t SELECT value + 70000, 'old' FROM series(20000)";
                let place = Place::new(&format!("{setup}; CREATE TABLE t({table}; {fill};"));
                let place = place.stage(stage);
                let existing = inspect(&place.database, WAIT).unwrap();
                let columns = columns(&["k", "v"]);
                let into = InsertInto { table: "t", columns: &columns, mode };
                let staged = place.staged("s");
                let outcome = insert(&existing, &staged, &into, true, &settings()).unwrap();
                let counts = (outcome.rows_changed, outcome.rows_ignored);
                assert_eq!(counts, (20_000, 0), "{setup} {table} {mode:?} {stage}");
                assert_sound(&place.database);
                let counted = "SELECT count(*) || ' ' || sum(k) || ' ' || sum(v = 'new') FROM t";
                let found: String = ask(&open(&place.database), counted);
                assert_eq!(found, format!("40000 {sum} 20000"), "{setup} {table} {mode:?}");
            }
        }
    }
}

#[test]
fn others_write_and_copy_the_log_during_inserts() {
    const ROUNDS: i64 = 6;
    const ROWS: i64 = 12_000;
    let setup = "PRAGMA journal_mode=WAL; CREATE TABLE t(k INTEGER PRIMARY KEY, v);
        INSERT INTO t SELECT value * 100, 'old' FROM series(12000);";
    let stages = (1..=ROUNDS).map(|round| {
        let rows = format!("SELECT value * 100 + {round}, 'new' FROM series({ROWS})");
        with_series(&format!("CREATE TABLE s{round}(k, v); INSERT INTO s{round} {rows};"))
    });
    let place = Place::new(setup).stage(&stages.collect::<String>());
    let stop = AtomicBool::new(false);
    let changes = AtomicI64::new(0);
    std::thread::scope(|scope| {
        for way in ["PASSIVE", "TRUNCATE"] {
            let (place, stop, changes) = (&place, &stop, &changes);
            scope.spawn(move || {
                let (connection, reader) = (open(&place.database), open(&place.database));
                connection.busy_timeout(Duration::from_millis(1)).unwrap();
                while !stop.load(Ordering::Relaxed) {
                    // Either may find the database busy.
                    let change = "UPDATE t SET v = v || 'y' WHERE k % 700 = 0";
                    let rows = connection.execute(change, []).unwrap_or(0);
                    changes.fetch_add(rows as i64, Ordering::Relaxed);
                    reader.execute_batch("BEGIN; SELECT v FROM t LIMIT 1").unwrap();
                    let checkpoint = format!("PRAGMA wal_checkpoint({way}); SELECT 1");
                    let _ = connection.execute_batch(&checkpoint);
                    reader.execute_batch("COMMIT").unwrap();
                    std::thread::sleep(Duration::from_millis(2));
                }
            });
        }
        let settings = Settings { busy_timeout: Duration::from_secs(60), ..settings() };
        let columns = columns(&["k", "v"]);
        let into = InsertInto { table: "t", columns: &columns, mode: InsertMode::Append };
        let inserted = (1..=ROUNDS).map(|round| {
            let existing = inspect(&place.database, settings.busy_timeout).unwrap();
            let name = format!("s{round}");
            insert(&existing, &place.staged(&name), &into, true, &settings)
                .map(|it| it.rows_changed)
        });
        let inserted: Vec<_> = inserted.collect();
        stop.store(true, Ordering::Relaxed);
        for rows in inserted {
            assert_eq!(rows.unwrap(), ROWS.unsigned_abs());
        }
    });
    assert_sound(&place.database);
    let counted = "SELECT count(*) || ' ' || sum(length(v) - 3) FROM t";
    let expected = format!("{} {}", (ROUNDS + 1) * ROWS, changes.into_inner());
    assert_eq!(ask::<String>(&open(&place.database), counted), expected);
}

#[test]
fn a_table_or_database_that_others_exchange_meanwhile_is_named() {
    let place = Place::new("CREATE TABLE t(k, v)").stage("CREATE TABLE s(k, v)");
    let existing = inspect(&place.database, WAIT).unwrap();
    let names = columns(&["k", "v"]);
    let into = InsertInto { table: "t", columns: &names, mode: InsertMode::Append };

    open(&place.database).execute_batch("ALTER TABLE t RENAME TO u").unwrap();
    let halt = insert(&existing, &place.staged("s"), &into, false, &settings()).unwrap_err();
    let InsertHalt::Failed(error) = halt else { panic!("{halt:?}") };
    assert!(matches!(error.kind(), ErrorKind::NotFound { what: "table", .. }), "{error}");

    std::fs::remove_file(&place.database).unwrap();
    let utf_16 = "PRAGMA encoding='UTF-16le'; CREATE TABLE t(k, v)";
    open(&place.database).execute_batch(utf_16).unwrap();
    let halt = insert(&existing, &place.staged("s"), &into, false, &settings()).unwrap_err();
    let InsertHalt::Failed(error) = halt else { panic!("{halt:?}") };
    assert!(matches!(error.kind(), ErrorKind::Changed { .. }), "{error}");
    assert!(error.to_string().contains("its text encoding was changed"), "{error}");
}

/// The rows that are refused one by one, with SQLite's reasons, and the rows that are there then.
fn model_of_refused(place: &Place, mode: InsertMode) -> (Vec<(u64, String)>, Vec<Vec<Value>>) {
    let model = place.database.with_extension("refused");
    std::fs::copy(&place.database, &model).unwrap();
    let (connection, staged) = (open(&model), open(&place.staged));
    let mut rows = staged.prepare("SELECT k, v FROM s ORDER BY rowid").unwrap();
    let mut rows = rows.query([]).unwrap();
    let (mut refused, mut number) = (Vec::new(), 0);
    connection.execute_batch("BEGIN").unwrap();
    if mode == InsertMode::Replace {
        connection.execute_batch("DELETE FROM t").unwrap();
    }
    while let Some(row) = rows.next().unwrap() {
        let (k, v): (Value, Value) = (row.get(0).unwrap(), row.get(1).unwrap());
        let sql = "INSERT INTO t(k, v) VALUES (?1, ?2)";
        if let Err(error) = connection.execute(sql, rusqlite::params![k, v]) {
            refused.push((number, sqlite_says(&error)));
        }
        number += 1;
    }
    connection.execute_batch("COMMIT").unwrap();
    (refused, content(&connection, "t"))
}

#[test]
fn rows_between_refused_ones_go_in_together_and_stay_the_same() {
    let stage = "CREATE TABLE s(k, v); INSERT INTO s SELECT value, 'new' || value FROM series(400);
        INSERT INTO s SELECT value, value FROM series(30);
        INSERT INTO s VALUES (NULL, NULL), ('x', 7), (500, -9223372036854775808), (501, 'new3'), ('y', 'y');";
    let old = "INSERT INTO t(k, v) SELECT value * 10, 'old' || value FROM series(30)";
    let together = [
        "CREATE TABLE t(k INTEGER PRIMARY KEY, v)",
        "CREATE TABLE t(k INTEGER PRIMARY KEY, v UNIQUE, w DEFAULT 'd'); CREATE INDEX i ON t(w)",
        "CREATE TABLE t(k PRIMARY KEY, v NOT NULL)",
        "CREATE TABLE t(k, v CHECK (v NOT LIKE 'new%7' AND k <> 25))",
        "CREATE TABLE t(k INTEGER, v ANY) STRICT",
        "CREATE TABLE t(k, v); CREATE INDEX i ON t(abs(v)); CREATE UNIQUE INDEX u ON t(k) WHERE k > 99",
        "CREATE TABLE t(k, v, x AS (abs(v)) STORED)",
    ];
    let one_by_one = [
        "CREATE TABLE t(k INTEGER PRIMARY KEY AUTOINCREMENT, v)",
        "CREATE TABLE t(k PRIMARY KEY, v) WITHOUT ROWID",
        "CREATE TABLE t(k PRIMARY KEY, v DEFAULT (last_insert_rowid()))",
        "CREATE TABLE t(k PRIMARY KEY ON CONFLICT REPLACE, v UNIQUE ON CONFLICT ABORT)",
        "CREATE TABLE t(k PRIMARY KEY, v);
         CREATE TRIGGER r AFTER INSERT ON t WHEN new.v = 5 BEGIN SELECT raise(FAIL, 'five'); END",
    ];
    let cases = together.map(|it| (it, true)).into_iter().chain(one_by_one.map(|it| (it, false)));
    for (table, goes_together) in cases {
        for mode in [InsertMode::Append, InsertMode::Replace] {
            let place = Place::new(&format!("{table}; {old};")).stage(stage);
            let (refused, rows) = model_of_refused(&place, mode);
            let (found, path) = place.insert_skipping(&["k", "v"], mode);
            assert_eq!(path.contains("between"), goes_together, "{table}: {path}");
            if table.contains("REPLACE") {
                // The mode decides about a key that is there, not the declaration.
                continue;
            }
            let said = found.iter().map(|row| (row.number, row.reason.clone()));
            assert_eq!(said.collect::<Vec<_>>(), refused, "{table} {mode:?}");
            assert!(!refused.is_empty(), "{table}");
            assert_eq!(content(&open(&place.database), "t"), rows, "{table} {mode:?}");
            let last = found.last().and_then(|row| row.values.clone());
            let expected: String = ask(
                &open(&place.staged),
                &format!(
                    "SELECT quote(k) || ', ' || quote(v) FROM s WHERE rowid = {}",
                    found.last().unwrap().number + 1
                ),
            );
            assert_eq!(last, Some(expected), "{table}");
            assert_sound(&place.database);
        }
    }
}
