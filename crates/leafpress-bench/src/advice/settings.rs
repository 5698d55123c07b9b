//! Which profile this disk is for, and which settings of SQLite are the best for who
//! wants no library.
//!
//! The profile is the verdict of `leafpress storage`, which knows the file system; the
//! figures say what it is worth.
//!
//! Must never: name a profile with the speed of another one.

use leafpress::Profile;

use super::{DEFAULT, Run, advice, and_loses, beside, quoted, taken};
use crate::charts::Chart;
use crate::report::{Advice, Ratio, Rung, Safety};
use crate::words;

/// The experiments in which one transaction follows another, the clearest first.
const OF_TRANSACTIONS: [&str; 2] = ["queue-inserts", "cycles"];

/// The headline of all.
pub(super) fn profile(run: &Run<'_>) -> Option<Advice> {
    let verdict = run.report.storage.as_ref().map(|storage| &storage["verdict"]);
    let named = verdict.and_then(|it| it["profile"].as_str()?.parse::<Profile>().ok());
    let profile = named.unwrap_or_default();
    let worth = worth(run, profile);
    // Without a verdict and without figures there is nothing to say.
    if named.is_none() && worth.is_none() {
        return None;
    }
    let reason = verdict.and_then(|it| it["why"][0].as_str());
    let reason = reason.map(|it| format!("Why this profile: {it}.")).unwrap_or_default();
    let loses = match profile.may_lose() {
        "nothing" => "loses nothing".to_owned(),
        something => format!("may lose {something}"),
    };
    let what = format!("{}: use the profile {profile}; it", run.here());
    Some(match worth {
        Some(Worth { experiment, times, what_is, text }) if times.value > run.noise_times => {
            let faster = format!("is {} times faster than {what_is}", words::ratio(times.value));
            let text = format!("{text} {reason}");
            let found = advice(experiment, format!("{what} {faster} and {loses}"), text.trim_end());
            beside(found, times, what_is)
        }
        Some(Worth { experiment, text, .. }) => {
            advice(experiment, format!("{what} {loses}"), format!("{text} {reason}").trim_end())
        }
        None => advice("storage", format!("{what} {loses}"), reason),
    })
}

/// What a profile is worth in figures.
struct Worth {
    experiment: &'static str,
    times: Ratio,
    what_is: &'static str,
    text: String,
}

fn worth(run: &Run<'_>, profile: Profile) -> Option<Worth> {
    OF_TRANSACTIONS
        .iter()
        .find_map(|experiment| worth_of(run, experiment, profile))
        .or_else(|| worth_of_many_callers(run, profile))
}

/// Ours under this profile beside the default.
fn worth_of(run: &Run<'_>, experiment: &'static str, profile: Profile) -> Option<Worth> {
    let chart = run.chart(experiment)?;
    let default = chart.default_rung()?;
    let under = chart.rungs.iter().filter(|it| it.is_ours && it.safety.profile() == profile);
    let ours = under.max_by(|one, other| one.per_second.total_cmp(&other.per_second))?;
    // The report's own ratio is that of the last of ours.
    let is_last = chart.our_rung().is_some_and(|last| last.name == ours.name);
    let name = if is_last {
        format!("{}_vs_default", experiment.replace('-', "_"))
    } else {
        String::new()
    };
    let times = run.compared(&name, ours, default)?;
    let text = format!(
        "{} rows in small transactions take {} by {}, and {} by SQLite's default.",
        words::count(ours.rows.unwrap_or(0)),
        taken(ours),
        quoted(ours),
        taken(default)
    );
    Some(Worth { experiment, times, what_is: "the default", text })
}

/// Many callers of a Writer beside one connection with the same settings.
fn worth_of_many_callers(run: &Run<'_>, profile: Profile) -> Option<Worth> {
    let prefix = if profile == Profile::Durable { String::new() } else { format!("{profile}_") };
    let times = run.ratio(&format!("{prefix}blocking64"))?;
    let text = format!(
        "64 callers of one Writer make {} as many transactions as one connection of plain SQLite \
         with the same settings.",
        words::times(times.value)
    );
    let what_is = "plain SQLite with the same settings";
    Some(Worth { experiment: "writer", times, what_is, text })
}

/// The best that pragmas alone can do without losing anything.
pub(super) fn by_hand(run: &Run<'_>) -> Option<Advice> {
    let charts = OF_TRANSACTIONS.iter().chain(&["ladder"]);
    let mut charts = charts.filter_map(|name| run.chart(name));
    charts.find_map(|chart| by_hand_in(run, chart))
}

fn by_hand_in(run: &Run<'_>, chart: &Chart<'_>) -> Option<Advice> {
    let (default, best) = (chart.default_rung()?, chart.best_other()?);
    let times = Ratio::exactly(best.per_second / default.per_second);
    let is_better = times.value > run.noise_times;
    let headline = if is_better {
        format!("Without a library: {}", quoted(best))
    } else {
        "Without a library: no settings that lose nothing are faster than the default".to_owned()
    };
    let rows = words::count(best.rows.unwrap_or(0));
    let mut text = format!(
        "The fastest settings of plain SQLite that lose nothing in a power cut: {rows} rows take \
         {} with {} and {} by default ({}).",
        taken(best),
        quoted(best),
        taken(default),
        words::times(times.value)
    );
    text += &cheaper(run, chart, best).unwrap_or_default();
    let found = advice(chart.experiment, headline, text);
    Some(if is_better { beside(found, times, DEFAULT) } else { found })
}

/// What is faster at a price that can be paid.
fn cheaper(run: &Run<'_>, chart: &Chart<'_>, best: &Rung) -> Option<String> {
    let relaxed = chart.rungs.iter().filter(|rung| !rung.is_ours && rung.safety == Safety::Relaxed);
    let fastest = relaxed.max_by(|one, other| one.per_second.total_cmp(&other.per_second))?;
    (fastest.per_second > best.per_second * run.noise_times)
        .then(|| format!(" {} takes {}, {}.", quoted(fastest), taken(fastest), and_loses(fastest)))
}
