//! Crashes a recorded run at every point, in many ways, and judges each.
//!
//! At each point of the recording: what a killed process leaves, and images
//! of what a power cut may leave, as many as the effort allows. Each image is
//! opened by unmodified SQLite in memory. In a part of them that opening, with
//! its recovery and the checkpoint of its closing, is recorded as well, and
//! crashed at points of its own: those images must keep the same promise.
//!
//! An image that was there before, since the last acknowledgement, is not
//! opened again and does not count.
//!
//! Must never: depend on anything but the recording and the seed.

use std::collections::HashSet;
use std::fmt::{self, Write as _};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use leafpress::vfs::{Registration, register};
use rusqlite::{Connection, OpenFlags};

use super::check::{Finding, Promise, Tally};
use super::disk::Disk;
use super::history::{Digest, History};
use super::image::Image;
use super::log::{Recording, Snapshot};
use super::memory_vfs::{MEMORY_FOLDER, MemoryVfs};
use super::random::Random;
use super::recorder::Recorder;

/// Reads the content that a history speaks of.
pub type ReadContent = fn(&Connection) -> rusqlite::Result<Digest>;

/// A run of a workload, and what it was promised.
pub struct Run<'a> {
    /// The workload and its settings, for reports.
    pub name: &'a str,
    /// Seed of the workload and the images.
    pub seed: u64,
    /// The recorded events.
    pub recording: &'a Recording,
    /// The states that there were.
    pub history: &'a History,
    /// The database's file name.
    pub database: &'a str,
    /// True if the first transaction makes the database, so that before it there is none.
    pub begins_absent: bool,
    /// Function that reads its content.
    pub content: ReadContent,
    /// The promise for power cuts.
    pub power_cut: Promise,
    /// The promise for a killed process.
    pub killed: Promise,
}

/// Number of images to make.
#[derive(Clone, Copy, Debug)]
pub struct Effort {
    /// Largest number of images of power cuts at each point.
    pub images_per_point: u32,
    /// Number of images of 100 whose recovery is crashed as well.
    pub recoveries_percent: u32,
    /// Number of images of each such recovery.
    pub images_per_recovery: u32,
}

/// Findings of a run, or of many.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    /// Images of power cuts.
    pub power_cut: Tally,
    /// Images of a power cut and of a second one during the recovery.
    pub recovery: Tally,
    /// Images of a killed process.
    pub killed: Tally,
    /// Broken promises; no more than [`FAILURES_MAX`].
    pub failures: Vec<Failure>,
    /// Number of broken promises.
    pub failures_count: u64,
}

/// A broken promise.
#[derive(Clone, Debug)]
pub struct Failure {
    /// The finding, its place, and how to repeat it.
    pub text: String,
    /// The files that the crash left.
    pub files: Snapshot,
}

/// Failures that are kept; others only count.
pub const FAILURES_MAX: usize = 10;

impl Outcome {
    /// Adds the outcome of another run.
    pub fn add(&mut self, other: Self) {
        self.power_cut.add(other.power_cut);
        self.recovery.add(other.recovery);
        self.killed.add(other.killed);
        self.failures_count += other.failures_count;
        self.failures.extend(other.failures);
        self.failures.truncate(FAILURES_MAX);
    }

    /// All images that were opened.
    pub fn images(&self) -> u64 {
        self.power_cut.images + self.recovery.images + self.killed.images
    }

    /// # Panics
    /// With the failures, if there are any; the files that they left are kept.
    pub fn assert_kept(&self) {
        let mut text = String::new();
        for (failure, number) in self.failures.iter().zip(0..) {
            let folder = format!("leafpress-crash-{}-{number}", std::process::id());
            let folder = std::env::temp_dir().join(folder);
            text += &failure.text;
            let saved = failure.files.save(&folder);
            let kept = saved.map_or_else(|error| error.to_string(), |()| "there".to_owned());
            let _ = writeln!(text, "\n  the files are in {}: {kept}", folder.display());
        }
        let count = self.failures_count;
        assert!(count == 0, "{count} broken promises, of which the first are:\n{text}");
    }
}

/// Key of an image of a run: enough to make it again.
#[derive(Clone, Copy, Debug)]
struct Crash {
    point: usize,
    /// `None`: the process was killed.
    image: Option<u32>,
    /// The point and the number of the image of a second crash.
    recovery: Option<(usize, u32)>,
}

impl fmt::Display for Crash {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "after {} events, ", self.point)?;
        match self.image {
            Some(image) => write!(formatter, "power cut {image}")?,
            None => write!(formatter, "process killed")?,
        }
        match self.recovery {
            Some((point, image)) => {
                write!(formatter, ", then after {point} events of the recovery power cut {image}")
            }
            None => Ok(()),
        }
    }
}

/// Opens images: one for each thread, as it has a VFS of its own.
pub struct Simulator {
    vfs: Arc<Recorder<MemoryVfs>>,
    registration: Registration,
    image: Image,
    second: Image,
}

impl Default for Simulator {
    fn default() -> Self {
        Self::new()
    }
}

