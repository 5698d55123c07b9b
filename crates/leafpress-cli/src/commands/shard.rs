//! `leafpress shard`: from flags to a [`Sharder`], and from its report to a summary.
//!
//! Must never: route or write a row itself.

use std::path::PathBuf;

use leafpress::load::{CancelToken, Layout, Loader, OnConflict};
use leafpress::{Error, Result};
use leafpress_shards::{RouteBy, ShardReport, Sharder, Shards};

use crate::exit::Status;
use crate::flags::{OnConflictFlag, OnErrorFlag, ShardFlags, usage_error};
use crate::loading::check::check_reading;
use crate::loading::{self, all_names, is_stdin};
use crate::progress::{self, Spinner};
use crate::{human, interrupt, output, summary};

/// Splits the inputs.
///
/// # Errors
/// The flags contradict one another.
pub fn run(flags: &ShardFlags) -> std::result::Result<Status, clap::Error> {
    let inputs = loading::paths::files_of(&flags.inputs)
        .map_err(|message| usage_error("shard", &message))?;
    if inputs.len() > 1 && inputs.iter().any(|input| is_stdin(input)) {
        return Err(usage_error("shard", "'-' is standard input, which is read by itself"));
    }
    check_reading(&flags.input, &flags.columns, &flags.bad_rows, &inputs)
        .map_err(|message| usage_error("shard", &message))?;
    if let Some(preset) = flags.table.preset.filter(|preset| preset.is_wal()) {
        let name = preset.name();
        return Err(usage_error(
            "shard",
            &format!(
                "--preset {name}: parts are read where they are, and {name} wants WAL mode, \
                      which puts a log beside a part that is read"
            ),
        ));
    }
    check_keys(flags).map_err(|message| usage_error("shard", &message))?;
    let token = CancelToken::new();
    let stop = token.clone();
    interrupt::on_interrupt(move || stop.cancel());

    let is_silent = flags.run.json || flags.run.quiet;
    let doing = format!("splitting into {}", human::path(&flags.out));
    let spinner = Spinner::start(progress::is_wanted(is_silent), &doing);
    let outcome = shard(flags, &inputs, &token).map_err(|error| loading::as_stop(error, &token));
    drop(spinner);

    let rejects = flags.bad_rows.rejects.as_deref();
    let text = |report: &_| {
        if flags.run.quiet { String::new() } else { summary::of_shard(report, rejects) }
    };
    Ok(output::report(outcome, flags.run.json, text, |report| {
        if report.rows_rejected == 0 { Status::Done } else { Status::DoneWithProblems }
    }))
}

fn shard(flags: &ShardFlags, inputs: &[PathBuf], token: &CancelToken) -> Result<ShardReport> {
    if flags.out.is_file() {
        let reason = "it is a file, and shards are a folder of files";
        return Err(Error::destination(&flags.out, reason)
            .to_do("name a folder with --out: one that is not there yet, or that has shards"));
    }
    let mut sharder = Sharder::new(Shards::at(&flags.out)?, flags.by.clone(), flags.parts)
        .seed(flags.seed)
        .cancel(token.clone())
        .with_parts(parts_loader(flags));
    if let Some(threads) = flags.run.threads {
        sharder = sharder.threads(threads);
    }
    if let Some(bytes) = flags.run.memory {
        sharder = sharder.memory(bytes);
    }
    sharder.run(|stage| {
        let mut stage = loading::with_columns(stage, &flags.columns);
        stage =
            loading::with_input(stage, &flags.input).on_error(loading::on_error(&flags.bad_rows));
        stage = with_keys(stage.strict(flags.table.strict), flags);
        if let Some(name) = &flags.table.table {
            stage = stage.table(name);
        } else if inputs.iter().any(|input| is_stdin(input)) {
            stage = stage.table("stdin");
        }
        loading::load(stage, inputs, token)
    })
}

/// Lets the stage refuse what it can of the keys: it knows the file and the line of a row, which a part
/// does not. No row may lack its key. Rows that share one are bad rows if bad rows are skipped; each
/// part would end the run. The stage can tell them where equal keys are in one part, which is so if
/// rows are split by columns of the key.
fn with_keys(mut stage: Loader, flags: &ShardFlags) -> Loader {
    let keys = keys_of(flags);
    let without_rowid = flags.table.without_rowid;
    let skips = flags.bad_rows.on_error == OnErrorFlag::Skip;
    if skips && conflicts_abort(flags) && flags.by.keeps_together(&keys) {
        stage = keys.iter().fold(stage, Loader::primary_key).without_rowid(without_rowid);
    }
    stage.later_key(&keys, without_rowid)
}

fn keys_of(flags: &ShardFlags) -> Vec<String> {
    all_names(&flags.table.pk).cloned().collect()
}

fn conflicts_abort(flags: &ShardFlags) -> bool {
    flags.table.on_conflict.is_none_or(|rule| rule == OnConflictFlag::Abort)
}

/// Parts are pressed one by one, so each would keep a row of a key that is in several of them.
fn check_keys(flags: &ShardFlags) -> std::result::Result<(), String> {
    let keys = keys_of(flags);
    let is_sound = flags.parts < 2 || keys.is_empty() || flags.by.keeps_together(&keys);
    if is_sound || conflicts_abort(flags) {
        return Ok(());
    }
    Err(format!(
        "--on-conflict keeps one row for each key within a part, and --by '{}' puts rows that share a key into \
         several; split by the key: --by '{}'",
        flags.by,
        RouteBy::Hash(keys)
    ))
}

/// The keys and indexes of each part.
fn parts_loader(flags: &ShardFlags) -> impl Fn(Loader) -> Loader + Send + Sync + 'static {
    let table = &flags.table;
    let keys = keys_of(flags);
    let not_null: Vec<String> = all_names(&flags.columns.not_null).cloned().collect();
    let indexes = table.index.clone();
    let (strict, without_rowid) = (table.strict, table.without_rowid);
    let (analyze, page_size) = (table.analyze, table.page_size);
    let (layout, preset) = (table.layout.map(Layout::from), table.preset);
    let on_conflict = table.on_conflict.map(OnConflict::from);
    move |loader| {
        let mut loader = loader.strict(strict).without_rowid(without_rowid).analyze(analyze);
        loader = keys.iter().fold(loader, Loader::primary_key);
        loader = not_null.iter().fold(loader, Loader::not_null);
        loader = indexes.iter().fold(loader, Loader::index);
        if let Some(on_conflict) = on_conflict {
            loader = loader.on_conflict(on_conflict);
        }
        if let Some(layout) = layout {
            loader = loader.layout(layout);
        }
        if let Some(preset) = preset {
            loader = loader.preset(preset);
        }
        match page_size {
            Some(bytes) => loader.page_size(bytes),
            None => loader,
        }
    }
}
