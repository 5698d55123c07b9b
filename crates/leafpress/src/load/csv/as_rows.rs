//! A CSV input as typed rows, for loads whose inputs are of several formats.
//!
//! A load of CSV alone puts fields into records with no value in between. Here each field is a
//! value: a number if its text is one by the rules of [`schema`](crate::schema), which keeps its
//! text, and else a text. An empty field is NULL among numbers and '' among texts. A text that means
//! NULL is NULL.
//!
//! Must never: divide the input otherwise than a load of CSV alone does.

use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex};

use leafpress_format::Value;

use super::input::{Opened, Opening};
use super::pass::{bad_row, check_lengths};
use super::reading::Reading;
use super::signs::{Signs, Strays, escaped_letter_line};
use crate::error::{BadRow, Result};
use crate::input::block::{Block, BlockReader};
use crate::input::csv::{Carry, Dialect, FieldIndex, Scanner};
use crate::input::rows::{
    BadInputRow, DecodeHalt, RowBatch, RowDecoder, RowReader, RowSource, SourceColumn, ValueKinds,
};
use crate::input::source::Source;
use crate::load::monitor::Monitor;
use crate::load::options::LoadOptions;
use crate::load::values::fields::{RowRules, Scratch};
use crate::schema::{HEADROOM_BYTES, RealRule, exact_integer, kept_real, marks};
use crate::sync::lock;

/// Findings of a pass in its pieces so far.
#[derive(Default)]
struct PassFound {
    pieces: u64,
    strays: Strays,
    signs: Signs,
}

/// A CSV input whose rows are taken apart to values.
pub struct CsvRows<'l> {
    opening: Opening<'l>,
    source: Source<'l>,
    reading: Reading,
    columns: Vec<SourceColumn>,
    notes: Vec<String>,
    /// Findings of each pass.
    passes: Vec<Arc<Mutex<PassFound>>>,
    /// Taken by the first pass.
    first: Option<Opened<'l>>,
}

impl<'l> CsvRows<'l> {
    /// Reads the input's beginning.
    ///
    /// # Errors
    /// Fails if the input cannot be read, or has no columns.
    pub fn new(options: &'l LoadOptions, monitor: &'l Monitor, source: Source<'l>) -> Result<Self> {
        let page_bytes = options.page_bytes() as usize;
        let opening = Opening { options, page_bytes, monitor, declared: None, is_single: false };
        let (mut input, header) = opening.input(source)?;
        if options.into.is_none() && options.declaration.is_none() {
            input.reading.refuse_unsure(input.source.name())?;
        }
        let column = |name| SourceColumn { name, declared: None, declared_sql: None };
        let columns = header.names.into_iter().map(column).collect();
        let mut notes = std::mem::take(&mut input.reading.notes);
        notes.extend(header.notes);
        let (source, reading, first) = (input.source, input.reading, input.first);
        Ok(Self { opening, source, reading, columns, notes, passes: Vec::new(), first })
    }
}

impl<'l> RowSource for CsvRows<'l> {
    type Reader = FieldsReader<'l>;
    type Decoder = FieldsDecoder;

    fn name(&self) -> &str {
        self.source.name()
    }

    fn value_kinds(&self) -> ValueKinds {
        ValueKinds::Fields
    }

    fn columns(&self) -> &[SourceColumn] {
        &self.columns
    }

    fn notes(&self) -> Vec<String> {
        self.notes.clone()
    }

    fn notes_at_end(&self) -> Vec<String> {
        let (name, ragged) = (self.source.name(), self.opening.options.csv.ragged);
        let passes = self.passes.iter().map(|pass| lock(pass));
        // The last pass may have looked for some rows only.
        let mut notes = passes.max_by_key(|found| found.pieces).map_or(Vec::new(), |found| {
            let signs = found.signs.notes(name, &self.reading, ragged);
            found.strays.note(name).into_iter().chain(signs).collect()
        });
        notes.extend(self.reading.late_notes(name));
        notes
    }

    fn is_stream(&self) -> bool {
        self.source.is_stream()
    }

