//! Bytes to fields: the input stage.
//!
//! ```text
//! source.rs           where the bytes come from: file, pipe, .gz, .zst; read twice
//! pipe.rs             a pipe or another file that is not regular, whose reader can be stopped
//! small.rs            small files, which are read once and kept
//! fingerprint.rs      size and time of a file, to see that it changed
//! unreadable.rs       errors of bytes that a filter refuses, and of a second reading
//! gzip.rs             gzip's members, one after the other
//! encoding.rs         other encodings to UTF-8, byte order marks
//! detect_encoding.rs  the encoding of bytes, where nothing says it
//! block.rs            whole lines, a megabyte or two at a time
//! csv/                one block to field and record ends, and to values
//! json/               objects to typed rows, from lines or from an array
//! rows.rs             what inputs of typed rows have in common
//! values.rs           rows of values that a program makes
//! kind.rs             formats that are not text, by their first bytes
//! foreign.rs          formats that cannot be loaded: archives, files of other programs
//! stored.rs           a file that is read at any place
//! as_json.rs          values and rows as JSON
//! arrow/              Parquet, Arrow files and streams, record batches
//! ```
//!
//! Must never: know SQLite, column types or what becomes of a row. Only `load`
//! joins this stage with the others.

#[cfg(feature = "arrow")]
pub mod arrow;
pub mod as_json;
pub mod block;
pub mod csv;
pub mod detect_encoding;
pub mod encoding;
pub mod fingerprint;
pub mod foreign;
mod gzip;
pub mod json;
pub mod kind;
pub mod pipe;
pub mod rows;
pub mod small;
pub mod source;
#[cfg(feature = "arrow")]
pub mod stored;
mod unreadable;
pub mod values;

#[cfg(test)]
mod tests;
