//! An input, as the flow drives it, and what inputs of all kinds have in common.
//!
//! Must never: know how an input is written.

use std::sync::Mutex;
use std::sync::atomic::Ordering;

use super::build::{Build, Joined, RowOrder};
use super::demands::Demands;
use super::frame::{Clock, Counted, Frame, Halt, Pieces, Work};
use super::locate::{Found, Wanted};
use super::monitor::Monitor;
use super::options::LoadOptions;
use super::plan::{ColumnMap, Plan, column_named, expected_order, made_table};
use super::rejects::Rejects;
use super::report::{ColumnReport, DecidedBy};
use super::uuid7::Uuid7Range;
use crate::error::{Error, Result};
use crate::schema::Witness;
use crate::schema::shape::TableShape;

/// An input of a load, of which the flow knows nothing but its rows.
pub trait Feed {
    /// State that feeds of all kinds have.
    fn state(&self) -> &FeedState<'_>;

    /// Encodes all rows and joins them; how many were read.
    fn encode(
        &mut self,
        build: &Build<'_>,
        joined: Joined,
        rejects: &Mutex<Rejects>,
    ) -> Result<(Joined, u64), Halt>;

    /// Looks at all values and decides the types for good; how many rows were read.
    fn survey(&mut self, rejects: &Mutex<Rejects>) -> Result<u64>;

    /// Looks for columns that the input's beginning did not show.
    fn discover_columns(&mut self) -> Result<()> {
        Ok(())
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

    /// Gives up what reading holds, until it is read again.
    fn release(&mut self) {}

    /// The columns and how their types came about.
    fn columns(&self) -> Vec<ColumnReport>;

    /// Notes for the report: all that a careful person would want to know.
    fn notes(&mut self) -> Vec<String>;
}

/// A feed that is made as soon as the table is known: as it was declared by hand or stands in
/// the database, and the size of its pages.
pub type MakeFeed<'l> =
    Box<dyn FnOnce(Option<&TableShape>, usize) -> Result<Box<dyn Feed + 'l>> + 'l>;

/// The input of a load.
pub struct Input<'l> {
    /// The name of the table that it is loaded into.
    pub table: String,
    pub make: MakeFeed<'l>,
}

/// State of a feed of any kind: the table's columns, and what passes counted.
pub struct FeedState<'l> {
    pub options: &'l LoadOptions,
    pub monitor: &'l Monitor,
    /// The inputs' names.
    pub inputs: Vec<String>,
    /// The columns' names.
    pub names: Vec<String>,
    /// The primary key, if it is one column that may become the rowid.
    pub key: Option<usize>,
    pub uuid7: Option<Uuid7Range>,
    /// True if the table is declared, and not made for the input.
    pub is_declared: bool,
    /// Table to be built, as far as is known.
    pub plan: Plan,
    pub notes: Vec<String>,
    /// Rows of the inputs that have been read by this kind of pass.
    pub rows: Counted,
    /// Time of all passes, by what was done.
    pub clock: Clock,
    /// Bytes of the input read in the last pass.
    pub bytes_read: u64,
}

impl<'l> FeedState<'l> {
    pub fn new(
        options: &'l LoadOptions,
        monitor: &'l Monitor,
        inputs: Vec<String>,
        is_declared: bool,
    ) -> Self {
        let shape = TableShape::default();
        Self {
            options,
            monitor,
            inputs,
            names: Vec::new(),
            key: None,
            uuid7: options.uuid7.as_ref().map(|_| Uuid7Range::now()),
            is_declared,
            plan: Plan { shape, given: Vec::new(), order: RowOrder::Ascending },
            notes: Vec::new(),
            rows: Counted::default(),
            clock: Clock::default(),
            bytes_read: 0,
        }
    }

    /// Takes over which columns the table has, and which of them rows bring.
    pub fn take_columns(&mut self, map: &ColumnMap) {
        self.names.clone_from(&map.names);
        self.plan.given.clone_from(&map.given);
    }

    /// A table's column by its name.
    pub fn column(&self, name: &str) -> Result<usize> {
        column_named(&self.names, name)
    }

    /// Finds the primary key of a table that is made for the input, if it is one column that
    /// may become the rowid.
    pub fn find_key(&mut self) -> Result<Option<usize>> {
        if let ([key], false, false) =
            (&self.options.primary_key[..], self.options.without_rowid, self.is_declared)
        {
            self.key = Some(self.column(key)?);
        }
        Ok(self.key)
    }

    /// Returns true if the caller gave the type of a column.
    pub fn is_type_given(&self, column: usize) -> bool {
        let types = &self.options.types;
        types.iter().any(|(name, _)| name.eq_ignore_ascii_case(&self.names[column]))
    }

    /// Returns true if the rowid is one by detection only.
    pub fn key_is_detected(&self) -> bool {
        self.key.is_some_and(|key| !self.is_type_given(key))
    }

    /// The demands of the table on its columns, and the keys that are made for it.
    pub fn demands(&self) -> Demands {
        Demands {
            key_is_detected: self.key_is_detected(),
            uuid7: self.uuid7.clone(),
            ..Demands::of_table(self.options, &self.plan.shape, !self.is_declared)
        }
    }

    /// Plans the table that has been declared, or made.
    pub fn set_shape(&mut self, shape: TableShape) {
        self.plan.order = expected_order(&shape);
        self.plan.shape = shape;
    }

    /// Plans the table that is made for the input, with these types.
    pub fn make_table(&mut self, table: &str, types: impl Iterator<Item = String>) -> Result<()> {
        let columns: Vec<_> = self.names.iter().cloned().zip(types).collect();
        self.set_shape(made_table(self.options, table, &columns)?);
        Ok(())
    }

    /// Begins passes over all inputs.
    pub fn begin(&mut self) {
        self.rows = Counted::default();
        self.bytes_read = 0;
        self.monitor.rows.store(0, Ordering::Relaxed);
    }

    /// Runs one pass over the next input; returns what was joined, and what was carried from
    /// piece to piece. A stream is read to its end, whatever is found in it.
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
        if let Err(Halt::Refuted | Halt::Unsorted | Halt::NewColumn) = result
            && is_stream
        {
            // What is copied aside is whole only when all of it was read.
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

    /// The value that decided a column's type.
    pub fn decided_by(&self, witness: Option<Witness>, reason: String) -> Option<DecidedBy> {
        let Witness { input, line, value } = witness?;
        Some(DecidedBy { file: self.file_of(input), line, value, reason })
    }

    /// A column's report, but for how its type came about.
    pub fn column_report(&self, column: usize) -> ColumnReport {
        let declared = self.plan.shape.columns.get(column);
        ColumnReport {
            name: self.names[column].clone(),
            declared_type: declared.map_or(String::new(), |it| it.declared_type.clone()),
            decided_by: None,
            changed_form: None,
        }
    }
}

/// A pass that can do no more than fail.
pub fn halted(halt: Halt) -> Error {
    match halt {
        Halt::Failed(error) => error,
        Halt::Refuted | Halt::Unsorted | Halt::NewColumn => {
            Error::changed("the input changed between two readings")
                .to_do("load it again once nothing writes to it any more")
        }
    }
}
