//! In what state a group of rungs finds the machine: the page cache dropped where that is
//! allowed, the program in memory, the processor and the disk awake.
//!
//! Must never: fail a run. What is not allowed is said in the report.

use std::fs::{self, File};
use std::io::Write as _;
use std::path::Path;
use std::time::{Duration, Instant};

use crate::input::warm;

/// What is known of the page cache before a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PageCache {
    /// Dropped before each group; then the inputs and the program were read once.
    Dropped,
    /// Only root may drop it, and only some systems let it be dropped.
    NotAllowed,
    /// Nobody was to drop it: a quick run, or it was asked for.
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

/// Has the program read once, the processor at its speed, and the disk awake.
pub(crate) fn warm_up(folder: &Path) {
    const SPIN: Duration = Duration::from_millis(30);
    const SYNCS: usize = 8;
    if let Ok(program) = std::env::current_exe() {
        let _ = warm(&program);
    }
    let path = folder.join("warm-up");
    if let Ok(mut file) = File::create(&path) {
        for _ in 0..SYNCS {
            let _ = file.write_all(&[7; 4096]).and_then(|()| file.sync_data());
        }
    }
    let _ = fs::remove_file(&path);
    let begun = Instant::now();
    while begun.elapsed() < SPIN {
        std::hint::spin_loop();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_warm_up_leaves_nothing() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        warm_up(folder.path());
        assert_eq!(fs::read_dir(folder.path()).expect("it can be listed").count(), 0);
        warm_up(&folder.path().join("missing"));
    }

    #[test]
    fn nothing_is_dropped_that_is_not_to_be() {
        assert_eq!(drop_page_cache(false), PageCache::Kept);
    }
}
