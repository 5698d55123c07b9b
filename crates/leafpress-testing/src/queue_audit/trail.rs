//! Every change of a job in the order of commits, and what that order must be.
//!
//! Triggers of the application's own write a row for each job that is pushed,
//! each change of its state and each one that is removed, in the transaction
//! that does it. So the trail knows what happened in which order without any
//! clock, over all processes, and a kill takes a change and its row together.
//!
//! [`Replay`] goes through the trail and checks, at each change:
//! 1. A job is pushed with an id above all before it, and a job that is gone
//!    or done never comes back.
//! 2. Only a ready job is claimed; each claim counts one more.
//! 3. No job that goes before it (higher priority, then lower id) was ready
//!    in the same queue. (A claim that finds a job expired frees its group's next
//!    one, which need not be seen by that claim.)
//! 4. In a group no more jobs run at once than it has slots, and of those that
//!    were pushed earlier no more than the other slots are unended.
//! 5. No more of a queue run at once than its limit.
//! 6. A unique key has one holder.
//! 7. Claims less releases never exceed the attempts that a job has.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use leafpress::queue::JobState;
use rusqlite::Connection;

/// # Panics
/// If that is no state.
fn state_of(number: i64) -> JobState {
    JobState::from_number(number).unwrap_or_else(|| panic!("{number} is no state of a job"))
}

/// One change of one job. `was` and `is` are `None` where there is no such job.
#[derive(Clone, Debug)]
pub struct Change {
    /// Its place in the order of commits.
    pub number: i64,
    /// The job's id.
    pub job: i64,
    /// The queue's id.
    pub queue: i64,
    /// State before the change.
    pub was: Option<JobState>,
    /// State after the change.
    pub is: Option<JobState>,
    /// Claims so far.
    pub claims: u32,
    /// Number of these claims that do not count as attempts.
    pub releases: u32,
    /// Attempts that the job itself was given.
    pub attempts_max: Option<u32>,
    /// Priority; jobs with higher numbers come first.
    pub priority: i64,
    /// Its ordering group.
    pub group: Option<String>,
    /// Its unique key, and of which scope: 0 while it waits, 1 also while it runs.
    pub key: Option<(String, i64)>,
    /// Name that the application gave it.
    pub correlation_id: Option<String>,
}

/// Makes the trail of a database that has the queue's tables.
///
/// # Errors
/// As SQLite says.
pub fn begin_trail(connection: &Connection) -> rusqlite::Result<()> {
    let columns = |row: &str| {
        ["queue", "claims", "releases", "attempts_max", "priority"]
            .map(|name| format!("{row}.{name}"))
            .join(", ")
            + &["ordering_group", "unique_key", "unique_scope", "correlation_id"]
                .map(|name| format!(", {row}.{name}"))
                .concat()
    };
    let [new, old] = ["new", "old"].map(columns);
    let into = "INSERT INTO trail (job, was, becomes, queue, claims, releases, attempts_max,
         priority, ordering_group, unique_key, unique_scope, correlation_id)";
    connection.execute_batch(&format!(
        "CREATE TABLE trail (number INTEGER PRIMARY KEY AUTOINCREMENT, job INTEGER NOT NULL,
             was INTEGER, becomes INTEGER, queue INTEGER, claims INTEGER, releases INTEGER,
             attempts_max INTEGER, priority INTEGER, ordering_group TEXT, unique_key TEXT,
             unique_scope INTEGER, correlation_id TEXT);
         CREATE TRIGGER trail_pushed AFTER INSERT ON leafpress_job BEGIN
             {into} VALUES (new.id, NULL, new.state, {new});
         END;
         CREATE TRIGGER trail_changed AFTER UPDATE ON leafpress_job
         WHEN old.state IS NOT new.state OR old.claims IS NOT new.claims
             OR old.releases IS NOT new.releases BEGIN
             {into} VALUES (new.id, old.state, new.state, {new});
         END;
         CREATE TRIGGER trail_removed AFTER DELETE ON leafpress_job BEGIN
             {into} VALUES (old.id, old.state, NULL, {old});
         END;"
    ))
}

/// The whole trail, in order.
///
/// # Errors
/// As SQLite says.
pub fn read_trail(connection: &Connection) -> rusqlite::Result<Vec<Change>> {
    let mut statement = connection.prepare(
        "SELECT number, job, queue, was, becomes, claims, releases, attempts_max, priority,
             ordering_group, unique_key, unique_scope, correlation_id FROM trail ORDER BY number",
    )?;
    let changes = statement.query_map([], |row| {
        let state = |column| row.get(column).map(|number: Option<i64>| number.map(state_of));
        let key: Option<String> = row.get(10)?;
        let scope: Option<i64> = row.get(11)?;
        Ok(Change {
            number: row.get(0)?,
            job: row.get(1)?,
            queue: row.get(2)?,
            was: state(3)?,
            is: state(4)?,
            claims: row.get(5)?,
            releases: row.get(6)?,
            attempts_max: row.get(7)?,
            priority: row.get(8)?,
            group: row.get(9)?,
            key: key.zip(scope),
            correlation_id: row.get(12)?,
        })
    })?;
    changes.collect()
}

