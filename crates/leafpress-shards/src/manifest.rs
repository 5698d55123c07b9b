//! The manifest of a run: schema, routing and parts.

use std::ops::RangeInclusive;

use serde::{Deserialize, Serialize};

use crate::key::Key;
use crate::names::{is_name, parts_of};
use crate::routing::Routing;

/// Name of the format in manifests.
const FORMAT: &str = "leafpress-shards";
/// Version of the format that is written, and the newest that is read.
const VERSION: u32 = 1;
/// Page sizes of SQLite's, each a power of two.
const PAGE_BYTES: RangeInclusive<u32> = 512..=65536;

/// One run: a table in parts. It never changes once it is published.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Manifest {
    /// Name of the format.
    pub format: String,
    /// Version of the format.
    pub version: u32,
    /// Name of the run.
    pub run: String,
    /// Time of the publication, in UTC.
    pub created: String,
    /// The run that `_CURRENT` named before this one; `None` for the first.
    pub previous: Option<String>,
    /// The schema that each part has.
    pub schema: Schema,
    /// The rule by which rows were split.
    pub routing: Routing,
    /// Number of rows of all parts.
    pub rows: u64,
    /// The parts, in order.
    pub parts: Vec<PartRecord>,
}

/// Schema of the parts.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Schema {
    /// Name of the table.
    pub table: String,
    /// The statements that declare it and its indexes.
    pub sql: Vec<String>,
}

/// One part: a complete SQLite file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PartRecord {
    /// Number of the part, from 0.
    pub part: usize,
    /// Path of the file, from the folder of the shards, with `/`.
    pub path: String,
    /// Size of the file.
    pub bytes: u64,
    /// SHA-256 of the file, in hexadecimal digits.
    pub sha256: String,
    /// Number of rows.
    pub rows: u64,
    /// Smallest value of the first routing column; NULL if there is no value.
    pub smallest: Key,
    /// Largest value of the first routing column; NULL if there is no value.
    pub largest: Key,
    /// Page size in bytes.
    pub page_size: u32,
    /// Number of pages.
    pub pages: u64,
    /// The first interior pages of all B-trees, as at most four runs of page numbers. `None` if they are not known,
    /// as in a file of more than 33 million pages. An older manifest may have all of them.
    pub interior_pages: Option<Vec<PageRun>>,
    /// Name of the attempt that made the file.
    pub attempt: String,
}

/// A run of pages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct PageRun {
    /// Number of the first page, from 1.
    pub first: u64,
    /// Number of pages.
    pub pages: u64,
}

impl Manifest {
    /// A manifest of these parts, in any order.
    pub fn new(run: String, schema: Schema, routing: Routing, mut parts: Vec<PartRecord>) -> Self {
        parts.sort_by_key(|part| part.part);
        // A sum beyond the largest number is refused by `problem`.
        let rows = sum(&parts, |part| part.rows).unwrap_or(u64::MAX);
        Self {
            format: FORMAT.to_owned(),
            version: VERSION,
            run,
            created: String::new(),
            previous: None,
            schema,
            routing,
            rows,
            parts,
        }
    }

    /// Reads a manifest and checks that it makes sense.
    ///
    /// # Errors
    /// The reason, in words.
    pub fn from_json(json: &[u8]) -> Result<Self, String> {
        let manifest: Self =
            serde_json::from_slice(json).map_err(|error| format!("it is no manifest: {error}"))?;
        match manifest.problem() {
            Some(problem) => Err(problem),
            None => Ok(manifest),
        }
    }

    /// Reason why the manifest makes no sense.
    pub(crate) fn problem(&self) -> Option<String> {
        if self.format != FORMAT {
            return Some(format!("its format is {:?}, not {FORMAT}", self.format));
        }
        if self.version > VERSION {
            return Some(format!(
                "its version is {}; this program reads up to {VERSION}",
                self.version
            ));
        }
        let in_order = self.parts.iter().enumerate().all(|(index, part)| index == part.part);
        if self.parts.is_empty() || !in_order {
            return Some("its parts are not numbered from 0 up, each once".to_owned());
        }
        if let Some(problem) = self.parts.iter().find_map(|part| part.problem(&self.run)) {
            return Some(problem);
        }
        if sum(&self.parts, |part| part.rows) != Some(self.rows) {
            return Some("its number of rows is not that of its parts".to_owned());
        }
        if sum(&self.parts, |part| part.bytes).is_none() {
            return Some("its parts have more bytes than there can be".to_owned());
        }
        self.routing.problem(self.parts.len())
    }
}

