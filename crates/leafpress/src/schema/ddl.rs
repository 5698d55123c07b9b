//! The SQL statements that declare a table and its indexes as the flags ask for them.
//!
//! Stands between the command line's words (`--pk a,b`, `--index 'name NOCASE DESC'`) and SQLite,
//! which checks these statements like all others. Names of columns are looked up here, as only
//! the input knows them.
//!
//! Must never: leave a name unquoted, as the header of an input may hold any text.

use std::fmt::Write as _;

use leafpress_format::{Collation, SortOrder};

use super::names::{ColumnName, column_named, find_column};
use super::table::{quote_identifier, quoted_name};
use crate::error::{Error, Result};

/// A table that is to be declared.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TableRequest {
    /// Its name.
    pub table: String,
    /// Its columns.
    pub columns: Vec<ColumnRequest>,
    /// Names of the columns that make up the primary key; empty if there is none.
    pub primary_key: Vec<String>,
    /// True if the table is one B-tree in the order of its primary key.
    pub without_rowid: bool,
    /// True if the table is STRICT.
    pub strict: bool,
    /// True if SQLite never uses the rowid of a deleted row again; only for a primary key of
    /// one INTEGER column.
    pub autoincrement: bool,
    /// Its indexes.
    pub indexes: Vec<IndexRequest>,
}

/// A column that is to be declared.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ColumnRequest {
    /// Its name.
    pub name: String,
    /// Its type, as it stands in SQL; empty for none.
    pub declared_type: String,
    /// True if the column refuses NULL.
    pub not_null: bool,
}

/// An index that is to be made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IndexRequest {
    /// True if the index refuses a row that has the same values in these columns as another
    /// row.
    pub unique: bool,
    /// Its columns.
    pub columns: Vec<IndexColumn>,
}

/// A column of an index.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IndexColumn {
    /// Its name.
    pub name: String,
    /// Collation of the column's texts; `None` for the collation that the column declares.
    pub collation: Option<Collation>,
    /// Direction of the column's order.
    pub order: SortOrder,
}

impl TableRequest {
    /// The statements, the table's first. The indexes get none of the names that are taken.
    pub fn statements(&self, names_taken: &[String]) -> Vec<String> {
        let mut statements = vec![self.create_sql()];
        let mut names = names_taken.to_vec();
        names.push(self.table.clone());
        for index in &self.indexes {
            let is_taken = |name: &str| names.iter().any(|taken| taken.eq_ignore_ascii_case(name));
            let name = index.name(&self.table, is_taken);
            statements.push(index.create_sql(&name, &self.table));
            names.push(name);
        }
        statements
    }

    fn create_sql(&self) -> String {
        let rowid = self.rowid_column();
        let mut sql = format!("CREATE TABLE {} (", quote_identifier(&self.table));
        for (index, column) in self.columns.iter().enumerate() {
            let comma = if index == 0 { "" } else { "," };
            let _ = write!(sql, "{comma}\n  {}", quote_identifier(&column.name));
            if !column.declared_type.is_empty() {
                let _ = write!(sql, " {}", column.declared_type);
            }
            if rowid == Some(index) {
                sql.push_str(" PRIMARY KEY");
                sql.push_str(if self.autoincrement { " AUTOINCREMENT" } else { "" });
            }
            sql.push_str(if column.not_null { " NOT NULL" } else { "" });
        }
        if rowid.is_none() && !self.primary_key.is_empty() {
            let names: Vec<String> =
                self.primary_key.iter().map(|name| quote_identifier(name)).collect();
            let _ = write!(sql, ",\n  PRIMARY KEY ({})", names.join(", "));
        }
        sql.push_str(match (self.strict, self.without_rowid) {
            (false, false) => "\n)",
            (true, false) => "\n) STRICT",
            (false, true) => "\n) WITHOUT ROWID",
            (true, true) => "\n) STRICT, WITHOUT ROWID",
        });
        sql
    }

    /// The column that is the rowid, if there is one: PRIMARY KEY must stand in its own
    /// declaration.
    fn rowid_column(&self) -> Option<usize> {
        let [key] = self.primary_key.as_slice() else { return None };
        if self.without_rowid {
            return None;
        }
        self.columns.iter().position(|column| {
            column.name.eq_ignore_ascii_case(key)
                && column.declared_type.eq_ignore_ascii_case("INTEGER")
        })
    }
}

