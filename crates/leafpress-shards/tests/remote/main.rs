//! Databases read by ranges, over HTTP from a server that counts and fails, and from other stores.
//!
//! 1. The open is one request, a row one more; the control, without the layout, needs more.
//! 2. No byte is requested twice while the cache has room, by several threads too.
//! 3. Rows are those of the file, or there is an error: for a change, a failure, a silence.

mod server;

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use leafpress::load::{Column, ColumnType, Layout};
use leafpress::rusqlite::{self, Connection};
use leafpress::{Error, ErrorKind};
use leafpress_shards::remote::{RemoteDatabase, RemoteOptions};
use leafpress_shards::{PartBuilder, PartRecord, Shards};
use object_store::memory::InMemory;
use object_store::{ObjectStoreExt as _, PutPayload};
use tempfile::TempDir;

use self::server::{Mood, Server};

const ROWS: i64 = 120_000;
/// Long after all that is to end has ended, on any machine.
const HANG: Duration = Duration::from_secs(60);

/// A long value in one row of a hundred.
fn note(id: i64) -> String {
    let bytes = if id % 100 == 0 { 30_000 + id % 7000 } else { id % 90 };
    "n".repeat(bytes as usize)
}

fn part(folder: &Path, attempt: &str, layout: Layout, rows: i64) -> PartRecord {
    let columns = ["id", "name", "note"].map(|name| {
        Column::new(name, if name == "id" { ColumnType::Integer } else { ColumnType::Text })
    });
    let shards = Shards::at(folder).expect("a folder");
    let run = shards.begin().expect("a run").run;
    let builder = PartBuilder::new(&shards, run, 0).attempt(attempt);
    let built = builder.build(|loader| {
        let rows = (0..rows).map(|id| (id, format!("name-{}", id * 7919 % ROWS), note(id)));
        let loader = loader.table("t").primary_key("id").index("name").layout(layout);
        loader.analyze(true).load_rows(&columns, rows)
    });
    built.expect("a part").0
}

fn options() -> RemoteOptions {
    RemoteOptions::default().timeout(Duration::from_secs(10))
}

fn open(server: &Server, record: &PartRecord) -> RemoteDatabase {
    let url = server.url(&record.path);
    RemoteDatabase::open_url(&url, Some(record), &options()).expect("a database")
}

fn by_id(db: &Connection, id: i64) -> rusqlite::Result<(String, String)> {
    let sql = "SELECT name, note FROM t WHERE id = ?1";
    db.query_row(sql, [id], |row| Ok((row.get(0)?, row.get(1)?)))
}

fn by_name(db: &Connection, name: &str) -> i64 {
    let sql = "SELECT length(note) FROM t WHERE name = ?1";
    db.query_row(sql, [name], |row| row.get(0)).expect("a row")
}

/// Requests and bytes of the open and of three lookups.
fn costs(server: &Server, record: &PartRecord) -> [(u64, u64); 4] {
    server.take();
    let remote = open(server, record);
    let db = remote.connect().expect("a connection");
    db.prepare("SELECT * FROM t").expect("a statement");
    let opened = server.take();
    assert_eq!(by_id(&db, 77_777).expect("a row").1, note(77_777));
    let row = server.take();
    assert_eq!(by_name(&db, "name-5"), note(inverse(5)).len() as i64);
    let by_index = server.take();
    assert_eq!(by_id(&db, 50_000).expect("a row").1, note(50_000));
    let long = server.take();
    let stats = remote.stats();
    let all = [opened, row, by_index, long];
    assert_eq!(stats.requests, all.iter().map(|it| it.0).sum::<u64>());
    assert_eq!(stats.bytes, all.iter().map(|it| it.1).sum::<u64>());
    all
}

/// The id of the row with the name of this number.
fn inverse(number: i64) -> i64 {
    (0..ROWS).find(|id| id * 7919 % ROWS == number).expect("7919 has no factor of ROWS")
}

#[test]
fn a_row_is_one_request() {
    let folder = TempDir::new().expect("a folder");
    let server = Server::start(folder.path());
    let record = part(folder.path(), "far", Layout::Remote, ROWS);
    let page = u64::from(record.page_size);
    let [opened, row, by_index, long] = costs(&server, &record);
    assert_eq!(opened.0, 1, "{opened:?}");
    assert!(opened.1 < record.bytes / 20, "{opened:?} of {}", record.bytes);
    assert_eq!(row, (1, page));
    assert_eq!(by_index, (2, 2 * page));
    assert_eq!(long.0, 2, "a leaf and its chain: {long:?}");
    assert!(long.1 <= 64 << 10, "{long:?}");

    // The control.
    let near = part(folder.path(), "near", Layout::Local, ROWS);
    let [_, row, by_index, long] = costs(&server, &near);
    assert!(row.0 > 1 && by_index.0 > 2 && row.0 + by_index.0 + long.0 > 6);
}

