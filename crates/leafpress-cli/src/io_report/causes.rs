//! The reasons in words, and what to change about each.
//!
//! Must never: give advice that changes what a commit promises.

use serde::Serialize;

/// A reason why transactions are not one page written in place.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// The cause's name for programs: `secondary_index`, `autoincrement`, `page_split`, …
    pub cause: &'static str,
    /// Number of transactions that it concerns.
    pub transactions: u64,
    /// Number of transactions that wrote.
    pub of: u64,
    /// The table that it is about, if it is about one.
    pub table: Option<String>,
    /// The index, trigger or other table that comes with it.
    pub with: Option<String>,
    /// The cause, in a sentence.
    pub why: String,
    /// The change that helps, in a sentence; `None` if nothing needs to be changed.
    pub to_do: Option<String>,
}

/// One cause; equal ones are counted together. Causes that are equally frequent are shown in
/// the order of these variants.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Cause {
    Log,
    Unprotected,
    NoAtomicWrites(String),
    PageSize { page_bytes: u32, bytes_min: u32, bytes_max: u32 },
    CompileOptions(&'static str),
    JournalOpen,
    Attached { databases: usize },
    Schema,
    Index { table: String, index: String, is_automatic: bool },
    Autoincrement { table: String },
    Trigger { table: String, trigger: String },
    ForeignKey { parent: String, child: String },
    Tables(Vec<String>),
    Split { table: String },
    Overflow { table: String },
    Pages { table: String },
    Freed,
    PointerMap,
    Unknown,
}

impl Cause {
    /// The finding that `transactions` of `of` writing transactions have this cause.
    pub(super) fn finding(&self, transactions: u64, of: u64) -> Finding {
        let (table, with) = self.names();
        Finding {
            cause: self.tag(),
            transactions,
            of,
            table,
            with,
            why: self.why().unwrap_or_else(|| self.why_in_pages()),
            to_do: self.to_do().or_else(|| self.to_do_in_pages().map(str::to_owned)),
        }
    }

