//! Paths of files: the folder that one is in.

use std::path::{Path, PathBuf};

/// The folder that a file is in, also for a bare name.
pub fn folder_of(path: &Path) -> PathBuf {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent.to_owned(),
        _ => PathBuf::from("."),
    }
}
