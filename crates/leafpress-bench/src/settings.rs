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
    if options.is_overview() {
        settings.insert("overview", json!(true));
    }
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
    for (topic, groups) in by_topic(groups) {
        let groups: Vec<&Group> = groups.into_iter().map(|(_, group)| group).collect();
        settings.extend(match topic {
            Topic::Loads => of_loads(options, &groups, inputs),
            Topic::Commits => commits::settings(options, folder_of(Place::Disk))?,
            Topic::OneRow => of_one_row(options, &groups, folder_of)?,
            Topic::Jobs => queue::settings(options, storage),
            Topic::Processes => shared::settings(folder_of(Place::Disk))?,
        });
    }
    Ok(settings.into_iter().map(|(name, value)| (name.to_owned(), value)).collect())
}

/// Runs of each rung, for each topic: as many as all rungs have that were measured. `rounds` are those
/// of each group.
pub(crate) fn rounds_of(groups: &[Group], rounds: &[usize]) -> BTreeMap<String, Value> {
    let mut settings = BTreeMap::new();
    for (index, (topic, groups)) in by_topic(groups).into_iter().enumerate() {
        let name = match topic {
            _ if index == 0 => "repeats",
            Topic::Loads => "repeats_of_loads",
            Topic::Commits => "repeats_of_commits",
            Topic::OneRow => "repeats_of_one_row",
            Topic::Jobs => "repeats_of_jobs",
            Topic::Processes => "repeats_of_processes",
        };
        let measured = groups.iter().map(|(at, _)| rounds[*at]).filter(|rounds| *rounds > 0);
        settings.extend(measured.min().map(|fewest| (name.to_owned(), json!(fewest))));
    }
    settings
}

/// The groups of each topic, with their positions.
fn by_topic(groups: &[Group]) -> BTreeMap<Topic, Vec<(usize, &Group)>> {
    let mut topics: BTreeMap<Topic, Vec<(usize, &Group)>> = BTreeMap::new();
    for (index, group) in groups.iter().enumerate() {
        if let Some(topic) = group.kinds.first().and_then(|kind| kind.topic()) {
            topics.entry(topic).or_default().push((index, group));
        }
    }
    topics
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
