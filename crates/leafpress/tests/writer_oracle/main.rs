//! The Writer judged from the outside: by the same calls, each in a transaction
//! of its own, one after the other, on stock SQLite.
//!
//! 1. Each caller gets the outcome that it would have had alone: the same
//!    values, the same error, whatever the others of its group did.
//! 2. The database holds what the calls would have left one by one, in the
//!    order in which they were submitted.
//! 3. Nothing of a call that failed is there, and nothing is missing of one
//!    that was answered with success.
//!
//! `calls.rs` makes random calls, `model.rs` carries them out plainly,
//! `oracle.rs` compares. `traps.rs` has a test for each trap that grouping is
//! known for, `tickets.rs` for what callers wait on, `tasks.rs` for callers that are tasks, `alone.rs` for callers that work at the engine themselves, `backup.rs` for copies, `disk.rs` for a disk that
//! is full or broken, `itself.rs` for a statement that is alone and commits itself.

mod alone;
mod backup;
mod calls;
mod closures;
mod disk;
mod errors;
mod interrupts;
mod itself;
mod model;
#[cfg(unix)]
mod moved;
mod oracle;
mod parameters;
mod tasks;
mod tickets;
mod traps;
