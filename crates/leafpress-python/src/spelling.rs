//! Options that the library's advice names, as keywords of Python: one table.
//!
//! Must never: name a keyword that no function has.

/// Options of the library whose keyword is not their name, or needs a value.
const KEYWORDS: [(&str, &str); 24] = [
    ("all_files", "a pattern, such as \"folder/*.csv\""),
    ("all_text", "all_text=True"),
    ("append", "if_exists=\"append\""),
    ("busy_limit", "busy_timeout"),
    ("declaration", "create"),
    ("declaration_file", "create, read from a file"),
    ("dry_run", "dry_run=True"),
    ("exact", "exact=True"),
    ("expires", "expires_in or expires"),
    ("if_not_exists", "if_not_exists=True"),
    ("ignore", "if_exists=\"ignore\""),
    ("index_name", "name"),
    ("mysql_text", "format=\"mysqltext\""),
    ("no_header", "header=False"),
    ("no_quote", "quote=None"),
    ("on_conflict_ignore", "on_conflict=\"ignore\""),
    ("on_conflict_replace", "on_conflict=\"replace\""),
    ("postgres_text", "format=\"pgtext\""),
    ("primary_key", "pk"),
    ("replace", "if_exists=\"replace\""),
    ("skip_bad_rows", "on_error=\"skip\""),
    ("strict", "strict=True"),
    ("type", "types"),
    ("upsert", "if_exists=\"upsert\""),
];

/// An option of the library as a keyword, with its value.
pub fn as_keyword(option: &str, value: Option<&str>) -> String {
    let known = KEYWORDS.into_iter().find(|(name, _)| *name == option);
    let keyword = known.map_or(option, |(_, keyword)| keyword);
    match (option, value) {
        (_, None) => keyword.to_owned(),
        ("drop", Some(columns)) => {
            let columns: Vec<_> = columns.split(',').map(|name| format!("{name:?}")).collect();
            format!("drop=[{}]", columns.join(", "))
        }
        ("rename" | "type", Some(pair)) => {
            let (column, to) = pair.split_once('=').unwrap_or((pair, ""));
            format!("{keyword}={{{column:?}: {to:?}}}")
        }
        (_, Some(value)) if value.starts_with('\'') || value.parse::<u64>().is_ok() => {
            format!("{keyword}={value}")
        }
        (_, Some(value)) => format!("{keyword}={value:?}"),
    }
}
