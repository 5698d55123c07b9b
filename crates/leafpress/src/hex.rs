//! Bytes as hexadecimal digits: in JSON, in SQL and in names.

const DIGITS: &[u8; 16] = b"0123456789abcdef";

/// The two digits of each byte, in lower case.
pub fn hex_digits(bytes: &[u8]) -> impl Iterator<Item = char> {
    let of_byte = |byte: &u8| [byte >> 4, byte & 15].map(|half| DIGITS[usize::from(half)].into());
    bytes.iter().flat_map(of_byte)
}

#[cfg(test)]
mod tests {
    use super::hex_digits;

    #[test]
    fn each_byte_has_two_digits() {
        assert_eq!(hex_digits(&[0, 0x0a, 0xff]).collect::<String>(), "000aff");
    }
}
