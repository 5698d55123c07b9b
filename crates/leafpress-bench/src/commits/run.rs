//! One rung of commits in this process: opens, makes the calls, records, and
//! leaves the closing to whoever asked, outside of the time taken.

use std::path::Path;
use std::thread;
use std::time::Duration;

use super::calls::{Called, Progress};
use super::scene::{self, SlowedSyncs};
use super::{CommitRung, Committer, ours, rivals};
use crate::error::{Error, Result};
use crate::report::{Course, Latency};

/// What a rung's calls came to.
#[derive(Debug, Default)]
pub(crate) struct Committed {
    /// Calls that were acknowledged.
    pub(crate) calls: u64,
    /// From the first call to the last acknowledgement.
    pub(crate) wall: Duration,
    /// Exact percentiles, where each call has a latency.
    pub(crate) latency: Option<Latency>,
    /// The course over time, where the rung keeps it.
    pub(crate) course: Option<Course>,
    /// The largest size of the WAL that was seen, where it was watched.
    pub(crate) wal_bytes_max: Option<u64>,
    /// How long readers held a snapshot.
    pub(crate) readers_held: Duration,
}

/// What is left to do when all has been measured: closing, which waits for what
/// is still under way and moves the WAL's pages to the file.
pub(crate) type Closing = Box<dyn FnOnce() -> Result<()>>;

/// A rung whose database is open, ready for its first call.
pub(crate) type Ready = Box<dyn FnOnce() -> Result<(Committed, Closing)>>;

/// Opens the rung's new database.
pub(crate) fn prepare(rung: CommitRung, database: &Path) -> Result<Ready> {
    let database = database.to_owned();
    let slowed = SlowedSyncs::of(rung.scene)?;
    let vfs = slowed.as_ref().map(|slowed| slowed.name().to_owned());
    if rung.by == Committer::Leafpress {
        let writer = ours::open(&rung, &database, vfs.as_deref())?;
        return Ok(Box::new(move || {
            let progress = Progress::default();
            let committed = watched(&rung, &database, vfs.as_deref(), &progress, || {
                ours::run(&rung, &writer, &progress)
            })?;
            let close = move || {
                ours::close(writer)?;
                drop(slowed);
                Ok(())
            };
            Ok((committed, Box::new(close)))
        }));
    }
    let connection = rivals::open(&rung, &database, vfs.as_deref())?;
    Ok(Box::new(move || {
        let progress = Progress::default();
        let mut given_back = None;
        let committed = watched(&rung, &database, vfs.as_deref(), &progress, || {
            let (called, connection) = rivals::run(&rung, connection, &progress)?;
            given_back = Some(connection);
            Ok(called)
        })?;
        let close = move || {
            let closed = given_back.map_or(Ok(()), rusqlite::Connection::close);
            drop(slowed);
            closed.map_err(|(_, error)| Error::sqlite("close the rival's database")(error))
        };
        Ok((committed, Box::new(close)))
    }))
}

/// Tells those beside the callers that these have ended, also by a panic.
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
) -> Result<Committed> {
    if !rung.has_course() {
        return Ok(committed(&calls()?));
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
    let panicked = |_| Error::Rung { name: rung.name(), reason: "a thread panicked".to_owned() };
    let (called, sizes) = (called?, sizes.map_err(panicked)?);
    let readers_held = held.map_err(panicked)??;
    Ok(Committed {
        course: Some(called.recording.course(&sizes)),
        wal_bytes_max: sizes.iter().map(|size| size.bytes).max(),
        readers_held,
        ..committed(&called)
    })
}

fn committed(called: &Called) -> Committed {
    let latency = called.recording.latency();
    Committed { calls: called.calls, wall: called.wall, latency, ..Committed::default() }
}
