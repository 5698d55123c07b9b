//! Keeps the upper levels of B-trees in SQLite's cache during an insert in the order of the key.
//!
//! SQLite writes changed pages to the log when its cache is full, those first that were used longest
//! ago. A page that is changed again after that is written over its first version, and at the commit
//! SQLite computes the checksums of all later frames anew: it reads the whole log and writes the header
//! of each frame. A page of the upper levels changes when pages far below it are divided, so this
//! happened with each large insert: a million rows into ten million wrote 18 frames twice, and then
//! 380,000 headers.
//!
//! ```text
//!         ┌── root ──┐                      used between pieces of the insert: level 2 and above
//!     ┌─ 2 ─┐     ┌─ 2 ─┐
//!    1   1   1   1   1   1                  used often enough by the insert itself
//!   leaves, leaves, leaves                  written once
//! ```
//!
//! Must never: change a page, or end an insert. A page that cannot be read here is met by the insert.

use leafpress_format::children;
use rusqlite::{Connection, Statement};

use super::dbpage::READ_PAGE;

/// Share of the cache of a tree that its upper levels may fill.
const CACHE_SHARE: usize = 4;
/// Share of the cache of a tree that a piece of the insert may fill.
const PIECE_SHARE: usize = 2;

/// The upper levels of a table's B-trees.
pub(super) struct UpperLevels<'c> {
    read: Statement<'c>,
    roots: Vec<u32>,
    /// Pages of the cache for each tree.
    tree_pages: usize,
}

impl<'c> UpperLevels<'c> {
    /// Finds the B-trees of a table and its indexes.
    pub fn of(
        connection: &'c Connection,
        table: &str,
        cache_pages: usize,
    ) -> rusqlite::Result<Self> {
        let sql = "SELECT rootpage FROM main.sqlite_schema
            WHERE tbl_name = ?1 COLLATE NOCASE AND rootpage > 0";
        let mut roots = connection.prepare(sql)?;
        let roots: Vec<u32> =
            roots.query_map([table], |row| row.get(0))?.collect::<rusqlite::Result<_>>()?;
        // SQLite counts a page's reading here as its use.
        let read = connection.prepare(READ_PAGE)?;
        let tree_pages = cache_pages / roots.len().max(1);
        Ok(Self { read, roots, tree_pages })
    }

    /// Number of rows after which the upper levels have to be used again. A row changes a leaf of each
    /// tree, and now and then divides it.
    pub fn rows_between(&self) -> usize {
        (self.tree_pages / PIECE_SHARE).max(1)
    }

    /// Reads the interior pages of each tree, so that the cache keeps them.
    pub fn keep(&mut self) {
        for at in 0..self.roots.len() {
            self.keep_tree(self.roots[at]);
        }
    }

    /// Uses the pages from the root down to level 2, or to the level above which fills its share.
    fn keep_tree(&mut self, root: u32) {
        let Some(height) = self.height(root) else { return };
        let (mut level, mut pages) = (vec![root], 1);
        for _ in 2..height {
            let below: Option<Vec<_>> = level.iter().map(|&page| self.children(page)).collect();
            level = below.into_iter().flatten().flatten().collect();
            pages += level.len();
            if pages > self.tree_pages / CACHE_SHARE {
                return;
            }
        }
        for page in level {
            self.children(page);
        }
    }

    /// Number of levels above the leaves.
    fn height(&mut self, root: u32) -> Option<usize> {
        /// SQLite refuses trees with more levels.
        const LEVELS_MAX: usize = 20;
        let mut first = root;
        for height in 0..LEVELS_MAX {
            match self.children(first)?.first() {
                Some(&child) => first = child,
                None => return Some(height),
            }
        }
        None
    }

    /// Uses a page and returns its children: of a leaf none. `None` if it cannot be read.
    fn children(&mut self, number: u32) -> Option<Vec<u32>> {
        let read = |row: &rusqlite::Row<'_>| Ok(children(row.get_ref(0)?.as_blob()?).ok());
        self.read.query_row([number], read).ok()?
    }
}

