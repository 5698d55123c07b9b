//! Collects the facts that the checks judge.
//!
//! Processes and locks come first, as they can be seen without taking a lock. A lock
//! that is held, or a reader far behind, is then watched: for a moment both are
//! ordinary. Last, SQLite reads the database, unless it is locked, which would only wait.
//!
//! Must never: open the database itself, or wait for longer than it was told to.

use std::ffi::c_char;
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use leafpress::neighbours::{
    Asked, ConnectionDefaults, FileFacts, Inside, LockHeld, LogReader, Neighbours, SqliteLock,
    Which, connection_defaults, look_inside, neighbours,
};
use leafpress::path_text;
use leafpress::queue::UnixTime;
use leafpress::storage::{Device, FileSystem};
use leafpress::vfs::locks::FileHandle;
use leafpress::vfs::text::shell_word;
use leafpress::{Error, Result};

/// A log beyond this is large. Leafpress keeps its own below 64 MiB, and one transaction may go
/// beyond that.
pub const LARGE_BYTES: u64 = 100_000_000;
/// A reader that is further behind keeps more in the log than SQLite's automatic checkpoint
/// would leave there.
pub const FRAMES_BEHIND_MAX: u32 = 1000;
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// The kind of the file `-journal`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Journal {
    /// The file does not exist, or is empty.
    None,
    /// A connection that keeps its journal is done with it.
    Done,
    /// A transaction that is going on writes it.
    InUse,
    /// A transaction was cut off; the next reader rolls it back.
    Hot,
    /// A transaction over several databases names this super-journal, which is gone: to SQLite it is
    /// committed, and the next reader removes the journal.
    WithoutSuper(PathBuf),
    /// The file may not be read.
    Unreadable,
}

/// All that the checks judge.
#[derive(Debug)]
pub struct Evidence {
    /// The database, as it was named.
    pub named: PathBuf,
    /// The processes that are there now.
    pub now: Neighbours,
    /// For how long locks were watched.
    pub watched: Duration,
    /// Locks that keep writers out, and that the same processes held all the time, without a
    /// commit.
    pub stuck: Vec<LockHeld>,
    /// Readers of an old state that stayed there all the time.
    pub pinned: Vec<LogReader>,
    /// Facts from the database itself, or the reason why it could not be read.
    pub inside: Result<Inside, String>,
    /// The settings of a connection that sets nothing.
    pub defaults: ConnectionDefaults,
    /// The rollback journal.
    pub journal: Journal,
    /// The disk under it, where the system names one.
    pub device: Option<Device>,
}

impl Evidence {
    /// Collects the evidence.
    pub fn collect(named: &Path, watch: Duration) -> Result<Self> {
        let first = neighbours(named)?;
        if first.files.is_empty() && first.processes.is_empty() {
            let missing = std::fs::metadata(named).err();
            let source = missing.unwrap_or_else(|| io::ErrorKind::NotFound.into());
            return Err(Error::io("open", named, source)
                .on_disk("there is no such database")
                .to_do("check the name"));
        }
        let Watched { now, stuck, pinned, time: watched } = Watched::watch(named, first, watch)?;
        let keeps_readers_out = |held: &LockHeld| held.alone && held.lock.keeps_readers_out();
        let inside = match now.locks.iter().find(|held| keeps_readers_out(held)) {
            Some(_) => Err("a process keeps readers out".to_owned()),
            None => look_inside(named).map_err(|error| first_line(&error)),
        };
        let device = now.file_system.as_ref().and_then(FileSystem::disk);
        let journal = journal(&now);
        let evidence = Self {
            named: named.to_owned(),
            now,
            watched,
            stuck,
            pinned,
            inside,
            defaults: connection_defaults()?,
            journal,
            device,
        };
        evidence.or_unreadable()
    }

    /// A file that cannot be read, for no reason that a check tells, is no database.
    fn or_unreadable(self) -> Result<Self> {
        let is_explained = self.now.locks.iter().any(|held| held.alone)
            || self.now.lost_files().next().is_some()
            || matches!(
                self.journal,
                Journal::Hot | Journal::Unreadable | Journal::WithoutSuper(_)
            )
            || [Which::Log, Which::Journal].iter().any(|which| self.bytes_of(*which) > 0);
        match &self.inside {
            Err(_) if !is_explained => {
                let error = look_inside(&self.named).map(|_| ());
                error.map(|()| self)
            }
            _ => Ok(self),
        }
    }

    /// The size of one of the files; 0 if it is not there.
    pub fn bytes_of(&self, which: Which) -> u64 {
        self.now.file(which).map_or(0, |file| file.bytes)
    }

    /// True in WAL mode; `None` if that cannot be told.
    pub fn is_wal(&self) -> Option<bool> {
        match &self.inside {
            Ok(inside) => Some(inside.journal_mode == "wal"),
            Err(_) if self.now.log.is_some() => Some(true),
            Err(_) => None,
        }
    }

    /// Processes by number and command.
    pub fn who(&self, pids: &[u32]) -> String {
        if pids.is_empty() {
            return "a process that this user may not look at".to_owned();
        }
        let one = |pid: &u32| match self.now.process(*pid) {
            Some(process) => process.to_string(),
            None => format!("process {pid}"),
        };
        pids.iter().map(one).collect::<Vec<_>>().join(" and ")
    }

    /// Questions without an answer.
    pub fn notes(&self) -> Vec<String> {
        let mut notes = Vec::new();
        if self.now.asked == Asked::FolderOnly {
            notes.push(
                "this system does not say which processes have a file open, nor who holds a lock"
                    .to_owned(),
            );
        }
        if self.now.processes_not_asked > 0 {
            notes.push(format!(
                "{} processes of other users could not be asked; root sees all: {}",
                self.now.processes_not_asked,
                self.as_root()
            ));
        }
        notes
    }

