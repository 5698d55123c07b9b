//! Calls as plain data, how the Writer is asked for them, and random ones.

use std::panic::panic_any;

use leafpress::writer::{Batch, Ticket, Transaction, Writer};
use leafpress::{Error, ErrorKind};
use proptest::prelude::*;
use proptest::sample::select;
use rusqlite::types::Value;

/// The tables that calls are about: constraints of all kinds, and triggers
/// that end statements in each way.
const SCHEMA: &str = "
    CREATE TABLE a(id INTEGER PRIMARY KEY, u UNIQUE, n NOT NULL, c CHECK (c < 90));
    CREATE TABLE child(id INTEGER PRIMARY KEY,
        later REFERENCES a(id) DEFERRABLE INITIALLY DEFERRED, now REFERENCES a(id));
    CREATE TABLE w(k TEXT PRIMARY KEY, v) WITHOUT ROWID;
    CREATE TABLE half(u UNIQUE ON CONFLICT FAIL, v);
    CREATE TABLE gone(u UNIQUE ON CONFLICT ROLLBACK, v);
    CREATE TABLE log(what, id);
    CREATE TRIGGER ends AFTER INSERT ON a WHEN new.c > 80 BEGIN
        INSERT INTO log VALUES('trigger', new.id);
        SELECT RAISE(ROLLBACK, 'rolled back') WHERE new.c = 81;
        SELECT RAISE(FAIL, 'half way') WHERE new.c = 82;
        SELECT RAISE(ABORT, 'aborted') WHERE new.c = 83;
        SELECT RAISE(IGNORE) WHERE new.c = 84;
    END;";

/// The schema, or the same where nothing says FAIL: there the Writer trusts
/// single statements to be whole, and makes no savepoint for them.
pub fn schema(says_fail: bool) -> String {
    if says_fail { SCHEMA.to_owned() } else { SCHEMA.replace("FAIL", "ABORT") }
}

/// A statement with its parameters.
#[derive(Debug, Clone, PartialEq)]
pub struct Sql {
    pub text: String,
    pub values: Vec<Value>,
}

