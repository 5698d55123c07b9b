//! The measuring itself: a hidden file beside the database, some seconds.
//!
//! Stands under [`super::measure`]. What is written, and why so:
//!
//! | step | writes | as SQLite does when |
//! |---|---|---|
//! | sequential | 1 MiB pieces, a sync each 16 MiB | a log fills, a file is loaded |
//! | random | 4 KiB pages all over the file, a sync each 256 | a checkpoint brings pages home |
//! | overwrite | one 4 KiB page, then a sync | a log that is reused gets a commit |
//! | append | 4 KiB behind the end, then a sync | a log or journal that grows gets a commit |
//! | folder | a file is made and deleted, the folder synced | profile rollback ends a commit |
//!
//! All go through the system's page cache, as SQLite's do. Every byte differs
//! from block to block, so that a disk that packs or shares blocks gains nothing.
//!
//! Invariants:
//! 1. The hidden files are gone when a function here returns, also by an error.
//! 2. No step takes more of the disk than a quarter of what is free.
//!
//! Must never: touch a file that it did not make.

use std::fs::File;
use std::io::{self, Seek, SeekFrom, Write};
use std::path::Path;
use std::time::{Duration, Instant};

use serde::Serialize;
use tempfile::{Builder, NamedTempFile};

use super::{AtomicWrites, Device};
use crate::error::{Error, ErrorKind, Result};

const PAGE_BYTES: usize = 4096;
const PIECE_BYTES: usize = 1 << 20;
/// Syncs come this often, so that a slow disk cannot owe us minutes of work.
const PIECES_PER_SYNC: u64 = 16;
const FILE_BYTES_MAX: u64 = 256 << 20;
/// Below this the random pages would all lie together.
const FILE_BYTES_MIN: u64 = 4 << 20;
const PAGES_PER_SYNC: u64 = 256;
const SYNCS_MAX: u64 = 20_000;
/// Syncs that are made however slow the disk is: fewer have no percentiles.
const SYNCS_MIN: u64 = 5;
/// Begins the name of every file that is made.
pub(super) const PREFIX: &str = ".leafpress-storage-";

/// Durations of one operation, over many times.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Latency {
    /// Number of measured durations.
    pub count: u64,
    /// Half of the times are at most this.
    #[serde(rename = "p50_us", serialize_with = "crate::times::microseconds")]
    pub p50: Duration,
    /// 99 of 100 are at most this.
    #[serde(rename = "p99_us", serialize_with = "crate::times::microseconds")]
    pub p99: Duration,
    /// The longest.
    #[serde(rename = "max_us", serialize_with = "crate::times::microseconds")]
    pub max: Duration,
    /// The mean.
    #[serde(rename = "mean_us", serialize_with = "crate::times::microseconds")]
    pub mean: Duration,
}

impl Latency {
    /// From all times, in any order; `None` of none.
    pub(super) fn of(mut times: Vec<Duration>) -> Option<Self> {
        times.sort_unstable();
        let at = |share: f64| {
            let rank = (share * times.len() as f64).ceil() as usize;
            times.get(rank.clamp(1, times.len().max(1)) - 1).copied()
        };
        let total: Duration = times.iter().sum();
        Some(Self {
            count: times.len() as u64,
            p50: at(0.5)?,
            p99: at(0.99)?,
            max: at(1.0)?,
            mean: total.div_f64(times.len() as f64),
        })
    }
}

/// Speed of writing bytes, with the syncs that make them last.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Throughput {
    /// Bytes in one write.
    pub write_bytes: u64,
    /// Number of the writes.
    pub count: u64,
    /// Duration of the writes and their syncs.
    #[serde(rename = "elapsed_s", serialize_with = "crate::times::seconds")]
    pub elapsed: Duration,
    /// Writes per second.
    pub per_second: f64,
    /// Bytes per second.
    pub bytes_per_second: f64,
}

