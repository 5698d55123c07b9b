//! The flags of `leafpress queue work`.

use std::path::PathBuf;
use std::time::Duration;

use clap::{ArgGroup, Args, ValueHint};

use super::values::{
    parse_concurrency, parse_duration, parse_exit_code, parse_lease, parse_timeout,
};
use super::{QueueCommonFlags, QueuePlaceFlags};

/// Run a program for every job
///
/// The payload is its standard input; what else there is to know stands in its environment, as
/// LEAFPRESS_JOB_ID, LEAFPRESS_JOB_ATTEMPT, LEAFPRESS_JOB_ATTEMPTS_MAX, LEAFPRESS_JOB_TOKEN,
/// LEAFPRESS_JOB_QUEUE, LEAFPRESS_JOB_PRIORITY, LEAFPRESS_JOB_GROUP, LEAFPRESS_JOB_CORRELATION_ID
/// and LEAFPRESS_JOB_METADATA. The lease is kept alive while it runs. No shell sees any of it.
///
/// It exits with 0: the job is done. With 65, or a code of --dead-on: it is dead. With any other,
/// or by a signal: it is tried again after the queue's backoff, and the end of its stderr is the
/// error. If it runs beyond --timeout, or its lease is lost, its process group gets SIGTERM, and
/// SIGKILL 5 seconds later.
///
/// At SIGTERM or ctrl-C no more jobs are taken, and those that run have --grace to end; a second
/// one kills them. Jobs whose programs were killed for it are given back.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  leafpress queue work jobs.db emails --exec ./send-email --verbose
  leafpress queue work jobs.db pictures -j 8 --timeout 2m --exec make-thumbnail
  leafpress queue work jobs.db reports --until-empty --keep-output --exec ./run
  leafpress queue work jobs.db urls --shell 'read -r url && curl -O \"$url\"'

Exit status: 0 ended as asked, 1 failed after jobs were run (what is settled
stays so), or --until-empty or --max-jobs left jobs undone, 2 the command line
makes no sense, 3 failed before any job was run.")]
#[command(override_usage = "leafpress queue work [OPTIONS] <DB> [QUEUE] --exec <PROGRAM>...")]
#[command(group(ArgGroup::new("program").args(["exec", "shell"]).required(true)))]
#[expect(clippy::struct_excessive_bools, reason = "flags are")]
pub struct QueueWorkFlags {
    /// The queue.
    #[command(flatten)]
    pub place: QueuePlaceFlags,

    /// The program and its arguments: all that follows, so it comes last
    #[arg(long, value_name = "PROGRAM", num_args = 1.., allow_hyphen_values = true,
          value_hint = ValueHint::CommandName)]
    pub exec: Vec<std::ffi::OsString>,

    /// A command for 'sh -c'; never put a payload into it, but read it from stdin
    #[arg(long, value_name = "CMD", value_hint = ValueHint::CommandString)]
    pub shell: Option<std::ffi::OsString>,

    /// Number of programs that run at once
    #[arg(long, short = 'j', value_name = "N", default_value = "1", value_parser = parse_concurrency)]
    pub concurrency: usize,

    /// Time after which others get the jobs if this worker vanishes [default: the queue's lease]
    #[arg(long, value_name = "TIME", value_parser = parse_lease)]
    pub lease: Option<Duration>,

    /// End the program after that time, and try again later
    #[arg(long, value_name = "TIME", value_parser = parse_timeout)]
    pub timeout: Option<Duration>,

    /// Time that programs have to end after SIGTERM or ctrl-C
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = parse_duration)]
    pub grace: Duration,

    /// End when no job is due and none runs; retries that are due later stay
    #[arg(long)]
    pub until_empty: bool,

    /// End after this many jobs
    #[arg(long, value_name = "N", value_parser = super::super::parse_amount)]
    pub max_jobs: Option<u64>,

    /// Exit codes after which the job is dead and not tried again
    #[arg(long, value_name = "CODES", value_delimiter = ',', default_value = "65",
          value_parser = parse_exit_code)]
    pub dead_on: Vec<u8>,

    /// Keep the program's stdout as the job's result, if it has at most 1 MiB
    ///
    /// Of more nothing is kept: the job is done without a result, and a warning says so.
    #[arg(long)]
    pub keep_output: bool,

    /// Name of this worker in lists and histories
    #[arg(long, value_name = "NAME", alias = "name")]
    pub worker: Option<String>,

    /// Run the program in this folder
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub chdir: Option<PathBuf>,

    /// Do not share the database with other processes
    ///
    /// Without it this process and others that share write in turns, first come, first served, and
    /// one sync serves the commits of all.
    #[arg(long)]
    pub no_shared: bool,

    /// Print nothing but errors
    #[arg(long, short)]
    pub quiet: bool,

    /// Flags of every action.
    #[command(flatten)]
    pub common: QueueCommonFlags,
}

/// Flags that many programs have too, so that behind --exec they are likely the program's.
const OF_MANY_PROGRAMS: [&str; 4] = ["help", "version", "quiet", "json"];

impl QueueWorkFlags {
    /// The arguments of the program that are likely meant for the worker: its own flags.
    pub fn misplaced(&self) -> Vec<&str> {
        let command = Self::augment_args(clap::Command::new("work"));
        let names = command.get_arguments().filter_map(clap::Arg::get_long);
        let ours: Vec<&str> = names.filter(|name| !OF_MANY_PROGRAMS.contains(name)).collect();
        let is_ours = |argument: &&str| {
            let name = argument.strip_prefix("--").map(|it| it.split('=').next().unwrap_or(it));
            name.is_some_and(|name| ours.contains(&name))
        };
        let arguments = self.exec.iter().skip(1).filter_map(|argument| argument.to_str());
        arguments.filter(is_ours).collect()
    }
}
