//! The flags of `leafpress load`, in the groups that its help shows.
//!
//! Must never: say of an input or a database what only reading it can tell.

use std::path::PathBuf;
use std::str::FromStr as _;
use std::time::Duration;

use clap::{Args, ValueEnum, ValueHint};
use leafpress::load::{IntoTable, Layout, OnConflict, Preset, Uuid7Form};

use super::of_this_build;
use super::values::{
    ByteOrNone, NamedType, Names, database_path, parse_byte, parse_column_type, parse_delimiter,
    parse_memory, parse_milliseconds, parse_names, parse_number, parse_page_size, parse_quote,
    parse_rename, parse_row_bytes, parse_uuid7,
};

const LOAD_EXAMPLES: &str = "\
Examples:
  Make cities.db with a table \"cities\"; all values are read to find types:
    leafpress load cities.db cities.csv

  See first what would be made, and which value decided each column's type:
    leafpress load cities.db cities.csv --dry-run

  Keep a column of digits as text, and make another one the primary key:
    leafpress load shop.db orders.csv --type zip=text --pk id

  Many files, compressed as they are, into one table:
    leafpress load logs.db 'logs/2026-*.ndjson.gz' --table log

  A compound key, the table in its order, an index, statistics for the planner:
    leafpress load shop.db orders.parquet --pk country,number \\
        --without-rowid --index 'customer NOCASE, day DESC' --analyze

  The table as you declare it; SQLite checks the SQL before anything is read:
    leafpress load shop.db people.json --create \\
        'CREATE TABLE people (id INTEGER PRIMARY KEY, email TEXT UNIQUE)'

  Some of the columns, one by another name, and times as seconds since 1970:
    leafpress load shop.db visits.csv --select page,time --rename at=time \\
        --type time=unixepoch

  Semicolons, an old encoding, no header; up to 100 bad rows go to a file:
    leafpress load old.db old.txt --delimiter ';' --no-header \\
        --columns id,name,amount --encoding windows-1252 --null '\\N' \\
        --on-error skip --rejects bad.txt --max-rejects 100

  Into a table that is there: rows with a new key are added, others updated:
    leafpress load shop.db changes.csv --table orders --upsert

  From a pipe, in place of all rows that are there, with the result as JSON:
    psql shop -c 'COPY people TO STDOUT CSV HEADER' |
        leafpress load copy.db - --table people --replace --json

  Into a cluster of rqlite, as a new table:
    leafpress load rqlite://db1:4001,db2:4001,db3:4001 people.csv --pk id

Exit status: 0 all done, 1 done but rows were rejected, 2 the command line
makes no sense, 3 failed and nothing changed.";

/// Load files into a table of a SQLite database, all or nothing
///
/// CSV, JSON, Parquet and Arrow. A new table is built from finished pages in a temporary file
/// beside DB; that file becomes the database or, where DB exists, its pages are moved in within
/// one transaction. Into a table that is there (--append, --replace, --ignore, --upsert) rows go
/// through SQL, in one transaction too. Types are found by reading every value; a column becomes
/// INTEGER or REAL only if every number is kept.
#[derive(Debug, Args)]
#[command(after_help = "Try --help for the whole story and examples.")]
#[command(after_long_help = of_this_build(LOAD_EXAMPLES))]
pub struct LoadFlags {
    /// The database; it is made if it does not exist
    #[arg(value_name = "DB", value_hint = ValueHint::FilePath, value_parser = database_path())]
    pub database: PathBuf,

    /// The files to load, all into one table; '-' is standard input
    ///
    /// CSV and TSV, JSON (objects in lines or in an array), Parquet, Arrow, and tables of other
    /// databases, as other.db::table. Files compressed with gzip or zstd are read as they are,
    /// whatever their name. A quoted pattern with *, ? or [ that names no file stands for all
    /// files that fit, in the order of their names. Columns are matched by name.
    #[arg(value_name = "INPUT", required = true, value_hint = ValueHint::FilePath)]
    pub inputs: Vec<PathBuf>,

    #[command(flatten)]
    pub table: TableFlags,
    #[command(flatten)]
    pub columns: ColumnFlags,
    #[command(flatten)]
    pub keys: KeyFlags,
    #[command(flatten)]
    pub existing: ExistingFlags,
    #[command(flatten)]
    pub input: InputFlags,
    #[command(flatten)]
    pub bad_rows: BadRowFlags,
    #[command(flatten)]
    pub run: RunFlags,
}

