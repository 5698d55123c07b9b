//! `leafpress storage`: what the disk under a path can do, and which profile fits.
//!
//! Must never: touch a database; see `leafpress::storage`.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use leafpress::path_text;
use leafpress::storage::StorageOptions;
use leafpress_bench::storage::measure;

use crate::exit::Status;
use crate::flags::StorageFlags;
use crate::progress::{self, Spinner};
use crate::{interrupt, output, summary};

/// Measures one place.
pub fn run(flags: &StorageFlags) -> Status {
    let is_stopping = interrupt::flag();

    let doing = format!("measuring the storage of {}", path_text(&flags.path));
    let spinner = Spinner::start(progress::is_wanted(flags.json), &doing);
    let outcome = measure(&flags.path, &options(flags, is_stopping));
    drop(spinner);

    output::answer(outcome, flags.json, summary::of_storage, |_| Status::Done)
}

fn options(flags: &StorageFlags, is_stopping: Arc<AtomicBool>) -> StorageOptions {
    let mut options =
        StorageOptions::default().stop_when(move || is_stopping.load(Ordering::Relaxed));
    if flags.quick {
        options = options.quick();
    }
    if let Some(time) = flags.seconds {
        options = options.time(time);
    }
    options
}
