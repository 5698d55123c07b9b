//! The file system that a path lies on, and its meaning for a database.
//!
//! Stands under [`crate::profile`], which refuses a write-ahead log where it
//! cannot work, and under [`super`], which reports. Asks the system only:
//! `statfs`, and on Linux `statx` and `/proc/self/mountinfo`.
//!
//! Must never: open the database itself. On Unix the closing of any handle
//! drops the locks that this process holds on the file.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use serde::Serialize;

use super::mounts::{self, Mount};
use crate::vfs::device::Device;
use crate::words::path_text;

/// Final place of the bytes of a file system.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Nature {
    /// A disk of this machine (which may be a virtual one).
    Local,
    /// A disk of this machine, under layers, as in a container's image.
    Overlay,
    /// Another machine, or a disk that several machines write.
    Network,
    /// A folder of the host, lent to this virtual machine.
    SharedByHost,
    /// Memory: no file is left after a power cut.
    Memory,
    /// Unknown to this program.
    Unknown,
}

impl Nature {
    /// Returns true if a write-ahead log cannot be trusted there: its index is memory that all
    /// connections share, and machines share none.
    pub fn refuses_wal(self) -> bool {
        matches!(self, Self::Network | Self::SharedByHost)
    }
}

/// The file system under a path.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct FileSystem {
    /// Its type, as the system names it: `ext4`, `apfs`, `fuse.sshfs`; `unknown` if it does not.
    pub kind: String,
    /// Final place of its bytes.
    pub nature: Nature,
    /// Folder at which it is mounted.
    #[serde(serialize_with = "crate::words::optional_path_as_text")]
    pub mount_point: Option<PathBuf>,
    /// Source of the mount: a device, a server's folder, or a word.
    pub source: Option<String>,
    /// The options that it is mounted with.
    pub options: Vec<String>,
    /// The number of its device.
    #[serde(skip)]
    pub(crate) device: Option<(u32, u32)>,
}

impl fmt::Display for FileSystem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.kind)?;
        match &self.mount_point {
            Some(place) => write!(f, ", mounted at {}", path_text(place)),
            None => Ok(()),
        }
    }
}

impl FileSystem {
    /// The device under it, if it has one that the system names.
    pub fn disk(&self) -> Option<Device> {
        // btrfs and others show a number of their own; then what is mounted helps.
        let by_source = || device_number(Path::new(self.source.as_deref()?));
        let numbers = [self.device, by_source()];
        numbers.into_iter().flatten().find_map(Device::of_number)
    }

    /// Asks for the file system of a file or folder that is there.
    ///
    /// # Errors
    /// When `path` cannot be reached.
    pub fn of(path: &Path) -> io::Result<Self> {
        let path = dunce::canonicalize(path)?;
        let mount = mount_of(&path);
        let magic = magic_of(&path);
        Ok(Self::from_answers(mount, magic))
    }

    /// The name in the table of mounts tells more than the number: every file
    /// system in user space has the same one.
    fn from_answers(mount: Option<Mount>, magic: Magic) -> Self {
        let by_magic = KNOWN.iter().find(|it| it.magic.is_some() && it.magic == magic.number);
        let kind = match (&mount, by_magic, magic.is_local) {
            (Some(mount), ..) => mount.kind.clone(),
            (None, Some(known), _) => known.names[0].to_owned(),
            (None, None, Some(true)) => "local".to_owned(),
            (None, None, Some(false)) => "network".to_owned(),
            (None, None, None) => "unknown".to_owned(),
        };
        let nature = match (nature_of_name(&kind), magic.is_local) {
            (Nature::Unknown, Some(true)) => Nature::Local,
            (Nature::Unknown, Some(false)) => Nature::Network,
            (Nature::Unknown, None) => by_magic.map_or(Nature::Unknown, |known| known.nature),
            (known, _) => known,
        };
        let (mount_point, source, options, device) = match mount {
            Some(it) => (Some(it.place), Some(it.source), it.options, Some(it.device)),
            None => (None, None, Vec::new(), None),
        };
        Self { kind, nature, mount_point, source, options, device }
    }
}

/// Answer of `statfs` about the type.
#[derive(Debug, Clone, Copy, Default)]
struct Magic {
    /// The file system's number, which Linux tells.
    number: Option<u32>,
    /// True if it is in this machine, which macOS tells.
    is_local: Option<bool>,
}

#[cfg(target_os = "linux")]
fn magic_of(path: &Path) -> Magic {
    let number = rustix::fs::statfs(path).ok().map(|it| it.f_type as u32);
    Magic { number, is_local: None }
}

#[cfg(target_vendor = "apple")]
fn magic_of(path: &Path) -> Magic {
    /// `MNT_LOCAL` of `<sys/mount.h>`.
    const IS_LOCAL: u32 = 0x1000;
    let is_local = rustix::fs::statfs(path).ok().map(|it| it.f_flags & IS_LOCAL != 0);
    Magic { number: None, is_local }
}

