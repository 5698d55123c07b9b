//! The one definition of the command line: help, completions and man pages
//! are all made from it.
//!
//! Flags are named as people know them from `sqlite3`, `sqlite-utils` and
//! `ripgrep`. Every flag's first sentence is its short help (`-h`); the rest
//! follows with `--help`.
//!
//! Must never: open a file. What only the input can tell (whether a column
//! exists) is the library's to check.

#![expect(clippy::doc_markdown, reason = "these comments are shown as plain text")]

use std::path::PathBuf;

use clap::error::ErrorKind;
use clap::{Args, CommandFactory as _, Parser, Subcommand, ValueEnum, ValueHint};
use leafpress::load::ColumnType;

mod bench;
pub use bench::{BenchExperimentFlag, BenchFlags, BenchGenerateFlags, BenchPart, TextFormatFlag};

/// The write path for SQLite: loads that finish at the speed of the disk, and
/// are all there or not at all.
#[derive(Debug, Parser)]
#[command(name = "leafpress", version, propagate_version = true, max_term_width = 80)]
#[command(after_help = "\
Exit status: 0 all done, 1 done but rows were rejected or problems found, 2 the
command line makes no sense, 3 failed and nothing changed.")]
pub struct Flags {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// A usage error that clap cannot see for itself, in its form.
pub fn usage_error(command_name: &str, message: &str) -> clap::Error {
    let mut root = Flags::command();
    // Without this the usage line lacks the name of the program.
    root.build();
    let command = root.find_subcommand_mut(command_name);
    match command {
        Some(command) => command.error(ErrorKind::ArgumentConflict, message),
        None => root.error(ErrorKind::ArgumentConflict, message),
    }
}

/// What can be done.
#[derive(Debug, Subcommand)]
pub enum Command {
    Load(Box<LoadFlags>),
    Index(IndexFlags),
    Verify(VerifyFlags),
    Bench(Box<BenchFlags>),
    /// Print completions for a shell
    #[command(after_help = COMPLETIONS_EXAMPLES)]
    Completions(CompletionsFlags),
    /// Print the manual page, or write one per command into a folder
    Man(ManFlags),
}

const COMPLETIONS_EXAMPLES: &str = "\
Examples:
  leafpress completions bash > ~/.local/share/bash-completion/completions/leafpress
  leafpress completions zsh > ~/.zfunc/_leafpress
  leafpress completions fish > ~/.config/fish/completions/leafpress.fish";

const LOAD_EXAMPLES: &str = "\
Examples:
  Make cities.db with a table \"cities\"; the types are found by reading every value:
    leafpress load cities.db cities.csv

  See first what would be made, and which value decided each column's type:
    leafpress load cities.db cities.csv --dry-run

  Keep a column of digits as text, and name the rowid:
    leafpress load shop.db orders.csv --type zip=text --pk id

  Go on over bad rows, keep them in a file, and give up after a hundred:
    leafpress load shop.db orders.csv \\
        --on-error skip --rejects bad.csv --max-rejects 100

  Semicolons, an old encoding, no header, and two ways to say \"no value\":
    leafpress load old.db old.txt --delimiter ';' --no-header \\
        --columns id,name,amount --encoding windows-1252 --null NA --null '\\N'

  From a pipe, with the result as JSON:
    psql shop -c 'COPY people TO STDOUT CSV HEADER' |
        leafpress load copy.db - --table people --json

Exit status: 0 all done, 1 done but rows were rejected, 2 the command line
makes no sense, 3 failed and nothing changed.";

/// Load a CSV or TSV file into a new SQLite database
///
/// The database is built from finished pages in a temporary file beside DB, synced, and then
/// given its name: either all of it is there, or nothing. Types are found by reading every
/// value; a column becomes INTEGER or REAL only if every value comes back as the same text.
#[derive(Debug, Args)]
#[command(after_help = "Try --help for the whole story and examples.")]
#[command(after_long_help = LOAD_EXAMPLES)]
pub struct LoadFlags {
    /// The database to make; it must not exist yet
    #[arg(value_name = "DB", value_hint = ValueHint::FilePath)]
    pub database: PathBuf,

    /// The file to load; '-' is standard input
    ///
    /// Files compressed with gzip or zstd are read as they are, whatever their name. One input
    /// per load for now.
    #[arg(value_name = "INPUT", required = true, value_hint = ValueHint::FilePath)]
    pub inputs: Vec<PathBuf>,

