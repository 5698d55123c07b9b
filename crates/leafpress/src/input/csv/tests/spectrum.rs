//! The files of csv-spectrum, each with the JSON that it must read as. They are
//! looked for in the folder `LEAFPRESS_DATA`, else beside the repository.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use super::read_in_blocks;
use crate::input::csv::Dialect;

fn data_folder() -> Option<PathBuf> {
    let beside = || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data");
    let folder = std::env::var_os("LEAFPRESS_DATA").map_or_else(beside, PathBuf::from);
    let spectrum = folder.join("csv-spectrum");
    if spectrum.is_dir() {
        return Some(spectrum);
    }
    let shown = spectrum.display();
    let _ = writeln!(std::io::stderr(), "skipped: there is no {shown}; set LEAFPRESS_DATA");
    None
}

/// A file's bytes. Version control is prone to strip the returns of the files
/// that are about them: they are put back.
fn with_its_line_ends(path: &Path) -> Vec<u8> {
    let content = fs::read_to_string(path).unwrap();
    let wants_returns = path.file_stem().unwrap().to_string_lossy().ends_with("_crlf");
    if wants_returns && !content.contains('\r') {
        return content.replace('\n', "\r\n").into_bytes();
    }
    content.into_bytes()
}

fn text(value: Vec<u8>) -> String {
    String::from_utf8(value).unwrap()
}

#[test]
fn csv_spectrum_reads_as_it_must() {
    let Some(folder) = data_folder() else { return };
    let mut file_count = 0;
    for entry in fs::read_dir(folder.join("csvs")).unwrap() {
        let path = entry.unwrap().path();
        let json = folder.join("json").join(path.with_extension("json").file_name().unwrap());
        let expected: serde_json::Value =
            serde_json::from_str(&fs::read_to_string(json).unwrap()).unwrap();
        for block_bytes in [1, 10, 1 << 20] {
            let reading =
                read_in_blocks(&with_its_line_ends(&path), Dialect::default(), block_bytes);
            let mut rows = reading.rows.into_iter().map(|(_, values)| values.into_iter().map(text));
            let names: Vec<String> = rows.next().unwrap().collect();
            let objects: serde_json::Value = rows
                .map(|values| names.iter().cloned().zip(values.map(Into::into)).collect())
                .collect::<Vec<serde_json::Map<_, _>>>()
                .into();
            assert_eq!(objects, expected, "{}", path.display());
        }
        file_count += 1;
    }
    assert!(file_count >= 11, "{file_count} files");
}
