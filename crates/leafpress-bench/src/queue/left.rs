//! That no job was lost, done twice or left out: what a rung left in its queue, counted
//! by plain SQLite.
//!
//! Ids are never given twice, so the last one says how many jobs were ever pushed.

use std::path::Path;

use rusqlite::{Connection, OpenFlags};

use super::{Keeper, Part, QueueRung, Waking};
use crate::check::Left;
use crate::error::{Error, Result};
use crate::report::Safety;
use crate::rung::RungResult;

/// Looking at every page of a larger database takes longer than the rung.
const INTEGRITY_JOBS_MAX: u64 = 200_000;

/// The state of a job in either table.
const STATES: [(&str, i64); 3] = [("ready", 0), ("leased", 1), ("delayed", 2)];

/// Looks at the database of a rung that gave this.
pub(crate) fn by(rung: &QueueRung, result: &RungResult, database: &Path) -> Result<Left> {
    let is_ours = match rung {
        QueueRung::Cycle(rung) => rung.by == Keeper::Leafpress,
        QueueRung::Claim(_) => true,
        QueueRung::Wakeup(rung) | QueueRung::Waiter(rung) => rung.by != Waking::SqlPolls,
        QueueRung::Inserts(rung) => rung.is_queue(),
    };
    let journal_mode = match rung {
        QueueRung::Inserts(rung) => rung.journal_mode(),
        _ if matches!(rung.safety(), Safety::Durable | Safety::Relaxed) => "wal",
        _ => "delete",
    };
    let expected = match rung {
        QueueRung::Cycle(rung) if rung.part == Part::Push => {
            jobs_left([result.rows, 0, 0], Some(result.rows))
        }
        QueueRung::Cycle(rung) if rung.part == Part::ClaimAck => {
            let pushed = result.jobs_waiting_before;
            jobs_left([pushed - result.rows.min(pushed), 0, 0], Some(pushed))
        }
        QueueRung::Cycle(_) => jobs_left([0; 3], Some(result.rows)),
        QueueRung::Claim(rung) => {
            let among = rung.among;
            jobs_left([among.waiting, among.leased, among.delayed], None)
        }
        // Those that warm up, and the one that ends it, are not counted.
        QueueRung::Wakeup(_) | QueueRung::Waiter(_) => jobs_left([0; 3], None),
        QueueRung::Inserts(_) => jobs_left([result.rows, 0, 0], Some(result.rows)),
    };
    let counts_pushes = !matches!(rung, QueueRung::Claim(_) | QueueRung::Wakeup(_));
    let found = look(database, is_ours, counts_pushes)
        .map_err(Error::sqlite("count the jobs that the rung left"))?;
    let expected = format!("{expected}; {journal_mode}; ok");
    Ok(Left { expected, found })
}

/// "3 ready, 0 leased, 0 delayed, each its own, of 5 pushed".
fn jobs_left(counts: [u64; 3], pushed: Option<u64>) -> String {
    let counts = STATES.iter().zip(counts).map(|((state, _), jobs)| format!("{jobs} {state}"));
    let counts = counts.collect::<Vec<_>>().join(", ");
    let pushed = pushed.map(|jobs| format!(", of {jobs} pushed")).unwrap_or_default();
    format!("{counts}, each its own{pushed}")
}

fn look(database: &Path, is_ours: bool, counts_pushes: bool) -> rusqlite::Result<String> {
    let connection = Connection::open_with_flags(database, OpenFlags::SQLITE_OPEN_READ_ONLY)?;
    let number = |sql: &str| connection.query_row(sql, [], |row| row.get::<_, i64>(0));
    let text = |sql: &str| connection.query_row(sql, [], |row| row.get::<_, String>(0));
    let table = if is_ours { "leafpress_job" } else { "job" };
    let mut counts = [0; 3];
    for (count, (_, state)) in counts.iter_mut().zip(STATES) {
        *count =
            number(&format!("SELECT count(*) FROM {table} WHERE state = {state}"))?.cast_unsigned();
    }
    let jobs: u64 = counts.iter().sum();
    let all = number(&format!("SELECT count(*) FROM {table}"))?.cast_unsigned();
    if jobs != all {
        return Ok(format!("{} jobs in another state", all - jobs));
    }
    let is_small = jobs <= INTEGRITY_JOBS_MAX;
    if is_small {
        let own = number(&format!("SELECT count(DISTINCT payload) FROM {table}"))?;
        if own.cast_unsigned() != jobs {
            return Ok(format!("{own} payloads of {jobs} jobs"));
        }
    }
    let sequence = format!("SELECT seq FROM sqlite_sequence WHERE name = '{table}'");
    let pushed = if counts_pushes { Some(number(&sequence)?.cast_unsigned()) } else { None };
    let journal_mode = text("PRAGMA journal_mode")?;
    let verdict = if is_small { text("PRAGMA integrity_check(1)")? } else { "ok".to_owned() };
    Ok(format!("{}; {journal_mode}; {verdict}", jobs_left(counts, pushed)))
}
