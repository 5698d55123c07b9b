//! Runs: consecutive calls of one plain `INSERT INTO t(…) VALUES (?, …)` become one statement of many rows.
//!
//! A statement costs each node more than a row. The counts of each call are told from those of the
//! statement: each row is one, and its rowid is the value that the caller gave, or the next number. That
//! holds for a table without triggers, foreign keys and conflict clauses.
//!
//! Invariants:
//! 1. A group with a run is applied only if its tables are declared as the writer knew them: its first
//!    statement fails otherwise ([`Plan::guard`]).
//! 2. The rows of a run stand in the order of its calls.
//!
//! Must never: give a count that is a guess.

use std::collections::HashMap;

use leafpress::rusqlite::Connection;
use leafpress::rusqlite::types::Value;
use leafpress::{SqlWord, quote_identifier, sql_words};
use serde_json::Value as Json;

use crate::answer::Counts;
use crate::client::Client;
use crate::declared::Declared;
use crate::limits::{PARAMETERS_MAX, ROWS_MAX};
use crate::patience::ANSWER_MIN;

/// Columns beyond these have no bit in [`Plain::nulls`].
const COLUMNS_MAX: usize = 128;
/// Declarations that are kept in mind.
const TABLES_MAX: usize = 1_000;
const SCHEMA: &str = "SELECT type, name, sql FROM sqlite_schema WHERE lower(tbl_name) = ?1 AND \
     sql IS NOT NULL ORDER BY name";

/// An INSERT of one row whose values are its parameters, in their order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plain {
    sql: String,
    /// In small letters.
    table: String,
    columns: Option<Vec<String>>,
    /// A bit for each parameter that is NULL: SQLite gives such a rowid a number.
    nulls: u128,
    width: usize,
    /// Bytes of the statement in JSON before its parameters.
    head_bytes: usize,
}

impl Plain {
    /// Returns the INSERT, if it is plain.
    pub fn of(sql: &str, parameters: &[Value]) -> Option<Self> {
        let words = sql_words(sql);
        let mut words = words.iter().copied().peekable();
        for keyword in ["INSERT", "INTO"] {
            words.next().filter(|word| word.is(keyword))?;
        }
        let table = name(words.next()?)?.to_ascii_lowercase();
        let columns = match words.peek()? {
            SqlWord::Symbol('(') => Some(list(&mut words, |word, _| name(word))?),
            _ => None,
        };
        words.next().filter(|word| word.is("VALUES"))?;
        let marks = list(&mut words, |word, next| match (word, next) {
            (SqlWord::Symbol('?'), Some(SqlWord::Bare(number))) => Some(number.to_owned()),
            (SqlWord::Symbol('?'), None) => Some(String::new()),
            _ => None,
        })?;
        let is_in_order = |(at, mark): (usize, &String)| {
            mark.is_empty() || mark.parse() == Ok(at + 1) && !mark.starts_with('0')
        };
        // A mark without a number follows the largest one before it, so in order both mean the same.
        let fits = marks.len() == parameters.len() && marks.len() <= COLUMNS_MAX;
        if !fits || !marks.iter().enumerate().all(is_in_order) {
            return None;
        }
        let is_rowid = |it: &String| {
            ["rowid", "oid", "_rowid_"].iter().any(|rowid| it.eq_ignore_ascii_case(rowid))
        };
        if columns.iter().flatten().any(is_rowid) {
            return None;
        }
        match (words.next(), words.next()) {
            (None, _) | (Some(SqlWord::Symbol(';')), None) => {}
            _ => return None,
        }
        let nulls = parameters.iter().enumerate().filter(|(_, value)| is_null(value));
        let nulls = nulls.fold(0, |bits, (at, _)| bits | 1 << at);
        let head_bytes = Json::from(sql).to_string().len() + 1;
        let width = parameters.len();
        Some(Self { sql: sql.to_owned(), table, columns, nulls, width, head_bytes })
    }

    /// Rows of one statement at most.
    pub fn rows_max(&self) -> usize {
        (PARAMETERS_MAX / self.width.max(1)).clamp(1, ROWS_MAX)
    }

