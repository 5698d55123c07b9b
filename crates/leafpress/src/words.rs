//! Text for people. Names have no characters that steer a terminal, counts have their nouns.
//!
//! Stands below all that writes messages. A name of a file, a table or a queue may hold any
//! character: shown as it is, it could change the meaning of the message.
//!
//! Must never: be used for what programs read (JSON escapes by its own rules).

use std::any::Any;
use std::path::{Path, PathBuf};

pub(crate) use leafpress_vfs::text::printable_lines;
pub use leafpress_vfs::{bytes_text, path_text, printable};
use rusqlite::types::ValueRef;
use serde::Serializer;

/// Values are shown up to this many characters.
const VALUE_SHOWN_MAX: usize = 60;

/// The message of a panic, if it has one.
pub(crate) fn panic_text(panic: &(dyn Any + Send)) -> Option<&str> {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str))
}

/// A count and its noun: `1 page`, `2 pages`.
pub fn counted(number: impl Into<u64>, singular: &str, plural: &str) -> String {
    let number = number.into();
    format!("{number} {}", if number == 1 { singular } else { plural })
}

/// A path as a text of JSON, as [`path_text`] shows it: JSON knows no bytes.
///
/// # Errors
/// Those of the serializer.
pub fn path_as_text<S: Serializer>(path: &Path, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_str(&path_text(path))
}

/// As [`path_as_text`], for a path that may be unknown.
#[expect(clippy::ref_option, reason = "as serde calls it")]
pub(crate) fn optional_path_as_text<S: Serializer>(
    path: &Option<PathBuf>,
    to: S,
) -> Result<S::Ok, S::Error> {
    match path {
        Some(path) => to.serialize_some(&path_text(path)),
        None => to.serialize_none(),
    }
}

/// A value as SQL would write it, cut where long.
pub(crate) fn shown_value(value: ValueRef<'_>) -> String {
    match value {
        ValueRef::Null => "NULL".to_owned(),
        ValueRef::Integer(value) => value.to_string(),
        ValueRef::Real(value) => format!("{value:?}"),
        ValueRef::Text(text) => {
            let text = String::from_utf8_lossy(text);
            let cut: String = text.chars().take(VALUE_SHOWN_MAX).collect();
            let more = if cut.len() < text.len() { "…" } else { "" };
            format!("'{}{more}'", cut.replace('\'', "''"))
        }
        ValueRef::Blob(bytes) => format!("a blob of {} bytes", bytes.len()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_is_no_plural() {
        assert_eq!(counted(1_u64, "page", "pages"), "1 page");
        assert_eq!(counted(0_u64, "page", "pages"), "0 pages");
    }
}
