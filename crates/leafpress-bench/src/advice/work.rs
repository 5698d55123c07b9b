//! A piece of work by ours, beside what people begin with and beside the best other way
//! that is as safe: the same sentences for every experiment that has such rungs.
//!
//! Must never: compare ours with a rung of another chart, or call a rival as safe that
//! is not.

use super::{DEFAULT, Outcome, Run, advice, and_loses, beside, quoted, taken, times_faster};
use crate::charts::Chart;
use crate::report::{Advice, Rung};
use crate::words;

/// What is said of an experiment.
struct Topic {
    experiment: &'static str,
    /// What is done: "Many rows at once".
    what: &'static str,
    /// What to do where ours is better.
    do_this: &'static str,
    /// What its rows are called.
    rows: &'static str,
    /// What people begin with.
    default: &'static str,
}

/// Rows that come in order.
pub(super) fn many_rows(run: &Run<'_>) -> Option<Advice> {
    of(
        run,
        &Topic {
            experiment: "ladder",
            what: "Many rows at once",
            do_this: "load them with `leafpress load` or a `Loader`",
            rows: "rows",
            default: DEFAULT,
        },
    )
}

/// Rows whose keys are in no order.
pub(super) fn random_keys(run: &Run<'_>) -> Option<Advice> {
    let topic = Topic {
        experiment: "presort",
        what: "Rows with random keys",
        do_this: "let a `Loader` sort them",
        rows: "rows",
        default: "plain SQLite as they come",
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
            rows: "changed rows",
            default: DEFAULT,
        },
    )
}

/// A CSV file: said only where the rows of "ladder" do not say it already.
pub(super) fn files(run: &Run<'_>) -> Option<Advice> {
    if run.chart("ladder").is_some() {
        return None;
    }
    let ratio = run.ratio("csv_vs_sql")?;
    let rung = |name: &str| run.report.rungs.iter().find(|rung| rung.name == name);
    let ours = rung("csv, leafpress, types detected")?;
    let sql = rung("csv, SQL, types known, one row a statement")?;
    let (ours_s, sql_s) = (taken(ours), taken(sql));
    let found = match run.outcome(ratio) {
        Outcome::Better => advice(
            "load",
            "CSV files: load them with `leafpress load`",
            format!(
                "{}, {} rows take {ours_s}, synced, and tuned SQL that is told the types and \
                 syncs nothing takes {sql_s} ({}).",
                run.here(),
                words::count(ours.rows.unwrap_or(0)),
                words::times(ratio.value)
            ),
        ),
        outcome => advice(
            "load",
            "CSV files: tuned SQL is as fast here, but not as safe",
            format!(
                "{}, ours takes {ours_s}, synced, and tuned SQL that syncs nothing takes \
                 {sql_s}{}.",
                run.here(),
                if outcome == Outcome::Same {
                    format!("; {}", run.as_fast())
                } else {
                    String::new()
                }
            ),
        ),
    };
    Some(beside(found, ratio, "tuned SQL that syncs nothing"))
}

fn of(run: &Run<'_>, topic: &Topic) -> Option<Advice> {
    let chart = run.chart(topic.experiment)?;
    let (ours, default) = (chart.our_rung()?, chart.default_rung()?);
    let ratio_name = |rest: &str| format!("{}_{rest}", topic.experiment.replace('-', "_"));
    let over_default = run.compared(&ratio_name("vs_default"), ours, default)?;
    let best = chart.best_other().filter(|_| ours.safety.keeps_all());
    let do_this =
        |text| advice(topic.experiment, format!("{}: {}", topic.what, topic.do_this), text);
    let text = beside_default(run, topic, ours, default, over_default.value);
    let found = if let Some(best) = best {
        let equal = run.compared(&ratio_name("vs_equal"), ours, best)?;
        match run.outcome(equal) {
            Outcome::Better => do_this(format!(
                "{text} The best other way that is as safe, {}, takes {} ({}).",
                quoted(best),
                taken(best),
                words::times(equal.value)
            )),
            outcome => not_better(run, topic, outcome, (ours, best, 1.0 / equal.value)),
        }
    } else {
        do_this(text)
    };
    Some(beside(found, over_default, topic.default))
}

/// Ours beside what people begin with. Behind the rows, so that "of them" is clear.
fn beside_default(run: &Run<'_>, topic: &Topic, ours: &Rung, default: &Rung, times: f64) -> String {
    format!(
        "{}, {} {} take {} instead of {} by {} ({}), {}.",
        run.here(),
        words::count(ours.rows.unwrap_or(0)),
        topic.rows,
        taken(ours),
        taken(default),
        topic.default,
        words::times(times),
        and_loses(ours)
    )
}

/// Plain SQLite is as fast, or faster.
fn not_better(
    run: &Run<'_>,
    topic: &Topic,
    outcome: Outcome,
    (ours, best, times): (&Rung, &Rung, f64),
) -> Advice {
    let name = quoted(best);
    let (how, why) = match outcome {
        Outcome::Same => ("is as fast here".to_owned(), format!(": {}", run.as_fast())),
        _ => (format!("is {} here", times_faster(times)), String::new()),
    };
    advice(
        topic.experiment,
        format!("{}: plain SQLite with {name} {how}", topic.what),
        format!(
            "{}, {} {} take {} that way and {} by ours, {}{why}. Both lose nothing in a power \
             cut.",
            run.here(),
            words::count(ours.rows.unwrap_or(0)),
            topic.rows,
            taken(best),
            taken(ours),
            quoted(ours)
        ),
    )
}

/// That each batch takes longer than the one before, where that is so.
fn slowing_down(chart: &Chart<'_>) -> Option<String> {
    const SLOWER_TIMES: f64 = 1.5;
    let ends = |rung: &Rung| Some((*rung.batches_s.first()?, *rung.batches_s.last()?));
    let (first_s, last_s) = ends(chart.default_rung()?)?;
    let (our_first_s, our_last_s) = ends(chart.our_rung()?)?;
    (last_s > first_s * SLOWER_TIMES).then(|| {
        format!(
            " As they come, the first batch takes {} and the last {}, as the table has grown; ours \
             take {} and {}.",
            words::time(first_s),
            words::time(last_s),
            words::time(our_first_s),
            words::time(our_last_s)
        )
    })
}
