//! Against the same rows, each inserted by a statement of its own.

use proptest::prelude::*;
use rusqlite::params_from_iter;

use super::*;

/// A table, and what is compared of it. What follows the key in place of the
/// order given, a rowid that SQLite chose, is left out.
struct Case {
    declaration: &'static str,
    columns: &'static [&'static str],
    /// True if rowids are compared too.
    rowids: bool,
}

const CASES: [Case; 17] = [
    Case {
        declaration: "CREATE TABLE t(id INTEGER PRIMARY KEY, a, b)",
        columns: &["id", "a"],
        rowids: true,
    },
    Case {
        declaration: "CREATE TABLE t(id INTEGER PRIMARY KEY AUTOINCREMENT, a UNIQUE, b)",
        columns: &["A", "iD"],
        rowids: true,
    },
    Case {
        declaration: "CREATE TABLE t(id INTEGER PRIMARY KEY AUTOINCREMENT, a UNIQUE, b)",
        columns: &["a", "b"],
        rowids: true,
    },
    Case {
        declaration: "CREATE TABLE t(a TEXT COLLATE NOCASE, b INT, c, PRIMARY KEY(a, b DESC)) WITHOUT ROWID",
        columns: &["c", "b", "a"],
        rowids: false,
    },
    Case {
        declaration: "CREATE TABLE t(a REAL, b NUMERIC, c, PRIMARY KEY(b, a))",
        columns: &["a", "b", "c"],
        rowids: false,
    },
    Case {
        declaration: "CREATE TABLE t(a REAL, b DEFAULT 7, c, PRIMARY KEY(b, a))",
        columns: &["a", "c"],
        rowids: true,
    },
    Case {
        declaration: "CREATE TABLE t(a INTEGER PRIMARY KEY DESC, b)",
        columns: &["a", "b"],
        rowids: false,
    },
    Case {
        declaration: "CREATE TABLE t(id INT PRIMARY KEY, a TEXT, b ANY) STRICT, WITHOUT ROWID",
        columns: &["id", "b"],
        rowids: false,
    },
    Case {
        declaration: "CREATE TABLE t(a TEXT COLLATE RTRIM PRIMARY KEY, b CHECK (b <> 5))",
        columns: &["b", "a"],
        rowids: false,
    },
    Case {
        declaration: "CREATE TABLE t(id INTEGER PRIMARY KEY, a UNIQUE ON CONFLICT REPLACE, b)",
        columns: &["id", "a", "b"],
        rowids: true,
    },
    Case {
        declaration: "CREATE TABLE t(id INTEGER PRIMARY KEY, a UNIQUE, b NOT NULL ON CONFLICT FAIL)",
        columns: &["id", "a", "b"],
        rowids: true,
    },
    Case {
        declaration: "CREATE TABLE t(id INTEGER PRIMARY KEY, a, b DEFAULT (last_insert_rowid()))",
        columns: &["id", "a"],
        rowids: true,
    },
    Case {
        declaration: "CREATE TABLE t(id INTEGER PRIMARY KEY, a, b);
                      CREATE TRIGGER log AFTER INSERT ON t WHEN new.a > 900 BEGIN
                          SELECT RAISE(FAIL, 'too large') WHERE new.a > 990;
                          INSERT INTO log VALUES(new.id, new.a);
                      END",
        columns: &["id", "a"],
        rowids: true,
    },
    Case {
        declaration: "CREATE TABLE t(id INTEGER PRIMARY KEY, a REFERENCES t(id), b)",
        columns: &["id", "a"],
        rowids: true,
    },
    Case {
        declaration: "CREATE TABLE t(a PRIMARY KEY, b REFERENCES parent(id), c)",
        columns: &["a", "b"],
        rowids: false,
    },
    Case {
        declaration: "CREATE TABLE t(a, b, c AS (a || b) UNIQUE)",
        columns: &["rowid", "b", "a"],
        rowids: true,
    },
    Case { declaration: "CREATE TABLE t(a, b)", columns: &["b", "a"], rowids: true },
];

fn database(declaration: &str) -> Connection {
    let connection = Connection::open_in_memory().unwrap();
    connection
        .execute_batch(&format!(
            "PRAGMA foreign_keys=ON;
             CREATE TABLE log(id, a);
             CREATE TABLE parent(id INTEGER PRIMARY KEY) WITHOUT ROWID;
             WITH RECURSIVE it(id) AS (SELECT 0 UNION ALL SELECT id + 1 FROM it LIMIT 990)
             INSERT INTO parent SELECT id FROM it;
             {declaration}"
        ))
        .unwrap();
    connection
}

