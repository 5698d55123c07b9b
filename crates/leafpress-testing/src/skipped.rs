//! Tests that cannot run here, for lack of a tool or a right.
//!
//! Must never: let one go unnoticed where all of them are required.

use std::fmt::Display;
use std::io::Write as _;

/// Says that a test, or a part of one, is skipped, and why. Not by `println!`, which a test that
/// passes keeps to itself.
///
/// # Panics
/// If `LEAFPRESS_REQUIRE_TOOLS` is set.
pub fn say_skipped(why: impl Display) {
    assert!(std::env::var_os("LEAFPRESS_REQUIRE_TOOLS").is_none(), "skipped: {why}");
    let _ = writeln!(std::io::stderr(), "skipped: {why}");
}