    /// One statement of the rows of these calls, in JSON.
    fn merged(&self, calls: &[String]) -> String {
        let columns = self.columns.as_ref().map_or(String::new(), |columns| {
            let columns: Vec<String> = columns.iter().map(|it| quote_identifier(it)).collect();
            format!("({})", columns.join(","))
        });
        let row = format!("({})", vec!["?"; self.width].join(","));
        let rows = vec![&*row; calls.len()].join(",");
        let sql = format!("INSERT INTO {}{columns} VALUES {rows}", quote_identifier(&self.table));
        let mut text = format!("[{}", Json::from(sql));
        for call in calls {
            text.push_str(&call[self.head_bytes..call.len() - 1]);
        }
        text.push(']');
        text
    }
}

/// NaN is NULL in SQLite.
fn is_null(value: &Value) -> bool {
    matches!(value, Value::Null) || matches!(value, Value::Real(number) if number.is_nan())
}

fn name(word: SqlWord<'_>) -> Option<String> {
    match word {
        SqlWord::Bare(name) => Some(name.to_owned()),
        SqlWord::Quoted('\'', _) => None,
        SqlWord::Quoted(quote, name) if !name.contains(quote) => Some(name.to_owned()),
        _ => None,
    }
}

/// A list in parentheses; each item has one word, or two.
fn list<'s>(
    words: &mut std::iter::Peekable<impl Iterator<Item = SqlWord<'s>>>,
    item: impl Fn(SqlWord<'s>, Option<SqlWord<'s>>) -> Option<String>,
) -> Option<Vec<String>> {
    words.next().filter(|word| *word == SqlWord::Symbol('('))?;
    let mut items = Vec::new();
    loop {
        let first = words.next()?;
        let second = words.next_if(|word| matches!(word, SqlWord::Bare(_)));
        items.push(item(first, second)?);
        match words.next()? {
            SqlWord::Symbol(',') => {}
            SqlWord::Symbol(')') => return Some(items),
            _ => return None,
        }
    }
}

/// The declarations of tables, as far as they are known.
#[derive(Default)]
pub struct Tables {
    /// By names in small letters; `None` for a table whose calls are recorded one by one.
    known: HashMap<String, Option<Facts>>,
}

struct Facts {
    /// All SQL about the table.
    sql: String,
    columns: Vec<String>,
    rowid_alias: Option<String>,
    has_rowid: bool,
}

impl Tables {
    /// Forgets all, after a change of the schema.
    pub fn forget(&mut self) {
        self.known.clear();
    }

    /// Reads the declaration of the table of an INSERT, if it is not known.
    pub fn learn(&mut self, plain: &Plain, client: &mut Client) {
        if self.known.contains_key(&plain.table) {
            return;
        }
        if self.known.len() >= TABLES_MAX {
            self.forget();
        }
        if let Ok(rows) = client.rows(SCHEMA, &[&plain.table], ANSWER_MIN) {
            self.known.insert(plain.table.clone(), facts(&rows));
        }
    }

    /// Returns true if calls of this INSERT may be recorded as a run.
    pub fn knows(&self, plain: &Plain) -> bool {
        self.facts(plain).is_some()
    }

    fn facts(&self, plain: &Plain) -> Option<&Facts> {
        self.known.get(&plain.table)?.as_ref()
    }
}

/// The facts of a table by the rows of the schema; `None` if a row may depend on another one, or be passed over.
fn facts(rows: &[Json]) -> Option<Facts> {
    let text = |row: &Json, at: usize| Some(row.get(at)?.as_str()?.to_owned());
    let (mut create, mut indexes, mut all) = (None, Vec::new(), Vec::new());
    for row in rows {
        let sql = text(row, 2)?;
        match text(row, 0)?.as_str() {
            "table" => create = Some((text(row, 1)?, sql.clone())),
            "index" => indexes.push(sql.clone()),
            _ => return None,
        }
        all.push(sql);
    }
    let (name, create) = create?;
    let is_special =
        |word: &SqlWord<'_>| ["CONFLICT", "VIRTUAL", "REFERENCES"].iter().any(|it| word.is(it));
    if sql_words(&create).iter().any(is_special) {
        return None;
    }
    let declared = Declared::of_sql(name, &create, &indexes, Vec::new()).ok()?;
    Some(Facts {
        sql: all.join("\n"),
        columns: declared.column_names(),
        rowid_alias: declared.rowid_alias.clone(),
        has_rowid: !declared.without_rowid,
    })
}

/// The counted statements of one request, in their order, and the declarations that they rely on.
#[derive(Default)]
pub struct Plan {
    entries: Vec<Entry>,
    /// Table in small letters, and its declaration.
    tables: Vec<(String, String)>,
}

