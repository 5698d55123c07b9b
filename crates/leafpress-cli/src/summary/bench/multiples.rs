//! Made-up reports of random figures: every multiple that the page or the terminal prints is
//! the quotient of the two figures before it, and its range holds it.
//!
//! The ratios of these reports are random too, so that a multiple which is taken from them,
//! and not from the figures that a reader sees, is found.

use leafpress_bench::experiment::advise_again;
use leafpress_bench::html;
use leafpress_bench::report::{ExperimentReport, Latency, Ratio, Rung};
use serde_json::json;

use super::of_bench;

const REPORTS: u64 = 300;

/// The tour with rungs that speak against ours, and other figures everywhere.
fn random(seed: u64) -> ExperimentReport {
    let text = include_str!("../../../../leafpress-bench/tests/reports/overview.json");
    let mut report: ExperimentReport = serde_json::from_str(text).unwrap();
    let mut random = fastrand::Rng::with_seed(seed);
    let more = [
        ("durable, SQL, mutex, 64 blocking", "durable, leafpress, 64 blocking"),
        ("durable, leafpress, 1 × cycle", "durable, leafpress, 64 × cycle"),
        ("durable, SQL, mutex, 1 × cycle", "durable, SQL, mutex, 64 × cycle"),
        ("durable, leafpress, 64 × cycle of 100", "durable, leafpress, 64 × cycle"),
        ("durable, SQL, locking, 64 × cycle of 100", "durable, SQL, mutex, 64 × cycle"),
        ("slow syncs, leafpress, 1 blocking", "commits, leafpress, 1 blocking"),
        ("slow syncs, SQL, autocheckpoint", "commits, SQL, autocheckpoint"),
    ];
    for (name, like) in more {
        let like = report.rungs.iter().find(|rung| rung.name == like).unwrap();
        report.rungs.push(Rung { name: name.to_owned(), ..like.clone() });
    }
    // Advice has room for seven: leave out some experiments, so that each has its turn.
    let gone = ["ladder", "presort", "cycles", "queue-inserts", "writer", "checkpoint", "queue"];
    report.rungs.retain(|rung| rung.experiment != gone[seed as usize % gone.len()]);
    let mut factor = |power: f64| 10_f64.powf((random.f64() - 0.5) * power);
    let noise = factor(0.4).max(1.0 / factor(0.4));
    report.noise.as_mut().unwrap().times = noise.max(1.0);
    for rung in &mut report.rungs {
        let times = factor(4.0);
        rung.median_s *= times;
        rung.per_second /= times;
        rung.runs_s = vec![rung.median_s * 0.9, rung.median_s, rung.median_s * factor(0.5)];
        rung.latency_us = rung.latency_us.map(|latency| Latency {
            p999: latency.p999 * factor(4.0),
            max: latency.max * factor(4.0),
            ..latency
        });
    }
    let names = ["blocking64_vs_mutex", "cycle1", "cycle64_batch100", "p999_commit_slow"];
    report.ratios.extend(names.map(|name| (name.to_owned(), Ratio::exactly(1.0))));
    for ratio in report.ratios.values_mut() {
        let value = factor(3.0);
        let (min, max) = (value * 0.8, value * 1.3);
        let (low, high) = (Some(min * 0.9), Some(max * 1.1));
        *ratio = Ratio { value, min, max, low, high, bound_by: None };
    }
    if seed.is_multiple_of(2) {
        let verdict = json!({"profile": "durable", "why": ["it is so"], "warnings": ["a cache"]});
        report.storage = Some(json!({ "verdict": verdict }));
    }
    advise_again(&mut report);
    report
}

/// A printed figure: between what it stands for, after rounding.
#[derive(Debug, Clone, Copy)]
struct Printed {
    low: f64,
    high: f64,
}

