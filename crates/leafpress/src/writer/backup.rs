//! Copies of the whole database while it is in use.
//!
//! ```text
//! snapshot ─► SQLite's backup, 1,000 pages a step ─► hidden file beside the copy ─► sync ─► its name
//! ```
//!
//! With a write-ahead log the snapshot is a read transaction of a connection of its own, and no
//! commit waits for it. Without one a reader would keep every commit out, for longer than its
//! caller waits; so the copy is made at the engine, between two groups.
//!
//! 1. The copy holds what one moment held, after the call: all calls that were answered before it.
//! 2. The copy has its name when it is complete and synced; without success nothing is left.
//! 3. It has at most the rights of the database.
//!
//! Must never: replace a file.

use std::ops::ControlFlow;
use std::path::Path;

use rusqlite::backup::{Backup, StepResult};
use rusqlite::{Connection, ffi};

use super::Writer;
use crate::connect;
use crate::error::{Error, ErrorKind, Result};
use crate::new_file::make_new_with;
use crate::profile::open_reader;
use crate::refusal::refuse_unless_path;
use crate::rights::Rights;

/// Pages in one step: some milliseconds.
const PAGES_A_STEP: i32 = 1_000;

/// Progress of a backup.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct BackupProgress {
    /// Pages that are copied.
    pub pages_done: u64,
    /// Pages of the database.
    pub pages_total: u64,
}

impl Writer {
    /// Copies the database as it is at one moment into a new file, which other programs can use
    /// at once. [`backup_with`](Self::backup_with) also tells how far it is.
    ///
    /// With a write-ahead log commits go on meanwhile, and the log cannot be cut before the copy
    /// is done. Under [`Profile::Rollback`](crate::Profile::Rollback) and
    /// [`Profile::Rebuildable`](crate::Profile::Rebuildable) all calls wait until it is done.
    ///
    /// ```
    /// # let folder = tempfile::tempdir().unwrap();
    /// # let path = folder.path().join("app.db");
    /// let writer = leafpress::Writer::builder(&path).open()?;
    /// writer.execute_batch("CREATE TABLE note(text); INSERT INTO note VALUES ('kept')")?;
    /// let copy = folder.path().join("backup.db");
    /// writer.backup_to(&copy)?;
    /// assert!(writer.backup_to(&copy).is_err()); // never over a file that is there
    /// # Ok::<(), leafpress::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Destination`](crate::ErrorKind::Destination) if something has that name; if the folder
    /// cannot be written, or its disk is full; if the groups are committed elsewhere. No file is
    /// left then.
    pub fn backup_to(&self, path: impl AsRef<Path>) -> Result<()> {
        self.backup_with(path, |_| ControlFlow::Continue(()))
    }

    /// As [`backup_to`](Self::backup_to); `progress` is called some times a second, on this
    /// thread. If it breaks off or panics, the backup ends, and no file is left.
    ///
    /// # Errors
    /// As [`backup_to`](Self::backup_to); [`Cancelled`](crate::ErrorKind::Cancelled) if `progress`
    /// broke off.
    pub fn backup_with(
        &self,
        path: impl AsRef<Path>,
        mut progress: impl FnMut(BackupProgress) -> ControlFlow<()> + Send,
    ) -> Result<()> {
        let path = path.as_ref();
        refuse_unless_path(path)?;
        let local = self.shared.get()?.local.as_ref().ok_or_else(|| {
            Error::misuse("this writer's groups are committed elsewhere: it has nothing to copy")
        })?;
        let (database, vfs) = (local.readers.path(), local.readers.vfs());
        let copied = make_new_with(path, Rights::of(database), |hidden| {
            if !local.in_force.profile.is_wal() {
                let copy = &mut |from: &Connection| copy(from, hidden, &mut progress);
                return self.at_the_engine(|engine| engine.between_groups(|it| it.read(copy)));
            }
            let from = open_reader(database, vfs)?;
            let begun = from.execute_batch("BEGIN; SELECT 1 FROM sqlite_schema LIMIT 1");
            begun.map_err(|source| Error::sqlite("read the database to be copied", source))?;
            // The path must still lead to the writer's database, and the writer must go on.
            let look = &mut |_: &Connection| Ok(());
            self.at_the_engine(|engine| engine.between_groups(|it| it.read(look)))?;
            copy(&from, hidden, &mut progress)
        });
        copied.map_err(|error| error.on_disk("no copy was made; the database is not touched"))
    }
}

/// Copies all pages that `from` sees into the empty file `to`, which is synced by its maker.
fn copy(
    from: &Connection,
    to: &Path,
    progress: &mut dyn FnMut(BackupProgress) -> ControlFlow<()>,
) -> Result<()> {
    let failed = |source| Error::sqlite("copy the database", source).on_full_disk(to);
    let mut into = connect::open(to, connect::READ_WRITE).map_err(failed)?;
    // A file that is removed unless it is complete needs no journal.
    into.pragma_update(None, "journal_mode", "OFF").map_err(failed)?;
    into.pragma_update(None, "synchronous", "OFF").map_err(failed)?;
    let backup = Backup::new(from, &mut into).map_err(failed)?;
    loop {
        let step = backup.step(PAGES_A_STEP).map_err(failed)?;
        let pages = backup.progress();
        let [total, left] = [pages.pagecount, pages.remaining].map(|pages| pages.max(0) as u64);
        let done = BackupProgress { pages_done: total.saturating_sub(left), pages_total: total };
        if progress(done).is_break() {
            return Err(ErrorKind::Cancelled.into());
        }
        match step {
            StepResult::More => {}
            StepResult::Done => break,
            _ => {
                let busy = ffi::Error::new(ffi::SQLITE_BUSY);
                return Err(failed(rusqlite::Error::SqliteFailure(busy, None)));
            }
        }
    }
    drop(backup);
    into.close().map_err(|(_, source)| failed(source))
}