impl Throughput {
    fn of(write_bytes: usize, count: u64, elapsed: Duration) -> Self {
        let elapsed = elapsed.max(Duration::from_nanos(1));
        let per_second = count as f64 / elapsed.as_secs_f64();
        let bytes_per_second = per_second * write_bytes as f64;
        let write_bytes = write_bytes as u64;
        Self { write_bytes, count, elapsed, per_second, bytes_per_second }
    }
}

/// Results of the measuring.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Measured {
    /// The sync after one 4 KiB page was overwritten.
    pub sync_after_overwrite: Latency,
    /// The sync after 4 KiB were appended.
    pub sync_after_append: Latency,
    /// The sync of the folder after a file in it was deleted; not where
    /// folders cannot be synced.
    pub sync_of_folder: Option<Latency>,
    /// 4 KiB writes all over a file.
    pub random_writes: Throughput,
    /// 1 MiB writes one after another.
    pub sequential_writes: Throughput,
}

/// One run of all steps in one folder.
pub(super) struct Probe<'a> {
    folder: &'a Path,
    stop: &'a dyn Fn() -> bool,
    /// Longest time for all steps together.
    time: Duration,
    free_bytes: Option<u64>,
    /// Fills the blocks, each differently.
    noise: u64,
}

impl<'a> Probe<'a> {
    pub fn new(
        folder: &'a Path,
        time: Duration,
        free_bytes: Option<u64>,
        stop: &'a dyn Fn() -> bool,
    ) -> Self {
        Self { folder, stop, time, free_bytes, noise: 0x9E37_79B9_7F4A_7C15 }
    }

    /// Runs every step; the hidden files are gone afterwards.
    pub fn run(mut self, device: Option<&Device>) -> Result<(Measured, AtomicWrites)> {
        let mut hidden = self.hidden_file()?;
        let steps = (|| {
            let file = hidden.as_file_mut();
            let atomic = AtomicWrites::of(file, device);
            let (sequential_writes, file_bytes) = self.sequential(file)?;
            let random_writes = self.random(file, file_bytes)?;
            let sync_after_overwrite = self.overwrite(file)?;
            let sync_after_append = self.append(file)?;
            let sync_of_folder = self.folder_syncs()?;
            let measured = Measured {
                sync_after_overwrite,
                sync_after_append,
                sync_of_folder,
                random_writes,
                sequential_writes,
            };
            Ok((measured, atomic))
        })();
        // Removed here and not by a guard, so that a file that stays is reported.
        let path = hidden.path().to_owned();
        let removed = hidden.close().map_err(|source| Error::io("remove", &path, source));
        steps.and_then(|done| removed.map(|()| done))
    }

    fn hidden_file(&self) -> Result<NamedTempFile> {
        let made = Builder::new().prefix(PREFIX).suffix(".tmp").tempfile_in(self.folder);
        made.map_err(|source| {
            Error::io("make a file to measure with in", self.folder, source)
                .to_do("choose a folder that you may write to: only by writing can it be measured")
        })
    }

    fn failed(&self, source: io::Error) -> Error {
        let is_full =
            matches!(source.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded);
        let error = Error::io("measure the storage at", self.folder, source);
        if is_full { error.to_do("make some room there") } else { error }
    }

    /// Goes on while there is time, and until enough was done.
    fn goes_on(&self, started: Instant, share: f64, done: u64, least: u64) -> Result<bool> {
        if (self.stop)() {
            return Err(ErrorKind::Cancelled.into());
        }
        Ok(done < least || started.elapsed() < self.time.mul_f64(share))
    }

    fn file_bytes_max(&self) -> u64 {
        let quarter = self.free_bytes.map_or(FILE_BYTES_MAX, |free| free / 4);
        quarter.clamp(FILE_BYTES_MIN, FILE_BYTES_MAX)
    }

