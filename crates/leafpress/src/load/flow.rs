//! A load from its beginning to its end, whatever the input.
//!
//! ```text
//! plan ──► encode ──► complete ──► publish
//!    ▲          │ a type was wrong: survey, and again
//!    │          │ the rows are in no order: again, and sort
//!    └──────────┘ rows share a key: an error, or again without them
//! ```
//!
//! The first guess is the likely one and nearly always right; every turn back
//! costs one more pass over the input.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::build::{Build, BuildHalt, BuildOptions, Built, Conflict, Dropped, Joined, OnConflict};
use super::build::{Refused, RowOrder};
use super::locate::{Found, Wanted};
use super::monitor::Monitor;
use super::output::Output;
use super::pass::{Clock, Halt};
use super::plan::Plan;
use super::publish::Destination;
use super::rejects::Rejects;
use super::report::{ColumnReport, DryRun, Report, Stage};
use super::sqlite::{check_with_sqlite, complete_by_sql};
use super::target::Target;
use super::turns::lock;
use super::{Loader, OnError};
use crate::error::{BadRow, Error, ErrorKind, Result};
use crate::rights::Rights;
use crate::schema::shape::{EntryColumn, TableShape};

/// An input, as the flow drives it.
pub trait Feed {
    /// What is to be built, as far as is known.
    fn plan(&self) -> &Plan;

    /// Encodes all rows and joins them.
    fn encode(
        &mut self,
        build: &Build<'_>,
        joined: Joined,
        rejects: &Mutex<Rejects>,
    ) -> Result<(Joined, u64), Halt>;

    /// Looks at all values and decides the types for good.
    fn survey(&mut self, rejects: &Mutex<Rejects>) -> Result<u64>;

    /// Looks for columns that the input's beginning did not show.
    fn discover_columns(&mut self) -> Result<()>;

    /// Finds rows again; their sequences ascend.
    fn locate(&mut self, wanted: &[Wanted], found: &mut Found<'_>) -> Result<()>;

    /// The inputs' names, in their order.
    fn input_names(&self) -> Vec<String>;

    /// The columns and how their types came about.
    fn columns(&self) -> Vec<ColumnReport>;

    /// What a careful person would want to know.
    fn notes(&mut self) -> Vec<String>;

    /// Where the time went.
    fn clock(&self) -> Clock;

    /// Bytes of the input read in the last pass.
    fn bytes_read(&self) -> u64;
}

/// One load on its way.
struct Flow<'f> {
    loader: &'f Loader,
    feed: &'f mut dyn Feed,
    monitor: &'f Monitor,
    rejects: Mutex<Rejects>,
    target: Target,
}

/// What building came to.
struct Outcome {
    built: Built,
    shape: TableShape,
    order: RowOrder,
    rows_read: u64,
}

/// Loads what the feed gives; the database is complete and synced, or as it was.
///
/// `make` looks at the input's beginning; it is given the table as it was
/// declared by hand or stands in the database, and the page size.
pub fn load<F: Feed>(
    loader: &Loader,
    table: &str,
    monitor: &Monitor,
    make: impl FnOnce(Option<&TableShape>, usize) -> Result<F>,
) -> Result<Report> {
    let started = Instant::now();
    let rejects = Mutex::new(Rejects::create(&loader.on_error, Rights::of(&loader.database))?);
    let target = Target::open(loader, table)?;
    let staged = target.stage(loader)?;
    let mut feed = make(target.declared(), target.layout(loader)?.page_bytes())?;
    let mut flow = Flow { loader, feed: &mut feed, monitor, rejects, target };
    let output = Output::new(staged.file());
    let is_new = flow.target.is_new();
    let mut outcome = output.flushing(is_new, || flow.build(&output, staged.temporary()))?;
    complete_by_sql(staged.temporary(), &outcome.shape, outcome.order, loader.analyze)?;
    let syncing = Instant::now();
    if is_new {
        monitor.enter("syncing");
    }
    // Nothing is published before both are done.
    let check = || check_with_sqlite(staged.temporary(), &outcome.shape);
    let (checked, synced) = output.sync_beside(is_new, check);
    checked?;
    synced.map_err(|source| Error::io("sync", staged.temporary(), source))?;
    outcome.built.size.sync = syncing.elapsed();
    flow.reject_refused(&mut outcome)?;
    flow.publish(staged, outcome, started)
}

