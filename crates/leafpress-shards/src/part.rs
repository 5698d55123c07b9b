//! One part, pressed into a file of its own.
//!
//! The loader makes the file: complete, synced and named, or nothing. The name holds the attempt, so
//! that attempts of one part do not meet. Then one pass over the file gives its checksum and the
//! places of its interior pages.

use std::io::Read as _;
use std::path::{Path, PathBuf};

use leafpress::load::{Loader, Report};
use leafpress::vfs::locks::FileHandle;
use leafpress::{Error, Result, quote_identifier};
use sha2::{Digest as _, Sha256};

use crate::connect;
use crate::key::{Key, hex, value_of};
use crate::manifest::{PageRun, PartRecord, Schema};

/// Folder of the runs.
pub const RUNS: &str = "runs";
/// Bytes that are read at once: pages of any size fit into it.
const CHUNK_BYTES: usize = 1 << 20;
/// From this number on, an overflow page may begin with the same byte as an interior page.
const PAGES_KNOWN_MAX: u64 = 1 << 25;
/// First byte of interior pages of indexes and of tables.
const INTERIOR_KINDS: [u8; 2] = [2, 5];
/// Size of the database header, behind which page 1 begins.
const HEADER_BYTES: usize = 100;

/// Presses one part of a run. Tasks on several machines may do that for the same run.
///
/// A task that is tried again, or carried out twice, gives each attempt a name of its own: the
/// manifest names the file of one of them, and [`gc`](crate::Shards::gc) removes the others. The same
/// attempt, called again, finds its file and gives the same record.
#[derive(Debug, Clone)]
#[must_use]
pub struct PartBuilder {
    root: PathBuf,
    run: String,
    part: usize,
    attempt: String,
    key: Option<String>,
}

impl PartBuilder {
    /// A builder of part `part` of a run in the folder of shards `root`.
    pub fn new(root: impl Into<PathBuf>, run: impl Into<String>, part: usize) -> Self {
        Self { root: root.into(), run: run.into(), part, attempt: "0".to_owned(), key: None }
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

    /// Presses the file by `load`, which gets a loader for it, and describes it.
    ///
    /// # Errors
    /// Those of `load`: then there is no file. [`Misuse`](leafpress::ErrorKind::Misuse) for a name
    /// of an attempt or run that cannot be one of a file.
    pub fn build(
        &self,
        load: impl FnOnce(Loader) -> Result<Report>,
    ) -> Result<(PartRecord, Schema)> {
        let relative = self.relative_path()?;
        let path = self.root.join(&relative);
        let mut loaded = None;
        if path.symlink_metadata().is_err() {
            make_folder(path.parent().unwrap_or(&self.root))?;
            loaded = Some(load(Loader::new(&path))?.rows_loaded);
        }
        self.describe(&path, relative, loaded)
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

/// Returns true if a run or an attempt may be called so.
pub fn is_name(name: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
    (1..=100).contains(&name.len()) && name.bytes().all(is_plain)
}

/// Path of the folder of a run's parts, from the folder of the shards.
pub fn parts_of(run: &str) -> String {
    format!("{RUNS}/{run}/parts")
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

/// Content of a part, as one pass over its bytes tells it.
#[derive(Debug)]
pub struct Content {
    /// Size of the file.
    pub bytes: u64,
    /// SHA-256, in hexadecimal digits.
    pub sha256: String,
    /// Interior pages, if they are known.
    pub interior_pages: Option<Vec<PageRun>>,
}

impl Content {
    /// Reads the file once.
    ///
    /// # Errors
    /// The system's.
    pub fn of(path: &Path, page_bytes: usize) -> Result<Self> {
        let failed = |source| Error::io("read", path, source);
        let mut file = FileHandle::open(path).map_err(failed)?;
        let (mut hash, mut chunk) = (Sha256::new(), vec![0; CHUNK_BYTES]);
        let (mut bytes, mut runs) = (0_u64, Vec::new());
        loop {
            let filled = fill(&mut file, &mut chunk).map_err(failed)?;
            hash.update(&chunk[..filled]);
            for (index, page) in chunk[..filled].chunks(page_bytes).enumerate() {
                let number = bytes / page_bytes as u64 + index as u64 + 1;
                let kind = if number == 1 { page.get(HEADER_BYTES) } else { page.first() };
                if kind.is_some_and(|kind| INTERIOR_KINDS.contains(kind)) {
                    add_page(&mut runs, number);
                }
            }
            bytes += filled as u64;
            if filled < chunk.len() {
                break;
            }
        }
        let is_known = bytes / (page_bytes as u64) < PAGES_KNOWN_MAX;
        let sha256 = hex(&hash.finalize());
        Ok(Self { bytes, sha256, interior_pages: is_known.then_some(runs) })
    }
}

/// Reads until the buffer is full or the file ends.
fn fill(file: &mut FileHandle, buffer: &mut [u8]) -> std::io::Result<usize> {
    let mut filled = 0;
    while filled < buffer.len() {
        match file.read(&mut buffer[filled..])? {
            0 => break,
            read => filled += read,
        }
    }
    Ok(filled)
}

fn add_page(runs: &mut Vec<PageRun>, number: u64) {
    match runs.last_mut() {
        Some(run) if run.first + run.pages == number => run.pages += 1,
        _ => runs.push(PageRun { first: number, pages: 1 }),
    }
}

/// Makes a folder for parts, and those above it.
///
/// # Errors
/// The system's.
#[expect(clippy::disallowed_methods, reason = "the folder is not beside a database")]
pub fn make_folder(path: &Path) -> Result<()> {
    std::fs::create_dir_all(path).map_err(|source| Error::io("make the folder", path, source))
}
