//! Pressing and encoding of parts, on as many threads as allowed.
//!
//! A thread presses a part until a row comes out of order. Then, or where rows have to be sorted, it
//! encodes them, first those that it has pressed.
//!
//! Must never: press a row that breaks a rule of [`Row`], or go on with a part when an earlier one has
//! failed.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use leafpress_format::{
    FormatError, LeafRun, NumberText, PlacedLeaves, RECORD_BYTES_MAX, RecordWriter, Value,
};

use super::{LeftOut, PLACE_BITS, Part, bad_row};
use crate::cpu::with_wide_instructions;
use crate::error::{Error, ErrorKind, Result};
use crate::input::as_json::{separated, write_text, write_value};
use crate::load::file::pages::{refused, write_run};
use crate::load::monitor::Monitor;
use crate::load::options::{LoadOptions, OnError};
use crate::load::rows::fallible::Fault;
use crate::load::rows::replay::replay;
use crate::load::rows::row::{Row, TypedRecord, Written};
use crate::load::tree::{AddHalt, Build, BuildOptions, Encoder, Joined};
use crate::load::values::typed::TypedRules;
use crate::schema::Column;
use crate::sync::lock;
use crate::threads;

/// Bytes at which a run is written: a run that fits a core's own cache is built and written faster,
/// and the pages of a small load are written soon.
const RUN_BYTES: usize = 1 << 18;
/// Bytes of a part after which its runs get larger, which leaves fewer pages partly empty and makes
/// fewer notes.
const LARGE_PART_BYTES: usize = 1 << 22;
const LARGE_RUN_BYTES: usize = 1 << 20;
/// Smallest number of pages in a run: each run ends with a page partly empty.
const RUN_PAGES_MIN: usize = 32;

/// Number of rows between two looks at the cancel token.
const ROWS_BETWEEN_LOOKS: u64 = 4096;

/// State that all threads share.
pub(super) struct Pressing<'p> {
    pub(super) options: &'p LoadOptions,
    pub(super) columns: &'p [Column],
    pub(super) fault: &'p Fault,
    pub(super) key: Option<usize>,
    pub(super) rules: TypedRules,
    pub(super) build: &'p Build<'p>,
    pub(super) monitor: &'p Monitor,
    /// True if a row came out of order, so that pressing is of no use.
    pub(super) is_unsorted: AtomicBool,
    /// True if bad rows are left out. Rows without rowids are numbered one part after the other then, as
    /// a row that is left out takes no rowid.
    pub(super) skips: bool,
    pub(super) next_rowid: AtomicI64,
}

/// Reason why a row was not pressed.
enum PushHalt {
    Unsorted,
    Bad(String),
    /// Its implementation breaks this rule.
    Broken(&'static str),
}

impl From<String> for PushHalt {
    fn from(reason: String) -> Self {
        Self::Bad(reason)
    }
}

/// Guard of a thread that works on a part: if it panics, threads with later parts give them up.
struct FailOnPanic<'f> {
    part: usize,
    failed: &'f AtomicUsize,
}

impl Drop for FailOnPanic<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.failed.fetch_min(self.part, Ordering::Relaxed);
        }
    }
}

