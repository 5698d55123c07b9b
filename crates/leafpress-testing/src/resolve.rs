//! Recipes made into cases.

use crate::order::compare_keys;
use crate::recipe::{
    BulkRecipe, KeyRecipe, KindRecipe, Recipe, RowRecipe, StretchRecipe, TableRecipe, ValueRecipe,
};
use crate::schema::{Affinity, Case, Collation, Column, Index, KeyColumn, Row, Table, TableKind};
use crate::value::OwnedValue;
use leafpress_format::PageLayout;

/// Content of a case, at most: cases are many and have to be quick.
const CONTENT_BYTES_MAX: usize = 2_000_000;
/// `SQLITE_MAX_COLUMN`, less a rowid alias.
const COLUMNS_MAX: usize = 1999;
/// Tables of a case; those of the schema table have a test of their own.
const TABLES_MAX: usize = 40;
const INDEXES_MAX: usize = 4;
const TEXT_BYTES_MAX: usize = 9000;
const BULK_ROWS_MAX: usize = 3000;

impl Recipe {
    /// The case that it stands for.
    ///
    /// # Panics
    ///
    /// Never: every recipe stands for one.
    pub fn resolve(&self) -> Case {
        let page_bytes = 512 << (self.page_size_shift % 8);
        // SQLite opens no file whose pages have less than 480 bytes left.
        let reserved_bytes = u32::from(self.reserved_bytes) % (page_bytes - 480 + 1);
        let layout =
            PageLayout::with_reserved(page_bytes, reserved_bytes as u8).expect("a page size");
        let mut budget_bytes = CONTENT_BYTES_MAX;
        let tables = self.tables.iter().take(TABLES_MAX).enumerate();
        let tables =
            tables.map(|(index, table)| resolve_table(table, index, layout, &mut budget_bytes));
        Case { layout, tables: tables.collect() }
    }
}

fn resolve_table(
    recipe: &TableRecipe,
    table_index: usize,
    layout: PageLayout,
    budget_bytes: &mut usize,
) -> Table {
    let affinity = |n: &u8| match n % 4 {
        0 => Affinity::Any,
        1 => Affinity::Integer,
        2 => Affinity::Real,
        _ => Affinity::Text,
    };
    let mut affinities: Vec<Affinity> =
        recipe.affinities.iter().take(COLUMNS_MAX).map(affinity).collect();
    if affinities.is_empty() {
        affinities.push(Affinity::Any);
    }
    let column =
        |(index, affinity): (usize, Affinity)| Column { name: format!("c{index}"), affinity };
    let columns: Vec<Column> = affinities.into_iter().enumerate().map(column).collect();
    let mut table = Table {
        name: format!("t{table_index}"),
        kind: resolve_kind(&recipe.kind, &columns),
        columns,
        comment_bytes: usize::from(recipe.comment_bytes) % 4000,
        rows: Vec::new(),
        runs: 1 + usize::from(recipe.runs % 5),
        indexes: Vec::new(),
    };
    for (index, recipe) in recipe.indexes.iter().take(INDEXES_MAX).enumerate() {
        let mut key: Vec<KeyColumn> =
            recipe.columns.iter().take(6).map(|k| key_column(k, table.columns.len())).collect();
        if key.is_empty() {
            key.push(KeyColumn {
                column_index: 0,
                collation: Collation::Binary,
                descending: false,
            });
        }
        table.indexes.push(Index { name: format!("i{table_index}_{index}"), columns: key });
    }
    for row in &recipe.rows {
        add_row(&mut table, row, layout, budget_bytes);
    }
    add_bulk(&mut table, &recipe.bulk, layout, budget_bytes);
    sort_rows(&mut table);
    table
}

fn resolve_kind(recipe: &KindRecipe, columns: &[Column]) -> TableKind {
    match recipe {
        KindRecipe::Rowid => TableKind::Rowid,
        KindRecipe::RowidAlias => TableKind::RowidAlias,
        KindRecipe::WithoutRowid(parts) => {
            let mut key: Vec<KeyColumn> = Vec::new();
            for part in parts.iter().take(5) {
                let part = key_column(part, columns.len());
                if key.iter().all(|other| other.column_index != part.column_index) {
                    key.push(part);
                }
            }
            if key.is_empty() {
                key.push(KeyColumn {
                    column_index: 0,
                    collation: Collation::Binary,
                    descending: false,
                });
            }
            // SQLite forgets the collation of a lone INTEGER key, which would
            // alias the rowid if there was one.
            if let [part] = key.as_mut_slice()
                && columns[part.column_index].affinity == Affinity::Integer
            {
                part.collation = Collation::Binary;
            }
            TableKind::WithoutRowid(key)
        }
    }
}

