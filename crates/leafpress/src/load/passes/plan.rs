//! Plan of a table: the mapping of an input's columns to its own, and its declaration.
//!
//! Knows names and types, and no rows. A table is declared by hand, exists in the database, or is
//! made from the input's columns. In all cases SQLite interprets the declaration ([`describe`]).

use std::collections::HashSet;
use std::fmt::Write as _;

use crate::error::{Error, ErrorKind, Result};
use crate::load::options::LoadOptions;
use crate::load::tree::RowOrder;
use crate::load::values::fields::{FieldRule, ValueSource};
use crate::schema::ddl::{ColumnRequest, IndexRequest, TableRequest};
use crate::schema::describe::describe;
use crate::schema::shape::{OwnedValue, TableShape};

/// SQLite's default limit, which our SQLite has.
const COLUMNS_MAX: usize = 2_000;

/// A table to be built.
#[derive(Debug, Clone)]
pub struct Plan {
    pub shape: TableShape,
    /// True for each column that gets values; SQLite fills the others.
    pub given: Vec<bool>,
    pub order: RowOrder,
}

impl Plan {
    /// Names of the columns that get values.
    pub fn given_names(&self) -> Vec<String> {
        let columns = self.shape.columns.iter().zip(&self.given);
        columns.filter(|(_, given)| **given).map(|(column, _)| column.name.clone()).collect()
    }
}

/// Columns of the table, with the sources of their values.
#[derive(Debug, Clone)]
pub struct ColumnMap {
    pub names: Vec<String>,
    pub sources: Vec<ValueSource>,
    pub given: Vec<bool>,
}

/// Selected columns of the input, under their new names, no two of which are equal in any case.
fn wanted_columns(options: &LoadOptions, input: &[String]) -> Result<Vec<(usize, String)>> {
    let wanted = selected_columns(options, input)?;
    let mut names = HashSet::with_capacity(wanted.len());
    let again = wanted.iter().find(|(_, name)| !names.insert(name.to_ascii_lowercase()));
    let Some((_, name)) = again else { return Ok(wanted) };
    Err(Error::misuse(format!("two columns would be called '{name}'"))
        .to_do("give one of them another name with ⟦rename OLD=NEW⟧, or leave one out with ⟦drop⟧"))
}

