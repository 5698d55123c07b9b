//! The parts of the schema that the writer must know: triggers and tables because of which a statement
//! that fails may leave half of its changes.
//!
//! Must never: keep what it read after another connection has changed the schema.

use rusqlite::Connection;

use super::LocalTarget;
use crate::vfs::connection::data_version;
use crate::writer::statement::contains_word;

impl LocalTarget {
    /// If the schema has changed, looks for triggers and tables because of which a statement that fails
    /// may leave half of its changes.
    pub(super) fn read_schema(&mut self) -> rusqlite::Result<()> {
        let data_version = data_version(&self.connection);
        if data_version.is_some()
            && data_version == self.data_version
            && !self.guard.has_changed_schema()
        {
            return Ok(());
        }
        let version = self.guard.as_writer(|| {
            let sql = "PRAGMA schema_version";
            self.connection.with(sql, |own| own.query_row([], |row| row.get(0)))
        })?;
        let changed = self.guard.take_changed_schema();
        if changed || self.schema_version != Some(version) {
            self.schema_version = Some(version);
            self.schema_may_fail = self.guard.as_writer(|| schema_may_fail(&self.connection))?;
        }
        self.data_version = data_version;
        Ok(())
    }
}

/// Returns true if a trigger may use RAISE(FAIL), or a table ON CONFLICT FAIL. Triggers that are
/// temporary count too: `on_connect` may make some. It may also give LIKE another meaning, so the
/// words are compared here.
fn schema_may_fail(connection: &Connection) -> rusqlite::Result<bool> {
    let sql = "SELECT type, sql FROM main.sqlite_schema
               UNION ALL SELECT type, sql FROM temp.sqlite_schema";
    let mut statement = connection.prepare(sql)?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        let (kind, sql) = (row.get_ref(0)?, row.get_ref(1)?);
        let (Ok(kind), Ok(Some(sql))) = (kind.as_bytes(), sql.as_bytes_or_null()) else { continue };
        let may_fail = match kind {
            b"trigger" => contains_word(sql, b"fail"),
            b"table" => contains_word(sql, b"conflict") && contains_word(sql, b"fail"),
            _ => false,
        };
        if may_fail {
            return Ok(true);
        }
    }
    Ok(false)
}
