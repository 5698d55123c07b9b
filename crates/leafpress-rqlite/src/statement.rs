//! SQL and values as rqlite takes them, and what is refused with a reason.
//!
//! Every node carries out the SQL itself, so a statement must give the same on each of them and at
//! each time. A group is one transaction, so a statement must not end it.
//!
//! Must never: change a value on its way.

use leafpress::rusqlite::types::{Value, ValueRef};
use leafpress::writer::{Parameters, Statement};
use leafpress::{Error, Result, SqlWord, script, sql_words};
use serde_json::{Value as Json, json};

use crate::parameters::{array, in_order, literals};
use crate::runs::Plain;

/// The beginning of the names of tables of Leafpress.
pub const OWN: &str = "_leafpress_";
/// Statements that would end or leave the transaction of the group, or belong to a connection.
const CONTROL: [&str; 12] = [
    "ATTACH",
    "BEGIN",
    "COMMIT",
    "DETACH",
    "END",
    "PRAGMA",
    "REINDEX",
    "RELEASE",
    "ROLLBACK",
    "SAVEPOINT",
    "VACUUM",
    "ANALYZE",
];
/// Statements whose count of rows means something. After others rqlite tells the count of an earlier one.
const COUNTED: [&str; 4] = ["INSERT", "REPLACE", "UPDATE", "DELETE"];
/// Statements that change the schema.
const SCHEMA: [&str; 3] = ["CREATE", "ALTER", "DROP"];
/// Words that give another value on each node or at each time.
const RANDOM: [&str; 2] = ["RANDOM", "RANDOMBLOB"];
const CLOCK_WORDS: [&str; 3] = ["CURRENT_DATE", "CURRENT_TIME", "CURRENT_TIMESTAMP"];
const CLOCK_FUNCTIONS: [&str; 7] =
    ["DATE", "TIME", "DATETIME", "JULIANDAY", "UNIXEPOCH", "STRFTIME", "TIMEDIFF"];
const OF_CONNECTION: [&str; 3] = ["CHANGES", "TOTAL_CHANGES", "LAST_INSERT_ROWID"];

/// A statement in rqlite's form.
#[derive(Debug, Clone)]
pub struct Prepared {
    /// The SQL and its values, as JSON.
    pub text: String,
    /// The number of rows that it changes is of interest.
    pub is_counted: bool,
    /// It changes the schema.
    pub is_schema: bool,
    /// The INSERT, if it is a plain one.
    pub plain: Option<Plain>,
}

impl Prepared {
    /// A statement of Leafpress itself, in JSON.
    pub fn own(text: String, is_counted: bool) -> Self {
        Self { text, is_counted, is_schema: false, plain: None }
    }
}

/// Checks a statement and puts it into rqlite's form.
///
/// # Errors
/// The statement cannot be carried out alike on all nodes, or touches the transaction of others,
/// or its values are not those of its parameters.
pub fn prepare(statement: &Statement) -> Result<Prepared> {
    let split = script::split("the statement", &statement.sql)?;
    if split.len() != 1 {
        return Err(Error::misuse("a call of `execute` holds exactly one statement")
            .to_do("use execute_batch for several statements"));
    }
    let words = tokens(&statement.sql);
    check(&words, &statement.parameters)?;
    let values = in_order(&statement.sql, &statement.parameters)?;
    let literals = literals(values.iter().map(|it| ValueRef::from(*it)));
    let array = array(&statement.sql, values.into_iter().map(as_json), &literals)?;
    let is_counted = verb(&words).is_some_and(|word| COUNTED.contains(&word));
    let is_schema = matches!(words.first(), Some(Token::Word(word)) if SCHEMA.contains(&&**word));
    let plain = match &statement.parameters {
        Parameters::Positional(values) if literals.is_empty() => Plain::of(&statement.sql, values),
        _ => None,
    };
    Ok(Prepared { text: array.to_string(), is_counted, is_schema, plain })
}

/// Refuses a declaration that would give another value on each node.
///
/// # Errors
/// As those of [`prepare`], but for tables of Leafpress.
pub fn check_declaration(sql: &str) -> Result<()> {
    let tokens: Vec<Token> = tokens(sql).into_iter().filter(|it| !it.is_own_table()).collect();
    check(&tokens, &Parameters::Positional(Vec::new()))
}

