//! The flags of `leafpress bench`.

use std::path::PathBuf;

use clap::builder::{PossibleValue, PossibleValuesParser};
use clap::{Args, Subcommand, ValueEnum, ValueHint};
use leafpress::vfs::DiskModel;

use super::{parse_amount, parse_number};

/// Flags that say how to measure, which `--from` does not do.
const MEASURING: [&str; 18] = [
    "experiments",
    "bytes",
    "rows",
    "keys",
    "commits",
    "transactions",
    "full",
    "xfs_loop",
    "assume_atomic",
    "waiting",
    "repeats",
    "dir",
    "only",
    "quick",
    "large",
    "simulate",
    "max_disk",
    "keep_cache",
];

/// Repeat the classic experiments on this machine's own disk, beside the best that SQL can do
///
/// Each piece of work runs in a process of its own, in turns with its rivals; what they left is
/// compared. Without a name all experiments run, each with what matters most of it, in less than ten
/// minutes. Temporary files are removed at the end. Ctrl-C ends it with the report of what is done.
#[derive(Debug, Args)]
#[command(subcommand_negates_reqs = true, args_conflicts_with_subcommands = true)]
#[command(after_help = "\
Examples:
  leafpress bench --quick --html report.html
  leafpress bench ladder presort --json report.json
  leafpress bench load presort --large --dir /mnt/disk --json report.json
  leafpress bench load --only csv_vs_sql --bytes 100M --repeats 3
  leafpress bench presort --only keys_vs_sql,spill_vs_batches --keys 1M
  leafpress bench writer checkpoint --json commits.json
  leafpress bench writer --only blocking64,alone --repeats 5
  leafpress bench atomic --xfs-loop --json atomic.json
  leafpress bench ladder cycles --simulate sdcard
  leafpress bench queue queue-inserts --waiting 1M --json queue.json
  leafpress bench shared --html shared.html

Exit status: 0 all done, 1 a documented limit was not kept, or it was stopped
or failed half-way and the report has what was done, or a file could not be
written, 2 the command line makes no sense, 3 nothing was measured, rungs left
different rows, or stdout could not be written.")]
pub struct BenchFlags {
    /// Experiments to run; several make one report [default: the best of all]
    #[arg(value_name = "EXPERIMENT")]
    pub experiments: Vec<BenchExperimentFlag>,

    /// Size of each file to load: bytes, or as in 50M, 1G [default: 100M]
    #[arg(long, value_name = "N", value_parser = parse_amount)]
    pub bytes: Option<u64>,

    /// Number of rows to make in memory; repeatable [default: 5M]
    ///
    /// The smallest number is also what a new table in an existing database gets.
    #[arg(long, value_name = "N", value_delimiter = ',', value_parser = parse_amount)]
    pub rows: Vec<u64>,

    /// Number of rows with random keys to make [default: 1M]
    ///
    /// The rows that spill are five times as many (in 512 MiB by default, and less as they are
    /// less), the rows of the indexed table a tenth more, the appended rows a tenth.
    #[arg(long, value_name = "N", value_parser = parse_amount)]
    pub keys: Option<u64>,

    /// Number of one-row commits of 'checkpoint' [default: 200k]
    ///
    /// With slow syncs a tenth of them, with a long reader three tenths, with short readers and
    /// without checkpoints a fifth.
    #[arg(long, value_name = "N", value_parser = parse_amount)]
    pub commits: Option<u64>,

    /// Flags of 'atomic'.
    #[command(flatten)]
    pub atomic: BenchAtomicFlags,

    /// Largest number of jobs that wait in 'queue', for a claim among them [default: 300k]
    ///
    /// Ten million take 1 GB of disk, and the copy that is claimed from as much again.
    #[arg(long, value_name = "N", value_parser = parse_amount)]
    pub waiting: Option<u64>,

    /// Number of runs of each rung [default: 3, with --quick 2, with --large 5 of loads]
    #[arg(long, value_name = "N", value_parser = parse_number::<usize>)]
    pub repeats: Option<usize>,

    /// A folder on the disk to be measured
    #[arg(long, value_name = "DIR", default_value = ".", value_hint = ValueHint::DirPath)]
    pub dir: PathBuf,

    /// Only what gives this ratio, such as csv_vs_sql; repeatable
    ///
    /// 'billion' loads a billion rows (20 GB of disk), which runs only if it is named.
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    pub only: Vec<String>,

    /// Less than a minute for all experiments together: small inputs and two rounds, unless a flag asks
    /// for more
    #[arg(long)]
    pub quick: bool,

    /// As large as the originals: twenty minutes for all together, up to 20 GB of disk
    ///
    /// Where experiments are named, no round after the third begins once twenty minutes will not do, except
    /// with --repeats.
    #[arg(long, conflicts_with = "quick")]
    pub large: bool,

