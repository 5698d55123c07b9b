//! The flags of `leafpress shard` and `leafpress shards`.

use std::path::PathBuf;
use std::str::FromStr as _;
use std::time::Duration;

use clap::{Args, Subcommand, ValueHint};
use leafpress::load::Preset;
use leafpress_shards::RouteBy;

use super::load::{BadRowFlags, ColumnFlags, InputFlags, LayoutFlag, OnConflictFlag};
use super::queue::parse_duration;
use super::values::{Names, parse_memory, parse_names, parse_number, parse_page_size, shards_path};

/// Split files into many SQLite files with a manifest
///
/// Rows go into parts by a hash, by ranges of a column, or by count. Each part is an ordinary SQLite
/// file with the whole schema. A manifest names the parts with their checksums and keys, and
/// becomes current once all parts are complete: readers see a run whole, or the one before it.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  leafpress shard people.csv --out people --by 'hash(id)' --parts 16 --pk id
  leafpress shard 'logs/*.ndjson.gz' --out logs --by 'range(at)' --parts 8 \\
      --table log --index at
  leafpress shard a.csv --out s3://bucket/people --by 'hash(id)' --parts 16
  leafpress shard big.parquet --out big --by rows --parts 4 --json

Exit status: 0 all done, 1 done but rows were rejected, 2 the command line
makes no sense, 3 failed: the run that was current still is.")]
pub struct ShardFlags {
    /// The files to split; '-' is standard input
    #[arg(value_name = "INPUT", required = true, value_hint = ValueHint::FilePath)]
    pub inputs: Vec<PathBuf>,

    /// Folder of the shards, which is made if it does not exist, or URL of a place in an object store
    #[arg(long, short, value_name = "FOLDER", value_hint = ValueHint::DirPath,
          value_parser = shards_path())]
    pub out: PathBuf,

    /// Rule by which rows are split: hash(COL,…), range(COL), rows or bytes
    #[arg(long, value_name = "HOW", default_value = "rows")]
    pub by: RouteBy,

    /// Number of parts, from 1 to 512
    #[arg(long, value_name = "N")]
    pub parts: usize,

    /// Seed of the hash
    #[arg(long, value_name = "N", default_value = "0")]
    pub seed: u64,

    #[command(flatten)]
    pub table: ShardTableFlags,
    #[command(flatten)]
    pub columns: ColumnFlags,
    #[command(flatten)]
    pub input: InputFlags,
    #[command(flatten)]
    pub bad_rows: BadRowFlags,
    #[command(flatten)]
    pub run: ShardRunFlags,
}

/// Table of each part.
#[derive(Debug, Args)]
#[command(next_help_heading = "The table")]
pub struct ShardTableFlags {
    /// Name of the table [default: the first input's name without its endings]
    #[arg(long, value_name = "NAME")]
    pub table: Option<String>,

    /// Columns of the primary key; repeatable. It is checked within each part
    #[arg(long, alias = "primary-key", value_name = "A,B", value_parser = parse_names)]
    pub pk: Vec<Names>,

    /// Make the table one B-tree in the order of its primary key
    #[arg(long)]
    pub without_rowid: bool,

    /// Make an index over columns, such as 'name NOCASE, born DESC'; repeatable
    #[arg(long, value_name = "COLS")]
    pub index: Vec<String>,

    /// Rule for rows of one part that share a key [default: abort]
    ///
    /// With abort they end the command, and are named by their lines in that part. But where rows are
    /// split by columns of the key, --on-error skip makes all but the first of them bad rows. Other rules
    /// need rows that are split by columns of the key, or one part.
    #[arg(long, value_name = "HOW")]
    pub on_conflict: Option<OnConflictFlag>,

    /// Make a STRICT table: SQLite refuses other types later, too
    #[arg(long)]
    pub strict: bool,

    /// Fill sqlite_stat1 for SQLite's planner, as ANALYZE does
    #[arg(long)]
    pub analyze: bool,

    /// Bytes in a page: a power of two from 512 to 65536 [default: 4096]
    #[arg(long, value_name = "N", value_parser = parse_page_size)]
    pub page_size: Option<u32>,

    /// Order of the pages [default: local]
    #[arg(long, value_name = "FOR")]
    pub layout: Option<LayoutFlag>,

