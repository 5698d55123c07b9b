//! SQLite's file format, for writers.
#![forbid(unsafe_code)]
mod value;
pub use value::Value;
