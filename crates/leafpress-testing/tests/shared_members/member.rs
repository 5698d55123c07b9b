//! The process that writes, until its standard input ends.
//!
//! It says each row's number on its standard output, after the call was answered; an error, by a line
//! that begins with `error`; and at the end the numbers of its sharing.
//!
//! Must never: hide an error, or judge anything.

use std::fmt::Display;
use std::io::{Read as _, Write as _};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use leafpress::writer::Writer;
use rusqlite::Connection;

pub const FLAG: &str = "--as-member";
/// Row numbers of one process.
pub const IDS_EACH: i64 = 1_000_000_000;
pub const CALLERS: i64 = 4;
pub const INSERT: &str = "INSERT INTO row(id) VALUES (?1)";

/// Parts that a process can play.
pub const HONEST: &str = "honest";
/// Says a row's number before its call is answered.
pub const TOO_EARLY: &str = "too-early";
/// Has many writers.
pub const MANY: &str = "many";
/// Uses SQLite without Leafpress, and writes now and then.
pub const PLAIN: &str = "plain";

pub const WRITERS_OF_MANY: usize = 26;
/// Said by a writer of many that works by itself.
pub const ALONE: &str = "alone";
pub const READY: &str = "ready";
pub const END: &str = "end";

/// Longer than a test lasts: an error says that a process waited for ever.
const BUSY_LIMIT: Duration = Duration::from_secs(120);
/// As applications have it.
const BUSY_LIMIT_OF_PLAIN: Duration = Duration::from_secs(5);
const PAUSE_OF_PLAIN: Duration = Duration::from_millis(50);

static IS_OVER: AtomicBool = AtomicBool::new(false);

pub fn write_until_told(path: &Path, first_id: i64, part: &str) {
    std::thread::spawn(|| {
        let _ = std::io::stdin().read_to_end(&mut Vec::new());
        IS_OVER.store(true, Ordering::Release);
    });
    let rows = Rows { next: first_id, end: first_id + IDS_EACH };
    match part {
        PLAIN => write_plainly(path, &rows),
        MANY => write_with_many(path, &rows),
        _ => write(path, &rows, part == TOO_EARLY),
    }
}

/// One write for the whole line, so that no line is torn.
fn say(line: impl Display) {
    std::io::stdout().lock().write_all(format!("{line}\n").as_bytes()).unwrap();
}

/// The rows that are left to write.
struct Rows {
    next: i64,
    end: i64,
}

impl Rows {
    /// Each `step`th of the rows, until this process is told to end.
    fn each(&self, caller: i64, step: i64) -> impl Iterator<Item = i64> {
        let goes_on = |_: &i64| !IS_OVER.load(Ordering::Acquire);
        (self.next + caller..self.end).step_by(step as usize).take_while(goes_on)
    }
}

fn write(path: &Path, rows: &Rows, is_too_early: bool) {
    let writer = match Writer::builder(path).shared().busy_limit(BUSY_LIMIT).open() {
        Ok(writer) => writer,
        Err(error) => return say(format_args!("error of open: {error}")),
    };
    if let Some(why_not) = writer.stats().sharing.unwrap().why_not {
        say(format_args!("error: it does not share: {why_not}"));
    }
    say(READY);
    std::thread::scope(|scope| {
        for caller in 0..CALLERS {
            let (writer, ids) = (&writer, rows.each(caller, CALLERS));
            scope.spawn(move || {
                for id in ids {
                    if is_too_early {
                        say(id);
                    }
                    match writer.execute(INSERT, [id]) {
                        Ok(_) if is_too_early => {}
                        Ok(_) => say(id),
                        Err(error) => say(format_args!("error of row {id}: {error}")),
                    }
                }
            });
        }
    });
    let sharing = writer.stats().sharing.unwrap();
    if let Err(error) = writer.close() {
        say(format_args!("error of close: {error}"));
    }
    say(format_args!(
        "{END}: {} own syncs, {} of others, {} lonely, {} waits in the line",
        sharing.own_syncs, sharing.syncs_of_others, sharing.lonely_syncs, sharing.waits_in_line
    ));
}

fn write_with_many(path: &Path, rows: &Rows) {
    let open = |_| Writer::builder(path).shared().busy_limit(BUSY_LIMIT).open().unwrap();
    let writers: Vec<Writer> = (0..WRITERS_OF_MANY).map(open).collect();
    for why_not in writers.iter().filter_map(|it| it.stats().sharing.unwrap().why_not) {
        say(format_args!("{ALONE}: {why_not}"));
    }
    say(READY);
    std::thread::scope(|scope| {
        for (writer, caller) in writers.iter().zip(0..) {
            let ids = rows.each(caller, WRITERS_OF_MANY as i64);
            scope.spawn(move || {
                for id in ids {
                    match writer.execute(INSERT, [id]) {
                        Ok(_) => say(id),
                        Err(error) => say(format_args!("error of row {id}: {error}")),
                    }
                }
            });
        }
    });
    say(END);
}

fn write_plainly(path: &Path, rows: &Rows) {
    let connection = Connection::open(path).unwrap();
    connection.busy_timeout(BUSY_LIMIT_OF_PLAIN).unwrap();
    say(READY);
    for id in rows.each(0, 1) {
        match connection.execute(INSERT, [id]) {
            Ok(_) => say(id),
            Err(error) => say(format_args!("error of the plain row {id}: {error}")),
        }
        std::thread::sleep(PAUSE_OF_PLAIN);
    }
    say(END);
}
