//! The SQLite source, against what SQLite itself says of the same tables.

use tempfile::TempDir;

use super::*;

const WAIT: Duration = Duration::from_secs(5);

/// A value that outlives its batch.
#[derive(Debug, Clone, PartialEq)]
enum Owned {
    Null,
    Integer(i64),
    Real(f64),
    Text(Vec<u8>),
    Blob(Vec<u8>),
}

impl From<Value<'_>> for Owned {
    fn from(value: Value<'_>) -> Self {
        match value {
            Value::Null => Self::Null,
            Value::Integer(integer) => Self::Integer(integer),
            Value::Real(real) => Self::Real(real),
            Value::Text(text) => Self::Text(text.to_vec()),
            Value::Blob(blob) => Self::Blob(blob.to_vec()),
        }
    }
}

fn text(text: &str) -> Owned {
    Owned::Text(text.as_bytes().to_vec())
}

/// A database made by these statements.
fn database(sql: &str) -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("other.db");
    Connection::open(&path).unwrap().execute_batch(sql).unwrap();
    (folder, path)
}

fn rows_of(source: &mut SqliteSource) -> Vec<Vec<Owned>> {
    let columns = source.columns().len();
    let (mut reader, decoder) = source.open(&Arc::default()).unwrap();
    let (mut raw, mut batch) = (SqliteBatch::default(), SqliteBatch::default());
    let mut rows = Vec::new();
    while reader.claim(&mut raw).unwrap() {
        decoder.decode(&mut raw, &mut batch).unwrap();
        for row in 0..batch.rows() {
            assert_eq!(batch.line(row), rows.len() as u64 + 1);
            let values: Vec<Owned> =
                (0..columns).map(|column| batch.value(row, column).into()).collect();
            let content = values.iter().map(|value| match value {
                Owned::Text(bytes) | Owned::Blob(bytes) => bytes.len(),
                _ => 0,
            });
            assert_eq!(batch.content_bytes(row), content.sum::<usize>());
            rows.push(values);
        }
    }
    assert!(!reader.claim(&mut raw).unwrap(), "the end stays the end");
    rows
}

fn declared(source: &SqliteSource) -> Vec<(&str, Option<&str>)> {
    let columns = source.columns().iter();
    columns.map(|column| (column.name.name.as_str(), column.declared_sql.as_deref())).collect()
}

fn refusal(path: &Path, table: Option<&str>) -> String {
    SqliteSource::new(path, table, WAIT).err().expect("a refusal").to_string()
}

#[test]
fn values_come_as_they_are_stored() {
    use Owned::{Blob, Integer, Null, Real};
    let (_folder, path) = database(
        "CREATE TABLE t(id INTEGER PRIMARY KEY, a VARCHAR(10), b, c INT, \
         d AS (a || '!'), e REAL AS (c + 0.5) STORED);
         INSERT INTO t(id, a, b, c) VALUES (5, 'x', 1, 'word'), (2, NULL, 1.5, 7), \
         (9, '', x'00ff', x'01'), (-1, 'ü', 'text', 2.5), (10, CAST(x'ff' AS TEXT), NULL, NULL);",
    );
    let mut source = SqliteSource::new(&path, None, WAIT).unwrap();
    assert_eq!(source.name(), format!("{}::t", path.display()));
    let expected = [
        ("id", Some("INTEGER")),
        ("a", Some("VARCHAR(10)")),
        ("b", Some("")),
        ("c", Some("INT")),
        ("d", Some("")),
        ("e", Some("REAL")),
    ];
    assert_eq!(declared(&source), expected);
    let expected = vec![
        vec![Integer(-1), text("ü"), text("text"), Real(2.5), text("ü!"), Real(3.0)],
        vec![Integer(2), Null, Real(1.5), Integer(7), Null, Real(7.5)],
        vec![Integer(5), text("x"), Integer(1), text("word"), text("x!"), Real(0.5)],
        vec![Integer(9), text(""), Blob(vec![0, 255]), Blob(vec![1]), text("!"), Real(0.5)],
        vec![Integer(10), Owned::Text(vec![255]), Null, Null, Owned::Text(vec![255, b'!']), Null],
    ];
    assert_eq!(rows_of(&mut source), expected);
    assert_eq!(rows_of(&mut source), expected, "once more");
}

