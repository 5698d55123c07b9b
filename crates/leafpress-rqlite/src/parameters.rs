//! The parameters of a statement, numbered as SQLite does.
//!
//! rqlite passes over a name that the SQL does not have, and over values that are too many. So the values
//! are sent in the order of their parameters, one for each, and others are refused as SQLite refuses them locally.
//!
//! Must never: give a parameter the value of another one.

use leafpress::writer::Parameters;
use leafpress::{Error, Result, rusqlite};
use rusqlite::types::Value;

use crate::answer::of_sqlite;

/// SQLite refuses `?NNN` beyond it.
const NUMBER_MAX: usize = 32_766;

/// The values of a statement in the order of its parameters; NULL where others have names.
///
/// # Errors
/// A value has no parameter, or a value is missing.
pub fn in_order<'p>(sql: &str, parameters: &'p Parameters) -> Result<Vec<&'p Value>> {
    let names = names(sql)?;
    match parameters {
        Parameters::Positional(values) if values.len() == names.len() => {
            Ok(values.iter().collect())
        }
        Parameters::Positional(values) => {
            Err(refused(rusqlite::Error::InvalidParameterCount(values.len(), names.len())))
        }
        Parameters::Named(values) => {
            let mut ordered = vec![&Value::Null; names.len()];
            for (name, value) in values {
                let at = names.iter().position(|it| *it == Some(name));
                let unknown = || refused(rusqlite::Error::InvalidParameterName(name.clone()));
                ordered[at.ok_or_else(unknown)?] = value;
            }
            Ok(ordered)
        }
        _ => Err(Error::unsupported("parameters of this kind cannot be sent to rqlite")),
    }
}

fn refused(source: rusqlite::Error) -> Error {
    Error::sqlite("carry out the call", source).on_disk("nothing of this call")
}

/// The name of each parameter; `None` for `?`, and for numbers between those of `?NNN`.
///
/// # Errors
/// A number is not one that SQLite takes.
fn names(sql: &str) -> Result<Vec<Option<&str>>> {
    let mut names: Vec<Option<&str>> = Vec::new();
    let mut rest = sql;
    while let Some(first) = rest.chars().next() {
        let (token, after) = rest.split_at(token_bytes(rest, first));
        rest = after;
        let number = match first {
            '?' if token.len() > 1 => {
                let number = token[1..].parse().ok();
                number.filter(|it| (1..=NUMBER_MAX).contains(it)).ok_or_else(|| {
                    of_sqlite(&format!(
                        "variable number must be between ?1 and ?{NUMBER_MAX}: {token}"
                    ))
                })?
            }
            '?' => {
                names.push(None);
                continue;
            }
            '$' | ':' | '@' | '#' => {
                names.iter().position(|it| *it == Some(token)).unwrap_or(names.len()) + 1
            }
            _ => continue,
        };
        names.resize(names.len().max(number), None);
        names[number - 1].get_or_insert(token);
    }
    Ok(names)
}

/// Bytes of the token, space or comment at the start, as SQLite cuts them. A quote that is doubled in a text
/// ends one and begins another.
fn token_bytes(sql: &str, first: char) -> usize {
    let end = |found: Option<usize>| found.unwrap_or(sql.len());
    match first {
        '\'' | '"' | '`' => end(sql[1..].find(first).map(|at| at + 2)),
        '[' => end(sql.find(']').map(|at| at + 1)),
        '-' if sql.starts_with("--") => end(sql.find('\n')),
        '/' if sql.starts_with("/*") => end(sql[2..].find("*/").map(|at| at + 4)),
        '?' => 1 + end(sql[1..].find(|it: char| !it.is_ascii_digit())).min(sql.len() - 1),
        '$' | ':' | '@' | '#' => name_bytes(sql.as_bytes()),
        // A byte order mark is a space where a token begins.
        '\u{feff}' => first.len_utf8(),
        _ if is_of_name(first) => end(sql.find(|it| !is_of_name(it))),
        _ => first.len_utf8(),
    }
}

/// Bytes of a parameter with a name, as `:a`, `@a`, `$a` and those of Tcl: `$a::b(c)`.
fn name_bytes(sql: &[u8]) -> usize {
    let mut at = 1;
    let mut is_empty = true;
    while let Some(byte) = sql.get(at) {
        if is_of_name(char::from(*byte)) {
            (at, is_empty) = (at + 1, false);
        } else if *byte == b'(' && !is_empty {
            return sql[at..]
                .iter()
                .position(|it| *it == b')')
                .map_or(sql.len(), |end| at + end + 1);
        } else if sql[at..].starts_with(b"::") {
            at += 2;
        } else {
            break;
        }
    }
    at
}

/// Returns true for characters of names and numbers; of those beyond ASCII each byte is one.
fn is_of_name(it: char) -> bool {
    it.is_ascii_alphanumeric() || it == '_' || it == '$' || !it.is_ascii()
}

#[cfg(test)]
mod tests {
    use super::*;
    use rusqlite::Connection;

    /// Pieces of expressions, among them those that only look like parameters.
    const PIECES: [&str; 44] = [
        "?",
        "?1",
        "?3",
        "?03",
        "?12",
        ":a",
        ":b",
        "@a",
        "$a",
        "#a",
        ":é",
        "$a::b",
        "$a::b(c d)",
        "$a(x)",
        ":a(?)",
        "@a::",
        "a$b",
        "é$a",
        "'?'",
        "'it''s :a'",
        "\"a?\"",
        "[:b]",
        "`$a`",
        "/* ?9 */ 1",
        "-- :z\n 2",
        "1/2",
        "1-?",
        "x'00'",
        "1e5",
        "0x1f",
        "1.5",
        ".5",
        "a.b",
        "/**/3",
        "/* ' */ 4",
        "'--' || ?",
        "?/*",
        "*/?",
        "\u{feff}$b",
        "b\u{feff}$c",
        "--",
        "?a",
        "::a",
        "$",
    ];

    #[test]
    fn parameters_are_numbered_as_sqlite_does() {
        let database = Connection::open_in_memory().unwrap();
        database.execute_batch("CREATE TABLE t(a, b, \"a$b\", \"a?\", \"é$a\")").unwrap();
        let mut random = fastrand::Rng::with_seed(1);
        let mut compared = 0;
        for _ in 0..50_000 {
            let pieces: Vec<&str> =
                (0..random.usize(1..6)).map(|_| PIECES[random.usize(..PIECES.len())]).collect();
            let between = [" + ", ", ", "||", ","][random.usize(..4)];
            let sql = format!("SELECT {} FROM t AS a", pieces.join(between));
            let Ok(prepared) = database.prepare(&sql) else { continue };
            let count = prepared.parameter_count();
            let expected: Vec<_> = (1..=count).map(|at| prepared.parameter_name(at)).collect();
            assert_eq!(names(&sql).unwrap(), expected, "{sql}");
            compared += usize::from(count > 0);
        }
        assert!(compared > 5_000, "{compared}");
    }

    #[test]
    fn a_number_that_sqlite_refuses_takes_no_memory() {
        for sql in ["SELECT ?0", "SELECT ?32767", "SELECT ?99999999999999999999"] {
            assert!(names(sql).is_err(), "{sql}");
        }
        assert_eq!(names("SELECT ?32766").unwrap().len(), NUMBER_MAX);
    }
}
