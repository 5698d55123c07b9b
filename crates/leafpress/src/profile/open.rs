//! Opens a database under a profile, or says why that cannot be.
//!
//! Stands under the Writer and everything else that writes to a database in
//! use. The order matters, and works on new and on existing files:
//!
//! | step | why here |
//! |---|---|
//! | look at the path | what the file system says is clearer than SQLite's errors |
//! | open, busy timeout | from here on others may hold locks |
//! | less memory, if asked for | before any statement, which would hold on to it |
//! | read header and schema | a hot journal is rolled back; what is no database shows |
//! | synchronous EXTRA | invariant 2: the next step writes |
//! | page size, journal mode | the size first: a log fixes it |
//! | the lock, if no other connection may use it | no journal mode can be changed under others |
//! | the profile's own settings | they belong to the connection |
//! | read everything back | invariant 1 |
//! | write a log that is left again | commits behind bytes that the disk lacks would be lost |
//!
//! Must never: open the database file itself, take a `file:` URI for a path, or
//! remove a file.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use rusqlite::{Connection, ErrorCode, MAIN_DB, OpenFlags};

use super::Profile;
use super::in_force::{InForce, needs_full_fsync, whole_milliseconds};
use super::locking;
use super::open_here::{refuse_another_journal, refuse_log_of_another};
use super::page_writes::{AtomicWish, check_wish, vfs_for};
use super::second_name::refuse_second_name;
use super::settings::{JournalMode, Locking, Synchronous, ask};
use crate::connect;
use crate::error::{Error, ErrorKind, Result};
use crate::failed_sync::{leave_found_log, make_log_whole};
use crate::paths::{companion_of, folder_of};
use crate::refusal::{
    Refusal, holds_something, not_readable, refuse_odd_companions, refuse_unless_file,
    refuse_unless_path, why_not_synced, why_not_writable,
};
use crate::storage::FileSystem;
use crate::vfs::{database_file, locks};
use crate::words::path_text;

const AS_IT_WAS: &str = "the database is as it was";
/// SQLite does not wait by itself where a journal mode is changed.
const TRY_AGAIN_EVERY: Duration = Duration::from_millis(5);
/// More links in a row than any system follows.
const LINKS_MAX: usize = 40;

/// Request for the opening of a database.
#[derive(Debug, Clone)]
#[non_exhaustive]
#[must_use]
pub struct ProfileRequest {
    /// The promise to be kept.
    pub profile: Profile,
    /// The explicit word without which [`Profile::Rebuildable`] is refused:
    /// the caller can make the file anew.
    pub may_be_rebuilt: bool,
    /// Name of a registered VFS to go through. What the file system could tell
    /// is then not asked, since only the VFS knows where its files are.
    pub vfs: Option<String>,
    /// Longest wait for others' locks (5 s unless set).
    pub busy_timeout: Duration,
    /// Bytes in a page of a new database; one that exists keeps its own.
    pub page_size: Option<u32>,
    /// True if foreign keys are to be enforced; `None` leaves SQLite's own default.
    pub foreign_keys: Option<bool>,
    /// Wish for transactions of one page that are written in place, without a journal: under
    /// [`Profile::Rollback`] on Linux, and where no `vfs` is named. The connection then goes
    /// through Leafpress's own VFS ([`leafpress_vfs`](crate::vfs::leafpress_vfs)).
    /// [`AtomicWish::Assume`] is refused elsewhere, the others have no meaning there.
    pub atomic: AtomicWish,
    /// Connections that may use the database beside this one. [`Locking::Exclusive`] is for
    /// profiles without a write-ahead log: the checkpointer and readers are connections of their
    /// own.
    pub locking: Locking,
    /// Less memory for this connection, as [`memory::shrink`](crate::memory::shrink) does it,
    /// for devices where a few hundred kilobytes matter.
    pub small: bool,
}

impl Default for ProfileRequest {
    fn default() -> Self {
        Self {
            profile: Profile::default(),
            may_be_rebuilt: false,
            vfs: None,
            busy_timeout: Duration::from_secs(5),
            page_size: None,
            foreign_keys: None,
            atomic: AtomicWish::default(),
            locking: Locking::default(),
            small: false,
        }
    }
}

impl From<Profile> for ProfileRequest {
    fn from(profile: Profile) -> Self {
        Self { profile, ..Self::default() }
    }
}

