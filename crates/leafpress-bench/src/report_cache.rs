//! The last runs of each experiment on each disk. They are in the user's cache folder, for
//! `leafpress advise`.
//!
//! ```text
//! <cache>/leafpress/bench/<disk>/<experiment>.json                   a report of this one experiment
//! <cache>/leafpress/bench/<disk>/<experiment>-overview.json          its part of an overview
//! <cache>/leafpress/bench/<disk>/<experiment>[-overview]-quick.json  of a quick run
//! ```
//!
//! An overview lacks rungs, and a quick run is rough, so neither takes the place of what the others have.
//!
//! A disk is known by the kind of its file system and by what is mounted, as the report's
//! machine names them. What does not read as a report is passed over: it is a cache.
//!
//! Must never: keep what was measured on a simulated disk or was not finished.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::machine;
use crate::report::{ExperimentReport, REPORT_VERSION};

/// Names another folder than the user's.
pub const CACHE_VARIABLE: &str = "LEAFPRESS_CACHE";

/// Longer than any report.
const BYTES_MAX: u64 = 32 << 20;

/// Keeps the experiments of a run for later; nothing of one that was simulated or stopped.
///
/// # Errors
/// If the cache cannot be written. It is as it was then, or has some of the experiments.
pub fn store(report: &ExperimentReport) -> io::Result<()> {
    match cache_folder() {
        Some(cache) => store_in(&cache, report),
        None => Ok(()),
    }
}

/// Measurements of the disk that holds `path`, those to be trusted most first: full runs before
/// quick ones, then the newest.
pub fn load(path: &Path) -> Vec<ExperimentReport> {
    let Some(cache) = cache_folder() else { return Vec::new() };
    // A database that is yet to be made lies in a folder that is there.
    let folder = path.ancestors().find(|it| it.is_dir()).unwrap_or(Path::new("."));
    load_in(&cache, machine::describe(folder).filesystem.as_deref())
}

fn store_in(cache: &Path, report: &ExperimentReport) -> io::Result<()> {
    if report.simulated.is_some() || report.stopped.is_some() {
        return Ok(());
    }
    let folder = cache.join(disk_name(report.machine.filesystem.as_deref()));
    for part in parts(report) {
        let overview = if report.is_overview() { "-overview" } else { "" };
        let quick = if report.is_quick() { "-quick" } else { "" };
        let path = folder.join(format!("{}{overview}{quick}.json", part.experiment));
        fs::create_dir_all(&folder)?;
        let text = serde_json::to_vec(&part).map_err(io::Error::other)?;
        // Whole or not at all for a process that reads meanwhile.
        let mut file = tempfile::NamedTempFile::new_in(&folder)?;
        io::Write::write_all(&mut file, &text)?;
        file.persist(&path).map_err(|error| error.error)?;
    }
    Ok(())
}

fn load_in(cache: &Path, filesystem: Option<&str>) -> Vec<ExperimentReport> {
    let Ok(entries) = fs::read_dir(cache.join(disk_name(filesystem))) else { return Vec::new() };
    let mut paths: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    paths.sort();
    let is_report = |path: &&PathBuf| path.extension().is_some_and(|it| it == "json");
    let mut reports: Vec<_> = paths.iter().filter(is_report).filter_map(|it| read(it)).collect();
    reports.sort_by(|one, other| {
        let newest_first = other.measured_at.cmp(&one.measured_at);
        one.is_quick().cmp(&other.is_quick()).then(newest_first)
    });
    reports
}

/// A report for each experiment of a run, with its rungs. Ratios do not say which is theirs,
/// so each has all.
fn parts(report: &ExperimentReport) -> Vec<ExperimentReport> {
    let mut parts: Vec<ExperimentReport> = Vec::new();
    for rung in report.rungs.iter().filter(|rung| !rung.experiment.is_empty()) {
        // It becomes the name of a file, and a report from a file could name any.
        let is_name = rung.experiment.chars().all(|it| it.is_ascii_alphanumeric() || it == '-');
        if !is_name {
            continue;
        }
        if let Some(part) = parts.iter_mut().find(|part| part.experiment == rung.experiment) {
            part.rungs.push(rung.clone());
            continue;
        }
        let about = report.experiments.iter().filter(|about| about.name == rung.experiment);
        parts.push(ExperimentReport {
            experiment: rung.experiment.clone(),
            rungs: vec![rung.clone()],
            experiments: about.cloned().collect(),
            advice: Vec::new(),
            ..report.clone()
        });
    }
    parts
}

fn read(path: &Path) -> Option<ExperimentReport> {
    if fs::metadata(path).ok()?.len() > BYTES_MAX {
        return None;
    }
    let report: ExperimentReport = serde_json::from_slice(&fs::read(path).ok()?).ok()?;
    (report.version == REPORT_VERSION && !report.rungs.is_empty()).then_some(report)
}

/// The name of a disk's folder: "ext4-on-dev-sda1".
fn disk_name(filesystem: Option<&str>) -> String {
    const CHARS_MAX: usize = 100;
    let mut name = String::new();
    for character in filesystem.unwrap_or("unnamed").chars().take(CHARS_MAX) {
        if character.is_ascii_alphanumeric() || matches!(character, '.' | '_') {
            name.push(character);
        } else if !name.is_empty() && !name.ends_with('-') {
            name.push('-');
        }
    }
    let name = name.trim_matches(['-', '.']);
    if name.is_empty() { "unnamed".to_owned() } else { name.to_owned() }
}

