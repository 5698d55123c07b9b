//! Asks SQLite whether a database is sound. It asks the bundled one.
//!
//! Stands beside the load, for its user: a pressed file is an ordinary
//! database, and SQLite's own `integrity_check` is the judge of that. One read
//! transaction covers `integrity_check` (or `quick_check`) and
//! `foreign_key_check`, so both speak of the same moment.
//!
//! Where a system has no locks that belong to a descriptor (Unix systems but Linux and macOS), do not
//! verify a database in a process that has it open in rollback mode through another copy of SQLite.
//!
//! Must never: create, change or repair a file; `candidate.rs` says how that is kept.

use std::ffi::c_int;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rusqlite::{Connection, ErrorCode, ffi};
use serde::Serialize;

use crate::candidate::Candidate;
use crate::sqlite_error::{needs_its_application, sqlite_says};
use crate::{Error, Result};

/// Steps of SQLite's machine between two looks at the caller's wish to stop.
const STEPS_BETWEEN_LOOKS: i32 = 10_000;

/// Options for verifying a database.
#[derive(Clone)]
#[must_use]
pub struct VerifyOptions {
    quick: bool,
    problems_max: usize,
    stop: Arc<dyn Fn() -> bool + Send + Sync>,
}

impl fmt::Debug for VerifyOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("VerifyOptions")
            .field("quick", &self.quick)
            .field("problems_max", &self.problems_max)
            .finish_non_exhaustive()
    }
}

impl Default for VerifyOptions {
    fn default() -> Self {
        Self { quick: false, problems_max: 100, stop: Arc::new(|| false) }
    }
}

impl VerifyOptions {
    /// Runs `quick_check`, which leaves out whether the indexes agree with
    /// their tables.
    pub fn quick(mut self, quick: bool) -> Self {
        self.quick = quick;
        self
    }

    /// Reports at most this many problems (100 unless set).
    pub fn problems_max(mut self, problems_max: usize) -> Self {
        self.problems_max = problems_max;
        self
    }

    /// Asks `stop` again and again; once it says true, [`verify`] ends with
    /// [`ErrorKind::Cancelled`](crate::ErrorKind::Cancelled).
    pub fn stop_when(mut self, stop: impl Fn() -> bool + Send + Sync + 'static) -> Self {
        self.stop = Arc::new(stop);
        self
    }
}

/// SQLite's findings about a database.
#[derive(Debug, Clone, Serialize)]
#[non_exhaustive]
pub struct VerifyReport {
    /// The file.
    #[serde(serialize_with = "crate::words::path_as_text")]
    pub database: PathBuf,
    /// No problem was found.
    pub sound: bool,
    /// The check that ran: `integrity_check` or `quick_check`.
    pub check: &'static str,
    /// The problems, in SQLite's words.
    pub problems: Vec<String>,
    /// There are more problems than are listed.
    pub more_problems: bool,
    /// Pages in the file; unknown where the damage hides it.
    pub pages: Option<u64>,
    /// Bytes in a page.
    pub page_size_bytes: Option<u64>,
    /// Tables, without SQLite's own.
    pub tables: Option<u64>,
    /// Indexes, with those that a UNIQUE or PRIMARY KEY made.
    pub indexes: Option<u64>,
    /// The SQLite that checked.
    pub sqlite_version: &'static str,
    /// Notes on the check, for the user.
    pub notes: Vec<String>,
    /// Duration of the check.
    #[serde(rename = "elapsed_s", serialize_with = "crate::times::seconds")]
    pub elapsed: Duration,
}

/// Checks that `path` is a sound database; changes nothing.
///
/// A problem in the database is no error here: it stands in the report.
///
/// ```
/// use leafpress::verify::{VerifyOptions, verify};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let folder = tempfile::tempdir()?;
/// # let path = folder.path().join("app.db");
/// # rusqlite::Connection::open(&path)?.execute_batch("CREATE TABLE t(a)")?;
/// let report = verify(&path, &VerifyOptions::default())?;
/// assert!(report.sound, "{:?}", report.problems);
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// When the file could not be checked: it is missing, no database, encrypted, waiting for
/// recovery, or it was written to meanwhile; or the caller stopped.
pub fn verify(path: impl AsRef<Path>, options: &VerifyOptions) -> Result<VerifyReport> {
    let started = Instant::now();
    let candidate = Candidate::look_at(path.as_ref()).map_err(unchanged)?;
    let mut check = Check {
        candidate: &candidate,
        options,
        problems: Vec::new(),
        notes: candidate.notes(),
        unreadable: None,
    };
    let facts = check.run().map_err(unchanged)?;
    candidate.still_the_same().map_err(unchanged)?;

    let more_problems = check.problems.len() > options.problems_max;
    let (mut problems, notes) = (check.problems, check.notes);
    let sound = problems.is_empty();
    problems.truncate(options.problems_max);
    Ok(VerifyReport {
        database: path.as_ref().to_owned(),
        sound,
        check: check_name(options),
        problems,
        more_problems,
        pages: facts.pages,
        page_size_bytes: facts.page_size_bytes,
        tables: facts.tables,
        indexes: facts.indexes,
        sqlite_version: rusqlite::version(),
        notes,
        elapsed: started.elapsed(),
    })
}

