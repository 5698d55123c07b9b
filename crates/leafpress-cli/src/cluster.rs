//! The URL of a cluster of rqlite where a database is named.
//!
//! Must never: reach a cluster; the commands do. Show a password.

use std::path::Path;

#[cfg(not(feature = "rqlite"))]
use leafpress::Error;
use leafpress::path_text;

/// The URL of a cluster that stands where a database does.
pub fn url_of(database: &Path) -> Option<&str> {
    let text = database.to_str()?;
    ["rqlite://", "rqlites://"].iter().any(|scheme| text.starts_with(scheme)).then_some(text)
}

/// The URL without credentials.
pub fn shown(url: &str) -> String {
    let (scheme, rest) = url.split_once("://").unwrap_or(("rqlite", url));
    let place = rest.split('?').next().unwrap_or_default();
    format!("{scheme}://{}", place.rsplit('@').next().unwrap_or_default())
}

/// The name of a database in messages: its path, or the URL of a cluster without credentials.
pub fn name_of(database: &Path) -> String {
    url_of(database).map_or_else(|| path_text(database), shown)
}

/// The error of a build that knows no clusters.
#[cfg(not(feature = "rqlite"))]
pub fn unreachable(url: &str) -> Error {
    let scheme = url.split("://").next().unwrap_or_default();
    Error::misuse(format!("{scheme}:// is a cluster of rqlite, which this build cannot reach"))
        .to_do("install it so: cargo install --path crates/leafpress-cli --features rqlite")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_has_no_credentials() {
        let named = |database: &str| name_of(Path::new(database));
        assert_eq!(named("rqlites://ann:se@cret@h:1,i:2?ca=f"), "rqlites://h:1,i:2");
        assert_eq!(named("a@b.db"), "a@b.db");
    }
}
