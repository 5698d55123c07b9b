//! The pressed file of a load, and the statements that make its table on the cluster.

use std::path::Path;

use leafpress::rusqlite::{self, Connection, OpenFlags};
use leafpress::{Error, Result, quote_identifier};

use crate::statement::check_declaration;

/// Opens the pressed file, which the load may change.
pub fn open(pressed: &Path) -> Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    #[expect(clippy::disallowed_methods, reason = "a temporary file of this load alone")]
    Ok(Connection::open_with_flags(pressed, flags)?)
}

/// The pressed table: the statements that make it on the cluster.
pub struct PressedTable {
    pub create: String,
    /// Statements that make its indexes, on the staging table.
    pub indexes: Vec<String>,
    /// Statements of its triggers, on the table.
    pub triggers: Vec<String>,
    /// Rows of `sqlite_stat1` about the table.
    pub statistics: Vec<(Option<String>, String)>,
    pub columns: Vec<String>,
    pub rows: u64,
}

impl PressedTable {
    /// Gives the pressed table the name of the staging table, which SQLite brings into all its statements.
    pub fn prepare(
        connection: &Connection,
        table: &str,
        stage: &str,
        columns: &[String],
        is_there: bool,
    ) -> Result<Self> {
        let quoted = quote_identifier(stage);
        let texts = |sql: &str, name: &str| -> rusqlite::Result<Vec<String>> {
            let mut statement = connection.prepare(sql)?;
            let rows = statement.query_map([name], |row| row.get(0))?;
            rows.collect()
        };
        let of_type = |kind: &str| {
            format!(
                "SELECT sql FROM sqlite_schema WHERE type = '{kind}' AND tbl_name = ?1 COLLATE NOCASE AND sql IS NOT NULL ORDER BY rowid"
            )
        };
        let triggers = texts(&of_type("trigger"), table)?;
        let names = texts(
            "SELECT name FROM sqlite_schema WHERE type = 'trigger' AND tbl_name = ?1 COLLATE NOCASE",
            table,
        )?;
        for name in names {
            connection.execute_batch(&format!("DROP TRIGGER {}", quote_identifier(&name)))?;
        }
        let statistics = statistics_of(connection, table)?;
        connection.execute_batch(&format!(
            "ALTER TABLE {} RENAME TO {quoted}",
            quote_identifier(table)
        ))?;
        let create = texts(&of_type("table"), stage)?.pop();
        let create = create.ok_or_else(|| Error::bug("the pressed table is not there"))?;
        let indexes = texts(&of_type("index"), stage)?;
        for sql in indexes.iter().chain(&triggers).chain([&create]) {
            check_declaration(sql)?;
        }
        let stored = "SELECT name FROM pragma_table_xinfo(?1) WHERE hidden = 0 ORDER BY cid";
        let stored = texts(stored, stage)?;
        let is_given = |name: &String| columns.iter().any(|it| it.eq_ignore_ascii_case(name));
        let count = format!("SELECT count(*) FROM {quoted}");
        let rows = connection.query_row(&count, [], |row| row.get::<_, i64>(0))?.unsigned_abs();
        // An input without rows need not name columns.
        let is_wanted = |name: &String| !is_there || rows == 0 || is_given(name);
        let columns = stored.into_iter().filter(is_wanted).collect();
        Ok(Self { create, indexes, triggers, statistics, columns, rows })
    }
}

/// The rows of `sqlite_stat1` about a table, if there are any.
fn statistics_of(connection: &Connection, table: &str) -> Result<Vec<(Option<String>, String)>> {
    if !connection.table_exists(None, "sqlite_stat1")? {
        return Ok(Vec::new());
    }
    let sql = "SELECT idx, stat FROM sqlite_stat1 WHERE tbl = ?1 COLLATE NOCASE";
    let mut statement = connection.prepare(sql)?;
    let rows = statement.query_map([table], |row| Ok((row.get(0)?, row.get(1)?)))?;
    Ok(rows.collect::<rusqlite::Result<_>>()?)
}
