//! Which resource bounded a rung, by a rule over what is measured anyway.
//!
//! Of the median run, with *wall* its time and *cores* the cores of the machine:
//!
//! | in this order | if | it was bound by |
//! |---|---|---|
//! | 1 | processor seconds are 0.8 × wall × cores or more | the processor |
//! | 2 | the disk took 0.5 × wall or more, half of its syncs' time or more for bytes | the disk |
//! | 3 | the disk took 0.5 × wall or more, most of it for syncs | syncs |
//! | 4 | processor seconds are 0.8 × wall or more | one core |
//! | 5 | none of these | waiting: for another thread, another process, a lock or a timer |
//!
//! Bytes: all that was written, at the speed of the disk in order. Syncs: as measured (loads, one-row
//! transactions), else their number at the median time of a sync that follows an overwrite. The speeds
//! are those of `leafpress storage`, or of the simulated disk. Where syncs are not counted (whole
//! processes, queues) they cannot be told from other waits, and are called waiting.
//!
//! Must never: claim a resource where nothing was measured of it.

use std::time::Duration;

use leafpress::vfs::DiskModel;

use crate::machine::cores;
use crate::report::{BoundBy, Safety};
use crate::rung::result::RungResult;
use crate::statistics::median;
use crate::storage::StorageReport;

/// From this share of all cores on it was the processor, and from this share of one, one core.
const BUSY_SHARE: f64 = 0.8;

/// From this share of the time on it was the disk.
const DISK_SHARE: f64 = 0.5;

/// If bytes take this share of the syncs' time, the syncs waited for bytes.
const BYTES_OF_SYNCS: f64 = 0.5;

/// Time that a run took, and what of it its resources took.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
#[expect(clippy::struct_field_names, reason = "each ends with its unit")]
struct Spent {
    wall_s: f64,
    /// Processor seconds of all threads.
    cpu_s: f64,
    /// The disk's seconds for the bytes that were written.
    bytes_s: f64,
    /// Seconds of syncs.
    syncs_s: f64,
}

/// The rule at the head of this file.
fn judge(spent: Spent, cores: usize) -> BoundBy {
    let Spent { wall_s, cpu_s, bytes_s, syncs_s } = spent;
    let disk_s = bytes_s.max(syncs_s);
    if cpu_s >= BUSY_SHARE * wall_s * cores as f64 {
        BoundBy::Processor
    } else if disk_s >= DISK_SHARE * wall_s {
        if bytes_s >= BYTES_OF_SYNCS * syncs_s { BoundBy::Disk } else { BoundBy::Sync }
    } else if cpu_s >= BUSY_SHARE * wall_s {
        BoundBy::OneCore
    } else {
        BoundBy::Waiting
    }
}

/// Speed of the disk that rungs write to.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct DiskSpeed {
    sync_s: Option<f64>,
    bytes_per_second: Option<f64>,
}

impl DiskSpeed {
    /// The simulated disk's, else that which was found of the real one.
    pub(crate) fn of(simulated: Option<DiskModel>, storage: Option<&StorageReport>) -> Self {
        if let Some(model) = simulated {
            return Self {
                sync_s: Some((model.flush + model.request).as_secs_f64()),
                bytes_per_second: Some(model.bytes_per_second as f64),
            };
        }
        let measured = storage.map(|storage| &storage.found.measured);
        let sync = measured.map(|it| it.sync_after_overwrite.p50);
        Self {
            sync_s: sync.as_ref().map(Duration::as_secs_f64),
            bytes_per_second: measured.map(|it| it.sequential_writes.bytes_per_second),
        }
    }
}

/// Syncs of this many commits under the settings of a promise: of the log; of the journal, the
/// database and the folder; none.
pub(crate) fn syncs_of_commits(safety: Safety, commits: u64) -> u64 {
    match safety {
        Safety::Durable => commits,
        Safety::Rollback => 3 * commits,
        Safety::Relaxed | Safety::Rebuildable => 0,
    }
}

/// Resource that bounded the runs of a rung; `None` where the system does not tell processor seconds.
pub(crate) fn bound_by(runs: &[RungResult], disk: DiskSpeed) -> Option<BoundBy> {
    let spent: Vec<Spent> = runs.iter().filter_map(|run| spent(run, disk)).collect();
    let of = |figure: fn(&Spent) -> f64| median(&spent.iter().map(figure).collect::<Vec<_>>());
    let median = Spent {
        wall_s: of(|it| it.wall_s)?,
        cpu_s: of(|it| it.cpu_s)?,
        bytes_s: of(|it| it.bytes_s)?,
        syncs_s: of(|it| it.syncs_s)?,
    };
    Some(judge(median, cores()))
}

