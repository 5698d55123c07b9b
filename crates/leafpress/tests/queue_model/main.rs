//! The queue judged from the outside: by a model of what it promises, and by
//! threads that race on it.
//!
//! 1. Each operation is answered as the model answers it, whatever was done
//!    before: pushes by every door, claims, acks and their kin with good and
//!    bad tokens, settings, clocks set forwards and backwards, a Writer closed
//!    and opened again.
//! 2. The tables hold what the model holds, and keep the invariants of
//!    `tables.rs`.
//! 3. Under races a key is given once, a group keeps its order, and a job is
//!    acked once and never claimed again.
//!
//! `operations.rs` makes random operations, `model.rs` and `claiming.rs` carry
//! them out plainly, `system.rs` gives them to the queue, `oracle.rs` compares.
//! `examples.rs` has those that stand for a promise each, and `races.rs` the
//! threads.

mod carry_out;
mod claiming;
mod examples;
mod model;
mod operations;
mod oracle;
mod races;
mod system;
mod tables;
