//! Copies of parts in a local folder, of bounded size.
//!
//! A copy has the SHA-256 of its content as name, so that runs, readers and processes share it. It gets
//! that name once it is complete, synced and checked; a name therefore always has the right content.
//! The copies that were not used for the longest time go first: the file's time of change is that of the last
//! opening or closing. A cache removes no copy that it, or a clone of it, has open. A copy that another cache
//! removes stays readable until it is closed; Windows does not remove it.
//!
//! Must never: open a copy that was not checked.

use std::collections::HashMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use leafpress::vfs::locks::{FileHandle, Open};
use leafpress::vfs::rights::make_private_folder;
use leafpress::vfs::sync::lock;
use leafpress::{Error, Result, path_text};
use rusqlite::Connection;

use crate::connect;
use crate::content::Content;
use crate::manifest::PartRecord;
use crate::store::{Local, Stop, Store, unique_digits};

/// Size of a cache that the caller has not named.
const TEMPORARY_BYTES_MAX: u64 = 1 << 30;
/// Attempts to open a copy that another process removes each time.
const OPENINGS_MAX: usize = 10;
/// Beginning of the name of a copy that is not complete.
const INCOMPLETE: &str = ".incomplete-";
/// Age from which an incomplete copy has no process any more that writes it.
const INCOMPLETE_AGE: Duration = Duration::from_secs(3600);

/// A folder with copies of parts. Several readers and processes may share it.
///
/// The copies take at most the bytes that were given, and those of parts that are read at the same time on
/// top, if they alone take more.
#[derive(Debug, Clone)]
pub struct Cache {
    folder: Arc<Local>,
    bytes_max: u64,
    open: Arc<Mutex<OpenCopies>>,
}

/// Copies that are open by this cache: how often, and their size.
type OpenCopies = HashMap<PathBuf, (u32, u64)>;

/// A copy that is open.
#[derive(Debug)]
pub struct Cached {
    path: PathBuf,
    open: Arc<Mutex<OpenCopies>>,
}

impl Drop for Cached {
    fn drop(&mut self) {
        let _ = note_use(&self.path);
        let mut open = lock(&self.open);
        if let Some((times, _)) = open.get_mut(&self.path) {
            *times -= 1;
            if *times == 0 {
                open.remove(&self.path);
            }
        }
    }
}

