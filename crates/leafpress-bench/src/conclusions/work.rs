//! A piece of work by ours, beside the best other way that is as safe: the same sentences for
//! every experiment that has such rungs. The rung without settings is named too, but it makes no
//! multiple: it mostly does the work in another way, a transaction a row.
//!
//! Must never: compare ours with a rung of another chart, or call a rival as safe that
//! is not.

use super::multiple::{Figure, faster, inverse};
use super::run::{Outcome, Run, may_lose};
use super::wording::{DEFAULT, advice, beside, named, quoted, spelled_out, taken};
use crate::charts::Chart;
use crate::numbers;
use crate::report::{Advice, Rung};

/// The words for an experiment.
struct Topic {
    experiment: &'static str,
    /// The work: "Many rows at once".
    what: &'static str,
    /// The advice where ours is better.
    do_this: &'static str,
    /// An explanation of the names in it.
    meaning: &'static str,
    /// The name of its rows.
    rows: &'static str,
    /// The name of its first rung, which has no settings.
    default: &'static str,
    /// The name of ours in which one thread waits for each answer, where ours at its best does
    /// not, and what such a rung does.
    alone: Option<(&'static str, &'static str)>,
}

/// Rows that come in order.
pub(super) fn many_rows(run: &Run<'_>) -> Option<Advice> {
    of(
        run,
        &Topic {
            experiment: "ladder",
            what: "Many rows at once",
            do_this: "load them with `leafpress load` or a `Loader`",
            meaning: "A `Loader` is `leafpress load` for programs in Rust.",
            rows: "rows",
            default: DEFAULT,
            alone: None,
        },
    )
}

/// Rows whose keys are in no order.
pub(super) fn random_keys(run: &Run<'_>) -> Option<Advice> {
    let topic = Topic {
        experiment: "presort",
        what: "Rows with random keys",
        do_this: "let a `Loader` sort them",
        meaning: "A `Loader` is `leafpress load` for programs in Rust; it sorts all rows first.",
        rows: "rows",
        default: "plain SQLite",
        alone: None,
    };
    let found = of(run, &topic)?;
    let slowing = run.chart(topic.experiment).and_then(slowing_down);
    Some(Advice { text: found.text + &slowing.unwrap_or_default(), ..found })
}

/// Small changes, one after the other.
pub(super) fn cycles(run: &Run<'_>) -> Option<Advice> {
    of(
        run,
        &Topic {
            experiment: "cycles",
            what: "Small changes one after the other",
            do_this: "make them through a `Writer`",
            meaning: "A `Writer` is one connection that all threads of a program in Rust share.",
            rows: "changed rows",
            default: DEFAULT,
            alone: Some(("cycles_alone", "Writer, a call a cycle")),
        },
    )
}

/// A CSV file: said only where the rows of "ladder" do not say it already.
pub(super) fn files(run: &Run<'_>) -> Option<Advice> {
    const BESIDE: &str = "tuned SQL that syncs nothing";
    if run.chart("ladder").is_some() {
        return None;
    }
    let ours = run.rung("csv, leafpress, types detected")?;
    let sql = run.rung("csv, SQL, types known, one row a statement")?;
    let times = run.compared("csv_vs_sql", Figure::Time, ours, sql)?;
    let outcome = run.outcome(times);
    let headline = match outcome {
        Outcome::Better => "CSV files: load them with `leafpress load`",
        Outcome::Same => "CSV files: tuned SQL is as fast here, but not as safe",
        Outcome::Unsure => "CSV files: no sure difference from tuned SQL, which is not as safe",
        Outcome::Worse => "CSV files: tuned SQL is faster here, but not as safe",
    };
    let text = format!(
        "{}, {} rows take {}, synced, and {} by {BESIDE} and is told the types ({}).{}",
        run.here(),
        numbers::count(ours.rows.unwrap_or(0)),
        taken(ours),
        taken(sql),
        faster(times),
        run.why_no_difference(outcome)
    );
    Some(beside(advice("load", headline, text), times, BESIDE))
}