    #[command(flatten)]
    pub table: TableFlags,
    #[command(flatten)]
    pub input: InputFlags,
    #[command(flatten)]
    pub bad_rows: BadRowFlags,
    #[command(flatten)]
    pub run: RunFlags,
}

/// What the table looks like.
#[derive(Debug, Args)]
#[command(next_help_heading = "The table")]
pub struct TableFlags {
    /// Name of the table [default: the input's name without its ending]
    #[arg(long, value_name = "NAME")]
    pub table: Option<String>,

    /// Type of a column: integer, real, text or blob; repeatable
    ///
    /// Values are converted as SQLite converts them; one that does not end up as that type is a
    /// bad row. A blob is written as hex digits. Columns without a --type are still detected.
    #[arg(long = "type", value_name = "COL=T", value_parser = parse_column_type)]
    pub types: Vec<(String, NamedType)>,

    /// Make every column TEXT, except those with a --type and the --pk
    #[arg(long)]
    pub all_text: bool,

    /// Make a STRICT table: SQLite refuses other types later, too
    #[arg(long)]
    pub strict: bool,

    /// Make this column the INTEGER PRIMARY KEY
    ///
    /// Its values must be integers, each of them once.
    #[arg(long, value_name = "COL")]
    pub pk: Option<String>,

    /// Size of a page in bytes: a power of two from 512 to 65536
    #[arg(long, value_name = "N", default_value = "4096", value_parser = parse_page_size)]
    pub page_size: u32,
}

/// How bytes become fields and fields become values.
#[derive(Debug, Args)]
#[command(next_help_heading = "The input")]
pub struct InputFlags {
    /// The byte between fields; '\t' or 'tab' for a tab [default: ',', or a tab for .tsv and .tab]
    #[arg(long, value_name = "C", value_parser = parse_delimiter)]
    pub delimiter: Option<u8>,

    /// Fields are separated by tabs
    #[arg(long, conflicts_with = "delimiter")]
    pub tsv: bool,

    /// The byte around quoted fields; '' or 'none' for no quoting
    #[arg(long, alias = "quotechar", value_name = "C", default_value = "\"",
          value_parser = parse_quote, hide_default_value = true)]
    pub quote: ByteOrNone,

    /// A byte that makes the next one literal, such as '\'
    #[arg(long, value_name = "C", value_parser = parse_byte)]
    pub escape: Option<u8>,

    /// The first row is data, not names
    ///
    /// Without --columns the columns are called column1, column2 and so on.
    #[arg(long, alias = "no-headers")]
    pub no_header: bool,

    /// Names of the columns, instead of those in the header
    #[arg(long, value_name = "A,B,C", value_delimiter = ',')]
    pub columns: Option<Vec<String>>,

    /// A text that means "no value" in any column, quoted or not; repeatable
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    pub null: Vec<String>,

    /// Empty fields are NULL in TEXT columns too
    ///
    /// Elsewhere they always are. Without this flag an empty field in a TEXT column is ''.
    #[arg(long)]
    pub empty_null: bool,

    /// What to do with rows that have too few or too many fields
    #[arg(long, value_name = "HOW", default_value = "reject")]
    pub ragged: RaggedFlag,

    /// Encoding of the input, by its name on the web: utf-16le, windows-1252, shift_jis …
    /// [default: utf-8]
    #[arg(long, value_name = "LABEL")]
    pub encoding: Option<String>,
}

/// What happens to rows that cannot be loaded.
#[derive(Debug, Args)]
#[command(next_help_heading = "Bad rows")]
pub struct BadRowFlags {
    /// Stop at the first bad row, with nothing written; or skip bad rows
    #[arg(long, value_name = "HOW", default_value = "stop")]
    pub on_error: OnErrorFlag,

    /// Write skipped rows to FILE, as they were, with a log of lines and reasons beside it
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub rejects: Option<PathBuf>,

    /// Fail, with nothing written, once more than N rows are skipped
    #[arg(long, value_name = "N")]
    pub max_rejects: Option<u64>,
}

/// How the load runs and what it says.
#[derive(Debug, Args)]
#[command(next_help_heading = "The run")]
#[expect(
    clippy::struct_excessive_bools,
    reason = "a switch is a bool, and their contradictions are checked"
)]
pub struct RunFlags {
    /// Write nothing; show the CREATE TABLE, the types and what would be rejected
    ///
    /// Every value is read, and beside each column stands the line and the value that decided
    /// its type. The exit status is 1 where rows would be rejected.
    #[arg(long)]
    pub dry_run: bool,

