//! Random rows, which are equal after each format.

use std::path::Path;
use std::sync::Arc;

use arrow_array::builder::{ListBuilder, StringBuilder, StringDictionaryBuilder};
use arrow_array::types::Int32Type;
use arrow_array::{
    Array, ArrayRef, BinaryArray, BooleanArray, Decimal128Array, Float64Array, Int16Array,
    Int64Array, RecordBatch, StringArray, StructArray, TimestampMicrosecondArray, UInt64Array,
};
use arrow_ipc::CompressionType;
use arrow_ipc::writer::IpcWriteOptions;
use arrow_schema::Field;
use proptest::prelude::*;

use super::{Owned, batch_of, file_of, piped, read, stream_of};
use crate::input::kind::Kind;

/// Values of all columns of a row.
type Seed = (Option<i64>, Option<f64>, Option<String>, Option<bool>);

fn seeds() -> impl Strategy<Value = Vec<Seed>> {
    let text = proptest::option::of("\\PC{0,20}");
    let seed = (any::<Option<i64>>(), any::<Option<f64>>(), text, any::<Option<bool>>());
    proptest::collection::vec(seed, 1..60)
}

/// Columns of many types from the same seeds.
fn batch_from(seeds: &[Seed]) -> RecordBatch {
    let integers = || seeds.iter().map(|seed| seed.0);
    let texts = || seeds.iter().map(|seed| seed.2.as_deref());
    let mut dictionary = StringDictionaryBuilder::<Int32Type>::new();
    dictionary.extend(texts());
    let mut lists = ListBuilder::new(StringBuilder::new());
    for (index, (integer, _, text, _)) in seeds.iter().enumerate() {
        match integer {
            Some(_) => lists.append_value((0..index % 4).map(|_| text.as_deref())),
            None => lists.append_null(),
        }
    }
    let integer_array: ArrayRef = Arc::new(Int64Array::from_iter(integers()));
    let child = Arc::new(Field::new("child", integer_array.data_type().clone(), true));
    let valid = BooleanArray::from_iter(seeds.iter().map(|seed| seed.3)).nulls().cloned();
    let decimals = Decimal128Array::from_iter(integers().map(|integer| integer.map(i128::from)));
    batch_of(vec![
        Arc::clone(&integer_array),
        Arc::new(Int16Array::from_iter(integers().map(|integer| integer.map(|it| it as i16)))),
        Arc::new(UInt64Array::from_iter(integers().map(|integer| integer.map(|it| it as u64)))),
        Arc::new(Float64Array::from_iter(seeds.iter().map(|seed| seed.1))),
        Arc::new(StringArray::from_iter(texts())),
        Arc::new(BinaryArray::from_iter(texts().map(|text| text.map(str::as_bytes)))),
        Arc::new(BooleanArray::from_iter(seeds.iter().map(|seed| seed.3))),
        Arc::new(decimals.with_precision_and_scale(38, 7).unwrap()),
        Arc::new(TimestampMicrosecondArray::from_iter(integers()).with_timezone_utc()),
        Arc::new(dictionary.finish()),
        Arc::new(lists.finish()),
        Arc::new(StructArray::new(vec![child].into(), vec![integer_array], valid)),
    ])
}

/// Those columns whose values say themselves what they must be.
fn check_seeds(seeds: &[Seed], rows: &[Vec<Owned>]) {
    assert_eq!(rows.len(), seeds.len());
    for ((integer, real, text, flag), row) in seeds.iter().zip(rows) {
        let or_null = |value: Option<Owned>| value.unwrap_or(Owned::Null);
        assert_eq!(row[0], or_null(integer.map(Owned::Integer)));
        assert_eq!(row[1], or_null(integer.map(|it| Owned::Integer(i64::from(it as i16)))));
        let unsigned = |integer: i64| match integer {
            0.. => Owned::Integer(integer),
            _ => Owned::Text((integer as u64).to_string()),
        };
        assert_eq!(row[2], or_null(integer.map(unsigned)));
        let real = real.filter(|real| !real.is_nan());
        assert_eq!(row[3], or_null(real.map(|real| Owned::Real(real.to_bits()))));
        assert_eq!(row[4], or_null(text.clone().map(Owned::Text)));
        assert_eq!(row[5], or_null(text.clone().map(|text| Owned::Blob(text.into_bytes()))));
        assert_eq!(row[6], or_null(flag.map(|flag| Owned::Integer(i64::from(flag)))));
        assert_eq!(row[9], row[4], "the dictionary");
        let child = integer.map_or_else(|| "null".to_owned(), |integer| integer.to_string());
        let object = Owned::Text(format!("{{\"child\":{child}}}"));
        assert_eq!(row[11], or_null(flag.map(|_| object)));
    }
}

fn compressed(kind: CompressionType) -> IpcWriteOptions {
    IpcWriteOptions::default().try_with_compression(Some(kind)).unwrap()
}

#[cfg(feature = "parquet")]
fn parquet_of(batches: &[RecordBatch], group_rows: usize) -> Vec<u8> {
    use parquet::basic::Compression;
    use parquet::file::properties::WriterProperties;
    let properties = WriterProperties::builder()
        .set_max_row_group_row_count(Some(group_rows))
        .set_data_page_row_count_limit(7)
        .set_write_batch_size(3)
        .set_compression(Compression::SNAPPY)
        .build();
    let schema = batches[0].schema();
    let mut writer =
        parquet::arrow::ArrowWriter::try_new(Vec::new(), schema, Some(properties)).unwrap();
    batches.iter().for_each(|batch| writer.write(batch).unwrap());
    writer.into_inner().unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn every_format_gives_the_same_rows(seeds in seeds(), cut in 0.0..1.0_f64, group_rows in 1..70_usize) {
        let whole = batch_from(&seeds);
        let cut = (cut * seeds.len() as f64) as usize;
        // Slices, so that arrays begin and end within their buffers.
        let batches = [whole.slice(0, cut), whole.slice(cut, seeds.len() - cut)];
        let schema = whole.schema();
        let reader = arrow_array::RecordBatchIterator::new(batches.clone().map(Ok), schema);
        let (rows, _) = read(&mut super::ArrowSource::once("rows", Box::new(reader), Path::new("."), false)).unwrap();
        check_seeds(&seeds, &rows);
        for options in [
            IpcWriteOptions::default(),
            compressed(CompressionType::LZ4_FRAME),
            compressed(CompressionType::ZSTD),
        ] {
            let stream = piped(stream_of(&batches, options.clone()), Kind::ArrowStream);
            prop_assert_eq!(&read(&mut stream.unwrap()).unwrap().0, &rows);
            // The dictionary of a file is that of all its batches.
            let file = piped(file_of(std::slice::from_ref(&whole), options), Kind::ArrowFile);
            prop_assert_eq!(&read(&mut file.unwrap()).unwrap().0, &rows);
        }
        #[cfg(feature = "parquet")]
        {
            let parquet = piped(parquet_of(&batches, group_rows), Kind::Parquet);
            prop_assert_eq!(&read(&mut parquet.unwrap()).unwrap().0, &rows);
        }
        let _ = group_rows;
    }
}
