//! Shards in a folder.
//!
//! `_CURRENT` changes under a lock, which the system drops when its holder dies. The new content is
//! written beside it, synced, and renamed over it: a reader sees one of them, whole. The folders of a
//! run are synced when they are made, so after a power cut `_CURRENT` names no run whose folder is gone.

use std::fs;
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use leafpress::load::make_new_with;
use leafpress::vfs::locks::{self, FileHandle, Open};
use leafpress::vfs::rights::{Rights, make_folder_below};
use leafpress::{Error, ErrorKind, Result, path_text};

use super::callbacks::{Change, Sha256Of, Stop};
use super::home::{Entry, Store, is_older};
use super::local::Local;
use crate::content::fill;
use crate::names::{RUNS, parts_of};

/// Held while `_CURRENT` changes.
const LOCK: &str = "_LOCK";
/// Bytes that are copied at once.
const CHUNK_BYTES: usize = 1 << 20;

/// A folder of shards.
#[derive(Debug)]
pub struct Folder {
    root: PathBuf,
    /// Syncs the names in a folder; tests let it fail.
    sync: fn(&Path) -> io::Result<()>,
}

impl Folder {
    /// A folder, which need not be there yet.
    pub fn new(root: PathBuf) -> Self {
        Self { root, sync: sync_folder }
    }

    fn run(&self, run: &str) -> PathBuf {
        self.root.join(RUNS).join(run)
    }

    fn parts(&self, run: &str) -> PathBuf {
        self.root.join(parts_of(run))
    }

    /// Waits for the lock under which a file changes.
    fn lock(&self) -> Result<FileHandle> {
        let path = self.root.join(LOCK);
        match FileHandle::create(&path, Rights::lock_inside(&self.root)) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                return Err(not_locked(&path, error));
            }
            _ => {}
        }
        let file = FileHandle::open_as(&path, Open::ReadWrite);
        let file = file.map_err(|source| not_locked(&path, source))?;
        file.lock().map_err(|source| not_locked(&path, source))?;
        Ok(file)
    }

    /// Puts a file in place of another one; a reader sees one of them, whole.
    ///
    /// # Errors
    /// The system's: then nothing is changed. [`OutcomeUnknown`](ErrorKind::OutcomeUnknown) if readers
    /// have the new content, and a power cut may bring the former one back.
    fn replace(&self, path: &Path, bytes: &[u8]) -> Result<()> {
        let failed = |source| Error::io("write", path, source);
        let new = path.with_extension("new");
        match fs::remove_file(&new) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(failed(error)),
            _ => {}
        }
        self.make_in_place_of(path, &new, bytes).map_err(failed)?;
        fs::rename(&new, path).map_err(failed)?;
        (self.sync)(&self.root).map_err(|source| {
            let path = path_text(path);
            Error::uncertain(format!("the folder of {path} could not be synced: {source}")).on_disk(
                format!("{path} has its new content; a power cut may bring the former one back"),
            )
        })
    }

    /// Makes the file that takes the place of `path`, with the rights of that if it is there: other users
    /// may read it, whatever the umask of this process.
    fn make_in_place_of(&self, path: &Path, new: &Path, bytes: &[u8]) -> io::Result<()> {
        let is_there = path.exists();
        let rights = if is_there { Rights::private(path) } else { Rights::new_inside(&self.root) };
        let mut file = FileHandle::create(new, rights)?;
        #[cfg(unix)]
        if is_there {
            Rights::take_over(path, &*file);
        }
        file.write_all(bytes)?;
        file.sync_all()
    }

    /// Makes the folder of a run's parts, and those above it, and syncs their names.
    fn make_folders(&self, run: &str, was_there: bool) -> Result<()> {
        let mut changed = vec![self.run(run), self.root.join(RUNS), self.root.clone()];
        let mut is_there = was_there;
        for above in self.root.ancestors().skip(1) {
            if is_there {
                break;
            }
            let above = if above.as_os_str().is_empty() { Path::new(".") } else { above };
            is_there = above.is_dir();
            changed.push(above.to_owned());
        }
        make_folder(&self.root)?;
        for folder in [self.root.join(RUNS), self.run(run), self.parts(run)] {
            match make_folder_below(&folder, &self.root) {
                Err(source) if !folder.is_dir() => {
                    return Err(Error::io("make the folder", &folder, source));
                }
                _ => {}
            }
        }
        for folder in &changed {
            (self.sync)(folder).map_err(|source| Error::io("sync the folder", folder, source))?;
        }
        Ok(())
    }
}

