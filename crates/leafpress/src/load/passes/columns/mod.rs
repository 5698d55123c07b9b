//! The columns of inputs, and where each goes in the table.
//!
//! One rule for all inputs: a column goes to the one that has exactly its written name, else to the
//! only one that has it in another case. Where several may be meant, the load is refused: values
//! must never change places.

#[cfg(test)]
mod tests;

use std::collections::HashSet;
use std::fmt::Write as _;

use crate::error::{Error, ErrorKind, Mark, Result};
use crate::load::options::LoadOptions;
use crate::load::passes::plan::COLUMNS_MAX;
use crate::load::values::fields::{FieldRule, ValueSource};
use crate::schema::names::{ColumnName, column_named, listed};
use crate::schema::shape::{OwnedValue, TableShape};

/// Columns of the table, with the sources of their values.
#[derive(Debug, Clone)]
pub struct ColumnMap {
    pub names: Vec<ColumnName>,
    pub sources: Vec<ValueSource>,
}

/// A column of the input: the index of its field, and its name.
type Wanted = (usize, ColumnName);

/// The columns of an input, by the names that it has written.
#[derive(Clone, Copy)]
pub struct OwnColumns<'i> {
    pub names: &'i [ColumnName],
    /// Columns of all inputs, where this one may lack some.
    pub others: &'i [ColumnName],
}

/// Selected columns of the input, under their new names, no two of which are equal in any case.
fn wanted_columns(options: &LoadOptions, input: OwnColumns<'_>) -> Result<Vec<Wanted>> {
    let wanted = selected_columns(options, input)?;
    let mut names = HashSet::with_capacity(2 * wanted.len());
    let again = wanted.iter().find(|(_, it)| !names.insert(it.name.to_ascii_lowercase()));
    // The name that a column was given may be that of another one in the input.
    let given = |name: &String| options.renames.iter().any(|(_, new)| new == name);
    let mut written = HashSet::with_capacity(wanted.len());
    let given_again =
        wanted.iter().find(|(_, it)| !written.insert(&it.written) && given(&it.written));
    let Some((_, it)) = again.or(given_again) else { return Ok(wanted) };
    Err(Error::misuse(format!("two columns would be called '{}'", it.written))
        .to_do("give one of them another name with ⟦rename OLD=NEW⟧, or leave one out with ⟦drop⟧"))
}

fn selected_columns(options: &LoadOptions, input: OwnColumns<'_>) -> Result<Vec<Wanted>> {
    let key = |it: &ColumnName| it.written.to_ascii_lowercase();
    let there: HashSet<String> = input.names.iter().map(key).collect();
    let own = input.names.iter().enumerate().map(|(field, it)| (Some(field), it.clone()));
    let lacked = input.others.iter().filter(|it| !there.contains(&key(it)));
    let lacked = lacked.map(|it| (None, it.clone()));
    // All columns that flags may name, with the field of those that this input has.
    let mut columns: Vec<(Option<usize>, ColumnName)> = own.chain(lacked).collect();
    let find = |columns: &[(Option<usize>, ColumnName)], name: &str| {
        let names: Vec<ColumnName> = columns.iter().map(|(_, it)| it.clone()).collect();
        column_named(&names, name)
    };
    let written = columns.clone();
    for (old, new) in &options.renames {
        columns[find(&written, old)?].1 = new.as_str().into();
    }
    for name in &options.drops {
        let at = find(&columns, name)?;
        columns.remove(at);
    }
    if !options.selects.is_empty() {
        let selected =
            options.selects.iter().map(|name| Ok(columns[find(&columns, name)?].clone()));
        columns = selected.collect::<Result<_>>()?;
    }
    Ok(columns.into_iter().filter_map(|(field, name)| Some((field?, name))).collect())
}

/// The error for flags that leave out all columns.
pub fn no_column_is_left() -> Error {
    Error::misuse("no column is left to load")
}

/// Refuses an input with more columns than a table of SQLite may have. This is an error of the
/// input, not of the options.
fn check_number(columns: usize) -> Result<()> {
    if columns <= COLUMNS_MAX {
        return Ok(());
    }
    let reason = format!("it has {columns} columns, and a table of SQLite at most {COLUMNS_MAX}");
    let error = Error::from(ErrorKind::Input { file: "the input".to_owned(), reason });
    Err(error.to_do("name those to load with ⟦select⟧, or leave some out with ⟦drop⟧"))
}

