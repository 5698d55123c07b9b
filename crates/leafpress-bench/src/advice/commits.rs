//! What is said of transactions of many callers, of checkpoints, of jobs and of single
//! commits: experiments whose rungs and ratios have names of their own.
//!
//! Must never: give a rate without what stands behind it.

use super::{Outcome, Run, advice, beside, times_faster};
use crate::report::{Advice, Latency, Ratio, Rung};
use crate::words;

/// Many threads, each with transactions of its own.
pub(super) fn many_callers(run: &Run<'_>) -> Option<Advice> {
    const SAME_SETTINGS: &str = "plain SQLite with the same settings";
    let ratio = run.ratio("blocking64")?;
    let ours = rung(run, "durable, leafpress, 64 blocking")?;
    let sql = rung(run, "durable, SQL, one commit a call")?;
    let rates = format!(
        "64 callers of one `Writer` make {} transactions a second, each answered when it is on the \
         disk, and plain SQLite with the same settings {}",
        words::rate(ours.per_second),
        words::rate(sql.per_second)
    );
    let headline = match run.outcome(ratio) {
        Outcome::Better => "Many small transactions: let all threads share one `Writer`",
        Outcome::Same => "Many small transactions: plain SQLite is as fast here",
        Outcome::Worse => "Many small transactions: plain SQLite is faster here",
    };
    let alone = run.ratio("alone").map(|alone| match run.outcome(alone) {
        Outcome::Better => {
            format!(" One caller alone is {} too.", times_faster(alone.value))
        }
        Outcome::Same => " One caller alone gains nothing from it.".to_owned(),
        Outcome::Worse => format!(
            " One caller alone gains nothing from it: plain SQLite is {}.",
            times_faster(1.0 / alone.value)
        ),
    });
    let times = words::times(ratio.value);
    let text = format!("{}, {rates} ({times}).{}", run.here(), alone.unwrap_or_default());
    Some(beside(advice("writer", headline, text), ratio, SAME_SETTINGS))
}

/// The slowest commits.
pub(super) fn checkpoints(run: &Run<'_>) -> Option<Advice> {
    let ratio = run.ratio("p999_commit")?;
    let worst = run.ratio("worst_commit");
    let ours = latency(run, "commits, leafpress, 1 blocking")?;
    let sql = latency(run, "commits, SQL, autocheckpoint")?;
    let headline = match run.outcome(ratio) {
        Outcome::Better => "Checkpoints: leave them to the `Writer`",
        Outcome::Same => "Checkpoints: SQLite's own are as good here",
        Outcome::Worse => "Checkpoints: SQLite's own are better here",
    };
    let slow = run.ratio("p999_commit_slow").filter(|it| run.outcome(*it) == Outcome::Worse);
    let slow = slow.map(|slow| {
        format!(
            " Where each sync takes 20 ms longer, SQLite's own are {} better.",
            words::times(1.0 / slow.value)
        )
    });
    let text = format!(
        "{}, 999 of 1,000 commits take at most {}, and {} where the commits make the checkpoints \
         themselves ({}).{}{}",
        run.here(),
        words::time(ours.p999 / 1e6),
        words::time(sql.p999 / 1e6),
        words::times(ratio.value),
        worst.map(|worst| slowest(run, worst, ours, sql)).unwrap_or_default(),
        slow.unwrap_or_default()
    );
    Some(beside(advice("checkpoint", headline, text), ratio, "SQLite's own checkpoints"))
}

/// The slowest commit of all; `worst` is how many times better ours is.
fn slowest(run: &Run<'_>, worst: Ratio, ours: Latency, sql: Latency) -> String {
    let (ours, sql) = (words::time(ours.max / 1e6), words::time(sql.max / 1e6));
    match run.outcome(worst) {
        Outcome::Better => format!(" The slowest commit took {ours} instead of {sql}."),
        Outcome::Same => format!(" The slowest commit took about the same, {ours} and {sql}."),
        Outcome::Worse => {
            format!(" But the slowest commit of all is ours: {ours}, where SQLite's took {sql}.")
        }
    }
}

