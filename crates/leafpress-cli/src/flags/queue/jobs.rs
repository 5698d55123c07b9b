//! The flags of the actions on jobs: push, claim and settle, look and repair.

use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use clap::{Args, ValueEnum, ValueHint};
use leafpress::queue::{JobState, Token, UniqueFor};

use super::super::values::{database_path, parse_number};
use super::values::{
    parse_duration, parse_job_id, parse_lease, parse_priority, parse_time, parse_token,
    parse_unique_for, parse_when,
};
use super::{DEFAULT_QUEUE, QueueCommonFlags, QueueLookFlags, QueuePlaceFlags, When};

/// Add jobs, and print their numbers
///
/// Each PAYLOAD is a job; without any, standard input is one, and must not be empty. The database
/// and the queue are made if they are missing. What is pushed by one command is pushed as one
/// transaction: all or none.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  leafpress queue push jobs.db emails '{\"to\": \"ann\"}' --as-json
  leafpress queue push jobs.db reports weekly --delay 1h --priority 5
  leafpress queue push jobs.db sync customer-17 --unique customer-17
  date | leafpress queue push jobs.db times
  find . -name '*.png' | leafpress queue push jobs.db thumbnails --lines
  leafpress queue push jobs.db orders --ndjson orders.ndjson --batch 10000

A line of --ndjson is an object: {\"payload\": ANY, \"priority\": 5, \"delay\":
\"5m\"}. It may have payload (any JSON) or text (stored as it is), priority,
delay, due, group, unique, unique_for, attempts, expires, correlation_id and
metadata, each as the flag of its name; flags hold for lines that do not say
otherwise.

Exit status: 0 pushed, or a job with its unique key was there already; 1 it
failed, and batches before stay (with --batch); 2 the command line
makes no sense, 3 failed and nothing changed.")]
pub struct QueuePushFlags {
    /// The queue.
    #[command(flatten)]
    pub place: QueuePlaceFlags,

    /// Payload of a job, one job for each; - is standard input
    #[arg(value_name = "PAYLOAD", conflicts_with_all = ["lines", "ndjson"])]
    pub payloads: Vec<String>,

    /// Every line of standard input is a job; empty ones are left out
    #[arg(long, conflicts_with = "ndjson")]
    pub lines: bool,

    /// Every line of FILE (or of standard input) is an object that describes a job
    #[arg(long, value_name = "FILE", num_args = 0..=1, default_missing_value = "-",
          value_hint = ValueHint::FilePath)]
    pub ndjson: Option<PathBuf>,

    /// With --lines or --ndjson: commit after every N jobs, not once for all
    ///
    /// Without it up to 1 GiB is read before anything is pushed, so that all of it is pushed or
    /// nothing.
    #[arg(long, value_name = "N", value_parser = parse_number::<u32>)]
    pub batch: Option<u32>,

    /// Time from now on until the first run
    #[arg(long, value_name = "TIME", value_parser = parse_duration, conflicts_with = "due")]
    pub delay: Option<Duration>,

    /// Time of the first run, such as 2026-01-01T00:00:00Z
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    pub due: Option<SystemTime>,

    /// A moment, or a time from now such as 12h, after which a job that still waits is dead
    ///
    /// Its error is "expired" then.
    #[arg(long, value_name = "TIME", value_parser = parse_when)]
    pub expires: Option<When>,

    /// Push nothing if a job of the queue has this key; the answer is that job's number
    #[arg(long, value_name = "KEY")]
    pub unique: Option<String>,

    /// How long the key is held: 'waiting' (until the job is claimed), 'running' (until it is done or
    /// dead), or a time such as 1h [default: running]
    #[arg(long, value_name = "SCOPE", value_parser = parse_unique_for)]
    pub unique_for: Option<UniqueFor>,

    /// With --batch: do not share the database with other processes
    ///
    /// Without it this process and others that share write in turns, first come, first served, and
    /// one sync serves the commits of all.
    #[arg(long, requires = "batch")]
    pub no_shared: bool,

    /// Other properties of the jobs.
    #[command(flatten)]
    pub job: QueueNewJobFlags,

    /// Flags of every action.
    #[command(flatten)]
    pub common: QueueCommonFlags,
}

