//! A CSV input to a table: from the first look to the published database.
//!
//! 1. The first block gives the columns, and a guess of their types.
//! 2. The **press** pass builds the table by that guess, and checks it with
//!    every value. That is the only pass over nearly all inputs.
//! 3. If a value refutes the guess, a **survey** pass looks at all values and
//!    the press begins anew, now knowing.
//! 4. If a primary key does not ascend, the rows go through SQL.

use std::path::Path;
use std::sync::atomic::Ordering;
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use leafpress_format::PageLayout;

use super::fields::{FieldRule, RowRules};
use super::insert::{self, Insert, InsertedTable};
use super::monitor::Monitor;
use super::output::Output;
use super::pages::FileSize;
use super::pass::{BlockRows, Clock, Halt, Pass, PassSummary, Reader, Work};
use super::press::{Press, PressedTable};
use super::publish::Destination;
use super::rejects::Rejects;
use super::report::{ColumnReport, DecidedBy, DryRun, Report, Stage};
use super::sqlite::{check_schema, check_with_sqlite};
use super::survey::Survey;
use super::turns::lock;
use super::{Loader, OnError};
use crate::error::{Error, ErrorKind, Result};
use crate::input::block::{
    BLOCK_BYTES_DEFAULT, Block, BlockOptions, BlockReader, record_bytes_limit,
};
use crate::input::csv::header::Header;
use crate::input::csv::{Dialect, FieldIndex, Scanner};
use crate::input::source::Source;
use crate::schema::{Column, ColumnEvidence, ColumnType, TableSchema, Verdict};

/// A run of leaves ends with each block and leaves half a page empty: the
/// larger the pages, the larger the blocks.
const BLOCK_PAGES_MIN: usize = 32;

/// Rows that a dry run shows of those that would be rejected.
const DRY_RUN_REJECTS_MAX: usize = 20;

/// One CSV input on its way.
pub struct CsvLoad<'l, 's> {
    loader: &'l Loader,
    source: Source<'s>,
    layout: PageLayout,
    dialect: Dialect,
    monitor: &'l Monitor,
    clock: Clock,
    notes: Vec<String>,
}

/// Column names and rules, and what is known of the detected ones.
struct Plan {
    rules: RowRules,
    evidence: Vec<ColumnEvidence>,
    schema: TableSchema,
}

/// The input, opened, with its first block read.
struct Opened<'s> {
    blocks: BlockReader<'s>,
    first: Option<Block>,
    index: FieldIndex,
}

impl<'l, 's> CsvLoad<'l, 's> {
    pub fn new(loader: &'l Loader, source: Source<'s>, monitor: &'l Monitor) -> Result<Self> {
        let layout = loader.layout()?;
        let csv = &loader.csv;
        let delimiter = csv.delimiter.unwrap_or_else(|| delimiter_by_name(source.name()));
        let dialect = Dialect::new(delimiter, csv.quote, csv.escape)?;
        Ok(Self {
            loader,
            source,
            layout,
            dialect,
            monitor,
            clock: Clock::default(),
            notes: Vec::new(),
        })
    }

    /// Loads the input; the database is complete and synced, or not there.
    pub fn load(mut self) -> Result<Report> {
        let started = Instant::now();
        let rejects = Mutex::new(Rejects::create(&self.loader.on_error)?);
        let destination = Destination::create(&self.loader.database)?;
        let opened = self.open()?;
        let mut plan = self.plan(&opened)?;
        self.take_sample(&opened, &mut plan);
        let mut pressed = self.press(opened, &plan, &rejects, &destination);
        let mut surveyed = false;
        if let Err(Halt::Refuted) = pressed {
            self.survey_anew(&mut plan, &rejects)?;
            surveyed = true;
            let opened = self.open()?;
            pressed = self.press(opened, &plan, &rejects, &destination);
        }
        let mut path = "pressed";
        let outcome = match pressed {
            Ok(outcome) => outcome,
            Err(Halt::Failed(error)) => return Err(error),
            Err(Halt::Unsorted) => {
                path = insert::WHY_UNSORTED;
                if surveyed {
                    lock(&rejects).restart()?;
                } else {
                    // The press stopped before the guess had met every value.
                    self.survey_anew(&mut plan, &rejects)?;
                }
                self.insert_by_sql(&plan, &rejects, &destination)?
            }
            Err(Halt::Refuted) => {
                let reason = "its values changed between two readings".to_owned();
                return Err(ErrorKind::Input { file: self.source.name().to_owned(), reason }.into());
            }
        };
        check_with_sqlite(destination.temporary(), &plan.schema)?;
        let mut rejects = rejects.into_inner().unwrap_or_else(PoisonError::into_inner);
        let rows_rejected = rejects.count();
        // While it can still fail with nothing changed.
        rejects.flush()?;
        destination.publish()?;
        rejects.keep();
        Ok(self.report(&plan, &outcome, rows_rejected, path, started))
    }

