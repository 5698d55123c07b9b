//! Feed of typed rows, which the flow drives.
//!
//! Columns whose source does not declare their types are detected as for CSV: the first batch gives
//! a guess, every value checks it, and only a refuted guess costs a pass over all values.

pub mod fallible;
pub mod parts;
mod pass;
mod replay;
pub mod row;
pub mod sqlite_source;
mod work;

use std::collections::HashSet;
use std::sync::{Mutex, PoisonError};

use leafpress_format::Affinity;

use self::pass::{BatchOf, RawOf, TypedBatches, TypedReader};
use self::work::{EncodeBatches, SurveyBatches};
use super::monitor::Monitor;
use super::options::{GivenType, LoadOptions, OnError};
use super::report::ColumnReport;
use crate::error::{BadRow, Error, ErrorKind, Result};
use crate::input::rows::{DecodeHalt, RowDecoder, RowReader, RowSource, SourceColumn, ValueKinds};
use crate::load::csv::missing_value_notes;
use crate::load::passes::columns::{
    ColumnMap, InputColumns, OwnColumns, TableColumns, inputs_differ, is_about_columns,
    no_column_is_left, places_of_columns,
};
use crate::load::passes::feed::{Feed, FeedState, TableAhead, halted};
use crate::load::passes::frame::{Halt, Work};
use crate::load::passes::locate::{Found, Locate, Wanted};
use crate::load::passes::rejects::{Rejects, SHOWN_MAX};
use crate::load::tree::{Build, Joined};
use crate::load::values::sources::ValueSource;
use crate::load::values::typed::{TypeRule, TypedEvidence, TypedRules};
use crate::rights::Rights;
use crate::schema::ColumnType;
use crate::schema::names::{ColumnName, listed, name_beside};
use crate::schema::shape::{OwnedValue, TableShape};
use crate::words::counted;

/// Inputs of one kind.
pub struct TypedFeed<'l, S: RowSource> {
    state: FeedState<'l>,
    inputs: Vec<Input<S>>,
    declared: Option<TableShape>,
    /// Types that the caller gave to columns.
    given: Vec<Option<GivenType>>,
    /// The columns' rules, for values of all kinds.
    rules: Vec<TypeRule>,
    /// Declared types of the columns in their sources.
    source_types: Vec<Option<String>>,
    evidence: Vec<TypedEvidence>,
    /// True if the evidence comes from all values, not from a sample.
    is_surveyed: bool,
}

struct Input<S: RowSource> {
    source: S,
    value_sources: Vec<ValueSource>,
    /// First opening, with the batch that was taken as a sample.
    first: Option<Opened<S>>,
}

impl<S: RowSource> Input<S> {
    fn columns(&self) -> InputColumns<'_> {
        InputColumns { name: self.source.name(), sources: &self.value_sources }
    }
}

struct Opened<S: RowSource> {
    reader: TypedReader<S>,
    decoder: S::Decoder,
}

impl<'l, S: RowSource> TypedFeed<'l, S> {
    /// Reads the inputs' columns and plans the table: as declared, or else made for the inputs.
    pub fn new(
        options: &'l LoadOptions,
        sources: Vec<S>,
        table: &TableAhead<'_>,
        monitor: &'l Monitor,
    ) -> Result<Self> {
        if options.exact || !options.exact_columns.is_empty() {
            return Err(Error::misuse("only CSV has texts that a number may not give back")
                .to_do("leave out ⟦exact⟧, and 'exact' as a ⟦type⟧"));
        }
        let names = sources.iter().map(|source| source.name().to_owned()).collect();
        let inputs = sources.into_iter();
        let inputs = inputs.map(|source| Input { source, value_sources: Vec::new(), first: None });
        let mut feed = Self {
            state: FeedState::new(options, monitor, names, table),
            inputs: inputs.collect(),
            declared: table.declared.cloned(),
            given: Vec::new(),
            rules: Vec::new(),
            source_types: Vec::new(),
            evidence: Vec::new(),
            is_surveyed: false,
        };
        match feed.map_columns().and_then(|()| feed.take_sample()) {
            // The column may come further on.
            Err(error) if is_about_columns(&error) => {
                feed.discover_columns()?;
                feed.take_sample()?;
            }
            planned => planned?,
        }
        Ok(feed)
    }