    /// Number of threads [default: one per core]
    ///
    /// The file that comes out does not depend on it.
    #[arg(long, short = 'j', value_name = "N", value_parser = parse_threads)]
    pub threads: Option<usize>,

    /// Show no progress bar
    #[arg(long)]
    pub no_progress: bool,

    /// Print nothing but errors
    #[arg(long, short, conflicts_with = "json")]
    pub quiet: bool,

    /// Print the result, or the error, as one JSON object on stdout
    #[arg(long)]
    pub json: bool,
}

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
    #[arg(value_name = "DB", value_hint = ValueHint::FilePath)]
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

    /// Tell SQLite's planner of it, as ANALYZE would
    #[arg(long)]
    pub analyze: bool,

    /// Memory for the sort, such as 512M or 2G [default: 1G]
    ///
    /// What exceeds it goes to a temporary file.
    #[arg(long, value_name = "BYTES", value_parser = parse_memory)]
    pub memory: Option<usize>,

    /// Folder for a temporary file [default: that of DB]
    #[arg(long = "tmpdir", value_name = "FOLDER", value_hint = ValueHint::DirPath)]
    pub temporary_folder: Option<PathBuf>,

    /// Seconds to wait for other programs that write
    #[arg(long, value_name = "S", default_value = "5")]
    pub busy_timeout: u64,

    /// Number of threads [default: one per core]
    #[arg(long, short = 'j', value_name = "N", value_parser = parse_threads)]
    pub threads: Option<usize>,

    /// Print nothing but errors
    #[arg(long, short, conflicts_with = "json")]
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
    #[arg(value_name = "DB", value_hint = ValueHint::FilePath)]
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
pub struct ManFlags {
    /// The folder to write to; without it leafpress(1) is printed
    #[arg(value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub folder: Option<PathBuf>,
}

/// `--ragged`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum RaggedFlag {
    /// They are bad rows
    Reject,
    /// Missing fields count as empty; rows that are too long stay bad rows
    Pad,
    /// Surplus fields are dropped; rows that are too short stay bad rows
    Truncate,
}

/// `--on-error`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum OnErrorFlag {
    /// Stop at the first bad row, with nothing written
    Stop,
    /// Leave bad rows out and load the others
    Skip,
}

/// A byte that can be switched off. (A bare `Option` means "not given" to clap.)
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ByteOrNone(pub Option<u8>);

/// A column type, comparable: two equal ones for one column are no contradiction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NamedType {
    /// 64-bit integers.
    Integer,
    /// 64-bit floats.
    Real,
    /// Text.
    Text,
    /// Bytes, from hex digits.
    Blob,
}

impl From<NamedType> for ColumnType {
    fn from(named: NamedType) -> Self {
        match named {
            NamedType::Integer => Self::Integer,
            NamedType::Real => Self::Real,
            NamedType::Text => Self::Text,
            NamedType::Blob => Self::Blob,
        }
    }
}

fn parse_column_type(text: &str) -> Result<(String, NamedType), String> {
    let (column, type_name) =
        text.rsplit_once('=').ok_or("write it as COLUMN=TYPE, as in --type zip=text")?;
    if column.is_empty() {
        return Err("the column's name is missing before '='".to_owned());
    }
    let named = match type_name.to_ascii_lowercase().as_str() {
        "integer" => NamedType::Integer,
        "real" => NamedType::Real,
        "text" => NamedType::Text,
        "blob" => NamedType::Blob,
        other => {
            let hint = match other {
                "int" | "bigint" | "bool" | "boolean" => ", here perhaps integer",
                "float" | "double" | "numeric" | "decimal" => ", here perhaps real",
                "str" | "string" | "varchar" | "date" | "datetime" => ", here perhaps text",
                _ => "",
            };
            return Err(format!("a type is integer, real, text or blob{hint}"));
        }
    };
    Ok((column.to_owned(), named))
}

fn parse_page_size(text: &str) -> Result<u32, String> {
    match text.parse::<u32>() {
        Ok(bytes) if (512..=65536).contains(&bytes) && bytes.is_power_of_two() => Ok(bytes),
        _ => Err("SQLite's page sizes are 512, 1024, 2048, 4096, 8192, 16384, 32768 and 65536"
            .to_owned()),
    }
}

