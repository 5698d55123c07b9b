//! `leafpress bench`: runs an experiment and prints what came out.
//!
//! The same executable is also the child that does one rung (`bench --rung`,
//! hidden) and the maker of the inputs (`bench generate`, hidden).
//!
//! Must never: measure anything itself, or handle ctrl-C in a rung's process:
//! a terminal sends it to parent and child alike, and the child has to die of
//! it for the parent to clean up.

use std::path::{Path, PathBuf};

use leafpress_bench::generate::{self, FileSize, TextFormat};
use leafpress_bench::options::{AtomicOptions, BenchOptions, Experiment, Size};
use leafpress_bench::{Error, experiment, rung};
use serde_json::json;

use crate::exit::Status;
use crate::flags::{
    BenchExperimentFlag, BenchFlags, BenchGenerateFlags, BenchPart, TextFormatFlag,
};
use crate::progress::{self, BenchProgress};
use crate::{human, interrupt, output, summary};

/// What experiments take on the disk at most, unless something else is asked for.
const DISK_BYTES: u64 = 2_000_000_000;
const LARGE_DISK_BYTES: u64 = 25_000_000_000;

/// Runs experiments, or a part of one.
pub fn run(flags: &BenchFlags) -> Status {
    if let Some(request) = &flags.rung {
        return match rung::run_rung_line(request) {
            Ok(line) => output::print_result(&format!("{line}\n")),
            Err(error) => fail(&error, false),
        };
    }
    match &flags.part {
        Some(BenchPart::Generate(flags)) => run_generate(flags),
        None => run_experiments(flags),
    }
}

fn run_experiments(flags: &BenchFlags) -> Status {
    let to_stdout = is_stdout(flags.json.as_deref());
    let json = flags.json.clone().filter(|_| !to_stdout);
    if let Err(error) = check_report_path(json.as_deref()) {
        return fail(&error, to_stdout);
    }
    let options = bench_options(flags, json);

    let mut shown = BenchProgress::new(progress::is_wanted(false));
    let outcome = experiment::run(&options, &mut |event| shown.update(&event));
    drop(shown);
    let report = match outcome {
        Ok(report) => report,
        Err(error) => return fail(&error, to_stdout),
    };
    if to_stdout {
        output::print_json(&report);
    } else {
        output::print_report(&summary::of_bench(&report, options.json.as_deref()));
    }
    if report.broken.is_empty() { Status::Done } else { Status::DoneWithProblems }
}

fn bench_options(flags: &BenchFlags, json: Option<PathBuf>) -> BenchOptions {
    let size = match (flags.quick, flags.large) {
        (true, _) => Size::Quick,
        (_, true) => Size::Large,
        _ => Size::Usual,
    };
    let defaults = BenchOptions::sized(size);
    let experiment = |flag: &BenchExperimentFlag| match flag {
        BenchExperimentFlag::Ladder => Experiment::Ladder,
        BenchExperimentFlag::Cycles => Experiment::Cycles,
        BenchExperimentFlag::Load => Experiment::Load,
        BenchExperimentFlag::Presort => Experiment::Presort,
        BenchExperimentFlag::Writer => Experiment::Writer,
        BenchExperimentFlag::Checkpoint => Experiment::Checkpoint,
        BenchExperimentFlag::Atomic => Experiment::Atomic,
        BenchExperimentFlag::Queue => Experiment::Queue,
        BenchExperimentFlag::QueueInserts => Experiment::QueueInserts,
    };
    BenchOptions {
        experiments: flags.experiments.iter().map(experiment).collect(),
        bytes: flags.bytes.unwrap_or(defaults.bytes),
        rows: if flags.rows.is_empty() { defaults.rows } else { flags.rows.clone() },
        keys: flags.keys.unwrap_or(defaults.keys),
        commits: flags.commits.unwrap_or(defaults.commits),
        atomic: AtomicOptions {
            transactions: flags.atomic.transactions.unwrap_or(defaults.atomic.transactions),
            full: flags.atomic.full,
            xfs_loop: flags.atomic.xfs_loop,
            assume: flags.atomic.assume_atomic,
        },
        waiting: flags.waiting.unwrap_or(defaults.waiting),
        repeats: flags.repeats,
        dir: flags.dir.clone(),
        only: flags.only.clone(),
        size,
        disk_bytes_max: flags.max_disk.unwrap_or(if flags.large {
            LARGE_DISK_BYTES
        } else {
            DISK_BYTES
        }),
        simulate: None,
        json,
        cancel: interrupt::flag(),
    }
}

fn run_generate(flags: &BenchGenerateFlags) -> Status {
    let path = &flags.file;
    if path.symlink_metadata().is_ok() {
        output::print_error(&format!("{} exists already; nothing was written", path.display()));
        return Status::Failed;
    }
    let format = match flags.format {
        TextFormatFlag::Csv => TextFormat::Csv,
        TextFormatFlag::Ndjson => TextFormat::Ndjson,
    };
    // One of both is there: clap sees to that.
    let size = flags.rows.map(FileSize::Rows);
    let size = size.unwrap_or(FileSize::Bytes(flags.bytes.unwrap_or_default()));
    match generate::write_table(path, format, size, &mut |_| ()) {
        Ok(_) => Status::Done,
        Err(error) => {
            // Not there is fine too: then it could not even be made.
            let _ = std::fs::remove_file(path);
            fail(&error, false)
        }
    }
}

fn is_stdout(json: Option<&Path>) -> bool {
    json.is_some_and(|path| path.as_os_str() == "-")
}

/// An hour of measuring should not end with a report that nobody can write.
fn check_report_path(json: Option<&Path>) -> Result<(), Error> {
    let Some(path) = json else { return Ok(()) };
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    let reason = if path.is_dir() {
        "it is a folder"
    } else if folder.is_some_and(|folder| !folder.is_dir()) {
        "there is no such folder"
    } else {
        return Ok(());
    };
    Err(Error::Usage(format!("--json {}: {reason}", path.display())))
}

fn fail(error: &Error, as_json: bool) -> Status {
    let message = error.to_string();
    let (kind, status) = match error {
        Error::Usage(_) => ("usage", Status::Usage),
        Error::Cancelled => ("cancelled", Status::Failed),
        Error::Io { .. } | Error::Room { .. } => ("io", Status::Failed),
        Error::Sqlite { .. } => ("sqlite", Status::Failed),
        _ => ("bench", Status::Failed),
    };
    if as_json {
        output::print_json(&json!({"error": {"kind": kind, "message": message}}));
    }
    if matches!(error, Error::Cancelled) {
        output::print_warning(&message);
    } else {
        output::print_error(&human::printable(&message));
    }
    status
}
