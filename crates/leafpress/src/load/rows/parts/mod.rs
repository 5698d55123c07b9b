//! Typed rows, from one iterator or from several on as many threads, to a table.
//!
//! Each part is a stretch of the table. If rows come in order and there is no index to build, a
//! thread presses its part run by run, takes page numbers for each run and writes it. It notes the
//! places of the leaves. When all parts are done, they are joined in order under one root. The
//! notes take 16 bytes a leaf: 4 MB for a gigabyte of 4 KiB pages. Otherwise each thread encodes
//! its part and the rows are sorted; rows that were pressed before one came out of order are read
//! again from their pages.
//!
//! A bad row that is left out takes no rowid, as in a load of a file. So parts without a key are then
//! pressed one after the other.

mod pressing;
#[cfg(test)]
mod tests;

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicI64};
use std::time::Duration;

use leafpress_format::{FormatError, PlacedLeaves};

use self::pressing::Pressing;
use super::fallible::Fault;
use super::row::Row;
use crate::error::{BadRow, Error, Result};
use crate::input::as_json::excerpt;
use crate::input::rows::ValueKinds;
use crate::load::file::pages::refused;
use crate::load::monitor::Monitor;
use crate::load::options::LoadOptions;
use crate::load::passes::columns::{TableColumns, places_of_columns};
use crate::load::passes::feed::{Feed, FeedState, TableAhead};
use crate::load::passes::frame::Halt;
use crate::load::passes::locate::{Found, Wanted};
use crate::load::passes::plan::{Plan, made_table};
use crate::load::passes::rejects::{Rejects, Words};
use crate::load::report::ColumnReport;
use crate::load::tree::{Build, Joined, RowOrder};
use crate::load::values::demands::Demands;
use crate::load::values::sources::ValueSource;
use crate::load::values::typed::{TypeRule, TypedRules};
use crate::schema::names::{ColumnName, listed};
use crate::schema::shape::TableShape;
use crate::schema::shape::staged_shape;
use crate::schema::{Column, is_plain_type};
use crate::sync::lock;

/// Bits of a row's sequence for its ordinal in its part; the part's number is above them.
const PLACE_BITS: u32 = 44;

/// State of a part: its number, its first rowid without a key, its rows.
struct Part<I: Iterator> {
    number: usize,
    first_rowid: Option<i64>,
    rows: I,
    /// The number of rows that it told, and by which the parts behind it are numbered.
    rows_told: Option<u64>,
    /// The row that came out of order, and ended the pressing.
    pending: Option<I::Item>,
    /// Places of the leaves with the rows before it.
    leaves: PlacedLeaves,
    rows_pressed: u64,
    /// Bad rows, in the order of the part.
    left_out: Vec<LeftOut>,
    write: Duration,
}

impl<I: Iterator> Part<I> {
    /// Refuses other rows than the part told: those behind it have their numbers by that.
    fn refuse_other_than_told(&self, rows: u64) -> Result<()> {
        match self.rows_told {
            Some(told) if told != rows => {
                let part = name_of(self.number);
                let reason = format!("{part}: it has {rows} rows, and its size_hint said {told}");
                Err(Error::misuse(reason)
                    .to_do("correct its size_hint: other parts are numbered by it"))
            }
            _ => Ok(()),
        }
    }
}

/// A bad row that is left out.
struct LeftOut {
    /// Index in its part.
    index: u64,
    reason: String,
    /// The row as JSON.
    original: Vec<u8>,
}

/// Feed of rows made in memory, which can be read only once.
pub struct PartsFeed<'l, I: Iterator> {
    state: FeedState<'l>,
    parts: Vec<Part<I>>,
    fault: &'l Fault,
    columns: Vec<Column>,
}

