//! `leafpress advise`: which profile and which way in fit a program.
//!
//! Must never: measure more than the disk's own speed; what the work takes is the bench's to
//! say.

use std::sync::atomic::Ordering;

use leafpress::path_text;
use leafpress::storage::StorageOptions;
use leafpress_bench::advise::{PowerCut, Question, answer};
use leafpress_bench::report_cache;
use leafpress_bench::storage::measure;

use crate::exit::Status;
use crate::flags::{AdviseFlags, PowerCutFlag, usage_error};
use crate::progress::{self, Spinner};
use crate::{interrupt, output, summary};

/// Answers one question.
pub fn run(flags: &AdviseFlags) -> Result<Status, clap::Error> {
    let question = question(flags);
    question.check().map_err(|message| usage_error("advise", &message))?;
    let is_stopping = interrupt::flag();
    let options = StorageOptions::default().quick();
    let options = options.stop_when(move || is_stopping.load(Ordering::Relaxed));
    let doing = format!("looking at the disk of {}", path_text(&flags.path));
    let spinner = Spinner::start(progress::is_wanted(flags.json), &doing);
    let outcome = measure(&flags.path, &options);
    drop(spinner);
    let storage = match outcome {
        Ok(storage) => storage,
        Err(error) => return Ok(output::print_failure(error, flags.json)),
    };
    let measured = report_cache::load(&storage.found.folder);
    let answer = answer(&question, &storage, &measured)
        .map_err(|message| usage_error("advise", &message))?;
    let text = || summary::of_advise(&question, &storage, &answer);
    Ok(output::print_answer(flags.json, &answer, text))
}

fn question(flags: &AdviseFlags) -> Question {
    Question {
        rows: flags.rows,
        bytes: flags.size,
        power_cut: match flags.power_cut {
            PowerCutFlag::Survives => PowerCut::Survives,
            PowerCutFlag::MayLoseLast => PowerCut::MayLoseLast,
            PowerCutFlag::Rebuildable => PowerCut::Rebuildable,
        },
        writers: flags.writers,
        attached: flags.attached,
    }
}