    /// Looks at the whole input and says what a load would do.
    pub fn dry_run(mut self) -> Result<DryRun> {
        let opened = self.open()?;
        let mut plan = self.plan(&opened)?;
        let rejects = Mutex::new(Rejects::only_shown(DRY_RUN_REJECTS_MAX));
        let summary = self.survey(opened, &mut plan, &rejects)?;
        self.note_strays(&summary);
        let mut rejects = rejects.into_inner().unwrap_or_else(PoisonError::into_inner);
        Ok(DryRun {
            create_sql: plan.schema.create_sql(),
            table: plan.schema.table.clone(),
            columns: plan.column_reports(),
            rows_read: summary.rows_read,
            would_reject: rejects.count(),
            rejects: rejects.take_shown(),
            notes: self.notes,
            path: "pressed",
        })
    }

    /// Opens the input and reads on until the first record is complete.
    fn open(&mut self) -> Result<Opened<'s>> {
        let raw = self.source.open(&self.monitor.bytes_read)?;
        self.monitor.set_total(raw.bytes_total());
        let csv = &self.loader.csv;
        let options = BlockOptions {
            block_bytes: BLOCK_BYTES_DEFAULT.max(BLOCK_PAGES_MIN * self.layout.page_bytes()),
            record_bytes_max: csv.max_record_bytes,
            encoding: csv.encoding.clone(),
        };
        let mut blocks = BlockReader::new(raw, &options)?;
        let mut first = Block::new();
        let mut index = FieldIndex::new();
        if !blocks.next(&mut first)? {
            return Ok(Opened { blocks, first: None, index });
        }
        let mut scanner = Scanner::new(self.dialect);
        scanner.begin(first.start(), &mut index);
        scanner.scan(first.bytes(), &mut index);
        let mut next = Block::new();
        let bytes_max = record_bytes_limit(csv.max_record_bytes);
        while index.record_ends().is_empty()
            && first.data().len() as u64 <= bytes_max
            && blocks.next(&mut next)?
        {
            first.append(&next);
            scanner.scan(first.bytes(), &mut index);
        }
        let is_blank = index.record_ends().is_empty()
            && scanner.incomplete_start(first.bytes(), &index).is_none();
        Ok(Opened { blocks, first: (!is_blank).then_some(first), index })
    }

    /// Columns and rules, before any value was looked at.
    fn plan(&mut self, opened: &Opened<'_>) -> Result<Plan> {
        let header = self.header(opened)?;
        self.notes.extend(header.notes);
        let loader = self.loader;
        let names = header.names;
        let find = |name: &str| {
            names.iter().position(|n| n.eq_ignore_ascii_case(name)).ok_or_else(|| {
                Error::usage(format!("there is no column '{name}'"))
                    .to_do(format!("the columns are: {}", names.join(", ")))
            })
        };
        let all = if loader.all_text { FieldRule::Text } else { FieldRule::Empty };
        let mut rules = vec![all; names.len()];
        for (name, column_type) in &loader.types {
            rules[find(name)?] = FieldRule::Given(*column_type);
        }
        let primary_key = loader.primary_key.as_deref().map(find).transpose()?;
        if let Some(key) = primary_key {
            if !matches!(rules[key], FieldRule::Given(ColumnType::Integer)) && rules[key] != all {
                return Err(Error::usage(format!(
                    "the primary key '{}' must be an INTEGER column for now",
                    names[key]
                )));
            }
            rules[key] = FieldRule::Rowid;
        }
        let schema = TableSchema {
            table: loader.table_name(self.source.name())?,
            columns: names.iter().map(|n| Column::new(n, ColumnType::Text)).collect(),
            primary_key,
            strict: loader.strict,
        };
        let rules = RowRules {
            names,
            rules,
            primary_key,
            null_markers: loader.null_markers.clone(),
            has_null_markers: !loader.null_markers.is_empty(),
            empty_is_null: loader.empty_null || loader.null_markers.iter().any(Vec::is_empty),
            ragged: loader.csv.ragged,
            dialect: self.dialect,
        };
        let evidence = vec![ColumnEvidence::default(); rules.rules.len()];
        let mut plan = Plan { rules, evidence, schema };
        plan.declare();
        check_schema(&plan.schema)?;
        Ok(plan)
    }

    /// The columns' names, from the header, the caller, or made up.
    fn header(&self, opened: &Opened<'_>) -> Result<Header> {
        let csv = &self.loader.csv;
        let file = self.source.name();
        let first_record = opened.first.as_ref().and_then(|block| {
            let span = opened.index.records(block.bytes(), block.start()).next()?;
            Some((block.bytes(), span))
        });
        let Some((bytes, span)) = first_record else {
            return match (&csv.columns, &opened.first) {
                (Some(names), _) => Ok(Header::from_names(names.iter().cloned())),
                (None, None) => Err(Error::from(ErrorKind::Input {
                    file: file.to_owned(),
                    reason: "the input is empty: there is not even a header".to_owned(),
                })
                .to_do("name the columns with --columns to make an empty table")),
                // The pass names the quote that is never closed, and ends with it.
                (None, Some(_)) if self.loader.on_error == OnError::Stop => Ok(Header::numbered(1)),
                (None, Some(_)) => Err(Error::from(ErrorKind::Input {
                    file: file.to_owned(),
                    reason: "the first record never ends, so nobody knows the columns".to_owned(),
                })
                .to_do("look at its quotes, or name them with --quote and --escape")),
            };
        };
        if let Some(names) = &csv.columns {
            if names.len() != span.field_ends.len() && csv.ragged == super::Ragged::Reject {
                return Err(Error::usage(format!(
                    "--columns names {} columns, but {file} has {}",
                    names.len(),
                    span.field_ends.len()
                )));
            }
            return Ok(Header::from_names(names.iter().cloned()));
        }
        if !csv.header {
            return Ok(Header::numbered(span.field_ends.len()));
        }
        let rules = RowRules::for_header(span.field_ends.len(), self.dialect);
        Header::from_record(file, rules.values(bytes, &span))
    }

    /// The types that the first block suggests.
    fn take_sample(&self, opened: &Opened<'_>, plan: &mut Plan) {
        let Some(block) = &opened.first else { return };
        let survey = Survey { rules: &plan.rules, screen: true };
        let rows = BlockRows::of_sample(block, &opened.index, self.has_header());
        plan.evidence = survey.sample(&rows);
        plan.decide();
    }

    /// Whether the input's first record holds names, wanted or not.
    fn has_header(&self) -> bool {
        self.loader.csv.header
    }

    fn pass<'p>(&'p self, rules: &'p RowRules, opened: Opened<'s>, screen: bool) -> Pass<'p, 's> {
        self.monitor.rows.store(0, Ordering::Relaxed);
        Pass {
            file: self.source.name(),
            rules,
            threads: self.loader.threads,
            cancel: &self.loader.cancel,
            rows_done: &self.monitor.rows,
            screen,
            header: self.has_header(),
            record_bytes_max: self.loader.csv.max_record_bytes,
            reader: Mutex::new(Reader { first: opened.first, blocks: opened.blocks, claimed: 0 }),
        }
    }

    /// Surveys the whole input once more, with no row rejected before or after.
    fn survey_anew(&mut self, plan: &mut Plan, rejects: &Mutex<Rejects>) -> Result<()> {
        lock(rejects).restart()?;
        let opened = self.open()?;
        self.survey(opened, plan, rejects)?;
        lock(rejects).restart()
    }

    /// Looks at all values and decides the types for good.
    fn survey(
        &mut self,
        opened: Opened<'s>,
        plan: &mut Plan,
        rejects: &Mutex<Rejects>,
    ) -> Result<PassSummary> {
        self.monitor.enter("detecting types");
        plan.forget_types(self.loader);
        let none = vec![ColumnEvidence::default(); plan.rules.rules.len()];
        let result = {
            let pass = self.pass(&plan.rules, opened, true);
            pass.run(&Survey { rules: &plan.rules, screen: false }, none, rejects)
        };
        let (evidence, summary) = result.map_err(halted)?;
        self.clock.add(summary.clock);
        plan.evidence = evidence;
        plan.decide();
        Ok(summary)
    }

    fn press(
        &mut self,
        opened: Opened<'s>,
        plan: &Plan,
        rejects: &Mutex<Rejects>,
        destination: &Destination,
    ) -> Result<Outcome, Halt> {
        self.monitor.enter("pressing");
        let output = Output::new(destination.file()?);
        let path = destination.temporary();
        let press = Press {
            file: self.source.name(),
            rules: &plan.rules,
            layout: self.layout,
            output: &output,
            path,
        };
        let table = PressedTable::new(self.layout, plan.rules.rules.len());
        let threads = self.loader.threads;
        let (table, summary) =
            output.flushing(|| self.run(&plan.rules, opened, &press, table, rejects, threads))?;
        self.monitor.enter("syncing");
        let size = table.pages.finish(&plan.schema, &output, path)?;
        Ok(self.outcome(&summary, summary.rows_good, size))
    }

    /// Rows that cannot be pressed as they come go through SQL.
    fn insert_by_sql(
        &mut self,
        plan: &Plan,
        rejects: &Mutex<Rejects>,
        destination: &Destination,
    ) -> Result<Outcome> {
        self.monitor.enter("inserting");
        let opened = self.open()?;
        let path = destination.temporary();
        let skips = self.loader.on_error != OnError::Stop;
        let insert = Insert {
            file: self.source.name(),
            rules: &plan.rules,
            skip_into: skips.then_some(rejects),
        };
        let table = InsertedTable::create(path, &plan.schema, self.layout)?;
        let mut threads = self.loader.threads;
        if skips {
            // Repeated keys are found later than other bad rows. To bring the
            // rejects in order, one block must be done with before the next.
            threads = 1;
            lock(rejects).hold();
        }
        let (table, summary) =
            self.run(&plan.rules, opened, &insert, table, rejects, threads).map_err(halted)?;
        lock(rejects).release()?;
        let rows_loaded = summary.rows_good - table.repeated_rows();
        self.monitor.enter("syncing");
        let size = table.finish(path)?;
        Ok(self.outcome(&summary, rows_loaded, size))
    }

    /// One pass that loads; bad rows are left out if that was asked for.
    fn run<W: Work>(
        &self,
        rules: &RowRules,
        opened: Opened<'s>,
        work: &W,
        joined: W::Joined,
        rejects: &Mutex<Rejects>,
        threads: usize,
    ) -> Result<(W::Joined, PassSummary), Halt> {
        let screen = self.loader.on_error != OnError::Stop;
        let pass = Pass { threads, ..self.pass(rules, opened, screen) };
        let result = pass.run(work, joined, rejects);
        if let Err(Halt::Refuted | Halt::Unsorted) = result
            && self.source.is_stream()
        {
            // The spool is whole only when the stream was read to its end.
            let mut blocks = pass.into_blocks();
            let mut block = Block::new();
            while blocks.next(&mut block)? {
                if self.loader.cancel.is_cancelled() {
                    return Err(Error::from(ErrorKind::Cancelled).into());
                }
            }
        }
        result
    }

    fn outcome(&mut self, summary: &PassSummary, rows_loaded: u64, size: FileSize) -> Outcome {
        self.clock.add(summary.clock);
        self.note_strays(summary);
        Outcome {
            rows_read: summary.rows_read,
            rows_loaded,
            bytes_read: self.monitor.bytes_read.load(Ordering::Relaxed),
            size,
        }
    }

    fn note_strays(&mut self, summary: &PassSummary) {
        let Some(line) = summary.first_stray_line else { return };
        let (quotes, stand) = match summary.stray_quotes {
            1 => ("1 quote".to_owned(), "stands"),
            n => (format!("{n} quotes"), "stand"),
        };
        self.notes.push(format!(
            "{quotes} {stand} where none belongs, the first in line {line}; kept as text. If the \
             file escapes quotes with a backslash, load it with --escape '\\'"
        ));
    }

    fn report(
        self,
        plan: &Plan,
        outcome: &Outcome,
        rows_rejected: u64,
        path: &'static str,
        started: Instant,
    ) -> Report {
        let clock = self.clock;
        let stage =
            |name, duration: std::time::Duration| Stage { name, seconds: duration.as_secs_f64() };
        Report {
            table: plan.schema.table.clone(),
            database: self.loader.database.clone(),
            create_sql: plan.schema.create_sql(),
            rows_read: outcome.rows_read,
            rows_loaded: outcome.rows_loaded,
            rows_rejected,
            bytes_read: outcome.bytes_read,
            bytes_written: outcome.size.bytes,
            pages: outcome.size.pages,
            elapsed: started.elapsed(),
            stages: vec![
                stage("read", clock.read),
                stage("scan", clock.scan),
                stage("encode", clock.rows),
                stage("write", clock.write),
                stage("wait", clock.wait),
                stage("sync", outcome.size.sync),
            ],
            columns: plan.column_reports(),
            notes: self.notes,
            path,
        }
    }
}

