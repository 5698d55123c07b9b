//! `leafpress bench`: runs an experiment and prints what came out.
//!
//! The command is also the child that does one rung (`bench --rung`,
//! hidden) and the maker of the inputs (`bench generate`, hidden).
//!
//! Must never: measure anything itself, handle ctrl-C in a rung's process (it has to end at once, for
//! the parent to clean up), or lose what was measured because a file cannot be written.

use std::ffi::OsString;
use std::fs::OpenOptions;
use std::io;
use std::path::Path;

use leafpress::vfs::paths::folder_of;
use leafpress::vfs::text::shell_word;
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
    let report = check_outputs(flags).and_then(|()| report(flags, arguments));
    let report = match report {
        Ok(report) => report,
        Err(error) => return fail(error, to_stdout),
    };
    let (written, not_written) = write_files(flags, &report);
    let shown = if is_stdout(flags.csv.as_deref()) {
        match leafpress_bench::csv(&report) {
            Ok(lines) => output::print_result(&lines),
            Err(error) => fail(error, to_stdout),
        }
    } else {
        output::print_answer(to_stdout, &report, || summary::of_bench(&report, &written))
    };
    let is_whole = report.broken.is_empty() && report.stopped.is_none() && not_written.is_empty();
    for error in not_written {
        output::print_failure(of_one_file(error), false);
    }
    match shown {
        Status::Done if !is_whole => Status::DoneWithProblems,
        shown => shown,
    }
}

/// The files that the flags name for the report, with their flags.
fn files(flags: &BenchFlags) -> Vec<(&'static str, &Path)> {
    let named = [("--json", &flags.json), ("--html", &flags.html), ("--csv", &flags.csv)];
    let named = named.into_iter().filter_map(|(flag, path)| Some((flag, path.as_deref()?)));
    named.filter(|(flag, path)| *flag == "--html" || !is_stdout(Some(path))).collect()
}

/// Refuses files that cannot be written, or that would overwrite one another, before an hour of
/// measuring.
fn check_outputs(flags: &BenchFlags) -> Result<(), Error> {
    if is_stdout(flags.json.as_deref()) && is_stdout(flags.csv.as_deref()) {
        let error = "--json and --csv cannot both go to stdout; name a file for one of them";
        return Err(Error::Usage(error.to_owned()));
    }
    let files = files(flags);
    for (index, (flag, path)) in files.iter().enumerate() {
        check_report_path(flag, path)?;
        if let Some((other, _)) = files[..index].iter().find(|(_, it)| is_same_file(it, path)) {
            let path = path_text(path);
            return Err(Error::Usage(format!("{other} and {flag} both name {path}")));
        }
        if let Some(from) = flags.from.as_deref().filter(|from| is_same_file(path, from)) {
            let from = path_text(from);
            let error = format!("{flag} would overwrite the report that it is made from, {from}");
            return Err(Error::Usage(error));
        }
    }
    Ok(())
}

/// Writes the files that were asked for, each whatever became of the others. Returns those that are
/// written, and an error for each other one.
fn write_files<'f>(
    flags: &'f BenchFlags,
    report: &ExperimentReport,
) -> (Vec<&'f Path>, Vec<Error>) {
    let (mut written, mut not_written) = (Vec::new(), Vec::new());
    for (flag, path) in files(flags) {
        let outcome = match flag {
            "--json" => report.write(path),
            "--html" => write_file(path, &html::page(report)),
            _ => leafpress_bench::csv(report).and_then(|lines| write_file(path, &lines)),
        };
        match outcome {
            Ok(()) => written.push(path),
            Err(error) => not_written.push(error),
        }
    }
    (written, not_written)
}

/// The report of this run, or of an earlier one.
fn report(flags: &BenchFlags, arguments: &[OsString]) -> Result<ExperimentReport, Error> {
    if let Some(path) = &flags.from {
        let mut report = if is_stdout(Some(path)) {
            ExperimentReport::read_from(STDIN_NAME, io::stdin().lock())?
        } else {
            ExperimentReport::read(path)?
        };
        experiment::advise_again(&mut report);
        return Ok(report);
    }
    let options =
        BenchOptions { command: Some(command_to_repeat(arguments)), ..bench_options(flags) };
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
        } else {
            words.push(shell_word(&word));
        }
    }
    words.join(" ")
}

fn bench_options(flags: &BenchFlags) -> BenchOptions {
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

/// Returns true if two paths lead to one file, which may not be there yet.
fn is_same_file(one: &Path, other: &Path) -> bool {
    let place = |path: &Path| {
        let folder = || dunce::canonicalize(folder_of(path));
        let of_new = |_| Some(folder().ok()?.join(path.file_name()?));
        dunce::canonicalize(path).map_or_else(of_new, Some)
    };
    let (Some(one), Some(other)) = (place(one), place(other)) else { return false };
    #[cfg(unix)]
    {
        use std::os::unix::fs::MetadataExt as _;
        // Hard links have one file, too.
        let id = |path: &Path| path.metadata().map(|found| (found.dev(), found.ino())).ok();
        if id(&one).is_some() && id(&one) == id(&other) {
            return true;
        }
    }
    one == other
}

/// Refuses a path that cannot be written.
#[expect(clippy::disallowed_methods, reason = "a report takes the place of the file")]
fn check_report_path(flag: &str, path: &Path) -> Result<(), Error> {
    let reason = if path.is_dir() {
        "it is a folder".to_owned()
    } else if !folder_of(path).is_dir() {
        "there is no such folder".to_owned()
    } else if path.is_file()
        && let Err(error) = OpenOptions::new().append(true).open(path)
    {
        format!("it cannot be written ({error})")
    } else {
        return Ok(());
    };
    Err(Error::Usage(format!("{flag} {}: {reason}", path_text(path))))
}

fn fail(error: Error, as_json: bool) -> Status {
    let on_disk = "no report was written, and no temporary file is left";
    output::print_failure(as_of_the_library(error).on_disk(on_disk), as_json)
}

/// The error for a file that could not be written after all was measured.
fn of_one_file(error: Error) -> leafpress::Error {
    as_of_the_library(error)
        .on_disk("the file may be cut short; this concerns no other file, nor what is printed")
        .to_do("with the report of --json, leafpress bench --from makes the others elsewhere")
}

/// The error in the form that all commands report.
fn as_of_the_library(error: Error) -> leafpress::Error {
    let message = error.to_string();
    match error {
        Error::Load(error) => error,
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
    }
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
        let words = ["leafpress", "bench", "--dir", "/mnt/a&b"];
        assert_eq!(repeated(&words), "leafpress bench --dir '/mnt/a&b'");
    }
}
