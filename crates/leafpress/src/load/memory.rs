//! How much memory sorting may take where nobody says, and how much disk there is.

use std::path::Path;

/// At most this, by default.
const DEFAULT_BYTES_MAX: usize = 1 << 30;

/// A quarter of the machine's memory, at most 1 GiB.
pub fn default_bytes() -> usize {
    total_bytes().map_or(DEFAULT_BYTES_MAX / 4, |total| (total / 4).min(DEFAULT_BYTES_MAX))
}

#[cfg(any(target_os = "linux", target_os = "android"))]
fn total_bytes() -> Option<usize> {
    let info = rustix::system::sysinfo();
    usize::try_from(info.totalram).ok()?.checked_mul(info.mem_unit as usize)
}

/// Elsewhere nobody is asked.
#[cfg(not(any(target_os = "linux", target_os = "android")))]
fn total_bytes() -> Option<usize> {
    None
}

/// Bytes that may be written in a folder; `None` where nobody can tell.
#[cfg(unix)]
pub fn free_disk_bytes(folder: &Path) -> Option<u64> {
    let stat = rustix::fs::statvfs(folder).ok()?;
    stat.f_bavail.checked_mul(stat.f_frsize)
}

/// Elsewhere nobody is asked.
#[cfg(not(unix))]
pub fn free_disk_bytes(_folder: &Path) -> Option<u64> {
    None
}
