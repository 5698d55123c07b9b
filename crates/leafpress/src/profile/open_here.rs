//! Databases that writers of this process have open, and the logs of those that lost their name.
//!
//! Another profile must not change the journal mode under a writer. And a log does not say which
//! file it belongs to: SQLite plays it into the file that has the name now. If that is another file,
//! its pages are overwritten by those of the old one. So a writer notes the files beside its database
//! here, and every opening asks if the log beside its file is that of another one.
//!
//! Must never: open a database, or refuse a log that belongs to the file beside it.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use super::Profile;
use crate::error::{Error, Result};
use crate::fork::{Process, Turn};
use crate::paths::companion_of;
use crate::sync::lock;
use crate::vfs::FileIdentity;
use crate::vfs::locks::FileHandle;
use crate::words::path_text;

/// All that were noted. Used in [`Turn::OpenHere`] only.
static NOTED: Mutex<Vec<Arc<Noted>>> = Mutex::new(Vec::new());

/// A database, and the files that belong to it.
#[derive(Debug)]
struct Noted {
    path: PathBuf,
    database: FileIdentity,
    profile: Profile,
    process: Process,
    /// Its log and the index of that, if they were there.
    beside: Vec<(PathBuf, FileIdentity)>,
    /// The files that stand beside another database now, once a writer has seen that. They are open,
    /// so that the system gives their identities to no other files.
    left_behind: Mutex<Option<Vec<FileHandle>>>,
}

/// Note of a database that is open, until it is dropped.
#[derive(Debug)]
pub(crate) struct OpenHere {
    noted: Arc<Noted>,
}

impl OpenHere {
    /// Notes a database that a writer has just opened at `path`, with links resolved. `None` if files
    /// have no identities here.
    pub(crate) fn note(path: &Path, profile: Profile) -> Option<Self> {
        let database = identity_of(path)?;
        let beside = ["-wal", "-shm"].map(|suffix| companion_of(path, suffix));
        let beside: Vec<_> =
            beside.into_iter().filter_map(|it| identity_of(&it).map(|found| (it, found))).collect();
        let (path, process, left_behind) = (path.to_owned(), Process::current(), Mutex::default());
        let noted = Arc::new(Noted { path, database, profile, process, beside, left_behind });
        let _turn = Turn::OpenHere.take();
        lock(&NOTED).push(Arc::clone(&noted));
        Some(Self { noted })
    }

    /// Tells which files of the database stand beside another one that has its name now, if there are
    /// any. Their note stays for good then.
    pub(crate) fn leave_behind(&self) -> Option<String> {
        let left = self.noted.left_beside_another();
        if left.is_empty() {
            return None;
        }
        // Before the turn: a file server's lease may hold the opening up, and with the turn each fork.
        let open = left.iter().filter_map(|path| FileHandle::open(path).ok()).collect();
        let _turn = Turn::OpenHere.take();
        lock(&self.noted.left_behind).get_or_insert(open);
        Some(listed(&left))
    }
}

impl Drop for OpenHere {
    fn drop(&mut self) {
        // The last look may be a while ago.
        if self.leave_behind().is_none() {
            let _turn = Turn::OpenHere.take();
            lock(&NOTED).retain(|it| !Arc::ptr_eq(it, &self.noted));
        }
    }
}

impl Noted {
    fn is_left_behind(&self) -> bool {
        lock(&self.left_behind).is_some()
    }

    /// The files that stand where they stood, while another file has the name of the database.
    fn left_beside_another(&self) -> Vec<&Path> {
        if identity_of(&self.path).is_none_or(|now| now == self.database) {
            return Vec::new();
        }
        let is_there = |it: &&(PathBuf, FileIdentity)| identity_of(&it.0) == Some(it.1);
        self.beside.iter().filter(is_there).map(|it| it.0.as_path()).collect()
    }
}

/// Refuses to open the file at `path` beside the log of another file, which had its name while this
/// process had it open.
///
/// # Errors
/// [`ErrorKind::Destination`](crate::ErrorKind::Destination); nothing was changed.
pub(crate) fn refuse_log_of_another(path: &Path) -> Result<()> {
    let Ok(path) = dunce::canonicalize(path) else { return Ok(()) };
    let _turn = Turn::OpenHere.take();
    let mut noted = lock(&NOTED);
    // Those that were left behind are forgotten once they were moved away.
    noted.retain(|it| {
        it.path != path || !it.is_left_behind() || !it.left_beside_another().is_empty()
    });
    for it in noted.iter().filter(|it| it.path == path) {
        let left = it.left_beside_another();
        if !left.is_empty() {
            return Err(refusal(&path, &listed(&left)));
        }
    }
    Ok(())
}

/// Refuses a profile that would change the journal mode under an open writer of this process.
///
/// # Errors
/// [`ErrorKind::Destination`](crate::ErrorKind::Destination); nothing was changed.
pub(super) fn refuse_another_journal(path: &Path, profile: Profile) -> Result<()> {
    let Some(database) = identity_of(path) else { return Ok(()) };
    let _turn = Turn::OpenHere.take();
    let noted = lock(&NOTED);
    let is_in_the_way = |it: &&Arc<Noted>| {
        it.database == database
            && it.profile.is_wal() != profile.is_wal()
            && it.process.is_current()
            && !it.is_left_behind()
    };
    let Some(open) = noted.iter().find(is_in_the_way) else { return Ok(()) };
    let reason = format!(
        "is open in a writer of this process under profile {}, which keeps journal mode {}, and \
         profile {profile} would change that to {}",
        open.profile,
        open.profile.journal_mode(),
        profile.journal_mode()
    );
    let error = Error::destination(path, reason);
    Err(error.to_do("close that writer first, or choose its profile"))
}

fn refusal(path: &Path, left: &str) -> Error {
    let reason = format!(
        "has taken the name of a database that this process has or had open, and {left} beside it \
         still belongs to that one: SQLite would write its pages into this file"
    );
    Error::destination(path, reason).on_disk("nothing was changed").to_do(format!(
        "close what has the old database open, move {left} away (with the old database they \
             hold its last transactions), and open it again"
    ))
}

/// Paths in a sentence.
fn listed(paths: &[&Path]) -> String {
    let paths: Vec<String> = paths.iter().map(path_text).collect();
    paths.join(" and ")
}

/// The file that has this name, as far as the system tells.
#[cfg(unix)]
pub(crate) fn identity_of(path: &Path) -> Option<FileIdentity> {
    use std::os::unix::ffi::OsStrExt as _;

    let name = std::ffi::CString::new(path.as_os_str().as_bytes()).ok()?;
    FileIdentity::of_name(&name).ok()
}

/// Windows does not let go of the name of a file that is open.
#[cfg(not(unix))]
pub(crate) fn identity_of(_path: &Path) -> Option<FileIdentity> {
    None
}
