//! Options in advice, spelt as each interface spells them.
//!
//! In the texts of this library an option stands in double brackets: its name and, after a blank,
//! its value. [`spelled`] makes words of it, in [`Error::to_do`](crate::Error::to_do) and in the
//! notes of reports.
//!
//! | in a text | `name the delimiter with ⟦delimiter ';'⟧` |
//! |---|---|
//! | for Rust | `name the delimiter with CsvOptions::delimiter(';')` |
//! | for the command | `name the delimiter with --delimiter ';'` |
//!
//! A process has one interface, so the spelling is set once, and is that of Rust else.
//!
//! Must never: name a flag of the command.

use std::sync::{PoisonError, RwLock};

/// Options that an advice may name, and their words in Rust.
const OPTIONS: [(&str, &str); 56] = [
    ("all_files", "all of them with load_files"),
    ("all_text", "all_text"),
    ("append", "into_table(IntoTable::Append)"),
    ("busy_limit", "busy_limit"),
    ("columns", "CsvOptions::columns"),
    ("comment", "CsvOptions::comment"),
    ("declaration", "declaration"),
    ("declaration_file", "a file with the declaration"),
    ("delay", "Job::delay"),
    ("delimiter", "CsvOptions::delimiter"),
    ("drop", "drop_column"),
    ("dry_run", "dry_run_file"),
    ("due", "Job::due"),
    ("encoding", "CsvOptions::encoding"),
    ("escape", "CsvOptions::escape"),
    ("exact", "exact"),
    ("expires", "Job::expires_in"),
    ("format", "format"),
    ("if_not_exists", "only_if_missing"),
    ("ignore", "into_table(IntoTable::Ignore)"),
    ("index", "index"),
    ("index_name", "name"),
    ("layout", "layout"),
    ("max_rejects", "max_rejects"),
    ("max_row_bytes", "CsvOptions::max_record_bytes"),
    ("memory", "memory"),
    ("mysql_text", "format(InputFormat::MysqlText)"),
    ("no_header", "CsvOptions::header(false)"),
    ("no_quote", "CsvOptions::quote(None)"),
    ("not_null", "not_null"),
    ("null", "null_marker"),
    ("older_than", "older_than"),
    ("on_conflict", "on_conflict"),
    ("on_conflict_ignore", "on_conflict(OnConflict::Ignore)"),
    ("on_conflict_replace", "on_conflict(OnConflict::Replace)"),
    ("page_size", "page_size"),
    ("postgres_text", "format(InputFormat::PostgresText)"),
    ("preset", "preset"),
    ("primary_key", "primary_key"),
    ("quote", "CsvOptions::quote"),
    ("ragged", "CsvOptions::ragged"),
    ("rejects", "OnError::Skip { rejects }"),
    ("rename", "rename"),
    ("replace", "into_table(IntoTable::Replace)"),
    ("seed", "Sharder::seed"),
    ("select", "select"),
    ("skip_bad_rows", "on_error(OnError::Skip { .. })"),
    ("skip_lines", "CsvOptions::skip_lines"),
    ("strict", "strict"),
    ("table", "table"),
    ("tmpdir", "tmpdir"),
    ("type", "column_type"),
    ("unique", "unique"),
    ("upsert", "into_table(IntoTable::Upsert)"),
    ("uuid7", "uuid7"),
    ("without_rowid", "without_rowid"),
];

/// Writes an option, of its name and its value, in the words of an interface.
pub type Spelling = fn(&str, Option<&str>) -> String;

static SPELLING: RwLock<Spelling> = RwLock::new(in_rust);

/// Sets how advice spells the options of this library, from now on and in this process: for
/// programs whose users do not write Rust. The last call counts.
///
/// `spelling` gets one of [`option_names`], and the value that the advice gives the option.
pub fn spell_options(spelling: Spelling) {
    *SPELLING.write().unwrap_or_else(PoisonError::into_inner) = spelling;
}

/// Names of all options that an advice may name.
pub fn option_names() -> impl Iterator<Item = &'static str> {
    OPTIONS.into_iter().map(|(name, _)| name)
}

/// A text with its options in the words of this process's interface.
pub(crate) fn spelled(text: &str) -> String {
    let spelling = *SPELLING.read().unwrap_or_else(PoisonError::into_inner);
    spelled_as(text, spelling)
}

