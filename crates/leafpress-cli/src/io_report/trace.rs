//! The pages that a transaction writes, database by database, as seen from right below SQLite.
//!
//! ```text
//! SQLite ─► Traced ─► AtomicPages ─► …
//! ```
//!
//! A page is seen on its way into the database file, or into the log, where the
//! frame's header says which it is. Of page 1 the content is kept, since most of
//! its writes change nothing but the change counter, which is not worth a word.
//!
//! Invariants:
//! 1. What [`Trace::take`] gives is what was written since it was last called.
//! 2. Every call goes down unchanged; only the *name* of a database may become
//!    another one, on its way through [`Redirect`].
//!
//! Must never: fail a call because it could not be understood.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard};

use leafpress::vfs::sync::lock;
use leafpress::vfs::{Access, FileKind, FileLayer, OpenFlags, Opened, Vfs, VfsFile, VfsResult};
use leafpress_format::DATABASE_HEADER_BYTES;
use leafpress_format::header::{CHANGE_COUNTER, LAST_WRITER, MAGIC, page_bytes_in};

/// Bytes of a log's header and of the header of each of its frames.
const LOG_HEADER_BYTES: u64 = 32;
const FRAME_HEADER_BYTES: usize = 24;
/// Number of pages of a change that are kept; the others are only counted.
const PAGES_KEPT_MAX: usize = 256;

/// Maps the path of a database to the path that is opened instead.
pub(super) trait Redirect: Send + Sync + 'static {
    /// The path to open in the place of `path`, both absolute.
    fn redirect(&self, path: String) -> VfsResult<String>;
}

/// The kind of a page's content, as far as its first byte tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum PageKind {
    /// A page of the B-tree of a table.
    Table,
    /// A page of the B-tree of an index, or of a table without rowids.
    Index,
    /// The rest of a long row, a free page, a page of the pointer map.
    Other,
}

impl PageKind {
    fn of(page: &[u8], number: u32) -> Self {
        let at = if number == 1 { DATABASE_HEADER_BYTES } else { 0 };
        match page.get(at) {
            Some(5 | 13) => Self::Table,
            Some(2 | 10) => Self::Index,
            _ => Self::Other,
        }
    }
}

/// The fields of a database's header that tell its size and its schema.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Header {
    pub page_bytes: u32,
    pub pages: u32,
    pub free_pages: u32,
    pub schema_cookie: u32,
}

impl Header {
    fn of(page: &[u8]) -> Option<Self> {
        let page = page.get(..DATABASE_HEADER_BYTES)?;
        let number =
            |at: usize| u32::from_be_bytes([page[at], page[at + 1], page[at + 2], page[at + 3]]);
        Some(Self {
            page_bytes: page_bytes_in(page)?,
            pages: number(28),
            free_pages: number(36),
            schema_cookie: number(40),
        })
    }
}

/// The pages written to one database, in its file or in its log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Change {
    /// The database's path, as SQLite has it.
    pub path: Arc<str>,
    /// Its header before, if it was seen, and after.
    pub before: Option<Header>,
    pub after: Option<Header>,
    /// Pages that were changed; page 1 is not among them if only its counter was.
    pub pages: u32,
    /// The first of them.
    pub kept: Vec<(u32, PageKind)>,
}

impl Change {
    /// Pages were taken from the free ones, or added at the end.
    pub(super) fn has_new_pages(&self) -> bool {
        matches!((self.before, self.after), (Some(before), Some(after))
            if after.pages > before.pages || after.free_pages < before.free_pages)
    }

    /// Returns true if the page did not exist before the change.
    pub(super) fn is_new(&self, page: u32) -> bool {
        self.before.is_some_and(|before| page > before.pages)
    }

    /// A table or index was made, changed or dropped.
    pub(super) fn has_new_schema(&self) -> bool {
        match (self.before, self.after) {
            (Some(before), Some(after)) => after.schema_cookie != before.schema_cookie,
            (None, after) => after.is_some(),
            _ => false,
        }
    }
}

#[derive(Default)]
struct Database {
    path: Arc<str>,
    /// Page 1 as it was last read or written.
    first_page: Vec<u8>,
    /// The header at the first write since the last look.
    before: Option<Header>,
    has_written: bool,
    first_page_changed: bool,
    in_file: BTreeMap<u32, PageKind>,
    in_log: BTreeMap<u32, PageKind>,
}

impl Database {
    fn read_first_page(&mut self, page: &[u8]) {
        let is_whole = Header::of(page).is_some_and(|it| it.page_bytes as usize == page.len());
        if is_whole && !self.has_written {
            page.clone_into(&mut self.first_page);
        }
    }

    fn write(&mut self, number: u32, page: &[u8], to_log: bool) {
        if !self.has_written {
            self.has_written = true;
            self.before = Header::of(&self.first_page);
        }
        if number == 1 {
            self.first_page_changed |= !differs_in_counters_only(&self.first_page, page);
            page.clone_into(&mut self.first_page);
        }
        let pages = if to_log { &mut self.in_log } else { &mut self.in_file };
        pages.insert(number, PageKind::of(page, number));
    }

