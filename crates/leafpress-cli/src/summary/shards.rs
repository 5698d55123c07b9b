//! Summaries of `leafpress shard` and `leafpress shards`.

use std::path::Path;

use leafpress::path_text;
use leafpress_shards::{Collected, Runs, ShardReport, Verdict};

use super::{INDENT, facts, in_a_line_each, notes, rejected};
use crate::human;
use crate::output::{STRONG, styled, verdict};

/// Problems and files that a summary lists; the JSON has all.
const LISTED_MAX: usize = 20;

/// The summary of a run that was made.
pub fn of_shard(report: &ShardReport, rejects: Option<&Path>) -> String {
    let mut text = format!(
        "{} {} into {} of {}\n\n",
        verdict(report.rows_rejected == 0, "split"),
        human::counted(report.rows, "row", "rows"),
        human::counted(report.parts as u64, "part", "parts"),
        styled(STRONG, &human::path(&report.folder)),
    );
    let seconds = report.elapsed.as_secs_f64().max(1e-9);
    text += &facts(&[
        ["run".to_owned(), report.run.clone(), String::new()],
        ["table".to_owned(), human::printable(&report.table), String::new()],
        ["by".to_owned(), human::printable(&report.by), String::new()],
        [
            "rows of a part".to_owned(),
            format!("{} to {}", report.rows_min, report.rows_max),
            human::bytes(report.bytes),
        ],
        [
            "time".to_owned(),
            human::duration(report.elapsed),
            format!("{} rows/s", human::rate(report.rows as f64 / seconds)),
        ],
    ]);
    if report.rows_ignored > 0 {
        let rows = human::counted(report.rows_ignored, "row was", "rows were");
        text += &format!("{INDENT}{rows} ignored: others have their keys\n");
    }
    if report.rows_rejected > 0 {
        let rows = human::counted(report.rows_rejected, "row was", "rows were");
        let place = rejects.map(|file| format!(", and are in {}", path_text(file)));
        text += &format!("{INDENT}{rows} rejected{}\n", place.unwrap_or_default());
    }
    text += &rejected(&report.rejects, report.rows_rejected);
    text += &notes(&in_a_line_each(&report.notes));
    text
}

/// The list of runs.
pub fn of_runs(found: &Runs) -> String {
    let mut text = String::new();
    for run in &found.runs {
        if let Some(problem) = &run.problem {
            let mark = if run.current { "*" } else { " " };
            text += &format!("{mark} {}  cannot be read: {}\n", run.run, human::printable(problem));
            continue;
        }
        text += &format!(
            "{} {}  {}  {}, {}\n",
            if run.current { "*" } else { " " },
            run.run,
            human::counted(run.parts as u64, "part", "parts"),
            human::counted(run.rows, "row", "rows"),
            human::bytes(run.bytes),
        );
    }
    if let Some(problem) = &found.problem {
        text += &format!("no run is current: {}\n", human::printable(problem));
    }
    text
}

/// The verdict on a run.
pub fn of_verdict(found: &Verdict) -> String {
    let mut text = format!(
        "{}: {} of run {}, {}, {}\n",
        verdict(found.sound, if found.sound { "sound" } else { "not sound" }),
        human::counted(found.parts as u64, "part", "parts"),
        found.run,
        human::counted(found.rows, "row", "rows"),
        human::bytes(found.bytes),
    );
    text += &listed(&found.problems, "problems");
    text
}

/// Files that were removed.
pub fn of_collected(collected: &Collected) -> String {
    let files = human::counted(collected.files.len() as u64, "file", "files");
    let done = if collected.dry_run { "would remove" } else { "removed" };
    let mut text = format!(
        "{done} {files}, {}\n{}",
        human::bytes(collected.bytes),
        listed(&collected.files, "files")
    );
    if collected.too_young > 0 {
        let files = human::counted(collected.too_young as u64, "file", "files");
        text += &format!(
            "kept {files}: changed too recently, or of a run that may go on (--older-than)\n"
        );
    }
    if !collected.problems.is_empty() {
        text += "left alone, as they cannot be read or removed:\n";
        text += &listed(&collected.problems, "problems");
    }
    text
}

fn listed(lines: &[String], what: &str) -> String {
    let mut text = String::new();
    for line in lines.iter().take(LISTED_MAX) {
        text += &format!("{INDENT}{}\n", human::printable(line));
    }
    if lines.len() > LISTED_MAX {
        text +=
            &format!("{INDENT}and {} more {what}; --json lists all\n", lines.len() - LISTED_MAX);
    }
    text
}
