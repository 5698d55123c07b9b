//! Plan of a table: its declaration, and the columns that get values.
//!
//! Knows names and types, and no rows. A table is declared by hand, exists in the database, or is
//! made from the input's columns. In all cases SQLite interprets the declaration ([`describe`]).

use crate::error::{Error, Result};
use crate::load::options::LoadOptions;
use crate::load::tree::RowOrder;
use crate::schema::ddl::{ColumnRequest, IndexRequest, TableRequest};
use crate::schema::describe::{declared_names, describe};
use crate::schema::names::{ColumnName, find_column, no_column};
use crate::schema::shape::TableShape;

/// SQLite's default limit, which our SQLite has.
pub const COLUMNS_MAX: usize = 2_000;

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

    /// Indices of the columns that no input brings, and whose DEFAULT SQLite makes for each row.
    pub fn filled_by_sqlite(&self) -> impl Iterator<Item = usize> {
        let columns = self.shape.columns.iter().zip(&self.given).enumerate();
        columns
            .filter(|(_, (column, given))| {
                !**given && !column.generated && column.default.is_none()
            })
            .map(|(at, _)| at)
    }
}

/// The shape of a table that is made for an input: its columns with their declared types. Its
/// indexes get none of the names that are taken.
pub fn made_table(
    options: &LoadOptions,
    (table, names_taken): (&str, &[String]),
    columns: &[(ColumnName, String)],
) -> Result<TableShape> {
    let names: Vec<ColumnName> = columns.iter().map(|(name, _)| name.clone()).collect();
    let find = |wanted: &String, to_be: &str| {
        let found = find_column(&names, wanted)?;
        found.ok_or_else(|| no_column(&names, wanted, &format!(" to be {to_be}")))
    };
    let key = options.primary_key.iter().map(|key| find(key, "the primary key"));
    let key: Vec<usize> = key.collect::<Result<_>>()?;
    let not_null = options.not_null.iter().map(|name| find(name, "NOT NULL"));
    let not_null: Vec<usize> = not_null.collect::<Result<_>>()?;
    let mut primary_key: Vec<String> = key.iter().map(|&at| names[at].name.clone()).collect();
    if primary_key.is_empty() {
        primary_key.extend(options.uuid7.iter().map(|(name, _)| name.clone()));
    }
    if options.without_rowid && primary_key.is_empty() {
        return Err(Error::misuse("a WITHOUT ROWID table needs a primary key")
            .to_do("name its columns with ⟦primary_key⟧"));
    }
    let indexes = index_requests(options, &names)?;
    let columns = columns.iter().enumerate().map(|(at, (name, declared_type))| ColumnRequest {
        name: name.name.clone(),
        declared_type: declared_type.clone(),
        not_null: not_null.contains(&at),
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
    let statements = request.statements(names_taken);
    let mut shape = describe(&statements, Some(table)).map_err(|error| {
        error.to_do(if names.len() > COLUMNS_MAX {
            "a table of SQLite has at most 2,000 columns: choose them with ⟦select⟧"
        } else {
            "name the table with ⟦table⟧ and the columns with ⟦columns⟧ or ⟦rename⟧"
        })
    })?;
    // SQLite allows NULL in most keys. But the caller certainly wants no row without its key.
    for at in key {
        shape.columns[at].not_null = true;
    }
    Ok(shape)
}

/// The indexes that the options ask for.
///
/// # Errors
/// If there is no such column, or an index is asked for twice.
pub fn index_requests(options: &LoadOptions, names: &[ColumnName]) -> Result<Vec<IndexRequest>> {
    let requests = options.indexes.iter();
    let requests = requests.map(|(text, unique)| IndexRequest::parse(text, *unique, names));
    let requests: Vec<IndexRequest> = requests.collect::<Result<_>>()?;
    for (at, request) in requests.iter().enumerate() {
        if requests[..at].contains(request) {
            return Err(Error::misuse(format!(
                "the index on {} is asked for twice",
                options.indexes[at].0
            ))
            .to_do("leave one of them out"));
        }
    }
    Ok(requests)
}

/// A declared table with the additional indexes, which get none of the names that are taken.
pub fn with_indexes(
    options: &LoadOptions,
    shape: TableShape,
    names_taken: &[String],
) -> Result<TableShape> {
    if options.indexes.is_empty() {
        return Ok(shape);
    }
    let names: Vec<ColumnName> =
        shape.columns.iter().map(|column| column.name.as_str().into()).collect();
    let mut statements: Vec<String> = shape.statements().map(str::to_owned).collect();
    let mut taken = [&declared_names(&statements)?[..], names_taken].concat();
    for request in index_requests(options, &names)? {
        let is_taken = |name: &str| taken.iter().any(|t| t.eq_ignore_ascii_case(name));
        let name = request.name(&shape.name, is_taken);
        statements.push(request.create_sql(&name, &shape.name));
        taken.push(name);
    }
    describe(&statements, Some(&shape.name))
}

/// A table declared by the caller.
pub fn declared_table(options: &LoadOptions, sql: &str) -> Result<TableShape> {
    describe(&[sql.to_owned()], options.table.as_deref())
}

/// Expected order of the rows.
pub fn expected_order(shape: &TableShape) -> RowOrder {
    if shape.through_sql.is_some() { RowOrder::ThroughSql } else { RowOrder::Ascending }
}
