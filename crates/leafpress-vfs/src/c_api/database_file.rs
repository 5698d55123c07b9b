//! The file of an open database and its log, as its own connection holds them.
//!
//! Used by the checkpointer, which must sync the database while the writer goes on, and by a writer
//! whose commits share the syncs of other processes.
//! A descriptor of our own would do the same, but closing it would drop every lock
//! that this process holds on the database, and it would pass by the VFS.

use std::ffi::{CStr, c_int, c_void};
use std::io::ErrorKind;
use std::path::PathBuf;
use std::ptr;

use rusqlite::{Connection, ffi};

/// Syncs the file of the database `main`, through the connection's own VFS.
///
/// This includes bytes that other connections and processes wrote into the file. Does nothing for a
/// database that has no file.
///
/// # Errors
/// The VFS's own; bytes that were written before may not survive a power cut then.
pub fn sync(connection: &Connection) -> rusqlite::Result<()> {
    let failed = "the database file cannot be synced";
    sync_file(connection, ffi::SQLITE_FCNTL_FILE_POINTER, failed).map(drop)
}

/// Syncs the write-ahead log (or journal) of the database `main` in the same way.
///
/// # Errors
/// The VFS's own, or there is no log; bytes that were written before may not survive a power cut then.
pub fn sync_log(connection: &Connection) -> rusqlite::Result<()> {
    let failed = "the log cannot be synced";
    let was_there = sync_file(connection, ffi::SQLITE_FCNTL_JOURNAL_POINTER, failed)?;
    let none = || failure(ffi::SQLITE_IOERR_FSYNC, "there is no log that could be synced");
    was_there.then_some(()).ok_or_else(none)
}

/// Path of the file of the database `main`, as SQLite has resolved it; `None` if there is no file.
pub fn path(connection: &Connection) -> Option<PathBuf> {
    // SAFETY: the handle is open as long as `connection` is borrowed, and the name ends with a zero.
    let name = unsafe { ffi::sqlite3_db_filename(connection.handle(), c"main".as_ptr()) };
    // SAFETY: SQLite gave null, or a text that ends with a zero and lasts as long as the connection.
    let name = (!name.is_null()).then(|| unsafe { CStr::from_ptr(name) })?;
    #[cfg(unix)]
    let path = {
        use std::os::unix::ffi::OsStrExt as _;

        PathBuf::from(std::ffi::OsStr::from_bytes(name.to_bytes()))
    };
    #[cfg(not(unix))]
    let path = PathBuf::from(name.to_str().ok()?);
    (!path.as_os_str().is_empty()).then_some(path)
}

/// Writes all bytes of the write-ahead log of `main` once more, as they are, and syncs it. So the disk has
/// them, also those that a sync which failed before has left in the system's memory. Does nothing if there
/// is no log.
///
/// Call it inside of a write transaction only, whose lock keeps others from writing to the log.
///
/// # Errors
/// The VFS's own, or `SQLITE_INTERRUPT` once `stop` returns true. The log has the same bytes as before.
pub fn write_log_again(connection: &Connection, stop: &dyn Fn() -> bool) -> rusqlite::Result<()> {
    let failed = "the log cannot be written again";
    let log = open_file(connection, ffi::SQLITE_FCNTL_JOURNAL_POINTER, failed)?;
    let Some(log) = log else { return Ok(()) };
    let (Some(read), Some(write)) = (log.methods.xRead, log.methods.xWrite) else {
        return Err(failure(ffi::SQLITE_IOERR_WRITE, failed));
    };
    let size = log.size(failed)?;
    let mut bytes = vec![0_u8; 64 << 10];
    let mut offset = 0;
    while offset < size {
        if stop() {
            return Err(failure(ffi::SQLITE_INTERRUPT, "it was stopped"));
        }
        let count = (bytes.len() as u64).min(size - offset) as c_int;
        // SAFETY: as in `sync_file`; the methods write and read `count` bytes, which `bytes` has.
        let code = unsafe {
            match read(log.file, bytes.as_mut_ptr().cast(), count, offset as i64) {
                ffi::SQLITE_OK => write(log.file, bytes.as_ptr().cast(), count, offset as i64),
                code => code,
            }
        };
        if code != ffi::SQLITE_OK {
            return Err(failure(code, failed));
        }
        offset += count as u64;
    }
    sync_log(connection)
}

