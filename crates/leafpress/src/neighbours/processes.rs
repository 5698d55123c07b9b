//! Goes through `/proc`: which processes have a file of the database open, and with
//! which locks.
//!
//! Files are told apart by device and inode, since a process may know them by other
//! names. Nothing of the database is opened for that: `stat` of `/proc/PID/fd/N` asks
//! the file behind the descriptor. Files on other file systems are not touched at all
//! where the kernel names the inode (since 5.14), as a dead network mount would hang.
//!
//! Must never: fail because a process ends while it is looked at.
#![allow(clippy::disallowed_methods, reason = "files of /proc are no databases")]

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use super::files::{FileFacts, Which, path_of};
use super::lock_text::{self, LockLine};
use super::versions::{self, Effort};
use super::{Library, Neighbour, OpenFile, Standing, maps};
use crate::vfs::FileIdentity;
use crate::wal_reset::check_background_checkpoints;
use crate::words::bytes_text;

/// All that `/proc` tells of one database.
#[derive(Debug, Default)]
pub struct Seen {
    /// Processes that have one of its files open, this one included.
    pub processes: Vec<Neighbour>,
    /// Processes whose descriptors may not be looked at.
    pub not_asked: u64,
    /// The locks that descriptors of these processes hold.
    pub by_descriptor: Vec<(u32, Which, LockLine)>,
    /// The lines of the system's table of locks that are about the database's files.
    pub by_table: Vec<(Which, LockLine)>,
}

/// Looks at all processes, and where it is asked for at what libraries they run.
pub fn look(database: &Path, files: &[FileFacts], with_libraries: bool) -> Seen {
    let target = Target::new(database, files);
    let mut seen = Seen::default();
    let mut effort = Effort::begin();
    for pid in all_processes() {
        match target.look_at(pid) {
            Ok(Some((mut process, locks))) => {
                if with_libraries {
                    process.libraries = libraries_of(pid, &mut effort);
                }
                seen.processes.push(process);
                seen.by_descriptor.extend(locks);
            }
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => seen.not_asked += 1,
            // The process has none of the files open, or has ended.
            Ok(None) | Err(_) => {}
        }
    }
    seen.by_table = target.lines_of_table(&seen.by_descriptor);
    seen
}

fn all_processes() -> Vec<u32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let mut pids: Vec<u32> =
        entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect();
    pids.sort_unstable();
    pids
}

/// The files that are looked for.
struct Target<'a> {
    database: &'a Path,
    files: &'a [FileFacts],
    /// Their paths, there or not.
    paths: [(Which, PathBuf); Which::ALL.len()],
    /// Names are compared within one table of mounts only.
    mounts: Option<PathBuf>,
}

impl<'a> Target<'a> {
    fn new(database: &'a Path, files: &'a [FileFacts]) -> Self {
        let paths = Which::ALL.map(|which| (which, path_of(database, which)));
        Self { database, files, paths, mounts: mounts_of("self") }
    }

    /// A process and the locks of its descriptors; `None` if it has none of the files open.
    #[expect(clippy::type_complexity, reason = "two lists of one process")]
    fn look_at(&self, pid: u32) -> io::Result<Option<(Neighbour, Vec<(u32, Which, LockLine)>)>> {
        let is_this_process = pid == std::process::id();
        let (mut open, mut locks, mut links) = (Vec::new(), Vec::new(), Vec::new());
        for entry in fs::read_dir(format!("/proc/{pid}/fd"))? {
            let Ok(entry) = entry else { continue };
            let Some(descriptor) = entry.file_name().to_str().and_then(|it| it.parse().ok()) else {
                continue;
            };
            let Ok(link) = fs::read_link(entry.path()) else { continue };
            if !link.is_absolute() {
                continue;
            }
            let facts = fs::read_to_string(format!("/proc/{pid}/fdinfo/{descriptor}"));
            let facts = facts.unwrap_or_default();
            if let Some(file) = self.matches(pid, descriptor, &link, &facts) {
                let held = lock_text::parse_fdinfo(&facts).into_iter();
                if file.standing == Standing::InPlace {
                    locks.extend(held.map(|line| (pid, file.which, line)));
                }
                open.push(file);
            }
            links.push((descriptor, link));
        }
        if open.is_empty() {
            return Ok(None);
        }
        open.extend(self.logs_of_other_names(&open, &links));
        open.sort_by_key(|file| file.descriptor);
        let process = Neighbour {
            pid,
            name: word_of(pid, "comm"),
            command: command_of(pid),
            is_this_process,
            open,
            libraries: Vec::new(),
        };
        Ok(Some((process, locks)))
    }

