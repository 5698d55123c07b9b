//! Inspection of a destination, before anything is pressed for it.
//!
//! Reads only. If a program died while it was writing, SQLite recovers the database from its
//! journal as always. All refusals that can come early come from here: missing, locked, encrypted,
//! damaged, no database.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use leafpress_format::header::{self, number_in};
use rusqlite::{Connection, ErrorCode, OpenFlags, OptionalExtension as _};

use super::connect::{ExistingDatabase, UNCHANGED, ask, resolve, table_missing};
use super::dbpage::READ_PAGE;
use super::overlay::Overlay;
use crate::candidate::{needs_recovery, uri};
use crate::connect;
use crate::error::{Error, Result};
use crate::load::at_rest::AtRest;
use crate::paths::companion_of;
use crate::refusal::{not_readable, refuse_odd_companions, refuse_unless_file};
use crate::schema::declared::{DeclaredTable, schema_text};
use crate::schema::describe::describe_existing;
use crate::schema::shape::TableShape;
use crate::schema::sql_words::is_before_trigger;
use crate::sqlite_error::wants_to_write;

/// State of a destination at the moment of its inspection.
#[derive(Debug, Clone)]
pub(in crate::load) struct Existing {
    /// Bytes in a page; the staged file gets the same.
    pub page_bytes: u32,
    /// Bytes at the end of each page that are not SQLite's; the staged file gets the same. 0 if
    /// unknown.
    pub reserved_bytes: u8,
    /// Encoding of its texts.
    pub encoding: TextEncoding,
    /// `wal`, or `delete` for all rollback modes: which of those is in force is a matter of each
    /// connection.
    pub journal_mode: String,
    /// Tables, indexes, views and triggers; without SQLite's own.
    pub objects: Vec<SchemaObject>,
    /// Reason why pages cannot be moved into any table; `None` if they can.
    pub(super) why_not_moved: Option<&'static str>,
    pub(super) target: ExistingDatabase,
}

/// A row of the schema table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::load) struct SchemaObject {
    /// `table`, `index`, `view` or `trigger`.
    pub kind: String,
    /// Name of the object.
    pub name: String,
    /// Name of the table that it belongs to.
    pub table: String,
    /// Statement that made it; none for automatic indexes.
    pub sql: Option<String>,
}

/// Encoding of a database's texts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::load) enum TextEncoding {
    /// The usual encoding, and the only one that is pressed.
    Utf8,
    /// UTF-16 with either byte order.
    Utf16,
}

impl Existing {
    /// The table, view, index or trigger of that name, in any case, as SQLite
    /// looks it up.
    pub fn object(&self, name: &str) -> Option<&SchemaObject> {
        self.objects.iter().find(|it| it.kind != "trigger" && it.name.eq_ignore_ascii_case(name))
    }

    /// Returns true if there is a table of that name.
    pub fn has_table(&self, name: &str) -> bool {
        self.object(name).is_some_and(|it| it.kind == "table")
    }

    /// Returns true if a trigger of the table runs before SQLite checks a row.
    pub fn has_before_trigger(&self, table: &str) -> bool {
        let triggers = self.objects.iter().filter(|it| it.kind == "trigger");
        let mut own = triggers.filter(|it| it.table.eq_ignore_ascii_case(table));
        own.any(|it| it.sql.as_deref().is_some_and(is_before_trigger))
    }

    /// Refuses a destination that cannot be written now, before work is done
    /// for it. A journal may appear for a moment; the database stays as it is.
    pub fn refuse_unless_writable(&self) -> Result<()> {
        let target = &self.target;
        let mut held = target.hold()?;
        let refused = |error| target.refused("write the database", error);
        if held.connection.is_readonly("main").map_err(refused)? {
            return Err(target.read_only());
        }
        // Not EXTRA: a journal that comes back after a power cut does no harm here, so its removal need
        // not be synced. Not OFF: then the journal is valid at once, and of a torn one SQLite would put
        // back a damaged page 1. At FULL it is valid after a sync only, and there is none.
        held.connection.execute_batch("PRAGMA synchronous=FULL").map_err(refused)?;
        let transaction = target.begin(&mut held.connection)?;
        // Writing the old value again needs a journal, which the rollback removes.
        let version: i64 = ask(&transaction, "PRAGMA user_version").map_err(refused)?;
        transaction.execute_batch(&format!("PRAGMA user_version={version}")).map_err(refused)?;
        transaction.rollback().map_err(refused)?;
        held.connection.execute_batch("PRAGMA synchronous=EXTRA").map_err(refused)?;
        target.kept.keep(held);
        Ok(())
    }

    /// Closes the kept connection, so that other programs can leave WAL mode during a long build.
    pub fn let_go(&self) {
        self.target.kept.close();
    }

