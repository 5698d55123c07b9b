//! Memory of the machine, and how much of it a load takes by default.

/// At most this, by default.
const DEFAULT_BYTES_MAX: usize = 1 << 30;

/// A quarter of the machine's memory, at most 1 GiB.
pub fn default_bytes() -> usize {
    total_bytes().map_or(DEFAULT_BYTES_MAX / 4, |total| (total / 4).min(DEFAULT_BYTES_MAX))
}

/// Memory of the machine.
#[cfg(any(target_os = "linux", target_os = "android"))]
pub fn total_bytes() -> Option<usize> {
    let info = rustix::system::sysinfo();
    usize::try_from(info.totalram).ok()?.checked_mul(info.mem_unit as usize)
}

/// Unknown on other systems.
#[cfg(not(any(target_os = "linux", target_os = "android")))]
pub fn total_bytes() -> Option<usize> {
    None
}
