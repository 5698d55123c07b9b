//! Reads the parts of one run: one part for a key, all of them for a scan.

use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use leafpress::{Error, ErrorKind, Result, quote_identifier};
use leafpress_format::Value;
use rusqlite::types::{ToSqlOutput, ValueRef};
use rusqlite::{Connection, Params, Row, Statement, ToSql, params_from_iter};

use crate::connect;
use crate::key::{Key, value_of};
use crate::manifest::Manifest;

/// Steps of SQLite's machine between two looks at the caller's wish to stop.
const STEPS_BETWEEN_LOOKS: i32 = 10_000;

/// What is done with a new connection.
type Prepare = Box<dyn Fn(&mut Connection) -> rusqlite::Result<()> + Send + Sync>;

/// A reader of one run. It goes on with that run when another one becomes current.
///
/// Several threads may use it. Each part has one connection, which is opened when it is first needed;
/// threads that read the same part wait for one another.
///
/// ```
/// use leafpress::load::Value;
/// use leafpress_shards::{RouteBy, Sharder, Shards};
///
/// # let folder = tempfile::tempdir().unwrap();
/// # let (out, input) = (folder.path().join("people"), folder.path().join("people.csv"));
/// # std::fs::write(&input, "id,name\n1,Ada\n2,Grace\n3,Joan\n").unwrap();
/// # Sharder::new(&out, "hash(id)".parse::<RouteBy>()?, 2).run(|stage| stage.load_file(&input))?;
/// let reader = Shards::open(&out)?.reader()?;
/// let sql = "SELECT name FROM people WHERE id = ?1";
/// let names: Vec<String> = reader.query(&[Value::Integer(2)], sql, [2], |row| row.get(0))?;
/// assert_eq!(names, ["Grace"]);
/// let counts = reader.scan("SELECT count(*) FROM people", |row| row.get::<_, i64>(0))?;
/// assert_eq!(counts.iter().flatten().sum::<i64>(), 3);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Reader {
    root: PathBuf,
    manifest: Manifest,
    connections: Vec<Mutex<Option<Connection>>>,
    prepare: Prepare,
}

impl Reader {
    /// A reader of the run of this manifest, below the folder of the shards.
    pub(crate) fn new(root: &Path, manifest: Manifest) -> Self {
        let connections = manifest.parts.iter().map(|_| Mutex::new(None)).collect();
        Self { root: root.to_owned(), manifest, connections, prepare: Box::new(|_| Ok(())) }
    }

    /// Stops reads once `stop` returns true. Threads call it often, each a copy for each part.
    #[must_use]
    pub fn stop_when(mut self, stop: impl FnMut() -> bool + Send + Sync + Clone + 'static) -> Self {
        self.prepare = Box::new(move |connection| {
            connection.progress_handler(STEPS_BETWEEN_LOOKS, Some(stop.clone()))
        });
        self
    }

