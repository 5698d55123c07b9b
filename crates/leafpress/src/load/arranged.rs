//! A finished file, copied into another one with its pages in the order for readers at a distance.
//!
//! The format crate says where each page goes; here they are read and written. Must never: write to
//! the file that is read.

use std::path::Path;
use std::time::Duration;

use leafpress_format::{Arrangement, PageLayout, RelocateError, SchemaEntry};

use super::existing::{PageSource, damaged};
use super::file::output::Output;
use super::file::pages::{FileSize, not_written, refused};
use super::options::CancelToken;
use super::tree::sqlite::{FileShape, file_shape};
use crate::error::{Error, Result};

/// Pages are written in pieces of this size while their numbers ascend.
const PIECE_BYTES: usize = 1 << 20;

/// Reads a page of the file, by its number.
type ReadPage = Box<dyn FnMut(u32, &mut [u8]) -> Result<()>>;

/// A finished file whose trees have been found.
pub struct FinishedFile<'f> {
    path: &'f Path,
    layout: PageLayout,
    schema: Vec<SchemaEntry>,
    trees: Arrangement<ReadPage>,
}

/// Opens a file that no other program knows.
pub fn open(path: &Path) -> Result<FinishedFile<'_>> {
    let FileShape { layout, page_count, schema } = file_shape(path)?;
    let roots: Vec<u32> =
        schema.iter().map(|entry| entry.root_page).filter(|&root| root != 0).collect();
    let mut source = PageSource::open(path, layout, page_count)?;
    let read: ReadPage = Box::new(move |page, into| {
        into.copy_from_slice(source.page(page)?);
        Ok(())
    });
    let trees =
        Arrangement::find(layout, page_count, &roots, read).map_err(|error| failed(error, path))?;
    Ok(FinishedFile { path, layout, schema, trees })
}

impl FinishedFile<'_> {
    /// The page size with which nearly all rows would need no overflow pages.
    pub fn fitting_page_bytes(&mut self) -> Result<u32> {
        self.trees.fitting_page_bytes().map_err(|error| failed(error, self.path))
    }

    /// Writes all pages to `output`, the file at `to`.
    pub fn arrange(self, output: &Output, to: &Path, cancel: &CancelToken) -> Result<FileSize> {
        let Self { path, layout, mut schema, trees } = self;
        let page_bytes = layout.page_bytes();
        let (mut first, mut piece) = (1, Vec::with_capacity(PIECE_BYTES));
        let write_piece = |first: u32, piece: &mut Vec<u8>| {
            let offset = (u64::from(first) - 1) * page_bytes as u64;
            output.write_at(piece, offset).map_err(|source| not_written(to, source))?;
            piece.clear();
            cancel.check()
        };
        let page_count = trees
            .write(&mut schema, |number, page| {
                let next = first + (piece.len() / page_bytes) as u32;
                if number != next || piece.len() + page_bytes > PIECE_BYTES {
                    write_piece(first, &mut piece)?;
                    first = number;
                }
                piece.extend_from_slice(page);
                Ok(())
            })
            .map_err(|error| failed(error, path))?;
        write_piece(first, &mut piece)?;
        let bytes = u64::from(page_count) * page_bytes as u64;
        output.drain().map_err(|source| not_written(to, source))?;
        output.set_len(bytes).map_err(|source| Error::io("write", to, source))?;
        Ok(FileSize { pages: page_count.into(), bytes, sync: Duration::ZERO, is_arranged: true })
    }
}

fn failed(error: RelocateError<Error>, path: &Path) -> Error {
    match error {
        RelocateError::Mover(error) => error,
        RelocateError::Format(error) => refused(error, path),
        error => damaged(path, &error.to_string()),
    }
}
