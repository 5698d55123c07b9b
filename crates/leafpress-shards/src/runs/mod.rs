//! Shards: runs, the one that is current, and what no manifest names (`gc.rs`).
//!
//! | when a publication fails | in the folder or the store |
//! |---|---|
//! | before the manifest has its name | parts that no manifest names; `gc` removes them |
//! | between that and `_CURRENT` | a run that readers do not take; `rollback` can make it current |
//! | after it | the new run is current |

use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use jiff::Timestamp;
use leafpress::verify::{VerifyOptions, verify};
use leafpress::{Error, ErrorKind, Result, path_text};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::cache::Cache;
use crate::catalog::{self, CATALOG};
use crate::connect;
use crate::content::Content;
use crate::key::hex;
use crate::manifest::{Manifest, PartRecord};
use crate::names::{RUNS, is_name, last_name};
use crate::reader::Reader;
use crate::store::{self, Entry, Local, Stop, Store};

mod gc;

pub use self::gc::Collected;

const CURRENT: &str = "_CURRENT";
const MANIFEST: &str = "manifest.json";
/// Changed now and then while a run is being made: see [`Shards::keep_alive`].
const ALIVE: &str = "_ALIVE";
/// There while `gc` removes the files of a run.
const REMOVING: &str = "_REMOVING";

/// Advice where files of a run went while it was made.
pub const KEEP_FILES: &str = "make the run anew; until it ends, let nothing remove its files: leafpress shards gc \
                              does so with a short ⟦older_than⟧";
/// Advice where the current run is of no help.
const NAME_A_RUN: &str = "name the run that is to be current to leafpress shards rollback; leafpress shards list shows them";

/// Shards in a folder, or in an object store (feature `object-store`): `s3://BUCKET/PREFIX`,
/// `gs://BUCKET/PREFIX`, `az://CONTAINER/PREFIX`.
#[derive(Debug, Clone)]
pub struct Shards {
    root: PathBuf,
    store: Arc<dyn Store>,
}

/// Content of `_CURRENT`.
#[derive(Debug, Serialize, Deserialize)]
struct Current {
    run: String,
    manifest: String,
    sha256: String,
}

/// A publication that is under way: it ends only if `_CURRENT` is still as it was at its beginning.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Publication {
    /// Name of the new run.
    pub run: String,
    /// The run that was current at the beginning.
    pub previous: Option<String>,
    /// The folder of the shards was there before.
    was_there: bool,
}

/// A run in a list.
#[derive(Debug, Clone, Serialize)]
#[non_exhaustive]
pub struct RunSummary {
    /// Name of the run.
    pub run: String,
    /// True for the run that readers take.
    pub current: bool,
    /// Time of its publication.
    pub created: String,
    /// Number of parts.
    pub parts: usize,
    /// Number of rows.
    pub rows: u64,
    /// Bytes of all parts.
    pub bytes: u64,
    /// Reason why its manifest cannot be read; then there are no numbers.
    pub problem: Option<String>,
}

/// The runs of a home of shards.
#[derive(Debug, Clone, Serialize)]
#[non_exhaustive]
pub struct Runs {
    /// The runs, the oldest first.
    pub runs: Vec<RunSummary>,
    /// Reason why `_CURRENT` cannot be read, and the way out; then no run is marked as current.
    pub problem: Option<String>,
}

/// The findings of a check of all parts.
#[derive(Debug, Clone, Serialize)]
#[non_exhaustive]
pub struct Verdict {
    /// The run that was checked.
    pub run: String,
    /// No problem was found.
    pub sound: bool,
    /// Number of parts that were checked.
    pub parts: usize,
    /// Number of rows in them.
    pub rows: u64,
    /// Bytes of them.
    pub bytes: u64,
    /// The problems, each with its part.
    pub problems: Vec<String>,
}

impl Shards {
    /// Opens shards of which a run is current.
    ///
    /// # Errors
    /// As [`at`](Self::at); [`NotFound`](ErrorKind::NotFound) if there is none;
    /// [`Input`](ErrorKind::Input) if `_CURRENT` or the manifest cannot be read.
    pub fn open(root: impl Into<PathBuf>) -> Result<Self> {
        let shards = Self::at(root)?;
        shards.manifest()?;
        Ok(shards)
    }