fn key_column(recipe: &KeyRecipe, columns: usize) -> KeyColumn {
    KeyColumn {
        column_index: usize::from(recipe.column) % columns,
        collation: match recipe.collation % 3 {
            0 => Collation::Binary,
            1 => Collation::NoCase,
            _ => Collation::RTrim,
        },
        descending: recipe.descending,
    }
}

/// Invariants 1 and 2 of a table.
fn sort_rows(table: &mut Table) {
    if let TableKind::WithoutRowid(key) = &table.kind {
        table.rows.sort_by(|left, right| compare_keys(key, left, right));
        table.rows.dedup_by(|left, right| compare_keys(key, left, right).is_eq());
    } else {
        table.rows.sort_by_key(|row| row.rowid);
        table.rows.dedup_by_key(|row| row.rowid);
    }
}

fn add_row(table: &mut Table, recipe: &RowRecipe, layout: PageLayout, budget_bytes: &mut usize) {
    let null = [ValueRecipe::Null];
    let values = if recipe.values.is_empty() { &null } else { recipe.values.as_slice() };
    let shift = 63 - recipe.rowid_bits % 64;
    let mut row = Row { rowid: recipe.rowid >> shift, values: Vec::new() };
    for (column, value) in table.columns.iter().zip(values.iter().cycle()) {
        row.values.push(suit(resolve_value(value), column.affinity));
    }
    if let TableKind::WithoutRowid(key) = &table.kind {
        for part in key {
            let value = &mut row.values[part.column_index];
            if value.is_null() {
                *value = OwnedValue::Blob(Vec::new());
            }
        }
    }
    if let Some(stretch) = &recipe.stretch {
        stretch_row(table, &mut row, stretch, layout);
    }
    let content: usize = row.values.iter().map(OwnedValue::content_bytes).sum();
    if let Some(rest) = budget_bytes.checked_sub(content + row.values.len() * 8) {
        *budget_bytes = rest;
        table.rows.push(row);
    }
}

fn add_bulk(table: &mut Table, recipe: &BulkRecipe, layout: PageLayout, budget_bytes: &mut usize) {
    let mut random = Random(recipe.seed);
    let text_bytes_max = u64::from(recipe.text_bytes_max % 512) + 1;
    let mut rowid = random.next() as i64 >> (1 + random.next() % 62);
    for _ in 0..usize::from(recipe.rows) % BULK_ROWS_MAX {
        let mut values = Vec::new();
        for _ in 0..table.columns.len().min(7) {
            let (bits, seed) = (random.next(), random.next() as u8);
            let bytes = (bits >> 32) % text_bytes_max;
            values.push(match bits % 8 {
                0 => ValueRecipe::Null,
                1 => ValueRecipe::Integer(bits as i64 >> (seed % 64)),
                2 => ValueRecipe::IntegerNear { bit: seed, delta: 0, negative: bits & 64 == 0 },
                3 => ValueRecipe::RealNear { bit: seed, quarters: 1, negative: bits & 64 == 0 },
                4 => ValueRecipe::Blob { bytes: bytes as u16, seed },
                _ => ValueRecipe::Text { bytes: bytes as u16, seed },
            });
        }
        let gap = random.next() & ((1 << (recipe.gap_bits % 52)) - 1);
        rowid = rowid.wrapping_add(1 + gap as i64);
        let row = RowRecipe { rowid, rowid_bits: 63, values, stretch: None };
        add_row(table, &row, layout, budget_bytes);
    }
}

