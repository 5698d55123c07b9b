//! Memory-mapped files: SQLite over a VFS of ours maps where plain SQLite does, no
//! layer is read past unasked, and no guard that lives long or dies early does harm.

use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use leafpress_vfs::{
    FileLayer, MappedBytes, OpenFlags, Opened, PlatformVfs, Vfs, VfsError, VfsFile, VfsLayer,
    VfsResult, register,
};
use rusqlite::{Connection, ffi};

use crate::{assert_sound, rows, set_journal_mode, through, work};

const MAPPED_BYTES_MAX: i64 = 100_000_000;

/// `PRAGMA mmap_size`, and what it answers.
fn map(connection: &Connection, bytes: i64) -> i64 {
    connection.query_row(&format!("PRAGMA mmap_size = {bytes}"), (), |row| row.get(0)).unwrap()
}

/// What a layer in this file does with its turn.
trait Turn: Clone + Send + Sync + 'static {
    fn maps_memory(&self) -> bool {
        true
    }
    fn read(&self, below: &mut dyn VfsFile, buffer: &mut [u8], offset: u64) -> VfsResult<usize> {
        below.read(buffer, offset)
    }
    fn write(&self, below: &mut dyn VfsFile, bytes: &[u8], offset: u64) -> VfsResult<()> {
        below.write(bytes, offset)
    }
    fn fetch(
        &self,
        below: &mut dyn VfsFile,
        offset: u64,
        bytes: usize,
    ) -> VfsResult<Option<MappedBytes>> {
        below.fetch(offset, bytes)
    }
    fn unfetch(&self, below: &mut dyn VfsFile, mapped: MappedBytes) -> VfsResult<()> {
        below.unfetch(mapped)
    }
}

/// The platform's VFS with one layer over each file.
struct Layered<T>(PlatformVfs, T);

impl<T: Turn> Layered<T> {
    fn new(turn: &T) -> Self {
        Self(PlatformVfs::new(), turn.clone())
    }
}

impl<T: Turn> VfsLayer for Layered<T> {
    fn below(&self) -> &dyn Vfs {
        &self.0
    }

    fn open(&self, path: Option<&str>, flags: OpenFlags) -> VfsResult<Opened> {
        let Opened { file, flags } = self.0.open(path, flags)?;
        Ok(Opened { file: Box::new(LayeredFile(file, self.1.clone())), flags })
    }
}

struct LayeredFile<T>(Box<dyn VfsFile>, T);

impl<T: Turn> FileLayer for LayeredFile<T> {
    fn below(&self) -> &dyn VfsFile {
        &*self.0
    }

    fn below_mut(&mut self) -> &mut dyn VfsFile {
        &mut *self.0
    }

    fn read(&mut self, buffer: &mut [u8], offset: u64) -> VfsResult<usize> {
        self.1.read(&mut *self.0, buffer, offset)
    }

    fn write(&mut self, bytes: &[u8], offset: u64) -> VfsResult<()> {
        self.1.write(&mut *self.0, bytes, offset)
    }

    fn maps_memory(&self) -> bool {
        self.1.maps_memory() && self.0.maps_memory()
    }

    fn fetch(&mut self, offset: u64, bytes: usize) -> VfsResult<Option<MappedBytes>> {
        self.1.fetch(&mut *self.0, offset, bytes)
    }

    fn unfetch(&mut self, mapped: MappedBytes) -> VfsResult<()> {
        self.1.unfetch(&mut *self.0, mapped)
    }
}

/// Counts pages that were mapped, those of them that are out, and pages that were read.
#[derive(Clone, Default)]
struct Counts(Arc<[AtomicUsize; 3]>);

impl Counts {
    fn mapped_out_read(&self) -> [usize; 3] {
        self.0.each_ref().map(|count| count.load(Ordering::Relaxed))
    }
}

impl Turn for Counts {
    fn read(&self, below: &mut dyn VfsFile, buffer: &mut [u8], offset: u64) -> VfsResult<usize> {
        self.0[2].fetch_add(usize::from(buffer.len() == 4096), Ordering::Relaxed);
        below.read(buffer, offset)
    }

    fn fetch(
        &self,
        below: &mut dyn VfsFile,
        offset: u64,
        bytes: usize,
    ) -> VfsResult<Option<MappedBytes>> {
        let mapped = below.fetch(offset, bytes)?;
        if let Some(mapped) = &mapped {
            assert_eq!(mapped.bytes(), bytes);
            self.0[0].fetch_add(1, Ordering::Relaxed);
            self.0[1].fetch_add(1, Ordering::Relaxed);
        }
        Ok(mapped)
    }

