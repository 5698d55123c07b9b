//! Whole loads, of tables with keys and indexes, from every kind of input, to
//! new and existing databases, against the same rows inserted by stock SQLite.
//!
//! | file | is |
//! |---|---|
//! | `agree.rs` | dry runs, loads that skip bad rows and plain loads, of one input |
//! | `schema.rs` | random declarations, and values that fit them |
//! | `judge.rs` | the tables that SQLite makes of the same rows, and how two databases are compared |
//! | `columns.rs` | columns that are chosen, renamed, left out and made; several files |
//! | `declared.rs` | declared tables and CSV |
//! | `made.rs` | tables that the loader declares; rows made in memory |
//! | `formats.rs` | the same rows in every format |
//! | `existing.rs` | databases that are there already |
//! | `large.rs` | inputs of many blocks, which spill |

mod agree;
mod columns;
mod declared;
mod existing;
#[cfg(feature = "parquet")]
mod formats;
mod judge;
mod large;
mod made;
mod schema;
