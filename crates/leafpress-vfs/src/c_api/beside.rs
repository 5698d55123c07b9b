//! Data of SQLite's calls for which the traits have no room.
//!
//! The parameters of a URI (`psow=0`, `readonly_shm=1`) are in memory behind the path of a
//! database, where SQLite's own VFS looks for them. And SQLite's way to say "this path went through
//! a symbolic link" is a second code for success. The file of a log does not see the locks of its
//! connection. Few implementations need these, so the traits have `&str`. Between the glue and
//! what needs them, which are on one thread with decorators between them, thread-local variables
//! carry the three.
//!
//! Must never: outlive the call. The glue sets them, and resets them.

use std::cell::{Cell, RefCell};
use std::ffi::CString;
use std::sync::Arc;

use super::write_lock::WriteLock;

thread_local! {
    static URI_PARAMETERS: RefCell<Vec<CString>> = const { RefCell::new(Vec::new()) };
    static WRITE_LOCK: RefCell<Option<Arc<WriteLock>>> = const { RefCell::new(None) };
    static FOLLOWED_LINK: Cell<bool> = const { Cell::new(false) };
}

/// Data for the opening of one file.
#[derive(Default)]
pub struct Opening {
    /// The parameters of a database's URI: names and values in turn.
    pub uri_parameters: Vec<CString>,
    /// The lock under which a log will be written.
    pub write_lock: Option<Arc<WriteLock>>,
}

impl Opening {
    /// Runs `open` with these data.
    pub fn run<T>(self, open: impl FnOnce() -> T) -> T {
        /// Takes the data back, also when `open` panics.
        struct Reset;
        impl Drop for Reset {
            fn drop(&mut self) {
                URI_PARAMETERS.take();
                WRITE_LOCK.take();
            }
        }
        let _reset = Reset;
        URI_PARAMETERS.set(self.uri_parameters);
        WRITE_LOCK.set(self.write_lock);
        open()
    }
}

/// The parameters of the URI whose database is being opened on this thread.
pub(super) fn uri_parameters() -> Vec<CString> {
    URI_PARAMETERS.with_borrow(Clone::clone)
}

/// The lock under which the log will be written that is being opened on this thread.
pub(super) fn write_lock() -> Option<Arc<WriteLock>> {
    WRITE_LOCK.with_borrow(Clone::clone)
}

/// Notes that the platform went through a symbolic link to make a full path.
pub(super) fn note_link() {
    FOLLOWED_LINK.set(true);
}

/// Runs `make_path`; also returns true if the path went through a symbolic link.
pub(super) fn watch_links<T>(make_path: impl FnOnce() -> T) -> (T, bool) {
    FOLLOWED_LINK.set(false);
    let path = make_path();
    (path, FOLLOWED_LINK.replace(false))
}
