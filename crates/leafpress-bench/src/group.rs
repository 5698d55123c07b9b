//! What a group of rungs is: the work that all of them do, how many rows, which of
//! them are compared and by what measure, and what room on the disk that takes.
//!
//! Stands below the plans (`plan.rs`, `commits/plan.rs`, `atomic/plan.rs`, `queue/plan.rs`), which make
//! groups, and `group_run.rs`, which runs them. Does nothing itself.

use crate::atomic::Place;
use crate::options::{BenchOptions, Experiment, Size};
use crate::rung::{Described, RungKind, RungResult, Work};

/// Rows are appended to a table that has so many times as many.
pub(crate) const APPEND_FACTOR: u64 = 10;

/// Rungs that do the same work and are compared with one another.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Group {
    pub(crate) work: Work,
    /// Rows that each rung adds; 0 where the CSV file decides. (For an index,
    /// the rows that it is made of.)
    pub(crate) rows: u64,
    /// What the sort may take, where it is limited.
    pub(crate) memory_bytes: Option<u64>,
    pub(crate) kinds: Vec<RungKind>,
    pub(crate) ratios: Vec<RatioPlan>,
    /// What the names of its ratios end in, where other groups give the same ones of
    /// another size or in another place.
    pub(crate) suffix: Option<String>,
    /// What it is a part of.
    pub(crate) experiment: Experiment,
}

/// Our rung of a group, and the rivals that it is compared with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RatioPlan {
    pub(crate) name: String,
    /// Our rung, as its position in the group's `kinds`.
    pub(crate) ours: usize,
    /// The rivals': in each round the best of them counts.
    pub(crate) rivals: Vec<usize>,
    /// By what.
    pub(crate) measure: Measure,
}

/// What is compared of two runs: the smaller, the better.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Measure {
    /// The time for all the work, which is the same for both.
    Wall,
    /// The time for a row, where both may have done a different number.
    Rate,
    /// The slowest call.
    Worst,
    /// What half of the calls did not exceed.
    Median,
    /// What 99 of 100 calls did not exceed.
    P99,
    /// What 999 of 1000 calls did not exceed.
    P999,
    /// What half of the wake-ups did not exceed, from the call on that caused each.
    MedianFromCall,
    /// Calls to SQLite's files for each transaction.
    CallsPerTransaction,
}

impl Measure {
    /// The figure of a run; `None` where the work has none.
    pub(crate) fn of(self, result: &RungResult) -> Option<f64> {
        match self {
            Self::Wall => Some(result.wall_s),
            Self::Rate => (result.rows > 0).then(|| result.wall_s / result.rows as f64),
            Self::Worst => result.latency_us.map(|latency| latency.max),
            Self::Median => result.latency_us.map(|latency| latency.p50),
            Self::P99 => result.latency_us.map(|latency| latency.p99),
            Self::P999 => result.latency_us.map(|latency| latency.p999),
            Self::MedianFromCall => result.from_call_us.map(|latency| latency.p50),
            Self::CallsPerTransaction => {
                result.io.as_ref()?.per_transaction.as_ref().map(|it| it.calls)
            }
        }
    }
}

impl Group {
    /// How often each of its rungs runs.
    pub(crate) fn rounds(&self, options: &BenchOptions) -> usize {
        let is_long = self.work.names_its_sizes() || options.size != Size::Large;
        let default = if is_long { 3 } else { 5 };
        options.repeats.unwrap_or(default).max(1)
    }

    /// What its ratios are called in the report.
    pub(crate) fn ratio_names(&self) -> Vec<String> {
        self.ratios.iter().map(|ratio| self.shown(&ratio.name)).collect()
    }

    /// What the ratio of this name is called in the report.
    pub(crate) fn shown(&self, name: &str) -> String {
        match &self.suffix {
            Some(suffix) => format!("{name}_{suffix}"),
            None => name.to_owned(),
        }
    }

