//! Failures of a group: their consequences for its calls, and the words that callers are told.
//!
//! Must never: say that nothing is on disk where that is not known, or let a checkpoint run on files
//! that may be another database's.

use std::ops::Range;
use std::time::{Duration, Instant};

use rusqlite::ErrorCode;

use super::{LocalTarget, RangeEnd};
use crate::error::Error;
use crate::failed_commit::FailedCommit;
use crate::failed_sync::{LogOnDisk, is_failed_sync, note_log};
use crate::neighbours::holders_sentence;
use crate::profile;
use crate::vfs::atomic::{AtomicState, WhyJournal};
use crate::writer::target::Group;
use crate::writer::transaction_hooks::TransactionHooks;

/// Smallest busy limit at which each failure looks for the holder of the lock: the look takes
/// milliseconds, which do not matter beside such a wait.
const LIMIT_WORTH_A_LOOK: Duration = Duration::from_millis(500);
/// Pause between two looks for the holder, where callers wait for less and try again by themselves.
const PAUSE_BETWEEN_LOOKS: Duration = Duration::from_secs(1);
/// The state on disk after a call whose database was moved as it was committed.
const IN_THE_MOVED_FILE: &str = "all of this call, in the file that the writer has open; nothing \
     of it in a file that the path names now";
const PUT_BACK: &str = "if the file was moved, put it and its -wal file back together; if it was \
     replaced, move the -wal and -shm files of the old one away; then open the writer again";

impl LocalTarget {
    pub(super) fn not_begun(&self, source: rusqlite::Error) -> Error {
        self.explained("begin a transaction", source).on_disk("nothing of this call")
    }

    /// An error of SQLite, with the holder of the lock or the full disk that it comes from.
    pub(super) fn explained(&self, action: &'static str, source: rusqlite::Error) -> Error {
        match source.sqlite_error_code() {
            Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => {
                self.naming_the_holder(self.busy.error(source))
            }
            _ => self.naming_the_disk(Error::sqlite(action, source)),
        }
    }

    /// Names the database in an error whose cause is a full disk, or its damage.
    pub(super) fn naming_the_disk(&self, error: Error) -> Error {
        match &self.path {
            Some(path) => error.on_full_disk(path).of_damaged(path),
            None => error,
        }
    }

    /// Names the holder in the error. The look at all processes costs some milliseconds: too many
    /// for each error of a caller that does not wait and tries again by itself.
    pub(super) fn naming_the_holder(&self, error: Error) -> Error {
        let Some(path) = &self.path else { return error };
        let is_soon = |last: Instant| last.elapsed() < PAUSE_BETWEEN_LOOKS;
        if self.busy.limit < LIMIT_WORTH_A_LOOK && self.last_look.get().is_some_and(is_soon) {
            return error;
        }
        self.last_look.set(Some(Instant::now()));
        error.held_by(holders_sentence(path))
    }

    /// Rolls back after COMMIT failed, and finds the consequence for the calls. `has_begun`: the
    /// commit came as far as its hook.
    pub(super) fn not_committed(
        &self,
        group: &mut Group<'_>,
        range: &Range<usize>,
        source: rusqlite::Error,
        has_begun: bool,
    ) -> RangeEnd {
        self.roll_back();
        let failed = match FailedCommit::of(&source) {
            FailedCommit::Unknown if !has_begun => FailedCommit::Nothing,
            failed => failed,
        };
        match failed {
            FailedCommit::Locked => {
                let busy = self.naming_the_holder(self.busy.error(source));
                self.answer_waiting(group, range, &busy.on_disk("nothing of this call"));
                RangeEnd::Answered
            }
            FailedCommit::Nothing => {
                let error = self.naming_the_disk(Error::sqlite("commit", source));
                RangeEnd::NotCommitted(error.on_disk("nothing of this call"))
            }
            FailedCommit::Unknown => {
                let reason = format!(
                    "a commit failed, and whether it is on disk is not known: {source}{}",
                    self.about_atomic_pages()
                );
                if is_failed_sync(&source) {
                    self.sync_failed(&reason, LogOnDisk::Unknown);
                }
                unknown(group, range, reason)
            }
        }
    }

