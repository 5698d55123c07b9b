//! Content of the staged file: the table's declaration, its indexes with their roots, and their
//! pages.

use std::io::Read as _;

use leafpress_format::header::{self, layout_in, number_in};
use leafpress_format::{DATABASE_HEADER_BYTES, PageLayout};
use rusqlite::{Connection, OpenFlags, OptionalExtension as _};

use super::carry::damaged;
use super::connect::ask;
use super::free_pages::FreePages;
use super::inspect::{Existing, TextEncoding};
use super::task::Staged;
use crate::candidate::uri;
use crate::connect;
use crate::error::{Error, Result};
use crate::vfs::locks::FileHandle;

/// Name under which the staged file is attached.
pub const STAGED: &str = "\"leafpress staged\"";

/// The staged table, as its file declares it.
#[derive(Debug)]
pub struct StagedTable {
    /// The table's row of the schema table.
    pub table: StagedTree,
    /// Indexes of the table, in the order in which they were made.
    pub indexes: Vec<StagedTree>,
    /// The table's row of `sqlite_sequence`, if it has one.
    pub sequence: Option<i64>,
    /// The table's rows of `sqlite_stat1`: index and statistics.
    pub statistics: Vec<(Option<String>, String)>,
    /// Layout of the file's pages.
    pub layout: PageLayout,
    /// Number of pages of the file.
    pub page_count: u32,
    /// Names of other tables, such as `sqlite_sequence`.
    others: Vec<String>,
}

/// A table or an index.
#[derive(Debug, Clone)]
pub struct StagedTree {
    /// Name of the table or index.
    pub name: String,
    /// Statement that made it; none for automatic indexes.
    pub sql: Option<String>,
    /// Root page.
    pub root: u32,
}

impl StagedTable {
    /// Reads the staged table's declaration.
    pub fn read(staged: &Staged<'_>) -> Result<Self> {
        let header = read_header(staged)?;
        let refused = |source| Error::sqlite("read the temporary database", source);
        let connection = open(staged).map_err(refused)?;
        Self::from_schema(&connection, staged.table, &header)
            .map_err(refused)?
            .ok_or_else(|| not_staged(staged, "the table is not in it"))
    }

    fn from_schema(
        connection: &Connection,
        table: &str,
        header: &StagedHeader,
    ) -> rusqlite::Result<Option<Self>> {
        let sql = "SELECT name, sql, rootpage FROM sqlite_schema WHERE type = ?1 AND tbl_name = ?2
                   ORDER BY rowid";
        let mut statement = connection.prepare(sql)?;
        let mut trees = |kind: &str| {
            let read = |row: &rusqlite::Row<'_>| {
                Ok(StagedTree { name: row.get(0)?, sql: row.get(1)?, root: row.get(2)? })
            };
            statement.query_map([kind, table], read)?.collect::<rusqlite::Result<Vec<_>>>()
        };
        let (tables, indexes) = (trees("table")?, trees("index")?);
        let Some(table) = tables.into_iter().next() else { return Ok(None) };
        let others = "SELECT name FROM sqlite_schema WHERE rootpage > 0 AND tbl_name <> ?1";
        let others = connection
            .prepare(others)?
            .query_map([&table.name], |row| row.get(0))?
            .collect::<rusqlite::Result<_>>()?;
        Ok(Some(Self {
            sequence: sequence(connection, &table.name)?,
            statistics: statistics(connection, &table.name)?,
            table,
            indexes,
            layout: header.layout,
            page_count: header.page_count,
            others,
        }))
    }

    /// Numbers of all pages that are not moved as they are, in ascending order: page 1, the table's
    /// roots, which get a place of their own, other tables' pages, the freelist and the lock-byte
    /// page.
    pub fn left_out(&self, staged: &Staged<'_>) -> Result<Vec<u32>> {
        let refused = |source| Error::sqlite("read the temporary database", source);
        let connection = open(staged).map_err(refused)?;
        let mut pages: Vec<u32> = self.trees().map(|it| it.root).collect();
        if self.layout.lock_byte_page() <= self.page_count {
            pages.push(self.layout.lock_byte_page());
        }
        for other in ["sqlite_schema"].into_iter().chain(self.others.iter().map(String::as_str)) {
            let sql = "SELECT pageno FROM dbstat WHERE name = ?1";
            let mut statement = connection.prepare(sql).map_err(refused)?;
            let found = statement.query_map([other], |row| row.get(0)).map_err(refused)?;
            for page in found {
                pages.push(page.map_err(refused)?);
            }
        }
        let free = FreePages::choose(&connection, self.layout, None, self.page_count, u32::MAX);
        pages.extend(free.map_err(refused)?.taken);
        pages.sort_unstable();
        pages.dedup();
        Ok(pages)
    }

    /// Trees of the table, then of its indexes.
    pub fn trees(&self) -> impl Iterator<Item = &StagedTree> {
        std::iter::once(&self.table).chain(&self.indexes)
    }
}