/// What a load brought about.
struct Outcome {
    rows_read: u64,
    rows_loaded: u64,
    bytes_read: u64,
    size: FileSize,
}

impl Plan {
    /// Turns the evidence into rules and declared types.
    fn decide(&mut self) {
        for (rule, evidence) in self.rules.rules.iter_mut().zip(&self.evidence) {
            if *rule == FieldRule::Empty {
                *rule = match evidence.verdict().column_type {
                    Some(ColumnType::Integer) => FieldRule::Integer,
                    Some(ColumnType::Real) => FieldRule::Real,
                    Some(ColumnType::Text | ColumnType::Blob) => FieldRule::Text,
                    None => FieldRule::Empty,
                };
            }
        }
        self.declare();
    }

    /// Undoes [`decide`](Self::decide).
    fn forget_types(&mut self, loader: &Loader) {
        for rule in &mut self.rules.rules {
            let detected = matches!(rule, FieldRule::Integer | FieldRule::Real | FieldRule::Text);
            if detected && !loader.all_text {
                *rule = FieldRule::Empty;
            }
        }
    }

    fn declare(&mut self) {
        for (column, rule) in self.schema.columns.iter_mut().zip(&self.rules.rules) {
            column.column_type = match rule {
                FieldRule::Integer | FieldRule::Rowid => ColumnType::Integer,
                FieldRule::Real => ColumnType::Real,
                FieldRule::Text | FieldRule::Empty => ColumnType::Text,
                FieldRule::Given(column_type) => *column_type,
            };
        }
    }