    /// Takes a folder, which need not be there yet, or the URL of a place in a store, for a first run.
    ///
    /// # Errors
    /// [`Misuse`](ErrorKind::Misuse) for a URL that makes no sense;
    /// [`Unsupported`](ErrorKind::Unsupported) for one of a store that this build cannot reach.
    pub fn at(root: impl Into<PathBuf>) -> Result<Self> {
        let root = root.into();
        Ok(Self { store: store::open(&root)?, root })
    }

    /// Takes a place in a store that is open already. `url` is its name in messages. With `pieces`, the same
    /// store, parts go up while they are pressed.
    #[cfg(feature = "object-store")]
    pub fn on_store(
        store: Arc<dyn object_store::ObjectStore>,
        pieces: Option<Arc<dyn object_store::multipart::MultipartStore>>,
        url: &str,
        prefix: &object_store::path::Path,
    ) -> Self {
        let store = store::objects::Objects::on(store, pieces, url, prefix.clone());
        Self { root: url.into(), store: Arc::new(store) }
    }

    /// The folder, or the URL.
    pub fn root(&self) -> &Path {
        &self.root
    }

    pub(crate) fn store(&self) -> &Arc<dyn Store> {
        &self.store
    }

    /// The manifest of the current run.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn manifest(&self) -> Result<Manifest> {
        let Some(current) = self.current()? else {
            return Err(self.no_shards(&format!("it has no {CURRENT}")));
        };
        let (manifest, bytes) = self.manifest_of(&current.run)?;
        if hex(&Sha256::digest(&bytes)) != current.sha256 {
            return Err(Error::input(
                current.manifest,
                format!("its checksum is not the one in {CURRENT}"),
            ));
        }
        Ok(manifest)
    }

    fn current(&self) -> Result<Option<Current>> {
        let bytes = self.store.read(CURRENT)?;
        bytes.map(|bytes| self.read_current(&bytes)).transpose()
    }

    fn no_shards(&self, why: &str) -> Error {
        let reason = format!("no run is current in {}: {why}", path_text(&self.root));
        Error::not_found("file", CURRENT, reason).to_do(
            "name the folder that leafpress shard wrote; if it is this one, see leafpress shards list, and name the \
             run that is to be current to leafpress shards rollback",
        )
    }

    fn read_current(&self, bytes: &[u8]) -> Result<Current> {
        let damaged = |why: String| {
            let path = path_text(self.store.shown(CURRENT));
            Error::input(path, format!("it names no run: {why}")).to_do(NAME_A_RUN)
        };
        let current: Current =
            serde_json::from_slice(bytes).map_err(|error| damaged(error.to_string()))?;
        if !is_name(&current.run) {
            return Err(damaged(format!("{:?} is not the name of a run", current.run)));
        }
        Ok(current)
    }

    fn manifest_of(&self, run: &str) -> Result<(Manifest, Vec<u8>)> {
        let path = path_in(run, MANIFEST)?;
        let shown = path_text(self.store.shown(&path));
        let Some(bytes) = self.store.read(&path)? else {
            return Err(Error::not_found("file", run, format!("the run {run} has no {shown}"))
                .to_do("see leafpress shards list"));
        };
        let manifest = match Manifest::from_json(&bytes) {
            Ok(found) if found.run == run => found,
            Ok(found) => return Err(Error::input(shown, format!("it is of run {}", found.run))),
            Err(reason) => return Err(Error::input(shown, reason)),
        };
        Ok((manifest, bytes))
    }

    /// Begins a publication: gives the run its name, and notes the run that is current.
    ///
    /// # Errors
    /// As [`open`](Self::open), but not that there is no run; the system's, also that this user may not publish.
    pub fn begin(&self) -> Result<Publication> {
        let previous = self.current()?.map(|current| current.run);
        self.store.check_change()?;
        let time = Timestamp::now().strftime("%Y%m%dT%H%M%S%3fZ");
        let run = format!("{time}-{}", store::unique_digits()?);
        let was_there = self.store.begin(&run)?;
        Ok(Publication { run, previous, was_there })
    }

    /// Begins a run of another home here, for its scratch files. [`abandon`](Self::abandon) ends it.
    ///
    /// # Errors
    /// The system's.
    pub fn begin_scratch(&self, of: &Publication) -> Result<Publication> {
        let was_there = self.store.begin(&of.run)?;
        Ok(Publication { run: of.run.clone(), previous: None, was_there })
    }

    /// Leaves a sign of life in a run that is being made: without one, [`gc`](Self::gc) takes a run for dead
    /// in which no file has changed for long. Publication removes it.
    ///
    /// # Errors
    /// Those of the system or the store.
    pub fn keep_alive(&self, run: &str) -> Result<()> {
        self.store.touch(&path_in(run, ALIVE)?)
    }

    /// Looks for the folder of a run that failed.
    ///
    /// # Errors
    /// [`Changed`](ErrorKind::Changed) if it was removed, so that the run had to fail. In an object store nothing shows that.
    pub fn check_folder(&self, publication: &Publication) -> Result<()> {
        let run = &publication.run;
        if !self.store.has_lost(run) {
            return Ok(());
        }
        let root = path_text(&self.root);
        Err(Error::changed(format!(
            "the files of run {run} in {root} were removed while it was made"
        ))
        .on_disk("nothing of this run is left")
        .to_do(KEEP_FILES))
    }

    /// Publishes a run: writes its manifest, then makes it current.
    ///
    /// # Errors
    /// [`Misuse`](ErrorKind::Misuse) for a wrong manifest, and for a routing column of another collation than
    /// BINARY; [`Input`](ErrorKind::Input) if the file of a part is not there or has another size: then the
    /// run is not published.
    /// [`Changed`](ErrorKind::Changed) if [`gc`](Self::gc) removes its files: then it is not published either; if
    /// another run was published since the beginning: then this one is complete, not current, and
    /// [`rollback`](Self::rollback) to it makes it so.
    /// [`OutcomeUnknown`](ErrorKind::OutcomeUnknown) if an object store does not say: then this run is
    /// complete, and current or not; if the change of a folder cannot be synced: then it is current, and
    /// a power cut may make the former one current again.
    pub fn publish(&self, publication: &Publication, mut manifest: Manifest) -> Result<Manifest> {
        manifest.created = Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
        manifest.previous.clone_from(&publication.previous);
        if let Some(problem) = manifest.problem() {
            return Err(Error::misuse(format!("the manifest is wrong: {problem}")));
        }
        // A reader would refuse each key.
        connect::affinities(&manifest.schema, manifest.routing.columns())?;
        let path = path_in(&manifest.run, MANIFEST)?;
        let shown = self.store.shown(&path);
        let bytes = as_json(&manifest, &shown)?;
        // A manifest that is published never changes, and neither does its database.
        if self.store.is_there(&path)? {
            return Err(Error::destination(shown, "the run is published already"));
        }
        // Before the look at the parts: gc keeps a run in which a file has just changed.
        self.write_catalog(&manifest)?;
        self.check_parts(&manifest)?;
        self.store.create(&path, &bytes)?;
        // Once more: a gc that has not seen the manifest removes the parts, and has left its mark.
        if let Err(error) = self.check_parts(&manifest) {
            let _ = self.store.remove(&Entry::at(path));
            return Err(error);
        }
        self.make_current(&manifest.run, &Ok(publication.previous.clone()), &bytes)?;
        // The run is current, also if gc has to remove this.
        let _ = self.store.remove(&Entry::at(path_in(&manifest.run, ALIVE)?));
        Ok(manifest)
    }

    /// Refuses a manifest whose parts are not there, each with its size, or are being removed.
    fn check_parts(&self, manifest: &Manifest) -> Result<()> {
        let run = &manifest.run;
        let entries = self.store.entries(run)?.into_iter();
        let found = entries.filter(|entry| entry.upload.is_none());
        let found: HashMap<_, _> = found.map(|entry| (entry.path, entry.bytes)).collect();
        let still = "the run that was current still is";
        if found.contains_key(&path_in(run, REMOVING)?) {
            return Err(Error::changed(format!("the files of run {run} are being removed"))
                .on_disk(still)
                .to_do(KEEP_FILES));
        }
        for part in &manifest.parts {
            let reason = match found.get(&part.path) {
                Some(size) if *size == part.bytes => continue,
                Some(size) => format!("it has {size} bytes, and the manifest says {}", part.bytes),
                None => "it is not there any more".to_owned(),
            };
            let shown = path_text(self.store.shown(&part.path));
            return Err(Error::input(shown, format!("part {} of run {run}: {reason}", part.part))
                .on_disk(still)
                .to_do(KEEP_FILES));
        }
        Ok(())
    }

    fn write_catalog(&self, manifest: &Manifest) -> Result<()> {
        let path = path_in(&manifest.run, CATALOG)?;
        let draft = self.store.draft(&path)?;
        catalog::write(draft.path(), self.store.rights(), manifest)?;
        let sha256 = || Ok(Content::of(draft.path(), catalog::PAGE_BYTES)?.sha256);
        let keep = || self.store.keep(&draft, &path, &sha256, &|| false);
        match keep() {
            // Of a publication that failed: it was of another second, or of other parts.
            Err(error) if matches!(error.kind(), ErrorKind::Destination { .. }) => {
                self.store.remove(&Entry::at(path.clone()))?;
                keep()
            }
            kept => kept,
        }
    }

    /// Makes `run` current if `expected` is.
    fn make_current(&self, run: &str, expected: &Now, manifest: &[u8]) -> Result<()> {
        let new = Current {
            run: run.to_owned(),
            manifest: path_in(run, MANIFEST)?,
            sha256: hex(&Sha256::digest(manifest)),
        };
        let bytes = as_json(&new, &self.store.shown(CURRENT))?;
        let changed = self.store.change(CURRENT, &mut |found| {
            let now = run_of(found.map(|bytes| self.read_current(bytes)).transpose())?;
            if now == *expected {
                return Ok(bytes.clone());
            }
            let now = now.ok().flatten();
            let now = now.as_deref().unwrap_or("none");
            Err(Error::changed(format!("another run was published meanwhile: {now}"))
                .on_disk(format!("the run {run} is complete and not current; {now} is"))
                .to_do("look at both (leafpress shards list), and roll back to the one that is to count"))
        });
        changed.map_err(|error| match error.kind() {
            ErrorKind::OutcomeUnknown { .. } => error
                .on_disk(format!("the run {run} is complete; it is current if {CURRENT} names it"))
                .to_do("see which run is current (leafpress shards list), and roll back to the one that is to count"),
            _ => error.on_disk(format!("the run {run} is complete and not current")),
        })
    }

    /// A reader of the current run. Parts in a folder are read where they are; those in a store through
    /// a temporary cache of 1 GiB, which goes with the reader.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn reader(&self) -> Result<Reader> {
        Ok(Reader::new(Arc::clone(&self.store), self.manifest()?, None))
    }

    /// A reader of the current run that copies parts into a cache.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn cached_reader(&self, cache: Cache) -> Result<Reader> {
        Ok(Reader::new(Arc::clone(&self.store), self.manifest()?, Some(cache)))
    }

    /// A reader of the current run that fetches ranges of the parts in a store, and no whole part. Parts
    /// in a folder are read where they are.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    #[cfg(feature = "object-store")]
    pub fn ranges_reader(&self, options: crate::remote::RemoteOptions) -> Result<Reader> {
        Ok(self.reader()?.by_ranges(options))
    }

    /// The runs that have a manifest, the oldest first. One whose manifest cannot be read has a
    /// [`problem`](RunSummary::problem), and so has one without a manifest that is current, or that the
    /// manifest of a younger run names as the one before it.
    ///
    /// # Errors
    /// Those of the system or the store.
    pub fn list(&self) -> Result<Runs> {
        let (current, problem) = match run_of(self.current())? {
            Ok(current) => (current, None),
            Err(problem) => (None, Some(format!("{problem}; {NAME_A_RUN}"))),
        };
        let mut runs = Vec::new();
        let mut before = Before::new();
        for run in self.names_of_runs(&[], current.as_ref())?.into_iter().rev() {
            let namer = namer_of(&run, current.as_ref(), &before);
            let current = current.as_ref() == Some(&run);
            let manifest = match self.listed(&run, namer) {
                Ok(Some(manifest)) => manifest,
                Ok(None) => continue,
                Err(error) => Err(self.as_problem(error)?),
            };
            runs.push(match manifest {
                Ok(manifest) => {
                    note_previous(&mut before, &run, &manifest)?;
                    RunSummary {
                        run,
                        current,
                        created: manifest.created,
                        parts: manifest.parts.len(),
                        rows: manifest.rows,
                        bytes: manifest.parts.iter().map(|part| part.bytes).sum(),
                        problem: None,
                    }
                }
                Err(problem) => RunSummary {
                    run,
                    current,
                    created: String::new(),
                    parts: 0,
                    rows: 0,
                    bytes: 0,
                    problem: Some(problem),
                },
            });
        }
        runs.reverse();
        Ok(Runs { runs, problem })
    }

    /// The manifest of a run, or the reason why it cannot be read; `None` for a run that was not published.
    fn listed(&self, run: &str, namer: Option<&str>) -> Result<Option<Readable<Manifest>>> {
        if self.is_published(run)? {
            return Ok(Some(readable(self.manifest_of(run))?.map(|(manifest, _)| manifest)));
        }
        namer.map(|namer| self.lost_manifest(run, namer).map(Err)).transpose()
    }

    /// An error that concerns one run of a folder: this user may not enter its folder. Others are given back.
    fn as_problem(&self, error: Error) -> Result<String> {
        match error.kind() {
            ErrorKind::Io { source, .. }
                if source.kind() == io::ErrorKind::PermissionDenied && self.is_in_folder() =>
            {
                Ok(error.kind().to_string())
            }
            _ => Err(error),
        }
    }

    fn is_in_folder(&self) -> bool {
        self.store.in_place(RUNS).is_some()
    }

    fn is_published(&self, run: &str) -> Result<bool> {
        self.store.is_there(&path_in(run, MANIFEST)?)
    }

    /// The problem of a published run without a manifest. `namer` is the file that shows that it was published.
    fn lost_manifest(&self, run: &str, namer: &str) -> Result<String> {
        let shown = path_text(self.store.shown(&path_in(run, MANIFEST)?));
        Ok(format!("{shown}: it is not there, and {namer} names its run"))
    }

    /// The runs in order, with those of which there is nothing but an unfinished upload, and the current one.
    fn names_of_runs(&self, unfinished: &[Entry], now: Option<&String>) -> Result<Vec<String>> {
        let mut names = self.store.runs()?;
        let run = |upload: &Entry| upload.path.split('/').nth(1).map(str::to_owned);
        names.extend(unfinished.iter().filter_map(run).chain(now.cloned()));
        names.retain(|name| is_name(name));
        names.sort_unstable();
        names.dedup();
        Ok(names)
    }

    /// Makes another run current: `run`, or the one before the current one. Returns its manifest. With `run`
    /// it also replaces a `_CURRENT` that cannot be read.
    ///
    /// # Errors
    /// [`NotFound`](ErrorKind::NotFound) if there is no such run; [`Input`](ErrorKind::Input) if the file of a
    /// part is not there or has another size. Then nothing is changed.
    pub fn rollback(&self, run: Option<&str>) -> Result<Manifest> {
        let now = run_of(self.current())?;
        let target = if let Some(run) = run {
            run.to_owned()
        } else {
            let manifest = self.manifest().map_err(|error| error.to_do_instead(NAME_A_RUN))?;
            let none = || {
                Error::not_found("file", "run", "there is no run before the current one")
                    .to_do(NAME_A_RUN)
            };
            manifest.previous.ok_or_else(none)?
        };
        let (manifest, bytes) = self.manifest_of(&target)?;
        self.check_parts(&manifest)?;
        self.make_current(&target, &now, &bytes)?;
        Ok(manifest)
    }

    /// Checks the current run: size, checksum, rows and `integrity_check` of each part, and that `manifest.db`
    /// says the same as the manifest. Files in a store are fetched for that, one after the other.
    ///
    /// # Errors
    /// As [`open`](Self::open); [`Cancelled`](ErrorKind::Cancelled) once `stop` returns true; those of a
    /// store that does not answer. What is wrong with a part is no error but a problem in the verdict.
    pub fn verify(
        &self,
        stop: impl Fn() -> bool + Send + Sync + Clone + 'static,
    ) -> Result<Verdict> {
        let manifest = self.manifest()?;
        let mut problems = Vec::new();
        for part in &manifest.parts {
            if stop() {
                return Err(ErrorKind::Cancelled.into());
            }
            let found = match self.local(&part.path, &stop) {
                Ok(file) => problems_of(part, file.path(), &manifest.schema.table, &stop)?,
                Err(error) if matches!(error.kind(), ErrorKind::NotFound { .. }) => {
                    vec![error.kind().to_string()]
                }
                Err(error) => return Err(error),
            };
            problems.extend(found.into_iter().map(|text| format!("part {}: {text}", part.part)));
        }
        problems.extend(self.problem_of_catalog(&manifest, &stop)?);
        Ok(Verdict {
            run: manifest.run,
            sound: problems.is_empty(),
            parts: manifest.parts.len(),
            rows: manifest.rows,
            bytes: manifest.parts.iter().map(|part| part.bytes).sum(),
            problems,
        })
    }

    fn problem_of_catalog(&self, manifest: &Manifest, stop: &Stop<'_>) -> Result<Option<String>> {
        let path = path_in(&manifest.run, CATALOG)?;
        if !self.store.is_there(&path)? {
            return Ok(Some(format!("{path} is missing")));
        }
        let file = self.local(&path, stop)?;
        let difference = catalog::difference(file.path(), manifest)?;
        Ok(difference.map(|difference| format!("{path}: {difference}")))
    }

    /// The file of a path, or a temporary copy.
    fn local(&self, path: &str, stop: &Stop<'_>) -> Result<Local> {
        if let Some(file) = self.store.in_place(path) {
            return Ok(Local::at(file));
        }
        let copy = Local::temporary(Some(last_name(path)))?;
        self.store.fetch(path, copy.path(), stop)?;
        Ok(copy)
    }

    /// Removes all of a run that was not published, and the folder of the shards unless it was there
    /// before. A run that has its manifest stays, without its scratch files.
    pub fn abandon(&self, publication: &Publication) {
        match self.is_published(&publication.run) {
            Ok(false) => self.store.abandon(&publication.run, publication.was_there),
            Ok(true) => drop(self.remove_scratch(&publication.run)),
            Err(_) => {}
        }
    }
}

