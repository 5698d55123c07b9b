//! Values that each of Arrow's types becomes, through an Arrow stream and, where the format has the
//! type, through Parquet.

use std::path::Path;
use std::sync::Arc;

use arrow_array::builder::{
    Int32Builder, ListBuilder, ListViewBuilder, MapBuilder, StringBuilder, StringDictionaryBuilder,
    StringRunBuilder,
};
use arrow_array::types::{Int8Type, Int16Type, Int32Type};
use arrow_array::{
    Array, ArrayRef, BinaryArray, BinaryViewArray, BooleanArray, Date32Array, Date64Array,
    Decimal32Array, Decimal64Array, Decimal128Array, Decimal256Array, DictionaryArray,
    DurationMillisecondArray, FixedSizeBinaryArray, FixedSizeListArray, Float16Array, Float32Array,
    Float64Array, Int8Array, Int16Array, Int32Array, Int64Array, IntervalDayTimeArray,
    IntervalMonthDayNanoArray, IntervalYearMonthArray, LargeBinaryArray, LargeListArray,
    LargeStringArray, NullArray, RecordBatch, StringArray, StringViewArray, StructArray,
    Time32MillisecondArray, Time32SecondArray, Time64MicrosecondArray, Time64NanosecondArray,
    TimestampMicrosecondArray, TimestampMillisecondArray, TimestampNanosecondArray,
    TimestampSecondArray, UInt8Array, UInt16Array, UInt32Array, UInt64Array, UnionArray,
};
use arrow_buffer::{IntervalDayTime, IntervalMonthDayNano, ScalarBuffer, i256};
use arrow_ipc::writer::IpcWriteOptions;
use arrow_schema::{DataType, Field, Schema, UnionFields};

use super::{Owned, batch_of, piped, read, stream_of, text};
use crate::input::kind::Kind;
use crate::input::rows::{RowSource, SourceType};

const INTEGER: Option<SourceType> = Some(SourceType::Integer);
const REAL: Option<SourceType> = Some(SourceType::Real);
const TEXT: Option<SourceType> = Some(SourceType::Text);
const BLOB: Option<SourceType> = Some(SourceType::Blob);

fn real(real: f64) -> Owned {
    Owned::Real(real.to_bits())
}

/// An array reads as these values: by itself, as a slice, and in a stream.
#[track_caller]
fn expect(array: impl Array + 'static, declared: Option<SourceType>, expected: &[Owned]) {
    let array: ArrayRef = Arc::new(array);
    let data_type = array.data_type().clone();
    let batch = batch_of(vec![array]);
    let bytes = stream_of(std::slice::from_ref(&batch), IpcWriteOptions::default());
    let mut source = piped(bytes, Kind::ArrowStream).unwrap();
    assert_eq!(source.columns()[0].declared, declared, "{data_type}");
    assert_eq!(column(&read(&mut source).unwrap().0), expected, "{data_type}, streamed");
    for start in 0..expected.len() {
        let slice = batch.slice(start, expected.len() - start);
        let from_batches = column(&read_batches(vec![slice]));
        assert_eq!(from_batches, expected[start..], "{data_type} from row {start}");
    }
    #[cfg(feature = "parquet")]
    if let Some(bytes) = parquet_of(&batch) {
        let mut source = piped(bytes, Kind::Parquet).unwrap();
        assert_eq!(source.columns()[0].declared, declared, "{data_type}");
        assert_eq!(column(&read(&mut source).unwrap().0), expected, "{data_type}, in Parquet");
    }
}

/// The batch as a Parquet file; `None` where the format has no such type.
#[cfg(feature = "parquet")]
fn parquet_of(batch: &RecordBatch) -> Option<Vec<u8>> {
    // Asking for these would be a panic of the writer, not an error.
    let is_union = |data_type: &DataType| matches!(data_type, DataType::Union(..));
    if batch.schema().fields().iter().any(|field| is_union(field.data_type())) {
        return None;
    }
    let mut writer = parquet::arrow::ArrowWriter::try_new(Vec::new(), batch.schema(), None).ok()?;
    writer.write(batch).ok()?;
    writer.into_inner().ok()
}

