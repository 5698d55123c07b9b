//! Contents of the page, in its order: the experiments of a report with their charts.
//!
//! Reports of earlier versions do not say which rungs belong together; then the first part
//! of their names does.
//!
//! Must never: leave a rung out.

use crate::charts::{self, Chart};
use crate::report::{About, ExperimentReport, Rung};

/// Longer names are cut: a page is no place for a megabyte of name.
const NAME_CHARS_MAX: usize = 90;
/// Limit of points on the whole page, about 100 bytes each; shared by all lines.
const POINTS_OF_PAGE: usize = 6_000;
/// A line has at least this many of them, so that its shape is seen.
const POINTS_MIN: usize = 6;

/// The report, sorted for the page.
pub(super) struct Story<'r> {
    /// The page's heading.
    pub title: String,
    /// Largest number of points of each line and each panel.
    pub points_max: usize,
    /// One for each experiment, in the report's order.
    pub sections: Vec<Section<'r>>,
}

/// One experiment.
pub(super) struct Section<'r> {
    /// Its name on the command line.
    pub name: &'r str,
    /// Its heading.
    pub title: String,
    /// Subject, where the report says it.
    pub about: Option<&'r About>,
    /// Its charts.
    pub charts: Vec<Chart<'r>>,
}

impl<'r> Story<'r> {
    /// Sorts a report.
    pub(super) fn of(report: &'r ExperimentReport) -> Self {
        let mut charts = charts::charts(report);
        charts.extend(without_chart(report));
        let mut sections: Vec<Section<'r>> =
            report.experiments.iter().map(|about| Section::new(&about.name, Some(about))).collect();
        for chart in charts {
            let known = sections.iter_mut().find(|section| section.name == chart.experiment);
            if let Some(section) = known {
                section.charts.push(chart);
            } else {
                let mut section = Section::new(chart.experiment, None);
                section.charts.push(chart);
                sections.push(section);
            }
        }
        let title = match sections.as_slice() {
            [only] => only.title.clone(),
            _ if report.simulated.is_some() => "What SQLite can do on a simulated disk".to_owned(),
            _ => "What SQLite can do on this disk".to_owned(),
        };
        Self { title, points_max: points_max(report), sections }
    }
}

/// The page's points in equal shares for all that is drawn of points.
fn points_max(report: &ExperimentReport) -> usize {
    let drawn = report.rungs.iter().map(|rung| {
        let of_rung =
            [!rung.batches_s.is_empty(), !rung.cycles_us.is_empty(), rung.series.is_some()];
        of_rung.into_iter().filter(|is_drawn| *is_drawn).count()
    });
    (POINTS_OF_PAGE / drawn.sum::<usize>().max(1)).max(POINTS_MIN)
}

impl<'r> Section<'r> {
    fn new(name: &'r str, about: Option<&'r About>) -> Self {
        let title = about.map(|about| about.title.as_str()).filter(|title| !title.is_empty());
        let title = title.map_or_else(|| capitalised(name), shortened);
        Self { name, title, about, charts: Vec::new() }
    }

    /// Name in addresses within the page. Names are the report's own, so they
    /// are made harmless.
    pub(super) fn id(&self) -> String {
        id_of(self.name)
    }
}

/// A name as it may stand in an address.
pub(super) fn id_of(name: &str) -> String {
    let harmless = |char: char| if char.is_ascii_alphanumeric() { char } else { '-' };
    format!("experiment-{}", name.chars().take(40).map(harmless).collect::<String>())
}

/// The charts of rungs that name none: by experiment, and by the first part of the name.
fn without_chart(report: &ExperimentReport) -> Vec<Chart<'_>> {
    let rungs = report.rungs.iter().filter(|rung| rung.chart.is_empty());
    let mut charts: Vec<Chart<'_>> = Vec::new();
    for rung in rungs {
        let experiment = if rung.experiment.is_empty() {
            report.experiment.as_str()
        } else {
            rung.experiment.as_str()
        };
        let name = rung.name.split(", ").next().unwrap_or_default();
        let same = |chart: &&mut Chart<'_>| chart.experiment == experiment && chart.name == name;
        match charts.iter_mut().find(same) {
            Some(chart) => chart.rungs.push(rung),
            None => charts.push(Chart {
                experiment,
                name,
                rungs: vec![rung],
                figure: charts::Figure::Seconds,
            }),
        }
    }
    for chart in &mut charts {
        chart.figure = charts::Figure::fitting(&chart.rungs);
    }
    charts
}

/// Name of a rung within its chart.
pub(super) fn label_of(rung: &Rung) -> String {
    if !rung.chart.is_empty() && !rung.label.is_empty() {
        return shortened(&rung.label);
    }
    // Without a chart of its own it stands under the first part of its name.
    shortened(rung.name.split_once(", ").map_or(rung.name.as_str(), |(_, rest)| rest))
}

/// Loss that a crash may cause, as a predicate.
pub(super) fn loses(rung: &Rung) -> String {
    let may_lose =
        if rung.may_lose.is_empty() { rung.safety.may_lose() } else { rung.may_lose.as_str() };
    if may_lose == "nothing" {
        "loses nothing".to_owned()
    } else {
        format!("may lose {}", shortened(may_lose))
    }
}

/// Cut where it is too long for any use.
pub(super) fn shortened(name: &str) -> String {
    match name.char_indices().nth(NAME_CHARS_MAX) {
        None => name.to_owned(),
        Some((at, _)) => format!("{}…", &name[..at]),
    }
}

/// With a large letter at its begin.
pub(super) fn capitalised(name: &str) -> String {
    let mut chars = name.chars();
    let first: String = chars.next().into_iter().flat_map(char::to_uppercase).collect();
    shortened(&format!("{first}{}", chars.as_str()))
}