/// What a closure does, one after the other.
#[derive(Debug, Clone, PartialEq)]
pub enum Step {
    Execute(Sql),
    /// Reads all rows, which the closure returns.
    Query(Sql),
    InsertMany(&'static str, &'static [&'static str], Vec<Vec<Value>>),
}

/// How a closure ends.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum End {
    /// With the first error of a step, if there is one.
    Plain,
    /// Well, whatever became of its steps.
    Careless,
    /// It gives up.
    Aborts,
    Panics,
}

/// What a caller asks for.
#[derive(Debug, Clone, PartialEq)]
pub enum Ask {
    Execute(Sql),
    Batch(Vec<Sql>),
    /// A text of statements.
    Script(String),
    InsertMany(&'static str, &'static [&'static str], Vec<Vec<Value>>),
    Closure(Vec<Step>, End),
    /// What the Writer must not let through, and stock SQLite would.
    Refused(&'static str),
}

/// What came of it, in words that the Writer and the model share.
#[derive(Debug, Clone, PartialEq)]
pub enum Outcome {
    /// Rows changed, and the rowid that an INSERT gave.
    Executed(u64, Option<i64>),
    Done,
    Inserted(u64),
    Read(Vec<Vec<Value>>),
    Failed(String),
}

/// A ticket of any kind.
pub enum Waiting {
    Executed(Ticket<leafpress::writer::Executed>, bool),
    Done(Ticket<()>),
    Inserted(Ticket<u64>),
    Read(Ticket<Vec<Vec<Value>>>),
}

impl Waiting {
    pub fn wait(self) -> Outcome {
        let outcome = match self {
            Self::Executed(ticket, is_insert) => ticket.wait().map(|it| {
                let rowid = (is_insert && it.rows_changed > 0).then_some(it.last_insert_rowid);
                Outcome::Executed(it.rows_changed, rowid)
            }),
            Self::Done(ticket) => ticket.wait().map(|()| Outcome::Done),
            Self::Inserted(ticket) => ticket.wait().map(Outcome::Inserted),
            Self::Read(ticket) => ticket.wait().map(Outcome::Read),
        };
        outcome.unwrap_or_else(|error| Outcome::Failed(words(&error)))
    }
}

/// The error without what only one of the two can know.
pub fn words(error: &Error) -> String {
    match error.kind() {
        ErrorKind::Sqlite { source, .. } => sqlite_words(source),
        ErrorKind::Constraint { reason, row: Some(row), .. } => format!("row {row}: {reason}"),
        // SQLite's own error, code and all, is its source.
        ErrorKind::Constraint { .. } | ErrorKind::NotFound { .. } | ErrorKind::NoSpace { .. } => {
            let source = std::error::Error::source(error).expect("SQLite said it");
            sqlite_words(source.downcast_ref().expect("an error of SQLite"))
        }
        ErrorKind::Refused { .. } => "refused".to_owned(),
        ErrorKind::Panicked { message, .. } => format!("panicked: {message}"),
        ErrorKind::Aborted(reason) => format!("gave up: {reason}"),
        ErrorKind::Misuse(message) if message.contains("rolled") => "rolled back before".to_owned(),
        // SQLite has no word for it.
        ErrorKind::Misuse(message) if message.contains("holds no statement") => {
            "21: bad parameter or other API misuse".to_owned()
        }
        other => format!("{other:?}"),
    }
}

/// A deferred key is told of at another time, and in more words.
pub fn sqlite_words(error: &rusqlite::Error) -> String {
    let (code, text) = match error {
        rusqlite::Error::SqliteFailure(code, Some(message)) => {
            (code.extended_code, message.clone())
        }
        rusqlite::Error::SqlInputError { error, msg, .. } => (error.extended_code, msg.clone()),
        other => (0, other.to_string()),
    };
    let key = "FOREIGN KEY constraint failed";
    let text = if text.starts_with(key) { key } else { &text };
    format!("{code}: {text}")
}

impl Ask {
    pub fn is_insert(sql: &Sql) -> bool {
        sql.text.starts_with("INSERT") && !sql.text.contains(" w(")
    }

    /// Submits it.
    pub fn submit(&self, writer: &Writer) -> Waiting {
        let taken = "the writer takes calls";
        match self.clone() {
            Self::Execute(sql) => {
                let is_insert = Self::is_insert(&sql);
                Waiting::Executed(writer.submit(sql.text, sql.values).expect(taken), is_insert)
            }
            Self::Refused(sql) => Waiting::Executed(writer.submit(sql, ()).expect(taken), false),
            Self::Batch(statements) => {
                let batch = statements.into_iter().fold(Batch::new(), |batch, sql| {
                    batch.statement(sql.text, sql.values).expect("plain values")
                });
                Waiting::Done(writer.submit_batch(batch).expect(taken))
            }
            Self::Script(sql) => Waiting::Done(writer.submit_batch(sql).expect(taken)),
            Self::InsertMany(table, columns, rows) => {
                Waiting::Inserted(writer.submit_insert_many(table, columns, rows).expect(taken))
            }
            Self::Closure(steps, end) => {
                let body = move |tx: &Transaction<'_>| run(tx, &steps, end);
                Waiting::Read(writer.submit_transaction(body).expect(taken))
            }
        }
    }
}

fn run(tx: &Transaction<'_>, steps: &[Step], end: End) -> Result<Vec<Vec<Value>>, Error> {
    let mut read = Vec::new();
    for step in steps {
        if let Err(error) = take_step(tx, step, &mut read)
            && end == End::Plain
        {
            return Err(error);
        }
    }
    match end {
        End::Plain | End::Careless => Ok(read),
        End::Aborts => Err(Error::aborted("no")),
        End::Panics => panic_any("on purpose"),
    }
}

fn take_step(tx: &Transaction<'_>, step: &Step, read: &mut Vec<Vec<Value>>) -> Result<(), Error> {
    match step.clone() {
        Step::Execute(sql) => tx.execute(&sql.text, sql.values).map(drop),
        Step::Query(sql) => {
            let rows = tx.query_map(&sql.text, sql.values, |row| {
                (0..row.as_ref().column_count()).map(|column| row.get(column)).collect()
            })?;
            read.extend::<Vec<Vec<Value>>>(rows);
            Ok(())
        }
        Step::InsertMany(table, columns, rows) => tx.insert_many(table, columns, rows).map(drop),
    }
}

fn sql(text: impl Into<String>, values: Vec<Value>) -> Sql {
    Sql { text: text.into(), values }
}

/// Small, so that calls meet one another.
fn key() -> impl Strategy<Value = Value> {
    prop_oneof![12 => (0..40_i64).prop_map(Value::Integer), 1 => Just(Value::Null)]
}

fn verb() -> impl Strategy<Value = &'static str> {
    prop_oneof![
        6 => Just("INSERT"),
        1 => select(&[
            "INSERT OR ABORT", "INSERT OR FAIL", "INSERT OR IGNORE",
            "INSERT OR REPLACE", "INSERT OR ROLLBACK", "insert or fail",
        ][..]),
    ]
}

/// `c` ends statements from 81 on, in the trigger and then in the CHECK.
fn row_of_a() -> impl Strategy<Value = Vec<Value>> {
    let c = prop_oneof![20 => 0..80_i64, 1 => 80..95_i64].prop_map(Value::Integer);
    let n = prop_oneof![20 => Just(Value::Integer(1)), 1 => Just(Value::Null)];
    (key(), key(), n, c).prop_map(|(id, u, n, c)| vec![id, u, n, c])
}

fn rows_of_a() -> impl Strategy<Value = Vec<Vec<Value>>> {
    prop::collection::vec(row_of_a(), 1..4)
}

fn insert(verb: &str, into: &str, rows: &[Vec<Value>]) -> Sql {
    let row = format!("({})", vec!["?"; rows[0].len()].join(","));
    let text = format!("{verb} INTO {into} VALUES {}", vec![row; rows.len()].join(","));
    sql(text, rows.concat())
}

fn pairs() -> impl Strategy<Value = Vec<Vec<Value>>> {
    let pair = (key(), key()).prop_map(|(first, second)| vec![first, second]);
    prop::collection::vec(pair, 1..5)
}

/// One statement; with some of which more than one row is half done when it fails.
pub fn statement() -> impl Strategy<Value = Sql> {
    prop_oneof![
        8 => (verb(), rows_of_a()).prop_map(|(verb, rows)| insert(verb, "a(id, u, n, c)", &rows)),
        3 => (verb(), pairs()).prop_map(|(verb, rows)| insert(verb, "half(u, v)", &rows)),
        2 => (verb(), pairs()).prop_map(|(verb, rows)| insert(verb, "gone(u, v)", &rows)),
        3 => (verb(), pairs()).prop_map(|(verb, rows)| insert(verb, "child(later, now)", &rows)),
        2 => (key(), key()).prop_map(|(k, v)| sql(
            "INSERT INTO w(k, v) VALUES(?1, ?2) ON CONFLICT(k) DO UPDATE SET v = w.v || excluded.v",
            vec![k, v],
        )),
        3 => (key(), key()).prop_map(|(from, to)| sql(
            "UPDATE a SET u = u + ?1, id = id + 1 WHERE id >= ?2", vec![from, to])),
        2 => key().prop_map(|id| sql("DELETE FROM a WHERE id = ?", vec![id])),
        1 => key().prop_map(|id| sql("DELETE FROM child WHERE id < ?", vec![id])),
        1 => Just(sql("INSERT INTO log SELECT 'all', count(*) FROM a", vec![])),
        1 => Just(sql("INSERT INTO nowhere VALUES(1)", vec![])),
        1 => Just(sql("INSERT INTO log VALUES(?, ?)", vec![Value::Null])),
        1 => Just(sql("SELEKT 1", vec![])),
        1 => Just(sql("", vec![])),
    ]
}

/// Changes of the schema, which later calls of the same group meet.
fn schema_change() -> impl Strategy<Value = Sql> {
    select(
        &[
            "CREATE TABLE extra(u UNIQUE ON CONFLICT FAIL, v)",
            "DROP TABLE extra",
            "INSERT INTO extra VALUES(1, 1), (2, 2), (1, 3)",
            "INSERT INTO extra VALUES(3, 1), (4, 2)",
            "CREATE TRIGGER more AFTER INSERT ON log BEGIN SELECT RAISE(FAIL, 'more') WHERE new.id > 9; END",
            "DROP TRIGGER more",
            "INSERT INTO log VALUES('more', 8), ('more', 9), ('more', 10)",
            "CREATE UNIQUE INDEX one ON log(what, id)",
            "DROP INDEX one",
            "ALTER TABLE w ADD COLUMN extra",
            "ALTER TABLE w DROP COLUMN extra",
        ][..],
    )
    .prop_map(|text| sql(text, vec![]))
}

fn query() -> impl Strategy<Value = Sql> {
    prop_oneof![
        Just(sql("SELECT * FROM a ORDER BY id", vec![])),
        Just(sql("SELECT count(*), max(id) FROM log", vec![])),
        (key(), key()).prop_map(|(k, v)| sql(
            "INSERT INTO a(id, u, n, c) VALUES(?1, ?2, 1, 1), (NULL, NULL, 2, 2) RETURNING id, u, n",
            vec![k, v],
        )),
        key().prop_map(|id| sql("DELETE FROM a WHERE id > ? RETURNING id", vec![id])),
        Just(sql("UPDATE w SET v = v || 'x' RETURNING k, v", vec![])),
    ]
}

type ManyRows = (&'static str, &'static [&'static str], Vec<Vec<Value>>);

fn many_rows() -> impl Strategy<Value = ManyRows> {
    let large = prop::collection::vec((key(), 0..40_i64), 0..50);
    prop_oneof![
        prop::collection::vec(row_of_a(), 0..6).prop_map(|rows| (
            "a",
            &["id", "u", "n", "c"][..],
            rows
        )),
        large.prop_map(|pairs| {
            let row = |(k, at): (Value, i64)| vec![Value::Integer(at), k];
            let mut rows: Vec<Vec<Value>> = pairs.into_iter().map(row).collect();
            rows.dedup_by(|left, right| left[0] == right[0]);
            ("w", &["k", "v"][..], rows)
        }),
        pairs().prop_map(|rows| ("half", &["u", "v"][..], rows)),
        pairs().prop_map(|rows| ("gone", &["u", "v"][..], rows)),
        pairs().prop_map(|rows| ("child", &["later", "now"][..], rows)),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => statement().prop_map(Step::Execute),
        2 => query().prop_map(Step::Query),
        1 => many_rows().prop_map(|(table, columns, rows)| Step::InsertMany(table, columns, rows)),
    ]
}

const REFUSED: [&str; 15] = [
    "BEGIN",
    "BEGIN IMMEDIATE",
    "COMMIT",
    "end",
    "ROLLBACK",
    "SAVEPOINT leafpress_call",
    "RELEASE leafpress_call",
    "ROLLBACK TO leafpress_call",
    "ATTACH ':memory:' AS other",
    "PRAGMA synchronous = OFF",
    "PRAGMA foreign_keys = OFF",
    "PRAGMA journal_mode = DELETE",
    "PRAGMA wal_checkpoint(TRUNCATE)",
    "PRAGMA writable_schema = ON",
    "CREATE TEMP TABLE a(x)",
];

/// What any caller may come up with.
pub fn ask() -> impl Strategy<Value = Ask> {
    let defer = || sql("PRAGMA defer_foreign_keys = ON", vec![]);
    let end = prop_oneof![
        4 => Just(End::Plain), 2 => Just(End::Careless), 1 => Just(End::Aborts), 1 => Just(End::Panics)
    ];
    prop_oneof![
        10 => statement().prop_map(Ask::Execute),
        3 => schema_change().prop_map(Ask::Execute),
        4 => prop::collection::vec(statement(), 0..4).prop_map(Ask::Batch),
        2 => prop::collection::vec(statement(), 1..4).prop_map(move |mut statements| {
            statements.insert(0, defer());
            Ask::Batch(statements)
        }),
        1 => prop::collection::vec(schema_change(), 1..4).prop_map(|statements| {
            let texts: Vec<String> = statements.into_iter().map(|it| it.text).collect();
            Ask::Script(texts.join(";\n"))
        }),
        4 => (prop::collection::vec(step(), 0..5), end)
            .prop_map(|(steps, end)| Ask::Closure(steps, end)),
        4 => many_rows().prop_map(|(table, columns, rows)| Ask::InsertMany(table, columns, rows)),
        2 => select(&REFUSED[..]).prop_map(Ask::Refused),
    ]
}
