//! Rights of the files that Leafpress makes. Folders have them too. They are never more than
//! those of the database that the files belong to.
//!
//! The one place that decides which users may read a file that is made, as the connections and the
//! table of descriptors ([`crate::locks`]) are the one place that opens files. A lint
//! (`disallowed-methods` in `clippy.toml`) keeps other ways of making one out.
//!
//! | made | rights from its creation on |
//! |---|---|
//! | a database that gets its name when it is complete | as SQLite makes a database: 0644 without the umask |
//! | the file by which writers of several processes share a database | those of the users who may read and write the database |
//! | a staged file, a copy, a lock, beside a database that is there | 0600 |
//! | a folder for copies | 0700 |
//! | a temporary file without a name | 0600, and no name can be given to it |
//! | rejects, a backup | those that the database gives both to its group and to all others, without the umask |
//! | a file of a folder of shards | as a database that is new |
//! | the lock of such a folder, and a folder in it | as the system makes a file or folder: 0666 or 0777 without the umask |
//! | a file in place of another one | those of the other one |
//!
//! Those that root makes belong to the owner of the database, as its `-journal` does, or of the folder of shards.
//!
//! Must never: make a file that has more rights first and fewer afterwards.
#![allow(clippy::disallowed_methods, reason = "the one place that makes files and folders")]

use std::fs::{self, File};
use std::io;
use std::path::Path;

#[cfg(unix)]
const OF_OWNER: u32 = 0o600;
#[cfg(unix)]
const OF_SQLITE: u32 = 0o644;
#[cfg(unix)]
const OF_ALL: u32 = 0o666;

/// Mode and owner of a file that is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rights {
    #[cfg(unix)]
    mode: u32,
    /// User and group of the database, for root to give the file to.
    #[cfg(unix)]
    owner: Option<(u32, u32)>,
}

impl Rights {
    /// The rights of a new database: those that SQLite gives, without those that the umask
    /// takes.
    pub const fn new_database() -> Self {
        Self {
            #[cfg(unix)]
            mode: OF_SQLITE,
            #[cfg(unix)]
            owner: None,
        }
    }

    /// The rights of a new database that belongs to `folder`: root gives it to the folder's owner.
    pub fn new_inside(folder: &Path) -> Self {
        #[cfg(unix)]
        if let Ok(found) = fs::metadata(folder) {
            use std::os::unix::fs::MetadataExt as _;

            // What root makes in a folder of its own keeps root's group.
            let owner = (found.uid() != 0).then(|| (found.uid(), found.gid()));
            return Self { owner, ..Self::new_database() };
        }
        let _ = folder;
        Self::new_database()
    }

    /// The rights of a file without content that all users may open who may by their umask.
    pub fn lock_inside(folder: &Path) -> Self {
        #[cfg(unix)]
        return Self { mode: OF_ALL, ..Self::new_inside(folder) };
        #[cfg(not(unix))]
        Self::new_inside(folder)
    }

    /// The rights of a file beside `database` that no other process reads: its owner's alone.
    pub fn private(database: &Path) -> Self {
        #[cfg(unix)]
        return Self { mode: OF_OWNER, ..Self::of(database) };
        #[cfg(not(unix))]
        Self::of(database)
    }

    /// The rights of a file that shows rows of `database`, which need not be there yet.
    ///
    /// The group of such a file may be another than the database's, and an access control
    /// list shows as rights of the group. So what only one of the group and the others may
    /// do is left to the owner.
    pub fn of(database: &Path) -> Self {
        #[cfg(unix)]
        if let Ok(found) = fs::metadata(database) {
            use std::os::unix::fs::MetadataExt as _;

            let of_others = found.mode() & (found.mode() >> 3) & 0o006;
            let mode = OF_OWNER | of_others << 3 | of_others;
            return Self { mode, owner: Some((found.uid(), found.gid())) };
        }
        let _ = database;
        Self::new_database()
    }

    /// The rights of a file that the users open who may read and write `database`. Others may not
    /// even read it, since a lock needs no more. What the umask takes from it
    /// [`give_all`](Self::give_all) gives back.
    pub fn of_writers(database: &Path) -> Self {
        #[cfg(unix)]
        if let Ok(found) = fs::metadata(database) {
            use std::os::unix::fs::MetadataExt as _;

            let both = found.mode() & (found.mode() >> 1) & 0o222;
            return Self { mode: both | both << 1, owner: Some((found.uid(), found.gid())) };
        }
        Self::private(database)
    }

    /// Gives a file that was just made the rights that the umask took from it.
    #[cfg(unix)]
    pub fn give_all(self, made: impl std::os::fd::AsFd) {
        // Where it fails the file has fewer rights, and other users cannot open it.
        let _ = rustix::fs::fchmod(made, rustix::fs::Mode::from_raw_mode(self.mode as _));
    }

