//! The CSV reader alone, for the fuzz target `csv`. Bytes go in, values come out.
//!
//! Exists only under `cfg(fuzzing)`, and is no part of the library's promise.
//! Stands where `load` stands otherwise: it joins blocks, scanner and fields.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use crate::Result;
use crate::input::block::{Block, BlockOptions, BlockReader};
use crate::input::csv::field::{field, record_last_field_end};
use crate::input::csv::{Carry, Dialect, FieldIndex, Scanner};
use crate::input::source::Source;

/// The values and faults that the reader finds in an input.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Reading {
    /// The values of each record.
    pub records: Vec<Vec<Vec<u8>>>,
    /// Line and column of the field that the end of the input leaves open.
    pub unfinished: Option<(u64, u64)>,
    /// Quotes that stand where none belongs.
    pub stray_quotes: u64,
}

/// Reads `input`, which is taken as UTF-8, in blocks of about `block_bytes`.
///
/// # Errors
/// A dialect that is none, or an input that is not text.
pub fn read(
    input: &[u8],
    (delimiter, quote, escape): (u8, Option<u8>, Option<u8>),
    block_bytes: usize,
) -> Result<Reading> {
    let dialect = Dialect::new(delimiter, quote, escape)?;
    let encoding = Some("utf-8".to_owned());
    let options = BlockOptions { block_bytes, encoding, ..BlockOptions::default() };
    let opened = Source::reader("input", input, None).open(&Arc::new(AtomicU64::new(0)))?;
    let mut blocks = BlockReader::new(opened, &options)?;
    let mut carry = Carry::new(dialect, "input", options.record_bytes_max);
    let (mut block, mut index) = (Block::new(), FieldIndex::new());
    let mut scanner = Scanner::new(dialect);
    let mut reading = Reading::default();
    while blocks.next(&mut block)? {
        scanner.begin(block.start(), &mut index);
        scanner.scan(block.bytes(), &mut index);
        carry.settle(&mut block, &mut index, &mut scanner)?;
        reading.stray_quotes += index.stray_quotes();
        add_records(&block, &index, dialect, &mut reading.records);
    }
    reading.stray_quotes += carry.stray_quotes();
    reading.unfinished = carry.unfinished().map(|row| (row.line, row.column));
    Ok(reading)
}

fn add_records(
    block: &Block,
    index: &FieldIndex,
    dialect: Dialect,
    records: &mut Vec<Vec<Vec<u8>>>,
) {
    let bytes = block.bytes();
    let mut scratch = Vec::new();
    for span in index.records(bytes, block.start()) {
        let mut start = span.start;
        let mut values = Vec::with_capacity(span.field_ends.len());
        for (number, &end) in span.field_ends.iter().enumerate() {
            let end = end as usize;
            let is_last = number + 1 == span.field_ends.len();
            let value_end =
                if is_last { record_last_field_end(bytes, start, end, dialect) } else { end };
            values.push(field(&bytes[start..value_end], dialect, &mut scratch).to_vec());
            start = end + 1;
        }
        records.push(values);
    }
}
