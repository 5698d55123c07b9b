//! Splits rows of inputs on one machine.
//!
//! ```text
//! inputs ─► stage: a hidden database ─► route each row ─► a bucket for each part ─► parts, on all cores
//! ```
//!
//! The stage is pressed by the loader, which finds the types and deals with bad rows. The rows of a
//! part are then pressed as any others, with the keys and indexes that were asked for.

mod bucket;

use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use leafpress::load::{
    CancelToken, Column, Loader, RejectReason, Report, column_named, memory_default_bytes,
};
use leafpress::vfs::sync::lock;
use leafpress::{BadRow, Error, ErrorKind, Result, path_text, quote_identifier};
use leafpress_format::Value;
use rusqlite::Connection;
use serde::Serialize;

use self::bucket::Bucket;
use crate::bounds::{Sample, bounds_of};
use crate::connect;
use crate::key::value_of;
use crate::manifest::{Manifest, PartRecord, Schema};
use crate::part::PartBuilder;
use crate::routing::{RouteBy, Routing};
use crate::runs::{Publication, Shards};
use crate::threads::on_parts;

/// Most parts of one call: each has an open file.
const PARTS_MAX: usize = 512;
/// Rows between two looks at the caller's wish to stop.
const ROWS_BETWEEN_LOOKS: u64 = 4096;

type PartLoader = Box<dyn Fn(Loader) -> Loader + Send + Sync>;

/// Splits inputs into parts and publishes them as one run.
#[must_use]
pub struct Sharder {
    shards: Shards,
    by: RouteBy,
    parts: usize,
    seed: u64,
    threads: usize,
    memory: usize,
    with_parts: PartLoader,
    cancel: CancelToken,
}

/// Report of a run.
#[derive(Debug, Clone, Serialize)]
#[non_exhaustive]
pub struct ShardReport {
    /// Folder of the shards, or their URL.
    #[serde(serialize_with = "leafpress::path_as_text")]
    pub folder: PathBuf,
    /// Name of the run, which is current.
    pub run: String,
    /// Name of the table.
    pub table: String,
    /// The rule by which rows were split.
    pub by: String,
    /// Number of parts.
    pub parts: usize,
    /// Number of rows in all parts.
    pub rows: u64,
    /// Number of bad rows that were left out.
    pub rows_rejected: u64,
    /// First ten bad rows.
    pub rejects: Vec<BadRow>,
    /// Reasons for which rows were left out, with their numbers of rows.
    pub reject_reasons: Vec<RejectReason>,
    /// Number of rows that were left out as others of their part have their keys.
    pub rows_ignored: u64,
    /// Rows of the smallest part.
    pub rows_min: u64,
    /// Rows of the largest part.
    pub rows_max: u64,
    /// Bytes of all parts.
    pub bytes: u64,
    /// Time from the call to the publication.
    #[serde(rename = "elapsed_s", serialize_with = "leafpress::times::seconds")]
    pub elapsed: Duration,
    /// Notes for the report.
    pub notes: Vec<String>,
}

impl Sharder {
    /// A sharder of rows into this number of parts. A folder is made if it does not exist.
    pub fn new(shards: Shards, by: RouteBy, parts: usize) -> Self {
        Self {
            shards,
            by,
            parts,
            seed: 0,
            threads: std::thread::available_parallelism().map_or(1, Into::into),
            memory: memory_default_bytes(),
            with_parts: Box::new(|loader| loader),
            cancel: CancelToken::new(),
        }
    }

    /// Sets the loader of each part: keys, indexes, page size. A part knows no keys of others: rows that share
    /// one are found where rows are split by columns of it ([`RouteBy::keeps_together`]).
    pub fn with_parts(mut self, set: impl Fn(Loader) -> Loader + Send + Sync + 'static) -> Self {
        self.with_parts = Box::new(set);
        self
    }

