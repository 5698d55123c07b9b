//! Fields of the input: their bounds and values.
//!
//! Must never: copy a field that needs no change.

use std::borrow::Cow;

use leafpress_format::NumberText;

use super::RowRules;
use super::rule::FieldAt;
use crate::input::csv::field::{field, record_last_field_end};
use crate::input::csv::scan::RecordSpan;
use crate::load::options::Ragged;
use crate::schema::HEADROOM_BYTES;

/// Memory reused from row to row.
#[derive(Debug, Default)]
pub struct Scratch {
    pub(super) value: Vec<u8>,
    pub(super) unescaped: Vec<u8>,
    pub(super) number: NumberText,
}

impl Scratch {
    pub fn new() -> Self {
        Self::default()
    }
}

/// Stand-in for the value of a field whose written form means NULL. It is not UTF-8, so no value
/// equals it.
pub(super) const NULL_VALUE: &[u8] = b"\xff";

/// [`NULL_VALUE`] with headroom in front.
static NULL_FIELD: [u8; HEADROOM_BYTES + 1] = {
    let mut field = [0; HEADROOM_BYTES + 1];
    field[HEADROOM_BYTES] = NULL_VALUE[0];
    field
};

/// Form in which rejected rows of an input are written behind the header of the first one. The two
/// have the same columns.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RejectsForm {
    /// Indexes of this input's fields, in the order of the first input's.
    pub order: Vec<usize>,
    /// Delimiter of the first input.
    pub delimiter: u8,
    /// Byte that begins a comment.
    pub comment: Option<u8>,
}

impl RowRules {
    /// Offset of a field; that of the record if it has no such field.
    #[inline(always)]
    pub(super) fn start_of(span: &RecordSpan<'_>, field: usize) -> usize {
        match field {
            0 => span.start,
            _ if field < span.field_ends.len() => span.field_ends[field - 1] as usize + 1,
            _ => span.start,
        }
    }

    /// Bounds of a field in the input.
    #[inline(always)]
    pub(super) fn bounds(
        &self,
        bytes: &[u8],
        span: &RecordSpan<'_>,
        field: usize,
    ) -> (usize, usize) {
        let start = Self::start_of(span, field);
        let end = span.field_ends[field] as usize;
        if field + 1 == span.field_ends.len() {
            return (start, record_last_field_end(bytes, start, end, self.dialect));
        }
        (start, end)
    }

    /// Returns true if a field's value is its text as it stands.
    ///
    /// The byte at `end` ends the field, so there is a byte at `start` even if
    /// the field is empty; then it is no quote.
    #[inline(always)]
    pub(super) fn is_plain(&self, bytes: &[u8], start: usize) -> bool {
        self.dialect.escape().is_none() && !self.is_quote(bytes[start])
    }

    /// Returns true for the quote of the dialect.
    #[inline(always)]
    pub(super) fn is_quote(&self, byte: u8) -> bool {
        u16::from(byte) == self.quote
    }