#[test]
fn without_a_record_the_pages_in_front_are_found() {
    let folder = TempDir::new().expect("a folder");
    let server = Server::start(folder.path());
    let record = part(folder.path(), "far", Layout::Remote, ROWS);
    let url = server.url(&record.path);
    let remote = RemoteDatabase::open_url(&url, None, &options()).expect("a database");
    let db = remote.connect().expect("a connection");
    db.prepare("SELECT * FROM t").expect("a statement");
    assert!(server.take().0 <= 4);
    assert_eq!(by_id(&db, 5).expect("a row").1, note(5));
    assert!(server.take().0 <= 1);
}

#[test]
fn a_name_is_escaped_once() {
    let folder = TempDir::new().expect("a folder");
    let server = Server::start(folder.path());
    let record = part(folder.path(), "far", Layout::Remote, 10);
    let inside = folder.path().join("a b");
    fs::create_dir(&inside).expect("a folder");
    fs::rename(folder.path().join(&record.path), inside.join("a b.db")).expect("a file");
    let url = server.url("a%20b/a%20b.db");
    let remote = RemoteDatabase::open_url(&url, None, &options()).expect("a database");
    let db = remote.connect().expect("a connection");
    assert_eq!(by_id(&db, 5).expect("a row").1, note(5));
}

#[test]
fn no_byte_is_requested_twice() {
    let folder = TempDir::new().expect("a folder");
    let server = Server::start(folder.path());
    let record = part(folder.path(), "far", Layout::Remote, ROWS);
    let remote = open(&server, &record);
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let db = remote.connect().expect("a connection");
            scope.spawn(move || {
                for step in 0..200 {
                    let id = (step * 7 + thread * 3) * 97 % ROWS;
                    assert_eq!(by_id(&db, id).expect("a row").1, note(id));
                }
                let sum = "SELECT count(*), sum(id) FROM t";
                let found = db.query_row(sum, [], |row| Ok((row.get(0)?, row.get(1)?)));
                assert_eq!(found.expect("sums"), (ROWS, ROWS * (ROWS - 1) / 2));
            });
        }
    });
    let mut sent = server.state().sent.clone();
    sent.sort_by_key(|range| range.start);
    for neighbours in sent.windows(2) {
        assert!(neighbours[0].end <= neighbours[1].start, "{neighbours:?}");
    }
    let requests = server.state().requests;
    assert_eq!(requests, sent.len() as u64);
}

#[test]
fn a_scan_joins_its_reads() {
    let folder = TempDir::new().expect("a folder");
    let server = Server::start(folder.path());
    let record = part(folder.path(), "far", Layout::Remote, ROWS);
    let remote = open(&server, &record);
    let db = remote.connect().expect("a connection");
    server.take();
    let sum: i64 =
        db.query_row("SELECT sum(length(note)) FROM t", [], |row| row.get(0)).expect("a sum");
    assert_eq!(sum, (0..ROWS).map(|id| note(id).len() as i64).sum::<i64>());
    let (requests, bytes) = server.take();
    assert!(requests <= 12 + record.bytes / (4 << 20) * 2, "{requests} for {bytes} bytes");
    let page_reads = record.pages;
    assert!(requests * 50 < page_reads, "{requests} for {page_reads} pages");
}

#[test]
fn a_small_cache_reads_again_and_the_rows_are_right() {
    let folder = TempDir::new().expect("a folder");
    let server = Server::start(folder.path());
    let record = part(folder.path(), "far", Layout::Remote, 20_000);
    let small = options().cache_bytes(0);
    let remote = RemoteDatabase::open_url(&server.url(&record.path), Some(&record), &small);
    let db = remote.expect("a database").connect().expect("a connection");
    db.pragma_update(None, "cache_size", 10).expect("a pragma");
    for round in 0..3 {
        for id in (round..20_000).step_by(991) {
            assert_eq!(by_id(&db, id).expect("a row").1, note(id));
        }
    }
}

