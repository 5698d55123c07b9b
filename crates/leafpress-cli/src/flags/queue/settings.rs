//! The flags of `leafpress queue settings`, `stats` and `schedule`.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand, ValueEnum, ValueHint};
use leafpress::queue::Rate;

use super::super::parse_seconds;
use super::super::values::{database_path, parse_number};
use super::values::{
    BackoffWords, OrNone, parse_backoff, parse_duration, parse_duration_or_none, parse_lease,
    parse_number_or_none, parse_rate,
};
use super::{QueueCommonFlags, QueueLookFlags, QueueNewJobFlags, QueuePlaceFlags};

/// Show the settings of a queue, or change some
///
/// A change makes the database and the queue if they are missing, and holds at once, in every
/// process.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  leafpress queue settings jobs.db emails
  leafpress queue settings jobs.db emails --attempts 10 --keep-dead 30d
  leafpress queue settings jobs.db emails --rate 100/1m --concurrency 8
  leafpress queue settings jobs.db emails --rate none

Exit status: 0 done, 2 the command line makes no sense, 3 failed and nothing
changed.")]
pub struct QueueSettingsFlags {
    /// The queue.
    #[command(flatten)]
    pub place: QueuePlaceFlags,

    /// Time for which a claimed job goes to no other consumer
    #[arg(long, value_name = "TIME", value_parser = parse_lease)]
    pub lease: Option<Duration>,

    /// Number of attempts before a job is dead
    #[arg(long, value_name = "N", value_parser = parse_number::<u32>)]
    pub attempts: Option<u32>,

    /// Time before a retry: FIRST,FACTOR,MAX,JITTER, such as 1s,2,1h,0.2
    ///
    /// FIRST before the second attempt, FACTOR times more before each further one, never more
    /// than MAX; each is shortened or lengthened at random by up to JITTER of itself. Those behind
    /// FIRST may be left out, and stay as they are, but that a MAX below FIRST becomes FIRST.
    #[arg(long, value_name = "WORDS", value_parser = parse_backoff)]
    pub backoff: Option<BackoffWords>,

    /// Time for which done jobs are kept with their results; 0s for not at all
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    pub keep_done: Option<Duration>,

    /// Time for which dead jobs are kept; none for ever
    #[arg(long, value_name = "TIME", value_parser = parse_duration_or_none)]
    pub keep_dead: Option<OrNone<Duration>>,

    /// Number of jobs that may be claimed at once, by all together; none for any number
    #[arg(long, value_name = "N", value_parser = parse_number_or_none)]
    pub concurrency: Option<OrNone<u32>>,

    /// Number of jobs of a group that may be claimed at once
    #[arg(long, value_name = "N", value_parser = parse_number::<u32>)]
    pub group_concurrency: Option<u32>,

    /// Number of jobs that are delivered in a time, such as 100/1m; none for any number
    #[arg(long, value_name = "N/TIME", value_parser = parse_rate)]
    pub rate: Option<OrNone<Rate>>,

    /// Number of jobs of each group that are delivered in a time; none for any number
    #[arg(long, value_name = "N/TIME", value_parser = parse_rate)]
    pub group_rate: Option<OrNone<Rate>>,

    /// Flags of every action.
    #[command(flatten)]
    pub common: QueueCommonFlags,
}

/// Show the numbers of jobs that wait, run and fail, and how fast
///
/// Without QUEUE, all queues of the database.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  leafpress queue stats jobs.db
  leafpress queue stats jobs.db emails --watch
  leafpress queue stats jobs.db --watch 10 --json >> stats.ndjson

Exit status: 0 shown, 2 the command line makes no sense, 3 failed.")]
pub struct QueueStatsFlags {
    /// The database
    #[arg(value_name = "DB", value_hint = ValueHint::FilePath, value_parser = database_path())]
    pub database: PathBuf,

    /// The queue's name [default: all of them]
    #[arg(value_name = "QUEUE")]
    pub queue: Option<String>,

