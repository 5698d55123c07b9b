//! That no job was lost, done twice or left out: the jobs that a rung left in its queue, counted by
//! plain SQLite.
//!
//! Ids are never given twice, so the last one is the number of jobs that were ever pushed.

use std::path::Path;

use crate::connect;
use crate::error::Result;
use crate::rung::described::Left;

/// Looking at every page of a larger database takes longer than the rung.
const INTEGRITY_JOBS_MAX: u64 = 200_000;

/// State of a job in either table.
const STATES: [(&str, i64); 3] = [("ready", 0), ("leased", 1), ("delayed", 2)];

/// Table of the Queue.
pub(super) const OUR_TABLE: &str = "leafpress_job";

/// Table of a queue on plain SQLite.
pub(super) const SQL_TABLE: &str = "job";

/// Compares the jobs of a Queue with so many that should be ready, leased and delayed, of this many
/// that were pushed.
pub(crate) fn left_of_jobs(
    counts: [u64; 3],
    pushed: u64,
    journal_mode: &str,
    database: &Path,
) -> Result<Left> {
    jobs(OUR_TABLE, counts, Some(pushed), journal_mode, database)
}

/// Compares the jobs of a table with so many that should be ready, leased and delayed, of this many
/// that were pushed, where that is known.
pub(super) fn jobs(
    table: &str,
    counts: [u64; 3],
    pushed: Option<u64>,
    journal_mode: &str,
    database: &Path,
) -> Result<Left> {
    let expected = format!("{}; {journal_mode}; ok", in_words(counts, pushed));
    // A larger database than expected is an error anyway.
    let is_small = counts.iter().sum::<u64>() <= INTEGRITY_JOBS_MAX;
    let found = connect::look(database, is_small, |connection| {
        let number = |sql: &str| -> rusqlite::Result<u64> {
            connection.query_row(sql, [], |row| Ok(row.get::<_, i64>(0)?.cast_unsigned()))
        };
        let mut counts = [0; 3];
        for (count, (_, state)) in counts.iter_mut().zip(STATES) {
            *count = number(&format!("SELECT count(*) FROM {table} WHERE state = {state}"))?;
        }
        let jobs: u64 = counts.iter().sum();
        let all = number(&format!("SELECT count(*) FROM {table}"))?;
        if jobs != all {
            return Ok(format!("{} jobs in another state", all - jobs));
        }
        if is_small {
            let own = number(&format!("SELECT count(DISTINCT payload) FROM {table}"))?;
            if own != jobs {
                return Ok(format!("{own} payloads of {jobs} jobs"));
            }
        }
        let sequence = format!("SELECT seq FROM sqlite_sequence WHERE name = '{table}'");
        let pushed = pushed.map(|_| number(&sequence)).transpose()?;
        Ok(in_words(counts, pushed))
    })?;
    Ok(Left::new(expected, found))
}

/// "3 ready, 0 leased, 0 delayed, each its own, of 5 pushed".
fn in_words(counts: [u64; 3], pushed: Option<u64>) -> String {
    let counts = STATES.iter().zip(counts).map(|((state, _), jobs)| format!("{jobs} {state}"));
    let counts = counts.collect::<Vec<_>>().join(", ");
    let pushed = pushed.map(|jobs| format!(", of {jobs} pushed")).unwrap_or_default();
    format!("{counts}, each its own{pushed}")
}