    /// Gives a file that was just made as [`private`](Self::private) the group and the rights of `former`, in
    /// whose place it is put. Where it cannot have that group, or the rights of the group may be those of an
    /// access control list, it has the rights of [`of`](Self::of).
    #[cfg(unix)]
    pub fn take_over(former: &Path, made: impl std::os::fd::AsFd) {
        use std::os::unix::fs::MetadataExt as _;

        let Ok(found) = fs::metadata(former) else { return };
        let group = rustix::fs::Gid::from_raw(found.gid());
        let _ = rustix::fs::fchown(&made, None, Some(group));
        let has_group = rustix::fs::fstat(&made).is_ok_and(|made| made.st_gid == found.gid());
        let mut rights = Self { owner: None, ..Self::of(former) };
        if has_group && !has_access_list(former) {
            rights.mode = OF_OWNER | found.mode() & OF_ALL;
        }
        rights.give_all(made);
    }

    /// The mode to create a file with; the system takes from it what the umask says.
    #[cfg(unix)]
    pub fn mode(self) -> u32 {
        self.mode
    }

    /// Gives a file that was just made to the database's owner, where this process may.
    #[cfg(unix)]
    pub fn give_away(self, made: impl std::os::fd::AsFd) {
        use rustix::fs::{Gid, Uid};

        let Some((user, group)) = self.owner else { return };
        if rustix::process::geteuid().is_root() {
            // Where it fails the file stays root's own, which is less.
            let owner = (Some(Uid::from_raw(user)), Some(Gid::from_raw(group)));
            let _ = rustix::fs::fchown(made, owner.0, owner.1);
        }
    }
}

/// Returns true for a file with an access control list, or if that cannot be told.
#[cfg(any(target_os = "linux", target_os = "android"))]
fn has_access_list(path: &Path) -> bool {
    use rustix::io::Errno;

    // A list does not fit one byte, which is an error of its own.
    let read = rustix::fs::getxattr(path, "system.posix_acl_access", &mut [0][..]);
    !matches!(read, Err(Errno::NODATA | Errno::OPNOTSUPP))
}

/// Returns false: elsewhere a list does not change the mode of its file.
#[cfg(all(unix, not(any(target_os = "linux", target_os = "android"))))]
fn has_access_list(_: &Path) -> bool {
    false
}

/// Makes a folder below `above`, which root gives to the owner of that.
///
/// # Errors
/// The system's; `AlreadyExists` where something has that name.
pub fn make_folder_below(folder: &Path, above: &Path) -> io::Result<()> {
    fs::create_dir(folder)?;
    #[cfg(unix)]
    give_folder_away(folder, Rights::new_inside(above));
    let _ = above;
    Ok(())
}

/// Gives a folder that was just made away.
#[cfg(unix)]
fn give_folder_away(folder: &Path, rights: Rights) {
    use rustix::fs::{Mode, OFlags};

    let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::RDONLY;
    if let Ok(made) = rustix::fs::open(folder, flags, Mode::empty()) {
        rights.give_away(made);
    }
}

/// Makes a folder beside `database` that no other user may look into.
///
/// # Errors
/// The system's; `AlreadyExists` where something has that name.
pub fn make_private_folder(folder: &Path, database: &Path) -> io::Result<()> {
    #[cfg(unix)]
    {
        rustix::fs::mkdir(folder, rustix::fs::Mode::RWXU)?;
        give_folder_away(folder, Rights::private(database));
        Ok(())
    }
    #[cfg(not(unix))]
    {
        let _ = database;
        fs::create_dir(folder)
    }
}

/// Makes a file without a name in `folder`, which goes with its last descriptor.
///
/// # Errors
/// The system's.
pub fn unnamed_file(folder: &Path) -> io::Result<File> {
    #[cfg(unix)]
    crate::streams::occupy()?;
    #[cfg(target_os = "linux")]
    {
        use rustix::fs::{Mode, OFlags};
        use rustix::io::Errno;

        // With EXCL no name can be given to it later.
        let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::EXCL | OFlags::CLOEXEC;
        match rustix::fs::open(folder, flags, Mode::RUSR | Mode::WUSR) {
            Ok(file) => return Ok(file.into()),
            // These say that the file system has no such files.
            Err(Errno::OPNOTSUPP | Errno::ISDIR | Errno::NOENT | Errno::INVAL) => {}
            Err(error) => return Err(error.into()),
        }
    }
    // Made under a random name, as 0600, and unlinked.
    tempfile::tempfile_in(folder)
}

#[cfg(all(test, unix))]
mod tests {
    use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
    use std::path::PathBuf;

    use super::*;
    use crate::locks::FileHandle;

    fn mode(path: &Path) -> u32 {
        fs::symlink_metadata(path).unwrap().mode() & 0o7777
    }

    fn database(folder: &Path, mode: u32) -> PathBuf {
        let path = folder.join(format!("{mode:o}.db"));
        fs::write(&path, "").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        path
    }

