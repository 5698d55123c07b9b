//! An XFS file system in a file, mounted for as long as a value of it lives: XFS
//! with reflink writes pages whole, in software, on any disk (Linux 6.16 and later).
//!
//! Stands beside the plan: the experiment makes one where it was asked to, and the
//! rungs of that place run on it. Needs root and `mkfs.xfs`.
//!
//! Must never: make one that was not asked for, mount over anything but a new and
//! empty folder, or leave a mount behind after an error or a first ctrl-C.
//!
//! Invariants:
//! 1. The image loses its name as soon as it is mounted: whatever happens
//!    afterwards, its room is given back with the mount.
//! 2. The programs that mount and unmount are in a process group of their own, so
//!    that ctrl-C in a terminal cannot end one of them halfway.
//! 3. The holder of this drops it before the folder that it was made in.

use std::path::{Path, PathBuf};

use crate::error::{Error, Result};

/// Of the file that holds it; only what is written takes room.
#[cfg(target_os = "linux")]
const IMAGE_BYTES: u64 = 1 << 30;

/// Room that its log and a few small databases take on the disk that holds the image.
pub(crate) const ROOM_MB: u64 = 300;

/// A mounted file system, until it is dropped.
#[derive(Debug)]
pub(crate) struct XfsLoop {
    /// Mount point; `None` once it is not mounted any more.
    mounted_at: Option<PathBuf>,
}

impl XfsLoop {
    /// The folder that it is mounted at.
    pub(crate) fn path(&self) -> &Path {
        self.mounted_at.as_deref().unwrap_or(Path::new(""))
    }

    /// Unmounts it and removes its folder.
    ///
    /// # Errors
    /// If another process still uses it. It is then taken out of the folders all the
    /// same, and goes when that process is done.
    pub(crate) fn close(mut self) -> Result<()> {
        let Some(path) = self.mounted_at.take() else { return Ok(()) };
        unmount(&path).map_err(Error::io("unmount", &path))
    }
}

impl Drop for XfsLoop {
    fn drop(&mut self) {
        if let Some(path) = self.mounted_at.take() {
            // After an error, which says more than that this failed too.
            let _ = unmount(&path);
        }
    }
}

/// Makes a file system in a file of `folder` and mounts it beside it; or says why
/// that cannot be done here. Nothing is left in `folder` then.
pub(crate) fn mount_in(folder: &Path) -> Result<XfsLoop, String> {
    system::mount_in(folder)
}

fn unmount(path: &Path) -> std::io::Result<()> {
    system::unmount(path)
}

#[cfg(target_os = "linux")]
mod system {
    use std::ffi::OsStr;
    use std::fs::{self, File};
    use std::io;
    use std::os::unix::process::CommandExt as _;
    use std::path::Path;
    use std::process::{Command, Output, Stdio};
    use std::thread;
    use std::time::Duration;

    use super::{IMAGE_BYTES, XfsLoop};

    /// Folders of programs for root, also when the `PATH` of a root shell lacks it.
    const FOLDERS_OF_ROOT: [&str; 2] = ["/usr/sbin", "/sbin"];

    /// Desktops look through all new mounts, and are soon done.
    const UNMOUNT_TRIES: u32 = 20;
    const BETWEEN_TRIES: Duration = Duration::from_millis(100);

    pub(super) fn mount_in(folder: &Path) -> Result<XfsLoop, String> {
        if !rustix::process::geteuid().is_root() {
            return Err("mounting needs root".to_owned());
        }
        let (image, mount_point) = (folder.join("xfs.img"), folder.join("xfs"));
        let made = make_image(&image).and_then(|()| mount(&image, &mount_point));
        // Invariant 1; a failed attempt leaves nothing either.
        let _ = fs::remove_file(&image);
        made.inspect_err(|_| {
            let _ = fs::remove_dir(&mount_point);
        })?;
        Ok(XfsLoop { mounted_at: Some(mount_point) })
    }

    fn make_image(image: &Path) -> Result<(), String> {
        let file = File::create_new(image).and_then(|file| file.set_len(IMAGE_BYTES));
        file.map_err(|error| format!("cannot make {}: {error}", leafpress::path_text(image)))?;
        let words = ["-q", "-m", "reflink=1"].map(OsStr::new);
        said(run("mkfs.xfs", words.into_iter().chain([image.as_os_str()])), "mkfs.xfs")
    }

