//! Counts of rows that outlive a lost answer, left in the row of the group by few statements.
//!
//! A statement after each call doubles the work of all nodes. A *run*, consecutive calls of one plain
//! `INSERT INTO t(…) VALUES (?, …)`, needs two: after its first call and after its last. Each call of it
//! changes one row, and its rowid is the value that the caller gave, or the next number. That holds for a
//! table without triggers and conflict clauses; its declaration is stored with the counts, and compared.
//!
//! Invariants:
//! 1. Between the two records of a run stand its calls alone.
//! 2. Counts of a run are given only if the table was declared as the writer knew it, in that transaction.
//!
//! Must never: give a count that is a guess.

use std::collections::HashMap;

use leafpress::rusqlite::Connection;
use leafpress::rusqlite::types::Value;
use leafpress::{SqlWord, sql_words};
use serde_json::Value as Json;

use crate::answer::Counts;
use crate::client::Client;
use crate::load::declared::Declared;

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
        Some(Self { sql: sql.to_owned(), table, columns, nulls })
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
        if let Ok(rows) = client.rows(SCHEMA, &[&plain.table]) {
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

/// What the rows of the schema say of a table without triggers and conflict clauses.
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
    let may_pass_over_rows =
        |word: &SqlWord<'_>| ["CONFLICT", "VIRTUAL"].iter().any(|it| word.is(it));
    if sql_words(&create).iter().any(may_pass_over_rows) {
        return None;
    }
    let declared = Declared::of_sql(name, &create, &indexes, false).ok()?;
    Some(Facts {
        sql: all.join("\n"),
        columns: declared.column_names(),
        rowid_alias: declared.rowid_alias.clone(),
        has_rowid: !declared.without_rowid,
    })
}

/// The records of one request, in their order.
#[derive(Default)]
pub struct Plan {
    entries: Vec<Entry>,
}

enum Entry {
    /// One call: the rows that it changed, and the last rowid.
    Each,
    /// A run: its INSERT, and the statement of each call in JSON.
    Run(Plain, Vec<String>),
}

/// SQL that adds to the counts of a group: what stands after `counts||`.
pub const EACH: &str = "changes()||' '||last_insert_rowid()||' '";
pub const OF_RUN: &str = "total_changes()||' '||last_insert_rowid()||' '";

impl Plan {
    /// Adds a call of an INSERT, to the last run or as the first of a new one.
    pub fn add_plain(&mut self, plain: &Plain, statement: &str, goes_on: bool) {
        match self.entries.last_mut() {
            Some(Entry::Run(_, calls)) if goes_on => calls.push(statement.to_owned()),
            _ => self.entries.push(Entry::Run(plain.clone(), vec![statement.to_owned()])),
        }
    }

    /// Adds a call that is recorded by itself.
    pub fn add_each(&mut self) {
        self.entries.push(Entry::Each);
    }

