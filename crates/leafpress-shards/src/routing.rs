//! Routing: which part has a row.
//!
//! | by | part of a row |
//! |---|---|
//! | `hash(a,b)` | xxh3-64 of the columns' values, modulo the number of parts |
//! | `range(a)` | number of bounds that are not greater than the value, in SQLite's order (BINARY) |
//! | `rows`, `bytes` | rows stay in the order of the input, as many rows or bytes in each part |
//!
//! The bytes that are hashed are, for each column: NULL `00`; an integer, or a real with the value of a
//! 64-bit integer, `01` and 8 bytes, little-endian; another real `02` and the 8 bytes of the double,
//! little-endian; a text `03`, its length in 8 bytes, little-endian, and its UTF-8 bytes; a blob `04`,
//! likewise. So values that are equal in SQL, as 1 and 1.0, are in the same part.

use std::fmt;
use std::str::FromStr;

use leafpress::{quote_identifier, quoted_name};
use leafpress_format::Value;
use serde::{Deserialize, Serialize};
use twox_hash::XxHash3_64;

use crate::key::Key;

/// Name of the hash function in manifests.
pub const HASH_FUNCTION: &str = "xxh3-64";
/// Version of the bytes that are hashed.
pub const HASH_VERSION: u32 = 1;

/// Bytes of a key that are hashed without memory from the allocator.
const SHORT_KEY: usize = 64;

const TWO_TO_63: f64 = 9_223_372_036_854_775_808.0;

/// The rule by which rows are to be split.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RouteBy {
    /// By a hash of these columns.
    Hash(Vec<String>),
    /// By ranges of this column, with as many rows in each part as the values allow.
    Range(String),
    /// By count: as many rows in each part.
    Rows,
    /// By size: as many bytes of rows in each part.
    Bytes,
}

impl RouteBy {
    /// The columns that say where a row is.
    pub fn columns(&self) -> Vec<&str> {
        match self {
            Self::Hash(columns) => columns.iter().map(String::as_str).collect(),
            Self::Range(column) => vec![column],
            Self::Rows | Self::Bytes => Vec::new(),
        }
    }

    /// True if rows that are equal in these columns are always in one part.
    pub fn keeps_together(&self, columns: &[String]) -> bool {
        let is_one = |name: &str| columns.iter().any(|column| column.eq_ignore_ascii_case(name));
        let split_by = self.columns();
        !split_by.is_empty() && split_by.into_iter().all(is_one)
    }
}

impl FromStr for RouteBy {
    type Err = String;

    /// Reads `hash(A,B)`, `range(A)`, `rows` or `bytes`. A name with a comma or a bracket stands in double quotes.
    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || {
            format!("'{text}' is not a way to split: choose hash(COL,…), range(COL), rows or bytes")
        };
        let text = text.trim();
        if let Some((kind, rest)) = text.split_once('(') {
            let names = rest.strip_suffix(')').ok_or_else(wrong)?;
            let names = names_of(names)?;
            return match kind.trim().to_ascii_lowercase().as_str() {
                "hash" => Ok(Self::Hash(names)),
                "range" => match <[String; 1]>::try_from(names) {
                    Ok([column]) => Ok(Self::Range(column)),
                    Err(_) => Err("ranges are of one column: range(COL)".to_owned()),
                },
                _ => Err(wrong()),
            };
        }
        match text.to_ascii_lowercase().as_str() {
            "rows" => Ok(Self::Rows),
            "bytes" => Ok(Self::Bytes),
            _ => Err(wrong()),
        }
    }
}

/// The names between the brackets.
fn names_of(text: &str) -> Result<Vec<String>, String> {
    let mut names = Vec::new();
    let mut rest = Some(text);
    while let Some(text) = rest {
        let (quoted, behind) = quoted_name(text.trim_start()).unzip();
        let behind = behind.unwrap_or(text);
        let (word, after) = behind.split_once(',').unzip();
        let word = word.unwrap_or(behind).trim();
        names.push(match quoted {
            Some(name) if word.is_empty() => name,
            Some(_) => return Err(format!("a comma is missing before '{word}'")),
            None if word.is_empty() => {
                return Err("a column's name is missing between the brackets".to_owned());
            }
            None => word.to_owned(),
        });
        rest = after;
    }
    Ok(names)
}

/// A name as it is written between the brackets.
fn written(name: &str) -> String {
    let is_plain = name.trim() == name && !name.starts_with('"') && !name.contains([',', '(', ')']);
    if is_plain { name.to_owned() } else { quote_identifier(name) }
}

