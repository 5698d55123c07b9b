//! The sorter against a sorted `Vec`.
//!
//! Checked here, with so little memory that nearly everything goes to disk, and
//! with so much that nothing does:
//! 1. entries are all items, by key, then by sequence;
//! 2. `repeats_key` says what comparing neighbours says;
//! 3. no key is in two partitions;
//! 4. partitions can be loaded in any order, by several threads;
//! 5. a disk that fails is an error, and no thread waits for ever.

use std::cmp::Ordering;
use std::path::{Path, PathBuf};

use leafpress_format::{
    Collation, EntryColumn, KeyColumn, Projection, RecordColumns, RecordWriter, SerialTypes,
    SortOrder as Direction, Value, WRITE_SLACK_BYTES, compare_keys, record_bytes_max,
};
use proptest::prelude::*;
use proptest::sample::select;

use super::{MEMORY_BYTES_MIN, Partition, SortKey, SortOptions, Sorted, Sorter};
use crate::error::ErrorKind;
use crate::vfs::watch::UnnamedFile;

/// Input and output of a sort.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Row {
    sequence: u64,
    rowid: i64,
    record: Vec<u8>,
}

fn record(values: &[Value<'_>]) -> Vec<u8> {
    let mut serials = SerialTypes::new(values.len());
    let mut buf = vec![0; record_bytes_max(values) + WRITE_SLACK_BYTES];
    let end = buf.len();
    let mut writer = RecordWriter::new(&mut buf, end, &mut serials);
    for &value in values.iter().rev() {
        writer.value(value);
    }
    let at = writer.finish();
    buf.split_off(at)
}

fn make_file(folder: &Path) -> std::io::Result<UnnamedFile> {
    Ok(UnnamedFile { file: crate::rights::unnamed_file(folder)?, observer: None })
}

fn options(threads: usize) -> SortOptions {
    let folder = std::env::temp_dir();
    SortOptions { memory_bytes: 0, threads, folder, make_file, ends_in_rowid: false }
}

/// Options for rows, whose records may all end in the rowid.
fn options_for(rows: &[Row], threads: usize) -> SortOptions {
    let mut columns = RecordColumns::new();
    let ends_in_rowid = rows.iter().all(|row| {
        let count = columns.parse(&row.record);
        columns.value(&row.record, count - 1) == Value::Integer(row.rowid)
    });
    SortOptions { ends_in_rowid, ..options(threads) }
}

/// Numbers that are not in order, the same each time.
fn scattered(number: u64) -> u64 {
    let number = (number ^ number >> 31).wrapping_mul(0x7fb5_d329_728e_a185);
    (number ^ number >> 27).wrapping_mul(0x81da_def4_bc2d_d44d)
}

fn compare_in_model(key: &SortKey, left: &Row, right: &Row) -> Ordering {
    match key {
        SortKey::Rowid => left.rowid.cmp(&right.rowid),
        SortKey::Columns(columns) => {
            let (mut of_left, mut of_right) = (RecordColumns::new(), RecordColumns::new());
            let (left, right) = (left.record.as_slice(), right.record.as_slice());
            assert!(of_left.parse(left) >= columns.len());
            assert!(of_right.parse(right) >= columns.len());
            let left: Vec<Value<'_>> =
                (0..columns.len()).map(|column| of_left.value(left, column)).collect();
            let right: Vec<Value<'_>> =
                (0..columns.len()).map(|column| of_right.value(right, column)).collect();
            compare_keys(&left, &right, columns)
        }
    }
}

/// Sorts `rows`, dealt out to `threads`, with `memory_bytes`. No row is so large
/// that more than that has to be used.
fn sort_within(rows: &[Row], key: &SortKey, memory_bytes: usize, threads: usize) -> Sorted {
    let sorter = Sorter::with_memory(options_for(rows, threads), key.clone(), memory_bytes);
    push_all(&sorter, rows, threads);
    let (held, limit) = (sorter.pool.held_bytes(), sorter.pool.limits.runs_bytes);
    assert!(held <= limit, "{held} of {limit}");
    sorter.finish().unwrap()
}

/// Sorts `rows`, dealt out to `threads`, with `memory_bytes`.
fn sort(rows: &[Row], key: &SortKey, memory_bytes: usize, threads: usize) -> Sorted {
    let sorter = Sorter::with_memory(options_for(rows, threads), key.clone(), memory_bytes);
    push_all(&sorter, rows, threads);
    sorter.finish().unwrap()
}

fn push_all(sorter: &Sorter, rows: &[Row], threads: usize) {
    std::thread::scope(|scope| {
        for thread in 0..threads {
            scope.spawn(move || {
                let (mut run, mut columns) = (sorter.run(), RecordColumns::new());
                for row in rows.iter().skip(thread).step_by(threads) {
                    let &Row { sequence, rowid, ref record } = row;
                    if sequence % 3 == 0 {
                        run.push(sequence, rowid, record).unwrap();
                        continue;
                    }
                    // A projection of all columns is the record again.
                    let columns = (0..columns.parse(record)).map(EntryColumn::Column).collect();
                    let mut projection = Projection::new(columns);
                    run.push_projection((sequence, rowid), record, &mut projection).unwrap();
                }
                run.finish().unwrap();
            });
        }
    });
}

/// The rows of a partition, each with `repeats_key`.
fn rows_of(sorted: &Sorted, partition: usize, into: &mut Partition) -> Vec<(Row, bool)> {
    sorted.load(partition, into).unwrap();
    let rows = into.entries().map(|entry| {
        let record = entry.record.to_vec();
        (Row { sequence: entry.sequence, rowid: entry.rowid, record }, entry.repeats_key)
    });
    rows.collect()
}

/// Checks 1 to 4, and returns how many partitions had rows.
fn check(rows: &[Row], key: &SortKey, memory_bytes: usize, threads: usize) -> usize {
    let sorted = sort(rows, key, memory_bytes, threads);
    assert_eq!(sorted.rows(), rows.len() as u64);
    let mut expected = rows.to_vec();
    expected.sort_by(|left, right| {
        compare_in_model(key, left, right).then(left.sequence.cmp(&right.sequence))
    });
    // From both ends, by two threads at once.
    let numbers: Vec<usize> = (0..sorted.partitions()).collect();
    let (front, back) = numbers.split_at(numbers.len() / 2);
    let (mut partitions, mut others) = std::thread::scope(|scope| {
        let load = |numbers: Vec<usize>| {
            let mut into = Partition::new();
            numbers.iter().map(|&number| rows_of(&sorted, number, &mut into)).collect::<Vec<_>>()
        };
        let front = scope.spawn(move || load(front.to_vec()));
        let back = scope.spawn(move || load(back.iter().rev().copied().collect()));
        (front.join().unwrap(), back.join().unwrap())
    });
    others.reverse();
    partitions.append(&mut others);
    partitions.retain(|partition| !partition.is_empty());

    let found: Vec<Row> = partitions.iter().flatten().map(|(row, _)| row.clone()).collect();
    assert_eq!(found, expected);
    for partition in &partitions {
        assert!(!partition[0].1, "the first entry follows none");
        for pair in partition.windows(2) {
            let is_same = compare_in_model(key, &pair[0].0, &pair[1].0).is_eq();
            assert_eq!(pair[1].1, is_same);
        }
    }
    for pair in partitions.windows(2) {
        let (last, first) = (&pair[0].last().unwrap().0, &pair[1][0].0);
        assert!(compare_in_model(key, last, first).is_lt());
    }
    partitions.len()
}

fn by_first(columns: usize) -> SortKey {
    SortKey::Columns(vec![KeyColumn::default(); columns])
}

fn values() -> impl Strategy<Value = Vec<u8>> {
    let text = "[ab]{0,2}|aaaaaaaaaaaaaaa[ab]{0,3}|[a-z]{0,40}";
    prop_oneof![
        1 => Just(record(&[Value::Null])),
        3 => (-9..9_i64).prop_map(|integer| record(&[Value::Integer(integer)])),
        1 => any::<i64>().prop_map(|integer| record(&[Value::Integer(integer)])),
        1 => any::<f64>().prop_map(|real| record(&[Value::Real(real)])),
        4 => text.prop_map(|text| record(&[Value::from(text.as_str())])),
        1 => prop::collection::vec(any::<u8>(), 0..90)
            .prop_map(|bytes| record(&[Value::Blob(&bytes)])),
    ]
}

/// The rows with their rowids as a last column; every other rowid is the sequence plus 1.
fn ending_in_rowid(rows: &[Row]) -> Vec<Row> {
    let with_rowid = |row: &Row| {
        let &Row { sequence, rowid, .. } = row;
        let rowid = if sequence % 2 == 0 { sequence as i64 + 1 } else { rowid };
        let mut columns = RecordColumns::new();
        let count = columns.parse(&row.record);
        let values = (0..count).map(|column| columns.value(&row.record, column));
        let values: Vec<_> = values.chain([Value::Integer(rowid)]).collect();
        Row { sequence, rowid, record: record(&values) }
    };
    rows.iter().map(with_rowid).collect()
}

/// Rows of three columns, which `values` gives as records of one.
fn rows() -> impl Strategy<Value = Vec<Row>> {
    let row = (values(), values(), values(), prop_oneof![-9..9_i64, any::<i64>()]);
    prop::collection::vec(row, 0..400).prop_map(|rows| {
        // Sequences in no order: those of threads that take turns are in none.
        let mut sequences: Vec<u64> = (0..rows.len() as u64).collect();
        sequences.sort_by_key(|&sequence| scattered(sequence));
        rows.into_iter()
            .zip(sequences)
            .map(|((one, two, three, rowid), sequence)| {
                let mut columns =
                    [RecordColumns::new(), RecordColumns::new(), RecordColumns::new()];
                let columns = [&one, &two, &three].into_iter().zip(&mut columns);
                let values: Vec<Value<'_>> = columns
                    .map(|(record, found)| {
                        found.parse(record);
                        found.value(record, 0)
                    })
                    .collect();
                Row { sequence, rowid, record: record(&values) }
            })
            .collect()
    })
}

fn keys() -> impl Strategy<Value = SortKey> {
    let collation = select(vec![Collation::Binary, Collation::NoCase, Collation::RTrim]);
    let order = select(vec![Direction::Ascending, Direction::Descending]);
    let column = (collation, order).prop_map(|(collation, order)| KeyColumn { collation, order });
    prop_oneof![
        1 => Just(SortKey::Rowid),
        4 => prop::collection::vec(column, 1..=3).prop_map(SortKey::Columns),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, ..ProptestConfig::default() })]
    #[test]
    fn any_rows_come_out_as_from_a_sorted_vec(
        rows in rows(), key in keys(), threads in 1..4_usize, memory_bytes in 600..60_000_usize,
    ) {
        for rows in [&rows, &ending_in_rowid(&rows)] {
            check(rows, &key, memory_bytes, threads);
            check(rows, &key, MEMORY_BYTES_MIN, threads);
        }
    }
}

