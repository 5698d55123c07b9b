//! The freelist: pages of the file that hold nothing.
//!
//! ```text
//! trunk page   offset  size  meaning
//!              0       4     next trunk, or 0
//!              4       4     n: number of free pages that are listed here
//!              8       4n    their numbers
//! ```
//!
//! Source: file format, section 1.5. Only the rest of a front is ever free in a pressed file.

use crate::finished::FinishedPages;
use crate::layout::{PAGE_NUMBER_BYTES, PageLayout};
use std::ops::Range;

/// Numbers on a trunk page that are left unused: older versions of SQLite refuse a page with more.
const UNUSED_NUMBERS: usize = 8;

/// The freelist, as the database header names it.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct FreePages {
    /// Its first trunk page, or 0.
    pub first_trunk: u32,
    /// Number of its pages, trunks included.
    pub pages: u32,
}

impl FreePages {
    /// Writes the trunks of a list of these pages. The other pages may hold anything.
    pub fn write(layout: PageLayout, free: Range<u32>, finished: &mut FinishedPages) -> Self {
        let listed_max = layout.usable() / PAGE_NUMBER_BYTES - UNUSED_NUMBERS;
        let numbers: Vec<u32> = free.collect();
        let mut trunks = numbers.chunks(listed_max + 1).peekable();
        while let Some(numbers) = trunks.next() {
            let next = trunks.peek().map_or(0, |numbers| numbers[0]);
            let listed = &numbers[1..];
            let words = [next, listed.len() as u32].into_iter().chain(listed.iter().copied());
            let page = finished.add(numbers[0]);
            for (word, place) in words.zip(page.chunks_exact_mut(PAGE_NUMBER_BYTES)) {
                place.copy_from_slice(&word.to_be_bytes());
            }
        }
        let first_trunk = numbers.first().copied().unwrap_or_default();
        Self { first_trunk, pages: numbers.len() as u32 }
    }
}