impl fmt::Display for RouteBy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Hash(columns) => {
                let names: Vec<_> = columns.iter().map(|name| written(name)).collect();
                write!(f, "hash({})", names.join(","))
            }
            Self::Range(column) => write!(f, "range({})", written(column)),
            Self::Rows => f.write_str("rows"),
            Self::Bytes => f.write_str("bytes"),
        }
    }
}

/// The rule by which rows were split, as a manifest has it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "by", rename_all = "lowercase")]
pub enum Routing {
    /// By a hash of columns.
    Hash {
        /// The columns, in this order.
        columns: Vec<String>,
        /// Name of the function: [`HASH_FUNCTION`].
        function: String,
        /// Seed of the function.
        seed: u64,
        /// Version of the bytes that are hashed: [`HASH_VERSION`].
        version: u32,
    },
    /// By ranges of a column.
    Range {
        /// The column.
        column: String,
        /// The smallest key of each part but the first, in ascending order.
        bounds: Vec<Key>,
    },
    /// By count.
    Rows,
    /// By size.
    Bytes,
}

impl Routing {
    /// By a hash of these columns, with this seed.
    pub fn hash(columns: Vec<String>, seed: u64) -> Self {
        Self::Hash { columns, function: HASH_FUNCTION.to_owned(), seed, version: HASH_VERSION }
    }

    /// Number of parts where `wanted` are asked for: ranges have one more than bounds.
    pub fn parts(&self, wanted: usize) -> usize {
        match self {
            Self::Range { bounds, .. } => bounds.len() + 1,
            _ => wanted,
        }
    }

    /// The columns that say where a row is.
    pub fn columns(&self) -> &[String] {
        match self {
            Self::Hash { columns, .. } => columns,
            Self::Range { column, .. } => std::slice::from_ref(column),
            Self::Rows | Self::Bytes => &[],
        }
    }

