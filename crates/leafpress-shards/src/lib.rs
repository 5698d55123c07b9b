//! Shards: one table in many SQLite files, with a manifest that names them.
//!
//! ```
//! use leafpress_shards::{RouteBy, Sharder, Shards};
//!
//! # let folder = tempfile::tempdir().unwrap();
//! # let (out, input) = (folder.path().join("people"), folder.path().join("people.csv"));
//! # std::fs::write(&input, "id,name\n1,Ada\n2,Grace\n3,Joan\n").unwrap();
//! let report = Sharder::new(Shards::at(&out)?, "hash(id)".parse::<RouteBy>()?, 2)
//!     .with_parts(|loader| loader.primary_key("id"))
//!     .run(|stage| stage.load_file(&input))?;
//! assert_eq!((report.rows, report.parts), (3, 2));
//!
//! let shards = Shards::open(&out)?;
//! assert!(shards.verify(|| false)?.sound);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! ```text
//! OUT/_CURRENT                      names the run that readers take
//! OUT/_LOCK                         held while _CURRENT changes, in a folder
//! OUT/runs/RUN/manifest.json        schema, routing and parts of one run; never changed
//! OUT/runs/RUN/manifest.db          the same as a database
//! OUT/runs/RUN/parts/00003-ATTEMPT.db
//! ```
//!
//! In the order of the work: [`split`](Sharder) routes rows, [`part`](PartBuilder) presses the file of
//! one part, [`manifest`](Manifest) says what a run is, `catalog` says it as a database, [`runs`](Shards) publishes runs and removes
//! what no manifest names, [`reader`](Reader) reads the parts of one run, each by the connection
//! in its `slot`. Below them, `store` is the folder or the object store
//! that has the files, and [`cache`](Cache) has copies of parts.
//!
//! Invariants:
//! 1. A reader that begins at `_CURRENT` finds a manifest whose parts are complete and synced.
//! 2. A published manifest and the parts that it names never change.
//! 3. `_CURRENT` changes only if it names the run that the caller saw.

#![forbid(unsafe_code)]
#![cfg_attr(not(test), warn(clippy::disallowed_methods))]

mod bounds;
mod cache;
mod catalog;
mod connect;
mod content;
mod key;
mod manifest;
mod names;
mod part;
mod reader;
#[cfg(feature = "object-store")]
pub mod remote;
mod routing;
mod runs;
#[cfg(feature = "object-store")]
mod runtime;
mod scratch;
mod slot;
mod split;
mod store;
mod threads;

pub use bounds::{Sample, bounds_of};
pub use cache::Cache;
pub use key::Key;
pub use manifest::{Manifest, PageRun, PartRecord, Schema};
pub use part::PartBuilder;
pub use reader::Reader;
pub use routing::{HASH_FUNCTION, HASH_VERSION, RouteBy, Routing, hash_of};
pub use runs::{Collected, Publication, RunSummary, Runs, Shards, Verdict};
pub use scratch::{Scratch, ScratchReader};
pub use split::{ShardReport, Sharder};
