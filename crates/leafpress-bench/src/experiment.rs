//! The experiments by name. Of loading: "load", CSV files, rows made in memory and new tables
//! in databases that exist, and "presort", rows whose keys come in no order. Of many small
//! transactions: "writer", how many, and "checkpoint", how long the slowest takes. Of one-row
//! transactions: "atomic", what each costs. Of a queue's jobs: "queue" and "queue-inserts". Of many
//! processes on one database: "shared". All by Leafpress and by the best that SQL can do.
//!
//! Stands on top of everything else here: makes the inputs, runs the groups of
//! the plan one after the other, and writes the report.
//!
//! Must never: leave a file or a mount behind (a temporary folder holds them all and
//! goes on return, also after an error), or let a rung run while something else of
//! the experiment does.

use std::collections::BTreeMap;
use std::path::Path;

use leafpress::storage::StorageOptions;
use serde_json::json;

use crate::atomic::xfs_loop::{self, XfsLoop};
use crate::bound::DiskSpeed;
use crate::error::{Error, Result};
use crate::fixture::Fixtures;
use crate::group::Group;
use crate::group_run::GroupRun;
use crate::input::{Inputs, formats_of};
use crate::machine_state::{MachineState, PageCache, drop_page_cache, warm, warm_up};
use crate::noise::{self, Processors};
use crate::options::{BenchOptions, Experiment, ProgressEvent};
use crate::plan::plan;
use crate::report::{ExperimentReport, REPORT_VERSION};
use crate::rung::described::Place;
use crate::rung::process::{Runner, run_in_child};
use crate::simulated_disk::Simulation;
use crate::storage::{self, StorageReport};
use crate::time_left::TimeLeft;
use crate::{conclusions, machine, questions, settings};

/// Runs the experiments, each rung in a process of its own: this executable must
/// answer `bench --rung REQUEST` with [`run_rung_line`](crate::rung::run_rung_line).
///
/// # Errors
/// If an input cannot be made, a rung fails before another one is done, or a rung leaves
/// other rows than its rival. Nothing is left on disk then, and no report is written. A
/// rung that fails later, or a caller who stops it, ends the run with the report of what
/// was done; [`ExperimentReport::stopped`] says why.
pub fn run(
    options: &BenchOptions,
    progress: &mut dyn FnMut(ProgressEvent<'_>),
) -> Result<ExperimentReport> {
    // A quick run's figures mean nothing anyway.
    let rests = !options.is_quick();
    run_with(options, &mut |request| run_in_child(request, rests, &options.cancel), progress)
}

/// A temporary folder that no other user may look into.
fn private_folder(prefix: &str) -> tempfile::Builder<'_, '_> {
    let mut folder = tempfile::Builder::new();
    folder.prefix(prefix);
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        folder.permissions(std::fs::Permissions::from_mode(0o700));
    }
    folder
}

