//! Small files, which are read once and kept: to open one costs more than to read it.
//!
//! A load looks at each input several times: for a database, for its format, for its columns, and in
//! each pass. A kept file is taken from memory as long as it is as it was.
//!
//! Must never: keep half of a file, or more of all files than [`KEPT_BYTES_MAX`].

use std::io::Read as _;
use std::path::Path;
use std::sync::Arc;

use super::fingerprint::Fingerprint;
use super::kind::{Kind, kind_of};
use crate::vfs::locks::FileHandle;

/// Bytes of the largest file that is kept. A larger one takes longer to read than to open.
const FILE_BYTES_MAX: u64 = 64 << 10;

/// Bytes of all files that are kept for a load.
pub const KEPT_BYTES_MAX: u64 = 32 << 20;

/// A regular file's content, and what the file was like when it was read.
#[derive(Debug, Clone)]
pub struct SmallFile {
    bytes: Arc<[u8]>,
    seen: Fingerprint,
}

impl SmallFile {
    /// Reads a file if it is small, regular and not being written, and takes its bytes from `room`.
    /// `None` is no error: that is found when the file is opened.
    pub fn read(path: &Path, room: &mut u64) -> Option<Self> {
        let fits = |bytes: u64| (1..=FILE_BYTES_MAX.min(*room)).contains(&bytes);
        let there = path.metadata().ok()?;
        if !there.is_file() || !fits(there.len()) {
            return None;
        }
        let mut file = FileHandle::open(path).ok()?;
        let seen = Fingerprint::of(&file.metadata().ok()?);
        if !fits(seen.bytes) {
            return None;
        }
        // With room for one byte more, a file that has grown is seen to be longer.
        let mut bytes = Vec::with_capacity(seen.bytes as usize + 1);
        (&mut file).take(seen.bytes + 1).read_to_end(&mut bytes).ok()?;
        let is_whole = bytes.len() as u64 == seen.bytes;
        if !is_whole || Fingerprint::of(&file.metadata().ok()?) != seen {
            return None;
        }
        *room -= seen.bytes;
        Some(Self { bytes: bytes.into(), seen })
    }

    /// The content.
    pub fn bytes(&self) -> &Arc<[u8]> {
        &self.bytes
    }

    /// Returns true if it begins as databases do.
    pub fn is_database(&self) -> bool {
        self.bytes.get(..16).is_some_and(|first| kind_of(first) == Some(Kind::Sqlite))
    }

    /// Size and time of the file when it was read, if the one at `path` still has them.
    pub(super) fn still_at(&self, path: &Path) -> Option<&Fingerprint> {
        let there = path.metadata().ok().filter(std::fs::Metadata::is_file)?;
        (Fingerprint::of(&there) == self.seen).then_some(&self.seen)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn small_files_are_kept_as_long_as_there_is_room() {
        let folder = tempfile::tempdir().unwrap();
        let file = |name: &str, content: &[u8]| {
            let path = folder.path().join(name);
            fs::write(&path, content).unwrap();
            path
        };
        let large = vec![b'x'; FILE_BYTES_MAX as usize];
        let (small, large) = (file("small", b"id\n1\n"), file("large", &large));
        let mut room = FILE_BYTES_MAX + 4;
        assert_eq!(
            &**SmallFile::read(&large, &mut room).unwrap().bytes(),
            fs::read(&large).unwrap()
        );
        assert_eq!(room, 4);
        assert!(SmallFile::read(&small, &mut room).is_none(), "no room");
        room = KEPT_BYTES_MAX;
        let kept = SmallFile::read(&small, &mut room).unwrap();
        assert!(kept.still_at(&small).is_some());
        assert!(kept.still_at(&large).is_none() && kept.still_at(folder.path()).is_none());
        fs::write(&small, "id\n1\n2\n").unwrap();
        assert!(kept.still_at(&small).is_none(), "it has changed");
        fs::remove_file(&small).unwrap();
        assert!(kept.still_at(&small).is_none(), "it is gone");
        assert_eq!(&**kept.bytes(), b"id\n1\n");
        let larger = vec![b'x'; FILE_BYTES_MAX as usize + 1];
        for (name, content) in [("empty", &b""[..]), ("larger", &larger)] {
            assert!(SmallFile::read(&file(name, content), &mut room).is_none(), "{name}");
        }
        assert!(SmallFile::read(folder.path(), &mut room).is_none(), "a folder");
        assert!(SmallFile::read(&folder.path().join("none"), &mut room).is_none());
        let database = SmallFile::read(&file("db", b"SQLite format 3\0 and more"), &mut room);
        assert!(database.unwrap().is_database() && !kept.is_database());
    }
}
