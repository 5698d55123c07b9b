//! The Writer, as a user of the library would write it. Nothing is tuned for the
//! benchmark: the Writer's defaults hold.
//!
//! Of the rungs of commits the only file that calls it.

use std::collections::VecDeque;
use std::path::Path;

use leafpress::Profile;
use leafpress::writer::{Executed, Ticket, Writer};
use rusqlite::types::Value;

use super::calls::{Call, Called, Caller, Progress, run_callers};
use super::{Calls, CommitRung, INSERT, TABLE};
use crate::error::Result;
use crate::report::Safety;

/// Opens the rung's new database under its profile and makes the table.
pub(super) fn open(rung: &CommitRung, database: &Path, vfs: Option<&str>) -> Result<Writer> {
    let mut builder = Writer::builder(database).profile(profile(rung.safety));
    if rung.safety == Safety::Rebuildable {
        builder = builder.rebuildable_ok();
    }
    if let Some(vfs) = vfs {
        builder = builder.vfs(vfs);
    }
    let writer = builder.open()?;
    writer.execute_batch(TABLE)?;
    Ok(writer)
}

/// The profile that makes this promise.
pub(crate) fn profile(safety: Safety) -> Profile {
    match safety {
        Safety::Durable => Profile::Durable,
        Safety::Relaxed => Profile::Relaxed,
        Safety::Rollback => Profile::Rollback,
        Safety::Rebuildable => Profile::Rebuildable,
    }
}

/// Makes all calls of the rung.
pub(super) fn run(rung: &CommitRung, writer: &Writer, progress: &Progress) -> Result<Called> {
    match rung.calls {
        Calls::Blocking(callers) => {
            let callers = (0..callers.max(1)).map(|_| Blocking { writer });
            run_callers(rung, callers.collect(), progress)
        }
        Calls::InFlight(_) => {
            run_callers(rung, vec![Pipelined { writer, tickets: VecDeque::new() }], progress)
        }
    }
}

/// Answers what is left and closes the database.
pub(super) fn close(writer: Writer) -> Result<()> {
    Ok(writer.close()?)
}

fn parameters(call: &Call) -> [Value; 3] {
    [call.caller.into(), (call.n as i64).into(), call.text().to_owned().into()]
}

struct Blocking<'w> {
    writer: &'w Writer,
}

impl Caller for Blocking<'_> {
    fn begin(&mut self, call: &Call) -> Result<()> {
        self.writer.execute(INSERT, parameters(call))?;
        Ok(())
    }

    fn finish_oldest(&mut self) -> Result<()> {
        Ok(())
    }
}

struct Pipelined<'w> {
    writer: &'w Writer,
    tickets: VecDeque<Ticket<Executed>>,
}

impl Caller for Pipelined<'_> {
    fn begin(&mut self, call: &Call) -> Result<()> {
        self.tickets.push_back(self.writer.submit(INSERT, parameters(call))?);
        Ok(())
    }

    fn finish_oldest(&mut self) -> Result<()> {
        if let Some(ticket) = self.tickets.pop_front() {
            ticket.wait()?;
        }
        Ok(())
    }
}