    /// Seed of the hash; 0 by default.
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }

    /// Number of threads; by default the number of cores.
    pub fn threads(mut self, threads: usize) -> Self {
        self.threads = threads.max(1);
        self
    }

    /// Memory for sorting, in bytes, over all parts that are pressed at once; by default that of a load: a quarter of
    /// the memory that this process may use, at most 1 GiB.
    pub fn memory(mut self, bytes: usize) -> Self {
        self.memory = bytes;
        self
    }

    /// A token by which another thread stops the work.
    pub fn cancel(mut self, token: CancelToken) -> Self {
        self.cancel = token;
        self
    }

    /// Loads the inputs by `stage`, which gets a loader for a hidden database, splits its rows, and
    /// publishes the parts.
    ///
    /// # Errors
    /// Those of the loader, for the stage and for the parts; [`NotFound`](ErrorKind::NotFound) for a
    /// column that the input lacks; [`Cancelled`](ErrorKind::Cancelled); [`Changed`](ErrorKind::Changed) if
    /// its files were removed meanwhile. The run that was current stays
    /// it, and nothing of this one is left, except after those of a publication: see [`Shards::publish`].
    pub fn run(self, stage: impl FnOnce(Loader) -> Result<Report>) -> Result<ShardReport> {
        if self.parts == 0 || self.parts > PARTS_MAX {
            return Err(Error::misuse(format!(
                "{} parts: from 1 to {PARTS_MAX} are made at once",
                self.parts
            )));
        }
        if self.seed != 0 && !matches!(self.by, RouteBy::Hash(_)) {
            return Err(Error::misuse(format!("{} has no hash that a seed could change", self.by))
                .to_do("leave out ⟦seed⟧, or split by a hash"));
        }
        let began = Instant::now();
        let publication = self.shards.begin()?;
        let made = self.make(&publication, stage);
        if made.is_err() {
            let lost = self.shards.check_folder(&publication);
            self.shards.abandon(&publication);
            lost?;
        }
        let (report, manifest) = made?;
        let counts = || manifest.parts.iter().map(|part| part.rows);
        Ok(ShardReport {
            folder: self.shards.root().to_owned(),
            by: self.by.to_string(),
            table: manifest.schema.table.clone(),
            parts: manifest.parts.len(),
            rows: manifest.rows,
            rows_rejected: report.rows_rejected,
            rejects: report.rejects.clone(),
            reject_reasons: report.reject_reasons.clone(),
            rows_ignored: report.rows_loaded.saturating_sub(manifest.rows),
            rows_min: counts().min().unwrap_or(0),
            rows_max: counts().max().unwrap_or(0),
            bytes: manifest.parts.iter().map(|part| part.bytes).sum(),
            elapsed: began.elapsed(),
            notes: self.notes(&report, manifest.parts.len()),
            run: manifest.run,
        })
    }

    fn notes(&self, report: &Report, made: usize) -> Vec<String> {
        let mut notes = report.notes.clone();
        if made < self.parts {
            let word = if made == 1 { "part" } else { "parts" };
            notes.push(format!(
                "{made} {word} instead of {}: all rows of a key are in one part, and there are no more keys",
                self.parts
            ));
        }
        notes
    }

    fn make(
        &self,
        publication: &Publication,
        stage: impl FnOnce(Loader) -> Result<Report>,
    ) -> Result<(Report, Manifest)> {
        let workplace = self.shards.store().workplace(&publication.run)?;
        let folder = workplace.path();
        let staged = folder.join("stage.db");
        let loader = self.of_run(Loader::new(&staged)).threads(self.threads).memory(self.memory);
        let report = stage(loader)?;
        let source = StageRows::new(&staged, &report, &self.by)?;
        let routing = self.routing(&source)?;
        let parts = routing.parts(self.parts);
        let buckets = self.scatter(&source, &routing, parts, folder)?;
        let columns = source.columns.clone();
        drop(source);
        std::fs::remove_file(&staged).map_err(|error| Error::io("remove", &staged, error))?;
        let (records, schema) = self.press(&publication.run, &report.table, &columns, buckets)?;
        let manifest = Manifest::new(publication.run.clone(), schema, routing, records);
        Ok((report, self.shards.publish(publication, manifest)?))
    }

    /// Sets what all loaders of a run share: the token that stops it, and the shards as the place that errors name.
    fn of_run(&self, loader: Loader) -> Loader {
        loader.bound_for(path_text(self.shards.root())).cancel(self.cancel.clone())
    }

    fn routing(&self, source: &StageRows) -> Result<Routing> {
        Ok(match &self.by {
            RouteBy::Hash(columns) => Routing::hash(columns.clone(), self.seed),
            RouteBy::Range(column) => {
                let mut sample = Sample::default();
                let key = &source.columns[source.keys[0]];
                source.each(std::slice::from_ref(key), &self.cancel, |_, row| {
                    sample.add(&row[0]);
                    Ok(())
                })?;
                let bounds = bounds_of(&[sample], self.parts);
                Routing::Range { column: column.clone(), bounds }
            }
            RouteBy::Rows => Routing::Rows,
            RouteBy::Bytes => Routing::Bytes,
        })
    }

    /// Puts each row into the bucket of its part.
    fn scatter(
        &self,
        source: &StageRows,
        routing: &Routing,
        parts: usize,
        folder: &Path,
    ) -> Result<Vec<Bucket>> {
        let made = (0..parts).map(|_| Bucket::new(folder));
        let mut buckets = made.collect::<Result<Vec<_>>>()?;
        let total = match routing {
            Routing::Bytes => {
                let mut bytes = 0;
                source.each(&source.columns, &self.cancel, |_, row| {
                    bytes += bucket::row_bytes(row);
                    Ok(())
                })?;
                bytes
            }
            _ => source.rows,
        };
        let mut passed = 0;
        source.each(&source.columns, &self.cancel, |index, row| {
            let part = match routing {
                Routing::Hash { .. } | Routing::Range { .. } => {
                    let values: Vec<Value<'_>> = source.keys.iter().map(|&at| row[at]).collect();
                    routing.part_of(&values, parts).unwrap_or(0)
                }
                Routing::Rows => share(index, total, parts),
                Routing::Bytes => {
                    let part = share(passed, total, parts);
                    passed += bucket::row_bytes(row);
                    part
                }
            };
            buckets[part].put(row)
        })?;
        Ok(buckets)
    }

    /// Presses all buckets, several at once.
    fn press(
        &self,
        run: &str,
        table: &str,
        columns: &[Column],
        buckets: Vec<Bucket>,
    ) -> Result<(Vec<PartRecord>, Schema)> {
        let workers = self.threads.min(buckets.len());
        let threads = (self.threads / workers).max(1);
        let memory = (self.memory / workers).max(1 << 20);
        let buckets: Vec<_> = buckets.into_iter().map(|bucket| Mutex::new(Some(bucket))).collect();
        let made = on_parts(workers, buckets.len(), |part| {
            let bucket = lock(&buckets[part]).take();
            let bucket = bucket.ok_or_else(|| ErrorKind::Bug("a bucket went away".to_owned()))?;
            let set = |loader: Loader| {
                let loader = self.of_run(loader).table(table);
                (self.with_parts)(loader.threads(threads).memory(memory))
            };
            let mut builder = PartBuilder::new(&self.shards, run, part).cancel(self.cancel.clone());
            if let Some(key) = self.by.columns().first() {
                builder = builder.key(*key);
            }
            let rows = bucket.into_rows(columns.len())?;
            let made = builder.build(|loader| set(loader).try_load_rows(columns, rows));
            made.map_err(shared_key_advice)
        })?;
        let schema = made.first().map(|(_, schema)| schema.clone()).unwrap_or_default();
        Ok((made.into_iter().map(|(record, _)| record).collect(), schema))
    }
}

