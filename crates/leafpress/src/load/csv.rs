//! CSV inputs, as the flow drives them.
//!
//! 1. The first block of the first input gives the columns, and a guess of
//!    their types; the other inputs must have the same columns.
//! 2. The **press** pass encodes by that guess, and checks it with every
//!    value. That is the only pass over nearly all inputs.
//! 3. If a value refutes the guess, a **survey** pass looks at all values.

use std::collections::HashSet;
use std::sync::Mutex;
use std::sync::atomic::Ordering;

use super::build::{Build, Joined, RowOrder};
use super::csv_input::{CsvInput, Opened, Opening};
use super::csv_reading::RejectsHead;
use super::demands::Demands;
use super::fields::{FieldRule, RejectsForm, RowRules, ValueSource};
use super::flow::{Feed, halted};
use super::locate::{Found, Locate, Wanted};
use super::monitor::Monitor;
use super::pass::{BlockRows, Clock, Halt, Pass, PassSummary, Reader, Work};
use super::plan::{ColumnMap, Plan, column_named, expected_order, inputs_differ, made_table};
use super::press::{Press, PressedTable};
use super::rejects::Rejects;
use super::report::{ChangedForm, ColumnReport, DecidedBy, changed_note};
use super::signs::{with_columns, with_columns_of, with_dialect};
use super::survey::Survey;
use super::turns::lock;
use super::uuid7::Uuid7Range;
use super::{Loader, OnError};
use crate::error::{Error, ErrorKind, Result};
use crate::input::block::Block;
use crate::input::csv::Dialect;
use crate::input::source::Source;
use crate::schema::shape::TableShape;
use crate::schema::{ColumnEvidence, ColumnType, RealRule, Verdict, Witness, shown_real};

/// The CSV inputs of a load.
pub struct CsvFeed<'l, 's> {
    loader: &'l Loader,
    monitor: &'l Monitor,
    page_bytes: usize,
    inputs: Vec<CsvInput<'s>>,
    names: Vec<String>,
    given: Vec<bool>,
    rules: Vec<FieldRule>,
    /// Which texts are reals, for each column.
    real_rules: Vec<RealRule>,
    evidence: Vec<ColumnEvidence>,
    /// Whether the evidence is that of all values.
    is_surveyed: bool,
    changed: Vec<Option<ChangedForm>>,
    /// The primary key, if it is one column that may become the rowid.
    key: Option<usize>,
    uuid7: Option<Uuid7Range>,
    is_declared: bool,
    plan: Plan,
    clock: Clock,
    notes: Vec<String>,
    /// Those about names of columns, of which there may be thousands: they come last.
    name_notes: Vec<String>,
    bytes_read: u64,
}

