//! Whole pages, written by the platform's disk and read by all other connections.

use std::fs::{self, File};
use std::io::Write as _;
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::sync::{Arc, mpsc};
use std::thread;

use leafpress::vfs::atomic::{AtomicDisk as _, AtomicFile, AtomicProof};
use leafpress::vfs::{PlatformDisk, VfsError};
use rusqlite::Connection;

use super::mount::{XfsMount, make_database, new_folder};
use super::{run_self, text};

const PAGE_BYTES: usize = 4096;
const SIZES: &str = "SELECT group_concat(value) FROM t";

fn open(path: &Path) -> Arc<dyn AtomicFile> {
    PlatformDisk::new().open(text(path)).unwrap().unwrap_or_else(|why| panic!("{why}"))
}

pub fn a_page_is_written_whole_and_read_by_plain_sqlite(mount: &XfsMount) {
    let path = new_folder(mount, "whole").join("a.db");
    make_database(&path, 3);
    let ours = open(&path);
    let units = ours.units();
    assert_eq!(units.by, AtomicProof::Software, "a loop device has none of its own");
    assert!(units.cover(PAGE_BYTES as u32), "{units:?}");
    println!("atomic writes of {} to {} bytes, by software", units.bytes_min, units.bytes_max);

    let plain = Connection::open(&path).unwrap();
    let values = || plain.query_row(SIZES, [], |row| row.get::<_, String>(0)).unwrap();
    let before = values();
    assert_eq!(before, ["1000000000000"; 3].join(","));
    // What SQLite made of the row in a copy is written into the original, whole.
    let copy = path.with_file_name("copy.db");
    fs::copy(&path, &copy).unwrap();
    let changed = Connection::open(&copy).unwrap();
    changed.execute_batch("UPDATE t SET value = 2000000000000 WHERE id = 2").unwrap();
    drop(changed);
    let pages = fs::read(&copy).unwrap();
    for (at, page) in pages.chunks(PAGE_BYTES).enumerate().rev() {
        ours.write(page, (at * PAGE_BYTES) as u64).unwrap();
    }
    assert_eq!(values(), "1000000000000,2000000000000,1000000000000");
    let verdict: String = plain.query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap();
    assert_eq!(verdict, "ok");
}

pub fn a_refused_write_changes_nothing(mount: &XfsMount) {
    let path = new_folder(mount, "refused").join("a.db");
    make_database(&path, 500);
    let before = fs::read(&path).unwrap();
    let ours = open(&path);
    let units = ours.units();
    let too_large = 2 * units.bytes_max as usize;
    let refused = [
        ("below the smallest unit", units.bytes_min as usize / 2, 0),
        ("above the largest unit", too_large, 0),
        ("not at a multiple of its size", PAGE_BYTES, PAGE_BYTES as u64 / 2),
        ("not aligned to a sector", PAGE_BYTES, 100),
        ("no power of two", 3 * PAGE_BYTES, 0),
        ("at a multiple of a page, not of its size", 2 * PAGE_BYTES, PAGE_BYTES as u64),
    ];
    for (what, bytes, offset) in refused {
        assert_eq!(ours.write(&vec![7; bytes], offset), Err(VfsError::IO_WRITE), "{what}");
        assert_eq!(fs::read(&path).unwrap(), before, "{what}");
    }
    // A file that got smaller meanwhile is none of its business: the page is still whole.
    ours.write(&before[..PAGE_BYTES], 0).unwrap();
    assert_eq!(fs::read(&path).unwrap(), before);
}

pub fn every_reader_sees_what_was_written_past_the_page_cache(mount: &XfsMount) {
    let path = new_folder(mount, "coherent").join("a.db");
    fs::write(&path, vec![0; 16 * PAGE_BYTES]).unwrap();
    let cached = File::options().read(true).write(true).open(&path).unwrap();
    let ours = open(&path);
    let offset = 5 * PAGE_BYTES as u64;
    let mut page = vec![0; PAGE_BYTES];
    for round in 1..=50_u8 {
        cached.read_exact_at(&mut page, offset).unwrap();
        if round % 2 == 0 {
            // Dirty in the page cache: it must not come after what is written now.
            cached.write_all_at(&vec![200; PAGE_BYTES], offset).unwrap();
        }
        ours.write(&vec![round; PAGE_BYTES], offset).unwrap();
        cached.read_exact_at(&mut page, offset).unwrap();
        assert!(page.iter().all(|&byte| byte == round), "round {round}");
        if round % 10 == 0 {
            assert_eq!(page_seen_by_another_process(&path, offset), page, "round {round}");
            cached.sync_all().unwrap();
            cached.read_exact_at(&mut page, offset).unwrap();
            assert!(page.iter().all(|&byte| byte == round), "round {round}, after a sync");
        }
    }
    let all = fs::read(&path).unwrap();
    let others = all.chunks(PAGE_BYTES).enumerate().filter(|(at, _)| *at != 5);
    assert!(others.flat_map(|(_, page)| page).all(|&byte| byte == 0));
}

fn page_seen_by_another_process(path: &Path, offset: u64) -> Vec<u8> {
    run_self(&["--print-page", text(path), &offset.to_string()]).stdout
}

/// The other process.
pub fn print_page(path: &Path, offset: &str) {
    let mut page = vec![0; PAGE_BYTES];
    let file = File::open(path).unwrap();
    file.read_exact_at(&mut page, offset.parse().unwrap()).unwrap();
    std::io::stdout().write_all(&page).unwrap();
}

/// The page cache cannot be emptied of a page that is being read into it right now.
pub fn a_page_that_is_being_read_is_written_in_the_end(mount: &XfsMount) {
    let path = new_folder(mount, "read").join("a.db");
    fs::write(&path, vec![0; 4 * PAGE_BYTES]).unwrap();
    let ours = open(&path);
    thread::scope(|scope| {
        // Dropped when all is written, and also if a write fails.
        let (_writing, is_writing) = mpsc::channel::<()>();
        let path = &path;
        scope.spawn(move || {
            while is_writing.try_recv() != Err(mpsc::TryRecvError::Disconnected) {
                fs::read(path).unwrap();
            }
        });
        for round in 1..=2_000_u64 {
            let page = vec![(round % 200) as u8; PAGE_BYTES];
            ours.write(&page, round % 4 * PAGE_BYTES as u64).unwrap();
        }
    });
    let all = fs::read(&path).unwrap();
    let last = [0, 197, 198, 199];
    let firsts: Vec<_> = all.chunks(PAGE_BYTES).map(|page| page[0]).collect();
    assert_eq!(firsts, last);
    assert!(all.chunks(PAGE_BYTES).all(|page| page.iter().all(|byte| *byte == page[0])));
}
