//! CSV inputs: the feed that the flow drives.
//!
//! 1. The first block of the first input gives the columns, and a guess of
//!    their types; the other inputs must have the same columns.
//! 2. The **press** pass encodes by that guess, and checks it with every
//!    value. That is the only pass over nearly all inputs.
//! 3. If a value refutes the guess, a **survey** pass looks at all values.

mod as_rows;
mod first_row;
mod input;
mod locate;
mod pass;
mod press;
mod reading;
mod signs;
mod survey;

use std::collections::HashSet;
use std::sync::Mutex;

pub use self::as_rows::CsvRows;
pub use self::signs::missing_value_notes;

use self::input::{CsvInput, Opened, Opening};
use self::locate::LocateRecords;
use self::pass::{BlockRows, Carried, CsvBlocks, Reader, Scanned};
use self::press::{Press, PressedTable};
use self::signs::{with_columns, with_columns_of, with_dialect};
use self::survey::{Evidence, Survey};
use super::monitor::Monitor;
use super::options::{LoadOptions, OnError};
use super::report::{ChangedForm, ColumnReport, DecidedBy, changed_note};
use crate::error::{Error, Result};
use crate::input::source::Source;
use crate::load::passes::columns::{ColumnMap, TableColumns, inputs_differ, places_of_columns};
use crate::load::passes::feed::{Feed, FeedState, TableAhead, halted};
use crate::load::passes::frame::{Halt, Work};
use crate::load::passes::locate::{Found, Locate, Wanted};
use crate::load::passes::rejects::{Rejects, RejectsHead};
use crate::load::tree::{Build, Joined};
use crate::load::values::fields::{FieldRule, RejectsForm, RowRules, ValueSource};
use crate::schema::names::{ColumnName, column_named};
use crate::schema::shape::TableShape;
use crate::schema::{ColumnEvidence, ColumnType, RealRule, Verdict, Witness, shown_real};
use crate::sync::lock;

/// The CSV inputs of a load.
pub struct CsvFeed<'l, 's> {
    state: FeedState<'l>,
    page_bytes: usize,
    inputs: Vec<CsvInput<'s>>,
    rules: Vec<FieldRule>,
    /// Rule for real numbers, for each column.
    real_rules: Vec<RealRule>,
    evidence: Vec<ColumnEvidence>,
    /// True if the evidence comes from all values, not from a sample.
    is_surveyed: bool,
    changed: Vec<Option<ChangedForm>>,
    /// Notes about names of columns, of which there may be thousands: they come last.
    name_notes: Vec<String>,
}

