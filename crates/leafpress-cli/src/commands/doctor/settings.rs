//! Checks of the journal mode, and of settings that belong to each connection.
//!
//! Must never: claim to know the settings of another process's connection.

use leafpress::{Profile, path_text};

use super::evidence::{Evidence, quoted};
use crate::summary::finding::{Check, Finding};

const SYNCHRONOUS: [&str; 4] = ["OFF", "NORMAL", "FULL", "EXTRA"];

/// Check 2.
pub fn journal_mode(evidence: &Evidence) -> Finding {
    let check = Check(2, "journal mode");
    let inside = match &evidence.inside {
        Ok(inside) => inside,
        Err(reason) if evidence.is_wal() == Some(true) => {
            return check
                .ok(format!("WAL, by the index of its log; it could not be read: {reason}"));
        }
        Err(reason) => return check.unknown(format!("it could not be read: {reason}")),
    };
    if inside.journal_mode != "wal" {
        return check
            .ok("a rollback journal; whether it is deleted, kept or left out belongs to each \
             connection");
    }
    match evidence.now.file_system.as_ref().filter(|it| it.nature.refuses_wal()) {
        Some(place) => check.care(
            format!("WAL, on {place}"),
            "the index of the log is memory that all programs share, and machines share none: \
             commits of one machine are overwritten by another",
            format!("sqlite3 {} 'PRAGMA journal_mode=DELETE'", quoted(&evidence.named)),
        ),
        None => check.ok("WAL: readers and one writer do not wait for one another"),
    }
}

/// Check 3.
pub fn synchronous(evidence: &Evidence) -> Finding {
    let check = Check(3, "synchronous");
    let disarmed = evidence.now.processes.iter().find(|process| {
        let is_it = |path: &std::path::Path| path_text(path).contains("eatmydata");
        process.libraries.iter().any(|library| is_it(&library.path))
    });
    if let Some(process) = disarmed {
        return check.care(
            format!("{process} runs with libeatmydata, which makes every sync do nothing"),
            "a power cut takes what was acknowledged, and may damage the database",
            format!("start process {} again without libeatmydata in LD_PRELOAD", process.pid),
        );
    }
    let usual = SYNCHRONOUS.get(evidence.defaults.synchronous as usize).unwrap_or(&"unknown");
    check.unknown(format!(
        "belongs to each connection, and cannot be seen from outside: a plain one of this build \
         has {usual}, the profiles {}",
        profiles()
    ))
}

/// `durable FULL, relaxed NORMAL, …`.
fn profiles() -> String {
    let all = [Profile::Durable, Profile::Relaxed, Profile::Rollback, Profile::Rebuildable];
    let one = |profile: &Profile| {
        let name = SYNCHRONOUS.get(profile.synchronous() as usize).unwrap_or(&"?");
        format!("{} {name}", profile.name())
    };
    all.iter().map(one).collect::<Vec<_>>().join(", ")
}

/// Check 4.
pub fn delete_with_normal(evidence: &Evidence) -> Finding {
    let check = Check(4, "rollback journal with NORMAL");
    match evidence.is_wal() {
        Some(true) => check.ok("it is in WAL mode, where NORMAL loses the last commits at most"),
        Some(false) => check.unknown(
            "synchronous cannot be seen: with FULL or NORMAL, and a journal that is deleted, a \
             power cut may undo the last commit; the profile rollback sets EXTRA",
        ),
        None => check.unknown("its journal mode could not be read"),
    }
}
