//! Runs on disk: one temporary file without a name, written and read by position.
//!
//! A spilled run is its items in order, one after the other, and a sparse sample of its keys and
//! their offsets. The system removes the file when the process ends, however it ends.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering as Atomic};

use super::item;
use super::options::MakeFile;
use super::order::Between;
use super::samples::{Sample, Sampler, Samples, read_items};
use crate::error::{Error, Result};
use crate::vfs::watch::UnnamedFile;
use crate::vfs::watch::WriteObserver;

/// Least distance from one sample to the next. A partition may read this number of bytes without need at
/// each end of its stretch of a run.
const SAMPLE_STEP_BYTES_MIN: u64 = 4 << 10;

/// Number of first bytes of an item that are read for its key.
const PEEK_BYTES: usize = 4 << 10;

/// The temporary file of one sorter.
#[derive(Debug)]
pub struct SpillFile {
    file: File,
    folder: PathBuf,
    end: AtomicU64,
    observer: Option<Box<dyn WriteObserver>>,
    #[cfg(not(unix))]
    position: std::sync::Mutex<()>,
}

impl SpillFile {
    /// Makes one in `folder`.
    pub fn new(folder: &Path, make: MakeFile) -> Result<Self> {
        let UnnamedFile { file, observer } =
            make(folder).map_err(|source| failed("create a temporary file in", folder, source))?;
        Ok(Self { observer, ..Self::of(file, folder) })
    }

    /// An empty file, which messages say is in `folder`.
    pub fn of(file: File, folder: &Path) -> Self {
        Self {
            file,
            folder: folder.to_owned(),
            end: AtomicU64::new(0),
            observer: None,
            #[cfg(not(unix))]
            position: std::sync::Mutex::new(()),
        }
    }

    /// Number of bytes that runs have claimed so far.
    pub fn bytes(&self) -> u64 {
        self.end.load(Atomic::Relaxed)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> Result<()> {
        self.write_all(bytes, offset).map_err(|source| {
            failed("write sorted rows to a temporary file in", &self.folder, source)
        })?;
        if let Some(observer) = &self.observer {
            observer.wrote(offset, bytes.len());
        }
        Ok(())
    }

    fn read_at(&self, bytes: &mut [u8], offset: u64) -> Result<()> {
        self.read_exact(bytes, offset).map_err(|source| self.unreadable(source))
    }

    fn unreadable(&self, source: io::Error) -> Error {
        failed("read sorted rows from a temporary file in", &self.folder, source)
    }

    fn damaged(&self) -> Error {
        self.unreadable(io::Error::new(io::ErrorKind::InvalidData, "they are not what was written"))
    }

    #[cfg(unix)]
    fn write_all(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        std::os::unix::fs::FileExt::write_all_at(&self.file, bytes, offset)
    }

    #[cfg(unix)]
    fn read_exact(&self, bytes: &mut [u8], offset: u64) -> io::Result<()> {
        std::os::unix::fs::FileExt::read_exact_at(&self.file, bytes, offset)
    }

    #[cfg(not(unix))]
    fn write_all(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        use std::io::{Seek, Write};
        let _alone = crate::sync::lock(&self.position);
        (&self.file).seek(io::SeekFrom::Start(offset))?;
        (&self.file).write_all(bytes)
    }

    #[cfg(not(unix))]
    fn read_exact(&self, bytes: &mut [u8], offset: u64) -> io::Result<()> {
        use std::io::{Read, Seek};
        let _alone = crate::sync::lock(&self.position);
        (&self.file).seek(io::SeekFrom::Start(offset))?;
        (&self.file).read_exact(bytes)
    }
}

/// The error of a temporary file that cannot be made, written or read.
fn failed(action: &'static str, folder: &Path, source: io::Error) -> Error {
    Error::io(action, folder, source).to_do(
        "give it a folder with more space with ⟦tmpdir⟧, or more memory with ⟦memory⟧, so that \
         less or nothing has to go to disk; the temporary file is gone",
    )
}

/// A run on disk.
#[derive(Debug)]
pub struct SpilledRun {
    /// The items' places are offsets in the file.
    samples: Samples,
}

/// Writes a run.
pub struct RunWriter<'f> {
    file: &'f SpillFile,
    buffer: Vec<u8>,
    /// Offset in the file of the buffer's first byte.
    at: u64,
    /// Offset in the file where the run ends.
    end: u64,
    sampler: Sampler,
}