    fn matches(&self, pid: u32, descriptor: i32, link: &Path, facts: &str) -> Option<OpenFile> {
        let named = self.named(link);
        let inode = lock_text::inode_in_fdinfo(facts);
        let may_be = |file: &FileFacts| {
            file.identity.is_some_and(|it| inode.is_none_or(|inode| inode == it.inode))
        };
        if named.is_none() && !self.files.iter().any(may_be) {
            return None;
        }
        let found = fs::metadata(format!("/proc/{pid}/fd/{descriptor}")).ok()?;
        let identity = FileIdentity::from(&found);
        let same = self.files.iter().find(|file| file.identity == Some(identity));
        let (which, standing) = match (same, named) {
            (Some(file), _) => (file.which, Standing::InPlace),
            (None, Some(_)) if mounts_of(&pid.to_string()) != self.mounts => return None,
            (None, Some(which)) => {
                let is_there = self.files.iter().any(|file| file.which == which);
                (which, if is_there { Standing::Replaced } else { Standing::Deleted })
            }
            (None, None) => return None,
        };
        Some(OpenFile { descriptor, which, path: link.to_owned(), standing })
    }

    /// The file that a descriptor's name is, or was before it was deleted.
    fn named(&self, link: &Path) -> Option<Which> {
        let bare = without_ending(link, " (deleted)");
        let is = |path: &PathBuf| path == link || bare == Some(path);
        self.paths.iter().find(|(_, path)| is(path)).map(|(which, _)| *which)
    }

    /// Logs in the database's folder without their database, of a process that has the database
    /// open and no log of its name: it had another name when the process opened it.
    fn logs_of_other_names(&self, open: &[OpenFile], links: &[(i32, PathBuf)]) -> Vec<OpenFile> {
        let has = |which| open.iter().any(|file| file.which == which);
        if !has(Which::Database) || has(Which::Log) || has(Which::SharedMemory) {
            return Vec::new();
        }
        let is_open = |base: &Path| links.iter().any(|(_, link)| link == base);
        let mut found = Vec::new();
        for (descriptor, path) in links {
            for which in [Which::Log, Which::SharedMemory] {
                let base = without_ending(path, which.suffix());
                let is_beside = |base: &&Path| base.parent() == self.database.parent();
                if base.filter(is_beside).is_some_and(|base| !is_open(base)) {
                    let (descriptor, path) = (*descriptor, path.clone());
                    let standing = Standing::OfOtherName;
                    found.push(OpenFile { descriptor, which, path, standing });
                }
            }
        }
        found
    }

    /// The table names files by device and inode. On btrfs and overlays its device is not that
    /// of `stat`, but that of the locks that descriptors have shown.
    fn lines_of_table(&self, shown: &[(u32, Which, LockLine)]) -> Vec<(Which, LockLine)> {
        let text = fs::read_to_string("/proc/locks").unwrap_or_default();
        let lines = lock_text::parse_table(&text).into_iter();
        let is_of = |file: &FileFacts, line: &LockLine| {
            file.identity.is_some_and(|identity| {
                let by_stat = identity.device_numbers();
                let is_shown = shown.iter().any(|(_, which, it)| {
                    *which == file.which && it.device == line.device && it.inode == line.inode
                });
                line.inode == identity.inode && (line.device == by_stat || is_shown)
            })
        };
        let which = |line: &LockLine| self.files.iter().find(|file| is_of(file, line));
        lines.filter_map(|line| Some((which(&line)?.which, line))).collect()
    }
}

fn mounts_of(pid: &str) -> Option<PathBuf> {
    fs::read_link(format!("/proc/{pid}/ns/mnt")).ok()
}

/// A path without an ending that it has.
fn without_ending<'p>(path: &'p Path, ending: &str) -> Option<&'p Path> {
    let bytes = path.as_os_str().as_bytes().strip_suffix(ending.as_bytes())?;
    Some(Path::new(OsStr::from_bytes(bytes)))
}

fn word_of(pid: u32, file: &str) -> String {
    let bytes = fs::read(format!("/proc/{pid}/{file}")).unwrap_or_default();
    bytes_text(bytes.trim_ascii_end())
}

/// The words of the command line, with blanks between them.
fn command_of(pid: u32) -> String {
    let bytes = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let words = bytes.split(|&byte| byte == 0).filter(|word| !word.is_empty());
    words.map(bytes_text).collect::<Vec<_>>().join(" ")
}

fn libraries_of(pid: u32, effort: &mut Effort) -> Vec<Library> {
    // The text may have bytes that are not UTF-8: file names.
    let text = fs::read(format!("/proc/{pid}/maps")).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let program = fs::read_link(format!("/proc/{pid}/exe")).ok();
    let files = maps::files(&text, program.as_deref().and_then(Path::to_str)).into_iter();
    files
        .filter_map(|file| {
            let contents = versions::of_file(pid, &file, effort);
            let holds_sqlite = contents.as_ref().map(|it| it.holds_sqlite);
            let version = contents.and_then(|it| it.version);
            let number = version.as_deref().and_then(versions::number);
            let has_wal_reset_bug = number.map(|it| check_background_checkpoints(it).is_err());
            let path = PathBuf::from(file.path);
            let is_telling = holds_sqlite != Some(false) || file.has_telling_name();
            is_telling.then_some(Library { path, holds_sqlite, version, has_wal_reset_bug })
        })
        .collect()
}
