//! The write path for SQLite.
//!
//! Rows go in as fast as the device allows, and what was acknowledged is
//! still there after the plug is pulled. Out comes an ordinary SQLite file.
//!
//! | | |
//! |---|---|
//! | [`load`] | CSV, JSON, Parquet, Arrow, databases and rows made in memory to a table, in bulk: pressed B-tree pages |
//! | [`profile`] | four ways to write a database, named by what survives a crash |
//! | [`storage`] | the abilities of the disk under a path |
//! | [`writer`] | many small transactions of many callers, grouped in few commits |
//! | [`queue`] | durable jobs in a table: leases, retries, order, no server |
//! | [`checkpoint`] | when the write-ahead log is copied into the database, and how large it may become |
//! | [`mod@neighbours`] | the processes that have a database open, their locks, and whether that is safe |
//! | [`memory`] | the memory that SQLite needs, and how to need less |
//! | [`verify`] | is a database sound? |
//! | [`io_report`] | the cost of each transaction of a script on the disk, and its reasons |
//! | [`vfs`] | SQLite's virtual file system, between it and the disk, in safe Rust |
//! | [`Error`] | what happened, where, what is on disk now, what to do |
//!
//! ```no_run
//! # #[cfg(feature = "load")] {
//! let report = leafpress::Loader::new("cities.db").load_file("cities.csv")?;
//! assert_eq!(report.rows_rejected, 0);
//! # }
//! # Ok::<(), leafpress::Error>(())
//! ```
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
//! **In a runtime** (tokio and others): the futures of the [`Writer`] and the [`Queue`], those
//! with `_async` in their names, never block the thread that polls them, and need no certain
//! runtime. All else may block: a load, [`Writer::execute`] and its kin, `submit` while the queue
//! is full, [`Writer::reader`] and what is read through it, opening, `close`, and dropping the last
//! [`Writer`]. Put these into `spawn_blocking`.
//!
//! **At `fork`**: what a process has opened stays its own. In the child each call on it is
//! [`Forked`](ErrorKind::Forked), dropping it does nothing, and no lock of the parent is lost; open
//! a new [`Writer`] there. A load or a backup that was under way must not be touched in the child.
//!
//! # Features
//!
//! | feature | adds | default |
//! |---|---|---|
//! | (none) | everything but the loader: the Writer, the queue, profiles, checks | yes |
//! | `load` | [`load`]: CSV, JSON, databases and rows made in memory | no |
//! | `arrow` | `load`, and Arrow files, streams and record batches | no |
//! | `parquet` | `arrow`, and Parquet files | no |
//!
//! The stages of a load, in the order that data flows: `input` makes fields of
//! bytes, `schema` decides types, `load` joins them and presses pages with the
//! crate `leafpress-format`. Stages do not know one another. The writer stands
//! beside them: `profile` opens, `writer` groups, `checkpoint` copies the log.

#![forbid(unsafe_code)]
#![cfg_attr(not(test), warn(clippy::disallowed_methods))]
#![cfg_attr(docsrs, feature(doc_cfg))]
// The loader uses parts of the other modules that nothing else does.
#![cfg_attr(not(feature = "load"), allow(dead_code, unused_imports))]

/// The examples of the README and the guides, which are tests like all others.
#[cfg(all(doctest, feature = "load"))]
mod examples_in_documents {
    #[doc = include_str!("../../../README.md")]
    struct Readme;
    #[doc = include_str!("../README.md")]
    struct PackageReadme;
    #[doc = include_str!("../../../docs/durability.md")]
    struct Durability;
    #[doc = include_str!("../../../docs/neighbours.md")]
    struct Neighbours;
    #[doc = include_str!("../../../docs/writer.md")]
    struct Writer;
    #[doc = include_str!("../../../docs/queue.md")]
    struct Queue;
    #[doc = include_str!("../../../docs/doctor.md")]
    struct Doctor;
}

mod advice;
pub mod checkpoint;
mod connect;
mod error;
#[cfg(fuzzing)]
#[doc(hidden)]
pub mod fuzzing;
mod hidden;
mod histogram;
#[cfg(feature = "load")]
mod input;
pub mod io_report;
mod lease;
#[cfg(feature = "load")]
pub mod load;
pub mod memory;
pub mod neighbours;
mod new_file;
mod paths;
pub mod profile;
mod prometheus;
pub mod queue;
mod refusal;
mod schema;
#[cfg(feature = "load")]
mod sort;
mod sqlite_error;
pub mod storage;
mod times;
pub mod verify;
mod vfs_error;
mod words;
pub mod writer;

// Modules of the crate below, by the names that they have there.
#[doc(inline)]
pub use leafpress_vfs as vfs;
use leafpress_vfs::{fork, rights, sync};

pub use advice::{Spelling, option_names, spell_options};
pub use error::{BadRow, Error, ErrorKind, FailedStatement, Result, ScriptError};
#[cfg(feature = "load")]
pub use load::Loader;
pub use neighbours::neighbours;
pub use profile::Profile;
pub use queue::Queue;
/// The version of rusqlite in the signatures of this crate, with its macros such as `params!`.
pub use rusqlite;
pub use words::{bytes_text, path_text, printable};
pub use writer::Writer;
