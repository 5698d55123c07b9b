//! A staged table gets into an existing database.
//!
//! The loader presses into a hidden file beside the destination, and then:
//!
//! ```text
//! inspect ──► what the destination is like, or a clear refusal, before any work
//! move_in ──► a new table: its pages are moved in (`pages.rs`, `carry.rs`, `free_pages.rs`),
//!             or, where that cannot be, its rows copied (`copy.rs`); the report says why
//! insert  ──► an existing table: INSERT … SELECT from the attached file (`insert.rs`),
//!             or, where SQLite refuses a row, one by one (`one_by_one.rs`), and if it may be, all
//!             rows between two refused ones together (`stretches.rs`)
//! ```
//!
//! During an insert the disk writes what is in the page cache (`write_out.rs`), and in WAL mode another
//! thread reads the pages to be changed before the insert comes to them (`read_ahead.rs`), and each page
//! is written to the log once (`upper_levels.rs`).
//!
//! A short load does all of that by one connection (`kept.rs`).
//!
//! A dry run does the same on an overlay, which keeps all changes (`overlay.rs`).
//!
//! Each move of pages and each insert of rows is one ordinary SQLite transaction: the rollback journal or
//! the WAL protects it, and readers see the old state or the new one. Its last checks and its commit are in
//! `commit.rs`.
//!
//! Invariants:
//! 1. After an error the destination is as it was; if the error is that the outcome is unknown, it may
//!    hold all of the change instead.
//! 2. After success the new state survives a power cut: `synchronous` is EXTRA.
//! 3. The database's own settings (journal mode, page size, encoding,
//!    auto-vacuum, versions) are the same after as before.
//!
//! Must never: write to the file past SQLite, or open and close it past SQLite
//! while it may be in use. On Unix the latter drops the locks that this
//! process holds on it.

mod carry;
mod commit;
mod connect;
mod copy;
mod dbpage;
mod free_pages;
mod index;
mod indexes;
mod insert;
mod insert_sql;
mod inspect;
mod kept;
mod move_in;
mod one_by_one;
mod order;
mod orphan;
mod overlay;
mod pages;
mod read_ahead;
mod references;
mod rows;
mod staged;
mod stretches;
mod task;
#[cfg(test)]
mod tests;
mod upper_levels;
mod write_out;

pub(in crate::load) use self::carry::{PageSource, damaged};
pub(in crate::load) use self::connect::UNCHANGED;
pub use self::index::{IndexReport, Indexer};
pub use self::insert::notes_of_triggers;
pub(in crate::load) use self::insert::{InsertHalt, InsertInto, insert};
pub(in crate::load) use self::inspect::{Existing, describe_table, inspect, look_at};
pub(in crate::load) use self::move_in::{find_orphan, move_in};
pub(in crate::load) use self::one_by_one::{Refusals, RefusedRow, insert_one_by_one, no_such_row};
pub(in crate::load) use self::order::{BestOrder, InsertMode, key_column, order_of};
pub(in crate::load) use self::orphan::Orphan;
pub(in crate::load) use self::task::{Outcome, Settings, Staged};