impl ProfileRequest {
    /// A request for a profile, with all else as by default.
    pub fn new(profile: Profile) -> Self {
        profile.into()
    }

    /// Says that the caller can make the file anew, as [`Profile::Rebuildable`] needs.
    pub fn rebuildable_ok(mut self) -> Self {
        self.may_be_rebuilt = true;
        self
    }

    /// Goes through the registered VFS of this name.
    pub fn vfs(mut self, name: impl Into<String>) -> Self {
        self.vfs = Some(name.into());
        self
    }

    /// Sets the longest wait for others' locks.
    pub fn busy_timeout(mut self, wait: Duration) -> Self {
        self.busy_timeout = wait;
        self
    }

    /// Sets the bytes in a page of a new database.
    pub fn page_size(mut self, bytes: u32) -> Self {
        self.page_size = Some(bytes);
        self
    }

    /// Enforces foreign keys, or does not.
    pub fn foreign_keys(mut self, enforced: bool) -> Self {
        self.foreign_keys = Some(enforced);
        self
    }

    /// Sets the wish for pages that are written in place.
    pub fn atomic(mut self, wish: AtomicWish) -> Self {
        self.atomic = wish;
        self
    }

    /// Sets the connections that may use the database beside this one.
    pub fn locking(mut self, locking: Locking) -> Self {
        self.locking = locking;
        self
    }

    /// Asks for less memory.
    pub fn small(mut self) -> Self {
        self.small = true;
        self
    }
}

/// Opens a database for reading and writing under a profile, and makes it if
/// it is missing.
///
/// A database that is there is turned to the profile's journal mode, which needs that no other
/// connection uses it at that moment. All settings are read back; [`InForce`] says what they are.
///
/// ```
/// use leafpress::profile::{self, ProfileRequest};
/// use leafpress::Profile;
///
/// # let folder = tempfile::tempdir().unwrap();
/// # let path = folder.path().join("app.db");
/// let (connection, in_force) = profile::open(&path, &Profile::Durable.into())?;
/// connection.execute_batch("CREATE TABLE events(at, what)").unwrap();
/// println!("{in_force}");
///
/// let careless = ProfileRequest::new(Profile::Rebuildable);
/// assert!(profile::open(&path, &careless).is_err());
/// # Ok::<(), leafpress::Error>(())
/// ```
///
/// # Errors
/// Refused are: [`Profile::Rebuildable`] without the word, what is no database,
/// what can only be read, a write-ahead log where none can work (network file
/// systems, a VFS without shared memory), a journal mode that others hold on
/// to or that a writer of this process has, a log or journal whose database is gone, and a log that belongs to another file, which had
/// the name while this process had it open. The contents of the
/// database are as they were; its journal mode may have been changed already,
/// and where there was no database an empty file may stand.
pub fn open(path: impl AsRef<Path>, request: &ProfileRequest) -> Result<(Connection, InForce)> {
    let path = path.as_ref();
    let checked = refuse_unless_path(path).and_then(|()| check_request(request));
    checked.map_err(|error| error.on_disk("nothing was changed"))?;
    if request.vfs.is_none() {
        let looked_at = look_at(path, request.profile)
            .and_then(|()| refuse_another_journal(path, request.profile));
        looked_at.map_err(|error| error.on_disk("nothing was changed"))?;
    }
    locks::refuse_beside_another_copy(path)?;
    let vfs = vfs_for(path, request).map_err(|error| error.on_disk("nothing was changed"))?;
    let opening = Opening { path, request, vfs };
    let connection = opening.connect().map_err(|error| error.on_disk(AS_IT_WAS))?;
    opening.shrink_if_asked(&connection).map_err(|error| error.on_disk(AS_IT_WAS))?;
    opening.read_header(&connection).map_err(|error| error.on_disk(AS_IT_WAS))?;
    opening.refuse_read_only_log(&connection).map_err(|error| error.on_disk(AS_IT_WAS))?;
    opening.make_log_whole(&connection).map_err(|error| error.on_disk(AS_IT_WAS))?;
    opening.change_database(&connection).map_err(|error| error.on_disk(AS_IT_WAS))?;
    let in_force = opening.settle(&connection).map_err(|error| {
        error.on_disk("the database holds what it held; its journal mode may have been changed")
    })?;
    if !in_force.not_durable.is_empty() && request.profile != Profile::Rebuildable {
        let (profile, why) = (request.profile, in_force.not_durable.join("; "));
        tracing::warn!(path = %path_text(path), %profile, %why, "nothing here survives a power cut");
    }
    Ok((connection, in_force))
}