fn spent(run: &RungResult, disk: DiskSpeed) -> Option<Spent> {
    // The time of a sample is scaled to all rows; all else is what it took.
    let share_done = run.sample_rows.map_or(1.0, |done| done as f64 / run.rows.max(1) as f64);
    let written_bytes = run.io.as_ref().map_or(0, |io| io.written_bytes) as f64;
    let bytes_s = disk.bytes_per_second.filter(|speed| *speed > 0.0);
    Some(Spent {
        wall_s: run.wall_s * share_done,
        cpu_s: run.cpu_s?,
        bytes_s: bytes_s.map_or(0.0, |speed| written_bytes / speed),
        syncs_s: syncs_s(run, disk.sync_s).unwrap_or(0.0),
    })
}

/// Seconds of a run's syncs, as far as these were measured or counted.
fn syncs_s(run: &RungResult, sync_s: Option<f64>) -> Option<f64> {
    if let Some(measured_s) = run.stages_s.get("sync") {
        return Some(*measured_s);
    }
    if let Some(io) = run.io.as_ref().and_then(|io| io.per_transaction.as_ref()) {
        let calls = io.files.values().flatten().filter(|(kind, _)| kind.contains("sync"));
        return Some(calls.map(|(_, call)| call.us).sum::<f64>() * run.rows as f64 / 1e6);
    }
    let shared = run.processes.as_ref().and_then(|processes| processes.syncs_per_row);
    let shared = shared.map(|syncs_per_row| syncs_per_row * run.rows as f64);
    Some(run.syncs.map(|syncs| syncs as f64).or(shared)? * sync_s?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::Io;

    fn judged(cpu_s: f64, bytes_s: f64, syncs_s: f64) -> BoundBy {
        judge(Spent { wall_s: 10.0, cpu_s, bytes_s, syncs_s }, 2)
    }

    #[test]
    fn the_rule_goes_from_the_processor_to_waiting() {
        assert_eq!(judged(16.0, 9.0, 9.0), BoundBy::Processor);
        assert_eq!(judged(15.9, 5.0, 9.0), BoundBy::Disk);
        assert_eq!(judged(15.9, 4.4, 9.0), BoundBy::Sync);
        assert_eq!(judged(9.0, 0.0, 5.0), BoundBy::Sync);
        assert_eq!(judged(9.0, 5.0, 0.0), BoundBy::Disk);
        assert_eq!(judged(8.0, 4.9, 4.9), BoundBy::OneCore);
        assert_eq!(judged(7.9, 4.9, 4.9), BoundBy::Waiting);
    }

    #[test]
    fn syncs_are_taken_as_measured_else_counted() {
        let disk = DiskSpeed { sync_s: Some(0.001), bytes_per_second: Some(1e6) };
        let io = Some(Io { written_bytes: 2_000_000, ..Io::default() });
        let run =
            RungResult { wall_s: 10.0, rows: 8, cpu_s: Some(1.0), io, ..RungResult::default() };
        let found = |run: &RungResult| spent(run, disk).map(|it| (it.bytes_s, it.syncs_s));
        assert_eq!(found(&run), Some((2.0, 0.0)));
        assert_eq!(found(&RungResult { syncs: Some(6_000), ..run.clone() }), Some((2.0, 6.0)));
        let stages_s = [("sync".to_owned(), 3.0)].into();
        assert_eq!(found(&RungResult { stages_s, ..run.clone() }), Some((2.0, 3.0)));
        // Nothing is known of the processor.
        assert_eq!(bound_by(&[RungResult { cpu_s: None, ..run.clone() }], disk), None);
        let bound = bound_by(&[RungResult { syncs: Some(6_000), ..run }], disk);
        assert_eq!(bound, Some(BoundBy::Sync));
    }

    #[test]
    fn a_sample_is_judged_by_what_it_took() {
        let scaled = RungResult {
            wall_s: 100.0,
            rows: 1_000,
            sample_rows: Some(10),
            cpu_s: Some(0.9),
            ..RungResult::default()
        };
        let spent = spent(&scaled, DiskSpeed::default()).expect("it is known");
        assert_eq!((spent.wall_s, spent.cpu_s), (1.0, 0.9));
    }
}
