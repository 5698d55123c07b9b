//! Rows made in memory: tuples, slices of values, anything that implements [`Row`].

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
/// vectors of [`Value`]s.
pub trait Row {
    /// Number of its values.
    fn columns(&self) -> usize;

    /// The value of a column.
    fn value(&self, column: usize) -> Value<'_>;

    /// Upper bound for the bytes of text and blob content.
    fn content_bytes(&self) -> usize;

    /// Writes the values, last column first.
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
    pub(super) rules: &'t TypedRules,
    pub(super) record: &'t mut RecordWriter<'r>,
    pub(super) number: &'t mut NumberText,
    /// Last column, which is the first one written, whose value does not fit its type.
    pub(super) misfit: Option<usize>,
}

impl TypedRecord<'_, '_> {
    /// Writes the value of a column; columns come in descending order.
    #[inline(always)]
    pub fn put(&mut self, column: usize, value: Value<'_>) {
        let Self { rules, record, number, misfit } = self;
        if rules.write_value(column, value, || None, *record, number) != TypedWritten::Whole {
            misfit.get_or_insert(column);
        }
    }
}

/// The seal of [`Field`].
mod sealed {
    pub trait Sealed {}
}

/// One value of a tuple. The trait is sealed; for a type of your own implement [`Row`].
pub trait Field: sealed::Sealed {
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
    Value<'_>, |field| *field;
}

impl<F: Field + ?Sized> sealed::Sealed for &F {}
impl<F: Field + ?Sized> Field for &F {
    #[inline(always)]
    fn value(&self) -> Value<'_> {
        (**self).value()
    }
}

impl<F: Field> sealed::Sealed for Option<F> {}
impl<F: Field> Field for Option<F> {
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
        $record.put($index, $row.$index.value());
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
