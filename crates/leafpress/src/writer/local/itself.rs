//! One statement that commits itself.
//!
//! Where a range is one call of one statement, BEGIN and COMMIT would be two statements more, beside a
//! small INSERT a third of all instructions. SQLite begins and commits a statement outside of a
//! transaction by itself, with the same locks, waits and writes. So it is left to that:
//!
//! | may happen | what keeps the promises |
//! |---|---|
//! | The commit fails | The commit hook says that it had begun: then it is handled as a failed COMMIT. Before, the statement has failed, and SQLite has undone it. |
//! | The statement fails half way, by OR FAIL | SQLite would commit the half. No statement with the word runs here, and none while the schema may say it. |
//! | Another process makes such a trigger | SQLite compiles the statement again under the new schema. The guard sees it and refuses the commit; nothing is left, and the statement is run in a transaction. |
//! | The statement works only outside of a transaction, as VACUUM | Only those run here that have succeeded in one. |
//! | An interrupt | It ends where the commit begins, as it does before COMMIT. |
//!
//! Must never: run while another part of this crate, or of another process, has to be told of the
//! transaction.

use std::ops::Range;
use std::sync::atomic::Ordering;

use rusqlite::ErrorCode;

use super::run::NOTHING;
use super::{LocalTarget, RangeEnd};
use crate::writer::call::{Answer, Call};
use crate::writer::guard::StatementCommit;
use crate::writer::place;
use crate::writer::refused::refused;
use crate::writer::request::Executed;
use crate::writer::statement::LastStatement;
use crate::writer::target::Group;

/// Number of ranges that are begun and committed by the writer after a commit was refused: some
/// statements are compiled again whenever their values change.
const RANGES_BEGUN: u32 = 64;

impl LocalTarget {
    /// Commits a range of one statement without BEGIN and COMMIT. `None` if it needs them; nothing
    /// was done then.
    pub(super) fn commit_itself(
        &mut self,
        group: &mut Group<'_>,
        range: &Range<usize>,
    ) -> Option<RangeEnd> {
        if range.len() != 1 || group.has_failed(range.start) {
            return None;
        }
        if self.take_range_begun() || !self.lets_commit() {
            return None;
        }
        let index = range.start;
        let (number, limit) = (group.number(index), group.call_limit(index));
        let Call::Execute(statement) = group.call(index) else { return None };
        let mut last = LastStatement::new(&self.connection, &self.known);
        last.select(&statement.sql);
        if !last.is_atomic() || !last.find_compiled() {
            return None;
        }
        let refused = self.refuse_beside_another_copy();
        if let Err(error) = refused.and_then(|()| self.interrupts.begin(number, limit)) {
            drop(last);
            group.answer(index, Err(error));
            return Some(RangeEnd::Answered);
        }
        self.busy.restart();
        let run = || self.interrupts.run(|| last.execute(&statement.parameters));
        let (outcome, commit) = self.guard.committing_itself(run);
        self.interrupts.end();
        drop(last);
        if commit == StatementCommit::Refused {
            self.ranges_begun = RANGES_BEGUN;
            return None;
        }
        Some(self.end_itself(group, range, outcome, commit))
    }

    /// Counts a range that the writer begins and commits; returns false if none is left.
    fn take_range_begun(&mut self) -> bool {
        let is_left = self.ranges_begun > 0;
        self.ranges_begun -= u32::from(is_left);
        is_left
    }

    /// Returns true if no part of this crate or of another process has to be told of transactions,
    /// and no schema that is known has a word that leaves half of a statement.
    fn lets_commit(&mut self) -> bool {
        let used = self.counts.wal_bytes.load(Ordering::Relaxed);
        self.busy.sharing().is_none()
            && self.hooks.get().is_none()
            && self.schema_version.is_some()
            && !self.schema_may_fail
            && !self.guard.has_changed_schema()
            && self.log_room.as_mut().is_none_or(|room| room.suffices(used))
    }

    /// Answers the call, after SQLite has committed the statement or undone it.
    fn end_itself(
        &mut self,
        group: &mut Group<'_>,
        range: &Range<usize>,
        outcome: rusqlite::Result<Executed>,
        commit: StatementCommit,
    ) -> RangeEnd {
        if let StatementCommit::Begun(since) = commit {
            let took_ns = since.elapsed().as_nanos() as u64;
            self.counts.commit_ns.fetch_add(took_ns, Ordering::Relaxed);
        }
        let error = match (outcome, commit) {
            (Ok(executed), _) => {
                group.answer(range.start, Ok(Answer::Executed(executed)));
                return self.committed(group, range);
            }
            (Err(source), StatementCommit::Begun(_)) => {
                return self.not_committed(group, range, source, true);
            }
            (Err(source), _) => match (self.interrupts.stopped(), source.sqlite_error_code()) {
                (Some(error), _) => error,
                (None, Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked)) => {
                    self.not_begun(source)
                }
                (None, _) => refused(&self.guard, source).on_disk(NOTHING),
            },
        };
        self.has_moved |= place::is_moved(&error);
        group.answer(range.start, Err(self.naming_the_disk(error)));
        RangeEnd::Answered
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use rusqlite::{Connection, StatementStatus};

