//! A load from beginning to end, for all inputs.
//!
//! ```text
//! plan ──► encode ──► complete ──► publish
//!    ▲          │ a type was wrong: survey, and again
//!    │          │ the rows are in no order: again, and sort
//!    └──────────┘ rows share a key: an error, or again without them
//! ```
//!
//! The first guess is nearly always right; every step back costs one more pass over the input.

mod dry_run;

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use leafpress_format::PageLayout;

pub use self::dry_run::dry_run;

use super::existing::{InsertHalt, Orphan, Refusals, RefusedRow, UNCHANGED, no_such_row};
use super::monitor::Monitor;
use super::options::{IntoTable, LoadOptions, OnConflict, OnError};
use super::preset::{Layout, Preset};
use super::refused::{RefusedRows, column_of, constraint, nothing_to_replace_by};
use super::report::{Report, Stage};
use super::target::{BuiltRows, Published, Target};
use crate::advice::spelled;
use crate::error::{BadRow, Error, ErrorKind, Result};
use crate::load::arranged;
use crate::load::file::output::Output;
use crate::load::file::pages::{FileSize, not_written, set_wal_mode};
use crate::load::passes::feed::{Feed, Input};
use crate::load::passes::frame::{Clock, Halt};
use crate::load::passes::locate::Wanted;
use crate::load::passes::rejects::{Rejects, Words};
use crate::load::tree::sqlite::{check_with_sqlite, complete_by_sql};
use crate::load::tree::{Build, BuildHalt, BuildOptions, Built, Conflict, Dropped};
use crate::load::tree::{Refused, RowOrder};
use crate::new_file::Destination;
use crate::rights::Rights;
use crate::schema::shape::TableShape;
use crate::sqlite_error::{broken_rule, is_fault_of_a_row};
use crate::sync::lock;

/// Bytes of a cell in an interior page over rows with rowids, at most.
const ROWID_CELL_BYTES: u64 = 15;
/// Bytes of a cell in an interior page of an index, if its entries are not long.
const ENTRY_BYTES: u64 = 192;
/// Pages for the schema and for the tables that SQLite itself has.
const SIDE_PAGES: u64 = 8;

/// Limit of attempts. A guess that is wrong in every respect is corrected step by step: types,
/// columns (which may bring new ones), order, and rows that must go.
const ATTEMPTS_MAX: usize = 8;

/// State of one load.
struct Flow<'f> {
    options: &'f LoadOptions,
    feed: &'f mut dyn Feed,
    monitor: &'f Monitor,
    rejects: Mutex<Rejects>,
    target: Target,
}

/// Result of the build.
struct Outcome {
    built: Built,
    shape: TableShape,
    order: RowOrder,
    rows_read: u64,
}

/// Loads the rows of the feed. Afterwards the database is complete and synced; after an error it is
/// unchanged.
///
/// The input's beginning is read as soon as the table is known.
pub fn load(options: &LoadOptions, input: Input<'_>, monitor: &Monitor) -> Result<Report> {
    let started = Instant::now();
    let (encoding, rights) = (options.csv.encoding.as_deref(), Rights::of(&options.database));
    let rejects = Mutex::new(Rejects::create(&options.on_error, encoding, rights)?);
    let target = Target::open(options, &input.table)?;
    if !input.is_short {
        target.let_go();
    }
    let staged = target.stage(options)?;
    let mut feed = (input.make)(&target.ahead(options)?)?;
    let mut flow = Flow { options, feed: &mut *feed, monitor, rejects, target };
    let output = Output::new(staged.file());
    let is_new = flow.target.is_new();
    let is_arranged = is_new && options.layout() == Layout::Remote;
    // A file that will be copied need not be synced.
    let is_durable = is_new && !(is_arranged && flow.input_bytes().is_none());
    let mut outcome = flow.stage(&output, staged.temporary(), is_durable)?;
    // Both stand for the copy then: what is written to the first file would be lost.
    let (staged, output) = if is_arranged {
        flow.arrange(staged, output, is_durable, &mut outcome)?
    } else {
        (staged, output)
    };
    if is_new && options.preset.is_some_and(Preset::is_wal) {
        set_wal_mode(&output, staged.temporary())?;
    }
    // Before the publication, as this may still fail.
    flow.settle_rejects()?;
    flow.feed.release();
    options.cancel.check()?;
    let published = if flow.target.is_table() {
        flow.insert(&output, staged.temporary(), &mut outcome)?
    } else if flow.target.is_new() {
        staged.publish()?;
        let path = is_arranged.then(|| "then its pages put in order for a network".to_owned());
        Published { path, ..Published::default() }
    } else {
        flow.move_in(&staged, &options.database, outcome.built.rows)?
    };
    Ok(flow.report(outcome, published, started))
}

