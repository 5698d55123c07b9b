//! Which bytes delimit, quote and escape. Stands at the start of the flow:
//! whoever holds a [`Dialect`] need not check it again.
//!
//! Must never: hold a combination that the scanner cannot tell apart.

use crate::{Error, Result};

/// The three bytes that make up a dialect of delimited text.
///
/// Invariant: all are distinct, and none of them is `\n` or `\r`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Dialect {
    delimiter: u8,
    quote: Option<u8>,
    escape: Option<u8>,
}

impl Default for Dialect {
    /// Comma, double quote, no escape: RFC 4180.
    fn default() -> Self {
        Self { delimiter: b',', quote: Some(b'"'), escape: None }
    }
}

impl Dialect {
    /// Checks the bytes and joins them into a dialect.
    ///
    /// # Errors
    /// A usage error where two of them are the same or one is a line end.
    pub fn new(delimiter: u8, quote: Option<u8>, escape: Option<u8>) -> Result<Self> {
        let given = [("delimiter", Some(delimiter)), ("quote", quote), ("escape", escape)];
        for (position, (name, byte)) in given.into_iter().enumerate() {
            let Some(byte) = byte else { continue };
            if matches!(byte, b'\n' | b'\r') {
                return Err(Error::usage(format!("the {name} cannot be a line end")));
            }
            let twin = given[..position].iter().find(|(_, other)| *other == Some(byte));
            if let Some((other, _)) = twin {
                return Err(Error::usage(format!(
                    "the {name} and the {other} are both '{}'",
                    byte.escape_ascii()
                )));
            }
        }
        Ok(Self { delimiter, quote, escape })
    }

    /// The byte between two fields.
    pub fn delimiter(self) -> u8 {
        self.delimiter
    }

    /// The byte around a field that may hold delimiters and line ends.
    pub fn quote(self) -> Option<u8> {
        self.quote
    }

    /// The byte that makes the next one literal.
    pub fn escape(self) -> Option<u8> {
        self.escape
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distinct_bytes_are_taken() {
        let dialect = Dialect::new(b'\t', Some(b'\''), Some(b'\\')).unwrap();
        assert_eq!(dialect.delimiter(), b'\t');
        assert_eq!(dialect.quote(), Some(b'\''));
        assert_eq!(dialect.escape(), Some(b'\\'));
        assert_eq!(Dialect::new(b',', Some(b'"'), None).unwrap(), Dialect::default());
    }

    #[test]
    fn clashes_and_line_ends_are_refused() {
        let clash = Dialect::new(b'"', Some(b'"'), None).unwrap_err();
        assert_eq!(clash.to_string(), "the quote and the delimiter are both '\\\"'");
        assert!(Dialect::new(b',', Some(b'"'), Some(b'"')).is_err());
        assert!(Dialect::new(b',', None, Some(b',')).is_err());
        assert!(Dialect::new(b'\n', None, None).is_err());
        assert!(Dialect::new(b',', Some(b'\r'), None).is_err());
    }
}
