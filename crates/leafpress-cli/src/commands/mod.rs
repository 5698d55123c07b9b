//! One file per command. It goes from the command's flags to the library, and back to text.
//!
//! Must never: know another command.

pub mod advise;
pub mod bench;
pub mod completions;
pub mod doctor;
pub mod index;
pub mod io;
pub mod load;
pub mod man;
pub mod queue;
pub mod shard;
pub mod shards;
pub mod storage;
pub mod verify;