impl<'l, 's> CsvFeed<'l, 's> {
    /// Looks at the inputs' beginnings and plans the table: as it is declared,
    /// or else made for them.
    pub fn new(
        loader: &'l Loader,
        sources: Vec<Source<'s>>,
        declared: Option<&TableShape>,
        table: &str,
        page_bytes: usize,
        monitor: &'l Monitor,
    ) -> Result<Self> {
        let is_single = sources.len() == 1;
        let opening = Opening { loader, page_bytes, monitor, declared, is_single };
        let mut inputs = Vec::new();
        let (mut notes, mut name_notes) = (Vec::new(), Vec::new());
        let mut first: Option<(String, Vec<String>, ColumnMap)> = None;
        for source in sources {
            let (mut input, header) = opening.input(source)?;
            if !is_single && !input.source.is_stream() && first.is_some() {
                // Of many inputs only one is kept in memory.
                input.first = None;
            }
            let name = input.source.name().to_owned();
            let map = opening.map(&name, &header.names);
            let map = map.map_err(|error| with_columns(error, &input.reading))?;
            if let Some((first_name, names, first_map)) = &first {
                if declared.is_none() && !same_columns(&first_map.names, &map.names) {
                    let error = inputs_differ(first_name, names, &name, &header.names);
                    return Err(with_columns_of(error, inputs.iter().chain([&input])));
                }
                input.sources = map.in_order_of(&first_map.names);
                let dialect = input.reading.dialect;
                let first_dialect =
                    inputs.first().map_or(dialect, |it: &CsvInput<'_>| it.reading.dialect);
                input.rejects = rejects_form(names, first_dialect, &header.names, dialect);
            } else {
                name_notes = header.notes;
                input.sources.clone_from(&map.sources);
                first = Some((name, header.names, map));
            }
            notes.append(&mut input.reading.notes);
            inputs.push(input);
        }
        let Some((_, _, map)) = first else {
            return Err(Error::usage("there is no input to load"));
        };
        let mut feed = Self {
            loader,
            monitor,
            page_bytes,
            inputs,
            rules: Vec::new(),
            real_rules: Vec::new(),
            evidence: vec![ColumnEvidence::default(); map.names.len()],
            is_surveyed: false,
            changed: vec![None; map.names.len()],
            key: None,
            uuid7: loader.uuid7.as_ref().map(|_| Uuid7Range::now()),
            is_declared: declared.is_some(),
            plan: Plan {
                shape: TableShape::default(),
                given: map.given.clone(),
                order: RowOrder::Ascending,
            },
            names: map.names,
            given: map.given,
            clock: Clock::default(),
            notes,
            name_notes,
            bytes_read: 0,
        };
        let planned = feed.plan_columns(declared, table);
        planned.map_err(|error| with_columns_of(error, feed.inputs.iter()))?;
        Ok(feed)
    }

    /// Plans the table, whose columns the caller's flags may name.
    fn plan_columns(&mut self, declared: Option<&TableShape>, table: &str) -> Result<()> {
        self.real_rules = real_rules(self.loader, &self.names)?;
        match declared {
            Some(shape) => self.take_declared(shape),
            None => self.take_sample(table),
        }
    }

    /// The rules of a table that was declared by hand.
    fn take_declared(&mut self, shape: &TableShape) -> Result<()> {
        self.rules = ColumnMap::declared_rules(shape);
        if let Some(column) = self.loader.exact_columns.first() {
            return Err(Error::usage(format!("the column '{column}' is declared"))
                .to_do("leave out its --type: 'exact' is for types that are found"));
        }
        for (name, given) in &self.loader.types {
            let at = self.column(name)?;
            let is_rowid = self.rules[at] == FieldRule::Rowid;
            given.refuse_unless_fits(&shape.columns[at], is_rowid, shape.strict)?;
            if !is_rowid {
                self.rules[at] = *given;
            }
        }
        let order = expected_order(shape);
        self.plan = Plan { shape: shape.clone(), given: self.given.clone(), order };
        Ok(())
    }

    /// The types that the first block suggests.
    fn take_sample(&mut self, table: &str) -> Result<()> {
        let all = if self.loader.all_text { FieldRule::Text } else { FieldRule::Empty };
        self.rules = vec![all; self.names.len()];
        if let ([key], false) = (&self.loader.primary_key[..], self.loader.without_rowid) {
            let key = self.column(key)?;
            self.rules[key] = FieldRule::Empty;
            self.key = Some(key);
        }
        for (name, given) in &self.loader.types {
            let at = self.column(name)?;
            self.rules[at] = *given;
        }
        if let Some(key) = self.key
            && self.rules[key] == FieldRule::Given(ColumnType::Integer)
        {
            self.rules[key] = FieldRule::Rowid;
        }
        table.clone_into(&mut self.plan.shape.name);
        let rules = self.rules_of(0);
        if let Some(Opened { first: Some(block), index, .. }) = &self.inputs[0].first {
            let survey =
                Survey { rules: &rules, real_rules: &self.real_rules, input: 0, screen: true };
            let (dialect, has_header) = (rules.dialect, self.loader.has_header());
            let rows = BlockRows::of_sample((block, index), dialect, has_header);
            self.evidence = survey.sample(&rows);
        }
        self.decide()
    }

    /// A table's column by its name.
    fn column(&self, name: &str) -> Result<usize> {
        column_named(&self.names, name)
    }

    /// The rules for the rows of an input.
    fn rules_of(&self, input: usize) -> RowRules {
        let input = &self.inputs[input];
        let primary_key = self.rules.iter().position(|rule| *rule == FieldRule::Rowid);
        let demands = Demands {
            key_is_detected: self.key_is_detected(),
            uuid7: self.uuid7.clone(),
            ..Demands::of_table(self.loader, &self.plan.shape, !self.is_declared)
        };
        RowRules::new(
            self.names.clone(),
            self.rules.clone(),
            input.sources.clone(),
            input.fields,
            primary_key.filter(|key| matches!(input.sources[*key], ValueSource::Field(_))),
            input.reading.dialect,
        )
        .null_markers(self.loader.null_texts())
        .empty_is_null(self.loader.empty_null)
        .ragged(self.loader.csv.ragged)
        .trim(self.loader.trim)
        .demands(demands)
        .rejects(input.rejects.clone())
    }

    /// Whether the rowid is one by detection only.
    fn key_is_detected(&self) -> bool {
        self.key.is_some_and(|key| {
            let name = &self.names[key];
            !self.loader.types.iter().any(|(n, _)| n.eq_ignore_ascii_case(name))
        })
    }

    /// Turns the evidence into rules and a declaration.
    fn decide(&mut self) -> Result<()> {
        let columns = self.rules.iter_mut().zip(&self.real_rules).zip(&self.evidence);
        for ((rule, real_rule), evidence) in columns {
            if *rule == FieldRule::Empty {
                let column_type = if self.is_surveyed {
                    evidence.verdict().column_type
                } else {
                    evidence.guess()
                };
                *rule = match column_type {
                    Some(ColumnType::Integer) => FieldRule::Integer,
                    Some(ColumnType::Real) if *real_rule == RealRule::Exact => FieldRule::ExactReal,
                    Some(ColumnType::Real) => FieldRule::Real,
                    Some(ColumnType::Text | ColumnType::Blob) => FieldRule::Text,
                    None => FieldRule::Empty,
                };
            }
        }
        if let Some(key) = self.key
            && matches!(self.rules[key], FieldRule::Integer | FieldRule::Empty)
        {
            self.rules[key] = FieldRule::Rowid;
        }
        let columns = self.names.iter().zip(self.declared_types()).enumerate();
        let columns = columns.map(|(at, (name, declared))| {
            let is_uuid = matches!(self.inputs[0].sources[at], ValueSource::Uuid7(_));
            let declared = match self.loader.uuid7 {
                Some((_, form)) if is_uuid => form.declared_type(),
                _ => declared,
            };
            (name.clone(), declared.to_owned())
        });
        let shape = made_table(self.loader, &self.plan.shape.name, &columns.collect::<Vec<_>>())?;
        let order = expected_order(&shape);
        self.plan = Plan { shape, given: self.given.clone(), order };
        Ok(())
    }

    fn declared_types(&self) -> Vec<&'static str> {
        self.rules.iter().map(|rule| rule.declared_type()).collect()
    }