impl<'l, 's> CsvFeed<'l, 's> {
    /// Reads the beginnings of the inputs and plans the table: as declared, or else made for the
    /// inputs.
    pub fn new(
        options: &'l LoadOptions,
        sources: Vec<Source<'s>>,
        table: &TableAhead<'_>,
        monitor: &'l Monitor,
    ) -> Result<Self> {
        let is_single = sources.len() == 1;
        let TableAhead { declared, page_bytes, .. } = *table;
        let opening = Opening { options, page_bytes, monitor, declared, is_single };
        let mut inputs = Vec::new();
        let (mut notes, mut name_notes) = (Vec::new(), Vec::new());
        let mut first: Option<(String, Vec<ColumnName>, ColumnMap)> = None;
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
                let sources = if declared.is_some() {
                    Ok(map.sources)
                } else if same_columns(&first_map.names, &map.names)? {
                    map.sources_for(&first_map.names)
                } else {
                    Err(inputs_differ(first_name, names, &name, &header.names))
                };
                input.sources = sources
                    .map_err(|error| with_columns_of(error, inputs.iter().chain([&input])))?;
                if let Some(first) = inputs.first() {
                    let second = (&input, &header.names[..]);
                    input.rejects = rejects_form(options, (first, names), second)?;
                }
            } else {
                name_notes = header.notes;
                input.sources.clone_from(&map.sources);
                first = Some((name, header.names, map));
            }
            notes.append(&mut input.reading.notes);
            inputs.push(input);
        }
        let Some((_, _, map)) = first else {
            return Err(Error::misuse("there is no input to load"));
        };
        let names = inputs.iter().map(|input| input.source.name().to_owned()).collect();
        let mut state = FeedState::new(options, monitor, names, table);
        state.notes = notes;
        let columns = map.names.len();
        let own: Vec<_> = inputs.iter().map(CsvInput::columns).collect();
        let taken = state.take_columns(map.names, &own, declared);
        taken.map_err(|error| with_columns_of(error, inputs.iter()))?;
        let mut feed = Self {
            state,
            page_bytes,
            inputs,
            rules: Vec::new(),
            real_rules: Vec::new(),
            evidence: vec![ColumnEvidence::default(); columns],
            is_surveyed: false,
            changed: vec![None; columns],
            name_notes,
        };
        let planned = feed.plan_columns(declared);
        planned.map_err(|error| with_columns_of(error, feed.inputs.iter()))?;
        if declared.is_none() {
            // After all that is wrong with the options, which may say more.
            let mut inputs = feed.inputs.iter();
            inputs.try_for_each(|it| it.reading.refuse_unsure(it.source.name()))?;
        }
        Ok(feed)
    }

    /// Plans the table, whose columns the caller's flags may name.
    fn plan_columns(&mut self, declared: Option<&TableShape>) -> Result<()> {
        self.real_rules = real_rules(self.state.options, &self.state.columns)?;
        match declared {
            Some(shape) => self.take_declared(shape),
            None => self.take_sample(),
        }
    }

    /// The rules of a table that was declared by hand.
    fn take_declared(&mut self, shape: &TableShape) -> Result<()> {
        self.rules = ColumnMap::declared_rules(shape);
        if let Some(column) = self.state.options.exact_columns.first() {
            return Err(Error::misuse(format!("the column '{column}' is declared"))
                .to_do("leave out its ⟦type⟧: 'exact' is for types that are found"));
        }
        for (name, given) in &self.state.options.types {
            let at = self.state.column(name)?;
            let is_rowid = self.rules[at] == FieldRule::Rowid;
            given.refuse_unless_fits(&shape.columns[at], is_rowid, shape.strict)?;
            if !is_rowid {
                self.rules[at] = FieldRule::of_given_in(*given, &shape.columns[at]);
            }
        }
        self.state.set_shape(shape.clone());
        Ok(())
    }

    /// The types that the first block suggests.
    fn take_sample(&mut self) -> Result<()> {
        self.state.find_key()?;
        let rule = |at| if self.state.is_text(at) { FieldRule::Text } else { FieldRule::Empty };
        self.rules = (0..self.state.columns.len()).map(rule).collect();
        for (name, given) in &self.state.options.types {
            let at = self.state.column(name)?;
            if self.state.key == Some(at) {
                given.refuse_for_rowid(name)?;
            }
            self.rules[at] = (*given).into();
        }
        if let Some(key) = self.state.key
            && self.rules[key] == FieldRule::Given(ColumnType::Integer)
        {
            self.rules[key] = FieldRule::Rowid;
        }
        // The sample leaves out the rows that the table will refuse.
        self.make_table()?;
        let rules = self.rules_of(0);
        if let Some(Opened { first: Some(block), index, .. }) = &self.inputs[0].first {
            let survey =
                Survey { rules: &rules, real_rules: &self.real_rules, input: 0, screen: true };
            let (dialect, has_header) = (rules.dialect, self.state.options.has_header());
            let rows = BlockRows::of_sample((block, index), dialect, has_header);
            self.evidence = survey.sample(&rows);
        }
        self.decide()
    }

    /// The rules for the rows of an input.
    fn rules_of(&self, input: usize) -> RowRules {
        let input = &self.inputs[input];
        let primary_key = self.rules.iter().position(|rule| *rule == FieldRule::Rowid);
        let options = self.state.options;
        RowRules::new(
            self.state.names(),
            self.rules.clone(),
            input.sources.clone(),
            input.fields,
            primary_key.filter(|key| self.state.plan.given[*key]),
            input.reading.dialect,
        )
        .null_markers(options.null_texts())
        .empty_is_null(options.empty_null)
        .ragged(options.csv.ragged)
        .trim(options.trim)
        .demands(self.state.demands())
        .rejects(input.rejects.clone())
    }

    /// Turns the evidence into rules and a declaration.
    fn decide(&mut self) -> Result<()> {
        for column in 0..self.rules.len() {
            if self.rules[column] == FieldRule::Empty {
                let evidence = &self.evidence[column];
                let column_type = if self.is_surveyed {
                    evidence.verdict().column_type
                } else {
                    evidence.guess()
                };
                self.rules[column] = self.rule_of(column, column_type);
            }
        }
        let may_be_rowid = |rule| matches!(rule, FieldRule::Integer | FieldRule::Empty);
        if let Some(key) = self.state.key.filter(|&key| may_be_rowid(self.rules[key])) {
            self.rules[key] = FieldRule::Rowid;
        }
        if let Some(key) = self.state.later_key.filter(|&key| may_be_rowid(self.rules[key])) {
            self.rules[key] = FieldRule::Integer;
        }
        self.make_table()
    }

    /// The rule of a column whose values have this type.
    fn rule_of(&self, column: usize, column_type: Option<ColumnType>) -> FieldRule {
        let is_exact = self.real_rules[column] == RealRule::Exact;
        match column_type {
            Some(ColumnType::Integer) => FieldRule::Integer,
            Some(ColumnType::Real) if self.state.options.all_text => FieldRule::Text,
            Some(ColumnType::Real) if is_exact => FieldRule::ExactReal,
            Some(ColumnType::Real) => FieldRule::Real,
            Some(ColumnType::Text | ColumnType::Blob) => FieldRule::Text,
            None => FieldRule::Empty,
        }
    }

    /// Plans a table with the types that the rules have so far.
    fn make_table(&mut self) -> Result<()> {
        let types = self.rules.iter().enumerate().map(|(at, rule)| {
            let is_uuid = matches!(self.inputs[0].sources[at], ValueSource::Uuid7(_));
            match self.state.options.uuid7 {
                Some((_, form)) if is_uuid => form.declared_type().to_owned(),
                _ => rule.declared_type().to_owned(),
            }
        });
        self.state.make_table(types.collect::<Vec<_>>().into_iter())
    }

    /// Undoes [`decide`](Self::decide).
    fn forget_types(&mut self) -> Result<()> {
        if self.state.is_declared {
            return Ok(());
        }
        let key_is_detected = self.state.key_is_detected();
        for (column, rule) in self.rules.iter_mut().enumerate() {
            let detected = match rule {
                FieldRule::Integer | FieldRule::Real | FieldRule::ExactReal | FieldRule::Text => {
                    !self.state.is_text(column)
                }
                FieldRule::Rowid => key_is_detected,
                _ => false,
            };
            if detected {
                *rule = FieldRule::Empty;
            }
        }
        // A key that is no rowid for now refuses empty fields like any column that is NOT NULL.
        self.make_table()
    }

    /// The input, opened at its start.
    fn open(&mut self, input: usize) -> Result<Opened<'s>> {
        let FeedState { options, monitor, .. } = self.state;
        let (page_bytes, is_single) = (self.page_bytes, self.inputs.len() == 1);
        let input = &mut self.inputs[input];
        let opening = Opening { options, page_bytes, monitor, declared: None, is_single };
        input.first.take().map_or_else(|| opening.open(&mut input.source, &input.reading), Ok)
    }

    /// One pass over one input.
    fn pass<W: Work<Scanned>>(
        &mut self,
        input: usize,
        (rules, screen): (&RowRules, bool),
        work: (&W, W::Joined),
        rejects: &Mutex<Rejects>,
    ) -> Result<(W::Joined, Carried), Halt> {
        let Opened { first, blocks, .. } = self.open(input)?;
        let CsvInput { source, reading, .. } = &self.inputs[input];
        let options = self.state.options;
        let pieces = CsvBlocks {
            file: source.name(),
            rules,
            screen,
            header: options.has_header(),
            record_bytes_max: options.csv.max_record_bytes,
        };
        let reader = (Reader { first, blocks }, source.is_stream());
        self.state.pass(&pieces, reader, work, rejects).map_err(|halt| match halt {
            Halt::Failed(error) => Halt::Failed(with_dialect(error, reading)),
            other => other,
        })
    }

    /// The value that decided a column's type, if that was found and not given.
    fn decided_by(&self, column: usize) -> Option<DecidedBy> {
        let evidence = &self.evidence[column];
        let Verdict { decided_by, reason, .. } = match self.rules[column] {
            // The first values alone may have suggested another type.
            FieldRule::Integer | FieldRule::Real | FieldRule::ExactReal | FieldRule::Empty => {
                evidence.as_number()
            }
            FieldRule::Text => evidence.verdict(),
            _ => return None,
        };
        self.state.decided_by(decided_by, reason)
    }

    fn changed_form(&self, changed: Option<(u64, &Witness, f64)>) -> Option<ChangedForm> {
        let (values, witness, number) = changed?;
        let becomes = shown_real(number);
        let Witness { line, ref value, .. } = *witness;
        let (file, value) = (self.state.file_of(witness.input), value.clone());
        Some(ChangedForm { values, file, line, value, becomes })
    }

    fn begin(&mut self, rejects: &Mutex<Rejects>) {
        if let Some(first) = self.inputs.first() {
            lock(rejects).set_head(RejectsHead {
                skip_lines: self.state.options.csv.skip_lines,
                delimiter: first.reading.dialect.delimiter(),
                is_csv: !self.state.options.is_database_text(),
            });
        }
        self.state.begin();
    }

    /// Keeps what a pass has found in an input.
    fn note(&mut self, input: usize, carried: &Carried) {
        let CsvInput { source, reading, .. } = &self.inputs[input];
        let ragged = self.state.options.csv.ragged;
        let notes = &mut self.state.notes;
        notes.extend(carried.strays.note(source.name()));
        notes.extend(carried.signs.notes(source.name(), reading, ragged));
        notes.extend(reading.late_notes(source.name()));
    }
}