/// Shape of the table.
#[derive(Debug, Args)]
#[command(next_help_heading = "The table")]
pub struct TableFlags {
    /// Name of the table [default: the first input's name without its endings]
    #[arg(long, value_name = "NAME")]
    pub table: Option<String>,

    /// The CREATE TABLE, in SQL, and what else belongs to the table
    ///
    /// Statements between semicolons: one CREATE TABLE and its CREATE INDEX, CREATE TRIGGER and
    /// so on. Columns are found in the input by name; those that it lacks get their DEFAULT.
    #[arg(long, value_name = "SQL", allow_hyphen_values = true)]
    pub create: Option<String>,

    /// Declare the table by the statements in FILE, as --create does
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath,
          conflicts_with = "create")]
    pub schema: Option<PathBuf>,

    /// Make a STRICT table: SQLite refuses other types later, too
    #[arg(long)]
    pub strict: bool,

    /// Bytes in a page of a new database: a power of two from 512 to 65536
    /// [default: 4096]
    #[arg(long, value_name = "N", value_parser = parse_page_size)]
    pub page_size: Option<u32>,

    /// Order of the pages of a new database [default: local]
    #[arg(long, value_name = "FOR")]
    pub layout: Option<LayoutFlag>,

    /// Settings of a new database for its place: turso, rqlite, litefs, httpvfs or mobile
    ///
    /// Journal mode, page size and order of the pages are as that place wants them. Flags that
    /// contradict it are refused before anything is read.
    #[arg(long, value_name = "PLACE", value_parser = Preset::from_str)]
    pub preset: Option<Preset>,
}

/// Order of the pages of a new database.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum LayoutFlag {
    /// As they are made
    Local,
    /// For readers that fetch ranges over a network: schema and interior pages in front, each long
    /// value in one piece, pages that nearly all rows fit (8192 bytes or more, unless --page-size)
    Remote,
}

impl From<LayoutFlag> for Layout {
    fn from(flag: LayoutFlag) -> Self {
        match flag {
            LayoutFlag::Local => Self::Local,
            LayoutFlag::Remote => Self::Remote,
        }
    }
}

/// Columns and their types.
#[derive(Debug, Args)]
#[command(next_help_heading = "Columns")]
pub struct ColumnFlags {
    /// The columns that are wanted, in this order; repeatable
    ///
    /// Names with commas stand in double quotes, here as in all lists of names.
    #[arg(long, value_name = "A,B", value_parser = parse_names, conflicts_with = "drop")]
    pub select: Vec<Names>,

    /// Another name for a column; repeatable
    ///
    /// All other flags know the column by its new name. A name with an equals sign stands in
    /// double quotes: 'born="a=b"'.
    #[arg(long, value_name = "OLD=NEW", value_parser = parse_rename)]
    pub rename: Vec<(String, String)>,

    /// Leave out columns; repeatable
    #[arg(long, value_name = "COL", value_parser = parse_names)]
    pub drop: Vec<Names>,

    /// Type of a column: integer, real, text, blob, boolean, a form of dates, exact; repeatable
    ///
    /// Values are converted as SQLite converts them; one that does not end up as that type is a
    /// bad row. A blob is written as hex digits. Dates and times in ISO 8601 become seconds or
    /// milliseconds since 1970 (unixepoch, unixepoch-ms) or texts in UTC (date, datetime). A
    /// boolean (true, false, yes, no and so on) becomes 1 or 0. Columns without a --type are
    /// detected; exact is --exact for one column.
    #[arg(long = "type", value_name = "COL=T", value_parser = parse_column_type)]
    pub types: Vec<(String, NamedType)>,

    /// Take columns for REAL only if all their texts can be had back
    ///
    /// By default the value counts: 1.5 beside 2.50, and 1e-05, are REAL.
    #[arg(long, conflicts_with = "all_text")]
    pub exact: bool,

    /// Make every column TEXT, except those with a --type and an INTEGER --pk
    #[arg(long)]
    pub all_text: bool,

    /// Columns that refuse NULL: such a row is a bad row; repeatable
    #[arg(long, value_name = "COL", value_parser = parse_names)]
    pub not_null: Vec<Names>,
}

/// Keys, indexes, and rows that share a key.
#[derive(Debug, Args)]
#[command(next_help_heading = "Keys and indexes")]
pub struct KeyFlags {
    /// Columns of the primary key; repeatable
    ///
    /// One column of integers becomes the rowid. Rows in another order are sorted.
    #[arg(long, alias = "primary-key", value_name = "A,B", value_parser = parse_names)]
    pub pk: Vec<Names>,

