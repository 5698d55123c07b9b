//! Slow disks, simulated on a fast one. Your own tests can show what users with a small device
//! will see.
//!
//! ```text
//! SQLite's default VFS ─┐
//! the VFS `leafpress` ──┼─► PlatformVfs ─► SlowDisk ─► BarePlatform: the platform's file
//! your own VFS ─────────┘                     │
//! loads, sorts ──────────────────────────► Device: what waits, until when it is busy
//! ```
//!
//! [`simulate`] plays a disk for the whole process, [`SlowDisk`] for one VFS.
//!
//! | file | holds |
//! |---|---|
//! | `model.rs` | the disks, their figures and sources, the arithmetic of a write |
//! | `extents.rs` | the blocks of a file that are not written yet |
//! | `device.rs` | one disk: all files on it, its time, what it did |
//! | `clock.rs` | waiting, to a few microseconds |
//! | `file.rs` | SQLite's files on it |
//! | `platform.rs` | the disk in the place of the platform's |
//!
//! Must never: leave a real sync out, make a disk faster than it is, or cost anything where no disk
//! is simulated.

mod clock;
mod device;
mod extents;
mod file;
mod model;
mod platform;
#[cfg(test)]
mod tests;

use std::fmt;
use std::sync::{Arc, Mutex, OnceLock};

use device::Device;
pub use device::SimulationStats;
pub use file::SlowDisk;
pub use model::{DiskModel, DiskSource};

use super::{PlatformVfs, Registration, register_default};
use crate::error::{Error, Result};
use crate::sync::lock;

/// Name of the VFS that is the default then.
const NAME: &str = "leafpress-simulated-disk";

static SIMULATION: OnceLock<Simulation> = OnceLock::new();

/// The disk that this process plays.
pub struct Simulation {
    device: Arc<Device>,
    _registration: Registration,
}

impl Simulation {
    /// The model of the disk.
    pub fn model(&self) -> &DiskModel {
        self.device.model()
    }

    /// Numbers of its work up to now, and how often the real disk was slower than the simulated
    /// one.
    pub fn stats(&self) -> SimulationStats {
        self.device.stats()
    }
}

impl fmt::Debug for Simulation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Simulation")
            .field("model", &self.model().name)
            .field("stats", &self.stats())
            .finish()
    }
}

/// Makes writing take as long as on this disk, from now on to the end of the process.
///
/// Call it first thing in a test or a program, and see what the users of a small device
/// will see. Slow are then:
///
/// - all connections that are opened afterwards, by any code, through SQLite's
///   default VFS, through ours (profile `rollback`), and through every VFS over a
///   [`PlatformVfs`];
/// - files that loads write by themselves, and those that sorts spill.
///
/// Each real sync is made all the same, and only the missing time is slept, so that nothing is less
/// safe than without. Reading takes no longer, as if all were in memory. Pages are never written
/// whole without a journal, as these disks promise no such thing.
///
/// Not slowed: connections that were opened before or through a VFS that is named ("`unix`"), files
/// that are no databases, and what `leafpress::storage` measures, which is the real disk. A child of
/// `fork` must not open a database: threads of its parent may have been at the disk that is played.
///
/// ```
/// use leafpress_vfs::{self as vfs, DiskModel};
/// # let folder = tempfile::tempdir()?;
/// # let path = folder.path().join("a.db");
///
/// let disk = vfs::simulate(DiskModel::PHONE_2016)?;
/// let connection = rusqlite::Connection::open(path)?;
/// let begun = std::time::Instant::now();
/// connection.execute_batch("CREATE TABLE t (x)")?;
/// assert!(begun.elapsed().as_millis() >= 12, "two syncs at least");
/// println!("{} syncs, {:?} too slow", disk.stats().syncs, disk.stats().late);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// [`ErrorKind::Misuse`](crate::ErrorKind::Misuse) if this process plays another disk already, or
/// another watcher is told of its files; SQLite's own. Nothing was changed then. Once more with
/// the same model is fine.
pub fn simulate(model: DiskModel) -> Result<&'static Simulation> {
    static STARTING: Mutex<()> = Mutex::new(());
    let _turn = lock(&STARTING);
    if let Some(running) = SIMULATION.get() {
        if *running.model() == model {
            return Ok(running);
        }
        let (this, that) = (running.model().name, model.name);
        return Err(Error::misuse(format!("this process simulates {this} already, not {that}"))
            .advise("simulate one disk in a process: start another one for another"));
    }
    let registration = register_default(NAME, PlatformVfs::new())?;
    let simulation = Simulation { device: Device::new(model), _registration: registration };
    platform::put_in_place(&simulation.device)?;
    Ok(SIMULATION.get_or_init(|| simulation))
}

/// The disk that this process plays, if it does.
pub fn simulation() -> Option<&'static Simulation> {
    SIMULATION.get()
}
