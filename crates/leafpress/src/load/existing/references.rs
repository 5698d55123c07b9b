//! The foreign keys of a table, as queries: for rows without their parent rows, and for rows that
//! refer to rows of their own table.
//!
//! SQLite compares a value with the parent's key by the collation and the affinity of the
//! parent's column. So in each query the parent's column comes first, and a `+` takes the
//! affinity from the other one.
//!
//! Must never: change a row.

use std::collections::BTreeMap;

use rusqlite::Connection;

use crate::schema::declared::{DeclaredTable, OrderColumn, schema_text};
use crate::schema::quote_identifier;
use crate::schema::sql_words::{SqlWord, sql_words};

/// A foreign key of a table.
#[derive(Debug, Clone, Default)]
pub struct ForeignKey {
    /// Name of the parent table.
    pub parent: String,
    /// Columns of the child table.
    pub from: Vec<String>,
    /// Columns of the parent table, in the same order.
    pub to: Vec<String>,
}

impl ForeignKey {
    /// Condition on a row with the alias `parent`: its key equals these expressions.
    fn parent_condition(&self, values: impl Iterator<Item = String>) -> String {
        let pairs = self.to.iter().zip(values);
        let same = pairs.map(|(to, value)| format!("parent.{} = {value}", quote_identifier(to)));
        same.collect::<Vec<_>>().join(" AND ")
    }

    /// Query for the parent of a row; the row's columns are bound in their order.
    pub fn parent_sql(&self) -> String {
        let values = (1..=self.from.len()).map(|place| format!("?{place}"));
        let parent = quote_identifier(&self.parent);
        format!("SELECT 1 FROM main.{parent} AS parent WHERE {}", self.parent_condition(values))
    }

    /// Query for the rows of a table that refer to the same row as the bound values.
    pub fn children_sql(&self, table: &str) -> String {
        let same = self.from.iter().zip(1..);
        let same = same.map(|(from, place)| format!("{} IS ?{place}", quote_identifier(from)));
        let same = same.collect::<Vec<_>>().join(" AND ");
        format!("SELECT 1 FROM main.{} WHERE {same}", quote_identifier(table))
    }

    fn child_columns(&self) -> impl Iterator<Item = String> {
        self.from.iter().map(|from| format!("+child.{}", quote_identifier(from)))
    }
}

