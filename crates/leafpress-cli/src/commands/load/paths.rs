//! Inputs as they are named: patterns become the files that fit.
//!
//! A shell expands patterns that are not quoted; quoted ones, and those of
//! shells that expand nothing, are expanded here.
//!
//! Must never: take a file's name for a pattern.

use std::path::{Path, PathBuf};

/// The inputs, with each pattern that names no file replaced by the files that fit it.
///
/// # Errors
/// Where no file fits.
pub fn expand(inputs: &[PathBuf]) -> Result<Vec<PathBuf>, String> {
    let mut files = Vec::new();
    for input in inputs {
        match pattern_of(input) {
            Some(pattern) => files.extend(files_of(pattern)?),
            None => files.push(input.clone()),
        }
    }
    Ok(files)
}

/// The text of a path that is a pattern.
fn pattern_of(path: &Path) -> Option<&str> {
    let text = path.to_str()?;
    // `[` may be part of a table's name in other.db::table.
    let is_pattern = text.contains(['*', '?', '[']) && !text.contains("::");
    (is_pattern && path.symlink_metadata().is_err()).then_some(text)
}

fn files_of(pattern: &str) -> Result<Vec<PathBuf>, String> {
    let paths = glob::glob(pattern)
        .map_err(|error| format!("there is no file {pattern}, and as a pattern {error}"))?;
    let mut files = Vec::new();
    for path in paths {
        let path = path.map_err(|error| error.to_string())?;
        // A folder that fits, too, is not what a pattern of inputs means.
        if !path.is_dir() {
            files.push(path);
        }
    }
    if files.is_empty() {
        return Err(format!("no file fits {pattern}"));
    }
    Ok(files)
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
        assert_eq!(expand(&[at("?.csv")]), Ok(vec![at("a.csv"), at("b.csv")]));
        assert_eq!(expand(&[at("x[1].csv")]), Ok(vec![at("x[1].csv")]), "a name first of all");
        assert_eq!(expand(&[at("a.txt"), at("b*")]), Ok(vec![at("a.txt"), at("b.csv")]));
        let missing = [at("none.csv"), PathBuf::from("-"), at("no.db::[t]")];
        assert_eq!(expand(&missing), Ok(missing.to_vec()), "the library's to miss");
        assert!(expand(&[at("z*")]).is_err_and(|it| it.starts_with("no file fits ")));
        assert!(expand(&[at("c.c*")]).is_err(), "a folder");
    }
}
