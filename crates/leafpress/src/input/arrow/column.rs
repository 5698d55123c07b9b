//! One column of a batch, in a form whose values are read one by one, fast.
//!
//! Arrow has some fifty types; here they are a dozen. Values whose bytes are those that
//! SQLite wants are kept, without a copy; narrow numbers are widened; values that become
//! text are written when the batch is taken apart, while other threads do the same with
//! other batches. A dictionary is never unpacked: its values
//! are a column themselves, and each row says which.
//!
//! Must never: panic once made, whatever row below its length is asked for.

use std::ops::Range;

use arrow_array::cast::AsArray;
use arrow_array::types::{
    ArrowPrimitiveType, Decimal32Type, Decimal64Type, Decimal128Type, Decimal256Type, DecimalType,
    Float16Type, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type,
    RunEndIndexType, UInt8Type, UInt16Type, UInt32Type, UInt64Type,
};
use arrow_array::{
    Array, ArrayRef, ArrowNativeTypeOp, BinaryArray, BinaryViewArray, FixedSizeBinaryArray,
    LargeBinaryArray, LargeStringArray, OffsetSizeTrait, StringArray, StringViewArray,
};
use arrow_buffer::{ArrowNativeType, BooleanBuffer, Buffer, NullBuffer, ScalarBuffer};
use arrow_schema::DataType;
use leafpress_format::{Prepared, PreparedRows, Value};

use super::nested;
use super::text::write_decimal;
use super::times;
use super::types::DIGITS_OF_64_BITS;
use crate::input::rows::{ColumnPlan, SourceType};
use crate::schema::stored_real;

// A string view: length (4 bytes), then the text itself if it is short, else four of its bytes, the
// index of a buffer and an offset there (Arrow columnar format, variable-size binary view layout).
const VIEW_BYTES: usize = size_of::<u128>();
const VIEW_LENGTH_BYTES: usize = size_of::<u32>();
const VIEW_INLINE_BYTES_MAX: usize = VIEW_BYTES - VIEW_LENGTH_BYTES;

/// A column, ready to be read by row.
#[derive(Debug)]
pub struct Column {
    nulls: Option<NullBuffer>,
    values: Values,
}

/// The values of a column. Those of rows that are NULL mean nothing.
#[derive(Debug)]
enum Values {
    /// NULL throughout.
    Null,
    Boolean(BooleanBuffer),
    Integer(ScalarBuffer<i64>),
    Real(ScalarBuffer<f64>),
    /// Integers, but for those beyond 64 bits, which are written out.
    Wide(ScalarBuffer<i64>, Written),
    Text(StringArray),
    LargeText(LargeStringArray),
    TextView(StringViewArray),
    Blob(BinaryArray),
    LargeBlob(LargeBinaryArray),
    BlobView(BinaryViewArray),
    FixedBlob(FixedSizeBinaryArray),
    Written(Written, Form),
    /// For each row, the index of its value in another column.
    Chosen(Vec<u32>, Box<Column>),
}

/// The meaning of text that was written here, needed where rows are written as JSON.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    /// Text.
    Text,
    /// A number with more digits than a float holds.
    Number,
    /// JSON.
    Json,
}

/// Text that was written out for a column, row by row.
#[derive(Debug, Default)]
pub(super) struct Written {
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

impl Written {
    /// Writes each row that is not NULL; `write` appends a row's text.
    pub fn each(
        rows: usize,
        nulls: Option<&NullBuffer>,
        mut write: impl FnMut(usize, &mut Vec<u8>),
    ) -> Self {
        let mut written = Self { bytes: Vec::new(), ends: Vec::with_capacity(rows) };
        for row in 0..rows {
            if nulls.is_none_or(|nulls| nulls.is_valid(row)) {
                write(row, &mut written.bytes);
            }
            written.ends.push(written.bytes.len());
        }
        written
    }

