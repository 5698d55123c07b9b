//! Local files of shards: in a temporary folder, or at a path that stays.

use std::path::{Path, PathBuf};
#[cfg(feature = "object-store")]
use std::sync::Arc;

use leafpress::{Error, Result};
use tempfile::TempDir;

#[cfg(feature = "object-store")]
use super::ahead::Ahead;

/// A local file or folder, with the temporary folder around it, if there is one.
#[derive(Debug)]
pub struct Local {
    path: PathBuf,
    /// The pieces of the file that go up while it is made.
    #[cfg(feature = "object-store")]
    ahead: Option<Arc<Ahead>>,
    _around: Option<TempDir>,
}

impl Local {
    /// A path that stays.
    pub fn at(path: PathBuf) -> Self {
        Self {
            path,
            #[cfg(feature = "object-store")]
            ahead: None,
            _around: None,
        }
    }

    /// A file of this name in a temporary folder, or the folder itself.
    ///
    /// # Errors
    /// The system's.
    #[expect(clippy::disallowed_methods, reason = "no database is beside it; its rights are 0700")]
    pub fn temporary(name: Option<&str>) -> Result<Self> {
        let around = tempfile::Builder::new().prefix("leafpress-shards-").tempdir();
        let around = around.map_err(|source| {
            Error::io("make a folder in", &std::env::temp_dir(), source)
                .to_do("name a folder with space for the parts by TMPDIR")
        })?;
        let path = name.map_or_else(|| around.path().to_owned(), |name| around.path().join(name));
        Ok(Self { _around: Some(around), ..Self::at(path) })
    }

    /// The file, of which pieces go up while it is made.
    #[cfg(feature = "object-store")]
    pub fn sent_ahead(mut self, ahead: Option<Ahead>) -> Self {
        self.ahead = ahead.map(Arc::new);
        self
    }

    /// The pieces of the file that go up while it is made.
    #[cfg(feature = "object-store")]
    pub fn ahead(&self) -> Option<&Arc<Ahead>> {
        self.ahead.as_ref()
    }

    /// The path.
    pub fn path(&self) -> &Path {
        &self.path
    }
}
