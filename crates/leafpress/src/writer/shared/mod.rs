//! One database, the writers of many processes: they stand in one line for the write lock, and one
//! sync of the log serves all that have committed before it.
//!
//! ```text
//! process A   BEGIN … COMMIT ─► counted ─┐                ┌─► answers
//! process B      BEGIN … COMMIT ─► counted ┼─► one sync ──┼─► answers
//! process C         BEGIN … COMMIT ─► counted ┘           └─► answers
//! ```
//!
//! Each process carries out its own groups on its own connection. So no call is sent to another
//! process, and each process knows the outcome of its own calls, even if other processes die. COMMIT
//! writes to the log without a sync (`synchronous = NORMAL`). The commit is answered after a sync
//! that has begun later than that: its own, or another process's.
//!
//! | file | does |
//! |---|---|
//! | `membership.rs` | joins and leaves: the file `-shared` beside the database, and its locks |
//! | `page.rs` | names the numbers in that file, which all members have mapped |
//! | `line.rs` | the line for the write lock, first come, first served |
//! | `rounds.rs` | the rounds of syncs |
//! | `log.rs` | the log's length, for the member that makes the checkpoints |
//! | `wake_word.rs` | sleeps until another process wakes it |
//!
//! 1. A commit is answered with success only after a sync of the log that began after the commit.
//! 2. No process needs another one: each wait for another process has a limit. After it the process
//!    goes on by itself, with SQLite's own lock and a sync of its own.
//! 3. After a sync that failed no member answers a commit with success any more, unless a sync
//!    before that had covered it.
//!
//! The log is written in order, so a commit that is on disk has all before it there.
//!
//! Must never: take the word of another process for anything but that it has synced the log.

mod line;
mod log;
#[cfg(all(test, unix))]
mod log_tests;
#[cfg(unix)]
mod membership;
#[cfg(not(unix))]
#[path = "membership_elsewhere.rs"]
mod membership;
#[cfg(test)]
mod model;
mod page;
mod rounds;
#[cfg(all(test, unix))]
mod tests;
mod wake_word;

use std::fmt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use serde::Serialize;

pub(crate) use self::log::LogOfMembers;
use self::membership::Membership;
use self::page::Page;
pub(crate) use self::rounds::NotSynced;
use crate::fork::Process;

/// A writer's part in the line and in the syncs.
#[derive(Debug)]
pub(crate) struct Sharing {
    process: Process,
    page: Page,
    /// Dropped last: until then the page belongs to the members.
    membership: Membership,
    counts: Counts,
    /// The turn that began last.
    turn: AtomicU64,
    makes_checkpoints: AtomicBool,
}

/// Numbers of one member's work.
#[derive(Debug, Default)]
struct Counts {
    own_syncs: AtomicU64,
    syncs_of_others: AtomicU64,
    lonely_syncs: AtomicU64,
    waits_in_line: AtomicU64,
}

/// The reason why a writer is no member.
#[derive(Debug)]
pub(crate) enum NotJoined {
    /// It works by itself, for this reason.
    Alone(String),
    /// A sync of the log has failed for a member that is still open. What is written behind the gap
    /// that it may have left would be lost in a power cut, though later syncs succeed.
    SyncFailed,
}

impl From<String> for NotJoined {
    fn from(reason: String) -> Self {
        Self::Alone(reason)
    }
}

impl From<&str> for NotJoined {
    fn from(reason: &str) -> Self {
        Self::Alone(reason.to_owned())
    }
}

/// The way in which a writer shares its database with the writers of other processes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct SharingStats {
    /// Reason why the writer works by itself though [`shared`](super::WriterBuilder::shared) was
    /// asked for; `None` if it is in the line.
    pub why_not: Option<String>,
    /// Writers in the line now, this one among them.
    pub members: u64,
    /// Syncs that this writer made.
    pub own_syncs: u64,
    /// Commits that were answered after the sync of another process.
    pub syncs_of_others: u64,
    /// Syncs that this writer made beside those of others, since it had waited for too long: a
    /// process may be stopped, or its disk slow.
    pub lonely_syncs: u64,
    /// Transactions that waited for those of other processes.
    pub waits_in_line: u64,
    /// True if this writer makes the checkpoints for all of them.
    pub makes_checkpoints: bool,
}

impl fmt::Display for SharingStats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(why_not) = &self.why_not {
            return write!(f, "with no other process: {why_not}");
        }
        let checkpoints = if self.makes_checkpoints { "; makes the checkpoints" } else { "" };
        write!(
            f,
            "{} writers; {} own syncs, {} beside others, {} commits synced by others, {} waits in \
             the line{checkpoints}",
            self.members,
            self.own_syncs,
            self.lonely_syncs,
            self.syncs_of_others,
            self.waits_in_line
        )
    }
}

impl SharingStats {
    /// The numbers of a writer that works by itself.
    pub(super) fn alone(why_not: &str) -> Self {
        Self {
            why_not: Some(why_not.to_owned()),
            members: 1,
            own_syncs: 0,
            syncs_of_others: 0,
            lonely_syncs: 0,
            waits_in_line: 0,
            makes_checkpoints: false,
        }
    }
}

impl Sharing {
    /// Joins the writers of the database at `path`, links resolved.
    ///
    /// # Errors
    /// The reason why the writer is no member.
    pub(crate) fn join(path: &Path) -> Result<Self, NotJoined> {
        let (membership, page) = Membership::join(path)?;
        Ok(Self {
            process: Process::current(),
            page,
            membership,
            counts: Counts::default(),
            turn: AtomicU64::new(0),
            makes_checkpoints: AtomicBool::new(false),
        })
    }

    /// Numbers so far.
    pub(crate) fn stats(&self) -> SharingStats {
        let read = |count: &AtomicU64| count.load(Ordering::Relaxed);
        SharingStats {
            why_not: None,
            members: self.membership.members(),
            own_syncs: read(&self.counts.own_syncs),
            syncs_of_others: read(&self.counts.syncs_of_others),
            lonely_syncs: read(&self.counts.lonely_syncs),
            waits_in_line: read(&self.counts.waits_in_line),
            makes_checkpoints: self.makes_checkpoints.load(Ordering::Relaxed),
        }
    }

    fn count(count: &AtomicU64) {
        count.fetch_add(1, Ordering::Relaxed);
    }
}

impl Drop for Sharing {
    fn drop(&mut self) {
        if self.process.is_current() {
            self.leave_line();
        }
    }
}
