//! The sizes that a disk writes whole.
//!
//! Two sources: `statx` tells what the *file system* offers, by the disk's
//! power or by software; `/sys` tells what the *disk* can do itself. The one
//! without the other tells hardware from software.
//!
//! Must never: take silence for a no. An old kernel knows nothing of it.

use std::fs::File;

use serde::Serialize;

use crate::device::Device;

/// Part of the system that makes a write whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum AtomicBy {
    /// The disk itself.
    Hardware,
    /// The file system, by writing elsewhere first.
    Software,
    /// No part of it.
    None,
    /// The system does not say.
    Unknown,
}

/// The sizes in which a file can be written atomically
/// (`pwritev2` with `RWF_ATOMIC`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct AtomicWrites {
    /// Part of the system that does it.
    pub by: AtomicBy,
    /// The smallest such write, in bytes; 0 if there is none.
    pub unit_min_bytes: Option<u32>,
    /// The largest such write, in bytes.
    pub unit_max_bytes: Option<u32>,
}

impl AtomicWrites {
    /// From what the system says of an open file, and `/sys` of its device.
    pub fn of(file: &File, device: Option<&Device>) -> Self {
        Self::from_answers(ask_statx(file), device.and_then(|it| it.atomic_write_unit_max_bytes))
    }

    /// From what `statx` says of the file (`None`: nothing), and `/sys` of its device.
    pub fn from_answers(units: Option<(u32, u32)>, device_max_bytes: Option<u32>) -> Self {
        let by = match (units, device_max_bytes) {
            (Some((_, 0)), _) => AtomicBy::None,
            (Some((_, max)), Some(device_max)) if max <= device_max => AtomicBy::Hardware,
            (Some(_), Some(_)) => AtomicBy::Software,
            (None, _) | (Some(_), None) => AtomicBy::Unknown,
        };
        Self {
            by,
            unit_min_bytes: units.map(|(min, _)| min),
            unit_max_bytes: units.map(|(_, max)| max),
        }
    }

    /// Returns true if a page of this many bytes can be written whole; `None` if unknown.
    pub fn covers(&self, page_size_bytes: u32) -> Option<bool> {
        let range = self.unit_min_bytes?..=self.unit_max_bytes?;
        Some(page_size_bytes > 0 && range.contains(&page_size_bytes))
    }
}

/// `STATX_WRITE_ATOMIC` of `<linux/stat.h>`, since Linux 6.11.
#[cfg(target_os = "linux")]
pub const WRITE_ATOMIC: rustix::fs::StatxFlags = rustix::fs::StatxFlags::from_bits_retain(0x1_0000);

/// The smallest and the largest unit in an answer to [`WRITE_ATOMIC`]; `None` if it
/// holds none, as of an old kernel.
#[cfg(target_os = "linux")]
pub fn units_in(answer: &rustix::fs::Statx) -> Option<(u32, u32)> {
    let is_answered = answer.stx_mask & WRITE_ATOMIC.bits() != 0;
    is_answered.then_some((answer.stx_atomic_write_unit_min, answer.stx_atomic_write_unit_max))
}

#[cfg(target_os = "linux")]
fn ask_statx(file: &File) -> Option<(u32, u32)> {
    use rustix::fs::{AtFlags, statx};

    units_in(&statx(file, "", AtFlags::EMPTY_PATH, WRITE_ATOMIC).ok()?)
}

#[cfg(not(target_os = "linux"))]
fn ask_statx(_file: &File) -> Option<(u32, u32)> {
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hardware_is_told_from_software_and_silence_from_a_no() {
        for (units, device_max_bytes, by) in [
            (None, Some(16384), AtomicBy::Unknown),
            (Some((0, 0)), Some(0), AtomicBy::None),
            (Some((4096, 4096)), Some(16384), AtomicBy::Hardware),
            (Some((4096, 1 << 20)), Some(0), AtomicBy::Software),
            (Some((4096, 1 << 20)), Some(16384), AtomicBy::Software),
            (Some((4096, 4096)), None, AtomicBy::Unknown),
        ] {
            assert_eq!(AtomicWrites::from_answers(units, device_max_bytes).by, by, "{units:?}");
        }
    }

    #[test]
    fn a_page_is_covered_from_the_smallest_to_the_largest_unit() {
        let units = AtomicWrites::from_answers(Some((4096, 16384)), Some(16384));
        let covered = [512, 4096, 8192, 16384, 32768].map(|bytes| units.covers(bytes));
        assert_eq!(covered, [false, true, true, true, false].map(Some));
        let none = AtomicWrites::from_answers(Some((0, 0)), None);
        assert_eq!((none.covers(4096), none.covers(0)), (Some(false), Some(false)));
        assert_eq!(AtomicWrites::from_answers(None, None).covers(4096), None);
    }

    #[test]
    fn a_real_file_can_be_asked() {
        let file = tempfile::tempfile().unwrap();
        let found = AtomicWrites::of(&file, None);
        assert_eq!(found.unit_min_bytes.is_some(), found.unit_max_bytes.is_some());
    }
}
