//! From an input's values to a record.
//!
//! `fields/` does it for text and is the hot loop of a load; `typed/` does it for typed values.
//!
//! Must never: know blocks, threads or pages.

pub mod demands;
pub mod fields;
pub mod sink;
pub mod sources;
mod type_rules;
pub mod typed;
pub mod uuid7;
