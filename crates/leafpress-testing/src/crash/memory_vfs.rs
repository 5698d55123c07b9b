//! A folder in memory, which serves one crash image after another to
//! unmodified SQLite.
//!
//! Locks and shared memory work between the connections of this process, as
//! they must for WAL. Sector size and device characteristics are those of
//! SQLite's Unix VFS, so that SQLite recovers just as it would on a disk.
//!
//! Must never: keep anything of the image before. Syncs do nothing, as a
//! [`Recorder`](super::Recorder) above says what they would have done.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use leafpress::vfs::{
    Access, LockLevel, OpenFlags, Opened, ShmLock, ShmRegion, SyncKind, Vfs, VfsError, VfsFile,
    VfsResult, characteristics,
};

use super::image::Image;
use super::log::Snapshot;

/// The folder that all paths are in.
pub const MEMORY_FOLDER: &str = "/memory";

/// Files in memory; names without a folder.
#[derive(Debug, Default)]
pub struct MemoryVfs {
    files: Mutex<HashMap<String, Arc<Mutex<Node>>>>,
}

/// One file, with its locks.
#[derive(Debug, Default)]
struct Node {
    bytes: Vec<u8>,
    shared: u32,
    /// The openings that hold more than `Shared`.
    reserved: Option<u64>,
    pending: Option<u64>,
    exclusive: Option<u64>,
    openings: u64,
    regions: Vec<ShmRegion>,
    shm_users: u32,
    /// Number of connections that hold each lock shared, or -1.
    shm_locks: [i32; 8],
}

impl MemoryVfs {
    /// An empty folder.
    pub fn new() -> Self {
        Self::default()
    }

    fn files(&self) -> MutexGuard<'_, HashMap<String, Arc<Mutex<Node>>>> {
        self.files.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes the folder hold an image and nothing else; the image gets the
    /// buffers of what was there, to be used again. No file may be open.
    pub fn put(&self, image: &mut Image) {
        let mut files = self.files();
        let mut old: Vec<Vec<u8>> =
            files.drain().map(|(_, node)| std::mem::take(&mut lock(&node).bytes)).collect();
        for (name, content) in image.files_mut() {
            let bytes = std::mem::replace(content, old.pop().unwrap_or_default());
            let node = Node { bytes, ..Node::default() };
            files.insert((**name).to_owned(), Arc::new(Mutex::new(node)));
        }
    }

    /// Returns true if there is such a file, be it empty.
    pub fn has(&self, name: &str) -> bool {
        self.files().contains_key(name)
    }

    /// A file, to be written beside the connections that have it open: no lock is asked
    /// for, and none is lost.
    pub(super) fn beside(&self, name: &str) -> Option<FileBeside> {
        self.files().get(name).map(|node| FileBeside(Arc::clone(node)))
    }

    /// Copy of the folder's files.
    pub fn snapshot(&self) -> Snapshot {
        let mut files: Vec<_> = self
            .files()
            .iter()
            .map(|(name, node)| (name.clone(), lock(node).bytes.clone()))
            .collect();
        files.sort();
        Snapshot { files }
    }
}

/// A file without locks, as a second descriptor of it would be.
#[derive(Debug)]
pub(super) struct FileBeside(Arc<Mutex<Node>>);

impl FileBeside {
    /// Writes bytes in their place.
    pub(super) fn write(&self, bytes: &[u8], offset: u64) {
        super::disk::write_at(&mut lock(&self.0).bytes, offset as usize, bytes);
    }
}

fn lock(node: &Mutex<Node>) -> MutexGuard<'_, Node> {
    node.lock().unwrap_or_else(PoisonError::into_inner)
}

fn name_of(path: &str) -> &str {
    path.rsplit_once('/').map_or(path, |(_, name)| name)
}

impl Vfs for MemoryVfs {
    fn open(&self, path: Option<&str>, flags: OpenFlags) -> VfsResult<Opened> {
        let is_temporary = flags.contains(OpenFlags::DELETE_ON_CLOSE);
        let node = match path {
            Some(path) if !is_temporary => {
                let mut files = self.files();
                match files.get(name_of(path)) {
                    Some(node) => Arc::clone(node),
                    None if flags.contains(OpenFlags::CREATE) => {
                        let node = Arc::<Mutex<Node>>::default();
                        files.insert(name_of(path).to_owned(), Arc::clone(&node));
                        node
                    }
                    None => return Err(VfsError::CANNOT_OPEN),
                }
            }
            _ => Arc::default(),
        };
        let opening = {
            let mut node = lock(&node);
            node.openings += 1;
            node.openings
        };
        let file = MemoryFile {
            node,
            opening,
            level: LockLevel::None,
            shm_shared: 0,
            shm_exclusive: 0,
            uses_shm: false,
        };
        Ok(Opened { file: Box::new(file), flags })
    }

    fn delete(&self, path: &str, _sync_folder: bool) -> VfsResult<()> {
        self.files().remove(name_of(path)).map(drop).ok_or(VfsError::IO_DELETE_NO_ENTRY)
    }

    /// As on Unix an empty file counts as none.
    fn exists(&self, path: &str, access: Access) -> VfsResult<bool> {
        let files = self.files();
        let node = files.get(name_of(path));
        Ok(node.is_some_and(|node| access != Access::Exists || !lock(node).bytes.is_empty()))
    }

    fn full_path(&self, path: &str) -> VfsResult<String> {
        Ok(format!("{MEMORY_FOLDER}/{}", name_of(path)))
    }
}

struct MemoryFile {
    node: Arc<Mutex<Node>>,
    opening: u64,
    level: LockLevel,
    /// Bits of the shared-memory locks that this opening holds.
    shm_shared: u32,
    shm_exclusive: u32,
    uses_shm: bool,
}

