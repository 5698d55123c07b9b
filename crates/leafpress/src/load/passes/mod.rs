//! Passes over an input: what CSV and typed rows share.
//!
//! `frame.rs` runs one pass on all cores; `feed.rs` is an input as the flow drives it; `columns.rs`
//! maps the input's columns to the table's; `plan.rs` is the table; `rejects.rs` takes the rows that
//! are left out; `locate.rs` finds rows again.
//!
//! Must never: know how an input is written. The folders `csv` and `rows` do.

pub mod columns;
pub mod feed;
pub mod frame;
pub mod locate;
pub mod plan;
pub mod rejects;
