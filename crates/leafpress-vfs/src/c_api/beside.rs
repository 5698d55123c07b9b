//! Data of SQLite's calls for which the traits have no room.
//!
//! The parameters of a URI (`psow=0`, `readonly_shm=1`) are in memory behind the path of a
//! database, where SQLite's own VFS looks for them. And SQLite's way to say "this path went through
//! a symbolic link" is a second code for success. Few implementations need them, so the traits have
//! `&str`. Between the glue and `PlatformVfs`, which are on one thread with decorators between
//! them, thread-local variables carry the two.
//!
//! Must never: outlive the call. The glue sets both, and resets them.

use std::cell::{Cell, RefCell};
use std::ffi::CString;

thread_local! {
    static URI_PARAMETERS: RefCell<Vec<CString>> = const { RefCell::new(Vec::new()) };
    static FOLLOWED_LINK: Cell<bool> = const { Cell::new(false) };
}

/// Runs `open` with the parameters of the database's URI: names and values in turn.
pub(super) fn with_uri_parameters<T>(parameters: Vec<CString>, open: impl FnOnce() -> T) -> T {
    /// Empties the list, also when `open` panics.
    struct Reset;
    impl Drop for Reset {
        fn drop(&mut self) {
            URI_PARAMETERS.take();
        }
    }
    URI_PARAMETERS.set(parameters);
    let _reset = Reset;
    open()
}

/// The parameters of the URI whose database is being opened on this thread.
pub(super) fn uri_parameters() -> Vec<CString> {
    URI_PARAMETERS.with_borrow(Clone::clone)
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