fn check_name(options: &VerifyOptions) -> &'static str {
    if options.quick { "quick_check" } else { "integrity_check" }
}

fn unchanged(error: Error) -> Error {
    error.on_disk("nothing was changed")
}

/// Facts that the database gives about itself; `None` for one that cannot be read.
#[derive(Debug, Default)]
struct Facts {
    pages: Option<u64>,
    page_size_bytes: Option<u64>,
    tables: Option<u64>,
    indexes: Option<u64>,
}

/// One run over one candidate; collects up to one problem more than is asked for.
struct Check<'a> {
    candidate: &'a Candidate,
    options: &'a VerifyOptions,
    problems: Vec<String>,
    notes: Vec<String>,
    /// SQLite's code for pages that the disk does not give.
    unreadable: Option<c_int>,
}

impl Check<'_> {
    fn run(&mut self) -> Result<Facts> {
        let mut connection = match self.candidate.open() {
            Ok(connection) => connection,
            Err(error) => return self.sort_out(error).map(|()| Facts::default()),
        };
        let stop = Arc::clone(&self.options.stop);
        connection
            .progress_handler(STEPS_BETWEEN_LOOKS, Some(move || stop()))
            .map_err(|source| Error::sqlite("watch for a stop", source))?;

        if let Err(error) = connection.execute_batch("BEGIN") {
            self.sort_out(error)?;
        }
        if let Err(error) = self.integrity(&connection) {
            self.sort_out(error)?;
        }
        if let Some(code) = self.unreadable {
            return Err(not_given_by_disk(self.candidate.named(), code));
        }
        if !self.is_full() {
            self.foreign_keys(&connection)?;
        }
        self.notes.extend(missing_modules(&connection).unwrap_or_default());
        Ok(Facts {
            pages: count(&connection, "PRAGMA page_count"),
            page_size_bytes: count(&connection, "PRAGMA page_size"),
            tables: count(&connection, &schema_count("table")),
            indexes: count(&connection, &schema_count("index")),
        })
    }

    fn is_full(&self) -> bool {
        self.problems.len() > self.options.problems_max
    }

    fn integrity(&mut self, connection: &Connection) -> rusqlite::Result<()> {
        // SQLite takes a larger number for the name of a table.
        let limit = self.options.problems_max.min(i32::MAX as usize - 1) + 1;
        let sql = format!("PRAGMA {}({limit})", check_name(self.options));
        let mut statement = connection.prepare(&sql)?;
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            let text: String = row.get(0)?;
            self.unreadable = self.unreadable.or_else(|| code_of_unreadable(&text));
            let is_problem = |line: &&str| *line != "ok" && !line.starts_with("*** in database");
            self.problems.extend(text.lines().filter(is_problem).map(str::to_owned));
        }
        Ok(())
    }

    /// Table by table, since a key that fits no index of its parent ends the
    /// check of that table, and must not hide what is wrong with the others.
    fn foreign_keys(&mut self, connection: &Connection) -> Result<()> {
        let tables = match tables_with_foreign_keys(connection) {
            Ok(tables) => tables,
            Err(error) => return self.sort_out(error),
        };
        for table in tables {
            match self.foreign_keys_of(connection, &table) {
                Ok(()) => {}
                Err(error) if needs_its_application(&error) => {
                    let says = sqlite_says(&error);
                    self.notes.push(format!(
                        "the foreign keys of table {table} were not checked: {says}"
                    ));
                }
                // SQLite's plain "error" here is a foreign key that cannot work.
                Err(error) if error.sqlite_error_code() == Some(ErrorCode::Unknown) => {
                    self.problems.push(format!("table {table}: {}", sqlite_says(&error)));
                }
                Err(error) => self.sort_out(error)?,
            }
        }
        Ok(())
    }

    fn foreign_keys_of(&mut self, connection: &Connection, table: &str) -> rusqlite::Result<()> {
        let mut statement =
            connection.prepare("SELECT rowid, parent FROM pragma_foreign_key_check(?1)")?;
        let mut rows = statement.query([table])?;
        while !self.is_full() {
            let Some(row) = rows.next()? else { break };
            let (rowid, parent): (Option<i64>, String) = (row.get(0)?, row.get(1)?);
            let which = rowid.map_or_else(|| "a row".to_owned(), |rowid| format!("row {rowid}"));
            self.problems.push(format!(
                "table {table}: {which} refers to a row of {parent} that is not there"
            ));
        }
        Ok(())
    }

    /// Tells damage, which is a finding, from what kept SQLite from checking.
    fn sort_out(&mut self, error: rusqlite::Error) -> Result<()> {
        match error.sqlite_error_code() {
            // Its first bytes, or the log beside it, are those of a database:
            // "not a database" means that its header is damaged.
            Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => {
                let problem = format!("SQLite gave up: {}", sqlite_says(&error));
                if !self.problems.contains(&problem) {
                    self.problems.push(problem);
                }
                Ok(())
            }
            _ => Err(self.candidate.refused("check the database", error)),
        }
    }
}

