//! Which rungs of one-row transactions are compared with which.
//!
//! A group is one kind of change under one kind of locking in one place, so that
//! all that is compared is interleaved. Without `full`, the rungs are those that
//! answer a question:
//!
//! | question | rungs |
//! |---|---|
//! | what does the journal cost that is not needed? | ours atomic, SQL delete extra |
//! | and beside the cheapest journal that is as safe? | SQL persist full, truncate full |
//! | is a write-ahead log still better? | SQL wal full, wal normal |
//! | what is lost without `EXTRA`? | SQL delete full |
//! | how near is it to no journal at all? | SQL memory full, off full, which can corrupt |
//! | what does our own layer cost? | ours with a journal, beside SQL delete extra |
//! | what does a small device pay? | ours atomic, small |
//!
//! Does nothing itself.

use super::accounting::{AccountingRung, Layers};
use super::{AtomicRung, Change, Journal, Locking, Opener, Pages, Place, Synchronous};
use crate::group::{Group, Measure, RatioPlan};
use crate::options::{BenchOptions, Experiment};
use crate::rung::{RungKind, Work};

/// What a rung takes at most, whatever it has done: a limit to patience on a slow
/// disk.
const MILLISECONDS_MAX: u64 = 300;

/// Rows that are inserted in one transaction to see what counting costs.
const ACCOUNTING_ROWS: u64 = 1_000_000;
const ACCOUNTING_ROWS_QUICK: u64 = 20_000;

/// The rungs of SQLite that are compared with ours; each is in every plan.
const DELETE_EXTRA: (Journal, Synchronous) = (Journal::Delete, Synchronous::Extra);
const PERSIST_FULL: (Journal, Synchronous) = (Journal::Persist, Synchronous::Full);
const WAL_FULL: (Journal, Synchronous) = (Journal::Wal, Synchronous::Full);

/// The others that are not left out.
const OTHERS: [(Journal, Synchronous); 5] = [
    (Journal::Truncate, Synchronous::Full),
    (Journal::Delete, Synchronous::Full),
    (Journal::Wal, Synchronous::Normal),
    (Journal::Memory, Synchronous::Full),
    (Journal::Off, Synchronous::Full),
];

/// The groups of "atomic".
pub(crate) fn atomic_groups(options: &BenchOptions) -> Vec<Group> {
    let places =
        if options.atomic.xfs_loop { &[Place::Disk, Place::XfsLoop][..] } else { &[Place::Disk] };
    let mut groups = Vec::new();
    for place in places {
        for change in [Change::Update, Change::Insert] {
            for locking in [Locking::Exclusive, Locking::Shared] {
                groups.push(transactions_group(options, *place, change, locking));
            }
        }
    }
    groups.push(accounting_group(options.is_quick()));
    groups
}

fn transactions_group(
    options: &BenchOptions,
    place: Place,
    change: Change,
    locking: Locking,
) -> Group {
    let kind = |by| {
        let (transactions, milliseconds_max) = (options.atomic.transactions, MILLISECONDS_MAX);
        let rung = AtomicRung { by, change, locking, place, transactions, milliseconds_max };
        RungKind::Atomic(rung)
    };
    let sql = |(journal, synchronous)| kind(Opener::Sql(journal, synchronous));
    // On the user's word where he gave it, in this place too.
    let wish = if options.atomic.assume { Pages::Assumed } else { Pages::WhereProven };
    let mut kinds = vec![
        kind(Opener::Leafpress(wish)),
        sql(DELETE_EXTRA),
        sql(PERSIST_FULL),
        sql(WAL_FULL),
        kind(Opener::Leafpress(Pages::Journal)),
        kind(Opener::LeafpressSmall(wish)),
    ];
    let grid = Journal::ALL.into_iter().flat_map(|it| Synchronous::ALL.map(|sync| (it, sync)));
    let is_wanted =
        |settings: &(Journal, Synchronous)| options.atomic.full || OTHERS.contains(settings);
    for settings in grid.filter(is_wanted) {
        if !kinds.contains(&sql(settings)) {
            kinds.push(sql(settings));
        }
    }
    let ratios = ratios(change, locking);
    let suffix = options.atomic.xfs_loop.then(|| place.name().to_owned());
    Group {
        work: Work::Atomic,
        rows: 0,
        memory_bytes: None,
        kinds,
        ratios,
        suffix,
        experiment: Experiment::Atomic,
    }
}

/// Ours, the first rung, beside the three that follow it.
fn ratios(change: Change, locking: Locking) -> Vec<RatioPlan> {
    let prefix = if change == Change::Insert { "insert_" } else { "" };
    let locking = locking.name();
    let ratio = |name: &str, rival, measure| {
        let name = format!("{prefix}{name}_{locking}");
        RatioPlan { name, ours: 0, rivals: vec![rival], measure }
    };
    vec![
        ratio("atomic_vs_journal", 1, Measure::Rate),
        ratio("atomic_vs_persist", 2, Measure::Rate),
        ratio("atomic_vs_wal", 3, Measure::Rate),
        ratio("calls_vs_journal", 1, Measure::CallsPerTransaction),
    ]
}

fn accounting_group(quick: bool) -> Group {
    let rows = if quick { ACCOUNTING_ROWS_QUICK } else { ACCOUNTING_ROWS };
    let kinds = [Layers::Counted, Layers::Plain, Layers::None]
        .map(|layers| RungKind::Accounting(AccountingRung { layers, rows }));
    let ratio = |name: &str, rival| RatioPlan {
        name: name.to_owned(),
        ours: 0,
        rivals: vec![rival],
        measure: Measure::Wall,
    };
    let ratios = vec![ratio("counted_vs_plain", 1), ratio("counted_vs_sqlite", 2)];
    let kinds = kinds.to_vec();
    Group {
        work: Work::Accounting,
        rows,
        memory_bytes: None,
        kinds,
        ratios,
        suffix: None,
        experiment: Experiment::Atomic,
    }
}
