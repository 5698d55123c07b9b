//! Conclusions from a run, the most important first.
//!
//! | file | does |
//! |---|---|
//! | here | the order |
//! | `run` | a run as it is read; when a difference is one |
//! | `wording` | words that all share |
//! | `multiple` | the number of times by which one printed figure is than another, and its range |
//! | `settings` | which profile, and which settings of plain SQLite |
//! | `work` | what ours takes for a piece of work, beside the best other way that is as safe |
//! | `commits` | many threads, checkpoints, jobs, single commits |
//! | `processes` | many processes on one database |
//! | `terms` | names of rungs that have to be explained |
//!
//! A pure function of a report, so that every kind of outcome can be tested without
//! measuring it.
//!
//! Must never: say what was not measured, advise what can corrupt a file, keep quiet about a
//! rival that is faster, or compare many threads with one where the headline does not say so.

mod commits;
mod multiple;
mod processes;
mod run;
mod settings;
mod terms;
#[cfg(test)]
mod tests;
mod wording;
mod work;

use self::run::Run;
use crate::report::{Advice, ExperimentReport};

/// The most entries of advice: readers take in no more.
const ADVICE_MAX: usize = 7;

/// The advice that follows from a run.
pub(crate) fn of(report: &ExperimentReport) -> Vec<Advice> {
    let run = Run::new(report);
    let all = [
        settings::profile(&run),
        work::many_rows(&run),
        work::random_keys(&run),
        work::files(&run),
        commits::many_threads(&run),
        settings::by_hand(&run),
        commits::checkpoints(&run),
        commits::jobs(&run),
        processes::shared(&run),
        work::cycles(&run),
        commits::single(&run),
    ];
    all.into_iter().flatten().take(ADVICE_MAX).collect()
}
