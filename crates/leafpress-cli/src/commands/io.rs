//! `leafpress io`: the disk accesses of each transaction of a script.
//!
//! Must never: print rows; see [`crate::io_report`].

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use leafpress::load::CancelToken;
use leafpress::script::{Statement, split};
use leafpress::vfs::PlatformDisk;
use leafpress::{Error, Result, path_text};

use crate::exit::Status;
use crate::flags::IoFlags;
use crate::io_report::{IoOptions, IoReport, measure, script};
use crate::loading::as_stop;
use crate::progress::{self, Spinner};
use crate::stdin::{InterruptibleStdin, STDIN_NAME};
use crate::{interrupt, output, summary};

/// Runs one script.
pub fn run(flags: &IoFlags) -> Status {
    let stop = Stop::on_interrupt();
    match report(flags, &stop) {
        Ok(report) => output::print_answer(flags.json, &report, || summary::of_io(&report)),
        Err(error) => output::print_failure(as_stop(error, &stop.token), flags.json),
    }
}

/// The wish to stop, for what waits for input and for what runs.
struct Stop {
    token: CancelToken,
    flag: Arc<AtomicBool>,
}

impl Stop {
    fn on_interrupt() -> Self {
        let stop = Self { token: CancelToken::new(), flag: Arc::default() };
        let (token, flag) = (stop.token.clone(), Arc::clone(&stop.flag));
        interrupt::on_interrupt(move || {
            flag.store(true, Ordering::Relaxed);
            token.cancel();
        });
        stop
    }
}

fn report(flags: &IoFlags, stop: &Stop) -> Result<IoReport> {
    let statements = statements(flags, stop)?;
    let where_it_runs = if flags.in_place { "" } else { "a copy of " };
    let doing = format!("running SQL on {where_it_runs}{}", path_text(&flags.database));
    let spinner = Spinner::start(progress::is_wanted(flags.json), &doing);
    let outcome = measure(&flags.database, &statements, &options(flags, stop));
    drop(spinner);
    outcome
}

fn statements(flags: &IoFlags, stop: &Stop) -> Result<Vec<Statement>> {
    let mut statements = Vec::new();
    for (at, sql) in flags.commands.iter().enumerate() {
        let name =
            if flags.commands.len() == 1 { "-c".to_owned() } else { format!("-c {}", at + 1) };
        statements.extend(split(&name, sql)?);
    }
    match flags.file.as_deref() {
        Some(file) if file == Path::new("-") => {
            let stdin = InterruptibleStdin::new(stop.token.clone());
            let stdin = stdin.map_err(|error| Error::aborted(error.to_string()))?;
            statements.extend(script::of_reader(STDIN_NAME, stdin)?);
        }
        Some(file) => statements.extend(script::of_file(file, &stop.token)?),
        None => {}
    }
    Ok(statements)
}

fn options(flags: &IoFlags, stop: &Stop) -> IoOptions {
    let is_stopping = Arc::clone(&stop.flag);
    let disk = if flags.assume_atomic { PlatformDisk::assuming() } else { PlatformDisk::new() };
    IoOptions {
        profile: flags.profile.map(Into::into),
        locking: flags.locking.into(),
        small: flags.small,
        rounds: flags.repeat,
        in_place: flags.in_place,
        copy_to: flags.copy_to.clone(),
        memory: flags.memory,
        busy_timeout: flags.busy_timeout,
        stop: Arc::new(move || is_stopping.load(Ordering::Relaxed)),
        disk: Arc::new(disk),
        ..IoOptions::default()
    }
}