    /// Drops the ratios that were not asked for, and the rungs that only they
    /// need; `false` if nothing is left.
    pub(crate) fn keep_only(&mut self, only: &[String]) -> bool {
        self.ratios.retain(|ratio| only.contains(&ratio.name));
        let needed = |index: usize| {
            self.ratios.iter().any(|ratio| ratio.ours == index || ratio.rivals.contains(&index))
        };
        let kept: Vec<usize> = (0..self.kinds.len()).filter(|index| needed(*index)).collect();
        let moved = |old: usize| kept.iter().position(|index| *index == old).unwrap_or(old);
        for ratio in &mut self.ratios {
            ratio.ours = moved(ratio.ours);
            ratio.rivals = ratio.rivals.iter().map(|rival| moved(*rival)).collect();
        }
        self.kinds = kept.iter().map(|index| self.kinds[*index]).collect();
        !self.ratios.is_empty()
    }

    /// Where its databases are, if that is another folder than the experiment's.
    pub(crate) fn place(&self) -> Place {
        match self.kinds.first() {
            Some(RungKind::Atomic(rung)) => rung.place,
            _ => Place::Disk,
        }
    }

    /// What stands in the table beforehand.
    pub(crate) fn rows_before(&self) -> u64 {
        if self.work == Work::Append { self.rows.saturating_mul(APPEND_FACTOR) } else { 0 }
    }

    /// Whether the CSV file of the experiment is what its rungs read.
    pub(crate) fn reads_csv(&self) -> bool {
        matches!(self.work, Work::Csv | Work::CsvIndex)
    }

    /// What its files take on the disk at most, rounded up. For each row:
    ///
    /// | work | bytes a row |
    /// |---|---|
    /// | users | 17 in the table; attached, as much again in WAL and temporary file |
    /// | keys | 130 in the table, 190 where SQL splits its pages, 130 spilled |
    /// | index | 90 of CSV, 75 in the table, twice; 30 in the index, as much in its sort |
    /// | append | 130 in the table, twice, ten times as many; a WAL of all its pages |
    /// | accounting | 45 in the table, as much again in a journal at most |
    /// | commits, atomic, queue, described | as each rung says |
    /// | claims of a queue | what all rungs say together: each has a database of its own |
    pub(crate) fn room_mb(&self, csv_bytes: u64) -> u64 {
        const ROUNDING_MB: u64 = 10;
        let (amount, room) = match self.work {
            Work::Csv => (csv_bytes, 2),
            Work::CsvIndex => (csv_bytes, 3),
            Work::Users => (self.rows, 20),
            Work::Attach => (self.rows, 80),
            Work::Keys => (self.rows, 300),
            Work::Index => (self.rows, 320),
            Work::Append => (self.rows_before(), 600),
            Work::Accounting => (self.rows, 100),
            Work::Commits | Work::Atomic | Work::Queue | Work::Described => {
                return self.kinds.iter().map(rung_room_mb).max().unwrap_or(0);
            }
            Work::QueueClaims => return self.kinds.iter().map(rung_room_mb).sum(),
        };
        amount.saturating_mul(room) / 1_000_000 + ROUNDING_MB
    }
}

/// What a rung of small transactions takes on the disk at most.
fn rung_room_mb(kind: &RungKind) -> u64 {
    match *kind {
        RungKind::Commits(rung) => rung.room_mb(),
        RungKind::Atomic(rung) => rung.room_mb(),
        RungKind::Queue(rung) => rung.room_mb(),
        kind => kind.described().map_or(0, Described::room_mb),
    }
}

/// A number of rows as people say it: 100k, 10m, 1b.
pub(crate) fn size_name(rows: u64) -> String {
    for (one, unit) in [(1_000_000_000, 'b'), (1_000_000, 'm'), (1_000, 'k')] {
        if rows >= one && rows.is_multiple_of(one) {
            return format!("{}{unit}", rows / one);
        }
    }
    rows.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::BILLION_ROWS;

    #[test]
    fn sizes_read_as_people_say_them() {
        assert_eq!(size_name(100_000), "100k");
        assert_eq!(size_name(10_000_000), "10m");
        assert_eq!(size_name(BILLION_ROWS), "1b");
        assert_eq!(size_name(1_234), "1234");
    }
}
