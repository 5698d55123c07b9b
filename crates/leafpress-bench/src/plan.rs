//! Which rungs are compared with which: the groups of each experiment, how many
//! rows each has, and what room on the disk it takes.
//!
//! Stands between what was asked for (`experiment.rs`) and what runs (`group.rs`).
//! Does nothing itself.

use crate::commits::plan::{checkpoint_groups, writer_groups};
use crate::error::{Error, Result};
use crate::experiment::{BenchOptions, Experiment};
use crate::rung::{RungKind, RungResult, Work};

/// What `only` can name, besides the ratios.
pub const BILLION: &str = "billion";

pub(crate) const BILLION_ROWS: u64 = 1_000_000_000;

/// Memory for the sort that has to spill, for each row: 512 MiB for 50 million,
/// a twelfth of what the rows take.
const SPILL_MEMORY_BYTES: u64 = 512 << 20;
const SPILL_MEMORY_ROWS: u64 = 50_000_000;
const SPILL_MEMORY_BYTES_MIN: u64 = 1 << 20;

/// The spill has so many times the keys of the other groups.
const SPILL_FACTOR: u64 = 5;

/// Rows are appended to a table that has so many times as many.
pub(crate) const APPEND_FACTOR: u64 = 10;

/// Rungs that do the same work and are compared with one another.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Group {
    pub(crate) work: Work,
    /// Rows that each rung adds; 0 where the CSV file decides. (For an index,
    /// the rows that it is made of.)
    pub(crate) rows: u64,
    /// What the sort may take, where it is limited.
    pub(crate) memory_bytes: Option<u64>,
    pub(crate) kinds: Vec<RungKind>,
    pub(crate) ratios: Vec<RatioPlan>,
}

/// Two rungs of a group that are compared.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RatioPlan {
    pub(crate) name: String,
    /// Our rung, as its position in the group's `kinds`.
    pub(crate) ours: usize,
    /// The rival's.
    pub(crate) rival: usize,
    /// By what.
    pub(crate) measure: Measure,
}

/// What is compared of two runs: the smaller, the better.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Measure {
    /// The time for all the work, which is the same for both.
    Wall,
    /// The time for a row, where both may have done a different number.
    Rate,
    /// The slowest call.
    Worst,
    /// What 999 of 1000 calls did not exceed.
    P999,
}

impl Measure {
    /// The figure of a run; `None` where the work has none.
    pub(crate) fn of(self, result: &RungResult) -> Option<f64> {
        match self {
            Self::Wall => Some(result.wall_s),
            Self::Rate => (result.rows > 0).then(|| result.wall_s / result.rows as f64),
            Self::Worst => result.latency_us.map(|latency| latency.max),
            Self::P999 => result.latency_us.map(|latency| latency.p999),
        }
    }
}

