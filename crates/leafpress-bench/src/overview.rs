//! The overview: what runs when no experiment is named. All of the published experiments, and of
//! the larger ones the ratios that answer their question, so that all of it fits into ten minutes.
//!
//! Does nothing itself.

use crate::group::Group;
use crate::options::Experiment;

/// Ratios of an experiment that are in the overview; `None` is all of them.
fn ratios(experiment: Experiment) -> Option<&'static [&'static str]> {
    match experiment {
        Experiment::Ladder | Experiment::Cycles | Experiment::QueueInserts => None,
        // The batches, which repeat the published experiment.
        Experiment::Presort => Some(&[
            "presort_vs_equal",
            "presort_vs_default",
            "presort_insert_many_vs_as_it_comes",
            "presort_insert_many_vs_presorted",
            "presort_uuid4_vs_equal",
            "presort_uuid7_vs_equal",
            "presort_integer_vs_equal",
        ]),
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
        Experiment::Shared => Some(&["shared4"]),
    }
}

/// Returns true if a group is in the overview; drops those of its rungs that are not.
pub(crate) fn keeps(group: &mut Group) -> bool {
    let Some(names) = ratios(group.experiment) else { return true };
    let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
    group.keep_only(&names)
}
