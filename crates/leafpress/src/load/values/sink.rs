//! Destination of a record's values: a page, or (in tests) a list.
//!
//! Values come last column first, as [`RecordWriter`] takes them.

use leafpress_format::{Prepared, PreparedRow, RecordWriter};

/// Destination of one record's values, last column first.
pub trait RecordSink {
    /// NULL.
    fn null(&mut self);
    /// All values of a record, each of them prepared; the texts are in `source`.
    fn prepared_row(&mut self, source: &[u8], row: PreparedRow<'_>);
    /// A value that is prepared; a text is in `source`.
    fn prepared(&mut self, source: &[u8], value: Prepared);
    /// An integer.
    fn integer(&mut self, value: i64);
    /// A float.
    fn real(&mut self, value: f64);
    /// Text of no length.
    fn empty_text(&mut self);
    /// Text.
    fn text(&mut self, text: &[u8]);
    /// A part of a larger buffer, as text.
    fn text_within(&mut self, source: &[u8], start: usize, end: usize);
    /// A blob.
    fn blob(&mut self, blob: &[u8]);
}

impl RecordSink for RecordWriter<'_> {
    #[inline(always)]
    fn null(&mut self) {
        RecordWriter::null(self);
    }

    #[inline(always)]
    fn prepared_row(&mut self, source: &[u8], row: PreparedRow<'_>) {
        RecordWriter::prepared_row(self, source, row);
    }

    #[inline(always)]
    fn prepared(&mut self, source: &[u8], value: Prepared) {
        RecordWriter::prepared(self, source, value);
    }

    #[inline(always)]
    fn integer(&mut self, value: i64) {
        RecordWriter::integer(self, value);
    }

    #[inline(always)]
    fn real(&mut self, value: f64) {
        RecordWriter::real(self, value);
    }

    #[inline(always)]
    fn empty_text(&mut self) {
        RecordWriter::empty_text(self);
    }

    #[inline(always)]
    fn text(&mut self, text: &[u8]) {
        RecordWriter::text(self, text);
    }

    #[inline(always)]
    fn text_within(&mut self, source: &[u8], start: usize, end: usize) {
        RecordWriter::text_within(self, source, start, end);
    }

    #[inline(always)]
    fn blob(&mut self, blob: &[u8]) {
        RecordWriter::blob(self, blob);
    }
}

/// Values as SQLite would get them, in reverse order.
#[cfg(test)]
#[derive(Debug, Default)]
pub struct Values(pub Vec<rusqlite::types::Value>);

#[cfg(test)]
impl RecordSink for Values {
    fn null(&mut self) {
        self.0.push(rusqlite::types::Value::Null);
    }

    fn prepared_row(&mut self, source: &[u8], row: PreparedRow<'_>) {
        let columns = (0..).map_while(|column| row.get(column));
        for value in columns.collect::<Vec<_>>().into_iter().rev() {
            self.prepared(source, value);
        }
    }

    fn prepared(&mut self, source: &[u8], value: Prepared) {
        use leafpress_format::Value;
        match value.value(source) {
            Value::Integer(integer) => self.integer(integer),
            Value::Real(real) => self.real(real),
            Value::Text(text) => self.text(text),
            _ => self.null(),
        }
    }

    fn integer(&mut self, value: i64) {
        self.0.push(value.into());
    }

    fn real(&mut self, value: f64) {
        self.0.push(value.into());
    }

    fn empty_text(&mut self) {
        self.0.push(String::new().into());
    }

    fn text(&mut self, text: &[u8]) {
        // Only rows that are UTF-8 reach this point.
        self.0.push(String::from_utf8_lossy(text).into_owned().into());
    }

    fn text_within(&mut self, source: &[u8], start: usize, end: usize) {
        self.text(&source[start..end]);
    }

    fn blob(&mut self, blob: &[u8]) {
        self.0.push(blob.to_vec().into());
    }
}
