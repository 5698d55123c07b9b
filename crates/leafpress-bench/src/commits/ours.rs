//! The Writer, as a user of the library would write it. Nothing is tuned for the
//! benchmark: the Writer's defaults hold.
//!
//! Of the rungs of commits the only file that makes calls to it.

use std::collections::VecDeque;

use leafpress::writer::{Ticket, Transaction, Writer};
use rusqlite::types::Value;

use super::call::Call;
use super::calls::{Called, Caller, Progress, run_callers};
use super::rung::{Calls, CommitRung};
use crate::error::Result;

/// Makes all calls of the rung.
pub(super) fn run(rung: &CommitRung, writer: &Writer, progress: &Progress) -> Result<Called> {
    let insert = rung.table.insert();
    match rung.calls {
        Calls::Blocking(callers) => {
            let callers = (0..callers.max(1)).map(|_| Blocking { writer, insert });
            run_callers(rung, callers.collect(), progress)
        }
        Calls::InFlight(_) => {
            let submit = |call: &Call| writer.submit(insert, parameters(call));
            run_callers(rung, vec![InFlight::new(submit)], progress)
        }
        Calls::Closures(_) => {
            let submit = |call: &Call| {
                let call = *call;
                writer.submit_transaction(move |transaction: &Transaction<'_>| {
                    transaction.execute(insert, parameters(&call))?;
                    Ok(())
                })
            };
            run_callers(rung, vec![InFlight::new(submit)], progress)
        }
        Calls::Many(rows_a_call) => {
            let rows_a_call = rows_a_call.max(1) as usize;
            let rows = Vec::with_capacity(rows_a_call);
            run_callers(rung, vec![Many { writer, rows, rows_a_call, added: 0 }], progress)
        }
    }
}

fn parameters(call: &Call) -> (u32, i64, &str) {
    (call.caller, call.n as i64, call.text())
}

fn values(call: &Call) -> [Value; 3] {
    [call.caller.into(), (call.n as i64).into(), call.text().to_owned().into()]
}

struct Blocking<'w> {
    writer: &'w Writer,
    insert: &'static str,
}

impl Caller for Blocking<'_> {
    fn begin(&mut self, call: &Call) -> Result<()> {
        self.writer.execute(self.insert, parameters(call))?;
        Ok(())
    }

    fn finish_oldest(&mut self) -> Result<()> {
        Ok(())
    }
}

/// Calls under way, and the way in which each of them is made.
struct InFlight<T, S> {
    submit: S,
    tickets: VecDeque<Ticket<T>>,
}

impl<T, S: FnMut(&Call) -> leafpress::Result<Ticket<T>>> InFlight<T, S> {
    fn new(submit: S) -> Self {
        Self { submit, tickets: VecDeque::new() }
    }
}

impl<T, S: FnMut(&Call) -> leafpress::Result<Ticket<T>>> Caller for InFlight<T, S> {
    fn begin(&mut self, call: &Call) -> Result<()> {
        self.tickets.push_back((self.submit)(call)?);
        Ok(())
    }

    fn finish_oldest(&mut self) -> Result<()> {
        if let Some(ticket) = self.tickets.pop_front() {
            ticket.wait()?;
        }
        Ok(())
    }
}

/// Gathers rows, and adds them when they are enough for a call, or when the oldest of them is waited
/// for.
struct Many<'w> {
    writer: &'w Writer,
    rows: Vec<[Value; 3]>,
    rows_a_call: usize,
    /// Rows that were added, and that the rung has not asked for yet.
    added: usize,
}

impl Many<'_> {
    fn add(&mut self) -> Result<()> {
        self.added += self.rows.len();
        self.writer.insert_many("call", &["caller", "n", "text"], self.rows.drain(..))?;
        Ok(())
    }
}

impl Caller for Many<'_> {
    fn begin(&mut self, call: &Call) -> Result<()> {
        self.rows.push(values(call));
        if self.rows.len() < self.rows_a_call { Ok(()) } else { self.add() }
    }

    fn finish_oldest(&mut self) -> Result<()> {
        if self.added == 0 {
            self.add()?;
        }
        self.added = self.added.saturating_sub(1);
        Ok(())
    }
}