    fn take(&mut self) -> Option<Change> {
        // Behind a log, the file is written by checkpoints only.
        let (in_file, in_log) =
            (std::mem::take(&mut self.in_file), std::mem::take(&mut self.in_log));
        let mut pages = if in_log.is_empty() { in_file } else { in_log };
        let before = self.before.take();
        let first_page_changed = std::mem::take(&mut self.first_page_changed);
        if !std::mem::take(&mut self.has_written) {
            return None;
        }
        if !first_page_changed {
            pages.remove(&1);
        }
        Some(Change {
            path: Arc::clone(&self.path),
            before,
            after: Header::of(&self.first_page),
            pages: pages.len() as u32,
            kept: pages.into_iter().take(PAGES_KEPT_MAX).collect(),
        })
    }
}

fn differs_in_counters_only(one: &[u8], other: &[u8]) -> bool {
    let is_counter = |at: &usize| CHANGE_COUNTER.contains(at) || LAST_WRITER.contains(at);
    one.len() == other.len()
        && one.iter().zip(other).enumerate().all(|(at, (a, b))| a == b || is_counter(&at))
}

/// The changes of all databases, looked at between two transactions.
#[derive(Default)]
pub(super) struct Trace(Mutex<HashMap<String, Database>>);

impl Trace {
    /// Returns the changes since the last call, one for each database that was written to.
    pub(super) fn take(&self) -> Vec<Change> {
        let mut changes: Vec<_> = self.lock().values_mut().filter_map(Database::take).collect();
        changes.sort_unstable_by(|one, other| one.path.cmp(&other.path));
        changes
    }

    fn of(&self, path: &str, work: impl FnOnce(&mut Database)) {
        let mut databases = self.lock();
        let made = || Database { path: path.into(), ..Database::default() };
        work(databases.entry(path.to_owned()).or_insert_with(made));
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, Database>> {
        lock(&self.0)
    }
}

/// A VFS that hands everything on and notes which pages are written.
pub(super) struct Traced<V> {
    below: V,
    trace: Arc<Trace>,
    redirect: Option<Arc<dyn Redirect>>,
}

impl<V: Vfs> Traced<V> {
    pub(super) fn new(below: V, trace: &Arc<Trace>, redirect: Option<Arc<dyn Redirect>>) -> Self {
        Self { below, trace: Arc::clone(trace), redirect }
    }
}

impl<V: Vfs> Vfs for Traced<V> {
    fn open(&self, path: Option<&str>, flags: OpenFlags) -> VfsResult<Opened> {
        let opened = self.below.open(path, flags)?;
        let (Some(path), kind) = (path, flags.kind()) else { return Ok(opened) };
        let database = match kind {
            FileKind::MainDb => Some(path),
            FileKind::Wal => path.strip_suffix("-wal"),
            _ => None,
        };
        let Some(database) = database else { return Ok(opened) };
        let Opened { file, flags } = opened;
        let file = TracedFile {
            below: file,
            trace: Arc::clone(&self.trace),
            path: database.to_owned(),
            is_log: kind == FileKind::Wal,
            frame: None,
        };
        Ok(Opened { file: Box::new(file), flags })
    }

    fn delete(&self, path: &str, sync_folder: bool) -> VfsResult<()> {
        self.below.delete(path, sync_folder)
    }

    fn exists(&self, path: &str, access: Access) -> VfsResult<bool> {
        self.below.exists(path, access)
    }

    fn full_path(&self, path: &str) -> VfsResult<String> {
        let path = self.below.full_path(path)?;
        match &self.redirect {
            Some(redirect) => redirect.redirect(path),
            None => Ok(path),
        }
    }
}

struct TracedFile {
    below: Box<dyn VfsFile>,
    trace: Arc<Trace>,
    path: String,
    is_log: bool,
    /// For a log: the page that the last frame header announced, and the offset where it must
    /// follow.
    frame: Option<(u32, u64)>,
}

impl TracedFile {
    fn log_written(&mut self, bytes: &[u8], offset: u64) {
        if bytes.len() == FRAME_HEADER_BYTES && offset >= LOG_HEADER_BYTES {
            let number = u32::from_be_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
            self.frame = Some((number, offset + FRAME_HEADER_BYTES as u64));
        } else if let Some((number, at)) = self.frame.take()
            && at == offset
        {
            self.trace.of(&self.path, |database| database.write(number, bytes, true));
        }
    }

    fn page_written(&self, bytes: &[u8], offset: u64) {
        let page_bytes = bytes.len() as u64;
        // Pages are written whole; a file that is extended may get a single byte.
        if bytes.len().is_power_of_two() && bytes.len() >= 512 && offset.is_multiple_of(page_bytes)
        {
            let number = u32::try_from(offset / page_bytes + 1).unwrap_or(u32::MAX);
            self.trace.of(&self.path, |database| database.write(number, bytes, false));
        }
    }
}

impl FileLayer for TracedFile {
    fn below(&self) -> &dyn VfsFile {
        &*self.below
    }

    fn below_mut(&mut self) -> &mut dyn VfsFile {
        &mut *self.below
    }

    fn read(&mut self, buffer: &mut [u8], offset: u64) -> VfsResult<usize> {
        let count = self.below.read(buffer, offset)?;
        // Of a log, page 1 is known by how it begins.
        let is_first = if self.is_log { buffer.starts_with(MAGIC) } else { offset == 0 };
        if is_first && count == buffer.len() {
            self.trace.of(&self.path, |database| database.read_first_page(buffer));
        }
        Ok(count)
    }

    fn write(&mut self, bytes: &[u8], offset: u64) -> VfsResult<()> {
        self.below.write(bytes, offset)?;
        if self.is_log {
            self.log_written(bytes, offset);
        } else {
            self.page_written(bytes, offset);
        }
        Ok(())
    }
}
