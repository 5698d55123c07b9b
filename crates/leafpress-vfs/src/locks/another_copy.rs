//! Another copy of SQLite in this process, on systems without locks that belong to
//! descriptors.
//!
//! There the two never exclude each other, and nothing here can change that. So a database
//! that this process has open by a descriptor which is not ours is not written.
//!
//! Must never: open the database, since closing it again drops locks.

use std::os::fd::RawFd;
use std::path::Path;

use super::{file_locks, table};
use crate::FileIdentity;
use crate::c_api::system_calls::with_descriptor;
use crate::error::{Error, Result};

/// Largest number of a descriptor that is looked at, where the system does not list them.
const NUMBERS_MAX: RawFd = 4096;

/// Refuses to write `database` if the system has no locks that belong to descriptors and
/// this process has the file open elsewhere.
pub(super) fn refuse(database: &Path) -> Result<()> {
    if !file_locks::none_here() {
        return Ok(());
    }
    let Some(number) = foreign_descriptor(database) else { return Ok(()) };
    let reason = format!(
        "another copy of SQLite, or another part of this process, has it open (descriptor \
         {number}), and this system has no locks that would keep the two apart: rows would be lost"
    );
    Err(Error::destination(database, reason).on_disk("nothing was changed").advise(
        "close it there, or write from a process of its own; if the connection is of this \
             program's own rusqlite, call leafpress::vfs::locks::install() before it is opened",
    ))
}

/// The number of a descriptor of the file that this module did not give to SQLite.
fn foreign_descriptor(database: &Path) -> Option<RawFd> {
    let wanted = FileIdentity::from(&rustix::fs::stat(database).ok()?);
    let own = table::all_numbers();
    let is_it = |number: &RawFd| {
        let facts = with_descriptor(*number, |it| rustix::fs::fstat(it).ok());
        !own.contains(number) && facts.is_some_and(|it| FileIdentity::from(&it) == wanted)
    };
    numbers_in_use().into_iter().find(is_it)
}

/// Numbers that may be open descriptors of this process.
fn numbers_in_use() -> Vec<RawFd> {
    let listed = std::fs::read_dir("/dev/fd").map(|entries| {
        let names = entries.flatten().map(|entry| entry.file_name());
        names.filter_map(|name| name.to_str()?.parse().ok()).collect::<Vec<RawFd>>()
    });
    listed.ok().filter(|numbers| numbers.len() > 3).unwrap_or_else(|| (0..NUMBERS_MAX).collect())
}
