//! The step from the transactions' effects to the report.
//!
//! Must never: read the disk. The owners of pages were looked up before.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::Duration;

use leafpress::counted;
use leafpress::script::Statement;

use super::causes::{Cause, Finding};
use super::diagnose::{Case, causes_around, causes_in_pages};
use super::owners::Schemas;
use super::report::{Calls, Commits, HowCommitted, Shape, Transaction};
use super::run::Done;

const SHOWN_CHARACTERS_MAX: usize = 120;
/// Number of statements of a transaction that are searched for names.
const STATEMENTS_SEARCHED_MAX: usize = 100;

/// A transaction and why it was as it was.
struct Judged<'a> {
    done: &'a Done,
    findings: Vec<usize>,
}

/// The parts of a report that follow from the transactions: all but the settings and the sums.
pub(super) struct Collected {
    pub commits: Commits,
    pub transactions: Vec<Transaction>,
    pub transactions_left_out: u64,
    pub shapes: Vec<Shape>,
    pub findings: Vec<Finding>,
    pub summary: Vec<String>,
}

/// Judges all transactions of all rounds, and lists up to `listed_max` of a round.
pub(super) fn collect(
    statements: &[Statement],
    rounds: &[Vec<Done>],
    schemas: &Schemas,
    listed_max: usize,
) -> Collected {
    let mut commits = Commits::default();
    let causes: Vec<Vec<Vec<Cause>>> = rounds
        .iter()
        .map(|round| {
            round.iter().map(|done| judge(done, statements, schemas, &mut commits)).collect()
        })
        .collect();
    let (findings, places) = count_findings(causes.iter().flatten(), commits.writes());
    let judged: Vec<Vec<Judged<'_>>> = rounds
        .iter()
        .zip(&causes)
        .map(|(round, causes)| {
            let findings_of = |it: &Vec<Cause>| it.iter().map(|cause| places[cause]).collect();
            round
                .iter()
                .zip(causes)
                .map(|(done, causes)| Judged { done, findings: findings_of(causes) })
                .collect()
        })
        .collect();
    let in_a_round = judged.first().map_or(0, Vec::len);
    let listed = in_a_round.min(listed_max);
    Collected {
        commits,
        transactions: (0..listed).map(|at| typical(&judged, at, statements)).collect(),
        transactions_left_out: (in_a_round - listed) as u64,
        shapes: shapes(&judged, statements),
        summary: summary(&commits, &judged),
        findings,
    }
}

fn judge(
    done: &Done,
    statements: &[Statement],
    schemas: &Schemas,
    commits: &mut Commits,
) -> Vec<Cause> {
    let sql = || {
        let own = &statements[done.first..=done.last];
        let searched = own.iter().take(STATEMENTS_SEARCHED_MAX).map(|it| &*it.sql);
        searched.collect::<Vec<_>>().join(";\n")
    };
    let case = Case {
        how: done.how,
        changes: &done.changes,
        writes: &done.writes,
        state: &done.state,
        sql: &sql,
    };
    let mut causes = BTreeSet::new();
    let mut is_of_one_page = done.how == HowCommitted::InPlace;
    if done.how.is_write() && !is_of_one_page {
        causes = causes_in_pages(&case, schemas);
        let pages: u32 = done.changes.iter().map(|it| it.pages).sum();
        is_of_one_page = causes.is_empty() && pages == 1;
        causes.extend(causes_around(&case, is_of_one_page));
        if causes.len() > 1 {
            causes.remove(&Cause::Unknown);
        }
    }
    commits.count(done.how, is_of_one_page);
    // There may be very many, and a set takes ten times as much.
    causes.into_iter().collect()
}

/// The findings, the most frequent first, and where each cause stands among them.
fn count_findings<'a>(
    causes: impl Iterator<Item = &'a Vec<Cause>>,
    writes: u64,
) -> (Vec<Finding>, HashMap<Cause, usize>) {
    let mut counts: BTreeMap<&Cause, u64> = BTreeMap::new();
    for cause in causes.flatten() {
        *counts.entry(cause).or_default() += 1;
    }
    let mut counts: Vec<_> = counts.into_iter().collect();
    // Stable: those as frequent stay in the order of the causes.
    counts.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    let findings = counts.iter().map(|(cause, count)| cause.finding(*count, writes)).collect();
    let places = counts.iter().enumerate().map(|(at, (cause, _))| ((*cause).clone(), at)).collect();
    (findings, places)
}

/// The properties in which like transactions are equal.
type Key = (HowCommitted, Calls, Vec<usize>);

fn key(judged: &Judged<'_>) -> Key {
    (judged.done.how, judged.done.calls, judged.findings.clone())
}

