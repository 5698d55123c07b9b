//! Groups of rungs of many processes that are compared: the experiment "shared".
//!
//! Rungs run until their time is up; rates and latencies are compared. All ways to write stand in
//! one group for each number of processes, so that they run in turns.

use super::rung::{Access, Role, SharedRung, Work, patience_ms};
use crate::group::{Group, Measure};
use crate::options::{BenchOptions, Experiment};
use crate::rung::kind::RungKind;

/// Callers of each process.
const CALLERS: u32 = 8;

/// Delays of syncs: none, and those of a disk without a cache of its own.
const SYNC_DELAYS_US: [u32; 2] = [0, 1_000];

/// The groups of "shared".
pub(crate) fn shared_groups(options: &BenchOptions) -> Vec<Group> {
    let all: &[u32] = if options.is_quick() { &[1, 2, 4] } else { &[1, 2, 4, 8, 16] };
    let many = if options.is_quick() { 4 } else { 8 };
    let milliseconds_max = options.size.of(60, 1_000, 3_000);
    let mut groups = Vec::new();
    for sync_delay_us in SYNC_DELAYS_US {
        let one = SharedRung {
            access: Access::Shared,
            work: Work::Rows,
            processes: 1,
            callers: CALLERS,
            milliseconds_max,
            sync_delay_us,
            patience_ms: patience_ms(),
            role: Role::Rung,
        };
        groups.extend(all.iter().map(|processes| {
            let rung = SharedRung { processes: *processes, ..one };
            group(rung, &Access::RIVALS, *processes == 1 || *processes == many)
        }));
        groups.push(group(SharedRung { callers: 1, ..one }, &[Access::Unshared], false));
        let jobs = SharedRung { work: Work::Jobs, processes: many, ..one };
        groups.push(group(jobs, &[Access::Unshared], false));
    }
    groups
}

/// Shared Writers beside these rivals, and if `is_each` beside each of them too.
fn group(rung: SharedRung, rivals: &[Access], is_each: bool) -> Group {
    let mut group = Group::new(Experiment::Shared);
    let ours = group.add(RungKind::Shared(rung));
    let beside = |access| RungKind::Shared(SharedRung { access, ..rung });
    let others: Vec<usize> = rivals.iter().map(|rival| group.add(beside(*rival))).collect();
    let jobs = if rung.work == Work::Jobs { "_jobs" } else { "" };
    let alone = if rung.callers == 1 { "_alone" } else { "" };
    let slow = match rung.sync_delay_us {
        0 => String::new(),
        delay_us => format!("_{}ms", delay_us / 1_000),
    };
    let name = |rest: &str| format!("shared{}{jobs}{alone}{rest}{slow}", rung.processes);
    group.compare(name(""), ours, &others, Measure::Rate);
    group.compare(name("_p99"), ours, &others, Measure::P99);
    if is_each {
        for (rival, other) in rivals.iter().zip(&others) {
            group.compare(name(&format!("_vs_{}", rival.ratio())), ours, &[*other], Measure::Rate);
        }
    }
    group
}
