//! `leafpress doctor`: the processes that have a database open, and whether that is safe.
//!
//! | file | does |
//! |---|---|
//! | `evidence.rs` | collects all that the checks judge, and watches locks for a while |
//! | `settings.rs` | checks of the journal mode and of what connections set |
//! | `log.rs` | checks of the write-ahead log and its readers |
//! | `processes.rs` | checks of the processes that have the database open |
//! | `place.rs` | checks of the file system and the disk |
//! | `folder.rs` | checks of the files and their names |
//!
//! A check gives a [`Finding`]. The numbers of the checks are those of `docs/doctor.md`; checks that are not there
//! yet have theirs kept free.
//!
//! Must never: change the database, or say that something is fine that could not be
//! looked at.

mod cluster;
mod evidence;
mod folder;
mod log;
mod place;
mod processes;
mod settings;
#[cfg(all(test, target_os = "linux"))]
mod tests;

use std::path::PathBuf;
use std::time::Instant;

use leafpress::neighbours::Neighbours;
use leafpress::path_text;
use serde::Serialize;

use self::evidence::Evidence;
use crate::cluster::url_of;
use crate::exit::Status;
use crate::flags::DoctorFlags;
use crate::progress::{self, Spinner};
use crate::summary::finding::{Finding, Verdict};
use crate::{human, output, summary};

/// All checks, in the order of their numbers.
const CHECKS: [fn(&Evidence) -> Finding; 16] = [
    processes::wal_reset_bug,
    settings::journal_mode,
    settings::synchronous,
    settings::delete_with_normal,
    log::automatic_checkpoints,
    log::log_size,
    log::size_limit,
    log::oldest_reader,
    processes::locks,
    place::file_system,
    place::disk,
    processes::copies_of_sqlite,
    processes::open_files,
    folder::left_behind,
    folder::names,
    folder::permissions,
];

/// The doctor's report.
#[derive(Debug, Serialize)]
pub struct DoctorReport {
    /// The database, as it was named.
    #[serde(serialize_with = "leafpress::path_as_text")]
    pub database: PathBuf,
    /// Nothing needs care.
    pub healthy: bool,
    /// The checks, in the order of their numbers.
    pub checks: Vec<Finding>,
    /// Questions without an answer.
    pub notes: Vec<String>,
    /// All that was seen of processes and locks.
    pub neighbours: Neighbours,
    /// Duration of the look.
    pub elapsed_s: f64,
}

/// Looks at one database, or at the nodes of a cluster.
pub fn run(flags: &DoctorFlags) -> Status {
    if let Some(url) = url_of(&flags.database) {
        return cluster::run(url, flags);
    }
    let started = Instant::now();
    let doing = format!("looking at {}", path_text(&flags.database));
    let spinner = Spinner::start(progress::is_wanted(flags.json), &doing);
    let collected = Evidence::collect(&flags.database, flags.busy_timeout);
    drop(spinner);

    let evidence = match collected {
        Ok(evidence) => evidence,
        Err(error) => return output::print_failure(error, flags.json),
    };
    let checks: Vec<Finding> = CHECKS.iter().map(|check| check(&evidence)).collect();
    let report = DoctorReport {
        database: flags.database.clone(),
        healthy: checks.iter().all(|finding| finding.verdict != Verdict::Care),
        checks,
        notes: evidence.notes(),
        neighbours: evidence.now,
        elapsed_s: started.elapsed().as_secs_f64(),
    };
    let text =
        |it: &DoctorReport| summary::of_doctor(&human::path(&it.database), &it.checks, &it.notes);
    output::answer(Ok(report), flags.json, text, |report| {
        if report.healthy { Status::Done } else { Status::DoneWithProblems }
    })
}
