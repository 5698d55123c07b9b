//! Shapes by example, and against what SQLite really stores.

use leafpress_format::{NumberText, Value, compare_keys};
use leafpress_testing::{StoredColumn, TreeReader};
use proptest::prelude::*;
use rusqlite::Connection;

use super::*;

fn shape(sql: &str) -> TableShape {
    describe(&[sql.to_owned()], None).unwrap_or_else(|error| panic!("{sql}: {error}"))
}

fn reason(sql: &str) -> String {
    shape(sql).through_sql.unwrap_or_default()
}

fn defaults(sql: &str) -> Vec<Option<OwnedValue>> {
    shape(sql).columns.into_iter().map(|column| column.default).collect()
}

#[test]
fn only_a_plain_integer_primary_key_is_the_rowid() {
    for (sql, expected) in [
        ("CREATE TABLE t(a, id INTEGER PRIMARY KEY)", Some(1)),
        ("CREATE TABLE t(a, id integer, PRIMARY KEY(id))", Some(1)),
        ("CREATE TABLE t(id INTEGER, a, PRIMARY KEY(id DESC))", Some(0)),
        ("CREATE TABLE t(id INTEGER PRIMARY KEY DESC)", None),
        ("CREATE TABLE t(id INT PRIMARY KEY)", None),
        ("CREATE TABLE t(id INTEGER, b, PRIMARY KEY(id, b))", None),
        ("CREATE TABLE t(id INTEGER PRIMARY KEY) WITHOUT ROWID", None),
        ("CREATE TABLE t(a)", None),
    ] {
        assert_eq!(shape(sql).rowid_column, expected, "{sql}");
    }
}

#[test]
fn entries_hold_what_sqlite_stores() {
    use EntryColumn::{Column, Rowid};
    let shape = shape(
        "CREATE TABLE t(id INTEGER PRIMARY KEY, a TEXT UNIQUE COLLATE NOCASE, b);
         CREATE INDEX i ON t(b DESC, id, b COLLATE RTRIM);",
    );
    let [automatic, named] = shape.indexes.as_slice() else { panic!("{shape:?}") };
    assert_eq!(automatic.entry.columns, [Column(1), Rowid]);
    assert_eq!((automatic.unique, automatic.entry.unique_columns), (true, 1));
    assert_eq!(automatic.entry.order[0].collation, Collation::NoCase);
    assert_eq!(automatic.sql, None);
    assert_eq!(named.entry.columns, [Column(2), Rowid, Column(2), Rowid]);
    assert_eq!(named.entry.order[0].order, SortOrder::Descending);
    assert_eq!(named.entry.order[2].collation, Collation::RTrim);
    assert_eq!((named.unique, named.name.as_str()), (false, "i"));
    assert!(named.sql.as_ref().is_some_and(|sql| sql.starts_with("CREATE INDEX i")));
}

#[test]
fn a_table_without_rowids_has_its_key_first() {
    use EntryColumn::Column;
    let shape = shape(
        "CREATE TABLE t(a, b TEXT, c, d UNIQUE, PRIMARY KEY(c DESC, b COLLATE RTRIM, c)) WITHOUT ROWID",
    );
    let key = shape.key.expect("a key");
    assert_eq!(key.columns, [Column(2), Column(1), Column(0), Column(3)]);
    assert_eq!((key.order.len(), key.unique_columns), (2, 2));
    assert_eq!(key.order[0].order, SortOrder::Descending);
    assert_eq!(key.order[1].collation, Collation::RTrim);
    let [unique] = shape.indexes.as_slice() else { panic!("one index") };
    assert_eq!(unique.entry.columns, [Column(3), Column(2), Column(1)]);
    let lone = "CREATE TABLE t(a INTEGER, PRIMARY KEY(a COLLATE NOCASE)) WITHOUT ROWID";
    assert_eq!(self::shape(lone).key.expect("a key").order, [KeyColumn::default()]);
}

#[test]
fn columns_without_null_are_those_where_sqlite_takes_none() {
    for sql in [
        "CREATE TABLE t(a TEXT PRIMARY KEY)",
        "CREATE TABLE t(a TEXT PRIMARY KEY NOT NULL)",
        "CREATE TABLE t(a TEXT PRIMARY KEY) STRICT",
        "CREATE TABLE t(a TEXT PRIMARY KEY) WITHOUT ROWID",
        "CREATE TABLE t(a TEXT UNIQUE NOT NULL)",
        "CREATE TABLE t(a TEXT UNIQUE NULL)",
    ] {
        let connection = declare(&[sql.to_owned()]).expect("the schema");
        let is_taken = connection.execute("INSERT INTO t VALUES(NULL)", []).is_ok();
        assert_eq!(shape(sql).columns[0].not_null, !is_taken, "{sql}");
    }
}

