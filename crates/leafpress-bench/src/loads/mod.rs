//! Rungs of loads: files and rows into tables, an index. By Leafpress, and by the best that SQL
//! can do.
//!
//! | module | does |
//! |---|---|
//! | here | what a rung says about itself |
//! | `rung` | a rung: the work, the tool, the number of rows |
//! | `ours`, `sql` | the work by Leafpress, and by SQL |
//! | `process` | a small CSV file by whole processes, ours and SQLite's shell |
//! | `disk` | as many bytes read and written, without the work |
//! | `run` | does it and measures it |
//! | `fixture` | the databases that stand beforehand |
//! | `check` | that no rung did less than another |
//! | `plan`, `settings` | which rungs are compared with which, and what a reader must know |

mod check;
mod disk;
mod fixture;
mod ours;
mod plan;
mod process;
mod run;
mod rung;
mod settings;
mod sql;

use std::time::Duration;

#[cfg(test)]
pub(crate) use self::plan::users_group;
pub(crate) use self::plan::{billion_group, load_groups, sorted_groups};
#[cfg(test)]
pub(crate) use self::rung::Load;
use self::rung::Work;
pub(crate) use self::rung::{LoadRung, NO_PARQUET};
pub(crate) use self::settings::settings;
use crate::error::Result;
use crate::numbers::size_name;
use crate::report::Safety;
use crate::rung::described::{Described, Fixture, Found, Given, InputFormat, Left, Topic};
use crate::rung::result::RungResult;

impl Described for LoadRung {
    fn name(&self) -> String {
        let facts = self.by.facts();
        let name = format!("{}, {}", facts.work.name(), facts.label);
        if facts.work.reads().is_some() {
            name
        } else {
            format!("{name}, {}", size_name(self.rows))
        }
    }

    fn chart(&self) -> String {
        Self::chart(*self)
    }

    fn label(&self) -> String {
        self.by.facts().label.to_owned()
    }

    fn is_ours(&self) -> bool {
        self.by.facts().is_ours
    }

    fn is_bound(&self) -> bool {
        self.by.facts().is_bound
    }

    fn safety(&self) -> Safety {
        self.by.facts().safety
    }

    fn topic(&self) -> Option<Topic> {
        Some(Topic::Loads)
    }

    fn memory_bytes(&self) -> Option<u64> {
        self.memory_bytes
    }

    fn reads(&self) -> Option<InputFormat> {
        self.work().reads()
    }

    fn missing(&self, is_simulated: bool) -> Option<String> {
        match self.work() {
            Work::Process => process::missing(is_simulated),
            Work::Parquet if !cfg!(feature = "parquet") => Some(NO_PARQUET.to_owned()),
            _ => None,
        }
    }

    fn rounds_of_large_run(&self) -> usize {
        5
    }

    fn rest(&self) -> Duration {
        Duration::from_millis(500)
    }

    /// For each row:
    ///
    /// | work | bytes a row |
    /// |---|---|
    /// | whole processes | 75 of CSV, 75 in the table |
    /// | users | 17 in the table; attached, as much again in WAL and temporary file |
    /// | keys | 130 in the table, 190 where SQL splits its pages, 130 spilled |
    /// | index | 90 of CSV, 75 in the table, twice; 30 in the index, as much in its sort |
    /// | append | 130 in the table, twice, ten times as many; a WAL of all its pages |
    fn room_mb(&self, input_bytes: u64) -> u64 {
        const ROUNDING_MB: u64 = 10;
        let (amount, room) = match self.work() {
            Work::Csv | Work::Ndjson => (input_bytes, 2),
            Work::Parquet => (input_bytes, 4),
            Work::CsvIndex => (input_bytes, 3),
            Work::Process => (self.rows, 200),
            Work::Users => (self.rows, 20),
            Work::Attach => (self.rows, 80),
            Work::Keys => (self.rows, 300),
            Work::Index => (self.rows, 320),
            Work::Append => (self.rows_before(), 600),
        };
        amount.saturating_mul(room) / 1_000_000 + ROUNDING_MB
    }

    fn fixture(&self) -> Option<Fixture> {
        fixture::of(*self)
    }

    fn run(&self, given: &Given<'_>) -> Result<RungResult> {
        run::run(*self, given)
    }

    fn check(&self, result: &RungResult, found: &Found<'_>) -> Result<Left> {
        check::check(*self, result, found)
    }
}