impl ColumnMap {
    /// Columns of a table that is made for the input.
    pub fn of_input(options: &LoadOptions, input: OwnColumns<'_>) -> Result<Self> {
        let wanted = wanted_columns(options, input)?;
        if wanted.is_empty() && input.others.is_empty() {
            return Err(no_column_is_left());
        }
        let (mut names, mut sources) = (Vec::new(), Vec::new());
        if let Some((name, form)) = &options.uuid7 {
            if wanted.iter().any(|(_, it)| it.name.eq_ignore_ascii_case(name)) {
                return Err(keys_are_there(name));
            }
            names.push(name.as_str().into());
            sources.push(ValueSource::Uuid7(*form));
        }
        for (field, name) in wanted {
            names.push(name);
            sources.push(ValueSource::Field(field));
        }
        check_number(names.len())?;
        Ok(Self { names, sources })
    }

    /// Columns of a declared table, found in the input by their names.
    pub fn of_table(
        options: &LoadOptions,
        input_name: &str,
        input: OwnColumns<'_>,
        shape: &TableShape,
    ) -> Result<Self> {
        let wanted = wanted_columns(options, input)?;
        let mut names: Vec<ColumnName> =
            shape.columns.iter().map(|column| column.name.as_str().into()).collect();
        let written: Vec<ColumnName> = wanted.iter().map(|(_, it)| it.clone()).collect();
        let mut fields = vec![None; names.len()];
        let (mut unused, mut generated): (Vec<&str>, Vec<&str>) = Default::default();
        for ((field, name), place) in
            wanted.iter().zip(places_of_columns(TableColumns::Declared(&names), &written)?)
        {
            match place {
                Some(at) if !shape.columns[at].generated => fields[at] = Some((*field, name)),
                _ if shape.is_generated(&name.written) => generated.push(&name.written),
                _ => unused.push(&name.written),
            }
        }
        refuse_misplaced_uuid7(options, shape, &fields)?;
        let mut missing: Vec<&str> = Vec::new();
        let mut sources = Vec::new();
        for (index, column) in shape.columns.iter().enumerate() {
            let uuid7 =
                options.uuid7.as_ref().filter(|(n, _)| n.eq_ignore_ascii_case(&column.name));
            sources.push(match (fields[index], uuid7, &column.default) {
                _ if column.generated => ValueSource::Constant(OwnedValue::Null),
                (_, Some((_, form)), _) => ValueSource::Uuid7(*form),
                (Some((field, _)), None, _) => ValueSource::Field(field),
                (None, None, _) if shape.rowid_column == Some(index) => {
                    ValueSource::Constant(OwnedValue::Null)
                }
                (None, None, Some(default)) => {
                    if *default == OwnedValue::Null && column.not_null {
                        missing.push(&column.name);
                    }
                    ValueSource::Constant(default.clone())
                }
                // SQLite makes the value.
                (None, None, None) => ValueSource::Constant(OwnedValue::Null),
            });
        }
        if !unused.is_empty() || !missing.is_empty() || !generated.is_empty() {
            let error = mismatch(input_name, &shape.name, [&unused, &generated, &missing]);
            return Err(if !generated.is_empty() {
                error.to_do(format!(
                    "the table computes generated columns itself: leave them out with ⟦drop {}⟧",
                    generated.join(",")
                ))
            } else if options.names_columns() {
                error.to_do(
                    "choose columns with ⟦select⟧ or ⟦drop⟧, or rename them with ⟦rename OLD=NEW⟧",
                )
            } else {
                error.to_do(
                    "the input has no header: name its columns with ⟦columns⟧, in their order",
                )
            });
        }
        for (name, field) in names.iter_mut().zip(fields) {
            if let Some((_, it)) = field {
                name.written.clone_from(&it.written);
            }
        }
        Ok(Self { names, sources })
    }

    /// Columns of a declared table for an input without rows, which needs none of them.
    pub fn of_no_row(shape: &TableShape) -> Self {
        let names: Vec<ColumnName> =
            shape.columns.iter().map(|column| column.name.as_str().into()).collect();
        let sources = vec![ValueSource::Constant(OwnedValue::Null); names.len()];
        Self { names, sources }
    }

    /// Sources of a table's columns; columns that this input lacks are NULL.
    pub fn sources_for(&self, table: &[ColumnName]) -> Result<Vec<ValueSource>> {
        let mut sources = vec![ValueSource::Constant(OwnedValue::Null); table.len()];
        for (place, source) in
            places_of_columns(TableColumns::Made(table), &self.names)?.iter().zip(&self.sources)
        {
            if let Some(at) = *place {
                sources[at] = source.clone();
            }
        }
        Ok(sources)
    }

