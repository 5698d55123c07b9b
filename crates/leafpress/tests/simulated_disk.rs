//! A disk that is played by the whole process, which no other test may share: one test, one
//! process. That each sum is exact is tested with a clock that stands still, beside the
//! model; here everything that writes is seen to go through it, and to take at least as long.

use std::path::Path;
use std::time::{Duration, Instant};

use leafpress::Profile;
use leafpress::load::{Column, ColumnType, IntoTable, Loader};
use leafpress::profile;
use leafpress::vfs::atomic::AtomicState;
use leafpress::vfs::{self, DiskModel, Simulation, SimulationStats};
use leafpress::writer::Writer;
use rusqlite::Connection;

const FLUSH: Duration = Duration::from_millis(2);

/// A small and slow one: no more than 64 KiB may wait.
fn model() -> DiskModel {
    let mut model = DiskModel::EMMC;
    model.name = "test";
    model.flush = FLUSH;
    model.request = Duration::from_micros(100);
    model.bytes_per_second = 500_000_000;
    model.unwritten_bytes_max = 64 << 10;
    model
}

/// Work of the disk meanwhile, for this test alone; and the time that all of it takes.
fn meanwhile(disk: &Simulation, work: impl FnOnce()) -> SimulationStats {
    let (before, begun) = (disk.stats(), Instant::now());
    work();
    let (took, after) = (begun.elapsed(), disk.stats());
    let mut done = after;
    done.syncs -= before.syncs;
    done.busy -= before.busy;
    done.bytes_written -= before.bytes_written;
    assert!(took >= done.busy, "{took:?} {done:?}");
    assert!(done.busy >= FLUSH * u32::try_from(done.syncs).unwrap(), "{done:?}");
    done
}

fn count(path: &Path, table: &str) -> i64 {
    let connection = Connection::open(path).unwrap();
    let verdict: String =
        connection.query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap();
    assert_eq!(verdict, "ok");
    let query = format!("SELECT count(*) FROM {table}");
    connection.query_row(&query, [], |row| row.get(0)).unwrap()
}

/// 32 random bytes from a number, by which rows come in no order.
fn scattered(number: i64) -> Vec<u8> {
    let mut state = number.cast_unsigned() + 1;
    std::iter::repeat_with(|| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963);
        (state >> 40) as u8
    })
    .take(32)
    .collect()
}

#[test]
fn whatever_the_process_writes_takes_as_long_as_on_the_disk() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    assert!(vfs::simulation().is_none());

    // Who was open before stays fast.
    let before = Connection::open(path("before.db")).unwrap();
    let disk = vfs::simulate(model()).unwrap();
    before.execute_batch("CREATE TABLE t (x)").unwrap();
    assert_eq!(disk.stats(), SimulationStats::default());

    one_disk_in_a_process(disk);
    plain_connections(disk, &path("plain.db"));
    our_own_vfs(disk, &path("rollback.db"));
    a_writer(disk, &path("writer.db"));
    loads(disk, &path("load.db"));
    a_spilled_sort(disk, &path("sorted.db"));
}

fn one_disk_in_a_process(disk: &Simulation) {
    let again = vfs::simulate(model()).unwrap();
    assert!(std::ptr::eq(disk, again));
    assert!(std::ptr::eq(disk, vfs::simulation().unwrap()));
    let error = vfs::simulate(DiskModel::SDCARD).unwrap_err().to_string();
    assert!(error.contains("simulates test already, not sdcard"), "{error}");
    assert_eq!(disk.model(), &model());
    assert!(format!("{disk:?}").contains("test"));
}

fn plain_connections(disk: &Simulation, path: &Path) {
    let connection = Connection::open(path).unwrap();
    let done = meanwhile(disk, || connection.execute_batch("CREATE TABLE t (x)").unwrap());
    assert!(done.syncs >= 2, "{done:?}");
    // Two connections of a database in WAL mode, over shared memory, one of them mapped.
    connection.execute_batch("PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL").unwrap();
    let other = Connection::open(path).unwrap();
    other.execute_batch("PRAGMA mmap_size = 1000000").unwrap();
    let done = meanwhile(disk, || {
        for number in 0..5 {
            let by = if number % 2 == 0 { &connection } else { &other };
            by.execute("INSERT INTO t VALUES (?1)", [number]).unwrap();
        }
    });
    assert!(done.syncs >= 5, "{done:?}");
    let done = meanwhile(disk, || {
        connection.execute_batch("PRAGMA synchronous = OFF").unwrap();
        let blob = vec![7_u8; 300_000];
        connection.execute("INSERT INTO t VALUES (?1)", [&blob]).unwrap();
    });
    assert_eq!(done.syncs, 0);
    assert!(done.bytes_written >= 200_000, "what is beyond the bound is written: {done:?}");
    drop((connection, other));
    assert_eq!(count(path, "t"), 6);
}

