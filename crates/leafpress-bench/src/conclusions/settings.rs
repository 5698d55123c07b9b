//! The profile for this disk, and the best settings of plain SQLite.
//!
//! The profile is the verdict of `leafpress storage`, which knows the file system; the
//! figures say what it is worth to one thread, beside one thread with SQLite's default.
//!
//! Must never: name a profile with the speed of another one, or compare a rung with one that
//! did other work or had more threads.

use leafpress::Profile;

use super::multiple::{Figure, faster};
use super::run::{Outcome, Run, may_lose};
use super::wording::{DEFAULT, advice, beside, label, named, quoted, taken, work_of};
use crate::charts::Chart;
use crate::numbers;
use crate::report::{Advice, Ratio, Rung, Safety};

/// The experiments in which one transaction follows another, the clearest first.
const OF_TRANSACTIONS: [&str; 2] = ["queue-inserts", "cycles"];

/// Ends of the names of ours in which one thread waits for each transaction.
const ONE_THREAD: [&str; 2] = ["Writer, 1 caller", "Writer, a call a statement"];

/// The headline of all.
pub(super) fn profile(run: &Run<'_>) -> Option<Advice> {
    let verdict = run.report.storage.as_ref().map(|storage| &storage["verdict"]);
    let named = verdict.and_then(|it| it["profile"].as_str()?.parse::<Profile>().ok());
    let profile = named.unwrap_or_default();
    let worth = OF_TRANSACTIONS.iter().find_map(|experiment| worth(run, experiment, profile));
    // Without a verdict and without figures there is nothing to say.
    if named.is_none() && worth.is_none() {
        return None;
    }
    let meaning = format!(
        "A profile is a set of SQLite's settings and the promise that they keep; {profile} is {} \
         with {}: {}.",
        profile.journal_mode(),
        profile.synchronous(),
        profile.promise()
    );
    let reason = verdict.and_then(|it| it["why"][0].as_str());
    let reason = reason.map(|it| format!(" Why this profile: {it}.")).unwrap_or_default();
    let loses = match profile.may_lose() {
        "nothing" => format!("loses nothing{}", run.if_it_syncs()),
        something => format!("may lose {something}"),
    };
    let what = format!("{}: use the profile {profile}; it", run.here());
    Some(match worth {
        Some(Worth { experiment, times, text }) if run.outcome(times) == Outcome::Better => {
            let faster = format!("is {} times faster than {DEFAULT}", numbers::ratio(times.value));
            let headline = format!("{what} {faster}, one thread each, and {loses}");
            let found = advice(experiment, headline, format!("{text} {meaning}{reason}"));
            beside(found, times, format!("{DEFAULT}, one thread each"))
        }
        Some(Worth { experiment, text, .. }) => {
            advice(experiment, format!("{what} {loses}"), format!("{text} {meaning}{reason}"))
        }
        None => advice("storage", format!("{what} {loses}"), format!("{meaning}{reason}")),
    })
}

/// The worth of a profile, in figures.
struct Worth {
    experiment: &'static str,
    times: Ratio,
    text: String,
}

/// One thread under this profile beside one thread with the default, a transaction at a time.
fn worth(run: &Run<'_>, experiment: &'static str, profile: Profile) -> Option<Worth> {
    let chart = run.chart(experiment)?;
    let default = chart.default_rung()?;
    let is_under = |rung: &Rung| rung.safety.profile() == profile && rung.name != default.name;
    let under = || chart.rungs.iter().copied().filter(|rung| is_under(rung));
    let ours = under().find(|rung| rung.is_ours && is_one_thread(rung));
    let plain = under().filter(|rung| !rung.is_ours && work_of(rung) == work_of(default));
    let one_thread = ours.or_else(|| fastest(plain))?;
    let times = run.compared("", Figure::Time, one_thread, default)?;
    let mut text = format!(
        "One thread puts in {} rows, each in its own transaction, in {} with {}, and in {} with \
         {DEFAULT} ({}).",
        numbers::count(one_thread.rows.unwrap_or(0)),
        taken(one_thread),
        quoted(one_thread),
        taken(default),
        faster(times)
    );
    let of_many = fastest(under().filter(|rung| rung.is_ours && !is_one_thread(rung)));
    let of_many = of_many.filter(|many| many.per_second > one_thread.per_second);
    let of_many = of_many.map(|many| format!(" By {} they take {}.", quoted(many), taken(many)));
    text += &of_many.unwrap_or_default();
    Some(Worth { experiment, times, text })
}

fn is_one_thread(rung: &Rung) -> bool {
    ONE_THREAD.iter().any(|end| label(rung).ends_with(end))
}

/// The best that pragmas alone can do without losing anything.
pub(super) fn by_hand(run: &Run<'_>) -> Option<Advice> {
    let charts = OF_TRANSACTIONS.iter().chain(&["ladder"]);
    let mut charts = charts.filter_map(|name| run.chart(name));
    charts.find_map(|chart| by_hand_in(run, chart))
}

fn by_hand_in(run: &Run<'_>, chart: &Chart<'_>) -> Option<Advice> {
    const NONE: &str =
        "Without a library: no settings that lose nothing are faster than the default";
    let default = chart.default_rung()?;
    let alike = chart.others();
    let alike: Vec<&Rung> = alike.filter(|rung| work_of(rung) == work_of(default)).collect();
    let of_safety = |keeps: fn(Safety) -> bool| {
        fastest(alike.iter().copied().filter(move |rung| keeps(rung.safety)))
    };
    let best = of_safety(Safety::keeps_all)?;
    let rows = numbers::count(best.rows.unwrap_or(0));
    if best.name == default.name {
        let text = format!("{rows} rows take {} with {}.", taken(default), quoted(default));
        return Some(advice(chart.experiment, NONE, text));
    }
    let times = run.compared("", Figure::Time, best, default)?;
    let is_better = run.outcome(times) == Outcome::Better;
    let headline =
        if is_better { format!("Without a library: {}", named(best)) } else { NONE.to_owned() };
    let mut text = format!(
        "The fastest settings of plain SQLite that lose nothing in a power cut{}: {rows} rows take \
         {} with {} and {} with {} ({}).",
        run.if_it_syncs(),
        taken(best),
        quoted(best),
        taken(default),
        quoted(default),
        faster(times)
    );
    let relaxed = of_safety(|safety| safety == Safety::Relaxed);
    let cheaper = relaxed.filter(|it| it.per_second > best.per_second * run.noise_times);
    let cheaper =
        cheaper.map(|it| format!(" {} takes {}, but {}.", quoted(it), taken(it), may_lose(it)));
    text += &cheaper.unwrap_or_default();
    let found = advice(chart.experiment, headline, text);
    Some(if is_better { beside(found, times, DEFAULT) } else { found })
}

fn fastest<'r>(rungs: impl Iterator<Item = &'r Rung>) -> Option<&'r Rung> {
    rungs.max_by(|one, other| one.per_second.total_cmp(&other.per_second))
}
