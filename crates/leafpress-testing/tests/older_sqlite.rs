//! The system's `sqlite3`, where there is one, opens pressed files too: it is
//! mostly an older version than the bundled library.
//!
//! Checked for each file: `integrity_check`, and that all values together
//! read as the bundled library reads them (by their number and the bytes of
//! their quoted forms). Floats are left out of the bytes, as versions print
//! them differently.

use leafpress_testing::{Case, open, press, strategy};
use proptest::strategy::{Strategy, ValueTree};
use proptest::test_runner::TestRunner;
use std::fmt::Write as _;
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

const FILES: usize = 60;

/// Sums over a table, as one line of text.
fn sums_sql(case: &Case) -> Vec<String> {
    let sums = |table: &leafpress_testing::Table| {
        let mut sql = "SELECT count(*)".to_owned();
        for column in &table.columns {
            let name = &column.name;
            write!(sql, " || ' ' || count({name})").expect("memory");
            let bytes = format!("CASE typeof({name}) WHEN 'real' THEN 0 ELSE {name} END");
            write!(sql, " || ' ' || coalesce(sum(length(hex({bytes}))), '')").expect("memory");
        }
        format!("{sql} FROM {};", table.name)
    };
    case.tables.iter().filter(|table| table.columns.len() < 100).map(sums).collect()
}

#[test]
fn an_older_sqlite_reads_the_files() {
    let Ok(version) = Command::new("sqlite3").arg("--version").output() else {
        leafpress_testing::say_skipped("there is no sqlite3 program");
        return;
    };
    println!("with sqlite3 {}", String::from_utf8_lossy(&version.stdout));

    let folder = tempfile::tempdir().expect("a folder");
    let mut runner = TestRunner::deterministic();
    let (mut script, mut expected) = (String::new(), Vec::new());
    for number in 0..FILES {
        let recipe = strategy::recipes().new_tree(&mut runner).expect("a recipe").current();
        let case = recipe.resolve();
        let bytes = press(&case);
        std::fs::write(folder.path().join(format!("{number}.db")), &bytes).expect("write");
        writeln!(script, ".open {number}.db\nPRAGMA integrity_check;").expect("memory");
        expected.push("ok".to_owned());
        let db = open(&bytes);
        for sql in sums_sql(&case) {
            expected.push(db.query_row(&sql, [], |row| row.get(0)).expect("sums"));
            writeln!(script, "{sql}").expect("memory");
        }
    }
    let answers = run_sqlite3(folder.path(), &script);
    assert_eq!(answers.lines().collect::<Vec<_>>(), expected);
}

/// One process for all files.
fn run_sqlite3(folder: &Path, script: &str) -> String {
    let mut program = Command::new("sqlite3")
        .arg("-batch")
        .current_dir(folder)
        // No .sqliterc of the user who runs the tests.
        .env("HOME", folder)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("sqlite3");
    let mut input = program.stdin.take().expect("stdin");
    let script = script.to_owned();
    // Apart, as the program may fill its output before it has read all.
    let writer = std::thread::spawn(move || input.write_all(script.as_bytes()));
    let output = program.wait_with_output().expect("sqlite3");
    writer.join().expect("writer").expect("script");
    let complaints = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(complaints.is_empty(), "sqlite3 says: {complaints}");
    String::from_utf8(output.stdout).expect("UTF-8")
}
