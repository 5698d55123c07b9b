//! Plans for inserting rows into a table: the statements, and the order of the rows. A plan is
//! worked out once for a table and a choice of columns, and again if the schema changes.
//!
//! Must never: let a name into SQL that is not quoted.

use leafpress_format::{Affinity, Collation, KeyColumn, SortOrder};
use rusqlite::{Connection, OptionalExtension as _};

use super::InsertMany;
use crate::error::{Error, Result};
use crate::schema::declared::{ColumnList, DeclaredColumn, DeclaredTable, OrderColumn};
use crate::schema::describe::collation;
use crate::schema::quote_identifier;

/// Limit of plans that are kept. A program inserts into few tables; one that invents names must not
/// fill the memory.
const PLANS_MAX: usize = 64;
/// Rows in one statement. Measured: 32 take half the time of one for a WITHOUT
/// ROWID table and two thirds for rows of few columns; more gain nothing.
const ROWS_AT_ONCE: usize = 32;
/// SQLite's own limit on the values of one statement.
const VALUES_MAX: usize = 32_766;

/// The plans in use. They belong to one connection.
///
/// A plan of a schema that was rolled back would also fit a later schema of the same version. So
/// the owner of the plans calls them at each commit and each rollback.
#[derive(Debug, Default)]
pub(crate) struct InsertPlans {
    /// Plans, the newest last.
    plans: Vec<Plan>,
}

/// The plan for inserting rows into one table.
#[derive(Debug)]
pub(super) struct Plan {
    /// Table and columns that the caller named.
    asked: (String, Vec<String>),
    /// Schema that it was made for: the version of `main`, and of `temp`, which may have triggers
    /// on tables of `main`.
    schema: (i64, i64),
    /// True once that schema is committed.
    is_committed: bool,
    /// Name of the table as it is declared.
    pub table: String,
    /// True if the stored rows depend on the order of the inserts.
    pub keeps_order: bool,
    /// Columns to sort by; empty if no order is better.
    pub key: Vec<KeyPart>,
    /// Statement for one row.
    pub insert_one: String,
    /// Statement for `rows_at_once` rows.
    pub insert_many: String,
    /// Rows of the other statement; 1 if that gains nothing.
    pub rows_at_once: usize,
}

/// A column of the key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct KeyPart {
    /// Index of the column's value in a row.
    pub at: usize,
    /// Affinity by which the value is converted when it is stored.
    pub affinity: Affinity,
    /// Comparison of the stored values.
    pub order: KeyColumn,
    /// True for the rowid: SQLite chooses it where the value is NULL.
    pub is_rowid: bool,
}

impl InsertPlans {
    /// Keeps the plans, as their transaction was committed.
    pub fn committed(&mut self) {
        for plan in &mut self.plans {
            plan.is_committed = true;
        }
    }

    /// Drops plans, as a transaction or a savepoint was rolled back.
    pub fn rolled_back(&mut self) {
        self.plans.retain(|plan| plan.is_committed);
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.plans.len()
    }

    pub(super) fn plan(&mut self, connection: &Connection, request: &InsertMany) -> Result<&Plan> {
        let schema = schema_version(connection)
            .map_err(|error| Error::sqlite("read the schema's version", error))?;
        let is_asked = |plan: &Plan| {
            let (table, columns) = &plan.asked;
            *table == request.table && *columns == request.columns
        };
        let found = self.plans.iter().position(is_asked);
        if let Some(at) = found
            && self.plans[at].schema == schema
        {
            return Ok(&self.plans[at]);
        }
        let plan = Plan::new(connection, schema, request)?;
        if let Some(at) = found {
            self.plans.remove(at);
        } else if self.plans.len() >= PLANS_MAX {
            self.plans.remove(0);
        }
        self.plans.push(plan);
        Ok(&self.plans[self.plans.len() - 1])
    }
}

fn schema_version(connection: &Connection) -> rusqlite::Result<(i64, i64)> {
    let version = |sql| connection.prepare_cached(sql)?.query_row([], |row| row.get(0));
    Ok((version("PRAGMA main.schema_version")?, version("PRAGMA temp.schema_version")?))
}

impl Plan {
    fn new(connection: &Connection, schema: (i64, i64), request: &InsertMany) -> Result<Self> {
        let declared = read_declaration(connection, &request.table)?;
        check_columns(&declared, &request.columns)?;
        let keeps_order =
            declared.is_virtual || declared.shows_order() || declared.refers_to_itself();
        let rows_at_once = rows_at_once(&declared, request.columns.len());
        Ok(Self {
            asked: (request.table.clone(), request.columns.clone()),
            schema,
            is_committed: false,
            key: key(&declared, &request.columns),
            insert_one: insert(&declared, &request.columns, "INSERT", 1),
            // A savepoint is around it, so that OR FAIL spares SQLite the copies of pages for the
            // statement alone.
            insert_many: insert(&declared, &request.columns, "INSERT OR FAIL", rows_at_once),
            rows_at_once,
            keeps_order,
            table: declared.name,
        })
    }
}

