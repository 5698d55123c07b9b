//! Memory from which a disk can fetch bytes past the page cache.

pub use leafpress_format::{ALIGNMENT, AlignedBuffer};
