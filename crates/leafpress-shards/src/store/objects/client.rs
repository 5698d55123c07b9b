//! A part of an object store: paths to keys, requests to answers and errors.

use std::fmt;
use std::sync::Arc;
use std::time::SystemTime;

use bytes::Bytes;
use futures_util::TryStreamExt as _;
use leafpress::vfs::fork::Process;
use leafpress::vfs::locks;
use leafpress::{Error, Result, path_text};
use object_store::client::HttpErrorKind;
use object_store::multipart::MultipartStore;
use object_store::path::Path;
use object_store::{ObjectMeta, ObjectStore, ObjectStoreExt as _, PutOptions, UpdateVersion};

use super::address;
use super::unfinished::{Unfinished, Upload};
use crate::runtime::wait;
use crate::store::home::{Entry, Store as _};
use crate::store::pace::{Pace, kind_of};

/// Advice where a request took longer than its limit.
const GIVE_TIME: &str = "see that the store answers; if the network is slow, give each request more time by AWS_TIMEOUT, \
                         GOOGLE_TIMEOUT or AZURE_TIMEOUT, such as 5m";

/// A part of an object store.
pub struct Objects {
    /// Its URL, without a slash at the end.
    pub url: String,
    prefix: Path,
    pub store: Arc<dyn ObjectStore>,
    /// The store once more, for uploads whose pieces come in any order.
    pub pieces: Option<Arc<dyn MultipartStore>>,
    pub unfinished: Option<Unfinished>,
    /// Of all that is large and goes up.
    pub pace: Arc<Pace>,
    /// The process that opened it: connections cannot be used in a child of `fork`.
    process: Process,
}

impl Objects {
    /// Opens what a URL names, with credentials from the environment. Sends nothing.
    ///
    /// # Errors
    /// As [`crate::store::open`].
    pub fn open(url: &str) -> Result<Self> {
        let found = address::open(url)?;
        let there = Self::on(found.store, Some(found.pieces), url, found.prefix);
        Ok(Self { unfinished: found.unfinished, ..there })
    }

    /// A part of a store that is open, and the same for uploads whose pieces come in any order. `url` is
    /// its name in messages.
    pub fn on(
        store: Arc<dyn ObjectStore>,
        pieces: Option<Arc<dyn MultipartStore>>,
        url: &str,
        prefix: Path,
    ) -> Self {
        let url = url.trim_end_matches('/').to_owned();
        // From then on forks are counted.
        locks::ensure();
        let (unfinished, pace, process) = (None, Arc::new(Pace::new()), Process::current());
        Self { url, prefix, store, pieces, unfinished, pace, process }
    }

    /// The key of a path.
    pub fn key(&self, path: &str) -> Path {
        path.split('/').filter(|name| !name.is_empty()).fold(self.prefix.clone(), Path::join)
    }

    /// The path of a key.
    pub fn path(&self, key: &Path) -> Option<String> {
        let names = key.prefix_match(&self.prefix)?;
        Some(names.map(|name| name.as_ref().to_owned()).collect::<Vec<_>>().join("/"))
    }

    /// The store, in the process that opened it.
    pub fn store(&self) -> Result<Arc<dyn ObjectStore>> {
        self.process.check("shards")?;
        Ok(Arc::clone(&self.store))
    }

    /// Content and version of an object; `None` if it is not there.
    pub fn get(&self, path: &str) -> Result<Option<(Bytes, UpdateVersion)>> {
        let (store, key) = (self.store()?, self.key(path));
        let found = wait(async move {
            let found = store.get(&key).await?;
            let meta = &found.meta;
            let version =
                UpdateVersion { e_tag: meta.e_tag.clone(), version: meta.version.clone() };
            Ok((found.bytes().await?, version))
        })?;
        match found {
            Ok(found) => Ok(Some(found)),
            Err(object_store::Error::NotFound { .. }) => Ok(None),
            Err(error) => Err(self.failed("read", path, &error)),
        }
    }

    /// Writes an object. The outer error: this process cannot.
    pub fn put(
        &self,
        path: &str,
        bytes: Bytes,
        options: PutOptions,
    ) -> Result<object_store::Result<()>> {
        let (store, key) = (self.store()?, self.key(path));
        wait(async move { store.put_opts(&key, bytes.into(), options).await.map(drop) })
    }

