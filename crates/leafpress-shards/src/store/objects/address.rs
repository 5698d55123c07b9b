//! From a URL to a client of its store.
//!
//! Credentials, region and endpoint are those of the environment, by the names that the crate
//! `object_store` has for them.

use std::sync::Arc;
use std::time::Duration;

use leafpress::{Error, Result};
use object_store::aws::AmazonS3Builder;
use object_store::azure::MicrosoftAzureBuilder;
use object_store::gcp::GoogleCloudStorageBuilder;
use object_store::multipart::MultipartStore;
use object_store::path::Path;
use object_store::{BackoffConfig, ObjectStore, RetryConfig};
use url::Url;

use super::creation::CreatingConnector;
use super::unfinished::Unfinished;

/// Time after which a request is not repeated any more.
pub const RETRIES_MAX: Duration = Duration::from_secs(30);
const REPEATS_MAX: usize = 10;
const PAUSE_MAX: Duration = Duration::from_secs(5);

const WRITE_IT_SO: &str = "write it as s3://BUCKET/PREFIX, and give credentials, a signature and another server by the \
                           environment: see docs/scale.md";

/// A store that was found.
pub struct Found {
    pub store: Arc<dyn ObjectStore>,
    pub pieces: Arc<dyn MultipartStore>,
    pub prefix: Path,
    pub unfinished: Option<Unfinished>,
}

/// Makes the client for a URL. Before it is known to hold no credentials and no signature, messages show none of it.
///
/// # Errors
/// [`Misuse`](leafpress::ErrorKind::Misuse) for a URL that makes no sense, and for credentials that
/// are missing or contradict one another.
pub fn open(text: &str) -> Result<Found> {
    install_cryptography();
    let url = Url::parse(text).map_err(|error| {
        Error::misuse(format!("the URL of the shards makes no sense: {error}")).to_do(WRITE_IT_SO)
    })?;
    if !url.username().is_empty() && !url.scheme().starts_with("abfs") || url.password().is_some() {
        return Err(Error::misuse("a URL of shards has no credentials").to_do(WRITE_IT_SO));
    }
    // What looks like a port may be the beginning of a secret with a slash.
    if url.port().is_some() || url.query().is_some() || url.fragment().is_some() {
        return Err(Error::misuse("a URL of shards has no port, no ? and no #").to_do(WRITE_IT_SO));
    }
    let prefix =
        Path::from_url_path(url.path()).map_err(|error| wrong(text, &error.to_string()))?;
    let failed = |error: object_store::Error| {
        Error::misuse(format!("{text}: {error}")).to_do("see docs/scale.md, object stores")
    };
    let ((store, pieces), unfinished) = match url.scheme() {
        "s3" | "s3a" => {
            let s3 = AmazonS3Builder::from_env().with_url(text).with_retry(retries());
            let s3 = s3.with_http_connector(CreatingConnector);
            let store = Arc::new(s3.clone().build().map_err(failed)?);
            let unfinished = Unfinished::new(&s3, Arc::clone(&store))?;
            (both(store), Some(unfinished))
        }
        "gs" => {
            let gcs = GoogleCloudStorageBuilder::from_env().with_url(text).with_retry(retries());
            (both(Arc::new(gcs.build().map_err(failed)?)), None)
        }
        "az" | "adl" | "azure" | "abfs" | "abfss" => {
            let azure = MicrosoftAzureBuilder::from_env().with_url(text).with_retry(retries());
            (both(Arc::new(azure.build().map_err(failed)?)), None)
        }
        _ => return Err(wrong(text, "shards are in a folder, or at s3://, gs:// or az://")),
    };
    Ok(Found { store, pieces, prefix, unfinished })
}

/// A store by both of its interfaces.
fn both(
    store: Arc<impl ObjectStore + MultipartStore>,
) -> (Arc<dyn ObjectStore>, Arc<dyn MultipartStore>) {
    (Arc::clone(&store) as _, store)
}

fn wrong(text: &str, reason: &str) -> Error {
    Error::misuse(format!("{text} is no place of shards: {reason}"))
}

fn retries() -> RetryConfig {
    let backoff = BackoffConfig { max_backoff: PAUSE_MAX, ..BackoffConfig::default() };
    RetryConfig { backoff, max_retries: REPEATS_MAX, retry_timeout: RETRIES_MAX }
}

/// TLS needs a library of cryptography; a program that has chosen one keeps it.
pub fn install_cryptography() {
    let _ = rustls::crypto::ring::default_provider().install_default();
}