impl Simulator {
    /// Registers a VFS.
    ///
    /// # Panics
    /// If SQLite refuses it.
    pub fn new() -> Self {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let vfs = Arc::new(Recorder::new(MemoryVfs::new()));
        let registration = register(&format!("crash-image-{number}"), Arc::clone(&vfs)).unwrap();
        Self { vfs, registration, image: Image::new(), second: Image::new() }
    }

    /// Crashes a run at all its points.
    pub fn simulate(&mut self, run: &Run<'_>, effort: Effort) -> Outcome {
        let mut outcome = Outcome::default();
        let mut disk = Disk::new(run.recording);
        let mut acknowledged = Vec::new();
        let mut seen = HashSet::new();
        loop {
            for mark in &disk.acknowledged()[acknowledged.len()..] {
                acknowledged.push(run.history.number(*mark));
                seen.clear();
            }
            self.crash_at(run, effort, &disk, &acknowledged, &mut seen, &mut outcome);
            if disk.step().is_none() {
                return outcome;
            }
        }
    }

    fn crash_at(
        &mut self,
        run: &Run<'_>,
        effort: Effort,
        disk: &Disk<'_>,
        acknowledged: &[usize],
        seen: &mut HashSet<u64>,
        outcome: &mut Outcome,
    ) {
        let point = disk.point();
        let mut crash = Crash { point, image: None, recovery: None };
        self.image.kill(disk);
        if seen.insert(!self.image.fingerprint()) {
            let finding = self.open(run);
            let is_kept = outcome.killed.count(run.killed, &finding, acknowledged);
            if !is_kept {
                self.image.kill(disk);
                outcome.fail(run, crash, &finding, &self.image);
            }
        }
        let images = match disk.unsynced() {
            0 => 1,
            1 => effort.images_per_point.min(4),
            _ => effort.images_per_point,
        };
        for number in 0..images {
            let mut random = Random::of(&[run.seed, point as u64, u64::from(number)]);
            self.image.cut_power(disk, &mut random);
            if !seen.insert(self.image.fingerprint()) {
                continue;
            }
            crash.image = Some(number);
            let recorded = random.percent(effort.recoveries_percent);
            let (finding, recovery) =
                if recorded { self.open_recorded(run) } else { (self.open(run), None) };
            if !outcome.power_cut.count(run.power_cut, &finding, acknowledged) {
                let mut random = Random::of(&[run.seed, point as u64, u64::from(number)]);
                self.image.cut_power(disk, &mut random);
                outcome.fail(run, crash, &finding, &self.image);
            }
            if let Some(recovery) = recovery {
                self.crash_recovery(run, effort, &recovery, crash, acknowledged, outcome);
            }
        }
    }

    /// Crashes the recovery of an image.
    fn crash_recovery(
        &mut self,
        run: &Run<'_>,
        effort: Effort,
        recovery: &Recording,
        first: Crash,
        acknowledged: &[usize],
        outcome: &mut Outcome,
    ) {
        let first_image = u64::from(first.image.unwrap_or_default());
        for number in 0..effort.images_per_recovery {
            let mut random =
                Random::of(&[run.seed, first.point as u64, first_image, 1 + u64::from(number)]);
            let disk = Disk::at(recovery, 1 + random.below(recovery.events.len()));
            let again = random.clone();
            self.second.cut_power(&disk, &mut random);
            std::mem::swap(&mut self.image, &mut self.second);
            let finding = self.open(run);
            std::mem::swap(&mut self.image, &mut self.second);
            if !outcome.recovery.count(run.power_cut, &finding, acknowledged) {
                self.second.cut_power(&disk, &mut again.clone());
                let crash = Crash { recovery: Some((disk.point(), number)), ..first };
                outcome.fail(run, crash, &finding, &self.second);
            }
        }
    }

    /// Opens the image, whose content is another one afterwards.
    fn open(&mut self, run: &Run<'_>) -> Finding {
        self.vfs.inner().put(&mut self.image);
        self.find(run)
    }

    /// Opens the image and records SQLite's writes, if there are any.
    fn open_recorded(&mut self, run: &Run<'_>) -> (Finding, Option<Recording>) {
        self.vfs.inner().put(&mut self.image);
        let log = self.vfs.watch_from(MEMORY_FOLDER, self.vfs.inner().snapshot());
        let finding = self.find(run);
        self.vfs.unwatch(MEMORY_FOLDER);
        let recovery = log.finish();
        (finding, Some(recovery).filter(|recovery| !recovery.events.is_empty()))
    }

    fn find(&self, run: &Run<'_>) -> Finding {
        if run.begins_absent && !self.vfs.inner().has(run.database) {
            return Finding::State(0);
        }
        Finding::of(
            run.history,
            || {
                Connection::open_with_flags_and_vfs(
                    run.database,
                    OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX,
                    self.registration.name(),
                )
            },
            run.content,
        )
    }
}

impl Outcome {
    fn fail(&mut self, run: &Run<'_>, crash: Crash, finding: &Finding, image: &Image) {
        self.failures_count += 1;
        if self.failures.len() == FAILURES_MAX {
            return;
        }
        let text = format!(
            "{}: {crash} left {finding}\n  the image: {}\n  to repeat it: \
             LEAFPRESS_CRASH_SEED={} with the same test",
            run.name,
            image.describe(),
            run.seed,
        );
        self.failures.push(Failure { text, files: image.snapshot() });
    }
}