impl MemoryFile {
    fn is_others(&self, holder: Option<u64>) -> bool {
        holder.is_some_and(|holder| holder != self.opening)
    }

    fn give_back_shm_locks(&mut self) {
        let mut node = lock(&self.node);
        for slot in 0..node.shm_locks.len() {
            if self.shm_exclusive & (1 << slot) != 0 {
                node.shm_locks[slot] = 0;
            } else if self.shm_shared & (1 << slot) != 0 {
                node.shm_locks[slot] -= 1;
            }
        }
        self.shm_shared = 0;
        self.shm_exclusive = 0;
    }
}

impl VfsFile for MemoryFile {
    fn read(&mut self, buffer: &mut [u8], offset: u64) -> VfsResult<usize> {
        let node = lock(&self.node);
        let rest = node.bytes.get(offset as usize..).unwrap_or_default();
        let count = rest.len().min(buffer.len());
        buffer[..count].copy_from_slice(&rest[..count]);
        Ok(count)
    }

    fn write(&mut self, bytes: &[u8], offset: u64) -> VfsResult<()> {
        super::disk::write_at(&mut lock(&self.node).bytes, offset as usize, bytes);
        Ok(())
    }

    fn truncate(&mut self, size: u64) -> VfsResult<()> {
        lock(&self.node).bytes.resize(size as usize, 0);
        Ok(())
    }

    fn sync(&mut self, _kind: SyncKind) -> VfsResult<()> {
        Ok(())
    }

    fn size(&mut self) -> VfsResult<u64> {
        Ok(lock(&self.node).bytes.len() as u64)
    }

    fn lock(&mut self, level: LockLevel) -> VfsResult<()> {
        if level <= self.level {
            return Ok(());
        }
        let mut node = lock(&self.node);
        if self.level == LockLevel::None {
            if self.is_others(node.pending) || self.is_others(node.exclusive) {
                return Err(VfsError::BUSY);
            }
            node.shared += 1;
            self.level = LockLevel::Shared;
        }
        if level >= LockLevel::Reserved {
            if [node.reserved, node.pending, node.exclusive].map(|by| self.is_others(by))
                != [false; 3]
            {
                return Err(VfsError::BUSY);
            }
            if level == LockLevel::Reserved {
                node.reserved = Some(self.opening);
            } else {
                node.pending = Some(self.opening);
                self.level = LockLevel::Pending;
                if node.shared > 1 {
                    return Err(VfsError::BUSY);
                }
                node.exclusive = Some(self.opening);
            }
            self.level = level;
        }
        Ok(())
    }

    fn unlock(&mut self, level: LockLevel) -> VfsResult<()> {
        if level >= self.level {
            return Ok(());
        }
        let mut node = lock(&self.node);
        let node = &mut *node;
        for holder in [&mut node.reserved, &mut node.pending, &mut node.exclusive] {
            if *holder == Some(self.opening) {
                *holder = None;
            }
        }
        if level == LockLevel::None {
            node.shared -= 1;
        }
        self.level = level;
        Ok(())
    }

    fn is_reserved(&mut self) -> VfsResult<bool> {
        let node = lock(&self.node);
        Ok(node.reserved.is_some() || node.pending.is_some() || node.exclusive.is_some())
    }

    fn device_characteristics(&self) -> i32 {
        characteristics::POWERSAFE_OVERWRITE
    }

    fn has_shared_memory(&self) -> bool {
        true
    }

    fn shm_map(&mut self, region: u32, bytes: usize, extend: bool) -> VfsResult<Option<ShmRegion>> {
        let mut node = lock(&self.node);
        if !std::mem::replace(&mut self.uses_shm, true) {
            node.shm_users += 1;
        }
        while extend && node.regions.len() <= region as usize {
            node.regions.push(ShmRegion::owned(bytes));
        }
        Ok(node.regions.get(region as usize).cloned())
    }

    fn shm_lock(&mut self, first: u32, count: u32, change: ShmLock) -> VfsResult<()> {
        let slots = first as usize..(first + count) as usize;
        let bits = ((1_u32 << count) - 1) << first;
        let mut node = lock(&self.node);
        let held = &mut node.shm_locks[slots];
        match change {
            ShmLock::LockShared if held.iter().any(|held| *held < 0) => return Err(VfsError::BUSY),
            ShmLock::LockShared if self.shm_shared & bits == 0 => {
                held[0] += 1;
                self.shm_shared |= bits;
            }
            ShmLock::LockExclusive if held.iter().any(|held| *held != 0) => {
                return Err(VfsError::BUSY);
            }
            ShmLock::LockExclusive => {
                held.fill(-1);
                self.shm_exclusive |= bits;
            }
            ShmLock::UnlockShared if self.shm_shared & bits != 0 => {
                held[0] -= 1;
                self.shm_shared &= !bits;
            }
            ShmLock::UnlockExclusive if self.shm_exclusive & bits != 0 => {
                held.fill(0);
                self.shm_exclusive &= !bits;
            }
            _ => {}
        }
        Ok(())
    }

    /// The last connection frees the memory, also without `delete`: the next connection
    /// makes it anew from the WAL, as the first opener does on Unix.
    fn shm_unmap(&mut self, _delete: bool) -> VfsResult<()> {
        self.give_back_shm_locks();
        let mut node = lock(&self.node);
        if std::mem::take(&mut self.uses_shm) {
            node.shm_users -= 1;
            if node.shm_users == 0 {
                node.regions.clear();
            }
        }
        Ok(())
    }
}

impl Drop for MemoryFile {
    fn drop(&mut self) {
        let gave_back = self.unlock(LockLevel::None).and(self.shm_unmap(false));
        debug_assert_eq!(gave_back, Ok(()));
    }
}
