//! The model of the Writer: stock SQLite runs the calls one by one, on one connection,
//! each in a transaction of its own.

use rusqlite::types::Value;
use rusqlite::{Connection, params_from_iter};

use super::calls::{Ask, End, Outcome, Sql, Step, schema, sqlite_words};

pub struct Model {
    pub connection: Connection,
}

/// What a call came to, if it failed.
type Failed = String;

impl Model {
    pub fn new(says_fail: bool) -> Self {
        let connection = Connection::open_in_memory().expect("a database in memory");
        connection.execute_batch("PRAGMA foreign_keys = ON").expect("a setting");
        connection.execute_batch(&schema(says_fail)).expect("the schema");
        Self { connection }
    }

    pub fn carry_out(&self, ask: &Ask) -> Outcome {
        if let Ask::Refused(_) = ask {
            return Outcome::Failed("refused".to_owned());
        }
        self.connection.execute_batch("BEGIN IMMEDIATE").expect("no other connection is there");
        let outcome = self.within(ask).and_then(|outcome| {
            if self.connection.is_autocommit() {
                return Err("rolled back before".to_owned());
            }
            self.connection.execute_batch("COMMIT").map_err(|error| sqlite_words(&error))?;
            Ok(outcome)
        });
        if !self.connection.is_autocommit() {
            self.connection.execute_batch("ROLLBACK").expect("a transaction is open");
        }
        outcome.unwrap_or_else(Outcome::Failed)
    }

    fn within(&self, ask: &Ask) -> Result<Outcome, Failed> {
        match ask {
            Ask::Execute(sql) => {
                let changed = self.execute(sql)?;
                let rowid = (Ask::is_insert(sql) && changed > 0)
                    .then(|| self.connection.last_insert_rowid());
                Ok(Outcome::Executed(changed, rowid))
            }
            Ask::Batch(statements) => {
                for sql in statements {
                    self.execute(sql)?;
                }
                Ok(Outcome::Done)
            }
            Ask::Script(sql) => {
                self.connection.execute_batch(sql).map_err(|error| sqlite_words(&error))?;
                Ok(Outcome::Done)
            }
            Ask::InsertMany(table, columns, rows) => {
                self.insert_many(table, columns, rows).map(Outcome::Inserted)
            }
            Ask::Closure(steps, end) => self.closure(steps, *end),
            Ask::Refused(_) => Err("refused".to_owned()),
        }
    }

    fn execute(&self, sql: &Sql) -> Result<u64, Failed> {
        let before = self.connection.total_changes();
        self.query(sql)?;
        let is_changed = self.connection.total_changes() != before;
        Ok(if is_changed { self.connection.changes() } else { 0 })
    }

    fn query(&self, sql: &Sql) -> Result<Vec<Vec<Value>>, Failed> {
        let run = || -> rusqlite::Result<Vec<Vec<Value>>> {
            let mut statement = self.connection.prepare(&sql.text)?;
            let columns = statement.column_count();
            let row = |row: &rusqlite::Row<'_>| (0..columns).map(|at| row.get(at)).collect();
            statement.query_map(params_from_iter(&sql.values), row)?.collect()
        };
        run().map_err(|error| sqlite_words(&error))
    }

    fn insert_many(
        &self,
        table: &str,
        columns: &[&str],
        rows: &[Vec<Value>],
    ) -> Result<u64, Failed> {
        let names = columns.join(",");
        let marks = vec!["?"; columns.len()].join(",");
        let sql = format!("INSERT INTO {table}({names}) VALUES({marks})");
        self.connection.execute_batch("SAVEPOINT rows").expect("a transaction is open");
        let mut statement = self.connection.prepare(&sql).expect("the tables are there");
        let mut inserted = 0;
        for (row, number) in rows.iter().zip(1..) {
            match statement.execute(params_from_iter(row)) {
                Ok(rows) => inserted += rows as u64,
                Err(error) => {
                    if !self.connection.is_autocommit() {
                        let undo = "ROLLBACK TO rows; RELEASE rows";
                        self.connection.execute_batch(undo).expect("the savepoint is there");
                    }
                    let words = sqlite_words(&error);
                    let (_, reason) = words.split_once(": ").expect("a code before it");
                    return Err(format!("row {number}: {reason}"));
                }
            }
        }
        self.connection.execute_batch("RELEASE rows").expect("the savepoint is there");
        Ok(inserted)
    }

    fn closure(&self, steps: &[Step], end: End) -> Result<Outcome, Failed> {
        let mut read = Vec::new();
        for step in steps {
            // The transaction is gone, and nothing may be done without it.
            if self.connection.is_autocommit() {
                break;
            }
            let outcome = match step {
                Step::Execute(sql) => self.execute(sql).map(drop),
                Step::Query(sql) => self.query(sql).map(|rows| read.extend(rows)),
                Step::InsertMany(table, columns, rows) => {
                    self.insert_many(table, columns, rows).map(drop)
                }
            };
            if end == End::Plain {
                outcome?;
            }
        }
        match end {
            End::Plain | End::Careless => Ok(Outcome::Read(read)),
            End::Aborts => Err("gave up: no".to_owned()),
            End::Panics => Err("panicked: on purpose".to_owned()),
        }
    }
}

/// All that a database holds, with the types of its values.
pub fn content(connection: &Connection) -> Vec<String> {
    let rows = |sql: &str| {
        let mut statement = connection.prepare(sql).expect("a query");
        let columns = statement.column_count();
        let row = |row: &rusqlite::Row<'_>| {
            (0..columns).map(|at| row.get::<_, Value>(at)).collect::<rusqlite::Result<Vec<_>>>()
        };
        let rows = statement.query_map([], row).expect("rows");
        rows.map(|row| format!("{:?}", row.expect("a row"))).collect::<Vec<_>>()
    };
    let mut content = rows("SELECT type, name, sql FROM sqlite_schema ORDER BY name");
    let tables = "SELECT name FROM sqlite_schema WHERE type = 'table' ORDER BY name";
    let mut statement = connection.prepare(tables).expect("a query");
    let names = statement.query_map([], |row| row.get::<_, String>(0)).expect("names");
    for name in names {
        let name = name.expect("a name");
        content.push(name.clone());
        let rowid = if name == "w" { "" } else { "rowid, " };
        let order = if name == "w" { "k" } else { "rowid" };
        content.extend(rows(&format!("SELECT {rowid}* FROM {name} ORDER BY {order}")));
    }
    content
}