    /// Columns of all inputs, if each of several may lack some.
    fn optional_columns(&self) -> Vec<ColumnName> {
        let mut written = HashSet::new();
        let is_new = |it: &ColumnName| written.insert(it.written.clone());
        let inputs =
            self.inputs.iter().filter(|_| S::HAS_OPTIONAL_COLUMNS && self.inputs.len() > 1);
        let columns = inputs.flat_map(|input| input.source.columns());
        columns.map(|column| column.name.clone()).filter(is_new).collect()
    }

    /// Finds the table's columns in the inputs.
    fn map_columns(&mut self) -> Result<()> {
        let mut first: Option<(String, Vec<ColumnName>, ColumnMap)> = None;
        let mut source_types: Vec<Option<String>> = Vec::new();
        let mut maps: Vec<Option<ColumnMap>> = Vec::new();
        self.state.notes.clear();
        let others = self.optional_columns();
        for input in &self.inputs {
            self.state.notes.extend(input.source.notes());
            let columns = input.source.columns();
            let own: Vec<ColumnName> = columns.iter().map(|column| column.name.clone()).collect();
            if own.is_empty() && self.declared.is_none() {
                // Without a row no column is known; other inputs may have some.
                maps.push(None);
                continue;
            }
            let (name, these) = (input.source.name(), OwnColumns { names: &own, others: &others });
            let map = match &self.declared {
                Some(shape) if input.source.is_empty() => ColumnMap::of_no_row(shape),
                Some(shape) => ColumnMap::of_table(self.state.options, name, these, shape)?,
                None => ColumnMap::of_input(self.state.options, these)?,
            };
            maps.push(Some(map.clone()));
            let declared_sql = |source: &ValueSource| {
                let column = columns.get(source.field()?)?;
                column.declared_sql.clone()
            };
            let Some((first_name, names, first_map)) = &mut first else {
                source_types = map.sources.iter().map(declared_sql).collect();
                first = Some((input.source.name().to_owned(), own, map));
                continue;
            };
            if self.declared.is_some() {
                continue;
            }
            let places = places_of_columns(TableColumns::Made(&first_map.names), &map.names)?;
            let has_all = first_map.names.len() == places.iter().flatten().count();
            if !S::HAS_OPTIONAL_COLUMNS && (!has_all || places.contains(&None)) {
                return Err(inputs_differ(first_name, names, input.source.name(), &own));
            }
            for (name, _) in map.names.iter().zip(&places).filter(|(_, place)| place.is_none()) {
                let new = name_beside(&first_map.names, &name.written);
                if new != *name {
                    let (input, ColumnName { name, written }) = (input.source.name(), &new);
                    let note = format!("{input}: its column \"{written}\" becomes \"{name}\"");
                    self.state.notes.push(note);
                }
                first_map.names.push(new);
                source_types.push(None);
            }
        }
        let Some((_, _, map)) = first else {
            self.look_for_columns()?;
            return self.map_columns();
        };
        let columns = map.names.into_iter().zip(source_types).collect();
        self.take_columns(columns, maps)
    }

    /// Takes the table's columns, each with its type in the sources, and the maps of the inputs.
    fn take_columns(
        &mut self,
        mut columns: Vec<(ColumnName, Option<String>)>,
        maps: Vec<Option<ColumnMap>>,
    ) -> Result<()> {
        if columns.is_empty() {
            return Err(no_column_is_left());
        }
        if self.declared.is_none() {
            // The first input may lack some of those that were selected.
            let selects = &self.state.options.selects;
            columns.sort_by_key(|(name, _)| {
                let exact = selects.iter().position(|it| *it == name.written);
                let equal = || selects.iter().position(|it| it.eq_ignore_ascii_case(&name.written));
                exact.or_else(equal)
            });
        }
        let (names, source_types): (Vec<_>, Vec<_>) = columns.into_iter().unzip();
        for (input, own) in self.inputs.iter_mut().zip(maps) {
            input.value_sources = match own {
                Some(own) if self.declared.is_some() => own.sources,
                Some(own) => own.sources_for(&names)?,
                None => vec![ValueSource::Constant(OwnedValue::Null); names.len()],
            };
        }
        self.evidence = vec![TypedEvidence::default(); names.len()];
        self.source_types = source_types;
        let with_rows = self.inputs.iter().filter(|it| !it.source.is_empty());
        let own: Vec<_> = with_rows.map(Input::columns).collect();
        self.state.take_columns(names, &own, self.declared.as_ref())?;
        self.first_rules()
    }

