//! Rungs of the ladder, in the order in which people climb it, and the comparisons among them.

use super::rung::{LadderRung, Step};
use crate::group::{Group, Measure};
use crate::options::{BenchOptions, Experiment};
use crate::pragmas::Pragmas;
use crate::rung::kind::RungKind;

/// Calls of the Writer that are under way at once: its queue takes several times as many.
const CALLS_IN_FLIGHT: u32 = 512;

/// Page sizes, all that are usual.
const PAGES_BYTES: [u32; 6] = [512, 1024, 4096, 8192, 16_384, 65_536];

/// The steps, from what people begin with to pressed pages.
pub(super) const STEPS: [Step; 13] = [
    Step::EachRow(Pragmas::DEFAULT),
    Step::EachRow(Pragmas::WAL_FULL),
    Step::Compiled(Pragmas::DEFAULT),
    Step::Prepared(Pragmas::DEFAULT),
    Step::Prepared(Pragmas::WAL_NORMAL),
    Step::Prepared(Pragmas::WAL_FULL),
    Step::Prepared(Pragmas::DELETE_EXTRA),
    Step::Prepared(Pragmas::MEMORY_OFF),
    Step::Mapped,
    Step::WriterBlocking,
    Step::WriterInFlight(CALLS_IN_FLIGHT),
    Step::WriterMany,
    Step::Pressed,
];

/// The groups of the experiment.
pub(crate) fn ladder_groups(options: &BenchOptions) -> Vec<Group> {
    vec![settings_group(options), pages_group(options)]
}

fn group(options: &BenchOptions, steps: &[Step]) -> Group {
    let rows = options.size.of(20_000, 100_000, 100_000);
    let milliseconds_max = (options.size.patience_s() * 1e3) as u64;
    let kind = |by: &Step| RungKind::Ladder(LadderRung { by: *by, rows, milliseconds_max });
    Group { kinds: steps.iter().map(kind).collect(), ..Group::new(Experiment::Ladder) }
}

fn settings_group(options: &BenchOptions) -> Group {
    let mut group = group(options, &STEPS);
    let at = |wanted: Step| STEPS.iter().position(|step| *step == wanted);
    // SQLite's rungs after which a power cut takes nothing either.
    let equals = group.rivals_that_keep_all();
    let each_default = at(Step::EachRow(Pragmas::DEFAULT)).into_iter().collect();
    let each_wal = at(Step::EachRow(Pragmas::WAL_FULL)).into_iter().collect();
    let prepared = at(Step::Prepared(Pragmas::WAL_FULL)).into_iter().collect();
    let comparisons: [(&str, Step, Vec<usize>); 4] = [
        ("ladder_vs_equal", Step::Pressed, equals),
        ("ladder_vs_default", Step::Pressed, each_default),
        // Each row is a transaction of its own in both.
        ("ladder_writer_vs_transactions", Step::WriterInFlight(CALLS_IN_FLIGHT), each_wal),
        ("ladder_insert_many_vs_prepared", Step::WriterMany, prepared),
    ];
    for (name, ours, rivals) in comparisons {
        let Some(ours) = at(ours) else { continue };
        group.compare(name, ours, &rivals, Measure::Wall);
    }
    group
}

fn pages_group(options: &BenchOptions) -> Group {
    let pages = PAGES_BYTES.map(Step::Pages);
    let steps: Vec<Step> = pages.into_iter().chain([Step::PressedPages(4096)]).collect();
    group(options, &steps)
}