/// Each row by a statement of its own: rows inserted, or which row was refused and why.
fn plainly(connection: &Connection, request: &InsertMany) -> Result<u64, (u64, String)> {
    let names = request.columns.join(",");
    let marks = vec!["?"; request.columns.len()].join(",");
    let sql = format!("INSERT INTO {}({names}) VALUES({marks})", request.table);
    let mut statement = connection.prepare(&sql).unwrap();
    let mut inserted = 0;
    for (row, number) in request.rows.iter().zip(1..) {
        match statement.execute(params_from_iter(row)) {
            Ok(rows) => inserted += rows as u64,
            Err(error) => return Err((number, sqlite_says(&error))),
        }
    }
    Ok(inserted)
}

/// A savepoint is around a call, which is gone back to after an error.
fn within_savepoint<T, E>(
    connection: &Connection,
    call: impl FnOnce() -> Result<T, E>,
) -> Result<T, E> {
    connection.execute_batch("SAVEPOINT caller").unwrap();
    let result = call();
    if result.is_err() {
        connection.execute_batch("ROLLBACK TO caller").unwrap();
    }
    connection.execute_batch("RELEASE caller").unwrap();
    result
}

fn by_us(
    connection: &Connection,
    plans: &mut InsertPlans,
    request: &InsertMany,
) -> Result<u64, (u64, String)> {
    let result = insert_sorted(connection, plans, request);
    if result.is_err() {
        plans.rolled_back();
    }
    result.map_err(|error| match error.kind() {
        ErrorKind::Constraint { table, reason, row: Some(row), values: Some(values) } => {
            assert_eq!(table, "t");
            assert_eq!(values.split(", ").count(), request.columns.len(), "{values}");
            (*row, reason.clone())
        }
        _ => panic!("{error}"),
    })
}

/// All that is in the tables, as text that tells types apart.
fn content(connection: &Connection, rowids: bool) -> Vec<String> {
    let mut content = Vec::new();
    let rowid = if rowids { "rowid, " } else { "" };
    for (sql, is_ordered) in
        [(format!("SELECT {rowid}* FROM t"), false), ("SELECT * FROM log".to_owned(), true)]
    {
        let mut statement = connection.prepare(&sql).unwrap();
        let columns = statement.column_count();
        let row = |row: &rusqlite::Row<'_>| {
            (0..columns).map(|it| row.get::<_, Value>(it)).collect::<rusqlite::Result<Vec<_>>>()
        };
        let rows = statement.query_map([], row).unwrap();
        let mut rows: Vec<String> = rows.map(|row| format!("{:?}", row.unwrap())).collect();
        if !is_ordered {
            rows.sort();
        }
        content.extend(rows);
    }
    content
}

fn value() -> impl Strategy<Value = Value> {
    prop_oneof![
        20 => (0..1_000_i64).prop_map(Value::Integer),
        10 => (0..1_000_i64).prop_map(|it| Value::Text(it.to_string())),
        5 => (0..4_000).prop_map(|it| Value::Real(f64::from(it) / 4.0)),
        5 => "[abAB]{1,3} {0,2}".prop_map(Value::Text),
        2 => prop::collection::vec(0..9_u8, 0..4).prop_map(Value::Blob),
        1 => prop_oneof![Just(f64::NAN), Just(-0.0), Just(f64::INFINITY), Just(1e300)]
            .prop_map(Value::Real),
        1 => prop_oneof![Just(i64::MIN), Just(i64::MAX), Just(-1)].prop_map(Value::Integer),
        1 => Just(Value::Null),
    ]
}

