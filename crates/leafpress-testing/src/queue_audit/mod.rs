//! Rules that hold of a database with queues. They are written anew from the description of the
//! tables (`docs/queue.md`) in plain SQL and plain Rust.
//!
//! ```text
//! a database at any moment ──► rules: queries that must find nothing
//! every change of a job, by triggers ──► trail ──► replayed: order, slots, keys
//! ```
//!
//! Must never: call the code under test. It reads what any `sqlite3` would read.

mod rules;
mod trail;

pub use rules::broken_rules;
pub use trail::{Change, Limits, Replay, begin_trail, read_trail};
