//! Shards in an object store: S3, Google Cloud Storage, Azure.
//!
//! A file is an object, complete or not there. `_CURRENT` changes by a conditional write: its version
//! must be the one that was read.
//!
//! | module | is |
//! |---|---|
//! | `address` | from a URL to a client of its store |
//! | `client` | paths to keys, requests to answers |
//! | `creation` | uploads to S3 that end only where no object is |
//! | `transfer` | parts, in pieces: up and down |
//! | `unfinished` | unfinished uploads of S3 |
//!
//! Each request is repeated for [`address::RETRIES_MAX`] and ends after its own limit of 30 seconds, so that a
//! store that does not answer is an error within a minute; within two for a run, which then tries to remove its
//! files.
//!
//! Must never: replace an object other than `_CURRENT` and the sign of life of a run. Stores other than S3 have no
//! condition for an object that goes up in pieces: there it is looked for before, and two attempts with one name that
//! end at once can replace one another.

mod address;
mod client;
mod creation;
mod transfer;
mod unfinished;

use std::path::{Path as FilePath, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use leafpress::load::disk::Listener;
use leafpress::{Error, Result};
use object_store::{GetOptions, GetRange, ObjectStore, ObjectStoreExt as _, PutMode, PutOptions};

pub use self::client::Objects;
use self::client::says;
use super::ahead::Ahead;
use super::callbacks::{Change, Sha256Of, Stop};
use super::home::{Entry, Store};
use super::local::Local;
use crate::names::{RUNS, last_name};
use crate::runtime::wait;

/// Attempts of a conditional write whose outcome is not clear, or that another process was faster than.
const WRITES_MAX: usize = 4;

impl Store for Objects {
    fn shown(&self, path: &str) -> PathBuf {
        if path.is_empty() { (&self.url).into() } else { format!("{}/{path}", self.url).into() }
    }

    fn in_place(&self, _: &str) -> Option<PathBuf> {
        None
    }

    fn object(&self, path: &str) -> Option<(Arc<dyn ObjectStore>, String)> {
        Some((Arc::clone(&self.store), self.key(path).to_string()))
    }

    fn read(&self, path: &str) -> Result<Option<Vec<u8>>> {
        Ok(self.get(path)?.map(|(bytes, _)| bytes.to_vec()))
    }

    fn size(&self, path: &str) -> Result<Option<u64>> {
        let (store, key) = (self.store()?, self.key(path));
        match wait(async move { store.head(&key).await })? {
            Ok(found) => Ok(Some(found.size)),
            Err(object_store::Error::NotFound { .. }) => Ok(None),
            Err(error) => Err(self.failed("look for", path, &error)),
        }
    }

    fn create(&self, path: &str, bytes: &[u8]) -> Result<()> {
        let content = Bytes::copy_from_slice(bytes);
        let Err(error) = self.put(path, content, PutMode::Create.into())? else { return Ok(()) };
        // A request that the client has repeated meets its own object.
        match self.read(path) {
            Ok(Some(found)) if found == bytes => Ok(()),
            Ok(Some(_)) => Err(Error::destination(self.shown(path), "it exists already")),
            _ => Err(self.failed("write", path, &error)),
        }
    }

    /// A write whose answer is lost may have been carried out, or may be later. So it is sent again
    /// under the same condition, which at most one of them meets, until an answer or the content tells.
    fn change(&self, path: &str, change: &mut Change<'_>) -> Result<()> {
        let mut sent: Option<Bytes> = None;
        let mut answer = String::new();
        for sent_before in 0..=WRITES_MAX {
            let found = match self.get(path) {
                Err(error) if sent.is_some() => return Err(self.unknown(path, &error.to_string())),
                found => found?,
            };
            let (before, version) = found.unzip();
            if before.is_some() && before == sent {
                return Ok(());
            }
            if sent_before == WRITES_MAX {
                break;
            }
            let bytes = Bytes::from(change(before.as_deref())?);
            let mode = version.map_or(PutMode::Create, PutMode::Update);
            let Err(error) = self.put(path, bytes.clone(), mode.into())? else { return Ok(()) };
            if is_refused(&error) {
                return Err(self.failed("write", path, &error));
            }
            answer = says(&error);
            sent = Some(bytes);
        }
        Err(self.unknown(path, &answer))
    }

    fn touch(&self, path: &str) -> Result<()> {
        let put = self.put(path, Bytes::from_static(b"alive\n"), PutOptions::default())?;
        put.map_err(|error| self.failed("write", path, &error))
    }

    /// Nothing is made before the first object.
    fn begin(&self, _: &str) -> Result<bool> {
        Ok(true)
    }

    fn workplace(&self, _: &str) -> Result<Local> {
        Local::temporary(None)
    }

    fn draft(&self, path: &str) -> Result<Local> {
        let draft = Local::temporary(Some(last_name(path)))?;
        if self.is_there(path)? {
            self.fetch(path, draft.path(), &|| false)?;
            return Ok(draft);
        }
        let ahead = self
            .pieces
            .as_ref()
            .map(|store| Ahead::new(Arc::clone(store), self.key(path), Arc::clone(&self.pace)));
        Ok(draft.sent_ahead(ahead))
    }

    fn listener(&self, draft: &Local) -> Option<Arc<dyn Listener>> {
        draft.ahead().map(|ahead| Arc::clone(ahead) as _)
    }

    fn keep(
        &self,
        draft: &Local,
        path: &str,
        sha256: &Sha256Of<'_>,
        stop: &Stop<'_>,
    ) -> Result<()> {
        transfer::put(self, draft, path, &sha256()?, stop)
    }

    fn fetch(&self, path: &str, into: &FilePath, stop: &Stop<'_>) -> Result<()> {
        transfer::fetch(self, path, into, stop)
    }

    fn read_at(&self, path: &str, first: u64, into: &mut [u8]) -> Result<usize> {
        let (store, key) = (self.store()?, self.key(path));
        let range = GetRange::Bounded(first..first + into.len() as u64);
        let options = GetOptions { range: Some(range), ..GetOptions::default() };
        let found = wait(async move { store.get_opts(&key, options).await?.bytes().await })?;
        let bytes = found.map_err(|error| self.failed("read", path, &error))?;
        let count = bytes.len().min(into.len());
        into[..count].copy_from_slice(&bytes[..count]);
        Ok(count)
    }

    fn runs(&self) -> Result<Vec<String>> {
        let (store, key) = (self.store()?, self.key(RUNS));
        let found = wait(async move { store.list_with_delimiter(Some(&key)).await })?
            .map_err(|error| self.failed("list", RUNS, &error))?;
        let mut runs: Vec<_> = found
            .common_prefixes
            .iter()
            .filter_map(|key| Some(key.filename()?.to_owned()))
            .collect();
        runs.sort_unstable();
        Ok(runs)
    }

    fn unfinished(&self) -> Result<Vec<Entry>> {
        self.uploads(RUNS)
    }

    fn entries(&self, run: &str) -> Result<Vec<Entry>> {
        self.objects(&format!("{RUNS}/{run}"))
    }

    fn remove(&self, entry: &Entry) -> Result<()> {
        let (store, key) = (self.store()?, self.key(&entry.path));
        let removed = match (&entry.upload, &self.unfinished) {
            (Some(upload), Some(unfinished)) => unfinished.abort(&key, upload)?,
            _ => wait(async move { store.delete(&key).await })?,
        };
        match removed {
            Ok(()) | Err(object_store::Error::NotFound { .. }) => Ok(()),
            Err(error) => Err(self.failed("remove", &entry.path, &error)),
        }
    }

    /// A store has no folders.
    fn forget(&self, _: &str, _: Duration) {}

    fn abandon(&self, run: &str, _: bool) {
        let folder = format!("{RUNS}/{run}");
        let entries = self.objects(&folder).into_iter().chain(self.uploads(&folder));
        for entry in entries.flatten() {
            if self.remove(&entry).is_err() {
                // A store that does not answer would not answer for the others either.
                return;
            }
        }
    }
}

/// Returns true for an answer that says that the request was not carried out, and never will be.
fn is_refused(error: &object_store::Error) -> bool {
    use object_store::Error::{
        InvalidPath, NotImplemented, NotSupported, PermissionDenied, Unauthenticated,
    };
    matches!(
        error,
        PermissionDenied { .. }
            | Unauthenticated { .. }
            | NotSupported { .. }
            | NotImplemented { .. }
            | InvalidPath { .. }
    )
}