    fn tag(&self) -> &'static str {
        match self {
            Self::Log => "write_ahead_log",
            Self::Unprotected => "no_journal",
            Self::NoAtomicWrites(_) => "no_atomic_writes",
            Self::PageSize { .. } => "page_size",
            Self::CompileOptions(_) => "compile_options",
            Self::JournalOpen => "journal_open",
            Self::Attached { .. } => "attached_databases",
            Self::Schema => "schema_change",
            Self::Index { .. } => "secondary_index",
            Self::Autoincrement { .. } => "autoincrement",
            Self::Trigger { .. } => "trigger",
            Self::ForeignKey { .. } => "foreign_key",
            Self::Tables(_) => "several_tables",
            Self::Split { .. } => "page_split",
            Self::Overflow { .. } => "overflow",
            Self::Pages { .. } => "several_pages",
            Self::Freed => "pages_freed",
            Self::PointerMap => "auto_vacuum",
            Self::Unknown => "unknown",
        }
    }

    fn names(&self) -> (Option<String>, Option<String>) {
        let (table, with) = match self {
            Self::Index { table, index, .. } => (table, Some(index)),
            Self::Trigger { table, trigger } => (table, Some(trigger)),
            Self::ForeignKey { parent, child } => (child, Some(parent)),
            Self::Autoincrement { table }
            | Self::Split { table }
            | Self::Overflow { table }
            | Self::Pages { table } => (table, None),
            _ => return (None, None),
        };
        (Some(table.clone()), with.cloned())
    }

    /// The sentence for a cause in the settings or the disk; `None` for another.
    fn why(&self) -> Option<String> {
        Some(match self {
            Self::Log => {
                "WAL mode: commits go to the log, and pages into the database later".to_owned()
            }
            Self::Unprotected => "the journal mode is MEMORY or OFF: any crash in the middle of a \
                                  commit can destroy the file"
                .to_owned(),
            Self::NoAtomicWrites(why) => {
                format!("{why}, so that every change needs a journal here")
            }
            Self::PageSize { page_bytes, bytes_min, bytes_max } => format!(
                "pages have {page_bytes} bytes, and writes are whole from {bytes_min} to \
                 {bytes_max} bytes here"
            ),
            Self::CompileOptions(what) => {
                format!("{what}, so that every change needs a journal")
            }
            Self::JournalOpen => "a journal stood open: with exclusive locking it stays after the \
                                  first transaction that needs it, and all others use it too"
                .to_owned(),
            Self::Attached { databases } => format!(
                "{databases} databases are changed in one transaction, which takes their journals \
                 and a super-journal"
            ),
            Self::Schema => "the schema is changed (CREATE, DROP, ALTER, VACUUM and the like), \
                             which is never a single page"
                .to_owned(),
            _ => return None,
        })
    }

    /// The sentence for a cause in the pages.
    fn why_in_pages(&self) -> String {
        match self {
            Self::Index { table, index, is_automatic: false } => {
                format!("index {index} of table {table} is a page of its own")
            }
            Self::Index { table, index, is_automatic: true } => format!(
                "{index}, the index behind a PRIMARY KEY or UNIQUE of table {table}, is a page of \
                 its own"
            ),
            Self::Autoincrement { table } => format!(
                "AUTOINCREMENT of table {table} keeps its last number in a page of its own, that \
                 of sqlite_sequence"
            ),
            Self::Trigger { table, trigger } => {
                format!("trigger {trigger} writes to table {table}, which is a page of its own")
            }
            Self::ForeignKey { parent, child } => {
                format!("a foreign key writes to table {child} where table {parent} is written to")
            }
            Self::Tables(tables) => {
                format!("one transaction writes to several tables: {}", tables.join(", "))
            }
            Self::Split { table } => format!(
                "a page of table {table} was full, and rows went to a new one: normal now and then"
            ),
            Self::Overflow { table } => format!(
                "rows of table {table} are longer than a page holds, and go on in pages of their \
                 own"
            ),
            Self::Pages { table } => {
                format!("one transaction changes several pages of table {table}")
            }
            Self::Freed => "pages became free, which is noted in other pages".to_owned(),
            Self::PointerMap => {
                "auto_vacuum keeps a map of all pages, which is one more page to write".to_owned()
            }
            _ => "a journal was used, and the pages do not say why".to_owned(),
        }
    }

    /// The advice for a cause in the settings or the disk; `None` for another.
    fn to_do(&self) -> Option<String> {
        let text = match self {
            Self::Log => {
                "to see what a rollback journal and whole pages cost: --profile rollback".to_owned()
            }
            Self::Unprotected => {
                "for a file that must survive, use profile rollback or durable".to_owned()
            }
            Self::NoAtomicWrites(_) => "leafpress storage says more; some disks have atomic \
                                        writes, and so has XFS with reflink on Linux 6.16 and \
                                        later; --assume-atomic shows what they would bring here"
                .to_owned(),
            Self::PageSize { bytes_min, bytes_max, .. } => {
                let page_bytes = 4096_u32.max(*bytes_min).min(*bytes_max);
                format!("PRAGMA page_size={page_bytes}; VACUUM")
            }
            Self::CompileOptions(what) if what.contains("BATCH") => {
                "build SQLite without that option".to_owned()
            }
            Self::CompileOptions(_) => "set LIBSQLITE3_FLAGS = \"-DSQLITE_ENABLE_ATOMIC_WRITE\" \
                                        under [env] in .cargo/config.toml, and build anew"
                .to_owned(),
            Self::JournalOpen => "after the larger transaction: PRAGMA journal_mode=MEMORY, then \
                                  PRAGMA journal_mode=DELETE (in Rust: \
                                  profile::regain_atomic_pages); or use shared locking"
                .to_owned(),
            Self::Attached { .. } => "keep what changes together in one database".to_owned(),
            _ => return None,
        };
        Some(text)
    }

    /// The advice for a cause in the pages; `None` if nothing needs to be changed.
    fn to_do_in_pages(&self) -> Option<&'static str> {
        Some(match self {
            Self::Index { is_automatic: false, .. } => {
                "drop it if no query needs it, or if the table has few rows"
            }
            Self::Index { is_automatic: true, .. } => {
                "make it INTEGER PRIMARY KEY, or declare the table WITHOUT ROWID, which keeps key \
                 and row in one B-tree"
            }
            Self::Autoincrement { .. } => {
                "use INTEGER PRIMARY KEY without AUTOINCREMENT, if the numbers of deleted rows \
                 may come again"
            }
            Self::Trigger { .. } => {
                "do in the program, later or for many rows at once, what the trigger does each time"
            }
            Self::ForeignKey { .. } => {
                "leave ON DELETE and ON UPDATE to the program, where most rows have no children"
            }
            Self::Tables(_) => {
                "if the parts may be seen apart, commit each by itself; or put the columns into \
                 one table"
            }
            Self::Overflow { .. } => {
                "keep long texts and blobs in a table of their own, or take a larger page size, \
                 if the disk writes that whole"
            }
            Self::Pages { .. } => {
                "change fewer rows in a transaction, if the parts may be seen apart, or rows that \
                 stand side by side"
            }
            Self::PointerMap => "PRAGMA auto_vacuum=NONE; VACUUM",
            _ => return None,
        })
    }
}
