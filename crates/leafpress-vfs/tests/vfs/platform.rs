//! SQLite over `PlatformVfs` does what SQLite does over its own VFS, beside
//! connections that use the latter.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use leafpress_vfs::{
    FileKind, OpenFlags as VfsFlags, PlatformVfs, SlowSync, Vfs, VfsError, characteristics,
    register,
};
use rusqlite::{Connection, ErrorCode, OpenFlags};

use crate::hooked::{Call, Hooked};
use crate::{assert_sound, count, rows, set_journal_mode, through, work};

/// The platform's VFS, and how often each call was made.
fn counted() -> (Hooked<PlatformVfs>, Arc<Mutex<HashMap<Call, u32>>>) {
    let calls = Arc::new(Mutex::new(HashMap::new()));
    let counted = Arc::clone(&calls);
    let vfs = Hooked::new(PlatformVfs::new(), move |call| {
        *counted.lock().unwrap().entry(call).or_default() += 1;
        Ok(())
    });
    (vfs, calls)
}

#[test]
fn every_journal_mode_gives_the_same_file_as_without() {
    let registration = register("platform-modes", PlatformVfs::new()).unwrap();
    for mode in ["wal", "delete", "truncate", "persist", "memory", "off"] {
        let folder = tempfile::tempdir().unwrap();
        let (ours, stock) = (folder.path().join("ours.db"), folder.path().join("stock.db"));
        let connection = through(&registration, &ours);
        let plain = Connection::open(&stock).unwrap();
        for connection in [&connection, &plain] {
            set_journal_mode(connection, mode);
            if mode == "off" {
                // Without a journal nothing can be rolled back.
                connection.execute_batch("CREATE TABLE t (id INTEGER PRIMARY KEY, x)").unwrap();
            } else {
                work(connection);
            }
        }
        assert_eq!(rows(&connection), rows(&plain), "{mode}");
        assert_sound(&connection);
        // A plain connection beside it sees what was committed, in either's journal.
        let beside = Connection::open(&ours).unwrap();
        assert_eq!(rows(&beside), rows(&plain), "{mode}");
        drop((beside, connection, plain));
        assert_eq!(registration.open_files(), 0, "{mode}: all files are closed");
        assert_eq!(left(&folder, "ours"), left(&folder, "stock"), "{mode}");
    }
}

/// The ends of the names and the sizes of what a database left in its folder, and the
/// bytes of the database itself. (A journal that stays holds random numbers.)
fn left(folder: &tempfile::TempDir, name: &str) -> (Vec<(String, u64)>, Vec<u8>) {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder.path()).unwrap() {
        let entry = entry.unwrap();
        let file_name = entry.file_name().into_string().unwrap();
        if let Some(end) = file_name.strip_prefix(name) {
            files.push((end.to_owned(), entry.metadata().unwrap().len()));
        }
    }
    files.sort();
    (files, std::fs::read(folder.path().join(format!("{name}.db"))).unwrap())
}

#[test]
fn ours_and_plain_connections_lock_each_other_out() {
    let registration = register("platform-locks", PlatformVfs::new()).unwrap();
    for mode in ["wal", "delete"] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.db");
        let ours = [through(&registration, &path), through(&registration, &path)];
        let plain = Connection::open(&path).unwrap();
        set_journal_mode(&ours[0], mode);
        ours[0].execute_batch("CREATE TABLE t (x)").unwrap();
        let all = [&ours[0], &ours[1], &plain];
        for connection in all {
            connection.busy_timeout(Duration::ZERO).unwrap();
        }
        for holder in 0..3 {
            all[holder].execute_batch("BEGIN IMMEDIATE; INSERT INTO t VALUES (1)").unwrap();
            for other in (0..3).filter(|other| *other != holder) {
                let error = all[other].execute_batch("BEGIN IMMEDIATE").unwrap_err();
                assert_eq!(error.sqlite_error_code(), Some(ErrorCode::DatabaseBusy), "{mode}");
                assert_eq!(count(all[other], "t"), holder as i64, "{mode}: not committed yet");
            }
            all[holder].execute_batch("COMMIT").unwrap();
        }
        assert!(all.iter().all(|connection| count(connection, "t") == 3));
    }
}

