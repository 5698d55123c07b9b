//! Figures of one rung's run, as its process answers them.
//!
//! Below every family of experiments. Must never: know any of them.

use std::collections::BTreeMap;
use std::time::Instant;

use leafpress::load::Report;
use serde::{Deserialize, Serialize};

use crate::error::Result;
use crate::report::{Course, Io, Latency, Memory, Processes};
use crate::usage::Usage;

/// Answer of a rung's process: figures of its work.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct RungResult {
    /// Wall seconds of the work.
    pub(crate) wall_s: f64,
    /// Rows loaded.
    pub(crate) rows: u64,
    /// Processor seconds of the work.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) cpu_s: Option<f64>,
    /// Peak resident memory of the process up to the end of the work.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) peak_mb: Option<f64>,
    /// Reading and writing of the work.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) io: Option<Io>,
    /// Seconds per stage, where the work reports them.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) stages_s: BTreeMap<String, f64>,
    /// Times of the calls, where there are calls.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) latency_us: Option<Latency>,
    /// Largest size of the WAL that was seen, where it was watched.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) wal_bytes_max: Option<u64>,
    /// Course over time, where it is kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) series: Option<Course>,
    /// Changes that were made besides, outside of the time: to warm up, to count.
    #[serde(default)]
    pub(crate) changes_besides: u64,
    /// Leafpress's own words on how it writes pages, where that is compared.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) page_writes: Option<String>,
    /// Reason why this machine cannot show what the rung is for. The rung ran all the same, as
    /// its users would run it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) not_given: Option<String>,
    /// SQLite's use of memory, where that is compared.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) memory: Option<Memory>,
    /// Jobs that waited in the queue before the first call.
    #[serde(default)]
    pub(crate) jobs_waiting_before: u64,
    /// From the call that caused each wake-up, where these are measured; `latency_us` is
    /// from its answer on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) from_call_us: Option<Latency>,
    /// Moments at which a waiter had the answer of each claim, on the clock of all processes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) claimed_at_ns: Vec<i64>,
    /// Rows that the work has in full, where only some of them were done; the report scales
    /// the time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) rows_in_full: Option<u64>,
    /// Rows that were done, once the time is scaled.
    #[serde(skip)]
    pub(crate) sample_rows: Option<u64>,
    /// Seconds of each batch, where the work comes in batches.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) batches_s: Vec<f64>,
    /// Microseconds of each cycle, where the work comes in cycles.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) cycles_us: Vec<f64>,
    /// Cycles, from 0, in which a checkpoint moved pages.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) checkpoints: Vec<usize>,
    /// Seconds of `wall_s` outside of cycles and batches.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) outside_s: Option<f64>,
    /// Figures of many processes together, where many work.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) processes: Option<Processes>,
    /// Figures of one of these processes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) member: Option<MemberWork>,
    /// Syncs of the work that a transaction waited for, where they are counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) syncs: Option<u64>,
    /// Work of the simulated disk, where there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) played: Option<SimulatedWork>,
}

/// Work of a simulated disk in a rung's process, to judge how well it was simulated.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct SimulatedWork {
    /// Syncs that had something to do.
    pub(crate) syncs: u64,
    /// Those of them for which the real disk took longer than the simulated one.
    pub(crate) late_syncs: u64,
    /// Seconds that the simulated disk was busy.
    pub(crate) busy_s: f64,
    /// Seconds by which the real disk was too slow.
    pub(crate) late_s: f64,
}

impl SimulatedWork {
    /// Work of both.
    pub(crate) fn plus(self, other: Self) -> Self {
        Self {
            syncs: self.syncs + other.syncs,
            late_syncs: self.late_syncs + other.late_syncs,
            busy_s: self.busy_s + other.busy_s,
            late_s: self.late_s + other.late_s,
        }
    }
}

/// Figures of one of many processes, which only the process that started it needs.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct MemberWork {
    /// Time of each call, in tenths of a microsecond.
    pub(crate) took_tenths_us: Vec<u32>,
    /// Attempts that were refused.
    pub(crate) refused: u64,
    /// Syncs of the log that its Writer made, where Writers share.
    pub(crate) syncs: Option<u64>,
    /// Sum of the numbers of the jobs that were pushed, and of those claimed.
    pub(crate) jobs_sums: [u64; 2],
}

impl RungResult {
    /// Times work that closes its database itself and answers how many of `rows` rows it has
    /// done. The work gets the moment at which its time began.
    pub(crate) fn timed(rows: u64, work: impl FnOnce(Instant) -> Result<u64>) -> Result<Self> {
        let before = Usage::now();
        let start = Instant::now();
        let rows_done = work(start)?;
        let wall_s = start.elapsed().as_secs_f64();
        let used = Usage::now().since(before);
        let rows_in_full = (rows_done < rows).then_some(rows);
        Ok(Self { wall_s, rows: rows_done, rows_in_full, ..Self::of(used) })
    }

    /// Result so far of work that used so much.
    pub(crate) fn of(used: Usage) -> Self {
        Self { cpu_s: used.cpu_s, peak_mb: used.peak_mb, io: used.io, ..Self::default() }
    }

    /// Result of work in batches of this many seconds, with the rest of its time outside of them.
    pub(crate) fn with_batches(self, batches_s: Vec<f64>) -> Self {
        let outside_s = Some(self.wall_s - batches_s.iter().sum::<f64>());
        Self { batches_s, outside_s, ..self }
    }

    /// Result for all rows, where only some of them were done.
    pub(crate) fn scaled(self) -> Self {
        let rows_done = self.rows;
        match self.rows_in_full {
            Some(rows) if rows_done > 0 && rows_done < rows => Self {
                wall_s: self.wall_s * rows as f64 / rows_done as f64,
                rows,
                sample_rows: Some(rows_done),
                ..self
            },
            _ => self,
        }
    }
}

/// Seconds per stage of a load, by the stage's name.
pub(crate) fn stages_of(report: &Report) -> BTreeMap<String, f64> {
    report.stages.iter().map(|stage| (stage.name.to_owned(), stage.seconds)).collect()
}
