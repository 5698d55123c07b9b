//! Places that a test cannot plant for real: a network, a mount whose syncs are none.

use std::time::Duration;

use leafpress::profile::{self, ProfileRequest};
use leafpress::storage::{FileSystem, Nature};
use tempfile::TempDir;

use super::evidence::Evidence;
use super::{CHECKS, Finding, Verdict};

/// A database under a profile, on a file system that is changed for the test.
fn judged(profile: leafpress::Profile, change: impl FnOnce(&mut FileSystem)) -> Vec<Finding> {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("a.db");
    let (connection, _) = profile::open(&path, &ProfileRequest::from(profile)).unwrap();
    connection.execute_batch("CREATE TABLE t(a)").unwrap();
    let mut evidence = Evidence::collect(&path, Duration::ZERO).unwrap();
    // Here the doctor is the process that has it open, by its own SQLite.
    evidence.now.second_copy.clear();
    let place = evidence.now.file_system.as_mut().expect("the system names it");
    (place.kind, place.nature) = ("ext4".to_owned(), Nature::Local);
    place.options.clear();
    change(place);
    let findings = CHECKS.iter().map(|check| check(&evidence));
    findings.filter(|finding| finding.verdict == Verdict::Care).collect()
}

fn numbers(findings: &[Finding]) -> Vec<u8> {
    findings.iter().map(|finding| finding.number).collect()
}

#[test]
fn a_plain_disk_needs_no_care() {
    assert_eq!(judged(leafpress::Profile::Durable, |_| {}), []);
    assert_eq!(judged(leafpress::Profile::Rollback, |_| {}), []);
}

#[test]
fn a_network_needs_care_and_a_log_on_it_even_more() {
    let network = |place: &mut FileSystem| {
        (place.kind, place.nature) = ("nfs4".to_owned(), Nature::Network);
    };
    let found = judged(leafpress::Profile::Durable, network);
    assert_eq!(numbers(&found), [2, 25]);
    assert!(found[0].fix.as_ref().unwrap().contains("journal_mode=DELETE"), "{found:?}");
    assert!(found[1].evidence.starts_with("nfs4"), "{found:?}");
    assert_eq!(numbers(&judged(leafpress::Profile::Rollback, network)), [25]);
}

#[test]
fn layers_and_options_that_break_a_promise_need_care() {
    let overlay = |place: &mut FileSystem| {
        (place.kind, place.nature) = ("overlay".to_owned(), Nature::Overlay);
    };
    let found = judged(leafpress::Profile::Durable, overlay);
    assert_eq!(numbers(&found), [25]);
    assert!(found[0].fix.as_ref().unwrap().contains("volume"), "{found:?}");
    let found = judged(leafpress::Profile::Durable, |place| place.options.push("nobarrier".into()));
    assert_eq!(numbers(&found), [25]);
    assert!(found[0].risk.as_ref().unwrap().contains("nobarrier"), "{found:?}");
}

#[test]
fn each_check_has_its_number_in_order() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("a.db");
    drop(profile::open(&path, &ProfileRequest::default()).unwrap());
    let evidence = Evidence::collect(&path, Duration::ZERO).unwrap();
    let findings: Vec<Finding> = CHECKS.iter().map(|check| check(&evidence)).collect();
    let numbers = numbers(&findings);
    assert_eq!(numbers, [1, 2, 3, 4, 6, 7, 8, 9, 23, 25, 26, 27, 28, 29, 30, 31]);
}
