//! Options of a run, as plain data.
//!
//! Must never: let options pass that contradict one another.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use leafpress::profile::{Locking, Profile};
use leafpress::vfs::PlatformDisk;
use leafpress::vfs::atomic::AtomicDisk;
use leafpress::{Error, Result};

/// Question that is asked repeatedly; the run ends when it answers true.
pub type Stop = Arc<dyn Fn() -> bool + Send + Sync>;

/// Options for running a script.
#[derive(Clone)]
#[expect(clippy::struct_excessive_bools, reason = "options are")]
pub struct IoOptions {
    /// The profile to run under. Unless set it is the one whose journal mode the database has:
    /// `durable` for WAL mode, else `rollback`.
    pub profile: Option<Profile>,
    /// Use of the database by other connections meanwhile.
    pub locking: Locking,
    /// Run with little memory.
    pub small: bool,
    /// Number of runs of the script, one after the other on the same copy; at least 1.
    pub rounds: u32,
    /// Run on the database itself, which the script then changes for good.
    pub in_place: bool,
    /// Folder for the copy, whose disk is then measured; `None` is that of the database.
    pub copy_to: Option<PathBuf>,
    /// Add the state of SQLite's memory to the report.
    pub memory: bool,
    /// Number of transactions that are listed at most; all are counted.
    pub listed_max: usize,
    /// Longest wait for locks of other connections.
    pub busy_timeout: Duration,
    pub stop: Stop,
    /// The disk that is asked for whole pages.
    pub disk: Arc<dyn AtomicDisk>,
    /// Ask SQLite's virtual table `dbstat`, which another SQLite may lack.
    pub with_dbstat: bool,
}

impl Default for IoOptions {
    fn default() -> Self {
        Self {
            profile: None,
            locking: Locking::default(),
            small: false,
            rounds: 1,
            in_place: false,
            copy_to: None,
            memory: false,
            listed_max: 1000,
            busy_timeout: Duration::from_secs(5),
            stop: Arc::new(|| false),
            disk: Arc::new(PlatformDisk::new()),
            with_dbstat: true,
        }
    }
}

impl IoOptions {
    /// Refuses options that contradict one another.
    pub(super) fn check(&self) -> Result<()> {
        if self.in_place && self.copy_to.is_some() {
            return Err(Error::misuse("a folder for the copy was named, but none is to be made"));
        }
        if self.in_place && self.profile == Some(Profile::Rebuildable) {
            return Err(Error::misuse(
                "under profile rebuildable any crash can destroy the database",
            )
            .to_do("leave out --in-place: on a copy nothing can be lost"));
        }
        Ok(())
    }
}
