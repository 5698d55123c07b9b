//! A second copy of SQLite in the same process, as Python's `sqlite3` is one beside ours.
//!
//! ```text
//! the test's executable ── leafpress ── rusqlite ── our copy of SQLite ─┐
//!        └── Neighbour (loaded at run time) ── the second copy ─────────┴─► one database
//! ```
//!
//! POSIX locks belong to a process, so two copies in one process do not see each other's,
//! and each drops the other's by closing a file. The tests of this crate put both under
//! load, kill the process, cut the power, and look from another process which locks are
//! held. `make neighbours` runs their long form.
//!
//! | file | holds |
//! |---|---|
//! | `neighbour.c`, `build.rs` | the second copy and how it is built |
//! | `library.rs` | its functions as safe Rust; locks as another process sees them. The one file with `unsafe` |
//! | `load/` | the load that both copies put on one database, and the judge |
//!
//! Must never: be a dependency of anything that is published.
#![cfg(unix)]

mod library;
pub mod load;

pub use library::{Connection, Error, ForeignLock, Neighbour, lock_by_others};
