//! Buckets: the rows of a part, packed into a file without a name until the part is pressed.
//!
//! A packed row is its length in 4 bytes, then for each value a tag and 8 bytes (integers, reals), or a
//! tag, 4 bytes of length and the content (texts, blobs), or a tag alone (NULL).

use std::fs::File;
use std::io::{self, BufReader, BufWriter, Read as _, Seek as _, Write as _};
use std::path::{Path, PathBuf};

use leafpress::load::{Row, TypedRecord};
use leafpress::vfs::rights::unnamed_file;
use leafpress::{Error, Result};
use leafpress_format::Value;

const NULL: u8 = 0;
const INTEGER: u8 = 1;
const REAL: u8 = 2;
const TEXT: u8 = 3;
const BLOB: u8 = 4;

/// Rows on their way into a part.
#[derive(Debug)]
pub struct Bucket {
    file: BufWriter<File>,
    folder: PathBuf,
    packed: Vec<u8>,
}

impl Bucket {
    /// An empty bucket in this folder.
    pub fn new(folder: &Path) -> Result<Self> {
        let file = unnamed_file(folder)
            .map_err(|source| Error::io("make a temporary file in", folder, source))?;
        let file = BufWriter::with_capacity(1 << 16, file);
        Ok(Self { file, folder: folder.to_owned(), packed: Vec::new() })
    }

    /// Adds a row.
    pub fn put(&mut self, row: &[Value<'_>]) -> Result<()> {
        pack(row, &mut self.packed);
        let length = (self.packed.len() as u32).to_le_bytes();
        let written = self.file.write_all(&length).and_then(|()| self.file.write_all(&self.packed));
        written.map_err(|source| Error::io("write a temporary file in", &self.folder, source))
    }

    /// The rows, in the order in which they were put.
    pub fn into_rows(self, columns: usize) -> Result<Rows> {
        let failed = |source| Error::io("read a temporary file in", &self.folder, source);
        let mut file = self.file.into_inner().map_err(|error| failed(error.into_error()))?;
        file.rewind().map_err(failed)?;
        Ok(Rows { file: BufReader::with_capacity(1 << 18, file), columns })
    }
}

/// Bytes of a row when it is packed.
pub fn row_bytes(row: &[Value<'_>]) -> u64 {
    let bytes = |value: &Value<'_>| match value {
        Value::Null => 1,
        Value::Integer(_) | Value::Real(_) => 9,
        Value::Text(bytes) | Value::Blob(bytes) => 5 + bytes.len() as u64,
    };
    row.iter().map(bytes).sum()
}

fn pack(row: &[Value<'_>], packed: &mut Vec<u8>) {
    packed.clear();
    let mut put = |tag: u8, head: &[u8], content: &[u8]| {
        packed.push(tag);
        packed.extend_from_slice(head);
        packed.extend_from_slice(content);
    };
    for value in row {
        match *value {
            Value::Null => put(NULL, &[], &[]),
            Value::Integer(integer) => put(INTEGER, &integer.to_le_bytes(), &[]),
            Value::Real(real) => put(REAL, &real.to_bits().to_le_bytes(), &[]),
            Value::Text(text) => put(TEXT, &(text.len() as u32).to_le_bytes(), text),
            Value::Blob(blob) => put(BLOB, &(blob.len() as u32).to_le_bytes(), blob),
        }
    }
}

/// The rows of a bucket, read back.
pub struct Rows {
    file: BufReader<File>,
    columns: usize,
}

impl Rows {
    fn read(&mut self) -> io::Result<Option<PackedRow>> {
        let mut length = [0; 4];
        match self.file.read_exact(&mut length) {
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
            other => other?,
        }
        let mut bytes = vec![0; u32::from_le_bytes(length) as usize];
        self.file.read_exact(&mut bytes)?;
        PackedRow::new(bytes, self.columns)
            .map(Some)
            .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "a packed row is damaged"))
    }
}

impl Iterator for Rows {
    type Item = io::Result<PackedRow>;

    fn next(&mut self) -> Option<Self::Item> {
        self.read().transpose()
    }
}

/// A row that owns its values.
#[derive(Debug)]
pub struct PackedRow {
    bytes: Vec<u8>,
    /// Offset of each value.
    starts: Vec<u32>,
}

impl PackedRow {
    fn new(bytes: Vec<u8>, columns: usize) -> Option<Self> {
        let mut starts = Vec::with_capacity(columns);
        let mut at = 0;
        for _ in 0..columns {
            starts.push(at as u32);
            let (_, end) = value_at(&bytes, at)?;
            at = end;
        }
        (at == bytes.len()).then_some(Self { bytes, starts })
    }
}

/// The value that begins at a place, and where it ends.
fn value_at(bytes: &[u8], at: usize) -> Option<(Value<'_>, usize)> {
    let tag = *bytes.get(at)?;
    let rest = &bytes[at + 1..];
    let number = || rest.first_chunk::<8>().copied();
    let content = || {
        let length = u32::from_le_bytes(*rest.first_chunk()?) as usize;
        rest.get(4..4 + length)
    };
    Some(match tag {
        NULL => (Value::Null, at + 1),
        INTEGER => (Value::Integer(i64::from_le_bytes(number()?)), at + 9),
        REAL => (Value::Real(f64::from_bits(u64::from_le_bytes(number()?))), at + 9),
        TEXT => content().map(|text| (Value::Text(text), at + 5 + text.len()))?,
        BLOB => content().map(|blob| (Value::Blob(blob), at + 5 + blob.len()))?,
        _ => return None,
    })
}

impl Row for PackedRow {
    fn columns(&self) -> usize {
        self.starts.len()
    }

    fn value(&self, column: usize) -> Value<'_> {
        let start = self.starts.get(column).map(|&start| start as usize);
        let value = start.and_then(|start| value_at(&self.bytes, start));
        value.map_or(Value::Null, |(value, _)| value)
    }

    fn content_bytes(&self) -> usize {
        self.bytes.len()
    }

    fn write(&self, record: &mut TypedRecord<'_, '_>) {
        for column in (0..self.columns()).rev() {
            record.put_stored(column, self.value(column));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_come_back_as_they_were() {
        let folder = tempfile::tempdir().expect("a folder");
        let mut bucket = Bucket::new(folder.path()).expect("a bucket");
        let rows = [
            [Value::Integer(-1), Value::Text(b"text"), Value::Null],
            [Value::Real(0.5), Value::Blob(b""), Value::Text(b"")],
        ];
        for row in &rows {
            bucket.put(row).expect("it is written");
        }
        let mut found = bucket.into_rows(3).expect("rows");
        for row in &rows {
            let packed = found.next().expect("a row").expect("it is read");
            let values: Vec<_> = (0..3).map(|column| packed.value(column)).collect();
            assert_eq!(values, row);
        }
        assert!(found.next().is_none());
    }

    #[test]
    fn damaged_rows_are_told() {
        for bytes in [vec![], vec![9], vec![INTEGER, 1], vec![TEXT, 9, 0, 0, 0], vec![NULL, NULL]] {
            assert!(PackedRow::new(bytes.clone(), 1).is_none(), "{bytes:?}");
        }
    }
}
