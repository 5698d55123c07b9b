//! Words of a report on the simulated disk, and on how well it was simulated.
//!
//! The rungs' processes simulate it (`rung/process.rs`); this process, with its fixtures and
//! checks, does not. Must never: let a reader take a figure for one of the real disk.

use leafpress::vfs::DiskModel;

use crate::error::Result;
use crate::options::BenchOptions;
use crate::report::Simulated;
use crate::rung::result::SimulatedWork;

/// More than this share of the time is worth a word.
const LATE_SHARE: f64 = 0.02;

/// Sums up how well a disk was simulated, if one is.
pub(crate) struct Simulation {
    model: Option<DiskModel>,
    sum: SimulatedWork,
}

impl Simulation {
    /// The one that was asked for, or none.
    ///
    /// # Errors
    /// If there is no disk of this name.
    pub(crate) fn of(options: &BenchOptions) -> Result<Self> {
        let model = options.simulate.as_deref().map(str::parse::<DiskModel>).transpose()?;
        Ok(Self { model, sum: SimulatedWork::default() })
    }

    /// The disk, if there is one.
    pub(crate) fn model(&self) -> Option<DiskModel> {
        self.model
    }

    /// Returns true if there is one.
    pub(crate) fn is_on(&self) -> bool {
        self.model.is_some()
    }

    /// Adds its work in some runs.
    pub(crate) fn add(&mut self, runs: impl Iterator<Item = SimulatedWork>) {
        self.sum = runs.fold(self.sum, SimulatedWork::plus);
    }

    /// Words of the report on it.
    pub(crate) fn in_words(&self) -> Option<Simulated> {
        let model = self.model?;
        let figures = format!("{}; {}", model.figures(), self.how_well());
        // The others are in docs/experiments.md.
        let source = model.sources.first().map(|source| source.url.to_owned());
        Some(Simulated {
            name: model.name.to_owned(),
            what: model.title.to_owned(),
            figures,
            source: source.unwrap_or_default(),
        })
    }

    fn how_well(&self) -> String {
        let SimulatedWork { syncs, late_syncs, busy_s, late_s } = self.sum;
        if late_s <= busy_s * LATE_SHARE {
            return "the real disk was fast enough to play it".to_owned();
        }
        format!(
            "the real disk was slower in {late_syncs} of {syncs} syncs, by {:.0} % of the time, so \
             that this one looks slower than it is (a folder in memory would be fast enough: --dir)",
            late_s / busy_s.max(f64::MIN_POSITIVE) * 100.0
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn simulation(name: &str) -> Result<Simulation> {
        Simulation::of(&BenchOptions { simulate: Some(name.to_owned()), ..BenchOptions::default() })
    }

    #[test]
    fn nothing_is_said_where_nothing_is_simulated() {
        let simulation = Simulation::of(&BenchOptions::default()).expect("nothing to refuse");
        assert!(!simulation.is_on());
        assert_eq!(simulation.in_words(), None);
    }

    #[test]
    fn a_disk_that_is_not_known_is_refused_with_the_names_of_those_there_are() {
        let error = simulation("floppy").err().expect("there is none").to_string();
        assert!(error.contains("floppy") && error.contains("sdcard, hdd, emmc"), "{error}");
    }

    #[test]
    fn a_real_disk_that_is_too_slow_is_told() {
        let mut simulation = simulation("nvme").expect("there is one");
        let run = SimulatedWork { syncs: 50, late_syncs: 1, busy_s: 2.0, late_s: 0.02 };
        simulation.add([run, run].into_iter());
        let said = simulation.in_words().expect("it is played");
        assert_eq!((said.name.as_str(), simulation.is_on()), ("nvme", true));
        assert!(said.figures.starts_with("850 µs a sync, 10 µs a write, 2000 MB/s"));
        assert!(said.figures.ends_with("fast enough to play it"), "{}", said.figures);
        assert!(said.source.starts_with("https://gist.github.com/"), "{}", said.source);
        simulation.add([SimulatedWork { late_syncs: 20, late_s: 0.96, ..run }].into_iter());
        let said = simulation.in_words().expect("it is played").figures;
        assert!(said.contains("slower in 22 of 150 syncs, by 17 % of the time"), "{said}");
    }
}