#[test]
fn what_needs_sqlite_for_each_row_is_named() {
    for (sql, part) in [
        ("CREATE TABLE t(a CHECK (a > 0))", "CHECK"),
        ("CREATE TABLE t(a UNIQUE ON CONFLICT REPLACE)", "ON CONFLICT"),
        ("CREATE TABLE t(a NOT NULL ON/**/CONFLICT IGNORE)", "ON CONFLICT"),
        ("CREATE TABLE t(a, b AS (a))", "\"b\" is generated"),
        ("CREATE TABLE t(a, b AS (a) STORED)", "\"b\" is generated"),
        ("CREATE TABLE t(a); CREATE TRIGGER x AFTER INSERT ON t BEGIN SELECT 1; END", "trigger"),
        ("CREATE TABLE t(a \"\")", "empty name"),
        ("CREATE TABLE t(a '')", "empty name"),
        ("CREATE TABLE t(a [])", "empty name"),
    ] {
        assert!(reason(sql).contains(part), "{sql}: {}", reason(sql));
    }
    for sql in [
        "CREATE TABLE t(\"check\" TEXT, b DEFAULT 'CHECK' /* CHECK */)",
        "CREATE TABLE t(a TEXT DEFAULT '', conflict REFERENCES u ON DELETE CASCADE)",
        "CREATE TABLE t(a ANY) STRICT; CREATE VIEW v AS SELECT 1",
    ] {
        assert_eq!(reason(sql), "", "{sql}");
    }
}

#[test]
fn some_indexes_are_for_sqlite_to_build() {
    for (index, part) in [
        ("CREATE INDEX i ON t(a) WHERE b", "some rows"),
        ("CREATE INDEX i ON t(a, lower(b))", "expression"),
    ] {
        let shape = shape(&format!("CREATE TABLE t(a, b); {index}"));
        assert_eq!(shape.through_sql, None);
        let reason = shape.indexes[0].through_sql.clone().unwrap_or_default();
        assert!(reason.contains(part), "{index}: {reason}");
    }
}

#[test]
fn a_collation_of_some_program_is_not_guessed() {
    let connection = Connection::open_in_memory().expect("memory");
    connection.create_collation("mine", str::cmp).expect("collation");
    connection
        .execute_batch("CREATE TABLE t(a COLLATE mine PRIMARY KEY, b); CREATE INDEX i ON t(b)")
        .expect("tables");
    let shape = describe_existing(&connection, "main", "T").expect("a shape");
    assert!(shape.through_sql.is_some_and(|reason| reason.contains("mine")));
    assert_eq!(shape.indexes[1].through_sql, None);
}

#[test]
fn defaults_are_what_sqlite_stores() {
    use OwnedValue::{Integer, Null, Real, Text};
    let found = defaults(
        "CREATE TABLE t(a, b TEXT DEFAULT 5, c INTEGER DEFAULT '07', d REAL DEFAULT 1, \
         e DEFAULT hello, f DEFAULT (1 + 2), g DEFAULT -3.5, h DEFAULT 'it''s', \
         i DEFAULT (lower('X') || 'y'), j DEFAULT true, k DEFAULT NULL)",
    );
    let expected = [
        Null,
        Text("5".into()),
        Integer(7),
        Real(1.0),
        Text("hello".into()),
        Integer(3),
        Real(-3.5),
        Text("it's".into()),
        Text("xy".into()),
        Integer(1),
        Null,
    ];
    assert_eq!(found, expected.map(Some));
    let now = &defaults("CREATE TABLE t(a DEFAULT CURRENT_TIMESTAMP)")[0];
    assert!(matches!(now, Some(Text(now)) if now.len() == 19), "{now:?}");
    assert_eq!(defaults("CREATE TABLE t(a DEFAULT (hex(randomblob(4))))"), [None]);
    assert_eq!(defaults("CREATE TABLE t(a INTEGER PRIMARY KEY DEFAULT 7)"), [Some(Null)]);
    assert_eq!(defaults("CREATE TABLE t(a DEFAULT (5 NOT NULL))"), [Some(Integer(1))]);
    assert_eq!(defaults("CREATE TABLE t(a DEFAULT 5 NOT NULL)"), [Some(Integer(5))]);
    let names = defaults("CREATE TABLE t(a DEFAULT a, b DEFAULT \"b\")");
    assert_eq!(names, ["a", "b"].map(|it| Some(Text(it.into()))));
    assert_eq!(defaults("CREATE TABLE t(a DEFAULT (CAST(x'ff' AS TEXT)))"), [None]);
    assert_eq!(
        defaults("CREATE TABLE t(a INT DEFAULT 'x', b ANY DEFAULT '1') STRICT"),
        [None, Some(Text("1".into()))]
    );
}

