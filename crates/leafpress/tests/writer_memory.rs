//! The number of times that a large value is in memory at once. A process's memory is
//! counted as a whole, so this is one test in a process of its own.
#![cfg(target_os = "linux")]

use leafpress::Profile;
use leafpress::writer::Writer;

const BLOB_BYTES: u64 = 96 << 20;

/// The most that this process ever had in memory, in bytes.
fn most_bytes() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find(|line| line.starts_with("VmHWM:"))?;
    let kilobytes: u64 = line.split_whitespace().nth(1)?.parse().ok()?;
    Some(kilobytes * 1024)
}

/// The caller's value is copied once, as it waits for its group. While the statement runs,
/// only SQLite's copies are there: the bound value, and the record that is made of it.
#[test]
fn a_large_value_is_not_kept_beside_those_of_sqlite() {
    let folder = tempfile::tempdir().expect("a folder");
    let builder = Writer::builder(folder.path().join("a.db")).profile(Profile::Relaxed);
    let writer = builder.open().expect("a writer");
    writer.execute_batch("CREATE TABLE t(blob)").expect("a table");
    let Some(before) = most_bytes() else {
        eprintln!("NOT TESTED: the system does not say how much memory was used");
        return;
    };
    let blob = vec![7_u8; BLOB_BYTES as usize];
    writer.execute("INSERT INTO t VALUES(?1)", [blob]).expect("it goes in");
    let copies = (most_bytes().expect("it did before") - before) as f64 / BLOB_BYTES as f64;
    assert!(copies < 2.7, "it was in memory {copies:.1} times");
    let reader = writer.reader().expect("a reader");
    let length: i64 =
        reader.query_row("SELECT length(blob) FROM t", [], |row| row.get(0)).expect("it");
    assert_eq!(length as u64, BLOB_BYTES);
}
