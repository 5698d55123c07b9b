//! Parquet types that are wider than those that they are read as: timestamps of 96 bits, and
//! intervals of months, days and milliseconds.
//!
//! The parquet crate reads the former as nanoseconds in 64 bits, which hold the years 1677 to 2262,
//! and of the latter no months. So such a column is read twice, as two types that have all of it
//! together.
//!
//! Must never: touch a column whose types Arrow has.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{
    IntervalDayTimeType, IntervalMonthDayNano, IntervalYearMonthType, TimestampMicrosecondType,
    TimestampNanosecondType,
};
use arrow_array::{
    Array, ArrayRef, GenericListArray, IntervalMonthDayNanoArray, MapArray, OffsetSizeTrait,
    RecordBatch, StructArray,
};
use arrow_schema::{DataType, Field, FieldRef, IntervalUnit, Schema, TimeUnit};
use parquet::arrow::arrow_reader::{ArrowReaderMetadata, ArrowReaderOptions};
use parquet::arrow::{ARROW_SCHEMA_META_KEY, ProjectionMask};
use parquet::basic::Type as PhysicalType;
use parquet::errors::Result as ParquetResult;
use parquet::file::metadata::ParquetMetaData;

/// Second reading of the columns that need one.
#[derive(Debug, Clone)]
pub(super) struct SecondReading {
    pub metadata: ArrowReaderMetadata,
    pub columns: ProjectionMask,
    /// Indices of these columns.
    indices: Vec<usize>,
}

impl SecondReading {
    /// The second reading of a file whose first one is `first`; `None` if no column needs it.
    pub fn of(first: &ArrowReaderMetadata) -> ParquetResult<Option<Self>> {
        let contents = first.metadata();
        let (mut fields, mut indices) = (Vec::new(), Vec::new());
        for (index, field) in first.schema().fields().iter().enumerate() {
            let other = other_field(field, &mut Leaves::of(contents, index));
            if other != *field {
                indices.push(index);
            }
            fields.push(other);
        }
        if indices.is_empty() {
            return Ok(None);
        }
        let schema = Schema::new_with_metadata(fields, first.schema().metadata().clone());
        let options = ArrowReaderOptions::new().with_schema(Arc::new(schema));
        let metadata = ArrowReaderMetadata::try_new(Arc::clone(contents), options)?;
        let schema = contents.file_metadata().schema_descr();
        let columns = ProjectionMask::roots(schema, indices.iter().copied());
        Ok(Some(Self { metadata, columns, indices }))
    }

    /// Joins both readings of some rows.
    ///
    /// # Errors
    /// Fails if they do not fit together.
    pub fn join(&self, first: &RecordBatch, second: &RecordBatch) -> Result<RecordBatch, String> {
        let mut columns = first.columns().to_vec();
        let mut fields = first.schema().fields().to_vec();
        for (&index, other) in self.indices.iter().zip(second.columns()) {
            columns[index] = joined(&columns[index], other)?;
            fields[index] = of_type(&fields[index], columns[index].data_type());
        }
        RecordBatch::try_new(Arc::new(Schema::new(fields)), columns).map_err(|it| it.to_string())
    }
}

/// The values below a column, in their order.
struct Leaves<'p> {
    types: Box<dyn Iterator<Item = PhysicalType> + 'p>,
    /// True if the file says which types of Arrow they were.
    have_arrow_types: bool,
}

impl<'p> Leaves<'p> {
    fn of(contents: &'p ParquetMetaData, column: usize) -> Self {
        let file = contents.file_metadata();
        let schema = file.schema_descr();
        let own =
            (0..schema.num_columns()).filter(move |&at| schema.get_column_root_idx(at) == column);
        let mut keys = file.key_value_metadata().into_iter().flatten();
        Self {
            types: Box::new(own.map(|at| schema.column(at).physical_type())),
            have_arrow_types: keys.any(|it| it.key == ARROW_SCHEMA_META_KEY),
        }
    }
}

fn of_type(field: &FieldRef, data_type: &DataType) -> FieldRef {
    Arc::new(Field::clone(field).with_data_type(data_type.clone()))
}

fn other_field(field: &FieldRef, leaves: &mut Leaves<'_>) -> FieldRef {
    of_type(field, &other_type(field.data_type(), leaves))
}

/// The type of the second reading.
fn other_type(first: &DataType, leaves: &mut Leaves<'_>) -> DataType {
    match first {
        DataType::List(item) => DataType::List(other_field(item, leaves)),
        DataType::LargeList(item) => DataType::LargeList(other_field(item, leaves)),
        DataType::Map(entries, is_sorted) => {
            DataType::Map(other_field(entries, leaves), *is_sorted)
        }
        DataType::Struct(fields) => {
            DataType::Struct(fields.iter().map(|field| other_field(field, leaves)).collect())
        }
        _ => match (first, leaves.types.next()) {
            (DataType::Timestamp(TimeUnit::Nanosecond, None), Some(PhysicalType::INT96)) => {
                DataType::Timestamp(TimeUnit::Microsecond, None)
            }
            (
                DataType::Interval(IntervalUnit::DayTime),
                Some(PhysicalType::FIXED_LEN_BYTE_ARRAY),
            ) if !leaves.have_arrow_types => DataType::Interval(IntervalUnit::YearMonth),
            _ => first.clone(),
        },
    }
}

