//! Threads of loads and of new indexes: as many as the system gives.
//!
//! Must never: panic where the system gives no thread.

use std::panic::resume_unwind;
use std::thread::{Builder, Scope, ScopedJoinHandle};

use crate::error::{Error, Result};

const PURPOSE: &str = "for a load or an index";

/// Starts a thread that ends within `scope`.
///
/// # Errors
/// [`ErrorKind::Thread`](crate::ErrorKind::Thread), and `work` is not done.
pub(crate) fn start<'scope, T: Send + 'scope>(
    scope: &'scope Scope<'scope, '_>,
    work: impl FnOnce() -> T + Send + 'scope,
) -> Result<ScopedJoinHandle<'scope, T>> {
    #[cfg(test)]
    injected::take_one().map_err(|source| Error::no_thread(PURPOSE, source))?;
    Builder::new().spawn_scoped(scope, work).map_err(|source| Error::no_thread(PURPOSE, source))
}

/// Starts up to `count` threads that share one work. Where the system gives fewer, these do it all.
///
/// # Errors
/// That of [`start`], where the system gives none.
pub(crate) fn start_workers<'scope, T, W>(
    scope: &'scope Scope<'scope, '_>,
    count: usize,
    mut worker: impl FnMut() -> W,
) -> Result<Vec<ScopedJoinHandle<'scope, T>>>
where
    T: Send + 'scope,
    W: FnOnce() -> T + Send + 'scope,
{
    let mut workers = Vec::with_capacity(count);
    while workers.len() < count {
        match start(scope, worker()) {
            Ok(worker) => workers.push(worker),
            Err(error) if workers.is_empty() => return Err(error),
            Err(_) => break,
        }
    }
    Ok(workers)
}

/// Waits for threads; returns their outcomes. Goes on with the panic of one that panicked: a scope
/// that ends without this has a panic of its own, and the message of the caller's code is lost.
pub(crate) fn join_all<'scope, T>(
    threads: impl IntoIterator<Item = ScopedJoinHandle<'scope, T>>,
) -> Vec<T> {
    let outcomes = threads.into_iter().map(ScopedJoinHandle::join);
    outcomes.map(|outcome| outcome.unwrap_or_else(|panic| resume_unwind(panic))).collect()
}

/// A system that gives the threads that a test allows.
#[cfg(test)]
mod injected {
    use std::cell::Cell;
    use std::io;

    thread_local! {
        static LEFT: Cell<usize> = const { Cell::new(usize::MAX) };
    }

    /// Takes one of the threads that the calling thread may start.
    pub fn take_one() -> io::Result<()> {
        let left = LEFT.get();
        LEFT.set(left.checked_sub(1).ok_or(io::ErrorKind::WouldBlock)?);
        Ok(())
    }

    /// Number of threads that this thread starts in `work`.
    pub fn count_in(work: impl FnOnce()) -> usize {
        with_threads(usize::MAX, || {
            work();
            usize::MAX - LEFT.get()
        })
    }

    /// Does `work`, in which this thread gets so many threads and no more.
    pub fn with_threads<T>(count: usize, work: impl FnOnce() -> T) -> T {
        LEFT.set(count);
        let outcome = work();
        LEFT.set(usize::MAX);
        outcome
    }
}

#[cfg(test)]
mod tests {
    use std::fmt::Write as _;
    use std::fs;
    use std::io::Read;
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::path::Path;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

    use rusqlite::Connection;

    use super::injected::{count_in, with_threads};
    use crate::input::json::{JsonOptions, JsonSource};
    use crate::input::rows::RowSource as _;
    use crate::input::source::Source;
    use crate::load::Indexer;
    use crate::{ErrorKind, Loader, Result};

    const ROWS: i64 = 3000;
    const ENOUGH: usize = 1_000_000;

    /// Longer than what is loaded without a thread.
    fn csv() -> String {
        let mut text = String::from("id,name\n");
        for row in 0..ROWS {
            // Not in key order, so that it is sorted.
            let id = (row * 7919) % ROWS;
            writeln!(text, "{id},name {row:>400}").unwrap();
        }
        text
    }

    fn rows(path: &Path, table: &str) -> Option<i64> {
        let connection = Connection::open(path).unwrap();
        connection.query_row(&format!("SELECT count(*) FROM {table}"), [], |row| row.get(0)).ok()
    }

    /// Runs `work` with ever more threads, and at last with enough for all cores; returns how often
    /// one lacked.
    fn failures(work: impl Fn(usize) -> Result<()>) -> usize {
        let mut failures = 0;
        for count in (0..24).chain([ENOUGH]) {
            if let Err(error) = with_threads(count, || work(count)) {
                assert!(matches!(error.kind(), ErrorKind::Thread { .. }), "{count}: {error}");
                assert_ne!(count, ENOUGH, "{error}");
                failures += 1;
            }
        }
        failures
    }

