//! Requests of callers, as plain data: statements, their parameters, batches, and rows for a table.

use std::cell::RefCell;
use std::sync::Arc;

use rusqlite::ToSql;
use rusqlite::types::{ToSqlOutput, Value};

use self::sealed::Sealed;
use super::insert_many::InsertMany;
use crate::error::{Error, Result};
use crate::words::counted;

/// The result of one `execute`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Executed {
    /// Rows that the statement itself inserted, changed or deleted; those of
    /// triggers and foreign key actions are not counted.
    pub rows_changed: u64,
    /// The rowid of the connection's last INSERT, which is this statement's if
    /// it was one into a table with rowids.
    pub last_insert_rowid: i64,
}

impl Executed {
    /// The result of a statement that a [`CommitTarget`](super::CommitTarget) carried out.
    pub fn new(rows_changed: u64, last_insert_rowid: i64) -> Self {
        Self { rows_changed, last_insert_rowid }
    }
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

/// Types that can be the parameters of a statement: `()` and `[]` for none; tuples of up to 16
/// values; arrays of up to 32; vectors and slices of [`Value`]; references to arrays of references;
/// and the results of `rusqlite::params!` and `rusqlite::named_params!`. A value is one that
/// implements [`ToSql`], and is NULL, a number, text or a blob: not a `ZeroBlob`, nor the array of `rarray`,
/// which are made only where they are bound. The trait is sealed: no other type implements it.
pub trait IntoParameters: Sealed {
    /// The values, copied.
    ///
    /// # Errors
    /// If a value cannot be one in SQLite, as an integer beyond 64 bits.
    fn into_parameters(self) -> Result<Parameters>;
}

/// The seal of [`IntoParameters`].
mod sealed {
    pub trait Sealed {}
}

/// An implementation of [`IntoParameters`], and of its seal.
macro_rules! into_parameters {
    ($(where [$($generics:tt)*])? $type:ty, |$given:pat_param| $taken:expr) => {
        impl$(<$($generics)*>)? Sealed for $type {}
        impl$(<$($generics)*>)? IntoParameters for $type {
            fn into_parameters(self) -> Result<Parameters> {
                let $given = self;
                $taken
            }
        }
    };
}

impl Parameters {
    /// Returns true if a text or a blob among them is longer than this.
    pub(super) fn has_longer_than(&self, bytes: usize) -> bool {
        let is_longer = |value: &Value| match value {
            Value::Text(text) => text.len() > bytes,
            Value::Blob(blob) => blob.len() > bytes,
            Value::Null | Value::Integer(_) | Value::Real(_) => false,
        };
        match self {
            Self::Positional(values) => values.iter().any(is_longer),
            Self::Named(values) => values.iter().any(|(_, value)| is_longer(value)),
        }
    }

