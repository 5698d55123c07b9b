//! Parts on their way up and down, in pieces: the memory is bounded, and each request is short.
//!
//! An object has the SHA-256 of its content as metadata, unless it went up while it was made. S3 also
//! checks that of each request's body, which the signature covers.

use std::collections::VecDeque;
use std::io::{Read as _, Seek as _, Write as _};
use std::path::Path as FilePath;
use std::sync::Arc;

use bytes::Bytes;
use leafpress::vfs::locks::FileHandle;
use leafpress::vfs::rights::Rights;
use leafpress::{Error, ErrorKind, Result};
use object_store::{
    Attribute, Attributes, GetOptions, GetRange, MultipartUpload, ObjectStoreExt as _, PutMode,
    PutMultipartOptions, PutOptions,
};
use sha2::{Digest as _, Sha256};

use super::client::Objects;
use crate::key::hex;
use crate::runtime::{Pending, begin, wait};
use crate::store::callbacks::Stop;
use crate::store::home::Store as _;
use crate::store::local::Local;
use crate::store::pace::Pace;
use crate::store::pieces::{PIECE_BYTES, PIECES_AT_ONCE, PIECES_MAX};

/// Name of the metadata.
const SHA256: &str = "sha256";

/// Puts a file up, unless the object is there with this checksum and size. Pieces of it may have gone up
/// while it was made.
///
/// # Errors
/// [`Destination`](ErrorKind::Destination) if another object is there;
/// [`Cancelled`](ErrorKind::Cancelled); those of the store and of the system. Then no object was made,
/// and an upload that was begun is aborted, if the store still answers.
pub fn put(
    objects: &Objects,
    draft: &Local,
    path: &str,
    sha256: &str,
    stop: &Stop<'_>,
) -> Result<()> {
    let file = draft.path();
    let failed = |source| Error::io("read", file, source);
    let mut handle = FileHandle::open(file).map_err(failed)?;
    let size = handle.metadata().map_err(failed)?.len();
    let found = look(objects, path, size, sha256)?;
    if found.is_same(objects, path, (size, sha256), stop)? {
        return Ok(());
    }
    let ahead = draft.ahead().map(|ahead| ahead.finish(&mut handle, (file, size), stop));
    if let Some(sent) = ahead.transpose()?.flatten() {
        return arrived(objects, path, (size, sha256), sent, stop);
    }
    handle.rewind().map_err(failed)?;
    let mut attributes = Attributes::new();
    attributes.insert(Attribute::Metadata(SHA256.into()), sha256.to_owned().into());
    let sent = if size <= PIECE_BYTES {
        let mut bytes = Vec::new();
        handle.read_to_end(&mut bytes).map_err(failed)?;
        let options = PutOptions { mode: PutMode::Create, attributes, ..PutOptions::default() };
        let (store, key) = (objects.store()?, objects.key(path));
        let pace = Arc::clone(&objects.pace);
        wait(async move { pace.send(store.put_opts(&key, bytes.into(), options)).await.map(drop) })?
    } else {
        put_pieces(objects, &mut handle, (file, size), path, attributes, stop)?
    };
    arrived(objects, path, (size, sha256), sent, stop)
}

/// Looks if an object that was sent is there: the answer may have been lost, or another process may have
/// been faster, or has removed it.
fn arrived(
    objects: &Objects,
    path: &str,
    (size, sha256): (u64, &str),
    sent: object_store::Result<()>,
    stop: &Stop<'_>,
) -> Result<()> {
    let found = match look(objects, path, size, sha256) {
        // Its pieces were compared one by one.
        Ok(Found::Unmarked) if sent.is_ok() => Ok(true),
        found => found.and_then(|found| found.is_same(objects, path, (size, sha256), stop)),
    };
    match (found, sent) {
        (Ok(true), _) => Ok(()),
        // The condition was not met, and this says why.
        (Err(found), Err(_)) if matches!(found.kind(), ErrorKind::Destination { .. }) => Err(found),
        (_, Err(error)) => Err(objects.failed("put up", path, &error)),
        (found, Ok(())) => found.and_then(|_| {
            Err(Error::changed(format!("{path} is not there after it was put up: it was removed")))
        }),
    }
}

/// What a store says of an object.
enum Found {
    Nothing,
    /// An object with this size and checksum.
    Same,
    /// An object with this size, and without a checksum.
    Unmarked,
}

impl Found {
    /// Returns true if the object has this content, false if there is none. One without a checksum is read.
    fn is_same(
        &self,
        objects: &Objects,
        path: &str,
        (size, sha256): (u64, &str),
        stop: &Stop<'_>,
    ) -> Result<bool> {
        match self {
            Self::Nothing => Ok(false),
            Self::Same => Ok(true),
            Self::Unmarked if sha256_of(objects, path, stop)? == sha256 => Ok(true),
            Self::Unmarked => Err(another(objects, path, &of_same_size(size))),
        }
    }
}

/// Looks for an object with this size and checksum, without reading it.
///
/// # Errors
/// [`Destination`](ErrorKind::Destination) if it has others; those of the store.
fn look(objects: &Objects, path: &str, size: u64, sha256: &str) -> Result<Found> {
    let (store, key) = (objects.store()?, objects.key(path));
    let options = GetOptions { head: true, ..GetOptions::default() };
    let found = match wait(async move { store.get_opts(&key, options).await })? {
        Err(object_store::Error::NotFound { .. }) => return Ok(Found::Nothing),
        found => found.map_err(|error| objects.failed("look for", path, &error))?,
    };
    let there = found.meta.size;
    if there != size {
        return Err(another(objects, path, &format!("of {there} bytes instead of {size}")));
    }
    match found.attributes.get(&Attribute::Metadata(SHA256.into())) {
        None => Ok(Found::Unmarked),
        Some(known) if known.as_ref() == sha256 => Ok(Found::Same),
        Some(_) => Err(another(objects, path, &of_same_size(size))),
    }
}

