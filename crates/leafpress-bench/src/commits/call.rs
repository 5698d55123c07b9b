//! The row that a call adds, in the one table of all experiments with small transactions.
//!
//! Must never: make two calls that cannot be told from one another.

/// Table that every call adds a row to.
pub(crate) const TABLE: &str =
    "CREATE TABLE call(id INTEGER PRIMARY KEY, caller INTEGER, n INTEGER, text TEXT)";

/// Statement of every call.
pub(crate) const INSERT: &str = "INSERT INTO call(caller, n, text) VALUES (?1, ?2, ?3)";

/// Row of a call: its caller, its number, and a text that follows from both, so that every row can
/// be checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Call {
    /// From 0.
    pub(crate) caller: u32,
    /// From 0, for each caller.
    pub(crate) n: u64,
    text: [u8; TEXT_BYTES],
}

const TEXT_TEMPLATE: &[u8; TEXT_BYTES] = b"caller 00000, call 0000000000";
const TEXT_BYTES: usize = 29;
const CALLER_DIGITS_END: usize = 12;
const N_DIGITS_END: usize = TEXT_BYTES;

impl Call {
    /// The call of this caller with this number.
    pub(crate) fn new(caller: u32, n: u64) -> Self {
        let mut text = *TEXT_TEMPLATE;
        write_digits(&mut text[CALLER_DIGITS_END - 5..CALLER_DIGITS_END], u64::from(caller));
        write_digits(&mut text[N_DIGITS_END - 10..N_DIGITS_END], n);
        Self { caller, n, text }
    }

    /// The text, such as "caller 00007, call 0000000012".
    pub(crate) fn text(&self) -> &str {
        // Digits and ASCII of the template.
        std::str::from_utf8(&self.text).unwrap_or_default()
    }
}

/// The last digits of a number, with zeros before it.
fn write_digits(place: &mut [u8], mut number: u64) {
    for digit in place.iter_mut().rev() {
        *digit = b'0' + (number % 10) as u8;
        number /= 10;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_tells_the_call() {
        assert_eq!(Call::new(7, 12).text(), "caller 00007, call 0000000012");
        assert_eq!(Call::new(4095, 1_234_567).text(), "caller 04095, call 0001234567");
    }
}
