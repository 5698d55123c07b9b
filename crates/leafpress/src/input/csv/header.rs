//! Column names: from the first record, from the caller, or made up, and in
//! any case fit to be columns of one table.
//!
//! Called once a load, before the first row. Must never: change a name without
//! a note that says so.

use std::collections::{HashMap, HashSet};

use crate::schema::names::ColumnName;
use crate::{Error, ErrorKind, Result};

/// The names of an input's columns, and what had to be changed about them.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Header {
    /// The names: not empty, and those for a table distinct without regard to ASCII case.
    pub names: Vec<ColumnName>,
    /// A note for each change, and hints.
    pub notes: Vec<String>,
}

impl Header {
    /// The names in a record's values. `file` is the input's name.
    ///
    /// # Errors
    /// Fails if a name is not UTF-8.
    pub fn from_record<V: AsRef<[u8]>>(
        file: &str,
        values: impl IntoIterator<Item = V>,
    ) -> Result<Self> {
        let names: Result<Vec<String>> = values
            .into_iter()
            .enumerate()
            .map(|(index, value)| match std::str::from_utf8(value.as_ref()) {
                Ok(name) => Ok(name.to_owned()),
                Err(_) => Err(not_utf8(file, index + 1)),
            })
            .collect();
        let mut header = Self::from_names(names?);
        header.notes.extend(delimiter_hint(&header.names));
        Ok(header)
    }

    /// The names that the caller gives.
    pub fn from_names<N: Into<String>>(names: impl IntoIterator<Item = N>) -> Self {
        let mut notes = Vec::new();
        let mut names: Vec<String> = names.into_iter().map(Into::into).collect();
        for (name, position) in names.iter_mut().zip(1..) {
            make_usable(name, position, &mut notes);
        }
        let mut names: Vec<ColumnName> = names.into_iter().map(ColumnName::from).collect();
        let notes = rename_duplicates(&mut names, notes);
        Self { names, notes }
    }

    /// `column1`, `column2` and so on.
    pub fn numbered(column_count: usize) -> Self {
        Self::from_names((1..=column_count).map(numbered_name))
    }
}

fn numbered_name(position: usize) -> String {
    format!("column{position}")
}

fn not_utf8(file: &str, position: usize) -> Error {
    let reason = format!("the name of column {position} is not UTF-8");
    ErrorKind::Input { file: file.to_owned(), reason }.into()
}

/// Gives names to columns without one, and drops NUL bytes, which would end a name in SQL.
fn make_usable(name: &mut String, position: usize, notes: &mut Vec<String>) {
    if name.contains('\0') {
        name.retain(|character| character != '\0');
        notes.push(format!("column {position}: NUL bytes dropped from the name \"{name}\""));
    }
    if name.is_empty() {
        *name = numbered_name(position);
        notes.push(format!("column {position} has no name: it becomes \"{name}\""));
    }
}

/// Adds `_2`, `_3`… to names that stand before already. No name that is given
/// is taken away from the column that has it.
fn rename_duplicates(names: &mut [ColumnName], mut notes: Vec<String>) -> Vec<String> {
    let given: HashSet<String> = names.iter().map(|it| it.written.to_ascii_lowercase()).collect();
    let mut taken = HashSet::with_capacity(names.len());
    // Number at which the next search for a free name goes on: many equal names stay cheap.
    let mut next_suffixes: HashMap<String, usize> = HashMap::new();
    for (ColumnName { name, .. }, position) in names.iter_mut().zip(1_usize..) {
        let key = name.to_ascii_lowercase();
        if taken.insert(key.clone()) {
            continue;
        }
        let suffix = next_suffixes.entry(key.clone()).or_insert(2);
        let is_taken = |wanted: &String| given.contains(wanted) || taken.contains(wanted);
        while is_taken(&format!("{key}_{suffix}")) {
            *suffix += 1;
        }
        let renamed = format!("{name}_{suffix}");
        notes
            .push(format!("column {position} is named \"{name}\" again: it becomes \"{renamed}\""));
        taken.insert(format!("{key}_{suffix}"));
        *name = renamed;
    }
    notes
}

/// The hint for an input with a single column whose name holds a common delimiter: most likely
/// that is the delimiter of several columns.
fn delimiter_hint(names: &[ColumnName]) -> Option<String> {
    let [ColumnName { name, .. }] = names else { return None };
    let delimiter = [';', '\t', '|', ','].into_iter().find(|&found| name.contains(found))?;
    Some(format!(
        "there is only one column, and its name has '{0}' in it: \
         if that delimits, load with ⟦delimiter '{0}'⟧",
        delimiter.escape_debug()
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(header: &Header) -> Vec<&str> {
        header.names.iter().map(|it| it.name.as_str()).collect()
    }

    #[test]
    fn names_stay_as_they_are() {
        let header = Header::from_record("a.csv", ["id", " name ", "größe"]).unwrap();
        assert_eq!(names(&header), ["id", " name ", "größe"]);
        assert!(header.notes.is_empty());
        assert_eq!(names(&Header::numbered(2)), ["column1", "column2"]);
        assert!(Header::numbered(2).notes.is_empty());
    }

    #[test]
    fn duplicates_get_a_number_that_is_free() {
        let header = Header::from_names(["a", "A", "a_2", "a", "b"]);
        assert_eq!(names(&header), ["a", "A_3", "a_2", "a_4", "b"]);
        let written: Vec<&str> = header.names.iter().map(|it| it.written.as_str()).collect();
        assert_eq!(written, ["a", "A", "a_2", "a", "b"]);
        assert_eq!(
            header.notes,
            [
                "column 2 is named \"A\" again: it becomes \"A_3\"",
                "column 4 is named \"a\" again: it becomes \"a_4\"",
            ]
        );
        // SQLite folds ASCII letters only.
        assert!(Header::from_names(["é", "É"]).notes.is_empty());
    }

    #[test]
    fn empty_names_become_numbers() {
        let header = Header::from_names(["", "column1", "x\0", "\0"]);
        assert_eq!(names(&header), ["column1", "column1_2", "x", "column4"]);
        assert_eq!(header.notes.len(), 5);
    }

    #[test]
    fn a_likely_delimiter_is_hinted_at() {
        let hint = |name: &str| Header::from_record("a.csv", [name]).unwrap().notes;
        assert!(hint("id;name")[0].ends_with("⟦delimiter ';'⟧"));
        assert!(hint("id\tname")[0].ends_with("⟦delimiter '\\t'⟧"));
        assert!(hint("id name").is_empty());
        assert!(Header::from_record("a.csv", ["a;b", "c"]).unwrap().notes.is_empty());
    }

    #[test]
    fn a_name_must_be_utf8() {
        let error = Header::from_record("a.csv", [&b"id"[..], b"gr\xf6sse"]).unwrap_err();
        assert!(error.to_string().starts_with("a.csv: the name of column 2 is not UTF-8"));
    }
}