fn our_own_vfs(disk: &Simulation, path: &Path) {
    let (connection, in_force) = profile::open(path, &Profile::Rollback.into()).unwrap();
    let state = in_force.page_writes;
    assert!(
        !matches!(state, Some(AtomicState::Whole { .. })),
        "none of these disks does: {state:?}"
    );
    let done = meanwhile(disk, || {
        connection.execute_batch("CREATE TABLE t (x); INSERT INTO t VALUES (1)").unwrap();
    });
    assert!(done.syncs >= 4, "{done:?}");
    drop(connection);
    assert_eq!(count(path, "t"), 1);
}

fn a_writer(disk: &Simulation, path: &Path) {
    let done = meanwhile(disk, || {
        let writer = Writer::builder(path).open().unwrap();
        writer.execute("CREATE TABLE t (x)", ()).unwrap();
        writer.execute("INSERT INTO t VALUES (1)", ()).unwrap();
        writer.close().unwrap();
    });
    assert!(done.syncs >= 2, "{done:?}");
    assert_eq!(count(path, "t"), 1);
}

fn loads(disk: &Simulation, path: &Path) {
    let columns = [Column::new("id", ColumnType::Integer), Column::new("name", ColumnType::Text)];
    let rows = |from: i64| (from..from + 5_000).map(|id| (id, Some(format!("name {id}"))));
    let loader = || Loader::new(path).table("t");
    let done = meanwhile(disk, || {
        loader().primary_key("id").load_rows(&columns, rows(0)).unwrap();
    });
    let bytes = std::fs::metadata(path).unwrap().len();
    assert!(done.syncs >= 2, "the file and its name: {done:?}");
    assert!(done.bytes_written >= bytes, "{bytes} {done:?}");
    let done = meanwhile(disk, || {
        let appended = loader().into_table(IntoTable::Append);
        appended.load_rows(&columns, rows(5_000)).unwrap();
    });
    assert!(done.syncs >= 1, "{done:?}");
    assert_eq!(count(path, "t"), 10_000);
}

fn a_spilled_sort(disk: &Simulation, path: &Path) {
    let columns = [Column::new("key", ColumnType::Blob), Column::new("data", ColumnType::Blob)];
    let rows = (0..60_000_i64).map(|id| (scattered(id), vec![7_u8; 300]));
    let loader = Loader::new(path).table("t").primary_key("key").without_rowid(true);
    let mut spilled_bytes = 0;
    let done = meanwhile(disk, || {
        spilled_bytes = loader.memory(8 << 20).load_rows(&columns, rows).unwrap().spilled_bytes;
    });
    let bytes = std::fs::metadata(path).unwrap().len();
    assert!(spilled_bytes > 1 << 20, "{spilled_bytes}");
    // But for what could wait, and was gone before it was written.
    let least = bytes + spilled_bytes - (64 << 10);
    assert!(done.bytes_written >= least, "{bytes} and {spilled_bytes}: {done:?}");
    assert_eq!(count(path, "t"), 60_000);
}

/// Plays nothing: the document beside the code.
#[test]
fn the_document_has_the_figures_and_the_sources_of_the_code() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/experiments.md");
    let document = std::fs::read_to_string(path).unwrap();
    let (_, section) = document.split_once("\n## Simulated disks\n").unwrap();
    let section = section.split("\n## ").next().unwrap();
    for model in DiskModel::ALL {
        let figures = model.figures();
        let [sync, write, in_order] = &figures.split(", ").collect::<Vec<_>>()[..] else {
            panic!("{figures}");
        };
        let (name, title) = (model.name, model.title);
        let sync = sync.trim_end_matches(" a sync");
        let write = write.trim_end_matches(" a write");
        let in_order = in_order.trim_end_matches(" in order");
        let mebibytes = model.unwritten_bytes_max >> 20;
        let row =
            format!("| `{name}` | {title} | {sync} | {write} | {in_order} | {mebibytes} MiB |");
        let found = section.lines().find(|line| line.starts_with(&row));
        let found = found.unwrap_or_else(|| panic!("docs/experiments.md should have:\n{row}"));
        // The source that all disks share is named once, below the table.
        for source in model.sources {
            let link = format!("]({})", source.url);
            let is_shared = DiskModel::ALL.iter().all(|disk| disk.sources.contains(source));
            let place = if is_shared { section } else { found };
            assert!(place.contains(&link), "{name} in docs/experiments.md should link to {link}");
        }
    }
}
