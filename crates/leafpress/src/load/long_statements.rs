//! Settings of connections for statements that take long: the looks whether to stop, and the sorter.

use rusqlite::Connection;

/// Steps of SQLite's machine between two looks.
const STEPS_BETWEEN_LOOKS: i32 = 10_000;

/// Ends the statements of this connection once `stop` returns true, while they run.
pub fn end_if(
    connection: &mut Connection,
    stop: impl FnMut() -> bool + Send + 'static,
) -> rusqlite::Result<()> {
    connection.progress_handler(STEPS_BETWEEN_LOOKS, Some(stop))
}

/// Sets SQLite's sorter for the indexes that this connection makes, with as many threads. The sorter works
/// in runs of the cache's size: small ones, sorted side by side and merged, take a fifth of the time of a
/// large one.
pub fn set_sorter(connection: &Connection, threads: usize) -> rusqlite::Result<()> {
    // SQLite counts those beside the one that calls it.
    let others = threads.saturating_sub(1);
    connection.execute_batch(&format!("PRAGMA cache_size=-2000; PRAGMA threads={others}"))
}
