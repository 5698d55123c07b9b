//! Groups: rungs that do one work and are compared. A group says by which measure, and how much
//! room on the disk they take.
//!
//! Below the plans, which make groups, and `group_run.rs`, which runs them. Does nothing itself.

use crate::options::{BenchOptions, Experiment, Size};
use crate::rung::described::{Fixture, InputFormat, Place};
use crate::rung::kind::RungKind;
use crate::rung::result::RungResult;

/// Rungs that are compared with one another.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Group {
    pub(crate) kinds: Vec<RungKind>,
    pub(crate) ratios: Vec<RatioPlan>,
    /// End of its ratios' names, where other groups give ratios of these names too, of another
    /// size or in another place.
    pub(crate) suffix: Option<String>,
    /// Experiment that it is a part of.
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
    /// Figure that is compared.
    pub(crate) measure: Measure,
}

impl RatioPlan {
    /// Ours beside these rivals, by their positions.
    pub(crate) fn new(
        name: impl Into<String>,
        ours: usize,
        rivals: &[usize],
        measure: Measure,
    ) -> Self {
        Self { name: name.into(), ours, rivals: rivals.to_vec(), measure }
    }
}

/// Figure of a run that is compared: the smaller, the better.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Measure {
    /// The time for all the work, of which both do as much.
    Wall,
    /// The time for a row, where both may have done a different number.
    Rate,
    /// The slowest call.
    Worst,
    /// The time that half of the calls did not exceed.
    Median,
    /// The time that 99 of 100 calls did not exceed.
    P99,
    /// The time that 999 of 1000 calls did not exceed.
    P999,
    /// The time that half of the wake-ups did not exceed, from the call on that caused each.
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
    /// An empty group of this experiment.
    pub(crate) fn new(experiment: Experiment) -> Self {
        Self { kinds: Vec::new(), ratios: Vec::new(), suffix: None, experiment }
    }

    /// Adds a rung, and returns its position.
    pub(crate) fn add(&mut self, kind: RungKind) -> usize {
        self.kinds.push(kind);
        self.kinds.len() - 1
    }

    /// Adds a ratio of ours beside these rivals, by their positions.
    pub(crate) fn compare(
        &mut self,
        name: impl Into<String>,
        ours: usize,
        rivals: &[usize],
        measure: Measure,
    ) {
        self.ratios.push(RatioPlan::new(name, ours, rivals, measure));
    }

    /// Number of runs of each of its rungs.
    pub(crate) fn rounds(&self, options: &BenchOptions) -> usize {
        let of_large = self.kinds.first().map_or(1, |kind| kind.rounds_of_large_run());
        let is_whole_large_run = options.size == Size::Large && !options.is_overview();
        let default = match options.size {
            Size::Quick => 2,
            _ if is_whole_large_run => of_large,
            _ => 3,
        };
        options.repeats.unwrap_or(default).max(1)
    }

    /// Names of its ratios in the report.
    pub(crate) fn ratio_names(&self) -> Vec<String> {
        self.ratios.iter().map(|ratio| self.shown(&ratio.name)).collect()
    }

    /// Name in the report of the ratio of this name.
    pub(crate) fn shown(&self, name: &str) -> String {
        match &self.suffix {
            Some(suffix) => format!("{name}_{suffix}"),
            None => name.to_owned(),
        }
    }

    /// Returns true if this is the ratio's name, alone or as in the report.
    pub(crate) fn is_meant(&self, ratio: &RatioPlan, name: &str) -> bool {
        ratio.name == name || self.shown(&ratio.name) == name
    }

    /// Positions of the rivals after which a power cut takes nothing.
    pub(crate) fn rivals_that_keep_all(&self) -> Vec<usize> {
        let kinds = self.kinds.iter().enumerate();
        let equals = kinds.filter(|(_, kind)| !kind.is_ours() && kind.safety().keeps_all());
        equals.map(|(index, _)| index).collect()
    }

    /// Drops the ratios that were not asked for, and the rungs that only they
    /// need; `false` if nothing is left.
    pub(crate) fn keep_only(&mut self, only: &[String]) -> bool {
        let mut ratios = std::mem::take(&mut self.ratios);
        ratios.retain(|ratio| only.iter().any(|name| self.is_meant(ratio, name)));
        self.ratios = ratios;
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

    /// Disk of its databases.
    pub(crate) fn place(&self) -> Place {
        self.kinds.first().map_or(Place::Disk, |kind| kind.place())
    }

    /// Format of the experiment's file that its rungs read, if they read one.
    pub(crate) fn reads(&self) -> Option<InputFormat> {
        self.kinds.iter().find_map(|kind| kind.reads())
    }

    /// Databases that must be there before its rungs begin, each of them once.
    pub(crate) fn fixtures(&self) -> Vec<Fixture> {
        let mut fixtures: Vec<Fixture> = Vec::new();
        for fixture in self.kinds.iter().filter_map(|kind| kind.fixture()) {
            if fixtures.iter().all(|other| other.name != fixture.name) {
                fixtures.push(fixture);
            }
        }
        fixtures
    }

    /// Room that its files take on the disk at most: its fixtures, and one rung after the other.
    pub(crate) fn room_mb(&self, input_bytes: u64) -> u64 {
        let fixtures_mb: u64 = self.fixtures().iter().map(|fixture| fixture.room_mb).sum();
        let rungs_mb = self.kinds.iter().map(|kind| kind.room_mb(input_bytes)).max();
        fixtures_mb.saturating_add(rungs_mb.unwrap_or(0))
    }
}