fn column(rows: &[Vec<Owned>]) -> Vec<Owned> {
    rows.iter().map(|row| row[0].clone()).collect()
}

fn read_batches(batches: Vec<RecordBatch>) -> Vec<Vec<Owned>> {
    let schema = batches[0].schema();
    let reader = arrow_array::RecordBatchIterator::new(batches.into_iter().map(Ok), schema);
    read(&mut super::ArrowSource::once("batches", Box::new(reader), Path::new("."), false))
        .unwrap()
        .0
}

#[test]
fn integers() {
    use Owned::{Integer, Null};
    let expected = [Integer(1), Null, Integer(-128)];
    expect(Int8Array::from(vec![Some(1), None, Some(-128)]), INTEGER, &expected);
    let expected = [Integer(1), Null, Integer(-32768)];
    expect(Int16Array::from(vec![Some(1), None, Some(-32768)]), INTEGER, &expected);
    let expected = [Integer(1), Null, Integer(i64::from(i32::MIN))];
    expect(Int32Array::from(vec![Some(1), None, Some(i32::MIN)]), INTEGER, &expected);
    let expected = [Integer(i64::MAX), Null, Integer(i64::MIN)];
    expect(Int64Array::from(vec![Some(i64::MAX), None, Some(i64::MIN)]), INTEGER, &expected);
    expect(UInt8Array::from(vec![Some(255), None]), INTEGER, &[Integer(255), Null]);
    expect(UInt16Array::from(vec![Some(65535), None]), INTEGER, &[Integer(65535), Null]);
    let expected = [Integer(4_294_967_295), Null];
    expect(UInt32Array::from(vec![Some(u32::MAX), None]), INTEGER, &expected);
    let expected = [Integer(1), Integer(0), Null];
    expect(BooleanArray::from(vec![Some(true), Some(false), None]), INTEGER, &expected);
    let expected = [Integer(1500), Null];
    expect(DurationMillisecondArray::from(vec![Some(1500), None]), INTEGER, &expected);
}

#[test]
fn unsigned_integers_beyond_64_bits_are_text() {
    use Owned::{Integer, Null};
    let fits = UInt64Array::from(vec![Some(i64::MAX as u64), None, Some(0)]);
    expect(fits, None, &[Integer(i64::MAX), Null, Integer(0)]);
    let does_not = UInt64Array::from(vec![Some(i64::MAX as u64 + 1), None, Some(7)]);
    expect(does_not, None, &[text("9223372036854775808"), Null, Integer(7)]);
    let largest = UInt64Array::from(vec![u64::MAX]);
    expect(largest, None, &[text("18446744073709551615")]);
}

#[test]
fn reals() {
    let half = |value: f32| half_of(value);
    let expected = [real(0.5), Owned::Null, real(65504.0)];
    expect(Float16Array::from(vec![Some(half(0.5)), None, Some(half(65504.0))]), REAL, &expected);
    let expected = [real(f64::from(0.1_f32)), Owned::Null, real(f64::NEG_INFINITY)];
    let array = Float32Array::from(vec![Some(0.1), Some(f32::NAN), Some(f32::NEG_INFINITY)]);
    expect(array, REAL, &expected);
    let expected = [real(0.1), Owned::Null, Owned::Null, real(-0.0)];
    let array = Float64Array::from(vec![Some(0.1), None, Some(f64::NAN), Some(-0.0)]);
    expect(array, REAL, &expected);
}

fn half_of(
    value: f32,
) -> <arrow_array::types::Float16Type as arrow_array::ArrowPrimitiveType>::Native {
    use arrow_array::types::{ArrowPrimitiveType, Float16Type};
    <Float16Type as ArrowPrimitiveType>::Native::from_f32(value)
}