fn of_same_size(size: u64) -> String {
    format!("of {size} bytes too")
}

fn another(objects: &Objects, path: &str, which: &str) -> Error {
    Error::destination(objects.shown(path), format!("another object is there, {which}"))
        .to_do("give each attempt a name of its own")
}

fn put_pieces(
    objects: &Objects,
    handle: &mut FileHandle,
    (file, size): (&FilePath, u64),
    path: &str,
    attributes: Attributes,
    stop: &Stop<'_>,
) -> Result<object_store::Result<()>> {
    let (store, key) = (objects.store()?, objects.key(path));
    let options = PutMultipartOptions { attributes, ..PutMultipartOptions::default() };
    let begun = wait(async move { store.put_multipart_opts(&key, options).await })?;
    let mut upload = match begun {
        Ok(upload) => upload,
        Err(error) => return Ok(Err(error)),
    };
    let piece = PIECE_BYTES.max(size.div_ceil(PIECES_MAX));
    let sent = send(handle, file, piece, (upload.as_mut(), &objects.pace), stop);
    let done = match sent {
        Ok(Ok(())) => {
            let (back, done) = wait(async move {
                let done = upload.complete().await;
                (upload, done)
            })?;
            upload = back;
            Ok(done.map(drop))
        }
        other => other,
    };
    if !matches!(done, Ok(Ok(()))) {
        // Where it fails, gc finds it.
        let _ = wait(async move { upload.abort().await });
    }
    done
}

/// Sends the pieces of a file; returns once none is under way.
fn send(
    handle: &mut FileHandle,
    file: &FilePath,
    piece: u64,
    (upload, pace): (&mut dyn MultipartUpload, &Arc<Pace>),
    stop: &Stop<'_>,
) -> Result<object_store::Result<()>> {
    let mut under_way: VecDeque<Pending<object_store::Result<()>>> = VecDeque::new();
    let mut outcome = Ok(Ok(()));
    loop {
        let mut bytes = Vec::with_capacity(piece as usize);
        let read = (&mut *handle).take(piece).read_to_end(&mut bytes);
        let is_over = match read {
            Err(source) => {
                outcome = Err(Error::io("read", file, source));
                true
            }
            Ok(0) => true,
            Ok(_) if stop() => {
                outcome = Err(ErrorKind::Cancelled.into());
                true
            }
            Ok(_) => {
                let (put, pace) = (upload.put_part(bytes.into()), Arc::clone(pace));
                under_way.push_back(begin(async move { pace.send(put).await })?);
                false
            }
        };
        while under_way.len() >= PIECES_AT_ONCE || (is_over && !under_way.is_empty()) {
            let Some(first) = under_way.pop_front() else { break };
            let sent = first.get();
            if matches!(outcome, Ok(Ok(()))) {
                outcome = sent;
            }
        }
        if is_over {
            return outcome;
        }
        if !matches!(outcome, Ok(Ok(()))) {
            for rest in under_way {
                let _ = rest.get();
            }
            return outcome;
        }
    }
}

/// Copies an object into a new file.
///
/// # Errors
/// [`NotFound`](ErrorKind::NotFound); [`Changed`](ErrorKind::Changed) if it is replaced meanwhile;
/// [`Cancelled`](ErrorKind::Cancelled); those of the store and of the system.
pub fn fetch(objects: &Objects, path: &str, into: &FilePath, stop: &Stop<'_>) -> Result<()> {
    let failed = |source| Error::io("write", into, source);
    let mut file = FileHandle::create(into, Rights::private(into)).map_err(failed)?;
    each_piece(objects, path, stop, &mut |bytes| file.write_all(bytes).map_err(failed))
}

/// SHA-256 of an object's content, in hexadecimal digits.
///
/// # Errors
/// As [`fetch`].
fn sha256_of(objects: &Objects, path: &str, stop: &Stop<'_>) -> Result<String> {
    let mut hash = Sha256::new();
    each_piece(objects, path, stop, &mut |bytes| {
        hash.update(bytes);
        Ok(())
    })?;
    Ok(hex(&hash.finalize()))
}

/// Reads an object piece by piece, in order.
fn each_piece(
    objects: &Objects,
    path: &str,
    stop: &Stop<'_>,
    take: &mut dyn FnMut(&[u8]) -> Result<()>,
) -> Result<()> {
    let (store, key) = (objects.store()?, objects.key(path));
    let found = begin(async move { store.head(&key).await })?.get_unless(stop)?;
    let found = found.map_err(|error| objects.failed("read", path, &error))?;
    let mut under_way: VecDeque<Pending<object_store::Result<Bytes>>> = VecDeque::new();
    let mut next = 0;
    loop {
        while next < found.size && under_way.len() < PIECES_AT_ONCE {
            let range = next..(next + PIECE_BYTES).min(found.size);
            next = range.end;
            let options = GetOptions {
                range: Some(GetRange::Bounded(range)),
                if_match: found.e_tag.clone(),
                ..GetOptions::default()
            };
            let (store, key) = (objects.store()?, objects.key(path));
            under_way.push_back(begin(async move {
                store.get_opts(&key, options).await?.bytes().await
            })?);
        }
        let Some(first) = under_way.pop_front() else { return Ok(()) };
        let bytes = first.get_unless(stop)?.map_err(|error| match error {
            object_store::Error::Precondition { .. } => {
                Error::changed(format!("{path} was replaced while it was read"))
            }
            error => objects.failed("read", path, &error),
        })?;
        take(&bytes)?;
        if stop() {
            return Err(ErrorKind::Cancelled.into());
        }
    }
}
