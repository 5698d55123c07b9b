//! Writes to a file that follow one another, kept in memory until they are written by one call.

use super::{VfsFile, VfsResult};

/// Bytes that are not in the file yet, and their place.
#[derive(Debug, Default)]
pub struct WriteBuffer {
    /// Offset in the file at which the bytes begin. If there are none, the end of the last write.
    start: u64,
    bytes: Vec<u8>,
}

impl WriteBuffer {
    fn end(&self) -> u64 {
        self.start + self.bytes.len() as u64
    }

    /// Number of bytes.
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Returns true if a write at `offset` begins within the bytes, or just behind them.
    pub fn is_followed_at(&self, offset: u64) -> bool {
        (self.start..=self.end()).contains(&offset)
    }

    /// Puts bytes in their place; those that do not follow first have all others written.
    pub fn put(&mut self, file: &mut dyn VfsFile, bytes: &[u8], offset: u64) -> VfsResult<()> {
        if !self.is_followed_at(offset) {
            self.flush(file)?;
            self.start = offset;
        }
        let at = (offset - self.start) as usize;
        let kept = self.bytes.len().saturating_sub(at).min(bytes.len());
        self.bytes[at..at + kept].copy_from_slice(&bytes[..kept]);
        self.bytes.extend_from_slice(&bytes[kept..]);
        Ok(())
    }

    /// Drops all bytes: they are not to be written.
    pub fn forget(&mut self) {
        self.bytes.clear();
    }

    /// Writes all bytes into the file. Those that cannot be written are forgotten.
    pub fn flush(&mut self, file: &mut dyn VfsFile) -> VfsResult<()> {
        if self.bytes.is_empty() {
            return Ok(());
        }
        let end = self.end();
        let outcome = file.write(&self.bytes, self.start);
        self.bytes.clear();
        self.start = end;
        outcome
    }

    /// Reads what the file would have if all were written.
    pub fn read(&self, file: &mut dyn VfsFile, buffer: &mut [u8], offset: u64) -> VfsResult<usize> {
        let wanted = offset..offset + buffer.len() as u64;
        let both = wanted.start.max(self.start)..wanted.end.min(self.end());
        let mut count = 0;
        if both != wanted {
            count = file.read(buffer, offset)?;
            buffer[count..].fill(0);
        }
        if !both.is_empty() {
            let in_buffer = (both.start - offset) as usize..(both.end - offset) as usize;
            let in_bytes = (both.start - self.start) as usize..(both.end - self.start) as usize;
            buffer[in_buffer].copy_from_slice(&self.bytes[in_bytes]);
        }
        if !self.bytes.is_empty() {
            // A read in front of the bytes finds zeros where the file ends before them.
            count = count.max(wanted.end.min(self.end()).saturating_sub(offset) as usize);
        }
        Ok(count)
    }

    /// Size of the file if all were written.
    pub fn size(&self, file: &mut dyn VfsFile) -> VfsResult<u64> {
        let size = file.size()?;
        Ok(if self.bytes.is_empty() { size } else { size.max(self.end()) })
    }
}
