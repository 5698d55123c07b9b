//! Rows that have a key more than once: only the last of its values is loaded.
//!
//! Must never: cost a row without such a key anything.

use std::sync::{Arc, Mutex};

use super::keys::Keys;
use crate::sync::lock;
use crate::words::counted;

/// Rows that repeat a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Repeats {
    /// Number of such rows.
    pub rows: u64,
    /// Line of the first one, and the column of its key.
    pub first: (u64, u32),
}

/// Those of one pass over an input.
pub type OfPass = Arc<Mutex<Option<Repeats>>>;

/// Adds those of a piece.
pub fn add(pass: &OfPass, more: Repeats) {
    let mut found = lock(pass);
    let before = found.unwrap_or(Repeats { rows: 0, ..more });
    *found = Some(Repeats { rows: before.rows + more.rows, first: before.first.min(more.first) });
}

/// The note on an input, of which each pass has read all or a part.
pub fn note(file: &str, keys: &Keys, passes: &[OfPass]) -> Option<String> {
    let found = passes.iter().filter_map(|pass| *lock(pass)).max_by_key(|found| found.rows)?;
    let (line, column) = found.first;
    let key = keys.names().get(column as usize).map(|key| String::from_utf8_lossy(key))?;
    Some(format!(
        "{file}: {} a key more than once, such as \"{key}\" in line {line}: its last value is \
         loaded",
        counted(found.rows, "row has", "rows have")
    ))
}
