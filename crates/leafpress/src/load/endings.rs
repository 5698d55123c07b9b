//! Endings of the names of files, and what each says about the content. The one list of them.
//!
//! Must never: be the last word. What the first bytes of a file show goes before its name.

use crate::input::foreign::{Foreign, HTML, SPSS, SQL, XML, YAML};

/// Format that an ending tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ending {
    /// Text, in whatever format.
    Text,
    /// CSV with tabs between the fields.
    Tabs,
    Json,
    /// A format that the first bytes show, with its name.
    Binary(&'static str),
    /// A format of another program, which cannot be loaded.
    Foreign(Foreign),
    /// A compression, which says nothing of the content.
    Packed,
    /// A database.
    Database,
}

const ENDINGS: [(&str, Ending); 31] = [
    ("csv", Ending::Text),
    ("tsv", Ending::Tabs),
    ("tab", Ending::Tabs),
    ("psv", Ending::Text),
    ("ssv", Ending::Text),
    ("txt", Ending::Text),
    ("text", Ending::Text),
    ("dat", Ending::Text),
    ("data", Ending::Text),
    ("json", Ending::Json),
    ("jsonl", Ending::Json),
    ("ndjson", Ending::Json),
    ("geojson", Ending::Json),
    ("geojsonl", Ending::Json),
    ("parquet", Ending::Binary("Parquet")),
    ("arrow", Ending::Binary("Arrow")),
    ("arrows", Ending::Binary("Arrow")),
    ("feather", Ending::Binary("Arrow")),
    ("ipc", Ending::Binary("Arrow")),
    ("gz", Ending::Packed),
    ("gzip", Ending::Packed),
    ("zst", Ending::Packed),
    ("zstd", Ending::Packed),
    ("db", Ending::Database),
    ("sql", Ending::Foreign(SQL)),
    ("xml", Ending::Foreign(XML)),
    ("html", Ending::Foreign(HTML)),
    ("htm", Ending::Foreign(HTML)),
    ("yaml", Ending::Foreign(YAML)),
    ("yml", Ending::Foreign(YAML)),
    ("sav", Ending::Foreign(SPSS)),
];

/// The meaning of one ending, in any case.
fn meaning(ending: &str) -> Option<Ending> {
    let found = ENDINGS.iter().find(|(known, _)| known.eq_ignore_ascii_case(ending));
    found.map(|(_, meaning)| *meaning)
}

/// The meaning of a name's last ending that is no compression.
fn meaning_of(name: &str) -> Option<Ending> {
    // What stands before the first dot is no ending.
    let (_, endings) = name.split_once('.')?;
    endings.rsplit('.').map(meaning).find(|it| *it != Some(Ending::Packed)).flatten()
}

/// Returns true if a name says that the file is JSON.
pub fn is_json(name: &str) -> bool {
    meaning_of(name) == Some(Ending::Json)
}

/// The delimiter that a name tells.
pub fn delimiter(name: &str) -> Option<u8> {
    (meaning_of(name) == Some(Ending::Tabs)).then_some(b'\t')
}

/// The format that a name tells, of those that the first bytes show too.
pub fn binary_format(name: &str) -> Option<&'static str> {
    match meaning_of(name)? {
        Ending::Binary(format) => Some(format),
        _ => None,
    }
}

/// The format of another program that a name tells.
pub fn foreign_format(name: &str) -> Option<Foreign> {
    match meaning_of(name)? {
        Ending::Foreign(format) => Some(format),
        _ => None,
    }
}

/// Name of a file without known endings; `None` if nothing is left.
pub fn without_endings(name: &str) -> Option<&str> {
    let mut stem = name.trim_start_matches('.');
    while let Some((before, ending)) = stem.rsplit_once('.')
        && !before.is_empty()
        && meaning(ending).is_some()
    {
        stem = before;
    }
    Some(stem.trim_end_matches('.')).filter(|stem| !stem.is_empty())
}

/// Returns true if a file of this name is an input by its name, and no database.
#[doc(hidden)]
pub fn is_input(name: &str) -> bool {
    name.rsplit_once('.')
        .and_then(|(_, ending)| meaning(ending))
        .is_some_and(|it| !matches!(it, Ending::Database | Ending::Foreign(_)))
}

/// Returns true if a file of this name is an input by its name, and no CSV.
#[doc(hidden)]
pub fn is_other_than_csv(name: &str) -> bool {
    matches!(meaning_of(name), Some(Ending::Json | Ending::Binary(_)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_are_known_by_the_last_ending_that_is_no_compression() {
        for (name, json, binary) in [
            ("a.json", true, None),
            ("a.NDJSON.gz", true, None),
            ("a.geojson", true, None),
            ("json", false, None),
            ("json.gz", false, None),
            ("a.parquet", false, Some("Parquet")),
            ("a.arrows.zst", false, Some("Arrow")),
            ("a.csv", false, None),
            ("a.json.csv", false, None),
        ] {
            assert_eq!((is_json(name), binary_format(name)), (json, binary), "{name}");
        }
        assert_eq!(delimiter("a.TSV.gz"), Some(b'\t'));
        assert_eq!(delimiter("a.csv"), None);
        assert!(is_input("a.csv") && is_input("a.geojson") && is_input("a.b.gz"));
        assert!(!is_input("a.db") && !is_input("csv") && !is_input("a.v2"));
        assert!(is_other_than_csv("a.jsonl.gz") && !is_other_than_csv("a.csv.gz"));
    }

    #[test]
    fn only_known_endings_are_no_part_of_a_tables_name() {
        for (name, expected) in [
            ("cities.csv", Some("cities")),
            ("2024.01.sales.csv", Some("2024.01.sales")),
            ("v1.2-final.csv.gz", Some("v1.2-final")),
            ("a.csv.txt.GZ", Some("a")),
            ("log.2026", Some("log.2026")),
            (".hidden.tsv", Some("hidden")),
            (".csv", Some("csv")),
            ("stdin", Some("stdin")),
            ("a..csv", Some("a")),
            ("...", None),
            ("", None),
        ] {
            assert_eq!(without_endings(name), expected, "{name}");
        }
    }
}