/// Looks at the input and says what a load would do; writes nothing.
pub fn dry_run<F: Feed>(
    loader: &Loader,
    table: &str,
    monitor: &Monitor,
    make: impl FnOnce(Option<&TableShape>, usize) -> Result<F>,
) -> Result<DryRun> {
    let target = Target::look(loader, table)?;
    let mut feed = make(target.declared(), target.layout(loader)?.page_bytes())?;
    let rejects = Mutex::new(Rejects::only_shown(DRY_RUN_REJECTS_MAX));
    monitor.enter("detecting types");
    let rows_read = feed.survey(&rejects)?;
    let mut rejects = rejects.into_inner().unwrap_or_else(PoisonError::into_inner);
    let (shape, order) = target.to_build(feed.plan())?;
    Ok(DryRun {
        create_sql: target.create_sql().unwrap_or_else(|| shape.create_sql()),
        table: target.table().to_owned(),
        columns: feed.columns(),
        rows_read,
        would_reject: rejects.count(),
        rejects: rejects.take_shown(),
        notes: feed.notes(),
        path: path(&shape, order, target.path_ahead()),
        plan: plan_ahead(loader, &shape, order, feed.bytes_read()),
    })
}

/// What a load would take, as far as it can be known before.
fn plan_ahead(
    loader: &Loader,
    shape: &TableShape,
    order: RowOrder,
    input_bytes: u64,
) -> Vec<String> {
    let mebibytes = |bytes: u64| bytes.div_ceil(1 << 20);
    let folder = super::publish::folder_of(&loader.database);
    let tmpdir = loader.tmpdir.clone().unwrap_or_else(|| folder.clone());
    let has_key = shape.key.is_some() || shape.rowid_column.is_some();
    let mut plan = Vec::new();
    let sorts = match order {
        RowOrder::ThroughSql => None,
        RowOrder::Unsorted | RowOrder::Renumbered => Some("the rows are sorted"),
        RowOrder::Ascending if has_key => Some("the rows are sorted if they are not in key order"),
        RowOrder::Ascending if shape.indexes.is_empty() => None,
        RowOrder::Ascending => Some("the indexes are sorted"),
    };
    if let Some(sorts) = sorts {
        plan.push(format!(
            "{sorts}, in up to {} MiB of memory; what exceeds that goes to temporary files in {}",
            mebibytes(loader.memory_bytes as u64),
            tmpdir.display()
        ));
    }
    // The file is about as large as the text, an index a third of it.
    let indexes = shape.indexes.len() as u64;
    let needed = input_bytes + input_bytes / 3 * indexes;
    let free = crate::storage::free_bytes(&folder);
    let free = free.map_or(String::new(), |free| format!(", {} MiB are free", mebibytes(free)));
    plan.push(format!(
        "about {} MiB are needed in {}{free}; as much again if temporary files are needed",
        mebibytes(needed),
        folder.display()
    ));
    plan
}

