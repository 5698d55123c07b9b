//! Inputs as they are named: patterns become the files that fit.
//!
//! A shell expands patterns that are not quoted; quoted ones, and those of
//! shells that expand nothing, are expanded here. Names are bytes: one that is no
//! UTF-8 fits as any other.
//!
//! Must never: take a file's name for a pattern, or leave out a file that fits.

use std::collections::{HashSet, VecDeque};
use std::ffi::OsStr;
use std::io;
use std::path::{Component, Path, PathBuf};

use glob::{MatchOptions, Pattern};
use leafpress::path_text;

/// The inputs, with each pattern that names no file replaced by the files that fit it.
///
/// # Errors
/// If no file fits, or a folder cannot be looked into.
pub fn files_of(inputs: &[PathBuf]) -> Result<Vec<PathBuf>, String> {
    let mut files = Vec::new();
    for input in inputs {
        if is_pattern(input) {
            files.extend(files_fitting(input)?);
        } else {
            files.push(input.clone());
        }
    }
    Ok(files)
}

fn is_pattern(path: &Path) -> bool {
    // `[` may be part of a table's name in other.db::table.
    let is_table = path.as_os_str().as_encoded_bytes().windows(2).any(|pair| pair == b"::");
    has_wildcard(path.as_os_str()) && !is_table && path.symlink_metadata().is_err()
}

fn has_wildcard(name: &OsStr) -> bool {
    name.as_encoded_bytes().iter().any(|byte| b"*?[".contains(byte))
}

/// A name as a text to be compared. Each byte that is no UTF-8 is a character of its own, of
/// those that no name has.
fn text_of(name: &OsStr) -> String {
    const NO_UTF_8: u32 = 0x10_FE00;
    let mut text = String::new();
    for chunk in name.as_encoded_bytes().utf8_chunks() {
        text.push_str(chunk.valid());
        text.extend(
            chunk.invalid().iter().filter_map(|&byte| char::from_u32(NO_UTF_8 + u32::from(byte))),
        );
    }
    text
}

fn files_fitting(pattern: &Path) -> Result<Vec<PathBuf>, String> {
    let mut found = vec![PathBuf::new()];
    for component in pattern.components() {
        let Component::Normal(part) = component else {
            for path in &mut found {
                path.push(component);
            }
            continue;
        };
        let mut next = Vec::new();
        for path in found {
            next.extend(fitting(&path, part).map_err(|reason| {
                format!("there is no file {}, and as a pattern {reason}", path_text(pattern))
            })?);
        }
        // `**` finds a folder below itself too.
        let mut seen = HashSet::new();
        next.retain(|path| seen.insert(path.clone()));
        found = next;
    }
    // A folder that fits, too, is not what a pattern of inputs means.
    found.retain(|path| !path.is_dir());
    if found.is_empty() {
        return Err(format!("no file fits {}", path_text(pattern)));
    }
    Ok(found)
}

/// The entries of a folder that fit one part of a pattern, in the order of their names.
fn fitting(folder: &Path, part: &OsStr) -> Result<Vec<PathBuf>, String> {
    let literal = folder.join(part);
    if !has_wildcard(part) || literal.symlink_metadata().is_ok() {
        return Ok(if literal.symlink_metadata().is_ok() { vec![literal] } else { Vec::new() });
    }
    if part == "**" {
        return folders_below(folder);
    }
    let pattern = Pattern::new(&text_of(part)).map_err(|error| format!("it is wrong: {error}"))?;
    let mut names = names_in(folder)?;
    // As in a shell, a hidden file fits only a pattern that begins with a dot.
    let options = MatchOptions { require_literal_leading_dot: true, ..MatchOptions::new() };
    names.retain(|name| pattern.matches_with(&text_of(name), options));
    Ok(names.into_iter().map(|name| folder.join(name)).collect())
}

/// A folder and all that are below it, those that are hidden or links left out.
fn folders_below(folder: &Path) -> Result<Vec<PathBuf>, String> {
    let mut all = Vec::new();
    let mut waiting = VecDeque::from([folder.to_owned()]);
    while let Some(folder) = waiting.pop_front() {
        for name in names_in(&folder)? {
            if name.as_encoded_bytes().starts_with(b".") {
                continue;
            }
            let path = folder.join(name);
            if path.symlink_metadata().is_ok_and(|found| found.is_dir()) {
                waiting.push_back(path);
            }
        }
        all.push(folder);
    }
    Ok(all)
}

