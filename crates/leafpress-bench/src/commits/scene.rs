//! Readers beside the callers, and a watch over the size of the WAL.
//!
//! Must never: open the database's files by itself (closing such a descriptor
//! would drop the process's locks), or run on when the callers have ended.

use std::fs;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use leafpress::vfs::paths::companion_of;
use rusqlite::Connection;

use super::calls::Progress;
use super::rung::{CommitRung, Scene};
use crate::connect;
use crate::error::{Error, Result};
use crate::recording::WalSize;

/// Poll interval of the size of the WAL.
const BETWEEN_LOOKS: Duration = Duration::from_millis(2);

/// Time for which a short reader holds its snapshot, and rests afterwards.
const SHORT_READ: Duration = Duration::from_millis(3);

/// Poll interval of a reader that waits for its turn.
const BETWEEN_READERS_LOOKS: Duration = Duration::from_millis(1);

/// Notes the size of the WAL until the callers have ended.
pub(super) fn watch_wal(database: &Path, progress: &Progress) -> Vec<WalSize> {
    let path = companion_of(database, "-wal");
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
    let connection = connect::open_reader(database, vfs)?;
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
