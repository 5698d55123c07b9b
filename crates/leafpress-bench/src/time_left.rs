//! Time that the rest of a run will take. It is known from what its runs took so far. If that
//! is too long, rounds after those that are needed are left out, and at last the run ends.
//!
//! A rung takes about as long in each round. Of a rung that has not run yet only the
//! average of the others is known, so the answer is rough at first.
//!
//! Must never: measure anything itself.

use std::time::{Duration, Instant};

use crate::options::Budget;

/// Runs of all groups, and the times of those that are done, all around them included.
#[derive(Debug)]
pub(crate) struct TimeLeft {
    /// Runs that are left of each rung, and the seconds that its last one took.
    rungs: Vec<(usize, Option<f64>)>,
    /// The index of the first rung of each group.
    first_of_group: Vec<usize>,
    runs_count: usize,
    began: Instant,
    all_began: Instant,
    /// Time in which all of it should be done.
    budget: Option<Budget>,
    runs_left_out: usize,
}

impl TimeLeft {
    /// Of groups with this many rungs, each of which runs so often.
    pub(crate) fn new(
        groups: impl IntoIterator<Item = (usize, usize)>,
        budget: Option<Budget>,
    ) -> Self {
        let (mut rungs, mut first_of_group) = (Vec::new(), Vec::new());
        for (kinds, rounds) in groups {
            first_of_group.push(rungs.len());
            rungs.extend(std::iter::repeat_n((rounds, None), kinds));
        }
        let runs_count = rungs.iter().map(|(rounds, _)| rounds).sum();
        let began = Instant::now();
        let (all_began, runs_left_out) = (began, 0);
        Self { rungs, first_of_group, runs_count, began, all_began, budget, runs_left_out }
    }

    /// Runs that were left out to end in time.
    pub(crate) fn runs_left_out(&self) -> usize {
        self.runs_left_out
    }

    /// Runs of a group that are not done.
    pub(crate) fn runs_left_of(&self, group: usize) -> usize {
        self.rungs_of(group).iter().map(|(left, _)| left).sum()
    }

    fn rungs_of(&self, group: usize) -> &[(usize, Option<f64>)] {
        let begin = self.first_of_group.get(group).copied().unwrap_or(self.rungs.len());
        let end = self.first_of_group.get(group + 1).copied().unwrap_or(self.rungs.len());
        &self.rungs[begin..end]
    }

    /// Returns true if all of it will take longer than it should, even without so many rounds at the end.
    fn is_late(&self, rounds_after: usize) -> bool {
        let left = self.left_but(rounds_after).unwrap_or_default();
        let projected = self.all_began.elapsed() + left;
        self.budget.is_some_and(|budget| projected > budget.time)
    }

    /// Leaves out what is left of a group.
    fn leave_out(&mut self, group: usize) {
        let begin = self.first_of_group.get(group).copied().unwrap_or(self.rungs.len());
        let rungs = self.rungs_of(group).len();
        for (left, _) in self.rungs.iter_mut().skip(begin).take(rungs) {
            self.runs_left_out += *left;
            self.runs_count -= *left;
            *left = 0;
        }
    }

    /// Of the group of this index.
    pub(crate) fn of_group(&mut self, group: usize) -> GroupTime<'_> {
        GroupTime { time: self, group }
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

    /// Time that the rest will take; `None` before the first run is done.
    pub(crate) fn left(&self) -> Option<Duration> {
        self.left_but(0)
    }

    /// As [`left`](Self::left), without the last rounds of all groups.
    fn left_but(&self, rounds_after: usize) -> Option<Duration> {
        let known: Vec<f64> = self.rungs.iter().filter_map(|(_, seconds)| *seconds).collect();
        if known.is_empty() {
            return None;
        }
        let average = known.iter().sum::<f64>() / known.len() as f64;
        let left = self.rungs.iter().map(|(left, seconds)| {
            left.saturating_sub(rounds_after) as f64 * seconds.unwrap_or(average)
        });
        Duration::try_from_secs_f64(left.sum()).ok()
    }
}

