//! Parts of Leafpress's tests: hostile schemas and rows, a way to press them to a
//! file, and stock SQLite as the judge.
//!
//! ```text
//! Recipe ──resolve──► Case ──press──────► bytes ──open──► Connection ┐
//!   ▲                  └────insert_by_sqlite────────────► Connection ┴─► assert_same_database
//!   └ proptest strategies, or a fuzzer's bytes             + record bytes of every tree
//! ```
//!
//! [`crash`] cuts the power of any program that writes through a VFS, at every
//! moment; [`faults`] lets its disk fail. [`queue_audit`] checks the rules of a
//! database with queues, also after its processes were killed.
//!
//! Everything here may panic, as that is how a test says no. It must never
//! use the code under test to say what is right: sizes, order and the reading
//! of pages are done again, slowly and plainly, from the format's description.
#![forbid(unsafe_code)]

/// The examples of the README and the guides, which are tests like all others. They are here and not in
/// the library, whose package does not have these files.
#[cfg(doctest)]
mod examples_in_documents {
    #[doc = include_str!("../../../README.md")]
    struct Readme;
    #[doc = include_str!("../../../docs/durability.md")]
    struct Durability;
    #[doc = include_str!("../../../docs/neighbours.md")]
    struct Neighbours;
    #[doc = include_str!("../../../docs/writer.md")]
    struct Writer;
    #[doc = include_str!("../../../docs/shared.md")]
    struct Shared;
    #[doc = include_str!("../../../docs/queue.md")]
    struct Queue;
    #[doc = include_str!("../../../docs/doctor.md")]
    struct Doctor;
}

mod check;
pub mod crash;
pub mod faults;
mod mount;
mod oracle;
mod order;
mod press;
mod pressed_file;
pub mod queue_audit;
mod reader;
mod recipe;
mod resolve;
mod schema;
pub mod strategy;
mod value;

pub use check::{check_case, check_usable};
pub use mount::Mount;
pub use oracle::{
    assert_integrity, assert_same_database, assert_same_index, assert_same_records,
    assert_same_rows, assert_same_schema, empty_database, insert_by_sqlite, open, serialized,
};
pub use order::compare_keys;
pub use press::{press, press_to};
pub use pressed_file::PressedFile;
pub use reader::{Entry, StoredColumn, TreeReader};
pub use recipe::{
    BulkRecipe, IndexRecipe, KeyRecipe, KindRecipe, Recipe, RowRecipe, StretchRecipe, TableRecipe,
    ValueRecipe,
};
pub use schema::{Affinity, Case, Collation, Column, Index, KeyColumn, Row, Table, TableKind};
pub use value::OwnedValue;
