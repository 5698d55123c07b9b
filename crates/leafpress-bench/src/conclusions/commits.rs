//! Advice on transactions of many threads, of checkpoints, of jobs and of single
//! commits: experiments whose rungs and ratios have names of their own.
//!
//! Must never: give a multiple without the two figures that make it before it.

use super::multiple::{Figure, faster, shorter};
use super::run::{Outcome, Run};
use super::wording::{advice, beside};
use crate::report::{Advice, Rung};

/// Many threads, each with transactions of its own.
pub(super) fn many_threads(run: &Run<'_>) -> Option<Advice> {
    let ours = run.rung("durable, leafpress, 64 blocking")?;
    let one_connection = run.rung("durable, SQL, one commit a call")?;
    // As many threads, where that was measured.
    let mutex = run.rung("durable, SQL, mutex, 64 blocking");
    let (ratio, other) = match mutex {
        Some(mutex) => ("blocking64_vs_mutex", mutex),
        None => ("blocking64", one_connection),
    };
    let (who, what) = if mutex.is_some() {
        (
            "as many threads that take turns at one connection of plain SQLite",
            "64 threads of plain SQLite",
        )
    } else {
        ("one thread with plain SQLite", "one thread of plain SQLite (64 of ours)")
    };
    let times = run.compared(ratio, Figure::Rate, ours, other)?;
    let outcome = run.outcome(times);
    let headline = match outcome {
        Outcome::Better => "Many small transactions: let all threads share one `Writer`",
        Outcome::Same => "Many small transactions: plain SQLite is as fast here",
        Outcome::Unsure => "Many small transactions: no sure difference from plain SQLite",
        Outcome::Worse => "Many small transactions: plain SQLite is faster here",
    };
    let mut text = format!(
        "{}, 64 threads that share one `Writer`, a connection that puts into one commit what waits \
         at the time, make transactions, each answered when it is on the disk: {}, and {who}, with \
         the same settings, {} ({}).{}",
        run.here(),
        Figure::Rate.in_words(ours),
        Figure::Rate.in_words(other),
        faster(times),
        run.why_no_difference(outcome)
    );
    text += &one_thread(run, one_connection).unwrap_or_default();
    Some(beside(advice("writer", headline, text), times, what))
}

/// A sentence on one thread with a Writer, beside one without.
fn one_thread(run: &Run<'_>, plain: &Rung) -> Option<String> {
    let ours = run.rung("durable, leafpress, 1 blocking")?;
    let times = run.compared("alone", Figure::Rate, ours, plain)?;
    let gains = match run.outcome(times) {
        Outcome::Better => "gains from it too",
        Outcome::Same => "gains nothing from it",
        Outcome::Unsure => "does not surely differ",
        Outcome::Worse => "loses by it",
    };
    Some(format!(
        " One thread alone {gains}: {} with a `Writer`, {} without ({}).",
        Figure::Rate.in_words(ours),
        Figure::Rate.in_words(plain),
        faster(times)
    ))
}

/// The slowest commits.
pub(super) fn checkpoints(run: &Run<'_>) -> Option<Advice> {
    let ours = run.rung("commits, leafpress, 1 blocking")?;
    let sql = run.rung("commits, SQL, autocheckpoint")?;
    let times = run.compared("p999_commit", Figure::P999, ours, sql)?;
    let outcome = run.outcome(times);
    let headline = match outcome {
        Outcome::Better => "Checkpoints: leave them to the `Writer`",
        Outcome::Same => "Checkpoints: SQLite's own are as good here",
        Outcome::Unsure => "Checkpoints: no sure difference from SQLite's own",
        Outcome::Worse => "Checkpoints: SQLite's own are better here",
    };
    let text = format!(
        "A checkpoint copies the write-ahead log into the database; a `Writer` makes it beside the \
         commits, SQLite in one of them. {}, 999 of 1,000 commits take at most {} with a `Writer`, \
         and {} with SQLite's own checkpoints ({}).{}{}{}",
        run.here(),
        Figure::P999.in_words(ours),
        Figure::P999.in_words(sql),
        shorter(times),
        run.why_no_difference(outcome),
        slowest(run, ours, sql).unwrap_or_default(),
        slow_syncs(run).unwrap_or_default()
    );
    Some(beside(advice("checkpoint", headline, text), times, "SQLite's own checkpoints"))
}

/// The slowest commit of all.
fn slowest(run: &Run<'_>, ours: &Rung, sql: &Rung) -> Option<String> {
    let times = run.compared("worst_commit", Figure::Slowest, ours, sql)?;
    let outcome = run.outcome(times);
    let what = match outcome {
        Outcome::Same => "The slowest commit took about the same",
        _ if times.value > 1.0 => "The slowest commit of all was SQLite's",
        _ => "But the slowest commit of all was the `Writer`'s",
    };
    Some(format!(
        " {what}: {} with a `Writer`, {} without ({}).{}",
        Figure::Slowest.in_words(ours),
        Figure::Slowest.in_words(sql),
        shorter(times),
        if outcome == Outcome::Unsure { run.why_no_difference(outcome) } else { String::new() }
    ))
}

/// A sentence on slow syncs, where SQLite's own checkpoints are better with them.
fn slow_syncs(run: &Run<'_>) -> Option<String> {
    let ours = run.rung("slow syncs, leafpress, 1 blocking")?;
    let sql = run.rung("slow syncs, SQL, autocheckpoint")?;
    let times = run.compared("p999_commit_slow", Figure::P999, ours, sql)?;
    (times.value < 1.0).then(|| {
        format!(
            " Where each sync takes 20 ms longer, SQLite's own are better: {} with a `Writer`, {} \
             without ({}).{}",
            Figure::P999.in_words(ours),
            Figure::P999.in_words(sql),
            shorter(times),
            run.why_no_difference(run.outcome(times))
        )
    })
}

