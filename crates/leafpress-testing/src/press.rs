//! A case, pressed.

use crate::order::compare_keys;
use crate::pressed_file::PressedFile;
use crate::schema::{Affinity, Case, Index, Row, Table, TableKind};
use crate::value::OwnedValue;
use leafpress_format::{
    IndexBuilder, LeafRun, PageLayout, RecordWriter, TableBuilder, Value, record_bytes_max,
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
            press_keyed_table(case.layout, table, file)
        };
        file.add_table(&table.name, &table.create_sql(), root);
        for index in &table.indexes {
            let root = press_index(case.layout, table, index, file);
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

fn press_keyed_table<W: Write + Seek>(
    layout: PageLayout,
    table: &Table,
    file: &mut PressedFile<W>,
) -> u32 {
    let mut builder = IndexBuilder::new(layout, table.columns.len());
    for row in &table.rows {
        let record: Vec<Stored<'_>> =
            table.record_columns().into_iter().map(|column| stored(table, row, column)).collect();
        push_entry(file, &mut builder, &record);
    }
    file.finish_index(builder)
}

fn press_index<W: Write + Seek>(
    layout: PageLayout,
    table: &Table,
    index: &Index,
    file: &mut PressedFile<W>,
) -> u32 {
    let columns = table.entry_columns(index);
    let mut rows: Vec<&Row> = table.rows.iter().collect();
    // Stable: equal keys stay in the order of rowids.
    rows.sort_by(|left, right| compare_keys(&columns, left, right));
    let mut builder = IndexBuilder::new(layout, columns.len() + 1);
    for row in rows {
        let rowid = OwnedValue::Integer(row.rowid);
        let mut record: Vec<Stored<'_>> =
            columns.iter().map(|part| stored(table, row, part.column_index)).collect();
        if table.has_rowid() {
            record.push(Stored { affinity: Affinity::Integer, value: &rowid });
        }
        push_entry(file, &mut builder, &record);
    }
    file.finish_index(builder)
}

fn push_entry<W: Write + Seek>(
    file: &mut PressedFile<W>,
    builder: &mut IndexBuilder,
    record: &[Stored<'_>],
) {
    file.push_entry(builder, |builder, numbers, finished| {
        builder.push(bytes_max(record), |writer| write_record(writer, record), numbers, finished)
    });
}
