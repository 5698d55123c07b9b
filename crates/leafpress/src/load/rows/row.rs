//! Rows made in memory: tuples, slices of values, anything that implements [`Row`].

use std::borrow::Cow;
use std::rc::Rc;
use std::sync::Arc;

use leafpress_format::{NumberText, RecordWriter, Value};

use crate::load::values::typed::{TypedRules, TypedWritten};

/// Number of columns that [`Row::write`] has code of its own for.
const COLUMNS_APART: usize = 8;

/// Writes the columns that a row has, from these.
macro_rules! write_column {
    ($row:ident, $record:ident, $columns:ident; $($column:literal)+) => {
        $(if $columns > $column {
            $record.put($column, $row.value($column));
        })+
    };
}

/// A row of typed values.
///
/// Implemented for tuples of up to 16 [`Field`]s, and for slices, arrays and
/// vectors of [`Value`]s. An implementation that breaks the rules of its methods ends a load with an error
/// that names the method.
pub trait Row {
    /// Number of its values, the same at each call.
    fn columns(&self) -> usize;

    /// The value of a column, the same at each call. A text that is not UTF-8 makes a bad row.
    fn value(&self, column: usize) -> Value<'_>;

    /// Upper bound for the bytes of text and blob content.
    fn content_bytes(&self) -> usize;

    /// Writes the values, each once, the last column first.
    // Inlined, the record is kept in registers. Where the number of columns is known, so is each
    // column's type: nothing is left of the choices that `value` makes.
    #[inline(always)]
    fn write(&self, record: &mut TypedRecord<'_, '_>) {
        let columns = self.columns();
        for column in (COLUMNS_APART..columns).rev() {
            record.put(column, self.value(column));
        }
        write_column!(self, record, columns; 7 6 5 4 3 2 1 0);
    }
}

/// A record whose columns have types: values are converted by SQLite's affinity.
#[derive(Debug)]
pub struct TypedRecord<'t, 'r> {
    rules: &'t TypedRules,
    record: &'t mut RecordWriter<'r>,
    number: &'t mut NumberText,
    /// Number of columns that are still to be written.
    columns_left: usize,
    /// Bytes of text and blobs that may still be written.
    content_left: usize,
    written: Written,
}

/// Result of writing a row.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Written {
    /// Last column, which is the first one written, whose value does not fit its type.
    pub misfit: Option<usize>,
    /// Rule of [`Row`] that its implementation breaks.
    pub broken: Option<&'static str>,
}

const ORDER: &str = "Row::write must put each column once, from the last to the first";
const CONTENT: &str = "Row::content_bytes is less than the bytes of the row's text and blobs";

