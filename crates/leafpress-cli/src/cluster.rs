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

/// The scheme alone of a URL that may hold a password, also of one that is misspelled; `None` for other words.
pub fn shortened(word: &str) -> Option<String> {
    let (scheme, rest) = word.split_once(':')?;
    let is_cluster = ["rqlite", "rqlites"].iter().any(|it| scheme.eq_ignore_ascii_case(it));
    let may_hold = is_cluster || (rest.starts_with("//") && rest.contains(['@', '?']));
    may_hold.then(|| format!("{scheme}://…"))
}

/// A URL that has been read, without credentials.
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

    #[test]
    fn a_url_that_was_not_read_shows_its_scheme_alone() {
        for word in ["rqlite:", "Rqlites:/a", "rqlite://ann:se", "s3://a:b/c@d", "az://c/p?sig=x"] {
            let scheme = word.split(':').next().unwrap();
            assert_eq!(shortened(word), Some(format!("{scheme}://…")), "{word}");
        }
        for word in ["a@b.db", "a:b@c", "s3://bucket/x", "rqlite", "--type=a=text"] {
            assert_eq!(shortened(word), None, "{word}");
        }
    }
}
