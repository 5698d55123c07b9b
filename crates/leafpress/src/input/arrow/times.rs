//! Arrow's arrays of dates, times and intervals, as text.
//!
//! Must never: know how a date is written; that is `text.rs`'s.

use arrow_array::cast::AsArray;
use arrow_array::types::{
    Date32Type, Date64Type, DurationMicrosecondType, DurationMillisecondType,
    DurationNanosecondType, DurationSecondType, IntervalDayTimeType, IntervalMonthDayNanoType,
    IntervalYearMonthType, Time32MillisecondType, Time32SecondType, Time64MicrosecondType,
    Time64NanosecondType, TimestampMicrosecondType, TimestampMillisecondType,
    TimestampNanosecondType, TimestampSecondType,
};
use arrow_array::{Array, ArrayRef};
use arrow_buffer::{NullBuffer, ScalarBuffer};
use arrow_schema::{DataType, IntervalUnit, TimeUnit};

use super::column::Written;
use super::text::{
    Unit, write_date, write_date_of_milliseconds, write_interval, write_time, write_timestamp,
};

/// Returns true if [`write`] writes values of the type.
pub(super) fn is_time(data_type: &DataType) -> bool {
    matches!(
        data_type,
        DataType::Date32
            | DataType::Date64
            | DataType::Time32(_)
            | DataType::Time64(_)
            | DataType::Timestamp(..)
            | DataType::Interval(_)
    )
}

fn unit_of(unit: TimeUnit) -> Unit {
    match unit {
        TimeUnit::Second => Unit::SECOND,
        TimeUnit::Millisecond => Unit::MILLISECOND,
        TimeUnit::Microsecond => Unit::MICROSECOND,
        TimeUnit::Nanosecond => Unit::NANOSECOND,
    }
}

/// Writes out all rows that are not NULL.
///
/// # Errors
/// Fails if the type is none of [`is_time`]'s, or one that Arrow does not allow.
pub(super) fn write(array: &ArrayRef, nulls: Option<&NullBuffer>) -> Result<Written, String> {
    let rows = array.len();
    Ok(match array.data_type() {
        DataType::Date32 => {
            let days = array.as_primitive::<Date32Type>().values();
            Written::each(rows, nulls, |row, out| write_date(i64::from(days[row]), out))
        }
        DataType::Date64 => {
            let milliseconds = array.as_primitive::<Date64Type>().values();
            Written::each(rows, nulls, |row, out| {
                write_date_of_milliseconds(milliseconds[row], out);
            })
        }
        DataType::Timestamp(unit, zone) => {
            let counts = counts_of_timestamp(array, *unit);
            let (unit, has_zone) = (unit_of(*unit), zone.is_some());
            Written::each(rows, nulls, |row, out| {
                write_timestamp(counts[row], unit, has_zone, out);
            })
        }
        DataType::Time32(unit) | DataType::Time64(unit) => {
            let counts = counts_of_time(array)?;
            let unit = unit_of(*unit);
            Written::each(rows, nulls, |row, out| write_time(counts[row], unit, out))
        }
        DataType::Interval(unit) => intervals(array, *unit, nulls),
        other => return Err(format!("{other} is no type of dates or times")),
    })
}

fn counts_of_timestamp(array: &ArrayRef, unit: TimeUnit) -> ScalarBuffer<i64> {
    match unit {
        TimeUnit::Second => array.as_primitive::<TimestampSecondType>().values(),
        TimeUnit::Millisecond => array.as_primitive::<TimestampMillisecondType>().values(),
        TimeUnit::Microsecond => array.as_primitive::<TimestampMicrosecondType>().values(),
        TimeUnit::Nanosecond => array.as_primitive::<TimestampNanosecondType>().values(),
    }
    .clone()
}

/// The counts of durations in their unit.
pub(super) fn counts_of_duration(array: &ArrayRef, unit: TimeUnit) -> ScalarBuffer<i64> {
    match unit {
        TimeUnit::Second => array.as_primitive::<DurationSecondType>().values(),
        TimeUnit::Millisecond => array.as_primitive::<DurationMillisecondType>().values(),
        TimeUnit::Microsecond => array.as_primitive::<DurationMicrosecondType>().values(),
        TimeUnit::Nanosecond => array.as_primitive::<DurationNanosecondType>().values(),
    }
    .clone()
}

fn counts_of_time(array: &ArrayRef) -> Result<ScalarBuffer<i64>, String> {
    let widened = |narrow: &ScalarBuffer<i32>| {
        narrow.iter().map(|count| i64::from(*count)).collect::<Vec<i64>>().into()
    };
    Ok(match array.data_type() {
        DataType::Time32(TimeUnit::Second) => {
            widened(array.as_primitive::<Time32SecondType>().values())
        }
        DataType::Time32(TimeUnit::Millisecond) => {
            widened(array.as_primitive::<Time32MillisecondType>().values())
        }
        DataType::Time64(TimeUnit::Microsecond) => {
            array.as_primitive::<Time64MicrosecondType>().values().clone()
        }
        DataType::Time64(TimeUnit::Nanosecond) => {
            array.as_primitive::<Time64NanosecondType>().values().clone()
        }
        other => return Err(format!("Arrow has no type {other}")),
    })
}

fn intervals(array: &ArrayRef, unit: IntervalUnit, nulls: Option<&NullBuffer>) -> Written {
    let rows = array.len();
    match unit {
        IntervalUnit::YearMonth => {
            let months = array.as_primitive::<IntervalYearMonthType>().values();
            Written::each(rows, nulls, |row, out| write_interval(months[row], 0, 0, out))
        }
        IntervalUnit::DayTime => {
            let intervals = array.as_primitive::<IntervalDayTimeType>().values();
            Written::each(rows, nulls, |row, out| {
                let nanoseconds = i64::from(intervals[row].milliseconds) * 1_000_000;
                write_interval(0, intervals[row].days, nanoseconds, out);
            })
        }
        IntervalUnit::MonthDayNano => {
            let intervals = array.as_primitive::<IntervalMonthDayNanoType>().values();
            Written::each(rows, nulls, |row, out| {
                let interval = intervals[row];
                write_interval(interval.months, interval.days, interval.nanoseconds, out);
            })
        }
    }
}
