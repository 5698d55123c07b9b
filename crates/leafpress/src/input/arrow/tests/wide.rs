//! Parquet's timestamps of 96 bits, and its intervals, as another program writes them.

use std::sync::Arc;

use parquet::data_type::{ByteArray, FixedLenByteArray, FixedLenByteArrayType, Int96, Int96Type};
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::parser::parse_message_type;

use super::{Owned, read, stored, text};

const SCHEMA: &str = "message m {
  optional int96 at;
  repeated int96 all;
  required fixed_len_byte_array(12) span (INTERVAL);
}";

/// Number of the day 1970-01-01.
const JULIAN_DAY_OF_EPOCH: i64 = 2_440_588;

fn timestamp(day: i64, nanoseconds: u64) -> Int96 {
    let mut value = Int96::new();
    let (high, low) = ((nanoseconds >> 32) as u32, nanoseconds as u32);
    value.set_data(low, high, u32::try_from(day + JULIAN_DAY_OF_EPOCH).expect("a day"));
    value
}

fn span(months: u32, days: u32, milliseconds: u32) -> FixedLenByteArray {
    let bytes = [months, days, milliseconds].map(u32::to_le_bytes).concat();
    ByteArray::from(bytes).into()
}

/// A file with a row for each timestamp, which is NULL in one more row.
fn file(timestamps: &[Int96], spans: &[FixedLenByteArray]) -> Vec<u8> {
    let schema = Arc::new(parse_message_type(SCHEMA).expect("a schema"));
    let properties = Arc::new(WriterProperties::builder().build());
    let mut writer = SerializedFileWriter::new(Vec::new(), schema, properties).expect("a writer");
    let mut group = writer.next_row_group().expect("a row group");
    let rows = timestamps.len();
    let mut column = group.next_column().expect("a column").expect("at");
    let is_there: Vec<i16> = std::iter::repeat_n(1, rows).chain([0]).collect();
    column.typed::<Int96Type>().write_batch(timestamps, Some(&is_there), None).expect("values");
    column.close().expect("it closes");
    // The first row has all of them.
    let mut column = group.next_column().expect("a column").expect("all");
    let repeats: Vec<i16> = (0..rows).map(|at| i16::from(at > 0)).chain(vec![0; rows]).collect();
    let is_there: Vec<i16> = (0..2 * rows).map(|at| i16::from(at < rows)).collect();
    let all = column.typed::<Int96Type>();
    all.write_batch(timestamps, Some(&is_there), Some(&repeats)).expect("values");
    column.close().expect("it closes");
    let mut column = group.next_column().expect("a column").expect("span");
    column.typed::<FixedLenByteArrayType>().write_batch(spans, None, None).expect("values");
    column.close().expect("it closes");
    group.close().expect("it closes");
    writer.into_inner().expect("a file")
}

fn rows_of(bytes: &[u8]) -> crate::Result<Vec<Vec<Owned>>> {
    let file = stored(bytes);
    let mut source = file.open()?;
    read(&mut source).map(|(rows, _)| rows)
}

#[test]
fn timestamps_of_any_year_and_all_of_an_interval() {
    const DAY: i64 = 2_932_896;
    let timestamps =
        [timestamp(DAY, 0), timestamp(0, 1_000), timestamp(-200_000, 3_600_000_000_000)];
    let spans = [span(14, 0, 0), span(1, 2, 0), span(0, 0, 3_000_000_000), span(0, 0, 0)];
    let rows = rows_of(&file(&timestamps, &spans)).expect("rows");
    let all = r#"["9999-12-31 00:00:00","1970-01-01 00:00:00.000001","1422-06-03 01:00:00"]"#;
    assert_eq!(
        rows,
        [
            vec![text("9999-12-31 00:00:00"), text(all), text("P1Y2M")],
            vec![text("1970-01-01 00:00:00.000001"), text("[]"), text("P1M2D")],
            vec![text("1422-06-03 01:00:00"), text("[]"), text("PT3000000S")],
            vec![Owned::Null, text("[]"), text("PT0S")],
        ]
    );
}

#[test]
fn nanoseconds_stay_unless_they_stand_beside_years_that_have_none() {
    let spans = [span(0, 0, 0), span(0, 0, 0)];
    let rows = rows_of(&file(&[timestamp(1, 1)], &spans)).expect("rows");
    assert_eq!(rows[0][0], text("1970-01-02 00:00:00.000000001"));
    let spans = [span(0, 0, 0), span(0, 0, 0), span(0, 0, 0)];
    let error = rows_of(&file(&[timestamp(1, 1), timestamp(2_932_896, 0)], &spans));
    let error = error.expect_err("no type holds both").to_string();
    assert!(error.contains("before 1677 or after 2262"), "{error}");
}
