//! The machine before a group of rungs. The page cache is dropped where that is allowed, the
//! program is in memory, the processor and the disk are awake.
//!
//! Must never: fail a run. What is not allowed is said in the report.

use std::fs::{self, File};
use std::hint::black_box;
use std::io::{self, Write as _};
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use crate::error::{Error, Result};
use crate::machine::cores;
use crate::statistics::median;

/// State of the page cache before a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PageCache {
    /// Dropped before each group; then the inputs and the program were read once.
    Dropped,
    /// Only root may drop it, and only some systems let it be dropped.
    NotAllowed,
    /// It was not to be dropped: in a quick run, or as asked for.
    Kept,
}

impl PageCache {
    /// In words, for the report.
    pub(crate) fn in_words(self) -> &'static str {
        match self {
            Self::Dropped => {
                "dropped before each group of rungs; then inputs and the program were read once"
            }
            Self::NotAllowed => "as it was: only root may drop it, on Linux",
            Self::Kept => "as it was: not dropped",
        }
    }
}

/// Drops the page cache, where that is wanted and allowed.
pub(crate) fn drop_page_cache(is_wanted: bool) -> PageCache {
    if !is_wanted {
        return PageCache::Kept;
    }
    #[cfg(target_os = "linux")]
    rustix::fs::sync();
    match fs::write("/proc/sys/vm/drop_caches", "1\n") {
        Ok(()) => PageCache::Dropped,
        Err(_) => PageCache::NotAllowed,
    }
}

/// Reads a file once, so that the next reader finds it in the page cache.
pub(crate) fn warm(path: &Path) -> Result<()> {
    let mut reader = File::open(path).map_err(Error::io("open", path))?;
    io::copy(&mut reader, &mut io::sink()).map_err(Error::io("read", path))?;
    Ok(())
}

/// Speed of the machine at one moment. Only compared with other moments.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct MachineState {
    /// Turns of a loop in a fixed time on one core, and on all of them together.
    pub(crate) one_core: f64,
    pub(crate) all_cores: f64,
    /// Median time of some syncs.
    pub(crate) sync_us: f64,
}

/// Has the program read once, the processor at its speed, and the disk awake. Gives what
/// was seen of their speeds, where the folder can be written to.
pub(crate) fn warm_up(folder: &Path) -> Option<MachineState> {
    const SYNCS: usize = 9;
    if let Ok(program) = std::env::current_exe() {
        let _ = warm(&program);
    }
    let one_core = turns();
    let all_cores = thread::scope(|scope| {
        let threads: Vec<_> = (0..cores()).map(|_| scope.spawn(turns)).collect();
        threads.into_iter().filter_map(|thread| thread.join().ok()).sum()
    });
    let path = folder.join("warm-up");
    let sync = || -> io::Result<f64> {
        let mut file = File::create(&path)?;
        let mut took_us = Vec::with_capacity(SYNCS);
        for _ in 0..SYNCS {
            file.write_all(&[7; 4096])?;
            let begun = Instant::now();
            file.sync_data()?;
            took_us.push(begun.elapsed().as_secs_f64() * 1e6);
        }
        Ok(median(&took_us).unwrap_or_default())
    };
    let sync_us = sync();
    let _ = fs::remove_file(&path);
    Some(MachineState { one_core, all_cores, sync_us: sync_us.ok()? })
}

/// Turns of a loop that computes, in a fixed time.
fn turns() -> f64 {
    const TIME: Duration = Duration::from_millis(15);
    const TURNS_BETWEEN_LOOKS: u64 = 1_000;
    let begun = Instant::now();
    let (mut turns, mut value) = (0_u64, 1_u64);
    while begun.elapsed() < TIME {
        for _ in 0..TURNS_BETWEEN_LOOKS {
            value = black_box(value).wrapping_mul(6_364_136_223_846_793_005).rotate_left(23);
        }
        turns += TURNS_BETWEEN_LOOKS;
    }
    black_box(value);
    turns as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_warm_up_leaves_nothing() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let state = warm_up(folder.path()).expect("the folder is there");
        assert!(state.one_core > 0.0 && state.all_cores > 0.0 && state.sync_us > 0.0, "{state:?}");
        assert_eq!(fs::read_dir(folder.path()).expect("it can be listed").count(), 0);
        assert_eq!(warm_up(&folder.path().join("missing")), None);
    }

    #[test]
    fn nothing_is_dropped_that_is_not_to_be() {
        assert_eq!(drop_page_cache(false), PageCache::Kept);
    }
}
