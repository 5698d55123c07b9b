//! Another copy of SQLite in this process, on systems without locks that belong to
//! descriptors.
//!
//! There the two copies never exclude each other, and nothing here can change that. So a database is
//! not written while this process has it open by a descriptor that is not ours.
//!
//! Must never: open the database, since closing it again drops locks.

use std::path::Path;

use super::{file_locks, foreign, table};
use crate::error::{Error, Result};

/// Refuses to write `database` if the system has no locks that belong to descriptors and
/// this process has the file open elsewhere.
pub(super) fn refuse(database: &Path) -> Result<()> {
    if !file_locks::none_here() {
        return Ok(());
    }
    let own = table::all_numbers();
    let Some(number) = foreign::descriptor_of(database, &own) else { return Ok(()) };
    let reason = format!(
        "another copy of SQLite, or another part of this process, has it open (descriptor \
         {number}), and this system has no locks that would keep the two apart: rows would be lost"
    );
    Err(Error::destination(database, reason).on_disk("nothing was changed").advise(
        "close it there, or write from a process of its own; if the connection is of this \
             program's own rusqlite, call leafpress::vfs::locks::install() before it is opened",
    ))
}
