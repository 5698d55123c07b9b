//! `load` into a cluster of rqlite.
//!
//! Must never: pass over an option that a cluster does not have.

use std::path::Path;

use leafpress::Error;
use leafpress::load::{CancelToken, Loader};
use leafpress_cli::{ClusterLoad, Outcome};
use leafpress_rqlite::load::Progress;

use super::options::Options;

/// Loads into the cluster with this URL. `name` is that of the input, if it gives the table's; `tell` takes
/// how many rows were sent.
///
/// # Errors
/// The options contradict, or those of [`ClusterLoad::run`].
pub fn run(
    (url, options): (&str, &Options),
    name: Option<&str>,
    token: &CancelToken,
    tell: &mut dyn FnMut(u64),
    work: impl FnOnce(Loader) -> leafpress::Result<Outcome>,
) -> leafpress::Result<Outcome> {
    let into = options.into()?;
    if into.is_some() && options.on_conflict.is_some() {
        return Err(Error::misuse(
            "on_conflict with if_exists is for a database in a file: on a cluster if_exists alone decides \
             about rows that share a key",
        )
        .to_do("leave out on_conflict"));
    }
    let (given, is_declared) = (options.table.as_deref(), options.create.is_some());
    let table = ClusterLoad::table_name(given, is_declared, name)?;
    if into.is_some() && table.is_none() {
        return Err(
            Error::misuse("the table of the cluster has no name").to_do("give it with table")
        );
    }
    let load = ClusterLoad {
        url,
        table,
        into,
        makes_missing: into.is_some(),
        analyze: options.analyze,
        tmpdir: options.tmpdir.as_deref(),
        rejects: options.rejects.as_deref(),
        cancel: token,
    };
    let make = |file: &Path, has_keys: bool| {
        let loader = options.keyless_loader(file.to_owned(), token)?;
        if has_keys { options.with_keys(loader) } else { Ok(loader) }
    };
    let mut tell = |progress: Progress<'_>| {
        if let Progress::Sent(rows, _) = progress {
            tell(rows);
        }
    };
    load.run(make, work, &mut tell)
}