    /// Rules for the columns of a table that was declared by hand.
    pub fn declared_rules(shape: &TableShape) -> Vec<FieldRule> {
        let columns = shape.columns.iter().enumerate();
        columns
            .map(|(index, column)| {
                if shape.rowid_column == Some(index) {
                    FieldRule::Rowid
                } else {
                    FieldRule::for_column(column, shape.strict)
                }
            })
            .collect()
    }
}

/// The columns of one of several inputs.
pub struct InputColumns<'i> {
    /// Name of the input.
    pub name: &'i str,
    /// For each column of the table the source of its values.
    pub sources: &'i [ValueSource],
}

/// Refuses inputs of a declared table that differ in their columns, where it is open what the rows
/// of those that lack a column get.
pub(super) fn refuse_open_columns(
    options: &LoadOptions,
    shape: &TableShape,
    inputs: &[InputColumns<'_>],
) -> Result<()> {
    for (at, column) in shape.columns.iter().enumerate() {
        let is_made = column.default.is_none() && !column.generated;
        let why = if is_made {
            "SQLite makes its DEFAULT for all rows or for none"
        } else if options.upserts() {
            "an upsert changes a column for all rows or for none"
        } else {
            continue;
        };
        let is_given = |it: &&InputColumns<'_>| it.sources[at].is_given();
        // An input without any column has no row, or rows without a key, which change none.
        let has_rows =
            |it: &InputColumns<'_>| is_made || it.sources.iter().any(ValueSource::is_given);
        let with = inputs.iter().find(is_given);
        let without = inputs.iter().find(|it| !is_given(it) && has_rows(it));
        let (Some(with), Some(without)) = (with, without) else { continue };
        let reason =
            format!("{} has no column {}, and {} has: {why}", without.name, column.name, with.name);
        let advice = "load such files one after the other";
        return Err(Error::misuse(reason).marked(Mark::Columns).to_do(advice));
    }
    Ok(())
}

/// Columns to which those of an input go.
#[derive(Clone, Copy)]
pub enum TableColumns<'t> {
    /// Columns of a table that this load makes, with the names that its inputs have written.
    Made(&'t [ColumnName]),
    /// Columns of a table that is declared, or there already: `A_2` may have been written `A`.
    Declared(&'t [ColumnName]),
}

/// Index of the table's column for each column of an input; `None` for one that it does not have.
///
/// # Errors
/// The name of a column fits several ones in another case.
pub fn places_of_columns(
    table: TableColumns<'_>,
    input: &[ColumnName],
) -> Result<Vec<Option<usize>>> {
    let (columns, is_declared) = match table {
        TableColumns::Made(columns) => (columns, false),
        TableColumns::Declared(columns) => (columns, true),
    };
    let mut search = PlaceSearch { columns, is_declared, input, places: vec![None; input.len()] };
    search.by_written_name();
    if is_declared {
        search.by_number_given_to_a_twin();
    }
    search.by_other_case()?;
    Ok(search.places)
}

/// Search for the places of an input's columns. No two columns get one place.
struct PlaceSearch<'s> {
    columns: &'s [ColumnName],
    is_declared: bool,
    input: &'s [ColumnName],
    places: Vec<Option<usize>>,
}

impl PlaceSearch<'_> {
    /// A column of the input goes to that of exactly its name.
    fn by_written_name(&mut self) {
        for (at, column) in self.input.iter().enumerate() {
            self.places[at] = self.first_free(|it| it.written == column.written);
        }
    }

    /// Of two columns that SQLite does not tell apart, the second one goes to the one that was
    /// numbered, such as `A_2`.
    fn by_number_given_to_a_twin(&mut self) {
        for at in self.open() {
            let ColumnName { name, written } = &self.input[at];
            if name != written || !self.is_alone(written) {
                self.places[at] = self.first_free(|it| it.is_numbered(written, self.columns));
            }
        }
    }

    /// A column that is left goes to the one of its name in another case, if no other can be meant.
    fn by_other_case(&mut self) -> Result<()> {
        for at in self.open() {
            let name = &self.input[at].written;
            let is_equal = |it: &ColumnName| it.written.eq_ignore_ascii_case(name);
            let Some(free) = self.first_free(is_equal) else { continue };
            let is_meant = |place: &usize| {
                let it = &self.columns[*place];
                let may_be_numbered = self.is_declared && it.is_numbered(name, self.columns);
                is_equal(it) || (may_be_numbered && self.is_free(*place))
            };
            let meant = (0..self.columns.len()).filter(is_meant);
            let meant: Vec<&str> = meant.map(|it| self.columns[it].written.as_str()).collect();
            if meant.len() > 1 || !self.is_alone(name) {
                return Err(several_meant(name, &meant));
            }
            self.places[at] = Some(free);
        }
        Ok(())
    }

    /// The first of the table's columns that fits and has no column of the input yet.
    fn first_free(&self, fits: impl Fn(&ColumnName) -> bool) -> Option<usize> {
        (0..self.columns.len()).find(|&place| fits(&self.columns[place]) && self.is_free(place))
    }

    fn is_free(&self, place: usize) -> bool {
        !self.places.contains(&Some(place))
    }

    /// The columns of the input that have no place yet.
    fn open(&self) -> Vec<usize> {
        (0..self.input.len()).filter(|&at| self.places[at].is_none()).collect()
    }

    /// Returns true if no other column of the input has this name, in any case.
    fn is_alone(&self, name: &str) -> bool {
        self.input.iter().filter(|it| it.written.eq_ignore_ascii_case(name)).count() == 1
    }
}