impl Feed for CsvFeed<'_, '_> {
    fn state(&self) -> &FeedState<'_> {
        &self.state
    }

    fn encode(
        &mut self,
        build: &Build<'_>,
        joined: Joined,
        rejects: &Mutex<Rejects>,
    ) -> Result<(Joined, u64), Halt> {
        self.begin(rejects);
        let mut table = PressedTable::new(joined, self.rules.len());
        let mut all_carried = Vec::new();
        let screen = self.state.options.screens();
        for input in 0..self.inputs.len() {
            let rules = self.rules_of(input);
            let work =
                Press { rules: &rules, build, input, changed_before: table.changed_before() };
            let (joined, carried) = self.pass(input, (&rules, screen), (&work, table), rejects)?;
            table = joined;
            all_carried.push(carried);
        }
        if !self.is_surveyed && table.has_mixed_whole(&self.rules) {
            return Err(Halt::Refuted);
        }
        for column in 0..self.rules.len() {
            self.changed[column] = self.changed_form(table.changed(column));
        }
        for (input, carried) in all_carried.iter().enumerate() {
            self.note(input, carried);
        }
        Ok((table.joined, self.state.rows.read))
    }

    fn survey(&mut self, rejects: &Mutex<Rejects>) -> Result<u64> {
        self.begin(rejects);
        self.forget_types()?;
        let mut evidence = Evidence::new(&self.real_rules);
        let real_rules = self.real_rules.clone();
        for input in 0..self.inputs.len() {
            let rules = self.rules_of(input);
            let work = Survey { rules: &rules, real_rules: &real_rules, input, screen: false };
            let surveyed = self.pass(input, (&rules, true), (&work, evidence), rejects);
            let (joined, carried) = surveyed.map_err(halted)?;
            evidence = joined;
            self.note(input, &carried);
        }
        self.evidence = evidence.settled(|column, evidence| {
            let rule = self.rule_of(column, evidence.verdict().column_type);
            // A key without a value becomes the rowid.
            rule.is_text() && (rule == FieldRule::Text || self.state.key != Some(column))
        });
        self.is_surveyed = true;
        if !self.state.is_declared {
            self.decide()?;
        }
        for column in 0..self.rules.len() {
            let is_real = self.rules[column] == FieldRule::Real;
            let changed = self.evidence[column].changed().filter(|_| is_real);
            self.changed[column] = self.changed_form(changed);
        }
        Ok(self.state.rows.read)
    }

    fn is_all_read(&self) -> bool {
        let is_read = |input: &CsvInput<'_>| input.first.as_ref().is_some_and(Opened::is_all);
        self.inputs.iter().all(is_read)
    }

    fn locate(&mut self, wanted: &[Wanted], found: &mut Found<'_>) -> Result<()> {
        self.state.begin();
        // Bad rows were rejected before; here they are only left out again.
        let rejects = Mutex::new(Rejects::only_shown(0));
        let screen = self.state.options.screens();
        for input in 0..self.inputs.len() {
            let rules = self.rules_of(input);
            let work = LocateRecords { rules: &rules, locate: Locate::new(wanted, found) };
            self.pass(input, (&rules, screen), (&work, ()), &rejects).map_err(halted)?;
        }
        Ok(())
    }

    fn columns(&self) -> Vec<ColumnReport> {
        let report = |at: usize| ColumnReport {
            decided_by: self.decided_by(at),
            changed_form: self.changed[at].clone(),
            ..self.state.column_report(at)
        };
        (0..self.rules.len()).map(report).collect()
    }

    fn notes(&mut self) -> Vec<String> {
        let mut notes = std::mem::take(&mut self.state.notes);
        notes.extend(changed_note(&self.state.names(), &self.changed));
        notes.extend(missing_value_notes(&self.columns(), &self.state.options.null_texts()));
        notes.append(&mut self.name_notes);
        // A load may take several passes, each of which notes the same.
        let mut seen = HashSet::new();
        notes.retain(|note| seen.insert(note.clone()));
        notes
    }
}

