//! Settings of connections for statements that take long: the looks at a cancel token, and the sorter.

use rusqlite::Connection;

/// Steps of SQLite's machine between two looks at the cancel token.
pub const STEPS_BETWEEN_LOOKS: i32 = 10_000;

/// Sets SQLite's sorter for the indexes that this connection makes, with as many threads. The sorter works
/// in runs of the cache's size: small ones, sorted side by side and merged, take a fifth of the time of a
/// large one.
pub fn set_sorter(connection: &Connection, threads: usize) -> rusqlite::Result<()> {
    // SQLite counts those beside the one that calls it.
    let others = threads.saturating_sub(1);
    connection.execute_batch(&format!("PRAGMA cache_size=-2000; PRAGMA threads={others}"))
}
