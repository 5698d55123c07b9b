//! Memory of the machine, or what a container or a limit leaves of it to this process.
//!
//! A container may have less than its machine: its processes are in a cgroup with a limit, and the
//! system kills a process that takes more. A process may have limits of its own (`ulimit -v` and
//! `ulimit -d`), and ends where it is given no more.

use std::path::{Path, PathBuf};

#[cfg(any(target_os = "linux", target_os = "android"))]
use rustix::process::{Resource, getrlimit};

/// Memory of the machine; or of the container, or what is left to the process, if that is less.
#[cfg(any(target_os = "linux", target_os = "android"))]
pub fn usable_bytes() -> Option<usize> {
    let info = rustix::system::sysinfo();
    let machine = usize::try_from(info.totalram).ok()?.checked_mul(info.mem_unit as usize)?;
    #[expect(clippy::disallowed_methods, reason = "files of /proc and of cgroups are no databases")]
    let read = |path: &Path| std::fs::read_to_string(path).ok();
    let limit = read(Path::new("/proc/self/cgroup")).and_then(|groups| limit_bytes(&groups, read));
    let statistics = read(Path::new("/proc/self/statm")).unwrap_or_default();
    let left = |of: Resource, field| {
        Some(getrlimit(of).current?.saturating_sub(taken_bytes(&statistics, field)))
    };
    let (space, data) = (left(Resource::As, ALL_PAGES), left(Resource::Data, DATA_PAGES));
    let limits = [limit, space, data].into_iter().flatten();
    Some(limits.filter_map(|limit| usize::try_from(limit).ok()).fold(machine, usize::min))
}

/// Unknown on other systems.
#[cfg(not(any(target_os = "linux", target_os = "android")))]
pub fn usable_bytes() -> Option<usize> {
    None
}

/// Place of the address space in `/proc/self/statm`.
#[cfg(any(target_os = "linux", target_os = "android"))]
const ALL_PAGES: usize = 0;

/// Place of data and stacks there.
#[cfg(any(target_os = "linux", target_os = "android"))]
const DATA_PAGES: usize = 5;

/// Memory of a process by a field of its `/proc/self/statm`, which counts pages.
#[cfg(any(target_os = "linux", target_os = "android"))]
fn taken_bytes(statistics: &str, field: usize) -> u64 {
    let pages = statistics.split(' ').nth(field).and_then(|pages| pages.trim().parse::<u64>().ok());
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
    #[cfg(any(target_os = "linux", target_os = "android"))]
    fn data_and_all_of_the_address_space_are_counted_in_pages() {
        let page_bytes = rustix::param::page_size() as u64;
        let taken = |field| taken_bytes("2163 1015 879 8 0 314 0\n", field) / page_bytes;
        assert_eq!([ALL_PAGES, DATA_PAGES].map(taken), [2163, 314]);
        assert_eq!(taken_bytes("", DATA_PAGES), 0);
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