/// Limits of a queue.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Attempts of a job that has no number of its own.
    pub attempts_max: u32,
    /// Jobs of a group that may run at once.
    pub group_concurrency: usize,
    /// Jobs of the queue that may run at once.
    pub concurrency: Option<usize>,
}

/// A job as the trail has it so far.
#[derive(Clone, Debug)]
struct Known {
    state: Option<JobState>,
    claims: u32,
}

/// Scopes of a unique key, as `leafpress_job.unique_scope` has them.
const WHILE_WAITING: i64 = 0;
const UNTIL_ENDED: i64 = 1;

/// Goes through a trail, and counts.
#[derive(Debug, Default)]
pub struct Replay {
    limits: BTreeMap<i64, Limits>,
    jobs: HashMap<i64, Known>,
    last_pushed: i64,
    /// Per queue the ready ones, the next first: less priority, then id.
    ready: BTreeMap<i64, BTreeSet<(i64, i64)>>,
    /// Ready since a job expired, as a claim may just be at work: queue, place.
    unseen: BTreeSet<(i64, (i64, i64))>,
    has_expired: bool,
    leased: BTreeMap<i64, BTreeSet<i64>>,
    /// Per group those that have not ended, and those that run.
    unended_of_group: BTreeMap<(i64, String), BTreeSet<i64>>,
    leased_of_group: BTreeMap<(i64, String), BTreeSet<i64>>,
    holders: BTreeMap<(i64, String), i64>,
    /// Jobs that were pushed.
    pub pushed: u64,
    /// Claims.
    pub claims: u64,
    /// Claims of a job that had been claimed before.
    pub claims_again: u64,
    /// Jobs that ended by an acknowledgement, in order.
    pub acked: Vec<(i64, u32)>,
    /// Jobs that died.
    pub dead: u64,
}

impl Replay {
    /// Makes a replay without changes; `limits` are by the queues' ids.
    pub fn new(limits: BTreeMap<i64, Limits>) -> Self {
        Self { limits, ..Self::default() }
    }

    /// Goes through a whole trail.
    ///
    /// # Panics
    /// At the first change that breaks a rule.
    pub fn run(&mut self, trail: &[Change]) {
        for change in trail {
            self.step(change);
        }
    }

    /// The state of a job at the end, if there is such a job.
    pub fn state(&self, job: i64) -> Option<JobState> {
        self.jobs.get(&job)?.state
    }

    /// Returns true if there ever was such a job.
    pub fn knows(&self, job: i64) -> bool {
        self.jobs.contains_key(&job)
    }

    fn step(&mut self, change: &Change) {
        self.check_way(change);
        let has_expired = self.look_for_expiry(change);
        if change.was == Some(JobState::Ready) {
            let place = (-change.priority, change.job);
            self.ready.entry(change.queue).or_default().remove(&place);
            self.unseen.remove(&(change.queue, place));
        }
        if change.is == Some(JobState::Leased) && change.was != Some(JobState::Leased) {
            self.check_claim(change);
        }
        let attempts = self.attempts_max(change);
        assert!(
            change.releases <= change.claims && change.claims - change.releases <= attempts,
            "more than {attempts} attempts: {change:?}"
        );
        self.remember(change, has_expired);
        self.check_key(change);
    }

    /// Returns true while a claim that found a job expired may be at work. When it is
    /// over, all claims see the jobs that became ready meanwhile.
    fn look_for_expiry(&mut self, change: &Change) -> bool {
        use JobState::{Blocked, Dead, Delayed, Leased, Ready};
        let is_of_claim = match (change.was, change.is) {
            (Some(Ready), Some(Dead)) => {
                self.has_expired = true;
                true
            }
            (Some(Ready), Some(Leased | Delayed)) | (Some(Blocked), Some(_)) => true,
            _ => false,
        };
        self.has_expired &= is_of_claim;
        if !self.has_expired {
            for (queue, place) in std::mem::take(&mut self.unseen) {
                self.ready.entry(queue).or_default().insert(place);
            }
        }
        self.has_expired
    }

