//! The parts of files that SQLite has mapped into memory, so that a child of `fork` can let
//! them go.
//!
//! A mapping keeps its file open, and with it the locks that belong to that opening. A child that
//! inherits the mapping of a `-shm` file would keep its parent's locks after the parent's death. So
//! in a child empty memory replaces each mapping.
//!
//! Must never: touch a mapping that this copy of SQLite did not make.

use crate::sync::lock;
use std::cell::RefCell;
use std::ffi::{c_int, c_void};
use std::ops::Range;
use std::ptr;
use std::sync::{Mutex, MutexGuard};

/// Addresses that are mapped from a file, with their protection.
struct Mapping {
    addresses: Range<usize>,
    protection: c_int,
}

static MAPPINGS: Mutex<Vec<Mapping>> = Mutex::new(Vec::new());

fn mappings() -> MutexGuard<'static, Vec<Mapping>> {
    lock(&MAPPINGS)
}

/// Removes `addresses` from all mappings; returns their protection.
fn cut(all: &mut Vec<Mapping>, addresses: &Range<usize>) -> c_int {
    let mut protection = libc::PROT_READ;
    let mut rest = Vec::with_capacity(all.len() + 1);
    for Mapping { addresses: old, protection: its } in all.drain(..) {
        let is_met = old.start < addresses.end && addresses.start < old.end;
        if !is_met {
            rest.push(Mapping { addresses: old, protection: its });
            continue;
        }
        protection = its;
        let parts = [old.start..addresses.start, addresses.end..old.end];
        let parts = parts.into_iter().filter(|part| !part.is_empty());
        rest.extend(parts.map(|addresses| Mapping { addresses, protection: its }));
    }
    *all = rest;
    protection
}

fn range_of(start: *mut c_void, bytes: usize) -> Range<usize> {
    start.addr()..start.addr().saturating_add(bytes)
}

/// As `mmap(2)`, for SQLite.
pub(super) unsafe extern "C" fn map(
    start: *mut c_void,
    bytes: usize,
    protection: c_int,
    flags: c_int,
    descriptor: c_int,
    offset: i64,
) -> *mut c_void {
    #[cfg(target_os = "linux")]
    if flags & libc::MAP_SHARED != 0
        && protection & libc::PROT_WRITE != 0
        && has_small_blocks(descriptor)
        && !allocate(descriptor, offset, bytes)
    {
        return libc::MAP_FAILED;
    }
    let mut all = mappings();
    // SAFETY: SQLite's own call, unchanged.
    let mapped =
        unsafe { libc::mmap(start, bytes, protection, flags, descriptor, offset as libc::off_t) };
    if mapped != libc::MAP_FAILED && flags & libc::MAP_SHARED != 0 {
        all.push(Mapping { addresses: range_of(mapped, bytes), protection });
    }
    mapped
}

/// Returns true if SQLite leaves holes in a `-shm` file: it extends the file by one byte in each 4 KiB.
/// A write to memory over a hole ends the process on a full disk (SIGBUS).
#[cfg(target_os = "linux")]
fn has_small_blocks(descriptor: c_int) -> bool {
    // SAFETY: SQLite holds the descriptor open during the call.
    let file = unsafe { std::os::fd::BorrowedFd::borrow_raw(descriptor) };
    rustix::fs::fstatfs(file).is_ok_and(|found| found.f_bsize < 4096)
}

/// Gives each block of these bytes of a file its place on the disk; returns false, with `errno` set,
/// if the disk or the quota has no room.
#[cfg(target_os = "linux")]
fn allocate(descriptor: c_int, offset: i64, bytes: usize) -> bool {
    // SAFETY: it changes no memory. Bytes that the file has keep their values.
    let answer = unsafe { libc::fallocate64(descriptor, 0, offset, bytes as i64) };
    let code = (answer != 0).then(std::io::Error::last_os_error).and_then(|it| it.raw_os_error());
    // Any other failure: the file system does not allocate (NFS, old ext3), as before.
    !matches!(code, Some(libc::ENOSPC | libc::EDQUOT))
}