    fn get(&self, row: usize) -> &[u8] {
        let start = if row == 0 { 0 } else { self.ends[row - 1] };
        &self.bytes[start..self.ends[row]]
    }
}

/// A value, and the facts about it that its storage class does not tell.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Detailed<'a> {
    /// Nothing more.
    Plain(Value<'a>),
    Boolean(bool),
    /// A number, in digits.
    Number(&'a [u8]),
    Json(&'a [u8]),
}

impl Column {
    /// Takes an array apart.
    ///
    /// # Errors
    /// Fails if the array is of no type that we know, or contradicts itself.
    pub fn new(array: &ArrayRef) -> Result<Self, String> {
        let nulls = array.nulls().cloned();
        let values = Values::new(array, nulls.as_ref())?;
        let nulls = nulls.filter(|nulls| nulls.null_count() > 0);
        Ok(Self { nulls, values })
    }

    /// The value of a row.
    #[inline(always)]
    pub fn value(&self, row: usize) -> Value<'_> {
        if self.nulls.as_ref().is_some_and(|nulls| nulls.is_null(row)) {
            return Value::Null;
        }
        match &self.values {
            Values::Integer(integers) => Value::Integer(integers[row]),
            Values::Real(reals) => real(reals[row]),
            _ => self.other_value(row),
        }
    }

    /// The value of a row that is not NULL. By a call: it leaves the loop over rows small.
    #[inline(never)]
    fn other_value(&self, row: usize) -> Value<'_> {
        match &self.values {
            Values::Null => Value::Null,
            Values::Boolean(bits) => Value::Integer(i64::from(bits.value(row))),
            Values::Integer(integers) => Value::Integer(integers[row]),
            Values::Real(reals) => real(reals[row]),
            Values::Wide(integers, written) => match written.get(row) {
                b"" => Value::Integer(integers[row]),
                digits => Value::Text(digits),
            },
            Values::Text(texts) => Value::Text(texts.value(row).as_bytes()),
            Values::LargeText(texts) => Value::Text(texts.value(row).as_bytes()),
            Values::TextView(texts) => Value::Text(texts.value(row).as_bytes()),
            Values::Blob(blobs) => Value::Blob(blobs.value(row)),
            Values::LargeBlob(blobs) => Value::Blob(blobs.value(row)),
            Values::BlobView(blobs) => Value::Blob(blobs.value(row)),
            Values::FixedBlob(blobs) => Value::Blob(blobs.value(row)),
            Values::Written(written, _) => Value::Text(written.get(row)),
            Values::Chosen(choices, values) => values.value(choices[row] as usize),
        }
    }

    /// The value of a row, with what JSON distinguishes and SQLite does not.
    pub(super) fn detailed(&self, row: usize) -> Detailed<'_> {
        let value = self.value(row);
        match (&self.values, value) {
            (_, Value::Null) => Detailed::Plain(value),
            (Values::Chosen(choices, values), _) => values.detailed(choices[row] as usize),
            (Values::Boolean(bits), _) => Detailed::Boolean(bits.value(row)),
            (Values::Wide(..) | Values::Written(_, Form::Number), Value::Text(digits)) => {
                Detailed::Number(digits)
            }
            (Values::Written(_, Form::Json), Value::Text(json)) => Detailed::Json(json),
            _ => Detailed::Plain(value),
        }
    }

    /// The text of a row, if it is a part of a larger buffer.
    #[inline(always)]
    pub fn text_within(&self, row: usize) -> Option<(&[u8], Range<usize>)> {
        if self.nulls.as_ref().is_some_and(|nulls| nulls.is_null(row)) {
            return None;
        }
        match &self.values {
            Values::Text(texts) => {
                let ends = texts.value_offsets();
                Some((texts.value_data(), ends[row] as usize..ends[row + 1] as usize))
            }
            Values::TextView(texts) => {
                let (buffer, text) = place_of_view(texts.views()[row], row);
                let buffer = match buffer.checked_sub(1) {
                    None => texts.views().inner(),
                    Some(buffer) => &texts.data_buffers()[buffer],
                };
                Some((buffer.as_slice(), text))
            }
            _ => None,
        }
    }

