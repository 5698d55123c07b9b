//! The judge: what is in the database after the load, by a process with one SQLite.
//!
//! Must never: be asked while a child runs.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::Path;

use rusqlite::Connection;

/// The judge's findings.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Verdict {
    /// Transactions that are there.
    pub transactions: usize,
    /// Acknowledged transactions of which nothing is there.
    pub lost: usize,
    /// Transactions with rows that are there more than once.
    pub doubled: usize,
    /// Transactions of which a part is there.
    pub torn: usize,
    /// The answer of `integrity_check`, or SQLite's error, if it is not "ok".
    pub damage: Option<String>,
}

impl Verdict {
    /// All the rules hold.
    pub fn is_kept(&self) -> bool {
        let Self { transactions: _, lost, doubled, torn, damage } = self;
        (*lost, *doubled, *torn, damage) == (0, 0, 0, &None)
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { transactions, lost, doubled, torn, damage } = self;
        let integrity = damage.as_deref().unwrap_or("ok").replace('\n', "; ");
        write!(
            f,
            "{transactions} transactions there, {lost} lost, {doubled} double, {torn} in part, \
             integrity_check {integrity:.100}"
        )
    }
}

/// Looks at a database that only this process has open.
pub fn judge(path: &Path, acknowledged: &BTreeSet<i64>) -> Verdict {
    match rows(path) {
        Ok((integrity, rows)) => {
            let mut verdict = Verdict {
                transactions: rows.len(),
                lost: acknowledged.iter().filter(|id| !rows.contains_key(id)).count(),
                damage: Some(integrity).filter(|integrity| integrity != "ok"),
                ..Verdict::default()
            };
            for (count, distinct, parts) in rows.values() {
                verdict.doubled += usize::from(count > distinct);
                verdict.torn += usize::from(distinct < parts);
            }
            verdict
        }
        Err(error) => Verdict {
            lost: acknowledged.len(),
            damage: Some(error.to_string()),
            ..Verdict::default()
        },
    }
}

type Rows = BTreeMap<i64, (i64, i64, i64)>;

/// Of each transaction: rows, different rows, and how many there should be.
fn rows(path: &Path) -> rusqlite::Result<(String, Rows)> {
    let connection = Connection::open(path)?;
    let integrity = connection.query_row("PRAGMA integrity_check", [], |row| row.get(0))?;
    let sql =
        "SELECT id, count(*), count(DISTINCT part), max(parts) FROM entry NOT INDEXED GROUP BY id";
    let mut statement = connection.prepare(sql)?;
    let rows = statement
        .query_map([], |row| Ok((row.get(0)?, (row.get(1)?, row.get(2)?, row.get(3)?))))?;
    Ok((integrity, rows.collect::<rusqlite::Result<_>>()?))
}
