//! Shape of a declared table, as SQLite itself understands the declaration.
//!
//! The statements are run on an empty database in memory, and pragmas read the result. So every
//! spelling that SQLite accepts is accepted here, and what SQLite refuses is refused. For an
//! existing table the pragmas read its own database.
//!
//! | asked | answers |
//! |---|---|
//! | `table_list` | is it a table, is it STRICT or WITHOUT ROWID |
//! | `table_xinfo` | columns: declared type, NOT NULL, DEFAULT, key, generated |
//! | `index_list`, `index_xinfo` | what stands in a record of which B-tree, and in which order |
//! | `foreign_key_list` | does it refer to others |
//! | `sqlite_schema` | the statements; indexes in the order of their making |
//! | `sql_words.rs` | CHECK, ON CONFLICT, AUTOINCREMENT: no pragma tells |
//!
//! Must never: change the database that it reads, or run a statement of the user that is no CREATE.

use leafpress_format::{Affinity, Collation, KeyColumn, SortOrder};
use rusqlite::fallible_iterator::FallibleIterator as _;
use rusqlite::hooks::{AuthAction, AuthContext, Authorization};
use rusqlite::types::ValueRef;
use rusqlite::{Batch, Connection, params};

use super::shape::{EntryColumn, EntryShape, IndexShape, OwnedValue, ShapeColumn, TableShape};
use super::sql_words::{SqlWord, declares_conflicts, sql_words};
use super::table::quote_identifier;
use crate::error::{Error, Result};

/// Functions whose result differs from row to row. Times do not: a load takes one time for all its
/// rows, as a statement of SQL does.
const CHANGING_FUNCTIONS: [&str; 5] =
    ["random", "randomblob", "changes", "total_changes", "last_insert_rowid"];

/// Shape of a table that `statements` declare: of the one called `table`, or of
/// the only one.
///
/// # Errors
///
/// A statement that SQLite refuses or that is no CREATE, several tables and no
/// `table`, a `table` that none of them is.
pub fn describe(statements: &[String], table: Option<&str>) -> Result<TableShape> {
    let connection = declare(statements)?;
    let tables = query(
        &connection,
        "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite\\_%' \
         ESCAPE '\\' ORDER BY rowid",
        &[],
        |row| row.get::<_, String>(0),
    )?;
    let table = match (table, tables.as_slice()) {
        (Some(table), _) => table,
        (None, [table]) => table,
        (None, []) => return Err(Error::misuse("the schema declares no table")),
        (None, tables) => {
            let names = tables.join(", ");
            return Err(Error::misuse(format!("the schema declares several tables: {names}"))
                .to_do("say which one to load with ⟦table⟧"));
        }
    };
    let mut shape = describe_existing(&connection, "main", table)?;
    shape.beside = query(
        &connection,
        "SELECT sql FROM sqlite_schema WHERE sql IS NOT NULL AND name NOT LIKE 'sqlite\\_%' \
         ESCAPE '\\' AND NOT (type IN ('table', 'index') AND tbl_name = ?1) ORDER BY rowid",
        &[&shape.name],
        |row| row.get(0),
    )?;
    Ok(shape)
}

/// The index as SQLite declares it on an empty copy of the table, which shows what it would index. None
/// if the table cannot be declared anew.
pub fn describe_index(table: &TableShape, sql: String, name: &str) -> Option<IndexShape> {
    let copy = describe(&[table.sql.clone(), sql], Some(&table.name)).ok()?;
    copy.indexes.into_iter().find(|index| index.name == name)
}

/// The names that the statements give, of tables and all else.
///
/// # Errors
///
/// A statement that SQLite refuses or that is no CREATE.
pub fn declared_names(statements: &[String]) -> Result<Vec<String>> {
    query(&declare(statements)?, "SELECT name FROM sqlite_schema", &[], |row| row.get(0))
}

/// Shape of a table in an existing database; `schema` is `main` or the name under which the
/// database is attached.
///
/// # Errors
///
/// No such table, something that is not an ordinary table, a database that
/// SQLite cannot read.
pub fn describe_existing(connection: &Connection, schema: &str, table: &str) -> Result<TableShape> {
    TableReader::find(connection, schema, table)?.read()
}