#[test]
fn rows_come_in_the_order_of_the_table() {
    let (_folder, path) = database(
        "CREATE TABLE t(a); CREATE INDEX i ON t(a);
         WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n LIMIT 40000)
         INSERT INTO t SELECT 40000 - x FROM n;",
    );
    let mut source = SqliteSource::new(&path, Some("T"), WAIT).unwrap();
    let expected: Vec<_> = (0..40_000).rev().map(|number| vec![Owned::Integer(number)]).collect();
    assert!(rows_of(&mut source) == expected);
}

#[test]
fn long_values_end_a_batch() {
    let (_folder, path) = database(
        "CREATE TABLE t(a BLOB);
         WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n LIMIT 20)
         INSERT INTO t SELECT zeroblob(1000000 + x) FROM n;",
    );
    let mut source = SqliteSource::new(&path, None, WAIT).unwrap();
    let (mut reader, _) = source.open(&Arc::default()).unwrap();
    let (mut raw, mut lengths, mut batches) = (SqliteBatch::default(), Vec::new(), 0);
    while reader.claim(&mut raw).unwrap() {
        batches += 1;
        lengths.extend((0..raw.rows()).map(|row| raw.content_bytes(row)));
    }
    assert!(batches > 3, "{batches}");
    assert_eq!(lengths, (1_000_001..=1_000_020).collect::<Vec<_>>());
}

#[test]
fn tables_are_found_by_name() {
    let (_folder, path) = database(
        "CREATE TABLE one(a); CREATE TABLE \"two words\"(b INTEGER) STRICT;
         CREATE VIEW seen AS SELECT b, b + 1 AS more FROM \"two words\";
         INSERT INTO \"two words\" VALUES (1);",
    );
    let mut source = SqliteSource::new(&path, Some("Two Words"), WAIT).unwrap();
    assert_eq!(rows_of(&mut source), [[Owned::Integer(1)]]);
    let mut view = SqliteSource::new(&path, Some("seen"), WAIT).unwrap();
    assert_eq!(declared(&view), [("b", Some("INTEGER")), ("more", None)]);
    assert_eq!(rows_of(&mut view), [[Owned::Integer(1), Owned::Integer(2)]]);
    let said = refusal(&path, None);
    assert!(said.contains("has 2 tables"), "{said}");
    assert!(said.contains("there are: one, seen (a view), two words"), "{said}");
    let said = refusal(&path, Some("three"));
    assert!(said.contains("has no table \"three\""), "{said}");
}

#[test]
fn a_table_without_rowid_and_a_virtual_one() {
    let (_folder, path) = database(
        "CREATE TABLE k(a TEXT, b, PRIMARY KEY (b, a)) WITHOUT ROWID;
         INSERT INTO k VALUES ('x', 2), ('y', 1);
         CREATE VIRTUAL TABLE words USING fts5(body); INSERT INTO words VALUES ('hello');",
    );
    let mut source = SqliteSource::new(&path, Some("k"), WAIT).unwrap();
    let expected = [[text("y"), Owned::Integer(1)], [text("x"), Owned::Integer(2)]];
    assert_eq!(rows_of(&mut source), expected);
    let mut words = SqliteSource::new(&path, Some("words"), WAIT).unwrap();
    assert_eq!(rows_of(&mut words), [[text("hello")]], "no hidden columns");
}

#[test]
fn all_passes_see_the_same_rows() {
    for mode in ["WAL", "DELETE"] {
        let (_folder, path) = database(&format!(
            "PRAGMA journal_mode={mode}; CREATE TABLE t(a); INSERT INTO t VALUES (1);"
        ));
        let mut source = SqliteSource::new(&path, None, WAIT).unwrap();
        assert_eq!(rows_of(&mut source), [[Owned::Integer(1)]]);
        let writer = Connection::open(&path).unwrap();
        writer.busy_timeout(Duration::ZERO).unwrap();
        let written = writer.execute("INSERT INTO t VALUES (2)", []);
        assert_eq!(written.is_ok(), mode == "WAL", "readers do not wait for one another");
        assert_eq!(rows_of(&mut source), [[Owned::Integer(1)]], "{mode}");
        drop(source);
        writer.execute("INSERT INTO t VALUES (3)", []).unwrap();
    }
}

