//! The advice for a program, as sentences with the lines of code that it takes.
//!
//! Must never: decide; the answer is the library's.

use leafpress_bench::advise::{Answer, Estimate, Question, Way};
use leafpress_bench::numbers;
use leafpress_bench::storage::StorageReport;

use super::{INDENT, WIDTH, notes};
use crate::human;
use crate::output::{FAINT, STRONG, styled, verdict};

/// Answer of `leafpress advise`.
pub fn of_advise(question: &Question, storage: &StorageReport, answer: &Answer) -> String {
    let folder = human::path(&storage.found.folder);
    let mut text = format!(
        "{folder}: profile {} ({})\n{}\n",
        verdict(true, answer.profile.name()),
        answer.settings,
        sentence(&answer.promise)
    );
    text += &format!("{INDENT}{}\n", styled(FAINT, "why"));
    for reason in &answer.why {
        text += &sentence(reason);
    }
    for way in &answer.ways {
        text += &of_way(question, way);
    }
    if let Some(command) = &answer.to_measure {
        let is_missing = |way: &&Way| way.estimate.is_none() && way.measured_by.is_some();
        let missing = answer.ways.iter().filter(is_missing);
        let missing: Vec<&str> = missing.map(|way| way.name).collect();
        text += &format!(
            "\n{}{INDENT}{INDENT}{}\n",
            sentence(&format!(
                "nothing was measured on this disk yet for: {}. To measure it:",
                missing.join(", ")
            )),
            human::printable(command)
        );
    }
    // Behind "note: ".
    let wrap = |warning: &String| human::wrapped(&human::printable(warning), WIDTH - 6, 6);
    text + &notes(&answer.warnings.iter().map(wrap).collect::<Vec<_>>())
}

fn sentence(text: &str) -> String {
    let text = human::wrapped(&human::printable(text), WIDTH - INDENT.len(), INDENT.len());
    format!("{INDENT}{text}\n")
}

fn of_way(question: &Question, way: &Way) -> String {
    let mut text = format!("\n{}\n{}", styled(STRONG, way.name), sentence(&way.what));
    // To be copied, so never wrapped.
    for line in way.command.iter().chain(&way.rust) {
        text += &format!("{INDENT}{INDENT}{line}\n");
    }
    if let Some(estimate) = &way.estimate {
        text += &sentence(&of_estimate(question, estimate));
    }
    text
}

/// "1,000,000 rows: about 71 ms, by SQLite's default 24 min 33 s (…)".
fn of_estimate(question: &Question, estimate: &Estimate) -> String {
    let Estimate { seconds, beside, beside_seconds, by, .. } = estimate;
    let rates = [estimate.rows_per_second, estimate.beside_rows_per_second].map(numbers::rate);
    let what = match (question.rows, question.bytes) {
        (Some(rows), _) => human::counted(rows, "row", "rows"),
        (None, Some(bytes)) => human::bytes(bytes),
        (None, None) => String::new(),
    };
    let text = match (seconds, beside_seconds) {
        (Some(seconds), Some(beside_seconds)) => format!(
            "{what}: about {}; {beside}: about {}",
            numbers::time(*seconds),
            numbers::time(*beside_seconds)
        ),
        _ => format!("{} rows a second; {beside}: {}", rates[0], rates[1]),
    };
    let when = estimate.measured_at.as_deref().map(|at| format!(", {at}")).unwrap_or_default();
    let quick = if estimate.quick { ", a quick run: the order of magnitude only" } else { "" };
    format!("{text} (bench {by}{when}{quick})")
}