enum Entry {
    /// The statement of one call.
    Each,
    Run(Run),
}

/// Calls that became one statement.
struct Run {
    plain: Plain,
    /// Their statements in JSON.
    calls: Vec<String>,
    /// The place of the rowid among the parameters, if the callers give it.
    rowid_at: Option<usize>,
    has_rowid: bool,
}

impl Plan {
    /// Adds a statement of one call.
    pub fn add_each(&mut self) {
        self.entries.push(Entry::Each);
    }

    /// Adds a run of a table that is [known](Tables::knows); returns its statement in JSON.
    pub fn add_run(&mut self, plain: &Plain, calls: Vec<String>, tables: &Tables) -> String {
        let text = plain.merged(&calls);
        let Some(facts) = tables.facts(plain) else { return text };
        if !self.tables.iter().any(|(table, _)| *table == plain.table) {
            self.tables.push((plain.table.clone(), facts.sql.clone()));
        }
        let rowid_at = facts.rowid_alias.as_ref().and_then(|alias| {
            let columns = plain.columns.as_ref().unwrap_or(&facts.columns);
            let at = columns.iter().position(|it| it.eq_ignore_ascii_case(alias))?;
            (plain.nulls & 1 << at == 0).then_some(at)
        });
        let (plain, has_rowid) = (plain.clone(), facts.has_rowid);
        self.entries.push(Entry::Run(Run { plain, calls, rowid_at, has_rowid }));
        text
    }

    /// A condition that holds if the tables of the runs are declared as they were known, and its
    /// parameters; `None` without runs.
    pub fn guard(&self) -> Option<(String, Vec<&str>)> {
        let one = "(SELECT group_concat(sql,char(10)) FROM (SELECT sql FROM sqlite_schema WHERE \
                   lower(tbl_name)=? AND sql IS NOT NULL ORDER BY name)) IS ?";
        let all = vec![one; self.tables.len()].join(" AND ");
        let parameters = self.tables.iter().flat_map(|(table, sql)| [&**table, &**sql]);
        (!self.tables.is_empty()).then(|| (all, parameters.collect()))
    }

    /// Counts of each call from those of each statement; `None` if they do not fit.
    pub fn counts(&self, of_statements: &[Counts]) -> Option<Vec<Counts>> {
        if of_statements.len() != self.entries.len() {
            return None;
        }
        let mut all = Vec::new();
        for (entry, counts) in self.entries.iter().zip(of_statements) {
            match entry {
                Entry::Each => all.push(*counts),
                Entry::Run(run) => {
                    let rowids = run.rowids(*counts)?.into_iter();
                    all.extend(rowids.map(|it| Counts { rows_affected: 1, last_insert_id: it }));
                }
            }
        }
        Some(all)
    }
}

impl Run {
    /// The rowid of each call.
    fn rowids(&self, counts: Counts) -> Option<Vec<i64>> {
        let (calls, last) = (self.calls.len(), counts.last_insert_id);
        if counts.rows_affected != calls as u64 {
            return None;
        }
        match self.rowid_at {
            _ if !self.has_rowid => Some(vec![last; calls]),
            Some(at) => {
                let memory = Connection::open_in_memory().ok()?;
                let text = |call: &String| self.plain.rowid_of(call, at, &memory);
                self.calls.iter().map(text).collect()
            }
            // Each is one more than the largest rowid. The largest number of all has no next one:
            // nodes would choose at random, each another one.
            None => Some((last - calls as i64 + 1..=last).collect()),
        }
    }
}

