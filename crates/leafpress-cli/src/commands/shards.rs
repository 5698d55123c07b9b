//! `leafpress shards`: list, check, roll back and tidy a folder of shards.

use std::sync::atomic::Ordering;

use leafpress_shards::Shards;
use serde_json::json;

use crate::exit::Status;
use crate::flags::{ShardsAction, ShardsFlags};
use crate::progress::{self, Spinner};
use crate::{human, interrupt, output, summary};

/// Carries out one action.
pub fn run(flags: &ShardsFlags) -> Status {
    match &flags.action {
        ShardsAction::List(flags) => {
            let runs = Shards::at(&flags.folder).and_then(|shards| shards.list());
            let runs = runs.and_then(|found| {
                if found.runs.is_empty() {
                    Shards::open(&flags.folder)?;
                }
                Ok(found)
            });
            output::answer(runs, flags.json, summary::of_runs, |found| {
                let of_runs = found.runs.iter().map(|run| &run.problem);
                let is_readable = of_runs.chain([&found.problem]).all(Option::is_none);
                if is_readable { Status::Done } else { Status::DoneWithProblems }
            })
        }
        ShardsAction::Verify(flags) => {
            let is_stopping = interrupt::flag();
            let doing = format!("checking {}", human::path(&flags.folder));
            let spinner = Spinner::start(progress::is_wanted(flags.json), &doing);
            let stop = move || is_stopping.load(Ordering::Relaxed);
            let verdict = Shards::at(&flags.folder).and_then(|shards| shards.verify(stop));
            drop(spinner);
            output::answer(verdict, flags.json, summary::of_verdict, |verdict| {
                if verdict.sound { Status::Done } else { Status::DoneWithProblems }
            })
        }
        ShardsAction::Rollback { folder, to } => {
            // The current run may be the one that has to be left.
            let manifest = Shards::at(&folder.folder)
                .and_then(|shards| shards.rollback(to.as_deref()))
                .map(|manifest| json!({ "run": manifest.run, "rows": manifest.rows }));
            let text = |object: &serde_json::Value| {
                format!("now current: {}\n", object["run"].as_str().unwrap_or_default())
            };
            output::report(manifest, folder.json, text, |_| Status::Done)
        }
        ShardsAction::Gc { folder, older_than, dry_run } => {
            let collected =
                Shards::at(&folder.folder).and_then(|shards| shards.gc(*older_than, *dry_run));
            output::report(collected, folder.json, summary::of_collected, |collected| {
                if collected.problems.is_empty() { Status::Done } else { Status::DoneWithProblems }
            })
        }
    }
}