    /// Play a slower disk on this one
    ///
    /// Syncs and writes of SQLite and of Leafpress take as long as on that disk, by a model with
    /// published figures (docs/experiments.md); reads come from memory. The report says
    /// everywhere that the disk is simulated.
    #[arg(long, value_name = "DISK", value_parser = simulated_disks())]
    pub simulate: Option<String>,

    /// Never take more than N bytes of disk [default: 2G, with --large 25G]
    #[arg(long, value_name = "N", value_parser = parse_amount)]
    pub max_disk: Option<u64>,

    /// Write the report as one JSON object to FILE; '-' is stdout, instead of the tables
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub json: Option<PathBuf>,

    /// Draw the report as a page: one file, without network
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub html: Option<PathBuf>,

    /// Write a line for each rung to FILE, as CSV; '-' is stdout, instead of the tables
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub csv: Option<PathBuf>,

    /// Print and draw what an earlier run wrote with --json, and measure nothing; '-' is stdin
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, conflicts_with_all = MEASURING)]
    pub from: Option<PathBuf>,

    /// Leave the page cache as it is, also where root could drop it
    ///
    /// Without it, the system's page cache is dropped before each group of rungs (not with --quick),
    /// which slows other programs down for a while.
    #[arg(long)]
    pub keep_cache: bool,

    /// Do one rung in this process (for the experiments themselves).
    #[arg(long, value_name = "REQUEST", hide = true)]
    pub rung: Option<String>,

    /// Something else than an experiment.
    #[command(subcommand)]
    pub part: Option<BenchPart>,
}

/// The disks that can be played, each with what it is.
fn simulated_disks() -> PossibleValuesParser {
    let value = |model: DiskModel| PossibleValue::new(model.name).help(model.to_string());
    PossibleValuesParser::new(DiskModel::ALL.map(value))
}

/// Flags of 'atomic'.
#[derive(Debug, Args)]
pub struct BenchAtomicFlags {
    /// Number of one-row transactions of each rung of 'atomic' [default: 1k]
    ///
    /// On a slow disk fewer: none is begun after 0.3 seconds.
    #[arg(long, value_name = "N", value_parser = parse_amount)]
    pub transactions: Option<u64>,

    /// In 'atomic', every journal mode under every 'synchronous'
    #[arg(long)]
    pub full: bool,

    /// In 'atomic', measure on an XFS file system in a file too; needs root
    ///
    /// It is made in a file of DIR, mounted by a loop device in a temporary folder, and unmounted at
    /// the end. XFS writes pages whole on any disk, from Linux 6.16 on.
    #[arg(long)]
    pub xfs_loop: bool,

    /// In 'atomic', take it as given that this disk writes pages whole
    ///
    /// For measuring only: where nothing proves it, a power cut can corrupt, and the report says so.
    #[arg(long)]
    pub assume_atomic: bool,
}

/// Experiments of `leafpress bench`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum BenchExperimentFlag {
    /// Equal rows under one setting after the other, each with its price in safety
    Ladder,
    /// Rows in no order: batches by kind of key, sorted, spilled, appended, indexed
    Presort,
    /// Cycles of inserts and deletes: what each takes, and who pays for checkpoints
    Cycles,
    /// Rows into a queue's table, in one transaction and in as many transactions
    QueueInserts,
    /// CSV files, with an index too; rows in order; a new table in an existing database
    Load,
    /// One-row transactions of many callers, under each profile: how many a second
    Writer,
    /// One-row transactions while checkpoints run: how long the slowest takes
    Checkpoint,
    /// One-row transactions by journal mode, and without one: calls, time, memory of each
    Atomic,
    /// Jobs pushed, claimed and acknowledged by many clients; claims among many jobs; wake-ups
    Queue,
    /// Rows and jobs of many processes on one database, shared and not: how many a second
    Shared,
}

/// Parts of experiments.
#[derive(Debug, Subcommand)]
pub enum BenchPart {
    /// Write the table of the experiments to a file (for other tools)
    #[command(hide = true)]
    Generate(BenchGenerateFlags),
}

/// Write the table of the experiments to a file.
#[derive(Debug, Args)]
pub struct BenchGenerateFlags {
    /// Size of the file
    #[arg(long, value_name = "N", value_parser = parse_amount, required_unless_present = "rows")]
    pub bytes: Option<u64>,

    /// Rows of the file
    #[arg(long, value_name = "N", value_parser = parse_amount, conflicts_with = "bytes")]
    pub rows: Option<u64>,

    /// Format of the rows
    #[arg(long, value_name = "FORMAT", default_value = "csv")]
    pub format: TextFormatFlag,

    /// The file to make; it must not exist yet
    #[arg(value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub file: PathBuf,
}

/// `--format`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum TextFormatFlag {
    /// A header and a line for each row
    Csv,
    /// A JSON object for each row
    Ndjson,
}
