//! Rungs of many small transactions: Writer beside plain SQLite. A call has one row.
//!
//! | module | does |
//! |---|---|
//! | here | what a rung says about itself |
//! | `rung` | a rung: its committer, the promise, the way of calls, the work beside them |
//! | `call` | the row of a call |
//! | `table` | the tables that rows go to: plain, with a trigger, foreign keys, five indexes |
//! | `calls` | the callers: threads, calls in flight, what each call took |
//! | `rivals`, `ours` | what a call does, by SQLite and by the Writer |
//! | `scene` | work beside the callers: readers, a watch over the WAL |
//! | `run` | opens, calls, records, closes |
//! | `check` | that every call left its row |
//! | `plan`, `settings` | which rungs are compared with which, and what a reader must know |
//!
//! Must never: count a call that was not acknowledged, or time anything before the first call or
//! after the last acknowledgement.

mod call;
mod calls;
mod check;
mod ours;
mod plan;
mod rivals;
mod run;
mod rung;
mod scene;
mod settings;
mod table;
#[cfg(test)]
mod tests;

pub(crate) use self::call::{Call, INSERT, TABLE};
pub(crate) use self::check::left_of_calls;
pub(crate) use self::plan::{checkpoint_groups, writer_groups};
use self::rung::{Calls, FRAME_BYTES, Scene, WAL_BYTES_MAX};
pub(crate) use self::rung::{CommitRung, Committer};
pub(crate) use self::settings::settings;
use crate::error::Result;
use crate::pragmas::Pragmas;
use crate::report::Safety;
use crate::rung::described::{Described, Found, Given, Left, Topic};
use crate::rung::result::RungResult;

impl Described for CommitRung {
    fn name(&self) -> String {
        Self::name(*self)
    }

    fn chart(&self) -> String {
        match self.scene {
            Scene::Rate if !self.table.is_plain() => {
                format!("one-row transactions, {}, with {}", self.safety.name(), self.table.name())
            }
            Scene::Rate => format!("one-row transactions, {}", self.safety.name()),
            Scene::Course | Scene::NoCheckpoints => "commits, nothing besides".to_owned(),
            Scene::LongReader => "commits beside a long reader".to_owned(),
            Scene::ShortReaders => "commits beside short readers".to_owned(),
            Scene::SlowSyncs => "commits where each sync takes 20 ms longer".to_owned(),
        }
    }

    fn label(&self) -> String {
        let calls = match (self.by, self.calls) {
            // It has one caller always.
            (Committer::PerCall | Committer::OneTransaction, _) => String::new(),
            (_, Calls::Blocking(1)) => ", 1 caller".to_owned(),
            (_, Calls::Blocking(callers)) => format!(", {callers} callers"),
            (_, Calls::InFlight(calls)) => format!(", {calls} in flight"),
            (_, Calls::Closures(calls)) => format!(", {calls} closures in flight"),
            (_, Calls::Many(rows)) => format!(", {rows} rows a call"),
        };
        let who = match (self.by, self.scene) {
            (Committer::Leafpress, _) => "Writer",
            (
                Committer::PerCall,
                Scene::Course | Scene::LongReader | Scene::ShortReaders | Scene::SlowSyncs,
            ) => "SQL, its own checkpoints",
            _ => self.who(),
        };
        format!("{who}{calls}")
    }

    fn is_ours(&self) -> bool {
        self.by == Committer::Leafpress
    }

    fn safety(&self) -> Safety {
        self.safety
    }

    fn wal_bytes_max(&self) -> Option<u64> {
        // The limit and one group, at a page or so for each call.
        const PAGES_BESIDE: u64 = 16;
        let is_promised = self.is_ours() && self.has_course() && self.scene != Scene::LongReader;
        let calls = u64::from(self.calls.callers()) * self.calls.in_flight() as u64;
        is_promised.then_some(WAL_BYTES_MAX + (calls + PAGES_BESIDE) * FRAME_BYTES)
    }

    fn topic(&self) -> Option<Topic> {
        Some(Topic::Commits)
    }

    /// 64 bytes a row in the table and again in a WAL or journal; a page and its frame's head for
    /// each commit while nothing can be moved from the WAL.
    fn room_mb(&self, _: u64) -> u64 {
        const ROW_BYTES: u64 = 2 * 64;
        // Other tables have up to five indexes, whose pages are split where rows come in no order.
        let row_bytes = if self.table.is_plain() { ROW_BYTES } else { 10 * ROW_BYTES };
        let stuck_rows = match self.scene {
            Scene::NoCheckpoints => self.rows,
            Scene::LongReader => self.rows.div_ceil(3),
            Scene::Rate | Scene::Course | Scene::ShortReaders | Scene::SlowSyncs => 0,
        };
        let bytes = self.rows.saturating_mul(row_bytes) + stuck_rows.saturating_mul(FRAME_BYTES);
        bytes.saturating_add(WAL_BYTES_MAX).div_ceil(1_000_000)
    }

    fn run(&self, given: &Given<'_>) -> Result<RungResult> {
        run::run(*self, given.database)
    }

    fn check(&self, result: &RungResult, found: &Found<'_>) -> Result<Left> {
        let journal_mode = Pragmas::of(self.safety).journal_left();
        let done = if self.table.is_plain() { "" } else { ", all done for each" };
        let expected = format!("{} rows, each call's own{done}; {journal_mode}; ok", result.rows);
        Ok(Left::new(expected, check::left_in_table(found.database, self.table)?))
    }
}
