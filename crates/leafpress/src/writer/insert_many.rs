//! Many rows for one table.
//!
//! Stands between a call and the open transaction that it is carried out in.

use rusqlite::types::Value;
use rusqlite::{Connection, params_from_iter};

use crate::error::{Error, Result};
use crate::schema::quote_identifier;

/// Rows for one table, as they wait for their group.
#[derive(Debug, Clone, PartialEq)]
pub struct InsertMany {
    /// The table's name.
    pub table: String,
    /// The columns that the values are for.
    pub columns: Vec<String>,
    /// As many values in each row as there are columns.
    pub rows: Vec<Vec<Value>>,
}

/// Inserts the rows inside the open transaction; how many.
pub(super) fn insert_sorted(connection: &Connection, request: &InsertMany) -> Result<u64> {
    let refused = |source| Error::sqlite("insert the rows", source);
    let columns: Vec<_> = request.columns.iter().map(|name| quote_identifier(name)).collect();
    let sql = format!(
        "INSERT INTO {} ({}) VALUES ({})",
        quote_identifier(&request.table),
        columns.join(", "),
        vec!["?"; columns.len()].join(", ")
    );
    let mut statement = connection.prepare_cached(&sql).map_err(refused)?;
    for row in &request.rows {
        statement.execute(params_from_iter(row)).map_err(refused)?;
    }
    Ok(request.rows.len() as u64)
}