/// Few rows go wrong if most keys are numbers of their own.
fn rows() -> impl Strategy<Value = Vec<Vec<Value>>> {
    let several = || prop::collection::vec(prop::collection::vec(value(), 3), 0..100);
    let keyed = || {
        (several(), any::<u64>()).prop_map(|(mut rows, seed)| {
            for (at, row) in rows.iter_mut().enumerate() {
                // 389 is no divisor of 1009, a prime: all differ.
                let number = (at as u64 * 389 + seed % 1_009) % 1_009;
                for value in row.iter_mut() {
                    *value = match number % 3 {
                        0 => Value::Text(number.to_string()),
                        1 => Value::Real(number as f64),
                        _ => Value::Integer(number as i64),
                    };
                }
            }
            rows
        })
    };
    let odd_one = (
        keyed(),
        prop_oneof![1 => Just(Value::Null), 3 => value()],
        any::<prop::sample::Index>(),
        0..3_usize,
    )
        .prop_map(|(mut rows, odd, at, column)| {
            if !rows.is_empty() {
                let at = at.index(rows.len());
                rows[at][column] = odd;
            }
            rows
        });
    prop_oneof![1 => several(), 2 => keyed(), 3 => odd_one]
}

fn request(case: &Case, rows: &[Vec<Value>]) -> InsertMany {
    let columns = case.columns.iter().map(|&it| it.to_owned()).collect();
    let rows = rows.iter().map(|row| row[..case.columns.len()].to_vec()).collect();
    InsertMany { table: "T".to_owned(), columns, rows }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    #[test]
    fn the_same_is_stored_or_the_same_row_is_refused(
        case in 0..CASES.len(), batches in prop::collection::vec(rows(), 1..3),
    ) {
        let case = &CASES[case];
        // After the largest key AUTOINCREMENT has no other one: SQLite says that the database is
        // full, and takes back the whole transaction, with the savepoint. Without it, it takes a random
        // rowid for a row that has none.
        let has = |is: fn(&Value) -> bool| batches.iter().flatten().flatten().any(is);
        let last = has(|it| *it == Value::Integer(i64::MAX));
        let none = has(|it| matches!(it, Value::Null) || matches!(it, Value::Real(it) if it.is_nan()));
        let is_random = case.rowids && none;
        prop_assume!(!(last && (is_random || case.declaration.contains("AUTOINCREMENT"))));
        let (plain, ours) = (database(case.declaration), database(case.declaration));
        let mut plans = InsertPlans::default();
        for rows in &batches {
            let request = request(case, rows);
            let expected = within_savepoint(&plain, || plainly(&plain, &request));
            let result = by_us(&ours, &mut plans, &request);
            prop_assert_eq!(result, expected, "{}", case.declaration);
            let (expected, stored) = (content(&plain, case.rowids), content(&ours, case.rowids));
            prop_assert_eq!(stored, expected, "{}", case.declaration);
        }
        let sound: String = ours.query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap();
        prop_assert_eq!(sound, "ok");
    }
}

fn ask(table: &str, columns: &[&str], rows: &[&[i64]]) -> InsertMany {
    InsertMany {
        table: table.to_owned(),
        columns: columns.iter().map(|&it| it.to_owned()).collect(),
        rows: rows.iter().map(|row| row.iter().copied().map(Value::from).collect()).collect(),
    }
}

fn insert(connection: &Connection, request: &InsertMany) -> Result<u64> {
    insert_sorted(connection, &mut InsertPlans::default(), request)
}

fn stored(connection: &Connection, sql: &str) -> Vec<i64> {
    let mut statement = connection.prepare(sql).unwrap();
    let rows = statement.query_map([], |row| row.get(0)).unwrap();
    rows.map(|row| row.unwrap()).collect()
}

/// The order in which rows went in shows where SQLite chooses rowids.
#[test]
fn rows_go_in_by_key_as_they_are_stored() {
    let connection = Connection::open_in_memory().unwrap();
    connection
        .execute_batch("CREATE TABLE t(a INT COLLATE NOCASE, b, PRIMARY KEY(a DESC, b))")
        .unwrap();
    let text = |it: &str| Value::Text(it.to_owned());
    let rows = vec![
        vec![text("9"), Value::Integer(1)],
        vec![Value::Integer(10), Value::Integer(2)],
        vec![Value::Null, Value::Integer(3)],
        vec![text("x"), Value::Integer(4)],
        vec![text("010"), Value::Integer(5)],
        vec![Value::Real(9.5), Value::Integer(6)],
        vec![text("X"), Value::Integer(1)],
    ];
    let columns = vec!["a".to_owned(), "b".to_owned()];
    let request = InsertMany { table: "t".to_owned(), columns, rows };
    assert_eq!(insert(&connection, &request).unwrap(), 7);
    let in_order = stored(&connection, "SELECT b FROM t ORDER BY rowid");
    assert_eq!(in_order, [1, 4, 2, 5, 6, 1, 3]);
}

