//! One simulated disk: what waits in memory to be written to it, and until when it is
//! busy.
//!
//! ```text
//! write     the blocks are noted; beyond the bound some are written at once
//! sync      the file's blocks are written, then a flush: [begin .. done]
//!           the real sync runs meanwhile; what is missing until `done` is slept
//! ```
//!
//! Files are known by their paths, for all who have them open: a checkpointer's sync of
//! a WAL writes what the writer put there. Names and sizes that changed go with the next
//! flush, as a file system writes them to its one journal.
//!
//! Must never: hold its lock while a thread sleeps or while a real call runs, or leave a
//! real sync out.
//!
//! Invariants:
//! 1. `State::unwritten_blocks` is the sum over all files.
//! 2. `State::busy_until` never goes back.

use std::collections::HashMap;
use std::fmt;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use super::clock::{Clock, SystemClock};
use super::extents::{BLOCK_BYTES, Extents, blocks_of};
use super::model::{Cost, DiskModel};
use crate::sync::lock;

/// Blocks written at once at least when the bound is passed, as the kernel does it: 4 MiB.
const WRITEBACK_BLOCKS: u64 = 1024;

/// Numbers of a simulated disk's work.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct SimulationStats {
    /// Syncs of files and folders that had something to make durable.
    pub syncs: u64,
    /// Syncs that had nothing to do, and took no time of the simulated disk.
    pub empty_syncs: u64,
    /// Writes that reached the simulated disk.
    pub requests: u64,
    /// Bytes that reached it.
    pub bytes_written: u64,
    /// Time for which it was busy.
    pub busy: Duration,
    /// Time for which threads slept for it.
    pub slept: Duration,
    /// Syncs for which the real disk took longer than the simulated one.
    pub late_syncs: u64,
    /// Sum of the times that the real disk took longer: by so much the simulated disk is slower
    /// than its model.
    pub late: Duration,
}

pub struct Device {
    model: DiskModel,
    clock: Box<dyn Clock>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    busy_until: Duration,
    /// Names were made or taken away since the last flush.
    names_changed: bool,
    unwritten_blocks: u64,
    files: HashMap<u64, FileState>,
    /// The files that have a name.
    names: HashMap<PathBuf, u64>,
    last_id: u64,
    stats: SimulationStats,
}

#[derive(Default)]
struct FileState {
    unwritten: Extents,
    /// Its size changed without a write.
    was_cut: bool,
    /// End of the last write-back.
    written_back_to: u64,
    /// Number of its openings.
    users: u64,
    /// The path that leads to it, if one does.
    name: Option<PathBuf>,
}

impl FileState {
    fn is_needed(&self) -> bool {
        self.users > 0 || self.name.is_some() && (self.was_cut || !self.unwritten.is_empty())
    }
}

impl Device {
    pub fn new(model: DiskModel) -> Arc<Self> {
        Self::with_clock(model, Box::new(SystemClock::new()))
    }

    pub(super) fn with_clock(model: DiskModel, clock: Box<dyn Clock>) -> Arc<Self> {
        Arc::new(Self { model, clock, state: Mutex::default() })
    }

    pub fn model(&self) -> &DiskModel {
        &self.model
    }

    pub fn stats(&self) -> SimulationStats {
        self.lock().stats
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }

    /// A file that was just opened; without a path it has no name. `is_new` says that it
    /// was just made.
    pub fn open(self: &Arc<Self>, path: Option<&Path>, is_new: bool) -> OpenFile {
        let mut state = self.lock();
        let known = path.and_then(|path| state.names.get(path).copied());
        let id = known.unwrap_or_else(|| state.add(path));
        state.names_changed |= is_new && path.is_some();
        if let Some(file) = state.files.get_mut(&id) {
            file.users += 1;
        }
        OpenFile { device: Arc::clone(self), id }
    }

    /// Takes a name away by `real`, and syncs its folder if that is said.
    pub fn remove<T, E>(
        &self,
        path: &Path,
        sync_folder: bool,
        real: impl FnOnce() -> Result<T, E>,
    ) -> Result<T, E> {
        if !sync_folder {
            let removed = real()?;
            self.removed(path);
            return Ok(removed);
        }
        // The name that the sync makes durable is taken away only once it has begun.
        self.lock().names_changed = true;
        let removed = self.sync_folder(real)?;
        self.lock().forget_name(path);
        Ok(removed)
    }

    /// A name was taken away.
    pub fn removed(&self, path: &Path) {
        let mut state = self.lock();
        state.names_changed = true;
        state.forget_name(path);
    }