    #[test]
    fn a_load_is_done_with_the_threads_that_there_are_or_leaves_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let failures = failures(|count| {
            let path = folder.path().join(format!("{count}.db"));
            let loader = Loader::new(&path).table("t").primary_key("id").index("name");
            let loader = loader.progress(|_| {});
            let outcome = loader.load_reader("t.csv", csv().as_bytes()).map(drop);
            assert_eq!(path.exists(), outcome.is_ok(), "{count}");
            if outcome.is_ok() {
                assert_eq!(rows(&path, "t"), Some(ROWS), "{count}");
            }
            outcome
        });
        assert!(failures >= 1);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 25 - failures);
    }

    #[test]
    fn a_database_that_is_there_stays_as_it_was_where_a_thread_lacks() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.db");
        Connection::open(&path).unwrap().execute_batch("CREATE TABLE old (x)").unwrap();
        let failures = failures(|count| {
            let table = format!("t{count}");
            let loader = Loader::new(&path).table(&table);
            let outcome = loader.load_reader("t.csv", csv().as_bytes()).map(drop);
            let expected = outcome.is_ok().then_some(ROWS);
            assert_eq!(rows(&path, &table), expected, "{count}");
            outcome?;
            let index = format!("{table}_by_name");
            Indexer::new(&path, &table).name(&index).build("name").map(drop)
        });
        assert!(failures >= 2, "of the load and of the index");
        assert_eq!(rows(&path, "old"), Some(0));
    }

    #[test]
    fn keys_of_json_are_found_by_the_threads_that_there_are() {
        let folder = tempfile::tempdir().unwrap();
        let failures = failures(|count| {
            let path = folder.path().join(format!("{count}.db"));
            // The second key comes after the part by which columns are found at first.
            let text = format!("{}{{\"b\": 3}}\n", "{\"a\": 1}\n".repeat(120_000));
            let loader = Loader::new(&path).table("t");
            let outcome = loader.load_reader("t.json", text.as_bytes()).map(drop);
            if outcome.is_ok() {
                assert_eq!(rows(&path, "t"), Some(120_001), "{count}");
                assert_eq!(rows(&path, "t WHERE b = 3"), Some(1), "{count}");
            }
            outcome
        });
        assert!(failures >= 1);
    }

    #[test]
    fn keys_of_json_are_found_by_as_many_threads_as_wanted() {
        for threads in 1..=3 {
            let bytes_read = Arc::new(AtomicU64::new(0));
            let options = JsonOptions { threads, ..JsonOptions::default() };
            let source = Source::reader("t.json", &b"{\"a\": 1}\n"[..], None);
            let mut source = JsonSource::new(source, options, &bytes_read).unwrap();
            let started = count_in(|| source.discover_columns(&bytes_read).unwrap());
            assert_eq!(started, threads);
        }
    }

    /// Loads the text of a reader; returns the message of the panic by which the load ends.
    fn panic_of(loader: &dyn Fn(Loader) -> Loader, read: impl FnMut() + Send) -> String {
        struct Asked<F>(F, u32);
        impl<F: FnMut()> Read for Asked<F> {
            fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
                self.1 += 1;
                // By the third read all is begun.
                if self.1 == 3 {
                    (self.0)();
                }
                Ok(if self.1 < 5 { (&b"a,b\n"[..]).read(buffer)? } else { 0 })
            }
        }
        let folder = tempfile::tempdir().unwrap();
        let load = || {
            let loader = loader(Loader::new(folder.path().join("t.db")).table("t").threads(2));
            loader.load_reader("t.csv", Asked(read, 0)).map(drop)
        };
        let panic = catch_unwind(AssertUnwindSafe(load)).unwrap_err();
        panic.downcast_ref::<&str>().copied().unwrap_or("another one").to_owned()
    }

    #[test]
    fn panics_of_a_callers_code_keep_their_messages() {
        assert_eq!(panic_of(&|loader| loader, || panic!("the reader")), "the reader");
        let (test, told) = (std::thread::current().id(), Arc::new(AtomicBool::new(false)));
        let watched = |loader: Loader| {
            let told = told.clone();
            loader.progress(move |_| {
                told.store(true, Ordering::Release);
                assert!(std::thread::current().id() == test, "the progress");
            })
        };
        let until_told = || {
            while !told.load(Ordering::Acquire) {
                std::thread::yield_now();
            }
        };
        assert_eq!(panic_of(&watched, until_told), "the progress");
    }
}