    /// Returns true if the values can be prepared as
    /// [`RowBatch::may_prepare`](crate::input::rows::RowBatch::may_prepare) says.
    pub fn may_prepare<'b>(&'b self, wanted: SourceType, texts: &mut Vec<&'b [u8]>) -> bool {
        let text = match (&self.values, wanted) {
            (Values::Integer(_) | Values::Boolean(_), SourceType::Integer)
            | (Values::Real(_), SourceType::Real) => return true,
            (Values::TextView(text), SourceType::Text) => {
                texts.push(text.views().inner().as_slice());
                texts.extend(text.data_buffers().iter().map(Buffer::as_slice));
                return true;
            }
            (Values::Text(text), SourceType::Text) => text.value_data(),
            (Values::LargeText(text), SourceType::Text) => text.value_data(),
            (Values::Written(written, _), SourceType::Text) => &written.bytes,
            _ => return false,
        };
        texts.push(text);
        u32::try_from(text.len()).is_ok()
    }

    /// Prepares some rows.
    #[inline(always)]
    pub fn prepare(&self, plan: ColumnPlan, rows: Range<usize>, into: &mut PreparedRows) {
        let nulls = self.nulls.as_ref();
        let mut filling = Filling { nulls, first: rows.start, plan, into };
        match &self.values {
            Values::Integer(integers) => {
                filling.fill(integers[rows].iter(), |integer| Prepared::integer(*integer));
            }
            Values::Real(reals) => {
                filling.fill(reals[rows].iter(), |real| match *real {
                    real if real.is_nan() => plan.null,
                    real => Prepared::number(stored_real(real)),
                });
            }
            Values::Boolean(bits) => {
                filling.fill(rows, |row| Prepared::integer(i64::from(bits.value(row))));
            }
            Values::Text(texts) => filling.texts(&texts.value_offsets()[rows.start..=rows.end]),
            Values::LargeText(texts) => {
                filling.texts(&texts.value_offsets()[rows.start..=rows.end]);
            }
            Values::Written(written, _) => {
                let start = rows.start.checked_sub(1).map_or(0, |row| written.ends[row]);
                let ends = &written.ends[rows];
                let starts = std::iter::once(&start).chain(ends);
                filling.fill(starts.zip(ends), |(start, end)| {
                    Prepared::text_in(plan.first_text, *start, end - start)
                });
            }
            Values::TextView(texts) => {
                let views = texts.views()[rows.clone()].iter().zip(rows);
                filling.fill(views, |(view, row)| {
                    let (buffer, text) = place_of_view(*view, row);
                    Prepared::text_in(plan.first_text + buffer, text.start, text.len())
                });
            }
            _ => {}
        }
    }

    /// Number of rows whose value is NaN.
    pub fn nans(&self) -> usize {
        let count = |rows: usize| (0..rows).filter(|&row| self.is_nan(row)).count();
        match &self.values {
            // All are looked at, which is faster than to stop at the first.
            Values::Real(reals) if reals.iter().fold(false, |any, real| any | real.is_nan()) => {
                count(reals.len())
            }
            Values::Chosen(choices, values) if values.nans() > 0 => count(choices.len()),
            _ => 0,
        }
    }

    fn is_nan(&self, row: usize) -> bool {
        // What stands where the column is NULL may be NaN, too.
        if self.nulls.as_ref().is_some_and(|nulls| nulls.is_null(row)) {
            return false;
        }
        match &self.values {
            Values::Real(reals) => reals[row].is_nan(),
            Values::Chosen(choices, values) => values.is_nan(choices[row] as usize),
            _ => false,
        }
    }

    /// Adds the bytes of each row's text or blob.
    pub fn add_content_bytes(&self, sums: &mut [usize]) {
        // The length of a NULL may be any number, so columns with NULLs are read value by value.
        match &self.values {
            Values::Null | Values::Boolean(_) | Values::Integer(_) | Values::Real(_) => {}
            Values::TextView(texts) if self.nulls.is_none() => {
                for (sum, view) in sums.iter_mut().zip(texts.views()) {
                    *sum += *view as u32 as usize;
                }
            }
            Values::Text(texts) if self.nulls.is_none() => {
                for (sum, ends) in sums.iter_mut().zip(texts.value_offsets().windows(2)) {
                    *sum += (ends[1] - ends[0]) as usize;
                }
            }
            _ => {
                for (row, sum) in sums.iter_mut().enumerate() {
                    if let Value::Text(bytes) | Value::Blob(bytes) = self.value(row) {
                        *sum += bytes.len();
                    }
                }
            }
        }
    }
}

/// Prepared values of a column.
struct Filling<'f> {
    nulls: Option<&'f NullBuffer>,
    /// The first row.
    first: usize,
    plan: ColumnPlan,
    into: &'f mut PreparedRows,
}