/// A value as JSON; NULL for one that JSON has not.
fn as_json(value: &Value) -> Json {
    match value {
        Value::Integer(number) => json!(number),
        Value::Text(text) => json!(text),
        // NaN is NULL in SQLite.
        Value::Real(number) if number.is_finite() => json!(number),
        _ => Json::Null,
    }
}

/// Refuses statements for which the promises of the writer cannot be kept on a cluster.
fn check(tokens: &[Token], parameters: &Parameters) -> Result<()> {
    let refused = |reason: String| Err(Error::refused(reason));
    let first = tokens.iter().find_map(Token::word).unwrap_or_default();
    if CONTROL.contains(&first) {
        return refused(format!("{first} would touch the transaction or the connection of others"));
    }
    if is_temporary(tokens) {
        return refused(
            "a temporary table is lost on a node that starts anew, and stays on the others"
                .to_owned(),
        );
    }
    let has = |word: &str| tokens.iter().any(|it| it.word() == Some(word));
    if has("RETURNING") {
        return refused("rqlite gives rows for RETURNING, and no count of changed rows".to_owned());
    }
    if tokens.iter().any(Token::is_own_table) {
        return refused(format!("tables whose names begin with {OWN} belong to Leafpress"));
    }
    if let Some(word) = CLOCK_WORDS.iter().find(|word| has(word)) {
        return differs(word, "a time from the program as a parameter");
    }
    let called = |names: &[&str]| {
        tokens.windows(2).find_map(|two| {
            let word = two[0].word()?;
            (names.contains(&word) && two[1] == Token::Sign('(')).then(|| word.to_owned())
        })
    };
    if let Some(name) = called(&RANDOM) {
        return differs(&name, "a random value from the program as a parameter");
    }
    if let Some(name) = called(&OF_CONNECTION) {
        return refused(format!("{name}() would count the statements of other callers"));
    }
    let clock_calls = clock_calls(tokens);
    if let Some((name, _)) = clock_calls.first()
        && names_clock(tokens, parameters)
    {
        return differs(name, "a time from the program as a parameter");
    }
    match clock_calls.iter().find(|(name, arguments)| reads_clock(name, arguments)) {
        Some((name, _)) => differs(name, "a time from the program as a parameter"),
        None => Ok(()),
    }
}

/// The first word of a statement, or the one behind its WITH: there it follows the parenthesis of a table
/// expression, which AS may too.
fn verb(tokens: &[Token]) -> Option<&str> {
    let first = tokens.first().and_then(Token::word);
    if first != Some("WITH") {
        return first;
    }
    let mut depth = 0;
    tokens.windows(2).find_map(|two| {
        match two[0] {
            Token::Sign('(') => depth += 1,
            Token::Sign(')') => depth -= 1,
            _ => {}
        }
        let is_behind = depth == 0 && two[0] == Token::Sign(')');
        two[1].word().filter(|word| is_behind && *word != "AS")
    })
}

/// Returns true if a statement makes a temporary object, or names the schema `temp`.
fn is_temporary(tokens: &[Token]) -> bool {
    let mut words = tokens.iter().filter_map(Token::word);
    let makes =
        words.next() == Some("CREATE") && matches!(words.next(), Some("TEMP" | "TEMPORARY"));
    let is_temp = |token: &Token| match token {
        Token::Word(text) | Token::Quoted(_, text) => text.eq_ignore_ascii_case("temp"),
        Token::Sign(_) => false,
    };
    let names = tokens.windows(2).enumerate().any(|(at, two)| {
        let is_schema = is_temp(&two[0]) && two[1] == Token::Sign('.');
        // In `main.temp.a` it is a table.
        is_schema && (at == 0 || tokens[at - 1] != Token::Sign('.'))
    });
    makes || names
}

fn differs(name: &str, instead: &str) -> Result<()> {
    let reason =
        format!("{name} gives another value on each node, or when the group is sent again");
    Err(Error::refused(reason).to_do(format!("give {instead}")))
}