/// The range of a printed number: half of its last digit to either side. Of whole
/// numbers noughts at the end may be rounding.
fn digits(text: &str, kept: usize) -> Option<Printed> {
    let plain = text.replace(',', "");
    let value: f64 = plain.parse().ok()?;
    let step = match plain.split_once('.') {
        Some((_, decimals)) => 10_f64.powi(-i32::try_from(decimals.len()).ok()?),
        None => 10_f64.powi(i32::try_from(plain.len().saturating_sub(kept)).ok()?),
    };
    Some(Printed { low: value - step / 2.0, high: value + step / 2.0 })
}

fn scaled(printed: Printed, unit: f64) -> Printed {
    Printed { low: printed.low * unit, high: printed.high * unit }
}

/// The figures of a text in their order: times, and what is "a second".
fn figures(text: &str) -> Vec<Printed> {
    let words: Vec<&str> = text.split_whitespace().collect();
    let clean = |word: &str| word.trim_matches(|it: char| ",.;:()".contains(it)).to_owned();
    let mut found = Vec::new();
    for (at, word) in words.iter().enumerate() {
        let Some(number) = digits(&clean(word), 3) else { continue };
        let next: Vec<String> = words[at + 1..].iter().take(3).map(|word| clean(word)).collect();
        let next: Vec<&str> = next.iter().map(String::as_str).collect();
        let more = |word: &str| clean(word).parse::<f64>().unwrap_or(0.0);
        found.extend(match next.as_slice() {
            ["µs", ..] => Some(scaled(number, 1e-6)),
            ["ms", ..] => Some(scaled(number, 1e-3)),
            // "3 min 20 s": the seconds are counted with the minutes.
            ["s", ..] if at >= 1 && words[at - 1] == "min" => None,
            ["s", ..] | ["a", "second", ..] => Some(number),
            ["min", seconds, ..] if next.get(2) == Some(&"s") => {
                let whole = more(&clean(word)) * 60.0 + more(seconds);
                Some(Printed { low: whole - 0.5, high: whole + 0.5 })
            }
            ["h", minutes, ..] => {
                let whole = more(&clean(word)) * 3600.0 + more(minutes) * 60.0;
                Some(Printed { low: whole - 60.0, high: whole + 60.0 })
            }
            // Of three digits noughts behind the point are left out.
            ["million", "a", "second"] => {
                digits(&format!("{:.2}", more(word)), 3).map(|it| scaled(it, 1e6))
            }
            ["billion", "a", "second"] => {
                digits(&format!("{:.2}", more(word)), 3).map(|it| scaled(it, 1e9))
            }
            _ => None,
        });
    }
    found
}

/// Checks every multiple of a text; how many there were.
fn check_multiples(text: &str) -> Result<usize, String> {
    let mut count = 0;
    for (at, _) in text.match_indices(" times ") {
        let before = &text[..at];
        let Some((sentence, number)) = before.rsplit_once('(') else { continue };
        let Some(printed) = digits(number, 2) else { continue };
        let shown = sentence.rsplit(". ").next().unwrap_or_default();
        let shown = format!("{shown}({number} times");
        let [.., one, other] = figures(sentence)[..] else {
            return Err(format!("no figures before it: {shown}"));
        };
        let is_quotient = |of: Printed, by: Printed| {
            of.high / by.low >= printed.low && of.low / by.high <= printed.high
        };
        if !is_quotient(one, other) && !is_quotient(other, one) {
            return Err(format!("{printed:?} of {one:?} and {other:?}: {shown}"));
        }
        check_range(&text[at..], printed)
            .ok_or_else(|| format!("its range is not beside it: {shown}"))?;
        count += 1;
    }
    Ok(count)
}

/// "… faster; another run: 8.5 to 12)" behind a multiple that lies between both.
fn check_range(after: &str, multiple: Printed) -> Option<()> {
    let (_, range) = after.split_once("; another run: ")?;
    let (low, high) = range.split_once(')')?.0.split_once(" to ")?;
    let (low, high) = (digits(low, 2)?, digits(high, 2)?);
    (low.low <= multiple.high && multiple.low <= high.high).then_some(())
}

