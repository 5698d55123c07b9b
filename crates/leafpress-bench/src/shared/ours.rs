//! The Writer and the Queue, as a user of the library would write it: all defaults hold.
//!
//! Must never: take a Writer that could not share for one that does.

use std::path::Path;

use leafpress::writer::Writer;
use rusqlite::types::Value;

use super::callers::{Caller, until_taken};
use super::rung::{Access, SharedRung};
use crate::commits::{Call, INSERT};
use crate::error::{Error, Result};
use crate::queue::{Client, JobNumber, QueueClient};
use crate::report::Safety;

/// Opens the Writer of a member, through this VFS if one is named.
pub(super) fn open(rung: &SharedRung, database: &Path, vfs: Option<&str>) -> Result<Writer> {
    let mut builder = Writer::builder(database).profile(Safety::Durable.profile());
    let is_shared = rung.access == Access::Shared;
    builder = match (vfs, is_shared) {
        // A VFS that is named has its files where the builder cannot know; ours are on the disk.
        (Some(vfs), true) => builder.vfs(vfs).shared_beside(database),
        (Some(vfs), false) => builder.vfs(vfs),
        (None, true) => builder.shared(),
        (None, false) => builder,
    };
    Ok(builder.open()?)
}

/// Caller that adds rows.
pub(super) struct Inserting<'w> {
    writer: &'w Writer,
    caller: u32,
}

impl<'w> Inserting<'w> {
    pub(super) fn new(writer: &'w Writer, caller: u32) -> Self {
        Self { writer, caller }
    }
}

impl Caller for Inserting<'_> {
    fn call(&mut self, n: u64, refused: &mut u64) -> Result<()> {
        let call = Call::new(self.caller, n);
        until_taken(refused, || {
            let row: [Value; 3] =
                [call.caller.into(), (call.n as i64).into(), call.text().to_owned().into()];
            self.writer.execute(INSERT, row)?;
            Ok(())
        })
    }
}

/// Client that pushes a job, claims one, which may be another client's, and acknowledges it.
pub(super) struct Cycling {
    client: QueueClient,
    caller: u32,
    claimed: Vec<JobNumber>,
    /// Sum of the numbers of the jobs that were pushed, and of those claimed.
    pub(super) sums: [u64; 2],
}

impl Cycling {
    pub(super) fn new(client: QueueClient, caller: u32) -> Self {
        Self { client, caller, claimed: Vec::new(), sums: [0; 2] }
    }
}

impl Caller for Cycling {
    fn call(&mut self, n: u64, refused: &mut u64) -> Result<()> {
        let (client, claimed) = (&mut self.client, &mut self.claimed);
        let pushed = JobNumber::of(self.caller, n);
        until_taken(refused, || client.push(&[pushed]))?;
        claimed.clear();
        until_taken(refused, || client.claim(1, claimed))?;
        let [job] = claimed[..] else {
            let reason = format!("{} jobs claimed after a push, not 1", claimed.len());
            return Err(Error::rung("jobs", reason));
        };
        until_taken(refused, || client.acknowledge())?;
        self.sums = plus(self.sums, [pushed.0, job.0]);
        Ok(())
    }
}

/// Sums of numbers of jobs.
pub(super) fn plus(one: [u64; 2], other: [u64; 2]) -> [u64; 2] {
    [one[0].wrapping_add(other[0]), one[1].wrapping_add(other[1])]
}
