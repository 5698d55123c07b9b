//! `leafpress load`: from flags to a [`Loader`], and from its report to a summary.
//!
//! Must never: read or write a row itself, or begin a load whose flags contradict.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use leafpress::Error;
use leafpress::load::{CancelToken, DryRun, Loader};

use self::both::Outcome;
use self::check::check;
use self::loader::{into_table, loader, with_keys};
use crate::cluster::url_of;
use crate::exit::Status;
use crate::flags::{LoadFlags, usage_error};
use crate::loading::{as_stop, is_stdin, load, paths, stdin};
use crate::progress::LoadBar;
use crate::stdin::STDIN_NAME;
use crate::{interrupt, output, summary};

pub mod both;
mod check;
#[cfg(feature = "rqlite")]
pub mod cluster;
mod loader;
#[cfg(feature = "rqlite")]
mod to_cluster;

/// Loads the inputs into one table.
///
/// # Errors
/// The flags contradict one another.
pub fn run(flags: &LoadFlags) -> Result<Status, clap::Error> {
    let as_usage_error = |message: String| usage_error("load", &message);
    let inputs = paths::files_of(&flags.inputs).map_err(as_usage_error)?;
    check(flags, &inputs).map_err(as_usage_error)?;
    leafpress::vfs::memory::keep_freed();
    let token = CancelToken::new();
    let stop = token.clone();
    interrupt::on_interrupt(move || stop.cancel());

    let bar = Arc::new(LoadBar::new());
    let make = |database: &Path, has_keys: bool| {
        let loader = loader(flags, database, &inputs, &token, &bar)?;
        Ok(if has_keys { into_table(with_keys(loader, flags), flags) } else { loader })
    };
    let work = |loader: Loader| {
        if flags.run.dry_run {
            dry_run(loader, &inputs, &token).map(Outcome::Dry)
        } else {
            load(loader, &inputs, &token).map(Outcome::Loaded)
        }
    };
    let outcome = match url_of(&flags.database) {
        #[cfg(not(feature = "rqlite"))]
        Some(url) => Err(crate::cluster::unreachable(url)),
        #[cfg(feature = "rqlite")]
        Some(url) => to_cluster::run((url, flags), &inputs, (&token, &bar), make, work),
        None => make(&flags.database, true).and_then(work),
    };
    bar.clear();
    Ok(match outcome {
        Ok(outcome) => report(&outcome, flags),
        Err(error) => output::print_failure(as_stop(error, &token), flags.run.json),
    })
}

fn dry_run(loader: Loader, inputs: &[PathBuf], token: &CancelToken) -> Result<DryRun, Error> {
    match inputs {
        [input] if is_stdin(input) => loader.dry_run_reader(STDIN_NAME, stdin(token)?),
        inputs => loader.dry_run_files(inputs),
    }
}

fn report(outcome: &Outcome, flags: &LoadFlags) -> Status {
    let is_silent = flags.run.quiet && !flags.run.json;
    let (rows_rejected, shown) = match outcome {
        Outcome::Loaded(report) => {
            if flags.run.json {
                output::print_json(report);
            } else if !is_silent {
                let rejects = flags.bad_rows.rejects.as_deref();
                output::print_report(&summary::of_load(report, rejects));
            }
            (report.rows_rejected, Status::Done)
        }
        Outcome::Dry(dry) if is_silent => (dry.would_reject, Status::Done),
        Outcome::Dry(dry) => {
            let text = || summary::of_dry_run(dry);
            (dry.would_reject, output::print_answer(flags.run.json, dry, text))
        }
    };
    match shown {
        Status::Done if rows_rejected > 0 => Status::DoneWithProblems,
        shown => shown,
    }
}
