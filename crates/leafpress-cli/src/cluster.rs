//! The URL of a cluster of rqlite where a database is named.
//!
//! Must never: reach a cluster; the commands do.

use std::path::Path;

#[cfg(not(feature = "rqlite"))]
use leafpress::Error;

/// The URL of a cluster that stands where a database does.
pub fn url_of(database: &Path) -> Option<&str> {
    let text = database.to_str()?;
    ["rqlite://", "rqlites://"].iter().any(|scheme| text.starts_with(scheme)).then_some(text)
}

/// The error of a build that knows no clusters.
#[cfg(not(feature = "rqlite"))]
pub fn unreachable(url: &str) -> Error {
    let scheme = url.split("://").next().unwrap_or_default();
    Error::misuse(format!("{scheme}:// is a cluster of rqlite, which this build cannot reach"))
        .to_do("install it so: cargo install --path crates/leafpress-cli --features rqlite")
}