/// Opens a database for reading only.
///
/// The connection refuses to write (`query_only`), never makes a checkpoint,
/// and keeps the 5 s for which SQLite waits for a lock here. In WAL mode the
/// files `-wal` and `-shm` beside the database may be made. If a user makes them who may not write
/// to the database, they stay, and have to be removed before others can write.
///
/// # Errors
/// When there is no database, or SQLite cannot read it. Nothing was changed.
pub fn open_reader(path: impl AsRef<Path>, vfs: Option<&str>) -> Result<Connection> {
    let path = path.as_ref();
    refuse_unless_path(path).map_err(|error| error.on_disk(AS_IT_WAS))?;
    if vfs.is_none() {
        refuse_what_is_no_file(path).map_err(|error| error.on_disk(AS_IT_WAS))?;
        fs::metadata(path).map_err(|source| {
            Error::io("open", path, source)
                .on_disk("there is no database")
                .to_do("check the name, or let a writer make it first")
        })?;
        refuse_odd_companions(path).map_err(|error| error.on_disk(AS_IT_WAS))?;
        refuse_log_of_another(path)?;
        refuse_second_name(path)?;
    }
    let request = ProfileRequest { vfs: vfs.map(str::to_owned), ..ProfileRequest::default() };
    let opening = Opening { path, request: &request, vfs: request.vfs.clone() };
    let connection =
        opening.connect_with(connect::READ_ONLY).map_err(|error| error.on_disk(AS_IT_WAS))?;
    let prepare = || {
        opening.read_header(&connection)?;
        set(&connection, "query_only", true)?;
        set(&connection, "wal_autocheckpoint", 0)
    };
    prepare().map_err(|error: Error| error.on_disk(AS_IT_WAS))?;
    Ok(connection)
}

fn check_request(request: &ProfileRequest) -> Result<()> {
    if request.profile == Profile::Rebuildable && !request.may_be_rebuilt {
        return Err(Error::misuse(
            "profile rebuildable promises nothing: any crash, also of this process alone, can \
             destroy the whole database",
        )
        .to_do("say that the file can be made anew (rebuildable_ok), or choose another profile"));
    }
    check_wish(request)?;
    if request.locking == Locking::Exclusive && request.profile.is_wal() {
        return Err(Error::misuse(format!(
            "profile {} writes through a write-ahead log, which needs a second connection to copy \
             it into the database, and exclusive locking keeps every second one out",
            request.profile
        ))
        .to_do("choose the profile rollback, or shared locking"));
    }
    match request.page_size {
        Some(bytes) if !bytes.is_power_of_two() || !(512..=65536).contains(&bytes) => {
            Err(Error::misuse(format!("{bytes} is no page size"))
                .to_do("page sizes are 512, 1024, 2048, 4096, 8192, 16384, 32768 and 65536"))
        }
        _ => Ok(()),
    }
}

/// All that the file system alone can tell; changes nothing.
fn look_at(path: &Path, profile: Profile) -> Result<()> {
    refuse_what_is_no_file(path)?;
    let target = follow_links(path)?;
    let folder = folder_of(&target);
    let folder_facts = fs::metadata(folder);
    let is_folder = folder_facts.map_err(|source| no_folder(folder, source))?.is_dir();
    if !is_folder {
        return Err(no_folder(folder, io::ErrorKind::NotADirectory.into()));
    }
    refuse_odd_companions(&target)?;
    refuse_orphans(&target)?;
    refuse_log_of_another(&target)?;
    refuse_second_name(&target)?;
    refuse_read_only_folder(folder, &target, profile)?;
    Refusal { named: path, file: Some(&target), waited: Duration::ZERO }.unless_writable()?;
    refuse_folder_without_sync(folder, &target, profile)?;
    refuse_far_folder(folder, &target, profile)
}

fn refuse_what_is_no_file(path: &Path) -> Result<()> {
    if path.as_os_str().is_empty() {
        return Err(Error::misuse("a database in memory outlives nothing, so no profile fits it")
            .to_do("name a file"));
    }
    let facts = match fs::metadata(path) {
        Ok(facts) => facts,
        Err(source) if source.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(source) => {
            return Err(not_readable(path, source));
        }
    };
    refuse_unless_file(path, &facts)
}

