//! One rung of one-row transactions in this process.
//!
//! ```text
//!            ours, atomic         all others
//! set up     by plain SQLite      the same
//! warm up    10 transactions      the same
//! timed      counted meanwhile    not counted: SQLite's own VFS
//! counted    –                    as many again, opened through a VFS that counts
//! ```
//!
//! Must never: time what a user would not wait for, or count transactions of
//! another kind than those that were timed.

use std::path::Path;
use std::time::{Duration, Instant};

use leafpress::memory::{self, MemoryStats};
use leafpress::profile::{self, Locking};
use leafpress::vfs::atomic::AtomicState;
use leafpress::vfs::count::IoStats;

use super::open::{CountingVfs, Opened};
use super::rung::{AtomicRung, Change};
use super::{changes, figures};
use crate::error::{Error, Result};
use crate::recording::Recording;
use crate::report::Io;
use crate::rung::result::RungResult;
use crate::usage::Usage;

/// Transactions before the first that is measured: the first reads the schema, and
/// what it finds in no cache.
const WARM_UP: u64 = 10;

/// Makes the transactions, measures them, and leaves the database closed.
pub(super) fn run(rung: AtomicRung, database: &Path) -> Result<RungResult> {
    changes::set_up(database, rung.change)?;
    memory::reset_highwater();
    let opened = rung.open(database, None)?;
    let page_writes = opened.page_writes.clone();
    let mut next = rung.change.first();
    make(rung, &opened, &mut next, WARM_UP)?;
    let before = if rung.counts_by_itself() { Some(rung.own_io()?) } else { None };
    let used_before = Usage::now();
    let timed = make(rung, &opened, &mut next, rung.transactions)?;
    let used = Usage::now().since(used_before);
    let mut result = RungResult {
        wall_s: timed.wall.as_secs_f64(),
        rows: timed.recording.calls(),
        latency_us: timed.recording.latency(),
        memory: Some(figures::memory(&timed.memory)),
        not_given: rung.not_given(page_writes.as_ref()),
        page_writes: page_writes.map(|state| state.to_string()),
        ..RungResult::of(used)
    };
    let counted = match before {
        Some(before) => rung.own_io()?.since(&before),
        None => IoStats::default(),
    };
    rung.close(opened.connection)?;
    let counted = if rung.counts_by_itself() {
        counted
    } else {
        count(rung, database, &mut next, result.rows)?
    };
    let per_transaction = Some(figures::per_transaction(&counted, result.rows));
    result.io = Some(Io { per_transaction, ..result.io.unwrap_or_default() });
    result.changes_besides = next - rung.change.first() - result.rows;
    Ok(result)
}

impl AtomicRung {
    /// Returns true if its user looks after each transaction if the journal of a larger one
    /// stands open: an insert that needs a new page leaves one under exclusive locking.
    /// If pages are not whole anyway, there is nothing to gain.
    fn regains(self, opened: &Opened) -> bool {
        let leaves_journals = self.change == Change::Insert && self.locking == Locking::Exclusive;
        leaves_journals && matches!(opened.page_writes, Some(AtomicState::Whole { .. }))
    }

    /// Reason why this disk does not give ours what the rung is to show, if it does not.
    fn not_given(self, state: Option<&AtomicState>) -> Option<String> {
        if !self.counts_by_itself() {
            return None;
        }
        match state {
            Some(AtomicState::Whole { .. }) => None,
            Some(state) => Some(format!("pages are not written whole here; {state}")),
            None => Some("the profile does not say how it writes pages".to_owned()),
        }
    }
}

/// Calls that this many more transactions make to the files.
fn count(rung: AtomicRung, database: &Path, next: &mut u64, transactions: u64) -> Result<IoStats> {
    let vfs = CountingVfs::new()?;
    let opened = rung.open(database, Some(vfs.name()))?;
    make(rung, &opened, next, WARM_UP)?;
    let before = vfs.io();
    // The time may not be up before as many are done.
    let rung = AtomicRung { milliseconds_max: u64::from(u32::MAX), ..rung };
    make(rung, &opened, next, transactions)?;
    let counted = vfs.io().since(&before);
    rung.close(opened.connection)?;
    Ok(counted)
}

/// Figures of the transactions that were timed.
struct Timed {
    recording: Recording,
    wall: Duration,
    /// With the statement as it stands prepared.
    memory: MemoryStats,
}

/// Makes this many transactions, or as many as there is time for, from the `next`
/// change on.
fn make(rung: AtomicRung, opened: &Opened, next: &mut u64, transactions: u64) -> Result<Timed> {
    let mut statement = opened
        .connection
        .prepare(rung.change.sql())
        .map_err(Error::sqlite("prepare the rung's statement"))?;
    let mut recording = Recording::with_capacity(transactions);
    let time_max = Duration::from_millis(rung.milliseconds_max);
    let regains = rung.regains(opened);
    let epoch = Instant::now();
    for _ in 0..transactions {
        let start = Instant::now();
        if start - epoch > time_max {
            break;
        }
        let made = rung.change.make(&mut statement, *next);
        made.map_err(Error::sqlite("commit a row"))?;
        if regains {
            profile::regain_atomic_pages(&opened.connection)?;
        }
        recording.acknowledged(epoch, start);
        *next += 1;
    }
    let wall = epoch.elapsed();
    Ok(Timed { recording, wall, memory: memory::of(&opened.connection) })
}