impl Pressing<'_> {
    /// Runs the parts on as many threads as allowed. Returns the first error in the order of the
    /// parts.
    pub(super) fn on_all_cores<I>(
        &self,
        parts: &mut [Part<I>],
        work: impl Fn(&mut Part<I>, &AtomicUsize) -> Result<u64> + Sync,
    ) -> Result<Vec<u64>>
    where
        I: Iterator<Item: Row + Send> + Send,
    {
        let in_turn = self.skips && parts.first().is_some_and(|part| part.first_rowid.is_some());
        let workers = if in_turn { 1 } else { self.options.threads.min(parts.len()) };
        let failed = AtomicUsize::new(usize::MAX);
        let outcomes: Mutex<Vec<(usize, Result<u64>)>> = Mutex::default();
        let waiting = Mutex::new(parts.iter_mut());
        let do_parts = || {
            loop {
                let Some(part) = lock(&waiting).next() else { break };
                let number = part.number;
                if number > failed.load(Ordering::Relaxed) {
                    break;
                }
                let _guard = FailOnPanic { part: number, failed: &failed };
                let outcome = work(part, &failed);
                let outcome = outcome.and_then(|rows| self.fault.take().map_or(Ok(rows), Err));
                // A part that is given up has fewer rows.
                let outcome = outcome.and_then(|rows| {
                    let is_over = self.is_over(number, &failed)?;
                    if is_over { Ok(()) } else { part.refuse_other_than_told(rows) }.map(|()| rows)
                });
                if outcome.is_err() {
                    failed.fetch_min(number, Ordering::Relaxed);
                }
                lock(&outcomes).push((number, outcome));
            }
        };
        std::thread::scope(|scope| {
            // This thread is one of the workers, and the only one where the system gives no other.
            let others = threads::start_workers(scope, workers.saturating_sub(1), || do_parts);
            do_parts();
            threads::join_all(others.unwrap_or_default());
        });
        let mut outcomes = outcomes.into_inner().unwrap_or_default();
        outcomes.sort_by_key(|(number, _)| *number);
        outcomes.into_iter().map(|(_, outcome)| outcome).collect()
    }

    /// Returns true if a thread has to give up its part.
    fn is_over(&self, part: usize, failed: &AtomicUsize) -> Result<bool> {
        if self.options.cancel.is_cancelled() {
            return Err(ErrorKind::Cancelled.into());
        }
        Ok(failed.load(Ordering::Relaxed) < part)
    }

    /// Presses a part until a row comes out of order; returns the number of its rows.
    pub(super) fn press<I>(
        &self,
        part: &mut Part<I>,
        failed: &AtomicUsize,
        joined: &Mutex<Joined>,
    ) -> Result<u64>
    where
        I: Iterator<Item: Row>,
    {
        with_wide_instructions(
            #[inline(always)]
            || self.press_inlined(part, failed, joined),
        )
    }

    #[inline(always)]
    fn press_inlined<I>(
        &self,
        part: &mut Part<I>,
        failed: &AtomicUsize,
        joined: &Mutex<Joined>,
    ) -> Result<u64>
    where
        I: Iterator<Item: Row>,
    {
        let layout = self.build.options.layout;
        let run_bytes_min = RUN_PAGES_MIN * layout.page_bytes();
        let mut run_bytes = RUN_BYTES.max(run_bytes_min);
        let mut written_bytes = 0;
        let mut run = LeafRun::new(layout, self.columns.len());
        let mut number = NumberText::new();
        let mut last_rowid = i64::MIN;
        let mut rows = 0_u64;
        self.number(part);
        // By reference: rows that are not pressed stay in the part.
        for row in part.rows.by_ref().take_while(|_| !self.options.cancel.is_cancelled()) {
            if self.skips
                && let Some(reason) = self.fault(&row)
            {
                if self.leave_out(&mut part.left_out, (part.number, rows), reason, &row, failed)? {
                    break;
                }
                continue;
            }
            let rowid = match part.first_rowid {
                Some(first) => first + rows as i64,
                None => self.key(&row, part.number, rows)?,
            };
            // A new run has no rowid before its first.
            let follows = rowid > last_rowid || rows == 0;
            let pushed = if follows {
                self.push(&mut run, rowid, &row, &mut number)
            } else {
                Err(PushHalt::Unsorted)
            };
            match pushed {
                Ok(()) => {}
                Err(PushHalt::Unsorted) => {
                    part.pending = Some(row);
                    self.is_unsorted.store(true, Ordering::Relaxed);
                    break;
                }
                Err(PushHalt::Bad(reason)) if self.skips => {
                    let place = (part.number, rows);
                    if self.leave_out(&mut part.left_out, place, reason, &row, failed)? {
                        break;
                    }
                    continue;
                }
                Err(PushHalt::Bad(reason)) => return Err(bad_part_row(part.number, rows, reason)),
                Err(PushHalt::Broken(rule)) => {
                    return Err(broken(part.number, rows + part.left_out.len() as u64, rule));
                }
            }
            rows += 1;
            last_rowid = rowid;
            if run.bytes() >= run_bytes {
                written_bytes += run.bytes();
                if written_bytes >= LARGE_PART_BYTES {
                    run_bytes = LARGE_RUN_BYTES.max(run_bytes_min);
                }
                self.flush(&mut run, (&mut part.leaves, &mut part.write), joined)?;
                if self.is_over(part.number, failed)? || self.is_unsorted.load(Ordering::Relaxed) {
                    break;
                }
            }
        }
        self.options.cancel.check()?;
        self.flush(&mut run, (&mut part.leaves, &mut part.write), joined)?;
        part.rows_pressed = rows;
        self.next_rowid.fetch_add(rows as i64, Ordering::Relaxed);
        Ok(rows)
    }

    /// Gives a part its first rowid, if only the parts before it tell that.
    fn number<I: Iterator>(&self, part: &mut Part<I>) {
        if self.skips && part.first_rowid.is_some() {
            part.first_rowid = Some(self.next_rowid.load(Ordering::Relaxed));
        }
    }

    /// The first fault of a row.
    #[inline(never)]
    fn fault(&self, row: &impl Row) -> Option<String> {
        if let Err(reason) = self.check_columns(row) {
            return Some(reason);
        }
        if let Some(column) = self.key
            && !matches!(row.value(column), Value::Integer(_))
        {
            return Some(NO_INTEGER.to_owned());
        }
        (0..self.columns.len()).find_map(|column| self.rules.fault_of(column, row.value(column)))
    }

    /// Leaves a bad row out, which comes behind this many good rows of its part. Returns true if the thread
    /// has to give up its part: bad rows alone make no run, after which it would look.
    #[cold]
    fn leave_out(
        &self,
        left_out: &mut Vec<LeftOut>,
        (part, good_rows): (usize, u64),
        reason: String,
        row: &impl Row,
        failed: &AtomicUsize,
    ) -> Result<bool> {
        let mut original = Vec::new();
        separated(b'{', b'}', 0..row.columns(), &mut original, |column, out| {
            match self.columns.get(column) {
                Some(known) => write_text(known.name.as_bytes(), out),
                None => write_text(format!("column{}", column + 1).as_bytes(), out),
            }
            out.push(b':');
            match row.value(column) {
                Value::Text(text) => write_text(String::from_utf8_lossy(text).as_bytes(), out),
                value => write_value(value, out),
            }
        });
        let index = good_rows + left_out.len() as u64;
        left_out.push(LeftOut { index, reason, original });
        let count = left_out.len() as u64;
        if let OnError::Skip { max_rejects: Some(limit), .. } = self.options.on_error
            && count > limit
        {
            return Ok(true);
        }
        Ok(count.is_multiple_of(ROWS_BETWEEN_LOOKS) && self.is_over(part, failed)?)
    }

    /// Encodes a part whose rows will be sorted; returns their number.
    pub(super) fn encode<I>(&self, part: &mut Part<I>, failed: &AtomicUsize) -> Result<u64>
    where
        I: Iterator<Item: Row>,
    {
        let mut encoder = Encoder::new(self.build);
        let mut number = NumberText::new();
        let base = (part.number as u64) << PLACE_BITS;
        self.number(part);
        let mut rows = self.encode_pressed(part, base, &mut encoder)?;
        let pending = part.pending.take().into_iter();
        let left = pending.chain(part.rows.by_ref());
        for row in left.take_while(|_| !self.options.cancel.is_cancelled()) {
            if self.skips
                && let Some(reason) = self.fault(&row)
            {
                if self.leave_out(&mut part.left_out, (part.number, rows), reason, &row, failed)? {
                    break;
                }
                continue;
            }
            let index = rows + part.left_out.len() as u64;
            let rowid = match (part.first_rowid, self.key) {
                (Some(first), _) => first + rows as i64,
                (None, Some(_)) => self.key(&row, part.number, rows)?,
                // No column has it. The sorter keeps this one in no byte.
                (None, None) => (base + index) as i64 + 1,
            };
            let whole = self.encode_row(&row, &mut encoder, &mut number);
            let added = whole.and_then(|()| match encoder.add(base + index, rowid) {
                Ok(()) => Ok(Ok(())),
                Err(AddHalt::TooLong(reason)) => Err(PushHalt::Bad(reason)),
                Err(AddHalt::Unsorted) => Err(PushHalt::Unsorted),
                Err(AddHalt::Failed(error)) => Ok(Err(error)),
            });
            match added {
                Ok(added) => added?,
                Err(PushHalt::Bad(reason)) if self.skips => {
                    let place = (part.number, rows);
                    if self.leave_out(&mut part.left_out, place, reason, &row, failed)? {
                        break;
                    }
                    continue;
                }
                Err(halt) => return Err(not_pressed(halt, part.number, index)),
            }
            rows += 1;
            if rows.is_multiple_of(ROWS_BETWEEN_LOOKS) {
                self.monitor.rows.fetch_add(ROWS_BETWEEN_LOOKS, Ordering::Relaxed);
                if self.is_over(part.number, failed)? {
                    break;
                }
            }
        }
        self.options.cancel.check()?;
        encoder.end()?;
        self.next_rowid.fetch_add(rows as i64, Ordering::Relaxed);
        Ok(rows)
    }

    /// Encodes a row, which is in no B-tree yet.
    fn encode_row(
        &self,
        row: &impl Row,
        encoder: &mut Encoder<'_>,
        number: &mut NumberText,
    ) -> Result<(), PushHalt> {
        let content_bytes = self.check(row)?;
        let mut written = Written::default();
        encoder.encode(self.rules.bytes_max(content_bytes), |record| {
            written = self.write(row, content_bytes, record, number);
        });
        self.whole(row, written)
    }

    /// Encodes the rows that were pressed before; returns their number.
    fn encode_pressed<I: Iterator>(
        &self,
        part: &Part<I>,
        base: u64,
        encoder: &mut Encoder<'_>,
    ) -> Result<u64> {
        let BuildOptions { layout, path, .. } = *self.build.options;
        let mut left_out = part.left_out.iter().map(|row| row.index).peekable();
        let (mut index, mut rows) = (0, 0);
        replay(path, layout, &part.leaves, |rowid, record| {
            while left_out.next_if_eq(&index).is_some() {
                index += 1;
            }
            encoder.take(record);
            encoder.add(base + index, rowid).map_err(|halt| not_added(halt, part.number, index))?;
            (index, rows) = (index + 1, rows + 1);
            Ok(())
        })?;
        Ok(rows)
    }

    fn check_columns(&self, row: &impl Row) -> Result<(), String> {
        let columns = self.columns.len();
        if row.columns() == columns {
            return Ok(());
        }
        Err(format!("the row has {} values, but the table has {columns} columns", row.columns()))
    }

    /// Checks what is known before a row is written; returns the limit of its text and blobs.
    #[inline(always)]
    fn check(&self, row: &impl Row) -> Result<usize, PushHalt> {
        self.check_columns(row)?;
        let content_bytes = row.content_bytes();
        if content_bytes as u64 > RECORD_BYTES_MAX {
            let bytes = content_bytes as u64;
            return Err(PushHalt::Bad(FormatError::RecordTooLong { bytes }.to_string()));
        }
        Ok(content_bytes)
    }

    /// Writes a row's record.
    #[inline(always)]
    fn write(
        &self,
        row: &impl Row,
        content_bytes: usize,
        record: &mut RecordWriter<'_>,
        number: &mut NumberText,
    ) -> Written {
        let limits = (self.columns.len(), content_bytes);
        TypedRecord::write_row((&self.rules, record), number, limits, row)
    }

    /// Checks what writing a row has shown.
    #[inline(always)]
    fn whole(&self, row: &impl Row, written: Written) -> Result<(), PushHalt> {
        match written {
            Written { misfit: None, broken: None } => Ok(()),
            Written { broken: Some(rule), .. } => Err(PushHalt::Broken(rule)),
            // Its values had no fault before.
            Written { misfit: Some(_), .. } if self.skips => Err(PushHalt::Broken(CHANGED)),
            Written { misfit: Some(column), .. } => Err(PushHalt::Bad(self.no_fit(row, column))),
        }
    }

    /// Presses one row.
    #[inline(always)]
    fn push(
        &self,
        run: &mut LeafRun,
        rowid: i64,
        row: &impl Row,
        number: &mut NumberText,
    ) -> Result<(), PushHalt> {
        let content_bytes = self.check(row)?;
        let mut written = Written::default();
        let pushed = run.push(
            rowid,
            self.rules.bytes_max(content_bytes),
            #[inline(always)]
            |record| written = self.write(row, content_bytes, record, number),
        );
        self.whole(row, written)?;
        pushed.map_err(|error| match error {
            FormatError::NotAscending { .. } => PushHalt::Unsorted,
            error => PushHalt::Bad(error.to_string()),
        })
    }

    /// Fault of a row whose value of a column does not fit.
    #[cold]
    fn no_fit(&self, row: &impl Row, column: usize) -> String {
        let fault = self.rules.fault_of(column, row.value(column));
        fault.unwrap_or_else(|| format!("column {:?}: a bad value", self.columns[column].name))
    }

    fn key(&self, row: &impl Row, part: usize, index: u64) -> Result<i64> {
        match self.key.map(|column| row.value(column)) {
            Some(Value::Integer(rowid)) => Ok(rowid),
            _ => Err(bad_part_row(part, index, NO_INTEGER.to_owned())),
        }
    }

    /// Numbers and writes a run.
    fn flush(
        &self,
        run: &mut LeafRun,
        (leaves, write): (&mut PlacedLeaves, &mut Duration),
        joined: &Mutex<Joined>,
    ) -> Result<()> {
        run.close();
        let started = Instant::now();
        let BuildOptions { layout, output, path, .. } = *self.build.options;
        let range = lock(joined).pages.place(run, leaves).map_err(|error| refused(error, path))?;
        write_run(run, &range, layout, output, path)?;
        self.monitor.rows.fetch_add(run.rows(), Ordering::Relaxed);
        run.clear();
        *write += started.elapsed();
        Ok(())
    }
}

