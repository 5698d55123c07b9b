//! The one folder with `unsafe`: what rusqlite does not offer of SQLite's C interface.
//!
//! | | |
//! |---|---|
//! | `connection` | questions to an open connection: deferred keys, checkpoints, build options |
//!
//! Everything that leaves this folder is safe to call with any argument. It must
//! never hand out a pointer of SQLite's, and never let a panic unwind into C.
#![allow(unsafe_code)]

#[allow(dead_code, reason = "the writer and the checkpointer, which use it, come later")]
pub(crate) mod connection;
