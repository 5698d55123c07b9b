//! The flags of `leafpress storage`.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueHint};

use super::values::{file_path, parse_seconds};

/// Measure what a disk can do, and say which durability profile fits
///
/// Measures the time of a sync and the speed of page writes. Names the file system and the disk,
/// says if it lies on a network, in memory or in a container, and which of that may break a
/// promise. Writes up to 256 MB into a hidden file and removes it again; touches no database.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  leafpress storage
  leafpress storage /var/lib/shop/shop.db
  leafpress storage /mnt/disk --seconds 10 --json

Exit status: 0 measured, 2 the command line makes no sense, 3 could not be
measured.")]
pub struct StorageFlags {
    /// A folder, or a database in it, which need not be there yet
    #[arg(value_name = "PATH", default_value = ".", value_hint = ValueHint::AnyPath,
          value_parser = file_path())]
    pub path: PathBuf,

    /// About how long to measure [default: 2]
    #[arg(long, value_name = "SECONDS", value_parser = parse_seconds)]
    pub seconds: Option<Duration>,

    /// Measure for less than a second, for the order of magnitude
    #[arg(long, conflicts_with = "seconds")]
    pub quick: bool,

    /// Print the result, or the error, as one JSON object on stdout
    #[arg(long)]
    pub json: bool,
}