#[test]
fn a_pass_may_be_left_in_the_middle() {
    let (_folder, path) = database(
        "CREATE TABLE t(a); CREATE VIEW endless AS
         WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT x FROM n;
         CREATE VIEW silent AS SELECT x FROM endless WHERE x < 0;",
    );
    let mut source = SqliteSource::new(&path, Some("endless"), WAIT).unwrap();
    let (mut first, _) = source.open(&Arc::default()).unwrap();
    let mut raw = SqliteBatch::default();
    assert!(first.claim(&mut raw).unwrap());
    let (mut second, _) = source.open(&Arc::default()).unwrap();
    assert!(second.claim(&mut raw).unwrap());
    assert_eq!(Owned::from(raw.value(0, 0)), Owned::Integer(1), "from the start");
    let said = first.claim(&mut raw).unwrap_err().to_string();
    assert!(said.contains("another pass has begun"), "{said}");
    // With a reader that is still there.
    drop(source);
    drop(second);
    let mut source = SqliteSource::new(&path, Some("silent"), WAIT).unwrap();
    let reader = source.open(&Arc::default()).unwrap();
    // It computes, and has no rows to send.
    drop(source);
    drop(reader);
}

#[test]
fn what_cannot_be_read_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let missing = folder.path().join("missing.db");
    assert!(refusal(&missing, None).starts_with("cannot open "));
    assert!(!missing.exists());
    assert!(refusal(folder.path(), None).contains("is a directory"));
    let text = folder.path().join("text.db");
    std::fs::write(&text, "a,b\n".repeat(1_000)).unwrap();
    assert!(refusal(&text, None).contains("is not a database"));
    let empty = folder.path().join("empty.db");
    std::fs::write(&empty, "").unwrap();
    assert!(refusal(&empty, None).ends_with("empty.db: has no tables"));
}

#[test]
fn a_damaged_table_of_an_input_is_told_as_damage() {
    let (_folder, path) = database(
        "CREATE TABLE t(a);
         WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n LIMIT 40000)
         INSERT INTO t SELECT hex(x) FROM n;",
    );
    let mut bytes = std::fs::read(&path).unwrap();
    let half = bytes.len() / 2 / 4096 * 4096;
    bytes[half..half + 4096].fill(0xff);
    std::fs::write(&path, bytes).unwrap();
    let mut source = SqliteSource::new(&path, None, WAIT).unwrap();
    let (mut reader, _) = source.open(&Arc::default()).unwrap();
    let mut raw = SqliteBatch::default();
    let error = loop {
        match reader.claim(&mut raw) {
            Ok(true) => {}
            Ok(false) => panic!("the end of a damaged table"),
            Err(error) => break error.to_string(),
        }
    };
    assert!(error.contains(".db: is damaged"), "{error}");
}

#[test]
fn rows_are_shown_as_json() {
    let (_folder, path) = database("CREATE TABLE t(a, b); INSERT INTO t VALUES ('x\"', x'01');");
    let mut source = SqliteSource::new(&path, None, WAIT).unwrap();
    let (mut reader, _) = source.open(&Arc::default()).unwrap();
    let mut raw = SqliteBatch::default();
    assert!(reader.claim(&mut raw).unwrap());
    assert_eq!(raw.excerpt(0), r#"{"a":"x\"","b":"01"}"#);
    assert_eq!(raw.original(0), raw.excerpt(0).into_bytes());
}

#[test]
fn a_table_is_named_after_two_colons() {
    let (_folder, path) = database("CREATE TABLE t(a);");
    let split = |text: &str| split_table(Path::new(text));
    let both = |path: &str, table: &str| Some((PathBuf::from(path), table.to_owned()));
    let plain = path.display().to_string();
    assert_eq!(split(&plain), None);
    assert_eq!(split("a.db::t"), both("a.db", "t"));
    assert_eq!(split("a::b.db::t"), both("a::b.db", "t"), "no file tells more");
    assert_eq!(split("a.db::"), None);
    assert_eq!(split("::t"), None);
    assert_eq!(split(&format!("{plain}::we::ird")), both(&plain, "we::ird"), "the file tells");
}

/// Loaded, the table holds the same values, whatever its columns' types say.
#[test]
fn a_table_is_loaded_as_it_is() {
    let (folder, path) = database(
        "CREATE TABLE t(id INTEGER PRIMARY KEY, a, b VARCHAR(10), c INT, d REAL, e NUMERIC, f BLOB);
         INSERT INTO t VALUES (1, 1, 'x', 5, 1.0, 1.5, 1), (2, '1', '1', 'word', 2.5, 'n', '2'),
         (5, x'00ff', x'01', 2.5, 'r', 7, x'03'), (6, NULL, NULL, NULL, NULL, NULL, NULL),
         (7, 1.5, 'y', 9, 3, 1e300, 2.5);",
    );
    for keyed in [false, true] {
        let destination = folder.path().join(format!("{keyed}.db"));
        let mut loader = crate::load::Loader::new(&destination).table("t");
        if keyed {
            loader = loader.primary_key("id");
        }
        let report = loader.load_file(format!("{}::t", path.display())).unwrap();
        assert_eq!((report.rows_loaded, report.rows_rejected), (5, 0));
        let made = Connection::open(&destination).unwrap();
        made.execute("ATTACH ?1 AS other", [path.to_str().unwrap()]).unwrap();
        let shown = "SELECT id, quote(a), quote(b), quote(c), quote(d), quote(e), quote(f)";
        let differing =
            format!("SELECT count(*) FROM ({shown} FROM t EXCEPT {shown} FROM other.t)");
        assert_eq!(made.query_row(&differing, [], |row| row.get(0)), Ok(0), "{keyed}");
        let types = "SELECT group_concat(type, ',') FROM pragma_table_info('t')";
        let types: String = made.query_row(types, [], |row| row.get(0)).unwrap();
        assert_eq!(types, "INTEGER,,VARCHAR(10),INT,REAL,NUMERIC,BLOB");
    }
}

#[test]
fn a_database_in_wal_mode_without_a_log_is_read_as_a_file() {
    let (_folder, path) =
        database("PRAGMA journal_mode=WAL; CREATE TABLE t(a); INSERT INTO t VALUES (7)");
    let at_rest = AtRest::of(&path).expect("no log");
    // As where SQLite may not write to the folder.
    let connection = open_as(&path, "mode=ro&immutable=1", WAIT).unwrap();
    assert_eq!(connection.query_row("SELECT a FROM t", [], |row| row.get(0)), Ok(7));
    let mut source = SqliteSource::new(&path, None, WAIT).unwrap();
    source.check_unchanged().unwrap();
    source.at_rest = Some(at_rest);
    source.check_unchanged().unwrap();
    let writer = Connection::open(&path).unwrap();
    writer.execute_batch("INSERT INTO t VALUES (8)").unwrap();
    assert_eq!(AtRest::of(&path), None, "the log has a commit");
    let error = source.check_unchanged().unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::Changed { .. }), "{error}");
    let (_folder, path) = database("CREATE TABLE t(a)");
    assert_eq!(AtRest::of(&path), None, "it has no log in this mode");
}

