//! The beginning of a CSV input: its dialect and the names of its columns.

use std::fmt::Write as _;

use super::first_row::{ROWS_SEEN_MAX, is_number, row_as_header_note};
use super::reading::Reading;
use crate::error::{BadRow, Error, ErrorKind, Result};
use crate::input::block::{
    BLOCK_BYTES_DEFAULT, Block, BlockOptions, BlockReader, record_bytes_limit,
};
use crate::input::csv::carry::unfinished;
use crate::input::csv::header::Header;
use crate::input::csv::locate::{EXCERPT_BYTES_MAX, Position, excerpt, unclosed_quote};
use crate::input::csv::{Dialect, FieldIndex, RecordSpan, Scanner};
use crate::input::detect_encoding::{advise, detect, is_auto};
use crate::input::source::Source;
use crate::load::monitor::Monitor;
use crate::load::options::{IntoTable, LoadOptions, Ragged};
use crate::load::passes::columns::{ColumnMap, InputColumns, OwnColumns};
use crate::load::values::fields::{RejectsForm, RowRules, ValueSource, shown};
use crate::schema::names::ColumnName;
use crate::schema::shape::TableShape;
use crate::words::counted;

/// A run of leaves ends with each block and leaves half a page empty: the
/// larger the pages, the larger the blocks.
const BLOCK_PAGES_MIN: usize = 32;

/// The most columns that SQLite allows.
const COLUMNS_MAX: usize = 2000;
/// The longest record that is taken as a header: 2000 names of 500 bytes.
const HEADER_BYTES_MAX: usize = 1 << 20;
/// Advice about a quote that is never closed.
const UNCLOSED_ADVICE: &str = "close the quote; or, if quotes mean nothing in the file, load it \
     with ⟦no_quote⟧";

/// One input: where its columns go, and its beginning.
pub struct CsvInput<'s> {
    pub source: Source<'s>,
    pub reading: Reading,
    /// Form of its rejected rows, if they are not written as they stand.
    pub rejects: Option<RejectsForm>,
    pub fields: usize,
    pub sources: Vec<ValueSource>,
    /// Taken by the first pass.
    pub first: Option<Opened<'s>>,
}

impl CsvInput<'_> {
    pub fn columns(&self) -> InputColumns<'_> {
        InputColumns { name: self.source.name(), sources: &self.sources }
    }
}

/// An input, opened, with its first block read.
pub struct Opened<'s> {
    pub blocks: BlockReader<'s>,
    pub first: Option<Block>,
    pub index: FieldIndex,
    /// The first record, if the input ends before the record does.
    unfinished: Option<BadRow>,
}

/// Settings with which inputs are opened.
pub struct Opening<'l> {
    pub options: &'l LoadOptions,
    pub page_bytes: usize,
    pub monitor: &'l Monitor,
    /// The table, if it is declared or there already.
    pub declared: Option<&'l TableShape>,
    /// True if there is no other input.
    pub is_single: bool,
}