    /// Reads an input whose beginning has no column: there may be some further on.
    ///
    /// # Errors
    /// An input without columns: its bad rows, or that it has no row.
    fn look_for_columns(&mut self) -> Result<()> {
        let rejects = match self.state.options.on_error {
            OnError::Stop => {
                let rights = Rights::of(&self.state.options.database);
                Rejects::create(&OnError::Stop, None, rights)?
            }
            OnError::Skip { .. } => Rejects::only_shown(SHOWN_MAX),
        };
        let rejects = Mutex::new(rejects);
        let rules = TypedRules::new(Vec::new(), Vec::new(), Vec::new(), None);
        self.state.begin();
        let screen = self.state.options.screens();
        for input in 0..self.inputs.len() {
            let work = SurveyBatches { rules: &rules, input };
            match self.pass(input, (&rules, screen), (&work, Vec::new()), &rejects) {
                Ok(_) => {}
                Err(Halt::NewColumn) => {
                    let source = &mut self.inputs[input].source;
                    source.discover_columns(&self.state.monitor.bytes_read)?;
                    if !source.columns().is_empty() {
                        return Ok(());
                    }
                }
                Err(halt) => return Err(halted(halt)),
            }
        }
        let mut rejects = rejects.into_inner().unwrap_or_else(PoisonError::into_inner);
        let file = self.state.inputs.first().cloned().unwrap_or_default();
        Err(no_columns(file, self.state.rows.read, rejects.count(), &rejects.take_shown()))
    }

    /// The rules that are known before any value was read.
    fn first_rules(&mut self) -> Result<()> {
        self.state.find_key()?;
        self.take_given_types()?;
        let rules = 0..self.state.columns.len();
        self.rules = rules.map(|column| self.first_rule(column)).collect();
        if let Some(shape) = &self.declared {
            self.state.set_shape(shape.clone());
        }
        for key in [self.state.key, self.state.later_key].into_iter().flatten() {
            // The rowid must be an integer, so its values are surveyed.
            if self.rules[key] == TypeRule::Affinity(Affinity::Integer) {
                self.rules[key] = TypeRule::Empty;
            }
        }
        if let Some(key) = self.state.key
            && self.rules[key] == TypeRule::Given(ColumnType::Integer)
        {
            self.rules[key] = TypeRule::Rowid;
        }
        Ok(())
    }

    /// Takes the types that the caller gave.
    fn take_given_types(&mut self) -> Result<()> {
        self.given = vec![None; self.state.columns.len()];
        for (name, given) in &self.state.options.types {
            let at = self.state.column(name)?;
            if let Some(shape) = &self.declared {
                given.refuse_unless_fits(&shape.columns[at], self.is_rowid(at), shape.strict)?;
            } else if self.state.key == Some(at) {
                given.refuse_for_rowid(name)?;
            }
            self.given[at] = Some(*given);
        }
        Ok(())
    }

    /// Returns true for the INTEGER PRIMARY KEY of a declared table.
    fn is_rowid(&self, column: usize) -> bool {
        self.declared.as_ref().is_some_and(|shape| shape.rowid_column == Some(column))
    }

    /// The rule of a column before any value was read.
    fn first_rule(&self, column: usize) -> TypeRule {
        if self.is_rowid(column) {
            return TypeRule::Rowid;
        }
        self.demanded_rule(column, ValueKinds::All).unwrap_or_else(|| self.source_rule(column))
    }

