//! A simulated disk beside a watcher of the process's files: one test, one process.

use std::path::Path;
use std::sync::Arc;

use leafpress_vfs::watch::{Watcher, watch};
use leafpress_vfs::{DiskModel, ErrorKind, simulate, simulation};

struct Deaf;

impl Watcher for Deaf {
    fn created(&self, _path: &Path) {}
    fn wrote(&self, _path: &Path, _offset: u64, _bytes: &[u8]) {}
    fn truncated(&self, _path: &Path, _bytes: u64) {}
    fn sync_begins(&self, _path: &Path) -> u64 {
        0
    }
    fn synced(&self, _path: &Path, _began: u64) {}
    fn renamed(&self, _from: &Path, _to: &Path) {}
    fn removed(&self, _path: &Path) {}
    fn folder_synced(&self, _folder: &Path, _began: u64) {}
}

#[test]
fn a_disk_is_not_simulated_beside_a_watcher_and_nothing_changes() {
    watch(Arc::new(Deaf)).unwrap();
    for _ in 0..2 {
        let error = simulate(DiskModel::PHONE_2016).unwrap_err();
        assert!(matches!(error.kind(), ErrorKind::Misuse(_)), "{error}");
        // The second time, too: the VFS of the first is not registered any more.
        assert!(error.to_string().contains("another watcher"), "{error}");
    }
    assert!(simulation().is_none());
    assert!(watch(Arc::new(Deaf)).is_err());
}
