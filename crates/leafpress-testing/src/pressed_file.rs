//! Finished pages go into a file, and are checked.
//!
//! Invariants:
//! 1. Pages come in the order of the file, page 1 last.
//! 2. None comes twice and none is missing but the lock-byte page.

use leafpress_format::{
    FinishedPages, IndexRun, IndexTree, LeafRun, PageLayout, PageNumbers, SchemaEntry, SchemaKind,
    TableBuilder, finish_database,
};
use std::io::{Seek, SeekFrom, Write};

/// A database file being pressed into `out`.
///
/// ```
/// use leafpress_format::{PageLayout, Value};
/// use leafpress_testing::{PressedFile, open};
///
/// let layout = PageLayout::new(512).unwrap();
/// let mut file = PressedFile::in_memory(layout);
/// let root = file.table(1, 5, (1..=9).map(|n| (n, [Value::Integer(n)])));
/// file.add_table("t", "CREATE TABLE t(n)", root);
/// let db = open(&file.into_bytes());
/// let sum: i64 = db.query_row("SELECT sum(n) FROM t", [], |row| row.get(0)).unwrap();
/// assert_eq!(sum, 45);
/// ```
#[derive(Debug)]
pub struct PressedFile<W> {
    layout: PageLayout,
    out: W,
    numbers: PageNumbers,
    finished: FinishedPages,
    next_page: u32,
    entries: Vec<SchemaEntry>,
}

impl PressedFile<std::io::Cursor<Vec<u8>>> {
    /// A file in memory.
    pub fn in_memory(layout: PageLayout) -> Self {
        Self::new(layout, std::io::Cursor::new(Vec::new()))
    }

    /// Ends the file.
    pub fn into_bytes(self) -> Vec<u8> {
        self.finish().into_inner()
    }
}

impl<W: Write + Seek> PressedFile<W> {
    /// A file that begins at the start of `out`.
    pub fn new(layout: PageLayout, out: W) -> Self {
        Self {
            layout,
            out,
            numbers: PageNumbers::new(layout),
            finished: FinishedPages::new(layout),
            next_page: 2,
            entries: Vec::new(),
        }
    }

    /// The page that will be numbered next.
    pub fn next_page(&self) -> u32 {
        self.numbers.peek()
    }

    /// Writes consecutive pages.
    ///
    /// # Panics
    ///
    /// If an invariant of this module is broken.
    fn write(&mut self, first: u32, bytes: &[u8]) {
        let page_bytes = self.layout.page_bytes();
        assert!(bytes.len().is_multiple_of(page_bytes), "half a page at {first}");
        assert_eq!(first, self.next_page, "pages out of order");
        let end = first + (bytes.len() / page_bytes) as u32;
        let lock_byte_page = (1 << 30) / page_bytes as u32 + 1;
        assert!(!(first..end).contains(&lock_byte_page), "the lock-byte page is used");
        self.write_at(first, bytes);
        self.next_page = if end == lock_byte_page { end + 1 } else { end };
    }

    fn write_at(&mut self, page: u32, bytes: &[u8]) {
        let at = u64::from(page - 1) * self.layout.page_bytes() as u64;
        self.out.seek(SeekFrom::Start(at)).expect("seek");
        self.out.write_all(bytes).expect("write");
    }

    fn write_finished(&mut self) {
        let mut finished = std::mem::replace(&mut self.finished, FinishedPages::new(self.layout));
        for (first, bytes) in finished.pieces() {
            self.write(first, bytes);
        }
        finished.clear();
        self.finished = finished;
    }

    /// Appends a run to a table and writes its pages.
    ///
    /// # Panics
    ///
    /// If the builder refuses it, or pages come out of order.
    pub fn append(&mut self, table: &mut TableBuilder, run: &mut LeafRun) {
        run.close();
        let range = table.append(run, &mut self.numbers, &mut self.finished).expect("append");
        let layout = self.layout;
        for (first, bytes) in range.pieces(run.number(&range), layout) {
            self.write(first, bytes);
        }
        self.write_finished();
    }

    /// Ends a table and returns its root page.
    ///
    /// # Panics
    ///
    /// As [`append`](Self::append).
    pub fn finish_table(&mut self, table: TableBuilder) -> u32 {
        let root = table.finish(&mut self.numbers, &mut self.finished).expect("finish");
        self.write_finished();
        root
    }