#[cfg(not(any(target_os = "linux", target_vendor = "apple")))]
fn magic_of(_path: &Path) -> Magic {
    Magic::default()
}

#[cfg(target_os = "linux")]
fn mount_of(path: &Path) -> Option<Mount> {
    use rustix::fs::{AtFlags, CWD, StatxFlags, statx};

    let mounts = mounts::parse(&crate::vfs::locks::read("/proc/self/mountinfo").ok()?);
    let answer = statx(CWD, path, AtFlags::empty(), StatxFlags::MNT_ID).ok();
    let has_id = |mask: u32| mask & StatxFlags::MNT_ID.bits() != 0;
    let id = answer.filter(|it| has_id(it.stx_mask)).map(|it| it.stx_mnt_id);
    mounts::holding(&mounts, id, path).cloned()
}

#[cfg(not(target_os = "linux"))]
fn mount_of(path: &Path) -> Option<Mount> {
    // Other systems have no such file.
    let mounts = mounts::parse(b"");
    mounts::holding(&mounts, None, path).cloned()
}

/// A type of file system: its names, its number (if it has one of its
/// own), and where its bytes are.
struct Known {
    names: &'static [&'static str],
    magic: Option<u32>,
    nature: Nature,
}

const fn known(names: &'static [&'static str], magic: u32, nature: Nature) -> Known {
    Known { names, magic: Some(magic), nature }
}

/// File systems in user space all have one number.
const fn named(names: &'static [&'static str], nature: Nature) -> Known {
    Known { names, magic: None, nature }
}

/// Names as in `/proc/filesystems`, numbers as in `<linux/magic.h>`.
const KNOWN: &[Known] = &[
    known(&["ext4", "ext3", "ext2"], 0xEF53, Nature::Local),
    known(&["xfs"], 0x5846_5342, Nature::Local),
    known(&["btrfs"], 0x9123_683E, Nature::Local),
    known(&["f2fs"], 0xF2F5_2010, Nature::Local),
    known(&["zfs"], 0x2FC1_2FC1, Nature::Local),
    known(&["bcachefs"], 0xCA45_1A4E, Nature::Local),
    known(&["exfat"], 0x2011_BAB0, Nature::Local),
    known(&["vfat", "msdos"], 0x4D44, Nature::Local),
    known(&["ntfs3", "ntfs", "fuseblk"], 0x7366_746E, Nature::Local),
    known(&["jfs"], 0x3153_464A, Nature::Local),
    known(&["nilfs2"], 0x3434, Nature::Local),
    known(&["ubifs"], 0x2405_1905, Nature::Local),
    known(&["jffs2"], 0x72B6, Nature::Local),
    known(&["reiserfs"], 0x5265_4973, Nature::Local),
    known(&["ecryptfs"], 0xF15F, Nature::Local),
    known(&["hfsplus", "apfs"], 0x482B, Nature::Local),
    known(&["overlay", "overlayfs", "aufs", "fuse.fuse-overlayfs"], 0x794C_7630, Nature::Overlay),
    known(&["tmpfs"], 0x0102_1994, Nature::Memory),
    known(&["ramfs", "devtmpfs", "rootfs"], 0x8584_58F6, Nature::Memory),
    known(&["nfs", "nfs4"], 0x6969, Nature::Network),
    known(&["cifs"], 0xFF53_4D42, Nature::Network),
    known(&["smb3", "smb2"], 0xFE53_4D42, Nature::Network),
    known(&["smbfs"], 0x517B, Nature::Network),
    known(&["ncpfs"], 0x564C, Nature::Network),
    known(&["afs"], 0x5346_414F, Nature::Network),
    known(&["kafs"], 0x6B41_4653, Nature::Network),
    known(&["coda"], 0x7375_7245, Nature::Network),
    known(&["ceph"], 0x00C3_6400, Nature::Network),
    known(&["lustre"], 0x0BD0_0BD0, Nature::Network),
    known(&["gpfs"], 0x4750_4653, Nature::Network),
    known(&["beegfs"], 0x1983_0326, Nature::Network),
    known(&["pvfs2", "orangefs"], 0x2003_0528, Nature::Network),
    known(&["gfs2"], 0x0116_1970, Nature::Network),
    known(&["ocfs2"], 0x7461_636F, Nature::Network),
    known(&["9p", "drvfs"], 0x0102_1997, Nature::SharedByHost),
    known(&["vboxsf"], 0x786F_4256, Nature::SharedByHost),
    known(&["vmhgfs"], 0xBACB_ACBC, Nature::SharedByHost),
    known(&["prl_fs"], 0x7C7C_6673, Nature::SharedByHost),
    named(&["fuse.vmhgfs-fuse", "fuse.grpcfuse", "fuse.osxfs", "fakeowner"], Nature::SharedByHost),
    named(&["fuse.sshfs", "sshfs", "fuse.curlftpfs", "fuse.davfs2", "davfs"], Nature::Network),
    named(&["fuse.glusterfs", "fuse.ceph", "fuse.ceph-fuse", "fuse.moosefs"], Nature::Network),
    named(&["fuse.juicefs", "fuse.seaweedfs", "fuse.gvfsd-fuse", "fuse.smbnetfs"], Nature::Network),
    named(&["fuse.s3fs", "fuse.rclone", "fuse.gcsfuse", "fuse.blobfuse2"], Nature::Network),
    named(&["fuse.goofys", "fuse.mount-s3", "fuse.mountpoint-s3"], Nature::Network),
];