impl IndexRequest {
    /// Reads `a,b` or `lower-case NOCASE DESC`: columns, separated by commas, each with an
    /// optional collation (after COLLATE, or without that word) and an optional direction. A name
    /// may hold spaces and commas; it may stand in double quotes. If several names fit, the
    /// longest is taken.
    ///
    /// # Errors
    ///
    /// Fails if `columns` has no such name, or for a word that is neither a collation nor a
    /// direction.
    pub fn parse(text: &str, unique: bool, columns: &[ColumnName]) -> Result<Self> {
        let columns = parse_columns(text, columns)?;
        Ok(Self { unique, columns })
    }

    /// A name for the index that is not taken, made of the table's name and the columns' names.
    pub fn name(&self, table: &str, is_taken: impl Fn(&str) -> bool) -> String {
        let parts = self.columns.iter().map(|column| column.name.as_str());
        let name = std::iter::once(table).chain(parts).collect::<Vec<_>>().join("_");
        if !is_taken(&name) {
            return name;
        }
        let numbered = (2_u64..).map(|number| format!("{name}_{number}"));
        numbered.into_iter().find(|name| !is_taken(name)).unwrap_or(name)
    }

    /// The statement that makes the index.
    pub fn create_sql(&self, name: &str, table: &str) -> String {
        let unique = if self.unique { "UNIQUE " } else { "" };
        let columns: Vec<String> = self.columns.iter().map(IndexColumn::sql).collect();
        format!(
            "CREATE {unique}INDEX {} ON {} ({})",
            quote_identifier(name),
            quote_identifier(table),
            columns.join(", ")
        )
    }
}

impl IndexColumn {
    fn sql(&self) -> String {
        let collation = match self.collation {
            None => "",
            Some(Collation::Binary) => " COLLATE BINARY",
            Some(Collation::NoCase) => " COLLATE NOCASE",
            Some(Collation::RTrim) => " COLLATE RTRIM",
        };
        let order = match self.order {
            SortOrder::Ascending => "",
            SortOrder::Descending => " DESC",
        };
        format!("{}{collation}{order}", quote_identifier(&self.name))
    }
}

fn parse_columns(text: &str, columns: &[ColumnName]) -> Result<Vec<IndexColumn>> {
    let mut parsed = Vec::new();
    let mut rest = text;
    loop {
        let (column, after) = parse_column(rest, columns)?;
        parsed.push(column);
        match after {
            Some(after) => rest = after,
            None => return Ok(parsed),
        }
    }
}

/// Parses one column. Returns it with the text after its comma; `None` after the last column.
fn parse_column<'t>(
    text: &'t str,
    columns: &[ColumnName],
) -> Result<(IndexColumn, Option<&'t str>)> {
    let text = text.trim_start();
    if let Some((name, after)) = quoted_name(text)
        && let Some(at) = find_column(columns, &name)?
    {
        let known = &columns[at].name;
        return parse_manner(known, after).map_err(|word| unknown_word(known, word));
    }
    let spellings = columns.iter().flat_map(|it| [it.written.as_str(), &it.name]);
    let begins =
        |name: &&str| text.get(..name.len()).is_some_and(|start| start.eq_ignore_ascii_case(name));
    let mut lengths: Vec<usize> = spellings.filter(begins).map(str::len).collect();
    lengths.sort_unstable_by(|a, b| b.cmp(a));
    lengths.dedup();
    let mut failure = None;
    for length in lengths {
        let (name, after) = text.split_at(length);
        match parse_manner(name, after) {
            Ok((mut column, rest)) => {
                column.name.clone_from(&columns[column_named(columns, name)?].name);
                return Ok((column, rest));
            }
            // A name that merely begins like a longer, unknown one says nothing.
            Err(word) if after.starts_with(char::is_whitespace) => {
                failure.get_or_insert_with(|| unknown_word(name, word));
            }
            Err(_) => {}
        }
    }
    Err(failure.unwrap_or_else(|| {
        let name = text.split(',').next().unwrap_or(text).trim();
        let known: Vec<&str> = columns.iter().map(|it| it.written.as_str()).collect();
        let known = known.join(", ");
        Error::not_found("column", name, format!("there is no column '{name}'; columns: {known}"))
            .to_do("name one of these columns; in double quotes if its name has a comma")
    }))
}

