//! What each of SQLite's settings promises, in the words of the report.
//!
//! | journal mode | NORMAL | FULL | EXTRA | why |
//! |---|---|---|---|---|
//! | WAL | relaxed | durable | durable | with NORMAL the log is synced at checkpoints only |
//! | DELETE | can corrupt | relaxed | rollback | below EXTRA the deletion of the journal is not synced: the last transaction can be undone; with NORMAL a power cut at the wrong moment can corrupt |
//! | TRUNCATE, PERSIST | can corrupt | rollback | rollback | with NORMAL a journal can be half on the disk when pages are overwritten |
//! | MEMORY, OFF | can corrupt | can corrupt | can corrupt | nothing on the disk undoes what was half done |
//!
//! Found by replaying power cuts (docs/durability.md), and for DELETE + NORMAL, where
//! none was seen, by SQLite's own words. Under exclusive locking the journal of DELETE
//! stays, void, as that of PERSIST does: it is safer than its word here.
//!
//! Must never: be kinder than that.

use super::{Journal, Synchronous};
use crate::report::Safety;

/// The promise of these pragmas.
pub(crate) fn of(journal: Journal, synchronous: Synchronous) -> Safety {
    use Journal::{Delete, Memory, Off, Persist, Truncate, Wal};
    use Synchronous::{Extra, Full, Normal};
    match (journal, synchronous) {
        (Wal, Full | Extra) => Safety::Durable,
        (Wal, Normal) | (Delete, Full) => Safety::Relaxed,
        (Delete, Extra) | (Truncate | Persist, Full | Extra) => Safety::Rollback,
        (Delete | Truncate | Persist, Normal) | (Memory | Off, _) => Safety::Rebuildable,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_can_corrupt_is_never_called_safe() {
        for synchronous in Synchronous::ALL {
            for journal in [Journal::Memory, Journal::Off] {
                assert_eq!(of(journal, synchronous), Safety::Rebuildable);
            }
        }
        let weak = [Journal::Delete, Journal::Truncate, Journal::Persist];
        assert!(weak.iter().all(|it| of(*it, Synchronous::Normal) == Safety::Rebuildable));
    }

    #[test]
    fn only_what_survives_a_power_cut_is_called_durable() {
        let all = Journal::ALL.into_iter().flat_map(|it| Synchronous::ALL.map(|sync| (it, sync)));
        let durable: Vec<_> = all
            .filter(|(journal, sync)| {
                matches!(of(*journal, *sync), Safety::Durable | Safety::Rollback)
            })
            .collect();
        assert_eq!(
            durable,
            [
                (Journal::Delete, Synchronous::Extra),
                (Journal::Truncate, Synchronous::Full),
                (Journal::Truncate, Synchronous::Extra),
                (Journal::Persist, Synchronous::Full),
                (Journal::Persist, Synchronous::Extra),
                (Journal::Wal, Synchronous::Full),
                (Journal::Wal, Synchronous::Extra),
            ]
        );
    }
}
