//! Names of hidden files beside a database. Folders have them too. They are
//! `.NAME.leafpress-PID-N.tmp` and `.NAME.leafpress-io-PID-N`.
//!
//! Leftovers of a process that was killed are removed by the next one, which knows them by
//! their names and by their locks, which no process holds any more.
//!
//! Must never: take another name for one of these, as such a file is not ours to remove; or give a
//! name twice, as a thread may be about to remove what had it before.

use std::ffi::{OsStr, OsString};
use std::fs::TryLockError;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::vfs::locks::FileHandle;

/// Names that a maker tries: others may be taken.
const ATTEMPTS_MAX: u32 = 1000;

/// The names of one kind, beside one database.
#[derive(Debug)]
pub struct HiddenNames {
    prefix: OsString,
    suffix: &'static str,
}

impl HiddenNames {
    /// Names of the file `database`, with `.leafpress-` or a longer `word` behind it.
    pub fn new(database: &OsStr, word: &str, suffix: &'static str) -> Self {
        let mut prefix = OsString::from(".");
        prefix.push(database);
        prefix.push(word);
        Self { prefix, suffix }
    }

    /// Names of this process for a maker to try, one after the other.
    pub fn attempts(&self) -> impl Iterator<Item = OsString> {
        (0..ATTEMPTS_MAX).map(|_| self.next())
    }

    /// The next name of this process.
    fn next(&self) -> OsString {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let mut name = self.prefix.clone();
        name.push(format!("{}-{number}{}", std::process::id(), self.suffix));
        name
    }

    /// Returns true if some process made the name so: two numbers, and nothing else.
    pub fn is_one(&self, name: &OsStr) -> bool {
        let is_number = |bytes: &[u8]| !bytes.is_empty() && bytes.iter().all(u8::is_ascii_digit);
        let rest = name.as_encoded_bytes().strip_prefix(self.prefix.as_encoded_bytes());
        let numbers = rest.and_then(|rest| rest.strip_suffix(self.suffix.as_bytes()));
        let Some(numbers) = numbers else { return false };
        let mut parts = numbers.splitn(2, |byte| *byte == b'-');
        parts.next().is_some_and(is_number) && parts.next().is_some_and(is_number)
    }
}

/// Locks a file that was just made at `path`, which shows that its maker lives. Returns false if
/// another process has taken it for a leftover before that, and the name is not its own any more: a
/// process of the same number in another container may have it. Where the file system has no locks,
/// leftovers are never removed.
pub fn claims(file: &FileHandle, path: &Path) -> bool {
    !matches!(file.try_lock(), Err(TryLockError::WouldBlock)) && file.is_at(path)
}

/// Returns true if the maker of the file that was opened at `path` is dead. If its maker has just
/// removed it, the name may be that of another file now, which is none.
pub fn is_left(file: &FileHandle, path: &Path) -> bool {
    file.try_lock().is_ok() && file.is_at(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_two_numbers_make_a_name() {
        let names = HiddenNames::new("a.db".as_ref(), ".leafpress-", ".tmp");
        let (one, other) = (names.next(), names.next());
        assert!(names.is_one(&one) && names.is_one(&other) && one != other);
        for other in [
            ".a.db.leafpress-foo.tmp",
            ".a.db.leafpress-1.tmp",
            ".a.db.leafpress-1-.tmp",
            ".a.db.leafpress--1.tmp",
            ".a.db.leafpress-1-2-3.tmp",
            ".a.db.leafpress-1-2",
            ".a.db.leafpress-1-2.tmp.bak",
            ".a.db.leafpress-io-1-2",
            ".b.db.leafpress-1-2.tmp",
            "a.db.leafpress-1-2.tmp",
        ] {
            assert!(!names.is_one(other.as_ref()), "{other}");
        }
    }

    #[cfg(unix)]
    #[test]
    fn names_that_are_not_utf_8_are_not_mixed_up() {
        use std::os::unix::ffi::OsStrExt as _;

        let names = |bytes: &[u8]| HiddenNames::new(OsStr::from_bytes(bytes), ".leafpress-io-", "");
        let (one, other) = (names(b"d\xe9.db"), names(b"d\xe8.db"));
        let name = one.next();
        assert!(one.is_one(&name) && !other.is_one(&name));
    }
}
