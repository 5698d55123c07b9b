//! This machine, for the head of a report.
//!
//! Read from Linux's `/proc`; elsewhere only what the standard library knows is
//! filled in. Never fails: what cannot be read is left out.

use std::path::Path;
use std::thread;

#[cfg(target_os = "linux")]
use leafpress::storage::FileSystem;

use crate::report::Machine;

/// Cores that this process may use.
pub(crate) fn cores() -> usize {
    thread::available_parallelism().map_or(1, std::num::NonZero::get)
}

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
        filesystem: filesystem_of(folder),
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

/// The type and device of the file system that holds `folder`.
#[cfg(target_os = "linux")]
fn filesystem_of(folder: &Path) -> Option<String> {
    let FileSystem { kind, source, .. } = FileSystem::of(folder).ok()?;
    Some(format!("{kind} on {}", source?))
}

/// Free room on the disk that holds `folder`, where the system tells.
pub(crate) fn free_mb(folder: &Path) -> Option<u64> {
    Some(leafpress::storage::free_bytes(folder)? / 1_000_000)
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn this_machine_has_cores_memory_and_a_disk() {
        let machine = describe(Path::new("."));
        assert!(machine.cores.is_some_and(|cores| cores > 0));
        assert!(machine.memory_mb.is_some_and(|megabytes| megabytes > 0));
        assert!(machine.filesystem.is_some());
        assert!(free_mb(Path::new(".")).is_some());
    }
}
