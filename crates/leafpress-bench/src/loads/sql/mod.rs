//! The rival: the best that SQL can do, at the price of every safety.
//!
//! One prepared statement, one transaction, no journal, no sync, exclusive locking, 1 GB of cache,
//! types known beforehand: nothing is left to tune that is still `INSERT`. It must stay that way:
//! no allocation per row, values bound by position, numbers parsed by the fastest parser at hand.
//! A ratio against a slow rival is a lie.
//!
//! | file | does |
//! |---|---|
//! | `insert` | the settings, and rows by prepared statements |
//! | `data` | the table of the experiment's files, whatever their format |
//! | `csv`, `ndjson`, `parquet`, `users`, `keys` | a file of each format, rows made in memory, rows with random keys |
//! | `existing` | what is added to a database that exists, where the rival keeps its journal and its syncs |

mod csv;
mod data;
mod existing;
mod insert;
mod keys;
mod ndjson;
#[cfg(feature = "parquet")]
mod parquet;
mod users;

pub(super) use self::csv::{CSV_STATEMENT_ROWS, load_csv, load_csv_with_index};
pub(super) use self::data::DATA_TABLE;
pub(super) use self::existing::{append_keys, attach_users, create_index};
pub(super) use self::insert::{DURABLE_PRAGMAS, INDEX_PRAGMAS, PRAGMAS, STATEMENT_ROWS};
pub(super) use self::keys::{load_keys_in_batches, load_keys_presorted, load_keys_unsorted};
pub(super) use self::ndjson::load_ndjson;
#[cfg(feature = "parquet")]
pub(super) use self::parquet::load_parquet;
pub(super) use self::users::load_users;

/// No build without Parquet comes here: it leaves the group out.
#[cfg(not(feature = "parquet"))]
pub(super) fn load_parquet(
    _: &std::path::Path,
    _: &std::path::Path,
    _: usize,
) -> crate::error::Result<u64> {
    Err(crate::error::Error::Usage(super::rung::NO_PARQUET.to_owned()))
}
