//! Counters to figures for each transaction, and SQLite's memory to those of a
//! report.
//!
//! Must never: leave out a call that was counted.

use leafpress::memory::MemoryStats;
use leafpress::vfs::count::{IoStats, OpIo};

use crate::report::{CallIo, FileIo, Memory};

/// Counters, on average of this many transactions.
pub(super) fn per_transaction(counted: &IoStats, transactions: u64) -> FileIo {
    let share = |number: u64| number as f64 / transactions.max(1) as f64;
    let of_call = |call: &OpIo| CallIo {
        calls: share(call.calls),
        bytes: share(call.bytes),
        us: share(call.latency.total.as_nanos() as u64) / 1e3,
    };
    let mut figures = FileIo { transactions, ..FileIo::default() };
    for (file, operations) in counted.kinds() {
        for (name, call) in operations.operations().filter(|(_, call)| call.calls > 0) {
            let call = of_call(call);
            figures.calls += call.calls;
            match name {
                "read" => figures.read_bytes += call.bytes,
                "write" | "write_atomic" => figures.written_bytes += call.bytes,
                _ => {}
            }
            figures.files.entry(file.to_owned()).or_default().insert(name.to_owned(), call);
        }
    }
    figures
}

/// SQLite's memory, in the words of the report.
pub(super) fn memory(stats: &MemoryStats) -> Memory {
    let MemoryStats { process, connection, .. } = stats;
    Memory {
        used_bytes: process.used_bytes,
        used_bytes_max: process.used_bytes_max,
        allocation_bytes_max: process.largest_allocation_bytes,
        lookaside_slots_max: connection.lookaside_slots_used_max,
        page_cache_bytes: connection.page_cache_bytes,
        schema_bytes: connection.schema_bytes,
        statement_bytes: connection.statements_bytes,
    }
}
