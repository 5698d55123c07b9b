//! SQLite's own book-keeping of memory, and the one switch of it that no pragma has.
//!
//! Used by `memory`, which gives the numbers their names. Only [`lookaside_off`] changes a
//! connection, and only [`keep_freed`] and [`one_heap_where_limited`] the process.

use std::ffi::c_int;

use rusqlite::{Connection, ffi};

/// Blocks up to this size come from the heap, which keeps them; larger ones from the system.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
const HEAP_BLOCK_BYTES_MAX: c_int = 32 << 20;

/// Has the heap keep freed memory for the next use, for the rest of the process. For commands that
/// end when their work is done.
///
/// The decoder of Parquet allocates and frees megabytes for each piece. glibc gives them back to the
/// system and takes them again, each page with a fault: a fifth of the processor time of such a load.
/// Other C libraries are left as they are.
pub fn keep_freed() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    for (parameter, value) in
        [(libc::M_MMAP_THRESHOLD, HEAP_BLOCK_BYTES_MAX), (libc::M_TRIM_THRESHOLD, c_int::MAX)]
    {
        // SAFETY: two numbers; the allocator's own lock covers the change. A refusal changes nothing.
        unsafe { libc::mallopt(parameter, value) };
    }
}

/// Has all threads share one heap from now on, where the address space of this process is limited
/// (`ulimit -v`). For loads, whose threads come when it is known how much is left to them.
///
/// glibc gives each thread a heap of its own, and reserves 64 MiB of addresses for it: a few threads
/// take all that a load counted upon, and Rust ends a process that gets no more memory.
pub fn one_heap_where_limited() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    if rustix::process::getrlimit(rustix::process::Resource::As).current.is_some() {
        // SAFETY: two numbers; the allocator's own lock covers the change. A refusal changes nothing.
        unsafe { libc::mallopt(libc::M_ARENA_MAX, 1) };
    }
}

/// A figure: its value now, and its largest value since the last reset. Some figures have only one
/// of the two.
#[derive(Clone, Copy, Default)]
pub struct Figure {
    /// The figure now.
    pub now: u64,
    /// The most that it was.
    pub most: u64,
}

/// A figure of the whole process: `SQLITE_STATUS_…`. Zeros if SQLite does not keep it.
pub fn of_process(figure: c_int) -> Figure {
    read(|now, most| {
        // SAFETY: any number may be asked for, from any thread; the places for the
        // answers outlive the call.
        unsafe { ffi::sqlite3_status64(figure, now, most, 0) }
    })
}

/// Resets the largest value of a figure of the process to its value now.
pub fn reset_most(figure: c_int) {
    read(|now, most| {
        // SAFETY: as above.
        unsafe { ffi::sqlite3_status64(figure, now, most, 1) }
    });
}

/// A figure of a connection: `SQLITE_DBSTATUS_…`. Zeros if SQLite does not keep it.
pub fn of_connection(connection: &Connection, figure: c_int) -> Figure {
    read(|now, most| {
        let (mut now_32, mut most_32): (c_int, c_int) = (0, 0);
        // SAFETY: the handle is open as long as `connection` is borrowed; any number may
        // be asked for, and the places for the answers outlive the call.
        let code = unsafe {
            ffi::sqlite3_db_status(
                connection.handle(),
                figure,
                &raw mut now_32,
                &raw mut most_32,
                0,
            )
        };
        (*now, *most) = (now_32.into(), most_32.into());
        code
    })
}

fn read(ask: impl FnOnce(&mut i64, &mut i64) -> c_int) -> Figure {
    let (mut now, mut most) = (0, 0);
    if ask(&mut now, &mut most) != ffi::SQLITE_OK {
        return Figure::default();
    }
    Figure { now: u64::try_from(now).unwrap_or(0), most: u64::try_from(most).unwrap_or(0) }
}

/// Frees the block of small pieces that a connection takes when it is opened (48 KB unless compiled
/// otherwise), for good: small pieces come from the heap from now on.
///
/// # Errors
/// `SQLITE_BUSY` if one of the pieces is in use, as by a prepared statement; nothing
/// has changed then.
pub fn lookaside_off(connection: &Connection) -> rusqlite::Result<()> {
    // SAFETY: the handle is open as long as `connection` is borrowed, and this option
    // takes a pointer and two numbers; null and zero ask for no block at all.
    let code = unsafe {
        ffi::sqlite3_db_config(
            connection.handle(),
            ffi::SQLITE_DBCONFIG_LOOKASIDE,
            std::ptr::null_mut::<std::ffi::c_void>(),
            0 as c_int,
            0 as c_int,
        )
    };
    if code == ffi::SQLITE_OK {
        return Ok(());
    }
    Err(rusqlite::Error::SqliteFailure(ffi::Error::new(code), None))
}