    fn open(&mut self, _bytes_read: &Arc<AtomicU64>) -> Result<(FieldsReader<'l>, FieldsDecoder)> {
        let opened = match self.first.take() {
            Some(opened) => opened,
            None => self.opening.open(&mut self.source, &self.reading)?,
        };
        let (options, dialect) = (self.opening.options, self.reading.dialect);
        let (file, record_bytes_max) = (self.source.name(), options.csv.max_record_bytes);
        let null_texts = options.null_texts();
        let empty_is_null = options.empty_null || null_texts.iter().any(Vec::is_empty);
        let rules = RowRules::for_header(self.columns.len(), dialect)
            .null_markers(null_texts)
            .trim(options.trim)
            .ragged(options.csv.ragged);
        let found = Arc::<Mutex<PassFound>>::default();
        self.passes.push(Arc::clone(&found));
        let reader = FieldsReader {
            file: file.to_owned(),
            dialect,
            found: Arc::clone(&found),
            record_bytes_max,
            first: opened.first,
            blocks: opened.blocks,
            carry: Carry::new(dialect, file, record_bytes_max),
            scanner: Scanner::new(dialect),
            header_is_ahead: options.has_header(),
            is_over: false,
        };
        let (file, columns) = (file.to_owned(), self.columns.len());
        Ok((reader, FieldsDecoder { file, rules, columns, empty_is_null, found }))
    }

    /// All columns are known from the header.
    fn discover_columns(&mut self, _bytes_read: &Arc<AtomicU64>) -> Result<()> {
        Ok(())
    }
}

/// Reads a CSV input in blocks of whole records.
pub struct FieldsReader<'l> {
    file: String,
    dialect: Dialect,
    found: Arc<Mutex<PassFound>>,
    record_bytes_max: u64,
    first: Option<Block>,
    blocks: BlockReader<'l>,
    carry: Carry,
    scanner: Scanner,
    header_is_ahead: bool,
    is_over: bool,
}

/// Whole records, with the ends of their fields.
#[derive(Default)]
pub struct FieldsPiece {
    block: Block,
    index: FieldIndex,
    skip_header: bool,
    /// The record that the end of the input leaves open, and its bytes.
    unfinished: Option<(BadRow, Vec<u8>)>,
}

impl RowReader for FieldsReader<'_> {
    type Raw = FieldsPiece;

    fn claim(&mut self, piece: &mut FieldsPiece) -> Result<bool> {
        *piece = FieldsPiece::default();
        let FieldsPiece { block, index, .. } = piece;
        if let Some(first) = self.first.take() {
            *block = first;
        } else if self.is_over || !self.blocks.next(block)? {
            let is_first_end = !std::mem::replace(&mut self.is_over, true);
            if is_first_end {
                lock(&self.found).strays.add_open(&self.carry);
            }
            let unfinished = self.carry.unfinished().filter(|_| is_first_end);
            piece.unfinished = unfinished.map(|row| (row, self.carry.data().to_vec()));
            return Ok(piece.unfinished.is_some());
        }
        block.check_memory().map_err(|error| error.describe(&self.file))?;
        self.scanner.begin(block.start(), index);
        self.scanner.scan(block.bytes(), index);
        self.carry.settle(block, index, &mut self.scanner)?;
        check_lengths((&self.file, self.record_bytes_max), block, index)?;
        let mut found = lock(&self.found);
        found.pieces += 1;
        found.strays.add(block, index, self.dialect);
        piece.skip_header = self.header_is_ahead && !index.record_ends().is_empty();
        self.header_is_ahead &= !piece.skip_header;
        Ok(true)
    }

    fn bytes_total(&self) -> Option<u64> {
        self.blocks.bytes_total()
    }
}

/// Takes records apart to values.
pub struct FieldsDecoder {
    file: String,
    rules: RowRules,
    columns: usize,
    empty_is_null: bool,
    found: Arc<Mutex<PassFound>>,
}

/// Rows of a CSV input.
#[derive(Default)]
pub struct FieldsBatch {
    block: Block,
    /// The fields' texts, behind some bytes of headroom.
    text: Vec<u8>,
    fields: Vec<Field>,
    columns: usize,
    empty_is_null: bool,
    rows: Vec<RowPlace>,
    bad_rows: Vec<BadInputRow>,
}

/// A field: its text's place, and its value.
#[derive(Clone, Copy)]
struct Field {
    start: usize,
    end: usize,
    kind: FieldKind,
}

#[derive(Clone, Copy)]
enum FieldKind {
    Null,
    Empty,
    Integer(i64),
    /// A number, and its [`marks`].
    Real(f64, u8),
    Text,
}

/// A row: its place in the block, its line, and the bytes of its fields.
struct RowPlace {
    start: usize,
    end: usize,
    line: u64,
    content_bytes: usize,
}

impl RowDecoder for FieldsDecoder {
    type Raw = FieldsPiece;
    type Batch = FieldsBatch;

