//! Calls of the writer and their answers: plain data, so that a group can be committed here or sent
//! elsewhere.
//!
//! Stands between the public calls (`mod.rs`), which make a [`Call`], and a
//! [`CommitTarget`](super::CommitTarget), which carries it out.
//!
//! Must never: know where or with whom a call is committed.

use std::any::Any;
use std::fmt;

use rusqlite::ToSql;
use rusqlite::types::{ToSqlOutput, Value};

use super::caught::Caught;
use super::insert_many::InsertMany;
use super::own::Own;
use super::transaction::Transaction;
use crate::error::{Error, Result};
use crate::words::counted;

/// The result of one `execute`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Executed {
    /// Rows that the statement itself inserted, changed or deleted; those of
    /// triggers and foreign key actions are not counted.
    pub rows_changed: u64,
    /// The rowid of the connection's last INSERT, which is this statement's if
    /// it was one into a table with rowids.
    pub last_insert_rowid: i64,
}

/// The values of a statement's parameters, owned: they wait for their group.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Parameters {
    /// For `?`, `?1`, …, in order.
    Positional(Vec<Value>),
    /// For `:name`, `@name`, `$name`, the sign included.
    Named(Vec<(String, Value)>),
}

/// Types that can be the parameters of a statement: `()`, tuples and arrays of values that rusqlite
/// takes, vectors of [`Value`], and the results of `rusqlite::params!` and
/// `rusqlite::named_params!`.
pub trait IntoParameters {
    /// The values, copied.
    ///
    /// # Errors
    /// If a value cannot be one in SQLite, as an integer beyond 64 bits.
    fn into_parameters(self) -> Result<Parameters>;
}

impl Parameters {
    /// The values, where they are not needed again.
    pub(super) fn take(&mut self) -> Self {
        std::mem::replace(self, Self::Positional(Vec::new()))
    }
}

impl IntoParameters for Parameters {
    fn into_parameters(self) -> Result<Parameters> {
        Ok(self)
    }
}

impl IntoParameters for () {
    fn into_parameters(self) -> Result<Parameters> {
        Ok(Parameters::Positional(Vec::new()))
    }
}

impl<T: ToSql, const N: usize> IntoParameters for [T; N] {
    fn into_parameters(self) -> Result<Parameters> {
        self.iter().map(|value| owned(value)).collect::<Result<_>>().map(Parameters::Positional)
    }
}

impl IntoParameters for Vec<Value> {
    fn into_parameters(self) -> Result<Parameters> {
        Ok(Parameters::Positional(self))
    }
}

/// Tuples, for values of different types.
macro_rules! tuple_into_parameters {
    ($($name:ident),+) => {
        impl<$($name: ToSql),+> IntoParameters for ($($name,)+) {
            #[expect(non_snake_case, reason = "a variable for each type")]
            fn into_parameters(self) -> Result<Parameters> {
                let ($($name,)+) = self;
                Ok(Parameters::Positional(vec![$(owned(&$name)?),+]))
            }
        }
    };
}

tuple_into_parameters!(A);
tuple_into_parameters!(A, B);
tuple_into_parameters!(A, B, C);
tuple_into_parameters!(A, B, C, D);
tuple_into_parameters!(A, B, C, D, E);
tuple_into_parameters!(A, B, C, D, E, F);
tuple_into_parameters!(A, B, C, D, E, F, G);
tuple_into_parameters!(A, B, C, D, E, F, G, H);
tuple_into_parameters!(A, B, C, D, E, F, G, H, I);
tuple_into_parameters!(A, B, C, D, E, F, G, H, I, J);
tuple_into_parameters!(A, B, C, D, E, F, G, H, I, J, K);
tuple_into_parameters!(A, B, C, D, E, F, G, H, I, J, K, L);
tuple_into_parameters!(A, B, C, D, E, F, G, H, I, J, K, L, M);
tuple_into_parameters!(A, B, C, D, E, F, G, H, I, J, K, L, M, N);
tuple_into_parameters!(A, B, C, D, E, F, G, H, I, J, K, L, M, N, O);
tuple_into_parameters!(A, B, C, D, E, F, G, H, I, J, K, L, M, N, O, P);

impl IntoParameters for &[&dyn ToSql] {
    fn into_parameters(self) -> Result<Parameters> {
        self.iter().map(|value| owned(*value)).collect::<Result<_>>().map(Parameters::Positional)
    }
}

impl<const N: usize> IntoParameters for &[&dyn ToSql; N] {
    fn into_parameters(self) -> Result<Parameters> {
        self.as_slice().into_parameters()
    }
}

impl IntoParameters for &[(&str, &dyn ToSql)] {
    fn into_parameters(self) -> Result<Parameters> {
        let named = self.iter().map(|(name, value)| Ok(((*name).to_owned(), owned(*value)?)));
        named.collect::<Result<_>>().map(Parameters::Named)
    }
}

impl<const N: usize> IntoParameters for &[(&str, &dyn ToSql); N] {
    fn into_parameters(self) -> Result<Parameters> {
        self.as_slice().into_parameters()
    }
}

/// A copy that outlives the caller's borrow.
fn owned(value: &dyn ToSql) -> Result<Value> {
    match value.to_sql().map_err(|source| Error::sqlite("take the parameters", source))? {
        ToSqlOutput::Borrowed(value) => Value::try_from(value)
            .map_err(|source| Error::usage(format!("a parameter is not text in UTF-8: {source}"))),
        ToSqlOutput::Owned(value) => Ok(value),
        _ => Err(Error::usage("a parameter is neither NULL, a number, text nor a blob")),
    }
}