/// The content of a file, or the reason why it cannot be read.
type Readable<T> = std::result::Result<T, String>;

/// The run that is current, if any, or the reason why `_CURRENT` cannot be read.
type Now = Readable<Option<String>>;

fn run_of(current: Result<Option<Current>>) -> Result<Now> {
    Ok(readable(current)?.map(|current| current.map(|it| it.run)))
}

/// Runs that younger ones name as the run before theirs, each with the path of the manifest that does.
type Before = HashMap<String, String>;

/// The file that names a run, which therefore was published.
fn namer_of<'n>(run: &String, now: Option<&String>, before: &'n Before) -> Option<&'n str> {
    if now == Some(run) { Some(CURRENT) } else { before.get(run).map(String::as_str) }
}

/// Notes the run that the manifest of `run` names. It is an older one, so younger runs are read first.
fn note_previous(before: &mut Before, run: &str, manifest: &Manifest) -> Result<()> {
    if let Some(previous) = &manifest.previous {
        before.insert(previous.clone(), path_in(run, MANIFEST)?);
    }
    Ok(())
}

/// The content, or the reason why it makes no sense.
///
/// # Errors
/// Those of the system or the store.
fn readable<T>(read: Result<T>) -> Result<Readable<T>> {
    match read {
        Ok(content) => Ok(Ok(content)),
        Err(error) => match error.kind() {
            ErrorKind::Input { file, reason, .. } => Ok(Err(format!("{file}: {reason}"))),
            _ => Err(error),
        },
    }
}

