//! Versions of SQLite with the WAL-reset bug.
//!
//! Stands below the rest: whatever opens databases, or looks at processes that
//! have them open, asks here.

use crate::error::{Error, Result};

/// Fails if this SQLite can damage a database when one connection makes a
/// checkpoint while another writes (the WAL-reset bug).
///
/// `version_number` is SQLite's own, such as 3051003; pass
/// `rusqlite::version_number()`, which is that of the linked library.
///
/// # Errors
/// For 3.7.0 to 3.51.2, except 3.50.7 and later of 3.50, and 3.44.6 and later
/// of 3.44.
pub fn check_background_checkpoints(version_number: i32) -> Result<()> {
    let is_mended_branch = matches!(version_number, 3_050_007..=3_050_999 | 3_044_006..=3_044_999);
    if !(3_007_000..=3_051_002).contains(&version_number) || is_mended_branch {
        return Ok(());
    }
    let (major, minor, patch) =
        (version_number / 1_000_000, version_number / 1000 % 1000, version_number % 1000);
    Err(Error::unsupported(format!(
        "the linked SQLite {major}.{minor}.{patch} can damage a database when one connection \
         makes a checkpoint while another writes (the WAL-reset bug)"
    ))
    .on_disk("nothing was changed")
    .to_do("link SQLite 3.51.3 or later (or 3.50.7, 3.44.6), or choose the profile rollback"))
}
