//! The first screen: what it is, where it was measured, what to do, how far to trust it.
//!
//! Must never: let a simulated disk, a run that was stopped or a quick one pass for more than
//! it is.

use maud::{Markup, html};
use serde_json::Value;

use super::draw;
use super::story::{self, Story};
use crate::numbers;
use crate::report::{Advice, ExperimentReport, Ratio};

/// All that comes before the experiments.
pub(super) fn of(report: &ExperimentReport, story: &Story<'_>) -> Markup {
    html! {
        header .masthead {
            div .folio {
                span .brand { (leaf()) "leafpress bench" }
                @if let Some(date) = measured_at(report) { (date) }
            }
            h1 { (story.title) }
            p .machine { (machine(report)) }
            (marks(report))
        }
        (verdict(report, story))
        (trust(report))
        @if story.sections.len() > 1 { (contents(story)) }
    }
}

fn leaf() -> Markup {
    html! {
        svg .leaf width="16" height="16" viewBox="0 0 16 16" aria-hidden="true" {
            path d="M2 14C2 6 7 2 14 2C14 9 10 14 2 14ZM2 14L9 7" {}
        }
    }
}

/// The date in words, in the time zone of the machine that measured.
fn measured_at(report: &ExperimentReport) -> Option<Markup> {
    let text = report.measured_at.as_deref()?;
    let words = text.parse::<jiff::Timestamp>().map_or_else(
        |_| story::shortened(text),
        |at| at.strftime("%-d %B %Y, %H:%M UTC").to_string(),
    );
    Some(html! { time datetime=(story::shortened(text)) { (words) } })
}

/// Machine and disk in one line.
fn machine(report: &ExperimentReport) -> String {
    let machine = &report.machine;
    let mut parts: Vec<String> = Vec::new();
    parts.extend(machine.cpu.as_deref().map(story::shortened));
    parts.extend(machine.cores.map(|cores| match cores {
        1 => "1 core".to_owned(),
        cores => format!("{cores} cores"),
    }));
    parts.extend(machine.memory_mb.map(|megabytes| {
        if megabytes < 1000 {
            format!("{megabytes} MB")
        } else {
            format!("{:.0} GB", megabytes as f64 / 1000.0)
        }
    }));
    parts.extend(machine.kernel.as_deref().map(story::shortened));
    parts.extend(disk(report));
    parts.extend(sync(report));
    parts.join(" · ")
}

fn disk(report: &ExperimentReport) -> Option<String> {
    let of_machine = report.machine.filesystem.as_deref().map(story::shortened);
    let Some(storage) = &report.storage else { return of_machine };
    let text = |pointer: &str| storage.pointer(pointer).and_then(Value::as_str);
    let mut words = of_machine
        .or_else(|| text("/file_system/kind").map(story::shortened))
        .unwrap_or_else(|| "an unknown file system".to_owned());
    if let Some(model) = text("/device/model") {
        words = format!("{words} ({})", story::shortened(model));
    } else if storage.pointer("/device/is_virtual").and_then(Value::as_bool) == Some(true) {
        words.push_str(" (a virtual disk)");
    }
    Some(words)
}

/// The time of a sync: the one figure of a disk that decides all others. A disk takes longer
/// after an append than after an overwrite, so it is said which of both it is.
fn sync(report: &ExperimentReport) -> Option<String> {
    let of_storage =
        report.storage.as_ref().and_then(|it| it.pointer("/measured/sync_after_append/p50_us"));
    if let Some(us) = of_storage.and_then(Value::as_f64) {
        return Some(format!("a sync after an append takes {}", draw::time(us / 1e6)));
    }
    let us = report.settings.get("sync_us_median").and_then(Value::as_f64)?;
    Some(format!("a sync takes {}", draw::time(us / 1e6)))
}

/// Facts that a reader must know before any figure.
fn marks(report: &ExperimentReport) -> Markup {
    html! {
        @if let Some(simulated) = &report.simulated {
            div .mark-loud role="note" {
                strong { "A simulated disk." }
                " " (sentence(&simulated.what)) " was played on the disk above."
                @if !simulated.figures.is_empty() {
                    " " (sentence(&simulated.figures)) (full_stop(&simulated.figures))
                }
            }
        }
        @if let Some(stopped) = &report.stopped {
            div .mark-loud role="note" { strong { "Stopped early." } " " (stopped) }
        }
        @if report.is_quick() {
            p .mark-quiet { "A quick run: it shows orders of magnitude, no more." }
        }
    }
}

/// A link, if it is one of the web; else its text alone. Anything else in a report might
/// be a program.
pub(super) fn link(address: &str, text: &str) -> Markup {
    let is_web = address.starts_with("https://") || address.starts_with("http://");
    html! {
        @if is_web { a href=(address) rel="noopener noreferrer" { (text) } } @else { (text) }
    }
}

