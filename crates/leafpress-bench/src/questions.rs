//! Question of each experiment, and the published figures.
//!
//! Those of the classic experiments say so themselves, beside their rungs.
//!
//! Must never: give a figure that does not stand in the publication.

use crate::options::Experiment;
use crate::report::{About, Original, OriginalFigure, Rung};
use crate::{batches, cycles, ladder, queue};

/// Subject of an experiment; `rungs` are those of the run, whose order is compared with
/// the original's.
pub(crate) fn of(experiment: Experiment, rungs: &[Rung]) -> About {
    let with_order = |about: About, order: fn(&[Rung]) -> String| {
        let order = order(rungs);
        About { order: Some(order).filter(|it| !it.is_empty()), ..about }
    };
    let about = match experiment {
        Experiment::Ladder => with_order(ladder::about(), ladder::order),
        Experiment::Presort => with_order(batches::about(), batches::order),
        Experiment::Cycles => with_order(cycles::about(), cycles::order),
        Experiment::QueueInserts => with_order(queue::inserts_about(), queue::inserts_order),
        Experiment::Load => titled(
            "Files and rows into a new table",
            "How long does a CSV file take, with an index too, and how long rows made in memory, \
             beside the best SQL?",
        ),
        Experiment::Writer => titled(
            "Many small transactions",
            "How many one-row transactions a second do many callers get through, each answered \
             when its own is safe?",
        ),
        Experiment::Checkpoint => titled(
            "The slowest commits",
            "How long does the slowest of many commits wait, when a checkpoint comes?",
        ),
        Experiment::Atomic => About { original: Some(paper()), ..single() },
        Experiment::Queue => titled(
            "Jobs of a queue",
            "How many jobs a second do many clients push, claim and acknowledge, what does a claim \
             take among millions, and how soon does a consumer wake up?",
        ),
        Experiment::Shared => titled(
            "Many processes on one database",
            "How many one-row transactions a second do many processes get through together, how \
             long does each wait, and which is refused?",
        ),
    };
    About { name: experiment.name().to_owned(), ..about }
}

fn titled(title: &str, question: &str) -> About {
    About { title: title.to_owned(), question: question.to_owned(), ..About::default() }
}

fn single() -> About {
    titled(
        "What one commit costs",
        "What does a one-row transaction cost in calls, time and memory, by journal mode, and what \
         where a page is written whole?",
    )
}

/// The paper's gain in calls and in time, as it was handed down to this project: the
/// device and the tables in full are not at hand.
fn paper() -> Original {
    let figure = |label: &str, note: &str| OriginalFigure {
        label: label.to_owned(),
        note: Some(note.to_owned()),
        ..OriginalFigure::default()
    };
    Original {
        title: "A paper on SQLite on embedded devices".to_owned(),
        machine: "a device that was told that it writes pages whole".to_owned(),
        figures: vec![
            figure("insert of one row, rollback journal", "54 calls"),
            figure("the same, pages taken to be written whole", "24 calls, three times as fast"),
        ],
        ..Original::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_reports;

    #[test]
    fn every_experiment_says_what_it_answers() {
        let rungs = test_reports::overview().rungs;
        for experiment in Experiment::ALL {
            for rungs in [&rungs[..], &[]] {
                let about = of(experiment, rungs);
                assert_eq!(about.name, experiment.name());
                assert!(!about.title.is_empty(), "{}", about.name);
                assert!(about.question.ends_with('?'), "{}: {}", about.name, about.question);
                assert!(about.question.len() < 200, "{}", about.question);
                assert_ne!(about.order.as_deref(), Some(""));
            }
        }
    }

    #[test]
    fn the_classics_name_their_sources() {
        for experiment in
            [Experiment::Ladder, Experiment::Presort, Experiment::Cycles, Experiment::QueueInserts]
        {
            let about = of(experiment, &[]);
            let original = about.original.expect("a published experiment");
            assert!(original.url.starts_with("https://"), "{}", original.url);
            assert!(original.date.starts_with("20") && !original.figures.is_empty());
            assert!(about.order.is_some(), "{}", experiment.name());
        }
    }
}
