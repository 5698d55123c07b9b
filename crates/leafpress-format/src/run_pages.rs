//! The pages of a run. Their place in the file is not known yet.
//!
//! Runs are filled on any thread, so a page's number is not known when another
//! page has to name it. Until [`RunPages::number`] says so, pages go by their
//! index within the run, and each place where a number belongs is listed.
//!
//! Invariant: every slot for a page number is in `links` until it is final.

use crate::aligned::AlignedBuffer;
use crate::error::FormatError;
use crate::layout::{PAGE_NUMBER_BYTES, PageLayout};
use crate::numbers::{PageNumbers, PageRange};

/// Pages that will be neighbours, and what links them.
#[derive(Debug)]
pub(crate) struct RunPages {
    layout: PageLayout,
    /// Whole pages, one after the other; those behind the first `used_bytes` are of an earlier run.
    bytes: AlignedBuffer,
    used_bytes: usize,
    links: Vec<Link>,
}

/// A place where the number of the page at `target_index` belongs.
#[derive(Debug, Clone, Copy)]
struct Link {
    at: usize,
    target_index: u32,
}

impl RunPages {
    pub fn new(layout: PageLayout) -> Self {
        Self { layout, bytes: AlignedBuffer::default(), used_bytes: 0, links: Vec::new() }
    }

    /// Adds a page and returns where it begins. Only its reserved bytes are zero: to clear all of it
    /// takes longer than to clear the gap that its cells leave.
    pub fn add(&mut self) -> usize {
        let at = self.used_bytes;
        self.used_bytes = at + self.layout.page_bytes();
        if self.bytes.len() < self.used_bytes {
            self.bytes.resize(self.used_bytes);
        }
        self.bytes.bytes_mut()[at + self.layout.usable()..self.used_bytes].fill(0);
        at
    }

    /// The page that begins at `page_at`.
    #[inline(always)]
    pub fn page(&mut self, page_at: usize) -> &mut [u8] {
        &mut self.bytes.bytes_mut()[page_at..][..self.layout.page_bytes()]
    }

    /// All pages, and the bytes behind them that an earlier run left.
    #[inline]
    pub fn bytes(&self) -> &[u8] {
        self.bytes.bytes()
    }

    /// Number of bytes of all pages.
    pub fn used_bytes(&self) -> usize {
        self.used_bytes
    }

    /// The index of the page that begins at `page_at`.
    pub fn index(&self, page_at: usize) -> u32 {
        (page_at / self.layout.page_bytes()) as u32
    }

    /// Notes that the number of a page belongs at `at`.
    pub fn link(&mut self, at: usize, target_index: u32) {
        self.links.push(Link { at, target_index });
    }

    /// Adds overflow pages for the rest of a payload, chained, and returns the
    /// index of the first.
    pub fn add_overflow(&mut self, rest: &[u8]) -> u32 {
        let first_index = self.index(self.used_bytes);
        let mut previous_at = None;
        for content in rest.chunks(self.layout.overflow_bytes()) {
            let page_at = self.add();
            let page = self.page(page_at);
            let (number, room) = page.split_at_mut(PAGE_NUMBER_BYTES);
            number.fill(0);
            room[..content.len()].copy_from_slice(content);
            room[content.len()..].fill(0);
            if let Some(link_at) = previous_at.replace(page_at) {
                self.link(link_at, self.index(page_at));
            }
        }
        first_index
    }

    /// Takes a page out: those behind it move up. Returns its bytes, and its
    /// links as (offset in the page, index of their target by then).
    pub fn remove(&mut self, index: u32) -> (Vec<u8>, Vec<(usize, u32)>) {
        let page_bytes = self.layout.page_bytes();
        let from = index as usize * page_bytes;
        let pages = self.bytes.bytes_mut();
        let page = pages[from..from + page_bytes].to_vec();
        pages.copy_within(from + page_bytes..self.used_bytes, from);
        self.used_bytes -= page_bytes;
        let mut links = Vec::new();
        self.links.retain_mut(|link| {
            debug_assert!(link.target_index != index, "a leaf is no overflow page");
            shift_index(&mut link.target_index, index);
            let inside = (from..from + page_bytes).contains(&link.at);
            if inside {
                links.push((link.at - from, link.target_index));
            } else if link.at > from {
                link.at -= page_bytes;
            }
            !inside
        });
        (page, links)
    }

    /// Takes page numbers for all pages.
    pub fn take_numbers(&self, numbers: &mut PageNumbers) -> Result<PageRange, FormatError> {
        numbers.take_range(self.index(self.used_bytes))
    }

    /// Makes the page numbers final and returns the pages.
    pub fn number(&mut self, range: &PageRange) -> &[u8] {
        self.number_in_memory(range).bytes()
    }

    /// Makes the page numbers final and returns the memory of the pages, which may be exchanged for
    /// other memory before the next run.
    pub fn number_in_memory(&mut self, range: &PageRange) -> &mut AlignedBuffer {
        let pages = self.bytes.bytes_mut();
        for link in self.links.drain(..) {
            pages[link.at..link.at + PAGE_NUMBER_BYTES]
                .copy_from_slice(&range.number(link.target_index).to_be_bytes());
        }
        self.bytes.resize(self.used_bytes);
        &mut self.bytes
    }

    /// Forgets the pages, keeping the memory.
    pub fn clear(&mut self) {
        self.used_bytes = 0;
        self.links.clear();
    }
}

/// Adapts the index of a page to the removal of the page at `removed`.
pub(crate) fn shift_index(index: &mut u32, removed: u32) {
    *index -= u32::from(*index > removed);
}
