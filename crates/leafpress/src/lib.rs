//! The write path for SQLite: bulk loads, small transactions of many threads, and durable jobs, all
//! in an ordinary SQLite file.
//!
//! ```
//! # let folder = tempfile::tempdir().unwrap();
//! # let path = folder.path().join("app.db");
//! let writer = leafpress::Writer::builder(&path).open()?;
//! writer.execute_batch("CREATE TABLE note(text)")?;
//! writer.execute("INSERT INTO note VALUES (?1)", ["on disk when this returns"])?;
//! # Ok::<(), leafpress::Error>(())
//! ```
//!
//! With the feature `load`:
//!
//! ```no_run
//! # #[cfg(feature = "load")] {
//! let report = leafpress::Loader::new("cities.db").load_file("cities.csv")?;
//! assert_eq!(report.rows_rejected, 0);
//! # }
//! # Ok::<(), leafpress::Error>(())
//! ```
//!
//! | module or type | is for |
//! |---|---|
//! | [`writer`] | many small transactions of many callers, grouped in few commits |
//! | [`queue`] | durable jobs in a table: leases, retries, order, no server |
//! | [`load`] | CSV, JSON, Parquet, Arrow, other databases and rows made in memory, in bulk into a table |
//! | [`profile`] | four ways to write a database, named by what survives a crash |
//! | [`checkpoint`] | when the write-ahead log is copied into the database, and how large it may become |
//! | [`storage`] | the abilities of the disk under a path |
//! | [`mod@neighbours`] | the processes that have a database open, their locks, and whether that is safe |
//! | [`verify`] | SQLite's verdict on a database |
//! | [`memory`] | the memory that SQLite needs, and ways to need less |
//! | [`vfs`] | SQLite's virtual file system, between it and the disk, in safe Rust |
//! | [`Error`] | what happened, where, what is on disk now, what to do |
//!
//! **In a runtime** (tokio and others): the futures of the [`Writer`] and the [`Queue`], whose names
//! end with `_async`, never block the thread that polls them, and work in any runtime. All other
//! calls may block: a load, [`Writer::execute`], `submit` while the queue is full,
//! [`Writer::reader`] and reads through it, opening, `close`, and dropping the last [`Writer`]. Make
//! these in `spawn_blocking`.
//!
//! **At `fork`**: a child must not use what its parent opened. Each call on it there fails with
//! [`Forked`](ErrorKind::Forked), dropping it does nothing, and the parent loses no lock. Open a new
//! [`Writer`] in the child. A load or a backup that was under way must not be touched there.
//!
//! # Features
//!
//! No feature is on by default. Without one, the crate has the Writer, the queue, profiles and checks.
//!
//! | feature | adds |
//! |---|---|
//! | `load` | [`load`]: CSV, JSON, databases and rows made in memory |
//! | `arrow` | `load`, and Arrow files, streams and record batches |
//! | `parquet` | `arrow`, and Parquet files |
//!
//! SQLite is compiled in, which needs a C compiler. A dry run of a load into an existing table, and
//! the fast ways into a table and to an index, need SQLite's table of pages: build with
//! `LIBSQLITE3_FLAGS = "-DSQLITE_ENABLE_DBPAGE_VTAB"` in the `[env]` of your `.cargo/config.toml`.

#![forbid(unsafe_code)]
#![cfg_attr(not(test), warn(clippy::disallowed_methods))]
#![cfg_attr(docsrs, feature(doc_cfg))]
// Sharing among processes, wake-ups and looks at locks are Unix's.
#![cfg_attr(not(unix), allow(dead_code))]
// The loader uses parts of the other modules that nothing else does, and the documentation links to it.
#![cfg_attr(
    not(feature = "load"),
    allow(dead_code, unused_imports, rustdoc::broken_intra_doc_links)
)]

/// The examples of the package's README, which are tests like all others.
#[cfg(all(doctest, feature = "load"))]
#[doc = include_str!("../README.md")]
struct PackageReadme;

mod advice;
#[cfg(feature = "load")]
mod cancel;
mod candidate;
pub mod checkpoint;
mod connect;
#[cfg(feature = "load")]
mod cpu;
mod error;
mod failed_commit;
mod failed_sync;
mod file_kind;
#[cfg(fuzzing)]
#[doc(hidden)]
pub mod fuzzing;
mod hex;
#[doc(hidden)]
pub mod hidden;
mod histogram;
#[cfg(feature = "load")]
mod input;
mod inside;
mod lease;
#[cfg(feature = "load")]
pub mod load;
mod machine_memory;
pub mod memory;
pub mod neighbours;
mod new_file;
mod paths;
pub mod profile;
mod prometheus;
pub mod queue;
mod refusal;
mod schema;
#[doc(hidden)]
pub mod script;
#[cfg(feature = "load")]
mod sort;
#[doc(hidden)]
pub mod sqlite_error;
pub mod storage;
#[cfg(feature = "load")]
mod threads;
#[doc(hidden)]
pub mod times;
pub mod verify;
mod vfs_error;
mod wal_reset;
mod words;
pub mod writer;

// Modules of the crate below, by the names that they have there.
#[doc(inline)]
pub use leafpress_vfs as vfs;
use leafpress_vfs::{fork, rights, sync};

pub use advice::{Spelling, option_names, spell_options};
#[doc(hidden)]
pub use candidate::Candidate;
pub use error::{BadRow, Error, ErrorKind, FailedStatement, Result, ScriptError};
#[doc(hidden)]
pub use hex::hex_digits;
#[cfg(feature = "load")]
pub use load::Loader;
pub use neighbours::neighbours;
pub use profile::Profile;
pub use queue::Queue;
#[doc(hidden)]
pub use refusal::why_no_path;
/// The version of rusqlite in the signatures of this crate, with its macros such as `params!`.
pub use rusqlite;
#[doc(hidden)]
pub use schema::sql_words::{SqlWord, sql_words};
#[doc(hidden)]
pub use schema::{quote_identifier, quoted_name};
pub use words::{bytes_text, path_text, printable};
#[doc(hidden)]
pub use words::{counted, path_as_text};
pub use writer::Writer;
