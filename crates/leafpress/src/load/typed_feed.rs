//! Inputs of typed rows, as the flow drives them.
//!
//! Columns whose type their source does not tell are detected as for CSV: the
//! first batch gives a guess, every value checks it, and only a guess that is
//! refuted costs a look at all values.

use std::sync::atomic::Ordering;
use std::sync::{Mutex, PoisonError};

use leafpress_format::Affinity;

use super::build::{Build, Joined, RowOrder};
use super::demands::Demands;
use super::fields::FieldRule;
use super::flow::{Feed, halted};
use super::locate::{Found, Wanted};
use super::monitor::Monitor;
use super::pass::{Clock, Halt};
use super::plan::{ColumnMap, Plan, column_named, expected_order, inputs_differ, made_table};
use super::rejects::{Rejects, SHOWN_MAX};
use super::report::{ColumnReport, DecidedBy};
use super::sources::ValueSource;
use super::typed::{TypeRule, TypedEvidence, TypedRules};
use super::typed_pass::{BatchWork, Claims, TypedPass, TypedSummary};
use super::typed_work::{EncodeBatches, LocateBatches, SurveyBatches};
use super::uuid7::Uuid7Range;
use super::{Loader, OnError};
use crate::error::{BadRow, Error, ErrorKind, Result};
use crate::input::rows::{RowDecoder, RowReader, RowSource, SourceColumn};
use crate::rights::Rights;
use crate::schema::ColumnType;
use crate::schema::shape::{OwnedValue, TableShape};

/// Inputs of one kind.
pub struct TypedFeed<'l, S: RowSource> {
    loader: &'l Loader,
    monitor: &'l Monitor,
    inputs: Vec<Input<S>>,
    table: String,
    declared: Option<TableShape>,
    names: Vec<String>,
    given: Vec<bool>,
    rules: Vec<TypeRule>,
    /// What the sources say of the columns' declaration.
    source_types: Vec<Option<String>>,
    evidence: Vec<TypedEvidence>,
    /// The primary key, if it is one column that may become the rowid.
    key: Option<usize>,
    uuid7: Option<Uuid7Range>,
    plan: Plan,
    clock: Clock,
    notes: Vec<String>,
    bytes_read: u64,
}

struct Input<S: RowSource> {
    source: S,
    sources: Vec<ValueSource>,
    /// The first opening, with the batch that was looked at.
    first: Option<Opened<S>>,
}

struct Opened<S: RowSource> {
    reader: S::Reader,
    decoder: S::Decoder,
    batch: Option<<S::Decoder as RowDecoder>::Batch>,
}

impl<'l, S: RowSource> TypedFeed<'l, S> {
    /// Looks at the inputs' columns and plans the table: as it is declared, or
    /// else made for them.
    pub fn new(
        loader: &'l Loader,
        sources: Vec<S>,
        declared: Option<&TableShape>,
        table: &str,
        monitor: &'l Monitor,
    ) -> Result<Self> {
        if loader.exact || !loader.exact_columns.is_empty() {
            return Err(Error::usage("only CSV has texts that a number may not give back")
                .to_do("leave out --exact, and 'exact' as a --type"));
        }
        let inputs = sources.into_iter();
        let inputs = inputs.map(|source| Input { source, sources: Vec::new(), first: None });
        let mut feed = Self {
            loader,
            monitor,
            inputs: inputs.collect(),
            table: table.to_owned(),
            declared: declared.cloned(),
            names: Vec::new(),
            given: Vec::new(),
            rules: Vec::new(),
            source_types: Vec::new(),
            evidence: Vec::new(),
            key: None,
            uuid7: loader.uuid7.as_ref().map(|_| Uuid7Range::now()),
            plan: Plan {
                shape: TableShape::default(),
                given: Vec::new(),
                order: RowOrder::Ascending,
            },
            clock: Clock::default(),
            notes: Vec::new(),
            bytes_read: 0,
        };
        feed.map_columns()?;
        feed.take_sample()?;
        Ok(feed)
    }

