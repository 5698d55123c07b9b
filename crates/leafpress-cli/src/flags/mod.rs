//! The one definition of the command line. Help, completions and man pages are all made from
//! it.
//!
//! Flags are named as people know them from `sqlite3`, `sqlite-utils` and
//! `ripgrep`. Every flag's first sentence is its short help (`-h`); the rest
//! follows with `--help`.
//!
//! Must never: open a file. The library checks all that depends on the input, such as
//! the existence of a column.

#![expect(clippy::doc_markdown, reason = "these comments are shown as plain text")]

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::error::ErrorKind;
use clap::{Args, CommandFactory as _, FromArgMatches as _, Parser, Subcommand, ValueHint};

mod advise;
mod bench;
mod doctor;
mod io;
mod load;
mod queue;
mod shard;
mod spelling;
mod storage;
mod values;
pub use advise::{AdviseFlags, PowerCutFlag};
pub use bench::{BenchExperimentFlag, BenchFlags, BenchGenerateFlags, BenchPart, TextFormatFlag};
pub use doctor::DoctorFlags;
pub use io::IoFlags;
pub use load::{
    BadRowFlags, ColumnFlags, FormatFlag, InputFlags, LoadFlags, OnConflictFlag, OnErrorFlag,
    RaggedFlag,
};
pub use queue::{
    OrNone, QueueAckFlags, QueueAction, QueueClaimFlags, QueueCommonFlags, QueueExtendFlags,
    QueueFailFlags, QueueFlags, QueueListFlags, QueueLookFlags, QueueMissedFlag, QueueNackFlags,
    QueueNamedFlags, QueueNewJobFlags, QueuePlaceFlags, QueuePurgeFlags, QueuePushFlags,
    QueueReleaseFlags, QueueRemoveFlags, QueueRetryFlags, QueueScheduleAction,
    QueueScheduleAddFlags, QueueScheduleListFlags, QueueScheduleRemoveFlags, QueueSettingsFlags,
    QueueShowFlags, QueueStateFlag, QueueStatsFlags, QueueWorkFlags, When, parse_duration,
    parse_time, parse_unique_for, parse_when,
};
pub use shard::{ShardFlags, ShardsAction, ShardsFlags};
pub use spelling::as_flag;
pub use storage::StorageFlags;
pub use values::{NamedType, Names};

use crate::exit::statuses_of_kinds;
use crate::human;

use self::values::{
    file_path, parse_amount, parse_memory, parse_milliseconds, parse_number, parse_seconds,
};

const EXIT_STATUS: &str = "\
Exit status: 0 all done, 1 done but rows were rejected or problems found, 2 the
command line makes no sense, 3 failed and nothing changed.";

/// The write path for SQLite: loads several times as fast as plain SQL, which
/// are all there or not at all.
#[derive(Debug, Parser)]
#[command(name = "leafpress", version, propagate_version = true, max_term_width = 80)]
#[command(after_help = EXIT_STATUS)]
#[command(after_long_help = format!("{EXIT_STATUS}\n\n{}", statuses_of_kinds()))]
pub struct Flags {
    /// The command to run.
    #[command(subcommand)]
    pub command: Command,
}

impl Flags {
    /// Reads the arguments, of which the first is the name of the program.
    ///
    /// Only the flags of the command that is called are made: those of all commands would take as
    /// long as a small load.
    pub fn read(arguments: &[OsString]) -> Result<Self, clap::Error> {
        let mut root = Self::command();
        if arguments.get(1).is_none_or(|word| root.find_subcommand(word).is_none()) {
            // Help on all commands says what each is for.
            root.build();
        }
        let matches = root.try_get_matches_from_mut(arguments)?;
        Self::from_arg_matches(&matches).map_err(|error| error.format(&mut root))
    }
}

/// Examples without those of clusters of rqlite, if this build reaches none.
fn of_this_build(examples: &str) -> String {
    if cfg!(feature = "rqlite") {
        return examples.to_owned();
    }
    let without = |paragraph: &str| {
        let lines: Vec<&str> = paragraph.lines().filter(|line| !line.contains("rqlite")).collect();
        lines.join("\n")
    };
    let paragraphs: Vec<String> =
        examples.split("\n\n").map(without).filter(|it| !it.is_empty()).collect();
    paragraphs.join("\n\n")
}

