//! SQLite's virtual file system, in safe Rust.
//!
//! SQLite reaches the disk only through a VFS. This crate lets one be written
//! without `unsafe`: implement [`Vfs`] and [`VfsFile`], [`register`] it under a
//! name, and open connections with that name. [`PlatformVfs`] is the platform's
//! own, so that a *decorator*, which holds another VFS and hands on most calls,
//! changes only what it wants to: it is a [`VfsLayer`], its files are [`FileLayer`]s,
//! and [`SlowSync`] is the smallest of them.
//!
//! ```text
//! SQLite ──C──► c_api (glue) ──► your Vfs ──► PlatformVfs ──C──► SQLite's own VFS
//! ```
//!
//! ```
//! use std::time::Duration;
//! use leafpress_vfs::{PlatformVfs, SlowSync, register};
//! # let folder = tempfile::tempdir()?;
//! # let path = folder.path().join("a.db");
//!
//! let slow = SlowSync::new(PlatformVfs::new(), Duration::from_millis(5));
//! let registration = register("slow-disk", slow)?;
//! let connection = rusqlite::Connection::open_with_flags_and_vfs(
//!     path, rusqlite::OpenFlags::default(), registration.name(),
//! )?;
//! connection.execute_batch("CREATE TABLE t (x)")?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # What holds for every method
//!
//! - One file is used by one thread at a time, but not always by the same one.
//! - A panic becomes `SQLITE_IOERR`; the file is used and closed afterwards all the same.
//! - Randomness, sleeping, the time and extensions are always the platform's.
//! - `PRAGMA mmap_size` has an effect only where the file and each layer over it say that
//!   they map memory: what is mapped is read without a call of [`VfsFile::read`].
//! - Paths are UTF-8. A database whose path is not cannot be opened.
//!
//! Must never: hold a promise about durability. What a sync means is up to the
//! implementation, and is tested by the crash simulator.
//!
//! # For the other crates of Leafpress
//! Modules that are hidden from this documentation are for them, and may change at any time.

#![cfg_attr(not(test), warn(clippy::disallowed_methods))]

#[doc(hidden)]
pub mod aligned;
pub mod atomic;
#[doc(hidden)]
pub mod atomic_writes;
#[doc(hidden)]
pub mod buckets;
mod c_api;
pub mod count;
#[doc(hidden)]
pub mod device;
mod error;
mod file_identity;
#[doc(hidden)]
pub mod fork;
#[doc(hidden)]
pub mod gathered_database;
#[doc(hidden)]
pub mod gathered_log;
mod layer;
pub mod locks;
#[doc(hidden)]
pub mod paths;
mod platform_disk;
mod process_vfs;
#[doc(hidden)]
pub mod rights;
mod slow_disk;
mod slow_sync;
#[cfg(unix)]
mod streams;
#[doc(hidden)]
pub mod sync;
#[doc(hidden)]
pub mod text;
#[doc(hidden)]
pub mod watch;
mod write_buffer;

#[cfg(unix)]
#[doc(hidden)]
pub use c_api::signals;
#[doc(hidden)]
pub use c_api::{connection, database_file, fetch, hooks, kept, memory, shared_page};

pub use c_api::control::FileControl;
pub use c_api::interface::{Opened, Vfs, VfsFile};
pub use c_api::mapped::MappedBytes;
pub use c_api::platform::PlatformVfs;
pub use c_api::registration::Registration;
pub use c_api::shared_memory::ShmRegion;
pub use c_api::words::{
    Access, FileKind, LockLevel, OpenFlags, ShmLock, SyncKind, VfsError, VfsResult, characteristics,
};
pub use c_api::write_lock::WriteLock;
pub use error::{Error, ErrorKind, Result};
#[doc(hidden)]
pub use file_identity::FileIdentity;
pub use layer::{FileLayer, VfsLayer};
pub use locks::{register, register_default};
pub use platform_disk::PlatformDisk;
pub use process_vfs::{LeafpressVfs, leafpress_vfs, leafpress_vfs_assumed};
pub use slow_disk::{
    DiskModel, DiskSource, Simulation, SimulationStats, SlowDisk, simulate, simulation,
};
pub use slow_sync::SlowSync;
pub use text::{bytes_text, path_text, printable};
