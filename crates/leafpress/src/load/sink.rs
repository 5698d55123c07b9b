//! Where a record's values go: into a page, into an INSERT, or nowhere.
//!
//! Values come last column first, as [`RecordWriter`] takes them.

use leafpress_format::RecordWriter;

/// Takes the values of one record, last column first.
pub trait RecordSink {
    /// NULL.
    fn null(&mut self);
    /// An integer.
    fn integer(&mut self, value: i64);
    /// A float.
    fn real(&mut self, value: f64);
    /// A float in a REAL column, which may be stored as an integer.
    fn real_column(&mut self, value: f64);
    /// Text.
    fn text(&mut self, text: &[u8]);
    /// A part of a larger buffer, as text.
    fn text_within(&mut self, source: &[u8], start: usize, end: usize) {
        self.text(&source[start..end]);
    }
    /// A blob.
    fn blob(&mut self, blob: &[u8]);
}

impl RecordSink for RecordWriter<'_> {
    #[inline(always)]
    fn null(&mut self) {
        RecordWriter::null(self);
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
    fn real_column(&mut self, value: f64) {
        RecordWriter::real_column(self, value);
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

/// Values for an INSERT, in reverse.
#[derive(Debug, Default)]
pub struct Values(pub Vec<rusqlite::types::Value>);

impl RecordSink for Values {
    fn null(&mut self) {
        self.0.push(rusqlite::types::Value::Null);
    }

    fn integer(&mut self, value: i64) {
        self.0.push(value.into());
    }

    fn real(&mut self, value: f64) {
        self.0.push(value.into());
    }

    fn real_column(&mut self, value: f64) {
        self.real(value);
    }

    fn text(&mut self, text: &[u8]) {
        // Rows reach this point only if they are UTF-8.
        self.0.push(String::from_utf8_lossy(text).into_owned().into());
    }

    fn blob(&mut self, blob: &[u8]) {
        self.0.push(blob.to_vec().into());
    }
}

/// Takes values for the sake of their being checked.
#[derive(Debug)]
pub struct Nowhere;

impl RecordSink for Nowhere {
    fn null(&mut self) {}
    fn integer(&mut self, _value: i64) {}
    fn real(&mut self, _value: f64) {}
    fn real_column(&mut self, _value: f64) {}
    fn text(&mut self, _text: &[u8]) {}
    fn blob(&mut self, _blob: &[u8]) {}
}