#[test]
fn a_commit_over_attached_databases_has_its_super_journal() {
    let (vfs, calls) = counted();
    let registration = register("platform-attach", vfs).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.db");
    let connection = through(&registration, &path);
    let other = folder.path().join("b.db");
    connection.execute("ATTACH ? AS b", [other.to_str().unwrap()]).unwrap();
    connection
        .execute_batch(
            "CREATE TABLE main.t (x); CREATE TABLE b.u (x);
             BEGIN; INSERT INTO t VALUES (1); INSERT INTO u VALUES (2); COMMIT;
             BEGIN; INSERT INTO t VALUES (3); INSERT INTO u VALUES (4); ROLLBACK;",
        )
        .unwrap();
    assert_eq!((count(&connection, "t"), count(&connection, "u")), (1, 1));
    let calls = calls.lock().unwrap();
    assert_eq!(calls.get(&Call::Open(FileKind::SuperJournal)), Some(&1), "{calls:?}");
    assert!(calls[&Call::Write(FileKind::SuperJournal)] > 0);
    assert_eq!(count(&Connection::open(other).unwrap(), "u"), 1);
}

#[test]
fn temporary_files_spills_and_big_sorts_go_through_too() {
    let (vfs, calls) = counted();
    let registration = register("platform-temporary", vfs).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let run = |connection: &Connection| -> (Vec<String>, i64) {
        connection
            .execute_batch(
                "PRAGMA temp_store = FILE; PRAGMA cache_size = 10; PRAGMA threads = 2;
                 PRAGMA temp.cache_size = 10;
                 CREATE TABLE t (id INTEGER PRIMARY KEY, x TEXT);
                 BEGIN;
                 WITH RECURSIVE n (i) AS (VALUES (1) UNION ALL SELECT i + 1 FROM n WHERE i < 30000)
                 INSERT INTO t SELECT i, hex(i * 2654435761 % 1000003) || hex(zeroblob(20)) FROM n;
                 COMMIT;
                 CREATE TEMP TABLE s (x); INSERT INTO s SELECT x FROM t WHERE id % 2;
                 BEGIN; UPDATE t SET x = x || 'a'; SAVEPOINT one;
                 UPDATE t SET x = x || 'b'; ROLLBACK TO one; COMMIT;",
            )
            .unwrap();
        let sql = "SELECT x FROM (SELECT x FROM s UNION ALL SELECT x FROM t) ORDER BY x";
        let mut statement = connection.prepare(sql).unwrap();
        let rows = statement.query_map((), |row| row.get(0)).unwrap();
        let rows = rows.map(Result::unwrap).collect();
        let sql = "SELECT count(DISTINCT x || hex(zeroblob(50))) FROM t";
        let distinct: i64 = connection.query_row(sql, (), |row| row.get(0)).unwrap();
        (rows, distinct)
    };
    let (ours, distinct) = run(&through(&registration, folder.path().join("a.db")));
    let (stock, distinct_by_stock) = run(&Connection::open(folder.path().join("b.db")).unwrap());
    assert_eq!((ours.len(), distinct), (45_000, 30_000));
    assert!(ours == stock && distinct == distinct_by_stock);
    let calls = calls.lock().unwrap();
    for kind in
        [FileKind::TempDb, FileKind::TempJournal, FileKind::TransientDb, FileKind::Subjournal]
    {
        assert!(calls.contains_key(&Call::Write(kind)), "{kind:?} of {calls:?}");
    }
    drop(calls);
    assert_eq!(registration.open_files(), 0);
}

