//! Paths of files: the folder that one is in, the files beside a database, and the longest path.

use std::path::Path;

pub use leafpress_vfs::paths::{companion_of, folder_of};

/// Bytes of the longest path of a database on Unix: SQLite takes 512 with `-journal` behind it
/// (`MAX_PATHNAME` in its `os_unix.c`).
const SQLITE_PATH_BYTES_MAX: usize = 504;

/// The reason why SQLite cannot open a database of this path; `None` if its length is none.
pub fn why_too_long(path: &Path) -> Option<String> {
    let bytes = std::path::absolute(path).ok()?.as_os_str().len();
    (cfg!(unix) && bytes > SQLITE_PATH_BYTES_MAX).then(|| {
        format!(
            "the path is too long: it has {bytes} bytes from the root on, and SQLite opens none of \
             over {SQLITE_PATH_BYTES_MAX}"
        )
    })
}
