//! Advice on many processes that write into one database.
//!
//! Must never: compare shared Writers with anything but the best of the other ways.

use super::multiple::{Figure, faster};
use super::run::{Outcome, Run};
use super::wording::{advice, beside, quoted};
use crate::report::{Advice, Rung};

/// Writers that share a database, beside the fastest other way of as many processes.
pub(super) fn shared(run: &Run<'_>) -> Option<Advice> {
    let (processes, ours) = [8, 4].into_iter().find_map(|processes| {
        let ours = run.rung(&format!("rows, leafpress, shared, {processes} × 8"))?;
        Some((processes, ours))
    })?;
    let is_rival = |rung: &&Rung| rung.chart == ours.chart && !rung.is_ours;
    let rivals = run.report.rungs.iter().filter(|rung| rung.experiment == ours.experiment);
    let rivals = rivals.filter(is_rival);
    let best = rivals.max_by(|one, other| one.per_second.total_cmp(&other.per_second))?;
    let times = run.compared(&format!("shared{processes}"), Figure::Rate, ours, best)?;
    let outcome = run.outcome(times);
    let headline = match outcome {
        Outcome::Better => "Many processes on one database: open their `Writer` with `shared`",
        Outcome::Same => "Many processes on one database: the best other way is as fast here",
        Outcome::Unsure => "Many processes on one database: no sure difference",
        Outcome::Worse => "Many processes on one database: another way is faster here",
    };
    let text = format!(
        "{}, {processes} processes of 8 threads each make transactions of one row, each answered \
         when it is on the disk: {} with `Writer`s that share the database, and {} with {}, the \
         fastest other way ({}).{}",
        run.here(),
        Figure::Rate.in_words(ours),
        Figure::Rate.in_words(best),
        quoted(best),
        faster(times),
        run.why_no_difference(outcome)
    );
    Some(beside(advice("shared", headline, text), times, "the fastest other way"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::Safety;
    use crate::test_reports::{ours, rung, with_ratios};

    #[test]
    fn shared_writers_stand_beside_the_fastest_other_way() {
        let named = |name: &str, rung: Rung| Rung { name: name.to_owned(), ..rung };
        let of = |ours_s: f64, ratio: f64| {
            let chart = "rows, 8 processes";
            let report = with_ratios(
                vec![
                    named(
                        "rows, leafpress, shared, 8 × 8",
                        ours("shared", chart, "Writers", Safety::Durable, ours_s),
                    ),
                    rung("shared", chart, "SQL, retries", Safety::Durable, 40.0),
                    rung("shared", chart, "SQL, mutex file", Safety::Durable, 20.0),
                    rung("shared", "rows, 1 process", "SQL, mutex file", Safety::Durable, 0.1),
                ],
                &[("shared8", ratio)],
            );
            shared(&Run::new(&report)).expect("it was measured")
        };
        let better = of(2.0, 9.0);
        assert!(better.headline.contains("`shared`"), "{better:?}");
        assert!(
            better.text.contains("SQL, mutex file") && better.text.contains("10 times faster"),
            "{better:?}"
        );
        assert!(of(100.0, 0.2).headline.contains("another way is faster"));
    }
}
