//! The table of number forms: what Leafpress, SQLite and DuckDB make of a text.
//!
//! `number_forms.tsv` is the table. Leafpress and SQLite are asked here; what DuckDB says
//! is checked where DuckDB is (`tests/python/test_number_forms.py`).

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use leafpress::load::Loader;
use rusqlite::Connection;
use rusqlite::types::Value;
use tempfile::tempdir;

const TABLE: &str = include_str!("number_forms.tsv");

struct Form {
    text: &'static str,
    alone: &'static str,
    beside: &'static str,
    value: &'static str,
    sqlite: &'static str,
    duckdb: &'static str,
    duckdb_cast: &'static str,
}

fn table() -> Vec<Form> {
    let lines = TABLE.lines().filter(|line| !line.starts_with('#'));
    lines
        .map(|line| {
            let fields: Vec<&str> = line.split('\t').collect();
            let [text, alone, beside, value, sqlite, duckdb, duckdb_cast] = fields[..] else {
                panic!("not seven fields: {line}");
            };
            Form { text, alone, beside, value, sqlite, duckdb, duckdb_cast }
        })
        .collect()
}

/// A CSV with a column for each form; `others` are the rows below.
fn csv(forms: &[Form], others: &[&str]) -> String {
    let mut input = String::new();
    let line = |input: &mut String, field: &dyn Fn(usize) -> String| {
        let fields: Vec<String> = (0..forms.len()).map(field).collect();
        writeln!(input, "{}", fields.join(",")).unwrap();
    };
    line(&mut input, &|column| format!("c{column}"));
    line(&mut input, &|column| format!("\"{}\"", forms[column].text));
    for other in others {
        line(&mut input, &|_| (*other).to_owned());
    }
    input
}

/// Types as declared, and the values of the first row.
fn load(folder: &Path, name: &str, input: &str) -> (Vec<String>, Vec<Value>) {
    let (path, database) = (folder.join("in.csv"), folder.join(name));
    fs::write(&path, input).unwrap();
    let report = Loader::new(&database).table("t").load_file(path).unwrap();
    let types: Vec<String> =
        report.columns.iter().map(|column| column.declared_type.clone()).collect();
    let connection = Connection::open(database).unwrap();
    let values = connection.query_row("SELECT * FROM t WHERE rowid = 1", [], |row| {
        (0..types.len()).map(|column| row.get(column)).collect::<Result<Vec<Value>, _>>()
    });
    (types, values.unwrap())
}

#[test]
fn the_table_says_what_a_load_makes_of_each_form() {
    let (forms, folder) = (table(), tempdir().unwrap());
    assert!(forms.len() >= 60, "{} forms", forms.len());
    let (alone, values) = load(folder.path(), "alone.db", &csv(&forms, &[]));
    let (beside, _) = load(folder.path(), "beside.db", &csv(&forms, &["0.5"]));
    for (column, form) in forms.iter().enumerate() {
        let text = form.text;
        assert_eq!((&alone[column][..], &beside[column][..]), (form.alone, form.beside), "{text}");
        let expected = match form.alone {
            "INTEGER" => Value::Integer(form.value.parse().unwrap()),
            "REAL" => Value::Real(form.value.parse().unwrap()),
            _ => Value::Text(text.to_owned()),
        };
        assert_eq!(values[column], expected, "{text}");
    }
}

#[test]
fn numbers_of_a_load_are_the_numbers_of_sqlite() {
    let connection = Connection::open_in_memory().unwrap();
    connection.execute_batch("CREATE TABLE n (v NUMERIC)").unwrap();
    for form in table() {
        connection.execute("INSERT INTO n VALUES (?)", [form.text]).unwrap();
        let sql = "SELECT v, CAST(?1 AS REAL) FROM n WHERE rowid = last_insert_rowid()";
        let (stored, cast): (Value, f64) =
            connection.query_row(sql, [form.text], |row| Ok((row.get(0)?, row.get(1)?))).unwrap();
        let said = match stored {
            Value::Integer(integer) => format!("integer {integer}"),
            Value::Real(real) => {
                let recorded: f64 = form.sqlite.strip_prefix("real ").unwrap().parse().unwrap();
                assert_eq!(real.to_bits(), recorded.to_bits(), "{}", form.text);
                continue_with(form.value, cast, form.text);
                continue;
            }
            _ => "text".to_owned(),
        };
        assert_eq!(said, form.sqlite, "{}", form.text);
        if said != "text" {
            continue_with(form.value, cast, form.text);
        }
    }
}

/// A number that a load stores is the one that SQLite reads.
fn continue_with(value: &str, cast: f64, text: &str) {
    if value != "-" {
        let ours: f64 = value.parse().unwrap();
        // Zero has no sign in a database.
        assert_eq!((ours + 0.0).to_bits(), (cast + 0.0).to_bits(), "{text}");
    }
}

/// A form that is no text here is a number of the same value in DuckDB, and one that is no
/// number there is text here.
#[test]
fn numbers_of_a_load_are_the_numbers_of_duckdb() {
    for form in table() {
        if form.alone == "TEXT" {
            continue;
        }
        assert!(matches!(form.duckdb, "BIGINT" | "DOUBLE"), "{}", form.text);
        let (ours, theirs): (f64, f64) =
            (form.value.parse().unwrap(), form.duckdb_cast.parse().unwrap());
        assert_eq!((ours + 0.0).to_bits(), (theirs + 0.0).to_bits(), "{}", form.text);
    }
}