fn selected_columns(options: &LoadOptions, input: &[String]) -> Result<Vec<(usize, String)>> {
    let find = |names: &[(usize, String)], name: &str| {
        let names: Vec<&str> = names.iter().map(|(_, n)| n.as_str()).collect();
        column_named(&names, name)
    };
    let mut columns: Vec<(usize, String)> = input.iter().cloned().enumerate().collect();
    let originals = columns.clone();
    for (old, new) in &options.renames {
        let at = find(&originals, old)?;
        columns[at].1.clone_from(new);
    }
    for name in &options.drops {
        let at = find(&columns, name)?;
        columns.remove(at);
    }
    if options.selects.is_empty() {
        return Ok(columns);
    }
    options.selects.iter().map(|name| Ok(columns[find(&columns, name)?].clone())).collect()
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
    pub fn of_input(options: &LoadOptions, input: &[String]) -> Result<Self> {
        let wanted = wanted_columns(options, input)?;
        if wanted.is_empty() {
            return Err(Error::misuse("no column is left to load"));
        }
        let (mut names, mut sources) = (Vec::new(), Vec::new());
        if let Some((name, form)) = &options.uuid7 {
            if wanted.iter().any(|(_, n)| n.eq_ignore_ascii_case(name)) {
                return Err(Error::misuse(format!("the input has a column '{name}' already"))
                    .to_do("give ⟦uuid7⟧ another name, or leave that column out with ⟦drop⟧"));
            }
            names.push(name.clone());
            sources.push(ValueSource::Uuid7(*form));
        }
        for (field, name) in wanted {
            names.push(name);
            sources.push(ValueSource::Field(field));
        }
        check_number(names.len())?;
        let given = vec![true; names.len()];
        Ok(Self { names, sources, given })
    }

    /// Columns of a declared table, found in the input by their names.
    pub fn of_table(
        options: &LoadOptions,
        input_name: &str,
        input: &[String],
        shape: &TableShape,
    ) -> Result<Self> {
        let wanted = wanted_columns(options, input)?;
        let (mut unused, mut generated): (Vec<&str>, Vec<&str>) = Default::default();
        for (_, name) in &wanted {
            if shape.is_generated(name) {
                generated.push(name);
            } else if !shape.columns.iter().any(|c| c.name.eq_ignore_ascii_case(name)) {
                unused.push(name);
            }
        }
        let mut missing: Vec<&str> = Vec::new();
        let (mut sources, mut given) = (Vec::new(), Vec::new());
        for (index, column) in shape.columns.iter().enumerate() {
            let field = wanted.iter().find(|(_, n)| n.eq_ignore_ascii_case(&column.name));
            let uuid7 =
                options.uuid7.as_ref().filter(|(n, _)| n.eq_ignore_ascii_case(&column.name));
            let (source, is_given) = match (field, uuid7, &column.default) {
                _ if column.generated => (ValueSource::Constant(OwnedValue::Null), false),
                (_, Some((_, form)), _) => (ValueSource::Uuid7(*form), true),
                (Some((field, _)), None, _) => (ValueSource::Field(*field), true),
                (None, None, _) if shape.rowid_column == Some(index) => {
                    (ValueSource::Constant(OwnedValue::Null), false)
                }
                (None, None, Some(default)) => {
                    if *default == OwnedValue::Null && column.not_null {
                        missing.push(&column.name);
                    }
                    (ValueSource::Constant(default.clone()), false)
                }
                (None, None, None) => {
                    if column.not_null && shape.through_sql.is_none() {
                        missing.push(&column.name);
                    }
                    (ValueSource::Constant(OwnedValue::Null), false)
                }
            };
            sources.push(source);
            given.push(is_given);
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
        let names = shape.columns.iter().map(|column| column.name.clone()).collect();
        Ok(Self { names, sources, given })
    }

    /// Sources of the columns in another input's order; columns that it lacks are NULL.
    pub fn in_order_of(&self, names: &[String]) -> Vec<ValueSource> {
        let at = |name: &String| self.names.iter().position(|n| n.eq_ignore_ascii_case(name));
        let source = |at: Option<usize>| match at {
            Some(at) => self.sources[at].clone(),
            None => ValueSource::Constant(OwnedValue::Null),
        };
        names.iter().map(|name| source(at(name))).collect()
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

/// Beginning of the message about columns without a counterpart.
const COLUMNS_OF: &str = "the columns of ";

/// Returns true if the error is that the input's columns differ from those that were named: then
/// the header may have been read in the wrong dialect.
pub fn is_about_columns(error: &Error) -> bool {
    match error.kind() {
        ErrorKind::NotFound { what, .. } => *what == "column",
        ErrorKind::Misuse(message) => message.starts_with(COLUMNS_OF),
        _ => false,
    }
}

/// Index of a column in a list of names.
pub fn column_named(names: &[impl AsRef<str>], name: &str) -> Result<usize> {
    find_column(names, name)?.ok_or_else(|| no_column(names, name, ""))
}

/// Index of the column with exactly this name, else of the only one that has it in another case.
///
/// # Errors
/// If several columns may be meant.
fn find_column(names: &[impl AsRef<str>], name: &str) -> Result<Option<usize>> {
    if let Some(exact) = names.iter().position(|it| it.as_ref() == name) {
        return Ok(Some(exact));
    }
    let equal: Vec<usize> =
        (0..names.len()).filter(|&at| names[at].as_ref().eq_ignore_ascii_case(name)).collect();
    let Some(&first) = equal.first() else { return Ok(None) };
    // Of the columns `a` and `A` of an input the second one is called `A_2`.
    let is_numbered = |it: &str| {
        let number = it.strip_prefix(name).and_then(|rest| rest.strip_prefix('_'));
        number.is_some_and(|it| !it.is_empty() && it.bytes().all(|byte| byte.is_ascii_digit()))
    };
    let numbered = (0..names.len()).filter(|&at| is_numbered(names[at].as_ref()));
    let meant: Vec<&str> =
        equal.iter().copied().chain(numbered).map(|at| names[at].as_ref()).collect();
    if meant.len() == 1 {
        return Ok(Some(first));
    }
    let reason = format!("no column is named exactly '{name}', and it may mean {}", listed(&meant));
    Err(Error::misuse(reason).to_do("write the name of the column in the case that it has"))
}

fn no_column(names: &[impl AsRef<str>], name: &str, to_be: &str) -> Error {
    Error::not_found("column", name, format!("there is no column '{name}'{to_be}"))
        .to_do(format!("the columns are: {}", listed(names)))
}

/// Number of names in a message, before the others are counted.
const LISTED_MAX: usize = 10;

/// Names for a message: the first ten, and the number of the others.
pub fn listed<N: AsRef<str>>(names: &[N]) -> String {
    let shown: Vec<&str> = names.iter().take(LISTED_MAX).map(AsRef::as_ref).collect();
    let more = names.len() - shown.len();
    let tail = if more > 0 { format!(" and {more} more") } else { String::new() };
    shown.join(", ") + &tail
}

/// The error for columns without a counterpart.
fn mismatch(input: &str, table: &str, columns: [&[&str]; 3]) -> Error {
    let mut reason = format!("{COLUMNS_OF}{input} are not those of table '{table}'");
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
    Error::misuse(reason)
}

/// The error for two inputs with different columns.
pub fn inputs_differ(first: &str, first_names: &[String], other: &str, names: &[String]) -> Error {
    let without = |these: &[String], those: &[String]| {
        let only = these.iter().filter(|name| !those.iter().any(|n| n.eq_ignore_ascii_case(name)));
        listed(&only.collect::<Vec<_>>())
    };
    let mut reason = format!("{COLUMNS_OF}{other} are not those of {first}");
    for (file, only) in [(first, without(first_names, names)), (other, without(names, first_names))]
    {
        if !only.is_empty() {
            let _ = write!(reason, "; only in {file}: {only}");
        }
    }
    Error::misuse(reason).to_do("load such files into tables of their own, one after the other")
}

/// The shape of a table that is made for an input: its columns with their declared types.
pub fn made_table(
    options: &LoadOptions,
    table: &str,
    columns: &[(String, String)],
) -> Result<TableShape> {
    let names: Vec<&str> = columns.iter().map(|(name, _)| name.as_str()).collect();
    let find = |wanted: &String, to_be: &str| {
        let found = find_column(&names, wanted)?.map(|at| names[at].to_owned());
        found.ok_or_else(|| no_column(&names, wanted, &format!(" to be {to_be}")))
    };
    let mut primary_key = Vec::new();
    for key in &options.primary_key {
        primary_key.push(find(key, "the primary key")?);
    }
    for name in &options.not_null {
        find(name, "NOT NULL")?;
    }
    if primary_key.is_empty() {
        primary_key.extend(options.uuid7.iter().map(|(name, _)| name.clone()));
    }
    if options.without_rowid && primary_key.is_empty() {
        return Err(Error::misuse("a WITHOUT ROWID table needs a primary key")
            .to_do("name its columns with ⟦primary_key⟧"));
    }
    let indexes = index_requests(options, &names)?;
    let not_null = |name: &str| options.not_null.iter().any(|n| n.eq_ignore_ascii_case(name));
    let columns = columns.iter().map(|(name, declared_type)| ColumnRequest {
        name: name.clone(),
        declared_type: declared_type.clone(),
        not_null: not_null(name),
    });
    let request = TableRequest {
        table: table.to_owned(),
        columns: columns.collect(),
        primary_key,
        without_rowid: options.without_rowid,
        strict: options.strict,
        autoincrement: false,
        indexes,
    };
    let statements = request.statements();
    let mut shape = describe(&statements, Some(table)).map_err(|error| {
        let has_too_many = error.kind().to_string().contains("too many columns");
        error.to_do(if has_too_many {
            "a table of SQLite has at most 2,000 columns: choose them with ⟦select⟧"
        } else {
            "name the table with ⟦table⟧ and the columns with ⟦columns⟧ or ⟦rename⟧"
        })
    })?;
    // SQLite allows NULL in most keys. But the caller certainly wants no row without its key.
    for column in &mut shape.columns {
        column.not_null |=
            options.primary_key.iter().any(|key| key.eq_ignore_ascii_case(&column.name));
    }
    Ok(shape)
}

fn index_requests(options: &LoadOptions, names: &[&str]) -> Result<Vec<IndexRequest>> {
    let requests = options.indexes.iter();
    let requests = requests.map(|(text, unique)| IndexRequest::parse(text, *unique, names));
    let requests: Vec<IndexRequest> = requests.collect::<Result<_>>()?;
    for (at, request) in requests.iter().enumerate() {
        if requests[..at].contains(request) {
            return Err(Error::misuse(format!(
                "the index on {} is asked for twice",
                options.indexes[at].0
            )));
        }
    }
    Ok(requests)
}

/// A declared table with the additional indexes.
pub fn with_indexes(options: &LoadOptions, shape: TableShape) -> Result<TableShape> {
    let names: Vec<&str> = shape.columns.iter().map(|column| column.name.as_str()).collect();
    let mut taken: Vec<String> = shape.indexes.iter().map(|index| index.name.clone()).collect();
    let mut statements = vec![shape.create_sql()];
    for request in index_requests(options, &names)? {
        let is_taken = |name: &str| taken.iter().any(|t| t.eq_ignore_ascii_case(name));
        let name = request.name(&shape.name, is_taken);
        statements.push(request.create_sql(&name, &shape.name));
        taken.push(name);
    }
    if statements.len() == 1 { Ok(shape) } else { describe(&statements, Some(&shape.name)) }
}

/// A table declared by the caller, with the additional indexes.
pub fn declared_table(options: &LoadOptions, sql: &str) -> Result<TableShape> {
    with_indexes(options, describe(&[sql.to_owned()], options.table.as_deref())?)
}

/// Expected order of the rows.
pub fn expected_order(shape: &TableShape) -> RowOrder {
    if shape.through_sql.is_some() { RowOrder::ThroughSql } else { RowOrder::Ascending }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_column_is_found_by_its_exact_name_first() {
        let found = |names: &[&str], name| column_named(names, name).ok();
        assert_eq!(found(&["a", "A"], "A"), Some(1));
        assert_eq!(found(&["a", "A"], "a"), Some(0));
        assert_eq!(found(&["a", "b"], "B"), Some(1));
        assert_eq!(found(&["id", "ID_old", "id_2"], "ID"), Some(0));
        assert_eq!(found(&["a"], "b"), None);
        let refusal = |names: &[&str], name| column_named(names, name).unwrap_err().to_string();
        let error = refusal(&["name", "Name", "x"], "NAME");
        let wanted = "no column is named exactly 'NAME', and it may mean name, Name\n";
        assert!(error.starts_with(wanted), "{error}");
        // The second one is `A` in the input.
        let error = refusal(&["a", "A_2"], "A");
        assert!(error.contains("it may mean a, A_2\n"), "{error}");
    }
}
