//! Groups of rungs for the experiments asked for.
//!
//! Stands between what was asked for (`options.rs`) and what runs (`group_run.rs`).
//! Does nothing itself.

use crate::atomic::atomic_groups;
use crate::batches::batches_groups;
use crate::commits::{checkpoint_groups, writer_groups};
use crate::cycles::cycles_groups;
use crate::error::{Error, Result};
use crate::group::Group;
use crate::ladder::ladder_groups;
use crate::loads::{billion_group, load_groups, sorted_groups};
use crate::options::{BenchOptions, Experiment};
use crate::overview;
use crate::queue::{inserts_groups, queue_groups};
use crate::shared::shared_groups;

/// Name of a group that `only` can name, besides the ratios.
pub const BILLION: &str = "billion";

/// All groups of an experiment, except what runs only if it is named.
fn groups_of(experiment: Experiment, options: &BenchOptions) -> Vec<Group> {
    match experiment {
        Experiment::Ladder => ladder_groups(options),
        Experiment::Cycles => cycles_groups(options),
        Experiment::Load => load_groups(&options.rows),
        Experiment::Presort => {
            batches_groups(options).into_iter().chain(sorted_groups(options.keys)).collect()
        }
        Experiment::Writer => writer_groups(options.is_quick()),
        Experiment::Checkpoint => checkpoint_groups(options.commits),
        Experiment::Atomic => atomic_groups(options),
        Experiment::Queue => queue_groups(options),
        Experiment::QueueInserts => inserts_groups(options),
        Experiment::Shared => shared_groups(options),
    }
}

