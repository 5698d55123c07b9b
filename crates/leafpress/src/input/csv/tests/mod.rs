//! Random input against a plain reading of the rules, and blocks of any size.
//!
//! Checked for each input, whatever the dialect:
//! 1. The fast scanner gives the records, lines and stray quotes of the
//!    reference, which knows neither chunks nor blocks.
//! 2. The same input in blocks of any size, scanned on speculation and settled,
//!    gives the same.
//! 3. The `csv` crate reads back what it wrote, and so do we.

mod spectrum;

use std::io::Read;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use proptest::collection::vec;
use proptest::prelude::*;

use super::field::{field, record_last_field_end};
use super::{Carry, Dialect, FieldIndex, Scanner};
use crate::input::block::{Block, BlockOptions, BlockReader};
use crate::input::source::Source;

/// A record: its line, and its values.
pub(super) type Row = (u64, Vec<Vec<u8>>);

/// All there is to know about an input.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Reading {
    pub(super) rows: Vec<Row>,
    stray_quotes: u64,
    /// Line and column of the field that the end of the input leaves open.
    unfinished: Option<(u64, u64)>,
}

/// The rules in the fewest words: a field at a time, over the whole input.
struct Reference<'a> {
    bytes: &'a [u8],
    at: usize,
    dialect: Dialect,
    stray_quotes: u64,
}

impl Reference<'_> {
    fn read(bytes: &[u8], dialect: Dialect) -> Reading {
        let mut bytes = bytes.to_vec();
        if bytes.last().is_some_and(|&last| last != b'\n') {
            bytes.push(b'\n');
        }
        let mut reference = Reference { bytes: &bytes, at: 0, dialect, stray_quotes: 0 };
        let mut reading = Reading::default();
        while reference.at < bytes.len() {
            if let Some(blank_bytes) = reference.line_end_bytes() {
                reference.at += blank_bytes;
                continue;
            }
            let line = reference.place(reference.at).0;
            match reference.record() {
                Ok(values) => reading.rows.push((line, values)),
                Err(opened_at) => {
                    reading.unfinished = Some(reference.place(opened_at));
                    break;
                }
            }
        }
        reading.stray_quotes = reference.stray_quotes;
        reading
    }

    fn place(&self, offset: usize) -> (u64, u64) {
        let before = &self.bytes[..offset];
        let lines = before.split(|&byte| byte == b'\n').collect::<Vec<_>>();
        (lines.len() as u64, lines.last().map_or(0, |last| last.len()) as u64 + 1)
    }

    fn line_end_bytes(&self) -> Option<usize> {
        let rest = &self.bytes[self.at..];
        if rest.starts_with(b"\n") {
            Some(1)
        } else if rest.starts_with(b"\r\n") {
            Some(2)
        } else {
            None
        }
    }

    /// The values up to a line's end, or where the field starts that has none.
    fn record(&mut self) -> Result<Vec<Vec<u8>>, usize> {
        let mut values = Vec::new();
        loop {
            let start = self.at;
            values.push(self.value().ok_or(start)?);
            if let Some(end_bytes) = self.line_end_bytes() {
                self.at += end_bytes;
                return Ok(values);
            }
            self.at += 1;
        }
    }

    fn value(&mut self) -> Option<Vec<u8>> {
        let mut value = Vec::new();
        let is = |byte: u8, what: Option<u8>| what == Some(byte);
        let mut in_quotes = is(*self.bytes.get(self.at)?, self.dialect.quote());
        let mut closed_at = None;
        self.at += usize::from(in_quotes);
        loop {
            let byte = *self.bytes.get(self.at)?;
            let is_end = byte == self.dialect.delimiter() || self.line_end_bytes().is_some();
            if is_end && !in_quotes {
                return Some(value);
            }
            let after_closing = closed_at == Some(self.at);
            if after_closing && is(byte, self.dialect.quote()) {
                in_quotes = true;
                closed_at = None;
                value.push(byte);
            } else if in_quotes && is(byte, self.dialect.quote()) {
                in_quotes = false;
                closed_at = Some(self.at + 1);
            } else if is(byte, self.dialect.escape()) && !after_closing {
                self.at += 1;
                value.push(*self.bytes.get(self.at)?);
            } else {
                let is_literal_quote = !in_quotes && is(byte, self.dialect.quote());
                self.stray_quotes += u64::from(is_literal_quote || after_closing);
                value.push(byte);
            }
            self.at += 1;
        }
    }
}

