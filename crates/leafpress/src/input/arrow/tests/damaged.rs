//! Files that are cut short, or of which bytes are wrong: an error or rows,
//! but never a panic, and never rows of a file that is not whole.

use std::sync::{Arc, LazyLock};

use arrow_array::builder::StringDictionaryBuilder;
use arrow_array::types::Int8Type;
use arrow_array::{ArrayRef, Decimal128Array, Float64Array, Int64Array, RecordBatch, StringArray};
use arrow_ipc::CompressionType;
use arrow_ipc::writer::IpcWriteOptions;
use proptest::prelude::*;

use super::{ArrowSource, Source, batch_of, file_of, read, stream_of};
use crate::input::kind::Kind;
use crate::input::rows::RowSource;
use crate::{ErrorKind, Result};

fn batch() -> RecordBatch {
    let mut dictionary = StringDictionaryBuilder::<Int8Type>::new();
    dictionary.extend((0..50).map(|row| (row % 5 != 0).then(|| format!("d{}", row % 3))));
    let texts = (0..50).map(|row| (row % 7 != 0).then(|| format!("text of row {row}")));
    batch_of(vec![
        Arc::new(Int64Array::from_iter_values(0..50)),
        Arc::new(Float64Array::from_iter((0..50).map(|row| (row % 4 != 0).then_some(0.5)))),
        Arc::new(StringArray::from_iter(texts)),
        Arc::new(dictionary.finish()),
    ])
}

/// Files of all formats, each with its kind.
fn files() -> Vec<(Kind, Vec<u8>)> {
    static FILES: LazyLock<Vec<(Kind, Vec<u8>)>> = LazyLock::new(make_files);
    FILES.clone()
}

fn make_files() -> Vec<(Kind, Vec<u8>)> {
    let batches = [batch().slice(0, 20), batch().slice(20, 30)];
    let packed = |kind| IpcWriteOptions::default().try_with_compression(Some(kind)).unwrap();
    let files = vec![
        (Kind::ArrowStream, stream_of(&batches, IpcWriteOptions::default())),
        (Kind::ArrowStream, stream_of(&batches, packed(CompressionType::LZ4_FRAME))),
        (Kind::ArrowFile, file_of(&[batch()], IpcWriteOptions::default())),
        (Kind::ArrowFile, file_of(&[batch()], packed(CompressionType::ZSTD))),
    ];
    #[cfg(feature = "parquet")]
    let files = [files, parquet_files(&batches)].concat();
    files
}

#[cfg(feature = "parquet")]
fn parquet_files(batches: &[RecordBatch]) -> Vec<(Kind, Vec<u8>)> {
    use parquet::basic::Compression;
    use parquet::file::properties::{WriterProperties, WriterVersion};
    let file = |version, compression| {
        let properties = WriterProperties::builder()
            .set_writer_version(version)
            .set_compression(compression)
            .set_max_row_group_row_count(Some(30))
            .build();
        let schema = batches[0].schema();
        let mut writer =
            parquet::arrow::ArrowWriter::try_new(Vec::new(), schema, Some(properties)).unwrap();
        batches.iter().for_each(|batch| writer.write(batch).unwrap());
        (Kind::Parquet, writer.into_inner().unwrap())
    };
    vec![
        file(WriterVersion::PARQUET_1_0, Compression::UNCOMPRESSED),
        file(WriterVersion::PARQUET_2_0, Compression::SNAPPY),
    ]
}

/// Reads bytes that are said to be of a kind; how many rows there are.
fn rows_of(bytes: Vec<u8>, kind: Kind) -> Result<usize> {
    let folder = std::env::temp_dir();
    let source = Source::reader("input", std::io::Cursor::new(bytes), Some(&folder));
    Ok(read(&mut ArrowSource::new(source, kind, &folder)?)?.0.len())
}

#[test]
fn a_decimal_that_its_type_does_not_hold_is_refused() {
    let array = Decimal128Array::from(vec![10_i128.pow(20)]);
    let array: ArrayRef = Arc::new(array.with_precision_and_scale(18, 0).unwrap());
    let batch = RecordBatch::try_from_iter([("a", array)]).unwrap();
    let bytes = stream_of(&[batch], IpcWriteOptions::default());
    let error = rows_of(bytes, Kind::ArrowStream).unwrap_err();
    assert!(error.to_string().contains("more than the 18 digits of its type"), "{error}");
}