    /// Make the table one B-tree in the order of its primary key
    #[arg(long)]
    pub without_rowid: bool,

    /// Add a column of made keys that ascend with time (UUID version 7)
    ///
    /// It is a blob of 16 bytes or, with =text, a text of 36 characters, and the primary key
    /// unless --pk names another one.
    #[arg(long, value_name = "COL[=text]", value_parser = parse_uuid7)]
    pub uuid7: Option<(String, Uuid7Form)>,

    /// Make an index over columns, such as 'name NOCASE, born DESC'; repeatable
    #[arg(long, value_name = "COLS")]
    pub index: Vec<String>,

    /// Make an index over columns in which no two rows are the same; repeatable
    #[arg(long, value_name = "COLS")]
    pub unique: Vec<String>,

    /// Rule for rows that share a key [default: abort]
    ///
    /// With --append to a table that is there, ignore is the same as --ignore and replace the same
    /// as --upsert: the old row stays and gets the values of the new one.
    #[arg(long, value_name = "HOW")]
    pub on_conflict: Option<OnConflictFlag>,

    /// Fill sqlite_stat1 for SQLite's planner, as ANALYZE does
    #[arg(long)]
    pub analyze: bool,
}

/// Ways to load into a table that is there.
#[derive(Debug, Args)]
#[command(next_help_heading = "A table that is there already")]
#[expect(clippy::struct_excessive_bools, reason = "at most one of them is set")]
pub struct ExistingFlags {
    /// Add the rows; one whose key is there ends the load
    #[arg(long, group = "into")]
    pub append: bool,

    /// Put the rows in place of all that are there
    #[arg(long, group = "into")]
    pub replace: bool,

    /// Add the rows, but for those whose key is there
    ///
    /// With --pk a missing table is made.
    #[arg(long, group = "into")]
    pub ignore: bool,

    /// Add the rows; one whose key is there gives the old row its values
    ///
    /// With --pk a missing table is made.
    #[arg(long, group = "into")]
    pub upsert: bool,

    /// Milliseconds to wait for other programs that use the database
    #[arg(long, value_name = "MS", default_value = "5000", value_parser = parse_milliseconds)]
    pub busy_timeout: Duration,
}

impl ExistingFlags {
    /// The one that is set, and its name.
    pub fn way(&self) -> Option<(IntoTable, &'static str)> {
        let all = [
            (self.append, IntoTable::Append, "--append"),
            (self.replace, IntoTable::Replace, "--replace"),
            (self.ignore, IntoTable::Ignore, "--ignore"),
            (self.upsert, IntoTable::Upsert, "--upsert"),
        ];
        all.into_iter().find(|(is_set, ..)| *is_set).map(|(_, into, name)| (into, name))
    }
}

/// Rules by which bytes become fields and fields become values.
#[derive(Debug, Args)]
#[command(next_help_heading = "The input")]
#[allow(clippy::struct_excessive_bools, reason = "each is a flag of its own")]
pub struct InputFlags {
    /// Format of the inputs [default: their names and beginnings tell]
    ///
    /// Parquet, Arrow and SQLite are always known by their first bytes.
    #[arg(long, value_name = "FORMAT")]
    pub format: Option<FormatFlag>,

    /// The byte between fields; '\t' or 'tab' for a tab [default: found]
    ///
    /// It is what a first line such as sep=; says. Else files that end in .tsv or .tab have tabs.
    /// Else it is the one of ',', ';', tab and '|' that divides the first records into the same
    /// number of fields.
    #[arg(long, value_name = "C", value_parser = parse_delimiter)]
    pub delimiter: Option<u8>,

    /// Fields are separated by tabs: the same as --format tsv
    #[arg(long, conflicts_with_all = ["delimiter", "format"])]
    pub tsv: bool,

    /// The byte around quoted fields; '' or 'none' for no quoting [default: '"']
    #[arg(long, alias = "quotechar", value_name = "C", value_parser = parse_quote)]
    pub quote: Option<ByteOrNone>,

    /// A byte that makes the next one literal, such as '\'
    ///
    /// In files of databases \t is a tab and \n a newline: see --format pgtext and mysqltext.
    #[arg(long, value_name = "C", value_parser = parse_byte)]
    pub escape: Option<u8>,

    /// The first row is data, not names
    ///
    /// Without --columns the columns are called column1, column2 and so on.
    #[arg(long, alias = "no-headers")]
    pub no_header: bool,

