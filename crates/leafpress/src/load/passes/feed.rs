//! The trait of all inputs that the flow drives, and the state that they have in common.
//!
//! Must never: know the format of an input.

use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::Ordering;

use super::columns::{InputColumns, refuse_open_columns};
use super::frame::{Clock, Counted, Frame, Halt, Pieces, Work};
use super::locate::{Found, Wanted};
use super::plan::{Plan, expected_order, made_table};
use super::rejects::Rejects;
use crate::error::{Error, Result};
use crate::load::monitor::Monitor;
use crate::load::options::LoadOptions;
use crate::load::report::{ColumnReport, DecidedBy};
use crate::load::tree::{Build, Joined, RowOrder};
use crate::load::values::demands::Demands;
use crate::load::values::uuid7::Uuid7Range;
use crate::schema::Witness;
use crate::schema::names::{ColumnName, column_named, listed};
use crate::schema::shape::TableShape;

/// An input of a load. The flow knows only its rows.
pub trait Feed {
    /// State that feeds of all kinds have.
    fn state(&self) -> &FeedState<'_>;

    /// Encodes all rows and joins them; returns the number of rows that were read.
    fn encode(
        &mut self,
        build: &Build<'_>,
        joined: Joined,
        rejects: &Mutex<Rejects>,
    ) -> Result<(Joined, u64), Halt>;

    /// Reads all values and decides the types for good; returns the number of rows that were read.
    fn survey(&mut self, rejects: &Mutex<Rejects>) -> Result<u64>;

    /// Looks for columns that the input's beginning did not show.
    fn discover_columns(&mut self) -> Result<()> {
        Ok(())
    }

    /// Returns true if all rows are in memory since the inputs were opened.
    fn is_all_read(&self) -> bool {
        false
    }

    /// Finds rows again; their sequences ascend.
    fn locate(&mut self, wanted: &[Wanted], found: &mut Found<'_>) -> Result<()>;

    /// Returns true if all of the input can be read once more.
    fn reads_again(&self) -> bool {
        true
    }

    /// Returns true if reading holds a transaction on a database, which may be the one written to.
    fn reads_database(&self) -> bool {
        false
    }

    /// Releases what reading holds, until the input is read again.
    fn release(&mut self) {}

    /// The columns, with the reasons for their types.
    fn columns(&self) -> Vec<ColumnReport>;

    /// Notes for the report, such as renamed columns.
    fn notes(&mut self) -> Vec<String>;
}

/// Makes a feed, as soon as the database was looked at.
pub type MakeFeed<'l> = Box<dyn FnOnce(&TableAhead<'_>) -> Result<Box<dyn Feed + 'l>> + 'l>;

/// The table that rows go into, as far as it is known before they are read.
pub struct TableAhead<'t> {
    pub name: &'t str,
    /// Its shape, if it is declared or exists; else it is made for the rows.
    pub declared: Option<&'t TableShape>,
    /// Names in the database, which its indexes cannot have.
    pub names_taken: Vec<String>,
    /// Bytes in a page of the database.
    pub page_bytes: usize,
}

/// The input of a load.
pub struct Input<'l> {
    /// Name of the table that it is loaded into.
    pub table: String,
    pub make: MakeFeed<'l>,
    /// True if all of it is read in a moment.
    pub is_short: bool,
}

/// State of a feed of any kind: the table's columns, and what passes counted.
pub struct FeedState<'l> {
    pub options: &'l LoadOptions,
    pub monitor: &'l Monitor,
    /// Names of the inputs.
    pub inputs: Vec<String>,
    /// Names of the columns.
    pub columns: Vec<ColumnName>,
    /// The primary key, if it is one column that may become the rowid.
    pub key: Option<usize>,
    /// The key that the table gets later, likewise.
    pub later_key: Option<usize>,
    pub uuid7: Option<Uuid7Range>,
    /// True if the table is declared, and not made for the input.
    pub is_declared: bool,
    table: String,
    names_taken: Vec<String>,
    /// Table to be built, as far as is known.
    pub plan: Plan,
    pub notes: Vec<String>,
    /// Number of rows that passes of this kind have read.
    pub rows: Counted,
    /// Time of all passes, by stage.
    pub clock: Clock,
    /// Bytes of the input read in the last pass.
    pub bytes_read: u64,
}