/// Rows of a random key of `key_bytes` and a number.
fn random_rows(count: u64, key_bytes: usize) -> Vec<Row> {
    (0..count)
        .map(|sequence| {
            let key: Vec<u8> = (0..key_bytes as u64)
                .map(|index| (scattered(sequence * 1000 + index) >> 32) as u8)
                .collect();
            let values = [Value::Blob(&key), Value::Integer(sequence as i64)];
            Row { sequence, rowid: scattered(sequence) as i64, record: record(&values) }
        })
        .collect()
}

#[test]
fn many_rows_make_many_partitions_in_memory_and_on_disk() {
    let rows = random_rows(60_000, 20);
    for key in [by_first(1), SortKey::Rowid] {
        // All of it takes about 3.5 MB.
        let in_memory = sort_within(&rows, &key, 64 << 20, 2);
        assert_eq!(in_memory.spilled_bytes(), 0);
        check(&rows, &key, 64 << 20, 2);
        for memory_bytes in [256 << 10, 1 << 20] {
            let spilled = sort_within(&rows, &key, memory_bytes, 2);
            assert!(spilled.spilled_bytes() > 1 << 20, "{}", spilled.spilled_bytes());
            let largest = (0..spilled.partitions())
                .map(|partition| rows_of(&spilled, partition, &mut Partition::new()).len())
                .max();
            // An item and its slots, as they are merged, take some 100 bytes.
            let share = memory_bytes / 2 / 2 / 100;
            assert!(largest < Some(6 * share), "{largest:?} rows, {share} planned");
            assert!(check(&rows, &key, memory_bytes, 2) > 5);
        }
    }
}

