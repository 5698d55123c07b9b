//! Flags of a load into a cluster.

use std::path::{Path, PathBuf};

use leafpress::load::{CancelToken, Loader};
use leafpress::{Error, path_text};
use leafpress_rqlite::load::Progress;

use super::both::{Outcome, is_silent, makes_missing};
use super::cluster::ClusterLoad;
use crate::flags::LoadFlags;
use crate::loading::is_stdin;
use crate::progress::LoadBar;

/// Loads into the cluster with this URL. `make` and `work` are as [`ClusterLoad::run`] has them.
///
/// # Errors
/// As those of [`ClusterLoad::run`].
pub fn run(
    (url, flags): (&str, &LoadFlags),
    inputs: &[PathBuf],
    (token, bar): (&CancelToken, &LoadBar),
    make: impl Fn(&Path, bool) -> Result<Loader, Error>,
    work: impl FnOnce(Loader) -> Result<Outcome, Error>,
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
        cancel: token,
    };
    let mut tell = |progress: Progress<'_>| match progress {
        Progress::Sent(rows, all) => bar.send(rows, all, is_silent(flags)),
        Progress::Waiting(wait) => bar.wait(&wait, is_silent(flags), flags.run.quiet),
        _ => {}
    };
    load.run(make, work, &mut tell)
}

fn table_name(flags: &LoadFlags, inputs: &[PathBuf]) -> Result<Option<String>, Error> {
    let table = &flags.table;
    let is_declared = table.create.is_some() || table.schema.is_some();
    let input =
        inputs.first().map(|it| if is_stdin(it) { "stdin".to_owned() } else { path_text(it) });
    ClusterLoad::table_name(table.table.as_deref(), is_declared, input.as_deref())
}