fn parse_threads(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(0) | Err(_) => Err("name a number from 1 up, or leave the flag out".to_owned()),
        Ok(threads) => Ok(threads),
    }
}

/// A size in bytes, with an optional `K`, `M` or `G` for powers of 1024.
fn parse_memory(text: &str) -> Result<usize, String> {
    let wrong = || "name a size such as 512M or 2G".to_owned();
    let number_end = text.find(|it: char| !it.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(number_end);
    let factor = match unit.to_ascii_uppercase().as_str() {
        "" => 1,
        "K" | "KB" | "KIB" => 1 << 10,
        "M" | "MB" | "MIB" => 1 << 20,
        "G" | "GB" | "GIB" => 1 << 30,
        _ => return Err(wrong()),
    };
    number.parse::<usize>().ok().and_then(|it| it.checked_mul(factor)).ok_or_else(wrong)
}

/// A number from 1 up, with an optional `k`, `M` or `G` for thousands, millions, billions.
fn parse_amount(text: &str) -> Result<u64, String> {
    let wrong = || "name a number from 1 up, such as 1000000, 50M or 1G".to_owned();
    let number_end = text.find(|it: char| !it.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(number_end);
    let factor = match unit {
        "" => 1,
        "k" | "K" => 1_000,
        "M" => 1_000_000,
        "G" => 1_000_000_000,
        _ => return Err(wrong()),
    };
    let amount = number.parse::<u64>().ok().and_then(|number| number.checked_mul(factor));
    amount.filter(|amount| *amount > 0).ok_or_else(wrong)
}

fn parse_repeats(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(0) | Err(_) => Err("name a number from 1 up".to_owned()),
        Ok(repeats) => Ok(repeats),
    }
}

fn parse_delimiter(text: &str) -> Result<u8, String> {
    if text.eq_ignore_ascii_case("tab") { Ok(b'\t') } else { parse_byte(text) }
}

fn parse_quote(text: &str) -> Result<ByteOrNone, String> {
    if text.is_empty() || text.eq_ignore_ascii_case("none") {
        return Ok(ByteOrNone(None));
    }
    parse_byte(text).map(|byte| ByteOrNone(Some(byte)))
}

fn parse_byte(text: &str) -> Result<u8, String> {
    match text.as_bytes() {
        b"\\t" => Ok(b'\t'),
        [b'\n' | b'\r'] => Err("a line end cannot stand for anything else".to_owned()),
        [byte] => Ok(*byte),
        [] => Err("it is empty; name one character".to_owned()),
        bytes => Err(format!("it has {} bytes and must have one", bytes.len())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_definition_holds_together() {
        Flags::command().debug_assert();
    }

    #[test]
    fn a_column_name_may_hold_an_equals_sign() {
        assert_eq!(parse_column_type("a=b=REAL"), Ok(("a=b".to_owned(), NamedType::Real)));
        assert!(parse_column_type("=text").is_err());
        assert!(parse_column_type("zip").is_err());
        assert!(parse_column_type("n=int").is_err_and(|it| it.contains("perhaps integer")));
    }

    #[test]
    fn amounts_take_a_unit() {
        assert_eq!(
            ["7", "10k", "50M", "1G"].map(parse_amount),
            [7, 10_000, 50_000_000, 1_000_000_000].map(Ok)
        );
        for bad in ["", "0", "M", "1.5G", "-1", "1GB", "18446744073709551615G"] {
            assert!(parse_amount(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn bytes_are_single_and_no_line_ends() {
        assert_eq!(parse_delimiter(r"\t"), Ok(b'\t'));
        assert_eq!(parse_delimiter("TAB"), Ok(b'\t'));
        assert_eq!(parse_delimiter("\u{1f}"), Ok(0x1f));
        assert_eq!(parse_quote(""), Ok(ByteOrNone(None)));
        assert_eq!(parse_quote("none"), Ok(ByteOrNone(None)));
        assert_eq!(parse_quote("'"), Ok(ByteOrNone(Some(b'\''))));
        assert_eq!(parse_byte("\\"), Ok(b'\\'));
        for bad in ["", "\n", "||", "€"] {
            assert!(parse_byte(bad).is_err(), "{bad:?}");
        }
    }
}
