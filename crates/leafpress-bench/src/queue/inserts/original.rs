//! The post that "queue-inserts" repeats, and whether its settings come in one order here and there.
//!
//! The post tries `temp_store` and `synchronous` together and gives one figure for both. Of
//! WAL it gives two. Ten thousand transactions in 0.622 s are 62 µs each, on a disk on which
//! each took 5,300 µs before: that is without a sync at each commit, so these figures stand
//! beside WAL + NORMAL.
//!
//! Must never: claim that an order is the post's where the runs cannot tell.

use super::rung::{Inserter, SqlSettings};
use crate::options::Experiment;
use crate::order;
use crate::report::{About, Original, OriginalFigure, Rung};

/// Figures of the post, in its order.
const FIGURES: [(Inserter, &str, f64, Option<&str>); 5] = [
    (
        Inserter::SqlOnce(SqlSettings::Default),
        "default, one transaction",
        0.3,
        Some("“about 300+ ms” in the post"),
    ),
    (Inserter::SqlEach(SqlSettings::Default), "default, a transaction each", 63.0, None),
    (
        Inserter::SqlEach(SqlSettings::Normal),
        "NORMAL, a transaction each",
        53.0,
        Some("with temp_store = MEMORY besides; the post has no figure for either alone"),
    ),
    (
        Inserter::SqlOnce(SqlSettings::WalNormal),
        "WAL, one transaction",
        0.0875,
        Some("0.075 to 0.1 s in the post; put beside WAL + NORMAL, as it had NORMAL before"),
    ),
    (
        Inserter::SqlEach(SqlSettings::WalNormal),
        "WAL, a transaction each",
        0.622,
        Some("put beside WAL + NORMAL: at 62 µs a transaction the post's disk synced none of them"),
    ),
];

/// Figure of the post for this way in.
pub(super) fn figure_of(by: Inserter) -> Option<OriginalFigure> {
    FIGURES.iter().find(|(its, ..)| *its == by).map(figure)
}

fn figure((_, label, seconds, note): &(Inserter, &str, f64, Option<&str>)) -> OriginalFigure {
    OriginalFigure::whole(label, *seconds, *note)
}

/// Subject of the experiment.
pub(crate) fn about() -> About {
    About {
        name: "queue-inserts".to_owned(),
        title: "Ten thousand inserts into a queue".to_owned(),
        question: "How long do 10,000 rows take in one transaction, and how long if each is a \
                   transaction of its own?"
            .to_owned(),
        original: Some(Original {
            title: "Huge Speed Increase with Sqlite Write Ahead Logging, michaelsilver.us"
                .to_owned(),
            url: "https://michaelsilver.us/2018/01/16/huge-speed-increase-with-sqlite-write-ahead-logging/"
                .to_owned(),
            date: "2018-01-16".to_owned(),
            machine: "not named; C#, on a disk on which a small transaction took 6 ms".to_owned(),
            figures: FIGURES.iter().map(figure).collect(),
        }),
        order: None,
    }
}

/// Comparison of the settings' order with the original's, in words.
pub(crate) fn order(rungs: &[Rung]) -> String {
    let steps = order::steps(rungs, Experiment::QueueInserts);
    let default = Inserter::SqlEach(SqlSettings::Default).label();
    let default = steps.iter().copied().find(|rung| rung.label == default);
    let commit = default.and_then(Rung::row_us).map_or_else(String::new, |us| {
        format!(
            " A transaction of one row takes {us:.0} µs here by default and took 6,300 µs there."
        )
    });
    order::in_words(&steps, |_| {
        format!(
            "Where a sync is cheap, what is left is the work of the processor, which all \
             settings share.{commit}"
        )
    })
}
