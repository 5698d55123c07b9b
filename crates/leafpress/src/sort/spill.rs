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
use super::order::{Between, Divider, Order, Slot};
use crate::error::{Error, Result};
use crate::vfs::watch::UnnamedFile;
use crate::vfs::watch::WriteObserver;

/// Least distance from one sample to the next, and so the number of bytes that may be read
/// needlessly at each end of a partition's stretch of a run.
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

/// The prefix of an item's key and the offset of the item in the file, which is the slot's
/// place.
pub type Sample = Slot;

/// A run on disk.
#[derive(Debug)]
pub struct SpilledRun {
    /// The runs in order.
    samples: Vec<Sample>,
    start: u64,
    end: u64,
}

/// Writes a run.
pub struct RunWriter<'f> {
    file: &'f SpillFile,
    buffer: Vec<u8>,
    /// Offset in the file of the buffer's first byte.
    at: u64,
    /// Offsets in the file where the run begins and where it ends.
    start: u64,
    end: u64,
    samples: Vec<Sample>,
    sample_step_bytes: u64,
    next_sample_at: u64,
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
            start: at,
            end: at + run_bytes,
            samples: Vec::new(),
            sample_step_bytes: sample_step,
            next_sample_at: at + (spread(at) * sample_step as f64) as u64,
        }
    }

    /// Appends an item's bytes.
    #[inline]
    pub fn push(&mut self, prefix: u128, mut bytes: &[u8]) -> Result<()> {
        let at = self.at + self.buffer.len() as u64;
        if at >= self.next_sample_at {
            self.samples.push(Sample::new(prefix, at));
            self.next_sample_at = at + self.sample_step_bytes;
        }
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
        self.samples.shrink_to_fit();
        Ok(SpilledRun { samples: self.samples, start: self.start, end: self.at })
    }
}

impl SpilledRun {
    /// Samples, in order, each with the bytes from it to the next.
    pub fn samples(&self) -> impl Iterator<Item = (&Sample, u64)> {
        let ends = self.samples.iter().skip(1).map(|next| next.place).chain([self.end]);
        self.samples.iter().zip(ends).map(|(sample, end)| (sample, end - sample.place))
    }

    /// The memory that the samples take.
    pub fn sample_bytes(&self) -> usize {
        self.samples.len() * size_of::<Sample>()
    }

    /// The stretch of the file that holds the run's items between two keys. A few items at both
    /// ends may be outside of these keys.
    pub fn stretch(&self, file: &SpillFile, between: &Between<'_>) -> Result<Range<u64>> {
        let order = between.order;
        let start = match between.lower {
            None => self.start,
            Some(divider) => {
                let first_not_before = self.first_not_before(file, order, divider)?;
                self.samples[..first_not_before].last().map_or(self.start, |last| last.place)
            }
        };
        let end = match between.upper {
            None => self.end,
            Some(divider) => {
                let first_not_before = self.first_not_before(file, order, divider)?;
                self.samples.get(first_not_before).map_or(self.end, |first| first.place)
            }
        };
        Ok(start..end.max(start))
    }

    /// The first sample whose key is not before `divider`. Only where prefixes
    /// are the same must the file be asked.
    fn first_not_before(
        &self,
        file: &SpillFile,
        order: &Order,
        divider: &Divider,
    ) -> Result<usize> {
        let mut low = self.samples.partition_point(|sample| sample.prefix() < divider.prefix);
        let mut high = self.samples.partition_point(|sample| sample.prefix() <= divider.prefix);
        let mut bytes = Vec::new();
        while low < high {
            let middle = low.midpoint(high);
            let record = file.peek(&self.samples[middle], &mut bytes)?;
            if order.is_before(divider.prefix, || record, divider) {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        Ok(low)
    }
}

impl SpillFile {
    /// The record of the item at a sample.
    pub fn peek<'b>(&self, sample: &Sample, bytes: &'b mut Vec<u8>) -> Result<&'b [u8]> {
        let available = self.bytes() - sample.place;
        bytes.resize(available.min(PEEK_BYTES as u64) as usize, 0);
        self.read_at(bytes, sample.place)?;
        let length = item::length(bytes).filter(|&length| length <= available);
        let length = length.ok_or_else(|| self.damaged())? as usize;
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
        // Others' items, at both ends.
        let mut start = None;
        let mut at = filled;
        while at < end {
            let (item, length) = item::read(&bytes[at..end]).ok_or_else(|| self.damaged())?;
            let prefix = between.order.prefix(&item);
            if start.is_some() || !between.is_before(prefix, || item.record) {
                if between.is_behind(prefix, || item.record) {
                    break;
                }
                let start = *start.get_or_insert(at);
                take(prefix, at - start + filled);
            }
            at += length;
        }
        let start = start.unwrap_or(at);
        bytes.copy_within(start..at, filled);
        Ok(filled + at - start)
    }
}

/// A number from 0 up to 1, evenly spread: where in its first step a run is
/// sampled first. If all began at the same place, the candidates of all runs
/// would be the same few keys.
pub fn spread(ordinal: u64) -> f64 {
    const GOLDEN_RATIO: u64 = 0x9e37_79b9_7f4a_7c15;
    (ordinal.wrapping_mul(GOLDEN_RATIO) >> 32) as f64 / (1_u64 << 32) as f64
}