#[test]
fn texts_and_blobs() {
    let texts = vec![Some("a"), None, Some(""), Some("longer than twelve bytes: ünï")];
    let expected = [text("a"), Owned::Null, text(""), text("longer than twelve bytes: ünï")];
    expect(StringArray::from(texts.clone()), TEXT, &expected);
    expect(LargeStringArray::from(texts.clone()), TEXT, &expected);
    expect(StringViewArray::from(texts), TEXT, &expected);
    let long = [7; 40];
    let blobs: Vec<Option<&[u8]>> = vec![Some(b"\xff\0"), None, Some(b""), Some(&long)];
    let blob = |bytes: &[u8]| Owned::Blob(bytes.to_vec());
    let expected = [blob(b"\xff\0"), Owned::Null, blob(b""), blob(&long)];
    expect(BinaryArray::from(blobs.clone()), BLOB, &expected);
    expect(LargeBinaryArray::from(blobs.clone()), BLOB, &expected);
    expect(BinaryViewArray::from(blobs), BLOB, &expected);
    let fixed = [Some([1_u8; 16]), None, Some([255; 16])];
    let fixed = FixedSizeBinaryArray::try_from_sparse_iter_with_size(fixed.into_iter(), 16);
    expect(fixed.unwrap(), BLOB, &[blob(&[1; 16]), Owned::Null, blob(&[255; 16])]);
}

#[test]
fn decimals() {
    use Owned::{Integer, Null};
    let array = Decimal128Array::from(vec![Some(12_345), None, Some(-5)]);
    let scaled = array.clone().with_precision_and_scale(10, 2).unwrap();
    expect(scaled, TEXT, &[text("123.45"), Null, text("-0.05")]);
    let whole = array.clone().with_precision_and_scale(18, 0).unwrap();
    expect(whole, INTEGER, &[Integer(12_345), Null, Integer(-5)]);
    let wide = Decimal128Array::from(vec![Some(10_i128.pow(30)), None, Some(-7)]);
    let wide = wide.with_precision_and_scale(38, 0).unwrap();
    expect(wide, None, &[text(&format!("1{}", "0".repeat(30))), Null, Integer(-7)]);
    let largest = Decimal256Array::from(vec![Some(i256::from_string(&"9".repeat(76)).unwrap())]);
    let largest = largest.with_precision_and_scale(76, 38).unwrap();
    expect(largest, TEXT, &[text(&format!("{}.{}", "9".repeat(38), "9".repeat(38)))]);
    let small = Decimal32Array::from(vec![Some(-1)]).with_precision_and_scale(9, 9).unwrap();
    expect(small, TEXT, &[text("-0.000000001")]);
    let small = Decimal64Array::from(vec![Some(15)]).with_precision_and_scale(18, 1).unwrap();
    expect(small, TEXT, &[text("1.5")]);
}

#[test]
fn dates_and_times() {
    use Owned::Null;
    expect(Date32Array::from(vec![Some(20_778), None]), TEXT, &[text("2026-11-21"), Null]);
    expect(Date64Array::from(vec![Some(86_400_000), None]), TEXT, &[text("1970-01-02"), Null]);
    expect(Time32SecondArray::from(vec![Some(61), None]), TEXT, &[text("00:01:01"), Null]);
    expect(Time32MillisecondArray::from(vec![61_500]), TEXT, &[text("00:01:01.500")]);
    expect(Time64MicrosecondArray::from(vec![61_000_001]), TEXT, &[text("00:01:01.000001")]);
    expect(Time64NanosecondArray::from(vec![1]), TEXT, &[text("00:00:00.000000001")]);
    let seconds = TimestampSecondArray::from(vec![Some(1_795_239_000), None]);
    expect(seconds.clone(), TEXT, &[text("2026-11-21 05:30:00"), Null]);
    let in_berlin = seconds.with_timezone("Europe/Berlin");
    expect(in_berlin, TEXT, &[text("2026-11-21 05:30:00+00:00"), Null]);
    expect(TimestampMillisecondArray::from(vec![-1]), TEXT, &[text("1969-12-31 23:59:59.999")]);
    let microseconds = TimestampMicrosecondArray::from(vec![i64::MIN, i64::MAX]);
    let expected = [text("-290308-12-21 19:59:05.224192"), text("+294247-01-10 04:00:54.775807")];
    expect(microseconds, TEXT, &expected);
    let nanoseconds = TimestampNanosecondArray::from(vec![1]).with_timezone_utc();
    expect(nanoseconds, TEXT, &[text("1970-01-01 00:00:00.000000001+00:00")]);
}