/// Properties of a new job, pushed now or by a schedule.
#[derive(Debug, Args)]
pub struct QueueNewJobFlags {
    /// Store payloads as JSON, and refuse those that are none
    #[arg(long)]
    pub as_json: bool,

    /// Priority: jobs with higher numbers come first [default: 0]
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = parse_priority)]
    pub priority: Option<i32>,

    /// Jobs of one group run one after the other, in the order in which they were pushed
    #[arg(long, value_name = "GROUP")]
    pub group: Option<String>,

    /// Number of attempts before the job is dead [default: the queue's]
    #[arg(long, value_name = "N", value_parser = parse_number::<u32>)]
    pub attempts: Option<u32>,

    /// A name that the job shares with others, to find them together
    #[arg(long, value_name = "ID")]
    pub correlation_id: Option<String>,

    /// Anything else about the job, as JSON
    #[arg(long, value_name = "JSON")]
    pub metadata: Option<String>,
}

/// Take jobs by hand, and print each token and payload
///
/// No other consumer gets a claimed job until its lease ends. Each line is the token, a tab, and
/// the payload with its control characters escaped; --json gives all there is, exactly.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  leafpress queue claim jobs.db emails
  leafpress queue claim jobs.db emails --count 10 --lease 5m --json
  leafpress queue claim jobs.db emails --wait 30s

Exit status: 0 there were some, 1 there was none, 2 the command line makes no
sense, 3 failed and nothing changed.")]
pub struct QueueClaimFlags {
    /// The queue.
    #[command(flatten)]
    pub place: QueuePlaceFlags,

    /// Claim at most N jobs
    #[arg(long, short = 'n', value_name = "N", default_value = "1", value_parser = parse_number::<u32>)]
    pub count: u32,

    /// Time until the jobs may go to another consumer [default: the queue's lease]
    #[arg(long, value_name = "TIME", value_parser = parse_lease)]
    pub lease: Option<Duration>,

    /// Wait until there is one; not longer than TIME, if one is given
    #[arg(long, value_name = "TIME", num_args = 0..=1, value_parser = parse_duration)]
    #[expect(clippy::option_option, reason = "not given, given, and given with a time")]
    pub wait: Option<Option<Duration>>,

    /// Name of this consumer in lists and histories
    #[arg(long, value_name = "NAME")]
    pub worker: Option<String>,

    /// Flags of every action.
    #[command(flatten)]
    pub common: QueueCommonFlags,
}

/// Say that jobs are done
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  leafpress queue ack jobs.db 17.1
  leafpress queue ack jobs.db 17.1 --result '{\"sent\": true}'

Exit status: 0 all of them, 1 some had lost their lease, 2 the command line
makes no sense, 3 failed, or all had lost their lease: nothing changed.")]
pub struct QueueAckFlags {
    /// The database
    #[arg(value_name = "DB", value_hint = ValueHint::FilePath, value_parser = database_path())]
    pub database: PathBuf,

    /// The tokens that 'claim' printed
    #[arg(value_name = "TOKEN", required = true, value_parser = parse_token)]
    pub tokens: Vec<Token>,

    /// Result of the job, kept as long as the queue keeps done jobs; for one token
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    pub result: Option<String>,

    /// Flags of every action.
    #[command(flatten)]
    pub common: QueueCommonFlags,
}

/// Say that a job failed and should be tried again
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  leafpress queue nack jobs.db 17.1 --error 'no route to host' --delay 10m

Exit status: 0 it is tried again, or is dead after its last attempt or its
expiry; 2 the command line makes no sense, 3 failed, or the lease is lost:
nothing changed.")]
pub struct QueueNackFlags {
    /// The database
    #[arg(value_name = "DB", value_hint = ValueHint::FilePath, value_parser = database_path())]
    pub database: PathBuf,

    /// The token that 'claim' printed
    #[arg(value_name = "TOKEN", value_parser = parse_token)]
    pub token: Token,

    /// Reason of the failure
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    pub error: Option<String>,

    /// Time until the next attempt [default: the queue's backoff]
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    pub delay: Option<Duration>,

    /// Flags of every action.
    #[command(flatten)]
    pub common: QueueCommonFlags,
}

/// Say that a job can never be done, which moves it to the dead ones
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  leafpress queue fail jobs.db 17.1 --reason 'no such customer'

