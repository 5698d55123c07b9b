//! The Writer, as a user of the library would write it. Nothing is tuned for the
//! benchmark: the Writer's defaults hold.
//!
//! Of the rungs of commits the only file that makes calls to it.

use std::collections::VecDeque;

use leafpress::writer::{Executed, Ticket, Writer};
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
