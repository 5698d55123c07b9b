//! The database and the files that SQLite and Leafpress keep beside it, as the folder shows them.
//!
//! Must never: open one of them; `stat` is enough.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde::Serialize;

use crate::error::{Error, ErrorKind, Result};
use crate::paths::{companion_of, folder_of};
use crate::times::UnixTime;
use crate::vfs::FileIdentity;

/// One of the files of a database.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Which {
    /// The database itself.
    Database,
    /// The write-ahead log, `-wal`.
    Log,
    /// The memory of the log's index, `-shm`.
    SharedMemory,
    /// The rollback journal, `-journal`.
    Journal,
    /// The file by which writers of Leafpress share the database, `-shared`.
    Sharing,
}

impl Which {
    pub(super) const ALL: [Self; 5] =
        [Self::Database, Self::Log, Self::SharedMemory, Self::Journal, Self::Sharing];

    /// Ending of the file's name after the database's name.
    pub fn suffix(self) -> &'static str {
        match self {
            Self::Database => "",
            Self::Log => "-wal",
            Self::SharedMemory => "-shm",
            Self::Journal => "-journal",
            Self::Sharing => "-shared",
        }
    }
}

/// A file of the database, as it stands in the folder.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct FileFacts {
    /// Kind of the file.
    pub which: Which,
    /// Its path.
    #[serde(serialize_with = "crate::words::path_as_text")]
    pub path: PathBuf,
    /// Its size.
    pub bytes: u64,
    /// Its permissions, as in `chmod` (Unix).
    pub mode: Option<u32>,
    /// The number of the user who owns it (Unix).
    pub owner: Option<u32>,
    /// The number of its group (Unix).
    pub group: Option<u32>,
    /// Number of its names (Unix); more than one is a hard link.
    pub names: Option<u64>,
    /// Time of the last write to it.
    #[serde(rename = "changed_at_ms")]
    pub changed_at: Option<UnixTime>,
    #[serde(skip)]
    pub(super) identity: Option<FileIdentity>,
}

/// The paths of a database's files: its own with links resolved, as SQLite does it.
///
/// The database itself need not be there, its folder must be.
pub(super) fn resolve(path: &Path) -> Result<PathBuf> {
    let cannot = |source| Error::io("look at", path, source);
    match dunce::canonicalize(path) {
        Ok(found) if found.is_dir() => {
            let reason = "is a directory, not a database".to_owned();
            Err(Error::from(ErrorKind::NotADatabase { path: path.to_owned(), reason }))
        }
        Ok(found) => Ok(found),
        Err(source) if source.kind() == io::ErrorKind::NotFound => {
            let name = path.file_name().ok_or_else(|| Error::misuse("no database was named"))?;
            Ok(dunce::canonicalize(folder_of(path)).map_err(cannot)?.join(name))
        }
        Err(source) => Err(cannot(source)),
    }
}

/// The path of one of a database's files.
pub(super) fn path_of(database: &Path, which: Which) -> PathBuf {
    companion_of(database, which.suffix())
}

/// Facts about those of the four files that are there.
pub(super) fn look(database: &Path) -> Vec<FileFacts> {
    Which::ALL.into_iter().filter_map(|which| facts(which, path_of(database, which))).collect()
}

fn facts(which: Which, path: PathBuf) -> Option<FileFacts> {
    let found = fs::metadata(&path).ok()?;
    let changed_at = found.modified().ok().map(UnixTime::from);
    let bytes = found.len();
    #[cfg(unix)]
    {
        use std::os::unix::fs::MetadataExt as _;
        Some(FileFacts {
            which,
            path,
            bytes,
            mode: Some(found.mode() & 0o7777),
            owner: Some(found.uid()),
            group: Some(found.gid()),
            names: Some(found.nlink()),
            changed_at,
            identity: Some(FileIdentity::from(&found)),
        })
    }
    #[cfg(not(unix))]
    Some(FileFacts {
        which,
        path,
        bytes,
        mode: None,
        owner: None,
        group: None,
        names: None,
        changed_at,
        identity: None,
    })
}