    /// One test, as the umask is the whole process's.
    #[test]
    fn what_is_made_has_no_more_rights_than_its_database_whatever_the_umask() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path();
        let before = rustix::process::umask(rustix::fs::Mode::empty());
        for (of_database, of_rejects) in [
            (0o600, 0o600),
            (0o640, 0o600),
            (0o604, 0o600),
            (0o660, 0o600),
            (0o644, 0o644),
            (0o664, 0o644),
            (0o666, 0o666),
            (0o755, 0o644),
            (0o400, 0o600),
        ] {
            let database = database(folder, of_database);
            let at = |what: &str| folder.join(format!("{of_database:o}.{what}"));
            drop(FileHandle::create(at("staged"), Rights::private(&database)).unwrap());
            drop(FileHandle::create(at("rejects"), Rights::of(&database)).unwrap());
            make_private_folder(&at("folder"), &database).unwrap();
            assert_eq!(mode(&at("staged")), 0o600, "beside {of_database:o}");
            assert_eq!(mode(&at("folder")), 0o700, "beside {of_database:o}");
            assert_eq!(mode(&at("rejects")), of_rejects, "of {of_database:o}");
        }
        drop(FileHandle::create(folder.join("new"), Rights::new_database()).unwrap());
        drop(FileHandle::create(folder.join("log"), Rights::of(&folder.join("none"))).unwrap());
        let unnamed = unnamed_file(folder).unwrap().metadata().unwrap();
        rustix::process::umask(rustix::fs::Mode::RWXG | rustix::fs::Mode::RWXO);
        drop(FileHandle::create(folder.join("secret"), Rights::new_database()).unwrap());
        let all = Rights::of(&folder.join("666.db"));
        drop(FileHandle::create(folder.join("rejects"), all).unwrap());
        rustix::process::umask(before);
        assert_eq!(mode(&folder.join("new")), 0o644, "as SQLite's");
        assert_eq!(mode(&folder.join("log")), 0o644);
        assert_eq!(unnamed.mode() & 0o7777, 0o600);
        assert_eq!(mode(&folder.join("secret")), 0o600, "the umask is obeyed");
        assert_eq!(mode(&folder.join("rejects")), 0o600, "the umask is obeyed");
    }

    /// Mode and group of a file in place of `former`.
    fn put_in_place_of(former: &Path) -> (u32, u32) {
        let new = former.with_extension("new");
        Rights::take_over(former, &*FileHandle::create(&new, Rights::private(former)).unwrap());
        (mode(&new), fs::metadata(&new).unwrap().gid())
    }

    #[test]
    fn a_file_in_place_of_another_one_has_its_rights() {
        let folder = tempfile::tempdir().unwrap();
        for (of_former, of_new) in
            [(0o600, 0o600), (0o640, 0o640), (0o664, 0o664), (0o755, 0o644), (0o400, 0o600)]
        {
            let former = database(folder.path(), of_former);
            let group = fs::metadata(&former).unwrap().gid();
            assert_eq!(put_in_place_of(&former), (of_new, group), "of {of_former:o}");
        }
    }

    /// The rights of the group that such a file shows are those of the list's mask.
    #[cfg(target_os = "linux")]
    #[test]
    fn an_access_control_list_gives_its_group_no_rights() {
        let folder = tempfile::tempdir().unwrap();
        let former = database(folder.path(), 0o600);
        let mut list = 2_u32.to_le_bytes().to_vec();
        let none = u32::MAX;
        let entries = [(1_u16, 6_u16, none), (2, 6, 1), (4, 0, none), (16, 6, none), (32, 0, none)];
        for (tag, rights, id) in entries {
            list.extend([tag.to_le_bytes(), rights.to_le_bytes()].concat());
            list.extend(id.to_le_bytes());
        }
        let flags = rustix::fs::XattrFlags::empty();
        if rustix::fs::setxattr(&former, "system.posix_acl_access", &list, flags).is_err() {
            eprintln!("SKIPPED: the file system has no access control lists");
            return;
        }
        assert_eq!(mode(&former), 0o660);
        assert_eq!(put_in_place_of(&former).0, 0o600);
    }

    #[test]
    fn a_file_that_root_makes_belongs_to_the_owner_of_the_database() {
        if !rustix::process::geteuid().is_root() {
            eprintln!("SKIPPED: only root can give files away");
            return;
        }
        let folder = tempfile::tempdir().unwrap();
        let database = database(folder.path(), 0o600);
        std::os::unix::fs::chown(&database, Some(65_533), Some(65_532)).unwrap();
        let (staged, copies) = (folder.path().join("staged"), folder.path().join("copies"));
        drop(FileHandle::create(&staged, Rights::private(&database)).unwrap());
        make_private_folder(&copies, &database).unwrap();
        for made in [staged, copies] {
            let found = fs::metadata(&made).unwrap();
            assert_eq!((found.uid(), found.gid()), (65_533, 65_532), "{}", made.display());
        }
    }
}
