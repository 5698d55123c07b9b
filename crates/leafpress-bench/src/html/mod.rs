//! The report as a page: one HTML file. Everything is in it, to read, to print, or to send to a
//! colleague.
//!
//! ```text
//!  page ── head      title, machine and disk, the verdict, how far to trust it
//!       ├─ section   one experiment: its charts, its original, its table
//!       │   ├─ bars      a bar for each rung
//!       │   ├─ ranges    half of the calls, and the slowest
//!       │   ├─ curves    a line for each way to write, a point for each number of processes
//!       │   ├─ batches   a line for each rung, a point for each batch
//!       │   │   └─ lines     lines of points with their names, for both
//!       │   ├─ cycles    a dot for each cycle
//!       │   └─ course    how it went over time
//!       └─ method    how it was measured, what is missing, how to repeat it
//! ```
//!
//! A pure function of the report. The charts are drawn in per cent of their width, so one
//! drawing fits a phone and a desk, and no letter in it is ever scaled.
//!
//! Must never: need the network, let a name of the report be read as markup, or say a
//! figure that is not in the report.

mod bars;
mod batches;
mod course;
mod curves;
mod cycles;
mod draw;
mod head;
mod lines;
mod method;
mod ranges;
mod scale;
mod section;
mod story;
mod table;
#[cfg(test)]
mod tests;

use maud::{DOCTYPE, Markup, PreEscaped, html};

use crate::report::ExperimentReport;
use story::Story;

const STYLE: &str = include_str!("style.css");
const SCRIPT: &str = include_str!("script.js");

/// Rule for what the page loads and runs: nothing from elsewhere, and no script but its own, which
/// is known by its hash. `tests/python/test_bench_page.py` says the hash of a changed script.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; \
                      script-src 'sha256-XuiY6lvigAjw5hM23HfEXuPtUfN1G22yJHIYa61v97M='; \
                      base-uri 'none'; form-action 'none'";

/// The whole report as one HTML file.
pub fn page(report: &ExperimentReport) -> String {
    let story = Story::of(report);
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta http-equiv="Content-Security-Policy" content=(POLICY);
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                meta name="generator" content=(concat!("leafpress ", env!("CARGO_PKG_VERSION")));
                title { (story.title) " · leafpress bench" }
                style { (PreEscaped(STYLE)) }
            }
            body {
                (draw::patterns())
                main {
                    (head::of(report, &story))
                    @for section in &story.sections {
                        (section::of(section, story.points_max, report.simulated.is_some()))
                    }
                    (method::of(report))
                }
                (tip())
                script { (PreEscaped(SCRIPT)) }
            }
        }
    };
    page.into_string()
}

/// Element for the figures of the mark under the pointer. Hidden from screen readers:
/// the marks have labels that say the same.
fn tip() -> Markup {
    html! { div #tip aria-hidden="true" hidden="hidden" {} }
}
