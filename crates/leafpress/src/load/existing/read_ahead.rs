//! Reads the pages that an insert will change, before the insert comes to them.
//!
//! An insert waits for each page that only the disk has, and copies it. A thread of its own, on
//! another core, looks up the keys of the new rows in the same order, and so has the disk read the
//! pages and the system hold them. It reads the state before the insert, as any reader of a database
//! in WAL mode; with a rollback journal a reader would lock the insert out.
//!
//! Must never: last longer than the insert. A checkpoint waits for readers.

use std::fmt;
use std::sync::{Arc, OnceLock};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use rusqlite::{InterruptHandle, OpenFlags};

use super::connect::{CACHE_BYTES_MIN, ExistingDatabase, ask};
use super::staged::{attach_file, attachable};
use super::task::Staged;
use crate::candidate::uri;
use crate::connect;
use crate::load::long_statements::end_if;
use crate::load::options::CancelToken;
use crate::machine_memory::usable_bytes;

/// Looks up keys in a database ahead of an insert, until it is dropped.
pub struct ReadAhead {
    stop: CancelToken,
    /// Stops the query that runs, once there is a connection.
    running: Arc<OnceLock<InterruptHandle>>,
    thread: Option<JoinHandle<()>>,
}

impl ReadAhead {
    /// Begins with a query that looks up the keys of the staged rows in their order, in a database in
    /// WAL mode.
    ///
    /// None where the insert does as well without: there is one core, or the pages could be more than
    /// the system keeps in memory until the insert comes to them.
    pub fn begin(
        target: &ExistingDatabase,
        staged: &Staged<'_>,
        page_bytes: u32,
        query: String,
    ) -> Option<Self> {
        let database_bytes = std::fs::metadata(&target.path).ok()?.len();
        let read_bytes = database_bytes.min(staged.rows.saturating_mul(page_bytes.into()));
        let cores = thread::available_parallelism().map_or(1, usize::from);
        if cores == 1 || read_bytes > usable_bytes()? as u64 / 4 {
            return None;
        }
        let stop = CancelToken::new();
        let database = uri(&target.path, "mode=ro");
        let (attached, stopped) = (attachable(staged), stop.clone());
        let running = Arc::new(OnceLock::new());
        let handle = Arc::clone(&running);
        // The insert reads what an error leaves out.
        let work = move || drop(look_up(&database, &attached, &query, stopped, &handle));
        let named = thread::Builder::new().name("leafpress-read-ahead".to_owned());
        Some(Self { stop, running, thread: Some(named.spawn(work).ok()?) })
    }
}

impl fmt::Debug for ReadAhead {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReadAhead").field("stop", &self.stop).finish_non_exhaustive()
    }
}

impl Drop for ReadAhead {
    fn drop(&mut self) {
        self.stop.cancel();
        let Some(thread) = self.thread.take() else { return };
        // SQLite asks for the token after some hundred pages, each of which may take a read of the
        // disk; an interrupt ends the query at the next row. One that comes between two statements
        // has no effect, so it is repeated.
        while !thread.is_finished() {
            if let Some(handle) = self.running.get() {
                handle.interrupt();
            }
            thread::sleep(Duration::from_millis(1));
        }
        let _ = thread.join();
    }
}

fn look_up(
    database: &str,
    attached: &str,
    query: &str,
    stopped: CancelToken,
    running: &OnceLock<InterruptHandle>,
) -> rusqlite::Result<i64> {
    let flags = connect::READ_ONLY | OpenFlags::SQLITE_OPEN_URI;
    let mut connection = connect::open(database, flags)?;
    let _ = running.set(connection.get_interrupt_handle());
    end_if(&mut connection, move || stopped.is_cancelled())?;
    let cache_kib = CACHE_BYTES_MIN / 1024;
    connection.execute_batch(&format!(
        "PRAGMA cell_size_check=ON; PRAGMA automatic_index=OFF; PRAGMA cache_size=-{cache_kib}"
    ))?;
    attach_file(&connection, attached)?;
    ask(&connection, query)
}
