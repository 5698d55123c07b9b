//! Copies of what a script attaches, so that nothing but copies is written to.
//!
//! SQLite asks its VFS for the full name of each database that is opened, also for `ATTACH` and
//! `VACUUM INTO`. This module replaces that name by the name of a copy. A database that does not
//! exist yet is made beside the script's own copy, and is removed with it.
//!
//! Must never: let a database pass that is not a copy.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use leafpress::vfs::sync::lock;
use leafpress::vfs::{VfsError, VfsResult};
use leafpress::{Error, Result, path_text};

use super::copy::Copy;
use super::options::Stop;
use super::trace::Redirect;

/// The copies, and the databases that they stand for.
pub(super) struct Copies {
    /// Folder for the copies; `None` makes them beside their originals.
    folder: Option<PathBuf>,
    busy_timeout: Duration,
    stop: Stop,
    /// The copy that the script runs on, which is its own copy.
    main: Copy,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    copies: Vec<Copy>,
    paths: HashMap<String, String>,
    /// The reason why the last copy could not be made; SQLite's VFS can return a number only.
    error: Option<Error>,
}

impl Copies {
    /// Copies `database`, and from then on all that is attached to it.
    ///
    /// # Errors
    /// Those of [`Copy::make`].
    pub(super) fn of(
        database: &Path,
        folder: Option<&Path>,
        busy_timeout: Duration,
        stop: &Stop,
    ) -> Result<Self> {
        let main = Copy::make(database, folder, busy_timeout, &**stop)?;
        let folder = folder.map(Path::to_owned);
        Ok(Self { folder, busy_timeout, stop: Arc::clone(stop), main, state: Mutex::default() })
    }

    /// The copy of the database itself.
    pub(super) fn main(&self) -> &Path {
        self.main.path()
    }

    /// Takes the reason why a database could not be attached.
    pub(super) fn take_error(&self) -> Option<Error> {
        self.lock().error.take()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }

    fn copy_of(&self, state: &mut State, path: &str) -> Result<PathBuf> {
        let original = Path::new(path);
        let is_new = fs::metadata(original).map_or(true, |it| it.is_file() && it.len() == 0);
        if is_new {
            let name = path_text(original.file_name().unwrap_or_default());
            return Ok(self.main.folder().join(format!("new-{}-{name}", state.paths.len())));
        }
        let copy = Copy::make(original, self.folder.as_deref(), self.busy_timeout, &*self.stop)?;
        let path = copy.path().to_owned();
        state.copies.push(copy);
        Ok(path)
    }
}

impl Redirect for Copies {
    fn redirect(&self, path: String) -> VfsResult<String> {
        let mut state = self.lock();
        if dunce::canonicalize(&path).is_ok_and(|it| is_same(&it, self.main.path())) {
            return Ok(path);
        }
        if let Some(copy) = state.paths.get(&path) {
            return Ok(copy.clone());
        }
        let copy = self.copy_of(&mut state, &path).map_err(|error| {
            state.error = Some(error);
            VfsError::CANNOT_OPEN
        })?;
        let copy = copy.to_str().ok_or(VfsError::CANNOT_OPEN)?.to_owned();
        state.paths.insert(path, copy.clone());
        Ok(copy)
    }
}

fn is_same(canonical: &Path, path: &Path) -> bool {
    dunce::canonicalize(path).is_ok_and(|it| it == canonical)
}

#[cfg(test)]
mod tests {
    use rusqlite::Connection;

    use super::*;

    fn database(folder: &Path, name: &str) -> PathBuf {
        let path = folder.join(name);
        Connection::open(&path).unwrap().execute_batch("CREATE TABLE t(a)").unwrap();
        path
    }

    fn text(path: &Path) -> String {
        path.to_str().unwrap().to_owned()
    }

    #[test]
    fn a_name_is_always_that_of_the_same_copy() {
        let folder = tempfile::tempdir().unwrap();
        let main = database(folder.path(), "a.db");
        let other = database(folder.path(), "b.db");
        let stop: Stop = Arc::new(|| false);
        let copies = Copies::of(&main, None, Duration::from_secs(5), &stop).unwrap();
        let own = text(copies.main());
        assert_eq!(copies.redirect(own.clone()).unwrap(), own);
        let copy = copies.redirect(text(&other)).unwrap();
        assert_ne!(Path::new(&copy), other);
        assert_eq!(copies.redirect(text(&other)).unwrap(), copy);
        // A second connection on the original of the script's own copy gets a copy too.
        assert_ne!(copies.redirect(text(&main)).unwrap(), text(&main));

        let new = copies.redirect(text(&folder.path().join("new.db"))).unwrap();
        assert!(new.starts_with(&text(copies.main.folder())), "{new}");
        fs::write(folder.path().join("not.db"), "a,b\n").unwrap();
        assert!(copies.redirect(text(&folder.path().join("not.db"))).is_err());
        let error = copies.take_error().unwrap();
        assert!(error.to_string().contains("is not a database"), "{error}");
        assert!(copies.take_error().is_none());

        drop(copies);
        let left = fs::read_dir(folder.path()).unwrap().count();
        assert_eq!(left, 3, "a.db, b.db and not.db");
    }
}
