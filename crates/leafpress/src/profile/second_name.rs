//! Databases that another process has open under a second name.
//!
//! SQLite keeps the log or the journal beside the name by which it opened the file. So a process that
//! opens it by another name does not see that log, and overwrites pages that the log is about. A file
//! gets a second name by a hard link, or by a mount of the file alone (`docker run -v a.db:/b.db`).
//!
//! Must never: open the database.

use std::path::Path;

use crate::error::Result;

/// Refuses a database that a process has open under another name, as far as the system tells.
///
/// # Errors
/// [`ErrorKind::Destination`](crate::ErrorKind::Destination); nothing was changed.
#[cfg(unix)]
pub(crate) fn refuse_second_name(path: &Path) -> Result<()> {
    use crate::error::Error;
    use crate::neighbours::{OpenFile, Which, ask};
    use crate::vfs::locks::descriptors_unused_by_sqlite;
    use crate::words::path_text;

    let Some(kind) = second_name_of(path) else { return Ok(()) };
    let Ok(found) = ask(path, false) else { return Ok(()) };
    // A file whose header was read may still be open under the name by which that was done.
    let unused = descriptors_unused_by_sqlite();
    for process in &found.processes {
        let is_other = |it: &&OpenFile| {
            it.which == Which::Database
                && it.path != found.database
                && !(process.is_this_process && unused.contains(&it.descriptor))
        };
        if let Some(other) = process.open.iter().find(is_other) {
            let reason = format!(
                "is one of several names of a database ({kind}), and process {} ({}) has it open \
                 as {}: each name has a log or a journal of its own",
                process.pid,
                process.name,
                path_text(&other.path)
            );
            let error = Error::destination(path, reason).on_disk("the database is as it was");
            return Err(error.to_do("open it by the same name everywhere"));
        }
    }
    let path = path_text(path);
    tracing::warn!(%path, %kind, "the database has several names: use one of them only");
    Ok(())
}

#[cfg(not(unix))]
pub(crate) fn refuse_second_name(_path: &Path) -> Result<()> {
    Ok(())
}

/// The way in which a file has a second name; `None` if it has one name.
#[cfg(unix)]
fn second_name_of(path: &Path) -> Option<&'static str> {
    use std::os::unix::fs::MetadataExt as _;

    let found = std::fs::metadata(path).ok().filter(std::fs::Metadata::is_file)?;
    if found.nlink() > 1 {
        return Some("hard links");
    }
    is_mounted_alone(path).then_some("a mount of the file alone")
}

#[cfg(target_os = "linux")]
fn is_mounted_alone(path: &Path) -> bool {
    use rustix::fs::{AtFlags, CWD, StatxAttributes, StatxFlags, statx};

    let found = statx(CWD, path, AtFlags::empty(), StatxFlags::TYPE);
    found.is_ok_and(|it| it.stx_attributes.contains(StatxAttributes::MOUNT_ROOT))
}

#[cfg(all(unix, not(target_os = "linux")))]
fn is_mounted_alone(_path: &Path) -> bool {
    false
}
