//! What the disk under a path can do, and what that means for a database.
//!
//! | | |
//! |---|---|
//! | `file_system` | which file system it is, and where its bytes are |
//! | `mounts` | the table of mounts, as Linux tells it |
//!
//! Must never: touch a database.

mod file_system;
mod mounts;

pub use file_system::{FileSystem, Nature};
