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
    /// Interior pages, if they are known.
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
    match runs.last_mut() {
        Some(run) if run.first + run.pages == number => run.pages += 1,
        _ => runs.push(PageRun { first: number, pages: 1 }),
    }
}
