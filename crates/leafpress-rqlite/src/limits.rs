//! Limits of what is sent to a cluster, each with the failure that it prevents.

use std::time::Duration;

/// A request of 256 MB stopped a cluster of three nodes. So several calls go in one request up to this size.
pub const GROUP_BYTES_MAX: usize = 4 << 20;
/// A call goes in a request of its own up to this size, which is far from that too.
pub const CALL_BYTES_MAX: usize = 16 << 20;
/// SQLite takes 32,766 parameters in a statement.
pub const PARAMETERS_MAX: usize = 30_000;
pub const ROWS_MAX: usize = 500;
/// Age at which rows of old groups are deleted. The outcome of a group that is sent again later is unknown.
pub const KEPT: Duration = Duration::from_secs(15 * 60);
/// The longest time limit of a caller: the row of a group is there until then.
pub const TIME_LIMIT_MAX: Duration = Duration::from_secs(10 * 60);
/// One group of this many deletes old rows, at most [`DELETED_MAX`]; that is more than are added meanwhile.
pub const DELETE_EVERY: u64 = 64;
pub const DELETED_MAX: u64 = 1_000;
