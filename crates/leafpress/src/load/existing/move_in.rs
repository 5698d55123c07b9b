//! A new table in a database that exists: chooses between moving pages in and copying rows.

use std::path::Path;

use super::inspect::{Existing, TextEncoding};
use super::orphan::{Orphan, Search};
use super::staged::StagedTable;
use super::task::{Outcome, Settings, Staged};
use super::{copy, pages};
use crate::error::Result;

/// Makes the staged table a table of the destination, with its indexes, its
/// sequence and its statistics, in one transaction.
///
/// After an error the destination is as it was.
pub(in crate::load) fn move_in(
    existing: &Existing,
    staged: &Staged<'_>,
    settings: &Settings,
) -> Result<Outcome> {
    move_in_or_look(existing, staged, settings, None)
}

/// Returns the first row, in the order of the input, with a foreign key without its parent row,
/// after [`move_in`] has refused the table for such a row. `rows` is the file of [`Search::rows`].
///
/// The destination stays as it is.
pub(in crate::load) fn find_orphan(
    existing: &Existing,
    staged: &Staged<'_>,
    rows: &Path,
    settings: &Settings,
) -> Option<Orphan> {
    let mut search = Search { rows, found: None };
    let moved = move_in_or_look(existing, staged, settings, Some(&mut search));
    tracing::debug!(?moved, "a search for a row that refers to nothing");
    search.found
}

/// Moves the table in, or searches it for rows that are refused: with a search it never goes in.
fn move_in_or_look(
    existing: &Existing,
    staged: &Staged<'_>,
    settings: &Settings,
    search: Option<&mut Search<'_>>,
) -> Result<Outcome> {
    existing.refuse_if_named(staged.table)?;
    let table = StagedTable::read(staged)?;
    match why_not_moved(existing, &table) {
        None => pages::move_pages(existing, staged, &table, settings, search),
        Some(reason) => copy::copy_table(existing, staged, &table, &reason, settings, search),
    }
}

/// Reason why pages cannot be moved in as they are; `None` if they can.
fn why_not_moved(existing: &Existing, table: &StagedTable) -> Option<String> {
    if let Some(reason) = existing.why_not_moved {
        return Some(reason.to_owned());
    }
    debug_assert_eq!(existing.encoding, TextEncoding::Utf8);
    let (here, there) = (existing.page_bytes, table.layout.page_bytes());
    if here as usize != there {
        return Some(format!("its pages have {here} bytes and the pressed ones {there}"));
    }
    let (here, there) = (existing.reserved_bytes, table.layout.reserved_bytes());
    if here != there {
        return Some(format!("its pages have {here} reserved bytes and the pressed ones {there}"));
    }
    None
}
