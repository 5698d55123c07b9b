//! A folder of shards: runs, the one that is current, and what no manifest names.
//!
//! | when a publication fails | on disk |
//! |---|---|
//! | before the manifest has its name | parts that no manifest names; `gc` removes them |
//! | between that and `_CURRENT` | a run that readers do not take; `rollback` can make it current |
//! | after it | the new run is current |

use std::collections::HashSet;
use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use jiff::Timestamp;
use leafpress::load::make_new;
use leafpress::verify::{VerifyOptions, verify};
use leafpress::vfs::locks::{self, FileHandle, Open};
use leafpress::vfs::rights::Rights;
use leafpress::{Error, ErrorKind, Result, path_text};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::catalog::{self, CATALOG};
use crate::connect;
use crate::key::hex;
use crate::manifest::Manifest;
use crate::part::{Content, RUNS, is_name, make_folder, parts_of};
use crate::reader::Reader;

const CURRENT: &str = "_CURRENT";
const LOCK: &str = "_LOCK";
const MANIFEST: &str = "manifest.json";

/// A folder of shards.
#[derive(Debug, Clone)]
pub struct Shards {
    root: PathBuf,
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
pub struct Publication {
    /// Name of the new run.
    pub run: String,
    /// The run that was current at the beginning.
    pub previous: Option<String>,
}

/// A run in a list.
#[derive(Debug, Clone, Serialize)]
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
}

/// The findings of a check of all parts.
#[derive(Debug, Clone, Serialize)]
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

/// Files that no manifest names.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Collected {
    /// Their paths, from the folder of the shards.
    pub files: Vec<String>,
    /// Their bytes.
    pub bytes: u64,
    /// True if they were only looked for.
    pub dry_run: bool,
}

impl Shards {
    /// Opens a folder in which a run is current.
    ///
    /// # Errors
    /// [`NotFound`](ErrorKind::NotFound) if there is none; [`Input`](ErrorKind::Input) if `_CURRENT` or
    /// the manifest cannot be read.
    pub fn open(root: impl Into<PathBuf>) -> Result<Self> {
        let shards = Self { root: root.into() };
        shards.manifest()?;
        Ok(shards)
    }