    /// Tidies up after a change that failed, unless its outcome is unknown: then the journal stays for the
    /// opening that the error advises.
    pub fn tidy_after(&self, error: &Error) {
        if !error.is_outcome_unknown() {
            self.target.play_back();
        }
    }

    /// Refuses a database that was read as a file that does not change, and did change.
    pub fn refuse_unless_at_rest(&self) -> Result<()> {
        self.target.refuse_unless_at_rest()
    }

    /// Puts an overlay over the database as it is at this moment, so that no change reaches the
    /// database. Changed pages go to a temporary file in `folder`.
    pub fn only_try(&mut self, folder: &Path) -> Result<()> {
        // A kept connection is one to the database itself.
        self.let_go();
        self.target.overlay = Some(Arc::new(Overlay::new(&self.target, folder)?));
        Ok(())
    }

    /// Names of its tables, indexes and views, which no other can have.
    pub fn names(&self) -> Vec<String> {
        let objects = self.objects.iter().filter(|it| it.kind != "trigger");
        objects.map(|it| it.name.clone()).collect()
    }

    /// Refuses a declared table if one of its indexes has a name that is taken.
    pub fn refuse_if_indexes_are_named(&self, shape: &TableShape) -> Result<()> {
        let declared = shape.indexes.iter().filter(|index| index.sql.is_some());
        let Some(object) = declared.into_iter().find_map(|index| self.object(&index.name)) else {
            return Ok(());
        };
        Err(there_already(&self.target, object).to_do("give the index another name"))
    }

    /// Refuses a name that is taken.
    pub fn refuse_if_named(&self, name: &str) -> Result<()> {
        match self.object(name) {
            None => Ok(()),
            Some(object) => Err(taken(&self.target, object)),
        }
    }
}

fn there_already(target: &ExistingDatabase, object: &SchemaObject) -> Error {
    let article = if object.kind == "index" { "an" } else { "a" };
    let reason = format!("there is {article} {} {} already", object.kind, object.name);
    target.table_exists(&object.name, reason)
}

fn taken(target: &ExistingDatabase, object: &SchemaObject) -> Error {
    let refusal = there_already(target, object);
    if object.kind == "table" {
        refusal.to_do(
            "give the table another name with ⟦table⟧, or load into it with ⟦append⟧, \
             ⟦replace⟧, ⟦ignore⟧ or ⟦upsert⟧",
        )
    } else {
        refusal.to_do("give the table another name with ⟦table⟧")
    }
}

/// The error for a table that does not exist.
pub(super) fn no_such_table(table: &str) -> Error {
    table_missing(table).to_do(
        "name a table that is there, or load without ⟦append⟧ and the like to make a new one",
    )
}

/// Declaration of a table of the destination, as a shape and as SQLite tells of it.
pub(in crate::load) fn describe_table(
    existing: &Existing,
    table: &str,
) -> Result<(TableShape, DeclaredTable)> {
    let target = &existing.target;
    let refused = |error| target.refused("read the table's declaration", error);
    let mut held = target.hold()?;
    // One transaction, so that all answers are of the same moment.
    let transaction = held.connection.transaction().map_err(refused)?;
    let shape = describe_existing(&transaction, "main", table)?;
    let declared = match DeclaredTable::read(&transaction, table) {
        Err(rusqlite::Error::QueryReturnedNoRows) => return Err(no_such_table(table)),
        declared => declared.map_err(refused)?,
    };
    drop(transaction);
    target.kept.keep(held);
    Ok((shape, declared))
}

/// Inspects a database that exists, for a change of it. As for SQLite, an empty file is a database.
/// The connection is kept for what comes next.
///
/// Waits up to `busy_timeout` for a program that holds it alone.
pub(in crate::load) fn inspect(database: &Path, busy_timeout: Duration) -> Result<Existing> {
    let target = resolve(database, busy_timeout)?;
    refuse_what_is_no_file(&target)?;
    target.refuse_unless_writable()?;
    inspect_target(&target)
}

/// Inspects a database for a dry run: a log that a program left behind stays.
pub(in crate::load) fn look_at(database: &Path, busy_timeout: Duration) -> Result<Existing> {
    let target = resolve(database, busy_timeout)?;
    refuse_what_is_no_file(&target)?;
    refuse_hot_journal(&target)?;
    // SQLite could not take it away again for a user who may only read.
    let at_rest = AtRest::for_reader(&target.path);
    inspect_target(&ExistingDatabase { at_rest, ..target })
}

