//! Identity of a file, whatever its names. No two files that exist at a time have the same.
//!
//! Windows has no call for it in the standard library; there no file has one.
//!
//! Must never: open a file, since closing it again would drop locks.

/// Device and inode: equal for two names of one file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[cfg_attr(not(unix), allow(dead_code, reason = "no file has one there"))]
pub struct FileIdentity {
    /// Number of the device, as `stat` gives it.
    pub device: u64,
    /// Number of the inode on it.
    pub inode: u64,
}

#[cfg(unix)]
impl From<&std::fs::Metadata> for FileIdentity {
    fn from(found: &std::fs::Metadata) -> Self {
        use std::os::unix::fs::MetadataExt as _;

        Self { device: found.dev(), inode: found.ino() }
    }
}

#[cfg(unix)]
impl From<&rustix::fs::Stat> for FileIdentity {
    #[allow(clippy::useless_conversion, reason = "the types differ between systems")]
    #[allow(clippy::unnecessary_cast, reason = "the types differ between systems")]
    fn from(found: &rustix::fs::Stat) -> Self {
        Self { device: found.st_dev as u64, inode: found.st_ino as u64 }
    }
}

#[cfg(target_os = "linux")]
impl From<&rustix::fs::Statx> for FileIdentity {
    fn from(found: &rustix::fs::Statx) -> Self {
        let device = rustix::fs::makedev(found.stx_dev_major, found.stx_dev_minor);
        Self { device, inode: found.stx_ino }
    }
}

#[cfg(unix)]
impl FileIdentity {
    /// The file of a name; links are followed.
    ///
    /// Linux is not asked for the times of the file. After such a question it gives the file a new
    /// time at the next write, and not only every few milliseconds (multigrain timestamps, Linux
    /// 6.13): a sync then has that to write too.
    ///
    /// # Errors
    /// The system's.
    pub fn of_name(name: &std::ffi::CStr) -> rustix::io::Result<Self> {
        #[cfg(target_os = "linux")]
        {
            use rustix::fs::{AtFlags, CWD, StatxFlags, statx};
            use rustix::io::Errno;

            match statx(CWD, name, AtFlags::empty(), StatxFlags::INO) {
                Ok(found) => return Ok(Self::from(&found)),
                // An old kernel, or a container whose rules are older than the call.
                Err(Errno::NOSYS | Errno::PERM) => {}
                Err(error) => return Err(error),
            }
        }
        rustix::fs::stat(name).map(|found| Self::from(&found))
    }

    /// The file of a descriptor. On Linux the file's server is not asked, as it may be gone: the facts
    /// that this machine has suffice.
    ///
    /// # Errors
    /// The system's.
    pub fn of_open_file(file: std::os::fd::BorrowedFd<'_>) -> rustix::io::Result<Self> {
        #[cfg(target_os = "linux")]
        {
            use rustix::fs::{AtFlags, StatxFlags, statx};
            use rustix::io::Errno;

            let flags = AtFlags::EMPTY_PATH | AtFlags::STATX_DONT_SYNC;
            match statx(file, c"", flags, StatxFlags::INO) {
                Ok(found) => return Ok(Self::from(&found)),
                Err(Errno::NOSYS | Errno::PERM) => {}
                Err(error) => return Err(error),
            }
        }
        rustix::fs::fstat(file).map(|found| Self::from(&found))
    }
}

#[cfg(target_os = "linux")]
impl FileIdentity {
    /// The numbers of the device, as `/sys` and `/proc/locks` write them.
    pub fn device_numbers(self) -> (u32, u32) {
        (rustix::fs::major(self.device), rustix::fs::minor(self.device))
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::os::fd::AsFd as _;

    use rustix::fs::{AtFlags, CWD, StatxFlags};

    use super::*;

    #[test]
    fn all_calls_give_a_file_the_same_identity_and_another_file_another() {
        let folder = tempfile::tempdir().unwrap();
        let (path, name) = (folder.path().join("a"), folder.path().join("b"));
        std::fs::write(&path, "a").unwrap();
        std::fs::hard_link(&path, &name).unwrap();
        let wanted = FileIdentity::from(&std::fs::metadata(&path).unwrap());
        assert_eq!(FileIdentity::from(&rustix::fs::stat(&name).unwrap()), wanted);
        let by_statx = rustix::fs::statx(CWD, &name, AtFlags::empty(), StatxFlags::INO).unwrap();
        assert_eq!(FileIdentity::from(&by_statx), wanted);
        let open = std::fs::File::open(&path).unwrap();
        assert_eq!(FileIdentity::of_open_file(open.as_fd()), Ok(wanted));
        let name = std::ffi::CString::new(name.as_os_str().as_encoded_bytes()).unwrap();
        assert_eq!(FileIdentity::of_name(&name), Ok(wanted));
        std::fs::remove_file(&path).unwrap();
        assert_eq!(FileIdentity::of_name(&name), Ok(wanted), "the other name is there");
        assert_eq!(FileIdentity::of_name(c"/none"), Err(rustix::io::Errno::NOENT));
        assert_eq!(wanted.device_numbers(), (by_statx.stx_dev_major, by_statx.stx_dev_minor));
        let of_folder = FileIdentity::from(&std::fs::metadata(folder.path()).unwrap());
        assert_ne!(of_folder, wanted);
    }
}
