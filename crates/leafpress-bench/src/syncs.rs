//! Slower syncs, and this disk's speed. Rungs ask for the slower ones.

use std::fs::{self, File};
use std::io::Write as _;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use leafpress::vfs::{self, PlatformVfs, Registration, SlowSync};

use crate::error::{Error, Result};
use crate::statistics::median;

/// VFS with slow syncs, for ours and the rivals alike, over the simulated disk if there is one. Its
/// name is withdrawn when this is dropped.
pub(crate) struct SlowedSyncs {
    name: String,
    _registration: Registration,
}

impl SlowedSyncs {
    /// Registers it, unless nothing is to be slowed.
    pub(crate) fn by(delay: Duration) -> Result<Option<Self>> {
        // Tests may run several rungs in one process.
        static COUNT: AtomicU64 = AtomicU64::new(0);
        if delay.is_zero() {
            return Ok(None);
        }
        let name = format!("leafpress-bench-slow-{}", COUNT.fetch_add(1, Ordering::Relaxed));
        let vfs = SlowSync::new(PlatformVfs::new(), delay);
        let registration = vfs::register(&name, vfs)?;
        Ok(Some(Self { name, _registration: registration }))
    }

    /// The name under which SQLite knows it.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }
}

/// Median time of many syncs of a few freshly written kilobytes in this folder.
pub(crate) fn sync_us_median(folder: &Path) -> Result<f64> {
    const SYNCS: usize = 50;
    const TIME_MAX: Duration = Duration::from_secs(2);
    let path = folder.join("sync.probe");
    let probe = || -> std::io::Result<Vec<f64>> {
        let mut file = File::create_new(&path)?;
        let begun = Instant::now();
        let mut took_us = Vec::with_capacity(SYNCS);
        while took_us.len() < SYNCS && (took_us.is_empty() || begun.elapsed() < TIME_MAX) {
            file.write_all(&[7; 4096])?;
            let start = Instant::now();
            file.sync_data()?;
            took_us.push(start.elapsed().as_secs_f64() * 1e6);
        }
        fs::remove_file(&path)?;
        Ok(took_us)
    };
    let took_us = probe().map_err(Error::io("write and sync", &path))?;
    Ok(median(&took_us).unwrap_or_default())
}
