//! The holders of SQLite's locks, from all that `/proc` told.
//!
//! A lock is listed in two places: with the descriptor through which it was taken, and in the
//! system's table. The first names the process even if the lock belongs to no process, and all
//! processes if a fork shares it. The second lists locks of processes that this user may not see.
//!
//! Must never: count one lock twice.

use serde::Serialize;

use super::lock_names::SqliteLock;
use super::lock_text::LockStyle;
use super::{LogIndex, Neighbours};

/// A lock on a database, and its holder.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct LockHeld {
    /// Name of the lock.
    pub lock: SqliteLock,
    /// True if it is held for writing: by one holder alone.
    pub alone: bool,
    /// Kind of its holder: a process, or a descriptor that processes may share.
    pub style: LockStyle,
    /// Processes that hold it; empty if the system does not tell. Several processes share one
    /// descriptor after a fork, or hold the lock together for reading.
    pub pids: Vec<u32>,
}

/// Connections that read an older state of the database.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct LogReader {
    /// Number of the read mark, 0 to 4.
    pub mark: u8,
    /// Processes that hold it; empty if the system does not tell.
    pub pids: Vec<u32>,
    /// Last frame of the log that they see; 0 if they read the database file only.
    pub frame: u32,
    /// Number of frames that were written since.
    pub frames_behind: u32,
}

impl Neighbours {
    /// The locks that keep other connections from writing, the strongest last.
    pub fn write_locks(&self) -> Vec<&LockHeld> {
        let mut found: Vec<_> =
            self.locks.iter().filter(|it| it.alone && it.lock.keeps_writers_out()).collect();
        found.sort_by_key(|held| held.lock);
        found
    }

    /// Readers of the write-ahead log, the furthest behind first.
    pub fn readers(&self) -> Vec<LogReader> {
        let Some(log) = &self.log else { return Vec::new() };
        let mut readers: Vec<LogReader> =
            self.locks.iter().filter_map(|held| reader(held, log)).collect();
        readers.sort_by_key(|reader| std::cmp::Reverse(reader.frames_behind));
        readers
    }
}

fn reader(held: &LockHeld, log: &LogIndex) -> Option<LogReader> {
    let SqliteLock::WalRead(mark) = held.lock else { return None };
    // A mark held alone is being moved, or the log begins anew.
    if held.alone {
        return None;
    }
    let frame = (*log.read_marks.get(usize::from(mark))?)?;
    let frames_behind = log.frames.saturating_sub(frame);
    Some(LogReader { mark, pids: held.pids.clone(), frame, frames_behind })
}

#[cfg(target_os = "linux")]
pub(super) use linux::{join, second_copy};

#[cfg(target_os = "linux")]
mod linux {
    use std::os::fd::RawFd;

    use super::{LockHeld, LockStyle, SqliteLock};
    use crate::neighbours::Which;
    use crate::neighbours::lock_text::LockLine;
    use crate::neighbours::processes::Seen;

    /// Joins the locks of both places, by name.
    pub fn join(seen: &Seen) -> Vec<LockHeld> {
        let mut locks = Vec::new();
        for (pid, which, line) in &seen.by_descriptor {
            add(&mut locks, *which, line, Some(*pid));
        }
        for (which, line) in &seen.by_table {
            let is_known = |(pid, other, it): &(u32, Which, LockLine)| {
                let is_same_process = line.pid.is_none_or(|it| it == *pid);
                other == which && is_same_process && is_same_lock(it, line)
            };
            if !seen.by_descriptor.iter().any(is_known) {
                add(&mut locks, *which, line, line.pid);
            }
        }
        locks.sort_by_key(|held| (held.lock, held.style));
        locks
    }

    /// Returns true if two lines are one lock. The range may grow or shrink between the reads of
    /// the two places; then the lock is listed twice with the same holder, which [`add`] joins.
    fn is_same_lock(one: &LockLine, other: &LockLine) -> bool {
        let parts = |it: &LockLine| (it.style, it.is_write, it.first_byte, it.last_byte);
        parts(one) == parts(other)
    }

    fn add(locks: &mut Vec<LockHeld>, which: Which, line: &LockLine, pid: Option<u32>) {
        if line.waits {
            return;
        }
        let (first, last, alone) = (line.first_byte, line.last_byte, line.is_write);
        for lock in SqliteLock::in_range(which, first, last, alone) {
            let is_it = |held: &&mut LockHeld| {
                let same = (held.lock, held.alone, held.style) == (lock, alone, line.style);
                // A lock without a holder is counted beside those with one.
                same && held.pids.is_empty() == pid.is_none()
            };
            if let Some(held) = locks.iter_mut().find(is_it) {
                held.pids.extend(pid.filter(|pid| !held.pids.contains(pid)));
            } else {
                let pids = pid.into_iter().collect();
                locks.push(LockHeld { lock, alone, style: line.style, pids });
            }
        }
    }