/// The path at which SQLite will find or make the file: it keeps its journal and log beside that,
/// not beside the link.
fn follow_links(path: &Path) -> Result<PathBuf> {
    let mut target = path.to_owned();
    for _ in 0..LINKS_MAX {
        match fs::read_link(&target) {
            Ok(next) => target = folder_of(&target).join(next),
            Err(_) => return Ok(target),
        }
    }
    Err(refusal(path, "is a link that leads back to itself").to_do("name the database itself"))
}

fn no_folder(folder: &Path, source: io::Error) -> Error {
    Error::io("make a database in", folder, source).to_do("make the folder first")
}

/// A log or journal without its database may hold the last transactions of it, and SQLite would
/// delete it. They are looked for first: a database that is made meanwhile has its journal later
/// than its file.
fn refuse_orphans(target: &Path) -> Result<()> {
    for suffix in ["-wal", "-journal"] {
        let companion = companion_of(target, suffix);
        if holds_something(&companion) && !target.try_exists().unwrap_or(true) {
            let reason = format!(
                "is the {} of a database that is not there, and SQLite would delete it",
                if suffix == "-wal" { "write-ahead log" } else { "journal" }
            );
            return Err(refusal(&companion, &reason).to_do(format!(
                "put {} back beside it if there is a copy; else move the {suffix} file away",
                path_text(target)
            )));
        }
    }
    Ok(())
}

/// Every journal on disk needs a place beside the database.
fn refuse_read_only_folder(folder: &Path, target: &Path, profile: Profile) -> Result<()> {
    let needs_folder =
        profile.journal_mode() != JournalMode::Memory || !target.try_exists().unwrap_or(true);
    let Some(why) = why_not_writable(folder).filter(|_| needs_folder) else { return Ok(()) };
    let beside = match profile.journal_mode() {
        JournalMode::Wal => "the -wal and -shm files must be made there",
        JournalMode::Memory => "the database must be made there",
        _ => "the -journal file must be made there",
    };
    let reason = format!("cannot be written under profile {profile}: {why}, and {beside}");
    Err(Error::from(ErrorKind::ReadOnly { path: target.to_owned(), reason }).to_do(
        "change the permissions of the folder (chmod), or copy the database to one that you may \
         write to",
    ))
}

/// SQLite takes a folder that cannot be opened for synced, and a power cut could take the log's name.
fn refuse_folder_without_sync(folder: &Path, target: &Path, profile: Profile) -> Result<()> {
    let is_synced = profile.synchronous() != Synchronous::Off;
    let Some(why) = why_not_synced(folder).filter(|_| is_synced) else { return Ok(()) };
    let reason = format!("cannot be written under profile {profile}: {why}");
    Err(refusal(target, &reason)
        .to_do("change the permissions of the folder (chmod), so that you may read it"))
}

fn refuse_far_folder(folder: &Path, target: &Path, profile: Profile) -> Result<()> {
    match FileSystem::of(folder) {
        Ok(found) => refuse_far_file_system(&found, target, profile),
        // A file system that does not tell its type is not refused for that.
        Err(_) => Ok(()),
    }
}

pub(super) fn refuse_far_file_system(
    found: &FileSystem,
    target: &Path,
    profile: Profile,
) -> Result<()> {
    if !(profile.is_wal() && found.nature.refuses_wal()) {
        return Ok(());
    }
    let reason = format!(
        "lies on {found}, which is on another machine, and profile {profile} needs a write-ahead \
         log: its index is memory that all programs share, and machines share none"
    );
    Err(refusal(target, &reason)
        .to_do("put the database on a disk of this machine, or choose the profile rollback"))
}

/// One try to open one database.
struct Opening<'a> {
    path: &'a Path,
    request: &'a ProfileRequest,
    /// The VFS to go through: the caller's, or one that the profile brings along.
    vfs: Option<String>,
}