fn unknown_word(column: &str, word: &str) -> Error {
    Error::misuse(format!("'{word}' after column '{column}' means nothing here"))
        .to_do("say NOCASE, RTRIM or BINARY, then ASC or DESC, and put a comma between columns")
}

/// Parses the text after a column's name, up to the comma. Returns the column and the text
/// after the comma, or the word that is wrong.
fn parse_manner<'t>(name: &str, after: &'t str) -> Result<(IndexColumn, Option<&'t str>), &'t str> {
    let (manner, rest) = match after.split_once(',') {
        Some((manner, rest)) => (manner, Some(rest)),
        None => (after, None),
    };
    if manner.starts_with(|c: char| !c.is_whitespace()) {
        return Err(manner);
    }
    let mut words = manner.split_whitespace().peekable();
    let mut column =
        IndexColumn { name: name.to_owned(), collation: None, order: SortOrder::Ascending };
    let said = words.next_if(|word| word.eq_ignore_ascii_case("COLLATE"));
    column.collation = words.peek().and_then(|word| collation(word));
    match (said, column.collation) {
        (_, Some(_)) => drop(words.next()),
        (Some(word), None) => return Err(words.next().unwrap_or(word)),
        (None, None) => {}
    }
    match words.next() {
        Some(word) if word.eq_ignore_ascii_case("DESC") => column.order = SortOrder::Descending,
        Some(word) if !word.eq_ignore_ascii_case("ASC") => return Err(word),
        _ => {}
    }
    words.next().map_or(Ok((column, rest)), Err)
}

fn collation(name: &str) -> Option<Collation> {
    match name.to_ascii_uppercase().as_str() {
        "BINARY" => Some(Collation::Binary),
        "NOCASE" => Some(Collation::NoCase),
        "RTRIM" => Some(Collation::RTrim),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(types: &[(&str, &str)], primary_key: &[&str]) -> TableRequest {
        let column = |&(name, declared_type): &(&str, &str)| ColumnRequest {
            name: name.into(),
            declared_type: declared_type.into(),
            not_null: false,
        };
        TableRequest {
            table: "t \"1\"".into(),
            columns: types.iter().map(column).collect(),
            primary_key: primary_key.iter().map(|&name| name.into()).collect(),
            ..TableRequest::default()
        }
    }

    #[test]
    fn simple_tables_are_declared_as_ever() {
        for (primary_key, strict) in [(false, false), (true, false), (true, true)] {
            let key: &[&str] = if primary_key { &["ID"] } else { &[] };
            let mut request = request(&[("id", "INTEGER"), ("x y", "TEXT")], key);
            request.strict = strict;
            let key = if primary_key { " PRIMARY KEY" } else { "" };
            let end = if strict { " STRICT" } else { "" };
            let expected = format!(
                "CREATE TABLE \"t \"\"1\"\"\" (\n  \"id\" INTEGER{key},\n  \"x y\" TEXT\n){end}"
            );
            assert_eq!(request.statements(&[]), [expected]);
        }
    }

    #[test]
    fn other_keys_stand_at_the_end() {
        let mut table = request(&[("a", "TEXT"), ("b", "")], &["a", "b"]);
        table.columns[1].not_null = true;
        table.without_rowid = true;
        table.strict = true;
        assert_eq!(
            table.statements(&[]),
            ["CREATE TABLE \"t \"\"1\"\"\" (\n  \"a\" TEXT,\n  \"b\" NOT NULL,\n  \
              PRIMARY KEY (\"a\", \"b\")\n) STRICT, WITHOUT ROWID"]
        );
        let mut counted = request(&[("a", "INTEGER")], &["a"]);
        counted.autoincrement = true;
        assert!(counted.statements(&[])[0].contains("\"a\" INTEGER PRIMARY KEY AUTOINCREMENT\n)"));
        counted.without_rowid = true;
        assert!(counted.statements(&[])[0].contains("PRIMARY KEY (\"a\")\n) WITHOUT ROWID"));
    }

    #[test]
    fn indexes_have_names_of_their_own() {
        let columns = ["a", "b", "b_2"].map(ColumnName::from);
        let mut table = request(&[("a", ""), ("b", ""), ("b_2", "")], &[]);
        table.table = "t".into();
        table.indexes = ["a,b", "b", "B DESC", "b_2"]
            .iter()
            .map(|text| IndexRequest::parse(text, *text == "b", &columns).expect(text))
            .collect();
        assert_eq!(
            table.statements(&[])[1..],
            [
                "CREATE INDEX \"t_a_b\" ON \"t\" (\"a\", \"b\")",
                "CREATE UNIQUE INDEX \"t_b\" ON \"t\" (\"b\")",
                "CREATE INDEX \"t_b_2\" ON \"t\" (\"b\" DESC)",
                "CREATE INDEX \"t_b_2_2\" ON \"t\" (\"b_2\")",
            ]
        );
        let taken = ["T_A_B".to_owned(), "t_b_2".to_owned()];
        let names = table.statements(&taken);
        assert!(
            names[1].contains(" \"t_a_b_2\" ON") && names[3].contains(" \"t_b_3\" ON"),
            "{names:?}"
        );
    }

    fn parsed(text: &str) -> Result<String, String> {
        let columns =
            ["lower-case", "a", "a b", "a DESC", "x,y", "Größe", "q\"q", "nocase", "straße"]
                .map(ColumnName::from);
        let request =
            IndexRequest::parse(text, false, &columns).map_err(|error| error.to_string())?;
        Ok(request.columns.iter().map(IndexColumn::sql).collect::<Vec<_>>().join("|"))
    }

    #[test]
    fn columns_are_found_by_their_longest_name() {
        for (text, expected) in [
            ("a", "\"a\""),
            (" A , a b ", "\"a\"|\"a b\""),
            ("lower-case NOCASE DESC", "\"lower-case\" COLLATE NOCASE DESC"),
            ("lower-case collate rtrim asc,a", "\"lower-case\" COLLATE RTRIM|\"a\""),
            ("a DESC", "\"a DESC\""),
            ("\"a\" DESC", "\"a\" DESC"),
            ("a DESC DESC", "\"a DESC\" DESC"),
            ("a binary desc", "\"a\" COLLATE BINARY DESC"),
            ("x,y", "\"x,y\""),
            ("\"x,y\" nocase,Größe", "\"x,y\" COLLATE NOCASE|\"Größe\""),
            ("\"q\"\"q\"", "\"q\"\"q\""),
            ("q\"q desc", "\"q\"\"q\" DESC"),
            ("nocase nocase", "\"nocase\" COLLATE NOCASE"),
        ] {
            assert_eq!(parsed(text).as_deref(), Ok(expected), "{text}");
        }
    }

    #[test]
    fn a_column_of_two_that_differ_in_case_is_named_as_the_input_has_it() {
        let named = |name: &str, written: &str| ColumnName {
            name: name.to_owned(),
            written: written.to_owned(),
        };
        let columns = [named("a", "a"), named("A_2", "A")];
        let parsed = |text| IndexRequest::parse(text, false, &columns);
        for (text, expected) in
            [("A", "A_2"), ("a", "a"), ("A_2 DESC", "A_2"), ("\"A\"", "A_2"), ("a_2", "A_2")]
        {
            assert_eq!(parsed(text).expect(text).columns[0].name, expected, "{text}");
        }
        let columns = [named("ab", "ab"), named("AB_2", "AB")];
        let error = IndexRequest::parse("Ab", false, &columns).unwrap_err().to_string();
        assert!(error.contains("it may mean ab, AB"), "{error}");
    }

    #[test]
    fn what_is_not_understood_is_named() {
        for (text, part) in [
            ("b", "no column 'b'; columns: lower-case, a, a b,"),
            ("a,", "no column ''"),
            ("", "no column ''"),
            ("ab DESC", "no column 'ab DESC'"),
            ("a upwards", "'upwards' after column 'a'"),
            ("a COLLATE", "'COLLATE' after column 'a'"),
            ("a COLLATE de", "'de' after column 'a'"),
            ("a DESC ASC x", "'x' after column 'a DESC'"),
            ("\"a\"b", "'b' after column 'a'"),
            ("\"none\"", "no column '\"none\"'"),
            ("straßX", "no column 'straßX'"),
        ] {
            let error = parsed(text).expect_err(text);
            assert!(error.contains(part), "{text}: {error}");
        }
    }
}
