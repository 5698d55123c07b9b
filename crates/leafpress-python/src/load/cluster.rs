//! `load` into a cluster of rqlite.
//!
//! Must never: pass over an option that a cluster does not have.

use std::path::Path;

use leafpress::load::{CancelToken, InputFormat, Loader};
use leafpress::{Error, ErrorKind};
use leafpress_cli::{ClusterLoad, Later, Outcome};
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
    let table = table_name(options, name)?;
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
    };
    let check = |copy: &Path, table: &str| {
        let loader = options.loader(copy.to_owned(), token)?.table(table).format(InputFormat::Json);
        loader.dry_run_reader("no.json", std::io::empty()).map(drop)
    };
    let work = |file: &Path, later: Later| {
        let loader = options.loader_of_file(file.to_owned(), token)?;
        let loader = loader.bound_for(leafpress_cli::shown(url));
        work(options.for_cluster(loader, later)?)
    };
    let mut on_progress = |progress: Progress<'_>| {
        if let Progress::Sent(rows, _) = progress {
            tell(rows);
        }
        if token.is_cancelled() { Err(ErrorKind::Cancelled.into()) } else { Ok(()) }
    };
    load.run(check, work, &mut on_progress)
}

/// The name of the table, if it can be told before the work.
fn table_name(options: &Options, name: Option<&str>) -> leafpress::Result<Option<String>> {
    match (&options.table, name) {
        (Some(table), _) => Ok(Some(table.clone())),
        (None, Some(name)) if options.create.is_none() && !name.contains("::") => {
            Loader::new("").table_name_for(name).map(Some)
        }
        _ => Ok(None),
    }
}