    /// Value of a field, without quotes, escapes and trimmed bytes.
    ///
    /// Each path returns a value of its own. A variable that both paths fill would
    /// be kept in memory, written in parts and read as a whole, which doubles the
    /// time of a load.
    #[inline(always)]
    pub fn field_at<'a>(
        &self,
        bytes: &'a [u8],
        span: &RecordSpan<'_>,
        field: usize,
        scratch: (&'a mut Vec<u8>, &mut Vec<u8>),
    ) -> FieldAt<'a> {
        if field >= span.field_ends.len() {
            // A short row is padded: the missing field is empty.
            return FieldAt { source: bytes, start: span.start, end: span.start };
        }
        let (start, end) = self.bounds(bytes, span, field);
        if !self.is_plain(bytes, start) {
            let found = self.quoted_field_at(bytes, start, end, scratch);
            return if self.trim { found.trimmed() } else { found };
        }
        let found = FieldAt { source: bytes, start, end };
        if self.trim { found.trimmed() } else { found }
    }

    #[inline(never)]
    pub(super) fn quoted_field_at<'a>(
        &self,
        bytes: &'a [u8],
        start: usize,
        end: usize,
        (value, unescaped): (&'a mut Vec<u8>, &mut Vec<u8>),
    ) -> FieldAt<'a> {
        let raw = &bytes[start..end];
        if self.dialect.escape().is_some() {
            let as_it_stands = FieldAt { source: bytes, start, end };
            let bare = if self.trim { as_it_stands.trimmed() } else { as_it_stands };
            if self.written_null_markers.iter().any(|marker| marker == bare.bytes()) {
                return FieldAt {
                    source: &NULL_FIELD,
                    start: HEADROOM_BYTES,
                    end: NULL_FIELD.len(),
                };
            }
        }
        if let (None, Some(quote), [_, inner @ .., last]) =
            (self.dialect.escape(), self.dialect.quote(), raw)
            && *last == quote
            && memchr::memchr(quote, inner).is_none()
        {
            return FieldAt { source: bytes, start: start + 1, end: end - 1 };
        }
        value.clear();
        value.resize(HEADROOM_BYTES, 0);
        value.extend_from_slice(field(raw, self.dialect, unescaped));
        FieldAt { source: value, start: HEADROOM_BYTES, end: value.len() }
    }

    #[inline(never)]
    pub fn is_null_marker(&self, value: FieldAt<'_>) -> bool {
        self.null_markers.iter().any(|marker| marker == value.bytes())
    }

    /// A record in the form of the file of rejects, behind the header of the first input. Missing
    /// fields are written only if they count as empty, and surplus fields behind the others: so a row
    /// with another number of fields is read there as it was here.
    pub fn as_rejected<'b>(&self, bytes: &'b [u8], span: &RecordSpan<'_>) -> Cow<'b, [u8]> {
        let Some(form) = &self.rejects else {
            return Cow::Borrowed(&bytes[span.start..span.end()]);
        };
        let (fields, pads) = (span.field_ends.len(), self.ragged == Ragged::Pad);
        let own = form.order.iter().copied().filter(|&field| pads || field < fields);
        let mut row = Vec::new();
        for (at, field) in own.chain(form.order.len()..fields).enumerate() {
            if at > 0 {
                row.push(form.delimiter);
            }
            if field < fields {
                let (start, end) = self.bounds(bytes, span, field);
                self.push_rejected_field(&bytes[start..end], form, &mut row);
            }
        }
        row.push(b'\n');
        Cow::Owned(row)
    }

    /// Appends a field to a rejected row: as it stands, unless it would mean something else there.
    fn push_rejected_field(&self, text: &[u8], form: &RejectsForm, row: &mut Vec<u8>) {
        let is_comment = row.is_empty() && form.comment.is_some_and(|it| text.first() == Some(&it));
        // A carriage return at the end of a line would belong to the line end.
        let is_special = |byte: &u8| *byte == form.delimiter || *byte == b'\r';
        if !is_comment && !text.iter().any(is_special) {
            row.extend_from_slice(text);
            return;
        }
        let (quote, escape) = (self.dialect.quote(), self.dialect.escape());
        let mut unescaped = Vec::new();
        let value = field(text, self.dialect, &mut unescaped);
        row.extend(quote);
        for (at, byte) in value.iter().enumerate() {
            if Some(*byte) == quote || Some(*byte) == escape {
                row.push(*byte);
            } else if quote.is_none()
                && (is_special(byte) || *byte == b'\n' || (at == 0 && is_comment))
            {
                row.extend(escape);
            }
            row.push(*byte);
        }
        row.extend(quote);
    }

    /// Values of a record, without conversion.
    pub fn values(&self, bytes: &[u8], span: &RecordSpan<'_>) -> Vec<Vec<u8>> {
        self.values_or_null(bytes, span).into_iter().map(Option::unwrap_or_default).collect()
    }

    /// As [`values`](Self::values); `None` for a text that means NULL.
    pub fn values_or_null(&self, bytes: &[u8], span: &RecordSpan<'_>) -> Vec<Option<Vec<u8>>> {
        let (mut value, mut unescaped) = (Vec::new(), Vec::new());
        let fields = 0..span.field_ends.len();
        fields
            .map(|field| {
                let found = self.field_at(bytes, span, field, (&mut value, &mut unescaped));
                let is_null = !found.is_empty() && self.is_null_marker(found);
                (!is_null).then(|| found.bytes().to_vec())
            })
            .collect()
    }
}
