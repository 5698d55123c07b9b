//! The doors of [`super`] where there are no atomic writes and no stamps to rely on.
#![expect(clippy::unused_self, clippy::unnecessary_wraps, reason = "as on Linux")]

use std::io;
use std::path::Path;
use std::sync::Arc;

use crate::atomic::{AtomicFile, FileStamp, NoAtomicWrites, Stamp};

pub(super) fn open(
    _path: &Path,
    _is_assuming: bool,
) -> Result<Arc<dyn AtomicFile>, NoAtomicWrites> {
    Err(NoAtomicWrites::NotOnThisSystem)
}

/// No stamp is certain.
#[derive(Debug)]
pub(super) struct Stamps;

impl Stamps {
    pub fn new() -> Self {
        Self
    }

    pub fn of_folder(&self, _folder: &Path) -> io::Result<Option<Stamp>> {
        Ok(None)
    }

    pub fn of_file(&self, file: &Path) -> io::Result<FileStamp> {
        super::stamp_without_times(file)
    }
}