#[test]
fn an_object_that_changes_is_an_error() {
    let folder = TempDir::new().expect("a folder");
    let server = Server::start(folder.path());
    let record = part(folder.path(), "far", Layout::Remote, 20_000);
    let remote = open(&server, &record);
    let db = remote.connect().expect("a connection");
    assert!(by_id(&db, 1).is_ok());
    let path = folder.path().join(&record.path);
    let mut bytes = fs::read(&path).expect("the part");
    *bytes.last_mut().expect("bytes") ^= 1;
    fs::write(&path, &bytes).expect("another version");
    let error = remote.explain(by_id(&db, 15_555).expect_err("another version"));
    assert!(matches!(error.kind(), ErrorKind::Changed { .. }), "{error}");
    assert_eq!(by_id(&db, 1).expect("a page in memory").1, note(1));
    // The record says how large the object is.
    bytes.extend_from_slice(&[0; 4096]);
    fs::write(&path, &bytes).expect("another version");
    let error = RemoteDatabase::open_url(&server.url(&record.path), Some(&record), &options());
    assert!(matches!(error.expect_err("a size").kind(), ErrorKind::Changed { .. }));
}

#[test]
fn failures_that_pass_are_not_seen() {
    let folder = TempDir::new().expect("a folder");
    let server = Server::start(folder.path());
    let record = part(folder.path(), "far", Layout::Remote, 20_000);
    let remote = open(&server, &record);
    let db = remote.connect().expect("a connection");
    for (mood, id) in [(Mood::Failing(2), 3333), (Mood::Cutting(2), 7777)] {
        server.set(mood);
        assert_eq!(by_id(&db, id).expect("a row").1, note(id));
        assert_eq!(server.state().mood, Mood::Fine);
    }
}

#[test]
fn failures_that_stay_are_errors_in_time() {
    let folder = TempDir::new().expect("a folder");
    let server = Server::start(folder.path());
    let record = part(folder.path(), "far", Layout::Remote, 20_000);
    let short = RemoteOptions::default().timeout(Duration::from_secs(2));
    let remote = RemoteDatabase::open_url(&server.url(&record.path), Some(&record), &short);
    let remote = remote.expect("a database");
    let db = remote.connect().expect("a connection");
    assert!(by_id(&db, 1).is_ok());
    for mood in [Mood::Failing(1000), Mood::Silent] {
        server.set(mood);
        let started = Instant::now();
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| {
                let db = remote.connect().expect("a connection");
                by_id(&db, 9999).expect_err("no answer")
            });
            let error = remote.explain(waiting.join().expect("a thread"));
            assert!(matches!(error.kind(), ErrorKind::Io { .. }), "{error}");
        });
        assert!(started.elapsed() < HANG, "{:?}", started.elapsed());
    }
    server.set(Mood::Fine);
    assert_eq!(by_id(&db, 9999).expect("a row").1, note(9999));
}

#[test]
fn a_thread_whose_pages_are_in_memory_does_not_wait_for_another_one() {
    let folder = TempDir::new().expect("a folder");
    let server = Server::start(folder.path());
    let record = part(folder.path(), "far", Layout::Remote, 20_000);
    let long = RemoteOptions::default().timeout(HANG);
    let remote = RemoteDatabase::open_url(&server.url(&record.path), Some(&record), &long);
    let remote = remote.expect("a database");
    let db = remote.connect().expect("a connection");
    assert!(by_id(&db, 1).is_ok());
    server.take();
    server.set(Mood::Silent);
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| {
            let db = remote.connect().expect("a connection");
            by_id(&db, 9999).expect("a row")
        });
        while server.state().requests == 0 {
            std::thread::sleep(Duration::from_millis(5));
        }
        assert_eq!(by_id(&db, 1).expect("a page in memory").1, note(1));
        assert!(!waiting.is_finished());
        server.set(Mood::Fine);
        assert_eq!(waiting.join().expect("a thread").1, note(9999));
    });
}

#[test]
fn threads_that_wait_for_one_page_end_in_time() {
    let folder = TempDir::new().expect("a folder");
    let server = Server::start(folder.path());
    let record = part(folder.path(), "far", Layout::Remote, 20_000);
    let short = RemoteOptions::default().timeout(Duration::from_secs(2));
    let remote = RemoteDatabase::open_url(&server.url(&record.path), Some(&record), &short);
    let remote = remote.expect("a database");
    server.set(Mood::Silent);
    let started = Instant::now();
    std::thread::scope(|scope| {
        // One after the other they would take longer than that.
        for _ in 0..40 {
            scope.spawn(|| {
                let db = remote.connect().expect("a connection");
                by_id(&db, 9999).expect_err("no answer")
            });
        }
    });
    assert!(started.elapsed() < HANG, "{:?}", started.elapsed());
}

