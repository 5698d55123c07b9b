//! SQLite's settings, and what they promise. Every rival sets them so.
//!
//! | journal mode | NORMAL | FULL | EXTRA | why |
//! |---|---|---|---|---|
//! | WAL | relaxed | durable | durable | with NORMAL the log is synced at checkpoints only |
//! | DELETE | can corrupt | relaxed | rollback | below EXTRA the deletion of the journal is not synced: the last transaction can be undone; with NORMAL a power cut at the wrong moment can corrupt |
//! | TRUNCATE, PERSIST | can corrupt | rollback | rollback | with NORMAL a journal can be half on the disk when pages are overwritten |
//! | MEMORY, OFF | can corrupt | can corrupt | can corrupt | nothing on the disk undoes what was half done |
//!
//! OFF syncs nothing, and promises nothing under any journal mode.
//!
//! Found by replaying power cuts (docs/durability.md), and for DELETE + NORMAL, where none was
//! seen, by SQLite's own words. Under exclusive locking the journal of DELETE stays, void, as that
//! of PERSIST does: it is safer than its word here.
//!
//! Must never: be kinder than that, or go on where SQLite did not take a setting.

use leafpress::profile::{JournalMode, Locking, Synchronous};
use rusqlite::Connection;
use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::report::Safety;

/// A journal mode, and when it syncs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Pragmas {
    /// `journal_mode`.
    pub(crate) journal: JournalMode,
    /// `synchronous`.
    pub(crate) synchronous: Synchronous,
}

impl Pragmas {
    /// Settings of a connection that sets none.
    pub(crate) const DEFAULT: Self = Self::new(JournalMode::Delete, Synchronous::Full);
    /// A journal that is synced only where the file could be damaged.
    pub(crate) const DELETE_NORMAL: Self = Self::new(JournalMode::Delete, Synchronous::Normal);
    /// A journal, and its folder synced when it is deleted.
    pub(crate) const DELETE_EXTRA: Self = Self::new(JournalMode::Delete, Synchronous::Extra);
    /// A log, each commit synced.
    pub(crate) const WAL_FULL: Self = Self::new(JournalMode::Wal, Synchronous::Full);
    /// A log, synced at checkpoints.
    pub(crate) const WAL_NORMAL: Self = Self::new(JournalMode::Wal, Synchronous::Normal);
    /// A journal that a crash takes with it, and no syncs.
    pub(crate) const MEMORY_OFF: Self = Self::new(JournalMode::Memory, Synchronous::Off);

    /// These two.
    pub(crate) const fn new(journal: JournalMode, synchronous: Synchronous) -> Self {
        Self { journal, synchronous }
    }

    /// Settings of the profile that makes this promise.
    pub(crate) fn of(safety: Safety) -> Self {
        let profile = safety.profile();
        Self::new(profile.journal_mode(), profile.synchronous())
    }

    /// Promise of these settings.
    pub(crate) fn safety(self) -> Safety {
        use JournalMode::{Delete, Memory, Off, Persist, Truncate, Wal};
        use Synchronous::{Extra, Full, Normal};
        match (self.journal, self.synchronous) {
            (Wal, Full | Extra) => Safety::Durable,
            (Wal, Normal) | (Delete, Full) => Safety::Relaxed,
            (Delete, Extra) | (Truncate | Persist, Full | Extra) => Safety::Rollback,
            (_, Synchronous::Off)
            | (Delete | Truncate | Persist, Normal)
            | (Memory | Off, Normal | Full | Extra) => Safety::Rebuildable,
        }
    }

    /// Name in charts: "default", "WAL + NORMAL".
    pub(crate) fn label(self) -> String {
        if self == Self::DEFAULT { "default".to_owned() } else { self.in_capitals() }
    }

    /// Name with both words: "DELETE + FULL".
    pub(crate) fn in_capitals(self) -> String {
        format!("{} + {}", self.journal, self.synchronous)
    }

    /// Statements that set them.
    pub(crate) fn sql(self) -> String {
        let Self { journal, synchronous } = self;
        format!("PRAGMA journal_mode = {journal}; PRAGMA synchronous = {synchronous}")
    }

