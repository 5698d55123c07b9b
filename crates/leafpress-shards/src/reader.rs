//! Reads the parts of one run: one part for a key, all of them for a scan.
//!
//! Must never: use in a child of `fork` what its parent opened.

use std::cell::RefCell;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use leafpress::load::Bound;
use leafpress::vfs::fork::OfProcess;
use leafpress::vfs::locks;
use leafpress::{Error, ErrorKind, Result, quote_identifier};
use leafpress_format::number::NumberText;
use leafpress_format::{Affinity, Value};
use rusqlite::{Connection, Params, Row, Statement, params_from_iter};

use crate::cache::Cache;
use crate::connect;
use crate::key::{Key, value_of};
use crate::manifest::Manifest;
#[cfg(feature = "object-store")]
use crate::remote::{RemoteDatabase, RemoteOptions};
use crate::slot::{Look, Part, Slot};
use crate::store::Store;
use crate::threads::on_parts;

/// Steps of SQLite's machine between two looks at the caller's wish to stop.
const STEPS_BETWEEN_LOOKS: i32 = 10_000;

/// Number of parts whose files are open at once, beside those that threads read. macOS gives a process
/// 256 descriptors, Linux 1,024.
const OPEN_FILES_MAX: usize = 128;

thread_local! {
    /// The readers with whose parts this thread is at work, by their addresses.
    static AT_WORK: RefCell<Vec<usize>> = const { RefCell::new(Vec::new()) };
}

/// A reader of one run. It goes on with that run when another one becomes current.
///
/// Several threads may use it. Each part has one connection, which is opened when it is needed; those of
/// files that were not used for the longest time are closed. Threads that read the same part wait for one
/// another. It belongs to the process that opened it: in a
/// child of `fork` each call ends with [`Forked`](ErrorKind::Forked).
///
/// ```
/// use leafpress::load::Value;
/// use leafpress_shards::{RouteBy, Sharder, Shards};
///
/// # let folder = tempfile::tempdir().unwrap();
/// # let (out, input) = (folder.path().join("people"), folder.path().join("people.csv"));
/// # std::fs::write(&input, "id,name\n1,Ada\n2,Grace\n3,Joan\n").unwrap();
/// # let to = Shards::at(&out)?;
/// # Sharder::new(to, "hash(id)".parse::<RouteBy>()?, 2).run(|stage| stage.load_file(&input))?;
/// let reader = Shards::open(&out)?.reader()?;
/// let sql = "SELECT name FROM people WHERE id = ?1";
/// let names: Vec<String> = reader.query(&[Value::Integer(2)], sql, [2], |row| row.get(0))?;
/// assert_eq!(names, ["Grace"]);
/// let counts = reader.scan("SELECT count(*) FROM people", |row| row.get::<_, i64>(0))?;
/// assert_eq!(counts.iter().flatten().sum::<i64>(), 3);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Reader {
    store: Arc<dyn Store>,
    manifest: Manifest,
    /// Affinities of the routing columns, which change a value that is compared with them. Known once a key is given.
    affinities: OnceLock<Vec<Affinity>>,
    open: OfProcess<Open>,
    /// Limits of reads by ranges, if parts in a store are to be read so.
    #[cfg(feature = "object-store")]
    ranges: Option<RemoteOptions>,
    /// Makes a look for each connection and for each wait.
    stop: Box<dyn Fn() -> Look + Send + Sync>,
}

/// The connections, and what they need.
struct Open {
    parts: Vec<Slot>,
    /// Copies of parts. Where the caller has named none and the store needs one, it is made then.
    cache: OnceLock<Cache>,
    /// Counts openings and uses, to close the connection that was not used for the longest time.
    clock: AtomicU64,
    /// Held by each part whose file is open.
    files: Arc<()>,
}

impl Reader {
    /// A reader of the run of this manifest.
    pub(crate) fn new(store: Arc<dyn Store>, manifest: Manifest, cache: Option<Cache>) -> Self {
        let parts = manifest.parts.iter().map(|_| Slot::default()).collect();
        let cache = cache.map_or_else(OnceLock::new, OnceLock::from);
        let open = Open { parts, cache, clock: AtomicU64::new(0), files: Arc::default() };
        // From then on forks are counted.
        locks::ensure();
        Self {
            store,
            manifest,
            affinities: OnceLock::new(),
            open: OfProcess::new("reader", open),
            #[cfg(feature = "object-store")]
            ranges: None,
            stop: Box::new(|| Box::new(|| false)),
        }
    }

    /// Reads parts in a store by ranges.
    #[cfg(feature = "object-store")]
    pub(crate) fn by_ranges(mut self, options: RemoteOptions) -> Self {
        self.ranges = Some(options);
        self
    }

    /// Stops reads once `stop` returns true. Threads call it often, each a copy for each part.
    #[must_use]
    pub fn stop_when(mut self, stop: impl FnMut() -> bool + Send + Sync + Clone + 'static) -> Self {
        self.stop = Box::new(move || Box::new(stop.clone()));
        self
    }