fn resolve_value(recipe: &ValueRecipe) -> OwnedValue {
    match *recipe {
        ValueRecipe::Null => OwnedValue::Null,
        ValueRecipe::IntegerNear { bit, delta, negative } => {
            let value = (1i64 << (bit % 64)).wrapping_add(i64::from(delta));
            OwnedValue::Integer(if negative { value.wrapping_neg() } else { value })
        }
        ValueRecipe::Integer(value) => OwnedValue::Integer(value),
        ValueRecipe::RealBits(bits) => OwnedValue::Real(f64::from_bits(bits)),
        ValueRecipe::RealNear { bit, quarters, negative } => {
            let power = if bit % 64 == 63 { 0.0 } else { (1u64 << (bit % 64)) as f64 };
            let value = power + f64::from(quarters) / 4.0;
            OwnedValue::Real(if negative { -value } else { value })
        }
        ValueRecipe::RealSpecial(n) => OwnedValue::Real(special_real(n)),
        ValueRecipe::Text { bytes, seed } => {
            OwnedValue::Text(text(usize::from(bytes) % TEXT_BYTES_MAX, seed))
        }
        ValueRecipe::Blob { bytes, seed } => {
            OwnedValue::Blob(blob(usize::from(bytes) % TEXT_BYTES_MAX, seed))
        }
    }
}

fn special_real(n: u8) -> f64 {
    const SIX_BYTES: f64 = 140_737_488_355_328.0;
    const SPECIAL: [f64; 16] = [
        0.0,
        -0.0,
        f64::INFINITY,
        f64::NEG_INFINITY,
        f64::NAN,
        f64::MIN_POSITIVE,
        5e-324,
        -5e-324,
        f64::MAX,
        SIX_BYTES,
        SIX_BYTES - 1.0,
        -SIX_BYTES,
        -SIX_BYTES - 1.0,
        9_223_372_036_854_775_808.0,
        -9_223_372_036_854_775_808.0,
        9_007_199_254_740_992.0,
    ];
    SPECIAL[usize::from(n) % SPECIAL.len()]
}

/// Invariant 3 of a table: a value that the column's affinity leaves alone.
fn suit(value: OwnedValue, affinity: Affinity) -> OwnedValue {
    match (affinity, value) {
        // A real in an INTEGER column becomes an integer if it is one.
        (Affinity::Integer, OwnedValue::Real(real)) => OwnedValue::Integer(real.to_bits() as i64),
        (Affinity::Real, OwnedValue::Integer(integer)) => OwnedValue::Real(integer as f64),
        (Affinity::Integer | Affinity::Real, OwnedValue::Text(text)) => {
            OwnedValue::Blob(text.into_bytes())
        }
        (Affinity::Text, OwnedValue::Integer(integer)) => OwnedValue::Text(integer.to_string()),
        (Affinity::Text, OwnedValue::Real(real)) => OwnedValue::Text(real.to_string()),
        (_, value) => value,
    }
}

/// Text of a length: some share long beginnings, some differ in case or in
/// spaces at the end only, some hold NUL or letters of two bytes.
fn text(bytes: usize, seed: u8) -> String {
    let letter = char::from(b'a' + seed / 8 % 4);
    let mut text = match seed % 8 {
        0 | 1 => letter.to_string().repeat(bytes),
        2 => letter.to_ascii_uppercase().to_string().repeat(bytes),
        3 => letter.to_string().repeat(bytes - bytes.min(3)) + &" ".repeat(bytes.min(3)),
        4 => "é".repeat(bytes / 2),
        5 => "a\0".repeat(bytes / 2),
        _ => {
            let mut random = Random(u64::from(seed));
            (0..bytes).map(|_| char::from(b" Aa[_`zZ~9"[random.next() as usize % 10])).collect()
        }
    };
    if text.len() < bytes {
        text.push('1');
    }
    text
}

fn blob(bytes: usize, seed: u8) -> Vec<u8> {
    let mut random = Random(u64::from(seed));
    match seed % 4 {
        0 => vec![0; bytes],
        1 => vec![0xff; bytes],
        _ => (0..bytes).map(|_| random.next() as u8).collect(),
    }
}

/// Lets a value grow until a record's length is at a threshold.
fn stretch_row(table: &Table, row: &mut Row, recipe: &StretchRecipe, layout: PageLayout) {
    let tree = usize::from(recipe.tree) % (1 + table.indexes.len());
    let (columns, is_table_leaf) = match tree.checked_sub(1) {
        None => (table.record_columns(), table.has_rowid()),
        Some(index) => {
            let entry = table.entry_columns(&table.indexes[index]);
            (entry.iter().map(|part| part.column_index).collect(), false)
        }
    };
    let payload_bytes = threshold_bytes(recipe, layout.usable(), is_table_leaf);
    let column_index = columns[usize::from(recipe.column) % columns.len()];
    let is_text = table.columns[column_index].affinity == Affinity::Text;
    let mut content_bytes = 0;
    // Growing may lengthen the serial type and with it the header: some
    // rounds settle it, or miss by a byte where no length fits.
    for _ in 0..4 {
        row.values[column_index] = if is_text {
            OwnedValue::Text(text(content_bytes, recipe.column))
        } else {
            OwnedValue::Blob(blob(content_bytes, recipe.column))
        };
        let record = columns.iter().map(|&column| (&row.values[column], &table.columns[column]));
        let mut bytes = record_bytes(record);
        match (tree, &table.kind) {
            (0, TableKind::RowidAlias) => bytes += 1,
            (0, _) | (_, TableKind::WithoutRowid(_)) => {}
            _ => bytes += 1 + integer_bytes(row.rowid),
        }
        content_bytes = (content_bytes + payload_bytes).saturating_sub(bytes);
    }
}