    /// Undoes [`decide`](Self::decide).
    fn forget_types(&mut self) {
        let key_is_detected = self.key_is_detected();
        for (column, rule) in self.rules.iter_mut().enumerate() {
            let detected = match rule {
                FieldRule::Integer | FieldRule::Real | FieldRule::ExactReal | FieldRule::Text => {
                    !self.loader.all_text || self.key == Some(column)
                }
                FieldRule::Rowid => key_is_detected,
                _ => false,
            };
            if detected && !self.is_declared {
                *rule = FieldRule::Empty;
            }
        }
    }

    /// The input, opened at its start.
    fn open(&mut self, input: usize) -> Result<Opened<'s>> {
        let Self { loader, page_bytes, monitor, .. } = *self;
        let is_single = self.inputs.len() == 1;
        let input = &mut self.inputs[input];
        if let Some(opened) = input.first.take() {
            return Ok(opened);
        }
        let opening = Opening { loader, page_bytes, monitor, declared: None, is_single };
        opening.open(&mut input.source, &input.reading)
    }

    /// One pass over one input.
    fn pass<W: Work>(
        &self,
        input: usize,
        opened: Opened<'s>,
        rows_before: u64,
        with: &With<'_, W>,
        joined: W::Joined,
    ) -> Result<(W::Joined, PassSummary), Halt> {
        let source = &self.inputs[input].source;
        let pass = Pass {
            file: source.name(),
            rules: with.rules,
            threads: self.loader.threads,
            cancel: &self.loader.cancel,
            rows_done: &self.monitor.rows,
            screen: with.screen,
            header: self.loader.has_header(),
            record_bytes_max: self.loader.csv.max_record_bytes,
            rows_before,
            reader: Mutex::new(Reader { first: opened.first, blocks: opened.blocks, claimed: 0 }),
        };
        let result = pass.run(with.work, joined, with.rejects);
        if let Err(Halt::Refuted | Halt::Unsorted) = result
            && source.is_stream()
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
        result.map_err(|halt| match halt {
            Halt::Failed(error) => Halt::Failed(with_dialect(error, &self.inputs[input].reading)),
            other => other,
        })
    }

    /// Whether bad rows are left out, and so looked for beforehand.
    fn screens(&self) -> bool {
        self.loader.on_error != OnError::Stop
    }

    /// The name of an input, where there are several.
    fn file_of(&self, witness: &Witness) -> Option<String> {
        (self.inputs.len() > 1).then(|| self.inputs[witness.input].source.name().to_owned())
    }

    /// The value that decided a column's type, if that was found and not given.
    fn decided_by(&self, column: usize) -> Option<DecidedBy> {
        let evidence = &self.evidence[column];
        let Verdict { decided_by, reason, .. } = match self.rules[column] {
            // The first values alone may have been of another opinion.
            FieldRule::Integer | FieldRule::Real | FieldRule::ExactReal | FieldRule::Empty => {
                evidence.as_number()
            }
            FieldRule::Text => evidence.verdict(),
            _ => return None,
        };
        let witness = decided_by?;
        let file = self.file_of(&witness);
        Some(DecidedBy { file, line: witness.line, value: witness.value, reason })
    }

    fn changed_form(&self, changed: Option<(u64, &Witness, f64)>) -> Option<ChangedForm> {
        let (values, witness, number) = changed?;
        let becomes = shown_real(number);
        let Witness { line, ref value, .. } = *witness;
        let (file, value) = (self.file_of(witness), value.clone());
        Some(ChangedForm { values, file, line, value, becomes })
    }

    fn begin(&mut self, rejects: &Mutex<Rejects>) {
        if let Some(first) = self.inputs.first() {
            lock(rejects).set_head(RejectsHead::of(self.loader, &first.reading));
        }
        self.bytes_read = 0;
        self.monitor.rows.store(0, Ordering::Relaxed);
    }

    fn count(&mut self, summary: &PassSummary) {
        self.clock.add(summary.clock);
        self.bytes_read += self.monitor.bytes_read.load(Ordering::Relaxed);
    }

    /// Notes what a pass over an input has shown.
    fn note(&mut self, input: usize, summary: &PassSummary) {
        let CsvInput { source, reading, .. } = &self.inputs[input];
        self.notes.extend(strays(summary));
        self.notes.extend(summary.signs.notes(source.name(), reading));
        self.notes.extend(reading.late_note(source.name()));
    }
}

