//! Cost of the counting itself: many rows in one transaction, through SQLite's
//! own VFS, through a layer of ours that only hands on, and through that layer
//! while it counts.
//!
//! Nothing is synced, so that the disk is not what is compared.
//!
//! Must never: let two of them do different work.

use std::time::Duration;

use leafpress::vfs::count::{Counted, IoCounters};
use leafpress::vfs::{self, PlatformVfs, Registration};
use rusqlite::Connection;
use serde::{Deserialize, Serialize};

use super::open::new_vfs_name;
use super::rung::Change;
use crate::commits::{TABLE, left_of_calls};
use crate::connect;
use crate::error::{Error, Result};
use crate::numbers::size_name;
use crate::report::Safety;
use crate::rung::described::{Described, Found, Given, Left, Topic};
use crate::rung::result::RungResult;

/// Layers between SQLite and its own VFS.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Layers {
    /// Nothing.
    None,
    /// A layer that hands everything on.
    Plain,
    /// A layer that hands everything on, and counts.
    Counted,
}

/// One rung of rows in one transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct AccountingRung {
    /// Layers between SQLite and its own VFS.
    pub(crate) layers: Layers,
    /// Rows.
    pub(crate) rows: u64,
}

impl Described for AccountingRung {
    fn name(&self) -> String {
        format!("accounting, {}, {}", self.label(), size_name(self.rows))
    }

    fn chart(&self) -> String {
        "what counting costs: one transaction".to_owned()
    }

    fn label(&self) -> String {
        let label = match self.layers {
            Layers::None => "SQL, SQLite's own VFS",
            Layers::Plain => "SQL, through a layer",
            Layers::Counted => "leafpress, counted",
        };
        label.to_owned()
    }

    fn is_ours(&self) -> bool {
        self.layers == Layers::Counted
    }

    fn safety(&self) -> Safety {
        Safety::Rebuildable
    }

    fn topic(&self) -> Option<Topic> {
        Some(Topic::OneRow)
    }

    fn rounds_of_large_run(&self) -> usize {
        5
    }

    fn rest(&self) -> Duration {
        Duration::from_millis(500)
    }

    /// 45 bytes a row in the table, as much again in a journal at most.
    fn room_mb(&self, _: u64) -> u64 {
        const ROW_BYTES: u64 = 100;
        const ROUNDING_MB: u64 = 10;
        self.rows.saturating_mul(ROW_BYTES) / 1_000_000 + ROUNDING_MB
    }

    /// Inserts the rows, and leaves the database closed.
    fn run(&self, given: &Given<'_>) -> Result<RungResult> {
        let layer = layer(self.layers)?;
        let vfs = layer.as_ref().map(|(name, _)| name.as_str());
        let connection = connect::open(given.database, vfs)?;
        let set_up = format!("PRAGMA synchronous = OFF; {TABLE}");
        connection.execute_batch(&set_up).map_err(Error::sqlite("set up a new database"))?;
        let result = RungResult::timed(self.rows, |_| {
            insert(&connection, self.rows).map_err(Error::sqlite("insert the rows"))?;
            Ok(self.rows)
        })?;
        connect::close(connection)?;
        Ok(result)
    }

    fn check(&self, _: &RungResult, found: &Found<'_>) -> Result<Left> {
        let expected = format!("{} rows, each call's own; delete; ok", self.rows);
        Ok(Left::new(expected, left_of_calls(found.database)?))
    }
}

/// The layers, and the name under which SQLite knows them.
fn layer(layers: Layers) -> Result<Option<(String, Registration)>> {
    let (name, below) = (new_vfs_name(), PlatformVfs::new());
    let registration = match layers {
        Layers::None => return Ok(None),
        Layers::Plain => vfs::register(&name, below)?,
        Layers::Counted => vfs::register(&name, Counted::new(below, &IoCounters::new()))?,
    };
    Ok(Some((name, registration)))
}

fn insert(connection: &Connection, rows: u64) -> rusqlite::Result<()> {
    connection.execute_batch("BEGIN")?;
    let mut statement = connection.prepare(Change::Insert.sql())?;
    for n in 0..rows {
        Change::Insert.make(&mut statement, n)?;
    }
    connection.execute_batch("COMMIT")
}
