//! Recipes: small descriptions of hostile cases. Any of them makes sense.
//!
//! Both kinds of generator make these: proptest, which shrinks them, and the
//! fuzzer, which turns any bytes into one. Numbers are taken modulo whatever
//! fits when a recipe is resolved (`resolve.rs`), so that there is no wrong one.

/// A page size, tables and rows.
#[derive(Debug, Clone)]
#[cfg_attr(feature = "arbitrary", derive(arbitrary::Arbitrary))]
pub struct Recipe {
    /// 512 shifted by this, modulo 8.
    pub page_size_shift: u8,
    /// Bytes at the end of each page that are not ours, modulo what the page size allows.
    pub reserved_bytes: u8,
    /// The tables.
    pub tables: Vec<TableRecipe>,
}

/// A table.
#[derive(Debug, Clone)]
#[cfg_attr(feature = "arbitrary", derive(arbitrary::Arbitrary))]
pub struct TableRecipe {
    /// An affinity per column, modulo 4; at least one column is made.
    pub affinities: Vec<u8>,
    /// Its storage: by rowid, or WITHOUT ROWID.
    pub kind: KindRecipe,
    /// Length of a comment in its CREATE statement.
    pub comment_bytes: u16,
    /// Rows one by one.
    pub rows: Vec<RowRecipe>,
    /// Rows by the hundred.
    pub bulk: BulkRecipe,
    /// Number of runs in which its leaves are pressed.
    pub runs: u8,
    /// Its indexes.
    pub indexes: Vec<IndexRecipe>,
}

/// Storage of a table.
#[derive(Debug, Clone)]
#[cfg_attr(feature = "arbitrary", derive(arbitrary::Arbitrary))]
pub enum KindRecipe {
    /// By rowid.
    Rowid,
    /// By rowid, which has a name.
    RowidAlias,
    /// By key.
    WithoutRowid(Vec<KeyRecipe>),
}

/// A column of a key.
#[derive(Debug, Clone)]
#[cfg_attr(feature = "arbitrary", derive(arbitrary::Arbitrary))]
pub struct KeyRecipe {
    /// Number of the column.
    pub column: u8,
    /// BINARY, NOCASE or RTRIM.
    pub collation: u8,
    /// True if the order is reversed.
    pub descending: bool,
}

/// An index; without columns it is over the first.
#[derive(Debug, Clone)]
#[cfg_attr(feature = "arbitrary", derive(arbitrary::Arbitrary))]
pub struct IndexRecipe {
    /// Columns that it sorts by.
    pub columns: Vec<KeyRecipe>,
}

/// A row.
#[derive(Debug, Clone)]
#[cfg_attr(feature = "arbitrary", derive(arbitrary::Arbitrary))]
pub struct RowRecipe {
    /// The rowid, before its bits are cut.
    pub rowid: i64,
    /// Number of its bits that stay: varints of all lengths.
    pub rowid_bits: u8,
    /// Values, repeated until every column has one.
    pub values: Vec<ValueRecipe>,
    /// Growth of one value until a record meets a threshold; `None`: no value grows.
    pub stretch: Option<StretchRecipe>,
}

/// A record length at a threshold of the format, give or take two bytes.
#[derive(Debug, Clone)]
#[cfg_attr(feature = "arbitrary", derive(arbitrary::Arbitrary))]
pub struct StretchRecipe {
    /// Number of the record's column that grows.
    pub column: u8,
    /// Tree of the record: the table or an index.
    pub tree: u8,
    /// True for the least that stays on the page, false for the most.
    pub from_least: bool,
    /// Full overflow pages beyond it, modulo 4.
    pub overflow_pages: u8,
    /// Distance from the threshold: this modulo 5, less 2.
    pub delta: u8,
}

/// A value, before its column's affinity has a say.
#[derive(Debug, Clone)]
#[cfg_attr(feature = "arbitrary", derive(arbitrary::Arbitrary))]
pub enum ValueRecipe {
    /// NULL.
    Null,
    /// The power of two of `bit`, plus a small `delta`, perhaps negated.
    IntegerNear {
        /// Modulo 64.
        bit: u8,
        /// Added.
        delta: i8,
        /// Negated.
        negative: bool,
    },
    /// Any integer.
    Integer(i64),
    /// Any bits, NaN included.
    RealBits(u64),
    /// The power of two of `bit`, plus quarters.
    RealNear {
        /// Modulo 64.
        bit: u8,
        /// Added.
        quarters: i8,
        /// Negated: −0.0 among others.
        negative: bool,
    },
    /// One of the reals that are unlike others.
    RealSpecial(u8),
    /// Text.
    Text {
        /// Its length; above 300 seldom useful, modulo 9000.
        bytes: u16,
        /// Seed of its characters.
        seed: u8,
    },
    /// A blob.
    Blob {
        /// Its length, as of text.
        bytes: u16,
        /// Seed of its bytes.
        seed: u8,
    },
}

/// Many rows that need no shrinking but by number.
#[derive(Debug, Clone)]
#[cfg_attr(feature = "arbitrary", derive(arbitrary::Arbitrary))]
pub struct BulkRecipe {
    /// Number of rows, modulo 3000.
    pub rows: u16,
    /// Seed of their values.
    pub seed: u64,
    /// Longest text, modulo 512: long keys make deep trees.
    pub text_bytes_max: u16,
    /// Rowids are this many bits apart, modulo 52.
    pub gap_bits: u8,
}