#[test]
fn names_are_quoted_and_found_in_any_case() {
    let connection = Connection::open_in_memory().unwrap();
    connection
        .execute_batch(
            "CREATE TABLE \"a \"\"b\"\"); --\"(\"select\" INTEGER PRIMARY KEY, \"x, y\")",
        )
        .unwrap();
    let request = ask("A \"b\"); --", &["X, Y", "Select"], &[&[1, 20], &[2, 10]]);
    assert_eq!(insert(&connection, &request).unwrap(), 2);
    let sql = "SELECT \"x, y\" FROM \"a \"\"b\"\"); --\" ORDER BY \"select\"";
    assert_eq!(stored(&connection, sql), [2, 1]);
}

#[test]
fn what_cannot_be_meant_is_refused_before_anything_is_inserted() {
    let connection = Connection::open_in_memory().unwrap();
    connection
        .execute_batch(
            "CREATE TABLE t(a, b, c AS (a + b)); CREATE VIEW v AS SELECT 1 AS a;
             CREATE TABLE w(a PRIMARY KEY) WITHOUT ROWID",
        )
        .unwrap();
    for (request, expected) in [
        (ask("missing", &["a"], &[&[1]]), "no such table: missing"),
        (ask("v", &["a"], &[&[1]]), "v is a view"),
        (ask("t", &["a", "d"], &[&[1, 2]]), "t has no column d; it has a, b, c"),
        (ask("t", &["c"], &[&[1]]), "column c of t is computed from others"),
        (ask("t", &["a", "A"], &[&[1, 2]]), "column A of t is named twice"),
        (ask("t", &[], &[&[]]), "no columns of t are named"),
        (ask("w", &["rowid"], &[&[1]]), "w has no column rowid"),
        (ask("t", &["a", "b"], &[&[1, 2], &[3]]), "row 2 has 1 value for 2 columns of t"),
        (ask("t", &["a\0"], &[&[1]]), "t has no column a\\u{0}; it has"),
    ] {
        let error = insert(&connection, &request).unwrap_err();
        let kind = error.kind();
        let is_missing = expected.starts_with("no such") || expected.contains("has no column");
        let is_expected = match kind {
            ErrorKind::NotFound { .. } => is_missing,
            kind => matches!(kind, ErrorKind::Misuse(_)) && !is_missing,
        };
        assert!(is_expected, "{error:?}");
        assert!(error.to_string().starts_with(expected), "{error}");
    }
    assert_eq!(stored(&connection, "SELECT count(*) FROM t"), [0]);
    assert_eq!(insert(&connection, &ask("t", &["a"], &[])).unwrap(), 0);
}

#[test]
fn the_error_shows_the_row_as_given_and_its_values() {
    let connection = Connection::open_in_memory().unwrap();
    connection.execute_batch("CREATE TABLE t(id INTEGER PRIMARY KEY, a CHECK (a < 90))").unwrap();
    let rows: Vec<[i64; 2]> = (0..100).map(|it| [1_000 - it, it]).collect();
    let rows: Vec<&[i64]> = rows.iter().map(<[i64; 2]>::as_slice).collect();
    let error = insert(&connection, &ask("t", &["id", "a"], &rows)).unwrap_err();
    let expected = "t: CHECK constraint failed: a < 90\n  row 91: 910, 90\n";
    assert!(error.to_string().starts_with(expected), "{error}");
}

#[test]
fn an_expression_that_fails_on_a_value_is_the_fault_of_its_row() {
    let connection = Connection::open_in_memory().unwrap();
    let sql = "CREATE TABLE t(a PRIMARY KEY CHECK (abs(a) > 0)); BEGIN";
    connection.execute_batch(sql).unwrap();
    let request = ask("t", &["a"], &[&[7], &[i64::MIN], &[5]]);
    let error = insert(&connection, &request).unwrap_err().to_string();
    let expected = "t: integer overflow\n  row 2: -9223372036854775808\n";
    assert!(error.starts_with(expected), "{error}");
    let alone = insert_alone(&connection, &mut InsertPlans::default(), &request).unwrap();
    assert!(matches!(alone, Alone::Refused));
}

