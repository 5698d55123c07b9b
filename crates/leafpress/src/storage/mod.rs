//! Abilities of the disk under a path.
//!
//! A profile's promise is kept by the disk in the end: a commit is as durable
//! as a sync is honest, and as fast as a sync is. [`measure`] asks the system
//! what lies under a path, and measures for two seconds.
//!
//! | file | does |
//! |---|---|
//! | `file_system.rs` | which file system it is, and where its bytes are |
//! | `mounts.rs` | the table of mounts, as Linux tells it |
//! | `probe.rs` | measures syncs and writes |
//! | `doubts.rs` | what may break a promise there, in plain words |
//!
//! Must never: touch a database, or leave a file behind.

use std::ffi::OsStr;
use std::fmt;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;

use crate::error::{Error, ErrorKind, Result};
use crate::paths::folder_of;
use crate::words::path_text;

mod doubts;
mod file_system;
mod mounts;
mod probe;
#[cfg(test)]
mod tests;

#[doc(inline)]
pub use crate::vfs::atomic_writes::{AtomicBy, AtomicWrites};
#[doc(inline)]
pub use crate::vfs::device::Device;
pub use file_system::{FileSystem, Nature};
pub use probe::{Latency, Measured, Throughput};

const NOTHING_STAYED: &str = "nothing was left behind";
/// Long enough for percentiles of a disk that needs 20 ms for a sync.
const USUAL_TIME: Duration = Duration::from_secs(2);
const QUICK_TIME: Duration = Duration::from_millis(400);
/// More tells no more, and wears the disk.
const TIME_MAX: Duration = Duration::from_secs(3600);

/// Options for measuring.
#[derive(Clone)]
pub struct StorageOptions {
    time: Duration,
    stop: Arc<dyn Fn() -> bool + Send + Sync>,
}

impl fmt::Debug for StorageOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StorageOptions").field("time", &self.time).finish_non_exhaustive()
    }
}

impl Default for StorageOptions {
    fn default() -> Self {
        Self { time: USUAL_TIME, stop: Arc::new(|| false) }
    }
}

impl StorageOptions {
    /// About how long to measure (2 s unless set). A disk so slow that nothing
    /// could be said by then takes longer.
    #[must_use]
    pub fn time(mut self, time: Duration) -> Self {
        self.time = time.min(TIME_MAX);
        self
    }

    /// Measures for a moment only: the order of magnitude.
    #[must_use]
    pub fn quick(self) -> Self {
        self.time(QUICK_TIME)
    }

    /// Asks `stop` again and again; once it says true, [`measure`] ends with
    /// [`ErrorKind::Cancelled`].
    #[must_use]
    pub fn stop_when(mut self, stop: impl Fn() -> bool + Send + Sync + 'static) -> Self {
        self.stop = Arc::new(stop);
        self
    }
}

/// All that was found out about the storage under a path.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Findings {
    /// The path that was asked about.
    #[serde(serialize_with = "crate::words::path_as_text")]
    pub path: PathBuf,
    /// The folder that was measured.
    #[serde(serialize_with = "crate::words::path_as_text")]
    pub folder: PathBuf,
    /// Its file system.
    pub file_system: FileSystem,
    /// The disk under it, where the system names one.
    pub device: Option<Device>,
    /// Bytes that you may still write there.
    pub free_bytes: Option<u64>,
    /// Sizes of writes that are done whole or not at all.
    pub atomic_writes: AtomicWrites,
    /// Call by which this system makes a sync: `fdatasync`, `F_FULLFSYNC`, or another.
    pub sync_call: &'static str,
    /// A library that makes every sync do nothing is loaded.
    pub syncs_are_disarmed: bool,
    /// Its measured speed.
    pub measured: Measured,
}

impl Findings {
    /// Reasons for which a sync there saves nothing from a power cut, as far as the system tells:
    /// the file system is memory, or syncs are switched off. A sentence each, without a full stop;
    /// empty if nothing is known against it.
    pub fn not_durable(&self) -> Vec<String> {
        doubts::not_durable(&self.file_system, self.syncs_are_disarmed)
    }
}