impl Opening<'_> {
    /// Reads an input's beginning. The mapping of its columns to the table's is not known yet.
    pub fn input<'s>(&self, mut source: Source<'s>) -> Result<(CsvInput<'s>, Header)> {
        let mut encoding = self.options.csv.encoding.clone();
        let mut note = None;
        if is_auto(encoding.as_deref()) {
            let detected = detect(&mut source)?;
            (encoding, note) = (Some(detected.label), Some(detected.note));
        }
        let mut blocks = self.blocks(&mut source, encoding.clone())?;
        let mut reading = Reading::of(self.options, source.name(), encoding, blocks.peek()?)?;
        reading.notes.splice(0..0, note);
        let opened = self.begin(blocks, &reading)?;
        let header = self.header(source.name(), &mut reading, &opened)?;
        let fields = header.names.len();
        let (sources, rejects, first) = (Vec::new(), None, Some(opened));
        let input = CsvInput { source, reading, rejects, fields, sources, first };
        Ok((input, header))
    }

    /// The mapping of an input's columns to the table's.
    pub fn map(&self, input: &str, names: &[ColumnName]) -> Result<ColumnMap> {
        let own = OwnColumns { names, others: &[] };
        match self.declared {
            Some(shape) => ColumnMap::of_table(self.options, input, own, shape),
            None => ColumnMap::of_input(self.options, own),
        }
    }

    /// Opens the input again, to be read in the same way.
    pub fn open<'s>(&self, source: &mut Source<'s>, reading: &Reading) -> Result<Opened<'s>> {
        let blocks = self.blocks(source, reading.encoding.clone())?;
        self.begin(blocks, reading)
    }

    fn blocks<'s>(
        &self,
        source: &mut Source<'s>,
        encoding: Option<String>,
    ) -> Result<BlockReader<'s>> {
        let raw = source.open(&self.monitor.bytes_read)?;
        self.monitor.set_total(raw.bytes_total());
        let options = BlockOptions {
            block_bytes: BLOCK_BYTES_DEFAULT.max(BLOCK_PAGES_MIN * self.page_bytes),
            record_bytes_max: self.options.csv.max_record_bytes,
            encoding,
        };
        BlockReader::new(raw, &options)
    }

    /// Reads on until the first record is complete.
    fn begin<'s>(&self, mut blocks: BlockReader<'s>, reading: &Reading) -> Result<Opened<'s>> {
        if !reading.lines.are_idle() {
            blocks.filter(reading.lines.clone(), reading.first_line);
        }
        let mut first = Block::new();
        let mut index = FieldIndex::new();
        if !blocks.next(&mut first)? {
            return Ok(Opened { blocks, first: None, index, unfinished: None });
        }
        let mut scanner = Scanner::new(reading.dialect);
        scanner.begin(first.start(), &mut index);
        scanner.scan(first.bytes(), &mut index);
        let mut next = Block::new();
        let mut bytes_max = record_bytes_limit(self.options.csv.max_record_bytes);
        if self.options.has_header() {
            bytes_max = bytes_max.min(HEADER_BYTES_MAX as u64);
        }
        while index.record_ends().is_empty()
            && first.data().len() as u64 <= bytes_max
            && blocks.next(&mut next)?
        {
            first.append(&next).map_err(|error| error.describe(blocks.name()))?;
            scanner.scan(first.bytes(), &mut index);
        }
        first.check_memory().map_err(|error| error.describe(blocks.name()))?;
        let has_none = index.record_ends().is_empty();
        let unfinished =
            if has_none { unfinished(blocks.name(), &first, &scanner, &index) } else { None };
        let is_blank = has_none && unfinished.is_none();
        Ok(Opened { blocks, first: (!is_blank).then_some(first), index, unfinished })
    }

    /// The columns' names: from the header, from the caller, or invented.
    fn header(&self, file: &str, reading: &mut Reading, opened: &Opened<'_>) -> Result<Header> {
        let csv = &self.options.csv;
        let first_record = opened.first.as_ref().and_then(|block| {
            let span = opened.index.records(block.bytes(), block.start()).next()?;
            Some((block, span))
        });
        let Some((block, span)) = first_record else {
            return self.header_of_none(file, reading, opened);
        };
        let (fields, is_named) = (span.field_ends.len(), self.options.has_header());
        if is_named {
            check_header_length(file, &span)?;
            refuse_unclosed(file, block, &span, reading.dialect)?;
        }
        let rules = RowRules::for_header(fields, reading.dialect).trim(self.options.trim);
        let values = rules.values(block.bytes(), &span);
        if is_named && opened.is_one_record() {
            self.take_lone_header(file, reading, &values)?;
        }
        if let Some(names) = &csv.columns {
            if names.len() != fields && csv.ragged == Ragged::Reject {
                let error = Error::misuse(format!(
                    "the options name {}, but {file} has {fields}",
                    counted(names.len() as u64, "column", "columns")
                ));
                let advice = reading.column_advice().unwrap_or_else(|| {
                    "name each column in ⟦columns⟧, with commas between; then choose with \
                     ⟦select⟧ or ⟦drop⟧"
                        .to_owned()
                });
                return Err(error.to_do(advice));
            }
            return Ok(Header::from_names(names.iter().cloned()));
        }
        if !is_named {
            return Ok(Header::numbered(fields));
        }
        // Of more columns, those that are chosen are counted once they are known.
        let is_choosing = !self.options.selects.is_empty() || !self.options.drops.is_empty();
        if fields > COLUMNS_MAX && !is_choosing {
            return Err(too_many_columns(file, fields));
        }
        let row_note = match self.declared {
            Some(_) => None,
            None => row_as_header_note(file, &values, &first_rows(opened, block, &rules)),
        };
        let header = Header::from_record(file, values);
        let header = header.map_err(|error| advise(error, block.data()))?;
        reading.notes.extend(reading.header_note(file, &header.names));
        reading.notes.extend(row_note);
        Ok(header)
    }

    /// The columns' names, of an input without a whole record.
    fn header_of_none(&self, file: &str, reading: &Reading, opened: &Opened<'_>) -> Result<Header> {
        let names = self.options.csv.columns.as_ref();
        match (&opened.unfinished, names) {
            (Some(record), _) if self.options.has_header() => Err(unfinished_header(record)),
            (Some(record), None) => Err(Error::from(record.clone()).to_do(UNCLOSED_ADVICE)),
            (_, Some(names)) => Ok(Header::from_names(names.iter().cloned())),
            (None, None) => Err(self.empty_input(file, reading, opened)),
        }
    }

    /// The error for an input so empty that it has no columns.
    fn empty_input(&self, file: &str, reading: &Reading, opened: &Opened<'_>) -> Error {
        let csv = &self.options.csv;
        let mut reason = if opened.blocks.lines_read() < reading.first_line {
            "the input is empty"
        } else if csv.comment.is_some() {
            "all lines are blank or comments"
        } else {
            "all lines are blank"
        }
        .to_owned();
        if csv.skip_lines > 0 {
            let lines = counted(csv.skip_lines, "line", "lines");
            let _ = write!(reason, " behind the {lines} that are left out");
        }
        reason += if self.options.has_header() {
            ": there is not even a header"
        } else {
            ", so its columns are not known"
        };
        let error = Error::from(ErrorKind::Input { file: file.to_owned(), reason });
        let or_leave_out = if self.is_single { "" } else { "leave this input out; or " };
        let is_there = self.options.into.filter(|_| self.declared.is_some());
        match is_there {
            Some(IntoTable::Replace) => error
                .on_disk(format!(
                    "nothing was written to {}: the table keeps its rows",
                    self.options.destination()
                ))
                .to_do(format!(
                    "see why there is no row; {or_leave_out}to remove all rows of the table, load \
                     a file that has its header alone, or name the columns with ⟦columns⟧"
                )),
            Some(_) => error.to_do(format!(
                "see why there is no row; {or_leave_out}if there is nothing to add, do not load \
                 this input, or name the columns with ⟦columns⟧"
            )),
            None => error.to_do(format!(
                "see why there is no row; {or_leave_out}name the columns with ⟦columns⟧ to make \
                 an empty table"
            )),
        }
    }

    /// Takes an input's only record as its header if it may be one. A table without rows has names
    /// in its only record, and no data.
    fn take_lone_header(
        &self,
        file: &str,
        reading: &mut Reading,
        values: &[Vec<u8>],
    ) -> Result<()> {
        let is_repeated = self.options.csv.columns.as_ref().is_some_and(|names| {
            names.iter().map(String::as_bytes).eq(values.iter().map(Vec::as_slice))
        });
        let is_columns_name = |value: &Vec<u8>| {
            let columns = self.declared.iter().flat_map(|shape| &shape.columns);
            columns.into_iter().any(|it| it.name.as_bytes().eq_ignore_ascii_case(value))
        };
        let is_known = is_repeated || values.iter().all(is_columns_name);
        if !is_known && looks_like_data(values) {
            let shown: Vec<_> = values.iter().take(3).map(|value| shown(value)).collect();
            let reason = format!(
                "it is a single record, which is taken as the header, but reads like data: '{}'{}",
                shown.join("', '"),
                if values.len() > 3 { " …" } else { "" }
            );
            return Err(Error::from(ErrorKind::Input { file: file.to_owned(), reason }).to_do(
                "if it is a row, load it with ⟦no_header⟧; if there should be more rows, see how \
                 its lines end; if these are names, repeat them with ⟦columns⟧",
            ));
        }
        reading.notes.push(format!("{file}: it has a header and no row"));
        Ok(())
    }
}