    /// Answers the calls for which the wait for a lock has ended with this error: those whose end
    /// was asked for were stopped.
    pub(super) fn answer_waiting(
        &self,
        group: &mut Group<'_>,
        range: &Range<usize>,
        error: &Error,
    ) {
        for index in range.clone() {
            if !group.has_failed(index) {
                let (number, limit) = (group.number(index), group.call_limit(index));
                let stopped = self.interrupts.begin(number, limit).err();
                self.interrupts.end();
                group.answer(index, Err(stopped.unwrap_or_else(|| error.again())));
            }
        }
    }

    /// Answers the calls of a commit that was not synced.
    pub(super) fn not_synced(
        &self,
        group: &mut Group<'_>,
        range: &Range<usize>,
        reason: String,
    ) -> RangeEnd {
        self.plans.borrow_mut().rolled_back();
        self.tell(TransactionHooks::not_committed);
        // Elsewhere it may have been the sync of a checkpoint.
        note_log(&self.connection, LogOnDisk::Uncopied);
        self.leave_all_as_it_is(&reason);
        unknown(group, range, reason)
    }

    /// Answers the calls of a commit whose database was moved or replaced, at the latest during the
    /// commit.
    pub(super) fn committed_elsewhere(
        &self,
        group: &mut Group<'_>,
        range: &Range<usize>,
        reason: String,
    ) -> RangeEnd {
        self.moved(&reason);
        for index in range.clone() {
            if !group.has_failed(index) {
                let error = Error::uncertain(reason.clone());
                group.answer(index, Err(error.on_disk(IN_THE_MOVED_FILE).to_do(PUT_BACK)));
            }
        }
        RangeEnd::Stop(reason)
    }

    /// Ends the readers and all checkpoints of a database that was moved.
    pub(super) fn moved(&self, reason: &str) {
        self.leave_all_as_it_is(reason);
        if let Some(readers) = &self.readers {
            readers.close_because(reason);
        }
    }

    /// Ends all checkpoints: they could copy pages into another database, or cut its log.
    pub(super) fn leave_all_as_it_is(&self, reason: &str) {
        if let Some(gate) = &self.gate {
            gate.break_off(reason.to_owned());
        }
    }

    /// Ends the commits of all members, and all checkpoints: only the log has all pages now, and must
    /// stay as it is.
    pub(super) fn sync_failed(&self, reason: &str, log: LogOnDisk) {
        self.busy.sync_failed();
        note_log(&self.connection, log);
        self.leave_all_as_it_is(reason);
    }

    /// Advice for a commit that failed because the disk did not write a page as a whole.
    fn about_atomic_pages(&self) -> &'static str {
        match profile::page_writes(&self.connection) {
            Ok(Some(AtomicState::Journal { why: WhyJournal::Refused })) => {
                "; the disk did not take a page that it offered to write whole: if that happens \
                 again after the writer was opened anew, open it with atomic(AtomicWish::Off)"
            }
            _ => "",
        }
    }
}

/// Answers each call of the range that has not failed by itself that its outcome is not known.
fn unknown(group: &mut Group<'_>, range: &Range<usize>, reason: String) -> RangeEnd {
    for index in range.clone() {
        if !group.has_failed(index) {
            group.answer(index, Err(Error::unknown_outcome(reason.clone())));
        }
    }
    RangeEnd::Stop(reason)
}

/// Answers each call of the range that has not failed by itself with this error.
pub(super) fn answer_all(group: &mut Group<'_>, range: Range<usize>, error: &Error) {
    for index in range {
        if !group.has_failed(index) {
            group.answer(index, Err(error.again()));
        }
    }
}
