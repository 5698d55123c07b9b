//! Memory of the machine, and how much of it a load takes by default.
//!
//! A container may have less than its machine: its processes are in a cgroup with a limit, and the
//! system kills a process that takes more. A process may have a limit of its own (`ulimit -v`), and
//! ends where it is given no more.

use std::path::{Path, PathBuf};

/// At most this, by default.
const DEFAULT_BYTES_MAX: usize = 1 << 30;

/// At most this, where the system does not tell how much there is.
const UNKNOWN_BYTES_MAX: u64 = 64 << 30;

/// A quarter of the memory, at most 1 GiB.
pub fn default_bytes() -> usize {
    total_bytes().map_or(DEFAULT_BYTES_MAX / 4, |total| (total / 4).min(DEFAULT_BYTES_MAX))
}

/// So much memory, or all that the machine has if that is less. Parts of it are taken at once.
pub fn at_most_all(bytes: usize) -> usize {
    let unknown = || usize::try_from(UNKNOWN_BYTES_MAX).unwrap_or(DEFAULT_BYTES_MAX);
    bytes.min(total_bytes().unwrap_or_else(unknown))
}

/// Memory of the machine; or of the container, or what is left to the process, if that is less.
#[cfg(any(target_os = "linux", target_os = "android"))]
pub fn total_bytes() -> Option<usize> {
    let info = rustix::system::sysinfo();
    let machine = usize::try_from(info.totalram).ok()?.checked_mul(info.mem_unit as usize)?;
    #[expect(clippy::disallowed_methods, reason = "files of /proc and of cgroups are no databases")]
    let read = |path: &Path| std::fs::read_to_string(path).ok();
    let limit = read(Path::new("/proc/self/cgroup")).and_then(|groups| limit_bytes(&groups, read));
    let space = rustix::process::getrlimit(rustix::process::Resource::As).current;
    let left = space.map(|space| {
        let statistics = read(Path::new("/proc/self/statm")).unwrap_or_default();
        space.saturating_sub(taken_bytes(&statistics))
    });
    let limits = [limit, left].into_iter().flatten();
    Some(limits.filter_map(|limit| usize::try_from(limit).ok()).fold(machine, usize::min))
}

/// Unknown on other systems.
#[cfg(not(any(target_os = "linux", target_os = "android")))]
pub fn total_bytes() -> Option<usize> {
    None
}

/// Address space of a process, by its `/proc/self/statm`, which begins with the number of pages.
#[cfg(any(target_os = "linux", target_os = "android"))]
fn taken_bytes(statistics: &str) -> u64 {
    let pages = statistics.split(' ').next().and_then(|pages| pages.parse::<u64>().ok());
    pages.unwrap_or_default().saturating_mul(rustix::param::page_size() as u64)
}

/// The lowest limit of the groups of a process and of those around them; `None` if there is none.
/// `groups` is the text of `/proc/self/cgroup`, with a line `ID:CONTROLLERS:PATH` for each group.
#[cfg_attr(not(any(target_os = "linux", target_os = "android")), allow(dead_code))]
fn limit_bytes(groups: &str, read: impl Fn(&Path) -> Option<String>) -> Option<u64> {
    let files = groups.lines().filter_map(limit_files).flatten();
    // "max" says that there is no limit.
    files.filter_map(|file| read(&file)?.trim().parse::<u64>().ok()).min()
}

/// The files that may hold limits, for a line of `/proc/self/cgroup`.
fn limit_files(line: &str) -> Option<Vec<PathBuf>> {
    let mut parts = line.splitn(3, ':');
    let (number, controllers, path) = (parts.next()?, parts.next()?, parts.next()?);
    let (root, file) = if number == "0" && controllers.is_empty() {
        ("/sys/fs/cgroup", "memory.max")
    } else if controllers.split(',').any(|controller| controller == "memory") {
        ("/sys/fs/cgroup/memory", "memory.limit_in_bytes")
    } else {
        return None;
    };
    // A container may see its own group as the root, or the group's path from outside, which is not
    // there inside: the root's file is then that of its group.
    let path = if path.split('/').any(|part| part == "..") { "/" } else { path };
    let groups = Path::new(path)
        .ancestors()
        .map(|group| Path::new(root).join(group.strip_prefix("/").unwrap_or(group)).join(file));
    Some(groups.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limit(groups: &str, files: &[(&str, &str)]) -> Option<u64> {
        limit_bytes(groups, |path| {
            let found = files.iter().find(|(name, _)| Path::new(name) == path);
            found.map(|(_, text)| (*text).to_owned())
        })
    }

    #[test]
    fn the_lowest_limit_of_a_group_and_those_around_it_counts() {
        let groups = "0::/app.slice/job.service\n";
        let none = ("/sys/fs/cgroup/app.slice/job.service/memory.max", "max\n");
        let around = ("/sys/fs/cgroup/app.slice/memory.max", "536870912\n");
        let own = ("/sys/fs/cgroup/app.slice/job.service/memory.max", "268435456\n");
        assert_eq!(limit(groups, &[none]), None);
        assert_eq!(limit(groups, &[none, around]), Some(512 << 20));
        assert_eq!(limit(groups, &[own, around]), Some(256 << 20));
    }

    #[test]
    fn a_container_that_sees_its_group_as_the_root_has_a_limit() {
        let files = [("/sys/fs/cgroup/memory.max", "1073741824\n")];
        for groups in ["0::/\n", "0::/../../other\n", "0::/docker/3f\n"] {
            assert_eq!(limit(groups, &files), Some(1 << 30), "{groups}");
        }
    }

    #[test]
    fn the_older_kind_of_groups_has_limits_too() {
        let groups = "9:name=systemd:/\n4:cpu,memory:/docker/3f\n1:cpuset:/\n0::/\n";
        let own = ("/sys/fs/cgroup/memory/docker/3f/memory.limit_in_bytes", "268435456\n");
        let root = ("/sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
        assert_eq!(limit(groups, &[own, root]), Some(256 << 20));
        assert_eq!(limit("", &[own, root]), None);
        assert_eq!(limit("nonsense\n7\n:::\n", &[own, root]), None);
    }
}