/// The rows behind the header, as far as the first block has them.
fn first_rows(opened: &Opened<'_>, block: &Block, rules: &RowRules) -> Vec<Vec<Vec<u8>>> {
    let spans = opened.index.records(block.bytes(), block.start());
    let rows = spans.skip(1).take(ROWS_SEEN_MAX);
    rows.map(|span| rules.values(block.bytes(), &span)).collect()
}

fn too_many_columns(file: &str, fields: usize) -> Error {
    let reason = format!("it has {fields} columns, and a table of SQLite at most {COLUMNS_MAX}");
    Error::from(ErrorKind::Input { file: file.to_owned(), reason }).to_do(
        "choose columns with ⟦select⟧; or see how its lines end and what separates its fields: \
         perhaps they are rows, or parts of one field",
    )
}

/// Refuses a first record too long for a header before its fields are copied: the rows have no line
/// ends.
fn check_header_length(file: &str, span: &RecordSpan<'_>) -> Result<()> {
    let bytes = span.field_ends.last().map_or(0, |end| *end as usize - span.start);
    if bytes <= HEADER_BYTES_MAX {
        return Ok(());
    }
    let reason = format!("its first record, which should be the header, has {bytes} bytes");
    Err(Error::from(ErrorKind::Input { file: file.to_owned(), reason }).to_do(
        "see how its lines end and whether a quote is never closed; if it is a row, load it with \
         ⟦no_header⟧",
    ))
}