impl<'t, 'r> TypedRecord<'t, 'r> {
    /// Writes the values of a row with this many columns and at most this many bytes of content.
    /// Unless nothing is wrong, the record must be thrown away.
    #[inline(always)]
    pub(super) fn write_row(
        (rules, record): (&'t TypedRules, &'t mut RecordWriter<'r>),
        number: &'t mut NumberText,
        (columns, content_bytes): (usize, usize),
        row: &impl Row,
    ) -> Written {
        let (columns_left, content_left, written) = (columns, content_bytes, Written::default());
        let mut typed = Self { rules, record, number, columns_left, content_left, written };
        row.write(&mut typed);
        if typed.columns_left > 0 {
            typed.written.broken.get_or_insert(ORDER);
        }
        typed.written
    }

    /// Writes the value of a column; columns come in descending order.
    #[inline(always)]
    pub fn put(&mut self, column: usize, value: Value<'_>) {
        let is_text = !matches!(value, Value::Text(text) if !is_utf8(text));
        self.put_text(column, value, is_text);
    }

    /// As [`put`](Self::put), for a value that a database had already: its text may be no UTF-8.
    #[doc(hidden)]
    #[inline(always)]
    pub fn put_stored(&mut self, column: usize, value: Value<'_>) {
        self.put_text(column, value, true);
    }

    /// Writes a field of a tuple.
    #[inline(always)]
    fn put_field<F: Field>(&mut self, column: usize, field: &F) {
        let value = field.value();
        if F::IS_UTF8 { self.put_text(column, value, true) } else { self.put(column, value) }
    }

    /// As [`put`](Self::put); `is_text` says that a text is UTF-8.
    #[inline(always)]
    fn put_text(&mut self, column: usize, value: Value<'_>, is_text: bool) {
        if self.columns_left.checked_sub(1) != Some(column) {
            self.written.broken.get_or_insert(ORDER);
            return;
        }
        self.columns_left = column;
        let Some(content_left) = self.content_left.checked_sub(content_bytes(value)) else {
            self.written.broken.get_or_insert(CONTENT);
            return;
        };
        self.content_left = content_left;
        let Self { rules, record, number, .. } = self;
        let written = rules.write_value(column, value, || None, *record, number);
        if written != TypedWritten::Whole || !is_text {
            self.written.misfit.get_or_insert(column);
        }
    }
}

/// Texts of this many bytes are looked at in place: most are ASCII.
const SHORT_TEXT_BYTES: usize = 32;

#[inline(always)]
fn is_utf8(text: &[u8]) -> bool {
    (text.len() <= SHORT_TEXT_BYTES && text.is_ascii()) || simdutf8::basic::from_utf8(text).is_ok()
}

/// The seal of [`Field`].
mod sealed {
    pub trait Sealed {}
}

/// One value of a tuple. The trait is sealed; for a type of your own implement [`Row`].
pub trait Field: sealed::Sealed {
    /// True if a text is certainly UTF-8.
    #[doc(hidden)]
    const IS_UTF8: bool = true;

    /// The value, as SQLite knows it.
    fn value(&self) -> Value<'_>;
}

macro_rules! fields {
    ($($type:ty, |$field:ident| $value:expr;)+) => {
        $(impl sealed::Sealed for $type {}
        impl Field for $type {
            #[inline(always)]
            fn value(&self) -> Value<'_> {
                let $field = self;
                $value
            }
        })+
    };
}

fields! {
    i64, |field| Value::Integer(*field);
    i32, |field| Value::Integer(i64::from(*field));
    i16, |field| Value::Integer(i64::from(*field));
    i8, |field| Value::Integer(i64::from(*field));
    u32, |field| Value::Integer(i64::from(*field));
    u16, |field| Value::Integer(i64::from(*field));
    u8, |field| Value::Integer(i64::from(*field));
    bool, |field| Value::Integer(i64::from(*field));
    f64, |field| Value::Real(*field);
    f32, |field| Value::Real(f64::from(*field));
    str, |field| Value::Text(field.as_bytes());
    String, |field| Value::Text(field.as_bytes());
    [u8], |field| Value::Blob(field);
    Vec<u8>, |field| Value::Blob(field);
}

impl sealed::Sealed for Value<'_> {}
impl Field for Value<'_> {
    const IS_UTF8: bool = false;

    #[inline(always)]
    fn value(&self) -> Value<'_> {
        *self
    }
}

impl<const N: usize> sealed::Sealed for [u8; N] {}
impl<const N: usize> Field for [u8; N] {
    #[inline(always)]
    fn value(&self) -> Value<'_> {
        Value::Blob(self)
    }
}

/// Fields that are the value to which they point.
macro_rules! pointers {
    ($($bound:path, $type:ty;)+) => {
        $(impl<F: $bound + ?Sized> sealed::Sealed for $type {}
        impl<F: $bound + Field + ?Sized> Field for $type {
            const IS_UTF8: bool = F::IS_UTF8;

            #[inline(always)]
            fn value(&self) -> Value<'_> {
                (**self).value()
            }
        })+
    };
}

pointers! {
    Field, &F;
    Field, Box<F>;
    Field, Rc<F>;
    Field, Arc<F>;
    ToOwned, Cow<'_, F>;
}

impl<F: Field> sealed::Sealed for Option<F> {}
impl<F: Field> Field for Option<F> {
    const IS_UTF8: bool = F::IS_UTF8;

    #[inline(always)]
    fn value(&self) -> Value<'_> {
        self.as_ref().map_or(Value::Null, Field::value)
    }
}