    /// Finds the table's columns in the inputs.
    fn map_columns(&mut self) -> Result<()> {
        let mut names: Vec<String> = Vec::new();
        let mut first: Option<(String, ColumnMap)> = None;
        let mut source_types: Vec<Option<String>> = Vec::new();
        self.notes.clear();
        for input in &mut self.inputs {
            self.notes.extend(input.source.notes());
            let columns = input.source.columns();
            let own: Vec<String> = columns.iter().map(|column| column.name.clone()).collect();
            if own.is_empty() && self.declared.is_none() {
                // Without a row nobody knows its columns; others may tell.
                input.sources.clear();
                continue;
            }
            let map = match &self.declared {
                Some(shape) => ColumnMap::of_table(self.loader, input.source.name(), &own, shape)?,
                None => ColumnMap::of_input(self.loader, &own)?,
            };
            let declared_sql = |source: &ValueSource| {
                let column = columns.get(source.field()?)?;
                column.declared_sql.clone()
            };
            let Some((first_name, first_map)) = &mut first else {
                source_types = map.sources.iter().map(declared_sql).collect();
                input.sources.clone_from(&map.sources);
                names = own;
                first = Some((input.source.name().to_owned(), map));
                continue;
            };
            let in_first =
                |name: &String| first_map.names.iter().any(|n| n.eq_ignore_ascii_case(name));
            let new: Vec<String> = map.names.iter().filter(|n| !in_first(n)).cloned().collect();
            let is_short = map.names.len() - new.len() < first_map.names.len();
            if self.declared.is_none() && (!new.is_empty() || is_short) {
                if !S::HAS_OPTIONAL_COLUMNS {
                    return Err(inputs_differ(first_name, &names, input.source.name(), &own));
                }
                for name in new {
                    first_map.names.push(name);
                    first_map.given.push(true);
                    source_types.push(None);
                }
            }
            input.sources = map.in_order_of(&first_map.names);
        }
        let Some((_, map)) = first else {
            self.look_for_columns()?;
            return self.map_columns();
        };
        for input in &mut self.inputs {
            // Columns that only other inputs have are NULL here.
            input.sources.resize(map.names.len(), ValueSource::Constant(OwnedValue::Null));
        }
        self.evidence = vec![TypedEvidence::default(); map.names.len()];
        self.source_types = source_types;
        self.names = map.names;
        self.given = map.given;
        self.first_rules()
    }

    /// Reads inputs whose beginning shows no column: further on there may be some.
    ///
    /// # Errors
    /// Why there are none: the bad rows, or that there is no row.
    fn look_for_columns(&mut self) -> Result<()> {
        let rejects = match self.loader.on_error {
            OnError::Stop => {
                Rejects::create(&OnError::Stop, None, Rights::of(&self.loader.database))?
            }
            OnError::Skip { .. } => Rejects::only_shown(SHOWN_MAX),
        };
        let rejects = Mutex::new(rejects);
        let rules = TypedRules::new(Vec::new(), Vec::new(), Vec::new(), None);
        let mut rows_read = 0;
        for input in 0..self.inputs.len() {
            let opened = self.open(input)?;
            let work = SurveyBatches { rules: &rules, input };
            let screen = self.screens();
            let with = With { rules: &rules, work: &work, rejects: &rejects, screen };
            match self.pass(input, opened, 0, &with, Vec::new()) {
                Ok((_, summary)) => rows_read += summary.rows_read,
                Err(Halt::NewColumn) => {
                    let source = &mut self.inputs[input].source;
                    source.discover_columns(&self.monitor.bytes_read)?;
                    if !source.columns().is_empty() {
                        return Ok(());
                    }
                }
                Err(halt) => return Err(halted(halt)),
            }
        }
        let mut rejects = rejects.into_inner().unwrap_or_else(PoisonError::into_inner);
        let file = self.inputs.first().map_or("", |input| input.source.name()).to_owned();
        Err(no_columns(file, rows_read, rejects.count(), &rejects.take_shown()))
    }

    /// The rules that are known before any value was looked at.
    fn first_rules(&mut self) -> Result<()> {
        if let Some(shape) = &self.declared {
            let columns = shape.columns.iter().enumerate();
            self.rules = columns
                .map(|(at, column)| {
                    if shape.rowid_column == Some(at) {
                        TypeRule::Rowid
                    } else {
                        TypeRule::for_column(column, shape.strict, S::HAS_BLOBS)
                    }
                })
                .collect();
            let order = expected_order(shape);
            self.plan = Plan { shape: shape.clone(), given: self.given.clone(), order };
        } else {
            self.rules = (0..self.names.len()).map(|column| self.source_rule(column)).collect();
        }
        if let ([key], false, None) =
            (&self.loader.primary_key[..], self.loader.without_rowid, &self.declared)
        {
            let key = self.column(key)?;
            self.key = Some(key);
            if self.rules[key] == TypeRule::Affinity(Affinity::Integer) {
                // The rowid must be an integer: its values are looked at.
                self.rules[key] = TypeRule::Empty;
            }
        }
        for (name, given) in &self.loader.types {
            let at = self.column(name)?;
            let is_rowid = self.rules[at] == TypeRule::Rowid;
            if let Some(shape) = &self.declared {
                given.refuse_unless_fits(&shape.columns[at], is_rowid, shape.strict)?;
            }
            if !is_rowid {
                self.rules[at] = type_rule(*given, S::HAS_BLOBS);
            }
        }
        if let Some(key) = self.key
            && self.rules[key] == TypeRule::Given(ColumnType::Integer)
        {
            self.rules[key] = TypeRule::Rowid;
        }
        Ok(())
    }

