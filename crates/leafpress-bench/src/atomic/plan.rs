//! Groups of rungs of one-row transactions that are compared.
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

use leafpress::profile::{JournalMode, Locking, Synchronous};

use super::accounting::{AccountingRung, Layers};
use super::rung::{AtomicRung, Change, Opener, Pages};
use crate::group::{Group, Measure, RatioPlan};
use crate::options::{BenchOptions, Experiment};
use crate::pragmas::Pragmas;
use crate::rung::described::Place;
use crate::rung::kind::RungKind;

/// Milliseconds of a rung at most, whatever it has done: a limit to patience on a slow
/// disk.
const MILLISECONDS_MAX: u64 = 300;

/// Rows that are inserted in one transaction to see what counting costs.
const ACCOUNTING_ROWS: u64 = 1_000_000;
const ACCOUNTING_ROWS_QUICK: u64 = 20_000;

/// Journal modes, the safe ones first.
const JOURNALS: [JournalMode; 6] = [
    JournalMode::Delete,
    JournalMode::Truncate,
    JournalMode::Persist,
    JournalMode::Wal,
    JournalMode::Memory,
    JournalMode::Off,
];

/// Syncs that are measured: OFF has none.
const SYNCHRONOUS: [Synchronous; 3] = [Synchronous::Normal, Synchronous::Full, Synchronous::Extra];

/// A rung of SQLite that is compared with ours, as DELETE + EXTRA and WAL + FULL are.
const PERSIST_FULL: Pragmas = Pragmas::new(JournalMode::Persist, Synchronous::Full);

/// The others that are not left out.
const OTHERS: [Pragmas; 5] = [
    Pragmas::new(JournalMode::Truncate, Synchronous::Full),
    Pragmas::new(JournalMode::Delete, Synchronous::Full),
    Pragmas::new(JournalMode::Wal, Synchronous::Normal),
    Pragmas::new(JournalMode::Memory, Synchronous::Full),
    Pragmas::new(JournalMode::Off, Synchronous::Full),
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
    let sql = |pragmas| kind(Opener::Sql(pragmas));
    // On the user's word where he gave it, in this place too.
    let wish = if options.atomic.assume { Pages::Assumed } else { Pages::WhereProven };
    let mut kinds = vec![
        kind(Opener::Leafpress(wish)),
        sql(Pragmas::DELETE_EXTRA),
        sql(PERSIST_FULL),
        sql(Pragmas::WAL_FULL),
        kind(Opener::Leafpress(Pages::Journal)),
        kind(Opener::LeafpressSmall(wish)),
    ];
    let grid = JOURNALS.into_iter().flat_map(|it| SYNCHRONOUS.map(|sync| Pragmas::new(it, sync)));
    let is_wanted = |settings: &Pragmas| options.atomic.full || OTHERS.contains(settings);
    for settings in grid.filter(is_wanted) {
        if !kinds.contains(&sql(settings)) {
            kinds.push(sql(settings));
        }
    }
    let suffix = options.atomic.xfs_loop.then(|| place.name().to_owned());
    let ratios = ratios(change, locking);
    Group { kinds, ratios, suffix, ..Group::new(Experiment::Atomic) }
}

/// Ours, the first rung, beside the three that follow it.
fn ratios(change: Change, locking: Locking) -> Vec<RatioPlan> {
    let prefix = if change == Change::Insert { "insert_" } else { "" };
    let locking = locking.name();
    let ratio = |name: &str, rival, measure| {
        RatioPlan::new(format!("{prefix}{name}_{locking}"), 0, &[rival], measure)
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
    let ratio = |name: &str, rival| RatioPlan::new(name, 0, &[rival], Measure::Wall);
    let ratios = vec![ratio("counted_vs_plain", 1), ratio("counted_vs_sqlite", 2)];
    Group { kinds: kinds.to_vec(), ratios, ..Group::new(Experiment::Atomic) }
}
