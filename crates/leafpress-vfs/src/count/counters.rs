//! The counters of calls: plain atomics, by kind of file and operation.
//!
//! Threads that count in the same place wait for each other's cache lines, which costs
//! more than counting does. So there are several *rows* of counters to a kind, and a
//! file takes one that no other file uses, if there is one.
//!
//! Invariants:
//! 1. A count stays in its row: the total is the sum of all rows.
//! 2. A row is used by as many open files as there are references to it beside the one
//!    in `Rows`. Two openings at the same time may take the same row; then they count
//!    together: more slowly, but just as exactly.
//!
//! Must never: lock, or allocate on the way of a call but that which opens a file.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use super::latency::LatencyCounter;
use super::stats::{FileIo, IoStats, Kind, OpIo, Operation};

/// Counters of calls. Clones count together.
#[derive(Debug, Clone, Default)]
pub struct IoCounters(Arc<[Rows; Kind::ALL.len()]>);

/// More connections than this that are busy at once are rare; a row takes 11 KB.
const ROWS_MAX: usize = 8;

/// The rows of one kind, each made when all before it are in use.
type Rows = [OnceLock<Arc<KindCounters>>; ROWS_MAX];

impl IoCounters {
    /// Nothing counted yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// The numbers counted up to now.
    pub fn snapshot(&self) -> IoStats {
        IoStats::build(|kind| {
            let rows = self.0[kind as usize].iter().filter_map(OnceLock::get);
            rows.fold(FileIo::default(), |sum, row| sum.plus(&row.snapshot()))
        })
    }

    /// The row for calls that belong to no open file, and for files that only the holder of a lock
    /// uses: these take no row of their own.
    pub(super) fn shared(&self, kind: Kind) -> &Arc<KindCounters> {
        self.0[kind as usize][0].get_or_init(Arc::default)
    }

    /// For a file that is being opened, to be kept as long as it is open: the first row
    /// that no file uses, or else the one that the fewest do.
    pub(super) fn of_file(&self, kind: Kind) -> Arc<KindCounters> {
        let rows = || self.0[kind as usize].iter().map(|row| row.get_or_init(Arc::default));
        let unused = rows().find(|row| Arc::strong_count(row) == 1);
        let row = unused.or_else(|| rows().min_by_key(|row| Arc::strong_count(row)));
        Arc::clone(row.unwrap_or_else(|| self.shared(kind)))
    }
}

/// One row: the counters of one kind of files.
#[derive(Debug, Default)]
pub(super) struct KindCounters([OperationCounters; Operation::ALL.len()]);

/// The number of calls is not kept: it is the sum of the timed and the untimed ones.
#[derive(Debug, Default)]
struct OperationCounters {
    latency: LatencyCounter,
    bytes: AtomicU64,
    untimed_calls: AtomicU64,
}

impl KindCounters {
    /// Makes a call, and counts it with the time that it took.
    #[inline]
    pub(super) fn timed<T>(&self, operation: Operation, call: impl FnOnce() -> T) -> T {
        let began = Instant::now();
        let answer = call();
        let took = began.elapsed();
        let ns = took.as_secs().saturating_mul(1_000_000_000) + u64::from(took.subsec_nanos());
        self.0[operation as usize].latency.record(ns);
        answer
    }

    /// Counts a call that was made inside of another, or is too short to be timed.
    #[inline]
    pub(super) fn untimed(&self, operation: Operation) {
        self.0[operation as usize].untimed_calls.fetch_add(1, Ordering::Relaxed);
    }

    #[inline]
    pub(super) fn moved(&self, operation: Operation, bytes: usize) {
        self.0[operation as usize].bytes.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    fn snapshot(&self) -> FileIo {
        FileIo::build(|operation| {
            let counters = &self.0[operation as usize];
            let latency = counters.latency.snapshot();
            let untimed_calls = counters.untimed_calls.load(Ordering::Relaxed);
            OpIo {
                calls: latency.calls() + untimed_calls,
                bytes: counters.bytes.load(Ordering::Relaxed),
                latency,
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_that_are_open_together_count_apart_as_long_as_there_are_rows() {
        let counters = IoCounters::new();
        let files: Vec<_> = (0..ROWS_MAX).map(|_| counters.of_file(Kind::Wal)).collect();
        for (number, file) in files.iter().enumerate() {
            assert!(files[..number].iter().all(|other| !Arc::ptr_eq(file, other)), "{number}");
        }
        let more: Vec<_> = (0..2 * ROWS_MAX).map(|_| counters.of_file(Kind::Wal)).collect();
        for file in &files {
            assert_eq!(Arc::strong_count(file), 4, "this one, two more, and that of all");
        }
        for file in files.iter().chain(&more) {
            file.timed(Operation::Read, || ());
        }
        assert_eq!(counters.snapshot().wal.read.calls, 3 * ROWS_MAX as u64);
    }

    #[test]
    fn files_that_are_open_one_after_the_other_take_the_same_row() {
        let counters = IoCounters::new();
        for _ in 0..20 {
            counters.of_file(Kind::Journal).untimed(Operation::Map);
        }
        assert_eq!(counters.0[Kind::Journal as usize].iter().filter_map(OnceLock::get).count(), 1);
        assert_eq!(counters.snapshot().journal.map.calls, 20);
    }
}