/// As `munmap(2)`, for SQLite.
pub(super) unsafe extern "C" fn unmap(start: *mut c_void, bytes: usize) -> c_int {
    let mut all = mappings();
    cut(&mut all, &range_of(start, bytes));
    // SAFETY: SQLite's own call, unchanged.
    unsafe { libc::munmap(start, bytes) }
}

/// As `mremap(2)` without a wanted address, for SQLite.
#[cfg(target_os = "linux")]
pub(super) unsafe extern "C" fn remap(
    start: *mut c_void,
    bytes: usize,
    new_bytes: usize,
    flags: c_int,
) -> *mut c_void {
    let mut all = mappings();
    // SAFETY: SQLite's own call, unchanged.
    let mapped = unsafe { libc::mremap(start, bytes, new_bytes, flags) };
    if mapped != libc::MAP_FAILED {
        let protection = cut(&mut all, &range_of(start, bytes));
        all.push(Mapping { addresses: range_of(mapped, new_bytes), protection });
    }
    mapped
}

thread_local! {
    /// Guards that the forking thread holds during the fork.
    static HELD: RefCell<Option<MutexGuard<'static, Vec<Mapping>>>> = const { RefCell::new(None) };
}

/// Keeps the mappings from changing while this thread forks.
pub(super) fn hold_for_fork() {
    let all = mappings();
    let _ = HELD.try_with(|held| *held.borrow_mut() = Some(all));
}

pub(super) fn let_go_after_fork() {
    let _ = HELD.try_with(|held| held.borrow_mut().take());
}

/// Replaces each mapping by empty memory, in a child, and forgets them all.
pub(super) fn empty_in_child() {
    let Ok(Some(mut all)) = HELD.try_with(|held| held.borrow_mut().take()) else { return };
    for Mapping { addresses, protection } in all.drain(..) {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED;
        let start = ptr::with_exposed_provenance_mut(addresses.start);
        // SAFETY: SQLite mapped a file there. Connections that the child inherits, and must not
        // use, find memory of the same size and rights.
        unsafe { libc::mmap(start, addresses.len(), protection, flags, -1, 0) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ranges(all: &[Mapping]) -> Vec<Range<usize>> {
        all.iter().map(|it| it.addresses.clone()).collect()
    }

    #[test]
    fn mappings_are_cut() {
        let of = |addresses, protection| Mapping { addresses, protection };
        let mut all = vec![of(10..20, 1), of(30..40, 3)];
        assert_eq!(cut(&mut all, &(33..35)), 3);
        assert_eq!(ranges(&all), [10..20, 30..33, 35..40]);
        assert_eq!(cut(&mut all, &(5..12)), 1);
        assert_eq!(ranges(&all), [12..20, 30..33, 35..40]);
        cut(&mut all, &(20..30));
        assert_eq!(ranges(&all), [12..20, 30..33, 35..40]);
        cut(&mut all, &(0..100));
        assert!(all.is_empty());
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn holes_get_their_place_and_bytes_stay() {
        use std::io::{Read, Write};
        use std::os::fd::AsRawFd;
        use std::os::unix::fs::MetadataExt;

        let mut file = tempfile::tempfile().unwrap();
        file.write_all(b"kept").unwrap();
        file.set_len(1 << 20).unwrap();
        let holes = file.metadata().unwrap().blocks();
        assert!(allocate(file.as_raw_fd(), 0, 1 << 20));
        let blocks = file.metadata().unwrap().blocks();
        assert!(blocks * 512 >= 1 << 20 || blocks == holes, "{blocks} and {holes} before");
        let mut bytes = Vec::new();
        std::io::Seek::rewind(&mut file).unwrap();
        file.read_to_end(&mut bytes).unwrap();
        assert_eq!((bytes.len(), &bytes[..5]), (1 << 20, b"kept\0".as_slice()));
        // No file of a disk: nothing to allocate, and no reason to refuse.
        let null = std::fs::File::open("/dev/null").unwrap();
        assert!(allocate(null.as_raw_fd(), 0, 4096));
    }
}