fn group(
    work: Work,
    rows: u64,
    kinds: &[RungKind],
    ratios: &[(&'static str, usize, usize)],
) -> Group {
    let ratio = |(name, ours, rival): &(&str, usize, usize)| RatioPlan {
        name: (*name).to_owned(),
        ours: *ours,
        rival: *rival,
        measure: Measure::Wall,
    };
    let ratios = ratios.iter().map(ratio).collect();
    Group { work, rows, memory_bytes: None, kinds: kinds.to_vec(), ratios }
}

fn csv_group() -> Group {
    use RungKind::{CsvBatchedSql, CsvLeafpress, CsvSql, CsvTypedLeafpress};
    group(
        Work::Csv,
        0,
        &[CsvSql, CsvLeafpress, CsvTypedLeafpress, CsvBatchedSql],
        &[
            ("csv_vs_sql", 1, 0),
            ("csv_typed_vs_sql", 2, 0),
            ("csv_vs_batched_sql", 1, 3),
            ("csv_typed_vs_batched_sql", 2, 3),
        ],
    )
}

fn csv_index_group() -> Group {
    let kinds = [RungKind::CsvIndexSql, RungKind::CsvIndexLeafpress];
    group(Work::CsvIndex, 0, &kinds, &[("csv_index_vs_sql", 1, 0)])
}

pub(crate) fn users_group(rows: u64) -> Group {
    use RungKind::{UsersIteratorLeafpress, UsersLeafpress, UsersSql};
    let ratios = [("rows_vs_sql", 1, 0), ("rows_iterator_vs_sql", 2, 0)];
    group(Work::Users, rows, &[UsersSql, UsersLeafpress, UsersIteratorLeafpress], &ratios)
}

pub(crate) fn billion_group(quick: bool) -> Group {
    let rows = if quick { 1_000_000 } else { BILLION_ROWS };
    group(Work::Users, rows, &[RungKind::UsersLeafpress], &[])
}

fn attach_group(rows: u64) -> Group {
    use RungKind::{AttachBatchedSql, AttachLeafpress, AttachSql};
    let ratios = [("attach_vs_insert", 1, 0), ("attach_vs_batched_insert", 1, 2)];
    group(Work::Attach, rows, &[AttachSql, AttachLeafpress, AttachBatchedSql], &ratios)
}

fn keys_group(rows: u64) -> Group {
    use RungKind::{KeysLeafpress, KeysPresortedSql, KeysSql};
    let ratios = [("keys_vs_sql", 1, 0), ("keys_vs_presorted", 1, 2)];
    group(Work::Keys, rows, &[KeysSql, KeysLeafpress, KeysPresortedSql], &ratios)
}

fn spill_group(rows: u64) -> Group {
    let memory_bytes = (rows * (SPILL_MEMORY_BYTES / 1024) / SPILL_MEMORY_ROWS) * 1024;
    let kinds = [RungKind::KeysBatchedSql, RungKind::KeysSpilledLeafpress];
    let group = group(Work::Keys, rows, &kinds, &[("spill_vs_batches", 1, 0)]);
    Group { memory_bytes: Some(memory_bytes.max(SPILL_MEMORY_BYTES_MIN)), ..group }
}

fn index_group(rows: u64) -> Group {
    use RungKind::{IndexDurableSql, IndexLeafpress, IndexSql};
    let ratios = [("index_vs_sql", 1, 0), ("index_vs_durable_sql", 1, 2)];
    group(Work::Index, rows, &[IndexSql, IndexLeafpress, IndexDurableSql], &ratios)
}

fn append_group(rows: u64) -> Group {
    let kinds = [RungKind::AppendSql, RungKind::AppendLeafpress];
    group(Work::Append, rows, &kinds, &[("append_vs_insert", 1, 0)])
}

/// All groups of an experiment, except what runs only if it is named.
fn groups_of(experiment: Experiment, options: &BenchOptions) -> Vec<Group> {
    let keys = options.keys;
    match experiment {
        Experiment::Load => {
            let attached = options.rows.iter().min().map(|rows| attach_group(*rows));
            let users = options.rows.iter().map(|rows| users_group(*rows));
            [csv_group(), csv_index_group()].into_iter().chain(users).chain(attached).collect()
        }
        Experiment::Presort => vec![
            keys_group(keys),
            spill_group(keys.saturating_mul(SPILL_FACTOR)),
            index_group(keys.saturating_add(keys / 10)),
            append_group((keys / APPEND_FACTOR).max(1)),
        ],
        Experiment::Writer => writer_groups(options.quick),
        Experiment::Checkpoint => checkpoint_groups(options.commits),
    }
}

/// The groups that were asked for.
pub(crate) fn plan(options: &BenchOptions) -> Result<Vec<Group>> {
    let experiments = options.distinct_experiments();
    let mut groups: Vec<Group> =
        experiments.iter().flat_map(|experiment| groups_of(*experiment, options)).collect();
    let ratios = groups.iter().flat_map(|group| &group.ratios);
    let mut names: Vec<String> = ratios.map(|ratio| ratio.name.clone()).collect();
    if experiments.contains(&Experiment::Load) {
        names.push(BILLION.to_owned());
    }
    if let Some(unknown) = options.only.iter().find(|name| !names.contains(name)) {
        let mut seen = std::collections::BTreeSet::new();
        names.retain(|name| seen.insert(name.clone()));
        return Err(Error::Usage(format!(
            "there is no {unknown} in the experiment {}; there are {}",
            options.experiment_names(),
            names.join(", ")
        )));
    }
    if !options.only.is_empty() {
        groups.retain_mut(|group| group.keep_only(&options.only));
    }
    if options.only.iter().any(|name| name == BILLION) {
        groups.push(billion_group(options.quick));
    }
    Ok(groups)
}

impl Group {
    /// Drops the ratios that were not asked for, and the rungs that only they
    /// need; `false` if nothing is left.
    fn keep_only(&mut self, only: &[String]) -> bool {
        self.ratios.retain(|ratio| only.contains(&ratio.name));
        let needed = |index: usize| {
            self.ratios.iter().any(|ratio| [ratio.ours, ratio.rival].contains(&index))
        };
        let kept: Vec<usize> = (0..self.kinds.len()).filter(|index| needed(*index)).collect();
        let moved = |old: usize| kept.iter().position(|index| *index == old).unwrap_or(old);
        for ratio in &mut self.ratios {
            (ratio.ours, ratio.rival) = (moved(ratio.ours), moved(ratio.rival));
        }
        self.kinds = kept.iter().map(|index| self.kinds[*index]).collect();
        !self.ratios.is_empty()
    }

    /// What stands in the table beforehand.
    pub(crate) fn rows_before(&self) -> u64 {
        if self.work == Work::Append { self.rows.saturating_mul(APPEND_FACTOR) } else { 0 }
    }

    /// Whether the CSV file of the experiment is what its rungs read.
    pub(crate) fn reads_csv(&self) -> bool {
        matches!(self.work, Work::Csv | Work::CsvIndex)
    }

    /// What its files take on the disk at most, rounded up. For each row:
    ///
    /// | work | bytes a row |
    /// |---|---|
    /// | users | 17 in the table; attached, as much again in WAL and temporary file |
    /// | keys | 130 in the table, 190 where SQL splits its pages, 130 spilled |
    /// | index | 90 of CSV, 75 in the table, twice; 30 in the index, as much in its sort |
    /// | append | 130 in the table, twice, ten times as many; a WAL of all its pages |
    /// | commits | as each rung says |
    pub(crate) fn room_mb(&self, csv_bytes: u64) -> u64 {
        const ROUNDING_MB: u64 = 10;
        let (amount, room) = match self.work {
            Work::Csv => (csv_bytes, 2),
            Work::CsvIndex => (csv_bytes, 3),
            Work::Users => (self.rows, 20),
            Work::Attach => (self.rows, 80),
            Work::Keys => (self.rows, 300),
            Work::Index => (self.rows, 320),
            Work::Append => (self.rows_before(), 600),
            Work::Commits => return self.kinds.iter().map(rung_room_mb).max().unwrap_or(0),
        };
        amount.saturating_mul(room) / 1_000_000 + ROUNDING_MB
    }
}

/// What a rung of commits takes on the disk at most.
fn rung_room_mb(kind: &RungKind) -> u64 {
    if let RungKind::Commits(rung) = kind { rung.room_mb() } else { 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn planned(experiments: &[Experiment], only: &[&str]) -> Result<Vec<Group>> {
        let only = only.iter().map(|name| (*name).to_owned()).collect();
        plan(&BenchOptions { experiments: experiments.to_vec(), only, ..BenchOptions::default() })
    }

    #[test]
    fn only_keeps_the_rungs_that_its_ratios_need() {
        let only = |names: &[&str]| planned(&[Experiment::Load], names);
        let groups = only(&["rows_iterator_vs_sql"]).expect("it is known");
        assert_eq!(groups.len(), 2, "one for each number of rows");
        assert_eq!(groups[0].kinds, [RungKind::UsersSql, RungKind::UsersIteratorLeafpress]);
        let ratio = &groups[0].ratios[0];
        assert_eq!((ratio.name.as_str(), ratio.ours, ratio.rival), ("rows_iterator_vs_sql", 1, 0));
        assert_eq!(groups[0].ratios.len(), 1);
        let billion = only(&[BILLION]).expect("it is known");
        assert_eq!(billion.len(), 1);
        assert_eq!(billion[0].kinds, [RungKind::UsersLeafpress]);
        assert!(matches!(only(&["csv_vs_sqll"]), Err(Error::Usage(_))));
        assert!(matches!(only(&["keys_vs_sql"]), Err(Error::Usage(_))), "another experiment's");
    }

    #[test]
    fn the_sizes_are_those_of_the_ratios_meaning() {
        let groups = planned(&[Experiment::Load, Experiment::Presort], &[]).expect("a plan");
        let of = |name: &str| {
            groups.iter().find(|group| group.ratios.iter().any(|it| it.name == name)).expect(name)
        };
        assert_eq!(of("keys_vs_sql").rows, 10_000_000);
        assert_eq!(of("keys_vs_presorted"), of("keys_vs_sql"));
        assert_eq!(of("spill_vs_batches").rows, 50_000_000);
        assert_eq!(of("spill_vs_batches").memory_bytes, Some(512 << 20));
        assert_eq!(of("index_vs_sql").rows, 11_000_000);
        assert_eq!(of("attach_vs_insert").rows, 10_000_000);
        assert_eq!(of("append_vs_insert").rows, 1_000_000);
        assert_eq!(of("append_vs_insert").rows_before(), 10_000_000);
    }

    #[test]
    fn every_ratio_compares_ours_with_a_rival() {
        let groups = planned(&ALL, &[]).expect("a plan");
        for group in &groups {
            for RatioPlan { name, ours, rival, .. } in &group.ratios {
                let names = [ours, rival].map(|index| group.kinds[*index].name());
                assert!(names[0].contains("leafpress"), "{name}: {names:?}");
                assert!(names[1].contains("SQL"), "{name}: {names:?}");
            }
        }
    }

    const ALL: [Experiment; 4] =
        [Experiment::Load, Experiment::Presort, Experiment::Writer, Experiment::Checkpoint];

    #[test]
    fn no_two_rungs_of_commits_and_no_two_ratios_share_a_name() {
        let groups = planned(&ALL[2..], &[]).expect("a plan");
        let mut names = std::collections::BTreeSet::new();
        for group in &groups {
            for kind in &group.kinds {
                assert!(names.insert(kind.name().into_owned()), "{}", kind.name());
            }
            for ratio in &group.ratios {
                assert!(names.insert(ratio.name.clone()), "{}", ratio.name);
            }
        }
        for name in [
            "blocking64",
            "pipelined512",
            "pipelined_vs_one_transaction",
            "alone",
            "worst_commit",
            "p999_commit",
            "worst_commit_slow",
        ] {
            assert!(names.contains(name), "{name}");
        }
    }

    #[test]
    fn only_ratios_of_commits_too() {
        let groups = planned(&ALL[2..], &["blocking64", "worst_commit_slow"]).expect("a plan");
        let names: Vec<_> = groups.iter().flat_map(|it| &it.kinds).map(|it| it.name()).collect();
        assert_eq!(
            names,
            [
                "durable, SQL, one commit a call",
                "durable, leafpress, 64 blocking",
                "slow syncs, SQL, autocheckpoint",
                "slow syncs, leafpress, 1 blocking",
            ]
        );
    }
}
