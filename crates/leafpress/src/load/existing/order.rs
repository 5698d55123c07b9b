//! Order in which new rows go into a table: the fastest one that stores the same as the order of the
//! input.
//!
//! A row's place in each B-tree of a unique key has to be searched. In the order of the largest such
//! search its pages are passed once, from the beginning to the end.
//!
//! Must never: give an order that shows in the rows, but for rowids that no column has.

use leafpress_format::{Collation, KeyColumn, SortOrder};

use crate::schema::declared::{DeclaredIndex, DeclaredTable, OrderColumn};

/// Treatment of the rows that are there, and of new rows with their keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::load) enum InsertMode {
    /// All new rows are added; one with a key that is there is an error.
    Append,
    /// The new rows take the place of all rows that are there.
    Replace,
    /// New rows with a key that is there are left out.
    Ignore,
    /// New rows with a key that is there give the old row their values.
    Upsert,
}

/// Order in which a table takes new rows fastest, and stores the same as in the order of the input.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::load) enum BestOrder {
    /// By the column that is the rowid, if all rows have one: SQLite numbers the others as they come.
    Rowid(String),
    /// By these columns: the primary key, or the columns of a unique index.
    Columns(Vec<OrderColumn>),
    /// That of the input: another is no faster, or would show in what is stored.
    Any,
}

/// The order of the largest search that each new row costs: the table's own key, else its first
/// unique index, as far as the input has the columns.
pub(in crate::load) fn order_of(
    declared: &DeclaredTable,
    columns: &[String],
    mode: InsertMode,
) -> BestOrder {
    let merges = matches!(mode, InsertMode::Ignore | InsertMode::Upsert);
    if merges && declared.unique_keys() > 1 {
        // If two rows share one key, but not the other, the first of the input stays.
        return BestOrder::Any;
    }
    if declared.shows_order() {
        return BestOrder::Any;
    }
    let is_given = |name: &str| columns.iter().any(|it| it.eq_ignore_ascii_case(name));
    match &declared.rowid_alias {
        Some(alias) if is_given(alias) => return BestOrder::Rowid(alias.clone()),
        // SQLite numbers the rows as they come, and the numbers can be seen.
        Some(_) => return BestOrder::Any,
        None => {}
    }
    let order = |index: &DeclaredIndex| {
        let columns: Option<Vec<OrderColumn>> = index.columns.iter().cloned().collect();
        columns.filter(|it| !index.partial && it.iter().all(|column| is_given(&column.name)))
    };
    let of_key =
        |origin: &str| declared.indexes.iter().filter(|it| it.origin == origin).find_map(order);
    let unique = || declared.indexes.iter().filter(|it| it.unique).find_map(order);
    // Not in the order of another index: rows without a key are expected to be read as they came.
    of_key("pk").or_else(unique).map_or(BestOrder::Any, BestOrder::Columns)
}

/// The column of an order as one of a key; `None` if only SQLite can compare its texts.
pub(in crate::load) fn key_column(column: &OrderColumn) -> Option<(String, KeyColumn)> {
    let collation = match column.collation.to_ascii_uppercase().as_str() {
        "BINARY" => Collation::Binary,
        "NOCASE" => Collation::NoCase,
        "RTRIM" => Collation::RTrim,
        _ => return None,
    };
    let order = if column.descending { SortOrder::Descending } else { SortOrder::Ascending };
    Some((column.name.clone(), KeyColumn { collation, order }))
}