impl Filling<'_> {
    /// Texts that follow one another in one buffer; `ends` begins with the start of the first.
    #[inline(always)]
    fn texts<O: OffsetSizeTrait>(&mut self, ends: &[O]) {
        let buffer = self.plan.first_text;
        self.fill(ends.windows(2), |ends| {
            let (start, end) = (ends[0].as_usize(), ends[1].as_usize());
            Prepared::text_in(buffer, start, end - start)
        });
    }

    #[inline(always)]
    fn fill<T>(&mut self, values: impl Iterator<Item = T>, prepare: impl Fn(T) -> Prepared) {
        let ColumnPlan { place, null, .. } = self.plan;
        match self.nulls {
            None => self.into.column(place, values, prepare),
            Some(nulls) => self.into.column(place, values.zip(self.first..), |(value, row)| {
                if nulls.is_null(row) { null } else { prepare(value) }
            }),
        }
    }
}

/// Buffer of the text of a row's view, and its place there. Buffer 0 is that of the views, the others
/// follow it.
#[inline(always)]
fn place_of_view(view: u128, row: usize) -> (usize, Range<usize>) {
    let length = view as u32 as usize;
    if length <= VIEW_INLINE_BYTES_MAX {
        let start = row * VIEW_BYTES + VIEW_LENGTH_BYTES;
        return (0, start..start + length);
    }
    let (buffer, start) = ((view >> 64) as u32 as usize, (view >> 96) as usize);
    (buffer + 1, start..start + length)
}

/// SQLite has no NaN.
fn real(real: f64) -> Value<'static> {
    if real.is_nan() { Value::Null } else { Value::Real(real) }
}

impl Values {
    fn new(array: &ArrayRef, nulls: Option<&NullBuffer>) -> Result<Self, String> {
        Ok(match array.data_type() {
            DataType::Null => Self::Null,
            DataType::Boolean => Self::Boolean(array.as_boolean().values().clone()),
            DataType::Int8 => integers::<Int8Type>(array),
            DataType::Int16 => integers::<Int16Type>(array),
            DataType::Int32 => integers::<Int32Type>(array),
            DataType::Int64 => Self::Integer(array.as_primitive::<Int64Type>().values().clone()),
            DataType::UInt8 => integers::<UInt8Type>(array),
            DataType::UInt16 => integers::<UInt16Type>(array),
            DataType::UInt32 => integers::<UInt32Type>(array),
            DataType::UInt64 => unsigned(array, nulls),
            DataType::Float16 => {
                reals(array.as_primitive::<Float16Type>().values(), |half| half.to_f64())
            }
            DataType::Float32 => {
                reals(array.as_primitive::<Float32Type>().values(), |single| f64::from(*single))
            }
            DataType::Float64 => Self::Real(array.as_primitive::<Float64Type>().values().clone()),
            DataType::Utf8 => Self::Text(array.as_string().clone()),
            DataType::LargeUtf8 => Self::LargeText(array.as_string().clone()),
            DataType::Utf8View => Self::TextView(array.as_string_view().clone()),
            DataType::Binary => Self::Blob(array.as_binary().clone()),
            DataType::LargeBinary => Self::LargeBlob(array.as_binary().clone()),
            DataType::BinaryView => Self::BlobView(array.as_binary_view().clone()),
            DataType::FixedSizeBinary(_) => Self::FixedBlob(array.as_fixed_size_binary().clone()),
            DataType::Decimal32(digits, scale) => {
                decimals::<Decimal32Type>(array, *digits, *scale, nulls)?
            }
            DataType::Decimal64(digits, scale) => {
                decimals::<Decimal64Type>(array, *digits, *scale, nulls)?
            }
            DataType::Decimal128(digits, scale) => {
                decimals::<Decimal128Type>(array, *digits, *scale, nulls)?
            }
            DataType::Decimal256(digits, scale) => {
                decimals::<Decimal256Type>(array, *digits, *scale, nulls)?
            }
            DataType::Duration(unit) => Self::Integer(times::counts_of_duration(array, *unit)),
            DataType::Dictionary(..) => dictionary(array)?,
            DataType::RunEndEncoded(ends, _) => runs(array, ends.data_type())?,
            data_type if times::is_time(data_type) => {
                Self::Written(times::write(array, nulls)?, Form::Text)
            }
            _ => Self::Written(nested::write(array, nulls)?, Form::Json),
        })
    }
}

