//! Members: the writers that have the file `<database>-shared` open.
//!
//! The first member makes the file, or clears it if processes that were killed have left it, and the
//! last one removes it. Only locks on bytes of the file tell which members live. The system drops them
//! with the process:
//!
//! | byte | is locked |
//! |---|---|
//! | 0 | by all members together; alone, to clear or to remove the file |
//! | 1 | by the member that syncs the log: the *baton* |
//! | 2 | by the member that makes the checkpoints, until it leaves |
//! | 1000 … | by the member of that slot |
//!
//! The users who may read and write the database may read and write the file, and no others. In a
//! sticky folder (`/tmp`) another user could put a file there first; it is not used.
//!
//! Must never: clear or remove the file while it has other members, follow a link at its place, or
//! write into a file there that is not ours.

use std::fs::{self, Metadata};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::NotJoined;
use super::page::{MAGIC, Page, SLOTS};
use crate::fork::Process;
use crate::paths::{companion_of, folder_of};
use crate::vfs::locks::{FileHandle, LockFile, Open};
use crate::vfs::rights::Rights;
use crate::vfs::shared_page::{PAGE_BYTES, SharedPage};
use crate::words::path_text;

const MEMBERS: u32 = 0;
const BATON: u32 = 1;
const CHECKPOINTS: u32 = 2;
const FIRST_SLOT: u32 = 1_000;

/// Attempts to join while others clear or remove the file, and the pause between two.
const ATTEMPTS: u32 = 2_000;
const PAUSE: Duration = Duration::from_millis(1);

/// One writer's membership: the file `-shared`, open, and the locks that this writer has on it.
#[derive(Debug)]
pub(super) struct Membership {
    process: Process,
    path: PathBuf,
    locks: LockFile,
    slot: usize,
}

/// The end of an attempt to join.
enum Attempt {
    Joined(LockFile),
    /// Another process is clearing or removing the file.
    Again,
}

impl Membership {
    /// Joins the writers of this database.
    ///
    /// # Errors
    /// The reason why this writer cannot join.
    pub(super) fn join(database: &Path) -> Result<(Self, Page), NotJoined> {
        let path = path_of(database);
        let failed = |source: &io::Error| format!("{} cannot be used: {source}", path_text(&path));
        for _ in 0..ATTEMPTS {
            match attempt(database, &path).map_err(|source| failed(&source))? {
                Attempt::Joined(locks) => return Self::joined(path, locks),
                Attempt::Again => std::thread::sleep(PAUSE),
            }
        }
        Err(format!("other processes kept {} for themselves", path_text(&path)).into())
    }

    fn joined(path: PathBuf, locks: LockFile) -> Result<(Self, Page), NotJoined> {
        let failed = |source: io::Error| format!("{} cannot be used: {source}", path_text(&path));
        let page = Page::new(SharedPage::map(locks.file()).map_err(failed)?);
        if !page.is_ready() {
            return Err(format!("{} is of another version of leafpress", path_text(&path)).into());
        }
        if page.is_broken() {
            return Err(NotJoined::SyncFailed);
        }
        for slot in 0..SLOTS {
            if locks.try_exclusive(lock_of(slot)).map_err(failed)? {
                page.clear_slot(slot);
                return Ok((Self { process: Process::current(), path, locks, slot }, page));
            }
        }
        Err(format!("{SLOTS} writers share the database already").into())
    }

    /// The slot of this member.
    pub(super) fn slot(&self) -> usize {
        self.slot
    }

    /// Number of members now.
    pub(super) fn members(&self) -> u64 {
        (0..SLOTS).filter(|&slot| !self.is_gone(slot)).count() as u64
    }

    /// Returns true if no process has this slot.
    pub(super) fn is_gone(&self, slot: usize) -> bool {
        slot != self.slot && (slot >= SLOTS || !self.locks.is_held(lock_of(slot)).unwrap_or(true))
    }

