//! Pieces: small batches joined, large ones and row groups cut; passes.

use std::path::Path;
use std::sync::Arc;

use arrow_array::{Int64Array, RecordBatch, RecordBatchIterator, StringArray};
use arrow_ipc::CompressionType;
use arrow_ipc::writer::IpcWriteOptions;

use super::{ArrowSource, Owned, batch_of, file_of, piped, read, stored, stream_of};
use crate::input::arrow::Batched;
use crate::input::kind::Kind;
use crate::input::rows::RowSource;

fn numbers(start: i64, end: i64) -> RecordBatch {
    batch_of(vec![Arc::new(Int64Array::from_iter_values(start..end))])
}

fn expected(end: i64) -> Vec<Vec<Owned>> {
    (0..end).map(|number| vec![Owned::Integer(number)]).collect()
}

/// Sizes of batches, and how many pieces they make.
const SIZES: [(&[i64], usize); 6] = [
    (&[0], 0),
    (&[1, 0, 2], 1),
    (&[10_000, 10_000, 10_000, 1], 2),
    (&[5, 100_000, 5], 3),
    (&[300_000], 3),
    (&[131_071, 131_072, 1], 4),
];

fn batches(sizes: &[i64]) -> (Vec<RecordBatch>, i64) {
    let mut end = 0;
    let batch = |size: &i64| {
        end += size;
        numbers(end - size, end)
    };
    let batches = sizes.iter().map(batch).collect();
    (batches, end)
}

#[test]
fn batches_of_any_size_come_in_pieces() {
    for (sizes, pieces) in SIZES {
        let (batches, end) = batches(sizes);
        let wanted = (expected(end), pieces);
        let options = IpcWriteOptions::default;
        let stream = stream_of(&batches, options());
        assert!(read(&mut piped(stream, Kind::ArrowStream).unwrap()).unwrap() == wanted);
        let file = stored(&file_of(&batches, options()));
        assert!(read(&mut file.open().unwrap()).unwrap() == wanted, "{sizes:?}");
        let schema = batches[0].schema();
        let reader = RecordBatchIterator::new(batches.into_iter().map(Ok), schema);
        assert!(
            read(&mut ArrowSource::once("rows", Box::new(reader), Path::new("."), false)).unwrap()
                == wanted
        );
    }
}

/// Columns without NULLs have a buffer of no bytes, not even of its size.
#[test]
fn packed_batches_read_as_plain_ones() {
    let numbers = numbers(0, 100_000);
    let same = Arc::new(Int64Array::from_iter_values(std::iter::repeat_n(7, 100_000)));
    let batch = batch_of(vec![same, Arc::clone(numbers.column(0))]);
    for kind in [CompressionType::LZ4_FRAME, CompressionType::ZSTD] {
        let options = IpcWriteOptions::default().try_with_compression(Some(kind)).unwrap();
        let stream = stream_of(std::slice::from_ref(&batch), options);
        let (rows, _) = read(&mut piped(stream, Kind::ArrowStream).unwrap()).unwrap();
        let wanted = (0..100_000).map(|row| vec![Owned::Integer(7), Owned::Integer(row)]);
        assert!(rows.into_iter().eq(wanted), "{kind:?}");
    }
}

#[test]
fn a_second_pass_reads_the_same() {
    let batch = numbers(0, 40_000);
    let options = IpcWriteOptions::default;
    let stream = stream_of(std::slice::from_ref(&batch), options());
    let file = file_of(std::slice::from_ref(&batch), options());
    let at_rest = stored(&stream);
    let sources = [
        piped(stream, Kind::ArrowStream).unwrap(),
        piped(file.clone(), Kind::ArrowFile).unwrap(),
        at_rest.open().unwrap(),
        stored(&file).open().unwrap(),
    ];
    for mut source in sources {
        assert!(read(&mut source).unwrap() == read(&mut source).unwrap());
    }
}

#[test]
fn a_reader_of_batches_is_read_once() {
    let batch = numbers(0, 3);
    let reader = RecordBatchIterator::new([Ok(batch.clone())], batch.schema());
    let mut source = ArrowSource::once("rows", Box::new(reader), Path::new("."), false);
    assert_eq!(read(&mut source).unwrap().0, expected(3));
    let error = read(&mut source).unwrap_err();
    assert!(error.to_string().starts_with("rows: cannot be read a second time"), "{error}");
}

#[test]
fn a_reader_that_is_copied_is_read_again() {
    let folder = tempfile::tempdir().unwrap();
    let (batches, end) = batches(&[3, 50_000, 1, 20_000]);
    let schema = batches[0].schema();
    let reader = RecordBatchIterator::new(batches.into_iter().map(Ok), schema);
    let mut source = ArrowSource::once("rows", Box::new(reader), folder.path(), true);
    assert!(source.is_stream() && source.opens_again());
    for _ in 0..3 {
        assert!(read(&mut source).unwrap().0 == expected(end));
    }
    // On Windows it has a name, and goes when it is closed.
    let names = std::fs::read_dir(folder.path()).unwrap().count();
    assert_eq!(names, usize::from(cfg!(windows)), "it has no name");
}

#[test]
fn a_copy_that_is_not_whole_is_not_read() {
    let batch = numbers(0, 3);
    let reader = RecordBatchIterator::new([Ok(batch.clone())], batch.schema());
    let folder = tempfile::tempdir().unwrap();
    let mut source = ArrowSource::once("rows", Box::new(reader), folder.path(), true);
    drop(source.open(&Arc::default()).unwrap());
    let error = read(&mut source).unwrap_err();
    assert!(error.to_string().starts_with("rows: cannot be read a second time"), "{error}");
}