/// The foreign keys of a table, in the order of their declaration.
pub fn foreign_keys(connection: &Connection, table: &str) -> rusqlite::Result<Vec<ForeignKey>> {
    let sql = "SELECT key.id, key.\"table\", key.\"from\", coalesce(key.\"to\",
                   (SELECT name FROM pragma_table_info(key.\"table\") WHERE pk = key.seq + 1))
               FROM pragma_foreign_key_list(?1) AS key ORDER BY key.id DESC, key.seq";
    let mut statement = connection.prepare(sql)?;
    let mut rows = statement.query([table])?;
    let mut keys: BTreeMap<i64, ForeignKey> = BTreeMap::new();
    while let Some(row) = rows.next()? {
        let key = keys.entry(-row.get::<_, i64>(0)?).or_default();
        key.parent = row.get(1)?;
        key.from.push(row.get(2)?);
        // Without a name there is no such table.
        key.to.push(row.get::<_, Option<String>>(3)?.unwrap_or_default());
    }
    Ok(keys.into_values().collect())
}

/// Queries for the rows that must go because foreign keys do not hold.
#[derive(Debug)]
pub struct References {
    /// For rows without a parent row: their identities, and the name of the parent table.
    pub dangling: Vec<String>,
    /// For rows that refer to themselves, by a value that equals their key only as a value of its type
    /// or by its collation: their identities, and the reason. SQLite compares the two as they are, and
    /// finds no other such row, although its check of the whole table does later.
    pub unlike: Vec<String>,
    /// For rows that refer to a row of their own table: their identities, and the identity of that
    /// row. Empty if triggers may change the table: then a row can bring its own parent row.
    pub children: Vec<String>,
    /// For the rows that have a key of a row whose columns are bound: their identities, and 1 if
    /// they refer to the same rows as that one.
    pub holders: Vec<String>,
}

impl References {
    /// Makes the queries. Inserted rows have values for `columns`.
    pub fn read(
        connection: &Connection,
        declared: &DeclaredTable,
        identity: &Identity<'_>,
        columns: &[String],
    ) -> rusqlite::Result<Self> {
        let keys = foreign_keys(connection, &declared.name)?;
        let dangling = dangling(&keys, declared, identity);
        let unlike = unlike(&keys, declared, identity);
        if triggers_name(connection, declared)? {
            return Ok(Self { dangling, unlike, children: Vec::new(), holders: Vec::new() });
        }
        let place = |name: &str| {
            let place = columns.iter().position(|it| it.eq_ignore_ascii_case(name))?;
            Some(format!("?{}", place + 1))
        };
        // Rows without a value for the key are given one, and perhaps another next time.
        let own = keys.iter().filter(|key| {
            key.parent.eq_ignore_ascii_case(&declared.name)
                && key.to.iter().all(|name| place(name).is_some())
        });
        let table = quote_identifier(&declared.name);
        let children = own.map(|key| {
            format!(
                "SELECT {}, {} FROM main.{table} AS child CROSS JOIN main.{table} AS parent
                 ON {}",
                identity.sql("child."),
                identity.sql("parent."),
                key.parent_condition(key.child_columns())
            )
        });
        let children = children.collect();
        let refer = keys.iter().flat_map(|key| &key.from);
        let alike = refer
            .filter_map(|name| Some(format!("{} IS {}", quote_identifier(name), place(name)?)));
        let alike = alike.chain(["true".to_owned()]).collect::<Vec<_>>().join(" AND ");
        let holders = unique_keys(declared).into_iter().filter_map(|key| {
            let same = key.iter().map(|column| {
                let (name, collation) =
                    (quote_identifier(&column.name), quote_identifier(&column.collation));
                Some(format!("{name} COLLATE {collation} = {}", place(&column.name)?))
            });
            let same = same.collect::<Option<Vec<_>>>()?.join(" AND ");
            let identity = identity.sql("");
            Some(format!("SELECT {identity}, {alike} FROM main.{table} WHERE {same}"))
        });
        let holders = holders.collect();
        Ok(Self { dangling, unlike, children, holders })
    }
}

/// The unique keys of a table, as far as the rows have all of their columns.
fn unique_keys(declared: &DeclaredTable) -> Vec<Vec<OrderColumn>> {
    let alias = declared.rowid_alias.iter().map(|name| {
        let (name, collation) = (name.clone(), "BINARY".to_owned());
        vec![OrderColumn { name, collation, descending: false }]
    });
    let indexes = declared.indexes.iter().filter(|it| it.unique && !it.partial);
    let indexes = indexes.filter_map(|it| it.columns.iter().cloned().collect());
    alias.chain(indexes).collect()
}

/// The columns that identify a row of a table.
pub enum Identity<'d> {
    /// The rowid, by this name.
    Rowid(&'static str),
    /// The primary key, where the table has no rowids or columns hide their name.
    Key(Vec<&'d str>),
}

impl<'d> Identity<'d> {
    /// None if columns hide the rowids of a table without a primary key.
    pub fn of(declared: &'d DeclaredTable) -> Option<Self> {
        if let Some(rowid) = declared.rowid_name() {
            return Some(Self::Rowid(rowid));
        }
        let key = declared.primary_key();
        (!key.is_empty()).then_some(Self::Key(key))
    }

    /// Expression for the identity of a row, as a text. `prefix` is the alias of the row, with its dot.
    pub fn sql(&self, prefix: &str) -> String {
        match self {
            Self::Rowid(name) => format!("CAST({prefix}{name} AS TEXT)"),
            Self::Key(key) => {
                // quote() ends a text at its first NUL, and may give a text that is not UTF-8.
                let parts = key.iter().map(|name| {
                    let value = format!("{prefix}{}", quote_identifier(name));
                    format!(
                        "iif(typeof({value}) = 'text', 'text ' || hex({value}), quote({value}))"
                    )
                });
                parts.collect::<Vec<_>>().join(" || '|' || ")
            }
        }
    }
}

/// Queries for rows without a parent row. SQLite's own check names rows by their rowids; a table
/// whose rows have another identity needs a query for each key.
fn dangling(keys: &[ForeignKey], declared: &DeclaredTable, identity: &Identity<'_>) -> Vec<String> {
    let table = quote_identifier(&declared.name);
    if matches!(identity, Identity::Rowid(_)) {
        return vec![format!(
            "SELECT CAST(rowid AS TEXT), parent FROM pragma_foreign_key_check({})",
            quote_text(&declared.name)
        )];
    }
    let queries = keys.iter().map(|key| {
        let given =
            key.from.iter().map(|from| format!("child.{} IS NOT NULL", quote_identifier(from)));
        format!(
            "SELECT {}, {} FROM main.{table} AS child WHERE {} AND NOT EXISTS
             (SELECT 1 FROM main.{} AS parent WHERE {})",
            identity.sql("child."),
            quote_text(&key.parent),
            given.collect::<Vec<_>>().join(" AND "),
            quote_identifier(&key.parent),
            key.parent_condition(key.child_columns())
        )
    });
    queries.collect()
}

/// Queries for rows that refer to themselves by a value unlike their key. SQLite makes an integer of
/// a value that refers to a rowid, so these need none.
fn unlike(keys: &[ForeignKey], declared: &DeclaredTable, identity: &Identity<'_>) -> Vec<String> {
    let table = quote_identifier(&declared.name);
    let is_rowid = |name: &String| {
        declared.rowid_alias.as_ref().is_some_and(|alias| alias.eq_ignore_ascii_case(name))
    };
    let own = keys.iter().filter(|key| {
        key.parent.eq_ignore_ascii_case(&declared.name) && !key.to.iter().any(is_rowid)
    });
    let query = |key: &ForeignKey| {
        let values = key.from.iter().map(|from| format!("+parent.{}", quote_identifier(from)));
        let pairs = key.to.iter().zip(&key.from).map(|(to, from)| {
            let (to, from) = (quote_identifier(to), quote_identifier(from));
            format!("+parent.{to} IS +parent.{from} COLLATE BINARY")
        });
        let reason = format!(
            "FOREIGN KEY constraint failed: {} refers to the row itself by a value of another type \
             or form than that of {}",
            key.from.join(", "),
            key.to.join(", ")
        );
        format!(
            "SELECT {}, {} FROM main.{table} AS parent WHERE {} AND NOT ({})",
            identity.sql("parent."),
            quote_text(&reason),
            key.parent_condition(values),
            pairs.collect::<Vec<_>>().join(" AND ")
        )
    };
    own.map(query).collect()
}

/// Returns true if the table has triggers, and a trigger of the database names the table in its
/// statements.
fn triggers_name(connection: &Connection, declared: &DeclaredTable) -> rusqlite::Result<bool> {
    if declared.triggers.is_empty() {
        return Ok(false);
    }
    let sql = "SELECT sql FROM main.sqlite_schema WHERE type = 'trigger'
               UNION ALL SELECT sql FROM temp.sqlite_schema WHERE type = 'trigger'";
    let mut statement = connection.prepare(sql)?;
    let mut rows = statement.query([])?;
    // SQL writes a quote in a name twice.
    let is_plain = !declared.name.contains(['"', '\'', '`', ']']);
    while let Some(row) = rows.next()? {
        let sql = schema_text(row, 0)?.unwrap_or_default();
        let words = sql_words(&sql);
        let program = words.iter().skip_while(|word| !word.is("BEGIN"));
        let names_it = program.into_iter().any(|word| match word {
            SqlWord::Bare(name) | SqlWord::Quoted(_, name) => {
                name.eq_ignore_ascii_case(&declared.name)
            }
            SqlWord::Symbol(_) => false,
        });
        if names_it || !is_plain {
            return Ok(true);
        }
    }
    Ok(false)
}

fn quote_text(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}