    fn sequential(&mut self, file: &mut File) -> Result<(Throughput, u64)> {
        let bytes_max = self.file_bytes_max();
        let least = FILE_BYTES_MIN / PIECE_BYTES as u64;
        let mut piece = vec![0; PIECE_BYTES];
        let (started, mut written, mut file_bytes) = (Instant::now(), 0, 0);
        while self.goes_on(started, 0.2, written, least)? {
            self.fill(&mut piece);
            if file_bytes + PIECE_BYTES as u64 > bytes_max {
                file.seek(SeekFrom::Start(0)).map_err(|it| self.failed(it))?;
                file_bytes = 0;
            }
            file.write_all(&piece).map_err(|it| self.failed(it))?;
            written += 1;
            file_bytes += PIECE_BYTES as u64;
            if written % PIECES_PER_SYNC == 0 {
                file.sync_data().map_err(|it| self.failed(it))?;
            }
        }
        file.sync_data().map_err(|it| self.failed(it))?;
        let throughput = Throughput::of(PIECE_BYTES, written, started.elapsed());
        let length = file.metadata().map_err(|it| self.failed(it))?.len();
        Ok((throughput, length))
    }

    fn random(&mut self, file: &mut File, file_bytes: u64) -> Result<Throughput> {
        let pages = file_bytes / PAGE_BYTES as u64;
        let mut page = vec![0; PAGE_BYTES];
        let (started, mut written) = (Instant::now(), 0);
        while self.goes_on(started, 0.15, written, PAGES_PER_SYNC)? {
            for _ in 0..PAGES_PER_SYNC {
                self.fill(&mut page);
                let offset = self.next_noise() % pages * PAGE_BYTES as u64;
                self.write_at(file, offset, &page)?;
            }
            file.sync_data().map_err(|it| self.failed(it))?;
            written += PAGES_PER_SYNC;
        }
        Ok(Throughput::of(PAGE_BYTES, written, started.elapsed()))
    }

    fn overwrite(&mut self, file: &mut File) -> Result<Latency> {
        self.timed_syncs(0.3, |probe, page| {
            probe.write_at(file, 0, page)?;
            time(|| file.sync_data()).map_err(|it| probe.failed(it))
        })
    }

    fn append(&mut self, file: &mut File) -> Result<Latency> {
        file.set_len(0).and_then(|()| file.sync_all()).map_err(|it| self.failed(it))?;
        let mut end = 0;
        self.timed_syncs(0.25, |probe, page| {
            probe.write_at(file, end, page)?;
            end += page.len() as u64;
            time(|| file.sync_data()).map_err(|it| probe.failed(it))
        })
    }

    #[cfg(unix)]
    fn folder_syncs(&mut self) -> Result<Option<Latency>> {
        use crate::vfs::locks::FileHandle;

        let folder = FileHandle::open(self.folder).map_err(|it| self.failed(it))?;
        if folder.sync_all().is_err() {
            // Some file systems cannot; SQLite takes that as done.
            return Ok(None);
        }
        let latency = self.timed_syncs(0.1, |probe, _| {
            let hidden = probe.hidden_file()?;
            hidden.close().map_err(|it| probe.failed(it))?;
            time(|| folder.sync_all()).map_err(|it| probe.failed(it))
        })?;
        Ok(Some(latency))
    }

    #[cfg(not(unix))]
    fn folder_syncs(&mut self) -> Result<Option<Latency>> {
        Ok(None)
    }

    fn timed_syncs(
        &mut self,
        share: f64,
        mut sync_once: impl FnMut(&mut Self, &[u8]) -> Result<Duration>,
    ) -> Result<Latency> {
        let mut page = vec![0; PAGE_BYTES];
        let (started, mut times) = (Instant::now(), Vec::new());
        while self.goes_on(started, share, times.len() as u64, SYNCS_MIN)?
            && (times.len() as u64) < SYNCS_MAX
        {
            self.fill(&mut page);
            times.push(sync_once(self, &page)?);
        }
        let none = || self.failed(io::Error::other("nothing could be timed"));
        Latency::of(times).ok_or_else(none)
    }

    fn write_at(&self, file: &mut File, offset: u64, bytes: &[u8]) -> Result<()> {
        let written = file.seek(SeekFrom::Start(offset)).and_then(|_| file.write_all(bytes));
        written.map_err(|it| self.failed(it))
    }

