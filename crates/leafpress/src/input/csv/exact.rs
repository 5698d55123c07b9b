//! The rules of delimited text, one byte at a time: the definition that the
//! fast path of [`scan`](super::scan) must agree with, and its fallback for
//! chunks with stray quotes or escapes, and the last bytes of a block.
//!
//! Must never: look further than one byte ahead, so that it can stop and go on
//! anywhere.

use super::dialect::Dialect;
use super::scan::FieldIndex;

/// The scanner's place in the grammar, before the next byte.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum State {
    /// At the first byte of a line that may become a record.
    #[default]
    RecordStart,
    /// The line so far is one `\r`: a blank line if `\n` follows, else text.
    LoneReturn,
    /// After a delimiter.
    FieldStart,
    /// In text where quotes have no meaning.
    Unquoted,
    /// After an escape byte outside quotes.
    Escaped,
    /// Between quotes.
    Quoted,
    /// After an escape byte between quotes.
    QuotedEscaped,
    /// After a quote that closes the field, unless another quote follows.
    QuoteInQuoted,
}

/// Indexes `bytes[from..to]`, which starts in `state`; returns the state at
/// `to`.
pub(super) fn scan(
    dialect: Dialect,
    mut state: State,
    bytes: &[u8],
    from: usize,
    to: usize,
    index: &mut FieldIndex,
) -> State {
    let (delimiter, quote, escape) = (dialect.delimiter(), dialect.quote(), dialect.escape());
    let skips_blank_lines = !dialect.is_database_text();
    for (at, &byte) in bytes.iter().enumerate().take(to).skip(from) {
        let (is_quote, is_escape) = (quote == Some(byte), escape == Some(byte));
        state = match state {
            State::Escaped => State::Unquoted,
            State::Quoted if is_quote => State::QuoteInQuoted,
            State::Quoted if is_escape => State::QuotedEscaped,
            State::Quoted | State::QuotedEscaped => State::Quoted,
            State::RecordStart | State::LoneReturn if byte == b'\n' && skips_blank_lines => {
                State::RecordStart
            }
            _ if byte == b'\n' => {
                index.push_field_end(at);
                index.push_record_end(at);
                State::RecordStart
            }
            _ if byte == delimiter => {
                index.push_field_end(at);
                State::FieldStart
            }
            State::QuoteInQuoted | State::RecordStart | State::FieldStart if is_quote => {
                State::Quoted
            }
            State::QuoteInQuoted => {
                if !is_line_end(bytes, at) {
                    index.push_stray_quote(at - 1);
                }
                // An escape byte is plain text here, too, as in Python.
                State::Unquoted
            }
            _ if is_escape => State::Escaped,
            State::RecordStart if byte == b'\r' => State::LoneReturn,
            _ => {
                if is_quote {
                    index.push_stray_quote(at);
                }
                State::Unquoted
            }
        };
    }
    state
}

/// Returns true if the `\r` of a `\r\n` stands at `at`.
pub(super) fn is_line_end(bytes: &[u8], at: usize) -> bool {
    bytes.get(at) == Some(&b'\r') && bytes.get(at + 1) == Some(&b'\n')
}
