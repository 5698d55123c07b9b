//! The post that the ladder repeats, and whether its steps come in one order here and there.
//!
//! The post gives five figures, from the first step to the last. What its table looked
//! like it does not say. Must never: say that an order is the same where the runs cannot
//! tell.

use super::rung::Step;
use crate::options::Experiment;
use crate::order;
use crate::pragmas::Pragmas;
use crate::report::{About, Original, OriginalFigure, Rung};

/// Figures of the post, in its order. The first is its own product of one row's time and
/// 100,000.
const FIGURES: [(Step, &str, f64, Option<&str>); 5] = [
    (
        Step::EachRow(Pragmas::DEFAULT),
        "a transaction a row",
        2000.0,
        Some("20 ms for one row, times 100,000"),
    ),
    (Step::Compiled(Pragmas::DEFAULT), "one transaction", 18.5, None),
    (Step::Prepared(Pragmas::DEFAULT), "one transaction, prepared", 5.85, None),
    (
        Step::Prepared(Pragmas::WAL_NORMAL),
        "write-ahead log",
        5.257,
        Some("the post's fourth figure, put here by its place among the steps"),
    ),
    (
        Step::Prepared(Pragmas::MEMORY_OFF),
        "no syncs",
        4.036,
        Some("the post's fifth figure, put here by its place among the steps"),
    ),
];

/// Figure of the post for this step.
pub(super) fn figure_of(by: Step) -> Option<OriginalFigure> {
    FIGURES.iter().find(|(step, ..)| *step == by).map(figure)
}

fn figure((_, label, seconds, note): &(Step, &str, f64, Option<&str>)) -> OriginalFigure {
    OriginalFigure::whole(label, *seconds, *note)
}

/// Subject of the experiment.
pub(crate) fn about() -> About {
    About {
        name: "ladder".to_owned(),
        title: "A hundred thousand inserts".to_owned(),
        question: "How long do 100,000 small rows take under one setting after the other, and \
                   what may each of them lose?"
            .to_owned(),
        original: Some(Original {
            title: "Android SQLite Insertion Optimization, shunix.com".to_owned(),
            url: "https://shunix.com/android-sqlite-insertion-optimization/".to_owned(),
            date: "2016-08-25".to_owned(),
            machine: "an Android phone of 2016".to_owned(),
            figures: FIGURES.iter().map(figure).collect(),
        }),
        order: None,
    }
}

/// Comparison of the steps' order with the original's, in words.
pub(crate) fn order(rungs: &[Rung]) -> String {
    let steps = order::steps(rungs, Experiment::Ladder);
    let default = steps.iter().find(|rung| is_figure(rung, 0)).and_then(|rung| rung.row_us());
    order::in_words(&steps, |slower| why(slower, default))
}

/// Returns true for the rung that repeats this figure of the post.
fn is_figure(rung: &Rung, index: usize) -> bool {
    let (_, label, ..) = FIGURES[index];
    rung.original.as_ref().is_some_and(|figure| figure.label == label)
}

/// Reason why a step may have taken longer here than one that it beats in the post.
fn why(slower: &Rung, commit_us: Option<f64>) -> String {
    let commit = commit_us.map_or_else(String::new, |us| {
        format!(" A transaction of one row takes {us:.0} µs here and took 20,000 µs there.")
    });
    if is_figure(slower, 3) {
        return format!(
            "A write-ahead log takes every page twice, into the log and, at the latest when it \
             is closed, into the file, which is in the time here. A journal takes nearly \
             nothing where all pages are new. So the log pays only where syncs are slow.{commit}"
        );
    }
    if is_figure(slower, 4) {
        return format!(
            "Without syncs only the processor's work is left, and that is nearly all of it in \
             the steps before too where syncs are cheap.{commit}"
        );
    }
    format!("Here the processor's work counts for more, and the syncs for less.{commit}")
}
