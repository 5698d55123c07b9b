//! An XFS of its own, on a loop device, mounted in a temporary folder.
//!
//! Must never: stay mounted. It is taken away when its value is dropped, after a panic
//! too.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::Duration;

use leafpress::vfs::PlatformDisk;
use leafpress::vfs::atomic::AtomicDisk as _;

/// The smallest XFS that `mkfs.xfs` makes is 300 MB; hardly any of it is ever written.
const IMAGE_BYTES: u64 = 512 << 20;
/// While a process that was killed is being cleared away, its files are still open.
const UNMOUNT_TRIES: u32 = 200;
const PAUSE: Duration = Duration::from_millis(25);

pub struct XfsMount {
    folder: tempfile::TempDir,
    is_mounted: bool,
}

impl XfsMount {
    /// Makes and mounts it; or says why that is not possible here.
    pub fn make() -> Result<Self, String> {
        if !cfg!(target_os = "linux") {
            return Err("only Linux has them".to_owned());
        }
        let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
        let image = File::create(folder.path().join("xfs.img"));
        image.and_then(|file| file.set_len(IMAGE_BYTES)).map_err(|error| error.to_string())?;
        let mut mount = Self { folder, is_mounted: false };
        run("mkfs.xfs", &["-q", "-m", "reflink=1", mount.image().to_str().unwrap()])?;
        std::fs::create_dir(mount.path()).map_err(|error| error.to_string())?;
        mount.mount()?;
        let database = mount.path().join("asked.db");
        std::fs::write(&database, [0; 4096]).map_err(|error| error.to_string())?;
        match PlatformDisk::new().open(database.to_str().unwrap()) {
            Ok(Ok(_)) => Ok(mount),
            Ok(Err(why)) => Err(format!("XFS has them by software since Linux 6.16: {why}")),
            Err(error) => panic!("{error}"),
        }
    }

    /// The folder in which to write.
    pub fn path(&self) -> PathBuf {
        self.folder.path().join("mount")
    }

    fn image(&self) -> PathBuf {
        self.folder.path().join("xfs.img")
    }

    fn mount(&mut self) -> Result<(), String> {
        let (image, path) = (self.image(), self.path());
        run("mount", &["-o", "loop", image.to_str().unwrap(), path.to_str().unwrap()])?;
        self.is_mounted = true;
        Ok(())
    }

    fn unmount(&mut self) -> Result<(), String> {
        let path = self.path();
        let mut answer = Ok(());
        for _ in 0..UNMOUNT_TRIES {
            answer = run("umount", &[path.to_str().unwrap()]);
            if answer.is_ok() {
                self.is_mounted = false;
                break;
            }
            thread::sleep(PAUSE);
        }
        answer
    }

    /// From this moment on nothing reaches the disk, not even what the file system has
    /// in its log in memory: all that was not synced by now is lost.
    pub fn cut_power(&self) -> Result<(), String> {
        run("xfs_io", &["-x", "-c", "shutdown", self.path().to_str().unwrap()])
    }

    /// The power comes back. No process may have a file open there.
    pub fn start_again(&mut self) {
        self.unmount().unwrap();
        self.mount().unwrap();
    }
}

impl Drop for XfsMount {
    fn drop(&mut self) {
        if self.is_mounted && self.unmount().is_err() {
            // Out of sight at least, and gone when the last file is closed.
            let gone = run("umount", &["-l", self.path().to_str().unwrap()]);
            if let Err(reason) = gone {
                println!("{} stays mounted: {reason}", self.path().display());
            }
        }
    }
}

/// Runs a tool of the system; what it complains of, or that it is not there.
fn run(tool: &str, arguments: &[&str]) -> Result<(), String> {
    let output = Command::new(tool).args(arguments).output();
    let output = output.map_err(|error| format!("{tool}: {error}"))?;
    if output.status.success() {
        return Ok(());
    }
    Err(format!("{tool}: {}", String::from_utf8_lossy(&output.stderr).trim()))
}

/// Is this tool here, and does it do what it is asked?
pub fn can_run(tool: &str, arguments: &[&str]) -> Result<(), String> {
    run(tool, arguments)
}

/// A new folder on the mount, so that no test meets the files of another.
pub fn new_folder(mount: &XfsMount, name: &str) -> PathBuf {
    let folder = mount.path().join(name);
    std::fs::create_dir(&folder).unwrap();
    folder
}

/// A database with `rows` rows (id, value = 0) of about 100 bytes, made by plain SQLite
/// in the usual way.
pub fn make_database(path: &Path, rows: u32) {
    let connection = rusqlite::Connection::open(path).unwrap();
    let sql = format!(
        "PRAGMA synchronous = FULL;
         CREATE TABLE t (id INTEGER PRIMARY KEY, value INTEGER NOT NULL, filling TEXT);
         WITH RECURSIVE n(id) AS (SELECT 1 UNION ALL SELECT id + 1 FROM n WHERE id < {rows})
         INSERT INTO t SELECT id, 1000000000000, printf('%080d', id) FROM n;"
    );
    connection.execute_batch(&sql).unwrap();
}
