//! A load that two copies of SQLite in one process put on one database, and the judge.
//!
//! ```text
//! parent: a process with one SQLite          child: a process with two copies
//!   start ──────────────────────────────────►  8 threads of the second copy
//!   outside: inserts beside it                  8 threads of ours
//!   told: which rows were acknowledged ◄──────  lines on standard output
//!   judge: what is in the database
//! ```
//!
//! Each transaction has an id and inserts one to three rows that bear it, so that the
//! judge can tell whether it is there once, twice, in part or not at all:
//!
//! 1. A transaction that was acknowledged is there exactly once and whole.
//! 2. A transaction that was answered "busy" has left nothing: it is tried again with
//!    the same id, so that a row of the first attempt would be a double one.
//! 3. No transaction is there in part, whatever was answered.
//! 4. A connection sees what was acknowledged to its own thread before.
//! 5. `integrity_check` says ok.
//!
//! | file | holds |
//! |---|---|
//! | `child.rs` | the process with two copies: ids, threads, and what it tells |
//! | `neighbour_side.rs`, `our_side.rs` | the work of a thread of each copy |
//! | `parent.rs` | starting a child, writing beside it, hearing what it tells, killing it |
//! | `judge.rs` | the five rules |
//!
//! Must never: let the parent use the second copy or `leafpress`, since it stands for
//! the other programs of the machine.

mod child;
mod judge;
mod neighbour_side;
mod our_side;
mod parent;

pub use child::{run_if_child, transaction_of};
pub use judge::{Verdict, judge};
pub use parent::{Beside, Child, Told, make_database, number_from_environment};

use leafpress::Profile;

/// Threads of each copy.
pub const THREADS_EACH: u64 = 8;

/// The work of a child.
#[derive(Clone, Copy, Debug)]
pub struct Load {
    /// The profile of our copy's Writers; all others use its journal mode.
    pub profile: Profile,
    /// Ids of its transactions begin here.
    pub first_id: i64,
    /// Number of transactions of both copies together.
    pub transactions: i64,
    /// The seed of its threads' choices.
    pub seed: u64,
    /// Our copy's threads go through `leafpress`. Without, the child calls nothing of
    /// it, so both copies are SQLite as it is: the control.
    pub with_leafpress: bool,
    /// Copies of SQLite in this process.
    pub copies: Copies,
}

/// The copies that a child uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Copies {
    /// Both: what is tested.
    Both,
    /// Ours alone.
    Ours,
    /// The second copy alone.
    Neighbours,
}
