//! A whole file system in memory: files, locks and shared memory, written from the
//! documentation of the traits alone.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard};

use leafpress_vfs::{
    Access, LockLevel, OpenFlags, Opened, ShmLock, ShmRegion, SyncKind, Vfs, VfsError, VfsFile,
    VfsResult, characteristics,
};

#[derive(Default)]
pub struct MemoryVfs {
    files: Mutex<HashMap<String, Arc<Mutex<Node>>>>,
    has_no_shared_memory: bool,
}

#[derive(Default)]
struct Node {
    bytes: Vec<u8>,
    /// What each opening holds, by its number.
    levels: HashMap<u64, LockLevel>,
    regions: Vec<ShmRegion>,
    /// Who holds each of the eight locks, and whether alone.
    shm_locks: [HashMap<u64, bool>; 8],
    openings: u64,
}

impl MemoryVfs {
    pub fn without_shared_memory() -> Self {
        Self { has_no_shared_memory: true, ..Self::default() }
    }

    /// The bytes of a file as they are now.
    pub fn bytes(&self, path: &str) -> Vec<u8> {
        self.files.lock().unwrap()[path].lock().unwrap().bytes.clone()
    }

    pub fn names(&self) -> Vec<String> {
        let mut names: Vec<_> = self.files.lock().unwrap().keys().cloned().collect();
        names.sort();
        names
    }
}

impl Vfs for MemoryVfs {
    fn open(&self, path: Option<&str>, flags: OpenFlags) -> VfsResult<Opened> {
        let node = match path {
            None => Arc::default(),
            Some(path) => {
                let mut files = self.files.lock().unwrap();
                if !flags.contains(OpenFlags::CREATE) && !files.contains_key(path) {
                    return Err(VfsError::CANNOT_OPEN);
                }
                Arc::clone(files.entry(path.to_owned()).or_default())
            }
        };
        let number = {
            let mut node = node.lock().unwrap();
            node.openings += 1;
            node.openings
        };
        let has_shared_memory = !self.has_no_shared_memory;
        Ok(Opened { file: Box::new(MemoryFile { node, number, has_shared_memory }), flags })
    }

    fn delete(&self, path: &str, _sync_folder: bool) -> VfsResult<()> {
        let removed = self.files.lock().unwrap().remove(path);
        removed.map(drop).ok_or(VfsError::IO_DELETE_NO_ENTRY)
    }

    fn exists(&self, path: &str, _access: Access) -> VfsResult<bool> {
        Ok(self.files.lock().unwrap().contains_key(path))
    }

    fn full_path(&self, path: &str) -> VfsResult<String> {
        Ok(format!("/{}", path.trim_start_matches('/')))
    }
}

struct MemoryFile {
    node: Arc<Mutex<Node>>,
    number: u64,
    has_shared_memory: bool,
}

impl MemoryFile {
    fn node(&self) -> MutexGuard<'_, Node> {
        self.node.lock().unwrap()
    }
}

impl Drop for MemoryFile {
    fn drop(&mut self) {
        let mut node = self.node();
        node.levels.remove(&self.number);
        for locks in &mut node.shm_locks {
            locks.remove(&self.number);
        }
    }
}

impl VfsFile for MemoryFile {
    fn read(&mut self, buffer: &mut [u8], offset: u64) -> VfsResult<usize> {
        let node = self.node();
        let rest = node.bytes.get(offset as usize..).unwrap_or_default();
        let count = rest.len().min(buffer.len());
        buffer[..count].copy_from_slice(&rest[..count]);
        Ok(count)
    }

    fn write(&mut self, bytes: &[u8], offset: u64) -> VfsResult<()> {
        let (start, mut node) = (offset as usize, self.node());
        let end = start + bytes.len();
        if node.bytes.len() < end {
            node.bytes.resize(end, 0);
        }
        node.bytes[start..end].copy_from_slice(bytes);
        Ok(())
    }

    fn truncate(&mut self, size: u64) -> VfsResult<()> {
        self.node().bytes.resize(size as usize, 0);
        Ok(())
    }

    fn sync(&mut self, _kind: SyncKind) -> VfsResult<()> {
        Ok(())
    }

    fn size(&mut self) -> VfsResult<u64> {
        Ok(self.node().bytes.len() as u64)
    }

    fn lock(&mut self, level: LockLevel) -> VfsResult<()> {
        let mut node = self.node();
        let others = node.levels.iter().filter(|(number, _)| **number != self.number);
        let highest = others.map(|(_, level)| *level).max().unwrap_or_default();
        let (allowed, left) = match level {
            LockLevel::None => (true, None),
            LockLevel::Shared => (highest < LockLevel::Pending, None),
            LockLevel::Reserved => (highest < LockLevel::Reserved, None),
            LockLevel::Pending | LockLevel::Exclusive => {
                let may_wait = highest < LockLevel::Reserved;
                (highest == LockLevel::None, may_wait.then_some(LockLevel::Pending))
            }
        };
        if allowed {
            node.levels.insert(self.number, level);
            return Ok(());
        }
        if let Some(level) = left {
            node.levels.insert(self.number, level);
        }
        Err(VfsError::BUSY)
    }

    fn unlock(&mut self, level: LockLevel) -> VfsResult<()> {
        let mut node = self.node();
        let held = node.levels.entry(self.number).or_default();
        *held = level.min(*held);
        Ok(())
    }

    fn is_reserved(&mut self) -> VfsResult<bool> {
        Ok(self.node().levels.values().any(|level| *level >= LockLevel::Reserved))
    }

    fn device_characteristics(&self) -> i32 {
        characteristics::POWERSAFE_OVERWRITE
    }

    fn has_shared_memory(&self) -> bool {
        self.has_shared_memory
    }

    fn shm_map(&mut self, region: u32, bytes: usize, extend: bool) -> VfsResult<Option<ShmRegion>> {
        let (index, mut node) = (region as usize, self.node());
        while extend && node.regions.len() <= index {
            node.regions.push(ShmRegion::owned(bytes));
        }
        Ok(node.regions.get(index).cloned())
    }

    fn shm_lock(&mut self, first: u32, count: u32, lock: ShmLock) -> VfsResult<()> {
        let mut node = self.node();
        let locks = &mut node.shm_locks[first as usize..(first + count) as usize];
        let is_alone = matches!(lock, ShmLock::LockExclusive | ShmLock::UnlockExclusive);
        if matches!(lock, ShmLock::UnlockShared | ShmLock::UnlockExclusive) {
            for holders in locks {
                assert_eq!(holders.remove(&self.number), Some(is_alone), "held as it is given");
            }
            return Ok(());
        }
        let in_the_way = |holders: &HashMap<u64, bool>| {
            holders.iter().any(|(number, alone)| *number != self.number && (is_alone || *alone))
        };
        if locks.iter().any(in_the_way) {
            return Err(VfsError::BUSY);
        }
        for holders in locks {
            holders.insert(self.number, is_alone);
        }
        Ok(())
    }

    fn shm_unmap(&mut self, delete: bool) -> VfsResult<()> {
        let mut node = self.node();
        for locks in &mut node.shm_locks {
            locks.remove(&self.number);
        }
        if delete {
            node.regions.clear();
        }
        Ok(())
    }
}
