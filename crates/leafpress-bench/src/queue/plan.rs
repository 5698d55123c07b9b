//! Groups of rungs of the Queue that are compared: the experiments "queue" and "queue-inserts".
//!
//! Rungs of clients run until their time is up, so that one round takes about as long on
//! every disk; rates are compared, not times. Where there are two ways to do without the
//! Queue, the better one of each round counts, and both are shown.

use super::inserts::{Inserter, InsertsRung, SqlSettings};
use super::rung::{ClaimRung, CycleRung, Filling, Keeper, Part, WakeupProcess, WakeupRung, Waking};
use crate::group::{Group, Measure};
use crate::options::{BenchOptions, Experiment};
use crate::report::Safety;
use crate::rung::kind::{QueueRung, RungKind};

/// Numbers of clients.
const CLIENTS: [u32; 3] = [1, 8, 64];

/// Delay of a sync where it is slow: with the thread's own delay in waking
/// up, 0.1 to 0.2 ms in all, which is a good disk without a cache of its own.
const SLOW_SYNC_US: u32 = 50;

/// Jobs of a call.
const BATCHES: [u32; 2] = [1, 100];

/// Size of the rungs.
#[derive(Debug, Clone, Copy)]
struct Size {
    is_quick: bool,
    /// The most jobs that wait for a claim.
    waiting_max: u64,
}

impl Size {
    /// Milliseconds that clients work.
    fn milliseconds_max(self, safety: Safety) -> u64 {
        match safety {
            _ if self.is_quick => 50,
            Safety::Durable => 1_000,
            _ => 300,
        }
    }

    /// Jobs that only the time ends, or that are filled in beforehand.
    fn jobs(self, part: Part, batch: u32) -> u64 {
        match (part, batch) {
            _ if self.is_quick => 2_000,
            // They wait already, so there must be enough of them for the time.
            (Part::ClaimAck, 1) => 100_000,
            (Part::ClaimAck, _) => 500_000,
            _ => 10_000_000,
        }
    }
}

/// A group that grows.
struct Builder {
    group: Group,
    size: Size,
    sync_delay_us: u32,
}

impl Builder {
    fn new(experiment: Experiment, size: Size) -> Self {
        Self { group: Group::new(experiment), size, sync_delay_us: 0 }
    }

    fn add(&mut self, rung: QueueRung) -> usize {
        self.group.add(RungKind::Queue(rung))
    }

    fn clients(&mut self, by: Keeper, part: Part, safety: Safety, of: (u32, u32)) -> usize {
        let (clients, batch) = of;
        let jobs = self.size.jobs(part, batch);
        let milliseconds_max = self.size.milliseconds_max(safety);
        let sync_delay_us = self.sync_delay_us;
        let rung =
            CycleRung { by, part, safety, clients, batch, jobs, milliseconds_max, sync_delay_us };
        self.add(QueueRung::Cycle(rung))
    }
}

/// The groups of "queue".
pub(crate) fn queue_groups(options: &BenchOptions) -> Vec<Group> {
    let size = Size { is_quick: options.is_quick(), waiting_max: options.waiting };
    let mut groups = Vec::new();
    for safety in Safety::ALL {
        for batch in BATCHES {
            for clients in CLIENTS {
                groups.push(cycle_group(size, safety, clients, batch, 0));
            }
        }
        groups.push(parts_group(size, safety));
    }
    for batch in BATCHES {
        groups.push(cycle_group(size, Safety::Durable, 64, batch, SLOW_SYNC_US));
    }
    groups.push(claim_group(size));
    groups.push(wakeup_group(size));
    groups
}

/// The full cycle by this many clients, beside SQLite in both ways.
fn cycle_group(size: Size, safety: Safety, clients: u32, batch: u32, sync_delay_us: u32) -> Group {
    let mut group = Builder { sync_delay_us, ..Builder::new(Experiment::Queue, size) };
    let of = (clients, batch);
    let ours = group.clients(Keeper::Leafpress, Part::Cycle, safety, of);
    let mutex = group.clients(Keeper::SqlMutex, Part::Cycle, safety, of);
    let connections = group.clients(Keeper::SqlConnections, Part::Cycle, safety, of);
    let prefix =
        if safety == Safety::Durable { String::new() } else { format!("{}_", safety.name()) };
    let slow = if sync_delay_us == 0 { "" } else { "_slow" };
    let suffix = if batch == 1 { slow.to_owned() } else { format!("_batch{batch}{slow}") };
    let name = |rest: &str| format!("{prefix}cycle{clients}{suffix}{rest}");
    group.group.compare(name(""), ours, &[mutex, connections], Measure::Rate);
    group.group.compare(name("_vs_mutex"), ours, &[mutex], Measure::Rate);
    group.group.compare(name("_vs_connections"), ours, &[connections], Measure::Rate);
    group.group
}

/// Pushes alone, and claims with their acknowledgements, beside no rival.
fn parts_group(size: Size, safety: Safety) -> Group {
    let mut group = Builder::new(Experiment::Queue, size);
    for part in [Part::Push, Part::ClaimAck] {
        for batch in BATCHES {
            for clients in CLIENTS {
                group.clients(Keeper::Leafpress, part, safety, (clients, batch));
            }
        }
    }
    group.group
}

