//! `leafpress bench`: runs an experiment and prints what came out.
//!
//! The command is also the child that does one rung (`bench --rung`,
//! hidden) and the maker of the inputs (`bench generate`, hidden).
//!
//! Must never: measure anything itself, or handle ctrl-C in a rung's process:
//! a terminal sends it to parent and child alike, and the child has to die of
//! it for the parent to clean up.

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};

use leafpress::vfs::paths::folder_of;
use leafpress::{ErrorKind, path_text};
use leafpress_bench::generate::{self, FileSize, TextFormat};
use leafpress_bench::options::{AtomicOptions, BenchOptions, Experiment, Size};
use leafpress_bench::report::ExperimentReport;
use leafpress_bench::{Error, experiment, html, report_cache, rung};

use crate::exit::Status;
use crate::flags::{
    BenchExperimentFlag, BenchFlags, BenchGenerateFlags, BenchPart, TextFormatFlag,
};
use crate::progress::{self, BenchProgress};
use crate::stdin::STDIN_NAME;
use crate::{interrupt, output, summary};

/// Most bytes that experiments take on the disk, unless the caller gives another limit.
const DISK_BYTES: u64 = 2_000_000_000;
const LARGE_DISK_BYTES: u64 = 25_000_000_000;

/// Runs experiments, or a part of one. The report names the arguments that repeat it.
pub fn run(flags: &BenchFlags, arguments: &[OsString]) -> Status {
    if let Some(request) = &flags.rung {
        return match rung::run_rung_line(request) {
            Ok(line) => output::print_result(&format!("{line}\n")),
            Err(error) => fail(error, false),
        };
    }
    match &flags.part {
        Some(BenchPart::Generate(flags)) => run_generate(flags),
        None => run_experiments(flags, arguments),
    }
}

fn run_experiments(flags: &BenchFlags, arguments: &[OsString]) -> Status {
    let to_stdout = is_stdout(flags.json.as_deref());
    let csv_to_stdout = is_stdout(flags.csv.as_deref());
    if to_stdout && csv_to_stdout {
        let error = "--json and --csv cannot both go to stdout; name a file for one of them";
        return fail(Error::Usage(error.to_owned()), to_stdout);
    }
    let json = flags.json.clone().filter(|_| !to_stdout);
    let csv = flags.csv.clone().filter(|_| !csv_to_stdout);
    for (flag, path) in [("--json", &json), ("--html", &flags.html), ("--csv", &csv)] {
        if let Err(error) = check_report_path(flag, path.as_deref()) {
            return fail(error, to_stdout);
        }
    }
    if let Some(error) = same_output(&[("--json", &json), ("--html", &flags.html), ("--csv", &csv)])
    {
        return fail(error, to_stdout);
    }
    if let Some(from) = &flags.from {
        for (flag, path) in [("--json", &json), ("--html", &flags.html), ("--csv", &csv)] {
            if path.as_deref().is_some_and(|path| is_same_file(path, from)) {
                let from = path_text(from);
                let error =
                    format!("{flag} would overwrite the report that it is made from, {from}");
                return fail(Error::Usage(error), to_stdout);
            }
        }
    }
    let report = match report(flags, json.clone(), arguments) {
        Ok(report) => report,
        Err(error) => return fail(error, to_stdout),
    };
    let lines = match write_files(&report, flags.html.as_deref(), csv.as_deref()) {
        Ok(lines) => lines,
        Err(error) => return fail(error, to_stdout),
    };
    let written: Vec<&Path> =
        [&json, &flags.html, &csv].into_iter().flatten().map(PathBuf::as_path).collect();
    let shown = output::print_answer(to_stdout, &report, || {
        if csv_to_stdout { lines } else { summary::of_bench(&report, &written) }
    });
    let is_whole = report.broken.is_empty() && report.stopped.is_none();
    if is_whole { shown } else { Status::DoneWithProblems }
}

/// Writes the page and the lines where they were asked for; the lines.
fn write_files(
    report: &ExperimentReport,
    page: Option<&Path>,
    csv: Option<&Path>,
) -> Result<String, Error> {
    let lines = leafpress_bench::csv(report)?;
    if let Some(path) = page {
        write_file(path, &html::page(report))?;
    }
    if let Some(path) = csv {
        write_file(path, &lines)?;
    }
    Ok(lines)
}

/// The report of this run, or of an earlier one.
fn report(
    flags: &BenchFlags,
    json: Option<PathBuf>,
    arguments: &[OsString],
) -> Result<ExperimentReport, Error> {
    if let Some(path) = &flags.from {
        let mut report = if is_stdout(Some(path)) {
            ExperimentReport::read_from(STDIN_NAME, io::stdin().lock())?
        } else {
            ExperimentReport::read(path)?
        };
        experiment::advise_again(&mut report);
        if let Some(json) = &json {
            report.write(json)?;
        }
        return Ok(report);
    }
    let options =
        BenchOptions { command: Some(command_to_repeat(arguments)), ..bench_options(flags, json) };
    let mut shown = BenchProgress::new(progress::is_wanted(false));
    let report = experiment::run(&options, &mut |event| shown.update(&event))?;
    drop(shown);
    // A part of an experiment is not what `advise` is to go by.
    if flags.only.is_empty()
        && let Err(error) = report_cache::store(&report)
    {
        let variable = report_cache::CACHE_VARIABLE;
        output::print_message(&output::note(&format!(
            "leafpress advise will not know of this run: the cache cannot be written ({error}); \
             {variable} names another folder"
        )));
    }
    Ok(report)
}

