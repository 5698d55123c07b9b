//! Times of single operations: half of them, 99 and 99.9 of a hundred, the slowest.
//!
//! Must never: draw a rung that can corrupt among those that cannot.

use maud::{Markup, html};

use super::draw::{self, percent};
use super::scale::{Scale, Unit};
use super::story;
use crate::report::{Latency, Rung};

/// One line of the chart: a rung, and one of its two latencies.
struct Line<'r> {
    rung: &'r Rung,
    latency: Latency,
    /// From when on, where a rung has two.
    since: &'static str,
}

/// The latencies of these rungs, where they have any; the first of a section is explained.
pub(super) fn of(rungs: &[&Rung], is_first: bool) -> Option<Markup> {
    let (safe, risky) = draw::apart(rungs);
    let (safe_lines, risky_lines) = (lines(&safe), lines(&risky));
    if safe_lines.is_empty() && risky_lines.is_empty() {
        return None;
    }
    let all = safe_lines.iter().chain(&risky_lines);
    let values: Vec<f64> = all
        .flat_map(|line| [line.latency.p50, line.latency.p99, line.latency.p999, line.latency.max])
        .map(|us| us / 1e6)
        .collect();
    let scale = Scale::of_points(&values, Unit::Seconds);
    Some(html! {
        p .how { (key(&scale, is_first)) }
        div .plotted {
            (draw::axis(&scale))
            div .rows {
                (draw::grid(&scale))
                @for line in &safe_lines { (row(line, &scale)) }
                @if !risky_lines.is_empty() {
                    (draw::apart_heading(&risky))
                    @for line in &risky_lines { (row(line, &scale)) }
                }
            }
        }
    })
}

fn lines<'r>(rungs: &[&'r Rung]) -> Vec<Line<'r>> {
    let mut lines = Vec::new();
    for rung in rungs {
        let since = if rung.from_call_us.is_some() { "from the answer on" } else { "" };
        lines.extend(rung.latency_us.map(|latency| Line { rung, latency, since }));
        let since = "from the call on";
        lines.extend(rung.from_call_us.map(|latency| Line { rung, latency, since }));
    }
    lines
}

fn key(scale: &Scale, is_first: bool) -> Markup {
    if !is_first {
        let axis = if scale.is_log { " The axis is logarithmic." } else { "" };
        return html! { "What single operations took; further left is better." (axis) };
    }
    html! {
        "What single operations took; further left is better. "
        span .nowrap { (sign(&html! { circle .p50 r="4.2" {} })) " half took no longer" }
        ", "
        span .nowrap { (sign(&html! { circle .p99 r="3.4" {} })) " 99 of 100" }
        ", "
        span .nowrap { (sign(&html! { line .p999 y1="-4.5" y2="4.5" {} })) " 999 of 1,000" }
        ", "
        span .nowrap { (sign(&html! { path .max d="M-3.5-4L3 0L-3.5 4Z" {} })) " the slowest." }
        @if scale.is_log { " The axis is logarithmic." }
    }
}

fn sign(mark: &Markup) -> Markup {
    html! {
        svg .key width="11" height="11" viewBox="-5.5 -5.5 11 11" aria-hidden="true" { (mark) }
    }
}

fn row(line: &Line<'_>, scale: &Scale) -> Markup {
    let latency = &line.latency;
    let at = |us: f64| percent(scale.at(us / 1e6));
    let (p50, p999, max) = (at(latency.p50), at(latency.p999), at(latency.max));
    html! {
        div class={ "row range " (draw::kind(line.rung)) } {
            (draw::named(line.rung, line.since))
            svg .track height="30" role="img" tabindex="0" {
                title { (title(line)) }
                line .span x1=(p50) x2=(max) y1="15" y2="15" {}
                svg x=(max) y="15" {
                    path .max d="M-3.5-4.5L3.5 0L-3.5 4.5Z" {}
                    text .value x="8" dy=".35em" { (draw::time(latency.max / 1e6)) }
                }
                line .p999 x1=(p999) x2=(p999) y1="9" y2="21" {}
                circle .p99 cx=(at(latency.p99)) cy="15" r="3.8" {}
                circle .p50 cx=(p50) cy="15" r="5" {}
            }
        }
    }
}

fn title(line: &Line<'_>) -> String {
    let time = |us: f64| draw::time(us / 1e6);
    let latency = &line.latency;
    let since = if line.since.is_empty() { String::new() } else { format!(", {}", line.since) };
    let mut lines = vec![
        format!("{}{since}: half within {}", story::label_of(line.rung), time(latency.p50)),
        format!("99 of 100 within {}", time(latency.p99)),
        format!("999 of 1,000 within {}", time(latency.p999)),
        format!("the slowest {}", time(latency.max)),
    ];
    if let Some(megabytes) = line.rung.wal_mb_max {
        lines.push(format!("write-ahead log at most {}", draw::megabytes(megabytes)));
    }
    lines.push(story::loses(line.rung));
    lines.join("\n")
}
