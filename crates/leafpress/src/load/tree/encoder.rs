//! Encoder of one worker's rows: hands each record to the B-trees that it belongs to.
//!
//! A row is encoded once, in the order of the table's columns: straight into a leaf if rows come in
//! the order of a rowid table. From there it is handed to the sorters, of the table if there is one
//! and of each index, in the form that stands in their B-trees.

use leafpress_format::{
    FormatError, IndexRun, LeafRun, Projection, RecordWriter, SerialTypes, WRITE_SLACK_BYTES,
    compare_records,
};

use super::analyze::StatCounter;
use super::{Build, RowOrder, projection};
use crate::error::{Error, Result};
use crate::sort::RunBuilder;

/// Encodes rows and passes them on; one for each worker.
pub struct Encoder<'b> {
    build: &'b Build<'b>,
    /// A block's rows, if they come in order.
    pub leaves: LeafRun,
    /// Entries of a WITHOUT ROWID table for the same block.
    pub entries: IndexRun,
    table_run: Option<RunBuilder<'b>>,
    table_projection: Option<Projection>,
    /// True if the table's entries are the encoded records: the key's columns are the first ones.
    has_key_first: bool,
    /// True if the record was encoded here, and not taken as it is in another table.
    is_encoded: bool,
    index_runs: Vec<(Projection, RunBuilder<'b>)>,
    serials: SerialTypes,
    scratch: Vec<u8>,
    payload_at: usize,
    entry: Vec<u8>,
    first_entry: Vec<u8>,
    last_entry: Vec<u8>,
    /// Rows for SQLite: sequence, rowid, record's length; and the records.
    rows: Vec<(u64, i64, usize)>,
    records: Vec<u8>,
    rows_count: u64,
    last_rowid: i64,
    /// Statistics of a block's entries, counted only if they come in key order and ANALYZE is
    /// wanted.
    pub stat: Option<StatCounter>,
}

/// Reason why a row was not added.
#[derive(Debug)]
pub enum AddHalt {
    /// The row's key does not come after that of the row before it.
    Unsorted,
    /// The row is longer than SQLite's format allows.
    TooLong(String),
    Failed(Error),
}

impl From<Error> for AddHalt {
    fn from(error: Error) -> Self {
        Self::Failed(error)
    }
}

impl<'b> Encoder<'b> {
    pub fn new(build: &'b Build<'b>) -> Self {
        let layout = build.options.layout;
        let columns = build.shape.columns.len();
        let index_runs = build
            .indexes
            .iter()
            .map(|(index, sorter)| (projection(&index.entry), sorter.run()))
            .collect();
        Self {
            build,
            leaves: LeafRun::new(layout, columns),
            entries: IndexRun::new(layout),
            table_run: build.table.as_ref().map(crate::sort::Sorter::run),
            table_projection: build.shape.key.as_ref().map(projection),
            has_key_first: build.shape.key.as_ref().is_some_and(|key| {
                let in_order = (0..columns).map(leafpress_format::EntryColumn::Column);
                in_order.eq(key.columns.iter().copied())
            }),
            is_encoded: false,
            index_runs,
            serials: SerialTypes::new(columns),
            scratch: Vec::new(),
            payload_at: 0,
            entry: Vec::new(),
            first_entry: Vec::new(),
            last_entry: Vec::new(),
            rows: Vec::new(),
            records: Vec::new(),
            rows_count: 0,
            last_rowid: 0,
            stat: None,
        }
    }

    /// Begins a block.
    pub fn clear(&mut self) {
        self.leaves.clear();
        self.entries.clear();
        self.first_entry.clear();
        self.last_entry.clear();
        self.rows.clear();
        self.records.clear();
        self.rows_count = 0;
        self.stat = self.build.key_stat();
    }

    /// Ends a block.
    pub fn close(&mut self) {
        self.leaves.close();
        self.entries.close();
    }

    /// Returns true if rows are written into [`leaves`](Self::leaves) directly, and then
    /// [indexed](Self::index).
    pub fn writes_leaves(&self) -> bool {
        self.build.order == RowOrder::Ascending
            && self.build.shape.key.is_none()
            && self.build.dropped.is_empty()
    }

    /// Adds the row that was written last into [`leaves`](Self::leaves) to the indexes.
    #[inline]
    pub fn index(&mut self, sequence: u64, rowid: i64) -> Result<()> {
        if self.index_runs.is_empty() {
            return Ok(());
        }
        let Some(record) = self.leaves.last_record() else {
            return Err(Error::bug("a row is to be indexed that was not written"));
        };
        push_entries(&mut self.index_runs, (sequence, rowid), record)
    }

    /// Number of rows in this block.
    pub fn rows(&self) -> u64 {
        self.rows_count.max(self.leaves.rows())
    }

    /// The largest rowid so far, where rows have one.
    pub fn last_rowid(&self) -> i64 {
        self.last_rowid.max(self.leaves.last_rowid().unwrap_or(0))
    }

