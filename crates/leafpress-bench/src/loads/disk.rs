//! The disk alone: the input read, and as many bytes written and synced as the database has.
//!
//! The bound of every load. By the fastest plain way: space reserved, large writes past the page cache
//! where the system allows that, the input read by another thread meanwhile.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::path::Path;
use std::thread;

use leafpress::vfs::aligned::{ALIGNMENT, AlignedBuffer};

use crate::error::{Error, Result};

/// Bytes of a read and of a write. Larger ones are not faster.
const PIECE_BYTES: usize = 4 << 20;

/// Lets `timed` read `input`, and write and sync as many bytes as the database has, beside it; removes
/// them. Returns the outcome of `timed`.
pub(super) fn alone<R>(
    database: &Path,
    input: Option<&Path>,
    timed: impl FnOnce(&dyn Fn() -> Result<()>) -> Result<R>,
) -> Result<R> {
    let bytes = fs::metadata(database).map_err(Error::io("read", database))?.len();
    let copy = database.with_extension("plain");
    let outcome = timed(&|| {
        read_and_write(input, &copy, bytes).map_err(Error::io("read the input or write", &copy))
    });
    let removed = fs::remove_file(&copy).map_err(Error::io("remove", &copy));
    outcome.and_then(|outcome| removed.map(|()| outcome))
}

fn read_and_write(input: Option<&Path>, output: &Path, bytes: u64) -> io::Result<()> {
    thread::scope(|scope| {
        let reading = input.map(|input| scope.spawn(|| read_all(input)));
        let written = write_and_sync(output, bytes);
        let read = reading.map_or(Ok(()), |reading| {
            reading.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        });
        written.and(read)
    })
}

fn read_all(input: &Path) -> io::Result<()> {
    let (mut file, mut piece) = (File::open(input)?, vec![0; PIECE_BYTES]);
    while file.read(&mut piece)? > 0 {}
    Ok(())
}

fn write_and_sync(output: &Path, bytes: u64) -> io::Result<()> {
    let mut buffer = AlignedBuffer::default();
    let piece = buffer.filled_with(&vec![0x5a; PIECE_BYTES]);
    let mut file = create(output)?;
    reserve(&file, bytes);
    let mut left = bytes.next_multiple_of(ALIGNMENT as u64);
    while left > 0 {
        // No two pieces are the same.
        piece[..8].copy_from_slice(&left.to_ne_bytes());
        let count = piece.len().min(usize::try_from(left).unwrap_or(usize::MAX));
        file.write_all(&piece[..count])?;
        left -= count as u64;
    }
    file.sync_all()
}

/// Makes the file; for writes past the page cache, if the file system has them.
#[cfg(target_os = "linux")]
fn create(output: &Path) -> io::Result<File> {
    use std::os::unix::fs::OpenOptionsExt as _;

    let mut options = OpenOptions::new();
    options.write(true).create(true);
    let direct =
        options.clone().custom_flags(rustix::fs::OFlags::DIRECT.bits() as i32).open(output);
    direct.or_else(|_| options.open(output))
}

#[cfg(not(target_os = "linux"))]
fn create(output: &Path) -> io::Result<File> {
    OpenOptions::new().write(true).create(true).open(output)
}

/// Reserves the space. A refusal is no error: the writes report a full disk.
fn reserve(file: &File, bytes: u64) {
    #[cfg(target_os = "linux")]
    let _ = rustix::fs::fallocate(file, rustix::fs::FallocateFlags::empty(), 0, bytes);
    #[cfg(not(target_os = "linux"))]
    let _ = (file, bytes);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_many_bytes_are_written_as_the_database_has_and_then_removed() {
        let folder = tempfile::tempdir().unwrap();
        let (database, input) = (folder.path().join("a.db"), folder.path().join("a.csv"));
        fs::write(&input, "id\n1\n").unwrap();
        let bytes = 2 * PIECE_BYTES as u64 + 4096;
        File::create(&database).and_then(|file| file.set_len(bytes)).unwrap();
        let copy = folder.path().join("a.plain");
        let rows = alone(&database, Some(&input), |work| {
            work()?;
            assert_eq!(fs::metadata(&copy).unwrap().len(), bytes);
            Ok(7)
        });
        assert_eq!(rows.unwrap(), 7);
        assert!(!copy.exists() && database.exists());
        let none = folder.path().join("none.csv");
        assert!(alone(&database, Some(&none), |work| work()).is_err());
        assert!(!copy.exists());
    }
}
