//! Whether a table keeps its indexes during a large insert, or is given them
//! anew afterwards, in the same transaction.

use rusqlite::{Connection, params};

use super::Staged;
use super::declared::DeclaredTable;
use super::insert::InsertMode;
use crate::schema::quote_identifier;

/// Indexes that are dropped before the rows go in, and made again behind them.
#[derive(Debug, Default)]
pub struct SetAside {
    indexes: Vec<Dropped>,
    why: String,
}

#[derive(Debug)]
struct Dropped {
    name: String,
    sql: String,
    /// Dropping an index takes its statistics with it.
    statistics: Vec<(String, String)>,
}

impl SetAside {
    /// Chooses which indexes to set aside.
    pub fn choose(
        _connection: &Connection,
        _staged: &Staged<'_>,
        _declared: &DeclaredTable,
        _mode: InsertMode,
        _attached: bool,
    ) -> rusqlite::Result<Self> {
        Ok(Self::default())
    }

    /// Drops them.
    pub fn drop_indexes(&self, connection: &Connection) -> rusqlite::Result<()> {
        let drop = |it: &Dropped| {
            connection.execute_batch(&format!("DROP INDEX main.{}", quote_identifier(&it.name)))
        };
        self.indexes.iter().try_for_each(drop)
    }

    /// Makes them again, as they were declared.
    pub fn build_indexes(&self, connection: &Connection) -> rusqlite::Result<()> {
        for index in &self.indexes {
            connection.execute_batch(&index.sql)?;
            for (table, statistics) in &index.statistics {
                let sql = "INSERT INTO main.sqlite_stat1(tbl, idx, stat) VALUES (?1, ?2, ?3)";
                connection.execute(sql, params![table, index.name, statistics])?;
            }
        }
        Ok(())
    }

    /// Whether there are any.
    pub fn is_any(&self) -> bool {
        !self.indexes.is_empty()
    }

    /// For the report.
    pub fn said(&self) -> String {
        if self.is_any() { format!("; {}", self.why) } else { String::new() }
    }
}
