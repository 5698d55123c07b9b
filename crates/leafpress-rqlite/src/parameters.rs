//! The parameters of a statement, numbered as SQLite does.
//!
//! rqlite passes over a name that the SQL does not have, and over values that are too many. So the values
//! are sent in the order of their parameters, one for each, and others are refused as SQLite refuses them locally.
//!
//! A value that rqlite would change ([`literal`](crate::literal)) stands in the SQL, in the place of its parameter.
//!
//! Must never: give a parameter the value of another one.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::iter::once;

use leafpress::writer::Parameters;
use leafpress::{Error, Result, rusqlite};
use rusqlite::types::{Value, ValueRef};
use serde_json::{Value as Json, json};

use crate::answer::of_sqlite;
use crate::literal::push_literal;

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

/// The statement, an array of the SQL and its values, with the values in the SQL that rqlite would change.
pub fn carried(statement: &Json) -> Cow<'_, Json> {
    let Json::Array(parts) = statement else { return Cow::Borrowed(statement) };
    let Some((Json::String(sql), values)) = parts.split_first() else {
        return Cow::Borrowed(statement);
    };
    let literals = literals(values.iter().map(|it| match it {
        Json::String(text) => ValueRef::Text(text.as_bytes()),
        _ => ValueRef::Null,
    }));
    if literals.is_empty() {
        return Cow::Borrowed(statement);
    }
    // SQL with a number that SQLite does not take is refused by each node.
    let with_literals = array(sql, values.iter().cloned(), &literals);
    with_literals.map_or(Cow::Borrowed(statement), Cow::Owned)
}

/// The values that have to stand in the SQL: the literal of each, by the number of its parameter.
pub type Literals = BTreeMap<usize, String>;

/// The literals of the values that have one.
pub fn literals<'v>(values: impl Iterator<Item = ValueRef<'v>>) -> Literals {
    let literal = |(at, value)| {
        let mut literal = String::new();
        push_literal(value, &mut literal).then_some((at + 1, literal))
    };
    values.enumerate().filter_map(literal).collect()
}

/// The statement as an array of the SQL and its values, those that have a literal in the SQL.
///
/// # Errors
/// A number of a parameter is not one that SQLite takes.
pub fn array(sql: &str, values: impl Iterator<Item = Json>, literals: &Literals) -> Result<Json> {
    if literals.is_empty() {
        return Ok(once(json!(sql)).chain(values).collect());
    }
    let (sql, largest) = with_literals(sql, literals)?;
    let rest = (1..=largest).zip(values);
    let rest = rest.map(|(at, it)| if literals.contains_key(&at) { Json::Null } else { it });
    Ok(once(json!(sql)).chain(rest).collect())
}

/// The SQL with literals in the place of their parameters, and the largest number of the others, which keep theirs.
fn with_literals(sql: &str, literals: &Literals) -> Result<(String, usize)> {
    let (mut with_literals, mut largest) = (String::with_capacity(sql.len()), 0);
    for (token, number) in tokens(sql)?.0 {
        match number.map(|number| (number, literals.get(&number))) {
            // Spaces, as a name or a text may stand beside it.
            Some((_, Some(literal))) => with_literals.extend([" ", literal, " "]),
            Some((number, None)) => {
                with_literals.extend(["?", &number.to_string()]);
                largest = largest.max(number);
            }
            None => with_literals.push_str(token),
        }
    }
    Ok((with_literals, largest))
}

/// The name of each parameter; `None` for `?`, and for numbers between those of `?NNN`.
///
/// # Errors
/// A number is not one that SQLite takes.
fn names(sql: &str) -> Result<Vec<Option<&str>>> {
    Ok(tokens(sql)?.1)
}

/// The tokens, each with the number of its parameter, and the names of the parameters.
type Tokens<'s> = (Vec<(&'s str, Option<usize>)>, Vec<Option<&'s str>>);

/// Cuts SQL into tokens.
///
/// # Errors
/// A number is not one that SQLite takes.
fn tokens(sql: &str) -> Result<Tokens<'_>> {
    let (mut tokens, mut names) = (Vec::new(), Vec::<Option<&str>>::new());
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
                tokens.push((token, Some(names.len())));
                continue;
            }
            '$' | ':' | '@' | '#' => {
                names.iter().position(|it| *it == Some(token)).unwrap_or(names.len()) + 1
            }
            _ => {
                tokens.push((token, None));
                continue;
            }
        };
        names.resize(names.len().max(number), None);
        names[number - 1].get_or_insert(token);
        tokens.push((token, Some(number)));
    }
    Ok((tokens, names))
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

    fn values_of(database: &Connection, statement: &Json) -> Vec<Value> {
        let parts = carried(statement).into_owned();
        let parts = parts.as_array().unwrap();
        let values = parts[1..].iter().map(|value| match value {
            Json::String(text) => Value::Text(text.clone()),
            Json::Null => Value::Null,
            number => Value::Integer(number.as_i64().unwrap()),
        });
        let mut query = database.prepare(parts[0].as_str().unwrap()).unwrap();
        let values: Vec<Value> = values.collect();
        assert_eq!(values.len(), query.parameter_count());
        let columns = query.column_count();
        let row = |row: &rusqlite::Row<'_>| (0..columns).map(|at| row.get(at)).collect();
        query.query_row(rusqlite::params_from_iter(values), row).unwrap()
    }

    #[test]
    fn a_text_that_looks_like_a_blob_stands_in_the_place_of_its_parameter() {
        let database = Connection::open_in_memory().unwrap();
        let text = |text: &str| Value::Text(text.to_owned());
        for like_blob in ["x'00ff'", " X'' ", "\u{a0}x'a'\n"] {
            let expected = vec![text(like_blob), Value::Integer(5), text(like_blob), text("x'")];
            for sql in [
                "SELECT ?, ?, ?1, ?3",
                "SELECT ?1,?2,?1,?3",
                "SELECT :a,:b,:a,:c",
                "SELECT ?1 AS '?'/*?*/,?2,?1,?3 --?",
            ] {
                let statement = json!([sql, like_blob, 5, "x'"]);
                assert!(!carried(&statement).to_string().contains("\"x'00ff'\""));
                assert_eq!(values_of(&database, &statement), expected, "{sql} {like_blob:?}");
            }
            let last = json!(["SELECT ?2||'a'||?1||'b'", like_blob, like_blob]);
            let found = values_of(&database, &last);
            assert_eq!(found, [text(&format!("{like_blob}a{like_blob}b"))]);
        }
        let other = json!(["SELECT ?1", "x'0g'"]);
        assert!(matches!(carried(&other), Cow::Borrowed(_)));
    }

    #[test]
    fn a_number_that_sqlite_refuses_takes_no_memory() {
        for sql in ["SELECT ?0", "SELECT ?32767", "SELECT ?99999999999999999999"] {
            assert!(names(sql).is_err(), "{sql}");
        }
        assert_eq!(names("SELECT ?32766").unwrap().len(), NUMBER_MAX);
    }
}