impl Cache {
    /// A cache in this folder, which is made for its owner alone if it is not there, of at most this many
    /// bytes.
    ///
    /// # Errors
    /// The system's.
    pub fn new(folder: impl Into<PathBuf>, bytes_max: u64) -> Result<Self> {
        let folder = folder.into();
        match make_private_folder(&folder, &folder) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                return Err(Error::io("make the folder", &folder, error));
            }
            _ => {}
        }
        Ok(Self::of(Local::at(folder), bytes_max))
    }

    /// A cache of 1 GiB in a temporary folder, which goes with it.
    pub(crate) fn temporary() -> Result<Self> {
        Ok(Self::of(Local::temporary(None)?, TEMPORARY_BYTES_MAX))
    }

    fn of(folder: Local, bytes_max: u64) -> Self {
        Self { folder: Arc::new(folder), bytes_max, open: Arc::default() }
    }

    /// Most bytes of the copies.
    pub(crate) fn bytes_max(&self) -> u64 {
        self.bytes_max
    }

    /// Opens the copy of a part, and fetches it before, if there is none. `close` closes copies of at least
    /// that many bytes that this reader does not use at the moment.
    ///
    /// # Errors
    /// [`Misuse`](leafpress::ErrorKind::Misuse) for a part that is larger than the cache;
    /// [`Input`](leafpress::ErrorKind::Input) if the store has another content than the manifest says;
    /// [`Cancelled`](leafpress::ErrorKind::Cancelled) once `stop` returns true while it is fetched; those
    /// of the store, the system and SQLite.
    pub(crate) fn open(
        &self,
        store: &dyn Store,
        record: &PartRecord,
        close: &dyn Fn(u64),
        stop: &Stop<'_>,
    ) -> Result<(Connection, Cached)> {
        if record.bytes > self.bytes_max {
            let (bytes, max) = (record.bytes, self.bytes_max);
            return Err(Error::misuse(format!(
                "part {} has {bytes} bytes, and the cache at most {max}",
                record.part
            ))
            .to_do("give the cache more bytes"));
        }
        let path = self.folder.path().join(file_name(record)?);
        let (space, bytes) = self.note_open(&path, record.bytes);
        if bytes > self.bytes_max {
            close(bytes - self.bytes_max);
        }
        let mut attempt = 1;
        loop {
            let is_there = note_use(&path).is_ok_and(|bytes| bytes == record.bytes);
            // Copies that are there may be too many: another reader's bound may be higher.
            self.make_room(if is_there { 0 } else { record.bytes })?;
            if !is_there {
                self.fetch(store, record, &path, stop)?;
            }
            match connect::read_only(&path) {
                // Another reader may have removed it meanwhile, and may have fetched it again since.
                Err(_) if attempt < OPENINGS_MAX => {}
                opened => return Ok((opened?, space)),
            }
            attempt += 1;
        }
    }

    /// Notes that a copy is open; returns the bytes of all that are.
    fn note_open(&self, path: &Path, bytes: u64) -> (Cached, u64) {
        let mut open = lock(&self.open);
        open.entry(path.to_owned()).or_insert((0, bytes)).0 += 1;
        let all = open.values().map(|(_, bytes)| bytes).sum();
        (Cached { path: path.to_owned(), open: Arc::clone(&self.open) }, all)
    }

    fn fetch(
        &self,
        store: &dyn Store,
        record: &PartRecord,
        path: &Path,
        stop: &Stop<'_>,
    ) -> Result<()> {
        let hidden = format!("{INCOMPLETE}{}", unique_digits()?);
        let hidden = self.folder.path().join(hidden);
        let fetched = fetch_into(store, record, (&hidden, path), stop);
        if fetched.is_err() {
            let _ = fs::remove_file(&hidden);
        }
        fetched
    }

    /// Removes the copies that were not used for the longest time, until there is room.
    fn make_room(&self, bytes: u64) -> Result<()> {
        let folder = self.folder.path();
        let failed = |source| Error::io("read the folder", folder, source);
        let mut copies = Vec::new();
        for entry in fs::read_dir(folder).map_err(failed)? {
            let path = entry.map_err(failed)?.path();
            // Another process may have removed it.
            let Ok(about) = path.symlink_metadata() else { continue };
            let used = about.modified().unwrap_or(SystemTime::UNIX_EPOCH);
            let Some(name) = path.file_name().and_then(|name| name.to_str()) else { continue };
            if name.starts_with(INCOMPLETE) {
                if used.elapsed().is_ok_and(|age| age >= INCOMPLETE_AGE) {
                    let _ = fs::remove_file(&path);
                }
            } else if is_copy(name) {
                copies.push((used, about.len(), path));
            }
        }
        copies.sort_unstable();
        let mut total: u64 = copies.iter().map(|(_, bytes, _)| bytes).sum();
        let open = lock(&self.open);
        for (_, size, path) in copies {
            if total + bytes <= self.bytes_max {
                break;
            }
            if open.contains_key(&path) {
                continue;
            }
            match fs::remove_file(&path) {
                Err(error) if is_open_elsewhere(&error) => {}
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    return Err(Error::io("remove", &path, error));
                }
                _ => total -= size,
            }
        }
        Ok(())
    }
}

/// Copies a part, and gives the copy its name once it is complete, synced and checked.
fn fetch_into(
    store: &dyn Store,
    record: &PartRecord,
    (hidden, path): (&Path, &Path),
    stop: &Stop<'_>,
) -> Result<()> {
    store.fetch(&record.path, hidden, stop)?;
    let found = Content::of(hidden, record.page_size as usize)?;
    if (found.bytes, &found.sha256) != (record.bytes, &record.sha256) {
        let reason = "its content is not the one that the manifest has a checksum of";
        return Err(Error::input(path_text(store.shown(&record.path)), reason)
            .to_do("see what leafpress shards verify says, and roll back or write the run again"));
    }
    let file = FileHandle::open(hidden).and_then(|file| file.sync_all());
    file.map_err(|source| Error::io("sync", hidden, source))?;
    fs::rename(hidden, path).map_err(|source| Error::io("name", path, source))
}

/// Notes a use of a copy; returns its size.
fn note_use(path: &Path) -> io::Result<u64> {
    let file = FileHandle::open_as(path, Open::ReadWrite)?;
    file.set_modified(SystemTime::now())?;
    Ok(file.metadata()?.len())
}

/// Returns true if the system has not removed a file because another cache has it open, as Windows does.
fn is_open_elsewhere(error: &io::Error) -> bool {
    const SHARING_VIOLATION: i32 = 32;
    cfg!(windows) && error.raw_os_error() == Some(SHARING_VIOLATION)
}

/// Name of the copy of a part.
fn file_name(record: &PartRecord) -> Result<String> {
    let name = format!("{}.db", record.sha256);
    if is_copy(&name) {
        return Ok(name);
    }
    let reason = format!("part {} has the checksum {:?}", record.part, record.sha256);
    Err(Error::input(path_text(Path::new(&record.path)), reason))
}

fn is_copy(name: &str) -> bool {
    let digits = name.strip_suffix(".db").unwrap_or_default();
    digits.len() == 64 && digits.bytes().all(|digit| digit.is_ascii_hexdigit())
}