#[test]
fn the_rest_of_a_schema_is_kept() {
    let schema = [
        "CREATE TABLE u(x UNIQUE); CREATE INDEX j ON u(x);".to_owned(),
        "CREATE TABLE t(a INTEGER PRIMARY KEY AUTOINCREMENT, b REFERENCES u);
         CREATE TABLE sqlite_sequence(name,seq);"
            .to_owned(),
        "CREATE VIEW v AS SELECT * FROM t; CREATE INDEX i ON t(b);".to_owned(),
    ];
    let shape = describe(&schema, Some("T")).expect("a shape");
    assert_eq!(shape.name, "t");
    assert_eq!((shape.autoincrement, shape.has_foreign_keys, shape.strict), (true, true, false));
    assert_eq!(
        shape.beside,
        ["CREATE TABLE u(x UNIQUE)", "CREATE INDEX j ON u(x)", "CREATE VIEW v AS SELECT * FROM t"]
    );
    let error = describe(&schema, None).expect_err("two tables").to_string();
    assert!(error.contains("several tables: u, t"), "{error}");
    let error = describe(&schema, Some("w")).expect_err("no such table").to_string();
    assert!(error.contains("no table 'w'; tables: u, t"), "{error}");
    let error = describe(&schema, Some("v")).expect_err("a view").to_string();
    assert!(error.contains("'v' is a view"), "{error}");
}

#[test]
fn nothing_but_create_is_run() {
    for sql in [
        "CREATE TABLE t(a); INSERT INTO t VALUES(1)",
        "CREATE TABLE t AS SELECT 1 AS a",
        "CREATE TEMP TABLE t(a)",
        "CREATE VIRTUAL TABLE t USING fts5(a)",
        "CREATE TABLE t(a); DROP TABLE t",
        "CREATE TABLE t(a); ALTER TABLE t ADD COLUMN b",
        "ATTACH ':memory:' AS x; CREATE TABLE x.t(a)",
        "PRAGMA user_version = 7; CREATE TABLE t(a)",
        "BEGIN; CREATE TABLE t(a); COMMIT",
        "VACUUM INTO 'leafpress-must-not-write-this'; CREATE TABLE t(a)",
        "EXPLAIN CREATE TABLE t(a)",
        "CREATE TABLE t(a); SELECT 1",
        "CREATE TABLE t(a); REINDEX",
        "CREATE TABLE t(a,)",
        "CREATE INDEX i ON t(a)",
        "",
    ] {
        assert!(describe(&[sql.to_owned()], None).is_err(), "{sql}");
    }
}

/// Column, collation and direction of a part of a key.
type KeyPart = (u8, u8, bool);

/// A declared table that SQLite accepts, by choices: of columns type, collation
/// and UNIQUE; of indexes UNIQUE and key.
#[derive(Debug)]
struct SchemaRecipe {
    columns: Vec<(u8, u8, bool)>,
    key: Vec<KeyPart>,
    table_kind: u8,
    indexes: Vec<(bool, Vec<KeyPart>)>,
}

impl SchemaRecipe {
    fn sql(&self) -> String {
        const TYPES: [&str; 10] = [
            "",
            "INTEGER",
            "REAL",
            "TEXT",
            "BLOB",
            "NUMERIC",
            "VARCHAR(9)",
            "STRING",
            "DOUBLE",
            "CHARINT",
        ];
        let mut declared: Vec<String> = self
            .columns
            .iter()
            .enumerate()
            .map(|(index, &(kind, collation, unique))| {
                let kind = TYPES[usize::from(kind) % TYPES.len()];
                let unique = if unique { " UNIQUE" } else { "" };
                format!("c{index} {kind}{}{unique}", collation_sql(collation))
            })
            .collect();
        let ending = if self.table_kind == 2 { ") WITHOUT ROWID" } else { ")" };
        if self.table_kind > 0 {
            declared.push(format!("PRIMARY KEY({})", self.key_sql(&self.key)));
        }
        let mut statements = vec![format!("CREATE TABLE t({}{ending}", declared.join(", "))];
        for (number, (unique, key)) in self.indexes.iter().enumerate() {
            let unique = if *unique { "UNIQUE " } else { "" };
            statements.push(format!("CREATE {unique}INDEX i{number} ON t({})", self.key_sql(key)));
        }
        statements.join(";\n")
    }

