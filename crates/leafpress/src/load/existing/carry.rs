//! Transfer of a staged file's pages: read in large pieces, renumbered, and handed on in batches.
//!
//! Runs on a thread of its own, or, for few pages, on the thread that writes.
//!
//! Must never: use a number read from a page without checking it.

use std::cell::Cell;
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::mpsc::SyncSender;

use leafpress_format::{
    MappedRange, POINTER_MAP_ENTRY_BYTES, PageLayout, PageMover, PageOwner, PageRange,
};

use crate::error::{Error, ErrorKind, Result};
use crate::vfs::locks::FileHandle;

/// Pages are read in pieces of up to this size while they come in order.
const PIECE_BYTES_MAX: usize = 256 << 10;
/// Pages are handed on in pieces of this size.
pub const BATCH_BYTES: usize = 256 << 10;

/// A staged file, read by pages.
#[derive(Debug)]
pub struct PageSource {
    path: PathBuf,
    file: FileHandle,
    page_bytes: usize,
    page_count: u32,
    piece: Vec<u8>,
    piece_first: u32,
    /// Size of a piece; grows while pages are asked for in order.
    piece_pages: u32,
}

impl PageSource {
    /// Opens a staged file whose header has been read.
    pub fn open(path: &Path, layout: PageLayout, page_count: u32) -> Result<Self> {
        let file = FileHandle::open(path).map_err(|source| Error::io("read", path, source))?;
        Ok(Self {
            path: path.to_owned(),
            file,
            page_bytes: layout.page_bytes(),
            page_count,
            piece: Vec::new(),
            piece_first: 1,
            piece_pages: 1,
        })
    }

    /// A page of the file.
    pub fn page(&mut self, number: u32) -> Result<&[u8]> {
        let pages_in_piece = (self.piece.len() / self.page_bytes) as u32;
        if number < self.piece_first || number - self.piece_first >= pages_in_piece {
            let is_next = number == self.piece_first + pages_in_piece;
            let pages_max = (PIECE_BYTES_MAX / self.page_bytes) as u32;
            self.piece_pages = if is_next { (self.piece_pages * 2).min(pages_max) } else { 1 };
            self.read_piece(number)?;
        }
        let at = (number - self.piece_first) as usize * self.page_bytes;
        Ok(&self.piece[at..at + self.page_bytes])
    }

    fn read_piece(&mut self, first: u32) -> Result<()> {
        let pages = self.piece_pages.min((self.page_count + 1).saturating_sub(first));
        self.piece.resize(pages as usize * self.page_bytes, 0);
        let at = (u64::from(first) - 1) * self.page_bytes as u64;
        let file = &mut self.file;
        let read = file.seek(SeekFrom::Start(at)).and_then(|_| file.read_exact(&mut self.piece));
        self.piece_first = first;
        if let Err(source) = read {
            self.piece.clear();
            if source.kind() == io::ErrorKind::UnexpectedEof {
                return Err(damaged(&self.path, "it is shorter than it says"));
            }
            return Err(Error::io("read", &self.path, source));
        }
        Ok(())
    }
}

/// The error for a temporary file that is not as it was pressed.
pub fn damaged(path: &Path, problem: &str) -> Error {
    let (path, reason) =
        (Some(path.to_owned()), format!("the temporary database is damaged: {problem}"));
    ErrorKind::Damaged { path, reason }.into()
}

/// New numbers of the staged pages.
#[derive(Debug)]
pub struct Renumbering {
    /// Staged roots and the numbers that SQLite has given them.
    pub roots: Vec<(u32, u32)>,
    /// Staged pages that do not move, in ascending order; the roots are among them.
    pub left_out: Vec<u32>,
    /// Numbers of all other pages, by their rank.
    pub new_pages: NewPages,
    /// True if a page outside the trees was named.
    pub is_broken: Cell<bool>,
}

/// Numbers for new pages: free pages of the destination first, then those behind its last page.
#[derive(Debug)]
pub struct NewPages {
    /// Free pages, in ascending order.
    pub free: Vec<u32>,
    /// The numbers behind the last page.
    pub behind: PagesBehind,
}

