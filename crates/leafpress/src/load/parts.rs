//! Typed rows to a table: one iterator, or several pressed side by side.
//!
//! Each part is a stretch of the table. A thread encodes it run by run, takes
//! page numbers for the run and writes it; where its leaves came to lie is
//! noted, and when all parts are done they are joined in order under one root.
//! The notes take 16 bytes a leaf: 4 MB for a gigabyte of 4 KiB pages.

use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use leafpress_format::{FormatError, LeafRun, NumberText, PageLayout, PlacedLeaves, Value};

use super::Loader;
use super::monitor::Monitor;
use super::output::Output;
use super::pages::{FileSize, TablePages, refused, write_run};
use super::publish::Destination;
use super::report::{ColumnReport, Report, Stage};
use super::rows::{Row, TypedRecord, record_bytes_max};
use super::sqlite::{check_schema, check_with_sqlite};
use super::turns::lock;
use crate::error::{BadRow, Error, ErrorKind, Result};
use crate::schema::{Column, ColumnType, TableSchema};

/// A run is written when it has grown to this.
const RUN_BYTES: usize = 1 << 20;
/// Large pages make larger runs, as each ends with a page partly empty.
const RUN_PAGES_MIN: usize = 32;

/// The longest number as text: `-2.2250738585072014e-308`.
const NUMBER_TEXT_BYTES_MAX: usize = 24;

/// A part on its way: its number, its first rowid without a key, its rows.
struct Part<I> {
    number: usize,
    first_rowid: Option<i64>,
    rows: I,
}

/// What all threads need.
struct Pressing<'p> {
    loader: &'p Loader,
    schema: &'p TableSchema,
    types: Vec<ColumnType>,
    /// Upper bound for what numbers take as the texts of TEXT columns.
    number_text_bytes_max: usize,
    layout: PageLayout,
    pages: Mutex<TablePages>,
    output: Output,
    path: &'p Path,
    monitor: &'p Monitor,
}

/// One part's outcome.
struct Pressed {
    leaves: PlacedLeaves,
    rows: u64,
    write: Duration,
}

/// Loads parts in order of their keys; see [`Loader::load_parts`].
pub fn load<I>(
    loader: &Loader,
    columns: &[Column],
    parts: Vec<(I, Option<u64>)>,
    monitor: &Monitor,
) -> Result<Report>
where
    I: Iterator<Item: Row> + Send,
{
    let started = Instant::now();
    let schema = schema(loader, columns)?;
    let layout = loader.layout()?;
    let destination = Destination::create(&loader.database)?;
    let path = destination.temporary();
    let types: Vec<_> = schema.columns.iter().map(|column| column.column_type).collect();
    let text_columns = types.iter().filter(|column_type| **column_type == ColumnType::Text).count();
    let pressing = Pressing {
        loader,
        schema: &schema,
        types,
        number_text_bytes_max: text_columns * NUMBER_TEXT_BYTES_MAX,
        layout,
        pages: Mutex::new(TablePages::new(layout)),
        output: Output::new(destination.file()?),
        path,
        monitor,
    };
    monitor.enter("pressing");
    let parts = numbered(parts, schema.primary_key.is_some())?;
    let pressed = pressing.output.flushing(|| pressing.press_all(parts))?;
    monitor.enter("syncing");
    let (rows, write) =
        pressed.iter().fold((0, Duration::ZERO), |sum, p| (sum.0 + p.rows, sum.1 + p.write));
    let size = pressing.finish(&pressed)?;
    check_with_sqlite(path, &schema)?;
    destination.publish()?;
    Ok(report(loader, &schema, rows, write, size, started))
}

fn schema(loader: &Loader, columns: &[Column]) -> Result<TableSchema> {
    let mut schema = TableSchema {
        table: loader.table_name("rows")?,
        columns: columns.to_vec(),
        primary_key: None,
        strict: loader.strict,
    };
    if let Some(key) = &loader.primary_key {
        let index = schema
            .column_index(key)
            .ok_or_else(|| Error::usage(format!("there is no column '{key}'")))?;
        if columns[index].column_type != ColumnType::Integer {
            return Err(Error::usage(format!("the primary key '{key}' must be INTEGER for now")));
        }
        schema.primary_key = Some(index);
    }
    check_schema(&schema)?;
    Ok(schema)
}

/// Gives each part its number and, without a key, its first rowid.
fn numbered<I>(parts: Vec<(I, Option<u64>)>, has_key: bool) -> Result<Vec<Part<I>>> {
    let mut next_rowid = Some(1);
    let parts = parts.into_iter().enumerate().map(|(number, (rows, len))| {
        let first_rowid = next_rowid.filter(|_| !has_key);
        if first_rowid.is_none() && !has_key {
            let message = "several parts without a primary key must know their lengths";
            return Err(Error::usage(message));
        }
        next_rowid = next_rowid.zip(len).map(|(next, len)| next + len as i64);
        Ok(Part { number, first_rowid, rows })
    });
    parts.collect()
}