fn spelled_as(text: &str, spelling: Spelling) -> String {
    let mut spelled = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, option, after)) = next_option(rest) {
        let (name, value) = match option.split_once(' ') {
            Some((name, value)) => (name, Some(value)),
            None => (option, None),
        };
        spelled.push_str(before);
        // Brackets of another text, such as a name in the input, stay.
        if option_names().any(|known| known == name) {
            spelled.push_str(&spelling(name, value));
        } else {
            spelled.extend(["⟦", option, "⟧"]);
        }
        rest = after;
    }
    spelled + rest
}

/// The text before the first option, the option, and the text behind it.
fn next_option(text: &str) -> Option<(&str, &str, &str)> {
    let (before, rest) = text.split_once('⟦')?;
    let (option, after) = rest.split_once('⟧')?;
    Some((before, option, after))
}

/// An option in the words of Rust.
fn in_rust(name: &str, value: Option<&str>) -> String {
    let known = OPTIONS.into_iter().find(|(known, _)| *known == name);
    let word = known.map_or(name, |(_, word)| word);
    match value {
        None => word.to_owned(),
        Some(value) => format!("{word}({value})"),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use super::*;

    #[test]
    fn an_option_is_spelled_by_each_interface() {
        let advice = "load it with ⟦delimiter ';'⟧, ⟦append⟧ or ⟦drop a,b⟧; not ⟦so⟧";
        assert_eq!(
            spelled(advice),
            "load it with CsvOptions::delimiter(';'), into_table(IntoTable::Append) or \
             drop_column(a,b); not ⟦so⟧"
        );
        let flag: Spelling = |name, value| format!("--{name} {}", value.unwrap_or("-"));
        let in_flags = "load it with --delimiter ';', --append - or --drop a,b; not ⟦so⟧";
        assert_eq!(spelled_as(advice, flag), in_flags);
        assert_eq!(spelled("a ⟦ that stays"), "a ⟦ that stays");
    }

    /// The lines of the library's files that are no tests and no comments, with their files.
    fn lines_of_code(folder: &Path, found: &mut Vec<(String, String)>) {
        for entry in fs::read_dir(folder).expect("a folder") {
            let path = entry.expect("an entry").path();
            let name = path.file_name().and_then(|name| name.to_str()).expect("UTF-8").to_owned();
            if path.is_dir() && name != "tests" {
                lines_of_code(&path, found);
            } else if path.is_file()
                && name != "tests.rs"
                && path.extension().is_some_and(|end| end == "rs")
            {
                let text = fs::read_to_string(&path).expect("it is readable");
                let code = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
                let code = code.lines().filter(|line| !line.trim_start().starts_with("//"));
                found.extend(code.map(|line| (name.clone(), line.to_owned())));
            }
        }
    }

    /// In this crate and in those beside it, whose advice is spelled here too.
    #[test]
    fn no_text_of_the_library_names_a_flag_of_the_command() {
        let mut lines = Vec::new();
        let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("a folder of crates");
        for name in ["leafpress", "leafpress-shards", "leafpress-rqlite"] {
            lines_of_code(&crates.join(name).join("src"), &mut lines);
        }
        assert!(lines.len() > 10_000, "only {} lines were found", lines.len());
        let mut named = Vec::new();
        for (file, line) in lines {
            let is_flag = |at: usize| {
                line[at + 2..].starts_with(|it: char| it.is_ascii_lowercase())
                    && line[..at].ends_with([' ', '"', '\'', '(', '`'])
            };
            let flag = line.match_indices("--").any(|(at, _)| is_flag(at));
            assert!(!flag, "{file}: {line}");
            let mut rest = line.as_str();
            while let Some((_, option, after)) = next_option(rest).filter(|_| file != "advice.rs") {
                let name = option.split(' ').next().unwrap_or_default().to_owned();
                let is_known = option_names().any(|known| known == name);
                assert!(is_known, "{file}: {line}: ⟦{name}⟧");
                named.push(name);
                rest = after;
            }
            let is_cut = file != "advice.rs" && rest.contains(['⟦', '⟧']);
            assert!(!is_cut, "an option is in two lines: {file}: {line}");
        }
        for name in option_names() {
            assert!(named.iter().any(|it| it == name), "no text names ⟦{name}⟧");
        }
    }
}
