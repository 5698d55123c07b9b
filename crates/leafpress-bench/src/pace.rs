//! How long the rest of a run will take, from what its runs took so far.
//!
//! A rung takes about as long in each round. Of a rung that has not run yet only the
//! average of the others is known, so the answer is rough at first.
//!
//! Must never: measure anything itself.

use std::time::{Duration, Instant};

/// The runs of all groups, and what those that are done took, all around them included.
#[derive(Debug)]
pub(crate) struct Pace {
    /// Runs that are left of each rung, and the seconds that its last one took.
    rungs: Vec<(usize, Option<f64>)>,
    /// The index of the first rung of each group.
    first_of_group: Vec<usize>,
    runs_count: usize,
    began: Instant,
}

impl Pace {
    /// Of groups with so many rungs, each of which runs so often.
    pub(crate) fn new(groups: impl IntoIterator<Item = (usize, usize)>) -> Self {
        let (mut rungs, mut first_of_group) = (Vec::new(), Vec::new());
        for (kinds, rounds) in groups {
            first_of_group.push(rungs.len());
            rungs.extend(std::iter::repeat_n((rounds, None), kinds));
        }
        let runs_count = rungs.iter().map(|(rounds, _)| rounds).sum();
        Self { rungs, first_of_group, runs_count, began: Instant::now() }
    }

    /// Of the group of this index.
    pub(crate) fn of_group(&mut self, group: usize) -> GroupPace<'_> {
        GroupPace { pace: self, group }
    }

    fn took(&mut self, group: usize, kind: usize, time: Duration) {
        let index = self.first_of_group.get(group).map_or(usize::MAX, |first| first + kind);
        if let Some((left, seconds)) = self.rungs.get_mut(index) {
            *left = left.saturating_sub(1);
            *seconds = Some(time.as_secs_f64());
        }
    }

    /// Runs in all, and runs that are done.
    pub(crate) fn runs(&self) -> (usize, usize) {
        let left: usize = self.rungs.iter().map(|(left, _)| left).sum();
        (self.runs_count, self.runs_count - left)
    }

    /// What the rest will take; `None` before the first run is done.
    pub(crate) fn left(&self) -> Option<Duration> {
        let known: Vec<f64> = self.rungs.iter().filter_map(|(_, seconds)| *seconds).collect();
        if known.is_empty() {
            return None;
        }
        let average = known.iter().sum::<f64>() / known.len() as f64;
        let left =
            self.rungs.iter().map(|(left, seconds)| *left as f64 * seconds.unwrap_or(average));
        Duration::try_from_secs_f64(left.sum()).ok()
    }
}

/// The same, for the runs of one group.
#[derive(Debug)]
pub(crate) struct GroupPace<'p> {
    pace: &'p mut Pace,
    group: usize,
}

impl GroupPace<'_> {
    /// A run begins: runs in all and those that are done, and what the rest will take.
    pub(crate) fn begin(&mut self) -> ((usize, usize), Option<Duration>) {
        self.pace.began = Instant::now();
        (self.pace.runs(), self.pace.left())
    }

    /// A run of this rung is done.
    pub(crate) fn end(&mut self, kind: usize) {
        self.pace.took(self.group, kind, self.pace.began.elapsed());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rest_is_what_the_runs_before_took() {
        let mut pace = Pace::new([(2, 3), (1, 2)]);
        assert_eq!((pace.runs(), pace.left()), ((8, 0), None));
        pace.took(0, 0, Duration::from_secs(4));
        pace.took(0, 1, Duration::from_secs(2));
        // Two more of four and of two seconds, and two of which nobody knows: three each.
        assert_eq!((pace.runs(), pace.left()), ((8, 2), Some(Duration::from_secs(18))));
        pace.took(1, 0, Duration::from_secs(1));
        assert_eq!(pace.left(), Some(Duration::from_secs(13)));
        // More than was planned, or of nothing that is there.
        for _ in 0..9 {
            pace.took(1, 0, Duration::ZERO);
        }
        pace.took(7, 7, Duration::ZERO);
        assert_eq!(pace.left(), Some(Duration::from_secs(12)));
    }
}
