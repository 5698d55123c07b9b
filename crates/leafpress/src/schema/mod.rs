//! Column types: as declared, and how that is decided.
//!
//! Between the input (fields) and the load (records). What a declaration means is SQLite's to
//! say: it is asked by pragmas ([`describe`], [`declared`]).
//!
//! Must never: open a database that is not its own, in memory.

pub mod ddl;
mod decimal;
pub mod declared;
pub mod describe;
mod detect;
mod digits;
mod exact;
pub mod names;
mod real;
pub mod shape;
pub mod sql_words;
mod table;
mod whole;
mod witness;

pub use decimal::{kept_double, shown_real};
pub use detect::{ColumnEvidence, RealForms, Verdict};
pub use digits::{Digits, DigitsWork, with_digits};
pub use exact::{
    HEADROOM_BYTES, RealRule, exact_integer, exact_integer_by, hinted_real, kept_real,
    kept_real_anywhere,
};
pub use real::{marks, stored_real};
pub use table::{Column, ColumnType, is_plain_type, quote_identifier, quoted_name};
pub use whole::WholeNumbers;
pub use witness::Witness;