/// The error for an input whose header never ends, so that the whole input is one field.
fn unfinished_header(record: &BadRow) -> Error {
    let reason = format!("{}, so the header never ends", record.reason);
    Error::from(BadRow { reason, ..record.clone() }).to_do(UNCLOSED_ADVICE)
}

/// Refuses a header whose quote is closed in a later line, before other text: rows have become part
/// of a name.
fn refuse_unclosed(
    file: &str,
    block: &Block,
    span: &RecordSpan<'_>,
    dialect: Dialect,
) -> Result<()> {
    let Some(quote) = unclosed_quote(block.bytes(), span, dialect) else { return Ok(()) };
    let Position { line, column } = block.position(quote);
    let end = span.field_ends.last().map_or(span.start, |end| *end as usize);
    let last = block.position(end).line;
    let reason = format!(
        "the quote that opens here is perhaps never closed: the header goes on to line {last}, and \
         text follows the quote that ends the name"
    );
    let row = excerpt(block.bytes(), span.start, end, EXCERPT_BYTES_MAX);
    let record = BadRow { file: file.to_owned(), line, column, reason, row };
    Err(Error::from(record).to_do(UNCLOSED_ADVICE))
}

/// Returns true if fields are no names: they hold control characters, or half of them are numbers.
fn looks_like_data(values: &[Vec<u8>]) -> bool {
    let has_control = |value: &Vec<u8>| value.iter().any(u8::is_ascii_control);
    let numbers = values.iter().filter(|value| is_number(value)).count();
    let filled = values.iter().filter(|value| !value.is_empty()).count();
    values.iter().any(has_control) || (numbers > 0 && numbers * 2 >= filled)
}

impl Opened<'_> {
    /// Returns true if the first block is all of the input.
    pub fn is_all(&self) -> bool {
        self.blocks.is_at_end()
    }

    /// Returns true if the input has only one record.
    fn is_one_record(&self) -> bool {
        let Some(block) = &self.first else { return false };
        let end = self.index.record_ends().last().map_or(0, |end| *end as usize + 1);
        self.is_all()
            && self.index.record_ends().len() == 1
            && block.bytes()[end..].iter().all(u8::is_ascii_whitespace)
    }
}
