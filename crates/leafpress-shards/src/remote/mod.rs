//! Parts read at a distance: a read-only VFS over ranges of an object in a store.
//!
//! A part need not be fetched to be read. SQLite asks for pages, and each page that is not in memory
//! is a range of the object. A part pressed with [`Layout::Remote`](leafpress::load::Layout) has its
//! schema and all interior pages in front; one request at the open fetches them, and then a row is one
//! more request.
//!
//! ```text
//! SQLite ──► vfs ──► pages: front, cache, read-ahead ──► object: requests, retries, checks ──► store
//! ```
//!
//! Invariants:
//! 1. All bytes of one opening are of one version of the object: a change is an error, never a mix.
//! 2. A page that is in memory is not requested again, and two threads do not request one page at once.
//! 3. A thread that waits for a request holds no lock, so other threads go on.
//! 4. Each read ends within the time limit.
//!
//! Must never: write to the store.

mod object;
mod pages;
mod vfs;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use leafpress::{Error, Result};
use leafpress_vfs::{Registration, register};
use object_store::path::Path as ObjectPath;
use object_store::{ClientOptions, ObjectStore, RetryConfig};
use rusqlite::Connection;
use url::Url;

use self::object::Object;
pub use self::object::RemoteStats;
use self::pages::RemotePages;
use self::vfs::{NAME, RemoteVfs};
use crate::connect;
use crate::manifest::PartRecord;

/// What errors in a child of `fork` call a database.
const THING: &str = "database at a distance";

/// Limits of the reads from an object.
#[derive(Debug, Clone)]
#[non_exhaustive]
#[must_use]
pub struct RemoteOptions {
    /// Bytes of pages that are kept in memory, besides those in front.
    pub cache_bytes: usize,
    /// Longest time of one read, with all its attempts.
    pub timeout: Duration,
}

impl Default for RemoteOptions {
    fn default() -> Self {
        Self { cache_bytes: 64 << 20, timeout: Duration::from_secs(30) }
    }
}

impl RemoteOptions {
    /// Sets the bytes of pages that are kept in memory.
    pub fn cache_bytes(mut self, bytes: usize) -> Self {
        self.cache_bytes = bytes;
        self
    }

    /// Sets the longest time of one read.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }
}

/// A database in an object store, read by ranges.
///
/// Its connections share one cache. Each may be used by a thread of its own. It belongs to the process that opened it: in
/// a child of `fork`, [`connect`](Self::connect) and [`explain`](Self::explain) give [`Forked`](leafpress::ErrorKind::Forked).
#[derive(Debug)]
pub struct RemoteDatabase {
    registration: Registration,
    pages: Arc<RemotePages>,
}

impl RemoteDatabase {
    /// Opens the object at `path`, which is a whole SQLite database. With the `record` of its part one
    /// request fetches all that lookups have in common; without it there may be a few more.
    ///
    /// # Errors
    /// [`NotFound`](leafpress::ErrorKind::NotFound), [`Changed`](leafpress::ErrorKind::Changed) if the
    /// object has another size than the record says,
    /// [`NotADatabase`](leafpress::ErrorKind::NotADatabase), [`Io`](leafpress::ErrorKind::Io) if the
    /// store does not answer in time or refuses.
    pub fn open(
        store: Arc<dyn ObjectStore>,
        path: &str,
        record: Option<&PartRecord>,
        options: &RemoteOptions,
    ) -> Result<Self> {
        static OPENED: AtomicU64 = AtomicU64::new(0);
        let path = ObjectPath::parse(path).map_err(|source| {
            Error::misuse(format!("{path:?} is no path of an object: {source}"))
        })?;
        let object = Object::new(store, path, options.timeout);
        let pages = Arc::new(RemotePages::open(object, record, options.cache_bytes)?);
        let name = format!("leafpress-remote-{}", OPENED.fetch_add(1, Ordering::Relaxed));
        let registration = register(&name, RemoteVfs::new(Arc::clone(&pages)))?;
        Ok(Self { registration, pages })
    }

    /// Opens a database that a web server has, by its URL, as [`open`](Self::open) does. The server must
    /// answer requests for ranges.
    ///
    /// # Errors
    /// [`Misuse`](leafpress::ErrorKind::Misuse) if it is no URL of HTTP, or one with credentials or a query; as
    /// [`open`](Self::open).
    pub fn open_url(
        url: &str,
        record: Option<&PartRecord>,
        options: &RemoteOptions,
    ) -> Result<Self> {
        let (folder, name) = split_url(url)?;
        // The client escapes it again.
        let name =
            ObjectPath::from_url_path(name).map_err(|error| wrong_url(&error.to_string()))?;
        // The error of `HttpBuilder` would show the URL, and so do those of requests.
        let parsed = Url::parse(folder).map_err(|error| wrong_url(&error.to_string()))?;
        if !parsed.username().is_empty() || parsed.password().is_some() {
            return Err(wrong_url("it has credentials, which are not sent"));
        }
        // Else a client for HTTPS cannot be made. If the program has chosen one, that stays.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let client = ClientOptions::new()
            .with_allow_http(true)
            .with_timeout(options.timeout)
            .with_connect_timeout(options.timeout);
        // `object` tries again itself, within the time limit.
        let retry = RetryConfig { max_retries: 0, ..RetryConfig::default() };
        let store = object_store::http::HttpBuilder::new()
            .with_url(folder)
            .with_client_options(client)
            .with_retry(retry)
            .build()
            .map_err(|source| wrong_url(&source.to_string()))?;
        Self::open(Arc::new(store), name.as_ref(), record, options)
    }

    /// Opens a connection.
    ///
    /// # Errors
    /// [`Sqlite`](leafpress::ErrorKind::Sqlite) if SQLite refuses; [`Forked`](leafpress::ErrorKind::Forked).
    pub fn connect(&self) -> Result<Connection> {
        self.pages.process().check(THING)?;
        connect::read_only_through(Path::new(NAME), self.registration.name())
    }

    /// The requests so far, of all connections.
    pub fn stats(&self) -> RemoteStats {
        self.pages.object().stats()
    }

    /// The error of the last request that failed, if it was not asked for yet.
    pub(crate) fn fault(&self) -> Option<Error> {
        // The parent's locks may be held for ever in a child.
        match self.pages.process().check(THING) {
            Ok(()) => self.pages.take_fault(),
            Err(forked) => Some(forked.into()),
        }
    }

    /// The error behind one of SQLite's: if a request failed, what the store answered.
    pub fn explain(&self, source: rusqlite::Error) -> Error {
        self.fault().unwrap_or_else(|| Error::sqlite("read a database at a distance", source))
    }
}

/// The URL of the folder, and the name of the file in it.
fn split_url(url: &str) -> Result<(&str, &str)> {
    let is_http = url.starts_with("http://") || url.starts_with("https://");
    let split = url.rsplit_once('/').filter(|(folder, name)| {
        !name.is_empty() && folder.len() > "https://".len() && !url.contains(['?', '#'])
    });
    split.filter(|_| is_http).ok_or_else(|| wrong_url("it names no file, or has a ? or #"))
}

/// The URL is not shown: it may hold credentials or a signature.
fn wrong_url(reason: &str) -> Error {
    Error::misuse(format!("the URL of the database is wrong: {reason}"))
        .to_do("name it as http://host/path/file.db or https://host/path/file.db")
}
