//! Every kind of program on every kind of disk, of which none has to be there.

use leafpress::storage::StorageOptions;

use super::*;
use crate::report::ExperimentReport;
use crate::storage::measure;
use crate::test_reports;

fn storage(nature: Nature) -> StorageReport {
    let folder = tempfile::tempdir().expect("a folder");
    let options = StorageOptions::default().time(std::time::Duration::from_millis(1));
    let mut report = measure(folder.path(), &options).expect("it is measured");
    report.found.file_system.nature = nature;
    report.found.path = ".".into();
    report.verdict.warnings.clear();
    report
}

fn question(power_cut: PowerCut) -> Question {
    Question { power_cut, writers: 1, ..Question::default() }
}

fn measured() -> Vec<ExperimentReport> {
    let overview = test_reports::overview();
    let of = |name: &str| ExperimentReport {
        experiment: name.to_owned(),
        rungs: overview.rungs.iter().filter(|rung| rung.experiment == name).cloned().collect(),
        ..overview.clone()
    };
    ["ladder", "writer"].map(of).to_vec()
}

#[test]
fn the_profile_keeps_what_was_asked_for_on_every_disk() {
    use PowerCut::{MayLoseLast, Rebuildable, Survives};
    for (nature, power_cut, attached, profile) in [
        (Nature::Local, Survives, false, Profile::Durable),
        (Nature::Local, Survives, true, Profile::Rollback),
        (Nature::Local, MayLoseLast, false, Profile::Relaxed),
        (Nature::Local, MayLoseLast, true, Profile::Rollback),
        (Nature::Local, Rebuildable, false, Profile::Rebuildable),
        (Nature::Network, Survives, false, Profile::Rollback),
        (Nature::Network, MayLoseLast, false, Profile::Rollback),
        (Nature::SharedByHost, Survives, true, Profile::Rollback),
        (Nature::Memory, Survives, false, Profile::Relaxed),
        (Nature::Unknown, Survives, false, Profile::Durable),
        (Nature::Overlay, Survives, false, Profile::Durable),
    ] {
        let question = Question { attached, ..question(power_cut) };
        let answer = answer(&question, &storage(nature), &[]).expect("it makes sense");
        assert_eq!(answer.profile, profile, "{nature:?} {power_cut:?} {attached}");
        assert!(!answer.why.is_empty() && !answer.ways.is_empty());
        let builds_it = format!("Profile::{profile:?}");
        let lines: String = answer.ways.iter().flat_map(|way| way.rust.clone()).collect();
        assert!(profile == Profile::Durable || lines.contains(&builds_it), "{lines}");
    }
}

#[test]
fn contradictions_are_refused() {
    let disk = storage(Nature::Local);
    let both = Question { attached: true, ..question(PowerCut::Rebuildable) };
    assert!(answer(&both, &disk, &[]).is_err_and(|why| why.contains("leave one of both out")));
    let small = Question { rows: Some(100), bytes: Some(99), ..question(PowerCut::Survives) };
    assert!(answer(&small, &disk, &[]).is_err_and(|why| why.contains("cannot fit")));
}

#[test]
fn many_rows_are_loaded_and_many_callers_share_a_writer() {
    let disk = storage(Nature::Local);
    let names = |rows, writers, attached| {
        let question = Question { rows, writers, attached, ..question(PowerCut::Survives) };
        let answer = answer(&question, &disk, &[]).expect("it makes sense");
        answer.ways.iter().map(|way| way.name).collect::<Vec<_>>()
    };
    assert_eq!(names(None, 1, false), ["Writer"]);
    assert_eq!(names(Some(100), 1, false), ["Writer"]);
    assert_eq!(names(Some(1_000_000), 1, false), ["leafpress load"]);
    assert_eq!(names(Some(1_000_000), 8, false), ["leafpress load", "Writer"]);
    assert_eq!(names(None, 8, true), ["one connection"]);
}

#[test]
fn times_are_those_that_were_measured_and_none_else() {
    let disk = storage(Nature::Local);
    let asked = Question { rows: Some(1_000_000), writers: 100, ..question(PowerCut::Survives) };
    let found = answer(&asked, &disk, &measured()).expect("it makes sense");
    let [load, writer] = found.ways.as_slice() else { panic!("{:?}", found.ways) };
    let load = load.estimate.as_ref().expect("it was measured");
    assert!(load.seconds.is_some_and(|it| (it - 0.071).abs() < 0.001), "{load:?}");
    assert!(load.beside_seconds.is_some_and(|it| (it - 1473.0).abs() < 1.0), "{load:?}");
    assert_eq!((load.by.as_str(), load.quick), ("ladder, pressed", false));
    let writer = writer.estimate.as_ref().expect("it was measured");
    assert_eq!(writer.by, "writer, Writer, 64 callers");
    assert_eq!(found.to_measure, None);

    // Under another profile nothing was measured of the Writer.
    let relaxed = Question { power_cut: PowerCut::MayLoseLast, ..asked.clone() };
    let found = answer(&relaxed, &disk, &measured()).expect("it makes sense");
    assert_eq!(found.ways[1].estimate, None);
    assert_eq!(found.to_measure.as_deref(), Some("leafpress bench writer --quick"));
    // What measures it is found beside the run that lacks it.
    let mut other = measured().remove(1);
    for rung in &mut other.rungs {
        rung.name = rung.name.replace("durable", "relaxed");
    }
    let both = [measured(), vec![other]].concat();
    let found = answer(&relaxed, &disk, &both).expect("it makes sense");
    assert!(found.ways[1].estimate.is_some(), "{found:?}");
    assert_eq!(found.to_measure, None);
    let found = answer(&asked, &disk, &[]).expect("it makes sense");
    assert!(found.ways.iter().all(|way| way.estimate.is_none()));
}

#[test]
fn a_full_disk_is_warned_of() {
    let mut disk = storage(Nature::Local);
    disk.found.free_bytes = Some(5_000_000);
    let asked = Question { bytes: Some(9_000_000), ..question(PowerCut::Survives) };
    let found = answer(&asked, &disk, &[]).expect("it makes sense");
    assert!(found.warnings[0].contains("9 MB are asked about, and 5 MB are free"));
}

#[test]
fn the_command_names_the_folder() {
    for (folder, expected) in [
        (".", "leafpress bench ladder writer --quick"),
        ("/mnt/disk", "leafpress bench ladder writer --quick --dir /mnt/disk"),
        ("/mnt/my disk", "leafpress bench ladder writer --quick --dir '/mnt/my disk'"),
        ("it's", r"leafpress bench ladder writer --quick --dir 'it'\''s'"),
    ] {
        assert_eq!(ways::bench_command(&["ladder", "writer"], folder), expected);
    }
    // No experiment measures attached databases, so none is named.
    let attached = Question { attached: true, ..question(PowerCut::Survives) };
    let found = answer(&attached, &storage(Nature::Local), &[]).expect("it makes sense");
    assert_eq!(found.to_measure, None);
}
