//! The Writer's rungs and the loader's, as users of the library would write them.
//!
//! The only file of the ladder that calls Leafpress. Nothing is tuned for the benchmark:
//! defaults hold, each call's values are copied into it, all syncs are made.

use std::collections::VecDeque;
use std::path::Path;
use std::time::Instant;

use leafpress::load::{Column, ColumnType, Loader};
use leafpress::writer::{Executed, Ticket, Writer};

use super::records::Record;
use super::rung::{INSERT, LadderRung, Step, TABLE};
use crate::bound::syncs_of_commits;
use crate::connect;
use crate::error::{Error, Result};
use crate::machine::cores;
use crate::report::Safety;
use crate::rung::result::RungResult;

/// Does the rung's work and measures it.
pub(super) fn run(rung: LadderRung, records: &[Record], database: &Path) -> Result<RungResult> {
    if let Step::Pressed | Step::PressedPages(_) = rung.by {
        let cores = cores();
        return RungResult::timed(rung.rows, |_| press(rung, cores, records, database));
    }
    let writer = connect::open_writer(Safety::Durable, database, None)?;
    writer.execute_batch(TABLE)?;
    let mut commits = 0;
    let result = RungResult::timed(rung.rows, |start| {
        let done = match rung.by {
            Step::WriterInFlight(calls) => insert_in_flight(&writer, rung, calls, records, start)?,
            Step::WriterMany => insert_many(&writer, records)?,
            Step::WriterBlocking => insert_blocking(&writer, rung, records, start)?,
            Step::EachRow(_)
            | Step::Compiled(_)
            | Step::Prepared(_)
            | Step::Mapped
            | Step::Pages(_)
            | Step::Pressed
            | Step::PressedPages(_) => return Err(Error::wrong_rival(rung.by.label())),
        };
        commits = writer.stats().commits;
        writer.close()?;
        Ok(done)
    })?;
    let syncs = Some(syncs_of_commits(Safety::Durable, commits));
    Ok(RungResult { syncs, ..result })
}

/// A call for each row, which waits until its row is safe.
fn insert_blocking(
    writer: &Writer,
    rung: LadderRung,
    records: &[Record],
    start: Instant,
) -> Result<u64> {
    let mut done = 0;
    for record in records {
        writer.execute(INSERT, record.parameters())?;
        done += 1;
        if start.elapsed() >= rung.time_max() {
            break;
        }
    }
    Ok(done)
}

/// A call for each row, with a ticket for each: the oldest is waited for when this many are
/// under way. Each row is a transaction of its own with an answer of its own.
fn insert_in_flight(
    writer: &Writer,
    rung: LadderRung,
    calls: u32,
    records: &[Record],
    start: Instant,
) -> Result<u64> {
    let mut tickets: VecDeque<Ticket<Executed>> = VecDeque::with_capacity(calls as usize);
    let mut done = 0;
    for record in records {
        if tickets.len() >= calls as usize
            && let Some(oldest) = tickets.pop_front()
        {
            oldest.wait()?;
        }
        tickets.push_back(writer.submit(INSERT, record.parameters())?);
        done += 1;
        if start.elapsed() >= rung.time_max() {
            break;
        }
    }
    for ticket in tickets {
        ticket.wait()?;
    }
    Ok(done)
}

/// All rows in one call, which is one transaction.
fn insert_many(writer: &Writer, records: &[Record]) -> Result<u64> {
    let rows = records.iter().map(Record::parameters);
    Ok(writer.insert_many("record", &["id", "name", "number", "amount"], rows)?)
}

/// All rows to a new file, by all cores.
fn press(rung: LadderRung, cores: usize, records: &[Record], database: &Path) -> Result<u64> {
    let columns = [
        Column::new("id", ColumnType::Integer),
        Column::new("name", ColumnType::Text),
        Column::new("number", ColumnType::Text),
        Column::new("amount", ColumnType::Integer),
    ];
    let part_rows = records.len().div_ceil(cores).max(1);
    let parts = records.chunks(part_rows).map(|part| part.iter().map(Record::parameters));
    let loader = Loader::new(database).table("record").primary_key("id");
    let report = loader.page_size(rung.page_bytes()).load_parts(&columns, parts.collect())?;
    Ok(report.rows_loaded)
}
