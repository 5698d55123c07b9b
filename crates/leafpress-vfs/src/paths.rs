//! Paths of files: the folder that one is in.

use std::path::Path;

/// The folder that a file is in, also for a bare name.
pub fn folder_of(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    }
}
