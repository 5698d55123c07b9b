//! Pieces of a part that go up while the part is pressed.
//!
//! The loader tells what it writes. A piece of the file goes up as soon as all of its bytes are written, if
//! there is memory for it then. The end reads the finished file, sends each piece that has not gone up or
//! that was changed since, and last the piece with the first page, which the loader writes last too.
//!
//! Must never: complete an object that differs from the finished file.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt;
use std::io::{Read as _, Seek as _, SeekFrom};
use std::path::Path as FilePath;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use futures_util::stream::{self, StreamExt as _};
use leafpress::load::disk::Listener;
use leafpress::vfs::fork::Process;
use leafpress::vfs::locks::FileHandle;
use leafpress::vfs::sync::lock;
use leafpress::{Error, ErrorKind, Result};
use object_store::multipart::{MultipartStore, PartId};
use object_store::path::Path;
use object_store::{MultipartId, Result as Answer};
use sha2::{Digest as _, Sha256};
use tokio::sync::mpsc;

use super::callbacks::Stop;
use super::pace::Pace;
use super::pieces::{PIECE_BYTES, PIECES_AT_ONCE, PIECES_MAX};
use crate::runtime::{Pending, begin, wait};

/// Pieces of which not all bytes are written yet: of several threads, and of a few pages that come late.
const FILLING_MAX: usize = 4;

type Digest = [u8; 32];

/// The pieces of one object, whose file is being made.
pub struct Ahead {
    process: Process,
    store: Arc<dyn MultipartStore>,
    key: Path,
    pace: Arc<Pace>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    filling: BTreeMap<u64, Filling>,
    /// Pieces that are not collected any more: they were complete, or there was no memory for them.
    passed: BTreeSet<u64>,
    upload: Option<Upload>,
    is_over: bool,
}

/// A piece of which some bytes are written.
#[derive(Default)]
struct Filling {
    bytes: Vec<u8>,
    written: usize,
}

/// An upload that was begun.
struct Upload {
    pieces: mpsc::Sender<(u64, Bytes)>,
    sent: Pending<Answer<Sent>>,
}

/// The pieces that have gone up, or have failed to.
struct Sent {
    id: MultipartId,
    pieces: BTreeMap<u64, (Digest, Answer<PartId>)>,
}

impl Ahead {
    /// Pieces of an object of this store. Nothing is sent before one is complete.
    pub fn new(store: Arc<dyn MultipartStore>, key: Path, pace: Arc<Pace>) -> Self {
        Self { process: Process::current(), store, key, pace, state: Mutex::default() }
    }

    /// Completes the object from its finished file. `None` if no piece has gone up, or the file has too
    /// many: then no upload is left.
    ///
    /// # Errors
    /// [`Cancelled`](ErrorKind::Cancelled), and the system's. After these, and after an error of the store,
    /// the upload is aborted, if the store still answers.
    pub fn finish(
        &self,
        handle: &mut FileHandle,
        (file, size): (&FilePath, u64),
        stop: &Stop<'_>,
    ) -> Result<Option<Answer<()>>> {
        self.process.check("shards")?;
        let Some(Sent { id, pieces }) = self.end()? else { return Ok(None) };
        if size > PIECE_BYTES * PIECES_MAX {
            self.abort(id);
            return Ok(None);
        }
        let mut rest =
            Rest { ahead: self, id: &id, under_way: VecDeque::new(), arrived: Vec::new() };
        let sent = rest.send(pieces, handle, (file, size), stop);
        let done = match sent.and_then(|()| rest.complete()) {
            Ok(()) => return Ok(Some(Ok(()))),
            Err(Failed::Here(error)) => Err(error),
            Err(Failed::There(error)) => Ok(Some(Err(error))),
        };
        rest.settle();
        self.abort(id);
        done
    }