    /// The part of a row with these values in the routing columns; `None` if only a look into all
    /// parts tells, because rows were split by count or by size.
    ///
    /// ```
    /// use leafpress_shards::{Key, Routing};
    /// use leafpress::load::Value;
    ///
    /// let bounds = vec![Key::Integer(10), Key::Integer(20)];
    /// let routing = Routing::Range { column: "id".to_owned(), bounds };
    /// assert_eq!(routing.part_of(&[Value::Integer(10)], 3), Some(1));
    /// assert_eq!(routing.part_of(&[Value::Real(9.5)], 3), Some(0));
    /// ```
    pub fn part_of(&self, key: &[Value<'_>], parts: usize) -> Option<usize> {
        match self {
            Self::Hash { seed, .. } => Some((hash_of(key, *seed) % (parts.max(1) as u64)) as usize),
            Self::Range { bounds, .. } => {
                let key = key.first()?;
                Some(bounds.partition_point(|bound| bound.compare(key).is_le()))
            }
            Self::Rows | Self::Bytes => None,
        }
    }

    /// Reason why this version cannot follow the rule.
    pub(crate) fn problem(&self, parts: usize) -> Option<String> {
        match self {
            Self::Hash { function, version, columns, .. } => {
                let is_known = function == HASH_FUNCTION && *version == HASH_VERSION;
                if !is_known {
                    return Some(format!(
                        "the hash {function}, version {version}, is not known here"
                    ));
                }
                columns.is_empty().then(|| "a hash of no columns".to_owned())
            }
            Self::Range { bounds, .. } => {
                let ascend = bounds.is_sorted_by(|one, next| one.compare(&next.value()).is_lt());
                if !ascend {
                    return Some("the bounds do not ascend".to_owned());
                }
                (bounds.len() + 1 != parts)
                    .then(|| format!("{} bounds for {parts} parts", bounds.len()))
            }
            Self::Rows | Self::Bytes => None,
        }
    }
}

/// The hash of a key: of the values of the routing columns, in their order.
pub fn hash_of(values: &[Value<'_>], seed: u64) -> u64 {
    let length = values.iter().map(encoded_length).sum();
    let (mut short, mut long) = ([0; SHORT_KEY], Vec::new());
    let bytes = if length <= SHORT_KEY {
        &mut short[..length]
    } else {
        long.resize(length, 0);
        &mut long[..]
    };
    let mut rest = &mut *bytes;
    for value in values {
        let (own, others) = rest.split_at_mut(encoded_length(value));
        encode(value, own);
        rest = others;
    }
    XxHash3_64::oneshot_with_seed(seed, bytes)
}

/// Number of bytes of a value that are hashed.
fn encoded_length(value: &Value<'_>) -> usize {
    match value {
        Value::Null => 1,
        Value::Integer(_) | Value::Real(_) => 9,
        Value::Text(content) | Value::Blob(content) => 9 + content.len(),
    }
}

fn encode(value: &Value<'_>, into: &mut [u8]) {
    let (tag, number, content) = match *value {
        Value::Null => (0, [0; 8], &[][..]),
        Value::Integer(integer) => (1, integer.to_le_bytes(), &[][..]),
        Value::Real(real) => match whole(real) {
            Some(integer) => (1, integer.to_le_bytes(), &[][..]),
            None => (2, real.to_bits().to_le_bytes(), &[][..]),
        },
        Value::Text(text) => (3, (text.len() as u64).to_le_bytes(), text),
        Value::Blob(blob) => (4, (blob.len() as u64).to_le_bytes(), blob),
    };
    into[0] = tag;
    if let Some((of_number, of_content)) = into[1..].split_at_mut_checked(8) {
        of_number.copy_from_slice(&number);
        of_content.copy_from_slice(content);
    }
}

/// The integer that a real is equal to.
fn whole(real: f64) -> Option<i64> {
    let fits = (-TWO_TO_63..TWO_TO_63).contains(&real) && real.fract() == 0.0;
    fits.then_some(real as i64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ways_to_split_are_read_and_written() {
        for text in [
            "hash(id)",
            "hash(a,b c)",
            "hash(\"a,b\",\"c \"\"(d)\"\"\",e)",
            "range(ts)",
            "range(\" a\")",
            "rows",
            "bytes",
        ] {
            assert_eq!(text.parse::<RouteBy>().expect(text).to_string(), text);
        }
        let two = ["a,b".to_owned(), "c".to_owned()].to_vec();
        assert_eq!("hash( \"a,b\" , \"c\" )".parse(), Ok(RouteBy::Hash(two)));
        assert_eq!("HASH( id )".parse(), Ok(RouteBy::Hash(vec!["id".to_owned()])));
        for text in
            ["", "hash", "hash()", "hash(a,)", "range(a,b)", "round(a)", "hash(a", "hash(\"a\"b)"]
        {
            assert!(text.parse::<RouteBy>().is_err(), "{text}");
        }
    }

    /// The values are those of the reference implementation of XXH3.
    #[test]
    fn the_hash_is_the_one_that_is_named() {
        assert_eq!(hash_of(&[], 0), 0x2d06_8005_38d3_94c2);
    }

    /// Manifests that were published say where a key is by these bytes.
    #[test]
    fn the_bytes_that_are_hashed_are_those_that_are_documented() {
        let eight = |number: u64| number.to_le_bytes().to_vec();
        let long = vec![b'x'; 1000];
        let documented = [
            (Value::Null, vec![0]),
            (Value::Integer(-2), [vec![1], eight(-2_i64 as u64)].concat()),
            (Value::Real(3.0), [vec![1], eight(3)].concat()),
            (Value::Real(0.5), [vec![2], eight(0.5_f64.to_bits())].concat()),
            (Value::Text("né".as_bytes()), [vec![3], eight(3), "né".into()].concat()),
            (Value::Blob(&[0, 255]), [vec![4], eight(2), vec![0, 255]].concat()),
            (Value::Text(b""), [vec![3], eight(0)].concat()),
            (Value::Text(&long), [vec![3], eight(1000), long.clone()].concat()),
        ];
        for (value, bytes) in &documented {
            assert_eq!(hash_of(&[*value], 5), XxHash3_64::oneshot_with_seed(5, bytes), "{value:?}");
        }
        let key: Vec<_> = documented.iter().map(|(value, _)| *value).collect();
        let bytes: Vec<_> = documented.into_iter().flat_map(|(_, bytes)| bytes).collect();
        assert_eq!(hash_of(&key, 5), XxHash3_64::oneshot_with_seed(5, &bytes));
    }

    #[test]
    fn equal_values_have_equal_hashes() {
        let hash = |value| hash_of(&[value], 7);
        assert_eq!(hash(Value::Integer(1)), hash(Value::Real(1.0)));
        assert_eq!(hash(Value::Integer(0)), hash(Value::Real(-0.0)));
        assert_eq!(hash(Value::Integer(i64::MIN)), hash(Value::Real(-TWO_TO_63)));
        assert_ne!(hash(Value::Integer(i64::MAX)), hash(Value::Real(TWO_TO_63)));
        assert_ne!(hash(Value::Text(b"1")), hash(Value::Blob(b"1")));
        let two = |one, other| hash_of(&[Value::Text(one), Value::Text(other)], 0);
        assert_ne!(two(b"ab", b"c"), two(b"a", b"bc"));
    }
}