    /// Settings of the parts for their place: rqlite, litefs, httpvfs or mobile
    #[arg(long, value_name = "PLACE", value_parser = Preset::from_str)]
    pub preset: Option<Preset>,
}

/// Threads, memory and messages.
#[derive(Debug, Args)]
#[command(next_help_heading = "The run")]
pub struct ShardRunFlags {
    /// Number of threads [default: one per core]
    #[arg(long, short = 'j', value_name = "N", value_parser = parse_number::<usize>)]
    pub threads: Option<usize>,

    /// Memory for sorting, over all parts, such as 512M or 1T [default: a quarter of the
    /// memory that this process may use, at most 1G]
    #[arg(long, value_name = "SIZE", value_parser = parse_memory)]
    pub memory: Option<usize>,

    /// Print nothing but errors
    #[arg(long, short)]
    pub quiet: bool,

    /// Print the result, or the error, as one JSON object on stdout
    #[arg(long)]
    pub json: bool,
}

/// List, check and tidy a folder of shards
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  leafpress shards list people
  leafpress shards verify people
  leafpress shards rollback people
  leafpress shards gc people --dry-run

Exit status: 0 all done, 1 problems found, 2 the command line makes no sense,
3 failed and nothing changed.")]
pub struct ShardsFlags {
    /// The action
    #[command(subcommand)]
    pub action: ShardsAction,
}

const LIST_EXAMPLES: &str = "\
Examples:
  leafpress shards list people
  leafpress shards list s3://bucket/people --json

Exit status: 0 listed, 1 a run cannot be read, 2 the command line makes no
sense, 3 failed.";

const VERIFY_EXAMPLES: &str = "\
Examples:
  leafpress shards verify people
  leafpress shards verify s3://bucket/people --json

Exit status: 0 sound, 1 problems found, 2 the command line makes no sense, 3
could not be checked.";

const ROLLBACK_EXAMPLES: &str = "\
Examples:
  leafpress shards rollback people
  leafpress shards rollback people --to 20260730T104512123Z-1f

Exit status: 0 another run is current, 2 the command line makes no sense, 3
failed and nothing changed.";

const GC_EXAMPLES: &str = "\
Examples:
  leafpress shards gc people --dry-run
  leafpress shards gc people --older-than 7d

Exit status: 0 done, 1 some files could not be looked at or removed, 2 the
command line makes no sense, 3 failed.";

/// Actions of `leafpress shards`.
#[derive(Debug, Subcommand)]
pub enum ShardsAction {
    /// List the runs; a star marks the one that readers take
    #[command(after_help = LIST_EXAMPLES)]
    List(ShardsFolderFlags),
    /// Check each part of the current run: size, checksum, rows, integrity_check
    ///
    /// Also checks that the database of the manifest says the same as the manifest.
    #[command(after_help = VERIFY_EXAMPLES)]
    Verify(ShardsFolderFlags),
    /// Make the run before the current one current again, or the one that is named
    #[command(after_help = ROLLBACK_EXAMPLES)]
    Rollback {
        /// The folder
        #[command(flatten)]
        folder: ShardsFolderFlags,
        /// Name of the run [default: the one before]
        #[arg(long, value_name = "RUN")]
        to: Option<String>,
    },
    /// Remove files that no manifest names
    ///
    /// These are parts of attempts that lost, and of runs that ended without a manifest. Published
    /// runs stay.
    #[command(after_help = GC_EXAMPLES)]
    Gc {
        /// The folder
        #[command(flatten)]
        folder: ShardsFolderFlags,
        /// Leave files that changed less than this ago, as their run may go on
        ///
        /// With a short TIME a run that goes on may lose its files, and fails.
        #[arg(long, value_name = "TIME", default_value = "1d", value_parser = parse_duration)]
        older_than: Duration,
        /// Only list them
        #[arg(long)]
        dry_run: bool,
    },
}

/// The folder, and the form of the result.
#[derive(Debug, Args)]
pub struct ShardsFolderFlags {
    /// The folder of the shards, or their URL in an object store
    #[arg(value_name = "FOLDER", value_hint = ValueHint::DirPath)]
    pub folder: PathBuf,

    /// Print the result, or the error, as one JSON object on stdout
    #[arg(long)]
    pub json: bool,
}