impl Opening<'_> {
    fn connect(&self) -> Result<Connection> {
        let flags = connect::READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE;
        self.connect_with(flags).inspect(leave_found_log)
    }

    fn connect_with(&self, flags: OpenFlags) -> Result<Connection> {
        let opened = connect::open_through(self.path, flags, self.vfs.as_deref());
        let connection = opened.map_err(|source| self.not_opened(source))?;
        set(&connection, "busy_timeout", whole_milliseconds(self.request.busy_timeout))?;
        Ok(connection)
    }

    fn refusal(&self) -> Refusal<'_> {
        let (named, waited) = (self.path, self.request.busy_timeout);
        Refusal { named, file: self.request.vfs.is_none().then_some(named), waited }
    }

    fn not_opened(&self, source: rusqlite::Error) -> Error {
        let error = self.refusal().error("open the database", source);
        match &self.request.vfs {
            Some(vfs) => {
                error.to_do(format!("check that the VFS '{vfs}' is registered and knows the file"))
            }
            None => error,
        }
    }

    /// Before any statement, which would hold on to the memory.
    fn shrink_if_asked(&self, connection: &Connection) -> Result<()> {
        if !self.request.small {
            return Ok(());
        }
        // If the file itself is at fault, reading its header gives a better error.
        crate::memory::shrink(connection)
            .or_else(|error| self.read_header(connection).and(Err(error)))
    }

    /// The first look: SQLite takes the lock, recovers what a crash left, and
    /// reads the schema.
    fn read_header(&self, connection: &Connection) -> Result<()> {
        let read = connection.query_row("SELECT count(*) FROM sqlite_master", [], |_| Ok(()));
        read.map_err(|source| self.not_readable(source))
    }

    /// Refuses what no connection of this process can write to, though this one was opened for it.
    fn refuse_read_only_log(&self, connection: &Connection) -> Result<()> {
        let path = database_file::path(connection);
        if !path.is_some_and(|path| locks::only_reads_log(&path)) {
            return Ok(());
        }
        let reason = "cannot be written in this process as long as a connection of it that only looks \
                      (of verify, or a view of queues) is open: it has opened the -shm file for reading, \
                      and SQLite opens that once for all connections";
        Err(refusal(self.path, reason).to_do(
            "close the connections that look, and open this one again; let them look after it is open",
        ))
    }

    /// Also where the profile has no log: SQLite copies the one that is there, and removes it.
    fn make_log_whole(&self, connection: &Connection) -> Result<()> {
        let refused = |source| self.refusal().error("write the log again", source);
        make_log_whole(connection, &|| false, refused)
    }

    fn not_readable(&self, source: rusqlite::Error) -> Error {
        self.refusal().error("read the database", source)
    }

    /// Writes the profile's settings into the database: page size and journal mode.
    fn change_database(&self, connection: &Connection) -> Result<()> {
        let is_read_only = connection.is_readonly(MAIN_DB);
        if is_read_only.map_err(|source| Error::sqlite("tell if it may write", source))? {
            return Err(self.refusal().read_only("SQLite says that it is read-only"));
        }
        set(connection, "synchronous", Synchronous::Extra as u32)?;
        if needs_full_fsync(self.request.profile) {
            set(connection, "fullfsync", true)?;
            set(connection, "checkpoint_fullfsync", true)?;
        }
        if let Some(bytes) = self.request.page_size {
            let pages: rusqlite::Result<i64> = ask(connection, "page_count");
            // Of an old one it would be changed by the next VACUUM of this connection.
            if pages.map_err(|source| self.not_readable(source))? == 0 {
                set(connection, "page_size", bytes)?;
            }
        }
        let wanted = self.request.profile.journal_mode();
        // By way of DELETE, so that the log of an older profile is gone for
        // good before a journal in memory takes over.
        if wanted == JournalMode::Memory {
            self.change_journal(connection, JournalMode::Delete)?;
        }
        self.change_journal(connection, wanted)
    }

    fn change_journal(&self, connection: &Connection, wanted: JournalMode) -> Result<()> {
        let started = Instant::now();
        loop {
            let answer: rusqlite::Result<JournalMode> =
                connection
                    .pragma_update_and_check(None, "journal_mode", wanted.name(), |row| row.get(0));
            let source = match answer {
                Ok(mode) if mode == wanted => return Ok(()),
                Ok(mode) => return Err(self.stays(mode, wanted)),
                Err(source) => source,
            };
            let code = source.sqlite_error_code();
            if !matches!(code, Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked)) {
                return Err(self.refusal().error("change the journal mode", source));
            }
            if started.elapsed() >= self.request.busy_timeout {
                let now = ask(connection, "journal_mode").unwrap_or(wanted);
                return Err(self.others_hold(now, wanted, &source));
            }
            thread::sleep(TRY_AGAIN_EVERY);
        }
    }

    fn stays(&self, mode: JournalMode, wanted: JournalMode) -> Error {
        let profile = self.request.profile;
        if wanted != JournalMode::Wal {
            let reason =
                format!("stays in journal mode {mode}, and profile {profile} needs {wanted}");
            return refusal(self.path, &reason);
        }
        let vfs = self.request.vfs.as_deref().map_or_else(String::new, |it| format!(" '{it}'"));
        let reason = format!(
            "stays in journal mode {mode}: the VFS{vfs} has no shared memory, without which there \
             is no write-ahead log, and profile {profile} needs one"
        );
        refusal(self.path, &reason).to_do("choose the profile rollback, or another VFS")
    }

    fn others_hold(
        &self,
        now: JournalMode,
        wanted: JournalMode,
        source: &rusqlite::Error,
    ) -> Error {
        let how = if wanted == JournalMode::Wal {
            format!("is in use by other connections in journal mode {now}")
        } else {
            "is open in other connections in journal mode WAL".to_owned()
        };
        let how = format!(
            "{how}, so that it cannot be changed to {wanted}, which profile {} needs",
            self.request.profile
        );
        self.held_by_another(
            &how,
            source,
            "end the other programs while it is changed, or choose a profile with their journal \
             mode: durable and relaxed are WAL, rollback is DELETE",
        )
    }

    /// The error for a database that another connection holds. `advice`: what to do about that.
    fn held_by_another(&self, how: &str, source: &rusqlite::Error, advice: &str) -> Error {
        self.refusal().locked(how, source, advice)
    }

    fn hold(&self, connection: &Connection) -> Result<()> {
        let held = locking::hold(connection, self.request.profile.journal_mode());
        held.map_err(|source| match source.sqlite_error_code() {
            Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => {
                let advice = format!(
                    "end the other connections: one that reads is in the way too, and so is one \
                     of this process; on Linux `fuser {}` names the programs that have it open; \
                     or choose shared locking",
                    path_text(self.path)
                );
                let how = "cannot be had alone: another connection is using it";
                self.held_by_another(how, &source, &advice)
            }
            _ => Error::sqlite("take the database for this connection alone", source),
        })
    }

    /// Sets what belongs to the connection, and takes the last look.
    fn settle(&self, connection: &Connection) -> Result<InForce> {
        let Self { request, .. } = self;
        if request.locking == Locking::Exclusive {
            self.hold(connection)?;
        }
        set(connection, "synchronous", request.profile.synchronous() as u32)?;
        if request.profile.is_wal() {
            set(connection, "wal_autocheckpoint", 0)?;
        }
        if let Some(wanted) = request.foreign_keys {
            set(connection, "foreign_keys", wanted)?;
        }
        // Only a connection that has read from the log keeps others from
        // turning the journal mode back.
        self.read_header(connection)?;
        let in_force = InForce::read(connection, request.profile)?;
        in_force.check()?;
        self.check_wishes(&in_force)?;
        Ok(in_force)
    }

    /// Checks the wishes besides the profile.
    fn check_wishes(&self, in_force: &InForce) -> Result<()> {
        let Self { request, .. } = self;
        if request.foreign_keys.is_some_and(|wanted| wanted != in_force.foreign_keys) {
            return Err(Error::unsupported(
                "this build of SQLite cannot change whether foreign keys are enforced",
            ));
        }
        if request.locking != in_force.locking {
            return Err(Error::unsupported(format!(
                "locking is {}, although {} was asked for",
                in_force.locking, request.locking
            )));
        }
        if request.small && !in_force.small {
            return Err(Error::unsupported("SQLite did not take the small page cache"));
        }
        Ok(())
    }
}

fn set(connection: &Connection, pragma: &str, value: impl rusqlite::ToSql) -> Result<()> {
    // Some answer with a row and some do not.
    let changed = connection.pragma_update(None, pragma, value);
    changed.map_err(|source| Error::sqlite("set up the connection", source))
}

fn refusal(path: &Path, reason: &str) -> Error {
    ErrorKind::Destination { path: path.to_owned(), reason: reason.to_owned() }.into()
}
