//! proptest strategies for recipes.
//!
//! Inputs that are likely to break the code come often: small pages, records at
//! thresholds, integers at the ends of their serial types.

use crate::recipe::{
    BulkRecipe, IndexRecipe, KeyRecipe, KindRecipe, Recipe, RowRecipe, StretchRecipe, TableRecipe,
    ValueRecipe,
};
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;

/// Whole files: one to three tables with rows and indexes.
pub fn recipes() -> impl Strategy<Value = Recipe> {
    let reserved_bytes = prop_oneof![3 => Just(0_u8), 1 => any::<u8>()];
    (page_size_shifts(), reserved_bytes, vec(tables(), 1..4)).prop_map(
        |(page_size_shift, reserved_bytes, tables)| Recipe {
            page_size_shift,
            reserved_bytes,
            tables,
        },
    )
}

/// Page sizes as shifts of 512; small ones, whose trees are deep, come often.
pub fn page_size_shifts() -> impl Strategy<Value = u8> {
    prop_oneof![4 => Just(0_u8), 2 => Just(1_u8), 2 => Just(3_u8), 2 => Just(7_u8), 2 => 0_u8..8]
}

fn tables() -> impl Strategy<Value = TableRecipe> {
    let affinities = prop_oneof![20 => vec(0_u8..4, 1..9), 1 => vec(0_u8..4, 100..400)];
    (
        affinities,
        kinds(),
        prop_oneof![3 => Just(0_u16), 1 => 0_u16..4000],
        vec(rows(), 0..30),
        bulks(),
        0_u8..5,
        vec(vec(keys(), 1..4).prop_map(|columns| IndexRecipe { columns }), 0..3),
    )
        .prop_map(|(affinities, kind, comment_bytes, rows, bulk, runs, indexes)| TableRecipe {
            affinities,
            kind,
            comment_bytes,
            rows,
            bulk,
            runs,
            indexes,
        })
}

fn kinds() -> impl Strategy<Value = KindRecipe> {
    prop_oneof![
        2 => Just(KindRecipe::Rowid),
        1 => Just(KindRecipe::RowidAlias),
        2 => vec(keys(), 1..4).prop_map(KindRecipe::WithoutRowid),
    ]
}

fn keys() -> impl Strategy<Value = KeyRecipe> {
    (0_u8..9, 0_u8..3, any::<bool>()).prop_map(|(column, collation, descending)| KeyRecipe {
        column,
        collation,
        descending,
    })
}

fn bulks() -> impl Strategy<Value = BulkRecipe> {
    let rows = prop_oneof![2 => Just(0_u16), 2 => 0_u16..200, 1 => 200_u16..3000];
    let text_bytes_max = prop_oneof![1_u16..20, 1_u16..512];
    (rows, any::<u64>(), text_bytes_max, 0_u8..52).prop_map(
        |(rows, seed, text_bytes_max, gap_bits)| BulkRecipe {
            rows,
            seed,
            text_bytes_max,
            gap_bits,
        },
    )
}

/// Rows with rowids of all lengths, about half of them at a threshold.
pub fn rows() -> impl Strategy<Value = RowRecipe> {
    (any::<i64>(), 0_u8..64, vec(values(), 1..9), option::of(stretches())).prop_map(
        |(rowid, rowid_bits, values, stretch)| RowRecipe { rowid, rowid_bits, values, stretch },
    )
}

fn stretches() -> impl Strategy<Value = StretchRecipe> {
    let overflow_pages = prop_oneof![3 => Just(0_u8), 1 => 1_u8..4];
    (any::<u8>(), 0_u8..4, any::<bool>(), overflow_pages, 0_u8..5).prop_map(
        |(column, tree, from_least, overflow_pages, delta)| StretchRecipe {
            column,
            tree,
            from_least,
            overflow_pages,
            delta,
        },
    )
}

/// Values of all storage classes.
pub fn values() -> impl Strategy<Value = ValueRecipe> {
    let text_bytes = || {
        prop_oneof![
            10 => 0_u16..20,
            2 => 50_u16..70,
            2 => 0_u16..300,
            1 => 8170_u16..8200,
        ]
    };
    prop_oneof![
        1 => Just(ValueRecipe::Null),
        3 => (0_u8..64, -2_i8..=2, any::<bool>())
            .prop_map(|(bit, delta, negative)| ValueRecipe::IntegerNear { bit, delta, negative }),
        1 => any::<i64>().prop_map(ValueRecipe::Integer),
        1 => any::<u64>().prop_map(ValueRecipe::RealBits),
        2 => (0_u8..64, -5_i8..=5, any::<bool>())
            .prop_map(|(bit, quarters, negative)| ValueRecipe::RealNear { bit, quarters, negative }),
        1 => any::<u8>().prop_map(ValueRecipe::RealSpecial),
        4 => (text_bytes(), any::<u8>()).prop_map(|(bytes, seed)| ValueRecipe::Text { bytes, seed }),
        2 => (text_bytes(), any::<u8>()).prop_map(|(bytes, seed)| ValueRecipe::Blob { bytes, seed }),
    ]
}
