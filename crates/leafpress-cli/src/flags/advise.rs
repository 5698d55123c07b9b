//! The flags of `leafpress advise`.

use std::path::PathBuf;

use clap::{Args, ValueEnum, ValueHint};

use super::values::file_path;
use super::{parse_amount, parse_number};

/// Say which profile and which way in fit a program, with the figures of the last bench
///
/// The disk under PATH is looked at for half a second; how long the work takes is reckoned from what
/// 'leafpress bench' measured on it, which is kept in your cache folder.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  leafpress advise
  leafpress advise /var/lib/shop/shop.db --writers 16
  leafpress advise --rows 50M --size 4G
  leafpress advise --power-cut may-lose-last --writers 8 --json
  leafpress advise --attached

Exit status: 0 advised, 2 the command line makes no sense, 3 the disk could
not be looked at.")]
pub struct AdviseFlags {
    /// A folder, or a database in it, which need not be there yet
    #[arg(value_name = "PATH", default_value = ".", value_hint = ValueHint::AnyPath,
          value_parser = file_path())]
    pub path: PathBuf,

    /// Rows that come at once, such as 50M
    #[arg(long, value_name = "N", value_parser = parse_amount)]
    pub rows: Option<u64>,

    /// Size of these rows together in bytes, such as 4G
    #[arg(long, value_name = "BYTES", value_parser = parse_amount)]
    pub size: Option<u64>,

    /// Effect that a power cut may have
    #[arg(long, value_name = "WHAT", default_value = "survives")]
    pub power_cut: PowerCutFlag,

    /// Threads of one process that write
    #[arg(long, value_name = "N", default_value = "1", value_parser = parse_number::<u32>)]
    pub writers: u32,

    /// Transactions span attached databases
    #[arg(long)]
    pub attached: bool,

    /// Print the result, or the error, as one JSON object on stdout
    #[arg(long)]
    pub json: bool,
}

/// `--power-cut`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum PowerCutFlag {
    /// None: acknowledged commits survive it
    Survives,
    /// It may take the last moments
    MayLoseLast,
    /// It may destroy the file, which can be made anew
    Rebuildable,
}
