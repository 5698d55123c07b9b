//! The tour: what runs when no experiment is named. All of the classic ones, and of the
//! larger ones the ratios that answer their question, so that all of it fits into
//! ten minutes.
//!
//! Does nothing itself.

use crate::group::Group;
use crate::options::Experiment;
use crate::rung::Work;

/// The ratios of an experiment that are on the tour; `None` is all of them.
fn ratios(experiment: Experiment) -> Option<&'static [&'static str]> {
    match experiment {
        Experiment::Ladder
        | Experiment::Presort
        | Experiment::Cycles
        | Experiment::QueueInserts => None,
        Experiment::Load => Some(&["csv_vs_sql", "rows_vs_sql"]),
        Experiment::Writer => Some(&["alone", "blocking64", "blocking64_vs_mutex", "pipelined512"]),
        Experiment::Checkpoint => Some(&["worst_commit", "p999_commit", "p999_commit_slow"]),
        Experiment::Atomic => Some(&[
            "atomic_vs_journal_exclusive",
            "atomic_vs_journal_shared",
            "atomic_vs_wal_exclusive",
            "atomic_vs_wal_shared",
        ]),
        Experiment::Queue => Some(&[
            // Beside the mutex only: connections that wait for each other's locks are slower, and
            // take many times their time.
            "cycle64_vs_mutex",
            "cycle64_batch100_vs_mutex",
            "claim_10m",
            "wakeup",
        ]),
    }
}

/// Whether a group is on the tour; drops those of its rungs that are not.
pub(crate) fn keeps(group: &mut Group) -> bool {
    match ratios(group.experiment) {
        // Of "presort" only what comes in batches.
        None => group.work.is_of_a_classic(),
        Some(names) => {
            let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
            group.keep_only(&names)
        }
    }
}

impl Work {
    /// Whether a published experiment is repeated by it.
    fn is_of_a_classic(self) -> bool {
        // Rows into a queue's table are jobs of a queue.
        matches!(self, Self::Described | Self::Queue)
    }
}
