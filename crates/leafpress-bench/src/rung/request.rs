//! Request to a rung's process, and the process itself: the command again, started as
//!
//! ```text
//! leafpress bench --rung '{"kind":{"ladder":{…}},"database":"…"}'
//! ```
//!
//! That is this executable, unless [`start_by`] names another program.
//!
//! Below the families: one of them starts a second process of its own. So the kind of a rung is
//! whatever type it is written from.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use leafpress::vfs;
use leafpress::vfs::paths::folder_of;
use serde::{Deserialize, Serialize};

use super::described::Given;
use crate::error::{Error, Result};

/// Hidden flag of `leafpress bench` that makes it a rung's process.
pub const RUNG_FLAG: &str = "--rung";

/// Program and first arguments by which the command is started again.
static STARTED_BY: OnceLock<(PathBuf, Vec<OsString>)> = OnceLock::new();

/// Names the program, and its first arguments, that start the command again for each rung. Without
/// it that is the executable of this process. Only the first call counts.
///
/// An interpreter that runs the command needs this: `start_by("python3", ["-m", "leafpress"])`.
pub fn start_by<A: Into<OsString>>(
    program: impl Into<PathBuf>,
    first_arguments: impl IntoIterator<Item = A>,
) {
    let first_arguments = first_arguments.into_iter().map(Into::into).collect();
    let _ = STARTED_BY.set((program.into(), first_arguments));
}

/// The command, ready for its arguments.
pub(crate) fn command_again() -> Result<Command> {
    if let Some((program, first_arguments)) = STARTED_BY.get() {
        let mut command = Command::new(program);
        command.args(first_arguments);
        return Ok(command);
    }
    let program = std::env::current_exe().map_err(Error::io("find", Path::new("this program")))?;
    Ok(Command::new(program))
}

/// Request to a rung's process.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Request<K> {
    /// Work, and its tool.
    pub(crate) kind: K,
    /// Database to make; must not exist, except where the work says so.
    pub(crate) database: PathBuf,
    /// File that is loaded, where one is.
    #[serde(default)]
    pub(crate) input: PathBuf,
    /// Simulated disk, by its name; without it the real one is used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) simulate: Option<String>,
}

impl<K> Request<K> {
    /// Request of a rung that needs nothing but its database, on the disk that this process uses.
    pub(crate) fn new(kind: K, database: &Path) -> Self {
        let simulate = vfs::simulation().map(|played| played.model().name.to_owned());
        Self { kind, database: database.to_owned(), input: PathBuf::new(), simulate }
    }

    /// Input of the rung.
    pub(crate) fn given(&self) -> Given<'_> {
        Given { database: &self.database, input: &self.input }
    }
}

impl<K: Serialize> Request<K> {
    /// Command of the process; `name` is the rung's, for errors.
    pub(crate) fn command(&self, name: &str) -> Result<Command> {
        let text =
            serde_json::to_string(self).map_err(|error| Error::rung(name, error.to_string()))?;
        let mut command = command_again()?;
        // SQLite's sorter writes to the disk that is measured, as ours does.
        let folder = folder_of(&self.database);
        command.args(["bench", RUNG_FLAG, &text]).env("SQLITE_TMPDIR", folder);
        Ok(command)
    }
}
