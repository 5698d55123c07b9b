//! Errors of the crate below as errors of this one. The words and the kinds are the same.
//!
//! Must never: lose a part of such an error.

use crate::error::{Error, ErrorKind};
use crate::vfs;

impl From<vfs::Error> for Error {
    fn from(error: vfs::Error) -> Self {
        let (kind, on_disk, to_do) = error.into_parts();
        let kind = match kind {
            vfs::ErrorKind::Destination { path, reason, .. } => {
                ErrorKind::Destination { path, reason }
            }
            vfs::ErrorKind::Sqlite { action, source, .. } => ErrorKind::Sqlite { action, source },
            vfs::ErrorKind::Forked { thing, .. } => ErrorKind::Forked { thing },
            vfs::ErrorKind::NotFound { what, name, reason, .. } => {
                ErrorKind::NotFound { what, name, reason, source: None }
            }
            vfs::ErrorKind::Unsupported(message) => ErrorKind::Unsupported(message),
            other => ErrorKind::Misuse(other.to_string()),
        };
        let mut error = Self::from(kind);
        if let Some(state) = on_disk {
            error = error.on_disk(state);
        }
        if let Some(advice) = to_do {
            error = error.to_do(advice);
        }
        error
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_of_the_crate_below_keeps_its_kind_and_its_words() {
        let code = rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_BUSY);
        let source = rusqlite::Error::SqliteFailure(code, Some("is locked".to_owned()));
        for (below, is_same) in [
            (
                vfs::ErrorKind::Misuse("no".to_owned()).into(),
                (|kind| matches!(kind, ErrorKind::Misuse(_))) as fn(&ErrorKind) -> bool,
            ),
            (vfs::Error::destination("a.db", "is open"), |kind| {
                matches!(kind, ErrorKind::Destination { .. })
            }),
            (vfs::Error::sqlite("try", source), |kind| {
                matches!(kind, ErrorKind::Sqlite { action: "try", .. })
            }),
            (vfs::Error::forked("queue"), |kind| {
                matches!(kind, ErrorKind::Forked { thing: "queue" })
            }),
        ] {
            let words = below.to_string();
            let error = Error::from(below);
            assert!(is_same(error.kind()), "{error:?}");
            assert_eq!(error.to_string(), words);
        }
        let refused = vfs::register("", vfs::PlatformVfs::new()).unwrap_err();
        let (words, error) = (refused.to_string(), Error::from(refused));
        assert_eq!(error.to_string(), words);
        let simulated = "no-such-disk".parse::<vfs::DiskModel>().unwrap_err();
        let (words, error) = (simulated.to_string(), Error::from(simulated));
        assert!(error.advice().is_some());
        assert_eq!(error.to_string(), words, "with its advice");
    }
}