/// The groups that were asked for.
pub(crate) fn plan(options: &BenchOptions) -> Result<Vec<Group>> {
    let experiments = options.distinct_experiments();
    let mut groups: Vec<Group> =
        experiments.iter().flat_map(|experiment| groups_of(*experiment, options)).collect();
    let has_billion = experiments.contains(&Experiment::Load);
    let is_ratio =
        |group: &Group, name: &str| group.ratios.iter().any(|it| group.is_meant(it, name));
    let is_known = |name: &str| {
        (has_billion && name == BILLION) || groups.iter().any(|group| is_ratio(group, name))
    };
    if let Some(unknown) = options.only.iter().find(|name| !is_known(name)) {
        let ratios = groups.iter().flat_map(|group| &group.ratios);
        let mut names: Vec<&str> = ratios.map(|ratio| ratio.name.as_str()).collect();
        names.extend(has_billion.then_some(BILLION));
        let mut seen = std::collections::BTreeSet::new();
        names.retain(|name| seen.insert(*name));
        return Err(Error::Usage(format!(
            "there is no {unknown} in the experiment {}; there are {}",
            options.experiment_names(),
            names.join(", ")
        )));
    }
    if options.is_overview() {
        groups.retain_mut(overview::keeps);
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
    use crate::group::RatioPlan;
    use crate::loads::{Load, LoadRung};
    use crate::options::{AtomicOptions, Size};
    use crate::rung::kind::RungKind;

    fn planned(experiments: &[Experiment], only: &[&str]) -> Result<Vec<Group>> {
        let only = only.iter().map(|name| (*name).to_owned()).collect();
        plan(&BenchOptions { experiments: experiments.to_vec(), only, ..BenchOptions::default() })
    }

    /// The experiments of commits and of jobs.
    const OF_COMMITS: [Experiment; 5] = [
        Experiment::Writer,
        Experiment::Checkpoint,
        Experiment::Atomic,
        Experiment::Queue,
        Experiment::Shared,
    ];

    #[test]
    fn each_group_is_of_the_experiment_that_it_is_made_for() {
        for experiment in Experiment::ALL {
            let groups = planned(&[experiment], &[]).expect("a plan");
            assert!(groups.iter().all(|group| group.experiment == experiment), "{experiment:?}");
        }
    }

    fn load_rungs(group: &Group) -> Vec<LoadRung> {
        let load = |kind: &RungKind| match kind {
            RungKind::Load(rung) => Some(*rung),
            _ => None,
        };
        group.kinds.iter().filter_map(load).collect()
    }

    fn loads(group: &Group) -> Vec<Load> {
        load_rungs(group).iter().map(|rung| rung.by).collect()
    }

    #[test]
    fn only_keeps_the_rungs_that_its_ratios_need() {
        let only = |names: &[&str]| planned(&[Experiment::Load], names);
        let groups = only(&["rows_iterator_vs_sql"]).expect("it is known");
        assert_eq!(groups.len(), 2, "one for each number of rows");
        assert_eq!(loads(&groups[0]), [Load::UsersSql, Load::UsersIteratorLeafpress]);
        let ratio = &groups[0].ratios[0];
        assert_eq!((ratio.name.as_str(), ratio.ours), ("rows_iterator_vs_sql", 1));
        assert_eq!(ratio.rivals, [0]);
        assert_eq!(groups[0].ratios.len(), 1);
        let shown = groups[1].ratio_names().remove(0);
        let one = only(&[&shown]).expect("it is in the report");
        assert_eq!(one.iter().flat_map(Group::ratio_names).collect::<Vec<_>>(), [shown]);
        let billion = only(&[BILLION]).expect("it is known");
        assert_eq!(billion.len(), 1);
        assert_eq!(loads(&billion[0]), [Load::UsersLeafpress]);
        assert!(matches!(only(&["csv_vs_sqll"]), Err(Error::Usage(_))));
        assert!(matches!(only(&["keys_vs_sql"]), Err(Error::Usage(_))), "another experiment's");
    }

    #[test]
    fn the_overview_has_something_of_every_experiment() {
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
        let groups = planned(&Experiment::ALL, &[]).expect("a plan");
        let of = |name: &str| {
            groups.iter().find(|group| group.ratios.iter().any(|it| it.name == name)).expect(name)
        };
        let rows = |name: &str| load_rungs(of(name))[0].rows;
        assert_eq!(rows("keys_vs_sql"), 10_000_000);
        assert_eq!(of("keys_vs_presorted"), of("keys_vs_sql"));
        assert_eq!(rows("spill_vs_batches"), 50_000_000);
        assert_eq!(load_rungs(of("spill_vs_batches"))[1].memory_bytes, Some(512 << 20));
        assert_eq!(rows("index_vs_sql"), 11_000_000);
        assert_eq!(rows("attach_vs_insert"), 10_000_000);
        assert_eq!(rows("append_vs_insert"), 1_000_000);
        let fixtures = |name: &str| of(name).fixtures().len();
        assert_eq!(["keys_vs_sql", "append_vs_insert", "claim_10m"].map(fixtures), [0, 1, 6]);
    }

    #[test]
    fn every_ratio_compares_ours_with_a_rival() {
        let groups = planned(&Experiment::ALL, &[]).expect("a plan");
        for group in &groups {
            for RatioPlan { name, ours, rivals, .. } in &group.ratios {
                let is_of_itself = name.starts_with("claim_");
                assert!(group.kinds[*ours].is_ours(), "{name}");
                assert!(!rivals.is_empty(), "{name} has no rival beside it");
                for rival in rivals {
                    let rival = &group.kinds[*rival];
                    assert_eq!(rival.is_ours(), is_of_itself, "{name}: {}", rival.name());
                }
            }
        }
    }

    #[test]
    fn no_two_rungs_of_commits_and_no_two_ratios_share_a_name() {
        let groups = planned(&OF_COMMITS, &[]).expect("a plan");
        let mut names = std::collections::BTreeSet::new();
        for group in &groups {
            for kind in &group.kinds {
                assert!(names.insert(kind.name()), "{}", kind.name());
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
                    assert!(names.insert(kind.name()), "{}", kind.name());
                }
                for name in group.ratio_names() {
                    assert!(names.insert(name.clone()), "{name}");
                }
                let assumed = group.kinds.iter().filter(|kind| kind.name().contains("assumed"));
                let is_of_pages = group.kinds[0].one_row(None).is_some();
                assert_eq!(assumed.count(), if assume && is_of_pages { 2 } else { 0 });
            }
            groups.iter().map(|group| group.kinds.len()).sum::<usize>()
        };
        // Four groups a place, and three rungs that see what counting costs.
        assert_eq!(count(false, false, false), 4 * 11 + 3);
        assert_eq!(count(true, true, true), 8 * (3 + 18) + 3);
    }

    #[test]
    fn only_ratios_of_commits_too() {
        let groups = planned(&OF_COMMITS, &["blocking64", "worst_commit_slow"]).expect("a plan");
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

    #[test]
    fn every_rung_has_a_chart_and_a_label_of_its_own_in_it() {
        let atomic = AtomicOptions { transactions: 9, full: true, xfs_loop: true, assume: true };
        for (size, atomic) in [
            (Size::Quick, AtomicOptions { full: false, xfs_loop: false, ..atomic }),
            (Size::Large, atomic),
        ] {
            let experiments = Experiment::ALL.to_vec();
            let options = BenchOptions { experiments, atomic, ..BenchOptions::sized(size) };
            let mut seen = std::collections::BTreeSet::new();
            for group in plan(&options).expect("a plan") {
                for kind in &group.kinds {
                    let place = (group.experiment, kind.chart(), kind.label());
                    assert!(!place.1.is_empty() && !place.2.is_empty(), "{}", kind.name());
                    assert!(seen.insert(place.clone()), "{}: {place:?}", kind.name());
                }
            }
        }
    }

    #[test]
    fn a_chart_holds_what_did_the_same() {
        let groups = planned(&Experiment::ALL, &[]).expect("a plan");
        let kinds = groups.iter().flat_map(|group| &group.kinds);
        let charts: std::collections::BTreeSet<String> = kinds.map(|kind| kind.chart()).collect();
        for chart in [
            "one-row transactions, durable",
            "one-row updates, shared locking",
            "commits beside a long reader",
            "jobs, the whole cycle, 64 clients, durable",
            "jobs pushed, 100 a call, relaxed",
            "a consumer in another process wakes up",
            "one-row transactions, 8 processes × 8 callers",
            "a CSV file",
            "rows made in memory, 10m",
        ] {
            assert!(charts.contains(chart), "{chart}: {charts:?}");
        }
    }

    #[test]
    fn a_promise_is_that_of_the_settings_and_ours_are_named_so() {
        for kind in planned(&Experiment::ALL, &[]).expect("a plan").iter().flat_map(|it| &it.kinds)
        {
            let (name, is_ours) = (kind.name(), kind.is_ours());
            // A consumer that polls our queue is none of ours.
            let is_polling = name.contains("polling");
            assert_eq!(name.contains("leafpress") && !is_polling, is_ours, "{name}");
            let can_corrupt = kind.safety().can_corrupt();
            assert!(!name.contains("can corrupt") || can_corrupt, "{name}");
        }
    }
}