fn integers<T: ArrowPrimitiveType<Native: Into<i64>>>(array: &ArrayRef) -> Values {
    let narrow = array.as_primitive::<T>().values();
    Values::Integer(narrow.iter().map(|integer| (*integer).into()).collect::<Vec<i64>>().into())
}

fn reals<T: ArrowNativeType>(narrow: &ScalarBuffer<T>, widen: impl Fn(&T) -> f64) -> Values {
    Values::Real(narrow.iter().map(widen).collect::<Vec<f64>>().into())
}

/// Unsigned integers: above 2⁶³ they are negative when read as signed ones.
fn unsigned(array: &ArrayRef, nulls: Option<&NullBuffer>) -> Values {
    let unsigned = array.as_primitive::<UInt64Type>().values();
    let signed = ScalarBuffer::<i64>::new(unsigned.inner().clone(), 0, unsigned.len());
    if signed.iter().all(|integer| *integer >= 0) {
        return Values::Integer(signed);
    }
    let written = Written::each(array.len(), nulls, |row, out| {
        if signed[row] < 0 {
            out.extend_from_slice(unsigned[row].to_string().as_bytes());
        }
    });
    Values::Wide(signed, written)
}

fn decimals<T: DecimalType>(
    array: &ArrayRef,
    digits: u8,
    scale: i8,
    nulls: Option<&NullBuffer>,
) -> Result<Values, String>
where
    T::Native: ArrowNativeTypeOp + std::fmt::Display,
{
    let unscaled = array.as_primitive::<T>().values();
    if scale != 0 {
        let written = Written::each(array.len(), nulls, |row, out| {
            write_decimal(&unscaled[row].to_string(), scale, out);
        });
        return Ok(Values::Written(written, Form::Number));
    }
    // An integer that 64 bits do not hold is written out.
    let mut integers = vec![0; array.len()];
    let written = Written::each(array.len(), nulls, |row, out| {
        let text = unscaled[row].to_string();
        match text.parse() {
            Ok(integer) => integers[row] = integer,
            Err(_) => out.extend_from_slice(text.as_bytes()),
        }
    });
    if written.bytes.is_empty() {
        return Ok(Values::Integer(integers.into()));
    }
    if digits <= DIGITS_OF_64_BITS {
        return Err(format!("a decimal has more than the {digits} digits of its type"));
    }
    Ok(Values::Wide(integers.into(), written))
}

fn dictionary(array: &ArrayRef) -> Result<Values, String> {
    let dictionary = array.as_any_dictionary();
    let values = dictionary.values();
    let keys = dictionary.keys();
    let choices: Vec<u32> = if values.is_empty() {
        // All rows are NULL.
        vec![0; array.len()]
    } else {
        dictionary.normalized_keys().into_iter().map(|key| key as u32).collect()
    };
    chosen(choices, values, keys.nulls())
}

/// The choices are checked: a damaged file may choose a value that is not there.
fn chosen(
    choices: Vec<u32>,
    values: &ArrayRef,
    nulls: Option<&NullBuffer>,
) -> Result<Values, String> {
    if u32::try_from(values.len()).is_err() {
        return Err("a dictionary has more than 2³² values".to_owned());
    }
    let is_there = |(row, choice): (usize, &u32)| {
        (*choice as usize) < values.len() || nulls.is_some_and(|nulls| nulls.is_null(row))
    };
    if !choices.iter().enumerate().all(is_there) {
        return Err("a dictionary has fewer values than its keys say".to_owned());
    }
    Ok(Values::Chosen(choices, Box::new(Column::new(values)?)))
}

fn runs(array: &ArrayRef, ends: &DataType) -> Result<Values, String> {
    match ends {
        DataType::Int16 => runs_of::<Int16Type>(array),
        DataType::Int32 => runs_of::<Int32Type>(array),
        DataType::Int64 => runs_of::<Int64Type>(array),
        other => Err(format!("run ends of type {other} are unknown")),
    }
}

fn runs_of<T: RunEndIndexType>(array: &ArrayRef) -> Result<Values, String> {
    let runs = array.as_run::<T>();
    let ends = runs.run_ends();
    let mut run = runs.get_start_physical_index();
    let mut choices = Vec::with_capacity(array.len());
    for row in ends.offset()..ends.offset() + array.len() {
        while ends.values().get(run).is_some_and(|end| end.as_usize() <= row) {
            run += 1;
        }
        choices.push(run as u32);
    }
    chosen(choices, runs.values(), None)
}