    /// Reasons to believe that this process has a second SQLite at the database.
    ///
    /// `own`: the descriptors of our own SQLite. It takes locks of descriptors, so a lock of
    /// the process was taken by another copy.
    pub fn second_copy(seen: &Seen, own: &[RawFd]) -> Vec<String> {
        let mut evidence = Vec::new();
        let us = seen.processes.iter().filter(|process| process.is_this_process);
        for file in us.flat_map(|process| &process.open) {
            let is_locked_file = matches!(file.which, Which::Database | Which::SharedMemory);
            if is_locked_file && !own.contains(&file.descriptor) {
                let (number, path) = (file.descriptor, crate::path_text(&file.path));
                evidence
                    .push(format!("descriptor {number} of {path} was not opened by this library"));
            }
        }
        let own_pid = std::process::id();
        let lines = seen.by_descriptor.iter().map(|(pid, which, line)| (Some(*pid), which, line));
        let lines = lines.chain(seen.by_table.iter().map(|(which, line)| (line.pid, which, line)));
        let mut locks: Vec<SqliteLock> = lines
            .filter(|(pid, _, line)| *pid == Some(own_pid) && line.style == LockStyle::Posix)
            .filter(|(_, _, line)| !line.waits)
            .flat_map(|(_, which, line)| {
                SqliteLock::in_range(*which, line.first_byte, line.last_byte, line.is_write)
            })
            .collect();
        locks.sort_unstable();
        locks.dedup();
        if !locks.is_empty() {
            let names: Vec<String> = locks.iter().map(ToString::to_string).collect();
            evidence.push(format!(
                "this process holds locks that belong to it and not to a descriptor: {}",
                names.join(", ")
            ));
        }
        evidence
    }

    #[cfg(test)]
    mod tests {
        use super::*;
        use crate::neighbours::lock_text::parse_table;

        fn lines(text: &str) -> Vec<LockLine> {
            parse_table(text)
        }

        #[test]
        fn a_lock_that_stands_in_both_places_is_one() {
            let line = "1: POSIX ADVISORY WRITE 7 fe:00:1 1073741825 1073741825\n";
            let seen = Seen {
                by_descriptor: vec![(7, Which::Database, lines(line)[0])],
                by_table: vec![(Which::Database, lines(line)[0])],
                ..Seen::default()
            };
            let locks = join(&seen);
            assert_eq!(locks.len(), 1, "{locks:?}");
            assert_eq!((locks[0].lock, &locks[0].pids[..]), (SqliteLock::Reserved, &[7][..]));
        }

        #[test]
        fn a_lock_of_a_process_that_may_not_be_asked_is_known_from_the_table() {
            let seen = Seen {
                by_table: vec![
                    (Which::SharedMemory, lines("1: POSIX ADVISORY WRITE 9 fe:00:2 120 120\n")[0]),
                    (Which::SharedMemory, lines("1: OFDLCK ADVISORY READ -1 fe:00:2 128 128\n")[0]),
                    (
                        Which::SharedMemory,
                        lines("1: -> POSIX ADVISORY WRITE 10 fe:00:2 120 120\n")[0],
                    ),
                ],
                ..Seen::default()
            };
            let locks = join(&seen);
            let found: Vec<_> = locks.iter().map(|held| (held.lock, held.pids.clone())).collect();
            let expected =
                [(SqliteLock::WalWrite, vec![9]), (SqliteLock::SharedMemory, Vec::new())];
            assert_eq!(found, expected);
        }

        #[test]
        fn processes_that_share_a_descriptor_share_its_lock() {
            let line = lines("1: OFDLCK ADVISORY WRITE -1 fe:00:2 120 120\n")[0];
            let seen = Seen {
                by_descriptor: vec![(5, Which::SharedMemory, line), (6, Which::SharedMemory, line)],
                by_table: vec![(Which::SharedMemory, line)],
                ..Seen::default()
            };
            let locks = join(&seen);
            assert_eq!(locks.len(), 1);
            assert_eq!(locks[0].pids, [5, 6]);
            assert!(locks[0].alone);
        }

        #[test]
        fn a_lock_of_this_process_itself_is_another_copys() {
            let own = std::process::id();
            let line = format!("1: POSIX ADVISORY READ {own} fe:00:2 1073741826 1073742335\n");
            let mut seen =
                Seen { by_table: vec![(Which::Database, lines(&line)[0])], ..Seen::default() };
            let evidence = second_copy(&seen, &[]);
            assert_eq!(evidence.len(), 1);
            assert!(evidence[0].ends_with("shared"), "{evidence:?}");
            seen.by_table[0].1.style = LockStyle::Ofd;
            assert_eq!(second_copy(&seen, &[]), [""; 0]);
        }
    }
}
