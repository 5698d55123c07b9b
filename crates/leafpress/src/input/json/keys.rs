//! The columns of keys: the parser asks for the column of each value of each row.
//!
//! Rows nearly always have their keys in the order of the row before. So the
//! parser first compares with the key that came next there ([`Keys::quoted`]),
//! and only asks the table ([`Keys::find`]) where that fails.
//!
//! Must never: know column names. Two keys may differ in case only, and then
//! the column of one has another name.

use std::collections::HashMap;

/// Keys in the order of their first appearance: the columns.
#[derive(Debug, Clone, Default)]
pub struct Keys {
    /// Each key as it mostly stands in the input, with its quotes.
    quoted: Vec<u8>,
    /// Offset in `quoted` where each key ends.
    ends: Vec<u32>,
    columns: HashMap<Vec<u8>, u32>,
    names: Vec<Vec<u8>>,
}

impl Keys {
    /// Number of keys.
    pub fn len(&self) -> usize {
        self.names.len()
    }

    /// Adds a key, with its escapes resolved; false if it is there already.
    pub fn add(&mut self, key: &[u8]) -> bool {
        if self.columns.contains_key(key) {
            return false;
        }
        self.columns.insert(key.to_vec(), self.names.len() as u32);
        // A key that needs escapes is never looked for by its bytes: no key in
        // the input begins with anything but a quote.
        if key.iter().any(|byte| matches!(byte, b'"' | b'\\' | 0..0x20)) {
            self.quoted.push(0);
        } else {
            self.quoted.push(b'"');
            self.quoted.extend_from_slice(key);
            self.quoted.push(b'"');
        }
        self.ends.push(self.quoted.len() as u32);
        self.names.push(key.to_vec());
        true
    }

    /// The column of a key.
    pub fn find(&self, key: &[u8]) -> Option<u32> {
        self.columns.get(key).copied()
    }

    /// A column's key as the input has it, with its quotes, unless the input writes it with
    /// escapes.
    #[inline(always)]
    pub fn quoted(&self, column: u32) -> Option<&[u8]> {
        let column = column as usize;
        let start = if column == 0 { 0 } else { *self.ends.get(column - 1)? };
        self.quoted.get(start as usize..*self.ends.get(column)? as usize)
    }

    /// All keys.
    pub fn names(&self) -> &[Vec<u8>] {
        &self.names
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_found_by_either_way() {
        let mut keys = Keys::default();
        for key in [&b"id"[..], b"", b"a\"b", b"id2"] {
            assert!(keys.add(key));
            assert!(!keys.add(key));
        }
        assert_eq!(keys.len(), 4);
        assert_eq!(keys.find(b"id2"), Some(3));
        assert_eq!(keys.find(b"nothing"), None);
        assert_eq!(keys.quoted(0), Some(&b"\"id\""[..]));
        assert_eq!(keys.quoted(1), Some(&b"\"\""[..]));
        assert_eq!(keys.quoted(2), Some(&b"\0"[..]), "never looked for by its bytes");
        assert_eq!(keys.quoted(3), Some(&b"\"id2\""[..]));
        assert_eq!(keys.quoted(4), None);
    }
}