/// Bad rows are left out by the stage, so to skip them is no way out for rows that share a key in a part.
fn shared_key_advice(error: Error) -> Error {
    if !error.is_unique_violation() {
        return error;
    }
    error.to_do_instead(
        "keep the first of such rows with ⟦on_conflict_ignore⟧ or the last with ⟦on_conflict_replace⟧",
    )
}

/// The part of a row at `position` of `total`, where each part gets as much.
fn share(position: u64, total: u64, parts: usize) -> usize {
    let part = u128::from(position) * parts as u128 / u128::from(total.max(1));
    (part as usize).min(parts - 1)
}

/// The rows of the stage.
struct StageRows {
    connection: Connection,
    table: String,
    columns: Vec<Column>,
    /// Places of the routing columns.
    keys: Vec<usize>,
    rows: u64,
}

impl StageRows {
    fn new(path: &Path, report: &Report, by: &RouteBy) -> Result<Self> {
        let found = report.columns.iter().map(|it| Column::declared(&it.name, &it.declared_type));
        let columns: Vec<Column> = found.collect();
        let names: Vec<&str> = columns.iter().map(|column| column.name.as_str()).collect();
        let keys = by.columns().into_iter().map(|name| column_named(&names, name));
        let keys = keys.collect::<Result<Vec<_>>>()?;
        let table = quote_identifier(&report.table);
        let connection = connect::read_only(path)?;
        Ok(Self { connection, table, columns, keys, rows: report.rows_loaded })
    }

    /// Gives these columns of each row, with the row's ordinal.
    fn each(
        &self,
        columns: &[Column],
        cancel: &CancelToken,
        mut take: impl FnMut(u64, &[Value<'_>]) -> Result<()>,
    ) -> Result<()> {
        let failed = |source| Error::sqlite("read the staged rows", source);
        let names: Vec<_> = columns.iter().map(|column| quote_identifier(&column.name)).collect();
        // Without an index, rows come in the order of the table. A column could be named rowid.
        let sql = format!("SELECT {} FROM {} NOT INDEXED", names.join(", "), self.table);
        let mut statement = self.connection.prepare(&sql).map_err(failed)?;
        let mut rows = statement.query([]).map_err(failed)?;
        let mut index = 0;
        while let Some(row) = rows.next().map_err(failed)? {
            if index % ROWS_BETWEEN_LOOKS == 0 && cancel.is_cancelled() {
                return Err(ErrorKind::Cancelled.into());
            }
            let value = |at| row.get_ref(at).map(value_of);
            let values = (0..columns.len()).map(value).collect::<rusqlite::Result<Vec<_>>>();
            take(index, &values.map_err(failed)?)?;
            index += 1;
        }
        Ok(())
    }
}
