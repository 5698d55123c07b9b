//! Column types: what a column is declared as, and how that is decided.
//!
//! Between the input (fields) and the load (records); knows neither files nor
//! SQLite.

pub mod ddl;
mod detect;
mod exact;
pub mod shape;
mod table;

pub use detect::{ColumnEvidence, RealForms, Verdict, Witness};
pub use exact::{HEADROOM_BYTES, exact_integer, exact_real, stored_real};
pub use table::{Column, ColumnType, quote_identifier};
