//! The one folder with `unsafe`: SQLite's C interface. It has what rusqlite does not offer of
//! it, and two calls of Linux: one that goes with its locks, one that writes early.
//!
//! | | |
//! |---|---|
//! | `interface`, `words` | the traits that a VFS implements, and their words; without `unsafe` |
//! | `connection` | questions to an open connection: deferred keys |
//! | `kept` | a connection that keeps its statements compiled |
//! | `database_file` | the file under an open database: syncing it |
//! | `fetch` | memory that the processor is told of before it is read |
//! | `hooks` | code that SQLite calls: waits for a lock, commits to the log, statements |
//! | `memory` | how much of it SQLite uses; the lookaside block |
//! | `registration` | a `Vfs` under a name: the methods that SQLite calls with a path |
//! | `file` | the methods that SQLite calls with an open file of ours |
//! | `write_lock`, `watched` | the lock under which a log is written, noted on its way to the database's file |
//! | `platform`, `handle` | the way out again: SQLite's own VFS as a `Vfs` |
//! | `mapped` | a file's bytes in memory, for as long as SQLite may look at them |
//! | `shared_memory`, `control` | data that passes through without being looked into |
//! | `range_lock` | locks that belong to one opening of a file |
//! | `byte_lock` | the lock of a file by one byte, on Windows |
//! | `shared_page` | a page of memory that processes share |
//! | `system_calls` | SQLite's calls of the system, replaced |
//! | `write_out` | the call that starts to write what the page cache holds |
//! | `signals` | the question if a signal is ignored |
//! | `fork`, `mappings` | steps around `fork`; memory that a child must let go |
//! | `guard` | results as codes, and panics that end there |
//! | `for_tests` | locks of others |
//! | `beside` | data of SQLite's calls for which the traits have no room |
//!
//! Everything that leaves this folder is safe to call with any argument. It must
//! never use the rest of this crate but its errors, its fork counter and its mutexes, hand out a
//! pointer of SQLite's, or let a panic unwind into C.
#![allow(unsafe_code)]

pub mod beside;
#[cfg(windows)]
pub mod byte_lock;
pub mod connection;
pub mod control;
pub mod database_file;
pub mod fetch;
mod file;
#[cfg(all(test, target_os = "linux"))]
pub mod for_tests;
#[cfg(unix)]
pub mod fork;
mod guard;
mod handle;
pub mod hooks;
pub mod interface;
pub mod kept;
pub mod mapped;
#[cfg(unix)]
mod mappings;
pub mod memory;
pub mod platform;
#[cfg(unix)]
pub mod range_lock;
pub mod registration;
pub mod shared_memory;
pub mod shared_page;
#[cfg(unix)]
pub mod signals;
#[cfg(unix)]
pub mod system_calls;
mod watched;
pub mod words;
pub mod write_lock;
#[cfg(target_os = "linux")]
pub mod write_out;