/// A note about quotes where none belongs.
fn strays(summary: &PassSummary) -> Option<String> {
    let line = summary.first_stray_line?;
    let (quotes, stand) = match summary.stray_quotes {
        1 => ("1 quote".to_owned(), "stands"),
        n => (format!("{n} quotes"), "stand"),
    };
    let unclosed = summary.unclosed.map_or(String::new(), |place| {
        format!(
            ". Perhaps the quote that opens at line {}, column {} is never closed, and lines \
             behind it have become one field",
            place.line, place.column
        )
    });
    Some(format!(
        "{quotes} {stand} where none belongs, the first in line {line}; kept as text{unclosed}. If \
         the file escapes quotes with a backslash, load it with --escape '\\'"
    ))
}

/// What a pass is run with.
struct With<'w, W> {
    rules: &'w RowRules,
    work: &'w W,
    rejects: &'w Mutex<Rejects>,
    screen: bool,
}

impl Feed for CsvFeed<'_, '_> {
    fn plan(&self) -> &Plan {
        &self.plan
    }

    fn encode(
        &mut self,
        build: &Build<'_>,
        joined: Joined,
        rejects: &Mutex<Rejects>,
    ) -> Result<(Joined, u64), Halt> {
        self.begin(rejects);
        let mut table = PressedTable::new(joined, self.rules.len());
        let (mut rows_before, mut rows_read) = (0, 0);
        let mut summaries = Vec::new();
        for input in 0..self.inputs.len() {
            let rules = self.rules_of(input);
            let opened = self.open(input)?;
            let file = self.inputs[input].source.name().to_owned();
            let work = Press {
                file: &file,
                rules: &rules,
                build,
                key_is_detected: self.key_is_detected(),
                input,
                changed_before: table.changed_before(),
            };
            let with = With { rules: &rules, work: &work, rejects, screen: self.screens() };
            let (joined, summary) = self.pass(input, opened, rows_before, &with, table)?;
            table = joined;
            rows_before += summary.rows_good;
            rows_read += summary.rows_read;
            self.count(&summary);
            summaries.push(summary);
        }
        if !self.is_surveyed && table.has_mixed_whole(&self.rules) {
            return Err(Halt::Refuted);
        }
        for column in 0..self.rules.len() {
            self.changed[column] = self.changed_form(table.changed(column));
        }
        for (input, summary) in summaries.iter().enumerate() {
            self.note(input, summary);
        }
        Ok((table.joined, rows_read))
    }