    /// What the sources say of a column.
    fn source_rule(&self, column: usize) -> TypeRule {
        if self.loader.all_text && self.key != Some(column) {
            return TypeRule::Affinity(Affinity::Text);
        }
        let mut rule = None;
        for input in &self.inputs {
            let Some(field) = input.sources[column].field() else { continue };
            let declared = self.rule_of(&input.source.columns()[field]);
            match (rule, declared) {
                (None, Some(declared)) => rule = Some(declared),
                (Some(rule), Some(declared)) if rule == declared => {}
                _ => return TypeRule::Empty,
            }
        }
        rule.unwrap_or(TypeRule::Empty)
    }

    /// What a source says of a column. The table of another database may hold
    /// any value in any column, and the column made for it keeps its
    /// declaration: so its values stay what they are.
    fn rule_of(&self, column: &SourceColumn) -> Option<TypeRule> {
        match &column.declared_sql {
            Some(sql) if !self.loader.strict => {
                Some(TypeRule::Affinity(Affinity::of_declared_type(sql)))
            }
            _ => column.declared.map(TypeRule::for_source),
        }
    }

    fn column(&self, name: &str) -> Result<usize> {
        column_named(&self.names, name)
    }

    /// The name of an input, where there are several.
    fn file_of(&self, input: usize) -> Option<String> {
        (self.inputs.len() > 1).then(|| self.inputs[input].source.name().to_owned())
    }

    /// The types that the first batch suggests.
    fn take_sample(&mut self) -> Result<()> {
        if self.declared.is_some() {
            return Ok(());
        }
        let mut opened = self.open(0)?;
        if self.rules.contains(&TypeRule::Empty) {
            let mut raw = <S::Reader as RowReader>::Raw::default();
            if opened.reader.claim(&mut raw)? {
                let mut batch = <S::Decoder as RowDecoder>::Batch::default();
                if opened.decoder.decode(&mut raw, &mut batch).is_ok() {
                    let rules = self.rules_of(0);
                    self.evidence = SurveyBatches { rules: &rules, input: 0 }.sample(&batch);
                    opened.batch = Some(batch);
                } else {
                    // The pass will meet the same and say what it is.
                    return self.decide();
                }
            }
        }
        self.inputs[0].first = Some(opened);
        self.decide()
    }

    /// The rules for the rows of an input.
    fn rules_of(&self, input: usize) -> TypedRules {
        let demands = Demands {
            key_is_detected: self.key_is_detected(),
            uuid7: self.uuid7.clone(),
            ..Demands::of_table(self.loader, &self.plan.shape, self.declared.is_none())
        };
        let rowid = self.rules.iter().position(|rule| *rule == TypeRule::Rowid);
        let sources = self.inputs[input].sources.clone();
        let rowid = rowid.filter(|column| matches!(sources[*column], ValueSource::Field(_)));
        TypedRules::new(self.names.clone(), self.rules.clone(), sources, rowid).demands(demands)
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
        let strict = self.loader.strict;
        for (column, evidence) in self.evidence.iter().enumerate() {
            if self.rules[column] == TypeRule::Empty {
                self.rules[column] = evidence.verdict(strict).rule;
            }
        }
        if let Some(key) = self.key
            && matches!(self.rules[key], TypeRule::Integer | TypeRule::Empty)
        {
            self.rules[key] = TypeRule::Rowid;
        }
        if self.declared.is_some() {
            return Ok(());
        }
        let columns = (0..self.names.len())
            .map(|column| (self.names[column].clone(), self.declared_type(column)));
        let shape = made_table(self.loader, &self.table, &columns.collect::<Vec<_>>())?;
        let order = expected_order(&shape);
        self.plan = Plan { shape, given: self.given.clone(), order };
        Ok(())
    }

