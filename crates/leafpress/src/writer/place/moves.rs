//! Notices of the kernel that a file, or a folder above it, got another name or none (inotify).
//!
//! To ask for notices takes a third of the time of one look at a name. The kernel makes a notice
//! before the call returns that changed the name, in this process or another one. It makes none
//! for names that another machine changes, and none if another file system is mounted over a
//! folder.
//!
//! Must never: say that nothing has changed where the kernel would not tell.

use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::fs::inotify::{CreateFlags, WatchFlags, add_watch, init};
use rustix::io::{Errno, read};

use crate::storage::{FileSystem, Nature};

/// Bytes of notices that are fetched at once.
const FETCHED_BYTES: usize = 1024;

/// The notices about some files.
#[derive(Debug)]
pub(super) struct Moves {
    notices: OwnedFd,
}

impl Moves {
    /// Notices about these files from now on. `None` if the kernel does not tell all: a file system
    /// of another machine, a path with a link in it, a limit of the system.
    pub(super) fn of<'p>(files: impl IntoIterator<Item = &'p Path>) -> Option<Self> {
        let notices = init(CreateFlags::NONBLOCK | CreateFlags::CLOEXEC).ok()?;
        let moves = Self { notices };
        files.into_iter().try_for_each(|file| moves.add(file))?;
        Some(moves)
    }

    fn add(&self, file: &Path) -> Option<()> {
        let is_told = |nature| matches!(nature, Nature::Local | Nature::Memory);
        if dunce::canonicalize(file).ok()? != file || !is_told(FileSystem::of(file).ok()?.nature) {
            return None;
        }
        // A file that loses a name has one link less, which is an attribute.
        let of_file = WatchFlags::ATTRIB | WatchFlags::MOVE_SELF | WatchFlags::DELETE_SELF;
        let of_folder = WatchFlags::MOVE_SELF | WatchFlags::DELETE_SELF;
        add_watch(&self.notices, file, of_file).ok()?;
        let mut folders = file.ancestors().skip(1);
        folders.try_for_each(|folder| add_watch(&self.notices, folder, of_folder).map(drop)).ok()
    }

    /// Returns true if there was a notice since the last call, or if notices cannot be read.
    pub(super) fn any(&self) -> bool {
        let mut fetched = [0; FETCHED_BYTES];
        read(&self.notices, &mut fetched) != Err(Errno::AGAIN)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::Write as _;

    use super::*;

    /// Notices about `data/a.db` in a new folder, if the kernel tells.
    fn watched() -> Option<(tempfile::TempDir, Moves)> {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("data/a.db");
        fs::create_dir(folder.path().join("data")).unwrap();
        fs::write(&file, "a").unwrap();
        let moves = Moves::of([file.as_path()]);
        if moves.is_none() {
            let why = format!("the kernel tells nothing about {}", file.display());
            leafpress_testing::say_skipped(why);
        }
        Some((folder, moves?))
    }

    /// A change in a folder.
    type Change = fn(&Path);

    #[test]
    fn what_changes_a_name_is_told_before_the_call_returns() {
        let ways: [(&str, Change); 6] = [
            ("deleted", |folder| fs::remove_file(folder.join("data/a.db")).unwrap()),
            ("moved", |folder| {
                fs::rename(folder.join("data/a.db"), folder.join("data/b.db")).unwrap();
            }),
            ("replaced", |folder| {
                fs::write(folder.join("b.db"), "b").unwrap();
                fs::rename(folder.join("b.db"), folder.join("data/a.db")).unwrap();
            }),
            ("deleted, with another name", |folder| {
                fs::hard_link(folder.join("data/a.db"), folder.join("b.db")).unwrap();
                fs::remove_file(folder.join("data/a.db")).unwrap();
            }),
            ("folder moved", |folder| {
                fs::rename(folder.join("data"), folder.join("other")).unwrap();
            }),
            ("folder deleted", |folder| fs::remove_dir_all(folder.join("data")).unwrap()),
        ];
        for (name, change) in ways {
            let Some((folder, moves)) = watched() else { return };
            assert!(!moves.any(), "{name}");
            change(folder.path());
            assert!(moves.any(), "{name}");
            // Many notices take several calls.
            while moves.any() {}
        }
    }

    #[test]
    fn a_folder_above_the_temporary_one_is_watched_too() {
        let folder = tempfile::tempdir().unwrap();
        let deep = folder.path().join("a/b/c");
        fs::create_dir_all(&deep).unwrap();
        fs::write(deep.join("a.db"), "a").unwrap();
        let Some(moves) = Moves::of([deep.join("a.db").as_path()]) else { return };
        fs::rename(folder.path().join("a"), folder.path().join("z")).unwrap();
        assert!(moves.any());
    }

    #[test]
    fn writes_and_other_files_are_not_told() {
        let Some((folder, moves)) = watched() else { return };
        let file = folder.path().join("data/a.db");
        let mut open = fs::OpenOptions::new().append(true).open(&file).unwrap();
        open.write_all(b"more").unwrap();
        open.sync_all().unwrap();
        open.set_len(1).unwrap();
        fs::write(folder.path().join("data/a.db-journal"), "j").unwrap();
        fs::remove_file(folder.path().join("data/a.db-journal")).unwrap();
        assert!(!moves.any());
    }

    #[test]
    fn a_path_with_a_link_in_it_is_not_watched() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("data")).unwrap();
        fs::write(folder.path().join("data/a.db"), "a").unwrap();
        std::os::unix::fs::symlink("data", folder.path().join("link")).unwrap();
        assert!(Moves::of([folder.path().join("link/a.db").as_path()]).is_none());
        assert!(Moves::of([folder.path().join("data/none.db").as_path()]).is_none());
    }
}
