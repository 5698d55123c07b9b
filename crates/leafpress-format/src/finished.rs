//! Finished pages that wait to be written. They are in file order.

use crate::layout::PageLayout;

/// Finished pages with their numbers; the caller writes and clears them.
#[derive(Debug)]
pub struct FinishedPages {
    layout: PageLayout,
    numbers: Vec<u32>,
    bytes: Vec<u8>,
}

impl FinishedPages {
    /// None yet.
    pub fn new(layout: PageLayout) -> Self {
        Self { layout, numbers: Vec::new(), bytes: Vec::new() }
    }

    /// Adds a zeroed page and hands it out to be filled.
    pub(crate) fn add(&mut self, number: u32) -> &mut [u8] {
        let at = self.bytes.len();
        self.numbers.push(number);
        self.bytes.resize(at + self.layout.page_bytes(), 0);
        &mut self.bytes[at..]
    }

    /// Adds pages that are neighbours, from `first` on.
    pub(crate) fn add_all(&mut self, first: u32, pages: &[u8]) {
        for (number, page) in (first..).zip(pages.chunks_exact(self.layout.page_bytes())) {
            self.add(number).copy_from_slice(page);
        }
    }

    /// Number of bytes that wait to be written.
    pub fn bytes_waiting(&self) -> usize {
        self.bytes.len()
    }

    /// The pages as (first page number, bytes), merged where they are neighbours.
    pub fn pieces(&self) -> impl Iterator<Item = (u32, &[u8])> {
        let mut rest = 0;
        std::iter::from_fn(move || {
            let first = *self.numbers.get(rest)?;
            let from = rest;
            rest += 1;
            while self.numbers.get(rest).is_some_and(|&n| n == first + (rest - from) as u32) {
                rest += 1;
            }
            let page = self.layout.page_bytes();
            Some((first, &self.bytes[from * page..rest * page]))
        })
    }

    /// Forgets the pages, keeping the memory.
    pub fn clear(&mut self) {
        self.numbers.clear();
        self.bytes.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_merge() {
        let mut pages = FinishedPages::new(PageLayout::new(512).unwrap());
        for number in [2, 3, 5, 6, 7, 1] {
            pages.add(number)[0] = number as u8;
        }
        let pieces: Vec<_> = pages.pieces().map(|(n, b)| (n, b.len() / 512, b[0])).collect();
        assert_eq!(pieces, [(2, 2, 2), (5, 3, 5), (1, 1, 1)]);
        pages.clear();
        assert_eq!(pages.pieces().count(), 0);
    }
}