    /// The rule that the caller's type or the declaration demands for values of these kinds.
    fn demanded_rule(&self, column: usize, kinds: ValueKinds) -> Option<TypeRule> {
        let declared = self.declared.as_ref().map(|shape| (&shape.columns[column], shape.strict));
        match (self.given[column], declared) {
            (Some(given), Some((declared, _))) => {
                Some(TypeRule::of_given_in(given, declared, kinds))
            }
            (Some(given), None) => Some(TypeRule::of_given(given, kinds)),
            (None, Some((declared, strict))) => Some(TypeRule::for_column(declared, strict, kinds)),
            (None, None) => None,
        }
    }

    /// The rule that the sources give a column.
    fn source_rule(&self, column: usize) -> TypeRule {
        if self.state.is_text(column) {
            return self.text_rule();
        }
        let mut rule = None;
        for input in &self.inputs {
            let Some(field) = input.value_sources[column].field() else { continue };
            let declared = self.rule_of(&input.source.columns()[field]);
            match (rule, declared) {
                (None, Some(declared)) => rule = Some(declared),
                (Some(rule), Some(declared)) if rule == declared => {}
                _ => return TypeRule::Empty,
            }
        }
        self.or_text(rule.unwrap_or(TypeRule::Empty))
    }

    /// The rule of a column whose values are not all TEXT anyway: with `all_text`, a key, which is TEXT if it
    /// cannot be the rowid.
    fn or_text(&self, rule: TypeRule) -> TypeRule {
        match rule {
            TypeRule::Empty | TypeRule::Integer | TypeRule::Affinity(Affinity::Integer) => rule,
            _ if self.state.options.all_text => self.text_rule(),
            _ => rule,
        }
    }

    /// The rule of a column that is TEXT because all are. A STRICT table takes no blob there.
    fn text_rule(&self) -> TypeRule {
        if self.state.options.strict {
            TypeRule::Given(ColumnType::Text)
        } else {
            TypeRule::Affinity(Affinity::Text)
        }
    }

    /// The rule that a source gives a column. The table of another database may hold any value in
    /// any column, and the new column gets its declaration: so the values are stored as they are. In a
    /// STRICT table only a column without a type holds any value; it is ANY there.
    fn rule_of(&self, column: &SourceColumn) -> Option<TypeRule> {
        match &column.declared_sql {
            Some(sql) if !self.state.options.strict || sql.is_empty() => {
                Some(TypeRule::Affinity(Affinity::of_declared_type(sql)))
            }
            _ => column.declared.map(TypeRule::for_source),
        }
    }

    /// Takes the types from the first batch.
    fn take_sample(&mut self) -> Result<()> {
        if self.declared.is_some() {
            return Ok(());
        }
        // The sample leaves out the rows that the table will refuse.
        self.make_table()?;
        let mut opened = self.open(0)?;
        if self.rules.contains(&TypeRule::Empty) {
            let mut raw = RawOf::<S>::default();
            if opened.reader.reader.claim(&mut raw)? {
                let mut batch = BatchOf::<S>::default();
                match opened.decoder.decode(&mut raw, &mut batch) {
                    Ok(()) => {
                        let rules = self.rules_of(0);
                        self.evidence = SurveyBatches { rules: &rules, input: 0 }.sample(&batch);
                        opened.reader.first = Some(batch);
                    }
                    // The pass will meet it, too.
                    Err(DecodeHalt::NewColumn) => return self.decide(),
                    Err(DecodeHalt::Failed(error)) => return Err(error),
                }
            }
        }
        self.inputs[0].first = Some(opened);
        self.decide()
    }

    /// The rules for the rows of an input.
    fn rules_of(&self, input: usize) -> TypedRules {
        let rowid = self.rules.iter().position(|rule| *rule == TypeRule::Rowid);
        let Input { source, value_sources, .. } = &self.inputs[input];
        let rowid = rowid.filter(|column| self.state.plan.given[*column]);
        let of_input = |(column, &rule): (usize, &TypeRule)| {
            let is_demanded = self.demanded_rule(column, ValueKinds::All) == Some(rule);
            let own = self.demanded_rule(column, source.value_kinds());
            own.filter(|_| is_demanded).unwrap_or(rule)
        };
        let rules = self.rules.iter().enumerate().map(of_input).collect();
        TypedRules::new(self.state.names(), rules, value_sources.clone(), rowid)
            .demands(self.state.demands())
    }

