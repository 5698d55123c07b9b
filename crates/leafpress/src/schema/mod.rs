//! Column types: what a column is declared as, and how that is decided.
//!
//! Between the input (fields) and the load (records); knows neither files nor
//! SQLite.

pub mod ddl;
mod decimal;
mod detect;
mod exact;
pub mod shape;
mod table;
mod whole;

pub use decimal::{kept_double, shown_real};
pub use detect::{ColumnEvidence, RealForms, Verdict, Witness};
pub use exact::{HEADROOM_BYTES, RealRule, exact_integer, kept_real, marks, stored_real};
pub use table::{Column, ColumnType, quote_identifier};