/// Opens the staged file without locks, as no program changes it.
pub fn open(staged: &Staged<'_>) -> rusqlite::Result<Connection> {
    let flags = connect::READ_ONLY | OpenFlags::SQLITE_OPEN_URI;
    connect::open(attachable(staged), flags)
}

/// Name of the staged file, for opening and for ATTACH.
pub fn attachable(staged: &Staged<'_>) -> String {
    let path = std::path::absolute(staged.file).unwrap_or_else(|_| staged.file.to_owned());
    uri(&path, "mode=ro&immutable=1")
}

/// Attaches the staged file if that can be: nothing can be attached to a database in UTF-16.
pub fn attach(
    connection: &Connection,
    existing: &Existing,
    staged: &Staged<'_>,
) -> rusqlite::Result<bool> {
    let can_be = existing.encoding == TextEncoding::Utf8;
    if can_be {
        attach_file(connection, &attachable(staged))?;
    }
    Ok(can_be)
}

/// Attaches the file of this name ([`attachable`]).
pub fn attach_file(connection: &Connection, name: &str) -> rusqlite::Result<()> {
    connection.execute(&format!("ATTACH ?1 AS {STAGED}"), [name]).map(|_| ())
}

/// Returns true if the rowids are the numbers from 1 on without a gap, in a table of so many rows, whose
/// quoted name with its schema is given.
///
/// # Errors
/// SQLite's, such as that of a table without rowids.
pub fn is_numbered(
    connection: &Connection,
    table: &str,
    rowid: &str,
    rows: u64,
) -> rusqlite::Result<bool> {
    // Each end by a query of its own: for both at once SQLite would read all rows.
    let end = |function: &str| {
        ask::<Option<i64>>(connection, &format!("SELECT {function}({rowid}) FROM {table}"))
    };
    Ok(match (end("min")?, end("max")?) {
        (Some(first), Some(last)) => first == 1 && last.unsigned_abs() == rows,
        _ => rows == 0,
    })
}

fn sequence(connection: &Connection, table: &str) -> rusqlite::Result<Option<i64>> {
    if !has_table(connection, "sqlite_sequence")? {
        return Ok(None);
    }
    let sql = "SELECT seq FROM sqlite_sequence WHERE name = ?1";
    connection.query_row(sql, [table], |row| row.get(0)).optional()
}

fn statistics(
    connection: &Connection,
    table: &str,
) -> rusqlite::Result<Vec<(Option<String>, String)>> {
    if !has_table(connection, "sqlite_stat1")? {
        return Ok(Vec::new());
    }
    connection
        .prepare("SELECT idx, stat FROM sqlite_stat1 WHERE tbl = ?1 ORDER BY rowid")?
        .query_map([table], |row| Ok((row.get(0)?, row.get(1)?)))?
        .collect()
}

/// Returns true if the main database has a table of that name.
pub fn has_table(connection: &Connection, name: &str) -> rusqlite::Result<bool> {
    let sql = "SELECT count(*) FROM main.sqlite_schema WHERE type = 'table' AND name = ?1";
    connection.query_row(sql, [name], |row| row.get::<_, i64>(0)).map(|count| count > 0)
}

struct StagedHeader {
    layout: PageLayout,
    page_count: u32,
}

/// Reads the file's header without SQLite.
fn read_header(staged: &Staged<'_>) -> Result<StagedHeader> {
    let failed = |source| Error::io("read", staged.file, source);
    let mut header = [0; DATABASE_HEADER_BYTES];
    FileHandle::open(staged.file)
        .and_then(|mut file| file.read_exact(&mut header))
        .map_err(failed)?;
    let layout = layout_in(&header).map_err(|error| not_staged(staged, &error.to_string()))?;
    let number = |place| number_in(&header, place).unwrap_or_default();
    Ok(StagedHeader { layout, page_count: number(header::PAGES) })
}

fn not_staged(staged: &Staged<'_>, reason: &str) -> Error {
    damaged(staged.file, reason)
}

/// Number of rows of a table, whose quoted name with its schema is given.
pub fn count_rows(connection: &Connection, table: &str) -> rusqlite::Result<u64> {
    let sql = format!("SELECT count(*) FROM {table}");
    ask::<i64>(connection, &sql).map(i64::unsigned_abs)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rowids_with_a_gap_are_not_numbers_of_rows() {
        let connection = Connection::open_in_memory().unwrap();
        for (rowids, expected) in [
            (&[][..], true),
            (&[1], true),
            (&[1, 2, 3], true),
            (&[-5, 1, 3], false),
            (&[0, 1, 3], false),
            (&[1, 2, 4], false),
            (&[i64::MIN, 1], false),
        ] {
            connection.execute_batch("DROP TABLE IF EXISTS t; CREATE TABLE t(a)").unwrap();
            for rowid in rowids {
                connection.execute("INSERT INTO t(rowid) VALUES (?1)", [rowid]).unwrap();
            }
            let rows = count_rows(&connection, "main.t").unwrap();
            let numbered = is_numbered(&connection, "main.t", "rowid", rows).unwrap();
            assert_eq!(numbered, expected, "{rowids:?}");
        }
    }
}
