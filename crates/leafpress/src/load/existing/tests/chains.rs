//! Rows that refer to rows of their own table, where some of these are refused. The model: all
//! rows are inserted, those that refer to nothing go, and all of it again, until none goes.

use proptest::prelude::*;
use rusqlite::params_from_iter;
use rusqlite::types::Value;

use super::super::one_by_one::PASSES_WITH_ALL_CHANGES;
use super::*;

impl Place {
    /// Inserts what can be. Returns the rows that were refused, and what the report says.
    pub(super) fn insert_skipping(
        &self,
        names: &[&str],
        mode: InsertMode,
    ) -> (Vec<RefusedRow>, String) {
        let existing = inspect(&self.database, WAIT).unwrap();
        let columns: Vec<String> = names.iter().map(|&it| it.to_owned()).collect();
        let into = InsertInto { table: "t", columns: &columns, mode };
        let mut refused = Vec::new();
        let mut decide = |rows: &[RefusedRow]| {
            refused = rows.to_vec();
            Ok(())
        };
        let mut refusals = Refusals {
            stops: false,
            with_values: true,
            reads_database: false,
            decide: &mut decide,
        };
        let staged = self.staged("s");
        let outcome = insert_one_by_one(&existing, &staged, &into, &settings(), &mut refusals);
        (refused, outcome.unwrap().path)
    }
}

/// Rows of a chain: each refers to the one before, and the first to one that is not there.
const ROWS: i64 = 5_000;

/// If passes grew with the chain these would be 5,001, of 5,000 rows each.
#[test]
fn a_chain_without_its_first_parent_takes_two_passes() {
    let forms = [
        ("id INTEGER PRIMARY KEY, parent REFERENCES t(id)", "", ""),
        ("id PRIMARY KEY, parent REFERENCES t", " WITHOUT ROWID", ""),
        ("id TEXT COLLATE NOCASE UNIQUE, parent BLOB REFERENCES t(id)", "", "'k' || "),
    ];
    for (columns, form, key) in forms {
        for (order, copies) in [("ASC", 1), ("DESC", 2)] {
            let parent = key.to_uppercase();
            let place = Place::new(&format!(
                // Without the index SQLite itself searches the table for each row.
                "CREATE TABLE t({columns}){form}; CREATE INDEX t_parent ON t(parent)"
            ))
            .stage(&format!(
                "CREATE TABLE s(id, parent);
                 INSERT INTO s SELECT {key}value, {parent}(value - 1) FROM series({ROWS})
                     ORDER BY value {order};
                 INSERT INTO s SELECT {key}(-value), NULL FROM series(3);
                 INSERT INTO s SELECT id, parent FROM s WHERE parent IS NOT NULL AND {copies} = 2;"
            ));
            let (refused, path) = place.insert_skipping(&["id", "parent"], InsertMode::Append);
            assert_eq!(content(&open(&place.database), "t").len(), 3, "{columns} {order}");
            assert_eq!(refused.len() as i64, ROWS * copies, "{columns} {order}");
            assert!(refused.iter().all(|row| row.values.is_some()));
            assert!(path.contains("row by row in 2 passes"), "{path}: {columns} {order} {copies}");
        }
    }
}

/// With two keys a row that waits for one of them may be refused for the other. So the first passes
/// take one row of the chain each, and then all others go at once.
#[test]
fn a_chain_of_a_table_with_two_keys_takes_few_passes() {
    let place = Place::new(
        "CREATE TABLE t(id INTEGER PRIMARY KEY, parent REFERENCES t(id), other UNIQUE);
         CREATE INDEX t_parent ON t(parent)",
    )
    .stage(&format!(
        "CREATE TABLE s(id, parent);
         INSERT INTO s SELECT value, value - 1 FROM series({ROWS});
         INSERT INTO s SELECT id, parent FROM s;
         INSERT INTO s SELECT -value, NULL FROM series(3);"
    ));
    let (refused, path) = place.insert_skipping(&["id", "parent"], InsertMode::Append);
    assert_eq!(content(&open(&place.database), "t").len(), 3);
    assert_eq!(refused.len() as i64, 2 * ROWS);
    let words = path.split_once("row by row in ").unwrap().1;
    let passes: u64 = words.split_once(" passes").unwrap().0.parse().unwrap();
    assert!(passes <= PASSES_WITH_ALL_CHANGES + 4, "{path}");
}

/// A trigger that makes the parent where it is not there: its row does not go with that parent.
#[test]
fn a_row_whose_trigger_makes_its_parent_stays() {
    let place = Place::new(
        "CREATE TABLE other(k PRIMARY KEY);
         CREATE TABLE t(id INTEGER PRIMARY KEY, parent REFERENCES t(id),
             o REFERENCES other DEFERRABLE INITIALLY DEFERRED);
         CREATE TRIGGER make BEFORE INSERT ON t WHEN new.parent IS NOT NULL BEGIN
             INSERT INTO t SELECT new.parent, NULL, NULL
             WHERE NOT EXISTS (SELECT 1 FROM t WHERE id = new.parent); END;",
    )
    .stage("CREATE TABLE s(id, parent, o); INSERT INTO s VALUES (1, NULL, 9), (2, 1, NULL)");
    let (refused, _) = place.insert_skipping(&["id", "parent", "o"], InsertMode::Append);
    assert_eq!(refused.iter().map(|row| row.number).collect::<Vec<_>>(), [0]);
    assert_eq!(content(&open(&place.database), "t").len(), 2);
}

