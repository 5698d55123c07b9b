//! leafpress.
fn main() {}
