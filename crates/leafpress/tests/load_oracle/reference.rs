//! A reader of delimited text in as few words as it takes: one byte at a time,
//! over the whole input, after Python's `csv` module. Knows nothing of ours.

use leafpress::load::CsvOptions;

/// The value of a field that is NULL as it is written: no text has it.
pub const WRITTEN_NULL: &[u8] = b"\xffNULL";

/// One record, by offsets in [`Reading::bytes`].
pub struct Record {
    /// Where it starts, and where its line end stops.
    pub start: usize,
    pub end: usize,
    pub fields: Vec<Field>,
}

pub struct Field {
    /// Where it starts as it is written, at its quote if it has one.
    pub start: usize,
    pub value: Vec<u8>,
}

/// All records of an input.
pub struct Reading {
    /// The input without its byte order mark, and with its last line end.
    pub bytes: Vec<u8>,
    pub records: Vec<Record>,
    /// Where the field starts that the input's end leaves open.
    pub unfinished: Option<usize>,
}

#[derive(Clone, Copy, PartialEq)]
enum At {
    FieldStart,
    Unquoted,
    Quoted,
    /// Right after a quote between quotes.
    Closed,
}

impl Reading {
    /// Blank lines before the last record are rows where the first record has one field, and a quote
    /// byte can write such a row.
    pub fn of(input: &[u8], options: &CsvOptions) -> Self {
        let reading = Self::read(input, options, false);
        let is_one_column = reading.records.first().is_some_and(|first| first.fields.len() == 1);
        if is_one_column && options.quote.is_some() {
            return Self::read(input, options, true);
        }
        reading
    }

    fn read(input: &[u8], options: &CsvOptions, blanks_are_rows: bool) -> Self {
        let mut bytes = input.strip_prefix(b"\xef\xbb\xbf").unwrap_or(input).to_vec();
        if bytes.last().is_some_and(|&last| last != b'\n') {
            bytes.push(b'\n');
        }
        let mut reading = Self { bytes, records: Vec::new(), unfinished: None };
        let (mut at, mut blanks) = (0, Vec::new());
        while at < reading.bytes.len() {
            let rest = &reading.bytes[at..];
            if rest.starts_with(b"\n") || rest.starts_with(b"\r\n") {
                let end = at + if rest[0] == b'\r' { 2 } else { 1 };
                if blanks_are_rows && !(options.header && reading.records.is_empty()) {
                    let fields = vec![Field { start: at, value: Vec::new() }];
                    blanks.push(Record { start: at, end, fields });
                }
                at = end;
                continue;
            }
            reading.records.append(&mut blanks);
            match record(&reading.bytes, at, options) {
                Ok(record) => {
                    at = record.end;
                    reading.records.push(record);
                }
                Err(field_start) => {
                    reading.unfinished = Some(field_start);
                    break;
                }
            }
        }
        reading
    }

    /// Reads NULLs: with escapes a field is NULL that is written as a null marker is: `\N` is
    /// NULL and not `N`, and `\\N` is the text `\N`.
    pub fn keeping(mut self, markers: &[&str], options: &CsvOptions) -> Self {
        if options.escape.is_none() {
            return self;
        }
        for record in self.records.iter_mut().skip(usize::from(options.header)) {
            let starts = record.fields.iter().skip(1).map(|field| field.start - 1);
            let ends: Vec<usize> = starts.chain([record.end - 1]).collect();
            for (field, end) in record.fields.iter_mut().zip(ends) {
                let raw = &self.bytes[field.start..end];
                let raw = raw.strip_suffix(b"\r").unwrap_or(raw);
                if markers.iter().any(|marker| marker.as_bytes() == raw) {
                    field.value = WRITTEN_NULL.to_vec();
                }
            }
        }
        self
    }

    /// Tells whether carriage returns may end its lines: it has one alone, and no record ends before
    /// the end, or may do so, as a quote behind the return would open there if it ended a line.
    pub fn may_end_lines_by_returns(&self, quote: Option<u8>) -> bool {
        let mut alone = memchr::memchr_iter(b'\r', &self.bytes)
            .map(|at| self.bytes.get(at + 1).copied())
            .filter(|next| *next != Some(b'\n'))
            .peekable();
        let has_one = alone.peek().is_some();
        let opens = alone.any(|next| next.is_some() && next == quote);
        has_one && (self.records.len() < 2 || opens)
    }

    /// Tells whether its beginning may be of one column, and all of it is not.
    pub fn is_of_one_column_at_first(&self) -> bool {
        let is_one = |record: &Record| record.fields.len() == 1;
        self.records.first().is_some_and(is_one) && !self.records.iter().all(is_one)
    }

    /// Line and column of an offset, from 1.
    pub fn place(&self, offset: usize) -> (u64, u64) {
        let before = &self.bytes[..offset];
        let line = memchr::memchr_iter(b'\n', before).count() + 1;
        let line_start = before.iter().rposition(|&byte| byte == b'\n').map_or(0, |at| at + 1);
        (line as u64, (offset - line_start) as u64 + 1)
    }
}

/// The record at `start`, or where the field starts that never ends.
fn record(bytes: &[u8], start: usize, options: &CsvOptions) -> Result<Record, usize> {
    let delimiter = options.delimiter.unwrap_or(b',');
    let mut fields = Vec::new();
    let mut field = Field { start, value: Vec::new() };
    let mut state = At::FieldStart;
    let mut escaped = false;
    // Whether the last byte of the value is a return that was written plainly.
    let mut plain_return = false;
    for (at, &byte) in bytes.iter().enumerate().skip(start) {
        let may_end = state != At::Quoted && !escaped;
        if may_end && (byte == delimiter || byte == b'\n') {
            if byte == b'\n' && plain_return {
                field.value.pop();
            }
            fields.push(std::mem::replace(&mut field, Field { start: at + 1, value: Vec::new() }));
            if byte == b'\n' {
                return Ok(Record { start, end: at + 1, fields });
            }
            (state, plain_return) = (At::FieldStart, false);
            continue;
        }
        plain_return = false;
        if std::mem::take(&mut escaped) {
            field.value.push(byte);
        } else if options.quote == Some(byte) && state != At::Unquoted {
            match state {
                At::FieldStart => state = At::Quoted,
                At::Quoted => state = At::Closed,
                _ => {
                    field.value.push(byte);
                    state = At::Quoted;
                }
            }
        } else if options.escape == Some(byte) && state != At::Closed {
            escaped = true;
            if state == At::FieldStart {
                state = At::Unquoted;
            }
        } else {
            field.value.push(byte);
            if state != At::Quoted {
                state = At::Unquoted;
                plain_return = byte == b'\r';
            }
        }
    }
    Err(field.start)
}

#[test]
fn the_reference_agrees_with_the_csv_crate_on_what_that_writes() {
    let rows = [["a", "b\"c", ""], ["1,2", "x\r\ny", "\u{e9}"], ["", "\"", "\r"]];
    let mut writer = csv::Writer::from_writer(Vec::new());
    for row in rows {
        writer.write_record(row).unwrap();
    }
    let input = writer.into_inner().unwrap();
    let reading = Reading::of(&input, &CsvOptions::default());
    let values: Vec<Vec<&[u8]>> = reading
        .records
        .iter()
        .map(|record| record.fields.iter().map(|field| &field.value[..]).collect())
        .collect();
    assert_eq!(values, rows.map(|row| row.map(str::as_bytes).to_vec()));
}
