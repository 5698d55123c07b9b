//! Flags of a load into a cluster.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use leafpress::load::{CancelToken, InputFormat};
use leafpress::{Error, ErrorKind, Loader};
use leafpress_rqlite::load::Progress;

use super::both::{Later, Outcome, is_silent, makes_missing};
use super::check::is_table;
use super::cluster::ClusterLoad;
use super::loader::{into_table, loader, with_keys};
use crate::flags::LoadFlags;
use crate::loading::is_stdin;
use crate::progress::LoadBar;

/// Loads into the cluster with this URL. `work` is as [`ClusterLoad::run`] has it.
///
/// # Errors
/// As those of [`ClusterLoad::run`].
pub fn run(
    (url, flags): (&str, &LoadFlags),
    inputs: &[PathBuf],
    (token, bar): (&CancelToken, &Arc<LoadBar>),
    work: impl FnOnce(&Path, Later) -> Result<Outcome, Error>,
) -> Result<Outcome, Error> {
    let into = flags.existing.way().map(|(into, _)| into);
    let load = ClusterLoad {
        url,
        table: table_name(flags, inputs)?,
        into,
        makes_missing: into.is_some_and(|into| makes_missing(flags, into)),
        analyze: flags.keys.analyze,
        tmpdir: flags.run.tmpdir.as_deref(),
        rejects: flags.bad_rows.rejects.as_deref(),
    };
    let mut on_progress = |progress: Progress<'_>| {
        match progress {
            Progress::Sent(rows, all) => bar.send(rows, all, is_silent(flags)),
            Progress::Waiting(wait) => bar.wait(&wait, is_silent(flags), flags.run.quiet),
            _ => {}
        }
        if token.is_cancelled() { Err(ErrorKind::Cancelled.into()) } else { Ok(()) }
    };
    let check = |copy: &Path, table: &str| {
        let loader = with_keys(loader(flags, copy, inputs, token, bar)?, flags);
        let loader = into_table(loader, flags).table(table).format(InputFormat::Json);
        loader.dry_run_reader("no.json", io::empty()).map(drop)
    };
    load.run(check, work, &mut on_progress)
}

/// The name of the table, if it can be told before the work.
fn table_name(flags: &LoadFlags, inputs: &[PathBuf]) -> Result<Option<String>, Error> {
    let table = &flags.table;
    match (&table.table, inputs.first()) {
        (Some(name), _) => Ok(Some(name.clone())),
        _ if table.create.is_some() || table.schema.is_some() => Ok(None),
        (None, Some(input)) if is_stdin(input) => Ok(Some("stdin".to_owned())),
        (None, Some(input)) if !is_table(input) => {
            let name = leafpress::path_text(input);
            Loader::new("").table_name_for(&name).map(Some)
        }
        _ => Ok(None),
    }
}
