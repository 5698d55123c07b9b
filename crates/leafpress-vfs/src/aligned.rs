//! Memory from which a disk can fetch bytes past the page cache.

/// Alignment of the memory: enough for every disk with sectors of up to 4 KiB, and a page of memory
/// for one that has larger ones.
pub const ALIGNMENT: usize = 4096;

/// Bytes that start where a disk can fetch them from; none at first.
#[derive(Debug, Default)]
pub struct AlignedBuffer {
    memory: Vec<u8>,
    len: usize,
}

impl AlignedBuffer {
    /// Makes a copy of `bytes` the content; returns it.
    pub fn filled_with(&mut self, bytes: &[u8]) -> &mut [u8] {
        if self.memory.len() < bytes.len() + ALIGNMENT {
            self.memory.resize(bytes.len() + ALIGNMENT, 0);
        }
        self.len = bytes.len();
        let start = self.start();
        let aligned = &mut self.memory[start..start + bytes.len()];
        aligned.copy_from_slice(bytes);
        aligned
    }

    /// The content.
    pub fn bytes(&self) -> &[u8] {
        let start = self.start();
        self.memory.get(start..start + self.len).unwrap_or_default()
    }

    /// Less than the alignment, as bytes can be aligned to anything.
    fn start(&self) -> usize {
        self.memory.as_ptr().align_offset(ALIGNMENT)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_is_copied_to_where_a_disk_can_fetch_it() {
        let mut buffer = AlignedBuffer::default();
        assert!(buffer.bytes().is_empty());
        for bytes in [512, 65536, 4096, 1024] {
            let page: Vec<u8> = (0..bytes).map(|at| (at % 251) as u8).collect();
            let copy = buffer.filled_with(&page);
            assert_eq!(copy.as_ptr().align_offset(ALIGNMENT), 0);
            assert_eq!(copy, page);
            assert_eq!(buffer.bytes(), page);
        }
    }
}
