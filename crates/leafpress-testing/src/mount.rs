//! A small file system in memory, for those who may mount one.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// A mounted file system, until it is dropped.
#[derive(Debug)]
pub struct Mount(PathBuf);

impl Mount {
    /// Mounts one over a folder, with these options of tmpfs; `None` if that cannot be done here.
    pub fn new(folder: &Path, options: &str) -> Option<Self> {
        let mounted = Command::new("mount")
            .args(["-t", "tmpfs", "-o", options, "none"])
            .arg(folder)
            .stderr(Stdio::null())
            .status();
        mounted.is_ok_and(|status| status.success()).then(|| Self(folder.to_owned()))
    }

    /// Gives it other options.
    ///
    /// # Panics
    /// If that fails.
    pub fn remount(&self, options: &str) {
        let status =
            Command::new("mount").args(["-o", &format!("remount,{options}")]).arg(&self.0).status();
        assert!(status.expect("mount is there").success(), "it cannot be mounted with {options}");
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        // One that stays in use is no fault of the test.
        let _ = Command::new("umount").arg(&self.0).status();
    }
}
