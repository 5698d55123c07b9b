//! Rungs of many processes that write into one database: Writers that share it, beside other ways
//! that keep as much in a power cut.
//!
//! ```text
//! the rung's process            members, processes of their own
//! makes the database
//! starts the members ─────────► open it, "ready"
//! "go" to all of them ────────► callers begin: one call after the other, until the time is up
//! sums up ◄──────────────────── rows, times of the calls, refusals
//! ```
//!
//! | module | does |
//! |---|---|
//! | here | what a rung says about itself |
//! | `rung` | a rung: how the processes write, which work, how many |
//! | `members` | the rung's process: starts the members, hears them, kills one that hangs |
//! | `member` | a member: opens the database, lets its callers work, answers |
//! | `callers` | the threads of a member, and what each call took |
//! | `ours`, `rivals` | a call, by Writer and Queue and by plain SQLite |
//! | `plan`, `settings` | which rungs are compared with which, and what a reader must know |
//!
//! Must never: count a row that was not acknowledged, leave a member running, or take a call that
//! was refused for one that was made.

mod callers;
mod member;
mod members;
mod ours;
mod plan;
mod rivals;
mod rung;
mod settings;
#[cfg(test)]
mod tests;

pub(crate) use self::plan::shared_groups;
pub(crate) use self::rung::SharedRung;
use self::rung::{Access, Role, Work};
pub(crate) use self::settings::settings;
use crate::commits::left_of_calls;
use crate::error::Result;
use crate::pragmas::Pragmas;
use crate::queue::left_of_jobs;
use crate::report::Safety;
use crate::rung::described::{Described, Found, Given, Left, Topic};
use crate::rung::result::RungResult;

impl Described for SharedRung {
    fn name(&self) -> String {
        Self::name(self)
    }

    fn chart(&self) -> String {
        Self::chart(self)
    }

    fn label(&self) -> String {
        self.access.label().to_owned()
    }

    fn is_ours(&self) -> bool {
        self.access == Access::Shared
    }

    fn safety(&self) -> Safety {
        Safety::Durable
    }

    fn topic(&self) -> Option<Topic> {
        Some(Topic::Processes)
    }

    /// The log, and the rows of the time that it takes.
    fn room_mb(&self, _: u64) -> u64 {
        const LOG_MB: u64 = 100;
        const MB_PER_SECOND: u64 = 40;
        LOG_MB + self.milliseconds_max.div_ceil(1_000) * MB_PER_SECOND
    }

    fn run(&self, given: &Given<'_>) -> Result<RungResult> {
        match self.role {
            Role::Rung => members::run(*self, given.database),
            Role::Member(index) => member::run(*self, index, given.database),
        }
    }

    fn check(&self, result: &RungResult, found: &Found<'_>) -> Result<Left> {
        let journal_mode = Pragmas::of(self.safety()).journal_left();
        match self.work {
            Work::Rows => {
                let expected = format!("{} rows, each call's own; {journal_mode}; ok", result.rows);
                Ok(Left::new(expected, left_of_calls(found.database)?))
            }
            Work::Jobs => left_of_jobs([0; 3], result.rows, journal_mode, found.database),
        }
    }
}
