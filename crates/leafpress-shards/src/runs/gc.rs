//! Removes what no manifest names.
//!
//! A run without a manifest may be published at any moment. So gc leaves the mark `_REMOVING` in it, looks for the
//! manifest once more, then removes the files, and the mark last. A publication gives the manifest its name, then
//! looks for the mark and the parts. One of the two sees the other: gc leaves the run alone, or the publication fails.
//! A run that was current has passed that look, so a mark in it is of a gc that was killed, or is about to go. In
//! other published runs it stays until it is old: their publication may not have looked yet.
//!
//! Must never: remove a file that a manifest names, or anything of a run whose manifest cannot be read.

use std::collections::HashSet;
use std::time::Duration;

use leafpress::Result;
use serde::Serialize;

use super::{
    ALIVE, Before, MANIFEST, REMOVING, Shards, namer_of, note_previous, path_in, readable, run_of,
};
use crate::catalog::CATALOG;
use crate::manifest::Manifest;
use crate::names::{RUNS, last_name, parts_of};
use crate::store::Entry;

/// Files that no manifest names.
#[derive(Debug, Clone, Default, Serialize)]
#[non_exhaustive]
pub struct Collected {
    /// Their paths, from the folder of the shards.
    pub files: Vec<String>,
    /// Their bytes.
    pub bytes: u64,
    /// Number of files that stay as they, or others of their run, changed too short a time ago.
    pub too_young: usize,
    /// True if they were only looked for.
    pub dry_run: bool,
    /// Manifests, or `_CURRENT`, that cannot be read: nothing of their runs was removed. Files that could
    /// not be removed.
    pub problems: Vec<String>,
}

impl Shards {
    /// Removes files that no manifest names: parts of attempts that lost, runs that ended without
    /// a manifest, and uploads that were not finished. What changed less than `older_than` ago stays. So
    /// does all of a run without a manifest in which any file did, as it may go on. So does a run whose
    /// manifest cannot be read or whose folder this user may not enter, and a run without a manifest that is
    /// current, or that the manifest of a younger run names as the one before it; they are among the
    /// [`problems`](Collected::problems). So are files that cannot be removed; the others go. If `_CURRENT`
    /// cannot be read, all runs without a manifest stay.
    ///
    /// # Errors
    /// Those of the system or the store: then nothing was removed. Once something was, the error that ends
    /// it is the last of the problems.
    /// [`NotFound`](leafpress::ErrorKind::NotFound) if the folder does not exist.
    pub fn gc(&self, older_than: Duration, dry_run: bool) -> Result<Collected> {
        if self.is_in_folder() && !self.root.is_dir() {
            return Err(self.no_shards("the folder does not exist"));
        }
        let mut collected = Collected { dry_run, ..Collected::default() };
        // Read first: a run that becomes current after that has a manifest.
        let current = run_of(self.current())?;
        collected.problems.extend(current.as_ref().err().cloned());
        let unfinished = self.store.unfinished()?;
        let mut before = Before::new();
        let now = current.as_ref().ok().and_then(Option::as_ref);
        for run in self.names_of_runs(&unfinished, now)?.into_iter().rev() {
            let namer = namer_of(&run, now, &before);
            let found = self.is_published(&run).and_then(|is_published| {
                if let (Some(namer), false) = (namer, is_published) {
                    collected.problems.push(self.lost_manifest(&run, namer)?);
                } else if is_published || current.is_ok() {
                    let was_current = namer.is_some();
                    return self.gc_run(
                        (&run, was_current),
                        &unfinished,
                        older_than,
                        &mut collected,
                    );
                }
                Ok(None)
            });
            match found.map_err(|error| self.as_problem(error)) {
                Ok(Some(manifest)) => note_previous(&mut before, &run, &manifest)?,
                Ok(None) => {}
                Err(Ok(problem)) => collected.problems.push(problem),
                Err(Err(error)) if dry_run || collected.files.is_empty() => return Err(error),
                Err(Err(error)) => {
                    collected.problems.push(error.kind().to_string());
                    break;
                }
            }
        }
        collected.files.sort_unstable();
        Ok(collected)
    }