/// Refuses keys for a declared table that has no place for them, or other values there.
fn refuse_misplaced_uuid7(
    options: &LoadOptions,
    shape: &TableShape,
    fields: &[Option<(usize, &ColumnName)>],
) -> Result<()> {
    let Some((name, form)) = &options.uuid7 else { return Ok(()) };
    let at = shape.columns.iter().position(|it| it.name.eq_ignore_ascii_case(name));
    let Some(at) = at.filter(|&at| !shape.columns[at].generated) else {
        let reason = format!("the table has no column '{name}' that could hold the keys");
        return Err(Error::misuse(reason).to_do("name one of its columns with ⟦uuid7⟧"));
    };
    if fields[at].is_some() {
        return Err(keys_are_there(name));
    }
    let (declared, keys) = (&shape.columns[at].declared_type, form.declared_type());
    let holds = |type_name: &str| declared.eq_ignore_ascii_case(type_name);
    if shape.rowid_column == Some(at) || shape.strict && !holds(keys) && !holds("ANY") {
        let reason = format!("the column '{name}' is declared {declared}, and its keys are {keys}");
        return Err(Error::misuse(reason)
            .to_do("give ⟦uuid7⟧ another column or form, or change the declaration"));
    }
    Ok(())
}

/// The error for keys that are to be made for a column that the input has.
fn keys_are_there(name: &str) -> Error {
    Error::misuse(format!("the input has a column '{name}' already"))
        .to_do("give ⟦uuid7⟧ another name, or leave that column out with ⟦drop⟧")
}

/// The error for a column that may be any of several ones, or one of several that may be the same.
fn several_meant(name: &str, meant: &[&str]) -> Error {
    let reason = format!(
        "the column '{name}' of the input may be {} of the table: they differ in case",
        meant.join(" or ")
    );
    let advice = format!("say which one it is with ⟦rename {name}={}⟧", meant[0]);
    Error::misuse(reason).marked(Mark::Columns).to_do(advice)
}

/// Returns true if the error is that the input's columns differ from those that were named: then
/// the header may have been read in the wrong dialect.
pub fn is_about_columns(error: &Error) -> bool {
    error.has_mark(Mark::Columns)
        || matches!(error.kind(), ErrorKind::NotFound { what: "column", .. })
}

/// The error for columns without a counterpart.
fn mismatch(input: &str, table: &str, columns: [&[&str]; 3]) -> Error {
    let mut reason = format!("the columns of {input} are not those of table '{table}'");
    let [unused, generated, missing] = columns;
    for (what, names) in [
        ("only in the input", unused),
        ("generated by the table", generated),
        ("NOT NULL and missing in the input", missing),
    ] {
        if !names.is_empty() {
            let _ = write!(reason, "; {what}: {}", listed(names));
        }
    }
    Error::misuse(reason).marked(Mark::Columns)
}

/// The error for two inputs with different columns.
pub fn inputs_differ(
    first: &str,
    first_names: &[ColumnName],
    other: &str,
    names: &[ColumnName],
) -> Error {
    let without = |these: &[ColumnName], those: &[ColumnName]| {
        let there = |name: &str| those.iter().any(|it| it.written == name);
        let written = these.iter().map(|it| it.written.as_str());
        listed(&written.filter(|name| !there(name)).collect::<Vec<_>>())
    };
    let mut reason = format!("the columns of {other} are not those of {first}");
    for (file, only) in [(first, without(first_names, names)), (other, without(names, first_names))]
    {
        if !only.is_empty() {
            let _ = write!(reason, "; only in {file}: {only}");
        }
    }
    let advice = "load such files into tables of their own, one after the other";
    Error::misuse(reason).marked(Mark::Columns).to_do(advice)
}
