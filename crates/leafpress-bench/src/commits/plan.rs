//! Groups of rungs of commits that are compared: the experiments "writer", where the rate matters,
//! and "checkpoint", where the slowest commits do.
//!
//! Rungs run until their rows are there or their time is up, so that one round
//! takes about as long on every disk; rates are compared, not times. Rivals that
//! are compared with one another stand in one group, as near as may be.

use super::rung::{Calls, CommitRung, Committer, Scene};
use super::table::Table;
use crate::group::{Group, Measure};
use crate::options::Experiment;
use crate::report::Safety;
use crate::rung::kind::RungKind;

/// Rows of a rung that only its time ends.
const ROWS_MAX: u64 = 1_000_000;

/// Rows that are also put in one transaction, which nothing cuts.
const TRANSACTION_ROWS: u64 = 500_000;

/// Rows of the tables with a trigger, foreign keys or indexes, by both rivals: an index gets slower as it
/// grows, so rates of different numbers of rows could not be compared.
const LADEN_ROWS: u64 = 200_000;

/// Size of the rungs of "writer".
#[derive(Debug, Clone, Copy, Default)]
struct Size {
    rows_max: u64,
    transaction_rows: u64,
    milliseconds_max: u64,
}

/// A group that grows.
struct Builder {
    group: Group,
    safety: Safety,
    size: Size,
}

impl Builder {
    fn new(experiment: Experiment, safety: Safety, size: Size) -> Self {
        Self { group: Group::new(experiment), safety, size }
    }

    fn add(&mut self, rung: CommitRung) -> usize {
        self.group.add(RungKind::Commits(rung))
    }

    fn rate(&mut self, by: Committer, calls: Calls) -> usize {
        let Size { rows_max, transaction_rows, milliseconds_max } = self.size;
        let is_whole = by == Committer::OneTransaction || calls == Calls::InFlight(4096);
        let rows = if is_whole { transaction_rows } else { rows_max };
        let (safety, scene, table) = (self.safety, Scene::Rate, Table::Plain);
        self.add(CommitRung { by, safety, calls, scene, rows, milliseconds_max, table })
    }

    /// All rows of one transaction, into this table.
    fn rate_in(&mut self, table: Table, by: Committer, calls: Calls) -> usize {
        let Size { transaction_rows: rows, milliseconds_max, .. } = self.size;
        let (safety, scene) = (self.safety, Scene::Rate);
        self.add(CommitRung { by, safety, calls, scene, rows, milliseconds_max, table })
    }

    fn compare(&mut self, name: impl Into<String>, ours: usize, rival: usize, measure: Measure) {
        self.group.compare(name, ours, &[rival], measure);
    }

    fn compare_rates(&mut self, name: impl Into<String>, ours: usize, rival: usize) {
        self.compare(name, ours, rival, Measure::Rate);
    }
}

/// The groups of "writer".
pub(crate) fn writer_groups(quick: bool) -> Vec<Group> {
    let size = |milliseconds_max| {
        if quick {
            Size { rows_max: 300, transaction_rows: 300, milliseconds_max: 100 }
        } else {
            Size { rows_max: ROWS_MAX, transaction_rows: TRANSACTION_ROWS, milliseconds_max }
        }
    };
    let durable = size(1200);
    let other = size(300);
    let mut groups =
        vec![per_call_group(durable), transaction_group(durable), callers_group(durable)];
    let others = [Safety::Relaxed, Safety::Rollback, Safety::Rebuildable];
    groups.extend(others.map(|safety| profile_group(safety, other)));
    let laden = Size { transaction_rows: durable.transaction_rows.min(LADEN_ROWS), ..size(5_000) };
    groups.extend(Table::LADEN.map(|table| table_group(table, laden)));
    groups
}

