//! The flags of `leafpress doctor`.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueHint};

use super::values::database_path;
use super::{of_this_build, parse_milliseconds};

/// Show which processes have a database open, and whether that is safe
///
/// Shows their locks, whether a reader or a writer holds the others up, whether the files they have open are still those in the folder, what the file system
/// and the disk promise, and what a crash left behind. Nothing is changed, and no lock is taken
/// for longer than a moment.
#[derive(Debug, Args)]
#[command(after_help = of_this_build("\
Examples:
  leafpress doctor app.db
  leafpress doctor app.db --json
  sudo leafpress doctor /var/lib/shop/shop.db --busy-timeout 1000
  leafpress doctor rqlite://db1:4001,db2:4001,db3:4001

Exit status: 0 nothing needs care, 1 something does, 2 the command line makes
no sense, 3 it could not be looked at."))]
pub struct DoctorFlags {
    /// The database
    #[arg(value_name = "DB", value_hint = ValueHint::FilePath, value_parser = database_path())]
    pub database: PathBuf,

    /// Milliseconds to watch a lock that is held, before it counts as held for long
    #[arg(long, value_name = "MS", default_value = "5000", value_parser = parse_milliseconds)]
    pub busy_timeout: Duration,

    /// Print the result, or the error, as one JSON object on stdout
    #[arg(long)]
    pub json: bool,
}
