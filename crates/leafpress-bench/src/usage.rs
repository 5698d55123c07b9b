//! Processor time, memory and I/O of this process.
//!
//! A rung runs in a process of its own, so these are the rung's. Read from
//! Linux's `/proc/self`, without any unsafe code; elsewhere nothing is known and
//! the report leaves the fields out.

use std::time::Duration;

use crate::report::Io;

/// Resources that a process or a piece of work has used.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Usage {
    /// User and system time of all threads.
    pub(crate) cpu_s: Option<f64>,
    /// The most memory that was resident at any time since the start.
    pub(crate) peak_mb: Option<f64>,
    /// Reading and writing.
    pub(crate) io: Option<Io>,
}

impl Usage {
    /// Resources that this process has used up to now.
    pub(crate) fn now() -> Self {
        read_usage()
    }

    /// Resources used between `earlier` and `self`; the peak stays that of `self`.
    pub(crate) fn since(self, earlier: Self) -> Self {
        let io = |now: Io, then: Io| Io {
            reads: now.reads.saturating_sub(then.reads),
            writes: now.writes.saturating_sub(then.writes),
            read_bytes: now.read_bytes.saturating_sub(then.read_bytes),
            written_bytes: now.written_bytes.saturating_sub(then.written_bytes),
            per_transaction: None,
        };
        Self {
            cpu_s: self.cpu_s.zip(earlier.cpu_s).map(|(now, then)| (now - then).max(0.0)),
            peak_mb: self.peak_mb,
            io: self.io.zip(earlier.io).map(|(now, then)| io(now, then)),
        }
    }
}

/// Processor time of all threads of this process up to now, for spans that are too short for
/// [`Usage`]; `None` where the system does not tell.
pub(crate) fn cpu_now() -> Option<Duration> {
    #[cfg(unix)]
    {
        let now = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
        Some(Duration::new(now.tv_sec.unsigned_abs(), u32::try_from(now.tv_nsec).ok()?))
    }
    #[cfg(not(unix))]
    None
}

/// Processor seconds of the processes that this one started, of those that have ended.
pub(crate) fn cpu_s_of_children() -> Option<f64> {
    #[cfg(target_os = "linux")]
    return std::fs::read_to_string("/proc/self/stat")
        .ok()
        .and_then(|text| cpu_of_stat(&text, CHILDREN_FIELD));
    #[cfg(not(target_os = "linux"))]
    None
}

#[cfg(target_os = "linux")]
fn read_usage() -> Usage {
    use std::fs::read_to_string;
    let read = |path| read_to_string(path).ok();
    Usage {
        cpu_s: read("/proc/self/stat").and_then(|text| cpu_of_stat(&text, OWN_FIELD)),
        peak_mb: read("/proc/self/status").and_then(|text| peak_of_status(&text)),
        io: read("/proc/self/io").and_then(|text| io_of(&text)),
    }
}

#[cfg(not(target_os = "linux"))]
fn read_usage() -> Usage {
    Usage::default()
}

/// The user time in `/proc/self/stat` of this process, and of those that it started, counted from
/// the first field after the command's name. The system time comes next.
#[cfg(target_os = "linux")]
const OWN_FIELD: usize = 11;
#[cfg(target_os = "linux")]
const CHILDREN_FIELD: usize = 13;

/// User and system time in `/proc/self/stat`, counted from the end of the command's
/// name, which is in parentheses and may hold anything. The unit is the kernel's
/// interface tick, 1/100 s on every architecture that still exists.
#[cfg(target_os = "linux")]
fn cpu_of_stat(stat: &str, field: usize) -> Option<f64> {
    const TICKS_PER_SECOND: f64 = 100.0;
    let (_, after_name) = stat.rsplit_once(')')?;
    let mut ticks = after_name.split_ascii_whitespace().skip(field).map(str::parse::<u64>);
    let user = ticks.next()?.ok()?;
    let system = ticks.next()?.ok()?;
    Some((user + system) as f64 / TICKS_PER_SECOND)
}

#[cfg(target_os = "linux")]
fn peak_of_status(status: &str) -> Option<f64> {
    let peak = crate::machine::field(status, "VmHWM")?;
    let kib: f64 = peak.split(' ').next()?.parse().ok()?;
    Some(kib * 1024.0 / 1e6)
}

#[cfg(target_os = "linux")]
fn io_of(io: &str) -> Option<Io> {
    let number = |name| crate::machine::field(io, name)?.parse().ok();
    Some(Io {
        reads: number("syscr")?,
        writes: number("syscw")?,
        read_bytes: number("rchar")?,
        written_bytes: number("wchar")?,
        per_transaction: None,
    })
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn the_name_of_the_command_may_hold_anything() {
        let stat = "7 (a) b (c)) S 1 7 7 0 -1 4194304 100 0 0 0 150 50 40 10 20 0 1 0 1 1 1";
        assert_eq!(cpu_of_stat(stat, OWN_FIELD), Some(2.0));
        assert_eq!(cpu_of_stat(stat, CHILDREN_FIELD), Some(0.5));
        assert_eq!(cpu_of_stat("7 (cut) S 1", OWN_FIELD), None);
    }

    #[test]
    fn this_process_has_used_memory() {
        let usage = Usage::now();
        assert!(usage.peak_mb.is_some_and(|megabytes| megabytes > 0.5));
        assert!(usage.cpu_s.is_some());
    }

    #[test]
    fn work_is_the_difference() {
        let io = |n| {
            let per_transaction = None;
            Some(Io { reads: n, writes: n, read_bytes: n, written_bytes: n, per_transaction })
        };
        let then = Usage { cpu_s: Some(1.0), peak_mb: Some(5.0), io: io(2) };
        let now = Usage { cpu_s: Some(3.5), peak_mb: Some(9.0), io: io(12) };
        assert_eq!(now.since(then), Usage { cpu_s: Some(2.5), peak_mb: Some(9.0), io: io(10) });
    }
}
