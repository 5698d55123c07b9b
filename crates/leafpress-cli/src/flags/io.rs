//! The flags of `leafpress io`.

use std::path::PathBuf;
use std::time::Duration;

use clap::{ArgGroup, Args, ValueEnum, ValueHint};
use leafpress::Profile;
use leafpress::profile::Locking;

use super::parse_milliseconds;
use super::values::{file_path, parse_number};

/// Run SQL on a copy of a database, and show what each transaction costs the disk
///
/// Every call that SQLite makes is counted: reads, writes, syncs, by file, for each transaction.
/// Then it is told how the commits were made, and what keeps them from being one page written in
/// place where they could be: an index, AUTOINCREMENT, the page size, the disk. The copy is made
/// beside the database, as the disk and its file system matter, and removed afterwards, with
/// those of databases that the SQL attaches. Rows that queries give are counted, not shown.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  leafpress io shop.db -c 'UPDATE stock SET n = n - 1 WHERE id = 7'
  leafpress io shop.db day.sql
  leafpress io shop.db day.sql --profile rollback --locking exclusive
  leafpress io shop.db -c 'INSERT INTO log(what) VALUES (1)' --repeat 500
  leafpress io shop.db day.sql --profile rollback --assume-atomic
  generate | leafpress io shop.db - --json

Exit status: 0 done, 1 with --in-place: a statement failed after others had
been committed, 2 the command line makes no sense, 3 failed and nothing
changed.")]
#[command(override_usage = "leafpress io [OPTIONS] <DB> <-c <SQL>|FILE>")]
#[command(group(ArgGroup::new("sql").args(["commands", "file"]).required(true).multiple(true)))]
#[expect(clippy::struct_excessive_bools, reason = "flags are")]
pub struct IoFlags {
    /// The database
    #[arg(value_name = "DB", value_hint = ValueHint::FilePath, value_parser = file_path())]
    pub database: PathBuf,

    /// A file of SQL statements; - is standard input
    #[arg(value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub file: Option<PathBuf>,

    /// SQL to run, before that of FILE; may be given several times
    #[arg(long = "command", short = 'c', value_name = "SQL", allow_hyphen_values = true)]
    pub commands: Vec<String>,

    /// The settings to run under [default: those that fit the database]
    ///
    /// For a database in WAL mode that is durable, else rollback. On the copy any other can be
    /// tried. With --in-place the database's journal mode becomes that of the profile, and stays.
    #[arg(long, value_name = "PROFILE")]
    pub profile: Option<ProfileFlag>,

    /// Use of the database by other connections meanwhile
    ///
    /// A connection that holds it alone writes no change counter and takes no locks for each
    /// transaction. Not for WAL mode.
    #[arg(long, value_name = "HOW", default_value = "shared")]
    pub locking: LockingFlag,

    /// Take your word that the disk writes pages whole
    ///
    /// Shows what atomic writes would bring where the disk has none, or does not say so. On the
    /// copy nothing can come of it.
    #[arg(long)]
    pub assume_atomic: bool,

    /// Run with little memory, as on a small device
    #[arg(long)]
    pub small: bool,

    /// Run all of it N times, and show medians and what differs now and then
    #[arg(long, value_name = "N", default_value = "1", hide_default_value = true,
          value_parser = parse_number::<u32>)]
    pub repeat: u32,

    /// Change the database itself, for good, in the place of a copy
    #[arg(long)]
    pub in_place: bool,

    /// Make the copy in this folder, whose disk is then measured
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath, conflicts_with = "in_place")]
    pub copy_to: Option<PathBuf>,

    /// Milliseconds to wait for other programs that write
    #[arg(long, value_name = "MS", default_value = "5000", value_parser = parse_milliseconds)]
    pub busy_timeout: Duration,

    /// Show SQLite's memory as well
    #[arg(long)]
    pub memory: bool,

    /// Print the result, or the error, as one JSON object on stdout
    #[arg(long)]
    pub json: bool,
}

/// `--profile`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ProfileFlag {
    /// Write-ahead log, synced at every commit
    Durable,
    /// Write-ahead log, synced now and then
    Relaxed,
    /// Rollback journal, or a page in place, synced at every commit
    Rollback,
    /// Never synced; on a copy only
    Rebuildable,
}

impl From<ProfileFlag> for Profile {
    fn from(flag: ProfileFlag) -> Self {
        match flag {
            ProfileFlag::Durable => Self::Durable,
            ProfileFlag::Relaxed => Self::Relaxed,
            ProfileFlag::Rollback => Self::Rollback,
            ProfileFlag::Rebuildable => Self::Rebuildable,
        }
    }
}

/// `--locking`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum LockingFlag {
    /// All others may use it between two transactions
    Shared,
    /// No other connection may use it
    Exclusive,
}

impl From<LockingFlag> for Locking {
    fn from(flag: LockingFlag) -> Self {
        match flag {
            LockingFlag::Shared => Self::Shared,
            LockingFlag::Exclusive => Self::Exclusive,
        }
    }
}
