//! The post that the ladder repeats, and whether its steps come in the same order here.
//!
//! The post gives five figures, from the first step to the last. What its table looked
//! like it does not say. Must never: say that an order is the same where the runs cannot
//! tell.

use super::compared;
use super::pragmas::Pragmas;
use super::{LadderRung, Step};
use crate::report::{About, Original, OriginalFigure, Rung};
use crate::rung::Described as _;

/// What the post found, in its order. The first is its own product of one row's time and
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

/// What the post found for this step.
pub(super) fn figure_of(by: Step) -> Option<OriginalFigure> {
    FIGURES.iter().find(|(step, ..)| *step == by).map(figure)
}

fn figure((_, label, seconds, note): &(Step, &str, f64, Option<&str>)) -> OriginalFigure {
    OriginalFigure::whole(label, *seconds, *note)
}

/// What the experiment is about.
pub fn about() -> About {
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

/// Whether the steps come in the original's order, and if not, why.
pub fn order(rungs: &[Rung]) -> String {
    let of_ladder = |rung: &&Rung| rung.name.starts_with("ladder, ") && rung.original.is_some();
    let steps: Vec<&Rung> = rungs.iter().filter(of_ladder).collect();
    let default = rungs.iter().find(|rung| rung.name == name_of(0)).and_then(Rung::row_us);
    compared::in_words(&steps, |slower| why(slower, default))
}

/// The name of the rung of one of the post's steps.
fn name_of(figure: usize) -> String {
    let (by, ..) = FIGURES[figure];
    LadderRung { by, rows: 0, milliseconds_max: 0 }.name()
}

/// Why a step may have taken longer here than one that it beats in the post.
fn why(slower: &Rung, commit_us: Option<f64>) -> String {
    let commit = commit_us.map_or_else(String::new, |us| {
        format!(" A transaction of one row takes {us:.0} µs here and took 20,000 µs there.")
    });
    if slower.name == name_of(3) {
        return format!(
            "A write-ahead log takes every page twice, into the log and, at the latest when it \
             is closed, into the file, which is in the time here. A journal takes nearly \
             nothing where all pages are new. So the log pays only where syncs are dear.{commit}"
        );
    }
    if slower.name == name_of(4) {
        return format!(
            "Without syncs only the processor's work is left, and that is nearly all of it in \
             the steps before too where syncs are cheap.{commit}"
        );
    }
    format!("Here the processor's work counts for more, and the syncs for less.{commit}")
}