    fn survey(&mut self, rejects: &Mutex<Rejects>) -> Result<u64> {
        self.begin(rejects);
        self.forget_types();
        let evidence = self.real_rules.iter().map(|rule| ColumnEvidence::new(*rule));
        let mut evidence: Vec<ColumnEvidence> = evidence.collect();
        let mut rows_read = 0;
        for input in 0..self.inputs.len() {
            let rules = self.rules_of(input);
            let opened = self.open(input)?;
            let real_rules = &self.real_rules;
            let work = Survey { rules: &rules, real_rules, input, screen: false };
            let with = With { rules: &rules, work: &work, rejects, screen: true };
            let (joined, summary) = self.pass(input, opened, 0, &with, evidence).map_err(halted)?;
            evidence = joined;
            rows_read += summary.rows_read;
            self.count(&summary);
            self.note(input, &summary);
        }
        self.evidence = evidence;
        self.is_surveyed = true;
        if !self.is_declared {
            self.decide()?;
        }
        for column in 0..self.rules.len() {
            let is_real = self.rules[column] == FieldRule::Real;
            let changed = self.evidence[column].changed().filter(|_| is_real);
            self.changed[column] = self.changed_form(changed);
        }
        Ok(rows_read)
    }

    fn discover_columns(&mut self) -> Result<()> {
        // A CSV input has as many columns as its header.
        Ok(())
    }

    fn locate(&mut self, wanted: &[Wanted], found: &mut Found<'_>) -> Result<()> {
        // Bad rows were rejected before; here they are only left out again.
        let rejects = Mutex::new(Rejects::only_shown(0));
        let mut rows_before = 0;
        for input in 0..self.inputs.len() {
            let rules = self.rules_of(input);
            let opened = self.open(input)?;
            let file = self.inputs[input].source.name().to_owned();
            let work = Locate { file: &file, rules: &rules, wanted, found: Mutex::new(found) };
            let with =
                With { rules: &rules, work: &work, rejects: &rejects, screen: self.screens() };
            let ((), summary) = self.pass(input, opened, rows_before, &with, ()).map_err(halted)?;
            rows_before += summary.rows_good;
        }
        Ok(())
    }

    fn input_names(&self) -> Vec<String> {
        self.inputs.iter().map(|input| input.source.name().to_owned()).collect()
    }

    fn columns(&self) -> Vec<ColumnReport> {
        let columns = self.names.iter().enumerate();
        columns
            .map(|(at, name)| {
                let declared = self.plan.shape.columns.get(at);
                ColumnReport {
                    name: name.clone(),
                    declared_type: declared.map_or(String::new(), |c| c.declared_type.clone()),
                    decided_by: self.decided_by(at),
                    changed_form: self.changed[at].clone(),
                }
            })
            .collect()
    }

    fn notes(&mut self) -> Vec<String> {
        let mut notes = std::mem::take(&mut self.notes);
        notes.extend(changed_note(&self.names, &self.changed));
        notes.append(&mut self.name_notes);
        // A load may take several passes, each of which notes the same.
        let mut seen = HashSet::new();
        notes.retain(|note| seen.insert(note.clone()));
        notes
    }

    fn clock(&self) -> Clock {
        self.clock
    }

    fn bytes_read(&self) -> u64 {
        self.bytes_read
    }
}

/// How rejected rows of an input are written behind the header of the first one.
fn rejects_form(
    first: &[String],
    first_dialect: Dialect,
    names: &[String],
    dialect: Dialect,
) -> Option<RejectsForm> {
    let place = |name: &String| names.iter().position(|it| it.eq_ignore_ascii_case(name));
    let order = first.iter().map(place).collect::<Option<Vec<usize>>>()?;
    let is_same = order.iter().enumerate().all(|(at, field)| at == *field)
        && first_dialect.delimiter() == dialect.delimiter();
    let delimiter = first_dialect.delimiter();
    (!is_same && order.len() == names.len()).then_some(RejectsForm { order, delimiter })
}

/// Whether two inputs have the same columns, in any order.
fn same_columns(first: &[String], other: &[String]) -> bool {
    first.len() == other.len()
        && other.iter().all(|name| first.iter().any(|n| n.eq_ignore_ascii_case(name)))
}

/// Which texts are reals, for each column.
fn real_rules(loader: &Loader, names: &[String]) -> Result<Vec<RealRule>> {
    let all = if loader.exact { RealRule::Exact } else { RealRule::Value };
    let mut rules = vec![all; names.len()];
    for column in &loader.exact_columns {
        rules[column_named(names, column)?] = RealRule::Exact;
    }
    Ok(rules)
}