    /// Removes what a run has beside the files that its manifest names; returns the manifest.
    fn gc_run(
        &self,
        (run, was_current): (&str, bool),
        unfinished: &[Entry],
        older_than: Duration,
        collected: &mut Collected,
    ) -> Result<Option<Manifest>> {
        // Listed first: a run that is published after that keeps what it names.
        let mut entries = self.store.entries(run)?;
        let folder = format!("{RUNS}/{run}/");
        entries.extend(unfinished.iter().filter(|it| it.path.starts_with(&folder)).cloned());
        if !self.is_published(run)? {
            return self.gc_unpublished(run, &entries, older_than, collected);
        }
        let (manifest, _) = match readable(self.manifest_of(run))? {
            Ok(found) => found,
            Err(problem) => {
                collected.problems.push(problem);
                return Ok(None);
            }
        };
        let mut named: HashSet<_> = manifest.parts.iter().map(|part| part.path.clone()).collect();
        named.insert(path_in(run, CATALOG)?);
        let lost = entries.iter().filter(|entry| is_lost(entry, run, &named));
        let mark = path_in(run, REMOVING)?;
        let (old, young): (Vec<_>, Vec<_>) = lost
            .partition(|entry| entry.is_older(older_than) || (was_current && entry.path == mark));
        collected.too_young += young.len();
        self.remove_lost(&old, collected)?;
        Ok(Some(manifest))
    }

    /// Removes what a run without a manifest has; returns the manifest if it is published meanwhile.
    fn gc_unpublished(
        &self,
        run: &str,
        entries: &[Entry],
        older_than: Duration,
        collected: &mut Collected,
    ) -> Result<Option<Manifest>> {
        let mark = Entry::at(path_in(run, REMOVING)?);
        // One that was left is not young: it says that the run lacks files.
        let (marks, entries): (Vec<_>, Vec<_>) =
            entries.iter().partition(|entry| entry.path == mark.path);
        let is_young = entries.iter().any(|entry| !entry.is_older(older_than));
        let lost: Vec<_> =
            entries.into_iter().filter(|entry| is_lost(entry, run, &HashSet::new())).collect();
        if is_young {
            // The first parts of a long run are old when its last ones are pressed.
            collected.too_young += lost.len();
            return Ok(None);
        }
        if collected.dry_run {
            self.remove_lost(&lost, collected)?;
            return Ok(None);
        }
        if !lost.is_empty() || !marks.is_empty() {
            match self.store.touch(&mark.path) {
                // Another gc was faster.
                Err(_) if self.store.has_lost(run) => return Ok(None),
                touched => touched?,
            }
            if self.is_published(run)? {
                self.store.remove(&mark)?;
                return self.gc_run((run, false), &[], older_than, collected);
            }
        }
        let some_went = self.remove_lost(&lost, collected)?;
        self.store.remove(&mark)?;
        self.store.forget(run, if some_went { Duration::ZERO } else { older_than });
        Ok(None)
    }

    /// Removes files, or only counts them; returns true if some went.
    fn remove_lost(&self, lost: &[&Entry], collected: &mut Collected) -> Result<bool> {
        let count = collected.files.len();
        for entry in lost {
            if !collected.dry_run
                && let Err(error) = self.store.remove(entry)
            {
                // A store that does not answer would not answer for the others either.
                if !self.is_in_folder() {
                    return Err(error);
                }
                collected.problems.push(error.kind().to_string());
                continue;
            }
            collected.bytes += entry.bytes;
            collected.files.push(entry.path.clone());
        }
        Ok(collected.files.len() > count)
    }
}

/// Returns true for a file that no manifest names, and that a part or a publication may have left.
fn is_lost(entry: &Entry, run: &str, named: &HashSet<String>) -> bool {
    if entry.upload.is_some() {
        return true;
    }
    (is_part_file(entry, run) || is_publication_file(entry, run)) && !named.contains(&entry.path)
}

/// Returns true for a file in the folder of the parts.
fn is_part_file(entry: &Entry, run: &str) -> bool {
    let inside = entry.path.strip_prefix(&parts_of(run)).and_then(|it| it.strip_prefix('/'));
    inside == Some(last_name(&entry.path))
}

/// Returns true for a file of the run that its publication has left.
fn is_publication_file(entry: &Entry, run: &str) -> bool {
    let name = last_name(&entry.path);
    entry.path == format!("{RUNS}/{run}/{name}") && is_of_publication(name)
}

/// Returns true for what a run has before its manifest has its name, and leaves when it is
/// killed: the sign of life, the database, a journal, hidden files; and for the mark of a gc that was killed.
fn is_of_publication(name: &str) -> bool {
    let begins_with = |own| name.trim_start_matches('.').starts_with(own);
    [ALIVE, REMOVING].contains(&name)
        || (name != MANIFEST && [MANIFEST, CATALOG].into_iter().any(begins_with))
}