/// The text of markup.
fn without_tags(markup: &str) -> String {
    let mut text = String::new();
    for part in markup.split('<') {
        text += part.split_once('>').map_or(part, |(_, text)| text);
    }
    text.replace("&quot;", "\"").replace("&amp;", "&").replace('\u{a0}', " ")
}

#[test]
fn every_multiple_on_the_page_is_the_quotient_of_the_figures_before_it() {
    let mut count = 0;
    for seed in 0..REPORTS {
        let report = random(seed);
        let page = html::page(&report);
        let (_, first_screen) = page.split_once("<section class=\"verdict\"").unwrap();
        let (first_screen, _) = first_screen.split_once("</section>").unwrap();
        for card in first_screen.split("<article").skip(1) {
            let (_, card) = card.split_once('>').unwrap();
            let text = without_tags(card);
            count +=
                check_multiples(&text).unwrap_or_else(|why| panic!("seed {seed}: {why}\n{text}"));
            // The large number, its range and the headline's are those of the sentence.
            let Some((number, rest)) = text.split_once("× as fast as ") else { continue };
            assert!(rest.contains("another run: "), "seed {seed}: {text}");
            let number = digits(number, 2).unwrap();
            let said = text
                .match_indices(" times ")
                .filter_map(|(at, _)| digits(text[..at].rsplit(['(', ' ']).next()?, 2));
            let is_same =
                |it: Printed, other: Printed| it.high >= other.low && it.low <= other.high;
            let turned = Printed { low: 1.0 / number.high, high: 1.0 / number.low.max(1e-9) };
            let said: Vec<Printed> = said.collect();
            assert!(
                said.iter().any(|it| is_same(*it, number) || is_same(*it, turned)),
                "seed {seed}: {number:?} {said:?}: {text}"
            );
        }
    }
    assert!(count > REPORTS as usize * 5, "only {count} multiples were found");
}

#[test]
fn every_multiple_in_the_terminal_is_the_quotient_of_the_figures_before_it() {
    let mut count = 0;
    for seed in 0..REPORTS {
        let report = random(seed);
        let text = anstream::adapter::strip_str(&of_bench(&report, &[])).to_string();
        let (_, advice) = text.split_once("what follows\n").unwrap();
        let (advice, _) = advice.split_once("times better").unwrap();
        let advice = advice.split_whitespace().collect::<Vec<_>>().join(" ");
        count +=
            check_multiples(&advice).unwrap_or_else(|why| panic!("seed {seed}: {why}\n{advice}"));
        if report.storage.is_some() && seed.is_multiple_of(2) {
            assert!(text.contains("note: about this disk: a cache"), "seed {seed}: {text}");
            assert!(!advice.contains("loses nothing ") || advice.contains("if this disk keeps"));
        }
    }
    assert!(count > REPORTS as usize * 5, "only {count} multiples were found");
}

#[test]
fn a_multiple_that_its_figures_do_not_make_is_found() {
    let text = |times: &str| {
        format!(
            "95,700 a second with a `Queue`, and 9,650 a second by hand ({times} times faster; another run: 3.8 to 14)."
        )
    };
    assert_eq!(check_multiples(&text("9.9")), Ok(1));
    assert!(check_multiples(&text("7.3")).is_err());
    let time = |times: &str| {
        format!("takes 255 µs, and 889 µs there ({times} times shorter; another run: 1 to 9)")
    };
    assert_eq!(check_multiples(&time("3.5")), Ok(1));
    assert!(check_multiples(&time("4.3")).is_err());
    let out = "takes 29 ms, and about 2 min 10 s there (4,500 times faster; another run: 1 to 9)";
    assert!(check_multiples(out).is_err(), "it is not in its range");
    assert!(check_multiples("takes 1.0 s, and 2.0 s there (2.0 times faster)").is_err());
}