    fn key_sql(&self, key: &[KeyPart]) -> String {
        let part = |&(column, collation, descending): &KeyPart| {
            let order = if descending { " DESC" } else { "" };
            let column = usize::from(column) % self.columns.len();
            format!("c{column}{}{order}", collation_sql(collation))
        };
        key.iter().map(part).collect::<Vec<_>>().join(", ")
    }
}

fn collation_sql(choice: u8) -> &'static str {
    ["", " COLLATE BINARY", " COLLATE NOCASE", " COLLATE RTRIM"][usize::from(choice) % 4]
}

fn schema_strategy() -> impl Strategy<Value = SchemaRecipe> {
    let key = || prop::collection::vec(any::<KeyPart>(), 1..4);
    let column = (any::<u8>(), any::<u8>(), prop::bool::weighted(0.2));
    let index = (prop::bool::weighted(0.3), key());
    let columns = prop::collection::vec(column, 1..5);
    (columns, key(), 0..3_u8, prop::collection::vec(index, 0..3)).prop_map(
        |(columns, key, table_kind, indexes)| SchemaRecipe { columns, key, table_kind, indexes },
    )
}

fn value_strategy() -> impl Strategy<Value = OwnedValue> {
    prop_oneof![
        Just(OwnedValue::Null),
        (-3..3_i64).prop_map(OwnedValue::Integer),
        any::<i64>().prop_map(OwnedValue::Integer),
        (-4..4_i8).prop_map(|half| OwnedValue::Real(f64::from(half) / 2.0)),
        "[aAbB1 ]{0,4}".prop_map(OwnedValue::Text),
        "-?[0-9]{1,3}(\\.[0-9])?".prop_map(OwnedValue::Text),
        prop::collection::vec(0..3_u8, 0..4).prop_map(OwnedValue::Blob),
    ]
}

fn as_value(value: &OwnedValue) -> Value<'_> {
    match value {
        OwnedValue::Null => Value::Null,
        OwnedValue::Integer(integer) => Value::Integer(*integer),
        OwnedValue::Real(real) => Value::Real(*real),
        OwnedValue::Text(text) => Value::Text(text.as_bytes()),
        OwnedValue::Blob(blob) => Value::Blob(blob),
    }
}

fn stored_value<'v>(stored: &StoredColumn<'v>) -> Value<'v> {
    match stored.serial_type {
        0 => Value::Null,
        7 => Value::Real(stored.real().expect("a real")),
        1..=9 => Value::Integer(stored.integer().expect("an integer")),
        even if even % 2 == 0 => Value::Blob(stored.content),
        _ => Value::Text(stored.content),
    }
}

/// Integral reals are stored as integers: both sides alike.
#[expect(clippy::float_cmp, reason = "the same number is meant")]
fn same(left: Value<'_>, right: Value<'_>) -> bool {
    match (left, right) {
        (Value::Integer(integer), Value::Real(real))
        | (Value::Real(real), Value::Integer(integer)) => integer as f64 == real,
        _ => left == right,
    }
}

type StoredRow = (i64, Vec<OwnedValue>);

/// Lets SQLite insert the rows; gives back what it holds, and the file's bytes.
fn stored(sql: &str, rows: &[Vec<OwnedValue>], shape: &TableShape) -> (Vec<StoredRow>, Vec<u8>) {
    let mut connection = Connection::open_in_memory().expect("memory");
    connection.execute_batch(sql).expect("the schema");
    let marks = vec!["?"; shape.columns.len()].join(", ");
    for row in rows {
        let values = row.iter().cycle().take(shape.columns.len()).map(|value| match value {
            OwnedValue::Null => rusqlite::types::Value::Null,
            OwnedValue::Integer(integer) => (*integer).into(),
            OwnedValue::Real(real) => (*real).into(),
            OwnedValue::Text(text) => text.clone().into(),
            OwnedValue::Blob(blob) => blob.clone().into(),
        });
        // A value that is no integer has no place in the rowid's alias.
        let insert = format!("INSERT OR IGNORE INTO t VALUES({marks})");
        let _ = connection.execute(&insert, rusqlite::params_from_iter(values));
    }
    let rowid = if shape.key.is_some() { "0" } else { "rowid" };
    let mut statement = connection.prepare(&format!("SELECT {rowid}, * FROM t")).expect("a query");
    let rows = statement
        .query_map([], |row| {
            let values = (1..=shape.columns.len())
                .map(|column| Ok(owned(row.get_ref(column)?).expect("UTF-8")));
            Ok((row.get(0)?, values.collect::<rusqlite::Result<_>>()?))
        })
        .expect("rows")
        .collect::<rusqlite::Result<_>>()
        .expect("rows");
    drop(statement);
    (rows, leafpress_testing::serialized(&mut connection))
}

