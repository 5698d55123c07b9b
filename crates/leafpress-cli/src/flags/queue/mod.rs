//! The flags of `leafpress queue`: the actions, and what they share.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand, ValueEnum, ValueHint};
use leafpress::Profile;

mod jobs;
mod settings;
mod values;
mod work;

pub use self::jobs::{
    QueueAckFlags, QueueClaimFlags, QueueExtendFlags, QueueFailFlags, QueueListFlags,
    QueueNackFlags, QueueNewJobFlags, QueuePurgeFlags, QueuePushFlags, QueueReleaseFlags,
    QueueRemoveFlags, QueueRetryFlags, QueueShowFlags, QueueStateFlag,
};
pub use self::settings::{
    QueueMissedFlag, QueueScheduleAction, QueueScheduleAddFlags, QueueScheduleFlags,
    QueueScheduleListFlags, QueueScheduleRemoveFlags, QueueSettingsFlags, QueueStatsFlags,
};
pub use self::values::{OrNone, When};
pub use self::values::{parse_duration, parse_time, parse_unique_for, parse_when};
pub use self::work::QueueWorkFlags;
use super::values::database_path;
use super::{of_this_build, parse_milliseconds};

/// The queue where none is named.
const DEFAULT_QUEUE: &str = "default";

/// Durable jobs in a database: push, work off, look, repair
///
/// A queue is some tables in a SQLite database, which may hold other things as well: no server,
/// any number of processes. A job that was pushed is delivered until it is acknowledged, at least
/// once; one whose consumer vanished comes again after its lease.
#[derive(Debug, Args)]
#[command(arg_required_else_help = true)]
#[command(after_help = of_this_build("\
Examples:
  leafpress queue push jobs.db emails '{\"to\": \"ann\"}'
  leafpress queue work jobs.db emails --concurrency 4 --exec ./send-email
  leafpress queue stats jobs.db
  leafpress queue list jobs.db emails --state dead
  leafpress queue retry jobs.db emails --all-dead
  leafpress queue stats rqlite://db1:4001,db2:4001,db3:4001

Exit status: 0 all done, 1 done in part or nothing was there (each action says
which), 2 the command line makes no sense, 3 failed and nothing changed."))]
pub struct QueueFlags {
    /// The action.
    #[command(subcommand)]
    pub action: QueueAction,
}

/// Actions on a queue.
#[derive(Debug, Subcommand)]
pub enum QueueAction {
    Push(Box<QueuePushFlags>),
    Work(Box<QueueWorkFlags>),
    Claim(QueueClaimFlags),
    Ack(QueueAckFlags),
    Nack(QueueNackFlags),
    Fail(QueueFailFlags),
    Release(QueueReleaseFlags),
    Extend(QueueExtendFlags),
    List(QueueListFlags),
    Show(QueueShowFlags),
    Stats(QueueStatsFlags),
    Retry(QueueRetryFlags),
    Remove(QueueRemoveFlags),
    Purge(QueuePurgeFlags),
    /// Deliver no more jobs until 'resume'; pushes go on, and so do jobs that run
    #[command(after_help = "\
Example:
  leafpress queue pause jobs.db emails

Exit status: 0 done, 2 the command line makes no sense, 3 failed and nothing
changed.")]
    Pause(QueueNamedFlags),
    /// Deliver jobs again
    #[command(after_help = "\
Example:
  leafpress queue resume jobs.db emails

Exit status: 0 done, 2 the command line makes no sense, 3 failed and nothing
changed.")]
    Resume(QueueNamedFlags),
    Settings(Box<QueueSettingsFlags>),
    Schedule(QueueScheduleFlags),
}

/// A queue, and nothing else.
#[derive(Debug, Args)]
pub struct QueueNamedFlags {
    /// The queue.
    #[command(flatten)]
    pub place: QueuePlaceFlags,

    /// Flags of every action.
    #[command(flatten)]
    pub common: QueueCommonFlags,
}

/// A database and one of its queues.
#[derive(Debug, Args)]
pub struct QueuePlaceFlags {
    /// The database
    #[arg(value_name = "DB", value_hint = ValueHint::FilePath, value_parser = database_path())]
    pub database: PathBuf,

    /// The queue's name
    #[arg(value_name = "QUEUE", default_value = DEFAULT_QUEUE)]
    pub queue: String,
}

/// Flags of every action.
#[derive(Debug, Args)]
pub struct QueueCommonFlags {
    /// Durability profile of the database, which keeps the journal mode that it sets
    ///
    /// Without it a new database and one in WAL mode is opened as durable, another as rollback.
    #[arg(long, value_name = "PROFILE")]
    pub profile: Option<QueueProfileFlag>,

    /// Milliseconds to wait for other programs that write
    #[arg(long, value_name = "MS", default_value = "5000", value_parser = parse_milliseconds)]
    pub busy_timeout: Duration,

    /// Print the result, or the error, as one JSON object on stdout
    #[arg(long)]
    pub json: bool,
}

/// Flags of every action that only looks. A profile would change the journal mode.
#[derive(Debug, Args)]
pub struct QueueLookFlags {
    /// Milliseconds to wait for other programs that write
    #[arg(long, value_name = "MS", default_value = "5000", value_parser = parse_milliseconds)]
    pub busy_timeout: Duration,

    /// Print the result, or the error, as one JSON object on stdout
    #[arg(long)]
    pub json: bool,
}

impl From<&QueueLookFlags> for QueueCommonFlags {
    fn from(flags: &QueueLookFlags) -> Self {
        Self { profile: None, busy_timeout: flags.busy_timeout, json: flags.json }
    }
}

/// `--profile`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum QueueProfileFlag {
    /// Nothing: the write-ahead log is synced at every commit
    Durable,
    /// The last moments, if the power fails: the log is synced now and then
    Relaxed,
    /// Nothing: a rollback journal, synced at every commit
    Rollback,
}

impl From<QueueProfileFlag> for Profile {
    fn from(flag: QueueProfileFlag) -> Self {
        match flag {
            QueueProfileFlag::Durable => Self::Durable,
            QueueProfileFlag::Relaxed => Self::Relaxed,
            QueueProfileFlag::Rollback => Self::Rollback,
        }
    }
}
