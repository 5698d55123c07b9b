//! Report of an experiment: pictures, tables, conclusions, ratios.
//!
//! | file | does |
//! |---|---|
//! | here | the order |
//! | `bars` | a bar for each rung of a chart |
//! | `sparks` | a small curve for rungs that come in batches or cycles |
//! | `tables` | the figures that bars do not show |
//! | `ratios` | how many times better than the rival |
//!
//! Must never: leave out a rung, a ratio that is bad for us, a limit that was not kept, or
//! that the disk was a simulated one.

mod bars;
#[cfg(test)]
mod multiples;
mod ratios;
mod sparks;
mod tables;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::path::Path;

use leafpress_bench::charts::{Chart, charts};
use leafpress_bench::report::{About, Advice, ExperimentReport};

use super::{INDENT, WIDTH, notes};
use crate::human;
use crate::output::{FAINT, STRONG, styled, verdict};

/// The report of experiments: first the measurements, in pictures and tables, then the conclusions,
/// which so stand last on the screen.
pub fn of_bench(report: &ExperimentReport, written_to: &[&Path]) -> String {
    let mut parts = Vec::new();
    parts.extend(simulated(report));
    parts.extend(pictures(report));
    parts.extend(tables::of(report));
    parts.extend(advice(&report.advice));
    let mut text = parts.join("\n");
    text += &ratios::of(report);
    text += &notes(&remarks(report).iter().map(|it| wrapped_note(it)).collect::<Vec<_>>());
    if !written_to.is_empty() {
        text.push('\n');
    }
    for path in written_to {
        text += &format!("report: {}\n", human::path(path));
    }
    text
}

/// Warning that no such disk exists, above all else.
fn simulated(report: &ExperimentReport) -> Option<String> {
    let disk = report.simulated.as_ref()?;
    let says = format!("these are figures of {}, played on this disk. {}", disk.what, disk.figures);
    let says = human::wrapped(&human::printable(&says), WIDTH - INDENT.len(), INDENT.len());
    let heading = format!("simulated: {}", human::printable(&disk.name));
    let source =
        human::wrapped(&human::printable(&disk.source), WIDTH - INDENT.len(), INDENT.len());
    Some(format!(
        "{}\n{INDENT}{says}\n{INDENT}{}\n",
        verdict(false, &heading),
        styled(FAINT, &source)
    ))
}

/// The charts, under the heading of their experiment.
fn pictures(report: &ExperimentReport) -> Vec<String> {
    let mut parts = Vec::new();
    let mut experiment = "";
    for chart in charts(report) {
        if chart.experiment != experiment {
            experiment = chart.experiment;
            parts.push(heading(report, experiment));
        }
        parts.push(picture(&chart));
    }
    parts
}

fn picture(chart: &Chart<'_>) -> String {
    bars::of(chart) + &sparks::of(chart)
}

fn heading(report: &ExperimentReport, experiment: &str) -> String {
    let about = report.experiments.iter().find(|about| about.name == experiment);
    let name = styled(STRONG, &human::printable(experiment));
    let Some(About { title, question, original, order, .. }) = about else {
        return format!("{name}\n");
    };
    let wrap = |text: &str| {
        let text = human::wrapped(&human::printable(text), WIDTH - INDENT.len(), INDENT.len());
        if text.is_empty() { text } else { format!("{INDENT}{}\n", styled(FAINT, &text)) }
    };
    let title = if title.is_empty() { String::new() } else { format!(": {title}") };
    let title = human::cut(&title, WIDTH - experiment.len());
    let original = original.as_ref().map(|it| {
        let machine =
            if it.machine.is_empty() { String::new() } else { format!("on {}", it.machine) };
        let known = [it.title.as_str(), it.date.as_str(), machine.as_str()];
        let known: Vec<&str> = known.into_iter().filter(|it| !it.is_empty()).collect();
        wrap(&format!("there: {}", known.join(", ")))
    });
    let order = order.as_deref().map(wrap);
    [format!("{name}{title}\n"), wrap(question)].into_iter().chain(original).chain(order).collect()
}

/// Conclusions from the figures.
fn advice(all: &[Advice]) -> Option<String> {
    if all.is_empty() {
        return None;
    }
    let mut text = format!("{}\n", styled(STRONG, "what follows"));
    for (index, Advice { headline, text: why, .. }) in all.iter().enumerate() {
        let wrap = |words: &str| {
            human::wrapped(&human::printable(words), WIDTH - 2 * INDENT.len(), 2 * INDENT.len())
        };
        let headline = wrap(headline);
        let headline =
            if index == 0 { verdict(true, &headline) } else { styled(STRONG, &headline) };
        text += &format!("{INDENT}{headline}\n{INDENT}{INDENT}{}\n", wrap(why));
    }
    Some(text)
}

/// Trust in the figures, and missing results.
fn remarks(report: &ExperimentReport) -> Vec<String> {
    let mut remarks: Vec<String> = report.stopped.iter().cloned().collect();
    let left_out = report.settings.get("left_out").and_then(serde_json::Value::as_str);
    remarks.extend(left_out.map(|left_out| format!("left out: {left_out}")));
    remarks.extend(report.noise.as_ref().map(|noise| noise.in_words.clone()));
    remarks.extend(warnings(report).map(|warning| format!("about this disk: {warning}")));
    remarks.extend(unavailable(report));
    remarks.extend(report.broken.iter().map(|(name, how)| format!("{name}: {how}")));
    if report.is_quick() {
        remarks.push("a quick run: its figures are the order of magnitude only".to_owned());
    }
    remarks
}

/// Warnings on what may break a promise on this disk, by the verdict of `leafpress storage`.
fn warnings(report: &ExperimentReport) -> impl Iterator<Item = &str> {
    let storage = report.storage.as_ref();
    let warnings = storage.and_then(|it| it.pointer("/verdict/warnings")?.as_array());
    warnings.into_iter().flatten().filter_map(serde_json::Value::as_str)
}

/// A remark behind "note: ".
fn wrapped_note(text: &str) -> String {
    const NOTE_WIDTH: usize = "note: ".len();
    human::wrapped(&human::printable(text), WIDTH - NOTE_WIDTH, NOTE_WIDTH)
}

/// Rungs that could not be measured, once for each reason.
fn unavailable(report: &ExperimentReport) -> Vec<String> {
    /// The report has them all.
    const NAMES_MAX: usize = 3;
    let mut names_of: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (name, reason) in &report.unavailable {
        names_of.entry(reason).or_default().push(name);
    }
    let note = |(reason, names): (&str, Vec<&str>)| {
        let (shown, rest) = names.split_at(names.len().min(NAMES_MAX));
        let more =
            if rest.is_empty() { String::new() } else { format!(" and {} more", rest.len()) };
        format!("{}{more}: {reason}", shown.join(", "))
    };
    names_of.into_iter().map(note).collect()
}
