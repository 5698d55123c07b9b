//! The two published experiments that this repeats: their figures, and whether the rungs come in
//! their order here.
//!
//! Both are by the same author, on a Mac with an M1 processor, in Clojure through its library
//! sqlite4clj: WAL, 15,625 pages of cache, and `synchronous = FULL` by the benchmarks' code. A
//! row is a key and always the same 50 bytes of data. Making the keys is inside of the times,
//! and so is sorting them.
//!
//! The presorted figures are those of the post as it was first published. With a quicker
//! comparison the author later had 1.99 to 3.84 s a batch.

use super::rung::{Filler, Keys};
use crate::numbers;
use crate::order;
use crate::report::{About, Original, OriginalFigure, Rung};

/// The rungs that the originals had, from the fastest to the slowest, with the milliseconds of
/// each of their ten batches of a million rows.
const FIGURES: [(Keys, Filler, [u32; 10]); 5] = [
    (
        Keys::Integer,
        Filler::SqlAsTheyCome,
        [1208, 1102, 1177, 1138, 1086, 1101, 1070, 1069, 1079, 1081],
    ),
    (
        Keys::Uuid7,
        Filler::SqlAsTheyCome,
        [1372, 1280, 1365, 1250, 1256, 1270, 1246, 1257, 1245, 1258],
    ),
    (
        Keys::Bytes,
        Filler::SqlSortedByPrefix,
        [2638, 2846, 2976, 3125, 3309, 3898, 3749, 3984, 4054, 4332],
    ),
    (
        Keys::Bytes,
        Filler::SqlAsTheyCome,
        [2478, 4927, 6262, 7195, 8257, 8704, 9244, 9771, 10387, 11103],
    ),
    (
        Keys::Uuid4,
        Filler::SqlAsTheyCome,
        [2649, 5644, 7137, 8352, 9359, 9817, 10490, 11130, 11668, 12586],
    ),
];

/// Figure of the originals for rows with these keys, put in by these means.
pub(super) fn figure(keys: Keys, by: Filler) -> Option<OriginalFigure> {
    let (.., milliseconds) =
        FIGURES.iter().find(|(its_keys, its_by, _)| (*its_keys, *its_by) == (keys, by))?;
    let batches_s: Vec<f64> = milliseconds.iter().map(|batch| f64::from(*batch) / 1e3).collect();
    let rows = "10 batches of 1,000,000 rows";
    let note = match (keys, by) {
        (Keys::Integer, _) => format!(
            "{rows}, post of 2026-06-05; the key was INT, not INTEGER, so that an index was kept \
             besides: without it 0.715 s a batch, as the author said later"
        ),
        (Keys::Uuid4 | Keys::Uuid7, _) => format!("{rows}, post of 2026-06-05"),
        (Keys::Bytes, Filler::SqlSortedByPrefix) => {
            format!("{rows}; with a quicker comparison the author later had 1.99 to 3.84 s a batch")
        }
        (Keys::Bytes, _) => rows.to_owned(),
    };
    Some(OriginalFigure {
        label: format!("{}, {}", keys.name(), by.label()),
        seconds: Some(batches_s.iter().sum()),
        batches_s,
        note: Some(note),
    })
}

/// Subject of the experiment.
pub(crate) fn about() -> About {
    About {
        name: "presort".to_owned(),
        title: "Ten batches of rows whose keys come in no order".to_owned(),
        question: "How much does a batch slow down as the table outgrows the page cache, by kind \
             of key, and what helps: sorting each batch, or writing all pages once?"
            .to_owned(),
        original: Some(Original {
            title: "SQLite improving performance with pre-sort, and the post before it, The \
                 perils of UUID primary keys in SQLite (2026-06-05), both on andersmurphy.com"
                .to_owned(),
            url: "https://andersmurphy.com/2026/06/07/sqlite-improving-performance-with-pre-sort.html"
                .to_owned(),
            date: "2026-06-07".to_owned(),
            machine: "a Mac with an M1 processor; Clojure with sqlite4clj, WAL, 64 MB of page \
                 cache"
                .to_owned(),
            figures: FIGURES.iter().filter_map(|(keys, by, _)| figure(*keys, *by)).collect(),
        }),
        order: None,
    }
}

