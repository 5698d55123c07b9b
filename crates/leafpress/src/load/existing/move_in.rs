//! A new table in a database that exists: which way it goes in.

use super::inspect::{Existing, TextEncoding};
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
    existing.refuse_if_named(staged.table)?;
    let table = StagedTable::read(staged)?;
    match why_not_moved(existing, &table) {
        None => pages::move_pages(existing, staged, &table, settings),
        Some(reason) => copy::copy_table(existing, staged, &table, &reason, settings),
    }
}

/// Why pages cannot be moved in as they are; `None` if they can.
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
