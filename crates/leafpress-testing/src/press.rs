//! A case, pressed.

use crate::order::compare_keys;
use crate::pressed_file::PressedFile;
use crate::schema::{Affinity, Case, Index, Row, Table, TableKind};
use crate::value::OwnedValue;
use leafpress_format::{
    LeafRun, PageLayout, RecordWriter, SerialTypes, TableBuilder, Value, WRITE_SLACK_BYTES,
    record_bytes_max,
};
use std::io::{Seek, Write};

/// Presses a case to the bytes of a database file.
///
/// # Panics
///
/// If a builder refuses something or breaks an invariant of [`PressedFile`].
pub fn press(case: &Case) -> Vec<u8> {
    let mut file = PressedFile::in_memory(case.layout);
    press_to(case, &mut file);
    file.into_bytes()
}

/// Presses a case's tables and indexes into a file that others may share.
///
/// # Panics
///
/// As [`press`].
pub fn press_to<W: Write + Seek>(case: &Case, file: &mut PressedFile<W>) {
    for table in &case.tables {
        let root = if table.has_rowid() {
            press_rowid_table(case.layout, table, file)
        } else {
            press_keyed_table(table, file)
        };
        file.add_table(&table.name, &table.create_sql(), root);
        for index in &table.indexes {
            let root = press_index(table, index, file);
            file.add_index(&index.name, &table.name, &table.create_index_sql(index), root);
        }
    }
}

/// A value as its column stores it.
struct Stored<'a> {
    affinity: Affinity,
    value: &'a OwnedValue,
}

fn write_record(record: &mut RecordWriter<'_>, stored: &[Stored<'_>]) {
    for Stored { affinity, value } in stored.iter().rev() {
        match (affinity, value) {
            (Affinity::Real, OwnedValue::Real(real)) => record.real_column(*real),
            _ => record.value(value.as_value()),
        }
    }
}

fn bytes_max(stored: &[Stored<'_>]) -> usize {
    let values: Vec<Value<'_>> = stored.iter().map(|stored| stored.value.as_value()).collect();
    record_bytes_max(&values)
}

fn stored<'a>(table: &Table, row: &'a Row, column_index: usize) -> Stored<'a> {
    Stored { affinity: table.columns[column_index].affinity, value: &row.values[column_index] }
}

fn press_rowid_table<W: Write + Seek>(
    layout: PageLayout,
    table: &Table,
    file: &mut PressedFile<W>,
) -> u32 {
    let mut builder = TableBuilder::new(layout);
    let chunk_rows = table.rows.len().div_ceil(table.runs.max(1)).max(1);
    let mut runs = Vec::new();
    for rows in table.rows.chunks(chunk_rows) {
        let mut run = LeafRun::new(layout, table.columns.len() + 1);
        for row in rows {
            push_row(&mut run, table, row);
        }
        runs.push(run);
    }
    // Workers fill runs at the same time; numbers come in the order of rows.
    for run in &mut runs {
        file.append(&mut builder, run);
    }
    file.finish_table(builder)
}

fn push_row(run: &mut LeafRun, table: &Table, row: &Row) {
    let alias = OwnedValue::Null;
    let mut record = Vec::new();
    if matches!(table.kind, TableKind::RowidAlias) {
        record.push(Stored { affinity: Affinity::Integer, value: &alias });
    }
    record.extend((0..row.values.len()).map(|column| stored(table, row, column)));
    run.push(row.rowid, bytes_max(&record), |writer| write_record(writer, &record)).expect("push");
}

fn press_keyed_table<W: Write + Seek>(table: &Table, file: &mut PressedFile<W>) -> u32 {
    let records = table.rows.iter().map(|row| {
        let columns = table.record_columns();
        record(&columns.into_iter().map(|column| stored(table, row, column)).collect::<Vec<_>>())
    });
    file.index(run_entries(table), records)
}

fn press_index<W: Write + Seek>(table: &Table, index: &Index, file: &mut PressedFile<W>) -> u32 {
    let columns = table.entry_columns(index);
    let mut rows: Vec<&Row> = table.rows.iter().collect();
    // Stable: equal keys stay in the order of rowids.
    rows.sort_by(|left, right| compare_keys(&columns, left, right));
    let records = rows.into_iter().map(|row| {
        let rowid = OwnedValue::Integer(row.rowid);
        let mut entry: Vec<Stored<'_>> =
            columns.iter().map(|part| stored(table, row, part.column_index)).collect();
        if table.has_rowid() {
            entry.push(Stored { affinity: Affinity::Integer, value: &rowid });
        }
        record(&entry)
    });
    file.index(run_entries(table), records)
}

/// Runs of all lengths, for one more than the table has itself: none to three
/// entries as often as some hundred.
fn run_entries(table: &Table) -> impl Iterator<Item = usize> {
    let seed = table.rows.len() + table.comment_bytes;
    (1..=table.runs).map(move |run| {
        let number = (seed + run).wrapping_mul(2_654_435_761) >> 7;
        if number.is_multiple_of(2) { number % 8 / 2 } else { number % 500 }
    })
}

fn record(stored: &[Stored<'_>]) -> Vec<u8> {
    let mut buf = vec![0; bytes_max(stored) + WRITE_SLACK_BYTES];
    let end = buf.len();
    let mut serials = SerialTypes::new(stored.len());
    let mut writer = RecordWriter::new(&mut buf, end, &mut serials);
    write_record(&mut writer, stored);
    let at = writer.finish();
    buf.split_off(at)
}
