//! The pages of a staged file's trees, one after the other.
//!
//! A tree is walked from its root, parents first, leaves in key order, each
//! leaf's overflow pages right behind it: in a pressed file that is nearly the
//! order of the file, so it is read in large pieces. Memory is bound by the
//! depth of the tree and the width of its pages.
//!
//! Invariants:
//! 1. Each page of a tree is visited once; a tree that names more pages than
//!    the file has is refused.
//! 2. What is visited holds the new numbers.
//!
//! Must never: trust a number that stands in a page.

use std::fs::File;
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};

use leafpress_format::{
    FormatError, PageKind, PageLayout, PagePointer, relocate_overflow_page, relocate_tree_page,
};

use crate::error::{Error, ErrorKind, Result};

/// Pages are read in pieces of up to this size while they come in order.
const PIECE_BYTES_MAX: usize = 256 << 10;

/// A staged file, read by pages.
#[derive(Debug)]
pub struct PageSource {
    path: PathBuf,
    file: File,
    layout: PageLayout,
    page_count: u32,
    piece: Vec<u8>,
    piece_first: u32,
    /// Grows while pages are asked for in order.
    piece_pages: u32,
}

/// How a page belongs to its tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// The tree's root.
    Root,
    /// Another B-tree page.
    Tree,
    /// The first overflow page of a cell.
    FirstOverflow,
    /// A later one.
    NextOverflow,
}

/// A page on its way.
#[derive(Debug, Clone, Copy)]
pub struct Visit {
    /// Its number in the staged file.
    pub page: u32,
    /// The staged number of the page that names it; its own for a root.
    pub parent: u32,
    /// How it belongs to its tree.
    pub role: Role,
    /// Rows or index entries that begin on it.
    pub entries: u32,
}

impl PageSource {
    /// Opens a file whose header has been read.
    pub fn open(path: &Path, layout: PageLayout, page_count: u32) -> Result<Self> {
        let file = File::open(path).map_err(|source| Error::io("read", path, source))?;
        let path = path.to_owned();
        Ok(Self {
            path,
            file,
            layout,
            page_count,
            piece: Vec::new(),
            piece_first: 0,
            piece_pages: 1,
        })
    }

    /// The bytes of a page.
    pub fn page(&mut self, number: u32) -> Result<&mut [u8]> {
        let page_bytes = self.layout.page_bytes();
        let pages_in_piece = (self.piece.len() / page_bytes) as u32;
        if number < self.piece_first || number - self.piece_first >= pages_in_piece {
            let is_next = number == self.piece_first + pages_in_piece;
            let pages_max = (PIECE_BYTES_MAX / page_bytes) as u32;
            self.piece_pages = if is_next { (self.piece_pages * 2).min(pages_max) } else { 1 };
            self.read_piece(number)?;
        }
        let at = (number - self.piece_first) as usize * page_bytes;
        Ok(&mut self.piece[at..at + page_bytes])
    }

    fn read_piece(&mut self, first: u32) -> Result<()> {
        if first == 0 || first > self.page_count {
            return Err(self.malformed());
        }
        let page_bytes = self.layout.page_bytes();
        let pages = self.piece_pages.min(self.page_count - first + 1);
        self.piece.resize(pages as usize * page_bytes, 0);
        let at = u64::from(first - 1) * page_bytes as u64;
        let read =
            self.file.seek(SeekFrom::Start(at)).and_then(|_| self.file.read_exact(&mut self.piece));
        if let Err(source) = read {
            self.piece.clear();
            if source.kind() == io::ErrorKind::UnexpectedEof {
                return Err(self.malformed());
            }
            return Err(Error::io("read", &self.path, source));
        }
        self.piece_first = first;
        Ok(())
    }

    /// Pages of the file.
    pub fn page_count(&self) -> u32 {
        self.page_count
    }

    /// Shows each page of the tree to `visit`, with new numbers in it.
    pub fn walk(
        &mut self,
        root: u32,
        renumber: impl Fn(u32) -> Result<u32, FormatError>,
        mut visit: impl FnMut(Visit, &[u8]) -> Result<()>,
    ) -> Result<()> {
        let layout = self.layout;
        let mut pending = vec![Visit { page: root, parent: root, role: Role::Root, entries: 0 }];
        let mut visited = 0;
        while let Some(mut next) = pending.pop() {
            visited += 1;
            if visited > self.page_count {
                return Err(self.malformed());
            }
            let first_new = pending.len();
            // A page may be asked for twice by a malformed file: from a copy
            // that has been renumbered already nothing good could come.
            let page = self.page(next.page)?;
            let mut numbers =
                Numbers { of: next.page, renumber: &renumber, pending: &mut pending, error: None };
            let entries = if matches!(next.role, Role::Root | Role::Tree) {
                relocate_tree_page(page, next.page, layout, |pointer| numbers.tree_pointer(pointer))
                    .map(|it| if it.kind == PageKind::TableInterior { 0 } else { it.cells })
            } else {
                relocate_overflow_page(page, layout, |after| {
                    numbers.push(after, Role::NextOverflow)
                })
                .map(|()| 0)
            };
            let result = entries.and_then(|it| numbers.error.map_or(Ok(it), Err));
            next.entries = result.map_err(|error| not_moved(&self.path, error))?;
            visit(next, self.page(next.page)?)?;
            // Last in, first out: what comes first in the page is visited first.
            pending[first_new..].reverse();
        }
        Ok(())
    }

    /// The pages of the freelist: its trunks and what they list.
    pub fn freelist(&mut self, first_trunk: u32, pages: &mut Vec<u32>) -> Result<()> {
        let mut trunk = first_trunk;
        while trunk != 0 {
            if pages.len() > self.page_count as usize {
                return Err(self.malformed());
            }
            pages.push(trunk);
            let words = self.page(trunk)?.chunks_exact(4).map(be32).collect::<Vec<_>>();
            let listed = words[1] as usize;
            let Some(leaves) = words.get(2..2 + listed) else { return Err(self.malformed()) };
            pages.extend_from_slice(leaves);
            trunk = words[0];
        }
        Ok(())
    }

    fn malformed(&self) -> Error {
        not_moved(&self.path, FormatError::MalformedPage)
    }
}

/// The page numbers that stand in one page.
struct Numbers<'w, R> {
    of: u32,
    renumber: &'w R,
    pending: &'w mut Vec<Visit>,
    error: Option<FormatError>,
}

impl<R: Fn(u32) -> Result<u32, FormatError>> Numbers<'_, R> {
    fn tree_pointer(&mut self, pointer: PagePointer) -> u32 {
        match pointer {
            PagePointer::Child(page) => self.push(page, Role::Tree),
            PagePointer::Overflow(page) => self.push(page, Role::FirstOverflow),
        }
    }

    fn push(&mut self, page: u32, role: Role) -> u32 {
        self.pending.push(Visit { page, parent: self.of, role, entries: 0 });
        (self.renumber)(page).unwrap_or_else(|error| {
            self.error = Some(error);
            page
        })
    }
}

fn be32(bytes: &[u8]) -> u32 {
    bytes.iter().fold(0, |value, &byte| value << 8 | u32::from(byte))
}

fn not_moved(path: &Path, error: FormatError) -> Error {
    let reason = match error {
        FormatError::MalformedPage => "the temporary database is damaged".to_owned(),
        other => other.to_string(),
    };
    ErrorKind::Destination { path: path.to_owned(), reason }.into()
}