    fn decode(&self, piece: &mut FieldsPiece, batch: &mut FieldsBatch) -> Result<(), DecodeHalt> {
        let FieldsPiece { block, index, skip_header, unfinished } = std::mem::take(piece);
        let (columns, empty_is_null) = (self.columns, self.empty_is_null);
        let text = vec![0; HEADROOM_BYTES];
        *batch = FieldsBatch { text, columns, empty_is_null, ..FieldsBatch::default() };
        let (mut scratch, mut signs) = (Scratch::new(), Signs::default());
        signs.add_letter(escaped_letter_line(&block, self.rules.dialect));
        let (bytes, is_utf8) = (block.bytes(), self.rules.is_text(block.data()));
        let mut counted = (block.start(), block.first_line());
        for span in index.records(bytes, block.start()).skip(usize::from(skip_header)) {
            if let Err(misfit) = self.rules.check(bytes, &span, is_utf8, &mut scratch) {
                signs.add(&misfit, &block);
                let original = self.rules.as_rejected(bytes, &span).into_owned();
                let of = (&block, self.rules.dialect);
                batch.add_bad_row(bad_row(&self.file, of, misfit, &span, counted), original);
                continue;
            }
            counted = (span.start, block.position_from(counted, span.start).line);
            if self.rules.is_ragged(&span) {
                signs.add_reshaped(|| counted.1);
            }
            batch.add_row(
                (span.start, span.end(), counted.1),
                &self.rules.values_or_null(bytes, &span),
            );
        }
        if let Some((row, original)) = unfinished {
            batch.add_bad_row(row, original);
        }
        lock(&self.found).signs.merge(signs);
        batch.block = block;
        Ok(())
    }
}

impl FieldsBatch {
    /// Adds a row: its start, its end, its line and its fields. A field too many is left out, as the
    /// rules let only rows pass that may have one.
    fn add_row(&mut self, (start, end, line): (usize, usize, u64), values: &[Option<Vec<u8>>]) {
        let before = self.text.len();
        for column in 0..self.columns {
            let is_null = values.get(column).is_some_and(Option::is_none);
            let value = values.get(column).and_then(Option::as_deref).unwrap_or_default();
            let start = self.text.len();
            self.text.extend_from_slice(value);
            let end = self.text.len();
            let kind = if is_null { FieldKind::Null } else { kind_of(&self.text, start, end) };
            self.fields.push(Field { start, end, kind });
        }
        self.rows.push(RowPlace { start, end, line, content_bytes: self.text.len() - before });
    }

    fn add_bad_row(&mut self, bad_row: BadRow, original: Vec<u8>) {
        let good_rows_before = self.rows.len();
        self.bad_rows.push(BadInputRow { good_rows_before, bad_row, original });
    }

    fn field(&self, row: usize, column: usize) -> Field {
        self.fields[row * self.columns + column]
    }
}

/// The kind of a field. A number is one if its text can be had back from it, as in a load of CSV
/// alone.
fn kind_of(text: &[u8], start: usize, end: usize) -> FieldKind {
    if start == end {
        FieldKind::Empty
    } else if let Some(integer) = exact_integer(text, start, end) {
        FieldKind::Integer(integer)
    } else if let Some(real) = kept_real(text, start, end, 0, RealRule::Value) {
        FieldKind::Real(real.value, real.marks)
    } else {
        FieldKind::Text
    }
}

impl RowBatch for FieldsBatch {
    fn rows(&self) -> usize {
        self.rows.len()
    }

    fn value(&self, row: usize, column: usize) -> Value<'_> {
        let Field { start, end, kind } = self.field(row, column);
        match kind {
            FieldKind::Null | FieldKind::Empty => Value::Null,
            FieldKind::Integer(integer) => Value::Integer(integer),
            FieldKind::Real(real, _) => Value::Real(real),
            FieldKind::Text => Value::Text(&self.text[start..end]),
        }
    }

    fn text(&self, row: usize, column: usize) -> Option<&[u8]> {
        let Field { start, end, kind } = self.field(row, column);
        let is_null = match kind {
            FieldKind::Null => true,
            FieldKind::Empty => self.empty_is_null,
            _ => false,
        };
        (!is_null).then(|| &self.text[start..end])
    }

    fn whole_number(&self, row: usize, column: usize) -> Option<(f64, bool)> {
        match self.field(row, column).kind {
            FieldKind::Integer(integer) => Some((integer as f64, true)),
            FieldKind::Real(real, it) if it & marks::FRACTION == 0 => {
                Some((real, it & marks::PLAIN != 0))
            }
            _ => None,
        }
    }

    fn content_bytes(&self, row: usize) -> usize {
        self.rows[row].content_bytes
    }

    fn line(&self, row: usize) -> u64 {
        self.rows[row].line
    }

    fn original(&self, row: usize) -> Vec<u8> {
        let RowPlace { start, end, .. } = self.rows[row];
        self.block.bytes()[start..end].to_vec()
    }

    fn bad_rows(&self) -> &[BadInputRow] {
        &self.bad_rows
    }
}