/// Durable, into a table that has more to do for each row, beside all rows in one transaction and beside
/// groups without isolation, which show what commits of that size cost by themselves.
fn table_group(table: Table, size: Size) -> Group {
    let mut group = Builder::new(Experiment::Writer, Safety::Durable, size);
    let transaction = group.rate_in(table, Committer::OneTransaction, Calls::Blocking(1));
    let name = table.ratio_name();
    let pipelined = group.rate_in(table, Committer::Leafpress, Calls::InFlight(512));
    group.compare_rates(format!("{name}_vs_one_transaction"), pipelined, transaction);
    if table == Table::FullText {
        // A savepoint makes a full-text index write its buffers, so the kinds of calls differ.
        for (kind, calls) in
            [("insert_many", Calls::Many(1000)), ("closures", Calls::Closures(512))]
        {
            let ours = group.rate_in(table, Committer::Leafpress, calls);
            group.compare_rates(format!("{name}_{kind}_vs_one_transaction"), ours, transaction);
        }
    }
    let bare = group.rate_in(table, Committer::BareGroups, Calls::InFlight(512));
    group.compare_rates(format!("{name}_vs_bare_groups"), pipelined, bare);
    group.group
}

/// Durable, beside one commit per call and groups without isolation.
fn per_call_group(size: Size) -> Group {
    use Calls::{Blocking, InFlight};
    use Committer::{BareGroups, Leafpress, Mutex, PerCall, SavepointGroups};
    let mut group = Builder::new(Experiment::Writer, Safety::Durable, size);
    let per_call = group.rate(PerCall, Blocking(1));
    let alone = group.rate(Leafpress, Blocking(1));
    let blocking = group.rate(Leafpress, Blocking(64));
    let pipelined = group.rate(Leafpress, InFlight(512));
    let mutex = group.rate(Mutex, Blocking(64));
    let bare_blocking = group.rate(BareGroups, Blocking(64));
    let bare_pipelined = group.rate(BareGroups, InFlight(512));
    let savepoints = group.rate(SavepointGroups, InFlight(512));
    group.compare_rates("alone", alone, per_call);
    group.compare_rates("blocking64", blocking, per_call);
    group.compare_rates("pipelined512", pipelined, per_call);
    group.compare_rates("blocking64_vs_mutex", blocking, mutex);
    group.compare_rates("blocking64_vs_bare_groups", blocking, bare_blocking);
    group.compare_rates("pipelined512_vs_bare_groups", pipelined, bare_pipelined);
    group.compare_rates("pipelined512_vs_savepoints", pipelined, savepoints);
    group.group
}

/// Durable, beside all rows in one transaction.
fn transaction_group(size: Size) -> Group {
    use Calls::{Blocking, InFlight};
    use Committer::{BareGroups, Leafpress, OneTransaction, SavepointGroups};
    let mut group = Builder::new(Experiment::Writer, Safety::Durable, size);
    let transaction = group.rate(OneTransaction, Blocking(1));
    let pipelined = group.rate(Leafpress, InFlight(4096));
    let bare = group.rate(BareGroups, InFlight(4096));
    let savepoints = group.rate(SavepointGroups, InFlight(4096));
    group.compare_rates("pipelined_vs_one_transaction", pipelined, transaction);
    group.compare_rates("pipelined4096_vs_bare_groups", pipelined, bare);
    group.compare_rates("pipelined4096_vs_savepoints", pipelined, savepoints);
    group.group
}

/// Durable, the other numbers of callers.
fn callers_group(size: Size) -> Group {
    use Calls::{Blocking, InFlight};
    use Committer::{Leafpress, Mutex};
    let mut group = Builder::new(Experiment::Writer, Safety::Durable, size);
    for callers in [8, 512] {
        let mutex = group.rate(Mutex, Blocking(callers));
        let ours = group.rate(Leafpress, Blocking(callers));
        group.compare_rates(format!("blocking{callers}_vs_mutex"), ours, mutex);
    }
    for calls in [1, 8, 64] {
        group.rate(Leafpress, InFlight(calls));
    }
    group.group
}

/// Another profile.
fn profile_group(safety: Safety, size: Size) -> Group {
    use Calls::{Blocking, InFlight};
    use Committer::{Leafpress, Mutex, OneTransaction, PerCall};
    let mut group = Builder::new(Experiment::Writer, safety, size);
    let named = |name: &str| format!("{}_{name}", safety.name());
    let per_call = group.rate(PerCall, Blocking(1));
    let alone = group.rate(Leafpress, Blocking(1));
    let blocking = group.rate(Leafpress, Blocking(64));
    let pipelined = group.rate(Leafpress, InFlight(512));
    let mutex = group.rate(Mutex, Blocking(64));
    let transaction = group.rate(OneTransaction, Blocking(1));
    let many = group.rate(Leafpress, InFlight(4096));
    group.compare_rates(named("alone"), alone, per_call);
    group.compare_rates(named("blocking64"), blocking, per_call);
    group.compare_rates(named("pipelined512"), pipelined, per_call);
    group.compare_rates(named("blocking64_vs_mutex"), blocking, mutex);
    group.compare_rates(named("pipelined_vs_one_transaction"), many, transaction);
    for callers in [8, 512] {
        group.rate(Leafpress, Blocking(callers));
    }
    for calls in [1, 8, 64] {
        group.rate(Leafpress, InFlight(calls));
    }
    group.group
}

