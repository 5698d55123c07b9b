//! One object of a store, read by ranges: requests with retries, a time limit and checks.
//!
//! Must never: hand out bytes of two versions of the object.

use std::io;
use std::ops::Range;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use bytes::Bytes;
use leafpress::{Error, Result};
use object_store::path::Path as ObjectPath;
use object_store::{GetOptions, ObjectMeta, ObjectStore};

use crate::runtime;

/// A request is made so often at most.
const ATTEMPTS_MAX: u32 = 4;
/// Wait before the second attempt; it doubles with each further one.
const FIRST_WAIT: Duration = Duration::from_millis(100);

/// Requests to the store so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct RemoteStats {
    /// Number of requests, with those that failed.
    pub requests: u64,
    /// Bytes that came back.
    pub bytes: u64,
}

/// An object, and what the first answer said of it.
#[derive(Debug)]
pub struct Object {
    store: Arc<dyn ObjectStore>,
    path: ObjectPath,
    timeout: Duration,
    first: OnceLock<ObjectMeta>,
    requests: AtomicU64,
    bytes: AtomicU64,
}

/// Failure of one request.
enum Fault {
    /// Another attempt may succeed.
    Passing(io::Error),
    Final(Error),
}

impl Object {
    pub fn new(store: Arc<dyn ObjectStore>, path: ObjectPath, timeout: Duration) -> Self {
        let (requests, bytes) = (AtomicU64::new(0), AtomicU64::new(0));
        Self { store, path, timeout, first: OnceLock::new(), requests, bytes }
    }

    /// The name of the object, for messages.
    pub fn name(&self) -> &str {
        self.path.as_ref()
    }

    /// Size of the object, once a range of it was fetched.
    pub fn size(&self) -> u64 {
        self.first.get().map_or(0, |first| first.size)
    }

    pub fn stats(&self) -> RemoteStats {
        RemoteStats {
            requests: self.requests.load(Ordering::Relaxed),
            bytes: self.bytes.load(Ordering::Relaxed),
        }
    }

    /// Fetches a range, which ends at the end of the object at the latest.
    ///
    /// # Errors
    /// The store's answer, or a time that is over.
    pub fn fetch(&self, range: Range<u64>) -> Result<Bytes> {
        self.fetch_since(range, Instant::now())
    }

    /// As [`fetch`](Self::fetch), for a read that began before.
    ///
    /// # Errors
    /// As [`fetch`](Self::fetch).
    pub fn fetch_since(&self, range: Range<u64>, started: Instant) -> Result<Bytes> {
        let (mut wait, mut attempt) = (FIRST_WAIT, 1);
        loop {
            let left = self.left(started)?;
            let fault = match self.request(range.clone(), left) {
                Ok(bytes) => return Ok(bytes),
                Err(Fault::Final(error)) => return Err(error),
                Err(Fault::Passing(fault)) => fault,
            };
            if attempt == ATTEMPTS_MAX || started.elapsed() + wait >= self.timeout {
                return Err(self.gave_up(fault));
            }
            tracing::debug!(object = self.name(), %fault, attempt, "a request is made again");
            std::thread::sleep(wait);
            wait *= 2;
            attempt += 1;
        }
    }

    /// The time that is left of a read.
    ///
    /// # Errors
    /// The time is over.
    pub fn left(&self, started: Instant) -> Result<Duration> {
        let left = self.timeout.saturating_sub(started.elapsed());
        if left.is_zero() {
            return Err(self.gave_up(no_answer()));
        }
        Ok(left)
    }

    fn gave_up(&self, fault: io::Error) -> Error {
        Error::io("read the object", Path::new(self.name()), fault)
            .on_disk("nothing was changed")
            .to_do("try again when the store answers")
    }

    fn request(&self, range: Range<u64>, left: Duration) -> Result<Bytes, Fault> {
        self.requests.fetch_add(1, Ordering::Relaxed);
        let wanted_bytes = range.end - range.start;
        let options = GetOptions {
            range: Some(range.clone().into()),
            // A weak tag matches nothing; the answer is compared all the same.
            if_match: self.first.get().and_then(|it| it.e_tag.clone()).filter(|it| is_strong(it)),
            ..GetOptions::default()
        };
        let (store, path) = (Arc::clone(&self.store), self.path.clone());
        let (sender, receiver) = sync_channel(1);
        let request = async move {
            let answer = store.get_opts(&path, options).await?;
            let meta = answer.meta.clone();
            Ok((meta, answer.bytes().await?))
        };
        let task = runtime::handle().map_err(Fault::Final)?.spawn(async move {
            // The receiver has gone where the time was over.
            let _ = sender.send(request.await);
        });
        let answer = receiver.recv_timeout(left).map_err(|error| {
            task.abort();
            Fault::Passing(match error {
                RecvTimeoutError::Timeout => no_answer(),
                RecvTimeoutError::Disconnected => io::Error::other("the request ended early"),
            })
        })?;
        let (meta, bytes) = answer.map_err(|error| self.fault(error))?;
        self.bytes.fetch_add(bytes.len() as u64, Ordering::Relaxed);
        self.compare(&meta)?;
        let there = meta.size.saturating_sub(range.start).min(wanted_bytes);
        if bytes.len() as u64 != there {
            let says = format!("{} bytes came in place of {there}", bytes.len());
            return Err(Fault::Passing(io::Error::new(io::ErrorKind::UnexpectedEof, says)));
        }
        Ok(bytes)
    }

    /// Refuses an answer that is about another version than the first one.
    fn compare(&self, meta: &ObjectMeta) -> Result<(), Fault> {
        let first = self.first.get_or_init(|| meta.clone());
        let same = first.size == meta.size
            && first.e_tag == meta.e_tag
            && (first.e_tag.is_some() || first.last_modified == meta.last_modified);
        if same { Ok(()) } else { Err(Fault::Final(self.changed())) }
    }

    fn changed(&self) -> Error {
        Error::changed(format!("the object {} was replaced while it was read", self.name()))
            .to_do("open it again")
    }

    fn fault(&self, error: object_store::Error) -> Fault {
        use object_store::Error as Store;
        let name = self.name();
        Fault::Final(match error {
            Store::NotFound { .. } => {
                Error::not_found("object", name, format!("there is no object {name}"))
            }
            Store::Precondition { .. } | Store::NotModified { .. } => self.changed(),
            Store::PermissionDenied { .. } | Store::Unauthenticated { .. } => {
                let source = io::Error::new(io::ErrorKind::PermissionDenied, words(&error));
                Error::io("read the object", Path::new(name), source)
                    .to_do("give credentials that may read it")
            }
            Store::NotSupported { .. } | Store::NotImplemented { .. } => {
                Error::unsupported(format!("the store has no ranges of {name}: {}", words(&error)))
                    .to_do("fetch the whole file, or have a server that answers ranges")
            }
            error => return Fault::Passing(io::Error::other(words(&error))),
        })
    }
}

fn no_answer() -> io::Error {
    io::Error::new(io::ErrorKind::TimedOut, "no answer in time")
}

fn is_strong(tag: &str) -> bool {
    !tag.starts_with("W/")
}

/// An error and its causes, in one line.
fn words(error: &object_store::Error) -> String {
    let mut words = error.to_string();
    let mut cause = std::error::Error::source(error);
    while let Some(source) = cause {
        let source_words = source.to_string();
        if !words.contains(&source_words) {
            words.push_str(": ");
            words.push_str(&source_words);
        }
        cause = source.source();
    }
    words
}