    /// Rules 1 and 2.
    fn check_way(&mut self, change: &Change) {
        use JobState::{Blocked, Dead, Delayed, Done, Leased, Ready};
        let known = self.jobs.get(&change.job);
        assert_eq!(known.and_then(|known| known.state), change.was, "{change:?}");
        let claims = known.map_or(0, |known| known.claims);
        let is_claim = matches!((change.was, change.is), (Some(Ready), Some(Leased)));
        assert_eq!(change.claims, claims + u32::from(is_claim), "not claimed: {change:?}");
        let is_a_way = match (change.was, change.is) {
            (None, Some(Ready | Delayed | Blocked)) => {
                assert!(known.is_none() && change.job > self.last_pushed, "again: {change:?}");
                self.last_pushed = change.job;
                self.pushed += 1;
                true
            }
            (Some(Ready), Some(Leased | Delayed | Dead))
            | (Some(Leased), None | Some(Ready | Delayed | Blocked | Done | Dead))
            | (Some(Delayed), Some(Ready | Dead))
            | (Some(Blocked), Some(Ready | Delayed | Dead))
            | (Some(Done | Dead), None) => true,
            // Only `releases` has changed.
            (was, is) => was == is && was.is_some(),
        };
        assert!(is_a_way, "no way for a job to go: {change:?}");
    }

    /// Rules 3, 4 and 5.
    fn check_claim(&mut self, change: &Change) {
        let Limits { group_concurrency, concurrency, .. } = self.limits[&change.queue];
        let place = (-change.priority, change.job);
        let first = self.ready.entry(change.queue).or_default().first();
        assert!(first.is_none_or(|first| place < *first), "{first:?} goes before {change:?}");
        let running = self.leased.entry(change.queue).or_default().len();
        assert!(concurrency.is_none_or(|limit| running < limit), "{running} beside {change:?}");
        if let Some(group) = group_of(change) {
            let running = self.leased_of_group.get(&group).map_or(0, BTreeSet::len);
            assert!(running < group_concurrency, "{running} beside {change:?}");
            let unended = self.unended_of_group.get(&group);
            let earlier = unended.map_or(0, |jobs| jobs.range(..change.job).count());
            assert!(earlier < group_concurrency, "{earlier} unended before {change:?}");
        }
        self.claims += 1;
        self.claims_again += u64::from(change.claims > 1);
    }

    /// Rule 6. A job whose scope is the waiting gives its key away at its first
    /// claim, and has it no more if it waits again.
    fn check_key(&mut self, change: &Change) {
        let Some((key, scope)) = &change.key else { return };
        let place = (change.queue, key.clone());
        let holds = match (*scope, change.is) {
            (WHILE_WAITING, Some(state)) => {
                change.claims == 0 && state != JobState::Leased && !state.has_ended()
            }
            (UNTIL_ENDED, Some(state)) => !state.has_ended(),
            _ => false,
        };
        if holds {
            let holder = *self.holders.entry(place).or_insert(change.job);
            assert_eq!(holder, change.job, "has the key as well: {change:?}");
        } else if self.holders.get(&place) == Some(&change.job) {
            self.holders.remove(&place);
        }
    }

    fn remember(&mut self, change: &Change, has_expired: bool) {
        let Change { job, queue, is, .. } = *change;
        self.jobs.insert(job, Known { state: is, claims: change.claims });
        match is {
            Some(JobState::Ready) if has_expired => {
                self.unseen.insert((queue, (-change.priority, job)));
            }
            Some(JobState::Ready) => {
                self.ready.entry(queue).or_default().insert((-change.priority, job));
            }
            Some(JobState::Done) => self.acked.push((job, change.claims)),
            Some(JobState::Dead) if change.was != is => self.dead += 1,
            None if change.was == Some(JobState::Leased) => self.acked.push((job, change.claims)),
            _ => {}
        }
        let is_leased = is == Some(JobState::Leased);
        keep(self.leased.entry(queue).or_default(), job, is_leased);
        if let Some(group) = group_of(change) {
            let is_unended = is.is_some_and(|state| !state.has_ended());
            keep(self.unended_of_group.entry(group.clone()).or_default(), job, is_unended);
            keep(self.leased_of_group.entry(group).or_default(), job, is_leased);
        }
    }

    fn attempts_max(&self, change: &Change) -> u32 {
        change.attempts_max.unwrap_or_else(|| self.limits[&change.queue].attempts_max)
    }
}

fn keep(set: &mut BTreeSet<i64>, job: i64, is_in: bool) {
    if is_in {
        set.insert(job);
    } else {
        set.remove(&job);
    }
}

fn group_of(change: &Change) -> Option<(i64, String)> {
    Some((change.queue, change.group.clone()?))
}

