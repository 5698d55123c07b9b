//! A savepoint around the insert of one row.

use rusqlite::Connection;

/// Inserts a row by `insert`. After an error nothing of it stays, not even what a trigger did before its
/// RAISE(FAIL). SQLite may have rolled the whole transaction back instead.
pub fn insert_whole<T>(
    connection: &Connection,
    insert: impl FnOnce() -> rusqlite::Result<T>,
) -> rusqlite::Result<T> {
    connection.prepare_cached("SAVEPOINT leafpress_row")?.execute([])?;
    let inserted = insert();
    if !connection.is_autocommit() {
        if inserted.is_err() {
            undo_row(connection)?;
        }
        connection.prepare_cached("RELEASE leafpress_row")?.execute([])?;
    }
    inserted
}

/// Undoes what was done since the savepoint, which stays.
pub fn undo_row(connection: &Connection) -> rusqlite::Result<()> {
    connection.prepare_cached("ROLLBACK TO leafpress_row")?.execute([])?;
    Ok(())
}
