//! The formats that are not text, told by an input's first bytes.
//!
//! The bytes are looked at after decompression, before any reader is chosen. An input that
//! begins like none of these formats is text; other modules tell which text.
//!
//! Must never: take text for one of these formats.

use leafpress_format::header;

use crate::{Error, ErrorKind};

/// A format that is not text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A Parquet file.
    Parquet,
    /// An Arrow IPC file, also called Feather version 2.
    ArrowFile,
    /// A stream of Arrow IPC messages.
    ArrowStream,
    /// An SQLite database.
    Sqlite,
}

impl Kind {
    /// The refusal of an input of this kind that cannot be read as it is given.
    pub fn refuse(self, file: &str) -> Error {
        let built_without = |what: &str| {
            Error::unsupported(format!(
                "{file}: is {what}, and this leafpress was built without that format"
            ))
            .to_do("take a leafpress that was built with it, or make the input a CSV file")
        };
        match self {
            Self::Sqlite => {
                let reason = "is an SQLite database, which cannot be read from a stream".to_owned();
                Error::from(ErrorKind::Input { file: file.to_owned(), reason })
                    .to_do("name its file, with the table behind two colons: other.db::TABLE")
            }
            Self::Parquet => built_without("a Parquet file"),
            Self::ArrowFile | Self::ArrowStream => built_without("an Arrow file or stream"),
        }
    }
}

/// Number of first bytes that [`kind_of`] looks at.
const KIND_BYTES: usize = 16;

/// Largest length of a first message that can be a schema.
const SCHEMA_BYTES_MAX: u32 = 1 << 28;

/// The format of an input that begins with `first`; `None` for text.
pub fn kind_of(first: &[u8]) -> Option<Kind> {
    let begins_text = |bytes: &[u8]| {
        bytes.iter().all(|byte| *byte >= b' ' || matches!(byte, b'\t' | b'\n' | b'\r'))
    };
    // Four letters may begin a line of text: what follows them decides.
    if first.starts_with(b"PAR1") || first.starts_with(b"PARE") {
        let rest = &first[4..first.len().min(KIND_BYTES)];
        return (!begins_text(rest)).then_some(Kind::Parquet);
    }
    if first.starts_with(b"ARROW1\0\0") {
        return Some(Kind::ArrowFile);
    }
    if first.starts_with(header::MAGIC) {
        return Some(Kind::Sqlite);
    }
    // The mark before each message, and the length of the schema.
    let (mark, rest) = first.split_first_chunk::<4>()?;
    let schema_bytes = u32::from_le_bytes(*rest.first_chunk()?);
    let is_length = (1..=SCHEMA_BYTES_MAX).contains(&schema_bytes) && schema_bytes % 8 == 0;
    (*mark == [0xff; 4] && is_length).then_some(Kind::ArrowStream)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_are_known_by_their_first_bytes() {
        assert_eq!(kind_of(b"PAR1\x15\x04\x15\x10"), Some(Kind::Parquet));
        assert_eq!(kind_of(b"PARE\x00\x04\x15\x10"), Some(Kind::Parquet));
        assert_eq!(kind_of(b"ARROW1\0\0\xff\xff\xff\xff"), Some(Kind::ArrowFile));
        assert_eq!(kind_of(b"\xff\xff\xff\xff\x78\x01\0\0"), Some(Kind::ArrowStream));
        assert_eq!(kind_of(b"SQLite format 3\0\x10\0"), Some(Kind::Sqlite));
    }

    #[test]
    fn text_is_none_of_them() {
        let texts: [&[u8]; 7] = [
            b"",
            b"PAR1",
            b"PAR1,PAR2\n1,2\n",
            b"ARROW1,x\n",
            b"SQLite format 3,x\n",
            b"\xff\xff\xff\xff",
            b"\xff\xff\xff\xff\x01\0\0\0",
        ];
        for text in texts {
            assert_eq!(kind_of(text), None, "{text:?}");
        }
    }
}
