//! JSON: objects as rows, each on a line (NDJSON), one after the other over any
//! lines (as `jq` prints them), or as the elements of one array.
//!
//! ```text
//! source ─► reader ───────────► decoder ──────────► batch
//!  what     cuts at lines, or    lines or elements   values by row
//!  form?    where brackets       to cells: parse,    and column
//!  keys?    close: nesting       text, number
//! ```
//!
//! # How JSON becomes values
//!
//! | JSON | value |
//! |---|---|
//! | `null`, a missing key | NULL |
//! | `true`, `false` | 1, 0; in a TEXT column their names |
//! | integers of 64 bits | INTEGER |
//! | numbers whose value a double keeps | REAL |
//! | other numbers | TEXT: the number's own text |
//! | strings | TEXT, escapes resolved |
//! | arrays and objects | TEXT: their JSON, without blanks between its parts |
//!
//! * Columns are keys in the order of their first appearance. Of a key that is
//!   repeated in an object the last value counts, and a note says so. Keys that differ in ASCII
//!   case only are different keys, and the later one's column gets a number.
//! * A string must be characters: one that holds half of a surrogate pair, or
//!   bytes that are not UTF-8, makes its row bad. In a nested value escapes
//!   stay as they are.
//! * Values may be nested 128 deep.
//!
//! Must never: hold more of the input than some pieces of it.

mod batch;
mod decode;
mod fault;
mod keys;
mod nesting;
mod number;
mod parse;
mod reader;
mod repeats;
mod source;
mod text;

#[cfg(test)]
mod tests;

pub use source::{JsonOptions, JsonSource};
