//! A run that was cleared gives the pages that a new run gives: nothing of the earlier rows is left
//! in the bytes that no cell takes. And a row that was added last is read again before its leaf is
//! closed.

use leafpress_format::{
    FinishedPages, IndexRun, IndexTree, LeafRun, PageLayout, PageNumbers, Value, record,
};
use proptest::prelude::*;

/// Records by their lengths; the first byte of each makes a header that is long enough.
fn records() -> impl Strategy<Value = Vec<Vec<u8>>> {
    let length = prop_oneof![4 => 1..40_usize, 1 => 100..3000_usize];
    prop::collection::vec((length, any::<u8>()).prop_map(|(bytes, byte)| vec![byte; bytes]), 0..120)
}

fn layout() -> impl Strategy<Value = PageLayout> {
    let reserved = prop_oneof![Just(0), Just(32_u8)];
    (prop_oneof![Just(512), Just(4096)], reserved).prop_map(|(page_bytes, reserved_bytes)| {
        PageLayout::with_reserved(page_bytes, reserved_bytes).expect("a page size")
    })
}

fn leaves(layout: PageLayout, run: &mut LeafRun, records: &[Vec<u8>]) -> Vec<u8> {
    run.clear();
    for (record, rowid) in records.iter().zip(1..) {
        let pushed = if rowid % 3 == 0 {
            run.push_values(rowid, &[Value::Blob(record)])
        } else {
            run.push_record(rowid, record)
        };
        pushed.expect("a row");
    }
    run.close();
    let range = run.take_numbers(&mut PageNumbers::new(layout)).expect("page numbers");
    run.number(&range).to_vec()
}

fn entries(layout: PageLayout, run: &mut IndexRun, records: &[Vec<u8>]) -> Vec<u8> {
    run.clear();
    for record in records {
        run.push(record).expect("an entry");
    }
    run.close();
    let (mut numbers, mut finished) = (PageNumbers::new(layout), FinishedPages::new(layout));
    let range = IndexTree::new(layout).append(run, &mut numbers, &mut finished);
    run.number(&range.expect("page numbers")).to_vec()
}

proptest! {
    #[test]
    fn rows_of_several_runs_give_the_pages_of_one(
        layout in layout(), lengths in prop::collection::vec(1..90_usize, 0..200), cuts in 1..20_usize,
    ) {
        let records: Vec<_> = lengths.iter().map(|&bytes| vec![bytes as u8; bytes]).collect();
        let mut all = LeafRun::new(layout, 0);
        for (part, records) in records.chunks(cuts).enumerate() {
            let mut run = LeafRun::new(layout, 0);
            for (at, record) in records.iter().enumerate() {
                run.push_record((part * cuts + at + 1) as i64, record).expect("a row");
            }
            run.close();
            prop_assert!(all.take_rows(&run).expect("rows in order"));
            if !records.is_empty() {
                prop_assert!(all.take_rows(&run).is_err());
            }
        }
        all.close();
        let range = all.take_numbers(&mut PageNumbers::new(layout)).expect("page numbers");
        let mut one = LeafRun::new(layout, 0);
        for (record, rowid) in records.iter().zip(1..) {
            one.push_record(rowid, record).expect("a row");
        }
        one.close();
        prop_assert!(all.number(&range) == one.number(&range));
    }

    #[test]
    fn index_leaves_are_those_of_a_new_run(
        layout in layout(), before in records(), records in records(),
    ) {
        let mut run = IndexRun::new(layout);
        entries(layout, &mut run, &before);
        let again = entries(layout, &mut run, &records);
        prop_assert!(again == entries(layout, &mut IndexRun::new(layout), &records));
    }

    #[test]
    fn leaves_are_those_of_a_new_run(
        layout in layout(), before in records(), records in records(),
    ) {
        let mut run = LeafRun::new(layout, 1);
        leaves(layout, &mut run, &before);
        let again = leaves(layout, &mut run, &records);
        prop_assert!(again == leaves(layout, &mut LeafRun::new(layout, 1), &records));
    }

    #[test]
    fn the_row_added_last_is_read_again(layout in layout(), records in records()) {
        let mut run = LeafRun::new(layout, 1);
        prop_assert_eq!(run.last_record(), None);
        for (blob, rowid) in records.iter().zip(100..) {
            run.push_values(rowid, &[Value::Blob(blob)]).expect("a row");
            let expected = record(&[Value::Blob(blob)]);
            prop_assert_eq!(run.last_record(), Some(expected.as_slice()));
        }
        run.close();
        prop_assert_eq!(run.last_record(), None);
    }
}

#[test]
fn a_run_with_overflow_pages_is_not_taken() {
    let layout = PageLayout::with_reserved(512, 0).expect("a page size");
    let mut long = LeafRun::new(layout, 0);
    long.push_record(1, &[3; 2000]).expect("a row");
    long.close();
    let mut run = LeafRun::new(layout, 0);
    assert_eq!(run.take_rows(&long), Ok(false));
    assert_eq!(run.rows(), 0);
}
