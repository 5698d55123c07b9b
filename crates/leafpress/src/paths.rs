//! Paths of files: the folder that one is in, and the files beside a database.

pub use leafpress_vfs::paths::{companion_of, folder_of};
