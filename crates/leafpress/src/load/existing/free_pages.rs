//! Free pages of a database: of the destination, taken for a new table; of a staged file, left out.
//!
//! Page 1 names the first trunk of the free list; each trunk names the next one and its leaves
//! (<https://www.sqlite.org/fileformat2.html#the_freelist>). Trunks are taken with all their leaves,
//! and of the last one as many leaves as are wanted. All is read and written through SQLite.
//!
//! Must never: take a page of a list that is not as SQLite writes it. None are taken then.

use leafpress_format::header::{self, number_in};
use leafpress_format::{PageLayout, PointerMap};
use rusqlite::{Connection, Transaction};

use super::dbpage::{read_page, write_page};

/// Offset of the number of leaves in a trunk; their page numbers follow.
const LEAVES_AT: usize = 4;
/// Bytes of a trunk before its leaves.
const TRUNK_BYTES: usize = 8;

/// Free pages that are taken, and the list without them.
#[derive(Debug, Default)]
pub struct FreePages {
    /// The pages, in ascending order.
    pub taken: Vec<u32>,
    first_trunk: u32,
    left: u32,
    /// The trunk that has lost some of its leaves.
    cut_trunk: Option<(u32, Vec<u8>)>,
}

impl FreePages {
    /// Chooses up to `wanted` free pages of a database of `page_count` pages.
    pub fn choose(
        connection: &Connection,
        layout: PageLayout,
        map: Option<&PointerMap>,
        page_count: u32,
        wanted: u32,
    ) -> rusqlite::Result<Self> {
        let page_1 = read_page(connection, 1)?;
        let mut free = Self {
            first_trunk: number_in(&page_1, header::FIRST_FREE_TRUNK).unwrap_or_default(),
            left: number_in(&page_1, header::FREE_PAGES).unwrap_or_default(),
            ..Self::default()
        };
        let can_be_free = |page: u32| {
            (2..=page_count).contains(&page)
                && page != layout.lock_byte_page()
                && !map.is_some_and(|map| map.is_map(page))
        };
        while (free.taken.len() as u32) < wanted && free.left > 0 {
            let trunk = free.first_trunk;
            if !can_be_free(trunk) {
                return Ok(Self::default());
            }
            let page = read_page(connection, trunk)?;
            if free.take_trunk(page, layout, wanted).is_none() {
                return Ok(Self::default());
            }
        }
        free.taken.sort_unstable();
        let is_sound = free.taken.is_sorted_by(|a, b| a < b)
            && free.taken.iter().all(|&page| can_be_free(page))
            && (free.left == 0) == (free.first_trunk == 0);
        Ok(if is_sound { free } else { Self::default() })
    }

    /// Takes the first trunk with its leaves, or some of the leaves alone. Nothing where the trunk
    /// is not as SQLite writes it.
    fn take_trunk(&mut self, mut page: Vec<u8>, layout: PageLayout, wanted: u32) -> Option<()> {
        let leaves = number_at(&page, LEAVES_AT);
        if leaves as usize > (layout.usable() - TRUNK_BYTES) / 4 || leaves >= self.left {
            return None;
        }
        let missing = wanted - self.taken.len() as u32;
        let (trunk, next) = (self.first_trunk, number_at(&page, 0));
        let kept = leaves.saturating_sub(missing);
        let leaf = |index: u32| number_at(&page, TRUNK_BYTES + index as usize * 4);
        self.taken.extend((kept..leaves).map(leaf));
        self.left -= leaves - kept;
        if missing > leaves {
            self.taken.push(trunk);
            self.left -= 1;
            self.first_trunk = next;
        } else {
            page[LEAVES_AT..TRUNK_BYTES].copy_from_slice(&kept.to_be_bytes());
            self.cut_trunk = Some((trunk, page));
        }
        Some(())
    }

    /// Writes the list without the pages that are taken; page 1 is the caller's to write.
    pub fn write(&self, transaction: &Transaction<'_>, page_1: &mut [u8]) -> rusqlite::Result<()> {
        if self.taken.is_empty() {
            return Ok(());
        }
        page_1[header::FIRST_FREE_TRUNK].copy_from_slice(&self.first_trunk.to_be_bytes());
        page_1[header::FREE_PAGES].copy_from_slice(&self.left.to_be_bytes());
        match &self.cut_trunk {
            Some((number, page)) => write_page(transaction, *number, page),
            None => Ok(()),
        }
    }
}

