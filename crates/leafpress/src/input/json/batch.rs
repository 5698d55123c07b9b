//! The rows of one piece of the input, by row and column.
//!
//! Filled by the decoder, read by the loader. Cells point into the piece, which
//! the batch owns as long as its rows are wanted; the memory goes round between
//! reader and batch.
//!
//! # Invariants
//! 1. The cells of a row stand in the order of their columns, one a column. A
//!    column without a cell is NULL.
//!
//! Must never: copy a value.

use leafpress_format::Value;

use super::keys::Keys;
use super::parse::{Cell, Kind, Parsed};
use super::repeats::Repeats;
use crate::input::block::Block;
use crate::input::csv::locate::{EXCERPT_BYTES_MAX, excerpt};
use crate::input::rows::{BadInputRow, RowBatch};

/// A piece of the input: whole rows, not yet taken apart.
#[derive(Debug, Default)]
pub struct JsonPiece {
    pub(super) block: Block,
    /// Bytes of the input that stand before the piece on its first line.
    pub(super) bytes_before: u64,
    /// True if the input begins with this piece.
    pub(super) is_first: bool,
    /// True if the input is an array, and the array ended before this piece.
    pub(super) is_after_array: bool,
}

/// The place of a row in its piece, and the place of its cells.
#[derive(Debug, Clone, Copy)]
pub(super) struct Row {
    pub start: u32,
    pub end: u32,
    pub first_cell: u32,
    pub cells_end: u32,
    /// Lines of the piece before it.
    pub lines_before: u32,
}

/// Rows made of JSON objects.
#[derive(Debug, Default)]
pub struct JsonBatch {
    pub(super) piece: JsonPiece,
    pub(super) rows: Vec<Row>,
    pub(super) parsed: Parsed,
    pub(super) bad_rows: Vec<BadInputRow>,
    /// Keys of good rows that are no column yet, where they are collected.
    pub(super) found: Keys,
}

impl JsonBatch {
    /// Takes the piece in place of the one before, and forgets its rows.
    pub(super) fn begin(&mut self, piece: &mut JsonPiece, columns: usize) {
        std::mem::swap(&mut self.piece, piece);
        self.rows.clear();
        self.parsed.clear(columns);
        self.bad_rows.clear();
        self.found = Keys::default();
    }

    /// The good rows that repeat a key.
    pub(super) fn repeats(&self) -> Option<Repeats> {
        let repeats = &self.parsed.repeats;
        let first = repeats.first()?;
        let cell = first.first_cell as u32;
        let has_it = |row: &Row| (row.first_cell..row.cells_end).contains(&cell);
        let row = self.rows.iter().position(has_it)?;
        let first = (self.line(row), first.column);
        Some(Repeats { rows: repeats.len() as u64, first })
    }

    #[inline(always)]
    fn cell(&self, row: usize, column: usize) -> Option<&Cell> {
        let row = &self.rows[row];
        let cells = &self.parsed.cells[row.first_cell as usize..row.cells_end as usize];
        match cells.get(column) {
            Some(cell) if cell.column as usize == column => Some(cell),
            // Cells are missing, so this one stands further to the front.
            _ => {
                let front = &cells[..column.min(cells.len())];
                let at = front.binary_search_by_key(&(column as u32), |cell| cell.column).ok()?;
                Some(&front[at])
            }
        }
    }

    /// Returns the text that a cell's offsets stand for.
    #[inline(always)]
    fn text_of(&self, cell: &Cell) -> &[u8] {
        let bytes =
            if cell.kind == Kind::SideText { &self.parsed.side } else { self.piece.block.bytes() };
        &bytes[cell.start as usize..][..cell.len as usize]
    }

    fn row_bytes(&self, row: usize) -> &[u8] {
        let row = &self.rows[row];
        &self.piece.block.bytes()[row.start as usize..row.end as usize]
    }
}

impl RowBatch for JsonBatch {
    fn rows(&self) -> usize {
        self.rows.len()
    }

    #[inline]
    fn value(&self, row: usize, column: usize) -> Value<'_> {
        let Some(cell) = self.cell(row, column) else { return Value::Null };
        match cell.kind {
            Kind::Null => Value::Null,
            Kind::False => Value::Integer(0),
            Kind::True => Value::Integer(1),
            Kind::Integer => Value::Integer(cell.payload as i64),
            Kind::Real => Value::Real(f64::from_bits(cell.payload)),
            Kind::Text | Kind::SideText => Value::Text(self.text_of(cell)),
        }
    }

    fn text(&self, row: usize, column: usize) -> Option<&[u8]> {
        let cell = self.cell(row, column)?;
        (cell.kind != Kind::Null).then(|| self.text_of(cell))
    }

    fn content_bytes(&self, row: usize) -> usize {
        // No value is longer than it stands in the input.
        self.row_bytes(row).len()
    }

    fn line(&self, row: usize) -> u64 {
        self.piece.block.first_line() + u64::from(self.rows[row].lines_before)
    }

    fn excerpt(&self, row: usize) -> String {
        let row = self.row_bytes(row);
        excerpt(row, 0, row.len(), EXCERPT_BYTES_MAX)
    }

    fn original(&self, row: usize) -> Vec<u8> {
        self.row_bytes(row).to_vec()
    }

    fn bad_rows(&self) -> &[BadInputRow] {
        &self.bad_rows
    }
}