fn run_with(
    options: &BenchOptions,
    runner: Runner<'_>,
    progress: &mut dyn FnMut(ProgressEvent<'_>),
) -> Result<ExperimentReport> {
    let mut simulation = Simulation::of(options)?;
    let mut groups = plan(options)?;
    let mut unavailable = leave_out_missing(&mut groups, simulation.is_on());
    check_room(options, &groups)?;
    let processors = Processors::now();
    let folder = private_folder("leafpress-bench-")
        .tempdir_in(&options.dir)
        .map_err(Error::io("make a temporary folder in", &options.dir))?;
    let inputs = Inputs::make(options, &groups, folder.path(), progress)?;
    // Dropped before the folder that it is in.
    let (xfs, without_place) = make_places(&mut groups, folder.path(), &simulation);
    unavailable.extend(without_place);
    let folder_of = |place| match (place, &xfs) {
        (Place::XfsLoop, Some(xfs)) => xfs.path(),
        _ => folder.path(),
    };
    let storage = measure_storage(options, folder.path());
    let disk = DiskSpeed::of(simulation.model(), storage.as_ref());
    let mut report = ExperimentReport {
        experiment: options.experiment_names(),
        version: REPORT_VERSION,
        machine: machine::describe(&options.dir),
        settings: settings::of(options, &groups, &inputs, &folder_of, storage.as_ref())?,
        unavailable,
        storage: storage.and_then(|storage| serde_json::to_value(storage).ok()),
        command: options.command.clone(),
        ..ExperimentReport::default()
    };
    let runs = groups.iter().map(|it| (it.kinds.len(), it.rounds(options)));
    let mut time = TimeLeft::new(runs, options.budget());
    let scene = Scene { options, inputs: &inputs, folder_of: &folder_of };
    let of_group = |group| GroupRun::new(group, folder_of(group.place()), Some(&inputs));
    let mut benches: Vec<GroupRun<'_>> = groups.iter().map(of_group).collect();
    let mut seen = Vec::new();
    let outcome = scene.run(&groups, &mut benches, &mut time, &mut seen, runner, progress);
    if let Some((cache, _)) = seen.last() {
        report.settings.insert("page_cache".to_owned(), json!(cache.in_words()));
    }
    let states: Vec<MachineState> = seen.iter().filter_map(|(_, state)| *state).collect();
    let rounds: Vec<usize> = benches.iter().map(GroupRun::rounds).collect();
    report.settings.extend(settings::rounds_of(&groups, &rounds));
    for bench in &benches {
        bench.sum_up(&mut report, disk, progress);
        simulation.add(bench.simulated());
    }
    match outcome {
        // Rows that are not those that they should be put all figures in doubt.
        Err(error) if !report.rungs.is_empty() && !matches!(error, Error::Unequal { .. }) => {
            report.stopped = Some(stopped_after(&error, &time, &groups));
        }
        outcome => outcome?,
    }
    if time.runs_left_out() > 0 {
        let minutes = options.budget().map_or(0, |budget| budget.time.as_secs().div_ceil(60));
        let left_out = format!("{} runs, to end in {minutes} minutes", time.runs_left_out());
        report.settings.insert("left_out".to_owned(), json!(left_out));
    }
    report.simulated = simulation.in_words();
    xfs.map_or(Ok(()), XfsLoop::close)?;
    folder.close().map_err(Error::io("remove the temporary folder in", &options.dir))?;
    conclude(&mut report, options, &states, processors);
    Ok(report)
}

/// Surroundings of the groups.
struct Scene<'a, 'p> {
    options: &'a BenchOptions,
    inputs: &'a Inputs,
    folder_of: &'a dyn Fn(Place) -> &'p Path,
}

impl Scene<'_, '_> {
    /// Runs the groups. After an error their runs have what was done.
    fn run(
        &self,
        groups: &[Group],
        runs: &mut [GroupRun<'_>],
        time: &mut TimeLeft,
        seen: &mut Vec<(PageCache, Option<MachineState>)>,
        runner: Runner<'_>,
        progress: &mut dyn FnMut(ProgressEvent<'_>),
    ) -> Result<()> {
        let mut ready: Option<(usize, Fixtures)> = None;
        for (index, round) in schedule(groups, self.options) {
            let group = &groups[index];
            if time.of_group(index).leaves_out_round(round, group.rounds(self.options)) {
                continue;
            }
            let fixtures = match ready.take() {
                Some((last, fixtures)) if last == index => fixtures,
                before => {
                    // What another group had goes first.
                    drop(before);
                    if let Some(first) = group.kinds.first() {
                        progress(ProgressEvent::Preparing { name: &first.name() });
                    }
                    let folder = (self.folder_of)(group.place());
                    seen.push(begin_group(self.options, group, folder, self.inputs)?);
                    Fixtures::make(group, folder)?
                }
            };
            let rounds = (round, group.rounds(self.options));
            let time = &mut time.of_group(index);
            runs[index].run_round(rounds, &fixtures, self.options, runner, time, progress)?;
            ready = Some((index, fixtures));
        }
        Ok(())
    }
}

/// Order of the rounds of all groups. The rounds of an overview go through all groups, so
/// that they are minutes apart and show how the machine drifts; else a group's rounds
/// follow one another, as what stands before them may take long to make.
fn schedule(groups: &[Group], options: &BenchOptions) -> Vec<(usize, usize)> {
    let rounds = |index: usize| groups[index].rounds(options);
    let of_group = |index| (0..rounds(index)).map(move |round| (index, round));
    let mut schedule: Vec<_> = (0..groups.len()).flat_map(of_group).collect();
    if options.is_overview() {
        schedule.sort_by_key(|(_, round)| *round);
    }
    schedule
}

/// Brings the machine into the state in which every group finds it, and says how fast it
/// was just then.
fn begin_group(
    options: &BenchOptions,
    group: &Group,
    folder: &Path,
    inputs: &Inputs,
) -> Result<(PageCache, Option<MachineState>)> {
    let cache = drop_page_cache(!options.is_quick() && !options.keeps_cache);
    let state = warm_up(folder);
    if let Some(input) = inputs.of(group) {
        warm(&input.path)?;
    }
    Ok((cache, state))
}

/// Findings on the disk, as `leafpress storage` says them; a run is none the worse without.
fn measure_storage(options: &BenchOptions, folder: &Path) -> Option<StorageReport> {
    let storage = StorageOptions::default();
    let storage = if options.is_quick() { storage.quick() } else { storage };
    let mut report = storage::measure(folder, &storage).ok()?;
    // The temporary folder is nothing that a reader could go to.
    report.found.path.clone_from(&options.dir);
    report.found.folder.clone_from(&options.dir);
    Some(report)
}

/// Sentence on a run that was stopped: how far it came.
fn stopped_after(error: &Error, time: &TimeLeft, groups: &[Group]) -> String {
    let why = match error {
        Error::Cancelled => "stopped".to_owned(),
        Error::TimeUp => "the time is up".to_owned(),
        error => format!("{error}: failed"),
    };
    let (runs, done) = time.runs();
    let is_left = |(index, _): &(usize, &Group)| time.runs_left_of(*index) > 0;
    let left = groups.iter().enumerate().filter(is_left);
    let mut names: Vec<&str> = left.map(|(_, group)| group.experiment.name()).collect();
    names.dedup();
    format!(
        "{why} after {done} of {runs} runs: some or all is missing of {}; the temporary files are gone",
        names.join(", ")
    )
}

/// Adds what follows from the figures.
fn conclude(
    report: &mut ExperimentReport,
    options: &BenchOptions,
    states: &[MachineState],
    before: Option<Processors>,
) {
    let busy = Processors::now().zip(before);
    let busy = busy.and_then(|(now, before)| now.busy_elsewhere_since(before));
    noise::judge(report, states, busy);
    report.measured_at = Some(jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string());
    let of = |it: Experiment| questions::of(it, &report.rungs);
    report.experiments = options.distinct_experiments().into_iter().map(of).collect();
    report.advice = conclusions::of(report);
}

/// Says anew what follows from the figures of a report of an earlier run, in the words of this
/// version; what it said before stays where this version finds nothing to say.
pub fn advise_again(report: &mut ExperimentReport) {
    let advice = conclusions::of(report);
    if !advice.is_empty() {
        report.advice = advice;
    }
}

/// Leaves out the groups that this machine cannot run. The reason stands in the place of each of
/// their ratios.
fn leave_out_missing(groups: &mut Vec<Group>, is_simulated: bool) -> BTreeMap<String, String> {
    let mut unavailable = BTreeMap::new();
    groups.retain(|group| {
        let Some(reason) = group.kinds.iter().find_map(|kind| kind.missing(is_simulated)) else {
            return true;
        };
        unavailable.extend(group.ratio_names().into_iter().map(|name| (name, reason.clone())));
        false
    });
    unavailable
}

/// Mounts what the groups need besides the disk. Where that cannot be, their groups
/// go, and the reason stands in the place of each of their ratios.
fn make_places(
    groups: &mut Vec<Group>,
    folder: &Path,
    simulation: &Simulation,
) -> (Option<XfsLoop>, BTreeMap<String, String>) {
    if !groups.iter().any(|group| group.place() == Place::XfsLoop) {
        return (None, BTreeMap::new());
    }
    let mounted = if simulation.is_on() {
        Err("it is for writes of whole pages, which the simulated disk does not have".to_owned())
    } else {
        xfs_loop::mount_in(folder)
    };
    match mounted {
        Ok(xfs) => (Some(xfs), BTreeMap::new()),
        Err(reason) => {
            let reason = format!("no XFS loop could be made: {reason}");
            let gone = groups.extract_if(.., |group| group.place() == Place::XfsLoop);
            let names = gone.flat_map(|group| group.ratio_names());
            (None, names.map(|name| (name, reason.clone())).collect())
        }
    }
}

/// Refuses what the disk has no room for.
fn check_room(options: &BenchOptions, groups: &[Group]) -> Result<()> {
    let inputs_mb = formats_of(groups).len() as u64 * (options.bytes / 1_000_000);
    let Some(largest) = groups.iter().max_by_key(|group| group.room_mb(options.bytes)) else {
        return Ok(());
    };
    let needed_mb = largest.room_mb(options.bytes) + inputs_mb;
    let experiment = || largest.kinds.first().map_or_else(String::new, |it| it.name());
    let max_bytes = options.disk_bytes_max;
    if needed_mb > max_bytes / 1_000_000 {
        return Err(Error::TooLarge { experiment: experiment(), needed_mb, max_bytes });
    }
    match machine::free_mb(&options.dir) {
        Some(free_mb) if free_mb < needed_mb => Err(Error::Room {
            experiment: experiment(),
            path: options.dir.clone(),
            needed_mb,
            free_mb,
        }),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;
    use std::sync::atomic::Ordering;

    use super::*;
    use crate::commits::{CommitRung, Committer};
    use crate::loads::{Load, LoadRung, billion_group};
    use crate::options::{Experiment, Size};
    use crate::rung::kind::RungKind;
    use crate::rung::process::{RungRequest, run_rung};
    use crate::rung::result::RungResult;

    fn quick(dir: &Path, only: &[&str]) -> BenchOptions {
        let only = only.iter().map(|name| (*name).to_owned()).collect();
        BenchOptions { dir: dir.to_owned(), only, ..BenchOptions::sized(Size::Quick) }
    }

    fn is_empty(dir: &Path) -> bool {
        fs::read_dir(dir).is_ok_and(|mut entries| entries.next().is_none())
    }

    #[test]
    fn a_rung_that_does_less_is_found_out_and_leaves_nothing() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let mut lazy = |request: &RungRequest| {
            let kind = match request.kind {
                RungKind::Load(rung) if rung.by == Load::UsersLeafpress => {
                    RungKind::Load(LoadRung { rows: rung.rows - 1, ..rung })
                }
                kind => kind,
            };
            run_rung(&RungRequest { kind, ..request.clone() })
        };
        let error = run_with(&quick(folder.path(), &["rows_vs_sql"]), &mut lazy, &mut |_| ())
            .expect_err("a row is missing");
        assert!(matches!(error, Error::Unequal { .. }), "{error}");
        assert!(is_empty(folder.path()));
    }

    /// A rival in place of ours, so that the experiment itself is tested.
    fn run_by_rivals(request: &RungRequest) -> Result<RungResult> {
        let by_rival = |by| match by {
            Load::CsvIndexLeafpress => Load::CsvIndexSql,
            Load::AttachLeafpress => Load::AttachBatchedSql,
            Load::KeysLeafpress => Load::KeysPresortedSql,
            Load::KeysSpilledLeafpress => Load::KeysBatchedSql,
            Load::AppendLeafpress => Load::AppendSql,
            Load::IndexLeafpress => Load::IndexSql,
            Load::ProcessLeafpress => Load::ProcessShell,
            Load::NdjsonLeafpress => Load::NdjsonBatchedSql,
            Load::ParquetLeafpress => Load::ParquetBatchedSql,
            by => by,
        };
        let kind = match request.kind {
            RungKind::Load(rung) => RungKind::Load(LoadRung { by: by_rival(rung.by), ..rung }),
            RungKind::Commits(rung) if rung.by == Committer::Leafpress => {
                RungKind::Commits(CommitRung { by: Committer::BareGroups, ..rung })
            }
            kind => kind,
        };
        run_rung(&RungRequest { kind, ..request.clone() })
    }

    #[test]
    fn two_experiments_make_one_report() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let experiments = vec![Experiment::Presort, Experiment::Load, Experiment::Presort];
        let names = [
            "csv_vs_sql",
            "csv_index_vs_sql",
            "rows_vs_sql",
            "attach_vs_insert",
            "keys_vs_sql",
            "keys_vs_presorted",
            "spill_vs_batches",
            "index_vs_sql",
            "append_vs_insert",
        ];
        let options = BenchOptions { experiments, ..quick(folder.path(), &names) };
        let report =
            run_with(&options, &mut run_by_rivals, &mut |_| ()).expect("the experiments run");
        assert_eq!(report.experiment, "presort load");
        for name in names {
            assert!(report.ratios.contains_key(name), "{name}: {:?}", report.ratios.keys());
        }
        let rows = |name: &str| {
            let rung = report.rungs.iter().find(|rung| rung.name == name).expect(name);
            (rung.rows, rung.runs_s.len())
        };
        assert_eq!(rows("keys, leafpress, 20k"), (Some(20_000), 2));
        assert_eq!(rows("keys, leafpress, spilled, 100k"), (Some(100_000), 2));
        assert_eq!(rows("index, leafpress, 22k"), (Some(22_000), 2));
        assert_eq!(rows("append, leafpress, 2k"), (Some(2_000), 2));
        assert_eq!(rows("attach, leafpress, 100k"), (Some(100_000), 2));
        assert!(is_empty(folder.path()));
    }

    /// Change to a database after its rung.
    type Spoil<'a> = &'a dyn Fn(&Path);

    /// The error of a run in which `spoil` changes what the rung of this ratio's
    /// Leafpress has left.
    fn spoiled(ratio: &str, spoil: Spoil<'_>) -> Error {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let mut spoiling = |request: &RungRequest| {
            let result = run_by_rivals(request)?;
            if request.kind.is_ours() {
                spoil(&request.database);
            }
            Ok(result)
        };
        let experiments = Experiment::ALL.to_vec();
        let options = BenchOptions { experiments, ..quick(folder.path(), &[ratio]) };
        let error = run_with(&options, &mut spoiling, &mut |_| ()).expect_err(ratio);
        assert!(is_empty(folder.path()));
        error
    }

    #[test]
    fn whatever_a_rung_spoils_is_found_out() {
        let run = |sql: &'static str| {
            move |database: &Path| {
                let connection = rusqlite::Connection::open(database).expect("it opens");
                connection.execute_batch(sql).expect("it is done");
            }
        };
        let beside = |database: &Path| {
            fs::write(database.with_extension("spill"), "rows").expect("it can be written");
        };
        let cases: [(&str, Spoil<'_>, &str); 8] = [
            ("csv_index_vs_sql", &run("DROP INDEX data_description"), "no index on description"),
            ("index_vs_sql", &run("UPDATE data SET city = 'X' WHERE id = 5"), "sums"),
            (
                "keys_vs_sql",
                &run("DELETE FROM event WHERE key = (SELECT max(key) FROM event)"),
                "19999 rows in the table",
            ),
            ("append_vs_insert", &run("UPDATE event SET payload = zeroblob(100)"), "sums"),
            ("attach_vs_insert", &run("PRAGMA journal_mode = DELETE"), "delete"),
            ("spill_vs_batches", &beside, "bench.spill"),
            ("alone", &run("DELETE FROM call WHERE id = 7"), "where call 6 was the next"),
            ("worst_commit", &run("PRAGMA journal_mode = DELETE"), "delete"),
        ];
        for (ratio, spoil, expected) in cases {
            let error = spoiled(ratio, spoil);
            assert!(matches!(error, Error::Unequal { .. }), "{ratio}: {error}");
            assert!(error.to_string().contains(expected), "{ratio}: {error}");
        }
    }

    #[test]
    fn a_wal_beyond_its_bound_is_reported_unless_a_reader_holds_it() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let mut growing = |request: &RungRequest| {
            let result = run_by_rivals(request)?;
            let grown = result.wal_bytes_max.map(|_| 70 << 20);
            Ok(RungResult { wal_bytes_max: grown, ..result })
        };
        let only = ["p999_commit_short_readers", "p999_commit_long_reader"];
        let experiments = vec![Experiment::Checkpoint];
        let options = BenchOptions { experiments, ..quick(folder.path(), &only) };
        let report = run_with(&options, &mut growing, &mut |_| ()).expect("it is measured");
        assert_eq!(report.rungs.len(), 4);
        let broken: Vec<&String> = report.broken.keys().collect();
        assert_eq!(broken, ["short readers, leafpress, 1 blocking"]);
        assert!(report.broken[broken[0]].contains("73.4 MB"), "{:?}", report.broken);
    }

    /// Runs a group of two rungs, and stops it while this many rungs are done or running.
    fn stopped_at(rungs_max: usize) -> Result<ExperimentReport> {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let options = quick(folder.path(), &["csv_vs_sql"]);
        let mut rungs_count = 0;
        let mut interrupted = |request: &RungRequest| {
            rungs_count += 1;
            options.cancel.store(rungs_count == rungs_max, Ordering::Relaxed);
            run_rung(request)
        };
        let outcome = run_with(&options, &mut interrupted, &mut |_| ());
        assert!(is_empty(folder.path()));
        assert_eq!(rungs_count, rungs_max);
        outcome
    }

    #[test]
    fn a_run_that_is_stopped_reports_what_is_done() {
        let error = stopped_at(1).expect_err("nothing is done");
        assert!(matches!(error, Error::Cancelled), "{error}");
        let report = stopped_at(2).expect("one rung is done");
        let stopped = report.stopped.expect("it says so");
        assert!(stopped.contains("1 of 4 runs") && stopped.contains("load"), "{stopped}");
        assert_eq!((report.rungs.len(), report.ratios.len()), (1, 0));
        let report = stopped_at(4).expect("a round is done");
        assert_eq!((report.rungs.len(), report.ratios.len()), (2, 1));
        assert!(report.stopped.is_some_and(|stopped| stopped.contains("3 of 4 runs")));
        assert_eq!(report.settings["repeats"], 1, "not the two that were asked for");
    }

    #[test]
    fn a_run_says_what_it_ran_on_and_how_sure_it_is() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let options = quick(folder.path(), &["csv_vs_sql"]);
        let report = run_with(&options, &mut run_by_rivals, &mut |_| ()).expect("it runs");
        let storage = report.storage.expect("the disk was measured");
        assert!(storage["verdict"]["profile"].is_string(), "{storage}");
        assert_eq!(storage["folder"], folder.path().to_string_lossy().as_ref());
        assert!(report.noise.is_some_and(|noise| noise.times >= 1.0));
        let ratio = report.ratios["csv_vs_sql"];
        assert!(ratio.low.unwrap() <= ratio.min && ratio.high.unwrap() >= ratio.max, "{ratio:?}");
        assert_eq!(report.experiments[0].name, "load");
        assert!(report.measured_at.is_some_and(|at| at.ends_with('Z')));
        assert_eq!(report.settings["page_cache"], "as it was: not dropped");
    }

    #[test]
    fn no_more_of_the_disk_is_taken_than_may_be() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let options = quick(folder.path(), &["rows_vs_sql"]);
        let options = BenchOptions { disk_bytes_max: 5_000_000, ..options };
        let error = run_with(&options, &mut run_by_rivals, &mut |_| ()).expect_err("5 MB");
        assert!(matches!(error, Error::TooLarge { max_bytes: 5_000_000, .. }), "{error}");
        assert!(error.to_string().contains("--max-disk"), "{error}");
        for size in [Size::Quick, Size::Usual] {
            let overview = BenchOptions { experiments: Vec::new(), ..BenchOptions::sized(size) };
            let overview = BenchOptions { disk_bytes_max: 2_000_000_000, ..overview };
            let groups = plan(&overview).expect("a plan");
            let outcome = check_room(&overview, &groups);
            assert!(!matches!(outcome, Err(Error::TooLarge { .. })), "{size:?}: {outcome:?}");
        }
    }

    #[test]
    fn a_rung_that_fails_leaves_nothing() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let mut broken = |request: &RungRequest| {
            fs::write(&request.database, "half").expect("it can be written");
            Err(Error::Rung { name: "x".to_owned(), reason: "killed".to_owned() })
        };
        let error = run_with(&quick(folder.path(), &[]), &mut broken, &mut |_| ())
            .expect_err("the rung failed");
        assert!(matches!(error, Error::Rung { .. }), "{error}");
        assert!(is_empty(folder.path()));
    }

    #[test]
    fn a_rung_that_fails_later_costs_only_itself() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let mut runs = 0;
        let mut failing = |request: &RungRequest| {
            runs += 1;
            if runs == 4 {
                return Err(Error::Rung { name: "x".to_owned(), reason: "no room".to_owned() });
            }
            run_rung(request)
        };
        let options = quick(folder.path(), &["csv_vs_sql"]);
        let report = run_with(&options, &mut failing, &mut |_| ()).expect("a round is done");
        let stopped = report.stopped.expect("it says so");
        assert!(stopped.contains("no room") && stopped.contains("3 of 4 runs"), "{stopped}");
        assert_eq!((report.rungs.len(), report.ratios.len()), (2, 1));
        assert!(is_empty(folder.path()));
    }

    #[test]
    fn a_billion_needs_room() {
        let options = BenchOptions::default();
        let groups = [billion_group(false)];
        let needed_mb = groups[0].room_mb(options.bytes);
        assert!((20_000..21_000).contains(&needed_mb), "{needed_mb} MB");
        let free_mb = machine::free_mb(Path::new("."));
        let enough = free_mb.is_none_or(|megabytes| megabytes >= needed_mb);
        assert_eq!(check_room(&options, &groups).is_ok(), enough);
        let small = billion_group(true);
        assert!(check_room(&options, &[small]).is_ok());
    }
}
