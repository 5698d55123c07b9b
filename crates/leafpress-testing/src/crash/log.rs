//! The events of a folder, in order: writes, truncates, syncs, changes of names,
//! and acknowledgements to callers.
//!
//! ```text
//! recorder (decorates a Vfs) ──┐
//! the loader's own file work ──┼──► Log ──finish──► Recording ──► disk, image
//! callers: acknowledged(..)  ──┘
//! ```
//!
//! Invariants:
//! 1. A write is logged after the system took it, a sync after it returned:
//!    what the log says has happened.
//! 2. A sync covers what was logged before it *began*. A write that met a
//!    running sync counts as not synced.
//! 3. A file is known by a number that is never used again: a journal that is
//!    deleted and made anew is two files, and the first may come back.
//!
//! Must never: be slow, as it stands between the writer and its disk.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use leafpress::vfs::FileKind;

/// The number of a file; one name may be that of several files over time.
pub type FileId = u32;

/// Acknowledgement that a transaction is durable: a caller and the number of
/// that caller's transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Mark {
    /// The caller.
    pub caller: u64,
    /// The caller's own number for what it asked.
    pub number: u64,
}

/// One thing that happened.
#[derive(Clone, Debug)]
pub enum Event {
    /// A new, empty file got a name.
    Create {
        /// The new file.
        file: FileId,
        /// Its name in the folder.
        name: Arc<str>,
    },
    /// Bytes were written.
    Write {
        /// The file.
        file: FileId,
        /// The first byte's place.
        offset: u64,
        /// The bytes.
        bytes: Arc<[u8]>,
    },
    /// Bytes were written by a disk that writes them whole or not at all.
    WriteWhole {
        /// The file.
        file: FileId,
        /// The first byte's place.
        offset: u64,
        /// The bytes.
        bytes: Arc<[u8]>,
    },
    /// A file was cut, or made longer by zeros.
    Truncate {
        /// The file.
        file: FileId,
        /// Its bytes from now on.
        size: u64,
    },
    /// A name was taken away.
    Delete {
        /// The name.
        name: Arc<str>,
    },
    /// A name was changed; a file that had the new name lost it.
    Rename {
        /// The old name.
        from: Arc<str>,
        /// The new one.
        to: Arc<str>,
    },
    /// The content of a file was made durable.
    SyncFile {
        /// The file.
        file: FileId,
        /// Number of events that had been logged when the sync began.
        covers: usize,
    },
    /// A sync of a file failed. What was to be made durable may never be, even by
    /// later syncs: systems forget what they could not write.
    SyncFailed {
        /// The file.
        file: FileId,
        /// Number of events that had been logged when the sync began.
        covers: usize,
    },
    /// The names of the folder were made durable.
    SyncFolder {
        /// Number of events that had been logged when the sync began.
        covers: usize,
    },
    /// A caller was told that its transaction is durable.
    Acknowledged(Mark),
}

/// The files of a folder before anything was recorded: all of it durable.
#[derive(Clone, Debug, Default)]
pub struct Snapshot {
    /// Name and content of each file.
    pub files: Vec<(String, Vec<u8>)>,
}

impl Snapshot {
    /// Reads the files of a folder.
    ///
    /// No connection may be open on a file in it: on Unix, closing a file that
    /// this reads would drop the locks that the process holds on it.
    ///
    /// # Panics
    /// If the folder cannot be read.
    pub fn of_folder(folder: &Path) -> Self {
        let mut files: Vec<_> = std::fs::read_dir(folder)
            .unwrap()
            .map(|entry| entry.unwrap())
            .filter(|entry| entry.file_type().unwrap().is_file())
            .map(|entry| {
                let name = entry.file_name().into_string().unwrap();
                (name, std::fs::read(entry.path()).unwrap())
            })
            .collect();
        files.sort();
        Self { files }
    }

    /// Writes the files to a folder, to be looked at.
    ///
    /// # Errors
    /// If the folder cannot be made or written.
    pub fn save(&self, folder: &Path) -> std::io::Result<()> {
        std::fs::create_dir_all(folder)?;
        self.files.iter().try_for_each(|(name, content)| std::fs::write(folder.join(name), content))
    }
}

/// Record of the events of one folder.
#[derive(Debug)]
pub struct Log {
    state: Mutex<State>,
}