/// Refuses a database that SQLite would roll back before it reads it, which writes to it.
fn refuse_hot_journal(target: &ExistingDatabase) -> Result<()> {
    let journal = std::fs::metadata(companion_of(&target.path, "-journal"));
    if !journal.is_ok_and(|journal| journal.len() > 0) {
        return Ok(());
    }
    let flags = connect::READ_ONLY | OpenFlags::SQLITE_OPEN_URI;
    // Only SQLite knows whether the journal is hot. It says so to a connection that may not write.
    let look = connect::open(uri(&target.path, "mode=ro"), flags).and_then(|connection| {
        connection.busy_timeout(target.busy_timeout)?;
        connect::begin_read(&connection)
    });
    match look {
        Err(error) if wants_to_write(&error) => {
            Err(needs_recovery(&target.named).on_disk(UNCHANGED))
        }
        // It was waited for already.
        Err(error) if error.sqlite_error_code() == Some(ErrorCode::DatabaseBusy) => {
            Err(target.refused("read the database", error))
        }
        // Any other answer is given again to the connection that reads.
        _ => Ok(()),
    }
}

fn refuse_what_is_no_file(target: &ExistingDatabase) -> Result<()> {
    let found = std::fs::metadata(&target.path).map_err(|it| not_readable(&target.named, it))?;
    refuse_unless_file(&target.named, &found)
        .and_then(|()| refuse_odd_companions(&target.named))
        .map_err(|error| error.on_disk(UNCHANGED))
}

fn inspect_target(target: &ExistingDatabase) -> Result<Existing> {
    let mut held = target.hold()?;
    let refused = |error| target.refused("read the database", error).on_disk(UNCHANGED);
    // One transaction, so that all answers are of the same moment.
    let transaction = held.connection.transaction().map_err(refused)?;
    let existing = look_around(&transaction, target).map_err(refused)?;
    drop(transaction);
    target.kept.keep(held);
    Ok(existing)
}

fn look_around(connection: &Connection, target: &ExistingDatabase) -> rusqlite::Result<Existing> {
    let objects = read_objects(connection)?;
    let header = read_header(connection)?;
    let mut existing = Existing {
        page_bytes: ask(connection, "PRAGMA page_size")?,
        reserved_bytes: header.as_ref().map_or(0, |it| it.reserved_bytes),
        encoding: read_encoding(connection)?,
        journal_mode: ask(connection, "PRAGMA journal_mode")?,
        objects,
        why_not_moved: None,
        target: target.clone(),
    };
    existing.why_not_moved = if connection.prepare("SELECT pageno FROM dbstat").is_ok() {
        why_not_moved(&existing, header.as_ref())
    } else {
        Some("this SQLite is built without SQLITE_ENABLE_DBSTAT_VTAB")
    };
    Ok(existing)
}

fn why_not_moved(existing: &Existing, header: Option<&Header>) -> Option<&'static str> {
    let Some(header) = header else {
        return Some("this SQLite is built without SQLITE_ENABLE_DBPAGE_VTAB");
    };
    if existing.encoding != TextEncoding::Utf8 {
        return Some("the database's texts are UTF-16");
    }
    if !header.is_of_this_format() {
        return Some("the database has an old schema format");
    }
    None
}

/// Facts that only the header has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Header {
    pub reserved_bytes: u8,
    pub schema_format: u32,
}

impl Header {
    /// Returns true if SQLite reads pressed pages as they are meant. A database without a table has the
    /// format 0, and takes the newest one.
    pub fn is_of_this_format(self) -> bool {
        matches!(self.schema_format, 0 | 4)
    }
}

/// Encoding of a database's texts.
pub(super) fn read_encoding(connection: &Connection) -> rusqlite::Result<TextEncoding> {
    let encoding: String = ask(connection, "PRAGMA encoding")?;
    Ok(if encoding == "UTF-8" { TextEncoding::Utf8 } else { TextEncoding::Utf16 })
}

/// Reads page 1 through SQLite; `None` where it cannot reach single pages.
/// A file of 0 bytes has no page yet.
pub(super) fn read_header(connection: &Connection) -> rusqlite::Result<Option<Header>> {
    let Ok(mut statement) = connection.prepare(READ_PAGE) else { return Ok(None) };
    let page: Option<Vec<u8>> = statement.query_row([1], |row| row.get(0)).optional()?;
    let page = page.unwrap_or_default();
    Ok(Some(Header {
        reserved_bytes: page.get(header::RESERVED_BYTES).copied().unwrap_or_default(),
        schema_format: number_in(&page, header::SCHEMA_FORMAT).unwrap_or_default(),
    }))
}

fn read_objects(connection: &Connection) -> rusqlite::Result<Vec<SchemaObject>> {
    connection
        .prepare(
            "SELECT type, name, tbl_name, sql FROM sqlite_schema
             WHERE name NOT LIKE 'sqlite\\_%' ESCAPE '\\' ORDER BY rowid",
        )?
        .query_map([], |row| {
            let [kind, name, table] =
                [0, 1, 2].map(|at| schema_text(row, at).map(Option::unwrap_or_default));
            Ok(SchemaObject { kind: kind?, name: name?, table: table?, sql: schema_text(row, 3)? })
        })?
        .collect()
}
