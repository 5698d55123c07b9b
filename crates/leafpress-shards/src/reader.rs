//! Reads the parts of one run: one part for a key, all of them for a scan.

use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use leafpress::{Error, ErrorKind, Result, quote_identifier};
use leafpress_format::Value;
use rusqlite::types::{ToSqlOutput, ValueRef};
use rusqlite::{Connection, Params, Row, ToSql, params_from_iter};

use crate::connect;
use crate::key::{Key, value_of};
use crate::manifest::Manifest;

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
#[derive(Debug)]
pub struct Reader {
    root: PathBuf,
    manifest: Manifest,
    connections: Vec<Mutex<Option<Connection>>>,
}

impl Reader {
    /// A reader of the run of this manifest, below the folder of the shards.
    pub(crate) fn new(root: &Path, manifest: Manifest) -> Self {
        let connections = manifest.parts.iter().map(|_| Mutex::new(None)).collect();
        Self { root: root.to_owned(), manifest, connections }
    }

    /// The manifest of the run.
    pub fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    /// The part of the rows with these values in the routing columns; `None` if rows were split by
    /// count or by size.
    pub fn part_of(&self, key: &[Value<'_>]) -> Option<usize> {
        self.manifest.routing.part_of(key, self.manifest.parts.len())
    }

    /// The rows with these values in the routing columns, each with all columns of the table.
    ///
    /// # Errors
    /// [`Misuse`](ErrorKind::Misuse) if rows were split by count or by size, or for another number of
    /// values than there are routing columns; as [`query`](Self::query).
    pub fn get(&self, key: &[Value<'_>]) -> Result<Vec<Vec<Key>>> {
        let columns = self.manifest.routing.columns();
        if columns.is_empty() || columns.len() != key.len() {
            return Err(Error::misuse(format!(
                "{} values for a key of {} columns",
                key.len(),
                columns.len()
            ))
            .to_do(
                "give a value for each routing column; rows that were split by count have no key",
            ));
        }
        let is =
            |(at, name): (usize, &String)| format!("{} IS ?{}", quote_identifier(name), at + 1);
        let conditions: Vec<_> = columns.iter().enumerate().map(is).collect();
        let table = quote_identifier(&self.manifest.schema.table);
        let sql = format!("SELECT * FROM {table} WHERE {}", conditions.join(" AND "));
        let values = params_from_iter(key.iter().map(|value| Bound(*value)));
        self.query(key, &sql, values, |row| {
            let count = row.as_ref().column_count();
            (0..count).map(|at| row.get_ref(at).map(|value| Key::from(value_of(value)))).collect()
        })
    }

    /// The rows of a query on the one part that has `key`, the values of the routing columns.
    ///
    /// # Errors
    /// [`Misuse`](ErrorKind::Misuse) if rows were split by count or by size: [`scan`](Self::scan) reads
    /// all parts; [`Sqlite`](ErrorKind::Sqlite) if the part cannot be read, or the SQL is wrong.
    pub fn query<T>(
        &self,
        key: &[Value<'_>],
        sql: &str,
        params: impl Params,
        map: impl FnMut(&Row<'_>) -> rusqlite::Result<T>,
    ) -> Result<Vec<T>> {
        let part = self.part_of(key).ok_or_else(|| {
            Error::misuse("rows were split by count or by size: no key says where one is")
                .to_do("read all parts with scan")
        })?;
        self.read(part, sql, params, map)
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
        let parts = self.connections.len();
        let next = AtomicUsize::new(0);
        let found: Vec<_> = (0..parts).map(|_| Mutex::new(None)).collect();
        let work = || loop {
            let part = next.fetch_add(1, Ordering::Relaxed);
            let Some(slot) = found.get(part) else { break };
            let rows = self.read(part, sql, [], &map);
            if rows.is_err() {
                next.store(parts, Ordering::Relaxed);
            }
            if let Ok(mut slot) = slot.lock() {
                *slot = Some(rows);
            }
        };
        let threads = std::thread::available_parallelism().map_or(1, Into::into).min(parts);
        std::thread::scope(|scope| {
            for _ in 1..threads {
                scope.spawn(work);
            }
            work();
        });
        let mut read = Vec::with_capacity(parts);
        let mut is_whole = true;
        for slot in found {
            match slot.into_inner().ok().flatten() {
                Some(rows) => read.push(rows?),
                None => is_whole = false,
            }
        }
        if !is_whole {
            return Err(ErrorKind::Bug("a thread that read parts has panicked".to_owned()).into());
        }
        Ok(read)
    }

    fn read<T>(
        &self,
        part: usize,
        sql: &str,
        params: impl Params,
        map: impl FnMut(&Row<'_>) -> rusqlite::Result<T>,
    ) -> Result<Vec<T>> {
        let failed = |source| Error::sqlite("read a part", source);
        let mut slot = match self.connections[part].lock() {
            Ok(slot) => slot,
            Err(poisoned) => poisoned.into_inner(),
        };
        let connection = match &mut *slot {
            Some(connection) => connection,
            none => {
                let path = self.root.join(&self.manifest.parts[part].path);
                none.insert(connect::read_only(&path)?)
            }
        };
        let mut statement = connection.prepare_cached(sql).map_err(failed)?;
        let rows = statement.query_map(params, map).map_err(failed)?;
        rows.collect::<rusqlite::Result<_>>().map_err(failed)
    }
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
