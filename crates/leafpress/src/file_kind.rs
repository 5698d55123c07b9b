//! Kinds of files that SQLite does not take for a database, told by their first bytes.
//!
//! Must never: ask SQLite, or open a file but by way of `vfs/locks`, as closing it would drop locks of
//! this process.

use std::fs;
use std::io::{self, Read};
use std::path::Path;

use leafpress_format::header::{self, number_in};

use crate::vfs::locks::FileHandle;

/// A sample large enough to tell encrypted bytes from any structured file.
const SAMPLE_BYTES: usize = 4096;

/// The size of a file that need not exist.
pub(crate) fn length_bytes(path: &Path) -> Option<u64> {
    fs::metadata(path).map(|it| it.len()).ok()
}

/// The first bytes of a file.
pub(crate) fn read_sample(path: &Path) -> io::Result<Vec<u8>> {
    let mut sample = Vec::with_capacity(SAMPLE_BYTES);
    FileHandle::open(path)?.take(SAMPLE_BYTES as u64).read_to_end(&mut sample)?;
    Ok(sample)
}

/// Describes a file that does not begin as a database does.
pub(crate) fn what_else(sample: &[u8], length_bytes: u64) -> String {
    const KNOWN: [(&[u8], &str); 6] = [
        (b"\x1f\x8b", "it is compressed with gzip; unpack it first"),
        (b"\x28\xb5\x2f\xfd", "it is compressed with zstd; unpack it first"),
        (b"PK\x03\x04", "it is a zip archive; unpack it first"),
        (b"\x37\x7f\x06\x82", "it is a write-ahead log; name the database beside it"),
        (b"\x37\x7f\x06\x83", "it is a write-ahead log; name the database beside it"),
        (b"\xd9\xd5\x05\xf9\x20\xa1\x63\xd7", "it is a journal; name the database beside it"),
    ];
    if let Some((_, what)) = KNOWN.iter().find(|(magic, _)| sample.starts_with(magic)) {
        return format!("is not a database: {what}");
    }
    if length_bytes.is_multiple_of(512) && looks_random(sample) {
        return "is not a database that can be read: it looks encrypted (as by SQLCipher or SEE), \
                or it is overwritten"
            .to_owned();
    }
    "is not a database: it does not begin with \"SQLite format 3\"".to_owned()
}

/// Describes a file that SQLite does not take for a database; `None` if the file begins like
/// one that this SQLite knows, or cannot be read.
pub(crate) fn what_a_file_is(path: &Path) -> Option<String> {
    let sample = read_sample(path).ok()?;
    let length_bytes = length_bytes(path)?;
    if sample.starts_with(header::MAGIC) {
        newer_format(&sample)
    } else {
        Some(what_else(&sample, length_bytes))
    }
}

/// Describes a database whose format this SQLite does not know; `None` if the format is known.
pub(crate) fn newer_format(sample: &[u8]) -> Option<String> {
    let schema_format = number_in(sample, header::SCHEMA_FORMAT)?;
    let newer = if sample[header::READ_VERSION] > header::VERSION_WAL {
        format!("of a newer one: its read version is {}", sample[header::READ_VERSION])
    } else if schema_format > header::SCHEMA_FORMAT_NEWEST {
        // Ciphers leave the bytes before it as they are, so that SQLite finds the page size.
        format!("of a newer one or encrypted: its schema format is {schema_format}")
    } else {
        return None;
    };
    let version = rusqlite::version();
    Some(format!("is in a format that SQLite {version} does not know, {newer}"))
}

/// Returns true if the bytes are spread as evenly as those of a cipher.
///
/// Compares the sum of squared counts with what chance gives, n + n²/256;
/// text and pages of a database lie many times above that.
fn looks_random(sample: &[u8]) -> bool {
    if sample.len() < 512 {
        return false;
    }
    let mut counts = [0_u64; 256];
    for &byte in sample {
        counts[usize::from(byte)] += 1;
    }
    let squares: u64 = counts.iter().map(|count| count * count).sum();
    let bytes = sample.len() as u64;
    squares < (bytes + bytes * bytes / 256) * 5 / 4
}
