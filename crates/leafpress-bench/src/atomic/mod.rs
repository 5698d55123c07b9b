//! Rungs of one-row transactions, and what each costs. They run one after the other on embedded
//! SQLite. Counted are calls, bytes, time and memory, by journal mode, `synchronous`, locking,
//! and with or without pages that are written whole.
//!
//! | module | does |
//! |---|---|
//! | here | what a rung says about itself |
//! | `rung` | a rung: the opener of the database, its settings, the change of a transaction, the disk |
//! | `plan`, `settings` | which rungs are compared with which, and what a reader must know |
//! | `run` | sets up, opens, makes the transactions, counts, closes |
//! | `open` | ours as a user opens it, SQLite's with its pragmas |
//! | `figures` | counters to figures for each transaction |
//! | `changes` | the one-row changes, and that each of them was left |
//! | `accounting` | what the counting itself costs |
//! | `xfs_loop` | a file system that writes pages whole, in a file |
//!
//! Must never: open ours in a way that users cannot, count anything but what was
//! timed or repeats it exactly, or call a setting safe that can corrupt.

mod accounting;
mod changes;
mod figures;
mod open;
mod plan;
mod run;
mod rung;
mod settings;
#[cfg(test)]
mod tests;
pub(crate) mod xfs_loop;

pub(crate) use self::accounting::AccountingRung;
pub(crate) use self::plan::atomic_groups;
pub(crate) use self::rung::AtomicRung;
use self::rung::{Change, Opener, Pages};
pub(crate) use self::settings::settings;
use crate::commits;
use crate::error::Result;
use crate::report::{OneRow, Safety};
use crate::rung::described::{Described, Found, Given, Left, Place, Topic};
use crate::rung::result::RungResult;

/// Words for the disk, where it is not the one that was named.
fn on_place(place: Place) -> &'static str {
    match place {
        Place::Disk => "",
        Place::XfsLoop => ", on the XFS loop",
    }
}

impl Described for AtomicRung {
    fn name(&self) -> String {
        let warning = if self.safety().can_corrupt() { ", can corrupt" } else { "" };
        let (change, locking) = (self.change.name(), self.locking.name());
        format!("{change}, {locking}, {}{warning}{}", self.by.name(), on_place(self.place))
    }

    fn chart(&self) -> String {
        let (change, locking) = (self.change.name(), self.locking.name());
        format!("one-row {change}s, {locking} locking{}", on_place(self.place))
    }

    fn label(&self) -> String {
        self.by.label()
    }

    fn is_ours(&self) -> bool {
        self.by.pages().is_some()
    }

    fn safety(&self) -> Safety {
        match self.by {
            Opener::Sql(pragmas) => pragmas.safety(),
            // Nothing proves that this disk writes pages whole.
            Opener::Leafpress(Pages::Assumed) | Opener::LeafpressSmall(Pages::Assumed) => {
                Safety::Rebuildable
            }
            Opener::Leafpress(_) | Opener::LeafpressSmall(_) => Safety::Rollback,
        }
    }

    fn one_row(&self, page_writes: Option<String>) -> Option<OneRow> {
        let pragmas = self.by.pragmas();
        Some(OneRow {
            change: self.change.name().to_owned(),
            place: self.place.name().to_owned(),
            locking: self.locking.name().to_owned(),
            journal_mode: pragmas.journal.name().to_owned(),
            synchronous: pragmas.synchronous.name().to_owned(),
            opened_by: self.by.name(),
            page_writes,
        })
    }

    fn topic(&self) -> Option<Topic> {
        Some(Topic::OneRow)
    }

    fn place(&self) -> Place {
        self.place
    }

    /// A journal or a WAL of some thousand pages, and what the file system of a loop writes for
    /// itself.
    fn room_mb(&self, _: u64) -> u64 {
        const ROW_BYTES: u64 = 64;
        const FILES_MB: u64 = 20;
        let rows_mb = self.transactions.saturating_mul(ROW_BYTES) / 1_000_000;
        let place_mb = if self.place == Place::XfsLoop { xfs_loop::ROOM_MB } else { 0 };
        rows_mb.saturating_add(FILES_MB + place_mb)
    }

    fn run(&self, given: &Given<'_>) -> Result<RungResult> {
        run::run(*self, given.database)
    }

    fn check(&self, result: &RungResult, found: &Found<'_>) -> Result<Left> {
        let (what, left) = match self.change {
            Change::Insert => ("rows, each call's own", commits::left_of_calls(found.database)?),
            Change::Update => {
                ("updates, each in its row", changes::left_of_updates(found.database)?)
            }
        };
        let changes_count = result.rows + result.changes_besides;
        let journal_mode = self.by.pragmas().journal_left();
        Ok(Left::new(format!("{changes_count} {what}; {journal_mode}; ok"), left))
    }
}