    /// Presses a rowid table from rows in rowid order, in runs of
    /// `rows_per_run`, and returns its root page.
    ///
    /// # Panics
    ///
    /// As [`append`](Self::append).
    pub fn table<'v, V: AsRef<[leafpress_format::Value<'v>]>>(
        &mut self,
        columns: usize,
        rows_per_run: usize,
        rows: impl IntoIterator<Item = (i64, V)>,
    ) -> u32 {
        let mut table = TableBuilder::new(self.layout);
        let mut run = LeafRun::new(self.layout, columns);
        for (index, (rowid, values)) in rows.into_iter().enumerate() {
            if index > 0 && index % rows_per_run == 0 {
                self.append(&mut table, &mut run);
                run.clear();
            }
            run.push_values(rowid, values.as_ref()).expect("push");
        }
        self.append(&mut table, &mut run);
        self.finish_table(table)
    }

    /// Appends a run to an index and writes its pages.
    ///
    /// # Panics
    ///
    /// If the tree refuses it, or pages come out of order.
    pub fn append_entries(&mut self, tree: &mut IndexTree, run: &mut IndexRun) {
        run.close();
        let range = tree.append(run, &mut self.numbers, &mut self.finished).expect("append");
        let layout = self.layout;
        for (first, bytes) in range.pieces(run.number(&range), layout) {
            self.write(first, bytes);
        }
        self.write_finished();
    }

    /// Ends an index or WITHOUT ROWID table and returns its root page.
    ///
    /// # Panics
    ///
    /// As [`append`](Self::append).
    pub fn finish_index(&mut self, tree: IndexTree) -> u32 {
        let root = tree.finish(&mut self.numbers, &mut self.finished).expect("finish");
        self.write_finished();
        root
    }

    /// Presses an index or WITHOUT ROWID table from records in key order, in
    /// runs of `run_entries`, the last of which gets the rest.
    ///
    /// # Panics
    ///
    /// As [`append`](Self::append).
    pub fn index<R: AsRef<[u8]>>(
        &mut self,
        run_entries: impl IntoIterator<Item = usize>,
        records: impl IntoIterator<Item = R>,
    ) -> u32 {
        let mut tree = IndexTree::new(self.layout);
        let mut run = IndexRun::new(self.layout);
        let mut records = records.into_iter();
        for entries in run_entries.into_iter().chain([usize::MAX]) {
            run.clear();
            for record in records.by_ref().take(entries) {
                run.push(record.as_ref()).expect("push");
            }
            self.append_entries(&mut tree, &mut run);
        }
        self.finish_index(tree)
    }

    /// Adds a table to the schema.
    pub fn add_table(&mut self, name: &str, sql: &str, root_page: u32) {
        self.add_entry(SchemaKind::Table, name, name, sql, root_page);
    }

    /// Adds an index to the schema.
    pub fn add_index(&mut self, name: &str, table_name: &str, sql: &str, root_page: u32) {
        self.add_entry(SchemaKind::Index, name, table_name, sql, root_page);
    }

    /// Adds anything to the schema.
    pub fn add_entry(
        &mut self,
        kind: SchemaKind,
        name: &str,
        table_name: &str,
        sql: &str,
        root_page: u32,
    ) {
        self.entries.push(SchemaEntry {
            kind,
            name: name.to_owned(),
            table_name: table_name.to_owned(),
            root_page,
            sql: Some(sql.to_owned()),
        });
    }

    /// Ends the file: schema and page 1.
    ///
    /// # Panics
    ///
    /// As [`append`](Self::append); also if page 1 is not the last, or the
    /// header counts other pages than were written.
    pub fn finish(mut self) -> W {
        finish_database(self.layout, &self.entries, &mut self.numbers, &mut self.finished)
            .expect("finish");
        let finished = std::mem::replace(&mut self.finished, FinishedPages::new(self.layout));
        let mut page_1_written = false;
        for (first, bytes) in finished.pieces() {
            assert!(!page_1_written, "page 1 is not the last");
            if first == 1 {
                assert_eq!(bytes.len(), self.layout.page_bytes());
                self.write_at(1, bytes);
                let said = u32::from_be_bytes([bytes[28], bytes[29], bytes[30], bytes[31]]);
                let lock_byte_page = (1 << 30) / self.layout.page_bytes() as u32 + 1;
                let last = self.next_page - 1;
                let last = if last == lock_byte_page { last - 1 } else { last };
                assert_eq!(said, last, "the header's page count");
                page_1_written = true;
            } else {
                self.write(first, bytes);
            }
        }
        assert!(page_1_written, "no page 1");
        self.out.flush().expect("flush");
        self.out
    }
}