fn of(run: &Run<'_>, topic: &Topic) -> Option<Advice> {
    let chart = run.chart(topic.experiment)?;
    let (ours, default) = (chart.our_rung()?, chart.default_rung()?);
    let do_this = format!("{}: {}", topic.what, topic.do_this);
    let ratio_name = |rest: &str| format!("{}_{rest}", topic.experiment.replace('-', "_"));
    let Some(best) = chart.best_other().filter(|_| ours.safety.keeps_all()) else {
        let times = run.compared(&ratio_name("vs_default"), Figure::Time, ours, default)?;
        let text = text(run, topic, ours, (default, topic.default), &faster(times));
        let headline = match run.outcome(times) {
            Outcome::Better => do_this,
            Outcome::Same => format!("{}: {} is as fast here", topic.what, topic.default),
            Outcome::Unsure => no_sure_difference(topic, topic.default),
            Outcome::Worse => format!("{}: {} is faster here", topic.what, topic.default),
        };
        return Some(beside(advice(topic.experiment, headline, text), times, topic.default));
    };
    let times = run.compared(&ratio_name("vs_equal"), Figure::Time, ours, best)?;
    let outcome = run.outcome(times);
    let plain = format!("plain SQLite with {}", named(best));
    let headline = match outcome {
        Outcome::Better => do_this,
        Outcome::Same => format!("{}: {plain} is as fast here", topic.what),
        Outcome::Unsure => no_sure_difference(topic, &plain),
        Outcome::Worse => {
            format!(
                "{}: {plain} is {} faster here",
                topic.what,
                numbers::times(inverse(times).value)
            )
        }
    };
    let other = format!("the best other way that is as safe, {}", spelled_out(best));
    let mut text = text(run, topic, ours, (best, &other), &faster(times));
    text += &run.why_no_difference(outcome);
    text += &alone(run, topic, chart, best).unwrap_or_default();
    text += &begin_with(topic, default, best).unwrap_or_default();
    Some(beside(advice(topic.experiment, headline, text), times, plain))
}

fn no_sure_difference(topic: &Topic, from: &str) -> String {
    format!("{}: no sure difference from {from}", topic.what)
}

/// Ours beside another rung, and what a power cut may take of either.
fn text(
    run: &Run<'_>,
    topic: &Topic,
    ours: &Rung,
    (other, other_words): (&Rung, &str),
    times: &str,
) -> String {
    format!(
        "{}, {} {} take {} by ours, {}, and {} by {other_words} ({times}).{} {}",
        run.here(),
        numbers::count(ours.rows.unwrap_or(0)),
        topic.rows,
        taken(ours),
        spelled_out(ours),
        taken(other),
        run.power_cut(ours),
        topic.meaning
    )
}

/// A sentence on one thread that waits for each answer, where it gains nothing.
fn alone(run: &Run<'_>, topic: &Topic, chart: &Chart<'_>, best: &Rung) -> Option<String> {
    let (ratio, label) = topic.alone?;
    let alone = chart.rungs.iter().find(|rung| rung.is_ours && rung.label == label)?;
    let times = run.compared(ratio, Figure::Time, alone, best)?;
    let is_better = run.outcome(times) == Outcome::Better;
    (!is_better).then(|| {
        format!(
            " {} gains nothing: {} beside {} ({}).",
            quoted(alone),
            taken(alone),
            taken(best),
            faster(times)
        )
    })
}

/// A sentence on the rung without settings, where it is not the best one.
fn begin_with(topic: &Topic, default: &Rung, best: &Rung) -> Option<String> {
    if default.name == best.name {
        return None;
    }
    let loses = if default.safety.keeps_all() {
        String::new()
    } else {
        format!(", and this {}", may_lose(default))
    };
    let (with, taken) = (topic.default, taken(default));
    Some(format!(" With {with}, {}, they take {taken}{loses}.", quoted(default)))
}

/// A sentence on batches that take longer and longer, where they do.
fn slowing_down(chart: &Chart<'_>) -> Option<String> {
    const SLOWER_TIMES: f64 = 1.5;
    let ends = |rung: &Rung| Some((*rung.batches_s.first()?, *rung.batches_s.last()?));
    let (first_s, last_s) = ends(chart.default_rung()?)?;
    let (our_first_s, our_last_s) = ends(chart.our_rung()?)?;
    (last_s > first_s * SLOWER_TIMES).then(|| {
        format!(
            " As they come, the first batch takes {} and the last {}, as the table has grown; ours \
             take {} and {}.",
            numbers::time(first_s),
            numbers::time(last_s),
            numbers::time(our_first_s),
            numbers::time(our_last_s)
        )
    })
}