impl<'f> RunWriter<'f> {
    /// A writer of a run of `run_bytes` in writes of `write_bytes`, which keeps
    /// no more than one sample for `sample_step_bytes`.
    pub fn new(file: &'f SpillFile, run_bytes: u64, write_bytes: usize, sample_step: u64) -> Self {
        let at = file.end.fetch_add(run_bytes, Atomic::Relaxed);
        let sample_step = sample_step.max(SAMPLE_STEP_BYTES_MIN);
        Self {
            file,
            buffer: Vec::with_capacity(write_bytes),
            at,
            end: at + run_bytes,
            sampler: Sampler::new(at, sample_step),
        }
    }

    /// Appends an item's bytes.
    #[inline]
    pub fn push(&mut self, prefix: u128, mut bytes: &[u8]) -> Result<()> {
        self.sampler.push(|| prefix, self.at + self.buffer.len() as u64);
        loop {
            let room = self.buffer.capacity() - self.buffer.len();
            if bytes.len() <= room {
                self.buffer.extend_from_slice(bytes);
                return Ok(());
            }
            let (now, later) = bytes.split_at(room);
            self.buffer.extend_from_slice(now);
            self.flush()?;
            bytes = later;
        }
    }

    fn flush(&mut self) -> Result<()> {
        self.file.write_at(&self.buffer, self.at)?;
        self.at += self.buffer.len() as u64;
        self.buffer.clear();
        Ok(())
    }

    /// Writes what is left.
    pub fn finish(mut self) -> Result<SpilledRun> {
        self.flush()?;
        debug_assert_eq!(self.at, self.end, "a run is as long as it was said to be");
        Ok(SpilledRun { samples: self.sampler.finish(self.at) })
    }
}

impl SpilledRun {
    pub fn samples(&self) -> &Samples {
        &self.samples
    }

    /// The stretch of the file that holds the run's items between two keys. A few items at both
    /// ends may be outside of these keys. Only where prefixes are the same must the file be asked.
    pub fn stretch(&self, file: &SpillFile, between: &Between<'_>) -> Result<Range<u64>> {
        let mut bytes = Vec::new();
        self.samples.stretch(between, |sample, divider| {
            let record = file.peek(sample, &mut bytes)?;
            Ok(between.order.is_before(sample.prefix(), || record, divider))
        })
    }
}

impl SpillFile {
    /// The record of the item at a sample.
    pub fn peek<'b>(&self, sample: &Sample, bytes: &'b mut Vec<u8>) -> Result<&'b [u8]> {
        let available = self.bytes() - sample.place;
        bytes.resize(available.min(PEEK_BYTES as u64) as usize, 0);
        self.read_at(bytes, sample.place)?;
        let length = item::record_place(bytes).map(|place| place.end);
        let length = length.filter(|&length| length as u64 <= available);
        let length = length.ok_or_else(|| self.damaged())?;
        if length > bytes.len() {
            bytes.resize(length, 0);
            self.read_at(bytes, sample.place)?;
        }
        let (item, _) = item::read(bytes).ok_or_else(|| self.damaged())?;
        Ok(item.record)
    }

    /// Reads the items between two keys from a stretch of a run and puts them
    /// behind the first `filled` bytes of `bytes`, which only grow. Calls `take`
    /// with each and where it begins, and returns how much is filled then.
    pub fn read_stretch(
        &self,
        stretch: Range<u64>,
        bytes: &mut Vec<u8>,
        filled: usize,
        between: &Between<'_>,
        mut take: impl FnMut(u128, usize),
    ) -> Result<usize> {
        let end = filled + (stretch.end - stretch.start) as usize;
        if bytes.len() < end {
            bytes.resize(end, 0);
        }
        self.read_at(&mut bytes[filled..end], stretch.start)?;
        let mut start = None;
        let items = read_items(&bytes[filled..end], between, |prefix, at| {
            let start = *start.get_or_insert(at);
            take(prefix, at - start + filled);
        });
        // Others' items, at both ends.
        let items = items.ok_or_else(|| self.damaged())?;
        bytes.copy_within(filled + items.start..filled + items.end, filled);
        Ok(filled + items.len())
    }
}
