//! Shards: parts by tasks of Spark, Ray and Dask, and a reader.
//!
//! ```text
//! tasks: scatter rows ─► a file of each task ─► tasks: build ─► a part ─► driver: publish
//! ```
//!
//! | module | is |
//! |---|---|
//! | `keys` | values of the routing columns |
//! | `types` | types that depend on the values of all tasks |
//! | `scatter` | a task's rows, by part, into one file |
//! | `gather` | the rows of a part, out of these files |
//! | `reader` | a reader of the parts |

#![expect(clippy::needless_pass_by_value, reason = "as pyo3 gives them")]

mod gather;
mod keys;
mod reader;
mod scatter;
mod types;

use std::path::PathBuf;

use leafpress::load::{Batched, Loader, OnConflict};
use leafpress::{Error, ErrorKind, Result, path_text};
use leafpress_shards::{
    Manifest, PartBuilder, PartRecord, Publication, RouteBy, Routing, Sample, Schema, Scratch,
    Shards, bounds_of,
};
use pyo3::prelude::*;
use serde::de::DeserializeOwned;

use self::gather::{Gathered, Span};
pub use self::reader::NativeShards;
use crate::arrow::{Exported, batches_of};
use crate::errors::{Raise, of_option};
use crate::json::as_json;
use crate::load::layout_of;

/// A run that is not published yet: the driver's side.
#[pyclass(frozen, module = "leafpress._leafpress")]
pub struct NativeRun {
    shards: Shards,
    publication: Publication,
    /// Home of the rows on their way, where it is another one.
    scratch: Option<(Shards, Publication)>,
}

impl NativeRun {
    fn scratch(&self) -> &Shards {
        self.scratch.as_ref().map_or(&self.shards, |(home, _)| home)
    }

    fn abandon_scratch(&self) {
        if let Some((home, publication)) = &self.scratch {
            home.abandon(publication);
        }
    }
}

#[pymethods]
impl NativeRun {
    /// Begins a run in a folder, which is made if it is not there, or in a store.
    #[new]
    fn new(py: Python<'_>, folder: PathBuf, scratch: Option<PathBuf>) -> PyResult<Self> {
        let begun = || {
            let shards = Shards::at(folder)?;
            let scratch = scratch.map(Shards::at).transpose()?;
            let publication = shards.begin()?;
            let scratch = scratch.map(|home| {
                let begun = home
                    .begin_scratch(&publication)
                    .inspect_err(|_| shards.abandon(&publication))?;
                Ok::<_, Error>((home, begun))
            });
            Ok(Self { scratch: scratch.transpose()?, shards, publication })
        };
        py.detach(begun).raise(py)
    }

    /// Name of the run.
    #[getter]
    fn name(&self) -> &str {
        &self.publication.run
    }

    /// Publishes the parts. Records, schemas and routing are JSON, as `shards_build` and `shards_routing` give them.
    fn publish(
        &self,
        py: Python<'_>,
        routing: &str,
        schemas: Vec<String>,
        records: Vec<String>,
    ) -> PyResult<()> {
        py.detach(|| {
            let schema = schemas.first().map_or("", String::as_str);
            if schemas.iter().any(|other| other != schema) {
                let reason = "the parts of a run have different columns".to_owned();
                return Err(ErrorKind::Bug(reason).into());
            }
            let records = records.iter().map(|record| read::<PartRecord>(record));
            let records = records.collect::<Result<Vec<_>>>()?;
            let run = self.publication.run.clone();
            let manifest = Manifest::new(run, read::<Schema>(schema)?, read(routing)?, records);
            self.shards.publish(&self.publication, manifest).map(drop)
        })
        .raise(py)
    }

    /// Leaves a sign of life, for `gc`.
    fn keep_alive(&self, py: Python<'_>) -> PyResult<()> {
        let run = &self.publication.run;
        py.detach(|| {
            self.shards.keep_alive(run)?;
            self.scratch.as_ref().map_or(Ok(()), |(home, _)| home.keep_alive(run))
        })
        .raise(py)
    }

