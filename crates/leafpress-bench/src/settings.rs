//! Settings of a report, needed to judge its figures. What was asked for, how it was measured,
//! and what is for or against which rival. Each family explains itself.
//!
//! Must never: claim anything that the experiments at hand do not do.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::{Value, json};

use crate::error::Result;
use crate::group::Group;
use crate::input::Inputs;
use crate::options::{BenchOptions, Size};
use crate::report::{Settings, text};
use crate::rung::described::{Place, Topic};
use crate::storage::StorageReport;
use crate::{atomic, commits, loads, queue, shared};

/// Settings of these groups, with the folder of each place and what was found of the storage.
/// Measures how fast the places sync, where commits are measured.
pub(crate) fn of<'p>(
    options: &BenchOptions,
    groups: &[Group],
    inputs: &Inputs,
    folder_of: &dyn Fn(Place) -> &'p Path,
    storage: Option<&StorageReport>,
) -> Result<BTreeMap<String, Value>> {
    let mut settings = Settings::from([
        ("order", json!("interleaved: each round runs every rung of a group once")),
        ("quick", json!(options.is_quick())),
        ("size", json!(options.size.of("quick", "usual", "large"))),
        text(
            "warm_up",
            "before each group of rungs the program is read, the processor works for 30 ms, and nine syncs are made",
        ),
        ("leafpress", json!(env!("CARGO_PKG_VERSION"))),
        ("rival_sqlite", json!(rusqlite::version())),
    ]);
    if options.is_overview() && options.size == Size::Large {
        settings.insert(
            "cut_to_end_in_time",
            json!("batches of 200,000 rows, not a million; three rounds of loads, not five"),
        );
    }
    if let Some(name) = &options.simulate {
        settings.insert("simulated_disk", json!(name));
        settings.insert(
            "simulated_disk_is",
            json!(
                "what the rungs write to, SQLite's and ours alike; what is said of the storage, of its syncs and of the machine is measured on the real disk"
            ),
        );
    }
    let mut topics: BTreeMap<Topic, Vec<&Group>> = BTreeMap::new();
    for group in groups {
        if let Some(topic) = group.kinds.first().and_then(|kind| kind.topic()) {
            topics.entry(topic).or_default().push(group);
        }
    }
    for (index, (topic, groups)) in topics.iter().enumerate() {
        let (name, of_topic) = match topic {
            Topic::Loads => ("repeats", of_loads(options, groups, inputs)),
            Topic::Commits => {
                ("repeats_of_commits", commits::settings(options, folder_of(Place::Disk))?)
            }
            Topic::OneRow => ("repeats_of_one_row", of_one_row(options, groups, folder_of)?),
            Topic::Jobs => ("repeats_of_jobs", queue::settings(options, storage)),
            Topic::Processes => ("repeats_of_processes", shared::settings(folder_of(Place::Disk))?),
        };
        settings.extend(of_topic);
        let name = if index == 0 { "repeats" } else { name };
        settings.extend(groups.first().map(|group| (name, json!(group.rounds(options)))));
    }
    Ok(settings.into_iter().map(|(name, value)| (name.to_owned(), value)).collect())
}

fn of_loads(options: &BenchOptions, groups: &[&Group], inputs: &Inputs) -> Settings {
    let mut kinds = groups.iter().flat_map(|group| &group.kinds);
    let memory_bytes = kinds.find_map(|kind| kind.memory_bytes());
    loads::settings(options, inputs, memory_bytes)
}

fn of_one_row<'p>(
    options: &BenchOptions,
    groups: &[&Group],
    folder_of: &dyn Fn(Place) -> &'p Path,
) -> Result<Settings> {
    let is_used = |place: &Place| groups.iter().any(|group| group.place() == *place);
    let places = [Place::Disk, Place::XfsLoop].into_iter().filter(is_used);
    let folders: Vec<(Place, &Path)> = places.map(|place| (place, folder_of(place))).collect();
    atomic::settings(options, &folders)
}
