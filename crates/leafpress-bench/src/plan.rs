//! Which rungs are compared with which: the groups of each experiment, and how many
//! rows each has.
//!
//! Stands between what was asked for (`options.rs`) and what runs (`group_run.rs`).
//! Does nothing itself.

use crate::atomic::plan::atomic_groups;
use crate::batches::batches_groups;
use crate::commits::plan::{checkpoint_groups, writer_groups};
use crate::cycles::cycles_groups;
use crate::error::{Error, Result};
use crate::group::{APPEND_FACTOR, Group, Measure, RatioPlan, size_name};
use crate::ladder::ladder_groups;
use crate::options::{BenchOptions, Experiment};
use crate::queue::plan::{inserts_groups, queue_groups};
use crate::rung::{RungKind, Work};
use crate::tour;

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

fn group(
    work: Work,
    rows: u64,
    kinds: &[RungKind],
    ratios: &[(&'static str, usize, usize)],
) -> Group {
    let ratio = |(name, ours, rival): &(&str, usize, usize)| RatioPlan {
        name: (*name).to_owned(),
        ours: *ours,
        rivals: vec![*rival],
        measure: Measure::Wall,
    };
    let ratios = ratios.iter().map(ratio).collect();
    Group {
        work,
        rows,
        memory_bytes: None,
        kinds: kinds.to_vec(),
        ratios,
        suffix: None,
        experiment: Experiment::Load,
    }
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
    let kinds = [UsersSql, UsersLeafpress, UsersIteratorLeafpress];
    Group { suffix: Some(size_name(rows)), ..group(Work::Users, rows, &kinds, &ratios) }
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
        Experiment::Ladder => ladder_groups(options),
        Experiment::Cycles => cycles_groups(options),
        Experiment::Load => {
            let attached = options.rows.iter().min().map(|rows| attach_group(*rows));
            let users = options.rows.iter().map(|rows| users_group(*rows));
            [csv_group(), csv_index_group()].into_iter().chain(users).chain(attached).collect()
        }
        Experiment::Presort => {
            let sorted = [
                keys_group(keys),
                spill_group(keys.saturating_mul(SPILL_FACTOR)),
                index_group(keys.saturating_add(keys / 10)),
                append_group((keys / APPEND_FACTOR).max(1)),
            ];
            batches_groups(options).into_iter().chain(sorted).collect()
        }
        Experiment::Writer => writer_groups(options.is_quick()),
        Experiment::Checkpoint => checkpoint_groups(options.commits),
        Experiment::Atomic => atomic_groups(options),
        Experiment::Queue => queue_groups(options),
        Experiment::QueueInserts => inserts_groups(options),
    }
}

/// The same, each with the name of its experiment.
fn named(experiment: Experiment, options: &BenchOptions) -> Vec<Group> {
    let groups = groups_of(experiment, options).into_iter();
    groups.map(|group| Group { experiment, ..group }).collect()
}

/// The groups that were asked for.
pub(crate) fn plan(options: &BenchOptions) -> Result<Vec<Group>> {
    let experiments = options.distinct_experiments();
    let mut groups: Vec<Group> =
        experiments.iter().flat_map(|experiment| named(*experiment, options)).collect();
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
    if options.is_tour() {
        groups.retain_mut(tour::keeps);
    }
    if !options.only.is_empty() {
        groups.retain_mut(|group| group.keep_only(&options.only));
    }
    if options.only.iter().any(|name| name == BILLION) {
        groups.push(billion_group(options.is_quick()));
    }
    Ok(groups)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::AtomicOptions;

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
        assert_eq!((ratio.name.as_str(), ratio.ours), ("rows_iterator_vs_sql", 1));
        assert_eq!(ratio.rivals, [0]);
        assert_eq!(groups[0].ratios.len(), 1);
        let billion = only(&[BILLION]).expect("it is known");
        assert_eq!(billion.len(), 1);
        assert_eq!(billion[0].kinds, [RungKind::UsersLeafpress]);
        assert!(matches!(only(&["csv_vs_sqll"]), Err(Error::Usage(_))));
        assert!(matches!(only(&["keys_vs_sql"]), Err(Error::Usage(_))), "another experiment's");
    }

    #[test]
    fn the_tour_has_something_of_every_experiment() {
        let groups = planned(&[], &[]).expect("a plan");
        for experiment in Experiment::ALL {
            let of_it: Vec<_> = groups.iter().filter(|it| it.experiment == experiment).collect();
            let whole = planned(&[experiment], &[]).expect("a plan");
            let rungs = |groups: &[&Group]| groups.iter().map(|it| it.kinds.len()).sum::<usize>();
            assert!(rungs(&of_it) <= rungs(&whole.iter().collect::<Vec<_>>()));
        }
        let names: Vec<String> = groups.iter().flat_map(Group::ratio_names).collect();
        assert!(names.iter().any(|name| name == "cycle64_vs_mutex"), "{names:?}");
        assert!(!names.iter().any(|name| name == "keys_vs_sql"), "{names:?}");
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
        let groups = planned(&Experiment::ALL, &[]).expect("a plan");
        for group in &groups {
            for RatioPlan { name, ours, rivals, .. } in &group.ratios {
                let is_of_itself = group.work == Work::QueueClaims;
                assert!(group.kinds[*ours].name().contains("leafpress"), "{name}");
                assert!(!rivals.is_empty(), "{name} has nobody beside it");
                for rival in rivals {
                    let rival = group.kinds[*rival].name();
                    let is_other = rival.contains("SQL") || rival.contains("polling");
                    assert!(is_other || is_of_itself, "{name}: {rival}");
                }
            }
        }
    }

    #[test]
    fn no_two_rungs_of_commits_and_no_two_ratios_share_a_name() {
        let groups = planned(&Experiment::ALL[5..], &[]).expect("a plan");
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
    fn every_setting_in_every_place_has_a_name_of_its_own() {
        let experiments = vec![Experiment::Atomic];
        let options = BenchOptions { experiments, ..BenchOptions::default() };
        let count = |full, xfs_loop, assume| {
            let atomic = AtomicOptions { transactions: 9, full, xfs_loop, assume };
            let options = BenchOptions { atomic, ..options.clone() };
            let groups = plan(&options).expect("a plan");
            let mut names = std::collections::BTreeSet::new();
            for group in &groups {
                for kind in &group.kinds {
                    assert!(names.insert(kind.name().into_owned()), "{}", kind.name());
                }
                for name in group.ratio_names() {
                    assert!(names.insert(name.clone()), "{name}");
                }
                let assumed = group.kinds.iter().filter(|kind| kind.name().contains("assumed"));
                let of_pages = usize::from(group.work == Work::Atomic) * 2;
                assert_eq!(assumed.count(), if assume { of_pages } else { 0 });
            }
            groups.iter().map(|group| group.kinds.len()).sum::<usize>()
        };
        // Four groups a place, and three rungs that see what counting costs.
        assert_eq!(count(false, false, false), 4 * 11 + 3);
        assert_eq!(count(true, true, true), 8 * (3 + 18) + 3);
    }

    #[test]
    fn only_ratios_of_commits_too() {
        let groups =
            planned(&Experiment::ALL[5..], &["blocking64", "worst_commit_slow"]).expect("a plan");
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
