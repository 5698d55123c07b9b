//! The manifest as a database, for programs that would rather ask by SQL.
//!
//! | table | columns |
//! |---|---|
//! | `part` | `part` (primary key), `path`, `bytes`, `sha256`, `rows`, `smallest` and `largest` as JSON, `page_size`, `pages`, `interior_pages` as JSON, `attempt` |
//! | `manifest` | `name` (primary key), `value`: the other members of the manifest, as JSON |
//!
//! Must never: differ from the JSON. Readers check the JSON alone.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::path::Path;

use leafpress::load::{Column, ColumnType, Loader};
use leafpress::vfs::rights::Rights;
use leafpress::{Error, Result, path_text};
use serde::Serialize;
use serde_json::Value as Json;

use crate::connect;
use crate::manifest::Manifest;
use crate::store::Local;

/// Name of the file, beside the manifest.
pub const CATALOG: &str = "manifest.db";
/// Bytes of a page of it.
pub const PAGE_BYTES: usize = 4096;

/// Writes the database at `path`, in place of one that an interrupted publication left.
pub fn write(path: &Path, rights: Rights, manifest: &Manifest) -> Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            return Err(Error::io("remove", path, error));
        }
        _ => {}
    }
    let mut parts = Vec::with_capacity(manifest.parts.len());
    for part in &manifest.parts {
        parts.push((
            part.part as i64,
            &*part.path,
            part.bytes as i64,
            &*part.sha256,
            part.rows as i64,
            as_json(path, &part.smallest)?,
            as_json(path, &part.largest)?,
            part.page_size,
            part.pages as i64,
            as_json(path, &part.interior_pages)?,
            &*part.attempt,
        ));
    }
    let loader = Loader::new(path).table("part").primary_key("part").rights_of_new(rights);
    loader.load_rows(&part_columns(), parts)?;

    let mut members = Vec::new();
    let text = as_json(path, &Manifest { parts: Vec::new(), ..manifest.clone() })?;
    let object: BTreeMap<String, Json> = serde_json::from_str(&text)
        .map_err(|error| Error::input(path_text(path), error.to_string()))?;
    for (name, value) in object.into_iter().filter(|(name, _)| name != "parts") {
        members.push((name, value.to_string()));
    }
    let columns = ["name", "value"].map(|name| Column::new(name, ColumnType::Text));
    let loader = Loader::new(path).table("manifest").primary_key("name").without_rowid(true);
    loader.load_rows(&columns, members)?;
    Ok(())
}

/// What the database at `path` says otherwise than the manifest, in words; `None` if it says the same. It may
/// say more of the manifest, as one of a later version does.
///
/// # Errors
/// The manifest's own database, a temporary one, cannot be made.
pub fn difference(path: &Path, manifest: &Manifest) -> Result<Option<String>> {
    let own = Local::temporary(Some(CATALOG))?;
    write(own.path(), Rights::new_database(), manifest)?;
    let (own, found) = (Rows::of(own.path())?, Rows::of(path));
    let found = match found {
        Ok(found) => found,
        Err(error) => return Ok(Some(error.to_string())),
    };
    let is_same = own.parts == found.parts && own.members.is_subset(&found.members);
    Ok((!is_same).then(|| "it says something else than the manifest".to_owned()))
}

/// The rows of both tables, each as one text of SQL literals.
struct Rows {
    parts: Vec<String>,
    members: BTreeSet<String>,
}

impl Rows {
    fn of(path: &Path) -> Result<Self> {
        let connection = connect::read_only(path)?;
        let names: Vec<String> =
            part_columns().iter().map(|column| format!("quote({})", column.name)).collect();
        let read = |sql: &str| {
            let mut statement = connection.prepare(sql)?;
            statement.query_map([], |row| row.get(0))?.collect::<rusqlite::Result<Vec<String>>>()
        };
        let failed = |source| Error::sqlite("read the manifest's database", source);
        let parts = format!("SELECT {} FROM part ORDER BY part", names.join(" || ',' || "));
        let members = "SELECT quote(name) || quote(value) FROM manifest";
        Ok(Self {
            parts: read(&parts).map_err(failed)?,
            members: read(members).map_err(failed)?.into_iter().collect(),
        })
    }
}

fn as_json(path: &Path, value: &impl Serialize) -> Result<String> {
    serde_json::to_string(value).map_err(|error| Error::input(path_text(path), error.to_string()))
}

fn part_columns() -> Vec<Column> {
    use ColumnType::{Integer, Text};
    let columns = [
        ("part", Integer),
        ("path", Text),
        ("bytes", Integer),
        ("sha256", Text),
        ("rows", Integer),
        ("smallest", Text),
        ("largest", Text),
        ("page_size", Integer),
        ("pages", Integer),
        ("interior_pages", Text),
        ("attempt", Text),
    ];
    columns.map(|(name, column_type)| Column::new(name, column_type)).to_vec()
}
