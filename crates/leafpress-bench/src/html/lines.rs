//! Lines of points with their names: how a figure changes from one place of the axis to the next.
//!
//! Must never: leave a line without its name.

use maud::{Markup, html};

use super::draw::{self, percent, pixels};
use super::scale::Scale;
use crate::report::Rung;

/// Labels at the ends of the lines keep this many pixels between them.
const LABEL_HEIGHT: f64 = 17.0;
/// More letters do not fit beside the chart; the list below has the whole name.
const LABEL_CHARS_MAX: usize = 30;
/// Lines that differ in more than colour: this many kinds there are in the style.
const KINDS: usize = 7;

/// One line.
pub(super) struct Line {
    pub label: String,
    pub points: Vec<Point>,
    pub class: String,
    pub loses: Option<String>,
}

/// A point of a line.
pub(super) struct Point {
    /// Place on the axis, from 1.
    pub place: usize,
    pub value: f64,
    /// Words behind the line's label.
    pub words: String,
}

/// Places of a chart's points.
pub(super) struct Plot<'s> {
    pub scale: &'s Scale,
    /// Places on the axis.
    pub places: usize,
    pub height: f64,
}

impl Plot<'_> {
    /// In per cent.
    pub(super) fn across(&self, place: usize) -> f64 {
        if self.places < 2 { 50.0 } else { (place - 1) as f64 / (self.places - 1) as f64 * 100.0 }
    }

    /// In pixels.
    fn down(&self, value: f64) -> f64 {
        self.height * (1.0 - self.scale.at(value) / 100.0)
    }
}

/// Class of the line of a rung; `kinds` counts those that are not ours.
pub(super) fn class(rung: &Rung, kinds: &mut usize) -> String {
    let class = if rung.is_ours {
        "line ours".to_owned()
    } else {
        *kinds += 1;
        format!("line kind{}", (*kinds - 1) % KINDS)
    };
    if rung.safety.can_corrupt() { format!("{class} risky") } else { class }
}

/// The lines with their names beside them, over an axis of these names.
pub(super) fn of(lines: &[Line], plot: &Plot<'_>, about: &str, axis: &Markup) -> Markup {
    let letters: Vec<char> = (0..lines.len()).map(letter).collect();
    html! {
        div .lines {
            svg .plot width="100%" height=(pixels(plot.height + 24.0)) role="group"
                aria-label=(about) data-marks="near" {
                (draw::levels(plot.scale, plot.height))
                g .across aria-hidden="true" { (axis) }
                @for line in lines { (drawn(line, plot)) }
                (ends(lines, &letters, plot))
            }
        }
        (legend(lines, &letters))
    }
}

/// A name below the axis.
pub(super) fn tick(plot: &Plot<'_>, place: usize, name: &str) -> Markup {
    html! {
        text x=(percent(plot.across(place))) y=(pixels(plot.height + 18.0)) text-anchor="middle" {
            (name)
        }
    }
}

/// The names of the lines in full; needed only where those at their ends are letters or cut.
fn legend(lines: &[Line], letters: &[char]) -> Markup {
    let is_whole = lines.iter().all(|line| line.label.chars().count() <= LABEL_CHARS_MAX);
    html! {
        ol class=(if is_whole { "legend for-letters" } else { "legend" }) {
            @for (line, letter) in lines.iter().zip(letters) {
                li class=(line.class) {
                    span .letter { (letter) }
                    (swatch())
                    span { (line.label) @if let Some(loses) = &line.loses { ", " (loses) } }
                }
            }
        }
    }
}

fn letter(index: usize) -> char {
    char::from(b'A' + (index % 26) as u8)
}

fn drawn(line: &Line, plot: &Plot<'_>) -> Markup {
    let mut path = String::new();
    for (index, point) in line.points.iter().enumerate() {
        let x = pixels(plot.across(point.place) * 10.0);
        let y = pixels(plot.down(point.value));
        path.extend([if index == 0 { "M" } else { "L" }, &x, " ", &y]);
    }
    html! {
        g class=(line.class) {
            svg x="0" y="0" width="100%" height=(pixels(plot.height))
                viewBox={ "0 0 1000 " (pixels(plot.height)) } preserveAspectRatio="none" {
                path .stroke d=(path) vector-effect="non-scaling-stroke" {}
            }
            @for point in &line.points {
                circle cx=(percent(plot.across(point.place))) cy=(pixels(plot.down(point.value))) {
                    title {
                        (cut(&line.label)) ": " (point.words)
                    }
                }
            }
        }
    }
}

/// The names at the ends of the lines, moved apart where they would overlap.
fn ends(lines: &[Line], letters: &[char], plot: &Plot<'_>) -> Markup {
    let wanted: Vec<f64> =
        lines.iter().map(|line| line.points.last().map_or(0.0, |it| plot.down(it.value))).collect();
    let places = spread(&wanted, LABEL_HEIGHT, plot.height);
    html! {
        svg .ends x="100%" y="0" {
            @for (index, line) in lines.iter().enumerate() {
                @let (from, to) = (wanted[index], places[index]);
                @let is_last = line.points.last().is_some_and(|it| it.place == plot.places);
                g class=(line.class) {
                    @if is_last {
                        path .leader d={ "M6 " (pixels(from)) "L16 " (pixels(to)) } {}
                    }
                    text .wide x="20" y=(pixels(to)) dy=".35em" { (cut(&line.label)) }
                    text .narrow x="18" y=(pixels(to)) dy=".35em" { (letters[index]) }
                }
            }
        }
    }
}

fn cut(label: &str) -> String {
    match label.char_indices().nth(LABEL_CHARS_MAX) {
        None => label.to_owned(),
        Some((at, _)) => format!("{}…", label[..at].trim_end()),
    }
}

/// Moves places apart until there is room between all, as little as that takes.
fn spread(wanted: &[f64], room: f64, height: f64) -> Vec<f64> {
    let mut order: Vec<usize> = (0..wanted.len()).collect();
    order.sort_by(|one, other| wanted[*one].total_cmp(&wanted[*other]));
    let mut places = wanted.to_vec();
    let mut above = f64::NEG_INFINITY;
    for index in &order {
        places[*index] = places[*index].max(above + room);
        above = places[*index];
    }
    let mut below = height + room;
    for index in order.iter().rev() {
        places[*index] = places[*index].min(below - room);
        below = places[*index];
    }
    places
}

fn swatch() -> Markup {
    html! {
        svg .swatch width="26" height="10" aria-hidden="true" {
            path .stroke d="M1 5L25 5" {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_keep_their_distance_and_their_order() {
        let places = spread(&[100.0, 101.0, 20.0, 102.0, 319.0, 318.0], 17.0, 320.0);
        let mut sorted = places.clone();
        sorted.sort_by(f64::total_cmp);
        assert!(sorted.windows(2).all(|pair| pair[1] - pair[0] >= 16.9), "{places:?}");
        assert!(places[0] < places[1] && places[1] < places[3] && places[5] < places[4]);
        assert!(sorted.iter().all(|place| *place <= 320.0), "{places:?}");
        assert!((places[2] - 20.0).abs() < 1e-9, "who has room stays");
    }
}
