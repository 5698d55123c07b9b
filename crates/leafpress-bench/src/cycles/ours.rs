//! The Writer's rungs, as users of the library would write them: defaults hold, durable.

use std::collections::VecDeque;
use std::path::Path;
use std::time::Instant;

use leafpress::writer::{Ticket, Transaction, Writer};

use super::record::Record;
use super::rung::{Cycler, CyclesRung, DELETE, INSERT, INSERTS, TABLE, text_of};
use crate::bound::syncs_of_commits;
use crate::connect;
use crate::error::{Error, Result};
use crate::report::Safety;
use crate::rung::result::RungResult;

/// Does the rung's work and measures it.
pub(super) fn run(rung: CyclesRung, database: &Path) -> Result<RungResult> {
    let writer = connect::open_writer(Safety::Durable, database, None)?;
    writer.execute_batch(TABLE)?;
    let mut record = Record::begin(rung, database);
    match rung.by {
        Cycler::WriterInFlight(cycles) => in_flight(&writer, rung, cycles, &mut record)?,
        Cycler::WriterStatements => {
            one_by_one(rung, &mut record, |number| statements(&writer, number))?;
        }
        Cycler::WriterCycles => one_by_one(rung, &mut record, |number| {
            Ok(writer.transaction(move |transaction| cycle(number, transaction))?)
        })?,
        Cycler::Sql(..) | Cycler::SqlUnchecked(_) => {
            return Err(Error::wrong_rival(rung.by.label()));
        }
    }
    record.look_at_log();
    let syncs = Some(syncs_of_commits(Safety::Durable, writer.stats().commits));
    writer.close()?;
    Ok(RungResult { syncs, ..record.end() })
}

/// Each cycle waits until the one before is safe.
fn one_by_one(
    rung: CyclesRung,
    record: &mut Record,
    mut cycle: impl FnMut(u32) -> Result<()>,
) -> Result<()> {
    for number in 0..rung.cycles {
        let began = Instant::now();
        cycle(number)?;
        record.cycle(began);
        if record.is_out_of_patience() {
            break;
        }
    }
    Ok(())
}

/// A call for each statement, each its own transaction.
fn statements(writer: &Writer, number: u32) -> Result<()> {
    for index in 0..INSERTS {
        writer.execute(INSERT, [text_of(number, index)])?;
    }
    writer.execute(DELETE, ())?;
    for index in INSERTS..2 * INSERTS {
        writer.execute(INSERT, [text_of(number, index)])?;
    }
    Ok(())
}

/// A cycle as one closure, which is one transaction.
fn cycle(number: u32, transaction: &Transaction<'_>) -> leafpress::Result<()> {
    for index in 0..INSERTS {
        transaction.execute(INSERT, [text_of(number, index)])?;
    }
    transaction.execute(DELETE, ())?;
    for index in INSERTS..2 * INSERTS {
        transaction.execute(INSERT, [text_of(number, index)])?;
    }
    Ok(())
}

/// A ticket for each cycle: the oldest is waited for when this many are under way. Each is a
/// transaction of its own with an answer of its own; its time is from its call to that.
fn in_flight(writer: &Writer, rung: CyclesRung, cycles: u32, record: &mut Record) -> Result<()> {
    let mut tickets: VecDeque<(Instant, Ticket<()>)> = VecDeque::with_capacity(cycles as usize);
    for number in 0..rung.cycles {
        if tickets.len() >= cycles as usize {
            finish_oldest(&mut tickets, record)?;
        }
        let began = Instant::now();
        let ticket = writer.submit_transaction(move |transaction| cycle(number, transaction))?;
        tickets.push_back((began, ticket));
        if record.is_out_of_patience() {
            break;
        }
    }
    while !tickets.is_empty() {
        finish_oldest(&mut tickets, record)?;
    }
    Ok(())
}

fn finish_oldest(tickets: &mut VecDeque<(Instant, Ticket<()>)>, record: &mut Record) -> Result<()> {
    if let Some((began, ticket)) = tickets.pop_front() {
        ticket.wait()?;
        record.cycle(began);
    }
    Ok(())
}
