//! The promises, what was found after a crash, and whether it keeps them.
//!
//! | promise | acknowledged transactions missing | content is that after the first k transactions | sound |
//! |---|---|---|---|
//! | [`Promise::AllAcknowledged`] | none | yes | yes |
//! | [`Promise::AtMostOneLost`] | at most one | yes | yes |
//! | [`Promise::Prefix`] | any of the last | yes | yes |
//! | [`Promise::Anything`] | any | no | no |
//!
//! *Sound* is what `PRAGMA integrity_check` says after SQLite recovered the
//! files by itself. Files that SQLite cannot open have lost everything.

use std::fmt;

use rusqlite::Connection;

use super::history::{Digest, History};

/// Promise about the transactions that may be missing after a crash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Promise {
    /// All that was acknowledged is there.
    AllAcknowledged,
    /// The last acknowledged transaction may be missing.
    AtMostOneLost,
    /// The last transactions may be missing, but none before a kept one.
    Prefix,
    /// Nothing is promised.
    Anything,
}

/// State of a database after a crash, once SQLite has opened it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Finding {
    /// The database is sound, with the content after this many transactions.
    State(usize),
    /// The database is sound, but never had this content.
    NotAPrefix,
    /// `integrity_check` or the reading of rows said this.
    Corrupt(String),
    /// The database cannot be opened.
    Unopened(String),
}

impl Finding {
    /// Looks at a database by a new connection, which recovers it; `open` makes
    /// the connection and `content` reads all that the history speaks of.
    ///
    /// # Errors
    /// None: all that goes wrong is a finding.
    pub fn of(
        history: &History,
        open: impl FnOnce() -> rusqlite::Result<Connection>,
        content: impl FnOnce(&Connection) -> rusqlite::Result<Digest>,
    ) -> Self {
        let connection = match open() {
            Ok(connection) => connection,
            Err(error) => return Self::Unopened(error.to_string()),
        };
        match integrity(&connection) {
            Ok(answer) if answer == "ok" => {}
            Ok(answer) => return Self::Corrupt(answer),
            Err(error) if is_damage(&error) => return Self::Corrupt(error.to_string()),
            Err(error) => return Self::Unopened(error.to_string()),
        }
        match content(&connection) {
            Ok(digest) => {
                history.transactions_in(digest.so_far()).map_or(Self::NotAPrefix, Self::State)
            }
            Err(error) => Self::Corrupt(error.to_string()),
        }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::State(kept) => write!(formatter, "the first {kept} transactions"),
            Self::NotAPrefix => write!(formatter, "a content that never was committed"),
            Self::Corrupt(message) => write!(formatter, "a corrupt database: {message}"),
            Self::Unopened(message) => {
                write!(formatter, "a database that fails to open: {message}")
            }
        }
    }
}

fn integrity(connection: &Connection) -> rusqlite::Result<String> {
    connection.query_row("PRAGMA integrity_check(1)", [], |row| row.get(0))
}

fn is_damage(error: &rusqlite::Error) -> bool {
    use rusqlite::ErrorCode::{DatabaseCorrupt, NotADatabase};
    matches!(error.sqlite_error_code(), Some(DatabaseCorrupt | NotADatabase))
}

/// Numbers of images, by what was wrong with them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Images opened.
    pub images: u64,
    /// Images that lack an acknowledged transaction.
    pub images_with_losses: u64,
    /// The most transactions that one of them lacked.
    pub lost_max: u64,
    /// Images with a content that the database never had.
    pub not_a_prefix: u64,
    /// Images that are corrupt.
    pub corrupt: u64,
    /// Images that SQLite could not open.
    pub unopened: u64,
}