impl Store for Folder {
    fn shown(&self, path: &str) -> PathBuf {
        if path.is_empty() { self.root.clone() } else { self.root.join(path) }
    }

    fn in_place(&self, path: &str) -> Option<PathBuf> {
        Some(self.root.join(path))
    }

    fn read(&self, path: &str) -> Result<Option<Vec<u8>>> {
        let path = self.root.join(path);
        match locks::read(&path) {
            Ok(bytes) => Ok(Some(bytes)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(Error::io("read", &path, error)),
        }
    }

    fn size(&self, path: &str) -> Result<Option<u64>> {
        let path = self.root.join(path);
        match path.metadata() {
            Ok(about) => Ok(Some(about.len())),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(Error::io("look for", &path, error)),
        }
    }

    fn create(&self, path: &str, bytes: &[u8]) -> Result<()> {
        let path = self.root.join(path);
        let made = make_new_with(&path, self.rights(), |hidden| {
            write_all(hidden, bytes).map_err(|source| Error::io("write", &path, source))
        });
        made.map_err(|error| match error.kind() {
            ErrorKind::Changed { .. } => Error::destination(&path, "it exists already"),
            _ => error,
        })
    }

    fn change(&self, path: &str, change: &mut Change<'_>) -> Result<()> {
        let full = self.root.join(path);
        let _lock = self.lock()?;
        let bytes = change(self.read(path)?.as_deref())?;
        self.replace(&full, &bytes)
    }

    fn check_change(&self) -> Result<()> {
        let path = self.root.join(LOCK);
        match FileHandle::open_as(&path, Open::ReadWrite) {
            Err(source) if source.kind() != io::ErrorKind::NotFound => {
                Err(not_locked(&path, source))
            }
            _ => Ok(()),
        }
    }

    fn rights(&self) -> Rights {
        Rights::new_inside(&self.root)
    }

    /// Makes no folder, as [`draft`](Self::draft).
    fn touch(&self, path: &str) -> Result<()> {
        let path = self.root.join(path);
        let failed = |source| Error::io("write", &path, source);
        match FileHandle::create(&path, self.rights()) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                return Err(failed(error));
            }
            _ => {}
        }
        let mut file = FileHandle::open_as(&path, Open::ReadWrite).map_err(failed)?;
        file.write_all(b"alive\n").map_err(failed)
    }

    fn begin(&self, run: &str) -> Result<bool> {
        let was_there = self.root.exists();
        let made = self.make_folders(run, was_there);
        if made.is_err() {
            self.abandon(run, was_there);
        }
        made.map(|()| was_there)
    }

    fn has_lost(&self, run: &str) -> bool {
        !self.parts(run).is_dir()
    }

    /// The folder of the parts, where `gc` finds what a process leaves that dies.
    fn workplace(&self, run: &str) -> Result<Local> {
        Ok(Local::at(self.parts(run)))
    }

    /// Makes no folder: a task that ends after its run was abandoned is to leave nothing.
    fn draft(&self, path: &str) -> Result<Local> {
        let path = self.root.join(path);
        let folder = path.parent().unwrap_or(&self.root);
        if folder.is_dir() {
            return Ok(Local::at(path));
        }
        let folder = path_text(folder);
        Err(Error::misuse(format!("there is no folder {folder} here, or its run was abandoned"))
            .to_do("name a folder that all workers reach under this path"))
    }

    /// The draft has its place already.
    fn keep(&self, _: &Local, _: &str, _: &Sha256Of<'_>, _: &Stop<'_>) -> Result<()> {
        Ok(())
    }

    fn fetch(&self, path: &str, into: &Path, stop: &Stop<'_>) -> Result<()> {
        let from = self.root.join(path);
        let failed = |source| Error::io("read", &from, source);
        let mut file = FileHandle::open(&from).map_err(failed)?;
        let written = |source| Error::io("write", into, source);
        let mut copy = FileHandle::create(into, Rights::private(into)).map_err(written)?;
        let mut chunk = vec![0; CHUNK_BYTES];
        loop {
            if stop() {
                return Err(ErrorKind::Cancelled.into());
            }
            match file.read(&mut chunk).map_err(failed)? {
                0 => return Ok(()),
                read => copy.write_all(&chunk[..read]).map_err(written)?,
            }
        }
    }

    fn read_at(&self, path: &str, first: u64, into: &mut [u8]) -> Result<usize> {
        let path = self.root.join(path);
        let mut read = || {
            let mut file = FileHandle::open(&path)?;
            file.seek(SeekFrom::Start(first))?;
            fill(&mut file, into)
        };
        read().map_err(|source| Error::io("read", &path, source))
    }

    fn runs(&self) -> Result<Vec<String>> {
        let mut names = names_in(&self.root.join(RUNS))?;
        names.retain(|name| self.run(name).is_dir());
        Ok(names)
    }

    fn entries(&self, run: &str) -> Result<Vec<Entry>> {
        let mut entries = Vec::new();
        for folder in [parts_of(run), format!("{RUNS}/{run}")] {
            for name in names_in(&self.root.join(&folder))? {
                let path = format!("{folder}/{name}");
                let full = self.root.join(&path);
                let about = match full.symlink_metadata() {
                    Ok(about) => about,
                    Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                    Err(error) => return Err(Error::io("look for", &full, error)),
                };
                if !about.is_dir() {
                    let modified = about.modified().ok();
                    entries.push(Entry { path, bytes: about.len(), modified, upload: None });
                }
            }
        }
        Ok(entries)
    }

    fn remove(&self, entry: &Entry) -> Result<()> {
        let path = self.root.join(&entry.path);
        match fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(Error::io("remove", &path, error))
            }
            _ => Ok(()),
        }
    }

    fn forget(&self, run: &str, older_than: Duration) {
        let folder = self.run(run);
        let modified = folder.metadata().and_then(|about| about.modified());
        if is_older(modified.ok(), older_than) {
            // A folder that has other files stays.
            let _ = fs::remove_dir(self.parts(run));
            let _ = fs::remove_dir(folder);
        }
    }

    fn abandon(&self, run: &str, was_there: bool) {
        // Under another name, tasks that still run can put nothing into it.
        let (folder, renamed) = (self.run(run), self.run(&format!("{run}-abandoned")));
        let is_renamed = fs::rename(&folder, &renamed).is_ok();
        let _ = fs::remove_dir_all(if is_renamed { renamed } else { folder });
        let _ = fs::remove_dir(self.root.join(RUNS));
        if !was_there {
            let _ = fs::remove_dir(&self.root);
        }
    }
}

