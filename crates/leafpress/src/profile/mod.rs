//! Durability profiles: four promises, each with its settings.
//!
//! Every connection that Leafpress makes to a user's database for writing small transactions is
//! opened by [`open`], under one [`Profile`]. The settings that SQLite then really uses are read
//! back and returned as [`InForce`]; if they are not those that the profile needs, there is no
//! connection but an error.
//!
//! | file | does |
//! |---|---|
//! | `mod.rs` | the profiles and their promises: the one table, docs are made from it |
//! | `open.rs` | opens under a profile; all that is refused |
//! | `open_here.rs` | logs that belong to another file than the one beside them |
//! | `second_name.rs` | databases that another process has open under another name |
//! | `in_force.rs` | asks a connection what is in force |
//! | `locking/` | holds a database alone |
//! | `page_writes/` | how a transaction of one page is committed, and in which words that is said |
//!
//! Invariants:
//! 1. A connection that [`open`] returns has every setting of its profile: each
//!    was read back from that connection.
//! 2. While the settings of a database are changed, every sync that SQLite
//!    knows is on, whatever the profile: the way into a profile is as safe as
//!    the safest of them.
//! 3. The database is looked at through SQLite only. On Unix, closing a handle
//!    of our own would drop the locks that this process holds on the file.
//!
//! Must never: open anything with weaker settings than were asked for because
//! the stronger ones did not work.

use std::fmt;
use std::str::FromStr;

use serde::{Serialize, Serializer};

use crate::error::{Error, Result};

mod in_force;
mod locking;
mod open;
mod open_here;
mod page_writes;
mod second_name;
mod settings;
#[cfg(test)]
mod tests;

pub use crate::wal_reset::check_background_checkpoints;
pub use in_force::InForce;
pub(crate) use locking::close_journal;
pub use locking::give_back;
pub use open::{ProfileRequest, open, open_reader};
pub(crate) use open_here::{OpenHere, identity_of, refuse_log_of_another};
pub(crate) use page_writes::ours;
pub use page_writes::{AtomicWish, page_writes, regain_atomic_pages};
pub(crate) use second_name::refuse_second_name;
pub use settings::{JournalMode, Locking, Synchronous};

/// A way to write a database, named by its promise.
///
/// ```
/// use leafpress::Profile;
///
/// let profile: Profile = "relaxed".parse()?;
/// assert_eq!(profile, Profile::Relaxed);
/// assert_eq!(Profile::default(), Profile::Durable);
/// println!("{profile}: {}", profile.promise());
/// # Ok::<(), leafpress::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Profile {
    /// Write-ahead log, synced at every commit: what was acknowledged survives
    /// a power cut.
    #[default]
    Durable,
    /// Write-ahead log, synced at checkpoints only: a power cut may take the
    /// last moments, but never the middle, and damages nothing.
    Relaxed,
    /// Rollback journal, synced with its folder at every commit: as durable,
    /// with one file, and atomic over attached databases. Where the disk proves
    /// that it writes a page whole, a single page is committed without a journal
    /// ([`AtomicWish`]).
    Rollback,
    /// Journal in memory and no sync at all: any crash can destroy the file.
    Rebuildable,
}

/// One row of the table of promises.
struct Promise {
    profile: Profile,
    name: &'static str,
    journal_mode: JournalMode,
    synchronous: Synchronous,
    /// Its work besides these settings.
    besides: &'static str,
    /// The promise in one sentence.
    in_short: &'static str,
    /// State of the database after the process is killed.
    after_a_kill: &'static str,
    /// State of the database after the power is cut.
    after_a_power_cut: &'static str,
    /// Possible damage of the file.
    damage: &'static str,
    /// Possible losses by a crash, in a few words.
    may_lose: &'static str,
    /// Use for which it is good.
    good_for: &'static str,
}