    /// A file was given another name.
    pub fn renamed(&self, from: &Path, to: &Path) {
        let mut state = self.lock();
        state.names_changed = true;
        state.forget_name(to);
        let Some(id) = state.names.remove(from) else { return };
        if let Some(file) = state.files.get_mut(&id) {
            file.name = Some(to.to_owned());
        }
        state.names.insert(to.to_owned(), id);
    }

    /// Syncs a folder by `real`.
    pub fn sync_folder<T, E>(&self, real: impl FnOnce() -> Result<T, E>) -> Result<T, E> {
        let done = self.folder_sync_begins();
        self.meanwhile(done, real)
    }

    /// A sync of a folder begins; the answer is for [`synced`](Self::synced).
    pub fn folder_sync_begins(&self) -> Option<Duration> {
        let mut state = self.lock();
        let has_work = std::mem::take(&mut state.names_changed);
        // The folder's block itself, and the flush.
        let cost = Cost { time: self.model.request + self.model.flush, requests: 1, bytes: 0 };
        self.begin_sync(&mut state, has_work.then_some(cost))
    }

    /// Syncs the file that has this path by `real`, for every opening of it.
    pub fn sync_path<T, E>(
        &self,
        path: &Path,
        real: impl FnOnce() -> Result<T, E>,
    ) -> Result<T, E> {
        let done = self.path_sync_begins(path);
        self.meanwhile(done, real)
    }

    /// A sync of the file that has this path begins; the answer is for
    /// [`synced`](Self::synced).
    pub fn path_sync_begins(&self, path: &Path) -> Option<Duration> {
        let id = self.lock().names.get(path).copied();
        self.file_sync_begins(id)
    }

    fn sync<T, E>(&self, id: Option<u64>, real: impl FnOnce() -> Result<T, E>) -> Result<T, E> {
        let done = self.file_sync_begins(id);
        self.meanwhile(done, real)
    }

    fn file_sync_begins(&self, id: Option<u64>) -> Option<Duration> {
        let mut state = self.lock();
        let (runs, was_cut) = id.map_or_else(Default::default, |id| state.take_all(id));
        let has_work = was_cut || state.names_changed || !runs.is_empty();
        state.names_changed = false;
        let written = self.model.cost_of(&runs);
        let cost = Cost { time: written.time + self.model.flush, ..written };
        self.begin_sync(&mut state, has_work.then_some(cost))
    }

    /// Time at which the sync that begins now will be done; `None` if it has nothing to do.
    fn begin_sync(&self, state: &mut State, cost: Option<Cost>) -> Option<Duration> {
        let Some(cost) = cost else {
            state.stats.empty_syncs += 1;
            return None;
        };
        state.stats.syncs += 1;
        Some(self.occupy(state, cost))
    }

    /// Lets the disk do it after all that it has to do already; returns the time at which it is
    /// done.
    fn occupy(&self, state: &mut State, cost: Cost) -> Duration {
        let begin = state.busy_until.max(self.clock.now());
        state.busy_until = begin + cost.time;
        state.stats.busy += cost.time;
        state.stats.requests += cost.requests;
        state.stats.bytes_written += cost.bytes;
        state.busy_until
    }

    /// Makes the real call, and sleeps what is missing until `done`.
    fn meanwhile<T, E>(
        &self,
        done: Option<Duration>,
        real: impl FnOnce() -> Result<T, E>,
    ) -> Result<T, E> {
        let answer = real()?;
        self.synced(done);
        Ok(answer)
    }

    /// The real sync is made: sleeps what is missing until `done`.
    pub fn synced(&self, done: Option<Duration>) {
        let Some(done) = done else { return };
        let late = self.clock.now().saturating_sub(done);
        if late.is_zero() {
            self.sleep_until(done);
        } else {
            let mut state = self.lock();
            state.stats.late_syncs += 1;
            state.stats.late += late;
        }
    }

    fn sleep_until(&self, time: Duration) {
        let from = self.clock.now();
        self.clock.wait_until(time);
        self.lock().stats.slept += time.saturating_sub(from);
    }

    fn wrote(&self, id: u64, offset: u64, bytes: u64) {
        let done = {
            let mut state = self.lock();
            state.add_blocks(id, blocks_of(offset, bytes));
            self.write_back(&mut state)
        };
        if let Some(done) = done {
            self.sleep_until(done);
        }
    }

