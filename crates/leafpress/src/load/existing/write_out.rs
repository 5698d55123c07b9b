//! Has the disk write during a long transaction, and not only at its syncs.
//!
//! SQLite writes into the page cache, and Linux leaves changed pages there until a sync or for 30
//! seconds. A thread tells it every tenth of a second to start with them, so that the syncs at the
//! commit and in the checkpoint find little left.
//!
//! Must never: be taken for a sync. SQLite still decides what is durable, and when.

use std::path::Path;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use crate::paths::companion_of;
use crate::vfs::locks::FileHandle;

const INTERVAL: Duration = Duration::from_millis(100);

/// Writes a database, its journal and its log out early, until it is dropped.
pub struct WriteOut {
    thread: Option<(Sender<()>, JoinHandle<()>)>,
}

impl WriteOut {
    /// Begins for this database. Where the system starts no thread, SQLite's syncs do all the work.
    pub fn begin(database: &Path) -> Self {
        let files = ["", "-wal", "-journal"].map(|suffix| companion_of(database, suffix));
        let (stop, stopped) = channel();
        let work = move || {
            while stopped.recv_timeout(INTERVAL) == Err(RecvTimeoutError::Timeout) {
                for file in files.iter().filter_map(|path| FileHandle::open(path).ok()) {
                    file.start_writing();
                }
            }
        };
        let started =
            std::thread::Builder::new().name("leafpress-write-out".to_owned()).spawn(work);
        Self { thread: started.ok().map(|thread| (stop, thread)) }
    }
}

impl Drop for WriteOut {
    fn drop(&mut self) {
        if let Some((stop, thread)) = self.thread.take() {
            drop(stop);
            let _ = thread.join();
        }
    }
}