/// A usage error that clap cannot see for itself, in its form. `command_name`:
/// such as `load` or `queue push`.
pub fn usage_error(command_name: &str, message: &str) -> clap::Error {
    let message = &human::printable(message);
    let mut root = Flags::command();
    // Without this the usage line lacks the name of the program.
    root.build();
    let mut command = root;
    for word in command_name.split(' ') {
        if let Some(found) = command.find_subcommand(word) {
            command = found.clone();
        }
    }
    command.error(ErrorKind::ArgumentConflict, message)
}

/// Commands of the program.
#[derive(Debug, Subcommand)]
#[command(defer = true)]
pub enum Command {
    Load(Box<LoadFlags>),
    Index(IndexFlags),
    Verify(VerifyFlags),
    Doctor(DoctorFlags),
    Storage(StorageFlags),
    Advise(AdviseFlags),
    Io(IoFlags),
    Queue(QueueFlags),
    Shard(Box<ShardFlags>),
    Shards(ShardsFlags),
    Bench(Box<BenchFlags>),
    /// Print completions for a shell
    #[command(after_help = COMPLETIONS_EXAMPLES)]
    Completions(CompletionsFlags),
    /// Print the manual page, or write one per command into a folder
    Man(ManFlags),
}

const COMPLETIONS_EXAMPLES: &str = "\
Examples:
  leafpress completions bash > /etc/bash_completion.d/leafpress
  leafpress completions zsh > ~/.zfunc/_leafpress
  leafpress completions fish > ~/.config/fish/completions/leafpress.fish";

/// Make an index on a table of a database, with the database in use
///
/// The rows are read from the table's pages, sorted on all cores, and the index's pages are
/// written in one transaction, which other programs see done or not at all. What SQLite must
/// index itself is left to it; the result says why.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  leafpress index shop.db orders customer
  leafpress index shop.db people 'family_name NOCASE, born DESC' --analyze
  leafpress index shop.db people email --unique

Exit status: 0 made, 2 the command line makes no sense, 3 failed and nothing
changed.")]
#[expect(clippy::struct_excessive_bools, reason = "flags are")]
pub struct IndexFlags {
    /// The database
    #[arg(value_name = "DB", value_hint = ValueHint::FilePath, value_parser = file_path())]
    pub database: PathBuf,

    /// The table
    #[arg(value_name = "TABLE")]
    pub table: String,

    /// Its columns, with commas; each may be followed by a collation and ASC or DESC
    ///
    /// The collations are NOCASE, RTRIM and BINARY. A name with commas or quotes can stand in
    /// double quotes.
    #[arg(value_name = "COLS")]
    pub columns: String,

    /// Refuse rows that have the same values there, now and later
    #[arg(long)]
    pub unique: bool,

    /// Name of the index [default: the table's and the columns']
    #[arg(long, value_name = "NAME")]
    pub name: Option<String>,

    /// Do nothing where an index that does the same is there already
    #[arg(long)]
    pub if_not_exists: bool,

    /// Tell SQLite's planner of it, as ANALYZE would
    #[arg(long)]
    pub analyze: bool,

    /// Memory for the sort, such as 512M or 1T [default: as for a load]
    ///
    /// Rows beyond it go to a temporary file.
    #[arg(long, value_name = "BYTES", value_parser = parse_memory)]
    pub memory: Option<usize>,

    /// Folder for a temporary file [default: that of DB]
    ///
    /// SQLite sorts an index that it makes in the folder that the variable SQLITE_TMPDIR names.
    #[arg(long = "tmpdir", value_name = "FOLDER", value_hint = ValueHint::DirPath)]
    pub temporary_folder: Option<PathBuf>,

    /// Milliseconds to wait for other programs that write
    #[arg(long, value_name = "MS", default_value = "5000", value_parser = parse_milliseconds)]
    pub busy_timeout: Duration,