#[test]
fn what_cannot_be_read_is_named() {
    let folder = TempDir::new().expect("a folder");
    let server = Server::start(folder.path());
    let record = part(folder.path(), "far", Layout::Remote, 100);
    fs::write(folder.path().join("text.db"), "no database".repeat(100)).expect("a file");
    fs::write(folder.path().join("empty.db"), "").expect("a file");
    let open = |url: &str| -> Error {
        RemoteDatabase::open_url(url, None, &options()).map(drop).expect_err(url)
    };
    let error = open(&server.url("missing.db"));
    assert!(matches!(error.kind(), ErrorKind::NotFound { .. }), "{error}");
    let error = open(&server.url("text.db"));
    assert!(error.to_string().contains("no SQLite database"), "{error}");
    open(&server.url("empty.db"));
    for url in ["ftp://host/a.db", "a.db", "http://", "http://host/", "http://host/a.db?key=1"] {
        assert!(matches!(open(url).kind(), ErrorKind::Misuse(_)), "{url}");
    }
    server.set(Mood::Whole);
    let error = open(&server.url(&record.path));
    assert!(matches!(error.kind(), ErrorKind::Unsupported(_)), "{error}");
}

#[test]
fn other_stores_are_read_too_and_nothing_is_written() {
    let folder = TempDir::new().expect("a folder");
    let record = part(folder.path(), "far", Layout::Remote, 20_000);
    let path = folder.path().join(&record.path);
    let mut bytes = fs::read(&path).expect("the part");
    // As a preset with a log has it.
    bytes[18..20].fill(2);
    let memory = Arc::new(InMemory::new());
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
    let location = object_store::path::Path::from("a/b.db");
    let put = memory.put(&location, PutPayload::from(bytes));
    runtime.block_on(put).expect("an object");
    let local = object_store::local::LocalFileSystem::new_with_prefix(folder.path());
    let local = Arc::new(local.expect("a store"));
    let databases = [
        RemoteDatabase::open(memory, "a/b.db", Some(&record), &options()),
        RemoteDatabase::open(local, &record.path, Some(&record), &options()),
    ];
    for remote in databases {
        let remote = remote.expect("a database");
        let db = remote.connect().expect("a connection");
        // Where a runtime is on this thread, too.
        runtime.block_on(async { assert_eq!(by_id(&db, 12_300).expect("a row").1, note(12_300)) });
        let check: String =
            db.query_row("PRAGMA integrity_check", [], |row| row.get(0)).expect("a verdict");
        assert_eq!(check, "ok");
        assert!(db.execute("DELETE FROM t", []).is_err());
        // Temporary tables are not the object's.
        db.execute_batch("CREATE TEMP TABLE more AS SELECT id FROM t ORDER BY note")
            .expect("a table");
    }
}

/// The test goes on in a process of its own, as a fork counts for all tests of a process.
#[cfg(unix)]
#[test]
fn a_child_of_fork_is_told_to_open_its_own() {
    const ALONE: &str = "LEAFPRESS_TEST_OF_A_FORK";
    if std::env::var_os(ALONE).is_none() {
        let this = std::env::current_exe().expect("a path");
        let mut alone = std::process::Command::new(this);
        alone.args(["--exact", "a_child_of_fork_is_told_to_open_its_own"]).env(ALONE, "1");
        let done = alone.output().expect("a process");
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stdout));
        return;
    }
    let folder = TempDir::new().expect("a folder");
    let record = part(folder.path(), "far", Layout::Remote, 20_000);
    let local = object_store::local::LocalFileSystem::new_with_prefix(folder.path());
    let local = Arc::new(local.expect("a store"));
    let shards = Shards::on_store(Arc::clone(&local) as _, None, "s3://bucket", &"".into());
    let remote = RemoteDatabase::open(local, &record.path, Some(&record), &options());
    let remote = remote.expect("a database");
    let db = remote.connect().expect("a connection");
    assert!(shards.list().expect("a list").runs.is_empty());
    // From here on this is a child, for all that asks.
    leafpress::vfs::fork::count_child();
    let errors = [
        shards.list().map(drop).expect_err("they are the parent's"),
        remote.connect().map(drop).expect_err("it is the parent's"),
        remote.explain(by_id(&db, 12_300).expect_err("it is the parent's")),
    ];
    for error in errors {
        assert!(matches!(error.kind(), ErrorKind::Forked { .. }), "{error}");
        assert!(error.to_string().contains("open a new one in this process"), "{error}");
    }
}