/// Claims among few jobs and among many.
fn claim_group(size: Size) -> Group {
    let mut group = Builder::new(Experiment::Queue, size);
    let few = if size.is_quick { 200 } else { 1_000 };
    let many = size.waiting_max.max(few);
    let beside = if size.is_quick { 500 } else { 100_000 };
    let waiting = |waiting| Filling { waiting, leased: 0, delayed: 0 };
    let mut sizes: Vec<u64> = [100_000, 1_000_000].into_iter().filter(|it| *it < many).collect();
    sizes.insert(0, few);
    sizes.push(many);
    let mut claim = |safety, among, batch: u32| {
        let claims = match (size.is_quick, batch) {
            (true, _) => 30,
            (false, 1) => 2_000,
            (false, _) => 200,
        };
        group.add(QueueRung::Claim(ClaimRung { safety, among, batch, claims }))
    };
    let mut single = Vec::new();
    let mut batches = Vec::new();
    for jobs in &sizes {
        single.push(claim(Safety::Relaxed, waiting(*jobs), 1));
        batches.push(claim(Safety::Relaxed, waiting(*jobs), 100));
    }
    let durable = [few, many].map(|jobs| claim(Safety::Durable, waiting(jobs), 1));
    let leased = Filling { leased: beside, ..waiting(few) };
    let leased = claim(Safety::Relaxed, leased, 1);
    let delayed = Filling { delayed: beside, ..waiting(few) };
    let delayed = claim(Safety::Relaxed, delayed, 1);
    let last = sizes.len() - 1;
    for (name, ours, rival, measure) in [
        ("claim_10m", single[last], single[0], Measure::Median),
        ("claim_10m_mean", single[last], single[0], Measure::Rate),
        ("claim_10m_batch100", batches[last], batches[0], Measure::Median),
        ("claim_10m_durable", durable[1], durable[0], Measure::Median),
        ("claim_100k_leased", leased, single[0], Measure::Median),
        ("claim_100k_delayed", delayed, single[0], Measure::Median),
    ] {
        group.group.compare(name.to_owned(), ours, &[rival], measure);
    }
    group.group
}

/// A consumer in another process.
fn wakeup_group(size: Size) -> Group {
    let mut group = Builder::new(Experiment::Queue, size);
    let jobs = if size.is_quick { 10 } else { 300 };
    let ways = [Waking::Waits, Waking::SqlPolls, Waking::Polls];
    let process = WakeupProcess::Pusher;
    let rung = |by| QueueRung::Wakeup(WakeupRung { by, process, jobs });
    let [ours, sql, polls] = ways.map(|by| group.add(rung(by)));
    for (name, rivals, measure) in [
        ("wakeup", &[sql, polls][..], Measure::Median),
        ("wakeup_vs_sql", &[sql], Measure::Median),
        ("wakeup_vs_same_claim", &[polls], Measure::Median),
        ("wakeup_from_call", &[sql, polls], Measure::MedianFromCall),
        ("wakeup_p99", &[sql, polls], Measure::P99),
    ] {
        group.group.compare(name.to_owned(), ours, rivals, measure);
    }
    group.group
}

/// The group of "queue-inserts": two charts, in each of which ours at its best comes last.
///
/// "Equal" is SQLite's WAL with its default of FULL: of the settings that the post tries it is
/// the only one under which a row that was acknowledged survives a power cut.
pub(crate) fn inserts_groups(options: &BenchOptions) -> Vec<Group> {
    use Inserter::{Push, PushMany, SqlEach, SqlOnce, Writer, WriterMany};
    let rows = options.size.of(2_000, 10_000, 10_000);
    let milliseconds_max = (options.size.patience_s() * 1e3) as u64;
    let size = Size { is_quick: options.is_quick(), waiting_max: 0 };
    let mut group = Builder::new(Experiment::QueueInserts, size);
    let mut add = |by| group.add(QueueRung::Inserts(InsertsRung { by, rows, milliseconds_max }));
    let (durable, relaxed) = (Safety::Durable, Safety::Relaxed);
    let [default, _, _, wal, wal_normal] = SqlSettings::ALL.map(|it| add(SqlEach(it)));
    let _relaxed_writers = [1, 64].map(|callers| add(Writer(relaxed, callers)));
    let relaxed_pushes = [1, 64].map(|callers| add(Push(relaxed, callers)));
    let pushes = [1, 64].map(|callers| add(Push(durable, callers)));
    let writers = [1, 64].map(|callers| add(Writer(durable, callers)));
    let [_, _, _, wal_once, _] = SqlSettings::ALL.map(|it| add(SqlOnce(it)));
    let many = add(PushMany(durable));
    let writer_many = add(WriterMany(durable));
    for (name, ours, rival) in [
        ("queue_inserts_vs_equal", writers[1], wal),
        ("queue_inserts_vs_default", writers[1], default),
        ("writer64_vs_transactions", writers[1], default),
        ("writer64_vs_wal_transactions", writers[1], wal),
        ("writer1_vs_wal_transactions", writers[0], wal),
        ("push64_vs_transactions", pushes[1], default),
        ("push64_vs_wal_transactions", pushes[1], wal),
        ("push1_vs_wal_transactions", pushes[0], wal),
        ("relaxed_push64_vs_wal_normal_transactions", relaxed_pushes[1], wal_normal),
        ("push_many_vs_one_transaction", many, wal_once),
        ("insert_many_vs_one_transaction", writer_many, wal_once),
    ] {
        group.group.compare(name.to_owned(), ours, &[rival], Measure::Wall);
    }
    vec![group.group]
}