    /// Takes a folder, which need not be there yet, for a first run.
    pub fn at(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into() }
    }

    /// The folder.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// The manifest of the current run.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn manifest(&self) -> Result<Manifest> {
        let Some(current) = self.current()? else {
            let root = path_text(&self.root);
            let reason = format!("{root} is no folder of shards: it has no {CURRENT}");
            return Err(Error::not_found("file", CURRENT, reason)
                .to_do("name the folder that leafpress shard wrote"));
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
        let path = self.root.join(CURRENT);
        match locks::read(&path) {
            Ok(bytes) => serde_json::from_slice(&bytes).map(Some).map_err(|error| {
                Error::input(path_text(&path), format!("it names no run: {error}"))
            }),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(Error::io("read", &path, error)),
        }
    }

    fn manifest_of(&self, run: &str) -> Result<(Manifest, Vec<u8>)> {
        let path = self.run_folder(run)?.join(MANIFEST);
        let bytes = locks::read(&path).map_err(|source| match source.kind() {
            io::ErrorKind::NotFound => {
                Error::not_found("file", run, format!("the run {run} has no {}", path_text(&path)))
                    .to_do("see leafpress shards list")
            }
            _ => Error::io("read", &path, source),
        })?;
        let manifest =
            Manifest::from_json(&bytes).map_err(|reason| Error::input(path_text(&path), reason))?;
        Ok((manifest, bytes))
    }

    fn run_folder(&self, run: &str) -> Result<PathBuf> {
        if !is_name(run) {
            return Err(Error::misuse(format!("{run:?} is not the name of a run")));
        }
        Ok(self.root.join(RUNS).join(run))
    }

    /// Folder of the parts of a run.
    pub(crate) fn parts_folder(&self, run: &str) -> Result<PathBuf> {
        self.run_folder(run)?;
        Ok(self.root.join(parts_of(run)))
    }

    /// Begins a publication: gives the run its name, and notes the run that is current.
    ///
    /// # Errors
    /// As [`open`](Self::open), but not that there is no run; the system's.
    pub fn begin(&self) -> Result<Publication> {
        let previous = self.current()?.map(|current| current.run);
        let time = Timestamp::now().strftime("%Y%m%dT%H%M%S%3fZ");
        let run = format!("{time}-{:08x}", fastrand::u32(..));
        make_folder(&self.run_folder(&run)?)?;
        Ok(Publication { run, previous })
    }

    /// Publishes a run: writes its manifest, then makes it current.
    ///
    /// # Errors
    /// [`Changed`](ErrorKind::Changed) if another run was published since the beginning: then this one
    /// is complete, not current, and [`rollback`](Self::rollback) to it makes it so.
    pub fn publish(&self, publication: &Publication, mut manifest: Manifest) -> Result<Manifest> {
        manifest.created = Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
        manifest.previous.clone_from(&publication.previous);
        if let Some(problem) = manifest.problem() {
            return Err(Error::misuse(format!("the manifest is wrong: {problem}")));
        }
        let folder = self.run_folder(&manifest.run)?;
        let path = folder.join(MANIFEST);
        let bytes = as_json(&manifest, &path)?;
        refuse_if_published(&path)?;
        catalog::write(&folder.join(CATALOG), &manifest)?;
        make_new(&path, |hidden| {
            write_all(hidden, &bytes).map_err(|source| Error::io("write", &path, source))
        })?;
        self.make_current(&manifest.run, publication.previous.as_deref(), &bytes)?;
        Ok(manifest)
    }

    /// Makes `run` current if `expected` is.
    fn make_current(&self, run: &str, expected: Option<&str>, manifest: &[u8]) -> Result<()> {
        let _lock = self.lock()?;
        let now = self.current()?.map(|current| current.run);
        if now.as_deref() != expected {
            let now = now.as_deref().unwrap_or("none");
            return Err(Error::changed(format!("another run was published meanwhile: {now}"))
            .on_disk(format!("the run {run} is complete and not current; {now} is"))
            .to_do("look at both (leafpress shards list), and roll back to the one that is to count"));
        }
        let current = Current {
            run: run.to_owned(),
            manifest: format!("{RUNS}/{run}/{MANIFEST}"),
            sha256: hex(&Sha256::digest(manifest)),
        };
        let path = self.root.join(CURRENT);
        let bytes = as_json(&current, &path)?;
        self.replace(&path, &bytes).map_err(|source| {
            Error::io("write", &path, source)
                .on_disk(format!("the run {run} is complete and not current"))
        })
    }

    /// Puts a file in place of another one; a reader sees one of them, whole.
    fn replace(&self, path: &Path, bytes: &[u8]) -> io::Result<()> {
        let new = path.with_extension("new");
        match fs::remove_file(&new) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        drop(FileHandle::create(&new, Rights::of(path))?);
        write_all(&new, bytes).map_err(io::Error::other)?;
        fs::rename(&new, path)?;
        FileHandle::open(&self.root)?.sync_all()
    }

    /// Waits for the lock under which `_CURRENT` changes.
    fn lock(&self) -> Result<FileHandle> {
        let path = self.root.join(LOCK);
        let failed = |source| Error::io("lock", &path, source);
        match FileHandle::create(&path, Rights::of(&self.root.join(CURRENT))) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                return Err(failed(error));
            }
            _ => {}
        }
        let file = FileHandle::open_as(&path, Open::ReadWrite).map_err(failed)?;
        file.lock().map_err(failed)?;
        Ok(file)
    }

    /// A reader of the current run.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn reader(&self) -> Result<Reader> {
        Ok(Reader::new(&self.root, self.manifest()?))
    }

    /// The runs that have a manifest, the oldest first.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn list(&self) -> Result<Vec<RunSummary>> {
        let current = self.current()?.map(|current| current.run);
        let mut runs = Vec::new();
        for run in self.names_of_runs()? {
            if !self.run_folder(&run)?.join(MANIFEST).exists() {
                continue;
            }
            let (manifest, _) = self.manifest_of(&run)?;
            runs.push(RunSummary {
                current: current.as_ref() == Some(&run),
                run,
                created: manifest.created,
                parts: manifest.parts.len(),
                rows: manifest.rows,
                bytes: manifest.parts.iter().map(|part| part.bytes).sum(),
            });
        }
        Ok(runs)
    }

    fn names_of_runs(&self) -> Result<Vec<String>> {
        let mut names: Vec<_> = names_in(&self.root.join(RUNS))?
            .into_iter()
            .filter(|name| self.run_folder(name).is_ok_and(|folder| folder.is_dir()))
            .collect();
        names.sort_unstable();
        Ok(names)
    }

    /// Makes another run current: `run`, or the one before the current one. Returns its manifest.
    ///
    /// # Errors
    /// [`NotFound`](ErrorKind::NotFound) if there is no such run. Then nothing is changed.
    pub fn rollback(&self, run: Option<&str>) -> Result<Manifest> {
        let now = self.current()?.map(|current| current.run);
        let target = match run {
            Some(run) => run.to_owned(),
            None => self.manifest()?.previous.ok_or_else(|| {
                Error::not_found("file", "run", "there is no run before the current one")
                    .to_do("name a run; leafpress shards list shows them")
            })?,
        };
        let (manifest, bytes) = self.manifest_of(&target)?;
        self.make_current(&target, now.as_deref(), &bytes)?;
        Ok(manifest)
    }

    /// Checks the current run: size, checksum, rows and `integrity_check` of each part.
    ///
    /// # Errors
    /// As [`open`](Self::open); [`Cancelled`](ErrorKind::Cancelled) once `stop` returns true. What is
    /// wrong with a part is no error but a problem in the verdict.
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
            let path = self.root.join(&part.path);
            let mut problem = |text: String| problems.push(format!("part {}: {text}", part.part));
            let found = match Content::of(&path, part.page_size as usize) {
                Ok(found) => found,
                Err(error) => {
                    problem(error.to_string());
                    continue;
                }
            };
            if found.bytes != part.bytes {
                problem(format!("{} has {} bytes, not {}", part.path, found.bytes, part.bytes));
            } else if found.sha256 != part.sha256 {
                problem(format!("{} has another checksum", part.path));
            }
            match verify(&path, &VerifyOptions::default().stop_when(stop.clone())) {
                Ok(report) => report.problems.iter().for_each(|text| problem(text.clone())),
                Err(error) if matches!(error.kind(), ErrorKind::Cancelled) => return Err(error),
                Err(error) => problem(error.to_string()),
            }
            let counted = connect::read_only(&path)
                .and_then(|connection| connect::rows_of(&connection, &manifest.schema.table));
            match counted {
                Ok(rows) if rows != part.rows => problem(format!("{rows} rows, not {}", part.rows)),
                Ok(_) => {}
                Err(error) => problem(error.to_string()),
            }
        }
        Ok(Verdict {
            run: manifest.run,
            sound: problems.is_empty(),
            parts: manifest.parts.len(),
            rows: manifest.rows,
            bytes: manifest.parts.iter().map(|part| part.bytes).sum(),
            problems,
        })
    }

    /// Removes files that no manifest names: parts of attempts that lost, and runs that ended without
    /// a manifest. Files that changed less than `older_than` ago stay, as their run may go on.
    ///
    /// # Errors
    /// The system's; what was removed before stays removed. [`Input`](ErrorKind::Input) if a manifest
    /// cannot be read: then nothing of its run is removed.
    pub fn gc(&self, older_than: Duration, dry_run: bool) -> Result<Collected> {
        let mut collected = Collected { dry_run, ..Collected::default() };
        for run in self.names_of_runs()? {
            let folder = self.run_folder(&run)?;
            let is_published = folder.join(MANIFEST).exists();
            let mut named = HashSet::new();
            if is_published {
                named.extend(self.manifest_of(&run)?.0.parts.into_iter().map(|part| part.path));
            }
            let before = collected.files.len();
            let parts = parts_of(&run);
            let lost = |name: &str| !named.contains(&format!("{parts}/{name}"));
            let no_parts = self.sweep(&parts, older_than, lost, &mut collected)?;
            let lost = |name: &str| is_of_publication(name) && !(is_published && name == CATALOG);
            let none = self.sweep(&format!("{RUNS}/{run}"), older_than, lost, &mut collected)?;
            let age = folder.metadata().and_then(|about| about.modified());
            let is_left = collected.files.len() > before || is_older(age, older_than);
            if !is_published && !dry_run && no_parts && none && is_left {
                // A folder that has other files stays.
                let _ = fs::remove_dir(self.root.join(&parts));
                let _ = fs::remove_dir(&folder);
            }
        }
        Ok(collected)
    }

    /// Removes the files of a folder that are lost and old enough; returns true if no lost one is left.
    fn sweep(
        &self,
        folder: &str,
        older_than: Duration,
        is_lost: impl Fn(&str) -> bool,
        collected: &mut Collected,
    ) -> Result<bool> {
        let mut all_went = true;
        for name in names_in(&self.root.join(folder))? {
            let path = self.root.join(folder).join(&name);
            let Ok(about) = path.symlink_metadata() else { continue };
            if about.is_dir() || !is_lost(&name) {
                continue;
            }
            if !is_older(about.modified(), older_than) {
                all_went = false;
                continue;
            }
            if !collected.dry_run {
                fs::remove_file(&path).map_err(|source| Error::io("remove", &path, source))?;
            }
            collected.bytes += about.len();
            collected.files.push(format!("{folder}/{name}"));
        }
        Ok(all_went)
    }

    /// Removes all of a run that was not published, and the folder of the shards unless it was there
    /// before. A run that was published stays.
    pub fn abandon(&self, run: &str, was_there: bool) {
        if let Ok(folder) = self.run_folder(run)
            && !folder.join(MANIFEST).exists()
        {
            let _ = fs::remove_dir_all(folder);
            let _ = fs::remove_dir(self.root.join(RUNS));
            if !was_there {
                let _ = fs::remove_dir(&self.root);
            }
        }
    }
}