impl Flow<'_> {
    /// Encodes and builds, as often as it takes.
    fn build(&mut self, output: &Output, path: &Path) -> Result<Outcome> {
        let mut order = None;
        let mut dropped = Dropped::default();
        for _ in 0..ATTEMPTS_MAX {
            let (shape, expected) = self.target.to_build(self.feed.plan())?;
            let given = self.feed.plan().given.clone();
            let order_now = order.unwrap_or(expected);
            let layout = self.target.layout(self.loader)?;
            let options = BuildOptions {
                layout,
                threads: self.loader.threads,
                memory_bytes: self.loader.memory_bytes,
                tmpdir: self.tmpdir(path),
                on_conflict: self.on_conflict(order_now),
                analyze: self.loader.analyze,
                cancel: &self.loader.cancel,
                rows_done: &self.monitor.rows,
                output,
                path,
            };
            if shape.is_unique() || order_now == RowOrder::ThroughSql {
                // Rows that share a key are known late: to bring the rejects in
                // order, all of them wait.
                lock(&self.rejects).hold(self.feed.input_names());
            }
            let in_work = Build::new(&shape, &options, order_now, given, dropped.clone());
            self.monitor.enter(stage_of(order_now));
            let joined = in_work.start()?;
            let encoded = self.feed.encode(&in_work, joined, &self.rejects);
            let (joined, rows_read) = match encoded {
                Ok(encoded) => encoded,
                Err(Halt::Failed(error)) => return Err(error),
                Err(halt) => {
                    lock(&self.rejects).restart()?;
                    order = self.turn_back(&halt)?;
                    dropped = Dropped::default();
                    continue;
                }
            };
            if !shape.indexes.is_empty() || order_now == RowOrder::Unsorted {
                self.monitor.enter("sorting");
            }
            match in_work.complete(joined) {
                Ok(built) => {
                    if self.rejects_repeats() {
                        self.reject_dropped(&shape, &built.dropped)?;
                    }
                    return Ok(Outcome { built, shape, order: order_now, rows_read });
                }
                Err(BuildHalt::Failed(error)) => return Err(error),
                Err(BuildHalt::Conflict(conflict)) => {
                    return Err(self.conflict(&shape, conflict));
                }
                Err(BuildHalt::Again(rows)) => {
                    dropped = rows;
                    lock(&self.rejects).restart()?;
                }
            }
        }
        Err(Error::usage("the input's values changed between two readings"))
    }

    /// Mends the guess that turned out wrong; in which order the rows are, if known now.
    fn turn_back(&mut self, halt: &Halt) -> Result<Option<RowOrder>> {
        if let Halt::Unsorted = halt {
            return Ok(Some(RowOrder::Unsorted));
        }
        self.monitor.enter("detecting types");
        if let Halt::NewColumn = halt {
            self.feed.discover_columns()?;
        }
        self.feed.survey(&self.rejects)?;
        lock(&self.rejects).restart()?;
        Ok(None)
    }

    fn tmpdir(&self, path: &Path) -> PathBuf {
        self.loader.tmpdir.clone().unwrap_or_else(|| super::publish::folder_of(path))
    }

    /// Whether rows with a repeated key are bad rows, to be left out as such.
    fn rejects_repeats(&self) -> bool {
        self.loader.on_conflict == OnConflict::Abort && self.loader.on_error != OnError::Stop
    }

    fn on_conflict(&self, order: RowOrder) -> OnConflict {
        // SQLite itself refuses such rows, and says so of each.
        let rejects_here = self.rejects_repeats() && order != RowOrder::ThroughSql;
        if self.target.keeps_repeats() || rejects_here {
            OnConflict::Ignore
        } else {
            self.loader.on_conflict
        }
    }

    /// The error of two rows with the same key, which names both.
    fn conflict(&mut self, shape: &TableShape, conflict: Conflict) -> Error {
        let column = shape.constraint_columns(conflict.constraint).first().copied();
        let wanted = |sequence| Wanted { sequence, column, reason: String::new() };
        let wanted = [wanted(conflict.first), wanted(conflict.second)];
        let mut rows: Vec<BadRow> = Vec::new();
        let located = self.feed.locate(&wanted, &mut |_, bad_row, _| {
            rows.push(bad_row);
            Ok(())
        });
        if let Err(error) = located {
            return error;
        }
        let (Some(second), Some(first)) = (rows.pop(), rows.pop()) else {
            return Error::usage("two rows have the same key, but cannot be found again");
        };
        let reason = repeated(shape, conflict.constraint, &first.file, first.line, &second.file);
        Error::from(BadRow { reason, ..second }).to_do(
            "keep the first of such rows with --on-conflict ignore or the last with \
             --on-conflict replace, or leave them out as bad rows with --on-error skip",
        )
    }

    /// Rejects rows whose key was there already, each naming the row that has it.
    fn reject_dropped(&mut self, shape: &TableShape, dropped: &Dropped) -> Result<()> {
        if dropped.is_empty() {
            return Ok(());
        }
        let mut holders: Vec<u64> = dropped.rows().iter().map(|row| row.holder).collect();
        holders.sort_unstable();
        holders.dedup();
        let wanted: Vec<_> = holders
            .into_iter()
            .map(|sequence| Wanted { sequence, column: None, reason: String::new() })
            .collect();
        let mut lines = std::collections::HashMap::new();
        self.feed.locate(&wanted, &mut |sequence, row, _| {
            lines.insert(sequence, (row.file, row.line));
            Ok(())
        })?;
        let is_single = self.feed.input_names().len() <= 1;
        let rows = dropped.rows().iter().map(|row| {
            let (file, line) = lines.get(&row.holder).cloned().unwrap_or_default();
            // The row itself is not found yet, and may be in another file.
            let own_file = if is_single { file.as_str() } else { "" };
            Wanted {
                sequence: row.sequence,
                column: shape.constraint_columns(row.constraint).first().copied(),
                reason: repeated(shape, row.constraint, &file, line, own_file),
            }
        });
        self.reject(&rows.collect::<Vec<_>>())
    }

    /// Rejects rows that SQLite refused, or fails with the first of them.
    fn reject_refused(&mut self, outcome: &mut Outcome) -> Result<()> {
        let refused = std::mem::take(&mut outcome.built.refused);
        let rows = refused.into_iter().map(|Refused { sequence, reason }| Wanted {
            sequence,
            column: None,
            reason,
        });
        self.reject(&rows.collect::<Vec<_>>())?;
        lock(&self.rejects).release()
    }

    fn reject(&mut self, rows: &[Wanted]) -> Result<()> {
        if rows.is_empty() {
            return Ok(());
        }
        let rejects = &self.rejects;
        self.feed.locate(rows, &mut |_, bad_row, bytes| lock(rejects).add(bad_row, bytes))
    }

    /// Gives the finished file its name, or its rows their place in the database.
    fn publish(
        mut self,
        staged: Destination,
        outcome: Outcome,
        started: Instant,
    ) -> Result<Report> {
        let mut rejects = std::mem::replace(&mut self.rejects, Mutex::new(Rejects::only_shown(0)))
            .into_inner()
            .unwrap_or_else(PoisonError::into_inner);
        let rows_rejected = rejects.count();
        // While it can still fail with nothing changed.
        rejects.flush()?;
        let given = self.feed.plan().given_names();
        let Outcome { built, shape, order, rows_read } = outcome;
        let rows = (built.rows, order);
        let published = self.target.publish(self.loader, staged, rows, &given, self.monitor)?;
        rejects.keep();
        // Those that are bad rows have been counted as such.
        let rows_ignored = if self.rejects_repeats() {
            0
        } else {
            built.dropped.rows().len() as u64 + built.ignored
        };
        // Those of the input may be thousands.
        let mut notes = published.notes;
        notes.extend(self.feed.notes());
        Ok(Report {
            table: self.target.table().to_owned(),
            database: self.loader.database.clone(),
            create_sql: self.target.create_sql().unwrap_or_else(|| shape.create_sql()),
            rows_read,
            rows_loaded: published.rows.unwrap_or(built.rows),
            rows_rejected,
            rows_ignored: rows_ignored + published.rows_ignored,
            bytes_read: self.feed.bytes_read(),
            bytes_written: published.bytes.unwrap_or(built.size.bytes),
            pages: published.pages.unwrap_or(built.size.pages),
            spilled_bytes: built.spilled_bytes,
            elapsed: started.elapsed(),
            stages: stages(self.feed.clock(), &built, published.elapsed),
            columns: self.feed.columns(),
            notes,
            path: path(&shape, order, published.path.as_deref()),
        })
    }
}