/// The one table of what each profile does and promises; docs/durability.md
/// shows it as it stands here.
const PROMISES: [Promise; 4] = [
    Promise {
        profile: Profile::Durable,
        name: "durable",
        journal_mode: JournalMode::Wal,
        synchronous: Synchronous::Full,
        besides: "",
        in_short: "what was acknowledged survives a power cut",
        after_a_kill: "everything acknowledged",
        after_a_power_cut: "everything acknowledged",
        damage: "never",
        may_lose: "nothing",
        good_for: "almost everything; the default",
    },
    Promise {
        profile: Profile::Relaxed,
        name: "relaxed",
        journal_mode: JournalMode::Wal,
        synchronous: Synchronous::Normal,
        besides: "",
        in_short: "never damaged; a power cut may take the last moments, never the middle; \
                  a killed process loses nothing",
        after_a_kill: "everything acknowledged",
        after_a_power_cut: "everything up to some moment shortly before",
        damage: "never",
        may_lose: "the last moments before a power cut",
        good_for: "rows that can be sent again: caches, logs, measurements",
    },
    Promise {
        profile: Profile::Rollback,
        name: "rollback",
        journal_mode: JournalMode::Delete,
        synchronous: Synchronous::Extra,
        besides: "one page in place where the disk proves that it writes it whole",
        in_short: "what was acknowledged survives a power cut; one file; transactions over \
                  attached databases are whole",
        after_a_kill: "everything acknowledged",
        after_a_power_cut: "everything acknowledged",
        damage: "never",
        may_lose: "nothing",
        good_for: "network folders, one file to copy, several databases in one transaction, small \
                   devices",
    },
    Promise {
        profile: Profile::Rebuildable,
        name: "rebuildable",
        journal_mode: JournalMode::Memory,
        synchronous: Synchronous::Off,
        besides: "",
        in_short: "none: any crash can destroy the file",
        after_a_kill: "perhaps nothing",
        after_a_power_cut: "perhaps nothing",
        damage: "yes, by any crash",
        may_lose: "everything: any crash can corrupt the file",
        good_for: "files that are made anew when something goes wrong",
    },
];

impl Profile {
    /// All of them, the default first.
    pub const ALL: [Self; 4] = [Self::Durable, Self::Relaxed, Self::Rollback, Self::Rebuildable];

    fn row(self) -> &'static Promise {
        let row = &PROMISES[self as usize];
        debug_assert_eq!(row.profile, self);
        row
    }

    /// Its name: `durable`, `relaxed`, `rollback` or `rebuildable`.
    pub fn name(self) -> &'static str {
        self.row().name
    }

    /// Its promise for crashes, in one sentence without a full stop.
    pub fn promise(self) -> &'static str {
        self.row().in_short
    }

    /// The promise that is left where syncs save nothing from a power cut, for these reasons
    /// ([`Findings::not_durable`](crate::storage::Findings::not_durable)); the
    /// [`promise`](Self::promise) if there are none.
    pub fn promise_where(self, not_durable: &[String]) -> String {
        if not_durable.is_empty() || self == Self::Rebuildable {
            return self.promise().to_owned();
        }
        format!(
            "a killed process loses nothing; none about power cuts here: {}",
            not_durable.join("; ")
        )
    }

    /// Possible losses by a crash, in a few words: `nothing`, or their names.
    pub fn may_lose(self) -> &'static str {
        self.row().may_lose
    }

    /// Way in which a half-done transaction is undone.
    pub fn journal_mode(self) -> JournalMode {
        self.row().journal_mode
    }

    /// Moments at which SQLite waits for the disk.
    pub fn synchronous(self) -> Synchronous {
        self.row().synchronous
    }

    /// Returns true if it writes through a write-ahead log, which needs a checkpointer.
    pub fn is_wal(self) -> bool {
        self.journal_mode() == JournalMode::Wal
    }

    /// The table of promises, as docs/durability.md has it.
    pub fn table_as_markdown() -> String {
        let head = "| profile | settings | left when the process is killed | \
                    left when the power is cut | is the file ever damaged? | good for |\n\
                    |---|---|---|---|---|---|\n";
        let rows = PROMISES.iter().map(|row| {
            format!(
                "| `{}` | {}, {}{}{} | {} | {} | {} | {} |\n",
                row.name,
                row.journal_mode,
                row.synchronous,
                if row.besides.is_empty() { "" } else { "; " },
                row.besides,
                row.after_a_kill,
                row.after_a_power_cut,
                row.damage,
                row.good_for
            )
        });
        std::iter::once(head.to_owned()).chain(rows).collect()
    }
}

impl fmt::Display for Profile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Profile {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self> {
        let found = Self::ALL.into_iter().find(|it| it.name().eq_ignore_ascii_case(name.trim()));
        found.ok_or_else(|| {
            let names = Self::ALL.map(Self::name).join(", ");
            Error::not_found("profile", name, format!("there is no profile '{name}'"))
                .to_do(format!("choose one of {names}"))
        })
    }
}

impl Serialize for Profile {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}
