//! Presets: what SQLite says of their files, and what they refuse.

use std::fs;
use std::path::Path;

use leafpress::ErrorKind;
use leafpress::load::{Layout, Loader, Preset};
use leafpress_testing::assert_integrity;
use rusqlite::{Connection, OpenFlags};
use tempfile::tempdir;

type Change = fn(Loader) -> Loader;

const CSV: &[u8] = b"id,name\n1,Ada\n2,Grace\n";

fn settings(path: &Path) -> (String, i64, i64, String, i64) {
    let db = Connection::open_with_flags(path, OpenFlags::default()).unwrap();
    assert_integrity(&db);
    assert_eq!(db.query_row("SELECT count(*) FROM t", [], |row| row.get::<_, i64>(0)), Ok(2));
    let one = |name: &str| format!("SELECT * FROM pragma_{name}");
    let number = |name: &str| db.query_row(&one(name), [], |row| row.get::<_, i64>(0)).unwrap();
    let text = |name: &str| db.query_row(&one(name), [], |row| row.get::<_, String>(0)).unwrap();
    (
        text("journal_mode"),
        number("page_size"),
        number("auto_vacuum"),
        text("encoding"),
        number("freelist_count"),
    )
}

#[test]
fn a_file_is_as_its_place_takes_it() {
    let folder = tempdir().unwrap();
    for (preset, journal_mode, page_bytes) in [
        (Preset::Turso, "wal", 4096),
        (Preset::Rqlite, "delete", 4096),
        (Preset::LiteFs, "delete", 4096),
        (Preset::HttpVfs, "delete", 1024),
        (Preset::Mobile, "delete", 4096),
    ] {
        assert_eq!(preset.name().parse(), Ok(preset));
        let path = folder.path().join(format!("{}.db", preset.name()));
        let loader = Loader::new(&path).table("t").primary_key("id").index("name").preset(preset);
        loader.load_reader("t.csv", CSV).unwrap();
        let files = |suffix: &str| path.with_extension(format!("db{suffix}")).exists();
        assert!(!files("-wal") && !files("-shm") && !files("-journal"), "{preset:?}");
        let expected = (journal_mode.to_owned(), page_bytes, 0, "UTF-8".to_owned(), 0);
        assert_eq!(settings(&path), expected, "{preset:?}");
    }
    assert!("windows".parse::<Preset>().unwrap_err().contains("turso, rqlite"));
}

#[test]
fn a_database_for_turso_can_be_written() {
    let folder = tempdir().unwrap();
    let path = folder.path().join("t.db");
    Loader::new(&path).table("t").preset(Preset::Turso).load_reader("t.csv", CSV).unwrap();
    let db = Connection::open(&path).unwrap();
    db.execute_batch("INSERT INTO t VALUES(3, 'Joan')").unwrap();
    assert_integrity(&db);
}

#[test]
fn contradictions_are_refused_before_any_work() {
    let folder = tempdir().unwrap();
    let path = folder.path().join("t.db");
    let contradictions: [(Preset, Change, &str); 6] = [
        (Preset::Turso, |it| it.page_size(8192), "4096"),
        (Preset::Turso, |it| it.layout(Layout::Remote), "order of pages"),
        (Preset::HttpVfs, |it| it.page_size(4096), "1024"),
        (Preset::HttpVfs, |it| it.layout(Layout::Local), "order of pages"),
        (Preset::Mobile, |it| it.strict(true), "STRICT"),
        (Preset::Mobile, |it| it.declaration("CREATE TABLE t(id INT, name TEXT) STRICT"), "STRICT"),
    ];
    for (preset, change, says) in contradictions {
        let loader = change(Loader::new(&path).table("t").preset(preset));
        let error = loader.load_reader("t.csv", CSV).unwrap_err();
        assert!(matches!(error.kind(), ErrorKind::Misuse(_)), "{error}");
        assert!(error.to_string().contains(says), "{error}");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    }
    let agreeing = Loader::new(&path).table("t").preset(Preset::HttpVfs).page_size(1024);
    agreeing.layout(Layout::Remote).load_reader("t.csv", CSV).unwrap();
    let there = Loader::new(&path).table("u").preset(Preset::Rqlite);
    assert!(there.load_reader("t.csv", CSV).unwrap_err().to_string().contains("new database"));
}
