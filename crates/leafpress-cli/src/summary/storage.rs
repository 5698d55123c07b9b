//! The abilities of a disk, as tables and sentences.
//!
//! Must never: judge; the verdict is made where the disk is measured.

use leafpress::path_text;
use leafpress::storage::{AtomicBy, AtomicWrites, Device, Latency};
use leafpress_bench::storage::StorageReport;

use super::{INDENT, WIDTH, facts, notes};
use crate::human;
use crate::output::{FAINT, styled, verdict};

/// Report on a disk.
pub fn of_storage(report: &StorageReport) -> String {
    let found = &report.found;
    let profile = report.verdict.profile;
    let mut text = format!(
        "{}: profile {} fits\n{INDENT}{}\n\n",
        human::path(&found.folder),
        verdict(true, profile.name()),
        human::wrapped(
            &human::printable(&report.verdict.promise),
            WIDTH - INDENT.len(),
            INDENT.len()
        ),
    );
    text += &facts(&storage_facts(report));
    text += &storage_syncs(report);
    text += &storage_writes(report);
    text += &format!("\n{INDENT}{}\n", styled(FAINT, "why"));
    for reason in &report.verdict.why {
        let lines = human::wrapped(&human::printable(reason), WIDTH - INDENT.len(), INDENT.len());
        text += &format!("{INDENT}{lines}\n");
    }
    // Behind "note: ".
    let wrap = |warning: &String| human::wrapped(&human::printable(warning), WIDTH - 6, 6);
    let is_missing = found.path.symlink_metadata().is_err();
    let missing = is_missing
        .then(|| format!("{} is not there; its folder was measured", path_text(&found.path)));
    let all = missing.iter().chain(&report.verdict.warnings);
    text += &notes(&all.map(wrap).collect::<Vec<_>>());
    text
}

fn storage_facts(report: &StorageReport) -> Vec<[String; 3]> {
    let found = &report.found;
    let mut rows = vec![("file system", found.file_system.to_string())];
    if let Some(device) = &found.device {
        rows.push(("disk", device_in_words(device)));
    }
    if let Some(free) = found.free_bytes {
        rows.push(("free", human::bytes(free)));
    }
    rows.push(("atomic writes", atomic_in_words(&found.atomic_writes)));
    let time = human::duration(report.elapsed);
    rows.push(("measured for", time));
    rows.into_iter().map(|(name, text)| [name.to_owned(), String::new(), text]).collect()
}

fn device_in_words(device: &Device) -> String {
    let model = device.model.as_ref().map(|it| format!("({it})"));
    let kind = match (device.is_virtual, device.rotational) {
        (true, _) => Some("virtual".to_owned()),
        (false, Some(true)) => Some("platters".to_owned()),
        (false, Some(false)) => Some("flash".to_owned()),
        (false, None) => None,
    };
    let cache = device.write_cache.as_ref().map(|it| format!("cache {it}"));
    let parts = [Some(device.name.clone()), model, kind, cache];
    parts.into_iter().flatten().collect::<Vec<_>>().join(", ").replace(", (", " (")
}

fn atomic_in_words(atomic: &AtomicWrites) -> String {
    let sizes = match (atomic.unit_min_bytes, atomic.unit_max_bytes) {
        (Some(min), Some(max)) if max > 0 => format!("{min} to {max} bytes, "),
        _ => String::new(),
    };
    let by = match atomic.by {
        AtomicBy::Hardware => "by the disk",
        AtomicBy::Software => "by the file system",
        AtomicBy::None => "none",
        AtomicBy::Unknown if sizes.is_empty() => "the system does not say",
        AtomicBy::Unknown => "by whom is not known",
    };
    format!("{sizes}{by}")
}

fn storage_syncs(report: &StorageReport) -> String {
    let measured = &report.found.measured;
    let rows = [
        ("a page overwritten", Some(measured.sync_after_overwrite)),
        ("a page appended", Some(measured.sync_after_append)),
        ("a file deleted", measured.sync_of_folder),
    ];
    let line = |name: &str, figures: [String; 4]| {
        let figures = figures.map(|figure| human::right(&figure, 12));
        format!("{INDENT}{}{}", human::left(name, 20), figures.concat())
    };
    let heading = line("sync after", ["p50", "p99", "worst", "count"].map(str::to_owned));
    let mut text = format!("\n{}\n", styled(FAINT, &heading));
    for (name, latency) in rows {
        if let Some(Latency { p50, p99, max, count, .. }) = latency {
            let [p50, p99, worst] = [p50, p99, max].map(human::duration);
            text += &format!("{}\n", line(name, [p50, p99, worst, human::count(count)]));
        }
    }
    text
}

fn storage_writes(report: &StorageReport) -> String {
    let measured = &report.found.measured;
    let line = |name: &str, figures: [String; 2]| {
        let figures = figures.map(|figure| human::right(&figure, 12));
        format!("{INDENT}{}{}", human::left(name, 20), figures.concat())
    };
    let heading = line("writes, with syncs", ["a second", "bytes/s"].map(str::to_owned));
    let mut text = format!("\n{}\n", styled(FAINT, &heading));
    for (name, writes) in [
        ("4 KiB at random", measured.random_writes),
        ("1 MiB in order", measured.sequential_writes),
    ] {
        let bytes = format!("{}/s", human::bytes(writes.bytes_per_second as u64));
        text += &format!("{}\n", line(name, [human::rate(writes.per_second), bytes]));
    }
    text
}
