//! Databases in which many jobs wait, are leased or are delayed.
//!
//! One job of each kind is made by the Queue itself; the others are copies of its row by
//! SQL, in one transaction without a journal: ten million pushes would take much longer.
//! So the schema and every column but the id and the payload are the Queue's own.
//!
//! Made once, outside of all time taken; each rung gets a copy of its own.

use std::path::Path;
use std::time::Duration;

use leafpress::queue::{ClaimOptions, Job};
use rusqlite::Connection;

use super::jobs::{FILLER, JobNumber};
use super::ours;
use super::rung::Filling;
use crate::error::{Error, Result};
use crate::report::Safety;

/// Longer than any experiment.
const A_DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// Without a journal a crash leaves half a file, which is in a temporary folder.
const PRAGMAS: &str = "PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF; \
     PRAGMA locking_mode = EXCLUSIVE; PRAGMA cache_size = -200000";

impl Filling {
    /// Makes the database.
    pub(super) fn make(self, database: &Path) -> Result<()> {
        let opened = ours::open(Safety::Relaxed, database, None)?;
        let job = |n| Job::bytes(JobNumber::of(FILLER, n).payload());
        let mut models = Vec::new();
        if self.leased > 0 {
            let pushed = opened.queue.push(job(0))?;
            opened.queue.claim_with(&ClaimOptions::new().lease(A_DAY))?;
            models.push((pushed.id, 1..self.leased));
        }
        if self.delayed > 0 {
            let first = self.leased;
            let pushed = opened.queue.push(job(first).delay(A_DAY))?;
            models.push((pushed.id, first + 1..first + self.delayed));
        }
        if self.waiting > 0 {
            let first = self.leased + self.delayed;
            let pushed = opened.queue.push(job(first))?;
            models.push((pushed.id, first + 1..first + self.waiting));
        }
        opened.close()?;
        copy_rows(database, &models).map_err(Error::sqlite("fill the queue"))
    }
}

/// Copies the row of each model, with the payloads of these jobs of the filling client.
fn copy_rows(database: &Path, models: &[(i64, std::ops::Range<u64>)]) -> rusqlite::Result<()> {
    let connection = Connection::open(database)?;
    connection.execute_batch(PRAGMAS)?;
    let columns: String = connection.query_row(
        "SELECT group_concat('\"' || name || '\"', ', ') FROM pragma_table_info('leafpress_job') \
         WHERE name NOT IN ('id', 'payload')",
        [],
        |row| row.get(0),
    )?;
    // The rows that are copied are found by their id, once for each number.
    let sql = format!(
        "WITH RECURSIVE job(n) AS (SELECT ?2 WHERE ?2 < ?3 \
             UNION ALL SELECT n + 1 FROM job WHERE n + 1 < ?3) \
         INSERT INTO leafpress_job({columns}, payload) \
         SELECT {columns}, CAST(printf('bench job%020d', ?4 + n) AS BLOB) \
         FROM job CROSS JOIN leafpress_job WHERE id = ?1"
    );
    connection.execute_batch("BEGIN IMMEDIATE")?;
    for (model, numbers) in models {
        let first = JobNumber::of(FILLER, 0).0.cast_signed();
        let (begin, end) = (numbers.start.cast_signed(), numbers.end.cast_signed());
        connection.execute(&sql, [*model, begin, end, first])?;
    }
    connection.execute_batch("COMMIT")?;
    connection.close().map_err(|(_, error)| error)
}