#[inline(always)]
fn content_bytes(value: Value<'_>) -> usize {
    match value {
        Value::Text(bytes) | Value::Blob(bytes) => bytes.len(),
        _ => 0,
    }
}

impl Row for [Value<'_>] {
    fn columns(&self) -> usize {
        self.len()
    }

    fn value(&self, column: usize) -> Value<'_> {
        self[column]
    }

    fn content_bytes(&self) -> usize {
        self.iter().map(|value| content_bytes(*value)).sum()
    }

    #[inline(always)]
    fn write(&self, record: &mut TypedRecord<'_, '_>) {
        for (column, value) in self.iter().enumerate().rev() {
            record.put(column, *value);
        }
    }
}

impl<const N: usize> Row for [Value<'_>; N] {
    fn columns(&self) -> usize {
        N
    }

    fn value(&self, column: usize) -> Value<'_> {
        self[column]
    }

    fn content_bytes(&self) -> usize {
        self.as_slice().content_bytes()
    }

    #[inline(always)]
    fn write(&self, record: &mut TypedRecord<'_, '_>) {
        self.as_slice().write(record);
    }
}

impl Row for Vec<Value<'_>> {
    fn columns(&self) -> usize {
        self.len()
    }

    fn value(&self, column: usize) -> Value<'_> {
        self[column]
    }

    fn content_bytes(&self) -> usize {
        self.as_slice().content_bytes()
    }

    #[inline(always)]
    fn write(&self, record: &mut TypedRecord<'_, '_>) {
        self.as_slice().write(record);
    }
}

impl<R: Row + ?Sized> Row for &R {
    #[inline(always)]
    fn columns(&self) -> usize {
        (**self).columns()
    }

    #[inline(always)]
    fn value(&self, column: usize) -> Value<'_> {
        (**self).value(column)
    }

    #[inline(always)]
    fn content_bytes(&self) -> usize {
        (**self).content_bytes()
    }

    #[inline(always)]
    fn write(&self, record: &mut TypedRecord<'_, '_>) {
        (**self).write(record);
    }
}

/// Writes the fields of a tuple, the last one first.
macro_rules! put_reversed {
    ($row:ident, $record:ident;) => {};
    ($row:ident, $record:ident; $index:tt $($rest:tt)*) => {
        put_reversed!($row, $record; $($rest)*);
        $record.put_field($index, &$row.$index);
    };
}

macro_rules! tuples {
    ($($count:literal: $($name:ident $index:tt),+;)+) => {
        $(impl<$($name: Field),+> Row for ($($name,)+) {
            #[inline(always)]
            fn columns(&self) -> usize {
                $count
            }

            #[inline(always)]
            fn value(&self, column: usize) -> Value<'_> {
                match column {
                    $($index => self.$index.value(),)+
                    _ => Value::Null,
                }
            }

            #[inline(always)]
            fn content_bytes(&self) -> usize {
                0 $(+ content_bytes(self.$index.value()))+
            }

            #[inline(always)]
            fn write(&self, record: &mut TypedRecord<'_, '_>) {
                put_reversed!(self, record; $($index)+);
            }
        })+
    };
}

tuples! {
    1: A 0;
    2: A 0, B 1;
    3: A 0, B 1, C 2;
    4: A 0, B 1, C 2, D 3;
    5: A 0, B 1, C 2, D 3, E 4;
    6: A 0, B 1, C 2, D 3, E 4, F 5;
    7: A 0, B 1, C 2, D 3, E 4, F 5, G 6;
    8: A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7;
    9: A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7, I 8;
    10: A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7, I 8, J 9;
    11: A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7, I 8, J 9, K 10;
    12: A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7, I 8, J 9, K 10, L 11;
    13: A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7, I 8, J 9, K 10, L 11, M 12;
    14: A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7, I 8, J 9, K 10, L 11, M 12, N 13;
    15: A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7, I 8, J 9, K 10, L 11, M 12, N 13, O 14;
    16: A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7, I 8, J 9, K 10, L 11, M 12, N 13, O 14, P 15;
}
