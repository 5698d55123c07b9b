//! Single pages, read and written through SQLite's table `sqlite_dbpage`.
//!
//! For SQLite these are page reads and writes like any others.

use rusqlite::{Connection, Transaction, params};

/// Statement that reads a page.
pub const READ_PAGE: &str = "SELECT data FROM sqlite_dbpage('main') WHERE pgno = ?1";
/// Statement that writes a page.
pub const WRITE_PAGE: &str = "INSERT INTO sqlite_dbpage(pgno, data) VALUES (?1, ?2)";

/// Writes a page.
pub fn write_page(transaction: &Transaction<'_>, number: u32, page: &[u8]) -> rusqlite::Result<()> {
    transaction.prepare_cached(WRITE_PAGE)?.execute(params![number, page]).map(|_| ())
}

/// Reads a page.
pub fn read_page(connection: &Connection, number: u32) -> rusqlite::Result<Vec<u8>> {
    connection.prepare_cached(READ_PAGE)?.query_row([number], |row| row.get(0))
}