    /// The command by which root looks at the database.
    pub fn as_root(&self) -> String {
        format!("sudo leafpress doctor {}", quoted(&self.named))
    }
}

/// The path as a shell takes it.
pub fn quoted(path: &Path) -> String {
    shell_word(&path_text(path))
}

fn first_line(error: &Error) -> String {
    error.kind().to_string().lines().next().unwrap_or_default().to_owned()
}

fn journal(now: &Neighbours) -> Journal {
    let Some(file) = now.file(Which::Journal).filter(|file| file.bytes > 0) else {
        return Journal::None;
    };
    let is_written = now.write_locks().iter().any(|held| {
        matches!(held.lock, SqliteLock::Reserved | SqliteLock::Pending | SqliteLock::Exclusive)
    });
    match first_byte(file) {
        None => Journal::Unreadable,
        Some(_) if is_written => Journal::InUse,
        // SQLite zeroes the first bytes of a journal that it keeps.
        Some(0) => Journal::Done,
        Some(_) => match super_journal_of(file) {
            Ok(Some(named)) if !is_there(&named) => Journal::WithoutSuper(named),
            Ok(_) => Journal::Hot,
            Err(_) => Journal::Unreadable,
        },
    }
}

/// The super-journal that a journal names at its end:
///
/// | bytes | meaning |
/// |---|---|
/// | n | its path |
/// | 4 | n, the first byte highest, as in all numbers here |
/// | 4 | the sum of the bytes of the path |
/// | 8 | the mark of a journal |
fn super_journal_of(file: &FileFacts) -> io::Result<Option<PathBuf>> {
    const MARK: [u8; 8] = *b"\xd9\xd5\x05\xf9\x20\xa1\x63\xd7";
    const TAIL_BYTES: u64 = 16;
    /// More than SQLite allows.
    const PATH_BYTES_MAX: u64 = 4096;
    let mut journal = FileHandle::open(&file.path)?;
    let mut end = Vec::new();
    let from = file.bytes.saturating_sub(PATH_BYTES_MAX + TAIL_BYTES);
    journal.seek(SeekFrom::Start(from))?;
    journal.take(PATH_BYTES_MAX + TAIL_BYTES).read_to_end(&mut end)?;
    let named = end.strip_suffix(&MARK).and_then(|rest| {
        let (rest, sum) = rest.split_last_chunk::<4>()?;
        let (rest, bytes) = rest.split_last_chunk::<4>()?;
        let from = rest.len().checked_sub(u32::from_be_bytes(*bytes) as usize)?;
        let path = std::str::from_utf8(&rest[from..]).ok().filter(|path| !path.is_empty())?;
        // As C does it, where a character may be a signed number.
        let number = |byte: u8| i32::from(c_char::from_ne_bytes([byte])).cast_unsigned();
        let found = path.bytes().map(number).fold(0, u32::wrapping_add);
        (found == u32::from_be_bytes(*sum)).then(|| PathBuf::from(path))
    });
    Ok(named)
}

/// Returns true if SQLite takes the file for one that is there: it must not be empty.
fn is_there(path: &Path) -> bool {
    std::fs::metadata(path).is_ok_and(|facts| !facts.is_file() || facts.len() > 0)
}

fn first_byte(file: &FileFacts) -> Option<u8> {
    let mut byte = [0];
    FileHandle::open(&file.path).and_then(|mut it| it.read_exact(&mut byte)).ok()?;
    Some(byte[0])
}

/// The holders that were there all the time.
struct Watched {
    now: Neighbours,
    stuck: Vec<LockHeld>,
    pinned: Vec<LogReader>,
    time: Duration,
}

impl Watched {
    /// Watches the locks of `first` until none is left of them, or the time is over.
    fn watch(path: &Path, first: Neighbours, limit: Duration) -> Result<Self> {
        let began = Instant::now();
        let mut stuck: Vec<LockHeld> = first.write_locks().into_iter().cloned().collect();
        let mut pinned = first.readers();
        pinned.retain(is_far_behind);
        let commits = Commits::of(&first);
        let mut now = first;
        while !(stuck.is_empty() && pinned.is_empty()) && began.elapsed() < limit {
            thread::sleep(LOOK_EVERY.min(limit.saturating_sub(began.elapsed())));
            now = neighbours(path)?;
            let is_idle = Commits::of(&now) == commits;
            // A long transaction writes pages into the database before it commits, under the
            // exclusive lock. So for that one, only the lock counts.
            stuck.retain(|held| {
                now.locks.contains(held) && (is_idle || held.lock == SqliteLock::Exclusive)
            });
            let still = now.readers();
            let stays = |old: &LogReader| {
                let is_it = |it: &&LogReader| (it.mark, it.frame) == (old.mark, old.frame);
                still.iter().find(is_it).cloned()
            };
            pinned = pinned.iter().filter_map(stays).filter(is_far_behind).collect();
        }
        Ok(Self { now, stuck, pinned, time: began.elapsed() })
    }
}

fn is_far_behind(reader: &LogReader) -> bool {
    reader.frames_behind > FRAMES_BEHIND_MAX
}

/// Numbers that change when a transaction is committed.
#[derive(PartialEq)]
struct Commits {
    of_log: Option<u32>,
    of_database: Option<UnixTime>,
}

impl Commits {
    fn of(found: &Neighbours) -> Self {
        Self {
            of_log: found.log.as_ref().map(|log| log.changes),
            of_database: found.file(Which::Database).and_then(|file| file.changed_at),
        }
    }
}