fn threshold_bytes(recipe: &StretchRecipe, usable: usize, is_table_leaf: bool) -> usize {
    let most = if is_table_leaf { usable - 35 } else { (usable - 12) * 64 / 255 - 23 };
    let least = (usable - 12) * 32 / 255 - 23;
    let base = if recipe.from_least { least } else { most };
    let overflow = usize::from(recipe.overflow_pages % 4) * (usable - 4);
    base + overflow + usize::from(recipe.delta % 5) - 2
}

/// Length of a record, by the format's description.
fn record_bytes<'a>(record: impl Iterator<Item = (&'a OwnedValue, &'a Column)>) -> usize {
    let (mut header, mut content) = (0, 0);
    for (value, column) in record {
        let (serial_type_bytes, content_bytes) = match value {
            _ if value.is_null() => (1, 0),
            OwnedValue::Null => (1, 0),
            OwnedValue::Integer(integer) => (1, integer_bytes(*integer)),
            OwnedValue::Real(real) => (1, real_bytes(*real, column.affinity)),
            OwnedValue::Text(_) | OwnedValue::Blob(_) => {
                let bytes = value.content_bytes();
                (varint_bytes(13 + 2 * bytes as u64), bytes)
            }
        };
        header += serial_type_bytes;
        content += content_bytes;
    }
    let own = if header < 127 { 1 } else { 2 };
    own + header + content
}

fn real_bytes(real: f64, affinity: Affinity) -> usize {
    let small = real.abs() < 140_737_488_355_328.0 && real.fract() == 0.0;
    if affinity == Affinity::Real && small { integer_bytes(real as i64) } else { 8 }
}

fn integer_bytes(integer: i64) -> usize {
    match integer {
        0 | 1 => 0,
        -0x80..=0x7f => 1,
        -0x8000..=0x7fff => 2,
        -0x80_0000..=0x7f_ffff => 3,
        -0x8000_0000..=0x7fff_ffff => 4,
        -0x8000_0000_0000..=0x7fff_ffff_ffff => 6,
        _ => 8,
    }
}

fn varint_bytes(value: u64) -> usize {
    (1..9).find(|bytes| value >> (7 * bytes) == 0).unwrap_or(9)
}

/// Splitmix64: small, and the same everywhere.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The generator must hit what it aims at, or the thresholds go untested.
    #[test]
    fn stretched_rows_meet_their_threshold() {
        for shift in 0..8 {
            for (from_least, overflow_pages, delta) in [(true, 1, 0), (false, 0, 2), (false, 3, 4)]
            {
                let stretch =
                    StretchRecipe { column: 0, tree: 0, from_least, overflow_pages, delta };
                let recipe = Recipe {
                    page_size_shift: shift,
                    reserved_bytes: 0,
                    tables: vec![TableRecipe {
                        affinities: vec![3, 1],
                        kind: KindRecipe::Rowid,
                        comment_bytes: 0,
                        rows: vec![RowRecipe {
                            rowid: 1,
                            rowid_bits: 63,
                            values: vec![ValueRecipe::Integer(7)],
                            stretch: Some(stretch.clone()),
                        }],
                        bulk: BulkRecipe { rows: 0, seed: 0, text_bytes_max: 0, gap_bits: 0 },
                        runs: 0,
                        indexes: Vec::new(),
                    }],
                };
                let case = recipe.resolve();
                let table = &case.tables[0];
                let bytes = record_bytes(table.rows[0].values.iter().zip(&table.columns));
                assert_eq!(bytes, threshold_bytes(&stretch, case.layout.usable(), true));
            }
        }
    }
}