/// Form in which rejected rows of an input are written behind the header of the first one, if they
/// are written, and not as they stand.
///
/// # Errors
/// [`ErrorKind::Misuse`](crate::ErrorKind::Misuse) if they cannot be written so.
fn rejects_form(
    options: &LoadOptions,
    (first, first_names): (&CsvInput<'_>, &[ColumnName]),
    (input, names): (&CsvInput<'_>, &[ColumnName]),
) -> Result<Option<RejectsForm>> {
    if !matches!(options.on_error, OnError::Skip { rejects: Some(_), .. }) {
        return Ok(None);
    }
    let refusal = |differ: &str| {
        let (first, input) = (first.source.name(), input.source.name());
        Error::misuse(format!(
            "{first} and {input} have {differ}, and the rejects have the header of {first} alone"
        ))
        .to_do("load them one by one, each with ⟦rejects⟧ of its own")
    };
    // Each of the first input's columns, found among this one's.
    let order = places_of_columns(TableColumns::Made(names), first_names)?;
    let order = order.into_iter().collect::<Option<Vec<usize>>>();
    let order = order
        .filter(|order| order.len() == names.len())
        .ok_or_else(|| refusal("different columns"))?;
    let (delimiter, dialect) = (first.reading.dialect.delimiter(), input.reading.dialect);
    let is_same = order.is_sorted() && delimiter == dialect.delimiter();
    if !is_same && dialect.quote().or(dialect.escape()).is_none() {
        return Err(refusal("another delimiter or order of columns, without a quote byte"));
    }
    let comment = input.reading.lines.comment;
    Ok((!is_same).then_some(RejectsForm { order, delimiter, comment }))
}

/// Returns true if two inputs have the same columns, in any order.
fn same_columns(first: &[ColumnName], other: &[ColumnName]) -> Result<bool> {
    let places = places_of_columns(TableColumns::Made(first), other)?;
    Ok(first.len() == other.len() && places.iter().all(Option::is_some))
}

/// Rule for real numbers, for each column.
fn real_rules(options: &LoadOptions, names: &[ColumnName]) -> Result<Vec<RealRule>> {
    let all = if options.exact { RealRule::Exact } else { RealRule::Value };
    let mut rules = vec![all; names.len()];
    for column in &options.exact_columns {
        rules[column_named(names, column)?] = RealRule::Exact;
    }
    Ok(rules)
}
