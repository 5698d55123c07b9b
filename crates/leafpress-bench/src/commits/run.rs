//! One rung of commits in this process: opens, makes the calls, records, and closes outside of the
//! time taken: closing waits for what is still under way and moves the WAL's pages to the file.

use std::path::Path;
use std::thread;
use std::time::Duration;

use super::calls::{Called, Progress};
use super::rung::{CommitRung, Committer};
use super::{ours, rivals, scene};
use crate::bound::syncs_of_commits;
use crate::connect;
use crate::error::{Error, Result};
use crate::rung::result::RungResult;
use crate::syncs::SlowedSyncs;
use crate::usage::Usage;

/// Does the rung's work on a new database, and measures it.
pub(super) fn run(rung: CommitRung, database: &Path) -> Result<RungResult> {
    let slowed = SlowedSyncs::by(rung.scene.sync_delay())?;
    let vfs = slowed.as_ref().map(SlowedSyncs::name);
    let progress = Progress::default();
    if rung.by == Committer::Leafpress {
        let writer = connect::open_writer(rung.safety, database, vfs)?;
        writer.execute_batch(rung.table.schema())?;
        let calls = || ours::run(&rung, &writer, &progress);
        let result = measured(&rung, database, vfs, &progress, calls)?;
        let syncs = Some(syncs_of_commits(rung.safety, writer.stats().commits));
        writer.close()?;
        return Ok(RungResult { syncs, ..result });
    }
    let connection = rivals::open(&rung, database, vfs)?;
    let mut given_back = None;
    let result = measured(&rung, database, vfs, &progress, || {
        let (called, connection) = rivals::run(&rung, connection, &progress)?;
        given_back = Some(connection);
        Ok(called)
    })?;
    given_back.map_or(Ok(()), connect::close)?;
    Ok(result)
}

/// Makes the calls and adds what they used.
fn measured(
    rung: &CommitRung,
    database: &Path,
    vfs: Option<&str>,
    progress: &Progress,
    calls: impl FnOnce() -> Result<Called>,
) -> Result<RungResult> {
    let before = Usage::now();
    let result = watched(rung, database, vfs, progress, calls)?;
    let used = Usage::now().since(before);
    Ok(RungResult { cpu_s: used.cpu_s, peak_mb: used.peak_mb, io: used.io, ..result })
}

/// Tells the threads beside the callers that these have ended, also by a panic.
struct EndsOnDrop<'p>(&'p Progress);

impl Drop for EndsOnDrop<'_> {
    fn drop(&mut self) {
        self.0.end();
    }
}

/// Makes the calls while readers read and the WAL is watched, as the scene says.
fn watched(
    rung: &CommitRung,
    database: &Path,
    vfs: Option<&str>,
    progress: &Progress,
    calls: impl FnOnce() -> Result<Called>,
) -> Result<RungResult> {
    if !rung.has_course() {
        return Ok(answered(&calls()?));
    }
    let (called, sizes, held) = thread::scope(|scope| {
        let watching = scope.spawn(|| scene::watch_wal(database, progress));
        let reading = scope.spawn(|| scene::read(rung, database, vfs, progress));
        let called = {
            let _end = EndsOnDrop(progress);
            calls()
        };
        (called, watching.join(), reading.join())
    });
    let panicked = |_| Error::rung(rung.name(), "a thread panicked");
    let (called, sizes) = (called?, sizes.map_err(panicked)?);
    let held: Duration = held.map_err(panicked)??;
    let mut result = answered(&called);
    if !held.is_zero() {
        result.stages_s.insert("snapshots held".to_owned(), held.as_secs_f64());
    }
    Ok(RungResult {
        series: Some(called.recording.course(&sizes)),
        wal_bytes_max: sizes.iter().map(|size| size.bytes).max(),
        ..result
    })
}

fn answered(called: &Called) -> RungResult {
    RungResult {
        wall_s: called.wall.as_secs_f64(),
        rows: called.calls,
        latency_us: called.recording.latency(),
        ..RungResult::default()
    }
}
