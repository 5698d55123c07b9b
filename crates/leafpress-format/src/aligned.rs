//! Memory from which a disk can fetch bytes past the page cache.

/// Alignment of the memory: enough for every disk with sectors of up to 4 KiB, and a page of memory
/// for one that has larger ones.
pub const ALIGNMENT: usize = 4096;

/// Bytes that start where a disk can fetch them from; none at first.
#[derive(Debug, Default)]
pub struct AlignedBuffer {
    memory: Vec<u8>,
    /// Where the bytes start: less than the alignment, as bytes can be aligned to anything.
    start: usize,
    len: usize,
}

impl AlignedBuffer {
    /// Makes a copy of `bytes` the content; returns it.
    pub fn filled_with(&mut self, bytes: &[u8]) -> &mut [u8] {
        self.resize(bytes.len());
        let content = self.bytes_mut();
        content.copy_from_slice(bytes);
        content
    }

    /// Sets the number of bytes. Those that it has already stay; the values of others are of no
    /// meaning.
    pub fn resize(&mut self, len: usize) {
        if self.memory.len() < len + ALIGNMENT {
            self.memory.resize(len + ALIGNMENT, 0);
            let start = self.memory.as_ptr().align_offset(ALIGNMENT);
            if start != self.start {
                self.memory.copy_within(self.start..self.start + self.len, start);
                self.start = start;
            }
        }
        self.len = len;
    }

    /// The content.
    pub fn bytes(&self) -> &[u8] {
        &self.memory[self.start..self.start + self.len]
    }

    /// The content.
    #[inline(always)]
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.memory[self.start..self.start + self.len]
    }

    /// Number of bytes.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns true if there is no byte.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_where_a_disk_can_fetch_them_and_stay_as_they_grow() {
        let mut buffer = AlignedBuffer::default();
        assert!(buffer.bytes().is_empty());
        for bytes in [512, 65536, 4096, 1024] {
            let page: Vec<u8> = (0..bytes).map(|at| (at % 251) as u8).collect();
            let copy = buffer.filled_with(&page);
            assert_eq!(copy.as_ptr().align_offset(ALIGNMENT), 0);
            assert_eq!(copy, page);
            assert_eq!(buffer.bytes(), page);
            for larger in [bytes + 1, 3 * bytes, 200 * bytes] {
                buffer.resize(larger);
                assert_eq!(buffer.bytes().as_ptr().align_offset(ALIGNMENT), 0);
                assert_eq!((buffer.len(), &buffer.bytes()[..bytes]), (larger, &page[..]));
            }
        }
    }
}