#[test]
fn rows_in_order_stay_in_order() {
    let record = record(&[Value::from("same")]);
    let row = |sequence: u64, rowid: i64| Row { sequence, rowid, record: record.clone() };
    let ascending: Vec<Row> = (0..20_000).map(|number| row(number, number as i64)).collect();
    let descending: Vec<Row> = (0..20_000).map(|number| row(number, -(number as i64))).collect();
    for rows in [&ascending, &descending] {
        for memory_bytes in [20_000, 100_000, MEMORY_BYTES_MIN] {
            assert!(check(rows, &SortKey::Rowid, memory_bytes, 1) > 1 || memory_bytes > 100_000);
            check(rows, &SortKey::Rowid, memory_bytes, 2);
        }
    }
}

#[test]
fn nothing_and_next_to_nothing() {
    for rows in [random_rows(0, 5), random_rows(1, 5), random_rows(2, 0)] {
        for memory_bytes in [0, 1, 1000, MEMORY_BYTES_MIN] {
            check(&rows, &by_first(1), memory_bytes, 2);
            check(&rows, &SortKey::Rowid, memory_bytes, 2);
        }
    }
    let unused = Sorter::new(options(1), SortKey::Rowid);
    assert_eq!(unused.finish().unwrap().rows(), 0);
    assert_eq!(Partition::new().entries().count(), 0);
}

