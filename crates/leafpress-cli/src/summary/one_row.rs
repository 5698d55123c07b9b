//! The cost of one-row transactions, as tables: the calls of each, the time, the
//! memory.
//!
//! One block for each kind of change under each kind of locking in each place, so
//! that the lines below one another can be compared. Memory hardly depends on these,
//! so it has one block, with the largest figures of each name.
//!
//! Must never: leave out a rung, or a rung's word for what it promises.

use leafpress_bench::report::{ExperimentReport, FileIo, OneRow, Rung, Safety};

use super::INDENT;
use crate::human;
use crate::output::{FAINT, STRONG, styled};

/// A table: what it shows, and of each rung.
struct Table {
    title: &'static str,
    /// Explanation of its headings.
    legend: &'static str,
    /// Headings with their widths.
    columns: &'static [(&'static str, usize)],
    figures: fn(&Rung) -> Option<Vec<String>>,
}

const TABLES: [Table; 2] = [
    Table {
        title: "calls of SQLite to its files, for each transaction",
        legend: "whole: pages written whole; dir: syncs of the folder; open: and deletions;\n  \
                 lock: and shared memory; stat: names and sizes, asked for and set",
        columns: &[
            ("read", 5),
            ("write", 6),
            ("whole", 6),
            ("sync", 5),
            ("dir", 4),
            ("open", 5),
            ("lock", 5),
            ("stat", 5),
            ("all", 5),
        ],
        figures: |rung| rung.io.as_ref()?.per_transaction.as_ref().map(calls),
    },
    Table {
        title: "time, and bytes written",
        legend: "",
        columns: &[("commits/s", 10), ("p50", 8), ("p99", 8), ("worst", 8), ("bytes", 8)],
        figures: |rung| {
            let written = rung.io.as_ref()?.per_transaction.as_ref()?.written_bytes;
            let latency_us = rung.latency_us?;
            let rate = human::rate(rung.per_second);
            let latencies = [latency_us.p50, latency_us.p99, latency_us.max].map(human::latency);
            let bytes = human::bytes(written as u64);
            Some([rate].into_iter().chain(latencies).chain([bytes]).collect())
        },
    },
];

const MEMORY: Table = Table {
    title: "memory of SQLite, in KB",
    legend: "most: at any time; piece: the largest asked for at once; slots: small pieces\n  \
                 from the lookaside block",
    columns: &[
        ("used", 6),
        ("most", 6),
        ("piece", 6),
        ("slots", 6),
        ("cache", 6),
        ("schema", 7),
        ("stmts", 6),
    ],
    figures: |rung| {
        let memory = rung.memory?;
        let kb = |bytes: u64| figure(bytes as f64 / 1e3);
        Some(vec![
            kb(memory.used_bytes),
            kb(memory.used_bytes_max),
            kb(memory.allocation_bytes_max),
            memory.lookaside_slots_max.to_string(),
            kb(memory.page_cache_bytes),
            kb(memory.schema_bytes),
            kb(memory.statement_bytes),
        ])
    },
};

/// The tables of the report's one-row transactions; none if it has none.
pub(super) fn tables(report: &ExperimentReport) -> Vec<String> {
    let rungs: Vec<(&Rung, &OneRow)> =
        report.rungs.iter().filter_map(|rung| Some((rung, rung.one_row.as_ref()?))).collect();
    if rungs.is_empty() {
        return Vec::new();
    }
    let mut tables: Vec<String> =
        TABLES.iter().map(|table| table.print(&rungs, block_of)).collect();
    let largest = largest_of_each(&rungs);
    let largest: Vec<(&Rung, &OneRow)> = largest.iter().map(|(rung, one)| (rung, *one)).collect();
    tables.push(MEMORY.print(&largest, |_| "the most of each in any block".to_owned()));
    tables.push(promises(&rungs));
    tables
}

/// One rung of each name, with the most memory that any of them needed.
fn largest_of_each<'r>(rungs: &[(&'r Rung, &'r OneRow)]) -> Vec<(Rung, &'r OneRow)> {
    let mut largest: Vec<(Rung, &OneRow)> = Vec::new();
    for (rung, one_row) in rungs {
        let known = largest.iter_mut().find(|(_, it)| it.opened_by == one_row.opened_by);
        match known {
            Some((known, _)) => {
                known.memory = known.memory.zip(rung.memory).map(|(one, other)| one.max(other));
            }
            None => largest.push(((*rung).clone(), one_row)),
        }
    }
    largest
}

