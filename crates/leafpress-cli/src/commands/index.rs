//! `leafpress index`: an index on a table of a database that exists.
//!
//! Must never: know how it is made; see `leafpress::load::Indexer`.

use leafpress::load::{CancelToken, Indexer};
use leafpress::path_text;

use crate::exit::Status;
use crate::flags::IndexFlags;
use crate::progress::{self, Spinner};
use crate::{interrupt, output, summary};

/// Makes one index.
pub fn run(flags: &IndexFlags) -> Status {
    let token = CancelToken::new();
    let stop = token.clone();
    interrupt::on_interrupt(move || stop.cancel());

    let doing = format!("indexing {} of {}", flags.table, path_text(&flags.database));
    let is_silent = flags.json || flags.quiet;
    let spinner = Spinner::start(progress::is_wanted(is_silent), &doing);
    let outcome = indexer(flags).cancel(token).build(&flags.columns);
    drop(spinner);

    let text = |report: &_| if flags.quiet { String::new() } else { summary::of_index(report) };
    output::report(outcome, flags.json, text, |_| Status::Done)
}

fn indexer(flags: &IndexFlags) -> Indexer {
    let mut indexer = Indexer::new(&flags.database, &flags.table)
        .unique(flags.unique)
        .only_if_missing(flags.if_not_exists)
        .analyze(flags.analyze)
        .busy_timeout(flags.busy_timeout);
    if let Some(name) = &flags.name {
        indexer = indexer.name(name);
    }
    if let Some(threads) = flags.threads {
        indexer = indexer.threads(threads);
    }
    if let Some(bytes) = flags.memory {
        indexer = indexer.memory(bytes);
    }
    if let Some(folder) = &flags.temporary_folder {
        indexer = indexer.tmpdir(folder);
    }
    indexer
}