/// Fault of a row without its rowid.
const NO_INTEGER: &str = "the primary key is no integer";
/// Rule of [`Row`] that an implementation breaks whose values had no fault when they were checked.
const CHANGED: &str = "Row::value must give the same value at each call";

/// The error for a row whose implementation breaks a rule.
#[cold]
fn broken(part: usize, index: u64, rule: &str) -> Error {
    Error::misuse(format!("row {} of part {}: {rule}", index + 1, part + 1))
        .to_do("correct the implementation of leafpress::load::Row")
}

fn not_pressed(halt: PushHalt, part: usize, index: u64) -> Error {
    match halt {
        PushHalt::Bad(reason) => bad_part_row(part, index, reason),
        PushHalt::Unsorted => bad_part_row(part, index, "the key does not ascend".to_owned()),
        PushHalt::Broken(rule) => broken(part, index, rule),
    }
}

fn not_added(halt: AddHalt, part: usize, index: u64) -> Error {
    match halt {
        AddHalt::Failed(error) => error,
        AddHalt::TooLong(reason) => bad_part_row(part, index, reason),
        AddHalt::Unsorted => bad_part_row(part, index, "the key does not ascend".to_owned()),
    }
}

#[cold]
fn bad_part_row(part: usize, index: u64, reason: String) -> Error {
    Error::from(bad_row(part, index, reason))
        .to_do("each row needs a value for each column that fits it, and may have 1 GB in all")
}