/// Finds out what the storage under `path` can do: a folder, or a database,
/// which need not be there yet and is not touched.
///
/// Writes up to 256 MiB (and at most a quarter of what is free) into a hidden
/// file beside it, which is removed again. `leafpress storage` says which profile fits what was found.
///
/// ```
/// use leafpress::storage::{StorageOptions, measure};
///
/// # let folder = tempfile::tempdir().unwrap();
/// # let path = folder.path().join("app.db");
/// let found = measure(&path, &StorageOptions::default().quick())?;
/// println!("{}: {:?}", found.file_system, found.measured.sync_after_append.p50);
/// for reason in found.not_durable() {
///     println!("no promise about power cuts: {reason}");
/// }
/// # Ok::<(), leafpress::Error>(())
/// ```
///
/// # Errors
/// When there is no such folder, it cannot be written to, it is full, or the
/// caller stopped. The hidden file is gone then too, unless the error says
/// that it could not be removed.
pub fn measure(path: impl AsRef<Path>, options: &StorageOptions) -> Result<Findings> {
    let path = path.as_ref();
    measure_beside(path, options).map_err(|error| error.on_disk(NOTHING_STAYED))
}

fn measure_beside(path: &Path, options: &StorageOptions) -> Result<Findings> {
    let folder = folder_to_measure(path)?;
    let file_system =
        FileSystem::of(&folder).map_err(|source| Error::io("look at", &folder, source))?;
    let device = file_system.disk();
    let free_bytes = free_bytes(&folder);
    let probe = probe::Probe::new(&folder, options.time, free_bytes, &*options.stop);
    let (measured, atomic_writes) = probe.run(device.as_ref())?;
    Ok(Findings {
        path: path.to_owned(),
        folder,
        file_system,
        device,
        free_bytes,
        atomic_writes,
        sync_call: sync_call(),
        syncs_are_disarmed: syncs_are_disarmed(std::env::var_os("LD_PRELOAD").as_deref()),
        measured,
    })
}

/// Reasons for which a sync of the database at `path` saves nothing from a power cut, as far as the
/// system tells without measuring: the file system is memory, or syncs are switched off. A sentence
/// each; empty if nothing is known against it, or the path cannot be asked about.
pub(crate) fn not_durable(path: &Path) -> Vec<String> {
    let Ok(folder) = folder_to_measure(path) else { return Vec::new() };
    let Ok(file_system) = FileSystem::of(&folder) else { return Vec::new() };
    doubts::not_durable(&file_system, syncs_are_disarmed(std::env::var_os("LD_PRELOAD").as_deref()))
}

/// The folder itself, or that of the database, to which links are followed.
fn folder_to_measure(path: &Path) -> Result<PathBuf> {
    let cannot = |source| Error::io("look at", path, source);
    let target = match dunce::canonicalize(path) {
        Ok(target) if target.is_dir() => return Ok(target),
        Ok(target) => target,
        // A database that is yet to be made.
        Err(source) if source.kind() == io::ErrorKind::NotFound => path.to_owned(),
        Err(source) => return Err(cannot(source)),
    };
    if target.as_os_str().is_empty() {
        return Err(Error::misuse("no path was named"));
    }
    let folder = folder_of(&target);
    let found = dunce::canonicalize(folder);
    let found = found.map_err(|source| {
        Error::io("look at", folder, source).to_do("name a folder that is there, or a file in one")
    })?;
    let is_folder = fs::metadata(&found).map_err(cannot)?.is_dir();
    let not_a_folder =
        || ErrorKind::Destination { path: found.clone(), reason: "is not a folder".to_owned() };
    if is_folder { Ok(found) } else { Err(not_a_folder().into()) }
}

/// The call behind std's `File::sync_data`, which was measured.
fn sync_call() -> &'static str {
    if cfg!(target_vendor = "apple") {
        "F_FULLFSYNC"
    } else if cfg!(windows) {
        "FlushFileBuffers"
    } else {
        "fdatasync"
    }
}

fn syncs_are_disarmed(preloaded: Option<&OsStr>) -> bool {
    preloaded.is_some_and(|it| path_text(it).contains("eatmydata"))
}

/// Bytes that this user may still write in a folder; `None` where the system does not tell.
#[cfg(unix)]
pub fn free_bytes(folder: &Path) -> Option<u64> {
    let answer = rustix::fs::statvfs(folder).ok()?;
    Some(answer.f_bavail.saturating_mul(answer.f_frsize))
}

/// On other systems this is not known.
#[cfg(not(unix))]
pub fn free_bytes(_folder: &Path) -> Option<u64> {
    None
}