/// The B-tree holds the rows, projected, in the order that the shape tells.
fn check_tree(entry: &EntryShape, root: u32, rows: &[StoredRow], file: &[u8]) {
    let project = |(rowid, values): &StoredRow| -> Vec<OwnedValue> {
        let column = |column: &EntryColumn| match column {
            EntryColumn::Column(column) => values[*column].clone(),
            EntryColumn::Rowid => OwnedValue::Integer(*rowid),
        };
        entry.columns.iter().map(column).collect()
    };
    let mut expected: Vec<Vec<OwnedValue>> = rows.iter().map(project).collect();
    let compare = |left: &[Value<'_>], right: &[Value<'_>]| {
        let columns = entry.order.len();
        compare_keys(&left[..columns], &right[..columns], &entry.order)
    };
    expected.sort_by(|left, right| {
        let [left, right] = [left, right].map(|row| row.iter().map(as_value).collect::<Vec<_>>());
        compare(&left, &right)
    });
    let entries = TreeReader::new(file).entries(root);
    assert_eq!(entries.len(), expected.len());
    for (entry, expected) in entries.iter().zip(&expected) {
        let stored: Vec<Value<'_>> = entry.columns().iter().map(stored_value).collect();
        let expected: Vec<Value<'_>> = expected.iter().map(as_value).collect();
        assert_eq!(stored.len(), expected.len());
        let all_same = stored.iter().zip(&expected).all(|(left, right)| same(*left, *right));
        assert!(all_same, "{stored:?} {expected:?}");
    }
}

fn root_page(connection: &Connection, name: &str) -> u32 {
    connection
        .query_row("SELECT rootpage FROM sqlite_schema WHERE name = ?1", [name], |row| row.get(0))
        .expect("a root page")
}

proptest! {
    /// Affinities, entry columns and their order are those of the trees that
    /// SQLite makes of the same schema.
    #[test]
    fn the_shape_is_that_of_sqlites_trees(
        recipe in schema_strategy(),
        rows in prop::collection::vec(prop::collection::vec(value_strategy(), 1..5), 0..30),
    ) {
        let sql = recipe.sql();
        let shape = shape(&sql);
        prop_assert_eq!(&shape.through_sql, &None);
        let (stored_rows, file) = stored(&sql, &rows, &shape);
        let connection = declare(&[sql]).expect("the schema");
        if let Some(key) = &shape.key {
            check_tree(key, root_page(&connection, "t"), &stored_rows, &file);
        }
        for index in &shape.indexes {
            check_tree(&index.entry, root_page(&connection, &index.name), &stored_rows, &file);
        }
        let mut number = NumberText::new();
        for (_, values) in &stored_rows {
            for (column, value) in shape.columns.iter().zip(values) {
                let applied = column.affinity.apply(as_value(value), &mut number);
                prop_assert_eq!(applied, as_value(value), "{}", &column.declared_type);
            }
        }
    }

    /// A column's affinity does to a value what SQLite does.
    #[test]
    fn affinities_are_sqlites(
        declared_type in "([A-Z]{0,4}(INT|CHAR|CLOB|TEXT|BLOB|REAL|FLOA|DOUB|NUM)?[A-Z]{0,3}){0,2}",
        value in value_strategy(),
    ) {
        let declared_type = if declared_type.is_empty() { String::new() } else { format!("x{declared_type}") };
        let sql = format!("CREATE TABLE t(a {declared_type})");
        let shape = shape(&sql);
        let (rows, _) = stored(&sql, &[vec![value.clone()]], &shape);
        let mut number = NumberText::new();
        let applied = shape.columns[0].affinity.apply(as_value(&value), &mut number);
        prop_assert_eq!(applied, as_value(&rows[0].1[0]), "{}", declared_type);
    }
}