/// Returns true if a text or a value asks a function of dates for the time or the zone of the node.
fn names_clock(tokens: &[Token], parameters: &Parameters) -> bool {
    let is_clock = |text: &str| {
        ["now", "localtime", "utc", "subsec", "subsecond"]
            .iter()
            .any(|it| text.trim().eq_ignore_ascii_case(it))
    };
    let is_clock_value = |value: &Value| matches!(value, Value::Text(text) if is_clock(text));
    let in_parameters = match parameters {
        Parameters::Positional(values) => values.iter().any(is_clock_value),
        Parameters::Named(values) => values.iter().any(|(_, value)| is_clock_value(value)),
        _ => true,
    };
    in_parameters || tokens.iter().any(|it| matches!(it, Token::Quoted(_, text) if is_clock(text)))
}

/// The calls of functions of dates, each with its arguments.
fn clock_calls(tokens: &[Token]) -> Vec<(&str, Vec<&[Token]>)> {
    let call = |at: usize| {
        let name = tokens[at].word().filter(|it| CLOCK_FUNCTIONS.contains(it))?;
        // What follows these is a table of that name.
        let is_table = at.checked_sub(1).is_some_and(|before| match &tokens[before] {
            Token::Word(word) => ["TABLE", "EXISTS", "INTO", "REFERENCES"].contains(&&**word),
            before => *before == Token::Sign('.'),
        });
        let is_call = tokens.get(at + 1) == Some(&Token::Sign('(')) && !is_table;
        is_call.then(|| (name, arguments(tokens, at + 1)))
    };
    (0..tokens.len()).filter_map(call).collect()
}

/// The arguments of the call whose parenthesis opens at `open`.
fn arguments(tokens: &[Token], open: usize) -> Vec<&[Token]> {
    let (mut depth, mut begin, mut all) = (0, open + 1, Vec::new());
    for (at, token) in tokens.iter().enumerate().skip(open) {
        match token {
            Token::Sign('(') => depth += 1,
            Token::Sign(')') => depth -= 1,
            _ => {}
        }
        if depth == 0 || depth == 1 && *token == Token::Sign(',') {
            all.extend(tokens.get(begin..at).filter(|it| !it.is_empty()));
            begin = at + 1;
        }
        if depth == 0 {
            break;
        }
    }
    all
}

/// Returns true if a function of dates has no time, which means now, or one that may be `now`. The texts and
/// values that are just that are found by [`names_clock`].
fn reads_clock(name: &str, arguments: &[&[Token]]) -> bool {
    let times = match name {
        "STRFTIME" => arguments.get(1..2),
        "TIMEDIFF" => arguments.get(..2),
        _ => arguments.get(..1),
    };
    times.is_none_or(|times| times.iter().any(|it| may_spell_now(it)))
}

/// Returns true if the texts of an expression have the letters of `now`, or if it makes letters of numbers. A name in
/// double quotes is a text for SQLite if no column has it, so it is taken for one, but for `t."c"`.
/// Columns, parameters and expressions of these alone are taken for times.
fn may_spell_now(expression: &[Token]) -> bool {
    let makes_letters = expression.windows(2).any(|two| match two {
        [Token::Word(word), Token::Quoted('\'', _)] => word == "X",
        [Token::Word(word), Token::Sign('(')] => ["CHAR", "UNHEX"].contains(&&**word),
        _ => false,
    });
    let is_part_of_name = |at: usize| {
        let beside = [at.checked_sub(1), Some(at + 1)].into_iter().flatten();
        beside.filter_map(|at| expression.get(at)).any(|it| *it == Token::Sign('.'))
    };
    let texts = expression.iter().enumerate().filter_map(|(at, it)| match it {
        Token::Quoted('\'' | '"', text) if !is_part_of_name(at) => Some(text.to_ascii_lowercase()),
        _ => None,
    });
    let letters: String = texts.collect();
    let spells = |word: &str| word.chars().all(|it| letters.contains(it));
    makes_letters || expression.len() > 1 && (spells("now") || spells("subsec"))
}