/// Gives a few bytes at a time.
struct Trickle<R>(R, usize);

impl<R: Read> Read for Trickle<R> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let count = buffer.len().min(self.1);
        self.0.read(&mut buffer[..count])
    }
}

/// Adds the records of a settled block.
fn collect(reading: &mut Reading, block: &Block, index: &FieldIndex, dialect: Dialect) {
    let bytes = block.bytes();
    let mut scratch = Vec::new();
    for record in index.records(bytes, block.start()) {
        let line = block.position(record.start).line;
        let mut start = record.start;
        let mut values = Vec::new();
        for (position, &end) in record.field_ends.iter().enumerate() {
            let mut end = end as usize;
            let next = end + 1;
            if position + 1 == record.field_ends.len() {
                end = record_last_field_end(bytes, start, end, dialect);
            }
            values.push(field(&bytes[start..end], dialect, &mut scratch).to_vec());
            start = next;
        }
        reading.rows.push((line, values));
    }
    reading.stray_quotes += index.stray_quotes();
}

/// Reads `input` in blocks, each with its own speculative scan.
pub(super) fn read_in_blocks(input: &[u8], dialect: Dialect, block_bytes: usize) -> Reading {
    let mut source = Source::reader("test", Trickle(input, 1 + block_bytes / 2), None);
    let opened = source.open(&Arc::new(AtomicU64::new(0))).unwrap();
    // The label says that NUL bytes are text here and no sign of UTF-16.
    let encoding = Some("utf-8".to_owned());
    let options = BlockOptions { block_bytes, encoding, ..BlockOptions::default() };
    let mut reader = BlockReader::new(opened, &options).unwrap();
    let (mut block, mut index) = (Block::new(), FieldIndex::new());
    let mut scanner = Scanner::new(dialect);
    let mut carry = Carry::new(dialect, "test", u64::MAX);
    let mut reading = Reading::default();
    while reader.next(&mut block).unwrap() {
        assert_eq!(block.bytes().last(), Some(&b'\n'));
        scanner.begin(block.start(), &mut index);
        scanner.scan(block.bytes(), &mut index);
        carry.settle(&mut block, &mut index, &mut scanner).unwrap();
        let ends = index.field_ends().iter().filter(|&&end| block.bytes()[end as usize] == b'\n');
        assert_eq!(index.first_stray().is_some(), index.stray_quotes() > 0);
        assert!(index.record_ends().len() <= ends.count());
        collect(&mut reading, &block, &index, dialect);
    }
    reading.stray_quotes += carry.stray_quotes();
    reading.unfinished = carry.unfinished().map(|row| (row.line, row.column));
    reading
}

/// Few symbols, so that each meets each, in runs of text of a chunk's length.
fn hostile_input() -> impl Strategy<Value = Vec<u8>> {
    let symbol = prop_oneof![
        4 => Just(&b"a"[..]),
        4 => Just(&b","[..]),
        4 => Just(&b"\""[..]),
        2 => Just(&b"\n"[..]),
        1 => Just(&b"\r"[..]),
        1 => Just(&b"\r\n"[..]),
        1 => Just(&b"\\"[..]),
        1 => Just(&b" "[..]),
        1 => Just(&b"\0"[..]),
        2 => Just(&b",\"a\","[..]),
        1 => Just(&b"\"\"\n"[..]),
        1 => Just(&[b'x'; 61][..]),
    ];
    vec(symbol, 0..300).prop_map(|symbols| symbols.concat())
}