fn names_in(folder: &Path) -> Result<Vec<String>> {
    let failed = |source| Error::io("read the folder", folder, source);
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(failed(error)),
    };
    let mut names = Vec::new();
    for entry in entries {
        // A name that is not UTF-8 is not one of ours.
        if let Ok(name) = entry.map_err(failed)?.file_name().into_string() {
            names.push(name);
        }
    }
    names.sort_unstable();
    Ok(names)
}

fn not_locked(path: &Path, source: io::Error) -> Error {
    if source.kind() != io::ErrorKind::PermissionDenied {
        return Error::not_made("lock", path, source);
    }
    Error::io("lock", path, source).to_do(format!(
        "only users who may write to that file publish here: let its owner allow it (chmod g+w {})",
        path_text(path)
    ))
}

/// Makes a folder, and those above it.
///
/// # Errors
/// The system's.
#[expect(clippy::disallowed_methods, reason = "the folder is not beside a database")]
fn make_folder(path: &Path) -> Result<()> {
    fs::create_dir_all(path).map_err(|source| Error::not_made("make", path, source))
}

#[cfg(unix)]
fn sync_folder(folder: &Path) -> io::Result<()> {
    FileHandle::open(folder)?.sync_all()
}

#[cfg(not(unix))]
#[expect(clippy::unnecessary_wraps, reason = "as on Unix")]
fn sync_folder(_folder: &Path) -> io::Result<()> {
    Ok(())
}