/// Numbers behind the last page of the destination.
#[derive(Debug, Clone, Copy)]
pub enum PagesBehind {
    /// All numbers but the lock-byte page.
    Plain(PageRange),
    /// All numbers but the lock-byte page and the pages of the pointer map.
    Mapped(MappedRange),
}

impl NewPages {
    /// Number of the page at `index`.
    pub fn number(&self, index: u32) -> u32 {
        let free = self.free.len() as u32;
        match (self.free.get(index as usize), self.behind) {
            (Some(&number), _) => number,
            (None, PagesBehind::Plain(range)) => range.number(index - free),
            (None, PagesBehind::Mapped(range)) => range.number(index - free),
        }
    }
}

impl Renumbering {
    fn number(&self, staged: u32) -> u32 {
        if let Err(left_out_before) = self.left_out.binary_search(&staged) {
            return self.new_pages.number(staged - 1 - left_out_before as u32);
        }
        // A root has a place. No other page that is left out may be named.
        let root = self.roots.iter().find(|(from, _)| *from == staged);
        self.is_broken.set(self.is_broken.get() || root.is_none());
        root.map_or(0, |&(_, to)| to)
    }
}

/// Pages ready to be written.
#[derive(Debug, Default)]
pub struct Batch {
    /// Numbers of the pages.
    pub numbers: Vec<u32>,
    /// Bytes of the pages, one after the other.
    pub bytes: Vec<u8>,
}

/// Entries of the pointer map.
#[derive(Debug)]
pub struct MapEntries {
    /// Free pages that are taken, in ascending order, with their entries.
    pub taken: Vec<(u32, MapEntry)>,
    /// The first page behind those that were there.
    pub first: u32,
    /// Entries of the pages from there on; zeros for pages that have none.
    pub entries: Vec<MapEntry>,
}

/// One entry.
pub type MapEntry = [u8; POINTER_MAP_ENTRY_BYTES];

/// Reader of staged pages, which renumbers them and hands them on.
#[derive(Debug)]
pub struct Carrier {
    /// The staged file.
    pub source: PageSource,
    /// The new numbers.
    pub numbers: Renumbering,
    /// Entries of the destination's pointer map, if it has one.
    pub map: Option<MapEntries>,
    /// Sender to the writing thread; `None` after the last page.
    pub sender: Option<SyncSender<Batch>>,
    /// Pages not handed on yet.
    pub batch: Batch,
}

impl Carrier {
    /// Hands the batch on. Fails only if the writer has failed; report the writer's error then.
    pub fn send(&mut self) -> Result<()> {
        let empty = Batch { numbers: Vec::new(), bytes: Vec::with_capacity(BATCH_BYTES) };
        let full = std::mem::replace(&mut self.batch, empty);
        let sent = self.sender.as_ref().is_some_and(|sender| sender.send(full).is_ok());
        if sent { Ok(()) } else { Err(ErrorKind::Cancelled.into()) }
    }
}

impl PageMover for Carrier {
    type Error = Error;

    fn read(&mut self, page: u32, into: &mut [u8]) -> Result<()> {
        into.copy_from_slice(self.source.page(page)?);
        Ok(())
    }

    fn new_number(&self, page: u32) -> u32 {
        self.numbers.number(page)
    }

    fn write(&mut self, new_number: u32, bytes: &[u8]) -> Result<()> {
        self.batch.numbers.push(new_number);
        self.batch.bytes.extend_from_slice(bytes);
        if self.batch.bytes.len() < BATCH_BYTES { Ok(()) } else { self.send() }
    }

    fn owned_by(&mut self, new_number: u32, owner: PageOwner) {
        let Some(map) = &mut self.map else { return };
        let Some(index) = new_number.checked_sub(map.first) else {
            // SQLite itself has entered the roots, which were not taken.
            if let Ok(at) = map.taken.binary_search_by_key(&new_number, |&(number, _)| number) {
                map.taken[at].1 = owner.pointer_map_entry();
            }
            return;
        };
        let index = index as usize;
        if map.entries.len() <= index {
            map.entries.resize(index + 1, [0; POINTER_MAP_ENTRY_BYTES]);
        }
        map.entries[index] = owner.pointer_map_entry();
    }
}
