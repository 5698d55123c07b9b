//! A command's result as text, at most 80 columns.
//!
//! Must never: print; the caller does. Must never pass on text of an input
//! with its control characters.

#![expect(clippy::format_push_string, reason = "a summary has few lines")]

mod advise;
mod bench;
mod doctor;
pub mod finding;
mod io;
mod one_row;
mod queue;
mod shards;
mod storage;

pub use self::advise::of_advise;
pub use self::bench::of_bench;
pub use self::doctor::of_doctor;
pub use self::io::of_io;
pub use self::queue::{
    of_job, of_jobs, of_queue_in_a_line, of_queue_settings, of_queues, of_queues_within,
    of_schedules, of_work,
};
pub use self::shards::{of_collected, of_runs, of_shard, of_verdict};
pub use self::storage::of_storage;

use std::path::Path;

use leafpress::BadRow;
use leafpress::load::{ColumnReport, DryRun, IndexReport, Report, Stage};
use leafpress::path_text;
use leafpress::verify::VerifyReport;

use crate::human;
use crate::output::{FAINT, STRONG, note, styled, verdict};

const WIDTH: usize = 80;
const INDENT: &str = "  ";
const NAME_WIDTH_MAX: usize = 30;
/// Columns and notes that a summary lists; the JSON has all.
const LISTED_MAX: usize = 10;

/// The summary of a load that is done.
pub fn of_load(report: &Report, rejects: Option<&Path>) -> String {
    let headline = format!(
        "{} {} into table {} of {}\n\n",
        verdict(report.rows_rejected == 0, "loaded"),
        human::counted(report.rows_loaded, "row", "rows"),
        styled(STRONG, &human::printable(&report.table)),
        styled(STRONG, &human::path(&report.database)),
    );
    let mut text = headline;
    text += &facts(&load_facts(report, rejects));
    text += &stages(&report.stages);
    text += &columns(&report.columns, WIDTH);
    text += &rejected(&report.rejects, report.rows_rejected);
    text += &notes(&in_a_line_each(&report.notes));
    text
}

fn load_facts(report: &Report, rejects: Option<&Path>) -> Vec<[String; 3]> {
    let seconds = report.elapsed.as_secs_f64().max(1e-9);
    let rejected_to = match rejects {
        Some(path) if report.rows_rejected > 0 => format!("in {}", path_text(path)),
        _ => String::new(),
    };
    let row = |name: &str, rows: u64, rest: String| {
        // "row " as wide as "rows", so that the numbers stand below one another.
        [name.to_owned(), human::counted(rows, "row ", "rows"), rest]
    };
    let mut facts = vec![
        row("read", report.rows_read, human::bytes(report.bytes_read)),
        row("loaded", report.rows_loaded, String::new()),
    ];
    if report.rows_ignored > 0 {
        let why = "others have their keys, or rules pass over them".to_owned();
        facts.push(row("ignored", report.rows_ignored, why));
    }
    facts.push(row("rejected", report.rows_rejected, rejected_to));
    let size = human::bytes(report.bytes_written);
    let pages = human::counted(report.pages, "page", "pages");
    facts.push(["database".to_owned(), size, pages]);
    if report.spilled_bytes > 0 {
        let spilled = human::bytes(report.spilled_bytes);
        facts.push(["spilled".to_owned(), spilled, "to temporary files, to sort".to_owned()]);
    }
    let rows_rate = human::rate(report.rows_read as f64 / seconds);
    let bytes_rate = human::bytes((report.bytes_read as f64 / seconds) as u64);
    let rates = format!("{rows_rate} rows/s, {bytes_rate}/s");
    facts.push(["time".to_owned(), human::duration(report.elapsed), rates]);
    facts.push(["path".to_owned(), report.path.clone(), String::new()]);
    facts
}

/// Lines of a name, a number set right, and what else there is to say.
fn facts(rows: &[[String; 3]]) -> String {
    let name_width = human::widest(rows.iter().map(|row| row[0].as_str()));
    // A line of its own kind, such as a sentence, must not widen the numbers.
    let numbers = rows.iter().filter(|row| !row[2].is_empty()).map(|row| row[1].as_str());
    let number_width = human::widest(numbers);
    let mut text = String::new();
    for [name, number, rest] in rows {
        let name = styled(FAINT, &human::left(name, name_width));
        let is_number = number.starts_with(|it: char| it.is_ascii_digit());
        let number = if is_number {
            human::right(number, number_width)
        } else {
            // Behind the indent, the name and two blanks.
            let indent = INDENT.len() + name_width + 2;
            human::wrapped(&human::printable(number), WIDTH - indent, indent)
        };
        let parts = [name, number, human::printable(rest)];
        let parts: Vec<_> = parts.into_iter().filter(|part| !part.is_empty()).collect();
        text += &format!("{INDENT}{}\n", parts.join("  ").trim_end());
    }
    text
}

