//! B-trees read back, by the format's description alone.
//!
//! For comparing what two writers stored, byte for byte. It trusts the file:
//! SQLite's `integrity_check` has judged it before.

/// A stored record: a table's row or an index entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// The rowid, in a table tree.
    pub rowid: Option<i64>,
    /// The record, overflow included.
    pub payload: Vec<u8>,
}

/// One column of a record, as stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StoredColumn<'a> {
    /// Serial type.
    pub serial_type: u64,
    /// Content.
    pub content: &'a [u8],
}

impl StoredColumn<'_> {
    /// The integer, if it is one.
    pub fn integer(&self) -> Option<i64> {
        match self.serial_type {
            8 => Some(0),
            9 => Some(1),
            1..=6 => {
                let sign = if self.content[0] < 0x80 { 0 } else { -1 };
                Some(self.content.iter().fold(sign, |value, &byte| value << 8 | i64::from(byte)))
            }
            _ => None,
        }
    }

    /// The float, if it is stored as one.
    pub fn real(&self) -> Option<f64> {
        let bytes = <[u8; 8]>::try_from(self.content).ok()?;
        (self.serial_type == 7).then(|| f64::from_be_bytes(bytes))
    }
}

impl Entry {
    /// The record's columns.
    ///
    /// # Panics
    ///
    /// If it is malformed.
    pub fn columns(&self) -> Vec<StoredColumn<'_>> {
        let (header_bytes, mut at) = varint(&self.payload);
        let mut content_at = header_bytes as usize;
        let mut columns = Vec::new();
        while at < header_bytes as usize {
            let (serial_type, bytes) = varint(&self.payload[at..]);
            at += bytes;
            let content_bytes = match serial_type {
                0 | 8 | 9 => 0,
                1..=4 => serial_type as usize,
                5 => 6,
                6 | 7 => 8,
                _ => (serial_type as usize - 12) / 2,
            };
            let content = &self.payload[content_at..content_at + content_bytes];
            columns.push(StoredColumn { serial_type, content });
            content_at += content_bytes;
        }
        assert_eq!(content_at, self.payload.len(), "content beyond the last column");
        columns
    }
}

/// Reads trees out of a database file's bytes.
#[derive(Debug)]
pub struct TreeReader<'a> {
    bytes: &'a [u8],
    page_bytes: usize,
    usable: usize,
}

impl<'a> TreeReader<'a> {
    /// A reader of a whole file.
    ///
    /// # Panics
    ///
    /// If it has no database header.
    pub fn new(bytes: &'a [u8]) -> Self {
        assert!(bytes.starts_with(b"SQLite format 3\0"));
        let page_bytes = match u16::from_be_bytes([bytes[16], bytes[17]]) {
            1 => 65536,
            size => usize::from(size),
        };
        Self { bytes, page_bytes, usable: page_bytes - usize::from(bytes[20]) }
    }

    /// All entries of a tree, in its order.
    ///
    /// # Panics
    ///
    /// If the tree is malformed.
    pub fn entries(&self, root: u32) -> Vec<Entry> {
        let mut entries = Vec::new();
        self.walk(root, &mut entries);
        entries
    }

    fn page(&self, number: u32) -> &'a [u8] {
        &self.bytes[(number as usize - 1) * self.page_bytes..][..self.page_bytes]
    }

    fn walk(&self, number: u32, entries: &mut Vec<Entry>) {
        let page = self.page(number);
        let header = &page[if number == 1 { 100 } else { 0 }..];
        let kind = header[0];
        let is_interior = kind == 2 || kind == 5;
        let pointers = &header[if is_interior { 12 } else { 8 }..];
        for index in 0..usize::from(u16::from_be_bytes([header[3], header[4]])) {
            let at = u16::from_be_bytes([pointers[2 * index], pointers[2 * index + 1]]);
            let cell = &page[usize::from(at)..];
            match kind {
                13 => entries.push(self.row(cell)),
                5 => self.walk(be32(cell), entries),
                10 => entries.push(self.index_entry(cell)),
                2 => {
                    self.walk(be32(cell), entries);
                    entries.push(self.index_entry(&cell[4..]));
                }
                _ => panic!("page {number} is of kind {kind}"),
            }
        }
        if is_interior {
            self.walk(be32(&header[8..]), entries);
        }
    }

    fn row(&self, cell: &[u8]) -> Entry {
        let (payload_bytes, a) = varint(cell);
        let (rowid, b) = varint(&cell[a..]);
        let payload = self.payload(&cell[a + b..], payload_bytes as usize, self.usable - 35);
        Entry { rowid: Some(rowid as i64), payload }
    }

    fn index_entry(&self, cell: &[u8]) -> Entry {
        let (payload_bytes, a) = varint(cell);
        let max = (self.usable - 12) * 64 / 255 - 23;
        Entry { rowid: None, payload: self.payload(&cell[a..], payload_bytes as usize, max) }
    }

    fn payload(&self, cell: &[u8], payload_bytes: usize, max: usize) -> Vec<u8> {
        if payload_bytes <= max {
            return cell[..payload_bytes].to_vec();
        }
        let min = (self.usable - 12) * 32 / 255 - 23;
        let fitting = min + (payload_bytes - min) % (self.usable - 4);
        let local = if fitting <= max { fitting } else { min };
        let mut payload = cell[..local].to_vec();
        let mut next = be32(&cell[local..]);
        while payload.len() < payload_bytes {
            let page = self.page(next);
            let content_bytes = (payload_bytes - payload.len()).min(self.usable - 4);
            payload.extend_from_slice(&page[4..4 + content_bytes]);
            next = be32(page);
        }
        assert_eq!(next, 0, "the chain goes on");
        payload
    }
}

fn be32(bytes: &[u8]) -> u32 {
    u32::from_be_bytes([bytes[0], bytes[1], bytes[2], bytes[3]])
}

fn varint(bytes: &[u8]) -> (u64, usize) {
    let mut value = 0;
    for (index, &byte) in bytes.iter().take(8).enumerate() {
        value = value << 7 | u64::from(byte & 0x7f);
        if byte < 0x80 {
            return (value, index + 1);
        }
    }
    (value << 8 | u64::from(bytes[8]), 9)
}