    fn unfetch(&self, below: &mut dyn VfsFile, mapped: MappedBytes) -> VfsResult<()> {
        self.0[1].fetch_sub(1, Ordering::Relaxed);
        below.unfetch(mapped)
    }
}

#[test]
fn pages_are_mapped_and_hold_the_same_rows() {
    let counts = Counts::default();
    let registration = register("mapping-counts", Layered::new(&counts)).unwrap();
    for mode in ["delete", "wal"] {
        let folder = tempfile::tempdir().unwrap();
        let plain = Connection::open(folder.path().join("plain.db")).unwrap();
        work(&plain);
        let ours = through(&registration, folder.path().join("ours.db"));
        assert_eq!(map(&ours, MAPPED_BYTES_MAX), MAPPED_BYTES_MAX);
        set_journal_mode(&ours, mode);
        work(&ours);
        assert_eq!(rows(&ours), rows(&plain), "{mode}");
        ours.query_row("PRAGMA wal_checkpoint(TRUNCATE)", (), |_| Ok(())).unwrap();

        let [mapped_before, ..] = counts.mapped_out_read();
        assert_eq!(rows(&ours), rows(&plain), "{mode}");
        let [mapped, out, read_before] = counts.mapped_out_read();
        assert!(mapped > mapped_before + 10, "{mode}: {mapped} after {mapped_before}");
        assert_eq!(out, 0, "{mode}: all given back");

        assert_eq!(map(&ours, 0), 0);
        ours.execute_batch("PRAGMA shrink_memory").unwrap();
        assert_eq!(rows(&ours), rows(&plain), "{mode}");
        let [mapped_later, _, read] = counts.mapped_out_read();
        assert_eq!(mapped_later, mapped, "{mode}: no longer");
        assert!(read > read_before, "{mode}: but read");
        assert_sound(&ours);
    }
    assert_eq!(registration.open_files(), 0);
}

/// Also with the one who writes at the same time reading through statements of its own.
#[test]
fn a_file_grows_and_shrinks_while_others_look() {
    let counts = Counts::default();
    let registration = register("mapping-grows", Layered::new(&counts)).unwrap();
    for mode in ["delete", "wal"] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.db");
        let writer = through(&registration, &path);
        let readers = [through(&registration, &path), Connection::open(&path).unwrap()];
        for connection in readers.iter().chain([&writer]) {
            connection.busy_timeout(Duration::from_secs(10)).unwrap();
            map(connection, MAPPED_BYTES_MAX);
        }
        set_journal_mode(&writer, mode);
        work(&writer);
        for round in 0..12 {
            let mut half_read = readers[0].prepare("SELECT id, x FROM t ORDER BY x, id").unwrap();
            let mut cursor = half_read.query(()).unwrap();
            if mode == "wal" {
                // In the other mode it would keep the writer out.
                cursor.next().unwrap().unwrap();
            }
            let grow = "INSERT INTO t SELECT NULL, x || id FROM t WHERE id % 3 = 0";
            let shrink = "DELETE FROM t WHERE id % 3 < 2; VACUUM";
            writer.execute_batch(if round % 3 == 2 { shrink } else { grow }).unwrap();
            let expected = rows(&writer);
            while cursor.next().unwrap().is_some() {}
            drop(cursor);
            if round % 4 == 3 {
                writer.query_row("PRAGMA wal_checkpoint(TRUNCATE)", (), |_| Ok(())).unwrap();
            }
            for reader in &readers {
                assert_eq!(rows(reader), expected, "{mode}, round {round}");
            }
        }
        readers.iter().for_each(assert_sound);
    }
    let [mapped, out, _] = counts.mapped_out_read();
    assert!(mapped > 1000 && out == 0, "{mapped} mapped, {out} out");
}