Exit status: 0 done, 2 the command line makes no sense, 3 failed, or the lease
is lost: nothing changed.")]
pub struct QueueFailFlags {
    /// The database
    #[arg(value_name = "DB", value_hint = ValueHint::FilePath, value_parser = database_path())]
    pub database: PathBuf,

    /// The token that 'claim' printed
    #[arg(value_name = "TOKEN", value_parser = parse_token)]
    pub token: Token,

    /// Reason of the failure
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    pub reason: String,

    /// Flags of every action.
    #[command(flatten)]
    pub common: QueueCommonFlags,
}

/// Give a job back as if it had never been claimed
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  leafpress queue release jobs.db 17.1

Exit status: 0 done, 2 the command line makes no sense, 3 failed, or the lease
is lost: nothing changed.")]
pub struct QueueReleaseFlags {
    /// The database
    #[arg(value_name = "DB", value_hint = ValueHint::FilePath, value_parser = database_path())]
    pub database: PathBuf,

    /// The token that 'claim' printed
    #[arg(value_name = "TOKEN", value_parser = parse_token)]
    pub token: Token,

    /// Flags of every action.
    #[command(flatten)]
    pub common: QueueCommonFlags,
}

/// Keep a job for longer: the lease is measured anew, from now
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  leafpress queue extend jobs.db 17.1 --lease 10m

Exit status: 0 done, 2 the command line makes no sense, 3 failed, or the lease
is lost: nothing changed.")]
pub struct QueueExtendFlags {
    /// The database
    #[arg(value_name = "DB", value_hint = ValueHint::FilePath, value_parser = database_path())]
    pub database: PathBuf,

    /// The token that 'claim' printed
    #[arg(value_name = "TOKEN", value_parser = parse_token)]
    pub token: Token,

    /// Lease from now on
    #[arg(long, value_name = "TIME", value_parser = parse_lease)]
    pub lease: Duration,

    /// Flags of every action.
    #[command(flatten)]
    pub common: QueueCommonFlags,
}

/// `--state`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum QueueStateFlag {
    /// May be claimed
    Ready,
    /// Claimed, and not settled yet
    Leased,
    /// Due later: pushed so, or to be tried again
    Delayed,
    /// Behind another job of its group
    Blocked,
    /// Acknowledged, and kept for a time
    Done,
    /// Given up: failed too often, for good, or expired
    Dead,
}

impl From<QueueStateFlag> for JobState {
    fn from(flag: QueueStateFlag) -> Self {
        match flag {
            QueueStateFlag::Ready => Self::Ready,
            QueueStateFlag::Leased => Self::Leased,
            QueueStateFlag::Delayed => Self::Delayed,
            QueueStateFlag::Blocked => Self::Blocked,
            QueueStateFlag::Done => Self::Done,
            QueueStateFlag::Dead => Self::Dead,
        }
    }
}

/// List the jobs of a queue
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  leafpress queue list jobs.db emails
  leafpress queue list jobs.db emails --state dead --newest
  leafpress queue list jobs.db emails --state ready,leased --limit 1000 --json

Exit status: 0 listed, 2 the command line makes no sense, 3 failed.")]
pub struct QueueListFlags {
    /// The queue.
    #[command(flatten)]
    pub place: QueuePlaceFlags,

    /// Only jobs in these states; with commas, or repeated
    #[arg(long, value_name = "STATE", value_delimiter = ',')]
    pub state: Vec<QueueStateFlag>,

    /// Only jobs of this group
    #[arg(long, value_name = "GROUP")]
    pub group: Option<String>,

    /// Only jobs with larger numbers, or smaller ones with --newest: the next page
    #[arg(long, value_name = "ID", value_parser = parse_job_id)]
    pub after: Option<i64>,

    /// List at most N jobs
    #[arg(long, value_name = "N", default_value = "50", value_parser = parse_number::<u32>)]
    pub limit: u32,

    /// The newest first, not the oldest
    #[arg(long)]
    pub newest: bool,

    /// Flags of every action that only looks.
    #[command(flatten)]
    pub common: QueueLookFlags,
}

/// Show all there is about a job, with its attempts
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  leafpress queue show jobs.db 17
  leafpress queue show jobs.db 17 --json