    /// The objects below a path.
    pub fn objects(&self, path: &str) -> Result<Vec<Entry>> {
        let (store, key) = (self.store()?, self.key(path));
        let found: object_store::Result<Vec<ObjectMeta>> =
            wait(async move { store.list(Some(&key)).try_collect().await })?;
        let entry = |found: ObjectMeta| {
            let path = self.path(&found.location)?;
            let modified = Some(SystemTime::from(found.last_modified));
            Some(Entry { path, bytes: found.size, modified, upload: None })
        };
        let found = found.map_err(|error| self.failed("list", path, &error))?;
        Ok(found.into_iter().filter_map(entry).collect())
    }

    /// An error of the store about an object.
    pub fn failed(&self, action: &'static str, path: &str, error: &object_store::Error) -> Error {
        use object_store::Error::{NotFound, PermissionDenied, Unauthenticated};
        use std::io::ErrorKind as Io;

        let (kind, to_do) = match error {
            NotFound { .. } => (Io::NotFound, None),
            PermissionDenied { .. } | Unauthenticated { .. } => {
                (Io::PermissionDenied, Some("give credentials that may do that: see docs/scale.md"))
            }
            _ if kind_of(error) == HttpErrorKind::Timeout => (Io::Other, Some(GIVE_TIME)),
            _ => (Io::Other, None),
        };
        let source = std::io::Error::new(kind, says(error));
        let error = Error::io(action, &self.shown(path), source);
        match to_do {
            Some(to_do) => error.to_do(to_do),
            None => error,
        }
    }

    /// Unfinished uploads below a path.
    pub fn uploads(&self, path: &str) -> Result<Vec<Entry>> {
        let Some(unfinished) = &self.unfinished else { return Ok(Vec::new()) };
        let found = unfinished.list(&self.key(path))?;
        let found = found.map_err(|error| self.failed("list the uploads below", path, &error))?;
        let entry = |upload: Upload| {
            let path = self.path(&upload.key)?;
            let (modified, upload) = (upload.initiated, Some(upload.id));
            Some(Entry { path, bytes: 0, modified, upload })
        };
        Ok(found.into_iter().filter_map(entry).collect())
    }

    /// The error of a write whose answer is lost.
    pub fn unknown(&self, path: &str, answer: &str) -> Error {
        let shown = path_text(self.shown(path));
        Error::uncertain(format!("{shown} may be changed or not: {answer}"))
    }
}

impl fmt::Debug for Objects {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.debug_struct("Objects").field("url", &self.url).finish_non_exhaustive()
    }
}

/// An error of the store, in one line.
pub fn says(error: &object_store::Error) -> String {
    error.to_string().split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;
    use std::time::Duration;

    use object_store::aws::AmazonS3Builder;
    use object_store::{ClientOptions, RetryConfig};

    use super::*;

    #[test]
    fn a_request_without_an_answer_names_the_way_to_more_time() {
        address::install_cryptography();
        // The system makes the connections, and no program answers.
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let options =
            ClientOptions::new().with_allow_http(true).with_timeout(Duration::from_millis(100));
        let store = AmazonS3Builder::new()
            .with_endpoint(format!("http://{}", listener.local_addr().unwrap()))
            .with_bucket_name("b")
            .with_skip_signature(true)
            .with_client_options(options)
            .with_retry(RetryConfig { max_retries: 0, ..RetryConfig::default() })
            .build()
            .unwrap();
        let objects = Objects::on(Arc::new(store), None, "s3://b", Path::default());
        let sent = objects.put("x", Bytes::from_static(b"x"), PutOptions::default()).unwrap();
        let error = objects.failed("put up", "x", &sent.unwrap_err());
        assert!(error.to_string().contains("AWS_TIMEOUT"), "{error}");
        let lost = object_store::Error::Generic { store: "S3", source: "reset".into() };
        assert!(!objects.failed("put up", "x", &lost).to_string().contains("AWS_TIMEOUT"));
    }
}
