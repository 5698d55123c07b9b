//! The disk accesses of transactions, as tables and sentences.
//!
//! Must never: judge; the findings are those of [`crate::io_report`].

use std::time::Duration;

use leafpress::vfs::atomic::{AtomicProof, AtomicState};
use leafpress::vfs::count::IoStats;

use super::{INDENT, WIDTH, notes};
use crate::human;
use crate::io_report::{Calls, Finding, IoReport, RanOn, Shape, Transaction};
use crate::output::{FAINT, STRONG, styled};

/// Number of transactions up to which all are shown.
const SHOWN_MAX: usize = 20;
/// Number of transactions that are shown first if there are more; the others follow in groups.
const FIRST_SHOWN: usize = 5;
const GROUPS_SHOWN_MAX: usize = 12;

/// Report on the transactions of a script.
pub fn of_io(report: &IoReport) -> String {
    let mut text = headline(report);
    text += &transactions(report);
    text += &differences(report);
    text += &totals(report);
    text += &paragraph("what it was", &report.summary);
    text += &findings(&report.findings, report.in_force.profile.is_wal());
    if let Some(memory) = &report.memory {
        text += &format!("\n{}", indented(&memory.to_string()));
    }
    text += &warnings(report);
    text
}

fn headline(report: &IoReport) -> String {
    let where_it_ran = match report.ran_on {
        RanOn::Copy => "a copy of ",
        RanOn::Database => "",
    };
    let database = human::path(&report.database);
    let transactions = human::counted(report.transactions_total, "transaction", "transactions");
    let rounds = match report.rounds {
        1 => String::new(),
        rounds => format!(" in {} rounds", human::count(rounds.into())),
    };
    let in_force = &report.in_force;
    // A log takes all commits, whatever the disk can do.
    let pages = if in_force.profile.is_wal() {
        String::new()
    } else {
        format!("; {}", report.one_page_commits)
    };
    let settings = format!(
        "profile {}: {}, {}, locking {}{pages}",
        in_force.profile, in_force.journal_mode, in_force.synchronous, in_force.locking,
    );
    format!(
        "{} on {where_it_ran}{}{rounds}\n{INDENT}{}\n",
        styled(STRONG, &transactions),
        styled(STRONG, &database),
        human::wrapped(&human::printable(&settings), WIDTH - INDENT.len(), INDENT.len())
    )
}

/// A line of a table of calls.
struct Row<'a> {
    /// First two cells: number and line of a transaction, or size and first of a group.
    lead: [String; 2],
    how: &'static str,
    statement: &'a str,
    calls: Calls,
    bytes: u64,
    time: Duration,
}

fn transactions(report: &IoReport) -> String {
    let is_all = report.transactions_left_out == 0 && report.transactions.len() <= SHOWN_MAX;
    let shown = if is_all { SHOWN_MAX } else { FIRST_SHOWN };
    let rows: Vec<Row<'_>> = report.transactions.iter().take(shown).map(row_of).collect();
    let mut text = table(&["no", "line"], &rows);
    if is_all {
        return text;
    }
    let groups: Vec<Row<'_>> = report.shapes.iter().take(GROUPS_SHOWN_MAX).map(group_of).collect();
    text += &table(&["alike", "first"], &groups);
    let left_out = report.shapes.len() - groups.len();
    if left_out > 0 {
        let others = human::counted(left_out as u64, "other kind", "other kinds");
        text += &format!("{INDENT}… and {others}; --json lists all\n");
    }
    text
}

fn row_of(transaction: &Transaction) -> Row<'_> {
    Row {
        lead: [human::count(transaction.number), human::count(transaction.line)],
        how: transaction.how.short(),
        statement: &transaction.statement,
        calls: transaction.calls,
        bytes: transaction.bytes_written,
        time: transaction.time,
    }
}

fn group_of(shape: &Shape) -> Row<'_> {
    Row {
        lead: [human::count(shape.transactions), human::count(shape.first)],
        how: shape.how.short(),
        statement: &shape.statement,
        calls: shape.calls,
        bytes: shape.bytes_written,
        time: shape.time,
    }
}

