//! Names of columns: as the input writes them, and as the table has them.
//!
//! SQLite tells columns apart without regard to the case of ASCII letters, and inputs do not have
//! to. Of the columns `a` and `A` the table calls the second one `A_2`. Options and later inputs find
//! both by the names that the input has.

use crate::error::{Error, Result};

/// The name of a column.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ColumnName {
    /// Its name in a table, where no two names are equal in any case.
    pub name: String,
    /// Its name as the input has it; equal to `name` unless another column of the input has that.
    pub written: String,
}

impl ColumnName {
    /// Returns true if this is the column's name, in the table or in the input.
    fn is(&self, name: &str) -> bool {
        self.name == name || self.written == name
    }

    fn is_in_any_case(&self, name: &str) -> bool {
        self.name.eq_ignore_ascii_case(name) || self.written.eq_ignore_ascii_case(name)
    }

    /// Returns true if this column of a table with these columns may have got its name from an input's
    /// column that is written so: of several with one name the second one gets `_2`, the next one `_3`.
    pub fn is_numbered(&self, written: &str, columns: &[Self]) -> bool {
        let has = |name: &str| columns.iter().any(|it| it.name.eq_ignore_ascii_case(name));
        let number = self.name.strip_prefix(written).and_then(|rest| rest.strip_prefix('_'));
        let number = number.filter(|it| !it.starts_with(['0', '+']));
        let Some(number) = number.and_then(|it| it.parse::<u32>().ok()) else { return false };
        number >= 2 && has(written) && (2..number).all(|it| has(&format!("{written}_{it}")))
    }
}

impl<N: Into<String>> From<N> for ColumnName {
    /// A name that is the same in the table and in the input.
    fn from(name: N) -> Self {
        let name = name.into();
        Self { written: name.clone(), name }
    }
}

/// Names of a table's columns, for options that are to name its rules: `A_2` beside `a` is taken as the
/// column that was written `A`. Where values go is not decided by such a guess.
pub fn names_there<'n>(names: impl Iterator<Item = &'n str>) -> Vec<ColumnName> {
    let mut columns: Vec<ColumnName> = names.map(ColumnName::from).collect();
    for at in 0..columns.len() {
        let stem = columns[at].name.rsplit_once('_').map(|(stem, _)| stem.to_owned());
        let is_other =
            |it: &ColumnName, stem: &str| it.name.eq_ignore_ascii_case(stem) && it.name != stem;
        if let Some(stem) = stem
            && columns[at].is_numbered(&stem, &columns)
            && columns.iter().any(|it| is_other(it, &stem))
        {
            columns[at].written = stem;
        }
    }
    columns
}

/// Index of the column with exactly this name, else of the only one that has it in another case.
///
/// # Errors
/// If there is none, or several columns may be meant.
pub fn column_named(columns: &[ColumnName], name: &str) -> Result<usize> {
    find_column(columns, name)?.ok_or_else(|| no_column(columns, name, ""))
}

/// Index of the column of a table with this name, as options name it: exactly, else in another case.
///
/// # Errors
/// If there is none, or several columns may be meant.
pub fn column_there(names: &[impl AsRef<str>], name: &str) -> Result<usize> {
    column_named(&names_there(names.iter().map(AsRef::as_ref)), name)
}

/// As [`column_named`], but `None` if there is no such column.
pub fn find_column(columns: &[ColumnName], name: &str) -> Result<Option<usize>> {
    if let Some(exact) = columns.iter().position(|it| it.is(name)) {
        return Ok(Some(exact));
    }
    let Some(first) = columns.iter().position(|it| it.is_in_any_case(name)) else {
        return Ok(None);
    };
    // `A_2` in a table may be the column that an input calls `A`.
    let meant =
        columns.iter().filter(|it| it.is_in_any_case(name) || it.is_numbered(name, columns));
    let meant: Vec<&str> = meant.map(|it| it.written.as_str()).collect();
    if meant.len() == 1 {
        return Ok(Some(first));
    }
    let reason = format!("no column is named exactly '{name}', and it may mean {}", listed(&meant));
    Err(Error::misuse(reason).to_do("write the name of the column in the case that it has"))
}

/// The error for a name that no column has; `to_be` ends the sentence.
pub fn no_column(columns: &[ColumnName], name: &str, to_be: &str) -> Error {
    let names: Vec<&str> = columns.iter().map(|it| it.written.as_str()).collect();
    Error::not_found("column", name, format!("there is no column '{name}'{to_be}"))
        .to_do(format!("the columns are: {}", listed(&names)))
}

/// Name for one more column of a table, which is numbered if its written name is taken.
pub fn name_beside(columns: &[ColumnName], written: &str) -> ColumnName {
    let is_free = |name: &String| !columns.iter().any(|it| it.is_in_any_case(name));
    let numbered = (2_u64..).map(|number| format!("{written}_{number}"));
    let name = std::iter::once(written.to_owned()).chain(numbered).find(is_free);
    ColumnName { name: name.unwrap_or_default(), written: written.to_owned() }
}

/// Number of names in a message, before the others are counted.
const LISTED_MAX: usize = 10;

/// Names for a message: the first ten, and the number of the others.
pub fn listed<N: AsRef<str>>(names: &[N]) -> String {
    let shown: Vec<&str> = names.iter().take(LISTED_MAX).map(AsRef::as_ref).collect();
    let more = names.len() - shown.len();
    let tail = if more > 0 { format!(" and {more} more") } else { String::new() };
    shown.join(", ") + &tail
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_column_is_found_by_its_exact_name_first() {
        let columns = |names: &[&str]| -> Vec<ColumnName> {
            names.iter().map(|name| ColumnName::from(*name)).collect()
        };
        let found = |names: &[&str], name| column_named(&columns(names), name).ok();
        assert_eq!(found(&["a", "A"], "A"), Some(1));
        assert_eq!(found(&["a", "A"], "a"), Some(0));
        assert_eq!(found(&["a", "b"], "B"), Some(1));
        assert_eq!(found(&["id", "ID_old", "id_2"], "ID"), Some(0));
        assert_eq!(found(&["a"], "b"), None);
        let refusal =
            |names: &[&str], name| column_named(&columns(names), name).unwrap_err().to_string();
        let error = refusal(&["name", "Name", "x"], "NAME");
        let wanted = "no column is named exactly 'NAME', and it may mean name, Name\n";
        assert!(error.starts_with(wanted), "{error}");
        // The second one may be `A` in the input.
        let error = refusal(&["a", "A_2"], "A");
        assert!(error.contains("it may mean a, A_2\n"), "{error}");
        let named = ColumnName { name: "A_2".to_owned(), written: "A".to_owned() };
        let columns = [ColumnName::from("a"), named];
        assert_eq!(column_named(&columns, "A").unwrap(), 1);
        assert_eq!(column_named(&columns, "A_2").unwrap(), 1);
        assert_eq!(names_there(["a", "A_2"].into_iter()), columns);
        let written = |names: [&'static str; 2]| names_there(names.into_iter())[1].written.clone();
        assert_eq!([written(["a", "a_2"]), written(["b", "A_2"])], ["a_2", "A_2"]);
    }
}
