//! The Writer, as a user of the library would write it. Nothing is tuned for the
//! benchmark: the Writer's defaults hold.
//!
//! Of the rungs of commits the only file that makes calls to it.

use std::collections::VecDeque;

use leafpress::writer::{Executed, Ticket, Transaction, Writer};
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
        Calls::InFlight(_) => run_callers(
            rung,
            vec![Pipelined { writer, insert, tickets: VecDeque::new() }],
            progress,
        ),
        Calls::Closures(_) => {
            run_callers(rung, vec![Closures { writer, insert, tickets: VecDeque::new() }], progress)
        }
        Calls::Many(rows_a_call) => {
            let rows_a_call = rows_a_call.max(1) as usize;
            let rows = Vec::with_capacity(rows_a_call);
            run_callers(rung, vec![Many { writer, rows, rows_a_call, added: 0 }], progress)
        }
    }
}

fn parameters(call: &Call) -> [Value; 3] {
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

struct Pipelined<'w> {
    writer: &'w Writer,
    insert: &'static str,
    tickets: VecDeque<Ticket<Executed>>,
}

impl Caller for Pipelined<'_> {
    fn begin(&mut self, call: &Call) -> Result<()> {
        self.tickets.push_back(self.writer.submit(self.insert, parameters(call))?);
        Ok(())
    }

    fn finish_oldest(&mut self) -> Result<()> {
        if let Some(ticket) = self.tickets.pop_front() {
            ticket.wait()?;
        }
        Ok(())
    }
}

struct Closures<'w> {
    writer: &'w Writer,
    insert: &'static str,
    tickets: VecDeque<Ticket<()>>,
}

impl Caller for Closures<'_> {
    fn begin(&mut self, call: &Call) -> Result<()> {
        let (insert, call) = (self.insert, *call);
        let body = move |transaction: &Transaction<'_>| {
            transaction.execute(insert, parameters(&call))?;
            Ok(())
        };
        self.tickets.push_back(self.writer.submit_transaction(body)?);
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
        self.rows.push(parameters(call));
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