    /// Turns the evidence into rules and a declaration.
    fn decide(&mut self) -> Result<()> {
        let strict = self.state.options.strict;
        for (column, evidence) in self.evidence.iter().enumerate() {
            if self.rules[column] == TypeRule::Empty {
                self.rules[column] = self.or_text(evidence.verdict(strict).rule);
            }
        }
        let may_be_rowid = |rule| matches!(rule, TypeRule::Integer | TypeRule::Empty);
        if let Some(key) = self.state.key.filter(|&key| may_be_rowid(self.rules[key])) {
            self.rules[key] = TypeRule::Rowid;
        }
        if let Some(key) = self.state.later_key.filter(|&key| may_be_rowid(self.rules[key])) {
            self.rules[key] = TypeRule::Integer;
        }
        self.make_table()
    }

    /// Plans a table with the types that the rules have so far, unless one is declared.
    fn make_table(&mut self) -> Result<()> {
        if self.declared.is_some() {
            return Ok(());
        }
        let types: Vec<_> =
            (0..self.rules.len()).map(|column| self.declared_type(column)).collect();
        self.state.make_table(types.into_iter())
    }

    /// Type of a column in the declaration that is made.
    fn declared_type(&self, column: usize) -> String {
        if let ValueSource::Uuid7(form) = &self.inputs[0].value_sources[column] {
            return form.declared_type().to_owned();
        }
        let (rule, strict) = (self.rules[column], self.state.options.strict);
        // The values may have asked for another type than that of the first source.
        if let Some(declared) = &self.source_types[column]
            && rule == TypeRule::Affinity(Affinity::of_declared_type(declared))
            && !strict
        {
            return declared.clone();
        }
        rule.declared_type(strict).to_owned()
    }

    fn open(&mut self, input: usize) -> Result<Opened<S>> {
        let input = &mut self.inputs[input];
        if let Some(opened) = input.first.take() {
            return Ok(opened);
        }
        let (reader, decoder) = input.source.open(&self.state.monitor.bytes_read)?;
        self.state.monitor.set_total(reader.bytes_total());
        Ok(Opened { reader: TypedReader { first: None, reader }, decoder })
    }

    /// One pass over one input.
    fn pass<W: Work<BatchOf<S>>>(
        &mut self,
        input: usize,
        (rules, screen): (&TypedRules, bool),
        work: (&W, W::Joined),
        rejects: &Mutex<Rejects>,
    ) -> Result<W::Joined, Halt> {
        let Opened { reader, decoder } = self.open(input)?;
        let source = &self.inputs[input].source;
        let pieces = TypedBatches::<S> { file: source.name(), rules, decoder, screen };
        let reader = (reader, source.is_stream());
        let joined = self.state.pass(&pieces, reader, work, rejects)?.0;
        source.check_unchanged()?;
        Ok(joined)
    }
}

/// The error for an input in which no column was found.
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
        .to_do("declare the table with ⟦declaration⟧ to make it without a row")
}