    /// Stops to listen, and waits for the pieces under way; `None` if no upload was begun.
    fn end(&self) -> Result<Option<Sent>> {
        let upload = {
            let mut state = lock(&self.state);
            state.is_over = true;
            state.filling.clear();
            state.upload.take()
        };
        let Some(Upload { pieces, sent }) = upload else { return Ok(None) };
        drop(pieces);
        // Where the store has not begun an upload, the caller begins one, whose error is told.
        Ok(sent.get()?.ok())
    }

    /// Removes an upload that will not be completed. Where that fails, `gc` finds it.
    fn abort(&self, id: MultipartId) {
        let (store, key) = (Arc::clone(&self.store), self.key.clone());
        let _ = wait(async move { store.abort_multipart(&key, &id).await });
    }
}

impl Listener for Ahead {
    fn wrote(&self, offset: u64, bytes: &[u8]) {
        let mut state = lock(&self.state);
        let (mut offset, mut bytes) = (offset, bytes);
        while !bytes.is_empty() && !state.is_over && self.process.is_current() {
            let (piece, start) = (offset / PIECE_BYTES, (offset % PIECE_BYTES) as usize);
            let (these, rest) = bytes.split_at(bytes.len().min(PIECE_BYTES as usize - start));
            if let Some(complete) = state.collect(piece, start, these) {
                state.send(self, piece, complete);
            }
            (offset, bytes) = (offset + these.len() as u64, rest);
        }
    }
}

impl State {
    /// Takes bytes of a piece; returns all of them if these were the last.
    fn collect(&mut self, piece: u64, start: usize, bytes: &[u8]) -> Option<Vec<u8>> {
        if piece == 0 || self.passed.contains(&piece) {
            return None;
        }
        if !self.filling.contains_key(&piece) && self.filling.len() == FILLING_MAX {
            self.passed.insert(piece);
            return None;
        }
        let filling = self.filling.entry(piece).or_default();
        filling.bytes.resize(PIECE_BYTES as usize, 0);
        filling.bytes[start..start + bytes.len()].copy_from_slice(bytes);
        filling.written += bytes.len();
        if filling.written < PIECE_BYTES as usize {
            return None;
        }
        self.passed.insert(piece);
        self.filling.remove(&piece).map(|filling| filling.bytes)
    }

    /// Sends a piece, if not too many are under way: the others wait for the end.
    fn send(&mut self, ahead: &Ahead, piece: u64, bytes: Vec<u8>) {
        if self.upload.is_none() {
            match Upload::begin(ahead) {
                Ok(upload) => self.upload = Some(upload),
                Err(_) => self.is_over = true,
            }
        }
        if let Some(upload) = &self.upload {
            let _ = upload.pieces.try_send((piece, bytes.into()));
        }
    }
}

impl Upload {
    fn begin(ahead: &Ahead) -> Result<Self> {
        let (pieces, receiver) = mpsc::channel(1);
        let (store, key) = (Arc::clone(&ahead.store), ahead.key.clone());
        let pace = Arc::clone(&ahead.pace);
        let sent = begin(async move {
            let id = store.create_multipart(&key).await?;
            let taken = stream::unfold(receiver, |mut receiver| async {
                receiver.recv().await.map(|piece| (piece, receiver))
            });
            let sent = taken.map(|(piece, bytes): (u64, Bytes)| {
                let digest = digest_of(&bytes);
                let put = put((&store, &key, &id), &pace, piece, bytes);
                async move { (piece, (digest, put.await)) }
            });
            let pieces = sent.buffer_unordered(PIECES_AT_ONCE).collect().await;
            Ok(Sent { id, pieces })
        })?;
        Ok(Self { pieces, sent })
    }
}

/// The end of an upload.
struct Rest<'a> {
    ahead: &'a Ahead,
    id: &'a MultipartId,
    under_way: VecDeque<(u64, Pending<Answer<PartId>>)>,
    arrived: Vec<(u64, PartId)>,
}