    /// `SplitMix64`: fast, and good enough to be incompressible.
    fn next_noise(&mut self) -> u64 {
        self.noise = self.noise.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.noise;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    fn fill(&mut self, block: &mut [u8]) {
        for chunk in block.chunks_mut(8) {
            let bytes = self.next_noise().to_le_bytes();
            chunk.copy_from_slice(&bytes[..chunk.len()]);
        }
    }
}

fn time(work: impl FnOnce() -> io::Result<()>) -> io::Result<Duration> {
    let started = Instant::now();
    work().map(|()| started.elapsed())
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    fn probe<'a>(folder: &'a Path, stop: &'a dyn Fn() -> bool) -> Probe<'a> {
        Probe::new(folder, Duration::from_millis(1), Some(1 << 40), stop)
    }

    fn is_empty(folder: &Path) -> bool {
        std::fs::read_dir(folder).unwrap().next().is_none()
    }

    #[test]
    fn percentiles_are_those_of_the_nearest_rank() {
        let times = (1..=200).rev().map(Duration::from_micros).collect();
        let latency = Latency::of(times).unwrap();
        assert_eq!(latency.count, 200);
        let quantiles = [latency.p50, latency.p99, latency.max];
        assert_eq!(quantiles, [100, 198, 200].map(Duration::from_micros));
        assert_eq!(latency.mean, Duration::from_nanos(100_500));
        let one = Latency::of(vec![Duration::from_nanos(1500)]).unwrap();
        let expected = serde_json::json!({
            "count": 1, "p50_us": 1.5, "p99_us": 1.5, "max_us": 1.5, "mean_us": 1.5,
        });
        assert_eq!(serde_json::to_value(one).unwrap(), expected);
        assert_eq!(Latency::of(Vec::new()), None);
    }

    #[test]
    fn every_step_is_done_and_no_file_stays() {
        let folder = tempfile::tempdir().unwrap();
        let (measured, _) = probe(folder.path(), &|| false).run(None).unwrap();
        for latency in [measured.sync_after_overwrite, measured.sync_after_append] {
            assert!(latency.count >= SYNCS_MIN, "{latency:?}");
            assert!(latency.p50 <= latency.p99 && latency.p99 <= latency.max);
        }
        assert!(measured.random_writes.count >= PAGES_PER_SYNC);
        assert!(measured.sequential_writes.count >= 4);
        assert!(measured.sequential_writes.bytes_per_second > 0.0);
        assert!(is_empty(folder.path()));
    }

    #[test]
    fn a_stop_at_any_moment_leaves_no_file() {
        let folder = tempfile::tempdir().unwrap();
        let mut stopped = 0;
        for looks_before in 0..40 {
            let looks = Cell::new(0);
            let stop = || {
                looks.set(looks.get() + 1);
                looks.get() > looks_before
            };
            if let Err(error) = probe(folder.path(), &stop).run(None) {
                assert!(matches!(error.kind(), ErrorKind::Cancelled), "{error}");
                stopped += 1;
            }
            assert!(is_empty(folder.path()));
        }
        assert!(stopped > 15, "{stopped}");
    }

    #[test]
    fn a_small_disk_is_not_filled() {
        let none = || false;
        let bytes = |free| Probe::new(Path::new("."), Duration::ZERO, free, &none).file_bytes_max();
        assert_eq!(bytes(Some(100 << 20)), 25 << 20);
        assert_eq!(bytes(Some(1 << 20)), FILE_BYTES_MIN);
        assert_eq!((bytes(Some(1 << 40)), bytes(None)), (FILE_BYTES_MAX, FILE_BYTES_MAX));
    }

    #[test]
    fn blocks_differ_from_one_another() {
        let none = || false;
        let mut probe = probe(Path::new("."), &none);
        let mut blocks = [vec![0; 4099], vec![0; 4099]];
        for block in &mut blocks {
            probe.fill(block);
        }
        assert_ne!(blocks[0], blocks[1]);
        let runs_of_zeros = blocks[0].windows(4).filter(|it| *it == [0; 4]).count();
        assert_eq!(runs_of_zeros, 0);
    }
}
