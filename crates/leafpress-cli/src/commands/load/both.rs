//! Parts that a load into a file and a load into a cluster share.

use leafpress::load::{DryRun, IntoTable, Report};

use crate::flags::LoadFlags;

/// The result of the work for a file.
pub enum Outcome {
    /// The rows are in it.
    Loaded(Report),
    /// The input was only looked at.
    Dry(DryRun),
}

/// Returns true if a table that is missing is made. A call that names the key means the table, and no other by a slip.
pub fn makes_missing(flags: &LoadFlags, into: IntoTable) -> bool {
    matches!(into, IntoTable::Append | IntoTable::Replace) || !flags.keys.pk.is_empty()
}

/// Returns true if no progress is shown.
pub fn is_silent(flags: &LoadFlags) -> bool {
    flags.run.quiet || flags.run.json || flags.run.no_progress
}