#[cfg(test)]
mod tests {
    use std::panic::catch_unwind;

    use JobState::{Blocked, Dead, Delayed, Done, Leased, Ready};

    use super::*;

    type Way<'a> = (i64, Option<JobState>, Option<JobState>, u32);

    fn change((job, was, is, claims): Way<'_>) -> Change {
        Change {
            number: 0,
            job,
            queue: 1,
            was,
            is,
            claims,
            releases: 0,
            attempts_max: None,
            priority: 0,
            group: Some("g".to_owned()),
            key: Some(("k".to_owned(), WHILE_WAITING)),
            correlation_id: None,
        }
    }

    fn replay(changes: &[Change]) -> Replay {
        let limits = Limits { attempts_max: 2, group_concurrency: 1, concurrency: Some(1) };
        let mut replay = Replay::new(BTreeMap::from([(1, limits)]));
        replay.run(changes);
        replay
    }

    fn is_broken(changes: &[Change]) -> bool {
        catch_unwind(|| replay(changes)).is_err()
    }

    #[test]
    fn lives_that_jobs_may_have() {
        let trail = [
            (1, None, Some(Ready), 0),
            (1, Some(Ready), Some(Leased), 1),
            (2, None, Some(Blocked), 0),
            (1, Some(Leased), Some(Delayed), 1),
            (1, Some(Delayed), Some(Ready), 1),
            (1, Some(Ready), Some(Leased), 2),
            (1, Some(Leased), Some(Done), 2),
            (2, Some(Blocked), Some(Ready), 0),
            (2, Some(Ready), Some(Leased), 1),
            (2, Some(Leased), Some(Dead), 1),
            (2, Some(Dead), None, 1),
        ];
        let replay = replay(&trail.map(change));
        assert_eq!((replay.pushed, replay.claims, replay.claims_again, replay.dead), (2, 3, 1, 1));
        assert_eq!(replay.acked, [(1, 2)]);
        assert_eq!((replay.state(1), replay.state(2)), (Some(Done), None));
        assert!(replay.knows(2) && !replay.knows(3));
    }

    #[test]
    fn lives_that_no_job_may_have() {
        let [pushed, claimed] = [(1, None, Some(Ready), 0), (1, Some(Ready), Some(Leased), 1)];
        let broken: [&[Way<'_>]; 8] = [
            // An id again, one below, a claim of nothing, a claim that is not counted.
            &[pushed, claimed, (1, Some(Leased), None, 1), pushed],
            &[(2, None, Some(Ready), 0), pushed],
            &[claimed],
            &[pushed, (1, Some(Ready), Some(Leased), 0)],
            // Claimed after its end, twice, and too often.
            &[pushed, claimed, (1, Some(Leased), Some(Done), 1), (1, Some(Done), Some(Ready), 1)],
            &[pushed, claimed, (1, Some(Leased), Some(Leased), 2)],
            &[
                pushed,
                claimed,
                (1, Some(Leased), Some(Ready), 1),
                (1, Some(Ready), Some(Leased), 2),
                (1, Some(Leased), Some(Ready), 2),
                (1, Some(Ready), Some(Leased), 3),
            ],
            // A key that another one has.
            &[pushed, (2, None, Some(Blocked), 0)],
        ];
        for trail in broken {
            let trail: Vec<_> = trail.iter().copied().map(change).collect();
            assert!(is_broken(&trail), "{trail:?}");
        }
    }

    #[test]
    fn order_and_slots() {
        let plain = |job, was, is, claims| Change { key: None, ..change((job, was, is, claims)) };
        let pushed = |job| plain(job, None, Some(Ready), 0);
        let claimed = |job| plain(job, Some(Ready), Some(Leased), 1);
        let done = |job| plain(job, Some(Leased), Some(Done), 1);
        let without_group = |change: Change| Change { group: None, ..change };
        let urgent = |change: Change| Change { priority: 1, ..without_group(change) };
        // The second before the first, both at once, and one after the other.
        assert!(is_broken(&[pushed(1), pushed(2), claimed(2)]));
        assert!(is_broken(&[pushed(1), pushed(2), claimed(1), claimed(2)]));
        assert!(!is_broken(&[pushed(1), pushed(2), claimed(1), done(1), claimed(2)]));
        // Priority goes before age, and the limit of the queue holds without groups.
        let [first, second] = [without_group(pushed(1)), urgent(pushed(2))];
        assert!(is_broken(&[first.clone(), second.clone(), without_group(claimed(1))]));
        let both = [first, second, urgent(claimed(2))];
        assert!(!is_broken(&both));
        assert!(is_broken(&[&both[..], &[without_group(claimed(1))]].concat()));
    }
}