#[derive(Debug)]
pub(super) struct State {
    start: Snapshot,
    names: BTreeMap<Arc<str>, FileId>,
    files_known: FileId,
    events: Vec<Event>,
    failure: Option<SyncFailure>,
    /// Syncs of each file that have begun and not ended.
    syncs_running: BTreeMap<FileId, u32>,
    /// Number of events that had been logged when a name was last changed.
    names_changed: usize,
    /// Number of events that had been logged when each file's content was last changed.
    contents_changed: BTreeMap<FileId, usize>,
}

/// A disk that once cannot write what it was given.
#[derive(Debug)]
struct SyncFailure {
    kind: FileKind,
    syncs_until: u64,
    /// The file that it happened to.
    file: Option<FileId>,
}

impl Log {
    /// A log of a folder that holds `start`.
    pub fn new(start: Snapshot) -> Self {
        let names: BTreeMap<Arc<str>, FileId> = start
            .files
            .iter()
            .zip(0..)
            .map(|((name, _), file)| (name.as_str().into(), file))
            .collect();
        let files_known = names.len() as FileId;
        Self {
            state: Mutex::new(State {
                start,
                names,
                files_known,
                events: Vec::new(),
                failure: None,
                syncs_running: BTreeMap::new(),
                names_changed: 0,
                contents_changed: BTreeMap::new(),
            }),
        }
    }

    /// Keeps the log still for as long as the answer lives: for changes of
    /// names, which must be logged in the order in which they happen.
    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The file of that name now.
    pub fn file(&self, name: &str) -> Option<FileId> {
        self.lock().names.get(name).copied()
    }

    /// Number of events so far, which a sync that begins now will cover.
    pub fn position(&self) -> usize {
        self.lock().events.len()
    }

    /// Bytes were written.
    pub fn wrote(&self, file: FileId, offset: u64, bytes: &[u8]) {
        let bytes = bytes.into();
        self.lock().changed(file, Event::Write { file, offset, bytes });
    }

    /// Bytes were written, which a power cut keeps whole or drops whole.
    pub fn wrote_whole(&self, file: FileId, offset: u64, bytes: &[u8]) {
        let bytes = bytes.into();
        self.lock().changed(file, Event::WriteWhole { file, offset, bytes });
    }

    /// A file was given a size.
    pub fn truncated(&self, file: FileId, size: u64) {
        self.lock().changed(file, Event::Truncate { file, size });
    }

    /// A sync of a file returned, which began at `covers` (a [`Log::position`]).
    pub fn synced_file(&self, file: FileId, covers: usize) {
        self.lock().events.push(Event::SyncFile { file, covers });
    }

    /// Lets the `nth` sync (from 1) of a file of this kind fail, or the first one
    /// after it that meets no other sync of that file.
    ///
    /// As on Linux each other opening of the file is told as well, once: after that
    /// syncs say that all is well, though what could not be written never was.
    pub fn fail_sync(&self, kind: FileKind, nth: u64) {
        self.lock().failure = Some(SyncFailure { kind, syncs_until: nth, file: None });
    }

    /// A sync of the folder returned, which began at `covers`.
    pub fn synced_folder(&self, covers: usize) {
        self.lock().events.push(Event::SyncFolder { covers });
    }

    /// A caller was told that its transaction is durable.
    pub fn acknowledged(&self, caller: u64, number: u64) {
        self.lock().events.push(Event::Acknowledged(Mark { caller, number }));
    }

    /// Ends the recording, and returns the events so far. Later events are lost.
    pub fn finish(&self) -> Recording {
        let state = &mut *self.lock();
        Recording {
            start: std::mem::take(&mut state.start),
            events: std::mem::take(&mut state.events),
        }
    }
}

impl State {
    /// A sync is to begin: what it will cover, or `None` if it fails. `was_told`
    /// is whether this opening knows of the failure.
    pub(super) fn sync_begins(
        &mut self,
        file: FileId,
        kind: FileKind,
        was_told: &mut bool,
    ) -> Option<usize> {
        let running = self.syncs_running.entry(file).or_default();
        if let Some(failure) = self.failure.as_mut().filter(|failure| failure.kind == kind) {
            failure.syncs_until = failure.syncs_until.saturating_sub(1);
            if failure.file.is_none() && failure.syncs_until == 0 && *running == 0 {
                failure.file = Some(file);
                *was_told = true;
                self.events.push(Event::SyncFailed { file, covers: self.events.len() });
                return None;
            }
            if failure.file == Some(file) && !std::mem::replace(was_told, true) {
                return None;
            }
        }
        *running += 1;
        Some(self.events.len())
    }

