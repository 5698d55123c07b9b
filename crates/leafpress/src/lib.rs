//! The write path for SQLite.
mod error;
pub use error::{BadRow, Error, ErrorKind, Result};
pub mod input;