/// Sees to it that the write-ahead log of `main` has room in its file for more frames: `needed` bytes
/// after the `used` ones, else it is lengthened by zeros to `room` bytes after them. Returns its size.
///
/// A file that is shorter than `used` was cut meanwhile, and is left alone.
///
/// Call it inside of a write transaction only, whose lock keeps others from writing to the log.
/// SQLite takes no frame of zeros for a valid one, as each has the log's salts and a checksum.
///
/// # Errors
/// The VFS's own, or there is no log; what was written of the zeros stays.
pub fn make_room_in_log(
    connection: &Connection,
    used: u64,
    needed: u64,
    room: u64,
) -> rusqlite::Result<u64> {
    static ZEROS: [u8; 64 << 10] = [0; 64 << 10];
    let failed = "the log cannot be lengthened";
    let none = || failure(ffi::SQLITE_IOERR_WRITE, "there is no log that could be lengthened");
    let log = open_file(connection, ffi::SQLITE_FCNTL_JOURNAL_POINTER, failed)?.ok_or_else(none)?;
    let write = log.methods.xWrite.ok_or_else(none)?;
    let mut size = log.size(failed)?;
    if size < used || size >= used + needed {
        return Ok(size);
    }
    while size < used + room {
        let count = ZEROS.len().min((used + room - size) as usize);
        // SAFETY: as above; the method reads `count` bytes, which `ZEROS` has.
        match unsafe { write(log.file, ZEROS.as_ptr().cast(), count as c_int, size as i64) } {
            ffi::SQLITE_OK => size += count as u64,
            code => return Err(failure(code, failed)),
        }
    }
    Ok(size)
}

/// Syncs the file to which the file control `which` gives a pointer; false if there is none.
fn sync_file(connection: &Connection, which: c_int, failed: &str) -> rusqlite::Result<bool> {
    let Some(OpenFile { file, methods }) = open_file(connection, which, failed)? else {
        return Ok(false);
    };
    let Some(sync) = methods.xSync else { return Ok(false) };
    // SAFETY: the method belongs to this file, which no other thread uses meanwhile: a
    // connection is not shared between threads, and its file not between connections.
    match unsafe { sync(file, ffi::SQLITE_SYNC_NORMAL) } {
        ffi::SQLITE_OK => Ok(true),
        code => Err(failure(code, failed)),
    }
}

/// A file of a connection, and its methods. It is open as long as the connection is borrowed.
struct OpenFile<'c> {
    file: *mut ffi::sqlite3_file,
    methods: &'c ffi::sqlite3_io_methods,
}

impl OpenFile<'_> {
    /// Bytes of the file.
    fn size(&self, failed: &str) -> rusqlite::Result<u64> {
        let none = || failure(ffi::SQLITE_IOERR_FSTAT, failed);
        let file_size = self.methods.xFileSize.ok_or_else(none)?;
        let mut size: i64 = 0;
        // SAFETY: as in `sync_file`; the method writes one integer, for which there is room.
        match unsafe { file_size(self.file, &raw mut size) } {
            ffi::SQLITE_OK => u64::try_from(size).map_err(|_| none()),
            code => Err(failure(code, failed)),
        }
    }
}

/// The file to which the file control `which` gives a pointer; none if it is not open.
fn open_file<'c>(
    connection: &'c Connection,
    which: c_int,
    failed: &str,
) -> rusqlite::Result<Option<OpenFile<'c>>> {
    let mut file: *mut ffi::sqlite3_file = ptr::null_mut();
    // SAFETY: the handle is open as long as `connection` is borrowed, the name ends
    // with a zero, and this opcode writes one pointer, for which there is room.
    let code = unsafe {
        ffi::sqlite3_file_control(
            connection.handle(),
            c"main".as_ptr(),
            which,
            (&raw mut file).cast::<c_void>(),
        )
    };
    if code != ffi::SQLITE_OK {
        return Err(failure(code, failed));
    }
    // SAFETY: SQLite gave a pointer to the connection's open file, or null; the file
    // stays open as long as `connection` is borrowed. Its methods are null if it has
    // not been opened.
    let methods: Option<&'c ffi::sqlite3_io_methods> =
        unsafe { file.as_ref().and_then(|file| file.pMethods.as_ref()) };
    Ok(methods.map(|methods| OpenFile { file, methods }))
}