/// Advice, in the order of its weight.
fn verdict(report: &ExperimentReport, story: &Story<'_>) -> Markup {
    let advice =
        if report.advice.is_empty() { from_ratios(report, story) } else { report.advice.clone() };
    let Some((first, others)) = advice.split_first() else { return html! {} };
    html! {
        section .verdict aria-label="What to do" {
            (lead(first, story))
            @if !others.is_empty() {
                div .others {
                    @for advice in others { (other(advice, story)) }
                }
            }
        }
    }
}

fn lead(advice: &Advice, story: &Story<'_>) -> Markup {
    html! {
        article .lead {
            (times(advice))
            div {
                h2 .headline { (draw::prose(&advice.headline)) }
                p { (draw::prose(&advice.text)) " " (more(advice, story)) }
            }
        }
    }
}

fn other(advice: &Advice, story: &Story<'_>) -> Markup {
    html! {
        article .other {
            (times(advice))
            h3 .headline { (draw::prose(&advice.headline)) }
            p { (draw::prose(&advice.text)) " " (more(advice, story)) }
        }
    }
}

/// "380×", and beside what.
fn times(advice: &Advice) -> Markup {
    let Some(times) = advice.times.filter(|times| times.value.is_finite()) else {
        return html! {};
    };
    html! {
        p class={ "times" @if times.value < 1.0 { " slower" } } {
            span .number { (numbers::ratio(times.value)) "×" }
            @if let Some(beside) = &advice.beside {
                " "
                span .beside { "as fast as " (draw::prose(beside)) }
            }
            @if times.low < times.high || times.min < times.max {
                " "
                span .beside { (range_words(&times)) }
            }
        }
    }
}

/// Range in which another run should come out.
pub(super) fn range_words(ratio: &Ratio) -> String {
    match (ratio.low, ratio.high) {
        (Some(low), Some(high)) => {
            format!("another run: {} to {}", numbers::ratio(low), numbers::ratio(high))
        }
        _ => format!("pairs from {} to {}", numbers::ratio(ratio.min), numbers::ratio(ratio.max)),
    }
}

fn more(advice: &Advice, story: &Story<'_>) -> Markup {
    let section = story.sections.iter().find(|section| section.name == advice.experiment);
    html! {
        @if let Some(section) = section {
            a .more href={ "#" (section.id()) } { "See the figures" }
        }
    }
}

/// Ratios for a report without a verdict: those whose names name the rival.
fn from_ratios(report: &ExperimentReport, story: &Story<'_>) -> Vec<Advice> {
    let kinds = [("_vs_default", "SQLite's default"), ("_vs_equal", "the best that loses nothing")];
    let ratios = report.ratios.iter().flat_map(|(name, ratio)| {
        kinds
            .iter()
            .filter_map(move |(end, beside)| Some((name.strip_suffix(end)?, *beside, ratio)))
    });
    ratios
        .map(|(name, beside, ratio)| {
            let experiment = name.replace('_', "-");
            let section = story.sections.iter().find(|section| section.name == experiment);
            let title = section.map_or_else(|| story::capitalised(name), |it| it.title.clone());
            let text = format!("Leafpress beside {beside}: {}.", range_words(ratio));
            let (times, beside) = (Some(*ratio), Some(beside.to_owned()));
            Advice { experiment, headline: title, text, times, beside }
        })
        .collect()
}

/// Noise of the figures, and verdict on the disk.
fn trust(report: &ExperimentReport) -> Markup {
    let verdict = report.storage.as_ref().and_then(|storage| storage.get("verdict"));
    let list = |name: &str| {
        let list = verdict.and_then(|verdict| verdict.get(name)).and_then(Value::as_array);
        list.into_iter()
            .flatten()
            .filter_map(Value::as_str)
            .map(ToOwned::to_owned)
            .collect::<Vec<_>>()
    };
    let (why, warnings) = (list("why"), list("warnings"));
    let profile = verdict.and_then(|it| it.get("profile")).and_then(Value::as_str);
    if report.noise.is_none() && warnings.is_empty() && profile.is_none() {
        return html! {};
    }
    html! {
        section .trust aria-label="How far to trust it" {
            @if let Some(noise) = &report.noise {
                p { strong { "How far to trust it. " } (sentence(&noise.in_words)) (full_stop(&noise.in_words)) }
            }
            @for warning in &warnings {
                p .warning { strong { "About this disk. " } (sentence(warning)) (full_stop(warning)) }
            }
            @if let Some(profile) = profile {
                details {
                    summary { "This disk is fit for the profile " strong { (profile) } }
                    ul { @for reason in &why { li { (reason) } } }
                }
            }
        }
    }
}

/// With a large letter at its begin; unlike a name it is never cut.
fn sentence(text: &str) -> String {
    let mut chars = text.chars();
    let first: String = chars.next().into_iter().flat_map(char::to_uppercase).collect();
    format!("{first}{}", chars.as_str())
}

fn full_stop(text: &str) -> &'static str {
    if text.ends_with(['.', '!', '?']) { "" } else { "." }
}

fn contents(story: &Story<'_>) -> Markup {
    html! {
        nav .contents aria-label="Experiments" {
            @for section in &story.sections {
                a href={ "#" (section.id()) } { (section.title) }
            }
        }
    }
}
