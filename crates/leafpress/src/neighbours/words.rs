//! The processes at a database, as sentences.
//!
//! Must never: say that a lock *was* held when an error came about; it is looked up
//! later, so the sentences speak of now. Must never pass on control characters of a
//! command line.

use std::fmt;
use std::path::Path;

use super::{Asked, LockHeld, Neighbour, Neighbours, SqliteLock, Standing, Which, ask};
use crate::words::path_text;

/// Longer command lines are cut.
const COMMAND_CHARACTERS_MAX: usize = 60;

/// A sentence on the present holder of a database: `process 4711 (python3 worker.py) holds the
/// write lock`.
///
/// `None` where no other process has it open and no lock of this one is in the way, or
/// the system does not tell. If a commit waits for readers, these are named; if it is this
/// process's, nothing else is. For the message of an error: it is asked after the failure,
/// when the lock may be gone, or another process's.
pub fn holders_sentence(path: impl AsRef<Path>) -> Option<String> {
    let found = ask(path.as_ref(), false).ok()?;
    let mut sentences = Vec::new();
    let mut waiting = None;
    for held in strongest_of_each(&found) {
        let waits = held.lock == SqliteLock::Pending;
        if waits {
            waiting = Some(held);
        }
        // The error is of this process, which knows that it waits.
        if !(waits && held.pids.contains(&std::process::id())) {
            sentences.push(format!("{} {}", who(&found, &held.pids), does(held.lock)));
        }
    }
    let readers = waiting.map_or_else(Vec::new, |held| readers_beside(&found, held));
    if !readers.is_empty() {
        let read = if readers.len() == 1 { "reads" } else { "read" };
        let reads = format!("{read} it, and the commit waits until that has ended");
        sentences.push(format!("{} {reads}", who(&found, &readers)));
    }
    if sentences.is_empty() {
        let others: Vec<u32> = found.others().map(|process| process.pid).collect();
        if others.is_empty() {
            return None;
        }
        let have = if others.len() == 1 { "has" } else { "have" };
        sentences.push(format!("{} {have} it open", who(&found, &others)));
    }
    Some(sentences.join("; "))
}

/// For each holder its strongest lock that keeps writers out.
fn strongest_of_each(found: &Neighbours) -> Vec<&LockHeld> {
    let mut strongest: Vec<&LockHeld> = Vec::new();
    for held in found.write_locks().into_iter().rev() {
        let is_known = |other: &&LockHeld| other.pids == held.pids;
        // In WAL mode a lock on the log says more than one on the database.
        if !strongest.iter().any(is_known) {
            strongest.push(held);
        }
    }
    strongest
}

/// The processes that read the database, but for the one whose commit waits for that.
fn readers_beside(found: &Neighbours, waiting: &LockHeld) -> Vec<u32> {
    let shared = found.locks.iter().filter(|held| held.lock == SqliteLock::Shared);
    let all = shared.flat_map(|held| &held.pids).filter(|pid| !waiting.pids.contains(pid));
    let mut readers: Vec<u32> = all.copied().collect();
    readers.sort_unstable();
    readers.dedup();
    readers
}

fn does(lock: SqliteLock) -> &'static str {
    match lock {
        SqliteLock::Exclusive => "holds the exclusive lock, which keeps readers out too",
        SqliteLock::Pending => "holds the pending lock: it waits until others have stopped reading",
        SqliteLock::WalRecover => "holds the lock to rebuild the index of the write-ahead log",
        _ => "holds the write lock",
    }
}

/// Processes by number and name.
pub(super) fn who(found: &Neighbours, pids: &[u32]) -> String {
    if pids.is_empty() {
        return "a process that this user may not look at".to_owned();
    }
    let one = |pid: &u32| match found.process(*pid) {
        Some(process) => process.to_string(),
        None => format!("process {pid}"),
    };
    pids.iter().map(one).collect::<Vec<_>>().join(" and ")
}

/// `process 4711 (python3 worker.py)`.
impl fmt::Display for Neighbour {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let named = if self.command.is_empty() { &self.name } else { &self.command };
        // The program's folder is seldom worth the space.
        let first_word = named.split(' ').next().unwrap_or_default();
        let named = &named[first_word.rfind('/').map_or(0, |at| at + 1)..];
        let clean = named.chars().map(|it| if it.is_control() { ' ' } else { it });
        let mut short: String = clean.take(COMMAND_CHARACTERS_MAX + 1).collect();
        if short.chars().count() > COMMAND_CHARACTERS_MAX {
            short = short.chars().take(COMMAND_CHARACTERS_MAX - 1).chain(['…']).collect();
        }
        let this = if self.is_this_process { "this process, " } else { "process " };
        write!(f, "{this}{} ({short})", self.pid)
    }
}

/// `wal_write, held by process 4711 (python3 worker.py)`, one line for each fact.
impl fmt::Display for Neighbours {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", path_text(&self.database))?;
        if self.asked == Asked::FolderOnly {
            writeln!(f, "this system does not say which processes have a file open")?;
        } else if self.processes.is_empty() {
            writeln!(f, "no process has it open")?;
        }
        for process in &self.processes {
            writeln!(f, "{process} has it open")?;
        }
        if self.processes_not_asked > 0 {
            let count = self.processes_not_asked;
            writeln!(f, "{count} processes of other users could not be asked")?;
        }
        for held in &self.locks {
            let alone = if held.alone { "" } else { ", shared" };
            writeln!(f, "lock {}{alone}: {}", held.lock, who(self, &held.pids))?;
        }
        for reader in self.readers() {
            let (who, behind) = (who(self, &reader.pids), reader.frames_behind);
            writeln!(f, "{who} reads a state that is {behind} frames old")?;
        }
        for (process, file) in self.lost_files() {
            let name = match file.which {
                Which::Database => "the database",
                Which::Log => "the write-ahead log",
                Which::SharedMemory => "the log's index",
                Which::Journal => "the journal",
                Which::Sharing => "the file by which writers share it",
            };
            let how = match file.standing {
                Standing::Deleted => "that is deleted",
                Standing::Replaced => "whose name another file has now",
                Standing::OfOtherName | Standing::InPlace => "of another name",
            };
            writeln!(f, "{process} has {name} open {how}: {}", path_text(&file.path))?;
        }
        for evidence in &self.second_copy {
            writeln!(f, "a second copy of SQLite in this process: {evidence}")?;
        }
        Ok(())
    }
}