impl<'l> FeedState<'l> {
    pub fn new(
        options: &'l LoadOptions,
        monitor: &'l Monitor,
        inputs: Vec<String>,
        table: &TableAhead<'_>,
    ) -> Self {
        let shape = TableShape::default();
        Self {
            options,
            monitor,
            inputs,
            columns: Vec::new(),
            key: None,
            later_key: None,
            uuid7: options.uuid7.as_ref().map(|_| Uuid7Range::now()),
            is_declared: table.declared.is_some(),
            table: table.name.to_owned(),
            names_taken: table.names_taken.clone(),
            plan: Plan { shape, given: Vec::new(), order: RowOrder::Ascending },
            notes: Vec::new(),
            rows: Counted::default(),
            clock: Clock::default(),
            bytes_read: 0,
        }
    }

    /// Sets the table's columns, and which of them the rows of some input bring.
    ///
    /// # Errors
    /// As [`refuse_open_columns`], if the table is declared.
    pub fn take_columns(
        &mut self,
        columns: Vec<ColumnName>,
        inputs: &[InputColumns<'_>],
        declared: Option<&TableShape>,
    ) -> Result<()> {
        let is_given = |at: usize| inputs.iter().any(|it| it.sources[at].is_given());
        self.plan.given = (0..columns.len()).map(is_given).collect();
        self.columns = columns;
        let note = partition_note(&self.inputs, &self.columns);
        self.notes.extend(note.filter(|note| !self.notes.contains(note)));
        declared.map_or(Ok(()), |shape| refuse_open_columns(self.options, shape, inputs))
    }

    /// Index of a table's column, by its name there or in the input.
    pub fn column(&self, name: &str) -> Result<usize> {
        column_named(&self.columns, name)
    }

    /// Names of the table's columns.
    pub fn names(&self) -> Vec<String> {
        self.columns.iter().map(|it| it.name.clone()).collect()
    }

    /// Finds the primary key of a table that is made for the input, if it is one column that
    /// may become the rowid.
    pub fn find_key(&mut self) -> Result<()> {
        if self.is_declared {
            return Ok(());
        }
        let options = self.options;
        self.key = self.lone_key(&options.primary_key, options.without_rowid)?;
        self.later_key = self.lone_key(&options.later_key, options.later_without_rowid)?;
        Ok(())
    }

    fn lone_key(&self, key: &[String], without_rowid: bool) -> Result<Option<usize>> {
        let made = self.options.uuid7.as_ref().map(|(name, _)| name);
        let is_made = |key: &str| made.is_some_and(|name| name.eq_ignore_ascii_case(key));
        match key {
            [key] if !without_rowid && !is_made(key) => self.column(key).map(Some),
            _ => Ok(None),
        }
    }

    /// Returns true for a column that is TEXT unless its type is given: with `all_text` each, but a key that
    /// may become the rowid, whose values say whether it does.
    pub fn is_text(&self, column: usize) -> bool {
        self.options.all_text && ![self.key, self.later_key].contains(&Some(column))
    }

    /// Returns true if the caller gave the type of a column.
    pub fn is_type_given(&self, column: usize) -> bool {
        let types = &self.options.types;
        types.iter().any(|(name, _)| self.column(name).is_ok_and(|at| at == column))
    }

    /// Returns true if the rowid's column was only detected as such.
    pub fn key_is_detected(&self) -> bool {
        self.key.is_some_and(|key| !self.is_type_given(key))
    }

    /// Demands of the table on its columns, and the keys that are made for it.
    pub fn demands(&self) -> Demands {
        let mut demands = Demands::of_table(self.options, &self.plan.shape, &self.columns);
        for at in self.plan.filled_by_sqlite() {
            demands.not_null[at] = false;
        }
        Demands { key_is_detected: self.key_is_detected(), uuid7: self.uuid7.clone(), ..demands }
    }

    /// Plans the table that has been declared, or made.
    pub fn set_shape(&mut self, shape: TableShape) {
        self.plan.order = expected_order(&shape);
        self.plan.shape = shape;
    }

    /// Plans the table that is made for the input, with these types.
    pub fn make_table(&mut self, types: impl Iterator<Item = String>) -> Result<()> {
        let columns: Vec<_> = self.columns.iter().cloned().zip(types).collect();
        let shape = made_table(self.options, (&self.table, &self.names_taken), &columns)?;
        self.set_shape(shape);
        Ok(())
    }

    /// Begins passes over all inputs.
    pub fn begin(&mut self) {
        self.rows = Counted::default();
        self.bytes_read = 0;
        self.monitor.rows.store(0, Ordering::Relaxed);
    }

    /// Runs one pass over the next input; returns the joined state, and the state carried from
    /// piece to piece. A stream is read to its end in any case.
    pub fn pass<P: Pieces, W: Work<P::Shown>>(
        &mut self,
        pieces: &P,
        (mut reader, is_stream): (P::Reader, bool),
        (work, joined): (&W, W::Joined),
        rejects: &Mutex<Rejects>,
    ) -> Result<(W::Joined, P::Carried), Halt> {
        let LoadOptions { threads, ref cancel, .. } = *self.options;
        let rows_done = &self.monitor.rows;
        let frame = Frame { threads, cancel, rows_done, rows_before: self.rows, rejects };
        let result = frame.run(pieces, &mut reader, work, joined);
        if let Err(Halt::Refuted | Halt::Unsorted | Halt::NewColumn | Halt::Refused(_)) = result
            && is_stream
        {
            // The copy of a stream is complete only when the stream was read to its end.
            let mut piece = pieces.piece();
            while pieces.claim(&mut reader, &mut piece)? {
                cancel.check()?;
            }
        }
        let summary = result?;
        self.rows = summary.rows;
        self.clock.add(summary.clock);
        self.bytes_read += self.monitor.bytes_read.load(Ordering::Relaxed);
        Ok((summary.joined, summary.carried))
    }

    /// The name of an input, where there are several.
    pub fn file_of(&self, input: usize) -> Option<String> {
        (self.inputs.len() > 1).then(|| self.inputs[input].clone())
    }

    /// The value that decided a column's type, for the report.
    pub fn decided_by(&self, witness: Option<Witness>, reason: String) -> Option<DecidedBy> {
        let Witness { input, line, value } = witness?;
        Some(DecidedBy { file: self.file_of(input), line, value, reason })
    }

    /// A column's report, without the reason for its type.
    pub fn column_report(&self, column: usize) -> ColumnReport {
        let declared = self.plan.shape.columns.get(column);
        ColumnReport {
            name: self.columns[column].name.clone(),
            declared_type: declared.map_or(String::new(), |it| it.declared_type.clone()),
            decided_by: None,
            changed_form: None,
        }
    }
}

/// The note about values that only the folders of an input have, as in `year=2024/part.csv`.
fn partition_note(inputs: &[String], columns: &[ColumnName]) -> Option<String> {
    inputs.iter().find_map(|input| {
        let folder = Path::new(input).parent()?;
        let parts = folder.iter().filter_map(|part| part.to_str()?.split_once('='));
        let keys = parts.filter(|(key, value)| !key.is_empty() && !value.is_empty());
        let is_column = |key: &str| columns.iter().any(|it| it.written.eq_ignore_ascii_case(key));
        let lost: Vec<&str> = keys.map(|(key, _)| key).filter(|key| !is_column(key)).collect();
        (!lost.is_empty()).then(|| {
            format!(
                "{input}: folders of its path name values of {}, and no column does: they are not \
                 loaded",
                listed(&lost)
            )
        })
    })
}

/// The error of a pass that can only fail.
pub fn halted(halt: Halt) -> Error {
    match halt {
        Halt::Failed(error) => error,
        Halt::Refuted | Halt::Unsorted | Halt::NewColumn | Halt::Refused(_) => {
            Error::changed("the input changed between two readings")
                .to_do("load it again once nothing writes to it any more")
        }
    }
}