    /// The block's first and last entry, if rows come in key order.
    pub fn first_and_last(&self) -> Option<(&[u8], &[u8])> {
        (!self.last_entry.is_empty()).then_some((&self.first_entry, &self.last_entry))
    }

    /// Writes a record of at most `record_bytes_max` bytes by `write`, last column first. The
    /// record is added to no B-tree before [`add`](Self::add).
    #[inline(always)]
    pub fn encode(&mut self, record_bytes_max: usize, write: impl FnOnce(&mut RecordWriter<'_>)) {
        let room = record_bytes_max + WRITE_SLACK_BYTES;
        if self.scratch.len() < room {
            self.scratch.resize(room, 0);
        }
        let end = self.scratch.len();
        let mut writer = RecordWriter::new(&mut self.scratch, end, &mut self.serials);
        write(&mut writer);
        self.payload_at = writer.finish();
        self.is_encoded = true;
    }

    /// Takes a record that is encoded already.
    pub fn take(&mut self, record: &[u8]) {
        if self.scratch.len() < record.len() {
            self.scratch.resize(record.len(), 0);
        }
        self.payload_at = self.scratch.len() - record.len();
        self.is_encoded = false;
        self.scratch[self.payload_at..].copy_from_slice(record);
    }

    /// Adds the encoded row to the table and its indexes.
    pub fn add(&mut self, sequence: u64, rowid: i64) -> Result<(), AddHalt> {
        let record = &self.scratch[self.payload_at..];
        if record.len() as u64 > leafpress_format::RECORD_BYTES_MAX {
            let bytes = record.len() as u64;
            return Err(AddHalt::TooLong(FormatError::RecordTooLong { bytes }.to_string()));
        }
        if self.build.dropped.contains(sequence) {
            if !self.build.options.refuses_repeats {
                self.last_rowid = self.last_rowid.max(rowid);
            }
            return Ok(());
        }
        match self.build.order {
            RowOrder::ThroughSql => {
                self.rows.push((sequence, rowid, record.len()));
                self.records.extend_from_slice(record);
            }
            RowOrder::Ascending => match &mut self.table_projection {
                None => match self.leaves.push_record(rowid, record) {
                    Ok(()) => {}
                    Err(FormatError::NotAscending { .. }) => return Err(AddHalt::Unsorted),
                    Err(error) => return Err(AddHalt::TooLong(error.to_string())),
                },
                Some(projection) => {
                    self.entry.clear();
                    projection.append(record, rowid, &mut self.entry);
                    let order = &self.build.key().order;
                    if self.last_entry.is_empty() {
                        self.first_entry.extend_from_slice(&self.entry);
                    } else if compare_records(&self.last_entry, &self.entry, order).is_ge() {
                        return Err(AddHalt::Unsorted);
                    }
                    self.entries
                        .push(&self.entry)
                        .map_err(|error| AddHalt::TooLong(error.to_string()))?;
                    if let Some(stat) = &mut self.stat {
                        stat.add(&self.entry);
                    }
                    std::mem::swap(&mut self.entry, &mut self.last_entry);
                }
            },
            RowOrder::Unsorted | RowOrder::ByKey | RowOrder::ByRowidIfGiven => {
                let Some(run) = &mut self.table_run else { return Ok(()) };
                match &mut self.table_projection {
                    None => run.push(sequence, rowid, record)?,
                    Some(_) if self.has_key_first && self.is_encoded => {
                        run.push(sequence, rowid, record)?;
                    }
                    Some(projection) => {
                        run.push_projection((sequence, rowid), record, projection)?;
                    }
                }
            }
        }
        push_entries(&mut self.index_runs, (sequence, rowid), record)?;
        self.last_rowid = self.last_rowid.max(rowid);
        self.rows_count += 1;
        Ok(())
    }

    /// Hands out the rows that wait for SQLite.
    pub fn drain_rows<E>(
        &mut self,
        mut take: impl FnMut(u64, i64, &[u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut at = 0;
        for (sequence, rowid, len) in self.rows.drain(..) {
            take(sequence, rowid, &self.records[at..at + len])?;
            at += len;
        }
        Ok(())
    }

    /// Ends the worker: what it still holds goes to the sorters.
    pub fn end(self) -> Result<()> {
        if let Some(run) = self.table_run {
            run.finish()?;
        }
        self.index_runs.into_iter().try_for_each(|(_, run)| run.finish())
    }
}

/// Gives the entry of a row to the sorter of each index.
#[inline(never)]
fn push_entries(
    index_runs: &mut [(Projection, RunBuilder<'_>)],
    of_row: (u64, i64),
    record: &[u8],
) -> Result<()> {
    index_runs
        .iter_mut()
        .try_for_each(|(projection, run)| run.push_projection(of_row, record, projection))
}
