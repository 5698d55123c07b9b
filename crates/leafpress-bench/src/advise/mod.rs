//! What fits a program: which profile, which way in, and how long that takes by the last
//! bench on its disk. The logic of `leafpress advise`.
//!
//! | file | does |
//! |---|---|
//! | here | the question, the answer, and the profile with its reasons |
//! | `ways` | the ways in, with their commands and estimates |
//!
//! A pure function of the question, the disk and what was measured.
//!
//! Must never: name a profile that promises less than was asked for, or give a time that no
//! measurement stands behind.

mod ways;

use leafpress::Profile;
use leafpress::path_text;
use leafpress::storage::{Nature, StorageReport};
use serde::Serialize;

use crate::report::ExperimentReport;
use crate::words;

/// What a program needs.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Question {
    /// Rows that come at once.
    pub rows: Option<u64>,
    /// Their size in bytes.
    pub bytes: Option<u64>,
    /// What a power cut may do.
    pub power_cut: PowerCut,
    /// Threads or processes that write.
    pub writers: u32,
    /// Whether transactions span attached databases.
    pub attached: bool,
}

impl Question {
    /// Whether it makes sense.
    ///
    /// # Errors
    /// If it contradicts itself; the text says how.
    pub fn check(&self) -> Result<(), String> {
        if self.attached && self.power_cut == PowerCut::Rebuildable {
            return Err(
                "--attached asks for transactions that are whole over several databases, and a \
                    power cut may destroy a database that is rebuildable: leave one of both out"
                    .to_owned(),
            );
        }
        match (self.rows, self.bytes) {
            (Some(rows), Some(bytes)) if bytes < rows => Err(format!(
                "{} rows cannot fit into {} bytes: --size is that of all rows together",
                words::count(rows),
                words::count(bytes)
            )),
            _ => Ok(()),
        }
    }
}

/// What a power cut may do.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum PowerCut {
    /// What was acknowledged survives it.
    #[default]
    Survives,
    /// It may take the last moments.
    MayLoseLast,
    /// It may destroy the file, which can be made anew.
    Rebuildable,
}

/// What fits.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Answer {
    /// The profile.
    pub profile: Profile,
    /// Its settings of SQLite: "WAL, FULL".
    pub settings: String,
    /// What it promises.
    pub promise: String,
    /// Why it is this one, a sentence each.
    pub why: Vec<String>,
    /// How to write, the best first.
    pub ways: Vec<Way>,
    /// What to mind, a sentence each.
    pub warnings: Vec<String>,
    /// The command that measures what is missing, where something is.
    pub to_measure: Option<String>,
}

/// A way in.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Way {
    /// What it is: "leafpress load", "Writer", "one connection".
    pub name: &'static str,
    /// When it is the one to take.
    pub what: String,
    /// The command, where there is one.
    pub command: Option<String>,
    /// The lines of Rust.
    pub rust: Vec<String>,
    /// How long it takes, where that was measured.
    pub estimate: Option<Estimate>,
    /// The experiment that measures it, where one does.
    #[serde(skip)]
    pub measured_by: Option<&'static str>,
}

/// A time by what was measured.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Estimate {
    /// Rows a second that were measured.
    pub rows_per_second: f64,
    /// Seconds for what was asked about, if that was said.
    pub seconds: Option<f64>,
    /// Beside what.
    pub beside: String,
    /// Rows a second of that.
    pub beside_rows_per_second: f64,
    /// Seconds of that.
    pub beside_seconds: Option<f64>,
    /// What was measured: "ladder, pressed".
    pub by: String,
    /// When.
    pub measured_at: Option<String>,
    /// Whether it was a run with small inputs: the order of magnitude only.
    pub quick: bool,
}

/// Answers a question about a disk; `measured` is what [`recall`](crate::remembered::recall)
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
            words::count(bytes.div_ceil(1_000_000)),
            words::count(free / 1_000_000)
        )
    })
}

#[cfg(test)]
mod tests;