/// Seconds after which a rung of "checkpoint" ends, whatever it has done: enough
/// for a million commits, and on a slow disk a limit to patience.
const COURSE_MILLISECONDS_MAX: u64 = 60_000;

/// Such a limit for the scenes beside it, which have fewer commits.
const SCENE_MILLISECONDS_MAX: u64 = 20_000;

/// The groups of "checkpoint", of this many commits each; the scenes have a part of
/// them.
pub(crate) fn checkpoint_groups(commits: u64) -> Vec<Group> {
    vec![
        course_group(commits),
        slow_group(commits),
        scene_group(Scene::LongReader, "long_reader", (commits * 3 / 10).max(3)),
        scene_group(Scene::ShortReaders, "short_readers", (commits / 5).max(1)),
    ]
}

fn course(by: Committer, calls: Calls, scene: Scene, rows: u64) -> CommitRung {
    let milliseconds_max =
        if scene == Scene::Course { COURSE_MILLISECONDS_MAX } else { SCENE_MILLISECONDS_MAX };
    let (safety, table) = (Safety::Relaxed, Table::Plain);
    CommitRung { by, safety, calls, scene, rows, milliseconds_max, table }
}

/// Commits one after the other, nothing else going on.
fn course_group(commits: u64) -> Group {
    use Calls::{Blocking, InFlight};
    use Committer::{Leafpress, PerCall};
    let mut group = Builder::new(Experiment::Checkpoint, Safety::Relaxed, Size::default());
    let auto = group.add(course(PerCall, Blocking(1), Scene::Course, commits));
    let alone = group.add(course(Leafpress, Blocking(1), Scene::Course, commits));
    let pipelined = group.add(course(Leafpress, InFlight(512), Scene::Course, commits));
    // Its WAL grows by more than 4 KB a commit.
    let none = course(PerCall, Blocking(1), Scene::NoCheckpoints, (commits / 5).max(1));
    let none = group.add(none);
    group.compare("worst_commit", alone, auto, Measure::Worst);
    group.compare("p999_commit", alone, auto, Measure::P999);
    group.compare_rates("commits_a_second", alone, auto);
    group.compare("worst_commit_pipelined", pipelined, auto, Measure::Worst);
    group.compare("p999_commit_pipelined", pipelined, auto, Measure::P999);
    group.compare("worst_commit_vs_none", alone, none, Measure::Worst);
    group.group
}

/// Commits while something else goes on.
fn scene_group(scene: Scene, name: &str, commits: u64) -> Group {
    alone_in(scene, name, commits).0.group
}

/// Commits on a disk with slow syncs, and there also all of the commits by many
/// callers: in large groups their log does not come to its bound.
fn slow_group(commits: u64) -> Group {
    let name = "slow";
    let (mut group, auto) = alone_in(Scene::SlowSyncs, name, (commits / 10).max(1));
    let many = course(Committer::Leafpress, Calls::InFlight(512), Scene::SlowSyncs, commits);
    let many = group.add(many);
    group.compare(format!("worst_commit_{name}_pipelined"), many, auto, Measure::Worst);
    group.compare(format!("p999_commit_{name}_pipelined"), many, auto, Measure::P999);
    group.group
}

/// One caller alone beside plain SQLite, which comes second.
fn alone_in(scene: Scene, name: &str, commits: u64) -> (Builder, usize) {
    use Calls::Blocking;
    use Committer::{Leafpress, PerCall};
    let mut group = Builder::new(Experiment::Checkpoint, Safety::Relaxed, Size::default());
    let auto = group.add(course(PerCall, Blocking(1), scene, commits));
    let alone = group.add(course(Leafpress, Blocking(1), scene, commits));
    group.compare(format!("worst_commit_{name}"), alone, auto, Measure::Worst);
    group.compare(format!("p999_commit_{name}"), alone, auto, Measure::P999);
    (group, auto)
}