    /// Takes the baton, if no other member has it.
    pub(super) fn take_baton(&self) -> bool {
        self.locks.try_exclusive(BATON).unwrap_or(false)
    }

    pub(super) fn leave_baton(&self) {
        self.release(BATON);
    }

    /// Takes the checkpoints, if no other member makes them.
    pub(super) fn take_checkpoints(&self) -> bool {
        self.locks.try_exclusive(CHECKPOINTS).unwrap_or(false)
    }

    /// Gives all locks back, as the system does it for a process that is killed.
    #[cfg(test)]
    pub(super) fn lose_locks(&self) {
        for byte in [MEMBERS, BATON, CHECKPOINTS, lock_of(self.slot)] {
            self.release(byte);
        }
    }

    fn release(&self, byte: u32) {
        if let Err(error) = self.locks.release(byte) {
            tracing::debug!(%error, byte, "a lock could not be given back");
        }
    }
}

impl Drop for Membership {
    fn drop(&mut self) {
        if !self.process.is_current() {
            return;
        }
        self.release(lock_of(self.slot));
        // First released: of two members that leave at once, each would find the other's lock, and the
        // file would stay.
        self.release(MEMBERS);
        // Alone: no member is left, and none can join until the lock is dropped.
        if self.locks.try_exclusive(MEMBERS).unwrap_or(false)
            && self.locks.file().is_at(&self.path)
            && let Err(error) = fs::remove_file(&self.path)
        {
            tracing::debug!(%error, path = %path_text(&self.path), "the file stays");
        }
    }
}

fn path_of(database: &Path) -> PathBuf {
    companion_of(database, "-shared")
}

fn lock_of(slot: usize) -> u32 {
    FIRST_SLOT + slot as u32
}

fn attempt(database: &Path, path: &Path) -> io::Result<Attempt> {
    let file = match FileHandle::open_as(path, Open::ReadWriteNoLink) {
        Ok(file) => file,
        Err(error) if error.kind() == ErrorKind::NotFound => {
            let rights = Rights::of_writers(database);
            match FileHandle::create(path, rights) {
                Ok(file) => {
                    rights.give_all(&*file);
                    file
                }
                Err(error) if error.kind() == ErrorKind::AlreadyExists => {
                    return Ok(Attempt::Again);
                }
                Err(error) => return Err(error),
            }
        }
        Err(error) => return Err(error),
    };
    if let Some(why) = why_not_trusted(&file.metadata()?, database)? {
        return Err(io::Error::other(why));
    }
    let locks = LockFile::new(file);
    let is_alone = locks.try_exclusive(MEMBERS)?;
    if is_alone {
        if !locks.file().is_at(path) {
            return Ok(Attempt::Again);
        }
        clear(locks.file())?;
    }
    if !locks.try_shared(MEMBERS)? || !locks.file().is_at(path) || !is_cleared(locks.file())? {
        return Ok(Attempt::Again);
    }
    // A process that had the file alone may have been killed before it had cleared it.
    if !is_alone && !has_members(&locks)? {
        return Ok(Attempt::Again);
    }
    Ok(Attempt::Joined(locks))
}

/// The reason why a file may be that of a user who may not write the database; `None` if it is not.
fn why_not_trusted(file: &Metadata, database: &Path) -> io::Result<Option<&'static str>> {
    const STICKY: u32 = 0o1000;
    const ALL_MAY_WRITE: u32 = 0o002;

    if !file.is_file() {
        return Ok(Some("it is no file"));
    }
    // A link to the file of another database: its members sync another log.
    if file.nlink() > 1 {
        return Ok(Some("it has several names (hard links)"));
    }
    let folder = fs::metadata(folder_of(database))?;
    // Elsewhere a user who can put a file here can put another database here.
    let is_safe_folder = folder.mode() & STICKY == 0;
    let own = rustix::process::geteuid().as_raw();
    // Behind a VFS of the caller there need not be a file.
    let is_of_writer = fs::metadata(database)
        .is_ok_and(|it| it.uid() == file.uid() || it.mode() & ALL_MAY_WRITE != 0);
    let is_trusted = is_safe_folder || is_of_writer || [folder.uid(), own, 0].contains(&file.uid());
    Ok((!is_trusted).then_some("another user than the database's owner has made it"))
}

