//! Rows of a pressed table as statements, in groups of bounded size.
//!
//! A value travels as a parameter in JSON where that keeps it: a text, a finite number, an integer that
//! a double holds. Any other stands in the SQL, as a literal.
//!
//! Must never: change a value on its way.

use std::path::Path;
use std::sync::mpsc::sync_channel;
use std::{mem, thread};

use leafpress::rusqlite::types::ValueRef;
use leafpress::rusqlite::{Connection, Row};
use leafpress::{Error, Result, quote_identifier};
use serde_json::json;

use super::pressed::open;
use crate::limits::{CALL_BYTES_MAX, PARAMETERS_MAX, ROWS_MAX};
use crate::literal::push_literal;
use crate::statement::Prepared;

/// A group waits for no other one that long, and the writes of other programs go between two groups.
const GROUP_BYTES: usize = 1 << 20;
/// Integers up to here are numbers of any reader of JSON.
const EXACT_MAX: u64 = 1 << 53;

/// Rows that go in one transaction.
#[derive(Default)]
pub struct RowGroup {
    pub statements: Vec<Prepared>,
    pub rows: u64,
}

impl RowGroup {
    /// Size of the request.
    pub fn bytes(&self) -> usize {
        self.statements.iter().map(|it| it.text.len()).sum()
    }
}

/// Gives `send` all rows of `table` in their order, the columns in that of `columns`. The next group is
/// made, by a thread of its own, while one is sent.
///
/// # Errors
/// Those of `send`; a row is larger than a cluster takes.
pub fn each_group(
    pressed: &Path,
    table: &str,
    columns: &[String],
    mut send: impl FnMut(RowGroup) -> Result<()>,
) -> Result<()> {
    let (sender, receiver) = sync_channel::<RowGroup>(1);
    thread::scope(|scope| {
        let read = move || {
            let connection = open(pressed)?;
            // The sending side is gone after an error, which it reports.
            Groups::new(table, columns).make(&connection, |group| sender.send(group).is_ok())
        };
        let reader = thread::Builder::new()
            .spawn_scoped(scope, read)
            .map_err(|source| Error::no_thread("that reads the rows", source))?;
        let outcome = receiver.into_iter().try_for_each(&mut send);
        let read = reader.join().unwrap_or_else(|_| Err(Error::bug("reading the rows panicked")));
        outcome.and(read)
    })
}

/// Makes groups of the rows of a table.
struct Groups {
    select: String,
    /// The INSERT up to its first row.
    insert: String,
    width: usize,
    rows_max: usize,
    group: RowGroup,
    bytes: usize,
    /// The statement that grows: its rows in SQL, its parameters in JSON.
    rows: usize,
    sql: String,
    parameters: String,
}

impl Groups {
    fn new(table: &str, columns: &[String]) -> Self {
        let list: Vec<String> = columns.iter().map(|it| quote_identifier(it)).collect();
        let (list, table) = (list.join(","), quote_identifier(table));
        Self {
            // An index would give another order.
            select: format!("SELECT {list} FROM {table} NOT INDEXED"),
            insert: format!("INSERT INTO {table}({list}) VALUES "),
            width: columns.len(),
            rows_max: (PARAMETERS_MAX / columns.len().max(1)).clamp(1, ROWS_MAX),
            group: RowGroup::default(),
            bytes: 0,
            rows: 0,
            sql: String::new(),
            parameters: String::new(),
        }
    }

    /// Gives all groups to `send`, until that returns false.
    fn make(mut self, connection: &Connection, send: impl Fn(RowGroup) -> bool) -> Result<()> {
        let mut statement = connection.prepare(&self.select)?;
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            self.add(row)?;
            if self.bytes + self.sql.len() + self.parameters.len() >= GROUP_BYTES {
                self.end_statement();
                self.bytes = 0;
                if !send(mem::take(&mut self.group)) {
                    return Ok(());
                }
            }
        }
        self.end_statement();
        if self.group.rows > 0 {
            send(self.group);
        }
        Ok(())
    }

    fn add(&mut self, row: &Row<'_>) -> Result<()> {
        let before = self.sql.len() + self.parameters.len();
        for column in 0..self.width {
            self.sql.push(if column == 0 { '(' } else { ',' });
            push_value(row.get_ref(column)?, &mut self.sql, &mut self.parameters);
        }
        self.sql.push_str("),");
        self.rows += 1;
        self.group.rows += 1;
        let bytes = self.sql.len() + self.parameters.len() - before;
        if bytes > CALL_BYTES_MAX {
            return Err(Error::unsupported(format!(
                "a row of {bytes} bytes would stop the cluster: {CALL_BYTES_MAX} are allowed"
            ))
            .to_do("load it into a new cluster, whose lone node takes a whole file"));
        }
        if self.rows == self.rows_max {
            self.end_statement();
        }
        Ok(())
    }

    fn end_statement(&mut self) {
        if self.rows == 0 {
            return;
        }
        self.sql.pop();
        let sql = json!(format!("{}{}", self.insert, self.sql));
        let text = format!("[{sql}{}]", self.parameters);
        self.bytes += text.len();
        self.group.statements.push(Prepared::own(text, false));
        self.rows = 0;
        self.sql.clear();
        self.parameters.clear();
    }
}

/// Puts a value into the SQL, or a mark there and the value into the parameters.
fn push_value(value: ValueRef<'_>, sql: &mut String, parameters: &mut String) {
    if push_literal(value, sql) {
        return;
    }
    let parameter = match value {
        ValueRef::Integer(number) if number.unsigned_abs() <= EXACT_MAX => json!(number),
        ValueRef::Integer(number) => return sql.push_str(&number.to_string()),
        ValueRef::Real(number) => json!(number),
        ValueRef::Text(bytes) => json!(String::from_utf8_lossy(bytes)),
        ValueRef::Null | ValueRef::Blob(_) => return sql.push_str("NULL"),
    };
    sql.push('?');
    parameters.push(',');
    parameters.push_str(&parameter.to_string());
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(value: ValueRef<'_>) -> (String, String) {
        let (mut sql, mut parameters) = (String::new(), String::new());
        push_value(value, &mut sql, &mut parameters);
        (sql, parameters)
    }

    #[test]
    fn what_json_may_change_stands_in_the_sql() {
        let cases = [
            (ValueRef::Null, "NULL", ""),
            (ValueRef::Integer(1 << 53), "?", ",9007199254740992"),
            (ValueRef::Integer((1 << 53) + 1), "9007199254740993", ""),
            (ValueRef::Integer(i64::MIN), "-9223372036854775808", ""),
            (ValueRef::Real(1.0), "?", ",1.0"),
            (ValueRef::Real(-0.1), "?", ",-0.1"),
            (ValueRef::Real(f64::NEG_INFINITY), "-9e999", ""),
            (ValueRef::Text("a\"ü\0".as_bytes()), "?", ",\"a\\\"ü\\u0000\""),
            (ValueRef::Text(b"\xff"), "CAST(x'ff' AS TEXT)", ""),
            (ValueRef::Blob(b"\x00\x7f"), "x'007f'", ""),
            (ValueRef::Text(b"X'00'"), "'X''00'''", ""),
        ];
        for (value, sql, parameters) in cases {
            assert_eq!(of(value), (sql.to_owned(), parameters.to_owned()));
        }
    }
}
