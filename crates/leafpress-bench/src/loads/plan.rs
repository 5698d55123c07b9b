//! Groups of loads that are compared: those of "load", and those of "presort" in which rows are
//! sorted as a whole.

use super::rung::{APPEND_FACTOR, Load, LoadRung};
use crate::group::{Group, Measure, RatioPlan};
use crate::numbers::size_name;
use crate::options::Experiment;
use crate::rung::kind::RungKind;

/// Rows of the group that runs only if it is named.
pub(crate) const BILLION_ROWS: u64 = 1_000_000_000;

/// Memory for the sort that has to spill, for each row: 512 MiB for 50 million, a twelfth of the
/// rows' own size.
const SPILL_MEMORY_BYTES: u64 = 512 << 20;
const SPILL_MEMORY_ROWS: u64 = 50_000_000;
const SPILL_MEMORY_BYTES_MIN: u64 = 1 << 20;

/// Rows of the CSV files that whole processes load.
const SMALL_ROWS: [u64; 3] = [10, 1_000, 100_000];

/// The spill has this many times the keys of the other groups.
const SPILL_FACTOR: u64 = 5;

/// Groups of "load".
pub(crate) fn load_groups(rows: &[u64]) -> Vec<Group> {
    let attached = rows.iter().min().map(|rows| attach_group(*rows));
    let users = rows.iter().map(|rows| users_group(*rows));
    let small = SMALL_ROWS.map(small_group);
    let files = [csv_group(), csv_index_group(), ndjson_group(), parquet_group()];
    files.into_iter().chain(small).chain(users).chain(attached).collect()
}

/// Groups of "presort" beside the batches.
pub(crate) fn sorted_groups(keys: u64) -> Vec<Group> {
    vec![
        keys_group(keys),
        spill_group(keys.saturating_mul(SPILL_FACTOR)),
        index_group(keys.saturating_add(keys / 10)),
        append_group((keys / APPEND_FACTOR).max(1)),
    ]
}

/// A group of loads, with its ratios: the name, our rung and the rival's, by their positions.
fn group(
    experiment: Experiment,
    rows: u64,
    loads: &[Load],
    ratios: &[(&str, usize, usize)],
) -> Group {
    let kind = |by: &Load| RungKind::Load(LoadRung { by: *by, rows, memory_bytes: None });
    let ratio = |(name, ours, rival): &(&str, usize, usize)| {
        RatioPlan::new(*name, *ours, &[*rival], Measure::Wall)
    };
    Group {
        kinds: loads.iter().map(kind).collect(),
        ratios: ratios.iter().map(ratio).collect(),
        ..Group::new(experiment)
    }
}

fn csv_group() -> Group {
    use Load::{CsvBatchedSql, CsvDisk, CsvLeafpress, CsvSql, CsvTypedLeafpress};
    group(
        Experiment::Load,
        0,
        &[CsvSql, CsvLeafpress, CsvTypedLeafpress, CsvBatchedSql, CsvDisk],
        &[
            ("csv_vs_sql", 1, 0),
            ("csv_typed_vs_sql", 2, 0),
            ("csv_vs_batched_sql", 1, 3),
            ("csv_typed_vs_batched_sql", 2, 3),
            ("csv_vs_disk", 1, 4),
        ],
    )
}

fn csv_index_group() -> Group {
    group(
        Experiment::Load,
        0,
        &[Load::CsvIndexSql, Load::CsvIndexLeafpress],
        &[("csv_index_vs_sql", 1, 0)],
    )
}

fn ndjson_group() -> Group {
    use Load::{NdjsonBatchedSql, NdjsonLeafpress, NdjsonSql};
    let ratios = [("ndjson_vs_sql", 1, 0), ("ndjson_vs_batched_sql", 1, 2)];
    group(Experiment::Load, 0, &[NdjsonSql, NdjsonLeafpress, NdjsonBatchedSql], &ratios)
}

fn parquet_group() -> Group {
    use Load::{ParquetBatchedSql, ParquetLeafpress, ParquetSql};
    let ratios = [("parquet_vs_sql", 1, 0), ("parquet_vs_batched_sql", 1, 2)];
    group(Experiment::Load, 0, &[ParquetSql, ParquetLeafpress, ParquetBatchedSql], &ratios)
}

/// A CSV file of this many rows, by whole processes.
fn small_group(rows: u64) -> Group {
    let name = format!("load{rows}_vs_sqlite3");
    group(Experiment::Load, rows, &[Load::ProcessShell, Load::ProcessLeafpress], &[(&name, 1, 0)])
}

/// Users made in memory, this many.
pub(crate) fn users_group(rows: u64) -> Group {
    use Load::{UsersDisk, UsersIteratorLeafpress, UsersLeafpress, UsersSql};
    let ratios = [("rows_vs_sql", 1, 0), ("rows_iterator_vs_sql", 2, 0), ("rows_vs_disk", 1, 3)];
    let rungs = [UsersSql, UsersLeafpress, UsersIteratorLeafpress, UsersDisk];
    let group = group(Experiment::Load, rows, &rungs, &ratios);
    Group { suffix: Some(size_name(rows)), ..group }
}

/// A billion users, beside no rival; a million in a quick run.
pub(crate) fn billion_group(quick: bool) -> Group {
    let rows = if quick { 1_000_000 } else { BILLION_ROWS };
    group(Experiment::Load, rows, &[Load::UsersLeafpress], &[])
}

fn attach_group(rows: u64) -> Group {
    use Load::{AttachBatchedSql, AttachLeafpress, AttachSql};
    let ratios = [("attach_vs_insert", 1, 0), ("attach_vs_batched_insert", 1, 2)];
    group(Experiment::Load, rows, &[AttachSql, AttachLeafpress, AttachBatchedSql], &ratios)
}

fn keys_group(rows: u64) -> Group {
    use Load::{KeysDisk, KeysLeafpress, KeysPresortedSql, KeysSql};
    let ratios = [("keys_vs_sql", 1, 0), ("keys_vs_presorted", 1, 2), ("keys_vs_disk", 1, 3)];
    group(Experiment::Presort, rows, &[KeysSql, KeysLeafpress, KeysPresortedSql, KeysDisk], &ratios)
}

/// Keys whose sort has less memory than they take.
fn spill_group(rows: u64) -> Group {
    let memory_bytes = (rows * (SPILL_MEMORY_BYTES / 1024) / SPILL_MEMORY_ROWS) * 1024;
    let memory_bytes = Some(memory_bytes.max(SPILL_MEMORY_BYTES_MIN));
    let spilled = LoadRung { by: Load::KeysSpilledLeafpress, rows, memory_bytes };
    let mut group =
        group(Experiment::Presort, rows, &[Load::KeysBatchedSql], &[("spill_vs_batches", 1, 0)]);
    group.kinds.push(RungKind::Load(spilled));
    group
}

fn index_group(rows: u64) -> Group {
    use Load::{IndexDurableSql, IndexLeafpress, IndexSql};
    let ratios = [("index_vs_sql", 1, 0), ("index_vs_durable_sql", 1, 2)];
    group(Experiment::Presort, rows, &[IndexSql, IndexLeafpress, IndexDurableSql], &ratios)
}

fn append_group(rows: u64) -> Group {
    group(
        Experiment::Presort,
        rows,
        &[Load::AppendSql, Load::AppendLeafpress],
        &[("append_vs_insert", 1, 0)],
    )
}