/// Rows that a dry run shows of those that would be rejected.
const DRY_RUN_REJECTS_MAX: usize = 20;

/// A guess that is wrong in every respect is mended one by one: types, columns
/// (which may bring new ones), order, and rows that must go.
const ATTEMPTS_MAX: usize = 8;

fn stage_of(order: RowOrder) -> &'static str {
    if order == RowOrder::ThroughSql { "inserting" } else { "pressing" }
}

fn stages(clock: Clock, built: &Built, publish: Duration) -> Vec<Stage> {
    let stage = |name, duration: Duration| Stage { name, seconds: duration.as_secs_f64() };
    vec![
        stage("read", clock.read),
        stage("scan", clock.scan),
        stage("encode", clock.rows),
        stage("write", clock.write),
        stage("wait", clock.wait),
        stage("sort", built.sort),
        stage("sync", built.size.sync),
        stage("move in", publish),
    ]
}

/// How the rows went in, in words.
fn path(shape: &TableShape, order: RowOrder, published: Option<&str>) -> String {
    let mut path = match (order, &shape.through_sql) {
        (RowOrder::ThroughSql, Some(why)) => format!("SQL: {why}"),
        (RowOrder::ThroughSql, None) => "SQL".to_owned(),
        (RowOrder::Ascending, _) => "pressed".to_owned(),
        (RowOrder::Unsorted | RowOrder::Renumbered, _) => "sorted and pressed".to_owned(),
    };
    let by_sql = shape.indexes.iter().filter(|index| index.through_sql.is_some());
    if order != RowOrder::ThroughSql {
        for index in by_sql {
            let why = index.through_sql.as_deref().unwrap_or_default();
            let _ = write!(path, ", index {} through SQL: {why}", index.name);
        }
    }
    if let Some(published) = published {
        path.push_str(", ");
        path.push_str(published);
    }
    path
}