impl<S: RowSource> Feed for TypedFeed<'_, S> {
    fn state(&self) -> &FeedState<'_> {
        &self.state
    }

    fn encode(
        &mut self,
        build: &Build<'_>,
        mut joined: Joined,
        rejects: &Mutex<Rejects>,
    ) -> Result<(Joined, u64), Halt> {
        let is_open = self.has_fields() && self.evidence.iter().any(TypedEvidence::is_whole_real);
        if is_open && !self.is_surveyed {
            return Err(Halt::Refuted);
        }
        self.state.begin();
        let screen = self.state.options.screens();
        for input in 0..self.inputs.len() {
            let rules = self.rules_of(input);
            let work = EncodeBatches { rules: &rules, build };
            joined = self.pass(input, (&rules, screen), (&work, joined), rejects)?;
        }
        Ok((joined, self.state.rows.read))
    }

    fn survey(&mut self, rejects: &Mutex<Rejects>) -> Result<u64> {
        self.state.begin();
        self.first_rules()?;
        self.make_table()?;
        let mut evidence = vec![TypedEvidence::default(); self.rules.len()];
        for input in 0..self.inputs.len() {
            let rules = self.rules_of(input);
            let work = SurveyBatches { rules: &rules, input };
            evidence = match self.pass(input, (&rules, true), (&work, evidence), rejects) {
                Err(Halt::NewColumn) => {
                    self.discover_columns()?;
                    return self.survey(rejects);
                }
                surveyed => surveyed.map_err(halted)?,
            };
        }
        self.evidence = evidence;
        self.is_surveyed = true;
        self.decide()?;
        Ok(self.state.rows.read)
    }

    fn discover_columns(&mut self) -> Result<()> {
        for input in &mut self.inputs {
            input.first = None;
            input.source.discover_columns(&self.state.monitor.bytes_read)?;
        }
        self.map_columns()
    }

    fn locate(&mut self, wanted: &[Wanted], found: &mut Found<'_>) -> Result<()> {
        self.state.begin();
        let rejects = Mutex::new(Rejects::only_shown(0));
        let screen = self.state.options.screens();
        for input in 0..self.inputs.len() {
            let rules = self.rules_of(input);
            let work = Locate::new(wanted, found);
            self.pass(input, (&rules, screen), (&work, ()), &rejects).map_err(halted)?;
        }
        Ok(())
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
        let columns = self.evidence.iter().enumerate();
        let columns = columns.map(|(at, evidence)| {
            let verdict = evidence.verdict(self.state.options.strict);
            let decided_by = self.state.decided_by(verdict.decided_by, verdict.reason.to_owned());
            ColumnReport { decided_by, ..self.state.column_report(at) }
        });
        columns.collect()
    }

    fn notes(&mut self) -> Vec<String> {
        let mut notes = std::mem::take(&mut self.state.notes);
        notes.extend(self.inputs.iter().flat_map(|input| input.source.notes_at_end()));
        notes.extend(self.inputs.iter().filter_map(|input| self.nan_note(input)));
        if self.has_fields() {
            let strict = self.state.options.strict;
            let is_of_fields = |evidence: &TypedEvidence| {
                let by = evidence.verdict(strict).decided_by;
                by.is_some_and(|by| self.is_of_fields(by.input))
            };
            let columns = self.columns().into_iter().zip(&self.evidence);
            let columns = columns.filter(|(_, evidence)| is_of_fields(evidence));
            let columns: Vec<_> = columns.map(|(column, _)| column).collect();
            notes.extend(missing_value_notes(&columns, &self.state.options.null_texts()));
        }
        notes
    }
}

impl<S: RowSource> TypedFeed<'_, S> {
    /// Returns true if the values of an input are texts.
    fn is_of_fields(&self, input: usize) -> bool {
        self.inputs[input].source.value_kinds() == ValueKinds::Fields
    }

    fn has_fields(&self) -> bool {
        (0..self.inputs.len()).any(|input| self.is_of_fields(input))
    }

    /// The note on NaN values of an input, which SQLite stores as NULL.
    fn nan_note(&self, input: &Input<S>) -> Option<String> {
        let counts = input.source.nan_counts();
        let demands = self.state.demands();
        let columns = input.value_sources.iter().zip(&self.state.columns).enumerate();
        let found = columns.filter_map(|(at, (source, name))| {
            let nans = *counts.get(source.field()?)?;
            let values = counted(nans, "value", "values");
            // Where NULL is refused, each of them has made a bad row.
            (nans > 0 && !demands.refuses_null(at)).then(|| format!("{} ({values})", name.name))
        });
        let found: Vec<String> = found.collect();
        let (file, columns) = (input.source.name(), listed(&found));
        (!found.is_empty()).then(|| format!("{file}: NaN becomes NULL, as in SQLite: {columns}"))
    }
}