impl Tally {
    /// Counts a finding, and says whether it keeps the promise; `acknowledged` are
    /// the numbers of transactions in the order of commits ([`History::number`]).
    pub fn count(&mut self, promise: Promise, finding: &Finding, acknowledged: &[usize]) -> bool {
        self.images += 1;
        let lost = match finding {
            Finding::State(kept) => {
                acknowledged.iter().filter(|number| *number > kept).count() as u64
            }
            Finding::NotAPrefix => {
                self.not_a_prefix += 1;
                return promise == Promise::Anything;
            }
            Finding::Corrupt(_) => {
                self.corrupt += 1;
                return promise == Promise::Anything;
            }
            Finding::Unopened(_) => {
                self.unopened += 1;
                return promise == Promise::Anything;
            }
        };
        self.images_with_losses += u64::from(lost > 0);
        self.lost_max = self.lost_max.max(lost);
        match promise {
            Promise::AllAcknowledged => lost == 0,
            Promise::AtMostOneLost => lost <= 1,
            Promise::Prefix | Promise::Anything => true,
        }
    }

    /// Adds another tally.
    pub fn add(&mut self, other: Self) {
        self.images += other.images;
        self.images_with_losses += other.images_with_losses;
        self.lost_max = self.lost_max.max(other.lost_max);
        self.not_a_prefix += other.not_a_prefix;
        self.corrupt += other.corrupt;
        self.unopened += other.unopened;
    }
}

#[cfg(test)]
mod tests {
    use super::super::log::Mark;
    use super::*;

    fn history(transactions: i64) -> History {
        let mut content = Digest::new();
        let mut history = History::new(&content);
        for number in 0..transactions {
            content.row(&[number.into()]);
            history.committed(Mark { caller: 1, number: number as u64 }, &content);
        }
        history
    }

    #[test]
    fn promises_are_kept_or_broken() {
        use Promise::{AllAcknowledged, Anything, AtMostOneLost, Prefix};
        let history = history(9);
        let acknowledged: Vec<_> =
            (0..5).map(|number| history.number(Mark { caller: 1, number })).collect();
        let corrupt = Finding::Corrupt("x".to_owned());
        let cases = [
            (Finding::State(9), vec![AllAcknowledged, AtMostOneLost, Prefix, Anything]),
            (Finding::State(5), vec![AllAcknowledged, AtMostOneLost, Prefix, Anything]),
            (Finding::State(4), vec![AtMostOneLost, Prefix, Anything]),
            (Finding::State(3), vec![Prefix, Anything]),
            (Finding::NotAPrefix, vec![Anything]),
            (corrupt, vec![Anything]),
            (Finding::Unopened("x".to_owned()), vec![Anything]),
        ];
        let mut tally = Tally::default();
        for (finding, kept) in &cases {
            for promise in [AllAcknowledged, AtMostOneLost, Prefix, Anything] {
                let is_kept = tally.count(promise, finding, &acknowledged);
                assert_eq!(is_kept, kept.contains(&promise), "{finding} and {promise:?}");
            }
        }
        let expected = Tally {
            images: 28,
            images_with_losses: 8,
            lost_max: 2,
            not_a_prefix: 4,
            corrupt: 4,
            unopened: 4,
        };
        assert_eq!(tally, expected);
    }

    #[test]
    fn a_database_is_found_in_the_state_in_which_it_is() {
        let history = history(3);
        let find = |sql: &'static str| {
            Finding::of(
                &history,
                || {
                    let connection = Connection::open_in_memory()?;
                    connection.execute_batch(sql)?;
                    Ok(connection)
                },
                |connection| {
                    let mut digest = Digest::new();
                    digest.query(connection, "SELECT a FROM t ORDER BY a")?;
                    Ok(digest)
                },
            )
        };
        assert_eq!(find("CREATE TABLE t(a)"), Finding::State(0));
        assert_eq!(find("CREATE TABLE t(a); INSERT INTO t VALUES(0), (1)"), Finding::State(2));
        assert_eq!(find("CREATE TABLE t(a); INSERT INTO t VALUES(1)"), Finding::NotAPrefix);
        assert_eq!(find("CREATE TABLE t(a); INSERT INTO t VALUES(0.0)"), Finding::NotAPrefix);
        assert!(matches!(find("CREATE TABLE u(a)"), Finding::Corrupt(_)));
        assert!(matches!(find("garbage"), Finding::Unopened(_)));
    }
}