/// One statement with its parameters.
#[derive(Debug, Clone, PartialEq)]
pub struct Statement {
    /// The SQL of exactly one statement.
    pub sql: String,
    /// The values of its parameters.
    pub parameters: Parameters,
}

/// Statements that are carried out as one transaction: all of them or none.
///
/// ```
/// # use leafpress::writer::Batch;
/// let move_money = Batch::new()
///     .statement("UPDATE account SET cents = cents - ?1 WHERE id = ?2", [500, 1])?
///     .statement("UPDATE account SET cents = cents + ?1 WHERE id = ?2", [500, 2])?;
/// # Ok::<(), leafpress::Error>(())
/// ```
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Batch {
    pub(super) parts: Vec<BatchPart>,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) enum BatchPart {
    Statement(Statement),
    /// Any number of statements, without parameters.
    Script(String),
}

impl Batch {
    /// A batch without statements.
    pub fn new() -> Self {
        Self::default()
    }

    /// One more statement.
    ///
    /// # Errors
    /// If a parameter cannot be a value in SQLite.
    pub fn statement(
        mut self,
        sql: impl Into<String>,
        parameters: impl IntoParameters,
    ) -> Result<Self> {
        let parameters = parameters.into_parameters()?;
        self.parts.push(BatchPart::Statement(Statement { sql: sql.into(), parameters }));
        Ok(self)
    }

    /// Any number of statements without parameters, as in a file of SQL.
    #[must_use]
    pub fn script(mut self, sql: impl Into<String>) -> Self {
        self.parts.push(BatchPart::Script(sql.into()));
        self
    }
}

impl From<&str> for Batch {
    fn from(sql: &str) -> Self {
        Self::new().script(sql)
    }
}

impl From<String> for Batch {
    fn from(sql: String) -> Self {
        Self::new().script(sql)
    }
}

/// A value of the caller's own, on its way back to it.
pub(super) type AnyValue = Box<dyn Any + Send>;

/// The caller's closure, which runs inside a transaction. It may be called again, if another
/// caller's call takes the group's transaction with it.
pub(super) type Body = Box<dyn FnMut(&Transaction<'_>) -> Result<AnyValue> + Send>;

/// One caller's transaction.
#[non_exhaustive]
pub enum Call {
    /// A single statement.
    Execute(Statement),
    /// Several, all or none.
    Batch(Batch),
    /// Many rows for one table, all or none.
    InsertMany(InsertMany),
    /// Whatever the caller's code does. Only a target in this process can
    /// carry it out.
    Closure(Closure),
    /// Work of this crate itself, as of its queue. Only a target in this process
    /// can carry it out, and none else is given any.
    Own(Own),
}

impl fmt::Debug for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Execute(statement) => f.debug_tuple("Execute").field(statement).finish(),
            Self::Batch(batch) => f.debug_tuple("Batch").field(batch).finish(),
            Self::InsertMany(_) => f.write_str("InsertMany(..)"),
            Self::Closure(_) => f.write_str("Closure(..)"),
            Self::Own(_) => f.write_str("Own(..)"),
        }
    }
}

/// A caller's code, to be run inside a transaction.
pub struct Closure(pub(super) Caught<Body>);

impl fmt::Debug for Closure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Closure(..)")
    }
}

/// The answer to a call that was committed.
#[non_exhaustive]
pub enum Answer {
    /// To [`Call::Execute`].
    Executed(Executed),
    /// To [`Call::Batch`].
    Done,
    /// To [`Call::InsertMany`]: how many rows went in.
    Inserted(u64),
    /// To [`Call::Closure`] and [`Call::Own`].
    Value(ClosureValue),
}

impl fmt::Debug for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Executed(executed) => f.debug_tuple("Executed").field(executed).finish(),
            Self::Done => f.write_str("Done"),
            Self::Inserted(rows) => f.debug_tuple("Inserted").field(rows).finish(),
            Self::Value(_) => f.write_str("Value(..)"),
        }
    }
}

/// The value that a caller's closure returned.
pub struct ClosureValue(pub(super) Caught<AnyValue>);

impl fmt::Debug for ClosureValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ClosureValue(..)")
    }
}

/// The rows as they wait for their group.
pub(super) fn insert_many_request<R: IntoParameters>(
    table: &str,
    columns: &[&str],
    rows: impl IntoIterator<Item = R>,
) -> Result<InsertMany> {
    let row = |(index, row): (usize, R)| match row.into_parameters()? {
        Parameters::Positional(values) if values.len() == columns.len() => Ok(values),
        Parameters::Positional(values) => Err(Error::usage(format!(
            "row {} for {table} has {}, and there must be {}, one for each column",
            index + 1,
            counted(values.len() as u64, "value", "values"),
            columns.len()
        ))),
        Parameters::Named(_) => Err(Error::usage("rows have values by position, not by name")),
    };
    let rows = rows.into_iter().enumerate().map(row).collect::<Result<_>>()?;
    let columns = columns.iter().map(|name| (*name).to_owned()).collect();
    Ok(InsertMany { table: table.to_owned(), columns, rows })
}