/// Jobs of a queue.
pub(super) fn jobs(run: &Run<'_>) -> Option<Advice> {
    let (ours, best) = cycle(run, "64 × cycle")?;
    // The tour has the mutex only, which is the better one nearly always.
    let name = if run.ratio("cycle64").is_some() { "cycle64" } else { "cycle64_vs_mutex" };
    let times = run.compared(name, Figure::Rate, ours, best)?;
    let outcome = run.outcome(times);
    let headline = match outcome {
        Outcome::Better => "Jobs: keep them in a `Queue`",
        Outcome::Same => "Jobs: a table by hand is as fast here",
        Outcome::Unsure => "Jobs: no sure difference from a table by hand",
        Outcome::Worse => "Jobs: a table by hand is faster here",
    };
    let mut text = format!(
        "{}, 64 threads push, claim and acknowledge jobs, {} with a `Queue`, Leafpress's queue in a \
         table, and {} with a table and SQL written by hand, at its best ({}).{}",
        run.here(),
        Figure::Rate.in_words(ours),
        Figure::Rate.in_words(best),
        faster(times),
        run.why_no_difference(outcome)
    );
    let others = [
        ("1 × cycle", "cycle1", "One thread alone"),
        ("64 × cycle of 100", "cycle64_batch100", "In batches of 100 jobs"),
    ];
    text.extend(others.iter().filter_map(|(rung, ratio, who)| behind(run, rung, ratio, who)));
    Some(beside(advice("queue", headline, text), times, "a queue's table by hand"))
}

/// The rung of ours and the best by hand.
fn cycle<'r>(run: &Run<'r>, name: &str) -> Option<(&'r Rung, &'r Rung)> {
    let ours = run.rung(&format!("durable, leafpress, {name}"))?;
    let by_hand = ["mutex", "locking"].into_iter();
    let by_hand = by_hand.filter_map(|how| run.rung(&format!("durable, SQL, {how}, {name}")));
    let best = by_hand.max_by(|one, other| one.per_second.total_cmp(&other.per_second))?;
    Some((ours, best))
}

/// A sentence on work at which a table by hand is faster, if only by as much as noise.
fn behind(run: &Run<'_>, rung: &str, ratio: &str, who: &str) -> Option<String> {
    let (ours, best) = cycle(run, rung)?;
    let vs_mutex = format!("{ratio}_vs_mutex");
    let ratio = if run.ratio(ratio).is_some() { ratio } else { &vs_mutex };
    let times = run.compared(ratio, Figure::Rate, ours, best)?;
    (times.value < 1.0).then(|| {
        format!(
            " {who}, the table by hand is faster: {} with a `Queue`, {} by hand ({}).{}",
            Figure::Rate.in_words(ours),
            Figure::Rate.in_words(best),
            faster(times),
            run.why_no_difference(run.outcome(times))
        )
    })
}

/// One transaction after the other under a rollback journal.
pub(super) fn single(run: &Run<'_>) -> Option<Advice> {
    const LOCKING: [&str; 2] = ["shared", "exclusive"];
    let found = LOCKING.iter().find_map(|locking| whole_pages(run, locking));
    found.or_else(|| {
        let names = LOCKING.map(|locking| format!("atomic_vs_journal_{locking}"));
        let reason = names.iter().find_map(|name| run.report.unavailable.get(name))?;
        let here = run.here();
        Some(advice(
            "atomic",
            "Single commits: nothing to gain from atomic writes here",
            format!("{here}, the profile rollback writes a journal as SQLite does: {reason}."),
        ))
    })
}

/// A page that is written whole, beside a journal and beside a write-ahead log.
fn whole_pages(run: &Run<'_>, locking: &str) -> Option<Advice> {
    let name = |rest: &str| format!("atomic_vs_{rest}_{locking}");
    run.ratio(&name("journal"))?;
    let rung = |who: &str| run.rung(&format!("update, {locking}, {who}"));
    let (ours, journal) = (rung("leafpress, atomic")?, rung("SQL, delete extra")?);
    let times = run.compared(&name("journal"), Figure::Rate, ours, journal)?;
    let outcome = run.outcome(times);
    let headline = match outcome {
        Outcome::Better => "Single commits in one file: the profile rollback",
        Outcome::Same => "Single commits in one file: a journal of SQLite's is as fast here",
        Outcome::Unsure => "Single commits in one file: no sure difference from SQLite's journal",
        Outcome::Worse => "Single commits in one file: a journal of SQLite's is faster here",
    };
    let mut text = format!(
        "{}, one thread changes one row a transaction, {} where its page is written whole and needs \
         no journal, as under the profile rollback, and {} with a rollback journal that is as safe \
         ({}).{}",
        run.here(),
        Figure::Rate.in_words(ours),
        Figure::Rate.in_words(journal),
        faster(times),
        run.why_no_difference(outcome)
    );
    let log = rung("SQL, wal full");
    let log = log.and_then(|log| {
        let times = run.compared(&name("wal"), Figure::Rate, ours, log)?;
        (times.value < 1.0).then(|| {
            format!(
                " A write-ahead log, as under the profile durable, is faster than that where one \
                 can be had: {} beside {} ({}).{}",
                Figure::Rate.in_words(ours),
                Figure::Rate.in_words(log),
                faster(times),
                run.why_no_difference(run.outcome(times))
            )
        })
    });
    text += &log.unwrap_or_default();
    Some(beside(advice("atomic", headline, text), times, "a rollback journal that is as safe"))
}