#[test]
fn a_copy_inside_a_database_lets_a_writer_commit_that_it_waits_for() {
    let (_folder, path) = database("CREATE TABLE t(a); INSERT INTO t VALUES (7)");
    let writer = Connection::open(&path).unwrap();
    writer.execute_batch("BEGIN IMMEDIATE; INSERT INTO t VALUES (8)").unwrap();
    let source = format!("{}::t", path.display());
    std::thread::scope(|scope| {
        let load = || crate::Loader::new(&path).table("c").busy_timeout(WAIT).load_file(&source);
        let load = scope.spawn(load);
        // Until the load waits for the writer; later it would find no writer, and earlier likewise.
        std::thread::sleep(Duration::from_millis(300));
        writer.busy_timeout(WAIT / 2).unwrap();
        writer.execute_batch("COMMIT").unwrap();
        load.join().unwrap().unwrap();
    });
    let rows = "SELECT count(*) FROM c";
    assert_eq!(writer.query_row(rows, [], |row| row.get(0)), Ok(2));
}

/// As `rsync --inplace` does: SQLite's locks do not keep it out.
#[cfg(unix)]
#[test]
fn a_database_that_is_written_to_under_its_lock_is_refused() {
    use std::io::Write as _;
    let (folder, path) = database("CREATE TABLE t(a); INSERT INTO t VALUES (7)");
    let other = folder.path().join("b.db");
    std::fs::copy(&path, &other).unwrap();
    let mut source = SqliteSource::new(&path, None, WAIT).unwrap();
    assert_eq!(rows_of(&mut source).len(), 1);
    source.check_unchanged().unwrap();

    // Between two transactions other programs may commit.
    source.release();
    Connection::open(&path).unwrap().execute_batch("INSERT INTO t VALUES (8)").unwrap();
    assert_eq!(rows_of(&mut source).len(), 2);
    source.check_unchanged().unwrap();

    // Another file of this name is not the one that is read.
    std::fs::rename(&path, folder.path().join("a.db")).unwrap();
    std::fs::rename(&other, &path).unwrap();
    source.check_unchanged().unwrap();
    std::fs::rename(folder.path().join("a.db"), &path).unwrap();

    let mut file = std::fs::OpenOptions::new().append(true).open(&path).unwrap();
    file.write_all(&[0; 4096]).unwrap();
    let error = source.check_unchanged().unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::Changed { .. }), "{error}");
}