    /// The values, where they are not needed again.
    pub(super) fn take(&mut self) -> Self {
        std::mem::replace(self, Self::Positional(Vec::new()))
    }
}

into_parameters!(Parameters, |parameters| Ok(parameters));
into_parameters!((), |()| Ok(Parameters::Positional(Vec::new())));
into_parameters!([&dyn ToSql; 0], |_| Ok(Parameters::Positional(Vec::new())));
into_parameters!(Vec<Value>, |values| Ok(Parameters::Positional(values)));
into_parameters!(&[Value], |values| Ok(Parameters::Positional(values.to_vec())));
into_parameters!(&[&dyn ToSql], |values| positional(values.iter().copied()));
into_parameters!(where [T: ToSql + ?Sized, const N: usize] &[&T; N], |values| positional(values));
into_parameters!(&[(&str, &dyn ToSql)], |values| named(values));
into_parameters!(where [T: ToSql + ?Sized, const N: usize] &[(&str, &T); N], |values| named(values));

/// Arrays, each length for itself: else `[]` would be an array of any type.
macro_rules! array_into_parameters {
    ($($length:literal)+) => {
        $(into_parameters!(where [T: ToSql] [T; $length], |values| positional(&values));)+
    };
}

array_into_parameters!(1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16);
array_into_parameters!(17 18 19 20 21 22 23 24 25 26 27 28 29 30 31 32);

/// Tuples, for values of different types.
macro_rules! tuple_into_parameters {
    ($($name:ident),+) => {
        impl<$($name: ToSql),+> Sealed for ($($name,)+) {}
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

/// Copies of values that are given in order.
fn positional<T: ToSql>(values: impl IntoIterator<Item = T>) -> Result<Parameters> {
    values.into_iter().map(|value| owned(&value)).collect::<Result<_>>().map(Parameters::Positional)
}

/// Copies of values that are given by name.
fn named<T: ToSql + ?Sized>(values: &[(&str, &T)]) -> Result<Parameters> {
    let named = values.iter().map(|(name, value)| Ok(((*name).to_owned(), owned(value)?)));
    named.collect::<Result<_>>().map(Parameters::Named)
}

/// A copy that outlives the caller's borrow.
fn owned(value: &dyn ToSql) -> Result<Value> {
    match value.to_sql().map_err(|source| Error::sqlite("take the parameters", source))? {
        ToSqlOutput::Borrowed(value) => Value::try_from(value)
            .map_err(|source| Error::misuse(format!("a parameter is not text in UTF-8: {source}"))),
        ToSqlOutput::Owned(value) => Ok(value),
        _ => Err(Error::misuse(
            "a parameter is neither NULL, a number, text nor a blob, but a ZeroBlob or an array",
        )
        .to_do("write zeroblob(?) in SQL for a ZeroBlob, and json_each(?) for an array")),
    }
}

/// One statement with its parameters.
#[derive(Debug, Clone, PartialEq)]
pub struct Statement {
    /// The SQL of exactly one statement. Calls that have the same one share it.
    pub sql: Arc<str>,
    /// The values of its parameters.
    pub parameters: Parameters,
}

/// A longer text is not kept for the next call of its thread.
const SHARED_BYTES_MAX: usize = 4 << 10;

/// The text of a statement, shared with the last one of this thread if it is the same: most threads
/// send one statement over and over.
pub(super) fn shared_text(sql: &str) -> Arc<str> {
    thread_local! {
        static LAST: RefCell<Option<Arc<str>>> = const { RefCell::new(None) };
    }
    if sql.len() > SHARED_BYTES_MAX {
        return sql.into();
    }
    let shared = |last: &RefCell<Option<Arc<str>>>| {
        let mut last = last.borrow_mut();
        let same = last.take().filter(|last| **last == *sql).unwrap_or_else(|| sql.into());
        *last = Some(Arc::clone(&same));
        same
    };
    // A thread that ends has none any more.
    LAST.try_with(shared).unwrap_or_else(|_| sql.into())
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
        sql: impl AsRef<str>,
        parameters: impl IntoParameters,
    ) -> Result<Self> {
        let (sql, parameters) = (sql.as_ref().into(), parameters.into_parameters()?);
        self.parts.push(BatchPart::Statement(Statement { sql, parameters }));
        Ok(self)
    }

    /// Any number of statements without parameters, as in a file of SQL.
    #[must_use]
    pub fn script(mut self, sql: impl Into<String>) -> Self {
        self.parts.push(BatchPart::Script(sql.into()));
        self
    }
}

impl Batch {
    /// The statements in order, with those of scripts one by one: for a
    /// [`CommitTarget`](super::CommitTarget).
    ///
    /// # Errors
    /// If a script cannot be split, as a string in it has no end.
    pub fn statements(&self) -> Result<Vec<Statement>> {
        let mut statements = Vec::new();
        for part in &self.parts {
            match part {
                BatchPart::Statement(statement) => statements.push(statement.clone()),
                BatchPart::Script(text) => {
                    let parameters = || Parameters::Positional(Vec::new());
                    let split = crate::script::split("the batch", text)?.into_iter();
                    statements.extend(
                        split.map(|it| Statement { sql: it.sql.into(), parameters: parameters() }),
                    );
                }
            }
        }
        Ok(statements)
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

/// The rows as they wait for their group.
pub(super) fn insert_many_request<R: IntoParameters>(
    table: &str,
    columns: &[&str],
    rows: impl IntoIterator<Item = R>,
) -> Result<InsertMany> {
    let row = |(index, row): (usize, R)| match row.into_parameters()? {
        Parameters::Positional(values) if values.len() == columns.len() => Ok(values),
        Parameters::Positional(values) => Err(Error::misuse(format!(
            "row {} for {table} has {}, and there must be {}, one for each column",
            index + 1,
            counted(values.len() as u64, "value", "values"),
            columns.len()
        ))),
        Parameters::Named(_) => Err(Error::misuse("rows have values by position, not by name")),
    };
    let rows = rows.into_iter().enumerate().map(row).collect::<Result<_>>()?;
    let columns = columns.iter().map(|name| (*name).to_owned()).collect();
    Ok(InsertMany { table: table.to_owned(), columns, rows })
}