/// Runs of one group, and the time of all.
#[derive(Debug)]
pub(crate) struct GroupTime<'p> {
    time: &'p mut TimeLeft,
    group: usize,
}

impl GroupTime<'_> {
    /// Returns true if this round, from 0, of so many would take too long; the rest of the group is then
    /// left out.
    ///
    /// The rounds of an overview go through all groups. So a round is only left out if this round of
    /// all groups takes too long: no group loses its second one for another one's third.
    pub(crate) fn leaves_out_round(&mut self, round: usize, rounds_count: usize) -> bool {
        let Some(budget) = self.time.budget else { return false };
        let is_overview = budget.is_the_end;
        let rounds_after = if is_overview { rounds_count.saturating_sub(round + 1) } else { 0 };
        let is_late = round >= budget.rounds_min && self.time.is_late(rounds_after);
        if is_late {
            self.time.leave_out(self.group);
        }
        is_late
    }

    /// Returns true if the time is up.
    pub(crate) fn is_over(&self) -> bool {
        let budget = self.time.budget.filter(|budget| budget.is_the_end);
        budget.is_some_and(|budget| self.time.all_began.elapsed() > budget.time)
    }

    /// A run begins: runs in all and those that are done, and what the rest will take.
    pub(crate) fn begin(&mut self) -> ((usize, usize), Option<Duration>) {
        self.time.began = Instant::now();
        (self.time.runs(), self.time.left())
    }

    /// A run of this rung is done.
    pub(crate) fn end(&mut self, kind: usize) {
        self.time.took(self.group, kind, self.time.began.elapsed());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rest_is_what_the_runs_before_took() {
        let mut time = TimeLeft::new([(2, 3), (1, 2)], None);
        assert_eq!((time.runs(), time.left()), ((8, 0), None));
        time.took(0, 0, Duration::from_secs(4));
        time.took(0, 1, Duration::from_secs(2));
        // Two more of four and of two seconds, and two of which nothing is known: three each.
        assert_eq!((time.runs(), time.left()), ((8, 2), Some(Duration::from_secs(18))));
        time.took(1, 0, Duration::from_secs(1));
        assert_eq!(time.left(), Some(Duration::from_secs(13)));
        // More than was planned, or of nothing that is there.
        for _ in 0..9 {
            time.took(1, 0, Duration::ZERO);
        }
        time.took(7, 7, Duration::ZERO);
        assert_eq!(time.left(), Some(Duration::from_secs(12)));
        assert!(!time.of_group(0).leaves_out_round(1, 3) && !time.of_group(0).is_over());
    }

    #[test]
    fn rounds_are_left_out_where_the_time_will_not_do() {
        let hour = Duration::from_secs(3_600);
        let budget = Budget { time: hour, rounds_min: 1, is_the_end: true };
        let mut time = TimeLeft::new([(2, 3), (1, 3)], Some(budget));
        time.took(0, 0, Duration::from_secs(100));
        time.took(0, 1, Duration::from_secs(100));
        assert!(!time.of_group(0).leaves_out_round(2, 3), "700 seconds of 3600");
        time.took(0, 1, Duration::from_secs(3_000));
        assert!(!time.of_group(0).leaves_out_round(0, 3), "the first is needed");
        assert!(!time.of_group(0).leaves_out_round(1, 3), "the third goes before the second");
        assert!(time.of_group(0).leaves_out_round(2, 3));
        // Two runs and one were left of the first group.
        assert_eq!((time.runs_left_out(), time.runs()), (3, (6, 3)));
        assert!(!time.of_group(1).is_over());
        let budget = Budget { time: Duration::ZERO, ..budget };
        assert!(TimeLeft::new([(1, 1)], Some(budget)).of_group(0).is_over());
        let patient = Budget { is_the_end: false, ..budget };
        assert!(!TimeLeft::new([(1, 1)], Some(patient)).of_group(0).is_over());
    }
}
