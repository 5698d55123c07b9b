//! One part, pressed into a file of its own.
//!
//! The loader makes the file: complete, synced and named, or nothing. The name holds the attempt, so
//! that attempts of one part do not meet. Then one pass over the file gives its checksum and the
//! places of its interior pages. For an object store the file is a temporary one: complete pieces of it go
//! up while it is pressed, and the others then.

use std::path::Path;
use std::sync::Arc;

use leafpress::load::{CancelToken, Loader, Report};
use leafpress::{Error, Result, path_text, quote_identifier};

use crate::connect;
use crate::content::Content;
use crate::key::{Key, value_of};
use crate::manifest::{PartRecord, Schema};
use crate::names::{is_name, parts_of};
use crate::runs::Shards;
use crate::store::Store;

/// Presses one part of a run. Tasks on several machines may do that for the same run.
///
/// A task that is tried again, or carried out twice, gives each attempt a name of its own: the
/// manifest names the file of one of them, and [`gc`](crate::Shards::gc) removes the others. The same
/// attempt, called again, finds its file and gives the same record; from a store it fetches it for that.
#[derive(Debug, Clone)]
#[must_use]
pub struct PartBuilder {
    store: Arc<dyn Store>,
    run: String,
    part: usize,
    attempt: String,
    key: Option<String>,
    cancel: CancelToken,
}

impl PartBuilder {
    /// A builder of part `part` of a run of these shards.
    pub fn new(shards: &Shards, run: impl Into<String>, part: usize) -> Self {
        Self {
            store: Arc::clone(shards.store()),
            run: run.into(),
            part,
            attempt: "0".to_owned(),
            key: None,
            cancel: CancelToken::new(),
        }
    }

    /// Names the attempt: letters, digits, `-` and `_`.
    pub fn attempt(mut self, name: impl Into<String>) -> Self {
        self.attempt = name.into();
        self
    }

    /// Names the column whose smallest and largest value the record has.
    pub fn key(mut self, column: impl Into<String>) -> Self {
        self.key = Some(column.into());
        self
    }

    /// A token by which another thread stops the way of the part into an object store.
    pub fn cancel(mut self, token: CancelToken) -> Self {
        self.cancel = token;
        self
    }

    /// Presses the file by `load`, which gets a loader for it, and describes it.
    ///
    /// # Errors
    /// Those of `load` and of the store: then there is no file. [`Misuse`](leafpress::ErrorKind::Misuse) for a name
    /// of an attempt or run that cannot be one of a file, and where the folder has no such run: it has not
    /// [begun](Shards::begin) there, or was abandoned.
    pub fn build(
        &self,
        load: impl FnOnce(Loader) -> Result<Report>,
    ) -> Result<(PartRecord, Schema)> {
        let relative = self.relative_path()?;
        let draft = self.store.draft(&relative)?;
        let path = draft.path();
        let mut loaded = None;
        if path.symlink_metadata().is_err() {
            let place = path_text(self.store.shown(&relative));
            let press = Loader::new(path)
                .bound_for(place)
                .rights_of_new(self.store.rights())
                .tell_of_writes(self.store.listener(&draft));
            loaded = Some(load(press)?.rows_loaded);
        }
        let (record, schema) = self.describe(path, relative, loaded)?;
        let sha256 = || Ok(record.sha256.clone());
        self.store.keep(&draft, &record.path, &sha256, &|| self.cancel.is_cancelled())?;
        Ok((record, schema))
    }

    /// Path of the file, from the folder of the shards.
    fn relative_path(&self) -> Result<String> {
        for name in [&self.run, &self.attempt] {
            if !is_name(name) {
                return Err(Error::misuse(format!(
                    "{name:?} cannot be the name of a run or of an attempt: take up to 100 letters, \
                     digits, - and _"
                )));
            }
        }
        Ok(format!("{}/{:05}-{}.db", parts_of(&self.run), self.part, self.attempt))
    }

    /// Describes the file. Its rows are counted if the load has not told their number.
    fn describe(
        &self,
        path: &Path,
        relative: String,
        loaded: Option<u64>,
    ) -> Result<(PartRecord, Schema)> {
        let failed = |source| Error::sqlite("read a part", source);
        let connection = connect::read_only(path)?;
        let schema = schema_of(&connection).map_err(failed)?;
        let page_size: u32 =
            connection.query_row("PRAGMA page_size", [], |row| row.get(0)).map_err(failed)?;
        // Before the queries: the load may have written past the page cache, and SQLite reads single pages.
        let content = Content::of(path, page_size as usize)?;
        let rows = match loaded {
            Some(rows) => rows,
            None => connect::rows_of(&connection, &schema.table)?,
        };
        let (smallest, largest) =
            extent(&connection, &schema.table, self.key.as_deref()).map_err(failed)?;
        let record = PartRecord {
            part: self.part,
            path: relative,
            bytes: content.bytes,
            sha256: content.sha256,
            rows,
            smallest,
            largest,
            page_size,
            pages: content.bytes / u64::from(page_size),
            interior_pages: content.interior_pages,
            attempt: self.attempt.clone(),
        };
        Ok((record, schema))
    }
}

/// The one table of a part, and its statements.
fn schema_of(connection: &rusqlite::Connection) -> rusqlite::Result<Schema> {
    let table = connection.query_row(
        "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\'",
        [],
        |row| row.get(0),
    )?;
    let sql = "SELECT sql FROM sqlite_schema WHERE sql IS NOT NULL AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\'";
    let mut statement = connection.prepare(sql)?;
    let sql = statement.query_map([], |row| row.get(0))?.collect::<rusqlite::Result<_>>()?;
    Ok(Schema { table, sql })
}

/// Smallest and largest key.
fn extent(
    connection: &rusqlite::Connection,
    table: &str,
    key: Option<&str>,
) -> rusqlite::Result<(Key, Key)> {
    let Some(key) = key.map(quote_identifier) else { return Ok((Key::Null, Key::Null)) };
    let table = quote_identifier(table);
    // The order of ranges is BINARY, whatever the column declares. One at a time, SQLite looks both up in an index.
    let sql = format!(
        "SELECT (SELECT min({key} COLLATE BINARY) FROM {table}),
                (SELECT max({key} COLLATE BINARY) FROM {table})"
    );
    connection.query_row(&sql, [], |row| {
        let key = |column| row.get_ref(column).map(|value| Key::from(value_of(value)));
        Ok((key(0)?, key(1)?))
    })
}