#[test]
fn equal_keys_stay_together() {
    let all_equal: Vec<Row> = (0..5_000)
        .map(|sequence| Row { sequence, rowid: 7, record: record(&[Value::Integer(3)]) })
        .collect();
    // Keys that only differ behind what a prefix holds, several of each.
    let start = "https://www.example.com/";
    let nearly: Vec<Row> = (0..5_000)
        .map(|sequence| {
            let text = format!("{start}{:03}", scattered(sequence) % 400);
            let values = [Value::from(text.as_str()), Value::Integer(sequence as i64)];
            Row { sequence, rowid: (sequence % 400) as i64, record: record(&values) }
        })
        .collect();
    for memory_bytes in [3_000, 30_000, MEMORY_BYTES_MIN] {
        for key in [SortKey::Rowid, by_first(1)] {
            assert_eq!(check(&all_equal, &key, memory_bytes, 3), 1);
            let partitions = check(&nearly, &key, memory_bytes, 3);
            assert!(partitions > 3 || memory_bytes == MEMORY_BYTES_MIN, "{partitions}");
        }
        check(&nearly, &by_first(2), memory_bytes, 3);
    }
}

#[test]
fn keys_of_any_distribution_are_sorted() {
    let count = 12_000_u64;
    let random = |number: u64| scattered(number) % count;
    let distributions: [(&str, &dyn Fn(u64) -> String); 8] = [
        ("ascending", &|number| format!("{number:08}")),
        ("descending", &|number| format!("{:08}", count - number)),
        ("nearly ascending", &|number| format!("{:08}", number + random(number) % 50)),
        ("all equal", &|_| "the same".to_owned()),
        ("few distinct", &|number| format!("{}", random(number) % 7)),
        ("equal prefixes", &|number| format!("https://www.example.com/{:06}", random(number))),
        ("half equal", &|number| format!("{}", random(number).saturating_sub(count / 2))),
        ("of all lengths", &|number| "a".repeat(random(number) as usize % 60)),
    ];
    for (name, text_of) in distributions {
        let rows: Vec<Row> = (0..count)
            .map(|sequence| {
                let text = text_of(sequence);
                let rowid = sequence as i64 + 1;
                let values = [Value::from(text.as_str()), Value::Integer(rowid)];
                Row { sequence, rowid, record: record(&values) }
            })
            .collect();
        for (memory_bytes, spills) in [(40_000, true), (100_000, true), (64 << 20, false)] {
            let spilled_bytes = sort(&rows, &by_first(1), memory_bytes, 2).spilled_bytes();
            assert_eq!(spilled_bytes > 0, spills, "{name}");
            check(&rows, &by_first(1), memory_bytes, 2);
            check(&rows, &by_first(2), memory_bytes, 3);
        }
    }
}