/// A heading, and the number that stands below it.
type Column = (&'static str, fn(&Calls) -> u64);

const COLUMNS: [Column; 9] = [
    ("read", |it| it.read),
    ("page", |it| it.write_in_place),
    ("write", |it| it.write_database),
    ("journal", |it| it.write_journal),
    ("log", |it| it.write_log),
    ("temp", |it| it.write_temporary),
    ("sync", |it| it.sync),
    ("folder", |it| it.folder_sync),
    ("other", |it| it.other),
];

/// Calls of each row, in the columns that hold something; below each its kind and statement.
fn table(leads: &[&str], rows: &[Row<'_>]) -> String {
    let used = |(_, of): &&Column| rows.iter().any(|row| of(&row.calls) > 0);
    let columns: Vec<&Column> = COLUMNS.iter().filter(used).collect();
    let names = columns.iter().map(|(name, _)| *name);
    let head = leads.iter().copied().chain(names).chain(["written", "time"]);
    let mut lines: Vec<Vec<String>> = vec![head.map(str::to_owned).collect()];
    for row in rows {
        let mut line = row.lead.to_vec();
        line.extend(columns.iter().map(|(_, of)| human::count(of(&row.calls))));
        line.extend([human::bytes(row.bytes), microseconds(row.time)]);
        lines.push(line);
    }
    let widths: Vec<usize> = (0..lines[0].len())
        .map(|at| human::widest(lines.iter().map(|line| line[at].as_str())))
        .collect();
    let in_columns = |line: &[String]| -> String {
        let cells = line.iter().zip(&widths).map(|(cell, width)| human::right(cell, *width));
        cells.collect::<Vec<_>>().join("  ")
    };
    let indent: usize = INDENT.len() + widths[..leads.len()].iter().map(|it| it + 2).sum::<usize>();
    let mut text = format!("\n{INDENT}{}\n", styled(FAINT, &in_columns(&lines[0])));
    for (row, line) in rows.iter().zip(&lines[1..]) {
        let says = format!("{}: {}", row.how, row.statement);
        let says = human::cut(&says, WIDTH.saturating_sub(indent));
        text += &format!("{INDENT}{}\n", in_columns(line));
        text += &format!("{}{}\n", " ".repeat(indent), styled(FAINT, &says));
    }
    text
}

fn microseconds(time: Duration) -> String {
    match time.as_nanos() as f64 / 1e3 {
        us if us < 9.995 => format!("{us:.2} µs"),
        us if us < 999.5 => format!("{us:.0} µs"),
        _ => human::duration(time),
    }
}

/// Transactions whose calls were not alike in all rounds.
fn differences(report: &IoReport) -> String {
    let differ = report.transactions.iter().filter(|it| it.rounds_that_differ > 0);
    let lines: Vec<String> = differ
        .take(SHOWN_MAX)
        .map(|it| {
            let found = it.findings_that_differ.iter().filter_map(|at| report.findings.get(*at));
            let why: Vec<&str> = found.map(|it| it.why.as_str()).collect();
            let why = if why.is_empty() { "other calls".to_owned() } else { why.join("; ") };
            format!(
                "transaction {} differs in {} of {} rounds: {why}",
                human::count(it.number),
                human::count(it.rounds_that_differ.into()),
                human::count(report.rounds.into())
            )
        })
        .collect();
    paragraph("now and then", &lines)
}

fn totals(report: &IoReport) -> String {
    let mut text = format!("\n{}", indented(&report.io.to_string()));
    if let Some(checkpoint) = &report.checkpoint {
        let line = format!("the checkpoint that was due afterwards: {}", in_short(checkpoint));
        text +=
            &format!("\n{INDENT}{}\n", human::wrapped(&line, WIDTH - INDENT.len(), INDENT.len()));
    }
    text
}

fn in_short(io: &IoStats) -> String {
    let all = io.total();
    format!(
        "{}, {}, {}",
        human::counted(all.write.calls, "write", "writes"),
        human::bytes(all.write.bytes),
        human::counted(all.sync.calls, "sync", "syncs")
    )
}

/// A table of the library's, whose first line names the columns.
fn indented(table: &str) -> String {
    let line = |(at, line): (usize, &str)| {
        let line = line.trim_end();
        format!("{INDENT}{}\n", if at == 0 { styled(FAINT, line) } else { line.to_owned() })
    };
    table.lines().enumerate().map(line).collect()
}

/// Sentences below a heading; nothing where there are none.
fn paragraph(heading: &str, lines: &[String]) -> String {
    if lines.is_empty() {
        return String::new();
    }
    let mut text = format!("\n{INDENT}{}\n", styled(FAINT, heading));
    for line in lines {
        let line = human::wrapped(&human::printable(line), WIDTH - INDENT.len(), INDENT.len());
        text += &format!("{INDENT}{line}\n");
    }
    text
}

fn findings(findings: &[Finding], is_wal: bool) -> String {
    let lines: Vec<String> = findings
        .iter()
        .flat_map(|it| {
            let of = format!("{} of {}", human::count(it.transactions), human::count(it.of));
            let why = format!("{of}: {}", it.why);
            std::iter::once(why).chain(it.to_do.as_ref().map(|it| format!("to do: {it}")))
        })
        .collect();
    // In WAL mode nothing is wrong with commits that are more than a page.
    let heading =
        if is_wal { "what a one-page commit would need" } else { "why not one page in place" };
    paragraph(heading, &lines)
}

fn warnings(report: &IoReport) -> String {
    let assumed = AtomicProof::Assumed;
    let is_assumed =
        matches!(report.one_page_commits, AtomicState::Whole { by, .. } if by == assumed);
    let mut lines = Vec::new();
    if is_assumed {
        lines.push(
            "that pages are written whole was assumed, not proven: without it, a power cut in the \
             middle of a commit can damage the database",
        );
    }
    if report.ran_on == RanOn::Database {
        lines.push("the database itself was changed");
    }
    // Behind "note: ".
    notes(&lines.iter().map(|line| human::wrapped(line, WIDTH - 6, 6)).collect::<Vec<_>>())
}