#[test]
fn the_parameters_of_a_uri_reach_the_platform() {
    let folder = tempfile::tempdir().unwrap();
    let registration = register("platform-uri", PlatformVfs::new()).unwrap();
    let path = folder.path().join("a.db");
    // Without powersafe overwrites a WAL frame is padded to a sector: more frames.
    let frames = |parameters: &str| -> i64 {
        let uri = format!("file:{}?vfs=platform-uri{parameters}", path.display());
        let connection = Connection::open(uri).unwrap();
        set_journal_mode(&connection, "wal");
        connection
            .execute_batch("PRAGMA synchronous = FULL; CREATE TABLE IF NOT EXISTS t (x)")
            .unwrap();
        connection.execute_batch("INSERT INTO t VALUES (1)").unwrap();
        connection.query_row("PRAGMA wal_checkpoint", (), |row| row.get(1)).unwrap()
    };
    frames("");
    let (with, without) = (frames("&psow=1"), frames("&psow=0"));
    assert!(with < without, "{with} and {without} frames");
    drop(registration);
}

#[cfg(unix)]
#[test]
fn a_link_is_followed_unless_that_is_forbidden() {
    let folder = tempfile::tempdir().unwrap();
    let registration = register("platform-link", PlatformVfs::new()).unwrap();
    let (path, link) = (folder.path().join("a.db"), folder.path().join("link.db"));
    Connection::open(&path).unwrap().execute_batch("CREATE TABLE t (x)").unwrap();
    std::os::unix::fs::symlink(&path, &link).unwrap();
    assert_eq!(count(&through(&registration, &link), "t"), 0);
    let flags = OpenFlags::default() | OpenFlags::SQLITE_OPEN_NOFOLLOW;
    let open = |path| Connection::open_with_flags_and_vfs(path, flags, registration.name());
    let error = open(&link).unwrap_err();
    assert_eq!(error.sqlite_error_code(), Some(ErrorCode::CannotOpen), "{error}");
    assert!(open(&path).is_ok());
}

#[test]
fn pragmas_that_are_file_controls_work() {
    let folder = tempfile::tempdir().unwrap();
    let registration = register("platform-pragmas", PlatformVfs::new()).unwrap();
    let path = folder.path().join("a.db");
    let connection = through(&registration, &path);
    let mapped: i64 =
        connection.query_row("PRAGMA mmap_size = 100000000", (), |row| row.get(0)).unwrap();
    assert_eq!(mapped, 100_000_000);
    set_journal_mode(&connection, "wal");
    work(&connection);
    // That the file has another name now is noticed: HAS_MOVED reaches the platform.
    std::fs::rename(&path, folder.path().join("b.db")).unwrap();
    let error = connection.execute_batch("PRAGMA journal_mode = delete").unwrap_err();
    assert_eq!(error.sqlite_error_code(), Some(ErrorCode::ReadOnly), "{error}");
}

#[test]
fn a_database_that_is_not_there_is_not_made_unasked() {
    let folder = tempfile::tempdir().unwrap();
    let registration = register("platform-missing", PlatformVfs::new()).unwrap();
    let path = folder.path().join("a.db");
    let open = |flags| Connection::open_with_flags_and_vfs(&path, flags, registration.name());
    let error = open(OpenFlags::SQLITE_OPEN_READ_WRITE).unwrap_err();
    assert_eq!(error.sqlite_error_code(), Some(ErrorCode::CannotOpen));
    assert!(!path.exists());
    work(&open(OpenFlags::default()).unwrap());
    let reader = open(OpenFlags::SQLITE_OPEN_READ_ONLY).unwrap();
    assert_eq!(count(&reader, "t"), 2400);
    let error = reader.execute_batch("DELETE FROM t").unwrap_err();
    assert_eq!(error.sqlite_error_code(), Some(ErrorCode::ReadOnly));
}

