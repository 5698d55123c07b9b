//! Locks, which no closed descriptor of the process may drop, and stamps, which must
//! show the changes of other processes.

use std::fs;
use std::path::Path;
use std::time::Duration;

use leafpress::vfs::PlatformDisk;
use leafpress::vfs::atomic::{AtomicDisk as _, FileStamp};
use leafpress_testing::say_skipped;
use rusqlite::Connection;

use super::mount::{XfsMount, make_database, new_folder};
use super::writers::connect;
use super::{run_self, text};

const ROUNDS: u32 = 20_000;

/// Another process tries to write, without waiting, and says whether it could.
pub fn try_to_write(path: &Path) {
    let connection = Connection::open(path).unwrap();
    connection.busy_timeout(Duration::ZERO).unwrap();
    match connection.execute_batch("BEGIN EXCLUSIVE; COMMIT") {
        Ok(()) => print!("written"),
        Err(error) => {
            let is_busy = error.sqlite_error_code() == Some(rusqlite::ErrorCode::DatabaseBusy);
            print!("{}", if is_busy { "busy" } else { "failed" });
        }
    }
}

fn said_by_another_process(path: &Path) -> String {
    String::from_utf8(run_self(&["--try-to-write", text(path)]).stdout).unwrap()
}

pub fn no_lock_of_a_plain_connection_is_lost(mount: &XfsMount) {
    for (begin, end) in [
        ("BEGIN; SELECT value FROM t", "COMMIT"),
        ("BEGIN IMMEDIATE; UPDATE t SET value = value + 1 WHERE id = 1", "ROLLBACK"),
        ("BEGIN EXCLUSIVE", "COMMIT"),
    ] {
        let path = new_folder(mount, &format!("locks {}", &begin[..11].trim())).join("a.db");
        make_database(&path, 10);
        // A connection of this process that knows nothing of atomic pages.
        let plain = Connection::open(&path).unwrap();
        let ours = connect(&path, "leafpress", "NORMAL", "EXTRA");
        ours.execute_batch("UPDATE t SET value = value + 1 WHERE id = 1").unwrap();
        plain.execute_batch(begin).unwrap();
        assert_eq!(said_by_another_process(&path), "busy", "{begin}");
        drop(ours);
        assert_eq!(said_by_another_process(&path), "busy", "{begin}: lost with our connection");
        drop(PlatformDisk::new().open(text(&path)).unwrap());
        assert_eq!(said_by_another_process(&path), "busy", "{begin}: lost with another opening");
        plain.execute_batch(end).unwrap();
        assert_eq!(said_by_another_process(&path), "written", "{begin}: no lock is held");
    }
}

/// Names and journals that others make and take away are always noticed.
pub fn stamps_tell_every_change(mount: &XfsMount) {
    let memory = Path::new("/dev/shm");
    let in_memory = tempfile::tempdir_in(memory);
    tell_every_change(&new_folder(mount, "stamps"), "XFS");
    match in_memory {
        Ok(folder) => tell_every_change(folder.path(), "/dev/shm"),
        Err(error) => say_skipped(format!("stamps in memory: /dev/shm: {error}")),
    }
}

fn tell_every_change(folder: &Path, where_it_is: &str) {
    let journal = folder.join("a.db-journal");
    let disk = PlatformDisk::new();
    let Some(mut seen) = disk.folder_stamp(text(&journal)).unwrap() else {
        say_skipped(format!("no stamps on {where_it_is}"));
        return;
    };
    let mut journal_seen = FileStamp::Absent;
    for round in 0..ROUNDS {
        match round % 3 {
            0 => fs::write(&journal, "a").unwrap(),
            1 => fs::write(&journal, "b").unwrap(),
            _ => fs::remove_file(&journal).unwrap(),
        }
        let now = disk.folder_stamp(text(&journal)).unwrap().unwrap();
        assert_eq!(now != seen, round % 3 != 1, "{where_it_is}, round {round}");
        let journal_now = disk.file_stamp(text(&journal)).unwrap();
        assert_ne!(journal_now, journal_seen, "{where_it_is}, round {round}");
        (seen, journal_seen) = (now, journal_now);
    }
    println!("{ROUNDS} changes on {where_it_is}, each with a stamp of its own");
}