#[test]
fn a_file_that_is_cut_short_is_refused() {
    for (kind, bytes) in files() {
        assert_eq!(rows_of(bytes.clone(), kind).unwrap(), 50);
        for length in (0..bytes.len()).step_by(7) {
            match rows_of(bytes[..length].to_vec(), kind) {
                Err(error) => {
                    assert!(matches!(error.kind(), ErrorKind::Input { .. }), "{error}");
                    assert!(error.to_string().starts_with("input: "), "{error}");
                }
                // A stream may end after any message.
                Ok(rows) => {
                    assert_eq!(kind, Kind::ArrowStream, "{length} of {} bytes", bytes.len());
                    assert!([0, 20, 50].contains(&rows), "{rows}");
                }
            }
        }
    }
}

#[test]
fn a_stream_without_its_end_mark_is_noted() {
    let folder = std::env::temp_dir();
    // Small batches are joined, unless they have a dictionary.
    for columns in [3, 4] {
        let batch = batch().project(&(0..columns).collect::<Vec<_>>()).unwrap();
        let stream = stream_of(&[batch], IpcWriteOptions::default());
        // The mark has eight bytes.
        for (cut, notes) in [(0, 0), (8, 1)] {
            let bytes = stream[..stream.len() - cut].to_vec();
            let source = Source::reader("input", std::io::Cursor::new(bytes), Some(&folder));
            let mut source = ArrowSource::new(source, Kind::ArrowStream, &folder).unwrap();
            assert_eq!(read(&mut source).unwrap().0.len(), 50);
            let note = "input: the stream has no end mark, so it may have been cut";
            assert_eq!(source.notes_at_end(), vec![note; notes], "{columns} columns, {cut} bytes");
        }
    }
}

/// A length that is wrong by a byte must not pass over rows.
#[test]
fn a_wrong_byte_loses_no_row() {
    let mut found = Vec::new();
    for (kind, bytes) in files() {
        for place in 0..bytes.len() {
            let mut bytes = bytes.clone();
            bytes[place] = u8::from(bytes[place] == 0);
            if let Ok(rows) = rows_of(bytes, kind)
                && rows != 50
            {
                found.push((kind, place, rows));
            }
        }
    }
    assert!(found.is_empty(), "{found:?}");
}

#[test]
fn messages_say_what_is_damaged() {
    let (_, stream) = files().swap_remove(0);
    let error = rows_of(stream[..stream.len() - 100].to_vec(), Kind::ArrowStream).unwrap_err();
    assert_eq!(error.to_string(), "input: record batch 2 is damaged: the stream ends within it");
    let mut longer = stream;
    longer.extend_from_slice(b"more");
    let error = rows_of(longer, Kind::ArrowStream).unwrap_err();
    assert_eq!(error.to_string(), "input: the end is damaged: something follows it");
}

#[cfg(feature = "parquet")]
#[test]
fn a_damaged_row_group_is_named() {
    let (_, mut bytes) = parquet_files(&[batch()]).swap_remove(0);
    let text = b"text of row 40";
    let place = bytes.windows(text.len()).position(|window| window == text).unwrap();
    bytes[place] = 0xff;
    let error = rows_of(bytes, Kind::Parquet).unwrap_err().to_string();
    assert!(error.starts_with("input: row group 2 is damaged: "), "{error}");
}

#[cfg(feature = "parquet")]
#[test]
fn an_encrypted_file_is_refused() {
    let (_, mut bytes) = parquet_files(&[batch()]).swap_remove(0);
    let end = bytes.len() - 4;
    bytes[end..].copy_from_slice(b"PARE");
    let error = rows_of(bytes, Kind::Parquet).unwrap_err().to_string();
    assert!(error.starts_with("input: is encrypted"), "{error}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    /// Wrong bytes make an error of the input, or other values.
    #[test]
    fn wrong_bytes_never_panic(
        file in any::<prop::sample::Index>(),
        places in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
    ) {
        let mut files = files();
        let index = file.index(files.len());
        let (kind, mut bytes) = files.swap_remove(index);
        for (place, byte) in places {
            let place = place.index(bytes.len());
            bytes[place] = byte;
        }
        if let Err(error) = rows_of(bytes, kind) {
            let is_of_input = matches!(error.kind(), ErrorKind::Input { .. });
            prop_assert!(is_of_input, "{}", error);
        }
    }
}