#[test]
fn intervals() {
    expect(IntervalYearMonthArray::from(vec![14]), TEXT, &[text("P1Y2M")]);
    let interval = IntervalDayTime::new(-1, 250);
    expect(IntervalDayTimeArray::from(vec![interval]), TEXT, &[text("P-1DT0.250S")]);
    let interval = IntervalMonthDayNano::new(1, 2, -500);
    let expected = [text("P1M2DT-0.000000500S")];
    expect(IntervalMonthDayNanoArray::from(vec![interval]), TEXT, &expected);
}

#[test]
fn nothing_but_nulls() {
    expect(NullArray::new(2), None, &[Owned::Null, Owned::Null]);
}

#[test]
fn dictionaries_and_runs_read_as_their_values() {
    let mut builder = StringDictionaryBuilder::<Int8Type>::new();
    builder.append("x").unwrap();
    builder.append_null();
    builder.append("y").unwrap();
    builder.append("x").unwrap();
    let expected = [text("x"), Owned::Null, text("y"), text("x")];
    expect(builder.finish(), TEXT, &expected);
    let keys = Int16Array::from(vec![Some(1), None, Some(0), Some(2)]);
    let values = TimestampSecondArray::from(vec![Some(0), Some(1), None]);
    let array = DictionaryArray::<Int16Type>::try_new(keys, Arc::new(values)).unwrap();
    let expected =
        [text("1970-01-01 00:00:01"), Owned::Null, text("1970-01-01 00:00:00"), Owned::Null];
    expect(array, TEXT, &expected);
    let all_null = DictionaryArray::<Int32Type>::try_new(
        Int32Array::from(vec![None, None]),
        Arc::new(Int64Array::from(Vec::<i64>::new())),
    );
    expect(all_null.unwrap(), INTEGER, &[Owned::Null, Owned::Null]);
    let mut builder = StringRunBuilder::<Int32Type>::new();
    ["a", "a", "b"].iter().for_each(|value| builder.append_value(value));
    builder.append_null();
    builder.append_value("b");
    expect(builder.finish(), TEXT, &[text("a"), text("a"), text("b"), Owned::Null, text("b")]);
}

