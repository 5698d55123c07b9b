//! Finds which version of SQLite a library file holds.
//!
//! A library of another process cannot be asked. SQLite keeps its version in
//! itself as a text of its own (`3.40.1`, with a zero byte on each side), and the
//! time of its check-in, which no other code has. That is thin evidence: a library
//! can hold such a text without being SQLite, so a file with two different
//! versions has none.
//!
//! Must never: read a file without a limit.

use std::io::Read as _;
use std::path::Path;

use crate::vfs::locks::FileHandle;

/// Larger than any build of SQLite, and than most that have it inside.
const LIBRARY_BYTES_MAX: u64 = 64 << 20;

/// The version of SQLite that stands in a library file; `None` if none does, or the
/// file cannot be read.
pub fn of_file(path: &Path) -> Option<String> {
    let facts = std::fs::metadata(path).ok()?;
    if !facts.is_file() {
        return None;
    }
    let mut bytes = Vec::new();
    FileHandle::open(path).ok()?.take(LIBRARY_BYTES_MAX).read_to_end(&mut bytes).ok()?;
    of_bytes(&bytes)
}

/// SQLite's number for a version: 3.40.1 is 3040001.
pub fn number(version: &str) -> Option<i32> {
    let mut parts = version.split('.').map(|part| {
        let is_plain = part.len() <= 3 && part.bytes().all(|byte| byte.is_ascii_digit());
        part.parse::<i32>().ok().filter(|_| is_plain)
    });
    let (major, minor, patch) = (parts.next()??, parts.next()??, parts.next()??);
    parts.next().is_none().then_some(major * 1_000_000 + minor * 1000 + patch)
}

fn of_bytes(bytes: &[u8]) -> Option<String> {
    if !holds_source_id(bytes) {
        return None;
    }
    let texts = bytes.split(|&byte| byte == 0).filter(|text| text.starts_with(b"3."));
    let mut versions = texts.filter_map(|text| {
        let text = std::str::from_utf8(text).ok()?;
        number(text).map(|_| text)
    });
    let first = versions.next()?;
    versions.all(|other| other == first).then(|| first.to_owned())
}

/// Returns true if there is a text such as `2022-12-28 14:03:47 ` and 60 hexadecimal digits or
/// more.
fn holds_source_id(bytes: &[u8]) -> bool {
    const DATE: &[u8] = b"dddd-dd-dd dd:dd:dd ";
    let is_date = |window: &[u8]| {
        window.iter().zip(DATE).all(|(byte, wanted)| match wanted {
            b'd' => byte.is_ascii_digit(),
            wanted => byte == wanted,
        })
    };
    memchr::memmem::find_iter(bytes, b"20").any(|at| {
        let digits = at + DATE.len()..at + DATE.len() + 60;
        bytes.get(at..digits.start).is_some_and(is_date)
            && bytes.get(digits).is_some_and(|it| it.iter().all(u8::is_ascii_hexdigit))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOURCE: &str =
        "2022-12-28 14:03:47 df5c253c0b3dd24916e4ec7cf77d3db5294cc9fd45ae7b9c5e82ad8197f3alt1";

    #[test]
    fn the_version_is_found_between_zero_bytes() {
        let library = format!("\x7fELF\0{SOURCE}\x003.40.1\x00more");
        assert_eq!(of_bytes(library.as_bytes()).as_deref(), Some("3.40.1"));
        let twice = format!("{SOURCE}\x003.40.1\x003.40.1\x00");
        assert_eq!(of_bytes(twice.as_bytes()).as_deref(), Some("3.40.1"));
    }

    #[test]
    fn what_is_not_sure_is_no_version() {
        for library in [
            "\x003.40.1\0".to_owned(),
            format!("{SOURCE}\x003.40.1\x003.41.0\0"),
            format!("{SOURCE}\x003.40\0"),
            format!("{SOURCE}\x003.40.1.2\x003.x.1\x003.1234.1\0"),
            SOURCE.to_owned(),
            SOURCE[..50].to_owned(),
        ] {
            assert_eq!(of_bytes(library.as_bytes()), None, "{library:?}");
        }
    }

    #[test]
    fn a_version_is_a_number() {
        assert_eq!(number("3.40.1"), Some(3_040_001));
        assert_eq!(number("3.7.17"), Some(3_007_017));
        for none in ["", "3", "3.40", "3.40.1.1", "3.-1.1", "3.+1.1", "a.b.c", "3.40.9999999999"] {
            assert_eq!(number(none), None, "{none}");
        }
    }

    #[test]
    fn the_sqlite_of_this_program_is_found_in_it() {
        let own = std::env::current_exe().unwrap();
        // A test program is larger than what is looked at, unless it is stripped.
        let found = of_file(&own);
        assert!(found.is_none() || found.as_deref() == Some(rusqlite::version()), "{found:?}");
        assert_eq!(of_file(Path::new("/dev/zero")), None);
        assert_eq!(of_file(Path::new("/no/such/file")), None);
    }
}
