//! Real files, written by others. They are looked for in the folder
//! `LEAFPRESS_DATA`, else beside the repository.

use std::io::Write as _;
use std::path::{Path, PathBuf};

use super::{Owned, open_file, read};
use crate::input::rows::{RowSource, SourceType};

/// A file of the folder; none where there is no folder.
fn data_file(name: &str) -> Option<PathBuf> {
    let beside = || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data");
    let folder = std::env::var_os("LEAFPRESS_DATA").map_or_else(beside, PathBuf::from);
    let path = folder.join(name);
    if path.is_file() {
        return Some(path);
    }
    let shown = path.display();
    let _ = writeln!(std::io::stderr(), "skipped: there is no {shown}; set LEAFPRESS_DATA");
    None
}

/// The columns with their types.
fn columns(source: &impl RowSource) -> Vec<(String, Option<SourceType>)> {
    source.columns().iter().map(|column| (column.name.name.clone(), column.declared)).collect()
}

#[test]
fn flights() {
    let Some(path) = data_file("flights-200k.arrow") else { return };
    let mut source = open_file(&path, &std::env::temp_dir()).unwrap();
    let named = |name: &str, declared| (name.to_owned(), Some(declared));
    let expected = [
        named("delay", SourceType::Integer),
        named("distance", SourceType::Integer),
        named("time", SourceType::Real),
    ];
    assert_eq!(columns(&source), expected);
    let (rows, _) = read(&mut source).unwrap();
    assert_eq!(rows.len(), 200_000);
    assert_eq!(rows[0], [Owned::Integer(0), Owned::Integer(1452), Owned::Real(0)]);
}

#[cfg(feature = "parquet")]
#[test]
fn oil_and_gas() {
    use super::text;

    let Some(path) = data_file("oil-and-gas.parquet") else { return };
    let mut source = open_file(&path, &std::env::temp_dir()).unwrap();
    let columns = columns(&source);
    assert_eq!(columns.len(), 11);
    assert_eq!(columns[0], ("Reporting Year".to_owned(), Some(SourceType::Integer)));
    assert_eq!(columns[8], ("Date Well Completed".to_owned(), Some(SourceType::Text)));
    let (rows, _) = read(&mut source).unwrap();
    assert_eq!(rows.len(), 260_374);
    let last = &rows[rows.len() - 1];
    assert_eq!(last[0], Owned::Integer(2015));
    assert_eq!(last[6], text("Cook 1 (626940)     "), "spaces at the end stay");
    assert_eq!(last[8], text("2008-09-04 00:00:00"));
    assert_eq!(last[10], Owned::Integer(260_373));
}
