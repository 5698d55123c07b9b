//! The SQLite types of Arrow's types.
//!
//! | Arrow | SQLite |
//! |---|---|
//! | bool, int8 to int64, uint8 to uint32, duration | INTEGER; true is 1; durations are counts in their unit |
//! | uint64, decimal without fraction | INTEGER where all values fit, else TEXT (looked at) |
//! | float16 to float64 | REAL, exactly; NaN is NULL |
//! | decimal with fraction | TEXT, every digit of its scale |
//! | date, time, timestamp, interval | TEXT, see `text.rs` |
//! | strings | TEXT |
//! | binary of any kind | BLOB |
//! | list, struct, map, union | TEXT, JSON; see `nested.rs` |
//! | dictionary, run-end encoded | what their values are |
//! | null | NULL (each row is looked at all the same) |
//!
//! Must never: promise a type that a value could break.

use arrow_schema::{DataType, Fields};

use crate::input::rows::{SourceColumn, SourceType};

/// Number of decimal digits that always fit 64 bits.
pub(super) const DIGITS_OF_64_BITS: u8 = 18;

/// The columns of a schema, with their names as they are there.
pub(super) fn columns_of(fields: &Fields) -> Vec<SourceColumn> {
    let column = |field: &arrow_schema::FieldRef| SourceColumn {
        name: field.name().as_str().into(),
        declared: declared_type(field.data_type()),
        declared_sql: None,
    };
    fields.iter().map(column).collect()
}

/// The type of all values of an Arrow type; `None` if it depends on the values.
pub(super) fn declared_type(data_type: &DataType) -> Option<SourceType> {
    match data_type {
        DataType::Boolean
        | DataType::Int8
        | DataType::Int16
        | DataType::Int32
        | DataType::Int64
        | DataType::UInt8
        | DataType::UInt16
        | DataType::UInt32
        | DataType::Duration(_) => Some(SourceType::Integer),
        DataType::Float16 | DataType::Float32 | DataType::Float64 => Some(SourceType::Real),
        DataType::Null | DataType::UInt64 => None,
        DataType::Decimal32(digits, scale)
        | DataType::Decimal64(digits, scale)
        | DataType::Decimal128(digits, scale)
        | DataType::Decimal256(digits, scale) => match (*scale, *digits) {
            (0, ..=DIGITS_OF_64_BITS) => Some(SourceType::Integer),
            (0, _) => None,
            _ => Some(SourceType::Text),
        },
        DataType::Binary
        | DataType::LargeBinary
        | DataType::BinaryView
        | DataType::FixedSizeBinary(_) => Some(SourceType::Blob),
        DataType::Dictionary(_, values) => declared_type(values),
        DataType::RunEndEncoded(_, values) => declared_type(values.data_type()),
        DataType::Utf8
        | DataType::LargeUtf8
        | DataType::Utf8View
        | DataType::Date32
        | DataType::Date64
        | DataType::Time32(_)
        | DataType::Time64(_)
        | DataType::Timestamp(..)
        | DataType::Interval(_)
        | DataType::List(_)
        | DataType::LargeList(_)
        | DataType::FixedSizeList(..)
        | DataType::ListView(_)
        | DataType::LargeListView(_)
        | DataType::Struct(_)
        | DataType::Map(..)
        | DataType::Union(..) => Some(SourceType::Text),
    }
}

/// Returns true for types of whole numbers that may need more than 64 bits: then they are TEXT.
pub fn may_be_wide(data_type: &DataType) -> bool {
    declared_type(data_type).is_none() && !has_any(data_type, &DataType::is_null)
}

/// Returns true if `wanted` is true of the type or of one within it.
pub(super) fn has_any(data_type: &DataType, wanted: &impl Fn(&DataType) -> bool) -> bool {
    wanted(data_type)
        || match data_type {
            DataType::List(child)
            | DataType::LargeList(child)
            | DataType::ListView(child)
            | DataType::LargeListView(child)
            | DataType::FixedSizeList(child, _)
            | DataType::Map(child, _) => has_any(child.data_type(), wanted),
            DataType::Struct(children) => {
                children.iter().any(|child| has_any(child.data_type(), wanted))
            }
            DataType::Union(children, _) => {
                children.iter().any(|(_, child)| has_any(child.data_type(), wanted))
            }
            DataType::Dictionary(_, values) => has_any(values, wanted),
            DataType::RunEndEncoded(_, values) => has_any(values.data_type(), wanted),
            _ => false,
        }
}
