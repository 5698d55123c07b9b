//! Databases that exist before a group begins. Each run gets a copy.
//!
//! Made once, outside of all time taken, right before the group, and gone with it.

use std::fs;
use std::path::{Path, PathBuf};

use crate::error::Result;
use crate::group::Group;
use crate::rung::kind::RungKind;

/// Databases on the disk that go when this is dropped.
#[derive(Debug)]
pub(crate) struct Fixtures {
    /// Name and path of each.
    databases: Vec<(String, PathBuf)>,
}

impl Fixtures {
    /// Makes the databases that a group needs, which may be none.
    pub(crate) fn make(group: &Group, folder: &Path) -> Result<Self> {
        let mut fixtures = Self { databases: Vec::new() };
        for fixture in group.fixtures() {
            let path = folder.join(format!("fixture-{}.db", fixtures.databases.len()));
            // First, so that a half made one is removed too.
            fixtures.databases.push((fixture.name, path.clone()));
            (fixture.make)(&path)?;
        }
        Ok(fixtures)
    }

    /// The database that a rung begins with, if it needs one.
    pub(crate) fn path_for(&self, kind: &RungKind) -> Option<&Path> {
        let name = kind.fixture()?.name;
        let found = self.databases.iter().find(|(other, _)| *other == name);
        found.map(|(_, path)| path.as_path())
    }
}

impl Drop for Fixtures {
    fn drop(&mut self) {
        for (_, path) in &self.databases {
            // If it fails, the temporary folder's removal says so.
            let _ = fs::remove_file(path);
        }
    }
}