#[test]
fn big_sorts_through_mapped_files_are_right() {
    let registration = register("mapping-sorts", Layered::new(&Counts::default())).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let sorted = |connection: &Connection| -> Vec<String> {
        connection
            .execute_batch("PRAGMA temp_store = FILE; PRAGMA cache_size = 10; PRAGMA threads = 2")
            .unwrap();
        let sql = "WITH RECURSIVE n (i) AS (VALUES (1) UNION ALL SELECT i + 1 FROM n WHERE i < 30000)
                   SELECT hex(i * 2654435761 % 1000003) || hex(zeroblob(20)) AS x FROM n ORDER BY x";
        let mut statement = connection.prepare(sql).unwrap();
        statement.query_map((), |row| row.get(0)).unwrap().map(Result::unwrap).collect()
    };
    let ours = sorted(&through(&registration, folder.path().join("a.db")));
    assert_eq!(ours.len(), 30_000);
    assert!(ours == sorted(&Connection::open(folder.path().join("b.db")).unwrap()));
    assert_eq!(registration.open_files(), 0);
}

/// The bytes on the disk make sense only through this layer.
#[derive(Clone)]
struct Scrambled;

impl Turn for Scrambled {
    fn maps_memory(&self) -> bool {
        false
    }

    fn read(&self, below: &mut dyn VfsFile, buffer: &mut [u8], offset: u64) -> VfsResult<usize> {
        let count = below.read(buffer, offset)?;
        buffer[..count].iter_mut().for_each(|byte| *byte ^= 0xa5);
        Ok(count)
    }

    fn write(&self, below: &mut dyn VfsFile, bytes: &[u8], offset: u64) -> VfsResult<()> {
        let scrambled: Vec<u8> = bytes.iter().map(|byte| byte ^ 0xa5).collect();
        below.write(&scrambled, offset)
    }
}

#[test]
fn a_layer_that_does_not_map_sees_every_read() {
    let registration = register("mapping-scrambled", Layered::new(&Scrambled)).unwrap();
    let folder = tempfile::tempdir().unwrap();
    for mode in ["delete", "wal"] {
        let path = folder.path().join(format!("{mode}.db"));
        let connection = through(&registration, &path);
        assert_eq!(map(&connection, MAPPED_BYTES_MAX), 0);
        set_journal_mode(&connection, mode);
        work(&connection);
        assert_eq!(map(&connection, MAPPED_BYTES_MAX), 0);
        let plain = Connection::open_in_memory().unwrap();
        work(&plain);
        assert_eq!(rows(&connection), rows(&plain), "{mode}");
        assert_sound(&connection);
        drop(connection);
        let bytes = std::fs::read(&path).unwrap();
        assert_ne!(&bytes[..6], b"SQLite", "{mode}: it is scrambled");
    }
}

/// Only the layer on top asks to be read past: the one below is asked all the same.
#[test]
fn one_layer_that_does_not_map_is_enough() {
    struct Over(Layered<Scrambled>);
    impl VfsLayer for Over {
        fn below(&self) -> &dyn Vfs {
            &self.0
        }

        fn open(&self, path: Option<&str>, flags: OpenFlags) -> VfsResult<Opened> {
            let Opened { file, flags } = self.below().open(path, flags)?;
            Ok(Opened { file: Box::new(LayeredFile(file, Rash)), flags })
        }
    }
    #[derive(Clone)]
    struct Rash;
    impl Turn for Rash {}

    let registration = register("mapping-over", Over(Layered::new(&Scrambled))).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let connection = through(&registration, folder.path().join("a.db"));
    assert_eq!(map(&connection, MAPPED_BYTES_MAX), 0);
    work(&connection);
    assert_sound(&connection);
}

/// Keeps what SQLite gives back, and puts in a word at the wrong time.
#[derive(Clone, Default)]
struct Hoard(Arc<Mutex<Vec<MappedBytes>>>);

impl Turn for Hoard {
    fn unfetch(&self, below: &mut dyn VfsFile, mapped: MappedBytes) -> VfsResult<()> {
        let mut hoard = self.0.lock().unwrap();
        if hoard.len() < 50 {
            hoard.push(mapped);
            assert_eq!(below.unmap(), Err(VfsError::IO_MAP), "some of it is held");
            assert!(below.fetch(0, 512)?.is_none(), "not before it is mapped anew");
        } else {
            drop(mapped);
        }
        Ok(())
    }
}