/// Returns true if another opening has a slot.
fn has_members(locks: &LockFile) -> io::Result<bool> {
    for slot in 0..SLOTS {
        if locks.is_held(lock_of(slot))? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Makes the file an empty page. The bytes are written, so that the disk has room for them: a page
/// for which there is none later ends the process.
fn clear(file: &FileHandle) -> io::Result<()> {
    let length = file.metadata()?.len();
    let mut magic = [0; 8];
    if length != 0 {
        file.read_exact_at(&mut magic, 0).unwrap_or_default();
        let (name, ours) = (u64::from_ne_bytes(magic).to_le_bytes(), MAGIC.to_le_bytes());
        let is_ours = name[..7] == ours[..7] || name == [0; 8];
        if length != PAGE_BYTES as u64 || !is_ours {
            return Err(io::Error::other("it is no file of leafpress"));
        }
    }
    let mut page = [0; PAGE_BYTES];
    page[..8].copy_from_slice(&MAGIC.to_ne_bytes());
    file.write_all_at(&page, 0)
}

/// Returns true if a first member has made it a page.
fn is_cleared(file: &FileHandle) -> io::Result<bool> {
    let mut magic = [0; 8];
    if file.metadata()?.len() < PAGE_BYTES as u64 {
        return Ok(false);
    }
    file.read_exact_at(&mut magic, 0)?;
    Ok(magic != [0; 8])
}

#[cfg(test)]
mod tests {
    use std::sync::Barrier;

    use super::*;

    #[test]
    fn a_file_of_another_database_or_of_a_stranger_is_not_joined() {
        use std::os::unix::fs::{PermissionsExt as _, chown};

        let folder = tempfile::tempdir().unwrap();
        let (database, other) = (folder.path().join("a.db"), folder.path().join("b.db"));
        fs::write(&database, "").unwrap();
        fs::write(&other, "").unwrap();
        let refused = || match Membership::join(&database) {
            Ok(_) => None,
            Err(NotJoined::Alone(why)) => Some(why),
            Err(NotJoined::SyncFailed) => panic!("no sync was made"),
        };
        let of_other = Membership::join(&other).ok().unwrap();
        fs::hard_link(path_of(&other), path_of(&database)).unwrap();
        assert!(refused().unwrap().contains("several names"));
        assert!(path_of(&database).exists() && of_other.0.members() == 1);
        fs::remove_file(path_of(&database)).unwrap();

        fs::write(path_of(&database), [0; PAGE_BYTES]).unwrap();
        if chown(path_of(&database), Some(4711), None).is_err() {
            return leafpress_testing::say_skipped("only root can give a file to another user");
        }
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o1777)).unwrap();
        chown(folder.path(), Some(4712), None).unwrap();
        assert!(refused().unwrap().contains("another user"));
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o700)).unwrap();
        assert_eq!(refused(), None);
    }

    #[test]
    fn members_that_leave_at_once_leave_no_file() {
        let folder = tempfile::tempdir().unwrap();
        let database = folder.path().join("a.db");
        fs::write(&database, "").unwrap();
        let join = |_| Membership::join(&database).map(|(member, _)| member).ok().unwrap();
        for round in 0..200 {
            let members: Vec<_> = (0..4).map(join).collect();
            let barrier = Barrier::new(members.len());
            std::thread::scope(|scope| {
                for member in members {
                    let barrier = &barrier;
                    scope.spawn(move || {
                        barrier.wait();
                        drop(member);
                    });
                }
            });
            assert!(!path_of(&database).exists(), "round {round}");
        }
    }
}