/// Returns true if the name by which the database `main` was opened stands for another file
/// now, or for none; `None` if its VFS does not say, or the name may not be looked at.
pub fn has_moved(connection: &Connection) -> Option<bool> {
    let mut moved: c_int = 0;
    // SAFETY: the handle is open as long as `connection` is borrowed, the name ends with a
    // zero, and this opcode writes one integer, for which there is room.
    let code = unsafe {
        ffi::sqlite3_file_control(
            connection.handle(),
            c"main".as_ptr(),
            ffi::SQLITE_FCNTL_HAS_MOVED,
            (&raw mut moved).cast::<c_void>(),
        )
    };
    if code != ffi::SQLITE_OK {
        return None;
    }
    // After a change of user, for example, the folder may not be looked into.
    let is_hidden = || {
        let name = path(connection).map(std::fs::metadata);
        name.is_some_and(|it| it.is_err_and(|it| it.kind() == ErrorKind::PermissionDenied))
    };
    if moved != 0 && is_hidden() { None } else { Some(moved != 0) }
}

fn failure(code: c_int, message: &str) -> rusqlite::Error {
    rusqlite::Error::SqliteFailure(ffi::Error::new(code), Some(message.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg(unix)]
    fn a_database_that_was_moved_is_known() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.db");
        let connection = Connection::open(&path).unwrap();
        connection.execute_batch("CREATE TABLE t (x)").unwrap();
        assert_eq!(has_moved(&connection), Some(false));
        std::fs::rename(&path, folder.path().join("b.db")).unwrap();
        assert_eq!(has_moved(&connection), Some(true));
    }

    #[test]
    fn a_log_is_synced_and_one_that_is_not_there_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let connection = Connection::open(folder.path().join("a.db")).unwrap();
        connection.execute_batch("CREATE TABLE t (x)").unwrap();
        assert!(sync_log(&connection).is_err());
        connection.execute_batch("PRAGMA journal_mode = WAL; INSERT INTO t VALUES (1)").unwrap();
        sync_log(&connection).unwrap();
    }

    #[test]
    fn a_log_gets_room_behind_its_frames_and_keeps_them() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.db");
        let connection = Connection::open(&path).unwrap();
        assert!(make_room_in_log(&connection, 0, 1, 100).is_err(), "there is no log");
        let setup = "PRAGMA journal_mode = WAL; CREATE TABLE t (x); BEGIN IMMEDIATE";
        connection.execute_batch(setup).unwrap();
        let log = path.with_extension("db-wal");
        let size = || std::fs::metadata(&log).unwrap().len();
        let used = size();
        assert_eq!(make_room_in_log(&connection, used, 0, 300_000).unwrap(), used, "enough");
        assert_eq!(make_room_in_log(&connection, used + 1, 9, 300_000).unwrap(), used, "cut");
        assert_eq!(make_room_in_log(&connection, used, 1, 300_000).unwrap(), used + 300_000);
        assert_eq!((size(), std::fs::read(&log).unwrap().pop()), (used + 300_000, Some(0)));
        connection.execute_batch("INSERT INTO t VALUES (7); COMMIT").unwrap();
        assert_eq!(size(), used + 300_000, "the frames overwrite zeros");
        // As after a power cut: only the files, without the index of the log.
        let copy = folder.path().join("b.db");
        std::fs::copy(&path, &copy).unwrap();
        std::fs::copy(&log, copy.with_extension("db-wal")).unwrap();
        let copy = Connection::open(&copy).unwrap();
        assert_eq!(copy.query_row("SELECT x FROM t", [], |row| row.get(0)), Ok(7));
    }

    #[test]
    fn a_database_without_a_file_has_nothing_to_sync() {
        let connection = Connection::open_in_memory().unwrap();
        sync(&connection).unwrap();
        let temporary = Connection::open("").unwrap();
        temporary.execute_batch("CREATE TABLE t (x)").unwrap();
        sync(&temporary).unwrap();
    }
}
