//! Checks of the write-ahead log: its size, the processes that copy it into the
//! database, and the readers that keep it from being copied.
//!
//! Must never: blame a reader that is there for a moment.

use leafpress::neighbours::Which;

use super::evidence::{Evidence, FRAMES_BEHIND_MAX, Journal, LARGE_BYTES, quoted};
use crate::human;
use crate::summary::finding::{Check, Finding};

const NO_LOG: &str = "it has no write-ahead log";

/// Bytes in the log that are not in the database yet. Without an index, all of it may be.
fn bytes_not_copied(evidence: &Evidence) -> u64 {
    match &evidence.now.log {
        Some(log) => log.bytes_not_copied(),
        None => evidence.bytes_of(Which::Log),
    }
}

/// The command that empties the log.
fn checkpoint(evidence: &Evidence) -> String {
    format!(
        "sqlite3 {} 'PRAGMA wal_checkpoint(TRUNCATE)' (from SQLite 3.51.3 on: those before have the \
         WAL-reset bug)",
        quoted(&evidence.named)
    )
}

/// Check 6.
pub fn automatic_checkpoints(evidence: &Evidence) -> Finding {
    let check = Check(6, "automatic checkpoints");
    if evidence.now.file(Which::Log).is_none() {
        return check.ok(NO_LOG);
    }
    let is_waiting = bytes_not_copied(evidence) > LARGE_BYTES;
    let is_in_use = evidence.now.others().next().is_some();
    if is_waiting && is_in_use && evidence.pinned.is_empty() && evidence.now.log.is_some() {
        return check.care(
            format!(
                "{} of the log are not copied into the database, and no reader keeps them there: \
                 no connection makes checkpoints (wal_autocheckpoint=0?)",
                human::bytes(bytes_not_copied(evidence))
            ),
            "the log grows with every commit; readers get slower, and opening after a crash reads \
             all of it",
            format!(
                "{}; then leave wal_autocheckpoint on in one connection, or let Leafpress's Writer \
                 make the checkpoints",
                checkpoint(evidence)
            ),
        );
    }
    let pages = evidence.defaults.wal_autocheckpoint_pages;
    check.ok(format!(
        "the log is copied; each connection has its own setting, a plain one copies after {pages} \
         pages"
    ))
}

/// Check 7.
pub fn log_size(evidence: &Evidence) -> Finding {
    let check = Check(7, "log size");
    let bytes = evidence.bytes_of(Which::Log);
    if evidence.now.file(Which::Log).is_none() {
        return check.ok(NO_LOG);
    }
    let frames = match &evidence.now.log {
        Some(log) => format!(
            "{} frames in use, {} of them copied into the database",
            human::count(log.frames.into()),
            human::count(log.frames_copied.into())
        ),
        None => "without an index, so that nothing is known of its frames".to_owned(),
    };
    let evidence_text = format!("the log has {}: {frames}", human::bytes(bytes));
    if bytes_not_copied(evidence) <= LARGE_BYTES {
        return check.ok(evidence_text);
    }
    check.care(
        evidence_text,
        "reading looks each page up in the log first, opening after a crash reads all of it, and \
         the disk may fill up",
        format!("see checks 6 and 9 for the cause; then {}", checkpoint(evidence)),
    )
}

/// Check 8.
pub fn size_limit(evidence: &Evidence) -> Finding {
    let check = Check(8, "size limit of log and journal");
    let log_bytes = evidence.bytes_of(Which::Log);
    if log_bytes > LARGE_BYTES && bytes_not_copied(evidence) <= LARGE_BYTES {
        return check.care(
            format!(
                "the log keeps {}, and only {} of them are not in the database yet",
                human::bytes(log_bytes),
                human::bytes(bytes_not_copied(evidence))
            ),
            "the space is not given back: without journal_size_limit SQLite never cuts a log",
            format!(
                "{}; and set PRAGMA journal_size_limit=67108864 in the connections that write",
                checkpoint(evidence)
            ),
        );
    }
    let journal_bytes = evidence.bytes_of(Which::Journal);
    if evidence.journal == Journal::Done && journal_bytes > LARGE_BYTES {
        return check.care(
            format!("a journal that is done with keeps {}", human::bytes(journal_bytes)),
            "the space is not given back: journal_mode=PERSIST without journal_size_limit",
            // A new connection is in the mode DELETE already: only the change from another mode removes
            // the file.
            format!(
                "sqlite3 {} 'PRAGMA journal_mode=PERSIST; PRAGMA journal_mode=DELETE'",
                quoted(&evidence.named)
            ),
        );
    }
    let usual = match evidence.defaults.journal_size_limit_bytes {
        limit if limit < 0 => "no limit".to_owned(),
        limit => human::bytes(limit.unsigned_abs()),
    };
    check.ok(format!("no space is kept; a plain connection has {usual}, which is its own setting"))
}

/// Check 9.
pub fn oldest_reader(evidence: &Evidence) -> Finding {
    let check = Check(9, "oldest reader");
    if evidence.is_wal() == Some(false) {
        return check.ok(NO_LOG);
    }
    let Some(reader) = evidence.pinned.first() else {
        return match evidence.now.readers().first() {
            Some(reader) => check.ok(format!(
                "{} is {} frames behind; up to {FRAMES_BEHIND_MAX} are usual",
                evidence.who(&reader.pids),
                human::count(reader.frames_behind.into())
            )),
            None => check.ok("no process reads an old state"),
        };
    };
    let pid = reader.pids.first();
    let fix = match pid {
        Some(pid) => format!("let it end its read transaction, or end the process: kill {pid}"),
        None => {
            format!("find it as root: {}; let it end its read transaction", evidence.as_root())
        }
    };
    check.care(
        format!(
            "{} reads a state that is {} frames old, and did so for all of the {} of this look",
            evidence.who(&reader.pids),
            human::count(reader.frames_behind.into()),
            human::duration(evidence.watched)
        ),
        "frames after that state cannot be copied into the database, so the log grows without \
         end",
        fix,
    )
}
