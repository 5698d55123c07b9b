//! Warm-up of a rung's process, in another database.

use std::fs;
use std::path::Path;

use crate::error::{Error, Result};
use crate::rung::result::RungResult;

/// Does a little of the work in another database, which is removed, so that no rival pays for the
/// start of its process.
pub(crate) fn warmed_up(
    database: &Path,
    work: impl FnOnce(&Path) -> Result<RungResult>,
) -> Result<()> {
    let other = database.with_extension("warming-up");
    work(&other)?;
    fs::remove_file(&other).map_err(Error::io("remove", &other))
}
