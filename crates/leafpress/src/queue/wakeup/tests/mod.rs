//! No waiter is forgotten: numbers, threads, the folder, processes.
//!
//! Nearly all tests look at the database once an hour only, so that a wake-up that is lost cannot be
//! made good a second later: a waiter then waits for [`PATIENCE`], and the test fails. No test
//! fails because a machine is slow.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, Instant};

use rusqlite::Connection;
use tempfile::TempDir;

use super::{NowMs, Pace, Waiter, WakeUps, Woken};
use crate::sync::lock;

#[cfg(unix)]
mod claims;
#[cfg(unix)]
mod folder;
mod hammer;
#[cfg(unix)]
mod processes;
mod threads;
mod waiters;

/// A waiter that waited for so long has been forgotten.
const PATIENCE: Duration = Duration::from_secs(120);
/// Looks that cannot help a test.
const NO_LOOKS: Pace =
    Pace { look_every: Duration::from_secs(3600), look_every_deaf: Duration::from_secs(3600) };

fn patience() -> Option<Instant> {
    Instant::now().checked_add(PATIENCE)
}

/// A database with a table, in a folder of its own.
struct Ground {
    folder: TempDir,
    /// The time as the wake-ups see it.
    clock: Arc<AtomicI64>,
}

impl Ground {
    fn new() -> Self {
        let ground =
            Self { folder: tempfile::tempdir().unwrap(), clock: Arc::new(AtomicI64::new(1000)) };
        let connection = Connection::open(ground.database()).unwrap();
        connection.pragma_update(None, "journal_mode", "wal").unwrap();
        connection.execute_batch("CREATE TABLE job(id INTEGER PRIMARY KEY)").unwrap();
        ground
    }

    fn database(&self) -> PathBuf {
        self.folder.path().join("app.db")
    }

    fn wake_ups(&self) -> Arc<WakeUps> {
        WakeUps::with_pace(&self.database(), None, self.now_ms(), NO_LOOKS)
    }

    /// As users have them.
    fn usual_wake_ups(&self) -> Arc<WakeUps> {
        WakeUps::new(&self.database(), None, self.now_ms())
    }

    fn now_ms(&self) -> NowMs {
        let clock = Arc::clone(&self.clock);
        Arc::new(move || clock.load(Ordering::SeqCst))
    }

    /// Names in the folder of the sockets.
    fn sockets(&self) -> Vec<String> {
        names(&self.sockets_folder())
    }

    fn sockets_folder(&self) -> PathBuf {
        self.folder.path().join("app.db-wakeups")
    }
}

fn names(folder: &Path) -> Vec<String> {
    let Ok(entries) = folder.read_dir() else { return Vec::new() };
    let mut names: Vec<String> =
        entries.map(|it| it.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

/// Waits until something is true that others bring about.
fn until(what: &str, is_true: impl Fn() -> bool) {
    let begun = Instant::now();
    while !is_true() {
        assert!(begun.elapsed() < PATIENCE, "never: {what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Number of times that the wake-up thread has woken.
fn wakes(wake_ups: &WakeUps) -> u64 {
    wake_ups.shared.wakes.load(Ordering::SeqCst)
}

fn has_thread(wake_ups: &WakeUps) -> bool {
    lock(&wake_ups.shared.state).listener.is_some()
}

/// A thread that waits once, finds something, and says how it was woken.
fn wait_beside(mut waiter: Waiter, due_ms: Option<i64>) -> std::thread::JoinHandle<Woken> {
    std::thread::spawn(move || {
        let woken = waiter.wait(due_ms, patience());
        waiter.found();
        woken
    })
}

/// Sends until what is known of the folder is trusted.
#[cfg(unix)]
fn settle(sender: &super::socket::Sender) {
    until("the listing is trusted", || {
        let before = sender.listings();
        sender.send(|| super::Message { queue_hash: 0, jobs: 1 });
        sender.listings() == before
    });
}
