//! The judge of the rows: none lost, none twice.
//!
//! Must never: write to the database, or leave it open while processes are killed.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::{Connection, OpenFlags};

/// The database, and the rows that were in it at the last look.
pub struct Judge {
    pub path: PathBuf,
    seen: BTreeSet<i64>,
    last_rowid: i64,
}

/// Faults that a look has found.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Verdict {
    pub lost: Vec<i64>,
    pub twice: Vec<i64>,
    /// Lines of `PRAGMA integrity_check`.
    pub broken: Vec<String>,
}

impl Judge {
    /// Makes the database. Neither the key nor an index would refuse a row that is written twice.
    pub fn new(folder: &Path) -> Self {
        let path = folder.join("a.db");
        let connection = Connection::open(&path).unwrap();
        connection.execute_batch("PRAGMA journal_mode = WAL; CREATE TABLE row(id)").unwrap();
        Self { path, seen: BTreeSet::new(), last_rowid: 0 }
    }

    /// Looks at the rows that are new, and for those that were acknowledged.
    pub fn look(&mut self, acknowledged: &[i64]) -> Verdict {
        let connection = self.open();
        let mut verdict = Verdict { broken: integrity(&connection), ..Verdict::default() };
        let mut statement =
            connection.prepare("SELECT rowid, id FROM row WHERE rowid > ?1 ORDER BY 1").unwrap();
        let mut found = statement.query([self.last_rowid]).unwrap();
        while let Some(row) = found.next().unwrap() {
            let id = row.get_unwrap(1);
            self.last_rowid = row.get_unwrap(0);
            if !self.seen.insert(id) {
                verdict.twice.push(id);
            }
        }
        verdict.lost = acknowledged.iter().copied().filter(|id| !self.seen.contains(id)).collect();
        verdict
    }

    /// Looks at all rows again: those of the first look are still there.
    pub fn look_again(self, acknowledged: &[i64]) -> Verdict {
        let mut anew = Self { path: self.path.clone(), seen: BTreeSet::new(), last_rowid: 0 };
        let mut verdict = anew.look(acknowledged);
        verdict.lost.extend(self.seen.difference(&anew.seen));
        verdict
    }

    fn open(&self) -> Connection {
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection = Connection::open_with_flags(&self.path, flags).unwrap();
        connection.busy_timeout(Duration::from_secs(60)).unwrap();
        connection
    }
}

fn integrity(connection: &Connection) -> Vec<String> {
    let mut statement = connection.prepare("PRAGMA integrity_check").unwrap();
    let lines = statement.query_map([], |row| row.get::<_, String>(0)).unwrap();
    lines.map(Result::unwrap).filter(|line| line != "ok").collect()
}
