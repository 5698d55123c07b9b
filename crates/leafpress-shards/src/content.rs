//! The content of a part: size, checksum and the places of interior pages, by one pass over its bytes.

use std::io::Read as _;
use std::path::Path;

use leafpress::vfs::locks::FileHandle;
use leafpress::{Error, Result};
use sha2::{Digest as _, Sha256};

use crate::key::hex;
use crate::manifest::PageRun;

/// Bytes that are read at once: pages of any size fit into it.
const CHUNK_BYTES: usize = 1 << 20;
/// From this number on, an overflow page may begin with the same byte as an interior page.
const PAGES_KNOWN_MAX: u64 = 1 << 25;
/// Most runs of interior pages that are noted. A file that is laid out for distance has them in few; without the
/// layout leaves stand between them, and a manifest of large parts would be a list of runs.
const RUNS_MAX: usize = 4;
/// First byte of interior pages of indexes and of tables.
const INTERIOR_KINDS: [u8; 2] = [2, 5];
/// Size of the database header, behind which page 1 begins.
const HEADER_BYTES: usize = 100;

/// Content of a part, as one pass over its bytes tells it.
#[derive(Debug)]
pub struct Content {
    /// Size of the file.
    pub bytes: u64,
    /// SHA-256, in hexadecimal digits.
    pub sha256: String,
    /// The first interior pages, if they are known: at most [`RUNS_MAX`] runs.
    pub interior_pages: Option<Vec<PageRun>>,
}

impl Content {
    /// Reads the file once.
    ///
    /// # Errors
    /// The system's.
    pub fn of(path: &Path, page_bytes: usize) -> Result<Self> {
        let failed = |source| Error::io("read", path, source);
        let mut file = FileHandle::open(path).map_err(failed)?;
        let (mut hash, mut chunk) = (Sha256::new(), vec![0; CHUNK_BYTES]);
        let (mut bytes, mut runs) = (0_u64, Vec::new());
        loop {
            let filled = fill(&mut file, &mut chunk).map_err(failed)?;
            hash.update(&chunk[..filled]);
            for (index, page) in chunk[..filled].chunks(page_bytes).enumerate() {
                let number = bytes / page_bytes as u64 + index as u64 + 1;
                let kind = if number == 1 { page.get(HEADER_BYTES) } else { page.first() };
                if kind.is_some_and(|kind| INTERIOR_KINDS.contains(kind)) {
                    add_page(&mut runs, number);
                }
            }
            bytes += filled as u64;
            if filled < chunk.len() {
                break;
            }
        }
        let is_known = bytes / (page_bytes as u64) < PAGES_KNOWN_MAX;
        let sha256 = hex(&hash.finalize());
        Ok(Self { bytes, sha256, interior_pages: is_known.then_some(runs) })
    }
}

/// Reads until the buffer is full or the file ends; returns the number of bytes.
pub fn fill(file: &mut FileHandle, buffer: &mut [u8]) -> std::io::Result<usize> {
    let mut filled = 0;
    while filled < buffer.len() {
        match file.read(&mut buffer[filled..])? {
            0 => break,
            read => filled += read,
        }
    }
    Ok(filled)
}

fn add_page(runs: &mut Vec<PageRun>, number: u64) {
    let count = runs.len();
    match runs.last_mut() {
        Some(run) if run.first + run.pages == number => run.pages += 1,
        _ if count < RUNS_MAX => runs.push(PageRun { first: number, pages: 1 }),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As in a large file without the layout for distance, whose leaves stand between interior pages.
    #[test]
    fn few_runs_are_noted() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("pages.db");
        let kinds = [5, 13, 2, 2, 10].repeat(1000);
        let pages: Vec<u8> =
            kinds.iter().flat_map(|&kind| [vec![kind], vec![0; 511]].concat()).collect();
        std::fs::write(&path, pages).expect("a file");
        let found = Content::of(&path, 512).expect("its content").interior_pages;
        let runs = [(3, 2), (6, 1), (8, 2), (11, 1)].map(|(first, pages)| PageRun { first, pages });
        assert_eq!(found.expect("they are known"), runs);
    }
}