    /// A sync of the file ended.
    pub(super) fn sync_ends(&mut self, file: FileId, covers: usize, is_done: bool) {
        if let Some(running) = self.syncs_running.get_mut(&file) {
            *running -= 1;
        }
        let event = if is_done {
            Event::SyncFile { file, covers }
        } else {
            Event::SyncFailed { file, covers }
        };
        self.events.push(event);
    }

    /// Returns true if a sync of the file has failed, so that an opening made now comes after it.
    pub(super) fn has_failed(&self, file: FileId) -> bool {
        self.failure.as_ref().is_some_and(|failure| failure.file == Some(file))
    }

    /// The content of a file changed.
    fn changed(&mut self, file: FileId, event: Event) {
        self.events.push(event);
        self.contents_changed.insert(file, self.events.len());
    }

    /// A number that differs after each name that was made, changed or taken away.
    pub(super) fn names_changed(&self) -> usize {
        self.names_changed
    }

    /// A number that differs after each change of the file's content.
    pub(super) fn content_changed(&self, file: FileId) -> usize {
        self.contents_changed.get(&file).copied().unwrap_or_default()
    }

    /// The file of that name.
    pub(super) fn file(&self, name: &str) -> Option<FileId> {
        self.names.get(name).copied()
    }

    /// A new file got that name.
    pub(super) fn created(&mut self, name: &str) -> FileId {
        let (file, name) = (self.files_known, Arc::<str>::from(name));
        self.files_known += 1;
        self.names.insert(Arc::clone(&name), file);
        self.name_changed(Event::Create { file, name });
        file
    }

    /// The name is gone.
    pub(super) fn deleted(&mut self, name: &str) {
        if self.names.remove(name).is_some() {
            self.name_changed(Event::Delete { name: name.into() });
        }
    }

    /// The file of the first name has the second from now on.
    pub(super) fn renamed(&mut self, from: &str, to: &str) {
        if let Some(file) = self.names.remove(from) {
            let (from, to) = (Arc::from(from), Arc::<str>::from(to));
            self.names.insert(Arc::clone(&to), file);
            self.name_changed(Event::Rename { from, to });
        }
    }

    fn name_changed(&mut self, event: Event) {
        self.events.push(event);
        self.names_changed = self.events.len();
    }

    /// The folder was synced, and nothing was logged meanwhile.
    pub(super) fn synced_folder(&mut self) {
        let covers = self.events.len();
        self.events.push(Event::SyncFolder { covers });
    }
}

/// A finished log. A *point* of it is a number of events: those have happened.
#[derive(Clone, Debug, Default)]
pub struct Recording {
    /// The folder before the first event.
    pub start: Snapshot,
    /// The events, in order.
    pub events: Vec<Event>,
}

impl Recording {
    /// Makes some syncs cover nothing, as if they had been forgotten: a
    /// simulator that does not notice it is broken.
    pub fn forge_syncs(&mut self, is_forged: fn(&Event) -> bool) {
        for event in self.events.iter_mut().filter(|event| is_forged(event)) {
            if let Event::SyncFile { covers, .. } | Event::SyncFolder { covers } = event {
                *covers = 0;
            }
        }
    }

    /// Numbers of events of each kind, in a line: for reports.
    pub fn describe(&self) -> String {
        let mut counts = [0_usize; 5];
        for event in &self.events {
            counts[match event {
                Event::Write { .. } | Event::WriteWhole { .. } | Event::Truncate { .. } => 0,
                Event::SyncFile { .. } | Event::SyncFailed { .. } => 1,
                Event::Create { .. } | Event::Delete { .. } | Event::Rename { .. } => 2,
                Event::SyncFolder { .. } => 3,
                Event::Acknowledged(_) => 4,
            }] += 1;
        }
        let [writes, syncs, names, folder_syncs, acknowledged] = counts;
        format!(
            "{writes} writes, {syncs} syncs, {names} changes of names, {folder_syncs} syncs of \
             the folder, {acknowledged} acknowledgements"
        )
    }
}