/// The transaction with this number, as most rounds have it.
fn typical(rounds: &[Vec<Judged<'_>>], at: usize, statements: &[Statement]) -> Transaction {
    let all: Vec<&Judged<'_>> = rounds.iter().filter_map(|round| round.get(at)).collect();
    let mut counts: HashMap<Key, u32> = HashMap::new();
    for judged in &all {
        *counts.entry(key(judged)).or_default() += 1;
    }
    // The earlier round wins among those as frequent, so that a report can be repeated.
    let mut usual = all[0];
    for judged in &all {
        if counts[&key(judged)] > counts[&key(usual)] {
            usual = judged;
        }
    }
    let usual_key = key(usual);
    let others = all.iter().filter(|it| key(it) != usual_key);
    let found: BTreeSet<usize> = others.clone().flat_map(|it| it.findings.clone()).collect();
    let done = usual.done;
    let own = &statements[done.first..=done.last];
    Transaction {
        number: at as u64 + 1,
        source: own[0].source.to_string(),
        line: own[0].line,
        statement: shown(own),
        statements: own.len() as u64,
        rows: done.rows,
        how: done.how,
        pages_changed: pages_of(done),
        calls: done.calls,
        bytes_written: done.bytes_written,
        time: Duration::from_nanos(median(all.iter().map(|it| it.done.time_ns))),
        findings: usual.findings.clone(),
        rounds_that_differ: others.count() as u32,
        findings_that_differ: found.into_iter().filter(|it| !usual.findings.contains(it)).collect(),
    }
}

fn shapes(rounds: &[Vec<Judged<'_>>], statements: &[Statement]) -> Vec<Shape> {
    let mut groups: HashMap<Key, Vec<(usize, &Done)>> = HashMap::new();
    for round in rounds {
        for (at, judged) in round.iter().enumerate() {
            groups.entry(key(judged)).or_default().push((at, judged.done));
        }
    }
    let mut shapes: Vec<Shape> = groups
        .into_iter()
        .map(|((how, calls, findings), members)| {
            let (first, done) = members.iter().min_by_key(|(at, _)| *at).expect("a group has one");
            let median = |of: fn(&Done) -> u64| median(members.iter().map(|(_, done)| of(done)));
            Shape {
                transactions: members.len() as u64,
                first: *first as u64 + 1,
                statement: shown(&statements[done.first..=done.last]),
                how,
                calls,
                bytes_written: median(|it| it.bytes_written),
                pages_changed: median(pages_of),
                time: Duration::from_nanos(median(|it| it.time_ns)),
                findings,
            }
        })
        .collect();
    shapes.sort_by_key(|it| (std::cmp::Reverse(it.transactions), it.first));
    shapes
}

fn pages_of(done: &Done) -> u64 {
    done.changes.iter().map(|it| u64::from(it.pages)).sum()
}

/// The median; of two middle values the smaller.
fn median(numbers: impl Iterator<Item = u64>) -> u64 {
    let mut numbers: Vec<_> = numbers.collect();
    numbers.sort_unstable();
    numbers.get(numbers.len().saturating_sub(1) / 2).copied().unwrap_or(0)
}

/// The first statement that does something, in one line.
fn shown(statements: &[Statement]) -> String {
    let is_frame = |it: &&Statement| {
        let word: String = it.sql.chars().take_while(char::is_ascii_alphabetic).collect();
        ["begin", "savepoint"].iter().any(|frame| word.eq_ignore_ascii_case(frame))
    };
    let statement = statements.iter().find(|it| !is_frame(it)).unwrap_or(&statements[0]);
    let words: Vec<&str> = statement.sql.split_whitespace().collect();
    let line = words.join(" ");
    match line.char_indices().nth(SHOWN_CHARACTERS_MAX) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line,
    }
}

fn summary(commits: &Commits, rounds: &[Vec<Judged<'_>>]) -> Vec<String> {
    let all = || rounds.iter().flatten().map(|it| it.done);
    let total = all().count() as u64;
    let mut lines = Vec::new();
    for (how, count, does) in [
        (HowCommitted::InPlace, commits.in_place, "changed one page in place"),
        (HowCommitted::Journal, commits.journal, "used a rollback journal"),
        (HowCommitted::SuperJournal, commits.super_journal, "used journals and a super-journal"),
        (HowCommitted::Log, commits.log, "went to the write-ahead log"),
        (HowCommitted::Unprotected, commits.unprotected, "had no journal on disk"),
        (HowCommitted::Checkpoint, commits.checkpoint, "copied the log into the database"),
        (HowCommitted::ReadOnly, commits.read_only, "read only"),
        (HowCommitted::NoCalls, commits.no_calls, "needed nothing of the disk"),
        (HowCommitted::RolledBack, commits.rolled_back, "was undone"),
    ] {
        if count == 0 {
            continue;
        }
        let does = if count > 1 { does.replace("was ", "were ") } else { does.to_owned() };
        let of_these = || all().filter(|it| it.how == how).map(|it| it.calls);
        let usual = |of: fn(&Calls) -> u64| median(of_these().map(|it| of(&it)));
        let (writes, syncs) = (usual(Calls::writes), usual(|it| it.sync + it.folder_sync));
        let cost = if how.is_write() {
            let each = if count > 1 { ", as a rule" } else { "" };
            format!(
                " ({}, {}{each})",
                counted(writes, "write", "writes"),
                counted(syncs, "sync", "syncs")
            )
        } else {
            String::new()
        };
        let transactions = counted(total, "transaction", "transactions");
        lines.push(format!("{count} of {transactions} {does}{cost}"));
    }
    let waiting = commits.of_one_page - commits.in_place.min(commits.of_one_page);
    if waiting > 0 {
        let more = if commits.in_place > 0 { " more" } else { " of those that wrote" };
        lines.push(format!(
            "{waiting}{more} changed a single page: under profile rollback, on a disk that writes \
             pages whole, that is one write and one sync (two writes with shared locking)"
        ));
    }
    lines
}