/// Writes and syncs the content of a file that is there.
fn write_all(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = FileHandle::open_as(path, Open::ReadWrite)?;
    file.write_all(bytes)?;
    file.sync_all()
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::sync::mpsc;
    use std::thread;

    use super::*;

    const THREADS: usize = 8;
    const CHANGES: usize = 30;

    thread_local! {
        static SYNCED: RefCell<Vec<PathBuf>> = const { RefCell::new(Vec::new()) };
    }

    #[expect(clippy::unnecessary_wraps, reason = "it stands in for a sync")]
    fn note_sync(folder: &Path) -> io::Result<()> {
        assert!(folder.is_dir());
        SYNCED.with_borrow_mut(|synced| synced.push(folder.to_owned()));
        Ok(())
    }

    fn fail_to_sync(_: &Path) -> io::Result<()> {
        Err(io::Error::other("no sync"))
    }

    #[test]
    fn the_folders_of_a_run_are_synced_when_they_are_made() {
        let around = tempfile::tempdir().unwrap();
        let root = around.path().join("above/out");
        let home = Folder { root: root.clone(), sync: note_sync };
        let runs = root.join(RUNS);
        for (run, was_there) in [("a", false), ("b", true)] {
            assert_eq!(home.begin(run).unwrap(), was_there);
            let mut expected = vec![runs.join(run), runs.clone(), root.clone()];
            if !was_there {
                expected.extend([around.path().join("above"), around.path().to_owned()]);
            }
            assert_eq!(SYNCED.take(), expected);
        }
        let failing = Folder { root: around.path().join("other"), sync: fail_to_sync };
        assert!(failing.begin("a").unwrap_err().to_string().contains("no sync"));
        assert!(!failing.root.exists(), "nothing is left of it");
    }

    #[test]
    fn a_folder_that_is_not_synced_leaves_the_outcome_open() {
        let folder = tempfile::tempdir().unwrap();
        let home = Folder { root: folder.path().to_owned(), sync: fail_to_sync };
        let error = home.change("current", &mut |_| Ok(b"new".to_vec())).unwrap_err();
        assert!(matches!(error.kind(), ErrorKind::OutcomeUnknown { .. }), "{error}");
        assert!(error.to_string().contains("has its new content"), "{error}");
        assert_eq!(home.read("current").unwrap().as_deref(), Some(&b"new"[..]));
    }

    #[test]
    fn threads_take_the_lock_in_turn() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().to_owned();
        let (sender, receiver) = mpsc::channel();
        for _ in 0..THREADS {
            let (root, sender) = (root.clone(), sender.clone());
            thread::spawn(move || {
                let home = Folder::new(root);
                for _ in 0..CHANGES {
                    home.change("count", &mut |found| {
                        let mut bytes = found.unwrap_or_default().to_vec();
                        bytes.push(b'.');
                        Ok(bytes)
                    })
                    .unwrap();
                }
                sender.send(()).unwrap();
            });
        }
        for _ in 0..THREADS {
            receiver.recv_timeout(Duration::from_secs(60)).expect("no thread waits for ever");
        }
        let count = fs::read(root.join("count")).unwrap();
        assert_eq!(count.len(), THREADS * CHANGES);
    }
}
