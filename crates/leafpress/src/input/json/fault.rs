//! The faults of a row, with their places and their words for a person.
//!
//! Stands beside the parser, which makes faults, and the decoder, which reports them. Must never:
//! show more of the input than one byte: the message's excerpt shows the row.

use std::fmt;

/// Largest depth of nested values. The parser keeps a bit for each level.
pub const DEPTH_MAX: u32 = 128;

/// The reason why the parser stopped, and its place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fault {
    /// Offset of the byte at fault.
    pub at: usize,
    /// The kind of fault.
    pub what: What,
}

/// The kinds of faults.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum What {
    /// The text expected here, and the byte found in its place, if there is one.
    Expected(&'static str, Option<u8>),
    /// A number goes on without a digit.
    DigitExpected,
    /// A number begins with a zero that is not alone.
    LeadingZero,
    /// A word such as `NaN`, which JSON does not have.
    NotInJson(&'static str),
    /// A line ends within a string.
    OpenString,
    /// Another control character in a string.
    ControlInString(u8),
    /// A backslash before a character that JSON gives no meaning there.
    BadEscape,
    /// Half of a surrogate pair.
    LoneSurrogate,
    /// The text is not UTF-8.
    NotUtf8,
    /// More than [`DEPTH_MAX`] open brackets.
    TooDeep,
    /// A row that is something else than an object.
    NotAnObject(&'static str),
    /// Something follows a row on its line.
    Trailing(u8),
    /// Something follows the array.
    AfterArray,
}

impl Fault {
    /// A fault at an offset.
    #[cold]
    pub fn new(at: usize, what: What) -> Self {
        Self { at, what }
    }

    /// The fault of a text at `at` that should be a number.
    #[cold]
    pub fn in_number(self, bytes: &[u8], at: usize) -> Self {
        match Self::expected("a number", bytes, at) {
            word @ Self { what: What::NotInJson(_), .. } => word,
            _ => self,
        }
    }

    /// The fault at `at`, where `wanted` was expected.
    #[cold]
    pub fn expected(wanted: &'static str, bytes: &[u8], at: usize) -> Self {
        let word =
            |word: &str| bytes.get(at..).is_some_and(|rest| rest.starts_with(word.as_bytes()));
        let foreign = ["NaN", "Infinity", "-Infinity", "None", "True", "False", "undefined"];
        let what = match foreign.into_iter().find(|&found| word(found)) {
            Some(found) => What::NotInJson(found),
            None => What::Expected(wanted, bytes.get(at).copied()),
        };
        Self { at, what }
    }
}

impl fmt::Display for What {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Expected(wanted, None | Some(b'\n')) => {
                write!(f, "the row ends where {wanted} is expected")
            }
            Self::Expected(wanted, Some(byte)) => {
                write!(f, "expected {wanted}, found {}", Shown(byte))
            }
            Self::DigitExpected => f.write_str("a number lacks a digit here"),
            Self::LeadingZero => {
                f.write_str("a number begins with 0: JSON has no leading zeros (a string may)")
            }
            Self::NotInJson(word) => write!(f, "{word} is no JSON value (null, true, false are)"),
            Self::OpenString => f.write_str("the line ends within a string"),
            Self::ControlInString(byte) => {
                write!(f, "a string holds the control character {}, not escaped", Shown(byte))
            }
            Self::BadEscape => f.write_str("a backslash in a string is followed by no JSON escape"),
            Self::LoneSurrogate => {
                f.write_str("half of a surrogate pair (\\ud800 to \\udfff) is no character")
            }
            Self::NotUtf8 => f.write_str("this is not UTF-8"),
            Self::TooDeep => write!(f, "values are nested more than {DEPTH_MAX} deep"),
            Self::NotAnObject(found) => write!(f, "a row must be an object, this is {found}"),
            Self::Trailing(b',') => {
                f.write_str("a comma follows the row: only in an array one may")
            }
            Self::Trailing(byte) => write!(f, "{} follows the row on its line", Shown(byte)),
            Self::AfterArray => f.write_str("something follows the end of the array"),
        }
    }
}

/// A byte in a message.
struct Shown(u8);

impl fmt::Display for Shown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            b'\'' => f.write_str("a single quote (JSON has double ones)"),
            byte @ b' '..=b'~' => write!(f, "'{}'", char::from(byte)),
            byte => write!(f, "the byte 0x{byte:02x}"),
        }
    }
}
