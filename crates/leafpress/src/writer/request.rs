//! Requests of callers, as plain data: statements, their parameters, batches, and rows for a table.

use rusqlite::ToSql;
use rusqlite::types::{ToSqlOutput, Value};

use super::insert_many::InsertMany;
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
            .map_err(|source| Error::misuse(format!("a parameter is not text in UTF-8: {source}"))),
        ToSqlOutput::Owned(value) => Ok(value),
        _ => Err(Error::misuse("a parameter is neither NULL, a number, text nor a blob")),
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