/// Failure of the end of an upload.
enum Failed {
    /// Of this machine, or of this process.
    Here(Error),
    /// Of the store.
    There(object_store::Error),
}

impl From<Error> for Failed {
    fn from(error: Error) -> Self {
        Self::Here(error)
    }
}

impl Rest<'_> {
    /// Sends what has not gone up as it is in the file. The first piece goes after all others have arrived.
    fn send(
        &mut self,
        mut sent: BTreeMap<u64, (Digest, Answer<PartId>)>,
        handle: &mut FileHandle,
        (file, size): (&FilePath, u64),
        stop: &Stop<'_>,
    ) -> std::result::Result<(), Failed> {
        for piece in (1..size.div_ceil(PIECE_BYTES)).chain([0]) {
            if stop() {
                return Err(Error::from(ErrorKind::Cancelled).into());
            }
            let bytes = read(handle, piece).map_err(|source| Error::io("read", file, source))?;
            match sent.remove(&piece) {
                Some((digest, Ok(part))) if digest == digest_of(&bytes) => {
                    self.arrived.push((piece, part));
                }
                _ => {
                    self.await_all_but(if piece == 0 { 0 } else { PIECES_AT_ONCE - 1 })?;
                    let to = (&self.ahead.store, &self.ahead.key, self.id);
                    self.under_way
                        .push_back((piece, begin(put(to, &self.ahead.pace, piece, bytes.into()))?));
                }
            }
        }
        self.await_all_but(0)
    }

    /// Waits until no more than so many pieces are under way.
    fn await_all_but(&mut self, under_way_max: usize) -> std::result::Result<(), Failed> {
        while self.under_way.len() > under_way_max {
            let Some((piece, part)) = self.under_way.pop_front() else { break };
            self.arrived.push((piece, part.get()?.map_err(Failed::There)?));
        }
        Ok(())
    }

    fn complete(&mut self) -> std::result::Result<(), Failed> {
        self.arrived.sort_unstable_by_key(|(piece, _)| *piece);
        let parts = self.arrived.drain(..).map(|(_, part)| part).collect();
        let (store, key) = (Arc::clone(&self.ahead.store), self.ahead.key.clone());
        let id = self.id.clone();
        let done = wait(async move { store.complete_multipart(&key, &id, parts).await })?;
        done.map(drop).map_err(Failed::There)
    }

    /// Waits until no piece is under way, after a failure.
    fn settle(&mut self) {
        for (_, part) in self.under_way.drain(..) {
            let _ = part.get();
        }
    }
}

impl Drop for Ahead {
    /// Removes the upload of an object that will not be there.
    fn drop(&mut self) {
        if self.process.is_current()
            && let Ok(Some(sent)) = self.end()
        {
            self.abort(sent.id);
        }
    }
}

impl fmt::Debug for Ahead {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.debug_struct("Ahead").field("key", &self.key).finish_non_exhaustive()
    }
}

/// Sends a piece.
fn put(
    (store, key, id): (&Arc<dyn MultipartStore>, &Path, &MultipartId),
    pace: &Arc<Pace>,
    piece: u64,
    bytes: Bytes,
) -> impl Future<Output = Answer<PartId>> + Send + 'static {
    let (store, key, id, pace) = (Arc::clone(store), key.clone(), id.clone(), Arc::clone(pace));
    async move { pace.send(store.put_part(&key, &id, piece as usize, bytes.into())).await }
}

fn digest_of(bytes: &[u8]) -> Digest {
    Sha256::digest(bytes).into()
}

/// A piece of the file; the last one may be shorter.
fn read(handle: &mut FileHandle, piece: u64) -> std::io::Result<Vec<u8>> {
    let mut bytes = Vec::with_capacity(PIECE_BYTES as usize);
    handle.seek(SeekFrom::Start(piece * PIECE_BYTES))?;
    (&mut *handle).take(PIECE_BYTES).read_to_end(&mut bytes)?;
    Ok(bytes)
}