    /// Repeat after this many seconds, until ctrl-C
    ///
    /// On a terminal the same lines are drawn anew; elsewhere each time is a line.
    #[arg(long, value_name = "SECONDS", num_args = 0..=1, default_missing_value = "2",
          value_parser = parse_seconds)]
    pub watch: Option<Duration>,

    /// Flags of every action that only looks.
    #[command(flatten)]
    pub common: QueueLookFlags,
}

/// Push jobs again and again, at times that a cron expression says
#[derive(Debug, Args)]
pub struct QueueScheduleFlags {
    /// The action.
    #[command(subcommand)]
    pub action: QueueScheduleAction,
}

/// Actions on schedules.
#[derive(Debug, Subcommand)]
pub enum QueueScheduleAction {
    Add(Box<QueueScheduleAddFlags>),
    List(QueueScheduleListFlags),
    Remove(QueueScheduleRemoveFlags),
}

/// Add a schedule, or replace the one of its name
///
/// The processes that claim jobs of the queue push the schedule's jobs.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  leafpress queue schedule add jobs.db reports nightly '0 3 * * *' all
  leafpress queue schedule add jobs.db reports mon '0 9 * * 1' --timezone CET

Exit status: 0 done, 2 the command line makes no sense, 3 failed and nothing
changed.")]
pub struct QueueScheduleAddFlags {
    /// The database
    #[arg(value_name = "DB", value_hint = ValueHint::FilePath, value_parser = database_path())]
    pub database: PathBuf,

    /// The queue's name
    #[arg(value_name = "QUEUE")]
    pub queue: String,

    /// The schedule's name
    #[arg(value_name = "NAME")]
    pub name: String,

    /// Times of the jobs: minute, hour, day of the month, month, day of the week
    ///
    /// As in crontab: `30 2 * * MON-FRI`, `*/15 9-17 * * *`, `0 6 L * *` (the last day of each
    /// month), or `@hourly`, `@daily`, `@weekly`, `@monthly`, `@yearly`. Six fields have seconds in
    /// front. If both day fields are given, either is enough; `+MON` wants both.
    #[arg(value_name = "CRON")]
    pub cron: String,

    /// Payload of the jobs
    #[arg(value_name = "PAYLOAD", default_value = "")]
    pub payload: String,

    /// The time zone that CRON is meant in [default: UTC]
    #[arg(long, value_name = "ZONE")]
    pub timezone: Option<String>,

    /// Rule for times that passed while no process claimed jobs [default: once]
    #[arg(long, value_name = "RULE")]
    pub missed: Option<QueueMissedFlag>,

    /// Time after which a job that still waits is dead
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    pub expires: Option<Duration>,

    /// Other properties of the jobs.
    #[command(flatten)]
    pub job: QueueNewJobFlags,

    /// Flags of every action.
    #[command(flatten)]
    pub common: QueueCommonFlags,
}

/// `--missed`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum QueueMissedFlag {
    /// One job for all of them
    Once,
    /// None
    Skip,
    /// A job for each
    All,
}

/// List the schedules of a queue, or of all
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  leafpress queue schedule list jobs.db
  leafpress queue schedule list jobs.db reports

Exit status: 0 listed, 2 the command line makes no sense, 3 failed.")]
pub struct QueueScheduleListFlags {
    /// The database
    #[arg(value_name = "DB", value_hint = ValueHint::FilePath, value_parser = database_path())]
    pub database: PathBuf,

    /// The queue's name [default: all of them]
    #[arg(value_name = "QUEUE")]
    pub queue: Option<String>,

    /// Flags of every action that only looks.
    #[command(flatten)]
    pub common: QueueLookFlags,
}

/// Remove a schedule; jobs that it pushed stay
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  leafpress queue schedule remove jobs.db reports nightly

Exit status: 0 removed, 2 the command line makes no sense, 3 failed, or there
is no such schedule.")]
pub struct QueueScheduleRemoveFlags {
    /// The database
    #[arg(value_name = "DB", value_hint = ValueHint::FilePath, value_parser = database_path())]
    pub database: PathBuf,

    /// The queue's name
    #[arg(value_name = "QUEUE")]
    pub queue: String,

    /// The schedule's name
    #[arg(value_name = "NAME")]
    pub name: String,

    /// Flags of every action.
    #[command(flatten)]
    pub common: QueueCommonFlags,
}