#[test]
fn rows_larger_than_the_memory() {
    let rows: Vec<Row> = (0..60)
        .map(|sequence| {
            let size = if sequence % 7 == 0 { 300_000 } else { 100 };
            let key = vec![(scattered(sequence) >> 40) as u8; size];
            let values = [Value::Blob(&key), Value::Integer(sequence as i64)];
            Row { sequence, rowid: -(sequence as i64), record: record(&values) }
        })
        .collect();
    for memory_bytes in [10_000, 1 << 20, MEMORY_BYTES_MIN] {
        check(&rows, &by_first(2), memory_bytes, 2);
        check(&rows, &SortKey::Rowid, memory_bytes, 2);
    }
}

#[test]
fn a_folder_that_is_not_there_is_an_error_that_names_it() {
    let folder = PathBuf::from("no such folder");
    let options = SortOptions { folder: folder.clone(), ..options(2) };
    let sorter = Sorter::with_memory(options, SortKey::Rowid, 10_000);
    let failures = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..2)
            .map(|_| {
                scope.spawn(|| {
                    let mut run = sorter.run();
                    (0..10_000)
                        .try_for_each(|number| run.push(number, 0, &[2, 1, 5]))
                        .and_then(|()| run.finish())
                        .unwrap_err()
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect::<Vec<_>>()
    });
    for failure in failures {
        let name = crate::path_text(&folder);
        assert!(
            matches!(failure.kind(), ErrorKind::NotFound { name: named, .. } if *named == name)
        );
        let message = failure.to_string();
        for part in ["no such folder", "tmpdir", "memory"] {
            assert!(message.contains(part), "{message}");
        }
    }
}

/// Linux has a disk that is always full; a folder cannot stand on it, so the
/// file is put in place of the real one.
#[cfg(target_os = "linux")]
#[test]
fn a_full_disk_is_an_error_and_wakes_who_waits() {
    let sorter = Sorter::with_memory(options(3), by_first(1), 30_000);
    let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    sorter.pool.spill_to(super::spill::SpillFile::of(full, Path::new("full")));
    let rows = random_rows(3_000, 20);
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                let mut run = sorter.run();
                let failure = rows
                    .iter()
                    .try_for_each(|row| run.push(row.sequence, row.rowid, &row.record))
                    .and_then(|()| run.finish())
                    .unwrap_err();
                assert!(failure.to_string().contains("cannot write sorted rows"), "{failure}");
            });
        }
    });
}
