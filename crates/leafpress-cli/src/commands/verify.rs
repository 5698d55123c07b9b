//! `leafpress verify`: SQLite's verdict on a file.
//!
//! Must never: change the file, or create one; see `leafpress::verify`.

use std::sync::atomic::Ordering;

use leafpress::path_text;
use leafpress::verify::{VerifyOptions, verify};

use crate::exit::Status;
use crate::flags::VerifyFlags;
use crate::progress::{self, Spinner};
use crate::{interrupt, output, summary};

/// Checks one database.
pub fn run(flags: &VerifyFlags) -> Status {
    let is_stopping = interrupt::flag();

    let options = VerifyOptions::default()
        .quick(flags.quick)
        .stop_when(move || is_stopping.load(Ordering::Relaxed));
    let doing = format!("checking {}", path_text(&flags.database));
    let spinner = Spinner::start(progress::is_wanted(flags.json), &doing);
    let outcome = verify(&flags.database, &options);
    drop(spinner);

    output::answer(outcome, flags.json, summary::of_verify, |report| {
        if report.sound { Status::Done } else { Status::DoneWithProblems }
    })
}
