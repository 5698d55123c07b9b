//! Paths of files: the folder that one is in, and the files beside a database.

use std::path::{Path, PathBuf};

/// The folder that a file is in, also for a bare name.
pub fn folder_of(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    }
}

/// The path of a file that stands beside another one, named after it: `-wal` of a database and the like.
pub fn companion_of(database: &Path, suffix: &str) -> PathBuf {
    let mut name = database.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}
