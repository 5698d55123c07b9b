//! The state of a disk at a point of a recording: durable content, and writes that are
//! not durable yet.
//!
//! Walks the recording once, from its start: at each point every file has the
//! content of its last sync and a list of the events since, and so has the
//! folder. Images are made of that.
//!
//! Bytes that a failed sync left unwritten are lost for good, whatever later syncs say;
//! only writing them anew helps. After a failed sync no image of a *killed process* may
//! be made, as the bytes would still be in the system's memory.
//!
//! Must never: go back (a new walk is needed), or look at a real disk.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::log::{Event, FileId, Mark, Recording};
use super::random::Random;

/// The disk at a point of a recording.
#[derive(Debug)]
pub struct Disk<'a> {
    recording: &'a Recording,
    point: usize,
    files: Vec<Contents>,
    names: BTreeMap<Arc<str>, FileId>,
    names_pending: Vec<usize>,
    acknowledged: Vec<Mark>,
}

/// One file: its durable content, and the events that are not durable yet.
#[derive(Debug, Default)]
pub(super) struct Contents {
    pub durable: Vec<u8>,
    /// Writes and truncates since, as indexes of events.
    pub pending: Vec<usize>,
}

impl<'a> Disk<'a> {
    /// The disk before the first event.
    pub fn new(recording: &'a Recording) -> Self {
        let mut disk = Self {
            recording,
            point: 0,
            files: Vec::new(),
            names: BTreeMap::new(),
            names_pending: Vec::new(),
            acknowledged: Vec::new(),
        };
        for (file, (name, bytes)) in recording.start.files.iter().enumerate() {
            disk.files.push(Contents { durable: bytes.clone(), pending: Vec::new() });
            disk.names.insert(name.as_str().into(), file as FileId);
        }
        disk
    }

    /// The disk at `point`.
    pub fn at(recording: &'a Recording, point: usize) -> Self {
        let mut disk = Self::new(recording);
        while disk.point < point && disk.step().is_some() {}
        disk
    }

    /// Number of events that have happened.
    pub fn point(&self) -> usize {
        self.point
    }

    /// Transactions that were acknowledged as durable so far.
    pub fn acknowledged(&self) -> &[Mark] {
        &self.acknowledged
    }

    /// Lets the next event happen, and hands it out; `None` at the end.
    pub fn step(&mut self) -> Option<&'a Event> {
        let event = self.recording.events.get(self.point)?;
        let index = self.point;
        self.point += 1;
        match *event {
            Event::Create { file, .. } => {
                debug_assert_eq!(file as usize, self.files.len());
                self.files.push(Contents::default());
                self.names_pending.push(index);
            }
            Event::Delete { .. } | Event::Rename { .. } => self.names_pending.push(index),
            Event::Write { file, .. }
            | Event::WriteWhole { file, .. }
            | Event::Truncate { file, .. } => {
                self.files[file as usize].pending.push(index);
            }
            Event::SyncFile { file, covers } => {
                let contents = &mut self.files[file as usize];
                let covered = contents.pending.partition_point(|&index| index < covers);
                for index in contents.pending.drain(..covered) {
                    apply(&mut contents.durable, &self.recording.events[index]);
                }
            }
            Event::SyncFailed { file, covers } => {
                let contents = &mut self.files[file as usize];
                let covered = contents.pending.partition_point(|&index| index < covers);
                for index in contents.pending.drain(..covered) {
                    // Some reached the disk, and the system has forgotten the others.
                    if Random::of(&[index as u64]).percent(30) {
                        apply(&mut contents.durable, &self.recording.events[index]);
                    }
                }
            }
            Event::SyncFolder { covers } => {
                let covered = self.names_pending.partition_point(|&index| index < covers);
                for index in self.names_pending.drain(..covered) {
                    rename(&mut self.names, &self.recording.events[index]);
                }
            }
            Event::Acknowledged(mark) => self.acknowledged.push(mark),
        }
        Some(event)
    }

    /// Number of writes, truncates and changes of names that are not durable yet,
    /// those of files without a name left out.
    pub fn unsynced(&self) -> usize {
        self.names_pending.len()
            + self
                .names_after(self.names_pending.len())
                .values()
                .map(|&file| self.contents(file).pending.len())
                .sum::<usize>()
    }

    /// The names, had `count` of the changes that are not durable survived.
    pub(super) fn names_after(&self, count: usize) -> BTreeMap<Arc<str>, FileId> {
        let mut names = self.names.clone();
        for &index in &self.names_pending[..count] {
            rename(&mut names, &self.recording.events[index]);
        }
        names
    }

    /// Number of changes of names that are not durable.
    pub(super) fn names_unsynced(&self) -> usize {
        self.names_pending.len()
    }

    pub(super) fn contents(&self, file: FileId) -> &Contents {
        &self.files[file as usize]
    }

    pub(super) fn event(&self, index: usize) -> &'a Event {
        &self.recording.events[index]
    }
}

/// Writes bytes where they belong; what is skipped becomes zeros.
pub(super) fn write_at(content: &mut Vec<u8>, offset: usize, bytes: &[u8]) {
    let end = offset + bytes.len();
    if content.len() < end {
        content.resize(end, 0);
    }
    content[offset..end].copy_from_slice(bytes);
}

/// Does a write or a truncate.
pub(super) fn apply(content: &mut Vec<u8>, event: &Event) {
    match event {
        Event::Write { offset, bytes, .. } | Event::WriteWhole { offset, bytes, .. } => {
            write_at(content, *offset as usize, bytes);
        }
        Event::Truncate { size, .. } => content.resize(*size as usize, 0),
        _ => unreachable!("{event:?} does not change a file"),
    }
}

fn rename(names: &mut BTreeMap<Arc<str>, FileId>, event: &Event) {
    match event {
        Event::Create { file, name } => {
            names.insert(Arc::clone(name), *file);
        }
        Event::Delete { name } => {
            names.remove(name);
        }
        Event::Rename { from, to } => {
            if let Some(file) = names.remove(from) {
                names.insert(Arc::clone(to), file);
            }
        }
        _ => unreachable!("{event:?} does not change a name"),
    }
}