/// Comparison of the rungs' order with the originals', in words, and of the last batch with the
/// first, here and there.
pub(crate) fn order(rungs: &[Rung]) -> String {
    let named = |(keys, by, _): &(Keys, Filler, [u32; 10])| {
        let is_it = |rung: &&Rung| rung.chart == keys.name() && rung.label == by.label();
        let rung = rungs.iter().find(is_it)?;
        // A label of one chart is also one of another.
        Some(Rung { label: format!("{}, {}", keys.name(), by.label()), ..rung.clone() })
    };
    let steps: Vec<Rung> = FIGURES.iter().filter_map(named).collect();
    let order = order::in_words(&steps.iter().collect::<Vec<_>>(), |_| {
        "There each key was drawn from a secure generator, and compared as an object, within the \
         time; here that costs next to nothing."
            .to_owned()
    });
    let growth = steps.iter().filter_map(growth);
    [order].into_iter().chain(growth).collect::<Vec<_>>().join(" ")
}

/// The first batch beside the last, here and there.
fn growth(rung: &Rung) -> Option<String> {
    let from_to = |batches_s: &[f64]| {
        let (first_s, last_s) = (*batches_s.first()?, *batches_s.last()?);
        let times = numbers::times(last_s / first_s);
        Some(format!("{} to {} ({times} as long)", numbers::time(first_s), numbers::time(last_s)))
    };
    let here = from_to(&rung.batches_s)?;
    let there = from_to(&rung.original.as_ref()?.batches_s)?;
    Some(format!(
        "From the first batch to the last, \"{}\" goes from {here}, there from {there}.",
        rung.label
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rung(keys: Keys, by: Filler, median_s: f64) -> Rung {
        let json = serde_json::json!({"name": "x", "safety": "durable", "chart": keys.name(),
            "median_s": median_s, "runs_s": [median_s], "per_second": 1.0, "label": by.label(),
            "batches_s": [1.0, 2.5], "original": figure(keys, by)});
        serde_json::from_value(json).expect("a rung")
    }

    #[test]
    fn the_originals_figures_are_in_their_order() {
        let original = about().original.expect("there is one");
        let seconds: Vec<f64> = original.figures.iter().filter_map(|it| it.seconds).collect();
        assert_eq!(seconds.len(), 5);
        assert!(seconds.is_sorted(), "{seconds:?}");
        assert!((seconds[3] - 78.328).abs() < 1e-9, "{seconds:?}");
        assert!(original.figures.iter().all(|it| it.batches_s.len() == 10));
        assert_eq!(figure(Keys::Bytes, Filler::Pressed), None);
        assert_eq!(figure(Keys::Uuid4, Filler::SqlSorted), None);
    }

    #[test]
    fn the_order_says_what_took_longer_here() {
        let come = Filler::SqlAsTheyCome;
        let mut rungs = vec![
            rung(Keys::Bytes, come, 9.0),
            rung(Keys::Bytes, Filler::SqlSortedByPrefix, 3.0),
            rung(Keys::Uuid4, come, 8.5),
        ];
        let said = order(&rungs);
        // 8.5 s and 9 s are about the same.
        assert!(said.starts_with("The order is the original's as far as"), "{said}");
        let slows = "\"UUIDv4, as they come\" goes from 1.00 s to 2.50 s (2.5 times as long), there \
                     from 2.65 s to 12.6 s (4.8 times as long).";
        assert!(said.contains(slows), "{said}");
        rungs[2].median_s = 6.0;
        rungs[2].runs_s = vec![6.0];
        let said = order(&rungs);
        let other = "\"20 random bytes, as they come\" took longer than \"UUIDv4, as they come\"";
        assert!(said.contains(other), "{said}");
        rungs.truncate(1);
        assert!(order(&rungs).starts_with("Too few"));
    }
}
