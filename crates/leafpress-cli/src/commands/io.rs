//! `leafpress io`: the disk accesses of each transaction of a script.
//!
//! Must never: print rows; see `leafpress::io_report`.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use leafpress::io_report::{IoOptions, IoReport, Script, measure};
use leafpress::load::CancelToken;
use leafpress::path_text;
use leafpress::{Error, Result};

use crate::exit::Status;
use crate::flags::IoFlags;
use crate::progress::{self, Spinner};
use crate::stdin::{InterruptibleStdin, STDIN_NAME};
use crate::{interrupt, output, summary};

/// Runs one script.
pub fn run(flags: &IoFlags) -> Status {
    let stop = Stop::on_interrupt();
    match report(flags, &stop) {
        Ok(report) => {
            if flags.json {
                output::print_json(&report);
            } else {
                output::print_report(&summary::of_io(&report));
            }
            Status::Done
        }
        Err(error) => output::print_failure(error, flags.json),
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
    let script = script(flags, stop)?;
    let where_it_runs = if flags.in_place { "" } else { "a copy of " };
    let doing = format!("running SQL on {where_it_runs}{}", path_text(&flags.database));
    let spinner = Spinner::start(progress::is_wanted(flags.json), &doing);
    let outcome = measure(&flags.database, &script, &options(flags, stop));
    drop(spinner);
    outcome
}

fn script(flags: &IoFlags, stop: &Stop) -> Result<Script> {
    let mut script = Script::default();
    for (at, sql) in flags.commands.iter().enumerate() {
        let name =
            if flags.commands.len() == 1 { "-c".to_owned() } else { format!("-c {}", at + 1) };
        script.push(&name, sql)?;
    }
    match flags.file.as_deref() {
        Some(file) if file == Path::new("-") => {
            let stdin = InterruptibleStdin::new(stop.token.clone());
            let stdin = stdin.map_err(|error| Error::aborted(error.to_string()))?;
            script.push_reader(STDIN_NAME, stdin)?;
        }
        Some(file) => script.push_file(file)?,
        None => {}
    }
    Ok(script)
}

fn options(flags: &IoFlags, stop: &Stop) -> IoOptions {
    let is_stopping = Arc::clone(&stop.flag);
    let mut options = IoOptions::default()
        .locking(flags.locking.into())
        .assume_atomic(flags.assume_atomic)
        .small(flags.small)
        .rounds(flags.repeat)
        .in_place(flags.in_place)
        .busy_timeout(flags.busy_timeout)
        .memory(flags.memory)
        .stop_when(move || is_stopping.load(Ordering::Relaxed));
    if let Some(profile) = flags.profile {
        options = options.profile(profile.into());
    }
    if let Some(folder) = &flags.copy_to {
        options = options.copy_to(folder);
    }
    options
}
