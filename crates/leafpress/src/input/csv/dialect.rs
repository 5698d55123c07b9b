//! The bytes that delimit, quote and escape. Stands at the start of the flow: a [`Dialect`] is
//! checked once, when it is made.
//!
//! Must never: hold a combination that the scanner cannot tell apart.

use crate::{Error, Result};

/// The bytes that make up a dialect of delimited text, and what its escapes mean.
///
/// Invariant: all are distinct, and none of them is `\n` or `\r`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Dialect {
    delimiter: u8,
    quote: Option<u8>,
    escape: Option<u8>,
    escapes: Escapes,
}

/// The meaning of an escape byte and the bytes behind it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Escapes {
    /// The next byte is text.
    Literal,
    /// Escapes of PostgreSQL's COPY in text format.
    Postgres,
    /// Escapes of `MySQL`'s SELECT INTO OUTFILE.
    Mysql,
}

impl Default for Dialect {
    /// Comma, double quote, no escape: RFC 4180.
    fn default() -> Self {
        Self { delimiter: b',', quote: Some(b'"'), escape: None, escapes: Escapes::Literal }
    }
}

impl Dialect {
    /// Checks the bytes and joins them into a dialect.
    ///
    /// # Errors
    /// [`ErrorKind::Misuse`](crate::ErrorKind::Misuse) where two of them are the same or one is a line end.
    pub fn new(delimiter: u8, quote: Option<u8>, escape: Option<u8>) -> Result<Self> {
        let given = [("delimiter", Some(delimiter)), ("quote", quote), ("escape", escape)];
        for (position, (name, byte)) in given.into_iter().enumerate() {
            let Some(byte) = byte else { continue };
            if matches!(byte, b'\n' | b'\r') {
                return Err(Error::misuse(format!("the {name} cannot be a line end"))
                    .to_do("name another byte for it"));
            }
            let twin = given[..position].iter().find(|(_, other)| *other == Some(byte));
            if let Some((other, _)) = twin {
                return Err(Error::misuse(format!(
                    "the {name} and the {other} are both '{}'",
                    byte.escape_ascii()
                ))
                .to_do("name another byte for one of them"));
            }
        }
        Ok(Self { delimiter, quote, escape, escapes: Escapes::Literal })
    }

    /// The text format of PostgreSQL's COPY: backslash escapes, no quotes.
    ///
    /// # Errors
    /// [`ErrorKind::Misuse`](crate::ErrorKind::Misuse) where the delimiter is a backslash or a line end.
    pub fn postgres_text(delimiter: u8) -> Result<Self> {
        Ok(Self { escapes: Escapes::Postgres, ..Self::new(delimiter, None, Some(b'\\'))? })
    }

    /// The text format of `MySQL`'s SELECT INTO OUTFILE and of `mysqldump --tab`.
    ///
    /// # Errors
    /// As [`postgres_text`](Self::postgres_text).
    pub fn mysql_text(delimiter: u8) -> Result<Self> {
        Ok(Self { escapes: Escapes::Mysql, ..Self::new(delimiter, None, Some(b'\\'))? })
    }

    /// Tells whether it is the text format of a database. There a blank line is a record, and a
    /// NULL is known by the field as it is written.
    pub fn is_database_text(self) -> bool {
        self.escapes != Escapes::Literal
    }

    /// Tells whether escapes can make any byte, so that values must be checked once they are made.
    pub fn escapes_make_bytes(self) -> bool {
        self.escapes == Escapes::Postgres
    }

    /// Tells whether a carriage return before a newline is data: `MySQL` writes it as it is.
    pub(super) fn returns_are_data(self) -> bool {
        self.escapes == Escapes::Mysql
    }

    /// The byte that an escape stands for, and how many bytes behind the escape byte it takes;
    /// `after` is what follows the escape byte. `None` where nothing does.
    pub(super) fn escaped(self, after: &[u8]) -> Option<(u8, usize)> {
        let first = *after.first()?;
        let one = match (self.escapes, first) {
            (Escapes::Literal, _) => first,
            (Escapes::Postgres, b'0'..=b'7') => return Some(number(after, 8, 3)),
            (Escapes::Postgres, b'x') if after.get(1).is_some_and(u8::is_ascii_hexdigit) => {
                let (value, digits) = number(&after[1..], 16, 2);
                return Some((value, 1 + digits));
            }
            (_, b'b') => 0x08,
            (_, b'n') => b'\n',
            (_, b'r') => b'\r',
            (_, b't') => b'\t',
            (Escapes::Postgres, b'f') => 0x0c,
            (Escapes::Postgres, b'v') => 0x0b,
            (Escapes::Mysql, b'0') => 0,
            (Escapes::Mysql, b'Z') => 0x1a,
            _ => first,
        };
        Some((one, 1))
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

/// The number that `text` begins with, cut to a byte, and how many digits it has.
fn number(text: &[u8], radix: u32, digits_max: usize) -> (u8, usize) {
    let digits = text.iter().take(digits_max).map_while(|byte| char::from(*byte).to_digit(radix));
    let (value, count) =
        digits.fold((0, 0), |(value, count), digit| (value * radix + digit, count + 1));
    (value as u8, count)
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
        let expected = "the quote and the delimiter are both '\\\"'\n\
                        to do: name another byte for one of them";
        assert_eq!(clash.to_string(), expected);
        assert!(Dialect::new(b',', Some(b'"'), Some(b'"')).is_err());
        assert!(Dialect::new(b',', None, Some(b',')).is_err());
        assert!(Dialect::new(b'\n', None, None).is_err());
        assert!(Dialect::new(b',', Some(b'\r'), None).is_err());
    }

    #[test]
    fn escapes_are_those_of_the_database() {
        let (postgres, mysql) =
            (Dialect::postgres_text(b'\t').unwrap(), Dialect::mysql_text(b'\t').unwrap());
        for (after, in_postgres, in_mysql) in [
            (&b"t"[..], (b'\t', 1), (b'\t', 1)),
            (b"nx", (b'\n', 1), (b'\n', 1)),
            (b"r", (b'\r', 1), (b'\r', 1)),
            (b"b", (8, 1), (8, 1)),
            (b"f", (12, 1), (b'f', 1)),
            (b"v", (11, 1), (b'v', 1)),
            (b"\\n", (b'\\', 1), (b'\\', 1)),
            (b"0", (0, 1), (0, 1)),
            (b"Z", (b'Z', 1), (0x1a, 1)),
            (b"1014", (b'A', 3), (b'1', 1)),
            (b"58", (5, 1), (b'5', 1)),
            (b"777", (0xff, 3), (b'7', 1)),
            (b"x41f", (b'A', 3), (b'x', 1)),
            (b"xag", (10, 2), (b'x', 1)),
            (b"xg", (b'x', 1), (b'x', 1)),
            (b"\n", (b'\n', 1), (b'\n', 1)),
        ] {
            let shown = after.escape_ascii();
            assert_eq!(postgres.escaped(after), Some(in_postgres), "PostgreSQL, {shown}");
            assert_eq!(mysql.escaped(after), Some(in_mysql), "MySQL, {shown}");
        }
        assert_eq!(mysql.escaped(b""), None);
        assert!(Dialect::postgres_text(b'\\').is_err());
    }
}
