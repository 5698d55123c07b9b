//! What the counting itself costs: many rows in one transaction, through SQLite's
//! own VFS, through a layer of ours that only hands on, and through that layer
//! while it counts.
//!
//! Nothing is synced, so that the disk is not what is compared.
//!
//! Must never: let two of them do different work.

use std::path::Path;
use std::time::Instant;

use leafpress::vfs::count::{Counted, IoCounters};
use leafpress::vfs::{self, PlatformVfs, Registration};
use rusqlite::Connection;
use serde::{Deserialize, Serialize};

use super::Change;
use super::open::new_vfs_name;
use crate::commits::TABLE;
use crate::error::{Error, Result};
use crate::rung::RungResult;
use crate::usage::Usage;

/// What is between SQLite and its own VFS.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Layers {
    /// Nothing.
    None,
    /// A layer that hands everything on.
    Plain,
    /// The same, and it counts.
    Counted,
}

/// One rung of rows in one transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct AccountingRung {
    /// What is between SQLite and its own VFS.
    pub layers: Layers,
    /// Rows.
    pub rows: u64,
}

impl AccountingRung {
    /// Its name in the report.
    pub(crate) fn name(self) -> &'static str {
        match self.layers {
            Layers::None => "accounting, SQL, SQLite's own VFS",
            Layers::Plain => "accounting, SQL, through a layer",
            Layers::Counted => "accounting, leafpress, counted",
        }
    }
}

/// Inserts the rows and leaves the database closed.
pub(crate) fn run(rung: AccountingRung, database: &Path) -> Result<RungResult> {
    let layer = layer(rung.layers)?;
    let connection = match &layer {
        Some(layer) => Connection::open_with_flags_and_vfs(
            database,
            rusqlite::OpenFlags::default(),
            layer.name(),
        ),
        None => Connection::open(database),
    };
    let connection = connection.map_err(Error::sqlite("open a new database"))?;
    let set_up = format!("PRAGMA synchronous = OFF; {TABLE}");
    connection.execute_batch(&set_up).map_err(Error::sqlite("set up a new database"))?;
    let before = Usage::now();
    let start = Instant::now();
    insert(&connection, rung.rows).map_err(Error::sqlite("insert the rows"))?;
    let wall_s = start.elapsed().as_secs_f64();
    let used = Usage::now().since(before);
    connection.close().map_err(|(_, error)| Error::sqlite("close the rung's database")(error))?;
    Ok(RungResult { wall_s, rows: rung.rows, ..RungResult::of(used) })
}

fn layer(layers: Layers) -> Result<Option<Registration>> {
    let (name, below) = (new_vfs_name(), PlatformVfs::new());
    Ok(match layers {
        Layers::None => None,
        Layers::Plain => Some(vfs::register(&name, below, false)?),
        Layers::Counted => {
            Some(vfs::register(&name, Counted::new(below, &IoCounters::new()), false)?)
        }
    })
}

fn insert(connection: &Connection, rows: u64) -> rusqlite::Result<()> {
    connection.execute_batch("BEGIN")?;
    let mut statement = connection.prepare(Change::Insert.sql())?;
    for n in 0..rows {
        Change::Insert.make(&mut statement, n)?;
    }
    connection.execute_batch("COMMIT")
}
