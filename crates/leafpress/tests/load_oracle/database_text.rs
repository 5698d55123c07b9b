//! The text formats of databases: rows written as PostgreSQL's COPY and `MySQL`'s SELECT INTO
//! OUTFILE write them come back as they were, NULLs and all.

use std::fs;

use leafpress::load::{CsvOptions, InputFormat, Loader};
use proptest::collection::vec;
use proptest::prelude::*;
use rusqlite::Connection;
use tempfile::tempdir;

type Rows = Vec<Vec<Option<String>>>;

fn rows(count: std::ops::Range<usize>) -> impl Strategy<Value = Rows> {
    let text = "[a-cNZ0-9\t\n\r\u{8}\u{b}\u{c}\\\\\"',.;\u{e9}\u{1f600}\u{0}\u{1a}]{0,9}";
    let value = prop_oneof![
        1 => Just(None),
        1 => Just(Some("\\N".to_owned())),
        1 => Just(Some("\\.".to_owned())),
        9 => text.prop_map(Some),
    ];
    (1..4_usize).prop_flat_map(move |columns| vec(vec(value.clone(), columns), count.clone()))
}

/// A value as PostgreSQL writes it. It has no NUL.
fn postgres(value: Option<&str>, out: &mut String) {
    let Some(value) = value else { return out.push_str("\\N") };
    for character in value.chars() {
        match character {
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\u{b}' => out.push_str("\\v"),
            '\\' => out.push_str("\\\\"),
            '\0' => {}
            other => out.push(other),
        }
    }
}

/// A value as `MySQL` writes it: a backslash before what would end a field or a line.
fn mysql(value: Option<&str>, out: &mut String) {
    let Some(value) = value else { return out.push_str("\\N") };
    for character in value.chars() {
        match character {
            '\t' | '\n' | '\\' => out.extend(['\\', character]),
            '\0' => out.push_str("\\0"),
            other => out.push(other),
        }
    }
}

fn written(rows: &Rows, write: impl Fn(Option<&str>, &mut String)) -> String {
    let mut text = String::new();
    for row in rows {
        for (index, value) in row.iter().enumerate() {
            if index > 0 {
                text.push('\t');
            }
            write(value.as_deref(), &mut text);
        }
        text.push('\n');
    }
    text
}

fn loaded(text: &str, format: InputFormat, columns: usize) -> Rows {
    let folder = tempdir().unwrap();
    let (input, database) = (folder.path().join("in.txt"), folder.path().join("a.db"));
    fs::write(&input, text).unwrap();
    let names: Vec<_> = (0..columns).map(|column| format!("c{column}")).collect();
    let csv = CsvOptions::default().columns(names);
    let loader = Loader::new(&database).table("t").format(format).csv(csv).all_text(true);
    loader.load_file(&input).unwrap();
    let connection = Connection::open(&database).unwrap();
    let mut statement = connection.prepare("SELECT * FROM t ORDER BY rowid").unwrap();
    let row = |row: &rusqlite::Row<'_>| (0..columns).map(|column| row.get(column)).collect();
    statement.query_map([], row).unwrap().collect::<Result<_, _>>().unwrap()
}

fn check(rows: &Rows) {
    let columns = rows.first().map_or(1, Vec::len);
    let mut of_postgres = rows.clone();
    for value in of_postgres.iter_mut().flatten().flatten() {
        value.retain(|character| character != '\0');
    }
    let text = written(rows, postgres);
    assert_eq!(loaded(&text, InputFormat::PostgresText, columns), of_postgres, "{text:?}");
    let ended = text + "\\.\n";
    assert_eq!(loaded(&ended, InputFormat::PostgresText, columns), of_postgres);
    let is_return_last =
        |value: &Option<String>| value.as_ref().is_some_and(|it| it.ends_with('\r'));
    if rows.iter().all(|row| row.last().is_some_and(is_return_last)) {
        // Read as line ends of Windows, with a note.
        return;
    }
    let text = written(rows, mysql);
    assert_eq!(loaded(&text, InputFormat::MysqlText, columns), *rows, "{text:?}");
}

proptest! {
    #![proptest_config(ProptestConfig {
        failure_persistence: None,
        ..ProptestConfig::with_cases(60)
    })]

    #[test]
    fn rows_of_databases_come_back_as_they_were(rows in rows(1..30)) {
        check(&rows);
    }
}

#[test]
fn rows_of_databases_come_back_over_several_blocks() {
    let text = |row: usize| format!("{row}\\\t{}\nx\r", "é".repeat(row % 40));
    let rows: Rows = (0..60_000)
        .map(|row| vec![Some(text(row)), (row % 3 > 0).then(String::new), Some("\\N".to_owned())])
        .collect();
    check(&rows);
}
