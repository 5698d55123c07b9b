//! A CSV input's beginning: how it is written, and what its columns are called.

use std::path::Path;

use super::fields::{RejectsForm, RowRules, ValueSource};
use super::monitor::Monitor;
use super::plan::ColumnMap;
use super::{Loader, OnError};
use crate::error::{Error, ErrorKind, Result};
use crate::input::block::{
    BLOCK_BYTES_DEFAULT, Block, BlockOptions, BlockReader, record_bytes_limit,
};
use crate::input::csv::header::Header;
use crate::input::csv::{Dialect, FieldIndex, Scanner};
use crate::input::source::Source;
use crate::schema::shape::TableShape;

/// A run of leaves ends with each block and leaves half a page empty: the
/// larger the pages, the larger the blocks.
const BLOCK_PAGES_MIN: usize = 32;

/// One input: where its columns go, and its beginning.
pub struct CsvInput<'s> {
    pub source: Source<'s>,
    pub dialect: Dialect,
    /// How its rejected rows are written, if not as they stand.
    pub rejects: Option<RejectsForm>,
    pub fields: usize,
    pub sources: Vec<ValueSource>,
    /// Taken by the first pass.
    pub first: Option<Opened<'s>>,
}

/// An input, opened, with its first block read.
pub struct Opened<'s> {
    pub blocks: BlockReader<'s>,
    pub first: Option<Block>,
    pub index: FieldIndex,
}

/// What inputs are opened with.
pub struct Opening<'l> {
    pub loader: &'l Loader,
    pub page_bytes: usize,
    pub monitor: &'l Monitor,
}

impl Opening<'_> {
    /// Looks at an input's beginning. Where its columns go is not known yet.
    pub fn input<'s>(&self, mut source: Source<'s>) -> Result<(CsvInput<'s>, Header)> {
        let csv = &self.loader.csv;
        let delimiter = csv.delimiter.unwrap_or_else(|| delimiter_by_name(source.name()));
        let dialect = Dialect::new(delimiter, csv.quote, csv.escape)?;
        let opened = self.open(&mut source, dialect)?;
        let header = self.header(source.name(), dialect, &opened)?;
        let fields = header.names.len();
        let (sources, rejects, first) = (Vec::new(), None, Some(opened));
        let input = CsvInput { source, dialect, rejects, fields, sources, first };
        Ok((input, header))
    }

    /// The table's columns, as they stand in an input.
    pub fn map(
        &self,
        input: &str,
        names: &[String],
        declared: Option<&TableShape>,
    ) -> Result<ColumnMap> {
        match declared {
            Some(shape) => ColumnMap::of_table(self.loader, input, names, shape),
            None => ColumnMap::of_input(self.loader, names),
        }
    }

    /// Opens the input and reads on until the first record is complete.
    pub fn open<'s>(&self, source: &mut Source<'s>, dialect: Dialect) -> Result<Opened<'s>> {
        let raw = source.open(&self.monitor.bytes_read)?;
        self.monitor.set_total(raw.bytes_total());
        let csv = &self.loader.csv;
        let options = BlockOptions {
            block_bytes: BLOCK_BYTES_DEFAULT.max(BLOCK_PAGES_MIN * self.page_bytes),
            record_bytes_max: csv.max_record_bytes,
            encoding: csv.encoding.clone(),
        };
        let mut blocks = BlockReader::new(raw, &options)?;
        let mut first = Block::new();
        let mut index = FieldIndex::new();
        if !blocks.next(&mut first)? {
            return Ok(Opened { blocks, first: None, index });
        }
        let mut scanner = Scanner::new(dialect);
        scanner.begin(first.start(), &mut index);
        scanner.scan(first.bytes(), &mut index);
        let mut next = Block::new();
        let bytes_max = record_bytes_limit(csv.max_record_bytes);
        while index.record_ends().is_empty()
            && first.data().len() as u64 <= bytes_max
            && blocks.next(&mut next)?
        {
            first.append(&next);
            scanner.scan(first.bytes(), &mut index);
        }
        let is_blank = index.record_ends().is_empty()
            && scanner.incomplete_start(first.bytes(), &index).is_none();
        Ok(Opened { blocks, first: (!is_blank).then_some(first), index })
    }

    /// The columns' names, from the header, the caller, or made up.
    fn header(&self, file: &str, dialect: Dialect, opened: &Opened<'_>) -> Result<Header> {
        let csv = &self.loader.csv;
        let first_record = opened.first.as_ref().and_then(|block| {
            let span = opened.index.records(block.bytes(), block.start()).next()?;
            Some((block.bytes(), span))
        });
        let Some((bytes, span)) = first_record else {
            return match (&csv.columns, &opened.first) {
                (Some(names), _) => Ok(Header::from_names(names.iter().cloned())),
                (None, None) => Err(Error::from(ErrorKind::Input {
                    file: file.to_owned(),
                    reason: "the input is empty: there is not even a header".to_owned(),
                })
                .to_do("name the columns with --columns to make an empty table")),
                // The pass names the quote that is never closed, and ends with it.
                (None, Some(_)) if self.loader.on_error == OnError::Stop => Ok(Header::numbered(1)),
                (None, Some(_)) => Err(Error::from(ErrorKind::Input {
                    file: file.to_owned(),
                    reason: "the first record never ends, so nobody knows the columns".to_owned(),
                })
                .to_do("look at its quotes, or name them with --quote and --escape")),
            };
        };
        if let Some(names) = &csv.columns {
            if names.len() != span.field_ends.len() && csv.ragged == crate::load::Ragged::Reject {
                return Err(Error::usage(format!(
                    "--columns names {} columns, but {file} has {}",
                    names.len(),
                    span.field_ends.len()
                )));
            }
            return Ok(Header::from_names(names.iter().cloned()));
        }
        if !csv.header {
            return Ok(Header::numbered(span.field_ends.len()));
        }
        let rules = RowRules::for_header(span.field_ends.len(), dialect);
        Header::from_record(file, rules.values(bytes, &span))
    }
}

fn delimiter_by_name(name: &str) -> u8 {
    let bare = [".gz", ".zst"].iter().find_map(|end| name.strip_suffix(end)).unwrap_or(name);
    let extension = Path::new(bare).extension().unwrap_or_default();
    if extension.eq_ignore_ascii_case("tsv") || extension.eq_ignore_ascii_case("tab") {
        b'\t'
    } else {
        b','
    }
}