/// Time of each stage. Stages run at the same time, so their sum is the time of all threads.
/// Stages whose time would be shown as zero are left out.
fn stages(stages: &[Stage]) -> String {
    const SECONDS_MIN: f64 = 0.000_05;
    let stages: Vec<&Stage> = stages.iter().filter(|stage| stage.seconds >= SECONDS_MIN).collect();
    let total_seconds: f64 = stages.iter().map(|stage| stage.seconds).sum();
    if total_seconds <= 0.0 {
        return String::new();
    }
    let name_width = human::widest(stages.iter().map(|stage| stage.name).chain(["stage"]));
    let heading =
        format!("{}  {}  share", human::left("stage", name_width), human::right("all threads", 12));
    let mut text = format!("\n{INDENT}{}\n", styled(FAINT, &heading));
    for stage in stages {
        let time = human::time(stage.seconds);
        let percent = format!("{:.0} %", 100.0 * stage.seconds / total_seconds);
        let name = human::left(stage.name, name_width);
        text += &format!(
            "{INDENT}{name}  {}  {}\n",
            human::right(&time, 12),
            human::right(&percent, 5)
        );
    }
    text
}

/// The columns, their types, and the value that decided each, in lines of `width`.
fn columns(columns: &[ColumnReport], width: usize) -> String {
    let listed = &columns[..columns.len().min(LISTED_MAX)];
    let names: Vec<String> =
        listed.iter().map(|column| human::cut(&column.name, NAME_WIDTH_MAX)).collect();
    let name_width = human::widest(names.iter().map(String::as_str).chain(["column"]));
    let type_width =
        human::widest(listed.iter().map(|column| &column.declared_type[..]).chain(["type"]));
    let heading = format!(
        "{}  {}  decided by",
        human::left("column", name_width),
        human::left("type", type_width)
    );
    let mut text = format!("\n{INDENT}{}\n", styled(FAINT, &heading));
    let reason_width = width.saturating_sub(INDENT.len() + name_width + type_width + 4);
    for (column, name) in listed.iter().zip(&names) {
        let name = human::left(name, name_width);
        let declared_type = human::left(&column.declared_type, type_width);
        let line = format!("{name}  {declared_type}  {}", decision(column, reason_width));
        text += &format!("{INDENT}{}\n", line.trim_end());
    }
    if columns.len() > listed.len() {
        let more = human::count((columns.len() - listed.len()) as u64);
        text += &format!("{INDENT}… and {more} more; --json lists all\n");
    }
    text
}

fn decision(column: &ColumnReport, width: usize) -> String {
    const VALUE_WIDTH_MAX: usize = 20;
    let Some(by) = &column.decided_by else { return String::new() };
    let value = human::cut(&by.value, VALUE_WIDTH_MAX);
    let of_file = by.file.as_ref().map_or(String::new(), |file| format!(" of {file}"));
    let line = human::count(by.line);
    human::cut(&format!("line {line}{of_file}: '{value}' {}", by.reason), width)
}

/// Notes of the library, which may hold any name.
fn in_a_line_each(notes: &[String]) -> Vec<String> {
    notes.iter().map(|note| human::printable(note)).collect()
}

/// Notes that are escaped, and may be wrapped.
fn notes(notes: &[String]) -> String {
    if notes.is_empty() {
        return String::new();
    }
    let mut lines: String = notes.iter().take(LISTED_MAX).map(|text| note(text)).collect();
    if notes.len() > LISTED_MAX {
        let more = human::count((notes.len() - LISTED_MAX) as u64);
        lines += &note(&format!("… and {more} more; --json lists all"));
    }
    format!("\n{lines}")
}

