//! A decorator that writes down every call, and the plain sum of what it wrote.
//!
//! Deliberately simple: one list under one lock, and kinds of paths are looked up among
//! the files that were opened, where the counters under test go by the ends of paths.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex};

use leafpress_vfs::count::IoStats;
use leafpress_vfs::{
    Access, FileKind, FileLayer, LockLevel, MappedBytes, OpenFlags, Opened, ShmLock, ShmRegion,
    SyncKind, Vfs, VfsError, VfsFile, VfsLayer, VfsResult,
};

/// Calls and bytes by kind of file and operation, without what did not happen.
pub type Tally = BTreeMap<(&'static str, &'static str), (u64, u64)>;

pub fn tally_of(stats: &IoStats) -> Tally {
    let all = stats.kinds().flat_map(|(kind, io)| {
        io.operations().map(move |(operation, io)| ((kind, operation), (io.calls, io.bytes)))
    });
    all.filter(|&(_, (calls, _))| calls > 0).collect()
}

#[derive(Clone, Default)]
pub struct Log(Arc<Mutex<Vec<Call>>>);

struct Call {
    of: Of,
    operation: &'static str,
    bytes: u64,
}

/// A file by its path and what it was opened as, or a path alone.
enum Of {
    File(Option<Arc<str>>, FileKind),
    Path(Arc<str>),
    SharedMemory,
}

impl Log {
    pub fn tally(&self) -> Tally {
        let calls = self.0.lock().unwrap();
        // As what it was opened first: to find out whether a super-journal is still
        // needed, SQLite opens journals once more, and calls them super-journals.
        let mut opened: HashMap<&str, FileKind> = HashMap::new();
        for call in calls.iter() {
            if let Of::File(Some(path), kind) = &call.of {
                opened.entry(path).or_insert(*kind);
            }
        }
        let mut tally = Tally::new();
        for call in calls.iter() {
            let kind = match &call.of {
                Of::File(None, kind) => name_of(*kind),
                Of::SharedMemory => "wal",
                Of::File(Some(path), _) | Of::Path(path) => match opened.get(&**path) {
                    Some(kind) => name_of(*kind),
                    None if path.ends_with("-journal") => "journal",
                    None if path.ends_with("-wal") => "wal",
                    None if path.contains("-mj") => "super_journal",
                    None => "database",
                },
            };
            let (calls, bytes) = tally.entry((kind, call.operation)).or_default();
            *calls += 1;
            *bytes += call.bytes;
        }
        tally
    }

    fn push(&self, of: Of, operation: &'static str, bytes: usize) {
        self.0.lock().unwrap().push(Call { of, operation, bytes: bytes as u64 });
    }
}

fn name_of(kind: FileKind) -> &'static str {
    match kind {
        FileKind::MainDb => "database",
        FileKind::MainJournal => "journal",
        FileKind::SuperJournal => "super_journal",
        FileKind::Wal => "wal",
        _ => "temp",
    }
}

pub struct Recording<V> {
    inner: V,
    log: Log,
}

impl<V: Vfs> Recording<V> {
    pub fn new(inner: V, log: &Log) -> Self {
        Self { inner, log: log.clone() }
    }
}

impl<V: Vfs> VfsLayer for Recording<V> {
    fn below(&self) -> &dyn Vfs {
        &self.inner
    }

    fn open(&self, path: Option<&str>, flags: OpenFlags) -> VfsResult<Opened> {
        let kind = flags.kind();
        let name: Option<Arc<str>> = path.map(Arc::from);
        self.log.push(Of::File(name.clone(), kind), "open", 0);
        let Opened { file, flags: opened_flags } = self.inner.open(path, flags)?;
        let names_itself = cfg!(unix)
            && flags.contains(OpenFlags::CREATE)
            && ["journal", "super_journal", "wal"].contains(&name_of(kind));
        let file = RecordedFile { inner: file, name, kind, names_itself, log: self.log.clone() };
        Ok(Opened { file: Box::new(file), flags: opened_flags })
    }

    fn delete(&self, path: &str, sync_folder: bool) -> VfsResult<()> {
        let answer = self.inner.delete(path, sync_folder);
        self.log.push(Of::Path(path.into()), "delete", 0);
        let is_gone = answer.is_ok() || answer == Err(VfsError::IO_SYNC_FOLDER);
        if cfg!(unix) && sync_folder && is_gone {
            self.log.push(Of::Path(path.into()), "folder_sync", 0);
        }
        answer
    }

    fn exists(&self, path: &str, access: Access) -> VfsResult<bool> {
        self.log.push(Of::Path(path.into()), "stat", 0);
        self.inner.exists(path, access)
    }
}

struct RecordedFile {
    inner: Box<dyn VfsFile>,
    name: Option<Arc<str>>,
    kind: FileKind,
    names_itself: bool,
    log: Log,
}

impl RecordedFile {
    fn did(&self, operation: &'static str, bytes: usize) {
        self.log.push(Of::File(self.name.clone(), self.kind), operation, bytes);
    }
}

impl FileLayer for RecordedFile {
    fn below(&self) -> &dyn VfsFile {
        &*self.inner
    }

    fn below_mut(&mut self) -> &mut dyn VfsFile {
        &mut *self.inner
    }

    fn read(&mut self, buffer: &mut [u8], offset: u64) -> VfsResult<usize> {
        let answer = self.inner.read(buffer, offset);
        self.did("read", answer.unwrap_or(0));
        answer
    }

    fn write(&mut self, bytes: &[u8], offset: u64) -> VfsResult<()> {
        let answer = self.inner.write(bytes, offset);
        self.did("write", if answer.is_ok() { bytes.len() } else { 0 });
        answer
    }

    fn truncate(&mut self, size: u64) -> VfsResult<()> {
        self.did("truncate", 0);
        self.inner.truncate(size)
    }

    fn sync(&mut self, kind: SyncKind) -> VfsResult<()> {
        self.did("sync", 0);
        self.inner.sync(kind)?;
        if std::mem::take(&mut self.names_itself) {
            self.did("folder_sync", 0);
        }
        Ok(())
    }

    fn size(&mut self) -> VfsResult<u64> {
        self.did("stat", 0);
        self.inner.size()
    }

    fn lock(&mut self, level: LockLevel) -> VfsResult<()> {
        self.did("lock", 0);
        self.inner.lock(level)
    }

    fn unlock(&mut self, level: LockLevel) -> VfsResult<()> {
        self.did("lock", 0);
        self.inner.unlock(level)
    }

    fn is_reserved(&mut self) -> VfsResult<bool> {
        self.did("lock", 0);
        self.inner.is_reserved()
    }

    fn maps_memory(&self) -> bool {
        self.inner.maps_memory()
    }

    fn fetch(&mut self, offset: u64, bytes: usize) -> VfsResult<Option<MappedBytes>> {
        let answer = self.inner.fetch(offset, bytes)?;
        self.did("map", if answer.is_some() { bytes } else { 0 });
        Ok(answer)
    }

    fn shm_map(&mut self, region: u32, bytes: usize, extend: bool) -> VfsResult<Option<ShmRegion>> {
        let answer = self.inner.shm_map(region, bytes, extend);
        let is_mapped = matches!(answer, Ok(Some(_)));
        self.log.push(Of::SharedMemory, "map", if is_mapped { bytes } else { 0 });
        answer
    }

    fn shm_lock(&mut self, first: u32, count: u32, lock: ShmLock) -> VfsResult<()> {
        self.log.push(Of::SharedMemory, "lock", 0);
        self.inner.shm_lock(first, count, lock)
    }
}