/// An empty database in memory with the schema.
fn declare(statements: &[String]) -> Result<Connection> {
    let refused = |source| Error::sqlite("read the schema", source);
    let mut connection = Connection::open_in_memory().map_err(refused)?;
    connection.authorizer(Some(allow_create_only)).map_err(refused)?;
    for text in statements {
        let text = without_own_tables(text);
        let mut batch = Batch::new(&connection, &text);
        while let Some(mut statement) = batch.next().map_err(refused_statement)? {
            check_create(&statement.expanded_sql().unwrap_or_default())?;
            statement.raw_execute().map_err(refused_statement)?;
        }
    }
    connection.authorizer(None::<fn(AuthContext<'_>) -> Authorization>).map_err(refused)?;
    Ok(connection)
}

const CREATE_ONLY: &str = "leave nothing in the schema but CREATE TABLE, CREATE INDEX, \
                           CREATE TRIGGER and CREATE VIEW, each without AS SELECT for tables";

const CORRECT: &str = "correct it where the message says; such as \
                    CREATE TABLE people(id INTEGER PRIMARY KEY, name TEXT)";

#[allow(clippy::needless_pass_by_value, reason = "as map_err wants it")]
fn refused_statement(source: rusqlite::Error) -> Error {
    let is_forbidden =
        source.sqlite_error_code() == Some(rusqlite::ErrorCode::AuthorizationForStatementDenied);
    let error = Error::misuse(format!("SQLite refuses the declaration: {source}"));
    error.to_do(if is_forbidden { CREATE_ONLY } else { CORRECT })
}

/// Allows what a CREATE does inside SQLite, and nothing else.
fn allow_create_only(context: AuthContext<'_>) -> Authorization {
    match context.action {
        AuthAction::CreateTable { .. }
        | AuthAction::CreateIndex { .. }
        | AuthAction::CreateTrigger { .. }
        | AuthAction::CreateView { .. }
        | AuthAction::Read { .. }
        | AuthAction::Update { table_name: "sqlite_master", .. }
        | AuthAction::Insert { table_name: "sqlite_master" }
        | AuthAction::Reindex { .. }
        | AuthAction::Function { .. } => Authorization::Allow,
        _ => Authorization::Deny,
    }
}

/// Refuses statements that are no CREATE, but do nothing that is forbidden.
fn check_create(sql: &str) -> Result<()> {
    let words = sql_words(sql);
    let creates = words.first().is_some_and(|word| word.is("CREATE"));
    let known = ["TABLE", "INDEX", "UNIQUE", "TRIGGER", "VIEW"];
    if creates && words.get(1).is_some_and(|word| known.iter().any(|known| word.is(known))) {
        return Ok(());
    }
    let line = sql.lines().find(|line| !line.trim().is_empty()).unwrap_or(sql);
    let message = format!("the schema holds a statement that cannot be part of it: {line}");
    Err(Error::misuse(message).to_do(CREATE_ONLY))
}

/// The text without SQLite's own tables, which cannot be declared, but are printed by the shell's
/// `.schema`.
fn without_own_tables(text: &str) -> String {
    const OWN: [&str; 3] = [
        "CREATE TABLE sqlite_sequence(name,seq);",
        "CREATE TABLE sqlite_stat1(tbl,idx,stat);",
        "CREATE TABLE sqlite_stat4(tbl,idx,neq,nlt,ndlt,sample);",
    ];
    let lines = text.split('\n').filter(|line| !OWN.contains(&line.trim()));
    lines.collect::<Vec<_>>().join("\n")
}

/// All rows of a query.
fn query<T>(
    connection: &Connection,
    sql: &str,
    parameters: &[&dyn rusqlite::ToSql],
    row: impl FnMut(&rusqlite::Row<'_>) -> rusqlite::Result<T>,
) -> Result<Vec<T>> {
    let failed = |source| Error::sqlite("read the schema", source);
    let mut statement = connection.prepare(sql).map_err(failed)?;
    let rows = statement.query_map(parameters, row).map_err(failed)?;
    rows.collect::<rusqlite::Result<_>>().map_err(failed)
}

/// A line of `table_xinfo`.
struct ColumnLine {
    name: String,
    declared_type: String,
    not_null: bool,
    default: Option<String>,
    is_key: bool,
    hidden: u8,
}

/// A line of `index_list`.
struct IndexLine {
    name: String,
    unique: bool,
    origin: String,
    partial: bool,
}

/// A line of `index_xinfo`.
struct EntryLine {
    column: i64,
    descending: bool,
    collation: Option<String>,
    is_key: bool,
}

/// Reads one table's shape.
struct TableReader<'c> {
    connection: &'c Connection,
    schema: &'c str,
    table: String,
    without_rowid: bool,
    strict: bool,
}

impl<'c> TableReader<'c> {
    fn find(connection: &'c Connection, schema: &'c str, table: &str) -> Result<Self> {
        let list = "SELECT name, type, wr, strict FROM pragma_table_list WHERE schema = ?1";
        let sql = format!("{list} AND name = ?2 COLLATE NOCASE");
        let found = query(connection, &sql, &[&schema, &table], |row| {
            let kind: String = row.get(1)?;
            let reader = Self {
                connection,
                schema,
                table: row.get(0)?,
                without_rowid: row.get(2)?,
                strict: row.get(3)?,
            };
            Ok((reader, kind))
        })?;
        match found.into_iter().next() {
            Some((reader, kind)) if kind == "table" => Ok(reader),
            Some((reader, kind)) => {
                let (article, advice) = if kind == "view" {
                    ("a view", "name a table; a view uses the indexes of the tables that it reads")
                } else {
                    (
                        "a virtual table or part of one",
                        "name a table; rows go into a virtual table by SQL: load them into a table \
                         of their own, and INSERT … SELECT from there",
                    )
                };
                Err(Error::misuse(format!("'{}' is {article}, not a table", reader.table))
                    .to_do(advice))
            }
            None => {
                let sql =
                    format!("{list} AND type = 'table' AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\'");
                let names = query(connection, &sql, &[&schema], |row| row.get::<_, String>(0))?;
                let names = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
                let reason = format!("there is no table '{table}'; tables: {names}");
                Err(Error::not_found("table", table, reason).to_do("name a table that is there"))
            }
        }
    }

    fn read(self) -> Result<TableShape> {
        let lines = self.column_lines()?;
        let index_lines = self.index_lines()?;
        let sql = self.statement("table", &self.table)?.unwrap_or_default();
        let words = sql_words(&sql);
        let rowid_column = self.rowid_column(&lines, &index_lines);
        let mut key = None;
        let mut indexes = Vec::new();
        let mut through_sql = self.row_by_row_reason(&lines, &words)?;
        for line in &index_lines {
            let (entry, reason) = self.entry(line, rowid_column)?;
            if self.without_rowid && line.origin == "pk" {
                key = Some(entry);
                through_sql = through_sql.or(reason);
                continue;
            }
            let index_sql = self.statement("index", &line.name)?;
            // An automatic index exists as soon as the table does, and a unique one decides about
            // each row.
            if (index_sql.is_none() || line.unique) && through_sql.is_none() {
                through_sql.clone_from(&reason);
            }
            indexes.push(IndexShape {
                name: line.name.clone(),
                sql: index_sql,
                entry,
                unique: line.unique,
                through_sql: reason,
            });
        }
        let mut columns =
            lines.iter().map(|line| self.column(line)).collect::<Result<Vec<ShapeColumn>>>()?;
        if let Some(rowid) = rowid_column {
            // SQLite gives it a number, and never its DEFAULT.
            columns[rowid].default = Some(OwnedValue::Null);
        }
        Ok(TableShape {
            columns,
            rowid_column,
            autoincrement: rowid_column.is_some() && words.iter().any(|w| w.is("AUTOINCREMENT")),
            strict: self.strict,
            key,
            indexes,
            has_foreign_keys: self.count("SELECT count(*) FROM pragma_foreign_key_list(?1, ?2)")?
                > 0,
            through_sql,
            generated_there: Vec::new(),
            beside: Vec::new(),
            name: self.table,
            sql,
        })
    }

    fn column_lines(&self) -> Result<Vec<ColumnLine>> {
        let sql = "SELECT name, type, \"notnull\", dflt_value, pk, hidden \
                   FROM pragma_table_xinfo(?1, ?2) ORDER BY cid";
        query(self.connection, sql, &[&self.table, &self.schema], |row| {
            Ok(ColumnLine {
                name: row.get(0)?,
                declared_type: row.get(1)?,
                not_null: row.get(2)?,
                default: row.get(3)?,
                is_key: row.get::<_, i64>(4)? > 0,
                hidden: row.get(5)?,
            })
        })
    }

    /// Lines in the order of the schema table, then the key of a WITHOUT ROWID table, which is not
    /// in it: it is the table itself.
    fn index_lines(&self) -> Result<Vec<IndexLine>> {
        let schema = self.schema_table();
        let sql = format!(
            "SELECT list.name, list.\"unique\", list.origin, list.partial \
             FROM pragma_index_list(?1, ?2) AS list \
             LEFT JOIN {schema} AS made ON made.type = 'index' AND made.name = list.name \
             ORDER BY made.rowid NULLS LAST"
        );
        query(self.connection, &sql, &[&self.table, &self.schema], |row| {
            Ok(IndexLine {
                name: row.get(0)?,
                unique: row.get(1)?,
                origin: row.get(2)?,
                partial: row.get(3)?,
            })
        })
    }

    fn schema_table(&self) -> String {
        format!("{}.sqlite_schema", quote_identifier(self.schema))
    }

    fn statement(&self, kind: &str, name: &str) -> Result<Option<String>> {
        let sql = format!("SELECT sql FROM {} WHERE type = ?1 AND name = ?2", self.schema_table());
        let rows = query(self.connection, &sql, &[&kind, &name], |row| row.get(0))?;
        Ok(rows.into_iter().next().flatten())
    }

    fn count(&self, sql: &str) -> Result<i64> {
        self.connection
            .query_row(sql, params![self.table, self.schema], |row| row.get(0))
            .map_err(|source| Error::sqlite("read the schema", source))
    }

    /// The one column of the key that has no B-tree of its own: `INTEGER PRIMARY
    /// KEY`, but not `INTEGER PRIMARY KEY DESC`, which has one.
    fn rowid_column(&self, lines: &[ColumnLine], indexes: &[IndexLine]) -> Option<usize> {
        if self.without_rowid || indexes.iter().any(|index| index.origin == "pk") {
            return None;
        }
        lines.iter().position(|line| line.is_key)
    }

    /// Reason why SQLite must insert each row itself, if there is one.
    fn row_by_row_reason(
        &self,
        lines: &[ColumnLine],
        words: &[SqlWord<'_>],
    ) -> Result<Option<String>> {
        if let Some(line) = lines.iter().find(|line| line.hidden != 0) {
            return Ok(Some(format!("column \"{}\" is generated", line.name)));
        }
        if words.iter().any(|word| word.is("CHECK")) {
            return Ok(Some("the table has a CHECK".into()));
        }
        if declares_conflicts(words) {
            return Ok(Some("a constraint of the table says ON CONFLICT".into()));
        }
        if !self.strict && words.windows(2).any(|pair| may_be_empty_type(pair[0], pair[1])) {
            return Ok(Some("a column's type is an empty name".into()));
        }
        let sql = format!(
            "SELECT count(*) FROM {} WHERE type = 'trigger' AND tbl_name = ?1 COLLATE NOCASE \
             AND ?2 IS NOT NULL",
            self.schema_table()
        );
        Ok((self.count(&sql)? > 0).then(|| "the table has a trigger".into()))
    }

    /// The records of one of the table's B-trees, and the reason why they cannot be pressed.
    fn entry(
        &self,
        index: &IndexLine,
        rowid_column: Option<usize>,
    ) -> Result<(EntryShape, Option<String>)> {
        let sql = "SELECT cid, \"desc\", coll, key FROM pragma_index_xinfo(?1, ?2) ORDER BY seqno";
        let lines = query(self.connection, sql, &[&index.name, &self.schema], |row| {
            Ok(EntryLine {
                column: row.get(0)?,
                descending: row.get(1)?,
                collation: row.get(2)?,
                is_key: row.get(3)?,
            })
        })?;
        let is_table = self.without_rowid && index.origin == "pk";
        let mut reason =
            index.partial.then(|| format!("index \"{}\" is on some rows only", index.name));
        let (mut columns, mut order) = (Vec::new(), Vec::new());
        for line in &lines {
            columns.push(match usize::try_from(line.column) {
                Ok(column) if Some(column) != rowid_column => EntryColumn::Column(column),
                Ok(_) => EntryColumn::Rowid,
                Err(_) if line.column == -1 => EntryColumn::Rowid,
                Err(_) => {
                    reason = Some(format!("index \"{}\" is on an expression", index.name));
                    EntryColumn::Rowid
                }
            });
            // Only the key tells the table's rows apart.
            if is_table && !line.is_key {
                continue;
            }
            let name = line.collation.as_deref().unwrap_or("BINARY");
            let collation = collation(name).unwrap_or_else(|| {
                reason = Some(format!("'{name}' is a collation that some program defines"));
                Collation::Binary
            });
            let direction =
                if line.descending { SortOrder::Descending } else { SortOrder::Ascending };
            order.push(KeyColumn { collation, order: direction });
        }
        let unique_columns = lines.iter().filter(|line| line.is_key).count();
        Ok((EntryShape { columns, order, unique_columns }, reason))
    }

    fn column(&self, line: &ColumnLine) -> Result<ShapeColumn> {
        let affinity = if self.strict && line.declared_type.eq_ignore_ascii_case("ANY") {
            Affinity::Blob
        } else {
            Affinity::of_declared_type(&line.declared_type)
        };
        let default = match &line.default {
            _ if line.hidden != 0 => None,
            None => Some(OwnedValue::Null),
            Some(text) => self.default(text, &line.declared_type, affinity)?,
        };
        Ok(ShapeColumn {
            name: line.name.clone(),
            declared_type: line.declared_type.clone(),
            affinity,
            not_null: line.not_null,
            default,
            generated: line.hidden != 0,
        })
    }

    /// Value that SQLite stores by default; `None` if it may be another one for each row, or is a text that is
    /// not UTF-8. The pragma shows the text without its parentheses: without them a name means a text, not a
    /// column, which is an error within them.
    fn default(
        &self,
        text: &str,
        declared_type: &str,
        affinity: Affinity,
    ) -> Result<Option<OwnedValue>> {
        let words = sql_words(text);
        if CHANGING_FUNCTIONS.iter().any(|name| words.iter().any(|word| word.may_name(name))) {
            return Ok(None);
        }
        let (declared_type, strict) =
            if self.strict { (declared_type, " STRICT") } else { (type_name(affinity), "") };
        let failed = |source| Error::sqlite("read the schema", source);
        let probe = Connection::open_in_memory().map_err(failed)?;
        let create = |default: &str| {
            let sql =
                format!("CREATE TABLE probe(value {declared_type} DEFAULT {default}){strict}");
            probe.execute_batch(&sql)
        };
        create(&format!("({text}\n)")).or_else(|_| create(&format!("{text}\n"))).map_err(failed)?;
        if probe.execute("INSERT INTO probe DEFAULT VALUES", []).is_err() {
            return Ok(None);
        }
        probe
            .query_row("SELECT value FROM probe", [], |row| Ok(owned(row.get_ref(0)?)))
            .map_err(failed)
    }
}

/// Returns true if the second word may be a quoted empty type, which no pragma tells from no type.
/// After a bare word an empty text is mostly a DEFAULT.
fn may_be_empty_type(before: SqlWord<'_>, word: SqlWord<'_>) -> bool {
    match (before, word) {
        (SqlWord::Bare(_), SqlWord::Quoted('\'', "")) => !before.is("DEFAULT"),
        (SqlWord::Bare(_) | SqlWord::Quoted(..), SqlWord::Quoted(_, "")) => true,
        _ => false,
    }
}

/// A built-in collation of SQLite.
pub fn collation(name: &str) -> Option<Collation> {
    let known =
        [("BINARY", Collation::Binary), ("NOCASE", Collation::NoCase), ("RTRIM", Collation::RTrim)];
    known.into_iter().find(|known| known.0.eq_ignore_ascii_case(name)).map(|known| known.1)
}

/// A declared type with that affinity.
const fn type_name(affinity: Affinity) -> &'static str {
    match affinity {
        Affinity::Blob => "BLOB",
        Affinity::Text => "TEXT",
        Affinity::Numeric => "NUMERIC",
        Affinity::Integer => "INTEGER",
        Affinity::Real => "REAL",
    }
}

/// The value; `None` for a text that is not UTF-8.
fn owned(value: ValueRef<'_>) -> Option<OwnedValue> {
    Some(match value {
        ValueRef::Null => OwnedValue::Null,
        ValueRef::Integer(integer) => OwnedValue::Integer(integer),
        ValueRef::Real(real) => OwnedValue::Real(real),
        ValueRef::Text(text) => OwnedValue::Text(std::str::from_utf8(text).ok()?.to_owned()),
        ValueRef::Blob(blob) => OwnedValue::Blob(blob.to_vec()),
    })
}

#[cfg(test)]
mod tests;