/// The values that two readings have together.
fn joined(first: &ArrayRef, second: &ArrayRef) -> Result<ArrayRef, String> {
    if first.data_type() == second.data_type() {
        return Ok(Arc::clone(first));
    }
    let nulls = first.nulls().cloned();
    match (first.data_type(), second.data_type()) {
        (DataType::Timestamp(..), DataType::Timestamp(..)) => timestamps(first, second),
        (DataType::Interval(_), DataType::Interval(_)) => Ok(intervals(first, second)),
        (DataType::List(_), DataType::List(_)) => list::<i32>(first, second),
        (DataType::LargeList(_), DataType::LargeList(_)) => list::<i64>(first, second),
        (DataType::Struct(_), DataType::Struct(_)) => {
            structs(first.as_struct(), second.as_struct()).map(|it| Arc::new(it) as ArrayRef)
        }
        (DataType::Map(entries, is_sorted), DataType::Map(..)) => {
            let (first, second) = (first.as_map(), second.as_map());
            let values = structs(first.entries(), second.entries())?;
            let entries = of_type(entries, values.data_type());
            let offsets = first.offsets().clone();
            let map = MapArray::try_new(entries, offsets, values, nulls, *is_sorted);
            Ok(Arc::new(map.map_err(|error| error.to_string())?))
        }
        (first, second) => Err(format!("{first} was read again as {second}")),
    }
}

fn list<O: OffsetSizeTrait>(first: &ArrayRef, second: &ArrayRef) -> Result<ArrayRef, String> {
    let (first, second) = (first.as_list::<O>(), second.as_list::<O>());
    let (DataType::List(item) | DataType::LargeList(item)) = first.data_type() else {
        return Err(format!("{} is no list", first.data_type()));
    };
    let values = joined(first.values(), second.values())?;
    let item = of_type(item, values.data_type());
    let (offsets, nulls) = (first.offsets().clone(), first.nulls().cloned());
    let list = GenericListArray::<O>::try_new(item, offsets, values, nulls);
    Ok(Arc::new(list.map_err(|error| error.to_string())?))
}

fn structs(first: &StructArray, second: &StructArray) -> Result<StructArray, String> {
    let arrays = first.columns().iter().zip(second.columns());
    let arrays = arrays.map(|(first, second)| joined(first, second));
    let arrays: Vec<ArrayRef> = arrays.collect::<Result<_, _>>()?;
    let fields = first.fields().iter().zip(&arrays);
    let fields = fields.map(|(field, array)| of_type(field, array.data_type())).collect();
    let made = StructArray::try_new(fields, arrays, first.nulls().cloned());
    made.map_err(|error| error.to_string())
}

/// The timestamps as nanoseconds, or as microseconds if nanoseconds cannot hold one of them.
fn timestamps(first: &ArrayRef, second: &ArrayRef) -> Result<ArrayRef, String> {
    let nanoseconds = first.as_primitive::<TimestampNanosecondType>();
    let microseconds = second.as_primitive::<TimestampMicrosecondType>();
    let valid = (0..first.len()).filter(|&row| first.is_valid(row));
    let (mut is_wide, mut is_exact) = (false, true);
    for row in valid {
        let (nanosecond, microsecond) = (nanoseconds.value(row), microseconds.value(row));
        is_wide |= nanosecond.div_euclid(1000) != microsecond;
        // Also where nanoseconds wrapped around.
        is_exact &= nanosecond == microsecond.wrapping_mul(1000);
    }
    match (is_wide, is_exact) {
        (false, _) => Ok(Arc::clone(first)),
        (true, true) => Ok(Arc::clone(second)),
        (true, false) => {
            Err("timestamps before 1677 or after 2262 stand beside nanoseconds".to_owned())
        }
    }
}

/// Intervals of the months of the second reading, and the days and milliseconds of the first.
fn intervals(first: &ArrayRef, second: &ArrayRef) -> ArrayRef {
    let days = first.as_primitive::<IntervalDayTimeType>().values();
    let months = second.as_primitive::<IntervalYearMonthType>().values();
    let joined = days.iter().zip(months.iter()).map(|(rest, months)| {
        // In Parquet all three are without a sign.
        let milliseconds = i64::from(rest.milliseconds.cast_unsigned());
        IntervalMonthDayNano::new(*months, rest.days, milliseconds * 1_000_000)
    });
    let joined: Vec<_> = joined.collect();
    Arc::new(IntervalMonthDayNanoArray::new(joined.into(), first.nulls().cloned()))
}