/// Notes on virtual tables that SQLite leaves out of the check, as it does not have their modules.
fn missing_modules(connection: &Connection) -> rusqlite::Result<Vec<String>> {
    let mut notes = Vec::new();
    let mut statement = connection.prepare(
        "SELECT name, format('SELECT 1 FROM \"%w\"', name) FROM sqlite_schema
         WHERE type = 'table' AND rootpage = 0",
    )?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        let (table, sql): (String, String) = (row.get(0)?, row.get(1)?);
        let error = connection.prepare(&sql).err();
        let says = error.map(|error| sqlite_says(&error)).unwrap_or_default();
        if let Some(module) = says.strip_prefix("no such module: ") {
            notes.push(format!(
                "table {table} was not checked: its module {module} is not built in; let the \
                 application check it that has this module: PRAGMA integrity_check"
            ));
        }
    }
    Ok(notes)
}

/// The code in a problem of `integrity_check`, if a page could not be read: what the page holds is
/// then unknown, and no damage.
fn code_of_unreadable(problem: &str) -> Option<c_int> {
    let code_of = |line: &str| line.split_once("error code=")?.1.parse().ok();
    problem.lines().filter_map(code_of).find(|code: &c_int| code & 0xff == ffi::SQLITE_IOERR)
}

/// The error for pages that the disk does not give.
fn not_given_by_disk(named: &Path, code: c_int) -> Error {
    let source = rusqlite::Error::SqliteFailure(ffi::Error::new(code), None);
    let says = format!("the system gives an error for some of its pages (SQLite's code {code})");
    Error::io("read", named, io::Error::other(says)).caused_by(source).to_do(
        "see the system's log for errors of the disk; copy the database elsewhere as long as it \
         can be read, or take a backup",
    )
}

fn tables_with_foreign_keys(connection: &Connection) -> rusqlite::Result<Vec<String>> {
    connection
        .prepare(
            "SELECT DISTINCT name FROM sqlite_schema AS it
             WHERE type = 'table' AND EXISTS (SELECT 1 FROM pragma_foreign_key_list(it.name))",
        )?
        .query_map([], |row| row.get(0))?
        .collect()
}

fn schema_count(kind: &str) -> String {
    format!(
        "SELECT count(*) FROM sqlite_schema WHERE type = '{kind}'
         AND (type = 'index' OR name NOT LIKE 'sqlite\\_%' ESCAPE '\\')"
    )
}

fn count(connection: &Connection, sql: &str) -> Option<u64> {
    connection.query_row(sql, [], |row| row.get(0)).ok().and_then(|it: i64| it.try_into().ok())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ErrorKind;

    #[test]
    fn a_page_that_the_disk_does_not_give_is_no_damage() {
        let told =
            "*** in database main ***\nTree 2 page 5: unable to get the page. error code=8458";
        assert_eq!(code_of_unreadable(told), Some(8458));
        for damage in ["Tree 2 page 5: unable to get the page. error code=11", "Page 3: never used"]
        {
            assert_eq!(code_of_unreadable(damage), None, "{damage}");
        }
        let error = not_given_by_disk(Path::new("app.db"), 8458);
        assert!(matches!(error.kind(), ErrorKind::Io { .. }), "{error}");
    }
}