/// A token of SQL, as far as the checks need it.
#[derive(Debug, PartialEq, Eq)]
enum Token {
    /// A word without quotes, in capitals.
    Word(String),
    /// A text or a name in quotes: the first quote, and the characters between the quotes.
    Quoted(char, String),
    Sign(char),
}

impl Token {
    /// The word, if it is one.
    fn word(&self) -> Option<&str> {
        if let Self::Word(word) = self { Some(word) } else { None }
    }

    fn is_own_table(&self) -> bool {
        let (Self::Word(text) | Self::Quoted(_, text)) = self else { return false };
        is_own_name(text)
    }
}

/// Returns true for names of tables of Leafpress.
pub fn is_own_name(name: &str) -> bool {
    name.get(..OWN.len()).is_some_and(|start| start.eq_ignore_ascii_case(OWN))
}

fn tokens(sql: &str) -> Vec<Token> {
    let words = sql_words(sql);
    let is_function = |at: usize, name: &str| {
        let is_known = [&RANDOM[..], &CLOCK_FUNCTIONS, &OF_CONNECTION].concat().contains(&name);
        is_known && words.get(at + 1) == Some(&SqlWord::Symbol('('))
    };
    let token = |(at, word): (usize, &SqlWord<'_>)| match *word {
        SqlWord::Bare(word) => Token::Word(word.to_ascii_uppercase()),
        SqlWord::Symbol(sign) => Token::Sign(sign),
        SqlWord::Quoted(quote, text) => {
            let upper = text.to_ascii_uppercase();
            if quote != '\'' && is_function(at, &upper) {
                Token::Word(upper)
            } else {
                Token::Quoted(quote, text.to_owned())
            }
        }
    };
    words.iter().enumerate().map(token).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(sql: &str, values: Vec<Value>) -> Result<Prepared> {
        let parameters = Parameters::Positional(values);
        prepare(&Statement { sql: sql.into(), parameters })
    }

    #[test]
    fn values_stay_as_they_are() {
        let values = vec![
            Value::Integer(i64::MIN),
            Value::Real(1.0),
            Value::Real(f64::NAN),
            Value::Null,
            Value::Text("a\0ü".to_owned()),
        ];
        let prepared = of("INSERT INTO t VALUES (?,?,?,?,?)", values).unwrap();
        assert_eq!(
            prepared.text,
            r#"["INSERT INTO t VALUES (?,?,?,?,?)",-9223372036854775808,1.0,null,null,"a\u0000ü"]"#
        );
        assert!(prepared.is_counted && !of("CREATE TABLE t(a)", vec![]).unwrap().is_counted);
        let values = vec![
            Value::Blob(vec![1]),
            Value::Integer(2),
            Value::Real(f64::NEG_INFINITY),
            Value::Text("x'00'".to_owned()),
        ];
        let prepared = of("INSERT INTO t VALUES (?,?,?,?)", values).unwrap();
        assert_eq!(
            prepared.text,
            r#"["INSERT INTO t VALUES ( x'01' ,?2, -9e999 , 'x''00''' )",null,2]"#
        );
        assert_eq!(prepared.plain, None);
    }

    #[test]
    fn the_rows_of_a_query_are_not_counted() {
        for (sql, is_counted) in [
            ("WITH x AS (SELECT 1) SELECT * FROM x", false),
            (
                "WITH a(b) AS (VALUES ((1))), replace AS NOT MATERIALIZED (SELECT 1) VALUES (1)",
                false,
            ),
            ("WITH x AS (SELECT replace('a', 'b', 'c')) SELECT replace(1, 2, 3) FROM x", false),
            ("with recursive insert_(a) as (SELECT 1) insert INTO t SELECT * FROM insert_", true),
            ("WITH a AS MATERIALIZED (SELECT 1), b(c, d) AS (SELECT 1, 2) DELETE FROM t", true),
            ("WITH x AS (SELECT 1) REPLACE INTO t SELECT * FROM x", true),
            ("WITH x AS (SELECT 1) UPDATE t SET a = (SELECT * FROM x)", true),
            ("WITH", false),
        ] {
            assert_eq!(of(sql, vec![]).unwrap().is_counted, is_counted, "{sql}");
        }
    }

    #[test]
    fn functions_of_time_are_refused_if_they_may_ask_for_the_clock() {
        for time in [
            "strftime(:format)",
            "strftime('%s' || '')",
            "strftime(coalesce(a, '%s', '%d'))",
            "strftime('%s', lower('NOW'))",
            "timediff('2020-01-01', 'n' || 'ow')",
            "datetime(lower(' NOW '))",
            "datetime(trim('xnowx', 'x'))",
            "datetime('no' || 'w', '+1 day')",
            "unixepoch('sub' || 'sec')",
            "date(char(110, 111, 119))",
            "date(x'6e6f77')",
            "date(CAST(x'6e6f77' AS TEXT))",
            "date((('now')))",
            "main.f(date( ))",
            "\"date\"('n' || 'ow')",
            "date(\"no\" || \"w\")",
            "date(\"n\" || 'ow')",
        ] {
            assert!(of(&format!("SELECT {time}"), vec![]).is_err(), "{time}");
        }
        for time in [
            "datetime(a, 'unixepoch')",
            "date(\"known\")",
            "date(\"t\".\"known\" || '')",
            "date(coalesce(\"created\", \"t\".\"shown\", [now_or_later]))",
            "date(t.at / 1000, 'unixepoch', '+' || days || ' days')",
            "date(?1)",
            "date(:day)",
            "strftime('%Y-%m', at)",
            "strftime(?1, ?2)",
            "strftime('%d known', datetime(max(at), 'unixepoch'))",
            "date(substr(replace(at, 'T', ' '), 1, 10))",
            "date(doc->>'at')",
            "julianday('2026-01-01') - julianday(at)",
            "date(CAST(at AS TEXT))",
            "'known' || date(at)",
        ] {
            // Parameters without values are NULL.
            let sql = format!("SELECT {time}").into();
            let parameters = Parameters::Named(Vec::new());
            assert!(prepare(&Statement { sql, parameters }).is_ok(), "{time}");
        }
        for sql in [
            "CREATE TABLE date(d TEXT CHECK (d <> 'unknown' || ''))",
            "CREATE TABLE IF NOT EXISTS main.time(d CHECK (d <> 'unknown' || ''))",
            "INSERT INTO date(at, name) VALUES (1, 'Now ' || 'known')",
        ] {
            assert!(of(sql, vec![]).is_ok(), "{sql}");
        }
    }

    #[test]
    fn what_differs_between_nodes_is_refused() {
        for sql in [
            "SELECT random()",
            "select /* */ RANDOMBLOB (4)",
            "SELECT \"random\"()",
            "CREATE TABLE t(a DEFAULT CURRENT_TIMESTAMP)",
            "SELECT datetime('NOW')",
            "SELECT date()",
            "SELECT strftime('%s')",
            "SELECT time(a, 'localtime')",
            "BEGIN",
            " -- x\n commit",
            "PRAGMA a",
            "ATTACH 'a' AS b",
            "CREATE TEMP TABLE t(a)",
            "create /* */ temporary view v AS SELECT 1",
            "CREATE TABLE temp.t(a)",
            "INSERT INTO \"Temp\" . t VALUES (1)",
            "DELETE FROM 'temp'.t",
            "INSERT INTO t VALUES (1) RETURNING a",
            "DELETE FROM _leafpress_applied",
            "SELECT changes()",
            "a; b",
            "",
        ] {
            assert!(of(sql, vec![]).is_err(), "{sql}");
        }
        assert!(of("SELECT date(?)", vec![Value::Text("now".to_owned())]).is_err());
        assert!(of("SELECT strftime(?1)", vec![Value::Text("%s".to_owned())]).is_err());
        for sql in [
            "SELECT 'random()'",
            "INSERT INTO random VALUES ('now')",
            "SELECT date(a) FROM t",
            "SELECT 1 -- random()",
            "UPDATE t SET begin = 1;",
            "INSERT INTO temp(temporary) VALUES (1)",
            "CREATE TABLE temporary(temp)",
            "UPDATE main.temp SET a = 1",
        ] {
            assert!(of(sql, vec![]).is_ok(), "{sql}");
        }
    }
}
