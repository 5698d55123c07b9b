//! Functions that a home calls: to change a file, to stop, for a checksum.

use leafpress::Result;

/// Makes the new content of a file out of the present one, or refuses.
pub type Change<'c> = dyn FnMut(Option<&[u8]>) -> Result<Vec<u8>> + 'c;

/// Returns true once the caller wants the work to stop.
pub type Stop<'s> = dyn Fn() -> bool + 's;

/// Gives the SHA-256 of a draft, for a home that needs it.
pub type Sha256Of<'s> = dyn Fn() -> Result<String> + 's;
