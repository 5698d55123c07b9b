//! Delimited text: one block of whole lines to records, fields and values.
//!
//! The flow, for each block that [`BlockReader`](super::block::BlockReader)
//! hands out:
//!
//! 1. [`Scanner::scan`](scan::Scanner::scan) indexes the block on the guess
//!    that it starts at a record's start; any number of blocks at once.
//! 2. [`Carry::settle`](carry::Carry::settle), in block order: where the block
//!    before ended inside quotes, its last record is put in front and the
//!    guess is corrected; an unfinished record at the end is kept back.
//! 3. [`FieldIndex::records`](scan::FieldIndex::records) walks the records,
//!    and [`field`](field::field) makes values of them; again in parallel.
//!
//! The rules are those of Python's `csv` module in its non-strict mode: see
//! [`scan`]. Parsers here do no I/O.

pub mod carry;
pub mod dialect;
pub mod field;
pub mod header;
pub mod lines;
pub mod locate;
pub mod scan;
pub mod sniff;

mod exact;
#[cfg(test)]
mod tests;

pub use carry::Carry;
pub use dialect::Dialect;
pub use scan::{FieldIndex, RecordSpan, Scanner};