/// Result of a dry run.
pub fn of_dry_run(dry: &DryRun) -> String {
    let mut text = format!("{};\n", human::printable_lines(dry.create_sql.trim_end_matches(';')));
    text += &columns(&dry.columns, usize::MAX);
    text.push('\n');
    let line = |name: &str, says: String| [name.to_owned(), says, String::new()];
    let mut lines = vec![
        line("would read", human::counted(dry.rows_read, "row", "rows")),
        line("would reject", human::counted(dry.would_reject, "row", "rows")),
        line("path", dry.path.clone()),
    ];
    let plan = dry.plan.iter().enumerate();
    lines.extend(plan.map(|(at, says)| line(if at == 0 { "plan" } else { "" }, says.clone())));
    text += &facts(&lines);
    text += &rejected(&dry.rejects, dry.would_reject);
    text += &notes(&dry.notes);
    text += "\nnothing was written\n";
    text
}

/// The first rows that were rejected, each with its place and the reason.
fn rejected(rows: &[BadRow], all: u64) -> String {
    let mut text = String::new();
    if !rows.is_empty() {
        text.push('\n');
    }
    for row in rows {
        let place = format!("{}:{}:{}: {}", row.file, row.line, row.column, row.reason);
        text += &format!("{}\n", human::printable(&place));
        text +=
            &format!("{INDENT}{}\n", styled(FAINT, &human::cut(&row.row, WIDTH - INDENT.len())));
    }
    let unlisted = all.saturating_sub(rows.len() as u64);
    if unlisted > 0 {
        text += &format!("… and {} more\n", human::count(unlisted));
    }
    text
}

/// The summary of an index that is made, or was there.
pub fn of_index(report: &IndexReport) -> String {
    let what = if report.existed { "there is the index" } else { "made index" };
    let mut text = format!(
        "{} {} on table {} of {}\n\n",
        verdict(true, what),
        styled(STRONG, &human::printable(&report.index)),
        styled(STRONG, &human::printable(&report.table)),
        styled(STRONG, &human::path(&report.database)),
    );
    if report.existed {
        text += &format!("{INDENT}it does the same, so nothing was done\n");
        return text;
    }
    let seconds = report.elapsed.as_secs_f64().max(1e-9);
    text += &facts(&[
        [
            "entries".to_owned(),
            human::counted(report.entries, "row", "rows"),
            format!("{} more", human::counted(report.pages, "page", "pages")),
        ],
        [
            "time".to_owned(),
            human::duration(report.elapsed),
            format!("{} rows/s", human::rate(report.entries as f64 / seconds)),
        ],
        ["path".to_owned(), report.path.clone(), String::new()],
    ]);
    text += &stages(&report.stages);
    text
}

/// SQLite's verdict.
pub fn of_verify(report: &VerifyReport) -> String {
    let database = human::path(&report.database);
    let mut text = if report.sound {
        format!("{database}: {}\n", verdict(true, "sound"))
    } else {
        let found = report.problems.len() as u64;
        let more = if report.more_problems { "more than " } else { "" };
        let found = format!("{more}{}", human::counted(found, "problem", "problems"));
        format!("{database}: {}\n", verdict(false, &found))
    };
    for problem in &report.problems {
        text += &format!("{INDENT}{}\n", human::printable(problem));
    }
    text.push('\n');
    text += &facts(&verify_facts(report));
    text += &notes(&in_a_line_each(&report.notes));
    text
}

fn verify_facts(report: &VerifyReport) -> Vec<[String; 3]> {
    let mut rows = Vec::new();
    if let (Some(pages), Some(page_size_bytes)) = (report.pages, report.page_size_bytes) {
        let size = human::bytes(pages.saturating_mul(page_size_bytes));
        let pages = human::counted(pages, "page", "pages");
        rows.push(
            ["file", &format!("{pages} of {page_size_bytes} bytes, {size}")].map(String::from),
        );
    }
    if let (Some(tables), Some(indexes)) = (report.tables, report.indexes) {
        let tables = human::counted(tables, "table", "tables");
        let indexes = human::counted(indexes, "index", "indexes");
        rows.push(["schema", &format!("{tables}, {indexes}")].map(String::from));
    }
    let checks =
        format!("{} and foreign_key_check of SQLite {}", report.check, report.sqlite_version);
    rows.push(["checked by", &checks].map(String::from));
    let time = human::duration(report.elapsed);
    rows.push(["time", &time].map(String::from));
    rows.into_iter().map(|[name, text]| [name, String::new(), text]).collect()
}