/// Folder of the reports, as each system has it; `None` where it does not say.
fn cache_folder() -> Option<PathBuf> {
    let set = |name: &str| std::env::var_os(name).filter(|it| !it.is_empty()).map(PathBuf::from);
    let of_user = || {
        if cfg!(windows) {
            set("LOCALAPPDATA")
        } else if cfg!(target_vendor = "apple") {
            set("HOME").map(|home| home.join("Library").join("Caches"))
        } else {
            // A relative one is to be passed over, says the specification.
            let named = set("XDG_CACHE_HOME").filter(|it| it.is_absolute());
            named.or_else(|| set("HOME").map(|home| home.join(".cache")))
        }
    };
    let cache = set(CACHE_VARIABLE).or_else(of_user)?;
    Some(cache.join("leafpress").join("bench"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::report::Simulated;
    use crate::test_reports;

    const DISK: Option<&str> = Some("ext4 on /dev/sda1");

    fn names(reports: &[ExperimentReport]) -> Vec<&str> {
        reports.iter().map(|it| it.experiment.as_str()).collect()
    }

    #[test]
    fn each_experiment_of_a_run_comes_back_by_itself() {
        let cache = tempfile::tempdir().expect("a folder");
        let overview = test_reports::overview();
        store_in(cache.path(), &overview).expect("it is written");
        let all = load_in(cache.path(), DISK);
        let expected = [
            "atomic",
            "checkpoint",
            "cycles",
            "ladder",
            "presort",
            "queue-inserts",
            "queue",
            "writer",
        ];
        assert_eq!(names(&all), expected);
        let rungs: usize = all.iter().map(|it| it.rungs.len()).sum();
        assert_eq!(rungs, overview.rungs.len());
        assert_eq!(all[3].experiments.len(), 1);
        assert_eq!(load_in(cache.path(), Some("xfs on /dev/sdb1")), []);
        assert_eq!(load_in(cache.path(), None), []);
    }

    #[test]
    fn what_is_no_measurement_of_this_disk_is_not_kept() {
        let cache = tempfile::tempdir().expect("a folder");
        let simulated = Some(Simulated::default());
        let simulated = ExperimentReport { simulated, ..test_reports::overview() };
        let stopped = Some("stopped".to_owned());
        let stopped = ExperimentReport { stopped, ..test_reports::overview() };
        for report in [simulated, stopped] {
            store_in(cache.path(), &report).expect("nothing is written");
            assert_eq!(load_in(cache.path(), DISK), []);
        }
    }

    #[test]
    fn quick_runs_and_overviews_replace_no_others() {
        let cache = tempfile::tempdir().expect("a folder");
        let kept = || {
            let reports = load_in(cache.path(), DISK);
            let of_ladder = reports.into_iter().filter(|it| it.experiment == "ladder");
            of_ladder.map(|it| it.measured_at.unwrap_or_default()).collect::<Vec<_>>()
        };
        let run = |[quick, overview]: [bool; 2], at: &str| {
            let mut report = test_reports::overview();
            report.settings.insert("quick".to_owned(), json!(quick));
            report.settings.insert("overview".to_owned(), json!(overview));
            report.measured_at = Some(at.to_owned());
            store_in(cache.path(), &report).expect("it is written");
            kept()
        };
        assert_eq!(run([true, false], "1"), ["1"]);
        assert_eq!(run([true, false], "2"), ["2"]);
        assert_eq!(run([false, false], "3"), ["3", "2"]);
        assert_eq!(run([false, true], "4"), ["4", "3", "2"]);
        assert_eq!(run([true, false], "5"), ["4", "3", "5"]);
        assert_eq!(run([false, false], "6"), ["6", "4", "5"]);
        assert_eq!(run([true, true], "7"), ["6", "4", "7", "5"]);
    }

    #[test]
    fn garbage_is_passed_over() {
        let cache = tempfile::tempdir().expect("a folder");
        store_in(cache.path(), &test_reports::overview()).expect("it is written");
        let folder = cache.path().join(disk_name(DISK));
        fs::write(folder.join("ladder.json"), "{\"experiment\": 3").expect("it is written");
        fs::write(folder.join("cycles.json"), [0xff; 100]).expect("it is written");
        fs::write(folder.join("note.txt"), "{}").expect("it is written");
        fs::create_dir(folder.join("x.json")).expect("it is made");
        let all = load_in(cache.path(), DISK);
        assert_eq!(all.len(), 6, "{:?}", names(&all));
        // And is replaced by the next run.
        store_in(cache.path(), &test_reports::overview()).expect("it is written");
        assert_eq!(load_in(cache.path(), DISK).len(), 8);
    }

    #[test]
    fn no_name_leaves_the_cache() {
        for (filesystem, expected) in [
            (Some("ext4 on /dev/sda1"), "ext4-on-dev-sda1"),
            (Some("../../etc"), "etc"),
            (Some("nfs4 on server:/home/ü b"), "nfs4-on-server-home-b"),
            (Some(".."), "unnamed"),
            (Some(""), "unnamed"),
            (None, "unnamed"),
        ] {
            assert_eq!(disk_name(filesystem), expected);
        }
        let mut overview = test_reports::overview();
        for rung in &mut overview.rungs {
            rung.experiment = "../../evil".to_owned();
        }
        assert_eq!(parts(&overview), []);
    }

    #[test]
    fn a_cache_that_cannot_be_written_is_an_error_and_no_panic() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("file");
        fs::write(&file, "").expect("it is written");
        assert!(store_in(&file, &test_reports::overview()).is_err());
        assert_eq!(load_in(&file, DISK), []);
    }
}