    /// The manifest of the run.
    pub fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    /// The part of the rows that have these values in the routing columns, as SQL compares them: the text
    /// `5` is the number 5 in a column of numbers, and NaN is NULL.
    ///
    /// # Errors
    /// [`Misuse`](ErrorKind::Misuse) if rows were split by count or by size, for another number of
    /// values than there are routing columns, or if one of these has another collation than BINARY;
    /// [`Sqlite`](ErrorKind::Sqlite) if SQLite refuses the schema of the manifest.
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
        let affinities = self.affinities()?;
        let mut texts: Vec<_> = key.iter().map(|_| NumberText::new()).collect();
        let compared = key.iter().zip(affinities).zip(&mut texts);
        let key: Vec<_> =
            compared.map(|((value, affinity), text)| affinity.apply(*value, text)).collect();
        let part = self.manifest.routing.part_of(&key, self.manifest.parts.len());
        part.ok_or_else(|| ErrorKind::Bug("a key has no part".to_owned()).into())
    }

    /// Affinities that comparisons with the routing columns apply to the other value.
    fn affinities(&self) -> Result<&[Affinity]> {
        if let Some(known) = self.affinities.get() {
            return Ok(known);
        }
        let found = connect::affinities(&self.manifest.schema, self.manifest.routing.columns())?;
        Ok(self.affinities.get_or_init(|| found))
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

    /// Runs `run` with a statement on each part; the results are in the order of the parts. Several
    /// parts are read at once.
    ///
    /// # Errors
    /// As [`on_part`](Self::on_part).
    pub fn on_all<T: Send>(
        &self,
        sql: &str,
        run: impl Fn(&mut Statement<'_>) -> Result<T> + Sync,
    ) -> Result<Vec<T>> {
        self.each_part(|part| self.on_part(part, sql, &run))
    }

    /// Calls `run` with the number of each part, on several threads; the results are in the order of the parts.
    /// After an error no other part is begun.
    ///
    /// # Errors
    /// Those of `run`; [`Misuse`](ErrorKind::Misuse) inside of a read of the same reader.
    pub fn each_part<T: Send>(&self, run: impl Fn(usize) -> Result<T> + Sync) -> Result<Vec<T>> {
        self.open.get()?.refuse_within()?;
        on_parts(self.threads()?, self.manifest.parts.len(), run)
    }

    /// Runs `run` with a statement on one part.
    ///
    /// # Errors
    /// Those of `run`; [`Misuse`](ErrorKind::Misuse) if there is no such part, and inside of a read of
    /// the same reader;
    /// [`Sqlite`](ErrorKind::Sqlite) if it cannot be read, or the SQL is wrong; those of a store;
    /// [`Cancelled`](ErrorKind::Cancelled), also while another thread has the part.
    pub fn on_part<T>(
        &self,
        part: usize,
        sql: &str,
        run: impl FnOnce(&mut Statement<'_>) -> Result<T>,
    ) -> Result<T> {
        let open = self.open.get()?;
        let Some(slot) = open.parts.get(part) else {
            let parts = open.parts.len();
            return Err(Error::misuse(format!(
                "there is no part {part}, but {parts} parts from 0"
            )));
        };
        let _at_work = AtWork::begin(open)?;
        let mut in_use = slot.take(&self.stop)?;
        slot.used.store(open.clock.fetch_add(1, Ordering::Relaxed), Ordering::Relaxed);
        let part = match &mut in_use.part {
            Some(part) => part,
            none => none.insert(Box::new(self.open(open, part)?)),
        };
        let prepared = part.connection.prepare_cached(sql).map_err(failed);
        let read = prepared.and_then(|mut statement| run(&mut statement));
        // If a request to the store failed, its answer says more than SQLite's error.
        #[cfg(feature = "object-store")]
        if read.is_err()
            && let Some(fault) = part.remote.as_ref().and_then(RemoteDatabase::fault)
        {
            return Err(fault);
        }
        read
    }

    /// Opens a part: the one place that knows how parts are reached.
    fn open(&self, open: &Open, part: usize) -> Result<Part> {
        let record = &self.manifest.parts[part];
        #[cfg(feature = "object-store")]
        if let Some(options) = &self.ranges
            && let Some((store, path)) = self.store.object(&record.path)
        {
            let remote = RemoteDatabase::open(store, &path, Some(record), options)?;
            let mut connection = remote.connect()?;
            self.prepare(&mut connection)?;
            return Ok(Part { connection, _copy: None, _file: None, remote: Some(remote) });
        }
        if Arc::strong_count(&open.files) > OPEN_FILES_MAX {
            // Several at once, as each search looks at all parts. The files are counted again after each:
            // other threads close some as well.
            close_idle(open, |_| Arc::strong_count(&open.files) <= OPEN_FILES_MAX / 4 * 3);
        }
        let in_place = self.store.in_place(&record.path).filter(|_| open.cache.get().is_none());
        let (mut connection, copy) = if let Some(file) = in_place {
            (connect::read_only(&file)?, None)
        } else {
            let close = |wanted| {
                let mut closed = 0;
                close_idle(open, |part| {
                    closed += self.manifest.parts[part].bytes;
                    closed >= wanted
                });
            };
            let look = RefCell::new((self.stop)());
            let stop = || look.borrow_mut()();
            let (connection, copy) = cache_of(open)?.open(&*self.store, record, &close, &stop)?;
            (connection, Some(copy))
        };
        self.prepare(&mut connection)?;
        Ok(Part {
            connection,
            _copy: copy,
            _file: Some(open.files.clone()),
            #[cfg(feature = "object-store")]
            remote: None,
        })
    }

    /// Has reads of a new connection stop once the caller wants it.
    fn prepare(&self, connection: &mut Connection) -> Result<()> {
        connection.progress_handler(STEPS_BETWEEN_LOOKS, Some((self.stop)())).map_err(failed)
    }

    /// Number of parts that are read at once: if they are copied, the copies fit into the cache.
    fn threads(&self) -> Result<usize> {
        let open = self.open.get()?;
        let threads = std::thread::available_parallelism().map_or(1, Into::into);
        let threads = threads.min(open.parts.len());
        #[cfg(feature = "object-store")]
        if self.ranges.is_some() && self.store.object("").is_some() {
            return Ok(threads);
        }
        if open.cache.get().is_none() && self.store.in_place("").is_some() {
            return Ok(threads);
        }
        let largest = self.manifest.parts.iter().map(|part| part.bytes).max().unwrap_or(0);
        let fit = cache_of(open)?.bytes_max() / largest.max(1);
        Ok(threads.min(usize::try_from(fit).unwrap_or(usize::MAX)).max(1))
    }
}

impl Open {
    /// Refuses a read inside of another one, which may have the part that it would wait for, as may one
    /// of another thread that waits for this one.
    fn refuse_within(&self) -> Result<()> {
        let address = std::ptr::from_ref(self).addr();
        if !AT_WORK.with_borrow(|at_work| at_work.contains(&address)) {
            return Ok(());
        }
        Err(Error::misuse("a read of this reader would wait for the read that it is inside of")
            .to_do("take the rows out of the first read before the second one, or open a second reader"))
    }
}

/// This thread is at work with a part, until this is dropped.
struct AtWork;

impl AtWork {
    fn begin(open: &Open) -> Result<Self> {
        open.refuse_within()?;
        AT_WORK.with_borrow_mut(|at_work| at_work.push(std::ptr::from_ref(open).addr()));
        Ok(Self)
    }
}

impl Drop for AtWork {
    fn drop(&mut self) {
        AT_WORK.with_borrow_mut(Vec::pop);
    }
}

/// Closes the connections that were not used for the longest time, until `is_enough` says so of a part
/// whose connection was closed. Those that a thread uses stay.
fn close_idle(open: &Open, mut is_enough: impl FnMut(usize) -> bool) {
    let mut slots: Vec<_> = open.parts.iter().enumerate().collect();
    // Threads use parts meanwhile: each time of use is read once.
    slots.sort_by_cached_key(|(_, slot)| slot.used.load(Ordering::Relaxed));
    for (part, slot) in slots {
        if let Some(mut idle) = slot.try_take()
            && idle.part.take().is_some()
            && is_enough(part)
        {
            return;
        }
    }
}

fn cache_of(open: &Open) -> Result<&Cache> {
    if open.cache.get().is_none() {
        // Another thread may be faster: then its cache is taken.
        let _ = open.cache.set(Cache::temporary()?);
    }
    open.cache.get().ok_or_else(|| ErrorKind::Bug("a cache went away".to_owned()).into())
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

#[cfg(all(test, feature = "object-store"))]
mod tests {
    use object_store::memory::InMemory;
    use object_store::path::Path;

    use super::*;
    use crate::manifest::{PartRecord, Schema};
    use crate::routing::Routing;
    use crate::store::objects::Objects;

    #[test]
    fn a_scan_by_ranges_needs_no_copies() {
        let part = |part| PartRecord {
            part,
            path: format!("runs/a/parts/{part}.db"),
            bytes: 600 << 20,
            sha256: String::new(),
            rows: 1,
            smallest: Key::Null,
            largest: Key::Null,
            page_size: 4096,
            pages: (600 << 20) / 4096,
            interior_pages: None,
            attempt: "a".to_owned(),
        };
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let records = (0..cores).map(part).collect();
        let manifest = Manifest::new("a".to_owned(), Schema::default(), Routing::Rows, records);
        let reader = || {
            let store = Objects::on(Arc::new(InMemory::new()), None, "memory://a", Path::default());
            Reader::new(Arc::new(store), manifest.clone(), None)
        };
        let by_ranges = reader().by_ranges(RemoteOptions::default());
        assert_eq!(by_ranges.threads().unwrap(), cores);
        let open = by_ranges.open.get().unwrap();
        assert!(open.cache.get().is_none(), "a folder was made for copies");
        // Control: whole parts of this size are copied one by one.
        assert_eq!(reader().threads().unwrap(), 1);
    }
}