/// The number at an offset of a trunk.
fn number_at(trunk: &[u8], at: usize) -> u32 {
    number_in(trunk, at..at + 4).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use rusqlite::Connection;

    /// A database of small pages with several trunks.
    fn database() -> Connection {
        let connection = Connection::open_in_memory().unwrap();
        let sql = "PRAGMA page_size=512; CREATE TABLE kept(x); CREATE TABLE gone(x);
            WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 400)
            INSERT INTO gone SELECT zeroblob(450) FROM n; DROP TABLE gone";
        connection.execute_batch(sql).unwrap();
        connection
    }

    fn ask(connection: &Connection, sql: &str) -> u32 {
        connection.query_row(sql, [], |row| row.get(0)).unwrap()
    }

    fn choose(transaction: &Transaction<'_>, wanted: u32) -> FreePages {
        let pages = ask(transaction, "PRAGMA page_count");
        let layout = PageLayout::new(512).unwrap();
        FreePages::choose(transaction, layout, None, pages, wanted).unwrap()
    }

    #[test]
    fn the_list_is_shorter_by_what_is_taken() {
        let mut connection = database();
        let free = ask(&connection, "PRAGMA freelist_count");
        assert!(free > 350, "{free}");
        for wanted in (0..=free + 2).step_by(3).chain(free - 2..=free) {
            let transaction = connection.transaction().unwrap();
            let chosen = choose(&transaction, wanted);
            assert_eq!(chosen.taken.len() as u32, wanted.min(free));
            transaction.execute_batch("SAVEPOINT a").unwrap();
            let mut page_1 = read_page(&transaction, 1).unwrap();
            chosen.write(&transaction, &mut page_1).unwrap();
            write_page(&transaction, 1, &page_1).unwrap();
            transaction.execute_batch("RELEASE a").unwrap();
            assert_eq!(ask(&transaction, "PRAGMA freelist_count"), free - wanted.min(free));
            // SQLite finds each page in the list once, and misses those that are taken.
            let mut check = transaction.prepare("PRAGMA integrity_check(1000)").unwrap();
            let found = check.query_map([], |row| row.get::<_, String>(0)).unwrap();
            let found: String = found.map(Result::unwrap).collect::<Vec<_>>().join("\n");
            assert_eq!(found.matches("never used").count() as u32, wanted.min(free), "{found}");
            assert!(!found.contains("reelist"), "{found}");
        }
    }

    #[test]
    fn a_damaged_list_is_left_alone() {
        let mut connection = database();
        let transaction = connection.transaction().unwrap();
        let page_1 = read_page(&transaction, 1).unwrap();
        let trunk = number_in(&page_1, header::FIRST_FREE_TRUNK).unwrap();
        let sound = read_page(&transaction, trunk).unwrap();
        let leaf = number_at(&sound, TRUNK_BYTES);
        for (at, number) in [
            (0, trunk),
            (0, 0),
            (0, 1_000_000),
            (LEAVES_AT, 200),
            (LEAVES_AT, u32::MAX),
            (TRUNK_BYTES, 0),
            (TRUNK_BYTES, 1),
            (TRUNK_BYTES, trunk),
            (TRUNK_BYTES + 4, leaf),
            (TRUNK_BYTES, 1_000_000),
        ] {
            let mut page = sound.clone();
            page[at..at + 4].copy_from_slice(&number.to_be_bytes());
            write_page(&transaction, trunk, &page).unwrap();
            assert!(choose(&transaction, 10_000).taken.is_empty(), "{number} at {at}");
        }
        write_page(&transaction, trunk, &sound).unwrap();
        for (place, number) in [
            (header::FIRST_FREE_TRUNK, 0_u32),
            (header::FIRST_FREE_TRUNK, 9999),
            (header::FREE_PAGES, 5),
        ] {
            let mut page = page_1.clone();
            page[place.clone()].copy_from_slice(&number.to_be_bytes());
            write_page(&transaction, 1, &page).unwrap();
            assert!(choose(&transaction, 10_000).taken.is_empty(), "page 1: {number} at {place:?}");
        }
    }
}