#[expect(clippy::disallowed_methods, reason = "a report takes the place of the file")]
fn write_file(path: &Path, text: &str) -> Result<(), Error> {
    std::fs::write(path, text).map_err(|source| Error::Io {
        action: "write",
        path: path.to_owned(),
        source,
    })
}

/// The command that repeats a run: this one without the files that it writes.
fn command_to_repeat(arguments: &[OsString]) -> String {
    let mut words = vec!["leafpress".to_owned()];
    let mut arguments = arguments.iter().skip(1).map(path_text);
    while let Some(word) = arguments.next() {
        let name = word.split('=').next().unwrap_or_default();
        if ["--json", "--html", "--csv"].contains(&name) {
            if !word.contains('=') {
                arguments.next();
            }
        } else if word.contains([' ', '\'', '"', '$', '*', '\\']) {
            words.push(format!("'{}'", word.replace('\'', r"'\''")));
        } else {
            words.push(word);
        }
    }
    words.join(" ")
}

fn bench_options(flags: &BenchFlags, json: Option<PathBuf>) -> BenchOptions {
    let size = match (flags.quick, flags.large) {
        (true, _) => Size::Quick,
        (_, true) => Size::Large,
        _ => Size::Usual,
    };
    let disk_bytes_max = if size == Size::Large { LARGE_DISK_BYTES } else { DISK_BYTES };
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
        BenchExperimentFlag::Shared => Experiment::Shared,
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
        disk_bytes_max: flags.max_disk.unwrap_or(disk_bytes_max),
        simulate: flags.simulate.clone(),
        json,
        keeps_cache: flags.keep_cache,
        command: None,
        cancel: interrupt::flag(),
    }
}

fn run_generate(flags: &BenchGenerateFlags) -> Status {
    let path = &flags.file;
    if path.symlink_metadata().is_ok() {
        output::print_error(&format!("{} exists already; nothing was written", path_text(path)));
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
            fail(error, false)
        }
    }
}

fn is_stdout(json: Option<&Path>) -> bool {
    json.is_some_and(|path| path.as_os_str() == "-")
}

/// Two outputs that would be written into one file.
fn same_output(outputs: &[(&str, &Option<PathBuf>)]) -> Option<Error> {
    for (at, (one, path)) in outputs.iter().enumerate() {
        let Some(path) = path else { continue };
        let twin = outputs[at + 1..].iter().find(|(_, other)| other.as_ref() == Some(path));
        if let Some((other, _)) = twin {
            let path = path_text(path);
            return Some(Error::Usage(format!("{one} and {other} both name {path}")));
        }
    }
    None
}

/// Returns true if two paths lead to one file that is there.
fn is_same_file(one: &Path, other: &Path) -> bool {
    match (dunce::canonicalize(one), dunce::canonicalize(other)) {
        #[cfg(unix)]
        (Ok(one), Ok(other)) => {
            use std::os::unix::fs::MetadataExt as _;
            // Hard links have one file, too.
            let id = |path: &Path| path.metadata().map(|found| (found.dev(), found.ino())).ok();
            one == other || (id(&one).is_some() && id(&one) == id(&other))
        }
        #[cfg(not(unix))]
        (Ok(one), Ok(other)) => one == other,
        _ => false,
    }
}

/// Refuses a path that cannot be written, before an hour of measuring.
fn check_report_path(flag: &str, path: Option<&Path>) -> Result<(), Error> {
    let Some(path) = path else { return Ok(()) };
    let reason = if path.is_dir() {
        "it is a folder"
    } else if !folder_of(path).is_dir() {
        "there is no such folder"
    } else {
        return Ok(());
    };
    Err(Error::Usage(format!("{flag} {}: {reason}", path_text(path))))
}

fn fail(error: Error, as_json: bool) -> Status {
    output::print_failure(as_of_the_library(error), as_json)
}

/// The error in the form that all commands report: with its kind, what is on disk, and what to do.
fn as_of_the_library(error: Error) -> leafpress::Error {
    let message = error.to_string();
    let error = match error {
        Error::Load(error) => return error,
        Error::Usage(_) | Error::TooLarge { .. } => leafpress::Error::misuse(message),
        Error::Cancelled => leafpress::Error::from(ErrorKind::Cancelled)
            .on_disk("nothing was measured, no report was written, and no temporary file is left"),
        Error::Io { action, path, source } => leafpress::Error::io(action, &path, source),
        Error::Room { path, .. } => {
            let source = io::Error::new(io::ErrorKind::StorageFull, message);
            leafpress::Error::io("measure in", &path, source)
                .to_do("free some space, or give a folder on a larger disk by --dir")
        }
        Error::Sqlite { action, source } => leafpress::Error::sqlite(action, source),
        Error::TimeUp => leafpress::Error::from(ErrorKind::Aborted(Box::new(error)))
            .to_do("name the experiments that you need"),
        other => ErrorKind::Aborted(Box::new(other)).into(),
    };
    error.on_disk("no report was written, and no temporary file is left")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_to_repeat_writes_no_files() {
        let repeated = |words: &[&str]| {
            command_to_repeat(&words.iter().map(OsString::from).collect::<Vec<_>>())
        };
        let words =
            ["/x/leafpress", "bench", "ladder", "--json", "r.json", "--html=a.html", "--quick"];
        assert_eq!(repeated(&words), "leafpress bench ladder --quick");
        let words = ["leafpress", "bench", "--dir", "/mnt/my disk", "--csv"];
        assert_eq!(repeated(&words), "leafpress bench --dir '/mnt/my disk'");
    }
}