#[cfg(test)]
mod tests {
    use rusqlite::OpenFlags;

    use super::*;
    use crate::load::existing::connect::ask;
    use crate::vfs::count::{Counted, IoCounters};
    use crate::vfs::{PlatformVfs, register};

    const PAGE_BYTES: u64 = 512;
    const FRAME_BYTES: u64 = PAGE_BYTES + 24;
    const CACHE_PAGES: usize = 400;
    const ROWS: i64 = 8_000;

    /// Inserts rows between those that are there, in the order of the key. Returns the bytes that were
    /// written to the log for each of its frames, in headers and pages.
    fn write_rate(declaration: &str, keeps: bool) -> f64 {
        let folder = tempfile::tempdir().unwrap();
        let counters = IoCounters::new();
        let name = format!("upper-levels-{}", folder.path().display());
        let vfs = register(&name, Counted::new(PlatformVfs::new(), &counters)).unwrap();
        let path = folder.path().join("a.db");
        let flags = OpenFlags::default();
        #[expect(clippy::disallowed_methods, reason = "through a VFS that counts")]
        let connection = Connection::open_with_flags_and_vfs(&path, flags, vfs.name()).unwrap();
        let fill = format!(
            "PRAGMA page_size = {PAGE_BYTES}; PRAGMA journal_mode = WAL; {declaration};
             WITH n(v) AS (VALUES (1) UNION ALL SELECT v + 1 FROM n WHERE v < {ROWS})
             INSERT INTO t SELECT format('%040d', v * 2), v FROM n;
             PRAGMA wal_checkpoint(TRUNCATE); PRAGMA wal_autocheckpoint = 0;
             PRAGMA cache_size = {CACHE_PAGES}; BEGIN"
        );
        connection.execute_batch(&fill).unwrap();
        let before = counters.snapshot();

        let mut upper_levels = UpperLevels::of(&connection, "T", CACHE_PAGES).unwrap();
        let rows = upper_levels.rows_between();
        assert_eq!(rows, CACHE_PAGES / 2 / upper_levels.roots.len());
        let insert = "WITH n(v) AS (VALUES (?1) UNION ALL SELECT v + 1 FROM n WHERE v < ?2)
            INSERT INTO t SELECT format('%040d', v * 2 + 1), v FROM n";
        let mut insert = connection.prepare(insert).unwrap();
        for first in (1..=ROWS).step_by(rows) {
            let last = ROWS.min(first + rows as i64 - 1);
            insert.execute([first, last]).unwrap();
            if keeps {
                upper_levels.keep();
            }
        }
        drop((insert, upper_levels));
        connection.execute_batch("COMMIT").unwrap();
        let log_bytes = std::fs::metadata(folder.path().join("a.db-wal")).unwrap().len();
        let written = counters.snapshot().since(&before).wal.write.bytes;
        assert_eq!(ask::<String>(&connection, "PRAGMA integrity_check").unwrap(), "ok");
        assert_eq!(ask::<i64>(&connection, "SELECT count(*) FROM t").unwrap(), 2 * ROWS);
        assert!(log_bytes > 1000 * FRAME_BYTES, "the cache did not have all pages");
        written as f64 / log_bytes as f64
    }

    #[test]
    fn each_page_is_written_to_the_log_once() {
        for declaration in [
            "CREATE TABLE t(k PRIMARY KEY, v) WITHOUT ROWID",
            "CREATE TABLE t(k, v); CREATE INDEX t_k ON t(k)",
        ] {
            let [control, kept] = [false, true].map(|keeps| write_rate(declaration, keeps));
            assert!(control > 1.02, "{declaration}: the control wrote no page twice: {control}");
            assert!(kept <= 1.0, "{declaration}: {kept}");
        }
    }
}