Exit status: 0 shown, 2 the command line makes no sense, 3 failed, or there is
no such job.")]
pub struct QueueShowFlags {
    /// The database
    #[arg(value_name = "DB", value_hint = ValueHint::FilePath, value_parser = database_path())]
    pub database: PathBuf,

    /// The job's number
    #[arg(value_name = "ID", value_parser = parse_job_id)]
    pub id: i64,

    /// Flags of every action that only looks.
    #[command(flatten)]
    pub common: QueueLookFlags,
}

/// Try dead jobs again, with all their attempts
#[derive(Debug, Args)]
#[command(override_usage = "leafpress queue retry [OPTIONS] <DB> <ID>...
       leafpress queue retry [OPTIONS] <DB> [QUEUE] --all-dead")]
#[command(after_help = "\
Examples:
  leafpress queue retry jobs.db 17 18
  leafpress queue retry jobs.db emails --all-dead

Exit status: 0 all of them (with --all-dead also if none was dead), 1 some were
not dead, or it failed after a part, which stays, 2 the command line makes no
sense, 3 failed, or none of the jobs that were named was dead: nothing
changed.")]
pub struct QueueRetryFlags {
    /// The database
    #[arg(value_name = "DB", value_hint = ValueHint::FilePath, value_parser = database_path())]
    pub database: PathBuf,

    /// The jobs' numbers; with --all-dead the queue's name [default: default]
    #[arg(value_name = "ID|QUEUE", required_unless_present = "all_dead")]
    pub words: Vec<String>,

    /// All dead jobs of the queue
    #[arg(long)]
    pub all_dead: bool,

    /// Flags of every action.
    #[command(flatten)]
    pub common: QueueCommonFlags,
}

impl QueueRetryFlags {
    /// The queue whose dead jobs are all meant, if it is that.
    pub fn queue(&self) -> Result<Option<&str>, String> {
        match (self.all_dead, &self.words[..]) {
            (true, []) => Ok(Some(DEFAULT_QUEUE)),
            (true, [queue]) => Ok(Some(queue)),
            (true, _) => Err("with --all-dead there is one queue, and no numbers".to_owned()),
            (false, _) => Ok(None),
        }
    }

    /// The jobs that are meant.
    pub fn ids(&self) -> Result<Vec<i64>, String> {
        let ids = self.words.iter().map(|word| {
            parse_job_id(word).map_err(|wrong| format!("'{word}': {wrong}, or add --all-dead"))
        });
        ids.collect()
    }
}

/// Remove jobs, whatever their state
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  leafpress queue remove jobs.db 17 18

A job that runs may be removed: its consumer learns that the lease is lost.

Exit status: 0 all of them, 1 some were not there, 2 the command line makes no
sense, 3 failed, or none was there: nothing changed.")]
pub struct QueueRemoveFlags {
    /// The database
    #[arg(value_name = "DB", value_hint = ValueHint::FilePath, value_parser = database_path())]
    pub database: PathBuf,

    /// The jobs' numbers
    #[arg(value_name = "ID", value_parser = parse_job_id, required = true)]
    pub ids: Vec<i64>,

    /// Flags of every action.
    #[command(flatten)]
    pub common: QueueCommonFlags,
}

/// Remove all jobs in some state
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  leafpress queue purge jobs.db emails --state dead --older-than 7d
  leafpress queue purge jobs.db emails --state ready,delayed --yes

Exit status: 0 done, 1 it failed after a part was removed, 2 the command line
makes no sense, or jobs that are neither done nor dead need --yes (without a
terminal and with --json, no question is asked), 3 failed, or the answer was
no: nothing changed.")]
pub struct QueuePurgeFlags {
    /// The queue.
    #[command(flatten)]
    pub place: QueuePlaceFlags,

    /// Jobs in these states; with commas, or repeated
    #[arg(long, value_name = "STATE", value_delimiter = ',', required = true)]
    pub state: Vec<QueueStateFlag>,

    /// Only jobs that have been in their state for that long
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    pub older_than: Option<Duration>,

    /// Ask no question about jobs that are neither done nor dead
    #[arg(long, short)]
    pub yes: bool,

    /// Flags of every action.
    #[command(flatten)]
    pub common: QueueCommonFlags,
}
