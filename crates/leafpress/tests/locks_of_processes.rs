//! A system without locks that belong to descriptors, played: another copy of SQLite is
//! noticed, and nothing is written beside it.
#![cfg(unix)]

use std::fs::File;

use leafpress::load::{Column, ColumnType, Loader};
use leafpress::vfs::locks;
use leafpress::writer::Writer;
use leafpress::{ErrorKind, Profile};

#[test]
fn nothing_is_written_beside_another_copy() {
    locks::install().unwrap();
    locks::pretend_there_are_none();
    let folder = tempfile::tempdir().unwrap();
    for (name, profile) in [("wal.db", Profile::Durable), ("journal.db", Profile::Rollback)] {
        let path = folder.path().join(name);
        let writer = Writer::builder(&path).profile(profile).open().unwrap();
        writer.execute_batch("CREATE TABLE t (x)").unwrap();
        // Connections of this copy are no reason.
        let beside = rusqlite::Connection::open(&path).unwrap();
        let rows = || beside.query_row("SELECT count(*) FROM t", [], |row| row.get::<_, i64>(0));
        writer.execute("INSERT INTO t VALUES (1)", ()).unwrap();
        assert_eq!(rows().unwrap(), 1);

        let foreign = File::open(&path).unwrap();
        let refused = writer.execute("INSERT INTO t VALUES (2)", ()).unwrap_err();
        assert!(matches!(refused.kind(), ErrorKind::Destination { .. }), "{refused}");
        assert!(refused.to_string().contains("another copy of SQLite"), "{refused}");
        assert!(Writer::builder(&path).profile(profile).open().is_err());
        let columns = [Column::new("x", ColumnType::Integer)];
        let load = || Loader::new(&path).table("u").load_rows(&columns, [(1_i64,)]);
        assert!(load().is_err());
        assert_eq!(rows().unwrap(), 1);

        drop(foreign);
        writer.execute("INSERT INTO t VALUES (2)", ()).unwrap();
        load().unwrap();
        assert_eq!(rows().unwrap(), 2);
        writer.close().unwrap();
    }
}