    /// Number of parts that have a file, and of files of scattered rows.
    fn progress(&self, py: Python<'_>) -> PyResult<(usize, usize)> {
        let run = &self.publication.run;
        py.detach(|| {
            let (parts, _) = self.shards.progress(run)?;
            let (_, scattered) = self.scratch().progress(run)?;
            Ok((parts, scattered))
        })
        .raise(py)
    }

    /// Removes the scattered rows.
    fn remove_scattered(&self, py: Python<'_>) -> PyResult<()> {
        py.detach(|| {
            self.scratch().remove_scratch(&self.publication.run)?;
            self.abandon_scratch();
            Ok(())
        })
        .raise(py)
    }

    /// Raises an error if the folder of the run, or that of the rows on their way, was removed.
    fn check_folder(&self, py: Python<'_>) -> PyResult<()> {
        py.detach(|| {
            self.shards.check_folder(&self.publication)?;
            self.scratch.as_ref().map_or(Ok(()), |(home, begun)| home.check_folder(begun))
        })
        .raise(py)
    }

    /// Removes all of the run, unless it is published.
    fn abandon(&self, py: Python<'_>) {
        py.detach(|| {
            self.shards.abandon(&self.publication);
            self.abandon_scratch();
        });
    }
}

/// Keywords of the engines' `write` that a part's loader is told.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub struct PartOptions {
    table: String,
    pk: Vec<String>,
    index: Vec<String>,
    unique: Vec<String>,
    not_null: Vec<String>,
    strict: bool,
    without_rowid: bool,
    analyze: bool,
    on_conflict: String,
    page_size: Option<u32>,
    layout: Option<String>,
    threads: usize,
    memory: usize,
}

impl PartOptions {
    fn set(&self, loader: Loader) -> Result<Loader> {
        let mut loader = loader
            .table(&self.table)
            .strict(self.strict)
            .without_rowid(self.without_rowid)
            .analyze(self.analyze)
            .threads(self.threads)
            .memory(self.memory);
        loader = self.pk.iter().fold(loader, Loader::primary_key);
        loader = self.index.iter().fold(loader, Loader::index);
        loader = self.unique.iter().fold(loader, Loader::unique);
        loader = self.not_null.iter().fold(loader, Loader::not_null);
        loader = loader.on_conflict(match self.on_conflict.as_str() {
            "abort" => OnConflict::Abort,
            "ignore" => OnConflict::Ignore,
            "replace" => OnConflict::Replace,
            other => {
                let words = "abort, ignore or replace";
                return Err(Error::misuse(format!("on_conflict={other:?}: it is {words}")));
            }
        });
        if let Some(layout) = &self.layout {
            loader = loader.layout(layout_of(layout)?);
        }
        Ok(match self.page_size {
            Some(bytes) => loader.page_size(bytes),
            None => loader,
        })
    }
}

/// A sample of the keys of exported rows, as JSON.
#[pyfunction]
pub fn shards_sample(py: Python<'_>, by: &str, source: Bound<'_, PyAny>) -> PyResult<String> {
    let by = way(by).raise(py)?;
    let batches = batches_of(&source)?;
    py.detach(|| {
        let names: Vec<String> = by.columns().into_iter().map(str::to_owned).collect();
        let places = keys::places_of(&names, &batches.schema())?;
        let mut sample = Sample::default();
        for batch in batches {
            let batch = batch.map_err(|error| Error::input("<batches>", error.to_string()))?;
            keys::each(&batch, &places, |_, key| {
                if let [value] = key {
                    sample.add(value);
                }
                Ok(())
            })?;
        }
        as_json(&sample)
    })
    .raise(py)
}