    /// A column's type in the declaration that is made.
    fn declared_type(&self, column: usize) -> String {
        if let (ValueSource::Uuid7(form), ()) = (&self.inputs[0].sources[column], ()) {
            return form.declared_type().to_owned();
        }
        if let Some(declared) = &self.source_types[column]
            && self.rules[column] != TypeRule::Rowid
            && !self.loader.strict
            && self.loader.types.iter().all(|(n, _)| !n.eq_ignore_ascii_case(&self.names[column]))
        {
            return declared.clone();
        }
        self.rules[column].declared_type(self.loader.strict).to_owned()
    }

    fn open(&mut self, input: usize) -> Result<Opened<S>> {
        let input = &mut self.inputs[input];
        if let Some(opened) = input.first.take() {
            return Ok(opened);
        }
        let (reader, decoder) = input.source.open(&self.monitor.bytes_read)?;
        self.monitor.set_total(reader.bytes_total());
        Ok(Opened { reader, decoder, batch: None })
    }

    /// One pass over one input.
    fn pass<W: BatchWork<<S::Decoder as RowDecoder>::Batch>>(
        &self,
        input: usize,
        opened: Opened<S>,
        rows_before: u64,
        with: &With<'_, W>,
        joined: W::Joined,
    ) -> Result<(W::Joined, TypedSummary), Halt> {
        let source = &self.inputs[input].source;
        let Opened { reader, decoder, batch } = opened;
        let pass = TypedPass {
            file: source.name(),
            rules: with.rules,
            decoder,
            threads: self.loader.threads,
            cancel: &self.loader.cancel,
            rows_done: &self.monitor.rows,
            screen: with.screen,
            rows_before,
            reader: Mutex::new(Claims { first: batch, reader, claimed: 0 }),
        };
        let result = pass.run(with.work, joined, with.rejects);
        if let Err(Halt::Refuted | Halt::Unsorted | Halt::NewColumn) = result
            && source.is_stream()
        {
            // What is copied aside is whole only when all of it was read.
            let mut reader = pass.into_reader();
            let mut raw = <S::Reader as RowReader>::Raw::default();
            while reader.claim(&mut raw)? {
                if self.loader.cancel.is_cancelled() {
                    return Err(Error::from(ErrorKind::Cancelled).into());
                }
            }
        }
        result
    }

    fn screens(&self) -> bool {
        self.loader.on_error != OnError::Stop
    }

    fn begin(&mut self) {
        self.bytes_read = 0;
        self.monitor.rows.store(0, Ordering::Relaxed);
    }

    fn count(&mut self, summary: &TypedSummary) {
        self.clock.add(summary.clock);
        self.bytes_read += self.monitor.bytes_read.load(Ordering::Relaxed);
    }
}

/// The error of an input in which no column was found.
fn no_columns(file: String, rows_read: u64, rows_bad: u64, bad: &[BadRow]) -> Error {
    let reason = if rows_bad > 0 {
        let shown: Vec<String> = bad.iter().map(ToString::to_string).collect();
        let shown = shown.join("\n");
        let which = match rows_bad {
            1 => "its only row is bad".to_owned(),
            _ if rows_bad > bad.len() as u64 => {
                format!("all of its {rows_bad} rows are bad; the first {}", bad.len())
            }
            _ => format!("all of its {rows_bad} rows are bad"),
        };
        format!("{which}, so that its columns are not known:\n{shown}")
    } else if rows_read > 0 {
        "its rows have no keys, so that its columns are not known".to_owned()
    } else {
        "there is no row in it, so that its columns are not known".to_owned()
    };
    Error::from(ErrorKind::Input { file, reason })
        .to_do("declare the table with --create to make it without a row")
}

/// What a pass is run with.
struct With<'w, W> {
    rules: &'w TypedRules,
    work: &'w W,
    rejects: &'w Mutex<Rejects>,
    screen: bool,
}

/// The rule for typed values that a caller's word for text stands for.
fn type_rule(given: FieldRule, has_blobs: bool) -> TypeRule {
    match given {
        FieldRule::Given(ColumnType::Blob) if !has_blobs => TypeRule::Hex,
        FieldRule::Given(column_type) => TypeRule::Given(column_type),
        FieldRule::Timestamp(form) => TypeRule::Timestamp(form),
        FieldRule::Boolean => TypeRule::Boolean,
        FieldRule::Numeric => TypeRule::Affinity(Affinity::Numeric),
        _ => TypeRule::Affinity(Affinity::Blob),
    }
}