#[test]
fn lists_are_json() {
    let mut builder = ListBuilder::new(Int32Builder::new());
    builder.append_value([Some(1), None, Some(3)]);
    builder.append_null();
    builder.append_value([]);
    let lists = builder.finish();
    let expected = [text("[1,null,3]"), Owned::Null, text("[]")];
    expect(lists, TEXT, &expected);
    let lists = vec![Some(vec![Some(1), None, Some(3)]), None, Some(vec![])];
    expect(LargeListArray::from_iter_primitive::<Int32Type, _, _>(lists), TEXT, &expected);
    let pairs = vec![Some(vec![Some(1), None]), None, Some(vec![Some(5), Some(6)])];
    let pairs = FixedSizeListArray::from_iter_primitive::<Int32Type, _, _>(pairs, 2);
    expect(pairs, TEXT, &[text("[1,null]"), Owned::Null, text("[5,6]")]);
    let mut builder = ListViewBuilder::new(StringBuilder::new());
    builder.append_value([Some("a\"b\\c\n\u{1}ü")]);
    builder.append_null();
    expect(builder.finish(), TEXT, &[text(r#"["a\"b\\c\n\u0001ü"]"#), Owned::Null]);
}

#[test]
fn structs_maps_and_unions_are_json() {
    let decimals = Decimal128Array::from(vec![1250]).with_precision_and_scale(38, 2).unwrap();
    let children: Vec<(&str, ArrayRef)> = vec![
        ("flag", Arc::new(BooleanArray::from(vec![true]))),
        ("real", Arc::new(Float64Array::from(vec![f64::INFINITY]))),
        ("no", Arc::new(Float64Array::from(vec![f64::NAN]))),
        ("exact", Arc::new(decimals)),
        ("day", Arc::new(Date32Array::from(vec![0]))),
        ("bytes", Arc::new(BinaryArray::from(vec![b"\x00\xff".as_slice()]))),
        ("wide", Arc::new(UInt64Array::from(vec![u64::MAX]))),
    ];
    let fields = children
        .iter()
        .map(|(name, array)| Arc::new(Field::new(*name, array.data_type().clone(), true)));
    let arrays = children.iter().map(|(_, array)| Arc::clone(array)).collect();
    let expected = concat!(
        r#"{"flag":true,"real":9e999,"no":null,"exact":12.50,"day":"1970-01-01","#,
        r#""bytes":"00ff","wide":18446744073709551615}"#
    );
    expect(StructArray::new(fields.collect(), arrays, None), TEXT, &[text(expected)]);

    let mut builder = MapBuilder::new(None, Int32Builder::new(), StringBuilder::new());
    builder.keys().append_value(1);
    builder.values().append_value("one");
    builder.keys().append_value(2);
    builder.values().append_null();
    builder.append(true).unwrap();
    builder.append(false).unwrap();
    expect(builder.finish(), TEXT, &[text(r#"{"1":"one","2":null}"#), Owned::Null]);
}

#[test]
fn unions_are_json_of_the_chosen_value() {
    let fields = UnionFields::from_fields(vec![
        Field::new("number", DataType::Int32, true),
        Field::new("word", DataType::Utf8, true),
    ]);
    let types = ScalarBuffer::from(vec![0_i8, 1, 0]);
    let words = StringArray::from(vec![Some("w")]);
    let children: Vec<ArrayRef> =
        vec![Arc::new(Int32Array::from(vec![Some(5), None])), Arc::new(words)];
    let offsets = ScalarBuffer::from(vec![0_i32, 0, 1]);
    let dense = UnionArray::try_new(fields.clone(), types.clone(), Some(offsets), children);
    let expected = [text("5"), text("\"w\""), text("null")];
    expect(dense.unwrap(), TEXT, &expected);
    let children: Vec<ArrayRef> = vec![
        Arc::new(Int32Array::from(vec![Some(5), None, None])),
        Arc::new(StringArray::from(vec![None, Some("w"), None])),
    ];
    let sparse = UnionArray::try_new(fields, types, None, children);
    expect(sparse.unwrap(), TEXT, &expected);
}

/// As in CSV and JSON.
#[test]
fn names_become_those_of_one_table() {
    let column = || Arc::new(Int64Array::from(vec![1])) as ArrayRef;
    let names = ["a", "A", "", "x\0", "a"];
    let fields: Vec<_> =
        names.iter().map(|name| Field::new(*name, DataType::Int64, true)).collect();
    let columns = names.iter().map(|_| column()).collect();
    let batch = RecordBatch::try_new(Arc::new(Schema::new(fields)), columns).unwrap();
    let stream = stream_of(&[batch], IpcWriteOptions::default());
    let source = piped(stream, Kind::ArrowStream).unwrap();
    let found: Vec<&str> = source.columns().iter().map(|it| it.name.name.as_str()).collect();
    assert_eq!(found, ["a", "A_2", "column3", "x", "a_3"]);
    assert_eq!(source.notes().len(), 4, "{:?}", source.notes());
}
