//! Rungs of the experiment "queue-inserts": rows into a queue's table, many in one transaction and
//! in as many transactions, under the settings that people try first; and the same rows by the
//! Writer and by the Queue.
//!
//! | module | does |
//! |---|---|
//! | here | what a rung says about itself |
//! | `rung` | a rung: the tool that inserts, and its settings |
//! | `run` | does the work and measures it |
//! | `original` | the published experiment that this repeats, and why the order may not be its |

mod original;
mod run;
mod rung;

pub(crate) use self::original::{about, order};
pub(crate) use self::rung::InsertsRung;
pub(super) use self::rung::{EACH_CHART, Inserter, ONCE_CHART, SqlSettings};
use super::check;
use super::rung::{LOGS_MB, jobs_mb};
use crate::error::Result;
use crate::report::{OriginalFigure, Safety};
use crate::rung::described::{Described, Found, Given, Left, Topic};
use crate::rung::result::RungResult;

impl Described for InsertsRung {
    fn name(&self) -> String {
        self.by.name()
    }

    fn chart(&self) -> String {
        if self.is_once() { ONCE_CHART } else { EACH_CHART }.to_owned()
    }

    fn label(&self) -> String {
        self.by.label()
    }

    fn is_ours(&self) -> bool {
        !matches!(self.by, Inserter::SqlOnce(_) | Inserter::SqlEach(_))
    }

    fn safety(&self) -> Safety {
        self.by.pragmas().safety()
    }

    fn original(&self) -> Option<OriginalFigure> {
        original::figure_of(self.by)
    }

    fn topic(&self) -> Option<Topic> {
        Some(Topic::Jobs)
    }

    fn room_mb(&self, _: u64) -> u64 {
        LOGS_MB + jobs_mb(self.rows)
    }

    fn run(&self, given: &Given<'_>) -> Result<RungResult> {
        run::run(*self, given.database)
    }

    fn check(&self, result: &RungResult, found: &Found<'_>) -> Result<Left> {
        let table = if self.is_queue() { check::OUR_TABLE } else { check::SQL_TABLE };
        let journal_mode = self.by.pragmas().journal_left();
        check::jobs(table, [result.rows, 0, 0], Some(result.rows), journal_mode, found.database)
    }
}