    fn column_reports(&self) -> Vec<ColumnReport> {
        let columns = self.schema.columns.iter().zip(&self.rules.rules).zip(&self.evidence);
        columns
            .map(|((column, rule), evidence)| {
                let Verdict { decided_by, reason, .. } = evidence.verdict();
                let detected = !matches!(rule, FieldRule::Given(_) | FieldRule::Rowid);
                ColumnReport {
                    name: column.name.clone(),
                    declared_type: column.column_type.name(),
                    decided_by: decided_by.filter(|_| detected).map(|witness| DecidedBy {
                        line: witness.line,
                        value: witness.value,
                        reason: reason.to_owned(),
                    }),
                }
            })
            .collect()
    }
}

/// A pass that can do no more than fail.
fn halted(halt: Halt) -> Error {
    match halt {
        Halt::Failed(error) => error,
        Halt::Refuted | Halt::Unsorted => {
            Error::usage("the input's values changed between two readings")
        }
    }
}

fn delimiter_by_name(name: &str) -> u8 {
    let bare = [".gz", ".zst"].iter().find_map(|end| name.strip_suffix(end)).unwrap_or(name);
    let extension = Path::new(bare).extension().unwrap_or_default();
    if extension.eq_ignore_ascii_case("tsv") || extension.eq_ignore_ascii_case("tab") {
        b'\t'
    } else {
        b','
    }
}
