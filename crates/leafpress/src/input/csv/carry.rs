//! The unfinished record at the end of one block, kept for the next: the one
//! step between blocks that has to be done in their order.
//!
//! # Invariants
//! 1. After [`Carry::settle`] the block and its index hold whole records only.
//! 2. Each byte is moved at most once into a carry and scanned at most once on
//!    speculation and once more: a record over n blocks costs O(its bytes).
//!
//! Must never: lose or double a record, whatever the size of the blocks.

use std::mem::swap;

use super::super::block::{BLOCK_HEADROOM, Block, TOO_LONG_ADVICE, record_bytes_limit};
use super::dialect::Dialect;
use super::locate::{self, EXCERPT_BYTES_MAX};
use super::scan::{FieldIndex, Scanner};
use crate::{BadRow, Error, ErrorKind, Result};

/// The bytes of an unfinished record with the scanner that stands at their end.
#[derive(Debug)]
pub struct Carry {
    block: Block,
    index: FieldIndex,
    scanner: Scanner,
    is_held: bool,
    /// The input's name, for messages.
    file: String,
    record_bytes_max: u64,
}

impl Carry {
    /// A carry that holds nothing, for the input named `file`.
    pub fn new(dialect: Dialect, file: impl Into<String>, record_bytes_max: u64) -> Self {
        Self {
            block: Block::default(),
            index: FieldIndex::default(),
            scanner: Scanner::new(dialect),
            is_held: false,
            file: file.into(),
            record_bytes_max: record_bytes_limit(record_bytes_max),
        }
    }

    /// Corrects what `scanner` made of `block` on the guess that it starts with
    /// a record, and keeps back the record that it leaves unfinished. To be
    /// called for all blocks in their order. Any of the three may come back
    /// with another's memory; `block` may come back with no record at all.
    ///
    /// # Errors
    /// Fails if a record grows beyond the limit. All bytes are still there then.
    pub fn settle(
        &mut self,
        block: &mut Block,
        index: &mut FieldIndex,
        scanner: &mut Scanner,
    ) -> Result<()> {
        if self.is_held {
            self.is_held = false;
            self.block.append(block).map_err(|error| error.describe(&self.file))?;
            swap(&mut self.block, block);
            swap(&mut self.index, index);
            swap(&mut self.scanner, scanner);
            scanner.scan(block.bytes(), index);
        }
        let Some(start) = scanner.incomplete_start(block.bytes(), index) else {
            return Ok(());
        };
        self.is_held = true;
        if start == block.start() {
            // Nothing but this record: no byte is copied, however long it is.
            swap(block, &mut self.block);
            swap(&mut self.index, index);
            swap(&mut self.scanner, scanner);
            block.clear();
            index.clear();
        } else {
            let shift = start - BLOCK_HEADROOM;
            index.split_off(start, shift, &mut self.index);
            self.scanner = scanner.moved(start, shift);
            let split = block.split_off(start, &mut self.block);
            split.map_err(|error| error.describe(&self.file))?;
        }
        self.check_size()
    }

    /// The unfinished record that is left once all blocks are settled, as the
    /// error that it is.
    pub fn unfinished(&self) -> Option<BadRow> {
        if !self.is_held {
            return None;
        }
        unfinished(&self.file, &self.block, &self.scanner, &self.index)
    }

    /// Returns true if the next block will begin with a record that is kept back.
    pub fn is_held(&self) -> bool {
        self.is_held
    }

    /// The bytes that are kept back.
    pub fn data(&self) -> &[u8] {
        if self.is_held { self.block.data() } else { &[] }
    }

    /// The stray quotes of the unfinished record, which no block's index counts.
    pub fn stray_quotes(&self) -> u64 {
        if self.is_held { self.index.stray_quotes() } else { 0 }
    }

    fn check_size(&self) -> Result<()> {
        let held_bytes = self.block.data().len() as u64;
        if held_bytes <= self.record_bytes_max {
            return Ok(());
        }
        let line = self.block.first_line();
        let opened = match self.unfinished() {
            Some(row) if self.scanner.is_in_quotes() => {
                format!(", and the quote at line {}, column {} is still open", row.line, row.column)
            }
            _ => String::new(),
        };
        let reason = format!(
            "the record that starts at line {line} is longer than {} bytes{opened}",
            self.record_bytes_max
        );
        Err(Error::from(ErrorKind::Input { file: self.file.clone(), reason })
            .to_do(TOO_LONG_ADVICE))
    }
}

/// The record at the end of a block that `scanner` leaves unfinished, as the error that it is.
pub fn unfinished(
    file: &str,
    block: &Block,
    scanner: &Scanner,
    index: &FieldIndex,
) -> Option<BadRow> {
    let bytes = block.bytes();
    let record = scanner.incomplete_start(bytes, index)?;
    let position = block.position(scanner.open_field_start(bytes, index)?);
    let reason = if scanner.is_in_quotes() {
        "the quote that opens here is never closed"
    } else {
        "the input ends right after an escape byte in this field"
    };
    Some(BadRow {
        file: file.to_owned(),
        line: position.line,
        column: position.column,
        reason: reason.to_owned(),
        row: locate::excerpt(bytes, record, bytes.len(), EXCERPT_BYTES_MAX),
    })
}
