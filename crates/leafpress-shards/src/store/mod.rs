//! The homes of shards: a folder, or a part of an object store.
//!
//! | module | is |
//! |---|---|
//! | `home` | what all homes do, and the names in them |
//! | `local`, `callbacks` | local files; the functions that a home calls |
//! | `ahead`, `pieces` | pieces of a part that go up while it is pressed; their size and number |
//! | `pace` | number of pieces and parts that go up at once |
//! | `folder` | a folder |
//! | `objects` | S3, Google Cloud Storage, Azure (feature `object-store`) |
//!
//! Paths are relative to the home, with `/`. Must never: know what a manifest is.

#[cfg(feature = "object-store")]
mod ahead;
mod callbacks;
mod folder;
mod home;
mod local;
#[cfg(feature = "object-store")]
pub mod objects;
#[cfg(feature = "object-store")]
mod pace;
#[cfg(feature = "object-store")]
mod pieces;

use std::path::Path;
use std::sync::Arc;

#[cfg(not(feature = "object-store"))]
use leafpress::Error;
use leafpress::Result;

pub use self::callbacks::Stop;
pub use self::home::{Entry, Store, unique_digits};
pub use self::local::Local;

/// Opens the home that a path or URL names. It need not be there yet.
///
/// # Errors
/// [`Misuse`](leafpress::ErrorKind::Misuse) for a URL that makes no sense;
/// [`Unsupported`](leafpress::ErrorKind::Unsupported) for one of a store that this build cannot reach.
pub fn open(root: &Path) -> Result<Arc<dyn Store>> {
    match root.to_str().filter(|text| text.contains("://")) {
        Some(url) => open_url(url),
        None => Ok(Arc::new(folder::Folder::new(root.to_owned()))),
    }
}

#[cfg(feature = "object-store")]
fn open_url(url: &str) -> Result<Arc<dyn Store>> {
    Ok(Arc::new(objects::Objects::open(url)?))
}

#[cfg(not(feature = "object-store"))]
fn open_url(_: &str) -> Result<Arc<dyn Store>> {
    // The URL is not shown: it may hold credentials.
    Err(Error::unsupported("a URL names an object store, and this build of leafpress has none")
        .to_do("build it with the feature object-store, or name a folder"))
}