impl PartRecord {
    /// Reason why the record makes no sense.
    fn problem(&self, run: &str) -> Option<String> {
        let (part, path, page_bytes) = (self.part, &self.path, self.page_size);
        if !is_of_run(path, run) {
            return Some(format!("the path of part {part} is not in {}: {path}", parts_of(run)));
        }
        if !PAGE_BYTES.contains(&page_bytes) || !page_bytes.is_power_of_two() {
            return Some(format!("part {part} has pages of {page_bytes} bytes"));
        }
        let is_wrong = |run: &PageRun| run.first == 0 || run.first.checked_add(run.pages).is_none();
        if self.interior_pages.iter().flatten().any(is_wrong) {
            return Some(format!("part {part} has interior pages that no file can have"));
        }
        None
    }
}

/// A sum over all parts; `None` if it is too large for a number.
fn sum(parts: &[PartRecord], number: impl Fn(&PartRecord) -> u64) -> Option<u64> {
    parts.iter().try_fold(0_u64, |sum, part| sum.checked_add(number(part)))
}

/// Returns true if a path names a file in the folder of a run's parts. Each run has files of its own: `gc` and
/// programs that remove a run look at no other manifest.
fn is_of_run(path: &str, run: &str) -> bool {
    let name = path.strip_prefix(&parts_of(run)).and_then(|rest| rest.strip_prefix('/'));
    let is_file =
        |name: &str| !matches!(name, "" | "." | "..") && !name.contains(['/', '\\', ':', '\0']);
    is_name(run) && name.is_some_and(is_file)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(part: usize) -> PartRecord {
        PartRecord {
            part,
            path: format!("runs/a/parts/{part}.db"),
            bytes: 8192,
            sha256: "00".repeat(32),
            rows: 5,
            smallest: Key::Integer(1),
            largest: Key::Integer(2),
            page_size: 4096,
            pages: 2,
            interior_pages: Some(vec![PageRun { first: 2, pages: 1 }]),
            attempt: "a".to_owned(),
        }
    }

    fn manifest() -> Manifest {
        let bounds = vec![Key::Integer(3)];
        let routing = Routing::Range { column: "id".to_owned(), bounds };
        Manifest::new("a".to_owned(), Schema::default(), routing, vec![part(1), part(0)])
    }

    #[test]
    fn a_manifest_is_read_as_it_was_written() {
        let json = serde_json::to_vec(&manifest()).expect("JSON");
        assert_eq!(Manifest::from_json(&json), Ok(manifest()));
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        let changes: [fn(&mut Manifest); 19] = [
            |it| it.format.clear(),
            |it| it.version = 2,
            |it| it.parts.clear(),
            |it| it.parts[1].part = 0,
            |it| it.parts[0].path = "../x.db".to_owned(),
            |it| it.parts[0].path = "/x.db".to_owned(),
            |it| it.parts[0].path = "runs/b/parts/0.db".to_owned(),
            |it| it.parts[0].path = "runs/a/parts/b/0.db".to_owned(),
            |it| it.parts[0].path = "runs/a/parts/..".to_owned(),
            |it| {
                it.run = "..".to_owned();
                for part in &mut it.parts {
                    part.path = format!("runs/../parts/{}.db", part.part);
                }
            },
            |it| it.rows += 1,
            |it| it.parts[0].rows = u64::MAX,
            |it| it.parts[0].bytes = u64::MAX,
            |it| it.parts[1].page_size = 0,
            |it| it.parts[1].page_size = 256,
            |it| it.parts[1].page_size = 5000,
            |it| it.parts[1].page_size = 131_072,
            |it| it.parts[1].interior_pages = Some(vec![PageRun { first: 0, pages: 1 }]),
            |it| it.routing = Routing::Range { column: "id".to_owned(), bounds: vec![] },
        ];
        for change in changes {
            let mut wrong = manifest();
            change(&mut wrong);
            let json = serde_json::to_vec(&wrong).expect("JSON");
            assert!(Manifest::from_json(&json).is_err(), "{wrong:?}");
        }
        assert!(Manifest::from_json(b"{}").is_err());
    }
}