/// Number of rows in one statement. With indexes, statements of many rows take half as long again
/// as those of one: measured, with and without unique indexes.
fn rows_at_once(declared: &DeclaredTable, columns: usize) -> usize {
    let own_tree = usize::from(declared.without_rowid);
    if declared.indexes.len() > own_tree {
        return 1;
    }
    ROWS_AT_ONCE.min(VALUES_MAX / columns.max(1)).max(1)
}

fn read_declaration(connection: &Connection, table: &str) -> Result<DeclaredTable> {
    let refused = |error| Error::sqlite("read the table's declaration", error);
    let sql =
        "SELECT type FROM pragma_table_list WHERE schema = 'main' AND name = ?1 COLLATE NOCASE";
    let kind: Option<String> =
        connection.query_row(sql, [table], |row| row.get(0)).optional().map_err(refused)?;
    match kind.as_deref() {
        None => Err(Error::no_such_table(table).to_do("create the table first")),
        Some("view") => Err(Error::misuse(format!("{table} is a view, and rows go into tables"))
            .to_do("insert into the view by statements, one for each row")),
        Some(_) => DeclaredTable::read(connection, table).map_err(refused),
    }
}

fn check_columns(declared: &DeclaredTable, columns: &[String]) -> Result<()> {
    let table = &declared.name;
    if columns.is_empty() {
        return Err(Error::misuse(format!("no columns of {table} are named")));
    }
    for (at, name) in columns.iter().enumerate() {
        match declared.column(name) {
            Some(column) if column.generated => {
                let message = format!("column {name} of {table} is computed from others");
                return Err(Error::misuse(message).to_do("leave it out"));
            }
            None if !is_rowid(declared, name) => {
                let names: Vec<&str> = declared.columns.iter().map(|it| it.name.as_str()).collect();
                let reason = format!("{table} has no column {name}; it has {}", names.join(", "));
                return Err(Error::not_found("column", name, reason));
            }
            _ => {}
        }
        if columns[..at].iter().any(|other| other.eq_ignore_ascii_case(name)) {
            return Err(Error::misuse(format!("column {name} of {table} is named twice")));
        }
    }
    Ok(())
}

/// Returns true if `name`, which no column has, means the rowid.
fn is_rowid(declared: &DeclaredTable, name: &str) -> bool {
    let has_rowid = !declared.without_rowid;
    has_rowid && ["rowid", "oid", "_rowid_"].iter().any(|it| it.eq_ignore_ascii_case(name))
}

fn insert(declared: &DeclaredTable, columns: &[String], verb: &str, rows: usize) -> String {
    let names = ColumnList::new(columns.iter().map(String::as_str));
    let row = format!("({})", vec!["?"; names.count].join(","));
    format!(
        "{verb} INTO main.{}({}) VALUES {}",
        quote_identifier(&declared.name),
        names.sql,
        vec![row.as_str(); rows].join(",")
    )
}

/// The rowid if the caller gives it, else the primary key if the caller gives all of it.
fn key(declared: &DeclaredTable, columns: &[String]) -> Vec<KeyPart> {
    let place = |name: &str| columns.iter().position(|it| it.eq_ignore_ascii_case(name));
    let is_alias = |name: &str| {
        declared.rowid_alias.as_ref().is_some_and(|alias| alias.eq_ignore_ascii_case(name))
    };
    let is_it = |name: &String| {
        is_alias(name) || (declared.column(name).is_none() && is_rowid(declared, name))
    };
    if let Some(at) = columns.iter().position(is_it) {
        let order = KeyColumn::default();
        return vec![KeyPart { at, affinity: Affinity::Integer, order, is_rowid: true }];
    }
    let Some(index) = declared.indexes.iter().find(|it| it.origin == "pk") else {
        return Vec::new();
    };
    let part = |column: &Option<OrderColumn>| {
        let column = column.as_ref()?;
        let declared_column: &DeclaredColumn = declared.column(&column.name)?;
        let order = if column.descending { SortOrder::Descending } else { SortOrder::Ascending };
        // A wrong order, for a program's own collation, only costs speed.
        let collation = collation(&column.collation).unwrap_or(Collation::Binary);
        let affinity = declared.affinity(declared_column);
        let order = KeyColumn { collation, order };
        Some(KeyPart { at: place(&column.name)?, affinity, order, is_rowid: false })
    };
    index.columns.iter().map(part).collect::<Option<_>>().unwrap_or_default()
}