#[test]
fn batches_that_can_be_had_anew_are_not_copied() {
    let mut times = 0;
    {
        let open = Box::new(|| {
            times += 1;
            let batch = numbers(0, 3);
            let rows = if times < 3 {
                batch
            } else {
                batch_of(vec![
                    Arc::new(Int64Array::from(vec![1])),
                    Arc::new(Int64Array::from(vec![1])),
                ])
            };
            let schema = rows.schema();
            Ok(Box::new(RecordBatchIterator::new([Ok(rows)], schema)) as Batched<'_>)
        });
        let mut source = ArrowSource::again("rows", open).unwrap();
        assert_eq!(read(&mut source).unwrap().0, expected(3));
        assert_eq!(read(&mut source).unwrap().0, expected(3));
        let changed = read(&mut source).unwrap_err();
        assert!(changed.to_string().contains("has changed"), "{changed}");
    }
    assert_eq!(times, 3);
}

#[test]
fn an_error_of_a_reader_names_the_batch() {
    let batch = numbers(0, 3);
    let failed = arrow_schema::ArrowError::ComputeError("no more".to_owned());
    let reader = RecordBatchIterator::new([Ok(batch.clone()), Err(failed)], batch.schema());
    let error =
        read(&mut ArrowSource::once("rows", Box::new(reader), Path::new("."), false)).unwrap_err();
    assert_eq!(error.to_string(), "rows: record batch 2 cannot be read: Compute error: no more");
}

#[test]
fn a_file_that_changes_between_passes_is_refused() {
    let file = stored(&file_of(&[numbers(0, 3)], IpcWriteOptions::default()));
    let mut source = file.open().unwrap();
    read(&mut source).unwrap();
    std::fs::OpenOptions::new().append(true).open(&file.path).unwrap().set_len(9).unwrap();
    let error = source.open(&Arc::default()).err().expect("a refusal");
    assert!(error.to_string().contains("has changed while it was read"), "{error}");
}

#[cfg(feature = "parquet")]
mod parquet {
    use ::parquet::arrow::ArrowWriter;
    use ::parquet::basic::{BrotliLevel, Compression, GzipLevel, ZstdLevel};
    use ::parquet::file::properties::WriterProperties;
    use arrow_array::StringArray;

    use super::*;

    fn parquet_of(batch: &RecordBatch, properties: WriterProperties) -> Vec<u8> {
        let mut writer =
            ArrowWriter::try_new(Vec::new(), batch.schema(), Some(properties)).unwrap();
        writer.write(batch).unwrap();
        writer.into_inner().unwrap()
    }

    #[test]
    fn row_groups_are_cut_where_they_are_large() {
        let batch = numbers(0, 300_000);
        for (group_rows, pieces) in [(300_000, 3), (100_000, 3), (7_000, 43)] {
            let properties =
                WriterProperties::builder().set_max_row_group_row_count(Some(group_rows));
            let file = stored(&parquet_of(&batch, properties.build()));
            let wanted = (expected(300_000), pieces);
            let mut source = file.open().unwrap();
            assert!(read(&mut source).unwrap() == wanted, "{group_rows}");
            assert!(read(&mut source).unwrap() == wanted, "{group_rows}, again");
        }
    }

    #[test]
    fn every_compression_reads_the_same() {
        let names = StringArray::from_iter_values((0..5_000).map(|row| format!("name {row}")));
        let few = StringArray::from_iter_values((0..5_000).map(|row| format!("group {}", row % 7)));
        let batch = batch_of(vec![Arc::new(names), Arc::new(few)]);
        let plain = parquet_of(&batch, WriterProperties::builder().build());
        let expected = read(&mut stored(&plain).open().unwrap()).unwrap();
        assert_eq!(expected.0.len(), 5_000);
        assert_eq!(expected.0[8], [super::super::text("name 8"), super::super::text("group 1")]);
        let compressions = [
            Compression::SNAPPY,
            Compression::GZIP(GzipLevel::default()),
            Compression::BROTLI(BrotliLevel::default()),
            Compression::ZSTD(ZstdLevel::default()),
            Compression::LZ4,
            Compression::LZ4_RAW,
        ];
        for compression in compressions {
            let properties = WriterProperties::builder().set_compression(compression).build();
            let file = stored(&parquet_of(&batch, properties));
            assert!(read(&mut file.open().unwrap()).unwrap() == expected, "{compression}");
        }
    }

    #[test]
    fn parquet_may_come_packed_or_through_a_pipe() {
        let plain = parquet_of(&numbers(0, 1_000), WriterProperties::builder().build());
        let packed = zstd::encode_all(plain.as_slice(), 1).unwrap();
        for bytes in [plain, packed] {
            let mut from_pipe = piped(bytes.clone(), Kind::Parquet).unwrap();
            assert_eq!(read(&mut from_pipe).unwrap().0, expected(1_000));
            let mut from_file = stored(&bytes).open().unwrap();
            assert_eq!(read(&mut from_file).unwrap().0, expected(1_000));
        }
    }
}

#[test]
fn a_damaged_batch_has_its_number_behind_empty_ones() {
    let text = |text: &[&str]| batch_of(vec![Arc::new(StringArray::from(text.to_vec()))]);
    let batches = [text(&["one"]), text(&[]), text(&["a text that is none"])];
    let mut bytes = stream_of(&batches, IpcWriteOptions::default());
    let at = bytes.windows(6).position(|window| window == b"a text").unwrap();
    bytes[at] = 0xff;
    let error = read(&mut piped(bytes, Kind::ArrowStream).unwrap()).unwrap_err().to_string();
    assert!(error.contains("record batch 3 is damaged"), "{error}");
}