#[test]
fn a_change_of_the_schema_makes_a_new_plan() {
    let connection = Connection::open_in_memory().unwrap();
    let mut plans = InsertPlans::default();
    let request = ask("t", &["a"], &[&[2], &[1], &[3]]);
    let mut insert = |connection: &Connection| {
        connection.execute_batch("DELETE FROM t").unwrap();
        insert_sorted(connection, &mut plans, &request).unwrap();
        plans.committed();
        stored(connection, "SELECT a FROM t ORDER BY rowid")
    };
    connection.execute_batch("CREATE TABLE t(a)").unwrap();
    assert_eq!(insert(&connection), [2, 1, 3]);
    connection.execute_batch("DROP TABLE t; CREATE TABLE t(a PRIMARY KEY)").unwrap();
    assert_eq!(insert(&connection), [1, 2, 3]);
    // A trigger may depend on the order, even one of this connection alone.
    connection
        .execute_batch("CREATE TEMP TRIGGER it AFTER INSERT ON main.t BEGIN SELECT 1; END")
        .unwrap();
    assert_eq!(insert(&connection), [2, 1, 3]);
}

#[test]
fn a_plan_of_a_schema_that_was_rolled_back_is_forgotten() {
    let connection = Connection::open_in_memory().unwrap();
    let mut plans = InsertPlans::default();
    let request = ask("t", &["a"], &[&[2], &[1], &[3]]);
    connection.execute_batch("BEGIN; CREATE TABLE t(a PRIMARY KEY)").unwrap();
    insert_sorted(&connection, &mut plans, &request).unwrap();
    assert_eq!(stored(&connection, "SELECT a FROM t ORDER BY rowid"), [1, 2, 3]);
    connection.execute_batch("ROLLBACK").unwrap();
    plans.rolled_back();
    // Another table under the same version of the schema.
    connection.execute_batch("CREATE TABLE t(a)").unwrap();
    insert_sorted(&connection, &mut plans, &request).unwrap();
    assert_eq!(stored(&connection, "SELECT a FROM t ORDER BY rowid"), [2, 1, 3]);
}

#[test]
fn plans_do_not_pile_up() {
    let connection = Connection::open_in_memory().unwrap();
    let mut plans = InsertPlans::default();
    for table in 0..200 {
        let name = format!("t{table}");
        connection.execute_batch(&format!("CREATE TABLE {name}(a)")).unwrap();
        insert_sorted(&connection, &mut plans, &ask(&name, &["a"], &[&[1]])).unwrap();
        insert_sorted(&connection, &mut plans, &ask("t0", &["a"], &[&[1]])).unwrap();
    }
    assert_eq!(plans.len(), 64);
    assert_eq!(stored(&connection, "SELECT count(*) FROM t0"), [201]);
}

/// A schema other than the main one is never written to.
#[test]
fn a_temporary_table_of_the_same_name_is_left_alone() {
    let connection = Connection::open_in_memory().unwrap();
    connection
        .execute_batch("CREATE TABLE t(id INTEGER PRIMARY KEY, a); CREATE TEMP TABLE t(b)")
        .unwrap();
    assert_eq!(insert(&connection, &ask("t", &["a", "id"], &[&[1, 2], &[2, 1]])).unwrap(), 2);
    assert_eq!(stored(&connection, "SELECT count(*) FROM temp.t"), [0]);
    assert_eq!(stored(&connection, "SELECT a FROM main.t"), [2, 1]);
}

/// Neither of the rows that went in before, nor of what a trigger did.
#[test]
fn after_an_error_nothing_is_left_and_the_transaction_goes_on() {
    let connection = Connection::open_in_memory().unwrap();
    connection
        .execute_batch(
            "CREATE TABLE t(a); CREATE TABLE log(a);
             CREATE TRIGGER it AFTER INSERT ON t WHEN new.a > 8 BEGIN
                 INSERT INTO log VALUES(new.a); SELECT RAISE(FAIL, 'too large'); END;
             CREATE TABLE plain(a UNIQUE);
             BEGIN; INSERT INTO t VALUES(1)",
        )
        .unwrap();
    for request in [
        ask("t", &["a"], &[&[9]]),
        ask("t", &["a"], &[&[2], &[9]]),
        ask("plain", &["a"], &[&[5], &[4], &[5]]),
    ] {
        insert(&connection, &request).unwrap_err();
        assert!(!connection.is_autocommit());
        let left = "SELECT count(*) FROM (SELECT a FROM t UNION ALL SELECT a FROM log UNION ALL SELECT a FROM plain)";
        assert_eq!(stored(&connection, left), [1]);
    }
    connection.execute_batch("COMMIT").unwrap();
}
