//! The disk under a file system. Linux tells it in `/sys`.
//!
//! Stands under the search for whole writes, and under the library's look at a disk. Other
//! systems tell nothing here.
//!
//! Must never: guess. What the system does not tell is `None`.

use std::path::Path;

use serde::Serialize;

use crate::locks;
use crate::text::path_text;

/// A block device, or what stands for one.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Device {
    /// Its name: `nvme0n1`, `sda`, `dm-0`.
    pub name: String,
    /// The name of its maker, or the name that a device mapper gave it.
    pub model: Option<String>,
    /// It is made by software (a virtual machine's host, a loop, a device
    /// mapper), so that its facts may not hold for the disk below.
    pub is_virtual: bool,
    /// The device reports a turning platter.
    pub rotational: Option<bool>,
    /// `write back`: it may keep writes in a cache of its own until it is told
    /// to flush. `write through`: it says that it has none, or one that
    /// outlives a power cut.
    pub write_cache: Option<String>,
    /// The smallest piece that it can write, in bytes.
    pub logical_block_bytes: Option<u32>,
    /// The smallest piece that it writes without reading first, in bytes.
    pub physical_block_bytes: Option<u32>,
    /// The smallest write that the device itself does whole or not at all, in
    /// bytes; 0 if it promises none.
    pub atomic_write_unit_min_bytes: Option<u32>,
    /// The largest such write, in bytes.
    pub atomic_write_unit_max_bytes: Option<u32>,
}

impl Device {
    /// The device with this major and minor number, if the system names one.
    pub fn of_number(number: (u32, u32)) -> Option<Self> {
        Self::numbered(Path::new("/sys"), number)
    }

    fn numbered(sys: &Path, (major, minor): (u32, u32)) -> Option<Self> {
        let link = sys.join(format!("dev/block/{major}:{minor}"));
        #[allow(clippy::disallowed_methods, reason = "/sys is Linux's")]
        let own = link.canonicalize().ok()?;
        // A partition's queue is that of its disk.
        let disk = if own.join("partition").exists() { own.parent()?.to_owned() } else { own };
        let name = path_text(disk.file_name()?);
        let queue = disk.join("queue");
        Some(Self {
            model: word(&disk.join("device/model")).or_else(|| word(&disk.join("dm/name"))),
            is_virtual: is_virtual(&name, &disk),
            rotational: number(&queue.join("rotational")).map(|it| it != 0),
            write_cache: word(&queue.join("write_cache")),
            logical_block_bytes: number(&queue.join("logical_block_size")),
            physical_block_bytes: number(&queue.join("physical_block_size")),
            atomic_write_unit_min_bytes: number(&queue.join("atomic_write_unit_min_bytes")),
            atomic_write_unit_max_bytes: number(&queue.join("atomic_write_unit_max_bytes")),
            name,
        })
    }
}

fn is_virtual(name: &str, disk: &Path) -> bool {
    let is_paravirtual = ["vd", "xvd", "nbd", "rbd", "drbd"].iter().any(|it| name.starts_with(it));
    is_paravirtual || disk.components().any(|part| part.as_os_str() == "virtual")
}

fn word(file: &Path) -> Option<String> {
    let text = locks::read_to_string(file).ok()?;
    let text = text.trim();
    (!text.is_empty()).then(|| text.to_owned())
}

fn number(file: &Path) -> Option<u32> {
    word(file)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    /// A `/sys` with one disk and its first partition.
    fn sys(disk: &str, files: &[(&str, &str)]) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        let disk = folder.path().join("devices").join(disk);
        let partition = disk.join("part1");
        fs::create_dir_all(&partition).unwrap();
        fs::write(partition.join("partition"), "1\n").unwrap();
        for (name, text) in files {
            let file = disk.join(name);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, text).unwrap();
        }
        let links = folder.path().join("dev/block");
        fs::create_dir_all(&links).unwrap();
        #[cfg(unix)]
        {
            std::os::unix::fs::symlink(&disk, links.join("259:0")).unwrap();
            std::os::unix::fs::symlink(&partition, links.join("259:1")).unwrap();
        }
        folder
    }

    #[test]
    #[cfg(unix)]
    fn a_disk_and_its_partition_tell_the_same() {
        let sys = sys(
            "pci/nvme0n1",
            &[
                ("device/model", "ACME 990   \n"),
                ("queue/rotational", "0\n"),
                ("queue/write_cache", "write back\n"),
                ("queue/logical_block_size", "512\n"),
                ("queue/atomic_write_unit_min_bytes", "512\n"),
                ("queue/atomic_write_unit_max_bytes", "16384\n"),
            ],
        );
        let disk = Device::numbered(sys.path(), (259, 0)).unwrap();
        assert_eq!(Device::numbered(sys.path(), (259, 1)).as_ref(), Some(&disk));
        assert_eq!((disk.name.as_str(), disk.model.as_deref()), ("nvme0n1", Some("ACME 990")));
        assert!(!disk.is_virtual);
        assert_eq!(disk.rotational, Some(false));
        assert_eq!(disk.write_cache.as_deref(), Some("write back"));
        assert_eq!((disk.logical_block_bytes, disk.physical_block_bytes), (Some(512), None));
        assert_eq!(disk.atomic_write_unit_max_bytes, Some(16384));
        assert_eq!(Device::numbered(sys.path(), (8, 0)), None);
    }

    #[test]
    #[cfg(unix)]
    fn disks_made_by_software_are_known_as_such() {
        for (disk, is_virtual, model) in [
            ("pci/virtio1/block/vda", true, None),
            ("virtual/block/dm-0", true, Some("vg-data")),
            ("pci/ata1/sda", false, None),
        ] {
            let files = model.map(|it| ("dm/name", it));
            let sys = sys(disk, files.as_slice());
            let found = Device::numbered(sys.path(), (259, 0)).unwrap();
            assert_eq!((found.is_virtual, found.model.as_deref()), (is_virtual, model));
            assert_eq!(found.rotational, None);
        }
    }
}