/// Row 4 was refused for a key, so row 2 has no parent row, and row 3, which has its key, waits.
/// In the second pass row 4 comes, with it row 3, and row 1 keeps its parent.
#[test]
fn a_row_whose_parent_comes_later_stays() {
    let setup = "CREATE TABLE t(id INTEGER PRIMARY KEY, code UNIQUE, parent REFERENCES t(id))";
    let rows = [
        (Some(6), Some(0), Some(1)),
        (Some(8), None, Some(4)),
        (Some(4), None, Some(2)),
        (Some(4), None, Some(2)),
        (Some(2), Some(0), None),
    ];
    let (content, refused) = inserted(setup, &rows, InsertMode::Append);
    assert_eq!(refused, [0, 2]);
    assert_eq!((content, refused), modelled(setup, &rows, InsertMode::Append));
}

/// The content that is left, and the rows that are refused.
fn inserted(setup: &str, rows: &[Cells], mode: InsertMode) -> (Vec<Vec<Value>>, Vec<u64>) {
    let place = Place::new(setup).stage("CREATE TABLE s(id, code, parent)");
    for row in rows {
        let sql = "INSERT INTO s VALUES (?, ?, ?)";
        open(&place.staged).execute(sql, params_from_iter(row_values(row))).unwrap();
    }
    let (refused, _) = place.insert_skipping(&COLUMNS, mode);
    let refused = refused.iter().map(|row| row.number).collect();
    (content(&open(&place.database), "t"), refused)
}

type Cells = (Option<i64>, Option<i64>, Option<i64>);

const COLUMNS: [&str; 3] = ["id", "code", "parent"];

fn upsert(mode: InsertMode) -> &'static str {
    match mode {
        InsertMode::Append | InsertMode::Replace => "",
        InsertMode::Ignore => "ON CONFLICT DO NOTHING",
        InsertMode::Upsert => {
            "ON CONFLICT (id) DO UPDATE SET code = excluded.code, parent = excluded.parent"
        }
    }
}

fn row_values(row: &Cells) -> [Value; 3] {
    [row.0, row.1, row.2].map(|cell| cell.map_or(Value::Null, Value::Integer))
}

/// The result of [`inserted`], by the model.
fn modelled(setup: &str, rows: &[Cells], mode: InsertMode) -> (Vec<Vec<Value>>, Vec<u64>) {
    let mut without: Vec<u64> = Vec::new();
    loop {
        let database = Connection::open_in_memory().unwrap();
        database.execute_batch("PRAGMA foreign_keys=OFF").unwrap();
        database.execute_batch(setup).unwrap();
        let mut refused = without.clone();
        let mut of_row = std::collections::HashMap::new();
        let sql = format!("INSERT INTO t VALUES (?, ?, ?) {} RETURNING id", upsert(mode));
        for (number, row) in (0..).zip(rows) {
            if without.contains(&number) {
                continue;
            }
            let mut statement = database.prepare(&sql).unwrap();
            let mut ids = statement.query(params_from_iter(row_values(row))).unwrap();
            match ids.next() {
                Ok(Some(id)) => drop(of_row.insert(id.get::<_, i64>(0).unwrap(), number)),
                Ok(None) => {}
                Err(_) => refused.push(number),
            }
        }
        let sql = "SELECT rowid FROM pragma_foreign_key_check('t')";
        let mut statement = database.prepare(sql).unwrap();
        let dangling = statement.query_map([], |row| row.get::<_, i64>(0)).unwrap();
        let gone: Vec<u64> = dangling.filter_map(|id| of_row.get(&id.unwrap()).copied()).collect();
        if gone.is_empty() {
            refused.sort_unstable();
            refused.dedup();
            return (content(&database, "t"), refused);
        }
        without.extend(gone);
    }
}

fn cases() -> u32 {
    let asked = std::env::var("LEAFPRESS_CASES").ok().and_then(|cases| cases.parse().ok());
    asked.unwrap_or(150)
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(cases()) })]

    #[test]
    fn rows_that_lose_their_parent_are_those_of_the_model(
        old in prop::collection::vec(1_i64..9, 0..3),
        rows in prop::collection::vec(
            (
                (1_i64..9).prop_map(Some),
                prop::option::weighted(0.5, 0_i64..9),
                prop::option::weighted(0.8, 1_i64..10),
            ),
            0..14,
        ),
        mode in prop::sample::select(vec![InsertMode::Append, InsertMode::Ignore, InsertMode::Upsert]),
        code in prop::sample::select(vec!["code", "code UNIQUE", "code UNIQUE CHECK (code <> 3)"]),
    ) {
        let mut setup = format!(
            "CREATE TABLE t(id INTEGER PRIMARY KEY, {code}, parent REFERENCES t(id));"
        );
        for id in old {
            setup += &*format!("INSERT OR IGNORE INTO t VALUES ({id}, NULL, NULL);");
        }
        prop_assert_eq!(inserted(&setup, &rows, mode), modelled(&setup, &rows, mode));
    }
}
