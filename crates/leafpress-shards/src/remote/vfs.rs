//! The VFS over a remote database: SQLite reads its pages, and writes nothing.
//!
//! Temporary files of sorts, and files that are attached, are the platform's.

use std::collections::VecDeque;
use std::sync::Arc;

use leafpress_vfs::{
    Access, FileKind, LockLevel, OpenFlags, Opened, PlatformVfs, SyncKind, Vfs, VfsError, VfsFile,
    VfsLayer, VfsResult, characteristics,
};

use super::pages::RemotePages;

/// Name of the database in its VFS.
pub const NAME: &str = "leafpress-remote.db";
/// Pages of which a connection remembers that it read them.
const RECENT_PAGES: usize = 4;

/// A file system with one more file.
pub struct RemoteVfs {
    below: PlatformVfs,
    pages: Arc<RemotePages>,
}

impl RemoteVfs {
    pub fn new(pages: Arc<RemotePages>) -> Self {
        Self { below: PlatformVfs::new(), pages }
    }
}

impl VfsLayer for RemoteVfs {
    fn below(&self) -> &dyn Vfs {
        &self.below
    }

    fn open(&self, path: Option<&str>, flags: OpenFlags) -> VfsResult<Opened> {
        if path != Some(NAME) || flags.kind() != FileKind::MainDb {
            return self.below.open(path, flags);
        }
        let file = RemoteFile { pages: Arc::clone(&self.pages), recent: VecDeque::new() };
        Ok(Opened { file: Box::new(file), flags: OpenFlags::READ_ONLY })
    }

    fn exists(&self, path: &str, access: Access) -> VfsResult<bool> {
        if path.starts_with(NAME) { Ok(false) } else { self.below.exists(path, access) }
    }

    fn full_path(&self, path: &str) -> VfsResult<String> {
        if path == NAME { Ok(path.to_owned()) } else { self.below.full_path(path) }
    }
}

struct RemoteFile {
    pages: Arc<RemotePages>,
    /// The last pages that this connection read.
    recent: VecDeque<u64>,
}

impl VfsFile for RemoteFile {
    fn read(&mut self, buffer: &mut [u8], offset: u64) -> VfsResult<usize> {
        // A thread of the parent may hold the locks for ever, and the connections to the store are the parent's.
        if !self.pages.process().is_current() {
            return Err(VfsError::IO_READ);
        }
        let page_bytes = self.pages.page_bytes();
        let end = (offset + buffer.len() as u64).min(self.pages.size());
        let mut at = offset;
        while at < end {
            let (index, within) = (at / page_bytes, at % page_bytes);
            let bytes = (page_bytes - within).min(end - at) as usize;
            let from = (at - offset) as usize;
            let into = &mut buffer[from..from + bytes];
            self.pages.read(index, within as usize, into, &self.recent).map_err(|error| {
                self.pages.keep_fault(error);
                VfsError::IO_READ
            })?;
            if self.recent.front() != Some(&index) {
                self.recent.truncate(RECENT_PAGES - 1);
                self.recent.push_front(index);
            }
            at += bytes as u64;
        }
        Ok(end.saturating_sub(offset) as usize)
    }

    fn write(&mut self, _bytes: &[u8], _offset: u64) -> VfsResult<()> {
        Err(VfsError::READ_ONLY)
    }

    fn truncate(&mut self, _size: u64) -> VfsResult<()> {
        Err(VfsError::READ_ONLY)
    }

    fn sync(&mut self, _kind: SyncKind) -> VfsResult<()> {
        Ok(())
    }

    fn size(&mut self) -> VfsResult<u64> {
        Ok(self.pages.size())
    }

    fn lock(&mut self, _level: LockLevel) -> VfsResult<()> {
        Ok(())
    }

    fn unlock(&mut self, _level: LockLevel) -> VfsResult<()> {
        Ok(())
    }

    fn is_reserved(&mut self) -> VfsResult<bool> {
        Ok(false)
    }

    /// The object does not change, so SQLite neither locks nor looks for a journal.
    fn device_characteristics(&self) -> i32 {
        characteristics::IMMUTABLE
    }
}
