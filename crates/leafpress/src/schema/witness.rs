//! A value that decided something, and its place: for reports and errors.
//!
//! Must never: be made for each value. One is kept for each question.

/// A value and the place where it stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Witness {
    /// The number of the input that it is in, from 0.
    pub input: usize,
    /// Line of the value, from 1.
    pub line: u64,
    /// The value, cut where long.
    pub value: String,
}

impl Witness {
    /// The order of places.
    pub fn place(&self) -> (usize, u64) {
        (self.input, self.line)
    }
}