    /// Ends the last run; a run of one call is recorded as any call.
    pub fn end_run(&mut self) -> &'static str {
        match self.entries.last_mut() {
            Some(Entry::Run(_, calls)) if calls.len() > 1 => OF_RUN,
            Some(entry) => {
                *entry = Entry::Each;
                EACH
            }
            None => EACH,
        }
    }

    fn tables(&self) -> Vec<&Plain> {
        let mut tables: Vec<&Plain> = Vec::new();
        for entry in &self.entries {
            if let Entry::Run(plain, _) = entry
                && !tables.iter().any(|it| it.table == plain.table)
            {
                tables.push(plain);
            }
        }
        tables
    }

    /// SQL of all that declares the tables of the runs; `None` without runs.
    pub fn declarations(&self) -> Option<String> {
        let one = |plain: &&Plain| {
            let table = plain.table.replace('\'', "''");
            format!(
                "'|'||(SELECT group_concat(sql, char(10)) FROM (SELECT sql FROM sqlite_schema WHERE \
                 lower(tbl_name) = '{table}' AND sql IS NOT NULL ORDER BY name))"
            )
        };
        let tables: Vec<String> = self.tables().iter().map(one).collect();
        (!tables.is_empty()).then(|| tables.join("||"))
    }

    /// Counts of the recorded statements from the text that they left; `None` if they cannot be told.
    pub fn counts(&self, text: &str, tables: &Tables) -> Option<Vec<Counts>> {
        let (numbers, declarations) = text.split_once('|').unwrap_or((text, ""));
        let known: Option<Vec<&str>> =
            self.tables().iter().map(|it| Some(tables.facts(it)?.sql.as_str())).collect();
        let is_as_known = known.is_some_and(|known| known.join("|") == declarations);
        let mut numbers = numbers.split_whitespace().map(|it| it.parse::<i64>().ok());
        let mut next = || numbers.next().flatten();
        let mut all = Vec::new();
        for entry in &self.entries {
            let (first, first_rowid) = (next()?, next()?);
            let Entry::Run(plain, calls) = entry else {
                all.push(Counts {
                    rows_affected: first.unsigned_abs(),
                    last_insert_id: first_rowid,
                });
                continue;
            };
            let (last, last_rowid) = (next()?, next()?);
            // The first record has changed a row, too.
            if !is_as_known || last - first != i64::try_from(calls.len()).ok()? {
                return None;
            }
            let facts = tables.facts(plain)?;
            let rowids = rowids(plain, facts, calls, first_rowid, last_rowid)?;
            all.extend(
                rowids.into_iter().map(|it| Counts { rows_affected: 1, last_insert_id: it }),
            );
        }
        Some(all)
    }
}

/// The rowid of each call of a run.
fn rowids(
    plain: &Plain,
    facts: &Facts,
    calls: &[String],
    first: i64,
    last: i64,
) -> Option<Vec<i64>> {
    if !facts.has_rowid {
        return Some(vec![last; calls.len()]);
    }
    let given = facts.rowid_alias.as_ref().and_then(|alias| {
        let columns = plain.columns.as_ref().unwrap_or(&facts.columns);
        let at = columns.iter().position(|it| it.eq_ignore_ascii_case(alias))?;
        (plain.nulls & 1 << at == 0).then_some(at)
    });
    match given {
        Some(at) => {
            let memory = Connection::open_in_memory().ok()?;
            calls.iter().map(|call| given_rowid(&memory, call, at)).collect()
        }
        // Each is one more than the largest rowid, unless that is the largest number of all.
        None if last - first == calls.len() as i64 - 1 => Some((first..=last).collect()),
        None => None,
    }
}

/// A rowid that the caller gave, as SQLite takes it: a text or a real number that is an integer too.
fn given_rowid(memory: &Connection, call: &str, at: usize) -> Option<i64> {
    let call: Json = serde_json::from_str(call).ok()?;
    match call.get(at + 1)? {
        Json::Number(number) if number.is_i64() => number.as_i64(),
        other => {
            let text = other.as_str().map_or_else(|| other.to_string(), str::to_owned);
            let sql = "SELECT CAST(CAST(?1 AS NUMERIC) AS INTEGER)";
            memory.query_row(sql, [text], |row| row.get(0)).ok()
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
    fn tables_whose_rows_may_be_passed_over_are_not_known() {
        let row = |kind: &str, sql: &str| serde_json::json!([kind, "t", sql]);
        let table = row("table", "CREATE TABLE t(a INTEGER PRIMARY KEY, b)");
        let known = facts(std::slice::from_ref(&table)).unwrap();
        assert_eq!(known.rowid_alias.as_deref(), Some("a"));
        let trigger = row("trigger", "CREATE TRIGGER i AFTER INSERT ON t BEGIN SELECT 1; END");
        assert!(facts(&[table, trigger]).is_none());
        assert!(facts(&[row("table", "CREATE TABLE t(a UNIQUE ON CONFLICT IGNORE)")]).is_none());
        assert!(facts(&[row("view", "CREATE VIEW t AS SELECT 1")]).is_none());
        assert!(facts(&[]).is_none());
    }
}
