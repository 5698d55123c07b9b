//! The traits of all inputs of typed rows: JSON, Arrow and Parquet, the tables of another
//! database, rows of values.
//!
//! ```text
//! RowSource ──open──► RowReader ──claim──► raw ──RowDecoder::decode──► RowBatch
//!                     (one at a time, in order)  (any thread)          (values by row and column)
//! ```
//!
//! CSV, the input that is loaded most, has a path of its own: its fields go
//! into records with no value in between.
//!
//! Must never: know what becomes of the rows.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use leafpress_format::{Prepared, PreparedRows, Value};

use super::as_json::excerpt;
use crate::error::{BadRow, Error, Result};
use crate::schema::names::ColumnName;

/// A column as its source knows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SourceColumn {
    /// Its name.
    pub name: ColumnName,
    /// The storage class of all its values but NULL, where the source says so;
    /// `None` where the values themselves must be looked at.
    pub declared: Option<SourceType>,
    /// Its declaration in SQL, where the source is a database.
    pub declared_sql: Option<String>,
}

/// The type that a source promises for all values of a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SourceType {
    /// 64-bit integers.
    Integer,
    /// 64-bit floats.
    Real,
    /// Text in UTF-8.
    Text,
    /// Bytes.
    Blob,
}

/// The kinds of values that a source has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ValueKinds {
    /// Texts; those that spell a number come as that number, with their text.
    Fields,
    /// Texts and numbers, and no blobs.
    Json,
    /// Texts, numbers and blobs.
    All,
}

/// An input of typed rows, which can be opened more than once.
pub trait RowSource {
    /// Reads the input in order.
    type Reader: RowReader;
    /// Takes apart the pieces that the reader reads.
    type Decoder: RowDecoder<Raw = <Self::Reader as RowReader>::Raw>;

    /// True if a column that an input does not have is no error.
    const HAS_OPTIONAL_COLUMNS: bool = false;

    /// The path, or what stands for it in messages.
    fn name(&self) -> &str;

    /// The table that the rows come from, if they come from one.
    fn table(&self) -> Option<&str> {
        None
    }

    /// Notes on the columns for the user.
    fn notes(&self) -> Vec<String> {
        Vec::new()
    }

    /// Notes that a pass over all rows has shown.
    fn notes_at_end(&self) -> Vec<String> {
        Vec::new()
    }

    /// Numbers of NaN values by column, which become NULL, as far as a pass has shown them.
    fn nan_counts(&self) -> Vec<u64> {
        Vec::new()
    }

    /// The columns, which are known as soon as the source is made.
    fn columns(&self) -> &[SourceColumn];

    /// Returns true if it is known to have no row, so that it does not matter which columns it lacks.
    fn is_empty(&self) -> bool {
        false
    }

    /// True if one opening must have been read to its end before the next one.
    fn is_stream(&self) -> bool {
        false
    }

    /// True if reading it holds a transaction on a database.
    const READS_DATABASE: bool = false;

    /// The kinds of its values.
    fn value_kinds(&self) -> ValueKinds {
        ValueKinds::All
    }

    /// Returns true if it can be opened more than once.
    fn opens_again(&self) -> bool {
        true
    }

    /// Gives up what reading holds, until it is opened again.
    fn release(&mut self) {}

    /// Opens it at its start. `bytes_read` counts, from 0, the bytes that are read of it.
    ///
    /// # Errors
    /// Fails if the input cannot be opened (again) or has changed in between.
    fn open(&mut self, bytes_read: &Arc<AtomicU64>) -> Result<(Self::Reader, Self::Decoder)>;

    /// Checks, after all of it was read, that it is as it was when it was opened. A source whose
    /// reader checks that at its end need not.
    ///
    /// # Errors
    /// It has changed meanwhile.
    fn check_unchanged(&self) -> Result<()> {
        Ok(())
    }

    /// Reads all of the input to find columns that its beginning did not show.
    /// Called when a decoder met one ([`DecodeHalt::NewColumn`]).
    ///
    /// # Errors
    /// As [`open`](Self::open).
    fn discover_columns(&mut self, bytes_read: &Arc<AtomicU64>) -> Result<()>;
}

/// Reads an opened input in order, under a lock: it does as little as it can.
pub trait RowReader: Send {
    /// A piece of the input, not yet taken apart.
    type Raw: Send + Default;

