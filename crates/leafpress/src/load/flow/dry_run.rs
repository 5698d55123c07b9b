//! A dry run: what a load would do, found by trying it with files that are removed afterwards.

use std::sync::{Mutex, PoisonError};

use super::{Flow, path, spelled_notes};
use crate::error::Result;
use crate::load::file::output::Output;
use crate::load::monitor::Monitor;
use crate::load::options::LoadOptions;
use crate::load::passes::feed::{FeedState, Input};
use crate::load::passes::rejects::Rejects;
use crate::load::report::DryRun;
use crate::load::target::Target;
use crate::load::tree::RowOrder;
use crate::new_file::Destination;
use crate::rights::Rights;
use crate::schema::shape::{EntryColumn, IndexShape, TableShape};
use crate::sync::lock;
use crate::vfs::text::bytes;
use crate::words::path_text;

/// Number of rejected rows that a dry run shows.
const DRY_RUN_REJECTS_MAX: usize = 20;

/// Bytes of a row, and of an entry of an index, beside their values, as an estimate.
const ROW_HEAD_BYTES: u64 = 6;
const ENTRY_HEAD_BYTES: u64 = 12;

/// Reports what a load would do, without a change of the database.
///
/// Single rows do not show everything, so the load is tried: the rows are built into a temporary
/// file as for a load, and rows for an existing table go into an overlay of the database.
pub fn dry_run(options: &LoadOptions, input: Input<'_>, monitor: &Monitor) -> Result<DryRun> {
    let target = Target::look(options, &input.table)?;
    let mut notes: Vec<String> = target.why_not_writable(options).into_iter().collect();
    let mut feed = (input.make)(&target.ahead(options)?)?;
    let (encoding, rights) = (options.csv.encoding.as_deref(), Rights::of(&options.database));
    let rejects = Rejects::create(&options.on_error, encoding, rights)?;
    let rejects = Mutex::new(rejects.showing(DRY_RUN_REJECTS_MAX));
    monitor.enter("detecting types");
    let mut rows_read = feed.survey(&rejects)?;
    let (shape, order) = target.to_build(options, &feed.state().plan)?;
    let mut flow = Flow { options, feed: &mut *feed, monitor, rejects, target };
    let mut path_ahead = flow.target.path_ahead().map(str::to_owned);
    if flow.must_be_tried(&shape) {
        let outcome = flow.try_it()?;
        rows_read = outcome.rows_read;
        path_ahead = outcome.path.or(path_ahead);
        notes.extend(outcome.notes);
    }
    let Flow { target, rejects, .. } = flow;
    target.refuse_unless_at_rest()?;
    let mut rejects = rejects.into_inner().unwrap_or_else(PoisonError::into_inner);
    notes.splice(0..0, spelled_notes(&mut *feed));
    let counted = Counted { rows: rows_read, bytes: size_of_text(feed.state()) };
    Ok(DryRun {
        create_sql: target.create_sql().unwrap_or_else(|| shape.create_sql()),
        table: target.table().to_owned(),
        columns: feed.columns(),
        rows_read,
        would_reject: rejects.count(),
        rejects: rejects.take_shown(),
        reject_reasons: rejects.take_reasons(),
        notes,
        path: path(&shape, order, path_ahead.as_deref()),
        plan: plan_ahead(options, &target, &shape, order, &counted)?,
    })
}

/// Result of a trial.
struct Tried {
    rows_read: u64,
    path: Option<String>,
    notes: Vec<String>,
}

impl Flow<'_> {
    /// Returns true if rows may be refused for reasons that a look at each row alone does not show.
    fn must_be_tried(&self, shape: &TableShape) -> bool {
        self.target.is_table()
            || self.target.checks_foreign_keys(shape)
            || shape.is_unique()
            || shape.through_sql.is_some()
            || !shape.is_pressed_whole()
            || shape.columns.iter().any(|column| column.not_null)
    }

    /// Does all that a load would do, with files that are removed afterwards.
    fn try_it(&mut self) -> Result<Tried> {
        lock(&self.rejects).restart()?;
        let folder = self.tmpdir(&self.options.database);
        let name = self.options.database.file_name().unwrap_or_default();
        let staged = Destination::tried(&folder.join(name))?;
        let output = Output::new(staged.file());
        let mut outcome = self.stage(&output, staged.temporary(), false)?;
        self.settle_rejects()?;
        let mut tried = Tried { rows_read: outcome.rows_read, path: None, notes: Vec::new() };
        if self.target.is_table() {
            self.feed.release();
            self.target.only_try(&folder)?;
            let published = self.insert(&output, staged.temporary(), &mut outcome)?;
            tried.notes = published.notes;
            tried.path = published.path.map(|path| format!("then {path}"));
        } else if self.target.checks_foreign_keys(&outcome.shape) {
            self.feed.release();
            self.target.only_try(&folder)?;
            self.move_in(&staged, &folder.join(name), outcome.built.rows)?;
        }
        Ok(tried)
    }
}

/// The input, as far as it was read.
struct Counted {
    rows: u64,
    bytes: u64,
}

/// Result that a load would have, as far as it can be known before.
fn plan_ahead(
    options: &LoadOptions,
    target: &Target,
    shape: &TableShape,
    order: RowOrder,
    input: &Counted,
) -> Result<Vec<String>> {
    let folder = crate::paths::folder_of(&options.database);
    let tmpdir = options.tmpdir.clone().unwrap_or_else(|| folder.to_owned());
    let has_key = shape.key.is_some() || shape.rowid_column.is_some();
    let mut plan = Vec::new();
    let sorts = match order {
        RowOrder::ThroughSql => None,
        RowOrder::Unsorted | RowOrder::ByKey | RowOrder::ByRowidIfGiven => {
            Some("the rows are sorted")
        }
        RowOrder::Ascending if has_key => Some("the rows are sorted if they are not in key order"),
        RowOrder::Ascending if shape.indexes.is_empty() => None,
        RowOrder::Ascending => Some("the indexes are sorted"),
    };
    if let Some(sorts) = sorts {
        plan.push(format!(
            "{sorts}, in up to {} of memory; what exceeds that goes to temporary files in {}",
            bytes(options.memory_bytes as u64),
            path_text(tmpdir)
        ));
    }
    // Estimate: a table has its text and the heads of its rows; an index its columns' share of the
    // text, and heads that name the rows too.
    let columns = shape.columns.len().max(1) as u64;
    let entries = |index: &IndexShape| {
        let held = index.entry.columns.iter().filter(|column| **column != EntryColumn::Rowid);
        input.bytes / columns * held.count() as u64 + input.rows * ENTRY_HEAD_BYTES
    };
    let indexes: u64 = shape.indexes.iter().map(entries).sum();
    // Each tree has a page at least, and so has the schema.
    let page_bytes = target.layout(options)?.page_bytes() as u64;
    let pages = (2 + shape.indexes.len() as u64) * page_bytes;
    let needed = input.bytes + input.rows * ROW_HEAD_BYTES + indexes + pages;
    let free = crate::storage::free_bytes(folder);
    let free = free.map_or(String::new(), |free| format!(", {} are free", bytes(free)));
    plan.push(format!(
        "about {} are needed in {}{free}; {} more if temporary files are needed",
        bytes(needed * target.times_written()),
        path_text(folder),
        bytes(needed)
    ));
    Ok(plan)
}

/// Bytes of the input as text, as far as is known: a file may be compressed.
fn size_of_text(state: &FeedState<'_>) -> u64 {
    state.bytes_read.max(state.rows.text_bytes)
}
