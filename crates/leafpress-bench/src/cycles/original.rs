//! The post that the cycles repeat, and whether its settings come in one order here and there.
//!
//! The post's figures speak for themselves in two places. Its log became 1,000 pages long,
//! which is SQLite's limit, in cycle 91: eleven statements a cycle with a page each, so each
//! was a transaction of its own. And its 1,100 commits took 2.7 s without the checkpoint,
//! on a card where a commit with a journal took 2.7 s alone: so they were not synced.

use super::rung::{Cycler, Span};
use crate::numbers;
use crate::options::Experiment;
use crate::order;
use crate::pragmas::Pragmas;
use crate::report::{About, Original, OriginalFigure, Rung};

/// Figures of the post, in its order.
const FIGURES: [(Cycler, &str, f64, &str); 4] = [
    (
        Cycler::Sql(Pragmas::DEFAULT, Span::Statement),
        "default settings",
        3000.0,
        "30 s a cycle, times 100: its author stopped it",
    ),
    (
        Cycler::Sql(Pragmas::DEFAULT, Span::Everything),
        "one transaction",
        3.53,
        "0.94 s of it in the cycles, the rest in the one commit",
    ),
    (
        Cycler::Sql(Pragmas::WAL_NORMAL, Span::Statement),
        "write-ahead log",
        7.19,
        "4.5 s of it in cycle 91, for the checkpoint",
    ),
    (
        Cycler::Sql(Pragmas::WAL_NORMAL, Span::Everything),
        "write-ahead log, one transaction",
        2.29,
        "the post's fourth figure, put here by its place among the steps",
    ),
];

/// Figure of the post for this way.
pub(super) fn figure_of(by: Cycler) -> Option<OriginalFigure> {
    FIGURES.iter().find(|(cycler, ..)| *cycler == by).map(figure)
}

fn figure((_, label, seconds, note): &(Cycler, &str, f64, &str)) -> OriginalFigure {
    OriginalFigure::whole(label, *seconds, Some(note))
}

/// Subject of the experiment.
pub(crate) fn about() -> About {
    About {
        name: "cycles".to_owned(),
        title: "A hundred small changes".to_owned(),
        question: "How long does each of 100 cycles of five inserts, a deletion of everything \
                   and five inserts take, and who pays for what is put off?"
            .to_owned(),
        original: Some(Original {
            title: "Optimizing SQLite on Raspberry Pi, spin.atomicobject.com".to_owned(),
            url: "https://spin.atomicobject.com/sqlite-raspberry-pi/".to_owned(),
            date: "2013-11-14".to_owned(),
            machine: "a Raspberry Pi (700 MHz) with an SD card".to_owned(),
            figures: FIGURES.iter().map(figure).collect(),
        }),
        order: None,
    }
}

/// Comparison of the ways' order with the original's, in words, and the fate of its checkpoint.
pub(crate) fn order(rungs: &[Rung]) -> String {
    let steps = order::steps(rungs, Experiment::Cycles);
    let order = order::in_words(&steps, |_| {
        "The less a sync costs, the more the statements themselves count, and what is done once \
         at the end: a commit or a checkpoint."
            .to_owned()
    });
    [order, spike(rungs), log_that_grows(rungs)].concat()
}

/// Rung of this way.
fn rung_of(rungs: &[Rung], by: Cycler) -> Option<&Rung> {
    let (experiment, label) = (Experiment::Cycles.name(), by.label());
    rungs.iter().find(|rung| rung.experiment == experiment && rung.label == label)
}

/// Sentence on the cycle in which the checkpoint came, and its time.
fn spike(rungs: &[Rung]) -> String {
    let Some(rung) = rung_of(rungs, Cycler::Sql(Pragmas::WAL_NORMAL, Span::Statement)) else {
        return String::new();
    };
    let took = |cycle: usize| rung.cycles_us.get(cycle).copied();
    let Some((cycle, us)) = rung.checkpoints.iter().find_map(|it| Some((*it, took(*it)?))) else {
        return " No checkpoint came within the cycles here: the log did not reach SQLite's \
                limit of 1,000 pages, and was moved when the database was closed."
            .to_owned();
    };
    let typical = rung.latency_us.map_or(us, |latency| latency.p50);
    format!(
        " The checkpoint came in cycle {}, in the original in cycle 91: each of the eleven \
         statements of a cycle adds a page to the log, and at 1,000 pages the commit that \
         reaches them moves them all. The usual cycle took {}, and that one {} ({} as long); there \
         it took 4.5 s.",
        cycle + 1,
        numbers::time(typical / 1e6),
        numbers::time(us / 1e6),
        numbers::times(us / typical.max(f64::MIN_POSITIVE))
    )
}

/// Sentence on a log without checkpoints.
fn log_that_grows(rungs: &[Rung]) -> String {
    let Some(rung) = rung_of(rungs, Cycler::SqlUnchecked(Pragmas::WAL_NORMAL)) else {
        return String::new();
    };
    let (Some(megabytes), Some(outside_s)) = (rung.wal_mb_max, rung.outside_s) else {
        return String::new();
    };
    format!(
        " Without checkpoints the log grew to {megabytes:.1} MB beside a database of two pages, \
         and closing it took {}: it is put off, not saved. Under a program that never closes \
         its database the log grows as long as it runs.",
        numbers::time(outside_s)
    )
}