    /// Number of threads [default: one per core]
    #[arg(long, short = 'j', value_name = "N", value_parser = parse_number::<usize>)]
    pub threads: Option<usize>,

    /// Print nothing but errors
    #[arg(long, short)]
    pub quiet: bool,

    /// Print the result, or the error, as one JSON object on stdout
    #[arg(long)]
    pub json: bool,
}

/// Check that a database is sound, without changing it
///
/// Runs the integrity_check and foreign_key_check of the SQLite that is built in. Nothing is
/// written: no -wal and -shm files are made, and a database that needs recovery is refused.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  leafpress verify app.db
  leafpress verify app.db --quick --json

Exit status: 0 sound, 1 problems found, 2 the command line makes no sense,
3 could not be checked.")]
pub struct VerifyFlags {
    /// The database to check
    #[arg(value_name = "DB", value_hint = ValueHint::FilePath, value_parser = file_path())]
    pub database: PathBuf,

    /// Leave out whether indexes agree with their tables (quick_check)
    #[arg(long)]
    pub quick: bool,

    /// Print the result, or the error, as one JSON object on stdout
    #[arg(long)]
    pub json: bool,
}

/// Print completions for a shell.
#[derive(Debug, Args)]
pub struct CompletionsFlags {
    /// The shell to complete in
    #[arg(value_name = "SHELL")]
    pub shell: clap_complete::Shell,
}

/// Print the manual page, or write one per command into a folder.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  leafpress man | man -l -
  leafpress man ~/.local/share/man/man1")]
pub struct ManFlags {
    /// The folder to write to; without it leafpress(1) is printed
    #[arg(value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub folder: Option<PathBuf>,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Examples and exit statuses are laid out by hand; a terminal of 80 columns breaks what is
    /// longer in the middle of a sentence, or of a command that is to be copied.
    #[test]
    fn texts_that_are_laid_out_by_hand_fit_80_columns() {
        fn check(command: &clap::Command, wrong: &mut Vec<String>) {
            let texts = [command.get_after_help(), command.get_after_long_help()];
            let texts: Vec<_> = texts.into_iter().flatten().map(ToString::to_string).collect();
            let lines = texts.iter().flat_map(|text| text.lines());
            wrong.extend(
                lines
                    .filter(|line| unicode_width::UnicodeWidthStr::width(*line) > 79)
                    .map(|line| format!("{}: {line}", command.get_name())),
            );
            command.get_subcommands().for_each(|inner| check(inner, wrong));
        }
        let mut wrong = Vec::new();
        let mut root = Flags::command();
        root.build();
        check(&root, &mut wrong);
        assert!(wrong.is_empty(), "{wrong:#?}");
    }

    /// The commands' flags are made late.
    #[test]
    fn help_on_all_commands_says_what_each_is_for() {
        for words in [&["leafpress", "--help"][..], &["leafpress", "help"], &["leafpress"]] {
            let arguments: Vec<OsString> = words.iter().map(OsString::from).collect();
            let help = Flags::read(&arguments).expect_err("it is help").to_string();
            assert!(help.contains("Load files into a table of a SQLite database"), "{help}");
            assert!(help.contains("Durable jobs in a database"), "{help}");
        }
        let arguments = ["leafpress", "help", "queue", "push"].map(OsString::from);
        let help = Flags::read(&arguments).expect_err("it is help").to_string();
        assert!(help.contains("leafpress queue push"), "{help}");
    }

    #[test]
    fn examples_of_clusters_are_those_of_a_build_that_reaches_them() {
        let of_file = "Examples:\n  load a.db\n\nExit status: 0.";
        let of_both = "Examples:\n  load a.db\n  load rqlite://h\n\n  To rqlite:\n    load rqlite://h\n\nExit status: 0.";
        let expected = if cfg!(feature = "rqlite") { of_both } else { of_file };
        assert_eq!(of_this_build(of_both), expected);
    }

    #[test]
    fn the_definition_holds_together() {
        Flags::command().debug_assert();
    }
}