/// The notes of a feed, with the options in them spelled.
fn spelled_notes(feed: &mut dyn Feed) -> Vec<String> {
    feed.notes().iter().map(|note| spelled(note)).collect()
}

impl Flow<'_> {
    /// Builds the file that holds the rows, and completes it. If SQLite cannot make an index of the rows
    /// that are there, it makes the index before they come, and so refuses them one by one.
    fn stage(&mut self, output: &Output, path: &Path, is_durable: bool) -> Result<Outcome> {
        match self.stage_once(output, path, is_durable) {
            Err(error)
                if is_fault_of_some_row(&error)
                    && self.feed.reads_again()
                    && self.target.make_indexes_first() =>
            {
                lock(&self.rejects).restart()?;
                self.stage_once(output, path, is_durable)
            }
            outcome => outcome,
        }
    }

    fn stage_once(&mut self, output: &Output, path: &Path, is_durable: bool) -> Result<Outcome> {
        // Few pages are synced at once at the end.
        let is_flushed = is_durable && !self.feed.is_all_read();
        let mut outcome = output.flushing(is_flushed, || self.build(output, path))?;
        let is_changed = complete_by_sql(path, &outcome.shape, outcome.order, self.options)?;
        if is_changed {
            let bytes =
                std::fs::metadata(path).map_err(|source| Error::io("read", path, source))?;
            let page_bytes = self.target.layout(self.options)?.page_bytes() as u64;
            let size = &mut outcome.built.size;
            (size.bytes, size.pages) = (bytes.len(), bytes.len() / page_bytes);
            size.is_arranged = false;
        }
        let syncing = Instant::now();
        if is_durable {
            self.monitor.enter("syncing");
        }
        // Nothing is published before both are done.
        let check = || check_with_sqlite(path, &outcome.shape);
        let (checked, synced) = output.sync_beside(is_durable, check);
        checked?;
        synced.map_err(|source| Error::io("sync", path, source))?;
        outcome.built.size.sync = syncing.elapsed();
        let refused = std::mem::take(&mut outcome.built.refused);
        self.reject_refused(&outcome.shape, refused)?;
        Ok(outcome)
    }

    /// Puts the pages of the built database in the order for readers at a distance: it is copied into
    /// another hidden file, unless it was built like that. It is built once more if larger pages are
    /// better. Returns the file that is to be published, and its output.
    fn arrange(
        &mut self,
        built: Destination,
        output: Output,
        is_durable: bool,
        outcome: &mut Outcome,
    ) -> Result<(Destination, Output)> {
        let options = self.options;
        self.monitor.enter("arranging pages");
        if options.page_bytes_are_open() && self.feed.reads_again() {
            let page_bytes = arranged::open(built.temporary())?.fitting_page_bytes()?;
            if page_bytes > options.page_bytes() {
                self.target.take_page_bytes(page_bytes);
                lock(&self.rejects).restart()?;
                *outcome = self.stage(&output, built.temporary(), is_durable)?;
            }
        }
        if is_durable && outcome.built.size.is_arranged {
            return Ok((built, output));
        }
        self.monitor.enter("arranging pages");
        let finished = arranged::open(built.temporary())?;
        let copy = Destination::create(&options.database, options.rights)?
            .tell_of_writes(options.listener.clone());
        let (path, output) = (copy.temporary(), Output::new(copy.file()));
        let size = output.flushing(true, || finished.arrange(&output, path, &options.cancel))?;
        drop(built);
        let syncing = Instant::now();
        self.monitor.enter("syncing");
        let check = || check_with_sqlite(path, &outcome.shape);
        let (checked, synced) = output.sync_beside(true, check);
        checked?;
        synced.map_err(|source| Error::io("sync", path, source))?;
        outcome.built.size = FileSize { sync: syncing.elapsed(), ..size };
        Ok((copy, output))
    }

    /// Bytes of all inputs, as far as they are known before the first is read.
    fn input_bytes(&self) -> Option<u64> {
        let inputs = self.feed.state().inputs.len().max(1) as u64;
        let first = self.monitor.bytes_total().filter(|&bytes| bytes > 0)?;
        Some(first.saturating_mul(inputs))
    }

    /// Pages to keep free for the schema and the interior pages of a file that is to have them in
    /// front. They should be enough: too few cost a copy of the file, and what is too much is left
    /// free in it.
    fn front_pages(&self, shape: &TableShape, layout: PageLayout) -> u32 {
        if !self.target.is_new() || self.options.layout() != Layout::Remote {
            return 0;
        }
        let Some(input_bytes) = self.input_bytes() else { return 0 };
        let page_bytes = layout.page_bytes() as u64;
        // A file is about as large as its text, and an index a third of it.
        let pages = input_bytes / page_bytes + 1;
        let above = |leaves: u64, cell_bytes: u64| leaves * cell_bytes / page_bytes + 2;
        let cell_bytes = if shape.key.is_some() { ENTRY_BYTES } else { ROWID_CELL_BYTES };
        let table = above(pages, cell_bytes);
        let indexes = shape.indexes.len() as u64 * above(pages / 2, ENTRY_BYTES);
        u32::try_from(table + indexes + SIDE_PAGES).unwrap_or(u32::MAX)
    }

    /// Moves the built table into the database. Temporary files go beside `path`.
    fn move_in(&mut self, staged: &Destination, path: &Path, rows: u64) -> Result<Published> {
        let moved = self.target.move_in(self.options, staged, rows, self.monitor);
        let Err(error) = moved else { return moved };
        if !matches!(error.kind(), ErrorKind::Constraint { .. }) || !self.feed.reads_again() {
            return Err(error);
        }
        Err(self.orphan(staged, path)?.unwrap_or(error))
    }

    /// The error of the first row with a foreign key without its parent row.
    fn orphan(&mut self, staged: &Destination, path: &Path) -> Result<Option<Error>> {
        self.target.keep_order();
        lock(&self.rejects).restart()?;
        let rows = Destination::staged(path)?;
        self.stage(&Output::new(rows.file()), rows.temporary(), false)?;
        self.feed.release();
        let found = self.target.find_orphan(self.options, staged, rows.temporary(), self.monitor);
        let Some(Orphan { number, column, parent }) = found else { return Ok(None) };
        let columns = &self.feed.state().plan.shape.columns;
        let wanted = [Wanted {
            sequence: number,
            column: columns.iter().position(|it| it.name.eq_ignore_ascii_case(&column)),
            reason: no_such_row(&parent),
        }];
        let mut row = None;
        self.feed.locate(&wanted, &mut |_, bad_row, _| {
            row = Some(bad_row);
            Ok(())
        })?;
        let advice =
            format!("load {parent} first, or leave the foreign key out of the declaration");
        Ok(row.map(|row| constraint(self.target.table(), row).on_disk(UNCHANGED).to_do(advice)))
    }

    /// Inserts the built rows into the existing table: all at once, or row by row if SQLite refuses
    /// some.
    fn insert(&mut self, output: &Output, path: &Path, outcome: &mut Outcome) -> Result<Published> {
        let replaces = self.options.into == Some(IntoTable::Replace);
        if replaces && outcome.built.rows == 0 && lock(&self.rejects).count() > 0 {
            return Err(self.nothing_to_replace_by());
        }
        let columns = self.feed.state().plan.given_names();
        let built = BuiltRows { file: path, rows: outcome.built.rows, columns: &columns };
        match self.target.insert(self.options, &built, outcome.order, self.monitor) {
            Ok(published) => return Ok(published),
            Err(InsertHalt::Failed(error)) => return Err(error),
            Err(InsertHalt::Refused(reason)) => tracing::debug!(reason, "row by row"),
        }
        let reads_again = self.feed.reads_again();
        if reads_again {
            // In the input's order, so that a row's ordinal is its sequence.
            self.target.keep_order();
            lock(&self.rejects).restart()?;
            *outcome = self.stage(output, path, false)?;
        }
        let Self { options, feed, monitor, rejects, target } = self;
        let built = BuiltRows { rows: outcome.built.rows, ..built };
        let reads_database = feed.reads_database();
        let stops = options.on_error == OnError::Stop;
        let mut refused = RefusedRows {
            table: target.table(),
            feed: &mut **feed,
            rejects,
            shape: &outcome.shape,
            reads_again,
            stops,
            may_choose_on_conflict: options.into == Some(IntoTable::Append),
            replaced_by: replaces.then_some(built.rows),
        };
        let mut decide = |rows: &[RefusedRow]| refused.decide(rows);
        let with_values = !reads_again;
        let mut refusals = Refusals { stops, with_values, reads_database, decide: &mut decide };
        target.insert_one_by_one(options, &built, &mut refusals, monitor)
    }

    fn nothing_to_replace_by(&self) -> Error {
        let inputs = &self.feed.state().inputs;
        nothing_to_replace_by(inputs, self.target.table(), &mut lock(&self.rejects))
    }

    /// Encodes and builds, again after each wrong guess.
    fn build(&mut self, output: &Output, path: &Path) -> Result<Outcome> {
        let mut order = None;
        let mut dropped = Dropped::default();
        for _ in 0..ATTEMPTS_MAX {
            // The last attempt's pages are read again, or written anew.
            output.drain().map_err(|source| not_written(path, source))?;
            let (shape, expected) = self.target.to_build(self.options, &self.feed.state().plan)?;
            let given = self.feed.state().plan.given.clone();
            let order_now = order.unwrap_or(expected);
            let layout = self.target.layout(self.options)?;
            let options = BuildOptions {
                layout,
                front_pages: self.front_pages(&shape, layout),
                threads: self.options.threads,
                memory_bytes: self.options.memory_bytes,
                tmpdir: self.tmpdir(path),
                on_conflict: self.on_conflict(order_now),
                refuses_repeats: self.rejects_repeats(),
                refused_max: lock(&self.rejects).listed_max(),
                indexes_first: self.target.makes_indexes_first(),
                analyze: self.options.analyze,
                cancel: &self.options.cancel,
                rows_done: &self.monitor.rows,
                output,
                path,
            };
            let is_found_late = order_now == RowOrder::ThroughSql || self.target.is_table();
            if shape.is_unique() || is_found_late {
                // Rows that share a key are found late. All rejects wait until then, so that they
                // can be written in order.
                lock(&self.rejects).hold(self.feed.state().inputs.clone());
            }
            let in_work = Build::new(&shape, &options, order_now, given, dropped.clone());
            self.monitor.enter(stage_of(order_now));
            let joined = in_work.start()?;
            let encoded = self.feed.encode(&in_work, joined, &self.rejects);
            let (joined, rows_read) = match encoded {
                Ok(encoded) => encoded,
                Err(Halt::Failed(error)) => return Err(error),
                Err(Halt::Refused(row)) => return Err(self.refused(&shape, row)),
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
                    let order = built.order;
                    return Ok(Outcome { built, shape, order, rows_read });
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
        Err(Error::changed("the input's values changed between two readings")
            .to_do("load it again once nothing writes to it any more"))
    }

    /// Corrects the guess that turned out wrong; returns the order of the rows, if known now.
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
        self.options.folder_beside(path)
    }

    /// Returns true if rows with a repeated key are bad rows, to be left out as such.
    fn rejects_repeats(&self) -> bool {
        self.wanted_on_conflict() == OnConflict::Abort && self.options.on_error != OnError::Stop
    }

    fn on_conflict(&self, order: RowOrder) -> OnConflict {
        // SQLite itself refuses such rows, and reports each of them.
        let rejects_here = self.rejects_repeats() && order != RowOrder::ThroughSql;
        // A table that is there decides itself about rows with the same key: all of them go on.
        if self.target.is_table() || rejects_here {
            OnConflict::Ignore
        } else {
            self.wanted_on_conflict()
        }
    }

    fn wanted_on_conflict(&self) -> OnConflict {
        if self.target.is_table() {
            self.options.on_conflict
        } else {
            self.options.on_conflict_in_new_table()
        }
    }

    /// The error for two rows with the same key, which names both.
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
            return Error::changed(
                "two rows had the same key, and are not in the input any more: it was changed",
            )
            .to_do("load it again once nothing writes to it any more");
        };
        let reason = repeated(shape, conflict.constraint, &first.file, first.line, &second.file);
        let code = match conflict.constraint {
            0 => rusqlite::ffi::SQLITE_CONSTRAINT_PRIMARYKEY,
            _ => rusqlite::ffi::SQLITE_CONSTRAINT_UNIQUE,
        };
        constraint(&shape.name, BadRow { reason, ..second }).caused_by(broken_rule(code)).to_do(
            "keep the first of such rows with ⟦on_conflict_ignore⟧ or the last with \
             ⟦on_conflict_replace⟧, or leave them out as bad rows with ⟦skip_bad_rows⟧",
        )
    }

    /// Rejects rows whose key was taken, each with the place of the row that has it.
    fn reject_dropped(&mut self, shape: &TableShape, dropped: &Dropped) -> Result<()> {
        if dropped.is_empty() {
            return Ok(());
        }
        let rows = dropped.rows();
        let rows = &rows[..rows.len().min(lock(&self.rejects).room())];
        let mut holders: Vec<u64> = rows.iter().map(|row| row.holder).collect();
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
        let is_single = self.feed.state().inputs.len() <= 1;
        let rows = rows.iter().map(|row| {
            let (file, line) = lines.get(&row.holder).cloned().unwrap_or_default();
            // The row itself is not found yet, and may be in another file.
            let own_file = if is_single { file.as_str() } else { "" };
            Wanted {
                sequence: row.sequence,
                column: shape.constraint_columns(row.constraint).first().copied(),
                reason: repeated(shape, row.constraint, &file, line, own_file),
            }
        });
        self.reject(&rows.collect::<Vec<_>>(), Words::Own)
    }

    /// Rejects rows that SQLite refused, or fails with the first of them.
    fn reject_refused(&mut self, shape: &TableShape, refused: Vec<Refused>) -> Result<()> {
        let refused = refused.into_iter().take(lock(&self.rejects).room());
        let rows = refused.map(|Refused { sequence, reason }| Wanted {
            sequence,
            column: column_of(shape, &reason),
            reason,
        });
        let rejected = self.reject(&rows.collect::<Vec<_>>(), Words::Sqlite);
        rejected.map_err(|error| match error.kind() {
            ErrorKind::BadRow(row) => constraint(&shape.name, (**row).clone()),
            _ => error,
        })
    }

    /// The error for the row that SQLite refused, and that ends the load.
    fn refused(&mut self, shape: &TableShape, row: Refused) -> Error {
        let rejected = self.reject_refused(shape, vec![row]);
        rejected.err().unwrap_or_else(|| Error::bug("a row that ends the load is left out"))
    }

    /// Sorts the bad rows, which are all known now, and writes them to their files.
    fn settle_rejects(&self) -> Result<()> {
        let mut rejects = lock(&self.rejects);
        rejects.release()?;
        rejects.flush()
    }

    fn reject(&mut self, rows: &[Wanted], words: Words) -> Result<()> {
        if rows.is_empty() {
            return Ok(());
        }
        let rejects = &self.rejects;
        self.feed.locate(rows, &mut |_, bad_row, bytes| lock(rejects).add(bad_row, bytes, words))
    }

    /// The report of the load.
    fn report(self, outcome: Outcome, published: Published, started: Instant) -> Report {
        // Rows that are bad rows have been counted as such.
        let is_rejected = self.rejects_repeats();
        let mut rejects = self.rejects.into_inner().unwrap_or_else(PoisonError::into_inner);
        let rows_rejected = rejects.count();
        let (shown, reject_reasons) = (rejects.take_shown(), rejects.take_reasons());
        rejects.keep();
        let Outcome { built, shape, order, rows_read } = outcome;
        let dropped = if is_rejected { 0 } else { built.dropped.rows().len() as u64 };
        // Notes about the input come last: there may be thousands.
        let mut notes = published.notes;
        notes.extend(spelled_notes(self.feed));
        Report {
            table: self.target.table().to_owned(),
            database: self.options.database.clone(),
            create_sql: self.target.create_sql().unwrap_or_else(|| shape.create_sql()),
            rows_read,
            rows_loaded: published.rows.unwrap_or(built.rows),
            rows_rejected,
            rejects: shown,
            reject_reasons,
            rows_ignored: dropped + built.ignored + published.rows_ignored,
            bytes_read: self.feed.state().bytes_read,
            bytes_written: published.bytes.unwrap_or(built.size.bytes),
            pages: published.pages.unwrap_or(built.size.pages),
            spilled_bytes: built.spilled_bytes,
            elapsed: started.elapsed(),
            stages: stages(self.feed.state().clock, &built, published.elapsed),
            columns: self.feed.columns(),
            given_columns: self.feed.state().plan.given_names(),
            notes,
            path: path(&shape, order, published.path.as_deref()),
        }
    }
}

/// Returns true if SQLite met a row that it cannot take, and does not say which.
fn is_fault_of_some_row(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::Sqlite { source, .. } if is_fault_of_a_row(source))
}

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

/// Way in which the rows went in, for the report.
fn path(shape: &TableShape, order: RowOrder, published: Option<&str>) -> String {
    let mut path = match (order, &shape.through_sql) {
        (RowOrder::ThroughSql, Some(why)) => format!("SQL: {why}"),
        (RowOrder::ThroughSql, None) => "SQL".to_owned(),
        (RowOrder::Ascending, _) => "pressed".to_owned(),
        (RowOrder::Unsorted | RowOrder::ByKey | RowOrder::ByRowidIfGiven, _) => {
            "sorted and pressed".to_owned()
        }
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

/// Reason for a row whose key another row has.
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
