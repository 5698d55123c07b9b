//! Columns whose names differ only in case, through all ways of a load.

use std::fs;
use std::path::PathBuf;

use rusqlite::Connection;
use tempfile::TempDir;

use super::*;
use crate::input::csv::header::Header;
use crate::load::{Column, ColumnType, IntoTable, Loader, OnError};

struct Case(TempDir);

impl Case {
    fn new() -> Self {
        Self(tempfile::tempdir().expect("a folder"))
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn input(&self, name: &str, text: &str) -> PathBuf {
        fs::write(self.path(name), text).expect("an input");
        self.path(name)
    }

    fn loader(&self) -> Loader {
        Loader::new(self.path("a.db")).table("t")
    }

    /// The result of a query, a row a line.
    fn rows(&self, sql: &str) -> Vec<String> {
        let connection = Connection::open(self.path("a.db")).expect("a database");
        let mut statement = connection.prepare(sql).expect("sql");
        let rows = statement.query_map([], |row| row.get(0)).expect("rows");
        rows.collect::<Result<_, _>>().expect("a row")
    }

    /// The two columns, which must not change places.
    fn both(&self) -> Vec<String> {
        self.rows("SELECT a || ' ' || A_2 FROM t ORDER BY a")
    }
}

/// The table's columns for those of an input, as text; `-` for none.
fn places(table: TableColumns<'_>, input: &[&str]) -> String {
    let input = Header::from_names(input.iter().copied()).names;
    match places_of_columns(table, &input) {
        Ok(places) => {
            let text = |place: &Option<usize>| place.map_or("-".to_owned(), |at| at.to_string());
            places.iter().map(text).collect()
        }
        Err(error) => error.to_string(),
    }
}

#[test]
fn columns_of_two_inputs_go_by_their_written_names() {
    let table = Header::from_names(["a", "A", "b"]).names;
    let found = |input: &[&str]| places(TableColumns::Made(&table), input);
    assert_eq!(found(&["a", "A", "b"]), "012");
    assert_eq!(found(&["A", "B", "a"]), "120");
    assert_eq!(found(&["A"]), "1");
    assert_eq!(found(&["a", "A_2"]), "0-");
    assert!(found(&["a", "a"]).contains("may be a or A"), "the second one may be either");
    let table = Header::from_names(["a", "a"]).names;
    assert_eq!(places(TableColumns::Made(&table), &["a", "a"]), "01");
}

#[test]
fn columns_of_a_table_may_have_been_numbered() {
    let table = ["a", "A_2", "b"].map(ColumnName::from);
    let found = |input: &[&str]| places(TableColumns::Declared(&table), input);
    assert_eq!(found(&["a", "A", "b"]), "012");
    assert_eq!(found(&["A", "B", "a"]), "120");
    assert_eq!(found(&["a"]), "0");
    assert_eq!(found(&["A", "A_2"]), "01");
    let refusal = found(&["A"]);
    assert!(refusal.contains("may be a or A_2") && refusal.contains("rename"), "{refusal}");
    let table = ["a", "A_2", "a_3"].map(ColumnName::from);
    let input = ["a", "a", "A"];
    assert_eq!(places(TableColumns::Declared(&table), &input), "021");
    // Days, and no numbers of columns.
    let table = ["price", "price_7", "price_30"].map(ColumnName::from);
    assert_eq!(places(TableColumns::Declared(&table), &["price", "price"]), "0-");
}

#[test]
fn two_files_of_any_format_keep_their_columns() {
    for (name, first, second) in [
        ("csv", "a,A\n1,x\n", "A,a\ny,2\n"),
        ("json", "{\"a\":1,\"A\":\"x\"}\n", "{\"A\":\"y\",\"a\":2}\n"),
    ] {
        let case = Case::new();
        let first = case.input(&format!("1.{name}"), first);
        let second = case.input(&format!("2.{name}"), second);
        case.loader().load_files(&[&first, &second]).expect("a load of both");
        assert_eq!(case.both(), ["1 x", "2 y"], "{name}");
        fs::remove_file(case.path("a.db")).expect("a database");
        case.loader().load_file(&first).expect("a load");
        case.loader().into_table(IntoTable::Append).load_file(&second).expect("a second load");
        assert_eq!(case.both(), ["1 x", "2 y"], "{name}, appended");
    }
    let case = Case::new();
    let csv = case.input("1.csv", "a,A\n1,x\n");
    let json = case.input("2.json", "{\"A\":\"y\",\"a\":2}\n");
    case.loader().load_files(&[csv, json]).expect("a load of two formats");
    assert_eq!(case.both(), ["1 x", "2 y"]);
    let columns = [Column::new("A", ColumnType::Text), Column::new("a", ColumnType::Integer)];
    let append = case.loader().into_table(IntoTable::Append);
    append.load_rows(&columns, [("z", 3_i64)]).expect("rows");
    assert_eq!(case.both(), ["1 x", "2 y", "3 z"]);
}

#[test]
fn a_key_of_a_later_input_is_a_column_of_its_own() {
    let case = Case::new();
    let inputs = [
        case.input("1.json", "{\"a\":1}\n"),
        case.input("2.json", "{\"A\":2}\n"),
        case.input("3.json", "{\"A\":3,\"a\":4}\n"),
    ];
    case.loader().load_files(&inputs[..2]).expect("keys that differ in case alone");
    assert_eq!(case.rows("SELECT quote(a) FROM t"), ["1", "2"]);
    fs::remove_file(case.path("a.db")).expect("a database");
    case.loader().load_files(&inputs).expect("a load");
    let rows = case.rows("SELECT quote(a) || ' ' || quote(A_2) FROM t");
    assert_eq!(rows, ["1 NULL", "NULL 2", "4 3"]);
}

#[test]
fn rejected_rows_stand_below_their_own_columns() {
    let case = Case::new();
    let inputs = [case.input("1.csv", "a,A\n1,x\n"), case.input("2.csv", "A,a\ny,none\nz,2\n")];
    let rejects = case.path("bad.csv");
    let skip = OnError::Skip { rejects: Some(rejects.clone()), max_rejects: None };
    let loader = case.loader().column_type("a", ColumnType::Integer).on_error(skip);
    let report = loader.load_files(&inputs).expect("a load");
    assert_eq!(report.rows_rejected, 1);
    assert_eq!(fs::read_to_string(rejects).expect("the rejects"), "a,A\nnone,y\n");
    assert_eq!(case.both(), ["1 x", "2 z"]);
}

#[test]
fn options_take_the_names_of_the_file() {
    let case = Case::new();
    let file = case.input("1.csv", "a,A\n1,5\n2,6\n");
    let loader = case.loader().primary_key("A").index("a").unique("A").not_null("A");
    let report = loader.load_file(&file).expect("a load");
    assert!(report.create_sql.contains("\"A_2\" INTEGER PRIMARY KEY"), "{}", report.create_sql);
    let indexes = case.rows("SELECT sql FROM sqlite_schema WHERE type = 'index' ORDER BY 1");
    assert!(indexes[0].contains("(\"a\")") && indexes[1].contains("(\"A_2\")"), "{indexes:?}");
    let again = case.loader().primary_key("A").index("a").unique("A").not_null("A");
    let more = case.input("2.csv", "A,a\n7,3\n");
    again.into_table(IntoTable::Append).load_file(&more).expect("the same call once more");
    assert_eq!(case.rows("SELECT group_concat(a || ' ' || A_2) FROM t"), ["1 5,2 6,3 7"]);
    for (drop, left) in [("A", "a"), ("a", "A_2")] {
        fs::remove_file(case.path("a.db")).expect("a database");
        case.loader().drop_column(drop).load_file(&file).expect("a load");
        assert_eq!(case.rows("SELECT group_concat(name) FROM pragma_table_info('t')"), [left]);
    }
}

#[test]
fn a_name_that_may_mean_two_columns_is_refused() {
    let case = Case::new();
    let both = case.input("1.csv", "a,A\n1,x\n");
    let other = case.input("2.csv", "A,a\ny,2\n");
    let alone = case.input("3.csv", "A\nz\n");
    let error = case.loader().rename("a", "A").load_files(&[&both, &other]);
    let error = error.expect_err("two columns of one name").to_string();
    assert!(error.contains("two columns would be called 'A'"), "{error}");
    case.loader().load_file(&both).expect("a load");
    let append = || case.loader().into_table(IntoTable::Append);
    let error = append().load_file(&alone).expect_err("either of two").to_string();
    assert!(error.contains("may be a or A_2") && error.contains("rename(A=a)"), "{error}");
    append().rename("A", "A_2").load_file(&alone).expect("it is named");
    assert_eq!(case.rows("SELECT A_2 FROM t WHERE a IS NULL"), ["z"]);
}

#[cfg(feature = "arrow")]
#[test]
fn batches_of_arrow_keep_their_columns() {
    use std::sync::Arc;

    use arrow_array::{ArrayRef, RecordBatch, StringArray};

    let case = Case::new();
    let column = |value: &str| -> ArrayRef { Arc::new(StringArray::from(vec![value])) };
    let load = |loader: Loader, columns: [(&str, ArrayRef); 2]| {
        let batch = RecordBatch::try_from_iter(columns).expect("a batch");
        let schema = batch.schema();
        let batches = arrow_array::RecordBatchIterator::new([Ok(batch)], schema);
        loader.load_record_batches("batches", batches).expect("a load")
    };
    load(case.loader(), [("a", column("1")), ("A", column("x"))]);
    let append = case.loader().into_table(IntoTable::Append);
    load(append, [("A", column("y")), ("a", column("2"))]);
    assert_eq!(case.both(), ["1 x", "2 y"]);
}
