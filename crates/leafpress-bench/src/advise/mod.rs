//! Advice for a program: its profile, way in, and time. The time is that of the last bench on
//! its disk. The logic of `leafpress advise`.
//!
//! | file | does |
//! |---|---|
//! | here | the profile with its reasons |
//! | `question` | the question and the answer |
//! | `ways` | the ways in, with their commands and estimates |
//!
//! A pure function of the question, the disk and what was measured.
//!
//! Must never: name a profile that promises less than was asked for, or give a time that no
//! measurement stands behind.

mod question;
mod ways;

use leafpress::Profile;
use leafpress::path_text;
use leafpress::storage::Nature;

pub use self::question::{Answer, Estimate, PowerCut, Question, Way};
use crate::numbers;
use crate::report::ExperimentReport;
use crate::storage::StorageReport;

/// Answers a question about a disk; `measured` is what [`load`](crate::report_cache::load)
/// gives for it.
///
/// # Errors
/// If the question contradicts itself; the text says how.
pub fn answer(
    question: &Question,
    storage: &StorageReport,
    measured: &[ExperimentReport],
) -> Result<Answer, String> {
    question.check()?;
    let (profile, mut why) = profile_for(question, storage.found.file_system.nature);
    let ways = ways::of(question, profile, measured);
    // Of a database its folder, as it may not be there yet.
    let path = &storage.found.path;
    let folder = if path.as_os_str() == "." { path } else { &storage.found.folder };
    let folder = path_text(folder);
    let mut warnings = storage.verdict.warnings.clone();
    warnings.extend(too_large(question, storage.found.free_bytes));
    // What it says of WAL's speed holds for no other profile.
    if profile == Profile::Durable {
        why.extend(storage.verdict.why.get(1).cloned());
    }
    let missing = ways.iter().filter(|way| way.estimate.is_none());
    let missing: Vec<&str> = missing.filter_map(|way| way.measured_by).collect();
    Ok(Answer {
        profile,
        settings: format!("{}, {}", profile.journal_mode(), profile.synchronous()),
        promise: profile.promise_where(&storage.found.not_durable()),
        why,
        ways,
        warnings,
        to_measure: (!missing.is_empty()).then(|| ways::bench_command(&missing, &folder)),
    })
}

/// The profile that keeps what is asked for, on such a disk.
fn profile_for(question: &Question, nature: Nature) -> (Profile, Vec<String>) {
    let because =
        |profile, why: &[&str]| (profile, why.iter().map(|it| (*it).to_owned()).collect());
    let attached = "a transaction over attached databases is whole with a rollback journal only: \
                    with a write-ahead log a power cut may keep it in one file and not in another";
    let no_wal = "a write-ahead log needs memory that all programs share, and machines share none: \
                  here a rollback journal is the one that works";
    match question.power_cut {
        PowerCut::Rebuildable => because(
            Profile::Rebuildable,
            &["you can make the file anew: nothing is synced, and any crash may destroy it"],
        ),
        _ if question.attached => because(Profile::Rollback, &[attached]),
        _ if nature.refuses_wal() => because(Profile::Rollback, &[no_wal]),
        PowerCut::MayLoseLast => because(
            Profile::Relaxed,
            &["the last moments may be lost: no commit waits for the disk, and nothing is damaged"],
        ),
        PowerCut::Survives if nature == Nature::Memory => because(
            Profile::Relaxed,
            &["this is memory: nothing in it survives a power cut, whatever the profile, and \
               relaxed waits for no sync"],
        ),
        PowerCut::Survives => because(
            Profile::Durable,
            &[
                "what was acknowledged survives a power cut: each commit is synced to a write-ahead \
               log, and callers at the same time share a sync",
            ],
        ),
    }
}

fn too_large(question: &Question, free_bytes: Option<u64>) -> Option<String> {
    let (bytes, free) = (question.bytes?, free_bytes?);
    (bytes > free).then(|| {
        format!(
            "{} MB are asked about, and {} MB are free: a full disk makes every commit fail",
            numbers::count(bytes.div_ceil(1_000_000)),
            numbers::count(free / 1_000_000)
        )
    })
}

#[cfg(test)]
mod tests;
