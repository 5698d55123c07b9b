//! Descriptors of this process that are not in the table: another copy of SQLite has opened them, or
//! another part of the program. Locks of the process on a file come from one of its descriptors,
//! which is open as long as they are held.
//!
//! Must never: open the files, since closing them again drops locks, or wait for the server of one.

use std::collections::HashSet;
use std::os::fd::RawFd;
use std::path::Path;

use crate::FileIdentity;
use crate::c_api::system_calls::with_descriptor;

/// Largest number of a descriptor that is looked at, where the system does not list them.
const NUMBERS_MAX: RawFd = 4096;

/// The number of a descriptor of the file that is none of `own`.
pub(super) fn descriptor_of(path: &Path, own: &[RawFd]) -> Option<RawFd> {
    let wanted = FileIdentity::from(&rustix::fs::stat(path).ok()?);
    let is_it = |number: &RawFd| !own.contains(number) && identity_of(*number) == Some(wanted);
    let numbers = listed_numbers().unwrap_or_else(|| (0..NUMBERS_MAX).collect());
    numbers.into_iter().find(is_it)
}

/// All files of which a descriptor is open here that is none of `own`; `None` if the system does not
/// list them, or not now.
pub(super) fn identities(own: &[RawFd]) -> Option<HashSet<FileIdentity>> {
    let own: HashSet<RawFd> = own.iter().copied().collect();
    let foreign = listed_numbers()?.into_iter().filter(|number| !own.contains(number));
    Some(foreign.filter_map(identity_of).collect())
}

fn identity_of(number: RawFd) -> Option<FileIdentity> {
    with_descriptor(number, |it| FileIdentity::of_open_file(it).ok())
}

/// Numbers of all open descriptors of this process. macOS may list the first three alone.
fn listed_numbers() -> Option<Vec<RawFd>> {
    let mut numbers = Vec::new();
    for entry in std::fs::read_dir("/dev/fd").ok()? {
        numbers.push(entry.ok()?.file_name().to_str()?.parse().ok()?);
    }
    (numbers.len() > 3).then_some(numbers)
}
