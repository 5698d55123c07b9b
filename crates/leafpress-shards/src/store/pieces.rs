//! The size and number of the pieces in which parts go up and down.

/// Bytes of a piece, at least. S3 wants 5 MiB.
pub const PIECE_BYTES: u64 = 8 << 20;
/// Pieces of an object: S3 takes 10,000.
pub const PIECES_MAX: u64 = 9_000;
/// Pieces that are under way at once.
pub const PIECES_AT_ONCE: usize = 4;