impl<S: RowSource> Feed for TypedFeed<'_, S> {
    fn plan(&self) -> &Plan {
        &self.plan
    }

    fn encode(
        &mut self,
        build: &Build<'_>,
        mut joined: Joined,
        rejects: &Mutex<Rejects>,
    ) -> Result<(Joined, u64), Halt> {
        self.begin();
        let (mut rows_before, mut rows_read) = (0, 0);
        for input in 0..self.inputs.len() {
            let rules = self.rules_of(input);
            let opened = self.open(input)?;
            let key_is_detected = self.key_is_detected();
            let work = EncodeBatches { rules: &rules, build, key_is_detected };
            let with = With { rules: &rules, work: &work, rejects, screen: self.screens() };
            let (made, summary) = self.pass(input, opened, rows_before, &with, joined)?;
            joined = made;
            rows_before += summary.rows_good;
            rows_read += summary.rows_read;
            self.count(&summary);
        }
        Ok((joined, rows_read))
    }

    fn survey(&mut self, rejects: &Mutex<Rejects>) -> Result<u64> {
        self.begin();
        self.first_rules()?;
        let mut evidence = vec![TypedEvidence::default(); self.rules.len()];
        let mut rows_read = 0;
        for input in 0..self.inputs.len() {
            let rules = self.rules_of(input);
            let opened = self.open(input)?;
            let work = SurveyBatches { rules: &rules, input };
            let with = With { rules: &rules, work: &work, rejects, screen: true };
            let surveyed = self.pass(input, opened, 0, &with, evidence);
            let (joined, summary) = match surveyed {
                Err(Halt::NewColumn) => {
                    self.discover_columns()?;
                    return self.survey(rejects);
                }
                surveyed => surveyed.map_err(halted)?,
            };
            evidence = joined;
            rows_read += summary.rows_read;
            self.count(&summary);
        }
        self.evidence = evidence;
        self.decide()?;
        Ok(rows_read)
    }

    fn discover_columns(&mut self) -> Result<()> {
        for input in &mut self.inputs {
            input.first = None;
            input.source.discover_columns(&self.monitor.bytes_read)?;
        }
        self.map_columns()
    }

    fn locate(&mut self, wanted: &[Wanted], found: &mut Found<'_>) -> Result<()> {
        let rejects = Mutex::new(Rejects::only_shown(0));
        let mut rows_before = 0;
        for input in 0..self.inputs.len() {
            let rules = self.rules_of(input);
            let opened = self.open(input)?;
            let work = LocateBatches { wanted, found: Mutex::new(found) };
            let screen = self.screens();
            let with = With { rules: &rules, work: &work, rejects: &rejects, screen };
            let ((), summary) = self.pass(input, opened, rows_before, &with, ()).map_err(halted)?;
            rows_before += summary.rows_good;
        }
        Ok(())
    }

    fn input_names(&self) -> Vec<String> {
        self.inputs.iter().map(|input| input.source.name().to_owned()).collect()
    }

    fn reads_again(&self) -> bool {
        self.inputs.iter().all(|input| input.source.opens_again())
    }

    fn reads_database(&self) -> bool {
        S::READS_DATABASE
    }

    fn release(&mut self) {
        for input in &mut self.inputs {
            input.source.release();
        }
    }

    fn columns(&self) -> Vec<ColumnReport> {
        let columns = self.names.iter().zip(&self.evidence).enumerate();
        columns
            .map(|(at, (name, evidence))| {
                let verdict = evidence.verdict(self.loader.strict);
                let declared = self.plan.shape.columns.get(at);
                ColumnReport {
                    name: name.clone(),
                    declared_type: declared.map_or(String::new(), |c| c.declared_type.clone()),
                    decided_by: verdict.decided_by.map(|witness| DecidedBy {
                        file: self.file_of(witness.input),
                        line: witness.line,
                        value: witness.value,
                        reason: verdict.reason.to_owned(),
                    }),
                    changed_form: None,
                }
            })
            .collect()
    }

    fn notes(&mut self) -> Vec<String> {
        std::mem::take(&mut self.notes)
    }

    fn clock(&self) -> Clock {
        self.clock
    }

    fn bytes_read(&self) -> u64 {
        self.bytes_read
    }
}