impl Pressing<'_> {
    /// Presses the parts on as many threads as there may be.
    fn press_all<I>(&self, parts: Vec<Part<I>>) -> Result<Vec<Pressed>>
    where
        I: Iterator<Item: Row> + Send,
    {
        let threads = self.loader.threads.min(parts.len());
        let failed = AtomicUsize::new(usize::MAX);
        let outcomes: Mutex<Vec<(usize, Result<Pressed>)>> = Mutex::default();
        let waiting = Mutex::new(parts.into_iter());
        std::thread::scope(|scope| {
            for _ in 0..threads {
                scope.spawn(|| {
                    loop {
                        let Some(part) = lock(&waiting).next() else { break };
                        let number = part.number;
                        if number > failed.load(Ordering::Relaxed) {
                            break;
                        }
                        let outcome = self.press(part, &failed);
                        if outcome.is_err() {
                            failed.fetch_min(number, Ordering::Relaxed);
                        }
                        lock(&outcomes).push((number, outcome));
                    }
                });
            }
        });
        let mut outcomes = outcomes.into_inner().unwrap_or_default();
        outcomes.sort_by_key(|(number, _)| *number);
        outcomes.into_iter().map(|(_, outcome)| outcome).collect()
    }

    fn press<I>(&self, part: Part<I>, failed: &AtomicUsize) -> Result<Pressed>
    where
        I: Iterator<Item: Row>,
    {
        let columns = self.types.len();
        let run_bytes = RUN_BYTES.max(RUN_PAGES_MIN * self.layout.page_bytes());
        let mut run = LeafRun::new(self.layout, columns);
        let mut number = NumberText::new();
        let mut pressed =
            Pressed { leaves: PlacedLeaves::default(), rows: 0, write: Duration::ZERO };
        for row in part.rows {
            let rowid = match part.first_rowid {
                Some(first) => first + pressed.rows as i64,
                None => self.key(&row, part.number, pressed.rows)?,
            };
            let pushed = self.push(&mut run, rowid, &row, &mut number);
            pushed.map_err(|reason| bad_row(part.number, pressed.rows, reason))?;
            pressed.rows += 1;
            if run.bytes() >= run_bytes {
                if self.loader.cancel.is_cancelled() {
                    return Err(ErrorKind::Cancelled.into());
                }
                if failed.load(Ordering::Relaxed) < part.number {
                    break;
                }
                self.flush(&mut run, &mut pressed)?;
            }
        }
        self.flush(&mut run, &mut pressed)?;
        Ok(pressed)
    }

    /// Presses one row; says why if it cannot.
    #[inline(always)]
    fn push(
        &self,
        run: &mut LeafRun,
        rowid: i64,
        row: &impl Row,
        number: &mut NumberText,
    ) -> Result<(), String> {
        let columns = self.types.len();
        if row.columns() != columns {
            return Err(format!("the row has {} values, the table {columns}", row.columns()));
        }
        let mut misfit = None;
        let bytes_max = record_bytes_max(row, columns) + self.number_text_bytes_max;
        let pushed = run.push(rowid, bytes_max, |record| {
            let mut typed = TypedRecord {
                types: &self.types,
                key: self.schema.primary_key,
                strict: self.schema.strict,
                record,
                number,
                misfit: None,
            };
            row.write(&mut typed);
            misfit = typed.misfit;
        });
        if let Some(column) = misfit {
            let Column { name, column_type } = &self.schema.columns[column];
            return Err(format!("column {name:?}: the value is no {}", column_type.name()));
        }
        pushed.map_err(|error| error.to_string())
    }

    fn key(&self, row: &impl Row, part: usize, index: u64) -> Result<i64> {
        match self.schema.primary_key.map(|column| row.value(column)) {
            Some(Value::Integer(rowid)) => Ok(rowid),
            _ => Err(bad_row(part, index, "the primary key is no integer".to_owned())),
        }
    }

    /// Numbers and writes a run.
    fn flush(&self, run: &mut LeafRun, pressed: &mut Pressed) -> Result<()> {
        run.close();
        let started = Instant::now();
        let range = lock(&self.pages)
            .place(run, &mut pressed.leaves)
            .map_err(|error| refused(error, self.path))?;
        write_run(run, &range, self.layout, &self.output, self.path)?;
        self.monitor.rows.fetch_add(run.rows(), Ordering::Relaxed);
        run.clear();
        pressed.write += started.elapsed();
        Ok(())
    }

    /// Joins the parts, and ends the file.
    fn finish(self, pressed: &[Pressed]) -> Result<FileSize> {
        let mut pages = self.pages.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
        for (part, pressed) in pressed.iter().enumerate() {
            pages.join(&pressed.leaves).map_err(|error| match error {
                FormatError::NotAscending { previous, rowid } => Error::usage(format!(
                    "part {} begins with key {rowid}, not after the part before it, which ends \
                     with key {previous}",
                    part + 1
                )),
                error => refused(error, self.path),
            })?;
            pages.write_waiting(&self.output, self.path)?;
        }
        pages.finish(self.schema, &self.output, self.path)
    }
}

/// A row that cannot be pressed; it has no file, so its part stands for it.
#[cold]
fn bad_row(part: usize, index: u64, reason: String) -> Error {
    let bad = BadRow {
        file: format!("<rows of part {}>", part + 1),
        line: index + 1,
        column: 1,
        reason,
        row: format!("row {} of its part", index + 1),
    };
    Error::from(bad).to_do("rows must come in ascending order of the primary key, and fit it")
}

fn report(
    loader: &Loader,
    schema: &TableSchema,
    rows: u64,
    write: Duration,
    size: FileSize,
    started: Instant,
) -> Report {
    let column = |column: &Column| ColumnReport {
        name: column.name.clone(),
        declared_type: column.column_type.name(),
        decided_by: None,
    };
    Report {
        table: schema.table.clone(),
        database: loader.database.clone(),
        create_sql: schema.create_sql(),
        rows_read: rows,
        rows_loaded: rows,
        rows_rejected: 0,
        bytes_read: 0,
        bytes_written: size.bytes,
        pages: size.pages,
        elapsed: started.elapsed(),
        stages: vec![
            Stage { name: "write", seconds: write.as_secs_f64() },
            Stage { name: "sync", seconds: size.sync.as_secs_f64() },
        ],
        columns: schema.columns.iter().map(column).collect(),
        notes: Vec::new(),
        path: "pressed",
    }
}