    /// Journal mode that a database says it has once it is closed: only a log is written down
    /// in it.
    pub(crate) fn journal_left(self) -> &'static str {
        if self.journal == JournalMode::Wal { "wal" } else { "delete" }
    }

    /// Sets them.
    ///
    /// # Errors
    /// If SQLite does not take the journal mode, as on a file system without shared memory.
    pub(crate) fn set(self, connection: &Connection) -> Result<()> {
        let set = || -> rusqlite::Result<JournalMode> {
            connection.pragma_update(None, "synchronous", self.synchronous.name())?;
            let journal = self.journal.name();
            connection.pragma_update_and_check(None, "journal_mode", journal, |row| row.get(0))
        };
        let in_force = set().map_err(Error::sqlite("set up the rival's database"))?;
        if in_force == self.journal {
            return Ok(());
        }
        let reason = format!("journal_mode is {in_force}, not {}", self.journal);
        Err(Error::rung(format!("SQL, {}", self.label()), reason))
    }
}

/// Sets the locking mode, before the journal mode is set.
pub(crate) fn set_locking(connection: &Connection, locking: Locking) -> Result<()> {
    let mode = match locking {
        Locking::Shared => "normal",
        Locking::Exclusive => "exclusive",
    };
    connection
        .pragma_update_and_check(None, "locking_mode", mode, |_| Ok(()))
        .map_err(Error::sqlite("set the rival's locking mode"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all() -> impl Iterator<Item = Pragmas> {
        let modes = JournalMode::ALL.into_iter();
        modes.flat_map(|mode| Synchronous::ALL.map(|synchronous| Pragmas::new(mode, synchronous)))
    }

    #[test]
    fn what_can_corrupt_is_never_called_safe() {
        for pragmas in all() {
            let is_weak = match pragmas.journal {
                JournalMode::Memory | JournalMode::Off => true,
                JournalMode::Wal => pragmas.synchronous == Synchronous::Off,
                _ => pragmas.synchronous <= Synchronous::Normal,
            };
            assert_eq!(pragmas.safety().can_corrupt(), is_weak, "{pragmas:?}");
        }
    }

    #[test]
    fn only_what_survives_a_power_cut_is_called_durable() {
        let durable: Vec<String> =
            all().filter(|it| it.safety().keeps_all()).map(Pragmas::in_capitals).collect();
        assert_eq!(
            durable,
            [
                "DELETE + EXTRA",
                "TRUNCATE + FULL",
                "TRUNCATE + EXTRA",
                "PERSIST + FULL",
                "PERSIST + EXTRA",
                "WAL + FULL",
                "WAL + EXTRA",
            ]
        );
    }

    #[test]
    fn a_profile_keeps_its_promise_and_is_set_as_it_is_said() {
        for safety in Safety::ALL {
            let pragmas = Pragmas::of(safety);
            assert_eq!(pragmas.safety(), safety);
            let folder = tempfile::tempdir().expect("a temporary folder");
            let [set, said] = ["set", "said"]
                .map(|name| Connection::open(folder.path().join(name)).expect("a new database"));
            pragmas.set(&set).expect("they are taken");
            said.execute_batch(&pragmas.sql()).expect("they are taken");
            for connection in [set, said] {
                let ask = |pragma: &str| {
                    connection
                        .pragma_query_value(None, pragma, |row| {
                            row.get_ref(0)?
                                .as_str()
                                .map(str::to_owned)
                                .or_else(|_| Ok(row.get::<_, i64>(0)?.to_string()))
                        })
                        .expect("an answer")
                };
                assert_eq!(ask("journal_mode"), pragmas.journal.name());
                assert_eq!(ask("synchronous"), (pragmas.synchronous as u8).to_string());
            }
        }
    }

    #[test]
    fn a_journal_mode_that_is_not_taken_is_an_error() {
        let connection = Connection::open_in_memory().expect("a database in memory");
        let error = Pragmas::WAL_FULL.set(&connection).expect_err("memory has no log");
        assert!(error.to_string().contains("journal_mode is MEMORY, not WAL"), "{error}");
    }
}
