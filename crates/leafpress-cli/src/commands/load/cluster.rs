//! A new cluster of rqlite in place of a database: a file is pressed, and given to the lone node.

use std::path::Path;

use leafpress::Error;

use super::Outcome;

/// The URL of a cluster that stands where a database does.
pub fn url_of(database: &Path) -> Option<&str> {
    let text = database.to_str()?;
    ["rqlite://", "rqlites://"].iter().any(|scheme| text.starts_with(scheme)).then_some(text)
}

/// Does the work for a temporary file, and gives that to the cluster unless it was a dry run.
///
/// # Errors
/// Those of the work: then nothing was sent; those of [`boot`](leafpress_rqlite::boot).
#[cfg(feature = "rqlite")]
pub fn load(
    url: &str,
    tmpdir: Option<&Path>,
    work: impl FnOnce(&Path) -> Result<Outcome, Error>,
) -> Result<Outcome, Error> {
    let address: leafpress_rqlite::Address = url.parse()?;
    let parent = tmpdir.map_or_else(std::env::temp_dir, Path::to_owned);
    let failed = |source| Error::io("make a folder in", &parent, source);
    #[expect(clippy::disallowed_methods, reason = "the folder is its owner's alone")]
    let folder =
        tempfile::Builder::new().prefix("leafpress-").tempdir_in(&parent).map_err(failed)?;
    let file = folder.path().join("pressed.db");
    let mut outcome = work(&file)?;
    if let Outcome::Loaded(report) = &mut outcome {
        let booted = leafpress_rqlite::boot(&address, &file)?;
        report.elapsed += booted.elapsed;
        report.notes.push(format!(
            "the node took {} bytes by /boot, and counts {} rows; let other nodes join it now",
            booted.bytes,
            booted.tables.iter().map(|(_, rows)| rows).sum::<u64>()
        ));
        report.database = booted.node.into();
    }
    Ok(outcome)
}

/// Says that this build knows no clusters.
///
/// # Errors
/// Always.
#[cfg(not(feature = "rqlite"))]
pub fn load(
    url: &str,
    _: Option<&Path>,
    _: impl FnOnce(&Path) -> Result<Outcome, Error>,
) -> Result<Outcome, Error> {
    let scheme = url.split("://").next().unwrap_or_default();
    Err(Error::misuse(format!("{scheme}:// is a cluster of rqlite, which this build cannot reach"))
        .to_do("install it so: cargo install --path crates/leafpress-cli --features rqlite"))
}