    /// The manifest of the run.
    pub fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    /// The part of the rows with these values in the routing columns.
    ///
    /// # Errors
    /// [`Misuse`](ErrorKind::Misuse) if rows were split by count or by size, or for another number of
    /// values than there are routing columns.
    pub fn part_of(&self, key: &[Value<'_>]) -> Result<usize> {
        let columns = self.manifest.routing.columns();
        if columns.is_empty() {
            return Err(Error::misuse(
                "rows were split by count or by size: no key says where one is",
            )
            .to_do("read all parts with scan"));
        }
        if columns.len() != key.len() {
            let (given, names) = (key.len(), columns.join(", "));
            return Err(Error::misuse(format!("{given} values for the key {names}"))
                .to_do("give a value for each of these columns"));
        }
        let part = self.manifest.routing.part_of(key, self.manifest.parts.len());
        part.ok_or_else(|| ErrorKind::Bug("a key has no part".to_owned()).into())
    }

    /// The rows with these values in the routing columns, each with all columns of the table.
    ///
    /// # Errors
    /// [`Misuse`](ErrorKind::Misuse) if rows were split by count or by size, or for another number of
    /// values than there are routing columns; as [`query`](Self::query).
    pub fn get(&self, key: &[Value<'_>]) -> Result<Vec<Vec<Key>>> {
        let values = params_from_iter(key.iter().map(|value| Bound(*value)));
        self.query(key, &self.key_query(), values, |row| {
            let count = row.as_ref().column_count();
            (0..count).map(|at| row.get_ref(at).map(|value| Key::from(value_of(value)))).collect()
        })
    }

    /// The query of [`get`](Self::get), with a parameter for each routing column.
    pub fn key_query(&self) -> String {
        let columns = self.manifest.routing.columns().iter().enumerate();
        let is =
            |(at, name): (usize, &String)| format!("{} IS ?{}", quote_identifier(name), at + 1);
        let conditions: Vec<_> = columns.map(is).collect();
        let table = quote_identifier(&self.manifest.schema.table);
        format!("SELECT * FROM {table} WHERE {}", conditions.join(" AND "))
    }

    /// The rows of a query on the one part that has `key`, the values of the routing columns.
    ///
    /// # Errors
    /// As [`part_of`](Self::part_of); [`Sqlite`](ErrorKind::Sqlite) if the part cannot be read, or the SQL is wrong.
    pub fn query<T>(
        &self,
        key: &[Value<'_>],
        sql: &str,
        params: impl Params,
        map: impl FnMut(&Row<'_>) -> rusqlite::Result<T>,
    ) -> Result<Vec<T>> {
        let part = self.part_of(key)?;
        self.on_part(part, sql, |statement| rows(statement, params, map))
    }

    /// The rows of a query without parameters, by part. Several parts are read at once.
    ///
    /// # Errors
    /// [`Sqlite`](ErrorKind::Sqlite) if a part cannot be read, or the SQL is wrong.
    pub fn scan<T: Send>(
        &self,
        sql: &str,
        map: impl Fn(&Row<'_>) -> rusqlite::Result<T> + Sync,
    ) -> Result<Vec<Vec<T>>> {
        self.on_all(sql, |statement| rows(statement, [], &map))
    }

    /// What `run` makes of a statement on each part, by part. Several parts are read at once.
    ///
    /// # Errors
    /// Those of `run`; [`Sqlite`](ErrorKind::Sqlite) if a part cannot be read, or the SQL is wrong.
    pub fn on_all<T: Send>(
        &self,
        sql: &str,
        run: impl Fn(&mut Statement<'_>) -> Result<T> + Sync,
    ) -> Result<Vec<T>> {
        let parts = self.connections.len();
        let next = AtomicUsize::new(0);
        let found: Vec<_> = (0..parts).map(|_| Mutex::new(None)).collect();
        let work = || loop {
            let part = next.fetch_add(1, Ordering::Relaxed);
            let Some(slot) = found.get(part) else { break };
            let read = self.on_part(part, sql, &run);
            if read.is_err() {
                next.store(parts, Ordering::Relaxed);
            }
            if let Ok(mut slot) = slot.lock() {
                *slot = Some(read);
            }
        };
        let threads = std::thread::available_parallelism().map_or(1, Into::into).min(parts);
        std::thread::scope(|scope| {
            for _ in 1..threads {
                scope.spawn(work);
            }
            work();
        });
        let mut all = Vec::with_capacity(parts);
        let mut is_whole = true;
        for slot in found {
            match slot.into_inner().ok().flatten() {
                Some(read) => all.push(read?),
                None => is_whole = false,
            }
        }
        if !is_whole {
            return Err(ErrorKind::Bug("a thread that read parts has panicked".to_owned()).into());
        }
        Ok(all)
    }

    /// What `run` makes of a statement on one part.
    ///
    /// # Errors
    /// Those of `run`; [`Misuse`](ErrorKind::Misuse) if there is no such part;
    /// [`Sqlite`](ErrorKind::Sqlite) if it cannot be read, or the SQL is wrong.
    pub fn on_part<T>(
        &self,
        part: usize,
        sql: &str,
        run: impl FnOnce(&mut Statement<'_>) -> Result<T>,
    ) -> Result<T> {
        let Some(slot) = self.connections.get(part) else {
            let parts = self.connections.len();
            return Err(Error::misuse(format!(
                "there is no part {part}, but {parts} parts from 0"
            )));
        };
        let mut slot = match slot.lock() {
            Ok(slot) => slot,
            Err(poisoned) => poisoned.into_inner(),
        };
        let connection = match &mut *slot {
            Some(connection) => connection,
            none => {
                let path = self.root.join(&self.manifest.parts[part].path);
                let mut connection = connect::read_only(&path)?;
                (self.prepare)(&mut connection).map_err(failed)?;
                none.insert(connection)
            }
        };
        let mut statement = connection.prepare_cached(sql).map_err(failed)?;
        run(&mut statement)
    }
}

fn failed(source: rusqlite::Error) -> Error {
    match source.sqlite_error_code() {
        Some(rusqlite::ErrorCode::OperationInterrupted) => ErrorKind::Cancelled.into(),
        _ => Error::sqlite("read a part", source),
    }
}

fn rows<T>(
    statement: &mut Statement<'_>,
    params: impl Params,
    map: impl FnMut(&Row<'_>) -> rusqlite::Result<T>,
) -> Result<Vec<T>> {
    let rows = statement.query_map(params, map).map_err(failed)?;
    rows.collect::<rusqlite::Result<_>>().map_err(failed)
}

/// A value as a parameter.
struct Bound<'v>(Value<'v>);

impl ToSql for Bound<'_> {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(ToSqlOutput::Borrowed(match self.0 {
            Value::Null => ValueRef::Null,
            Value::Integer(integer) => ValueRef::Integer(integer),
            Value::Real(real) => ValueRef::Real(real),
            Value::Text(text) => ValueRef::Text(text),
            Value::Blob(blob) => ValueRef::Blob(blob),
        }))
    }
}