    /// Writes the blocks beyond the bound, of the file that has most; returns the time at which
    /// that is done.
    fn write_back(&self, state: &mut State) -> Option<Duration> {
        let blocks_max = self.model.unwritten_bytes_max / BLOCK_BYTES;
        let mut done = None;
        while state.unwritten_blocks > blocks_max {
            let beyond = state.unwritten_blocks - blocks_max;
            let runs = state.take_of_largest(beyond.max(WRITEBACK_BLOCKS));
            if runs.is_empty() {
                break;
            }
            done = Some(self.occupy(state, self.model.cost_of(&runs)));
        }
        done
    }

    fn close(&self, id: u64) {
        let mut state = self.lock();
        if let Some(file) = state.files.get_mut(&id) {
            file.users -= 1;
        }
        state.drop_if_not_needed(id);
    }
}

impl State {
    fn add(&mut self, path: Option<&Path>) -> u64 {
        self.last_id += 1;
        let name = path.map(Path::to_owned);
        self.files.insert(self.last_id, FileState { name: name.clone(), ..FileState::default() });
        self.names.extend(name.map(|name| (name, self.last_id)));
        self.last_id
    }

    fn add_blocks(&mut self, id: u64, blocks: Range<u64>) {
        if let Some(file) = self.files.get_mut(&id) {
            self.unwritten_blocks += file.unwritten.insert(blocks);
        }
    }

    fn cut(&mut self, id: u64, bytes: u64) {
        if let Some(file) = self.files.get_mut(&id) {
            file.was_cut = true;
            self.unwritten_blocks -= file.unwritten.cut_at(bytes.div_ceil(BLOCK_BYTES));
        }
    }

    /// All that is unwritten of a file, and whether it was cut.
    fn take_all(&mut self, id: u64) -> (Vec<Range<u64>>, bool) {
        let Some(file) = self.files.get_mut(&id) else { return Default::default() };
        self.unwritten_blocks -= file.unwritten.len();
        let taken = (file.unwritten.take_all(), std::mem::take(&mut file.was_cut));
        self.drop_if_not_needed(id);
        taken
    }

    /// Takes unwritten blocks of the file that has most of them.
    fn take_of_largest(&mut self, blocks_max: u64) -> Vec<Range<u64>> {
        let largest = self.files.iter().max_by_key(|(id, file)| (file.unwritten.len(), **id));
        let Some(id) = largest.map(|(id, _)| *id) else { return Vec::new() };
        let Some(file) = self.files.get_mut(&id) else { return Vec::new() };
        let before = file.unwritten.len();
        let runs = file.unwritten.take(file.written_back_to, blocks_max);
        file.written_back_to = runs.last().map_or(0, |run| run.end);
        self.unwritten_blocks -= before - file.unwritten.len();
        self.drop_if_not_needed(id);
        runs
    }

    /// The path leads nowhere any more; the file's openings may go on.
    fn forget_name(&mut self, path: &Path) {
        let Some(id) = self.names.remove(path) else { return };
        if let Some(file) = self.files.get_mut(&id) {
            file.name = None;
        }
        self.drop_if_not_needed(id);
    }

    /// Drops a file that is gone: its unwritten blocks are never written.
    fn drop_if_not_needed(&mut self, id: u64) {
        if self.files.get(&id).is_none_or(FileState::is_needed) {
            return;
        }
        if let Some(file) = self.files.remove(&id) {
            self.unwritten_blocks -= file.unwritten.len();
            if let Some(name) = file.name {
                self.names.remove(&name);
            }
        }
    }
}

impl fmt::Debug for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Device").field("model", &self.model.name).finish_non_exhaustive()
    }
}

/// One opening of a file on a simulated disk. Dropping it closes it.
///
/// It holds no bytes: tell it of each change of the real file.
#[derive(Debug)]
pub struct OpenFile {
    device: Arc<Device>,
    id: u64,
}

impl OpenFile {
    /// Bytes were written. Waits if more is unwritten than may be.
    pub fn wrote(&self, offset: u64, bytes: usize) {
        self.device.wrote(self.id, offset, bytes as u64);
    }

    /// The file was given a size.
    pub fn truncated(&self, bytes: u64) {
        self.device.lock().cut(self.id, bytes);
    }

    /// Syncs the file by `real`, and takes as long as the simulated disk does, or as `real`
    /// if that is more. After an error it is unknown which bytes are on the disk, as with a real
    /// disk.
    pub fn sync<T, E>(&self, real: impl FnOnce() -> Result<T, E>) -> Result<T, E> {
        self.device.sync(Some(self.id), real)
    }
}

impl Drop for OpenFile {
    fn drop(&mut self) {
        self.device.close(self.id);
    }
}
