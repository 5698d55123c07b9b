//! Rungs of the cycles, in the order in which people try them, and the comparisons among them.

use super::rung::{Cycler, CyclesRung, Span};
use crate::group::{Group, Measure, RatioPlan};
use crate::options::{BenchOptions, Experiment};
use crate::pragmas::Pragmas;
use crate::rung::kind::RungKind;

const CYCLES: u32 = 100;

/// Cycles of the Writer that are under way at once.
const CYCLES_IN_FLIGHT: u32 = 16;

/// Rivals and ours, from what people begin with to ours at its best.
pub(super) const CYCLERS: [Cycler; 12] = [
    Cycler::Sql(Pragmas::DEFAULT, Span::Statement),
    Cycler::Sql(Pragmas::DEFAULT, Span::Cycle),
    Cycler::Sql(Pragmas::DEFAULT, Span::Everything),
    Cycler::Sql(Pragmas::WAL_NORMAL, Span::Statement),
    Cycler::Sql(Pragmas::WAL_NORMAL, Span::Cycle),
    Cycler::Sql(Pragmas::WAL_NORMAL, Span::Everything),
    Cycler::SqlUnchecked(Pragmas::WAL_NORMAL),
    Cycler::Sql(Pragmas::WAL_FULL, Span::Statement),
    Cycler::Sql(Pragmas::WAL_FULL, Span::Cycle),
    Cycler::WriterStatements,
    Cycler::WriterCycles,
    Cycler::WriterInFlight(CYCLES_IN_FLIGHT),
];

/// The group of the experiment.
pub(crate) fn cycles_groups(options: &BenchOptions) -> Vec<Group> {
    let milliseconds_max = (options.size.patience_s() * 1e3) as u64;
    let rung = |by| CyclesRung { by, cycles: CYCLES, milliseconds_max };
    let rungs = CYCLERS.map(rung);
    let at = |wanted: Cycler| rungs.iter().position(|rung| rung.by == wanted);
    let full = |span| at(Cycler::Sql(Pragmas::WAL_FULL, span)).into_iter();
    let mut group =
        Group { kinds: rungs.map(RungKind::Cycles).to_vec(), ..Group::new(Experiment::Cycles) };
    // After which a power cut takes nothing either.
    let equals = group.rivals_that_keep_all();
    let default = at(Cycler::Sql(Pragmas::DEFAULT, Span::Statement)).into_iter().collect();
    let best = Cycler::WriterInFlight(CYCLES_IN_FLIGHT);
    let comparisons: [(&str, Cycler, Vec<usize>, Measure); 5] = [
        ("cycles_vs_equal", best, equals, Measure::Wall),
        ("cycles_vs_default", best, default, Measure::Wall),
        // One after the other, as the rival's.
        ("cycles_alone", Cycler::WriterCycles, full(Span::Cycle).collect(), Measure::Wall),
        (
            "cycles_statements_alone",
            Cycler::WriterStatements,
            full(Span::Statement).collect(),
            Measure::Wall,
        ),
        // Of the same eleven commits, one of which makes the rival's checkpoint.
        ("cycles_worst", Cycler::WriterStatements, full(Span::Statement).collect(), Measure::Worst),
    ];
    let plans = comparisons.into_iter().filter_map(|(name, ours, rivals, measure)| {
        Some(RatioPlan::new(name, at(ours)?, &rivals, measure))
    });
    group.ratios = plans.collect();
    vec![group]
}