/// The names in a folder, in order; none where there is no folder.
fn names_in(folder: &Path) -> Result<Vec<std::ffi::OsString>, String> {
    let shown = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
    let names = std::fs::read_dir(shown)
        .and_then(|entries| entries.map(|entry| Ok(entry?.file_name())).collect());
    match names {
        Ok(names) => {
            let mut names: Vec<_> = names;
            names.sort_unstable();
            Ok(names)
        }
        Err(error)
            if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) =>
        {
            Ok(Vec::new())
        }
        Err(error) => Err(format!("it cannot be followed into {}: {error}", path_text(shown))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_become_files_in_the_order_of_their_names() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        for name in ["b.csv", "a.csv", "a.txt", "x[1].csv"] {
            std::fs::write(at(name), "").unwrap();
        }
        std::fs::create_dir(at("c.csv")).unwrap();
        assert_eq!(files_of(&[at("?.csv")]), Ok(vec![at("a.csv"), at("b.csv")]));
        assert_eq!(files_of(&[at("x[1].csv")]), Ok(vec![at("x[1].csv")]), "a name first of all");
        assert_eq!(files_of(&[at("a.txt"), at("b*")]), Ok(vec![at("a.txt"), at("b.csv")]));
        let missing = [at("none.csv"), PathBuf::from("-"), at("no.db::[t]")];
        assert_eq!(files_of(&missing), Ok(missing.to_vec()), "the library's to miss");
        assert!(files_of(&[at("z*")]).is_err_and(|it| it.starts_with("no file fits ")));
        assert!(files_of(&[at("c.c*")]).is_err(), "a folder");
        assert!(files_of(&[at("[a.csv")]).is_err_and(|it| it.contains("as a pattern it is wrong")));
    }

    #[test]
    fn patterns_go_through_folders() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        for name in ["2024/a", "2025/a", "d[1]"] {
            std::fs::create_dir_all(at(name)).unwrap();
        }
        for name in ["x.csv", "2024/x.csv", "2024/a/x.csv", "2025/a/y.csv", "d[1]/z.csv"] {
            std::fs::write(at(name), "").unwrap();
        }
        assert_eq!(files_of(&[at("20*/x.csv")]), Ok(vec![at("2024/x.csv")]));
        assert_eq!(files_of(&[at("20*/*/*.csv")]), {
            Ok(vec![at("2024/a/x.csv"), at("2025/a/y.csv")])
        });
        assert_eq!(files_of(&[at("**/x.csv")]), {
            Ok(vec![at("x.csv"), at("2024/x.csv"), at("2024/a/x.csv")])
        });
        // Each file once.
        std::fs::create_dir_all(at("2024/2024")).unwrap();
        std::fs::write(at("2024/2024/b.csv"), "").unwrap();
        assert_eq!(files_of(&[at("**/**/**/a/x.csv")]), Ok(vec![at("2024/a/x.csv")]));
        assert_eq!(files_of(&[at("**/2024/**/b.csv")]), Ok(vec![at("2024/2024/b.csv")]));
        assert_eq!(
            files_of(&[at("d[1]/*.csv")]),
            Ok(vec![at("d[1]/z.csv")]),
            "a name first of all"
        );
    }

    #[test]
    fn hidden_files_fit_only_a_pattern_that_begins_with_a_dot() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        std::fs::create_dir_all(at(".git/a")).unwrap();
        for name in ["a.csv", ".b.csv", ".git/a/c.csv"] {
            std::fs::write(at(name), "").unwrap();
        }
        assert_eq!(files_of(&[at("*.csv")]), Ok(vec![at("a.csv")]));
        assert_eq!(files_of(&[at("**/*.csv")]), Ok(vec![at("a.csv")]));
        assert!(files_of(&[at("[.]b.csv")]).is_err());
        assert_eq!(files_of(&[at(".*.csv")]), Ok(vec![at(".b.csv")]));
        assert_eq!(files_of(&[at(".g*/**/*.csv")]), Ok(vec![at(".git/a/c.csv")]));
    }

    #[cfg(unix)]
    #[test]
    fn names_that_are_no_utf_8_fit_too() {
        use std::os::unix::ffi::OsStrExt as _;

        let folder = tempfile::tempdir().unwrap();
        let at = |name: &[u8]| folder.path().join(OsStr::from_bytes(name));
        for name in [&b"caf\xe9.csv"[..], b"caf\xe8.csv", b"cafe.csv", "café.csv".as_bytes()] {
            std::fs::write(at(name), "").unwrap();
        }
        assert_eq!(files_of(&[at(b"caf*.csv")]).map(|files| files.len()), Ok(4));
        assert_eq!(files_of(&[at(b"caf?.csv")]).map(|files| files.len()), Ok(4));
        assert_eq!(files_of(&[at(b"ca*\xe9.csv")]), Ok(vec![at(b"caf\xe9.csv")]));
    }
}
