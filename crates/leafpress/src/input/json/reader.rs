//! Cuts an opened input into pieces of whole rows.
//!
//! Called under a lock, so it only reads and looks for a place to cut: the last
//! newline, or the last bracket that closes a row.
//!
//! Must never: parse.

use memchr::memrchr;

use super::batch::JsonPiece;
use super::decode::Form;
use super::nesting::{Elements, Objects};
use crate::input::block::{Block, BlockReader};
use crate::input::rows::RowReader;
use crate::{Error, ErrorKind, Result};

/// Reads the pieces of an input in order.
pub struct JsonReader<'a> {
    file: String,
    blocks: BlockReader<'a>,
    cutter: Cutter,
    is_first: bool,
    /// Bytes before the next piece on its first line.
    bytes_before: u64,
}

/// The rule for where pieces may end.
enum Cutter {
    Lines,
    Objects(Objects),
    Array(Elements),
}

impl<'a> JsonReader<'a> {
    pub(super) fn new(file: &str, blocks: BlockReader<'a>, form: Form) -> Self {
        let cutter = match form {
            Form::Lines => Cutter::Lines,
            Form::Objects => Cutter::Objects(Objects::default()),
            Form::Array => Cutter::Array(Elements::default()),
        };
        Self { file: file.to_owned(), blocks, cutter, is_first: true, bytes_before: 0 }
    }

    /// The lines of the pieces so far; at the end, of the input.
    pub fn lines_total(&self) -> u64 {
        self.blocks.lines_read() + u64::from(self.bytes_before > 0)
    }

    fn next_block(&mut self, piece: &mut JsonPiece) -> Result<bool> {
        match &mut self.cutter {
            Cutter::Lines => self.blocks.next(&mut piece.block),
            Cutter::Objects(objects) => self.blocks.next_cut(&mut piece.block, objects),
            Cutter::Array(elements) => {
                piece.is_after_array = elements.is_closed;
                let is_more = self.blocks.next_cut(&mut piece.block, elements)?;
                if !is_more && !elements.is_closed && !self.is_first {
                    return Err(self.open_array());
                }
                Ok(is_more)
            }
        }
    }

    fn open_array(&self) -> Error {
        let line = self.lines_total();
        let reason = format!("the array is not closed: the input ends after line {line}");
        Error::from(ErrorKind::Input { file: self.file.clone(), reason })
            .to_do("see whether the file was copied or downloaded to its end")
    }

    fn count_bytes_before(&mut self, block: &Block) {
        let data = block.data();
        match memrchr(b'\n', data) {
            Some(newline) => self.bytes_before = (data.len() - newline - 1) as u64,
            None => self.bytes_before += data.len() as u64,
        }
    }
}

impl RowReader for JsonReader<'_> {
    type Raw = JsonPiece;

    fn claim(&mut self, piece: &mut JsonPiece) -> Result<bool> {
        piece.is_first = self.is_first;
        piece.bytes_before = self.bytes_before;
        if !self.next_block(piece)? {
            return Ok(false);
        }
        self.is_first = false;
        self.count_bytes_before(&piece.block);
        Ok(true)
    }

    fn bytes_total(&self) -> Option<u64> {
        self.blocks.bytes_total()
    }
}