/// The rule by which rows are split, as JSON, and the number of parts. Ranges need samples.
#[pyfunction]
pub fn shards_routing(
    py: Python<'_>,
    by: &str,
    seed: u64,
    parts: usize,
    samples: Vec<String>,
) -> PyResult<(String, usize)> {
    let routed = || {
        let routing = match way(by)? {
            RouteBy::Hash(columns) => Routing::hash(columns, seed),
            RouteBy::Range(column) => {
                let samples = samples.iter().map(|sample| read::<Sample>(sample));
                let samples = samples.collect::<Result<Vec<_>>>()?;
                Routing::Range { column, bounds: bounds_of(&samples, parts) }
            }
            RouteBy::Rows => Routing::Rows,
            RouteBy::Bytes => {
                return Err(Error::misuse(
                    "by=\"bytes\" is not for engines: tasks do not know the \
                     sizes of the others",
                )
                .to_do("take by=\"rows\""));
            }
        };
        Ok((as_json(&routing)?, routing.parts(parts)))
    };
    py.detach(routed).raise(py)
}

/// Writes exported rows into a new file of a run, by part; its path, the number of rows of each, and a text of what
/// it tells of the columns.
#[pyfunction]
pub fn shards_scatter(
    py: Python<'_>,
    scratch: PathBuf,
    run: &str,
    name: &str,
    routing: &str,
    parts: usize,
    source: Bound<'_, PyAny>,
) -> PyResult<(String, Vec<u64>, String)> {
    let batches: Exported = batches_of(&source)?;
    py.detach(|| {
        let file = Scratch::new(&Shards::at(scratch)?, run, name)?;
        let (rows, columns) = scatter::scatter(file.file(), &read(routing)?, parts, batches)?;
        Ok((file.keep()?, rows, columns))
    })
    .raise(py)
}

/// Looks at the options of the parts: what a load of exported rows, which are none, would refuse. Nothing
/// is made at `place`.
#[pyfunction]
pub fn shards_check(
    py: Python<'_>,
    folder: PathBuf,
    place: PathBuf,
    source: Bound<'_, PyAny>,
    options: Bound<'_, PyAny>,
) -> PyResult<()> {
    let options: PartOptions = options.extract().map_err(|error| of_option(py, error))?;
    let rows: Exported = batches_of(&source)?;
    py.detach(|| {
        let loader = Loader::new(place).bound_for(path_text(folder));
        options.set(loader)?.dry_run_record_batches("<no rows>", rows).map(drop)
    })
    .raise(py)
}

/// Presses a part out of scattered rows; its record and the schema, as JSON.
#[pyfunction]
#[expect(clippy::too_many_arguments, reason = "one call of one Python function")]
pub fn shards_build(
    py: Python<'_>,
    folder: PathBuf,
    scratch: PathBuf,
    run: &str,
    part: usize,
    attempt: &str,
    routing: &str,
    spans: Vec<Span>,
    options: Bound<'_, PyAny>,
) -> PyResult<(String, String)> {
    let options: PartOptions = options.extract().map_err(|error| of_option(py, error))?;
    py.detach(|| {
        let (shards, scratch) = (Shards::at(folder)?, Shards::at(scratch)?);
        let mut builder = PartBuilder::new(&shards, run, part).attempt(attempt);
        if let Some(key) = read::<Routing>(routing)?.columns().first() {
            builder = builder.key(key);
        }
        let open =
            || Gathered::new(&scratch, spans.clone()).map(|rows| Box::new(rows) as Batched<'_>);
        let name = format!("<part {part}>");
        let (record, schema) =
            builder.build(|loader| options.set(loader)?.load_record_batch_source(&name, open))?;
        Ok((as_json(&record)?, as_json(&schema)?))
    })
    .raise(py)
}

fn way(by: &str) -> Result<RouteBy> {
    by.parse().map_err(|reason: String| Error::misuse(reason))
}

fn read<T: DeserializeOwned>(json: &str) -> Result<T> {
    serde_json::from_str(json)
        .map_err(|error| ErrorKind::Bug(format!("wrong JSON: {error}")).into())
}