/// Mostly regular, so that the fast path is taken and not left at once.
fn regular_input() -> impl Strategy<Value = Vec<u8>> {
    let value = prop_oneof![
        4 => "[a-z]{0,12}",
        2 => "\"[a-z,\n\r]{0,20}\"",
        2 => "\"([a-z]|\"\"){0,20}\"",
        1 => Just("\"\"".to_owned()),
    ];
    let line_end = prop_oneof![9 => Just("\n"), 4 => Just("\r\n"), 1 => Just("\n\r\n\n")];
    let record =
        (vec(value, 1..6), line_end).prop_map(|(values, line_end)| values.join(",") + line_end);
    vec(record, 0..40).prop_map(|records| records.concat().into_bytes())
}

fn any_dialect() -> impl Strategy<Value = Dialect> {
    prop_oneof![
        6 => Just(Dialect::default()),
        2 => Just(Dialect::new(b',', Some(b'"'), Some(b'\\')).unwrap()),
        1 => Just(Dialect::new(b',', None, None).unwrap()),
        1 => Just(Dialect::new(b',', None, Some(b'\\')).unwrap()),
        1 => Just(Dialect::new(b'\0', Some(b' '), None).unwrap()),
    ]
}

fn check(input: &[u8], dialect: Dialect, block_bytes: usize) {
    let expected = Reference::read(input, dialect);
    let whole = read_in_blocks(input, dialect, 1 << 20);
    assert_eq!(whole, expected, "as one block: {}", input.escape_ascii());
    let cut = read_in_blocks(input, dialect, block_bytes);
    assert_eq!(cut, expected, "in blocks of {block_bytes}: {}", input.escape_ascii());
}

proptest! {
    // Each is eight times as long as the others.
    #![proptest_config(ProptestConfig::with_cases(250))]

    #[test]
    fn repeated_input_reads_by_the_rules(
        regular in regular_input(), hostile in hostile_input(), block_bytes in 1_usize..4000,
    ) {
        // More than a stripe of chunks, with something odd now and then.
        let odd = &hostile[..hostile.len().min(80)];
        check(&[&regular.repeat(4), odd].concat().repeat(2), Dialect::default(), block_bytes);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_000))]

    #[test]
    fn hostile_input_reads_by_the_rules(
        input in hostile_input(), dialect in any_dialect(), block_bytes in 1_usize..400,
    ) {
        check(&input, dialect, block_bytes);
    }

    #[test]
    fn regular_input_reads_by_the_rules(input in regular_input(), block_bytes in 1_usize..400) {
        check(&input, Dialect::default(), block_bytes);
    }

    #[test]
    fn tiny_blocks_read_by_the_rules(
        input in hostile_input(), dialect in any_dialect(), block_bytes in 1_usize..40,
    ) {
        check(&input, dialect, block_bytes);
    }

    #[test]
    fn what_the_csv_crate_writes_reads_back(
        rows in vec(vec("[a,\"\n\r é]{0,12}", 3), 0..40),
        crlf: bool,
        quote_all: bool,
        block_bytes in 1_usize..200,
    ) {
        let terminator = if crlf { csv::Terminator::CRLF } else { csv::Terminator::Any(b'\n') };
        let style = if quote_all { csv::QuoteStyle::Always } else { csv::QuoteStyle::Necessary };
        let mut writer = csv::WriterBuilder::new()
            .terminator(terminator)
            .quote_style(style)
            .from_writer(Vec::new());
        for row in &rows {
            writer.write_record(row).unwrap();
        }
        let written = writer.into_inner().unwrap();
        let reading = read_in_blocks(&written, Dialect::default(), block_bytes);
        let values: Vec<Vec<String>> = reading.rows.into_iter().map(|(_, values)| {
            values.into_iter().map(|value| String::from_utf8(value).unwrap()).collect()
        }).collect();
        prop_assert_eq!(values, rows);
        prop_assert_eq!(reading.unfinished, None);
        prop_assert_eq!(reading.stray_quotes, 0);
    }
}
