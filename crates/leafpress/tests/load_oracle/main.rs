//! Loads judged from the outside: by a plain reader of CSV, by what stock SQLite
//! stores after INSERTs of the same texts, and by the rules in the documentation.
//!
//! 1. What is loaded equals, in `typeof` and value, the INSERTs; `integrity_check` is ok.
//! 2. A detected column has the type that its values allow, and gives each value back; by
//!    the exact rule each text.
//! 3. Neither threads nor the way in (file, reader, gzip, zstd) change a byte of the file.
//! 4. A bad row is named by its file, line and column, and leaves nothing behind.
//!
//! 5. The order of the pages changes no row.
//!
//! `reference.rs` reads, `expected.rs` judges, `case.rs` makes random inputs.

#[cfg(feature = "arrow")]
mod arrow_oracle;
mod bad_rows;
mod case;
mod csv_oracle;
mod database_text;
mod declared_table;
mod existing_oracle;
mod expected;
mod inputs;
mod layout;
mod number_forms;
mod preset;
mod reference;
mod rows_oracle;
mod sqlite_oracle;
mod values_oracle;