impl<'l, I: Iterator<Item: Row + Send> + Send> PartsFeed<'l, I> {
    pub fn new(
        options: &'l LoadOptions,
        columns: &[Column],
        (parts, fault): (Vec<(I, Option<u64>)>, &'l Fault),
        table: &TableAhead<'_>,
        monitor: &'l Monitor,
    ) -> Result<Self> {
        refuse_settings_of_inputs(options)?;
        let shape = match table.declared {
            Some(_) if options.declaration.is_some() => {
                return Err(Error::misuse("rows made in memory declare their own columns"));
            }
            Some(there) => rows_for(there, columns)?,
            None => {
                let declarations = columns.iter().map(declaration);
                made_table(
                    options,
                    (table.name, &table.names_taken),
                    &declarations.collect::<Result<Vec<_>>>()?,
                )?
            }
        };
        let is_plain = shape.key.is_none() && shape.indexes.is_empty();
        let order = if is_plain { RowOrder::Ascending } else { RowOrder::Unsorted };
        let needs_rowids = shape.key.is_none() && shape.rowid_column.is_none();
        let inputs = (0..parts.len()).map(name_of).collect();
        let mut state = FeedState::new(options, monitor, inputs, table);
        state.plan = Plan { shape, given: vec![true; columns.len()], order };
        let parts = numbered(parts, needs_rowids, options.screens())?;
        Ok(Self { state, parts, fault, columns: columns.to_vec() })
    }
}

/// Refuses what chooses and changes the columns and values of an input: these rows have none but those
/// that the program gives.
fn refuse_settings_of_inputs(options: &LoadOptions) -> Result<()> {
    let given = [
        ("select", !options.selects.is_empty()),
        ("drop_column", !options.drops.is_empty()),
        ("rename", !options.renames.is_empty()),
        ("column_type", !options.types.is_empty()),
        ("all_text", options.all_text),
        ("null_marker", !options.null_markers.is_empty()),
        ("empty_null", options.empty_null),
        ("trim", options.trim),
        ("uuid7", options.uuid7.is_some()),
    ];
    let Some((name, _)) = given.iter().find(|(_, is_given)| *is_given) else { return Ok(()) };
    let reason = format!("rows made in memory are loaded as they are, and {name} is for inputs");
    Err(Error::misuse(reason).to_do(format!("leave out {name}, and make the rows as wanted")))
}

/// Name and type of a column, as they are written into a declaration.
fn declaration(column: &Column) -> Result<(ColumnName, String)> {
    let Column { name, declared_type } = column;
    if !is_plain_type(declared_type) {
        return Err(Error::misuse(format!(
            "column {name:?}: {declared_type:?} is no declared type"
        ))
        .to_do("give words, and sizes in brackets, such as DECIMAL(10,2)"));
    }
    Ok((name.as_str().into(), declared_type.clone()))
}

/// Columns of the rows in an existing table, in the rows' order.
fn rows_for(there: &TableShape, columns: &[Column]) -> Result<TableShape> {
    let names = |columns: &mut dyn Iterator<Item = &str>| -> Vec<ColumnName> {
        columns.map(ColumnName::from).collect()
    };
    let of_table = names(&mut there.columns.iter().map(|it| it.name.as_str()));
    let of_rows = names(&mut columns.iter().map(|it| it.name.as_str()));
    let places = places_of_columns(TableColumns::Declared(&of_table), &of_rows)?;
    let found = columns.iter().zip(places).map(|(column, place)| {
        place.map(|at| there.columns[at].clone()).ok_or_else(|| {
            if there.is_generated(&column.name) {
                let (table, name) = (&there.name, &column.name);
                let error = format!("table '{table}' computes its column '{name}' itself");
                return Error::misuse(error).to_do("leave that column out");
            }
            let names: Vec<_> = there.columns.iter().map(|c| c.name.as_str()).collect();
            let reason = format!("table '{}' has no column '{}'", there.name, column.name);
            Error::not_found("column", &column.name, reason)
                .to_do(format!("its columns are: {}", listed(&names)))
        })
    });
    Ok(staged_shape(&there.name, found.collect::<Result<_>>()?, None))
}

/// Rules for the columns: any value may stand in any column, unless the table is STRICT.
fn rules(columns: &[Column], shape: &TableShape) -> TypedRules {
    let rule = |index: usize| {
        if shape.rowid_column == Some(index) {
            TypeRule::Rowid
        } else if shape.strict {
            TypeRule::for_column(&shape.columns[index], true, ValueKinds::All)
        } else {
            // Of a table that is there, whose keys are compared by it.
            TypeRule::Affinity(shape.columns[index].affinity)
        }
    };
    let names = columns.iter().map(|column| column.name.clone()).collect();
    let rules = (0..columns.len()).map(rule).collect();
    let sources = ValueSource::straight(columns.len());
    let not_null = shape.columns.iter().map(|column| column.not_null).collect();
    let demands = Demands { not_null, ..Demands::default() };
    TypedRules::new(names, rules, sources, shape.rowid_column).demands(demands)
}

/// Gives each part its number and, for rows without rowids, its first rowid. Where bad rows are left
/// out, only the parts before it tell that.
fn numbered<I: Iterator>(
    parts: Vec<(I, Option<u64>)>,
    needs_rowids: bool,
    skips: bool,
) -> Result<Vec<Part<I>>> {
    let mut next_rowid = Some(1);
    let last = parts.len().saturating_sub(1);
    let parts = parts.into_iter().enumerate().map(|(number, (rows, len))| {
        let first_rowid = next_rowid.filter(|_| needs_rowids);
        if first_rowid.is_none() && needs_rowids {
            let message = "several parts without a primary key must know their lengths";
            return Err(Error::misuse(message));
        }
        if !skips {
            next_rowid = next_rowid.zip(len).map(|(next, len)| next + len as i64);
        }
        Ok(Part {
            number,
            first_rowid,
            rows,
            rows_told: len.filter(|_| needs_rowids && !skips && number < last),
            pending: None,
            leaves: PlacedLeaves::default(),
            rows_pressed: 0,
            left_out: Vec::new(),
            write: Duration::ZERO,
        })
    });
    parts.collect()
}

impl<I: Iterator<Item: Row + Send> + Send> Feed for PartsFeed<'_, I> {
    fn state(&self) -> &FeedState<'_> {
        &self.state
    }

    fn encode(
        &mut self,
        build: &Build<'_>,
        mut joined: Joined,
        rejects: &Mutex<Rejects>,
    ) -> Result<(Joined, u64), Halt> {
        let shape = &self.state.plan.shape;
        let pressing = Pressing {
            options: self.state.options,
            columns: &self.columns,
            fault: self.fault,
            key: shape.rowid_column,
            rules: rules(&self.columns, shape),
            build,
            monitor: self.state.monitor,
            is_unsorted: AtomicBool::new(false),
            skips: self.state.options.screens(),
            next_rowid: AtomicI64::new(1),
        };
        if build.order != RowOrder::Ascending {
            let encoded = pressing
                .on_all_cores(&mut self.parts, |part, failed| pressing.encode(part, failed));
            self.state.rows.read = encoded?.iter().sum::<u64>() + self.reject_left_out(rejects)?;
            return Ok((joined, self.state.rows.read));
        }
        let shared = Mutex::new(joined);
        pressing
            .on_all_cores(&mut self.parts, |part, failed| pressing.press(part, failed, &shared))?;
        joined = shared.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
        self.state.clock.write += self.parts.iter().map(|part| part.write).sum::<Duration>();
        if pressing.is_unsorted.into_inner() {
            return Err(Halt::Unsorted);
        }
        for part in &self.parts {
            match Build::join_placed(&mut joined, &part.leaves, part.rows_pressed) {
                Ok(()) => {}
                Err(FormatError::NotAscending { .. }) => return Err(Halt::Unsorted),
                Err(error) => return Err(refused(error, build.options.path).into()),
            }
        }
        let pressed: u64 = self.parts.iter().map(|part| part.rows_pressed).sum();
        self.state.rows.read = pressed + self.reject_left_out(rejects)?;
        Ok((joined, self.state.rows.read))
    }

    fn survey(&mut self, _rejects: &Mutex<Rejects>) -> Result<u64> {
        Ok(self.state.rows.read)
    }

    fn locate(&mut self, wanted: &[Wanted], found: &mut Found<'_>) -> Result<()> {
        for Wanted { sequence, reason, .. } in wanted {
            let part = (sequence >> PLACE_BITS) as usize;
            let index = sequence & ((1 << PLACE_BITS) - 1);
            // Its values are gone.
            let bad_row = bad_row(part, index, reason.clone());
            let place = bad_row.row.clone();
            found(*sequence, bad_row, place.as_bytes())?;
        }
        Ok(())
    }

    fn reads_again(&self) -> bool {
        false
    }

    fn columns(&self) -> Vec<ColumnReport> {
        let column = |column: &Column| ColumnReport {
            name: column.name.clone(),
            declared_type: column.declared_type.clone(),
            decided_by: None,
            changed_form: None,
        };
        self.columns.iter().map(column).collect()
    }

    fn notes(&mut self) -> Vec<String> {
        Vec::new()
    }
}

impl<I: Iterator> PartsFeed<'_, I> {
    /// Hands over the rows that were left out, part by part; returns their number.
    fn reject_left_out(&self, rejects: &Mutex<Rejects>) -> Result<u64> {
        let mut count = 0;
        for part in &self.parts {
            for LeftOut { index, reason, original } in &part.left_out {
                let place = bad_row(part.number, *index, reason.clone());
                let bad_row = BadRow { row: excerpt(original), ..place };
                lock(rejects).add(bad_row, original, Words::Own)?;
                count += 1;
            }
        }
        Ok(count)
    }
}

/// Name of a part in messages, counted from 0 as the parts of shards.
fn name_of(part: usize) -> String {
    format!("<rows of part {part}>")
}

/// The error for a row that cannot be pressed. It has no file, so its part is named.
fn bad_row(part: usize, index: u64, reason: String) -> BadRow {
    BadRow {
        file: name_of(part),
        line: index + 1,
        column: 1,
        reason,
        row: format!("row {} of its part", index + 1),
    }
}
