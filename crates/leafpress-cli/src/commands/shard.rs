//! `leafpress shard`: from flags to a [`Sharder`], and from its report to a summary.
//!
//! Must never: route or write a row itself.

use std::path::PathBuf;

use leafpress::load::{CancelToken, Layout, Loader, OnConflict};
use leafpress::{Error, Result};
use leafpress_shards::{ShardReport, Sharder, Shards};

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
    let keys: Vec<String> = all_names(&flags.table.pk).cloned().collect();
    let is_key = |column: &str| keys.iter().any(|key| key.eq_ignore_ascii_case(column));
    let without_rowid = flags.table.without_rowid;
    let split_by = flags.by.columns();
    let one_part_each = !split_by.is_empty() && split_by.into_iter().all(is_key);
    let skips = flags.bad_rows.on_error == OnErrorFlag::Skip;
    let aborts = flags.table.on_conflict.is_none_or(|rule| rule == OnConflictFlag::Abort);
    if skips && aborts && one_part_each {
        stage = keys.iter().fold(stage, Loader::primary_key).without_rowid(without_rowid);
    }
    stage.later_key(&keys, without_rowid)
}

/// The keys and indexes of each part.
fn parts_loader(flags: &ShardFlags) -> impl Fn(Loader) -> Loader + Send + Sync + 'static {
    let table = &flags.table;
    let keys: Vec<String> = all_names(&table.pk).cloned().collect();
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