#[test]
fn guards_dropped_late_are_harmless() {
    let hoard = Hoard::default();
    let registration = register("mapping-hoard", Layered::new(&hoard)).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.db");
    let plain = Connection::open_in_memory().unwrap();
    work(&plain);
    for _ in 0..2 {
        let connection = through(&registration, &path);
        work(&connection);
        map(&connection, MAPPED_BYTES_MAX);
        assert_eq!(rows(&connection), rows(&plain));
        assert_sound(&connection);
        assert!(!hoard.0.lock().unwrap().is_empty());
        // While the file is used, by another thread than its own.
        let held = std::mem::take(&mut *hoard.0.lock().unwrap());
        let dropped = std::thread::spawn(move || drop(held));
        assert_eq!(rows(&connection), rows(&plain));
        dropped.join().unwrap();
        // And after the file was closed.
        assert_eq!(rows(&connection), rows(&plain));
        connection.execute_batch("DROP TABLE t").unwrap();
        drop(connection);
        assert_eq!(registration.open_files(), 0);
        hoard.0.lock().unwrap().clear();
    }
    let beside = Connection::open(&path).unwrap();
    beside.busy_timeout(Duration::ZERO).unwrap();
    work(&beside);
    assert_sound(&beside);
}

/// Wants all unmapped while SQLite looks at the pages above the one it asks for.
#[derive(Clone, Default)]
struct Meddler(Arc<[AtomicUsize; 2]>);

impl Turn for Meddler {
    fn fetch(
        &self,
        below: &mut dyn VfsFile,
        offset: u64,
        bytes: usize,
    ) -> VfsResult<Option<MappedBytes>> {
        let refused = below.unmap().is_err();
        self.0[usize::from(refused)].fetch_add(1, Ordering::Relaxed);
        below.fetch(offset, bytes)
    }
}

#[test]
fn what_sqlite_looks_at_stays_mapped() {
    let meddler = Meddler::default();
    let registration = register("mapping-meddler", Layered::new(&meddler)).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let connection = through(&registration, folder.path().join("a.db"));
    work(&connection);
    map(&connection, MAPPED_BYTES_MAX);
    let plain = Connection::open_in_memory().unwrap();
    work(&plain);
    assert_eq!(rows(&connection), rows(&plain));
    assert_sound(&connection);
    let [unmapped, refused] = meddler.0.each_ref().map(|count| count.load(Ordering::Relaxed));
    assert!(unmapped > 0 && refused > 0, "{unmapped} times unmapped, {refused} times refused");
}

/// Answers with another place than it was asked for, or fails.
#[derive(Clone)]
struct Odd(Arc<AtomicU32>);

impl Turn for Odd {
    fn fetch(
        &self,
        below: &mut dyn VfsFile,
        offset: u64,
        bytes: usize,
    ) -> VfsResult<Option<MappedBytes>> {
        match self.0.load(Ordering::Relaxed) {
            0 => below.fetch(offset, bytes - 1),
            1 => below.fetch(offset + 4, bytes),
            2 => Err(VfsError::IO_MAP),
            3 => panic!("as the test asks for"),
            _ => below.fetch(u64::MAX - offset, bytes),
        }
    }
}

#[test]
fn odd_answers_are_not_used() {
    let odd = Odd(Arc::default());
    let registration = register("mapping-odd", Layered::new(&odd)).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let connection = through(&registration, folder.path().join("a.db"));
    work(&connection);
    map(&connection, MAPPED_BYTES_MAX);
    for (which, code) in [
        (0, None),
        (1, None),
        (2, Some(ffi::SQLITE_IOERR_MMAP)),
        (3, Some(ffi::SQLITE_IOERR)),
        (4, Some(ffi::SQLITE_IOERR_MMAP)),
    ] {
        odd.0.store(which, Ordering::Relaxed);
        let sum = connection.query_row("SELECT sum(id) FROM t", (), |row| row.get::<_, i64>(0));
        let found = sum.as_ref().err().and_then(rusqlite::Error::sqlite_error);
        assert_eq!(found.map(|error| error.extended_code), code, "{which}: {sum:?}");
    }
    odd.0.store(0, Ordering::Relaxed);
    assert_sound(&connection);
}

#[test]
fn what_is_asked_for_far_beyond_the_end_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.db");
    let flags = OpenFlags::MAIN_DB | OpenFlags::READ_WRITE | OpenFlags::CREATE;
    let mut file = PlatformVfs::new().open(path.to_str(), flags).unwrap().file;
    assert!(file.maps_memory());
    assert!(file.fetch(0, 4096).unwrap().is_none(), "mapping was not asked for");
    for offset in [u64::MAX, i64::MAX as u64, i64::MAX as u64 - 4200] {
        assert_eq!(file.fetch(offset, 4096).err(), Some(VfsError::IO_MAP), "{offset}");
    }
    assert_eq!(file.fetch(0, usize::MAX).err(), Some(VfsError::IO_MAP));
    file.unmap().unwrap();
}
