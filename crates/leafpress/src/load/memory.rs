//! Memory that a load takes by default, and the most that it may be given.

use crate::machine_memory::usable_bytes;

/// At most this, by default.
const DEFAULT_BYTES_MAX: usize = 1 << 30;

/// At most this, where the system does not tell how much there is.
const UNKNOWN_BYTES_MAX: u64 = 64 << 30;

/// A quarter of the memory, at most 1 GiB.
pub fn default_bytes() -> usize {
    usable_bytes().map_or(DEFAULT_BYTES_MAX / 4, |total| (total / 4).min(DEFAULT_BYTES_MAX))
}

/// So much memory, or all that the machine has if that is less. Parts of it are taken at once.
pub fn at_most_all(bytes: usize) -> usize {
    let unknown = || usize::try_from(UNKNOWN_BYTES_MAX).unwrap_or(DEFAULT_BYTES_MAX);
    bytes.min(usable_bytes().unwrap_or_else(unknown))
}
