//! Transactions as lists of steps, which run alike on any connection.
//!
//! Each script runs on the database under test and on a *shadow*, a database
//! in memory: what the shadow holds before and after it are the only two contents
//! that the database may have, however the transaction ended.
//!
//! | table | for |
//! |---|---|
//! | `one` | rows of one size, no index: a change of one is a change of one page |
//! | `t` | rows of any size, with an index: several pages |
//!
//! Each script that commits writes its turn's number into a row of `one`, so that
//! no content comes twice.

use rusqlite::{Connection, params};

use super::history::Digest;
use super::random::Random;

/// Rows of `one`.
const ROWS: usize = 30;
/// Rows of `t` beyond which none are made.
const ROWS_MAX: i64 = 12;
/// Turns count from here on, so that all take as many bytes.
const TURN_FIRST: u64 = 1_000_000;

/// The databases of a connection.
const SCHEMAS: [&str; 2] = ["main", "other"];

/// One step of a transaction.
#[derive(Clone, Debug)]
pub(super) enum Step {
    /// Another content for a row of `one`, of the same size.
    One { schema: &'static str, turn: u64, id: usize, value: Vec<u8> },
    /// Page 1 alone: `PRAGMA user_version`.
    First { schema: &'static str, turn: u64 },
    /// A row of `t`, if there is room.
    Insert { schema: &'static str, key: i64, value: Vec<u8> },
    /// Another content for a row of `t`.
    Change { schema: &'static str, nth: i64, key: i64, value: Vec<u8> },
    /// Deletes some rows of `t`.
    Delete { schema: &'static str, key: i64 },
    /// Everything is read, by a cache that holds next to nothing.
    Spill,
    /// `SAVEPOINT`.
    Save,
    /// `ROLLBACK TO` and `RELEASE` of the last savepoint.
    Undo,
}

/// Tables that a script may change.
#[derive(Clone, Copy, Debug)]
pub(super) struct Tables {
    /// Number of databases that have them.
    pub databases: usize,
    /// Bytes of each row of `one`.
    pub row_bytes: usize,
}

/// Intended end of a script.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    Commit,
    Rollback,
}

/// A whole transaction.
#[derive(Clone, Debug)]
pub(super) struct Script {
    pub steps: Vec<Step>,
    pub end: End,
}

/// Kind of a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A row of one page, in one database.
    OnePage,
    /// Page 1, which also holds the change counter.
    FirstPage,
    /// One page, spilled before the end, and perhaps others after it.
    OnePageSpilled,
    /// Several pages, in any of the databases.
    Many,
    /// A large transaction, spilled before its end.
    ManySpilled,
    /// Parts of it are taken back before the end.
    Savepoints,
}

impl Script {
    /// A transaction of that kind and that turn.
    pub fn draw(kind: Kind, end: End, turn: u64, tables: Tables, random: &mut Random) -> Self {
        let one = |random: &mut Random| one(tables, turn, random);
        let any = |random: &mut Random| any(tables, turn, random);
        let schema = random.choose(&SCHEMAS[..tables.databases]);
        let mut steps = match kind {
            Kind::FirstPage => vec![Step::First { schema, turn }],
            _ => vec![one(random)],
        };
        match kind {
            Kind::OnePage | Kind::FirstPage => {}
            Kind::OnePageSpilled => {
                steps.push(Step::Spill);
                (0..random.below(3)).for_each(|_| steps.push(one(random)));
            }
            Kind::Many | Kind::ManySpilled => {
                for _ in 0..=random.below(6) {
                    steps.push(any(random));
                    if kind == Kind::ManySpilled && random.percent(50) {
                        steps.push(Step::Spill);
                    }
                }
            }
            Kind::Savepoints => {
                steps.push(Step::Save);
                for _ in 0..random.below(3) {
                    steps.push(any(random));
                }
                if random.percent(20) {
                    steps.push(Step::Spill);
                }
                steps.push(Step::Undo);
                if random.percent(30) {
                    steps.push(one(random));
                }
            }
        }
        Self { steps, end }
    }

    /// Begins it and takes all steps but the end.
    pub fn begin(&self, connection: &Connection) -> rusqlite::Result<()> {
        connection.execute_batch("BEGIN IMMEDIATE")?;
        self.steps.iter().try_for_each(|step| step.take(connection))
    }

    /// The whole of it. After an error nothing of it is open any more, and the
    /// content is that before or that after.
    pub fn run(&self, connection: &Connection) -> rusqlite::Result<()> {
        let outcome = self.begin(connection).and_then(|()| {
            connection.execute_batch(match self.end {
                End::Commit => "COMMIT",
                End::Rollback => "ROLLBACK",
            })
        });
        if outcome.is_err() && !connection.is_autocommit() {
            // Of a dead process this fails too.
            let _ = connection.execute_batch("ROLLBACK");
        }
        let _ = connection.execute_batch("PRAGMA cache_size = 200");
        outcome
    }
}

fn one(tables: Tables, turn: u64, random: &mut Random) -> Step {
    let Tables { databases, row_bytes } = tables;
    let is_sparse = random.percent(50);
    Step::One {
        schema: random.choose(&SCHEMAS[..databases]),
        turn,
        id: 1 + random.below(ROWS),
        value: if is_sparse { sparse(row_bytes, random) } else { bytes(row_bytes, random) },
    }
}

fn any(tables: Tables, turn: u64, random: &mut Random) -> Step {
    let schema = random.choose(&SCHEMAS[..tables.databases]);
    let length = random.choose(&[10, 60, 200, 700, 1800]);
    let key = random.below(1000) as i64;
    match random.below(6) {
        0 | 1 => one(tables, turn, random),
        2 | 3 => Step::Insert { schema, key, value: bytes(length, random) },
        4 => {
            let nth = random.below(ROWS_MAX as usize) as i64;
            Step::Change { schema, nth, key, value: bytes(length, random) }
        }
        _ => Step::Delete { schema, key },
    }
}

impl Step {
    fn take(&self, connection: &Connection) -> rusqlite::Result<()> {
        match self {
            Self::One { schema, turn, id, value } => {
                let sql = format!("UPDATE {schema}.one SET turn = ?, v = ? WHERE id = ?");
                let turn = (TURN_FIRST + turn) as i64;
                let changed = connection.execute(&sql, params![turn, value, *id as i64])?;
                debug_assert_eq!(changed, 1);
            }
            Self::First { schema, turn } => {
                let sql = format!("PRAGMA {schema}.user_version = {}", TURN_FIRST + turn);
                connection.execute_batch(&sql)?;
            }
            Self::Insert { schema, key, value } => {
                let sql = format!(
                    "INSERT INTO {schema}.t (k, v) SELECT ?, ?
                     WHERE (SELECT count(*) FROM {schema}.t) < {ROWS_MAX}"
                );
                connection.execute(&sql, params![key, value])?;
            }
            Self::Change { schema, nth, key, value } => {
                let sql = format!(
                    "UPDATE {schema}.t SET k = ?, v = ?
                     WHERE id = (SELECT id FROM {schema}.t ORDER BY id LIMIT 1 OFFSET ?)"
                );
                connection.execute(&sql, params![key, value, nth])?;
            }
            Self::Delete { schema, key } => {
                let sql = format!("DELETE FROM {schema}.t WHERE k BETWEEN ?1 AND ?1 + 250");
                connection.execute(&sql, params![key])?;
            }
            Self::Spill => {
                connection.execute_batch("PRAGMA cache_size = 1")?;
                content_of(connection, &mut Digest::new())?;
            }
            Self::Save => connection.execute_batch("SAVEPOINT s")?,
            Self::Undo => connection.execute_batch("ROLLBACK TO s; RELEASE s")?,
        }
        Ok(())
    }
}

fn bytes(length: usize, random: &mut Random) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(length + 8);
    while bytes.len() < length {
        bytes.extend_from_slice(&random.number().to_le_bytes());
    }
    bytes.truncate(length);
    bytes
}

/// Zeros with a few other bytes: a journal's checksum looks at each 200th byte only,
/// so that of such a page it does not notice what a power cut has left out.
fn sparse(length: usize, random: &mut Random) -> Vec<u8> {
    let mut value = vec![0; length];
    for _ in 0..4 {
        value[random.below(length)] = random.number() as u8;
    }
    value
}

/// Makes the tables of both kinds and their first rows, the same everywhere.
pub(super) fn create(
    connection: &Connection,
    schema: &str,
    row_bytes: usize,
) -> rusqlite::Result<()> {
    connection.execute_batch(&format!(
        "CREATE TABLE {schema}.one (id INTEGER PRIMARY KEY, turn INTEGER NOT NULL, v BLOB NOT NULL);
         CREATE TABLE {schema}.t (id INTEGER PRIMARY KEY, k INTEGER NOT NULL, v BLOB NOT NULL);
         CREATE INDEX {schema}.t_k ON t (k);
         WITH RECURSIVE n(i) AS (VALUES (1) UNION ALL SELECT i + 1 FROM n WHERE i < {ROWS})
         INSERT INTO {schema}.one SELECT i, {TURN_FIRST}, zeroblob({row_bytes}) FROM n;
         INSERT INTO {schema}.t (k, v) VALUES (1, zeroblob(900)), (500, zeroblob(90));"
    ))
}

fn is_attached(connection: &Connection) -> rusqlite::Result<bool> {
    let sql = "SELECT count(*) FROM pragma_database_list WHERE name = 'other'";
    connection.query_row(sql, [], |row| row.get::<_, bool>(0))
}

fn content_of(connection: &Connection, digest: &mut Digest) -> rusqlite::Result<()> {
    let databases = 1 + usize::from(is_attached(connection)?);
    SCHEMAS[..databases].iter().try_for_each(|schema| {
        digest.query(connection, &format!("PRAGMA {schema}.user_version"))?;
        digest.query(connection, &format!("SELECT id, turn, v FROM {schema}.one ORDER BY id"))?;
        digest.query(connection, &format!("SELECT id, k, v FROM {schema}.t ORDER BY id"))
    })
}

/// Content of the database, or of both databases.
///
/// # Errors
/// As SQLite says.
pub(super) fn content(connection: &Connection) -> rusqlite::Result<Digest> {
    let mut digest = Digest::new();
    content_of(connection, &mut digest)?;
    Ok(digest)
}

/// Content of both databases, by a connection to the first; attaches the second.
///
/// # Errors
/// As SQLite says.
pub(super) fn content_of_two(connection: &Connection) -> rusqlite::Result<Digest> {
    if !is_attached(connection)? {
        connection.execute_batch("ATTACH 'b.db' AS other")?;
    }
    let answer: String =
        connection.query_row("PRAGMA other.integrity_check(1)", [], |row| row.get(0))?;
    let mut digest = content(connection)?;
    if answer != "ok" {
        // No state that there was.
        digest.row(&[answer.into()]);
    }
    Ok(digest)
}