/// Jobs of a queue.
pub(super) fn jobs(run: &Run<'_>) -> Option<Advice> {
    // The tour has the mutex only, which is the better one nearly always.
    let ratio = run.ratio("cycle64").or_else(|| run.ratio("cycle64_vs_mutex"))?;
    let ours = rung(run, "durable, leafpress, 64 × cycle")?;
    let rivals = ["durable, SQL, mutex, 64 × cycle", "durable, SQL, locking, 64 × cycle"];
    let rivals = rivals.iter().filter_map(|name| rung(run, name));
    let best = rivals.max_by(|one, other| one.per_second.total_cmp(&other.per_second))?;
    let headline = match run.outcome(ratio) {
        Outcome::Better => "Jobs: keep them in a `Queue`",
        Outcome::Same => "Jobs: a table by hand is as fast here",
        Outcome::Worse => "Jobs: a table by hand is faster here",
    };
    let mut text = format!(
        "{}, 64 clients push, claim and acknowledge {} jobs a second with a `Queue`, and {} with a \
         table by hand at its best ({}).",
        run.here(),
        words::rate(ours.per_second),
        words::rate(best.per_second),
        words::times(ratio.value)
    );
    let behind = [
        ("cycle1", "One client alone"),
        ("cycle64_batch100", "In batches of 100"),
        ("cycle64_batch100_vs_mutex", "In batches of 100"),
    ];
    // The second is of the better rival, the third of one of them.
    let has_better = run.ratio("cycle64_batch100").is_some();
    let behind = behind.iter().filter(|(name, _)| !(has_better && name.ends_with("_vs_mutex")));
    let behind = behind.filter_map(|(name, who)| {
        let ratio = run.ratio(name).filter(|it| run.outcome(*it) == Outcome::Worse)?;
        Some(format!(" {who}, the table by hand is {}.", times_faster(1.0 / ratio.value)))
    });
    text.extend(behind);
    Some(beside(advice("queue", headline, text), ratio, "a queue's table by hand"))
}

/// One transaction after the other under a rollback journal.
pub(super) fn single(run: &Run<'_>) -> Option<Advice> {
    const NAMES: [&str; 2] = ["atomic_vs_journal_shared", "atomic_vs_journal_exclusive"];
    let journal = NAMES.iter().find_map(|name| run.ratio(name));
    let Some(journal) = journal else {
        let reason = NAMES.iter().find_map(|name| run.report.unavailable.get(*name))?;
        return Some(advice(
            "atomic",
            "Single commits: nothing to gain from atomic writes here",
            format!(
                "{}, the profile rollback writes a journal as SQLite does: {reason}.",
                run.here()
            ),
        ));
    };
    let wal = run.ratio("atomic_vs_wal_shared").or_else(|| run.ratio("atomic_vs_wal_exclusive"));
    let wal_is_faster = wal.filter(|wal| run.outcome(*wal) == Outcome::Worse);
    let wal_text = wal_is_faster.map(|wal| {
        format!(
            " A write-ahead log, as under the profile durable, is {} than that, where one can be \
             had.",
            times_faster(1.0 / wal.value)
        )
    });
    let headline = match run.outcome(journal) {
        Outcome::Better => "Single commits in one file: the profile rollback",
        Outcome::Same => "Single commits in one file: a journal of SQLite's is as fast here",
        Outcome::Worse => "Single commits in one file: a journal of SQLite's is faster here",
    };
    let text = format!(
        "{}, a one-row transaction that writes its page whole is {} as fast as one with a journal \
         that is as safe.{}",
        run.here(),
        words::times(journal.value),
        wal_text.unwrap_or_default()
    );
    Some(beside(advice("atomic", headline, text), journal, "a rollback journal that is as safe"))
}

fn rung<'r>(run: &Run<'r>, name: &str) -> Option<&'r Rung> {
    run.report.rungs.iter().find(|rung| rung.name == name)
}

fn latency(run: &Run<'_>, name: &str) -> Option<Latency> {
    rung(run, name)?.latency_us
}
