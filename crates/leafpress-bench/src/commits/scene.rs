//! What goes on beside the callers: readers, slow syncs, and a watch over the
//! size of the WAL.
//!
//! Must never: open the database's files by itself (closing such a descriptor
//! would drop the process's locks), or run on when the callers have ended.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use leafpress::vfs::{self, PlatformVfs, Registration, SlowSync};
use rusqlite::{Connection, OpenFlags};

use super::calls::Progress;
use super::record::WalSize;
use super::{CommitRung, Scene};
use crate::error::{Error, Result};
use crate::statistics::median;

/// Between two looks at the size of the WAL.
const BETWEEN_LOOKS: Duration = Duration::from_millis(2);

/// How long a short reader holds its snapshot, and rests afterwards.
const SHORT_READ: Duration = Duration::from_millis(3);

/// A reader looks so often whether it is its turn.
const BETWEEN_READERS_LOOKS: Duration = Duration::from_millis(1);

/// The file beside the database.
fn wal_path(database: &Path) -> PathBuf {
    let mut name: OsString = database.as_os_str().to_owned();
    name.push("-wal");
    name.into()
}

/// Notes the size of the WAL until the callers have ended.
pub(super) fn watch_wal(database: &Path, progress: &Progress) -> Vec<WalSize> {
    let path = wal_path(database);
    let mut sizes: Vec<WalSize> = Vec::new();
    loop {
        let is_over = progress.is_over();
        if let Some(epoch) = progress.epoch() {
            let at_us = u32::try_from(epoch.elapsed().as_micros()).unwrap_or(u32::MAX);
            let bytes = fs::metadata(&path).map_or(0, |metadata| metadata.len());
            // Only changes are worth their memory.
            if sizes.last().is_none_or(|last| last.bytes != bytes) {
                sizes.push(WalSize { at_us, bytes });
            }
        }
        if is_over {
            return sizes;
        }
        thread::sleep(BETWEEN_LOOKS);
    }
}

/// Reads as the scene says until the callers have ended; how long a snapshot was
/// held in all.
pub(super) fn read(
    rung: &CommitRung,
    database: &Path,
    vfs: Option<&str>,
    progress: &Progress,
) -> Result<Duration> {
    if !matches!(rung.scene, Scene::LongReader | Scene::ShortReaders) {
        return Ok(Duration::ZERO);
    }
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = match vfs {
        Some(vfs) => Connection::open_with_flags_and_vfs(database, flags, vfs),
        None => Connection::open_with_flags(database, flags),
    };
    let connection = connection.map_err(Error::sqlite("open the database to read it"))?;
    let third = rung.rows / 3;
    let held = if rung.scene == Scene::LongReader {
        wait_until(progress, || progress.done() >= third);
        hold(&connection, || wait_until(progress, || progress.done() >= 2 * third))
    } else {
        read_shortly(&connection, progress)
    };
    held.map_err(Error::sqlite("read beside the callers"))
}

/// Waits for something, but not longer than the callers call.
fn wait_until(progress: &Progress, mut is_so: impl FnMut() -> bool) {
    while !progress.is_over() && !is_so() {
        thread::sleep(BETWEEN_READERS_LOOKS);
    }
}

/// Holds a snapshot while something is done.
fn hold(connection: &Connection, meanwhile: impl FnOnce()) -> rusqlite::Result<Duration> {
    let start = Instant::now();
    connection.execute_batch("BEGIN")?;
    // The snapshot is taken by the first read.
    connection.query_row("SELECT max(id) FROM call", [], |_| Ok(()))?;
    meanwhile();
    connection.execute_batch("COMMIT")?;
    Ok(start.elapsed())
}

fn read_shortly(connection: &Connection, progress: &Progress) -> rusqlite::Result<Duration> {
    let mut held = Duration::ZERO;
    while !progress.is_over() {
        held += hold(connection, || thread::sleep(SHORT_READ))?;
        thread::sleep(SHORT_READ);
    }
    Ok(held)
}

/// The VFS of a scene with slow syncs, for ours and the rival alike, over the disk that is
/// played if one is; its name is withdrawn when this is dropped.
pub(crate) struct SlowedSyncs {
    name: String,
    _registration: Registration,
}

impl SlowedSyncs {
    /// Registers it where the scene needs it.
    pub(super) fn of(scene: Scene) -> Result<Option<Self>> {
        Self::by(scene.sync_delay())
    }

    /// Registers it, unless nothing is to be slowed.
    pub(crate) fn by(delay: Duration) -> Result<Option<Self>> {
        // Tests may run several rungs in one process.
        static COUNT: AtomicU64 = AtomicU64::new(0);
        if delay.is_zero() {
            return Ok(None);
        }
        let name = format!("leafpress-bench-slow-{}", COUNT.fetch_add(1, Ordering::Relaxed));
        let vfs = SlowSync::new(PlatformVfs::new(), delay);
        let registration = vfs::register(&name, vfs, false)?;
        Ok(Some(Self { name, _registration: registration }))
    }

    /// The name under which SQLite knows it.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }
}

/// What a sync of a few freshly written kilobytes takes in this folder: the
/// median of many.
pub(crate) fn sync_us_median(folder: &Path) -> Result<f64> {
    const SYNCS: usize = 50;
    const TIME_MAX: Duration = Duration::from_secs(2);
    let path = folder.join("sync.probe");
    let probe = || -> std::io::Result<Vec<f64>> {
        let mut file = File::create_new(&path)?;
        let begun = Instant::now();
        let mut took_us = Vec::with_capacity(SYNCS);
        while took_us.len() < SYNCS && (took_us.is_empty() || begun.elapsed() < TIME_MAX) {
            file.write_all(&[7; 4096])?;
            let start = Instant::now();
            file.sync_data()?;
            took_us.push(start.elapsed().as_secs_f64() * 1e6);
        }
        fs::remove_file(&path)?;
        Ok(took_us)
    };
    let took_us = probe().map_err(Error::io("write and sync", &path))?;
    Ok(median(&took_us).unwrap_or_default())
}
