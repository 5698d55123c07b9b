//! A machine with one recorded folder in memory, and processes on it.
//!
//! *Our* process reaches the folder through [`AtomicPages`], others as plain
//! SQLite does. Locks, the page cache and the log are shared by all, as those of
//! one system. Each process has a [`Life`] of its own.
//!
//! Must never: let two machines, of two threads or two runs, meet.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use leafpress::vfs::atomic::{AtomicPages, Safeguard};
use leafpress::vfs::{Registration, register};
use rusqlite::{Connection, OpenFlags};

use super::life::{Life, Mortal};
use super::log::Log;
use super::memory_vfs::{MEMORY_FOLDER, MemoryVfs};
use super::random::Random;
use super::recorder::Recorder;
use super::simulated_disk::{DiskCounts, DiskMode, SimulatedDisk};

/// Disk below our processes.
#[derive(Clone, Copy, Debug)]
pub struct OurDisk {
    /// Its treatment of whole writes.
    pub mode: DiskMode,
    /// True if it says when names and files were changed.
    pub is_stamped: bool,
    /// Fixes that [`AtomicPages`] leaves out.
    pub without: &'static [Safeguard],
}

/// The folder, and what happens to it.
pub(super) struct Machine {
    recorder: Arc<Recorder<MemoryVfs>>,
}

/// A process, which has connections.
pub(super) struct Process {
    registration: Registration,
    disk: Option<SimulatedDisk>,
    /// Life of the process, which the test may end.
    pub life: Life,
}

impl Machine {
    /// An empty folder, not recorded yet.
    pub fn new() -> Self {
        Self { recorder: Arc::new(Recorder::new(MemoryVfs::new())) }
    }

    /// Begins to record. The files that are there are durable.
    pub fn record(&self) -> Arc<Log> {
        self.recorder.watch_from(MEMORY_FOLDER, self.recorder.inner().snapshot())
    }

    /// The system writes out the journals that a dead process had finished with, cut
    /// to nothing or their headers zeroed, and had not synced. SQLite itself does not
    /// survive a power cut in the next transaction if that has not happened.
    pub fn write_finished_journals(&self, log: &Log) {
        for (name, content) in self.recorder.inner().snapshot().files {
            let is_finished = content.get(..8).is_none_or(|magic| magic == [0; 8]);
            if name.ends_with("-journal") && is_finished {
                let file = log.file(&name).unwrap();
                log.synced_file(file, log.position());
            }
        }
    }

    /// A process that is plain SQLite.
    pub fn plain_process(&self) -> Process {
        let life = Life::new();
        let vfs = Mortal::new(Arc::clone(&self.recorder), life.clone());
        let registration = register(&process_name(), vfs).unwrap();
        Process { registration, disk: None, life }
    }

    /// One of ours.
    pub fn our_process(&self, ours: OurDisk, random: Random) -> Process {
        let life = Life::new();
        let recorder = Arc::clone(&self.recorder);
        let disk = SimulatedDisk::new(recorder, ours.mode, ours.is_stamped, life.clone(), random);
        let below = Mortal::new(Arc::clone(&self.recorder), life.clone());
        let vfs = ours
            .without
            .iter()
            .fold(AtomicPages::new(below, disk.clone()), |vfs, safeguard| vfs.without(*safeguard));
        let registration = register(&process_name(), vfs).unwrap();
        Process { registration, disk: Some(disk), life }
    }
}

fn process_name() -> String {
    static NUMBER: AtomicU64 = AtomicU64::new(0);
    format!("crash-process-{}", NUMBER.fetch_add(1, Ordering::Relaxed))
}

impl Process {
    /// A connection of this process, to the second database as well if there are two.
    pub fn open(&self, databases: usize) -> rusqlite::Result<Connection> {
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE
            | OpenFlags::SQLITE_OPEN_CREATE
            | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let name = self.registration.name();
        let connection = Connection::open_with_flags_and_vfs("a.db", flags, name)?;
        connection.busy_timeout(std::time::Duration::ZERO)?;
        if databases == 2 {
            connection.execute_batch("ATTACH 'b.db' AS other")?;
        }
        Ok(connection)
    }

    /// Numbers of whole writes that its disk wrote and refused.
    pub fn counts(&self) -> DiskCounts {
        self.disk.as_ref().map(SimulatedDisk::counts).unwrap_or_default()
    }
}