/// The methods themselves, without SQLite above: what they say and what they leave.
#[test]
fn the_files_methods_say_what_they_did() {
    let folder = tempfile::tempdir().unwrap();
    let vfs = PlatformVfs::new();
    let path = folder.path().join("a.db");
    let path = vfs.full_path(path.to_str().unwrap()).unwrap();
    let flags = VfsFlags::MAIN_DB | VfsFlags::READ_WRITE | VfsFlags::CREATE;
    let mut file = vfs.open(Some(&path), flags).unwrap().file;
    assert_eq!(file.read(&mut [7; 8], 0).unwrap(), 0, "an empty file");
    file.write(b"leafpress", 3).unwrap();
    let mut buffer = [7; 16];
    assert_eq!(file.read(&mut buffer, 4).unwrap(), 8, "up to the end");
    assert_eq!(&buffer[..8], b"eafpress");
    assert_eq!(file.read(&mut buffer[..4], 1).unwrap(), 4);
    assert_eq!(&buffer[..4], b"\0\0le");
    assert_eq!(file.read(&mut buffer, 100).unwrap(), 0, "beyond the end");
    file.truncate(5).unwrap();
    assert_eq!(file.size().unwrap(), 5);
    assert_ne!(file.device_characteristics() & characteristics::POWERSAFE_OVERWRITE, 0);
    assert!(file.sector_bytes() >= 512);
    assert!(file.write(b"x", u64::MAX).is_err());
    assert!(file.shm_map(0, 4096, true).is_err(), "SQLite's size only");
    assert_eq!(vfs.open(None, flags).err(), Some(VfsError::CANNOT_OPEN), "a database has a name");
    assert_eq!(vfs.delete(&format!("{path}-wal"), false), Err(VfsError::IO_DELETE_NO_ENTRY));
    assert_eq!(vfs.delete("zero\0byte", false), Err(VfsError::CANNOT_OPEN));
}

#[test]
fn shared_memory_is_mapped_as_long_as_a_connection_holds_it() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.db");
    let (path, shm) = (path.to_str().unwrap(), folder.path().join("a.db-shm"));
    let flags = VfsFlags::MAIN_DB | VfsFlags::READ_WRITE | VfsFlags::CREATE;
    let mut file = PlatformVfs::new().open(Some(path), flags).unwrap().file;
    assert!(file.shm_map(0, 32 * 1024, false).unwrap().is_none());
    let region = file.shm_map(0, 32 * 1024, true).unwrap().unwrap();
    assert_eq!(file.shm_unmap(true), Err(VfsError::IO_SHM_MAP), "a connection holds it");
    assert!(shm.exists());
    let clone = region.clone();
    drop(region);
    assert!(file.shm_unmap(true).is_err());
    drop(clone);
    file.shm_unmap(true).unwrap();
    assert!(!shm.exists());

    // A region that outlives its file closes it at its end.
    let region = file.shm_map(0, 32 * 1024, true).unwrap().unwrap();
    file.lock(leafpress_vfs::LockLevel::Shared).unwrap();
    drop(file);
    let other = Connection::open(path).unwrap();
    other.busy_timeout(Duration::ZERO).unwrap();
    assert!(other.execute_batch("CREATE TABLE t (x)").is_err(), "the file is still locked");
    drop(region);
    other.execute_batch("CREATE TABLE t (x)").unwrap();
}

/// Sleeping takes at least as long as said, so this never depends on the machine.
#[test]
fn slow_syncs_are_slow() {
    let (vfs, calls) = counted();
    let delay = Duration::from_millis(3);
    let registration = register("platform-slow", SlowSync::new(vfs, delay)).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let started = Instant::now();
    let connection = through(&registration, folder.path().join("a.db"));
    connection.execute_batch("PRAGMA synchronous = EXTRA").unwrap();
    work(&connection);
    drop(connection);
    let took = started.elapsed();
    let calls = calls.lock().unwrap();
    let syncs: u32 =
        calls.iter().filter(|(call, _)| matches!(call, Call::Sync(_))).map(|(_, n)| n).sum();
    // In mode DELETE with EXTRA, each journal's deletion syncs its folder.
    let deletions = calls[&Call::Delete];
    assert!(syncs > 4 && deletions > 2, "{calls:?}");
    assert!(took >= delay * (syncs + deletions), "{took:?} for {syncs} and {deletions}");
}
