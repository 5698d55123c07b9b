//! SQLite's file format, for writers: B-trees built bottom-up from rows in
//! key order.
//!
//! No I/O, no `unsafe`, no SQLite and no dependency: rows go in, numbered
//! pages come out in file order, and the caller writes them. Memory is bound
//! by the depth of a tree, not by its size. The oracle of all tests is SQLite
//! itself: what it reads from the pages is what it would hold after the same
//! INSERTs, and its `integrity_check` says ok.
//!
//! # The way of a row
//!
//! | | |
//! |---|---|
//! | [`Value`] → [`affinity`] | what SQLite would store in a column |
//! | [`RecordWriter`] | the row's record, written downwards into its page |
//! | [`Projection`], [`compare_records`], [`key_prefix`] | records made into an index's, and their order |
//! | [`LeafRun`] | table leaves and overflow pages, filled on any thread |
//! | [`TableBuilder`] | joins runs under one root |
//! | [`IndexRun`], [`IndexTree`] | the same for an index or a WITHOUT ROWID table |
//! | [`finish_database`] | the schema table and the header: page 1, last |
//! | [`relocate`](fn@relocate) | such trees moved into another file |
//! | [`Arrangement`] | such a database in another order of its pages |
//!
//! [`PageNumbers`] numbers the pages and skips the lock-byte page; the bytes
//! are drawn in `layout.rs`, `record.rs`, `varint.rs` and `header.rs`.
#![forbid(unsafe_code)]

pub mod affinity;
mod aligned;
mod arrange;
mod cells;
mod decimal;
mod entry;
mod error;
mod finished;
mod free;
pub mod header;
mod index;
mod index_run;
pub mod key;
mod layout;
mod leaf;
mod loose;
pub mod number;
mod numbers;
mod pointer_map;
mod prefix;
mod prepared;
mod read;
mod record;
mod relocate;
mod run_pages;
mod schema;
mod serial_type;
mod slots;
mod spine;
mod table;
mod value;
mod varint;

pub use affinity::Affinity;
pub use aligned::{ALIGNMENT, AlignedBuffer};
pub use arrange::Arrangement;
pub use entry::{
    EntryColumn, FirstColumns, Projection, RecordColumns, compare_records, equal_columns,
    key_has_null,
};
pub use error::{FormatError, PAGE_NUMBER_MAX, RECORD_BYTES_MAX};
pub use finished::FinishedPages;
pub use index::IndexTree;
pub use index_run::IndexRun;
pub use key::{Collation, KeyColumn, SortOrder, compare_keys, compare_values};
pub use layout::{DATABASE_HEADER_BYTES, PageLayout};
pub use leaf::LeafRun;
pub use number::{Number, NumberText};
pub use numbers::{PageNumbers, PageRange};
pub use pointer_map::{MappedRange, POINTER_MAP_ENTRY_BYTES, PointerMap};
pub use prefix::{key_prefix, key_prefix_part};
pub use prepared::{Prepared, PreparedRow, PreparedRows};
pub use read::{TableLeaf, TablePage, TableRow, children, read_overflow_page};
pub use record::{
    COLUMN_OVERHEAD_BYTES_MAX, HEADER_LENGTH_BYTES_MAX, RecordWriter, SerialTypes,
    WRITE_SLACK_BYTES, record, record_bytes_max,
};
pub use relocate::{PageMover, PageOwner, RelocateError, relocate};
pub use schema::{SchemaEntry, SchemaKind, finish_database};
pub use slots::chain_pages;
pub use table::{PlacedLeaves, TableBuilder};
pub use value::Value;
pub use varint::{VARINT_BYTES_MAX, put_varint_before, varint_len};