impl Table {
    fn print(&self, rungs: &[(&Rung, &OneRow)], block_of: fn(&OneRow) -> String) -> String {
        let mut text = format!("{}\n", styled(STRONG, self.title));
        if !self.legend.is_empty() {
            text += &format!("{INDENT}{}\n", styled(FAINT, self.legend));
        }
        let names = rungs.iter().map(|(_, one_row)| short_name(one_row));
        let name_width = names.map(|name| human::widest([name.as_str()])).max().unwrap_or(0);
        let blocks = rungs.chunk_by(|(_, one), (_, next)| block_of(one) == block_of(next));
        for block in blocks {
            let headings = self.columns.iter().map(|(heading, _)| (*heading).to_owned());
            let heading = self.line("", "", name_width, headings);
            let block_name = block.first().map(|(_, one)| block_of(one)).unwrap_or_default();
            text += &format!("{block_name}\n{}\n", styled(FAINT, &heading));
            for (rung, one_row) in block {
                let figures = (self.figures)(rung).unwrap_or_default();
                let safety = rung.safety.name();
                let name = short_name(one_row);
                text += &self.line(&name, safety, name_width, figures.into_iter());
                text.push('\n');
            }
        }
        text
    }

    fn line(
        &self,
        name: &str,
        safety: &str,
        name_width: usize,
        figures: impl Iterator<Item = String>,
    ) -> String {
        const SAFETY_WIDTH: usize = 11;
        let figures = figures.zip(self.columns);
        let figures = figures.map(|(figure, (_, width))| human::right(&figure, *width));
        let safety = human::left(safety, SAFETY_WIDTH);
        let name = human::left(name, name_width);
        format!("{INDENT}{name} {safety}{}", figures.collect::<String>())
    }
}

/// "update, exclusive locking, on the disk".
fn block_of(one_row: &OneRow) -> String {
    let place = if one_row.place == "disk" { "on the disk" } else { "on the XFS loop" };
    format!("{}, {} locking, {place}", one_row.change, one_row.locking)
}

/// In at most 18 columns: "delete extra"; "leafpress" with its defaults, "leafpress,
/// small", "leafpress, journal".
fn short_name(one_row: &OneRow) -> String {
    let name = one_row.opened_by.trim_start_matches("SQL, ");
    // Both words are worth more than whose they are: SQLite knows neither.
    let name = name.replace("leafpress, assumed, small", "assumed, small");
    name.replace("leafpress, atomic", "leafpress")
}

fn calls(io: &FileIo) -> Vec<String> {
    let of = |kinds: &[&str]| figure(kinds.iter().fold(0.0, |sum, kind| sum + io.calls_of(kind)));
    vec![
        of(&["read"]),
        of(&["write"]),
        of(&["write_atomic"]),
        of(&["sync"]),
        of(&["folder_sync"]),
        of(&["open", "delete"]),
        of(&["lock", "map"]),
        of(&["stat", "truncate"]),
        figure(io.calls),
    ]
}

/// `0`, `1`, `1.2`, `48`: the digits that matter.
fn figure(number: f64) -> String {
    let is_whole = (number - number.round()).abs() < 0.05;
    if is_whole || number >= 99.5 { format!("{number:.0}") } else { format!("{number:.1}") }
}

/// Explains the safety words, and says how Leafpress's settings wrote their pages.
fn promises(rungs: &[(&Rung, &OneRow)]) -> String {
    let words = [
        (Safety::Durable, "synced at every commit"),
        (Safety::Rollback, "as durable, through a journal or by pages written whole"),
        (Safety::Relaxed, "a power cut may take the last commits"),
        (Safety::Rebuildable, "a crash can corrupt the file"),
    ];
    let mut text = String::new();
    for (safety, promise) in words {
        if rungs.iter().any(|(rung, _)| rung.safety == safety) {
            text += &format!("{INDENT}{} {promise}\n", human::left(safety.name(), 11));
        }
    }
    let mut seen: Vec<String> = Vec::new();
    for (_, one_row) in rungs {
        let Some(page_writes) = &one_row.page_writes else { continue };
        let place = if one_row.place == "disk" { "the disk" } else { "the XFS loop" };
        let line = format!("{} on {place}: {page_writes}", short_name(one_row));
        if !seen.contains(&line) {
            text += &format!("{INDENT}{}\n", human::wrapped(&line, 76, 4));
            seen.push(line);
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_fits_its_column() {
        let name = |opened_by: &str| {
            let one_row = serde_json::json!({
                "change": "update", "place": "disk", "locking": "shared", "journal_mode": "",
                "synchronous": "", "opened_by": opened_by
            });
            short_name(&serde_json::from_value(one_row).unwrap())
        };
        let names = [
            ("SQL, truncate extra", "truncate extra"),
            ("leafpress, atomic", "leafpress"),
            ("leafpress, atomic, small", "leafpress, small"),
            ("leafpress, journal", "leafpress, journal"),
            ("leafpress, assumed", "leafpress, assumed"),
            ("leafpress, assumed, small", "assumed, small"),
        ];
        for (opened_by, expected) in names {
            assert_eq!(name(opened_by), expected);
            assert!(expected.len() <= 18);
        }
    }

    #[test]
    fn a_figure_has_the_digits_that_matter() {
        let texts = [0.0, 1.0, 1.02, 1.2, 48.04, 53.5, 1234.6].map(figure);
        assert_eq!(texts, ["0", "1", "1", "1.2", "48", "53.5", "1235"]);
    }
}