/// Returns true for what a publication makes before its manifest has its name, and leaves when it is
/// killed: the database, a journal, hidden files.
fn is_of_publication(name: &str) -> bool {
    let is_own = |own| name.trim_start_matches('.').starts_with(own);
    name != MANIFEST && [MANIFEST, CATALOG].into_iter().any(is_own)
}

/// A manifest that is published never changes, and neither does its database.
fn refuse_if_published(manifest: &Path) -> Result<()> {
    if manifest.exists() {
        return Err(Error::destination(manifest, "the run is published already"));
    }
    Ok(())
}

fn names_in(folder: &Path) -> Result<Vec<String>> {
    let failed = |source| Error::io("read the folder", folder, source);
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(failed(error)),
    };
    let mut names = Vec::new();
    for entry in entries {
        // A name that is not UTF-8 is not one of ours.
        if let Ok(name) = entry.map_err(failed)?.file_name().into_string() {
            names.push(name);
        }
    }
    names.sort_unstable();
    Ok(names)
}

fn is_older(modified: io::Result<SystemTime>, than: Duration) -> bool {
    let age = modified.ok().and_then(|at| SystemTime::now().duration_since(at).ok());
    than.is_zero() || age.is_some_and(|age| age >= than)
}

fn as_json(object: &impl Serialize, path: &Path) -> Result<Vec<u8>> {
    let mut bytes = serde_json::to_vec_pretty(object)
        .map_err(|error| Error::input(path_text(path), error.to_string()))?;
    bytes.push(b'\n');
    Ok(bytes)
}

/// Writes and syncs the content of a file that is there.
fn write_all(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = FileHandle::open_as(path, Open::ReadWrite)?;
    file.write_all(bytes)?;
    file.sync_all()
}