fn nature_of_name(kind: &str) -> Nature {
    let named = KNOWN.iter().find(|it| it.names.contains(&kind));
    named.map_or(Nature::Unknown, |known| known.nature)
}

/// The number of the device that a file in `/dev` stands for.
#[cfg(target_os = "linux")]
fn device_number(file: &Path) -> Option<(u32, u32)> {
    use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};

    let facts = std::fs::metadata(file).ok()?;
    let number = facts.rdev();
    facts
        .file_type()
        .is_block_device()
        .then(|| (rustix::fs::major(number), rustix::fs::minor(number)))
}

#[cfg(not(target_os = "linux"))]
fn device_number(_file: &Path) -> Option<(u32, u32)> {
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn number(number: u32) -> Magic {
        Magic { number: Some(number), is_local: None }
    }

    fn mount(kind: &str) -> Mount {
        let line = format!("1 0 8:1 / /data rw - {kind} somewhere rw");
        mounts::parse(line.as_bytes()).remove(0)
    }

    #[test]
    fn the_file_system_of_a_folder_is_known_by_name() {
        let folder = tempfile::tempdir().unwrap();
        let found = FileSystem::of(folder.path()).unwrap();
        if cfg!(target_os = "linux") {
            assert!(!found.kind.is_empty() && found.kind != "unknown", "{found:?}");
            let mount_point = found.mount_point.clone().unwrap();
            assert!(
                dunce::canonicalize(folder.path()).unwrap().starts_with(mount_point),
                "{found:?}"
            );
        }
        assert!(FileSystem::of(&folder.path().join("nothing")).is_err());
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn memory_is_told_from_a_disk() {
        let found = FileSystem::of(Path::new("/proc/self")).unwrap();
        assert_eq!(found.kind, "proc");
        if Path::new("/dev/shm").is_dir() {
            assert_eq!(FileSystem::of(Path::new("/dev/shm")).unwrap().nature, Nature::Memory);
        }
    }

    #[test]
    fn network_and_host_folders_refuse_a_log() {
        const FUSE: Magic = number(0x6573_5546);
        for (kind, magic, nature) in [
            ("nfs4", number(0x6969), Nature::Network),
            ("cifs", number(0xFF53_4D42), Nature::Network),
            ("fuse.sshfs", FUSE, Nature::Network),
            ("9p", number(0x0102_1997), Nature::SharedByHost),
            ("fuse.mine", FUSE, Nature::Unknown),
            ("ext4", number(0xEF53), Nature::Local),
            ("overlay", number(0x794C_7630), Nature::Overlay),
        ] {
            let found = FileSystem::from_answers(Some(mount(kind)), magic);
            assert_eq!((found.kind.as_str(), found.nature), (kind, nature));
            let is_far = matches!(nature, Nature::Network | Nature::SharedByHost);
            assert_eq!(found.nature.refuses_wal(), is_far);
        }
    }

    #[test]
    fn without_a_table_of_mounts_the_number_must_do() {
        let found = FileSystem::from_answers(None, number(0x6969));
        assert_eq!((found.kind.as_str(), found.nature), ("nfs", Nature::Network));
        let found = FileSystem::from_answers(None, number(12345));
        assert_eq!((found.kind.as_str(), found.nature), ("unknown", Nature::Unknown));
        let natures = [Some(false), Some(true), None].map(|is_local| {
            FileSystem::from_answers(None, Magic { number: None, is_local }).nature
        });
        assert_eq!(natures, [Nature::Network, Nature::Local, Nature::Unknown]);
    }

    #[test]
    fn no_name_and_no_number_stands_for_two_types() {
        let mut names: Vec<_> = KNOWN.iter().flat_map(|it| it.names).collect();
        let mut numbers: Vec<_> = KNOWN.iter().filter_map(|it| it.magic).collect();
        let (names_before, numbers_before) = (names.len(), numbers.len());
        names.sort();
        names.dedup();
        numbers.sort_unstable();
        numbers.dedup();
        assert_eq!((names.len(), numbers.len()), (names_before, numbers_before));
    }

    #[test]
    fn what_is_no_device_has_no_number() {
        assert_eq!(device_number(Path::new("tmpfs")), None);
        assert_eq!(device_number(Path::new("/dev/null")), None);
    }
}
