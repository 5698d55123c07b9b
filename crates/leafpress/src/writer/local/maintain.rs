//! Work between two groups that is no call: maintenance, and reads of the whole database.
//!
//! Must never: begin on a database that was moved, or leave a transaction open.

use std::panic::{AssertUnwindSafe, catch_unwind};

use super::LocalTarget;
use crate::error::{Error, Result};
use crate::failed_sync::{LogOnDisk, is_failed_sync};
use crate::vfs::database_file;
use crate::writer::caught::panicked;
use crate::writer::maintenance::{IsWhole, Maintenance};
use crate::writer::target::Reading;

impl LocalTarget {
    /// Carries out a piece of maintenance; waits for checkpoints of others as for any lock.
    pub(super) fn carry_out_maintenance(&mut self, work: Maintenance) -> Result<()> {
        let gate = self.gate.clone();
        let _held = gate.as_ref().map(|gate| gate.begin_group());
        self.check_between_groups()?;
        self.busy.line_up();
        // SQLite waits for no other checkpoint, such as a pass of the checkpointer.
        let attempts = || loop {
            match work.run(&self.connection) {
                Ok(IsWhole::Held(_)) if self.interrupts.check().is_ok() && self.busy.wait(0) => {}
                done => break done,
            }
        };
        let run = || self.interrupts.run(attempts);
        let done = self.guard.as_committer(run);
        self.busy.ended();
        let done = done.and_then(|is_whole| {
            // VACUUM and its kin commit as any transaction does.
            let synced = self.sharing.as_ref().map(|_| database_file::sync_log(&self.connection));
            synced.unwrap_or(Ok(())).map(|()| is_whole)
        });
        if let Err(error) = &done
            && is_failed_sync(error)
        {
            let reason = format!("a sync failed while it was to {}: {error}", work.action());
            // It may have been that of a checkpoint.
            self.sync_failed(&reason, LogOnDisk::Uncopied);
        }
        if let Some(error) = self.interrupts.stopped() {
            return Err(error);
        }
        let error = match done {
            Ok(IsWhole::Yes) => return Ok(()),
            Ok(IsWhole::Held(source)) => {
                return Err(self.naming_the_holder(self.busy.error(source)));
            }
            Err(source) => source,
        };
        Err(self.explained(work.action(), error))
    }

    /// Reads between two groups, in a transaction that is rolled back.
    pub(super) fn read_between_groups(&mut self, read: Reading<'_>) -> Result<()> {
        self.check_between_groups()?;
        self.busy.restart();
        let begun = self.own("BEGIN /* leafpress */").and_then(|()| {
            // The first read takes the lock, or the snapshot.
            let sql = "SELECT 1 FROM sqlite_schema LIMIT 1";
            self.guard.as_writer(|| self.connection.prepare(sql)?.raw_query().next().map(drop))
        });
        let done = match begun {
            Ok(()) => catch_unwind(AssertUnwindSafe(|| read(&self.connection))),
            Err(source) => Ok(Err(self.not_begun(source))),
        };
        // In a child of a fork that `read` made, the connection is the parent's.
        self.process.check("writer")?;
        self.roll_back();
        done.unwrap_or_else(|panic| Err(panicked(panic)))
    }

    /// Fails if no work may be begun on the connection.
    fn check_between_groups(&mut self) -> Result<()> {
        if let Some(reason) = self.gate.as_ref().and_then(|gate| gate.broken()) {
            return Err(Error::stopped(reason));
        }
        if let Err(reason) = self.place.check_before(&self.connection) {
            self.moved(&reason);
            return Err(Error::stopped(reason));
        }
        self.refuse_beside_another_copy()
    }
}