    /// Names of the columns, instead of those in the header
    #[arg(long, value_name = "A,B,C", value_parser = parse_names)]
    pub columns: Option<Names>,

    /// Rule for rows that have too few or too many fields [default: reject]
    #[arg(long, value_name = "HOW")]
    pub ragged: Option<RaggedFlag>,

    /// Blanks and tabs around a field are no part of it
    #[arg(long)]
    pub trim: bool,

    /// A text that means "no value" in any column, quoted or not; repeatable
    ///
    /// One that begins like a flag stands behind an equals sign, not behind a blank.
    #[arg(long, value_name = "TEXT", allow_negative_numbers = true)]
    pub null: Vec<String>,

    /// Empty fields are NULL in TEXT columns too
    ///
    /// Elsewhere they always are. Without this flag an empty field in a TEXT column is ''.
    #[arg(long)]
    pub empty_null: bool,

    /// Encoding of the input: utf-16le, windows-1252, shift_jis …, or auto [default: utf-8]
    ///
    /// By its name on the web. 'auto' takes the one that fits, and says how sure that is; it
    /// reads the input once more.
    #[arg(long, value_name = "LABEL")]
    pub encoding: Option<String>,

    /// Leave out the first N lines, such as titles above the header
    #[arg(long, value_name = "N", default_value_t = 0, hide_default_value = true)]
    pub skip_lines: u64,

    /// Leave out lines that begin with C, outside quotes
    #[arg(long, value_name = "C", value_parser = parse_byte)]
    pub comment: Option<u8>,

    /// The longest row, such as 64M: a longer one is an error [default: 1000000000]
    ///
    /// It bounds the memory that a quote which is never closed can take. SQLite stores no row of
    /// more than a billion bytes.
    #[arg(long, value_name = "SIZE", value_parser = parse_row_bytes)]
    pub max_row_bytes: Option<u64>,
}

impl InputFlags {
    /// Returns true if the flags say that tabs separate the fields.
    pub fn is_tsv(&self) -> bool {
        self.tsv || self.format == Some(FormatFlag::Tsv)
    }

    /// The byte around quoted fields.
    pub fn quote_byte(&self) -> Option<u8> {
        self.quote.map_or(Some(b'"'), |ByteOrNone(byte)| byte)
    }
}

/// Rules for rows that cannot be loaded.
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

/// Threads, memory and messages of the load.
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
    /// The result does not depend on it.
    #[arg(long, short = 'j', value_name = "N", value_parser = parse_number::<usize>)]
    pub threads: Option<usize>,

    /// Memory for sorting, such as 512M or 1T [default: a quarter of the memory that this process may
    /// use, at most 1G]
    ///
    /// Rows beyond it go to temporary files. Less than 8M counts as 8M, for the table and for each index.
    #[arg(long, value_name = "SIZE", value_parser = parse_memory)]
    pub memory: Option<usize>,

    /// Folder for the temporary files of sorting and of pipes [default: that of DB]
    ///
    /// SQLite sorts the indexes that it makes in the folder that the variable SQLITE_TMPDIR names.
    #[arg(long, value_name = "FOLDER", value_hint = ValueHint::DirPath)]
    pub tmpdir: Option<PathBuf>,

    /// Show no progress bar
    #[arg(long)]
    pub no_progress: bool,

    /// Print nothing but errors
    #[arg(long, short)]
    pub quiet: bool,

    /// Print the result, or the error, as one JSON object on stdout
    #[arg(long)]
    pub json: bool,
}

/// `--format`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum FormatFlag {
    /// Fields between commas, or what --delimiter says
    Csv,
    /// Fields between tabs
    Tsv,
    /// Objects one after the other, in lines or not, or an array of them
    #[value(aliases = ["ndjson", "jsonl"])]
    Json,
    /// The text of PostgreSQL's COPY: tabs, backslash escapes, \N for NULL, no header
    Pgtext,
    /// The text of MySQL's SELECT INTO OUTFILE and mysqldump --tab, likewise
    Mysqltext,
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

/// `--on-conflict`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum OnConflictFlag {
    /// It is an error that names both rows
    Abort,
    /// The first of them stays
    Ignore,
    /// The last of them stays
    Replace,
}

impl From<OnConflictFlag> for OnConflict {
    fn from(flag: OnConflictFlag) -> Self {
        match flag {
            OnConflictFlag::Abort => Self::Abort,
            OnConflictFlag::Ignore => Self::Ignore,
            OnConflictFlag::Replace => Self::Replace,
        }
    }
}