/// Path of a file of a run.
fn path_in(run: &str, name: &str) -> Result<String> {
    if !is_name(run) {
        return Err(Error::misuse(format!("{run:?} is not the name of a run")));
    }
    Ok(format!("{RUNS}/{run}/{name}"))
}

/// The problems of a part.
fn problems_of(
    part: &PartRecord,
    file: &Path,
    table: &str,
    stop: &(impl Fn() -> bool + Send + Sync + Clone + 'static),
) -> Result<Vec<String>> {
    let mut problems = Vec::new();
    let found = match Content::of(file, part.page_size as usize) {
        Ok(found) => found,
        Err(error) => return Ok(vec![error.kind().to_string()]),
    };
    if found.bytes != part.bytes {
        problems.push(format!("{} has {} bytes, not {}", part.path, found.bytes, part.bytes));
    } else if found.sha256 != part.sha256 {
        problems.push(format!("{} has another checksum", part.path));
    }
    match verify(file, &VerifyOptions::default().stop_when(stop.clone())) {
        Ok(report) => problems.extend(report.problems),
        Err(error) if matches!(error.kind(), ErrorKind::Cancelled) => return Err(error),
        Err(error) => problems.push(error.kind().to_string()),
    }
    let counted =
        connect::read_only(file).and_then(|connection| connect::rows_of(&connection, table));
    match counted {
        Ok(rows) if rows != part.rows => problems.push(format!("{rows} rows, not {}", part.rows)),
        Ok(_) => {}
        Err(error) => problems.push(error.kind().to_string()),
    }
    Ok(problems)
}

fn as_json(object: &impl Serialize, path: &Path) -> Result<Vec<u8>> {
    let mut bytes = serde_json::to_vec_pretty(object)
        .map_err(|error| Error::input(path_text(path), error.to_string()))?;
    bytes.push(b'\n');
    Ok(bytes)
}