    fn mount(image: &Path, mount_point: &Path) -> Result<(), String> {
        fs::create_dir(mount_point).map_err(|error| {
            format!("cannot make {}: {error}", leafpress::path_text(mount_point))
        })?;
        let words = ["-t", "xfs", "-o", "loop"].map(OsStr::new);
        let paths = [image.as_os_str(), mount_point.as_os_str()];
        said(run("mount", words.into_iter().chain(paths)), "mount")
    }

    pub(super) fn unmount(path: &Path) -> io::Result<()> {
        let mut last = String::new();
        for _ in 0..UNMOUNT_TRIES {
            match said(run("umount", [path.as_os_str()]), "umount") {
                Ok(()) => return fs::remove_dir(path),
                Err(reason) => last = reason,
            }
            thread::sleep(BETWEEN_TRIES);
        }
        // Its users keep it, but the folder is free.
        let lazily = ["-l".as_ref(), path.as_os_str()];
        match said(run("umount", lazily), "umount -l") {
            Ok(()) => fs::remove_dir(path)?,
            Err(reason) => last = reason,
        }
        Err(io::Error::other(last))
    }

    /// Runs a program that only root has a use for.
    fn run<'a>(name: &str, words: impl IntoIterator<Item = &'a OsStr>) -> io::Result<Output> {
        let folder = FOLDERS_OF_ROOT.iter().find(|folder| Path::new(folder).join(name).exists());
        let program = folder.map_or_else(|| name.into(), |folder| Path::new(folder).join(name));
        Command::new(program)
            .args(words)
            .stdin(Stdio::null())
            .env("LC_ALL", "C")
            .process_group(0)
            .output()
    }

    /// Reason of a failure, in one line: what the program said, or why it did not run.
    fn said(output: io::Result<Output>, name: &str) -> Result<(), String> {
        match output {
            Ok(output) if output.status.success() => Ok(()),
            Ok(output) => {
                let text = String::from_utf8_lossy(&output.stderr);
                let line = text.lines().map(str::trim).find(|line| !line.is_empty());
                Err(format!("{name} failed: {}", line.unwrap_or("it does not say why")))
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                Err(format!("there is no {name} here"))
            }
            Err(error) => Err(format!("cannot run {name}: {error}")),
        }
    }

    #[cfg(test)]
    mod tests {
        use super::*;

        #[test]
        fn what_went_wrong_is_said_in_one_line() {
            let missing = said(run("leafpress-no-such-program", []), "it");
            assert_eq!(missing, Err("there is no it here".to_owned()));
            let refused = said(run("mount", ["--no-such-option".as_ref()]), "mount");
            let reason = refused.expect_err("there is no such option");
            assert!(reason.starts_with("mount failed: ") && !reason.contains('\n'), "{reason}");
        }
    }
}

#[cfg(not(target_os = "linux"))]
mod system {
    use std::io;
    use std::path::Path;

    use super::XfsLoop;

    pub(super) fn mount_in(_folder: &Path) -> Result<XfsLoop, String> {
        Err("only Linux has XFS".to_owned())
    }

    pub(super) fn unmount(_path: &Path) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn is_empty(folder: &Path) -> bool {
        fs::read_dir(folder).is_ok_and(|mut entries| entries.next().is_none())
    }

    /// On a machine that may not mount, the test is that nothing is left.
    #[test]
    fn what_was_mounted_is_gone_with_its_guard() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        for is_dropped in [true, false] {
            match mount_in(folder.path()) {
                Ok(mounted) => {
                    fs::write(mounted.path().join("a"), "b").expect("it can be written to");
                    let kind = leafpress::storage::FileSystem::of(mounted.path())
                        .expect("it is there")
                        .kind;
                    assert_eq!(kind, "xfs");
                    assert!(!folder.path().join("xfs.img").exists(), "invariant 1");
                    if is_dropped { drop(mounted) } else { mounted.close().expect("it is free") }
                }
                Err(reason) => assert!(!reason.is_empty() && !reason.contains('\n'), "{reason}"),
            }
            assert!(is_empty(folder.path()));
        }
    }

    #[test]
    fn a_mount_that_is_in_use_leaves_the_folders_all_the_same() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let Ok(mounted) = mount_in(folder.path()) else {
            assert!(is_empty(folder.path()), "a failed attempt leaves nothing");
            return;
        };
        let file = fs::File::create(mounted.path().join("a")).expect("a file");
        let error = mounted.close().expect_err("it is in use");
        assert!(error.to_string().contains("cannot unmount"), "{error}");
        assert!(is_empty(folder.path()));
        drop(file);
    }
}
