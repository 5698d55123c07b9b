//! Times of files and folders, where they tell every change.
//!
//! A change's time is usually that of the last clock tick, some milliseconds long, so
//! that two changes within a tick look the same. Since Linux 6.13 some file systems
//! take the exact time for the first change after a process has asked for it
//! ("multigrain timestamps"): a time that was seen once is never seen again after a change.
//!
//! Invariant: a stamp is given only where all of this holds: the kernel is 6.13 or
//! later; the file system is one that does so; and the time has a fraction of a
//! second, since file systems with old, small inodes keep whole seconds only.
//! Not covered: a clock that is set back by hand, to the very nanosecond.

use std::collections::HashMap;
use std::io;
use std::path::Path;
use std::sync::Mutex;

use rustix::fs::{AtFlags, CWD, Statx, StatxFlags, StatxTimestamp, statfs, statx};
use rustix::io::Errno;

use crate::atomic::{FileStamp, Stamp};
use crate::sync::lock;

/// The first kernel with multigrain timestamps, and all file systems that have them
/// since then, by their numbers in `<linux/magic.h>`: ext4 (which shares its number
/// with ext2 and ext3, served by the same code), XFS, btrfs, tmpfs.
const KERNEL: (u32, u32) = (6, 13);
const FILE_SYSTEMS: [u32; 4] = [0xEF53, 0x5846_5342, 0x9123_683E, 0x0102_1994];

/// `STATX_MNT_ID_UNIQUE` of `<linux/stat.h>`, since Linux 6.8: a mount's number that no
/// later mount gets.
const UNIQUE_MOUNT: StatxFlags = StatxFlags::from_bits_retain(0x4000);
const QUESTIONS: StatxFlags = StatxFlags::CTIME
    .union(StatxFlags::MTIME)
    .union(StatxFlags::INO)
    .union(StatxFlags::SIZE)
    .union(UNIQUE_MOUNT);

/// Gives stamps, and remembers which mounts are good for it.
#[derive(Debug)]
pub(super) struct Stamps {
    is_kernel_able: bool,
    mounts: Mutex<HashMap<u64, bool>>,
}

impl Stamps {
    pub fn new() -> Self {
        let release = rustix::system::uname();
        let is_kernel_able = is_able(&release.release().to_string_lossy());
        Self { is_kernel_able, mounts: Mutex::default() }
    }

    pub fn of_folder(&self, folder: &Path) -> io::Result<Option<Stamp>> {
        if !self.is_kernel_able {
            return Ok(None);
        }
        self.stamp(folder, &statx(CWD, folder, AtFlags::empty(), QUESTIONS)?)
    }

    pub fn of_file(&self, file: &Path) -> io::Result<FileStamp> {
        match statx(CWD, file, AtFlags::empty(), QUESTIONS) {
            Ok(answer) => Ok(FileStamp::There(self.stamp(file, &answer)?)),
            Err(Errno::NOENT) => Ok(FileStamp::Absent),
            Err(error) => Err(error.into()),
        }
    }

    fn stamp(&self, path: &Path, answer: &Statx) -> io::Result<Option<Stamp>> {
        let is_answered = answer.stx_mask & QUESTIONS.bits() == QUESTIONS.bits();
        let has_fraction = answer.stx_ctime.tv_nsec != 0;
        if !self.is_kernel_able
            || !is_answered
            || !has_fraction
            || !self.has_fine_times(path, answer)?
        {
            return Ok(None);
        }
        Ok(Some(stamp_of(answer)))
    }

    /// The file system is asked once for each mount.
    fn has_fine_times(&self, path: &Path, answer: &Statx) -> io::Result<bool> {
        let mut mounts = lock(&self.mounts);
        if let Some(&known) = mounts.get(&answer.stx_mnt_id) {
            return Ok(known);
        }
        let kind = statfs(path)?.f_type as u32;
        let has = FILE_SYSTEMS.contains(&kind);
        mounts.insert(answer.stx_mnt_id, has);
        Ok(has)
    }
}

/// The time of the last change in the upper half; the lower half mixes what else
/// differs between two files or two states.
fn stamp_of(answer: &Statx) -> Stamp {
    let ns = |time: &StatxTimestamp| {
        (time.tv_sec as u64).wrapping_mul(1_000_000_000).wrapping_add(time.tv_nsec.into())
    };
    let device = u64::from(answer.stx_dev_major) << 32 | u64::from(answer.stx_dev_minor);
    let rest = [answer.stx_ino, device, answer.stx_size, ns(&answer.stx_mtime)];
    let mixed = rest.into_iter().fold(0_u64, |mixed, word| {
        (mixed ^ word).wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(29)
    });
    Stamp(u128::from(ns(&answer.stx_ctime)) << 64 | u128::from(mixed))
}

/// Returns true if this kernel release, such as `6.18.44-generic`, is new enough.
fn is_able(release: &str) -> bool {
    let mut numbers = release.split(['.', '-', '+']).map(str::parse::<u32>);
    match (numbers.next(), numbers.next()) {
        (Some(Ok(major)), Some(Ok(minor))) => (major, minor) >= KERNEL,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernels_are_told_by_their_release() {
        for (release, expected) in [
            ("6.18.44-fc", true),
            ("6.13.0", true),
            ("7.0-rc1", true),
            ("6.13-rc1", true),
            ("6.12.99", false),
            ("5.15.0-91-generic", false),
            ("10.1", true),
            ("unknown", false),
            ("", false),
        ] {
            assert_eq!(is_able(release), expected, "{release}");
        }
    }

    #[test]
    fn an_old_kernel_gives_no_stamp() {
        let folder = tempfile::tempdir().unwrap();
        let old = Stamps { is_kernel_able: false, mounts: Mutex::default() };
        assert_eq!(old.of_folder(folder.path()).unwrap(), None);
        assert_eq!(old.of_file(folder.path()).unwrap(), FileStamp::There(None));
        assert_eq!(old.of_file(&folder.path().join("nothing")).unwrap(), FileStamp::Absent);
    }

    #[test]
    fn the_file_system_of_a_mount_is_asked_once_and_processes_give_none() {
        let stamps = Stamps::new();
        let status = Path::new("/proc/self/status");
        assert_eq!(stamps.of_file(status).unwrap(), FileStamp::There(None));
        let known = stamps.mounts.lock().unwrap().clone();
        assert!(known.values().all(|is_good| !is_good), "{known:?}");
    }
}