    use super::*;
    use crate::profile::{self, Profile, ProfileRequest};
    use crate::writer::busy::BusyClock;
    use crate::writer::interrupt::Interrupts;
    use crate::writer::place::DatabasePlace;
    use crate::writer::request::{Parameters, Statement};
    use crate::writer::target::CommitTarget as _;
    use crate::writer::transaction_hooks::TransactionHooksPlace;

    fn target(folder: &tempfile::TempDir) -> LocalTarget {
        let path = folder.path().join("a.db");
        let request = ProfileRequest::new(Profile::Rollback);
        let (connection, in_force) = profile::open(&path, &request).unwrap();
        connection.execute_batch("CREATE TABLE t (n)").unwrap();
        let interrupts = Arc::<Interrupts>::default();
        let busy = BusyClock::new(Duration::ZERO, Arc::clone(&interrupts), None);
        let place = DatabasePlace::of(&connection, &path, &request).unwrap();
        let hooks = TransactionHooksPlace::default();
        LocalTarget::new(connection, busy, None, &in_force, hooks, interrupts, place).unwrap()
    }

    /// Commits a group of each of these statements alone. Returns the number of those that succeeded.
    fn commit(target: &mut LocalTarget, statements: &[&str]) -> usize {
        let succeeds = |sql: &&&str| {
            let (sql, parameters) = ((**sql).into(), Parameters::Positional(Vec::new()));
            let mut group = Group::new([Call::Execute(Statement { sql, parameters })]);
            target.commit(&mut group).unwrap();
            !group.has_failed(0)
        };
        statements.iter().filter(succeeds).count()
    }

    /// Number of transactions that the writer has begun.
    fn begun(target: &LocalTarget) -> i32 {
        let begin = target.connection.kept(super::super::BEGIN);
        let runs = |begin: &mut rusqlite::Statement<'_>| Ok(begin.get_status(StatementStatus::Run));
        begin.map_or(0, |mut begin| begin.run(runs).unwrap())
    }

    const ONE: &str = "INSERT INTO t VALUES (1)";
    const TWO: &str = "INSERT INTO t VALUES (1), (2)";

    #[test]
    fn each_statement_is_begun_once_and_then_commits_itself() {
        let folder = tempfile::tempdir().unwrap();
        let mut target = target(&folder);
        assert_eq!(commit(&mut target, &[ONE, ONE, TWO, ONE, TWO, TWO]), 6);
        assert_eq!(begun(&target), 2);
        assert!(target.connection.is_autocommit());
        // What says FAIL, PRAGMA or the writer's name never does.
        let said = "INSERT OR FAIL INTO t VALUES (1)";
        assert_eq!(commit(&mut target, &[said, said]), 2);
        let seen = "PRAGMA user_version = 1";
        assert_eq!(commit(&mut target, &[seen, seen]), 2);
        assert_eq!(begun(&target), 6);
    }

    #[test]
    fn one_that_meets_another_schema_is_begun() {
        let folder = tempfile::tempdir().unwrap();
        let mut target = target(&folder);
        assert_eq!(commit(&mut target, &[TWO, TWO]), 2);
        let other = Connection::open(folder.path().join("a.db")).unwrap();
        other.execute_batch("CREATE TABLE other (n)").unwrap();
        assert_eq!(commit(&mut target, &[TWO]), 1);
        assert_eq!((begun(&target), target.ranges_begun), (2, RANGES_BEGUN));
        target.ranges_begun = 0;
        assert_eq!(commit(&mut target, &[TWO]), 1);
        assert_eq!(begun(&target), 2);
        let half = "CREATE TRIGGER half AFTER INSERT ON t WHEN new.n > 1 BEGIN
            SELECT RAISE(FAIL, 'half'); END";
        other.execute_batch(half).unwrap();
        target.ranges_begun = 0;
        assert_eq!(commit(&mut target, &[TWO, TWO]), 0);
        let rows = other.query_row("SELECT count(*) FROM t", [], |row| row.get(0));
        assert_eq!(rows, Ok(8));
    }
}
