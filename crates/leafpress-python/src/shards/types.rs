//! Types that depend on values: integers of more than 64 bits are TEXT. All parts of a run have the types that the
//! rows of all tasks ask for.

use std::sync::Arc;

use arrow_array::{Array as _, ArrayRef, Int64Array, StringArray};
use arrow_schema::{ArrowError, DataType};
use leafpress::load::{ArrowColumn, Value};

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

/// The values of a column that may be wide, in the [type that was settled](settled_type).
///
/// # Errors
/// The array is damaged, or its type is another one.
pub fn settled(array: &ArrayRef, settled_type: &DataType) -> Result<ArrayRef, ArrowError> {
    let column = column_of(array)?;
    let rows = 0..array.len();
    let other = || ArrowError::CastError(format!("{} to {settled_type}", array.data_type()));
    if *settled_type == DataType::Int64 {
        let integer = |row| match column.value(row) {
            Value::Null => Ok(None),
            Value::Integer(integer) => Ok(Some(integer)),
            _ => Err(other()),
        };
        return Ok(Arc::new(rows.map(integer).collect::<Result<Int64Array, _>>()?));
    }
    let text = |row| match column.value(row) {
        Value::Null => Ok(None),
        Value::Integer(integer) => Ok(Some(integer.to_string())),
        Value::Text(digits) => Ok(Some(String::from_utf8_lossy(digits).into_owned())),
        _ => Err(other()),
    };
    Ok(Arc::new(rows.map(text).collect::<Result<StringArray, _>>()?))
}

fn column_of(array: &ArrayRef) -> Result<ArrowColumn, ArrowError> {
    ArrowColumn::new(array).map_err(ArrowError::ParseError)
}