    /// Reads the next piece; false at the input's end.
    ///
    /// # Errors
    /// Fails if the input cannot be read.
    fn claim(&mut self, raw: &mut Self::Raw) -> Result<bool>;

    /// The size of the input as it is read, if known.
    fn bytes_total(&self) -> Option<u64>;
}

/// Takes pieces apart, on any thread.
pub trait RowDecoder: Sync {
    /// A piece of the input.
    type Raw: Send + Default;
    /// Its rows.
    type Batch: RowBatch;

    /// Fills the batch, which may hold an earlier piece's rows, with those of a piece.
    ///
    /// # Errors
    /// Fails with [`DecodeHalt::NewColumn`] at a column that is not known yet, and with
    /// [`DecodeHalt::Failed`] if the input is damaged.
    fn decode(&self, raw: &mut Self::Raw, batch: &mut Self::Batch) -> Result<(), DecodeHalt>;
}

/// The reason why a piece could not be taken apart.
#[derive(Debug)]
pub enum DecodeHalt {
    /// A column that the source has not named so far.
    NewColumn,
    /// The input is damaged.
    Failed(Error),
}

impl From<Error> for DecodeHalt {
    fn from(error: Error) -> Self {
        Self::Failed(error)
    }
}

/// Place of a batch's column among the values that are prepared for records.
#[cfg_attr(not(feature = "arrow"), expect(dead_code, reason = "only Arrow prepares columns"))]
#[derive(Debug, Clone, Copy)]
pub struct ColumnPlan {
    /// Index of the column in the batch.
    pub column: usize,
    /// Index of the column in the records.
    pub place: usize,
    /// Value of a NULL.
    pub null: Prepared,
    /// Index of the first of the column's buffers among those of all columns.
    pub first_text: usize,
}

/// Rows whose values are found by row and column.
pub trait RowBatch: Send + Sync + Default {
    /// Number of good rows.
    fn rows(&self) -> usize;

    /// The value of a column, by its place in [`RowSource::columns`].
    fn value(&self, row: usize, column: usize) -> Value<'_>;

    /// The value's own text, for a column that turns out to be TEXT: the text of
    /// [`Value::Text`], and a number or boolean as the input spells it. `None`
    /// where it is no text there.
    fn text(&self, row: usize, column: usize) -> Option<&[u8]> {
        match self.value(row, column) {
            Value::Text(text) => Some(text),
            _ => None,
        }
    }

    /// A whole number that stands as a text in the input, and true if it is written as a plain integer
    /// there; `None` for other values.
    #[inline(always)]
    fn whole_number(&self, _row: usize, _column: usize) -> Option<(f64, bool)> {
        None
    }

    /// The text of a column as a part of a larger buffer, which is copied faster; `None` where it
    /// is no text, or not kept so.
    #[inline(always)]
    fn text_within(&self, _row: usize, _column: usize) -> Option<(&[u8], Range<usize>)> {
        None
    }

    /// Returns true if all values of a column are of the wanted type or NULL, and can be prepared for
    /// records; adds the buffers with its texts.
    fn may_prepare<'b>(
        &'b self,
        _column: usize,
        _wanted: SourceType,
        _texts: &mut Vec<&'b [u8]>,
    ) -> bool {
        false
    }

    /// Prepares a column of some rows, of which the first goes into the first of `into`.
    #[inline(always)]
    fn prepare(&self, _plan: ColumnPlan, _rows: Range<usize>, _into: &mut PreparedRows) {}

    /// Largest number of bytes of text and blob content that a row may have.
    fn content_bytes(&self, row: usize) -> usize;

    /// The row's line in the input, or its number from 1 where there are no lines.
    fn line(&self, row: usize) -> u64;

    /// The row as a person would look it up in the input, shortened where long.
    fn excerpt(&self, row: usize) -> String {
        excerpt(&self.original(row))
    }

    /// The row as it stood in the input, for a file of rejected rows.
    fn original(&self, row: usize) -> Vec<u8>;

    /// Rows that could not be taken apart, in order.
    fn bad_rows(&self) -> &[BadInputRow] {
        &[]
    }
}

/// A row that could not be taken apart.
#[derive(Debug, Clone)]
pub struct BadInputRow {
    /// Number of good rows of the batch that come before it.
    pub good_rows_before: usize,
    /// The error, with its place in the input.
    pub bad_row: BadRow,
    /// The row as it stood in the input.
    pub original: Vec<u8>,
}
