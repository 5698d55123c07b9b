//! The identity of this process, counted by forks.
//!
//! A child of `fork` gets a copy of all that its parent had open, and must use none of it:
//! the threads are gone, a mutex that one of them held stays locked for ever, and
//! connections and locks are the parent's. So what belongs to a process is kept in an
//! [`OfProcess`], which gives it to that process alone, and in a child neither uses nor
//! drops it.
//!
//! 1. Code that a caller gave may fork, and then returns in both processes. So what runs
//!    such code asks [`Process::is_current`] before it goes on.
//!
//! 2. No thread is in a [`Turn`] while the process forks.
//!
//! Stands below every stage. Must never: ask the system, or take a lock where a call only asks
//! which process this is, as each call of a writer does.

use std::fmt;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use crate::error::{Error, Result};
use crate::sync::lock;

/// Forks between the first process and this one, as far as they went through the C library
/// after the first connection was opened.
static GENERATION: AtomicU32 = AtomicU32::new(0);

/// Counts a fork, in the child; returns the number of forks so far.
#[cfg(unix)]
pub fn count_child() -> u32 {
    GENERATION.fetch_add(1, Ordering::Relaxed) + 1
}

/// The process in which a thing was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Process(u32);

impl Process {
    /// The one that runs now.
    pub fn current() -> Self {
        Self(GENERATION.load(Ordering::Relaxed))
    }

    /// Returns true if no fork lies between the making and now.
    pub fn is_current(self) -> bool {
        self == Self::current()
    }

    /// Number of forks between the first process and this one.
    pub const fn forks(self) -> u32 {
        self.0
    }

    /// Refuses a call of `thing` in a child of the process that made it.
    ///
    /// # Errors
    /// [`ErrorKind::Forked`](crate::ErrorKind::Forked); nothing was done.
    pub fn check(self, thing: &'static str) -> Result<()> {
        if self.is_current() {
            return Ok(());
        }
        Err(Error::forked(thing)
            .on_disk("nothing of this call; the parent process goes on undisturbed")
            .advise("open a new one in this process, after the fork"))
    }
}

/// A value that is used and dropped by the process that made it only. A child leaves it as
/// it is: its memory is not freed there, its descriptors stay open until the child ends,
/// and no thread is joined.
pub struct OfProcess<T> {
    made_in: Process,
    thing: &'static str,
    /// There until it is dropped.
    value: Option<T>,
}

impl<T> OfProcess<T> {
    /// A value of the process that runs now; `thing` is what callers know it as.
    pub fn new(thing: &'static str, value: T) -> Self {
        Self { made_in: Process::current(), thing, value: Some(value) }
    }

    /// The value, in the process that made it.
    ///
    /// # Errors
    /// [`ErrorKind::Forked`](crate::ErrorKind::Forked) in a child.
    pub fn get(&self) -> Result<&T> {
        self.made_in.check(self.thing)?;
        Ok(self.in_any_process())
    }

    /// As [`get`](Self::get), where there is no way to tell an error.
    pub fn here(&self) -> Option<&T> {
        self.made_in.is_current().then(|| self.in_any_process())
    }

    /// As [`here`](Self::here), to change the value.
    pub fn here_mut(&mut self) -> Option<&mut T> {
        if self.made_in.is_current() { self.value.as_mut() } else { None }
    }

    /// The value, in a child too: only for what takes no lock and changes nothing.
    pub fn in_any_process(&self) -> &T {
        self.value.as_ref().expect("only drop takes the value")
    }
}

impl<T> Clone for OfProcess<Arc<T>> {
    fn clone(&self) -> Self {
        Self { value: self.value.clone(), ..*self }
    }
}

impl<T> Drop for OfProcess<T> {
    fn drop(&mut self) {
        if !self.made_in.is_current() {
            std::mem::forget(self.value.take());
        }
    }
}

impl<T: fmt::Debug> fmt::Debug for OfProcess<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.here() {
            Some(value) => value.fmt(f),
            None => write!(f, "{} of a parent process", self.thing),
        }
    }
}

/// A part of the program that all threads share and that a new thing in a child needs: one
/// thread at a time is in there, and none while the process forks. All other mutexes belong
/// to a thing, and so to one process.
///
/// In the order in which one may be taken while another is held.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Turn {
    /// Looking up a time zone: the crate `jiff` keeps them behind a lock of its own.
    TimeZones,
    /// Noting which databases are open, and their logs.
    OpenHere,
    /// Making the VFS of the process.
    LeafpressVfs,
    /// Registering a VFS, withdrawing it, and counting its open files.
    Registrations,
    /// Starting the threads on which requests to stores run.
    Requests,
}

impl Turn {
    #[cfg(unix)]
    const ALL: [Self; 5] =
        [Self::TimeZones, Self::OpenHere, Self::LeafpressVfs, Self::Registrations, Self::Requests];

    /// Waits for the turn, which lasts until the guard is dropped.
    pub fn take(self) -> MutexGuard<'static, ()> {
        static TURNS: [Mutex<()>; 5] = [const { Mutex::new(()) }; 5];
        lock(&TURNS[self as usize])
    }
}

#[cfg(unix)]
thread_local! {
    /// Taken by the thread that forks, which is the thread of the child.
    static HELD: std::cell::RefCell<Vec<MutexGuard<'static, ()>>> =
        const { std::cell::RefCell::new(Vec::new()) };
}

/// Takes all turns. To be called before a fork, by the thread that forks, and before it takes
/// mutexes of SQLite: a VFS is registered under one of these.
#[cfg(unix)]
pub fn take_all_turns() {
    let turns = Turn::ALL.map(Turn::take);
    // A thread that ends has no place for them any more: then they are not held.
    let _ = HELD.try_with(|held| held.borrow_mut().extend(turns));
}

/// Gives all turns back. To be called after a fork in both processes, after SQLite's mutexes
/// are free again.
#[cfg(unix)]
pub fn give_turns_back() {
    let _ = HELD.try_with(|held| held.borrow_mut().clear());
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::ErrorKind;

    /// A thing as a child sees it: made a fork ago.
    fn inherited<T>(thing: &'static str, value: T) -> OfProcess<T> {
        let parent = Process(Process::current().0.wrapping_sub(1));
        OfProcess { made_in: parent, thing, value: Some(value) }
    }

    struct Dropped(Arc<AtomicU32>);

    impl Drop for Dropped {
        fn drop(&mut self) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[test]
    fn a_value_is_used_and_dropped_where_it_was_made() {
        let drops = Arc::new(AtomicU32::new(0));
        let value = OfProcess::new("writer", Arc::new(Dropped(Arc::clone(&drops))));
        assert!(value.get().is_ok() && value.here().is_some());
        drop(value.clone());
        assert_eq!(drops.load(Ordering::Relaxed), 0);
        drop(value);
        assert_eq!(drops.load(Ordering::Relaxed), 1);
    }

    #[test]
    fn a_child_neither_uses_nor_drops_it_and_says_what_it_was() {
        let drops = Arc::new(AtomicU32::new(0));
        let value = inherited("queue", Arc::new(Dropped(Arc::clone(&drops))));
        let error = value.get().map(drop).expect_err("it is a parent's");
        assert!(matches!(error.kind(), ErrorKind::Forked { thing: "queue" }), "{error}");
        assert!(error.to_string().contains("the queue belongs to its parent"), "{error}");
        assert!(value.clone().here().is_none());
        drop(value);
        assert_eq!(drops.load(Ordering::Relaxed), 0);
        assert_eq!(format!("{:?}", inherited("reader", 1)), "reader of a parent process");
    }
}
