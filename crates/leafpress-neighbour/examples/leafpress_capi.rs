//! A few C functions over the `Writer`, so that Python's `ctypes` can use it in a process
//! whose `sqlite3` is another copy of SQLite. For `tests/python/test_neighbours.py` only.
//!
//! | answer | means |
//! |---|---|
//! | 0 or more | done |
//! | -1 | failed; `lp_error` says why |
//! | -2 | others hold locks, and nothing was changed |
//!
//! Must never: unwind into C. A panic here ends the process.
#![allow(unsafe_code)]

use std::cell::RefCell;
use std::ffi::{CStr, CString, c_char, c_int};
use std::sync::mpsc::{Sender, channel};
use std::time::Duration;

use leafpress::load::Loader;
use leafpress::verify::{VerifyOptions, verify};
use leafpress::writer::{Ticket, Writer};
use leafpress::{Error, ErrorKind, Profile};

thread_local! {
    static LAST_ERROR: RefCell<CString> = RefCell::default();
}

fn answer<T>(outcome: Result<T, Error>, done: impl FnOnce(T) -> i64) -> i64 {
    match outcome {
        Ok(value) => done(value),
        Err(error) => {
            let is_busy = matches!(error.kind(), ErrorKind::Busy { .. });
            let text = CString::new(error.to_string().replace('\0', " ")).unwrap_or_default();
            LAST_ERROR.set(text);
            if is_busy { -2 } else { -1 }
        }
    }
}

/// # Safety
/// The text must end with a zero and be UTF-8.
unsafe fn text(pointer: *const c_char) -> String {
    // SAFETY: by the caller's word.
    unsafe { CStr::from_ptr(pointer) }.to_str().expect("UTF-8").to_owned()
}

/// Why the last call of this thread failed; good until its next call.
#[unsafe(no_mangle)]
pub extern "C" fn lp_error() -> *const c_char {
    LAST_ERROR.with_borrow(|text| text.as_ptr())
}

/// A Writer under the profile of this name, or null.
///
/// # Panics
/// If there is no such profile.
///
/// # Safety
/// Both must be texts.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lp_open(
    path: *const c_char,
    profile: *const c_char,
    busy_ms: u64,
) -> *mut Writer {
    // SAFETY: by the caller's word.
    let (path, profile) = unsafe { (text(path), text(profile)) };
    let profile: Profile = profile.parse().expect("a profile");
    let builder = Writer::builder(path).profile(profile).busy_limit(Duration::from_millis(busy_ms));
    let builder = if profile == Profile::Rebuildable { builder.rebuildable_ok() } else { builder };
    let mut opened = std::ptr::null_mut();
    answer(builder.open(), |writer| {
        opened = Box::into_raw(Box::new(writer));
        0
    });
    opened
}

/// Carries out statements as one transaction.
///
/// # Safety
/// The Writer must be open, and `sql` a text.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lp_execute(writer: *const Writer, sql: *const c_char) -> i64 {
    // SAFETY: by the caller's word.
    let (writer, sql) = unsafe { (&*writer, text(sql)) };
    answer(writer.execute_batch(sql), |()| 0)
}

/// A transaction that is open until [`lp_release`].
pub struct Held {
    release: Sender<()>,
    ticket: Ticket<()>,
}

/// Begins a transaction, carries out a statement, and leaves it open.
///
/// # Safety
/// As [`lp_execute`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lp_hold(writer: *const Writer, sql: *const c_char) -> *mut Held {
    // SAFETY: by the caller's word.
    let (writer, sql) = unsafe { (&*writer, text(sql)) };
    let (entered, has_entered) = channel();
    let (release, is_released) = channel();
    let submitted = writer.submit_transaction(move |transaction| {
        transaction.execute(&sql, ())?;
        // Without a listener there is nothing to wait for.
        let _ = entered.send(());
        let _ = is_released.recv();
        Ok(())
    });
    let mut held = std::ptr::null_mut();
    answer(submitted, |ticket| {
        // It fails where the statement did; lp_release says so.
        let _ = has_entered.recv();
        held = Box::into_raw(Box::new(Held { release, ticket }));
        0
    });
    held
}

/// Commits such a transaction.
///
/// # Safety
/// `held` must be of [`lp_hold`], and not released.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lp_release(held: *mut Held) -> i64 {
    // SAFETY: by the caller's word.
    let Held { release, ticket } = *unsafe { Box::from_raw(held) };
    drop(release);
    answer(ticket.wait(), |()| 0)
}

/// Carries out statements by a connection of our copy that `leafpress` knows nothing of:
/// for a process that calls nothing else of this library.
///
/// # Safety
/// Both must be texts.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lp_plain(path: *const c_char, sql: *const c_char) -> i64 {
    // SAFETY: by the caller's word.
    let (path, sql) = unsafe { (text(path), text(sql)) };
    let outcome = rusqlite::Connection::open(path).and_then(|connection| {
        connection.busy_timeout(Duration::from_millis(300))?;
        connection.execute_batch(&sql)
    });
    match outcome {
        Ok(()) => 0,
        Err(error) if error.sqlite_error_code() == Some(rusqlite::ErrorCode::DatabaseBusy) => -2,
        Err(error) => {
            LAST_ERROR.set(CString::new(error.to_string()).unwrap_or_default());
            -1
        }
    }
}

/// Asks whether a database is sound: 1 or 0.
///
/// # Safety
/// `path` must be a text.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lp_verify(path: *const c_char) -> i64 {
    // SAFETY: by the caller's word.
    let path = unsafe { text(path) };
    answer(verify(path, &VerifyOptions::default()), |report| i64::from(report.sound))
}

/// Looks at a database as the input of a load.
///
/// # Safety
/// `path` must be a text.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lp_dry_run(path: *const c_char) -> i64 {
    // SAFETY: by the caller's word.
    let path = unsafe { text(path) };
    answer(Loader::new(format!("{path}.loaded")).dry_run_file(&path), |_| 0)
}

/// Closes a Writer.
///
/// # Safety
/// It must be open, and is not to be used any more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lp_close(writer: *mut Writer) -> c_int {
    // SAFETY: by the caller's word.
    let writer = unsafe { Box::from_raw(writer) };
    answer(writer.close(), |()| 0) as c_int
}
