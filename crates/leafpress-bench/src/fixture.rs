//! What stands before the rungs of a group begin: the database that an index, a
//! new table or more rows go to, or the queues that jobs are claimed from. Each rung gets
//! a copy of its own.
//!
//! Made once, outside of all time taken, right before its group.

use std::fs;
use std::path::{Path, PathBuf};

use rusqlite::Connection;

use crate::error::{Error, Result};
use crate::generate::{self, FileSize, TextFormat};
use crate::group::Group;
use crate::queue::Filling;
use crate::rung::{RungKind, Work};
use crate::{ours, sql};

/// A table beside the one that is attached has a hundredth of its rows.
const NEIGHBOUR_FRACTION: u64 = 100;

/// Databases on the disk that go when this is dropped.
#[derive(Debug)]
pub(crate) struct Fixture {
    path: PathBuf,
    /// One for each queue that is claimed from, instead.
    queues: Vec<(Filling, PathBuf)>,
}

impl Fixture {
    /// Makes what the group needs; `None` if its rungs make new databases.
    pub(crate) fn make(group: &Group, folder: &Path) -> Result<Option<Self>> {
        let mut fixture = Self { path: folder.join("fixture.db"), queues: Vec::new() };
        let path = &fixture.path;
        match group.work {
            Work::Csv
            | Work::CsvIndex
            | Work::Users
            | Work::Keys
            | Work::Commits
            | Work::Atomic
            | Work::Accounting
            | Work::Queue
            | Work::Described => return Ok(None),
            Work::QueueClaims => {
                for kind in &group.kinds {
                    fixture.add_queue(*kind, folder)?;
                }
            }
            Work::Index => press_data(path, group.rows, folder)?,
            Work::Attach => {
                sql::load_keys_presorted(0..(group.rows / NEIGHBOUR_FRACTION).max(1), path)?;
                write_ahead(path)?;
            }
            Work::Append => {
                sql::load_keys_presorted(0..group.rows_before(), path)?;
                write_ahead(path)?;
            }
        }
        Ok(Some(fixture))
    }

    /// Makes the queue that a rung claims from, unless another one has the same.
    fn add_queue(&mut self, kind: RungKind, folder: &Path) -> Result<()> {
        let RungKind::Queue(rung) = kind else { return Ok(()) };
        let Some(filling) = rung.filling() else { return Ok(()) };
        if self.queues.iter().all(|(made, _)| *made != filling) {
            let path = folder.join(format!("fixture-{}.db", self.queues.len()));
            self.queues.push((filling, path.clone()));
            filling.make(&path)?;
        }
        Ok(())
    }

    /// The database that a rung begins with.
    pub(crate) fn path_for(&self, kind: RungKind) -> &Path {
        let filling = if let RungKind::Queue(rung) = kind { rung.filling() } else { None };
        let queue = self.queues.iter().find(|(made, _)| Some(*made) == filling);
        queue.map_or(&self.path, |(_, path)| path)
    }
}

impl Drop for Fixture {
    fn drop(&mut self) {
        // If it fails, the temporary folder's removal says so.
        let _ = fs::remove_file(&self.path);
        for (_, path) in &self.queues {
            let _ = fs::remove_file(path);
        }
    }
}

/// The table of the CSV file, pressed.
fn press_data(database: &Path, rows: u64, folder: &Path) -> Result<()> {
    let csv = folder.join("fixture.csv");
    generate::write_table(&csv, TextFormat::Csv, FileSize::Rows(rows), &mut |_| ())?;
    ours::load_csv(&csv, database, true)?;
    fs::remove_file(&csv).map_err(Error::io("remove", &csv))
}

/// Puts the database in WAL mode, in which it stays.
fn write_ahead(database: &Path) -> Result<()> {
    let connection = Connection::open(database).map_err(Error::sqlite("open the fixture"))?;
    connection
        .execute_batch("PRAGMA journal_mode = WAL")
        .map_err(Error::sqlite("set the fixture's journal mode"))?;
    connection.close().map_err(|(_, error)| Error::sqlite("close the fixture")(error))
}
