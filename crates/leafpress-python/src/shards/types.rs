//! Types that depend on values: integers of more than 64 bits are TEXT. All parts of a run have the types that the
//! rows of all tasks ask for.

use std::sync::Arc;

use arrow_array::{Array as _, ArrayRef, Int64Array, StringArray};
use arrow_schema::{ArrowError, DataType};
use leafpress::load::{ArrowColumn, Value};

/// Number of decimal digits that always fit 64 bits.
const DIGITS_OF_64_BITS: u8 = 18;

/// Returns true for types of whole numbers that may need more than 64 bits.
pub fn may_be_wide(data_type: &DataType) -> bool {
    match data_type {
        DataType::UInt64 => true,
        DataType::Decimal128(digits, 0) | DataType::Decimal256(digits, 0) => {
            *digits > DIGITS_OF_64_BITS
        }
        _ => false,
    }
}

/// Returns true if a value of a column that may be wide does not fit 64 bits.
///
/// # Errors
/// The array is damaged.
pub fn is_wide(array: &ArrayRef) -> Result<bool, ArrowError> {
    let column = column_of(array)?;
    Ok((0..array.len()).any(|row| matches!(column.value(row), Value::Text(_))))
}

/// The type of a column that may be wide, in all parts.
pub fn settled_type(is_wide: bool) -> DataType {
    if is_wide { DataType::Utf8 } else { DataType::Int64 }
}

/// The values of a column that may be wide, in the type that was settled.
///
/// # Errors
/// The array is damaged.
pub fn settled(array: &ArrayRef, is_wide: bool) -> Result<ArrayRef, ArrowError> {
    let column = column_of(array)?;
    let rows = 0..array.len();
    if is_wide {
        let text = |row| match column.value(row) {
            Value::Integer(integer) => Some(integer.to_string()),
            Value::Text(digits) => Some(String::from_utf8_lossy(digits).into_owned()),
            _ => None,
        };
        return Ok(Arc::new(rows.map(text).collect::<StringArray>()));
    }
    let integer = |row| match column.value(row) {
        Value::Integer(integer) => Some(integer),
        _ => None,
    };
    Ok(Arc::new(rows.map(integer).collect::<Int64Array>()))
}

fn column_of(array: &ArrayRef) -> Result<ArrowColumn, ArrowError> {
    ArrowColumn::new(array).map_err(ArrowError::ParseError)
}
