//! What machine this is, for the head of a report.
//!
//! Read from Linux's `/proc`; elsewhere only what the standard library knows is
//! filled in. Never fails: what cannot be read is left out.

use std::path::Path;
use std::thread;

use crate::report::Machine;

/// Describes this machine and the file system that holds `folder`.
pub(crate) fn describe(folder: &Path) -> Machine {
    let cores = thread::available_parallelism().ok().map(std::num::NonZero::get);
    Machine { cores, ..describe_system(folder) }
}

#[cfg(target_os = "linux")]
fn describe_system(folder: &Path) -> Machine {
    use std::fs::read_to_string;
    let read = |path| read_to_string(path).unwrap_or_default();
    Machine {
        cpu: field(&read("/proc/cpuinfo"), "model name"),
        cores: None,
        kernel: read_to_string("/proc/sys/kernel/osrelease")
            .ok()
            .map(|release| format!("Linux {}", release.trim())),
        memory_mb: field(&read("/proc/meminfo"), "MemTotal")
            .and_then(|text| text.split(' ').next()?.parse::<u64>().ok())
            .map(|kib| kib / 1024),
        filesystem: folder
            .canonicalize()
            .ok()
            .and_then(|folder| filesystem_of(&read("/proc/self/mountinfo"), &folder)),
    }
}

#[cfg(not(target_os = "linux"))]
fn describe_system(_folder: &Path) -> Machine {
    Machine { kernel: Some(std::env::consts::OS.to_owned()), ..Machine::default() }
}

/// The value of the first `name: value` line.
#[cfg(target_os = "linux")]
pub(crate) fn field(text: &str, name: &str) -> Option<String> {
    text.lines().find_map(|line| {
        let (key, value) = line.split_once(':')?;
        (key.trim() == name).then(|| value.trim().to_owned())
    })
}

/// The type and device of the mount that holds `folder`: the longest mount
/// point that is a prefix of it, the last one where several are stacked.
#[cfg(target_os = "linux")]
fn filesystem_of(mountinfo: &str, folder: &Path) -> Option<String> {
    let mount = |line: &str| {
        let (head, tail) = line.split_once(" - ")?;
        let point = head.split(' ').nth(4)?.to_owned();
        let mut tail = tail.split(' ');
        let (kind, device) = (tail.next()?, tail.next()?);
        folder.starts_with(&point).then(|| (point.len(), format!("{kind} on {device}")))
    };
    mountinfo.lines().filter_map(mount).max_by_key(|(length, _)| *length).map(|(_, name)| name)
}

/// Free room on the disk that holds `folder`, where the system tells.
#[cfg(target_os = "linux")]
pub(crate) fn free_mb(folder: &Path) -> Option<u64> {
    let disk = rustix::fs::statvfs(folder).ok()?;
    Some(disk.f_bavail.saturating_mul(disk.f_frsize) / 1_000_000)
}

/// Free room on the disk that holds `folder`: not known here.
#[cfg(not(target_os = "linux"))]
pub(crate) fn free_mb(_folder: &Path) -> Option<u64> {
    None
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn the_longest_mount_point_wins() {
        let mounts = "1 0 8:1 / / rw - ext4 /dev/sda1 rw\n\
                      2 1 8:2 / /data rw,noatime shared:1 - xfs /dev/sdb1 rw\n\
                      3 1 8:3 / /database rw - btrfs /dev/sdc1 rw\n";
        let of = |path: &str| filesystem_of(mounts, Path::new(path));
        assert_eq!(of("/data/bench").as_deref(), Some("xfs on /dev/sdb1"));
        assert_eq!(of("/home").as_deref(), Some("ext4 on /dev/sda1"));
        assert_eq!(of("/database").as_deref(), Some("btrfs on /dev/sdc1"));
    }

    #[test]
    fn this_machine_has_cores_memory_and_a_disk() {
        let machine = describe(Path::new("."));
        assert!(machine.cores.is_some_and(|cores| cores > 0));
        assert!(machine.memory_mb.is_some_and(|megabytes| megabytes > 0));
        assert!(machine.filesystem.is_some());
        assert!(free_mb(Path::new(".")).is_some());
    }
}