/// Says of a row that another one has its key.
fn repeated(
    shape: &TableShape,
    constraint: usize,
    first_file: &str,
    first_line: u64,
    file: &str,
) -> String {
    let columns = shape.constraint_columns(constraint);
    let names: Vec<_> =
        columns.iter().map(|&column| format!("{:?}", shape.columns[column].name)).collect();
    let place = if first_file == file {
        format!("line {first_line}")
    } else {
        format!("{first_file}, line {first_line},")
    };
    let what = if constraint == 0 { "primary key" } else { "unique value" };
    let (column, stands) = if names.len() == 1 { ("column", "its") } else { ("columns", "their") };
    format!("{column} {}: {place} has {stands} {what} already", names.join(", "))
}

impl TableShape {
    /// Whether any two rows must differ in something.
    pub fn is_unique(&self) -> bool {
        self.rowid_column.is_some()
            || self.key.is_some()
            || self.indexes.iter().any(|index| index.unique)
    }

    /// Whether no index is left to SQLite.
    pub fn is_pressed_whole(&self) -> bool {
        self.indexes.iter().all(|index| index.through_sql.is_none())
    }

    /// The columns of a constraint: 0 is the table's own key, then its indexes.
    pub fn constraint_columns(&self, constraint: usize) -> Vec<usize> {
        let entry = match constraint.checked_sub(1) {
            None => self.key.as_ref(),
            Some(index) => {
                let pressed = self.indexes.iter().filter(|index| index.through_sql.is_none());
                pressed.map(|index| &index.entry).nth(index)
            }
        };
        let Some(entry) = entry else { return self.rowid_column.into_iter().collect() };
        let columns = entry.columns.iter().take(entry.unique_columns);
        columns
            .filter_map(|column| match column {
                EntryColumn::Column(column) => Some(*column),
                EntryColumn::Rowid => self.rowid_column,
            })
            .collect()
    }

    /// All statements that declare it.
    pub fn create_sql(&self) -> String {
        let indexes = self.indexes.iter().filter_map(|index| index.sql.clone());
        let all: Vec<_> =
            std::iter::once(self.sql.clone()).chain(indexes).chain(self.beside.clone()).collect();
        all.join(";\n")
    }
}

/// A pass that can do no more than fail.
pub fn halted(halt: Halt) -> Error {
    match halt {
        Halt::Failed(error) => error,
        Halt::Refuted | Halt::Unsorted | Halt::NewColumn => {
            Error::from(ErrorKind::Usage("the input changed between two readings".to_owned()))
        }
    }
}