impl Plain {
    /// A rowid that the caller gave, as SQLite takes it: a text or a real number that is an integer too.
    fn rowid_of(&self, call: &str, at: usize, memory: &Connection) -> Option<i64> {
        let parameters = format!("[{}", &call[self.head_bytes + 1..]);
        let parameters: Vec<Json> = serde_json::from_str(&parameters).ok()?;
        match parameters.get(at)? {
            Json::Number(number) if number.is_i64() => number.as_i64(),
            other => {
                let text = other.as_str().map_or_else(|| other.to_string(), str::to_owned);
                let sql = "SELECT CAST(CAST(?1 AS NUMERIC) AS INTEGER)";
                memory.query_row(sql, [text], |row| row.get(0)).ok()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plain(sql: &str, values: usize) -> Option<Plain> {
        Plain::of(sql, &vec![Value::Integer(1); values])
    }

    #[test]
    fn only_a_row_of_parameters_in_their_order_is_plain() {
        for (sql, values) in [
            ("INSERT INTO t VALUES (?)", 1),
            ("insert into \"T\"(a, [b]) values (?1, ?2);", 2),
            ("INSERT INTO t(a,b,c) VALUES(?,?2,?)", 3),
        ] {
            assert_eq!(plain(sql, values).unwrap().table, "t", "{sql}");
        }
        for (sql, values) in [
            ("INSERT OR IGNORE INTO t VALUES (?)", 1),
            ("REPLACE INTO t VALUES (?)", 1),
            ("INSERT INTO t VALUES (?), (?)", 2),
            ("INSERT INTO t VALUES (?2, ?1)", 2),
            ("INSERT INTO t VALUES (?, 1)", 1),
            ("INSERT INTO t VALUES (?) ON CONFLICT DO NOTHING", 1),
            ("INSERT INTO t(rowid) VALUES (?)", 1),
            ("INSERT INTO t SELECT ?", 1),
            ("INSERT INTO main.t VALUES (?)", 1),
            ("INSERT INTO t AS u VALUES (?)", 1),
            ("INSERT INTO t VALUES (:a)", 1),
            ("INSERT INTO t VALUES (?)", 2),
            ("UPDATE t SET a = ?", 1),
            ("", 0),
        ] {
            assert_eq!(plain(sql, values), None, "{sql}");
        }
    }

    #[test]
    fn calls_become_one_statement_and_each_has_its_rowid() {
        let insert = Plain::of(
            "INSERT INTO t(b, a) VALUES (?1, ?2)",
            &[Value::Null, Value::Text("7".to_owned())],
        )
        .unwrap();
        let call = |a: &str| format!("[\"INSERT INTO t(b, a) VALUES (?1, ?2)\",null,{a}]");
        let calls = vec![call("\"7\""), call("5.0"), call("-3")];
        let row = |create: &str| [serde_json::json!(["table", "t", create])];
        let mut tables = Tables::default();
        let mut told = |create: &str| {
            tables.known.insert("t".to_owned(), facts(&row(create)));
            let mut plan = Plan::default();
            let text = plan.add_run(&insert, calls.clone(), &tables);
            assert_eq!(
                text,
                "[\"INSERT INTO \\\"t\\\"(\\\"b\\\",\\\"a\\\") VALUES (?,?),(?,?),(?,?)\",null,\"7\",null,5.0,null,-3]"
            );
            assert_eq!(plan.guard().unwrap().1, ["t", create]);
            assert!(plan.counts(&[Counts { rows_affected: 2, last_insert_id: 9 }]).is_none());
            let counts = plan.counts(&[Counts { rows_affected: 3, last_insert_id: 9 }]).unwrap();
            counts.into_iter().map(|it| it.last_insert_id).collect::<Vec<_>>()
        };
        assert_eq!(told("CREATE TABLE t(a INTEGER PRIMARY KEY, b)"), [7, 5, -3]);
        assert_eq!(told("CREATE TABLE t(a, b INTEGER PRIMARY KEY)"), [7, 8, 9]);
        assert_eq!(told("CREATE TABLE t(a, b)"), [7, 8, 9]);
    }

    #[test]
    fn tables_whose_rows_depend_on_one_another_are_not_known() {
        let row = |kind: &str, sql: &str| serde_json::json!([kind, "t", sql]);
        let table = row("table", "CREATE TABLE t(a INTEGER PRIMARY KEY, b)");
        let known = facts(std::slice::from_ref(&table)).unwrap();
        assert_eq!(known.rowid_alias.as_deref(), Some("a"));
        let trigger = row("trigger", "CREATE TRIGGER i AFTER INSERT ON t BEGIN SELECT 1; END");
        assert!(facts(&[table, trigger]).is_none());
        assert!(facts(&[row("table", "CREATE TABLE t(a UNIQUE ON CONFLICT IGNORE)")]).is_none());
        assert!(facts(&[row("view", "CREATE VIEW t AS SELECT 1")]).is_none());
        assert!(facts(&[row("table", "CREATE TABLE t(a REFERENCES t(b))")]).is_none());
        assert!(facts(&[]).is_none());
    }
}
