//! Plan of a pressed index: what the scan and the press have to know of it.

use leafpress_format::PageLayout;

use crate::schema::shape::IndexShape;

/// Plan of a pressed index.
pub struct PressPlan {
    pub index: IndexShape,
    pub layout: PageLayout,
    /// Root page of the table's tree.
    pub table_root: u32,
    /// Number of first columns of a record that must be read.
    pub columns_needed: usize,
    /// True if rows that lack some of these columns have NULL there.
    pub absent_is_null: bool,
}
